"""Arguments of NumPy's functions, as phix's ops take them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.axes import axes_of
from phix.core.context import context
from phix.core.conversion import holds_tensors, owned_tensor
from phix.core.errors import AttributeValueError, DTypeError, ShapeError
from phix.core.numpy_protocol import NotOfferedError
from phix.core.places import called_at_home, is_host_alone
from phix.core.tensor import TensorBase
from phix.core.weak import known, strong, weak_kind


def in_floats(dtype: np.dtype | None, function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, for which Python's floats, and ints where floats are wanted, have ``dtype``;
    None is the user's default."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        before = context.numpy_float
        context.numpy_float = dtype
        try:
            if is_host_alone():
                return strong(function(*args, **kwargs))
            return strong(called_at_home(function, args, kwargs))
        finally:
            context.numpy_float = before

    return called


def titled(function: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    """The function with its name and text, as those have that are defined under it."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def default_float() -> np.dtype:
    """float64 where NumPy's own function was called, else phix's default float."""
    return context.numpy_float or dt.default_float()


def _of_python(value: Any) -> Any:
    """A tensor of what holds no tensors."""
    if default_float() == dt.float64 or hasattr(value, "dtype"):
        array = np.asarray(value)
        return owned_tensor(value if array.dtype == object else array)  # a size may be unknown
    kind = weak_kind(value)
    return owned_tensor(value) if kind not in (float, complex) else known(kind, value)


def operand(value: Any) -> Any:
    """An operand of an op: a list is an array, of the default float where it holds floats."""
    if isinstance(value, (list, tuple)):
        return owned_tensor(value) if holds_tensors(value) else _of_python(value)
    return value


def tensor(value: Any) -> Any:
    """A tensor of what NumPy takes for an array."""
    value = operand(value)
    return value if isinstance(value, TensorBase) else _of_python(value)


def floating(value: Any) -> Any:
    """A tensor of floats or complex numbers; bools and ints become the default float."""
    x = tensor(value)
    return x if dt.is_differentiable(x.dtype) else x.astype(default_float())


def require_real(name: str, *values: Any) -> None:
    """Refuse complex numbers where a function has no meaning for them.

    Raises:
        DTypeError: one of the values is complex.
    """
    for x in map(tensor, values):
        if dt.is_complex(x.dtype):
            raise DTypeError(
                f"{name} takes no complex numbers, found {x.meta}; take x.real, x.imag or abs(x)"
            )


def reduced_axes(axis: Any, rank: int) -> tuple[int, ...]:
    """As :func:`axes_of`; reductions of NumPy take the axes 0 and -1 of a single value, too."""
    is_named = not rank and not isinstance(axis, Sequence) and axis is not None
    return () if is_named and operator.index(axis) in (0, -1) else axes_of(axis, rank)


def some(arrays: Any, name: str) -> list[Any]:
    """The arrays that a function joins.

    Raises:
        ShapeError: there is none.
    """
    found = list(arrays)
    if not found:
        raise ShapeError(f"{name} needs at least one array, found none; for an empty one, write "
                         "phix.zeros([0])")  # fmt: skip
    return found


def of_truths(product: Any, *factors: Any) -> Any:
    """A sum of products in ints; where all factors are bools, whether one of the products holds."""
    are_bools = all(isinstance(f, bool) or getattr(f, "dtype", None) == dt.bool_ for f in factors)
    return product.astype(dt.bool_) if are_bools else product


def given(value: Any) -> bool:
    """Whether an argument says something."""
    return value is not None and value is not np._NoValue


def with_dtype(x: Any, dtype: Any) -> Any:
    return x if dtype is None else x.astype(dt.as_dtype(dtype))


def refuse(**arguments: Any) -> None:
    """Leave a call to NumPy, or to an error, where one of these says something."""
    for name, value in arguments.items():
        if given(value):
            raise NotOfferedError(f"{name}=")


def check_order(order: Any) -> None:
    """Refuse an order of memory that there is not; those that there are make no difference here.

    Raises:
        AttributeValueError: it is none of "C", "F", "A" and "K".
    """
    _one_of("order", order, ("C", "F", "A", "K", None))


def check_casting(casting: Any) -> None:
    """Refuse a rule of casts that there is not.

    Raises:
        AttributeValueError: it is none of NumPy's.
    """
    _one_of("casting", casting, (*_CASTINGS, None))


def _one_of(name: str, found: Any, choices: tuple[str | None, ...]) -> None:
    if not (found is None or isinstance(found, str)) or found not in choices:
        named = ", ".join(repr(c) for c in choices if c)
        raise AttributeValueError(f"{name} is one of {named}, found {found!r:.80}")


def cast_as_allowed(x: Any, dtype: Any, casting: Any) -> Any:
    """``x`` in a dtype that the rule of casts allows."""
    if dtype is not None:
        require_cast(x.dtype, dt.as_dtype(dtype), casting)
    return with_dtype(x, dtype)


def require_cast(found: np.dtype, wanted: np.dtype, casting: Any) -> None:
    """Refuse a cast that a rule does not allow.

    Raises:
        AttributeValueError: there is no such rule.
        DTypeError: it does not take the one dtype to the other.
    """
    check_casting(casting)
    is_allowed, what = _CASTINGS[casting or "same_kind"]
    if not is_allowed(found, wanted):
        raise DTypeError(
            f"{what} do not take {found} to {wanted}; write casting='unsafe', or call astype on "
            "what comes out"
        )


_WIDTHS = ("bool", "int", "float", "complex")


def is_within(found: str, wanted: str) -> bool:
    """Whether a kind of dtypes is that, or goes into it: ints into floats."""
    return _WIDTHS.index(found) <= _WIDTHS.index(wanted)


def _is_of_kind(found: Any, wanted: Any) -> bool:
    return (found.kind, wanted.kind) != ("i", "u") and is_within(dt.kind(found), dt.kind(wanted))


# NumPy's rules of casts: whether one allows a cast, and what it allows.
_CASTINGS: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "no": (operator.eq, "casts of no dtype to another"),
    "equiv": (operator.eq, "casts of no dtype to another"),
    "safe": (lambda found, wanted: np.can_cast(found, wanted), "casts that keep every value"),
    "same_kind": (_is_of_kind, "casts within a kind"),
    "unsafe": (lambda found, wanted: True, "casts"),
}


def common_shape(name: str, shapes: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The shape to which shapes broadcast."""
    rank = max(map(len, shapes), default=0)
    found: list[Any] = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            met = dm.broadcast(found[axis], size)
            if met is None:
                shown = ", ".join(map(dm.shape_text, shapes))
                raise ShapeError(f"{name}: the shapes {shown} do not broadcast")
            found[axis] = met
    return tuple(found)
