"""``save`` and ``load``: trees of tensors in files of the format safetensors, and nothing executed.

A file is written in a folder beside the one of its name, brought to the disk, and renamed: whoever
reads the name finds the old file whole, or the new one.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import secrets
import shutil
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.core.annotations import PlaceLike
from phix.core.conversion import owned_tensor
from phix.core.errors import ArgumentError, DTypeError, FileError, FileFormatError, described
from phix.core.given import takes
from phix.core.places import Place, as_place
from phix.files.reading import Reader
from phix.files.structure import Writer, where

KEY = "phix.tree"  # of the metadata that holds the structure
_LONGEST = 200  # bytes of the file's name in the name of the one beside it
_DEEPEST = "the tree is nested too deeply, or holds itself; write a finite tree"
_DEEPER = (
    "the tree in it is nested more deeply than Python may call here; call sys.setrecursionlimit("
    "{more}) before, where that much is meant"
)


def checked_path(path: Any, name: str) -> str:
    """The file of a path; a link leads to the file that it names."""
    if not isinstance(path, (str, os.PathLike)):
        raise ArgumentError(
            f"{name}: path must be a str or a path, and stands first, found {described(path)}"
        )
    text = os.fspath(path)
    if not isinstance(text, str) or not text or "\0" in text:
        raise ArgumentError(f"{name}: path must be the name of a file, found {described(text)}")
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        raise ArgumentError(f"{name}: no file can have the name {text!a}: {error}") from None
    return os.path.realpath(text)


@contextlib.contextmanager
def about(name: str, path: str) -> Iterator[None]:
    """A block whose errors of the system are FileErrors that name the call and the file."""
    try:
        yield
    except FileError:  # it names the file already
        raise
    except OSError as error:
        reason = error.strerror or str(error).removesuffix(f": {path}")
        raise FileError(f"{name}: {path}: {reason}") from error


def _check_file(name: str, path: str) -> None:
    """That a file is at the path, or nothing: a device or a pipe would be replaced by a file when
    one is saved under its name, and is never read to its end.

    Raises:
        FileError: something else is there.
    """
    if os.path.isdir(path):
        raise FileError(f"{name}: {path} is a folder; write the name of a file in it")
    if os.path.exists(path) and not os.path.isfile(path):
        raise FileError(f"{name}: {path} is a device, a pipe or a socket; write the name of a file")


def _folder_beside(path: str) -> str:
    """A new folder beside ``path``, to write in; those of processes that were killed are removed.

    What a library writes on its way, under names of its own, ends with the folder.
    """
    folder, base = os.path.split(path)
    base = os.fsdecode(os.fsencode(base)[:_LONGEST])  # that the name is not longer than may be
    start = f".{base}.{_here():08x}-"
    for name in os.listdir(folder):
        if name.startswith(start) and name.endswith(".tmp"):
            maker = name[len(start) :].partition("-")[0]
            if maker.isdigit() and not _is_alive(int(maker)):
                shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
    name = os.path.join(folder, f"{start}{os.getpid()}-{secrets.token_hex(4)}.tmp")
    os.mkdir(name, 0o700)
    return name


def _here() -> int:
    """A number of where numbers of processes mean what they mean here: other computers, and
    containers, write into the same folders."""
    space = 0
    with contextlib.suppress(OSError):  # there are none on this system
        space = os.stat("/proc/self/ns/pid").st_ino
    return zlib.crc32(f"{platform.node()} {space}".encode())


def _is_alive(process: int) -> bool:
    """Whether a process runs, as far as this system lets us ask."""
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _rights(path: str, new: str) -> int:
    """Of the file at ``path``; where there is none, those of a new one, which is made."""
    try:
        return os.stat(path).st_mode & 0o777
    except OSError:
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            return os.fstat(handle).st_mode & 0o777
        finally:
            os.close(handle)


def _to_disk(path: str) -> None:
    """Wait until what was written to a file, or to the names of a folder, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@takes()
