"""float8_e4m3fn, float8_e5m2 and int4: moved and cast, everywhere alike, and nothing else."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phix
from phix import ops
from phix.core.dtypes import as_dtype
from phix.kernels.loops.evaluator import evaluate
from phix.kernels.schedule import pipeline
from tests import gpu_programs, numba_code
from tests.loop_passes import graph_of

pytestmark = pytest.mark.unoptimised

NUMPY = {n: np.dtype(getattr(ml_dtypes, n)) for n in ("float8_e4m3fn", "float8_e5m2", "int4")}
BYTES = np.arange(256, dtype=np.uint8)
OTHERS = ("float64", "float16", "bfloat16", "int32", "uint8", "bool", "complex64")


def numbers() -> np.ndarray:
    """Float32 numbers of every size, with what lies in the middle of two small ones, and beyond."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, 300, dtype=np.uint32).view(np.float32)
    edges = [464, 465, 463.9, 480, 61439, 61440, 1e38, np.inf, -np.inf, np.nan, 1e-45, -0.0]
    middles = []
    for name in ("float8_e4m3fn", "float8_e5m2"):
        held = BYTES[:127].view(NUMPY[name]).astype(np.float32)
        held = held[np.isfinite(held)]
        middles.append((held[1:] + held[:-1]) / 2)
    return np.concatenate([bits, rng.normal(size=100), edges, *middles]).astype(np.float32)


X = numbers()
SMALL = np.array([-9, -8, -0.5, 0, 1.5, 7.9, 23, 1000, -1e9, 1e20, np.nan], np.float32)


def same(found: Any, wanted: np.ndarray) -> None:
    """One dtype, and each element the same number, with its sign; any NaN is any other."""
    found = np.asarray(found)
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    with np.errstate(all="ignore"):
        f, w = (a.astype(np.complex128) for a in (found, wanted))
    np.testing.assert_array_equal(f, w)
    known = ~np.isnan(w)
    np.testing.assert_array_equal(np.signbit(f.real[known]), np.signbit(w.real[known]))


def casts(name: str) -> tuple[Callable[..., Any], list[np.ndarray], list[np.ndarray]]:
    """A program of casts to and from the dtype, arrays for it, and what ml_dtypes makes of them."""
    dtype = NUMPY[name]
    x = SMALL if name == "int4" else X
    stored = BYTES.view(dtype)
    ints = np.arange(-300, 500, 7)

    def program(x: Any, ints: Any, stored: Any) -> Any:
        into = [x, ints, ops.cast(x, "float64"), ops.cast(x, "bfloat16"), x > 0]
        wide = [ops.cast(stored, other) for other in OTHERS if name == "int4" or other[0] != "u"]
        among = [ops.cast(stored, other) for other in NUMPY]
        return [ops.cast(v, name) for v in into], wide, among

    with np.errstate(all="ignore"):
        values = stored.astype(np.float32)
        if name != "int4":  # of NaN and numbers out of range ints are the machine's own
            stored = stored[np.isfinite(values)]
            values = stored.astype(np.float32)
        wanted = [x, ints, x.astype(np.float64), x.astype(ml_dtypes.bfloat16), x > 0]
        wanted = [v.astype(np.float32).astype(dtype) for v in wanted]
        for other in OTHERS:
            if name == "int4" or other[0] != "u":
                wanted.append(values.astype(np.int32).astype(other) if other == "uint8"
                              else values.astype(as_dtype(other)))  # fmt: skip
        wanted += [values.astype(d) for d in NUMPY.values()]
    return program, [x, ints, stored], wanted


def run_loops(program: Callable[..., Any], arrays: list[np.ndarray]) -> Any:
    graph = graph_of(program, *arrays)
    return evaluate(pipeline.lowered(graph, (True,) * len(graph.inputs))[0], arrays)


RUNS: dict[str, Callable[..., Any]] = {
    "eager": lambda f, arrays: f(*map(phix.to_tensor, arrays)),
    "compiled": lambda f, arrays: phix.jit(f)(*arrays),
    "unknown": lambda f, arrays: phix.jit(
        f, input_spec=[phix.spec([d], a.dtype) for d, a in zip("nmk", arrays)]
    )(*arrays),
    "loops": run_loops,
    "numba": lambda f, arrays: numba_code.run(f, *arrays),
}


@pytest.mark.parametrize("how", RUNS)
@pytest.mark.parametrize("name", NUMPY)
def test_casts_are_those_of_ml_dtypes(name: str, how: str) -> None:
    program, arrays, wanted = casts(name)
    with np.errstate(all="ignore"):
        found = phix.tree.leaves(RUNS[how](program, arrays))
    assert len(found) == len(wanted)
    for f, w in zip(found, wanted):
        same(f, w)


