"""Distributions and statistics under SciPy's names: ``stats.norm.logpdf(x, loc=0, scale=1)``."""

from phix.core.faces import face as _face
from phix.scipy.continuous import CONTINUOUS as _CONTINUOUS
from phix.scipy.densities import gaussian_kde
from phix.scipy.discrete import DISCRETE as _DISCRETE
from phix.scipy.discrete import VECTORS as _VECTORS
from phix.scipy.ranks import mode, rankdata, sem

_ALL = _CONTINUOUS | _DISCRETE | _VECTORS
bernoulli, betabinom, binom = _ALL["bernoulli"], _ALL["betabinom"], _ALL["binom"]
beta, cauchy, chi2, dirichlet = _ALL["beta"], _ALL["cauchy"], _ALL["chi2"], _ALL["dirichlet"]
expon, gamma, gennorm, geom = _ALL["expon"], _ALL["gamma"], _ALL["gennorm"], _ALL["geom"]
gumbel_l, gumbel_r, laplace = _ALL["gumbel_l"], _ALL["gumbel_r"], _ALL["laplace"]
logistic, multinomial, nbinom = _ALL["logistic"], _ALL["multinomial"], _ALL["nbinom"]
multivariate_normal, norm = _ALL["multivariate_normal"], _ALL["norm"]
pareto, poisson, t, truncnorm = _ALL["pareto"], _ALL["poisson"], _ALL["t"], _ALL["truncnorm"]
uniform, vonmises, wrapcauchy = _ALL["uniform"], _ALL["vonmises"], _ALL["wrapcauchy"]

__all__ = [*_ALL, "gaussian_kde", "mode", "rankdata", "sem"]
__dir__ = _face(__all__)
