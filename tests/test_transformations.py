"""What the transformations promise, beyond single ops: orders, compositions, structure."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest

import phix
from loaded_ops import loading
from phix import ops
from phix.core import rules
from phix.core.errors import ArgumentError, DifferentiationError, ShapeError

pytestmark = pytest.mark.unoptimised

# -- closed forms of u, u', ..., u^(5) ----------------------------------------------------------
ORDERS = 5


def _tanh_derivatives(x):
    t = math.tanh(x)
    s = 1 - t * t
    return [t, s, -2 * t * s, s * (6 * t**2 - 2), s * (16 * t - 24 * t**3),
            s * (16 - 120 * t**2 + 120 * t**4)]  # fmt: skip


def _gaussian_derivatives(x):
    """(-1)^n H_n(x) exp(-x^2), H_n the physicists' Hermite polynomials."""
    hermite = [np.polynomial.hermite.Hermite.basis(n)(x) for n in range(ORDERS + 1)]
    return [(-1) ** n * h * math.exp(-x * x) for n, h in enumerate(hermite)]


CLOSED_FORMS = {
    "sin": (ops.sin, lambda x: [math.sin(x + n * math.pi / 2) for n in range(6)]),
    "tanh": (ops.tanh, _tanh_derivatives),
    "cube": (lambda x: x**3, lambda x: [x**3, 3 * x**2, 6 * x, 6.0, 0.0, 0.0]),
    "gaussian": (lambda x: ops.exp(-x * x), _gaussian_derivatives),
}


@pytest.mark.parametrize("name", CLOSED_FORMS)
@pytest.mark.parametrize("mode", ["reverse", "forward", "jitted", "mixed"])
def test_five_derivatives(name, mode):
    function, closed = CLOSED_FORMS[name]
    forward = lambda f: lambda x: phix.jvp(f, (x,), (np.ones_like(x0),))[1]  # noqa: E731
    x0 = np.asarray(0.7)
    expected = closed(0.7)
    current = function
    for order in range(1, ORDERS + 1):
        step = {"forward": forward, "mixed": forward if order % 2 else phix.grad}.get(
            mode, phix.grad
        )
        current = step(current)
        run = phix.jit(current) if mode == "jitted" else current
        np.testing.assert_allclose(run(x0).item(), expected[order], rtol=1e-12, atol=1e-12)


def test_perturbations_are_not_confused():
    assert phix.grad(lambda x: x * phix.grad(lambda y: x + y)(1.0))(1.0).item() == 1.0
    inner = lambda x: phix.jvp(lambda y: x * y, (1.0,), (1.0,))[1]  # noqa: E731
    assert phix.jvp(inner, (3.0,), (1.0,))[1].item() == 1.0
    assert phix.grad(inner)(3.0).item() == 1.0


# -- compositions -------------------------------------------------------------------------------
def _energy(w, x):
    return ops.sum(ops.tanh(ops.matmul(x, w)) ** 2)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(4, 3)), rng.normal(size=(5, 2, 4))


def _difference(f, w, direction, eps=1e-6):
    return (np.asarray(f(w + eps * direction)) - np.asarray(f(w - eps * direction))) / (2 * eps)


def test_vmap_of_grad_of_jit_and_jit_of_vmap_of_grad(data):
    w, xs = data
    loop = np.stack([phix.grad(_energy)(w, x).numpy() for x in xs])
    a = phix.vmap(phix.grad(phix.jit(_energy)), in_axes=(None, 0))(w, xs)
    b = phix.jit(phix.vmap(phix.grad(_energy), in_axes=(None, 0)))(w, xs)
    np.testing.assert_allclose(a, loop, rtol=1e-12)
    np.testing.assert_allclose(b, loop, rtol=1e-12)
    direction = np.random.default_rng(1).normal(size=w.shape)
    slopes = [_difference(lambda v, x=x: _energy(v, x), w, direction) for x in xs]
    np.testing.assert_allclose(np.sum(a.numpy() * direction, axis=(1, 2)), slopes, rtol=1e-7)


