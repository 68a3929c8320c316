"""Whether the calls of a program fit sizes that it computes itself.

Sizes of inputs are known before a program runs, and every check of every op is made for them. A
size that an equation binds is known in the middle of a run: where a call might not fit it, the
program looks when it is bound, before anything of that size is computed.

Which calls these are is found by inferring their metas for some sizes: what fits them all asks for
no size in particular.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Union

from phix.core import dims as dm
from phix.core import slices
from phix.core.dims import Symbol
from phix.core.errors import PhixError, ShapeError
from phix.core.graph import Equation, Graph, flat, graphs_in, symbols_of
from phix.core.op import Op
from phix.core.recent import Recent
from phix.core.settings import most_sizes
from phix.core.source import at_source

Infer = Callable[[Equation, Mapping[Symbol, Any]], Any]
_infer: list[Infer] = []
_keep: list[Callable[[Op, tuple[Any, ...], tuple[Any, ...]], None]] = []
# Sizes to try: one for all unknown dims, or one for each.
_ALIKE = (0, 1)
_APART = (
    (2, 3, 5, 7, 11, 13, 17, 19),
    (1021, 1019, 1013, 1009, 997, 991, 983, 977),
    tuple([10**9 + n for n in (7, 9, 21, 33, 87, 93, 97, 103)]),  # for what bounds sizes from above
)


def provide(infer: Infer) -> None:
    """Say how the metas of an equation are inferred, its unknown dims having those sizes."""
    _infer[:] = [infer]


def provide_composites(keep: Callable[[Op, tuple[Any, ...], tuple[Any, ...]], None]) -> None:
    """Say how a program comes to look at the sizes of a composite's call."""
    _keep[:] = [keep]


