"""Signals under SciPy's names: convolutions, trends, windows, and spectra over time."""

from phix.core.faces import face
from phix.scipy.signal import windows
from phix.scipy.signal.convolutions import (
    convolve,
    convolve2d,
    correlate,
    correlate2d,
    fftconvolve,
)
from phix.scipy.signal.spectra import csd, istft, stft, welch
from phix.scipy.signal.trends import detrend
from phix.scipy.signal.windows import get_window

__all__ = [
    "convolve", "convolve2d", "correlate", "correlate2d", "csd", "detrend", "fftconvolve",
    "get_window", "istft", "stft", "welch", "windows",
]  # fmt: skip
__dir__ = face(__all__)
