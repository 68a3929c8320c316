"""What each stage of a compilation did, and how long it took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from phix.api.jit import jit
from phix.api.jitted import Jitted
from phix.core import rewrites, stages
from phix.core.graph import Graph, graphs_inside
from phix.core.records import dataclass
from phix.core.stages import Stage
from phix.passes.compiled import Compiled


@dataclass(frozen=True)
class StageReport:
    """One stage: ``level`` says what came out of it (``graph``, ``loops`` or ``code``)."""

    level: str
    name: str
    seconds: float
    what: str  # what it changed, "" where nothing

    def __str__(self) -> str:
        return f"{self.level:<6} {self.name:<20} {1e3 * self.seconds:8.2f} ms  {self.what}".rstrip()


@dataclass(frozen=True)
class Compilation:
    """The stages of a compilation in order; printed, a line each."""

    stages: tuple[StageReport, ...]

    def __iter__(self) -> Iterator[StageReport]:
        return iter(self.stages)

    def __str__(self) -> str:
        total = sum(s.seconds for s in self.stages)
        return "\n".join([*map(str, self.stages), f"{'':<27} {1e3 * total:8.2f} ms"])


def compilation(function: Callable[..., Any], args: tuple[Any, ...]) -> Compilation:
    """The compilation of a function for arguments like these, made anew."""
    jitted = function if isinstance(function, Jitted) else jit(function)
    traced = jitted.lower(*args)._traced.compiled
    homes, main = jitted.lower(*args)._places
    history = _History(traced.graph)
    with rewrites.without(traced.off), stages.watching(history):
        fresh = Compiled(traced.graph, traced.off, traced.library, traced.memory_limit)
        program = fresh.program((True,) * len(traced.graph.inputs), homes, main)
        _ = program.sections  # all that a program is made from
        if fresh.is_static:
            shapes: Any = tuple(v.meta.dims for v in fresh.graph.inputs)
            program.launcher(shapes)
    return Compilation(tuple(history.reports))


class _History:
    """Hears of the stages, and says of each what it changed."""

    def __init__(self, graph: Graph) -> None:
        self.texts = {stages.GRAPH: str(graph)}
        self.counts = {stages.GRAPH: _in_graph(graph)}
        self.reports: list[StageReport] = []

    def __call__(self, stage: Stage) -> None:
        text = str(stage.value)
        count = _COUNTS[stage.level](stage.value)
        what = self._change(stage.level, text, count)
        self.texts[stage.level], self.counts[stage.level] = text, count
        self.reports.append(StageReport(stage.level, stage.name, stage.seconds, what))

    def _change(self, level: str, text: str, count: Counter[str]) -> str:
        if level not in self.texts or level == stages.CODE:
            return ", ".join(f"{n} {what}" for what, n in count.items())
        if self.texts[level] == text:
            return ""
        before = self.counts[level]
        parts = [
            f"{before[k]} -> {count[k]} {k}" for k in {**before, **count} if before[k] != count[k]
        ]
        return ", ".join(parts) or "changed"


def _in_graph(graph: Graph) -> Counter[str]:
    return Counter(equations=sum(len(g.equations) for g in graphs_inside(graph)))


def _in_code(code: Any) -> Counter[str]:
    return Counter(lines=code.count("\n")) if isinstance(code, str) else Counter()


_COUNTS: dict[str, Callable[[Any], Counter[str]]] = {
    stages.GRAPH: _in_graph,
    stages.LOOPS: lambda program: Counter(program.counts()),
    stages.CODE: _in_code,
}
