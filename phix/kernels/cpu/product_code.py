"""The machine code of products; what makes it is imported where no disk has it."""

from __future__ import annotations

import ctypes
import math
import sys
from functools import cache, partial

import numpy as np

from phix.core import dtypes as dt
from phix.core import rewrites
from phix.kernels.cpu import jit, pool, threads
from phix.kernels.cpu.level import level

# Products of fewer multiplications, of no more terms and with a right operand of no more bytes,
# which a second cache holds beside much else, are written out for their sizes.
_MOST_DIRECT, _MOST_TERMS, _MOST_BYTES = 300_000, 512, 48 << 10
_DTYPES = {f"gemm_{dtype}": dtype for dtype in ("float32", "float64")}
# Products of bfloat16 of fewer multiplications, rows or columns are made in float32.
_LEAST_NARROW, _THIN = 1 << 18, 4
NARROW = "gemm_bfloat16"
# What a CPU has where it makes tiles of sums of them.
TILES = frozenset({"amx-tile", "amx-bf16", "avx512f", "avx512bw", "avx512bf16"})


def provide(name: str) -> None:
    """See ``jit._provide``; ``name`` is ``phix_product_<dtype>``."""
    dtype = name.removeprefix("phix_product_")
    if dtype == "bfloat16":
        jit.add_symbol(name, address_of_narrow(name, may_use_tiles()))
    else:
        jit.add_symbol(name, address(name, dtype, *jit.vector_registers()))


def is_direct(library: str, sizes: tuple[int | None, ...]) -> bool:
    """Whether a product of so many rows, columns and terms is made by ``direct_products``."""
    rows, columns, inner = (size or 0 for size in sizes)
    is_on = rewrites.is_on("own_products") and rewrites.is_on("direct_products")
    bytes_of_y = inner * columns * (8 if library.endswith("64") else 4)
    fits = bytes_of_y <= _MOST_BYTES and inner <= _MOST_TERMS
    return library in _DTYPES and is_on and fits and 0 < rows * columns * inner < _MOST_DIRECT


def is_narrow(dtype: np.dtype, sizes: tuple[int | None, ...]) -> bool:
    """Whether a product of so many rows, columns and terms, where they are known, is best made of
    numbers of that dtype as they are, with sums in float32."""
    if dtype != dt.bfloat16 or not rewrites.is_on("narrow_products"):
        return False
    work = math.prod(size for size in sizes if size is not None)
    is_large = None in sizes or work >= _LEAST_NARROW
    is_thin = any(size is not None and size < _THIN for size in sizes[:2])
    is_on = is_large and not is_thin and rewrites.is_on("own_products")
    return is_on and may_use_tiles()


def begin(library: str, sizes: tuple[int | None, ...]) -> None:
    """Start on the code behind ``gemm_<dtype>``, beside what the caller goes on with."""
    dtype = None if is_direct(library, sizes) else _DTYPES.get(library)
    name = f"phix_product_{library.removeprefix('gemm_')}"
    if jit.is_provided(name) or not rewrites.is_on("own_products"):
        return
    if library == NARROW:
        jit.begin(partial(_text_of_narrow, name, may_use_tiles()))
    elif dtype is not None:
        jit.begin(partial(_text, name, dtype, *jit.vector_registers()))


def address(name: str, dtype: str, vector_bytes: int, registers: int) -> int:
    """The machine code of a product, under a name that no other has."""
    return loaded(name, partial(_text, name, dtype, vector_bytes, registers))


def loaded(name: str, text: partial[str]) -> int:
    """The address of the function of a module that takes memory and shares its work."""
    pool.bind()
    threads.bind()
    (found,) = jit.addresses(text, (name,), is_final=True)
    return found


def address_of_narrow(name: str, by_tiles: bool) -> int:
    """The machine code of a product of bfloat16, see ``narrow_products``."""
    return loaded(name, partial(_text_of_narrow, name, by_tiles))


@cache
def may_use_tiles() -> bool:
    """Whether this process may use the CPU's tiles: Linux wants to be asked, once a process."""
    if not level().has >= TILES or not sys.platform.startswith("linux"):
        return False
    arch_prctl, ask_for_permission, data_of_tiles = 158, 0x1023, 18
    return not ctypes.CDLL(None).syscall(arch_prctl, ask_for_permission, data_of_tiles)


def _text_of_narrow(name: str, by_tiles: bool) -> str:
    from phix.kernels.cpu import narrow_products

    return narrow_products.text(name, by_tiles)


def _text(name: str, dtype: str, vector_bytes: int, registers: int) -> str:
    from phix.kernels.cpu import product, tiles

    return product.text(name, dtype, tiles.tile(dtype, vector_bytes, registers))
