"""The distributions of :mod:`phix.scipy.stats`, which give NumPy's arrays for arrays."""

import types as _types
from typing import Any as _Any

from phix.autograd.dispatch import evaluated as _evaluated
from phix.scipy import stats as _stats
from phix.scipy.distributions import Distribution as _Distribution


def _of_arrays(found: _Any) -> _Any:
    if isinstance(found, _Distribution):
        return _types.SimpleNamespace(**{n: _evaluated(getattr(found, n)) for n in dir(found)})
    return _evaluated(found, keeps_ints=found.__name__ == "mode")


__all__ = list(_stats.__all__)
globals().update({n: _of_arrays(getattr(_stats, n)) for n in __all__})
