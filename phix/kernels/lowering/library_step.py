"""Equations that a registered kernel of a library runs, as steps of a program.

Which kernel that is was decided before (``passes/assign_kernels.py``); it stands in the equation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from phix.core import dims as dm
from phix.core import graph as gr
from phix.core import kernel_calls, kernel_selection, stack
from phix.core.graph import Equation, Graph
from phix.core.kernel_arguments import ANY
from phix.core.kernel_context import KernelContext
from phix.core.kernel_registry import Kernel, KernelKey
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import Builder, Value
from phix.kernels.loops.nodes import Buffer
from phix.kernels.loops.value import unread
from phix.kernels.lowering.registry import Task

Env = Mapping[dm.Symbol, int]


def kernel_of(equation: Equation) -> Kernel | None:
    """The registered function that was chosen for an equation; None: the engine has the code.

    What binds a dim, has graphs in it, or sizes that its data tell, the engine runs itself.
    """
    op = equation.op
    if op.binds_dim or op.has_graphs or "data_dependent" in op.traits:
        return None
    return kernel_selection.chosen_function(equation)


def fits(equation: Equation, kernel: Kernel, ctx: KernelContext, env: Env) -> bool:
    """Whether a kernel is for an equation at sizes that are known, where ``ctx`` says."""
    metas = gr.map_entries(lambda a: a.meta.substitute(env), equation.inputs)
    if kernel.fits is None:
        return True
    is_known = all(dm.is_known(*m.dims) for m in gr.flat(metas))
    return is_known and kernel.fits(metas, gr.substitute_attrs(equation.attrs, env), ctx)


@stack.nests
def engines_own(graph: Graph, names: frozenset[str], backend: str) -> Graph:
    """The graph, and those in it, with the code of the engine in the place of kernels that ask
    which calls they are for, in equations of the ops of these names."""

    def changed(equation: Equation) -> Equation:
        if equation.op.has_graphs:
            inner = partial(engines_own, names=names, backend=backend)
            return replace(equation, attrs=gr.map_attrs(inner, equation.attrs))
        kernel = kernel_of(equation) if equation.op.name in names else None
        if kernel is None or kernel.fits is None:
            return equation
        return replace(equation, kernel=KernelKey(backend, ANY, kernel.key.dtype))

    return replace(graph, equations=tuple(map(changed, graph.equations)))


def emit(
    b: Builder, equation: Equation, kernel: Kernel, inputs: Any, task: Task
) -> tuple[Value, ...]:
    """The outputs of an equation, filled by the kernel; unread ones have no memory where it
    takes that."""
    given: list[Value] = gr.flat(inputs)
    wanted = [not kernel.takes_unread or is_read for is_read in task.is_read]
    count = len(given)

    def run(ctx: KernelContext, env: Env, *arrays: Any) -> None:
        supply, rest = iter(arrays[:count]), iter(arrays[count:])
        values = gr.map_entries(lambda _: next(supply), inputs)
        attrs = gr.substitute_attrs(equation.attrs, env)
        places = iter(wanted)
        outputs = gr.map_entries(lambda _: next(rest) if next(places) else None, equation.outputs)
        kernel_calls.run(kernel, equation.op, ctx, values, attrs, outputs, equation.source)

    def write(*out: Buffer) -> None:
        read = tuple(b.contiguous(v) for v in given)
        dims = tuple(v.dims for v in given)
        step = ir.LibraryStep(equation.op.name, run, read, out, dims)
        step.recordable = kernel.recordable
        step.kernel, step.values = kernel, equation.attrs
        step.fits = None if kernel.fits is None else partial(fits, equation, kernel)
        b.steps.append(step)

    written = b.written([m for m, is_wanted in zip(task.metas, wanted) if is_wanted], write)
    made = iter(written)
    return tuple(next(made) if w else unread(m) for m, w in zip(task.metas, wanted)) or written
