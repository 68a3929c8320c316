"""NumPy's linear algebra on phix's tensors: numpy.linalg's names, and those of the standard."""

from typing import Any as _Any

from phix.array_functions.by_name import LINALG as _FUNCTIONS
from phix.core.faces import face as _face
from phix.numpy.offered import offered as _offered
from phix.numpy.refusals import unknown as _unknown

globals().update({n: _offered(f"linalg.{n}", f) for n, f in _FUNCTIONS.items()})
__all__ = [*_FUNCTIONS]
__dir__ = _face(__all__)


def __getattr__(name: str) -> _Any:
    raise _unknown("phix.numpy.linalg", name, __all__)
