"""What NumPy's functions do with tensors: NumPy's names, arguments and defaults, phix's ops.

``np.sin(x)``, ``np.sum(x, axis=0)``, ``np.linalg.norm(x)`` of a tensor come here, by NumPy's
protocols ``__array_ufunc__`` and ``__array_function__``, so they are traced, differentiated and
batched as the ops they are made of. Dtypes are those of phix's operators, but for functions of one
array to floats, which take ints to float64, as NumPy does. ``out=`` and ``where=`` are not offered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phix.array_functions import algebra, arrangement, elementwise, reductions, selection

# By NumPy's function; for methods of ufuncs, such as np.add.reduce, by (ufunc, method).
TABLE: dict[Any, Callable[..., Any]] = {
    **elementwise.FUNCTIONS,
    **reductions.FUNCTIONS,
    **arrangement.FUNCTIONS,
    **algebra.FUNCTIONS,
    **selection.FUNCTIONS,
}
