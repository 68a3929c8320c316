"""Fourier transforms under NumPy's names, differentiable to any order.

    fft:   X_k = sum_j x_j exp(-2 pi i j k / n),           k = 0, ..., n - 1
    ifft:  x_j = (1 / n) sum_k X_k exp(2 pi i j k / n),    j = 0, ..., n - 1

Over several axes one transform follows the other, and n is the product of their sizes. ``norm``
says where the sums are divided: ``"backward"`` (also None), as above, in the inverse; ``"forward"``
in the transform that is none; ``"ortho"`` by sqrt(n) in both, which are then unitary.

The functions take float32, float64, complex64 and complex128, and give that precision back; bools,
ints and floats of 16 bits are taken as float32. ``n`` and ``s`` are the sizes that are transformed:
what is longer is cropped at its end, what is shorter filled up with zeros. A size may be an unknown
dim, such as ``x.shape[0]``.
"""

from phix.core.faces import face
from phix.fft.frequencies import fftfreq, fftshift, ifftshift, rfftfreq
from phix.fft.transforms import (
    fft,
    fft2,
    fftn,
    hfft,
    ifft,
    ifft2,
    ifftn,
    ihfft,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftn,
)  # fmt: skip

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift",
    "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip
__dir__ = face(__all__)
