"""Python numbers that are arguments of what traces: they mean there what they mean in Python."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
import phix.numpy as pn
from phix import ops
from phix.core.errors import ArgumentError, DTypeError

pytestmark = pytest.mark.unoptimised

WIDE, SINGLE = np.array([0.5, -2.0, 1.5]), np.array([0.5, -2.0, 1.5], "f")
KINDS: dict[str, Any] = {
    "float64": WIDE,
    "float32": SINGLE,
    "float16": SINGLE.astype("float16"),
    "bfloat16": phix.to_tensor(SINGLE).astype("bfloat16"),
    "int32": np.array([1, -2, 3], "int32"),
    "bool": np.array([True, False]),
    "complex64": SINGLE.astype("complex64"),
}


def custom(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a rule of its own, which keeps its arguments for the way back."""
    made = phix.custom_vjp(function)

    def backward(kept: Any, ct: Any) -> Any:
        return phix.vjp(function, *kept)[1](ct)

    made.defvjp(lambda *args: (function(*args), args), backward)
    return made


def in_a_scan(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Any, *numbers: Any) -> Any:
        step = lambda carry, _: (carry, function(x, *carry))  # noqa: E731
        return phix.scan(step, numbers, None, length=1)[1][0]

    return run


def in_a_while_loop(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Any, *numbers: Any) -> Any:
        start = ops.zeros_like(function(x, *numbers))
        body = lambda v: (v[0] + 1, function(x, *v[2]), v[2])  # noqa: E731
        return phix.while_loop(lambda v: v[0] < 2, body, (0, start, numbers))[1]

    return run


# How a function of a tensor and numbers is called: what gives the same as the function itself.
CALLS: dict[str, Callable[..., Any]] = {
    "jit": phix.jit,
    "jit of jit": lambda f: phix.jit(phix.jit(f)),
    "vmap": lambda f: lambda x, *c: phix.vmap(f, (0, *[None] * len(c)))(x, *c),
    "vmap of one": lambda f: lambda x, *c: phix.vmap(f, None, axis_size=2)(x, *c)[0],
    "checkpoint": lambda f: phix.jit(phix.checkpoint(f)),
    "cond": lambda f: lambda x, *c: phix.cond(True, f, f, x, *c),
    "jit of cond": lambda f: phix.jit(lambda x, *c: phix.cond(x.size > 0, f, f, x, *c)),
    "switch": lambda f: lambda x, *c: phix.switch(0, [f, f], x, *c),
    "scan": in_a_scan,
    "jit of scan": lambda f: phix.jit(in_a_scan(f)),
    "while_loop": in_a_while_loop,
    "custom_vjp": lambda f: phix.jit(custom(f)),
    "autocast": lambda f: phix.autocast(f),
    "lower": lambda f: lambda *args: phix.jit(f).lower(*args).compile()(*args),
    "spmd": lambda f: phix.parallel.spmd(f, phix.parallel.mesh({"a": 1}, virtual=True), None, None),
    "eval in vmap": lambda f: lambda x, *c: phix.vmap(lambda _: phix.jit(f)(x, *c))(np.ones(2))[0],
}
DERIVED: dict[str, Callable[..., Any]] = {
    "jvp": lambda f: lambda x, *c: phix.jvp(f, (x, *c), (x, *c))[0],
    "vjp": lambda f: lambda x, *c: phix.vjp(f, x, *c)[0],
    "linearize": lambda f: lambda x, *c: phix.linearize(f, x, *c)[0],
    "jet": lambda f: lambda x, *c: phix.jet(f, (x, *c), [[x] for x in (x, *c)])[0],
    "grad's value": lambda f: (
        lambda x, *c: phix.vmap(
            lambda x: phix.value_and_grad(f, tuple(range(1 + len(c))))(x, *c)[0]
        )(x)
    ),
}


def same(found: Any, wanted: Any, within: float = 0.0) -> None:
    assert found.dtype == wanted.dtype
    exact = np.promote_types(np.float32, wanted.numpy().dtype)
    np.testing.assert_allclose(
        found.numpy().astype(exact), wanted.numpy().astype(exact), rtol=within, atol=within
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CALLS)
def test_numbers_are_as_weak_as_they_are_untraced(name: str, kind: str) -> None:
    f, x = (lambda x, c: x * c), phix.to_tensor(KINDS[kind])
    for number in (0.1, True, 0.1j, *[2] * (kind != "int32")):  # an int is an int64
        same(CALLS[name](f)(x, number), f(x, number))


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", DERIVED)
def test_the_values_of_derivatives_are_as_weak(name: str, kind: str) -> None:
    f, x = (lambda x, c: x * c), phix.to_tensor(KINDS[kind])
    same(DERIVED[name](f)(x, 0.1), f(x, 0.1))