def moved(x: Any) -> Any:
    """What moves elements, of [3, 4]."""
    y = ops.concat([x.T, x.T[:1]], 0)
    y = ops.where(ops.cast(y, "float32") > 0, y, ops.zeros_like(y))
    y = ops.pad(ops.gather(y, np.array([2, 0, 4]), 0), [1, 0, 0, 1], 1.5)
    y = y.at[0, :3].set(x[:, 1])
    order = ops.argsort(ops.cast(x, "float32"), 1)[1]
    return [
        ops.flip(y, [1]).reshape([-1]), ops.take_along_axis(x, order, 1), ops.stack([x, x], 1),
        ops.tile(x, [2, 1]), ops.roll(x[None], [1], [1]),
        x.put_along_axis(order[:, :1], x[:, :1], 1),
        ops.tril(x), x[::2, 1:], ops.split(x, [1, 3], 1), ops.full([2], -1.5, x.dtype),
        phix.cond(x[0, 0].astype("float32") > 0, lambda: x, lambda: ops.flip(x, [0])),
    ]  # fmt: skip


@pytest.mark.parametrize("name", NUMPY)
def test_movements(name: str) -> None:
    """As of float32 numbers, which are cast at the end."""
    x = np.array([[1, -2, 3, -4], [5, 6, -7, 0], [2, -1, 4, -3]], np.float32)
    wanted = [np.asarray(w).astype(NUMPY[name]) for w in phix.tree.leaves(moved(phix.to_tensor(x)))]
    stored = x.astype(NUMPY[name])
    for found in (moved(phix.to_tensor(stored)), phix.jit(moved)(stored),
                  phix.vmap(moved)(stored[None])):  # fmt: skip
        for f, w in zip(phix.tree.leaves(found), wanted):
            same(np.asarray(f).reshape(w.shape), w)


@gpu_programs.needs_compiler
def test_on_the_gpu() -> None:
    """The printed CUDA gives the bytes that the CPU's code gives."""
    x = X[np.isfinite(X)]

    def program(x: Any) -> Any:
        small = [ops.cast(x, name) for name in NUMPY]
        wide = [ops.cast(ops.flip(s, [0]), "float32") for s in small]
        return [ops.where(w == w, w, -1.0) for w in wide]

    gpu_programs.check(program, x, tolerance=0)


def test_derivatives_go_through_casts() -> None:
    """Rounded to the dtype on their way back, and added up where a tensor is used twice."""
    x = phix.to_tensor([0.3, -2.2, 400.0])

    def f(x: Any) -> Any:
        small = ops.cast(x, "float8_e5m2")
        return (ops.cast(small, "float32") ** 2.0).sum() + (
            ops.cast(small.T, "float32") * 0.3
        ).sum()

    rounded = np.asarray(x).astype(NUMPY["float8_e5m2"]).astype(np.float32)
    for call in (phix.grad(f), phix.jit(phix.grad(f)), phix.jacfwd(f)):
        np.testing.assert_allclose(call(x), 2 * rounded + 0.3, rtol=0.25)
    stored = ops.cast(x, "float8_e4m3fn")
    slope = phix.grad(lambda s: (ops.cast(s, "float32")[::2] * 2.0).sum())(stored)
    same(slope, np.array([2, 0, 2], NUMPY["float8_e4m3fn"]))
    assert (
        phix.grad(lambda x: ops.cast(ops.cast(x, "int4"), "float32").sum())(x).tolist() == [0] * 3
    )


REPEATED: dict[str, tuple[Callable[[Any], Any], list[float]]] = {
    "gather": (lambda y: ops.gather(y, phix.to_tensor([0, 1, 1, 0, 1])), [2, 3, 0]),
    "index": (lambda y: y[phix.to_tensor([2, 2])], [0, 0, 2]),
    "tile": (lambda y: ops.tile(y, [20]), [20, 20, 20]),
    "expand": (lambda y: ops.expand(y, [24, 3]), [24, 24, 24]),
}


@pytest.mark.parametrize("what", REPEATED)
@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_derivatives_of_what_is_repeated_add_up(what: str, name: str) -> None:
    """In float32: each number here is one of the dtype, as 17 and 18 of the sums on the way are
    not."""
    move, times = REPEATED[what]

    def f(x: Any) -> Any:
        return ops.cast(move(ops.cast(x, name)), "float32").sum()

    x = phix.to_tensor([0.5, 1.0, 1.5])
    rounded = np.array(times).astype(NUMPY[name]).astype(np.float32)
    for call in (phix.grad(f), phix.jit(phix.grad(f))):
        np.testing.assert_array_equal(call(x), rounded)


