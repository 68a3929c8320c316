"""Rows that blocks write and read again: in shared memory, or computed again, never in memory."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import phix
from gpu_programs import check, compile_all, needs_compiler, program, teams
from phix import ops
from phix.core import dtypes as dt
from phix.core.precision import matmul_precision
from phix.kernels.gpu import cublas, rows

RNG = np.random.default_rng(0)
pytestmark = [needs_compiler, pytest.mark.xdist_group("gpu rows"), pytest.mark.unoptimised]


def floats(*dims: int) -> np.ndarray:
    return RNG.standard_normal(dims).astype(np.float32)


def only_kernel(made: Any) -> Any:
    (kernel,) = made.loops.steps
    assert not made.loops.temps
    return kernel


def loads_of_outputs(made: Any) -> int:
    """How often kernels read what they write to outputs."""
    return sum(e.data in made.loops.outputs for k in made.loops.steps
               for e in rows.ir.expressions(k.body) if e.fn == "load")  # fmt: skip


@pytest.mark.parametrize("columns", [17, 300, 4096, 8192])
def test_rows_of_a_softmax_stay_in_registers(columns: int) -> None:
    made = check(lambda x: ops.softmax(x), floats(9, columns))
    kernel = only_kernel(made)
    ((row, size),) = kernel.locals.items()
    assert (row.dtype, size.data) == (np.float32, columns) and teams(made) == ["block"]
    (launch,) = made.launches.values()
    grid, threads = launch.size("block", {})
    assert grid == 9, "a block a row"
    assert loads_of_outputs(made) == 0, "each row is written once"
    text = kernel_text(made)
    assert text.count("phix_take(") == text.count("phix_put(") == 1
    assert "__shared__" not in text and "p0[" not in text
    assert f"__launch_bounds__({threads})" in text
    width = 4 if columns % 4 == 0 else 1
    assert f", {columns // width}, {threads});" in text


def kernel_text(made: Any) -> str:
    """The kernels alone, without what they call."""
    return str(made.sections["cuda"].partition('extern "C"')[2])


def test_exponentials_that_a_scan_goes_through_are_in_shared_memory() -> None:
    made = check(lambda x: ops.cumsum(ops.softmax(x), 1), floats(9, 300), tolerance=1e-5)
    assert re.search(r"__shared__ __align__\(16\) float b0\[300\];", kernel_text(made))


@pytest.mark.parametrize("dims", [(9, 9000), (300, "n"), ("m", "n")])
def test_of_longer_rows_they_are_computed_again(dims: Any) -> None:
    sizes = [d if isinstance(d, int) else 700 for d in dims]
    made = check(lambda x: ops.softmax(x), floats(*sizes), specs=[phix.spec(list(dims))])
    (launch,) = made.launches.values()
    assert launch.size("block", {"m": sizes[0], "n": sizes[1]})[0] == sizes[0]
    assert not only_kernel(made).locals and loads_of_outputs(made) == 0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
def test_layer_norm_reads_its_rows_and_writes_results_alone(dtype: str) -> None:
    x, w, b = (np.asarray(phix.to_tensor(floats(*d), dtype)) for d in ((40, 512), (512,), (512,)))
    made = check(lambda x, w, b: ops.layer_norm(x, w, b), x, w, b, tolerance=3e-2)
    assert not only_kernel(made).locals, "x - mean costs less again than in memory"
    width = 16 // np.dtype(dt.as_dtype(dtype)).itemsize
    assert f", {width}>" in made.sections["cuda"], "vector loads of 16 bytes"


NETWORKS = {
    "gradient of softmax": lambda x: phix.grad(lambda x: ops.sum(ops.softmax(x) ** 2))(x),
    "log_softmax": lambda x: ops.log_softmax(x),
    "gradient of layer_norm": phix.grad(lambda x: ops.sum(ops.layer_norm(x, None, None) ** 3)),
    "variance": lambda x: (x - ops.mean(x, 1, True)) / ops.std(x, 1, True, True),
    "running": lambda x: ops.cumsum(ops.softmax(x), 1),
    "two": lambda x: ops.softmax(ops.softmax(x) * x),
}  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("dims", [(20, 64), (3, 1000), (40, 5)])
def test_what_is_made_of_rows(name: str, dims: Any) -> None:
    x = floats(*dims)
    check(NETWORKS[name], x, tolerance=2e-4)
    check(NETWORKS[name], x, specs=[phix.spec(["m", "n"])], tolerance=2e-4)


def test_rows_of_a_block_have_an_end() -> None:
    def f(x: Any) -> Any:
        a, b = ops.softmax(x), ops.softmax(x * 2.0)
        return ops.softmax(a * b + x)

    made = check(f, floats(4, 3000), tolerance=1e-4)
    for kernel in made.loops.steps:
        size = sum(int(n.data) * b.dtype.itemsize for b, n in kernel.locals.items())
        assert size <= rows.MOST_SHARED


def test_a_scan_of_what_the_same_loop_stores() -> None:
    def f(x: Any) -> Any:
        centred = x - ops.sum(x, 1, keepdim=True)
        return ops.cumsum(centred, 1) + centred

    made = check(f, floats(30, 200), tolerance=2e-3)
    assert "phix_scan" in made.sections["cuda"]
    check(lambda x: ops.cumsum(ops.cumsum(x, 1) * 0.1, 1, exclusive=True), floats(5, 90))


def test_the_rewrite_can_be_left_out() -> None:
    x = floats(9, 300)
    graph = phix.jit(lambda x: ops.softmax(x)).lower(x).graph
    with phix.core.rewrites.without({"shrink_temps"}):
        (kernel,) = program(graph).loops.steps
    assert not kernel.locals


def test_they_compile_for_the_gpu() -> None:
    modules = []
    for name, function in NETWORKS.items():
        for dims in ([4096, 4096], ["m", 1024], ["m", "n"]):
            dtype = "bfloat16" if "soft" in name else "float32"
            modules.append(program(phix.jit(function).lower(phix.spec(dims, dtype)).graph))
    compile_all([made.sections["cuda"] for made in modules])


# -- precision ---------------------------------------------------------------------------------
def test_float32_products_are_float32_unless_asked_otherwise() -> None:
    tf32, full, double = 77, 68, 70  # CUBLAS_COMPUTE_32F_FAST_TF32, _32F, _64F
    found = {}
    assert matmul_precision() == "highest"
    try:
        for precision in ("highest", "high"):
            phix.set_matmul_precision(precision)
            found[precision] = [cublas._scalars(d)[2] for d in
                                (dt.float32, dt.complex64, dt.bfloat16, dt.float64)]  # fmt: skip
    finally:
        phix.set_matmul_precision("highest")
    assert found == {"highest": [full, full, full, double], "high": [tf32, tf32, full, double]}


def test_rows_off_sixteen_bytes() -> None:
    """A row begins where its array does."""
    x = np.zeros(5 * 64 + 1, np.float32)[1:].reshape(5, 64)
    x[...] = floats(5, 64)
    assert x.ctypes.data % 16, "of NumPy's memory the first element lies at sixteen bytes"
    check(lambda x: ops.softmax(x), x)
    check(phix.grad(lambda x: ops.sum(ops.softmax(x) ** 2)), x, tolerance=1e-5)


# -- rows drawn at random --------------------------------------------------------------------------
STEPS = {
    "softmax": lambda x, y: ops.softmax(x),
    "log_softmax": lambda x, y: ops.log_softmax(x) * 0.1,
    "layer_norm": lambda x, y: ops.layer_norm(x, None, None),
    "largest": lambda x, y: x / (1.0 + ops.max(ops.abs(x), 1, keepdim=True)),
    "running": lambda x, y: ops.cumsum(x, 1) / x.shape[1],
    "backward": lambda x, y: ops.flip(x, [1]) * 0.5 + x,
    "other row": lambda x, y: x - ops.mean(y, 1, keepdim=True) * y,
    "first": lambda x, y: x + x[:, :1],
    "next row": lambda x, y: x + ops.roll(y, 1, 0),
    "half": lambda x, y: ops.cast(ops.cast(x, "bfloat16"), x.dtype) + y,
    "chosen": lambda x, y: ops.where(x > ops.mean(x, 1, keepdim=True), x, y),
    "gathered": lambda x, y: x + ops.softmax(ops.index_select(y, ops.argmax(x, 1) % y.shape[0], 0)),
    "product": lambda x, y: x * y,
}  # fmt: skip


@pytest.mark.parametrize("seed", range(16))
def test_rows_drawn_at_random(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = int(rng.integers(1, 6)), int(rng.choice([1, 7, 32, 36, 255, 512, 1000, 2050]))
    dtype = str(rng.choice(["float32", "float32", "float64"]))
    chosen = [str(rng.choice(list(STEPS))) for _ in range(int(rng.integers(2, 6)))]

    def f(x: Any, y: Any) -> Any:
        for name in chosen:
            x, y = STEPS[name](x, y), x
        return x, ops.sum(x * y)

    x, y = (rng.standard_normal((rows, columns)).astype(dtype) for _ in range(2))
    check(f, x, y, tolerance=3e-2 if "half" in chosen else 2e-4)
    if rng.random() < 0.5:
        check(
            phix.grad(lambda x, y: f(x, y)[1]), x, y, tolerance=5e-2 if "half" in chosen else 2e-3
        )
