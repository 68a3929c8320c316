"""Steps of the GPU engine that run side by side: which may, and that results do not change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phix
from gpu_programs import check, needs_compiler, program
from phix import ops
from phix.kernels.gpu.dependences import lanes, order
from phix.kernels.gpu.products import Product
from phix.kernels.gpu.runtime import Waits
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.effects import effects_of

pytestmark = [needs_compiler, pytest.mark.xdist_group("gpu dependences"), pytest.mark.unoptimised]


def steps_of(function: Any, *specs: Any) -> list[ir.Step]:
    return program(phix.jit(function).lower(*specs).graph).loops.steps


def sums(x: Any) -> Any:
    """Sums that know nothing of each other, and one of them all."""
    found = [ops.sum(ops.sin(x * float(k)), [0]) for k in range(1, 5)]
    return found, sum(ops.sum(f) for f in found)


def before(waits: list[Waits]) -> list[set[int]]:
    """The steps that have ended when each begins."""
    found: list[set[int]] = []
    for after in waits:
        found.append(set(after).union(*(found[n] for n in after)))
    return found


def test_steps_wait_for_what_they_depend_on_and_for_nothing_else() -> None:
    steps = steps_of(sums, phix.spec([3000, 7]))
    ended = before(order(steps, ir.owner).waits)
    wanted: list[set[int]] = []
    for later, step in enumerate(steps):
        own = {n for n in range(later) if effects_of(steps[n]).conflicts(effects_of(step))}
        wanted.append(own.union(*(wanted[n] for n in own)))
    assert ended == wanted
    assert any(len(own) < k for k, own in enumerate(ended))


def test_no_step_waits_for_one_that_another_waits_for() -> None:
    waits = order(steps_of(sums, phix.spec([3000, 7])), ir.owner).waits
    ended = before(waits)
    assert not any(n in ended[m] for after in waits for n in after for m in after)


def test_what_shares_memory_is_not_side_by_side() -> None:
    steps = steps_of(sums, phix.spec([3000, 7]))
    alone = order(steps, lambda buffer: "one memory").waits
    assert alone == [(k - 1,) if k else () for k in range(len(steps))]


def test_a_step_that_touches_nothing_waits_for_nothing() -> None:
    """What a branch does whose results are computed by others, say."""
    steps: list[ir.Step] = [ir.Kernel([]), ir.Kernel([])]
    assert order(steps, ir.owner).waits == [(), ()]


def test_a_step_that_is_done_by_itself_holds_up_all_that_follows() -> None:
    alone = ir.HostStep("argsort", lambda: None, (), (), (), {})
    steps: list[ir.Step] = [ir.Kernel([]), ir.Kernel([]), alone, ir.Kernel([]), ir.Kernel([])]
    assert order(steps, ir.owner).waits == [(), (), (0, 1), (2,), (2,)]


def test_products_do_not_share_a_workspace_of_the_library() -> None:
    steps = steps_of(lambda x, *ws: [x @ w for w in ws], *[phix.spec([64, 64])] * 7)
    found = order(steps, ir.owner)
    ended, workspaces = before(found.waits), found.turns
    products = [k for k, s in enumerate(steps) if isinstance(s, Product)]
    assert len(products) == 6
    for later in products:
        for earlier in products[: products.index(later)]:
            is_shared = workspaces[steps[earlier]] == workspaces[steps[later]]
            assert (earlier in ended[later]) == is_shared


def test_a_chain_of_products_has_one_workspace_and_what_waits_for_nothing_another() -> None:
    chain = steps_of(lambda x, w: x @ w @ w @ w, phix.spec([64, 64]), phix.spec([64, 64]))
    assert set(order(chain, ir.owner).turns.values()) == {0}

    def f(x: Any, v: Any, w: Any) -> Any:
        return x @ v @ v, x @ w @ w

    steps = steps_of(f, *[phix.spec([64, 64])] * 3)
    found = order(steps, ir.owner)
    assert sorted(found.turns.values()) == [0, 0, 1, 1]
    assert sorted(map(len, before(found.waits))) == [0, 0, 1, 1]


def test_a_copy_does_not_hold_up_the_sort_of_a_scatter() -> None:
    f = lambda x, ids, rows: x.at[ids].add(rows)  # noqa: E731
    specs = (phix.spec([500, 8]), phix.spec([5000], "int64"), phix.spec([5000, 8]))
    steps = steps_of(f, *specs)
    out = next(iter(effects_of(steps[-1]).writes))
    (copy,) = (k for k, s in enumerate(steps[:-1]) if out in effects_of(s).writes)
    ended = before(order(steps, ir.owner).waits)
    assert copy in ended[-1]
    assert not any(copy in own for own in ended[:-1])


def test_lanes_are_chains_of_steps_that_wait_for_each_other() -> None:
    waits: list[Waits] = [(), (0,), (), (1,), (2, 3), (4,), (4,)]
    assert lanes(waits, 8) == [0, 0, 1, 0, 0, 0, 2]
    assert lanes(waits, 1) == [0] * 7
    assert lanes([()] * 5, 3) == [0, 1, 2, 0, 1]


@pytest.mark.parametrize("unshared", [0, 1 << 30], ids=["shared memory", "memory of their own"])
def test_in_any_order_the_results_are_the_same(unshared: int) -> None:
    """The emulator draws the order of steps that are side by side anew on each call."""
    x = np.random.default_rng(0).standard_normal((3000, 7)).astype(np.float32)
    with phix.debug.settings(most_unshared_bytes=unshared):
        check(sums, x, tolerance=1e-3)
        check(phix.grad(lambda x: sums(x)[1]), x, tolerance=1e-3)


def along_ones(u: Any) -> Any:
    return lambda x: phix.jvp(u, (x,), (ops.full_like(x, 1.0),))[1]


def test_a_physics_informed_network_in_any_order() -> None:
    rng = np.random.default_rng(0)
    x, w, v = (rng.standard_normal(s) for s in [(40, 1), (1, 20), (20, 1)])

    def loss(w: Any, v: Any, x: Any) -> Any:
        u: Any = lambda x: ops.tanh(x @ w) @ v  # noqa: E731
        for _ in range(3):
            u = along_ones(u)
        return ops.mean((u(x) - 1.0) ** 2)

    check(phix.value_and_grad(loss, (0, 1)), w, v, x, tolerance=1e-8)
