"""NumPy's functions called on tensors: phix's own where there are some, else NumPy's on the arrays.

The table of them is a face, and comes from above: :func:`provide` says how to load it, which
happens when NumPy first meets a tensor.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from phix.core import places
from phix.core.conversion import tensor_place
from phix.core.errors import ArgumentError, AttributeValueError, ConcretizationError
from phix.core.places import Place
from phix.core.source import at_user_line
from phix.core.tensor import Tensor, TensorBase, Tracer
from phix.core.unknown_sizes import UnknownSize

Function = Callable[..., Any]  # takes what the function of NumPy takes
_loaders: list[Callable[[], Mapping[Any, Function]]] = []
_namespaces: list[Callable[[], ModuleType]] = []
_tables: list[Mapping[Any, Function]] = []
# What NumPy's functions take besides, where it says no more than leaving it out.
_SAYS_NOTHING = {"where": (True,), "order": ("K", "C"), "casting": ("same_kind",), "subok": (True,)}
_PLAIN = (np.ndarray, np.generic, bool, int, float, complex, str, bytes, list, tuple, type(None),
          UnknownSize)  # fmt: skip
_COMMON = frozenset({Tensor, np.ndarray, np.float64, np.float32, bool, int, float, complex})


# Libraries that write into what NumPy's functions give them, and hand it to code in C: to these
# tensors are arrays. What they call of the user's, and the user's own calls, have tensors.
_WORK_ON_ARRAYS = frozenset({
    "matplotlib", "mpl_toolkits", "pandas", "scipy", "seaborn", "skimage", "sklearn", "statsmodels",
})  # fmt: skip

# What writes into its first argument, and what to write where that is a tensor.
_WRITING = {
    "at": "x = phix.numpy.add.at(x, index, values, inplace=False), and so for other ufuncs",
    "copyto": "x = y, or x = phix.ops.where(mask, y, x)",
    "fill_diagonal": "x = x.at[i, i].set(values) with i = phix.arange(n)",
    "place": "x = phix.ops.where(mask, values, x)",
    "put": "x = x.at[index].set(values)",
    "put_along_axis": "x = x.put_along_axis(index, values, axis)",
    "putmask": "x = phix.ops.where(mask, values, x)",
}


class NotOfferedError(Exception):
    """Raised by a function of the table for an argument that it does not take."""


def provide(
    load: Callable[[], Mapping[Any, Function]], load_namespace: Callable[[], ModuleType]
) -> None:
    """Say where the table comes from: functions by NumPy's function, or by ufunc and method; and
    the namespace of the array API standard.

    From then on NumPy hands calls with tensors over.
    """
    _loaders[:] = [load]
    _namespaces[:] = [load_namespace]
    _tables.clear()
    for protocol in (__array_ufunc__, __array_function__, __array_namespace__, to_device):
        setattr(TensorBase, protocol.__name__, protocol)
    TensorBase.device = property(_device, doc=_device.__doc__)  # type: ignore[attr-defined]


def __array_namespace__(self: TensorBase, *, api_version: str | None = None) -> ModuleType:
    """The namespace of the array API standard that works on tensors: ``phix.numpy``."""
    module = _namespaces[0]()
    if api_version not in (None, *module.ARRAY_API_VERSIONS):
        raise AttributeValueError(
            f"phix.numpy meets the array API standard in {', '.join(module.ARRAY_API_VERSIONS)}, "
            f"found {api_version!r:.80}"
        )
    return module


def _device(self: TensorBase) -> Place:
    """Where the data live, or, of a tensor that is being traced, would be made."""
    return tensor_place(self) or places.default()


def to_device(self: TensorBase, device: Any, /, *, stream: Any = None) -> Any:
    """The tensor on a place; ``stream`` is not offered."""
    if stream is not None:
        raise ArgumentError("to_device takes no stream; leave it out")
    return self.to(device)


def table() -> Mapping[Any, Function]:
    """The functions phix has, by what NumPy calls; loaded on first use."""
    if not _tables:
        _tables.append(_loaders[0]() if _loaders else {})
    return _tables[0]


def __array_ufunc__(self: TensorBase, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """See ``numpy.ndarray.__array_ufunc__``."""
    if not kwargs and method == "__call__" and _COMMON.issuperset(map(type, inputs)):
        own = table().get(ufunc)  # array + tensor comes here
        if own is not None:
            try:
                return own(*inputs)
            except NotOfferedError:
                pass
    for value in (*inputs, *kwargs.get("out", ())):
        if not isinstance(value, (TensorBase, *_PLAIN)) and _has_own(value, "__array_ufunc__"):
            return NotImplemented
    key = ufunc if method == "__call__" else (ufunc, method)
    return _call(key, getattr(ufunc, method), f"np.{ufunc.__name__}", inputs, kwargs)


def __array_function__(
    self: TensorBase, function: Any, types: Sequence[type], args: Any, kwargs: dict[str, Any]
) -> Any:
    """See ``numpy.ndarray.__array_function__``."""
    if not all(issubclass(t, (TensorBase, np.ndarray)) for t in types):
        return NotImplemented
    module = function.__module__.replace("numpy", "np", 1)
    if _is_asked_by_library() and not any(isinstance(v, Tracer) for v in _leaves((args, kwargs))):
        return function(*_as_arrays(args), **_as_arrays(kwargs))
    return _call(function, function, f"{module}.{function.__name__}", args, kwargs)


def _is_asked_by_library() -> bool:
    """Whether NumPy's function is called by a library that works on NumPy's arrays."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package != "numpy":
            return package in _WORK_ON_ARRAYS
        frame = frame.f_back
    return False


