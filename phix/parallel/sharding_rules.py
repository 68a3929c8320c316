"""What dividing its operands makes of a primitive: one rule a primitive, mostly by trait.

A rule names the dims of operands and outputs by labels. What has the same label is divided
together, as in the letters of an einsum; None is a dim that must be whole. From that the planner
knows all ways to run the op on parts.
"""

from __future__ import annotations

import cmath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.graph import Equation, Literal, flat
from phix.core.meta import MetaTensor
from phix.core.op import Op
from phix.core.records import dataclass, field
from phix.parallel.forms import elements

Labels = tuple[Any, ...]
Cut = Mapping[Any, tuple[str, int]]  # label -> the axis that divides it, and among how many


@dataclass(frozen=True)
class ShardingRule:
    """How one call of an op can be divided.

    Attributes:
        operands, outs: the label of each dim of each operand and output, lists opened.
        sums: labels over which outputs are sums: dividing one leaves them pending.
        carried: operands that outputs are sums with; dividing a label of sums, they must pend.
        linear: sets of operands in which the op is linear together: where those are pending, so
            are the outputs. The others must be whole. An op that multiplies by what the graph does
            not know is not: where that is infinite, and the sum of one part 0, it would be NaN.
        extremes: labels over which outputs are extremes, and how parts of those are joined:
            max, min, any or all; or sum, where that is not left pending.
        is_wide: whether a part does it in float32, and what is joined is rounded behind that.
        attrs: the attributes of a part's call, of those of the whole and what is cut.
        local: what a part does in place of the op, of what is cut, its values and attributes,
            for labels in ``looked_up``.
        looked_up: labels of dims in which indices point: a part does with those that point into
            its piece, and outputs are pending.
        flops: multiplications of the whole call.
    """

    operands: tuple[Labels, ...]
    outs: tuple[Labels, ...]
    sums: frozenset[Any] = frozenset()
    carried: frozenset[int] = frozenset()
    linear: tuple[frozenset[int], ...] = ()
    extremes: Mapping[Any, str] = field(default_factory=dict)
    is_wide: bool = False
    attrs: Callable[[tuple[Any, ...], Cut], tuple[Any, ...]] | None = None
    local: Callable[..., Any] | None = None
    looked_up: frozenset[Any] = frozenset()
    flops: float = 0.0


class RuleCall:
    """One equation, as rules see it."""

    def __init__(self, equation: Equation) -> None:
        self.op: Op = equation.op
        self.atoms = flat(equation.inputs)
        self.metas: list[MetaTensor] = [a.meta for a in self.atoms]
        self.outs: list[MetaTensor] = [v.meta for v in flat(equation.outputs)]
        self.attrs = equation.attrs

    def attr(self, name: str) -> Any:
        return self.op.attr(name, self.attrs)

    def with_attr(self, attrs: tuple[Any, ...], name: str, value: Any) -> tuple[Any, ...]:
        at = self.op.attr_names.index(name)
        return (*attrs[:at], value, *attrs[at + 1 :])


Make = Callable[[RuleCall], ShardingRule]
RULES: dict[str, Make] = {}


def rule(*names: str) -> Callable[[Make], Make]:
    """Register the rule of some primitives."""

    def decorator(make: Make) -> Make:
        for name in names:
            RULES[name] = make
        return make

    return decorator


def rule_of(equation: Equation) -> ShardingRule | None:
    """The rule of an equation; None where none covers it."""
    op = equation.op
    make = RULES.get(op.name)
    if make is None and op.is_pointwise:
        make = pointwise
    if make is None and "matrices" in op.traits:
        make = matrices
    return None if make is None else make(RuleCall(equation))


def whole(call: RuleCall) -> ShardingRule:
    """Nothing is divided."""
    return ShardingRule(
        tuple((None,) * m.ndim for m in call.metas), tuple((None,) * m.ndim for m in call.outs)
    )


_WHOLE = (
    "full", "arange", "random_bits", "dim_value", "segment_sum_csr", "sparse_product_counts",
    "sparse_product_columns", "sparse_product_terms", "true_positions",
)  # fmt: skip
for _name in _WHOLE:
    RULES[_name] = whole


def aligned(meta: MetaTensor, out: MetaTensor) -> Labels:
    """Numbers of the dims of ``out`` that the dims of a broadcast operand are."""
    start = out.ndim - meta.ndim
    return tuple(
        None if dm.is_one(dim) and not dm.is_one(out.dims[start + k]) else start + k
        for k, dim in enumerate(meta.dims)
    )


def dropped(labels: Sequence[Any], gone: Sequence[Any]) -> Labels:
    """Labels with None for those of dims that must be whole."""
    return tuple(None if x in gone else x for x in labels)


def each(*operands: int) -> tuple[frozenset[int], ...]:
    """Linear in each of these alone."""
    return tuple(frozenset({k}) for k in operands)


