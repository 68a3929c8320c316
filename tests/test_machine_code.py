"""Which tests have LLVM optimise their programs, and that no code is taken for other code."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core import rewrites
from phix.interpreters.eager import EAGER
from phix.kernels.cpu import jit
from phix.kernels.loops import verifier
from phix.kernels.schedule.pipeline import PIPELINES
from tests import machine_code
from tests.machine_code import unoptimised


def optimised(count: int, *args: int, is_marked: bool = True, **options: Any) -> set[int]:
    """The tests, of so many, that are optimised."""
    mark = SimpleNamespace(args=args)
    known = {"optimise": False, "prove": 0.0, "prove_seed": 5, "seed": 0, **options}

    def item(number: int) -> Any:
        return SimpleNamespace(
            nodeid=f"test_{number}", config=SimpleNamespace(option=SimpleNamespace(**known)),
            get_closest_marker=lambda name: mark if is_marked and name == "unoptimised" else None,
        )  # fmt: skip

    return {k for k in range(count) if machine_code.is_optimised(item(k))}


def test_one_marked_test_in_so_many_is_optimised_and_the_seed_chooses() -> None:
    chosen = optimised(1200)
    assert 10 < len(chosen) < 60 and chosen == optimised(1200)
    assert chosen != optimised(1200, seed=1) != optimised(1200, prove=9.0)
    assert chosen < optimised(1200, 4) and 200 < len(optimised(1200, 4)) < 400
    assert optimised(9, is_marked=False) == optimised(9, optimise=True) == set(range(9))


def test_code_of_both_kinds_is_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bool] = []
    known = jit._object

    def object_of(text: str, is_final: bool) -> bytes:
        made.extend([] if is_final else [True])
        return known(text, is_final)

    monkeypatch.setattr(jit, "_object", object_of)
    x = np.arange(5.0) + 0.125
    with unoptimised():
        first, key = ops.tanh(x * 1.0625).numpy(), jit._key("text")
        with unoptimised():
            assert jit._key("text") == key
        phix.jit(lambda x: ops.sinh(x * 1.0625))(x)
    assert not made and jit._key("text") != key
    np.testing.assert_allclose(ops.tanh(x * 1.0625), first, rtol=1e-15)
    phix.jit(lambda x: ops.sinh(x * 1.0625))(x)
    assert made


def test_plans_that_hold_no_more_are_forgotten_in_both_kinds() -> None:
    ops.cosh(np.ones(3))
    with unoptimised():
        ops.cosh(np.ones(3))
        EAGER.forgotten += 1
        EAGER.plans.clear()
    assert not EAGER.plans
    ops.cosh(np.ones(3))
    EAGER.forgotten += 1
    EAGER.plans.clear()
    with unoptimised():
        assert not EAGER.plans


def test_marked_tests_verify_at_the_ends_of_lists_of_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(verifier, "verify", lambda after, program: seen.append(after))

    def verified(scale: float, **how: Any) -> list[str]:
        seen.clear()
        with unoptimised(**how):
            phix.jit(lambda x: ops.tanh(x) * scale).lower(np.ones(3)).compile()
        return list(seen)

    ends = ["block_sums"]  # of a list for another engine
    every = [row.name for name in ("every engine", "cpu") for row in PIPELINES[name]]
    assert verified(1.4375) == ["lower", *every]
    assert verified(2.4375, each_pass=False) == [*ends, "overlapping_vectors"]
    without = {"overlapping_vectors", "stream_results", "several_rows"}
    with rewrites.without(frozenset(without)):
        assert verified(3.4375, each_pass=False) == [*ends, "share_loops"]
