"""NumPy's functions called on tensors: phix's own where there are some, else NumPy's on the arrays.

The table of them is a face, and comes from above: :func:`provide` says how to load it, which
happens when NumPy first meets a tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from phix.core.errors import ConcretizationError
from phix.core.source import at_user_line
from phix.core.tensor import Tensor, TensorBase, Tracer

Function = Callable[..., Any]  # takes what the function of NumPy takes
_loaders: list[Callable[[], Mapping[Any, Function]]] = []
_tables: list[Mapping[Any, Function]] = []
# What NumPy's functions take besides, where it says no more than leaving it out.
_SAYS_NOTHING = {"where": (True,), "order": ("K", "C"), "casting": ("same_kind",), "subok": (True,)}
_PLAIN = (np.ndarray, np.generic, bool, int, float, complex, str, bytes, list, tuple, type(None))
_COMMON = frozenset({Tensor, np.ndarray, np.float64, np.float32, bool, int, float, complex})


class NotOfferedError(Exception):
    """Raised by a function of the table for an argument that it does not take."""


def provide(load: Callable[[], Mapping[Any, Function]]) -> None:
    """Say where the table comes from: functions by NumPy's function, or by ufunc and method.

    From then on NumPy hands calls with tensors over.
    """
    _loaders[:] = [load]
    _tables.clear()
    for protocol in (__array_ufunc__, __array_function__):
        setattr(TensorBase, protocol.__name__, protocol)


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
    return _call(function, function, f"{module}.{function.__name__}", args, kwargs)


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
    code = getattr(own, "__code__", None)
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
