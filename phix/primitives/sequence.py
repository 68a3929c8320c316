"""Sequences: decoders, distances and masks, as scans along time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import ArgumentError, AttributeValueError, ShapeError
from phix.core.index_ranges import IndexRange
from phix.core.meta import MetaTensor
from phix.core.value_ranges import ValueRange
from phix.core.windows import Pads, window_counts
from phix.primitives.lengths import (
    as_int,
    check_dims,
    check_ints,
    check_lengths,
    column,
    lengths_or_all,
    of_steps,
    outside,
    picked,
    within,
)
from phix.primitives.positions import numbers
from phix.primitives.steps import scanned
from phix.primitives.widening import as_dtype, widened


# -- ctc_align, edit_distance ------------------------------------------------------------------
@rules.indices("ctc_align")
def ctc_align_values(input: MetaTensor, input_length: Any, *rest: Any) -> list[ValueRange]:
    return of_steps("input_length", input_length, input, 1)


@rules.decompose("ctc_align")
def ctc_align(
    input: Any, input_length: Any, blank: int, merge_repeated: bool, padding_value: int
) -> Any:
    check_ints("input", input)
    check_dims("input", input, (None, None), "[batch, time]")
    batch, steps = input.meta.dims
    lengths = lengths_or_all("input_length", input_length, batch, steps)
    kept = ops.transpose(within(lengths, steps), (1, 0)) & (input != blank)
    if merge_repeated:
        nothing = ops.full((batch, 1), False, dt.bool_)
        same = ops.concat([nothing, input[:, 1:] == input[:, :-1]], 1)[:, :steps]
        kept = kept & ~same
    number = ops.cumsum(ops.cast(kept, dt.int64), 1, False, False, False)
    # what is left out goes to a column behind the others
    place = ops.where(kept, number - 1, as_int(steps))
    room = ops.full((batch, steps + 1), padding_value, input.dtype)
    out = ops.put_along_axis(room, place, input, 1)[:, :steps]
    count = ops.sum(ops.cast(kept, dt.int64), (1,), keepdim=True)
    return out, ops.cast(count, input.dtype)


@rules.decompose("edit_distance")
def edit_distance(hyps: Any, refs: Any, hypslength: Any, refslength: Any, normalized: bool) -> Any:
    """A row of the table at a time: d[j] = min over k <= j of m[k] + j - k, a running minimum,
    with m[k] the least cost that comes from the row before."""
    for name, x in (("hyps", hyps), ("refs", refs)):
        check_ints(name, x)
        check_dims(name, x, (None, None), "[batch, length]")
    batch, length = hyps.meta.dims
    check_dims("refs", refs, (batch, None), "[batch, length], of the batch of hyps")
    size = refs.meta.dims[1]
    done = lengths_or_all("hypslength", hypslength, batch, length)
    wanted = lengths_or_all("refslength", refslength, batch, size)
    bad = outside(done, length) | outside(wanted, size)
    columns = numbers(size + 1)
    start = ops.expand(ops.reshape(columns, (1, size + 1)), (batch, size + 1))

    def step(carry: Any, row: Any) -> Any:
        (above,), (token, is_live) = carry, row
        cost = ops.cast(column(token) != refs, dt.int64)
        least = ops.minimum(above[:, 1:] + 1, above[:, :-1] + cost)
        least = ops.concat([above[:, :1] + 1, least], 1) - columns
        after = ops.cummin(least, 1)[0] + columns
        return [ops.where(is_live, after, above)], []

    rows = [ops.transpose(hyps, (1, 0)), column(within(done, length))]
    ((last,), _) = scanned(step, [start], rows)
    out = ops.cast(picked(last, wanted), dt.float32)
    if normalized:
        out = out / ops.cast(wanted, dt.float32)
    out = ops.where(bad, float("nan"), out)
    return ops.full((1,), batch, dt.int64), column(out)


# -- viterbi_decode, crf_decoding --------------------------------------------------------------
def best_path(emission: Any, between: Any, start: Any, stop: Any, lengths: Any) -> tuple[Any, Any]:
    """The best score and path, [batch] and int64[batch, time], of emission [time, batch, tags].

    ``start`` and ``stop`` are added at the first step and at the last of each sequence; None for
    none. Behind its end a path is 0.
    """
    steps, batch, tags = emission.meta.dims
    if dm.is_zero(steps) or dm.is_zero(tags):
        raise ShapeError(f"a path needs a step and a tag at least, found {emission.meta}")
    emission, between = widened(emission), widened(between)
    first = ops.reshape(emission[:1], (batch, tags))
    first = first if start is None else first + start
    if stop is not None:
        first = ops.where(column(lengths) == 1, first + stop, first)

    def step(carry: Any, row: Any) -> Any:
        (alpha,), (given, number) = carry, row
        scores = column(alpha) + between
        after = ops.amax(scores, (1,)) + given
        if stop is not None:
            after = ops.where(column(lengths) == number + 1, after + stop, after)
        is_live = number < column(lengths)
        came = ops.where(is_live, ops.argmax(scores, 1), numbers(tags))
        return [ops.where(is_live, after, alpha)], [came]

    ((alpha,), (came,)) = scanned(step, [first], [emission[1:], numbers(steps)[1:]])

    def back(carry: Any, row: Any) -> Any:
        return [picked(row[0], carry[0])], [carry[0]]

    ((tag,), (rest,)) = scanned(back, [ops.argmax(alpha, 1)], [came], reverse=True)
    path = ops.transpose(ops.concat([ops.reshape(tag, (1, batch)), rest], 0), (1, 0))
    live = ops.transpose(within(lengths, steps), (1, 0))
    return ops.amax(alpha, (1,)), ops.where(live, path, 0)


@rules.indices("viterbi_decode")
def viterbi_values(
    potentials: MetaTensor, transition_params: Any, lengths: MetaTensor, *rest: Any
) -> list[ValueRange]:
    return of_steps("lengths", lengths, potentials, 1)


@rules.decompose("viterbi_decode")
def viterbi_decode(
    potentials: Any, transition_params: Any, lengths: Any, include_bos_eos_tag: bool
) -> Any:
    check_dims("potentials", potentials, (None, None, None), "[batch, time, tags]")
    batch, _, tags = potentials.meta.dims
    check_dims("transition_params", transition_params, (tags, tags), "[tags, tags]")
    counts = check_lengths("lengths", lengths, batch)
    start = stop = None
    if include_bos_eos_tag:
        if isinstance(tags, int) and tags < 2:
            raise ShapeError(f"the last two tags are stop and start, found {tags}; add them")
        start, stop = transition_params[-1:], transition_params[-2:-1]
    emission = ops.transpose(potentials, (1, 0, 2))
    score, path = best_path(emission, transition_params, start, stop, counts)
    return as_dtype(score, potentials.dtype), path


@rules.indices("crf_decoding")
def crf_values(
    emission: MetaTensor, transition: Any, label: Any, length: MetaTensor | None
) -> list[ValueRange]:
    return of_steps("length", length, emission, 1)


@rules.decompose("crf_decoding")
def crf_decoding(emission: Any, transition: Any, label: Any, length: Any) -> Any:
    wanted = "[time, tags]" if length is None else "[batch, time, tags] where length is given"
    check_dims("emission", emission, (None,) * (2 if length is None else 3), wanted)
    tags = emission.meta.dims[-1]
    check_dims("transition", transition, (None, tags), "[tags + 2, tags]")
    if not dm.may_equal(transition.meta.dims[0], tags + 2):
        raise ShapeError(f"transition must be [tags + 2, tags], found {transition.meta}")
    if length is None:
        time = emission.meta.dims[0]
        shape, rows = (time, 1), ops.reshape(emission, (time, 1, tags))
        counts = ops.full((1,), time, dt.int64)
    else:
        batch, time = emission.meta.dims[:2]
        shape, rows = (batch, time), ops.transpose(emission, (1, 0, 2))
        counts = check_lengths("length", length, batch)
    _, path = best_path(rows, transition[2:], transition[:1], transition[1:2], counts)
    path = ops.reshape(path, shape)
    if label is None:
        return path
    check_ints("label", label)
    if not dm.may_equal(label.meta.size, path.meta.size):
        raise ShapeError(f"label has a tag for each step, {path.meta}, found {label.meta}")
    live = ops.reshape(ops.transpose(within(counts, time), (1, 0)), shape)
    return ops.cast((ops.reshape(label, shape) == path) & live, dt.int64)


# -- gather_tree, sequence_mask, match_matrix_tensor -------------------------------------------
@rules.indices("gather_tree")
def gather_tree_indices(ids: MetaTensor, parents: MetaTensor) -> list[IndexRange]:
    beams = parents.dims[2:3]
    return [IndexRange("parents", beams, "the beams,", counts_back=False)] if beams else []


@rules.decompose("gather_tree")
def gather_tree(ids: Any, parents: Any) -> Any:
    check_dims("ids", ids, (None, None, None), "[time, batch, beams]")
    check_dims("parents", parents, ids.meta.dims, f"of the dims of ids, {ids.meta}")
    check_ints("ids", ids)
    check_ints("parents", parents)
    _, batch, beams = ids.meta.dims
    start = ops.expand(ops.reshape(numbers(beams), (1, beams)), (batch, beams))

    def step(carry: Any, row: Any) -> Any:
        tokens, before = (ops.take_along_axis(r, carry[0], 1) for r in row)
        return [ops.cast(before, dt.int64)], [tokens]

    return scanned(step, [start], [ids, parents], reverse=True)[1][0]


@rules.normalize("sequence_mask")
def sequence_mask_attrs(x: MetaTensor, max_len: Any, out_dtype: Any) -> Any:
    if isinstance(max_len, int) and max_len <= 0:
        raise AttributeValueError(
            f"max_len must be 1 or more, found {max_len}: the size of a result is no value of x; "
            "to go to the largest of x write max_len=x.max()"
        )
    return max_len, out_dtype or dt.int64


@rules.decompose("sequence_mask")
def sequence_mask(x: Any, max_len: Any, out_dtype: Any) -> Any:
    check_ints("x", x)
    return as_dtype(numbers(max_len) < column(ops.cast(x, dt.int64)), out_dtype)


@rules.decompose("match_matrix_tensor")
def match_matrix_tensor(x: Any, y: Any, w: Any, dim_t: int) -> Any:
    check_dims("x", x, (None, None), "[rows, width]")
    check_dims("y", y, (None, x.meta.dims[1]), "[rows, width], of the width of x")
    (rows, width), columns = x.meta.dims, y.meta.dims[0]
    check_dims("w", w, (width, dim_t, width), f"[width, dim_t {dim_t}, width]")
    tmp = ops.matmul(x, ops.reshape(w, (width, dim_t * width)))
    each = ops.transpose(ops.reshape(tmp, (rows, dim_t, width)), (1, 0, 2))
    out = ops.matmul(each, y, False, True)
    return ops.reshape(out, (dim_t * rows * columns, 1)), tmp


# -- sequence_pool, sequence_conv, im2sequence -------------------------------------------------
# Of the pools that add up: what the sum of so many rows is divided by.
_DIVISORS: dict[str, Callable[[Any], Any]] = {
    "SUM": lambda count: 1.0,
    "AVERAGE": lambda count: count,
    "SQRT": lambda count: ops.sqrt(count),
}
POOLS = (*_DIVISORS, "MAX", "FIRST", "LAST")


@rules.normalize("sequence_pool")
def sequence_pool_attrs(x: MetaTensor, is_test: bool, pooltype: str, pad_value: float) -> Any:
    if pooltype not in POOLS:
        raise AttributeValueError(f"pooltype must be one of {', '.join(POOLS)}, found {pooltype!r}")
    return is_test, pooltype, pad_value


@rules.decompose("sequence_pool")
def sequence_pool(x: Any, is_test: bool, pooltype: str, pad_value: float) -> Any:
    """What takes a row takes it of x with a row of ``pad_value`` behind, all there is of an empty
    x; the largest is looked for with -inf there, which is first in none but that."""
    check_dims("x", x, (None, None), "[time, width]")
    steps, width = x.meta.dims
    number = ops.full((1, width), 0, dt.int64)
    if pooltype in _DIVISORS:
        wide = widened(x)
        count = ops.cast(ops.maximum(as_int(steps), 1), wide.dtype)
        out = ops.sum(wide, (0,), keepdim=True) / _DIVISORS[pooltype](count)
        out = ops.where(as_int(steps) == 0, pad_value, as_dtype(out, x.dtype))
        return out, ops.cast(number, dt.int32)
    if pooltype == "LAST":
        number = number + ops.maximum(as_int(steps) - 1, 0)
    if pooltype == "MAX":
        bounded = ops.concat([x, ops.full((1, width), float("-inf"), x.dtype)], 0)
        number = ops.reshape(ops.argmax(bounded, 0), (1, width))
    ended = ops.concat([x, ops.full((1, width), pad_value, x.dtype)], 0)
    return ops.take_along_axis(ended, number, 0), ops.cast(number, dt.int32)


@rules.normalize("sequence_conv")
def sequence_conv_attrs(
    x: MetaTensor, padding_data: MetaTensor | None, filter: MetaTensor, length: int,
    trainable: bool, start: int, stride: int,
) -> Any:  # fmt: skip
    if length < 1:
        raise AttributeValueError(f"context_length must be 1 or more, found {length}")
    if stride != 1:
        raise AttributeValueError(f"context_stride must be 1, found {stride}")
    if trainable and padding_data is None:
        raise ArgumentError("sequence_conv takes its padding_data where padding_trainable is True")
    return length, trainable, start, stride


@rules.decompose("sequence_conv")
def sequence_conv(
    x: Any, padding_data: Any, filter: Any, context_length: int, padding_trainable: bool,
    context_start: int, context_stride: int,
) -> Any:  # fmt: skip
    """Row t of the product's left side holds rows t + start, ..., t + start + length - 1 of x."""
    check_dims("x", x, (None, None), "[time, width]")
    steps, width = x.meta.dims
    rows = context_length * width
    check_dims("filter", filter, (rows, None), f"[context_length * width {dm.dim_text(rows)}, out]")
    above = max(0, -context_start)
    below = max(0, context_start + context_length - 1)
    if padding_trainable:
        wanted = (above + below, width)
        check_dims("padding_data", padding_data, wanted, f"[rows above and below, width], {wanted}")
        edges = list(ops.split(padding_data, [above, below], 0))
    else:
        edges = [ops.full((n, width), 0, x.dtype) for n in (above, below)]
    whole = ops.concat([edges[0], x, edges[1]], 0)
    first = above + context_start
    seen = [whole[first + j : first + j + steps] for j in range(context_length)]
    return ops.matmul(ops.concat(seen, 1), filter)


