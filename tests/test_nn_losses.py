"""Activations and losses of phix.nn.functional against closed forms, and far out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special as sp

import phix
from harness.closed import check_gradient, close
from phix.core.errors import ArgumentError, AttributeValueError, DTypeError, PhixError, ShapeError

pytestmark = pytest.mark.unoptimised

F = phix.nn.functional
RNG = np.random.default_rng(0)
INF = math.inf


def floats(*dims: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    return RNG.uniform(low, high, dims)


# -- activations -------------------------------------------------------------------------------
# name -> (arguments behind x, closed form)
ACTIVATIONS: dict[str, tuple[tuple[Any, ...], Callable[[np.ndarray], np.ndarray]]] = {
    "relu": ((), lambda x: np.maximum(x, 0)),
    "relu6": ((), lambda x: np.clip(x, 0, 6)),
    "gelu": ((), lambda x: x * sp.ndtr(x)),
    "gelu, tanh": (
        ("tanh",),
        lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    "silu": ((), lambda x: x * sp.expit(x)),
    "swish": ((), lambda x: x * sp.expit(x)),
    "sigmoid": ((), sp.expit),
    "log_sigmoid": ((), sp.log_expit),
    "softplus": ((), lambda x: np.logaddexp(x, 0)),
    "softplus, beta": ((2.0, 5.0), lambda x: np.where(2 * x > 5, x, np.logaddexp(2 * x, 0) / 2)),
    "softsign": ((), lambda x: x / (1 + np.abs(x))),
    "leaky_relu": ((), lambda x: np.where(x > 0, x, 0.01 * x)),
    "leaky_relu, slope": ((0.3,), lambda x: np.where(x > 0, x, 0.3 * x)),
    "elu": ((1.5,), lambda x: np.where(x > 0, x, 1.5 * np.expm1(np.minimum(x, 0)))),
    "hardswish": ((), lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "hardsigmoid": ((), lambda x: np.clip(0.1666667 * x + 0.5, 0, 1)),
    "hardtanh": ((-0.5, 1.5), lambda x: np.clip(x, -0.5, 1.5)),
    "softmax": ((0,), lambda x: sp.softmax(x, axis=0)),
    "log_softmax": ((), lambda x: sp.log_softmax(x, axis=-1)),
    "celu": ((1.5,), lambda x: np.where(x > 0, x, 1.5 * np.expm1(np.minimum(x, 0) / 1.5))),
    "selu": ((2.0, 0.5), lambda x: 2 * np.where(x > 0, x, 0.5 * np.expm1(np.minimum(x, 0)))),
    "mish": ((), lambda x: x * np.tanh(np.logaddexp(x, 0))),
    "glu": ((), lambda x: x[:, :3] * sp.expit(x[:, 3:])),
    "squareplus": ((), lambda x: (x + np.sqrt(x * x + 4)) / 2),
    "squareplus, b": ((0.25,), lambda x: (x + np.sqrt(x * x + 0.25)) / 2),
    "sparse_plus": ((), lambda x: np.where(x < 1, (np.clip(x, -1, 1) + 1) ** 2 / 4, x)),
    "sparse_sigmoid": ((), lambda x: np.clip((x + 1) / 2, 0, 1)),
    "logmeanexp": ((), lambda x: np.log(np.exp(x).mean())),
    "logmeanexp, axes": (((0, 1),), lambda x: np.log(np.exp(x).mean())),
    "standardize": ((0,), lambda x: (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5)),
    "standardize, all": ((None,), lambda x: (x - x.mean()) / np.sqrt(x.var() + 1e-5)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_has_its_closed_form(name: str) -> None:
    arguments, closed = ACTIVATIONS[name]
    function = getattr(F, name.split(",")[0])
    x = np.concatenate([floats(4, 6, low=-8, high=8), np.zeros((1, 6))])
    close(function(x, *arguments), closed(x))


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("relu", 0, INF),
        ("relu6", 0, 6),
        ("gelu", 0, INF),
        ("silu", 0, INF),
        ("sigmoid", 0, 1),
        ("log_sigmoid", -INF, 0),
        ("softplus", 0, INF),
        ("leaky_relu", -INF, INF),
        ("elu", -1, INF),
        ("hardsigmoid", 0, 1),
        ("hardtanh", -1, 1),
        ("selu", -1.7580993408473766, INF),
        ("celu", -1, INF),
        ("mish", 0, INF),
        ("sparse_plus", 0, INF),
        ("sparse_sigmoid", 0, 1),
    ],
)
def test_activation_far_out(name: str, low: float, high: float) -> None:
    """No overflow on the way at +-1e30; the limits are those of the function."""
    found = getattr(F, name)(np.array([-1e30, 1e30], np.float32)).numpy()
    for value, limit in zip(found, (low, high)):
        if math.isinf(limit):
            assert np.isfinite(value) and abs(value) >= 1e27 and np.sign(value) == np.sign(limit)
        else:
            assert value == np.float32(limit)


# -- those of JAX alone ------------------------------------------------------------------------
def test_squareplus_keeps_its_digits_below_zero_and_far_out() -> None:
    x = np.array([-1e4, -300.0, -1.0, 0.0, 300.0, 6e4])
    wanted = {-1e4: 1e-4, 300.0: 300 + 1 / 300}
    for dtype, rtol in (("float64", 1e-7), ("float32", 2e-7), ("float16", 2e-3)):
        found = F.squareplus(x.astype(dtype)).numpy().astype(float)
        assert np.isfinite(found).all()  # x ** 2 is none of float16's numbers
        for at, value in wanted.items():
            if dtype != "float16":
                np.testing.assert_allclose(found[list(x).index(at)], value, rtol)
        np.testing.assert_allclose(found[5], 6e4, rtol)
    assert F.squareplus(np.float32(-1e30)).item() == pytest.approx(1e-30)
    check_gradient(lambda x: F.squareplus(x, 2.0), floats(5))
    close(F.squareplus([3.0, 0.0], [16.0, 4.0]), [4.0, 1.0])
    by_b = phix.grad(lambda b: F.squareplus(3.0, b).sum())(phix.to_tensor(16.0, "float64"))
    assert by_b.item() == pytest.approx(0.25 / 5)
    second = phix.grad(phix.grad(F.squareplus))(phix.to_tensor(0.0, "float64"))
    assert second.item() == pytest.approx(0.25)
    for dtype in ("float16", "float32", "float64"):
        ends = phix.to_tensor(np.array([np.inf, -np.inf], dtype))
        assert F.squareplus(ends).tolist() == [math.inf, 0.0]
        assert phix.grad(lambda x: F.squareplus(x).sum())(ends).tolist() == [1.0, 0.0]
    for b in (0, -1.0, math.nan):
        with pytest.raises(AttributeValueError, match="b is above 0"):
            F.squareplus(1.0, b)


def test_slopes_of_what_is_straight_but_between_one_and_minus_one() -> None:
    x = np.array([-INF, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0, INF])
    slopes = phix.grad(lambda x: F.sparse_plus(x).sum())(x)
    np.testing.assert_array_equal(slopes, np.clip((x + 1) / 2, 0, 1))
    steps = phix.grad(lambda x: F.sparse_sigmoid(x).sum())(x)
    np.testing.assert_array_equal(steps, np.where(abs(x) < 1, 0.5, 0.0))
    assert np.isnan(F.sparse_plus(math.nan).item()) and np.isnan(F.sparse_sigmoid(math.nan).item())


def test_log1mexp_is_right_near_zero_and_far_out() -> None:
    x = np.array([1e-300, 1e-20, 1e-5, 0.3, 0.69, 0.7, 3.0, 40.0, 700.0])
    with mpmath.workdps(330):
        wanted = [float(mpmath.log(1 - mpmath.exp(-mpmath.mpf(v)))) for v in x]
        slopes = [float(1 / mpmath.expm1(mpmath.mpf(v))) for v in x]
    np.testing.assert_allclose(F.log1mexp(x), wanted, rtol=1e-14)
    np.testing.assert_allclose(phix.grad(lambda x: F.log1mexp(x).sum())(x), slopes, rtol=1e-13)
    ends = F.log1mexp([0.0, INF, -1.0]).tolist()
    assert ends[:2] == [-INF, 0.0] and math.isnan(ends[2])
    assert phix.grad(F.log1mexp)(INF).item() == 0.0
    assert F.log1mexp(2).dtype == np.float32


def test_logmeanexp_of_some_and_far_out() -> None:
    x, holds = floats(3, 4), RNG.uniform(size=(3, 4)) < 0.6
    holds[:, 0] = True
    few = np.log((np.exp(x) * holds).sum(1) / holds.sum(1))
    close(F.logmeanexp(x, 1, holds), few)
    close(F.logmeanexp(x + 1000, -1, holds, True), few[:, None] + 1000)
    close(F.logmeanexp(x, ()), x)
    check_gradient(lambda x: F.logmeanexp(x, 1, holds), x)
    sized = phix.jit(F.logmeanexp, input_spec=[phix.spec(["n", 4], "float64")])
    close(sized(x), np.log(np.exp(x).mean()))


def test_standardize_takes_its_moments_of_some_or_as_they_are_given() -> None:
    x, holds = floats(3, 4), RNG.uniform(size=(3, 4)) < 0.6
    holds[:, 0] = True
    mean = np.array([v[h].mean() for v, h in zip(x, holds)])[:, None]
    var = np.array([v[h].var() for v, h in zip(x, holds)])[:, None]
    close(F.standardize(x, 1, where=holds, epsilon=0.1), (x - mean) / np.sqrt(var + 0.1))
    close(F.standardize(x, mean=0.5, variance=2.0, epsilon=0.0), (x - 0.5) / np.sqrt(2))
    about = ((x - 0.5) ** 2).mean(1, keepdims=True)
    close(F.standardize(x, mean=0.5, epsilon=0.0), (x - 0.5) / np.sqrt(about))
    check_gradient(lambda x: F.standardize(x, 0), x)
    far = F.standardize((np.arange(8) + 1000).astype("float16"))
    np.testing.assert_allclose(far, (np.arange(8) - 3.5) / np.sqrt(5.25), atol=2e-3)


def test_an_axis_without_halves_is_refused() -> None:
    with pytest.raises(ShapeError, match="its size must be even"):
        F.glu(floats(2, 3))
    close(F.glu(floats(4, 3), 0).shape, (2, 3))


def test_softmax_casts_first() -> None:
    found = F.softmax(np.array([1, 2]), dtype="float64")
    assert found.dtype == np.float64
    close(found, sp.softmax([1.0, 2.0]))
    assert F.log_softmax(np.array([1.0]), dtype="float32").dtype == np.float32


def test_swiglu_of_one_and_of_two() -> None:
    x = floats(3, 8)
    a, b = x[:, :4], x[:, 4:]
    wanted = a * sp.expit(a) * b
    close(F.swiglu(x), wanted)
    close(F.swiglu(a, b), wanted)


# -- losses ------------------------------------------------------------------------------------
REDUCE: dict[str, Callable[[np.ndarray], Any]] = {
    "none": lambda x: x,
    "mean": np.mean,
    "sum": np.sum,
}


@pytest.mark.parametrize("reduction", REDUCE)
def test_losses_of_differences(reduction: str) -> None:
    x, y = floats(3, 4), floats(3, 4)
    r = np.abs(x - y)
    reduce = REDUCE[reduction]
    close(F.mse_loss(x, y, reduction), reduce(r * r))
    close(F.l1_loss(x, y, reduction), reduce(r))
    huber = np.where(r <= 0.5, r * r / 2, 0.5 * (r - 0.25))
    close(F.smooth_l1_loss(x, y, reduction, 0.5), reduce(huber))


@pytest.mark.parametrize("reduction", REDUCE)
def test_binary_cross_entropy(reduction: str) -> None:
    logit, label, weight = floats(3, 4), floats(3, 4, low=0, high=1), floats(4, low=0, high=1)
    positive = floats(4, low=0.5, high=3)
    reduce = REDUCE[reduction]

    def entropy(factor: Any) -> np.ndarray:
        return -(factor * label * sp.log_expit(logit) + (1 - label) * sp.log_expit(-logit))

    close(F.binary_cross_entropy(sp.expit(logit), label, weight, reduction),
          reduce(weight * entropy(1)))  # fmt: skip
    found = F.binary_cross_entropy_with_logits(logit, label, weight, reduction, positive)
    close(found, reduce(weight * entropy(positive)))


def test_binary_cross_entropy_far_out() -> None:
    found = F.binary_cross_entropy_with_logits([-1e4, 1e4, 1e4], [1.0, 0.0, 1.0], reduction="none")
    close(found, [1e4, 1e4, 0])
    close(F.binary_cross_entropy([0.0, 1.0], [0.0, 1.0]), 0)
    close(F.binary_cross_entropy([0.0], [1.0]), 100)


def test_kl_div() -> None:
    p, q = sp.softmax(floats(3, 4), axis=1), sp.softmax(floats(3, 4), axis=1)
    terms = sp.rel_entr(q, p)
    close(F.kl_div(np.log(p), q, "none"), terms)
    close(F.kl_div(np.log(p), q, "batchmean"), terms.sum() / 3)
    close(F.kl_div(np.log(p), np.log(q), "sum", True), terms.sum())
    close(F.kl_div(np.log(p), np.eye(4)[:3]), -np.log(np.diag(p[:, :3])).sum() / 12)


def entropies(x: np.ndarray, label: np.ndarray, axis: int) -> np.ndarray:
    picked = np.take_along_axis(sp.log_softmax(x, axis=axis), np.expand_dims(label, axis), axis)
    return -picked.squeeze(axis)


@pytest.mark.parametrize("axis", [1, -1])
def test_cross_entropy_of_class_numbers(axis: int) -> None:
    x = floats(2, 5, 4)
    shape = (2, 4) if axis == 1 else (2, 5)
    label = RNG.integers(0, x.shape[axis], shape)
    wanted = entropies(x, label, axis)
    for reduction, reduce in REDUCE.items():
        found = F.cross_entropy(x, label, reduction=reduction, axis=axis)
        close(found, reduce(wanted))
    whole = F.cross_entropy(x, np.expand_dims(label, axis), reduction="none", axis=axis)
    close(whole, np.expand_dims(wanted, axis))
    found = F.cross_entropy(sp.softmax(x, axis=axis), label, axis=axis, use_softmax=False)
    close(found, wanted.mean())


@pytest.mark.parametrize("ignored", [-100, 2])
def test_cross_entropy_leaves_ignored_labels_out(ignored: int) -> None:
    x, label = floats(5, 4), np.array([0, ignored, 3, ignored, 1])
    counts = label != ignored
    wanted = entropies(x[counts], label[counts], 1)
    close(F.cross_entropy(x, label, ignore_index=ignored), wanted.mean())
    weight = floats(4, low=0.5)
    share = weight[label[counts]]
    found = F.cross_entropy(x, label, weight, ignored)
    close(found, (wanted * share).sum() / share.sum())
    grad = phix.grad(lambda v: F.cross_entropy(v, label, ignore_index=ignored))(x).numpy()
    assert (grad[~counts] == 0).all() and (grad[counts] != 0).all()


def test_cross_entropy_with_every_label_ignored() -> None:
    x, label = floats(2, 3), np.array([-100, -100])
    value, grad = phix.value_and_grad(lambda v: F.cross_entropy(v, label))(x)
    assert value.item() == 0
    assert (grad.numpy() == 0).all()


def test_cross_entropy_of_soft_labels() -> None:
    x, label = floats(3, 4), sp.softmax(floats(3, 4), axis=1)
    terms = -(label * sp.log_softmax(x, axis=1)).sum(1, keepdims=True)
    close(F.cross_entropy(x, label, soft_label=True), terms.mean())
    close(F.cross_entropy(x, label, soft_label=True, reduction="none"), terms)
    weight = floats(4, low=0.5)
    share = label @ weight
    found = F.cross_entropy(x, label, weight, soft_label=True)
    close(found, (terms[:, 0] * share).sum() / share.sum())
    check_gradient(lambda a, b: F.cross_entropy(a, b, soft_label=True), x, label)


def test_cross_entropy_with_smoothed_labels() -> None:
    x, label = floats(3, 4), np.array([1, 0, 3])
    soft = 0.9 * np.eye(4)[label] + 0.1 / 4
    wanted = -(soft * sp.log_softmax(x, axis=1)).sum(1)
    close(F.cross_entropy(x, label, label_smoothing=0.1), wanted.mean())
    close(F.cross_entropy(x, label, label_smoothing=0.1, reduction="none"), wanted)


def test_cross_entropy_far_out() -> None:
    x = np.array([[1e4, 0.0, -1e4], [0.0, 1e4, 0.0]], np.float32)
    value, grad = phix.value_and_grad(lambda v: F.cross_entropy(v, np.array([2, 1])))(x)
    assert value.item() == 1e4
    assert grad.numpy().tolist() == [[0.5, 0.0, -0.5], [0.0, 0.0, 0.0]]


def test_cross_entropy_of_an_impossible_class_that_is_not_the_label() -> None:
    x = np.array([[0.0, -INF, 0.0]])
    close(F.cross_entropy(x, np.array([0])), math.log(2))
    close(F.cross_entropy(x, np.array([[0.5, 0.0, 0.5]]), soft_label=True), math.log(2))


def test_cross_entropy_second_derivatives() -> None:
    x, label = floats(3, 4), np.array([1, -100, 3])
    check_gradient(lambda v: F.cross_entropy(v, label), x)


@pytest.mark.parametrize("reduction", REDUCE)
def test_nll_loss_is_what_cross_entropy_ends_in(reduction: str) -> None:
    x, label = floats(2, 5, 3), np.array([[0, 4, -100], [2, 2, 1]])
    weight = floats(5, low=0.5)
    found = F.nll_loss(sp.log_softmax(x, axis=1), label, weight, reduction=reduction)
    close(found, F.cross_entropy(x, label, weight, reduction=reduction, axis=1).numpy())


# loss of logits [3, 4] and labels [3], whose row 1 does not count
IGNORING: dict[str, Callable[[Any, Any, str], Any]] = {
    "cross_entropy": lambda x, y, r: F.cross_entropy(x, y, reduction=r),
    "smoothed": lambda x, y, r: F.cross_entropy(x, y, reduction=r, label_smoothing=0.1),
    "weighted": lambda x, y, r: F.cross_entropy(x, y, [0.5, 1.0, 2.0, 3.0], reduction=r),
    "weighted and smoothed": lambda x, y, r: F.cross_entropy(
        x, y, [0.5, 1.0, 2.0, 3.0], reduction=r, label_smoothing=0.1
    ),
    "nll_loss": lambda x, y, r: F.nll_loss(x, y, reduction=r),
    "nll_loss of log_softmax": lambda x, y, r: F.nll_loss(F.log_softmax(x), y, reduction=r),
    "weighted nll_loss": lambda x, y, r: F.nll_loss(x, y, [0.5, 1.0, 2.0, 3.0], reduction=r),
}


@pytest.mark.parametrize("bad", [math.nan, INF, -INF])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("name", IGNORING)
def test_a_row_that_does_not_count_may_hold_anything(name: str, reduction: str, bad: float) -> None:
    loss, x = IGNORING[name], floats(3, 4)
    x[1] = [bad, 0.5, bad, 1.0]
    rest, label = np.delete(x, 1, 0), np.array([2, -100, 1])
    expected, slope = phix.value_and_grad(lambda v: loss(v, np.array([2, 1]), reduction))(rest)
    for make in (lambda f: f, phix.jit):
        found, gradient = make(phix.value_and_grad(lambda v: loss(v, label, reduction)))(x)
        close(found, expected.numpy())
        if "log_softmax" not in name:  # whose own derivative there has no number
            close(gradient.numpy()[[0, 2]], slope.numpy())
            assert not gradient.numpy()[1].any()


@pytest.mark.parametrize("bad", [math.nan, INF, -INF])
def test_an_element_that_does_not_count_may_hold_anything(bad: float) -> None:
    loss = lambda x: phix.ops.sigmoid_cross_entropy_with_logits(x, np.array([-100.0, 1.0])).sum()  # noqa: E731
    value, gradient = phix.value_and_grad(loss)(np.array([bad, 0.5]))
    close(value, np.log1p(np.exp(-0.5)))
    close(gradient, [0.0, -sp.expit(-0.5)])


X, Y = np.zeros((4, 5)), np.array([0, 4, 2, 1])
Q = np.full(5, 0.5)
OF_ANY_SIZE = phix.jit(
    lambda q, w: F.binary_cross_entropy(q, 1.0, w),
    input_spec=[phix.spec(["n"], "float64"), phix.spec(["k"], "float64")],
)
BAD: list[tuple[Callable[[], Any], type[PhixError], str]] = [
    (lambda: F.cross_entropy(X, Y * 0, [1.0, 2.0]), ShapeError, r"weight.*class, \[5\], found"),
    (lambda: F.cross_entropy(X, Y, np.ones(9)), ShapeError, "each class"),
    (lambda: F.cross_entropy(X, Y, np.ones((5, 1))), ShapeError, "each class"),
    (lambda: phix.jit(F.cross_entropy)(X, Y, np.ones(3)), ShapeError, "each class"),
    (lambda: F.cross_entropy(X, X + 0.2, [2.0], soft_label=True), ShapeError, "each class"),
    (lambda: F.nll_loss(X, Y, np.ones(4)), ShapeError, "nll_loss: weight.*each class"),
    (lambda: F.nll_loss(X, Y * 1.0), DTypeError, "nll_loss: label holds class numbers.*cast it"),
    (lambda: F.cross_entropy(X, Y * 1.0, label_smoothing=0.1), DTypeError, "which are ints"),
    (lambda: F.cross_entropy(X, Y * 1.0), DTypeError, "class numbers"),
    (lambda: F.nll_loss(X[:, :, None], Y), ShapeError, "nll_loss: label has the shape"),
    (lambda: F.cross_entropy(X, Y, label_smoothing=1.5), ArgumentError, "from 0 to 1, found 1.5"),
    (lambda: F.cross_entropy(X, Y, label_smoothing=-1.0), ArgumentError, "from 0 to 1"),
    (lambda: F.cross_entropy(X, Y, label_smoothing=np.float32(1.5)), ArgumentError, "from 0 to 1"),
    (lambda: F.smooth_l1_loss(X, X, delta=np.float32(-1.0)), ArgumentError, "above 0"),
    (lambda: F.smooth_l1_loss(X, X, delta=0.0), ArgumentError, "above 0, found 0.0; write l1_loss"),
    (lambda: F.binary_cross_entropy(X, X[0]), ShapeError, "shape of the input"),
    (lambda: F.binary_cross_entropy(Q, Q, Q[:, None]), ShapeError, r"weight broadcasts to \[5\]"),
    (lambda: F.binary_cross_entropy(Q[:1], Q[:1], Q), ShapeError, r"weight broadcasts to \[1\]"),
    (lambda: phix.jit(F.binary_cross_entropy_with_logits)(Q, Q, Q[:, None]), ShapeError, "weight"),
    (lambda: F.binary_cross_entropy_with_logits(Q, Q, None, "none", Q[:, None]), ShapeError,
     r"pos_weight broadcasts to \[5\]"),
    (lambda: OF_ANY_SIZE(Q, np.ones(3)), ShapeError, "weight broadcasts to"),
    (lambda: F.binary_cross_entropy_with_logits(X[:, :1], X[:, 0]), ShapeError, "reshape it"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_calls_are_refused(number: int) -> None:
    call, error, text = BAD[number]
    with pytest.raises(error, match=text):
        call()


def test_weights_of_elements_broadcast_to_the_loss() -> None:
    q, y = floats(3, 4, low=0.1, high=0.9), floats(3, 4, low=0.0, high=1.0)
    plain = -(y * np.log(q) + (1 - y) * np.log1p(-q))
    for shape in ([3, 4], [4], [3, 1], [1, 1], [1], []):
        w = np.asarray(floats(*shape, low=0.5, high=2.0))
        close(F.binary_cross_entropy(q, y, w, "none"), plain * w)
        close(F.binary_cross_entropy_with_logits(sp.logit(q), y, w, "none"), plain * w)
        positive = -(w * y * np.log(q) + (1 - y) * np.log1p(-q))
        close(F.binary_cross_entropy_with_logits(sp.logit(q), y, None, "none", w), positive)
    for n in (1, 3):
        ones = np.ones(n)
        close(OF_ANY_SIZE(ones * 0.5, ones * 2), 2 * np.log(2))


def test_one_label_for_all_elements() -> None:
    x = floats(3, 2)
    close(F.binary_cross_entropy_with_logits(x, 1.0), -sp.log_expit(x).mean())
