"""Callable machine code: what is in memory, else on disk, else made by the compiler.

The compiler is imported where there is something to compile: a program found on disk needs none.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import re
import sys
import weakref
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from phix.core import disk_cache, stack
from phix.core import dtypes as dt
from phix.core.digests import sha256
from phix.core.records import dataclass, field
from phix.kernels.cpu import faults, host, objects, runtime
from phix.kernels.cpu.level import (
    LOGIC_UNDER_MASKS,
    SIGNS_OF_VECTORS,
    VECTORS,
    WITHOUT_MASKS,
    WITHOUT_SIGNS_OF_VECTORS,
    level,
)
from phix.kernels.loops import linked

if TYPE_CHECKING:
    from phix.kernels.cpu import compiler

# Raise when the convention of ``entry`` or the layout of what it reads changes.
ENTRY_VERSION = 4
_METH_FASTCALL = 0x80

# Which module of this folder makes a function known that compiled code calls; else it is BLAS's.
_PROVIDERS = {"phix_take": "pool", "phix_give": "pool", "phix_share": "threads"}
_PROVIDERS |= {"phix_share_in": "threads"}
_PROVIDERS |= {"phix_numba_runtime": "..numba.calls"}
_PROVIDERS |= {
    f"phix_product_{dtype}": "product_code" for dtype in ("bfloat16", "float32", "float64")
}
_PROVIDERS |= {f"phix_fft_{dtype}": "fourier_code" for dtype in ("float32", "float64")}
_PROVIDERS |= {
    f"phix_{routine}_uint{bits}": "sort_code" for routine in ("sort", "split") for bits in (32, 64)
}
_CALLS = r"(?m)^declare [^@\n]*@(phix_(?!linked_)\w+)\("

_lock = stack.Lock()
# By key, for as long as somebody can still call it.
_loaded: weakref.WeakValueDictionary[str, Code] = weakref.WeakValueDictionary()
_permanent: list[Any] = []  # what holds code that all other code may call
_provided: set[str] = set()
_begun: dict[str, list[compiler.Emission]] = {}

_forking = contextlib.ExitStack()


def _before_fork() -> None:
    """Wait for what other threads compile: in the child LLVM would be half in it for ever."""
    _forking.enter_context(_lock)
    made = sys.modules.get("phix.kernels.cpu.compiler")
    for each in tuple(made.Emission.under_way) if made else ():
        each.wait()


def _after_fork() -> None:
    if _lock.is_own:  # no exception has ended the wait
        _forking.pop_all().close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )


class _MethodDefinition(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


# What besides its source decides the machine code of a program: part of every key on disk.
FACTS: dict[str, Callable[[], Any]] = {
    "llvmlite": lambda: host.llvmlite_version(),
    "LLVM": lambda: host.facts()["LLVM"],
    "system": lambda: host.facts()["triple"],  # the form of objects, and how calls are made
    "CPU": lambda: level().cpu,
    "features": lambda: level().features,
    "last cache": lambda: last_cache_bytes(),
    "entry": lambda: ENTRY_VERSION,
    "vectors": lambda: VECTORS,
    "compiled again": lambda: (
        (SIGNS_OF_VECTORS, WITHOUT_SIGNS_OF_VECTORS),
        (LOGIC_UNDER_MASKS, WITHOUT_MASKS),
    ),
    "objects of Python": lambda: object.__basicsize__,
    "arrays of NumPy": lambda: np.lib.NumpyVersion(np.__version__).major,
}


@lru_cache(maxsize=1)
def identity() -> str:
    """The facts about this machine and its compiler that programs are kept under."""
    return repr([(name, fact()) for name, fact in FACTS.items()])


_LAST_CACHE = "/sys/devices/system/cpu/cpu0/cache/index3/size"


def last_cache_bytes() -> int | None:
    """The size of the CPU's last cache; None where the system does not tell."""
    try:
        with open(_LAST_CACHE, encoding="ascii") as file:
            return int(file.read().strip().removesuffix("K")) << 10
    except (OSError, ValueError):
        return None


@lru_cache(maxsize=1)
def function_attributes() -> str:
    """Attributes of every kernel: LLVM prefers narrower vectors than the CPU has."""
    width = 512 if "avx512f" in level().has else 256
    return f'nounwind "prefer-vector-width"="{width}"'


@lru_cache(maxsize=1)
def vector_registers() -> tuple[int, int]:
    """How many bytes a vector register of the CPU has, and how many of them there are."""
    if "avx512f" in level().has:
        return 64, 32
    if "avx2" in level().has:
        return 32, 16
    return 16, 32 if "neon" in level().has else 16


@lru_cache(maxsize=1)
def dtypes_with_keys() -> frozenset[np.dtype]:
    """Floats whose vectors are turned into ints of the same order, and compared, in few steps."""
    has = {dt.float32: "sse4.1", dt.float64: "avx512f"}
    return frozenset(d for d, feature in has.items() if feature in level().has)


def assembly(text: str) -> str:
    """The machine code of a module as assembly text."""
    from phix.kernels.cpu import compiler

    with _lock:
        return compiler.assembly(text.replace("@ENTRY", "@entry"))


@dataclass(frozen=True)
class Code:
    """Machine code in memory: one function, called from Python with METH_FASTCALL.

    Its memory is given back with this object: whoever calls it must hold on to it.
    """

    key: str  # of the object on disk
    calls: tuple[str, ...]  # native functions of phix that it needs
    address: int
    engine: Any = field(repr=False, compare=False)  # holds the memory


