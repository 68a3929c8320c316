"""Pipelines: the layers of a network lie on the parts of a mesh, and microbatches go through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phix import ops
from phix.api.arguments import flat_tensors
from phix.api.batching import axis_index, axis_size, ppermute, psum, pvary
from phix.api.branches import cond
from phix.api.control_flow import scan
from phix.api.custom import custom_vjp
from phix.api.gradients import vjp
from phix.api.graphs import eval_shape
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import pytrees
from phix.core.errors import ArgumentError, DifferentiationError, ShapeError
from phix.core.given import FUNCTION, Kind, takes
from phix.core.tensor import Tensor

_TREE = Kind("a tree of tensors", lambda v: True)


@takes(stage=FUNCTION, loss=FUNCTION, weights=_TREE, head=_TREE, xs=_TREE, targets=_TREE)
def pipeline(
    stage: Callable[[Any, Any], Any],
    loss: Callable[[Any, Any, Any], Any],
    weights: Any,
    head: Any,
    xs: Any,
    targets: Any,
    axis_name: str,
) -> Tensor:
    """The mean loss of microbatches that go through stages, one on each part of an axis.

    A microbatch is at one stage while the one behind it is at the stage before. Differentiated, a
    part makes in each turn one microbatch forward and one backward (1F1B): the last one turns each
    round at once. Of a microbatch on its way a part keeps what came to its stage alone, of
    ``2 * stages - 1`` of them at most, and computes the stage again going backward. Results and
    gradients are those of ``loss(head, stage(w_last, ... stage(w_first, x)), target)``.

    Args:
        stage: ``stage(weights, x)`` gives what the next stage takes: of the shape and dtype of x.
        loss: ``loss(head, x, target)`` of what the last stage gives: a scalar.
        weights: of this part's stage, a tree.
        head: what the loss has besides, a tree that is the same on all parts; None if nothing.
        xs: the microbatches, [count, ...], the same on all parts.
        targets: a tree of tensors [count, ...] for the loss, the same on all parts.
        axis_name: of :func:`spmd`, or of ``phix.vmap``.

    Returns:
        A scalar, the same on all parts. Gradients with respect to ``weights`` are this part's;
        those of ``head``, ``xs`` and ``targets`` are whole. Half precision is added up
        over the microbatches in float32. What the loss is multiplied by against underflow belongs
        inside ``loss``: going backward begins before anything outside is known.

    Raises:
        ShapeError: a stage that gives another shape or dtype, a loss that is no scalar, targets
            of another count, or no microbatches.
        ArgumentError: on a mesh, head, xs or targets that are not the same along the axis.
        DifferentiationError: differentiated, weights, head or xs that are not floating.

    >>> import phix
    >>> mesh = phix.parallel.mesh({"stage": 2}, virtual=True)
    >>> stage = lambda w, x: w[0] * x
    >>> loss = lambda head, x, y: ((x - y) ** 2).mean()
    >>> train = lambda w, xs, ys: phix.value_and_grad(lambda w: phix.parallel.pipeline(
    ...     stage, loss, w, None, xs, ys, "stage"))(w)
    >>> step = phix.parallel.spmd(train, mesh, ("stage", None, None), (None, "stage"))
    >>> value, grad = step(phix.to_tensor([2.0, 3.0]), phix.ones([4, 1]), phix.ones([4, 1]))
    >>> value.item(), grad.tolist()
    (25.0, [30.0, 20.0])
    """
    flat, tree = flat_tensors((weights, head, xs, targets), "pipeline")
    _, shared, batches, aims = pytrees.unflatten(tree, flat)
    count = _count(batches, aims)
    _check_alike(axis_name, {"head": shared, "xs": batches, "targets": aims})
    run = _differentiated(_Schedule(stage, loss, axis_name, count))
    found: Tensor = run(*pytrees.unflatten(tree, flat))
    return found


def _differentiated(schedule: _Schedule) -> Any:
    """The loss, whose gradients are made with it."""

    @custom_vjp
    def pipeline_loss(weights: Any, head: Any, xs: Any, targets: Any) -> Any:
        return schedule.forward(weights, head, xs, targets)

    def backward(grads: Any, ct: Any) -> Any:
        return pytrees.map(lambda g: g * ct, grads)

    pipeline_loss.defvjp(schedule.both, backward)
    return pipeline_loss


def _count(xs: Any, targets: Any) -> Any:
    leaves = pytrees.leaves(xs)
    if len(leaves) != 1 or leaves[0].ndim == 0:
        raise ShapeError(f"pipeline: xs is one tensor [count, ...], found {len(leaves)} of them")
    count = leaves[0].shape[0]
    if isinstance(count, int) and count == 0:
        raise ShapeError(f"pipeline: xs {leaves[0].meta} has no microbatches; give one or more")
    for x in pytrees.leaves(targets):
        if x.ndim == 0 or not dm.same(x.shape[0], count):
            raise ShapeError(
                f"pipeline: targets have an entry for each of {dm.dim_text(count)} microbatches, "
                f"found {x.meta}"
            )
    return count


def _check_alike(axis_name: str, trees: dict[str, Any]) -> None:
    """Refuse what each part has of its own, of which those of one part alone would count."""
    for name, tree in trees.items():
        if any(axis_name in x.meta.varying for x in pytrees.leaves(tree)):
            raise ArgumentError(
                f"pipeline: {name} must be the same on all parts, and differs along {axis_name!r}, "
                "or is not proved to be the same; give it the spec None there, or the all_gather, "
                "psum or pmean of what the parts have"
            )


def _check_floats(trees: dict[str, Any]) -> None:
    for name, tree in trees.items():
        for x in pytrees.leaves(tree):
            if not dt.is_differentiable(x.dtype):
                raise DifferentiationError(
                    f"pipeline: {name} has {x.meta}, which cannot be differentiated, and gradients "
                    f"are made with respect to all of {name}; let the stage or the loss enclose it"
                )


class _Schedule:
    """What each part does in which turn."""

    def __init__(self, stage: Any, loss: Any, axis_name: str, count: Any) -> None:
        self.user_stage, self.user_loss = stage, loss
        self.name, self.count = axis_name, count
        self.stages = axis_size(axis_name)

    # -- the user's functions ----------------------------------------------------------------
    def stage(self, weights: Any, x: Any) -> Any:
        out = self.user_stage(weights, x)
        meta = getattr(out, "meta", None)
        if meta is None or meta.dtype != x.dtype or not dm.same_shape(meta.dims, x.meta.dims):
            raise ShapeError(
                f"pipeline: a stage gives what the next one takes, and of {x.meta} this one made "
                f"{meta or type(out).__name__}; put what changes shapes before the pipeline, or "
                "into the loss"
            )
        return out

    def loss(self, head: Any, x: Any, target: Any) -> Any:
        found = self.user_loss(head, x, target)
        if getattr(found, "shape", None) != ():
            raise ShapeError(
                f"pipeline: the loss is a scalar, found {getattr(found, 'meta', found)}; take its "
                "mean"
            )
        return found

    def zero(self, head: Any, xs: Any, targets: Any) -> Any:
        """Of the loss."""
        first = pytrees.map(lambda x: x[0], (xs, targets))
        return ops.full((), 0, eval_shape(self.loss, head, *first).dtype)

    # -- between the stages ------------------------------------------------------------------
    def to_next(self, x: Any) -> Any:
        return ppermute(x, self.name, [(k, k + 1) for k in range(self.stages - 1)])

    def to_last(self, x: Any) -> Any:
        return ppermute(x, self.name, [(k + 1, k) for k in range(self.stages - 1)])

    def from_end(self, x: Any) -> Any:
        """What the last part has, on all."""
        return psum(ops.where(self.is_end(), x, ops.full_like(x, 0)), self.name)

    def is_end(self) -> Any:
        return axis_index(self.name) == self.stages - 1

    def forward(self, weights: Any, head: Any, xs: Any, targets: Any) -> Any:
        """The loss alone."""
        here = axis_index(self.name)
        zero = self.zero(head, xs, targets)

        def turn(carry: Any, time: Any) -> Any:
            came, total = carry
            number = time - here
            at = ops.clip(number, 0, self.count - 1)
            x = ops.where(here == 0, _at(xs, at), came)
            is_on = _is_one(number, self.count)
            out = cond(is_on, self.stage, lambda w, x: x, weights, x)
            ends = (head, out, _row(targets, at))
            value = cond(is_on & self.is_end(), self.loss, lambda *_: zero, *ends)
            return (self.to_next(out), _sum(total, value)), None

        start = (ops.full_like(xs[0], 0), _wide_zeros(zero))
        turns = ops.arange(0, self.count + self.stages - 1, 1, dt.int64)
        return self.mean(scan(turn, start, turns)[0][1], zero)

    def mean(self, total: Any, zero: Any) -> Any:
        """The mean loss on all parts, of what the last one has added up."""
        return ops.cast(self.from_end(total / self.count), zero.dtype)

    # -- with gradients ----------------------------------------------------------------------
    def both(self, weights: Any, head: Any, xs: Any, targets: Any) -> Any:
        """The loss, and the gradients with respect to weights, head and xs: of head those of the
        last part, of xs those of the first, others zeros."""
        _check_floats({"weights": weights, "head": head, "xs": xs})
        here, far = axis_index(self.name), 2 * (self.stages - 1)
        room, zero, is_end = far + 1, self.zero(head, xs, targets), self.is_end()
        weights, head = pvary((weights, head), self.name)  # each part has gradients of its own

        def turn(carry: Any, time: Any) -> Any:
            came, back, kept, total, to_weights, to_head, to_xs, to_aims = carry
            number = time - here
            x = ops.where(here == 0, _at(xs, ops.clip(number, 0, self.count - 1)), came)
            kept = _put(kept, number % room, x, _is_one(number, self.count))
            is_on = _is_one(number, self.count) & ~is_end
            out = cond(is_on, self.stage, lambda w, x: x, weights, x)

            number = time - (far - here)
            is_on, at = _is_one(number, self.count), ops.clip(number, 0, self.count - 1)
            given = (weights, head, _at(kept, number % room), _row(targets, at), back, zero, is_end)
            value, by_weights, by_head, by_x, by_aims = cond(is_on, self.turned, _idle, *given)
            to_xs = _put(to_xs, at, by_x, is_on & (here == 0))
            to_aims = [_put(x, at, row, is_on & is_end) for x, row in zip(to_aims, by_aims)]
            added = _sum((total, to_weights, to_head), (value, by_weights, by_head))
            return (self.to_next(out), self.to_last(by_x), kept, *added, to_xs, to_aims), None

        nothing = ops.full_like(xs[0], 0)
        kept = ops.expand(ops.unsqueeze(nothing, [0]), (room, *nothing.shape))
        sums = _wide_zeros((zero, weights, head))
        start = (nothing, nothing, kept, *sums, _zeros(xs), _zeros(_floats(targets)))
        turns = ops.arange(0, self.count + far, 1, dt.int64)
        _, _, _, total, *grads = scan(turn, start, turns)[0]
        *means, to_aims = pytrees.map(lambda g: g / self.count, tuple(grads))
        return self.mean(total, zero), (*means, _with_floats(None, targets, to_aims))

    def turned(
        self, weights: Any, head: Any, x: Any, target: Any, back: Any, zero: Any, is_end: Any
    ) -> Any:
        """A microbatch backward through this part's stage: loss and gradients."""
        out, pull = vjp(self.stage, weights, x)

        def end(head: Any, out: Any) -> Any:
            ends = lambda h, o, aims: self.loss(h, o, _with_floats(target, target, aims))  # noqa: E731
            value, pull = vjp(ends, head, out, _floats(target))
            return (value, *pull(ops.full_like(value, 1)))

        def before(head: Any, out: Any) -> Any:
            return zero, _zeros(head), back, _zeros(_floats(target))

        value, by_head, ct, by_aims = cond(is_end, end, before, head, out)
        by_weights, by_x = pull(ct)
        return value, by_weights, by_head, by_x, by_aims