def test_jvp_of_vjp_and_vjp_of_jvp_agree_with_differences(data):
    w, xs = data
    x = xs[0]
    rng = np.random.default_rng(2)
    u, v = rng.normal(size=(2, *w.shape))
    gradient = lambda w: phix.vjp(lambda w: _energy(w, x), w)[1](1.0)[0]  # noqa: E731
    forward_over_reverse = phix.jvp(gradient, (w,), (u,))[1].numpy()
    slope = lambda w: phix.jvp(lambda w: _energy(w, x), (w,), (u,))[1]  # noqa: E731
    reverse_over_forward = phix.vjp(slope, w)[1](1.0)[0].numpy()
    np.testing.assert_allclose(forward_over_reverse, reverse_over_forward, rtol=1e-10)
    expected = _difference(lambda w: phix.grad(_energy)(w, x).numpy(), w, u)
    np.testing.assert_allclose(forward_over_reverse, expected, rtol=1e-6, atol=1e-8)
    assert np.sum(v * forward_over_reverse) == pytest.approx(np.sum(v * expected), rel=1e-6)


def test_third_derivative_through_jit_with_unknown_dims(data):
    _, xs = data
    f = phix.jit(lambda x: ops.sum(ops.exp(ops.sin(x))), input_spec=[phix.spec(["n"], "float64")])
    third = lambda x: phix.grad(  # noqa: E731
        lambda x: ops.sum(phix.grad(lambda x: ops.sum(phix.grad(f)(x)))(x))
    )(x)
    for n in (1, 4):
        x = xs.ravel()[:n]
        s, c, e = np.sin(x), np.cos(x), np.exp(np.sin(x))
        np.testing.assert_allclose(third(x), e * c * (c * c - 3 * s - 1), rtol=1e-10)


# -- arguments and structure --------------------------------------------------------------------
def test_trees_argnums_and_aux():
    def loss(params, x):
        y = params["a"] * x + params["b"][0]
        return ops.sum(y * y), {"y": y}

    params = {"a": np.float64(2.0), "b": (np.float64(1.0),)}
    x = np.array([1.0, 2.0])
    (value, aux), gradient = phix.value_and_grad(loss, has_aux=True)(params, x)
    y = 2 * x + 1
    assert value.item() == np.sum(y * y)
    np.testing.assert_array_equal(aux["y"], y)
    assert isinstance(aux["y"], phix.Tensor)
    assert gradient["a"].item() == np.sum(2 * y * x)
    assert gradient["b"][0].item() == np.sum(2 * y)
    by_both = phix.grad(lambda p, x: loss(p, x)[0], argnums=(0, 1))(params, x)
    np.testing.assert_array_equal(by_both[1], 2 * y * 2)
    by_last = phix.grad(lambda p, x: loss(p, x)[0], argnums=-1)(params, x)
    np.testing.assert_array_equal(by_last, by_both[1])


def test_python_control_flow_under_eager_grad_and_jvp():
    def f(x):
        while x < 10:
            x = x * x
        return x if x > 20 else 2 * x

    assert phix.grad(f)(2.0).item() == 2 * 4 * 2**3  # 2 -> 4 -> 16, doubled: 2 x^4
    assert phix.jvp(f, (3.0,), (1.0,))[1].item() == 4 * 27  # 3 -> 9 -> 81: x^4


def test_vmap_axes():
    x, y = np.arange(6.0).reshape(2, 3), np.arange(3.0)
    out = phix.vmap(lambda a, b: a + b, in_axes=(1, 0), out_axes=1)(x, y)
    np.testing.assert_array_equal(out, x + y)
    nested = phix.vmap(phix.vmap(lambda a, b: a * b, in_axes=(None, 0)), in_axes=(0, None))
    np.testing.assert_array_equal(nested(y, y), np.outer(y, y))
    tree = phix.vmap(lambda d: d["a"] * d["b"], in_axes=({"a": 0, "b": None},))
    np.testing.assert_array_equal(tree({"a": y, "b": 2.0}), 2 * y)
    constant = phix.vmap(lambda a: 1.0, out_axes=0)(y)
    np.testing.assert_array_equal(constant, np.ones(3))


def test_pullback_may_be_called_again_and_for_part_of_the_outputs():
    (out, pullback) = phix.vjp(lambda x: (x * 2.0, ops.sin(x)), np.float64(0.5))
    assert pullback((1.0, 0.0))[0].item() == 2.0
    assert pullback((0.0, 1.0))[0].item() == math.cos(0.5)
    assert [o.item() for o in out] == [1.0, math.sin(0.5)]


def test_gradient_of_what_does_not_depend_on_the_argument_is_zero():
    assert phix.grad(lambda x: 3.0)(1.0).item() == 0.0
    np.testing.assert_array_equal(phix.grad(lambda x: ops.sum(ops.floor(x)))(np.ones(3)), 0.0)


