"""What a function of a native segment knows by name: addresses, strides, dims, memory for temps.

A name holds in the block it was computed in and those inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from phix.core import dims as dm
from phix.core.records import dataclass, field
from phix.kernels.cpu import faults, parallel_callers, pool, rank_routines
from phix.kernels.cpu import instructions as ins
from phix.kernels.cpu.array_objects import DATA, DIMS, STRIDES
from phix.kernels.cpu.equal_kernels import Texts
from phix.kernels.cpu.llvm import Parameter
from phix.kernels.cpu.native_segment import NativeSegment, SymbolSource
from phix.kernels.cpu.repeated import Repeated
from phix.kernels.loops.nodes import Buffer, Kernel, Step
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.bottom_up import bottom_up
from phix.kernels.schedule import workspace

ALIGNMENT = 64


@dataclass
class Module:
    """The functions of a module, by their texts, and what they call."""

    functions: dict[tuple[str, bool], str] = field(default_factory=dict)
    pieces: dict[str, str] = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)
    # the loops and branches that are parts of their own, and the tiny temps that each alone uses
    apart: dict[Step, list[Buffer]] = field(default_factory=dict)
    own: set[Buffer] = field(default_factory=set)
    declarations: set[str] = field(default_factory=set)
    libraries: set[str] = field(default_factory=set)
    texts: dict[str, str] = field(default_factory=dict)  # constants of characters, by what they say
    kernel_texts: Texts = field(default_factory=Texts)
    inlined: list[Kernel] = field(default_factory=list)
    repeated: dict[str, Repeated] = field(default_factory=dict)  # what is called, by name
    can_fail: bool = False
    may_ask_python: bool = True  # whether it is Python that calls, and no other code
    clock: Any = None  # see ``timed.Clock``


class Known:
    """Names, and the lines that compute them."""

    def __init__(self, segment: NativeSegment, module: Module) -> None:
        self.segment, self.module = segment, module
        self.lines: list[str] = []
        self.stack: list[str] = []
        self.scopes: list[dict[Any, str]] = [{}]
        self.held: list[str] = []  # the blocks of memory that are to be given back
        self.done: str | None = None  # where the work since the last look for signals is counted
        self.label = "entry"
        self.count = 0
        self.depth = 0

    # -- names -----------------------------------------------------------------------------
    def let(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"  %e{self.count} = {text}")
        return f"%e{self.count}"

    def declare(self, text: str) -> None:
        self.module.declarations.add(text)

    def known(self, key: Any) -> str | None:
        return next((s[key] for s in reversed(self.scopes) if key in s), None)

    def named(self, key: Any, make: Callable[[], str]) -> str:
        """The name known for ``key``, computed here if there is none."""
        found = self.known(key)
        if found is None:
            found = self.scopes[-1][key] = make()
        return found

    def labels(self, *words: str) -> list[str]:
        self.count += 1
        return [f"{word}{self.count}" for word in words]

    def start(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.label = label

    # -- arrays and dims -------------------------------------------------------------------
    def argument(self, parameter: Parameter) -> str:
        kind, what = parameter
        if parameter == faults.KEY:
            return f"ptr {self.fault()}"
        if kind == "dim":
            return f"i64 {self.symbol(str(what))}"
        assert isinstance(what, Buffer)
        return f"ptr {self.data(what) if kind == 'data' else self.strides(what)}"

    def data(self, buffer: Buffer) -> str:
        """The address of a buffer's first element."""
        return self.named((buffer, DATA), lambda: self._find(buffer))

    def put_on_stack(self, buffer: Buffer) -> None:
        """Give a temp of known size its memory here."""
        name = f"%t{len(self.stack)}"
        size = max(1, int(dm.product(buffer.dims)) * buffer.dtype.itemsize)
        self.stack.append(f"  {name} = alloca [{size} x i8], align {ALIGNMENT}")
        self.scopes[0][buffer, DATA] = name

    def _find(self, buffer: Buffer) -> str:
        base = buffer.base
        if base is None:
            return self._field(buffer, DATA)
        assert buffer.index is not None
        index = self.value(buffer.index)
        if base.strided:
            step = self.let(f"load i64, ptr {self.strides(base)}")
        else:
            row = dm.product(base.dims[1:]) * base.dtype.itemsize
            step = self.value(self.segment.dim_expr(row))
        offset = self.let(f"mul nsw i64 {index}, {step}")
        return self.let(f"getelementptr inbounds i8, ptr {self.data(base)}, i64 {offset}")

    def strides(self, buffer: Buffer) -> str:
        if buffer.base is None:
            return self.named((buffer, STRIDES), lambda: self._field(buffer, STRIDES))
        return self.let(f"getelementptr inbounds i64, ptr {self.strides(buffer.base)}, i64 1")

    def _field(self, buffer: Buffer, offset: int) -> str:
        """What stands at an offset of an array object."""
        k = self.segment.places[buffer]
        at = self.let(f"getelementptr inbounds ptr, ptr %args, i64 {k}")
        array = self.let(f"load ptr, ptr {at}")
        at = self.let(f"getelementptr inbounds i8, ptr {array}, i64 {offset}")
        return self.let(f"load ptr, ptr {at}")

    def symbol(self, name: str) -> str:
        """The value of a dim or of the index of a loop."""
        return self.named(("dim", name), lambda: self._read(self.segment.symbols[name]))

    def _read(self, source: SymbolSource) -> str:
        if source.axis is None:
            return self.let(f"load i64, ptr {self.data(source.buffer)}")
        dims = self._field(source.buffer, DIMS)
        at = self.let(f"getelementptr inbounds i64, ptr {dims}, i64 {source.axis}")
        size = self.let(f"load i64, ptr {at}")
        if source.rest:
            size = self.let(f"sub nsw i64 {size}, {source.rest}")
        return self.let(f"sdiv i64 {size}, {source.factor}") if source.factor != 1 else size

    def value(self, expr: sc.Expr) -> str:
        """The value of an expression of dims and indices."""
        # each part once: a size that was divided stands in its quotient several times
        return bottom_up(expr, {}, self._value)

    def _value(self, expr: sc.Expr, operands: list[str]) -> str:
        if expr.fn == "const":
            return str(expr.data)
        if expr.fn == "var":
            return self.symbol(expr.data)
        return ins.emit(self, expr, operands, None)

    # -- temps -----------------------------------------------------------------------------
    def allocate(self, steps: list[Step]) -> None:
        """One block of memory for the temps whose sizes are known here, held from now on.

        Temps that are never alive together share memory.
        """
        plan = workspace.plan(steps, self._is_wanted, ALIGNMENT)
        if not plan.offsets and not plan.slots:
            return
        offsets = {buffer: str(at) for buffer, at in plan.offsets.items()}
        total = str(plan.size)
        for slot in plan.slots:
            offsets.update(dict.fromkeys(slot, total))
            total = self._sum(total, self._slot_size(slot))
        self._declare_pool()
        memory = self.let(f"call ptr @phix_take(i64 {total})")
        self.check_room(memory)
        self.held.append(memory)
        made: dict[str, str] = {}
        for buffer, offset in offsets.items():
            if offset not in made:
                made[offset] = self.let(f"getelementptr inbounds i8, ptr {memory}, i64 {offset}")
            self.scopes[-1][buffer, DATA] = made[offset]

    def check_room(self, memory: str) -> None:
        """Leave with a fault where there was no room for a block."""
        self.leave_where(f"icmp eq ptr {memory}, null", faults.NO_ROOM)

    # -- faults ----------------------------------------------------------------------------
    def fault(self) -> str:
        """The block that says what went wrong: see ``faults.py``."""
        self.module.can_fail = True
        found = self.known(faults.KEY)
        assert found is not None
        return found

    def leave_where(self, condition: str, status: int) -> None:
        """Leave with a fault where a condition holds."""
        fault = self.fault()
        with self._left(self.let(condition)):
            self.lines.append(faults.report(fault, status))

    def leave_if_failed(self) -> None:
        """Leave where what was called last had a fault."""
        status = self.let(f"load i64, ptr {self.fault()}")
        with self._left(self.let(f"icmp ne i64 {status}, 0")):
            pass

    @contextmanager
    def _left(self, condition: str) -> Iterator[None]:
        """Leave the function on a condition, after what is printed within."""
        leave, stay = self.labels("leave", "stay")
        self.lines.append(f"  br i1 {condition}, label %{leave}, label %{stay}")
        self.start(leave)
        yield
        self.end_flights()
        self.give(self.held)
        self.leave()
        self.start(stay)

    def end_flights(self) -> None:
        """Wait for what is under way between ranks, in memory that is given back."""
        slots = self.known(rank_routines.KEY)
        if slots:
            lock = self.known(parallel_callers.KEY) or "null"
            self.lines.append(f"  call void @rank_flights_end(ptr {slots}, ptr {lock})")

    def leave(self) -> None:
        """Return with the fault that was reported."""
        raise NotImplementedError

    def give(self, memory: Iterable[str]) -> None:
        """Give blocks of memory back."""
        self.lines += [f"  call void @phix_give(ptr {block})" for block in memory]

    def _declare_pool(self) -> None:
        for declaration in pool.DECLARATIONS:
            self.declare(declaration)

    def _is_wanted(self, buffer: Buffer) -> bool:
        """Whether a temp has no memory yet, and its size is known."""
        is_here = self.known((buffer, DATA)) is None and buffer not in self.module.own
        return is_here and self.has_dims(buffer)

    def has_dims(self, buffer: Buffer) -> bool:
        """Whether the dims of a buffer are known."""
        names = (self.segment.symbol_names[s] for d in buffer.dims for s in dm.symbols(d))
        return all(n in self.segment.symbols or self.known(("dim", n)) is not None for n in names)

    def note_array(self, buffer: Buffer, array: str) -> None:
        """Take a buffer's elements to be those of an array object."""
        at = self.let(f"getelementptr inbounds i8, ptr {array}, i64 {DATA}")
        self.scopes[-1][buffer, DATA] = self.let(f"load ptr, ptr {at}")

    def _sum(self, a: str, b: str) -> str:
        if a.isdigit() and b.isdigit():
            return str(int(a) + int(b))
        return b if a == "0" else self.let(f"add nsw i64 {a}, {b}")

    def _slot_size(self, slot: list[Buffer]) -> str:
        """Bytes of the largest buffer of a slot, rounded up to the alignment."""
        sizes: dict[str, None] = {}
        for buffer in slot:
            sizes[self._rounded(self._bytes(buffer))] = None
        known = [int(s) for s in sizes if s.isdigit()]
        names = [s for s in sizes if not s.isdigit()]
        size = str(max(known)) if known else names.pop()
        for name in names:
            self.declare("declare i64 @llvm.smax.i64(i64, i64)")
            size = self.let(f"call i64 @llvm.smax.i64(i64 {size}, i64 {name})")
        return size

    def _rounded(self, size: str) -> str:
        if size.isdigit():
            return str(-(-int(size) // ALIGNMENT) * ALIGNMENT)

        def rounded() -> str:
            raised = self.let(f"add nsw i64 {size}, {ALIGNMENT - 1}")
            return self.let(f"and i64 {raised}, {-ALIGNMENT}")

        return self.named(("rounded", size), rounded)

    def _bytes(self, buffer: Buffer) -> str:
        size = dm.product(buffer.dims) * buffer.dtype.itemsize
        if isinstance(size, int):
            return str(size)
        return self.named(("bytes", size.key), lambda: self.value(self.segment.dim_expr(size)))
