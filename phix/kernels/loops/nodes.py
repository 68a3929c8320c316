"""The loop IR: a typed tree of loop nests over buffers, with scalar expressions as leaves.

A :class:`LoopProgram` is a list of steps. A :class:`Kernel` is one top-level loop nest, printed
by an engine as one function; a :class:`HostStep` is a Python function on arrays; a
:class:`ForStep`, :class:`WhileStep` or :class:`SwitchStep` has lists of steps inside; a
:class:`BindStep` gives an unknown dim its value.

A contiguous buffer is addressed by one linear index, a strided one by one index an axis. A
complex buffer takes one more index, 0 for the real and 1 for the imaginary part.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Union

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import settings
from phix.core.dims import Shape
from phix.core.records import dataclass, field
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Complex, Expr, usual_operands

Element = Union[Expr, Complex]
ZERO, ONE = sc.const(0, dt.int64), sc.const(1, dt.int64)


@dataclass(eq=False)
class Buffer:
    """Memory of one array: ``kind`` is input, constant, output, temp, shared, slice or local.

    A temp lives in the workspace of one native segment; a shared buffer is an array of its own, for
    host steps. A slice is ``base[index]``. A local is a temp of one run of a kernel or thread.
    """

    name: str
    dtype: np.dtype
    dims: Shape
    kind: str
    strided: bool = False
    base: Buffer | None = None
    index: Expr | None = None

    def __repr__(self) -> str:
        return self.name


@dataclass(eq=False)
class For:
    """``for index in range(start, extent)``.

    ``kind``: parallel or reduction; independent is parallel whatever the indices seem to say.
    Only a loop that an engine has cut into pieces starts anywhere but at 0. ``is_vector``: its
    iterations are lanes of one vector, of several where their number is unknown; masked at the end.
    """

    index: Expr
    extent: Expr
    body: list[Statement]
    kind: str = "parallel"
    start: Expr = ZERO
    is_vector: bool = False


@dataclass(eq=False)
class Store:
    """``buffer[indices] = value``, rounded to the buffer's dtype."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr


@dataclass(eq=False)
class Declare:
    """A mutable scalar, readable as ``target`` from here to the end of its block."""

    target: Expr
    value: Expr


@dataclass(eq=False)
class Assign:
    """Set scalars, all at once. ``reassociate``: the order of a float sum or product is free."""

    targets: tuple[Expr, ...]
    values: tuple[Expr, ...]
    reassociate: bool = False


@dataclass(eq=False)
class If:
    """Run ``body`` where the condition holds."""

    condition: Expr
    body: list[Statement]


@dataclass(eq=False)
class While:
    """Run ``body`` as long as the condition holds."""

    condition: Expr
    body: list[Statement]


@dataclass(frozen=True)
class Pointer:
    """The address of element ``offset`` (linear) of a contiguous buffer."""

    buffer: Buffer
    offset: Expr

    def __repr__(self) -> str:
        return f"&{self.buffer.name}[{self.offset!r}]"


@dataclass(eq=False)
class LibraryCall:
    """A call of a library's routine; ``writes`` are the buffers it changes.

    ``updates`` are those among them that it reads, too.
    """

    name: str
    arguments: tuple[Union[Pointer, Expr], ...]
    writes: tuple[Buffer, ...]
    updates: tuple[Buffer, ...] = ()


Statement = Union[For, Store, Declare, Assign, If, While, LibraryCall]


@dataclass(frozen=True)
class Shared:
    """How threads share a kernel: one of its loops runs from PIECE_START to PIECE_END in each.

    ``extent`` is the loop's own, ``work`` about how many scalar operations the kernel makes, and
    pieces are multiples of ``grain`` iterations, to which the last adds what is left.
    """

    extent: Expr
    work: Expr
    grain: int


PIECE_START, PIECE_END = sc.var("piece.start"), sc.var("piece.end")


