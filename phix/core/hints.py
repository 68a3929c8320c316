"""What to write instead of a name that is not there: by close spelling, and by other libraries'.

One mechanism for modules, tensors, ops and their arguments; the words are in
:mod:`phix.core.synonyms`. Missing attributes stay AttributeErrors, so ``hasattr`` is False.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from phix.core.errors import ArgumentError, UnknownNameError
from phix.core.faces import MODULES, provide_answer
from phix.core.source import at_user_line
from phix.core.synonyms import ARGUMENTS, NAMES, OF_TENSORS, OF_UPDATES


def near(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """The known names nearest in spelling."""
    import difflib

    # what works in place is proposed to who asks for it
    names = {k.lower(): k for k in known if not _is_variant(k) or name.endswith("_")}
    return [names[n] for n in difflib.get_close_matches(name.lower(), names, n=most, cutoff=0.7)]


def _is_variant(name: str) -> bool:
    """Whether it works in place, or is a backward op."""
    return name.endswith("_") or (name.endswith("_grad") and name != "value_and_grad")


def proposal(name: str, known: Iterable[str]) -> str:
    """``did you mean ...?`` of the known names, those that other libraries' names stand for too."""
    known = set(known)
    there = NAMES.get(name, "").removeprefix("phix.ops.").partition("(")[0]
    found = [there] if there in known else []
    found += [n for n in near(name, known) if n not in found]
    return f"did you mean {', '.join(found)}?" if found else ""


# The faces of modules that users know by another name, and those imported on first use.
_NAMED = {"phix.core.pytrees": "phix.tree", "phix.core.errors": "phix.errors"}
_LATER = (
    "debug", "fft", "linalg", "lod", "nn", "numpy", "optim", "parallel", "random", "scipy",
    "selected_rows", "sparse", "strings",
)  # fmt: skip


def _offers() -> dict[str, Sequence[str]]:
    """What each public module offers, by the names users write."""
    for name in _LATER:
        importlib.import_module(f"phix.{name}")
    return {_NAMED.get(name, name): offered for name, offered in MODULES.items()}


def missing_name(module_name: str, name: str) -> AttributeError:
    """The error for a name that a public module has not."""
    module_name = _NAMED.get(module_name, module_name)
    said = f"module {module_name!r} has no attribute {name!r}"
    if name in NAMES and not NAMES[name].startswith(f"{module_name}.{name}("):
        return UnknownNameError(f"{said}; write {NAMES[name]}")
    offers = _offers()
    elsewhere = [f"{m}.{name}" for m, offered in offers.items() if name in offered]
    if elsewhere:
        dense = [n for n in elsewhere if ".sparse." not in n]
        return UnknownNameError(f"{said}; write {' or '.join(sorted(dense or elsewhere, key=len))}")
    close = [f"{module_name}.{n}" for n in near(name, offers[module_name])]
    if not close:
        homes = {n: m for m, offered in reversed(offers.items()) for n in offered}
        close = [f"{homes[n]}.{n}" for n in near(name, homes)]
    hint = f"did you mean {', '.join(close)}?" if close else f"dir({module_name}) lists what it has"
    return UnknownNameError(f"{said}; {hint}")


provide_answer(missing_name)


def missing_member(owner: type, name: str, face: str, way: str) -> AttributeError:
    """The error for a method that objects of a class have not, and a face may have as a function;
    ``way`` leads to what has all methods."""
    said = f"{owner.__name__!r} object has no attribute {name!r}"
    if name.startswith("_") or face not in MODULES:
        return AttributeError(said)
    known = [n for n in MODULES[face] if n.islower()]
    close = [name] if name in known else near(name, known, 1)
    own = f"{face}.{close[0]}(x), or " if close else ""
    return UnknownNameError(f"{said}; write {own}{way}")


def missing_update(name: str, is_indexed: bool) -> AttributeError:
    """The error for an update that ``x.at[i]``, or ``x.at`` without an index, has not."""
    said = f"x.at{'[i]' * is_indexed} has no attribute {name!r}"
    if name.startswith("_"):
        return AttributeError(said)
    known = ["get", "set", "add", "multiply", "max", "min"]
    if name in known:
        return UnknownNameError(f"{said}; index it first, x.at[i].{name}(...)")
    close = [f"x.at[i].{n}(...)" for n in near(name, known, 1)]
    ways = [OF_UPDATES[name]] if name in OF_UPDATES else close
    return UnknownNameError(f"{said}; write {ways[0] if ways else 'one of ' + ', '.join(known)}")


class Absent:
    """An attribute that tensors have not, though other libraries' have: it says what to write.

    As a descriptor it costs the attributes that are there nothing.
    """

    __slots__ = ("hint", "name")

    def __init__(self, name: str) -> None:
        self.name, self.hint = name, OF_TENSORS[name]

    def __get__(self, tensor: Any, owner: type) -> NoReturn:
        raise UnknownNameError(f"{owner.__name__!r} object has no attribute {self.name!r}; "
                               f"{self.hint}")  # fmt: skip

    def __set__(self, tensor: Any, value: Any) -> NoReturn:
        self.__get__(tensor, type(tensor))


def mark_absent(owner: type) -> None:
    """Let a class answer for the names of the table that it has not."""
    for name in OF_TENSORS:
        if not any(name in vars(c) for c in owner.__mro__):
            setattr(owner, name, Absent(name))


def public_names(owner: type) -> list[str]:
    """What ``dir`` shows of a class: no absent name, and no backward op."""
    names = {n for c in owner.__mro__ for n, v in vars(c).items() if not isinstance(v, Absent)}
    return sorted(n for n in names if not n.endswith("_grad"))


def unknown_arguments(what: str, known: Iterable[str], unknown: Iterable[str]) -> ArgumentError:
    """The error for keywords that a function does not take."""
    known = list(known)
    ways = [f"{_argument_way(name, known)}" for name in sorted(unknown)]
    return ArgumentError(f"{what}{at_user_line()}: {'; '.join(ways)}")


def _argument_way(name: str, known: Sequence[str]) -> str:
    found = next((k for k in ARGUMENTS.get(name, ()) if k in known), None)
    close = [found] if found else near(name, known, 1)
    if close:
        return f"no argument {name!r}; write {close[0]}="
    takes = f"the arguments are {', '.join(known)}" if known else "there are no arguments"
    return f"no argument {name!r}; leave it out, {takes}"


_UNEXPECTED = re.compile(r"(\w+)\(\) got an unexpected keyword argument '(\w+)'$")


def with_argument_hint(error: TypeError, arguments: Callable[[str], Sequence[str]]) -> None:
    """Put into Python's own error of an unexpected keyword what to write.

    ``arguments`` gives the names that a function of that name takes, none if it is not ours.
    """
    found = _UNEXPECTED.match(str(error))
    known = arguments(found[1]) if found else ()
    if found and known:
        error.args = (f"{error}: {_argument_way(found[2], known)}",)
