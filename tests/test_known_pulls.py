"""Pulls that come often become programs, and none can tell by what they give."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core import dtypes as dt
from phix.interpreters import known_pulls
from phix.interpreters.known_calls import KNOWN
from tests.harness.cases import Case, table_cases

OFTEN = 4  # calls until the programs are at work: the first is not known, the second one counts


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(known_pulls, "ENOUGH", 1)
    KNOWN.clear()
    known_pulls.PROGRAMS.clear()
    yield
    KNOWN.clear()
    known_pulls.PROGRAMS.clear()


def is_alike(found: Any, wanted: Any) -> bool:
    """Whether arrays have the same bits, but for the kind of a NaN."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return False
    if found.dtype == dt.bfloat16:
        found, wanted = found.astype(np.float32), wanted.astype(np.float32)
    parts = (found.real, found.imag), (wanted.real, wanted.imag)
    return all(
        np.array_equal(a, b, equal_nan=True)
        and np.array_equal(np.signbit(a) & (a == a), np.signbit(b) & (b == b))
        for a, b in zip(*parts)
    )


def pulled(function: Callable[..., Any], args: list[Any]) -> list[Any]:
    """A random cotangent pulled back to all arguments."""
    out, pull = phix.vjp(function, *args)
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal(out.shape) + (
        1j * rng.standard_normal(out.shape) if dt.is_complex(out.dtype) else 0
    )
    return [g.numpy() for g in pull(phix.to_tensor(drawn).astype(out.dtype))]


def programs() -> int:
    return sum(p is not None for p in known_pulls.PROGRAMS.values())


POINTWISE = [
    case for case in table_cases()
    if "pointwise" in case.op.traits and case.op.backward and case.op.single_output
]  # fmt: skip


@pytest.mark.parametrize("case", POINTWISE, ids=lambda c: c.op.name)
def test_pointwise_ops_keep_their_bits(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    call = next(case.calls())
    places = case.differentiated(call)
    for chosen in {tuple(places), tuple(places[:1]), tuple(places[1:])} - {()}:
        function, arrays = call.at(list(chosen))
        args = [phix.to_tensor(a) for a in arrays]
        monkeypatch.setattr(known_pulls, "ENOUGH", 1 << 60)
        wanted = pulled(lambda *x, f=function: f(*x)[0], args)
        monkeypatch.setattr(known_pulls, "ENOUGH", 1)
        for _ in range(OFTEN):
            found = pulled(lambda *x, f=function: f(*x)[0], args)
        assert all(map(is_alike, found, wanted)), (call, found, wanted)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "by a number": lambda x: ops.tanh(x * 2.0) * x,
    "a number over it": lambda x: 3.0 / (1.0 + x * x),
    "of two": lambda x: ops.sigmoid(x) ** 2.5 - ops.atan2(x, x + 2.0),
    "broadcast": lambda x: ops.tanh(x) * ops.sum(x * x),
    "branches": lambda x: ops.where(x > 0, ops.sin(x), ops.cos(x) * x),
    "matrices": lambda x: ops.reshape(ops.tanh(x), [1, -1]) @ ops.reshape(ops.exp(x) * x, [-1, 1]),
}
SHAPES = [(), (1,), (7,), (3, 4), (2, 3, 5), (0,), (0, 3)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_the_same_from_the_first_call_on(
    name: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_pulls, "ENOUGH", 4)
    gradient = phix.grad(lambda x: ops.sum(FUNCTIONS[name](x)))
    rng = np.random.default_rng(1)
    points = [rng.standard_normal(shape) for _ in range(3)]
    wanted = [gradient(x).numpy() for x in points]  # op by op
    for _ in range(6):
        for x, first in zip(points, wanted):
            assert is_alike(gradient(x).numpy(), first)
    assert programs() or not np.prod(shape)


def test_rules_that_move_elements_are_left_as_they_are() -> None:
    """Their axes are not those of a line of elements."""
    matrix = np.eye(3) * 2 + np.tri(3)

    def function(x: Any) -> Any:
        turned = ops.flip(ops.roll(ops.transpose(x, [1, 0]), 1, 0), [1])
        return ops.sum(ops.solve(x, turned) * ops.cumsum(ops.softmax(turned, 1), 1))

    first, *others = [phix.grad(function)(matrix).numpy() for _ in range(2 * OFTEN)]
    for other in others:
        np.testing.assert_allclose(other, first, rtol=1e-12)


def test_what_nobody_wants_is_not_made() -> None:
    gradient = phix.grad(lambda x: ops.sum(x * 2.0))
    for _ in range(OFTEN):
        assert gradient(np.ones((2, 3))).tolist() == [[2.0] * 3] * 2
    (compiled,) = [p for p in known_pulls.PROGRAMS.values() if p is not None]
    assert [e.op.name for e in compiled.graph.equations] == ["multiply"]


def test_numbers_share_a_program_and_are_told_apart() -> None:
    for factor in (2.0, -0.0, 3.0, float("inf"), 2.0):
        gradient = phix.grad(lambda x, f=factor: ops.sum(x * f))
        for _ in range(OFTEN):
            assert is_alike(gradient(np.ones(3)).numpy(), np.full(3, factor))
    assert programs() == 1


@pytest.mark.parametrize("order", [2, 3])
def test_derivatives_of_derivatives(order: int) -> None:
    def summed(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x: ops.sum(function(x))

    function = summed(lambda x: ops.sin(x) * ops.exp(x))
    for _ in range(order):
        function = summed(phix.grad(function))
    x = np.linspace(-1, 1, 5)
    rule = {2: 2 * np.cos(x), 3: 2 * (np.cos(x) - np.sin(x))}[order]  # over exp(x)
    for _ in range(2 * OFTEN):
        total = function(phix.to_tensor(x))
    assert programs()
    np.testing.assert_allclose(total.item(), np.sum(np.exp(x) * rule), rtol=1e-12)


def test_cotangents_of_other_layouts() -> None:
    x = phix.to_tensor(np.linspace(0.1, 1, 6).reshape(2, 3))
    turned = phix.to_tensor(np.asfortranarray(np.arange(6.0).reshape(2, 3)))
    wanted = turned.numpy() * np.cos(x.numpy())
    for cotangent in (turned, phix.to_tensor(turned.numpy().copy()), turned) * OFTEN:
        _, pull = phix.vjp(ops.sin, x)
        np.testing.assert_allclose(pull(cotangent)[0].numpy(), wanted, rtol=1e-15)


def test_what_is_watched_is_still_seen() -> None:
    gradient = phix.grad(lambda x: ops.sum(ops.sqrt(x) * x))
    for _ in range(OFTEN):
        gradient(np.ones(3))
    with phix.debug.nans(), pytest.raises(phix.errors.PhixError, match="sqrt"):
        phix.grad(lambda x: ops.sum(ops.sqrt(x) * x))(-np.ones(3))
