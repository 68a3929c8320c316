"""Loop programs as Numba source: what they compute, how they read, and what is refused."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phix
from harness.cases import Case, table_cases
from loop_passes import odd_values
from numba_code import in_place_of_llvm, plain, run, ulps
from phix import ops
from phix.core import dtypes as dt
from phix.core.errors import ArgumentError, KernelNotFoundError
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.evaluator import evaluate
from phix.kernels.numba.printed.kernels import KernelPrinter, Names
from phix.kernels.numba.printed.module import Module
from phix.kernels.numba.printed.prelude import Prelude
from phix.kernels.numba.printed.program import function_of
from phix.kernels.scalar import bodies
from phix.kernels.scalar import language as sc
from proofs import thinned
from tests import random_graphs

pytestmark = pytest.mark.unoptimised

OPS = [case for case in table_cases() if "elsewhere" not in case.test and "ref" in case.test]
# Python has a log gamma function of its own.
EXACT = set(bodies.names())
# What pivots are among NaNs is a library's affair.
FACTORS = {"cholesky", "lu", "lu_solve", "triangular_solve"}


def family(case: Case) -> str:
    return str(case.op.where).split(":")[0]


def assert_same(call: Any, arrays: list[np.ndarray], is_plain: bool) -> None:
    """Bit for bit what LLVM makes of the same loops, but for sums: their order is free where the
    loops say so, and LLVM may round once where it adds a product to one."""
    found = run(call.fn, *arrays, is_plain=is_plain)
    wanted = [np.asarray(x.numpy()) for x in phix.jit(call.fn)(*arrays)]
    for a, b in zip(found, wanted, strict=True):
        if ulps(a, b):
            assert call.case.op.name not in EXACT, call
            assert dt.is_float(dt.real_dtype(a.dtype)), call
            eps = ml_dtypes.finfo(dt.real_dtype(b.dtype)).eps
            wide = np.complex128 if dt.is_complex(a.dtype) else np.float64
            parts = [np.stack([v.real, v.imag]) for v in (a.astype(wide), b.astype(wide))]
            scale = np.abs(parts[1][np.isfinite(parts[1])]).max(initial=0)
            np.testing.assert_allclose(*parts, 0, 50 * eps * scale, True, str(call))


# -- ops -----------------------------------------------------------------------------------------
@pytest.mark.one_in(4)
@pytest.mark.parametrize("case", thinned(OPS, family, each=3, ids=lambda c: c.op.name))
def test_an_op_is_what_llvm_makes_of_it(case: Case, seed: int) -> None:
    """Run by Python, so that no compiler has a part in it."""
    for call in list(dataclasses.replace(case, seed=seed).sweep())[:2]:
        assert_same(call, list(call.arrays), True)


@pytest.mark.prove
@pytest.mark.parametrize("case", OPS, ids=lambda c: c.op.name)
def test_an_op_in_all_dtypes(case: Case, seed: int, rng: np.random.Generator) -> None:
    """With NaN, infinities and zeros of both signs too, where ints and pivots do not follow."""
    for call in dataclasses.replace(case, seed=seed).sweep():
        assert_same(call, list(call.arrays), True)
        if case.op.name not in FACTORS:
            assert_same(call, [odd_values(x, rng) for x in call.arrays], True)


@pytest.mark.parametrize("case", thinned(OPS, lambda c: family(c) == "", ids=lambda c: c.op.name))
def test_an_op_compiled(case: Case, seed: int) -> None:
    calls = list(dataclasses.replace(case, seed=seed).sweep())
    for call in {str(c): c for c in (calls[0], calls[len(calls) // 2])}.values():
        assert_same(call, list(call.arrays), False)


# -- the scalar language -------------------------------------------------------------------------
INTS = [*dt.SIGNED, *dt.UNSIGNED]
BINARY = {
    "i": ["add", "sub", "mul", "quotient", "rest", "and", "or", "xor", "shl", "shr", "eq", "ne",
          "lt", "le", "gt", "ge", "maximum", "minimum"],
    "f": ["add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge", "maximum", "minimum",
          "copysign"],
    "b": ["and", "or", "xor", "eq", "ne", "maximum", "minimum"],
}  # fmt: skip
UNARY = {
    "i": ["neg", "not", "fabs"],
    "f": ["neg", "fabs", "sqrt", "floor", "ceil", "trunc", "rint"],
    "b": ["not"],
}
COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}
FLOATS = [0.0, -0.0, 1.0, -1.5, 2.5, 0.5, -0.5, np.nan, np.inf, -np.inf, 1e30, -1e30, 3e9, -3e9,
          2.0**31, -(2.0**31), 2.0**63, -(2.0**63), 2.0**64, 300.7, -300.7, 1e-40]  # fmt: skip
SCALARS = [dt.bool_, *INTS, dt.float32, dt.float64]


def edges(dtype: np.dtype) -> np.ndarray:
    """The numbers of a dtype at which something happens."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind == "f":
        return np.array(FLOATS, dtype)
    low, high, bits = np.iinfo(dtype).min, np.iinfo(dtype).max, 8 * dtype.itemsize
    numbers = {0, 1, 2, 3, 7, bits - 1, bits, bits + 1, low, low + 1, high, high - 1, -1, -2, -7}
    return np.array(sorted(n for n in numbers if low <= n <= high), dtype)


