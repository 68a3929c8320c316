"""``dataclass`` as the standard library has it, for classes of phix: made in a fifth of the time.

The standard library has Python compile five texts for a class, one a method, before anybody calls
one; of the time that ``import phix`` takes it was a quarter, of a first call's a third. Here a
class gets its ``__init__``, and what compares, hashes and shows when that is first called. What is
made is the same: fields, ``replace``, matching, comparison, hashes, errors.

``slots``, ``order`` and the like are the standard library's, as are classes whose annotations are
no texts, or with ``InitVar``.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
else:
    from dataclasses import field as field

    def dataclass(cls=None, /, **options):
        """As ``dataclasses.dataclass``."""
        if cls is None:
            return lambda cls: _record(cls, **options)
        return _record(cls, **options)


_MISSING = dataclasses.MISSING
_PLAIN: Any = getattr(dataclasses, "_FIELD", None)  # the kind of a field, in Python 3.7 to 3.14
_OPTIONS = {"eq", "frozen", "repr"}
_OTHERS = ("InitVar", "KW_ONLY")
_METHODS: dict[str, Callable[[list[Any]], str]] = {}  # the text of a method of such fields


class _Params:
    """What ``__dataclass_params__`` says."""

    init = match_args = True
    order = unsafe_hash = kw_only = slots = weakref_slot = False

    def __init__(self, eq: bool, frozen: bool, repr: bool) -> None:
        self.eq, self.frozen, self.repr = eq, frozen, repr


def _record(cls: Any, **options: Any) -> Any:
    if not _PLAIN or not options.keys() <= _OPTIONS or not _is_plain(cls.__annotations__):
        return dataclasses.dataclass(**options)(cls)
    eq, frozen = options.get("eq", True), options.get("frozen", False)
    shown = options.get("repr", True)
    fields: dict[str, Any] = {}
    for base in cls.__mro__[-1:0:-1]:
        above = getattr(base, "__dataclass_fields__", {})
        fields.update({name: f for name, f in above.items() if f._field_type is _PLAIN})
    for name, kind in cls.__annotations__.items():
        if "ClassVar" not in kind:
            fields[name] = _field(cls, name, kind)
    cls.__dataclass_fields__, cls.__dataclass_params__ = fields, _Params(eq, frozen, shown)
    own = vars(cls)
    if "__init__" not in own:
        _make_init(cls, list(fields.values()), frozen)
    if "__match_args__" not in own:
        cls.__match_args__ = tuple([f.name for f in fields.values() if f.init])  # type: ignore[misc]
    if shown and "__repr__" not in own:
        _make_later(cls, "__repr__")
    if eq:
        _make_equality(cls, frozen)
    if frozen:
        _freeze(cls, frozenset(fields))
    return cls


def _is_plain(annotations: dict[str, Any]) -> bool:
    """Whether a class has plain fields, and variables of the class, alone."""
    return all(
        isinstance(text, str) and not any(word in text for word in _OTHERS)
        for text in annotations.values()
    )


def _field(cls: Any, name: str, kind: Any) -> Any:
    default: Any = getattr(cls, name, _MISSING)
    found: Any = default if isinstance(default, dataclasses.Field) else field(default=default)
    found.name, found.type, found._field_type, found.kw_only = name, kind, _PLAIN, False
    if found is default:
        if found.default is _MISSING:
            delattr(cls, name)
        else:
            setattr(cls, name, found.default)
    if found.default.__class__.__hash__ is None:
        raise ValueError(f"mutable default {type(found.default)} for field {name}")
    return found


def _compiled(cls: Any, name: str, text: str, scope: dict[str, Any]) -> Any:
    """The function of a text, as a method of a class."""
    made: dict[str, Any] = {}
    exec(text, {"__name__": cls.__module__, **scope}, made)
    function = made[name]
    function.__qualname__ = f"{cls.__qualname__}.{name}"
    function.__module__ = cls.__module__
    setattr(cls, name, function)
    return function


def _make_init(cls: Any, fields: list[Any], frozen: bool) -> None:
    scope: dict[str, Any] = {"set_": object.__setattr__, "MISSING": _MISSING}
    taken, body = [], []
    for f in fields:
        name = f.name
        value = name
        if f.default_factory is not _MISSING:
            scope[f"make_{name}"] = f.default_factory
            value = (
                f"make_{name}() if {name} is MISSING else {name}" if f.init else f"make_{name}()"
            )
            taken += [f"{name}=MISSING"] if f.init else []
        elif not f.init:
            continue  # who makes it sets it, or it is the default of the class
        elif f.default is _MISSING:
            taken.append(name)
        else:
            scope[f"default_{name}"] = f.default
            taken.append(f"{name}=default_{name}")
        body.append(f" set_(self, {name!r}, {value})" if frozen else f" self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append(" self.__post_init__()")
    lines = [f"def __init__({', '.join(['self', *taken])}):", *(body or [" pass"])]
    init = _compiled(cls, "__init__", "\n".join(lines), scope)
    init.__annotations__ = {f.name: f.type for f in fields if f.init} | {"return": None}


def _make_later(cls: Any, name: str) -> None:
    """Let a method be made when it is first called."""

    def first(self: Any, *others: Any) -> Any:
        text = _METHODS[name](list(cls.__dataclass_fields__.values()))
        return _compiled(cls, name, text, {"_guarded": _guarded})(self, *others)

    setattr(cls, name, first)


def _make_equality(cls: Any, frozen: bool) -> None:
    own = vars(cls)
    given, has_own = own.get("__hash__", _MISSING), "__eq__" in own
    if not has_own:
        _make_later(cls, "__eq__")
    if given is _MISSING or (given is None and has_own):
        if frozen:
            _make_later(cls, "__hash__")
        else:
            cls.__hash__ = None


def _freeze(cls: Any, names: frozenset[str]) -> None:
    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    cls.__setattr__, cls.__delattr__ = __setattr__, __delattr__


# -- texts of methods ----------------------------------------------------------------------------
def _values(of: str, fields: list[Any]) -> str:
    return f"({''.join(f'{of}.{f.name}, ' for f in fields)})"


def _equality(fields: list[Any]) -> str:
    compared = [f for f in fields if f.compare]
    both = f"{_values('self', compared)} == {_values('other', compared)}"
    return (
        "def __eq__(self, other):\n if other.__class__ is self.__class__:\n"
        f"  return {both}\n return NotImplemented"
    )


def _hash(fields: list[Any]) -> str:
    hashed = [f for f in fields if (f.compare if f.hash is None else f.hash)]
    return f"def __hash__(self):\n return hash({_values('self', hashed)})"


def _shown(fields: list[Any]) -> str:
    each = ", ".join(f"{f.name}={{self.{f.name}!r}}" for f in fields if f.repr)
    return f"@_guarded\ndef __repr__(self):\n return f'{{self.__class__.__qualname__}}({each})'"


def _guarded(function: Any) -> Any:
    """A ``__repr__`` that shows what holds itself as ``...`` there."""
    import reprlib

    return reprlib.recursive_repr()(function)


_METHODS |= {"__eq__": _equality, "__hash__": _hash, "__repr__": _shown}
