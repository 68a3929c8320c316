"""Kernels that users register for the CPU: chosen before what its engine generates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core import kernel_registry

RNG = np.random.default_rng(0)


def _tanh(ctx: Any, x: np.ndarray, out: np.ndarray) -> None:
    np.tanh(x, out=out)


@pytest.fixture
def calls() -> Iterator[list[Any]]:
    """A tanh of float32 for the CPU, which notes the shapes it gets."""
    seen: list[Any] = []

    with phix.scoped_registries():

        @phix.kernels.register_kernel("tanh", "CPU", dtypes="float32")
        def tanh(ctx: Any, x: np.ndarray, out: np.ndarray) -> None:
            seen.append((str(ctx.place), x.shape))
            np.tanh(x, out=out)

        yield seen


def test_a_compiled_program_calls_it_between_its_own_kernels(calls: list[Any]) -> None:
    x, w = RNG.standard_normal((4, 3)).astype("f"), RNG.standard_normal((3, 5)).astype("f")
    found = phix.jit(lambda x, w: ops.exp(ops.tanh(x @ w)) + 1.0)(x, w)
    np.testing.assert_allclose(found, np.exp(np.tanh(x @ w)) + 1, rtol=1e-6)
    assert calls == [("cpu", (4, 5))]


def test_eager_calls_use_it_at_once(request: pytest.FixtureRequest) -> None:
    x = phix.to_tensor(RNG.standard_normal(7).astype("f"))
    own = ops.tanh(x).numpy()
    calls = request.getfixturevalue("calls")
    np.testing.assert_array_equal(ops.tanh(x), np.tanh(x.numpy()))
    assert calls == [("cpu", (7,))]
    phix.kernels.unregister_kernel("tanh", "CPU")
    np.testing.assert_array_equal(ops.tanh(x), own)


def test_eager_calls_and_derivatives_use_it(calls: list[Any]) -> None:
    x = RNG.standard_normal(7).astype("f")
    np.testing.assert_array_equal(ops.tanh(phix.to_tensor(x)), np.tanh(x))
    slope = phix.grad(lambda x: ops.sum(ops.tanh(x)))(x)
    np.testing.assert_allclose(slope, 1 - np.tanh(x.astype("d")) ** 2, rtol=1e-5, atol=1e-6)
    batch = phix.jit(phix.vmap(phix.grad(ops.tanh)))(x)
    np.testing.assert_allclose(batch, slope, rtol=1e-6, atol=1e-6)
    assert {shape for _, shape in calls} == {(7,)} and len(calls) >= 3


def test_loops_and_unknown_dims(calls: list[Any]) -> None:
    f = phix.jit(
        lambda x: phix.fori_loop(0, 3, lambda i, c: ops.tanh(c * 2.0), x),
        input_spec=[phix.spec(["n"])],
    )
    for n in (2, 5):
        x = RNG.standard_normal(n).astype("f")
        wanted = x
        for _ in range(3):
            wanted = np.tanh(wanted * np.float32(2))
        np.testing.assert_allclose(f(x), wanted, rtol=1e-5)
    assert [shape for _, shape in calls] == [(2,)] * 3 + [(5,)] * 3


def test_other_dtypes_are_the_engine_s_own(calls: list[Any]) -> None:
    x = RNG.standard_normal(5)
    np.testing.assert_allclose(phix.jit(ops.tanh)(x), np.tanh(x), rtol=1e-14)
    assert calls == []


def test_a_library_of_the_place_comes_before_the_engine_s_calls() -> None:
    """Products have a kernel of BLAS already; one that somebody wrote is preferred to it."""

    x, y = RNG.standard_normal((3, 4)), RNG.standard_normal((4, 5))
    with phix.scoped_registries():

        @phix.kernels.register_kernel("matmul", "SCIPY", dtypes="float64")
        def matmul(ctx: Any, x: Any, y: Any, tx: bool, ty: bool, out: np.ndarray) -> None:
            out[...] = np.matmul(x.T if tx else x, y.T if ty else y) + 100

        np.testing.assert_allclose(phix.jit(ops.matmul)(x, y), x @ y + 100, rtol=1e-12)
    np.testing.assert_allclose(phix.jit(ops.matmul)(x, y), x @ y, rtol=1e-12)


def test_programs_with_it_are_not_kept_on_disk(calls: list[Any]) -> None:
    x = RNG.standard_normal((3, 41)).astype("f")
    with_it = phix.jit(lambda x: ops.tanh(x) * 3.25)
    np.testing.assert_allclose(with_it(x), np.tanh(x) * 3.25, rtol=1e-6)
    phix.jit(lambda x: ops.tanh(x) * 3.25)(x)
    assert len(calls) == 2


def test_unknown_ops_are_refused() -> None:
    with pytest.raises(phix.errors.UnknownOpError, match=r"no op 'tahn'.*did you mean .*tanh"):
        phix.kernels.register_kernel("tahn", "CPU")(_tanh)
    with pytest.raises(phix.errors.UnknownOpError):
        phix.kernels.register_kernel("my_own_op", "CPU")(_tanh)


def test_a_registration_that_fails_leaves_nothing_behind(calls: list[Any]) -> None:
    with pytest.raises(phix.errors.KernelRegistrationError, match="already"):
        phix.kernels.register_kernel("tanh", "CPU", dtypes=("float64", "float32"))(_tanh)
    keys = [k for k in phix.kernels.keys("tanh") if k.dtype == phix.float64]
    assert all(phix.kernels.find("tanh", k).function is None for k in keys)


@pytest.mark.parametrize("fallback", ["CPU", None])
def test_a_library_that_is_added_to_a_place_is_chosen(fallback: str | None) -> None:
    x = RNG.standard_normal(6).astype("f")
    seen: list[int] = []
    with phix.scoped_registries():
        kernel_registry.add_backend(kernel_registry.Backend("MINE", "cpu", "mine", fallback))
        for number in (1, 2):  # of two kernels for one op, that of the added library

            def tanh(ctx: Any, x: Any, out: Any, number: int = number) -> None:
                seen.append(number)
                np.tanh(x, out=out)

            phix.kernels.register_kernel("tanh", ("SCIPY", "MINE")[number - 1])(tanh)
        for run in (ops.tanh, phix.jit(lambda x: ops.tanh(x) * 1.0), phix.vmap(ops.tanh)):
            seen.clear()
            np.testing.assert_allclose(run(x), np.tanh(x), rtol=1e-6)
            assert set(seen) == {2}
        np.testing.assert_allclose(ops.exp(x), np.exp(x), rtol=1e-6)  # which it has not
    seen.clear()
    np.testing.assert_allclose(ops.tanh(x), np.tanh(x), rtol=1e-6)
    assert not seen


def test_a_kernel_that_cannot_be_chosen_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING", "phix.kernels"), phix.scoped_registries():
        phix.kernels.register_kernel("while_loop", "NUMPY")(lambda ctx, *args: None)
    assert "while_loop for NUMPY will not be chosen" in caplog.text