# -- random programs ---------------------------------------------------------------------------
UNARY = ("-{}", "abs({})", "+{}", "{} ** 2", "{} ** 0.5", "2.0 ** {}")
BINARY = ("{} + {}", "{} - {}", "{} * {}", "{} / ({} + 3.01)", "{} // ({} + 3.01)",
          "{} % ({} + 3.01)")  # fmt: skip
ON_TENSORS = ("ops.where({0} > {1}, {0}, {1})", "pn.maximum({}, {})", "ops.sin({}) * {}",
              "(x.at[0].set(ops.mean(x * {})) + {})", "pn.logaddexp({}, {})",
              "ops.stack([x + {}, x - {}]).sum(0)",
              "x.astype('float64') * {} + {}",
              "phix.jit(lambda a, b: x * a - b)({}, {})", "pn.clip(x, {}, {} + 9)")  # fmt: skip


def drawn(draws: random.Random, depth: int, names: list[str]) -> str:
    if not depth or draws.random() < 0.15:
        return draws.choice([*names, "0.1", "3"])
    form = draws.choice((*UNARY, *BINARY, *BINARY, *(ON_TENSORS if "x" in names else ())))
    below = lambda: f"({drawn(draws, depth - 1, names)})"  # noqa: E731
    return form.format(below(), below())


@pytest.mark.parametrize("group", range(4))
def test_random_programs_of_tensors_and_numbers(group: int, seed: int) -> None:
    for number in range(12):
        chosen = 1000 * seed + 100 * group + number
        draws = random.Random(chosen)
        scalar = drawn(draws, 2, ["c", "d"])
        text = drawn(draws, 3, ["x", "c", "d", f"({scalar})"])
        program = f"lambda x, c, d: x * 1 + {text}"
        f = eval(program, {"ops": ops, "pn": pn, "phix": phix, "np": np})
        x = phix.to_tensor(draws.choice([WIDE, SINGLE]))
        c, d = draws.choice([0.1, 1.3, 2.7]), draws.choice([0.3, 1.1])
        wanted = f(x, c, d)
        within = 4e-15 if wanted.dtype == np.float64 else 4e-6  # of programs that are fused
        for name in ("jit", "checkpoint", "scan", "cond"):
            found = CALLS[name](f)(x, c, d)
            assert found.dtype == wanted.dtype, (chosen, name, program)
            np.testing.assert_allclose(
                found.numpy(), wanted.numpy(), within, within, True, f"{chosen}: {name}: {program}"
            )


# -- what is derived by a number -----------------------------------------------------------------
def test_derivatives_are_taken_at_the_number_itself() -> None:
    slope = lambda c: (WIDE**2 * c**3).sum()  # noqa: E731
    found = phix.value_and_grad(lambda c: ops.sum(ops.multiply(WIDE**2, c**3)))(0.1)
    assert found[0].item() == pytest.approx(slope(0.1), rel=1e-15)
    assert found[1].dtype == np.float32  # as a number on its own has the default float
    with phix.default_dtype("float64"):
        exact = phix.grad(phix.grad(lambda c: ops.sum(WIDE**2 * c**3)))(0.1)
    assert exact.item() == pytest.approx(6 * 0.1 * (WIDE**2).sum(), rel=1e-15)


def test_each_derivative_of_a_number_with_itself() -> None:
    f = lambda c: c**5 / 3 - 2 * c  # noqa: E731
    assert phix.grad(f)(0.7).item() == pytest.approx(5 / 3 * 0.7**4 - 2, rel=1e-7)
    assert phix.jacfwd(phix.jacrev(f))(0.7).item() == pytest.approx(20 / 3 * 0.7**3, rel=1e-6)
    assert phix.hessian(f)(0.7).dtype == np.float32
    assert phix.grad(phix.grad(phix.grad(f)))(0.7).item() == pytest.approx(20 * 0.49, rel=1e-6)
    _, (_, second) = phix.jet(f, (0.7,), ([1.0, 0.0],))
    assert second.item() == pytest.approx(20 / 3 * 0.7**3, rel=1e-6)
    _, push = phix.linearize(lambda c: WIDE * c, 0.1)
    np.testing.assert_array_equal(push(0.1).numpy(), WIDE * 0.1)
    assert phix.linear_transpose(lambda c: WIDE * c, 1.0)(WIDE)[0].item() == (WIDE**2).sum()


