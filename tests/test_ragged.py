"""As many rows from each lane to each as the data say, beside loops in NumPy."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core.errors import DTypeError, PhixError, ShapeError, TensorValueError
from phix.parallel.exchange import check_rows
from tests.ragged_cases import drawn_slices, placed

pytestmark = pytest.mark.unoptimised


def lanes(f: Any, *in_axes: Any) -> Any:
    return phix.vmap(f, in_axes or 0, axis_name="i")


def send(*args: Any) -> Any:
    return phix.ragged_all_to_all(*args, axis_name="i")


def contiguous(rng: np.random.Generator, n: int) -> tuple[Any, Any, int, Any]:
    """Rows, counts, how many come to a lane at most, and what comes."""
    counts = rng.integers(0, 4, (n, n))
    x = rng.normal(size=(n, int(counts.sum(1).max()) + 1, 2))
    rows = int(counts.sum(0).max()) + 1
    begins, lands = (np.cumsum(counts, axis) - counts for axis in (1, 0))
    return x, counts, rows, placed(x, np.zeros((n, rows, 2)), begins, counts, lands)


@pytest.mark.parametrize("n", [1, 2, 5, 16])
@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "int8", "complex64", "bool"])
def test_rows_one_behind_the_other(n: int, dtype: str, rng: np.random.Generator) -> None:
    x, counts, rows, wanted = contiguous(rng, n)
    run = lanes(lambda x, c: ops.all_to_allv(x, c, "i", rows))
    given, wanted = (np.asarray(phix.to_tensor(np.round(v)).astype(dtype)) for v in (x, wanted))
    for f in (run, phix.jit(run)):
        np.testing.assert_array_equal(f(given, counts), wanted)


def test_the_same_counts_or_rows_on_all_lanes(rng: np.random.Generator) -> None:
    x, counts, *_ = contiguous(rng, 3)
    alike = np.broadcast_to(counts[0], (3, 3))
    every = np.broadcast_to(x[0], x.shape)
    most = int(3 * counts.max())
    send = lambda x, c: ops.all_to_allv(x, c, "i", most)  # noqa: E731
    np.testing.assert_array_equal(lanes(send, 0, None)(x, counts[0]), lanes(send)(x, alike))
    np.testing.assert_array_equal(lanes(send, None, 0)(x[0], counts), lanes(send)(every, counts))


@pytest.mark.parametrize("seed", range(6))
def test_slices_with_places(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    begins, sizes, lands, held, most = drawn_slices(n, rng)
    x, out = rng.normal(size=(n, held, 2)), rng.normal(size=(n, most, 2))
    wanted = placed(x, out, begins, sizes, lands)
    args = (x, out, begins, sizes, lands, sizes.T)
    for f in (lanes(send), phix.jit(lanes(send))):
        np.testing.assert_array_equal(f(*args), wanted)
    several = phix.vmap(lanes(send))(*(np.stack([v, v]) for v in args))
    np.testing.assert_array_equal(several, np.stack([wanted, wanted]))


def test_sizes_that_are_not_known() -> None:
    """One program for all, those without rows, too."""
    specs = [phix.spec([3, "n", 2], "float64"), phix.spec([3, "m", 2], "float64")]
    run = phix.jit(lanes(send), input_spec=[*specs, *[phix.spec([3, 3], "int64")] * 4])
    for seed in range(3):
        rng = np.random.default_rng(seed)
        begins, sizes, lands, held, most = drawn_slices(3, rng)
        x, out = rng.normal(size=(3, held, 2)), rng.normal(size=(3, most, 2))
        wanted = placed(x, out, begins, sizes, lands)
        np.testing.assert_array_equal(run(x, out, begins, sizes, lands, sizes.T), wanted)
    none = np.zeros((3, 3), np.int64)
    np.testing.assert_array_equal(run(x[:, :0], out, none, none, none, none), out)
    assert run(x, out[:, :0], none, none, none, none).shape == (3, 0, 2)


def test_derivatives_in_both_modes(rng: np.random.Generator) -> None:
    begins, sizes, lands, held, most = drawn_slices(4, rng)
    x, out = rng.normal(size=(4, held)), rng.normal(size=(4, most))
    f = lambda x, out: lanes(send)(x, out, begins, sizes, lands, sizes.T)  # noqa: E731
    loss = lambda *a: (f(*a) ** 3).sum()  # noqa: E731
    wanted = 3 * placed(x, out, begins, sizes, lands) ** 2
    back = np.zeros_like(x)
    for sender, receiver in np.ndindex(4, 4):
        at = slice(begins[sender, receiver], begins[sender, receiver] + sizes[sender, receiver])
        back[sender, at] += 3 * x[sender, at] ** 2
    is_new = placed(np.ones_like(x), np.zeros_like(out), begins, sizes, lands) == 1
    for g in (phix.grad(loss, (0, 1)), phix.jit(phix.grad(loss, (0, 1)))):
        to_x, to_out = g(x, out)
        np.testing.assert_allclose(to_x, back, rtol=1e-12)
        np.testing.assert_allclose(to_out, np.where(is_new, 0, wanted), rtol=1e-12)
    tangents = rng.normal(size=x.shape), rng.normal(size=out.shape)
    _, moved = phix.jvp(loss, (x, out), tangents)
    slope = (back * tangents[0]).sum() + (np.where(is_new, 0, wanted) * tangents[1]).sum()
    np.testing.assert_allclose(moved, slope, rtol=1e-12)
    curved = phix.jvp(phix.jit(phix.grad(loss)), (x, out), (tangents[0], 0 * out))[1]
    sent = back != 0
    np.testing.assert_allclose(curved, np.where(sent, 6 * x, 0) * tangents[0], rtol=1e-12)


WRONG = {
    "begins": (2, [[0, 2], [0, 1]], "2 rows from row 2 on are no slice of operand, which has 3"),
    "sizes": (3, [[1, -2], [1, 1]], "-2 rows from row 1 on are no slice of operand"),
    "lands": (4, [[0, 0], [1, 4]], "1 rows from row 4 on are no slice of output, which has 4"),
    "the last int": (2, [[0, 2**63 - 1], [0, 1]], "2 rows from row 9223372036854775807 on are no"),
    "far": (4, [[0, 0], [2**63 - 1, 2]], "1 rows from row 9223372036854775807 on are no slice of"),
    "unsigned": (4, np.array([[0, 0], [2**64 - 1, 2]], np.uint64), "from row 9223372036854775807"),
    "overlap": (4, [[0, 0], [0, 2]], "slices overlap in output"),
    "recv": (5, [[1, 1], [1, 1]], "recv_sizes are .* and the parts send"),
    "many": (0, [[1, 2], [3, 4]], "no slice of operand|send_sizes count 3 rows, and operand has 2"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("jitted", [False, True])
def test_slices_that_cannot_be_are_an_error(what: str, jitted: bool) -> None:
    args: list[Any] = [
        [[1, 2, 2], [3, 4, 0]], np.zeros((2, 4), int), [[0, 1], [0, 1]], [[1, 2], [1, 1]],
        [[0, 0], [1, 2]], [[1, 1], [2, 1]],
    ]  # fmt: skip
    run = phix.jit(lanes(send)) if jitted else lanes(send)
    assert run(*map(np.array, args)).tolist() == [[1, 3, 0, 0], [2, 2, 4, 0]]
    place, value, said = WRONG[what]
    args[place] = value
    with pytest.raises(TensorValueError, match=said):
        run(*map(np.array, args))


def test_what_is_refused() -> None:
    x, out, table = np.ones((2, 3)), np.ones((2, 4)), np.zeros((2, 2), int)
    with pytest.raises(ShapeError, match="rows of one shape and dtype"):
        lanes(send)(x, out.astype(np.float32), *[table] * 4)
    with pytest.raises(ShapeError, match="rows of one shape"):
        lanes(send)(x[:, :, None], out, *[table] * 4)
    with pytest.raises(ShapeError, match="send_sizes has a number for each of the 2 parts of 'i'"):
        lanes(send)(x, out, table, np.zeros((2, 3), int), table, table)
    with pytest.raises(DTypeError, match="output_offsets has ints, found float64"):
        lanes(send)(x, out, table, table, table * 1.0, table)
    with pytest.raises(PhixError, match="'i'"):
        send(x[0], out[0], *[table[0]] * 4)
    with pytest.raises(DTypeError, match="counts are numbers of rows, ints"):
        lanes(lambda x, c: ops.all_to_allv(x, c, "i", 2))(x, table * 1.0)
    with pytest.raises(ShapeError, match="a number for each of the 2 lanes of 'i'"):
        lanes(lambda x, c: ops.all_to_allv(x, c, "i", 2))(x, np.zeros((2, 3), int))
    with pytest.raises(PhixError, match="rows must be 0 or more"):
        lanes(lambda x, c: ops.all_to_allv(x, c, "i", -1))(x, table)


def test_the_first_call_on_a_mesh() -> None:
    """In a program that has no other collective: their rules are there for this one, too."""
    program = """
