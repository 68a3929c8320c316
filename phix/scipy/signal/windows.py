"""Windows: numbers that a stretch of a signal is multiplied by, so that it fades at its ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phix import ops
from phix.core import dtypes as dt
from phix.core.faces import face
from phix.core.given import FLAG, SIZE, takes
from phix.core.tensor import Tensor
from phix.scipy.window_shapes import NUMBER, SHAPES, made, window_in_float64


@takes(Nx=SIZE, fftbins=FLAG)
def get_window(window: Any, Nx: Any, fftbins: bool = True) -> Tensor:
    """A window by its name.

    Args:
        window: "boxcar", "hann", "hamming", "blackman", "nuttall", "blackmanharris", "flattop",
            "bartlett", "triang" or "cosine"; or a pair of a name and a number, ("gaussian", std),
            ("kaiser", beta) or ("tukey", alpha); a number is ("kaiser", number).
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


@takes(M=SIZE, std=NUMBER, sym=FLAG)
def gaussian(M: Any, std: Any, sym: bool = True) -> Tensor:
    """The window exp(-n^2 / (2 std^2)) of M points, n points from the middle.

    ``std`` is a number or a tensor of one, in which it is differentiable; ``sym`` is as for
    :func:`hann`. The result is [M], of the default float.

    >>> import phix
    >>> phix.scipy.signal.windows.gaussian(3, 0.1).round(decimals=3).tolist()
    [0.0, 1.0, 0.0]
    """
    return ops.cast(made("gaussian", M, sym, std), dt.default_float())


@takes(M=SIZE, beta=NUMBER, sym=FLAG)
def kaiser(M: Any, beta: Any, sym: bool = True) -> Tensor:
    """The window i0(beta sqrt(1 - t^2)) / i0(beta) of M points, by Kaiser.

    ``beta`` is a number or a tensor of one, in which it is differentiable; ``sym`` is as for
    :func:`hann`. The result is [M], of the default float.

    >>> import phix
    >>> phix.scipy.signal.windows.kaiser(3, 0.0).tolist()
    [1.0, 1.0, 1.0]
    """
    return ops.cast(made("kaiser", M, sym, beta), dt.default_float())


@takes(M=SIZE, alpha=NUMBER, sym=FLAG)
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


__all__ = [*SHAPES, "get_window"]
__dir__ = face(__all__)