@dataclass(eq=False)
class Kernel:
    """One top-level loop nest. A ``start`` fills a reduction's result with its initial value.

    ``whole``: it computes every element of the one buffer it writes. ``locals``: the buffers it has
    for itself, and how many elements each. ``beside``: it may run while the kernels before it do,
    from the last on of which that is not said; about how many scalar operations they all make.
    """

    body: list[Statement] = field(default_factory=list)
    start: bool = False
    whole: bool = False
    shared: Shared | None = None
    locals: dict[Buffer, Expr] = field(default_factory=dict)
    beside: Expr | None = None


@dataclass(eq=False)
class HostStep:
    """``function(*input arrays, *output arrays)``, run by Python between native segments.

    ``dims`` are those the inputs are read in: a buffer may hold the values of a reshaped tensor.
    ``attrs`` say what the function does, to engines with a way of their own.
    """

    name: str
    function: Callable[..., Any]
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    dims: tuple[Shape, ...]
    attrs: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class LibraryStep(HostStep):
    """A registered ``kernel``: ``function(ctx, env, *inputs, *outputs)``, on arrays of the engine's
    place; it is for the values ``env`` of dims if ``fits(ctx, env)``, and may only start work."""

    recordable: bool = False
    fits: Callable[..., bool] | None = None
    kernel: Any = None
    values: tuple[Any, ...] = ()  # of its attributes


@dataclass(eq=False)
class StartStep(HostStep):
    """Begins what a host step does: ``attrs["begin"](*arrays)`` gives what the engine ends it by.
    Up to its ``WaitStep``, in the same block, all leave its outputs alone and its inputs be."""


@dataclass(eq=False)
class WaitStep(HostStep):
    """Ends what ``start`` has begun; its ``function`` does the whole, where nothing is begun."""

    start: StartStep | None = None


@dataclass(eq=False)
class ForStep:
    """``for index in range(extent)`` around steps.

    ``swaps`` are pairs of buffers that exchange their memory after each iteration; the first of
    a pair holds what counts, and has its own memory again when the loop is over.
    """

    index: Expr
    extent: Expr
    body: list[Step]
    swaps: list[tuple[Buffer, Buffer]] = field(default_factory=list)


@dataclass(eq=False)
class WhileStep:
    """Run ``test``, which sets ``flag``, and as long as it holds ``body`` and ``test`` again."""

    test: list[Step]
    flag: Buffer
    body: list[Step]
    swaps: list[tuple[Buffer, Buffer]] = field(default_factory=list)


@dataclass(eq=False)
class SwitchStep:
    """Run ``branches[index]``; ``index`` holds one int64, in range."""

    index: Buffer
    branches: list[list[Step]]


@dataclass(eq=False)
class BindStep:
    """From here to the end of the block the dim ``name`` is the int64 in ``source``."""

    name: str
    source: Buffer
    check: Callable[[Mapping[dm.Symbol, int]], None] | None = None  # Python looks whether all fits


Step = Union[Kernel, HostStep, ForStep, WhileStep, SwitchStep, BindStep]


@dataclass(eq=False)
class LoopProgram:
    """Buffers and steps of a whole graph; ``symbols`` maps names of dims to their symbols.

    ``constant_values`` are the tensors of ``constants``, in order. ``reused`` says for each output
    the number of the donated input whose memory it has, None where it has its own.
    """

    inputs: list[Buffer]
    constants: list[Buffer]
    outputs: list[Buffer]
    temps: list[Buffer]
    steps: list[Step]
    symbols: dict[str, Any]
    constant_values: list[Any] = field(default_factory=list)
    reused: tuple[int | None, ...] = ()

    def counts(self) -> dict[str, int]:
        """How many there are of what passes make fewer."""
        kernels = [s for s in walk_steps(self.steps) if isinstance(s, Kernel)]
        loops = sum(isinstance(s, For) for k in kernels for s in walk(k.body))
        return {"kernels": len(kernels), "loops": loops, "temps": len(self.temps)}


