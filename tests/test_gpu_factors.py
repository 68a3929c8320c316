"""Factorisations of the GPU: its own kernels, emulated, and how it calls CuPy's libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

import phix
from cuda_emulator import Emulator
from cuda_libraries import HANDLES, Cublas, Cusolver
from gpu_programs import compile_all, needs_compiler, program, shapes
from phix import ops
from phix.kernels import KernelKey
from phix.kernels.gpu.cusolver import Solver
from phix.kernels.gpu.runtime import FactorCall

RNG = np.random.default_rng(0)
pytestmark = [needs_compiler, pytest.mark.xdist_group("gpu factors"), pytest.mark.unoptimised]
DTYPES = {"float32": 2e-3, "float64": 1e-9, "complex64": 2e-3, "complex128": 1e-9}


class WithLibraries(Emulator):
    """A device whose large matrices go to stand-ins of cuSOLVER and cuBLAS."""

    def __init__(self) -> None:
        super().__init__()
        self.cusolver, self.cublas = Cusolver(), Cublas()

    def solver(self) -> Solver:
        def room(count: int, dtype: np.dtype) -> tuple[Any, int]:
            made = np.empty(max(count, 1), dtype)
            return made, made.ctypes.data

        return Solver(self.cusolver, self.cublas, lambda: HANDLES, room)


def normal(*dims: int, dtype: str = "float64") -> np.ndarray:
    made = RNG.standard_normal(dims)
    return (made + 1j * RNG.standard_normal(dims) if dtype[0] == "c" else made).astype(dtype)


def positive(*dims: int, dtype: str = "float64") -> np.ndarray:
    a = normal(*dims, dims[-1], dtype=dtype)
    return a @ a.conj().swapaxes(-1, -2) + np.eye(dims[-1], dtype=dtype)


def run(function: Any, *arrays: np.ndarray, runtime: Any = Emulator, specs: Any = None) -> Any:
    made = program(phix.jit(function).lower(*(specs or arrays)).graph, runtime)
    return made.launcher(shapes(arrays))(*arrays)


RUNTIMES = pytest.mark.parametrize("runtime", [Emulator, WithLibraries], ids=["own", "library"])
# a batch that blocks do at once, and one matrix that is large
BATCHES = pytest.mark.parametrize("dims", [(3, 11), (70,)], ids=["3 x 11", "70"])


@pytest.mark.one_in(12)
@RUNTIMES
@BATCHES
@pytest.mark.parametrize("dtype", DTYPES)
def test_cholesky(dims: Any, dtype: str, runtime: Any) -> None:
    a = positive(*dims, dtype=dtype)
    wanted = np.linalg.cholesky(a)
    for upper, e in [(False, wanted), (True, wanted.conj().swapaxes(-1, -2))]:
        (found,) = run(lambda a, u=upper: ops.cholesky(a, u), a, runtime=runtime)
        np.testing.assert_allclose(found, e, rtol=0, atol=DTYPES[dtype] * np.abs(e).max())


@pytest.mark.one_in(6)
@RUNTIMES
@BATCHES
@pytest.mark.parametrize("dtype", DTYPES)
def test_lu(dims: Any, dtype: str, runtime: Any) -> None:
    a = normal(*dims, dims[-1] + 2, dtype=dtype)
    factors, pivots, infos = run(lambda a: ops.lu(a), a, runtime=runtime)
    assert not infos.any()
    for place in np.ndindex(a.shape[:-2]):
        wanted, rows = scipy.linalg.lapack.get_lapack_funcs("getrf", [a])(a[place])[:2]
        np.testing.assert_array_equal(pivots[place], rows + 1)
        np.testing.assert_allclose(factors[place], wanted, rtol=0, atol=DTYPES[dtype] * 10)


@pytest.mark.one_in(10)
@RUNTIMES
@BATCHES
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("flags", [(u, t, d) for u in (0, 1) for t in (0, 1) for d in (0, 1)])
def test_triangular_systems(dims: Any, dtype: str, flags: Any, runtime: Any) -> None:
    upper, transpose, unit = map(bool, flags)
    a = normal(*dims, dims[-1], dtype=dtype) / dims[-1] + 2 * np.eye(dims[-1], dtype=dtype)
    y = normal(*dims, 67, dtype=dtype)
    (x,) = run(lambda a, y: ops.triangular_solve(a, y, upper, transpose, unit), a, y,
               runtime=runtime)  # fmt: skip
    triangle = np.triu(a) if upper else np.tril(a)
    if unit:
        diagonal = np.arange(dims[-1])
        triangle[..., diagonal, diagonal] = 1
    triangle = triangle.swapaxes(-1, -2) if transpose else triangle
    np.testing.assert_allclose(triangle @ x, y, rtol=0, atol=DTYPES[dtype])


@pytest.mark.one_in(4)
@RUNTIMES
@BATCHES
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_what_is_made_of_them(dims: Any, dtype: str, runtime: Any) -> None:
    n = dims[-1]
    a, y = normal(*dims, n, dtype=dtype) + 4 * np.eye(n), normal(*dims, 3, dtype=dtype)
    for function, wanted in [
        (ops.solve, np.linalg.solve(a, y)),
        (lambda a, y: ops.inverse(a), np.linalg.inv(a)),
        (lambda a, y: ops.slogdet(a * 0.3), np.stack(np.linalg.slogdet(a * 0.3))),
        (lambda a, y: phix.vjp(lambda y: ops.solve(a, y), y)[1](y),
         np.linalg.solve(a.conj().swapaxes(-1, -2), y)),
    ]:  # fmt: skip
        (found,) = run(function, a, y, runtime=runtime)
        np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-8)


def test_matrices_that_cannot_be_factored() -> None:
    a = positive(3, 20)
    a[1, 4, 4] = -1
    (found,) = run(lambda a: ops.cholesky(a), a)
    assert np.isnan(found[1][np.tril_indices(20)]).all() and np.isfinite(found[[0, 2]]).all()
    a = normal(2, 12, 12)
    a[1, :, 5] = 0
    factors, _, infos = run(lambda a: ops.lu(a), a)
    assert infos.tolist() == [0, 6] and np.isfinite(factors).all()
    a[0, 3, 3] = np.nan
    assert np.isnan(run(lambda a: ops.lu(a), a)[0][0]).any()


def test_pivots_of_equal_size_are_the_first_of_them() -> None:
    a = np.where(RNG.random((40, 40)) > 0.5, 1.0, -1.0)
    _, pivots, _ = run(lambda a: ops.lu(a), a)
    assert pivots[0] == 1


def test_one_program_for_all_sizes() -> None:
    specs = [phix.spec(["b", "n", "n"], "float64"), phix.spec(["b", "n", "k"], "float64")]
    for b, n, k in [(1, 1, 1), (2, 9, 130), (20, 33, 2), (0, 4, 1), (2, 0, 3), (1, 90, 2)]:
        a, y = normal(b, n, n) + 4 * np.eye(n), normal(b, n, k)
        for runtime in (Emulator, WithLibraries):
            (found,) = run(ops.solve, a, y, runtime=runtime, specs=specs)
            np.testing.assert_allclose(found, np.linalg.solve(a, y), rtol=1e-8, atol=1e-8)


def test_large_matrices_alone_go_to_the_libraries() -> None:
    calls = {}
    for count, n in [(1, 64), (1, 65), (15, 65), (16, 65), (16, 513)]:
        runtime = WithLibraries()
        run(lambda a: ops.cholesky(a), positive(count, n), runtime=lambda r=runtime: r)
        calls[count, n] = runtime.cusolver.calls.count("dpotrf")
    assert calls == {(1, 64): 0, (1, 65): 1, (15, 65): 15, (16, 65): 0, (16, 513): 16}


def test_the_libraries_are_not_called_for_nothing() -> None:
    libraries = WithLibraries()
    libraries.solver()(FactorCall("potrf", np.dtype(np.float64), (False,), (0,), (0, 0)))
    assert libraries.cusolver.calls == []


def test_programs_with_large_matrices_are_not_recorded() -> None:
    for n, is_recorded in [(12, True), (100, False)]:
        made = program(phix.jit(lambda a: ops.cholesky(a)).lower(positive(n)).graph, WithLibraries)
        launch = made.launcher(((n, n),))
        assert (launch.__self__.recordings is not None) is is_recorded  # type: ignore[attr-defined]


def test_they_compile_for_the_gpu() -> None:
    modules = []
    for dtype in DTYPES:
        specs = [phix.spec(["b", "n", "n"], dtype), phix.spec(["b", "n", "k"], dtype)]
        for function in (
            lambda a, y: ops.cholesky(a), lambda a, y: ops.cholesky(a, True), ops.solve,
            lambda a, y: ops.triangular_solve(a, y, True, True, True),
        ):  # fmt: skip
            modules.append(program(phix.jit(function).lower(*specs).graph).sections["cuda"])
    compile_all(modules)


def test_the_library_is_a_backend() -> None:
    key = KernelKey("GPUSOLVER", "any", np.dtype(np.float32))
    assert phix.kernels.find("cholesky", key).key.backend == "GPUSOLVER"
    assert phix.kernels.BACKENDS["GPUSOLVER"].fallback == "GPU"
