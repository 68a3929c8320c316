"""A size that is not known yet is an int wherever a tensor is made of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
import phix.numpy as pn

CASES: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "asarray": (lambda x, n: pn.asarray(n), 4),
    "to_tensor": (lambda x, n: phix.to_tensor(n, "float64"), 4.0),
    "array": (lambda x, n: pn.array([n, 2]), [4, 2]),
    "full": (lambda x, n: pn.full((2,), n, dtype="int64"), [4, 4]),
    "log": (lambda x, n: pn.log(n), np.log(4.0)),
    "at": (lambda x, n: x.at[0].set(n).at[pn.asarray([1])].add(n), [4, 6, 3, 4]),
    "cond": (lambda x, n: phix.cond(x[0] > 0, lambda: pn.asarray(n), lambda: pn.asarray(0)), 4),
}


@pytest.mark.parametrize("name", CASES)
def test_sizes(name: str) -> None:
    function, wanted = CASES[name]
    run = phix.jit(lambda x: function(x, x.shape[0]), input_spec=[phix.spec([-1], "int64")])
    found = run(phix.to_tensor(np.arange(1, 5))).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert found.dtype == np.asarray(wanted).dtype or name == "log"
