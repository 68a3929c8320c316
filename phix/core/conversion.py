"""Tensors made of other data: numbers and arrays of Python; and tensors on other places."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache, reduce, wraps
from typing import Any, TypeVar

import ml_dtypes
import numpy as np

from phix.core import dtypes as dt
from phix.core import foreign, places, pytrees
from phix.core.arrays import plain_array
from phix.core.dims import Dim
from phix.core.errors import (
    ArgumentError,
    DTypeError,
    NumberRangeError,
    PhixError,
    described,
    shown,
)
from phix.core.later import call_op
from phix.core.places import Place
from phix.core.tensor import Tensor, TensorBase, Tracer, tensor_of
from phix.core.weak import WIDE, Weak, strong, weak_kind

F = TypeVar("F", bound=Callable[..., Any])
_NUMBERS = (bool, int, float, complex)


@lru_cache(maxsize=4096)
def _scalar_tensor(value: Any, kind: Any, text: str, dtype: np.dtype) -> Tensor:
    try:
        array = np.asarray(value, dtype)  # kind and text keep 1, True, 1.0 and -0.0 apart
    except OverflowError:
        raise out_of_range(value, dtype) from None
    array.flags.writeable = False
    return Tensor(array)


def out_of_range(value: Any, dtype: np.dtype) -> NumberRangeError:
    """What a number that the dtype does not have is answered with."""
    if dt.has_ints_alone(dtype):
        limits = ml_dtypes.iinfo(dtype)
        has = f"has the ints from {limits.min} to {limits.max}"
    else:
        has = f"ends at {np.finfo(np.float64).max:.4g}"
    return NumberRangeError(
        f"{shown(value)} is out of the range of {dtype}, which {has}; write a number in it, or "
        "give the other tensors a wider dtype (x.astype)"
    )


def tensor_from_scalar(value: Any, dtype: np.dtype | None) -> Tensor:
    """A 0-d tensor of a Python scalar, cached; ``dtype`` None is the scalar's default."""
    dtype = dtype or dt.default_dtype(type(value))
    kind: Any = type(value)
    try:
        text = repr(value)
    except ValueError:  # an int of thousands of digits
        raise out_of_range(value, dtype) from None
    return _scalar_tensor(value, kind, text, dtype)


_MOST_LEVELS = 64  # of nested lists: the axes that NumPy's arrays can have


def _check_nesting(data: Any, levels: int = _MOST_LEVELS) -> None:
    """Raise ArgumentError where lists are nested too deeply, as one that holds itself is."""
    if {list, tuple}.isdisjoint(set(map(type, data))):
        return
    if not levels:
        raise ArgumentError(
            f"found lists nested more than {_MOST_LEVELS} deep (does one hold itself?); write "
            "nested lists of numbers, or a NumPy array"
        )
    for entry in data:
        if isinstance(entry, (list, tuple)):
            _check_nesting(entry, levels - 1)


def _of_python(data: Any, dtype: np.dtype | None = None) -> np.ndarray:
    """The array of a Python number, or of nested lists of numbers.

    Raises:
        ArgumentError: the lists are ragged, or hold what is no number.
        NumberRangeError: a number is out of the range of the dtype.
    """
    if isinstance(data, (list, tuple)):
        _check_nesting(data)
    array = _asked(data)
    if not _has_numbers(array):
        if array.dtype.kind == "O" and _are_ints(array):
            raise out_of_range(data, dtype or dt.DEFAULT_INT)
        raise _no_array(data)
    if array.dtype == np.float64 and dtype is None and _lost_ints(array, data):
        raise out_of_range(data, dt.DEFAULT_INT)
    if dtype is None or array.dtype == dtype:
        return array
    try:
        return np.asarray(data, dtype)
    except OverflowError:
        raise out_of_range(data, dtype) from None
    except (TypeError, ValueError):  # a complex number as a float, NaN as an int
        raise DTypeError(f"{described(data)} is nothing that {dtype} can hold") from None


