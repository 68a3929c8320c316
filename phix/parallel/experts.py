"""A layer of experts that lie on the parts of a mesh: tokens go to theirs, and come back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phix import ops
from phix.api.batching import all_to_all, axis_size, vmap
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import pytrees
from phix.core.conversion import to_tensor
from phix.core.errors import ArgumentError, ShapeError
from phix.core.given import FUNCTION, Kind, at_least, takes
from phix.core.tensor import Tensor, TensorLike

_CAPACITY = Kind("an int from 1, or None", lambda v: v is None or (type(v) is int and v > 0))
_TREE = Kind("a tree of tensors", lambda v: True)


@takes(expert=FUNCTION, weights=_TREE, top=at_least(1), capacity=_CAPACITY)
def experts(
    expert: Callable[[Any, Any], Any],
    weights: Any,
    x: TensorLike,
    shares: TensorLike,
    axis_name: str,
    *,
    top: int = 2,
    capacity: int | None = None,
) -> Tensor:
    """The sum over the ``top`` experts of each token: their share times what they make of it.

    Each part of the axis has as many experts and its own tokens. By ``all_to_all`` tokens go to the
    parts where their experts are, and results come back by another.

    Args:
        expert: ``expert(weights of one, rows)`` makes of rows [c, size] as many, each of its row
            alone. Where fewer tokens came than there is room for, one of them stands again.
        weights: those of the experts of this part, a tree whose first axis counts them.
        x: the tokens of this part, [tokens, size].
        shares: [tokens, all experts] of what each expert counts to a token, in the order of the
            parts: a softmax, say. Those of the largest ``top`` count.
        axis_name: of :func:`spmd`, or of ``phix.vmap``.
        top: how many experts a token has.
        capacity: how many tokens of one part an expert takes, first choices first, then in the
            order of the tokens; to those beyond it it adds nothing. None: all.

    Returns:
        [tokens, size of what an expert gives].

    Raises:
        ShapeError: shares that are not of the tokens, or of as many experts as all parts have, or
            an expert that does not give a row for each row.
        ArgumentError: top beyond the number of experts.

    >>> import phix
    >>> mesh = phix.parallel.mesh({"expert": 2}, virtual=True)
    >>> scaled = lambda w, rows: w * rows
    >>> layer = lambda w, x, s: phix.parallel.experts(scaled, w, x, s, "expert", top=1)
    >>> run = phix.parallel.spmd(layer, mesh, "expert", "expert")
    >>> run(phix.to_tensor([1.0, 10.0]), phix.ones([4, 1]), phix.to_tensor([[0.75, 0.25]] * 3
    ...     + [[0.25, 0.5]])).flatten().tolist()
    [0.75, 0.75, 0.75, 5.0]
    """
    tokens, given = to_tensor(x), to_tensor(shares)
    parts, here = axis_size(axis_name), _count_here(weights)
    _check(tokens, given, here * parts, top)
    count = tokens.shape[0]
    room = count if capacity is None else capacity
    share, number = ops.topk(given, top, -1)
    slot, is_kept, taken = _slots(number, here * parts, room)
    sent = _placed(tokens, slot, here * parts * room)
    found = _away_and_back(expert, weights, sent, taken, axis_name, (parts, here, room))
    at = ops.reshape(ops.where(is_kept, slot, 0), (count * top,))
    out = ops.reshape(ops.gather(found, at, 0), (count, top, found.shape[-1]))
    out = ops.where(ops.unsqueeze(is_kept, [-1]), out, ops.full((), 0, out.dtype))
    counts = ops.where(is_kept, share, ops.full((), 0, share.dtype))
    return ops.sum(out * ops.unsqueeze(counts, [-1]), (1,))


def _placed(tokens: Any, slot: Any, places: Any) -> Any:
    """Each token in the places of its choices; one behind them all is for those without."""
    count, size = tokens.shape
    top = slot.shape[1]
    rows = ops.expand(ops.unsqueeze(tokens, [1]), (count, top, size))
    rows = ops.reshape(rows, (count * top, size))
    empty = ops.full((places + 1, size), 0, tokens.dtype)
    return ops.scatter_nd_add(empty, ops.reshape(slot, (count * top, 1)), rows)[:places]


def _count_here(weights: Any) -> Any:
    leaves = [to_tensor(w) for w in pytrees.leaves(weights)]
    if not leaves or any(w.ndim == 0 or not dm.same(w.shape[0], leaves[0].shape[0])
                         for w in leaves):  # fmt: skip
        raise ShapeError(
            "experts: the first axis of each of the weights counts the experts of this part, found "
            f"{', '.join(str(w.meta) for w in leaves) or 'none'}"
        )
    return leaves[0].shape[0]


def _check(x: Any, shares: Any, count: Any, top: int) -> None:
    if x.ndim != 2 or shares.ndim != 2 or not dm.same(x.shape[0], shares.shape[0]):
        raise ShapeError(
            f"experts: x is [tokens, size] and shares [tokens, experts], found {x.meta} and "
            f"{shares.meta}"
        )
    if not dm.same(shares.shape[1], count):
        raise ShapeError(
            f"experts: shares {shares.meta} are of {dm.dim_text(shares.shape[1])} experts, and "
            f"the parts have {dm.dim_text(count)}"
        )
    if isinstance(count, int) and top > count:
        raise ArgumentError(f"experts: top is {top}, and there are {count} experts")


def _slots(number: Any, experts: Any, room: Any) -> tuple[Any, Any, Any]:
    """The place of each choice among those of all experts, and whether there is one: first choices
    come before second ones. And how many places of each expert are taken, from the first one on."""
    count, top = number.shape
    chosen = ops.reshape(ops.transpose(number, (1, 0)), (top * count, 1))
    is_one = ops.cast(chosen == ops.arange(0, experts, 1, chosen.dtype), dt.int64)
    before = ops.sum((ops.cumsum(is_one, 0) - is_one) * is_one, (1,))
    place = ops.transpose(ops.reshape(before, (top, count)), (1, 0))
    is_kept = place < room
    slot = ops.cast(number, dt.int64) * room + place
    nowhere = ops.full((), experts * room, dt.int64)
    return ops.where(is_kept, slot, nowhere), is_kept, ops.minimum(ops.sum(is_one, (0,)), room)


def _away_and_back(
    expert: Any, weights: Any, sent: Any, taken: Any, axis_name: str, sizes: Any
) -> Any:
    """What the experts make of rows in their places, [experts * room, ...]."""
    parts, here, room = sizes
    blocks = ops.reshape(sent, (parts, here, room, sent.shape[-1]))
    arrived = ops.transpose(all_to_all(blocks, axis_name, 0, 0), (1, 0, 2, 3))
    rows = ops.reshape(arrived, (here, parts * room, sent.shape[-1]))
    counts = all_to_all(ops.reshape(taken, (parts, here)), axis_name, 0, 0)
    counts = ops.unsqueeze(ops.transpose(counts, (1, 0)), [-1])
    is_row = ops.reshape(ops.arange(0, room, 1, dt.int64) < counts, (here, parts * room))
    made = vmap(lambda *given: _made(expert, *given))(weights, rows, is_row)
    size = made.shape[-1]
    back = ops.transpose(ops.reshape(made, (here, parts, room, size)), (1, 0, 2, 3))
    return ops.reshape(all_to_all(back, axis_name, 0, 0), (parts * here * room, size))


def _made(expert: Any, weights: Any, rows: Any, is_row: Any) -> Any:
    """What one expert makes of its rows, [c, ...].

    Where no token came, the first of its tokens stands, not a row of zeros, at which an expert may
    have no derivative: a cotangent of zero would still make the gradient of its weights NaN. The
    weights of one without any token have the gradient zero, whatever stands there.
    """
    number = ops.cumsum(ops.cast(is_row, dt.int64), 0)
    first = ops.unsqueeze(is_row & (number == 1), [-1])
    filler = ops.sum(ops.where(first, rows, ops.full((), 0, rows.dtype)), (0,), keepdim=True)
    rows = ops.where(ops.unsqueeze(is_row, [-1]), rows, ops.stop_gradient(filler))
    is_any = ops.any(is_row)
    used = pytrees.map(lambda w: ops.where(is_any, w, ops.stop_gradient(w)), weights)
    made = expert(used, rows)
    meta = getattr(made, "meta", None)
    if meta is None or made.ndim != 2 or not dm.same(made.shape[0], rows.shape[0]):
        raise ShapeError(
            f"experts: an expert makes of rows {rows.meta} as many, [{dm.dim_text(rows.shape[0])}, "
            f"size], and this one made {meta or type(made).__name__}; give one tensor with a row "
            "for each"
        )
    return made


__all__ = ["experts"]
