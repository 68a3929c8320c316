"""What must hold of every loop program, whatever pass has just changed it.

One rule, one function, which says what is wrong or nothing. The passes know why a change is safe;
the rules here know nothing of passes. What an index reaches is found by trying: indices of loops
take their first, their last and other values, data that users give takes any. So a rule is silent
where it cannot tell, and what it says is so.

Tests run this between all passes, and ``PHIX_VERIFY=1`` does in any process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rewrites
from phix.core.errors import VerificationError
from phix.kernels.loops import nodes as ir
from phix.kernels.loops import sampling, slot_check
from phix.kernels.loops.effects import may_meet
from phix.kernels.loops.nodes import Buffer, For, Kernel, LoopProgram, Pointer, Statement
from phix.kernels.loops.sampling import Samples
from phix.kernels.loops.text import program_text
from phix.kernels.scalar.language import Expr


def verify(after: str, program: LoopProgram) -> None:
    """Check a program that a pass, named ``after``, has just changed.

    Raises:
        VerificationError: a rule does not hold; the message names the rule, the pass and the place.
    """
    for kernel in (s for s in ir.walk_steps(program.steps) if isinstance(s, Kernel)):
        if _content(kernel) not in _checked:
            for rule, fault in _faults(kernel):
                _report(after, rule, program, fault)
    for program_rule in PROGRAM_RULES:
        for fault in program_rule(program):
            _report(after, program_rule, program, fault)


def verify_slots(steps: list[ir.Step], slots: list[list[Buffer]]) -> None:
    """Check that no two temps that share a slot of memory are needed at once.

    Raises:
        VerificationError: two are.
    """
    for fault in slot_check.faults(steps, slots):
        raise VerificationError(f"a plan of memory is wrong: {fault}. This is a fault of phix")


def verify_bounds(program: LoopProgram, sizes: Mapping[dm.Symbol, int]) -> None:
    """Check that a program stays inside its buffers where its unknown dims have these sizes.

    Raises:
        VerificationError: an index is found that is outside.
    """
    known = {name: sizes[s] for name, s in program.symbols.items() if s in sizes}
    for kernel in (s for s in ir.walk_steps(program.steps) if isinstance(s, Kernel)):
        site = Site(kernel, frozenset(), sampling.start(kernel, sizes=known), sizes)
        for rule, fault in _walked(site):
            if rule in BOUNDS:
                text = ", ".join(f"{name} = {size}" for name, size in known.items())
                _report(f"compiling, where {text}", rule, program, fault)


Rule = Callable[..., Iterator[str]]

# Kernels that were right, and what each reads that it has not written: most passes leave most
# kernels as they are.
_checked: dict[tuple[Any, ...], frozenset[Buffer]] = {}
_MOST_CHECKED = 1024


def _faults(kernel: Kernel) -> Iterator[tuple[Rule, str]]:
    yield from ((rule, fault) for rule in KERNEL_RULES for fault in rule(kernel))
    yield from _walked(Site(kernel, frozenset(), sampling.start(kernel)))
    _needs(kernel)


def _needs(kernel: Kernel) -> frozenset[Buffer]:
    """What a kernel reads before it has written it."""
    key = _content(kernel)
    if key not in _checked:
        while len(_checked) >= _MOST_CHECKED:
            _checked.pop(next(iter(_checked)), None)
        _checked[key] = frozenset(_read_first(kernel.body, set()))
    return _checked[key]


def _content(kernel: Kernel) -> tuple[Any, ...]:
    """What a kernel consists of; expressions and buffers are told apart by identity."""
    parts: list[Any] = [kernel.shared, *kernel.locals.items()]
    for s in ir.walk(kernel.body):
        parts += (type(s), len(s.body) if isinstance(s, (For, ir.If, ir.While)) else 0)
        parts += [getattr(s, name) for name in _PARTS[type(s)]]
    return tuple(parts)


_PARTS: dict[type, tuple[str, ...]] = {
    For: ("index", "start", "extent", "kind"),
    ir.Store: ("buffer", "indices", "value"),
    ir.Declare: ("target", "value"),
    ir.Assign: ("targets", "values", "reassociate"),
    ir.If: ("condition",),
    ir.While: ("condition",),
    ir.LibraryCall: ("name", "arguments", "writes", "updates"),
}


def _report(after: str, rule: Rule, program: LoopProgram, fault: str) -> None:
    way_out = f"; jit(f, disable={after!r}) may get around it" if after in rewrites.REWRITES else ""
    raise VerificationError(
        f"after {after!r} a loop program breaks the rule {rule.__name__!r}: {fault}. This is a "
        f"fault of phix, please report it{way_out}.\n" + program_text(program)
    )


# -- rules of programs -----------------------------------------------------------------------
def buffers_have_values(program: LoopProgram) -> Iterator[str]:
    """What is read has been written before, by the caller or by an earlier step."""
    known = {*program.inputs, *program.constants}
    # where one is known to be empty, others may be empty whose sizes are not known
    is_empty = any(dm.is_zero(d) for b in (*program.inputs, *program.outputs) for d in b.dims)
    if is_empty:
        known |= {b for b in program.temps if not dm.is_known(*b.dims)}
    yield from _unwritten(program.steps, known)
    yield from (
        f"nothing writes {b}"
        for b in program.outputs
        if b not in known and not any(map(dm.is_zero, b.dims))
    )


def _unwritten(steps: list[ir.Step], known: set[Buffer]) -> Iterator[str]:
    """What the steps read that has no value; ``known`` gets what they write."""
    for step in steps:
        if isinstance(step, Kernel):
            needed: Iterable[Buffer] = _needs(step)
        else:
            # an iteration leaves in the second of a pair what the first held
            known.update(n for _, n in getattr(step, "swaps", ()))
            for block in ir.blocks(step):
                yield from _unwritten(block, known)
            own = {step.index} if isinstance(step, ir.SwitchStep) else set()
            needed = own if ir.blocks(step) else ir.step_reads(step)
        for b in needed:
            is_known = b in known or ir.owner(b) in known or b.kind == "slice"
            if not is_known and not any(map(dm.is_zero, b.dims)):
                yield f"{b} is read before anything is written there"
        known |= ir.step_writes(step)


def _read_first(body: list[Statement], written: set[Buffer]) -> Iterator[Buffer]:
    """The buffers that a block reads before it writes them; ``written`` gets those it writes."""
    for s in body:
        here = {load.data for root in ir.roots(s) for load in root.loads}
        if isinstance(s, ir.LibraryCall):
            here |= ir.reads([s]) - set(s.writes)  # where it says what went wrong, nothing is read
        yield from (b for b in here - written if ir.owner(b) not in written)
        if isinstance(s, (For, ir.If, ir.While)):
            # an earlier iteration may have filled a kernel's own memory
            written.update(b for b in ir.writes(s.body) if b.kind == "local")
            yield from _read_first(s.body, written)
        else:
            written.update(ir.with_bases(ir.writes([s])))


def outputs_are_apart(program: LoopProgram) -> Iterator[str]:
    """No two results have the memory of one buffer, and none that of an input it was not given."""
    seen: set[Buffer] = set()
    for k, output in enumerate(program.outputs):
        if output in seen:
            yield f"two results live in {output}"
        seen.add(output)
        reused = program.reused[k] if program.reused else None
        if output in program.inputs and (reused is None or program.inputs[reused] is not output):
            yield f"a result lives in {output}, which was not donated to it"


# -- rules of statements and expressions -------------------------------------------------------
@dataclass(frozen=True)
class Site:
    """Where a rule is asked: the kernel, the scalars with a value there, and samples of indices."""

    kernel: Kernel
    scalars: frozenset[Expr]
    at: Samples
    sizes: Mapping[dm.Symbol, int] = field(default_factory=dict)  # of unknown dims, where tried


def _walked(start: Site) -> Iterator[tuple[Rule, str]]:
    """Ask the rules of statements and expressions, once for each in each block."""
    seen: set[Expr] = set()  # in this block and those around it

    def visit(body: list[Statement], site: Site) -> Iterator[tuple[Rule, str]]:
        new: list[Expr] = []
        for s in body:
            for e in _below(ir.roots(s), seen):
                new.append(e)
                for rule in EXPRESSION_RULES.get(e.fn, ()):
                    yield from ((rule, fault) for fault in rule(e, site))
            for rule in STATEMENT_RULES:
                yield from ((rule, fault) for fault in rule(s, site))
            if isinstance(s, ir.Declare):
                site = replace(site, scalars=site.scalars | {s.target})
            elif isinstance(s, For):
                scalars = site.scalars | {s.index}
                inside = replace(site, scalars=scalars, at=site.at.through(s))
                yield from visit(s.body, inside)
            elif isinstance(s, (ir.If, ir.While)):
                inside = replace(site, at=site.at.where(s.condition))
                yield from visit(s.body, inside)
        seen.difference_update(new)

    yield from visit(start.kernel.body, start)


def _below(roots: Iterable[Expr], seen: set[Expr]) -> Iterator[Expr]:
    """The expressions below, but for those seen; ``seen`` gets them."""
    stack = list(roots)
    while stack:
        e = stack.pop()
        if e not in seen:
            seen.add(e)
            yield e
            stack.extend(e.args)


def scalars_have_values(e: Expr, site: Site) -> Iterator[str]:
    """Indices and mutable scalars are used inside their loop or block alone."""
    if e in site.scalars:
        return
    name = str(e.data)
    if name[0] in "ia" and name[1:].isdigit():
        yield f"{name} is used where it has no value"
    if e in (ir.PIECE_START, ir.PIECE_END) and site.kernel.shared is None:
        yield f"{name} is used in a kernel that no threads share"


_SAME = {"add", "sub", "mul", "div", "fma", "maximum", "minimum", "quotient", "rest", "copysign"}
_COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}


def types_fit(e: Expr, _: Site) -> Iterator[str]:
    """Operands have one dtype, conditions are bools, indices int64, loads what memory gives."""
    kinds = [a.dtype for a in e.args]
    if e.fn in _SAME and any(k != e.dtype for k in kinds):
        yield f"{e.fn} of {kinds} makes {e.dtype}"
    elif e.fn in _COMPARISONS and (len(set(kinds)) > 1 or e.dtype != dt.bool_):
        yield f"{e.fn} compares {kinds}, as {e.dtype}"
    elif e.fn == "select" and (kinds[0] != dt.bool_ or any(k != e.dtype for k in kinds[1:])):
        yield f"select of {kinds} makes {e.dtype}"
    elif e.fn == "load":
        if e.dtype != ir.scalar_dtype(e.data.dtype):
            yield f"{e.data} of {e.data.dtype} is loaded as {e.dtype}"
        if any(k != dt.int64 for k in kinds):
            yield f"{e.data} has an index that is no int64: {kinds}"


def loads_stay_inside(e: Expr, site: Site) -> Iterator[str]:
    """Every index at which a buffer is read is inside it."""
    yield from _outside(e.data, e.args, site)


def stores_stay_inside(s: Statement, site: Site) -> Iterator[str]:
    """Every index at which a buffer is written is inside it."""
    if isinstance(s, ir.Store):
        yield from _outside(s.buffer, s.indices, site)


def _outside(buffer: Buffer, indices: tuple[Expr, ...], site: Site) -> Iterator[str]:
    dims = [dm.substitute(d, site.sizes) for d in buffer.dims]
    sizes = [d for d in dims if isinstance(d, int)]
    if buffer.kind in ("local", "slice") or len(sizes) < len(dims):
        return
    for index, limit in zip(indices, sizes if buffer.strided else [math.prod(sizes)]):
        found = site.at.violation(index, limit)
        if found is not None:
            yield f"{buffer}[{index!r}] is element {found} of {limit}"


def values_fit(s: Statement, site: Site) -> Iterator[str]:
    """What is stored or set has the dtype of where it goes."""
    if isinstance(s, ir.Store):
        if s.value.dtype != ir.scalar_dtype(s.buffer.dtype):
            yield f"{s.value.dtype} is stored in {s.buffer} of {s.buffer.dtype}"
        if any(i.dtype != dt.int64 for i in s.indices):
            yield f"{s.buffer} is stored at an index that is no int64"
    elif isinstance(s, ir.Assign):
        for target, value in zip(s.targets, s.values):
            if target.dtype != value.dtype:
                yield f"{target.data} of {target.dtype} is set to {value.dtype}"
            if target not in site.scalars:
                yield f"{target.data} is set where it is not declared"
    elif isinstance(s, For):
        if s.index in site.scalars:
            yield f"{s.index.data} counts two loops at once"
        if s.extent.dtype != dt.int64 or s.start.dtype != dt.int64:
            yield f"the loop over {s.index.data} has bounds that are no int64"


# -- rules of kernels ------------------------------------------------------------------------
def memory_has_one_name(kernel: Kernel) -> Iterator[str]:
    """What is written is touched under one name: code is compiled as if names were apart."""
    written = ir.writes(kernel.body)
    touched = sorted(written | ir.reads(kernel.body), key=lambda b: b.name)
    for w in sorted(written, key=lambda b: b.name):
        for b in touched:
            if b is not w and may_meet(b, w):
                yield f"{w}, which is written, is memory of {b} too"


def threads_stay_apart(kernel: Kernel) -> Iterator[str]:
    """No element that one iteration of a shared loop writes is touched by another."""
    shared = [s for s in ir.walk(kernel.body) if isinstance(s, For) and s.start is ir.PIECE_START]
    if kernel.shared is None or len(shared) != 1 or shared[0].kind == "independent":
        return
    loop, extent = shared[0], kernel.shared.extent
    if extent.fn != "const" or extent.data < 2:
        return
    numbers = sorted({0, 1, extent.data // 2, extent.data - 1})
    touched = [_touched(kernel, loop, number) for number in numbers]
    for k, (written, _) in enumerate(touched):
        for other, (_, every) in enumerate(touched):
            common = written & every if other != k else None
            if common:
                buffer, element = next(iter(common))
                pair = f"iterations {numbers[k]} and {numbers[other]}"
                yield f"{pair} of the loop that threads share meet in {buffer}[{element}]"


def _touched(
    kernel: Kernel, loop: For, number: int
) -> tuple[set[tuple[Buffer, int]], set[tuple[Buffer, int]]]:
    """The elements that one iteration of ``loop`` writes, and those it touches, as far as known."""
    written: set[tuple[Buffer, int]] = set()
    every: set[tuple[Buffer, int]] = set()

    def note(
        buffer: Buffer, indices: tuple[Expr, ...], at: Samples, *sets: set[tuple[Buffer, int]]
    ) -> None:
        if buffer.kind != "local" and not buffer.strided:
            for element in at.values(indices[0]):
                for found in sets:
                    found.add((ir.owner(buffer), int(element)))

    def visit(block: list[Statement], at: Samples) -> None:
        for s in block:
            for load in {load for root in ir.roots(s) for load in root.loads}:
                note(load.data, load.args, at, every)
            if isinstance(s, ir.Store):
                note(s.buffer, s.indices, at, every, written)
            elif isinstance(s, ir.LibraryCall):
                for a in s.arguments:
                    if isinstance(a, Pointer):
                        own = (every, written) if a.buffer in s.writes else (every,)
                        note(a.buffer, (a.offset,), at, *own)
            elif isinstance(s, For):
                visit(s.body, at.fixed(s.index, number) if s is loop else at.through(s))
            elif isinstance(s, (ir.If, ir.While)):
                visit(s.body, at.where(s.condition))

    visit(kernel.body, sampling.start(kernel, 64))
    return written, every


PROGRAM_RULES = (buffers_have_values, outputs_are_apart)
KERNEL_RULES = (memory_has_one_name, threads_stay_apart)
# By the function that an expression applies: a rule is asked where it has something to say.
EXPRESSION_RULES: dict[str, tuple[Rule, ...]] = {
    **dict.fromkeys((*_SAME, *_COMPARISONS, "select"), (types_fit,)),
    "load": (types_fit, loads_stay_inside),
    "var": (scalars_have_values,),
}
STATEMENT_RULES = (values_fit, stores_stay_inside)
BOUNDS = (loads_stay_inside, stores_stay_inside)