def values_of(data: Any, dtype: np.dtype) -> np.ndarray:
    """The array of what a user puts into a tensor of that dtype; see ``to_tensor`` for errors."""
    if hasattr(data, "dtype"):
        return _array(data).astype(dtype, copy=False)
    return _of_python(data, dtype)


def _asked(data: Any) -> np.ndarray:
    """The array that NumPy makes of the data, or DLPack."""
    try:
        return np.asarray(data)
    except Exception:  # it asks the data many things
        found = foreign.host_array(data)
        if found is None:
            raise _no_array(data) from None
        return found


def _has_numbers(array: np.ndarray) -> bool:
    return array.dtype.kind in "biufc" or array.dtype in dt.FOREIGN


def _are_ints(array: np.ndarray) -> bool:
    return all(isinstance(v, (int, np.integer)) for v in array.ravel().tolist())


def _lost_ints(array: np.ndarray, data: Any) -> bool:
    """Whether the floats stand for ints alone, some of which no int dtype has beside the others."""
    if not array.size or max(abs(array.max()), abs(array.min())) < 2.0**63:
        return False
    return _are_ints(np.asarray(data, object))


def _no_array(data: Any) -> ArgumentError:
    way = foreign.way(data)
    if way:
        return ArgumentError(f"found {described(data)}, which is no array of numbers: {way}")
    return ArgumentError(
        f"found {described(data)}, which is no array of numbers; pass a phix.Tensor, a NumPy "
        "array, a number, or nested lists of numbers with rows of one length"
    )


def _array(data: Any) -> np.ndarray:
    """Anything array-like as a plain array, which may share its memory.

    Python lists and scalars become bool, int64, or of the default float or complex dtype, unless
    there are NumPy's among them, which have a dtype of their own, as buffers do.
    """
    if isinstance(data, np.ndarray):
        array = data
    elif isinstance(data, np.generic):
        array = np.asarray(data)
    elif hasattr(data, "__array__") or hasattr(data, "__array_interface__"):
        array = _asked(data)
    elif hasattr(data, "__dlpack__"):
        found = foreign.host_array(data)
        if found is None:
            raise _no_array(data)
        array = found
    else:
        if "numpy.ma" in sys.modules and isinstance(data, (list, tuple)):
            data = [plain_array(v) if isinstance(v, np.ma.MaskedArray) else v for v in data]
        array = _of_python(data)
        is_wide = array.dtype in (np.float64, np.complex128)
        if is_wide and isinstance(data, (list, tuple, *_NUMBERS)):
            own = dt.real_dtype(_declared(data) or dt.default_float())
            array = array.astype(dt.complex_dtype(own) if array.dtype.kind == "c" else own)
    return plain_array(array)


def _declared(data: Any) -> np.dtype | None:
    """The dtype in which floats of NumPy's among nested lists meet; None where there are none."""
    if not isinstance(data, (list, tuple)):
        dtype = getattr(data, "dtype", None)
        is_ours = isinstance(dtype, np.dtype) and dt.kind(dtype) in ("float", "complex")
        return dtype if is_ours else None
    if {float, int, bool, complex}.issuperset(set(map(type, data))):
        return None
    found = [dtype for v in data if (dtype := _declared(v)) is not None]
    return reduce(dt.promote, found) if found else None


def _tensor(data: Any, place: Place | None, keep: bool) -> Any:
    if isinstance(data, TensorBase):
        return strong(data)
    if isinstance(data, Dim):
        return _of_dim(data, dt.DEFAULT_INT)
    if isinstance(data, (list, tuple)) and holds_tensors(data):
        return stacked(data)
    found = places.storage_of(data, keep)
    if found is not None:
        return tensor_of(found if place is None else places.moved(found, place))
    array, home = _array(data), place or places.default()
    if home.kind != "cpu":
        return tensor_of(places.moved(array, home))
    if keep and not isinstance(data, _MAKES_ITS_OWN):
        array = np.array(array, order="C")
    return tensor_of(array)


