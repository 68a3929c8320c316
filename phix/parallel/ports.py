"""The ports of groups: what compiled code does steps between ranks by (``core/rank_ports.py``)."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from phix.core.rank_ports import ADDED, BEGUN, BYTES, FUNCTIONS, PLACES, WORDS, Port
from phix.parallel.failures import WHEREABOUTS

_WORD = (1 << 64) - 1  # of numbers that may have a sign
_HANDLES = {4: "i32", 8: "i64"}  # sizes of handles, and their types in LLVM


def port_of(comm: Any, second: Any, index: int, busy: np.ndarray) -> Port | None:
    """The port to a communicator of mpi4py and the second one of its group, in which this rank has
    that number; ``busy`` are the words about threads.

    None where something about this MPI is not as native code takes it, or threads must come to it
    one by one: then steps between ranks are steps of the host.
    """
    from mpi4py import MPI

    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:  # other threads may be in a call of mpi4py's
        return None
    try:
        kinds = (MPI.Comm, MPI.Datatype, MPI.Op, MPI.Request)
        (size,) = {int(MPI._sizeof(kind)) for kind in kinds}
        words = [number for _, number in sorted(_numbers(MPI, (comm, second), index, busy))]
        table = np.array([w & _WORD for w in words], np.uint64).view(np.int64)
        if not _is_understood(MPI, comm, _HANDLES[size]):
            return None
        return Port(table, _HANDLES[size], busy)
    except (AttributeError, LookupError, OSError, OverflowError, ValueError):
        return None


def _numbers(MPI: Any, comms: Any, index: int, busy: np.ndarray) -> Iterator[tuple[int, int]]:
    """The words of a table, each behind its place."""
    library = ctypes.CDLL(MPI.__file__)
    own = {"index": index, "whereabouts": WHEREABOUTS.address(), "busy": busy.ctypes.data,
           "in_place": int(MPI.IN_PLACE)}  # fmt: skip
    handles = {word: getattr(MPI, name) for word, name in ADDED.items()}
    handles |= {"communicator": comms[0], "second": comms[1], "sum": MPI.SUM, BYTES: MPI.BYTE}
    for word in WORDS:
        if word in handles:
            number = int(MPI._handleof(handles[word]))
        elif word in FUNCTIONS:
            number = _address(library, word)
        else:
            number = own[word]
        yield PLACES[word], number


@lru_cache(maxsize=1)
def begins_permutes() -> bool:
    """Whether MPI has what a permutation is begun by: it came with version 4, in some before."""
    from mpi4py import MPI

    return _address(ctypes.CDLL(MPI.__file__), BEGUN["MPI_Sendrecv"]) != 0


def _address(library: Any, name: str) -> int:
    """Where a function is; 0 where MPI is too old to have it, and no group begins by it."""
    try:
        function = getattr(library, name)
    except AttributeError:
        if name == BEGUN["MPI_Sendrecv"]:
            return 0
        raise
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _is_understood(MPI: Any, comm: Any, handle: str) -> bool:
    """Whether MPI takes the handle of the communicator as native code passes it."""
    ask = ctypes.CDLL(MPI.__file__).MPI_Comm_rank
    kind = ctypes.c_int32 if handle == "i32" else ctypes.c_void_p
    ask.restype, ask.argtypes = ctypes.c_int, [kind, ctypes.POINTER(ctypes.c_int)]
    found = ctypes.c_int(-1)
    number = int(MPI._handleof(comm))
    status = ask(kind(number), ctypes.byref(found))  # which leaves bits out that are too many
    return status == 0 and found.value == comm.Get_rank()