def code_of(text: str) -> Code:
    """The machine code of the function ``@ENTRY`` of a module, compiled unless it is on disk."""
    key = _key(text)
    with _lock:
        found = _loaded.get(key)
        if found is None:
            calls = tuple(sorted(set(re.findall(_CALLS, text))))
            name = _name(key)
            engine, (address,) = _load(key, text.replace("@ENTRY", f"@{name}"), (name,), calls)
            found = _loaded[key] = Code(key, calls, address, engine)
    return found


def recalled(key: str, calls: tuple[str, ...]) -> Code | None:
    """The machine code that an earlier process kept under ``key``; None where it is gone, or what
    it calls is not to be had."""
    with _lock:
        found = _loaded.get(key)
        if found is None:
            body = disk_cache.load(key)
            if body is None or _name(key).encode() not in body:
                return None
            try:
                _provide(calls)
            except (LookupError, ValueError, AttributeError):
                return None
            engine, (address,) = _linked(body, (_name(key),))
            found = _loaded[key] = Code(key, calls, address, engine)
    return found


def compiled(text: str) -> Callable[..., Any]:
    """The function ``@ENTRY`` of a module, callable from Python with METH_FASTCALL."""
    return python_function(code_of(text))


def addresses(
    text: str | partial[str], names: tuple[str, ...], is_final: bool = False
) -> tuple[int, ...]:
    """The addresses of functions of a module, which is loaded once and stays; see ``_optimised``.

    Text that a function of phix makes from plain arguments need not be made to be found on disk.
    """
    with _lock:
        engine, found = _load(_key(text), text, names, is_final=is_final)
        _permanent.append(engine)
    return found


def _key(text: str | partial[str]) -> str:
    """The name of a module's object: a digest of its text, or of what the text follows from."""
    if isinstance(text, partial):
        source, made = disk_cache.source_digest(), text.func
        known = (made.__module__, made.__qualname__, text.args, source)
        text = text() if source is None else repr(known)
    return sha256((identity() + text).encode()).hexdigest()


def _name(key: str) -> str:
    return f"phix_{key[:32]}"


def _load(
    key: str,
    text: str | partial[str],
    names: tuple[str, ...],
    calls: tuple[str, ...] = (),
    is_final: bool = False,
) -> tuple[Any, tuple[int, ...]]:
    """Machine code in memory. What it calls is waited for last, as threads may be at work on it."""
    begun = _begun.pop(key, None)
    body = None if begun else disk_cache.load(key)
    if body is None:
        made = [each.result() for each in begun] if begun else _made(text, is_final)
        body = objects.packed(made)
        if isinstance(text, partial) or _is_for_all(text):
            disk_cache.save(key, body)
    _provide(calls)
    return _linked(body, names)


def _made(text: str | partial[str], is_final: bool) -> list[bytes]:
    from phix.kernels.cpu import compiler

    return compiler.objects_of(text if isinstance(text, str) else text(), is_final)


def _is_for_all(text: str) -> bool:
    """Whether the native functions from outside phix in a text are the same in other processes."""
    found = [linked.find(name) for name in re.findall(linked.DECLARED, text)]
    return all(f.is_lasting and not _has_addresses(f.make()) for f in found)


def _has_addresses(text: str) -> bool:
    """Whether Numba put addresses of this process's memory into a module."""
    return "@numba.dynamic.globals." in text


def begin(text: partial[str]) -> None:
    """Start on the machine code of final text that will soon be asked for, if no disk has it."""
    with _lock:
        key = _key(text)
        if key not in _begun and not disk_cache.has(key):
            from phix.kernels.cpu import compiler

            _begun[key] = compiler.begun(text(), is_final=True)


def _linked(body: bytes, names: tuple[str, ...]) -> tuple[Any, tuple[int, ...]]:
    """What holds packed objects in memory, and the addresses of functions in them."""
    _bind_routines(body)
    bodies = objects.unpacked(body)
    loaded: objects.Loaded | compiler.Placed | None = objects.loaded(bodies)
    if loaded is None:
        from phix.kernels.cpu import compiler

        loaded = compiler.loaded(bodies)
    found = tuple(loaded.address(name) for name in names)
    if not all(found):
        raise RuntimeError(f"the compiled object lacks one of the functions {names}")
    return loaded, found


def _bind_routines(code: bytes) -> None:
    """Make the routines that an object file names known to compiled code."""
    for name, (text, own) in runtime.ROUTINES.items():
        if name not in _bound and name.encode() in code:
            _bound.add(name)
            (address,) = addresses(text, (own,))
            add_symbol(name, address)


_bound: set[str] = set()


class Held:
    """What a Python function of machine code needs for as long as it lives."""

    __slots__ = ("code", "definition")

    def __init__(self, code: Code) -> None:
        self.code = code
        self.definition = _MethodDefinition(b"phix_program", code.address, _METH_FASTCALL, None)

    def fault(self, status: int, info: int, title: str | None) -> None:
        """Raise what native code reports, which calls this where it could not go on."""
        raise faults.error_of(status, info, title or "")


def python_function(code: Code) -> Callable[..., Any]:
    """The code as a Python function.

    The function points to its definition and to the code until it is freed. Both are held by its
    ``__self__``, which CPython lets go last.
    """
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    held = Held(code)
    function: Callable[..., Any] = new(ctypes.addressof(held.definition), held, None)
    return function


def _provide(calls: tuple[str, ...]) -> None:
    """Make the native functions of phix known that code is about to be linked with."""
    for name in calls:
        if name not in _provided:
            provider = _PROVIDERS.get(name, "blas")
            provider = provider if provider.startswith(".") else f".{provider}"
            module = importlib.import_module(provider, __package__)
            module.provide(name)


def is_provided(name: str) -> bool:
    """Whether compiled code can call a native function of that name."""
    return name in _provided


def add_symbol(name: str, address: int) -> None:
    """Make a native function known to compiled code under ``name``."""
    objects.SYMBOLS[name] = address
    _provided.add(name)