def _of_dim(dim: Dim, dtype: Any) -> Any:
    """The tensor of a size that is known when the program runs."""
    return call_op("full", attrs=((), dim, dtype, None))


# What an array of these shows is the array's alone.
_MAKES_ITS_OWN = (bool, int, float, complex, list, tuple, np.generic)


def owned_tensor(data: Any, place: Place | None = None) -> Any:
    """A tensor of any array-like, with memory of its own: what is written to an array afterwards
    does not reach it. ``place`` None: the default."""
    return _tensor(data, place, keep=True)


def lent_tensor(data: Any, place: Place | None = None) -> Any:
    """As :func:`owned_tensor`, without a copy where the array can be read as it lies.

    For calls that are over before the array's owner goes on, and of which nothing stays that could
    show its memory: not a result, not a constant of a graph, not what a derivative keeps.
    """
    return _tensor(data, place, keep=False)


def holds_tensors(data: Any) -> bool:
    """Whether a list or tuple, or one in it, has a tensor, or an unknown size, among its elements.

    Raises:
        ArgumentError: lists are nested too deeply.
    """
    _check_nesting(data)
    return _holds_tensors(data)


def _holds_tensors(data: Any) -> bool:
    kinds = set(map(type, data))
    if any(issubclass(kind, (TensorBase, Dim)) for kind in kinds):
        return True
    nested = any(issubclass(kind, (list, tuple)) for kind in kinds)
    return nested and any(isinstance(v, (list, tuple)) and _holds_tensors(v) for v in data)


def stacked(data: Any, dtype: Any = None) -> Any:
    """Nested lists with tensors among their elements as one tensor, which depends on them all.

    Tensors and arrays meet in one dtype, which numbers take; or all take the ``dtype``.
    """
    return _stacked(data, common_dtype(list(_elements(data))) if dtype is None else dtype)


def common_dtype(given: list[Any]) -> Any:
    """The dtype tensors, arrays and weak Python scalars meet in; None of nothing."""
    dtype, kinds = None, list(map(weak_kind, given))
    for v in [owned_tensor(v) for v, kind in zip(given, kinds) if kind is None]:
        dtype = v.dtype if dtype is None else dt.promote(dtype, v.dtype)
    for v, kind in zip(given, kinds):
        if kind is not None:
            dtype = dt.default_dtype(kind) if dtype is None else _met(dtype, v, kind)
    return dtype


def _met(dtype: Any, number: Any, kind: type) -> Any:
    """The dtype in which a number meets another. An int whose value is not known may be out of the
    range of a narrow one."""
    is_int = isinstance(number, Weak) and dt.kind(dtype) in ("bool", "int")
    return dt.promote(dtype, WIDE[kind]) if is_int and kind is int else dt.promote_weak(dtype, kind)


def _elements(data: Any) -> Iterator[Any]:
    for value in data:
        if isinstance(value, (list, tuple)):
            yield from _elements(value)
        else:
            yield owned_tensor(value) if weak_kind(value) is None else value


def _stacked(data: Any, dtype: Any) -> Any:
    rows = [
        v.to_dtype(dtype) if isinstance(v, Weak)
        else _of_dim(v, dtype) if isinstance(v, Dim)
        else v if isinstance(v, TensorBase) or not isinstance(v, (list, tuple, *_NUMBERS))
        else _stacked(v, dtype) if isinstance(v, (list, tuple)) and _holds_tensors(v)
        else np.asarray(v, dtype)
        for v in data
    ]  # fmt: skip
    return call_op("stack", rows, attrs=(0,))


