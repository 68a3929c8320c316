"""The scalar bodies of the pointwise primitives: importing this module registers them all."""

from __future__ import annotations

from phix.kernels.scalar import (
    arithmetic,
    bessel,
    complex_inverse,
    complex_math,
    error_function,
    exponential,
    log_gamma,
    power,
    special,
    trigonometric,
)
from phix.kernels.scalar.random_bits import threefry2x32
from phix.kernels.scalar.registry import body, get, is_native, names

__all__ = [
    "arithmetic",
    "bessel",
    "body",
    "complex_inverse",
    "complex_math",
    "error_function",
    "exponential",
    "get",
    "is_native",
    "log_gamma",
    "names",
    "power",
    "special",
    "threefry2x32",
    "trigonometric",
]
