"""Derivatives of all kinds inside a mesh, beside those of the same function of the whole data.

Cases of tests/parallel_cases.py, whose meshes and processes run them. The functions are made of
ops whose forward mode is a rule transposed: what comes back must vary as what went in does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import phix
from phix import ops
from tests.parallel_cases import Case, psum

D, R = "data", None
Function = Callable[[Any, Any], Any]


@phix.custom_vjp
def scaled_sine(w: Any, x: Any) -> Any:
    return w * ops.sin(x)


scaled_sine.defvjp(
    lambda w, x: (w * ops.sin(x), (w, x)),
    lambda kept, ct: ((ct * ops.sin(kept[1])).sum(axis=0), ct * kept[0] * ops.cos(kept[1])),
)


@phix.custom_jvp
def sine(x: Any) -> Any:
    return ops.sin(x)


@sine.defjvp
def _(primals: Any, tangents: Any) -> Any:
    return sine(*primals), ops.cos(*primals) * tangents[0]


def normed(total: Any) -> Function:
    """``total``: the sum of the rows of all parts."""
    return lambda w, x: ops.layer_norm(w * x, w, w, 1e-5, 1) * total((w * x).sum(axis=0))


def own_backward(total: Any) -> Function:
    return lambda w, x: scaled_sine(w, x) * total(scaled_sine(w, x).sum(axis=0))


def own_tangent(total: Any) -> Function:
    return lambda w, x: sine(w) * sine(x) * total((sine(w) * x).sum(axis=0))


def repeated(total: Any) -> Function:
    def step(w: Any, h: Any) -> Any:
        return ops.softmax(h * w) + 0.1 * total(h.sum(axis=0))

    return lambda w, x: phix.scan(lambda h, _: (step(w, h), None), x, length=2)[0]


def of_both(f: Function, loss: Function) -> dict[str, Any]:
    """Derivatives at w and x along v and t, with the specs of what comes back."""

    def linear(w: Any, x: Any, v: Any, t: Any) -> Any:
        out, along = phix.linearize(f, w, x)
        return out, along(v, t)

    grads = phix.grad(loss, argnums=(0, 1))
    along = lambda w, x, v, t: phix.jvp(loss, (w, x), (v, t))[1]  # noqa: E731
    return {
        "jvp": (lambda w, x, v, t: phix.jvp(f, (w, x), (v, t)), D),
        "linearize": (linear, D),
        "jacfwd": (lambda w, x, v, t: phix.jacfwd(f)(w, x), D),
        "jvp of grad": (lambda w, x, v, t: phix.jvp(grads, (w, x), (v, t))[1], (R, D)),
        "grad of jvp": (phix.grad(along, argnums=(0, 1, 2, 3)), (R, D, R, D)),
    }


def along_its_own(data: Any, directions: Any) -> Case:
    """The tangent at a value that is the same on all parts, along another direction on each."""
    f = lambda w: ops.softmax(w) * scaled_sine(w, ops.layer_norm(w[None], w, w, 1e-5, 1))  # noqa: E731
    along = lambda w, v: phix.jvp(f, (w,), (v,))[1]  # noqa: E731
    w = phix.to_tensor(data.w)
    expected = ops.concat([along(w, phix.to_tensor(v)) for v in directions], 0)
    each = lambda w, v: along(phix.pvary(w, D), v[0])  # noqa: E731
    return Case(each, (R, D), D, (data.w, directions), expected)


def of_several_outputs(data: Any) -> Case:
    """Of an op of whose outputs one does not depend on what varies: the mean of x."""

    def loss(x: Any, scale: Any, share: Any) -> Any:
        out, mean, _ = ops.fast_ln(x, scale, scale, 1e-5)
        return (out**2).sum() + (mean * share).sum()

    scales, shares = data.parts[:, 0], data.parts[:, 1, :2]
    slope = phix.grad(loss)
    expected = sum(slope(data.x[:2], *pair).numpy() for pair in zip(scales, shares))
    return Case(
        lambda x, scale, share: slope(x, scale[0], share[0]),
        (R, D, D), R, (data.x[:2], scales, shares), expected,
    )  # fmt: skip


def of_a_checkpoint(data: Any) -> Case:
    """Of a function that is run again, of whose results one does not depend on what varies."""
    both = lambda w, x: ((w * x).sum(axis=0), w**2)  # noqa: E731

    def loss(w: Any, x: Any) -> Any:
        own, shared = phix.checkpoint(both)(w, x)
        return psum((own**2).sum(), D) + (shared**3).sum()

    sums = data.parts.sum(axis=1)
    expected = 2 * data.w * (sums**2).sum(axis=0) + 6 * data.w**5
    return Case(phix.grad(loss), (R, D), R, (data.w, data.x), expected)


def of_cofactors(data: Any) -> Case:
    """Of an op whose meta is found by running it, a derivative inside."""
    rows = data.parts[:, 0] @ np.ones((3, 4))
    slope = phix.grad(lambda x: (ops.cofactors(x[:, None] * x + np.eye(4), []) ** 2).sum())
    expected = np.stack([slope(x).numpy() for x in rows])
    return Case(lambda x: slope(x[0])[None], (D,), D, (rows,), expected)


def derivative_cases(data: Any) -> dict[str, Case]:
    rng = np.random.default_rng(11)
    args = (data.w, data.x, rng.normal(size=data.w.shape), rng.normal(size=data.x.shape))
    whole_args = tuple(map(phix.to_tensor, args))
    found = {
        "own directions": along_its_own(data, rng.normal(size=(data.n, data.w.size))),
        "several outputs": of_several_outputs(data),
        "checkpoint": of_a_checkpoint(data),
        "cofactors": of_cofactors(data),
    }
    for make in (normed, own_backward, own_tangent, repeated):
        part, whole = make(lambda s: psum(s, D)), make(lambda s: s)
        ways = of_both(part, lambda w, x, f=part: psum((f(w, x) ** 3).sum(), D))
        plain = of_both(whole, lambda w, x, f=whole: (f(w, x) ** 3).sum())
        for name, (function, specs) in ways.items():
            expected = plain[name][0](*whole_args)
            found[f"{make.__name__}, {name}"] = Case(function, (R, D, R, D), specs, args, expected)
    return found
