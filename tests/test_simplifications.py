"""The table of algebra: what each row makes of its pattern, and where it must not."""

from __future__ import annotations

import numpy as np
import pytest

import phix
from phix import ops

pytestmark = pytest.mark.unoptimised

ODD = [0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan]
GRID = np.array([ODD, ODD[::-1]], np.float32)


def calls(function, *args):
    """The ops of the graph of a function, each with its attributes."""
    specs = [phix.spec(np.shape(a), np.asarray(a).dtype.name) for a in args]
    return [e.op.name for e in phix.make_graph(function)(*specs).equations]


def raw(function, *args):
    """The result of a function compiled without any algebra."""
    names = [p.name for p in phix.debug.passes() if p.stage == "graph"]
    return np.asarray(phix.jit(function, disable=names)(*args))


def same_bits(a, b):
    """Equal, zeros by their signs; a NaN is a NaN."""
    a, b = np.asarray(a), np.asarray(b)
    number = ~np.isnan(a) if a.dtype.kind in "fc" else np.ones(a.shape, bool)
    np.testing.assert_array_equal(a, b)
    if a.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(a[number]), np.signbit(b[number]))


BECOMES = [
    # neutral_operand
    (lambda x: x * 1.0, []), (lambda x: 1.0 * x, []), (lambda x: x / 1.0, []),
    (lambda x: x - 0.0, []), (lambda x: x + -0.0, []), (lambda x: ops.scale(x, 1.0, 0.0), []),
    # same_meta
    (lambda x: ops.cast(x, "float32"), []), (lambda x: ops.reshape(x, [2, 7]), []),
    (lambda x: ops.expand(x, [2, 7]), []), (lambda x: ops.transpose(x, [0, 1]), []),
    # reduce_nothing
    (lambda x: ops.reduce_as(x, x), []),
    # own_inverse
    (lambda x: ops.scale(-x, -1.0), []), (lambda x: ops.flip(ops.flip(x, [0]), [0]), []),
    (lambda x: ops.conj(ops.conj(x)), []),
    (lambda x: ops.logical_not(ops.logical_not(x > 0)), ["greater_than"]),
    (lambda x: ops.bitwise_not(ops.bitwise_not(ops.isnan(x))), ["isnan"]),
    # idempotent
    (lambda x: ops.abs(ops.abs(x)), ["abs"]), (lambda x: ops.floor(ops.floor(x)), ["floor"]),
    (lambda x: ops.sign(ops.sign(x)), ["sign"]), (lambda x: ops.trunc(ops.trunc(x)), ["trunc"]),
    # equal_operands
    (lambda x: ops.maximum(x, x), []), (lambda x: ops.fmin(x, x), []),
    (lambda x: ops.where(x > 0, x, x), []),
    # add_negative
    (lambda x: x + (-ops.sin(x)), ["sin", "subtract"]),
    (lambda x: (-ops.sin(x)) + x, ["sin", "subtract"]),
    (lambda x: x - (-ops.sin(x)), ["sin", "add"]),
    # cast_of_cast
    (lambda x: ops.cast(ops.cast(x, "float64"), "float32"), []),
    (lambda x: ops.cast(ops.cast(x, "float64"), "float16"), ["cast"]),
    # view_of_view
    (lambda x: ops.transpose(ops.transpose(x, [1, 0]), [1, 0]), []),
    (lambda x: ops.reshape(ops.reshape(x, [7, 2]), [14]), ["reshape"]),
    (lambda x: ops.expand(ops.expand(x, [3, 2, 7]), [4, 3, 2, 7]), ["expand"]),
    # expanded_operand
    (lambda x: x * ops.expand(x[:1], [2, 7]), ["slice", "multiply"]),
    (lambda x: ops.expand(ops.reshape(phix.to_tensor(2.0), [1, 1]), [2, 7]) * x, ["multiply"]),
    # sum_of_expand
    (lambda x: ops.sum(ops.expand(x, [4, 2, 7]), 0), ["multiply", "add"]),
    # fold_constants
    (lambda x: x * (phix.to_tensor(2.0) * 3.0), ["multiply"]),
    (lambda x: x * ops.scale(phix.to_tensor(1.0), -1.0), ["multiply"]),
    (lambda x: x * ops.cast(phix.to_tensor(2), "float32"), ["multiply"]),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BECOMES)))
def test_a_pattern_becomes_something_simpler_of_the_same_bits(number):
    function, left = BECOMES[number]
    found = [c for c in calls(function, GRID) if c not in ("greater_than", "isnan") or c in left]
    assert found == left
    same_bits(phix.jit(function)(GRID), raw(function, GRID))


