"""Loops over values that are not known while tracing."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, overload

from phix import ops
from phix.api.arguments import flat_tensors, function_name
from phix.api.branches import check_tree, cond, single, taking_all, traced_like
from phix.api.carries import body_graph, met, probed, rounds, taking
from phix.api.flattened import FlattenedBody
from phix.api.signatures import ArrayOrNumber, C, R, X, Y
from phix.api.weak_arguments import (
    kinds_of,
    like_arguments,
    structure_of,
    tree_of,
)
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import pytrees
from phix.core.conversion import owned_tensor
from phix.core.errors import ArgumentError, DTypeError, ShapeError
from phix.core.given import FLAG, FUNCTION, INT, NONE, SIZE, at_least, takes
from phix.core.slices import from_zero
from phix.core.tensor import Tensor, TensorBase
from phix.core.transforms import transforms

if TYPE_CHECKING:
    from typing_extensions import Unpack


def _bound(value: Any, where: str) -> Any:
    """A bound of a loop as an int64 tensor."""
    found = value if isinstance(value, dm.Dim) else single(value, where)
    if not isinstance(found, dm.Dim) and (found.ndim or dt.kind(found.dtype) != "int"):
        raise DTypeError(f"{where} must be one int64, found {found.meta}; cast or index it")
    return ops.cast(found, dt.int64)  # type: ignore[arg-type]


@overload
def while_loop(
    cond_fun: Callable[[Tensor], Any],
    body_fun: Callable[[Tensor], ArrayOrNumber],
    init_val: ArrayOrNumber,
) -> Tensor: ...


@overload
def while_loop(cond_fun: Callable[[C], Any], body_fun: Callable[[C], C], init_val: C) -> C: ...


@overload
def while_loop(
    cond_fun: Callable[..., Any], body_fun: Callable[..., Any], init_val: Any
) -> Any: ...


@takes(cond_fun=FUNCTION, body_fun=FUNCTION)
def while_loop(cond_fun: Callable[..., Any], body_fun: Callable[..., Any], init_val: Any) -> Any:
    """``val = body_fun(val)`` for as long as ``cond_fun(val)`` holds.

    Reverse mode works: the steps are counted on the way forward. On the CPU, Ctrl-C ends a loop
    that goes on and on in the main thread of Python, as other signals do whose handlers raise.

    Args:
        cond_fun: of the carried tree, to one bool.
        body_fun: of the carried tree, to a tree of the same structure and metas.
        init_val: the tree to begin with.

    >>> import phix
    >>> double = lambda x: phix.while_loop(lambda v: v < 100.0, lambda v: 2.0 * v, x)
    >>> double(3.0).item(), phix.grad(double)(3.0).item()
    (192.0, 64.0)
    """
    leaves, graph, closed, carry = body_graph(body_fun, (), init_val, "while_loop")
    given = taking((), init_val, carry)
    test, test_closed, _ = traced_like(cond_fun, given, leaves, function_name(cond_fun))
    both = [test_closed, closed]
    outs = ops.while_loop(
        leaves,
        [*test_closed, *closed],
        taking_all(test, leaves, both, 0),
        taking_all(graph, leaves, both, 1),
    )
    return like_arguments(carry, outs)


@overload
def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Tensor, Tensor], ArrayOrNumber],
    init_val: ArrayOrNumber,
    *,
    unroll: int = 1,
) -> Tensor: ...


@overload
def fori_loop(
    lower: Any, upper: Any, body_fun: Callable[[Tensor, C], C], init_val: C, *, unroll: int = 1
) -> C: ...


@overload
def fori_loop(
    lower: Any, upper: Any, body_fun: Callable[..., Any], init_val: Any, *, unroll: int = 1
) -> Any: ...


@takes(body_fun=FUNCTION, unroll=at_least(1))
def fori_loop(
    lower: Any, upper: Any, body_fun: Callable[..., Any], init_val: Any, *, unroll: int = 1
) -> Any:
    """``val = body_fun(i, val)`` for i = lower, ..., upper - 1.

    Args:
        lower, upper: ints, dims, or int tensors known only at run time.
        body_fun: of the int64 index and the carried tree, to a tree of the same metas.
        init_val: the tree to begin with.
        unroll: how many steps to write out in a row, where the bounds are Python ints.

    >>> import phix
    >>> phix.fori_loop(1, 5, lambda i, v: v * i, 1).item()
    24
    """
    _check_unroll("fori_loop", unroll)
    known = isinstance(lower, (int, dm.Dim)) and isinstance(upper, (int, dm.Dim))
    length = from_zero(upper - lower) if known else -1
    if unroll > 1 and isinstance(length, int) and length > 0:
        steps = ops.arange(lower, upper, 1, dt.int64)
        step = lambda v, i: (body_fun(i, v), None)  # noqa: E731
        return scan(step, init_val, steps, unroll=unroll)[0]
    lower, upper = _bound(lower, "fori_loop: lower"), _bound(upper, "fori_loop: upper")
    leaves, graph, closed, carry = body_graph(body_fun, (lower,), init_val, "fori_loop")
    outs = ops.fori_loop(lower, upper, leaves, closed, graph, length)
    return like_arguments(carry, outs)


class _Walk(TypedDict, total=False):
    reverse: bool
    unroll: int


@overload
def scan(
    f: Callable[[Tensor, Any], tuple[ArrayOrNumber, Y]],
    init: ArrayOrNumber,
    xs: Any = None,
    length: int | None = None,
    **rest: Unpack[_Walk],
) -> tuple[Tensor, Y]: ...


@overload
def scan(
    f: Callable[[C, Any], tuple[C, Y]],
    init: C,
    xs: Any = None,
    length: int | None = None,
    **rest: Unpack[_Walk],
) -> tuple[C, Y]: ...


@overload
def scan(
    f: Callable[..., Any],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int = 1,
) -> tuple[Any, Any]: ...


@takes(f=FUNCTION, length=SIZE | NONE, reverse=FLAG, unroll=at_least(1))
def scan(
    f: Callable[..., Any],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int = 1,
) -> tuple[Any, Any]:
    """``carry, y = f(carry, x)`` along the leading axis of ``xs``.

    Args:
        f: of the carried tree and a slice of xs, to ``(carry, y)``; the carry keeps its metas.
        init: the tree to begin with.
        xs: a tree of tensors of one leading size; None for none.
        length: the number of steps; needed where xs is None.
        reverse: whether to go from the last slice to the first (the ys stay in the order of xs).
        unroll: how many steps to write out in a row.

    Returns:
        The final carry, and the ys stacked along a leading axis.

    Raises:
        ArgumentError, ShapeError, DTypeError: the length is not known, sizes differ, or f does
            not give a carry of the metas it took.

    >>> import phix
    >>> total, sums = phix.scan(lambda c, x: (c + x, c + x), 0, phix.to_tensor([1, 2, 3]))
    >>> total.item(), sums.tolist()
    (6, [1, 3, 6])
    """
    _check_unroll("scan", unroll)
    leaves, carry = probed(init, "scan: init")
    rows, _ = flat_tensors(xs, "scan: xs")
    steps = _length(rows, length)
    if unroll > 1 and isinstance(steps, int) and steps % unroll == 0 and steps > unroll:
        return _unrolled(f, init, xs, steps, reverse, unroll)
    slices = [x.meta.with_dims(x.meta.dims[1:]) for x in rows]
    for _ in rounds(leaves):
        kinds = kinds_of(carry)
        given = structure_of(pytrees.flatten(((init, xs), {}))[1], [*kinds, *[None] * len(rows)])
        run = FlattenedBody(f, given, "the result of scan's f", kinds)
        graph, closed = transforms().trace(run, [*(c.meta for c in leaves), *slices])
        carry_tree, y_tree = _pair(run.out_tree)
        check_tree(carry_tree, tree_of(carry), "scan: the carry of f")
        carry, changed = met(init, leaves, carry, graph, run, 0, "scan")
        if not changed:
            break
    final, ys = ops.scan(leaves, rows, closed, graph, steps, reverse)
    return like_arguments(carry, final), pytrees.unflatten(y_tree, ys)


def _check_unroll(where: str, unroll: Any) -> None:
    if not isinstance(unroll, int) or isinstance(unroll, bool) or unroll < 1:
        raise ArgumentError(
            f"{where}: unroll is how many steps to write out in a row, an int from 1, "
            f"found {unroll!r:.80}"
        )


def _pair(tree: Any) -> tuple[Any, Any]:
    children = tree.children()
    if len(children) != 2:
        raise ArgumentError("scan: f must return (carry, y); return (carry, None) for no y")
    return children[0], children[1]


def _length(rows: Sequence[TensorBase], length: Any) -> dm.DimLike:
    sizes: list[dm.DimLike] = [] if length is None else [length]
    for x in rows:
        if not x.ndim:
            raise ShapeError("scan: xs are cut along their leading axis, found a 0-d tensor")
        sizes.append(x.meta.dims[0])
    if not sizes:
        raise ArgumentError("scan: without xs, say how many steps to make: length=...")
    if not all(dm.may_equal(sizes[0], s) for s in sizes):
        raise ShapeError(
            f"scan: xs and length must have one size, found {dm.shape_text(tuple(sizes))}"
        )
    return sizes[0]


def _unrolled(f: Any, init: Any, xs: Any, steps: int, reverse: bool, unroll: int) -> Any:
    """A scan of fewer, longer steps."""
    split = lambda x: ops.reshape(x, (steps // unroll, unroll, *x.shape[1:]))  # noqa: E731
    join = lambda y: ops.reshape(y, (steps, *y.shape[2:]))  # noqa: E731
    order = list(builtins.range(unroll))

    def several(carry: Any, rows: Any) -> Any:
        ys: list[Any] = [None] * unroll
        for i in reversed(order) if reverse else order:
            result = f(carry, pytrees.map(lambda x, i=i: x[i], rows))
            _pair(pytrees.flatten(result)[1])
            carry, ys[i] = result
        return carry, pytrees.map(lambda *parts: ops.stack(list(parts), 0), *ys)

    rows = pytrees.map(lambda x: split(owned_tensor(x)), xs)
    final, ys = scan(several, init, rows, steps // unroll, reverse)
    return final, pytrees.map(join, ys)


@takes(f=FUNCTION, batch_size=at_least(1) | NONE)
def map(f: Callable[[Any], R], xs: Any, *, batch_size: int | None = None) -> R:
    """``f`` of each slice of ``xs`` along the leading axis, one after the other, stacked.

    Args:
        f: of a slice of xs.
        xs: a tree of tensors of one leading size.
        batch_size: map over this many slices at once (``vmap``), which takes more memory and
            less time; a rest that does not fill a batch is mapped by itself.

    >>> import phix
    >>> phix.map(lambda x: x * x, phix.to_tensor([1, 2, 3])).tolist()
    [1, 4, 9]
    """
    from phix.api.batching import vmap

    if batch_size is None:
        return scan(lambda _, x: (None, f(x)), None, xs)[1]
    rows, _ = flat_tensors(xs, "map")
    size = _length(rows, None)
    if not isinstance(size, int):
        raise ShapeError("map: batch_size needs a known leading size; leave batch_size out")
    whole = size - size % batch_size
    parts = []
    if whole:
        batches = pytrees.map(
            lambda x: ops.reshape(x[:whole], (whole // batch_size, batch_size, *x.shape[1:])), xs
        )
        ys = map(vmap(f), batches)
        parts.append(pytrees.map(lambda y: ops.reshape(y, (whole, *y.shape[2:])), ys))
    if whole < size:
        parts.append(vmap(f)(pytrees.map(lambda x: x[whole:], xs)))
    return pytrees.map(lambda *ys: ops.concat(list(ys), 0) if len(ys) > 1 else ys[0], *parts)


@overload
def associative_scan(
    fn: Callable[[Tensor, Tensor], ArrayOrNumber],
    elems: ArrayOrNumber,
    reverse: bool = False,
    axis: int = 0,
) -> Tensor: ...


@overload
def associative_scan(
    fn: Callable[[X, X], X], elems: X, reverse: bool = False, axis: int = 0
) -> X: ...


@takes(fn=FUNCTION, reverse=FLAG, axis=INT)
def associative_scan(
    fn: Callable[..., Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """All prefixes combined by an associative ``fn``, in a number of steps logarithmic in size.

    A size that is not known is gone through slice by slice.

    Args:
        fn: of two trees like elems (any number of slices at once), to one of the same metas.
        elems: a tree of tensors, with one size along ``axis``.
        reverse: whether to combine suffixes in place of prefixes.
        axis: the axis to go along.

    >>> import phix
    >>> phix.associative_scan(phix.ops.add, phix.to_tensor([1, 2, 3, 4])).tolist()
    [1, 3, 6, 10]
    """
    leaves, treedef = flat_tensors(elems, "associative_scan")
    for x in leaves:
        if not -x.ndim <= axis < x.ndim:
            raise ShapeError(f"associative_scan: {x.meta} has no axis {axis} to go along")
    sizes = [x.meta.dims[axis] for x in leaves]
    if not sizes or not all(dm.same(size, sizes[0]) for size in sizes):
        found = ", ".join(map(str, sizes)) or "no elems"
        raise ShapeError(f"associative_scan: the elems must have one size, found {found}")
    rows = [ops.flip(x, [axis]) if reverse else x for x in leaves]

    def combine(a: Any, b: Any) -> list[Any]:
        out = fn(pytrees.unflatten(treedef, a), pytrees.unflatten(treedef, b))
        return flat_tensors(out, "associative_scan: fn")[0]

    way = _prefixes if isinstance(sizes[0], int) else _one_by_one
    done = way(combine, rows, axis)
    return pytrees.unflatten(treedef, [ops.flip(x, [axis]) if reverse else x for x in done])


def _cut(x: Any, axis: int, start: int, step: int = 1, stop: int | None = None) -> Any:
    index = [slice(None)] * x.ndim
    index[axis] = slice(start, stop, step)
    return x[tuple(index)]


def _prefixes(combine: Any, rows: list[Any], axis: int) -> list[Any]:
    """Pairs are combined, the prefixes of the pairs found, and the ones between filled in."""
    size = rows[0].shape[axis]
    if size < 2:
        return rows
    even = [_cut(x, axis, 0, 2, size - 1) for x in rows]
    odd = [_cut(x, axis, 1, 2) for x in rows]
    odd_done = _prefixes(combine, combine(even, odd), axis)
    after = [_cut(x, axis, 2, 2) for x in rows]
    count = after[0].shape[axis]
    filled = combine([_cut(x, axis, 0, 1, count) for x in odd_done], after) if count else after
    even_done = [
        ops.concat([_cut(x, axis, 0, 1, 1), y], axis) if count else _cut(x, axis, 0, 1, 1)
        for x, y in zip(rows, filled)
    ]
    return [_interleaved(a, b, axis % a.ndim) for a, b in zip(even_done, odd_done)]


def _one_by_one(combine: Any, rows: list[Any], axis: int) -> list[Any]:
    """Each slice, of one element along the axis, with the prefix before it."""
    axes = [axis % x.ndim for x in rows]

    def step(before: Any, row: Any) -> Any:
        number, slices = row
        own = [ops.unsqueeze(x, [at]) for x, at in zip(slices, axes)]
        now = cond(number > 0, lambda: combine(before, own), lambda: own)
        return now, [ops.squeeze(x, [at]) for x, at in zip(now, axes)]

    numbers = ops.arange(0, rows[0].meta.dims[axis], 1, dt.int64)
    none = [ops.zeros([*x.meta.dims[:at], 1, *x.meta.dims[at + 1 :]], x.dtype)
            for x, at in zip(rows, axes)]  # fmt: skip
    found = scan(step, none, (numbers, [_with_axis_at(x, at, 0) for x, at in zip(rows, axes)]))[1]
    return [_with_axis_at(x, 0, at) for x, at in zip(found, axes)]


def _with_axis_at(x: Any, source: int, target: int) -> Any:
    """``x`` with one axis at another place."""
    order = [k for k in range(x.ndim) if k != source]
    return ops.transpose(x, [*order[:target], source, *order[target:]])


def _interleaved(a: Any, b: Any, axis: int) -> Any:
    """a[0], b[0], a[1], b[1], ...; a may have one more."""
    count = b.shape[axis]
    pairs = ops.stack([_cut(a, axis, 0, 1, count), b], axis + 1)
    joined = ops.reshape(pairs, (*b.shape[:axis], 2 * count, *b.shape[axis + 1 :]))
    if a.shape[axis] == count:
        return joined
    return ops.concat([joined, _cut(a, axis, count)], axis)


__all__ = [
    "associative_scan",
    "fori_loop",
    "map",
    "scan",
    "while_loop",
]