def scalar_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of the scalars a buffer of ``dtype`` loads as (complex: of each part)."""
    if dtype in (dt.float16, dt.bfloat16):
        return dt.float32
    return dt.real_dtype(dtype)


def load(buffer: Buffer, indices: tuple[Expr, ...]) -> Element:
    """The element at ``indices``: one linear index, or one an axis if the buffer is strided."""
    if not dt.is_complex(buffer.dtype):
        return Expr("load", indices, scalar_dtype(buffer.dtype), buffer)
    return Complex(load_part(buffer, indices, 0), load_part(buffer, indices, 1))


def load_part(buffer: Buffer, indices: tuple[Expr, ...], part: int) -> Expr:
    """The real part, 0, or the imaginary one, 1, of the element at ``indices``."""
    dtype = scalar_dtype(buffer.dtype)
    return Expr("load", (*indices, sc.const(part, dt.int64)), dtype, buffer)


def stores(buffer: Buffer, indices: tuple[Expr, ...], value: Element) -> list[Store]:
    """The statements that put ``value`` at ``indices``.

    The real part is stored first, so the imaginary one must not be made of it: see ``Builder.put``.
    """
    if not isinstance(value, Complex):
        return [Store(buffer, indices, value)]
    assert load_part(buffer, indices, 0) not in value.imag.loads, "a part is read when overwritten"
    return [
        Store(buffer, (*indices, sc.const(c, dt.int64)), part)
        for c, part in enumerate((value.real, value.imag))
    ]


# What is asked of every block, by many passes: lists, for a generator is entered once an element.
def walk(body: list[Statement]) -> list[Statement]:
    """All statements, outer before inner."""
    found: list[Statement] = []
    left = body[::-1]
    while left:
        statement = left.pop()
        found.append(statement)
        if type(statement) in _WITH_BODY:
            left += statement.body[::-1]  # type: ignore[union-attr]
    return found


_WITH_BODY = frozenset({For, If, While})
_ROOTS: dict[type, Callable[[Any], tuple[Expr, ...]]] = {
    Store: lambda s: (*s.indices, s.value),
    For: lambda s: (s.start, s.extent),
    Declare: lambda s: (s.value,),
    Assign: lambda s: s.values,
    If: lambda s: (s.condition,),
    While: lambda s: (s.condition,),
    LibraryCall: lambda s: tuple([a.offset if isinstance(a, Pointer) else a for a in s.arguments]),
}


def roots(statement: Statement) -> tuple[Expr, ...]:
    """The expressions that stand in a statement itself."""
    return _ROOTS[type(statement)](statement)


def expressions(body: list[Statement], usual: bool = False) -> Collection[Expr]:
    """Every expression of a block once, operands included; ``usual``: but what is rarely needed."""
    found: dict[Expr, None] = {}
    stack: list[Expr] = []
    for s in walk(body):
        stack += _ROOTS[type(s)](s)
    while stack:
        expr = stack.pop()
        if expr not in found:
            found[expr] = None
            if expr.args:
                stack += usual_operands(expr) if usual and expr.fn == "rarely" else expr.args
    return found.keys()


def loads(body: list[Statement]) -> set[Expr]:
    """Every load in the expressions of a block."""
    return _loads(walk(body))


def _loads(statements: list[Statement]) -> set[Expr]:
    found: set[Expr] = set()
    for s in statements:
        for root in _ROOTS[type(s)](s):
            if root.operand_loads or root.fn == "load":
                found.update(root.loads)
    return found


def reads(body: list[Statement], every: list[Statement] | None = None) -> set[Buffer]:
    """The buffers a block reads; ``every``: what :func:`walk` finds in it, where that is known."""
    every = walk(body) if every is None else every
    found = {load.data for load in _loads(every)}
    for s in every:
        if type(s) is LibraryCall:
            kept = set(s.writes) - set(s.updates)
            found |= {a.buffer for a in s.arguments if isinstance(a, Pointer)} - kept
    return found


def writes(body: list[Statement], every: list[Statement] | None = None) -> set[Buffer]:
    """The buffers a block changes; ``every`` as for :func:`reads`."""
    found: set[Buffer] = set()
    for s in walk(body) if every is None else every:
        if type(s) is Store:
            found.add(s.buffer)
        elif type(s) is LibraryCall:
            found.update(s.writes)
    return found


def changes(body: list[Statement], among: set[Any]) -> set[Any]:
    """The mutable scalars that a block sets, and the buffers it changes that are ``among`` some."""
    every = walk(body)
    changed: set[Any] = writes(body, every) & among
    for s in every:
        if type(s) is Assign:
            changed.update(s.targets)
    return changed


def blocks(step: Step) -> tuple[list[Step], ...]:
    """The lists of steps inside a step."""
    if type(step) is Kernel:
        return ()
    if isinstance(step, ForStep):
        return (step.body,)
    if isinstance(step, WhileStep):
        return (step.test, step.body)
    return tuple(step.branches) if isinstance(step, SwitchStep) else ()


def walk_steps(steps: list[Step]) -> list[Step]:
    """All steps, outer before inner."""
    found: list[Step] = []
    left = steps[::-1]
    while left:
        step = left.pop()
        found.append(step)
        if isinstance(step, (ForStep, WhileStep, SwitchStep)):
            for block in reversed(blocks(step)):
                left += reversed(block)
    return found


def without_part(buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[tuple[Expr, ...], Expr | None]:
    """The indices of an element, and which part of a complex one is meant, where they say it."""
    count = len(buffer.dims) if buffer.strided else 1
    if not dt.is_complex(buffer.dtype) or len(indices) <= count:
        return indices, None
    return indices[:-1], indices[-1]


def owner(buffer: Buffer) -> Buffer:
    """The buffer that has the memory."""
    while buffer.base is not None:
        buffer = buffer.base
    return buffer


def with_bases(buffers: set[Buffer]) -> set[Buffer]:
    """The buffers, and those that slices among them are slices of."""
    found = set(buffers)
    for buffer in buffers:
        while buffer.base is not None:
            buffer = buffer.base
            found.add(buffer)
    return found


def step_uses(step: Step) -> set[Buffer]:
    """The buffers that a step which is no kernel touches itself, around the steps inside it."""
    if isinstance(step, Kernel):
        return set()
    if isinstance(step, SwitchStep):
        return {step.index}
    if isinstance(step, (HostStep, BindStep)):
        return step_reads(step) | step_writes(step)
    flags = {step.flag} if isinstance(step, WhileStep) else set()
    return flags | {b for pair in step.swaps for b in pair}


def step_reads(step: Step) -> set[Buffer]:
    """The buffers a step reads, those inside it and the bases of slices included."""
    return set().union(*map(_own_reads, walk_steps([step])))


def _own_reads(step: Step) -> set[Buffer]:
    if isinstance(step, Kernel):
        return with_bases(reads(step.body))
    if isinstance(step, HostStep):
        return with_bases(set(step.inputs))
    if isinstance(step, BindStep):
        return {step.source}
    return step_uses(step)


def step_writes(step: Step) -> set[Buffer]:
    """The buffers a step changes, those inside it and the bases of slices included."""
    return set().union(*map(_own_writes, walk_steps([step])))


def _own_writes(step: Step) -> set[Buffer]:
    if isinstance(step, Kernel):
        return with_bases(writes(step.body))
    if isinstance(step, HostStep):
        return with_bases(set(step.outputs))
    if isinstance(step, (ForStep, WhileStep)):
        return {b for pair in step.swaps for b in pair}
    return set()


def is_tiny(buffer: Buffer) -> bool:
    """Whether a buffer is known to be small enough for the stack."""
    count = dm.known_product(buffer.dims)
    return count is not None and count * buffer.dtype.itemsize <= settings.current().tiny_bytes
