"""Routines of the BLAS and LAPACK that SciPy brings, for compiled code.

A routine takes its arguments by address, characters and sizes too. Compiled code calls a wrapper
``<routine>_<dtype>``, which takes int64 and pointers, and puts what is left into memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
from collections.abc import Callable, Iterator
from functools import cache
from importlib import machinery
from importlib.util import find_spec
from typing import Any

from phix.core.records import dataclass
from phix.kernels.cpu import faults

_LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
_SCALARS = {"float32": "float", "float64": "double", "complex64": "[2 x float]",
            "complex128": "[2 x double]"}  # fmt: skip
_ONES = {"float32": "1.0", "float64": "1.0", "complex64": "[float 1.0, float 0.0]",
         "complex128": "[double 1.0, double 0.0]"}  # fmt: skip


@dataclass(frozen=True)
class Routine:
    """A routine: the module of SciPy it is in, what the wrapper takes, what it hands on.

    ``sizes`` and ``pointers`` name the wrapper's arguments, in this order. Each word of
    ``arguments`` is one argument of the routine: a pointer's name; ``size:n``; ``lead:n``, n as
    the length of a column, at least 1; ``char:R``; ``flag:f:TN``, the character T where f is not
    0, else N; ``one``; ``kept:f``, 1 where f is not 0, else 0; ``code:j``, the character j. What
    ends in ``?`` is for complex numbers alone.
    """

    module: str
    sizes: str
    pointers: str
    arguments: str


# The rows of a C-ordered matrix are the columns of a Fortran one, so that what a routine sees is
# the transpose: out.T = op(y).T op(x).T, a triangle is the other one and multiplies from the right.
# gemm: out = op(x) op(y), or that added to out; lx, ly and lo are the elements from row to row.
_ROUTINES = {
    "gemm": Routine(
        "cython_blas", "tx ty add m n k lx ly lo", "x y out",
        "flag:ty:TN flag:tx:TN size:n size:m size:k one y lead:ly x lead:lx kept:add out lead:lo",
    ),
    "trsm": Routine(
        "cython_blas", "upper transpose unit n k", "a out",
        "char:R flag:upper:LU flag:transpose:TN flag:unit:UN size:k size:n one a lead:n out lead:k",
    ),
    "potrf": Routine("cython_lapack", "upper n", "a info", "flag:upper:LU size:n a lead:n info"),
    "getrf": Routine("cython_lapack", "m n", "a pivots info", "size:m size:n a lead:m pivots info"),
    "geqrf": Routine(
        "cython_lapack", "m n room", "a tau work info",
        "size:m size:n a lead:m tau work size:room info",
    ),
    "orgqr": Routine(
        "cython_lapack", "m n k room", "a tau work info",
        "size:m size:n size:k a lead:m tau work size:room info",
    ),
    "ungqr": Routine(
        "cython_lapack", "m n k room", "a tau work info",
        "size:m size:n size:k a lead:m tau work size:room info",
    ),
    # of all m columns of u, or as many as vh has rows
    "gesdd": Routine(
        "cython_lapack", "job m n ldv room", "a s u vh work iwork rwork? info",
        "code:job size:m size:n a lead:m s u lead:m vh lead:ldv work size:room rwork? iwork info",
    ),
    "syevd": Routine(
        "cython_lapack", "vectors upper n room iroom", "a w work iwork info",
        "flag:vectors:VN flag:upper:UL size:n a lead:n w work size:room iwork size:iroom info",
    ),
    "heevd": Routine(
        "cython_lapack", "vectors upper n room iroom rroom", "a w work iwork rwork info",
        "flag:vectors:VN flag:upper:UL size:n a lead:n w work size:room rwork size:rroom "
        "iwork size:iroom info",
    ),
}  # fmt: skip


def wrapper(name: str) -> tuple[str, str]:
    """The LLVM text of the wrapper ``<routine>_<dtype>``, and the declaration it needs."""
    base, dtype = name.rsplit("_", 1)
    routine, symbol = _ROUTINES[base], f"{_LETTERS[dtype]}{base}"
    return _text(name, routine, symbol, dtype), "declare i64 @llvm.smax.i64(i64, i64)"


def _text(name: str, routine: Routine, symbol: str, dtype: str) -> str:
    pointers = _words(routine.pointers, dtype)
    taken = [f"i64 %{s}" for s in routine.sizes.split()]
    taken += [f"ptr %{p}" for p in pointers]
    taken += ["ptr %fault"] if name in faults.ROUTINES else []
    lines: list[str] = []
    given = []
    for number, word in enumerate(_words(routine.arguments, dtype)):
        kind, *rest = word.split(":")
        if not rest and kind in pointers:
            given.append(f"ptr %{kind}")
            continue
        lines += [f"  {line}" for line in _STORED[kind](f"%a{number}", dtype, *rest)]
        given.append(f"ptr %a{number}")
    types = ", ".join(["ptr"] * len(given))
    return "\n".join(
        [
            f"declare void @phix_{symbol}({types})",
            f"define internal void @{name}({', '.join(taken)}) noinline nounwind {{",
            *lines,
            f"  call void @phix_{symbol}({', '.join(given)})",
            "  ret void\n}",
        ]
    )


def _words(text: str, dtype: str) -> list[str]:
    """The words of a text, without those for complex numbers where these are none."""
    is_complex = dtype.startswith("complex")
    return [w.rstrip("?") for w in text.split() if is_complex or not w.endswith("?")]


# -- arguments in memory: LLVM lines that put one at address %a<number> -------------------------
Lines = Iterator[str]


def _char(at: str, dtype: str, char: str) -> Lines:
    yield f"{at} = alloca i8"
    yield f"store i8 {ord(char)}, ptr {at}"


def _flag(at: str, dtype: str, flag: str, chars: str) -> Lines:
    yield f"{at} = alloca i8"
    yield f"{at}.set = icmp ne i64 %{flag}, 0"
    yield f"{at}.char = select i1 {at}.set, i8 {ord(chars[0])}, i8 {ord(chars[1])}"
    yield f"store i8 {at}.char, ptr {at}"


def _size(at: str, dtype: str, size: str) -> Lines:
    yield f"{at} = alloca i32"
    yield f"{at}.int = trunc i64 %{size} to i32"
    yield f"store i32 {at}.int, ptr {at}"


def _lead(at: str, dtype: str, size: str) -> Lines:
    yield f"{at}.least = call i64 @llvm.smax.i64(i64 %{size}, i64 1)"
    yield from _size(at, dtype, f"{at[1:]}.least")


def _code(at: str, dtype: str, value: str) -> Lines:
    yield f"{at} = alloca i8"
    yield f"{at}.char = trunc i64 %{value} to i8"
    yield f"store i8 {at}.char, ptr {at}"


def _one(at: str, dtype: str) -> Lines:
    yield f"{at} = alloca {_SCALARS[dtype]}"
    yield f"store {_SCALARS[dtype]} {_ONES[dtype]}, ptr {at}"


def _kept(at: str, dtype: str, flag: str) -> Lines:
    kind = _SCALARS[dtype]
    yield f"{at} = alloca {kind}"
    yield f"{at}.set = icmp ne i64 %{flag}, 0"
    yield f"{at}.value = select i1 {at}.set, {kind} {_ONES[dtype]}, {kind} zeroinitializer"
    yield f"store {kind} {at}.value, ptr {at}"


_STORED: dict[str, Callable[..., Lines]] = {
    "char": _char, "flag": _flag, "size": _size, "lead": _lead, "one": _one, "kept": _kept,
    "code": _code,
}  # fmt: skip


# -- addresses -----------------------------------------------------------------------------------
def provide(name: str) -> None:
    """Make a routine known to compiled code, by its name there: ``phix_dgemm`` is BLAS's dgemm."""
    from phix.kernels.cpu import jit

    symbol = name.removeprefix("phix_")
    jit.add_symbol(name, _address(_ROUTINES[symbol[1:]].module, symbol))


