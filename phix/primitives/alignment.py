"""Losses that add up all alignments of two sequences: warpctc, warprnnt.

Sums over alignments are of logarithms, so that none underflows however long a sequence is; a state
that no alignment reaches has -inf, and derivatives 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import ShapeError
from phix.core.expectations import expect
from phix.core.meta import MetaTensor
from phix.primitives.lengths import (
    as_int,
    check_dims,
    check_ints,
    check_lengths,
    column,
    lengths_or_all,
    outside,
    picked,
    within,
)
from phix.primitives.positions import numbers
from phix.primitives.steps import scanned
from phix.primitives.widening import as_dtype, widened

_NEVER = float("-inf")


def log_sum(terms: Sequence[Any]) -> Any:
    """log(exp(a) + exp(b) + ...), -inf where all are; what is -inf has derivative 0."""
    top = terms[0]
    for t in terms[1:]:
        top = ops.maximum(top, t)
    top = ops.stop_gradient(ops.where(ops.isinf(top), 0.0, top))
    total = ops.exp(terms[0] - top)
    for t in terms[1:]:
        total = total + ops.exp(t - top)
    is_never = total == 0
    return ops.where(is_never, _NEVER, ops.log(ops.where(is_never, 1.0, total)) + top)


def centred(x: Any) -> tuple[Any, Any]:
    """``x`` less the largest of each row, and these, of float64, which count as constants.

    So what is carried along stays near 0, where a float is fine, however long a sequence is.
    """
    top = ops.stop_gradient(ops.amax(x, (1,), keepdim=True))
    top = ops.where(ops.isinf(top), 0.0, top)
    return x - top, ops.cast(top, dt.float64)


# -- warpctc -----------------------------------------------------------------------------------
def _blank_refusal(blank: int, classes: Any) -> str:
    return f"blank must be the number of one of the {dm.dim_text(classes)} classes, found {blank}"


def _check_blank(blank: int, classes: Any) -> None:
    if blank < 0 or (isinstance(classes, int) and blank >= classes):
        raise ShapeError(_blank_refusal(blank, classes))


def _of_blank(score: Any, blank: int) -> Any:
    """The last axis at blank, kept as 1; with classes unknown a program raises if it is none."""
    classes = score.meta.dims[-1]
    score = expect(score, _blank_refusal(blank, classes), classes - 1 - blank)
    return ops.reshape(score[..., blank : blank + 1], (*score.meta.dims[:-1], 1))


@rules.normalize("warpctc")
def warpctc_attrs(
    logits: MetaTensor, label: MetaTensor, logits_length: Any, labels_length: Any, blank: int,
    norm_by_times: bool,
) -> Any:  # fmt: skip
    check_dims("logits", logits, (None, None, None), "[time, batch, classes]")
    _check_blank(blank, logits.dims[2])
    return blank, norm_by_times


@rules.decompose("warpctc")
def warpctc(
    logits: Any, label: Any, logits_length: Any, labels_length: Any, blank: int,
    norm_by_times: bool,
) -> Any:  # fmt: skip
    check_ints("label", label)
    steps, batch, classes = logits.meta.dims
    check_dims("label", label, (batch, None), "[batch, most labels]")
    most = label.meta.dims[1]
    times = lengths_or_all("logits_length", logits_length, batch, steps)
    counts = lengths_or_all("labels_length", labels_length, batch, most)
    label = ops.cast(label, dt.int64)
    is_label = ops.transpose(within(counts, most), (1, 0))
    wrong = is_label & ((label < 0) | (label >= ops.full((), classes, dt.int64)))
    bad = ops.any(wrong | (is_label & (label == blank)), [1])
    bad = bad | outside(times, steps) | outside(counts, most)
    live = column(within(times, steps))
    score = ops.log_softmax(ops.where(live, widened(logits), 0.0), -1)
    loss = _ctc(score, ops.where(is_label, label, blank), counts, live, blank)
    loss = ops.where(bad, float("nan"), loss)
    if norm_by_times:
        loss = _slower(loss, as_dtype(ops.maximum(times, 1), loss.dtype))
    return as_dtype(column(loss), logits.dtype), ops.full((0,), 0, logits.dtype)


def _slower(loss: Any, times: Any) -> Any:
    """The loss with its derivatives divided by ``times``."""
    part = ops.where(ops.isfinite(loss), loss, 0.0) / times
    return ops.stop_gradient(loss - part) + part


def _ctc(score: Any, label: Any, counts: Any, live: Any, blank: int) -> Any:
    """-log of the sum over alignments; the states are labels with a blank around each.

    A state is entered from itself, the one before, and, a label, from the one before the blank,
    unless that is the same label.
    """
    batch, most = label.meta.dims
    states = 2 * most + 1
    blanks = ops.full((batch, most), blank, dt.int64)
    pairs = ops.reshape(ops.stack([blanks, label], 2), (batch, 2 * most))
    names = ops.concat([pairs, ops.full((batch, 1), blank, dt.int64)], 1)
    earlier = ops.concat([ops.full((batch, 2), blank, dt.int64), names], 1)[:, :states]
    may_skip = (names != blank) & (names != earlier)
    steps = score.meta.dims[0]
    index = ops.expand(ops.reshape(label, (1, batch, most)), (steps, batch, most))
    of_label, of_blank = ops.take_along_axis(score, index, 2), _of_blank(score, blank)
    both = ops.stack([ops.expand(of_blank, (steps, batch, most)), of_label], 3)
    emitted = ops.concat([ops.reshape(both, (steps, batch, 2 * most)), of_blank], 2)
    start = ops.where(numbers(states) == 0, 0.0, ops.full((batch, states), _NEVER, score.dtype))
    edge = ops.full((batch, 2), _NEVER, score.dtype)

    def step(carry: Any, row: Any) -> Any:
        (alpha, level), (given, is_live) = carry, row
        wide = ops.concat([edge, alpha], 1)
        skipped = ops.where(may_skip, wide[:, :states], _NEVER)
        after = given + log_sum([alpha, wide[:, 1 : states + 1], skipped])
        after, top = centred(after)
        top = ops.where(is_live, top, 0.0)
        return [ops.where(is_live, after, alpha), level + top], []

    level = ops.full((batch, 1), 0, dt.float64)
    ((alpha, level), _) = scanned(step, [start, level], [emitted, live])
    last = picked(alpha, ops.maximum(2 * counts - 1, 0))
    found = log_sum([picked(alpha, 2 * counts), ops.where(counts > 0, last, _NEVER)])
    return -as_dtype(found + ops.reshape(level, (batch,)), score.dtype)


# -- warprnnt ----------------------------------------------------------------------------------
@rules.normalize("warprnnt")
def warprnnt_attrs(
    input: MetaTensor, label: MetaTensor, input_lengths: Any, label_lengths: Any, blank: int,
    fastemit_lambda: float,
) -> Any:  # fmt: skip
    wanted = "[batch, time, most labels + 1, classes]"
    check_dims("input", input, (None, None, None, None), wanted)
    _check_blank(blank, input.dims[3])
    return blank, fastemit_lambda


@rules.decompose("warprnnt")
def warprnnt(
    input: Any, label: Any, input_lengths: Any, label_lengths: Any, blank: int,
    fastemit_lambda: float,
) -> Any:  # fmt: skip
    """Along the diagonals t + u of the lattice: each node follows from two of the one before."""
    check_ints("label", label)
    batch, steps, nodes, classes = input.meta.dims
    check_dims("label", label, (batch, None), "[batch, most labels]")
    most = label.meta.dims[1]
    if not dm.may_equal(nodes, most + 1):
        raise ShapeError(
            f"input has a node for each label and one more, found {input.meta} and {label.meta}"
        )
    if dm.is_zero(steps):
        raise ShapeError(f"a way through the lattice needs a step at least, found {input.meta}")
    times = check_lengths("input_lengths", input_lengths, batch)
    counts = check_lengths("label_lengths", label_lengths, batch)
    label = ops.cast(label, dt.int64)
    is_label = ops.transpose(within(counts, most), (1, 0))
    bad = ops.any(is_label & ((label < 0) | (label >= ops.full((), classes, dt.int64))), [1])
    bad = bad | outside(times, steps) | outside(counts, most) | (times == 0)
    names = ops.reshape(ops.where(is_label, label, blank), (batch, 1, most, 1))
    index = ops.expand(names, (batch, steps, most, 1))
    emit = ops.take_along_axis(widened(input)[:, :, :most], index, 3)
    live = ops.reshape(ops.transpose(within(times, steps), (1, 0)), (batch, steps, 1))
    is_seen = live & ops.reshape(is_label, (batch, 1, most))
    emit = ops.where(is_seen, ops.reshape(emit, (batch, steps, most)), _NEVER)
    stay = ops.reshape(_of_blank(widened(input), blank), (batch, steps, nodes))
    stay = ops.where(live, stay, _NEVER)
    if fastemit_lambda:
        some = ops.where(ops.isinf(emit), 0.0, emit)
        emit = emit + fastemit_lambda * (some - ops.stop_gradient(some))
    alphas, levels = _diagonals(stay, emit)
    end = ops.maximum(times - 1, 0)
    at = picked(ops.reshape(alphas, (batch, -1)), (end + counts) * as_int(nodes) + counts)
    exit = picked(ops.reshape(stay, (batch, -1)), end * as_int(nodes) + counts)
    total = at + exit + picked(levels, end + counts)
    loss = ops.where(bad, float("nan"), -total)
    return as_dtype(loss, input.dtype), ops.full((0,), 0, input.dtype)


def _diagonals(stay: Any, emit: Any) -> tuple[Any, Any]:
    """log-sums up to node (t, u), as [batch, t + u, u], and what is to be added to each [t + u]."""
    batch, steps, nodes = stay.meta.dims
    lines = steps + nodes - 1

    def slanted(x: Any, back: int) -> Any:
        """x[b, d - back - u, u] as [d, b, u], -inf where there is no such time."""
        columns = x.meta.dims[2]
        t = ops.reshape(numbers(lines), (lines, 1)) - back - numbers(columns)
        fits = (t >= 0) & (t < as_int(steps))
        index = ops.reshape(ops.where(fits, t, 0), (1, lines, columns))
        found = ops.take_along_axis(x, ops.expand(index, (batch, lines, columns)), 1)
        return ops.transpose(ops.where(fits, found, _NEVER), (1, 0, 2))

    # a node is left to the next time in its own column, and to the next label in the one behind
    edge = ops.full((lines, batch, 1), _NEVER, stay.dtype)
    rows = [slanted(stay, 1), ops.concat([edge, slanted(emit, 1)], 2)]
    first = ops.where(numbers(nodes) == 0, 0.0, ops.full((batch, nodes), _NEVER, stay.dtype))
    outer = ops.full((batch, 1), _NEVER, stay.dtype)

    def step(carry: Any, row: Any) -> Any:
        (alpha, level), (down, across) = carry, row
        left = ops.concat([outer, alpha], 1)[:, :nodes]
        after, top = centred(log_sum([alpha + down, left + across]))
        return [after, level + top], [after, level + top]

    start = [first, ops.full((batch, 1), 0, dt.float64)]
    _, ys = scanned(step, start, [row[1:] for row in rows])
    alphas, levels = (
        ops.transpose(ops.concat([ops.reshape(x, (1, *x.meta.dims)), y], 0), (1, 0, 2))
        for x, y in zip(start, ys)
    )
    return alphas, ops.reshape(levels, (batch, lines))
