"""NumPy's names: ``import phix.autograd.numpy as np``.

Without a tensor among the arguments a function is NumPy's own; with one it is that of
:mod:`phix.numpy`. Classes, dtypes and constants, ``np.pi``, are NumPy's, and so is ``np.random``.
"""

import importlib as _importlib
import types as _types
from typing import Any as _Any

import numpy as _numpy

from phix import numpy as _phix_numpy
from phix.autograd.dispatch import by_kind as _by_kind

_METHODS = ("outer", "reduce", "accumulate", "reduceat", "at")


def _both(name: str, own: _Any) -> _Any:
    theirs = getattr(_phix_numpy, name) if name in _phix_numpy.__all__ else None
    found: _Any = _by_kind(name, own, theirs)
    if isinstance(own, _numpy.ufunc):
        for method in _METHODS:
            of_phix = getattr(theirs, method, None)
            setattr(found, method, _by_kind(f"{name}.{method}", getattr(own, method), of_phix))
    return found


def _public() -> dict[str, _Any]:
    found = {}
    for name in dir(_numpy):
        value = None if name.startswith("_") else getattr(_numpy, name, None)
        if value is None and name != "newaxis":
            continue
        if isinstance(value, _types.ModuleType):
            continue
        is_function = callable(value) and not isinstance(value, type)
        found[name] = _both(name, value) if is_function else value
    return found


globals().update(_public())
for _name in ("fft", "linalg", "random"):
    globals()[_name] = _importlib.import_module(f"phix.autograd.numpy.{_name}")
__all__ = [*_public(), "fft", "linalg", "random"]
