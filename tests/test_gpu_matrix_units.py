"""Attention of 16-bit floats on the matrix units of a GPU: run on the CPU against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cuda_emulator
import phix
from gpu_programs import kept, needs_compiler, program, shapes
from phix import ops
from phix.kernels.gpu.attention16 import MatrixAttention
from phix.kernels.gpu.attention16_grad import MatrixKeyGradient, MatrixQueryGradient
from test_gpu_attention import check_grads, expected, graph_of, normal

RNG = np.random.default_rng(0)
pytestmark = [
    pytest.mark.xdist_group("gpu matrix units"), pytest.mark.unoptimised, needs_compiler
]  # fmt: skip

# Weights and results are rounded: so far from the sums of float64, relative to the largest value.
ROUNDED = {"float16": 2.0**-10, "bfloat16": 2.0**-7}


def check_rounded(arrays: Any, scale: float, causal: bool, specs: Any = None) -> None:
    mask = arrays[3] if len(arrays) > 3 else None
    made = program(graph_of(arrays, scale, causal, specs))
    assert [type(step) for step in made.loops.steps] == [MatrixAttention]
    (out,) = made.launcher(shapes(arrays))(*arrays)
    wanted = expected(*arrays[:3], mask, scale, causal)
    largest = np.abs(arrays[2].astype(np.float64)).max()
    np.testing.assert_allclose(
        out.astype(np.float64), wanted, rtol=0, atol=ROUNDED[out.dtype.name] * largest
    )


@pytest.mark.one_in(16)
@pytest.mark.parametrize("dtype", ROUNDED)
@pytest.mark.parametrize("size", [(64, 64), (128, 128), (80, 80), (40, 40), (96, 24), (17, 129)])
@pytest.mark.parametrize("length", [(130, 70), (63, 200)])
@pytest.mark.parametrize("causal", [False, True])
def test_sizes(dtype: str, size: Any, length: Any, causal: bool) -> None:
    (queries, keys), (size, width) = length, size
    arrays = [normal(queries, size, dtype=dtype), normal(keys, size, dtype=dtype),
              normal(keys, width, dtype=dtype)]  # fmt: skip
    check_rounded(arrays, size**-0.5, causal)


@pytest.mark.one_in(12)
@pytest.mark.parametrize("dtype", ROUNDED)
@pytest.mark.parametrize("kind", ["bool", "float32", "bfloat16"])
@pytest.mark.parametrize("dims", [(90, 70), (1, 70), (70,), (2, 1, 90, 1), (2, 3, 90, 70)])
def test_masks_broadcast(dtype: str, kind: str, dims: tuple[int, ...]) -> None:
    mask = RNG.random(dims) > 0.2 if kind == "bool" else normal(*dims, dtype=kind)
    if kind == "bool":
        mask[..., 0] = True
    arrays = [normal(2, 1, 90, 40, dtype=dtype), normal(3, 70, 40, dtype=dtype),
              normal(70, 24, dtype=dtype), mask]  # fmt: skip
    check_rounded(arrays, 0.2, False)
    check_rounded(arrays, 0.2, True)


@pytest.mark.parametrize("scale", [-0.3, 0.0])
def test_the_scale_turns_the_order_around(scale: float) -> None:
    arrays = [normal(70, 32, dtype="float16"), normal(90, 32, dtype="float16"),
              normal(90, 32, dtype="float16")]  # fmt: skip
    check_rounded(arrays, scale, False)


def test_queries_that_see_nothing_and_numbers_that_are_none() -> None:
    q, k, v = (normal(n, 16, dtype="bfloat16") for n in (100, 80, 80))
    mask = RNG.random((100, 80)) > 0.5
    mask[[3, 99]] = False
    mask[50, :70] = False  # its first tiles are all unseen
    mask[50, 70:] = True
    q[7, 2] = np.nan
    added = np.where(mask, 0, -np.inf).astype(np.float32)
    for given in (mask, added):
        arrays = [q, k, v, given]
        (out,) = program(graph_of(arrays, 0.3, False)).launcher(shapes(arrays))(*arrays)
        with np.errstate(all="ignore"):
            wanted = expected(q, k, v, given, 0.3, False)
        np.testing.assert_allclose(out.astype(np.float64), wanted, rtol=0, atol=0.05)
    assert np.isnan(wanted[[3, 7, 99]]).all() and not np.isnan(wanted[50]).any()


def test_no_key_behind_the_queries_is_read() -> None:
    q, k, v = (normal(n, 64, dtype="bfloat16") for n in (64, 300, 300))
    poisoned = v.copy()
    poisoned[64:] = np.nan
    launch = program(graph_of([q, k, v], 0.3, True)).launcher(shapes([q, k, v]))
    assert launch(q, k, poisoned)[0].tobytes() == launch(q, k, v)[0].tobytes()


def test_memory_that_is_not_aligned() -> None:
    def shifted(rows: int) -> np.ndarray:
        return normal(rows * 64 + 1, dtype="float16")[1:].reshape(rows, 64)

    for places in [(0,), (1,), (2,), (0, 1, 2)]:
        arrays = [normal(n, 64, dtype="float16") for n in (70, 90, 90)]
        for k in places:
            arrays[k] = shifted(len(arrays[k]))
            assert arrays[k].ctypes.data % 16
        check_rounded(arrays, 0.125, False)


@pytest.mark.parametrize("dtype", ROUNDED)
def test_gpus_without_matrix_units_use_shuffles(dtype: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(cuda_emulator, "_SHIM", "#define PHIX_SHUFFLES\n" + cuda_emulator._SHIM)
    monkeypatch.setattr(cuda_emulator, "_compiled", {})
    arrays = [normal(n, 40, dtype=dtype) for n in (70, 50, 50)]
    check_rounded(arrays, 0.2, True)
    check_grads(arrays, 0.2, True, tolerance=4 * ROUNDED[dtype])


# -- gradients -----------------------------------------------------------------------------
def expected_grads(q: Any, k: Any, v: Any, g: Any, mask: Any, scale: float, causal: bool) -> Any:
    """The gradients of one head in float64, as they are written."""
    q, k, v, g = (a.astype(np.float64) for a in (q, k, v, g))
    scores = q @ k.T * scale
    seen = np.tri(*scores.shape, dtype=bool) if causal else np.full(scores.shape, True)
    if mask is not None:
        seen, scores = (seen & mask, scores) if mask.dtype == bool else (seen, scores + mask)
    scores = np.where(seen, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    slopes = g @ v.T
    to_scores = weights * (slopes - (weights * slopes).sum(-1, keepdims=True)) * scale
    return to_scores @ k, to_scores.T @ q, weights.T @ g


@pytest.mark.one_in(24)
@pytest.mark.parametrize("dtype", ROUNDED)
@pytest.mark.parametrize("size", [(64, 64), (128, 128), (80, 80), (40, 40), (96, 24), (17, 100)])
@pytest.mark.parametrize("length", [(130, 70), (63, 200)])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", [None, "bool", "float32"])
def test_gradients(dtype: str, size: Any, length: Any, causal: bool, kind: Any) -> None:
    (queries, keys), (size, width) = length, size
    dims = [(queries, size), (keys, size), (keys, width), (queries, width)]
    arrays = [normal(*d, dtype=dtype) for d in dims]
    masks = {"bool": RNG.random((queries, keys)) > 0.3, "float32": normal(queries, keys)}
    masks["bool"][:, 0] = True
    given = [masks[kind]] if kind else []

    def call(q: Any, k: Any, v: Any, g: Any, mask: Any = None) -> Any:
        return ops.attention_grad(q, k, v, mask, g, 0.2, causal)[:3]

    like = [phix.Tensor(a) for a in (*arrays, *given)]
    made = program(kept(call, "attention_grad", like=like))
    steps = [type(step) for step in made.loops.steps]
    assert MatrixQueryGradient in steps and MatrixKeyGradient in steps
    found = made.launcher(shapes((*arrays, *given)))(*arrays, *given)
    wanted = expected_grads(*arrays, given[0] if kind else None, 0.2, causal)
    for got, want in zip(found, wanted, strict=True):
        assert got.dtype == arrays[0].dtype
        atol = ROUNDED[dtype] * max(np.abs(want).max(), 0.1)
        np.testing.assert_allclose(got.astype(np.float64), want, rtol=0, atol=atol)


@pytest.mark.one_in(12)
@pytest.mark.parametrize("dtype", ROUNDED)
@pytest.mark.parametrize("kind", ["bool", "float32"])
@pytest.mark.parametrize("dims", [(1, 90), (90,), (2, 3, 70, 90)])
def test_gradients_where_operands_broadcast(dtype: str, kind: str, dims: tuple[int, ...]) -> None:
    mask = RNG.random(dims) > 0.2 if kind == "bool" else normal(*dims, dtype=kind)
    if kind == "bool":
        mask[..., 0] = True
    arrays = [normal(2, 1, 70, 8, dtype=dtype), normal(3, 90, 8, dtype=dtype),
              normal(90, 5, dtype=dtype), mask]  # fmt: skip

    def call(q: Any, k: Any, v: Any, mask: Any) -> Any:
        loss = lambda *x: ops.sum(ops.sin(ops.attention(*x, mask, 0.3, True)))  # noqa: E731
        return phix.grad(loss, (0, 1, 2))(q, k, v)

    made = program(kept(call, "attention", "attention_grad", like=list(map(phix.Tensor, arrays))))
    found = made.launcher(shapes(arrays))(*arrays)
    wide = [phix.Tensor(a if a.dtype == bool else a.astype(np.float64)) for a in arrays]
    for got, want in zip(found, call(*wide), strict=True):
        largest = np.abs(want.numpy()).max()
        np.testing.assert_allclose(
            got.astype(np.float64), want, rtol=0, atol=2 * ROUNDED[dtype] * largest
        )


def test_gradients_of_queries_that_see_nothing() -> None:
    q, k, v, g = (normal(n, 16, dtype="bfloat16") for n in (100, 80, 80, 100))
    mask = RNG.random((100, 80)) > 0.5
    mask[[3, 99]] = False

    def call(*given: Any) -> Any:
        return ops.attention_grad(*given[:3], given[4], given[3], 0.3, False)[:3]

    arrays = (q, k, v, g, mask)
    made = program(kept(call, "attention_grad", like=list(map(phix.Tensor, arrays))))
    found = made.launcher(shapes(arrays))(*arrays)
    with np.errstate(all="ignore"):
        wanted = expected_grads(q, k, v, g, mask, 0.3, False)
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.isnan(got.astype(np.float32)), np.isnan(want))
    unseen = np.isnan(found[0].astype(np.float32)).all(-1)
    np.testing.assert_array_equal(np.flatnonzero(unseen), [3, 99])
