"""Loops that threads share: which they are, and that results do not depend on the threads.

The bound on the work is lowered, so that small arrays are shared too.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core import rewrites
from phix.kernels.cpu import threads
from phix.nn import functional as F

pytestmark = pytest.mark.unoptimised(4)

RNG = np.random.default_rng(0)
X = RNG.standard_normal((37, 129))
SHARED = frozenset({"shrink_temps", "share_loops", "partial_results"})


@pytest.fixture(autouse=True)
def little_work(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PHIX_CACHE", "0")  # what is kept there was made with the real bound
    with phix.debug.settings(least_shared_work=1, shared_run=1, shared_run_inside=1):
        yield


def standardised_grads(x: Any) -> Any:
    w, b = ops.full([129], 1.5, dtype="float64"), ops.full([129], -0.5, dtype="float64")
    out, pullback = phix.vjp(lambda x, w, b: F.layer_norm(x, (129,), w, b), x, w, b)
    return (out, *pullback(ops.sin(x)))


def running(x: Any) -> Any:
    return phix.scan(lambda c, row: (c + ops.tanh(row) * c, ops.sum(c)), x[0], x)


# (function of X, its value in NumPy; None: only compared with one thread)
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any] | None]] = {
    "pointwise": (lambda x: ops.exp(x) * 2.0, lambda x: np.exp(x) * 2),
    "softmax": (lambda x: F.softmax(x), lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
    "softmax, axis 0": (lambda x: F.softmax(x, 0), lambda x: np.exp(x) / np.exp(x).sum(0)),
    "sum": (lambda x: ops.sum(x), np.sum),
    "sum of squares, stored": (lambda x: (x * x, ops.sum(x * x)), lambda x: (x * x, (x * x).sum())),
    "sum, axis 0": (lambda x: ops.sum(x, 0), lambda x: x.sum(0)),
    "mean, axis 1": (lambda x: ops.mean(x, 1), lambda x: x.mean(1)),
    "max": (lambda x: ops.max(x), np.max),
    "min, axis 0": (lambda x: ops.min(x, 0), lambda x: x.min(0)),
    "prod": (lambda x: ops.prod(x * 0.01 + 1.0), lambda x: np.prod(x * 0.01 + 1)),
    "argmax": (lambda x: ops.argmax(x, 0), lambda x: x.argmax(0)),
    "any": (lambda x: ops.any(x > 3.0), lambda x: np.any(x > 3)),
    "all, stored": (lambda x: (x + 1.0, ops.all(x < 9.0)), lambda x: (x + 1, np.all(x < 9))),
    "all, axis 0": (lambda x: ops.all(x < 2.0, 0), lambda x: np.all(x < 2, 0)),
    "cumsum": (lambda x: ops.cumsum(x, 1), lambda x: x.cumsum(1)),
    "transpose": (lambda x: ops.transpose(x, [1, 0]) + 1.0, lambda x: x.T + 1),
    "complex sum": (lambda x: ops.sum(ops.complex(x, -x), 0), lambda x: (x - 1j * x).sum(0)),
    "layer_norm and gradients": (standardised_grads, None),
    "loop": (running, None),
}


def values(result: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in phix.tree.leaves(result)]


@pytest.mark.parametrize("rows", [37, -1], ids=["known", "unknown"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_shared_loops_compute_the_same(name: str, rows: int) -> None:
    function, reference = FUNCTIONS[name]
    spec = [phix.spec([rows, 129], "float64")]
    shared = values(phix.jit(function, input_spec=spec)(X))
    with rewrites.without(SHARED):
        alone = values(phix.jit(lambda x: function(x), input_spec=spec)(X))
    expected = alone if reference is None else values(reference(X))
    assert len(shared) == len(alone) == len(expected)
    for got, other, wanted in zip(shared, alone, expected):
        np.testing.assert_allclose(got, other, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)


def loop_text(function: Callable[..., Any], *args: Any) -> str:
    return phix.jit(function).lower(*args).sections["loop ir"]


def test_independent_rows_are_shared_and_their_temps_shrunk() -> None:
    text = loop_text(lambda x: F.softmax(x), X)
    assert "kernel 0:  # shared: 37" in text
    assert "local t0: float64[129]" in text


def test_a_sum_over_the_shared_loop_has_partial_results() -> None:
    text = loop_text(lambda x: ops.sum(x), X)
    assert re.search(r"for i\d+ in range\(piece.start, piece.end\):", text)
    assert "t0: float64[3]" in text


def test_sums_in_blocks_that_do_not_divide_them_are_shared() -> None:
    text = phix.jit(lambda x: ops.sum(x)).lower(phix.spec([1100, 1000])).as_text("loop ir")
    assert "shared" in text


REDUCTIONS: dict[str, Callable[[Any], Any]] = {
    "max": lambda x: ops.max(x),
    "min": lambda x: ops.min(x),
    "any": lambda x: ops.any(x > 3.0),
    "prod": lambda x: ops.prod(x),
    "sum": lambda x: ops.sum(x),
    "max, axis 0": lambda x: ops.max(x, 0),
    "prod, axis 0": lambda x: ops.prod(x, 0),
    "sum, axis 0": lambda x: ops.sum(x, 0),
    "max, axis 1": lambda x: ops.max(x, -1),
    "argmax": lambda x: ops.argmax(x),
    "logsumexp": lambda x: ops.logsumexp(x),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_large_reductions_have_pieces_for_several_threads(name: str) -> None:
    shapes = [[4096, 4096], [1 << 22], [5, 1 << 20], [1 << 20, 5], ["n", 64], [64, "n"], ["n"]]
    rows_alone, known_alone = name == "max, axis 1", name in ("max, axis 1", "logsumexp")
    chosen = [s for s in shapes if not ((known_alone and "n" in s) or (rows_alone and len(s) == 1))]
    with phix.debug.settings(least_shared_work=300_000, shared_run=64, shared_run_inside=512):
        for shape in chosen:
            text = phix.jit(REDUCTIONS[name]).lower(phix.spec(shape)).as_text("llvm")
            found = re.findall(r"call void @phix_share\(.*, i64 (\S+), i64 (\d+)\)", text)
            assert found, shape
            for extent, grain in found:  # with dims unknown, of a number of parts, each long
                assert int(extent) >= 2 * int(grain) if extent.isdigit() else grain == "1", shape


@pytest.mark.parametrize("images", [4, 8, 32])
@pytest.mark.parametrize("size", [3, 5])
def test_images_that_are_convolved_by_calls_are_pieces_of_their_own(images: int, size: int) -> None:
    specs = [phix.spec([images, 8, 28, 28]), phix.spec([8, 8, size, size])]
    with phix.debug.settings(least_shared_work=300_000, shared_run=64, shared_run_inside=512):
        lowered = phix.jit(lambda x, w: ops.conv2d(x, w, paddings=(1, 1))).lower(*specs)
    assert f"shared: {images}\n" in lowered.as_text("loop ir")
    assert re.search(rf"call void @phix_share\(.*, i64 {images}, i64 1\)", lowered.as_text("llvm"))


def test_threads_share_the_rows_of_a_sum_over_them_not_its_columns() -> None:
    text = loop_text(lambda x: ops.sum(x, 0), X)
    assert "for i2 in range(piece.start, piece.end):" in text and "float64[4, 129]" in text


def picked(x: Any, at: Any) -> Any:
    """The mean of one entry a row of the log of a softmax."""
    return ops.mean(ops.take_along_axis(ops.log_softmax(x), ops.unsqueeze(at, [1]), 1))


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "unknown"])
def test_what_picks_entries_of_a_row_is_done_with_the_row(is_known: bool) -> None:
    at = RNG.integers(-129, 129, 37)  # negative ones count from the end
    spec = [phix.spec(["n", "m"], "float64"), phix.spec(["n"], "int64")]
    jitted = phix.jit(picked) if is_known else phix.jit(picked, input_spec=spec)
    text = (
        jitted.lower(X, at).as_text("loop ir")
        if is_known
        else jitted.lower(*spec).as_text("loop ir")
    )
    assert f"local t0: float64[{129 if is_known else 'm'}]" in text
    assert "temp t0" not in text and text.count("kernel") == 2  # the pieces, and their sum
    logs = X - np.log(np.exp(X).sum(1, keepdims=True))
    np.testing.assert_allclose(jitted(X, at), logs[np.arange(37), at].mean(), rtol=1e-12)


def test_a_running_sum_is_not_shared() -> None:
    assert "shared" not in loop_text(lambda x: ops.cumsum(x, 0), X[:, 0])


def test_nan_comes_out_of_a_shared_maximum() -> None:
    x = X.copy()
    x[30, 7] = np.nan
    assert np.isnan(phix.jit(lambda x: ops.max(x))(x))


def test_an_empty_array_has_no_pieces() -> None:
    spec = [phix.spec([-1, 129], "float64")]
    assert phix.jit(lambda x: ops.sum(ops.exp(x)), input_spec=spec)(X[:0]) == 0
    assert phix.jit(lambda x: ops.exp(x), input_spec=spec)(X[:0]).shape == (0, 129)


PROGRAM = """
import os, sys
import numpy as np, phix
from phix import ops
f = phix.jit(lambda x: ops.sum(ops.exp(x) * 0.1))
x = np.linspace(0.0, 1.0, 4001, dtype="float32")
with phix.debug.settings(least_shared_work=1):
    before = np.asarray(f(x)).tobytes()
