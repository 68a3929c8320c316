"""Prints the steps of a native segment: calls of kernels, loops and branches around them, memory.

LLVM takes time that grows faster than a function, so long programs are printed in :class:`Part`s:
functions of some steps each. A loop or branch of a program with many of them is a part of its own,
and equal ones are one function.
"""

from __future__ import annotations

import itertools
from typing import Any

from phix.core import settings, stack
from phix.kernels.cpu import (
    asking,
    beside,
    faults,
    long_loops,
    parallel_callers,
    rank_calls,
    rank_routines,
    threads,
    units,
)
from phix.kernels.cpu.known import DATA, STRIDES, Known
from phix.kernels.cpu.llvm import KernelText, Parameter
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.calls import CallStep
from phix.kernels.loops.nodes import Buffer, Kernel, Step

# A kernel of at most this many iterations is put into the loop around it.
_TINY_TRIPS = 64
_TINY_TEXT = 8000
# So many kernels at most run at once: what they are passed is stored one by one.
_MOST_BESIDE = 64
# How many scopes a part has outside its loops and branches: see ``Part.scopes``.
_OUTERMOST = 2
# What the functions of parts are passed besides dims and buffers.
_PASSED = (faults.KEY, parallel_callers.KEY, rank_routines.KEY, *asking.KEYS)
# What a piece of a shared loop is told, by the names its kernel has for it.
_PIECE = {ir.PIECE_START.data: "%from", ir.PIECE_END.data: "%to"}


