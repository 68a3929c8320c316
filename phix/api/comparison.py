"""Whether a compiled function gives what its ops give one by one, and what is at fault if not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Union

import numpy as np

from phix.api.arguments import function_name
from phix.api.graphs import make_graph
from phix.api.jit import jit
from phix.api.jitted import Jitted
from phix.core import dtypes as dt
from phix.core import graph as gr
from phix.core import pytrees
from phix.core import rewrites as passes
from phix.core.conversion import to_tensor
from phix.core.engines import engine
from phix.core.errors import ArgumentError
from phix.core.graph import Equation, Graph, Source, Variable
from phix.core.graph_text import equation_text
from phix.core.places import CPU
from phix.core.records import dataclass
from phix.core.tensor import Tensor
from phix.core.tracebacks import leaving_phix
from phix.passes.compiled import Compiled

# How many times the last bits of the largest number, and of what inputs a bit off make of a
# result, may rounding in another order come to.
_ROUNDINGS = 30
_NUDGES = 2
# Operations and bytes of a program that is evaluated by its meaning: some seconds.
_MOST_EVALUATED = 1_000_000
Arrays = list[np.ndarray]


@dataclass(frozen=True)
class Difference:
    """One element of a result that is not what it should be."""

    output: int
    index: tuple[int, ...]
    found: Any
    wanted: Any
    rounding: float  # how far rounding may carry it

    def __str__(self) -> str:
        at = f" at {list(self.index)}" if self.index else ""
        return (
            f"output {self.output}{at}: {self.found}, not {self.wanted} "
            f"(rounding explains {self.rounding:.1g})"
        )


@dataclass(frozen=True)
class Failure:
    """A run that raised."""

    error: Exception

    def __str__(self) -> str:
        text = str(self.error).partition("\n")[0]
        return f"{type(self.error).__name__}: {text:.120}"


Wrong = Union[Difference, Failure]


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare` found; true where all agree, and at most ten lines as text.

    Attributes:
        name: the function's.
        runs: what is wrong with each run, by its name ("jit", "jit without join_loops", ...);
            None where it agrees with eager calls.
        rewrites: those at fault: without any one of them, jit agrees. The most likely is first.
        proved: how the first of them changes what the loops mean, if that was found by evaluating
            the loops before and after it.
        equation: the first equation of the function's graph whose result differs, as text.
        op, source: its op, and the user's line.
    """

    name: str
    runs: dict[str, Wrong | None]
    rewrites: tuple[str, ...] = ()
    proved: str = ""
    equation: str = ""
    op: str = ""
    source: Source | None = None

    def __bool__(self) -> bool:
        return not any(self.runs.values())

    def __str__(self) -> str:
        head = f"compare({self.name}): "
        if self:
            return f"{head}eager calls and {len(self.runs)} ways to compile agree"
        wrong = {name: found for name, found in self.runs.items() if found}
        first = "jit" if "jit" in wrong else next(iter(wrong))
        lines = [f"{head}{first} differs from eager calls in", f"  {wrong[first]}"]
        if self.op:
            lines.append(f"first in {self.op}, at {self.source or 'a line that is not known'}")
            lines.append(f"  {self.equation:.160}")
        lines += self._blame(first == "jit")
        return "\n".join(lines)

    __repr__ = __str__

    def _blame(self, is_jit: bool) -> Iterator[str]:
        every = bool(self.runs[EVERY])
        if not self.rewrites:
            yield "leaving out one rewrite does not help; without all of them jit " + (
                "differs, too" if every else "agrees"
            )
            return
        names = " or ".join(self.rewrites)
        if not is_jit and every:
            yield "eager calls of loops and compiled functions run compiled code, too, and may be"
            yield f"what is wrong: {names} at fault in them as in jit"
        else:
            yield f"jit agrees without {names}" if is_jit else f"jit is wrong without {names}"
        first = self.rewrites[0]
        if self.proved:
            yield f"proved: {first} changes what the loops mean: {self.proved}"
        if first in passes.known():
            yield f"{first}: {passes.known()[first].what}; jit(f, disable={first!r}) leaves it out"


_WITHOUT = "jit without "
EVERY = _WITHOUT + "all rewrites"


