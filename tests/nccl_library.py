"""A stand-in for ``cupy.cuda.nccl`` whose ranks are threads of one process, on emulated GPUs.

It has the names and arguments that CuPy 14 has, and is strict where NCCL would hang or go wrong:
all ranks must do the same, a step is recorded by all or by none, and what is replayed is of one
recording. ``Ranks`` runs a function on each rank of a mesh; its threads talk as mpi4py would let
them. What it shows is that the engine calls NCCL right, not that NCCL does what it should.
"""

from __future__ import annotations

import ctypes
import itertools
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import emulated_gpu
from cuda_emulator import STREAM
from phix.kernels.gpu import device, nccl
from phix.parallel.exchange import Group
from phix.parallel.meshes import Mesh

WATCH = nccl._watch
_CUDA = "emulated_cuda"  # a package in which nccl is no attribute, as in CuPy's
PATIENCE = 20.0  # seconds; real ranks would wait for ever
HERE = threading.local()  # the rank that a thread is, and what it records


def memory(address: int, count: int, dtype: Any) -> np.ndarray:
    """The numbers at an address."""
    raw = (ctypes.c_uint8 * (count * np.dtype(dtype).itemsize)).from_address(address)
    return np.frombuffer(raw, dtype)


class NcclError(RuntimeError):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Clique:
    """What the communicators with one mark have in common."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.barrier = threading.Barrier(size)
        self.posts: list[Any] = [None] * size
        self.mail = {p: queue.Queue() for p in itertools.product(range(size), repeat=2)}

    def meet(self, rank: int, post: Any) -> list[Any]:
        """What each rank posts."""
        self.posts[rank] = post
        self.barrier.wait(PATIENCE)
        found = list(self.posts)
        self.barrier.wait(PATIENCE)
        return found


class Library:
    """The module."""

    NCCL_SUM, NCCL_PROD, NCCL_MAX, NCCL_MIN = 0, 1, 2, 3
    NCCL_INT8, NCCL_UINT8, NCCL_INT32, NCCL_UINT32, NCCL_INT64, NCCL_UINT64 = range(6)
    NCCL_FLOAT16, NCCL_FLOAT32, NCCL_FLOAT64, NCCL_BFLOAT16 = 6, 7, 8, 9
    DTYPES = ("i1", "u1", "i4", "u4", "i8", "u8", "f2", "f4", "f8")
    NcclError = NcclError

    def __init__(self) -> None:
        self.available, self.version = True, 22501
        self.marks = itertools.count()
        self.cliques: dict[bytes, Clique] = {}
        self.lock = threading.Lock()
        self.calls: list[tuple[Any, ...]] = []  # rank, step, how many numbers
        self.ended: list[str] = []
        self.fails: dict[str, str] = {}  # calls that fail, and what they say
        self.NcclCommunicator = partial(Communicator, self)

    def get_version(self) -> int:
        return self.version

    def get_unique_id(self) -> bytes:
        return f"{next(self.marks)}".encode().ljust(128, b"\0")

    def clique(self, mark: bytes, size: int) -> Clique:
        with self.lock:
            return self.cliques.setdefault(mark, Clique(size))

    def groupStart(self) -> None:
        assert getattr(HERE, "group", None) is None, "groups are not put into each other here"
        HERE.group = []

    def groupEnd(self) -> None:
        calls, HERE.group = HERE.group, None
        assert calls, "an empty group"
        start = lambda: [call() for call in sorted(calls, key=lambda c: c.func.__name__ == "take")]  # noqa: E731
        if HERE.tape is None:
            start()
        else:
            HERE.tape.append(start)


class Communicator:
    def __init__(self, library: Library, ndev: int, mark: bytes, rank: int) -> None:
        assert type(mark) is bytes and len(mark) == 128 and 0 <= rank < ndev
        if "init" in library.fails:
            raise NcclError(2, library.fails["init"])
        self.library, self.rank, self.clique = library, rank, library.clique(mark, ndev)
        self.is_open = True
        self.clique.meet(rank, "init")

    def _start(self, name: str, numbers: tuple[int, ...], stream: int, do: Any) -> None:
        """Do a step now, or when what is recorded is replayed."""
        assert self.is_open and all(type(n) is int for n in numbers)
        assert stream == STREAM, "not the current stream"
        if name in self.library.fails:
            raise NcclError(5, self.library.fails[name])
        self.library.calls.append((HERE.rank, name, numbers[0]))

        def step(graph: Any = None) -> None:
            posts = self.clique.meet(self.rank, (name, numbers, graph))
            assert len(set(posts)) == 1, f"the ranks do different things: {posts}"
            do()
            self.clique.barrier.wait(PATIENCE)

        if HERE.tape is None:
            step()
        else:
            number = sum(type(work) is partial for work in HERE.tape)
            HERE.tape.append(partial(step, (HERE.recording, number)))

    def _seen(self, address: int, count: int, kind: int) -> list[np.ndarray]:
        """The memory of all ranks."""
        found = self.clique.meet(self.rank, address)
        return [memory(a, count, self.library.DTYPES[kind]) for a in found]

    @staticmethod
    def _added(rows: list[np.ndarray], how: int) -> np.ndarray:
        rows = rows[::-1]  # an order of its own
        with np.errstate(all="ignore"):
            return np.maximum.reduce(rows) if how == 2 else sum(rows[1:], start=rows[0])

    def allReduce(self, x: int, out: int, count: int, kind: int, how: int, stream: int) -> None:
        def do() -> None:
            total = self._added(self._seen(x, count, kind), how)
            memory(out, count, self.library.DTYPES[kind])[...] = total

        self._start("allReduce", (count, kind, how), stream, do)

    def allGather(self, x: int, out: int, count: int, kind: int, stream: int) -> None:
        def do() -> None:
            rows = self._seen(x, count, kind)
            memory(out, count * len(rows), self.library.DTYPES[kind])[...] = np.concatenate(rows)

        self._start("allGather", (count, kind), stream, do)

    def reduceScatter(self, x: int, out: int, count: int, kind: int, how: int, stream: int) -> None:
        def do() -> None:
            total = self._added(self._seen(x, count * self.clique.size, kind), how)
            own = total.reshape(self.clique.size, -1)[self.rank]
            memory(out, count, self.library.DTYPES[kind])[...] = own

        self._start("reduceScatter", (count, kind, how), stream, do)

    def send(self, x: int, count: int, kind: int, peer: int, stream: int) -> None:
        box = self.clique.mail[self.rank, peer]

        def give() -> None:
            box.put(memory(x, count, self.library.DTYPES[kind]).copy())

        self._join("send", give, count, stream)

    def recv(self, out: int, count: int, kind: int, peer: int, stream: int) -> None:
        box = self.clique.mail[peer, self.rank]

        def take() -> None:
            found = box.get(timeout=PATIENCE)
            assert len(found) == count, "another length than was sent"
            memory(out, count, self.library.DTYPES[kind])[...] = found

        self._join("recv", take, count, stream)

    def _join(self, name: str, call: Any, count: int, stream: int) -> None:
        assert self.is_open and stream == STREAM
        assert HERE.group is not None, "outside of a group two ranks would wait for each other"
        if name in self.library.fails:
            raise NcclError(5, self.library.fails[name])
        self.library.calls.append((HERE.rank, name, count))
        HERE.group.append(partial(call))

    def check_async_error(self) -> None:
        if "async" in self.library.fails:
            raise NcclError(6, self.library.fails["async"])

    def destroy(self) -> None:
        self.is_open = False
        self.library.ended.append("destroy")

    def abort(self) -> None:
        self.is_open = False
        self.library.ended.append("abort")
        self.clique.barrier.abort()


# -- ranks ---------------------------------------------------------------------------------------
class Talk:
    """A communicator of mpi4py between threads."""

    def __init__(self, clique: Clique, rank: int) -> None:
        self.clique, self.rank, self.calls = clique, rank, 0

    def allgather(self, said: Any) -> list[Any]:
        self.calls += 1
        return self.clique.meet(self.rank, said)

    def bcast(self, said: Any, root: int) -> Any:
        return self.allgather(said)[root]

    def Allgather(self, x: np.ndarray, out: np.ndarray) -> None:
        out.reshape(-1)[...] = np.concatenate([p.reshape(-1) for p in self.allgather(x.copy())])

    def Allreduce(self, x: Any, out: np.ndarray) -> None:
        assert "IN_PLACE" in repr(x)
        out[...] = sum(self.allgather(out.copy()))

    def Alltoall(self, x: np.ndarray, out: np.ndarray) -> None:
        rows = [p.reshape(self.clique.size, -1)[self.rank] for p in self.allgather(x.copy())]
        out.reshape(-1)[...] = np.concatenate(rows)


class ThreadGroup(Group):
    """A group whose ranks are threads."""

    def least(self, numbers: np.ndarray) -> np.ndarray:
        return np.min(self.comm.allgather(numbers), axis=0)

    def at_failure(self, function: Callable[[], None]) -> None:
        pass

    def is_ending(self) -> bool:
        return False


class Runtime(emulated_gpu.EmulatedRuntime):
    """One emulated GPU for each rank, with recordings that do what was recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.library = Library()
        self.busy = threading.RLock()
        self.replays: list[int] = []  # the ranks that replayed
        self.shared = False
        self.cuda = SimpleNamespace(
            __name__=_CUDA, runtime=self, Device=lambda index: _Device()
        )  # fmt: skip

    def deviceGetPCIBusId(self, index: int) -> str:
        return f"0000:{0 if self.shared else HERE.rank:02}:00.0"

    def memsetAsync(self, address: int, value: int, size: int, stream: int) -> None:
        self._do(lambda: memory(address, size, "u1").fill(value))

    def link(self, group: Any) -> Any:
        return nccl.link(group, 0, self.cuda)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """Of the memory of the call before, which a pool hands out again where nobody holds it."""
        made, at = HERE.pool, HERE.taken
        HERE.taken += 1
        if at == len(made) or (made[at].shape, made[at].dtype) != (shape, dtype):
            made[at:] = [super().empty(shape, dtype)]
        return made[at]

    def functions(self, source: str, names: Any) -> list[Any]:
        with self.busy:  # what two ranks want is compiled once
            return super().functions(source, names)

    def launch(self, function: Any, grid: int, block: int, arguments: list[int]) -> None:
        launch = super().launch

        def work() -> None:
            with self.busy:  # the threads of a block are the same for all ranks
                launch(function, grid, block, arguments)

        self._do(work)

    def multiply(self, batch: Any) -> None:
        multiply = super().multiply
        self._do(lambda: multiply(batch))

    def _do(self, work: Callable[[], None]) -> None:
        work() if HERE.tape is None else HERE.tape.append(work)

    def recorded(self, run: Callable[[], None]) -> Callable[[], None] | None:
        HERE.recording += 1
        HERE.tape = tape = []
        try:
            run()
        finally:
            HERE.tape = None

        def replay() -> None:
            self.replays.append(HERE.rank)
            for work in tape:
                work()

        return replay