STAYS = [
    (lambda x: x + 0.0, ["add"]),  # turns -0.0 into 0.0
    (lambda x: 0.0 - x, ["subtract"]),
    (lambda x: x - -0.0, ["subtract"]),
    (lambda x: x * 0.0, ["multiply"]),  # NaN and Inf stay NaN
    (lambda x: x - x, ["subtract"]),
    (lambda x: x / x, ["divide"]),
    (lambda x: ops.cast(ops.cast(x, "float16"), "float32"), ["cast", "cast"]),
    (lambda x: ops.scale(ops.scale(x, 3.0), 2.0), ["scale", "scale"]),
    (lambda x: ops.logical_not(ops.logical_not(x)), ["logical_not", "logical_not"]),
    (lambda x: ops.flip(ops.flip(x, [0]), [1]), ["flip", "flip"]),
    (lambda x: ops.where(ops.expand(ops.isnan(x), [3, 2, 7]), x, x), ["isnan", "expand", "where"]),
    (lambda x: ops.where(ops.isnan(x), ops.max(x), ops.max(x)), ["isnan", "max", "max", "where"]),
    (lambda x: ops.sum(ops.expand(x, [4, 2, 7]), [0, 1]), ["expand", "sum"]),
    (lambda x: ops.sum(ops.expand(x, [0, 2, 7]), 0), ["expand", "sum"]),  # 0, also of NaN
    (lambda x: ops.expand(x[:1], [2, 7]) * 2.0, ["slice", "expand", "multiply"]),
]


@pytest.mark.parametrize("number", range(len(STAYS)))
def test_what_is_not_the_same_for_every_value_stays(number):
    function, wanted = STAYS[number]
    assert calls(function, GRID) == wanted
    same_bits(phix.jit(function)(GRID), raw(function, GRID))


def test_operands_smaller_than_their_condition_are_broadcast():
    def f(x, c):
        return ops.where(c, ops.max(x), ops.max(x))

    c = np.array([True, False])
    np.testing.assert_array_equal(phix.jit(f)(np.ones(3, "f"), c), np.ones(2))


def test_ints_have_one_zero():
    n = np.arange(-2, 3)
    assert calls(lambda n: (n + 0) * 1 - 0, n) == []
    wide = lambda n: ops.cast(ops.cast(n, "float64"), "int64")  # noqa: E731 - 2**53 + 1 is lost
    assert calls(wide, n) == ["cast", "cast"]
    same_bits(phix.jit(wide)(np.array([2**53 + 1])), [2**53])
    assert calls(lambda n: ops.cast(ops.cast(n, "int64"), "float32"), n.astype("int32")) == ["cast"]


def test_sums_of_many_equal_values():
    x = np.array([0.1, -3.0], np.float32)
    f = lambda x: ops.sum(ops.expand(ops.reshape(x, [1, 2]), [1000, 2]), [0], keepdim=True)  # noqa: E731
    found = np.asarray(phix.jit(f)(x))
    assert found.shape == (1, 2)
    np.testing.assert_allclose(found[0], 1000 * x.astype(np.float64), rtol=1e-7)
    unknown = phix.make_graph(lambda x, y: ops.sum(ops.expand(x, y.shape), 0))
    graph = unknown(phix.spec([1, 3]), phix.spec(["n", 3]))
    assert [e.op.name for e in graph.equations] == ["expand", "sum"]  # n may be 0


ROWS = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
PLACES = np.array([[3, -1, 0], [1, 1, 2]])
OWN_ROW = [
    (lambda x, j: x[0][np.arange(3), j[0]], ROWS[0][np.arange(3), PLACES[0]]),
    (lambda x, j: x[:, 0][phix.arange(2), j[:, 2]], ROWS[:, 0][np.arange(2), PLACES[:, 2]]),
    (
        lambda x, j: x[phix.arange(2)[:, None], phix.arange(3), j],
        ROWS[np.arange(2)[:, None], np.arange(3), PLACES],
    ),
    (
        lambda x, j: x[:, :2, 1][j[:, 0] * 0 + 1, np.arange(2)],
        ROWS[:, :2, 1][[1, 1], np.arange(2)],
    ),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(OWN_ROW)))
def test_reads_in_the_own_row_go_along_an_axis(number):
    function, wanted = OWN_ROW[number]
    assert "take_along_axis" in calls(function, ROWS, PLACES)
    np.testing.assert_array_equal(phix.jit(function)(ROWS, PLACES), wanted)
    np.testing.assert_array_equal(raw(function, ROWS, PLACES), wanted)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "bool", "float16"])
def test_numbers_of_rows_that_a_dtype_does_not_hold_are_not_the_own_rows(dtype):
    """They wrap around or are rounded, and so name other rows."""
    x = phix.to_tensor(np.arange(900.0).reshape(300, 3))
    columns = phix.to_tensor(np.arange(300) % 3)
    wrapped = np.arange(300).astype(dtype).astype("int64") % 300
    numbers = lambda: ops.arange(0, 300, 1, "int64").astype(dtype).astype("int64")  # noqa: E731
    picked = phix.jit(lambda x: x[numbers(), columns])
    np.testing.assert_array_equal(picked(x), np.asarray(x)[wrapped, np.arange(300) % 3])


