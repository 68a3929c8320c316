"""Numbers as small ints with a scale, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np


def quantised(x: np.ndarray, scale: np.ndarray, bit_length: int, round_type: int) -> np.ndarray:
    """The nearest ints; halves go to even or away from 0."""
    most = 2 ** (bit_length - 1) - 1
    exact = most * x / np.where(scale == 0, 1, scale)
    if round_type == 0:
        return np.clip(np.rint(exact), -most - 1, most)
    exact = np.clip(exact, -most, most)
    return np.sign(exact) * np.floor(np.abs(exact) + 0.5)


def dequantised(x: np.ndarray, scale: np.ndarray, bit_length: int, round_type: int) -> np.ndarray:
    return quantised(x, scale, bit_length, round_type) * scale / (2 ** (bit_length - 1) - 1)


def channel_scales(x: np.ndarray, axis: int) -> np.ndarray:
    """The largest size at each position along the axis, the others being 1."""
    return np.abs(x).max(tuple(i for i in range(x.ndim) if i != axis), keepdims=True)


def moving_average(
    back: Callable[..., np.ndarray],
    x: np.ndarray,
    in_scale: np.ndarray,
    in_accum: np.ndarray | None,
    in_state: np.ndarray | None,
    rate: float,
    bit_length: int,
    is_test: bool,
    round_type: int,
) -> tuple[np.ndarray, ...]:
    """``back`` of x with the scale, that scale, and the states that are kept."""
    states, scale = [in_state, in_accum], in_scale
    if not is_test:
        states = [rate * in_state + 1, rate * in_accum + np.abs(x).max()]
        scale = states[1] / states[0]
    kept = [s for s in states if s is not None]
    return back(x, scale, bit_length, round_type), scale, *kept


def channel_dequantised(
    x: np.ndarray, scales: Sequence[np.ndarray], bits: Sequence[int], axis: int, columns: int
) -> np.ndarray:
    out = np.array(x)
    channels = np.moveaxis(out, axis if len(scales) == 1 else columns, 0)
    for k in range(len(channels)):
        channels[k] *= scales[0][k] / (2 ** (bits[0] - 1) - 1)
    return out if len(scales) == 1 else out * scales[1] / (2 ** (bits[1] - 1) - 1)


def weight_quantized(x: np.ndarray, algo: str, group_size: int) -> tuple[np.ndarray, np.ndarray]:
    """The ints, transposed, two int4 a byte, and a scale for each column of each group."""
    most = 7 if algo.endswith("int4") else 127
    groups = x.reshape(-1, len(x) if group_size == -1 else group_size, x.shape[1])
    scale = np.abs(groups).max(1) / most
    exact = groups / scale[:, None]
    ints = (np.sign(exact) * np.floor(np.abs(exact) + 0.5)).reshape(x.shape).T.astype(int)
    if most == 7:
        if len(ints) % 2:
            raise ValueError("an odd number of columns")
        ints = (ints[::2] & 15) | (ints[1::2] << 4)
    return ints.astype(np.int8), scale[0] if group_size == -1 else scale


def weight_dequantized(x: np.ndarray, scale: np.ndarray, algo: str) -> np.ndarray:
    """The weights [k, n]."""
    ints = x.astype(int)
    if algo.endswith("int4"):
        low, high = (ints & 15), (ints >> 4)
        ints = np.stack([np.where(low > 7, low - 16, low), high], 1).reshape(-1, x.shape[1])
    if scale.ndim == 1:
        scale = scale[None]
    if scale.shape[1] != len(ints):
        raise ValueError(f"scale {scale.shape} of weights {ints.shape}")
    return np.repeat(scale, ints.shape[1] // len(scale), 0) * ints.T


def llm_int8_product(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None,
    scale: np.ndarray,
    threshold: float,
) -> np.ndarray:
    """A product in which the columns of x without large elements are rounded to ints."""
    rows = x.reshape(-1, x.shape[-1])
    large = np.abs(rows).max(0) > threshold
    small = np.where(large, 0, rows)
    unit = np.abs(small).max(1, keepdims=True) / 127
    exact = small / np.where(unit == 0, 1, unit)
    seen = np.where(large, rows, np.sign(exact) * np.floor(np.abs(exact) + 0.5) * unit)
    out = seen @ (weight.T * scale) + (0 if bias is None else bias)
    return out.reshape(*x.shape[:-1], -1)


def dequantised_rows(w: np.ndarray, ids: np.ndarray, padding: int) -> np.ndarray:
    w = w.astype(np.float32)
    assert ids.shape[-1] == 1 and w.shape[1] > 2
    rows = w[ids[..., 0]]
    packed = np.ascontiguousarray(rows[..., 2:]).view(np.uint8)
    least, most = rows[..., :1], rows[..., 1:2]
    out = packed * ((most.astype(float) - least) / 256) + least
    return np.where(ids == padding, 0.0, out) if padding != -1 else out
