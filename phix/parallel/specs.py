"""Specs: along which axes of a mesh the dims of a tensor are divided."""

from __future__ import annotations

from typing import Any

import numpy as np

from phix import ops
from phix.api.arguments import flat_specs, flat_tensors
from phix.core import dims as dm
from phix.core import pytrees
from phix.core.conversion import owned_tensor
from phix.core.errors import ArgumentError, ShapeError, shown
from phix.core.given import Kind, takes
from phix.core.tensor import Tensor
from phix.parallel.meshes import Mesh

# The axis name of each dim, None where it is whole; dims behind the last are whole.
Dims = tuple[Any, ...]

MESH = Kind("a phix.parallel.mesh", lambda v: isinstance(v, Mesh))
SPECS = Kind("specs: None, axis names, or trees of them", lambda v: True)


def _is_spec(node: Any, below: Any) -> bool:
    if node is None or isinstance(node, str):
        return True
    if type(node) is not tuple or not all(n is None or isinstance(n, str) for n in node):
        return False
    return not (isinstance(below, (tuple, list)) and len(below) == len(node))


def spread(specs: Any, tree: Any, mesh: Mesh, what: str) -> list[Dims]:
    """The spec of each leaf of a tree, of a prefix of it."""
    found = pytrees._prefix_entries(specs, tree, what, _is_spec)
    return [_checked(s, mesh, what) for s in found]


def _checked(spec: Any, mesh: Mesh, what: str) -> Dims:
    dims = () if spec is None else (spec,) if isinstance(spec, str) else tuple(spec)
    names = [n for n in dims if n is not None]
    wrong = next((n for n in names if n not in mesh.axes), None)
    if wrong is not None:
        raise ArgumentError(
            f"{what}: {wrong!r} is no axis of {mesh}; write one of its axes, or None"
        )
    if len(set(names)) != len(names):
        raise ArgumentError(
            f"{what}: the spec {shown(spec)} has an axis twice; divide one dim by it"
        )
    return dims


def check_rank(dims: Dims, x: Any, what: str) -> None:
    """Raise ShapeError where a spec has more dims than a tensor."""
    if len(dims) > x.ndim:
        raise ShapeError(
            f"{what}: the spec {dims} is of {len(dims)} dims, and the tensor is {x.meta}; give a "
            "spec of as many dims, or None"
        )


def divided(x: Any, at: int, count: Any, what: str) -> Any:
    """Dim ``at`` as ``count`` rows, in front of what is left of it."""
    dims = x.shape
    if dm.is_known(dims[at], count) and dims[at] % count:
        raise ShapeError(
            f"{what}: dim {at} of {x.meta} cannot be divided among {count} parts; pad it"
        )
    return ops.reshape(x, (*dims[:at], count, dims[at] // count, *dims[at + 1 :]))


def merged(x: Any, at: int) -> Any:
    """Dim ``at`` and the one behind it as one."""
    dims = x.shape
    return ops.reshape(x, (*dims[:at], dims[at] * dims[at + 1], *dims[at + 2 :]))


@takes(mesh=MESH, specs=SPECS)
def local_parts(tree: Any, mesh: Mesh, specs: Any) -> Any:
    """This process's part of tensors that it has whole.

    Args:
        tree: a tree of tensors, the same on all processes.
        mesh: of the processes; of a virtual mesh one process has all parts, so nothing changes.
        specs: for each tensor None (all of it), an axis name (dim 0 is divided along that axis) or
            a tuple with an axis name or None a dim; or a prefix of the tree with those.

    Raises:
        ShapeError: a dim is no multiple of the size of its axis.

    >>> import phix
    >>> mesh = phix.parallel.mesh({"data": 1})
    >>> phix.parallel.local_parts(phix.to_tensor([[1, 2], [3, 4]]), mesh, "data").tolist()
    [[1, 2], [3, 4]]
    """
    flat, treedef = flat_tensors(tree, "local_parts")
    parts = []
    for x, dims in zip(flat, spread(specs, tree, mesh, "local_parts: specs")):
        check_rank(dims, x, "local_parts")
        for at, name in enumerate(dims if mesh.index is not None else ()):
            if name is not None and mesh.axes[name] > 1:
                rows = divided(x, at, mesh.axes[name], "local_parts")
                x = rows[(*(slice(None),) * at, mesh.index[name])]  # type: ignore[index]
        parts.append(x)
    return pytrees.unflatten(treedef, parts)


@takes(mesh=MESH, specs=SPECS)
def gather(tree: Any, mesh: Mesh, specs: Any) -> Any:
    """Tensors whole, on every process, of the part that each has: what undoes :func:`local_parts`.

    All processes call it, with parts of one shape.

    Args:
        tree: a tree of tensors, each process's part.
        mesh, specs: as of ``local_parts``.

    >>> import phix
    >>> mesh = phix.parallel.mesh({"data": 1})
    >>> phix.parallel.gather(phix.to_tensor([1.0, 2.0]), mesh, "data").tolist()
    [1.0, 2.0]
    """
    flat, treedef = flat_tensors(tree, "gather")
    wholes = []
    for x, dims in zip(flat, spread(specs, tree, mesh, "gather: specs")):
        check_rank(dims, x, "gather")
        for at, name in enumerate(dims if mesh.groups is not None else ()):
            if name is not None and mesh.axes[name] > 1:
                part = np.asarray(x.numpy())
                assert isinstance(x, Tensor)  # what else has no numbers
                rows = np.empty((*part.shape[:at], mesh.axes[name], *part.shape[at:]), part.dtype)
                mesh.groups[name].run("gather", (at,), part, rows)  # type: ignore[index]
                x = merged(owned_tensor(rows).to(x.place), at)
        wholes.append(x)
    return pytrees.unflatten(treedef, wholes)


_AXIS = Kind("the name of an axis", lambda v: isinstance(v, str))


@takes(mesh=MESH, axis_name=_AXIS)
def even_specs(tree: Any, mesh: Mesh, axis_name: str) -> Any:
    """Specs that divide each tensor of a tree along an axis: its first dim that divides evenly.

    For what need not be whole on any part: states of an optimizer (ZeRO 1 and 2), or parameters as
    well (ZeRO 3). A tensor without such a dim stays whole.

    Args:
        tree: a tree of tensors, or of their specs (``phix.spec``).
        mesh: see ``phix.parallel.mesh``.
        axis_name: one of its axes.

    Returns:
        The tree with a spec for each tensor, as ``phix.parallel.shard`` takes it.

    Raises:
        ArgumentError: the mesh has no such axis.

    >>> import phix
    >>> mesh = phix.parallel.mesh({"data": 4}, virtual=True)
    >>> phix.parallel.even_specs([phix.ones([8, 3]), phix.ones([3, 4]), 1.0], mesh, "data")
    [('data',), (None, 'data'), None]
    """
    if axis_name not in mesh.axes:
        raise ArgumentError(
            f"even_specs: {axis_name!r} is no axis of {mesh}; write one of its axes"
        )
    metas, treedef = flat_specs(tree, "even_specs")
    count = mesh.axes[axis_name]
    found: list[Dims | None] = []
    for meta in metas:
        fits = [k for k, dim in enumerate(meta.dims) if isinstance(dim, int) and dim and not
                dim % count]  # fmt: skip
        found.append((*(None,) * fits[0], axis_name) if fits else None)
    return pytrees.unflatten(treedef, found)


__all__ = ["even_specs", "gather", "local_parts"]
