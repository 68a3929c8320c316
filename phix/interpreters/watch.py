"""The interpreter that looks for the op which made a NaN or Inf out of finite inputs.

It stands on the eager one, so every transformation is above it. What a derivative of one op does
is judged as a whole, since rules may make an Inf that they mask again; so is a compiled graph,
which runs again op by op once its results are not finite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from phix.core import context, stack
from phix.core import dtypes as dt
from phix.core.errors import NonFiniteError
from phix.core.graph import Graph, Source, flat, graphs_in, map_attrs
from phix.core.interpreter import Interpreter
from phix.core.op import Op
from phix.core.records import dataclass
from phix.core.rules import OPS
from phix.core.source import user_source
from phix.core.tensor import Tensor, TensorBase
from phix.interpreters.decompose import rewrite
from phix.interpreters.stage import Staging


@dataclass
class Fault:
    """A call that made something out of finite inputs that is not."""

    op: str
    names: tuple[str, ...]
    inputs: list[np.ndarray]
    outputs: list[np.ndarray]
    source: Source | None
    drops: bool = False  # whether a zero met it and made a NaN

    def error(self) -> NonFiniteError:
        passes = self.source.passes if self.source else ()
        error = NonFiniteError(f"{self.headline(passes)}{self.way_out(passes)}")
        error.op, error.source, error.passes = self.op, self.source, passes
        return error

    def headline(self, passes: tuple[str, ...]) -> str:
        bad = next(x for x in self.outputs if not is_finite(x))
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(bad))[0])
        kind = "NaN" if np.isnan(bad[where]) else "Inf"
        count = int(np.count_nonzero(~np.isfinite(bad)))
        at = f" at {self.source}" if self.source else ""
        shown = ", ".join(f"{n} = {v}" for n, v in zip(self.names, self.values(bad, where)))
        of = f" of {self.source.op}" if self.source and passes else ""
        which = f": {count} of {bad.size} elements, the first at {list(where)}" if where else ""
        return (
            f"{self.op}{at}, in the {pass_text(passes)}{of}, made {kind} out of finite inputs"
            f"{which}" + (f", where {shown}" if shown else "")
        )

    def values(self, bad: np.ndarray, where: tuple[int, ...]) -> Iterator[Any]:
        """What the inputs are at an element of an output, as far as they broadcast to it."""
        for x in self.inputs:
            try:
                yield np.broadcast_to(x, bad.shape)[where]
            except ValueError:
                return

    def way_out(self, passes: tuple[str, ...]) -> str:
        if "backward" in passes and self.drops:
            op = self.source.op if self.source else self.op
            return (
                "; the cotangent there is zero, as it is where a `where` drops the value, but "
                "zero times what is not finite is NaN. The remedy is to choose twice: "
                f"where(ok, {op}(where(ok, x, safe)), other), with a safe number inside, so that "
                "the side not chosen stays finite"
            )
        if passes:
            return ""
        return (
            "; keep the inputs in the domain of the op. If a `where` is to drop these elements, "
            f"choose twice, or the gradient will be NaN: where(ok, {self.op}(where(ok, x, safe)), "
            "other)"
        )


def pass_text(passes: tuple[str, ...]) -> str:
    """forward pass; backward pass of order 2; tangent pass of the backward pass of order 1."""
    if not passes:
        return "forward pass"
    if set(passes) == {"backward"}:
        return f"backward pass of order {len(passes)}"
    done, rest = passes[-1], passes[:-1]
    return f"{done} pass of the {pass_text(rest)}" if rest else f"{done} pass"


def is_finite(x: np.ndarray) -> bool:
    return not dt.is_differentiable(x.dtype) or bool(np.isfinite(x).all())


def arrays(values: Any) -> list[np.ndarray]:
    """The arrays of tensors, or of tracers over them, in nested tuples and lists."""
    if isinstance(values, (tuple, list)):
        return [a for v in values for a in arrays(v)]
    if isinstance(values, Tensor):
        return [values.host]
    if isinstance(values, TensorBase):
        parts = (getattr(values, part, None) for part in ("value", "tangent", "series"))
        return [a for v in parts for a in arrays(v)]
    return []


def zero_met(inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> bool:
    """Whether an element is NaN at which an input is exactly zero."""
    for out in outputs:
        if is_finite(out):
            continue
        for x in inputs:
            try:
                if np.any(np.isnan(out) & (np.broadcast_to(x, out.shape) == 0)):
                    return True
            except ValueError:
                continue
    return False


class Watch(Interpreter):
    """Runs ops in its parent and looks at what they give."""

    name = "nans"
    watches = True

    def __init__(self, parent: Interpreter) -> None:
        super().__init__(parent)
        self.faults: list[Fault] = []
        self.early: list[Fault] = []  # in what a derivative will take
        self.depth = 0  # of what is judged as a whole

    def process(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        assert self.parent is not None
        with context.active(self.parent):
            outs = self.parent.process(op, inputs, attrs)
        results = arrays(outs)
        if not all(map(is_finite, results)):
            given = arrays(flat(inputs))
            if all(map(is_finite, given)):
                self.found(op, inputs, attrs, results)
            else:
                self.passed_on(op, inputs, attrs, given, results)
        return outs

    def passed_on(self, op: Op, inputs: Any, attrs: Any, given: Any, results: Any) -> None:
        """What an op makes of inputs that are not finite: does a zero meet them?"""
        first = next(iter(self.faults or self.early), None)
        if first is None or first.drops:
            return
        first.drops = zero_met(given, results)
        if op.has_graphs and not first.drops:
            self.look_inside(op, inputs, attrs)

    def found(self, op: Op, inputs: Any, attrs: Any, results: list[np.ndarray]) -> None:
        before = len(self.faults)
        if op.has_graphs:
            self.look_inside(op, inputs, attrs)
        if len(self.faults) == before:
            self.note(fault(op, arrays(flat(inputs)), results, user_source()))
        if not self.depth:
            raise self.faults[0].error()

    def note(self, found: Fault) -> None:
        found.drops = zero_met(found.inputs, found.outputs)
        self.faults.append(found)

    def look_inside(self, op: Op, inputs: Any, attrs: Any) -> None:
        """Run an op that has graphs again, in a way that shows what happens inside."""
        assert self.parent is not None
        self.depth += 1
        try:
            if "calls_graph" in op.traits:
                with context.active(self):
                    next(graphs_in(attrs))(*flat(inputs))
            else:
                inside = map_attrs(lambda g: watched(g, self), attrs)
                with context.active(self.parent):
                    self.parent.process(op, inputs, inside)
        finally:
            self.depth -= 1

    def derivative(self, run: Callable[[], Any], early: bool = False) -> Any:
        """``run()``, the derivative of an op, judged by what it gives.

        ``early``: it is an op with what its derivative will take from it. A fault in that is one
        if the derivative does.
        """
        before = len(self.faults)
        self.depth += 1
        try:
            found = run()
        finally:
            self.depth -= 1
        if all(map(is_finite, arrays(found))):
            if early:
                self.early += self.faults[before:]
            del self.faults[before:]
        elif not self.depth and (self.faults or self.early):
            raise (self.faults or self.early)[0].error()
        return found


def fault(op: Op, inputs: list[np.ndarray], outputs: list[np.ndarray], source: Any) -> Fault:
    names = (f"input {n}" for n in range(len(inputs))) if op.has_lists else ()
    return Fault(op.name, tuple(names) or tuple(a.name for a in op.inputs), inputs, outputs, source)


# -- inside loops and branches: what each op gives is handed to the host ---------------------------
@dataclass(frozen=True)
class Look:
    """Gets the inputs and outputs of one op of a graph, each time it has run."""

    watch: Watch
    op: Op
    count: int
    source: Source | None

    @property
    def __name__(self) -> str:
        return "nans"

    def __call__(self, values: Sequence[Any]) -> None:
        given, results = list(values[: self.count]), list(values[self.count :])
        if all(map(is_finite, results)):
            return
        if all(map(is_finite, given)):
            kept = [np.array(x) for x in given], [np.array(x) for x in results]
            self.watch.note(fault(self.op, *kept, self.source))
        else:
            first = next(iter(self.watch.faults or self.watch.early), None)
            if first is not None and zero_met(given, results):
                first.drops = True


class Watched(Interpreter):
    """Writes ops down with a look at each behind it."""

    name = "nans"
    stages = True

    def __init__(self, parent: Staging, watch: Watch) -> None:
        super().__init__(parent)
        self.stage, self.watch = parent, watch

    def process(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        if op.has_graphs:
            attrs = map_attrs(lambda g: watched(g, self.watch), attrs)
        outs = self.stage.process(op, inputs, attrs)
        given, results = (
            flat(inputs),
            flat(outs if isinstance(outs, tuple) else (outs,)),
        )
        if not op.has_graphs and any(dt.is_differentiable(x.dtype) for x in results):
            look = Look(self.watch, op, len(given), self.stage.source)
            self.stage.process(OPS["debug_callback"], ((*given, *results),), (look,))
        return outs


@stack.nests
def watched(graph: Graph, watch: Watch) -> Graph:
    """``graph`` with a look at what each of its ops gives."""
    return rewrite(graph, lambda stage: Watched(stage, watch))
