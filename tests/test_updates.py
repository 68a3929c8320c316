"""Puts at one place of each row of a constant, made in the loops of their readers."""

from __future__ import annotations

import numpy as np
import pytest

import phix
from phix import ops
from phix.core import rewrites
from phix.kernels.lowering.accumulation import accumulated

pytestmark = pytest.mark.unoptimised

SHAPE, AXIS = (4, 5, 3), 1
PLACES = np.array([[0, 4, -1], [2, -5, 1], [3, 3, 3], [1, 0, 2]])[:, None]
# reduce -> what NumPy makes of the value there and the one that comes
REDUCTIONS = {
    "assign": lambda old, new: new, "add": np.add, "mul": np.multiply,
    "amax": np.maximum, "amin": np.minimum,
}  # fmt: skip
VALUES = {
    "float32": np.array([1.5, -2.0, np.nan, np.inf, -0.0, 7.25], "float32"),
    "float16": np.array([1.5, -2.0, 0.25, 3.0], "float16"),
    "int32": np.array([3, -4, 2**30, 0], "int32"),
    "complex64": np.array([1 + 2j, -3.5j], "complex64"),
}


def put(fill, values, reduce, include_self):
    wanted = np.full(SHAPE, fill, values.dtype)
    i, k = np.indices((SHAPE[0], SHAPE[2]))
    at = (i, PLACES[:, 0], k)
    new = np.broadcast_to(values, PLACES.shape)[:, 0]
    combine = REDUCTIONS[reduce] if include_self else REDUCTIONS["assign"]
    wanted[at] = combine(wanted[at], new)
    return wanted


def kernels(function, *args):
    text = phix.jit(function).lower(*args).as_text("loop ir")
    return text.count("\n  kernel ")


# complex numbers have no order
KINDS = [
    (d, r) for d in VALUES for r in REDUCTIONS if d != "complex64" or r not in ("amax", "amin")
]


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dtype, reduce", KINDS)
def test_a_put_into_a_constant_is_pointwise(dtype, reduce, include_self):
    values = np.resize(VALUES[dtype], PLACES.shape)

    def function(places, values):
        base = ops.full(SHAPE, 2, dtype)
        return ops.put_along_axis(base, places, values, AXIS, reduce, include_self)

    wanted = put(2, values, reduce, include_self)
    np.testing.assert_array_equal(phix.jit(function)(PLACES, values), wanted)
    np.testing.assert_array_equal(function(PLACES, values), wanted)
    apart = phix.jit(function, disable="put_as_choice")
    np.testing.assert_array_equal(apart(PLACES, values), wanted)
    assert kernels(function, PLACES, values) == 1
    assert apart.lower(PLACES, values).as_text("loop ir").count("\n  kernel ") > 1


def test_several_places_in_a_row_are_written_one_after_the_other():
    places = np.array([[1, 1], [0, 2]])

    def function(places):
        return ops.put_along_axis(ops.full([2, 3], 0.0), places, ops.full([1, 1], 5.0), 1, "add")

    np.testing.assert_array_equal(phix.jit(function)(places), [[0, 10, 0], [5, 0, 5]])


def test_a_put_that_is_added_to_a_tensor_still_goes_in_place():
    def function(x, places, values):
        put = ops.put_along_axis(phix.zeros_like(x), places, values, 1, "add")
        return ops.exp(x) + put

    x, places, values = np.ones((3, 4), "f"), np.array([[0], [3], [1]]), np.ones((3, 1), "f")
    wanted = np.exp(x)
    np.add.at(wanted, (np.arange(3), places[:, 0]), 1.0)
    np.testing.assert_allclose(phix.jit(function)(x, places, values), wanted, rtol=1e-6)


@pytest.mark.parametrize("is_first", [False, True])
def test_what_is_added_to_zeros_and_to_a_tensor_is_added_to_the_tensor(is_first):
    def function(x, y):
        wide = ops.pad(y, [0, 0, 1, 2], 0.0)
        return wide + ops.exp(x) if is_first else ops.exp(x) + wide

    x, y = np.arange(12.0).reshape(3, 4), np.arange(3.0).reshape(3, 1)
    np.testing.assert_allclose(phix.jit(function)(x, y), np.exp(x) + np.pad(y, ((0, 0), (1, 2))))
    graph = phix.make_graph(function)(x, y)
    assert [e.op.name for e in accumulated(graph).equations] == ["exp", "slice_put"]
    with rewrites.without(frozenset({"scatter_in_place"})):
        assert accumulated(graph) is graph


def test_unknown_dims():
    one_hot = phix.jit(
        lambda places, x: ops.put_along_axis(ops.full(x.shape, 0.0), places, x[:, :1], 1, "add"),
        input_spec=[phix.spec(["n", 1], "int64"), phix.spec(["n", "m"])],
    )
    for n, m in ((3, 4), (1, 1), (0, 5), (6, 2)):
        x = np.random.default_rng(n).standard_normal((n, m)).astype("f") + 3
        places = np.arange(n)[:, None] % m
        wanted = np.where(np.arange(m) == places, x[:, :1], 0)
        np.testing.assert_array_equal(one_hot(places, x), wanted)


