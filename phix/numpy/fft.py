"""NumPy's Fourier transforms on phix's tensors: numpy.fft's names, and those of the standard."""

from typing import Any as _Any

from phix.array_functions.by_name import FFT as _FUNCTIONS
from phix.core.faces import face as _face
from phix.numpy.creation import fftfreq as _fftfreq
from phix.numpy.creation import rfftfreq as _rfftfreq
from phix.numpy.offered import offered as _offered
from phix.numpy.refusals import unknown as _unknown

_ALL = _FUNCTIONS | {"fftfreq": _fftfreq, "rfftfreq": _rfftfreq}
globals().update({n: _offered(f"fft.{n}", f) for n, f in _ALL.items()})
__all__ = [*_ALL]
__dir__ = _face(__all__)


def __getattr__(name: str) -> _Any:
    raise _unknown("phix.numpy.fft", name, __all__)
