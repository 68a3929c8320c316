"""The main step of each program in ``examples/ports``, beside the same written for JAX.

What is timed is what the program calls over and over, of its own size and on its own data or data
like them; the first line of each function says which. Run by ``python -m benchmarks.ports``, where
JAX computes in float64 what phix does.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import phix
from benchmarks.harness import Case, normal, row
from benchmarks.peers import jax, jnp
from phix import numpy as pn

PORTS = Path(__file__).resolve().parents[1] / "examples" / "ports"
NAME = "port: "
F32, F64 = 1e-4, 1e-8  # how far apart results may be: other orders of sums


def _port(name: str) -> Any:
    if str(PORTS) not in sys.path:
        sys.path.insert(0, str(PORTS))
    return importlib.import_module(name)


def _parts(model: Any) -> tuple[list[np.ndarray], Callable[[Any], Any]]:
    """The arrays of a model, and what makes the model of such."""
    leaves, tree = phix.tree.flatten(model)
    return [leaf.numpy() for leaf in leaves], lambda parts: phix.tree.unflatten(tree, parts)


def _case(
    args: Any, ours: Any, theirs: Any, tolerance: float, mode: str = "value_and_grad"
) -> Case:
    return Case(tuple(args), {"phix": ours, "jax": theirs}, mode, tolerance)


def _digits(count: int) -> tuple[np.ndarray, np.ndarray]:
    """As many images as a batch has, with as many numbers as those of the digits, and classes."""
    rng = np.random.default_rng(0)
    return rng.uniform(0, 1, (count, 64)).astype("f"), rng.integers(0, 10, count)


def _dense(parts: Any, x: Any, between: Any) -> Any:
    for w, b in zip(parts[:-2:2], parts[1:-2:2]):
        x = between(x @ w + b)
    return x @ parts[-2] + parts[-1]


def _cross_entropy(logits: Any, y: Any) -> Any:
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1))


# -- networks --------------------------------------------------------------------------------------
@row(NAME + "classifier")
def classifier() -> Case:
    """loss and gradient of a batch of 64"""
    port, nn, tanh = _port("classifier"), phix.nn, phix.ops.tanh
    widths = ((64, 64), (64, 64), (64, 10))
    layers = [nn.Linear.create(phix.random.key(k), *w) for k, w in enumerate(widths)]
    model = nn.Sequential.create(layers[0], tanh, layers[1], tanh, layers[2])
    parts, made = _parts(model)
    return _case(
        (parts, *_digits(64)),
        lambda parts, x, y: port.loss(made(parts), x, y),
        lambda parts, x, y: _cross_entropy(_dense(parts, x, jnp.tanh), y),
        F32,
    )


@row(NAME + "image_network")
def image_network() -> Case:
    """loss and gradient of a batch of 64"""
    port = _port("image_network")
    parts, made = _parts(port.network(phix.random.key(0)))
    x, y = _digits(64)

    def convolved(x: Any, w: Any, b: Any) -> Any:
        out = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME")
        return jax.nn.relu(out + b[:, None, None])

    def theirs(parts: Any, x: Any, y: Any) -> Any:
        w1, b1, w2, b2, w3, b3 = parts
        x = convolved(x, w1, b1)
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        x = convolved(x, w2, b2)
        return _cross_entropy(x.reshape(x.shape[0], -1) @ w3 + b3, y)

    ours = lambda parts, x, y: port.loss(made(parts), x, y)  # noqa: E731
    return _case((parts, x.reshape(-1, 1, 8, 8), y), ours, theirs, F32)


@row(NAME + "image_encoder")
def image_encoder() -> Case:
    """bound and gradient of a batch of 64"""
    port = _port("image_encoder")
    keys = phix.random.split(phix.random.key(0))
    parts, made = _parts((port.dense(keys[0], 64, 64, 8), port.dense(keys[1], 4, 64, 64)))

    def theirs(parts: Any, x: Any, noise: Any) -> Any:
        mean, log_std = jnp.split(_dense(parts[:4], x, jax.nn.softplus), 2, -1)
        logits = _dense(parts[4:], mean + jnp.exp(log_std) * noise, jax.nn.softplus)
        likely = jnp.sum(x * logits - jax.nn.softplus(logits), 1)
        away = 0.5 * jnp.sum(jnp.exp(2 * log_std) + mean**2 - 1 - 2 * log_std, 1)
        return jnp.mean(likely - away)

    ours = lambda parts, x, noise: port.lower_bound(made(parts), x, noise)  # noqa: E731
    return _case((parts, _digits(64)[0], normal(64, 4)), ours, theirs, F32)


@row(NAME + "private_sgd")
def private_sgd() -> Case:
    """a private gradient of 1797 examples; the noise is drawn, and times 0"""
    port = _port("private_sgd")
    params = {"w": normal(64, 10, scale=0.1), "b": normal(10, scale=0.1)}
    x, y = _digits(1797)

    def loss(params: Any, x: Any, y: Any) -> Any:
        return -jax.nn.log_softmax(x @ params["w"] + params["b"])[y]

    def clipped(grads: Any) -> Any:
        leaves = jax.tree.leaves(grads)
        size = jnp.sqrt(sum(jnp.sum(g**2) for g in leaves))
        return jax.tree.map(lambda g: g / jnp.maximum(size, 1.0), grads)

    def theirs(params: Any, x: Any, y: Any, key: Any) -> Any:
        own = jax.vmap(lambda x, y: clipped(jax.grad(loss)(params, x, y)))(x, y)
        leaves, tree = jax.tree.flatten(jax.tree.map(lambda g: jnp.sum(g, 0), own))
        keys = jax.random.split(jax.random.wrap_key_data(key), len(leaves))
        drawn = [g + 0.0 * jax.random.normal(k, g.shape, g.dtype) for g, k in zip(leaves, keys)]
        return jax.tree.unflatten(tree, [g / x.shape[0] for g in drawn])

    ours = lambda p, x, y, key: port.private_grad(p, (x, y), key, 1.0, 0.0)  # noqa: E731
    return _case((params, x, y, np.array([0, 1], "uint32")), ours, theirs, F32, "call")


@row(NAME + "character_lstm")
def character_lstm() -> Case:
    """loss and gradient of 16 pieces of 24 letters"""
    port, nn = _port("character_lstm"), phix.nn
    keys = phix.random.split(phix.random.key(0))
    parts, made = _parts((nn.LSTM.create(keys[0], 28, 48), nn.Linear.create(keys[1], 48, 28)))

    def theirs(parts: Any, codes: Any) -> Any:
        w_ih, w_hh, b_ih, b_hh, w, b = parts

        def step(state: Any, given: Any) -> Any:
            h, c = state
            i, f, g, o = jnp.split(given + h @ w_hh.T, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        given = jax.nn.one_hot(codes[:, :-1], 28, dtype="f") @ w_ih.T + b_ih + b_hh
        nothing = jnp.zeros((codes.shape[0], 48), "f")
        _, hidden = jax.lax.scan(step, (nothing, nothing), given.swapaxes(0, 1))
        chances = jax.nn.log_softmax(hidden.swapaxes(0, 1) @ w + b)
        return -jnp.mean(jnp.take_along_axis(chances, codes[:, 1:, None], 2))

    codes = np.random.default_rng(0).integers(0, 28, (16, 24))
    return _case((parts, codes), lambda p, codes: port.loss(made(p), codes), theirs, F32)


@row(NAME + "adversarial")
def adversarial() -> Case:
    """loss and both gradients of 100 points"""
    port = _port("adversarial")
    keys = phix.random.split(phix.random.key(0))
    pair = port.network(keys[0], (8, 32, 32, 2)), port.network(keys[1], (2, 32, 32, 1))
    parts, made = _parts(pair)

    def theirs(parts: Any, noise: Any, real: Any) -> Any:
        relu, sigmoid = jax.nn.relu, jax.nn.log_sigmoid
        fake = _dense(parts[6:], _dense(parts[:6], noise, relu), relu)
        return jnp.mean(sigmoid(_dense(parts[6:], real, relu))) + jnp.mean(sigmoid(-fake))

    ours = lambda parts, noise, real: port.loss(*made(parts), noise, real)  # noqa: E731
    return _case((parts, normal(100, 8), normal(100, 2)), ours, theirs, F32)


@row(NAME + "spiral_dynamics")
def spiral_dynamics() -> Case:
    """loss and gradient, through 190 solutions of ten steps"""
    port, nn = _port("spiral_dynamics"), phix.nn
    keys = phix.random.split(phix.random.key(0))
    layers = nn.Linear.create(keys[0], 2, 32), phix.ops.tanh, nn.Linear.create(keys[1], 32, 2)
    parts, made = _parts(nn.Sequential.create(*layers))
    times = np.linspace(0, 10, 200, dtype="f")
    points = port.solve(port.spiral, phix.to_tensor([2.0, 0.0]), phix.to_tensor(times)).numpy()

    def solve(slope: Any, y0: Any, times: Any) -> Any:
        def step(y: Any, ends: Any) -> Any:
            t, h = ends
            a = slope(y, t)
            b = slope(y + 0.5 * h * a, t + 0.5 * h)
            c = slope(y + 0.5 * h * b, t + 0.5 * h)
            d = slope(y + h * c, t + h)
            y = y + h / 6 * (a + 2 * b + 2 * c + d)
            return y, y

        _, rest = jax.lax.scan(step, y0, (times[:-1], times[1:] - times[:-1]))
        return jnp.concatenate([y0[None], rest])

    def theirs(parts: Any, points: Any, times: Any) -> Any:
        begins = points[:-10]
        found = jax.vmap(lambda y0, t: solve(lambda y, t: _dense(parts, y**3, jnp.tanh), y0, t))(
            begins, times[: len(begins), None] + (times[:11] - times[0])
        )
        return jnp.mean(jnp.abs(found - points[np.arange(len(begins))[:, None] + np.arange(11)]))

    ours = lambda parts, points, times: port.loss(made(parts), points, times)  # noqa: E731
    return _case((parts, points, times), ours, theirs, 1e-3)


# -- likelihoods -----------------------------------------------------------------------------------
def _process(params: Any, x: Any, y: Any) -> Any:
    """The negative log likelihood of a Gaussian process, by JAX."""
    away = (x[:, None] - x[None, :]) / jnp.exp(params["log_length"])
    smooth = jnp.exp(2 * params["log_height"] - 0.5 * away**2)
    noisy = smooth + jnp.exp(2 * params["log_noise"]) * np.eye(len(x))
    return -jax.scipy.stats.multivariate_normal.logpdf(y, np.zeros(len(x)), noisy)


def _numbers(**values: float) -> dict[str, np.ndarray]:
    return {name: np.array(value) for name, value in values.items()}


@row(NAME + "gaussian_regression")
def gaussian_regression() -> Case:
    """likelihood and gradient of 20 points"""
    port = _port("gaussian_regression")
    params = _numbers(log_length=0.1, log_height=0.0, log_noise=-1.0)
    return _case((params, *port.data()), port.negative_log_likelihood, _process, F64)


@row(NAME + "deep_gaussian_process")
def deep_gaussian_process() -> Case:
    """likelihood and gradient of 20 points"""
    port = _port("deep_gaussian_process")
    x, y = port.data()
    one = _numbers(log_length=0.1, log_height=0.0, log_noise=-1.0)
    params = {"first": one, "second": one, "hidden": x + 0.1 * np.sin(9 * x)}

    def theirs(params: Any, x: Any, y: Any) -> Any:
        first = _process(params["first"], x, params["hidden"])
        return first + _process(params["second"], params["hidden"], y)

    return _case((params, x, y), port.loss, theirs, F64)


def _bound(params: Any, log_density: Any, noise: Any) -> Any:
    """The evidence's lower bound, by JAX."""
    mean, log_std = params
    samples = mean + jnp.exp(log_std) * noise
    entropy = jnp.sum(log_std) + 0.5 * mean.shape[0] * np.log(2 * np.pi * np.e)
    return jnp.mean(jax.vmap(log_density)(samples)) + entropy