def compare(
    function: Callable[..., Any],
    *,
    donate_argnums: int | Sequence[int] = (),
    rewrites: str | Iterable[str] | None = None,
) -> Callable[..., Comparison]:
    """Whether a function compiled by ``jit`` gives what its ops give when they are called one by
    one, and if not, which op differs first and which rewrite is at fault.

    It is compiled as it is, without each rewrite in turn, and without all. Results may differ by
    rounding: by some multiple of what they change by where the inputs are changed in their last
    bits.

    Args:
        function: a pure function of tensors, or of trees of them; jitted or not.
        donate_argnums: as for ``jit``: copies of these arguments are given away.
        rewrites: the names of those to leave out in turn; all by default. ``phix.debug.passes()``
            lists them.

    Returns:
        A function of the same arguments that gives a :class:`Comparison`: true where all agree,
        else with ``rewrites``, ``op``, ``source`` and ``runs``. As text it has at most ten lines.

    Raises:
        ArgumentError: no rewrite has that name, or the function is jitted with static arguments.

    >>> import phix
    >>> x = phix.to_tensor([1.0, 2.0])
    >>> phix.debug.compare(lambda x: phix.ops.softmax(x) * 2.0, rewrites="fuse")(x)
    compare(<lambda>): eager calls and 3 ways to compile agree
    """
    names = tuple(passes.known()) if rewrites is None else rewrites
    left_out = [n for n in passes.known() if n in passes.checked(names, "debug.compare")]
    if isinstance(function, Jitted):
        if function.static_argnums or function.static_argnames:
            raise ArgumentError(
                "debug.compare takes a function of tensors alone, and this one is jitted with "
                "static arguments; write compare(lambda x: f(x, static))"
            )
        function = function.function

    donated = (donate_argnums,) if isinstance(donate_argnums, int) else tuple(donate_argnums)

    @leaving_phix
    def compared(*args: Any) -> Comparison:
        numbers = tuple(n % len(args) for n in donated if -len(args) <= n < len(args))
        return _Comparing(function, args, numbers, left_out).result()

    return compared


class _Comparing:
    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        donated: tuple[int, ...],
        left_out: list[str],
    ) -> None:
        self.function, self.donated, self.left_out = function, donated, left_out
        leaves, self.tree = pytrees.flatten(args)
        counts = [len(pytrees.leaves(a)) for a in args]
        self.given = [
            k for n in donated for k in range(sum(counts[:n]), sum(counts[: n + 1]))
        ]  # the numbers of the leaves that are given away
        self.leaves = [np.array(to_tensor(x).numpy()) for x in leaves]
        self.graph = gr.without_effects(make_graph(function)(*args))
        self.precision = _coarsest(self.graph)
        rng = np.random.default_rng(0)
        self.nudged = [[_nudged(x, self.precision, rng) for x in self.leaves]
                       for _ in range(_NUDGES)]  # fmt: skip

    def result(self) -> Comparison:
        expected = _Expected(self._eager, self.leaves, self.nudged, self.precision)
        runs: dict[str, Wrong | None] = {"jit": self._wrong((), expected)}
        for name in self.left_out:
            runs[_WITHOUT + name] = self._wrong((name,), expected)
        runs[EVERY] = self._wrong(tuple(passes.known()), expected)
        found = Comparison(function_name(self.function), runs)
        if found:
            return found
        # those of loops come last in the table, and are the ones most often at fault
        is_jit, mended = bool(runs["jit"]), [n for n in self.left_out if runs[_WITHOUT + n]]
        if is_jit:
            mended = [n for n in self.left_out if not runs[_WITHOUT + n]]
        proved = self._proved()
        rewrites = list(dict.fromkeys([*([proved[0]] if proved else []), *reversed(mended)]))
        off = () if is_jit else _names_of(next(n for n, w in runs.items() if w))
        equation = self._first(off, next(w for w in runs.values() if w))
        found = replace(found, rewrites=tuple(rewrites), proved=proved[1] if proved else "")
        if equation is None:
            return found
        text = equation_text(self.graph, equation)
        return replace(found, equation=text, op=equation.op.name, source=equation.source)

    def _proved(self) -> tuple[str, str] | None:
        """The pass over loops that changes what they mean, by evaluating them; None where none
        does, or that would take long."""
        compiled = Compiled(self.graph)
        try:
            explained = engine(CPU.kind).explain(compiled.lower(), (True,) * len(self.leaves))
            cost = explained.cost({})
            if int(cost.flops) + int(cost.bytes_accessed) > _MOST_EVALUATED:
                return None
            return explained.fault(self.leaves, self.given)
        except Exception:  # a compiler that fails is told by the runs
            return None

    # -- runs --------------------------------------------------------------------------------
    def _arguments(self, leaves: Arrays) -> Any:
        return pytrees.unflatten(self.tree, [Tensor(np.array(x)) for x in leaves])

    def _eager(self, leaves: Arrays) -> Arrays:
        return _arrays(self.function(*self._arguments(leaves)))

    def _wrong(self, off: tuple[str, ...], expected: _Expected) -> Wrong | None:
        function = jit(self.function, donate_argnums=self.donated, disable=off)
        try:
            return expected.difference(_arrays(function(*self._arguments(self.leaves))))
        except Exception as error:
            return Failure(error)

    # -- the first equation that differs -----------------------------------------------------
    def _first(self, off: tuple[str, ...], wrong: Wrong) -> Equation | None:
        """The equation of the first value that differs where the graph ends with it.

        Where the graph alone is right - what is donated is not given to it - the one that makes
        the wrong output.
        """
        equations = self.graph.equations
        low, high, found = 0, len(equations), None
        while low < high:
            middle = (low + high) // 2
            maker = self._differs(middle, off)
            if maker is None:
                low = middle + 1
            else:
                high, found = middle, maker
        if found is None and isinstance(wrong, Difference):
            output = self.graph.outputs[wrong.output]
            found = next((e for e in equations if output in gr.flat(e.outputs)), None)
        return found

    def _differs(self, last: int, off: tuple[str, ...]) -> Equation | None:
        """What makes the first wrong value of the graph up to an equation; None if it is right."""
        part = _up_to(self.graph, last)
        expected = _Expected(lambda leaves: _arrays(part(*map(Tensor, leaves))), self.leaves,
                             self.nudged, self.precision)  # fmt: skip
        try:
            arrays = _arrays(jit(lambda *flat: part(*flat), disable=off)(*self.leaves))
        except Exception:
            return part.equations[-1]
        wrong = expected.difference(arrays)
        if wrong is None:
            return None
        output = part.outputs[wrong.output]
        return next((e for e in part.equations if output in gr.flat(e.outputs)), None)


