"""Special functions under SciPy's names: ints become float32, the other dtypes stay."""

from __future__ import annotations

from typing import Any as _Any

from phix import ops as _ops
from phix.core.faces import face as _face
from phix.core.given import INT as _INT
from phix.core.given import takes as _takes
from phix.core.tensor import Tensor as _Tensor
from phix.core.tensor import TensorLike as _TensorLike
from phix.scipy.entropies import entr, kl_div, rel_entr, xlog1py, xlogy
from phix.scipy.entropies import floats as _floats
from phix.scipy.gammas import (
    beta,
    betaln,
    comb,
    factorial,
    gamma,
    gammainc,
    gammaincc,
    gammasgn,
    multigammaln,
    poch,
)
from phix.scipy.hypergeometric import hyp1f1, hyp2f1
from phix.scipy.incomplete_beta import betainc
from phix.scipy.integrals import dawsn, exp1, expi, expn, ndtri, owens_t, spence
from phix.scipy.oscillations import fresnel, sici
from phix.scipy.sums import bernoulli, boxcox, boxcox1p, log_softmax, logsumexp, softmax, zeta
from phix.scipy.waves import bessel_jn, sph_harm_y, wofz

# Functions of one argument, by SciPy's name and the op's.
_OF_ONE = {
    "digamma": "digamma", "erf": "erf", "erfc": "erfc", "erfcx": "erfcx", "erfinv": "erfinv",
    "expit": "sigmoid", "gammaln": "lgamma",
    "i0": "i0", "i0e": "i0e", "i1": "i1", "i1e": "i1e",
    "log_expit": "logsigmoid", "log_ndtr": "log_ndtr", "ndtr": "ndtr", "psi": "digamma",
}  # fmt: skip


def _of_one(name: str, op: str) -> _Any:
    def function(x: _TensorLike) -> _Tensor:
        return getattr(_ops, op)(*_floats(x))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"scipy.special.{name}, elementwise, by :func:`phix.ops.{op}`."
    return _takes()(function)


@_takes()
def logit(x: _TensorLike) -> _Tensor:
    """log(x / (1 - x)); NaN outside [0, 1].

    >>> import phix
    >>> phix.scipy.special.logit(0.5).item()
    0.0
    """
    return _ops.logit(_floats(x)[0], 0.0)


@_takes()
def loggamma(x: _TensorLike) -> _Tensor:
    """log of the gamma function of real numbers; NaN below 0, where it is no real number.

    >>> import phix
    >>> phix.scipy.special.loggamma([1.0, -0.5]).tolist()
    [0.0, nan]
    """
    (value,) = _floats(x)
    return _ops.where(value < 0, float("nan"), _ops.lgamma(value))


@_takes(n=_INT)
def polygamma(n: int, x: _TensorLike) -> _Tensor:
    """The derivative of order n of digamma.

    >>> import phix
    >>> round(phix.scipy.special.polygamma(1, 1.0).item(), 5)
    1.64493
    """
    (value,) = _floats(x)
    return _ops.digamma(value) if n == 0 else _ops.polygamma(value, n)


globals().update({name: _of_one(name, op) for name, op in _OF_ONE.items()})
__all__ = [
    *_OF_ONE, "bernoulli", "bessel_jn", "beta", "betainc", "betaln", "boxcox", "boxcox1p",
    "comb", "dawsn", "entr", "exp1", "expi", "expn", "factorial", "fresnel", "gamma",
    "gammainc", "gammaincc", "gammasgn", "hyp1f1", "hyp2f1", "kl_div", "log_softmax",
    "loggamma", "logit", "logsumexp", "multigammaln", "ndtri", "owens_t", "poch", "polygamma",
    "rel_entr", "sici", "softmax", "spence", "sph_harm_y", "wofz", "xlog1py", "xlogy", "zeta",
]  # fmt: skip
__dir__ = _face(__all__)
