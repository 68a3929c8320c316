"""Transformations around others: for some parameters, every few steps, unless gradients are bad."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from phix import ops
from phix.api.branches import cond
from phix.core import dtypes as dt
from phix.core import pytrees
from phix.core.annotations import DTypeLike
from phix.core.errors import ArgumentError, described, shown
from phix.core.exact_keys import is_hashable
from phix.core.given import FUNCTION, at_least, takes
from phix.optim.base import (
    PAIR,
    GradientTransformationExtraArgs,
    Transformation,
    as_tensor,
    is_transformation,
    mapped,
    no_steps,
    one_more,
    pair,
    stateless,
    to_dtype,
    widest,
    with_extra_args_support,
    with_tables,
)
from phix.optim.schedules import rate_at


class MaskedState(NamedTuple):
    """The state of the transformation inside."""

    inner_state: Any


class PartitionState(NamedTuple):
    """The states of the transformations, by label."""

    inner_states: Any


class MultiStepsState(NamedTuple):
    """Where in a group of steps this is, how many groups were, the state inside, and the sums."""

    mini_step: Any
    gradient_step: Any
    inner_opt_state: Any
    acc_grads: Any
    skip_state: Any = ()


class ApplyIfFiniteState(NamedTuple):
    """How many gradients were not finite, in a row and in all, and the state inside."""

    notfinite_count: Any
    last_finite: Any
    total_notfinite: Any
    inner_state: Any


class InjectHyperparamsState(NamedTuple):
    """How many steps were made, the settings by name, and the state inside."""

    count: Any
    hyperparams: Any
    inner_state: Any


def _zero(x: Any) -> Any:
    """Zeros, also where x is NaN."""
    return ops.full_like(x, 0, x.dtype)


def set_to_zero() -> GradientTransformationExtraArgs:
    """Updates of zeros, so that parameters stay.

    >>> import phix
    >>> phix.optim.set_to_zero().update([phix.ones([1])], ())[0][0].tolist()
    [0.0]
    """
    return stateless("set_to_zero", lambda updates, params: mapped(_zero, updates))


# -- some of the parameters ------------------------------------------------------------------------
def _spread(prefix: Any, tree: Any, what: str) -> list[Any]:
    """What a tree, or a prefix of one, says of each leaf."""
    flat: list[Any] = []

    def put(part: Any, below: Any) -> Any:
        flat.extend([part] * len(pytrees.leaves(below)))

    try:
        pytrees.map(put, prefix, tree)
    except ArgumentError as error:
        raise ArgumentError(f"{what} must be a tree as the parameters are: {error}") from None
    if len(flat) != len(pytrees.leaves(tree)):
        raise ArgumentError(f"{what} must say something of each parameter, found None in it")
    return flat


def _where(flags: list[Any], tree: Any) -> Any:
    """The tree with None for the leaves that are not meant."""
    leaves, treedef = pytrees.flatten(tree)
    return pytrees.unflatten(treedef, [x if f else None for f, x in zip(flags, leaves)])


def _flags(mask: Any, tree: Any) -> list[bool]:
    flags = _spread(mask(tree) if callable(mask) else mask, tree, "mask")
    for flag in flags:
        if not isinstance(flag, (bool, int)) or flag not in (0, 1):
            raise ArgumentError(f"mask must be a tree of bools, found {described(flag)} in it")
    return [bool(f) for f in flags]


def _only(tx: Any, flags: list[bool], updates: Any, state: Any, params: Any, extra: Any) -> Any:
    """The updates with those that are meant transformed."""
    kept = None if params is None else _where(flags, params)
    new, state = tx.update(_where(flags, updates), state, kept, **extra)
    leaves, treedef = pytrees.flatten(updates)
    changed = iter(pytrees.leaves(new))
    return pytrees.unflatten(treedef, [next(changed) if f else x for f, x in zip(flags, leaves)]), (
        state
    )


@takes(inner=PAIR)
def masked(inner: Transformation, mask: Any) -> GradientTransformationExtraArgs:
    """The transformation on the leaves that the mask has True for; the others pass as they are.

    Args:
        inner: a pair of init and update; it sees None in place of the others.
        mask: a tree of bools as the parameters (or a prefix of it), or a function from the
            parameters to one.

    Raises:
        ArgumentError: the mask does not fit the parameters, or holds other things than bools.

    >>> import phix
    >>> tx = phix.optim.masked(phix.optim.scale(-1.0), {"a": True, "b": False})
    >>> g = {"a": phix.ones([1]), "b": phix.ones([1])}
    >>> [u.tolist() for u in phix.tree.leaves(tx.update(g, tx.init(g))[0])]
    [[-1.0], [1.0]]
    """
    tx = with_extra_args_support(inner)

    def init(params: Any) -> MaskedState:
        return MaskedState(tx.init(_where(_flags(mask, params), params)))

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        flags = _flags(mask, updates if params is None else params)
        updates, inner_state = _only(tx, flags, updates, state.inner_state, params, extra)
        return updates, MaskedState(inner_state)

    return pair("masked", init, update)


@takes()
def multi_transform(
    transforms: Mapping[Any, Transformation], param_labels: Any
) -> GradientTransformationExtraArgs:
    """Another transformation for each label.

    Args:
        transforms: the transformations by label.
        param_labels: a tree of labels as the parameters (or a prefix of it), or a function from the
            parameters to one.

    Raises:
        ArgumentError: a label has no transformation.

    >>> import phix
    >>> tx = phix.optim.multi_transform(
    ...     {"slow": phix.optim.sgd(0.25), "fixed": phix.optim.set_to_zero()},
    ...     {"a": "slow", "b": "fixed"},
    ... )
    >>> g = {"a": phix.ones([1]), "b": phix.ones([1])}
    >>> [u.tolist() for u in phix.tree.leaves(tx.update(g, tx.init(g))[0])]
    [[-0.25], [0.0]]
    """
    if not isinstance(transforms, Mapping) or not all(map(is_transformation, transforms.values())):
        raise ArgumentError(
            f"multi_transform: transforms must be a dict of transformations, found "
            f"{described(transforms)}"
        )
    inner = {label: with_extra_args_support(tx) for label, tx in transforms.items()}

    def labels(tree: Any) -> list[Any]:
        found = _spread(param_labels(tree) if callable(param_labels) else param_labels, tree,
                        "param_labels")  # fmt: skip
        for label in found:
            if not is_hashable(label) or label not in inner:
                raise ArgumentError(f"the label {shown(label)} is none of {list(inner)}")
        return found

    def init(params: Any) -> PartitionState:
        named = labels(params)
        states = {n: tx.init(_where([m == n for m in named], params)) for n, tx in inner.items()}
        return PartitionState(states)

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        named, given, states = labels(updates if params is None else params), updates, {}
        for label, tx in inner.items():
            flags = [n == label for n in named]
            done, states[label] = _only(tx, flags, given, state.inner_states[label], params, extra)
            both = zip(flags, pytrees.leaves(done), pytrees.leaves(updates))
            _, treedef = pytrees.flatten(updates)
            updates = pytrees.unflatten(treedef, [new if f else old for f, new, old in both])
        return updates, PartitionState(states)

    return pair("multi_transform", init, update)


partition = multi_transform


# -- some of the steps -----------------------------------------------------------------------------
class MultiSteps:
    """A transformation that moves parameters every few steps, by the mean of the gradients between.

    In the other steps updates are zeros. It is a pair of init and update, too, so that it can be
    part of a chain.

    Args:
        opt: the transformation.
        every_k_schedule: how many gradients make a step, or a function of the number of the step.
        use_grad_mean: False takes their sum.
        accumulator_dtype: what they are gathered in; float32 is that at least: float64 beside a
            parameter of it.

    >>> import phix
    >>> tx = phix.optim.MultiSteps(phix.optim.sgd(1.0), 2)
    >>> g, state = [phix.full([1], 4.0)], tx.init([phix.ones([1])])
    >>> updates, state = tx.update(g, state)
    >>> updates[0].tolist(), tx.update([phix.full([1], 2.0)], state)[0][0].tolist()
    ([0.0], [-3.0])
    """

    @takes(opt=PAIR, every_k_schedule=at_least(1) | FUNCTION)
    def __init__(
        self,
        opt: Transformation,
        every_k_schedule: int | Callable[[Any], Any],
        use_grad_mean: bool = True,
        accumulator_dtype: DTypeLike = "float32",
    ) -> None:
        self._opt = with_extra_args_support(opt)
        self._every = every_k_schedule
        self._use_mean = use_grad_mean
        self._dtype = dt.as_dtype(accumulator_dtype)

    @property
    def inner_opt(self) -> GradientTransformationExtraArgs:
        """The transformation inside."""
        return self._opt

    def init(self, params: Any) -> MultiStepsState:
        """The state before the first step."""
        sums = mapped(lambda p: ops.full_like(p, 0, self._sum_dtype(p)), params)
        return MultiStepsState(no_steps(), no_steps(), self._opt.init(params), sums)

    def _sum_dtype(self, p: Any) -> Any:
        widens = dt.is_complex(p.dtype) or self._dtype == dt.float32
        return dt.promote(self._dtype, p.dtype) if widens else self._dtype

    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        """The updates, which are zeros but in the last step of a group, and the new state."""
        updates = with_tables(updates)
        every = self._every(state.gradient_step) if callable(self._every) else self._every
        step = state.mini_step

        def added(g: Any, total: Any) -> Any:
            g = to_dtype(g, total.dtype)
            if not self._use_mean:
                return total + g
            return total + (g - total) / (step + 1).astype(dt.real_dtype(total.dtype))

        sums = mapped(added, updates, state.acc_grads)
        grads = mapped(lambda total, g: to_dtype(total, g.dtype), sums, updates)
        is_last = step + 1 >= as_tensor(every)

        def stepped(grads: Any, inner: Any) -> Any:
            return self._opt.update(grads, inner, params, **extra)

        def resting(grads: Any, inner: Any) -> Any:
            return mapped(_zero, grads), inner

        out, inner = either(is_last, stepped, resting, grads, state.inner_opt_state)
        new = MultiStepsState(
            ops.where(is_last, 0, step + 1),
            ops.where(is_last, one_more(state.gradient_step), state.gradient_step),
            inner,
            mapped(lambda total: ops.where(is_last, ops.full((), 0, total.dtype), total), sums),
            state.skip_state,
        )
        return out, new

    def has_updated(self, state: Any) -> Any:
        """Whether the last step was the last of its group."""
        return (state.mini_step == 0) & (state.gradient_step > 0)

    def gradient_transformation(self) -> GradientTransformationExtraArgs:
        """The pair of init and update."""
        return GradientTransformationExtraArgs(self.init, self.update)


def either(pred: Any, first: Any, second: Any, grads: Any, state: Any) -> Any:
    """What one of two functions gives, in the structure and dtypes that come in."""

    def like(old: Any, new: Any) -> Any:
        return mapped(lambda o, n: to_dtype(n, o.dtype), old, new)

    def taken(grads: Any, state: Any) -> Any:
        updates, new = first(grads, state)
        return like(grads, updates), like(state, new)

    return cond(pred, taken, second, mapped(lambda x: x, grads), mapped(lambda x: x, state))


@takes(inner=PAIR, max_consecutive_errors=at_least(0))
def apply_if_finite(
    inner: Transformation, max_consecutive_errors: int
) -> GradientTransformationExtraArgs:
    """The transformation, but where a gradient has NaN or Inf: zeros, and its state stays.

    After more than max_consecutive_errors such gradients in a row they are taken all the same.

    >>> import phix
    >>> tx = phix.optim.apply_if_finite(phix.optim.sgd(1.0), 5)
    >>> tx.update([phix.full([1], float("nan"))], tx.init([phix.ones([1])]))[0][0].tolist()
    [0.0]
    """
    tx = with_extra_args_support(inner)

    def init(params: Any) -> ApplyIfFiniteState:
        return ApplyIfFiniteState(no_steps(), as_tensor(True), no_steps(), tx.init(params))

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        finite = as_tensor(True)
        for leaf in pytrees.leaves(updates):
            finite = finite & ops.all(ops.isfinite(as_tensor(leaf)))
        bad = ops.where(finite, 0, one_more(state.notfinite_count))
        taken = finite | (bad > max_consecutive_errors)
        out, own = either(
            taken,
            lambda g, s: tx.update(g, s, params, **extra),
            lambda g, s: (mapped(_zero, g), s),
            updates,
            state.inner_state,
        )
        total = ops.where(finite, state.total_notfinite, one_more(state.total_notfinite))
        return out, ApplyIfFiniteState(bad, finite, total, own)

    return pair("apply_if_finite", init, update)


# -- settings in the state -------------------------------------------------------------------------
def inject_hyperparams(
    inner_factory: Callable[..., Any],
    static_args: str | Iterable[str] = (),
    hyperparam_dtype: DTypeLike | None = None,
) -> Callable[..., GradientTransformationExtraArgs]:
    """``inner_factory`` with its numbers in the state, where a loop can read and change them.

    Args:
        inner_factory: a function that makes a transformation of settings, :func:`adam` say.
        static_args: settings that stay out of the state, as those do that are annotated ``int``.
        hyperparam_dtype: what they are kept in; None: float32, float64 beside a parameter of it.

    Returns:
        A function of the same settings. Numbers and schedules among them are in
        ``state.hyperparams``, by name; a schedule gives its value anew at every step.

    >>> import phix
    >>> tx = phix.optim.inject_hyperparams(phix.optim.sgd)(learning_rate=0.5)
    >>> state = tx.init([phix.ones([1])])
    >>> state.hyperparams["learning_rate"] = phix.to_tensor(0.25)
    >>> tx.update([phix.ones([1])], state)[0][0].tolist()
    [-0.25]
    """
    if not callable(inner_factory):
        raise ArgumentError(
            "inject_hyperparams: inner_factory must be a function that makes a transformation, "
            f"found {described(inner_factory)}"
        )
    signature = inspect.signature(inner_factory)
    fixed = {static_args} if isinstance(static_args, str) else set(static_args)
    counts = {n for n, p in signature.parameters.items() if p.annotation in (int, "int")}
    if not fixed <= set(signature.parameters):
        raise ArgumentError(
            f"inject_hyperparams: static_args {sorted(map(str, fixed))} are not all among "
            f"{list(signature.parameters)}"
        )
    dtype = None if hyperparam_dtype is None else dt.as_dtype(hyperparam_dtype)

    @functools.wraps(inner_factory)
    def made(*args: Any, **kwargs: Any) -> GradientTransformationExtraArgs:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return _injected(inner_factory, bound.arguments, fixed | counts, dtype)

    return made


def _injected(factory: Any, settings: Any, fixed: Any, dtype: Any) -> Any:
    """The transformation of settings, those that are numbers or schedules in its state."""
    schedules, numbers, others = {}, {}, {}
    for name, given in settings.items():
        is_number = isinstance(given, (int, float)) or hasattr(given, "dtype")
        if name in fixed or isinstance(given, bool) or not (callable(given) or is_number):
            others[name] = given
        elif callable(given):
            schedules[name] = given
        else:
            numbers[name] = given

    def value(x: Any, kept: Any) -> Any:
        if type(x) is float:  # with all its digits still
            return ops.full((), x, kept)
        tensor = as_tensor(x)
        return to_dtype(tensor, kept) if dt.is_float(tensor.dtype) else tensor

    def inner(hyperparams: Any) -> GradientTransformationExtraArgs:
        return with_extra_args_support(factory(**others, **hyperparams))

    def init(params: Any) -> InjectHyperparamsState:
        kept = widest(params) if dtype is None else dtype
        first = {name: rate_at(f, no_steps(), kept) for name, f in schedules.items()}
        found = {name: value(x, kept) for name, x in (numbers | first).items()}
        return InjectHyperparamsState(no_steps(), found, inner(found).init(params))

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        found = dict(state.hyperparams)
        for name, f in schedules.items():
            kept = found[name].dtype
            found[name] = value(rate_at(f, state.count, kept), kept)
        out, own = inner(found).update(updates, state.inner_state, params, **extra)
        return out, InjectHyperparamsState(one_more(state.count), found, own)

    return pair("inject_hyperparams", init, update)