if hasattr(os, "fork"):
    child = os.fork()
    if not child:
        os._exit(0 if np.asarray(f(x)).tobytes() == before else 1)
    assert os.waitpid(child, 0)[1] == 0, "another result in a forked process"
print(before.hex())
"""


SHORT_ROWS = """
import numpy as np, phix
from phix import ops
functions = (
    lambda x: ops.softmax(x, axis=1), lambda x: ops.sqrt(ops.sum(x * x, axis=[1])),
    lambda x: ops.layer_norm(x, None, None, begin_norm_axis=1),
    lambda x: (ops.sum(x * x[0], axis=[1]), x[:, :1] * x[0]),
)
SIZES = [(rows, width) for rows in ROWS for width in (4, 7, 8, 12)]
for rows, width in SIZES:
    x = np.random.default_rng(0).standard_normal((rows, width)).astype("float32")
    for f in functions:
        with phix.debug.settings(least_shared_work=1):
            found = phix.tree.leaves(phix.jit(f)(x))
        print(*(hash(np.asarray(y).tobytes()) for y in found))
"""


ROWS_OF_ANY_NUMBER = """
import numpy as np, phix
from phix import ops
from phix.nn import functional as F
def standardised(x, w, b):
    out, pullback = phix.vjp(lambda x, w, b: F.layer_norm(x, (40,), w, b), x, w, b)
    return (out, *pullback(ops.sin(x)))
