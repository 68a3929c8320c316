"""``solve_triangular``, under SciPy's name."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.autograd.dispatch import entered, evaluated
from phix.core.errors import ArgumentError

_TRANS = {0: False, "N": False, 1: True, "T": True}


@evaluated
def solve_triangular(
    a: Any, b: Any, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False
) -> Any:
    """x with a x = b, or for ``trans`` 1 or "T" with a's transpose; of a, [n, n], the triangle.

    >>> import phix.autograd.numpy as np
    >>> solve_triangular(np.eye(2) * 2.0, np.ones(2)).tolist()
    [0.5, 0.5]
    """
    if trans not in _TRANS:
        raise ArgumentError(f"solve_triangular: trans must be 0, 1, 'N' or 'T', found {trans!r}")
    matrix, right = entered(a), entered(b)
    is_vector = right.ndim == matrix.ndim - 1
    right = ops.unsqueeze(right, [-1]) if is_vector else right
    found = ops.triangular_solve(matrix, right, not lower, _TRANS[trans], unit_diagonal)
    return ops.squeeze(found, [-1]) if is_vector else found


__all__ = ["solve_triangular"]