OTHER_ROWS = {
    "a later row": lambda x, j: x[phix.arange(1, 3), j],
    "every second row": lambda x, j: x[phix.arange(0, 4, 2), j],
    "fewer rows": lambda x, j: x[phix.arange(2), j],
    "constants in another order": lambda x, j: x[np.array([1, 0]), j],
    "rows from the data": lambda x, j: x[j, j],
}


@pytest.mark.parametrize("name", OTHER_ROWS)
def test_reads_in_other_rows_stay(name):
    x, j = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([2, 0])
    function = OTHER_ROWS[name]
    assert "take_along_axis" not in calls(function, x, j)
    rows = {"a later row": [1, 2], "every second row": [0, 2], "fewer rows": [0, 1],
            "constants in another order": [1, 0], "rows from the data": [2, 0]}[name]  # fmt: skip
    np.testing.assert_array_equal(phix.jit(function)(x, j), x[rows, j])


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("axes", [(1,), (0, 1), (0,)])
def test_the_sum_of_what_was_put_into_zeros(axes, keepdim):
    values = np.array([[-0.0, 2.0], [np.nan, np.inf], [1e30, -3.0]], np.float32)
    index = np.array([[1, 1], [3, 0], [-1, 2]])

    def f(index, values, mode="clip"):
        put = ops.put_along_axis(phix.zeros([3, 4], "float32"), index, values, 1, "add", True, mode)
        return ops.sum(put, axes, keepdim=keepdim)

    put = np.zeros((3, 4), np.float32)
    np.add.at(put, (np.arange(3)[:, None], index), values)
    same_bits(phix.jit(f)(index, values), put.sum(axes, keepdims=keepdim))
    assert ("put_along_axis" in calls(f, index, values)) is (1 not in axes)
    index[0, 0] = 9  # which is not put
    put[0, 1] -= values[0, 0]
    same_bits(
        phix.jit(lambda i, v: f(i, v, "raise"))(index, values), put.sum(axes, keepdims=keepdim)
    )


@pytest.mark.parametrize("paddings", [(0, 0, 1, 2), (2, 0, 0, 1), (0, 0, -1, 2), (0, 0, 0, 0)])
@pytest.mark.parametrize("axes", [(1,), (0, 1), (0,)])
def test_the_sum_of_what_zeros_are_put_around(axes, paddings):
    x = np.array([[1.5, 2.0], [np.nan, np.inf], [1e30, -3.0]], np.float32)

    def f(x, value=0.0):
        return ops.sum(ops.pad(x, paddings, value), axes)

    kept = x[:, 1:] if paddings[2] < 0 else x
    grown = np.pad(kept, [(paddings[0], paddings[1]), (max(paddings[2], 0), paddings[3])])
    np.testing.assert_allclose(phix.jit(f)(x), grown.sum(axes), rtol=1e-6)
    padded = {k for k in (0, 1) if any(paddings[2 * k : 2 * k + 2])}
    goes = min(paddings) >= 0 and padded <= set(axes)
    assert ("pad" in calls(f, x)) is not goes
    assert "pad" in calls(lambda x: f(x, 1.0), x)


def test_gradients_are_readable():
    def loss(scores, targets):
        return -ops.sum(ops.log_softmax(scores) * targets)

    graph = phix.make_graph(phix.grad(loss))(phix.spec([8, 10]), phix.spec([8, 10]))
    names = [e.op.name for e in graph.equations]
    assert "expand" not in names and "scale" not in names and "reshape" not in names


def test_a_row_of_the_table_can_be_switched_off():
    twice = lambda x: ops.abs(ops.abs(x))  # noqa: E731
    lowered = phix.jit(twice, disable="idempotent").lower(GRID)
    assert lowered.as_text("traced").count("abs(") == 2
    assert phix.jit(twice).lower(GRID).as_text("traced").count("abs(") == 1


def test_rules_of_ones_own():
    """A pattern of a user's is a row of the same table."""
    from phix.core import rewrites, rules

    @rules.simplify("tan_of_atan", "tan(atan(x)) is x", "tan")
    def tan_of_atan(op, x):
        call = rules.origin(x)
        return call.args[0] if call is not None and call.op == "atan" else None

    try:
        assert calls(lambda x: ops.tan(ops.atan(x)), GRID) == []
        assert "tan_of_atan" in [p.name for p in phix.debug.passes()]
    finally:
        del rewrites.known()["tan_of_atan"]
        rules._SIMPLIFICATIONS.pop("tan")
        rules.OPS["tan"].simplifications = ()
        rules.EXTENDED.discard("tan")
