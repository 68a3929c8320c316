"""Meshes: the processes of a program, arranged along named axes."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping
from typing import Any

from phix.core.errors import ArgumentError, shown
from phix.core.given import FLAG, Kind, is_int, takes
from phix.core.places import CPU, Place, device_of
from phix.parallel.checking import Watch
from phix.parallel.exchange import Group
from phix.parallel.failures import end_all_on_errors

# What launchers of MPI say to the processes they start: how many there are.
_COUNTS = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "MPI_LOCALNRANKS")
_AXES = Kind("a dict of axis names and sizes", lambda v: isinstance(v, Mapping))
_COMM = Kind("an mpi4py communicator or None", lambda v: v is None or hasattr(v, "Get_size"))


class Mesh:
    """Processes along named axes; made by :func:`mesh`.

    ``axes`` has the size of each axis, ``size`` is the number of parts, ``index`` says where along
    each axis this process is (None of a virtual mesh), ``rank`` its number among all, ``place``
    where its tensors belong.

    >>> import phix
    >>> mesh = phix.parallel.mesh({"data": 1, "model": 1})
    >>> isinstance(mesh, phix.parallel.Mesh), mesh.size, mesh.axes
    (True, 1, {'data': 1, 'model': 1})
    >>> mesh.size, mesh.rank, mesh.is_virtual
    (1, 0, False)
    """

    def __init__(
        self, axes: dict[str, int], groups: dict[str, Group] | None, rank: int, local: int = 0
    ) -> None:
        self.axes = axes
        self.groups = groups
        self.rank = rank
        self._local = local  # its number among the processes of its machine

    @property
    def size(self) -> int:
        return math.prod(self.axes.values())

    @property
    def is_virtual(self) -> bool:
        """Whether one process does the work of all parts."""
        return self.groups is None

    @property
    def index(self) -> dict[str, int] | None:
        if self.groups is None:
            return None
        return {name: group.index for name, group in self.groups.items()}

    @property
    def place(self) -> Place:
        """Where the tensors of this process belong: on a machine with GPUs it has one of its own,
        ``gpu:k`` with k its number among the processes there (modulo the GPUs that it sees)."""
        count = device_of("gpu").count()
        return Place("gpu", self._local % count) if count else CPU

    def __repr__(self) -> str:
        kind = "virtual mesh" if self.is_virtual else "mesh"
        return f"<{kind} {self.axes}>"


@takes(axes=_AXES, comm=_COMM, virtual=FLAG, checks=FLAG, nccl=FLAG, overlap=FLAG)
def mesh(
    axes: Mapping[str, int],
    *,
    comm: Any = None,
    virtual: bool = False,
    checks: bool = False,
    nccl: bool = True,
    overlap: bool = False,
) -> Mesh:
    """The processes of this program along named axes, the last of which varies fastest.

    All processes call it, with the same arguments.

    Args:
        axes: the size of each axis by its name; -1 for one of them is what is left of the
            processes. Their product is the number of processes.
        comm: an mpi4py communicator whose processes they are; None: all of the program, or this
            process alone where no launcher of MPI has started it.
        virtual: let this one process do the work of all parts, as lanes of ``phix.vmap``: for
            tests, and to try out meshes that are not there.
        checks: compare every collective among its ranks before it begins, and what is said to be
            the same on all of them: a mismatch is an error that names the ranks. Slow.
        nccl: let GPUs exchange by NCCL where all ranks have it, each on a GPU of its own; False:
            through the memory of the host.
        overlap: begin collectives of 4 KB or more in their place and wait for them where compiled
            programs need them. It pays where MPI, or the network, moves data while nobody calls it.

    Raises:
        ArgumentError: the sizes do not give the number of processes, mpi4py is not there, or
            processes were given other arguments.

    >>> import phix
    >>> phix.parallel.mesh({"data": 1, "model": 1}).index
    {'data': 0, 'model': 0}
    >>> phix.parallel.mesh({"data": 4, "model": 2}, virtual=True)
    <virtual mesh {'data': 4, 'model': 2}>
    """
    named = dict(axes)
    _check_axes(named)
    if virtual:
        if -1 in named.values():
            raise ArgumentError("mesh: a virtual mesh has no processes to count; give all sizes")
        return Mesh(named, None, 0)
    count = _process_count() if comm is None else comm.Get_size()
    named = _filled(named, count)
    if math.prod(named.values()) == 1:
        return Mesh(named, {name: Group(name, 1, 0, None) for name in named}, 0)
    return _over_ranks(named, comm, checks, nccl, overlap)


def _check_axes(axes: dict[str, int]) -> None:
    if not axes:
        raise ArgumentError("mesh: axes is empty; name one axis at least, as in {'data': -1}")
    for name, size in axes.items():
        if not isinstance(name, str) or not name:
            raise ArgumentError(f"mesh: an axis is named by a str, found {shown(name)}")
        if not is_int(size) or (size < 1 and size != -1):
            raise ArgumentError(
                f"mesh: the size of the axis {name!r} is an int from 1, or -1 for what is left, "
                f"found {shown(size)}"
            )
    if list(axes.values()).count(-1) > 1:
        raise ArgumentError("mesh: one axis alone can have what is left of the processes (-1)")


def _process_count() -> int:
    """How many processes a launcher has started, by what it says in their environment."""
    for name in _COUNTS:
        text = os.environ.get(name, "")
        if text.isdigit():
            return int(text)
    return 1


def _filled(axes: dict[str, int], count: int) -> dict[str, int]:
    known = math.prod(s for s in axes.values() if s != -1)
    if (-1 in axes.values() and count % known) or (-1 not in axes.values() and known != count):
        raise ArgumentError(
            f"mesh: the axes {axes} are of {known} processes, or a multiple where one is -1, and "
            f"there are {count}; start as many (mpiexec -n {known} ...), or give sizes whose "
            f"product is {count}; virtual=True makes a mesh without processes"
        )
    return {name: count // known if size == -1 else size for name, size in axes.items()}


def _check_launcher(axes: dict[str, int], count: int, library: Any) -> None:
    """Each process would be alone, and its sums its own, where mpi4py has another MPI."""
    asked = math.prod(axes.values())
    if count != asked:
        raise ArgumentError(
            f"mesh: {axes} is a mesh of {asked} processes, which is how many the launcher says it "
            f"has started, and mpi4py's MPI ({library.get_vendor()[0]}) finds {count}; start them "
            "by the mpiexec of that MPI"
        )


def _over_ranks(axes: dict[str, int], comm: Any, checks: bool, nccl: bool, overlap: bool) -> Mesh:
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise ArgumentError(
            f"mesh: {axes} is a mesh of several processes, which needs mpi4py and an MPI "
            f"({error}): pip install phix[mpi]"
        ) from None
    whole = (comm or MPI.COMM_WORLD).Dup()
    _check_launcher(axes, whole.Get_size(), MPI)
    end_all_on_errors(MPI.COMM_WORLD, whole)
    rank = whole.Get_rank()
    given = {f"{axes}, checks={checks}, nccl={nccl}, overlap={overlap}": rank}
    for number, other in enumerate(whole.allgather(next(iter(given)))):
        given.setdefault(other, number)
    if len(given) > 1:
        told = "; ".join(f"rank {number}: {text}" for text, number in given.items())
        raise ArgumentError(f"mesh: all processes give the same arguments, found {told}")
    places = list(itertools.product(*map(range, axes.values())))
    here = places[rank]
    watch = Watch(whole, places) if checks else None
    groups: dict[str, Group] = {}
    for number, (name, size) in enumerate(axes.items()):
        others = [p for k, p in enumerate(here) if k != number]
        colour = 0
        for place, extent in zip(others, [s for n, s in axes.items() if n != name]):
            colour = colour * extent + place
        part = whole.Split(colour, here[number]) if size > 1 else None
        second = part.Dup() if part is not None and overlap else part
        groups[name] = Group(name, size, here[number], part, watch, second)
        groups[name].rank, groups[name].nccl, groups[name].overlap = rank, nccl, overlap
    node = whole.Split_type(MPI.COMM_TYPE_SHARED)
    local = node.Get_rank()
    node.Free()
    return Mesh(axes, groups, rank, local)
