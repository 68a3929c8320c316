"""Trees of tensors (tuples, lists, dicts, namedtuples, dataclasses registered with optree)."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable
from typing import Any

import optree

from phix.core.errors import ArgumentError, PhixError, described, shown
from phix.core.faces import face
from phix.core.tree_nodes import NAMESPACE as NAMESPACE
from phix.core.tree_nodes import register as register
from phix.core.tree_nodes import register_dataclass as register_dataclass

__all__ = [
    "aligned",
    "all",
    "broadcast",
    "broadcast_prefix",
    "combine",
    "flatten",
    "flatten_with_path",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "partition",
    "paths",
    "reduce",
    "reduce_associative",
    "register",
    "register_dataclass",
    "structure",
    "transpose",
    "unflatten",
]
__dir__ = face(__all__)

IsLeaf = Callable[[Any], Any] | None
TreeDef = optree.PyTreeSpec


def _endless() -> ArgumentError:
    return ArgumentError(
        "a tree of arguments is nested too deeply, or holds itself; pass finite trees of tuples, "
        "lists and dicts"
    )


def _asked(is_leaf: IsLeaf) -> IsLeaf:
    if is_leaf is not None and not callable(is_leaf):
        raise ArgumentError(
            "a tree's is_leaf must be a function of what stands in it, True for a leaf, found "
            f"{described(is_leaf)}"
        )
    return is_leaf


# None is a leaf-less node, as in JAX: an absent optional argument stays absent.


def flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeDef]:
    """The leaves of a tree, and what is needed to rebuild it.

    None is no leaf: it belongs to the structure. ``is_leaf``, here and in what follows, says of
    what stands in a tree that it is a leaf, and is not taken apart.

    >>> import phix
    >>> phix.tree.flatten({"a": 1, "b": (2, None)})[0]
    [1, 2]
    """
    try:
        asked = None if is_leaf is None else _asked(is_leaf)  # calls go through here
        return optree.tree_flatten(tree, asked, namespace=NAMESPACE)
    except RecursionError:
        raise _endless() from None


def structure(tree: Any, is_leaf: IsLeaf = None) -> TreeDef:
    """What :func:`unflatten` needs to rebuild a tree: all of it but its leaves.

    >>> import phix
    >>> phix.tree.structure([1, (2, 3)]) == phix.tree.structure(["a", ("b", "c")])
    True
    """
    return flatten(tree, is_leaf)[1]


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


def map(function: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """``function`` over corresponding leaves.

    >>> import phix
    >>> phix.tree.map(lambda x: x + 1, {"a": 1, "b": (2, 3)})
    {'a': 2, 'b': (3, 4)}
    """
    if not callable(function):
        raise ArgumentError(f"tree.map: function must be a function, found {described(function)}")
    flat, treedef = flatten(tree, is_leaf)
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


def leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of a tree, from left to right; of a dict in the order of its keys.

    >>> import phix
    >>> phix.tree.leaves({"b": (2, 3), "a": 1})
    [1, 2, 3]
    """
    try:
        return optree.tree_leaves(tree, _asked(is_leaf), namespace=NAMESPACE)
    except RecursionError:
        raise _endless() from None


def paths(tree: Any, is_leaf: IsLeaf = None) -> list[str]:
    """Where each leaf is, in the order of :func:`leaves`: the names on the way to it, with dots.

    Names are the keys of dicts, places in lists, and fields of classes.

    >>> import phix
    >>> phix.tree.paths({"layers": [{"w": 1, "b": 2}]})
    ['layers.0.b', 'layers.0.w']
    """
    try:
        found = optree.tree_paths(tree, _asked(is_leaf), namespace=NAMESPACE)
    except RecursionError:
        raise _endless() from None
    return [".".join(str(part) for part in path) for path in found]


def map_with_path(
    function: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None
) -> Any:
    """``function(path, leaf, ...)`` over corresponding leaves; see :func:`paths`.

    >>> import phix
    >>> phix.tree.map_with_path(lambda path, x: f"{path}={x}", {"a": [1, 2]})
    {'a': ['a.0=1', 'a.1=2']}
    """
    if not callable(function):
        raise ArgumentError(
            f"tree.map_with_path: function must be a function, found {described(function)}"
        )
    where = iter(paths(tree, is_leaf))
    return map(lambda *parts: function(next(where), *parts), tree, *rest, is_leaf=is_leaf)


def leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[str, Any]]:
    """The leaves of a tree, each behind its path; see :func:`paths`.

    >>> import phix
    >>> phix.tree.leaves_with_path({"a": [1, 2]})
    [('a.0', 1), ('a.1', 2)]
    """
    return list(zip(paths(tree, is_leaf), leaves(tree, is_leaf)))


def flatten_with_path(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[tuple[str, Any]], TreeDef]:
    """What :func:`leaves_with_path` gives, and what is needed to rebuild the tree.

    >>> import phix
    >>> named, treedef = phix.tree.flatten_with_path({"a": [1, 2]})
    >>> phix.tree.unflatten(treedef, [f"{path}={leaf}" for path, leaf in named])
    {'a': ['a.0=1', 'a.1=2']}
    """
    return leaves_with_path(tree, is_leaf), structure(tree, is_leaf)