def save(path: Any, tree: Any) -> None:
    """Write a tree of tensors to a file, in the format safetensors.

    Tensors keep dtype, shape and every bit; the tree keeps its structure: lists, tuples, dicts,
    namedtuples, classes registered with ``phix.tree``, None, numbers and strings. Arrays of NumPy
    count as tensors. Other readers of the format find each tensor under the path to it
    ("layers.0.weight"); complex128, which the format has not, as float64 with a last axis of 2, and
    int4 as the uint8 of its bits.

    The file appears whole or not at all: it is written beside the old one, brought to the disk and
    renamed. Of a process that is killed at it stays a folder ``.NAME.*.tmp``, which nothing reads
    and the next save of that name on that computer removes.

    Args:
        path: the file; by convention its name ends in ``.safetensors``.
        tree: what to save.

    Raises:
        ArgumentError: something in the tree is neither a tensor nor a plain value.
        FileError: the file cannot be written.

    >>> import phix
    >>> phix.save("weights.safetensors", {"w": phix.ones([2]), "step": 3})
    >>> phix.load("weights.safetensors")["step"]
    3
    """
    file = checked_path(path, "save")
    writer = Writer()
    try:
        text = json.dumps(writer.text(tree), separators=(",", ":"), allow_nan=False)
    except RecursionError:
        raise ArgumentError(f"save: {_DEEPEST}") from None
    with about("save", file):
        _check_file("save", file)
        write_tensors(file, writer.tensors, text)


def write_tensors(file: str, tensors: dict[str, Any], text: str | None = None) -> None:
    """A file of tensors, with the text of a structure if there is one, whole or not at all."""
    import safetensors.numpy

    metadata = None if text is None else {KEY: text}
    try:
        write_whole(file, lambda n: safetensors.numpy.save_file(tensors, n, metadata=metadata))
    except safetensors.SafetensorError as error:
        raise FileError(f"save: {file}: {error}") from error


def write_whole(file: str, write: Callable[[str], None]) -> None:
    """Let ``write`` fill a file elsewhere, which takes this name once it is on the disk."""
    folder = _folder_beside(file)
    try:
        temporary = os.path.join(folder, "whole")
        rights = _rights(file, temporary)
        write(temporary)
        os.chmod(temporary, rights)
        _to_disk(temporary)
        os.replace(temporary, file)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):  # not every system lets folders be opened
        _to_disk(os.path.dirname(file))


@takes()
def load(
    path: Any,
    like: Any = None,
    place: PlaceLike | None = None,
    classes: Iterable[type] = (),
) -> Any:
    """The tree in a file that :func:`save` wrote, or a dict of the tensors in any safetensors file.

    Nothing in a file is executed, and no class is imported because a file names it: a class is one
    that was registered with ``phix.tree`` in this process, one of ``classes``, or that of ``like``.

    Args:
        path: the file.
        like: a tree of the structure to expect, with tensors, arrays or ``phix.spec`` for leaves
            (what ``phix.eval_shape`` gives, say); static parts that no file can hold, such as
            functions, are taken from it. A file of another maker is read into this structure, each
            tensor by the path to it. None: whatever the file has.
        place: where the tensors are to live; None: where new tensors do.
        classes: namedtuples, and classes whose names the file has.

    Raises:
        FileError: the file cannot be read.
        FileFormatError: it is torn, or no file of the format.
        ArgumentError: the structure is not that of ``like``, or a class is not known.
        ShapeError, DTypeError: a tensor is not as ``like`` says, or of a dtype that phix has not.

    >>> import phix
    >>> phix.save("pair.safetensors", (phix.ones([2], "bfloat16"), None))
    >>> phix.load("pair.safetensors", like=(phix.spec([2], "bfloat16"), None))[0].tolist()
    [1.0, 1.0]
    """
    file, home = checked_path(path, "load"), as_place(place)
    listed = checked_classes(classes)
    with about("load", file):
        _check_file("load", file)
        arrays, text = content_of(file)
    reader = Reader(Tensors(arrays, home), file, listed)
    try:
        if text is not None:
            return reader.tree(_parsed(text, file), like)
        return reader.by_paths(like) if like is not None else reader.all()
    except RecursionError:
        more = _DEEPER.format(more=10 * sys.getrecursionlimit())
        raise FileFormatError(f"load: {file}: {more}") from None


