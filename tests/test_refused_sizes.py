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
