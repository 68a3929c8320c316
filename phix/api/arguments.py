"""Arguments of transformations: trees as flat tensors, functions of trees as flat ones."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Union

import numpy as np

from phix.core import context, pytrees, tensor_kinds
from phix.core.conversion import home, lent_tensor, owned_tensor, tensor_from_scalar
from phix.core.dims import Dim
from phix.core.dtypes import default_dtype, default_float, promote_weak
from phix.core.dtypes import kind as kind_of
from phix.core.errors import ArgumentError, described
from phix.core.graph import Graph
from phix.core.index_ranges import is_checking
from phix.core.later import call_op
from phix.core.meta import MetaTensor
from phix.core.places import Place
from phix.core.tensor import Tensor, TensorBase, Tracer
from phix.core.transforms import transforms
from phix.core.weak import WIDE, Weak, digits, strong, weak, weak_kind
from phix.interpreters import eager as _eager  # noqa: F401 - the base of all interpreters

_SCALARS = (bool, int, float, complex)
# The structures of one tensor, and of a call with one.
_LEAF, _ONE_ARGUMENT = pytrees.flatten(0)[1], pytrees.flatten(((0,), {}))[1]


def _tensor(
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
    return [_tensor(leaf, where, place) for leaf in leaves], treedef


def flat_specs(tree: Any, where: str) -> tuple[list[MetaTensor], pytrees.TreeDef]:
    """Metas of the arguments: of specs themselves, of tensors theirs."""
    leaves, treedef = pytrees.flatten(tree)
    return [_meta(x, where) for x in leaves], treedef


def _meta(value: Any, where: str) -> MetaTensor:
    is_spec = isinstance(value, MetaTensor)
    return value if is_spec else _tensor(value, where, None, lent_tensor).meta


# -- arguments of functions that are traced ----------------------------------------------------
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


def _kind(value: Any) -> type | None:
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
    place, kinds = home(leaves), tuple(map(_kind, leaves))
    found = [
        _tensor(leaf, where, place, make) if kind is None else _digits(leaf, kind, place, make)
        for leaf, kind in zip(leaves, kinds)
    ]
    return found, structure_of(treedef, kinds)


def structure_of(tree: pytrees.TreeDef, kinds: Sequence[type | None]) -> Structure:
    """The structure of arguments whose leaves are of these kinds."""
    return WeakTree(tree, tuple(kinds)) if any(kinds) else tree


def _digits(
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
        return [args[0]], _ONE_ARGUMENT
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
        _tensor(x, where, place, make) if k is None else _digits(x, k, place, make)
        for x, k in zip(leaves, kinds)
    ]
    return found, wanted


def _stands_for(value: Any, kind: type) -> bool:
    """Whether a value, or the one element of it, can be a number of that kind."""
    found = _kind(value)
    if found is None and getattr(value, "shape", None) == () and hasattr(value, "dtype"):
        found = {"bool": bool, "int": int, "float": float, "complex": complex}[kind_of(value.dtype)]
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
    kinds = tuple(map(_kind, leaves))
    metas = [
        _meta(x, where) if k is None else WeakSpec(k, _varying(x)) for x, k in zip(leaves, kinds)
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


def given_back(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The arguments as the function gets them: weak numbers where there were such."""
    if not isinstance(structure, WeakTree):
        return pytrees.unflatten(structure, leaves)
    values = [x if k is None else weak(x) for x, k in zip(leaves, structure.kinds)]
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


class Flattened:
    """A function of trees as one of flat tensors; remembers the structure of what it gave."""

    def __init__(self, function: Callable[..., Any], treedef: Structure, where: str) -> None:
        self.function, self.treedef, self.where = function, treedef, where
        self.out_tree: Any = None
        self.aux: Any = None

    def __call__(self, *flat: Any) -> list[TensorBase]:
        args, kwargs = given_back(self.treedef, flat)
        outs, self.out_tree = flat_tensors(self.function(*args, **kwargs), self.where)
        return outs


