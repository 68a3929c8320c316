"""save and load of trees whose tensors are divided among the processes of a mesh.

A save is a folder: each process writes a file with its parts, and when all of them are on the disk,
the first one renames an index into its place, which names them. Files of one save have a number of
their own, so nothing that an index names is ever written over: until the rename the folder holds
the save before, from then on the new one.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.core import pytrees
from phix.core.annotations import PlaceLike
from phix.core.errors import ArgumentError, FileError, FileFormatError, ShapeError
from phix.core.given import takes
from phix.core.places import as_place
from phix.core.records import dataclass
from phix.files import saving as files
from phix.files.reading import Reader
from phix.files.structure import Writer, is_array
from phix.parallel.meshes import Mesh
from phix.parallel.specs import MESH, SPECS, Dims, spread

_INDEX = "index.json"
_FORMAT = 1
# What saves leave behind that were killed, the library's own files among it.
_OWN_FILES = re.compile(
    r"part-[0-9a-f]{16}-\d+\.safetensors|\.(part-|index\.json).*\.tmp|\.tmp\w{6}"
)


@takes(mesh=MESH, specs=SPECS)
def save(path: Any, tree: Any, mesh: Mesh, specs: Any) -> None:
    """Write a tree of tensors that is divided among the processes of a mesh; all of them call it.

    Each process writes its parts, of what several have one of them; the file that names all parts
    takes its name when every part is on the disk. Whenever a process is killed, the folder holds
    the last whole save, and so it does where one of them cannot write.

    Args:
        path: a folder that all processes see, made if it is not there.
        tree: as of ``phix.save``, each process's part of the tensors; all else, which is no tensor,
            is that of the first process.
        mesh: of the processes; of a virtual mesh one process has all parts.
        specs: for each tensor None (the same on all), an axis name (dim 0 is divided along that
            axis) or a tuple with an axis name or None a dim; or a prefix of the tree with those.

    Raises:
        ArgumentError: something in the tree is neither a tensor nor a plain value, or processes
            have tensors of other names, shapes, dtypes or specs.
        FileError: this process cannot write, or another one cannot, or has another folder.

    >>> import phix
    >>> mesh = phix.parallel.mesh({"data": 1})
    >>> phix.parallel.save("checkpoint", {"w": phix.ones([4, 2]), "step": 3}, mesh, "data")
    >>> phix.parallel.load("checkpoint", mesh, "data")["step"]
    3
    """
    folder, writer, error = str(path), _PartWriter(), None
    try:
        folder = files.checked_path(path, "save")
        writer = _written(tree, mesh, specs)
    except Exception as failure:  # the others wait for this process: they have to be told
        error = failure
    _check_all(mesh, error, folder)
    _check_alike(mesh, writer, folder)
    token = _agreed(mesh, secrets.randbits(63))
    try:
        with files.about("save", folder):
            os.makedirs(folder, exist_ok=True)
            own = {n: a for n, a in writer.tensors.items() if _is_writer(writer.dims[n], mesh)}
            files.write_tensors(os.path.join(folder, _part_name(token, mesh.rank)), own)
    except Exception as failure:
        error = failure
    _check_all(mesh, error, folder)
    if mesh.rank == 0:
        try:
            with files.about("save", folder):
                _commit(folder, token, writer, mesh)
        except Exception as failure:
            error = failure
    _check_all(mesh, error, folder)


@takes(mesh=MESH, specs=SPECS)
def load(
    path: Any,
    mesh: Mesh,
    specs: Any,
    place: PlaceLike | None = None,
    classes: Iterable[type] = (),
) -> Any:
    """The tree that :func:`save` wrote last, each process's part of it; meshes may differ.

    Args:
        path: the folder.
        mesh: of the processes that read, as many as there are now; of a virtual mesh one process
            gets all parts.
        specs: how the tensors are to be divided among them, as of ``save``, whatever they were
            divided by when they were written.
        place: where the tensors are to live; None: where new tensors do.
        classes: namedtuples, and classes that no ``phix.tree`` in this process knows.

    Raises:
        FileError: there is no whole save, or it cannot be read.
        FileFormatError: the index or a part is damaged.
        ShapeError: a dim is no multiple of the size of its axis.

    >>> import phix
    >>> mesh = phix.parallel.mesh({"data": 1})
    >>> phix.parallel.save("numbers", [phix.arange(4)], mesh, "data")
    >>> phix.parallel.load("numbers", phix.parallel.mesh({"x": 1}), None)[0].tolist()
    [0, 1, 2, 3]
    """
    folder = files.checked_path(path, "load")
    home, listed = as_place(place), files.checked_classes(classes)
    with files.about("load", folder):
        index = _index(folder)
        names = Reader(_Names(index.tensors), folder, listed).tree(index.tree, None)
        leaves, _ = pytrees.flatten(names)
        wanted = spread(specs, names, mesh, "load: specs")
        dims = {v.name: d for v, d in zip(leaves, wanted) if isinstance(v, _Name)}
        arrays = _parts_read(folder, index, dims, mesh)
    return Reader(files.Tensors(arrays, home), folder, listed).tree(index.tree, None)


# -- what is written -----------------------------------------------------------------------------
@dataclass
class _Leaf:
    """A leaf of the tree on its way to a writer, with its spec."""

    value: Any
    dims: Dims


class _PartWriter(Writer):
    """The text of a tree, its tensors by name, and the spec of each."""

    def __init__(self) -> None:
        super().__init__()
        self.dims: dict[str, Dims] = {}
        self.tree: Any = None

    def _leaf(self, leaf: Any, path: Any) -> Any:
        if leaf is None:  # which belongs to the structure
            return None
        text = super()._leaf(leaf.value, path)
        if isinstance(text, dict) and "tensor" in text:
            self.dims[text["tensor"]] = leaf.dims
        return text


def _written(tree: Any, mesh: Mesh, specs: Any) -> _PartWriter:
    leaves, treedef = pytrees.flatten(tree)
    dims = spread(specs, tree, mesh, "save: specs")
    for leaf, one in zip(leaves, dims):
        if is_array(leaf) and len(one) > np.ndim(leaf):
            raise ShapeError(
                f"save: the spec {one} is of {len(one)} dims, and the tensor is of "
                f"{list(np.shape(leaf))}; give a spec of as many dims, or None"
            )
    writer = _PartWriter()
    try:
        writer.tree = writer.text(pytrees.unflatten(treedef, [*map(_Leaf, leaves, dims)]))
    except RecursionError:
        raise ArgumentError("save: the tree is nested too deeply; write a finite tree") from None
    return writer


def _digest(writer: _PartWriter) -> int:
    """A number of the names, shapes, dtypes and specs of the tensors, which all must have."""
    rows = [[n, list(a.shape), str(a.dtype), writer.dims[n]] for n, a in writer.tensors.items()]
    found = hashlib.sha256(json.dumps(sorted(rows)).encode()).digest()
    return int.from_bytes(found[:7], "big")


def _coordinates(rank: int, mesh: Mesh) -> dict[str, int]:
    """Where along each axis the process of a number is."""
    if mesh.is_virtual:
        return dict.fromkeys(mesh.axes, 0)
    return dict(zip(mesh.axes, np.unravel_index(rank, tuple(mesh.axes.values()))))  # type: ignore[arg-type]


def _is_writer(dims: Dims, mesh: Mesh, rank: int | None = None) -> bool:
    """Whether a process writes its part: of those that have the same one it is the first."""
    place = _coordinates(mesh.rank if rank is None else rank, mesh)
    return all(at == 0 for name, at in place.items() if name not in dims)


def _count(name: Any, mesh: Mesh) -> int:
    return 1 if name is None or mesh.is_virtual else mesh.axes[name]


def _part_name(token: int, rank: int) -> str:
    return f"part-{token:016x}-{rank}.safetensors"


def _commit(folder: str, token: int, writer: _PartWriter, mesh: Mesh) -> None:
    """Put the index of a save whose parts are all there into its place; the one before goes."""
    ranks = range(1 if mesh.is_virtual else mesh.size)
    tensors = {}
    for name, array in writer.tensors.items():
        dims = (*writer.dims[name], *[None] * array.ndim)[: array.ndim]
        shape = [s * _count(n, mesh) for s, n in zip(array.shape, dims)]
        parts = []
        for rank in ranks:
            if _is_writer(dims, mesh, rank):
                place = _coordinates(rank, mesh)
                start = [s * int(place[n]) if n else 0 for s, n in zip(array.shape, dims)]
                parts.append({"file": _part_name(token, rank), "start": start})
        tensors[name] = {
            "shape": shape, "part": list(array.shape), "dtype": str(array.dtype), "parts": parts,
        }  # fmt: skip
    _check_there(folder, {part["file"] for entry in tensors.values() for part in entry["parts"]})
    text = json.dumps({"format": _FORMAT, "tree": writer.tree, "tensors": tensors})

    def write(name: str) -> None:
        with open(name, "w", encoding="utf-8") as file:
            file.write(text)

    files.write_whole(os.path.join(folder, _INDEX), write)
    for name in os.listdir(folder):  # of saves before, and of those that did not come to an end
        if _OWN_FILES.fullmatch(name) and f"-{token:016x}-" not in name:
            left = os.path.join(folder, name)
            with contextlib.suppress(OSError):
                shutil.rmtree(left) if os.path.isdir(left) else os.unlink(left)


def _check_there(folder: str, parts: Iterable[str]) -> None:
    """Raise unless all parts are in the folder, where other processes have written them."""
    missing = [p for p in sorted(parts) if not os.path.exists(os.path.join(folder, p))]
    if missing:
        ranks = ", ".join(p.removesuffix(".safetensors").rpartition("-")[2] for p in missing)
        raise FileError(
            f"save: {folder}: the parts of ranks {ranks} are not there, so nothing is saved; give "
            "all ranks the same folder, of a disk that all of them see"
        )


# -- between the processes -----------------------------------------------------------------------
def _all_of(mesh: Mesh, number: int) -> np.ndarray:
    """The numbers of all processes, along the axes of the mesh; all of them have come here then."""
    found = np.asarray(number, np.int64)
    if mesh.groups is None:
        return found
    for name in reversed(mesh.axes):
        rows = found[None]
        if mesh.axes[name] > 1:
            rows = np.empty((mesh.axes[name], *found.shape), np.int64)
            mesh.groups[name].run("gather", (0,), found, rows)
        found = rows
    return found


def _agreed(mesh: Mesh, number: int) -> int:
    """The number of the first process."""
    return int(_all_of(mesh, number).reshape(-1)[0])


def _check_all(mesh: Mesh, error: Exception | None, folder: str) -> None:
    """Raise on all processes where one has an error."""
    failed = np.flatnonzero(_all_of(mesh, int(error is not None)).reshape(-1))
    if error is not None:
        raise error
    if failed.size:
        raise FileError(
            f"save: {folder}: rank {failed[0]} could not write, so nothing is saved; the error "
            "that it raised says why"
        )


def _check_alike(mesh: Mesh, writer: _PartWriter, folder: str) -> None:
    """Raise on all processes where one has other tensors than the first."""
    others = _all_of(mesh, _digest(writer)).reshape(-1)
    apart = np.flatnonzero(others != others[0])
    if apart.size:
        own = ", ".join(f"{n} {a.dtype}{list(a.shape)}" for n, a in writer.tensors.items())
        raise ArgumentError(
            f"save: {folder}: ranks 0 and {apart[0]} have tensors of other names, shapes, dtypes "
            f"or specs, so nothing is saved; rank {mesh.rank} has {own or 'none'}; give all of "
            "them parts of the same tensors, of one shape"
        )


# -- what is read --------------------------------------------------------------------------------
@dataclass
class _Index:
    tree: Any
    tensors: dict[str, Any]


@dataclass
class _Name:
    """A tensor of the index, in place of the tensor."""

    name: str


class _Names:
    """The tensors of an index as their names; see ``phix.files.saving.Tensors``."""

    def __init__(self, tensors: dict[str, Any]) -> None:
        self.arrays = tensors

    def __call__(self, name: str, dtype: Any, path: Any) -> _Name:
        return _Name(name)


def _index(folder: str) -> _Index:
    file = os.path.join(folder, _INDEX)
    if not os.path.exists(file):
        raise FileError(f"load: {folder} holds no whole save: it has no {_INDEX}")
    try:
        with open(file, encoding="utf-8") as content:
            found = json.load(content)
        if found["format"] != _FORMAT:
            raise FileFormatError(
                f"load: {file} is of the format {found['format']!r}, and this phix reads "
                f"{_FORMAT}; read it with the phix that wrote it"
            )
        return _Index(found["tree"], dict(found["tensors"]))
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"load: {file} is damaged: {error}; read another copy") from None


@dataclass
class _Piece:
    """A box that a part has of what this process wants: where it is in both."""

    name: str
    source: tuple[slice, ...]
    target: tuple[slice, ...]


def _parts_read(
    folder: str, index: _Index, dims: dict[str, Dims], mesh: Mesh
) -> dict[str, np.ndarray]:
    """This process's part of each tensor, from the files that have something of it, one by one."""
    arrays: dict[str, np.ndarray] = {}
    wanted: dict[str, list[_Piece]] = {}
    try:
        for name, entry in index.tensors.items():
            start, shape = _region(name, entry["shape"], dims.get(name, ()), mesh)
            arrays[name] = np.empty(shape, dt.as_dtype(entry["dtype"]))
            left = arrays[name].size
            for part in entry["parts"]:
                piece = _overlap(name, part["start"], entry["part"], start, shape)
                if piece is not None:
                    wanted.setdefault(part["file"], []).append(piece)
                    left -= arrays[name][piece.target].size
            if left:
                raise ValueError(f"{name!r} is not all there")
        for file, pieces in sorted(wanted.items()):
            content, _ = files.content_of(os.path.join(folder, os.path.basename(file)))
            for piece in pieces:
                wanted_shape = index.tensors[piece.name]["part"]
                if list(content[piece.name].shape) != wanted_shape:
                    raise ValueError(
                        f"{piece.name!r} in {file} is of {list(content[piece.name].shape)}, not "
                        f"{wanted_shape}"
                    )
                arrays[piece.name][piece.target] = content[piece.name][piece.source]
    except (KeyError, TypeError, ValueError, IndexError) as error:
        if isinstance(error, (FileFormatError, ShapeError)):
            raise
        raise FileFormatError(
            f"load: {folder}: the index does not fit the parts: {error}"
        ) from None
    return arrays


