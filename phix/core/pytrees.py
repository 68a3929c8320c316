"""Trees of tensors (tuples, lists, dicts, namedtuples, dataclasses registered with optree)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import optree

from phix.core.errors import ArgumentError, described, shown
from phix.core.exact_keys import Exact
from phix.core.faces import face
from phix.core.nodes import REGISTERED, Registered

__all__ = [
    "aligned",
    "broadcast_prefix",
    "combine",
    "flatten",
    "leaves",
    "map",
    "map_with_path",
    "partition",
    "paths",
    "register",
    "register_dataclass",
    "unflatten",
]
__dir__ = face(__all__)

NAMESPACE = "phix"
TreeDef = optree.PyTreeSpec


def _endless() -> ArgumentError:
    return ArgumentError(
        "a tree of arguments is nested too deeply, or holds itself; pass finite trees of tuples, "
        "lists and dicts"
    )


# None is a leaf-less node, as in JAX: an absent optional argument stays absent.


def flatten(tree: Any) -> tuple[list[Any], TreeDef]:
    """The leaves of a tree, and what is needed to rebuild it.

    None is no leaf: it belongs to the structure.

    >>> import phix
    >>> phix.tree.flatten({"a": 1, "b": (2, None)})[0]
    [1, 2]
    """
    try:
        return optree.tree_flatten(tree, namespace=NAMESPACE)
    except RecursionError:
        raise _endless() from None


def unflatten(treedef: TreeDef, leaves: Any) -> Any:
    """The tree of that structure with those leaves.

    >>> import phix
    >>> leaves, treedef = phix.tree.flatten({"a": 1, "b": (2, None)})
    >>> phix.tree.unflatten(treedef, [10, 20])
    {'a': 10, 'b': (20, None)}
    """
    try:
        return optree.tree_unflatten(treedef, leaves)
    except Exception as error:
        if isinstance(treedef, TreeDef) and not isinstance(error, (ValueError, TypeError)):
            raise  # from what puts a node together
        raise ArgumentError(
            f"tree.unflatten takes what tree.flatten gives, found {described(treedef)} with leaves "
            f"{shown(leaves)}: {error}"
        ) from error


def map(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """``function`` over corresponding leaves.

    >>> import phix
    >>> phix.tree.map(lambda x: x + 1, {"a": 1, "b": (2, 3)})
    {'a': 2, 'b': (3, 4)}
    """
    if not callable(function):
        raise ArgumentError(f"tree.map: function must be a function, found {described(function)}")
    flat, treedef = flatten(tree)
    others = [_under(tree, treedef, other) for other in rest]
    return optree.tree_unflatten(treedef, [function(*parts) for parts in zip(flat, *others)])


def _under(tree: Any, treedef: TreeDef, other: Any) -> list[Any]:
    """What stands in another tree where the first one has its leaves."""
    try:
        return treedef.flatten_up_to(other)
    except RecursionError:
        raise _endless() from None
    except ValueError as error:
        raise ArgumentError(
            f"tree.map: all trees must have the structure of the first, {treedef}, found "
            f"{shown(other)}"
        ) from error


def leaves(tree: Any) -> list[Any]:
    """The leaves of a tree, from left to right; of a dict in the order of its keys.

    >>> import phix
    >>> phix.tree.leaves({"b": (2, 3), "a": 1})
    [1, 2, 3]
    """
    try:
        return optree.tree_leaves(tree, namespace=NAMESPACE)
    except RecursionError:
        raise _endless() from None


def paths(tree: Any) -> list[str]:
    """Where each leaf is, in the order of :func:`leaves`: the names on the way to it, with dots.

    Names are the keys of dicts, places in lists, and fields of classes.

    >>> import phix
    >>> phix.tree.paths({"layers": [{"w": 1, "b": 2}]})
    ['layers.0.b', 'layers.0.w']
    """
    try:
        found = optree.tree_paths(tree, namespace=NAMESPACE)
    except RecursionError:
        raise _endless() from None
    return [".".join(str(part) for part in path) for path in found]


def map_with_path(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """``function(path, leaf, ...)`` over corresponding leaves; see :func:`paths`.

    >>> import phix
    >>> phix.tree.map_with_path(lambda path, x: f"{path}={x}", {"a": [1, 2]})
    {'a': ['a.0=1', 'a.1=2']}
    """
    if not callable(function):
        raise ArgumentError(
            f"tree.map_with_path: function must be a function, found {described(function)}"
        )
    where = iter(paths(tree))
    return map(lambda *parts: function(next(where), *parts), tree, *rest)


def partition(tree: Any, chosen: Any) -> tuple[Any, Any]:
    """The tree with None for the leaves that are not chosen, and with None for those that are.

    :func:`combine` puts the two together again. Derivatives and optimizers leave None alone, so the
    first may be what is trained, the second what is frozen.

    Args:
        tree: any tree.
        chosen: a function of the path and the leaf, or a tree of bools as this one.

    >>> import phix
    >>> phix.tree.partition({"w": 1, "b": 2}, lambda path, leaf: path == "w")
    ({'w': 1, 'b': None}, {'w': None, 'b': 2})
    """
    flat, treedef = flatten(tree)
    if callable(chosen):
        flags = [bool(chosen(path, leaf)) for path, leaf in zip(paths(tree), flat)]
    else:
        flags = _under(tree, treedef, chosen)
    wrong = [flag for flag in flags if not isinstance(flag, bool)]
    if wrong:
        raise ArgumentError(
            "tree.partition: chosen must be a function of path and leaf, or a tree of bools, found "
            f"{described(wrong[0])} in it"
        )
    parts = (
        [x if flag is side else None for flag, x in zip(flags, flat)] for side in (True, False)
    )
    first, second = (optree.tree_unflatten(treedef, part) for part in parts)
    return first, second


def combine(first: Any, *rest: Any) -> Any:
    """The tree that has, where it is None, what the next of the trees has that is not.

    >>> import phix
    >>> phix.tree.combine({"w": 1, "b": None}, {"w": None, "b": 2})
    {'w': 1, 'b': 2}

    Raises:
        ArgumentError: the structures differ otherwise.
    """

    def met(*parts: Any) -> Any:
        return next((part for part in parts if part is not None), None)

    try:
        return optree.tree_map(met, first, *rest, none_is_leaf=True, namespace=NAMESPACE)
    except RecursionError:
        raise _endless() from None
    except ValueError as error:
        raise ArgumentError(
            f"tree.combine: the trees must have one structure but for None, found {shown(first)} "
            f"and {', '.join(shown(other) for other in rest)}"
        ) from error


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


def aligned(tree: Any, like: Any, what: str) -> list[Any]:
    """The leaves of ``tree`` at the places of the leaves of ``like``; None stands for a subtree.

    >>> import phix
    >>> phix.tree.aligned({"a": None, "b": 5}, {"a": (1, 2), "b": 3}, "result")
    [None, None, 5]

    Raises:
        ArgumentError: the structures differ otherwise; ``what`` opens the message.
    """
    out: list[Any] = []

    def level(node: Any) -> Any:
        return optree.tree_flatten_one_level(node, none_is_leaf=True, namespace=NAMESPACE)

    def walk(node: Any, below: Any) -> None:
        if node is None:
            out.extend([None] * len(leaves(below)))
        elif optree.tree_is_leaf(below, none_is_leaf=True, namespace=NAMESPACE):
            out.append(node)
        else:
            parts, wanted, *_ = level(below)
            nodes, found, *_ = level(node) if type(node) is type(below) else ([], None)
            if len(nodes) != len(parts) or found != wanted:
                raise ArgumentError(
                    f"{what} must give a tree of structure {flatten(like)[1]}, gave "
                    f"{flatten(tree)[1]}"
                )
            for n, p in zip(nodes, parts):
                walk(n, p)

    try:
        walk(tree, like)
    except RecursionError:
        raise _endless() from None
    return out


def broadcast_prefix(prefix: Any, tree: Any, what: str) -> list[Any]:
    """One entry of ``prefix`` for each leaf of ``tree`` (``in_axes`` for arguments, say).

    An int or None stands for every leaf below it.

    >>> import phix
    >>> phix.tree.broadcast_prefix((0, None), ({"a": 1, "b": 2}, 3), "in_axes")
    [0, 0, None]

    Raises:
        ArgumentError: ``prefix`` is no prefix of the structure; ``what`` opens the message.
    """
    return _prefix_entries(prefix, tree, what, lambda n, _: n is None or isinstance(n, int))


def _prefix_entries(
    prefix: Any, tree: Any, what: str, is_entry: Callable[[Any, Any], bool]
) -> list[Any]:
    """As ``broadcast_prefix``; ``is_entry(node, tree below)`` says what stands for all leaves."""
    out: list[Any] = []

    def walk(node: Any, below: Any) -> None:
        if is_entry(node, below):
            out.extend([node] * len(leaves(below)))
            return
        nodes, own = optree.tree_flatten(
            node, is_leaf=lambda x: x is not node, none_is_leaf=True, namespace=NAMESPACE
        )
        parts, other = optree.tree_flatten(
            below, is_leaf=lambda x: x is not below, none_is_leaf=True, namespace=NAMESPACE
        )
        by_name = dict(zip(own.entries(), nodes)) if isinstance(node, dict) else None
        differ = len(nodes) != len(parts) or (len(parts) == 1 and parts[0] is below)
        if differ or (by_name is not None and by_name.keys() != set(other.entries())):
            raise ArgumentError(
                f"{what}: {shown(prefix)} is no prefix of the structure of {shown(tree, 200)}"
            )
        if by_name is not None:  # names may come in another order, as those of an OrderedDict do
            nodes = [by_name[name] for name in other.entries()]
        for n, p in zip(nodes, parts):
            walk(n, p)

    try:
        walk(prefix, tree)
    except RecursionError:
        raise _endless() from None
    return out
