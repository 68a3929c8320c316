"""Tensors, eager calls and jit on the place ``gpu``, played by the CPU: see ``emulated_gpu``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import phix
from emulated_gpu import EmulatedRuntime, GpuArray, emulated
from gpu_programs import needs_compiler
from harness.cases import table_cases
from harness.checks import CHECKS
from phix import ops
from phix.core.errors import DeviceError, DonatedTensorError

pytestmark = [needs_compiler, pytest.mark.xdist_group("gpu place")]
CASES = {case.op.name: case for case in table_cases() if "elsewhere" not in case.test}
# Ops of several kinds: with a body, a view, a reduction, a step for the host, a call of a library,
# a routine, one without inputs, one that the engine has whole.
SOME = ("add", "transpose", "sum", "sort", "matmul", "conv2d", "arange", "attention")
RNG = np.random.default_rng(0)


@pytest.fixture
def gpu() -> Iterator[EmulatedRuntime]:
    with emulated() as runtime:
        yield runtime


def on(*dims: int, dtype: str = "float32") -> Any:
    return phix.to_tensor(RNG.standard_normal(dims), dtype, place="gpu")


def address(x: Any) -> int:
    return int(x.data.array.ctypes.data)


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("check", ["forward", "jit"])
def test_the_table(gpu, name: str, check: str, seed: int) -> None:
    case = dataclasses.replace(CASES[name], seed=seed)
    with phix.device("gpu"):
        if check not in case.skip:
            CHECKS[check](case)


def test_results_live_where_their_inputs_do(gpu) -> None:
    x = on(4, 5)
    loss = phix.jit(lambda x: ops.sum(ops.tanh(x @ x.T)))
    grad, batch = phix.grad(loss)(x), phix.vmap(loss)(x[None])
    for made in (x, x + 1.0, ops.softmax(x), x[1:, ::2], grad, batch):
        assert str(made.place) == "gpu:0" and isinstance(made.data, GpuArray)
    expected = phix.grad(loss)(x.to("cpu"))
    np.testing.assert_allclose(grad, expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(DeviceError, match="x on gpu:0, y on cpu"):
        ops.add(x, phix.to_tensor(np.ones((4, 5), np.float32)))


def test_a_training_step_stays_in_its_memory(gpu) -> None:
    def loss(w: Any, x: Any) -> Any:
        return ops.mean(ops.tanh(x @ w) ** 2)

    step = phix.jit(lambda w, x: w - 0.5 * phix.grad(loss)(w, x), donate_argnums=0)
    w, x = on(6, 6), on(20, 6)
    host, place = w.to("cpu"), address(w)
    for _ in range(4):
        old, w = w, step(w, x)
        host = host - 0.5 * phix.grad(loss)(host, x.to("cpu"))
        with pytest.raises(DonatedTensorError):
            old.numpy()
    assert address(w) == place and step.trace_count == 1
    np.testing.assert_allclose(w, host, rtol=1e-4, atol=1e-5)


def test_ops_in_place_take_the_memory(gpu) -> None:
    x = on(5, 7)
    wanted, place = np.tanh(x.numpy()) * 2 + 1, address(x)
    x = ops.reshape_(x.tanh_().multiply_(2.0).add_(1.0), [35])
    assert address(x) == place
    np.testing.assert_allclose(x, wanted.ravel(), rtol=1e-5)
    shown = x[3:]
    y = x.exp_()
    assert address(y) != place, "another tensor sees it"
    np.testing.assert_allclose(shown, wanted.ravel()[3:], rtol=1e-5)


def test_attention_is_kept_whole_for_the_gpu(gpu) -> None:
    q, k, v = on(2, 9, 8), on(2, 11, 8), on(2, 11, 4)
    attend = phix.jit(lambda q, k, v: ops.attention(q, k, v, None, 0.3, True))
    assert "attention_float32" in attend.lower(q, k, v).as_text("loop ir")
    wanted = attend(*(x.to("cpu") for x in (q, k, v)))
    np.testing.assert_allclose(attend(q, k, v), wanted, rtol=1e-4, atol=1e-5)


def test_registered_kernels_are_steps_of_programs(gpu) -> None:
    seen = []

    @phix.kernels.register_kernel("split", "GPUDNN", dtypes="float32")
    def split(ctx: Any, x: Any, sections: Any, axis: int, parts: Any) -> None:
        seen.append((str(ctx.place), sections, axis, [p.shape for p in parts]))
        for part, value in zip(
            parts, np.split(x.array, np.cumsum(sections)[:-1], axis), strict=True
        ):
            part.array[...] = value

    try:
        x = on(6, 4)
        f = phix.jit(lambda x: ops.sin(ops.split(ops.exp(x), [3, 3], 0)[1]) * 2.0)
        np.testing.assert_allclose(f(x), 2 * np.sin(np.exp(x.numpy()[3:])), rtol=1e-5)
        rows = phix.jit(
            lambda x: ops.split(x, [x.shape[0] - 1, 1], 0)[1], input_spec=[phix.spec(["n", "m"])]
        )
        for n in (2, 8):
            x = on(n, 3)
            np.testing.assert_array_equal(rows(x), x.numpy()[-1:])
    finally:
        phix.kernels.unregister_kernel("split", "GPUDNN")
    assert seen[0] == ("gpu:0", (3, 3), 0, [(3, 4), (3, 4)])
    assert [s[1:] for s in seen[1:]] == [((1, 1), 0, [(1, 3)] * 2), ((7, 1), 0, [(7, 3), (1, 3)])]


def test_a_call_that_comes_again_is_replayed(gpu, monkeypatch) -> None:
    recorded = []
    monkeypatch.setattr(gpu, "recorded", lambda run: recorded.append(run) or run)
    x, f = on(100), phix.jit(lambda x: ops.sin(x) * 2.0)
    memory = gpu.empty((100,), np.dtype(np.float32))
    monkeypatch.setattr(gpu, "empty", lambda shape, dtype: memory)
    for _ in range(4):
        np.testing.assert_allclose(f(x), 2 * np.sin(x.numpy()), rtol=1e-5)
    assert len(recorded) == 1


def test_loops_with_small_bodies_run_as_one_kernel(gpu) -> None:
    xs, w = on(20, 8), on(8, 8) * 0.3
    rnn = phix.jit(lambda xs, w: phix.scan(lambda c, x: (ops.tanh(c @ w + x), c), xs[0], xs))
    for found, wanted in zip(rnn(xs, w), rnn(xs.to("cpu"), w.to("cpu")), strict=True):
        assert found.place.kind == "gpu"
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_the_place_is_gone_afterwards() -> None:
    with emulated():
        phix.zeros([2]).to("gpu")
    with pytest.raises(DeviceError, match="no place 'gpu'"):
        phix.zeros([2]).to("gpu")
