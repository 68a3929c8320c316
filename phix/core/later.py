"""What modules get from others that stand on them.

A tensor's operators call ops, and calling an op takes tensors; a graph is run by what knows graphs.
So the module above hands down what it has, once, when it is imported, and nobody imports upwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from phix.core import rule_modules
from phix.core.rules import OPS

Member = TypeVar("Member")
_bind: Callable[..., Any]
_infer: Callable[..., Any]


def provide_bind(bind: Callable[..., Any]) -> None:
    """Say what ``bind(op, inputs, attrs)`` is: ``core.dispatch`` does."""
    global _bind
    _bind = bind


def provide_infer(infer: Callable[..., Any]) -> None:
    """Say what ``infer(op, metas, attrs)`` is: ``interpreters.infer_meta`` does."""
    global _infer
    _infer = infer


def infer(op: Any, metas: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
    """The metas of the outputs of a call.

    Raises:
        ShapeError, DTypeError, AttributeValueError: the call is wrong.
    """
    return _infer(op, metas, attrs)


_MAKERS: dict[str, Callable[..., Any]] = {}


def maker(name: str) -> Callable[[Member], Member]:
    """Register what makes an object of a library, under that library's name for it."""

    def decorator(function: Any) -> Any:
        _MAKERS[name] = function
        return function

    return decorator


def make(name: str, *parts: Any) -> Any:
    """An object of a library, which is imported by the folder of its engine."""
    return _MAKERS[name](*parts)


def call_op(name: str, *inputs: Any, attrs: tuple[Any, ...] = ()) -> Any:
    """One call of the op of that name, by the interpreter at work."""
    return _bind(OPS[name], inputs, attrs)


def method_of(owner: type) -> Callable[[Member], Member]:
    """Make a function, a property or the like a member of a class that stands below."""

    def decorator(member: Any) -> Any:
        name = getattr(member, "fget", member).__name__
        is_new = name not in vars(owner) or name in ("__eq__", "__call__")
        if not rule_modules.is_free((owner, name), not is_new):
            raise AssertionError(f"{owner.__name__} has a {name!r} already")
        setattr(owner, name, member)
        return member

    return decorator
