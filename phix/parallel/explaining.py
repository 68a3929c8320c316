"""What a plan says of itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from phix.core.graph import Literal, flat
from phix.core.records import dataclass
from phix.core.source import Source
from phix.parallel.forms import Move
from phix.parallel.meshes import Mesh
from phix.parallel.plans import Convert, DividedGraph, Run, joined_move


class Collective(NamedTuple):
    """One step between the parts of a mesh, as a plan has it.

    ``kind`` is psum, all_gather, psum_scatter, all_to_all, pmax or pmin; ``axis`` that of the mesh;
    ``bytes`` what a part sends; ``value`` the name of what is brought together, ``op`` what wants
    it; ``source`` the user's line; ``times`` how often it runs, None in a loop whose steps are not
    known.
    """

    kind: str
    axis: str
    bytes: float
    value: str
    op: str
    source: Source | None
    times: int | None


@dataclass(frozen=True)
class Division:
    """How a function is run on the parts of a mesh; made by ``explain`` of a sharded function."""

    where: str
    mesh: Mesh
    plan: DividedGraph
    out_tree: Any
    closed: Sequence[Any]
    is_own_derivative: bool

    @property
    def collectives(self) -> list[Collective]:
        """The steps between the parts, in order; those in loops once, with ``times``."""
        return [x for _, x in _lines(self.plan, self.mesh, 1, 0) if isinstance(x, Collective)]

    @property
    def uncovered(self) -> list[Any]:
        """The equations that no rule covers, whose operands are made whole."""
        return list(self.plan.uncovered)

    def __str__(self) -> str:
        lines = [f"{self.where} on {self.mesh}"]
        lines += [
            f"  {v.name}: {v.meta} {f.text(v.meta.ndim)}"
            for v, f in zip(self.plan.graph.inputs, self.plan.inputs)
        ]
        for depth, x in _lines(self.plan, self.mesh, 1, 1):
            lines.append("  " * depth + (_step_text(x) if isinstance(x, Collective) else x))
        results = zip(self.plan.graph.outputs, self.plan.outputs)
        lines += [f"  return {_name(a)} {f.text(a.meta.ndim)}" for a, f in results]
        return "\n".join([*lines, *_totals(self.collectives)])

    __repr__ = __str__


def _lines(
    plan: DividedGraph, mesh: Mesh, times: int | None, depth: int
) -> Iterator[tuple[int, Any]]:
    """What a plan does, with the depth at which it stands: texts and collectives."""
    for step in plan.steps:
        if isinstance(step, Convert):
            for move in step.moves:
                if move.is_step:
                    yield depth, _collective(move, _name(step.atom), step.op, step.source, times)
            continue
        yield depth, _equation(step)
        for kind, axis in step.joined:
            made = flat(step.equation.outputs)[0]
            move = joined_move(kind, axis, made.meta, step.outs[0], mesh.axes)
            source = step.equation.source
            yield depth, _collective(move, made.name, step.equation.op.name, source, times)
        inside = _often(step)
        often = None if times is None or inside is None else times * inside
        for inner in step.inner:
            yield from _lines(inner, mesh, often, depth + 1)


def _often(step: Run) -> int | None:
    """How often the graphs of an equation run."""
    name = step.equation.op.name
    if name == "scan":
        length = step.equation.attrs[1]
        return length if isinstance(length, int) else None
    return None if name == "while_loop" else 1


def _collective(
    move: Move, name: str, op: str, source: Source | None, times: int | None
) -> Collective:
    return Collective(move.kind, move.axis, move.bytes, name, op, source, times)


def _name(atom: Any) -> str:
    return repr(atom.value) if isinstance(atom, Literal) else str(atom.name)


def _equation(step: Run) -> str:
    equation = step.equation
    inputs = ", ".join(map(_name, flat(equation.inputs)))
    outs = ", ".join(
        f"{v.name}: {v.meta} {f.text(v.meta.ndim)}"
        for v, f in zip(flat(equation.outputs), step.outs)
    )
    at = f"  {equation.source}" if equation.source is not None else ""
    return f"{outs} = {equation.op.name}({inputs}){at}"


def _step_text(step: Collective) -> str:
    often = "" if step.times == 1 else f", {step.times or 'many'} times"
    at = f"  {step.source}" if step.source is not None else ""
    return f"-> {step.kind} over {step.axis} of {step.value}, {size(step.bytes)}{often}{at}"


def size(count: float) -> str:
    """A number of bytes to read."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.3g} {unit}"
        count /= 1000
    raise AssertionError


def _totals(steps: Sequence[Collective]) -> list[str]:
    """Steps and bytes of each kind and axis."""
    count: Counter[tuple[str, str]] = Counter()
    total: Counter[tuple[str, str]] = Counter()
    for step in steps:
        key = (step.kind, step.axis)
        count[key] += step.times or 1
        total[key] += step.bytes * (step.times or 1)  # type: ignore[assignment]
    if not count:
        return ["no steps between the parts"]
    return [f"{n} {k} over {a}: {size(total[k, a])} a part" for (k, a), n in count.items()]


__all__ = ["Collective", "Division", "size"]
