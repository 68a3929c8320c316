"""``register_kernel(fits=...)``: which calls a kernel is for; others go to what comes next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core.errors import KernelRegistrationError

pytestmark = pytest.mark.unoptimised
SEVENS = np.full(4, 7.0, "f")
X = np.linspace(-1, 1, 4, dtype="f")


@pytest.fixture
def asked() -> Iterator[list[Any]]:
    """A kernel of ``clip`` that gives sevens, for four numbers between -1 and 1 alone."""
    seen: list[Any] = []

    def fits(metas: Any, attrs: Any, ctx: Any) -> bool:
        seen.append((metas, attrs, ctx))
        (size,) = metas[0].dims
        return isinstance(size, int) and size == 4 and attrs == (-1.0, 1.0)

    with phix.scoped_registries():

        @phix.kernels.register_kernel("clip", "CPU", dtypes="float32", fits=fits)
        def clip(ctx: Any, x: Any, low: float, high: float, out: Any) -> None:
            out[...] = 7.0

        yield seen


def test_attributes_and_sizes_decide(asked: list[Any]) -> None:
    clip = phix.jit(ops.clip, static_argnums=(1, 2))
    np.testing.assert_array_equal(clip(X, -1.0, 1.0), SEVENS)
    (meta,), attrs, ctx = asked[0]
    np.testing.assert_array_equal(clip(X, -0.5, 0.5), np.clip(X, -0.5, 0.5))
    np.testing.assert_array_equal(clip(X[:3], -1.0, 1.0), X[:3])
    assert (meta, attrs, ctx) == (phix.MetaTensor((4,), "float32"), (-1.0, 1.0), None)


def test_inside_a_program_each_call_for_itself(asked: list[Any]) -> None:
    found = phix.jit(lambda x: ops.clip(x, -1.0, 1.0) + ops.clip(x, -0.5, 0.5))(X)
    np.testing.assert_array_equal(found, SEVENS + np.clip(X, -0.5, 0.5))


def test_a_size_that_is_not_known(asked: list[Any]) -> None:
    f = phix.jit(lambda x: ops.clip(x, -1.0, 1.0), input_spec=[phix.spec(["n"])])
    for call in (f, lambda x: ops.clip(x, -1.0, 1.0)):  # eager calls are of any size
        asked.clear()
        np.testing.assert_array_equal(call(X), X)
        assert not isinstance(asked[-1][0][0].dims[0], int)


def test_a_kernel_found_by_a_kernel(asked: list[Any]) -> None:
    ctx = phix.kernels.KernelContext(phix.Place("cpu"))
    clip = phix.kernels.find("clip", ctx.place, "float32")
    for high, wanted in ((1.0, SEVENS), (0.5, np.clip(X, -1.0, 0.5))):
        out = np.empty_like(X)
        clip(ctx, X, -1.0, high, out)
        np.testing.assert_array_equal(out, wanted)
    assert [a for *_, a in asked].count(ctx) == 2


def test_it_is_a_function() -> None:
    with phix.scoped_registries(), pytest.raises((TypeError, KernelRegistrationError, ValueError),
                                                 match="fits"):  # fmt: skip
        phix.kernels.register_kernel("clip", "CPU", dtypes="float32", fits=3)
