"""What to write instead of a name that is not there: by close spelling, and by other libraries'.

One mechanism for modules, tensors, ops and their arguments; the words are in
:mod:`phix.core.synonyms`. Missing attributes stay AttributeErrors, so ``hasattr`` is False.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any, NoReturn

from phix.core.errors import ArgumentError, UnknownNameError
from phix.core.source import at_user_line
from phix.core.synonyms import ARGUMENTS, NAMES, OF_TENSORS


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


class Faces:
    """The public modules, by the names users write, and what is asked of them in vain."""

    def __init__(self) -> None:
        self.modules: dict[str, ModuleType] = {}

    def add(self, module: ModuleType, name: str) -> None:
        """Let a public module, and those that are public names of it, answer for missing names."""
        self.modules[name] = module
        if "__getattr__" not in vars(module):
            module.__getattr__ = self.asked(name)  # type: ignore[method-assign]
        for inner in module.__all__:
            value = vars(module).get(inner)
            if isinstance(value, ModuleType):
                self.add(value, f"{name}.{inner}")

    def asked(self, module_name: str) -> Callable[[str], Any]:
        """The ``__getattr__`` of a module."""

        def __getattr__(name: str) -> NoReturn:
            raise self.missing(module_name, name)

        return __getattr__

    def missing(self, module_name: str, name: str) -> AttributeError:
        """The error for a name that a module has not."""
        said = f"module {module_name!r} has no attribute {name!r}"
        if name.startswith("__"):
            return AttributeError(said)
        if name in NAMES and not NAMES[name].startswith(f"{module_name}.{name}("):
            return UnknownNameError(f"{said}; write {NAMES[name]}")
        elsewhere = [f"{m}.{name}" for m, face in self.modules.items() if name in face.__all__]
        if elsewhere:
            dense = [n for n in elsewhere if ".sparse." not in n]
            return UnknownNameError(f"{said}; write {' or '.join(dense or elsewhere)}")
        close = near(name, self.modules[module_name].__all__)
        close = [f"{module_name}.{n}" for n in close] or self._near_elsewhere(name)
        hint = (
            f"did you mean {', '.join(close)}?"
            if close
            else f"dir({module_name}) lists what it has"
        )
        return UnknownNameError(f"{said}; {hint}")

    def _near_elsewhere(self, name: str) -> list[str]:
        homes = {n: m for m, face in reversed(self.modules.items()) for n in face.__all__}
        return [f"{homes[n]}.{n}" for n in near(name, homes)]


FACES = Faces()


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


def mark_absent(owner: type) -> None:
    """Let a class answer for the names of the table that it has not."""
    for name in OF_TENSORS:
        if not hasattr(owner, name) and not any(name in vars(c) for c in owner.__mro__):
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
