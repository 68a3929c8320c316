"""Tensors made of other data: numbers and arrays of Python; and tensors on other places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.core import places
from phix.core.places import Place
from phix.core.tensor import Tensor, TensorBase, Tracer, bind


@lru_cache(maxsize=4096)
def _scalar_tensor(value: Any, kind: Any, text: str, dtype: np.dtype) -> Tensor:
    array = np.asarray(value, dtype)  # kind and text keep 1, True, 1.0 and -0.0 apart
    array.flags.writeable = False
    return Tensor(array)


def tensor_from_scalar(value: Any, dtype: np.dtype | None) -> Tensor:
    """A 0-d tensor of a Python scalar, cached; ``dtype`` None is the scalar's default."""
    dtype = dtype or dt.default_dtype(type(value))
    kind: Any = type(value)
    return _scalar_tensor(value, kind, repr(value), dtype)


def _array(data: Any) -> np.ndarray:
    if isinstance(data, np.ndarray):
        array = data
    elif isinstance(data, np.generic):
        array = np.asarray(data)
    elif hasattr(data, "__array__") or hasattr(data, "__array_interface__"):
        array = np.asarray(data)
    elif hasattr(data, "__dlpack__"):
        array = np.from_dlpack(data)
    else:
        array = np.asarray(data)
        if array.dtype == np.float64:
            array = array.astype(dt.DEFAULT_FLOAT)
        elif array.dtype == np.complex128:
            array = array.astype(dt.DEFAULT_COMPLEX)
    return array.astype(dt.as_dtype(array.dtype), copy=False)


def holds_tensors(data: Any) -> bool:
    """Whether a list or tuple, or one in it, has a tensor among its elements."""
    kinds = set(map(type, data))
    if any(issubclass(kind, TensorBase) for kind in kinds):
        return True
    nested = any(issubclass(kind, (list, tuple)) for kind in kinds)
    return nested and any(isinstance(v, (list, tuple)) and holds_tensors(v) for v in data)


def stacked(data: Any) -> Any:
    """Nested lists with tensors among their elements as one tensor, which depends on them all.

    Tensors and arrays meet in one dtype, which numbers take.
    """
    from phix.core.dispatch import common_dtype

    return _stacked(data, common_dtype(list(_elements(data))))


def _elements(data: Any) -> Iterator[Any]:
    for value in data:
        if isinstance(value, (list, tuple)):
            yield from _elements(value)
        else:
            yield Tensor(_array(value)) if isinstance(value, (np.ndarray, np.generic)) else value


def _stacked(data: Any, dtype: Any) -> Any:
    rows = [
        v if not isinstance(v, (list, tuple))
        else _stacked(v, dtype) if holds_tensors(v)
        else np.asarray(v, dtype)
        for v in data
    ]  # fmt: skip
    return bind("stack", rows, attrs=(0,))


def to_tensor_shared(data: Any, place: Place | None = None) -> Any:
    """A tensor of any array-like; shares the memory of arrays where they stay on the host.

    Python lists and scalars become bool, int64, float32 or complex64; lists of tensors are
    stacked, and a tensor stays as it is. ``place`` None: the default.
    """
    if isinstance(data, TensorBase):
        return data
    if isinstance(data, (list, tuple)) and holds_tensors(data):
        return stacked(data)
    home = place or places.default()
    return Tensor(places.moved(_array(data), home) if home.kind != "cpu" else _array(data))


def to_tensor(data: Any, dtype: Any = None, place: Any = None) -> Any:
    """A tensor with a copy of ``data``.

    Args:
        data: a tensor, a NumPy array, anything with ``__array__`` or ``__dlpack__``, a Python
            scalar or nested lists of them. Python data become bool, int64, float32 (the default
            float) or complex64; arrays keep their dtype.
        dtype: the dtype to convert to.
        place: where the tensor is to live: by default where ``data`` is a tensor already, else
            what the ``phix.device`` around says, else ``"cpu"``.

    Raises:
        DTypeError: a dtype phix does not have.
        DeviceError: no such device is here.

    >>> import phix
    >>> phix.to_tensor([1.0, 2.0])
    Tensor([1., 2.], dtype=float32, shape=[2], place=cpu)
    """
    wanted = None if dtype is None else dt.as_dtype(dtype)
    there = places.as_place(place)
    if isinstance(data, (list, tuple)) and holds_tensors(data):
        data = stacked(data)
    is_elsewhere = isinstance(data, Tensor) and not isinstance(data.data, np.ndarray)
    if isinstance(data, Tracer) or is_elsewhere:
        x = data if wanted is None else data.astype(wanted)
        return x if there is None else x.to(there)
    if isinstance(data, Tensor):
        there = there or data.place
    array = data if wanted is not None and not hasattr(data, "dtype") else _array(data)
    array = np.array(array, dtype=wanted, order="C")
    return Tensor(places.moved(array, there or places.default()))


# -- places ----------------------------------------------------------------------------------------
def home(values: Iterable[Any]) -> Place | None:
    """Where arrays and numbers among ``values`` are to go: to the tensors that are elsewhere."""
    if places.is_host_alone():
        return None
    found = {place_of(v) for v in values if not _is_single_on_host(v)} - {None}
    return found.pop() if len(found) == 1 and places.CPU not in found else None


def _is_single_on_host(value: Any) -> bool:
    return isinstance(value, TensorBase) and not value.ndim and place_of(value) == places.CPU


def place_of(value: Any) -> Place | None:
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


@lru_cache(maxsize=4096)
def _scalar_on(place: Place, dtype: np.dtype, data: bytes) -> Tensor:
    array = np.frombuffer(data, dtype).reshape(())
    return Tensor(places.moved(array, place))


def moved(x: Tensor, place: Place) -> Tensor:
    """The tensor on ``place``; copies of single values are kept."""
    if not x.ndim and isinstance(x.data, np.ndarray) and place.kind != "cpu":
        return _scalar_on(place, x.dtype, x.data.tobytes())
    data = places.moved(x.data, place)
    return x if data is x.data else Tensor(data)


places.LISTENERS.append(_scalar_on.cache_clear)
