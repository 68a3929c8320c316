"""The engine's own Fourier transforms: every size, way and machine, against sums of NumPy's."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.fft

import phix
from phix import ops
from phix.core import rewrites
from phix.kernels.cpu import fourier, fourier_code, fourier_passes, fourier_plan, jit

pytestmark = pytest.mark.unoptimised(4)

COMPLEX = {"float32": "complex64", "float64": "complex128"}
EPSILON = {"float32": 6e-7, "float64": 1.1e-15}
# bytes of a vector register, and how many registers: AVX-512, AVX2, SSE, Neon
MACHINES = [(64, 32), (32, 16), (16, 16), (16, 32)]
C2C, R2C, C2R, R2ALL = fourier.C2C, fourier.R2C, fourier.C2R, fourier.R2ALL
# what lies around the axis: alone, few and many around vectors' widths, beside it too
PLACES = [(1, 1), (7, 1), (8, 1), (9, 1), (17, 1), (1, 7), (2, 8), (3, 9), (1, 17), (33, 3)]
SMALL = list(range(1, 71))
LARGE = [81, 96, 100, 101, 113, 121, 127, 128, 131, 169, 243, 256, 343, 360, 500, 512, 625, 720,
         1000, 1009, 1024, 1155, 2018, 2048, 2187, 3600, 4093, 4096]  # fmt: skip
PI = np.longdouble("3.14159265358979323846264338327950288")


@cache
def native(dtype: str, machine: tuple[int, int] | None) -> Any:
    """``transform(kind, forward, points, outer, inner, divisor, rooted, x, out, fault)``"""
    machine = machine or jit.vector_registers()
    name = f"test_fft_{dtype}_{machine[0]}_{machine[1]}"
    kinds = [ctypes.c_int64] * 7 + [ctypes.c_void_p] * 3
    return ctypes.CFUNCTYPE(None, *kinds)(fourier_code.address(name, dtype, *machine))


def run(dtype: str, machine: Any, kind: int, forward: bool, x: np.ndarray, points: int,
        divisor: int = 1, rooted: bool = False) -> np.ndarray:  # fmt: skip
    """Along the middle axis of x; what lies around the result must stay as it is."""
    outer, _, inner = x.shape
    made = points // 2 + 1 if kind == R2C else points
    size = outer * made * inner
    around = np.full(size + 64, np.nan, dtype if kind == C2R else COMPLEX[dtype])
    out = around[32 : 32 + size].reshape(outer, made, inner)
    before = x.copy()
    fault = np.zeros(3, np.int64)
    ends = (x.ctypes.data, out.ctypes.data, fault.ctypes.data)
    native(dtype, machine)(kind, forward, points, outer, inner, divisor, rooted, *ends)
    assert not fault.any() and np.isnan(around[:32]).all() and np.isnan(around[-32:]).all()
    np.testing.assert_array_equal(x, before)
    return out


@cache
def roots(points: int) -> np.ndarray:
    angle = 2 * PI * np.arange(points, dtype=np.longdouble) / points
    return np.cos(angle) - 1j * np.sin(angle)


def direct(x: np.ndarray, forward: bool = True) -> np.ndarray:
    """The sum, as it is defined, along the middle axis."""
    n = x.shape[1]
    w = roots(n) if forward else roots(n).conj()
    k = np.arange(n)
    out = np.empty(x.shape, np.clongdouble)
    for a in range(n):
        out[:, a] = np.einsum("onj,n->oj", x.astype(np.clongdouble), w[a * k % n])
    return out


def near(found: np.ndarray, wanted: np.ndarray, dtype: str, what: object = "") -> None:
    """An error is one of the sums: of the size of the largest one, and of their depth."""
    depth = np.log2(max(2, found.shape[1]) * 2)
    size = float(np.abs(wanted).max(initial=0)) or 1.0
    error = float(np.abs(found - wanted).max(initial=0)) / size
    assert error <= EPSILON[dtype] * depth, f"{what}: {error}"


def drawn(shape: Any, dtype: str, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype.startswith("c") else x).astype(dtype)


def check(dtype: str, machine: Any, n: int, place: tuple[int, int], wanted: Any) -> None:
    """All transforms of n points, each in both directions."""
    outer, inner = place
    x = drawn((outer, n, inner), COMPLEX[dtype], n)
    half = x[:, : n // 2 + 1].copy()
    known = half.copy()
    known[:, 0].imag = 0
    if n % 2 == 0:
        known[:, -1].imag = 0
    full = np.concatenate([known, known[:, 1 : (n + 1) // 2][:, ::-1].conj()], 1)
    for forward in (True, False):
        what = (dtype, machine, n, place, forward)
        near(run(dtype, machine, C2C, forward, x, n), wanted(x, forward), dtype, what)
        real = np.ascontiguousarray(x.real)
        found = run(dtype, machine, R2C, forward, real, n)
        near(found, wanted(real, forward)[:, : n // 2 + 1], dtype, what)
        every = run(dtype, machine, R2ALL, forward, real, n)
        assert every[:, : n // 2 + 1].tobytes() == found.tobytes() or n % 2, what
        near(every, wanted(real, forward), dtype, what)
        found = run(dtype, machine, C2R, forward, half, n)
        near(found, wanted(full, forward).real, dtype, what)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("n", SMALL)
def test_small_sizes(n: int, dtype: str) -> None:
    for place in PLACES:
        check(dtype, None, n, place, direct)


def by_library(x: np.ndarray, forward: bool) -> np.ndarray:
    """pocketfft, of more digits."""
    n = x.shape[1]
    x = x.astype(np.clongdouble)
    return scipy.fft.fft(x, axis=1) if forward else scipy.fft.ifft(x, axis=1) * n


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("n", LARGE)
def test_large_sizes(n: int, dtype: str) -> None:
    near(by_library(drawn((1, n, 1), "complex128"), True),
         direct(drawn((1, n, 1), "complex128")), "float64")  # fmt: skip
    for place in [(1, 1), (3, 1), (20, 1), (1, 17)]:
        check(dtype, None, n, place, by_library)


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("n", [1 << 15, 65537, 3**10, 1 << 17])
def test_very_large_sizes(n: int, dtype: str) -> None:
    check(dtype, None, n, (1, 1), by_library)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", COMPLEX)
def test_other_machines(dtype: str, machine: tuple[int, int]) -> None:
    """Narrower vectors, and other factors with code of their own."""
    if machine[0] > jit.vector_registers()[0]:
        pytest.skip("this machine has no vectors of so many bytes")
    for n in [*range(1, 20), 37, 64, 105, 131, 256, 1000, 1024]:
        for place in [(1, 1), (9, 1), (2, 9), (5, 2)]:
            check(dtype, machine, n, place, by_library)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_each_result_has_the_same_bits_wherever_it_is_made(dtype: str) -> None:
    """In a lane among others, alone, cut in two, beside others, or first of many."""
    for n in [2, 15, 64, 100, 113, 127, 131, 256, 1000, 1009, 1024, 2048]:
        x = drawn((40, n, 1), COMPLEX[dtype], n)
        for kind in (C2C, R2C, C2R, R2ALL):
            given = x if kind not in (R2C, R2ALL) else np.ascontiguousarray(x.real)
            given = given if kind != C2R else np.ascontiguousarray(x[:, : n // 2 + 1])
            many = run(dtype, None, kind, True, given, n)
            beside = np.ascontiguousarray(np.swapaxes(given, 0, 2))
            across = np.swapaxes(run(dtype, None, kind, True, beside, n), 0, 2)
            alone = run(dtype, None, kind, True, given[5:6].copy(), n)
            assert many.tobytes() == np.ascontiguousarray(across).tobytes(), (n, kind)
            assert alone.tobytes() == many[5:6].tobytes(), (n, kind)


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("n", [5, 16, 64, 131, 1024])
def test_nan_and_inf_stay_in_their_row(n: int, dtype: str) -> None:
    for shape in [(20, n, 1), (1, n, 20)]:
        x = drawn(shape, COMPLEX[dtype])
        wanted = run(dtype, None, C2C, True, x, n)
        spoiled = np.moveaxis(x, 1, 2).reshape(20, n)
        spoiled[3, 1], spoiled[17, n - 1] = np.nan, np.inf
        y = np.moveaxis(spoiled.reshape(shape[0], shape[2], n), 2, 1).copy()
        found = run(dtype, None, C2C, True, y, n)
        rows = [np.moveaxis(v, 1, 2).reshape(20, n) for v in (found, wanted)]
        others = [k for k in range(20) if k not in (3, 17)]
        np.testing.assert_array_equal(rows[0][others], rows[1][others])
        assert not np.isfinite(rows[0][[3, 17]]).any()


@pytest.mark.parametrize("dtype", COMPLEX)
def test_errors_are_no_larger_than_those_of_pocketfft(dtype: str) -> None:
    """On the mean over sizes no larger, of any one at most a third larger."""
    ratios: list[float] = []
    for n in [7, 12, 16, 30, 64, 97, 100, 113, 128, 210, 243, 256, 509, 512, 625, 1000, 1009, 1024]:
        x = drawn((64, n, 1), COMPLEX[dtype], n)
        real = np.ascontiguousarray(x.real)
        for kind, given, library in ((C2C, x, scipy.fft.fft), (R2C, real, scipy.fft.rfft)):
            found = run(dtype, None, kind, True, given, n)
            wanted = by_library(given, True)[:, : found.shape[1]]
            errors = [
                float((np.abs(y - wanted) ** 2).mean()) for y in (found, library(given, axis=1))
            ]
            ratios.append(np.sqrt(errors[0] / errors[1]))
    assert np.exp(np.mean(np.log(ratios))) < 1.0 and max(ratios) < 1.33, ratios


def test_roots_of_small_orders_are_rounded_once() -> None:
    for n in range(1, 30):
        found = np.array([fourier_passes.root(k, n) for k in range(n)])
        wanted = np.stack([roots(n).real, -roots(n).imag], 1)
        half = np.spacing(np.abs(found)) / 2
        assert (np.abs(found - wanted) <= half + 1e-18).all()  # long doubles are no nearer


def test_norms_divide_once() -> None:
    x = drawn((3, 12, 5), "complex128")
    wanted = run("float64", None, C2C, True, x, 12)
    assert (run("float64", None, C2C, True, x, 12, 4) == wanted / 4).all()
    found = run("float64", None, C2C, True, x, 12, 6, True)
    np.testing.assert_allclose(found, wanted / np.sqrt(6.0), 1e-15)


def test_more_sizes_than_plans_are_kept_for() -> None:
    for turn in range(2):
        for n in range(2, 2 + 3 * fourier_plan.SLOTS):
            x = drawn((2, n, 1), "complex64", turn)
            near(run("float32", None, C2C, True, x, n), direct(x), "float32", n)


# -- in programs -----------------------------------------------------------------------------------
def spectra(x: Any) -> Any:
    """All transforms, over axes inside and outside."""
    z = phix.fft.fft(x, axis=1)
    real = phix.fft.irfftn(z * 2.0, axes=(0, 2))
    return phix.fft.ifft2(z, axes=(0, 1)), real, phix.fft.rfftn(ops.real(z), axes=(2, 0))


@pytest.mark.parametrize("dtype", COMPLEX.values())
@pytest.mark.parametrize("shape", [(4, 6, 5), (1, 16, 9), (17, 8, 7), (3, 131, 2), (2, 64, 64)])
def test_all_ways_to_run_it_give_the_same_bits(shape: tuple[int, ...], dtype: str) -> None:
    """Eager, compiled, with unknown dims, from tensors that lie otherwise."""
    x = drawn(shape, dtype)
    wanted = [np.asarray(v).tobytes() for v in spectra(phix.to_tensor(x))]
    other = np.ascontiguousarray(x.transpose(2, 0, 1)).transpose(1, 2, 0)
    unknown = phix.jit(spectra, input_spec=[phix.spec(["a", "b", "c"], dtype)])
    for function, given in [(phix.jit(spectra), x), (phix.jit(spectra), other), (unknown, x)]:
        assert [np.asarray(v).tobytes() for v in function(given)] == wanted
    reference = [
        np.fft.ifft2(np.fft.fft(x.astype("c16"), axis=1), axes=(0, 1)),
        np.fft.irfftn(np.fft.fft(x.astype("c16"), axis=1) * 2, axes=(0, 2)),
        np.fft.rfftn(np.fft.fft(x.astype("c16"), axis=1).real, axes=(2, 0)),
    ]
    tolerance = 1e-5 if dtype == "complex64" else 1e-13
    for found, right in zip(phix.jit(spectra)(x), reference):
        np.testing.assert_allclose(found, right, 0, tolerance * np.abs(right).max())
    with rewrites.without(frozenset({"own_transforms"})):
        for found, right in zip(phix.jit(lambda x: spectra(x))(x), reference):
            np.testing.assert_allclose(found, right, 0, tolerance * np.abs(right).max())


def test_a_mapped_transform_is_one_call() -> None:
    x = drawn((6, 5, 12), "complex128")
    function = phix.jit(phix.vmap(phix.vmap(phix.fft.fft)))
    assert np.asarray(function(x)).tobytes() == np.asarray(phix.fft.fft(x)).tobytes()
    assert function.lower(x).as_text("loop ir").count("fft_float64(") == 1


@pytest.mark.parametrize("n", [8, 9, 14])
def test_derivatives_of_derivatives(n: int) -> None:
    def loss(x: Any) -> Any:
        return ops.sum(ops.sin(ops.abs(phix.fft.rfft(x)) ** 2 * 0.1))

    x, v = drawn(n, "float64"), drawn(n, "float64", 1)
    slope = phix.jit(phix.grad(lambda x: ops.sum(phix.grad(loss)(x) * v)))
    h = 1e-5
    first = phix.grad(loss)
    wanted = (np.asarray(first(x + h * v)) - np.asarray(first(x - h * v))) / (2 * h)
    np.testing.assert_allclose(slope(x), wanted, rtol=1e-6, atol=1e-7)


def test_in_a_loop_and_donated() -> None:
    x = drawn((3, 20), "complex128")
    smooth = phix.jit(
        lambda x: phix.fori_loop(0, 5, lambda i, c: phix.fft.ifft(phix.fft.fft(c) * 0.5), x),
        donate_argnums=(0,),
    )
    np.testing.assert_allclose(smooth(phix.to_tensor(x.copy())), x / 32, 0, 1e-15)
    twice = phix.jit(lambda x: phix.fft.fft(x), donate_argnums=(0,))
    found = twice(phix.to_tensor(x.copy()))
    assert np.asarray(found).tobytes() == np.asarray(phix.fft.fft(x)).tobytes()


def test_an_empty_batch_gives_nothing() -> None:
    assert phix.jit(phix.fft.fft)(np.ones((0, 8), "complex64")).shape == (0, 8)


PROGRAM = """
import numpy as np, phix
rng = np.random.default_rng(0)
f = phix.jit(lambda x, y: (phix.fft.fft2(x), phix.fft.fft(y), phix.fft.rfft(phix.ops.real(y))))
x = (rng.standard_normal((200, 300)) + 1j).astype("complex64")
y = rng.standard_normal((1, 1 << 15)) + 1j
print(*(np.asarray(o).tobytes().hex() for o in f(x, y)))
"""


def test_a_transform_is_the_same_with_any_number_of_threads() -> None:
    """In new processes, of which the later ones find their program on disk."""
    found = set()
    for count in ("1", "2", "5", "1"):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PROGRAM],
            env={**os.environ, "PHIX_NUM_THREADS": count},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found.add(done.stdout)
    assert len(found) == 1


@pytest.mark.parametrize("dtype", COMPLEX)
def test_callers_beside_each_other_share_plans(dtype: str) -> None:
    """Calls of this kind let the interpreter go; there are more sizes than plans are kept for."""
    sizes = [*range(2, 40), 131, 256, 300, 1024]
    given = {n: drawn((3, n, 2), COMPLEX[dtype], n) for n in sizes}
    wanted = {n: run(dtype, None, C2C, True, x, n).tobytes() for n, x in given.items()}

    def call(number: int) -> list[int]:
        order = np.random.default_rng(number).permutation(sizes * 6)
        return [n for n in order if run(dtype, None, C2C, True, given[n], int(n)).tobytes()
                != wanted[n]]  # fmt: skip

    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(call, range(4))] == [[], [], [], []]


@pytest.mark.parametrize("dtype", COMPLEX)
def test_roots_of_plans_are_rounded_once(dtype: str) -> None:
    """Those that compiled code makes, of any order, and with squares for exponents."""
    name = f"test_roots_{dtype}"
    text = fourier.text("unused", dtype, *jit.vector_registers())
    text = text.replace("define internal void @roots(", f"define void @{name}(")
    (address,) = jit.addresses(text.replace("@roots(", f"@{name}("), (name,), is_final=True)
    kinds = [ctypes.c_void_p] * 2 + [ctypes.c_int64] * 4
    function = ctypes.CFUNCTYPE(None, *kinds)(address)
    for order, step, squared in [(1, 1, 0), (7, 1, 0), (360, 7, 0), (1009, 1, 0), (4096, 3, 0),
                                 (2 * 1009, 1, 1), (1_000_003, 123_457, 0)]:  # fmt: skip
        count = min(order, 2000)
        made = np.empty((2, count + 8), dtype)
        function(made[0].ctypes.data, made[1].ctypes.data, order, step, squared, count)
        j = np.arange(count)
        k = (j * (j if squared else step)) % order
        angle = 2 * PI * np.minimum(k, order - k).astype(np.longdouble) / order
        sine = np.sin(angle) * np.where(2 * k > order, 1, -1)
        for found, right in zip(made[:, :count], (np.cos(angle), sine)):
            error = np.abs(found.astype(np.longdouble) - right)
            assert (error <= np.spacing(np.abs(found)) * 0.5001 + 4e-19).all(), (order, squared)