def checked_classes(classes: Any) -> list[type]:
    """The classes that ``load`` is given.

    Raises:
        ArgumentError: they are no list of classes.
    """
    listed = list(classes) if isinstance(classes, (list, tuple, set, frozenset)) else [None]
    if not all(isinstance(cls, type) for cls in listed):
        raise ArgumentError(f"load: classes must be a list of classes, found {described(classes)}")
    return listed  # type: ignore[return-value]


def _parsed(text: str, file: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise FileFormatError(f"load: {file}: the text of its structure is none: {error}") from None


def content_of(file: str) -> tuple[dict[str, Any], str | None]:
    """The tensors of a file, and the text of its structure, if it has one.

    A tensor that this reader has no dtype for is given as the error that says so.
    """
    import safetensors

    arrays: dict[str, Any] = {}
    try:
        with safetensors.safe_open(file, framework="np") as content:
            text = (content.metadata() or {}).get(KEY)
            for name in content.keys():  # noqa: SIM118 - it is no dict
                try:
                    arrays[name] = content.get_tensor(name)
                except (KeyError, TypeError, AttributeError, safetensors.SafetensorError):
                    found = content.get_slice(name).get_dtype()
                    arrays[name] = (
                        _bytes_of(file, name, _BYTES[found]) if found in _BYTES else found
                    )
    except (safetensors.SafetensorError, ValueError) as error:  # of too many axes, ValueError
        raise FileFormatError(
            f"load: {file} is torn, or no safetensors file: {error}; read another copy of it"
        ) from error
    return arrays, text


# What the format has and its reader for NumPy has no dtype for.
_BYTES = {"F8_E4M3": dt.float8_e4m3fn, "F8_E5M2": dt.float8_e5m2}


def _bytes_of(file: str, name: str, dtype: np.dtype) -> np.ndarray:
    """A tensor of one byte an element: the file has the size of its head, its head as JSON, and
    then the bytes of all tensors, which the head has the shapes and the places of."""
    with open(file, "rb") as content:
        size = int.from_bytes(content.read(8), "little")
        entry = json.loads(content.read(size))[name]
        start, end = entry["data_offsets"]
        content.seek(8 + size + start)
        return np.frombuffer(content.read(end - start), dtype).reshape(entry["shape"])


class Tensors:
    """The tensors of a file, by name, made on a place when they are asked for."""

    def __init__(self, arrays: dict[str, Any], place: Place | None) -> None:
        self.arrays = arrays
        self.place = place

    def __call__(self, name: str, dtype: Any, path: tuple[Any, ...]) -> Any:
        array = self.arrays[name]
        if not isinstance(array, np.ndarray) or array.dtype not in dt.NATIVE:
            found = getattr(array, "dtype", array)
            raise DTypeError(f"load: {where(path)} is a tensor of {found}, which phix has not")
        if dtype is not None:
            array = _paired(array, dtype, path)
        return owned_tensor(array, self.place)


def _paired(array: np.ndarray, dtype: Any, path: tuple[Any, ...]) -> np.ndarray:
    if dtype == "int4" and array.dtype == dt.uint8:
        return array.view(dt.int4)
    is_pair = array.ndim and array.shape[-1] == 2 and array.dtype == dt.float64
    if dtype != "complex128" or not is_pair:
        raise FileFormatError(f"load: the tensor {where(path)} is no {dtype} as save writes it")
    whole = np.array(array, order="C")
    return whole.reshape(-1).view(np.complex128).reshape(array.shape[:-1])