def check_composite(op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> None:
    """Have the program look at a composite's call that has a size which the program computes."""
    seen: list[Any] = list(attrs)  # loops, for this is asked of every call that is traced
    for x in inputs:
        if type(x) is tuple:
            for entry in x:
                seen += entry.meta.dims
        elif x is not None:
            seen += x.meta.dims
    for d in seen:
        if type(d) is tuple:
            seen += d
        elif isinstance(d, dm.Dim) and dm.is_computed(d):
            _keep[0](op, inputs, attrs)
            return


class SizeCheck:
    """Raises where an equation does not fit the sizes that a run has bound so far."""

    def __init__(self, equations: Sequence[Equation], symbols: set[Symbol]) -> None:
        self.equations = equations
        self.symbols = sorted(symbols, key=lambda s: s.number)
        self.fit: Recent[bool] = Recent(most_sizes)

    def __call__(self, env: Mapping[Symbol, Any]) -> None:
        self.fit.get(tuple([env.get(s) for s in self.symbols]), lambda: self.look(env))

    def look(self, env: Mapping[Symbol, Any]) -> bool:
        """Infer again what has all its sizes by now."""
        for equation in self.equations:
            if all(s in env for s in symbols_around(equation)):
                try:
                    inferred(equation, env)
                except PhixError as error:
                    raise at_source(error, equation.source) from None
        return True


def size_bound(equation: Equation, size: int) -> int:
    """The size that an equation gives a dim: from 0 on.

    Raises:
        ShapeError: it is negative, and the equation has a refusal of that.
    """
    refusal = equation.attrs[2]
    if size < 0 and refusal:
        raise at_source(ShapeError(f"{refusal}, found {size}"), equation.source)
    return max(size, 0)


class Bound:
    """Raises where a run binds a negative size that the equation refuses; then the check looks."""

    def __init__(self, equation: Equation, check: SizeCheck | None) -> None:
        (self.symbol,) = dm.symbols(equation.attrs[0])
        self.equation, self.check = equation, check
        self.symbols = [self.symbol] if check is None else check.symbols
        self.refusal: str = equation.attrs[2]

    def __call__(self, env: Mapping[Symbol, Any]) -> None:
        size_bound(self.equation, env[self.symbol])
        if self.check is not None:
            self.check(env)


Check = Union[SizeCheck, Bound]


def size_checks(graph: Graph) -> dict[Symbol, Check]:
    """What is to be looked at where the graph binds a dim, for those that need a look."""
    bound = graph.bound_symbols
    if not bound or not _infer:
        return {}
    found: dict[Symbol, Any] = {}
    unsure = [e for e in equations(graph) if not bound.isdisjoint(symbols_around(e)) and asks(e)]
    for symbol in bound:
        own = [e for e in unsure if symbol in symbols_around(e)]
        if own:
            found[symbol] = SizeCheck(own, set().union(*map(symbols_around, own)))
    for equation in graph.equations:
        if equation.op.binds_dim and equation.attrs[2]:
            (symbol,) = dm.symbols(equation.attrs[0])
            found[symbol] = Bound(equation, found.get(symbol))
    return found


def check_inside(graph: Graph, env: Mapping[Symbol, Any]) -> None:
    """Look whether the graphs inside fit the sizes of the inputs, as far as these tell theirs.

    Raises:
        ShapeError or its like: what a call on the way says of such sizes.
    """
    if not any(e.op.has_graphs for e in graph.equations):
        return
    check = graph.memo.get("inside")
    if check is None:
        inner = [g for e in graph.equations for g in graphs_in(e.attrs)]
        unsure = [e for g in inner for e in equations(g) if symbols_around(e) and asks(e)]
        check = graph.memo["inside"] = SizeCheck(unsure, set().union(*map(symbols_around, unsure)))
    check(env)


def equations(graph: Graph) -> Iterator[Equation]:
    """Those of a graph and of all inside it, but for the ones that bind dims."""
    waiting = [graph]
    while waiting:
        for equation in waiting.pop().equations:
            if not equation.op.binds_dim:
                yield equation
            waiting.extend(graphs_in(equation.attrs))


def symbols_around(equation: Equation) -> set[Symbol]:
    """The unknown dims of what an equation takes and gives."""
    taken = {s for a in flat(equation.inputs) for d in a.meta.dims for s in dm.symbols(d)}
    return taken | (symbols_of(equation) - _own(equation))


def _own(equation: Equation) -> set[Symbol]:
    """Those that graphs inside an equation bind."""
    inner = list(graphs_in(equation.attrs))
    found: set[Symbol] = set()
    while inner:
        graph = inner.pop()
        found |= graph.bound_symbols
        inner += [g for e in graph.equations for g in graphs_in(e.attrs)]
    return found


def asks(equation: Equation) -> bool:
    """Whether there are sizes that the equation does not fit, as far as a few of them tell."""
    symbols = sorted(symbols_around(equation), key=lambda s: s.number)
    metas = tuple([a.meta for a in flat(equation.inputs)])
    if slices.may_count_from_the_end(equation.op, metas, equation.attrs):
        return True
    return next(unfit(equation, symbols), None) is not None


def unfit(equation: Equation, symbols: Sequence[Symbol]) -> Iterator[dict[Symbol, int]]:
    """Those of a few sizes that the equation does not fit."""
    tried = [dict.fromkeys(symbols, size) for size in _ALIKE]
    apart = [{s: sizes[n % len(sizes)] for n, s in enumerate(symbols)} for sizes in _APART]
    tried += apart
    tried += [{**apart[0], s: 0} for s in symbols]  # elements are asked for where there is none
    if fits(equation, {}):  # else whoever made it knows more than what infers its metas
        yield from (env for env in tried if not fits(equation, env))


def inferred(equation: Equation, env: Mapping[Symbol, Any]) -> Any:
    """The metas of what the equation gives, its unknown dims having those sizes.

    Raises:
        ShapeError or its like: it does not fit them.
    """
    return _infer[0](equation, env)


def fits(equation: Equation, env: Mapping[Symbol, Any]) -> bool:
    """Whether the equation's metas can be inferred for those sizes."""
    try:
        inferred(equation, env)
    except PhixError:
        return False
    return True
