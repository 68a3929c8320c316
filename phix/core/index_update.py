"""Updates at an index: ``x.at[...]`` in NumPy's meaning, as calls of ops."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypedDict

from phix.core import context, indexing
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import index_modes as modes
from phix.core.conversion import holds_tensors, home, owned_tensor, stacked, values_of
from phix.core.dims import Dim
from phix.core.errors import ArgumentError, DTypeError
from phix.core.hints import missing_update
from phix.core.later import call_op
from phix.core.powers import check_powers
from phix.core.tensor import Tensor, TensorBase, TensorLike

if TYPE_CHECKING:
    from typing_extensions import Unpack

# What combines an element with its new value, where no element is indexed twice.
_COMBINED = {"mul": "multiply", "amax": "maximum", "amin": "minimum"}
_OF_BOOLS = {"add": "logical_or", "mul": "logical_and", "amax": "logical_or", "amin": "logical_and"}


class How(TypedDict, total=False):
    """What becomes of ints out of range, and promises of JAX of which nothing here depends."""

    mode: str | None
    indices_are_sorted: bool
    unique_indices: bool


class IndexUpdate:
    """``x.at``: index it, then say how to update."""

    def __init__(self, x: TensorBase) -> None:
        self.x = x

    def __getitem__(self, index: Any) -> IndexedUpdate:
        return IndexedUpdate(self.x, index)

    if not TYPE_CHECKING:  # for which there is no such attribute

        def __getattr__(self, name: str) -> NoReturn:
            raise missing_update(name, is_indexed=False)


class IndexedUpdate:
    """``x.at[index]``: a copy of x with the indexed elements changed.

    Values broadcast to the shape of ``x[index]`` and take x's dtype. An element indexed twice
    takes the last of its values under ``set`` and all of them under the others.

    ``mode`` says what becomes of ints out of range, in the words of JAX. None is an error where
    calls run at once, and in compiled programs "drop", for ``get`` "clip". "drop" or "fill" leaves
    them out, and ``get`` gives ``fill_value`` for them (None: NaN, the least int, the largest of
    those without a sign, True); "clip" takes the nearest inside; "promise_in_bounds" is None.
    ``indices_are_sorted`` and ``unique_indices`` change nothing.
    """

    def __init__(self, x: TensorBase, index: Any) -> None:
        self.x, self.index = x, index

    if not TYPE_CHECKING:  # for which there is no such attribute

        def __getattr__(self, name: str) -> NoReturn:
            raise missing_update(name, is_indexed=True)

    def get(self, *, fill_value: Any = None, **how: Unpack[How]) -> Tensor:
        """``x[index]``."""
        x, index, mode = self.x, self.index, _mode_of(how, "get")
        with indexing.Locating():
            if mode in modes.OUTSIDE:
                fill = modes.missing(x.dtype) if fill_value is None else fill_value
                x, index = modes.padded(x, index, fill)
            elif mode == "clip":
                index = modes.clipped(x, index)
            return indexing.get(x, index)

    def set(self, values: TensorLike, **how: Unpack[How]) -> Tensor:
        """The indexed elements replaced by ``values``."""
        return self._put(values, "assign", _mode_of(how, "set"))

    def add(self, values: TensorLike, **how: Unpack[How]) -> Tensor:
        """``values`` added to the indexed elements."""
        return self._put(values, "add", _mode_of(how, "add"))

    def subtract(self, values: TensorLike, **how: Unpack[How]) -> Tensor:
        """``values`` subtracted from the indexed elements."""
        return self._put(values, "subtract", _mode_of(how, "subtract"))

    def multiply(self, values: TensorLike, **how: Unpack[How]) -> Tensor:
        """The indexed elements multiplied by ``values``."""
        return self._put(values, "mul", _mode_of(how, "multiply"))

    def divide(self, values: TensorLike, **how: Unpack[How]) -> Tensor:
        """The indexed elements divided by ``values``, or by the product of those of one.

        Raises:
            DTypeError: x holds ints or bools.
        """
        if dt.kind(self.x.dtype) not in ("float", "complex"):
            raise DTypeError(
                f"x.at[i].divide: x is {self.x.meta}, whose elements stay as they are; write "
                "x.astype(phix.float32).at[i].divide(values)"
            )
        return call_op("divide", self.x, self._of_ones(values, _mode_of(how, "divide")))

    def power(self, values: TensorLike, **how: Unpack[How]) -> Tensor:
        """The indexed elements to the power of ``values``, or of the product of those of one."""
        check_powers(self.x, values)
        return call_op("elementwise_pow", self.x, self._of_ones(values, _mode_of(how, "power")))

    def max(self, values: TensorLike, **how: Unpack[How]) -> Tensor:
        """The larger of the indexed elements and ``values``."""
        return self._put(values, "amax", _mode_of(how, "max"))

    def min(self, values: TensorLike, **how: Unpack[How]) -> Tensor:
        """The smaller of the indexed elements and ``values``."""
        return self._put(values, "amin", _mode_of(how, "min"))

    def _of_ones(self, values: Any, mode: str | None) -> Any:
        """In the shape of x: what each indexed element meets of values, and 1."""
        ones = call_op("full_like", self.x, attrs=(1, None, None))
        return IndexedUpdate(ones, self.index)._put(values, "mul", mode)

    def _put(self, values: Any, reduce: str, mode: str | None) -> Any:
        x, index = self.x, self.index
        if isinstance(values, (list, tuple)) and holds_tensors(values):
            values = stacked(values, x.dtype)
        elif isinstance(values, Dim):
            values = owned_tensor(values)
        elif not isinstance(values, TensorBase):
            values = owned_tensor(values_of(values, x.dtype), home((x,)))
        values = values.astype(x.dtype) if values.dtype != x.dtype else values
        if reduce == "subtract":
            values, reduce = -values, "add"
        if _is_mask_of_number(x, index, values, reduce):
            return _put_where(x, index, values, reduce)
        with indexing.Locating():
            drops = mode in modes.OUTSIDE
            if drops:
                index = modes.as_tensors(x, index)
            elif mode == "clip":
                index = modes.clipped(x, index)
            entries, dots = indexing.expand(x, index)
            if any(isinstance(e, TensorBase) for e in entries):
                done = _put_at(x, entries, dots, values, reduce, drops)
            else:
                done = _put_slice(x, entries, values, reduce)
            return _put_by_number(x, index, values, reduce, drops) if done is None else done


def _mode_of(how: How, name: str) -> str | None:
    """The mode.

    Raises:
        AttributeValueError: there is no such mode.
        ArgumentError: there is no such argument.
    """
    call = f"x.at[i].{name}"
    for word in how:
        if word not in How.__annotations__:
            known = ", ".join(How.__annotations__)
            raise ArgumentError(
                f"{call}() got an unexpected keyword argument {word!r}; it takes {known}"
            )
    return modes.checked(how.get("mode"), call)


def _is_mask_of_number(x: TensorBase, index: Any, values: Any, reduce: str) -> bool:
    """Whether one number is put where a mask of the whole tensor holds."""
    if values.ndim or not isinstance(index, TensorBase) or index.dtype != dt.bool_:
        return False
    dims = x.meta.dims
    return index.ndim == len(dims) > 0 and all(map(dm.same, index.meta.dims, dims))


def _put_where(x: TensorBase, mask: Any, value: Any, reduce: str) -> Any:
    """A choice, of which the size of nothing depends on the mask: each lane of a batch has one."""
    op = (_OF_BOOLS if x.dtype == dt.bool_ else {"add": "add", **_COMBINED}).get(reduce)
    return call_op("where", mask, call_op(op, x, value) if op else value, x)


def _put_slice(x: TensorBase, entries: list[Any], values: Any, reduce: str) -> Any:
    """At an index of ints, slices and None, which takes no element twice."""
    if x.dtype == dt.bool_ and reduce in _COMBINED:
        return None
    index = indexing.basic_index(x, entries)
    if reduce in _COMBINED:
        taken = indexing.get(x, tuple(entries))
        values = call_op("expand", values, attrs=(index.shape,))
        values, reduce = call_op(_COMBINED[reduce], taken, values), "assign"
    if values.ndim and not all(isinstance(e, slice) for e in entries):
        lengths = iter(index.shape)
        taken_dims = [1 if not isinstance(e, slice) and e is not None else next(lengths)
                      for e in entries]  # fmt: skip
        box = [d for d, e in zip(taken_dims, entries) if e is not None]
        values = call_op("expand", values, attrs=(index.shape,))
        values = call_op("reshape", values, attrs=(tuple(box),))
    attrs = (index.axes, index.starts, index.ends, index.strides, reduce == "add")
    return call_op("slice_put", x, values, attrs=attrs)


class _Parts(NamedTuple):
    """An index with tensors in it, taken apart."""

    axes: tuple[int, ...]  # of x that a tensor, an int or a Dim indexes
    indices: tuple[Any, ...]  # int64 tensors for them
    batch: dm.Shape  # their common dims
    rest: list[int]  # the other axes
    bounds: list[tuple[Any, ...]]  # of each of the rest: start, end, stride, length


def _put_at(
    x: TensorBase, entries: list[Any], dots: int, values: Any, reduce: str, drops: bool
) -> Any:
    """At an index with tensors: a whole row of the other axes for each entry, if they are whole."""
    parts = _parts(x, entries, drops)
    cut = [k for k, (_, _, stride, length) in enumerate(parts.bounds)
           if stride != 1 or not dm.same(length, x.meta.dims[parts.rest[k]])]  # fmt: skip
    comes_once = dm.is_one(dm.product(parts.batch))
    if reduce in _COMBINED or (cut and (drops or (reduce == "add" and not comes_once))):
        return None
    values = _batch_first(values, entries, dots, parts)
    if cut:
        values = _put_in_rows(x, parts, cut, values, reduce)
        reduce = "assign"
    attrs = (reduce == "add", parts.axes, "drop" if drops else "raise")
    return call_op("index_put", x, parts.indices, values, attrs=attrs)


def _parts(x: TensorBase, entries: list[Any], drops: bool) -> _Parts:
    axes, indices, rest, bounds = [], [], [], []
    for axis, e in enumerate(e for e in entries if e is not None):
        if isinstance(e, slice):
            rest.append(axis)
            bounds.append(indexing.slice_bounds(e, x.meta.dims[axis]))
        else:
            axes.append(axis)
            number = indexing.as_numbers if drops else partial(indexing.as_index, axis=axis)
            indices.append(number(x, e))
    batch = indexing.common_shape([i.meta.dims for i in indices])
    return _Parts(tuple(axes), tuple(indices), batch, rest, bounds)


def _batch_first(values: Any, entries: list[Any], dots: int, parts: _Parts) -> Any:
    """Values in the dims of the index tensors, then those of the other axes."""
    where = [k for k, e in enumerate(entries) if e is not None and not isinstance(e, slice)]
    lead = indexing.leading(where, dots)
    has_new_axes = any(e is None for e in entries)
    if not values.ndim or not (lead or has_new_axes):
        return values
    own = [bound[3] for bound in parts.bounds]
    lengths = iter(own)
    rest = [1 if e is None else next(lengths) for k, e in enumerate(entries) if k not in where]
    values = call_op("expand", values, attrs=((*rest[:lead], *parts.batch, *rest[lead:]),))
    if lead:
        rank = len(parts.batch)
        order = (*range(lead, lead + rank), *range(lead), *range(lead + rank, values.ndim))
        values = call_op("transpose", values, attrs=(order,))
    return call_op("reshape", values, attrs=((*parts.batch, *own),)) if has_new_axes else values


def _put_in_rows(x: TensorBase, parts: _Parts, cut: list[int], values: Any, reduce: str) -> Any:
    """What is at the index tensors, over the whole of the other axes, with values put in it."""
    front = call_op("transpose", x, attrs=((*parts.axes, *parts.rest),))
    if len(parts.axes) == 1:
        rows = call_op("gather", front, parts.indices[0], attrs=(0,))
    else:
        rows = call_op("gather_nd", front, indexing.join(list(parts.indices)))
    starts, ends, strides, _ = zip(*(parts.bounds[k] for k in cut))
    axes = tuple(len(parts.batch) + k for k in cut)
    return call_op("slice_put", rows, values, attrs=(axes, starts, ends, strides, reduce == "add"))


def _put_by_number(x: TensorBase, index: Any, values: Any, reduce: str, drops: bool) -> Any:
    """Where the index takes elements from x it takes numbers from 0, 1, 2, ...; put there."""
    size = x.meta.size
    numbers = call_op("arange", attrs=(0, size, 1, dt.int64, None))
    numbers = call_op("reshape", numbers, attrs=(x.meta.dims,))
    if not drops:  # which looks at the index, now or in each run
        taken = indexing.get(numbers, index)
    if drops or not context.runs_at_once():
        taken = indexing.get(*modes.padded(numbers, index, size))
    values = call_op("expand", values, attrs=(taken.meta.dims,))
    flat = [call_op("reshape", v, attrs=((v.meta.size,),)) for v in (x, taken, values)]
    out = call_op("put_along_axis", *flat, attrs=(0, reduce, True, "drop"))
    return call_op("reshape", out, attrs=(x.meta.dims,))