def together(*operands: int) -> tuple[frozenset[int], ...]:
    return (frozenset(operands),)


# -- pointwise -------------------------------------------------------------------------------------
_LINEAR: dict[str, tuple[frozenset[int], ...]] = {
    "add": together(0, 1),
    "subtract": together(0, 1),
    "where": together(1, 2),
    "real": each(0),
    "imag": each(0),
    "conj": each(0),
    "complex": together(0, 1),
    "stop_gradient": each(0),
}


def pointwise(call: RuleCall) -> ShardingRule:
    out = call.outs[0]
    linear = _LINEAR.get(call.op.name, ())
    is_float = dt.is_differentiable(out.dtype)
    if call.op.name == "scale" and is_zero(call.attr("bias")) and is_float:
        linear = each(0) if _is_finite(call.attr("scale")) else ()
    if call.op.name == "multiply" and is_float:
        linear = each(*(k for k in (0, 1) if _is_factor(call.atoms[1 - k])))
    if call.op.name == "divide" and is_float and _is_factor(call.atoms[1]):
        linear = each(0) if call.atoms[1].value != 0 else ()
    if call.op.name == "cast" and _widens(call.metas[0].dtype, out.dtype):
        linear = each(0)
    labels = tuple(aligned(m, out) for m in call.metas)
    return ShardingRule(labels, (tuple(range(out.ndim)),), linear=linear)


RULES["stop_gradient"] = pointwise


def _is_finite(value: Any) -> bool:
    """Whether an attribute is known, and finite."""
    return isinstance(value, (bool, int, float, complex)) and cmath.isfinite(value)


def _is_factor(atom: Any) -> bool:
    return isinstance(atom, Literal) and _is_finite(atom.value)


def is_zero(value: Any) -> bool:
    """Whether an attribute is known to be 0."""
    return isinstance(value, (int, float)) and value == 0


def _widens(before: Any, after: Any) -> bool:
    """Whether a cast of parts, added, is the cast of their sum."""
    numbers = dt.is_differentiable(before) and dt.is_differentiable(after)
    is_real = dt.kind(before) != "complex" or dt.kind(after) == "complex"
    return numbers and is_real and after.itemsize >= before.itemsize


@rule("io_copy")
def same(call: RuleCall) -> ShardingRule:
    labels = tuple(range(call.outs[0].ndim))
    return ShardingRule((labels,), (labels,), linear=each(0))


# -- reductions ------------------------------------------------------------------------------------
def _reduced(rank: int, axes: Sequence[int], keepdim: bool) -> Labels:
    return tuple(None if k in axes else k for k in range(rank) if keepdim or k not in axes)


@rule("sum")
def total(call: RuleCall) -> ShardingRule:
    rank, axes = call.metas[0].ndim, call.attr("axis")
    out = _reduced(rank, axes, call.attr("keepdim"))
    is_sum = call.outs[0].dtype != dt.bool_
    linear = each(0) if _widens(call.metas[0].dtype, call.outs[0].dtype) else ()
    labels = tuple(range(rank)) if is_sum else dropped(range(rank), axes)
    return _summed(ShardingRule((labels,), (out,), sums=frozenset(axes), linear=linear), call)


def _summed(rule: ShardingRule, call: RuleCall) -> ShardingRule:
    """A sum in half precision has its parts added before it is rounded."""
    if call.outs[0].dtype not in (dt.float16, dt.bfloat16):
        return rule
    joined = dict.fromkeys(rule.sums, "sum")
    return replace(rule, sums=frozenset(), linear=(), extremes=joined, is_wide=True)


@rule("max", "min", "any", "all")
def extreme(call: RuleCall) -> ShardingRule:
    rank, axes = call.metas[0].ndim, call.attr("axis")
    out = _reduced(rank, axes, call.attr("keepdim"))
    is_real = dt.kind(call.metas[0].dtype) != "complex"
    labels = tuple(range(rank)) if is_real else dropped(range(rank), axes)
    return ShardingRule((labels,), (out,), extremes=dict.fromkeys(axes, call.op.name))


@rule("prod")
def product(call: RuleCall) -> ShardingRule:
    rank, axes = call.metas[0].ndim, call.attr("axis")
    if call.attr("reduce_all"):
        axes = tuple(range(rank))
    out = _reduced(rank, axes, call.attr("keepdim"))
    return ShardingRule((dropped(range(rank), axes),), (out,))


@rule("argmax", "argmin")
def extreme_index(call: RuleCall) -> ShardingRule:
    rank = call.metas[0].ndim
    axes = range(rank) if call.attr("flatten") or not rank else (call.attr("axis"),)
    return ShardingRule(
        (dropped(range(rank), axes),), (_reduced(rank, axes, call.attr("keepdims")),)
    )