@rules.normalize("im2sequence")
def im2sequence_attrs(x: MetaTensor, y: MetaTensor | None, *attrs: Any) -> Any:
    if y is not None:
        raise ArgumentError(
            "im2sequence: y, the sizes of images before they were padded, gives each image another "
            "number of rows, which a dense result has no room for; leave y out and mask the rows"
        )
    names = ("kernels", "strides", "paddings", "out_stride")
    for name, value, count in zip(names, attrs, (2, 2, 4, 2)):
        if len(value) != count or min(value) < (name != "paddings"):
            raise AttributeValueError(f"{name} holds {count} sizes, found {list(value)}")
    return attrs


@rules.decompose("im2sequence")
def im2sequence(x: Any, y: Any, kernels: Any, strides: Any, paddings: Any, out_stride: Any) -> Any:
    check_dims("x", x, (None,) * 4, "[batch, channels, height, width]")
    up, left, down, right = paddings
    pads: Pads = [(up, down), (left, right)]
    batch, channels, *size = x.meta.dims
    counts = window_counts("EXPLICIT", pads, tuple(size), kernels, strides, (1, 1))
    if any(isinstance(n, int) and n < 1 for n in counts):
        raise ShapeError(f"a window of {list(kernels)} does not fit on images {x.meta}; pad more")
    wide = ops.pad(x, (0, 0, 0, 0, up, down, left, right))
    rows, columns = counts
    taps = [
        wide[:, :, i : i + (rows - 1) * strides[0] + 1 : strides[0],
             j : j + (columns - 1) * strides[1] + 1 : strides[1]]
        for i in range(kernels[0]) for j in range(kernels[1])
    ]  # fmt: skip
    each = ops.stack(taps, 4)  # [batch, channels, rows, columns, taps]
    each = ops.transpose(each, (0, 2, 3, 1, 4))
    return ops.reshape(each, (batch * rows * columns, channels * len(taps)))


