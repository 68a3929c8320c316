"""shard: a function of whole tensors on a mesh, divided as the shardings of its arguments say."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Generic

from phix.api.arguments import argument_names, function_name
from phix.api.custom import custom_jvp
from phix.api.flattened import Flattened
from phix.api.signatures import P, R
from phix.api.weak_arguments import taken, taken_specs
from phix.core import pytrees
from phix.core.errors import ArgumentError, GatheredWarning, ShapeError
from phix.core.given import FUNCTION, named, takes
from phix.core.graph import graphs_inside
from phix.core.meta import MetaTensor
from phix.core.op import Op
from phix.core.transforms import transforms
from phix.interpreters.decompose import decompose
from phix.parallel import movement_rules as _movement  # noqa: F401 - registers its rules
from phix.parallel import partwise, planning, plans
from phix.parallel.explaining import Division
from phix.parallel.forms import Form, fits
from phix.parallel.meshes import Mesh
from phix.parallel.programs import argument_specs, result_specs, spmd
from phix.parallel.specs import MESH, SPECS, Dims

_PLANS = 8  # plans that a sharded function keeps, of calls that are not compiled


def _stays(op: Op) -> bool:
    return op.name == "stop_gradient"


class Sharded(Generic[P, R]):
    """A function that runs on the parts of a mesh; made by :func:`shard`."""

    def __init__(
        self, function: Callable[P, R], mesh: Mesh, in_shardings: Any, out_shardings: Any
    ) -> None:
        functools.update_wrapper(self, function)
        self.function, self.mesh = function, mesh
        self.in_shardings, self.out_shardings = in_shardings, out_shardings
        self.sizes = {name: n for name, n in mesh.axes.items() if n > 1}
        self._plans: dict[Any, tuple[plans.DividedGraph, bool]] = {}

    def __repr__(self) -> str:
        return f"<{function_name(self.function)} sharded on {self.mesh}>"

    @property
    def where(self) -> str:
        return f"shard of {function_name(self.function)}"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        flat, _ = taken((args, kwargs), self.where)
        made = self._planned(args, kwargs, self._plans)
        plan, closed = made.plan, made.closed
        for equation in plan.uncovered:
            _warn(equation)
        inputs = _guarded([*flat, *closed]) if made.is_own_derivative else [*flat, *closed]
        specs = [_dims(f) for f in plan.inputs]
        outs = spmd(
            lambda *parts: tuple(partwise.run(plan, parts, self.sizes)),
            self.mesh,
            tuple(specs),
            tuple(map(_dims, plan.outputs)),
        )(*inputs)
        return pytrees.unflatten(made.out_tree, list(outs))

    def explain(self, *args: Any, **kwargs: Any) -> Division:
        """The plan for arguments like these, which prints: each value's sharding, each step between
        the parts with its bytes and the line it comes from.

        Args:
            *args, **kwargs: as of a call, or specs (``phix.spec``) in the place of tensors.
        """
        return self._planned(args, kwargs, {})

    def _planned(self, args: Any, kwargs: Any, known: dict[Any, Any]) -> Division:
        """The plan of a call; ``known`` has those of graphs that compute the same."""
        metas, treedef = taken_specs((args, kwargs), self.where)
        specs = argument_specs(
            self.in_shardings, args, metas, self.mesh, f"{self.where}: in_shardings"
        )
        wholes = [self._whole(m, s) for m, s in zip(metas, specs)]
        run = Flattened(self.function, treedef, f"the result of {function_name(self.function)}")
        graph, closed = transforms().trace(run, wholes)
        for variable, name in zip(graph.inputs, argument_names(self.function, args, kwargs)):
            variable.name = name
        out_specs = result_specs(
            self.out_shardings,
            run,
            [a.meta for a in graph.outputs],
            self.mesh,
            f"{self.where}: out_shardings",
        )
        wanted = [self._result(a.meta, s) for a, s in zip(graph.outputs, out_specs)]
        inputs = [*(self._form(s) for s in specs), *(Form() for _ in closed)]
        key = (graph, tuple(inputs), tuple(wanted))
        if key not in known:
            while len(known) >= _PLANS:
                del known[next(iter(known))]
            own = any(
                "own_derivative" in e.op.traits and not _stays(e.op)
                for g in graphs_inside(graph) for e in g.equations
            )  # fmt: skip
            whole = decompose(graph, _stays)
            known[key] = (planning.best_plan(whole, inputs, wanted, self.sizes), own)
        found, own = known[key]
        return Division(self.where, self.mesh, found, run.out_tree, closed, own)

    def _whole(self, meta: MetaTensor, spec: Dims) -> MetaTensor:
        """The meta of an argument whole: between processes each has its part of it."""
        dims = list(meta.dims)
        for at, name in enumerate(spec):
            if name is not None and not isinstance(dims[at], int):
                raise _unknown(self.where, meta)
            if name is not None and not self.mesh.is_virtual:
                dims[at] *= self.mesh.axes[name]
        found = meta.with_dims(dims).with_varying(frozenset())
        self._check(found, spec, "in_shardings")
        return found

    def _result(self, meta: MetaTensor, spec: Dims) -> Form:
        self._check(meta, spec, "out_shardings")
        return self._form(spec)

    def _form(self, spec: Dims) -> Form:
        return Form.of({name: at for at, name in enumerate(spec) if name in self.sizes})

    def _check(self, meta: MetaTensor, spec: Dims, what: str) -> None:
        if not fits(meta, self._form(spec), self.sizes):
            raise ShapeError(
                f"{self.where}: {what} says {spec} of {meta}, whose dims cannot be divided evenly "
                f"so on {self.mesh}; pad the dim, or leave it whole (None)"
            )


@takes(function=FUNCTION, mesh=MESH, in_shardings=SPECS, out_shardings=SPECS)
def shard(
    function: Callable[P, R], mesh: Mesh, in_shardings: Any = None, out_shardings: Any = None
) -> Sharded[P, R]:
    """``function``, written for whole tensors, on the parts of a mesh.

    It is traced, and a pass over its primitives finds how each value is divided, from how the
    arguments are, and where the parts have to tell each other something: of all ways the one that
    moves the fewest bytes. Data parallel training comes out of batches that are divided, tensor
    parallel layers come out of weights that are. The result is that of ``function`` on one process,
    but for rounding; random numbers are the same.

    What no rule covers is made whole on every part, with a ``phix.errors.GatheredWarning`` that
    names it. ``explain(*args)`` of what comes back is the plan.

    Args:
        function: of tensors, or trees of them. Take derivatives inside, as in
            ``shard(phix.value_and_grad(loss), ...)``: the plan is one of all of it.
        mesh: see :func:`mesh`. Between processes arguments and results are each process's part, as
            of :func:`spmd`; on a virtual mesh they are whole.
        in_shardings: for each argument None (whole on all parts), the name of the axis along which
            dim 0 is divided, or a tuple with an axis name or None a dim; or a tree prefix of the
            argument with those. One for all, or a tuple with an entry an argument.
        out_shardings: the same for the results.

    Raises:
        ArgumentError: specs that do not fit, or sizes that are not known while tracing.
        ShapeError: a dim cannot be divided evenly.

    >>> import phix
    >>> mesh = phix.parallel.mesh({"model": 2}, virtual=True)
    >>> layers = lambda x, u, v: phix.ops.relu(x @ u) @ v
    >>> split = phix.parallel.shard(layers, mesh, (None, (None, "model"), ("model", None)))
    >>> split(phix.ones([1, 2]), phix.ones([2, 4]), phix.ones([4, 1])).tolist()
    [[8.0]]
    >>> [step.kind for step in split.explain(phix.spec([1, 2]), phix.spec([2, 4]),
    ...                                      phix.spec([4, 1])).collectives]
    ['psum']
    """
    return Sharded(function, mesh, in_shardings, out_shardings)


def _dims(form: Form) -> tuple[Any, ...]:
    """The spec of a form without sums."""
    rank = max((w for _, w in form.places), default=-1) + 1
    return tuple(form.holder(k) for k in range(rank))


def _unknown(where: str, meta: MetaTensor) -> ArgumentError:
    return ArgumentError(
        f"{where}: in_shardings divides a dim of {meta} whose size is not known; call it with "
        "tensors of known sizes, or leave the dim whole (None)"
    )


def _warn(equation: Any) -> None:
    source = equation.source
    warnings.warn_explicit(
        f"no rule says how {equation.op.name} is divided: its operands are made whole on every "
        "part of the mesh, which computes all of it",
        GatheredWarning,
        source.file if source else "<unknown>",
        source.line if source else 0,
    )


# -- derivatives of the user's own -----------------------------------------------------------------
def _guarded(values: Sequence[Any]) -> list[Any]:
    """The values, of which nothing is differentiated: the plan is of what the function computes,
    where derivatives of the user's own are no longer to be found."""
    return [_guard(x) for x in values]


@custom_jvp
def _guard(x: Any) -> Any:
    return x


@_guard.defjvp
@named("shard")
def _refuse(primals: Any, tangents: Any) -> Any:
    raise ArgumentError(
        "shard: the function has a derivative of its own (custom_vjp, custom_jvp) inside, which "
        "is not known outside of shard; take the derivative inside, as in "
        "shard(phix.value_and_grad(loss), mesh, ...)"
    )


__all__ = ["Sharded", "shard"]
