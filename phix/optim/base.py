"""Transformations of gradients: pairs of functions, what they carry, and chains of them."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, Union

import numpy as np

from phix import ops
from phix.core import dtypes as dt
from phix.core import pickling, pytrees, tensor_kinds
from phix.core.conversion import owned_tensor
from phix.core.errors import ArgumentError, DTypeError, ShapeError, described
from phix.core.expectations import expect_dims
from phix.core.given import Kind, named, takes
from phix.core.tensor import Tensor, TensorBase

C = TypeVar("C", bound=type)
Schedule = Callable[[Any], Any]
RateLike = Union[float, Tensor, np.ndarray, Schedule]


def _pickled(transformation: Any) -> Any:
    pickling.check(
        "an optimizer", transformation, "pickle its state, a tree of tensors, and make the "
        "optimizer anew from its settings",
    )  # fmt: skip
    return type(transformation), tuple(transformation)


def _never_copied(cls: C) -> C:
    """A pair of functions is its own copy, as nothing in it changes; its pickle is refused where
    the functions have none."""
    made: Any = cls
    made.__reduce__ = _pickled
    made.__copy__ = made.__deepcopy__ = lambda self, *_: self
    return cls


@_never_copied
class GradientTransformation(NamedTuple):
    """A pair of pure functions that turn gradients into updates of parameters.

    ``init(params)`` gives the state, a tree of tensors; ``update(updates, state, params=None)``
    gives new updates and the new state. Updates are added to parameters: see
    :func:`apply_updates`.

    >>> import phix
    >>> halved = phix.optim.GradientTransformation(
    ...     lambda params: phix.optim.EmptyState(),
    ...     lambda updates, state, params=None: (phix.tree.map(lambda g: g / 2, updates), state),
    ... )
    >>> halved.update([phix.ones([1])], halved.init([phix.ones([1])]))[0][0].tolist()
    [0.5]
    """

    init: Callable[[Any], Any]
    update: Callable[..., tuple[Any, Any]]


@_never_copied
class GradientTransformationExtraArgs(NamedTuple):
    """A :class:`GradientTransformation` whose ``update`` takes more by keyword, such as ``value``.

    >>> import phix
    >>> isinstance(phix.optim.sgd(0.1), phix.optim.GradientTransformationExtraArgs)
    True
    """

    init: Callable[[Any], Any]
    update: Callable[..., tuple[Any, Any]]


Transformation = Union[GradientTransformation, GradientTransformationExtraArgs]


class EmptyState(NamedTuple):
    """The state of a transformation that carries nothing.

    >>> import phix
    >>> phix.tree.leaves(phix.optim.EmptyState())
    []
    """


def _is_number(value: Any) -> bool:
    if isinstance(value, (bool, np.bool_)):
        return False
    if isinstance(value, int):
        return value.bit_length() < 1024  # a float has it
    if isinstance(value, (float, np.integer, np.floating)):
        return True
    dtype = getattr(value, "dtype", None)
    return getattr(value, "ndim", None) == 0 and dtype is not None and dt.kind(dtype) == "float"


NUMBER = Kind("a number", _is_number)
RATE = NUMBER | Kind("a function of the number of the step", callable)
NO_TREE = Kind("None", lambda v: v is None)


def is_transformation(value: Any) -> bool:
    return callable(getattr(value, "init", None)) and callable(getattr(value, "update", None))


PAIR = Kind("a pair of functions init and update (a GradientTransformation)", is_transformation)


def pair(name: str, init: Callable[[Any], Any], update: Callable[..., Any]) -> Any:
    """A transformation whose errors name the function that made it."""

    def updated(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        try:
            return update(with_tables(updates), state, params, **extra)
        except AttributeError as error:
            if error.obj is not state:
                raise
            raise ArgumentError(
                f"state must be as init gives it, found {described(state)}"
            ) from error

    return GradientTransformationExtraArgs(named(name)(init), named(name)(updated))


def stateless(name: str, update: Callable[[Any, Any], Any]) -> Any:
    """A transformation without a state, of ``update(updates, params)``."""

    def init(params: Any) -> EmptyState:
        return EmptyState()

    def updated(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        return update(updates, params), state

    return pair(name, init, updated)


def needed(params: Any) -> Any:
    """The parameters, which some transformations need."""
    if params is None:
        raise ArgumentError("update needs the parameters; write update(updates, state, params)")
    return params


# -- leaves ----------------------------------------------------------------------------------------
def as_tensor(x: Any) -> Any:
    return x if isinstance(x, TensorBase) else owned_tensor(x)


def mapped(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """``function`` over corresponding leaves as tensors, which are of one shape."""
    return pytrees.map(lambda *xs: function(*_alike(xs)), tree, *rest)


def _alike(leaves: Any) -> list[Any]:
    """Leaves that belong together: they would broadcast, which nobody means here."""
    first, *others = [as_tensor(x) for x in leaves]
    return [first, *(of_shape(x, first) for x in others)]


def with_tables(tree: Any) -> Any:
    """A tree of gradients, with the tables that its selected rows are rows of."""
    return tensor_kinds.dense_tree(tree, only="selected_rows")


def of_shape(x: Any, like: Any) -> Any:
    """A leaf, whose shape must be that of another."""
    if x.shape == like.shape:
        return x
    refusal = (
        f"gradients, states and parameters must be of one shape, found {x.meta} beside {like.meta}"
    )
    return expect_dims(x, refusal, like.meta.dims)


def split(count: int, function: Callable[..., Any], tree: Any, *rest: Any) -> tuple[Any, ...]:
    """The trees of the ``count`` results that ``function`` gives for corresponding leaves."""
    _, treedef = pytrees.flatten(tree)
    found = pytrees.leaves(pytrees.map(lambda *xs: _Leaf(function(*map(as_tensor, xs))), tree,
                                       *rest))  # fmt: skip
    return tuple(pytrees.unflatten(treedef, [leaf.value[n] for leaf in found])
                 for n in range(count))  # fmt: skip


class _Leaf:
    """Several values that are one leaf."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def wide_dtype(dtype: np.dtype) -> np.dtype:
    """What numbers of a dtype are computed in: float32 at least."""
    return dt.promote(dt.float32, dtype) if dt.is_float(dtype) else dtype


