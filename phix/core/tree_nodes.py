"""How a class becomes a node of trees."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import optree

from phix.core.errors import ArgumentError, described
from phix.core.exact_keys import Exact
from phix.core.nodes import REGISTERED, Registered

NAMESPACE = "phix"


def register(cls: type, flatten_fn: Callable[..., Any], unflatten_fn: Callable[..., Any]) -> None:
    """Make ``cls`` a tree node.

    Args:
        cls: the type of the node.
        flatten_fn: ``node -> (children, aux)``, aux hashable and compared exactly: 0.0 is not -0.0,
            1 is not 1.0. A third entry may name the children in paths, as a tuple of that length.
        unflatten_fn: ``(aux, children) -> node``.

    >>> import phix
    >>> class Interval:
    ...     def __init__(self, low, high):
    ...         self.low, self.high = low, high
    >>> phix.tree.register(
    ...     Interval, lambda i: ((i.low, i.high), None), lambda aux, ends: Interval(*ends)
    ... )
    >>> phix.tree.map(lambda x: x + 1, Interval(0, 1)).high
    2
    """
    if not isinstance(cls, type) or not callable(flatten_fn) or not callable(unflatten_fn):
        raise ArgumentError(
            "tree.register takes a class and two functions, found "
            f"{described(cls)}, {described(flatten_fn)} and {described(unflatten_fn)}"
        )

    def parts(node: Any) -> Any:
        children, aux, *entries = flatten_fn(node)
        return (children, Exact(aux), *entries)

    def whole(aux: Any, children: Any) -> Any:
        return unflatten_fn(aux.value, children)

    try:
        optree.register_pytree_node(cls, parts, whole, namespace=NAMESPACE)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"tree.register: {cls.__name__} is a node already, or can be none; register each class "
            f"once ({error})"
        ) from error

    def bare(node: Any) -> tuple[Sequence[Any], Any, Sequence[Any]]:
        children, aux, *entries = flatten_fn(node)
        children = list(children)
        return children, aux, entries[0] if entries else range(len(children))

    REGISTERED[cls] = Registered(bare, unflatten_fn)


def register_dataclass(
    cls: type | None = None,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] = (),
) -> Any:
    """Make a dataclass a tree node; works as a decorator.

    Args:
        cls: the dataclass.
        data_fields: the fields that are children; all that are not meta_fields where None.
        meta_fields: the fields that belong to the structure: hashable, compared by value.

    Raises:
        ArgumentError: cls is no dataclass, or the fields are not all of its own that it is made
            from.

    >>> import dataclasses
    >>> import phix
    >>> @phix.tree.register_dataclass
    ... @dataclasses.dataclass
    ... class Point:
    ...     x: float
    ...     y: float
    >>> phix.tree.map(lambda v: 2 * v, Point(1.0, 2.0))
    Point(x=2.0, y=4.0)
    """
    if cls is None:
        return lambda c: register_dataclass(c, data_fields, meta_fields)
    if not dataclasses.is_dataclass(cls):
        raise ArgumentError(f"register_dataclass takes a dataclass, found {cls!r}")
    own = [f.name for f in dataclasses.fields(cls) if f.init]
    meta = tuple(meta_fields)
    data = tuple(n for n in own if n not in meta) if data_fields is None else tuple(data_fields)
    if sorted((*data, *meta)) != sorted(own):
        raise ArgumentError(
            f"register_dataclass: the fields of {cls.__name__} are {own}, found data_fields "
            f"{list(data)} and meta_fields {list(meta)}; name each once"
        )
    made: Any = cls

    def parts(node: Any) -> Any:
        return [getattr(node, n) for n in data], tuple(getattr(node, n) for n in meta), data

    def whole(aux: Any, children: Any) -> Any:
        return made(**dict(zip(data, children)), **dict(zip(meta, aux)))

    register(cls, parts, whole)
    return cls