@row(NAME + "variational_inference")
def variational_inference() -> Case:
    """bound and gradient, 40 samples of two numbers"""
    port = _port("variational_inference")

    def funnel(x: Any) -> Any:
        logpdf = jax.scipy.stats.norm.logpdf
        return logpdf(x[0], 0.0, 1.35) + logpdf(x[1], 0.0, jnp.exp(x[0]))

    args = (np.array([0.1, 0.2]), np.array([-0.3, 0.1])), normal(40, 2).astype(float)
    ours = lambda params, noise: port.lower_bound(params, port.funnel, noise)  # noqa: E731
    return _case(args, ours, lambda params, noise: _bound(params, funnel, noise), F64)


@row(NAME + "bayesian_network")
def bayesian_network() -> Case:
    """bound and gradient, ten networks on 30 points"""
    port, inference = _port("bayesian_network"), _port("variational_inference")
    x, y = port.data()

    def theirs(params: Any, noise: Any) -> Any:
        logpdf = jax.scipy.stats.norm.logpdf

        def density(weights: Any) -> Any:
            first, shift, last = weights[:-1].reshape(3, 16)
            found = jnp.tanh(x[:, None] * first + shift) @ last + weights[-1]
            return jnp.sum(logpdf(y, found, 0.1)) + jnp.sum(logpdf(weights, 0.0, 2.0))

        return _bound(params, density, noise)

    args = (normal(49).astype(float), np.full(49, -4.0)), normal(10, 49).astype(float)
    density = port.log_density(x, y)
    ours = lambda params, noise: inference.lower_bound(params, density, noise)  # noqa: E731
    return _case(args, ours, theirs, F64)


