"""What is recognised in graphs as one op, where some backend has a kernel for it."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.patterns import Match, Node, attribute, call, either, form, number, pattern

# A masked score that is not -inf is at least so far down that it is nothing beside any other.
_FAR_DOWN = -1e9


def _cast(x: Node) -> Node:
    """``x``, or a cast of it: products in a low dtype beside a softmax in float32."""
    return either(x, call.cast(x, dtype=attribute("")))


def _scaled(x: Node, factor: str) -> Node:
    """``x``, or ``x`` times a number, in one of the ways of writing that."""
    return either(
        call.multiply(x, number(factor)),
        call.divide(x, number(f"{factor}_divisor")),
        call.scale(x, scale=attribute(factor)),
        x,
    )


@pattern("attention", "softmax(query @ key.T) @ value is one op, with scale and mask", "attention")
def attention(query: Node, key: Node, value: Node, bias: Node, seen: Node, hidden: Node) -> Node:
    product = either(
        call.matmul(_scaled(query, "inner"), key, transpose_y=True),
        call.matmul(_scaled(query, "inner"), call.transpose(key, perm=attribute("perm"))),
    )
    low = call.cast(_scaled(product, "outer"), dtype=attribute(""))
    scaled = either(_scaled(_cast(product), "outer"), low)
    scores = scaled.named("scores")
    biased = either(call.add(scores, bias), scores)
    masked = either(
        call.where(seen, biased, number("fill")),
        call.where(hidden, number("fill"), biased),
        call.add(call.where(seen, scores, number("fill")), bias),
        biased,
    ).named("masked")
    weights = call.softmax(masked, axis=attribute("axis"))
    return call.matmul(_cast(weights), value)


def _numbers(name: str) -> Node:
    return call.arange(start=0, end=attribute(name), step=1, dtype=attribute(""))


@form
def causal() -> Node:
    """True where a column is no further than its row."""
    row = call.reshape(_numbers("rows"), shape=attribute(""))
    column = either(_numbers("columns"), call.reshape(_numbers("columns"), shape=attribute("")))
    return either(call.greater_equal(row, column), call.less_equal(column, row))


@attention.where("query, key and value are matrices of one dtype")
def _(m: Match) -> bool:
    metas = [x.meta for x in (m.query, m.key, m.value)]
    return all(x.ndim > 1 and x.dtype == m.query.meta.dtype for x in metas)


@attention.where("the key's last two axes are exchanged, no others")
def _(m: Match) -> bool:
    axes = list(range(m.key.meta.ndim))
    return m.perm is None or list(m.perm) == [*axes[:-2], axes[-1], axes[-2]]


@attention.where("the softmax is over the keys")
def _(m: Match) -> bool:
    return bool(m.axis == m.masked.meta.ndim - 1)


@attention.where("the mask has no more axes or rows than the scores")
def _(m: Match) -> bool:
    return dm.same_shape(m.masked.meta.dims, m.scores.meta.dims)


@attention.where("a masked score is nothing beside any other")
def _(m: Match) -> bool:
    return m.fill is None or m.fill <= _FAR_DOWN


@attention.where("numbers to add stand beside a causal mask at most")
def _(m: Match) -> bool:
    return m.bias is None or (m.hidden is None and m.seen is None) or _is_causal(m)


@attention.where("numbers to add stand beside a mask of -inf alone")
def _(m: Match) -> bool:
    """Where they leave a row nothing but what is masked, its finite scores would count."""
    return m.bias is None or m.fill in (None, float("-inf"))


@attention.where("the bias is of floats")
def _(m: Match) -> bool:
    return m.bias is None or dt.is_float(m.bias.meta.dtype)


@attention.where("the factors are numbers, no divisor is 0")
def _(m: Match) -> bool:
    factors = [m.bound.get(name, 1.0) for name in _FACTORS]
    divisors = [m.bound.get(name, 1.0) for name in _FACTORS if "divisor" in name]
    return all(isinstance(f, (int, float)) for f in factors) and all(divisors)


_FACTORS = ("inner", "inner_divisor", "outer", "outer_divisor")


def _is_causal(m: Match) -> bool:
    """Whether the mask is the triangle of all its rows and columns."""
    if m.seen is None:
        return False
    found = m.finder.bound_by(causal, m.seen)
    dims = m.scores.meta.dims
    return (
        found is not None
        and m.seen.meta.ndim >= 2
        and dm.same(found.rows, dims[-2])
        and dm.same(found.columns, dims[-1])
        and dm.same_shape(m.seen.meta.dims[-2:], dims[-2:])
        and all(map(dm.is_one, m.seen.meta.dims[:-2]))
    )


@attention.becomes
def _(m: Match) -> Any:
    inner, inner_divisor, outer, outer_divisor = (m.bound.get(name, 1.0) for name in _FACTORS)
    scale = float(inner * outer) / float(inner_divisor * outer_divisor)
    if m.found is not None and _is_causal(m.found):
        return ops.attention(m.query, m.key, m.value, m.bias, scale, True)
    if m.seen is None and m.hidden is None:
        return ops.attention(m.query, m.key, m.value, m.bias, scale, False)
    query, mask = m.query, m.seen if m.hidden is None else ops.logical_not(m.hidden)
    if m.fill != float("-inf"):
        query, mask = _alike_where_none_is_seen(query, mask)
    return ops.attention(query, m.key, m.value, mask, scale, False)


def _alike_where_none_is_seen(query: Any, mask: Any) -> tuple[Any, Any]:
    """A row whose keys are all masked, by one finite number, gives as much to each of them, and
    no query or key moves that: what a query of zeros does that sees all."""
    sees_any = ops.any(mask, (-1,), keepdim=True)
    zero = ops.full((), 0.0, query.dtype)
    return ops.where(sees_any, query, zero), ops.logical_or(mask, ops.logical_not(sees_any))
