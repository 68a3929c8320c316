"""Keys of sorting: unsigned ints in the order of the elements."""

from __future__ import annotations

import numpy as np

from phix.core import dtypes as dt
from phix.kernels.loops import nodes as ir
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr

UINT32, UINT64 = np.dtype(np.uint32), np.dtype(np.uint64)


def key_dtype(dtype: np.dtype) -> np.dtype:
    return UINT64 if ir.scalar_dtype(dtype).itemsize == 8 else UINT32


def sort_key(x: Expr, descending: bool, is_exact: bool) -> Expr:
    """An unsigned int that is ordered as ``x``, NaN the largest; all bits turned if descending.

    An exact one tells -0.0 from 0.0, so that ``x`` can be had back from it.
    """
    if x.dtype.kind == "f":
        key = _float_key(x if is_exact else x + 0.0)
    elif x.dtype.kind == "b":
        key = sc.cast(x, UINT32)
    else:
        wide = dt.int64 if x.dtype.itemsize == 8 else dt.int32
        signed = x.dtype.kind == "i"
        key = sc.cast(sc.cast(x, wide), key_dtype(x.dtype)) if signed else x
        key = sc.cast(key, key_dtype(x.dtype))
        if signed:  # the least one becomes 0
            key = key - sc.cast(sc.const(np.iinfo(x.dtype).min, wide), key.dtype)
    return ~key if descending else key


def _float_key(x: Expr) -> Expr:
    """The bits of a float, turned so that they are ordered as it is."""
    dtype = key_dtype(x.dtype)
    bits = sc.bitcast(x, dtype)
    top = sc.const(1 << (8 * dtype.itemsize - 1), dtype)
    key = sc.select(bits >= top, ~bits, bits | top)
    return sc.select(sc.ne(x, x), ~sc.const(0, dtype), key)


def element_of(key: Expr, dtype: np.dtype, descending: bool) -> Expr:
    """What an exact key was made of."""
    scalar = ir.scalar_dtype(dtype)
    key = ~key if descending else key
    if scalar.kind == "f":
        top = sc.const(1 << (8 * key.dtype.itemsize - 1), key.dtype)
        return sc.bitcast(sc.select(key >= top, key ^ top, ~key), scalar)
    if scalar.kind == "i":
        wide = dt.int64 if key.dtype == UINT64 else dt.int32
        key = key + sc.cast(sc.const(np.iinfo(scalar).min, wide), key.dtype)
        return sc.cast(sc.cast(key, wide), scalar)
    return sc.cast(key, scalar)
