"""What a tree looks like beside its tensors, as JSON.

Leaves are ``{"tensor": name}``; None, bools, ints and strings stand for themselves; everything else
is an object with one key that says what it is. Classes are named, and never imported by that name:
who reads the text is told which classes there are.
"""

from __future__ import annotations

import math
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.core.conversion import lent_tensor
from phix.core.errors import ArgumentError, FileFormatError, described
from phix.core.nodes import REGISTERED
from phix.core.tensor import TensorBase

Path = tuple[Any, ...]
_LARGEST = 1 << 53  # of the ints that every reader of JSON has
OPAQUE = {"opaque": None}  # a static value that no file can hold


def named(path: Path) -> str:
    """A place in a tree, as messages and tensors name it: ``layers.0.weight``."""
    text = ".".join(str(part) for part in path)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def where(path: Path) -> str:
    return f"at {named(path)!r}" if path else "at the root"


def class_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def is_namedtuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(type(value), "_fields")


def is_array(value: Any) -> bool:
    return isinstance(value, (TensorBase, np.ndarray, np.generic))


# -- values ----------------------------------------------------------------------------------------
def _float(value: float) -> Any:
    return {"float": value.hex() if math.isfinite(value) else str(value)}


def _int(value: int) -> Any:
    return value if -_LARGEST <= value <= _LARGEST else {"int": hex(value)}


_WRITTEN: dict[type, Callable[[Any], Any]] = {
    type(None): lambda v: v,
    bool: lambda v: v,
    str: lambda v: v,
    int: _int,
    float: _float,
    complex: lambda v: {"complex": [_float(v.real)["float"], _float(v.imag)["float"]]},
}


def _read_float(text: Any) -> float:
    return float.fromhex(text)  # it knows nan and inf as well


_READ: dict[str, Callable[[Any], Any]] = {
    "int": lambda v: int(v, 16),
    "float": _read_float,
    "complex": lambda v: complex(_read_float(v[0]), _read_float(v[1])),
    "dtype": lambda v: dt.BY_NAME[v],
    "values": lambda v: tuple(read_value(entry) for entry in v),
}


def written_value(value: Any) -> Any:
    """A plain value, or what belongs to the structure, as JSON; None of it holds tensors."""
    if type(value) in _WRITTEN:
        return _WRITTEN[type(value)](value)
    if isinstance(value, np.dtype) and str(value) in dt.BY_NAME:
        return {"dtype": str(value)}
    if type(value) is tuple:
        return {"values": [written_value(v) for v in value]}
    return OPAQUE


def has_opaque(text: Any) -> bool:
    if isinstance(text, dict):
        return "opaque" in text or any(map(has_opaque, text.values()))
    return isinstance(text, list) and any(map(has_opaque, text))


def read_value(text: Any) -> Any:
    """The value of what :func:`written_value` gave."""
    if text is None or isinstance(text, (bool, int, str)):
        return text
    kind, content = only(text)
    if kind not in _READ:
        raise FileFormatError(f"a value of kind {kind!r} is none that phix writes")
    return _READ[kind](content)


def only(text: Any) -> tuple[str, Any]:
    """The kind and the content of an object, which come first in it."""
    if not isinstance(text, dict) or not text:
        raise FileFormatError(f"found {described(text)} where the text of a tree has an object")
    return next(iter(text.items()))


# -- nodes -----------------------------------------------------------------------------------------
def parts_of(node: Any) -> tuple[str, list[tuple[Any, Any]], Any] | None:
    """The kind of a node, its children with the names of their places, and its static part.

    None of a leaf.
    """
    kind = type(node)
    if kind in (list, tuple):
        return kind.__name__, list(enumerate(node)), None
    if kind in (dict, OrderedDict):
        return ("dict" if kind is dict else "ordered"), list(node.items()), None
    if is_namedtuple(node):
        return "named", list(zip(node._fields, node)), None
    registered = REGISTERED.get(kind)
    if registered is None:
        return None
    children, static, entries = registered.parts(node)
    return "node", list(zip(entries, children)), static


class Writer:
    """Makes the text of a tree, and gathers its tensors by name."""

    def __init__(self) -> None:
        self.tensors: dict[str, Any] = {}
        self._taken = {"__metadata__"}

    def text(self, node: Any, path: Path = ()) -> Any:
        found = parts_of(node)
        if found is None:
            return self._leaf(node, path)
        kind, children, static = found
        if kind in ("list", "tuple"):
            return {kind: [self.text(c, (*path, n)) for n, c in children]}
        if kind in ("dict", "ordered"):
            return {kind: [[self._key(k, path), self.text(c, (*path, k))] for k, c in children]}
        inner = [[str(n), self.text(c, (*path, n))] for n, c in children]
        text = {kind: class_name(type(node)), "children": inner}
        return text if kind == "named" else {**text, "static": written_value(static)}

    def _key(self, key: Any, path: Path) -> Any:
        text = written_value(key)
        if has_opaque(text):
            raise ArgumentError(
                f"save: the dict {where(path)} has the key {described(key)}; keys may be strings, "
                "numbers, None and tuples of them"
            )
        return text

    def _leaf(self, leaf: Any, path: Path) -> Any:
        if type(leaf) in _WRITTEN:
            return written_value(leaf)
        if not is_array(leaf):
            raise ArgumentError(
                f"save: found {described(leaf)} {where(path)}; a file holds tensors, numbers, "
                "strings and None, in lists, tuples, dicts, namedtuples and registered classes"
            )
        values = np.require(np.asarray(lent_tensor(leaf).numpy()), requirements="C")
        name = base = named(path) or "tensor"
        number = 1
        while name in self._taken:
            number += 1
            name = f"{base}#{number}"
        self._taken.add(name)
        if values.dtype == dt.complex128:  # which the format has not
            self.tensors[name] = values.reshape(-1).view(np.float64).reshape(*values.shape, 2)
            return {"tensor": name, "dtype": "complex128"}
        if values.dtype == dt.int4:  # nor this
            self.tensors[name] = values.view(dt.uint8)
            return {"tensor": name, "dtype": "int4"}
        self.tensors[name] = values
        return {"tensor": name}


def _of_phix(name: Any) -> list[type]:
    """The class of named tuples that phix itself has under a name, if its module is imported."""
    module, _, own = name.rpartition(".") if isinstance(name, str) else ("", "", "")
    if not module.startswith("phix."):
        return []
    found = vars(sys.modules[module]).get(own) if module in sys.modules else None
    is_named = isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields")
    return [found] if isinstance(found, type) and is_named and class_name(found) == name else []


# -- classes ---------------------------------------------------------------------------------------
class Classes:
    """Finds a class by its name, among those that were registered or given."""

    def __init__(self, given: Iterable[type]) -> None:
        self._given = {class_name(cls): cls for cls in given}

    def find(self, name: Any, kind: str, path: Path) -> type:
        known = [cls for cls in REGISTERED if class_name(cls) == name] or _of_phix(name)
        if isinstance(name, str) and name in self._given:
            known = [self._given[name]]
        if len(known) == 1 and (kind == "named") == hasattr(known[0], "_fields"):
            return known[0]
        many = "several classes of that name are registered" if known else "no such class is known"
        is_own = isinstance(name, str) and name.startswith("phix.")
        module = name.rpartition(".")[0] if is_own else "the module that registers it"
        raise ArgumentError(
            f"load: the file has a {name} {where(path)}, and {many}; import {module} "
            "(phix.tree.register_dataclass registers classes), or pass classes=[...] or like=a "
            "tree of the structure"
        )
