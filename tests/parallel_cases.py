"""Programs on a mesh, each beside what NumPy makes of the whole data, run by all ranks of mpiexec:

    mpiexec -n 4 python -m tests.parallel_cases
    mpiexec -n 2 python -m tests.parallel_cases gpu

A case is a function of parts, its specs, its whole arguments and the whole result expected. Run
under a virtual mesh as well, by tests/test_parallel.py. Between ranks every collective is the
primitive ``rank_step``, and what is the same on all of them is used in parts by ``rank_vary``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import phix
from phix import ops
from phix.parallel import gather, local_parts, mesh, spmd
from phix.parallel.exchange import Group
from tests import begun_call_cases, machine_code, rank_call_cases, sharding_cases

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


LANES = np.array([1.0, -2.0, 0.5, 3.0, 1.5, -1.0, 2.0, 0.25] * 8)


def either(s: Any, x: Any) -> Any:
    """Which of the two is taken, differs between the parts."""
    return phix.cond(x.sum() > 0, lambda: s * x.sum(), lambda: s * s * x.mean())


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
    lambda kept, ct: (
        2 * ct * psum(kept[1].sum(), "data") + 0 * kept[0],
        2 * ct * kept[0] + 0 * kept[1],
    ),
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


D, R = "data", None  # divided along the axis; the same on all parts


class Data:
    """The whole data of cases on ``n`` parts."""

    def __init__(self, n: int) -> None:
        rng = np.random.default_rng(7)
        self.n = n
        self.x = rng.normal(size=(2 * n, 3))
        self.w, self.y = rng.normal(size=3), rng.normal(size=2 * n)
        self.s = np.float64(1.3)
        self.parts = self.x.reshape(n, 2, 3)
        self.square = rng.normal(size=(n * n, 2))
        self.blocks = self.square.reshape(n, n, 2)
        self.ring = [(k, k + 1) for k in range(n - 1)]
        self.total = self.x.sum()


def cube(v: Any) -> Any:
    return (v**3).sum()


def cases(n: int) -> dict[str, Case]:
    """By name, for a mesh of n parts along "data"."""
    from tests.communication_cases import communication_cases
    from tests.derivative_cases import derivative_cases
    from tests.ragged_cases import ragged_cases
    from tests.training_cases import training_cases

    made = Data(n)
    families = (
        collective_cases, inside_cases, loop_cases, outside_cases, dtype_cases, communication_cases,
        ragged_cases, training_cases, derivative_cases,
    )  # fmt: skip
    return {name: case for family in families for name, case in family(made).items()}


def collective_cases(data: Data) -> dict[str, Case]:
    """What each collective gives."""
    n, x, s, parts, square, blocks, ring = (
        data.n,
        data.x,
        data.s,
        data.parts,
        data.square,
        data.blocks,
        data.ring,
    )
    return {
        "psum": Case(lambda x: psum(x, D), (D,), R, (x,), parts.sum(0)),
        "pmean": Case(lambda x: pmean(x, D), (D,), R, (x,), parts.mean(0)),
        "extremes": Case(
            lambda x: (pmax(x, D), phix.pmin(x, D)), (D,), R, (x,), (parts.max(0), parts.min(0))
        ),
        "all_gather": Case(
            lambda x: phix.all_gather(x, D, axis=1), (D,), R, (x,), np.moveaxis(parts, 0, 1)
        ),
        "tiled": Case(lambda x: phix.all_gather(x, D, tiled=True), (D,), R, (x,), x),
        "ppermute": Case(
            lambda x: phix.ppermute(x, D, ring),
            (D,),
            D,
            (x,),
            np.concatenate([0 * parts[:1], parts[:-1]]).reshape(-1, 3),
        ),
        "all_to_all": Case(
            lambda b: phix.all_to_all(b, D, 0, 0),
            (D,),
            D,
            (square,),
            blocks.swapaxes(0, 1).reshape(n * n, 2),
        ),
        "psum_scatter": Case(
            lambda b: phix.psum_scatter(b, D)[None], (D,), D, (square,), blocks.sum(0)
        ),
        "axis_index": Case(
            lambda x: phix.axis_index(D) + 0 * x,
            (D,),
            D,
            (x,),
            np.repeat(np.arange(n), 2)[:, None] + 0 * x,
        ),
        "of alike": Case(
            lambda s: (psum(s, D), phix.all_gather(s, D), psum(1, D)),
            (R,),
            R,
            (s,),
            (n * s, np.full(n, s), n),
        ),
    }


def inside_cases(data: Data) -> dict[str, Case]:
    """Derivatives taken in each part."""
    n, x, w, y, s, parts, square, blocks, ring, total = (
        data.n,
        data.x,
        data.w,
        data.y,
        data.s,
        data.parts,
        data.square,
        data.blocks,
        data.ring,
        data.total,
    )
    return {
        "grad of alike": Case(
            lambda w, x, y: grad(lambda w: pmean(((x @ w - y) ** 2).mean(), D))(w),
            (R, D, D),
            R,
            (w, x, y),
            2 * x.T @ (x @ w - y) / (2 * n),
        ),
        "grad, local loss": Case(
            lambda s, x: grad(lambda s: (s * x).sum())(s), (R, D), R, (s, x), total
        ),
        "grad of parts": Case(
            lambda x: grad(lambda x: psum((x**2).sum(), D) ** 2)(x),
            (D,),
            D,
            (x,),
            4 * (x**2).sum() * x,
        ),
        "own grad": Case(
            lambda s, x: grad(lambda s: (s * x).sum())(phix.pvary(s, D))[None],
            (R, D),
            D,
            (s, x),
            parts.sum((1, 2)),
        ),
        "grad of what meets parts in a sum": Case(
            lambda s, x: grad(lambda s: psum((s + x).sum() + 0.5 * s**2, D))(s),
            (R, D),
            R,
            (s, x),
            x.size + n * s,
        ),
        "grad of a scattered sum": Case(
            lambda s, x: grad(lambda s: (phix.psum_scatter(s * LANES[:n], D) * x.sum()).sum())(s),
            (R, D),
            R,
            (s, x),
            (n * LANES[:n] * parts.sum((1, 2))).sum(),
        ),
        "grad of branches that parts take or not": Case(
            lambda s, x: grad(lambda s: psum(either(s, x), D))(s),
            (R, D),
            R,
            (s, x),
            sum(p.sum() if p.sum() > 0 else 2 * s * p.mean() for p in parts),
        ),
        "grad of a loop whose carry becomes the same": Case(
            lambda s, x: grad(
                lambda s: psum(
                    phix.scan(lambda c, _: (pmean(c, D) * s, None), x.sum() * s, None, 3)[0], D
                )
            )(s),
            (R, D),
            R,
            (s, x),
            4 * s**3 * total,
        ),
        "grad outside, of branches": Case(
            lambda s, x: psum(either(s, x), D),
            (R, D),
            R,
            (s, x),
            sum(p.sum() if p.sum() > 0 else 2 * s * p.mean() for p in parts),
            grad,
        ),
        "second": Case(
            lambda s, x: grad(grad(lambda s: psum((ops.sin(s * x)).sum(), D)))(s),
            (R, D),
            R,
            (s, x),
            -(x**2 * np.sin(s * x)).sum(),
        ),
        "jvp inside": Case(
            lambda s, x: phix.jvp(lambda s: psum((s**3 * x).sum(), D), (s,), (s,))[1],
            (R, D),
            R,
            (s, x),
            3 * s**3 * total,
        ),
        "grad of gather": Case(
            lambda s, x: grad(lambda s, x: cube(phix.all_gather(s * x, D)), argnums=(0, 1))(s, x),
            (R, D),
            (R, D),
            (s, x),
            (3 * s**2 * cube(x), 3 * s**3 * x**2),
        ),
        "grad of permute": Case(
            lambda x: grad(lambda x: cube(phix.ppermute(x, D, ring)))(x),
            (D,),
            D,
            (x,),
            np.concatenate([3 * parts[:-1] ** 2, 0 * parts[:1]]).reshape(-1, 3),
        ),
        "grad of exchange": Case(
            lambda s, b: grad(lambda s: cube(phix.all_to_all(s * b, D, 0, 0)))(s),
            (R, D),
            R,
            (s, square),
            3 * s**2 * cube(square),
        ),
        "grad of scatter": Case(
            lambda b: grad(lambda b: cube(phix.psum_scatter(b, D)))(b),
            (D,),
            D,
            (square,),
            np.tile(3 * blocks.sum(0) ** 2, (n, 1)),
        ),
        "grad of pmax": Case(
            lambda x: grad(lambda x: pmax(x.sum(), D))(x),
            (D,),
            D,
            (x,),
            np.repeat(parts.sum((1, 2)) == parts.sum((1, 2)).max(), 2)[:, None] + 0 * x,
        ),
    }


def loop_cases(data: Data) -> dict[str, Case]:
    """Collectives and derivatives in loops, branches, and functions of their own."""
    x, w, y, s, parts, total = data.x, data.w, data.y, data.s, data.parts, data.total
    return {
        "scan": Case(trained, (R, D, D), R, (w, x, y), trained_whole(w, x, y)),
        "jitted": Case(phix.jit(trained), (R, D, D), R, (w, x, y), trained_whole(w, x, y)),
        "while": Case(
            lambda x: phix.while_loop(lambda c: c < 50.0, lambda c: c + psum((x**2).sum(), D), 0.0),
            (D,),
            R,
            (x,),
            (x**2).sum() * np.ceil(50 / (x**2).sum()),
        ),
        "carry of parts": Case(
            lambda x: phix.fori_loop(0, 3, lambda i, c: c + x.sum(), 0.0)[None],
            (D,),
            D,
            (x,),
            3 * parts.sum((1, 2)),
        ),
        "cond": Case(
            lambda s, x: grad(
                lambda s: phix.cond(
                    psum(x.sum(), D) > 0,
                    lambda s: psum((s * x).sum(), D),
                    lambda s: -psum((s * x).sum(), D),
                    s,
                )
            )(s),
            (R, D),
            R,
            (s, x),
            abs(total),
        ),
        "cond of parts": Case(
            lambda x: phix.cond(x.sum() > 0, lambda x: x, lambda x: -x, x),
            (D,),
            D,
            (x,),
            (parts * np.sign(parts.sum((1, 2)))[:, None, None]).reshape(-1, 3),
        ),
        "checkpoint": Case(
            lambda s, x: grad(phix.checkpoint(lambda s: psum(ops.sin(s * x).sum(), D)))(s),
            (R, D),
            R,
            (s, x),
            (x * np.cos(s * x)).sum(),
        ),
        "custom_vjp": Case(lambda s, x: grad(doubled_back)(s, x), (R, D), R, (s, x), 2 * total),
        "custom_jvp": Case(lambda s, x: grad(doubled_tangent)(s, x), (R, D), R, (s, x), 2 * total),
        "vmap inside": Case(
            lambda w, x: phix.vmap(grad(lambda v: psum((v**2 * x).sum(), D)))(w),
            (R, D),
            R,
            (w, x),
            2 * w * total,
        ),
    }


def outside_cases(data: Data) -> dict[str, Case]:
    """Derivatives of the function on the mesh."""
    n, x, s, parts, square, total = data.n, data.x, data.s, data.parts, data.square, data.total
    return {
        "outside": Case(
            lambda s, x: psum((s**2 * x**2).sum(), D) ** 2,
            (R, D),
            R,
            (s, x),
            (4 * s**3 * (x**2).sum() ** 2, 4 * s**4 * (x**2).sum() * x),
            summed_gradients((0, 1)),
        ),
        "outside, parts": Case(
            lambda s, x: s * psum(x.sum(), D) * x,
            (R, D),
            D,
            (s, x),
            total**2,
            lambda f: lambda s, x: grad(lambda s: f(s, x).sum())(s),
        ),
        "outside, moved": Case(
            lambda b: cube(phix.all_to_all(phix.psum_scatter(phix.all_gather(b, D), D), D, 0, 0))[
                None
            ],
            (D,),
            D,
            (square,),
            3 * n**3 * square**2,
            summed_gradients(0),
        ),
        "outside, scan": Case(
            lambda s, x: phix.scan(lambda c, row: (c * psum(row.sum(), D) + s, None), s, x)[0],
            (R, D),
            R,
            (s, x),
            1 + parts.sum((0, 2))[1] * (1 + parts.sum((0, 2))[0]),
            lambda f: lambda s, x: grad(f)(s, x),
        ),
        "outside, custom": Case(
            doubled_back,
            (R, D),
            R,
            (s, x),
            (2 * total, np.full_like(x, 2 * s)),
            summed_gradients((0, 1)),
        ),
        "outside, jvp": Case(
            lambda x: psum((x**3).sum(), D),
            (D,),
            R,
            (x,),
            3 * cube(x),
            lambda f: lambda x: phix.jvp(f, (x,), (x,))[1],
        ),
        "outside, second": Case(
            lambda s, x: psum((s**3 * x).sum(), D),
            (R, D),
            R,
            (s, x),
            6 * s * total,
            lambda f: lambda s, x: grad(grad(f))(s, x),
        ),
    }


def dtype_cases(data: Data) -> dict[str, Case]:
    """Every sort of dtype and of size, through each way of the steps."""
    n, rng, d, r = data.n, np.random.default_rng(8), "data", None
    large = rng.normal(size=(n, 3001)).astype(np.float32)
    found = {
        "large": Case(lambda x: psum(x[0], d), (d,), r, (large,), large.astype(float).sum(0)),
        "large, moved": Case(
            lambda x: phix.all_gather(x.T, d, axis=2), (d,), r, (large,), large.T[:, None, :]
        ),
        "empty": Case(
            lambda x: (psum(x, d), phix.all_gather(x, d)),
            (d,),
            r,
            (np.zeros((n, 0)),),
            (np.zeros((1, 0)), np.zeros((n, 1, 0))),
        ),
    }
    found["under way"] = under_way(data, rng)
    for dtype in ("float16", ml_dtypes.bfloat16, "complex128", "int8", "uint32"):
        x = np.round(4 * rng.normal(size=(n, 2)) ** 2).astype(dtype)
        found[f"of {np.dtype(dtype).name}"] = Case(
            lambda x: (psum(x, d), phix.all_gather(x, d)),
            (d,),
            r,
            (x,),
            (x.sum(0)[None], x[:, None]),
        )
    bools = rng.normal(size=(n, 2)) > 0
    found["of bool"] = Case(
        lambda x: (psum(x, d), phix.all_gather(x, d)),
        (d,),
        r,
        (bools,),
        (bools.sum(0)[None], bools[:, None]),
    )
    return found


def under_way(data: Data, rng: np.random.Generator) -> Case:
    """Steps that are begun, products meanwhile, and all of it three times in a loop."""
    x, w = rng.normal(size=(data.n, 40, 32)), rng.normal(size=(32, 32)) / 6

    def turn(v: Any, _: Any) -> Any:
        total, rows = psum(v, "data"), phix.all_gather(v, "data")
        moved = phix.ppermute(v, "data", data.ring)
        own = ops.tanh(ops.tanh(v @ w) @ w)
        return (total + rows[-1] - moved) * own, None

    values = x
    for _ in range(3):
        moved = np.concatenate([0 * values[:1], values[:-1]])
        own = np.tanh(np.tanh(values @ w) @ w)
        values = (values.sum(0) + values[-1] - moved) * own
    return Case(lambda x: phix.scan(turn, x[0], length=3)[0][None], ("data",), "data", (x,), values)


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
        "two axes, outside": Case(
            loss, specs, None, (u, v, x), grads, lambda f: lambda *a: grad(f, argnums=(0, 1))(*a)
        ),
        "rings": Case(
            lambda x: (ops.all_reduce(x, 1), ops.mp_allreduce_sum(x)),
            (("data", "model"),),
            (("data",), (None, "model")),
            (x[:, :2],),
            (x[:, :1] + x[:, 1:2], x[:2, :2] + x[2:, :2]),
        ),
        "both": Case(
            lambda x: psum(x.sum(), ("data", "model")),
            (("data", "model"),),
            None,
            (x[:, :2],),
            x[:, :2].sum(),
        ),
    }


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
    args = local_parts(tuple(map(phix.to_tensor, case.args)), on, tuple(case.in_specs))
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


def all_cases() -> None:
    """All cases, compiled; some eagerly with checks on, and again, to the bit."""
    plain, watched = mesh({"data": -1}), mesh({"data": -1}, checks=True)
    alone = ("attention, whole", "stages forward")  # on virtual meshes alone
    todo = [(n, case, plain) for n, case in cases(plain.size).items() if n not in alone]
    if plain.size == 4:
        del todo[::2]  # four ranks beside two cores; on two ranks all of them
        axes, more = two_axes()
        on = mesh(axes)
        todo += [(name, case, on) for name, case in more.items()]
    for number, (name, case, on) in enumerate(todo):
        try:
            first = check(name, case, on, jitted=True)
            is_drawn = number % 6 == plain.size % 6
            if is_drawn:
                check(name, case, watched if on is plain else on, jitted=False)
            if is_drawn or case.function.__module__ == "tests.training_cases":
                second = check(name, case, on, jitted=True)
                assert all(map(np.array_equal, first, second)), "not the same twice"
        except Exception as error:
            raise RuntimeError(f"{name}, rank {plain.rank}: {error}") from error
    overlapping = mesh({"data": -1}, overlap=True)
    check("under way", cases(plain.size)["under way"], overlapping, jitted=True)
    for on, dtype in ((plain, "float32"), (overlapping, "float32"), (overlapping, "float16")):
        used_apart(on, dtype)
    sharding_cases.on_ranks(mesh, plain.size)
    if plain.rank == 0:
        print(f"{len(todo)} cases on {plain.size} ranks are right")


def used_apart(on: Any, dtype: str) -> None:
    """Ranks use other results, or none, and at other times: all send the same nevertheless."""
    own, size, seen = on.rank + 1.0, 6000, []
    first, last = on.rank == 0, on.rank == on.size - 1

    def look(when: bool, v: Any) -> None:
        if when:
            phix.debug.callback(lambda v: seen.append(float(v)), v[0])

    def turn(c: Any, _: Any) -> Any:
        look(first, psum(c, "data"))
        look(last, psum(c * c, "data"))
        return c * 0.5, None

    def program(x: Any) -> Any:
        kept = phix.scan(turn, x, length=2)[0]
        a = psum(x, "data")
        look(first, a)
        b = psum(kept * kept, "data")
        look(last, b)
        return a, b, ops.cumsum(a[:3], 0), ops.cumsum(b[:3], 0)

    found = phix.jit(spmd(program, on, "data", None))(ops.full([size], own, dtype))
    ranks = np.arange(1.0, on.size + 1)
    a, b = ranks.sum(), (ranks**2).sum() / 16
    for one, other in zip(found, (a, b, a * np.arange(1, 4), b * np.arange(1, 4))):
        np.testing.assert_array_equal(one.astype("float64"), np.broadcast_to(other, one.shape))
    wanted = [v for k in (1, 2) for v in [a / k] * first + [16 * b / k**2] * last]
    assert sorted(seen) == sorted([*wanted, *[a] * first, *[b] * last]), seen


def on_gpus(by_nccl: bool) -> None:
    """All cases on tensors on GPUs, one a rank; for machines that have some."""
    Group.nccl = by_nccl
    place = mesh({"data": -1}).place
    assert place.kind == "gpu", "no GPU is here: python -m phix info says why"
    with phix.device(place):
        all_cases()


# -- programs that go wrong ----------------------------------------------------------------------
def mismatches() -> None:
    """Ranks that do not do the same, on a mesh with checks: each is found, and nothing hangs."""
    on = mesh({"data": -1}, checks=True)
    for what in ("order", "shape", "dtype", "alike", "leaves"):
        try:
            mismatch(what, on, on.rank == 0)
        except phix.errors.CollectiveError as error:
            if on.rank == 0:
                print(f"{what}: {error}", flush=True)
    assert spmd(lambda x: psum(x, "data"), on, "data")(np.ones(1)).item() == on.size


def mismatch(what: str, on: Any, first: bool) -> None:

    def program(s: Any, x: Any) -> Any:
        if what == "order":
            pair = [lambda: psum(x, "data"), lambda: pmax(x, "data")]
            return [f() for f in (pair if first else pair[::-1])]
        if what == "shape":
            return psum(x[: 1 + on.rank], "data")
        if what == "dtype":
            return psum(ops.cast(x, "float32" if first else "float64"), "data")
        return psum(s * x, "data") if first or what == "alike" else x[:1]

    s = 1.0 + on.rank if what == "alike" else 1.0
    out = None if what != "leaves" or first else "data"
    spmd(program, on, (None, "data"), out)(s, np.ones(2))


def failing() -> None:
    """One rank raises, the others wait for it in native code."""
    on = mesh({"data": -1})
    run = phix.jit(spmd(lambda x: psum(x, "data"), on, "data", None))
    run(np.ones(2))
    if on.rank == 1:
        time.sleep(1.0)  # until the others are there, on a busy machine, too
        print(f"failing at {time.time()}", flush=True)
        raise ValueError("the data of this rank are gone")
    run(np.ones(2))


def main(what: str = "cases", how: str = "") -> None:
    with machine_code.unoptimised():
        if what == "cases":
            all_cases()
            rank_call_cases.check(mesh({"data": -1}))
            begun_call_cases.check(mesh({"data": -1}))
        elif what == "gpu":
            on_gpus(how != "host")
        elif what == "failing":
            failing()
        elif what in ("killed", "half"):
            {"killed": begun_call_cases.killed, "half": begun_call_cases.failing}[what]()
        else:
            mismatches()


if __name__ == "__main__":
    from tests import parallel_cases  # by its name: cases in other files are of its classes

    parallel_cases.main(*sys.argv[1:])