# -- chunk_eval --------------------------------------------------------------------------------
class Scheme(NamedTuple):
    """The tags of a way to mark chunks: how many, and which begin, go on, end, stand alone."""

    tags: int
    begin: int = -1
    inside: int = -1
    end: int = -1
    single: int = -1


SCHEMES = {
    "IOB": Scheme(2, begin=0, inside=1),
    "IOE": Scheme(2, inside=0, end=1),
    "IOBES": Scheme(4, 0, 1, 2, 3),
    "plain": Scheme(1),
}


@rules.normalize("chunk_eval")
def chunk_eval_attrs(*args: Any) -> Any:
    *_, num_chunk_types, chunk_scheme, excluded = args
    if chunk_scheme not in SCHEMES:
        raise AttributeValueError(
            f"chunk_scheme must be one of {', '.join(SCHEMES)}, found {chunk_scheme!r}"
        )
    if num_chunk_types < 1:
        raise AttributeValueError(f"num_chunk_types must be 1 or more, found {num_chunk_types}")
    return num_chunk_types, chunk_scheme, tuple(excluded or ())


@rules.indices("chunk_eval")
def chunk_eval_indices(
    inference: MetaTensor, label: MetaTensor, seq_length: Any, types: int, chunk_scheme: str,
    excluded: Any,
) -> list[ValueRange]:  # fmt: skip
    most = types * SCHEMES[chunk_scheme].tags + 1
    tags: list[ValueRange] = [
        IndexRange(name, (most,), "the tags and one for none,", counts_back=False, ignored=-1)
        for name in ("inference", "label")
    ]
    return tags + of_steps("seq_length", seq_length, inference, 1)


