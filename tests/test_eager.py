"""Eager calls: how a plan is found again, and that equal attributes are not always the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import phix
from phix import ops
from phix.core.conversion import to_tensor
from phix.interpreters.eager import EAGER
from tests.test_known_calls import frames

INTS = to_tensor(np.arange(3))
FLOATS = to_tensor(np.array([1.0, -2.0, 0.5], np.float32))


@pytest.fixture(autouse=True)
def no_plans() -> None:
    EAGER.plans.clear()
    EAGER.mixed.clear()


def signs(x: object) -> list[bool]:
    return np.signbit(x).tolist()


def test_equal_attributes_of_other_types_make_other_calls() -> None:
    for _ in range(2):
        assert ops.pow(INTS, 2).dtype == np.int64
        assert ops.pow(INTS, 2.0).dtype == np.float32
        np.testing.assert_array_equal(ops.pow(INTS, 2.0), [0, 1, 4])
        assert ops.pow(INTS, 0.5).tolist() == pytest.approx([0, 1, 2**0.5])


def test_signed_zeros_tell_calls_apart() -> None:
    for _ in range(2):
        assert signs(ops.full([2], 0.0)) == [False, False]
        assert signs(ops.full([2], -0.0)) == [True, True]
        assert signs(ops.scale(FLOATS, 0.0)) == [False, True, False]
        assert signs(ops.scale(FLOATS, -0.0)) == [True, False, True]


def test_python_scalars_among_the_inputs() -> None:
    for _ in range(3):
        assert (FLOATS * 2).tolist() == (FLOATS * 2.0).tolist() == [2.0, -4.0, 1.0]
        assert (2.0 - FLOATS).tolist() == [1.0, 4.0, 1.5]
        assert signs(FLOATS * 0.0) == [False, True, False]
        assert signs(FLOATS * -0.0) == [True, False, True]
        assert (INTS * 2).dtype == np.int64 and (INTS * 2.0).dtype == np.float32
        assert (INTS + True).tolist() == [1, 2, 3]


def test_calls_are_found_by_what_the_user_wrote() -> None:
    planned = []
    plan = EAGER.plan

    def counted(*args):
        planned.append(args[0].name)
        return plan(*args)

    EAGER.plan = counted
    try:
        for _ in range(3):
            np.testing.assert_allclose(ops.sum(FLOATS), -0.5)
            np.testing.assert_allclose(ops.sum(FLOATS, axis=-1), -0.5)
            np.testing.assert_allclose(ops.sum(FLOATS, axis=[0]), -0.5)
            np.testing.assert_allclose(ops.clip(FLOATS, -1.0, 1.0), [1.0, -1.0, 0.5])
    finally:
        del EAGER.plan
    assert planned == ["sum", "clip"]


def test_changing_scalars_do_not_push_out_other_plans() -> None:
    ops.exp(FLOATS)
    plans = len(EAGER.plans)
    for number in range(50):
        FLOATS * (number + 0.25)
    assert len(EAGER.mixed) == 50
    assert len(EAGER.plans) < plans + 5  # other threads, and what is collected now, may plan too


KNOWN_BY_LISTS: dict[str, Callable[[], object]] = {
    "a list of axes": lambda: ops.sum(FLOATS, axis=[0]),
    "a list of sizes": lambda: ops.reshape(FLOATS, [3, 1]),
    "a result of that size": lambda: ops.full([3, 2], 1.5),
    "a list of tensors": lambda: ops.concat([FLOATS, FLOATS, FLOATS]),
    "a tuple of tensors": lambda: ops.stack((FLOATS, FLOATS), 1),
}


@pytest.mark.parametrize("name", KNOWN_BY_LISTS)
def test_lists_are_known_as_other_arguments_are(name: str) -> None:
    call = KNOWN_BY_LISTS[name]
    for _ in range(3):
        call()
    assert frames(call) <= 30  # 50 to 150 where they are not


def test_lists_of_tensors_are_told_apart_by_each_of_them() -> None:
    wide, row = FLOATS.astype("float64"), ops.reshape(FLOATS, [1, 3])
    for _ in range(3):
        assert ops.concat([FLOATS, FLOATS]).dtype == np.float32
        assert ops.concat([FLOATS, wide]).dtype == np.float64
        assert ops.concat([FLOATS]).shape == (3,)
        assert ops.concat([FLOATS, INTS]).tolist() == [1.0, -2.0, 0.5, 0.0, 1.0, 2.0]
        assert ops.concat([FLOATS, [7.0]]).tolist() == [1.0, -2.0, 0.5, 7.0]
        assert ops.concat([row, row], 0).shape == (2, 3)
        assert ops.concat([row, row], 1).shape == (1, 6)
        assert ops.stack([wide, FLOATS]).dtype == np.float64
        with pytest.raises(phix.errors.ShapeError):
            ops.concat([row, FLOATS])


def test_wrong_lists_are_refused_after_right_ones() -> None:
    for _ in range(3):
        assert ops.reshape(FLOATS, [3, 1]).shape == (3, 1)
        with pytest.raises(phix.errors.PhixError):
            ops.reshape(FLOATS, [3.5, 1])  # type: ignore[list-item]
        with pytest.raises(phix.errors.PhixError):
            ops.reshape(FLOATS, [4, 1])


def test_arrays_and_lists_are_converted_each_time() -> None:
    array = np.ones(3, np.float32)
    for value in (1.0, 2.0, 3.0):
        array[:] = value
        np.testing.assert_array_equal(FLOATS + array, FLOATS.numpy() + value)
        np.testing.assert_array_equal(ops.concat([FLOATS, array])[3:], [value] * 3)
