"""Library calls of the loop IR: what does each, as steps of a program."""

from __future__ import annotations

from collections.abc import Callable

from phix.core import dtypes as dt
from phix.core.errors import KernelNotFoundError
from phix.kernels.gpu.attention import Attention
from phix.kernels.gpu.attention16 import MatrixAttention
from phix.kernels.gpu.attention16_grad import MatrixKeyGradient, MatrixQueryGradient
from phix.kernels.gpu.attention_grad import KeyGradient, QueryGradient
from phix.kernels.gpu.convolution import Convolution
from phix.kernels.gpu.factors import Cholesky, Lu, Triangle
from phix.kernels.gpu.products import Product
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import For, LibraryCall, LoopProgram
from phix.kernels.scalar.language import Expr
from phix.kernels.schedule.pipeline import Setting

Made = Callable[[ir.Statement, list[For], LibraryCall], ir.Kernel]


def by_width(plain: Made, on_matrix_units: type[MatrixAttention]) -> Made:
    """A kernel of attention: on matrix units for 16-bit floats and heads that it has tiles for."""

    def made(statement: ir.Statement, loops: list[For], call: LibraryCall) -> ir.Kernel:
        is_narrow = dt.as_dtype(call.name.split("_", 1)[1]).itemsize == 2
        widest = max(int(a.data) for a in call.arguments[2:4] if isinstance(a, Expr))
        fits = is_narrow and widest <= max(on_matrix_units.TILES)
        return (on_matrix_units if fits else plain)(statement, loops, call)

    return made


# What does a call, by the name of its routine: a library, or a kernel with a text of its own.
ROUTINES: dict[str, Made] = {
    "gemm": Product,
    "attention": by_width(Attention, MatrixAttention),
    "querygrad": by_width(QueryGradient, MatrixQueryGradient),
    "keygrad": by_width(KeyGradient, MatrixKeyGradient),
    "convolution": Convolution,
    "potrf": Cholesky,
    "getrf": Lu,
    "trsm": Triangle,
}


def split(kernel: ir.Kernel) -> list[ir.Step]:
    """A kernel with library calls inside as routines, kernels, and loops of the host around.

    Raises:
        KernelNotFoundError: nothing does a call.
    """
    return [part for s in kernel.body for part in _parts(s)]


def _parts(statement: ir.Statement) -> list[ir.Step]:
    if not any(isinstance(s, LibraryCall) for s in ir.walk([statement])):
        return [ir.Kernel([statement])]
    loops: list[For] = []
    inside = statement
    while isinstance(inside, For) and len(inside.body) == 1:
        loops.append(inside)
        inside = inside.body[0]
    if isinstance(inside, LibraryCall):
        return [_routine(statement, loops, inside)]
    assert isinstance(statement, For), "a library call stands in loops alone"
    steps: list[ir.Step] = []
    for s in statement.body:
        steps += _parts(s)
    return [ir.ForStep(statement.index, statement.extent, steps)]


def _routine(statement: ir.Statement, loops: list[For], call: LibraryCall) -> ir.Kernel:
    name = call.name.partition("_")[0]
    if name not in ROUTINES:
        raise KernelNotFoundError(
            f"the GPU engine has no kernel for the library call {name!r}; there are "
            f"{', '.join(ROUTINES)}. Move its operands with .to('cpu')"
        )
    return ROUTINES[name](statement, loops, call)


# -- the pass ---------------------------------------------------------------------------------
def split_library_calls(program: LoopProgram, _: Setting) -> None:
    """Put products, and loops of the host, in the place of kernels that call a library."""
    _split_in(program.steps)


def _split_in(steps: list[ir.Step]) -> None:
    result: list[ir.Step] = []
    for step in steps:
        if isinstance(step, ir.Kernel) and _calls_library(step):
            result += split(step)
            continue
        for block in ir.blocks(step):
            _split_in(block)
        result.append(step)
    steps[:] = result


def _calls_library(kernel: ir.Kernel) -> bool:
    return any(isinstance(s, ir.LibraryCall) for s in ir.walk(kernel.body))
