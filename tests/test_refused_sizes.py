"""What compiled programs refuse as eager calls do: negative sizes and dims that do not fit."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest

import phix
from emulated_gpu import emulated
from harness.cases import table_cases
from phix import ops
from phix.core.errors import PhixError, ShapeError, UnknownDimError
from phix.testing import meanings

pytestmark = pytest.mark.unoptimised
X = np.arange(12.0).reshape(3, 4)

NUMBERS = {
    "a size": lambda n: ops.full([n], 1.0),
    "a size that might be left open": lambda n: ops.reshape(X, [n, 4]),
    "where a slice begins": lambda n: ops.slice(X, [0], [n], [3]),
    "how far things roll": lambda n: ops.roll(X, [n], [0]),
    "a diagonal": lambda n: ops.tril(X, n),
    "how many": lambda n: ops.topk(X, n)[0],
    "each iteration": lambda n: phix.fori_loop(
        0, 2, lambda i, s: s + ops.full([n], 1.0).sum(), 0.0
    ),
}


@pytest.mark.parametrize("place", ["cpu", "gpu"])
@pytest.mark.parametrize("what", NUMBERS)
def test_a_negative_number_is_never_taken_for_0(what: str, place: str) -> None:
    f = NUMBERS[what]
    with emulated() if place == "gpu" else contextlib.nullcontext():
        run = phix.jit(f, input_spec=[phix.spec([], "int64")])
        three, less = (phix.to_tensor(n, place=place) for n in (3, -1))
        wanted = f(3).numpy()
        np.testing.assert_array_equal(run(three).numpy(), wanted)
        with pytest.raises(ShapeError, match="0 or more, found -1"):
            run(less)
        np.testing.assert_array_equal(run(three).numpy(), wanted)


def test_negative_repeats_and_bins_are_refused_in_the_run() -> None:
    repeats = phix.jit(lambda r: ops.repeat_interleave_with_tensor_index(X, r, 0))
    bins = phix.jit(lambda x: ops.bincount(x))
    found = repeats(np.array([2, 0, 1]))
    np.testing.assert_array_equal(found, np.repeat(X, [2, 0, 1], 0))
    with pytest.raises(ShapeError, match="repeats must be 0 or more"):
        repeats(np.array([2, -1, 1]))
    with pytest.raises(ShapeError, match="ints from 0"):
        bins(np.array([2, -1, 1]))


def test_shapes_that_do_not_fit_are_refused_for_unknown_dims_too() -> None:
    """What an entry of the table says of wrong shapes holds in programs of unknown dims."""
    refused = 0
    for case in table_cases():
        for sample in () if "elsewhere" in case.test else case.errors:
            call = case.call(sample)
            try:
                call.fn(*call.arrays)
            except ShapeError:
                refused += 1
            except PhixError:
                continue
            with pytest.raises((ShapeError, UnknownDimError)):
                meanings.compiled_for_all_sizes(call.fn, call.arrays)(*call.arrays)
    assert refused > 300


@pytest.mark.parametrize(
    ("twice", "fits", "do_not"),
    [
        (lambda d: ops.reshape(ops.reshape(d, [4, d.shape[1]]), [4, 5]), (4, 5), [(5, 4)]),
        (lambda d: ops.expand(ops.expand(d, [3, 5]), [2, 3, 5]), (1, 5), [(2, 5), (3, 4)]),
    ],
)
def test_a_view_of_a_view_keeps_the_checks_of_both(twice: Any, fits: Any, do_not: Any) -> None:
    f = phix.jit(twice, input_spec=[phix.spec(["m", "n"], "float64")])
    x = np.arange(np.prod(fits), dtype="float64").reshape(fits)
    np.testing.assert_array_equal(f(x), twice(phix.to_tensor(x)))
    for dims in do_not:
        with pytest.raises(ShapeError):
            f(np.ones(dims))


A, B = np.array([0.0, 1.0, 2.0]), np.array([4.0, 1.0, 4.0])
OF_TWO = {
    "interp": (
        lambda a, b: phix.numpy.interp(np.array([0.5, 9.0]), a, b),
        np.interp([0.5, 9], A, B),
    ),
    "average": (lambda a, b: phix.numpy.average(a, weights=b), np.average(A, weights=B)),
    "lexsort": (lambda a, b: phix.numpy.lexsort((a, b)), np.lexsort((A, B))),
}


@pytest.mark.parametrize("name", OF_TWO)
def test_two_sizes_that_nothing_says_are_equal_are_compared_in_the_run(name: str) -> None:
    function, expected = OF_TWO[name]
    specs = [phix.spec(["n"], "float64"), phix.spec(["m"], "float64")]
    compiled = phix.jit(function, input_spec=specs)
    np.testing.assert_allclose(compiled(A, B), expected)
    for a, b in ((A, B[:2]), (A[:2], B)):
        for call in (function, compiled):
            with pytest.raises(PhixError):
                call(a, b)


def test_derivatives_say_how_two_sizes_are_declared_equal() -> None:
    def along(x: Any, t: Any) -> Any:
        return phix.jvp(ops.sin, (x,), (t,))[1]

    with pytest.raises(ShapeError, match="give them one name in the specs"):
        phix.jit(along, input_spec=[phix.spec(["n"]), phix.spec(["m"])])(A, B)
    one = phix.jit(along, input_spec=[phix.spec(["n"], "float64")] * 2)
    np.testing.assert_allclose(one(A, B), np.cos(A) * B)


@pytest.mark.parametrize("order", (1, 2))
def test_slopes_of_too_few_samples_are_refused_for_unknown_dims_too(order: int) -> None:
    def slopes(x: Any) -> Any:
        return phix.numpy.gradient(x, axis=0, edge_order=order)

    compiled = phix.jit(slopes, input_spec=[phix.spec(["n", 2], "float64")])
    for n in range(5):
        x = np.sin(np.arange(2.0 * n)).reshape(n, 2)
        if n > order:
            np.testing.assert_allclose(compiled(x), np.gradient(x, axis=0, edge_order=order))
            continue
        for call in (slopes, compiled):
            with pytest.raises(ShapeError):
                call(x)


# Of these a derivative needs no value, and the first has none of their calls left.
WITHOUT_VALUES = {
    "equal parts": lambda x: ops.split_with_num(x, 3, 1)[0],
    "sections": lambda x: ops.split(x, [2, 4], 1)[0],
    "rows below others": lambda x: ops.concat([x, np.ones((2, 6))], 0),
    "a product": lambda x: x @ np.ones((6, 2)),
    "rows of another": lambda x: ops.dot(x, np.ones((3, 6))),
    "largest ones": lambda x: ops.topk(x, 5, 1)[0],
    "columns that are set": lambda x: x.at[:, :6].set(np.ones((3, 6))),
    "rows of several": lambda x: ops.multiplex([x, x], np.zeros((3, 1), "int32")),
    "segments": lambda x: ops.segment_pool(x, np.array([0, 1, 1]), "SUM")[0],
    "labels": lambda x: ops.hinge_loss(x, np.ones((3, 6))),
    "sums": lambda x: ops.add_n([x, np.ones((3, 6))]),
    "sums of columns": lambda x: ops.partial_sum([x, np.ones((3, 6))], 0, 1),
    "columns": lambda x: ops.partial_concat([x, np.ones((3, 6))], 0, 1),
    "pairs": lambda x: ops.real(ops.as_complex(x[:, 4:])),
    "what is computed again": phix.checkpoint(lambda x: ops.split_with_num(x, 3, 1)[0]),
    "steps": lambda x: phix.scan(
        lambda c, row: (c + ops.split_with_num(row, 3, 0)[0], row), ops.full([2], 0.0, "float64"), x
    )[0],
}


@pytest.mark.parametrize("what", WITHOUT_VALUES)
@pytest.mark.parametrize("power", [1.0, 2.0])
def test_a_derivative_asks_what_the_call_asks(what: str, power: float) -> None:
    f = WITHOUT_VALUES[what]
    gradient = phix.grad(lambda x: ops.sum(f(x) ** power if power != 1.0 else f(x)))
    run = phix.jit(gradient, input_spec=[phix.spec(["n", "m"], "float64")])
    fits = np.arange(18.0).reshape(3, 6)
    assert np.array_equal(run(fits).numpy(), gradient(fits).numpy())
    refused = 0
    for shape in [(3, 7), (3, 1), (1, 6), (3, 4)]:
        x = np.ones(shape)
        try:
            wanted = gradient(x).numpy()
        except PhixError:
            refused += 1
            with pytest.raises(PhixError):
                run(x)
        else:
            assert np.array_equal(run(x).numpy(), wanted)
    assert refused


def test_sizes_that_were_learnt_are_asked_for_in_derivatives() -> None:
    gradient = phix.jit(phix.grad(lambda x: ops.sum(ops.split_with_num(x, 3, 1)[0])))
    for size in (6, 9, 12):
        assert gradient(np.ones((5, size))).shape == (5, size)
    with pytest.raises(ShapeError, match="does not split into 3 equal parts"):
        gradient(np.ones((5, 7)))


def test_a_result_that_nobody_uses_is_refused_as_it_is_eagerly() -> None:
    run = phix.jit(lambda x: (ops.topk(x, 3, 1), x * 2)[1], input_spec=[phix.spec(["n", "m"])])
    assert run(np.ones((2, 3), "f")).shape == (2, 3)
    with pytest.raises(PhixError, match="k 3 is more than the 2 elements"):
        run(np.ones((2, 2), "f"))


# Functions that hold a call whose result they do not need, each made anew.
UNUSED = {
    "a jitted function in several": lambda: phix.jit(lambda x: (ops.topk(x, 5, 1), x * 2)[1]),
    "a jitted derivative in several": lambda: phix.jit(
        phix.grad(lambda x: ops.sum(ops.split_with_num(x, 3, 1)[0]))
    ),
    "a jitted call with a derivative": lambda: phix.jit(
        lambda x: ops.sum(ops.split_with_num(x, 3, 1)[0])
    ),
}


@pytest.mark.parametrize("what", UNUSED)
def test_a_function_that_several_programs_hold_asks_in_each_of_them(what: str) -> None:
    """It is traced for the first of them alone."""
    part = UNUSED[what]()
    for number in range(3):

        def whole(x: Any, number: int = number) -> Any:
            return ops.sum(part(x)) + number

        def of_rows(x: Any, number: int = number) -> Any:
            step = lambda total, row: (total + ops.sum(part(row[None])), None)  # noqa: E731
            return phix.scan(step, ops.full([], float(number), "float64"), x)[0]

        for function in (whole, phix.grad(whole), phix.vmap(lambda x: whole(x[None])), of_rows):
            run = phix.jit(function, input_spec=[phix.spec(["n", "m"], "float64")])
            assert np.array_equal(run(np.ones((2, 6))).numpy(), function(np.ones((2, 6))).numpy())
            with pytest.raises(PhixError):
                run(np.ones((2, 4)))


def test_a_derivative_asks_of_sizes_that_the_program_computes() -> None:
    """There is none that the call itself would look at any more."""
    thirds = phix.grad(lambda v: ops.sum(ops.split_with_num(v, 3, 0)[0]))
    run = phix.jit(lambda x: thirds(ops.masked_select(x, x > 0)))
    assert run(np.array([1.0, -1.0, 2.0, 3.0])).tolist() == [1.0, 0.0, 0.0]
    with pytest.raises(ShapeError):
        run(np.array([1.0, -1.0, 2.0, -3.0]))


@pytest.mark.parametrize("number", [0, 1, 2])
def test_each_result_of_an_op_that_computes_its_sizes_asks_for_all_of_them(number: int) -> None:
    """Such an op is written out, and what looks at its arguments may be no part of one result."""
    key, row, colptr = phix.random.key(0), np.array([1, 0, 1]), np.array([0, 1, 3])

    def drawn(row: Any, eids: Any) -> Any:
        weight = ops.full(row.shape, 1.0)
        more = {"sample_size": 2, "return_eids": True}
        return ops.weighted_sample_neighbors(key, row, colptr, weight, [0, 1], eids, **more)[number]

    def renumbered(x: Any, neighbors: Any) -> Any:
        return ops.reindex_graph(x, neighbors, ops.full(x.shape, 1, "int32"), None, None)[number]

    for f in (drawn, renumbered):
        run = phix.jit(f, input_spec=[phix.spec([-1], "int64")] * 2)
        eids = np.arange(3)
        np.testing.assert_array_equal(run(row, eids), f(phix.to_tensor(row), phix.to_tensor(eids)))
        for call in (run, phix.jit(f)):
            with pytest.raises(ShapeError):
                call(row, eids[:1])


def test_only_calls_that_may_be_refused_stay_in_graphs() -> None:
    def graph(f: Any) -> str:
        return str(phix.make_graph(f)(phix.spec(["n", 6])))

    unused = graph(lambda x: (ops.topk(x, 3, 0), x * 2)[1])
    assert unused.count("expect_call") == 1 and "k=3" in unused
    assert "expect_call" not in graph(lambda x: (ops.exp(x), ops.topk(x, 3, 1), x * 2)[2])
    assert "expect_call" not in graph(lambda x: ops.topk(x, 3, 0)[0])
    assert "expect_call" not in str(phix.decompose(lambda x: (x[3], x)[1])(phix.spec(["n"])))
    parsed = phix.parse_graph(unused)
    assert str(parsed) == unused
    assert parsed(np.ones((3, 6), "f"))[0].shape == (3, 6)
    with pytest.raises(PhixError, match="k 3 is more than the 2 elements"):
        parsed(np.ones((2, 6), "f"))


def marked(x: Any) -> Any:
    return ops.masked_select(x, x > 0.5)


# Whose results have sizes that are computed from one that the program computes.
OF_COMPUTED = {
    "equal parts": lambda x: ops.split_with_num(marked(x), 3, 0)[0] * 2,
    "the first ones": lambda x: marked(x)[:2] * 2,
    "others than the first": lambda x: marked(x)[1:] ** 2,
    "as many of another": lambda x: ops.expand(ops.sum(x)[None], [marked(x).shape[0] + 1]) * 2,
    "every second product": lambda x: ops.reshape(marked(x)[:, None] * marked(x), [-1])[::2],
}


@pytest.mark.parametrize("what", OF_COMPUTED)
@pytest.mark.parametrize("wrapped", [phix.jit, phix.checkpoint])
def test_a_derivative_takes_sizes_that_come_of_computed_ones(what: str, wrapped: Any) -> None:
    """Each run of the function binds sizes of its own: a cotangent's are those of this one."""
    f = OF_COMPUTED[what]
    part = wrapped(f)
    gradient = phix.grad(lambda x: ops.sum(part(x) * 1.5))
    for size in (6, 9):
        x = phix.to_tensor(np.arange(float(size)) + 1)
        wanted = phix.grad(lambda x: ops.sum(f(x) * 1.5))(x).numpy()
        for call in (gradient, phix.jit(gradient)):
            assert np.array_equal(call(x).numpy(), wanted)
