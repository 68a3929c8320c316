"""Programs on a mesh, each beside what NumPy makes of the whole data, run by all ranks of mpiexec:

    mpiexec -n 4 python tests/parallel_cases.py

A case is a function of parts, its specs, its whole arguments and the whole result expected. Run
under a virtual mesh as well, by tests/test_parallel.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import phix
from phix import ops
from phix.parallel import gather, mesh, shard, spmd

psum, pmean, pmax, grad = phix.psum, phix.pmean, phix.pmax, phix.grad


@dataclass
class Case:
    """``run(mesh)`` gives a function of parts and ``specs``, of the results too."""

    function: Callable[..., Any]
    in_specs: Any
    out_specs: Any
    args: tuple[Any, ...]
    expected: Any
    outside: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda f: f


def trained(w: Any, x: Any, y: Any) -> Any:
    """Three steps of gradient descent inside a scan, and the losses."""

    def step(w: Any, _: Any) -> Any:
        loss, g = phix.value_and_grad(lambda w: pmean(((x @ w - y) ** 2).mean(), "data"))(w)
        return w - 0.1 * g, loss

    return phix.scan(step, w, length=3)


def trained_whole(w: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    losses = []
    for _ in range(3):
        losses.append(((x @ w - y) ** 2).mean())
        w = w - 0.1 * 2 * x.T @ (x @ w - y) / len(x)
    return w, np.array(losses)


@phix.custom_vjp
def doubled_back(w: Any, x: Any) -> Any:
    return psum((w * x).sum(), "data")


doubled_back.defvjp(
    lambda w, x: (doubled_back(w, x), (w, x)),
    lambda kept, ct: (2 * ct * psum(kept[1].sum(), "data") + 0 * kept[0], 2 * ct * kept[0] + 0 * kept[1]),
)


@phix.custom_jvp
def doubled_tangent(w: Any, x: Any) -> Any:
    return psum((w * x).sum(), "data")


@doubled_tangent.defjvp
def _(primals: Any, tangents: Any) -> Any:
    (w, x), (tw, tx) = primals, tangents
    return doubled_tangent(w, x), 2 * psum((tw * x + w * tx).sum(), "data")


def summed_gradients(numbers: Any) -> Callable[..., Any]:
    """The gradient taken outside, of the sum of the results of all parts."""
    return lambda f: lambda *args: grad(lambda *a: f(*a).sum(), argnums=numbers)(*args)


def cases(n: int) -> dict[str, Case]:
    """By name, for a mesh of n parts along "data"."""
    rng = np.random.default_rng(7)
    x, t = rng.normal(size=(2, 2 * n, 3))
    w, y = rng.normal(size=3), rng.normal(size=2 * n)
    s = np.float64(1.3)
    parts = x.reshape(n, 2, 3)
    d, r = "data", None
    square = rng.normal(size=(n * n, 2))
    blocks = square.reshape(n, n, 2)
    ring = [(k, (k + 1) % n) for k in range(n - 1)]
    rolled = np.concatenate([np.zeros((1, 2, 3)), parts[:-1]]).reshape(2 * n, 3)
    cube = lambda v: (v**3).sum()  # noqa: E731
    total = x.sum()
    found = {
        # -- the collectives
        "psum": Case(lambda x: psum(x, d), (d,), r, (x,), parts.sum(0)),
        "pmean": Case(lambda x: pmean(x, d), (d,), r, (x,), parts.mean(0)),
        "extremes": Case(
            lambda x: (pmax(x, d), phix.pmin(x, d)), (d,), r, (x,), (parts.max(0), parts.min(0))
        ),
        "all_gather": Case(lambda x: phix.all_gather(x, d, axis=1), (d,), r, (x,),
                           np.moveaxis(parts, 0, 1)),
        "tiled": Case(lambda x: phix.all_gather(x, d, tiled=True), (d,), r, (x,), x),
        "ppermute": Case(lambda x: phix.ppermute(x, d, ring), (d,), d, (x,), rolled),
        "all_to_all": Case(lambda b: phix.all_to_all(b, d, 0, 0), (d,), d, (square,),
                           blocks.swapaxes(0, 1).reshape(n * n, 2)),
        "psum_scatter": Case(lambda b: phix.psum_scatter(b, d)[None], (d,), d, (square,), blocks.sum(0)),
        "axis_index": Case(lambda x: phix.axis_index(d) + 0 * x, (d,), d, (x,),
                           np.repeat(np.arange(n), 2)[:, None] + 0 * x),
        "of alike": Case(lambda s: (psum(s, d), phix.all_gather(s, d), psum(1, d)), (r,), r, (s,),
                         (n * s, np.full(n, s), n)),
        # -- derivatives inside
        "grad of alike": Case(lambda w, x, y: grad(lambda w: pmean(((x @ w - y) ** 2).mean(), d))(w),
                              (r, d, d), r, (w, x, y), 2 * x.T @ (x @ w - y) / (2 * n)),
        "grad, local loss": Case(lambda s, x: grad(lambda s: (s * x).sum())(s), (r, d), r, (s, x), total),
        "grad of parts": Case(lambda x: grad(lambda x: psum((x**2).sum(), d) ** 2)(x), (d,), d, (x,),
                              4 * (x**2).sum() * x),
        "own grad": Case(lambda s, x: grad(lambda s: (s * x).sum())(phix.pvary(s, d))[None],
                         (r, d), d, (s, x), parts.sum((1, 2))),
        "second": Case(lambda s, x: grad(grad(lambda s: psum((ops.sin(s * x)).sum(), d)))(s),
                       (r, d), r, (s, x), -(x**2 * np.sin(s * x)).sum()),
        "jvp inside": Case(lambda s, x: phix.jvp(lambda s: psum((s**3 * x).sum(), d), (s,), (s,))[1],
                           (r, d), r, (s, x), 3 * s**3 * total),
        "grad of gather": Case(
            lambda s, x: grad(lambda s, x: cube(phix.all_gather(s * x, d)), argnums=(0, 1))(s, x),
            (r, d), (r, d), (s, x), (3 * s**2 * cube(x), 3 * s**3 * x**2)),
        "grad of permute": Case(lambda x: grad(lambda x: cube(phix.ppermute(x, d, ring)))(x), (d,), d,
                                (x,), np.concatenate([3 * parts[:-1] ** 2, 0 * parts[:1]]).reshape(-1, 3)),
        "grad of exchange": Case(lambda s, b: grad(lambda s: cube(phix.all_to_all(s * b, d, 0, 0)))(s),
                                 (r, d), r, (s, square), 3 * s**2 * cube(square)),
        "grad of scatter": Case(lambda b: grad(lambda b: cube(phix.psum_scatter(b, d)))(b), (d,), d,
                                (square,), np.tile(3 * blocks.sum(0) ** 2, (n, 1))),
        "grad of pmax": Case(lambda x: grad(lambda x: pmax(x.sum(), d))(x), (d,), d, (x,),
                             np.repeat(parts.sum((1, 2)) == parts.sum((1, 2)).max(), 2)[:, None] + 0 * x),
        # -- in loops, branches and functions of their own
        "scan": Case(trained, (r, d, d), r, (w, x, y), trained_whole(w, x, y)),
        "jitted": Case(phix.jit(trained), (r, d, d), r, (w, x, y), trained_whole(w, x, y)),
        "while": Case(lambda x: phix.while_loop(lambda c: c < 50.0, lambda c: c + psum((x**2).sum(), d), 0.0),
                      (d,), r, (x,), (x**2).sum() * np.ceil(50 / (x**2).sum())),
        "carry of parts": Case(lambda x: phix.fori_loop(0, 3, lambda i, c: c + x.sum(), 0.0)[None], (d,), d,
                               (x,), 3 * parts.sum((1, 2))),
        "cond": Case(lambda s, x: grad(lambda s: phix.cond(
            psum(x.sum(), d) > 0, lambda s: psum((s * x).sum(), d), lambda s: -psum((s * x).sum(), d), s))(s),
                     (r, d), r, (s, x), abs(total)),
        "cond of parts": Case(lambda x: phix.cond(x.sum() > 0, lambda x: x, lambda x: -x, x), (d,), d, (x,),
                              (parts * np.sign(parts.sum((1, 2)))[:, None, None]).reshape(-1, 3)),
        "checkpoint": Case(lambda s, x: grad(phix.checkpoint(lambda s: psum(ops.sin(s * x).sum(), d)))(s),
                           (r, d), r, (s, x), (x * np.cos(s * x)).sum()),
        "custom_vjp": Case(lambda s, x: grad(doubled_back)(s, x), (r, d), r, (s, x), 2 * total),
        "custom_jvp": Case(lambda s, x: grad(doubled_tangent)(s, x), (r, d), r, (s, x), 2 * total),
        "vmap inside": Case(lambda w, x: phix.vmap(grad(lambda v: psum((v**2 * x).sum(), d)))(w),
                            (r, d), r, (w, x), 2 * w * total),
        # -- derivatives outside
        "outside": Case(lambda s, x: psum((s**2 * x**2).sum(), d) ** 2, (r, d), r, (s, x),
                        (4 * s**3 * (x**2).sum() ** 2, 4 * s**4 * (x**2).sum() * x),
                        summed_gradients((0, 1))),
        "outside, parts": Case(lambda s, x: s * psum(x.sum(), d) * x, (r, d), d, (s, x),
                               total**2, lambda f: lambda s, x: grad(lambda s: f(s, x).sum())(s)),
        "outside, moved": Case(lambda b: cube(phix.all_to_all(phix.psum_scatter(
            phix.all_gather(b, d), d), d, 0, 0))[None], (d,), d, (square,),
            3 * n**3 * square**2, summed_gradients(0)),
        "outside, scan": Case(lambda s, x: phix.scan(
            lambda c, row: (c * psum(row.sum(), d) + s, None), s, x)[0], (r, d), r, (s, x),
            1 + parts.sum((0, 2))[1] * (1 + parts.sum((0, 2))[0]), lambda f: lambda s, x: grad(f)(s, x)),
        "outside, custom": Case(doubled_back, (r, d), r, (s, x), (2 * total, np.full_like(x, 2 * s)),
                                summed_gradients((0, 1))),
        "outside, jvp": Case(lambda x: psum((x**3).sum(), d), (d,), r, (x,), 3 * cube(x),
                             lambda f: lambda x: phix.jvp(f, (x,), (x,))[1]),
        "outside, second": Case(lambda s, x: psum((s**3 * x).sum(), d), (r, d), r, (s, x), 6 * s * total,
                                lambda f: lambda s, x: grad(grad(f))(s, x)),
    }  # fmt: skip
    found |= dtype_cases(n, rng)
    return found


def dtype_cases(n: int, rng: Any) -> dict[str, Case]:
    """Every sort of dtype and of size, through each way of the steps."""
    d, r = "data", None
    large = rng.normal(size=(n, 3001)).astype(np.float32)
    found = {"large": Case(lambda x: psum(x[0], d), (d,), r, (large,), large.astype(float).sum(0)),
             "large, moved": Case(lambda x: phix.all_gather(x.T, d, axis=2), (d,), r, (large,),
                                  large.T[:, None, :]),
             "empty": Case(lambda x: (psum(x, d), phix.all_gather(x, d)), (d,), r,
                           (np.zeros((n, 0)),), (np.zeros((1, 0)), np.zeros((n, 1, 0))))}  # fmt: skip
    for dtype in ("float16", ml_dtypes.bfloat16, "complex128", "int8", "uint32"):
        x = np.round(4 * rng.normal(size=(n, 2)) ** 2).astype(dtype)
        found[f"of {np.dtype(dtype).name}"] = Case(
            lambda x: (psum(x, d), phix.all_gather(x, d)), (d,), r, (x,), (x.sum(0)[None], x[:, None])
        )
    bools = rng.normal(size=(n, 2)) > 0
    found["of bool"] = Case(
        lambda x: (psum(x, d), phix.all_gather(x, d)), (d,), r, (bools,), (bools.sum(0)[None], bools[:, None])
    )
    return found


def two_axes() -> tuple[dict[str, int], dict[str, Case]]:
    """Cases of a mesh with two axes: rows of the data along one, columns of weights along other."""
    rng = np.random.default_rng(9)
    x, u, v = rng.normal(size=(4, 3)), rng.normal(size=(3, 4)), rng.normal(size=(4, 2))

    def loss(u: Any, v: Any, x: Any) -> Any:
        return pmean((psum(ops.tanh(x @ u) @ v, "model") ** 2).mean(), "data")

    h = np.tanh(x @ u)
    out = 2 * (h @ v) / (h @ v).size
    grads = (x.T @ ((out @ v.T) * (1 - h**2)), h.T @ out)
    specs = ((None, "model"), "model", "data")
    step = lambda u, v, x: grad(loss, argnums=(0, 1))(u, v, x)  # noqa: E731
    return {"data": 2, "model": 2}, {
        "two axes": Case(loss, specs, None, (u, v, x), ((h @ v) ** 2).mean()),
        "two axes, inside": Case(step, specs, ((None, "model"), "model"), (u, v, x), grads),
        "two axes, outside": Case(loss, specs, None, (u, v, x), grads,
                                  lambda f: lambda *a: grad(f, argnums=(0, 1))(*a)),
        "both": Case(lambda x: psum(x.sum(), ("data", "model")), (("data", "model"),), None,
                     (x[:, :2],), x[:, :2].sum()),
    }  # fmt: skip


def wholes(found: Any, case: Case, on: Any) -> list[np.ndarray]:
    """Results whole. Gradients taken outside have the specs of their arguments."""
    specs = case.out_specs
    if case.outside is not Case.outside:
        count = len(found) if isinstance(found, tuple) else 1
        specs = tuple(case.in_specs)[:count] if count > 1 or case.in_specs[0] else None
        if count == 1 and case.in_specs[0] is not None:
            specs = case.in_specs[0] if np.ndim(found) else None
    return [np.asarray(v) for v in phix.tree.leaves(gather(found, on, specs))]


def check(name: str, case: Case, on: Any, jitted: bool) -> list[np.ndarray]:
    """Run a case and compare; the results, whole."""
    args = shard(tuple(map(phix.to_tensor, case.args)), on, tuple(case.in_specs))
    function = case.outside(spmd(case.function, on, case.in_specs, case.out_specs))
    found = wholes((phix.jit(function) if jitted else function)(*args), case, on)
    expected = [np.asarray(e) for e in phix.tree.leaves(case.expected)]
    assert len(found) == len(expected), name
    for one, other in zip(found, expected):
        low = one.dtype.itemsize < 8 and one.dtype.kind not in "biu"
        bound = 1e-2 if one.dtype.itemsize == 2 else 1e-5 if low else 1e-10
        np.testing.assert_allclose(
            one.astype(complex), other.astype(complex), rtol=bound, atol=bound, err_msg=name
        )
    return found


def main() -> int:
    """All cases on all ranks: eagerly and compiled, with checks on and twice to the bit."""
    plain, watched = mesh({"data": -1}), mesh({"data": -1}, checks=True)
    todo = [(name, case, plain) for name, case in cases(plain.size).items()]
    if plain.size == 4:
        axes, more = two_axes()
        on = mesh(axes)
        todo += [(name, case, on) for name, case in more.items()]
    for number, (name, case, on) in enumerate(todo):
        try:
            first = check(name, case, on, jitted=True)
            if number % 3 == 0:
                again = check(name, case, watched if on is plain else on, jitted=False)
                second = check(name, case, on, jitted=True)
                assert all(map(np.array_equal, first, second)), "not the same twice"
                assert len(again) == len(first)
        except Exception as error:
            raise RuntimeError(f"{name}, rank {plain.rank}: {error}") from error
    if plain.rank == 0:
        print(f"{len(todo)} cases on {plain.size} ranks are right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
