"""``phix.numpy`` as a namespace of the array API standard: special values, dtypes, devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phix
import phix.numpy as pn
from phix.core.errors import ArgumentError, AttributeValueError, DTypeError, ShapeError

pytestmark = pytest.mark.unoptimised

SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, np.inf, -np.inf, np.nan, 1e300, -1e-300])
ONE = """
    abs acos acosh asin asinh atan atanh ceil conj cos cosh exp expm1 floor isfinite isinf isnan log
    log1p log10 log2 logical_not negative positive reciprocal round sign signbit sin sinh square
    sqrt tan tanh trunc
""".split()  # noqa: SIM905
TWO = """
    add atan2 copysign divide equal floor_divide greater greater_equal hypot less less_equal
    logaddexp logical_and logical_or logical_xor maximum minimum multiply nextafter not_equal pow
    remainder subtract fmod fmax fmin heaviside
""".split()  # noqa: SIM905
FREE_ZEROS = {"sign", "fmod", "fmax", "fmin"}  # of which the standard says no sign


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ONE + TWO)
def test_special_values(name: str) -> None:
    arrays = [SPECIAL] if name in ONE else np.meshgrid(SPECIAL, SPECIAL)
    expected = getattr(np, name)(*arrays)
    found = np.asarray(getattr(pn, name)(*map(pn.asarray, arrays)))
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    if expected.dtype.kind == "f" and name not in FREE_ZEROS:
        known = ~np.isnan(expected)
        assert np.array_equal(np.signbit(found[known]), np.signbit(expected[known]))


INTS = "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()  # noqa: SIM905
OF_INTS = "sum prod cumulative_sum max sort floor round sign square bitwise_invert flip".split()  # noqa: SIM905
OF_TWO = "add multiply floor_divide remainder pow maximum bitwise_xor matmul vecdot".split()  # noqa: SIM905


@pytest.mark.parametrize("dtype", INTS)
def test_ints_keep_their_dtype(dtype: str) -> None:
    a, b = np.array([1, 0, 3, 1, 2], dtype), np.array([2, 1, 2, 1, 3], dtype)
    for name, arrays in [(n, (a,)) for n in OF_INTS] + [(n, (a, b)) for n in OF_TWO]:
        expected = getattr(np, name)(*arrays)
        found = getattr(pn, name)(*map(pn.asarray, arrays))
        assert found.dtype == expected.dtype, name
        assert np.array_equal(found, expected), name


def test_complex_numbers() -> None:
    z = pn.asarray([3 + 4j, 0, -2j])
    assert z.dtype == pn.complex64
    np.testing.assert_allclose(pn.sign(z), [0.6 + 0.8j, 0, -1j])
    np.testing.assert_allclose(pn.abs(z), [5, 0, 2])
    assert pn.round(z * 1.3).tolist() == [4 + 5j, 0, -3j]
    assert pn.unique_counts(pn.asarray([1j, 2, 1j])).counts.tolist() == [2, 1]
    assert pn.vecdot(z, z).item() == 29


def test_namespace_tells_of_itself() -> None:
    info = pn.__array_namespace_info__()
    assert info.capabilities()["boolean indexing"] is True
    assert info.default_device() in info.devices()
    assert info.default_dtypes()["integral"] == pn.int64
    assert set(info.dtypes(kind=("bool", "signed integer"))) == {
        "bool", "int8", "int16", "int32", "int64"
    }  # fmt: skip
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
    assert info.dtypes()["complex128"] == pn.complex128


def test_dtypes_are_called_compared_and_asked() -> None:
    x = pn.zeros(2, dtype=pn.float64)
    assert x.dtype == pn.float64 and pn.float64 == x.dtype and pn.float64 == "float64"
    assert {pn.int8: 1}[np.dtype("int8")] == 1 and pn.float32 != pn.float64
    assert pn.int32(2.7).dtype == np.int32 and np.dtype(pn.uint8) == np.uint8
    assert pn.isdtype(pn.uint8, ("bool", "integral")) and not pn.isdtype(x.dtype, "integral")
    assert pn.result_type(pn.int8, pn.uint8) == pn.int16 and pn.result_type(x, 1j) == "complex128"
    assert pn.result_type(pn.ones(2), 2) == pn.float32
    assert pn.issubdtype(pn.bfloat16, pn.floating) and not pn.can_cast(pn.float64, pn.float32)
    assert pn.finfo(pn.complex128).bits == 64 and pn.finfo(x).eps == np.finfo(np.float64).eps
    assert pn.finfo("bfloat16").max > 3e38 and pn.iinfo(pn.uint16).max == 65535
    with pytest.raises(DTypeError, match="use iinfo"):
        pn.finfo(pn.int8)
    with pytest.raises(AttributeValueError, match="isdtype: kind is one of"):
        pn.isdtype(pn.int8, "floats")


def test_devices_and_exchange() -> None:
    x = pn.arange(3.0)
    assert x.device == phix.Place("cpu")
    assert x.to_device(x.device).tolist() == x.tolist()
    assert pn.ones(2, device=x.device).device == x.device
    array = np.from_dlpack(x)
    assert array.tolist() == [0.0, 1.0, 2.0]
    back = pn.from_dlpack(array)
    array[0] = 9.0
    assert back.tolist() == [0.0, 1.0, 2.0] and back.dtype == x.dtype
    assert x.__dlpack_device__() == (1, 0)
    with pytest.raises(ArgumentError, match="no stream"):
        x.to_device("cpu", stream=1)
    with pytest.raises(ArgumentError, match="__dlpack__"):
        pn.from_dlpack([1.0])
    inside = phix.jit(lambda v: pn.ones(2, device=v.device) * v[0])
    assert inside(x + 1).tolist() == [1.0, 1.0]


def test_sizes_that_data_tell_in_a_program() -> None:
    x = pn.asarray([3.0, 1.0, 3.0, np.nan, np.nan, -0.0])
    for found in (pn.unique_all(x), phix.jit(pn.unique_all)(x)):
        np.testing.assert_array_equal(found[0], [-0.0, 1, 3, np.nan, np.nan])
        assert found[3].tolist() == [1, 1, 2, 1, 1] and found[1].tolist() == [5, 1, 0, 3, 4]
        np.testing.assert_array_equal(np.asarray(found[0])[np.asarray(found[2])], x)
    assert phix.jit(lambda v: pn.sum(v[v > 2]))(x).item() == 6.0


BAD: list[tuple[Any, type[Exception], str]] = [
    (lambda: pn.cumulative_sum(pn.ones((2, 2))), ArgumentError, "axis must be given"),
    (lambda: pn.linspace(0, 1, -1), AttributeValueError, "num is at least 0"),
    (lambda: pn.repeat(pn.ones((1, 3)), -1, axis=0), AttributeValueError, "repeats is at least 0"),
    (lambda: pn.ones(1).repeat(-1), AttributeValueError, "repeats is at least 0"),
    (lambda: pn.broadcast_to(pn.ones(3), (2, -1)), AttributeValueError, "sizes are at least 0"),
    (lambda: pn.partition(pn.ones(3), 3), AttributeValueError, "kth 3 is out of range for 3 el"),
    (lambda: pn.broadcast_shapes((2,), (3,)), ShapeError, "do not broadcast"),
    (lambda: pn.searchsorted([1.0], 2.0, side="up"), AttributeValueError, "side"),
    (lambda: pn.pad([1, 2], -1), AttributeValueError, "negative"),
    (lambda: pn.quantile([1.0, 2.0], 1.5), AttributeValueError, "from 0 to 1"),
    (lambda: pn.max([1.0], where=[True]), ArgumentError, "initial="),
    (lambda: pn.gcd(1.5, 2), DTypeError, "gcd takes ints"),
    (lambda: pn.asarray(np.ones(2), "float32", copy=False), AttributeValueError, "must be cast"),
    (lambda: pn.reshape(pn.ones(4), (2, 2), order="K"), ArgumentError, "takes no order="),
    (lambda: pn.vectorize(3), ArgumentError, "must be a function"),
    (lambda: pn.concatenate(["a"]), ArgumentError, "no array of numbers"),
    (lambda: pn.concatenate([pn.ones(2), None]), ArgumentError, "no array of numbers"),
    (lambda: pn.ones(2) + [pn.ones(2), None], ArgumentError, "no array of numbers"),
    (lambda: pn.asarray([pn.ones(2), "a"]), ArgumentError, "no array of numbers"),
    (lambda: pn.arange(None), ArgumentError, "no array of numbers"),
    (lambda: pn.arange(3, "b"), ArgumentError, "no array of numbers"),
    (lambda: pn.arange([1, 2]), ArgumentError, "end is of type Scalar, found list"),
]


def test_the_kth_may_be_named_twice() -> None:
    assert pn.partition(pn.asarray([3, 1, 2]), (1, -2)).tolist() == [1, 2, 3]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_calls_are_refused(number: int) -> None:
    call, error, text = BAD[number]
    with pytest.raises(error, match=text):
        call()
