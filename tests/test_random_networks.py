"""A short run of tests/random_networks.py; ``make prove`` and CI draw more, from fresh seeds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import Kernel, LoopProgram
from phix.kernels.scalar import language as sc
from phix.kernels.schedule import several_rows
from random_networks import draw_network, run_draw
from tests.networks import checking, pieces
from tests.networks.backends import Numpy, Phix
from tests.networks.models import FAMILIES
from tests.networks.targets import WEIGHTS, leaves
from tests.networks.ways import Way, tensors

GROUPS, EACH = 4, 6
# What networks are drawn for is phix's: LLVM does all it can for one group in three.
MARKS = [pytest.mark.unoptimised, pytest.mark.each_pass]


@pytest.mark.parametrize(
    "group", [pytest.param(k, marks=MARKS if k % 3 else []) for k in range(GROUPS)]
)
def test_random_networks_compiled_eager_and_in_numpy(group: int, seed: int) -> None:
    first = 100_000 * seed + EACH * group
    outcomes = [run_draw(s, most_ways=1) for s in range(first, first + EACH)]
    assert not any(o.error for o in outcomes), "\n\n".join(o.report() for o in outcomes if o.error)


# Drawn in the thousands, they went wrong: sums of a row each, in pieces, in another order; a loop
# whose only store was put where it is read; an index kept as a number, and read at.
@pytest.mark.parametrize("seed", [700001376, 700010622, 95832155004])
def test_networks_that_went_wrong(seed: int) -> None:
    outcome = run_draw(seed)
    assert not outcome.error, outcome.report()


def test_a_seed_makes_one_network() -> None:
    assert str(draw_network(7)) == str(draw_network(7)) != str(draw_network(8))
    assert draw_network(7).ways == draw_network(7).ways


def test_every_family_and_target_is_drawn() -> None:
    networks = [draw_network(s) for s in range(400)]
    assert {n.model.text[0] for n in networks} == {f.__name__ for f in FAMILIES}
    assert {n.target.name for n in networks} == set(WEIGHTS)
    assert {n.dtype for n in networks} == {"float16", "bfloat16", "float32", "float64"}
    ways = [w for n in networks for w in n.ways]
    assert any(w.donated for w in ways) and any(w.unknown for w in ways)
    assert any(w.work for w in ways) and any(w.off for w in ways)
    assert any(0 in n.model.sizes.values() for n in networks)


@pytest.mark.unoptimised
def test_what_goes_wrong_is_found_and_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that makes all numbers that a program stores a bit larger."""

    def harm(program: LoopProgram, _: Any) -> None:
        kernels = [s for s in ir.walk_steps(program.steps) if isinstance(s, Kernel)]
        stores = [s for k in kernels for s in ir.walk(k.body) if isinstance(s, ir.Store)]
        for store in (s for s in stores if s.value.dtype == np.float32):
            store.value = store.value * sc.const(1.01, store.value.dtype)

    @contextmanager
    def scope(way: Way) -> Iterator[None]:
        with pieces.compiling(0, True), pytest.MonkeyPatch.context() as inside:
            inside.setattr(several_rows, "several_rows", harm)
            yield

    plain = [s for s in range(300) if draw_network(s).target.name == "grad" and _is_plain(s)]
    seed = min(plain, key=lambda s: len(str(draw_network(s).model.text)))  # a small one
    assert not run_draw(seed, most_ways=1).error
    monkeypatch.setattr(Way, "scope", scope)
    outcome = run_draw(seed, most_ways=1)
    assert outcome.error.startswith("MISMATCH jit: result 0, shape "), outcome.report()
    report = outcome.report()  # which tries the passes one by one
    assert "several_rows" in report.partition("right without ")[2].partition("\n")[0]
    assert f"python -m tests.random_networks 1 {seed}" in report


def _is_plain(seed: int) -> bool:
    net = draw_network(seed)
    way = net.ways[0]
    return net.dtype == "float32" and not (
        way.off or way.donated or way.unknown or way.work or way.limited
    )


@pytest.mark.parametrize("seed", range(40, 52))
def test_models_are_the_same_in_numpy_and_in_phix(seed: int) -> None:
    """What models are written in means the same in both: outputs, not losses alone."""
    net = draw_network(seed)
    with np.errstate(all="ignore"):
        wanted = leaves(net.model.forward(Numpy(), *net.args[:2]))
    found = leaves(net.model.forward(Phix, *tensors(net.args[:2])))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_numpys_derivatives_by_differences_are_exact_enough_to_be_differenced() -> None:
    x = np.linspace(-1.0, 1.0, 7)[:, None]
    found = Numpy().column_derivatives(lambda y: np.sin(1.5 * y), x, 0, 4, "jet")
    for n, derivative in enumerate(found):
        wanted = 1.5**n * np.sin(1.5 * x + n * np.pi / 2)
        at_most = 1e-10 if np.finfo(np.longdouble).nmant > 60 else 1e-6
        assert np.max(np.abs(derivative - wanted)) < at_most, n


def test_rounding_is_allowed_and_no_more() -> None:
    wide = [np.array([1.0, -2.0]), np.array([3])]
    wanted = checking.expected(wide, [[wide[0] + 1e-6, wide[1]]], "float32")
    near = [np.array([1.0, -2.0 + 2e-5], np.float32), wide[1]]
    assert checking.difference(near, wanted, 1e38) == ""
    far = [np.array([1.0, -2.0 + 1e-3], np.float32), wide[1]]
    assert "1 of 2 elements off by up to 0.001" in checking.difference(far, wanted, 1e38)
    assert "nan" in checking.difference([np.array([np.nan, -2.0]), wide[1]], wanted, 1e38)
    assert "[4], not [3]" in checking.difference([near[0], np.array([4])], wanted, 1e38)
    assert checking.same_bits([near[0]], [near[0]]) == ""
    assert "1 of 2" in checking.same_bits([near[0]], [far[0]])


def test_terms_too_large_for_float16_are_allowed_and_no_more() -> None:
    wanted = checking.expected([np.array([1.0, 980.0])], [], "float16")
    overflown, right = (np.array([1.0, x], np.float16) for x in (np.inf, 980.0))
    judge = [checking.widened(wanted, [[run]] * 4) for run in (overflown, right)]
    assert checking.difference([overflown], judge[0], 65504.0) == ""
    assert "1 of 2" in checking.difference([overflown], judge[1], 65504.0)
    assert "1 of 2" in checking.difference([np.array([1.0, 970.0])], judge[0], 65504.0)
    assert "1 of 2" in checking.difference([np.array([np.nan, np.inf])], judge[0], 65504.0)
    single = checking.widened(wanted, [[overflown.astype(np.float32)]] * 4)
    assert "1 of 2" in checking.difference([overflown], single, 65504.0)


@pytest.mark.parametrize("order", pieces.ORDERS)
def test_shared_loops_run_in_every_order(order: str) -> None:
    pieces.install()
    x = np.random.default_rng(0).normal(size=(37, 70)).astype(np.float32)
    with pieces.compiling(1, True), pieces.in_order(order):
        f = phix.jit(lambda x: (ops.exp(x), ops.sum(x, 0)))
        assert "shared" in f.lower(x).as_text("loop ir")
        values, sums = f(x)
    np.testing.assert_allclose(values, np.exp(x), rtol=1e-6)
    np.testing.assert_allclose(sums, x.sum(0, dtype=np.float64), rtol=1e-5, atol=1e-5)