def every_operation(dtype: np.dtype) -> tuple[ir.LoopProgram, list[np.ndarray]]:
    """A program of all operations on pairs of scalars, and what to run it on."""
    one = edges(dtype)
    x, y = (np.ascontiguousarray(v.reshape(-1)) for v in np.meshgrid(one, one))
    kind = "i" if dtype.kind in "iu" else dtype.kind
    i, dims = sc.var("i0"), (x.size,)
    buffers = [ir.Buffer(name, dtype, dims, "input") for name in ("x0", "x1")]
    a, b = (sc.Expr("load", (i,), dtype, buffer) for buffer in buffers)
    found = [sc.binary(fn, a, b) for fn in BINARY[kind]]
    found += [sc.unary(fn, a) for fn in UNARY[kind]]
    found += [sc.cast(a, to) for to in SCALARS if to != dtype]
    found.append(sc.select(sc.eq(a, b), a, b))
    if kind == "f":
        found.append(sc.fma(a, a, b))  # no tie that a small term decides
        found.append(sc.bitcast(a, np.dtype(f"uint{8 * dtype.itemsize}")))
    outs = [ir.Buffer(f"o{k}", e.dtype, dims, "output") for k, e in enumerate(found)]
    body: list[ir.Statement] = [ir.Store(o, (i,), e) for o, e in zip(outs, found)]
    kernel = ir.Kernel([ir.For(i, sc.const(x.size, dt.int64), body)])
    return ir.LoopProgram(buffers, [], outs, [], [kernel], {}), [x, y]


FEW = (dt.int8, dt.uint64, dt.float32)  # of which compiled code is tried in every run
WAYS = [pytest.param(True, dtype, id=f"python-{dtype}") for dtype in SCALARS] + [
    pytest.param(
        False, dtype, id=f"compiled-{dtype}", marks=() if dtype in FEW else pytest.mark.prove
    )
    for dtype in SCALARS
]


@pytest.mark.parametrize(("is_plain", "dtype"), WAYS)
def test_operations_mean_what_the_evaluator_says(is_plain: bool, dtype: np.dtype) -> None:
    """Ints that wrap, division by zero, shifts by too much, casts of what does not fit, NaN, both
    zeros: the evaluator shares nothing with printers."""
    program, arrays = every_operation(dtype)
    wanted = evaluate(program, arrays)
    with plain(is_plain):
        found = function_of(Module(program, "all", ["x", "y"], {}))(*arrays)
    (kernel,) = program.steps
    assert isinstance(kernel, ir.Kernel) and isinstance(kernel.body[0], ir.For)
    for a, b, statement in zip(found, wanted, kernel.body[0].body, strict=True):
        wrong = [k for k in range(a.size) if ulps(a[k : k + 1], b[k : k + 1])]
        told = [(arrays[0][k], arrays[1][k], a[k], b[k]) for k in wrong[:3]]
        assert not wrong, f"{statement.value!r}: {told}"


@pytest.mark.parametrize("dtype", [dt.float16, dt.bfloat16], ids=str)
def test_every_narrow_float_is_read_and_rounded(dtype: np.dtype) -> None:
    """Against ml_dtypes and NumPy: all 65536 of them, and what lies half-way between two."""
    prelude = Prelude()
    read, write = prelude.name(f"from_{dtype}"), prelude.name(f"to_{dtype}")
    space: dict[str, Any] = {"np": np}
    with np.errstate(all="ignore"):
        text = "\n".join(t for t in prelude.texts.values()).replace(
            '@njit(error_model="numpy")', ""
        )
        exec(text, space)
        bits = np.arange(1 << 16, dtype=np.uint16)
        wide = bits.view(dtype).astype(np.float32)
        assert ulps(np.array([space[read](b) for b in bits]), wide) == 0
        above = np.nextafter(wide, np.float32(np.inf))[::7]
        halves = (wide[:-1] / 2 + wide[1:] / 2)[::3]
        for x in (wide[::7], above, halves):
            found = np.array([space[write](v) for v in x], np.uint16).view(dtype)
            assert ulps(found, x.astype(dtype)) == 0


