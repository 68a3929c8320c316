"""What a Python function's compiled code follows from, as a digest: the key of kernels on disk.

That is its bytecode, and the globals, closed-over values and other functions that it uses: Numba
takes them as constants.
"""

from __future__ import annotations

import builtins
import hashlib
import operator
import sys
import types
import uuid
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from phix.core.errors import KernelRegistrationError, described

# Modules whose functions are known by name and version.
_LIBRARIES = ("numpy", "numba", "math", "cmath", "operator", "builtins")
_ONES_OWN: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))


class _Unknown(Exception):
    """A value whose meaning no text says."""


def python_function(function: Any) -> Callable[..., Any]:
    """The function as Python has it, where Numba's decorators have been."""
    return getattr(function, "py_func", function)


def checked(title: str, function: Any) -> Callable[..., Any]:
    """The function as Python has it.

    Raises:
        KernelRegistrationError: it is none that Numba could compile.
    """
    plain = python_function(function)
    if not isinstance(plain, types.FunctionType):
        raise KernelRegistrationError(
            f"{title} is a Python function, or one under numba.njit; found {described(function)}; "
            "write a function with def that calls it"
        )
    return plain


def digest(function: Any, *more: Any) -> tuple[str, bool]:
    """A digest of the function and of ``more`` plain values, and whether it says all.

    Globals and other functions count as they are now, for Numba takes them when it compiles. Where
    no text says all, as for a function that uses an object of a class, the digest is one that no
    other function gets, in no other process.
    """
    try:
        parts = (list(_described(function, {})), _versions(), more)
        return hashlib.sha256(repr(parts).encode()).hexdigest(), True
    except _Unknown:
        return _ONES_OWN.setdefault(function, uuid.uuid4().hex), False


def _versions() -> list[str]:
    import numba

    return [numba.__version__, np.__version__, sys.version]


def _described(value: Any, seen: dict[int, int]) -> Iterator[Any]:
    if hasattr(value, "py_func"):
        yield [_option(each, seen) for each in sorted(value.targetoptions.items())]
        value = value.py_func
    if id(value) in seen:  # which of them: two names may stand for one function, or for two
        yield ("seen", seen[id(value)])
    elif isinstance(value, types.FunctionType):
        seen[id(value)] = len(seen)
        yield from _function(value, seen)
    elif isinstance(value, types.CodeType):
        yield from _code(value, seen)
    elif isinstance(value, _PLAIN) or value in _typed(value):
        yield (type(value).__name__, repr(value))
    elif isinstance(value, (tuple, frozenset, set)):
        yield type(value).__name__
        for each in value if isinstance(value, tuple) else sorted(value, key=repr):
            yield list(_described(each, seen))
    elif isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        yield ("array", value.dtype.str, value.shape, value.flags.c_contiguous, content)
    else:
        yield _of_a_library(value)


def _option(option: tuple[str, Any], seen: dict[int, int]) -> tuple[str, list[Any]]:
    """What a decorated function was decorated with."""
    name, value = option
    return name, list(_described(value, seen))


def _of_a_library(value: Any) -> tuple[str, ...]:
    """A module, function or class that its name tells."""
    name = str(getattr(value, "__name__", ""))
    if isinstance(value, types.ModuleType) and _is_library(name):
        return ("module", name)
    module = getattr(value, "__module__", None) or ""
    where = str(getattr(value, "__qualname__", name))
    if _is_library(module) and _found(module, where) is value:  # else made by one, as by cfunc
        return ("of a library", module, where)
    if name and getattr(builtins, name, None) is value:
        return ("builtin", name)
    if isinstance(value, type) and issubclass(value, BaseException):  # code holds it by name
        return ("exception", module, value.__qualname__)
    raise _Unknown


def _found(module: str, where: str) -> Any:
    """What a module has under a name."""
    try:
        return operator.attrgetter(where)(sys.modules.get(module))
    except AttributeError:
        return None


def _typed(value: Any) -> list[Any]:
    """The value, if it is a number or a dtype of NumPy: its text says what it is."""
    return [value] if isinstance(value, (np.dtype, np.number, np.bool_)) else []


def _is_library(module: str) -> bool:
    return module.partition(".")[0] in _LIBRARIES


def _function(function: types.FunctionType, seen: dict[int, int]) -> Iterator[Any]:
    code = function.__code__
    yield from _code(code, seen)
    yield list(_described(function.__defaults__, seen))
    yield [(k, list(_described(v, seen))) for k, v in (function.__kwdefaults__ or {}).items()]
    for name in sorted(_names(code)):
        if name in function.__globals__:
            yield (name, list(_described(function.__globals__[name], seen)))
    for name, cell in zip(code.co_freevars, function.__closure__ or ()):
        yield (name, list(_described(_content(cell), seen)))


def _content(cell: types.CellType) -> Any:
    """What a closure holds; an ellipsis where that is not there yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return ...


def _names(code: types.CodeType) -> set[str]:
    """The names of globals that code and the functions in it may use."""
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _code(code: types.CodeType, seen: dict[int, int]) -> Iterator[Any]:
    """Not where it stands: a file that moves, or a comment above, changes nothing."""
    yield (code.co_code.hex(), code.co_names, code.co_varnames, code.co_argcount, code.co_flags)
    for constant in code.co_consts:
        yield list(_described(constant, seen))