import numpy as np, phix
mesh = phix.parallel.mesh({"i": 1})
send = lambda x, c: phix.ops.all_to_allv(x, c, "i", 3)
print(phix.parallel.spmd(send, mesh, "i", "i")(np.arange(1.0, 5.0), np.array([2])).tolist())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[1.0, 2.0, 0.0]", done.stderr


@pytest.mark.parametrize(
    "counts, came, said",
    [
        ([1, -1], [0, 0], r"counts \[1, -1\] of rows to send must be 0 or more, .* more than 4"),
        ([2, 3], [0, 0], r"counts \[2, 3\] of rows to send"),
        ([2**62, 2**62], [0, 0], r"counts \[4611686018427387904, 4611686018427387904\] of rows"),
        ([2, 2], [4, 2], "6 rows come, and there is room for 5"),
        ([2, 2], [2**62, 2**62], "9223372036854775808 rows come, and there is room for 5"),
        ([2, 2], [-1, 2], r"the ranks send \[-1, 2\] rows here, which must be 0 or more"),
    ],
)
def test_numbers_that_no_rank_may_send(counts: Any, came: Any, said: str) -> None:
    """MPI would read or write there; sums of such numbers are no int64."""
    check_rows(np.array([2, 2]), np.array([5, 0]), 4, 5)
    with pytest.raises(TensorValueError, match=said):
        check_rows(np.array(counts), np.array(came), 4, 5)
