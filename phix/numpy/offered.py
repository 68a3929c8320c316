"""How functions of phix.array_functions become public: errors that are phix's, and say of what."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from phix.array_functions.numpy_arguments import in_floats
from phix.core import dtypes as dt
from phix.core.errors import (
    ArgumentError,
    AttributeValueError,
    NumberRangeError,
    PhixError,
    TensorIndexError,
)
from phix.core.numpy_protocol import NotOfferedError
from phix.core.source import at_user_line

Function = Callable[..., Any]

# What Python raises of an argument, and what phix says of it.
_TYPED: tuple[tuple[type[Exception], type[PhixError]], ...] = (
    (OverflowError, NumberRangeError),
    (IndexError, TensorIndexError),
    (TypeError, ArgumentError),
    (AttributeError, ArgumentError),
    (ValueError, AttributeValueError),
)
_WAYS = {
    "out=": "use what the call returns (a = f(a) for f(a, out=a))",
    "where=": "choose with phix.numpy.where(mask, f(x), other)",
}


def offered(
    name: str, function: Function, runs_functions: bool = False, floats: Any = None
) -> Function:
    """``function`` as the public one of that name, which makes floats of phix's default dtype, or
    of another.

    Errors of functions of the user's that it runs stay what they are.
    """
    computed = in_floats(floats, function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return computed(*args, **kwargs)
        except NotOfferedError as refused:
            what = str(refused)
            way = _WAYS.get(what, "leave it out, or compute it with others of phix.numpy's")
            raise ArgumentError(f"{name}{at_user_line()} takes no {what}; {way}") from None
        except PhixError:
            raise
        except Exception as error:
            typed = None if runs_functions else _typed(name, error)
            if typed is None:
                raise
            raise typed from error

    call.__module__ = "phix.numpy"
    call.__qualname__ = call.__name__ = name.rpartition(".")[2]
    call.__dict__.pop("__wrapped__", None)
    call.__dict__["__wrapped__"] = function
    call.__dict__["_runs_functions"] = runs_functions
    return call


def in_double(name: str, public: Function) -> Function:
    """What :func:`offered` made, making floats of float64, as NumPy does."""
    function = public.__dict__.get("__wrapped__")
    if function is None:
        return public
    return offered(name, function, public.__dict__["_runs_functions"], dt.float64)


def _typed(name: str, error: Exception) -> PhixError | None:
    for kind, cls in _TYPED:
        if isinstance(error, kind):
            return cls(f"{name}{at_user_line()}: {error}")
    return None
