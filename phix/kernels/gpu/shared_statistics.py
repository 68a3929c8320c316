"""Attention by cuDNN whose gradient is in the same program keeps for it what it finds on the way.

The gradient needs of each query the logarithm of the sum of its exponentials, and the results. By
itself it computes the attention again for these. Where both are steps of one block, on the same
operands, the first has the *statistics* as another output, and the second reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

from phix.core import dtypes as dt
from phix.core.kernel_context import KernelContext
from phix.kernels.gpu import cudnn_attention
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.effects import effects_of
from phix.kernels.loops.nodes import Buffer, LibraryStep, LoopProgram, Step
from phix.kernels.schedule.pipeline import Setting

_OPERANDS = 3  # query, key and value
_GIVEN = _OPERANDS + 1  # to the gradient: these and the cotangent


def share_statistics(program: LoopProgram, _: Setting) -> None:
    """The pass; see the module."""
    first = max((int(t.name[1:]) for t in program.temps), default=-1) + 1
    names = (f"t{number}" for number in count(first))
    for block in _blocks(program.steps):
        for number, step in enumerate(block):
            if _is_of(step, cudnn_attention.attention):
                assert isinstance(step, LibraryStep)
                grads = list(_gradients(step, block[number + 1 :]))
                if grads:
                    statistics = Buffer(next(names), dt.float32, step.dims[0][:-1], "temp")
                    program.temps.append(statistics)
                    _share(step, grads, statistics)


def _blocks(steps: list[Step]) -> Iterator[list[Step]]:
    yield steps
    for step in steps:
        for inner in ir.blocks(step):
            yield from _blocks(inner)


def _is_of(step: Step, function: Any) -> bool:
    return isinstance(step, LibraryStep) and getattr(step.kernel, "function", None) is function


def _gradients(forward: LibraryStep, later: list[Step]) -> Iterator[LibraryStep]:
    """The gradients of an attention among later steps, as long as its memory is left alone."""
    own = {ir.owner(b) for b in (*forward.inputs, *forward.outputs)}
    for step in later:
        if _is_of(step, cudnn_attention.attention_grad) and _is_gradient_of(step, forward):
            yield step  # type: ignore[misc]
        if own & {ir.owner(b) for b in effects_of(step).writes}:
            return


def _is_gradient_of(step: Any, forward: LibraryStep) -> bool:
    is_same = step.inputs[:_OPERANDS] == forward.inputs and step.values == forward.values
    return is_same and len(step.inputs) == _GIVEN and step.dims[:_OPERANDS] == forward.dims


def _share(forward: LibraryStep, grads: list[LibraryStep], statistics: Buffer) -> None:
    shared = (forward.outputs[0], statistics)
    for step in grads:
        step.function = partial(_with_both, step.function)
        step.inputs += shared
        step.dims += (forward.dims[0][:-1] + (shared[0].dims[-1],), statistics.dims)
    forward.function = partial(_keeping, forward.function)
    forward.outputs += (statistics,)


def _keeping(function: Any, ctx: KernelContext, env: Any, *arrays: Any) -> None:
    *others, statistics = arrays
    function(replace(ctx, shared=(statistics,)), env, *others)


def _with_both(function: Any, ctx: KernelContext, env: Any, *arrays: Any) -> None:
    shared = arrays[_GIVEN : _GIVEN + 2]
    function(replace(ctx, shared=shared), env, *arrays[:_GIVEN], *arrays[_GIVEN + 2 :])
