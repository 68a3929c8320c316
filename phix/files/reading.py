"""The tree of a text and its tensors, beside a tree that says what to expect."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from phix.core import dims as dm
from phix.core.errors import (
    ArgumentError,
    DTypeError,
    FileFormatError,
    PhixError,
    ShapeError,
    described,
)
from phix.core.exact_keys import exact_key
from phix.core.meta import MetaTensor
from phix.core.nodes import REGISTERED
from phix.files.structure import (
    Classes,
    Path,
    class_name,
    has_opaque,
    is_array,
    named,
    only,
    parts_of,
    read_value,
    where,
)

_NODES = ("list", "tuple", "dict", "ordered", "named", "node")
_DAMAGE = (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError)
_ANY: Any = object()  # where nothing is expected


class Reader:
    """Reads trees out of one file."""

    def __init__(self, tensors: Any, file: str, classes: Iterable[Any]) -> None:
        self._tensors = tensors
        self._file = file
        self._classes = Classes(classes)

    # -- files of phix -----------------------------------------------------------------------------
    def tree(self, text: Any, like: Any) -> Any:
        """The tree; ``like`` None expects nothing."""
        try:
            return self._read(text, _ANY if like is None else like, ())
        except PhixError:
            raise
        except _DAMAGE as error:
            raise FileFormatError(
                f"load: {self._file}: the text of its structure is damaged: {error}"
            ) from error

    def _read(self, text: Any, like: Any, path: Path) -> Any:
        if isinstance(text, dict) and "tensor" in text:
            return self._tensor(text, like, path)
        kind = only(text)[0] if isinstance(text, dict) else ""
        if kind not in _NODES:
            return self._value(read_value(text), like, path)
        children = text["children"] if kind in ("named", "node") else text[kind]
        if kind in ("list", "tuple"):
            children = list(enumerate(children))
        elif kind in ("dict", "ordered"):
            children = [(read_value(k), c) for k, c in children]
        if like is _ANY:
            parts = [(n, self._read(c, _ANY, (*path, n))) for n, c in children]
            return self._built(text, kind, parts, path)
        return self._matched(text, kind, children, like, path)

    def _tensor(self, text: Any, like: Any, path: Path) -> Any:
        if text["tensor"] not in self._tensors.arrays:
            raise FileFormatError(f"load: {self._file} has no tensor {where(path)}; it is damaged")
        if like is not _ANY and not (is_array(like) or isinstance(like, MetaTensor)):
            raise _other(path, f"like has {_kind_of(like)}", "the file a tensor")
        made = self._tensors(text["tensor"], text.get("dtype"), path)
        return _checked(made, like, path)

    def _value(self, value: Any, like: Any, path: Path) -> Any:
        if like is not _ANY and type(like) is not type(value):
            raise _other(path, f"like has {_kind_of(like)}", f"the file {described(value)}")
        return value

    def _matched(self, text: Any, kind: str, children: Any, like: Any, path: Path) -> Any:
        found = parts_of(like)
        if found is None or found[0] != kind:
            raise _other(path, f"like has {_kind_of(like)}", f"the file a {kind}")
        _, parts, static = found
        if kind in ("named", "node") and class_name(type(like)) != text[kind]:
            raise _other(path, f"like has a {class_name(type(like))}", f"the file a {text[kind]}")
        wanted = dict(parts)
        names = {n: n for n in wanted}
        if kind in ("named", "node"):
            names = {str(n): n for n in wanted}
        missing = [str(n) for n in wanted if str(n) not in {str(k) for k, _ in children}]
        extra = [str(n) for n, _ in children if n not in names]
        if missing or extra or len(children) != len(wanted):
            raise _other(path, *_differences(missing, extra))
        read = {names[n]: self._read(c, wanted[names[n]], (*path, n)) for n, c in children}
        if kind == "node":
            self._check_static(text["static"], static, path)
            node = REGISTERED.get(type(like))
            assert node is not None
            return node.whole(static, [read[n] for n, _ in parts])
        order = [(n, read[n]) for n, _ in (parts if kind == "named" else children)]
        return type(like)(*read.values()) if kind == "named" else _plain(kind, order)

    def _check_static(self, text: Any, static: Any, path: Path) -> None:
        if has_opaque(text):
            return
        value = read_value(text)
        if exact_key(value) != exact_key(static):
            raise _other(path, f"like is made with {static!r}", f"the file with {value!r}")

    def _built(self, text: Any, kind: str, parts: list[tuple[Any, Any]], path: Path) -> Any:
        if kind not in ("named", "node"):
            return _plain(kind, parts)
        cls: Any = self._classes.find(text[kind], kind, path)
        if kind == "named":
            if list(cls._fields) != [n for n, _ in parts]:
                raise _other(path, f"{cls.__name__} has {list(cls._fields)}",
                             f"the file {[n for n, _ in parts]}")  # fmt: skip
            return cls(*(value for _, value in parts))
        if has_opaque(text["static"]):
            raise ArgumentError(
                f"load: the {text[kind]} {where(path)} was made with something that no file holds "
                "(a function, say); pass like=a tree of the structure"
            )
        node = REGISTERED.get(cls)
        if node is None:
            raise ArgumentError(
                f"load: {text[kind]} {where(path)} is no node; register it with phix.tree"
            )
        return node.whole(read_value(text["static"]), [value for _, value in parts])

    # -- files of other makers ---------------------------------------------------------------------
    def all(self) -> dict[str, Any]:
        """Every tensor, by its name."""
        return {name: self._tensors(name, None, (name,)) for name in self._tensors.arrays}

    def by_paths(self, like: Any) -> Any:
        """The tree ``like`` with the tensors that its paths name."""
        used: set[str] = set()
        tree = self._filled(like, (), used)
        extra = sorted(set(self._tensors.arrays) - used)
        if extra:
            raise _other((), *_differences([], extra))
        return tree

    def _filled(self, like: Any, path: Path, used: set[str]) -> Any:
        found = parts_of(like)
        if found is None:
            if not (is_array(like) or isinstance(like, MetaTensor)):
                return like
            name = named(path)
            if name not in self._tensors.arrays:
                raise _other(path, "like has a tensor", f"the file none of the name {name!r}")
            used.add(name)
            return _checked(self._tensors(name, None, path), like, path)
        kind, parts, static = found
        read = [(n, self._filled(c, (*path, n), used)) for n, c in parts]
        if kind == "node":
            node = REGISTERED.get(type(like))
            assert node is not None
            return node.whole(static, [c for _, c in read])
        return type(like)(*(c for _, c in read)) if kind == "named" else _plain(kind, read)


def _plain(kind: str, parts: list[tuple[Any, Any]]) -> Any:
    if kind in ("list", "tuple"):
        return {"list": list, "tuple": tuple}[kind](value for _, value in parts)
    return dict(parts) if kind == "dict" else OrderedDict(parts)


def _checked(made: Any, like: Any, path: Path) -> Any:
    if like is _ANY:
        return made
    wanted = like.dtype.newbyteorder("=")  # the order of bytes is none of a tensor
    if made.dtype != wanted:
        raise DTypeError(f"load: {where(path)} like has {wanted}, the file {made.dtype}")
    dims = tuple(like.shape)
    if len(dims) != made.ndim or not all(map(dm.may_equal, dims, made.shape)):
        raise ShapeError(
            f"load: {where(path)} like has the shape {list(dims)}, the file {list(made.shape)}"
        )
    return made


def _kind_of(like: Any) -> str:
    return "a tensor" if is_array(like) or isinstance(like, MetaTensor) else described(like)


def _differences(missing: list[str], extra: list[str]) -> tuple[str, str]:
    def shown(names: list[str]) -> str:
        return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")

    return f"like alone has [{shown(missing)}]", f"the file alone [{shown(extra)}]"


def _other(path: Path, wanted: str, found: str) -> ArgumentError:
    return ArgumentError(f"load: {where(path)} the structure differs: {wanted}, {found}")