class Steps(Known):
    """Prints steps as the body of one function."""

    splits = True

    # -- steps -----------------------------------------------------------------------------
    def block(self, steps: list[Step]) -> None:
        """The steps in order, with memory for those of their temps whose sizes are known."""
        is_outermost = len(self.scopes) == 1
        before = len(self.held)
        if is_outermost:
            self.allocate(steps)
        at = 0
        while at < len(steps):
            kernels = self._beside(steps, at) if at + 1 < len(steps) else []
            if kernels:
                self._run_beside(kernels)
                at += len(kernels)
                continue
            together = self._part_from(steps, at) if is_outermost else []
            if together:
                Part(self, together).call()
                at += len(together)
                continue
            self.step(steps[at])
            at += 1
            if isinstance(steps[at - 1], ir.BindStep):
                if is_outermost and self.segment.asking:
                    self.segment.asking.for_results(self)
                self.allocate(steps[at:])
        self.give(self.held[before:])
        del self.held[before:]

    def is_in_parts(self, steps: list[Step]) -> bool:
        """Whether there are so many outermost steps that they are printed as parts."""
        return self.splits and len(steps) > settings.current().most_steps

    def _part_from(self, steps: list[Step], at: int) -> list[Step]:
        """The steps from there on that make a part; none where there are not many at all."""
        if not self.is_in_parts(steps):
            return []
        some = steps[at : at + settings.current().steps_of_a_part]
        others = (
            k for k, step in enumerate(some)
            if isinstance(step, ir.BindStep) or self._beside(steps, at + k)
        )  # fmt: skip
        return some[: next(others, len(some))]

    def step(self, step: Step) -> None:
        if step in self.module.apart:
            Part(self, [step], is_shared=True).call()
        else:
            self.print(step)

    def print(self, step: Step) -> None:
        clock = self.module.clock if isinstance(step, (Kernel, CallStep)) else None
        start = clock.read(self) if clock else ""
        getattr(self, f"_{type(step).__name__.lower()}")(step)
        if clock:
            clock.stamp(self, step, start)

    @stack.nests
    def inner(self, steps: list[Step]) -> None:
        self.scopes.append({})
        self.block(steps)
        self.scopes.pop()

    def _beside(self, steps: list[Step], at: int) -> list[Kernel]:
        """The kernels from there on that may run at once; none where each is to be timed."""
        first = steps[at]
        found = [first] if isinstance(first, Kernel) and not self.module.clock else []
        for step in itertools.islice(steps, at + 1, at + _MOST_BESIDE) if found else ():
            if not isinstance(step, Kernel) or step.beside is None:
                break
            found.append(step)
        return found if len(found) > 1 else []

    def _run_beside(self, kernels: list[Kernel]) -> None:
        """Run kernels at once, but in order where one may go wrong."""
        made = [self._function_of(kernel) for kernel in kernels]
        work = kernels[-1].beside
        if work is None or any(text.can_fail for _, text in made):
            for one in made:
                self._call(*one)
        else:
            beside.emit(self, made, work)

    def _function_of(self, kernel: Kernel) -> beside.Called:
        """The name of the function of a kernel, which the module has from here on."""
        text = self.module.kernel_texts.of(kernel)
        self.module.declarations |= text.declarations
        self.module.libraries |= text.libraries
        self.module.repeated |= text.repeated
        if text.takes_memory:
            self._declare_pool()
        is_tiny = (
            len(text.text) < _TINY_TEXT
            and long_loops.trips(kernel.body, _TINY_TRIPS + 1) <= _TINY_TRIPS
        )
        inlined = self.depth > 0 and is_tiny
        if inlined:
            self.module.inlined.append(kernel)
        own, taken_in = f" {units.KERNEL} {{", f" {units.OF_STEPS} {{"
        key = (text.text.replace(own, taken_in, 1) if inlined else text.text, inlined)
        return self.module.functions.setdefault(key, f"@kernel{len(self.module.functions)}"), text

    def _kernel(self, kernel: Kernel) -> None:
        name, text = self._function_of(kernel)
        if kernel.shared is None:
            self._call(name, text)
            return
        self._share(kernel.shared, name, text.parameters)
        if text.can_fail:
            self.leave_if_failed()

    def _call(self, name: str, text: KernelText) -> None:
        arguments = ", ".join(map(self.argument, text.parameters))
        self.lines.append(f"  call void {name}({arguments})")
        if text.can_fail:
            self.leave_if_failed()

    def _share(self, shared: ir.Shared, name: str, parameters: list[Parameter]) -> None:
        """Run a kernel on its whole loop here, or in pieces by threads if that pays."""
        extent, work = self.value(shared.extent), self.value(shared.work)
        ends = {ir.PIECE_START.data: "0", ir.PIECE_END.data: extent}
        values = [
            f"i64 {ends[what]}" if kind == "dim" and what in ends else self.argument((kind, what))
            for kind, what in parameters
        ]
        many, alone, end = self.labels("shared", "alone", "end")
        pays = self.let(f"icmp sge i64 {work}, {settings.current().least_shared_work}")
        self.lines.append(f"  br i1 {pays}, label %{many}, label %{alone}")
        self.start(many)
        self._call_pieces(name, values, parameters, extent, shared.grain)
        self.lines.append(f"  br label %{end}")
        self.start(alone)
        self.lines.append(f"  call void {name}({', '.join(values)})")
        self.lines.append(f"  br label %{end}")
        self.start(end)

    def _call_pieces(
        self, name: str, values: list[str], parameters: list[Parameter], extent: str, grain: int
    ) -> None:
        """Put what the pieces need into a block on the stack, and let threads run them."""
        self.declare(threads.DECLARATION)
        data = f"%d{len(self.stack)}"
        self.stack.append(f"  {data} = alloca [{len(values)} x i64]")
        loads, arguments = [], []
        for k, (value, (kind, what)) in enumerate(zip(values, parameters)):
            if kind == "dim" and what in _PIECE:
                arguments.append(f"i64 {_PIECE[str(what)]}")
                continue
            type_of = value.split(" ", 1)[0]
            at = self.let(f"getelementptr inbounds i64, ptr {data}, i64 {k}")
            self.lines.append(f"  store {value}, ptr {at}")
            loads.append(f"  %a{k} = getelementptr inbounds i64, ptr %data, i64 {k}")
            loads.append(f"  %v{k} = load {type_of}, ptr %a{k}")
            arguments.append(f"{type_of} %v{k}")
        body = "\n".join([*loads, f"  call void {name}({', '.join(arguments)})", "  ret void"])
        self.module.pieces[name] = f"(ptr %data, i64 %from, i64 %to) #2 {{\n{body}\n}}"
        self.lines.append(
            f"  call void @phix_share(ptr {name}.piece, ptr {data}, i64 {extent}, i64 {grain})"
        )

    def _callstep(self, step: CallStep) -> None:
        rank_calls.emit(self, step)

    _startcall = _waitcall = _callstep

    def _bindstep(self, step: ir.BindStep) -> None:
        self.scopes[-1]["dim", step.name] = self.let(f"load i64, ptr {self.data(step.source)}")
        if step.check is not None:
            assert self.segment.asking is not None
            self.segment.asking.whether_fits(self, step)

    def _forstep(self, loop: ir.ForStep) -> None:
        extent = self.value(loop.extent)
        head, body, end = self.labels("loop", "body", "end")
        index = f"%i{self.count}"
        before, first, at = self._begin(loop, head)
        more = self.let(f"icmp slt i64 {index}, {extent}")
        self.lines.append(f"  br i1 {more}, label %{body}, label %{end}")
        pointers = self._swapped_names(loop.swaps, head)
        self.scopes.append({("dim", loop.index.data): index, **pointers})
        self._body(body, loop, long_loops.work(loop.body))
        self.scopes.pop()
        self.lines.append(f"  {index}.next = add nuw nsw i64 {index}, 1")
        self.lines.append(f"  br label %{head}")
        phis = [f"  {index} = phi i64 [0, %{before}], [{index}.next, %{self.label}]"]
        self.lines[at] = "\n".join([*phis, *self._phis(loop.swaps, pointers, first, before)])
        self.start(end)
        self._copy_back(first, pointers)

    def _whilestep(self, loop: ir.WhileStep) -> None:
        head, body, end = self.labels("test", "body", "end")
        before, first, at = self._begin(loop, head)
        pointers = self._swapped_names(loop.swaps, head)
        self.depth += 1
        self.scopes.append(dict(pointers))
        self.inner(loop.test)
        flag = self.let(f"load i8, ptr {self.data(loop.flag)}")
        more = self.let(f"icmp ne i8 {flag}, 0")
        self.lines.append(f"  br i1 {more}, label %{body}, label %{end}")
        self._body(body, loop, long_loops.work([*loop.test, *loop.body]))
        self.scopes.pop()
        self.depth -= 1
        self.lines.append(f"  br label %{head}")
        self.lines[at] = "\n".join(self._phis(loop.swaps, pointers, first, before))
        self.start(end)
        self._copy_back(first, pointers)

    def _begin(self, loop: ir.ForStep | ir.WhileStep, head: str) -> tuple[str, Any, int]:
        """Go to the head of a loop: where from, the pointers that its swaps begin with, and the
        line where its phis are to stand."""
        before = self.label
        first = [(a, self.data(a), self.data(b)) for a, b in loop.swaps]
        self.lines.append(f"  br label %{head}")
        self.start(head)
        self.lines.append("")
        return before, first, len(self.lines) - 1

    def _body(self, label: str, loop: ir.ForStep | ir.WhileStep, work: int) -> None:
        """The body of a loop, whose iterations do so much."""
        self.start(label)
        if self.module.may_ask_python and long_loops.work([loop]) > long_loops.SHORT:
            self._look_for_signals(work)
        self.depth += 1
        self.inner(loop.body)
        self.depth -= 1

    def _look_for_signals(self, work: int) -> None:
        """Leave where a handler of a signal has raised something: see ``long_loops.py``."""
        most = long_loops.BETWEEN_LOOKS
        if self.known(parallel_callers.KEY):  # to take the lock back may be a long wait
            most = long_loops.SHORT
        if work >= most:
            self._ask_python()
            return
        if self.done is None:
            self.done = f"%since{len(self.stack)}"
            self.stack += [f"  {self.done} = alloca i64", f"  store i64 0, ptr {self.done}"]
        look, go = self.labels("look", "go")
        done = self.let(f"add nuw i64 {self.let(f'load i64, ptr {self.done}')}, {work}")
        self.lines.append(f"  store i64 {done}, ptr {self.done}")
        is_much = self.let(f"icmp ugt i64 {done}, {most}")
        self.lines.append(f"  br i1 {is_much}, label %{look}, label %{go}")
        self.start(look)
        self.lines.append(f"  store i64 0, ptr {self.done}")
        self._ask_python()
        self.lines.append(f"  br label %{go}")
        self.start(go)

    def _ask_python(self) -> None:
        """Run the handlers of signals. A program that has come so far lets other threads run, if
        it had kept the lock so far too."""
        self.declare(long_loops.DECLARATION)
        lock = self.known(parallel_callers.KEY)
        if lock:
            self.lines.append(f"  call void @take_back(ptr {lock})")
        raised = self.let("call i32 @PyErr_CheckSignals()")
        self.leave_where(f"icmp ne i32 {raised}, 0", long_loops.RAISED_IN_PYTHON)
        if lock:
            self.lines.append(f"  call void @let_go(ptr {lock})")

    def _swapped_names(self, swaps: list[tuple[Buffer, Buffer]], head: str) -> dict[Any, str]:
        """The pointers of buffers that exchange their memory, as phis of the block ``head``."""
        names: dict[Any, str] = {}
        for k, (a, b) in enumerate(swaps):
            names[a, DATA], names[b, DATA] = f"%{head}.a{k}", f"%{head}.b{k}"
        return names

    def _phis(self, swaps: Any, pointers: dict[Any, str], first: Any, before: str) -> list[str]:
        lines = []
        for (a, b), (_, start_a, start_b) in zip(swaps, first):
            own, other = pointers[a, DATA], pointers[b, DATA]
            back = f", %{self.label}]"
            lines.append(f"  {own} = phi ptr [{start_a}, %{before}], [{other}{back}")
            lines.append(f"  {other} = phi ptr [{start_b}, %{before}], [{own}{back}")
        return lines

    def _copy_back(self, first: Any, pointers: dict[Any, str]) -> None:
        """What ended in the other memory of a swapped pair goes where it belongs."""
        for a, start, _ in first:
            now = pointers[a, DATA]
            copy, done = self.labels("copy", "done")
            moved = self.let(f"icmp ne ptr {now}, {start}")
            size = self._bytes(a)
            self.lines.append(f"  br i1 {moved}, label %{copy}, label %{done}")
            self.start(copy)
            self.declare("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
            arguments = f"ptr {start}, ptr {now}, i64 {size}, i1 false"
            self.lines.append(f"  call void @llvm.memcpy.p0.p0.i64({arguments})")
            self.lines.append(f"  br label %{done}")
            self.start(done)

    def _switchstep(self, step: ir.SwitchStep) -> None:
        index = self.let(f"load i64, ptr {self.data(step.index)}")
        (end,) = self.labels("end")
        cases = [f"case{self.count}.{k}" for k in range(len(step.branches))]
        table = " ".join(f"i64 {k}, label %{case}" for k, case in enumerate(cases[:-1]))
        self.lines.append(f"  switch i64 {index}, label %{cases[-1]} [{table}]")
        for case, steps in zip(cases, step.branches):
            self.start(case)
            self.inner(steps)
            self.lines.append(f"  br label %{end}")
        self.start(end)


class Part(Steps):
    """Steps that become a function of their own: what they know from outside, it is passed.

    One that ``is_shared`` is passed all of it, as what differs between equal parts; others read the
    array objects themselves.
    """

    def __init__(self, outer: Steps, steps: list[Step], is_shared: bool = False) -> None:
        super().__init__(outer.segment, outer.module)
        self.outer, self.is_shared = outer, is_shared
        self.scopes = [{}, {}]  # the first for what comes from outside
        self.head: list[str] = []
        self.parameters: list[Any] = []
        self.takes_arguments = False
        for buffer in self.module.apart[steps[0]] if is_shared else ():
            self.put_on_stack(buffer)
        for step in steps:
            if is_shared:
                self.print(step)
            else:
                self.step(step)

    def known(self, key: Any) -> str | None:
        found = super().known(key)
        if found is None and self._is_outside(key) and self._is_had(key):
            found = self.scopes[0][key] = self._passed(key)
        return found

    def _is_had(self, key: Any) -> bool:
        return self._is_read_here(key) or self.outer.known(key) is not None

    def _is_read_here(self, key: Any) -> bool:
        """Whether it stands in an array object, which the part is passed."""
        return not self.is_shared and key[0] in self.segment.places and key[1] in (DATA, STRIDES)

    def _is_outside(self, key: Any) -> bool:
        is_passed = key[0] == "dim" or key in _PASSED
        return is_passed or (isinstance(key[0], Buffer) and key[0].base is None)

    def _passed(self, key: Any) -> str:
        what, field_of = key
        if self._is_read_here(key):
            self.takes_arguments = True
            if len(self.scopes) == _OUTERMOST:
                # LLVM looks from a load back to what was called last: many at the head take it long
                return self._field(what, field_of)
            inside, self.lines = self.lines, self.head
            found = self._field(what, field_of)
            self.lines = inside
            return found
        self.parameters.append(key)
        return f"%q{len(self.parameters) - 1}"

    def _outside(self, key: Any) -> str:
        """What the function is passed for a name."""
        what, field_of = key
        if key == faults.KEY:
            return f"ptr {self.outer.fault()}"
        if key in (*asking.KEYS, parallel_callers.KEY, rank_routines.KEY):
            return f"ptr {self.outer.known(key)}"
        if what == "dim":
            return f"i64 {self.outer.symbol(field_of)}"
        found = self.outer.data(what) if field_of == DATA else self.outer.strides(what)
        return f"ptr {found}"

    def call(self) -> None:
        """Define the function, if no equal one is there, and call it."""
        given = [self._outside(key) for key in self.parameters]
        taken = [f"{g.split(' ', 1)[0]} %q{k}" for k, g in enumerate(given)]
        if self.takes_arguments:
            if isinstance(self.outer, Part):
                self.outer.takes_arguments = True
            given.append("ptr %args")
            taken.append("ptr %args")
        body = "\n".join([*self.stack, *self.head, *self.lines])
        text = f"({', '.join(taken)}) #0 {{\nentry:\n{body}\n  ret void\n}}"
        parts = self.module.parts
        name = parts.setdefault(text, f"@part{len(parts)}")
        self.outer.lines.append(f"  call void {name}({', '.join(given)})")
        if faults.KEY in self.parameters:
            self.outer.leave_if_failed()

    def leave(self) -> None:
        """Return; who called looks whether there was a fault."""
        self.lines.append("  ret void")