def test_rules_of_the_users_own_get_numbers() -> None:
    seen: list[Any] = []

    @phix.custom_jvp
    def scaled(x: Any, c: Any) -> Any:
        return x * c

    @scaled.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        (x, c), (dx, dc) = primals, tangents
        seen.append((x * c).dtype)
        return x * c, dx * c + x * dc

    out, tangent = phix.jvp(scaled, (WIDE, 0.1), (WIDE, 0.1))
    np.testing.assert_array_equal(out.numpy(), WIDE * 0.1)
    np.testing.assert_array_equal(tangent.numpy(), WIDE * 0.1 + WIDE * 0.1)
    half = KINDS["float16"]
    assert phix.jvp(scaled, (half, 0.1), (half, 0.1))[1].dtype == np.float16
    assert set(seen) == {np.dtype(np.float64), np.dtype(np.float16)}
    kept = custom(lambda x, c: x * c)
    slope = phix.jit(phix.grad(lambda x, c: ops.sum(kept(x, c))))(WIDE, 0.1)
    np.testing.assert_array_equal(slope.numpy(), np.full(3, 0.1))


# -- loops ---------------------------------------------------------------------------------------
def test_a_carry_stays_a_number_as_long_as_the_body_gives_one() -> None:
    halved = phix.scan(lambda c, x: (c / 2, c * x), 0.1, WIDE)
    np.testing.assert_array_equal(halved[1].numpy(), WIDE * [0.1, 0.05, 0.025])
    assert halved[0].dtype == np.float32
    added = phix.scan(lambda c, x: (c + x, None), 0.1, WIDE)[0]
    assert added.dtype == np.float64 and added.item() == 0.1 + 0.5 - 2.0 + 1.5
    a, b, c = phix.fori_loop(0, 3, lambda i, v: (v[1], v[2], v[0] + WIDE[0]), (0.1, 0.2, 0.3))
    assert [v.item() for v in (a, b, c)] == [0.1 + 0.5, 0.2 + 0.5, 0.3 + 0.5]
    half = phix.fori_loop(0, 3, lambda i, v: v * KINDS["float16"][0], 0.1)
    assert half.dtype == np.float16
    steps = phix.while_loop(lambda v: v[0] < 0.35, lambda v: (v[0] + 0.1, v[1] + 1), (0.1, 0))
    assert steps[1].item() == 3  # 0.1, 0.2, 0.30000000000000004, 0.4
    turned = phix.while_loop(lambda v: v[0] < 2, lambda v: (v[0] + 1, v[1] * 1j), (0, 0.5 + 0j))[1]
    assert turned.item() == -0.5


def test_a_carry_that_would_lose_its_kind_is_refused() -> None:
    with pytest.raises(DTypeError, match=r"begins as the Python number 0\.5, a float"):
        phix.fori_loop(0, 2, lambda i, v: i, 0.5)
    with pytest.raises(DTypeError, match=r"begins as the Python number 0\.5, a float"):
        phix.fori_loop(0, 2, lambda i, v: v * 1j, 0.5)
    with pytest.raises(DTypeError, match=r"a Python float.*a float, and the body gives"):
        phix.jit(lambda c: phix.fori_loop(0, 2, lambda i, v: i, c))(0.5)


# -- what a number is inside --------------------------------------------------------------------
def test_what_a_traced_number_shows() -> None:
    def look(c: Any) -> Any:
        assert (c.dtype, c.shape, c.ndim, c.size) == (np.float32, (), 0, 1)
        assert (2 * c).dtype == np.float32 and c.real is c and c.imag == 0.0
        assert "a Python float" in repr(c) and len({c, c}) == 1
        assert phix.to_tensor(c).dtype == np.float32 and pn.asarray(c).dtype == np.float32
        return ops.sin(c), np.sin(c), c.conj(), c.astype("float64"), ops.cast(c, "float64")

    sine, of_numpy, itself, wide, cast = phix.jit(look)(0.1)
    assert sine.dtype == np.float32 and itself.dtype == np.float32
    assert of_numpy.dtype == np.float64  # as np.sin(0.1)
    assert of_numpy.item() == pytest.approx(np.sin(0.1), rel=1e-15)
    assert wide.item() == cast.item() == 0.1 == ops.cast(0.1, "float64").item()
    assert phix.vmap(lambda x, c: x * float(c), (0, None))(WIDE, 0.1)[0].item() == 0.05


