"""The batching interpreter: one call of an op for a whole batch.

A batched tracer keeps its batch dim at 0. Composites are decomposed; pointwise ops broadcast;
other primitives have a rule, or run once an element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from phix.core import context
from phix.core import dims as dm
from phix.core.attrs import as_dim
from phix.core.conversion import following
from phix.core.dims import DimLike
from phix.core.dispatch import bind
from phix.core.errors import ShapeError
from phix.core.graph import flat, map_entries, named_axes
from phix.core.interpreter import Interpreter
from phix.core.meta import MetaTensor
from phix.core.op import Op
from phix.core.refusals import no_one_size, no_value
from phix.core.rules import OPS
from phix.core.tensor import Tensor, TensorBase, Tracer
from phix.core.transforms import transforms
from phix.interpreters.decompose import as_entries
from phix.interpreters.infer_meta import infer

# So many lanes of an op without a rule are as many calls in a graph; more are a loop.
_MOST_LANES = 4


class BatchTracer(Tracer):
    """A value with a batch dim in front, seen without it."""

    __slots__ = ("axis_name", "value")

    def __init__(self, interpreter: Interpreter, value: TensorBase) -> None:
        self.interpreter = interpreter
        self.axis_name = interpreter.axis_name  # known when the interpreter is not, at its end
        self.value = value

    @property
    def meta(self) -> MetaTensor:
        meta = self.value.meta.with_dims(self.value.meta.dims[1:])
        axis = self.axis_name
        if axis is None or axis not in context.context.tracked:
            return meta
        return meta.with_varying(meta.varying | {axis})

    def concrete(self, asked: str) -> Tensor:
        raise no_value(self, asked)


class Batch(Interpreter):
    """Ops on its tracers run in the parent on whole batches."""

    name = "vmap"

    def __init__(self, parent: Interpreter, size: DimLike, axis_name: str | None = None) -> None:
        super().__init__(parent)
        self.size = size
        self.axis_name = axis_name
        self.sizing = "a size"  # which op computes one

    def as_dim(self, value: Any, largest: bool, refusal: str) -> Any:
        """The largest of the batch; a size of each lane's own is not to be had."""
        assert self.parent is not None
        if not largest:
            raise no_one_size(self.sizing, value)
        with context.active(self.parent):
            lanes = value.value
            if not (isinstance(self.size, int) and self.size):  # of no lanes the largest is 0
                none = bind(OPS["full"], (), ((1,), 0, lanes.dtype, None))
                lanes = bind(OPS["concat"], ([lanes, none],), (0,))
            return as_dim(bind(OPS["max"], (lanes,), ((), False)), largest, refusal)

    def examine(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> None:
        """A call on one lane is checked as such: for the batch it may be another call, and fit."""
        if not op.is_pointwise and any(map(self.owns, flat(inputs))):
            infer(op, map_entries(lambda x: x.meta, inputs), attrs)

    def owns(self, value: Any) -> bool:
        return isinstance(value, BatchTracer) and value.interpreter is self

    def lower(self, value: Any) -> Any:
        return value.value if self.owns(value) else value

    def process(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        parent = self.parent
        assert parent is not None
        batched = map_entries(self.owns, inputs)
        joins = self.axis_name is not None and self.axis_name in named_axes(op, attrs)
        if not any(flat(batched)) and not joins:
            with context.active(parent):
                return parent.process(op, inputs, attrs)
        if op.decomposition is not None and op.batch_rule is None:
            outer, self.sizing = self.sizing, op.name if op.is_written_out else self.sizing
            try:
                outs = op.decomposition(*op.merge(inputs, attrs))
            finally:
                self.sizing = outer
            return outs if op.single_output else as_entries(op, outs)
        values = map_entries(self.lower, inputs)
        if joins and op.collective_rule is not None:
            return self.join(op, batched, values, attrs)
        with context.active(parent), context.mapping(self.axis_name):
            if not any(flat(batched)):  # the graph inside joins lanes that are all alike
                values = map_entries(self.whole, values)
                batched = map_entries(lambda _: True, values)
            outs = self.run(op, batched, values, attrs)
        if op.has_graphs and self.axis_name in context.context.tracked:
            outs = self.told_apart(op, inputs, attrs, outs)
        return outs[0] if len(outs) == 1 else outs

    def told_apart(self, op: Op, inputs: Any, attrs: Any, outs: Any) -> Any:
        """Outputs that are the same in all lanes of a mesh, as such: rules give all of a graph's
        outputs a batch."""
        metas = infer(op, map_entries(lambda x: x.meta, inputs), attrs)

        def one(out: Any, meta: Any) -> Any:
            if self.owns(out) and self.axis_name not in meta.varying:
                assert self.parent is not None
                with context.active(self.parent):
                    return bind(OPS["index_select"], (out.value, [0]), (0,))[0]
            return out

        return tuple(
            tuple(map(one, o, m)) if isinstance(o, tuple) else one(o, m)
            for o, m in zip(outs, metas)
        )

    def whole(self, value: Any) -> Any:
        return bind(OPS["expand"], (value,), ((self.size, *value.meta.dims),))

    def join(self, op: Op, batched: Any, values: Any, attrs: Any) -> Any:
        """An op over the axis of this batch."""
        assert self.parent is not None and op.collective_rule is not None
        with context.active(self.parent):
            out, mapped = op.collective_rule(self.size, batched, *op.merge(values, attrs))
        return BatchTracer(self, out) if mapped else out

    def run(self, op: Op, batched: Any, values: Any, attrs: Any) -> Any:
        outs: Any = NotImplemented
        if op.batch_rule is not None:
            outs = op.batch_rule(batched, *op.merge(values, attrs))
        elif op.is_pointwise:
            outs = pointwise(op, batched, values, attrs)
        if outs is NotImplemented:
            outs = self.one_by_one(op, batched, values, attrs)
        entries = (outs,) if len(op.outputs) == 1 else tuple(outs)
        return map_entries(
            lambda v: BatchTracer(self, v),
            tuple(tuple(e) if isinstance(e, list) else e for e in entries),
        )

    def one_by_one(self, op: Op, batched: Any, values: Any, attrs: Any) -> Any:
        """The op once for each element of the batch, and the results stacked."""

        def of_rows(row: Callable[[Any], Any]) -> Any:
            given = tuple(
                tuple(row(v) if b else v for b, v in zip(flags, entry))
                if isinstance(entry, tuple)
                else row(entry)
                if flags
                else entry
                for flags, entry in zip(batched, values)
            )
            outs = context.current().process(op, given, attrs)
            return (outs,) if len(op.outputs) == 1 else tuple(outs)

        if self._is_for_a_loop():
            stacked = self._in_a_loop(of_rows, batched, values)
        else:
            every = (partial(_row, i=i) for i in range(int(self.size)))
            stacked = tuple(
                tuple(map(_stack, zip(*entries)))
                if isinstance(entries[0], tuple)
                else _stack(entries)
                for entries in zip(*map(of_rows, every))
            )
        return stacked[0] if len(stacked) == 1 else stacked

    def _is_for_a_loop(self) -> bool:
        """Whether a scan takes the lanes one by one: where their number is not known, or 0, or so
        large that a call for each makes a graph long. Calls that run at once make no graph."""
        if not dm.is_known(self.size):
            return True
        return self.size == 0 or (self.size > _MOST_LANES and not context.runs_at_once())

    def _in_a_loop(self, of_rows: Any, batched: Any, values: Any) -> Any:
        """The results of the op, by a scan over the batch."""
        given = [v for v, b in zip(flat(values), flat(batched)) if b]
        found: list[Any] = []

        def step(*rows: Any) -> list[Any]:
            by_value = {id(v): r for v, r in zip(given, rows)}
            found[:] = [of_rows(lambda v: by_value[id(v)])]
            return list(flat(found[0]))

        metas = [v.meta.with_dims(v.meta.dims[1:]) for v in given]
        graph, closed = transforms().trace(step, metas)
        _, ys = bind(OPS["scan"], ((), tuple(given), tuple(closed)), (graph, self.size, False))
        made = iter(ys)
        return map_entries(lambda _: next(made), found[0])


def _row(x: Any, i: int) -> Any:
    return x[i]


def _stack(rows: Any) -> Any:
    return bind(OPS["stack"], (list(rows),), (0,))


def pointwise(op: Op, batched: Any, values: Any, attrs: Any) -> Any:
    """Batched inputs get 1s behind the batch dim, so that all broadcast as they did before."""
    rank = max(v.ndim - b for v, b in zip(flat(values), flat(batched)))
    aligned = tuple(_align(v, rank) if b else v for v, b in zip(values, batched))
    return context.current().process(op, aligned, attrs)


def _align(x: Any, rank: int) -> Any:
    missing = rank - (x.ndim - 1)
    if not missing:
        return x
    dims = x.meta.dims
    return bind(OPS["reshape"], (x,), ((dims[0], *(1,) * missing, *dims[1:]),))


def batch(
    function: Callable[..., Sequence[Any]],
    args: Sequence[Any],
    in_axes: Sequence[int | None],
    out_axes: Callable[[int], Sequence[int | None]],
    size: DimLike,
    axis_name: str | None = None,
) -> list[Any]:
    """``function`` of flat tensors over a batch of size ``size``, by that name if it has one.

    ``out_axes(count)`` gives where each output's batch dim goes; None asks for an output that
    does not depend on the batch.
    """
    fronted = [x if a is None else move_axis(x, a, 0) for x, a in zip(args, in_axes)]
    batched = [a is not None for a in in_axes]
    values, owned = batch_mapped(function, fronted, batched, size, axis_name)
    return [
        _place(value, mapped, axis, size)
        for value, mapped, axis in zip(values, owned, out_axes(len(values)))
    ]


def batch_mapped(
    function: Callable[..., Sequence[Any]],
    args: Sequence[Any],
    batched: Sequence[bool],
    size: DimLike,
    axis_name: str | None = None,
) -> tuple[list[Any], list[bool]]:
    """``function`` over a batch in front of the batched args, and which outputs have a batch."""
    interpreter = Batch(context.current(), size, axis_name)
    with context.transformation(interpreter), following(args):
        tracers = [BatchTracer(interpreter, x) if b else x for x, b in zip(args, batched)]
        outs = list(function(*tracers))
        return [interpreter.lower(o) for o in outs], [interpreter.owns(o) for o in outs]


def _place(value: Any, mapped: bool, axis: int | None, size: DimLike) -> Any:
    if axis is None:
        if mapped:
            raise ShapeError("out_axes is None for an output that depends on the mapped axis")
        return value
    if not mapped:
        value = bind(OPS["expand"], (value,), ((size, *value.meta.dims),))
    if not -value.ndim <= axis < value.ndim:
        raise ShapeError(
            f"out_axes {axis} is out of range for a result of {value.ndim} axes, the mapped one "
            f"among them; write one of {-value.ndim}..{value.ndim - 1}"
        )
    return move_axis(value, 0, axis)


def move_axis(x: Any, source: int, target: int) -> Any:
    """``x`` with axis ``source`` at ``target``, the others in order."""
    rank = x.ndim
    source, target = source % rank, target % rank
    if source == target:
        return x
    order = [i for i in range(rank) if i != source]
    order.insert(target, source)
    return bind(OPS["transpose"], (x,), (tuple(order),))
