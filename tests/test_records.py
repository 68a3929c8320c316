"""``phix.core.records`` makes the classes that ``dataclasses`` makes."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import pytest

import phix
from phix.core import records

ROOT = Path(phix.__file__).parent
Known = ClassVar  # the standard library looks for the name in the module of a class


def twins(body: Callable[[], dict[str, Any]], bases: Any = (), **options: Any) -> tuple[Any, Any]:
    """A class made by phix and one made by the standard library."""
    bases = bases or ((), ())
    made = (records.dataclass, dataclasses.dataclass)
    return tuple(  # type: ignore[return-value]
        make(**options)(type("Made", own, {**body(), "__module__": __name__}))
        for make, own in zip(made, bases)
    )


def body(**defaults: Any) -> Callable[[], dict[str, Any]]:
    """What stands in a class; fields are told their names, so each class has its own."""
    annotations = {"a": "int", "b": "object", "k": "ClassVar[int]", "c": "str"}
    return lambda: {"__annotations__": annotations, "k": 8, **made(defaults)}


def made(defaults: dict[str, Any]) -> dict[str, Any]:
    return {name: value() if callable(value) else value for name, value in defaults.items()}


OPTIONS: list[dict[str, Any]] = [
    {}, {"eq": False}, {"frozen": True}, {"frozen": True, "eq": False}, {"repr": False},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=repr)
def test_classes_are_those_of_the_standard_library(options: dict[str, Any]) -> None:
    made = twins(body(b=3, c="x"), **options)
    for name in ("__match_args__", "__hash__"):
        own, theirs = (getattr(cls, name) for cls in made)
        assert own == theirs or callable(own) == callable(theirs)
    assert inspect.signature(made[0]) == inspect.signature(made[1])
    fields = [[(f.name, f.type, f.default, f.init) for f in dataclasses.fields(m)] for m in made]
    assert fields[0] == fields[1]
    seen: list[Any] = []
    for cls in made:
        one, two, other = cls(1), cls(a=1, b=3), cls(1, c="y")
        words = repr(one) if options.get("repr", True) else ""
        seen.append([words, one == two, one == other, one != 7, one == one])
        seen[-1] += [dataclasses.replace(one, b=[4]).b, dataclasses.asdict(one)]
        if cls.__hash__ is not None:
            seen[-1] += [(hash(one) == hash(two)), len({one, two, other}), type(one).__hash__]
            seen[-1].pop()
        for change in (lambda o=one: setattr(o, "a", 5), lambda o=one: delattr(o, "b")):
            try:
                change()  # type: ignore[no-untyped-call]
                seen[-1].append("done")
            except Exception as error:
                seen[-1] += [type(error), str(error)]
        for wrong in ((), (1, 2, 3, 4)):
            with pytest.raises(TypeError, match="__init__"):
                cls(*wrong)
        assert copy.deepcopy(two).c == copy.copy(two).c == "x"
    assert seen[0] == seen[1]


def test_fields_of_every_kind_and_those_of_classes_above() -> None:
    field = dataclasses.field
    first = twins(
        body(b=lambda: field(default_factory=list), c=lambda: field(default="x", repr=False)),
        eq=True,
    )
    second = twins(
        lambda: {
            "__annotations__": {"d": "int", "e": "int", "c": "str"},
            "d": field(init=False),
            "e": field(default=2, compare=False),
            "c": "z",
            "__post_init__": lambda self: setattr(self, "d", self.a + 1),
        },
        [(one,) for one in first],
    )
    seen = []
    for cls in second:
        one, other = cls(1), cls(1, e=5)
        one.b.append(3)
        other.b.append(3)
        seen.append([repr(one), one == other, one.d, cls.__match_args__, cls(1).b])
    assert seen[0] == seen[1]
    for make in (records.dataclass, dataclasses.dataclass):
        with pytest.raises(ValueError, match="mutable default"):
            make(type("Wrong", (), {"__annotations__": {"a": "list"}, "a": []}))


@records.dataclass(frozen=True)
class Pair:
    """Two values."""

    left: Any
    right: Any = None

    def __hash__(self) -> int:
        return 7


@records.dataclass
class Loop:
    """What may hold itself."""

    inside: Any = None

    def __eq__(self, other: object) -> bool:
        return True


def test_methods_of_a_class_are_its_own() -> None:
    assert hash(Pair(1)) == 7 and Pair(1) == Pair(1) != Pair(1, 2)
    assert Loop(1) == Loop(2) and Loop.__hash__ is None  # type: ignore[comparison-overlap]
    loop = Loop()
    loop.inside = loop
    assert repr(loop) == "Loop(inside=...)"
    assert pickle.loads(pickle.dumps(Pair(1, (2,)))) == Pair(1, (2,))
    match Pair(1, 2):
        case Pair(left, right):
            assert (left, right) == (1, 2)


def test_a_method_is_compiled_when_it_is_first_called() -> None:
    (cls, _) = twins(body(b=1, c="x"), frozen=True)
    before = {name: vars(cls)[name] for name in ("__eq__", "__hash__", "__repr__")}
    one = cls(1)
    assert before == {name: vars(cls)[name] for name in before}
    assert one == cls(1) and hash(one) == hash(cls(1)) and repr(one) == repr(cls(1))
    assert not set(before.values()) & {vars(cls)[name] for name in before}


def test_classes_of_phix_are_made_so() -> None:
    own = re.compile(r"^from dataclasses import .*\bdataclass\b", re.MULTILINE)
    using = {str(path) for path in ROOT.rglob("*.py") if own.search(path.read_text("utf-8"))}
    assert not using


def test_importing_phix_makes_few_methods_of_records() -> None:
    script = """
