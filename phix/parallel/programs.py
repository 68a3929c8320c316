"""spmd: one function on every part of a mesh."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from phix import ops
from phix.api.arguments import function_name
from phix.api.flattened import Flattened
from phix.api.signatures import P, R
from phix.api.weak_arguments import taken
from phix.core import context, pytrees
from phix.core.errors import ArgumentError
from phix.core.given import FUNCTION, named, takes
from phix.core.tensor import Tensor, Tracer
from phix.interpreters import batch as batching
from phix.interpreters import ranks
from phix.parallel.meshes import Mesh
from phix.parallel.specs import MESH, SPECS, Dims, check_rank, divided, merged, spread

Outputs = tuple[list[Any], list[Dims]]


@takes(function=FUNCTION, mesh=MESH, in_specs=SPECS, out_specs=SPECS)
def spmd(
    function: Callable[P, R], mesh: Mesh, in_specs: Any = None, out_specs: Any = None
) -> Callable[P, R]:
    """A function that runs ``function`` on every part of a mesh, each process on its own.

    Inside, ``phix.psum``, ``pmean``, ``pmax``, ``pmin``, ``all_gather``, ``all_to_all``,
    ``ppermute``, ``psum_scatter`` and ``axis_index`` take the names of the mesh's axes. What is
    passed and comes back is each process's part; of a virtual mesh it is all parts together, joined
    as the specs say.

    Args:
        function: of tensors, or trees of them; every process calls it, with parts of one shape.
        mesh: see :func:`mesh`.
        in_specs: for each argument None (the same on all processes), the name of the axis along
            which dim 0 is divided, or a tuple with an axis name or None a dim; or a tree prefix of
            the argument with those. One for all, or a tuple with an entry an argument. Keyword
            arguments, and tensors that are closed over, are the same on all.
        out_specs: the same for the results. What is said to be the same along an axis must be
            proved to be: it does not depend on what differs, but by psum, pmean, pmax, pmin or
            all_gather over that axis.

    Raises:
        ArgumentError: specs that do not fit, a result that may differ along an axis which its spec
            does not name, or a collective that not all parts would come to.
        CollectiveError: with ``mesh(checks=True)``: processes are about to do different things.

    >>> import phix
    >>> mesh = phix.parallel.mesh({"data": 2}, virtual=True)
    >>> mean = phix.parallel.spmd(lambda x: phix.pmean(x.mean(), "data"), mesh, "data", None)
    >>> mean(phix.to_tensor([1.0, 2.0, 3.0, 6.0])).item()
    3.0
    """

    @functools.wraps(function)
    @named("spmd")
    def on_mesh(*args: Any, **kwargs: Any) -> Any:
        where = f"spmd of {function_name(function)}"
        _check_free(mesh, where)
        flat, treedef = taken((args, kwargs), where)
        specs = argument_specs(in_specs, args, flat, mesh, f"{where}: in_specs")
        run = Flattened(function, treedef, f"the result of {function_name(function)}")

        def whole(*parts: Any) -> Outputs:
            outs = run(*parts)
            return outs, result_specs(out_specs, run, outs, mesh, f"{where}: out_specs")

        _check_same(mesh, flat, specs, where)
        outs, _ = _along(list(mesh.axes), mesh, whole, flat, specs, where)
        _check_end(mesh, flat, where)
        return pytrees.unflatten(run.out_tree, outs)

    return on_mesh


def _check_free(mesh: Mesh, where: str) -> None:
    bound = {name for name, *_ in context.bound_axes()}
    taken = sorted(bound & mesh.axes.keys())
    if taken:
        raise ArgumentError(f"{where}: the axis {taken[0]!r} is bound already; rename one of them")


def argument_specs(
    in_specs: Any, args: Any, flat: Sequence[Any], mesh: Mesh, what: str
) -> list[Dims]:
    """The spec of each tensor of the arguments; those by keyword are whole."""
    if type(in_specs) is tuple and len(in_specs) != len(args):
        raise ArgumentError(
            f"{what}: a tuple has an entry an argument, found {len(in_specs)} for {len(args)}; a "
            "tuple of dims stands inside that tuple, as in ((None, 'data'),)"
        )
    each = in_specs if type(in_specs) is tuple else (in_specs,) * len(args)
    specs = [s for one, arg in zip(each, args) for s in spread(one, arg, mesh, what)]
    specs += [()] * (len(flat) - len(specs))
    for x, dims in zip(flat, specs):
        check_rank(dims, x, what)
    return specs


def result_specs(
    out_specs: Any, run: Flattened, outs: Sequence[Any], mesh: Mesh, what: str
) -> list[Dims]:
    wanted = spread(out_specs, pytrees.unflatten(run.out_tree, outs), mesh, what)
    for x, dims in zip(outs, wanted):
        check_rank(dims, x, what)
    return wanted


def _along(
    names: Sequence[str],
    mesh: Mesh,
    function: Callable[..., Outputs],
    args: Sequence[Any],
    specs: Sequence[Dims],
    where: str,
) -> Outputs:
    """The function over the axes of those names, the first outermost."""
    if not names:
        return function(*args)
    name = names[0]
    wanted: list[Dims] = []

    def inner(*parts: Any) -> list[Any]:
        outs, wanted[:] = _along(names[1:], mesh, function, parts, specs, where)
        return outs

    divide = [name in dims for dims in specs]
    if mesh.groups is None:
        outs = _lanes(name, mesh.axes[name], inner, args, specs, divide, wanted, where)
    else:
        group = mesh.groups[name]
        outs, varies = ranks.on_ranks(inner, args, divide, group)
        _check_outputs(name, wanted, varies, where)
        outs = [
            ranks.vary(x, group) if name in dims and not v else x
            for x, dims, v in zip(outs, wanted, varies)
        ]
    return outs, wanted


def _lanes(
    name: str,
    size: int,
    function: Callable[..., list[Any]],
    args: Sequence[Any],
    specs: Sequence[Dims],
    divide: Sequence[bool],
    wanted: list[Dims],
    where: str,
) -> list[Any]:
    """The function on all parts along one axis of a virtual mesh, as lanes of a batch."""
    fronted = []
    for x, dims, is_divided in zip(args, specs, divide):
        if is_divided:
            at = dims.index(name)
            x = batching.move_axis(divided(x, at, size, where), at, 0)
        fronted.append(x)
    with context.tracking((name,)):
        outs, varies = batching.batch_mapped(function, fronted, divide, size, name)
    _check_outputs(name, wanted, varies, where)
    found = []
    for x, dims, varied in zip(outs, wanted, varies):
        if name in dims:
            at = dims.index(name)
            rows = x if varied else ops.expand(x, (size, *x.shape))
            x = merged(batching.move_axis(rows, 0, at), at)
        found.append(x)
    return found


def _check_outputs(name: str, wanted: Sequence[Dims], varies: Sequence[bool], where: str) -> None:
    for number, (dims, varied) in enumerate(zip(wanted, varies)):
        if varied and name not in dims:
            raise ArgumentError(
                f"{where}: out_specs says that result {number} is the same along {name!r}, and "
                "that is not proved: it may depend on what differs there; name the axis in its "
                "spec, or bring it together by psum, pmean, pmax, pmin or all_gather over it"
            )


# -- checks that were asked for ------------------------------------------------------------------
def _runs(flat: Sequence[Any]) -> bool:
    return context.is_eager() and not any(isinstance(x, Tracer) for x in flat)


def _check_same(mesh: Mesh, flat: Sequence[Any], specs: Sequence[Dims], where: str) -> None:
    """What is said to be the same along an axis is, where that is checked."""
    for name, group in (mesh.groups or {}).items():
        if group.watch is not None and group.comm is not None and _runs(flat):
            alike = [x.numpy() for x, d in zip(flat, specs) if name not in d and type(x) is Tensor]
            group.watch.same(group, where, alike)


def _check_end(mesh: Mesh, flat: Sequence[Any], where: str) -> None:
    for group in (mesh.groups or {}).values():
        if group.watch is not None and group.comm is not None and _runs(flat):
            group.watch.compare(group.comm, f"the end of {where}")


__all__ = ["argument_specs", "result_specs", "spmd"]