def test_numbers_as_attributes_of_ops() -> None:
    f = phix.jit(lambda x, c: (ops.scale(x, c), ops.full([2], c), ops.full([2], c, "float64"),
                               ops.clip(x, c, 9.0), ops.pow(x, c)))  # fmt: skip
    scaled, single, wide, clipped, power = f(abs(WIDE), 0.1)
    np.testing.assert_array_equal(scaled.numpy(), abs(WIDE) * 0.1)
    assert single.dtype == np.float32 and wide.numpy().tolist() == [0.1, 0.1]
    np.testing.assert_allclose(power.numpy(), abs(WIDE) ** 0.1, rtol=1e-15)
    np.testing.assert_array_equal(clipped.numpy(), abs(WIDE))


def test_numbers_in_trees_and_what_is_closed_over() -> None:
    data = {"x": WIDE, "by": [0.1, (0.2, SINGLE)]}

    def f(tree: Any) -> Any:
        inner = phix.vmap(lambda v: v * tree["by"][0] + tree["by"][1][0])
        doubled = phix.tree.map(lambda v: v * 2, tree)
        return inner(tree["x"]), doubled["by"][1][0] * tree["x"], doubled["by"][1][1]

    for call in (f, phix.jit(f), phix.checkpoint(f), phix.jit(phix.checkpoint(f))):
        first, second, third = call(data) if call is not f else f(phix.tree.map(
            lambda v: v if isinstance(v, float) else phix.to_tensor(v), data))  # fmt: skip
        np.testing.assert_array_equal(first.numpy(), WIDE * 0.1 + 0.2)
        np.testing.assert_array_equal(second.numpy(), WIDE * 0.4)
        assert third.dtype == np.float32


def test_an_aux_is_a_tensor_as_a_result_is() -> None:
    (_, aux), _ = phix.value_and_grad(lambda c: (ops.sum(WIDE * c), (c, c * 2)), has_aux=True)(0.1)
    assert [v.dtype for v in aux] == [np.float32] * 2
    assert [v.item() for v in aux] == [np.float32(0.1), np.float32(0.2)]


# -- programs, and what they are compiled for ---------------------------------------------------
def test_a_number_and_a_tensor_have_programs_of_their_own() -> None:
    f = phix.jit(lambda x, c: x * c)
    assert f(SINGLE, 0.1).dtype == np.float32
    assert f(SINGLE, np.float64(0.1)).dtype == np.float64
    assert "c is the tensor float64[], was a Python float" in f.why_retraced()
    assert f(SINGLE, 0.3).dtype == np.float32 and f.trace_count == 2
    assert "not traced anew" in f.why_retraced(SINGLE, 0.7)
    for value in (0.1, 0.2, 0.3, 0.4, 0.5):
        np.testing.assert_array_equal(f(WIDE, value).numpy(), WIDE * value)


def test_declared_arguments_are_what_they_are_declared() -> None:
    for name in ("float64", "float32"):
        f = phix.jit(lambda x, c: x * c, input_spec=[None, phix.spec([], name)])
        np.testing.assert_array_equal(f(WIDE, 0.1).numpy(), WIDE * np.dtype(name).type(0.1))
    compiled = phix.jit(lambda x, c: x * c).lower(WIDE, phix.spec([], "float32")).compile()
    np.testing.assert_array_equal(compiled(WIDE, 0.1).numpy(), WIDE * np.float32(0.1))
    weakly = phix.jit(lambda x, c: x * c).lower(WIDE, 0.5).compile()
    np.testing.assert_array_equal(weakly(WIDE, 0.1).numpy(), WIDE * 0.1)
    for number in (np.float64(0.1), phix.to_tensor(0.1, "float64")):
        np.testing.assert_array_equal(weakly(WIDE, number).numpy(), WIDE * 0.1)
    assert weakly(WIDE, 2).tolist() == (WIDE * 2).tolist()
    with pytest.raises(ArgumentError, match="compiled for a Python float, found"):
        weakly(WIDE, WIDE)
    with pytest.raises(ArgumentError, match="compiled for a Python float, found"):
        weakly(WIDE, 0.1j)


def test_graphs_for_others_take_tensors() -> None:
    graph = phix.make_graph(lambda x, c: x * c)(SINGLE, 0.1)
    assert [str(v.meta) for v in graph.inputs] == ["float32[3]", "float32[]"]


