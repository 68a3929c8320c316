"""Graphs as printed modules, and such modules as functions."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core.errors import ArgumentError, KernelNotFoundError
from phix.core.graph import Equation, Graph
from phix.core.kernel_context import KernelContext
from phix.core.places import CPU
from phix.kernels.cpu import host_steps
from phix.kernels.cpu.level import WITHOUT_MASKS, has_masks, level
from phix.kernels.loops import nodes as ir
from phix.kernels.numba.printed.conditions import equations_of
from phix.kernels.numba.printed.functions import Reader
from phix.kernels.numba.printed.module import Module
from phix.kernels.report.explanation import Explanation


class Reading(Explanation):
    """A graph lowered for readers, and what its kernels hold."""

    pipeline = "numba"
    recorder = Reader


def module_of(
    graph: Graph,
    name: str,
    contiguous: tuple[bool, ...] | None = None,
    asked: Sequence[Equation] = (),
) -> Module:
    """The module of a graph of primitives; ``contiguous`` says which inputs are.

    The entry looks whether arguments have sizes that the equations of ``asked`` fit.

    Raises:
        KernelNotFoundError: a primitive has no kernel here.
    """
    found = Reading(graph, contiguous or (True,) * len(graph.inputs))
    kernels = [s for s in ir.walk_steps(found.program.steps) if isinstance(s, ir.Kernel)]
    order = {e: k for k, e in enumerate(e for g, _ in found.record.graphs for e in g.equations)}
    labels = {}
    for kernel, report in zip(kernels, found.report.kernels):
        held = sorted(found.record.held.get(kernel, ()), key=lambda e: order[e])
        labels[kernel] = tuple([e.op.name for e in held]), report.equations
    return Module(found.program, name, [v.name for v in graph.inputs], labels, asked)


def source(traced: Graph, graph: Graph, name: str) -> str:
    """The text of a module that needs NumPy and Numba alone, with an entry of that name.

    ``graph`` is what ``traced`` became for engines, and asks for less of the sizes of arguments.

    Raises:
        KernelNotFoundError: what Python runs, or code from outside phix, is a part of the graph,
            or it is not to be printed which sizes fit.
        ArgumentError: the graph holds large constants.
    """
    known = set(dm.solutions([v.meta.dims for v in traced.inputs]))
    module = module_of(graph, name, asked=equations_of(traced, known))
    for step in module.host.values():
        raise KernelNotFoundError(
            f"numba.source: {step.name} is run by Python or by a library, not by loops; leave it "
            "out of the function, and call it between two of them"
        )
    for passed, array in module.passed.items():
        raise ArgumentError(
            f"numba.source: the function holds a constant of {array.nbytes} bytes ({passed}: "
            f"{array.dtype}, {array.size} elements); make it an argument"
        )
    return module.text


def text_of(graph: Graph, contiguous: tuple[bool, ...]) -> str:
    """The text of a program for readers, or why it cannot be printed."""
    try:
        return module_of(graph, "program", contiguous).text
    except KernelNotFoundError as error:
        return f"# {error}\n"


def function_of(module: Module) -> Callable[..., Any]:
    """The entry of a module, compiled by Numba as its functions are first called.

    Where ``NUMBA_DISABLE_JIT`` is set, Python runs it, and debuggers show its lines.
    """
    _leave_out_masks()
    file = f"<numba: {module.name} {id(module):x}>"
    linecache.cache[file] = len(module.text), None, module.text.splitlines(True), file
    space: dict[str, Any] = {"__name__": file, "array": _array}
    for name, step in module.host.items():
        space[name] = _host(step, module.program.symbols)
    exec(compile(module.text, file, "exec"), space)
    entry: Callable[..., Any] = space[module.name]
    passed = module.passed
    return (lambda *arrays: entry(*arrays, **passed)) if passed else entry


def _leave_out_masks() -> None:
    """Numba's LLVM mixes up vectors under masks, as ours does (``cpu/level.py``), and nobody looks
    at its code: it is told of a CPU without them, where it has compiled nothing yet."""
    import numba

    config: Any = numba.config
    if config.CPU_FEATURES is None and has_masks():
        config.CPU_FEATURES = level().features + WITHOUT_MASKS


def _array(elements: np.ndarray, dtype: str, dims: tuple[int, ...]) -> np.ndarray:
    """Elements as kernels have them, as the array that a host step takes."""
    return elements.view(dtype).reshape(dims)


def _host(step: ir.HostStep, symbols: dict[str, dm.Symbol]) -> Callable[..., None]:
    """A host step as a function of the known dims and of arrays."""
    function = host_steps.find(step.name, step.attrs) or step.function

    def run(known: dict[str, int], *arrays: np.ndarray) -> None:
        if isinstance(step, ir.LibraryStep):
            env = {symbols[name]: size for name, size in known.items()}
            step.function(KernelContext(CPU), env, *arrays)
        else:
            function(*arrays)

    return run