def all(tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether all leaves are true, as in Python's ``all``; those of no leaf are.

    >>> import phix
    >>> phix.tree.all({"a": True, "b": [1, 0]})
    False
    """
    flat = leaves(tree, is_leaf)
    try:
        return builtins.all(flat)
    except Exception as error:
        if isinstance(error, PhixError):
            raise
        raise ArgumentError(
            f"tree.all: each leaf is true or false, found {shown(tree)} ({error}); for arrays map "
            "phix.ops.all first"
        ) from error


_NO_VALUE = object()


def reduce(
    function: Callable[[Any, Any], Any], tree: Any, initializer: Any = _NO_VALUE,
    is_leaf: IsLeaf = None,
) -> Any:  # fmt: skip
    """``function`` of what was found so far and the next leaf, from the first to the last.

    Args:
        function: of two arguments.
        tree: any tree.
        initializer: what comes before the first leaf; without one the first begins.
        is_leaf: see :func:`flatten`.

    Raises:
        ArgumentError: there is no leaf, and no ``initializer``.

    >>> import phix
    >>> phix.tree.reduce(lambda total, x: total + x, {"a": 1, "b": (2, 3)}, 10)
    16
    """
    flat = _combined("reduce", function, tree, initializer, is_leaf)
    return functools.reduce(function, flat)


def reduce_associative(
    operation: Callable[[Any, Any], Any], tree: Any, *, identity: Any = _NO_VALUE,
    is_leaf: IsLeaf = None,
) -> Any:  # fmt: skip
    """An associative ``operation`` between all leaves, by neighbours and by neighbours of those:
    sums of many tensors are rounded in as many steps as the logarithm of their number.

    Args:
        operation: of two arguments, which need not commute.
        tree: any tree.
        identity: what a tree without leaves gives; it comes in nowhere else.
        is_leaf: see :func:`flatten`.

    Raises:
        ArgumentError: there is no leaf, and no ``identity``.

    >>> import phix
    >>> phix.tree.reduce_associative(lambda a, b: f"({a}{b})", ["a", "b", "c", "d", "e"])
    '(((ab)(cd))e)'
    """
    parts = _combined("reduce_associative", operation, tree, identity, is_leaf)
    if identity is not _NO_VALUE and len(parts) > 1:
        parts = parts[1:]
    while len(parts) > 1:
        pairs = [operation(a, b) for a, b in zip(parts[::2], parts[1::2])]
        parts = pairs if len(parts) % 2 == 0 else [*pairs, parts[-1]]
    return parts[0]


def _combined(
    name: str, function: Any, tree: Any, first: Any, is_leaf: IsLeaf = None
) -> list[Any]:  # fmt: skip
    """What a function of two is called on, one or more."""
    if not callable(function):
        raise ArgumentError(f"tree.{name}: it takes a function, found {described(function)}")
    found = leaves(tree, is_leaf) if first is _NO_VALUE else [first, *leaves(tree, is_leaf)]
    if not found:
        way = "an initializer" if name == "reduce" else "the identity"
        raise ArgumentError(f"tree.{name}: {shown(tree)} has no leaves; give {way}")
    return found


def broadcast(prefix: Any, tree: Any, is_leaf: IsLeaf = None) -> Any:
    """``prefix`` in the structure of ``tree``: each leaf of it once for all that is below.

    >>> import phix
    >>> phix.tree.broadcast({"a": 0, "b": 1}, {"a": (2, 3), "b": 4})
    {'a': (0, 0), 'b': 1}

    Raises:
        ArgumentError: ``prefix`` is no prefix of the structure.
    """
    try:
        return optree.tree_broadcast_prefix(prefix, tree, _asked(is_leaf), namespace=NAMESPACE)
    except RecursionError:
        raise _endless() from None
    except ValueError as error:
        raise ArgumentError(
            f"tree.broadcast: {shown(prefix)} is no prefix of the structure of {shown(tree, 200)}"
        ) from error


def transpose(outer: TreeDef, inner: TreeDef | None, tree: Any) -> Any:
    """A tree of trees turned inside out: one of structure ``inner`` whose leaves have ``outer``.

    Args:
        outer: the structure of the outer part of ``tree``; see :func:`structure`.
        inner: that of all that stands at its leaves; None for that of the first.
        tree: a tree of structure ``outer`` of trees of structure ``inner``.

    Raises:
        ArgumentError: tree has another structure, or outer no leaf to say what inner is.

    >>> import phix
    >>> pairs = {"w": (1, 2), "b": (3, 4)}
    >>> outer = phix.tree.structure({"w": 0, "b": 0})
    >>> phix.tree.transpose(outer, phix.tree.structure((0, 0)), pairs)
    ({'w': 1, 'b': 3}, {'w': 2, 'b': 4})
    """
    if not isinstance(outer, TreeDef) or not isinstance(inner, (TreeDef, type(None))):
        raise ArgumentError(
            "tree.transpose takes what tree.structure gives, found "
            f"{described(outer)} and {described(inner)}"
        )
    try:
        parts = outer.flatten_up_to(tree)
        if inner is None and not parts:
            raise ValueError("outer has no leaves")
        own = structure(parts[0]) if inner is None else inner
        rows = [own.flatten_up_to(part) for part in parts]
    except RecursionError:
        raise _endless() from None
    except ValueError as error:
        raise ArgumentError(
            f"tree.transpose: {shown(tree)} is no tree of structure {outer} of trees of structure "
            f"{inner}: {error}"
        ) from error
    columns = [[row[k] for row in rows] for k in range(own.num_leaves)]
    return optree.tree_unflatten(own, [optree.tree_unflatten(outer, c) for c in columns])


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