# -- one element padded to a row -----------------------------------------------------------------
@pytest.mark.parametrize("dtype", VALUES)
@pytest.mark.parametrize("place", [0, 2, 4])
def test_one_element_padded_to_a_row_is_pointwise(dtype, place):
    x = np.resize(VALUES[dtype], (3, 7, 1))
    paddings = [0, 0, 0, 0, place, 4 - place]

    def function(x):
        return ops.pad(x * x, paddings[-2 * x.ndim :], 2.0) + x

    wanted = np.pad(x * x, [(0, 0), (0, 0), paddings[4:]], constant_values=2) + x
    apart = phix.jit(function, disable="put_as_choice")
    for found in (phix.jit(function)(x), function(x), apart(x)):
        np.testing.assert_array_equal(found, wanted)
    many = phix.jit(phix.vmap(function, in_axes=1, out_axes=1))(x)
    np.testing.assert_array_equal(many, wanted)
    assert "temp" not in phix.jit(function).lower(x).as_text("loop ir")
    assert "temp" in apart.lower(x).as_text("loop ir")


@pytest.mark.parametrize(
    "paddings",
    [[0, 0, -1, 3], [1, 0, 2, 2], [2, 0, 0, 0], [0, 0, 0, 0]],
    ids=["cut", "along two axes", "along another axis", "by nothing"],
)
def test_other_paddings_have_their_values(paddings):
    x = np.arange(1.0, 6.0)[:, None]
    wanted = np.zeros((5 + paddings[0], 1 + sum(paddings[2:])))
    if min(paddings) >= 0:
        wanted[paddings[0] :, paddings[2]] = x[:, 0]
    found = phix.jit(lambda x: ops.exp(ops.pad(x, paddings, 0.0)))(x)
    np.testing.assert_allclose(found, np.exp(wanted))


def test_a_padded_element_that_memory_is_made_for_fills_it_at_once():
    """What a result or a product reads is no choice."""

    def function(x, w):
        wide = ops.pad(x, [0, 0, 1, 2], 0.0)
        return wide, ops.pad(x + 1.0, [0, 0, 0, 3], 0.0) @ w

    x, w = np.arange(5.0)[:, None], np.arange(8.0).reshape(4, 2)
    assert "select" not in phix.jit(function).lower(x, w).as_text("loop ir")
    wide, product = phix.jit(function)(x, w)
    np.testing.assert_array_equal(wide, np.pad(x, ((0, 0), (1, 2))))
    np.testing.assert_allclose(product, (x + 1.0) * w[0])


def test_padded_elements_of_rows_of_unknown_sizes():
    def function(x, y):
        return ops.exp(x) + phix.grad(lambda y: ops.sum(ops.sin(y)[:, 0]))(y)

    spec = [phix.spec(["n", "m"], "float64")] * 2
    unknown = phix.jit(function, input_spec=spec)
    for n, m in ((3, 4), (1, 1), (2, 1), (6, 2)):
        x = np.random.default_rng(n).standard_normal((n, m))
        np.testing.assert_allclose(unknown(x, x), np.exp(x) + np.cos(x) * (np.arange(m) == 0))


@pytest.mark.parametrize("size", [2, 5, 7, 10, 16, 31])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_of_one_class(size, dtype):
    """Whose rows are gone through in blocks where that pays, with no array beside them."""
    x = np.random.default_rng(size).standard_normal((150, size)).astype(dtype)
    x[3, 1], x[7] = 100.0, -1e4
    wide = x.astype(np.longdouble)
    p = np.exp(wide - wide.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    one = np.eye(size, dtype=dtype)[1]
    cases = {ops.log_softmax: one - p, ops.softmax: p[:, 1:2] * (one - p)}
    for op, wanted in cases.items():
        slope = phix.grad(lambda x: ops.sum(op(x, 1)[:, 1]))  # noqa: B023
        text = phix.jit(slope).lower(x).as_text("loop ir")
        assert f"[150, {size}]" not in text.partition("{")[2]
        unknown = phix.jit(slope, input_spec=[phix.spec(["n", size], dtype)])
        atol = 30 * np.finfo(dtype).eps
        for found in (phix.jit(slope)(x), unknown(x), unknown(x[:100])):
            np.testing.assert_allclose(np.asarray(found), wanted[: len(found)], atol, atol)


def cross_entropy(x, labels):
    return phix.nn.functional.cross_entropy(x, labels)


def picked(x, labels):
    return -ops.mean(ops.log_softmax(x)[phix.arange(x.shape[0]), labels])


@pytest.mark.parametrize("loss", [cross_entropy, picked])
def test_a_loss_of_classes_and_its_gradient_read_the_rows_once(loss):
    rng = np.random.default_rng(0)
    x, labels = rng.standard_normal((40, 30)).astype("f"), rng.integers(0, 30, 40)
    step = phix.jit(phix.value_and_grad(loss))
    value, gradient = step(x, labels)
    p = np.exp(x.astype("d"))
    p /= p.sum(1, keepdims=True)
    np.testing.assert_allclose(value, -np.log(p[np.arange(40), labels]).mean(), rtol=1e-6)
    p[np.arange(40), labels] -= 1
    np.testing.assert_allclose(gradient, p / 40, atol=1e-8)
    text = step.lower(x, labels).as_text("loop ir")
    assert "[40, 30]" not in text.partition("{")[2]  # memory for rows and single numbers alone
    assert sum("x0[" in kernel for kernel in text.split("\n  kernel ")[1:]) == 1
