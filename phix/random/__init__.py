"""Random numbers as functions of a key: the same key always gives the same numbers.

There is no hidden state. A key is a uint32[2] tensor; each key is to be used once, so where several
draws are made, ``split`` it first::

    key, subkey = phix.random.split(phix.random.key(0))
    x = phix.random.normal(subkey, [3])

The numbers are JAX's for JAX's keys (``jax.random``, with jax_threefry_partitionable, its default):
of key, split, fold_in, bits, randint, permutation and choice, and of uniform, bernoulli,
categorical, normal, exponential, gumbel, laplace, logistic, cauchy, truncated_normal, gamma, beta,
dirichlet, t and those made of them (``phix/random/derived.py``) up to rounding. Where it has to be
otherwise:

- float16 and bfloat16 have only uniform as JAX has it, in steps of 2 ** -10 and 2 ** -7. What is
  made of that would end early in its tails, so the others are drawn as float32 and rounded.
- JAX without jax_enable_x64 has seeds and default ints of 32 bits; ``dtype="int32"`` gives those.
- uniform never gives max, to which JAX may round up.
- truncated_normal keeps its digits in intervals far out, where JAX's loses them.
- poisson (from a mean of 10), binomial and multinomial, permutation with ``independent``, and gamma
  numbers where rounding decides which draw is accepted, are others than JAX's.

The bits are those of Threefry-2x32 with 20 rounds, a cipher that turns a counter into random bits
(J. Salmon, M. Moraes, R. Dror and D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011).
Element i of a draw depends on the key and i alone, so it does not matter how work is divided, and
under ``vmap`` over keys every draw is what it would be in a loop.
"""

from phix.core.faces import face
from phix.random.choices import binomial, categorical, choice, multinomial, permutation, poisson
from phix.random.derived import (
    ball,
    chisquare,
    double_sided_maxwell,
    f,
    generalized_normal,
    geometric,
    lognormal,
    maxwell,
    multivariate_normal,
    orthogonal,
    pareto,
    rademacher,
    rayleigh,
    triangular,
    wald,
    weibull_min,
)
from phix.random.draws import (
    bernoulli,
    cauchy,
    exponential,
    gumbel,
    laplace,
    logistic,
    normal,
    randint,
    truncated_normal,
    uniform,
)
from phix.random.keys import bits, fold_in, key, split
from phix.random.shaped import beta, dirichlet, gamma, loggamma, t

__all__ = [
    "ball", "bernoulli", "beta", "binomial", "bits", "categorical", "cauchy", "chisquare", "choice",
    "dirichlet", "double_sided_maxwell", "exponential", "f", "fold_in", "gamma",
    "generalized_normal", "geometric", "gumbel", "key", "laplace", "loggamma", "logistic",
    "lognormal", "maxwell", "multinomial", "multivariate_normal", "normal", "orthogonal", "pareto",
    "permutation", "poisson", "rademacher", "randint", "rayleigh", "split", "t", "triangular",
    "truncated_normal", "uniform", "wald", "weibull_min",
]  # fmt: skip
__dir__ = face(__all__)
