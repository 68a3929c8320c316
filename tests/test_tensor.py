"""Tensors: interop, dtypes and their promotion, operators, errors."""

from __future__ import annotations

import operator
import pickle

import ml_dtypes
import numpy as np
import pytest

import phix
from phix import ops
from phix.core import dtypes as dt
from phix.core.errors import ArgumentError, DeviceError, DTypeError, ShapeError

pytestmark = pytest.mark.unoptimised

FLOATS = ["float16", "bfloat16", "float32", "float64"]


# -- in and out ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (True, "bool"),
        (1, "int64"),
        (1.5, "float32"),
        (1j, "complex64"),
        ([1, 2], "int64"),
        ([[1.0], [2.0]], "float32"),
        ([True, False], "bool"),
        (np.ones(2), "float64"),
        (np.ones(2, "int8"), "int8"),
        (np.float16(1), "float16"),
        (np.ones(2, ml_dtypes.bfloat16), "bfloat16"),
        ([], "float32"),
    ],
)
def test_dtype_of_data(data, dtype):
    assert phix.to_tensor(data).dtype == dtype


@pytest.mark.parametrize(
    "data", [[-1, 2**63], [[1, 2**63], [-3, 4]], [2**64], [-(2**63) - 1], [np.int64(-1), 2**63]]
)
def test_ints_that_no_dtype_has_together_are_refused(data):
    for use in (phix.to_tensor, lambda d: ops.add(d, phix.to_tensor(1)), ops.stack):
        with pytest.raises(phix.errors.NumberRangeError, match="out of the range of int64"):
            use(data)


def test_large_ints_beside_a_float_are_floats():
    assert phix.to_tensor([-1, 2**63, 0.5]).dtype == "float32"
    assert phix.to_tensor([-1.0, float(2**63), np.inf]).dtype == "float32"
    assert phix.to_tensor([2**63]).tolist() == [2**63]


def test_to_tensor_copies_and_numpy_shares():
    x = np.arange(3.0)
    t, shared = phix.to_tensor(x), phix.Tensor(x)
    x[0] = 9
    assert t[0].item() == 0 and shared[0].item() == 9
    assert np.shares_memory(shared.numpy(), x) and np.shares_memory(np.asarray(shared), x)
    with pytest.raises(ValueError, match="read-only"):
        t.numpy()[0] = 1


def test_interop_protocols():
    t = phix.to_tensor(np.arange(6, dtype="float32").reshape(2, 3))
    np.testing.assert_array_equal(np.from_dlpack(t), t.numpy())
    np.testing.assert_array_equal(np.sin(t), np.sin(t.numpy()))
    assert np.asarray(t, dtype="float64").dtype == "float64"
    assert t.__array_interface__["shape"] == (2, 3)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(t)), t)
    big_endian = np.arange(3, dtype=">f4")
    np.testing.assert_array_equal(ops.add(big_endian, 1.0), [1, 2, 3])


def test_array_on_the_left():
    a, t = np.ones(3, "float32"), phix.to_tensor(np.full(3, 2, "float32"))
    for result in (a + t, a * t, a - t, a @ t, a < t):
        assert isinstance(result, phix.Tensor)


def test_repr_and_values():
    t = phix.to_tensor([[1.0, 2.0]])
    assert repr(t) == "Tensor([[1., 2.]], dtype=float32, shape=[1, 2], place=cpu)"
    assert t.tolist() == [[1.0, 2.0]] and len(t) == 1 and t.size == 2 and t.ndim == 2
    assert float(phix.to_tensor(2)) == 2.0 and int(phix.to_tensor(2.7)) == 2
    assert [10, 20, 30][phix.to_tensor(1)] == 20
    assert f"{phix.to_tensor(1.5):.2f}" == "1.50"
    with pytest.raises(ArgumentError, match="needs one element"):
        t.item()
    with pytest.raises(TypeError, match=r"at\[index\]\.set"):
        t[0] = 1


def test_places():
    assert str(phix.to_tensor(1.0, place="cpu").place) == "cpu"
    with pytest.raises(DeviceError, match="no place 'tpu'"):
        phix.to_tensor(1.0, place="tpu")


