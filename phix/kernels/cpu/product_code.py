"""The machine code of products; what makes it is imported where no disk has it."""

from __future__ import annotations

from functools import partial

from phix.kernels.cpu import jit, pool, threads


def provide(name: str) -> None:
    """See ``jit._provide``; ``name`` is ``phix_product_<dtype>``."""
    jit.add_symbol(name, address(name, name.rsplit("_", 1)[1], *jit.vector_registers()))


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
