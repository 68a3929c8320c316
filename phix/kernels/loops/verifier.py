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
from typing import Any, NamedTuple

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rewrites
from phix.core.errors import VerificationError
from phix.core.records import dataclass, field
from phix.kernels.loops import nodes as ir
from phix.kernels.loops import sampling, slot_check
from phix.kernels.loops.calls import CallStep
from phix.kernels.loops.effects import Effects, effects_of, may_meet
from phix.kernels.loops.nodes import Buffer, For, Kernel, LoopProgram, Pointer, Statement
from phix.kernels.loops.sampling import Samples
from phix.kernels.loops.text import program_text
from phix.kernels.scalar.language import CHOICES, Expr


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
        site = Site(kernel, sampling.start(kernel, sizes=known), sizes)
        for rule, fault in _first_fault(site, BOUNDS):
            text = ", ".join(f"{name} = {size}" for name, size in known.items())
            _report(f"compiling, where {text}", rule, program, fault)


Check = Callable[..., Any]

# Kernels that were right, and what each reads that it has not written: most passes leave most
# kernels as they are.
_checked: dict[tuple[Any, ...], frozenset[Buffer]] = {}
_MOST_CHECKED = 1024


def _faults(kernel: Kernel) -> Iterator[tuple[Check, str]]:
    yield from ((rule, fault) for rule in KERNEL_RULES for fault in rule(kernel))
    yield from _first_fault(Site(kernel, sampling.start(kernel)), PLACE_RULES)
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
    For: ("index", "start", "extent", "kind", "is_vector"),
    ir.Store: ("buffer", "indices", "value"),
    ir.Declare: ("target", "value"),
    ir.Assign: ("targets", "values", "reassociate"),
    ir.If: ("condition",),
    ir.While: ("condition",),
    ir.LibraryCall: ("name", "arguments", "writes", "updates"),
}


def _report(after: str, rule: Check, program: LoopProgram, fault: str) -> None:
    way_out = f"; jit(f, disable={after!r}) may get around it" if after in rewrites.known() else ""
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


def flights_are_undisturbed(program: LoopProgram) -> Iterator[str]:
    """What is begun is waited for once, in its block, and meanwhile nothing touches what it fills
    or changes what it reads."""
    yield from _disturbed(program.steps)


def _disturbed(steps: list[ir.Step]) -> Iterator[str]:
    begun: list[ir.StartStep] = []
    for step in steps:
        for block in ir.blocks(step):
            yield from _disturbed(block)
        if isinstance(step, ir.WaitStep):
            if step.start not in begun:
                yield f"{step.name} is waited for, and was not begun"
                continue
            begun.remove(step.start)
            if (step.start.inputs, step.start.outputs) != (step.inputs, step.outputs):
                yield f"{step.name} is waited for with other buffers than it was begun with"
        reads, writes = ir.step_reads(step), ir.step_writes(step)
        for start in begun:
            filled = {b for b in start.outputs for o in reads | writes if may_meet(b, o)}
            changed = {b for b in start.inputs for o in writes if may_meet(b, o)}
            if filled | changed:
                names = sorted(b.name for b in filled | changed)
                yield f"{names[0]} is touched while a {start.name} is under way"
        is_alike = isinstance(step, ir.HostStep) and "begin" in step.attrs
        is_alike &= all(isinstance(s, CallStep) == isinstance(step, CallStep) for s in begun)
        if begun and not is_alike and _is_left(step):
            yield f"Python runs something while a {begun[0].name} is under way"
        if isinstance(step, ir.StartStep):
            begun.append(step)
    yield from (f"{start.name} is begun, and not waited for in its block" for start in begun)


def _is_left(step: ir.Step) -> bool:
    """Whether Python runs a part of the step, or a dim gets its value there."""
    inside = ir.walk_steps([step])
    return any(isinstance(s, (ir.HostStep, ir.BindStep)) for s in inside)


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


