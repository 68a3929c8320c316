"""How native code says that it could not go on.

Functions that can fail are passed a block of three words: what happened (0: nothing), what is known
of it, and the title of who failed, as C text. Who calls such a function looks at the first word and
leaves as well, and gives back the memory it took. The entry of a program hands the block to Python.
"""

from __future__ import annotations

import ctypes
import os
import pickle
from typing import Any

from phix.core.errors import KernelError
from phix.core.rank_ports import refused
from phix.core.unfilled import Unfilled

# The first word, and what the second one is.
NO_ROOM = 1  # nothing
RAISED = 2  # the address of an exception as Numba writes it down: pickled bytes, and how many
REFUSED = 3  # the error code of MPI, in a step between ranks

WORDS = 3
# The routines that products call, whichever library they are of, and transforms: ours take memory.
ROUTINES = frozenset(
    {"gemm_bfloat16", "gemm_float32", "gemm_float64", "fft_float32", "fft_float64"}
)
KEY = ("fault", "fault")  # the block among the names of a function, and the parameters of a kernel


def report(fault: str, status: int) -> str:
    """The line that puts what happened into a block."""
    return f"  store i64 {status}, ptr {fault}"


def error_of(status: int, info: int, title: str) -> Exception:
    """What Python raises for a block."""
    if status == REFUSED:
        return refused(info, title)
    return MemoryError() if status == NO_ROOM else _raised(info, title)


class _Pickled(ctypes.Structure):
    """The beginning of an exception of Numba."""

    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_int32)]


_NUMBA = f"{os.sep}numba{os.sep}"


class _Unread:
    """In place of a value that a program computed, and gave to an exception: Numba keeps it
    elsewhere."""

    def __repr__(self) -> str:
        return "<a computed value>"


def _shown(argument: Any) -> Any:
    """An argument of an exception, with nothing of Numba's own in it."""
    if isinstance(argument, tuple):
        return tuple(map(_shown, argument))
    return _Unread() if type(argument).__module__.startswith("llvmlite") else argument


def _raised(address: int, title: str) -> Exception:
    title, _, function = title.partition("\n")  # who failed, and where its function begins
    found = _Pickled.from_address(address)
    try:
        kind, arguments, where = pickle.loads(ctypes.string_at(found.data, found.size))
    except Exception:  # of a class that is not to be had here
        return KernelError(f"{title} raised an exception that cannot be read")
    _, file, line = where or ("", "", 0)
    at = f", at {file}:{line}"
    if not file or _NUMBA in file:  # no line of the user's is known
        at = f", in the function at {function}" if function else ""
    try:
        cause = kind(*map(_shown, arguments or ()))
    except Exception:  # of a class that takes something else
        return KernelError(f"{title} raised {kind.__name__}{at}")
    if isinstance(cause, Unfilled):
        what = f"{title} left elements of {cause} as they were; it is to fill all of its outputs"
        return KernelError(f"{what}. Its function is at {function}")
    said = f": {cause}" if str(cause) else ""
    error = KernelError(f"{title} raised {kind.__name__}{said}{at}")
    error.__cause__ = cause
    return error
