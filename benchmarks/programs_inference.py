"""Programs of inference: filters, samplers, likelihoods and their derivatives, resampling.

Each function says where the program is known from; sizes are observations, particles or draws.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from benchmarks.published import Library, program

KEY = np.array([0, 7], np.uint32)


def triangular(lib: Library) -> Any:
    """The function that solves triangular systems."""
    home = "phix.linalg" if lib.name == "phix" else "jax.scipy.linalg"
    return importlib.import_module(home).solve_triangular


@program("kalman: likelihood of a track, with gradient", 100, 1, 1000)
def kalman(lib: Library, n: int) -> Any:
    """Kalman 1960, as in Bar-Shalom et al. 2001, chapter 6: position and velocity in a plane."""
    x = lib.np
    move = np.eye(4) + np.eye(4, k=2) * 0.5
    see = np.eye(2, 4)

    def loss(logs: Any, seen: Any) -> Any:
        drift = x.exp(logs[0]) * (see.T @ see * 0.1 + np.eye(4))
        blur = x.exp(logs[1]) * x.eye(2)

        def step(state: Any, y: Any) -> Any:
            mean, spread = state
            mean, spread = move @ mean, move @ spread @ move.T + drift
            off, scale = y - see @ mean, see @ spread @ see.T + blur
            gain = x.linalg.solve(scale, see @ spread).T
            likelihood = -0.5 * (off @ x.linalg.solve(scale, off) + x.linalg.slogdet(scale)[1])
            return (mean + gain @ off, spread - gain @ see @ spread), likelihood

        start = (x.zeros(4, dtype="float64"), x.eye(4, dtype="float64") * 10.0)
        return -x.sum(lib.lax.scan(step, start, seen)[1])

    seen = np.cumsum(np.random.default_rng(0).normal(size=(n, 2)), axis=0)
    return lib.fx.value_and_grad(loss), (np.array([-1.0, 0.5]), seen)


@program("particle filter: nonlinear growth", 1000, 7, 10000)
def particle_filter(lib: Library, n: int) -> Any:
    """Gordon, Salmond and Smith 1993: n particles over 50 steps, resampled systematically."""
    x = lib.np

    def step(state: Any, inputs: Any) -> Any:
        t, key, y = inputs
        key_move, key_draw = lib.random.split(key)
        drift = 0.5 * state + 25.0 * state / (1.0 + state**2) + 8.0 * x.cos(1.2 * t)
        state = drift + np.sqrt(10.0) * lib.random.normal(key_move, (n,), "float64")
        logs = -0.5 * (y - state**2 / 20.0) ** 2
        evidence = lib.special.logsumexp(logs) - np.log(n)
        heights = x.cumsum(x.exp(logs - lib.special.logsumexp(logs)))
        at = (x.arange(n) + lib.random.uniform(key_draw, (), "float64")) / n
        chosen = x.clip(x.searchsorted(heights, at), 0, n - 1)
        return state[chosen], (evidence, x.mean(state[chosen]))

    def run(key: Any, seen: Any) -> Any:
        keys, times = lib.random.split(key, 51), x.arange(50.0, dtype="float64")
        start = lib.random.normal(keys[50], (n,), "float64")
        _, (evidence, means) = lib.lax.scan(step, start, (times, keys[:50], seen))
        return x.sum(evidence), means

    return run, (KEY, np.random.default_rng(0).uniform(0.0, 20.0, 50))


@program("elliptical slices: a process seen through a sigmoid", 64, 5, 200, tolerance=1e-4)
def elliptical_slices(lib: Library, n: int) -> Any:
    """Murray, Adams and MacKay 2010: 20 draws of a latent Gaussian process, of 8 chains."""
    x = lib.np

    def likelihood(f: Any, sign: Any) -> Any:
        return -x.sum(x.logaddexp(0.0, -sign * f))

    def draw(f: Any, key: Any, factor: Any, sign: Any) -> Any:
        keys = lib.random.split(key, 4)
        other = factor @ lib.random.normal(keys[0], (n,), "float64")
        level = likelihood(f, sign) + x.log(lib.random.uniform(keys[1], (), "float64"))
        angle = lib.random.uniform(keys[2], (), "float64") * 2.0 * np.pi

        def outside(state: Any) -> Any:
            angle, _, _, _ = state
            return likelihood(f * x.cos(angle) + other * x.sin(angle), sign) < level

        def shrink(state: Any) -> Any:
            angle, low, high, key = state
            low, high = x.where(angle < 0.0, angle, low), x.where(angle < 0.0, high, angle)
            key, now = lib.random.split(key)
            angle = low + (high - low) * lib.random.uniform(now, (), "float64")
            return angle, low, high, key

        start = (angle, angle - 2.0 * np.pi, angle, keys[3])
        angle = lib.lax.while_loop(outside, shrink, start)[0]
        return f * x.cos(angle) + other * x.sin(angle)

    def chain(key: Any, factor: Any, sign: Any) -> Any:
        step = lambda f, key: (draw(f, key, factor, sign),) * 2  # noqa: E731
        return lib.lax.scan(step, x.zeros(n, dtype="float64"), lib.random.split(key, 20))[1]

    def run(key: Any, place: Any, sign: Any) -> Any:
        apart = place[:, None] - place
        factor = x.linalg.cholesky(x.exp(-0.5 * apart**2) + 1e-6 * x.eye(n))
        chains = lib.fx.vmap(chain, in_axes=(0, None, None))(lib.random.split(key, 8), factor, sign)
        return x.mean(chains, axis=(0, 1)), x.std(chains, axis=(0, 1))

    rng = np.random.default_rng(0)
    place = np.sort(rng.uniform(-4.0, 4.0, n))
    return run, (KEY, place, np.sign(np.sin(place) + 0.3 * rng.normal(size=n)))


@program("coal mines: Gibbs draws of a change point", 112, 13, 500)
def coal_mines(lib: Library, n: int) -> Any:
    """Carlin, Gelfand and Smith 1992: rates before and after, and the year; 200 draws."""
    x = lib.np

    def run(key: Any, counts: Any) -> Any:
        sums, years = x.cumsum(counts), x.arange(1, n + 1)

        def draw(state: Any, key: Any) -> Any:
            year, scale = state
            keys = lib.random.split(key, 4)
            before = sums[year]
            early = lib.random.gamma(keys[0], before + 2.0, dtype="float64") / (year + 1 + scale)
            late = lib.random.gamma(keys[1], sums[-1] - before + 2.0, dtype="float64")
            late = late / (n - year - 1 + scale)
            logs = sums * (x.log(early) - x.log(late)) - years * (early - late)
            year = lib.random.categorical(keys[2], logs)
            scale = lib.random.gamma(keys[3], 5.0, dtype="float64") / (early + late + 1.0)
            return (year, scale), (year, early, late)

        start = (x.asarray(n // 2), x.asarray(1.0, dtype="float64"))
        _, (year, early, late) = lib.lax.scan(draw, start, lib.random.split(key, 200))
        return x.zeros(n, dtype="float64").at[year].add(1.0), x.mean(early), x.mean(late)

    rates = np.where(np.arange(n) < n // 3, 3.1, 0.9)
    return run, (KEY, np.random.default_rng(0).poisson(rates).astype("float64"))


@program("factor analysis: 20 steps of EM", 6, 2, 31, tolerance=1e-4)
def factor_analysis(lib: Library, n: int) -> Any:
    """Rubin and Thayer 1982: n variables, 300 observations, 2 factors."""
    x = lib.np

    def run(loads: Any, noise: Any, data: Any) -> Any:
        centred = data - x.mean(data, axis=0)
        spread = centred.T @ centred / data.shape[0]

        def step(_: int, state: Any) -> Any:
            loads, noise = state
            weighted = loads.T / noise
            inverse = x.linalg.inv(x.eye(2) + weighted @ loads)
            project = inverse @ weighted
            across = spread @ project.T
            loads = x.linalg.solve(inverse + project @ across, across.T).T
            return loads, x.diag(spread) - x.sum(loads * across, axis=1) + 1e-3

        loads, noise = lib.lax.fori_loop(0, 20, step, (loads, noise))
        return loads @ loads.T, noise

    rng = np.random.default_rng(0)
    data = rng.normal(size=(300, 2)) @ rng.normal(size=(2, n)) + 0.5 * rng.normal(size=(300, n))
    return run, (rng.normal(size=(n, 2)), np.ones(n), data)


@program("poisson regression: Newton's method", 200, 11, 5000)
def poisson_regression(lib: Library, n: int) -> Any:
    """McCullagh and Nelder 1989, chapter 6: 8 coefficients, 8 steps, Hessians by transformation."""
    x = lib.np

    def loss(w: Any, design: Any, counts: Any) -> Any:
        scores = design @ w
        return x.sum(x.exp(scores) - counts * scores) + 0.5 * x.sum(w * w)

    def fit(design: Any, counts: Any) -> Any:
        def step(_: int, w: Any) -> Any:
            slope = lib.fx.grad(loss)(w, design, counts)
            return w - x.linalg.solve(lib.fx.hessian(loss)(w, design, counts), slope)

        w = lib.lax.fori_loop(0, 8, step, x.zeros(8, dtype="float64"))
        spread = x.linalg.inv(lib.fx.hessian(loss)(w, design, counts))
        return w, x.sqrt(x.diagonal(spread))

    rng = np.random.default_rng(0)
    design = rng.normal(size=(n, 8)) / 3.0
    return fit, (design, rng.poisson(np.exp(design @ rng.normal(size=8))).astype("float64"))


@program("cox regression: partial likelihood and its Hessian", 432, 3, 3000)
def cox_regression(lib: Library, n: int) -> Any:
    """Cox 1972, on data of the size of Rossi's (R's survival, lifelines): 7 covariates."""
    x = lib.np

    def loss(w: Any, design: Any, times: Any, died: Any) -> Any:
        order = x.argsort(-times)
        scores = (design @ w)[order]
        at_risk = x.log(x.cumsum(x.exp(scores - x.max(scores)))) + x.max(scores)
        return -x.sum(died[order] * (scores - at_risk)) / n

    def run(w: Any, design: Any, times: Any, died: Any) -> Any:
        args = (w, design, times, died)
        value, slope = lib.fx.value_and_grad(loss)(*args)
        return value, slope, lib.fx.hessian(loss)(*args)

    rng = np.random.default_rng(0)
    data = rng.normal(size=(n, 7)), rng.exponential(size=n), (rng.uniform(size=n) < 0.3) * 1.0
    return run, (rng.normal(size=7) * 0.3, *data)


@program("carbon dioxide: likelihood of a Gaussian process, with gradient", 100, 7, 300)
def carbon_dioxide(lib: Library, n: int) -> Any:
    """Rasmussen and Williams 2006, 5.4.3: trend, season, bumps, noise; 11 parameters."""
    x, solve = lib.np, triangular(lib)

    def loss(logs: Any, t: Any, y: Any) -> Any:
        a = x.exp(logs)
        square, eye = (t[:, None] - t) ** 2, x.eye(n)
        season = 2.0 * x.sin(np.pi * (t[:, None] - t)) ** 2 / a[4] ** 2
        kernel = a[0] ** 2 * x.exp(-0.5 * square / a[1] ** 2)
        kernel = kernel + a[2] ** 2 * x.exp(-0.5 * square / a[3] ** 2 - season)
        kernel = kernel + a[5] ** 2 * (1.0 + 0.5 * square / (a[7] * a[6] ** 2)) ** -a[7]
        kernel = kernel + a[8] ** 2 * x.exp(-0.5 * square / a[9] ** 2) + a[10] ** 2 * eye
        factor = x.linalg.cholesky(kernel)
        white = solve(factor, y, lower=True)
        return 0.5 * white @ white + x.sum(x.log(x.diagonal(factor)))

    logs = np.log([66.0, 67.0, 2.4, 90.0, 1.3, 0.66, 1.2, 0.78, 0.18, 0.13, 0.19])
    t = np.linspace(0.0, n / 12.0, n)
    y = t + np.sin(2.0 * np.pi * t) + 0.2 * np.random.default_rng(0).normal(size=n)
    return lib.fx.value_and_grad(loss), (logs, t, y)


@program("stochastic volatility: gradient of the evidence's bound", 500, 3, 3000)
def stochastic_volatility(lib: Library, n: int) -> Any:
    """Kim, Shephard and Chib 1998, fitted as in Kucukelbir et al. 2017: 10 samples."""
    x = lib.np

    def log_density(z: Any, returns: Any) -> Any:
        level, scale, stay = z[0], x.exp(z[1]), x.tanh(z[2])
        h = z[3:]
        start = -0.5 * (h[0] - level) ** 2 * (1.0 - stay**2) / scale**2
        off = (h[1:] - level - stay * (h[:-1] - level)) / scale
        moves = start - 0.5 * x.sum(off**2) - n * x.log(scale) + 0.5 * x.log1p(-(stay**2))
        seen = -0.5 * x.sum(h + returns**2 * x.exp(-h))
        return moves + seen - 0.5 * (level**2 / 25.0 + z[1] ** 2 + z[2] ** 2)

    def loss(params: Any, key: Any, returns: Any) -> Any:
        mean, log_std = params
        noise = lib.random.normal(key, (10, n + 3), "float64")
        values = lib.fx.vmap(lambda e: log_density(mean + x.exp(log_std) * e, returns))(noise)
        return -x.mean(values) - x.sum(log_std)

    rng = np.random.default_rng(0)
    params = (0.1 * rng.normal(size=n + 3), np.full(n + 3, -1.0))
    return lib.fx.value_and_grad(loss), (params, KEY, rng.normal(size=n))


@program("bootstrap: interval of a correlation", 1000, 13, 20000)
def bootstrap(lib: Library, n: int) -> Any:
    """Efron 1979, the marks of 15 law schools: n resamples, bounds by percentiles."""
    x = lib.np

    def correlation(a: Any, b: Any) -> Any:
        a, b = a - x.mean(a), b - x.mean(b)
        return x.sum(a * b) / x.sqrt(x.sum(a * a) * x.sum(b * b) + 1e-12)

    def run(key: Any, a: Any, b: Any) -> Any:
        rows = lib.random.choice(key, 15, (n, 15))
        found = lib.fx.vmap(lambda row: correlation(a[row], b[row]))(rows)
        return correlation(a, b), x.percentile(found, x.asarray([2.5, 50.0, 97.5])), x.std(found)

    tests = [576, 635, 558, 578, 666, 580, 555, 661, 651, 605, 653, 575, 545, 572, 594]
    grades = [
        3.39,
        3.3,
        2.81,
        3.03,
        3.44,
        3.07,
        3.0,
        3.43,
        3.36,
        3.13,
        3.12,
        2.74,
        2.76,
        2.88,
        2.96,
    ]
    return run, (KEY, np.array(tests, "float64"), np.array(grades))