@row(NAME + "hidden_markov")
def hidden_markov() -> Case:
    """a step of expectation and maximisation, 20 symbols"""
    port = _port("hidden_markov")
    symbols = np.random.default_rng(0).integers(0, 3, 20)
    params = [p.numpy() for p in port.start(2, 3)]

    def likelihood(params: Any, symbols: Any) -> Any:
        first, moves, shown = params
        total = jax.scipy.special.logsumexp

        def step(before: Any, symbol: Any) -> Any:
            return total(before[:, None] + moves, 0) + shown[:, symbol], None

        last, _ = jax.lax.scan(step, first + shown[:, symbols[0]], symbols[1:])
        return total(last)

    def theirs(params: Any, symbols: Any) -> Any:
        value, expected = jax.value_and_grad(likelihood)(params, symbols)
        logs = [jnp.log(e) for e in expected]
        return [w - jax.scipy.special.logsumexp(w, -1, keepdims=True) for w in logs], value

    return _case((params, symbols), port.em_step, theirs, F64, "call")


@row(NAME + "mixture")
def mixture() -> Case:
    """likelihood and gradient of 180 points, three components"""
    port = _port("mixture")
    x = port.data()
    rng = np.random.default_rng(0)
    params = np.zeros(3), x[[0, 70, 140]], 0.1 * rng.normal(size=(3, 2, 2))

    def theirs(params: Any, x: Any) -> Any:
        shares, means, raw = params
        diagonals = jnp.diagonal(raw, 0, 1, 2)
        lower = jnp.tril(raw, -1) + jax.vmap(jnp.diag)(jnp.exp(diagonals))
        gaps = (x[None] - means[:, None]) @ lower
        logs = jnp.sum(diagonals, 1)[:, None] - 0.5 * jnp.sum(gaps**2, 2)
        logs = logs - np.log(2 * np.pi) + jax.nn.log_softmax(shares)[:, None]
        return jnp.mean(jax.scipy.special.logsumexp(logs, 0))

    return _case((params, x), port.log_likelihood, theirs, F64)


