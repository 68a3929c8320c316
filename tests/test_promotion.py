"""docs/dtypes.md: the dtype two tensors meet in, by the rule that is written there."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops

pytestmark = pytest.mark.unoptimised

KINDS = ("bool", "int", "float", "complex")
INTS = [f"{sign}int{bits}" for bits in (8, 16, 32, 64) for sign in ("u", "")]
# digits of the significand and of the exponent, in bits
FLOATS = {"float16": (11, 5), "bfloat16": (8, 8), "float32": (24, 8), "float64": (53, 11)}
COMPLEX = {"complex64": (24, 8), "complex128": (53, 11)}
NAMES = ["bool", *INTS, *FLOATS, *COMPLEX]


def kind(name: str) -> str:
    return next((k for k in ("bool", "int", "complex") if k in name), "float")


def holds(wide: str, name: str) -> bool:
    """Whether one dtype holds every value of the other, or is complex and as precise."""
    if kind(name) == "int":
        own, other = np.iinfo(name), np.iinfo(wide)
        return other.min <= own.min and own.max <= other.max
    sizes = FLOATS | COMPLEX
    return all(a >= b for a, b in zip(sizes[wide], sizes[name], strict=True))


def meeting(a: str, b: str) -> str:
    """The narrowest dtype of the later kind that holds what is of that kind."""
    later = max(kind(a), kind(b), key=KINDS.index)
    of_it = [x for x in (a, b) if kind(x) == later or (later, kind(x)) == ("complex", "float")]
    for name in NAMES:
        if kind(name) == later and (later == "bool" or all(holds(name, x) for x in of_it)):
            return name
    return "int64"  # uint64 and a signed int


@pytest.mark.parametrize("a", NAMES)
def test_two_dtypes_meet_by_the_rule(a) -> None:
    for b in NAMES:
        x, y = phix.to_tensor([1], dtype=a), phix.to_tensor([0], dtype=b)
        expected = meeting(a, b)
        sums = "int64" if expected == "bool" else expected
        assert (x + y).dtype == sums and np.asarray(x + y).item() == 1
        assert ops.concat([x, y]).dtype == ops.where(x != 0, x, y).dtype == expected
        assert phix.jit(ops.multiply)(x, y).dtype == expected
        assert phix.infer_meta(ops.add)(phix.spec([2], a), phix.spec([2], b)).dtype == sums


def test_the_rule_is_numpys_but_for_ints_beside_floats_and_uint64() -> None:
    names = [n for n in NAMES if n != "bfloat16"]
    for a, b in itertools.product(names, names):
        later = max(kind(a), kind(b), key=KINDS.index)
        is_lossy = {kind(a), kind(b)} & {"int"} and later in ("float", "complex")
        is_signed_beside_uint64 = "uint64" in (a, b) and meeting(a, b) == "int64"
        if not is_lossy and not is_signed_beside_uint64:
            assert meeting(a, b) == np.promote_types(a, b)


def test_what_neither_holds_wraps_around() -> None:
    x = phix.to_tensor(np.array([2**63 + 1], np.uint64))
    assert (x + phix.to_tensor([-1])).tolist() == [-(2**63)]
    assert (x * 1).tolist() == [2**63 + 1]
    assert (phix.to_tensor([200], "uint8") + phix.to_tensor([100], "uint8")).tolist() == [44]


BOOLS = phix.to_tensor([True, True])
BYTES = phix.to_tensor([3, 3], "uint8")
# a call, then what it makes of bools and of ints: dtype and value
RESULTS: list[tuple[Any, tuple[str, float], tuple[str, float]]] = [
    (lambda x: x + x, ("int64", 2), ("uint8", 6)),
    (lambda x: x - x, ("int64", 0), ("uint8", 0)),
    (lambda x: x // x, ("int64", 1), ("uint8", 1)),
    (lambda x: x % x, ("int64", 0), ("uint8", 0)),
    (lambda x: x**2, ("int64", 1), ("uint8", 9)),
    (lambda x: ops.maximum(x, x), ("int64", 1), ("uint8", 3)),
    (lambda x: ops.matmul(x, x), ("int64", 2), ("uint8", 18)),
    (lambda x: x * x, ("bool", 1), ("uint8", 9)),
    (lambda x: ops.max(x), ("bool", 1), ("uint8", 3)),
    (lambda x: ops.min(x), ("bool", 1), ("uint8", 3)),
    (lambda x: ops.concat([x, x]), ("bool", 1), ("uint8", 3)),
    (lambda x: ops.sum(x), ("int64", 2), ("int64", 6)),
    (lambda x: ops.prod(x), ("int64", 1), ("int64", 9)),
    (lambda x: ops.cumsum(x, 0)[-1], ("int64", 2), ("int64", 6)),
    (lambda x: ops.cumprod(x, 0)[-1], ("int64", 1), ("int64", 9)),
    (lambda x: x / x, ("float32", 1), ("float32", 1)),
    (lambda x: ops.mean(x), ("float32", 1), ("float32", 3)),
    (lambda x: ops.log2(x) * 0, ("float32", 0), ("float32", 0)),
    (lambda x: x & x, ("bool", 1), ("uint8", 3)),
    (lambda x: x ^ x, ("bool", 0), ("uint8", 0)),
    (lambda x: ~x, ("bool", 0), ("uint8", 252)),
    (lambda x: x < x, ("bool", 0), ("bool", 0)),
    (lambda x: ops.any(x), ("bool", 1), ("bool", 1)),
]


@pytest.mark.parametrize("number", range(len(RESULTS)))
def test_what_ops_make_of_bools_and_ints(number) -> None:
    f, *wanted = RESULTS[number]
    for x, (dtype, value) in zip((BOOLS, BYTES), wanted, strict=True):
        for found in (f(x), phix.jit(f)(x)):
            assert found.dtype == dtype
            assert set(np.ravel(found).tolist()) == {value}


def test_a_division_of_ints_by_0_is_0() -> None:
    x, zero = phix.to_tensor([7, -7]), phix.to_tensor([0, 0])
    assert (x // zero).tolist() == (x % zero).tolist() == [0, 0]
    assert phix.jit(divmod)(x, zero)[1].tolist() == [0, 0]


# -- a uint64 and a signed int, compared ---------------------------------------------------------
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_ints_are_compared_by_their_values(name: str, dtype: str) -> None:
    compare = getattr(operator, name)
    info = np.iinfo(dtype)
    unsigned = np.array([0, 1, 3, 2**63 - 1, 2**63, 2**63 + 5, 2**64 - 1], np.uint64)
    signed = np.array([info.min, -1, 0, 1, 3, info.max], dtype)
    expected = np.vectorize(lambda a, b: compare(int(a), int(b)))
    for x, y in ((unsigned[:, None], signed[None]), (signed[None], unsigned[:, None])):
        a, b = phix.to_tensor(x), phix.to_tensor(y)
        sized = [phix.spec([f"m{k}" if n > 1 else 1 for k, n in enumerate(v.shape)], v.dtype)
                 for v in (x, y)]  # fmt: skip
        ways = (compare, phix.jit(compare), phix.jit(compare, input_spec=sized))
        for found in (*[f(a, b) for f in ways], compare(a, y)):
            np.testing.assert_array_equal(found, expected(x, y))
        whole = np.broadcast_arrays(x, y)
        np.testing.assert_array_equal(phix.vmap(compare)(*whole), expected(*whole))


# -- sums of a uint64 ------------------------------------------------------------------------------
def test_sums_and_products_of_a_uint64_keep_their_sign() -> None:
    x = np.array([[2**63, 5], [7, 2**63 + 1]], np.uint64)
    found = phix.jit(
        lambda x: (
            ops.sum(x, [1]),
            ops.prod(x, [1]),
            ops.cumsum(x, 1),
            ops.cumprod(x, 1),
            ops.nansum(x, [0]),
            np.sum(x),
        )
    )(phix.to_tensor(x))
    wanted = (x.sum(1), x.prod(1), x.cumsum(1), x.cumprod(1), x.sum(0), x.sum())
    for one, other in zip(found, wanted):
        assert one.dtype == np.uint64
        np.testing.assert_array_equal(one.numpy(), other)
