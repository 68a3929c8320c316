"""What a plan consists of: the steps of a graph on the parts of a mesh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from phix.core import dtypes as dt
from phix.core.graph import Equation, Graph, flat
from phix.core.meta import MetaTensor
from phix.core.records import dataclass, field
from phix.core.source import Source
from phix.parallel.forms import MULTIPLIED, TOUCHED, Form, Move, local_bytes
from phix.parallel.sharding_rules import ShardingRule

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Convert:
    """A value is brought into another form. ``filled``: the equation that makes it, of which a part
    makes its piece by itself."""

    atom: Any
    before: Form
    after: Form
    moves: tuple[Move, ...]
    source: Source | None
    op: str
    filled: Equation | None = None


@dataclass(frozen=True)
class Run:
    """An equation is run on parts: its operands in these forms, attributes as ``rule`` says.

    ``inner`` are the plans of its graphs.
    """

    equation: Equation
    operands: tuple[Form, ...]
    outs: tuple[Form, ...]
    rule: ShardingRule | None = None
    cut: Mapping[Any, tuple[str, int]] = field(default_factory=dict)
    joined: tuple[tuple[str, str], ...] = ()  # how extremes are joined, and along which axes
    inner: tuple[DividedGraph, ...] = ()


@dataclass(frozen=True)
class DividedGraph:
    """The steps of a graph, from inputs in some forms to outputs in some forms."""

    graph: Graph
    inputs: tuple[Form, ...]
    outputs: tuple[Form, ...]
    steps: tuple[Any, ...]
    cost: float  # of what is moved between the parts
    work: float  # of what each part computes, in the same unit
    uncovered: tuple[Equation, ...] = ()


def joined_move(kind: str, axis: str, meta: MetaTensor, form: Form, sizes: Sizes) -> Move:
    """The step that joins extremes of the parts, or sums that do not pend."""
    each = local_bytes(meta, form, sizes)
    if kind == "sum":  # in float32
        each *= dt.float32.itemsize / meta.dtype.itemsize
        return Move("psum", axis, bytes=2 * each * (sizes[axis] - 1) / sizes[axis])
    return Move({"any": "pmax", "all": "pmin"}.get(kind, f"p{kind}"), axis,
                bytes=each * (sizes[axis] - 1))  # fmt: skip


def work_of(
    equation: Equation,
    rule: ShardingRule,
    forms: Sequence[Form],
    outs: Sequence[Form],
    cut: Mapping[Any, tuple[str, int]],
    sizes: Sizes,
) -> float:
    """What a part computes in an equation: multiplications, and bytes that it touches."""
    total = MULTIPLIED * rule.flops
    for _, n in cut.values():
        total /= n
    atoms = [*flat(equation.inputs), *flat(equation.outputs)]
    pairs = zip(atoms, [*forms, *outs])
    return total + TOUCHED * sum(local_bytes(a.meta, f, sizes) for a, f in pairs)


__all__ = ["Convert", "DividedGraph", "Run", "Sizes", "joined_move", "work_of"]