def _idle(weights: Any, head: Any, x: Any, target: Any, back: Any, zero: Any, _: Any) -> Any:
    return (zero, *_zeros((weights, head, x, _floats(target))))


def _floats(tree: Any) -> list[Any]:
    """What of targets can be differentiated."""
    return [x for x in pytrees.leaves(tree) if dt.is_differentiable(x.dtype)]


def _with_floats(others: Any, like: Any, floats: Any) -> Any:
    """The tree ``like`` with these floats, and what ``others`` has for the rest."""
    supply = iter(floats)
    leaves, tree = pytrees.flatten(like)
    rest = [None] * len(leaves) if others is None else pytrees.leaves(others)
    chosen = [next(supply) if dt.is_differentiable(x.dtype) else r for x, r in zip(leaves, rest)]
    return pytrees.unflatten(tree, chosen)


def _zeros(tree: Any) -> Any:
    return pytrees.map(lambda x: ops.full_like(x, 0), tree)


def _wide_zeros(tree: Any) -> Any:
    """Those that microbatches are added to: half precision is added up in float32."""
    return pytrees.map(lambda x: ops.full_like(x, 0, dt.float32 if _is_half(x) else None), tree)


def _is_half(x: Any) -> bool:
    return dt.is_differentiable(x.dtype) and x.dtype.itemsize < 4


def _sum(tree: Any, other: Any) -> Any:
    """In the dtypes of the first."""
    return pytrees.map(lambda x, y: x + ops.cast(y, x.dtype), tree, other)


def _is_one(number: Any, count: Any) -> Any:
    """Whether it is the number of a microbatch."""
    return (number >= 0) & (number < count)


def _at(xs: Any, at: Any) -> Any:
    return ops.gather(xs, at, 0)


def _row(tree: Any, at: Any) -> Any:
    return pytrees.map(lambda x: _at(x, at), tree)


def _put(xs: Any, at: Any, x: Any, is_on: Any) -> Any:
    """xs with x as the row ``at``, if it is to be."""
    row = ops.where(is_on, x, _at(xs, at))
    return ops.scatter(xs, ops.reshape(at, (1,)), ops.unsqueeze(row, [0]))


__all__ = ["pipeline"]
