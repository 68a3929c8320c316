"""Arguments of transformations: trees as flat tensors, names, places, what is handed on beside."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import pytrees
from phix.core.conversion import home, lent_tensor, owned_tensor
from phix.core.errors import ArgumentError, ShapeError, described
from phix.core.graph import Graph
from phix.core.meta import MetaTensor
from phix.core.places import Place
from phix.core.tensor import Tensor, TensorBase, Tracer
from phix.core.weak import Weak, digits, strong, weak
from phix.interpreters import eager as _eager  # noqa: F401 - the base of all interpreters

_SCALARS = (bool, int, float, complex, dm.Dim)
# The structures of one tensor, and of a call with one.
_LEAF, LEAF_ARGUMENT = pytrees.flatten(0)[1], pytrees.flatten(((0,), {}))[1]


def leaf_tensor(
    value: Any, where: str, place: Place | None = None, make: Callable[..., Any] = owned_tensor
) -> TensorBase:
    """A leaf of the arguments as a tensor."""
    if isinstance(value, TensorBase):
        return strong(value)
    is_array = isinstance(value, (*_SCALARS, np.ndarray, np.generic))
    if is_array or hasattr(value, "__dlpack__") or _is_table(value):
        return make(value, place)
    raise ArgumentError(
        f"{where}: an argument holds {described(value)}, which is no tensor; "
        f"pass tensors, arrays or numbers, and other values as static arguments{_as_tree(value)}"
    )


def _is_table(value: Any) -> bool:
    """Whether a value is an array of another library by all but DLPack, as those of pandas are."""
    kind = type(value)
    if kind.__module__.partition(".")[0] == "phix":  # a kind of tensor, which is a tree
        return False
    return all(hasattr(kind, name) for name in ("__array__", "shape", "ndim"))


def _as_tree(value: Any) -> str:
    """How tensors that an object of a class of the user's holds become arguments."""
    kind = type(value)
    if (
        kind.__module__.partition(".")[0] in ("builtins", "phix", "numpy")
        or isinstance(value, type)
        or callable(value)
    ):
        return ""
    if dataclasses.is_dataclass(value):
        return f"; for the tensors in it, decorate {kind.__name__}: @phix.tree.register_dataclass"
    return (
        f"; for the tensors in it, make {kind.__name__} a dataclass with "
        "@phix.tree.register_dataclass, or give phix.tree.register what takes it apart"
    )


def flat_tensors(tree: Any, where: str) -> tuple[list[TensorBase], pytrees.TreeDef]:
    """The leaves of a tree as tensors that own their memory: arrays are copied."""
    if type(tree) is Tensor or (isinstance(tree, Tracer) and not isinstance(tree, Weak)):
        return [tree], _LEAF  # as most results are
    leaves, treedef = pytrees.flatten(tree)
    place = home(leaves)
    return [leaf_tensor(leaf, where, place) for leaf in leaves], treedef


def flat_specs(tree: Any, where: str) -> tuple[list[MetaTensor], pytrees.TreeDef]:
    """Metas of the arguments: of specs themselves, of tensors theirs."""
    leaves, treedef = pytrees.flatten(tree)
    return [leaf_meta(x, where) for x in leaves], treedef


def leaf_meta(value: Any, where: str) -> MetaTensor:
    is_spec = isinstance(value, MetaTensor)
    return value if is_spec else leaf_tensor(value, where, None, lent_tensor).meta


def function_name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def check_places(
    function: Callable[..., Any], setting: str, numbers: Sequence[int], given: int | None = None
) -> None:
    """Refuse numbers of arguments that no call has, or that one with so many ``given`` has not.

    Raises:
        ArgumentError: there is such a number.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return
    if given is None and any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    count = max(len(names), given or 0)
    wrong = [n for n in numbers if not -count <= n < count]
    if wrong:
        named = f": {', '.join(names)}" if names else ""
        raise ArgumentError(
            f"{setting} names argument {wrong[0]}, but {function_name(function)} has {count} by "
            f"place{named}; write numbers of those"
        )


def argument_names(function: Callable[..., Any], args: Any, kwargs: Any) -> list[str]:
    """A name for each leaf of the arguments: the parameter's, with the path behind it."""
    if isinstance(function, Graph):
        return [v.name for v in function.inputs]
    try:
        bound = inspect.signature(function).bind(*args, **kwargs).arguments
        names = list(bound)[: len(args)]
    except (TypeError, ValueError):
        names = []
    out: list[str] = []
    for number, arg in enumerate(args):
        base = names[number] if number < len(names) else f"x{number}"
        leaves = pytrees.leaves(arg)
        plain = len(leaves) == 1 and leaves[0] is arg
        out += [base] if plain else [f"{base}_{i}" for i in range(len(leaves))]
    for key in sorted(kwargs):
        leaves = pytrees.leaves(kwargs[key])
        plain = len(leaves) == 1 and leaves[0] is kwargs[key]
        out += [key] if plain else [f"{key}_{i}" for i in range(len(leaves))]
    return out


def split_aux(function: Callable[..., Any], has_aux: bool) -> tuple[Any, Callable[[], Any]]:
    """The function without its aux, and where the aux of the last call is."""
    if not has_aux:
        return function, lambda: None
    kept: list[Any] = []

    def without_aux(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise ArgumentError(
                f"has_aux: {function_name(function)} must return (out, aux), "
                f"found {type(result).__name__}"
            )
        kept[:] = [result[1]]
        return result[0]

    return without_aux, lambda: pytrees.map(_surfaced, kept[0])


def _surfaced(value: Any) -> Any:
    """An aux value as the caller's interpreter knows it: out of the ended transformation."""
    surfaced: Any = value
    if isinstance(value, Weak):
        return strong(weak(_surfaced(digits(value))))
    while isinstance(surfaced, TensorBase) and not isinstance(surfaced, Tensor):
        tracer: Any = surfaced
        if tracer.interpreter.alive or not hasattr(tracer, "value"):
            break
        surfaced = tracer.value
    return surfaced


def check_same_dims(what: str, found: MetaTensor, like: MetaTensor) -> None:
    """A derivative has the dims of what it is the derivative of.

    Raises:
        ShapeError: the two have other dims, or some of which nothing says that they are equal.
    """
    dims, own = found.dims, like.dims
    if dm.same_shape(dims, own):
        return
    may_fit = len(dims) == len(own) and all(map(dm.may_equal, dims, own))
    hint = "; nothing says that sizes which are not known are equal here: give them one name "
    hint += 'in the specs, as phix.spec(["n", "n"])'
    raise ShapeError(f"{what} {like} must have its dims, found {found}{hint if may_fit else ''}")
