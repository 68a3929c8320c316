"""The evaluator of the loop IR: what it computes, and what it finds out."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import phix
from harness.cases import Case, table_cases
from harness.checks import about, assert_close, dtypes_of
from loop_passes import graph_of
from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.evaluator import EvaluationError, evaluate
from phix.kernels.scalar import language as sc
from phix.kernels.schedule import pipeline
from tests import random_graphs

pytestmark = pytest.mark.unoptimised

CASES = {
    case.op.name: case
    for case in table_cases()
    if "elsewhere" not in case.test and "ref" in case.test
}


COMPOSITES = {name: case for name, case in CASES.items() if not case.op.is_primitive}


def lowered(function: Any, *args: Any) -> ir.LoopProgram:
    graph = graph_of(function, *args)
    return pipeline.lowered(graph, (True,) * len(graph.inputs))[0]


# -- an engine of its own ------------------------------------------------------------------------
def check_loops(case: Case, is_whole: bool) -> None:
    """They mean what the reference says, with no printer and no machine code on the way: in every
    dtype the op claims, or in those of its samples."""
    for call in case.sweep() if is_whole else case.calls():
        with about(call):
            found = evaluate(lowered(call.fn, *call.arrays), call.arrays)
            assert_close(found, call.reference(), case.tolerance(*dtypes_of(call, found)))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_loops_of_an_op_mean_what_its_reference_says(case: Case, seed: int) -> None:
    """The loops of a composite in other dtypes are those of the primitives in it."""
    check_loops(dataclasses.replace(case, seed=seed), case.op.is_primitive)


@pytest.mark.prove
@pytest.mark.parametrize("case", COMPOSITES.values(), ids=COMPOSITES.keys())
def test_loops_of_a_composite_mean_it_in_every_dtype(case: Case, seed: int) -> None:
    check_loops(dataclasses.replace(case, seed=seed), True)


@pytest.mark.parametrize("seed", range(40))
def test_loops_of_random_graphs_mean_what_numpy_says(seed: int) -> None:
    program = random_graphs.draw_program(2000 + seed)
    found = evaluate(lowered(program, *program.inputs), program.inputs)
    for result, node in zip(found, program.expected()):
        assert not random_graphs.difference(result, node)


def test_unknown_dims_are_found_from_the_inputs() -> None:
    program = lowered(lambda x, y: ops.concat([x, y], 0) * 2.0,
                      phix.spec(["n", 2], "float64"), phix.spec(["m", 2], "float64"))  # fmt: skip
    x, y = np.arange(6.0).reshape(3, 2), np.ones((1, 2))
    (found,) = evaluate(program, [x, y])
    np.testing.assert_array_equal(found, np.concatenate([x, y]) * 2)


def test_host_steps_loops_and_branches() -> None:
    def f(x: Any) -> Any:
        big = phix.while_loop(lambda c: ops.max(c) < 100.0, lambda c: c * c + 1.0, x)
        picked = phix.switch(ops.cast(x[0], "int64"), [lambda v: v, lambda v: -v], big)
        return picked, ops.abs(phix.fft.fft(x))

    x = np.array([1.0, 2.0, 3.0])
    found, spectrum = evaluate(lowered(f, x), [x])
    wanted = x
    while wanted.max() < 100:
        wanted = wanted * wanted + 1
    np.testing.assert_array_equal(found, -wanted)
    np.testing.assert_allclose(spectrum, abs(np.fft.fft(x)), rtol=1e-12)


# -- what no program may do ----------------------------------------------------------------------
X = ir.Buffer("x0", dt.float64, (4,), "input")
OUT = ir.Buffer("o0", dt.float64, (4,), "output")
TEMP, OTHER = (ir.Buffer(name, dt.float64, (4,), "temp") for name in ("t0", "t1"))
I0, S0 = sc.var("i0"), sc.var("s0")
FOUR = sc.const(4, dt.int64)
ARRAY = np.array([1.0, 2.0, 3.0, 4.0])


def copy(to: ir.Buffer, source: ir.Buffer, shift: int = 0, **options: Any) -> ir.Kernel:
    value = sc.Expr("load", (I0 + shift,), dt.float64, source)
    return ir.Kernel([ir.For(I0, FOUR, [ir.Store(to, (I0,), value)])], **options)


def program(*steps: ir.Step, **options: Any) -> ir.LoopProgram:
    return ir.LoopProgram([X], [], [OUT], [TEMP, OTHER], list(steps), {}, **options)


def test_a_program_by_hand() -> None:
    (found,) = evaluate(program(copy(TEMP, X), copy(OUT, TEMP)), [ARRAY])
    np.testing.assert_array_equal(found, ARRAY)


def _reads_itself() -> ir.LoopProgram:
    """Iterations that threads share, each of which needs the one before."""
    first = ir.Kernel([ir.Store(OUT, (ir.ZERO,), sc.const(1.0, dt.float64))])
    again = ir.Store(OUT, (I0 + 1,), sc.Expr("load", (I0,), dt.float64, OUT))
    loop = ir.For(I0, ir.PIECE_END, [again], "parallel", ir.PIECE_START)
    return program(first, ir.Kernel([loop], shared=ir.Shared(sc.const(3, dt.int64), FOUR, 1)))


BEHIND = ir.Buffer("r0", dt.float64, (), "slice", False, X, FOUR)
FAULTS: dict[str, tuple[ir.LoopProgram, str]] = {
    "never stored": (program(copy(OUT, TEMP)), "t0 is read where nothing was stored"),
    "no result": (program(copy(TEMP, X)), "o0 is read where nothing was stored"),
    "behind the end": (program(copy(OUT, X, 1)), r"x0\[4\] is outside of its 4 elements"),
    "before the start": (program(copy(OUT, X, -1)), r"x0\[-1\] is outside of its 4 elements"),
    "into an input": (program(copy(X, X), copy(OUT, X)), "stores into an input"),
    "of another dtype": (
        program(ir.Kernel([ir.Store(OUT, (ir.ZERO,), sc.const(1, dt.int64))])),
        "o0 gets int64",
    ),
    "threads that wait for each other": (_reads_itself(), "o0 is read where nothing was stored"),
    "a temp of the iteration before": (
        program(
            ir.ForStep(
                S0,
                FOUR,
                [
                    ir.Kernel(
                        [ir.If(sc.eq(S0, 0), copy(TEMP, X).body), *copy(OTHER, TEMP).body]
                    ),
                    copy(OUT, OTHER),
                ],
            )
        ),
        "t0 is read where nothing was stored",
    ),
    "a slice behind the end": (
        ir.LoopProgram(
            [X], [], [OUT], [], [copy(OUT, BEHIND)], {},
        ),
        r"x0\[4\] is outside of its 4 rows",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_what_no_program_may_do_is_found(name: str) -> None:
    wrong, message = FAULTS[name]
    with pytest.raises(EvaluationError, match=message):
        evaluate(wrong, [ARRAY])


def test_temps_that_share_a_slot_lose_their_values_to_each_other() -> None:
    late = program(copy(TEMP, X), copy(OTHER, X), copy(OUT, TEMP))
    assert evaluate(late, [ARRAY])[0].tolist() == ARRAY.tolist()
    with pytest.raises(EvaluationError, match="t0 is read where nothing was stored"):
        evaluate(late, [ARRAY], [[TEMP, OTHER]])
    early = program(copy(TEMP, X), copy(OTHER, TEMP), copy(OUT, OTHER))
    with pytest.raises(EvaluationError):  # one reads what the other writes
        evaluate(early, [ARRAY], [[TEMP, OTHER]])


def test_an_output_in_a_donated_input_has_its_memory() -> None:
    """The second kernel reads what the first has written over."""
    doubled = sc.Expr("load", (I0,), dt.float64, X) * 2.0
    first = ir.Kernel([ir.For(I0, FOUR, [ir.Store(X, (I0,), doubled)])])
    both = ir.LoopProgram([X], [], [X, OUT], [], [first, copy(OUT, X)], {}, reused=(0, None))
    for found in evaluate(both, [ARRAY]):
        assert found.tolist() == (2 * ARRAY).tolist()
    assert ARRAY[0] == 1.0


def test_wrong_inputs_are_refused() -> None:
    for array in (ARRAY.astype("float32"), ARRAY[:3]):
        with pytest.raises(EvaluationError, match=r"x0 is float\d\d\[\d\], not float64\[4\]"):
            evaluate(program(copy(OUT, X)), [array])


# -- the scalar language -------------------------------------------------------------------------
def value(e: sc.Expr) -> Any:
    """The value of an expression of constants, as memory of its dtype keeps it."""
    out = ir.Buffer("o0", e.dtype, (), "output")
    kernel = ir.Kernel([ir.Store(out, (ir.ZERO,), e)])
    return evaluate(ir.LoopProgram([], [], [out], [], [kernel], {}), [])[0][()]


def c(number: Any, dtype: str) -> sc.Expr:
    return sc.const(number, np.dtype(dtype))


E = 2.0**-30
HALF = sc.cast(sc.const(1.00146484375, dt.float32), dt.float16)


@pytest.mark.parametrize(
    ("expr", "wanted"),
    [
        (c(2**31 - 1, "int32") + 1, -(2**31)),
        (c(0, "uint8") - 1, 255),
        (c(-(2**63), "int64") * c(-1, "int64"), -(2**63)),
        (sc.binary("quotient", c(-7, "int32"), c(2, "int32")), -3),
        (sc.binary("rest", c(-7, "int32"), c(2, "int32")), -1),
        (sc.binary("quotient", c(7, "int32"), c(0, "int32")), 0),
        (sc.binary("shr", c(-8, "int32"), c(40, "int32")), -1),
        (sc.binary("shl", c(1, "uint32"), c(32, "uint32")), 0),
        (sc.cast(c(-1.9, "float64"), dt.int32), -1),
        (sc.cast(c(float("nan"), "float64"), dt.int32), 0),
        (sc.cast(c(1e30, "float64"), dt.int32), 2**31 - 1),
        (sc.cast(c(300.0, "float64"), dt.uint8), 44),
        (sc.cast(c(-1.0, "float32"), dt.uint32), 2**32 - 1),
        (sc.cast(c(16777217, "int64"), dt.float32), 16777216.0),
        (sc.bitcast(c(1.0, "float32"), dt.uint32), 0x3F800000),
        (c(1.0, "float64") / c(-0.0, "float64"), float("-inf")),
        (sc.fma(c(1 + E, "float64"), c(1 - E, "float64"), c(-1.0, "float64")), -E * E),
        (sc.rint(c(2.5, "float64")), 2.0),
        (sc.call("fmod", c(-7.5, "float64"), c(2.0, "float64")), -1.5),
        (sc.cast(HALF, dt.float32), 1.001953125),
        (sc.unary("not", c(True, "bool")), False),
        (sc.unary("not", c(5, "uint8")), 250),
    ],
)  # fmt: skip
def test_scalars(expr: sc.Expr, wanted: Any) -> None:
    assert value(expr) == wanted


def test_extremes_know_nan_and_the_sign_of_zero() -> None:
    zeros = c(0.0, "float64"), c(-0.0, "float64")
    for x, y in (zeros, zeros[::-1]):
        assert not np.signbit(value(sc.binary("maximum", x, y)))
        assert np.signbit(value(sc.binary("minimum", x, y)))
    for fn in ("maximum", "minimum"):
        assert np.isnan(value(sc.binary(fn, c(1.0, "float32"), c(float("nan"), "float32"))))


def test_memory_rounds_what_is_stored() -> None:
    for dtype in (dt.float16, dt.bfloat16):
        out = ir.Buffer("o0", dtype, (), "output")
        kernel = ir.Kernel([ir.Store(out, (ir.ZERO,), c(1 / 3, "float32"))])
        (found,) = evaluate(ir.LoopProgram([], [], [out], [], [kernel], {}), [])
        assert found == np.float32(1 / 3).astype(dtype)


def test_a_dim_bound_on_the_way() -> None:
    n = dm.symbol("n")
    (symbol,) = dm.symbols(n)
    count = ir.Buffer("t0", dt.int64, (), "temp")
    rows = ir.Buffer("o0", dt.float64, (n,), "output")
    fill = ir.Kernel([ir.For(I0, sc.var("n"), [ir.Store(rows, (I0,), c(2.0, "float64"))])])
    steps = [ir.Kernel([ir.Store(count, (ir.ZERO,), c(3, "int64"))]), ir.BindStep("n", count), fill]
    (found,) = evaluate(ir.LoopProgram([], [], [rows], [count], steps, {"n": symbol}), [])
    assert found.tolist() == [2.0, 2.0, 2.0]
