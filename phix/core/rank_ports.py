"""What native code does steps between ranks by: functions of MPI and what they take, as numbers.

A group of ranks whose steps native code may do has a :class:`Port`. Its table belongs to this
process: programs are passed it as a constant, so no address is ever part of their code.
"""

from __future__ import annotations

import numpy as np

from phix.core.errors import CollectiveError
from phix.core.records import dataclass

# Dtypes, by their letters, that MPI adds as NumPy does, floats, complex numbers and ints; and its
# names for them. All else goes as bytes.
ADDED = {
    "f": "FLOAT", "d": "DOUBLE", "F": "C_FLOAT_COMPLEX", "D": "C_DOUBLE_COMPLEX",
    "b": "SIGNED_CHAR", "B": "UNSIGNED_CHAR", "h": "SHORT", "H": "UNSIGNED_SHORT",
    "i": "INT", "I": "UNSIGNED", "l": "LONG", "L": "UNSIGNED_LONG",
    "q": "LONG_LONG", "Q": "UNSIGNED_LONG_LONG",
}  # fmt: skip
BYTES = "bytes"
WHOLE = ("MPI_Allreduce", "MPI_Allgather", "MPI_Alltoall", "MPI_Sendrecv")
BEGUN = {name: f"MPI_I{name.removeprefix('MPI_').lower()}" for name in WHOLE}
FUNCTIONS = (*WHOLE, *BEGUN.values(), "MPI_Wait")
# What stands in a table, a word each: the communicator, a second one for what comes behind the
# first call of a step that was begun, the number of this rank in both, the memory in which it says
# what it does (see ``phix/parallel/failures.py``), that of the words about threads, MPI_SUM,
# MPI_IN_PLACE, functions (0: this MPI has none), dtypes.
WORDS = (
    "communicator", "second", "index", "whereabouts", "busy", "sum", "in_place", *FUNCTIONS, BYTES,
    *ADDED,
)  # fmt: skip
PLACES = {word: place for place, word in enumerate(WORDS)}
# MPI counts in 32 bits.
MOST = (1 << 31) - 1
MOST_TEXT = 1022  # bytes of what a rank says it does
CROWDED = -1  # in the place of an error code of MPI, none of which is negative: another is there


@dataclass(frozen=True, eq=False)
class Port:
    """``table`` has the WORDS, in int64; ``handle`` is the type of MPI's handles in LLVM: i32
    where they are numbers, i64 where they are addresses; ``busy`` is memory that it tells of: the
    thread that is in a step of the group, or has begun some, 0 where none is; and how many."""

    table: np.ndarray
    handle: str
    busy: np.ndarray


def refused(code: int, what: str) -> CollectiveError:
    """The error for what MPI says to a step, which is described: ``psum over 'data' at ...``."""
    if code == CROWDED:
        return CollectiveError(
            f"{what}: another thread of this process is in a collective over the same axis, and "
            "which of them meets which thread of another process is not known; give each thread a "
            "mesh of its own"
        )
    from mpi4py import MPI

    cause = MPI.Exception(code)
    error = CollectiveError(f"{what}: MPI refuses it: {cause.Get_error_string()}")
    error.__cause__ = cause
    return error
