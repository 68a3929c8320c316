"""Indexing: ``x[...]`` in NumPy's meaning, as calls of ops."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from phix.core import context, slices
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.attrs import as_dim, is_traced
from phix.core.conversion import home, owned_tensor
from phix.core.dims import Dim, DimLike
from phix.core.errors import (
    ArgumentError,
    ConcretizationError,
    DTypeError,
    NumberRangeError,
    PhixError,
    TensorIndexError,
    shown,
)
from phix.core.index_ranges import IndexRange, as_int64, check
from phix.core.later import call_op
from phix.core.places import Place
from phix.core.source import at_user_line
from phix.core.tensor import Tensor, TensorBase, tensor_of


class Basic(NamedTuple):
    """The part of an index made of ints, slices, None and Ellipsis, axis by axis."""

    axes: tuple[int, ...]
    starts: tuple[DimLike, ...]
    ends: tuple[DimLike, ...]
    strides: tuple[int, ...]
    dropped: tuple[int, ...]  # the axes that an int indexes
    shape: tuple[DimLike, ...]  # of the result, None and ints applied


def get(x: TensorBase, index: Any) -> Any:
    """``x[index]``: ints, slices, None, Ellipsis, int tensors and bool masks.

    A mask without axes, alone, gives ``x`` along a new first axis where it is true, and nothing
    along that axis where it is not, as the array API standard has it.

    In compiled programs ints of a tensor that are out of range are taken as the nearest inside,
    unless they were traced inside ``phix.debug.check_indices()``.

    Raises:
        TensorIndexError: too many indices, an int out of range, an index of a wrong type.
    """
    if type(x) is Tensor and isinstance(x.data, np.ndarray) and context.is_eager():
        view = _view(x, index)
        if view is not None:
            return view
    with Locating():
        if _is_flag(index):  # it takes away no axis, and adds one of one element or none
            given = (x, _entry(x, index))
            x, index = (call_op("reshape", v, attrs=((1, *v.meta.dims),)) for v in given)
        x, index = _with_flat_masks(*_with_known_slices(x, index))
        entries, dots = expand(x, index)
        if any(isinstance(e, TensorBase) for e in entries):
            return _advanced(x, entries, dots)
        return _basic(x, entries)


class Locating:
    """Where an index is read: its errors get the user's line, unless an op has put it in already.

    No generator, whose frames would count for the user's.
    """

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, TensorIndexError) and not getattr(error, "located", False):
            found = TensorIndexError(f"{error}{at_user_line()}")
            found.located = True  # type: ignore[attr-defined]
            raise found from None


_PLAIN = frozenset({int, slice, type(None), type(Ellipsis)})


def _view(x: Tensor, index: Any) -> Tensor | None:
    """A plain index of data at hand, by NumPy; None for all else, errors among it."""
    if type(index) is tuple:
        if not _PLAIN.issuperset(map(type, index)):
            return None
    elif type(index) not in _PLAIN:
        return None
    try:
        view = x.data[index]
        # Where only ints are left of the index, NumPy gives a scalar, and with "..." a view.
        whole = isinstance(view, np.ndarray)
        return tensor_of(view if whole else x.data[(*_as_tuple(index), ...)])
    except (IndexError, TypeError, ValueError):
        return None


def _as_tuple(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def expand(x: TensorBase, index: Any) -> tuple[list[Any], int]:
    """One entry an axis of ``x`` (and one a None), Ellipsis opened, arrays made tensors.

    With it, where the Ellipsis stood: in NumPy it keeps indices apart even if it opens to nothing.
    """
    given = entries_of(x, index)
    if home((x,)) is not None:
        _look_at_arrays(x, index, given)
    entries: list[Any] = []
    for number, e in enumerate(given):
        if _is_mask(e):
            axis = _axis_of(x, given, number)
            entries.extend(_mask_indices(e, x.meta.dims[axis : axis + e.ndim]))
        else:
            entries.append(e)
    used = sum(e is not None and e is not Ellipsis for e in entries)
    dots = [i for i, e in enumerate(entries) if e is Ellipsis]
    if len(dots) > 1:
        raise TensorIndexError("an index can have one Ellipsis (...) only")
    at = dots[0] if dots else len(entries)
    return entries[:at] + [slice(None)] * (x.ndim - used) + entries[at + 1 :], at


def entries_of(x: TensorBase, index: Any) -> list[Any]:
    """The entries of an index, no more than there are axes, with arrays made tensors."""
    given = [_entry(x, e) for e in _as_tuple(index)]
    taken = sum(map(_taken, given))
    if taken > x.ndim:
        raise TensorIndexError(f"{taken} indices for {x.meta}, which has {x.ndim} axes")
    return given


def axes_of_ints(x: TensorBase, given: list[Any]) -> dict[int, int]:
    """Which entries of an index are ints or tensors of them, and the axis that each indexes."""
    return {
        number: _axis_of(x, given, number)
        for number, e in enumerate(given)
        if isinstance(e, (int, Dim, TensorBase)) and not _is_mask(e)
    }


def _taken(e: Any) -> int:
    """How many axes an entry of an index is for."""
    return e.ndim if _is_mask(e) else int(e is not None and e is not Ellipsis)


def _entry(x: TensorBase, e: Any) -> Any:
    if e is None or e is Ellipsis or isinstance(e, (slice, Dim)):
        return e
    if isinstance(e, (int, np.integer)) and not isinstance(e, (bool, np.bool_)):
        return int(e)
    if isinstance(e, (bool, np.bool_, float, str)):
        raise _no_index(e)
    try:
        tensor = e if isinstance(e, TensorBase) else _index_tensor(e, home((x,)))
    except (ArgumentError, DTypeError, NumberRangeError):
        raise _no_index(e) from None
    if dt.kind(tensor.dtype) not in ("int", "bool"):
        raise TensorIndexError(f"an index must be an int or bool tensor, found {tensor.meta}")
    return tensor


def _look_at_arrays(x: TensorBase, index: Any, given: list[Any]) -> None:
    """Look at the arrays and lists of an index of ``x`` that is elsewhere: there nobody does."""
    for number, e in enumerate(_as_tuple(index)):
        if isinstance(given[number], Tensor) and not isinstance(e, TensorBase):
            axis, values = _axis_of(x, given, number), np.asarray(e)
            if values.size and values.dtype.kind in "iu":
                _check_range(values, x.meta.dims[axis], axis)


def _check_range(values: np.ndarray, dim: DimLike, axis: int) -> None:
    low, high = int(values.min()), int(values.max())
    if isinstance(dim, int) and (low < -dim or high >= dim):
        wrong = low if low < -dim else high
        raise TensorIndexError(f"index {wrong} is out of range for axis {axis} of size {dim}")


def _no_index(e: Any) -> TensorIndexError:
    return TensorIndexError(
        f"{shown(e)} is no index; write an int, a slice, None, Ellipsis, an int or bool tensor"
    )


def _index_tensor(e: Any, place: Place | None) -> Any:
    if isinstance(e, list):
        e = e or np.empty(0, np.int64)
    return owned_tensor(e if isinstance(e, (list, np.ndarray)) else np.asarray(e), place)


def _is_mask(e: Any) -> bool:
    return isinstance(e, TensorBase) and e.dtype == dt.bool_


def _is_flag(index: Any) -> bool:
    """Whether it is a mask without axes, alone."""
    return isinstance(index, (TensorBase, np.ndarray)) and (index.dtype, index.ndim) == (
        dt.bool_,
        0,
    )


def _with_flat_masks(x: TensorBase, index: Any) -> tuple[TensorBase, Any]:
    """The same index with one axis for those that a mask over several, not known yet, is for."""
    given = list(_as_tuple(index))
    if not any(_is_mask(e) and e.ndim > 1 and is_traced(e) for e in given):
        return x, index
    for number, e in enumerate(given):
        if not (_is_mask(e) and e.ndim > 1 and is_traced(e)):
            continue
        axis = _axis_of(x, given, number)
        dims, end = x.meta.dims, axis + e.ndim
        if axis < 0 or end > x.ndim:
            break  # too many indices, which is said of those that were given
        mask = _fitted(e, dims[axis:end])
        given[number] = call_op("reshape", mask, attrs=((mask.meta.size,),))
        x = call_op("reshape", x, attrs=((*dims[:axis], mask.meta.size, *dims[end:]),))
    return x, tuple(given)


def _with_known_slices(x: TensorBase, index: Any) -> tuple[TensorBase, Any]:
    """The same index of what is left of ``x`` by slices whose bounds or steps are not known yet."""
    given = list(_as_tuple(index))
    for number, e in enumerate(given):
        if not (isinstance(e, slice) and any(map(_is_computed, (e.start, e.stop, e.step)))):
            continue
        axis = _axis_of(x, given, number)
        if not 0 <= axis < x.ndim:
            break  # too many indices, which is said of those that were given
        x = call_op("gather", x, _slice_positions(e, x.meta.dims[axis]), attrs=(axis,))
        given[number] = slice(None)
    return (x, tuple(given)) if isinstance(index, tuple) else (x, given[0])


def _is_computed(bound: Any) -> bool:
    return isinstance(bound, TensorBase) and is_traced(bound)


def _slice_positions(s: slice, dim: DimLike) -> Any:
    """The positions that a slice takes along an axis of size ``dim``, as Python counts."""
    start, stop, step = (_slice_bound(v) for v in (s.start, s.stop, s.step))
    size = call_op("full", attrs=((), dim, dt.int64, None))
    step = call_op("full", attrs=((), 1, dt.int64, None)) if step is None else step
    forward = step > 0
    low = call_op("where", forward, size * 0, size * 0 - 1)
    high = low + size

    def clipped(v: Any, default: Any) -> Any:
        if v is None:
            return default
        v = call_op("where", v < 0, v + size, v)
        return call_op("minimum", call_op("maximum", v, low), high)

    start = clipped(start, call_op("where", forward, low, high))
    stop = clipped(stop, call_op("where", forward, high, low))
    ahead = call_op("where", forward, stop - start, start - stop)
    length = (ahead - 1) // call_op("maximum", call_op("abs", step), size * 0 + 1) + 1
    count = as_dim(call_op("where", step == 0, size * 0, length))
    return start + step * call_op("arange", attrs=(0, count, 1, dt.int64, None))


def _slice_bound(v: Any) -> Any:
    """A bound or step as one int64 tensor."""
    if v is None:
        return None
    if isinstance(v, TensorBase):
        if v.ndim or dt.kind(v.dtype) != "int":
            raise TensorIndexError(
                f"the start, stop and step of a slice must be ints or None, found {v.meta}"
            )
        return v.astype(dt.int64)
    try:
        number = v if isinstance(v, Dim) else operator.index(v)
    except TypeError:
        raise TensorIndexError(
            f"the start, stop and step of a slice must be ints or None, found {shown(v)}"
        ) from None
    if isinstance(number, int):
        number = min(max(number, -(2**62)), 2**62)
    return call_op("full", attrs=((), number, dt.int64, None))


def _axis_of(x: TensorBase, given: list[Any], number: int) -> int:
    """The axis of ``x`` at which an entry of an index stands."""
    entries = [_entry(x, e) for e in given]
    taken = list(map(_taken, entries))
    if any(e is Ellipsis for e in entries[:number]):
        return x.ndim - sum(taken[number:])
    return sum(taken[:number])


def _fitted(mask: TensorBase, dims: dm.Shape) -> TensorBase:
    """A mask over axes of these dims; where nobody knows yet, runs look whether it has them."""
    if not all(map(dm.may_equal, mask.meta.dims, dims)) or mask.ndim != len(dims):
        raise TensorIndexError(
            f"a mask must have the shape of what it masks, {dm.shape_text(dims)}, found {mask.meta}"
        )
    if dm.same_shape(mask.meta.dims, dims):
        return mask
    cases = [call_op("full", attrs=(dims, value, dt.bool_, None)) for value in (False, True)]
    return call_op("select_n", mask, cases)


def _mask_indices(mask: TensorBase, dims: dm.Shape) -> list[Tensor]:
    """A mask over axes of these dims as int indices; its True elements must be known."""
    if not mask.ndim:
        raise TensorIndexError("a 0-d mask is no index; use phix.ops.where(mask, x, other)")
    mask = _fitted(mask, dims)
    if is_traced(mask):
        rows = call_op("nonzero", mask)
        if mask.ndim == 1:
            return [call_op("reshape", rows, attrs=((rows.meta.dims[0],),))]
        return [
            call_op("slice", rows, attrs=((1,), (k,), (k + 1,), (), (1,))) for k in range(mask.ndim)
        ]
    values = mask.concrete("a mask")
    return [owned_tensor(i, values.place) for i in np.nonzero(values.host)]


def _basic(x: TensorBase, entries: list[Any]) -> Any:
    index = basic_index(x, entries)
    out = x
    if index.axes:
        attrs = (index.axes, index.starts, index.ends)
        if all(s == 1 for s in index.strides):
            out = call_op("slice", x, attrs=(*attrs, (), index.dropped))
        else:
            out = call_op("strided_slice", x, attrs=(*attrs, index.strides))
    if dm.same_shape(out.meta.dims, index.shape):
        return out
    return call_op("reshape", out, attrs=(index.shape,))


def basic_index(x: TensorBase, entries: list[Any]) -> Basic:
    """The slices an index takes, and the shape it leaves."""
    axes: list[int] = []
    parts: list[tuple[Any, Any, int]] = []
    dropped: list[int] = []
    shape: list[DimLike] = []
    axis = 0
    for e in entries:
        if e is None:
            shape.append(1)
            continue
        dim = x.meta.dims[axis]
        if isinstance(e, slice):
            start, end, stride, length = slice_bounds(e, dim)
            shape.append(length)
            if not (stride == 1 and dm.same(length, dim)):
                axes.append(axis)
                parts.append((start, end, stride))
        else:
            start = _int_index(e, dim, axis, x)
            axes.append(axis)
            dropped.append(axis)
            parts.append((start, start + 1, 1))
        axis += 1
    starts, ends, strides = zip(*parts) if parts else ((), (), ())
    return Basic(tuple(axes), starts, ends, strides, tuple(dropped), tuple(shape))


def _int_index(i: Any, dim: DimLike, axis: int, x: TensorBase) -> DimLike:
    if isinstance(i, int) and isinstance(dim, int) and not -dim <= i < dim:
        raise TensorIndexError(f"index {i} is out of range for axis {axis} of {x.meta}")
    return i + dim if isinstance(i, int) and i < 0 else i


def slice_bounds(s: slice, dim: DimLike) -> tuple[DimLike, DimLike, int, DimLike]:
    """Start, end, stride and length of ``s`` over an axis of size ``dim``, as Python counts."""
    if any(map(_is_computed, (s.start, s.stop, s.step))):
        raise ConcretizationError(
            f"x.at[i:j]{at_user_line()} takes bounds that are known while tracing; update at "
            "positions (x.at[i + phix.arange(n)]), or choose with phix.ops.where"
        )
    try:
        stride = 1 if s.step is None else operator.index(s.step)
        ends = (s.start, s.stop)
        parts = [v if v is None or isinstance(v, Dim) else operator.index(v) for v in ends]
    except TypeError as error:
        if isinstance(error, PhixError):
            raise
        raise TensorIndexError(
            f"the start, stop and step of a slice must be ints or None, found {shown(s)}"
        ) from None
    if stride == 0:
        raise TensorIndexError("a slice's step cannot be 0")
    default = (0, dim) if stride > 0 else (-1, -dim - 1)
    start, end = (
        d if v is None else slices.as_position(v, dim, stride) for v, d in zip(parts, default)
    )
    start, end, stride = slices.canonical(start, end, stride, dim)
    return start, end, stride, slices.extent(start, end, stride, dim)[1]


def _advanced(x: TensorBase, entries: list[Any], dots: int) -> Any:
    """Slices first; then the axes with tensors are gathered together."""
    positions = [i for i, e in enumerate(entries) if isinstance(e, (TensorBase, int, Dim))]
    x = _basic(x, [slice(None) if i in positions else e for i, e in enumerate(entries)])
    indices = [as_index(x, entries[i], i) for i in positions]
    if len(indices) == 1:
        return call_op("gather", x, indices[0], attrs=(positions[0],))
    rest = [i for i in range(x.ndim) if i not in positions]
    front = call_op("transpose", x, attrs=((*positions, *rest),))
    joined = join(indices)
    out = call_op("gather_nd", front, joined)
    rank, lead = joined.ndim - 1, leading(positions, dots)
    if not lead:
        return out
    order = [*range(rank, rank + lead), *range(rank), *range(rank + lead, out.ndim)]
    return call_op("transpose", out, attrs=(tuple(order),))


def leading(positions: list[int], dots: int) -> int:
    """How many axes of ``x[...]`` come before those of the index tensors, at these positions.

    They go where the first of them stood, and in front if another entry keeps them apart.
    """
    lead = positions[0]
    apart = lead < dots <= positions[-1] or positions[-1] - lead >= len(positions)
    return 0 if apart else lead


def as_index(x: TensorBase, e: Any, axis: int) -> Any:
    """An int64 index tensor along an axis of ``x``; values that are known must be in range.

    Where ops run at once they look at what tensors hold themselves.
    """
    dim = x.meta.dims[axis]
    if not isinstance(e, TensorBase):
        if isinstance(e, int) and isinstance(dim, int) and not -dim <= e < dim:
            raise TensorIndexError(f"index {e} is out of range for axis {axis} of size {dim}")
        return as_numbers(x, e)
    if not context.runs_at_once() and isinstance(e, Tensor) and isinstance(dim, int) and e.size:
        _check_range(e.host, dim, axis)
    if e.dtype == dt.uint64:  # looked at before what it holds beyond int64 is lost
        check(e, IndexRange("index", (dim,), f"axis {axis}"), "x[index]")
    return as_int64(e)


def as_numbers(x: TensorBase, e: Any) -> Any:
    """An int, a Dim or a tensor of ints as an int64 tensor, where ``x`` is."""
    return (
        as_int64(e)
        if isinstance(e, TensorBase)
        else call_op("full", attrs=((), e, dt.int64, home((x,))))
    )


def join(indices: list[Any]) -> Any:
    """Index tensors broadcast together and stacked on a last axis, as gather_nd takes them."""
    shape = common_shape([i.meta.dims for i in indices])
    spread = [call_op("expand", i, attrs=(shape,)) for i in indices]
    return call_op("stack", spread, attrs=(len(shape),))


def common_shape(shapes: list[dm.Shape]) -> dm.Shape:
    rank = max(map(len, shapes))
    out: list[DimLike] = [1] * rank
    for shape in shapes:
        for i, d in enumerate(shape, rank - len(shape)):
            met = dm.broadcast(out[i], d)
            if met is None:
                shown = ", ".join(map(dm.shape_text, shapes))
                raise TensorIndexError(f"index tensors of shapes {shown} do not broadcast")
            out[i] = met
    return tuple(out)
