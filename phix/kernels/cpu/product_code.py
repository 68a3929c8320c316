"""The machine code of products; what makes it is imported where no disk has it."""

from __future__ import annotations

from functools import partial

from phix.core import rewrites
from phix.kernels.cpu import jit, pool, threads

_DTYPES = {f"gemm_{dtype}": dtype for dtype in ("float32", "float64")}


def provide(name: str) -> None:
    """See ``jit._provide``; ``name`` is ``phix_product_<dtype>``."""
    dtype = name.removeprefix("phix_product_")
    jit.add_symbol(name, address(name, dtype, *jit.vector_registers()))


def begin(library: str) -> None:
    """Start on the code behind ``gemm_<dtype>``, beside what the caller goes on with."""
    dtype = _DTYPES.get(library)
    name = f"phix_product_{dtype}"
    if dtype is not None and rewrites.is_on("own_products") and not jit.is_provided(name):
        jit.begin(partial(_text, name, dtype, *jit.vector_registers()))


def address(name: str, dtype: str, vector_bytes: int, registers: int) -> int:
    """The machine code of a product, under a name that no other has."""
    pool.bind()
    threads.bind()
    text = partial(_text, name, dtype, vector_bytes, registers)
    (found,) = jit.addresses(text, (name,), is_final=True)
    return found


def _text(name: str, dtype: str, vector_bytes: int, registers: int) -> str:
    from phix.kernels.cpu import product, tiles

    return product.text(name, dtype, tiles.tile(dtype, vector_bytes, registers))
