"""phix.scipy.special beside scipy.special: values, edges, and slopes that are finite at limits."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
import scipy.special

import phix
from phix.core.errors import DTypeError
from phix.scipy import entropies, special

pytestmark = pytest.mark.unoptimised
TWO = ["kl_div", "rel_entr", "xlog1py", "xlogy"]
OTHER = {"polygamma", "gammaincc", *TWO}
X = np.array([-0.75, -0.25, 0.0, 0.2, 0.5, 0.9])
EDGES = np.array([-np.inf, -1.0, 0.0, 0.5, 2.0, np.inf, np.nan])


@pytest.mark.parametrize("name", sorted(set(special.__all__) - OTHER))
def test_functions_of_one_argument_are_scipys(name: str) -> None:
    x = X[X > 0] if name in ("digamma", "psi", "gammaln") else X
    found = getattr(special, name)(x)
    assert found.dtype == "float64"
    np.testing.assert_allclose(found, getattr(scipy.special, name)(x), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_are_scipys_at_edges_too(name: str) -> None:
    a, b = (v.ravel() for v in np.meshgrid(EDGES, EDGES))
    with np.errstate(all="ignore"):
        expected = getattr(scipy.special, name)(a, b)
    np.testing.assert_allclose(getattr(special, name)(a, b), expected, rtol=1e-13)
    slopes = phix.vmap(phix.grad(getattr(special, name), argnums=1))(
        np.zeros(2), np.array([0.5, 2.0])
    )
    assert np.isfinite(slopes.numpy()).all()


def test_the_others() -> None:
    x = np.array([0.3, 1.5, 4.0])
    for n in (0, 1, 3):
        np.testing.assert_allclose(
            special.polygamma(n, x), scipy.special.polygamma(n, x), rtol=1e-12
        )
    np.testing.assert_allclose(special.gammaincc(2.5, x), scipy.special.gammaincc(2.5, x))
    assert special.xlogy(0.1, x).tolist() == (0.1 * np.log(x)).tolist()  # 0.1 is no float32
    slope = phix.grad(special.xlogy)(phix.to_tensor(0.0), phix.to_tensor(3.0))
    assert abs(slope.item() - np.log(3.0)) < 1e-6
    slope = phix.grad(special.xlog1py)(phix.to_tensor(0.0), phix.to_tensor(3.0))
    assert abs(slope.item() - np.log(4.0)) < 1e-6
    assert special.erf([1, 2]).dtype == "float32"
    with pytest.raises(DTypeError, match=r"xlogy.*real"):
        special.xlogy(1j * X, X)


def test_the_examples_run() -> None:
    for module in (entropies, special):
        found = doctest.testmod(module)
        assert found.attempted and not found.failed