def _region(name: str, shape: Sequence[int], dims: Dims, mesh: Mesh) -> tuple[list[int], list[int]]:
    """Where this process's part of a tensor begins, and its shape."""
    if len(dims) > len(shape):
        raise ShapeError(
            f"load: the spec {dims} is of {len(dims)} dims, and {name!r} is of {list(shape)}; give "
            "a spec of as many dims, or None"
        )
    place = _coordinates(mesh.rank, mesh)
    start, own = [], []
    for size, axis in itertools.zip_longest(shape, dims):
        count = _count(axis, mesh)
        if size % count:
            raise ShapeError(
                f"load: {name!r} is of {list(shape)}, and {size} cannot be divided among the "
                f"{count} processes of {axis!r}; pad it, or divide another dim"
            )
        own.append(size // count)
        start.append(int(place[axis]) * own[-1] if count > 1 else 0)
    return start, own


def _overlap(
    name: str, at: Sequence[int], part: Sequence[int], start: Sequence[int], shape: Sequence[int]
) -> _Piece | None:
    source, target = [], []
    for a, n, b, m in zip(at, part, start, shape, strict=True):
        low, high = max(a, b), min(a + n, b + m)
        if low >= high:
            return None
        source.append(slice(low - a, high - a))
        target.append(slice(low - b, high - b))
    return _Piece(name, tuple(source), tuple(target))


__all__ = ["load", "save"]