def _chunks(marks: Any, live: Any, types: int, scheme: Scheme) -> tuple[Any, Any, Any]:
    """Where chunks begin, the type at each place, and where the chunk that begins there ends."""
    batch, steps = marks.meta.dims
    is_mark = live & (marks >= 0)
    tag = ops.where(is_mark, ops.remainder(marks, scheme.tags), -1)
    kind = ops.where(is_mark, ops.floor_divide(marks, scheme.tags), types)

    def before(x: Any, fill: int) -> Any:
        return ops.concat([ops.full((batch, 1), fill, dt.int64), x], 1)[:, :steps]

    old_tag, old = before(tag, -1), before(kind, types)
    closed = (old_tag == scheme.end) | (old_tag == scheme.single)
    opens = (tag == scheme.begin) | (tag == scheme.single)
    begins = (kind != types) & ((kind != old) | opens | closed)
    # a chunk ends where the next place begins one, or is of none
    stops = ops.concat([begins | (kind == types), ops.full((batch, 1), True, dt.bool_)], 1)[:, 1:]
    places = ops.where(stops, numbers(steps), as_int(steps))
    ends = ops.flip(ops.cummin(ops.flip(places, (1,)), 1)[0], (1,))
    return begins, kind, ends


@rules.decompose("chunk_eval")
def chunk_eval(
    inference: Any, label: Any, seq_length: Any, num_chunk_types: int, chunk_scheme: str,
    excluded_chunk_types: Any,
) -> Any:  # fmt: skip
    check_ints("inference", inference)
    check_ints("label", label)
    if not dm.may_equal(inference.meta.size, label.meta.size):
        raise ShapeError(f"label has a tag for each of inference, found {label.meta}")
    if seq_length is None:
        shape: tuple[Any, ...] = (1, inference.meta.size)
    else:
        dims = inference.meta.dims
        if len(dims) < 2 or not dm.may_equal(dm.product(dims[2:]), 1):
            raise ShapeError(f"inference must be [batch, time, 1], found {inference.meta}")
        shape = inference.meta.dims[:2]
    lengths = lengths_or_all("seq_length", seq_length, *shape)
    live = ops.transpose(within(lengths, shape[1]), (1, 0))
    scheme = SCHEMES[chunk_scheme]
    found, wanted = (
        _chunks(ops.reshape(ops.cast(x, dt.int64), shape), live, num_chunk_types, scheme)
        for x in (inference, label)
    )

    def count(is_one: Any, kind: Any) -> Any:
        for excluded in excluded_chunk_types:
            is_one = is_one & (kind != excluded)
        return ops.reshape(ops.sum(ops.cast(is_one, dt.int64)), (1,))

    same = found[0] & wanted[0] & (found[1] == wanted[1]) & (found[2] == wanted[2])
    correct = count(same, found[1])
    counts = [count(begins, kind) for begins, kind, _ in (found, wanted)]
    right = ops.cast(correct, dt.float32)
    precision, recall = (right / ops.cast(ops.maximum(n, 1), dt.float32) for n in counts)
    total = precision + recall
    f1 = ops.where(correct > 0, 2 * precision * recall / ops.where(total > 0, total, 1.0), 0.0)
    return precision, recall, f1, *counts, correct