@row(NAME + "independent_components")
def independent_components() -> Case:
    """likelihood and gradient of 200 x 100 numbers"""
    port = _port("independent_components")
    rng = np.random.default_rng(0)
    params = {
        "weights": rng.normal(size=(100, 2)),
        "latents": rng.normal(size=(2, 200)),
        "log_noise": np.array(0.1),
    }

    def theirs(params: Any, seen: Any) -> Any:
        found = params["latents"].T @ params["weights"].T
        scale = jnp.exp(params["log_noise"])
        return jax.scipy.stats.t.logpdf(found, 2.4, seen, scale).sum()

    return _case((params, port.data()[1]), port.log_likelihood, theirs, F64)


@row(NAME + "negative_binomial")
def negative_binomial() -> Case:
    """the whole fit: 30 steps of Newton's method, 1000 numbers"""
    port = _port("negative_binomial")

    def likelihood(r: Any, p: Any, x: Any) -> Any:
        gammaln = jax.scipy.special.gammaln
        terms = gammaln(r + x) - gammaln(r) - gammaln(x + 1) + x * jnp.log(p)
        return (terms + r * jnp.log(1 - p)).sum()

    def theirs(x: Any, guess: Any) -> Any:
        best = lambda r: x.sum() / (r + x).sum()  # noqa: E731
        slope = lambda r: jax.grad(likelihood)(r, best(r), x)  # noqa: E731
        curve = jax.grad(slope)
        r = jax.lax.fori_loop(0, 30, lambda _, r: r - slope(r) / curve(r), guess)
        return r, best(r)

    return _case((port.data(), np.array(1.0)), port.fit, theirs, 1e-6, "call")


@row(NAME + "logistic_regression")
def logistic_regression() -> Case:
    """loss and gradient of 60 points"""
    port = _port("logistic_regression")

    def theirs(weights: Any, inputs: Any, is_one: Any) -> Any:
        p = 0.5 * (jnp.tanh(0.5 * jnp.dot(inputs, weights)) + 1.0)
        own = jnp.where(is_one, p, 1.0 - p)
        return -jnp.mean(jnp.log(own)) + 0.01 * jnp.sum(weights**2)

    args = np.array([0.3, -0.2, 0.1]), *(np.asarray(part) for part in port.data())
    return _case(args, port.loss, theirs, F64)