def widest(tree: Any) -> np.dtype:
    """The real dtype that settings need beside a tree of parameters: float32 at least."""
    dtypes = [as_tensor(leaf).dtype for leaf in pytrees.leaves(tree)]
    reals = [dt.real_dtype(d) for d in dtypes if dt.is_differentiable(d)]
    return functools.reduce(dt.promote, reals, dt.float32)


def wide(x: Any) -> Any:
    """A tensor in the dtype that it is computed in.

    Raises:
        DTypeError: it holds ints or bools, of which a step would leave nothing.
    """
    if not dt.is_differentiable(x.dtype):
        raise DTypeError(
            f"gradients and parameters are float or complex, found {x.meta}; part others off with "
            "phix.tree.partition"
        )
    dtype = wide_dtype(x.dtype)
    return x if dtype == x.dtype else x.astype(dtype)


def to_dtype(x: Any, dtype: np.dtype) -> Any:
    return x if x.dtype == dtype else x.astype(dtype)


def number(value: Any, dtype: np.dtype) -> Any:
    """A setting beside tensors of a dtype: Python's numbers as they are, tensors in the dtype."""
    if isinstance(value, (int, float)) and not isinstance(value, np.generic):
        return value
    tensor = as_tensor(value)
    if tensor.ndim:
        raise ShapeError(f"a rate is one number, found {tensor.meta}")
    return to_dtype(tensor, wide_dtype(dt.real_dtype(dtype)))


def square(x: Any) -> Any:
    """abs(x) ** 2, real."""
    if not dt.is_complex(x.dtype):
        return x * x
    real, imag = ops.real(x), ops.imag(x)
    return real * real + imag * imag


def squares_dtype(dtype: np.dtype) -> np.dtype:
    """What squares of a dtype are kept in: float32 for float16, where those below 2e-4 are 0."""
    return dt.float32 if dtype == dt.float16 else dt.real_dtype(dtype)


def zeros(params: Any, dtype: Any = None, value: Any = 0, squares: bool = False) -> Any:
    """A tensor of one value for each parameter, in its dtype, that of squares, or another."""

    def made(p: Any) -> Any:
        kind = p.dtype if dtype is None else dt.as_dtype(dtype)
        kind = squares_dtype(kind) if squares else kind
        return ops.full_like(p, number(value, kind), kind)

    return mapped(made, params)


# -- counting --------------------------------------------------------------------------------------
_LAST = np.iinfo(np.int32).max


def no_steps() -> Any:
    return ops.full((), 0, dt.int32)


def one_more(count: Any) -> Any:
    """count + 1, which stays at the largest int32."""
    return ops.where(count < _LAST, count + 1, count)


class Unbias:
    """1 - decay ** count, by which a running mean that began at 0 is divided; once a dtype."""

    def __init__(self, decay: Any, count: Any) -> None:
        self._decay, self._count = decay, count
        self._known: dict[np.dtype, Any] = {}

    def __call__(self, x: Any) -> Any:
        dtype = wide_dtype(dt.real_dtype(x.dtype))
        if dtype not in self._known:
            decay, count = number(self._decay, dtype), self._count.astype(dtype)
            if isinstance(decay, (int, float)) and 0 < decay < 1:
                rate = -ops.expm1(count * math.log(decay))  # decay near 1 would lose its digits
            else:
                rate = 1 - decay**count
            self._known[dtype] = 1 / rate  # once, so that elements are multiplied alone
        return x * self._known[dtype]