def _names_of(run: str) -> tuple[str, ...]:
    name = run.removeprefix(_WITHOUT)
    return tuple(passes.known()) if run == EVERY else (name,)


def _up_to(graph: Graph, last: int) -> Graph:
    """The graph to an equation; its outputs are those made by then, and what others need."""
    equations = graph.equations[: last + 1]
    needed = {a for e in graph.equations[last + 1 :] for a in gr.flat(e.inputs)}
    needed.update(graph.outputs)
    made = [v for e in equations for v in gr.flat(e.outputs) if v in needed]
    return replace(graph, equations=equations, outputs=tuple(made))


def _arrays(tree: Any) -> Arrays:
    return [np.asarray(to_tensor(x).numpy()) for x in pytrees.leaves(tree)]


# -- how far rounding carries --------------------------------------------------------------------
def _coarsest(graph: Graph) -> float:
    """The distance of two neighbouring numbers near 1, in the coarsest float of a graph."""
    atoms: Iterator[Any] = (a for e in graph.equations for a in (*e.inputs, *e.outputs))
    dtypes = {dt.real_dtype(a.meta.dtype) for a in gr.flat(tuple(atoms)) if isinstance(a, Variable)}
    dtypes |= {dt.real_dtype(v.meta.dtype) for v in graph.inputs}
    return max((_precision(d) for d in dtypes if dt.is_float(d)), default=0.0)


def _precision(dtype: np.dtype) -> float:
    if dtype == dt.bfloat16:
        return 2.0**-7
    return float(np.finfo(dtype).eps)


def _nudged(x: np.ndarray, precision: float, rng: np.random.Generator) -> np.ndarray:
    """The array with its numbers changed in their last bits."""
    if not dt.is_differentiable(x.dtype):
        return x
    with np.errstate(all="ignore"):
        return (x * (1 + precision * rng.uniform(-1, 1, x.shape))).astype(x.dtype)


class _Expected:
    """What results should be, and how far rounding may carry each element."""

    def __init__(
        self, run: Callable[[Arrays], Arrays], leaves: Arrays, nudged: list[Arrays],
        precision: float,
    ) -> None:  # fmt: skip
        self.wanted = run(leaves)
        self.rounding = [_last_bits(x, precision) for x in self.wanted]
        for other in nudged:
            for k, x in enumerate(run(other)):
                moved = _ROUNDINGS * _distance(x, self.wanted[k])
                self.rounding[k] = np.maximum(self.rounding[k], np.nan_to_num(moved, posinf=0))

    def difference(self, found: Arrays) -> Difference | None:
        """The element that is furthest off, None where rounding explains all."""
        for k, (x, wanted, rounding) in enumerate(zip(found, self.wanted, self.rounding)):
            if x.shape != wanted.shape or x.dtype != wanted.dtype:
                a, b = (f"{v.dtype}{list(v.shape)}" for v in (x, wanted))
                return Difference(k, (), a, b, 0.0)
            with np.errstate(all="ignore"):
                off = _distance(x, wanted)
                is_wrong = (off > rounding) | np.isnan(off)
            if np.any(is_wrong):
                worst = np.where(is_wrong, np.nan_to_num(off, nan=np.inf), -1.0)
                at = np.unravel_index(int(np.argmax(worst)), x.shape)
                index = tuple(int(i) for i in at)
                pair = x[index].item(), wanted[index].item()
                return Difference(k, index, *pair, float(rounding[index]))
        return None


def _last_bits(x: np.ndarray, precision: float) -> np.ndarray:
    if not dt.is_differentiable(x.dtype) or not x.size:
        return np.zeros(x.shape)
    size = _distance(x, np.zeros_like(x))
    largest = np.max(np.where(np.isfinite(size), size, 0))
    return np.full(x.shape, _ROUNDINGS * precision * largest)


def _distance(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How far apart elements are; 0 where both are the same infinity or both NaN."""
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        same = (x == y) | ((x != x) & (y != y))
        return np.where(same, 0.0, np.abs(x.astype(wide) - y.astype(wide)))
