"""examples/inside_numba.py: the loops inside Numba find what the same loops in Python find."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
# The sizes of quick runs, and what is found, by other means, to what precision.
CASES: dict[str, tuple[dict[str, int], Any, float]] = {
    "descent": ({"steps": 300}, None, 0.0),
    "newton": ({"steps": 30}, np.ones(6), 1e-12),
    "hamiltonian": ({"draws": 400}, [1.0, -2.0], 0.3),
    # E. Hairer, G. Wanner, Solving Ordinary Differential Equations II: y(40); Euler's error is h's
    "stiff_equation": ({"steps": 500}, [0.7158271, 9.1855e-6, 0.2841637], 1e-3),
    "quadrature": ({"times": 1}, np.exp(-1) * np.sin(8), 1e-12),
}


@pytest.mark.parametrize("name", CASES)
def test_inside_numba(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    sizes, want, within = CASES[name]
    inside, outside = getattr(__import__("inside_numba"), name)(**sizes)
    found = inside()
    np.testing.assert_allclose(found, outside(), rtol=1e-9)
    if want is not None:
        np.testing.assert_allclose(found, want, rtol=0, atol=within)
