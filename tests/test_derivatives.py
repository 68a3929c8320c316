"""Derivatives as linear functions and arrays: linearize, transposes, Jacobians, Hessians."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest

import phix
from phix import ops
from phix.core.errors import ArgumentError, DifferentiationError, ShapeError

pytestmark = pytest.mark.unoptimised

X = np.arange(1.0, 4.0)


def _running_product(x):
    return phix.scan(lambda c, v: (c * v, ops.sin(c)), 1.0, x)


def _grown(x):
    return phix.while_loop(lambda v: ops.sum(v) < 50.0, lambda v: v * v, x)


FUNCTIONS = {
    "pointwise": lambda x: ops.sin(x) * x,
    "matmul": lambda x: ops.matmul(ops.reshape(x, (3, 1)), ops.reshape(x, (1, 3))),
    "scan": lambda x: _running_product(x)[1],
    "while": _grown,
    "cond": lambda x: phix.cond(x[0] > 0, ops.exp, ops.sin, x),
    "jitted": phix.jit(lambda x: ops.tanh(x) * 2.0),
    "checkpoint": phix.checkpoint(lambda x: ops.exp(ops.sin(x))),
    "constant": lambda x: ops.floor(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_linearize_agrees_with_jvp(name, rng):
    f = FUNCTIONS[name]
    x, t = X + 0.25, rng.normal(size=3)
    out, f_jvp = phix.linearize(f, x)
    expected, tangent = phix.jvp(f, (x,), (t,))
    np.testing.assert_allclose(out, expected)
    np.testing.assert_allclose(f_jvp(t), tangent, rtol=1e-12)
    np.testing.assert_allclose(phix.jit(f_jvp)(t), tangent, rtol=1e-12)
    np.testing.assert_allclose(phix.vmap(f_jvp)(np.stack([t, 2 * t]))[1], 2 * tangent.numpy())


def test_linearize_computes_nothing_of_the_primal_again():
    _, f_jvp = phix.linearize(lambda x: ops.exp(ops.sin(x)), X)
    names = {e.op.name for e in phix.make_graph(f_jvp)(phix.spec([3], "float64")).equations}
    assert names == {"multiply"}


def test_linearize_of_python_control_flow_of_trees_and_inside_grad():
    def f(p, y):
        return {"a": p["w"] * y if y > 1 else p["w"]}, y

    out, f_jvp, aux = phix.linearize(f, {"w": np.float64(2.0)}, np.float64(3.0), has_aux=True)
    assert out["a"].item() == 6.0 and aux.item() == 3.0
    assert f_jvp({"w": np.float64(1.0)}, np.float64(10.0))["a"].item() == 3.0 + 20.0
    second = phix.grad(lambda x: phix.linearize(lambda x: x**3, x)[1](1.0))
    assert second(2.0).item() == 12.0
    with pytest.raises(ShapeError, match="tangent"):
        phix.linearize(ops.sin, X)[1](np.ones(2))


AFFINE = [
    lambda x: 2 * x + 1,
    lambda x: 1 - x,
    lambda x: (2 * x, x + 1),
    lambda x: ops.full([3], 2.0),
    lambda x: ops.concat([x, ops.full([1], 1.0)]),
    phix.jit(lambda x: 3 * x - 0.5),
]


@pytest.mark.parametrize("number", range(len(AFFINE)))
def test_the_transpose_of_an_affine_function_is_refused(number):
    for x in (phix.spec([3]), phix.to_tensor([1.0, 2.0, 3.0])):
        with pytest.raises(DifferentiationError, match="adds something to what is linear"):
            phix.linear_transpose(AFFINE[number], x)


def test_the_transpose_of_what_adds_zeros_is_right():
    padded = phix.linear_transpose(lambda x: ops.concat([x + 0.0, phix.zeros([1])]), phix.spec([2]))
    assert padded(phix.to_tensor([1.0, 2.0, 3.0]))[0].tolist() == [1, 2]
    nothing = phix.linear_transpose(lambda x: 0 * x, phix.spec([2]))
    assert nothing(phix.to_tensor([1.0, 2.0]))[0].tolist() == [0, 0]


K = np.array([1.0, 2.0, 3.0])
LINEAR = {
    "a convolution": lambda x: phix.numpy.convolve(x, K),
    "images": lambda x: ops.conv2d(ops.reshape(x, [1, 1, 2, 3]), np.ones((1, 1, 2, 2))),
    "a branch": lambda x: phix.cond(phix.to_tensor(K)[0] > 0, lambda x: 2 * x, lambda x: 3 * x, x),
    "a switch": lambda x: phix.switch(1, [lambda x: x, lambda x: 2 * x], x),
    "turns": lambda x: phix.while_loop(lambda s: s[1] < 3, lambda s: (2 * s[0], s[1] + 1), (x, 0))[
        0
    ],
    "counted turns": lambda x: phix.fori_loop(0, 3, lambda i, s: 2 * s[::-1] * i, x),
    "a scan": lambda x: phix.scan(lambda c, k: (c + k * x, 0.5 * c), 0 * x, phix.to_tensor(K)),
    "lanes": lambda x: phix.vmap(lambda x, p: phix.cond(p, lambda x: 2 * x, lambda x: 0.0 * x, x))(
        x, np.arange(6) > 2
    ),
}
NOT_LINEAR = {
    "a choice": lambda x: phix.cond(x[0] > 0, lambda x: 2 * x, lambda x: 3 * x, x),
    "an end": lambda x: phix.while_loop(lambda s: ops.sum(s) < 30, lambda s: 2 * s, x),
    "powers": lambda x: phix.fori_loop(0, 3, lambda i, s: s * x, x),
    "products of carries": lambda x: phix.scan(
        lambda c, _: ((c[0] + 1, c[0] * c[1]), None), (x, x), None, length=2
    )[0][1],
    "a convolution with itself": lambda x: phix.numpy.convolve(x, x),
    "the number of turns": lambda x: phix.fori_loop(
        0, ops.cast(x[0], "int64"), lambda i, s: 2 * s, x
    ),
}


@pytest.mark.parametrize("kind", LINEAR)
def test_transposes_through_branches_loops_and_products(kind):
    f, x = LINEAR[kind], np.random.default_rng(0).normal(size=6)
    out = phix.tree.map(
        lambda t: np.cos(1.0 + np.arange(t.size)).reshape(t.shape), f(phix.to_tensor(x))
    )
    pairs = zip(phix.tree.leaves(out), phix.tree.leaves(phix.jacfwd(f)(x)), strict=True)
    expected = sum(np.tensordot(ct, j.numpy(), ct.ndim) for ct, j in pairs)
    (found,) = phix.linear_transpose(f, phix.spec([6], "float64"))(out)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("kind", NOT_LINEAR)
def test_transposes_of_what_is_not_linear_inside_are_refused(kind):
    with pytest.raises(DifferentiationError, match="is not linear in its arguments"):
        phix.linear_transpose(NOT_LINEAR[kind], phix.spec([6], "float64"))


def test_linear_transposes_inside_other_transformations():
    def twice(w):
        return phix.linear_transpose(lambda x: w * x, phix.spec([2]))(phix.ones([2]))[0]

    assert phix.jit(twice)(phix.to_tensor(3.0)).tolist() == [3, 3]
    assert phix.grad(lambda w: ops.sum(twice(w)))(phix.to_tensor(3.0)).item() == 2
    assert phix.vmap(twice)(phix.to_tensor([1.0, 2.0])).tolist() == [[1, 1], [2, 2]]


def test_linear_transpose():
    w = np.random.default_rng(0).normal(size=(4, 3))
    transpose = phix.linear_transpose(lambda x: {"y": ops.matmul(w, x)}, phix.spec([3], "float64"))
    ct = np.arange(4.0)
    np.testing.assert_allclose(transpose({"y": ct})[0], w.T @ ct)
    np.testing.assert_allclose(phix.jit(transpose)({"y": ct})[0], w.T @ ct)
    with pytest.raises(DifferentiationError, match="not linear"):
        phix.linear_transpose(ops.sin, X)
    with pytest.raises(ArgumentError, match="linear_transpose"):
        transpose(ct)


def _pair(p, y):
    return {"u": p["a"][:, None] * y, "v": ops.sum(p["a"]) * y}


@pytest.mark.parametrize("jacobian", [phix.jacfwd, phix.jacrev])
def test_jacobians_of_trees(jacobian):
    y = np.array([1.0, 2.0])
    found = jacobian(_pair, argnums=(0, 1))({"a": X}, y)
    u_a = np.einsum("ik,j->ijk", np.eye(3), y)
    np.testing.assert_allclose(found["u"][0]["a"], u_a)
    np.testing.assert_allclose(found["u"][1], np.einsum("i,jk->ijk", X, np.eye(2)))
    np.testing.assert_allclose(found["v"][0]["a"], np.outer(y, np.ones(3)))
    np.testing.assert_allclose(found["v"][1], X.sum() * np.eye(2))
    single = jacobian(_pair)({"a": X}, y)
    np.testing.assert_allclose(single["u"]["a"], u_a)
    with_aux, aux = jacobian(lambda x: (x * x, {"x": x}), has_aux=True)(X)
    np.testing.assert_allclose(with_aux, np.diag(2 * X))
    np.testing.assert_allclose(aux["x"], X)
    np.testing.assert_allclose(phix.jit(jacobian(lambda x: x**3))(X), np.diag(3 * X**2))


def test_hessian_and_hvp():
    f = lambda x, y: ops.sum(x**3) * y  # noqa: E731
    y = np.float64(2.0)
    np.testing.assert_allclose(phix.hessian(f)(X, y), np.diag(12 * X))
    blocks = phix.hessian(f, argnums=(0, 1))(X, y)
    np.testing.assert_allclose(blocks[0][1], 3 * X**2)
    np.testing.assert_allclose(blocks[1][0], 3 * X**2)
    np.testing.assert_allclose(blocks[1][1], 0.0)
    v, s = np.ones(3), np.float64(0.5)
    by_x, by_y = phix.hvp(f, (X, y), (v, s))
    np.testing.assert_allclose(by_x, 12 * X + 3 * X**2 * 0.5)
    np.testing.assert_allclose(by_y, np.sum(3 * X**2))
    np.testing.assert_allclose(phix.hvp(lambda x: f(x, y), (X,), (v,)), 12 * X)
    scan = lambda x: ops.sum(_running_product(x)[1])  # noqa: E731
    product = phix.hessian(scan)(X).numpy() @ v
    np.testing.assert_allclose(phix.hvp(scan, (X,), (v,)), product, atol=1e-12)


def test_stop_gradient():
    tree = {"a": np.float64(3.0)}
    f = lambda t: t["a"] * phix.stop_gradient(t)["a"]  # noqa: E731
    for g in (phix.grad(f), phix.jit(phix.grad(f)), phix.grad(phix.jit(f))):
        assert g(tree)["a"].item() == 3.0
    assert phix.jvp(f, (tree,), (tree,))[1].item() == 9.0
    np.testing.assert_allclose(phix.vmap(phix.grad(lambda x: x * phix.stop_gradient(x)))(X), X)


def test_eval_shape():
    found = phix.eval_shape(lambda x, *, k: {"y": x @ x * k}, phix.spec(["n", "n"]), k=2.0)
    assert str(found["y"]) == "float32[n, n]"


# -- equal calls under reverse mode --------------------------------------------------------------
def _tangents(function, times):
    for _ in range(times):
        function = functools.partial(_tangent, function)
    return function


def _tangent(function, x, *rest):
    along = ops.full(x.shape, 1.0, x.dtype)
    return phix.jvp(lambda at: function(at, *rest), (x,), (along,))[1]


def test_nested_tangents_are_differentiated_once():
    """The 2^n tangents of tangents of tanh(sin(x) w) are n + 1 derivatives, one product each."""
    f = lambda x, w: ops.tanh(ops.sin(x) @ w)  # noqa: E731
    x, w = X[:, None], np.full((1, 2), 0.5)

    def products(n, **options):
        loss = lambda w: ops.sum(_tangents(f, n)(x, w))  # noqa: E731
        lowered = phix.jit(phix.grad(loss), **options).lower(w)
        return lowered.as_text("graph: traced").count("= matmul(")

    counts = [products(n) for n in (1, 2, 3, 4)]
    assert counts == [4, 6, 8, 10]  # and for each the product that is its gradient
    assert products(4, disable="common_subexpressions") == 32


@pytest.mark.parametrize("order", [1, 2, 3])
def test_gradient_of_nested_tangents(order):
    """d/dw of d^n/dx^n sin(w x) = w^n sin(w x + n pi/2)."""
    derived = _tangents(lambda x, w: ops.sin(w * x), order)
    loss = lambda w: ops.sum(derived(phix.to_tensor(X), w))  # noqa: E731
    w, shift = 0.7, order * np.pi / 2
    inside = w * X + shift
    wanted = order * w ** (order - 1) * np.sin(inside) + w**order * X * np.cos(inside)
    for gradient in (phix.grad(loss), phix.jit(phix.grad(loss))):
        np.testing.assert_allclose(gradient(np.float64(w)), wanted.sum(), rtol=1e-10)


def test_operands_change_places_only_where_derivatives_allow_it():
    def f(op):
        return lambda x, y: (op(x, y) * 2.0 + op(y, x) * 3.0).sum()

    tie = np.ones(2)
    for op, wanted in ((ops.multiply, (5, 5)), (ops.fmax, (2, 3)), (ops.maximum, (2.5, 2.5))):
        gradient = phix.jit(phix.grad(f(op), argnums=(0, 1)))(tie, tie)
        assert [g.tolist() for g in gradient] == [[w, w] for w in map(float, wanted)], op
    traced = phix.make_graph(phix.value_and_grad(f(ops.multiply)))(tie, tie)
    both = [e for e in traced.equations if set(e.inputs) == set(traced.inputs)]
    assert [e.op.name for e in both] == ["multiply"]


def test_equal_values_end_one_by_one():
    """An op that works in place ends the tensor it is given, and no other of the same value."""

    def f(x, y):
        first, second = ops.sin(x), ops.sin(x)
        cosines = ops.cos(y), ops.cos(y)
        total = ops.relu_(first) + second + ops.relu_(cosines[0]) * cosines[1]
        return (total + ops.sin(x) + ops.cos(y)).sum()

    gradient = phix.jit(phix.grad(f))(X, X)
    np.testing.assert_allclose(gradient, np.cos(X) * (2 + (np.sin(X) > 0)))


# -- trees -----------------------------------------------------------------------------------
def test_registered_dataclass_goes_through_transformations():
    @phix.tree.register_dataclass(meta_fields=["name"])
    @dataclasses.dataclass
    class Layer:
        w: object
        b: object
        name: str = "layer"

    layer = Layer(np.float64(2.0), np.float64(1.0))
    f = lambda layer, x: layer.w * x + layer.b  # noqa: E731
    gradient = phix.jit(phix.grad(f))(layer, 3.0)
    assert (gradient.w.item(), gradient.b.item(), gradient.name) == (3.0, 1.0, "layer")
    mapped = phix.vmap(f)(Layer(X, X), X)
    np.testing.assert_allclose(mapped, X * X + X)
    with pytest.raises(ArgumentError, match="takes a dataclass"):
        phix.tree.register_dataclass(int)
    with pytest.raises(ArgumentError, match="name each once"):
        phix.tree.register_dataclass(Layer, data_fields=["w"], meta_fields=["name"])


def test_aligned_trees():
    like = {"a": (1, 2), "b": [3]}
    assert phix.tree.aligned({"a": None, "b": [5]}, like, "it") == [None, None, 5]
    assert phix.tree.aligned({"a": (4, None), "b": None}, like, "it") == [4, None, None]
    for wrong in ({"a": (1, 2)}, {"a": [1, 2], "b": [3]}, {"a": (1, 2), "b": [3, 4]}):
        with pytest.raises(ArgumentError, match="it must give a tree"):
            phix.tree.aligned(wrong, like, "it")


# -- derivatives inside derivatives ----------------------------------------------------------------
def _forward(f, x):
    return phix.jvp(f, (x,), (ops.full_like(x, 1.0),))[1]


SLOPES = {"jvp": _forward, "grad": lambda f, x: phix.grad(f)(x)}


@pytest.mark.parametrize("inner", SLOPES)
@pytest.mark.parametrize("outer", SLOPES)
def test_the_outer_variable_is_a_constant_of_the_inner_derivative(outer, inner):
    """d/dx of x * d/dy (x y + sin(x) y y) at y = 2: each derivative sees its own variable alone."""

    def f(x):
        return x * SLOPES[inner](lambda y: x * y + ops.sin(x) * y * y, ops.full_like(x, 2.0))

    x = 0.7  # f(x) = x (x + 4 sin(x))
    wanted = 2 * x + 4 * np.sin(x) + 4 * x * np.cos(x)
    found = SLOPES[outer](f, np.float64(x))
    np.testing.assert_allclose(found, wanted, rtol=1e-13)
    twice = SLOPES[outer](lambda x: SLOPES[outer](f, x), np.float64(x))
    np.testing.assert_allclose(twice, 2 + 8 * np.cos(x) - 4 * x * np.sin(x), rtol=1e-13)


def test_a_value_that_only_the_outer_derivative_knows_is_one_of_the_inner_loop():
    """An op of the inner derivative whose operands are of the outer one alone, beside its own."""

    def f(x):
        def g(y):
            return ops.concat([x * x, y * 3.0, ops.exp(x)], 0)

        return _forward(g, x) * ops.concat([x, x, x], 0)

    x = np.array([0.5])
    np.testing.assert_allclose(_forward(f, x), [0.0, 3.0, 0.0], rtol=1e-13, atol=1e-13)