def test_a_result_kept_for_the_backward_is_differentiated_through(tmp_path):
    """The rule reads total, and takes no cotangent of it; second derivatives go through it."""
    table = tmp_path / "ops.yaml"
    table.write_text(
        "- op: times_total\n"
        "  args: (Tensor x)\n"
        "  output: Tensor(out), Tensor(total)\n"
        "  intermediate: total\n"
        "  backward: times_total_grad\n"
        "- backward_op: times_total_grad\n"
        "  forward: times_total (Tensor x) -> Tensor(out), Tensor(total)\n"
        "  args: (Tensor x, Tensor total, Tensor out_grad)\n"
        "  output: Tensor(x_grad)\n"
    )
    my_ops = phix.load_ops(table)

    @rules.decompose("times_total")
    def times_total(x):
        return x * ops.sum(x), ops.sum(x)

    @rules.decompose("times_total_grad")
    def times_total_grad(x, total, out_grad):
        return out_grad * total + ops.sum(out_grad * x)

    x = np.array([0.5, 1.0, 2.0])
    one = np.ones(3)
    slope = phix.grad(lambda x: ops.sum(ops.sin(my_ops.times_total(x))))
    plain = phix.grad(lambda x: ops.sum(ops.sin(x * ops.sum(x))))
    np.testing.assert_allclose(slope(x), plain(x), rtol=1e-13)
    expected = phix.jvp(plain, (x,), (one,))[1]
    np.testing.assert_allclose(phix.jvp(slope, (x,), (one,))[1], expected, rtol=1e-12)
    twice = phix.grad(lambda x: ops.sum(slope(x)))
    np.testing.assert_allclose(twice(x), expected, rtol=1e-12)


_WEIGHTED = """
- op: weighted
  args: (Tensor[] xs, Tensor y)
  output: Tensor(out), Tensor(largest)
  infer_meta: {func: WeightedInferMeta}
  backward: weighted_grad
- backward_op: weighted_grad
  forward: weighted (Tensor[] xs, Tensor y) -> Tensor(out), Tensor(largest)
  args: (Tensor[] xs, Tensor y, Tensor out_grad)
  output: Tensor[](xs_grad){xs.size()}, Tensor(y_grad)
"""


def test_an_op_of_lists_with_a_kernel_is_differentiated_by_its_backward_rule(tmp_path):
    """Forwards too: the rule is transposed. Of a result that it takes no cotangent of, it is 0."""
    with loading(tmp_path) as load, phix.scoped_registries():
        rules.infer_meta("WeightedInferMeta")(lambda xs, y: (y, y))
        op = load(_WEIGHTED).weighted

        @phix.kernels.register_kernel("weighted", "CPU", dtypes="float64")
        def weighted(ctx, xs, y, out, largest):
            out[...] = y * sum((k + 1) * x for k, x in enumerate(xs))
            largest[...] = np.maximum.reduce(xs)

        @rules.decompose("weighted_grad")
        def weighted_grad(xs, y, out_grad):
            to_y = out_grad * sum((k + 1) * x for k, x in enumerate(xs))
            return [out_grad * y * (k + 1) for k in range(len(xs))], to_y

        a, b, c, t = np.random.default_rng(0).standard_normal((4, 3))
        f = lambda a, b, c: op([a, b], c)[0]  # noqa: E731
        _, rate = phix.jvp(f, (a, b, c), (t, 2 * t, 3 * t))
        np.testing.assert_allclose(rate, 5 * c * t + (a + 2 * b) * 3 * t, rtol=1e-13)
        _, of_one = phix.jvp(lambda b: f(a, b, c), (b,), (t,))
        np.testing.assert_allclose(of_one, 2 * c * t, rtol=1e-13)
        slopes = phix.grad(lambda *v: ops.sum(f(*v) * t), (0, 1, 2))(a, b, c)
        for slope, wanted in zip(slopes, (c * t, 2 * c * t, (a + 2 * b) * t)):
            np.testing.assert_allclose(slope, wanted, rtol=1e-13)
        nothing = phix.grad(lambda a: ops.sum(op([a, b], c)[1]))(a)
        np.testing.assert_array_equal(nothing, np.zeros(3))