def test_under_another_default_float() -> None:
    f = phix.jit(lambda x, c: (x * c, c * 2))
    with phix.default_dtype("float64"):
        product, alone = f(SINGLE, 0.1)
        assert product.dtype == np.float32 and alone.dtype == np.float64 and alone.item() == 0.2
    with phix.default_dtype("float16"):
        product, alone = f(WIDE, 0.1)
        assert product.numpy().tolist() == (WIDE * 0.1).tolist() and alone.dtype == np.float16


def test_a_donating_function_takes_numbers() -> None:
    f = phix.jit(lambda x, c: x * c, donate_argnums=0)
    for _ in range(3):
        np.testing.assert_array_equal(f(phix.to_tensor(WIDE), 0.1).numpy(), WIDE * 0.1)


# -- numbers beside numbers, of all kinds --------------------------------------------------------
MIXED = (
    "x * (c * n)", "x * (c * (c > 0.05))", "x * (n / 3)", "x * (1 / n)", "x * n**0.5", "n**-1 * x",
    "x * (c + flag)", "x * (0.3 * n)", "x * (n // 2 + c)", "x * (c * (n % 2))", "x * 2.5**n",
    "x * round(c, 2)", "x * (round(c * 9) * 0.1)", "x * (n & 3) * c",
    "x * -flag * c", "x * abs(-n) * c", "x * (c**n)", "x * divmod(c, 0.03)[1]", "x * (c.real + n)",
    "x * ops.where(flag, c, 0.3)", "x * (~n) * c", "x * (c * np.int32(2))", "x + c * np.arange(3)",
    "x.at[phix.to_tensor([0, 1])].add([c, 2 * c])", "x * phix.to_tensor([c, 1.0, n], x.dtype)",
    "x * pn.hypot(x, c)", "x * pn.logaddexp(c, x)", "x * phix.scipy.special.xlogy(x * x, c)",
    "x + pn.linspace(0.0, c, 3, dtype=x.dtype)", "x * pn.asarray(c)", "x * pn.dot(x, c)",
    "x * np.where(c > 0.1, c, 0.2)", "x * pn.quantile(x, c)", "x * pn.mean(c)",
    "x * pn.inner(x, c)",
)  # fmt: skip
OF_WHOLE_ROWS = ("at[", "quantile", "arange", "to_tensor", "linspace", "dot", "inner")


@pytest.mark.parametrize("name", ["jit", "vmap", "checkpoint", "scan", "custom_vjp", "jit of cond"])
@pytest.mark.parametrize("kind", ["float64", "float32", "float16"])
def test_numbers_meet_as_they_do_in_python(name: str, kind: str) -> None:
    x = phix.to_tensor(KINDS[kind])
    within = {"float64": 3e-15, "float32": 1e-6, "float16": 4e-3}[kind]
    for text in MIXED:
        if name == "vmap" and any(word in text for word in OF_WHOLE_ROWS):
            continue
        scope = {"np": np, "pn": pn, "ops": ops, "phix": phix, "math": math}
        f = eval(f"lambda x, c, n, flag: {text}", scope)
        wanted, found = f(x, 0.137, 3, True), CALLS[name](f)(x, 0.137, 3, True)
        assert found.dtype == wanted.dtype, text
        exact = [np.asarray(v.astype("float64")) for v in (found, wanted)]
        np.testing.assert_allclose(*exact, within, within, True, text)


def test_a_carry_that_begins_as_an_int_becomes_a_number() -> None:
    f = lambda x, h: phix.fori_loop(  # noqa: E731
        0, 3, lambda i, s: (s[0] + h, s[1] + s[0] * x), (0, x * 0)
    )
    wanted = WIDE * (0.1 + 0.2)
    np.testing.assert_allclose(phix.jit(f)(WIDE, 0.1)[1].numpy(), wanted, rtol=1e-15)
    np.testing.assert_allclose(f(WIDE, 0.1)[1].numpy(), wanted, rtol=1e-15)
    assert f(KINDS["float16"], 0.1)[1].dtype == np.float16
    total = phix.fori_loop(1, 5, lambda i, v: v * i, 1)
    assert total.dtype == np.int64 and total.item() == 24


def test_a_branch_gives_a_number_beside_one_that_gives_a_tensor() -> None:
    half = phix.to_tensor(KINDS["float16"])
    for first in (True, False):
        found = phix.jit(lambda p, c: phix.cond(p, lambda c: c, lambda c: c * half[0], c))(
            first, 0.1
        )
        assert found.dtype == np.float16
        wide = phix.cond(first, lambda x, c: c, lambda x, c: x[0] * c, WIDE, 0.1)
        assert wide.item() == (0.1 if first else WIDE[0] * 0.1) and wide.dtype == np.float64
    with pytest.raises(phix.errors.PhixError, match="branch"):
        phix.cond(True, lambda c: c, lambda c: half.astype("int32")[0], 0.1)


