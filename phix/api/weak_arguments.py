"""Arguments among which are Python numbers: their structure, and trees made of it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Union

import numpy as np

from phix.api.arguments import LEAF_ARGUMENT, flat_specs, leaf_meta, leaf_tensor
from phix.core import dtypes as dt
from phix.core import pytrees
from phix.core.conversion import home, lent_tensor, owned_tensor, tensor_from_scalar
from phix.core.dims import Dim
from phix.core.dtypes import default_dtype, promote_weak
from phix.core.errors import ArgumentError, described
from phix.core.later import call_op
from phix.core.meta import MetaTensor
from phix.core.places import Place
from phix.core.tensor import Tensor, TensorBase
from phix.core.weak import WIDE, ProbedNumber, Weak, weak, weak_kind


class WeakTree:
    """The structure of arguments among whose leaves are Python numbers.

    Transformations know these as tensors of all their digits, and the function that is traced gets
    them as numbers (``core.weak``). ``kinds`` has an entry for each leaf, None for a tensor;
    ``dtypes`` what such a number is as a tensor of its own.
    """

    __slots__ = ("dtypes", "kinds", "tree")

    def __init__(self, tree: pytrees.TreeDef, kinds: tuple[type | None, ...]) -> None:
        self.tree, self.kinds = tree, kinds
        self.dtypes = tuple([None if k is None else default_dtype(k) for k in kinds])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WeakTree):
            return NotImplemented
        return self.kinds == other.kinds and bool(self.tree == other.tree)

    def __hash__(self) -> int:
        return hash((self.tree, self.kinds))

    def __repr__(self) -> str:
        named = [k.__name__ for k in self.kinds if k is not None]
        return f"{self.tree} with {', '.join(named)} of Python"


Structure = Union[pytrees.TreeDef, WeakTree]


# At a glance.
_KINDS: dict[type, type | None] = {Tensor: None, np.ndarray: None, Dim: None} | {k: k for k in WIDE}


def kind_of(value: Any) -> type | None:
    """What a leaf is, if it is a Python number."""
    known = type(value)
    return _KINDS[known] if known in _KINDS else weak_kind(value)


def taken(
    tree: Any, where: str, make: Callable[..., Any] = owned_tensor
) -> tuple[list[TensorBase], Structure]:
    """The leaves of arguments as what transformations work on, and their structure.

    As ``flat_tensors``, but that Python numbers keep their digits.
    """
    leaves, treedef = pytrees.flatten(tree)
    place, kinds = home(leaves), tuple(map(kind_of, leaves))
    found = [
        leaf_tensor(leaf, where, place, make)
        if kind is None
        else with_digits(leaf, kind, place, make)
        for leaf, kind in zip(leaves, kinds)
    ]
    return found, structure_of(treedef, kinds)


def structure_of(tree: pytrees.TreeDef, kinds: Sequence[type | None]) -> Structure:
    """The structure of arguments whose leaves are of these kinds."""
    return WeakTree(tree, tuple(kinds)) if any(kinds) else tree


def with_digits(
    value: Any, kind: Any, place: Place | None, make: Callable[..., Any] = owned_tensor
) -> Any:
    """The tensor with all digits of a Python number, or of a tensor that is given for one."""
    if isinstance(value, Weak):
        return value.to_dtype(WIDE[kind])
    is_tensor = weak_kind(value) is None
    if kind in (bool, int) and not is_tensor:
        return make(value, place)  # which says so where an int is too large
    return (
        make(value, place).astype(WIDE[kind]) if is_tensor else make(WIDE[kind].type(value), place)
    )


def taken_arguments(args: tuple[Any, ...], where: str) -> tuple[list[TensorBase], Structure]:
    """As ``taken`` of these arguments of a call, and none by name."""
    if len(args) == 1 and type(args[0]) is Tensor:
        return [args[0]], LEAF_ARGUMENT
    return taken((args, {}), where)


def lent(tree: Any, where: str) -> tuple[list[TensorBase], Structure]:
    """As ``taken``, for a call that keeps none of them: arrays lend their memory."""
    return taken(tree, where, lent_tensor)


def fitted(
    tree: Any, where: str, wanted: Structure, make: Callable[..., Any] = lent_tensor
) -> tuple[list[TensorBase], Structure]:
    """As ``taken``; where the structure that is wanted has tensors, numbers become such, and single
    tensors numbers where it has these.

    Raises:
        ArgumentError: what is there cannot stand for a number.
    """
    leaves, treedef = pytrees.flatten(tree)
    kinds = kinds_of(wanted)
    if treedef != tree_of(wanted):
        return taken(tree, where, make)
    for x, kind in zip(leaves, kinds):
        if kind is not None and not _stands_for(x, kind):
            raise ArgumentError(
                f"{where}: compiled for a Python {kind.__name__}, found {described(x)}; write such "
                "a number, or compile for a tensor"
            )
    place = home(leaves)
    found = [
        leaf_tensor(x, where, place, make) if k is None else with_digits(x, k, place, make)
        for x, k in zip(leaves, kinds)
    ]
    return found, wanted


def _stands_for(value: Any, kind: type) -> bool:
    """Whether a value, or the one element of it, can be a number of that kind."""
    found = kind_of(value)
    if found is None and getattr(value, "shape", None) == () and hasattr(value, "dtype"):
        found = {"bool": bool, "int": int, "float": float, "complex": complex}[dt.kind(value.dtype)]
    order = list(WIDE)
    return found is not None and order.index(found) <= order.index(kind)


def as_declared(given: Any, spec: Any) -> Any:
    """An argument whose Python numbers are tensors of the declared dtypes, if these have them."""
    specs, wanted = pytrees.flatten(spec)
    leaves, structure = pytrees.flatten(given)
    if spec is None or structure != wanted:
        return given

    def one(value: Any, meta: Any) -> Any:
        kind = weak_kind(value)
        if kind is None or promote_weak(meta.dtype, kind) != meta.dtype:
            return value
        is_weak = isinstance(value, Weak)
        return value.to_dtype(meta.dtype) if is_weak else tensor_from_scalar(value, meta.dtype)

    return pytrees.unflatten(structure, list(map(one, leaves, specs)))


class WeakSpec(MetaTensor):
    """What stands for a Python number among specs: the meta of its digits."""

    __slots__ = ("kind",)

    def __init__(self, kind: type, varying: frozenset[str] = frozenset()) -> None:
        super().__init__((), WIDE[kind])
        self.kind, self.varying = kind, varying


def traced_specs(tree: Any, where: str) -> tuple[list[MetaTensor], Structure]:
    """As ``flat_specs``, and where Python numbers are among them: each is a ``WeakSpec``."""
    metas, treedef = flat_specs(tree, where)
    return metas, structure_of(treedef, [x.kind if type(x) is WeakSpec else None for x in metas])


def taken_specs(tree: Any, where: str) -> tuple[list[MetaTensor], Structure]:
    """The metas of what ``taken`` gives of arguments, some of which may be specs."""
    leaves, treedef = pytrees.flatten(tree)
    kinds = tuple(map(kind_of, leaves))
    metas = [
        leaf_meta(x, where) if k is None else WeakSpec(k, _varying(x))
        for x, k in zip(leaves, kinds)
    ]
    return metas, structure_of(treedef, kinds)


def _varying(number: Any) -> frozenset[str]:
    return number.meta.varying if isinstance(number, Weak) else frozenset()


def specs_of(structure: Structure, metas: Sequence[MetaTensor]) -> Any:
    """The tree of specs that ``traced_specs`` gives these metas for."""
    if not isinstance(structure, WeakTree):
        return pytrees.unflatten(structure, metas)
    specs = [m if k is None else WeakSpec(k, m.varying) for m, k in zip(metas, structure.kinds)]
    return pytrees.unflatten(structure.tree, specs)


def given_back(
    structure: Structure, leaves: Sequence[Any], asked: Callable[[int], None] | None = None
) -> Any:
    """The arguments as the function gets them: weak numbers where there were such. Of those that do
    not have all digits, ``asked`` is told which were needed with them, by their places."""
    if not isinstance(structure, WeakTree):
        return pytrees.unflatten(structure, leaves)
    values = [
        x if kind is None
        else weak(x) if asked is None or x.dtype == WIDE[kind]
        else ProbedNumber(kind, x, functools.partial(asked, n))
        for n, (x, kind) in enumerate(zip(leaves, structure.kinds))
    ]  # fmt: skip
    return pytrees.unflatten(structure.tree, values)


def like_arguments(structure: Structure, leaves: Sequence[Any]) -> Any:
    """Results of the structure of the arguments, as their derivatives are: tensors, those of weak
    numbers of the default dtype."""
    if not isinstance(structure, WeakTree):
        return pytrees.unflatten(structure, leaves)
    values = [
        x if dtype is None or x.dtype == dtype else call_op("cast", x, attrs=(dtype,))
        for x, dtype in zip(leaves, structure.dtypes)
    ]
    return pytrees.unflatten(structure.tree, values)


def tree_of(structure: Structure) -> pytrees.TreeDef:
    """The structure, whatever the leaves are."""
    return structure.tree if isinstance(structure, WeakTree) else structure


def kinds_of(structure: Structure) -> tuple[type | None, ...]:
    """For each leaf the kind of a weak number, or None."""
    if isinstance(structure, WeakTree):
        return structure.kinds
    return (None,) * structure.num_leaves


def default_dtypes_of(structure: Structure) -> tuple[Any, ...]:
    """For each leaf the dtype that a weak number has on its own, or None."""
    if isinstance(structure, WeakTree):
        return structure.dtypes
    return (None,) * structure.num_leaves