class _Device:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass

    def synchronize(self) -> None:
        pass


@contextmanager
def emulated() -> Iterator[Runtime]:
    """Inside the with block there is a place ``gpu`` with NCCL between the ranks of ``run``."""
    runtime = Runtime()
    known = {_CUDA: ModuleType(_CUDA), f"{_CUDA}.nccl": runtime.library}
    before = nccl._LINKS, nccl._errors, nccl._over, nccl._watch
    with emulated_gpu.emulated(), pytest.MonkeyPatch.context() as patch:
        for name, module in known.items():  # one by one: what is imported inside stays
            patch.setitem(sys.modules, name, module)
        inner, device.runtime = device.runtime, lambda index=0: runtime
        nccl._LINKS, nccl._errors, nccl._over = [], [], threading.Event()
        nccl._watch = lambda group: None  # the tests call what it calls
        try:
            yield runtime
        finally:
            nccl._over.set()
            nccl._LINKS, nccl._errors, nccl._over, nccl._watch = before
            device.runtime = inner


def run(function: Callable[[Mesh], Any], **axes: int) -> list[Any]:
    """What a function of the mesh gives on each rank; an error of a rank is raised."""
    places = list(itertools.product(*map(range, axes.values())))
    cliques: dict[Any, Clique] = {}
    found: list[Any] = [None] * len(places)
    errors: list[BaseException] = []

    def groups(rank: int) -> dict[str, Group]:
        made = {}
        for k, (name, size) in enumerate(axes.items()):
            others = (name, *(p for j, p in enumerate(places[rank]) if j != k))
            talk = Talk(cliques.setdefault(others, Clique(size)), places[rank][k])
            comm = talk if size > 1 else None
            made[name] = ThreadGroup(name, size, places[rank][k], comm)
            made[name].rank = rank
        return made

    meshes = [Mesh(axes, groups(rank), rank) for rank in range(len(places))]

    def work(rank: int) -> None:
        HERE.rank, HERE.tape, HERE.group, HERE.recording = rank, None, None, 0
        HERE.pool, HERE.taken = [], 0
        try:
            found[rank] = function(meshes[rank])
        except BaseException as error:
            errors.append(error)
            for clique in cliques.values():
                clique.barrier.abort()

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(len(places))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        own = [e for e in errors if not isinstance(e, threading.BrokenBarrierError)]
        raise (own or errors)[0]
    return found
