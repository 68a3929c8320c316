"""Eager calls: how a plan is found again, and that equal attributes are not always the same."""

from __future__ import annotations

import numpy as np
import pytest

from phix import ops
from phix.core.conversion import to_tensor
from phix.interpreters.eager import EAGER

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


def test_arrays_and_lists_are_converted_each_time() -> None:
    array = np.ones(3, np.float32)
    for value in (1.0, 2.0, 3.0):
        array[:] = value
        np.testing.assert_array_equal(FLOATS + array, FLOATS.numpy() + value)
        np.testing.assert_array_equal(ops.concat([FLOATS, array])[3:], [value] * 3)
