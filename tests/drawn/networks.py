"""Rows of activations, normalisations, losses, recurrent layers, attention and sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from phix import ops
from tests.drawn.case import Case, Draw, Run, Shape, row, rows

# -- activations -----------------------------------------------------------------------------------
SETTINGS: dict[str, tuple[tuple[Any, ...], ...]] = {
    "celu": ((1.0, 0.3, -0.7, 2.1),), "elu": ((1.0, 0.3, 0.0, -0.7),),
    "gelu": ((False, True),), "hardshrink": ((0.5, 0.0, -0.3),),
    "hardsigmoid": ((0.2, -0.3, 0.6), (0.5, 0.1)), "hardtanh": ((-1.01, 0.013), (0.71, 1.31)),
    "leaky_relu": ((0.02, 0.0, 1.7, -0.4),), "mish": ((20.0, 0.51),),
    "selu": ((1.05, 0.3), (1.67, 0.2)), "softplus": ((1.0, 0.3, 2.5), (20.0, 0.51)),
    "softshrink": ((0.5, 0.0),), "stanh": ((0.67, -1.2), (1.7, -0.4)),
    "thresholded_relu": ((1.013, -0.613), (0.0, 0.3)), "logit": ((0.213, 0.0313),),
    "scale": ((1.0, 0.0, -1.7), (0.0, 0.4), (True, False)), "clip": ((-1.013, 0.013), (0.71, 1.31)),
    "pow": ((2.0, 3.0, 0.0, 1.0, -1.0),), "polygamma": ((0, 1, 2),),
}  # fmt: skip


def activation(name: str) -> Run:
    def draw_case(draw: Draw) -> Case:
        chosen = [draw.one_of(*values) for values in SETTINGS[name]]
        shape = draw.shape()
        x = draw.numbers(*shape)
        x = 1.0 / (1.0 + np.exp(-x)) if name == "logit" else x
        x = np.abs(x) + 0.5 if name == "polygamma" else x
        return Case(lambda x: getattr(ops, name)(x, *chosen), [x])

    return draw_case


rows(" ".join(SETTINGS), activation)


@row
def prelu(draw: Draw) -> Case:
    shape, mode = draw.shape(2, size=1), draw.one_of("all", "channel", "element")
    layout = draw.one_of("NCHW", "NHWC")
    channels = shape[1 if layout == "NCHW" else -1]
    element = draw.one_of((1, *shape[1:]), shape[1:])
    alpha = {"all": (1,), "channel": (channels,), "element": element}[mode]
    return Case(
        lambda x, a: ops.prelu(x, a, layout, mode), [draw.numbers(*shape), draw.numbers(*alpha)]
    )  # fmt: skip


@row
def swiglu(draw: Draw) -> Case:
    shape, alone = draw.shape(1), draw.is_true()
    if alone:
        return Case(ops.swiglu, [draw.numbers(*shape[:-1], 2 * shape[-1])])
    return Case(ops.swiglu, [draw.numbers(*shape), draw.numbers(*shape)])


@row
def maxout(draw: Draw) -> Case:
    shape, groups = list(draw.shape(2)), 1 + draw.below(3)
    axis = draw.axis(len(shape))
    shape[axis] = groups * min(shape[axis], 3)
    return Case(lambda x: ops.maxout(x, groups, axis), [draw.numbers(*shape)])


@row
def rrelu(draw: Draw) -> Case:
    lower, upper = draw.one_of(0.1, 0.0), draw.one_of(0.3, 0.9)
    return Case(
        lambda x: ops.rrelu(None, x, lower, upper, True)[0],
        [draw.numbers(*draw.shape())],
        lambda x: np.where(x > 0, x, x * (lower + upper) / 2),
    )


def along_an_axis(name: str) -> Run:
    def draw_case(draw: Draw) -> Case:
        shape = draw.shape()
        axis = draw.axis(max(len(shape), 1))
        return Case(lambda x: getattr(ops, name)(x, axis), [draw.numbers(*shape)])

    return draw_case


rows("softmax log_softmax", along_an_axis)


@row
def lerp(draw: Draw) -> Case:
    shape = draw.shape()
    return Case(
        ops.lerp,
        [draw.numbers(*draw.thinned(shape)) for _ in range(3)],
        lambda x, y, w: x + w * (y - x),
    )


def of_two(name: str) -> Run:
    def draw_case(draw: Draw) -> Case:
        shape = draw.shape()
        x, y = draw.numbers(*draw.thinned(shape)), 0.937 * draw.numbers(*draw.thinned(shape))
        x = np.abs(x) if name == "elementwise_pow" else x
        return Case(
            getattr(ops, name), [x, y], {"atan2": np.arctan2, "maximum": np.maximum}.get(name)
        )

    return draw_case


rows("add divide elementwise_pow maximum fmin atan2 remainder copysign heaviside", of_two)


# -- normalisations --------------------------------------------------------------------------------
def optional(draw: Draw, *shapes: Shape) -> tuple[list[np.ndarray], list[bool]]:
    """Some of several operands, and which of them."""
    given = [draw.is_true() for _ in shapes]
    return [draw.numbers(*s) for s, is_given in zip(shapes, given) if is_given], given


def laid_out(given: list[bool], found: tuple[Any, ...]) -> list[Any]:
    """Operands at their places, None for those that are absent."""
    left = iter(found)
    return [next(left) if is_given else None for is_given in given]


@row
def layer_norm(draw: Draw) -> Case:
    shape = draw.shape(1)
    begin, epsilon = draw.below(len(shape)), draw.one_of(1e-5, 0.3)
    width = shape[begin:] if draw.is_true() else (int(np.prod(shape[begin:])),)
    operands, given = optional(draw, width, width)
    return Case(
        lambda x, *o: ops.layer_norm(x, *laid_out(given, o), epsilon, begin),
        [draw.numbers(*shape), *operands],
    )


@row
def rms_norm(draw: Draw) -> Case:
    shape = draw.shape(1)
    begin, epsilon = draw.below(len(shape)), draw.one_of(1e-5, 0.3)
    width = (int(np.prod(shape[begin:])),)
    operands, given = optional(draw, (shape[-1],), shape, width, width)
    return Case(
        lambda x, *o: ops.rms_norm(x, *laid_out(given, o), epsilon, begin),
        [draw.numbers(*shape), *operands],
    )


@row
def group_norm(draw: Draw) -> Case:
    shape, groups = list(draw.shape(2, 4)), 1 + draw.below(3)
    layout, epsilon = draw.one_of("NCHW", "NHWC"), draw.one_of(1e-5, 0.3)
    at = 1 if layout == "NCHW" else -1
    shape[at] = groups * min(shape[at], 2)
    operands, given = optional(draw, (shape[at],), (shape[at],))
    return Case(
        lambda x, *o: ops.group_norm(x, *laid_out(given, o), epsilon, groups, layout),
        [draw.numbers(*shape), *operands],
    )


@row
def instance_norm(draw: Draw) -> Case:
    shape, epsilon = draw.shape(2, 4), draw.one_of(1e-5, 0.3)
    operands, given = optional(draw, (shape[1],), (shape[1],))
    return Case(
        lambda x, *o: ops.instance_norm(x, *laid_out(given, o), epsilon),
        [draw.numbers(*shape), *operands],
    )


@row
def batch_norm(draw: Draw) -> Case:
    shape, layout = draw.shape(2, 4), draw.one_of("NCHW", "NHWC")
    flags = draw.flags("is_test", "use_global_stats", "trainable_statistics")
    momentum, epsilon = draw.one_of(0.9, 0.0, 1.0), draw.one_of(1e-5, 0.3)
    c = shape[1 if layout == "NCHW" else -1]
    operands, given = optional(draw, (c,), (c,))
    return Case(
        lambda x, m, v, *o: ops.batch_norm(
            x, m, v, *laid_out(given, o), momentum=momentum, epsilon=epsilon, data_format=layout,
            **flags,
        ),
        [draw.numbers(*shape), draw.numbers(c), draw.positive(c), *operands],
    )  # fmt: skip


@row
def affine_channel(draw: Draw) -> Case:
    shape, layout = draw.shape(4, 4), draw.one_of("NCHW", "NHWC")
    c = shape[1 if layout == "NCHW" else -1]
    return Case(
        lambda x, s, b: ops.affine_channel(x, s, b, layout),
        [draw.numbers(*shape), draw.numbers(c), draw.numbers(c)],
    )


# -- losses ----------------------------------------------------------------------------------------
@row
def cross_entropy_with_softmax(draw: Draw) -> Case:
    shape, soft, by_softmax = list(draw.shape(1)), draw.is_true(), draw.below(4) > 0
    axis, ignored = draw.axis(len(shape)), draw.one_of(-100, 0, 1, -1)
    shape[axis] = max(shape[axis], 1)
    logits = draw.numbers(*shape)
    if not by_softmax:
        logits = np.moveaxis(draw.weights(*(shape[k] for k in range(len(shape)))), -1, -1)
        logits = np.exp(logits) / np.exp(logits).sum(axis, keepdims=True)
    attrs = {"soft_label": soft, "use_softmax": by_softmax, "ignore_index": ignored, "axis": axis}
    if soft:
        label = draw.positive(*shape)
        label /= label.sum(axis, keepdims=True)
    else:
        at = axis % len(shape)
        keeps = draw.is_true()
        dims = tuple(1 if k == at else n for k, n in enumerate(shape) if k != at or keeps)
        label = draw.index(dims, shape[axis])
        label = np.where(draw.below(3) == 0, ignored, label).astype(np.int64)
    return Case(
        lambda x, y: ops.cross_entropy_with_softmax(x, y, **attrs), [logits, label],
        order=1 if not by_softmax else 2,
    )  # fmt: skip


@row
def nll_loss(draw: Draw) -> Case:
    shape = draw.one_of(draw.shape(2, 2, size=1), draw.shape(4, 4, size=1))
    reduction, ignored = draw.one_of("mean", "sum", "none"), draw.one_of(-100, 0, 1)
    label = draw.index((shape[0], *shape[2:]), shape[1])
    label = np.where(draw.mask(*label.shape) & (draw.below(2) == 0), ignored, label)
    weight = [draw.positive(shape[1])] if draw.is_true() else []
    return Case(
        lambda x, y, *w: ops.nll_loss(x, y, *(w or (None,)), ignored, reduction)[0],
        [draw.numbers(*shape), label, *weight],
    )


@row
def kldiv_loss(draw: Draw) -> Case:
    shape, log_target = draw.shape(), draw.is_true()
    reduction = draw.one_of("mean", "sum", "none", "batchmean")
    label = draw.numbers(*shape) if log_target else draw.positive(*shape)
    return Case(
        lambda x, y: ops.kldiv_loss(x, y, reduction, log_target), [draw.numbers(*shape), label]
    )  # fmt: skip


def elementwise_loss(name: str) -> Run:
    settings = {
        "huber_loss": ((1.013, 0.3),), "mse_loss": (("mean", "sum", "none"),),
        "log_loss": ((1e-4, 0.1),), "bce_loss": (), "hinge_loss": (),
    }[name]  # fmt: skip

    def draw_case(draw: Draw) -> Case:
        chosen = [draw.one_of(*values) for values in settings]
        shape = (draw.size(), 1) if name in ("log_loss", "hinge_loss") else draw.shape()
        x, y = draw.numbers(*shape), 0.937 * draw.numbers(*shape)
        if name in ("log_loss", "bce_loss"):
            x, y = (1.0 / (1.0 + np.exp(-z)) for z in (x, y))
        return Case(lambda x, y: getattr(ops, name)(x, y, *chosen), [x, y])

    return draw_case


rows("huber_loss mse_loss log_loss bce_loss hinge_loss", elementwise_loss)


@row
def sigmoid_cross_entropy_with_logits(draw: Draw) -> Case:
    shape, normalize = draw.shape(), draw.is_true()
    ignored = draw.one_of(-100, 0, 1)
    label = draw.index(shape, 2).astype(np.float64)
    weight = [draw.positive(*draw.thinned(shape))] if draw.is_true() else []

    def run(x: Any, *w: Any) -> Any:
        return ops.sigmoid_cross_entropy_with_logits(x, label, *(w or (None,)), normalize, ignored)

    return Case(run, [draw.numbers(*shape), *weight], lanes=(0,))


@row
def identity_loss(draw: Draw) -> Case:
    reduction = draw.below(3)
    return Case(lambda x: ops.identity_loss(x, reduction), [draw.numbers(*draw.shape())])


@row
def label_smooth(draw: Draw) -> Case:
    shape, epsilon = draw.shape(1), draw.one_of(0.0, 0.1, 0.7)
    prior = [draw.weights(1, shape[-1])] if draw.is_true() and shape[-1] else []
    return Case(
        lambda x, *p: ops.label_smooth(x, *(p or (None,)), epsilon), [draw.weights(*shape), *prior]
    )  # fmt: skip


@row
def margin_cross_entropy(draw: Draw) -> Case:
    n, c = draw.size(), draw.size(1)
    margins = draw.one_of(1.0, 0.9), draw.one_of(0.5, 0.0), draw.one_of(0.0, 0.2)
    scale = draw.one_of(4.0, 1.0)
    return Case(
        lambda x, y: ops.margin_cross_entropy(x, y, False, 0, 0, 1, *margins, scale),
        [draw.numbers(n, c) / 3, draw.index((n,), c)],
    )


@row
def hsigmoid_loss(draw: Draw) -> Case:
    n, width, classes = draw.size(), draw.size(), 2 + draw.below(4)
    bias = [draw.numbers(classes - 1, 1)] if draw.is_true() else []
    return Case(
        lambda x, y, w, *b: ops.hsigmoid_loss(
            x, y, w, *(b or (None,)), None, None, classes, False
        )[:2],
        [draw.numbers(n, width), draw.index((n, 1), classes), draw.numbers(classes - 1, width),
         *bias],
    )  # fmt: skip


@row
def warpctc(draw: Draw) -> Case:
    time, batch, classes = draw.size(1), draw.size(), draw.size(2)
    most, blank = draw.size(1, 3), draw.one_of(0, classes - 1)
    label = draw.index((batch, most), classes - 1) + (blank == 0)
    lengths = [draw.index((batch,), time) + 1, draw.index((batch,), most + 1)]
    return Case(
        lambda x, y, n, m: ops.warpctc(x, y, n, m, blank)[0:1],
        [draw.numbers(time, batch, classes), label, *lengths],
    )


@row
def warprnnt(draw: Draw) -> Case:
    batch, time, most, classes = draw.size(), draw.size(1), draw.size(0, 3), draw.size(2)
    blank = draw.one_of(0, classes - 1)
    label = draw.index((batch, most), classes - 1) + (blank == 0)
    lengths = [draw.index((batch,), time) + 1, draw.index((batch,), most + 1)]
    return Case(
        lambda x, y, n, m: ops.warprnnt(ops.log_softmax(x, -1), y, n, m, blank),
        [draw.numbers(batch, time, most + 1, classes), label, *lengths],
    )


# -- recurrent layers ------------------------------------------------------------------------------
@row
def rnn(draw: Draw) -> Case:
    mode, both, layers = draw.one_of("LSTM", "GRU", "RNN_TANH", "RNN_RELU"), draw.is_true(), 0
    layers, ragged = 1 + draw.below(2), draw.is_true()
    time, batch, width, hidden = draw.size(), draw.size(), draw.size(1), draw.size(1, 2)
    gates, ways = {"LSTM": 4, "GRU": 3}.get(mode, 1) * hidden, 1 + both
    states = [draw.numbers(layers * ways, batch, hidden) for _ in range(1 + (mode == "LSTM"))]
    weights = [
        draw.numbers(gates, n) / 3
        for layer in range(layers) for _ in range(ways)
        for n in (width if layer == 0 else ways * hidden, hidden)
    ] + [draw.numbers(gates) for _ in range(2 * layers * ways)]  # fmt: skip
    lengths = [draw.index((batch,), time + 1)] if ragged else []
    counts = (len(lengths), len(states))

    def run(x: Any, *given: Any) -> Any:
        lengths, rest = given[: counts[0]], given[counts[0] :]
        h, w = rest[: counts[1]], rest[counts[1] :]
        key = np.zeros(2, np.uint32)
        found = ops.rnn(x, list(h), list(w), *(lengths or (None,)), key, 0.0, both, width, hidden,
                        layers, mode, 0, True)  # fmt: skip
        return found[0], found[2]

    inputs = [draw.numbers(time, batch, width), *lengths, *states, *weights]
    return Case(run, inputs, lanes=range(min(len(inputs), 3)))


@row
def gru(draw: Draw) -> Case:
    time, size, flags = draw.size(), draw.size(1, 3), draw.flags("is_reverse", "origin_mode")
    kinds = draw.one_of("tanh", "sigmoid", "identity"), draw.one_of("sigmoid", "tanh")
    operands, given = optional(draw, (1, size), (1, 3 * size))

    def run(x: Any, w: Any, *o: Any) -> Any:
        h, b = laid_out(given, o)
        return ops.gru(x, h, w, b, *kinds, **flags)

    return Case(run, [draw.numbers(time, 3 * size), draw.numbers(size, 3 * size), *operands])


@row
def gru_unit(draw: Draw) -> Case:
    batch, size, origin = draw.size(), draw.size(1, 3), draw.is_true()
    kinds = draw.one_of(0, 1, 2), draw.one_of(1, 2)
    bias = [draw.numbers(1, 3 * size)] if draw.is_true() else []
    return Case(
        lambda x, h, w, *b: ops.gru_unit(x, h, w, *(b or (None,)), *kinds, origin),
        [draw.numbers(batch, 3 * size), draw.numbers(batch, size), draw.numbers(size, 3 * size),
         *bias],
    )  # fmt: skip


@row
def lstm(draw: Draw) -> Case:
    time, size, peeps, back = draw.size(), draw.size(1, 3), draw.is_true(), draw.is_true()
    kinds = [draw.one_of("tanh", "sigmoid") for _ in range(3)]
    states = [draw.numbers(1, size) for _ in range(2)] if draw.is_true() else []
    return Case(
        lambda x, w, b, *s: ops.lstm(
            x, *(s or (None, None)), w, b, peeps, back, False, *kinds
        ),
        [draw.numbers(time, 4 * size), draw.numbers(size, 4 * size),
         draw.numbers(1, (7 if peeps else 4) * size), *states],
    )  # fmt: skip


# -- attention and sequences -----------------------------------------------------------------------
@row
def attention(draw: Draw) -> Case:
    lead, q, k, size, of = draw.shape(0, 2), draw.size(), draw.size(1), draw.size(), draw.size()
    scale, causal, masked = draw.one_of(1.0, 0.5), draw.is_true(), draw.is_true()
    mask = [draw.numbers(*draw.thinned((*lead, q, k)))] if masked else []
    return Case(
        lambda q, k, v, *m: ops.attention(q, k, v, *(m or (None,)), scale, causal),
        [
            draw.numbers(*draw.thinned(lead), q, size),
            draw.numbers(*draw.thinned(lead), k, size),
            draw.numbers(*draw.thinned(lead), k, of),
            *mask,
        ],
    )


@row
def sequence_pool(draw: Draw) -> Case:
    kind = draw.one_of("SUM", "AVERAGE", "SQRT", "MAX", "FIRST", "LAST")
    pad = draw.one_of(0.0, 0.7)
    return Case(
        lambda x: ops.sequence_pool(x, False, kind, pad), [draw.numbers(draw.size(), draw.size())]
    )  # fmt: skip


@row
def sequence_conv(draw: Draw) -> Case:
    time, width, out, length = draw.size(), draw.size(), draw.size(), 1 + draw.below(4)
    start, trainable = draw.below(6) - 4, draw.is_true()
    above, below = max(-start, 0), max(start + length - 1, 0)
    padding = [draw.numbers(above + below, width)] if trainable else []
    return Case(
        lambda x, f, *p: ops.sequence_conv(x, *(p or (None,)), f, length, trainable, start, 1),
        [draw.numbers(time, width), draw.numbers(length * width, out), *padding],
    )


@row
def add_position_encoding(draw: Draw) -> Case:
    alpha, beta = draw.one_of(1.0, 0.5), draw.one_of(1.0, 2.0)
    shape = (draw.size(), draw.size(), 2 * draw.size())
    return Case(lambda x: ops.add_position_encoding(x, alpha, beta), [draw.numbers(*shape)])


@row
def match_matrix_tensor(draw: Draw) -> Case:
    n, m, width, of = (draw.size() for _ in range(4))
    of = max(of, 1)
    return Case(
        lambda x, y, w: ops.match_matrix_tensor(x, y, w, of),
        [draw.numbers(n, width), draw.numbers(m, width), draw.numbers(width, of, width)],
    )
