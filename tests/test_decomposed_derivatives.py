"""The derivative of a decomposed graph is that of the function: at kinks and zeros too, and where
the user, or stop_gradient, says what it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from harness.cases import Call, Case, table_cases
from phix import ops
from phix.core import dtypes as dt
from phix.testing import derivatives as differences
from phix.testing import meanings

pytestmark = pytest.mark.unoptimised

COMPOSITES = {
    c.op.name: c
    for c in table_cases()
    if "elsewhere" not in c.test and c.op.decomposition is not None and c.op.backward is not None
}
# Where the two may differ: the sample's point -> why.
EXEMPT = {
    ("bce_loss", "ties"): "the backward bounds the variance of a certain label, as Paddle's does",
    ("bce_loss", "zeros"): "the same",
    ("max_pool2d", "ties"): "equal elements share the cotangent row by row",
    ("max_pool2d", "zeros"): "the same",
    ("cross_entropy_with_softmax", "ties"): "the logarithm of a given probability of 0",
    ("cross_entropy_with_softmax", "zeros"): "the same",
    ("det", "zeros"): "LU factors of singular matrices have no derivative, where det has cofactors",
    ("pinv", "drawn"): "the gradient of a triangle that is read, where eigh's is Hermitian",
    ("pinv", "ties"): "the same",
    ("pinv", "zeros"): "the same",
}
POINTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "drawn": lambda a: a,
    "ties": np.round,  # -2, -1, 0, 1, 2: bounds, kinks, and elements that are equal
    "zeros": np.zeros_like,
}


def differentiable(call: Call) -> Callable[..., tuple[Any, ...]]:
    """The call as a function of all its inputs, of which it gives what has a derivative."""

    def fn(*arrays: Any) -> tuple[Any, ...]:
        return tuple(out for out in call.fn(*arrays) if dt.is_differentiable(out.dtype))

    return fn


def gradient(fn: Callable[..., tuple[Any, ...]], chosen: list[int]) -> Callable[..., Any]:
    """A program for all points, of cotangents and all inputs: the gradients of those chosen."""

    def found(cotangents: Any, *arrays: Any) -> Any:
        def of_chosen(*given: Any) -> tuple[Any, ...]:
            whole = list(arrays)
            for i, value in zip(chosen, given):
                whole[i] = value
            return fn(*whole)

        return differences.pullback(of_chosen, cotangents)(*[arrays[i] for i in chosen])

    return phix.jit(found)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", COMPOSITES.values(), ids=COMPOSITES.keys())
def test_an_op_and_its_decomposition(case: Case) -> None:
    for call in case.double_calls():
        chosen, fn = case.differentiated(call), differentiable(call)
        outs = phix.infer_meta(fn)(*meanings.metas(call.arrays))
        if not chosen or not outs:
            continue
        ones = [np.ones(out.dims, out.dtype) for out in outs]
        by_rule = gradient(fn, chosen)
        by_parts = gradient(phix.decompose(fn)(*call.arrays), chosen)
        for name, moved in POINTS.items():
            if (case.op.name, name) in EXEMPT:
                continue
            at = [moved(a) if a.dtype.kind in "fc" else a for a in call.arrays]
            for a, b in zip(by_parts(ones, *at), by_rule(ones, *at)):
                known = np.isfinite(np.asarray(b))
                np.testing.assert_allclose(
                    np.asarray(a)[known], np.asarray(b)[known], rtol=1e-6, atol=1e-9,
                    err_msg=f"{call}, {name}",
                )  # fmt: skip


# -- derivatives that somebody says ----------------------------------------------------------------
@phix.custom_vjp
def bounded(x: Any) -> Any:
    return ops.sin(x) * 2.0


bounded.defvjp(lambda x: (bounded(x), x), lambda x, ct: (ct * 10.0 * ops.cos(x),))


@phix.custom_jvp
def forward(x: Any) -> Any:
    return ops.exp(ops.square(x))


forward.defjvp(lambda primals, tangents: (forward(primals[0]), 7.0 * tangents[0]))


def looped(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: phix.scan(lambda c, _: (f(c) * 0.5, None), x, None, length=2)[0]


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "stop_gradient": lambda x: x * phix.stop_gradient(ops.silu(x)),
    "custom_vjp": bounded,
    "custom_jvp": forward,
    "all": lambda x: bounded(x) * forward(phix.stop_gradient(x)) + forward(bounded(x)),
    "in a scan": looped(bounded),
    "in a cond": lambda x: phix.cond(ops.sum(x) > 0, bounded, ops.silu, x),
    "under jit": phix.jit(lambda x: bounded(ops.silu(x)) * phix.stop_gradient(x)),
    "in a checkpoint": phix.checkpoint(lambda x: forward(x) * phix.stop_gradient(x)),
    "in a gradient": phix.grad(lambda x: ops.sum(bounded(x) * phix.stop_gradient(ops.sin(x)))),
    "in a batch": phix.vmap(lambda x: bounded(x) + phix.stop_gradient(x) * x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_of_the_users_own_stay(name: str) -> None:
    f, x = FUNCTIONS[name], np.array([0.3, -0.2, 0.7])
    graph = phix.decompose(f)(x)
    for e in graph.equations:
        assert e.op.is_primitive or "own_derivative" in e.op.traits
    np.testing.assert_allclose(graph(x)[0], f(x), rtol=1e-14)

    def total(f: Any) -> Any:
        return lambda x: ops.sum(f(x) * np.array([1.0, 2.0, 3.0]))

    whole, parts = total(f), total(lambda x: graph(x)[0])
    for slope in (phix.grad, lambda f: phix.jit(phix.grad(f)), lambda f: phix.grad(phix.jit(f))):
        np.testing.assert_allclose(slope(parts)(x), slope(whole)(x), rtol=1e-12)
    np.testing.assert_allclose(
        phix.jvp(parts, (x,), (x,))[1], phix.jvp(whole, (x,), (x,))[1], rtol=1e-12
    )


def test_what_is_in_a_call_of_the_users_is_decomposed_too() -> None:
    @phix.custom_vjp
    def f(x: Any) -> Any:
        return ops.gelu(ops.silu(x))

    f.defvjp(lambda x: (f(x), None), lambda _, ct: (ct,))
    graph = phix.decompose(f)(np.ones(3))
    (call,) = graph.equations
    inner = call.attrs[call.op.attr_names.index("graph")]
    assert inner.equations and all(e.op.is_primitive for e in inner.equations)
