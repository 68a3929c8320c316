"""The loop IR of small graphs: how values are fused and loops joined. The texts are snapshots."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pytest

from engine_graphs import GraphWriter, make_op
from phix.core.engines import engine
from phix.core.errors import KernelNotFoundError, ShapeError
from phix.kernels.loops.text import program_text
from phix.kernels.schedule.pipeline import lowered

ADD = make_op("add(Tensor x, Tensor y) -> out", "pointwise")
MULTIPLY = make_op("multiply(Tensor x, Tensor y) -> out", "pointwise")
DIVIDE = make_op("divide(Tensor x, Tensor y) -> out", "pointwise")
SUBTRACT = make_op("subtract(Tensor x, Tensor y) -> out", "pointwise")
SQRT = make_op("sqrt(Tensor x) -> out", "pointwise")
SUM = make_op("sum(Tensor x, IntArray axis, DataType dtype, bool keepdim) -> out")
MATMUL = make_op("matmul(Tensor x, Tensor y, bool transpose_x, bool transpose_y) -> out")
RESHAPE = make_op("reshape(Tensor x, IntArray shape) -> out")


class Row(GraphWriter):
    """A writer for graphs over float32."""

    def apply(self, op: Any, *inputs: Any, dims: Any = None) -> Any:
        dims = inputs[0].meta.dims if dims is None else dims
        return self.add(op, inputs, (), (dims, "float32"))

    def row_sum(self, x: Any) -> Any:
        return self.add(SUM, (x,), ((1,), None, True), ((x.meta.dims[0], 1), "float32"))


def text_of(graph: Any, *contiguous: bool) -> str:
    return program_text(lowered(graph, contiguous or tuple(True for _ in graph.inputs))[0])


def expect(graph: Any, text: str) -> None:
    assert text_of(graph) == textwrap.dedent(text).strip()


def test_pointwise_ops_are_one_flat_loop() -> None:
    w = Row()
    x, y = w.input(["n", "m"]), w.input(["n", "m"])
    out = w.apply(MULTIPLY, w.apply(ADD, x, y), y)
    expect(
        w.graph(out),
        """
        program(x0: float32[n, m], x1: float32[n, m]) -> (o0: float32[n, m]) {
          kernel 0:
            for i0 in range((n * m)):  # parallel
              v0 = x1[i0]
              o0[i0] = ((x0[i0] + v0) * v0)
        }
        """,
    )


def test_a_row_statistic_is_computed_once_a_row() -> None:
    w = Row()
    x = w.input([5, 7])
    out = w.apply(DIVIDE, x, w.row_sum(x))
    expect(
        w.graph(out),
        """
        program(x0: float32[5, 7]) -> (o0: float32[5, 7]) {
          kernel 0:
            for i0 in range(5):  # parallel
              a0: float32 = 0.0
              for i1 in range(7):  # reduction
                a0 = (a0 + x0[((i0 * 7) + i1)])  # any order
              for i1 in range(7):  # parallel
                v0 = ((i0 * 7) + i1)
                o0[v0] = (x0[v0] / a0)
        }
        """,
    )


def test_a_value_read_by_two_outputs_is_computed_once_and_not_stored() -> None:
    w = Row()
    x = w.input([8])
    shared = w.apply(SQRT, w.apply(ADD, x, x))
    first, second = w.apply(ADD, shared, x), w.apply(MULTIPLY, shared, x)
    expect(
        w.graph(first, second),
        """
        program(x0: float32[8]) -> (o0: float32[8], o1: float32[8]) {
          kernel 0:
            for i0 in range(8):  # parallel
              v0 = x0[i0]
              o0[i0] = (sqrt((v0 + v0)) + v0)
              v1 = x0[i0]
              o1[i0] = (sqrt((v1 + v1)) * v1)
        }
        """,
    )


def test_a_reduction_joins_the_loop_that_stores_what_it_reads() -> None:
    w = Row()
    x = w.input([5, 7])
    shifted = w.apply(SQRT, w.apply(SUBTRACT, x, w.row_sum(x)))
    out = w.apply(DIVIDE, shifted, w.row_sum(shifted))
    text = text_of(w.graph(out))
    assert text.count("kernel") == 1
    lines = [line.strip() for line in text.splitlines()]
    at = lines.index("t0[v0] = sqrt((x0[v0] - a0))")
    assert lines[at + 1].startswith("a1 = (a1 + t0[")


def test_sums_of_everything_share_a_pass_over_memory() -> None:
    w = Row()
    x = w.input([5, 7])
    whole = ((0, 1), None, False), ((), "float32")
    first, second = w.add(SUM, (x,), *whole), w.add(SUM, (w.apply(SQRT, x),), *whole)
    expect(
        w.graph(first, second),
        """
        program(x0: float32[5, 7]) -> (o0: float32[], o1: float32[]) {
          kernel 0:
            a0: float32 = 0.0
            a1: float32 = 0.0
            for i0 in range(35):  # reduction
              a0 = (a0 + x0[i0])  # any order
              a1 = (a1 + sqrt(x0[i0]))  # any order
            o0[0] = a0
            o1[0] = a1
        }
        """,
    )


def test_what_reads_a_sum_of_everything_has_a_loop_after_it() -> None:
    w = Row()
    x = w.input([5, 7])
    total = w.add(SUM, (x,), ((0, 1), None, False), ((), "float32"))
    text = text_of(w.graph(total, w.apply(SUBTRACT, x, total)))
    assert text.count("for i0 in range(35)") == 2


def test_a_sum_over_rows_walks_memory_in_order() -> None:
    w = Row()
    x = w.input(["n", "m"])
    out = w.add(SUM, (x,), ((0,), None, False), ((x.meta.dims[1],), "float32"))
    expect(
        w.graph(out),
        """
        program(x0: float32[n, m]) -> (o0: float32[m]) {
          kernel 0:
            for i0 in range(m):  # parallel
              o0[i0] = 0.0
          kernel 1:
            for i0 in range(n):  # reduction
              for i1 in range(m):  # parallel
                o0[i1] = (o0[i1] + x0[((i0 * m) + i1)])
        }
        """,
    )


def test_a_matmul_is_written_straight_into_a_reshaped_output() -> None:
    w = Row()
    x, y = w.input([20, 30]), w.input([30, 40])
    product = w.add(MATMUL, (x, y), (False, False), ((20, 40), "float32"))
    out = w.add(RESHAPE, (product,), ((800,),), ((800,), "float32"))
    expect(
        w.graph(out),
        """
        program(x0: float32[20, 30], x1: float32[30, 40]) -> (o0: float32[800]) {
          kernel 0:
            gemm_float32(0, 0, 0, 20, 40, 30, 30, 40, 40, &x0[0], &x1[0], &o0[0])
        }
        """,
    )


def test_an_expensive_operand_is_stored_before_it_is_broadcast() -> None:
    w = Row()
    x, y = w.input(["n", "m"]), w.input(["m"])
    root = w.apply(SQRT, w.apply(SQRT, y))
    text = text_of(w.graph(w.apply(ADD, x, root)))
    assert "t0[i0] = sqrt(sqrt(x1[i0]))" in text and "(x0[v0] + t0[i1])" in text


def test_equal_kernels_are_compiled_once() -> None:
    w = Row()
    x = w.input([20, 20])
    y = x
    for _ in range(3):
        y = w.apply(SQRT, w.apply(ADD, y, y))
        y = w.add(MATMUL, (y, y), (False, False), ((20, 20), "float32"))
    program: Any = engine("cpu").compile(w.graph(y), (True,))
    assert program.sections["loop ir"].count("kernel") == 6
    assert program.sections["llvm"].count("define internal void @kernel") <= 3


def test_a_long_chain_is_cut_into_kernels() -> None:
    w = Row()
    x = w.input([4])
    y = x
    for _ in range(1500):
        y = w.apply(ADD, y, x)
    (found,) = engine("cpu").compile(w.graph(y), (True,)).launcher(((4,),))(np.ones(4, "f"))
    np.testing.assert_array_equal(found, np.full(4, 1501, "f"))


def test_errors() -> None:
    w = Row()
    x = w.input(["n"])
    mystery = make_op("no_such_op(Tensor x) -> out")
    with pytest.raises(KernelNotFoundError, match="no kernel for 'no_such_op'"):
        engine("cpu").compile(w.graph(w.apply(mystery, x)), (True,)).launcher(((4,),))
    w = Row()
    x, y = w.input(["n", 3]), w.input(["n"])
    program = engine("cpu").compile(w.graph(w.apply(ADD, x, x), y), (True, True))
    with pytest.raises(ShapeError, match="'x1' has shape"):
        program.launcher(((4, 3), (5,)))
