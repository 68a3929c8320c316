"""The grammar of `test` samples: what a text stands for, and that its ranges hold."""

from __future__ import annotations

import numpy as np
import pytest

from harness.samples import parse_sample, parse_tensor
from phix.core import dtypes as dt
from phix.table.definition import make_op


@pytest.mark.parametrize(
    ("text", "dtype", "shape"),
    [
        ("float[3, 4]", "float32", (3, 4)),
        ("float[]", "float32", ()),
        ("float[0, 2](1, 2)", "float32", (0, 2)),
        ("int[5](-3, 3)", "int64", (5,)),
        ("bool[2]", "bool", (2,)),
        ("complex[2, 2]", "complex64", (2, 2)),
        ("uint32[2](0, 9)", "uint32", (2,)),
        ("float[2, 2] = 1, nan, -inf", "float32", (2, 2)),
    ],
)
def test_text_gives_array(text: str, dtype: str, shape: tuple[int, ...]) -> None:
    array = parse_tensor(text).draw(np.random.default_rng(0))
    assert (array.dtype, array.shape) == (np.dtype(dtype), shape)


def test_values_are_cycled_row_by_row() -> None:
    array = parse_tensor("float[2, 2] = 1, nan, -inf").draw(np.random.default_rng(0))
    np.testing.assert_array_equal(array, np.array([[1, np.nan], [-np.inf, 1]], np.float32))
    assert not parse_tensor("float[2] = 1, nan").is_finite


@pytest.mark.parametrize("dtype", dt.ALL, ids=str)
@pytest.mark.parametrize("text", ["float[50](0.5, 3)", "int[50](1, 4)"])
def test_ranges_hold_in_every_dtype(text: str, dtype: np.dtype) -> None:
    array = parse_tensor(text).draw(np.random.default_rng(0), dtype)
    assert array.dtype == dtype
    if dtype.kind != "b":
        assert (array.real >= 0.5).all() and (array.real <= 3).all()


def test_ints_exclude_the_upper_bound_and_unsigned_ones_are_not_negative() -> None:
    sample = parse_tensor("int[200](-5, 5)")
    rng = np.random.default_rng(0)
    assert set(sample.draw(rng).tolist()) == set(range(-5, 5))
    assert set(sample.draw(rng, dt.uint8).tolist()) == set(range(5))


@pytest.mark.parametrize("text", ["float", "float[3](2, 1)", "int[3]", "floaty[3]", "float[n]"])
def test_bad_texts_are_refused(text: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        parse_tensor(text)


def test_sample_of_an_op() -> None:
    op = make_op(
        "stacked", "(Tensor[] xs, Tensor y, Tensor z, int axis=0)", "Tensor", optional=("z",)
    )
    sample = parse_sample(op, 0, {"xs": ["float[2, 3]"] * 2, "y": "float[3]", "axis": 1})
    assert [name for name, _ in sample.flat()] == ["xs", "xs", "y"]
    assert sample.tensors["z"] is None and sample.attrs == {"axis": 1}
    assert [t.dims for _, t in sample.resized(3, 0).flat()] == [(2, 0), (2, 0), (0,)]
    other = sample.replace_flat(1, parse_tensor("float[7]"))
    assert [t.dims for _, t in other.flat()] == [(2, 3), (7,), (3,)]
    with pytest.raises(ValueError, match="lacks y"):
        parse_sample(op, 0, {"xs": []})
    with pytest.raises(ValueError, match="no argument"):
        parse_sample(op, 0, {"xs": [], "y": "float[]", "axes": 1})
