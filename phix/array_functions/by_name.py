"""The functions of this folder by NumPy's names, and by NumPy's functions of these names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phix.array_functions import (
    algebra,
    arrangement,
    bits,
    editing,
    elementwise,
    grids,
    histograms,
    mapping,
    padding,
    polynomials,
    products,
    quantiles,
    reductions,
    rolling,
    selection,
    sets,
    signals,
    sorting,
    statistics,
    ufunc_methods,
    ufunc_places,
    ufuncs,
)
from phix.array_functions.numpy_arguments import in_floats
from phix.core import dtypes as dt

Function = Callable[..., Any]

# By name in np, np.linalg and np.fft, and by ufunc and method.
NAMES: dict[str, Function] = {
    name: function
    for module in (
        ufuncs, elementwise, bits, reductions, quantiles, statistics, arrangement, padding, editing,
        rolling, sorting, selection, sets, histograms, grids, products, polynomials, signals,
        mapping,
    )
    for name, function in module.NAMES.items()
}  # fmt: skip
LINALG: dict[str, Function] = algebra.LINALG
FFT: dict[str, Function] = algebra.FFT
METHODS: dict[tuple[str, str], Function] = {
    **ufuncs.METHODS, **ufunc_methods.METHODS, **ufunc_places.METHODS,
}  # fmt: skip


def _of_numpy(functions: dict[str, Function], module: Any) -> dict[Any, Function]:
    """The functions by NumPy's of their name, as far as this NumPy has them."""
    return {
        getattr(module, n): in_floats(dt.float64, f)
        for n, f in functions.items()
        if hasattr(module, n)
    }


# By NumPy's function; for methods of ufuncs, such as np.add.reduce, by (ufunc, method).
TABLE: dict[Any, Function] = {
    **_of_numpy(NAMES, np),
    **_of_numpy(LINALG, np.linalg),
    **_of_numpy(FFT, np.fft),
    **{
        (getattr(np, n), m): in_floats(dt.float64, f)
        for (n, m), f in METHODS.items()
        if m != "at"  # of which NumPy drops the result
    },
}
