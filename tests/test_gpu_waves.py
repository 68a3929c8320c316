"""Steps of the GPU engine that run side by side: which may, and that results do not change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phix
from gpu_programs import check, needs_compiler, program
from phix import ops
from phix.kernels.gpu.waves import waves
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.effects import effects_of

pytestmark = [needs_compiler, pytest.mark.xdist_group("gpu waves"), pytest.mark.unoptimised]


def steps_of(function: Any, *specs: Any) -> list[ir.Step]:
    return program(phix.jit(function).lower(*specs).graph).loops.steps


def sums(x: Any) -> Any:
    """Sums that know nothing of each other, and one of them all."""
    found = [ops.sum(ops.sin(x * float(k)), [0]) for k in range(1, 5)]
    return found, sum(ops.sum(f) for f in found)


def test_waves_keep_the_order_of_what_depends() -> None:
    steps = steps_of(sums, phix.spec([3000, 7]))
    together = waves(steps, ir.owner)
    assert sorted(map(id, steps)) == sorted(id(s) for wave in together for s in wave)
    assert len(together) < len(steps)
    number = {id(s): k for k, wave in enumerate(together) for s in wave}
    for later, step in enumerate(steps):
        for earlier in steps[:later]:
            if effects_of(earlier).conflicts(effects_of(step)):
                assert number[id(earlier)] < number[id(step)]


def test_what_shares_memory_is_not_side_by_side() -> None:
    steps = steps_of(sums, phix.spec([3000, 7]))
    alone = waves(steps, lambda buffer: "one memory")
    assert [len(wave) for wave in alone] == [1] * len(steps)


def test_a_step_that_touches_nothing_is_in_a_wave() -> None:
    """What a branch does whose results are computed by others, say."""
    steps: list[ir.Step] = [ir.Kernel([]), ir.Kernel([])]
    assert waves(steps, ir.owner) == [steps]


def test_two_products_do_not_share_the_workspace_of_the_library() -> None:
    f = lambda x, w: (ops.tanh(x @ w), ops.sin(x @ (w + 1.0)), ops.sum(x))  # noqa: E731
    found = waves(steps_of(f, phix.spec([64, 64]), phix.spec([64, 64])), ir.owner)
    products = [sum(type(s).__name__ == "Product" for s in wave) for wave in found]
    assert max(products) == 1 and sum(products) == 2


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
