"""float16 and bfloat16: every op's result is a number of its dtype, fused into others or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phix
import phix.numpy as pn
from phix import ops
from phix.nn import functional as nn
from tests import machine_code

pytestmark = pytest.mark.unoptimised(4)

DTYPES = ["float16", "bfloat16"]
NUMPY = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
CHAINS = 6  # of each dtype, for each of the groups below

# Steps that make one value of one; results stay of moderate size.
UNARY: list[Callable[[Any], Any]] = [
    lambda x: x * 0.3,
    lambda x: 1.7 - x,
    ops.tanh,
    ops.sin,
    ops.exp,
    ops.sigmoid,
    ops.gelu,
    ops.abs,
    ops.relu,
    lambda x: ops.cumsum(x, 1) * 0.1,
    lambda x: ops.softmax(x, 1),
    lambda x: ops.transpose(ops.transpose(x, [1, 0]) * 1.1, [1, 0]),
    lambda x: ops.where(x > 0.25, x, x * x),
    lambda x: x - ops.max(x, [1], True),
    lambda x: x / (ops.amax(ops.abs(x), [0], True) + 1.0),
    lambda x: ops.cast(ops.cast(x, "float32") * 1.1, x.dtype),
    lambda x: ops.flip(x, [1]) * 0.7,
]
BINARY: list[Callable[[Any, Any], Any]] = [ops.add, ops.subtract, ops.multiply, ops.maximum]
# Steps that show every bit of what they are given.
ENDS: list[Callable[[Any], Any]] = [
    lambda x: ops.cast(x, "float64"),
    lambda x: ops.argmax(x, 0),
    lambda x: ops.argmin(x, 1),
    lambda x: x == ops.max(x, [0], True),
    lambda x: ops.cast(x, "float32") * 3.0,
    lambda x: ops.floor(ops.cast(x, "float32") * 1000.0),
    lambda x: ops.argsort(x, 1),
]


def _draw_chain(rng: np.random.Generator) -> Callable[[Any, Any], Any]:
    """A program of two inputs: a few steps of values made before, then ways to look at them."""
    steps = []
    for count in range(2, int(rng.integers(5, 10))):
        if rng.random() < 0.35:
            a, b = (int(rng.integers(count)) for _ in range(2))
            steps.append((BINARY[rng.integers(len(BINARY))], (a, b)))
        else:
            steps.append((UNARY[rng.integers(len(UNARY))], (int(rng.integers(count)),)))
    shown = [(ENDS[rng.integers(len(ENDS))], int(rng.integers(2, count + 1))) for _ in range(3)]

    def program(x: Any, y: Any) -> Any:
        values = [x, y]
        for step, reads in steps:
            values.append(step(*(values[k] for k in reads)))
        return values[-1], *(end(values[k]) for end, k in shown)

    return program


def _bits(x: Any) -> np.ndarray:
    array = np.asarray(x)
    return array.view(np.uint16) if array.dtype.itemsize == 2 else array


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("group", range(4))
def test_a_compiled_chain_gives_the_bits_of_its_ops_one_by_one(dtype, group, seed) -> None:
    rng = np.random.default_rng([seed, group, DTYPES.index(dtype)])
    for number in range(CHAINS):
        program = _draw_chain(rng)
        dims = [(2, 3), (5, 17), (1, 8), (4, 33)][number % 4]
        x, y = (phix.to_tensor(rng.uniform(-2, 2, dims).astype(NUMPY[dtype])) for _ in range(2))
        with machine_code.unoptimised():
            eager = program(x, y)
        for compiled in (phix.jit(program), phix.jit(program, disable=["recompute_cheap"])):
            for found, expected in zip(compiled(x, y), eager):
                np.testing.assert_array_equal(_bits(found), _bits(expected))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_index_of_an_extreme_of_a_fused_product_is_one(dtype) -> None:
    x = phix.to_tensor(np.random.default_rng(0).normal(size=(2, 50)).astype(NUMPY[dtype]))
    product = np.asarray(x * 0.3).astype(np.float64)
    found = phix.jit(lambda x: (ops.argmax(x * 0.3, axis=0), ops.argmin(x * 0.3, axis=0)))(x)
    np.testing.assert_array_equal(found[0], product.argmax(0))
    np.testing.assert_array_equal(found[1], product.argmin(0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_product_is_rounded_before_it_is_widened(dtype) -> None:
    x = np.random.default_rng(0).normal(size=1000).astype(NUMPY[dtype])
    exact = (x.astype(np.float32) * x.astype(np.float32)).astype(NUMPY[dtype])
    found = phix.jit(lambda t: (t * t).astype("float64"))(phix.to_tensor(x))
    np.testing.assert_array_equal(found, exact.astype(np.float64))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["max", "min", "amax", "amin"])
@pytest.mark.parametrize("axis", [0, 1])
def test_the_gradient_of_an_extreme_goes_to_where_it_is(dtype, name, axis) -> None:
    x = np.random.default_rng(0).permutation(np.linspace(0.5, 2, 60)).astype(NUMPY[dtype])
    x = x.reshape(3, 20)
    half = 0.5  # exact in both dtypes

    def f(x: Any) -> Any:
        return ops.sum(getattr(ops, name)(ops.exp(x * 0.3), axis=[axis]).astype("float32")) * half

    y = np.asarray(ops.exp(phix.to_tensor(x) * 0.3)).astype(np.float64)
    extreme = (np.max if name.endswith("max") else np.min)(y, axis, keepdims=True)
    hits = y == extreme
    share = half / hits.sum(axis, keepdims=True)
    expected = np.where(hits, share * y * 0.3, 0.0)
    found = np.asarray(phix.jit(phix.grad(f))(phix.to_tensor(x))).astype(np.float64)
    np.testing.assert_allclose(found, expected, rtol=4 * 2.0 ** -(8 if dtype == "bfloat16" else 11))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_gradient_of_a_pooled_product_is_a_number(dtype) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 8, 8)).astype(NUMPY[dtype])

    def f(x: Any) -> Any:
        return ops.sum(nn.max_pool2d(x * 0.3, 2).astype("float32"))

    found = phix.jit(phix.grad(f))(phix.to_tensor(x))
    eager = phix.grad(f)(phix.to_tensor(x))
    np.testing.assert_array_equal(_bits(found), _bits(eager))
    count = np.asarray(found).astype(np.float64).sum() / 0.3
    assert abs(count - 2 * 3 * 16) < 0.5


COMPOSITES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "softmax": lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True),
    "log_softmax": lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True)),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "softplus": lambda x: np.log1p(np.exp(x)),
    "logsigmoid": lambda x: -np.log1p(np.exp(-x)),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "hardswish": lambda x: np.where(np.abs(x) < 3, x * (x + 3) / 6, np.where(x < 0, 0, x)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", COMPOSITES)
def test_a_composite_rounds_once(dtype, name) -> None:
    x = np.random.default_rng(0).uniform(-6, 6, (20, 50)).astype(NUMPY[dtype])
    exact = COMPOSITES[name](x.astype(np.float64))
    step = np.maximum(np.abs(exact), ml_dtypes.finfo(NUMPY[dtype]).smallest_normal)
    unit = 2.0 ** np.floor(np.log2(step)) * float(ml_dtypes.finfo(NUMPY[dtype]).eps)
    op = getattr(ops, name)
    for f in (op, phix.jit(op), lambda x: phix.vmap(op)(x)):
        found = np.asarray(f(phix.to_tensor(x))).astype(np.float64)
        assert (np.abs(found - exact) / unit).max() <= 0.51


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_forward_mode_through_rules_that_are_given_metas_alone(dtype: str) -> None:
    # the backward rule of huber_loss gets its input for the dims: forward mode transposes it
    x = phix.to_tensor(np.array([0.25, -0.5, 3.0]), dtype)
    y, one = phix.to_tensor(np.zeros(3), dtype), phix.to_tensor(np.ones(3), dtype)
    _, tangent = phix.jvp(lambda x: phix.nn.functional.smooth_l1_loss(x, y, "none"), (x,), (one,))
    np.testing.assert_array_equal(tangent.numpy().astype(np.float64), [0.25, -0.5, 1.0])


@pytest.mark.unoptimised
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_added_at_one_place_is_rounded_once(dtype: str) -> None:
    one = np.ones((3000, 1))
    places = phix.zeros([3000, 1], "int64")

    def sums(x: Any, v: Any) -> Any:
        line = places[:, 0]
        return (
            ops.scatter_nd_add(x, places, v),
            x.at[line].add(v),
            ops.put_along_axis(x, places, v, 0, "add"),
            ops.put_along_axis(x, places, v, 0, "mean"),
            ops.scatter(x, line, v, False),
            phix.grad(lambda x: ops.gather(x, line).sum())(x),
        )

    x, v = (phix.to_tensor(a, dtype) for a in (np.zeros((1, 1)), one))
    wanted = [3000, 3000, 3000, 3000 / 3001, 3000, 3000]
    found = [a.item() for a in phix.jit(sums)(x, v)]
    assert found == [float(NUMPY[dtype].type(w)) for w in wanted]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "name, mode", [("convolve", "full"), ("convolve", "valid"), ("correlate", "same")]
)
def test_the_sums_of_a_convolution_are_rounded_alone(dtype: str, name: str, mode: str) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=n).astype(getattr(ml_dtypes, dtype, dtype)) for n in (200, 40))
    found = getattr(phix.numpy, name)(x, y, mode=mode)
    wanted = getattr(np, name)(x.astype(float), y.astype(float), mode=mode)
    error = np.abs(found.numpy().astype(float) - wanted)
    assert str(found.dtype) == dtype
    assert np.all(error <= 0.51 * phix.numpy.finfo(dtype).eps * np.abs(wanted) + 1e-4)


def test_products_too_large_for_halves_cancel_in_a_convolution() -> None:
    x, y = (phix.to_tensor(v, "float16") for v in ([300.0, 300.0], [300.0, -300.0]))
    assert phix.numpy.convolve(x, y, "valid").tolist() == [0.0]


_CLASSES = np.arange(40000) % 10
LONG_SUMS: dict[str, Callable[[Any], Any]] = {
    "mean": lambda x: ops.mean(ops.abs(x)),
    "mean of some": lambda x: pn.mean(ops.abs(x), where=_CLASSES[:, None] < 9),
    "nanmean": lambda x: pn.nanmean(ops.abs(x)),
    "average": lambda x: pn.average(ops.abs(x), weights=ops.abs(x)),
    "std": lambda x: ops.std(x),
    "std of some": lambda x: pn.std(x, where=_CLASSES[:, None] < 9),
    "nanstd": lambda x: pn.nanstd(x),
    "cov": lambda x: pn.cov(x, rowvar=False)[0, 0],
    "corrcoef": lambda x: pn.corrcoef(x, rowvar=False)[0, 1],
    "sem": lambda x: phix.scipy.stats.sem(x, axis=None),
    "cross_entropy": lambda x: nn.cross_entropy(x, _CLASSES),
    "weighted": lambda x: nn.cross_entropy(x, _CLASSES, phix.full([10], 2.0, x.dtype)),
    "smoothed": lambda x: nn.cross_entropy(x, _CLASSES, label_smoothing=0.1),
    "nll_loss": lambda x: nn.nll_loss(nn.log_softmax(x), _CLASSES),
    "segments": lambda x: ops.segment_pool(x + 10, np.zeros(40000, "int64"), "MEAN")[0].mean(),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", LONG_SUMS)
def test_sums_and_counts_that_halves_do_not_hold_are_divided_first(dtype: str, name: str) -> None:
    """A sum or a number of elements above 65504 had been infinite in float16, and a gradient 0."""
    scale = 900.0 if name.startswith(("std", "nanstd", "sem")) else 30.0 if "co" in name else 3.0
    x = np.random.default_rng(0).normal(size=(40000, 10), scale=scale).astype(NUMPY[dtype])
    f, unit = LONG_SUMS[name], float(ml_dtypes.finfo(NUMPY[dtype]).eps)
    exact = phix.to_tensor(x.astype(np.float64))
    for run in (f, phix.jit(f)):
        found = run(phix.to_tensor(x))
        assert found.dtype == dtype
        assert abs(found.item() - f(exact).item()) <= 4 * unit * max(1.0, abs(f(exact).item()))
    slopes = np.asarray(phix.jit(phix.grad(f))(phix.to_tensor(x))).astype(np.float64)
    expected = np.asarray(phix.grad(f)(exact))
    assert np.abs(slopes - expected).max() <= 8 * unit * np.abs(expected).max() + 2.0**-23


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_long_logcumsumexp_keeps_its_slopes(dtype: str) -> None:
    """Ratios of sums that follow each other are close to 1: rounded to halves, their product was
    a third of what it is after 3000."""
    x = phix.to_tensor(np.random.default_rng(0).normal(size=3000).astype(NUMPY[dtype]))

    def last(x: Any) -> Any:
        return ops.logcumsumexp(x)[-1]

    exact = np.asarray(x).astype(np.float64)
    share = np.exp(exact - np.logaddexp.reduce(exact))
    unit = float(ml_dtypes.finfo(NUMPY[dtype]).eps)
    for run in (phix.grad(last), phix.jit(phix.grad(last))):
        found = np.asarray(run(x)).astype(np.float64)
        np.testing.assert_allclose(found, share, rtol=2 * unit, atol=2.0**-23)
    _, along = phix.jvp(last, (x,), (ops.full_like(x, 1.0),))
    assert abs(along.item() - 1.0) <= 2 * unit
