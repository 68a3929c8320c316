"""Pulls that come again and again: the backward of a pointwise op becomes one program.

Op by op, the backward of ``x * 2.0`` makes a product, and of one that nobody asked for a sum; that
of ``tanh`` takes three calls. Pointwise ops give the same bits in one program and in several, so
nobody can tell. To compile takes as long as many small pulls: how much was done decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phix.core import context, places, registries, settings
from phix.core import dims as dm
from phix.core.dims import Shape
from phix.core.exact_keys import exact_key
from phix.core.graph import Equation, Graph, Variable
from phix.core.meta import MetaTensor
from phix.core.op import Op
from phix.core.places import is_host_alone
from phix.core.tensor import Tensor, key_of, tensor_of
from phix.interpreters.backward_rules import Adjoint, BackwardRule, is_called
from phix.interpreters.call_keys import keep
from phix.interpreters.stage import StageTracer, Staging, finish
from phix.passes.compiled import Compiled

# A pull counts as one, and once more for so many elements; after so much it is compiled.
ELEMENTS, ENOUGH = 1 << 14, 250
_LEAST = 2  # ops that are worth a program
_ALL = (dm.symbol("n"),)  # the elements of a tensor, in one dim

Run = Callable[..., Sequence[Any]]

# By the rule, the kinds of its args and the gradients that are wanted; None: it is not pointwise.
PROGRAMS: dict[Any, Compiled | None] = {}
registries.contents(PROGRAMS)
places.LISTENERS.append(PROGRAMS.clear)


class KnownPulls:
    """Those of calls alike, by the kind of the cotangent and the gradients that are wanted: how
    much was done, then the program. ``found`` is None where there is none to make."""

    __slots__ = ("found",)

    def __init__(self, op: Op, adjoint: Adjoint) -> None:
        is_one = op.is_pointwise and not is_called(adjoint.rule) and len(adjoint.cotangents) == 1
        self.found: dict[Any, Any] | None = {} if is_one else None

    def program(self, pull: KnownPull, cotangent: Tensor) -> Run | None:
        """What takes the arrays of the cotangent and of the tensors among the args."""
        found = self.found
        if found is None:
            return None
        wanted = tuple([node >= 0 for node in pull.nodes])
        key = (cotangent.known_key or cotangent.key, wanted)
        known = found.get(key, 0)
        if type(known) is not int:
            return known
        done = known + 1 + cotangent.size // ELEMENTS
        if done < ENOUGH:
            found[key] = done
            return None
        made = _made(pull, cotangent, wanted)
        if made is None:
            self.found = None
        else:
            found[key] = made
        return made


class KnownPull(BackwardRule):
    """The pull of a call like one before; ``nodes`` are those of its inputs, -1 where no gradient
    is wanted."""

    __slots__ = ("nodes", "pulls")

    def __init__(
        self, adjoint: Adjoint, args: list[Any], nodes: Sequence[int], pulls: KnownPulls
    ) -> None:
        super().__init__(adjoint, args)
        self.nodes, self.pulls = nodes, pulls

    def __call__(self, *cotangents: Any) -> Sequence[Any]:
        cotangent = cotangents[0]
        if type(cotangent) is Tensor and context.is_eager():
            run = self.pulls.program(self, cotangent)
            if run is not None:
                return run(cotangent.data, *[x.data for x in self.args if type(x) is Tensor])
        return super().__call__(*cotangents)


def _made(pull: KnownPull, cotangent: Tensor, wanted: tuple[bool, ...]) -> Run | None:
    """See ``KnownPulls.program``."""
    if not is_host_alone() or not cotangent.size:
        return None
    tensors = [cotangent, *[x for x in pull.args if type(x) is Tensor]]
    args = [_flat(x, cotangent.shape) for x in (cotangent, *pull.args)]
    key = (pull.adjoint.rule, wanted, *map(exact_key, map(_kind, args)))
    if key not in PROGRAMS:
        graph = _graph(pull, args, wanted)
        compiled = None if graph is None else Compiled(graph)
        keep(PROGRAMS, key, compiled, settings.current().most_eager_programs)
    compiled = PROGRAMS[key]
    return None if compiled is None else _run(compiled, tensors, wanted)


def _flat(arg: Any, shape: Shape) -> Any:
    """What an arg is to a graph for all sizes: a tensor of that shape has one dim, else none."""
    if not isinstance(arg, (Tensor, MetaTensor)):
        return arg
    if arg.shape == () or arg.shape == shape:
        return MetaTensor(_ALL if arg.shape else (), arg.dtype)
    return _Other


class _Other:
    """What stands for a tensor of another shape."""


def _kind(arg: Any) -> Any:
    return (MetaTensor, arg.dtype, arg.ndim) if type(arg) is MetaTensor else arg


def _graph(pull: KnownPull, args: list[Any], wanted: tuple[bool, ...]) -> Graph | None:
    """The gradients that are wanted, of the cotangent and the tensors among the args; None if they
    are not pointwise, or next to no work."""
    if any(arg is _Other for arg in args):
        return None
    stage = Staging(None)
    given = [True, *[type(x) is Tensor for x in pull.args]]
    inputs = {k: Variable(f"x{k}", arg) for k, arg in enumerate(args) if given[k]}
    with context.transformation(stage):
        tracers = {k: StageTracer(stage, v, None) for k, v in inputs.items()}
        cotangent, *others = [tracers.get(k, arg) for k, arg in enumerate(args)]
        found = BackwardRule(pull.adjoint, others)(cotangent)
    if any(w and type(x) is not StageTracer for w, x in zip(wanted, found)):
        return None
    constants = tuple(stage.constants.values())

    def giving(grads: list[Any]) -> Graph:
        outputs = tuple(x.variable for x in grads)
        return finish(Graph(tuple(inputs.values()), constants, tuple(stage.equations), outputs))

    every = giving([x for x in found if type(x) is StageTracer])
    graph = giving([x for w, x in zip(wanted, found) if w])
    is_alike = all(x.meta.ndim == args[0].ndim for x in graph.outputs)
    is_work = len(every.equations) >= _LEAST
    return graph if is_alike and is_work and all(map(_is_pointwise, graph.equations)) else None


def _is_pointwise(equation: Equation) -> bool:
    return equation.op.is_pointwise


def _run(compiled: Compiled, tensors: list[Tensor], wanted: tuple[bool, ...]) -> Run:
    """The program for tensors like these."""
    shape, is_flat = tensors[0].shape, tensors[0].ndim < 2
    launch = compiled.launcher(
        [x if x.ndim < 2 else tensor_of(x.data.reshape(-1)) for x in tensors]
    )
    keys = [key_of(x.meta.dtype, shape, True) for x in compiled.graph.outputs]
    where = [number for number, is_wanted in enumerate(wanted) if is_wanted]

    def run(*arrays: np.ndarray) -> Sequence[Any]:
        if is_flat:
            outs = launch(*arrays)
        else:
            outs = launch(*[a.reshape(-1) if a.ndim else a for a in arrays])
            outs = tuple([out.reshape(shape) for out in outs])
        grads: list[Any] = [None] * len(wanted)
        for number, out, key in zip(where, outs, keys):
            grads[number] = tensor_of(out, key)
        return grads

    return run