def test_a_weight_of_each_step_adds_up() -> None:
    def f(x: Any) -> Any:
        w = ops.cast(x, "float8_e4m3fn")
        steps = phix.to_tensor(np.ones(20, np.float32))
        return phix.scan(lambda c, s: (c + (ops.cast(w, "float32") * s).sum(), None), 0.0, steps)[0]

    for call in (phix.grad(f), phix.jit(phix.grad(f))):
        assert call(phix.to_tensor([0.5, 1.0])).tolist() == [20.0, 20.0]


@pytest.mark.parametrize("name", NUMPY)
def test_tensors_of_them(name: str, tmp_path: Path) -> None:
    dtype = NUMPY[name]
    x = phix.to_tensor([1, -2, 3], name)
    assert x.dtype == dtype == as_dtype(name) and x.itemsize == 1
    assert x.tolist() == [1, -2, 3] and x[1].item() == -2
    assert repr(x) == f"Tensor([1, -2, 3], dtype={name}, shape=[3], place=cpu)"
    same(x, np.array([1, -2, 3], dtype))
    same(phix.to_tensor(np.asarray(x)), np.asarray(x))
    same(pickle.loads(pickle.dumps(x)), np.asarray(x))
    phix.save(tmp_path / "x", {"x": x})
    same(phix.load(tmp_path / "x")["x"], np.asarray(x))
    same(phix.jit(lambda: ops.flip(x, [0]))(), np.asarray(x)[::-1])  # a constant
    same(phix.jit(lambda: ops.reshape(x[0], [1]))(), np.asarray(x)[:1])
    bits = ops.view_dtype(x, "uint8")
    assert np.array_equal(bits, np.asarray(x).view(np.uint8))
    same(ops.view_dtype(bits, name), np.asarray(x))


def test_a_number_beyond_int4() -> None:
    with pytest.raises(phix.errors.NumberRangeError, match="has the ints from -8 to 7"):
        phix.full([2], 8, "int4")


F8, I4 = phix.zeros([2, 2], "float8_e4m3fn"), phix.zeros([2], "int4")
REFUSED: dict[str, Callable[[], Any]] = {
    "add": lambda: F8 + F8, "scale": lambda: -F8, "matmul": lambda: F8 @ F8,
    "equal": lambda: F8 == 0,
    "sum": lambda: F8.sum(), "max": lambda: F8.max(), "sin": lambda: ops.sin(I4),
    "cumsum": lambda: ops.cumsum(F8), "sort": lambda: ops.sort(F8), "mean": lambda: np.mean(F8),
    "a number": lambda: I4 + 1, "relu": lambda: phix.jit(ops.relu)(F8),
    "another dtype": lambda: ops.concat([F8, phix.zeros([1, 2])]),
    "a sum of puts": lambda: ops.put_along_axis(F8, [[0, 1]] * 2, F8, 1, "add"),
    "a sum in place": lambda: F8.at[0].add(F8[1]), "an index": lambda: ops.gather(F8, I4),
    "numbers in a row": lambda: ops.arange(0, 2, 1, "float8_e5m2"),
    "a draw": lambda: phix.random.normal(phix.random.key(0), [2], dtype="float8_e5m2"),
    "a loss": lambda: phix.grad(lambda x: x[0, 0])(F8),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_nothing_computes_with_them(what: str) -> None:
    with pytest.raises(phix.errors.PhixError, match=r"cast|float dtype|real number|scalar"):
        REFUSED[what]()


def test_what_numpys_names_say_of_them() -> None:
    held = ml_dtypes.finfo("float8_e5m2")
    found = phix.numpy.finfo("float8_e5m2")
    assert (found.max, found.eps, found.bits) == (float(held.max), float(held.eps), 8)
    limits = phix.numpy.iinfo("int4")
    assert (limits.min, limits.max, limits.bits) == (-8, 7, 4)
    assert phix.numpy.issubdtype("float8_e4m3fn", np.floating)
    assert phix.numpy.issubdtype("int4", np.integer)
    assert phix.numpy.can_cast("float8_e4m3fn", "float32")
    assert not phix.numpy.can_cast("float32", "float8_e4m3fn")
    assert not phix.numpy.can_cast("bfloat16", "float8_e5m2")