# -- errors -------------------------------------------------------------------------------------
def test_errors_of_grad():
    with pytest.raises(DifferentiationError, match=r"gives one real number.*float64\[3\]"):
        phix.grad(lambda x: x)(np.ones(3))
    with pytest.raises(DifferentiationError, match=r"int64.*cast the argument"):
        phix.grad(lambda x: x)(3)
    with pytest.raises(ArgumentError, match="argnums names argument 2"):
        phix.grad(lambda x: x, argnums=2)(1.0)
    with pytest.raises(ArgumentError, match="must return \\(out, aux\\)"):
        phix.grad(lambda x: x, has_aux=True)(1.0)


@pytest.mark.parametrize("name", ["grad", "value_and_grad", "jacrev", "jacfwd", "hessian"])
def test_argnums_names_each_argument_once(name):
    """A duplicate took the place of its twin, whose derivative was 0."""
    transform = getattr(phix, name)

    def f(x, y):
        return x * y * y

    for argnums in ((0, 0), (1, -1), [0, 1, 0]):
        with pytest.raises(ArgumentError, match=r"argnums .* names argument . of f twice"):
            transform(f, argnums)(2.0, 3.0)
    for argnums in (True, 1.5, (0, 1.5), "a", None):
        with pytest.raises(ArgumentError, match=f"{name}: argnums must be an int"):
            transform(f, argnums)(2.0, 3.0)
    negative = phix.tree.leaves(transform(f, (-1, -2))(2.0, 3.0))
    positive = phix.tree.leaves(transform(f, (1, 0))(2.0, 3.0))
    assert [x.item() for x in negative] == [x.item() for x in positive]
    assert phix.grad(f, ())(2.0, 3.0) == ()


def test_grad_says_what_gives_the_derivative_it_has_not():
    with pytest.raises(DifferentiationError, match=r"holomorphic.*phix.jacrev or phix.vjp"):
        phix.grad(lambda z: z * z)(1j)
    with pytest.raises(DifferentiationError, match=r"phix.jacrev for .* each element, or phix.vjp"):
        phix.grad(lambda x: x * x)(np.ones(3))
    with pytest.raises(DifferentiationError, match=r"has_aux=True.*phix.jacrev or phix.vjp"):
        phix.grad(lambda x: (x, x))(1.0)


def test_jacobians_of_complex_functions(rng):
    """Both modes give f' of a holomorphic function, and of a complex function of real numbers."""
    z = rng.standard_normal(3) + 1j * rng.standard_normal(3)
    holomorphic = np.diag(2 * z * 1j + np.exp(z))
    for jacobian in (phix.jacrev, phix.jacfwd):
        found = jacobian(lambda z: z * z * 1j + ops.exp(z))(z)
        np.testing.assert_allclose(found, holomorphic, rtol=1e-12)
        of_real = jacobian(lambda x: ops.exp(x * (1 + 2j)))(z.real)
        expected = np.diag((1 + 2j) * np.exp(z.real * (1 + 2j)))
        np.testing.assert_allclose(of_real, expected, rtol=1e-12)
    found = phix.jacrev(lambda z: ops.abs(z) ** 2)(z)
    np.testing.assert_allclose(found, np.diag(2 * z), rtol=1e-12)
    with pytest.raises(DifferentiationError, match=r"not holomorphic; use phix.jacrev"):
        phix.jacfwd(lambda z: ops.abs(z) ** 2)(z)


def test_errors_of_vmap_vjp_jvp():
    with pytest.raises(ArgumentError, match="one size"):
        phix.vmap(lambda a, b: a)(np.ones(2), np.ones(3))
    with pytest.raises(ArgumentError, match="maps no argument"):
        phix.vmap(lambda a: a, in_axes=None)(np.ones(2))
    with pytest.raises(ShapeError, match="cotangent"):
        phix.vjp(lambda x: x, np.ones(2))[1](np.ones(3))
    with pytest.raises(ShapeError, match="tangent"):
        phix.jvp(lambda x: x, (np.ones(2),), (np.ones(3),))
    with pytest.raises(ArgumentError, match="no tensor"):
        phix.make_graph(lambda x: x)("text")


# -- threads ------------------------------------------------------------------------------------
def test_two_threads_trace_and_run_at_once():
    results: dict[int, list[float]] = {0: [], 1: []}

    def work(number):
        for i in range(20):
            f = phix.jit(lambda x, k=number, i=i: ops.sum(ops.sin(x * (k + 1.0)) + float(i)))
            results[number].append(phix.grad(f)(np.float64(0.5)).item())

    threads = [threading.Thread(target=work, args=(n,)) for n in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, found in results.items():
        k = number + 1.0
        assert found == pytest.approx([k * math.cos(0.5 * k)] * 20, rel=1e-12)
