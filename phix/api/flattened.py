"""Functions of trees as functions of flat tensors, and the graphs of such."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from phix.api.arguments import flat_tensors, leaf_tensor
from phix.api.weak_arguments import Structure, given_back, kind_of, with_digits
from phix.core import context, pytrees, tensor_kinds
from phix.core.conversion import home
from phix.core.dtypes import default_float
from phix.core.index_ranges import is_checking
from phix.core.meta import MetaTensor
from phix.core.tensor import TensorBase
from phix.core.transforms import transforms
from phix.core.weak import WIDE


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
    number, as ``carried`` says, a number that the body gives stays one. ``gave`` says which did,
    and ``asked`` of which arguments that are probed more digits were needed."""

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
        self.asked: set[int] = set()

    def __call__(self, *flat: Any) -> list[TensorBase]:
        args, kwargs = given_back(self.treedef, flat, self.asked.add)
        leaves, self.out_tree = pytrees.flatten(self.function(*args, **kwargs))
        count, place = len(self.carried), home(leaves)
        self.gave = tuple([_carried_as(k, kind_of(x)) for x, k in zip(leaves, self.carried)])
        first = [leaf_tensor(x, self.where, place) if kind is None else with_digits(x, kind, place)
                 for x, kind in zip(leaves, self.gave)]  # fmt: skip
        return [*first, *[leaf_tensor(x, self.where, place) for x in leaves[count:]]]


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
        self.kinds, place = tuple(map(kind_of, leaves)), home(leaves)
        dtypes = self.dtypes if self.dtypes is not None else (None,) * len(leaves)
        return [
            leaf_tensor(x, self.where, place) if kind is None or dtype is None
            else with_digits(x, kind, place).astype(dtype)
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


def meta_key(meta: MetaTensor) -> tuple[Any, ...]:
    """What is equal for metas of which one trace serves both."""
    dims = (d if isinstance(d, int) else d.key for d in meta.dims)
    return (meta.dtype, meta.varying, *dims) if meta.varying else (meta.dtype, *dims)
