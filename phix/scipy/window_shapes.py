"""Windows by their formulas, in t from -1 at the first point to 1 at the last one.

With ``sym=False`` a window is the first M points of the one of M + 1: a period of what is repeated.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.errors import ArgumentError, described
from phix.core.given import Kind
from phix.core.tensor import TensorBase

Shape = Callable[..., Any]  # of t, of the number of points, and of parameters


def _is_number(v: Any) -> bool:
    return isinstance(v, (int, float)) and not isinstance(v, bool) and abs(v) <= sys.float_info.max


NUMBER = Kind("a finite number", lambda v: _is_number(v) or isinstance(v, TensorBase))


# -- shapes --------------------------------------------------------------------------------------
def _cosines(*weights: float) -> Shape:
    """The sum of weight k times cos(k pi t)."""

    def shape(t: Any, count: Any) -> Any:
        total = ops.full_like(t, weights[0])
        for k, weight in enumerate(weights[1:], 1):
            total = total + weight * ops.cos(k * math.pi * t)
        return total

    return shape


def _triangle(t: Any, count: Any) -> Any:
    """1 - abs(t) (n - 1) / n', with n' = n + 1 for odd n, and n for even ones: no point is 0."""
    around = count + count % 2
    return 1 - ops.abs(t) * (count - 1) / around


def _cosine(t: Any, count: Any) -> Any:
    """The half period of a cosine, of which points as far from its ends as half their distance."""
    return ops.cos(0.5 * math.pi * t * (count - 1) / count)


def _gaussian(t: Any, count: Any, std: Any) -> Any:
    z = 0.5 * (count - 1) * t / _scalar(std)
    return ops.exp(-0.5 * z * z)


def _scalar(v: Any) -> Any:
    return ops.cast(v if isinstance(v, TensorBase) else ops.full((), v, dt.float64), dt.float64)


def _kaiser(t: Any, count: Any, beta: Any) -> Any:
    """i0(beta sqrt(1 - t^2)) / i0(beta), scaled so that nothing overflows."""
    root, at = ops.sqrt(ops.maximum(1 - t * t, 0.0)), _scalar(beta)
    return ops.i0e(at * root) / ops.i0e(at) * ops.exp(ops.abs(at) * (root - 1))


def _tukey(t: Any, count: Any, alpha: Any) -> Any:
    """1 in the middle, and half a period of a cosine over alpha / 2 of the points at each end."""
    width = ops.clip(_scalar(alpha), 0.0, 1.0)
    down = (ops.abs(t) - 1) / ops.where(width > 0, width, 1.0) + 1
    return ops.where((down > 0) & (width > 0), 0.5 + 0.5 * ops.cos(math.pi * down), 1.0)


SHAPES: dict[str, Shape] = {
    "boxcar": _cosines(1.0),
    "hann": _cosines(0.5, 0.5),
    "hamming": _cosines(0.54, 0.46),
    "blackman": _cosines(0.42, 0.5, 0.08),
    "nuttall": _cosines(0.3635819, 0.4891775, 0.1365995, 0.0106411),
    "blackmanharris": _cosines(0.35875, 0.48829, 0.14128, 0.01168),
    "flattop": _cosines(0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368),
    "bartlett": lambda t, count: 1 - ops.abs(t),
    "triang": _triangle,
    "cosine": _cosine,
    "gaussian": _gaussian,
    "kaiser": _kaiser,
    "tukey": _tukey,
}
_PARAMETER = {"gaussian": "std", "kaiser": "beta", "tukey": "alpha"}
_ALIASES = {
    "box": "boxcar", "ones": "boxcar", "rect": "boxcar", "rectangular": "boxcar",
    "hanning": "hann", "han": "hann", "hamm": "hamming", "ham": "hamming", "black": "blackman",
    "blk": "blackman", "bart": "bartlett", "brt": "bartlett", "triangle": "triang",
    "tri": "triang", "nutt": "nuttall", "blackharr": "blackmanharris", "bkh": "blackmanharris",
    "flat": "flattop", "flt": "flattop", "halfcosine": "cosine", "gauss": "gaussian",
    "gss": "gaussian", "ksr": "kaiser", "tuk": "tukey",
}  # fmt: skip


def as_size(v: Any) -> Any:
    """A size as an int of Python, or a dim."""
    return v if isinstance(v, dm.Dim) else int(v)


def made(name: str, M: Any, sym: bool, *parameters: Any) -> Any:
    """A window in float64."""
    M = as_size(M)
    if dm.is_known(M) and M < 2:
        return ops.full((M,), 1.0, dt.float64)
    count = M if sym else M + 1
    steps = ops.cast(2 * ops.arange(0, M, 1, dt.int64) - (count - 1), dt.float64)
    if dm.is_known(M):
        return SHAPES[name](steps / (count - 1), count, *parameters)
    found = SHAPES[name](steps / dm.maximum(count - 1, 1), count, *parameters)
    return ops.where(ops.full((), M, dt.int64) > 1, found, 1.0)


def window_in_float64(window: Any, count: Any, is_periodic: bool = True) -> Any:
    """A window by its name, or by its name and its parameter; a number is Kaiser's."""
    window = ("kaiser", window) if NUMBER.holds(window) else window
    asked: Sequence[Any] = window if isinstance(window, (list, tuple)) else (window,)
    name = asked[0] if asked and isinstance(asked[0], str) else None
    name = _ALIASES.get(str(name), name)
    if name not in SHAPES:
        raise ArgumentError(
            f"window must be one of {', '.join(map(repr, SHAPES))}, found {described(window)}"
        )
    parameter = _PARAMETER.get(name)
    if len(asked) != (1 if parameter is None else 2) or not all(map(NUMBER.holds, asked[1:])):
        wanted = repr(name) if parameter is None else f"({name!r}, {parameter}), with a number"
        raise ArgumentError(f"window must be {wanted}, found {described(window)}")
    return made(name, count, not is_periodic, *asked[1:])
