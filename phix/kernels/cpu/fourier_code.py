"""The machine code of Fourier transforms; what makes it is imported where no disk has it."""

from __future__ import annotations

from functools import partial

from phix.kernels.cpu import jit, product_code


def provide(name: str) -> None:
    """See ``jit._provide``; ``name`` is ``phix_fft_<dtype>``."""
    dtype = name.removeprefix("phix_fft_")
    jit.add_symbol(name, address(name, dtype, *jit.vector_registers()))


def address(name: str, dtype: str, vector_bytes: int, registers: int) -> int:
    """The machine code of transforms, under a name that no other has."""
    return product_code.loaded(name, partial(_text, name, dtype, vector_bytes, registers))


def begin(library: str) -> None:
    """Start on the code behind ``fft_<dtype>``, beside what the caller goes on with."""
    name, dtype = f"phix_{library}", library.removeprefix("fft_")
    if not jit.is_provided(name):
        jit.begin(partial(_text, name, dtype, *jit.vector_registers()))


def _text(name: str, dtype: str, vector_bytes: int, registers: int) -> str:
    from phix.kernels.cpu import fourier

    return fourier.text(name, dtype, vector_bytes, registers)
