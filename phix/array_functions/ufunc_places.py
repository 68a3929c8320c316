"""Methods of NumPy's ufuncs that take places: between the elements from one place to the next
(``reduceat``), and of the elements at places (``at``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phix import ops
from phix.api.control_flow import fori_loop, scan
from phix.array_functions.numpy_arguments import given, refuse, require_cast, tensor
from phix.array_functions.ufunc_methods import ASSOCIATIVE, elements
from phix.array_functions.ufunc_methods import METHODS as ALONG
from phix.array_functions.ufuncs import BINARY, CHECKS, SINGLE, UFUNCS
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.attrs import beneath, is_traced
from phix.core.axes import axis_of
from phix.core.errors import ArgumentError, DTypeError, ShapeError, TensorIndexError
from phix.core.weak import weak_kind

Function = Callable[..., Any]


# -- reduceat ------------------------------------------------------------------------------------
def _reduceat(name: str) -> Function:
    function = UFUNCS[name]
    between = _by_halves if name in ASSOCIATIVE else _one_by_one

    def reduceat(
        array: Any, indices: Any, axis: Any = 0, dtype: Any = None, out: Any = None
    ) -> Any:
        """The function between the elements from each index to the next one, the last to the end.

        Where the next index is not larger, it is the element at the index alone. In compiled
        programs indices out of range are the nearest inside.

        Args:
            array: elements along ``axis``, of which there is one or more.
            indices: [k] ints, from 0.
            axis: the axis to go along, of which the result has k.
            dtype: in which it is computed, as for ``reduce``.

        Raises:
            ShapeError: indices have not one axis.
            DTypeError: indices are no ints.
            TensorIndexError: one is out of range.

        >>> import phix.numpy as np
        >>> np.add.reduceat([1, 2, 3, 4, 5], [0, 3, 1]).tolist()
        [6, 4, 14]
        """
        refuse(out=out)
        x = elements(name, array, dtype)
        at = axis_of(axis, x.ndim)
        rows = ops.transpose(x, [at, *(k for k in range(x.ndim) if k != at)])
        starts = _starts(name, indices, rows.shape[0])
        ends = ops.concat([starts[1:], ops.full((1,), rows.shape[0], dt.int64)], 0)[
            : starts.shape[0]
        ]
        lengths = ops.maximum(ends - starts, 1)
        if name in CHECKS and not (is_traced(rows) or is_traced(starts)):
            CHECKS[name](rows, _second_operands(rows, starts, lengths))
        found = between(function, rows, starts, lengths)
        return ops.transpose(found, [*range(1, at + 1), 0, *range(at + 1, x.ndim)])

    return reduceat


def _starts(name: str, indices: Any, size: Any) -> Any:
    """Places along an axis, as a vector of int64."""
    found = tensor(indices)
    if found.ndim != 1:
        raise ShapeError(f"{name}.reduceat: indices are a vector, found {found.meta}")
    if dm.is_zero(found.meta.dims[0]):
        return found.astype(dt.int64)
    if not dt.has_ints_alone(found.dtype):
        raise DTypeError(f"{name}.reduceat: indices are ints, found {found.meta}")
    if not is_traced(found) and isinstance(size, int):
        for index in beneath(found).tolist():
            if not 0 <= index < size:
                raise TensorIndexError(
                    f"{name}.reduceat: index {index} is out of range for an axis of {size}"
                )
    return ops.minimum(ops.maximum(found.astype(dt.int64), 0), size - 1)


def _second_operands(rows: Any, starts: Any, lengths: Any) -> Any:
    """The rows that are not the first of all stretches they lie in, and 0 for the others."""
    places = ops.arange(0, rows.shape[0], 1, dt.int64)
    first, end = (ops.unsqueeze(v, [1]) for v in (starts, starts + lengths))
    are_later = ops.any((places > first) & (places < end), [0])
    return ops.where(ops.reshape(are_later, [-1] + [1] * (rows.ndim - 1)), rows, 0 * rows)


def _by_halves(function: Function, rows: Any, starts: Any, lengths: Any) -> Any:
    """Between stretches of rows: each is put together of stretches of 1, 2, 4 ... rows, as the
    bits of its length say, which are computed for all places at once."""
    count = rows.shape[0]
    if not isinstance(count, int):
        return _one_by_one(function, rows, starts, lengths)
    found, place, size, level = ops.gather(rows, starts, 0), starts, 1, rows
    column = [-1] + [1] * (rows.ndim - 1)
    while size <= count:
        is_begun = ops.bitwise_and(lengths, size - 1) != 0
        is_part = ops.bitwise_and(lengths, size) != 0
        part = ops.gather(level, ops.clip(place, 0, count - size), 0)
        first, both = (ops.reshape(v, column) for v in (is_part & ~is_begun, is_part & is_begun))
        # what is not wanted is computed of ones, so that no infinity gets into a derivative
        joined = function(ops.where(both, found, 1).astype(rows.dtype),
                          ops.where(both, part, 1).astype(rows.dtype))  # fmt: skip
        found = ops.where(first, part, ops.where(both, joined, found))
        place = place + ops.where(is_part, size, 0)
        if 2 * size <= count:
            level = function(level[:-size], level[size:])
        size *= 2
    return found


def _one_by_one(function: Function, rows: Any, starts: Any, lengths: Any) -> Any:
    """Between stretches of rows, from the first of each to its last, all stretches at once."""
    column = [-1] + [1] * (rows.ndim - 1)
    last = rows.shape[0] - 1

    def step(number: Any, found: Any) -> Any:
        row = ops.gather(rows, ops.minimum(starts + number, last), 0)
        is_inside = ops.reshape(number < lengths, column)
        return ops.where(is_inside, function(found, row), found)

    steps = ops.max(ops.concat([lengths, ops.full((1,), 1, dt.int64)], 0))
    return fori_loop(1, steps, step, ops.gather(rows, starts, 0))


# -- at ------------------------------------------------------------------------------------------
_UPDATES = {
    "add": "add", "subtract": "subtract", "multiply": "multiply", "maximum": "max",
    "minimum": "min",
}  # fmt: skip


def _at(name: str) -> Function:
    function, is_binary = UFUNCS[name], name in BINARY

    def at(a: Any, indices: Any, b: Any = None, /, *, inplace: Any = True) -> Any:
        """A copy of ``a`` with the function of the elements at the indices in their place.

        An element that is named several times is replaced as often, by the function of what it
        is by then: ``add`` adds all values that are for it. As in JAX, ``inplace=False`` must
        be said: NumPy changes ``a``, and a program that relies on that gets no result.

        Args:
            a: an array.
            indices: what may stand in ``a[indices]``.
            b: the second operand of functions of two, which broadcasts to ``a[indices]``.

        Raises:
            ArgumentError: ``inplace`` is not False, or ``b`` is missing, or not wanted.
            DTypeError: the function gives what a's dtype does not take.

        >>> import phix.numpy as np
        >>> np.add.at(np.zeros(3), [0, 2, 2], [1.0, 2.0, 3.0], inplace=False).tolist()
        [1.0, 0.0, 5.0]
        """
        if inplace is not False:
            raise ArgumentError(
                f"{name}.at changes no tensor, which are immutable; use what it returns: "
                f"a = phix.numpy.{name}.at(a, indices, {'b, ' * is_binary}inplace=False)"
            )
        if given(b) != is_binary:
            what = "the values b are missing" if is_binary else "takes one operand, found b"
            raise ArgumentError(f"{name}.at: {what}")
        x = tensor(a)
        values = () if not is_binary else (b if weak_kind(b) is not None else tensor(b),)
        none = ops.full((0,), 0, x.dtype)
        ends = [v if weak_kind(v) is not None else ops.full((0,), 0, v.dtype) for v in values]
        require_cast(function(none, *ends).dtype, x.dtype, "same_kind")
        if name in CHECKS:
            CHECKS[name](x, *values)
        if name in _UPDATES and _is_update(name, x, values):
            return getattr(x.at[_index(indices)], _UPDATES[name])(*values)
        return _one_after_another(function, x, _index(indices), values)

    return at


def _is_update(name: str, x: Any, values: tuple[Any, ...]) -> bool:
    """Whether values in the dtype of ``x`` give what they do in their own, in which NumPy computes:
    wider floats would be rounded, and wider ints cut off, before they meet the elements."""
    is_extreme = name in ("maximum", "minimum")
    if is_extreme and dt.is_complex(x.dtype):  # tensors have no order for them
        return False
    if not is_extreme and dt.has_ints_alone(x.dtype):  # cut off before or after
        return True
    return all(weak_kind(v) is not None or dt.promote(x.dtype, v.dtype) == x.dtype for v in values)


def _index(indices: Any) -> Any:
    """What tensors take for an index: lists are arrays."""
    return tensor(indices) if isinstance(indices, list) else indices


def _one_after_another(function: Function, x: Any, index: Any, values: tuple[Any, ...]) -> Any:
    """The elements at an index replaced in its order, each by the function of what it is then."""
    numbers = ops.reshape(ops.arange(0, x.size, 1, dt.int64), x.shape)
    numbers[index]  # refuses what is out of range, where that is known
    if any(map(dm.is_zero, x.meta.dims)):
        return x
    places = numbers.at[index].get(mode="fill", fill_value=x.size)
    rest = [ops.reshape(ops.expand(tensor(v), places.shape), [-1]) for v in values]

    def step(flat: Any, at: Any) -> tuple[Any, None]:
        place, *operands = at
        held = flat.at[place].get(mode="clip")
        changed = function(held, *operands).astype(flat.dtype)
        return flat.at[place].set(changed, mode="drop"), None

    found, _ = scan(step, ops.reshape(x, [-1]), (ops.reshape(places, [-1]), *rest))
    return ops.reshape(found, x.shape)


METHODS: dict[tuple[str, str], Function] = {
    **{(name, "reduceat"): _reduceat(name) for name, way in ALONG if way == "reduce"},
    **{(name, "at"): _at(name) for name in SINGLE},
}