def test_declared_arguments_are_derived_as_such() -> None:
    f = phix.jit(lambda c: c * 2, input_spec=[phix.spec([], "float32")])
    assert phix.grad(f)(0.1).item() == 2.0
    assert phix.jit(lambda c: f(c))(0.1).dtype == np.float32


def test_rules_and_lanes_may_use_what_tensors_have() -> None:
    h = phix.custom_vjp(lambda x, c: x * c)
    h.defvjp(
        lambda x, c: (x * c, (x, c)),
        lambda r, ct: (ct * r[1], ops.zeros(r[1].shape, r[1].dtype)),
    )
    for call in (phix.grad, lambda f: phix.jit(phix.grad(f))):
        found = call(lambda x, c: h(x, c).sum())(WIDE, 0.1)
        np.testing.assert_array_equal(found.numpy(), np.full(3, 0.1))
    found = phix.vmap(lambda x, c: x * c.astype(x.dtype), (0, None))(WIDE, 0.1)
    np.testing.assert_array_equal(found.numpy(), WIDE * 0.1)
    shown = phix.vmap(lambda x, c: x * len(f"{c:.2f}") * bool(c) * c.item(), (0, None))(WIDE, 0.1)
    np.testing.assert_array_equal(shown.numpy(), WIDE * 4 * 0.1)


def test_a_pullback_has_the_dtypes_of_when_it_was_made() -> None:
    with phix.default_dtype("float64"):
        _, pull = phix.vjp(lambda c: c * WIDE, 0.1)
    assert pull(WIDE)[0].dtype == np.float64


def test_functions_of_classes_of_the_users_own() -> None:
    class Pair:
        def __init__(self, w: Any, c: Any) -> None:
            self.w, self.c = w * 1, c * 1

    with phix.scoped_registries():
        phix.tree.register(Pair, lambda p: ((p.w, p.c), None), lambda _, held: Pair(*held))
        mesh = phix.parallel.mesh({"a": 1}, virtual=True)
        shared = phix.parallel.shard(lambda p: p.w * p.c, mesh)(Pair(WIDE, 0.1))
        np.testing.assert_array_equal(shared.numpy(), WIDE * 0.1)


def test_an_int_beside_ints_is_an_int64() -> None:
    byte = phix.to_tensor([200], "uint8")
    found = phix.jit(lambda x, n: (x + n, x * 2, n * 2.5))(byte, 300)
    assert [(v.dtype, v.item()) for v in (found[0], found[2])] == [("int64", 500), ("float32", 750)]
    assert phix.jit(lambda x, n: x[n] + x[n - 1] * 2)(phix.to_tensor([1, 2]), 1).item() == 4
    assert phix.vmap(lambda x, n: x.sum(n), (0, None))(np.ones((2, 3)), 0).tolist() == [3, 3]


def test_tangents_of_another_kind_are_refused() -> None:
    f = lambda z: z * z * WIDE  # noqa: E731
    with pytest.raises(DTypeError, match="complex"):
        phix.jvp(f, (0.3,), (1j,))
    with pytest.raises(DTypeError, match="complex"):
        phix.linearize(f, 0.3)[1](1j)
    with pytest.raises(DTypeError, match="complex"):
        phix.vjp(f, 0.3)[1](WIDE * 1j)
    with pytest.raises(DTypeError, match="complex"):
        phix.jet(f, (0.3,), ([1j],))


def test_numbers_and_single_values_are_compared() -> None:
    for number in (0.1, np.float32(0.1), np.ones(())):
        assert str(phix.debug.compare(lambda c: c * 2)(number)).endswith("agree")


def test_errors_of_numbers_name_the_line() -> None:
    kept: list[Any] = []
    phix.jit(lambda x, c: kept.append(c) or x * c)(WIDE, 0.1)
    for use in (lambda c: c * WIDE, lambda c: c * 2, lambda c: ops.add(WIDE, c)):
        with pytest.raises(phix.errors.LeakedTracerError, match=r"made at .*test_weak_numbers"):
            use(kept[0])
    with pytest.raises(phix.errors.ShapeError, match="no diagonal"):
        phix.jit(lambda x, c: ops.fill_diagonal(x, c))(WIDE, 0.1)
