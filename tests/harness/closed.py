"""How functions are compared with closed forms, and their derivatives with differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phix.testing import derivatives as differences


def close(found: Any, wanted: Any, tolerance: float = 1e-12) -> None:
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=tolerance, atol=tolerance)


def check_gradient(fn: Callable[..., Any], *point: np.ndarray) -> None:
    """Forward and reverse mode to the second order, against finite differences."""

    def outputs(*tensors: Any) -> tuple[Any, ...]:
        out = fn(*tensors)
        return out if isinstance(out, tuple) else (out,)

    arrays = list(point)
    rng = np.random.default_rng(1)
    differences.check_pullback(outputs, arrays, rng, 1e-6)
    differences.check_tangent(outputs, arrays, rng, 1e-6)
    differences.check_higher(outputs, arrays, rng, 1e-5, 2)
