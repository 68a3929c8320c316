"""Values that Python calls equal and that make different programs, and NaN, which it does not."""

from __future__ import annotations

import dataclasses
import itertools
from collections import namedtuple
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core.exact_keys import Exact, exact_key
from phix.core.graph import Literal
from phix.core.meta import MetaTensor

pytestmark = pytest.mark.unoptimised


@dataclasses.dataclass(frozen=True)
class Settings:
    scale: Any
    note: str = dataclasses.field(default="", compare=False)


@dataclasses.dataclass(frozen=True, repr=False)
class Bounds:
    """Either bound may be missing."""

    low: Any = dataclasses.field(init=False)
    high: Any = dataclasses.field(init=False)


def bounds(**known: Any) -> Bounds:
    made = Bounds()
    for name, value in known.items():
        object.__setattr__(made, name, value)
    return made


Pair = namedtuple("Pair", "low high")
NOTES = map(str, itertools.count())


@phix.tree.register_dataclass(meta_fields=["scale"])
@dataclasses.dataclass
class Layer:
    w: Any
    scale: Any


class Phase(complex):
    """A number of the user's own class."""


# What Python calls equal, though a program could tell them apart.
ALIKE: list[tuple[Any, ...]] = [
    (0.0, -0.0, 0, False, 0j, np.float32(0), np.float64(-0.0), Decimal("0"), Decimal("-0")),
    (1, 1.0, True, 1 + 0j, complex(1, -0.0), np.int64(1), np.float64(1), np.float32(1)),
    ((0.0, 1), (-0.0, 1), (0.0, True), (0.0, 1.0), Pair(0.0, 1)),
    (((2.0, (0.0,)),), ((2.0, (-0.0,)),)),
    (Phase(0.0), Phase(-0.0), Phase(1.0), complex(1.0)),
    (frozenset({0.0}), frozenset({-0.0}), frozenset({0})),
    (Settings(0.0), Settings(-0.0), Settings(0)),
    (Settings((0.0,)), Settings((-0.0,))),
    (range(0, 3, 2), range(0, 4, 2), range(0, 3, 1), range(1, 3, 2)),
    (slice(0, 3), slice(0.0, 3), slice(1, 3), slice(0, 4), slice(0, 3, 1), slice(0, 3, True)),
    (bounds(low=1), bounds(high=1), bounds(low=True), bounds()),
]
SAME: list[Callable[[], Any]] = [
    lambda: float("nan"),
    lambda: (1.0, float("nan")),
    lambda: complex(0.0, float("nan")),
    lambda: np.float32("nan"),
    lambda: Settings(float("nan"), note=next(NOTES)),
    lambda: frozenset({1.5, "a"}),
    lambda: "text",
    lambda: None,
    lambda: len,
    lambda: float,
]


@pytest.mark.parametrize("values", ALIKE, ids=lambda values: type(values[0]).__name__)
def test_what_python_calls_equal_has_keys_of_its_own(values: tuple[Any, ...]) -> None:
    assert len({exact_key(v) for v in values}) == len(values)


@pytest.mark.parametrize("make", SAME)
def test_what_is_alike_has_one_key(make: Callable[[], Any]) -> None:
    assert Exact(make()) == Exact(make())
    assert hash(Exact(make())) == hash(Exact(make()))


def test_what_cannot_be_hashed_says_so() -> None:
    with pytest.raises(TypeError):
        hash(exact_key(([1],)))
    with pytest.raises(phix.errors.ArgumentError, match="must be hashable, found list"):
        phix.jit(lambda x, s: x, static_argnums=1)(1.0, [1])


def sign_of_zero(x: Any, zero: Any) -> Any:
    return ops.where(1.0 / ops.full([], float(zero)) > 0, x, -x)


ZEROS = (0.0, -0.0, 0.0, -0.0)
HOLDERS: dict[str, Callable[[float], Any]] = {
    "plain": lambda z: z,
    "tuple": lambda z: (1, (z,)),
    "dataclass": lambda z: Settings(z),
    "namedtuple": lambda z: Pair(z, 1),
    "NumPy's": lambda z: np.float64(z),
    "frozenset": lambda z: frozenset({z}),
}


def held(value: Any) -> Any:
    """The zero in what a holder made."""
    while not isinstance(value, float):
        value = value.scale if isinstance(value, Settings) else value
        if isinstance(value, (tuple, frozenset)):
            value = [*value][-1] if not isinstance(value, Pair) else value.low
    return value


@pytest.mark.parametrize("holder", HOLDERS)
def test_each_zero_runs_its_own_program(holder: str) -> None:
    make = HOLDERS[holder]
    f = phix.jit(lambda x, s: sign_of_zero(x, held(s)), static_argnums=1)
    named = phix.jit(lambda x, s: sign_of_zero(x, held(s)), static_argnames="s")
    for g in (lambda z: f(3.0, make(z)), lambda z: named(3.0, s=make(z))):
        assert [g(z).item() for z in ZEROS] == [3.0, -3.0, 3.0, -3.0]
    assert f.trace_count == named.trace_count == 2


