"""Ops that hold graphs together, built from kernels of other ops: they run on every backend.

Each takes the program that is running (``program.run`` calls a primitive, ``program.ctx``
allocates) and then the op's args in order, tensors as storage of its place and graphs as functions
of storage. They give a flat tuple of outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.core import places
from phix.core.engines import Launcher, Program
from phix.core.graph import Graph, solve_dims
from phix.core.recent import Recent
from phix.core.settings import most_sizes

Storages = Sequence[Any]
Graphs = Callable[..., tuple[Any, ...]]


class Function:
    """A graph inside an equation, as a function of storage: its program, at the sizes it meets."""

    def __init__(self, graph: Graph, program: Program) -> None:
        self.graph, self.program = graph, program
        self.launchers: Recent[Launcher] = Recent(most_sizes)

    def __call__(self, *storage: Any) -> tuple[Any, ...]:
        shapes = tuple(tuple(x.shape) for x in storage)
        return self.launchers.get(shapes, lambda: self.program.launcher(shapes))(*storage)

    def out_shapes(self, shapes: Sequence[tuple[int, ...]]) -> list[tuple[Any, np.dtype]]:
        """Shape and dtype of what it would give for inputs of these shapes."""
        env = solve_dims([v.meta for v in self.graph.inputs], shapes)
        metas = [a.meta.substitute(env) for a in self.graph.outputs]
        return [(tuple(map(int, m.dims)), m.dtype) for m in metas]


def _number(storage: Any) -> Any:
    """The value of a 0-d tensor, which the program waits for."""
    return places.to_host(storage).item()


def _row(program: Any, x: Any, index: int) -> Any:
    """``x[index]``, by the primitive ``slice``."""
    attrs = ((0,), (index,), (index + 1,), (), (0,))
    return program.run("slice", (x,), attrs, (tuple(x.shape)[1:], x.dtype))


def _stacked(program: Any, rows: Storages) -> Any:
    """Rows behind each other on a new leading axis, by ``reshape`` and ``concat``."""
    shape, dtype = tuple(rows[0].shape), rows[0].dtype
    wide = tuple(program.run("reshape", (r,), ((1, *shape),), ((1, *shape), dtype)) for r in rows)
    return program.run("concat", (wide,), (0,), ((len(rows), *shape), dtype))


def scan(
    program: Any, carry: Storages, xs: Storages, constants: Storages, body: Any, length: int,
    reverse: bool,
) -> tuple[Any, ...]:  # fmt: skip
    rows: list[tuple[Any, ...]] = []
    for k in range(length - 1, -1, -1) if reverse else range(length):
        outs = body(*carry, *(_row(program, x, k) for x in xs), *constants)
        carry, ys = outs[: len(carry)], outs[len(carry) :]
        rows.append(ys)
    if not rows:
        return (*carry, *_no_rows(program, carry, xs, constants, body))
    ordered = rows[::-1] if reverse else rows
    return (*carry, *(_stacked(program, column) for column in zip(*ordered)))


def _no_rows(program: Any, carry: Storages, xs: Storages, constants: Storages, body: Any) -> Any:
    """What a scan of no steps stacks: nothing, in the shapes that a step would give."""
    sizes = [*(x.shape for x in carry), *(x.shape[1:] for x in xs), *(x.shape for x in constants)]
    found = body.out_shapes([tuple(s) for s in sizes])[len(carry) :]
    return [program.ctx.alloc((0, *shape), dtype) for shape, dtype in found]


def while_loop(
    program: Any, carry: Storages, constants: Storages, cond: Graphs, body: Graphs
) -> tuple[Any, ...]:
    while _number(cond(*carry, *constants)[0]):
        carry = body(*carry, *constants)
    return tuple(carry)


def branch(
    program: Any, index: Any, operands: Storages, branches: Sequence[Graphs]
) -> tuple[Any, ...]:
    chosen = min(max(int(_number(index)), 0), len(branches) - 1)
    return branches[chosen](*operands)


def pure_callback(
    program: Any, operands: Storages, function: Any, dims: Any, ranks: Any, dtypes: Any,
    method: str,
) -> tuple[Any, ...]:  # fmt: skip
    shapes, at = [], 0
    for rank in ranks:
        shapes.append(tuple(dims[at : at + rank]))
        at += rank
    found = function([places.to_host(x).copy() for x in operands], shapes)
    arrays = (np.asarray(v, dt.as_dtype(d)) for v, d in zip(found, dtypes))
    return tuple(places.moved(a, program.ctx.place) for a in arrays)


def debug_callback(program: Any, operands: Storages, function: Any) -> tuple[Any, ...]:
    function([places.to_host(x).copy() for x in operands])
    return (places.moved(np.zeros((), dt.int32), program.ctx.place),)


def rank_step(
    program: Any, x: Any, counts: Any, group: Any, kind: str, detail: Any
) -> tuple[Any, ...]:
    given = np.asarray(places.to_host(x))
    out = np.empty(group.shape(kind, detail, given.shape), given.dtype)
    if counts is not None:
        detail = np.asarray(places.to_host(counts))
    group.run(kind, detail, given, out, program.equation.source)
    return (places.moved(out, program.ctx.place),)


# op -> the primitives that it calls
PARTS = {"scan": ("slice", "reshape", "concat")}
RUNS: dict[str, Callable[..., tuple[Any, ...]]] = {
    "scan": scan,
    "while_loop": while_loop,
    "branch": branch,
    "pure_callback": pure_callback,
    "debug_callback": debug_callback,
    "rank_step": rank_step,
    "dim_value": lambda program, x, *attrs: (x,),
    "optimization_barrier": lambda program, xs: tuple(xs),
    "io_copy": lambda program, x, place: (x,),
    "io_copy_like": lambda program, x, like: (x,),
}
