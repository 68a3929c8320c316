"""The threads that share the iterations of one loop.

A pool of workers is started with the first program that has a loop worth sharing. A job is a
range of iterations: every thread, the caller as well, has a stripe of them and works through it
piece by piece, then helps with what is left of the other stripes. Loops over the same rows then
find a thread's rows in its own cache, where the loop before left them. Between jobs a worker looks
for work for some microseconds, then sleeps. A job that finds the pool busy (two Python threads, or
a job inside a job) is done by its caller alone.
"""

from __future__ import annotations

import ctypes
import os
import platform
from functools import cache, partial

from phix.kernels.cpu import jit

# How often a worker looks for work before it sleeps: some tens of microseconds.
SPINS = 4000
# Pieces of a thread's stripe: those left over even out what else runs on the machine.
PIECES_PER_THREAD = 4

# What a job is: @fn(@data, from, to) on pieces of 0..@extent. What is left after @whole grains
# belongs to the piece before: compiled loops do a few iterations in another way, with other bits.
# Each worker counts itself into @inside before it looks whether a job is @open, the caller closes
# the job before it waits for @inside to be 0: one of the two sees the other, so nobody works on a
# job that is over.
_TEXT = """
@fn = internal global ptr null
@data = internal global ptr null
@extent = internal global i64 0
@whole = internal global i64 0
@stripe = internal global i64 1
@piece = internal global i64 1
; of each stripe the first iteration that nobody has taken, in a cache line of its own
@next = internal global [THREADS x [8 x i64]] zeroinitializer, align 64
@inside = internal global i64 0, align 64
@open = internal global i64 0, align 64
@number = internal global i64 0, align 64
@busy = internal global i64 0, align 64
@sleepers = internal global i64 0, align 64
@workers = internal global i64 0
@mutex = internal global [128 x i8] zeroinitializer, align 64
@wake = internal global [128 x i8] zeroinitializer, align 64
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(ptr)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @sched_yield()

; Works on the stripe number %own, then on those behind it and those before.
define internal void @take_pieces(i64 %own) nounwind {
entry:
  %fn = load ptr, ptr @fn
  %data = load ptr, ptr @data
  %extent = load i64, ptr @extent
  %whole = load i64, ptr @whole
  %stripe = load i64, ptr @stripe
  %piece = load i64, ptr @piece
  %workers = load i64, ptr @workers
  %threads = add i64 %workers, 1
  br label %choose
choose:
  %tried = phi i64 [0, %entry], [%tried.next, %following]
  %number = add i64 %own, %tried
  %is_beyond = icmp uge i64 %number, %threads
  %below = sub i64 %number, %threads
  %k = select i1 %is_beyond, i64 %below, i64 %number
  %next = getelementptr inbounds [8 x i64], ptr @next, i64 %k
  %start = mul i64 %k, %stripe
  %stop = add i64 %start, %stripe
  %has_rest = icmp sge i64 %stop, %whole
  %bound = select i1 %has_rest, i64 %whole, i64 %stop
  %final = select i1 %has_rest, i64 %extent, i64 %stop
  br label %look
look:
  %seen = load atomic i64, ptr %next monotonic, align 8
  %is_open = icmp slt i64 %seen, %bound
  br i1 %is_open, label %take, label %following
take:
  %from = atomicrmw add ptr %next, i64 %piece monotonic
  %more = icmp slt i64 %from, %bound
  br i1 %more, label %work, label %following
work:
  %end = add nsw i64 %from, %piece
  %is_last = icmp sge i64 %end, %bound
  %to = select i1 %is_last, i64 %final, i64 %end
  call void %fn(ptr %data, i64 %from, i64 %to)
  br label %look
following:
  %tried.next = add i64 %tried, 1
  %is_over = icmp uge i64 %tried.next, %threads
  br i1 %is_over, label %done, label %choose
done:
  ret void
}

; Waits until a job with another number than %seen is there, and returns its number.
define internal i64 @await(i64 %seen) nounwind {
entry:
  br label %look
look:
  %spins = phi i64 [0, %entry], [%spins.next, %pause]
  %now = load atomic i64, ptr @number seq_cst, align 8
  %is_new = icmp ne i64 %now, %seen
  br i1 %is_new, label %found, label %idle
idle:
  %spins.next = add i64 %spins, 1
  %is_over = icmp uge i64 %spins, SPINS
  br i1 %is_over, label %sleep, label %pause
pause:
  PAUSE
  br label %look
sleep:
  call i32 @pthread_mutex_lock(ptr @mutex)
  atomicrmw add ptr @sleepers, i64 1 seq_cst
  br label %check
check:
  %later = load atomic i64, ptr @number seq_cst, align 8
  %came = icmp ne i64 %later, %seen
  br i1 %came, label %awake, label %wait
wait:
  call i32 @pthread_cond_wait(ptr @wake, ptr @mutex)
  br label %check
awake:
  atomicrmw sub ptr @sleepers, i64 1 seq_cst
  call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %found
found:
  %number = phi i64 [%now, %look], [%later, %awake]
  ret i64 %number
}

; A worker that comes late misses a job, whose other threads do it all.
define internal ptr @worker(ptr %own.stripe) nounwind {
entry:
  %own = ptrtoint ptr %own.stripe to i64
  %first = load atomic i64, ptr @number seq_cst, align 8
  br label %loop
loop:
  %seen = phi i64 [%first, %entry], [%number, %leave]
  %number = call i64 @await(i64 %seen)
  atomicrmw add ptr @inside, i64 1 seq_cst
  %is_open = load atomic i64, ptr @open seq_cst, align 8
  %go = icmp ne i64 %is_open, 0
  br i1 %go, label %work, label %leave
work:
  call void @take_pieces(i64 %own)
  br label %leave
leave:
  atomicrmw sub ptr @inside, i64 1 seq_cst
  br label %loop
}

; Starts workers until there are %wanted; after a fork there are none, whatever was counted.
define void @phix_start_workers(i64 %wanted, i64 %present) nounwind {
entry:
  %thread = alloca i64
  store i64 %present, ptr @workers
  call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  call i32 @pthread_cond_init(ptr @wake, ptr null)
  store i64 0, ptr @inside
  store i64 0, ptr @sleepers
  store i64 0, ptr @busy
  br label %test
test:
  %count = load i64, ptr @workers
  %more = icmp slt i64 %count, %wanted
  br i1 %more, label %start, label %done
start:
  %counted = add i64 %count, 1
  %own.stripe = inttoptr i64 %counted to ptr
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr %own.stripe)
  %works = icmp eq i32 %failed, 0
  br i1 %works, label %count_it, label %done
count_it:
  %id = load ptr, ptr %thread
  call i32 @pthread_detach(ptr %id)
  store i64 %counted, ptr @workers
  br label %test
done:
  ret void
}

; The length of each of %count parts of %whole, a multiple of %grain.
define internal i64 @part(i64 %whole, i64 %count, i64 %grain) nounwind {
entry:
  %raised = add i64 %whole, %count
  %above = sub i64 %raised, 1
  %even = udiv i64 %above, %count
  %grained = add i64 %even, %grain
  %less = sub i64 %grained, 1
  %grains = udiv i64 %less, %grain
  %length = mul i64 %grains, %grain
  ret i64 %length
}

; %fn(%data, from, to) on pieces that together are 0..%extent: each is %grain iterations long or
; longer and, but for the last, a multiple of them.
define void @phix_share(ptr %fn, ptr %data, i64 %extent, i64 %grain) nounwind {
  call void @phix_share_in(ptr %fn, ptr %data, i64 %extent, i64 %grain, i64 PIECES)
  ret void
}

; The same, in so many pieces for each thread.
define void @phix_share_in(ptr %fn, ptr %data, i64 %extent, i64 %grain, i64 %pieces) nounwind {
entry:
  %workers = load i64, ptr @workers
  %none = icmp eq i64 %workers, 0
  %rest = urem i64 %extent, %grain
  %whole = sub i64 %extent, %rest
  %few = icmp sle i64 %whole, %grain
  %is_one = or i1 %none, %few
  br i1 %is_one, label %alone, label %claim
claim:
  %was_busy = atomicrmw xchg ptr @busy, i64 1 acquire
  %is_free = icmp eq i64 %was_busy, 0
  br i1 %is_free, label %share, label %alone
alone:
  call void %fn(ptr %data, i64 0, i64 %extent)
  ret void
share:
  %threads = add i64 %workers, 1
  %stripe = call i64 @part(i64 %whole, i64 %threads, i64 %grain)
  %piece = call i64 @part(i64 %stripe, i64 %pieces, i64 %grain)
  store ptr %fn, ptr @fn
  store ptr %data, ptr @data
  store i64 %extent, ptr @extent
  store i64 %whole, ptr @whole
  store i64 %stripe, ptr @stripe
  store i64 %piece, ptr @piece
  br label %set
set:
  %k = phi i64 [0, %share], [%k.next, %set]
  %next = getelementptr inbounds [8 x i64], ptr @next, i64 %k
  %start = mul i64 %k, %stripe
  store i64 %start, ptr %next
  %k.next = add i64 %k, 1
  %is_set = icmp uge i64 %k.next, %threads
  br i1 %is_set, label %publish, label %set
publish:
  store atomic i64 1, ptr @open seq_cst, align 8
  %old = atomicrmw add ptr @number, i64 1 seq_cst
  %asleep = load atomic i64, ptr @sleepers seq_cst, align 8
  %must_wake = icmp ne i64 %asleep, 0
  br i1 %must_wake, label %ring, label %work
ring:
  call i32 @pthread_mutex_lock(ptr @mutex)
  call i32 @pthread_cond_broadcast(ptr @wake)
  call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %work
work:
  call void @take_pieces(i64 0)
  store atomic i64 0, ptr @open seq_cst, align 8
  br label %wait
wait:
  %spins = phi i64 [1, %work], [%spins.next, %idle], [%spins.next, %yield]
  %others = load atomic i64, ptr @inside seq_cst, align 8
  %is_done = icmp eq i64 %others, 0
  br i1 %is_done, label %done, label %still
still:
  %spins.next = add i64 %spins, 1
  %low = and i64 %spins, 255
  %give_up = icmp eq i64 %low, 0
  br i1 %give_up, label %yield, label %idle
idle:
  PAUSE
  br label %wait
yield:
  call i32 @sched_yield()
  br label %wait
done:
  store atomic i64 0, ptr @busy release, align 8
  ret void
}
"""

