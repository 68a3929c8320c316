"""vmap, and what its lanes can say to each other over a named axis."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Union

from phix import ops
from phix.api.arguments import flat_tensors, function_name
from phix.api.flattened import Flattened
from phix.api.signatures import P, R, X
from phix.api.weak_arguments import taken
from phix.core import context, pytrees
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.errors import ArgumentError, AttributeValueError, ShapeError
from phix.core.expectations import expect_dims
from phix.core.given import (
    AXES,
    FLAG,
    FUNCTION,
    INT,
    NAMES,
    NONE,
    PAIRS,
    SIZE,
    TEXT,
    at_least,
    named,
    takes,
)
from phix.core.tensor import Tensor, TensorBase, TensorLike
from phix.core.transforms import transforms
from phix.interpreters import batch as batching

AxisNames = Union[str, Sequence[str]]


# -- vmap ------------------------------------------------------------------------------------
@takes(
    function=FUNCTION,
    in_axes=AXES,
    out_axes=AXES,
    axis_size=SIZE | NONE,
    axis_name=TEXT | NONE,
    chunk_size=at_least(1) | NONE,
)
def vmap(
    function: Callable[P, R],
    in_axes: Any = 0,
    out_axes: Any = 0,
    *,
    axis_size: int | None = None,
    axis_name: str | None = None,
    chunk_size: int | None = None,
) -> Callable[P, R]:
    """A function that maps ``function`` over an axis of its arguments.

    Args:
        function: of tensors, or trees of them.
        in_axes: the axis of each argument to map over, None for an argument used whole; an int
            for all, or a tuple with an entry an argument, itself a tree prefix of it. Keyword
            arguments are mapped over axis 0.
        out_axes: where the mapped axis goes in the results; an int or a tree prefix of them.
        axis_size: the size of the mapped axis, where no argument shows it.
        axis_name: a name for the axis, by which :func:`psum` and its kin join its lanes.
        chunk_size: map over that many lanes at once, one chunk after the other: less memory.

    Raises:
        ArgumentError: nothing is mapped, or sizes of mapped axes differ.

    >>> import phix
    >>> phix.vmap(lambda x, y: x * y, in_axes=(0, None))(phix.to_tensor([1.0, 2.0]), 3.0)
    Tensor([3., 6.], dtype=float32, shape=[2], place=cpu)
    >>> shares = phix.vmap(lambda x: x / phix.psum(x, "i"), axis_name="i")
    >>> shares(phix.to_tensor([1.0, 3.0])).tolist()
    [0.25, 0.75]
    """
    if chunk_size is not None:
        _check_chunks(chunk_size, axis_name, out_axes)

    @functools.wraps(function)
    @named("vmap")
    def mapped(*args: Any, **kwargs: Any) -> Any:
        where = f"vmap of {function_name(function)}"
        if context.is_tracked(axis_name):
            raise ArgumentError(f"{where}: a mesh has the axis {axis_name!r}; take another name")
        flat, treedef = taken((args, kwargs), where)
        prefix = in_axes if isinstance(in_axes, int) or in_axes is None else tuple(in_axes)
        axes = pytrees.broadcast_prefix(prefix, args, f"{where}: in_axes")
        axes += [0] * (len(flat) - len(axes))
        flat, size = _of_one_size(flat, axes, axis_size, where)
        run = Flattened(function, treedef, f"the result of {function_name(function)}")

        def placed(count: int) -> list[int | None]:
            return pytrees.broadcast_prefix(
                out_axes, pytrees.unflatten(run.out_tree, range(count)), f"{where}: out_axes"
            )

        if chunk_size is not None:
            outs = _in_chunks(run, flat, axes, placed, size, chunk_size)
        else:
            outs = batching.batch(run, flat, axes, placed, size, axis_name)
        return pytrees.unflatten(run.out_tree, outs)

    return mapped


def _of_one_size(
    flat: list[TensorBase], axes: list[int | None], given: int | None, where: str
) -> tuple[list[TensorBase], dm.DimLike]:
    """The tensors, and the size that the mapped axes of all of them have."""
    sizes: list[dm.DimLike] = [] if given is None else [given]
    for x, axis in zip(flat, axes):
        if axis is None:
            continue
        if not -x.ndim <= axis < x.ndim:
            raise ArgumentError(f"{where}: axis {axis} of an argument {x.meta} does not exist")
        sizes.append(x.shape[axis])
    if not sizes:
        raise ArgumentError(
            f"{where}: in_axes maps no argument; give one of them an axis, or say axis_size"
        )
    refusal = f"{where}: the mapped axes must have one size, found {dm.shape_text(tuple(sizes))}"
    if not all(dm.may_equal(sizes[0], s) for s in sizes):
        raise ArgumentError(refusal)
    size, found = sizes[0], list(flat)
    for n, (x, axis) in enumerate(zip(flat, axes)):
        if axis is not None and not dm.same(x.shape[axis], size):
            dims = list(x.meta.dims)
            dims[axis] = size
            found[n] = expect_dims(x, refusal, tuple(dims))
    return found, size


def _check_chunks(chunk_size: int, axis_name: str | None, out_axes: Any) -> None:
    if axis_name is not None:
        raise ArgumentError(
            "vmap: lanes of different chunks cannot be joined; leave out axis_name or chunk_size"
        )
    if out_axes is None:
        raise ArgumentError(
            "vmap: with chunk_size every result is mapped; out_axes may not be None"
        )


def _in_chunks(run: Any, flat: Any, axes: Any, placed: Any, size: Any, chunk: int) -> list[Any]:
    """The lanes a chunk at a time, in a loop; those that fill no chunk come last."""
    if all(a is None for a in axes) or not isinstance(size, int):
        raise ArgumentError("vmap: chunk_size needs a mapped argument of a size that is known")
    rows = [batching.move_axis(x, a, 0) for x, a in zip(flat, axes) if a is not None]
    fronts = [None if a is None else 0 for a in axes]

    def together(count: int) -> Callable[..., list[Any]]:
        def some(*chosen: Any) -> list[Any]:
            supply = iter(chosen)
            full = [x if a is None else next(supply) for x, a in zip(flat, axes)]
            return batching.batch(run, full, fronts, lambda n: [0] * n, count)

        return some

    chunks, rest = divmod(size, chunk)
    parts: list[Any] = []
    if chunks:
        cut = [ops.reshape(x[: size - rest], (chunks, chunk, *x.shape[1:])) for x in rows]
        slices = [x.meta.with_dims(x.meta.dims[1:]) for x in cut]
        graph, closed = transforms().trace(together(chunk), slices)
        _, ys = ops.scan((), cut, closed, graph, chunks, False)
        parts.append([ops.reshape(y, (chunks * chunk, *y.shape[2:])) for y in ys])
    if rest or not chunks:
        parts.append(together(rest)(*(x[size - rest :] for x in rows)))
    outs = [ops.concat(list(ys), 0) if len(ys) > 1 else ys[0] for ys in zip(*parts)]
    targets = placed(len(outs))
    return [batching.move_axis(y, 0, 0 if a is None else a) for y, a in zip(outs, targets)]


# -- collectives -----------------------------------------------------------------------------
def _names(axis_name: AxisNames) -> tuple[str, ...]:
    return (axis_name,) if isinstance(axis_name, str) else tuple(axis_name)


def _each(x: Any, where: str, function: Callable[[Any], Any]) -> Any:
    flat, treedef = flat_tensors(x, where)
    return pytrees.unflatten(treedef, [function(v) for v in flat])


@takes(axis_name=NAMES)
def psum(x: X, axis_name: AxisNames) -> X:
    """The sum of ``x`` over the lanes of a named axis; every lane has the same result.

    Args:
        x: a tree of tensors, one a lane.
        axis_name: a name that a ``vmap`` around binds, or several.

    Raises:
        ArgumentError: no vmap around binds the name.

    >>> import phix
    >>> phix.vmap(lambda x: phix.psum(x, "i"), axis_name="i")(phix.to_tensor([1, 2, 3])).tolist()
    [6, 6, 6]
    """

    def over(v: Any) -> Any:
        v = ops.cast(v, dt.int64) if v.dtype == dt.bool_ else v
        for name in _names(axis_name):
            v = ops.psum(v, name)
        return v

    return _each(x, "psum", over)


@takes(axis_name=NAMES)
def pmean(x: X, axis_name: AxisNames) -> X:
    """The mean of ``x`` over the lanes of a named axis; see :func:`psum`.

    >>> import phix
    >>> phix.vmap(lambda x: phix.pmean(x, "i"), axis_name="i")(phix.to_tensor([1.0, 2.0])).tolist()
    [1.5, 1.5]
    """
    count = 1
    for name in _names(axis_name):
        count = count * context.axis_size(name)
    return pytrees.map(lambda total: total / count, psum(x, axis_name))


@takes(axis_name=NAMES)
def pmax(x: X, axis_name: AxisNames) -> X:
    """The largest ``x`` of the lanes of a named axis, elementwise; see :func:`psum`.

    >>> import phix
    >>> phix.vmap(lambda x: phix.pmax(x, "i"), axis_name="i")(phix.to_tensor([1, 3, 2])).tolist()
    [3, 3, 3]
    """
    return _extreme(x, axis_name, "pmax", ops.max)


@takes(axis_name=NAMES)
def pmin(x: X, axis_name: AxisNames) -> X:
    """The smallest ``x`` of the lanes of a named axis, elementwise; see :func:`psum`.

    >>> import phix
    >>> phix.vmap(lambda x: phix.pmin(x, "i"), axis_name="i")(phix.to_tensor([2, 1, 3])).tolist()
    [1, 1, 1]
    """
    return _extreme(x, axis_name, "pmin", ops.min)


def _extreme(x: Any, axis_name: AxisNames, where: str, reduce: Callable[..., Any]) -> Any:
    def over(v: Any) -> Any:
        for name in _names(axis_name):
            v = reduce(ops.all_gather(v, name), 0)
        return v

    return _each(x, where, over)


@takes(axis_name=TEXT, axis=INT, tiled=FLAG)
def all_gather(x: X, axis_name: str, *, axis: int = 0, tiled: bool = False) -> X:
    """The ``x`` of every lane, in every lane.

    Args:
        x: a tree of tensors.
        axis_name: the name of the mapped axis.
        axis: where the lanes go in the result.
        tiled: whether they are joined along the axis that is there, in place of a new one.

    >>> import phix
    >>> phix.vmap(lambda x: phix.all_gather(x, "i"), axis_name="i")(phix.to_tensor([1, 2])).tolist()
    [[1, 2], [1, 2]]
    """

    def over(v: Any) -> Any:
        if not tiled:
            return ops.all_gather(v, axis_name, axis=axis)
        at = _dim(v, axis, "all_gather: axis")
        return _merged(ops.all_gather(v, axis_name, axis=at), at)

    return _each(x, "all_gather", over)


def _dim(x: Any, axis: int, what: str) -> int:
    """Which dim of x an axis is, counted from the end where it is negative."""
    if not -x.ndim <= axis < x.ndim:
        raise AttributeValueError(f"{what} is {axis}, and {x.meta} has {x.ndim} dims")
    return axis % x.ndim


def _merged(x: Any, axis: int) -> Any:
    """An axis and the one behind it as one."""
    dims = x.shape
    return ops.reshape(x, (*dims[:axis], dims[axis] * dims[axis + 1], *dims[axis + 2 :]))


def _divided(x: Any, axis: int, count: Any, where: str) -> Any:
    """An axis as ``count`` rows, in front of what is left of it."""
    dims = x.shape
    if dm.is_known(dims[axis], count) and dims[axis] % count:
        raise ShapeError(f"{where}: dim {axis} of {x.meta} must be divisible by the {count} lanes")
    rest = dims[axis] // count
    return ops.reshape(x, (*dims[:axis], count, rest, *dims[axis + 1 :]))


@takes(axis_name=TEXT, scatter_dimension=INT, tiled=FLAG)
def psum_scatter(x: X, axis_name: str, *, scatter_dimension: int = 0, tiled: bool = False) -> X:
    """The sum over the lanes, of which lane i has row i.

    Args:
        x: a tree of tensors, with one row a lane along ``scatter_dimension``.
        axis_name: the name of the mapped axis.
        scatter_dimension: the axis whose rows are handed out.
        tiled: whether the axis stays, with the size divided by the number of lanes.

    >>> import phix
    >>> scatter = phix.vmap(lambda x: phix.psum_scatter(x, "i"), axis_name="i")
    >>> scatter(phix.to_tensor([[1, 2], [10, 20]])).tolist()
    [11, 22]
    """

    def over(v: Any) -> Any:
        at = _dim(v, scatter_dimension, "psum_scatter: scatter_dimension")
        if tiled:
            v = _divided(v, at, context.axis_size(axis_name), "psum_scatter")
        return ops.psum_scatter(v, axis_name, axis=at)

    return _each(x, "psum_scatter", over)


@takes(axis_name=TEXT, split_axis=INT, concat_axis=INT, tiled=FLAG)
def all_to_all(
    x: X, axis_name: str, split_axis: int, concat_axis: int, *, tiled: bool = False
) -> X:
    """Row i of every lane, in lane i.

    Args:
        x: a tree of tensors, with one row a lane along ``split_axis``.
        axis_name: the name of the mapped axis.
        split_axis: the axis whose rows are handed out; it goes.
        concat_axis: where the rows received are stacked in the result.
        tiled: whether the axes stay: split_axis divided by the number of lanes, concat_axis as
            many times as long.

    >>> import phix
    >>> swap = phix.vmap(lambda x: phix.all_to_all(x, "i", 0, 0), axis_name="i")
    >>> swap(phix.to_tensor([[1, 2], [10, 20]])).tolist()
    [[1, 10], [2, 20]]
    """

    def over(v: Any) -> Any:
        split = _dim(v, split_axis, "all_to_all: split_axis")
        concat = _dim(v, concat_axis, "all_to_all: concat_axis")
        if not tiled:
            return ops.all_to_all(v, axis_name, split, concat)
        rows = _divided(v, split, context.axis_size(axis_name), "all_to_all")
        # the rest of split_axis stays in its place, so concat_axis is where it was
        return _merged(ops.all_to_all(rows, axis_name, split, concat), concat)

    return _each(x, "all_to_all", over)


@takes(axis_name=TEXT)
def ragged_all_to_all(
    operand: TensorLike,
    output: TensorLike,
    input_offsets: TensorLike,
    send_sizes: TensorLike,
    output_offsets: TensorLike,
    recv_sizes: TensorLike,
    *,
    axis_name: str,
) -> Tensor:
    """Slices of ``operand``, one to each lane, at places of ``output`` there: as many rows as the
    data say. Each is an int of a tensor [lanes].

    Args:
        operand: [n, ...], the rows of this lane.
        output: [m, ...], of the dtype of operand: what stands where no slice comes.
        input_offsets: where in operand the slice for each lane begins.
        send_sizes: how many rows it has.
        output_offsets: where it begins in the output of the lane that it goes to.
        recv_sizes: how many rows come from each lane: what ``all_to_all`` makes of send_sizes.
        axis_name: the name of the mapped axis.

    Returns:
        [m, ...]; derivatives of all orders go through operand and output.

    Raises:
        ShapeError: rows are of several shapes or dtypes, or there are not as many ints as lanes.
        TensorValueError: the slices are not inside operand and output, overlap where they come,
            have more rows together than operand, or are not what recv_sizes say. Each run looks.

    >>> import phix
    >>> def f(x, sizes, to, come):
    ...     begin = phix.numpy.cumsum(sizes) - sizes
    ...     out = phix.zeros([3], "int64")
    ...     return phix.ragged_all_to_all(x, out, begin, sizes, to, come, axis_name="i")
    >>> x, sizes, to = ([[1, 2, 3], [4, 5, 6]], [[1, 2], [0, 1]], [[0, 0], [0, 2]])
    >>> phix.vmap(f, axis_name="i")(*map(phix.to_tensor, (x, sizes, to, [[1, 0], [2, 1]]))).tolist()
    [[1, 0, 0], [2, 3, 4]]
    """
    tables = (input_offsets, send_sizes, output_offsets, recv_sizes)
    return ops.ragged_all_to_all(operand, output, *tables, axis_name)


@takes(axis_name=TEXT, perm=PAIRS)
def ppermute(x: X, axis_name: str, perm: Sequence[tuple[int, int]]) -> X:
    """The ``x`` of another lane.

    Args:
        x: a tree of tensors.
        axis_name: the name of the mapped axis.
        perm: (source, target) pairs of lanes; a lane that is no target has zeros.

    Raises:
        AttributeValueError: a lane is source or target twice, or does not exist.

    >>> import phix
    >>> shift = phix.vmap(lambda x: phix.ppermute(x, "i", [(0, 1), (1, 2)]), axis_name="i")
    >>> shift(phix.to_tensor([1, 2, 3])).tolist()
    [0, 1, 2]
    """
    sources, targets = [s for s, _ in perm], [t for _, t in perm]
    return _each(x, "ppermute", lambda v: ops.ppermute(v, axis_name, sources, targets))


@takes(axis_name=NAMES)
def pvary(x: X, axis_name: AxisNames) -> X:
    """``x``, a value of each part's own from here on, in a function on a mesh.

    There the derivative with respect to a value that is the same on all parts is summed over them
    (see :func:`phix.parallel.spmd`); with respect to ``pvary(x, axis_name)`` each part has its own.
    Lanes of a plain ``vmap`` have that in any case.

    Args:
        x: a tree of tensors.
        axis_name: the name of the axis, or several.

    >>> import phix
    >>> own = phix.vmap(lambda x: phix.pvary(2.0, "i") * x, axis_name="i")
    >>> own(phix.to_tensor([1.0, 2.0])).tolist()
    [2.0, 4.0]
    """

    def over(v: Any) -> Any:
        for name in _names(axis_name):
            v = ops.pvary(v, name)
        return v

    return _each(x, "pvary", over)


@takes(axis_name=TEXT)
def axis_index(axis_name: str) -> Tensor:
    """The number of the lane along a named axis, an int64.

    >>> import phix
    >>> index = phix.vmap(lambda x: phix.axis_index("i"), axis_name="i")
    >>> index(phix.to_tensor([5.0, 5.0])).tolist()
    [0, 1]
    """
    return ops.axis_index(axis_name)


@takes(axis_name=TEXT)
def axis_size(axis_name: str) -> Any:
    """The number of lanes of a named axis: an int, or an unknown dim.

    >>> import phix
    >>> phix.vmap(lambda x: x / phix.axis_size("i"), axis_name="i")(phix.to_tensor([2, 4])).tolist()
    [1.0, 2.0]
    """
    return context.axis_size(axis_name)