def mean_of(decay: Any, old: Any, new: Any) -> Any:
    """decay * old + (1 - decay) * new, computed wide."""
    decay = number(decay, new.dtype)
    return decay * wide(old) + (1 - decay) * new


# -- functions of the face -------------------------------------------------------------------------
@takes()
def apply_updates(params: Any, updates: Any) -> Any:
    """params + updates, leaf by leaf, in the dtypes of the parameters.

    Args:
        params: a tree of tensors.
        updates: a tree of the same structure; where it has None, the parameters stay.

    Raises:
        ArgumentError: the structures differ.

    >>> import phix
    >>> phix.optim.apply_updates({"w": phix.ones([2])}, {"w": phix.ones([2])})["w"].tolist()
    [2.0, 2.0]
    """
    given = pytrees.aligned(with_tables(updates), params, "apply_updates: updates")
    leaves, treedef = pytrees.flatten(params)

    def stepped(p: Any, u: Any) -> Any:
        if u is None:
            return p
        p, u = as_tensor(p), as_tensor(u)
        return to_dtype(wide(p) + wide(of_shape(u, p)), p.dtype)

    return pytrees.unflatten(treedef, [stepped(p, u) for p, u in zip(leaves, given)])


def _takes_more(update: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(update).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(p.kind is p.VAR_KEYWORD for p in parameters)


@takes(tx=PAIR)
def with_extra_args_support(tx: Transformation) -> GradientTransformationExtraArgs:
    """The transformation, whose ``update`` now takes, and ignores, further keywords.

    >>> import phix
    >>> tx = phix.optim.with_extra_args_support(phix.optim.identity())
    >>> tx.update([1.0], tx.init([1.0]), value=3.0)[0]
    [1.0]
    """
    if isinstance(tx, GradientTransformationExtraArgs) or _takes_more(tx.update):
        return GradientTransformationExtraArgs(tx.init, tx.update)

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        return tx.update(updates, state, params)

    return GradientTransformationExtraArgs(tx.init, update)


def identity() -> GradientTransformationExtraArgs:
    """The transformation that changes nothing.

    >>> import phix
    >>> phix.optim.identity().update([1.0], phix.optim.EmptyState())[0]
    [1.0]
    """
    return stateless("identity", lambda updates, params: updates)


def chain(*args: Transformation) -> GradientTransformationExtraArgs:
    """Transformations one after the other; the state is the tuple of theirs.

    Args:
        args: pairs of init and update. Extra keywords of update go to all that take them.

    Raises:
        ArgumentError: one of them is no pair, or a state is not of this chain.

    >>> import phix
    >>> tx = phix.optim.chain(phix.optim.clip(1.0), phix.optim.scale(-0.5))
    >>> tx.update([phix.full([1], 3.0)], tx.init([phix.ones([1])]))[0][0].tolist()
    [-0.5]
    """
    for entry in args:
        if not is_transformation(entry):
            raise ArgumentError(
                f"chain: each of args must be {PAIR.says}, found {described(entry)}"
            )
    inner = [with_extra_args_support(entry) for entry in args]

    def init(params: Any) -> tuple[Any, ...]:
        return tuple(tx.init(params) for tx in inner)

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        if not isinstance(state, tuple) or len(state) != len(inner):
            raise ArgumentError(
                f"state must be a tuple of {len(inner)} states, as init gives it, found "
                f"{described(state)}"
            )
        new = []
        for tx, own in zip(inner, state):
            updates, own = tx.update(updates, own, params, **extra)
            new.append(own)
        return updates, tuple(new)

    return pair("chain", init, update)


def root(total: Any) -> Any:
    """The square root of a sum of squares, whose slope at 0 is 0, as that of a norm."""
    is_zero = total == 0
    return ops.where(is_zero, 0.0, ops.sqrt(ops.where(is_zero, 1.0, total)))


@takes()
def global_norm(updates: Any) -> Tensor:
    """The square root of the sum of the squares of all elements of a tree, in float32 at least.

    >>> import phix
    >>> phix.optim.global_norm({"a": phix.full([1], 3.0), "b": phix.full([1], 4.0)}).item()
    5.0
    """
    total: Any = 0.0
    for leaf in pytrees.leaves(with_tables(updates)):
        total = total + ops.sum(square(wide(as_tensor(leaf))))
    return root(as_tensor(total))


@takes(step_size=NUMBER)
def incremental_update(new_tensors: Any, old_tensors: Any, step_size: Any) -> Any:
    """step_size * new + (1 - step_size) * old: a running mean of parameters (Polyak averaging).

    >>> import phix
    >>> phix.optim.incremental_update([phix.ones([1])], [phix.zeros([1])], 0.25)[0].tolist()
    [0.25]
    """

    def mixed(new: Any, old: Any) -> Any:
        share = number(step_size, old.dtype)
        return to_dtype(share * wide(new) + (1 - share) * wide(old), old.dtype)

    return mapped(mixed, new_tensors, old_tensors)