DECLARATION = "declare void @phix_share(ptr, ptr, i64, i64)"
IN_PIECES = "declare void @phix_share_in(ptr, ptr, i64, i64, i64)"

# How a CPU is told that a loop waits: LLVM intrinsic, types and values of its arguments.
_X86, _ARM = ("llvm.x86.sse2.pause", "", ""), ("llvm.aarch64.hint", "i32", "i32 1")
_PAUSES = {"x86_64": _X86, "AMD64": _X86, "aarch64": _ARM, "arm64": _ARM}


def thread_count() -> int:
    """How many threads share a loop: PHIX_NUM_THREADS, else OMP_NUM_THREADS, else the CPUs.

    Raises:
        ValueError: PHIX_NUM_THREADS holds no positive number.
    """
    named = os.environ.get("PHIX_NUM_THREADS", "").strip()
    if named:
        if not named.isdigit() or int(named) < 1:
            raise ValueError(
                f"PHIX_NUM_THREADS must be a positive number of threads, it is {named!r}"
            )
        return int(named)
    # OpenMP's may be a list, one number a level of nesting
    outermost = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if outermost.isdigit() and int(outermost):
        return int(outermost)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def bind() -> None:
    """Make ``phix_share`` known to compiled code, and start the workers."""
    names = ("phix_start_workers", "phix_share", "phix_share_in")
    start, *shares = jit.addresses(_module(), names, is_final=True)
    for name, share in zip(names[1:], shares):
        jit.add_symbol(name, share)
    start_workers = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(start)
    workers = thread_count() - 1
    start_workers(workers, 0)
    if hasattr(os, "register_at_fork"):
        # a forked process has the thread that forked, and no other
        os.register_at_fork(after_in_child=lambda: start_workers(workers, 0))


def provide(name: str) -> None:
    """See ``jit._provide``."""
    bind()


def begin() -> None:
    """Start on the machine code, beside what the caller goes on with."""
    if not jit.is_provided("phix_share"):
        jit.begin(_module())


def _module() -> partial[str]:
    return partial(_text, platform.machine(), thread_count())


def _text(machine: str, threads: int) -> str:
    numbers = {"SPINS": SPINS, "PIECES": PIECES_PER_THREAD, "THREADS": threads}
    text = _TEXT
    for name, number in numbers.items():
        text = text.replace(name, str(number))
    pause = _PAUSES.get(machine)
    if pause is None:
        return text.replace("PAUSE", "")
    name, types, values = pause
    called = text.replace("PAUSE", f"call void @{name}({values})")
    return f"declare void @{name}({types})\n{called}"