def kernels_beside_are_apart(program: LoopProgram) -> Iterator[str]:
    """What a kernel writes is no temp, and nothing that those it may run beside touch."""
    around = Effects(frozenset(), frozenset())
    for step in program.steps:
        own = effects_of(step)
        if not isinstance(step, Kernel) or step.beside is None:
            around = own
            continue
        for buffer in around.conflicts(own):
            yield f"kernels that may run at once meet in {buffer}"
        around = around.joined(own)
        if any(b.kind == "temp" for b in around.writes):
            yield "a kernel that may run beside others writes a temp"


# -- rules of statements and expressions -------------------------------------------------------
# Each gives the fault, or None: they are asked of everything that stands in a program.
@dataclass
class Site:
    """Where a rule is asked: the kernel, samples of indices, and the scalars with a value there."""

    kernel: Kernel
    at: Samples
    sizes: Mapping[dm.Symbol, int] = field(default_factory=dict)  # of unknown dims, where tried
    scalars: set[Expr] = field(default_factory=set)
    limits: dict[Buffer, list[int]] = field(default_factory=dict)  # of indices, where known

    def inside(self, at: Samples) -> Site:
        """The site of a block inside, of which samples are these."""
        return Site(self.kernel, at, self.sizes, self.scalars, self.limits)


class PlaceRules(NamedTuple):
    """The rules to ask, by the kind of statement, and by the function that an expression applies:
    each is asked where it has something to say."""

    of_statements: dict[type, tuple[Check, ...]]
    of_expressions: dict[str, tuple[Check, ...]]


def _first_fault(start: Site, rules: PlaceRules) -> list[tuple[Check, str]]:
    """The first fault of the kernel, if any; expressions are asked about once in each block."""
    seen: set[Expr] = set()  # in this block and those around it
    scalars = start.scalars

    def visit(body: list[Statement], site: Site) -> list[tuple[Check, str]]:
        new: list[Expr] = []
        own: list[Expr] = []
        found: list[tuple[Check, str]] = []
        for s in body:
            stack = list(ir.roots(s))
            while stack:
                e = stack.pop()
                if e not in seen:
                    seen.add(e)
                    new.append(e)
                    stack += e.args
                    for rule in rules.of_expressions.get(e.fn, ()):
                        if fault := rule(e, site):
                            return [(rule, fault)]
            for rule in rules.of_statements.get(type(s), ()):
                if fault := rule(s, site):
                    return [(rule, fault)]
            if isinstance(s, ir.Declare):
                own += () if s.target in scalars else (s.target,)
                scalars.add(s.target)
            elif isinstance(s, For):
                is_new = s.index not in scalars
                scalars.add(s.index)
                found = visit(s.body, site.inside(site.at.through(s)))
                scalars.difference_update([s.index] if is_new else ())
            elif isinstance(s, (ir.If, ir.While)):
                found = visit(s.body, site.inside(site.at.where(s.condition)))
            if found:
                return found
        seen.difference_update(new)
        scalars.difference_update(own)
        return []

    return visit(start.kernel.body, start)


def scalars_have_values(e: Expr, site: Site) -> str | None:
    """Indices and mutable scalars are used inside their loop or block alone."""
    if e in site.scalars:
        return None
    name = str(e.data)
    if name[0] in "ia" and name[1:].isdigit():
        return f"{name} is used where it has no value"
    if e in (ir.PIECE_START, ir.PIECE_END) and site.kernel.shared is None:
        return f"{name} is used in a kernel that no threads share"
    return None


_SAME = {"add", "sub", "mul", "div", "fma", "maximum", "minimum", "quotient", "rest", "copysign"}
_COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}


def types_fit(e: Expr, _: Site) -> str | None:
    """Operands have one dtype, conditions are bools."""
    kinds = [a.dtype for a in e.args]
    if e.fn in _SAME and any(k != e.dtype for k in kinds):
        return f"{e.fn} of {kinds} makes {e.dtype}"
    if e.fn in _COMPARISONS and (any(k != kinds[0] for k in kinds) or e.dtype != dt.bool_):
        return f"{e.fn} compares {kinds}, as {e.dtype}"
    if e.fn in CHOICES and (kinds[0] != dt.bool_ or any(k != e.dtype for k in kinds[1:])):
        return f"{e.fn} of {kinds} makes {e.dtype}"
    return None


