"""Kernels that users write with CuPy: registered, given their arguments, and run in programs.

There is no card here. The place ``gpu`` is the emulated one, raw kernels are compiled and run by
its emulator, and CuPy's classes are played by stand-ins that are called as CuPy's are.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import phix
from cuda_emulator import COMPILER
from emulated_gpu import GpuArray, emulated
from loaded_ops import loading
from phix import ops
from phix.core import kernel_registry, rules
from phix.core.errors import KernelRegistrationError, UnknownOpError

pytestmark = [
    pytest.mark.unoptimised,
    pytest.mark.skipif(COMPILER is None, reason="no C++ compiler plays the GPU"),
]

TABLE = """
- op: blended
  args: (Tensor x, Tensor y, float by=0.5, int count=3, bool minus=false)
  output: Tensor(out)
  infer_meta: {func: UnchangedInferMeta, param: [x]}
  optional: y
- op: picked
  args: (Tensor x, int[] places)
  output: Tensor(out)
  infer_meta: {func: UnchangedInferMeta, param: [x]}
- op: joined
  args: (Tensor[] xs)
  output: Tensor(total), Tensor(largest)
  infer_meta: {func: JoinedInferMeta}
"""
# each thread takes more elements where the grid is smaller than asked for, as the emulator's is
SOURCE = """
extern "C" __global__ void __launch_bounds__(256) blended_TYPE(
    const TYPE* x, const TYPE* y, double by, long long count, bool minus, TYPE* out, long long size
) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < size;
       i += gridDim.x * (long long)blockDim.x) {
    const TYPE mixed = y ? by * x[i] + (1 - by) * y[i] : x[i];
    out[i] = (minus ? -1 : 1) * (mixed + count);
  }
}
"""


class RawKernel:
    """As ``cupy.RawKernel`` is called; what starts it is the emulator."""

    runtime: Any = None
    started: list[tuple[Any, ...]] = []

    def __init__(self, code: str, name: str) -> None:
        self.code, self.name = code, name

    def __call__(self, grid: Any, block: Any, args: Any, *, shared_mem: int = 0) -> None:
        assert type(args) is tuple and all(type(g) is int for g in (*grid, *block))
        self.started.append((grid, block, shared_mem))
        (function,) = self.runtime.functions(self.code, [self.name])
        self.runtime.launch(function, *grid, *block, [self._bits(a) for a in args])

    def _bits(self, value: Any) -> int:
        if isinstance(value, GpuArray):
            return int(self.runtime.address(value))
        assert isinstance(value, np.generic), f"CUDA C++ has no {type(value).__name__}"
        return int(np.frombuffer(value.tobytes().ljust(8, b"\0"), np.int64)[0])


class ElementwiseKernel:
    """As ``cupy.ElementwiseKernel`` is called; the operation is taken for Python."""

    def __init__(self, given: str, made: str, operation: str) -> None:
        self.made = [part.split()[1] for part in made.split(", ")]
        self.names = [*(part.split()[1] for part in given.split(", ")), *self.made]
        self.operation = operation

    def __call__(self, *args: Any) -> None:
        values = {n: getattr(a, "array", a) for n, a in zip(self.names, args, strict=True)}
        outs = {name: values[name] for name in self.made}
        exec(self.operation, {"maximum": np.maximum}, values)
        for name, out in outs.items():
            out[...] = values[name]


@pytest.fixture
def cupy() -> Iterator[Any]:
    """The stand-ins, and an emulated GPU, which is left after them: who puts the real one back
    asks CuPy for it."""
    fake = ModuleType("cupy")
    fake.RawKernel, fake.ElementwiseKernel = RawKernel, ElementwiseKernel  # type: ignore[attr-defined]
    with emulated() as runtime, pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "cupy", fake)
        patch.setattr(RawKernel, "runtime", runtime)
        patch.setattr(RawKernel, "started", [])
        yield fake


@pytest.fixture
def mine(tmp_path: Path) -> Iterator[Any]:
    """The ops; their kernels go when they do."""
    with loading(tmp_path) as load:

        @rules.infer_meta("JoinedInferMeta")
        def joined_meta(xs: Any) -> Any:
            return xs[0], xs[0]

        loaded = load(TABLE)
        yield loaded
        for name in vars(loaded):
            if kernel_registry.KERNELS.get(name):
                phix.kernels.unregister_kernel(name, "GPU")


def on_gpu(data: Any, dtype: str = "float32") -> Any:
    return phix.to_tensor(np.asarray(data, dtype), place="gpu")


def blended(x: Any, y: Any, by: float = 0.5, count: int = 3, minus: bool = False) -> Any:
    return (-1 if minus else 1) * ((by * x + (1 - by) * y if y is not None else x) + count)


def of(dtype: str) -> str:
    return SOURCE.replace("TYPE", {"float32": "float", "float64": "double"}[dtype])


def raw_kernels(cupy: Any) -> None:
    for dtype, name in (("float32", "blended_float"), ("float64", "blended_double")):
        phix.cupy.kernel("blended", dtypes=dtype)(cupy.RawKernel(of(dtype), name))


def elementwise_kernel(cupy: Any) -> None:
    text = "out = (-1 if minus else 1) * (by * x + (1 - by) * y + count)"
    given = "T x, T y, float64 by, int64 count, bool minus"
    phix.cupy.kernel("blended")(cupy.ElementwiseKernel(given, "T out", text))


def python_function(cupy: Any) -> None:
    @phix.cupy.kernel("blended")
    def kernel(x: Any, y: Any, by: float, count: int, minus: bool, out: Any) -> None:
        mixed = blended(x.array, None if y is None else y.array, by, count, minus)
        out.array[...] = mixed


def launched_kernel(cupy: Any) -> None:
    def launch(x: Any, y: Any, by: float, count: int, minus: bool, out: Any) -> Any:
        size = int(np.prod(x.shape))
        numbers = (np.float64(by), np.int64(count), np.bool_(minus))
        return (2,), (32,), [x, np.uintp(0) if y is None else y, *numbers, out, np.int64(size)], 64

    kernel = cupy.RawKernel(of("float32"), "blended_float")
    phix.cupy.kernel("blended", dtypes="float32", launch=launch)(kernel)


FORMS = [raw_kernels, elementwise_kernel, python_function, launched_kernel]


@pytest.mark.parametrize("register", FORMS, ids=lambda f: f.__name__)
def test_a_kernel_is_given_inputs_attributes_and_outputs(
    register: Any, cupy: Any, mine: Any
) -> None:
    register(cupy)
    rng = np.random.default_rng(0)
    for dims in ((5,), (3, 4), (), (0,), (1000,)):
        x, y = rng.normal(size=(2, *dims)).astype("f")
        for how in ({}, {"by": 0.25, "count": -7, "minus": True}):
            found = mine.blended(on_gpu(x), on_gpu(y), **how)
            assert found.place.kind == "gpu"
            np.testing.assert_allclose(found, blended(x, y, **how), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("register", FORMS, ids=lambda f: f.__name__)
def test_it_is_a_step_of_programs_for_all_sizes_and_in_loops(
    register: Any, cupy: Any, mine: Any
) -> None:
    register(cupy)

    def function(x: Any, y: Any) -> Any:
        start = mine.blended(ops.tanh(x), y * 2.0, by=0.25)
        return phix.fori_loop(0, 3, lambda i, c: mine.blended(c, y, count=1) * 0.5, start)

    specs = [phix.spec(["n", 3], "float32")] * 2
    jitted = phix.jit(function, input_spec=specs)
    rng = np.random.default_rng(1)
    for n in (1, 4, 100):
        x, y = rng.normal(size=(2, n, 3)).astype("f")
        wanted = blended(np.tanh(x), y * 2, 0.25)
        for _ in range(3):
            wanted = blended(wanted, y, count=1) / 2
        np.testing.assert_allclose(jitted(on_gpu(x), on_gpu(y)), wanted, rtol=2e-6)
    text = jitted.lower(on_gpu(x), on_gpu(y)).as_text("choose kernels")
    assert text.count("blended(") == 2 and "GPU, any, float32" in text


def test_a_raw_kernel_has_a_thread_for_each_element_of_the_first_output(
    cupy: Any, mine: Any
) -> None:
    raw_kernels(cupy)
    for size in (1, 255, 256, 257, 2560):
        mine.blended(on_gpu(np.ones(size)), on_gpu(np.ones(size)))
        assert RawKernel.started[-1] == ((-(-size // 256),), (256,), 0)
    count = len(RawKernel.started)
    assert mine.blended(on_gpu(np.ones(0)), on_gpu(np.ones(0))).shape == (0,)
    assert len(RawKernel.started) == count, "nothing is started for no elements"


def test_the_kernel_of_the_dtype_is_taken(cupy: Any, mine: Any) -> None:
    raw_kernels(cupy)
    x = np.array([1 / 3, 2 / 3])
    found = mine.blended(on_gpu(x, "float64"), on_gpu(x, "float64"), count=0)
    assert found.dtype == "float64"
    np.testing.assert_allclose(found, x, rtol=1e-15)


def test_what_launch_says_is_how_it_is_started(cupy: Any, mine: Any) -> None:
    launched_kernel(cupy)
    mine.blended(on_gpu(np.ones(100)), on_gpu(np.ones(100)))
    assert RawKernel.started == [((2,), (32,), 64)]


def test_an_input_that_is_not_given_is_none_or_null(cupy: Any, mine: Any) -> None:
    x = np.arange(6, dtype="f")
    for register in (raw_kernels, python_function, launched_kernel):
        register(cupy)
        np.testing.assert_array_equal(mine.blended(on_gpu(x), None), x + 3)
        phix.kernels.unregister_kernel("blended", "GPU")


def test_lists_of_tensors_and_several_outputs(cupy: Any, mine: Any) -> None:
    @phix.cupy.kernel("joined")
    def joined(xs: Any, total: Any, largest: Any) -> None:
        assert type(xs) is tuple
        total.array[...] = sum(x.array for x in xs)
        largest.array[...] = np.maximum.reduce([x.array for x in xs])

    rows = np.random.default_rng(2).normal(size=(3, 5)).astype("f")
    for run in (mine.joined, phix.jit(mine.joined)):
        total, largest = run([on_gpu(r) for r in rows])
        np.testing.assert_allclose(total, rows[0] + rows[1] + rows[2], rtol=1e-6)
        np.testing.assert_array_equal(largest, rows.max(0))
    phix.kernels.unregister_kernel("joined", "GPU")
    text = "total = a + b + c; largest = maximum(maximum(a, b), c)"
    kernel = cupy.ElementwiseKernel("T a, T b, T c", "T total, T largest", text)
    phix.cupy.kernel("joined")(kernel)
    total, largest = mine.joined([on_gpu(r) for r in rows])
    np.testing.assert_allclose(total, rows[0] + rows[1] + rows[2], rtol=1e-6)
    np.testing.assert_array_equal(largest, rows.max(0))


@pytest.mark.parametrize(
    ("register", "wanted"),
    [(raw_kernels, True), (elementwise_kernel, True), (launched_kernel, True),
     (python_function, False)],
)  # fmt: skip
def test_what_cupy_made_may_be_recorded(register: Any, wanted: bool, cupy: Any, mine: Any) -> None:
    register(cupy)
    kernels = kernel_registry.KERNELS["blended"].values()
    assert {k.recordable for k in kernels} == {wanted}
    phix.kernels.unregister_kernel("blended", "GPU")
    phix.cupy.kernel("blended", recordable=not wanted)(lambda x, y, by, count, minus, out: None)
    assert {k.recordable for k in kernels} == {not wanted}


# -- what is refused -------------------------------------------------------------------------------
def test_what_takes_other_arguments_is_refused(cupy: Any, mine: Any) -> None:
    wanted = r"as \(x, y, by, count, minus, out\): missing a required argument|too many positional"
    for wrong in (lambda x, out: None, lambda ctx, x, y, by, count, minus, out: None):
        with pytest.raises(KernelRegistrationError, match=wanted):
            phix.cupy.kernel("blended")(wrong)
        raw = cupy.RawKernel(of("float32"), "blended_float")
        with pytest.raises(KernelRegistrationError, match="launch is called with inputs, attr"):
            phix.cupy.kernel("blended", launch=wrong)(raw)
    phix.cupy.kernel("blended")(lambda *arguments: None)


def test_a_raw_kernel_is_not_given_lists_by_itself(cupy: Any, mine: Any) -> None:
    kernel = cupy.RawKernel(of("float32"), "blended_float")
    with pytest.raises(KernelRegistrationError) as failure:
        phix.cupy.kernel("picked")(kernel)
    assert str(failure.value) == (
        "the CuPy kernel of 'picked': its attribute 'places' is of type int[], which a RawKernel "
        "is not given by itself; pass launch=, a function of (x, places, out) that gives (grid, "
        "block, arguments)"
    )
    phix.cupy.kernel("picked", launch=lambda x, places, out: ((1,), (1,), ()))(kernel)


def test_unknown_ops_and_second_kernels(cupy: Any, mine: Any) -> None:
    with pytest.raises(UnknownOpError, match="no_such_op"):
        phix.cupy.kernel("no_such_op")(lambda x, out: None)
    python_function(cupy)
    with pytest.raises(KernelRegistrationError, match="has a kernel for"):
        python_function(cupy)


def test_registering_a_function_needs_no_cupy(tmp_path: Path) -> None:
    code = (
        "import sys, phix\n"
        "@phix.cupy.kernel('tanh', dtypes='float32')\n"
        "def tanh(x, out): out[...] = 0\n"
        "assert 'cupy' not in sys.modules and phix.kernels.keys('tanh', ['GPU'])\n"
        "assert abs(phix.ops.tanh(1.0).item() - 0.7615942) < 1e-6  # the CPU has its own"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[1])
