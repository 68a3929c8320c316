"""Programs in which results take the memory of what the same loops still read.

Each is compared with NumPy in float64, whose steps are written out here; eager calls of loops and
checkpoints compile as well, and are no reference.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phix
from phix import ops

pytestmark = pytest.mark.unoptimised(4)

SHAPES = [(7, 16), (8, 8), (9, 17), (1, 3), (16, 16), (33, 5), (64, 10)]


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def agree(found: Any, wanted: Any) -> None:
    for a, b in zip(phix.tree.leaves(found), phix.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-10, atol=1e-10 * np.abs(b).max(initial=1))


@pytest.mark.parametrize(("batch", "hidden"), SHAPES)
@pytest.mark.parametrize("donated", [(), (0,)], ids=["kept", "donated"])
def test_gradients_of_a_relu_network(batch: int, hidden: int, donated: tuple[int, ...]) -> None:
    x, w, b, v = draw(batch, 5), draw(5, hidden), draw(hidden), draw(hidden, 3)
    tx, tv = phix.to_tensor(x), phix.to_tensor(v)

    def loss(p: Any) -> Any:
        return ops.mean((ops.relu(ops.matmul(tx, p[0]) + p[1]) @ tv) ** 2)

    given = (phix.to_tensor(w) * 1.0, phix.to_tensor(b) * 1.0)
    found = phix.jit(phix.grad(loss), donate_argnums=donated)(given)
    z = x @ w + b
    h = np.maximum(z, 0)
    dz = (2 * (h @ v) / (batch * 3)) @ v.T * (z > 0)
    agree(found, (x.T @ dz, dz.sum(0)))


@pytest.mark.parametrize("shape", SHAPES)
def test_loops_that_carry_an_array_and_read_its_columns_out(shape: tuple[int, int]) -> None:
    x, w = draw(*shape), draw(shape[1])
    tw = phix.to_tensor(w)
    sums = lambda c, _: (c + tw, ops.sum(c, axis=[0]))  # noqa: E731

    def scanned(x: Any) -> Any:
        return phix.scan(sums, x, None, length=3)

    def counted(x: Any) -> Any:
        step = lambda i, s: (s[0] * 1.5 + tw, s[1] + ops.sum(s[0], axis=[0]))  # noqa: E731
        return phix.fori_loop(0, 3, step, (x, ops.full([shape[1]], 0.0, "float64")))

    wanted = np.stack([x.sum(0), (x + w).sum(0), (x + 2 * w).sum(0)])
    one, two = 1.5 * x + w, 1.5 * (1.5 * x + w) + w
    for run in (lambda f: f, phix.jit):
        agree(run(scanned)(phix.to_tensor(x)), (x + 3 * w, wanted))
        agree(run(counted)(phix.to_tensor(x)), (1.5 * two + w, x.sum(0) + one.sum(0) + two.sum(0)))


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_through_a_checkpoint(shape: tuple[int, int]) -> None:
    x, w = draw(*shape), draw(shape[1])
    f = phix.checkpoint(lambda x, w: ops.tanh(x * w) + x)
    total = lambda x, w: ops.sum(f(x, w))  # noqa: E731
    slope = 1 - np.tanh(x * w) ** 2
    for run in (lambda f: f, phix.jit):
        gradient = run(phix.grad(total, argnums=(0, 1)))
        agree(gradient(phix.to_tensor(x), phix.to_tensor(w)), (slope * w + 1, (slope * x).sum(0)))


@pytest.mark.parametrize("disabled", [[], ["several_rows"]], ids=["all", "row by row"])
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_in_the_memory_of_a_donated_vector(
    shape: tuple[int, int], disabled: list[str]
) -> None:
    x, w = draw(*shape), draw(shape[1])
    tx = phix.to_tensor(x)

    def f(w: Any) -> Any:
        t = ops.tanh(tx * w)
        return ops.sum(t * tx, axis=[0]), ops.sum(t + w, axis=[0])

    found = phix.jit(f, donate_argnums=0, disable=disabled)(phix.to_tensor(w) * 1.0)
    t = np.tanh(x * w)
    agree(found, ((t * x).sum(0), (t + w).sum(0)))


@pytest.mark.parametrize("points", [7, 33])
def test_gradients_of_a_residual_and_a_boundary_term(points: int) -> None:
    # u = sum_k v_k tanh(w_k x + b_k): its second derivative in closed form, the rest by NumPy
    x, w, b, v = draw(points), draw(16), draw(16, seed=1), draw(16, seed=2)
    tx, ends = phix.to_tensor(x), phix.to_tensor(np.array([0.0, 1.0]))

    def loss(p: Any) -> Any:
        w, b, v = p
        u = lambda x: ops.sum(v * ops.tanh(w * x + b))  # noqa: E731
        residual = phix.vmap(phix.grad(phix.grad(u)))(tx) + 1.0
        return ops.mean(residual**2) + u(ends[0]) ** 2 + phix.grad(u)(ends[1]) ** 2

    found = phix.jit(phix.grad(loss))((w, b, v))
    z = np.tanh(np.outer(x, w) + b)
    d1, d2 = 1 - z**2, -2 * z * (1 - z**2)
    d3 = -2 * d1 * (1 - 3 * z**2)  # derivative of d2 by its argument
    r = (2 / points) * (d2 @ (v * w**2) + 1)
    t0, t1 = np.tanh(b), np.tanh(w + b)
    s0, s1 = 1 - t0**2, 1 - t1**2
    u0, e1 = 2 * np.sum(v * t0), 2 * np.sum(v * w * s1)
    gb = (r @ d3) * v * w**2 + u0 * v * s0 + e1 * v * w * (-2 * t1 * s1)
    gw = (r * x) @ d3 * v * w**2 + 2 * v * w * (r @ d2) + e1 * v * (s1 - 2 * w * t1 * s1)
    gv = w**2 * (r @ d2) + u0 * t0 + e1 * w * s1
    agree(found, (gw, gb, gv))


@pytest.mark.parametrize("dims", [("n", "m"), (4, 7)], ids=["unknown", "known"])
def test_what_an_output_copied_stays_while_its_source_is_updated(dims: tuple[Any, ...]) -> None:
    """All but one element of the output is copied, behind what fills the copy's source: it may
    not live there, as the source is then added to."""

    def program(x: Any, rows: Any) -> Any:
        last, _ = phix.scan(lambda c, row: (0.5 * row - c, None), 0.0 * x[0] + 0.5, x)
        middle = last.shape[0] // 2
        added = last.at[ops.cast(rows, "int64") % last.shape[0]].add(rows)
        return last.at[middle].set(0.5 * ops.sum(added))

    x, rows = draw(4, 7), np.array([0.0, 5.0, 10.0])
    wanted = np.full(7, 0.5)
    for row in x:
        wanted = 0.5 * row - wanted
    wanted[7 // 2] = 0.5 * (wanted.sum() + rows.sum())
    compiled = phix.jit(program, input_spec=[phix.spec(dims, "float64"), phix.spec([3], "float64")])
    agree(compiled(x, rows), wanted)


# -- what it is good for ---------------------------------------------------------------------------
def descent(w: Any, b: Any, v: Any, x: Any) -> Any:
    def loss(w: Any, b: Any, v: Any) -> Any:
        return ops.mean((ops.relu(x @ w + b) @ v) ** 2)

    slopes = phix.grad(loss, argnums=(0, 1, 2))(w, b, v)
    return tuple(p - 0.1 * g for p, g in zip((w, b, v), slopes))


def iterated(x: Any, w: Any) -> Any:
    return phix.fori_loop(0, 4, lambda _, c: ops.tanh(c @ w), x)


DESCENT = (descent, [[40, 50], [50], [50, 30], [60, 40]])
# A pass, and a program that takes less memory for temps by it.
SAVINGS: dict[str, tuple[Any, list[list[int]]]] = {
    "use_outputs": DESCENT,
    "reuse_temps": DESCENT,
    "shrink_temps": (lambda x: ops.softmax(ops.sin(x), 1) * 2.0, [[300, 400]]),
    "carry_in_place": (iterated, [[30, 30], [30, 30]]),
}


@pytest.mark.parametrize("name", SAVINGS)
def test_a_pass_that_saves_memory_saves_some(name: str) -> None:
    function, shapes = SAVINGS[name]

    def temps(**options: Any) -> int:
        lowered = phix.jit(function, **options).lower(*map(phix.spec, shapes))
        return int(lowered.memory_analysis().temp_size_in_bytes)

    assert temps() < temps(disable=name)