def loads_fit(e: Expr, _: Site) -> str | None:
    """Indices are int64, and loads give what memory holds."""
    if e.dtype != ir.scalar_dtype(e.data.dtype):
        return f"{e.data} of {e.data.dtype} is loaded as {e.dtype}"
    if any(a.dtype != dt.int64 for a in e.args):
        return f"{e.data} has an index that is no int64: {[a.dtype for a in e.args]}"
    return None


def loads_stay_inside(e: Expr, site: Site) -> str | None:
    """Every index at which a buffer is read is inside it."""
    return _outside(e.data, e.args, site)


def stores_stay_inside(s: ir.Store, site: Site) -> str | None:
    """Every index at which a buffer is written is inside it."""
    return _outside(s.buffer, s.indices, site)


def _outside(buffer: Buffer, indices: tuple[Expr, ...], site: Site) -> str | None:
    limits = site.limits.get(buffer)
    if limits is None:
        limits = site.limits[buffer] = _limits(buffer, site.sizes)
    for index, limit in zip(indices, limits):
        found = site.at.violation(index, limit)
        if found is not None:
            return f"{buffer}[{index!r}] is element {found} of {limit}"
    return None


def _limits(buffer: Buffer, sizes: Mapping[dm.Symbol, int]) -> list[int]:
    """What the indices of a buffer stay below; none where they are not all known."""
    dims = [dm.substitute(d, sizes) for d in buffer.dims]
    known = [d for d in dims if isinstance(d, int)]
    if buffer.kind in ("local", "slice") or len(known) < len(dims):
        return []
    return known if buffer.strided else [math.prod(known)]


def stores_fit(s: ir.Store, _: Site) -> str | None:
    """What is stored has the dtype of where it goes."""
    if s.value.dtype != ir.scalar_dtype(s.buffer.dtype):
        return f"{s.value.dtype} is stored in {s.buffer} of {s.buffer.dtype}"
    if any(i.dtype != dt.int64 for i in s.indices):
        return f"{s.buffer} is stored at an index that is no int64"
    return None


def assignments_fit(s: ir.Assign, site: Site) -> str | None:
    """What is set is declared, and has the dtype of what it is set to."""
    for target, value in zip(s.targets, s.values):
        if target.dtype != value.dtype:
            return f"{target.data} of {target.dtype} is set to {value.dtype}"
        if target not in site.scalars:
            return f"{target.data} is set where it is not declared"
    return None


def loops_fit(s: For, site: Site) -> str | None:
    """An index counts one loop at a time, between bounds that are int64."""
    if s.index in site.scalars:
        return f"{s.index.data} counts two loops at once"
    if s.extent.dtype != dt.int64 or s.start.dtype != dt.int64:
        return f"the loop over {s.index.data} has bounds that are no int64"
    return None


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
    if extent.fn != "const" or extent.data < 2 or _is_in_stretches(kernel):
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


def _is_in_stretches(kernel: Kernel) -> bool:
    """Whether a piece is cut further: a loop over a part of it does not say what all of it does."""
    roots = [e for s in ir.walk(kernel.body) for e in ir.roots(s) if e is not ir.PIECE_START]
    return ir.PIECE_START in ir.expressions([ir.Declare(e, e) for e in roots])


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


PROGRAM_RULES = (
    buffers_have_values,
    flights_are_undisturbed,
    kernels_beside_are_apart,
    outputs_are_apart,
)
KERNEL_RULES = (memory_has_one_name, threads_stay_apart)
PLACE_RULES = PlaceRules(
    {
        ir.Store: (stores_fit, stores_stay_inside),
        ir.Assign: (assignments_fit,),
        For: (loops_fit,),
    },
    {
        **dict.fromkeys((*_SAME, *_COMPARISONS, *CHOICES), (types_fit,)),
        "load": (loads_fit, loads_stay_inside),
        "var": (scalars_have_values,),
    },
)
BOUNDS = PlaceRules({ir.Store: (stores_stay_inside,)}, {"load": (loads_stay_inside,)})
