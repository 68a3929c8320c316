"""Windows by their formulas, in t from -1 at the first point to 1 at the last one.

With ``sym=False`` a window is the first M points of the one of M + 1: a period of what is repeated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.errors import ArgumentError, described
from phix.core.faces import face
from phix.core.given import FLAG, SIZE, Kind, takes
from phix.core.tensor import Tensor, TensorBase

Shape = Callable[..., Any]  # of t, of the number of points, and of parameters


def _is_number(v: Any) -> bool:
    return isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v)


_NUMBER = Kind("a finite number", lambda v: _is_number(v) or isinstance(v, TensorBase))


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


_SHAPES: dict[str, Shape] = {
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
        return _SHAPES[name](steps / (count - 1), count, *parameters)
    found = _SHAPES[name](steps / dm.maximum(count - 1, 1), count, *parameters)
    return ops.where(ops.full((), M, dt.int64) > 1, found, 1.0)


# -- as users call them --------------------------------------------------------------------------
def window_in_float64(window: Any, count: Any, is_periodic: bool = True) -> Any:
    """A window by its name, or by its name and its parameter."""
    asked: Sequence[Any] = window if isinstance(window, (list, tuple)) else (window,)
    name = asked[0] if asked and isinstance(asked[0], str) else None
    name = _ALIASES.get(str(name), name)
    if name not in _SHAPES:
        raise ArgumentError(
            f"window must be one of {', '.join(map(repr, _SHAPES))}, found {described(window)}"
        )
    parameter = _PARAMETER.get(name)
    if len(asked) != (1 if parameter is None else 2) or not all(map(_NUMBER.holds, asked[1:])):
        wanted = repr(name) if parameter is None else f"({name!r}, {parameter}), with a number"
        raise ArgumentError(f"window must be {wanted}, found {described(window)}")
    return made(name, count, not is_periodic, *asked[1:])


@takes(Nx=SIZE, fftbins=FLAG)
def get_window(window: Any, Nx: Any, fftbins: bool = True) -> Tensor:
    """A window by its name.

    Args:
        window: "boxcar", "hann", "hamming", "blackman", "nuttall", "blackmanharris", "flattop",
            "bartlett", "triang" or "cosine"; or a pair of a name and a number, ("gaussian", std),
            ("kaiser", beta) or ("tukey", alpha).
        Nx: how many points.
        fftbins: whether it is a period of what is repeated, as transforms take it.

    Returns:
        [Nx], of the default float.

    Raises:
        ArgumentError: there is no such window.

    >>> import phix
    >>> phix.scipy.signal.get_window("hann", 4).round(decimals=3).tolist()
    [0.0, 0.5, 1.0, 0.5]
    >>> phix.scipy.signal.get_window(("tukey", 0.5), 5, fftbins=False).round(decimals=3).tolist()
    [0.0, 1.0, 1.0, 1.0, 0.0]
    """
    return ops.cast(window_in_float64(window, Nx, is_periodic=fftbins), dt.default_float())


# What the windows without parameters are.
_WORDS = {
    "boxcar": "1 at all points",
    "hann": "0.5 + 0.5 cos(pi t)",
    "hamming": "0.54 + 0.46 cos(pi t)",
    "blackman": "0.42 + 0.5 cos(pi t) + 0.08 cos(2 pi t)",
    "nuttall": "a sum of four cosines, by Nuttall",
    "blackmanharris": "a sum of four cosines, by Blackman and Harris",
    "flattop": "a sum of five cosines, flat at the frequency of a tone",
    "bartlett": "1 - abs(t)",
    "triang": "a triangle with its corners beside the points",
    "cosine": "half a period of a cosine with its ends beside the points",
}
_DOCUMENT = """The window of M points that is {words}, t from -1 at the first to 1 at the last.

    Args:
        M: how many points.
        sym: False: the first M points of the window of M + 1, a period of what is repeated.

    Returns:
        [M], of the default float.

    >>> import phix
    >>> phix.scipy.signal.windows.{name}(5).round(decimals=3).tolist()[2]
    1.0
    """


def _window(name: str) -> Callable[..., Tensor]:
    def window(M: Any, sym: bool = True) -> Tensor:
        return ops.cast(made(name, M, sym), dt.default_float())

    window.__name__ = window.__qualname__ = name
    window.__doc__ = _DOCUMENT.format(name=name, words=_WORDS[name])
    return takes(M=SIZE, sym=FLAG)(window)


boxcar, hann, hamming = _window("boxcar"), _window("hann"), _window("hamming")
blackman, nuttall = _window("blackman"), _window("nuttall")
blackmanharris, flattop = _window("blackmanharris"), _window("flattop")
bartlett, triang, cosine = _window("bartlett"), _window("triang"), _window("cosine")


@takes(M=SIZE, std=_NUMBER, sym=FLAG)
def gaussian(M: Any, std: Any, sym: bool = True) -> Tensor:
    """The window exp(-n^2 / (2 std^2)) of M points, n points from the middle.

    ``std`` is a number or a tensor of one, in which it is differentiable; ``sym`` is as for
    :func:`hann`. The result is [M], of the default float.

    >>> import phix
    >>> phix.scipy.signal.windows.gaussian(3, 0.1).round(decimals=3).tolist()
    [0.0, 1.0, 0.0]
    """
    return ops.cast(made("gaussian", M, sym, std), dt.default_float())


@takes(M=SIZE, beta=_NUMBER, sym=FLAG)
def kaiser(M: Any, beta: Any, sym: bool = True) -> Tensor:
    """The window i0(beta sqrt(1 - t^2)) / i0(beta) of M points, by Kaiser.

    ``beta`` is a number or a tensor of one, in which it is differentiable; ``sym`` is as for
    :func:`hann`. The result is [M], of the default float.

    >>> import phix
    >>> phix.scipy.signal.windows.kaiser(3, 0.0).tolist()
    [1.0, 1.0, 1.0]
    """
    return ops.cast(made("kaiser", M, sym, beta), dt.default_float())


@takes(M=SIZE, alpha=_NUMBER, sym=FLAG)
def tukey(M: Any, alpha: Any = 0.5, sym: bool = True) -> Tensor:
    """The window of M points that is 1, but for half a period of a cosine over alpha / 2 of the
    points at each end.

    ``alpha`` is from 0, :func:`boxcar`, to 1, :func:`hann`; ``sym`` is as for that. The result is
    [M], of the default float.

    >>> import phix
    >>> phix.scipy.signal.windows.tukey(5).round(decimals=3).tolist()
    [0.0, 1.0, 1.0, 1.0, 0.0]
    """
    return ops.cast(made("tukey", M, sym, alpha), dt.default_float())


__all__ = [*_SHAPES, "get_window"]
__dir__ = face(__all__)