import dataclasses
made = []
real = dataclasses._process_class
dataclasses._process_class = lambda cls, *a, **k: made.append(cls.__name__) or real(cls, *a, **k)
import phix
from phix.core import records
of_others = {"PyTreeEntry", "PyTreeNodeRegistryEntry"}
assert set(made) <= of_others | {"Arg", "Output"}, made  # which have slots
made.clear()
of_phix = []
compiled = records._compiled
records._compiled = lambda cls, name, *a: of_phix.append(name) or compiled(cls, name, *a)
phix.ops.softmax(phix.to_tensor([[1.0, 2.0]]))
assert not made, made
print(of_phix.count("__init__"), len(of_phix))
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert not found.returncode, found.stderr
    inits, methods = map(int, found.stdout.split())
    assert methods < 1.5 * inits + 12


def modules() -> list[str]:
    named = pkgutil.walk_packages(phix.__path__, "phix.")
    return [m.name for m in named if ".numba" not in m.name and ".table" not in m.name]


def test_every_class_of_phix_is_what_the_standard_library_would_make() -> None:
    checked = 0
    for name in modules():
        if name.endswith("__main__"):
            continue
        try:
            module = import_module(name)
        except ImportError:
            continue
        for cls in vars(module).values():
            params = vars(cls).get("__dataclass_params__") if isinstance(cls, type) else None
            if not isinstance(params, records._Params) or cls.__module__ != name:
                continue
            theirs = dataclasses.make_dataclass(
                cls.__name__,
                [(f.name, f.type, copied(f)) for f in dataclasses.fields(cls)],
                eq=params.eq, frozen=params.frozen, repr=params.repr,
            )  # fmt: skip
            if cls.__init__.__qualname__ == f"{cls.__qualname__}.__init__":
                own = inspect.signature(cls.__init__).parameters.values()
                other = inspect.signature(theirs.__init__).parameters.values()
                assert [p.name for p in own] == [p.name for p in other], cls
            assert cls.__match_args__ == theirs.__match_args__
            checked += 1
    assert checked > 100


def copied(f: Any) -> Any:
    return (
        dataclasses.field(default=f.default, init=f.init, compare=f.compare)
        if (f.default_factory is dataclasses.MISSING)
        else dataclasses.field(default_factory=f.default_factory, init=f.init)
    )