def _address(module: str, symbol: str) -> int:
    """Where a routine is: as ``scipy.linalg.<module>`` is linked, else as that module says.

    The library behind the module is asked first, since importing SciPy takes longer than finding
    and loading a compiled program. Its names are SciPy's own (wheels) or Fortran's (elsewhere).
    """
    library = _library(module)
    for name in (f"scipy_{symbol}_", f"{symbol}_"):
        routine = getattr(library, name, None)
        if routine is not None:
            return ctypes.cast(routine, ctypes.c_void_p).value or 0
    capsules = importlib.import_module(f"scipy.linalg.{module}").__pyx_capi__
    return _capsule_pointer(capsules[symbol])


@cache
def _library(module: str) -> ctypes.CDLL | None:
    """The shared library of an extension module, with those it is linked to; None: not found."""
    package = find_spec("scipy")
    folders = package.submodule_search_locations if package else None
    loaders = (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES)
    for folder in folders or ():
        found = machinery.FileFinder(os.path.join(folder, "linalg"), loaders).find_spec(module)
        if found is not None and found.origin is not None:
            with contextlib.suppress(OSError):  # what it is linked to is found by an import alone
                return ctypes.CDLL(found.origin)
    return None


def _capsule_pointer(capsule: Any) -> int:
    """The address in a PyCapsule."""
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(pointer(capsule, name(capsule)))