def to_tensor(data: Any, dtype: Any = None, place: Any = None) -> Tensor:
    """A tensor with a copy of ``data``.

    Args:
        data: a tensor, a NumPy array, anything with ``__array__`` or ``__dlpack__`` (arrays of
            CuPy and PyTorch on a GPU too), a Python scalar or nested lists of them. Python data
            become bool, int64, float32 or complex64, or what ``phix.set_default_dtype`` says;
            arrays keep their dtype.
            Of a tensor that PyTorch records gradients of, its values.
        dtype: the dtype to convert to.
        place: where the tensor is to live: by default where ``data`` is, if it is a tensor or an
            array on a GPU, else what the ``phix.device`` around says, else ``"cpu"``.

    Raises:
        DTypeError: a dtype phix does not have.
        DeviceError: no such device is here.

    >>> import phix
    >>> phix.to_tensor([1.0, 2.0])
    Tensor([1., 2.], dtype=float32, shape=[2], place=cpu)
    """
    try:
        return _copied(data, dtype, place)
    except PhixError as error:
        if not getattr(error, "located", False):
            error.args = (f"to_tensor: {error}",)
        raise


def _copied(data: Any, dtype: Any, place: Any) -> Any:
    wanted = None if dtype is None else dt.as_dtype(dtype)
    there = places.as_place(place)
    if isinstance(data, (list, tuple)) and holds_tensors(data):
        data = stacked(data, wanted)
    if isinstance(data, Dim):
        data = _of_dim(data, wanted or dt.DEFAULT_INT)
    if not isinstance(data, TensorBase):
        data = foreign.without_gradients(data)
        on_device = places.storage_of(data, copy=True)
        data = data if on_device is None else tensor_of(on_device)
    is_elsewhere = isinstance(data, Tensor) and not isinstance(data.data, np.ndarray)
    if isinstance(data, Tracer) or is_elsewhere:
        x = owned_tensor(data) if wanted is None else data.astype(wanted)
        return x if there is None else x.to(there)
    if isinstance(data, Tensor):
        there = there or data.place
    is_python = wanted is not None and not hasattr(data, "dtype")
    array = _of_python(data, wanted) if is_python else _array(data)
    array = np.array(array, dtype=wanted, order="C")
    return Tensor(places.moved(array, there or places.default()))


# -- places ----------------------------------------------------------------------------------------
def home(values: Iterable[Any]) -> Place | None:
    """Where arrays and numbers among ``values`` are to go: to the tensors that are elsewhere."""
    if places.is_host_alone():
        return None
    found = {tensor_place(v) for v in values if not _is_single_on_host(v)} - {None}
    return found.pop() if len(found) == 1 and places.CPU not in found else None


def _is_single_on_host(value: Any) -> bool:
    return isinstance(value, TensorBase) and not value.ndim and tensor_place(value) == places.CPU


def tensor_place(value: Any) -> Place | None:
    """Where the data of a tensor live, or those under a tracer that has some; None elsewhere."""
    while isinstance(value, Tracer):
        value = getattr(value, "value", None)
    return value.place if isinstance(value, Tensor) else None


@contextmanager
def following(values: Iterable[Any]) -> Iterator[None]:
    """Inside the with block, new tensors are made where ``values`` are, if that is not the CPU."""
    place = home(values)
    if place is None:
        yield
    else:
        with places.device(place):
            yield


def _called_at_home(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    with following(pytrees.leaves((args, kwargs))):
        return function(*args, **kwargs)


places.provide_called_at_home(_called_at_home)


def at_home(function: F) -> F:
    """A decorator: the function makes new tensors where those among its arguments are."""

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if places.is_host_alone():
            return function(*args, **kwargs)
        return places.called_at_home(function, args, kwargs)

    return called  # type: ignore[return-value]


@lru_cache(maxsize=4096)
def _scalar_on(place: Place, dtype: np.dtype, data: bytes) -> Tensor:
    array = np.frombuffer(data, dtype).reshape(())
    return Tensor(places.moved(array, place))


def moved_tensor(x: Tensor, place: Place) -> Tensor:
    """The tensor on ``place``; copies of single values are kept, and nobody may write to them."""
    if not x.ndim and isinstance(x.data, np.ndarray) and place.kind != "cpu":
        return _scalar_on(place, x.dtype, x.data.tobytes())
    data = places.moved(x.data, place)
    return x if data is x.data else tensor_of(data)


places.LISTENERS.append(_scalar_on.cache_clear)
