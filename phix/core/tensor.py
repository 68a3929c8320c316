"""Tensors: what users hold (``Tensor``) and what transformations pass around (``Tracer``)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from phix.core import dtypes as dt
from phix.core import foreign, places, refusals
from phix.core.arrays import plain_array, read_only
from phix.core.dims import DimLike, Shape
from phix.core.errors import (
    ArgumentError,
    DTypeError,
    NumberRangeError,
    ShapeError,
    TensorIndexError,
    described,
    shown,
)
from phix.core.hints import public_names
from phix.core.interpreter import Interpreter
from phix.core.meta import MetaTensor
from phix.core.places import Place

if TYPE_CHECKING:
    from phix.core.tensor_methods import TensorMethods  # a stub alone: see phix/table/stubs.py
else:
    TensorMethods = object


class TensorBase(TensorMethods):
    """Operators and methods every kind of tensor has; they all go through the op table.

    Methods of NumPy's arrays mean what they mean there, ``x.sum(axis=0, keepdims=True)``, those of
    Paddle's Tensor what they mean there; every other op whose first argument is a tensor is a
    method with the arguments of the op. Nothing works in place.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def meta(self) -> MetaTensor: ...

    def __dir__(self) -> list[str]:
        return public_names(type(self))

    # -- facts -----------------------------------------------------------------------------
    @property
    def shape(self) -> Shape:
        return self.meta.dims

    @property
    def dtype(self) -> np.dtype:
        return self.meta.dtype

    @property
    def ndim(self) -> int:
        return len(self.meta.dims)

    @property
    def size(self) -> DimLike:
        return self.meta.size

    # -- values: only where they are known -------------------------------------------------
    def concrete(self, asked: str) -> Tensor:
        """The tensor with data behind this one, if there is one."""
        raise NotImplementedError

    def numpy(self) -> np.ndarray:
        """The values as a NumPy array: a read-only view where the data allow, no copy.

        What another device holds is copied.
        """
        return read_only(self.concrete("a NumPy array").host)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        data = self.numpy()
        if dtype is not None and data.dtype != dtype:
            return data.astype(dtype)
        return data.copy() if copy else data

    def item(self, *index: Any) -> Any:
        """The value of a one-element tensor as a Python number.

        ``x.item(k)`` is that of the kth element of all, ``x.item(i, j)`` that of one by its place.
        """
        data = self.concrete("a Python number").host
        if index:
            try:
                return data.item(*index)
            except (IndexError, ValueError, TypeError) as error:
                raise TensorIndexError(
                    f"item: {shown(index)} is no element of {self.meta} ({error}); give one index "
                    "for each axis, or one among all elements"
                ) from None
        if data.size != 1:
            raise ArgumentError(f"item() needs one element, found {self.meta}; index it first")
        return data.item()

    def tolist(self) -> Any:
        """The values as nested Python lists."""
        return self.concrete("a list").host.tolist()

    def __bool__(self) -> bool:
        data = self.concrete("a truth value").host
        if data.size != 1:
            raise ShapeError(
                f"the truth value of {self.meta} is not known: it has {data.size} elements; write "
                "phix.ops.any(x) or phix.ops.all(x)"
            )
        return bool(data)

    def __int__(self) -> int:
        return int(self._real_item("an int"))

    def __float__(self) -> float:
        return float(self._real_item("a float"))

    def _real_item(self, asked: str) -> Any:
        value = self.item()
        is_finite = asked != "an int" or not isinstance(value, float) or math.isfinite(value)
        if isinstance(value, complex):
            raise DTypeError(f"{asked} was asked of {self.meta}; take ops.real(x) or ops.abs(x)")
        if not is_finite:
            raise NumberRangeError(f"{asked} was asked of {self.meta}, whose value is {value}")
        return value

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        if dt.kind(self.dtype) != "int" or self.ndim:
            raise DTypeError(f"an index must be one int, found {self.meta}; index with x[i]")
        return int(self.concrete("an index").host)

    def __len__(self) -> int:
        if not self.ndim:
            raise ArgumentError(f"len() needs a tensor with an axis, found {self.meta}")
        return self.shape[0]  # type: ignore[return-value]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.ndim:
            raise ArgumentError(f"iter() needs a tensor with an axis, found {self.meta}")
        return (self[i] for i in range(len(self)))

    def __setitem__(self, index: Any, value: Any) -> None:
        raise ArgumentError("tensors are immutable; write y = x.at[index].set(value)")

    __hash__ = object.__hash__


