"""The machine code of products; what makes it is imported where no disk has it."""

from __future__ import annotations

from functools import partial

from phix.core import rewrites
from phix.kernels.cpu import jit, pool, threads

# Products of fewer multiplications, of no more terms and with a right operand of no more bytes,
# which a second cache holds beside much else, are written out for their sizes.
_MOST_DIRECT, _MOST_TERMS, _MOST_BYTES = 300_000, 512, 48 << 10
_DTYPES = {f"gemm_{dtype}": dtype for dtype in ("float32", "float64")}


def provide(name: str) -> None:
    """See ``jit._provide``; ``name`` is ``phix_product_<dtype>``."""
    dtype = name.removeprefix("phix_product_")
    jit.add_symbol(name, address(name, dtype, *jit.vector_registers()))


def is_direct(library: str, sizes: tuple[int | None, ...]) -> bool:
    """Whether a product of so many rows, columns and terms is made by ``direct_products``."""
    rows, columns, inner = (size or 0 for size in sizes)
    is_on = rewrites.is_on("own_products") and rewrites.is_on("direct_products")
    bytes_of_y = inner * columns * (8 if library.endswith("64") else 4)
    fits = bytes_of_y <= _MOST_BYTES and inner <= _MOST_TERMS
    return library in _DTYPES and is_on and fits and 0 < rows * columns * inner < _MOST_DIRECT


def begin(library: str, sizes: tuple[int | None, ...]) -> None:
    """Start on the code behind ``gemm_<dtype>``, beside what the caller goes on with."""
    dtype = None if is_direct(library, sizes) else _DTYPES.get(library)
    name = f"phix_product_{dtype}"
    if dtype is not None and rewrites.is_on("own_products") and not jit.is_provided(name):
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


def _text(name: str, dtype: str, vector_bytes: int, registers: int) -> str:
    from phix.kernels.cpu import product, tiles

    return product.text(name, dtype, tiles.tile(dtype, vector_bytes, registers))
