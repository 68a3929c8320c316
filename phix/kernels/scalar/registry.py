"""Where the scalar bodies of the pointwise primitives are registered, by op name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from phix.core import registries, rule_modules
from phix.core.errors import PhixError
from phix.core.rules import note_origin
from phix.kernels.scalar.language import Complex

# an Expr or a Complex, in bodies that use the operators both have
Scalar = Any
Body = Callable[..., Any]
_F = TypeVar("_F", bound=Body)

_bodies: dict[str, Body] = {}
_complex_bodies: dict[str, Body] = {}
_native: set[str] = set()
registries.additions("bodies", _bodies)
registries.additions("complex bodies", _complex_bodies)


def body(name: str, *, complex: bool = False, native: bool = False) -> Callable[[_F], _F]:
    """Register the decorated function as the scalar body of the primitive ``name``.

    It takes the op's tensor inputs as scalars of one promoted dtype (Expr, or Complex for the
    complex dtypes; float32 stands for float16 and bfloat16), the op's attributes as keyword
    arguments, and returns the scalar result. It is free of branches on values: ``select`` alone.
    A primitive whose complex formula differs has a second body, registered with ``complex``. One
    that is ``native`` calls code of the CPU, and other engines have no use for it.
    """
    table = _complex_bodies if complex else _bodies
    kind = "complex bodies" if complex else "bodies"

    def register(function: _F) -> _F:
        if not rule_modules.is_own():
            importlib.import_module(f"{__package__}.bodies")  # phix's own come first
        if not rule_modules.is_free((kind, name), name in table):
            raise PhixError(f"{name} has a scalar body already: {table[name].__module__}")
        if not native:
            note_origin(name)
        table[name] = function
        _native.update({name} if native else ())
        return function

    return register


@cache
def get(name: str) -> Body:
    """The scalar body of the primitive ``name``; KeyError where there is none."""
    if name not in _complex_bodies:
        return _bodies[name]
    of_real, of_complex = _bodies[name], _complex_bodies[name]

    def choose(*inputs: Any, **attrs: Any) -> Any:
        is_complex = any(isinstance(x, Complex) for x in inputs)
        return (of_complex if is_complex else of_real)(*inputs, **attrs)

    return choose


@registries.part
def _save() -> registries.Restore:
    """Which are native, none of the library's own; :func:`get` remembers bodies."""
    before = set(_native)

    def restore() -> None:
        _native.intersection_update(before)
        get.cache_clear()

    return restore


def module(name: str) -> str:
    """The file, by its name alone, that holds the scalar body of the primitive ``name``."""
    return _bodies[name].__module__.rpartition(".")[2]


def names() -> tuple[str, ...]:
    """The primitives that have a scalar body, sorted."""
    return tuple(sorted(_bodies))


def is_native(name: str) -> bool:
    """Whether the body of a primitive is code of the CPU."""
    return name in _native
