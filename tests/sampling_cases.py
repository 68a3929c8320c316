"""Draws of ops that resize, pad, sample and rearrange, into the table of window_cases."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.harness.references import arrangement, images, regions, sequence, signal
from tests.window_cases import Case, Draw, any_format, case, formats, place

# -- other sizes -----------------------------------------------------------------------------------
METHODS = {
    "linear_interp": ("linear", (1,)),
    "bilinear_interp": ("linear", (2,)),
    "trilinear_interp": ("linear", (3,)),
    "nearest_interp": ("nearest", (2, 3)),
    "bicubic_interp": ("bicubic", (2,)),
}
OUTS = ("out_d", "out_h", "out_w")


def _asked(draw: Draw, size: list[int]) -> tuple[dict[str, Any], list[float]]:
    """A way to say the size that is wanted, and the scale, if that is it."""
    count = len(size)
    wanted = [draw.pick(n, draw.one(1, 6)) for n in size]
    way = draw.pick("outs", "outs", "scale", "scale", "out_size", "size_tensor", "scale_tensor")
    if way == "outs":
        unread = [draw.one(0, 3) for _ in OUTS[count:]]  # of axes that are not there
        return dict(zip(OUTS, unread + wanted)), []
    if way == "out_size":
        return {"out_size": np.array(wanted, np.int32)}, []
    if way == "size_tensor":
        return {"size_tensor": [np.array([n], np.int32) for n in wanted]}, []
    scale = [round(float(draw.rng.uniform(1 / n + 0.01, 2.6)), 2) for n in size]
    scale = [draw.pick(s, 1.0, 2.0, 1.5) for s in scale]
    if draw.flag():
        scale = [max(scale)]
    return {way: np.array(scale) if way == "scale_tensor" else scale}, scale


def _interp_attrs(draw: Draw, count: int) -> tuple[tuple[int, ...], dict[str, Any], Any]:
    size = draw.ints(count, 1, 5 if count < 3 else 3)
    form = any_format(draw, count)
    asked, scale = _asked(draw, size)
    outs = [asked.get(n, 0) for n in OUTS]
    if "out_size" in asked:
        outs = asked["out_size"].tolist()
    elif "size_tensor" in asked:
        outs = [int(n[0]) for n in asked["size_tensor"]]
    attrs = {**asked, "data_format": form, "align_corners": draw.flag()}
    return draw.image(size, draw.one(1, 2), form[-1] == "C"), attrs, (outs, scale)


@case(*METHODS)
def interp(draw: Draw, op: str) -> Case:
    method, counts = METHODS[op]
    shape, attrs, (outs, scale) = _interp_attrs(draw, draw.pick(*counts))
    mode = attrs["align_mode"] = draw.one(0, 1)
    attrs["interp_method"] = draw.pick("bilinear", op.replace("_interp", ""))
    form, corners = attrs["data_format"], attrs["align_corners"]

    def expected(x: Any) -> Any:
        return images.interpolate(x, method, form, outs, scale, corners, mode)

    return Case(op, [draw.normal(*shape)], attrs, expected)


@case("interp_antialias")
def interp_antialias(draw: Draw, op: str) -> Case:
    shape, attrs, (outs, scale) = _interp_attrs(draw, 2)
    method = attrs["interp_method"] = draw.pick("bilinear", "bicubic")
    attrs["align_mode"] = draw.one(0, 1)
    form, corners = attrs["data_format"], attrs["align_corners"]

    def expected(x: Any) -> Any:
        return images.antialiased(x, method, form, outs, scale, corners)

    return Case(op, [draw.normal(*shape)], attrs, expected)


# -- pads ------------------------------------------------------------------------------------------
@case("pad")
def pad(draw: Draw, op: str) -> Case:
    shape = draw.ints(draw.one(1, 4), 1, 4)
    sides = [draw.one(-1 if n > 2 else 0, 3) for n in shape for _ in range(2)]
    value = draw.pick(0.0, 1.5)

    def expected(x: Any) -> Any:
        cut = tuple(
            slice(max(-a, 0), n + min(b, 0)) for n, a, b in zip(shape, sides[::2], sides[1::2])
        )
        more = np.reshape([max(p, 0) for p in sides], (-1, 2))
        return np.pad(x[cut], more, constant_values=value)

    return Case(op, [draw.normal(*shape)], {"paddings": sides, "pad_value": value}, expected)


@case("pad3d")
def pad3d(draw: Draw, op: str) -> Case:
    size, mode = draw.ints(3, 1, 4), draw.pick("constant", "reflect", "replicate", "circular")
    most = {"reflect": lambda n: n - 1, "circular": lambda n: n}.get(mode, lambda n: 3)
    sides = [draw.one(-1 if n > 2 else 0, most(n)) for n in size[::-1] for _ in range(2)]
    form, value = draw.pick(*formats(3)), draw.pick(0.0, 1.5)
    x = draw.normal(*draw.image(size, draw.one(1, 2), form[-1] == "C"))
    attrs = {"paddings": sides, "mode": mode, "pad_value": value, "data_format": form}
    is_cut = mode == "reflect" and min(sides) < 0
    expected = None if is_cut else lambda x: arrangement.pad3d(x, sides, mode, value, form)
    return Case(op, [x], attrs, expected)


@case("crop")
def crop(draw: Draw, op: str) -> Case:
    shape = draw.ints(draw.one(1, 4), 1, 5)
    offsets = [draw.one(0, n - 1) for n in shape]
    wanted = [draw.pick(-1, draw.one(1, n - a)) for n, a in zip(shape, offsets)]
    attrs = {"shape": wanted, "offsets": offsets}
    return Case(op, [draw.normal(*shape)], attrs, lambda x: arrangement.crop(x, wanted, offsets))


# -- samples ---------------------------------------------------------------------------------------
@case("grid_sample")
def grid_sample(draw: Draw, op: str) -> Case:
    count = draw.pick(2, 2, 3)
    n, size, outs = draw.one(1, 2), draw.ints(count, 1, 4), draw.ints(count, 1, 2)
    x = draw.normal(n, draw.one(1, 2), *size)
    grid = draw.rng.uniform(-2.5, 2.5, (n, *outs, count))
    kinks = draw.one(0, 4) == 0
    grid = np.round(2 * grid) / 2 if kinks else grid
    mode = draw.pick("bilinear", "bilinear", "nearest")
    padding, corners = draw.pick("zeros", "border", "reflection"), draw.flag()
    attrs = {"mode": mode, "padding_mode": padding, "align_corners": corners}
    expected = lambda *of: images.grid_sample(*of, mode, padding, corners)  # noqa: E731
    return Case(op, [x, grid], attrs, expected, kinks=kinks)


@case("affine_grid")
def affine_grid(draw: Draw, op: str) -> Case:
    count, n, corners = draw.pick(2, 3), draw.one(1, 2), draw.flag()
    shape = [n, draw.one(1, 2), *draw.ints(count, 1, 4)]
    attrs = {"output_shape": shape, "align_corners": corners}
    theta = draw.normal(n, count, count + 1)
    return Case(op, [theta], attrs, lambda t: images.affine_grid(t, shape, corners))


@case("deformable_conv")
def deformable_conv(draw: Draw, op: str) -> Case:
    size, strides, pads, dilations = (draw.ints(2, *of) for of in ((1, 4), (1, 3), (0, 2), (1, 2)))
    kernel = [
        draw.one(1, min((n + 2 * p - 1) // d + 1, 3)) for n, p, d in zip(size, pads, dilations)
    ]
    outs = [
        (n + 2 * p - (k - 1) * d - 1) // s + 1
        for n, p, k, d, s in zip(size, pads, kernel, dilations, strides)
    ]
    groups, parts, n = draw.pick(1, 1, 2), draw.pick(1, 1, 2), draw.one(1, 2)
    channels, taps = 2 * draw.one(1, 2), parts * kernel[0] * kernel[1]
    x = draw.normal(n, channels, *size)
    offset = draw.rng.uniform(-1.5, 1.5, (n, 2 * taps, *outs))
    w = draw.normal(groups * draw.one(1, 2), channels // groups, *kernel)
    attrs: dict[str, Any] = {
        "strides": strides, "paddings": pads, "dilations": dilations, "deformable_groups": parts,
        "groups": groups, "im2col_step": 1,
    }  # fmt: skip
    sizes = (strides, pads, dilations, parts, groups)
    if draw.flag():
        return Case(
            op, [x, offset, w, draw.rng.random((n, taps, *outs))], attrs,
            lambda *of: images.deformable_conv(*of, *sizes),
        )  # fmt: skip
    attrs["mask"] = None
    return Case(op, [x, offset, w], attrs, lambda *of: images.deformable_conv(*of, None, *sizes))


@case("correlation")
def correlation(draw: Draw, op: str) -> Case:
    kernel, most, step, apart = draw.pick(1, 1, 3), draw.one(0, 3), draw.one(1, 3), draw.one(1, 2)
    least = kernel // 2 + most
    size, pad = draw.ints(2, 1, 4), max(least - draw.one(0, 1), 0)
    if min(size) + 2 * (pad - least) < 1:
        pad = least
    shape = (draw.one(1, 2), draw.one(1, 2), *size)
    names = ("pad_size", "kernel_size", "max_displacement", "stride1", "stride2")
    numbers = (pad, kernel, most, step, apart)
    inputs = [draw.normal(*shape), draw.normal(*shape)]
    expected = lambda a, b: images.correlation(a, b, *numbers)  # noqa: E731
    attrs = {**dict(zip(names, numbers)), "corr_type_multiply": 1}
    return Case(op, inputs, attrs, expected)


# -- regions ---------------------------------------------------------------------------------------
def _regions(draw: Draw, channels: int) -> tuple[list[np.ndarray], dict[str, Any], Any]:
    n, size = draw.one(1, 2), draw.ints(2, 1, 5)
    counts = np.array([draw.one(0, 2) for _ in range(n)], draw.pick(np.int32, np.int64))
    counts[0] += not counts.any()
    corners = draw.rng.uniform(-2, 5, (counts.sum(), 2))
    boxes = np.concatenate([corners, corners + draw.rng.uniform(-0.5, 6, corners.shape)], 1)
    boxes = np.round(2 * boxes) / 2 if draw.flag() else boxes
    down, across = draw.ints(2, 1, 3)
    attrs = {"pooled_height": down, "pooled_width": across}
    attrs["spatial_scale"] = draw.pick(1.0, 0.5, 0.75)
    x = draw.distinct(n, channels or down * across * draw.one(1, 2), *size)
    return [x, boxes, counts], attrs, (down, across)


@case("roi_align")
def roi_align(draw: Draw, op: str) -> Case:
    inputs, attrs, bins = _regions(draw, draw.one(1, 2))
    ratio = attrs["sampling_ratio"] = draw.pick(-1, 0, 1, 2, 3)
    aligned, scale = draw.flag(), attrs["spatial_scale"]
    attrs["aligned"] = aligned

    def expected(x: Any, boxes: Any, counts: Any) -> Any:
        return regions.aligned_regions(x, boxes, counts, *bins, scale, ratio, aligned)

    return Case(op, inputs, attrs, expected, moving=1)


@case("roi_pool")
def roi_pool(draw: Draw, op: str) -> Case:
    inputs, attrs, bins = _regions(draw, draw.one(1, 2))
    scale = attrs["spatial_scale"]
    expected = lambda *of: regions.pooled_regions(*of, *bins, scale)  # noqa: E731
    return Case(op, inputs, attrs, expected, moving=1)


@case("psroi_pool")
def psroi_pool(draw: Draw, op: str) -> Case:
    inputs, attrs, (down, across) = _regions(draw, 0)
    scale = attrs["spatial_scale"]
    outs = attrs["output_channels"] = inputs[0].shape[1] // (down * across)
    expected = lambda *of: regions.mean_regions(*of, down, across, outs, scale)  # noqa: E731
    return Case(op, inputs, attrs, expected, moving=1)


# -- rearranged ------------------------------------------------------------------------------------
@case("pixel_shuffle", "pixel_unshuffle")
def pixel_shuffle(draw: Draw, op: str) -> Case:
    r, size, form = draw.one(1, 3), draw.ints(2, 1, 3), draw.pick(*formats(2))
    channels = draw.one(1, 2)
    if op == "pixel_shuffle":
        channels *= r * r
    else:
        size = [n * r for n in size]
    factor = {"pixel_shuffle": "upscale_factor"}.get(op, "downscale_factor")
    x = draw.normal(*draw.image(size, channels, form[-1] == "C"))
    expected = lambda x: getattr(images, op)(x, r, form)  # noqa: E731
    return Case(op, [x], {factor: r, "data_format": form}, expected)


@case("channel_shuffle", "shuffle_channel")
def channel_shuffle(draw: Draw, op: str) -> Case:
    groups, form = draw.one(1, 3), draw.pick(*formats(2)) if op[0] == "c" else "NCHW"
    x = draw.normal(*draw.image(draw.ints(2, 1, 3), groups * draw.one(1, 3), form[-1] == "C"))
    attrs = {"groups": groups, "data_format": form} if op[0] == "c" else {"group": groups}
    return Case(op, [x], attrs, lambda x: images.channel_shuffle(x, groups, form))


@case("temporal_shift")
def temporal_shift(draw: Draw, op: str) -> Case:
    count, ratio, form = draw.one(1, 3), draw.pick(0.25, 0.5, 0.1, 0.34), draw.pick(*formats(2))
    shape = list(draw.image(draw.ints(2, 1, 3), draw.one(1, 5), form[-1] == "C"))
    shape[0] = count * draw.one(1, 2)
    attrs = {"seg_num": count, "shift_ratio": ratio, "data_format": form}
    expected = lambda x: images.temporal_shift(x, count, ratio, form)  # noqa: E731
    return Case(op, [draw.normal(*shape)], attrs, expected)


@case("maxout")
def maxout(draw: Draw, op: str) -> Case:
    groups, shape = draw.one(1, 3), draw.ints(draw.one(2, 4), 1, 3)
    axis = draw.pick(1, -1)
    shape[axis] *= groups

    def expected(x: Any) -> Any:
        at = axis % x.ndim
        return x.reshape(*x.shape[:at], -1, groups, *x.shape[at + 1 :]).max(at + 1)

    return Case(op, [draw.distinct(*shape)], {"groups": groups, "axis": axis}, expected)


# -- windows side by side --------------------------------------------------------------------------
def _columns(draw: Draw) -> tuple[list[int], dict[str, Any], int]:
    """The size of images, attributes of windows on them, and how many there are."""
    size = draw.ints(2, 1, 5)
    p = place(draw, size, 3, dilated=True, within=False)
    (top, bottom), (left, right) = p.pads if p.algorithm == "EXPLICIT" else [(0, 0)] * 2
    kernel = [
        min(k, (n + a + b - 1) // d + 1)
        for k, n, d, (a, b) in zip(p.kernel, size, p.dilations, ((top, bottom), (left, right)))
    ]
    is_even = top == bottom and left == right and draw.flag()
    counts = [
        (n + a - (k - 1) * d - 1) // s + 1
        for n, a, k, d, s in zip(size, (top + bottom, left + right), kernel, p.dilations, p.strides)
    ]
    attrs = {
        "kernel_sizes": kernel, "strides": p.strides, "dilations": p.dilations,
        "paddings": [top, left] if is_even else [top, left, bottom, right],
    }  # fmt: skip
    return size, attrs, counts[0] * counts[1]


ORDER = ("kernel_sizes", "strides", "paddings", "dilations")


@case("unfold")
def unfold(draw: Draw, op: str) -> Case:
    size, attrs, _ = _columns(draw)
    x = draw.normal(draw.one(1, 2), draw.one(1, 2), *size)
    return Case(op, [x], attrs, lambda x: signal.unfold(x, *(attrs[n] for n in ORDER)))


@case("fold")
def fold(draw: Draw, op: str) -> Case:
    size, attrs, count = _columns(draw)
    taps = int(np.prod(attrs["kernel_sizes"])) * draw.one(1, 2)
    x = draw.normal(draw.one(1, 2), taps, count)
    given = {"output_sizes": size, **attrs}
    return Case(op, [x], given, lambda x: signal.fold(x, size, *(attrs[n] for n in ORDER)))


@case("im2sequence")
def im2sequence(draw: Draw, op: str) -> Case:
    size, sides, strides = draw.ints(2, 1, 5), draw.ints(4, 0, 2), draw.ints(2, 1, 3)
    kernels = [draw.one(1, min(n + sides[a] + sides[a + 2], 4)) for a, n in enumerate(size)]
    x = draw.normal(draw.one(1, 2), draw.one(1, 2), *size)
    attrs = {"kernels": kernels, "strides": strides, "paddings": sides, "out_stride": [1, 1]}
    attrs["y"] = None
    return Case(op, [x], attrs, lambda x: sequence.im2sequence(x, kernels, strides, sides))


@case("frame")
def frame(draw: Draw, op: str) -> Case:
    axis, n, batch = draw.pick(0, -1), draw.one(1, 7), draw.ints(draw.one(0, 2), 1, 2)
    length, hop = draw.one(1, n), draw.one(1, 4)
    x = draw.normal(*((n, *batch) if axis == 0 else (*batch, n)))
    attrs = {"frame_length": length, "hop_length": hop, "axis": axis}
    return Case(op, [x], attrs, lambda x: signal.frame(x, length, hop, axis))


@case("overlap_add")
def overlap_add(draw: Draw, op: str) -> Case:
    axis, length, count, hop = draw.pick(0, -1), draw.one(1, 4), draw.one(1, 4), draw.one(1, 5)
    batch = draw.ints(draw.one(0, 2), 1, 2)
    x = draw.normal(*((count, length, *batch) if axis == 0 else (*batch, length, count)))
    attrs = {"hop_length": hop, "axis": axis}
    return Case(op, [x], attrs, lambda x: signal.overlap_add(x, hop, axis))


@case("tensor_unfold")
def tensor_unfold(draw: Draw, op: str) -> Case:
    shape = draw.ints(draw.one(1, 3), 1, 5)
    axis = draw.one(-len(shape), len(shape) - 1)
    size, step = draw.one(1, shape[axis]), draw.one(1, 3)

    def expected(x: Any) -> Any:
        seen = np.lib.stride_tricks.sliding_window_view(x, size, axis)
        return seen.take(np.arange(0, shape[axis] - size + 1, step), axis % x.ndim)

    attrs = {"axis": axis, "size": size, "step": step}
    return Case(op, [draw.normal(*shape)], attrs, expected)


@case("sequence_conv")
def sequence_conv(draw: Draw, op: str) -> Case:
    time, width, outs = draw.one(1, 5), draw.one(1, 3), draw.one(1, 3)
    length, start = draw.one(1, 4), draw.one(-3, 2)
    x, w = draw.normal(time, width), draw.normal(length * width, outs)
    edges = max(0, -start) + max(0, start + length - 1)
    attrs = {"context_length": length, "context_start": start, "context_stride": 1}
    if not edges or draw.flag():
        attrs["padding_trainable"] = False
        names = ("filter",)
        expected = lambda x, w: sequence.sequence_conv(x, None, w, length, start)  # noqa: E731
        return Case(op, [x, w], {**attrs, "padding_data": None}, expected, fixed=names)
    attrs["padding_trainable"] = True
    return Case(
        op, [x, draw.normal(edges, width), w], attrs,
        lambda x, p, w: sequence.sequence_conv(x, p, w, length, start),
    )  # fmt: skip