class FlattenedBody(Flattened):
    """The same of the body of a loop, whose first results are carried on: where the carry is a
    number, as ``carried`` says, a number that the body gives stays one. ``gave`` says which did."""

    def __init__(
        self,
        function: Callable[..., Any],
        structure: Structure,
        where: str,
        carried: Sequence[type | None],
    ) -> None:
        super().__init__(function, structure, where)
        self.carried = tuple(carried)
        self.gave: tuple[type | None, ...] = ()

    def __call__(self, *flat: Any) -> list[TensorBase]:
        args, kwargs = given_back(self.treedef, flat)
        leaves, self.out_tree = pytrees.flatten(self.function(*args, **kwargs))
        count, place = len(self.carried), home(leaves)
        self.gave = tuple([_carried_as(k, _kind(x)) for x, k in zip(leaves, self.carried)])
        first = [_tensor(x, self.where, place) if kind is None else _digits(x, kind, place)
                 for x, kind in zip(leaves, self.gave)]  # fmt: skip
        return [*first, *[_tensor(x, self.where, place) for x in leaves[count:]]]


def _carried_as(start: type | None, given: type | None) -> type | None:
    """The kind of number that a carry is which begins as one and goes on as another; None: it is a
    tensor. A real number does not become a complex one, nor a float an int, in silence."""
    if start is None or given is None or (given is complex and start is not complex):
        return None
    order = list(WIDE)
    return given if order.index(given) >= order.index(start) else None


class FlattenedBranch(Flattened):
    """The same of one of several functions, whose results have one dtype: numbers among them take
    the ``dtypes`` of what others give in their places, None for none. ``kinds`` are theirs."""

    def __init__(
        self,
        function: Callable[..., Any],
        structure: Structure,
        where: str,
        dtypes: Sequence[Any] | None = None,
    ) -> None:
        super().__init__(function, structure, where)
        self.dtypes = dtypes
        self.kinds: tuple[type | None, ...] = ()

    def __call__(self, *flat: Any) -> list[TensorBase]:
        args, kwargs = given_back(self.treedef, flat)
        leaves, self.out_tree = pytrees.flatten(self.function(*args, **kwargs))
        self.kinds, place = tuple(map(_kind, leaves)), home(leaves)
        dtypes = self.dtypes if self.dtypes is not None else (None,) * len(leaves)
        return [
            _tensor(x, self.where, place) if kind is None or dtype is None
            else _digits(x, kind, place).astype(dtype)
            for x, kind, dtype in zip(leaves, self.kinds, dtypes)
        ]  # fmt: skip


class FlattenedDense(Flattened):
    """The same where derivatives of the results are taken: tensors of other kinds are made dense,
    since what numbers their rows has no derivative."""

    def __call__(self, *flat: Any) -> list[TensorBase]:
        args, kwargs = given_back(self.treedef, flat)
        result = tensor_kinds.dense_tree(self.function(*args, **kwargs))
        outs, self.out_tree = flat_tensors(result, self.where)
        return outs


def meta_key(meta: MetaTensor) -> tuple[Any, ...]:
    """What is equal for metas of which one trace serves both."""
    dims = (d if isinstance(d, int) else d.key for d in meta.dims)
    return (meta.dtype, meta.varying, *dims) if meta.varying else (meta.dtype, *dims)


class Graphs:
    """The graphs of a function, made once for each kind of arguments, as those of ``jit``.

    A graph that closes over tensors is made anew for each call: next time it may be others.
    """

    def __init__(self) -> None:
        self.found: dict[Any, tuple[Any, Any, Any]] = {}

    def of(self, run: Flattened, leaves: Sequence[TensorBase], settings: Any) -> Any:
        """The graph, what it closes over, and the structure of the result.

        ``settings`` are what else it depends on; if they cannot be hashed, nothing is kept.
        """
        metas = [x.meta for x in leaves]
        around = (context.bound_axes(), is_checking(), default_float())
        key = (run.treedef, settings, *around, *map(meta_key, metas))
        try:
            found = self.found.get(key)
        except TypeError:
            return (*transforms().trace(run, metas), run.out_tree)
        if found is None:
            graph, closed = transforms().trace(run, metas)
            found = (graph, closed, run.out_tree)
            if not closed:
                self.found[key] = found
        return found


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
