"""The machine code of sorting by vectors; what makes it is imported where no disk has it."""

from __future__ import annotations

from functools import partial

import numpy as np

from phix.core import rewrites
from phix.kernels.cpu import jit
from phix.kernels.cpu.level import level

# What a CPU has that puts the chosen lanes of a vector side by side in one instruction.
_COMPRESSES = frozenset({"avx512f", "avx512bw", "avx512vl"})
# What routines of keys of a dtype are given.
ARGUMENTS = {
    "sort": "i64 %n, ptr %keys, ptr %room, ptr %fault",
    "split": "i64 %n, ptr %keys, ptr %room, ptr %pivots, ptr %ends, ptr %places, ptr %fault",
}
_KEYS = ("uint32", "uint64")
NAMES = {f"{routine}_{dtype}": routine for routine in ARGUMENTS for dtype in _KEYS}


def is_chosen(dtype: np.dtype) -> bool:
    """Whether keys of that dtype are sorted by vectors."""
    is_fast = level().has >= _COMPRESSES
    return is_fast and str(dtype) in _KEYS and rewrites.is_on("vector_sorts")


def wrapper(library: str) -> tuple[str, str] | None:
    """LLVM text that defines one of these routines, and what it declares; None for others."""
    routine = NAMES.get(library)
    if routine is None:
        return None
    from phix.kernels.cpu.fourier_call import forwarded

    return forwarded(library, f"phix_{library}", ARGUMENTS[routine])


def provide(name: str) -> None:
    """See ``jit._provide``; ``name`` is ``phix_sort_<dtype>`` or ``phix_split_<dtype>``."""
    dtype = name.rpartition("_")[2]
    names = names_of(dtype)
    for own, address in zip(names, jit.addresses(_code(dtype), names, is_final=True)):
        jit.add_symbol(own, address)


def begin(library: str) -> None:
    """Start on the code of a routine, beside what the caller goes on with."""
    if not jit.is_provided(f"phix_{library}"):
        jit.begin(_code(library.rpartition("_")[2]))


def names_of(dtype: str) -> tuple[str, str]:
    """What the routines of keys of a dtype are called in machine code."""
    return f"phix_sort_{dtype}", f"phix_split_{dtype}"


def _code(dtype: str) -> partial[str]:
    vector_bytes, _ = jit.vector_registers()
    return partial(_text, names_of(dtype), np.dtype(dtype).itemsize, vector_bytes)


def _text(names: tuple[str, str], size: int, vector_bytes: int) -> str:
    from phix.kernels.cpu import vector_sort

    return vector_sort.text(names, size, vector_bytes)
