"""NumPy's names and meaning on phix's tensors, differentiable, traceable and compiled.

``import phix.numpy as np`` stands where ``import numpy as np`` stood: the functions have NumPy's
names, arguments and defaults, and the same implementation answers ``numpy.sin(tensor)``. They are
made of ops, so they have derivatives of any order, run under ``jit``, ``vmap`` and ``grad``, and
take unknown dims. The module is a namespace of the array API standard, version 2024.12, with its
extensions ``linalg`` and ``fft``; ``x.__array_namespace__()`` of a tensor gives it.

What differs from NumPy:

- Tensors are immutable: ``out=`` is refused, and ``x[i] = y`` is ``x = x.at[i].set(y)``.
- Python's floats, and ints where floats are wanted, become phix's default float, float32, as they
  do in phix and in JAX. Ints are NumPy's: int64, sums of unsigned ones uint64.
- Dtypes meet as in phix (docs/dtypes.md): an int beside a float takes the float's dtype, and
  Python's numbers are weak.
- Sizes that data tell, of ``nonzero`` and ``unique``, are unknown dims in compiled programs;
  ``size=`` and ``fill_value=``, which are JAX's, give results of one size, under ``vmap`` too.
- Results are tensors, of no axes too, where NumPy gives scalars.

The constants are ``pi``, ``e``, ``inf``, ``nan``, ``euler_gamma`` and ``newaxis``; ``mgrid``,
``ogrid``, ``r_``, ``c_``, ``s_`` and ``index_exp`` are indexed to make arrays and indices.
"""

from typing import Any as _Any

from phix.array_functions import by_name as _functions
from phix.array_functions import grids as _grids
from phix.array_functions import mapping as _mapping
from phix.array_functions import signals as _signals
from phix.array_functions.mapping import vectorize
from phix.array_functions.ufuncs import ALIASES as _ALIASES
from phix.core.faces import face as _face
from phix.core.tensor import Tensor as ndarray
from phix.numpy import creation as _creation
from phix.numpy import dtypes as _dtypes
from phix.numpy import fft as fft
from phix.numpy import index_tricks as _index_tricks
from phix.numpy import linalg as linalg
from phix.numpy.dtypes import dtype, finfo, iinfo
from phix.numpy.namespace_info import NamespaceInfo as __array_namespace_info__  # noqa: F401
from phix.numpy.offered import offered as _offered
from phix.numpy.refusals import unknown as _unknown
from phix.numpy.text import PRINTING as _PRINTING

__array_api_version__ = "2024.12"
ARRAY_API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")
_RUN_FUNCTIONS = {
    "apply_along_axis",
    "apply_over_axes",
    "piecewise",
    "fromfunction",
    "mask_indices",
}


def _public() -> dict[str, _Any]:
    """All that is not written down above, by name."""
    made = _grids.MADE | _signals.MADE | _mapping.MADE | _creation.FUNCTIONS | _dtypes.FUNCTIONS
    made |= _PRINTING
    functions = {n: f for n, f in (_functions.NAMES | made).items()
                 if n not in ("trapz", "vectorize")}  # fmt: skip
    public = {n: _offered(n, f, n in _RUN_FUNCTIONS) for n, f in functions.items()}
    for (ufunc, method), function in _functions.METHODS.items():
        found = _offered(f"{ufunc}.{method}", function)
        for name in (ufunc, *(n for n, own in _ALIASES.items() if own == ufunc)):
            setattr(public[name], method, found)
    data = _dtypes.SCALARS | _dtypes.ABSTRACT | _dtypes.CONSTANTS | _index_tricks.OBJECTS
    return public | data


globals().update(_public())
__all__ = [
    *_public(), "dtype", "fft", "finfo", "iinfo", "linalg", "ndarray", "vectorize",
]  # fmt: skip
__dir__ = _face(__all__)


def __getattr__(name: str) -> _Any:
    raise _unknown("phix.numpy", name, __all__)
