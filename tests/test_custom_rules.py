"""custom_vjp and custom_jvp: either serves both modes, under every other transformation."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import phix
from phix import ops
from phix.core.errors import ArgumentError, DifferentiationError, GraphError, ShapeError

pytestmark = pytest.mark.unoptimised

X = np.arange(1.0, 4.0)
X0 = np.float64(0.7)


def by_vjp():
    """sin, with three times its derivative."""

    @phix.custom_vjp
    def f(x):
        return ops.sin(x)

    f.defvjp(lambda x: (ops.sin(x), ops.cos(x)), lambda c, ct: (3.0 * c * ct,))
    return f


def by_jvp():
    @phix.custom_jvp
    def f(x):
        return ops.sin(x)

    @f.defjvp
    def rule(primals, tangents):
        return ops.sin(primals[0]), 3.0 * ops.cos(primals[0]) * tangents[0]

    return f


@pytest.fixture(params=[by_vjp, by_jvp], ids=["vjp", "jvp"])
def f(request):
    return request.param()


def forward(f):
    return lambda x: phix.jvp(f, (x,), (ops.full(x.shape, 1.0, x.dtype),))[1]


def test_value_and_both_modes(f):
    assert f(X0).item() == np.sin(X0)
    for mode in (phix.grad, forward):
        for run in (mode(f), phix.jit(mode(f)), mode(phix.jit(f))):
            assert run(X0).item() == pytest.approx(3 * np.cos(X0), rel=1e-12)


@pytest.mark.parametrize("outer", [phix.grad, forward])
@pytest.mark.parametrize("inner", [phix.grad, forward])
def test_second_order_differentiates_the_rule(f, outer, inner):
    second = outer(inner(f))
    for run in (second, phix.jit(second)):
        assert run(X0).item() == pytest.approx(-3 * np.sin(X0), rel=1e-12)


def test_under_vmap(f):
    for mode in (phix.grad, forward):
        expected = 3 * np.cos(X)
        np.testing.assert_allclose(phix.vmap(mode(f))(X), expected)
        np.testing.assert_allclose(phix.jit(phix.vmap(mode(f)))(X), expected)
    np.testing.assert_allclose(phix.grad(lambda x: ops.sum(phix.vmap(f)(x)))(X), expected)
    np.testing.assert_allclose(forward(phix.vmap(f))(X), expected)
    twice = phix.vmap(phix.vmap(phix.grad(f)))(np.stack([X, -X]))
    np.testing.assert_allclose(twice, 3 * np.cos(np.stack([X, X])))


def test_under_scan_and_checkpoint(f):
    loop = lambda x: phix.scan(lambda c, _: (f(c), None), x, length=2)[0]  # noqa: E731
    expected = 9 * np.cos(np.sin(X0)) * np.cos(X0)
    for run in (phix.grad(loop), forward(loop), phix.jit(phix.grad(loop)), phix.jit(forward(loop)),
                phix.grad(phix.checkpoint(lambda x: f(f(x))))):  # fmt: skip
        assert run(X0).item() == pytest.approx(expected, rel=1e-12)


def test_one_mapped_argument_and_one_whole():
    @phix.custom_vjp
    def product(x, y):
        return x * y

    product.defvjp(lambda x, y: (x * y, (x, y)), lambda res, ct: (ct * res[1], 10.0 * ct * res[0]))
    total = lambda y: ops.sum(phix.vmap(product, in_axes=(0, None))(X, y))  # noqa: E731
    assert phix.grad(total)(2.0).item() == 10 * X.sum()
    lanes = phix.vmap(phix.grad(product, argnums=(0, 1)), in_axes=(0, None))(X, np.float64(2.0))
    np.testing.assert_allclose(lanes[0], [2.0] * 3)
    np.testing.assert_allclose(lanes[1], 10 * X)


def test_trees_nondiff_arguments_and_keywords():
    @functools.partial(phix.custom_vjp, nondiff_argnums=(1,))
    def f(p, n, scale=1.0):
        return {"a": p["w"] * n["k"] * scale, "b": p["v"]}

    def backward(n, residuals, ct):
        return {"w": 10.0 * ct["a"] * n["k"], "v": None}, None

    f.defvjp(lambda p, n, scale: (f(p, n, scale), None), backward)
    loss = lambda p: f(p, {"k": 2}, scale=3.0)["a"] + f(p, n={"k": 1})["b"]  # noqa: E731
    gradient = phix.grad(loss)({"w": X0, "v": X0})
    assert gradient["w"].item() == 20.0 and gradient["v"].item() == 0.0

    @functools.partial(phix.custom_jvp, nondiff_argnums=(0,))
    def apply(g, x):
        return g(x)

    apply.defjvp(lambda g, primals, tangents: (g(primals[0]), 5.0 * tangents[0]))
    assert phix.grad(lambda x: apply(ops.sin, x))(X0).item() == 5.0


def test_defjvps_and_ints():
    @phix.custom_jvp
    def power(x, n):
        return x**2 * n

    power.defjvps(lambda t, out, x, n: 2.0 * t * x * n, None)
    three = np.int64(3)
    assert phix.grad(power)(X0, three).item() == pytest.approx(6 * X0)
    assert phix.vmap(phix.grad(power), in_axes=(0, None))(X, three)[1].item() == 12.0


def test_equal_rules_share_programs():
    f = by_vjp()
    make = lambda: phix.make_graph(lambda x: f(x) * 2.0)(phix.spec([]))  # noqa: E731
    g = by_vjp()
    other = phix.make_graph(lambda x: g(x) * 2.0)(phix.spec([]))
    assert make() == make() and hash(make()) == hash(make())
    assert make().text == other.text and make() != other


def test_graph_text_names_the_rule_and_does_not_parse():
    for make, op in ((by_jvp, "custom_jvp_call"), (by_vjp, "custom_vjp_call")):
        text = str(phix.make_graph(make())(phix.spec([])))
        assert f"= {op}([x]" in text and "rule=object(f)" in text
    with pytest.raises(GraphError, match=r"Python object 'f'.*trace the function again"):
        phix.parse_graph(text)


def test_errors():
    bare = phix.custom_vjp(ops.sin)
    with pytest.raises(DifferentiationError, match=r"write sin\.defvjp\(fwd, bwd\)"):
        phix.grad(bare)(X0)
    with pytest.raises(DifferentiationError, match=r"write sin\.defjvp\(rule\)"):
        phix.grad(phix.custom_jvp(ops.sin))(X0)

    def closing(w):
        inner = phix.custom_vjp(lambda x: x * w)
        inner.defvjp(lambda x: (x * w, None), lambda _, ct: (ct,))
        return inner(1.0)

    with pytest.raises(DifferentiationError, match="closes over a tensor"):
        phix.grad(closing)(2.0)
    f = phix.custom_vjp(lambda x: ops.sum(x))
    f.defvjp(lambda x: (ops.sum(x), None), lambda _, ct: (ct,))
    with pytest.raises(ShapeError, match="must have its dims"):
        phix.grad(f)(X)
    f.defvjp(lambda x: (ops.sum(x), None), lambda _, ct: ct)
    with pytest.raises(ArgumentError, match="must return a tuple"):
        phix.grad(f)(X)
    f.defvjp(lambda x: ops.sum(x), lambda _, ct: (ct,))
    with pytest.raises(ArgumentError, match=r"must return \(out, residuals\)"):
        phix.grad(f)(X)
    for wrong in (phix.custom_vjp(lambda: 0), phix.custom_jvp(lambda: 0)):
        with pytest.raises(ArgumentError, match=r"lambda>\(\) was called otherwise: too many"):
            wrong(X)