class Key(tuple[Any, ...]):
    """What compiled programs are looked up by: dtype, shape, C-contiguity, and the place where it
    is not the CPU.

    There is one object for equal ones, as long as they are not too many, so it is compared and
    hashed as an object: hashing dtypes and shapes would be half of what an eager call costs.
    """

    __slots__ = ()
    __hash__ = object.__hash__
    __eq__ = object.__eq__
    __ne__ = object.__ne__


_keys: dict[tuple[Any, ...], Key] = {}
_MOST_KEYS = 4096


def key_of(*facts: Any) -> Key:
    """The key of a dtype, a shape, and so on."""
    found = _keys.get(facts)
    if found is None:
        if len(_keys) > _MOST_KEYS:
            _keys.clear()
        found = _keys.setdefault(facts, Key(facts))
    return found


class Tensor(TensorBase):
    """A dense tensor: data on a place, a NumPy array on the CPU's. Immutable.

    ``phix.Tensor(array)`` shares the array's memory, which nobody may write to from then on;
    :func:`phix.to_tensor` copies, as does all else that keeps an array beyond the call.
    ``key`` is what compiled programs are looked up by, a :class:`Key`. ``known_key`` is the same,
    None until somebody asked for it.

    >>> import numpy as np
    >>> import phix
    >>> x = phix.Tensor(np.arange(6.0).reshape(2, 3))
    >>> (x[0] * 2 + 1).tolist(), x.T.shape
    ([1.0, 3.0, 5.0], (3, 2))
    """

    __slots__ = ("__weakref__", "_meta", "_shown", "data", "known_key")

    def __init__(self, data: Any) -> None:
        self.data = plain_array(data) if isinstance(data, np.ndarray) else data
        self.known_key: tuple[Any, ...] | None = None
        self._meta: MetaTensor | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        key = self.known_key
        if key is None:
            data = self.data
            if isinstance(data, np.ndarray):
                key = key_of(data.dtype, data.shape, data.flags.c_contiguous)
            else:
                whole = places.is_contiguous(data)
                key = key_of(data.dtype, data.shape, whole, places.place_of(data))
            self.known_key = key
        return key

    @property
    def place(self) -> Place:
        """Where the data live."""
        return places.place_of(self.data)

    @property
    def host(self) -> np.ndarray:
        """The values as a host array, for reading: the data themselves on the CPU, else a copy."""
        data = self.data
        return data if isinstance(data, np.ndarray) else places.to_host(data)

    @property
    def meta(self) -> MetaTensor:
        meta = self._meta
        if meta is None:
            meta = self._meta = MetaTensor(self.data.shape, self.data.dtype)
        return meta

    @property
    def shape(self) -> Shape:
        try:
            return self.data.shape
        except AttributeError:
            raise _no_storage(self.data) from None

    @property
    def dtype(self) -> np.dtype:
        try:
            return self.data.dtype
        except AttributeError:
            raise _no_storage(self.data) from None

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def concrete(self, asked: str) -> Tensor:
        return self

    @property
    def __array_interface__(self) -> dict[str, Any]:
        if self.dtype in dt.FOREIGN or not isinstance(self.data, np.ndarray):
            # The interface has only raw bytes of bfloat16 and the like, and does not keep a copy of
            # what another device holds alive; without it NumPy asks __array__.
            raise AttributeError("__array_interface__")
        # The array made from it refers to this tensor, not to the memory: the view does.
        self._shown = self.numpy()
        return self._shown.__array_interface__

    def __dlpack__(self, *, copy: bool | None = None, **kwargs: Any) -> Any:
        """A copy: who takes it may write to it, and many readers know no read-only memory.

        With ``copy=False`` the memory itself, marked as read-only; BufferError where the reader
        does not know the mark.
        """
        data = self._exporting()
        if copy is False:
            if not isinstance(data, np.ndarray):
                raise BufferError(
                    f"a tensor on {self.place} cannot be handed on as read-only memory; leave out "
                    "copy=False"
                )
            return foreign.exported(read_only(data), copy=False, **kwargs)
        copied = data.copy()
        if isinstance(copied, np.ndarray):
            return foreign.exported(copied, **kwargs)
        return copied.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._exporting().__dlpack_device__()

    def _exporting(self) -> Any:
        """What speaks DLPack for this tensor: its data, or a host copy of what cannot."""
        data = self.data
        return data if hasattr(data, "__dlpack__") and hasattr(data, "copy") else self.host

    def __repr__(self) -> str:
        values = np.array2string(self.host, separator=", ", prefix="Tensor(", threshold=100)
        return f"Tensor({values}, dtype={self.dtype}, shape={list(self.shape)}, place={self.place})"

    def _repr_html_(self) -> str:
        """The values as a table, for notebooks; those of more than two axes as text."""
        from phix.core.tables import html  # who shows one needs it

        return html(self)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else repr(self)

    def __reduce__(self) -> Any:
        return (_on_place, (self.host, self.place))