# -- operators ----------------------------------------------------------------------------------
OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow, operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne,
]  # fmt: skip


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("other", [2.5, 3, np.array([1.5, 2, 4]), "tensor"])
def test_operators(op, other):
    x = np.array([-1.5, 2.0, 3.25])
    y = np.array([1.0, -2.0, 2.0]) if isinstance(other, str) else other
    right = phix.Tensor(y) if isinstance(other, str) else y
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(op(phix.Tensor(x), right), op(x, y), rtol=1e-15)
        np.testing.assert_allclose(op(right, phix.Tensor(abs(x))), op(y, abs(x)), rtol=1e-15)


def test_unary_and_integer_operators():
    x, y = np.array([5, -3]), np.array([3, 6])
    t, u = phix.Tensor(x), phix.Tensor(y)
    for ours, theirs in [(-t, -x), (+t, x), (~t, ~x), (abs(t), abs(x)), (t & u, x & y)]:
        np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in [(t | u, x | y), (t ^ u, x ^ y), (t << 2, x << 2), (t >> 1, x >> 1)]:
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(t // u, x // y)
    np.testing.assert_array_equal(t % u, x % y)
    np.testing.assert_array_equal(t @ u, x @ y)
    assert (t / u).dtype == "float32"


def test_methods_come_from_the_op_table():
    t = phix.to_tensor([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(t.sum(axis=0), [4, 6])
    np.testing.assert_array_equal(t.T, [[1, 3], [2, 4]])
    np.testing.assert_allclose(t.exp(), np.exp(t.numpy()), rtol=1e-6)
    assert t.astype("int32").dtype == "int32" and t.reshape([4]).shape == (4,)


# -- promotion ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("a", "b", "out"),
    [
        ("bool", "int8", "int8"),
        ("int8", "int32", "int32"),
        ("uint8", "int8", "int16"),
        ("float16", "bfloat16", "float32"),
        ("float16", "float64", "float64"),
        ("int64", "float16", "float16"),
        ("int64", "bfloat16", "bfloat16"),
        ("float64", "complex64", "complex128"),
        ("float32", "complex64", "complex64"),
        ("uint64", "int64", "int64"),
        ("bool", "float16", "float16"),
    ],
)
def test_two_tensors_promote(a, b, out):
    x, y = (phix.to_tensor([1], dtype=d) for d in (a, b))
    assert (x + y).dtype == out and (y + x).dtype == out
    assert phix.infer_meta(ops.add)(x, y).dtype == out


@pytest.mark.parametrize("dtype", [str(d) for d in dt.ALL])
def test_python_scalars_are_weak(dtype):
    x = phix.to_tensor([1], dtype=dtype)
    kind = dt.kind(x.dtype)
    assert (x + 1).dtype == ("int64" if kind == "bool" else dtype)
    assert (x + 1.5).dtype == ("float32" if kind in ("bool", "int") else dtype)
    expected = {"float64": "complex128", "complex128": "complex128"}.get(dtype, "complex64")
    assert (x + 1j).dtype == expected
    assert (1 + x).dtype == (x + 1).dtype


def test_float64_stays_and_ints_divide_to_the_default_float():
    assert ops.sin(np.float64(1.0)).dtype == "float64"
    assert (phix.to_tensor(1) / phix.to_tensor(2)).dtype == "float32"
    assert ops.exp(phix.to_tensor(1)).dtype == "float32"
    assert ops.add(1.0, 2.0).dtype == "float32"


def test_every_pair_of_dtypes_is_symmetric_and_known():
    for a in dt.ALL:
        for b in dt.ALL:
            assert dt.promote(a, b) == dt.promote(b, a) in dt.ALL


# -- errors -------------------------------------------------------------------------------------
def test_errors_of_op_calls():
    with pytest.raises(DTypeError, match=r"bitwise_and\(.*takes bool.*found float32"):
        ops.bitwise_and(1.0, 2.0)
    with pytest.raises(ArgumentError, match=r"x is a tensor, found None"):
        ops.sin(None)
    with pytest.raises(ArgumentError, match="found str 'a'"):
        ops.add("a", 1.0)
    with pytest.raises(ShapeError, match=r"add\(x: float32\[2\], y: float32\[3\]\) \(at .*test_"):
        ops.add(np.ones(2, "f"), np.ones(3, "f"))
    with pytest.raises(ArgumentError, match=r"perm is of type int\[\], found str 'ab'"):
        ops.transpose(np.ones((2, 2)), "ab")
    with pytest.raises(AttributeError, match="sine"):
        ops.sine
