"""Loops of Python that a trace has written out are scans again, and compute what they did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
import phix.numpy as pn
from phix import ops
from phix.core.errors import VerificationError
from phix.passes import step_bodies
from phix.passes.repeats import Stretch, stretches
from tests.random_steps import rolled

STEPS = 40


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng([7, *shape]).normal(size=shape)


def scans_of(function: Callable[..., Any], *args: Any) -> int:
    """How many scans a program has that is compiled for these, and for no others before."""
    with rolled() as found:
        phix.jit(function)(*args)
    return found[0]


def equations_of(function: Callable[..., Any], *args: Any) -> int:
    text = phix.jit(function).lower(*args).as_text("roll steps")
    return text.count("\n")


# -- programs: by NumPy or its like, with how many scans there are, and in their gradients ---------
PROGRAMS: dict[str, tuple[Callable[..., Any], list[np.ndarray], int, int]] = {}


def program(scans: int, of_gradient: int, *args: np.ndarray) -> Callable[..., Any]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[function.__name__] = (function, list(args), scans, of_gradient)
        return function

    return add


@program(1, 2, normal(6), normal(6))
def pendulum(m: Any, x: Any, v: Any) -> Any:
    for _ in range(STEPS):
        v = v + 0.01 * (-m.sin(x) - 0.1 * v)
        x = x + 0.01 * v
    return x, v


@program(1, 2, normal(STEPS, 3, 4), normal(4, 5), normal(5, 5) / 3, normal(3, 5))
def recurrent_network(m: Any, xs: Any, w: Any, u: Any, h: Any) -> Any:
    states = []
    for t in range(STEPS):
        h = m.tanh(xs[t] @ w + h @ u)
        states.append(h)
    return m.stack(states, 1)


@program(1, 2, normal(3, STEPS), normal(3))
def backwards_along_columns(m: Any, xs: Any, h: Any) -> Any:
    for t in reversed(range(STEPS)):
        h = m.sin(h) * xs[:, t] + 0.5 * h
    return h


@program(1, 2, normal(5))
def adams_bashforth(m: Any, x: Any) -> Any:
    before = m.sin(x)
    x = x + 0.1 * before
    for _ in range(STEPS):
        now = m.sin(x)
        x = x + 0.1 * (1.5 * now - 0.5 * before)
        before = now
    return x


@program(1, 2, normal(5))
def forced_by_time(m: Any, x: Any) -> Any:
    t = 0.0
    for k in range(STEPS):
        x = 0.8 * x + 0.1 * (m.sin(x) * t + 0.03 * k)
        t += 0.1
    return x


@program(1, 2, normal(STEPS, 4, 4) / 2, normal(4))
def layers_of_one_array(m: Any, ws: Any, x: Any) -> Any:
    for k in range(STEPS):
        x = x + m.tanh(ws[k] @ x + 0.1)
    return x


@program(1, 2, normal(8))
def turns_in_turns(m: Any, x: Any) -> Any:
    for _ in range(20):
        for _ in range(20):
            x = m.sin(x * 1.1) + 0.1
        x = x * m.mean(x * x)
    return x


@program(1, 2, normal(STEPS), 1.0 + normal(STEPS) ** 2)
def elimination(m: Any, right: Any, diagonal: Any) -> Any:
    c, d = 1.0 / diagonal[0], right[0] / diagonal[0]
    for k in range(1, STEPS):
        pivot = diagonal[k] + 2.0 - c
        c, d = 1.0 / pivot, (right[k] + d) / pivot
    return d


@program(1, 2, normal(9))
def delayed(m: Any, x: Any) -> Any:
    xs = [x, 0.9 * x, 0.8 * x, 0.7 * x]
    for _ in range(STEPS):
        xs.append(0.5 * m.sin(xs[-1]) - 0.2 * xs[-4] + 0.1)
    return xs[-1], xs[-3]


def _loss(function: Callable[..., Any]) -> Callable[..., Any]:
    def loss(*args: Any) -> Any:
        found = function(pn, *args)
        return sum(pn.sum(pn.sin(v)) for v in (found if isinstance(found, tuple) else (found,)))

    return loss


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_become_scans_and_compute_the_same(name: str) -> None:
    function, args, scans, of_gradient = PROGRAMS[name]
    numbers = tuple(range(len(args)))
    with rolled() as found:
        values = phix.jit(lambda *x: function(pn, *x))(*args)
        slopes = phix.jit(phix.grad(_loss(function), numbers))(*args)
    assert found == [scans, of_gradient]
    phix.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, 1e-11, 1e-12), values, function(np, *args)
    )
    direction = [np.cos(np.arange(a.size)).reshape(a.shape) for a in args]
    step = 1e-6
    ends = [
        _loss(function)(*(a + s * step * d for a, d in zip(args, direction))).item()
        for s in (1, -1)
    ]
    slope = sum(np.sum(np.asarray(g) * d) for g, d in zip(slopes, direction))
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * step), 1e-6, 1e-7)


@pytest.mark.parametrize("name", ["pendulum", "recurrent_network", "elimination"])
def test_other_transformations_see_the_same_program(name: str) -> None:
    function, args, _, _ = PROGRAMS[name]
    numbers = tuple(range(len(args)))

    def bent(*x: Any) -> Any:
        return sum(pn.sum(g * g) for g in phix.grad(_loss(function), numbers)(*x))

    for way, given in (
        (phix.grad(bent, numbers), args),
        (lambda *x: phix.jvp(lambda *y: function(pn, *y), x, x)[1], args),
        (phix.vmap(lambda *x: function(pn, *x)), [np.stack([a, 0.5 - a]) for a in args]),
        (phix.vmap(phix.grad(_loss(function))), [np.stack([a, 0.5 - a]) for a in args]),
    ):
        with rolled() as found:
            values = phix.jit(way)(*given)
        assert found[0] >= 1
        phix.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, 1e-9, 1e-10), values, way(*given)
        )


def test_pointwise_steps_are_the_same_to_the_bit() -> None:
    function, (x, v), _, _ = PROGRAMS["pendulum"]
    x, v = x.astype("float32"), v.astype("float32")
    plain = phix.jit(lambda *y: function(pn, *y), disable="roll_steps")
    with rolled() as found:
        values = phix.jit(lambda *y: function(pn, *y))(x, v)
    assert found == [1]
    for a, b in zip(values, plain(x, v)):
        np.testing.assert_array_equal(a, b)


# -- how much is left ------------------------------------------------------------------------------
@pytest.mark.parametrize("with_gradient", [False, True])
def test_a_program_does_not_grow_with_its_steps(with_gradient: bool) -> None:
    def of(steps: int) -> int:
        def run(xs: Any, h: Any) -> Any:
            states = []
            for t in range(steps):
                h = pn.tanh(h + xs[t])
                states.append(h)
            return pn.sum(pn.stack(states) ** 2)

        made = phix.grad(run, (0, 1)) if with_gradient else run
        return equations_of(made, normal(steps, 3), normal(3))

    assert of(60) == of(200)


def test_rows_are_put_into_an_array_at_once() -> None:
    def filled(x: Any) -> Any:
        out = ops.zeros([STEPS, 5], "float64")
        for k in range(STEPS):
            x = pn.sin(x) + 0.1 * x
            out = out.at[k].set(x)
        return out

    text = phix.jit(filled).lower(normal(5)).as_text("roll steps")
    assert text.count(" = scan(") == 1 and text.count("slice_put") <= 3
    np.testing.assert_allclose(phix.jit(filled)(normal(5)), filled(phix.to_tensor(normal(5))))


def test_an_array_that_is_read_in_between_is_put_row_by_row() -> None:
    def filled(x: Any) -> Any:
        out, seen = ops.zeros([STEPS, 5], "float64"), []
        for k in range(STEPS):
            x = pn.sin(x) + 0.1 * x * x
            out = out.at[k].set(x)
            seen.append(out)
        return out, pn.sum(seen[7]), pn.sum(seen[20])

    x = normal(5)
    with rolled() as found:
        values = phix.jit(filled)(x)
    assert found == [1]
    for a, b in zip(values, filled(phix.to_tensor(x))):
        np.testing.assert_allclose(a, b)


# -- what stays as it is ---------------------------------------------------------------------------
def short(x: Any) -> Any:
    for _ in range(15):
        x = pn.sin(x) * pn.cos(x) + pn.tanh(x) * 0.5 - x * x * pn.exp(-x)
    return x


def said(x: Any) -> Any:
    for _ in range(STEPS):
        x = pn.sin(x) * 2.0 - 0.1 * x
        phix.debug.callback(lambda v: None, x)
    return x


def large(x: Any) -> Any:
    """All steps hand out more than is stacked."""
    found = []
    for _ in range(STEPS):
        x = pn.sin(x) * 2.0 - 0.1
        found.append(x)
    return sum(pn.sum(v * w) for v, w in zip(found, reversed(found)))


def streamed(x: Any, y: Any) -> Any:
    """A few products for each element, which would be loaded and stored in each step."""
    z = x
    for _ in range(STEPS):
        z = z * z * 0.5 + y
    return z


def apart(*xs: Any) -> Any:
    """Each step reads an array of its own, large ones together."""
    total = xs[0]
    for x in xs:
        total = pn.tanh(total + x) * 0.5 - x
    return total


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (short, [normal(4)]),
        (said, [normal(4)]),
        (large, [normal(300, 900)]),
        (streamed, [normal(600), normal(600)]),
        (apart, [normal(60, 40 + k)[:, :40] for k in range(STEPS)]),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)
@pytest.mark.unoptimised
def test_what_is_no_loop_for_a_program_stays(function: Any, args: list[Any]) -> None:
    assert scans_of(function, *args) == 0


def doubled(x: Any) -> Any:
    """Each step takes what is twice as long as anything that has a size of its own."""
    y = pn.concatenate([x, x])
    for _ in range(STEPS):
        y = pn.tanh(y) + pn.sin(y) * 0.5
    return y


@pytest.mark.unoptimised
@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_may_be_unknown(name: str) -> None:
    function, args, scans, _ = PROGRAMS[name]
    specs = [phix.spec([d if d == STEPS else f"n{d}" for d in a.shape], "float64") for a in args]
    with rolled() as found:
        values = phix.jit(lambda *x: function(pn, *x), input_spec=specs)(*args)
    assert found == [0 if name == "delayed" else scans]  # little work for many old values
    phix.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, 1e-11, 1e-12), values, function(np, *args)
    )


@pytest.mark.unoptimised
def test_sizes_that_nothing_has_alone_and_limits_of_memory_leave_it_out() -> None:
    x = normal(3)
    with rolled() as found:
        value = phix.jit(doubled, input_spec=[phix.spec(["n"], "float64")])(x)
        phix.jit(lambda x: doubled(x) + 1.0, memory_limit=10_000)(x)
    assert found == [0, 0]
    np.testing.assert_allclose(value, doubled(phix.to_tensor(x)), 1e-12)


def test_powers_by_numbers_of_their_own_stay_outside() -> None:
    """A power by a number that is known is computed in another way than one that is not."""

    def series(x: Any, y: Any) -> Any:
        for k in range(STEPS):
            y = y + 0.1 * pn.power(x, pn.asarray(float(k))) * pn.sin(y) - 0.5 * y + 0.25
        return y

    x, y = (0.9 * normal(6)).astype("float32"), normal(6).astype("float32")
    np.testing.assert_array_equal(
        phix.jit(series)(x, y), phix.jit(series, disable="roll_steps")(x, y)
    )


# -- checks of its own -----------------------------------------------------------------------------
def test_a_body_that_makes_another_call_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def confused(self: Any, offset: int) -> Any:
        made = kept(self, offset)
        return step_bodies.replace(made, inputs=made.inputs[::-1])

    kept = step_bodies.Body._equation
    monkeypatch.setattr(step_bodies.Body, "_equation", confused)
    monkeypatch.setenv("PHIX_VERIFY", "1")
    function, args = PROGRAMS["pendulum"][0], [normal(13), normal(13)]
    with pytest.raises(VerificationError, match="roll_steps makes another call"):
        phix.jit(lambda *x: function(pn, *x))(*args)


def _slowly(keys: list[int], least: int) -> set[tuple[int, int]]:
    """The periods of all stretches, with the first element after which they are kept."""
    found = set()
    for period in range(1, len(keys) // least + 1):
        same = 0
        for k in range(period, len(keys) + 1):
            if k < len(keys) and keys[k] == keys[k - period]:
                same += 1
                continue
            if same + period >= least * period:
                found.add((period, k - same - period))
            same = 0
    return found


@pytest.mark.parametrize("draw", range(20))
def test_stretches_are_those_that_are_tried_out(draw: int, seed: int) -> None:
    rng = np.random.default_rng([seed, draw])
    keys: list[int] = []
    for _ in range(rng.integers(1, 5)):
        keys += rng.integers(0, 3, size=rng.integers(4)).tolist()
        keys += rng.integers(0, 3, size=rng.integers(1, 7)).tolist() * int(rng.integers(1, 9))
    found = stretches(keys, 4)
    slow = _slowly(keys, 4)
    # multiples of a period are periods, too: the shortest of each stretch is what is looked for
    shortest = {(p, s) for p, s in slow if not any(p % q == 0 and q < p and t <= s < t + p
                                                  for q, t in slow)}  # fmt: skip
    assert {(s.period, s.start) for s in found} >= shortest
    for s in found:
        assert isinstance(s, Stretch) and s.times >= 4
        assert keys[s.start : s.stop] == keys[s.start : s.start + s.period] * s.times
