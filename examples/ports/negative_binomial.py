"""A negative binomial distribution is fitted by Newton's method on the slope of its likelihood, in
which the second parameter is the best one for the first."""

import time

import numpy as np

import phix
from phix.scipy.special import gammaln


def log_likelihood(r, p, x):
    terms = gammaln(r + x) - gammaln(r) - gammaln(x + 1) + x * phix.ops.log(p)
    return (terms + r * phix.ops.log(1 - p)).sum()


def newton(slope, x, rounds=30):
    curve = phix.grad(slope)
    return phix.fori_loop(0, rounds, lambda _, x: x - slope(x) / curve(x), x)


def fit(x, guess=1.0):
    """r and p; there are none unless the variance of x is above its mean."""

    def best(r):
        return x.sum() / (r + x).sum()

    r = newton(lambda r: phix.grad(log_likelihood)(r, best(r), x), guess)
    return r, best(r)


def data(r=5.0, p=0.5, count=1000, seed=0):
    rng = np.random.default_rng(seed)
    return rng.poisson(rng.gamma(r, p / (1 - p), count)).astype(float)


if __name__ == "__main__":
    begin = time.perf_counter()
    r, p = phix.jit(fit)(data(), np.float64(1.0))
    print(f"r = {r.item():.4f}, p = {p.item():.4f} in {time.perf_counter() - begin:.2f} s")