def _has_own(value: Any, name: str) -> bool:
    return getattr(type(value), name, None) is not None


def _call(
    key: Any, plain: Function, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    own, reason = table().get(key), ""
    if own is not None:
        try:
            return own(*args, **_said(own, kwargs))
        except NotOfferedError as refused:
            reason = str(refused)
    if plain.__name__ in _WRITING and isinstance((*args, *kwargs.values())[0], TensorBase):
        raise ArgumentError(
            f"{name}{at_user_line()}: tensors are immutable; write {_WRITING[plain.__name__]}"
        )
    tracer = next((v for v in _leaves((args, kwargs)) if isinstance(v, Tracer)), None)
    if tracer is not None:
        raise _refused(name, reason, tracer)
    return plain(*_as_arrays(args), **_as_arrays(kwargs))


def _refused(name: str, reason: str, tracer: Tracer) -> ConcretizationError:
    what = f"takes no {reason}" if reason else "is no function that phix has"
    way = "use what the call returns (a = a + x for a += x); " if reason == "out=" else ""
    return ConcretizationError(
        f"{name}{at_user_line()} {what} for a tensor that is being traced by "
        f"{tracer.interpreter.name} ({tracer.meta}); {way}compute with phix.ops, take "
        "phix.stop_gradient(x) where a constant is meant, or call NumPy through "
        "phix.pure_callback"
    )


def _said(own: Function, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The keywords that say something, all of which the function must take."""
    said = {
        name: value
        for name, value in kwargs.items()
        if value is not np._NoValue
        and not (name in ("out", "like", "initial", "dtype") and value is None)
        and not any(value is nothing or _same_text(value, nothing)
                    for nothing in _SAYS_NOTHING.get(name, ()))
    }  # fmt: skip
    code = getattr(inspect.unwrap(own), "__code__", None)
    for name in said:
        if (
            code is None
            or name not in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        ):
            raise NotOfferedError(f"{name}=")
    return said


def _same_text(value: Any, nothing: Any) -> bool:
    return isinstance(value, str) and value == nothing


def _leaves(value: Any) -> Iterator[Any]:
    """All values in nested tuples, lists and dicts."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, (tuple, list)):
        for v in value:
            yield from _leaves(v)
    else:
        yield value


def _as_arrays(value: Any) -> Any:
    """The same with arrays in the place of tensors."""
    if isinstance(value, dict):
        return {k: _as_arrays(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        parts = [_as_arrays(v) for v in value]
        return type(value)(parts) if type(value) in (tuple, list) else type(value)(*parts)
    return value.numpy() if isinstance(value, Tensor) else value