_new_tensor = Tensor.__new__


def tensor_of(data: Any, key: Key | None = None) -> Tensor:
    """A tensor of storage that phix made: as ``Tensor(data)``, without a look at it.

    ``key`` is the tensor's, where it is known.
    """
    made = _new_tensor(Tensor)
    made.data = data
    made.known_key = key
    made._meta = None
    return made


def _no_storage(data: Any) -> ArgumentError:
    return ArgumentError(
        f"phix.Tensor takes a NumPy array or the storage of a registered device, found "
        f"{described(data)}; phix.to_tensor takes anything else"
    )


def _on_place(array: np.ndarray, place: Place) -> Tensor:
    return Tensor(places.moved(array, place))


class Tracer(TensorBase):
    """A stand-in for a tensor inside a transformed function; belongs to one interpreter."""

    __slots__ = ("interpreter",)

    interpreter: Interpreter

    def __repr__(self) -> str:
        return f"Tracer<{self.interpreter.name}>({self.meta})"

    def __format__(self, spec: str) -> str:
        if spec:
            self.concrete("a formatted number")
        return repr(self)

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.concrete("an array of another library").__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.concrete("an array of another library").__dlpack_device__()

    def __copy__(self) -> Tracer:
        """The same value in a tracer of its own."""
        new = object.__new__(type(self))
        for kind in type(self).__mro__:
            for name in getattr(kind, "__slots__", ()):
                setattr(new, name, getattr(self, name))
        return new

    def __deepcopy__(self, memo: Any) -> Tracer:
        return self.__copy__()

    def __reduce_ex__(self, protocol: Any) -> Any:
        self.concrete("a pickle")
        return super().__reduce_ex__(protocol)

    @property
    def identity(self) -> Any:
        """What tracers that stand for one value have in common."""
        return id(self)


class AroundValue:
    """What holds a value, and has its dtype and its axes."""

    __slots__ = ()

    value: Any

    @property
    def dtype(self) -> np.dtype:
        dtype: np.dtype = self.value.dtype
        return dtype

    @property
    def ndim(self) -> int:
        ndim: int = self.value.ndim
        return ndim


class ValueTracer(AroundValue, Tracer):
    """A tracer around a value of the interpreter's parent, which can be looked at."""

    __slots__ = ("value",)

    value: TensorBase

    @property
    def meta(self) -> MetaTensor:
        return self.value.meta

    @property
    def shape(self) -> Shape:
        return self.value.shape

    def concrete(self, asked: str) -> Tensor:
        # What a comparison gives, or a rounding to ints, has no derivative to lose.
        if not dt.is_differentiable(self.dtype):
            return self.value.concrete(asked)
        raise refusals.derivative_lost(self, asked)


TensorLike = Union[TensorBase, np.ndarray, np.generic, bool, int, float, complex, Sequence[Any]]