@rule("reduce_as")
def sum_to(call: RuleCall) -> ShardingRule:
    x, target = call.metas
    start = x.ndim - target.ndim
    kept = aligned(target, x)
    sums = [k for k in range(x.ndim) if k < start or kept[k - start] is None]
    linear = each(0) if _widens(x.dtype, call.outs[0].dtype) else ()
    found = ShardingRule((tuple(range(x.ndim)), kept), (kept,), sums=frozenset(sums), linear=linear)
    return _summed(found, call)


# -- along one axis --------------------------------------------------------------------------------
def _whole_along(call: RuleCall, axes: Sequence[int], linear: Any = ()) -> ShardingRule:
    labels = tuple(dropped(range(m.ndim), axes) for m in call.metas)
    outs = tuple(dropped(range(m.ndim), axes) for m in call.outs)
    return ShardingRule(labels, outs, linear=linear)


@rule("argsort", "sort", "topk", "cummax", "cummin", "linear_recurrence", "cumsum", "cumprod")
def along_axis(call: RuleCall) -> ShardingRule:
    if "flatten" in call.op.attr_names and call.attr("flatten"):
        return whole(call)
    axis = call.attr("dim" if call.op.name == "cumprod" else "axis")
    rank = call.metas[0].ndim
    linear = each(0) if call.op.name == "cumsum" else ()
    if not _widens(call.metas[0].dtype, call.outs[0].dtype):
        linear = ()
    return _whole_along(call, [axis % rank] if rank else [], linear)


@rule("fft_c2c", "fft_r2c", "fft_c2r")
def fft(call: RuleCall) -> ShardingRule:
    return _whole_along(call, call.attr("axes"), each(0))


@rule("flip")
def flip(call: RuleCall) -> ShardingRule:
    return _whole_along(call, [a % call.metas[0].ndim for a in call.attr("axis")], each(0))


@rule("roll")
def roll(call: RuleCall) -> ShardingRule:
    rank, axes = call.metas[0].ndim, call.attr("axis")
    return _whole_along(call, [a % rank for a in axes] if axes else range(rank), each(0))


@rule("pad")
def pad(call: RuleCall) -> ShardingRule:
    pairs = call.attr("paddings")
    axes = [k for k in range(call.metas[0].ndim) if any(pairs[2 * k : 2 * k + 2])]
    linear = each(0) if is_zero(call.attr("pad_value")) else ()
    return _whole_along(call, axes, linear)


def matrices(call: RuleCall) -> ShardingRule:
    """Matrices in the last two dims, of which what stands in front is a batch."""
    ranks = [m.ndim for m in call.metas]
    lead = ranks[0] - 2
    front = call.metas[0].dims[: max(lead, 0)]
    is_alike = all(dm.same_shape(m.dims[: len(front)], front) for m in [*call.metas, *call.outs])
    if not is_alike:
        return whole(call)
    cut = lambda m: tuple(k if k < lead else None for k in range(m.ndim))  # noqa: E731
    return ShardingRule(tuple(map(cut, call.metas)), tuple(map(cut, call.outs)))


RULES["lu_permutation"] = matrices


# -- contractions ----------------------------------------------------------------------------------
@rule("matmul")
def matmul(call: RuleCall) -> ShardingRule:
    x, y = call.metas
    out = call.outs[0]
    rows, columns = x.ndim > 1, y.ndim > 1
    lead = out.ndim - rows - columns
    xs, ys = (["m"] if rows else []) + ["k"], ["k"] + (["n"] if columns else [])
    if rows and call.attr("transpose_x"):
        xs.reverse()
    if columns and call.attr("transpose_y"):
        ys.reverse()
    batch = MetaTensor(out.dims[:lead], out.dtype)

    def labels(meta: MetaTensor, last: list[str]) -> Labels:
        front = MetaTensor(meta.dims[: meta.ndim - len(last)], meta.dtype)
        return (*aligned(front, batch), *last)

    ends = (*range(lead), *(["m"] if rows else []), *(["n"] if columns else []))
    depth = elements(x.dims[xs.index("k") - len(xs) :][:1])
    is_number = out.dtype != dt.bool_
    return ShardingRule(
        (labels(x, xs), labels(y, ys)),
        (ends,),
        sums=frozenset({"k"}) if is_number else frozenset(),
        flops=elements(out.dims) * depth,
    )


@rule("conv2d")
def conv2d(call: RuleCall) -> ShardingRule:
    w = call.metas[1]
    is_last = call.attr("data_format") == "NHWC"
    is_grouped = call.attr("groups") != 1
    c, o = (None, None) if is_grouped else ("c", "o")
    image = lambda k: ("n", None, None, k) if is_last else ("n", k, None, None)  # noqa: E731
    taps = (o, c, None, None)
    flops = elements(call.outs[0].dims) * elements(w.dims[1:])
    return ShardingRule((image(c), taps), (image(o),), sums=frozenset({"c"}), flops=flops)