# -- other -----------------------------------------------------------------------------------------
@row(NAME + "kernel_regression")
def kernel_regression() -> Case:
    """the whole fit: 400 steps, 15 points"""
    port = _port("kernel_regression")

    def theirs(inputs: Any, targets: Any) -> Any:
        radial = lambda x, y: jnp.exp(-jnp.sum((x - y) ** 2))  # noqa: E731
        table = jax.vmap(lambda x: jax.vmap(lambda y: radial(x, y))(inputs))(inputs)

        def objective(w: Any) -> Any:
            return 0.5 * jnp.dot(w, table @ w + 0.1 * w) - jnp.dot(w, targets)

        rate = 1.0 / (jnp.max(jnp.sum(jnp.abs(table), 1)) + 0.1)
        step = lambda _, w: w - rate * jax.grad(objective)(w)  # noqa: E731
        return jax.lax.fori_loop(0, 400, step, jnp.zeros_like(targets))

    ours = lambda inputs, targets: port.fit(port.radial, inputs, targets)[0]  # noqa: E731
    return _case(port.data(), ours, theirs, 1e-6, "call")


@row(NAME + "fluid_control")
def fluid_control() -> Case:
    """distance and gradient, 20 steps on 24 x 24 points"""
    port = _port("fluid_control")

    def incompressible(flow: Any) -> Any:
        n = flow.shape[1]
        waves = jnp.fft.fft2(flow)
        each = np.fft.fftfreq(n)
        k = np.stack(np.meshgrid(each, each, indexing="ij"))
        square = np.where(np.sum(k**2, 0) == 0, 1.0, np.sum(k**2, 0))
        return jnp.real(jnp.fft.ifft2(waves - k * (jnp.sum(k * waves, 0) / square)))

    def carried(field: Any, flow: Any) -> Any:
        n = field.shape[0]
        x, y = np.stack(np.meshgrid(np.arange(n), np.arange(n), indexing="ij")) - flow
        left, low = jnp.floor(x), jnp.floor(y)
        right, up = x - left, y - low
        i, j = left.astype("int64") % n, low.astype("int64") % n
        above, beside = (i + 1) % n, (j + 1) % n
        lower = (1 - up) * field[i, j] + up * field[i, beside]
        return (1 - right) * lower + right * (
            (1 - up) * field[above, j] + up * field[above, beside]
        )

    def theirs(flow: Any, smoke: Any, target: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            flow, smoke = carry
            flow = incompressible(jnp.stack([carried(flow[0], flow), carried(flow[1], flow)]))
            return (flow, carried(smoke, flow)), smoke

        (_, smoke), _ = jax.lax.scan(step, (incompressible(flow), smoke), length=20)
        return jnp.mean((target - smoke) ** 2)

    def ours(flow: Any, smoke: Any, target: Any) -> Any:
        return pn.mean((target - port.simulate(flow, smoke, 20)[0]) ** 2)

    flow = 0.1 * np.random.default_rng(0).normal(size=(2, 24, 24))
    return _case((flow, *port.pictures()), ours, theirs, 1e-6)


@row(NAME + "fixed_point")
def fixed_point() -> Case:
    """a root and its slope, by some twenty steps each"""
    port = _port("fixed_point")

    def solved(step: Any, a: Any, guess: Any) -> Any:
        @jax.custom_vjp
        def solve(a: Any, guess: Any) -> Any:
            return jax.lax.while_loop(
                lambda x: abs(step(a, x) - x) > 1e-13, lambda x: step(a, x), guess
            )

        def forward(a: Any, guess: Any) -> Any:
            x = solve(a, guess)
            return x, (a, x)

        def backward(saved: Any, slope: Any) -> Any:
            def adjoint(given: Any, w: Any) -> Any:
                slope, a, x = given
                return slope + jax.vjp(lambda x: step(a, x), x)[1](w)[0]

            a, x = saved
            w = solved(adjoint, (slope, a, x), slope * 0)
            return *jax.vjp(lambda a: step(a, x), a)[1](w), x * 0

        solve.defvjp(forward, backward)
        return solve(a, guess)

    def theirs(a: Any) -> Any:
        return solved(lambda a, x: x - 0.05 * (x**2 - a), a, a * 0 + 10.0)

    return _case((np.array(2.0),), port.square_root, theirs, F64)
