"""What a Python function's compiled code follows from, as a digest: the key of kernels on disk.

That is its bytecode, and the globals, closed-over values and other functions that it uses: Numba
takes them as constants.
"""

from __future__ import annotations

import builtins
import dis
import hashlib
import itertools
import operator
import re
import sys
import types
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from phix.core.errors import KernelRegistrationError, described
from phix.core.records import dataclass, field
from phix.kernels.numba import overloads

# Modules whose functions are known by name and version.
_LIBRARIES = ("numpy", "numba", "math", "cmath", "operator", "builtins")
_LARGEST = 10**6  # bytes: of arrays that are larger, or strided, Numba takes the address
# Of a value that is not a local one, and of an attribute.
_LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")
_TAKES = ("LOAD_ATTR", "LOAD_METHOD")
Chain = tuple[str, ...]
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))


# What digests name by where it is in memory: it stays there.
_KEPT: dict[int, Any] = {}


@dataclass
class _Seen:
    """What was met on the way through a function: others, by number, and what no text describes."""

    functions: dict[int, int] = field(default_factory=dict)
    is_lasting: bool = True

    def here(self, *values: Any) -> tuple[Any, ...]:
        """Values that are known by their place in this process's memory alone."""
        self.is_lasting = False
        _KEPT.update((id(v), v) for v in values)
        return ("here", *map(id, values))


class _Unknown(Exception):
    """A value whose meaning no text says."""


def python_function(function: Any) -> Any:
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
    no text says all, as for a function that uses an object of a class, the digest is a new one each
    time, as the object may be another by then.
    """
    try:
        seen = _Seen()
        parts = (list(_compiled(function, seen)), _versions(), more)
        return hashlib.sha256(repr(parts).encode()).hexdigest(), seen.is_lasting
    except _Unknown:
        return uuid.uuid4().hex, False


def _versions() -> list[str]:
    import numba

    return [numba.__version__, np.__version__, sys.version]


def _compiled(function: Any, seen: _Seen) -> Iterator[Any]:
    """A function that Numba compiles: decorated, or the kernel itself."""
    if hasattr(function, "py_func"):
        yield [_option(each, seen) for each in sorted(function.targetoptions.items())]
    plain = python_function(function)
    if id(plain) in seen.functions:  # two names may stand for one function, or for two
        yield ("seen", seen.functions[id(plain)])
    else:
        seen.functions[id(plain)] = len(seen.functions)
        yield from _function(plain, seen)


def _described(value: Any, seen: _Seen) -> Iterator[Any]:
    if hasattr(value, "py_func") or id(value) in seen.functions:
        yield from _compiled(value, seen)
    elif isinstance(value, types.CodeType):
        yield from _code(value, seen)
    elif isinstance(value, _PLAIN) or value in _typed(value):
        yield (type(value).__name__, repr(value))
    elif isinstance(value, (tuple, frozenset, set)):
        yield type(value).__name__
        for each in value if isinstance(value, tuple) else sorted(value, key=repr):
            yield list(_described(each, seen))
    elif isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        yield _array(value, seen)
    elif callable(value) and (found := overloads.of(value)):
        yield seen.here(*found)
    else:
        yield _of_a_library(value)


def _array(array: np.ndarray, seen: _Seen) -> tuple[Any, ...]:
    """Numba makes the elements a part of the code; of a large or strided array, the address."""
    kind = ("array", array.dtype.str, array.shape, array.flags.c_contiguous)
    if array.nbytes > _LARGEST or not (array.flags.c_contiguous or array.flags.f_contiguous):
        return kind + seen.here(array)
    return (*kind, hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest())


def _option(option: tuple[str, Any], seen: _Seen) -> tuple[str, list[Any]]:
    """What a decorated function was decorated with."""
    name, value = option
    return name, list(_described(value, seen))


def _of_a_library(value: Any) -> tuple[str, ...]:
    """A module, function or class that its name tells; a plain function of one's own is none."""
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


def _function(function: types.FunctionType, seen: _Seen) -> Iterator[Any]:
    code = function.__code__
    yield from _code(code, seen)
    yield list(_described(function.__defaults__, seen))
    yield [(k, list(_described(v, seen))) for k, v in (function.__kwdefaults__ or {}).items()]
    for overload in (f for name in code.co_names for f in overloads.of_attribute(name)):
        yield seen.here(overload)
    for overload in overloads.of_operators(partial(_has_instruction, code)):
        yield seen.here(overload)
    cells = dict(zip(code.co_freevars, function.__closure__ or ()))
    space = {**function.__globals__, **{k: _content(c) for k, c in cells.items()}}
    for name, chains in sorted(_uses(code).items()):
        if name in space:
            yield (name, list(_used(space[name], chains, seen)))


def _has_instruction(code: types.CodeType, pattern: str) -> bool:
    """Whether code, or a function in it, has an instruction with a name like that."""
    steps = (f"{step.opname} {step.argrepr}" for step in dis.get_instructions(code))
    return any(re.search(pattern, step) for step in steps) or any(
        _has_instruction(inner, pattern)
        for inner in code.co_consts
        if isinstance(inner, types.CodeType)
    )


def _used(value: Any, chains: set[Chain], seen: _Seen) -> Iterator[Any]:
    """What a name stands for; of a module of one's own, what is taken from it."""
    if not isinstance(value, types.ModuleType) or _is_library(value.__name__):
        yield from _described(value, seen)
        return
    for chain in sorted(chains):
        found: Any = value
        rest = list(chain)
        while rest and isinstance(found, types.ModuleType) and not _is_library(found.__name__):
            found = getattr(found, rest.pop(0), None)
        yield (chain, list(_described(found, seen)))


def _content(cell: types.CellType) -> Any:
    """What a closure holds; an ellipsis where that is not there yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return ...


def _uses(code: types.CodeType) -> dict[str, set[Chain]]:
    """The globals and closed-over names that code and the functions in it use, each with the
    attributes that are taken from it at once: of ``a.b.c``, ``b`` and ``c``."""
    found: dict[str, set[Chain]] = {}
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            for name, chains in _uses(inner).items():
                found.setdefault(name, set()).update(chains)
    steps = [s for s in dis.get_instructions(code) if s.opname not in ("EXTENDED_ARG", "NOP")]
    for k, step in enumerate(steps):
        if step.opname in _LOADS:
            after = itertools.takewhile(lambda s: s.opname in _TAKES, steps[k + 1 :])
            found.setdefault(str(step.argval), set()).add(tuple(str(s.argval) for s in after))
    return found


def _code(code: types.CodeType, seen: _Seen) -> Iterator[Any]:
    """Not where it stands: a file that moves, or a comment above, changes nothing."""
    yield (code.co_code.hex(), code.co_names, code.co_varnames, code.co_argcount, code.co_flags)
    for constant in code.co_consts:
        yield list(_described(constant, seen))