@pytest.mark.parametrize("holder", HOLDERS)
def test_nan_is_traced_once(holder: str) -> None:
    f = phix.jit(lambda x, s: x * held(s), static_argnums=1)
    results = [f(1.0, HOLDERS[holder](float("nan"))).item() for _ in range(4)]
    assert np.isnan(results).all() and f.trace_count == 1


def test_the_static_part_of_a_tree_counts() -> None:
    f = phix.jit(lambda p: sign_of_zero(p.w, p.scale))
    w = phix.to_tensor(3.0)
    assert [f(Layer(w, z)).item() for z in ZEROS] == [3.0, -3.0, 3.0, -3.0]
    nan = phix.jit(lambda p: p.w * p.scale)
    for _ in range(3):
        nan(Layer(w, float("nan")))
    assert (f.trace_count, nan.trace_count) == (2, 1)
    kinds = phix.jit(lambda p: ops.cast(p.w, "int32") * p.scale)
    found = [str(kinds(Layer(w, s)).dtype) for s in (1, 1.0, 1, True, 1.0)]
    assert found == ["int32", "float32", "int32", "int32", "float32"]


def test_explanations_tell_zeros_apart() -> None:
    f = phix.jit(lambda x, s: sign_of_zero(x, s), static_argnums=1)
    f(1.0, 0.0), f(1.0, -0.0)
    assert "static argument s is -0.0, was 0.0" in f.why_retraced()


def test_donating_functions_tell_zeros_apart() -> None:
    f = phix.jit(lambda x, s: sign_of_zero(x, s), static_argnums=1, donate_argnums=0)
    found = [f(phix.to_tensor([3.0, 4.0]), z).tolist()[0] for z in ZEROS]
    assert found == [3.0, -3.0, 3.0, -3.0]


def test_static_arguments_of_checkpoints_and_of_custom_rules() -> None:
    kept = phix.checkpoint(lambda x, s: sign_of_zero(x, s), static_argnums=1)
    custom = phix.custom_vjp(lambda s, x: sign_of_zero(x, s), nondiff_argnums=0)
    custom.defvjp(lambda s, x: (sign_of_zero(x, s), None), lambda s, _, ct: (sign_of_zero(ct, s),))
    forward = phix.custom_jvp(lambda s, x: sign_of_zero(x, s), nondiff_argnums=0)
    forward.defjvp(lambda s, p, t: (sign_of_zero(p[0], s), sign_of_zero(t[0], s)))
    for f in (kept, lambda x, s: custom(s, x), lambda x, s: forward(s, x)):
        values = [phix.vjp(lambda x, z=z: f(x, z), 3.0)[0].item() for z in ZEROS]  # noqa: B023
        assert values == [3.0, -3.0, 3.0, -3.0]
        grads = [phix.grad(lambda x, z=z: f(x, z))(3.0).item() for z in ZEROS]  # noqa: B023
        assert grads == [1.0, -1.0, 1.0, -1.0]


def test_attributes_of_ops() -> None:
    """Eagerly, compiled, and where equal calls of one program are made once."""
    x = phix.to_tensor([2.0, 3.0])

    def all_of(x: Any) -> tuple[Any, ...]:
        calls: list[Any] = []
        for z in (0.0, -0.0, 0):
            calls += [
                ops.scale(x, z),
                ops.full([2], z),
                ops.clip(-x, z, 9.0),
                ops.pad(x, [1, 1], z),
            ]
        return tuple(calls)

    wanted = [
        s for z in (0.0, -0.0, 0.0)
        for s in ([z, z], [z, z], [z, z], [z, 2.0, 3.0, z])
    ]  # fmt: skip
    for run in (all_of, all_of, phix.jit(all_of), phix.jit(all_of, disable="fuse")):
        for found, values in zip(run(x), wanted, strict=True):
            np.testing.assert_array_equal(np.signbit(found), np.signbit(values))
    kinds = [ops.pow(phix.to_tensor([2]), v).dtype for v in (1, 1.0, 1, True)]
    assert [str(k) for k in kinds] == ["int64", "float32", "int64", "int64"]


def test_literals_and_the_constants_of_closures() -> None:
    float32 = MetaTensor((), "float32")
    assert Literal(0.0, float32) != Literal(-0.0, float32)
    assert Literal(float("nan"), float32) == Literal(float("nan"), float32)
    both = phix.jit(lambda x: (x, phix.to_tensor(0.0), phix.to_tensor(-0.0)))
    outs = phix.vmap(lambda x: both(x))(np.ones(2, "f"))
    assert [np.signbit(o).tolist() for o in outs[1:]] == [[False, False], [True, True]]
    for zero in (0.0, -0.0):
        array = np.full(40, zero, "f")
        f = phix.jit(lambda x, a=array: x / a)  # the same on disk but for the bytes
        np.testing.assert_array_equal(f(np.ones(40, "f")), np.full(40, np.copysign(np.inf, zero)))