spec = lambda n: [phix.spec([n, 40]), phix.spec([40]), phix.spec([40])]
leaves = lambda found: [np.asarray(y) for y in phix.tree.leaves(found)]
rng = np.random.default_rng(0)
with phix.debug.settings(least_shared_work=20_000):
    any_number = phix.jit(standardised, input_spec=spec("n"))
    assert "shared: maximum(minimum(" in any_number.lower(*spec("n")).as_text("loop ir")
    for n in (0, 65, 129, 192, 300, 1025, 2200):  # up to 64 they are one block, cut or not
        args = [rng.standard_normal(s, "float32") for s in ((n, 40), 40, 40)]
        found = leaves(any_number(*args))
        # where vectors have masks, rows of a known number are summed in another order
        for a, b in zip(found, leaves(phix.jit(standardised)(*args)), strict=True):
            np.testing.assert_allclose(a, b, 1e-4, 1e-5 * n, err_msg=str(n))
        print(n, *(hash(a.tobytes()) for a in found))
"""


def test_totals_of_any_number_of_rows_are_shared_as_those_of_a_known_number() -> None:
    assert len(_outputs(ROWS_OF_ANY_NUMBER)) == 1


def test_sums_of_short_rows_are_the_same_bits_with_any_number_of_threads() -> None:
    # they are written out, and vectors made of several rows: but not of the last ones of a piece
    rows = (50021, 2069, 8981)  # the last piece of two threads, and of five, is very short
    assert len(_outputs(SHORT_ROWS.replace("ROWS", str(rows)))) == 1


def test_the_result_is_the_same_with_any_number_of_threads_and_after_a_fork() -> None:
    assert len(_outputs(PROGRAM)) == 1


def _outputs(program: str) -> set[str]:
    """What a program prints with 1, 2 and 5 threads."""
    found = set()
    for count in ("1", "2", "5"):
        fixed = {"PHIX_NUM_THREADS": count, "PHIX_CACHE": "0", "PYTHONHASHSEED": "0"}
        env = {**os.environ, **fixed}
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program],
            env=env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found.add(done.stdout)
    return found


def test_the_number_of_threads_is_read_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PHIX_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert threads.thread_count() == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "4,2")
    assert threads.thread_count() == 4
    monkeypatch.setenv("PHIX_NUM_THREADS", "2")
    assert threads.thread_count() == 2
    monkeypatch.setenv("PHIX_NUM_THREADS", "many")
    with pytest.raises(ValueError, match=r"PHIX_NUM_THREADS must be a positive number .* 'many'"):
        threads.thread_count()