# -- whole programs ------------------------------------------------------------------------------
def normal(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng([*shape]).normal(size=shape).astype(dtype)


def mlp_gradient(w: Any, v: Any, x: Any) -> Any:
    def loss(w: Any, v: Any) -> Any:
        return ops.mean(ops.square(ops.tanh(x @ w) @ v))

    return phix.grad(loss, argnums=(0, 1))(w, v)


def running(x: Any) -> Any:
    return phix.scan(lambda c, row: (c * 0.5 + row, ops.sin(c)), x[0], x)


def grown(x: Any) -> Any:
    return phix.while_loop(lambda c: ops.max(c) < 100.0, lambda c: c * c + 1.0, x)


def swapped(x: Any) -> Any:
    """The carries change places, an odd number of times."""
    return phix.fori_loop(0, 3, lambda k, c: (c[1], c[0] + c[1]), (x, x * 2.0))


def swapped_rows(x: Any) -> Any:
    """As above, of rows of an outer loop's results, in other dims than they are carried in."""

    def step(before: Any, row: Any) -> Any:
        def body(k: Any, c: Any) -> Any:
            turned = ops.transpose(ops.reshape(c[1], [2, 4]), [1, 0])
            return ops.reshape(turned, [8]) * 0.5 + before, c[0][::-1] + row

        a, b = phix.fori_loop(0, 3, body, (row, before))
        return a * 0.1 + before, b

    return phix.scan(step, x[0], x)


def chosen(x: Any) -> Any:
    return phix.switch(ops.cast(x[0], "int64"), [ops.exp, ops.sin, lambda v: v * 3.0], x)


def convolved(x: Any, w: Any) -> Any:
    return ops.relu(ops.conv2d(x, w, paddings=[1, 1]))


def complex_product(x: Any, w: Any) -> Any:
    return ops.abs(x @ w) + ops.real(ops.exp(x))


def drawn(key: Any) -> Any:
    return phix.random.normal(key, [3, 4]), phix.random.randint(key, [5], 0, 7)


PROGRAMS: dict[str, tuple[Any, list[Any]]] = {
    "gradient": (mlp_gradient, [normal(4, 8), normal(8, 3), normal(5, 4)]),
    "scan": (running, [normal(6, 3)]),
    "while": (grown, [np.array([1.0, 2.0, 0.5], "float32")]),
    "swaps": (swapped, [normal(7, dtype="float64")]),
    "swapped rows": (swapped_rows, [normal(5, 8, dtype="float64")]),
    "switch": (chosen, [np.array([1.0, 2.0, 3.0])]),
    "sort": (lambda x: (ops.sort(x, -1), ops.argsort(x, -1)), [normal(3, 40)]),
    "sorts side by side": (lambda x, y: (ops.sort(x, -1), ops.argsort(y, 0)),
                           [normal(5, 9), normal(7, 4, dtype="float64")]),
    "cumsum": (lambda x: ops.cumsum(x, 0), [normal(9, 3, dtype="float64")]),
    "conv": (convolved, [normal(2, 3, 6, 6), normal(4, 3, 3, 3)]),
    "complex": (complex_product, [normal(3, 4).astype("complex64"), normal(4, 4) + 1j]),
    "fft": (lambda x: ops.abs(phix.fft.fft(x)) * 2.0, [normal(8, dtype="complex128")]),
    "half": (lambda x, w: ops.softmax(x @ w, -1), [normal(4, 5).astype("float16")] * 1
             + [normal(5, 3).astype("float16")]),
    "solve": (lambda a, b: phix.linalg.solve(a, b), [normal(12, 12) + 9 * np.eye(12, dtype="f4"),
                                                     normal(12, 2)]),
    "none": (lambda x: ops.sum(x, 0), [np.zeros((0, 3), "float32")]),
    "constant": (lambda x: x + np.arange(100.0), [np.ones(100)]),
}  # fmt: skip
COMPILED = ("gradient", "swaps", "switch")


def check(name: str, is_plain: bool) -> None:
    function, arrays = PROGRAMS[name]
    arrays = [np.asarray(a, a.dtype if a.dtype != np.complex128 or name == "fft" else "complex64")
              for a in arrays]  # fmt: skip
    wanted = phix.tree.leaves(function(*map(phix.to_tensor, arrays)))
    found = run(lambda *xs: phix.tree.leaves(function(*xs)), *arrays, is_plain=is_plain)
    for a, b in zip(found, wanted, strict=True):
        rtol = {2: 4e-3, 4: 1e-5}.get(dt.real_dtype(a.dtype).itemsize, 1e-11)
        np.testing.assert_allclose(a, b.numpy(), rtol=rtol, atol=rtol)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_what_eager_calls_give(name: str) -> None:
    check(name, True)


@pytest.mark.parametrize("name", thinned(PROGRAMS, lambda n: n if n in COMPILED else "", ids=str))
def test_a_program_compiled(name: str) -> None:
    check(name, False)


@pytest.mark.parametrize("seed", range(12))
def test_a_random_graph_is_what_llvm_makes_of_it(seed: int) -> None:
    program = random_graphs.draw_program(3000 + seed)
    wanted = phix.tree.leaves(phix.jit(program)(*program.inputs))
    for a, b in zip(run(program, *program.inputs), wanted, strict=True):
        assert ulps(a, b.numpy()) == 0


def test_it_runs_in_place_of_llvm() -> None:
    """Eager calls, jitted functions, unknown dims, strided arrays and donated ones."""
    x = normal(6, 4)
    with in_place_of_llvm():
        assert "numba" in phix.jit(ops.tanh).lower(phix.spec([3])).sections
        eager = (phix.to_tensor(x) * 2.0).numpy()
        jitted = phix.jit(lambda v: ops.cumsum(v, 1) + v)(x.T[::2]).numpy()
        whole = phix.jit(lambda v: v - 1.0, donate_argnums=(0,))(phix.to_tensor(x)).numpy()
        total = phix.jit(lambda v: phix.scan(lambda c, a: (c + a, c), v[0], v)[1])(x[:, 0]).numpy()
    np.testing.assert_array_equal(eager, x * 2)
    np.testing.assert_allclose(jitted, np.cumsum(x.T[::2], 1) + x.T[::2], rtol=1e-6)
    np.testing.assert_array_equal(whole, x - 1)
    np.testing.assert_allclose(total, x[0, 0] + np.cumsum(x[:, 0]) - x[:, 0], rtol=1e-6)


def test_the_library_numba_is_printed_source(caplog: pytest.LogCaptureFixture) -> None:
    """Pinned for a function or a block; what was compiled before stays what it was. What it prints
    is no other library's, and no log says so."""
    x = np.array([0.5, -1.0])
    f = phix.jit(lambda v: v * 2.0 + 1.0)
    np.testing.assert_array_equal(f(x).numpy(), x * 2 + 1)
    with plain(), phix.library("numba"):
        np.testing.assert_array_equal(f(x).numpy(), x * 2 + 1)
        assert "llvm" not in f.lower(x).sections
    assert "llvm" in f.lower(x).sections
    pinned = phix.jit(lambda v: v * 3.0, library="numba")
    assert list(pinned.lower(x).sections)[-2:] == ["loop ir", "numba"]
    with plain():
        np.testing.assert_array_equal(pinned(x).numpy(), x * 3)
    assert not caplog.records


# -- the text ------------------------------------------------------------------------------------
def softened(x: Any, range: Any) -> Any:
    return ops.softmax(ops.exp(x) @ range, -1)


def test_sections_have_a_function_for_each_kernel() -> None:
    lowered = phix.jit(softened).lower(phix.spec(["n", 3]), phix.spec([3, 4]))
    text = lowered.sections["numba"]
    kernels = lowered.as_text("loop ir").count("kernel ")
    assert text.count("_kernel(") == 2 * kernels  # each defined once, and called once
    assert "np.dot(" in text and "exp_float32(" in text and "def exp_float32(x):" in text
    assert "def program(x, range_):" in text, "names that Python has for others get another one"
    assert "# " in text and "matmul(" in text and ", w) " not in text
    assert not [line for line in text.splitlines() if len(line) > 130]


def test_nothing_is_imported_before_the_text_is_asked_for() -> None:
    code = (
        "import sys, phix\n"
        "lowered = phix.jit(phix.ops.tanh).lower(phix.spec([3]))\n"
        "str(lowered), lowered.sections['llvm'], phix.numba.source\n"
        "assert not {'numba', 'phix.kernels.numba.printed.program'} & set(sys.modules)\n"
        "assert 'tanh' in lowered.sections['numba']\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_masks_are_left_to_other_instructions() -> None:
    """In a new process, as Numba learns of the CPU once: of two programs with bits under masks."""
    code = (
        "import numpy as np, phix\n"
        "from random_bits import Program\n"
        "for program in map(Program, (34, 351)):\n"
        "    row = [x[0] for x in program.inputs]\n"
        "    with np.errstate(all='ignore'):\n"
        "        wanted = program.run(np, *row)\n"
        "    with phix.library('numba'):\n"
        "        found = phix.jit(program)(*row)\n"
        "    assert all(map(np.array_equal, found, wanted))\n"
    )
    root = Path(__file__).parents[1]
    paths = os.pathsep.join([str(root), str(root / "tests")])
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": paths}
    )


def test_host_steps_are_calls() -> None:
    lowered = phix.jit(phix.fft.fft).lower(phix.spec([4], "complex64"))
    assert "fft_c2c_step(" in lowered.sections["numba"]


def test_code_from_outside_is_not_printed() -> None:
    """It runs as LLVM has it, and the text says so."""

    with phix.scoped_registries():

        @phix.numba.scalar("printed_nowhere")
        def printed_nowhere(x: float) -> float:
            return x * 3.0

        x = np.array([1.0, 2.0])
        with pytest.raises(
            KernelNotFoundError, match=r"printed_nowhere.* is no part of printed Numba"
        ):
            phix.numba.source(printed_nowhere, phix.spec([2], "float64"))
        with in_place_of_llvm(is_plain=False):
            lowered = phix.jit(lambda v: printed_nowhere(v) + 1.0).lower(x)
            assert lowered.sections["numba"].startswith("# ")
            np.testing.assert_array_equal(lowered.compile()(x).numpy(), [4.0, 7.0])


@pytest.mark.parametrize("disabled", ["0", "1"])
def test_source_is_a_module_without_phix(tmp_path: pathlib.Path, disabled: str) -> None:
    """Compiled by Numba, and under NUMBA_DISABLE_JIT=1 by Python; any size of an unknown dim."""
    text = phix.numba.source(softened, phix.spec(["n", 3], "float64"), phix.spec([3, 4], "float64"))
    (tmp_path / "printed.py").write_text(text)
    code = (
        "import sys, numpy as np, printed\n"
        "w = np.arange(12.0).reshape(3, 4) / 9\n"
        "for n in (2, 5):\n"
        "    x = np.linspace(-1, 1, 3 * n).reshape(n, 3)\n"
        "    e = np.exp(np.exp(x) @ w)\n"
        "    found = printed.softened(np.asfortranarray(x), w)\n"
        "    np.testing.assert_allclose(found, e / e.sum(1, keepdims=True), rtol=1e-13)\n"
        "assert 'phix' not in sys.modules\n"
        "assert hasattr(printed.exp_float64, 'py_func') == (sys.argv[1] == '0')\n"
    )
    environment = {**os.environ, "NUMBA_DISABLE_JIT": disabled, "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code, disabled], check=True, env=environment)


def test_an_entry_looks_at_its_arguments() -> None:
    space: dict[str, Any] = {}
    exec(phix.numba.source(lambda x, y: x + y, phix.spec(["n", 3]), phix.spec(["n", 3])), space)
    x = np.ones((2, 3), "float32")
    with pytest.raises(ValueError, match=r"y is float32\[1, 3\], not float32\[2, 3\]"):
        space["function"](x, x[:1])
    with pytest.raises(ValueError, match=r"x is float64\[2, 3\], not float32\[2, 3\]"):
        space["function"](x.astype("float64"), x)


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda x: phix.pure_callback(np.sin, phix.spec([70]), x), KernelNotFoundError, "callback"),
        (lambda x: ops.real(phix.fft.fft(x)), KernelNotFoundError, "fft_r2c is run by Python"),
        (lambda x: x + np.arange(70, dtype="f4"), ArgumentError, "a constant of 280 bytes"),
    ],
)
def test_what_source_refuses(function: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        phix.numba.source(function, phix.spec([70]))


def test_names_never_meet() -> None:
    """Dims and arguments with names of each other, of Python's and of loops."""
    names = Names()
    found = [names.new(n) for n in ("x", "x", "range", "i0", "lambda", "a-b", "2x", "np")]
    assert found == ["x", "x_1", "range_", "i0_", "lambda_", "a_b", "_2x", "np_"]
    x = ir.Buffer("x0", dt.float32, (4,), "input")
    loop = ir.For(
        sc.var("i0"), sc.var("n"), [ir.Store(x, (sc.var("i0"),), sc.const(2, dt.float32))]
    )
    printer = KernelPrinter(ir.Kernel([loop]), names, Prelude())
    assert printer.lines == ["    for i0 in range(n):", "        x0[i0] = np.float32(2.0)"]
    assert list(printer.parameters.values()) == ["x0", "n"]
