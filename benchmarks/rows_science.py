"""Models of examples/ from the sciences: the example's own functions, beside JAX and torch."""

from __future__ import annotations

import importlib
from itertools import pairwise
from typing import Any

import numpy as np

import phix
from benchmarks.harness import Case, normal, row
from benchmarks.peers import F, jax, jet, jnp, torch
from benchmarks.rows_models import example
from phix import nn, ops

Layers = list[tuple[np.ndarray, np.ndarray]]


def dense(*sizes: int) -> Layers:
    """Weights and biases."""
    return [(normal(a, b, scale=a**-0.5), normal(b, seed=1, scale=0.1)) for a, b in pairwise(sizes)]


def through(layers: Any, x: Any, tanh: Any) -> Any:
    """Linear layers with tanh between them."""
    for weight, bias in layers[:-1]:
        x = tanh(x @ weight + bias)
    return x @ layers[-1][0] + layers[-1][1]


# -- pinns.py: fourth derivatives in two variables -------------------------------------------------
def cavity_phix(layers: Any, x: Any) -> Any:
    pinns = example("pinns")
    return pinns.PROBLEMS["cavity"].loss(lambda x: through(layers, x, ops.tanh), x)


def _stream(layers: Any, x: Any, tanh: Any) -> Any:
    a, b = x[:, 0], x[:, 1]
    known = 16.0 * (a * (1.0 - a) * b) ** 2 * (b - 1.0)
    bubble = 16.0 * (a * (1.0 - a) * b * (1.0 - b)) ** 2
    return known + bubble * through(layers, x, tanh)[:, 0]


def cavity_jax(layers: Any, x: Any) -> Any:
    """By Taylor mode, as in the example."""

    def along(*direction: float) -> Any:
        zero = jnp.zeros_like(x)
        series = (jnp.broadcast_to(jnp.array(direction, x.dtype), x.shape), zero, zero, zero)
        return jet.jet(lambda x: _stream(layers, x, jnp.tanh), (x,), (series,))[1]

    p_x, _, p_xxx, p_xxxx = along(1.0, 0.0)
    p_y, _, p_yyy, p_yyyy = along(0.0, 1.0)
    up3, up4 = along(1.0, 1.0)[2:]
    down3, down4 = along(1.0, -1.0)[2:]
    w_x = -(p_xxx + (up3 + down3 - 2.0 * p_xxx) / 6.0)
    w_y = -(p_yyy + (up3 - down3 - 2.0 * p_yyy) / 6.0)
    spread = -((p_xxxx + p_yyyy) * (2.0 / 3.0) + (up4 + down4) / 6.0)
    return ((p_y * w_x - p_x * w_y - spread / 50.0) ** 2).mean()


def cavity_torch(layers: Any, x: Any) -> Any:
    """By gradients of gradients, as torch has no Taylor mode."""
    x = x.requires_grad_()

    def slopes(u: Any) -> Any:
        return torch.autograd.grad(u.sum(), x, create_graph=True)[0].T

    def laplacian(u: Any) -> Any:
        return sum(slopes(s)[n] for n, s in enumerate(slopes(u)))

    p = _stream(layers, x, torch.tanh)
    w = -laplacian(p)
    (p_x, p_y), (w_x, w_y) = slopes(p), slopes(w)
    return ((p_y * w_x - p_x * w_y - laplacian(w) / 50.0) ** 2).mean()


@row("model: cavity flow 2-20-20-20-1, 600 points: loss and gradient")
def cavity() -> Case:
    points = np.random.default_rng(0).uniform(0, 1, (600, 2)).astype("f")
    functions = {"phix": cavity_phix, "jax": cavity_jax, "torch": cavity_torch}
    args = (dense(2, 20, 20, 20, 1), points)
    return Case(args, functions, mode="value_and_grad", tolerance=2e-3)


# -- pinns.py: second derivatives, beside nested gradients ---------------------------------------
def _of_laplace(x: Any, net: Any, xp: Any) -> Any:
    a, b = x[..., 0], x[..., 1]
    return b * xp.sin(np.pi * a) + a * (1.0 - a) * b * (1.0 - b) * net


def _of_burgers(x: Any, net: Any, xp: Any) -> Any:
    t, a = x[..., 0], x[..., 1]
    return -xp.sin(np.pi * a) + t * (1.0 - a * a) * net


_SOLUTIONS = {"laplace": _of_laplace, "burgers": _of_burgers}


def _residual(problem: str, u: Any, slopes: Any, curves: Any) -> Any:
    if problem == "laplace":
        return curves[0] + curves[1]
    return slopes[0] + u * slopes[1] - 0.05 / np.pi * curves[1]


def equation_phix(problem: str) -> Any:
    def loss(layers: Any, x: Any) -> Any:
        problems = example("pinns").PROBLEMS
        return problems[problem].loss(lambda x: through(layers, x, ops.tanh), x)

    return loss


def equation_jax(problem: str) -> Any:
    def loss(layers: Any, x: Any) -> Any:
        def u(at: Any) -> Any:
            return _SOLUTIONS[problem](at, through(layers, at, jnp.tanh)[0], jnp)

        def residual(at: Any) -> Any:
            return _residual(problem, u(at), jax.grad(u)(at), jnp.diag(jax.hessian(u)(at)))

        return (jax.vmap(residual)(x) ** 2).mean()

    return loss


def equation_torch(problem: str) -> Any:
    def loss(layers: Any, x: Any) -> Any:
        x = x.requires_grad_()

        def slopes(u: Any) -> Any:
            return torch.autograd.grad(u.sum(), x, create_graph=True)[0].T

        u = _SOLUTIONS[problem](x, through(layers, x, torch.tanh)[:, 0], torch)
        first = slopes(u)
        second = [slopes(s)[n] for n, s in enumerate(first)]
        return (_residual(problem, u, first, second) ** 2).mean()

    return loss


for _name in _SOLUTIONS:

    @row(f"model: {_name} 2-20-20-20-1, 600 points: loss and gradient")
    def equation(name: str = _name) -> Case:
        points = np.random.default_rng(0).uniform(0, 1, (600, 2)).astype("f")
        functions = {
            "phix": equation_phix(name),
            "jax": equation_jax(name),
            "torch": equation_torch(name),
        }
        args = (dense(2, 20, 20, 20, 1), points)
        return Case(args, functions, mode="value_and_grad", tolerance=2e-3)


# -- neural_ode.py: adaptive steps, and the adjoint equation ---------------------------------------
def _field(y: Any, layers: Any, tanh: Any) -> Any:
    return through(layers, y**3, tanh)


def ode_phix(layers: Any, y0: Any) -> Any:
    def right(y: Any, t: Any, layers: Any) -> Any:
        return _field(y, layers, ops.tanh)

    t0, t1 = phix.to_tensor(0.0), phix.to_tensor(2.0)
    return ops.mean(example("neural_ode").solve(right, y0, t0, t1, layers, 1e-5) ** 2)


def ode_jax(layers: Any, y0: Any) -> Any:
    odeint = importlib.import_module("jax.experimental.ode").odeint
    times, tolerance = jnp.array([0.0, 2.0]), {"rtol": 1e-5, "atol": 1e-5}
    y = odeint(lambda y, t, p: _field(y, p, jnp.tanh), y0, times, layers, **tolerance)
    return (y[-1] ** 2).mean()


@row("model: neural ODE, 32 points, Dormand-Prince and adjoint: with gradient")
def neural_ode() -> Case:
    args = (dense(2, 50, 2), normal(32, 2, scale=0.5))
    functions = {"phix": ode_phix, "jax": ode_jax}
    return Case(args, functions, mode="value_and_grad", tolerance=2e-3)


# -- deeponet.py -----------------------------------------------------------------------------------
def deeponet_phix(p: Any, values: Any, x: Any, exact: Any) -> Any:
    def network(layers: Any) -> nn.Sequential:
        parts = [part for layer in layers for part in (nn.Linear(*layer), ops.tanh)]
        return nn.Sequential.create(*parts[:-1])

    net = example("deeponet").DeepONet(network(p["branch"]), network(p["trunk"]), p["offset"])
    return ops.mean((net(values, x) - exact) ** 2)


def _deeponet(tanh: Any) -> Any:
    def loss(p: Any, values: Any, x: Any, exact: Any) -> Any:
        branch, trunk = through(p["branch"], values, tanh), through(p["trunk"], x[:, None], tanh)
        return ((branch @ trunk.T + p["offset"] - exact) ** 2).mean()

    return loss


@row("model: DeepONet, 64 functions at 64 places: train step")
def deeponet() -> Case:
    params = {"branch": dense(32, 40, 40, 40), "trunk": dense(1, 40, 40, 40)}
    params |= {"offset": np.zeros([], np.float32)}  # type: ignore[dict-item]
    functions = {"phix": deeponet_phix, "jax": lambda *a: _deeponet(jnp.tanh)(*a)}
    functions |= {"torch": lambda *a: _deeponet(torch.tanh)(*a)}
    args = (params, normal(64, 32), normal(64), normal(64, 64, seed=1))
    return Case(args, functions, mode="sgd", tolerance=1e-4)


# -- vae.py ----------------------------------------------------------------------------------------
def vae_phix(p: Any, images: Any, noise: Any) -> Any:
    module = example("vae")
    return module.loss(module.VAE(*(nn.Linear(*layer) for layer in p)), images, noise)


def _vae(xp: Any, softplus: Any) -> Any:
    def loss(p: Any, images: Any, noise: Any) -> Any:
        h = xp.tanh(images @ p[0][0] + p[0][1])
        mean, log_deviation = (h @ w + b for w, b in p[1:3])
        z = mean + xp.exp(log_deviation) * noise
        logits = through(p[3:], z, xp.tanh)
        cost = (softplus(logits) - images * logits).sum(-1)
        each = mean * mean + xp.exp(2.0 * log_deviation) - 1.0 - 2.0 * log_deviation
        return (cost + 0.5 * each.sum(-1)).mean()

    return loss


@row("model: VAE 64-128-2-128-64, 64 images: train step")
def vae() -> Case:
    sizes = [(64, 128), (128, 2), (128, 2), (2, 128), (128, 64)]
    params = [layer for size in sizes for layer in dense(*size)]
    functions = {"phix": vae_phix, "jax": lambda *a: _vae(jnp, jax.nn.softplus)(*a)}
    functions |= {"torch": lambda *a: _vae(torch, F.softplus)(*a)}
    images = np.random.default_rng(0).uniform(0, 1, (64, 64)).astype("f")
    return Case((params, images, normal(64, 2)), functions, mode="sgd", tolerance=1e-4)


# -- hmc.py: keys give the same numbers in JAX -----------------------------------------------------
def hmc_phix(key: Any, design: Any, y: Any) -> Any:
    module = example("hmc")
    problem = module.Regression(design, y)
    points, moved = module.chains(problem.log_p, key, ops.full([64, 2], 0.0), 200)
    return ops.mean(points, [0, 1]), ops.mean(moved)


def hmc_jax(key: Any, design: Any, y: Any) -> Any:
    def log_p(w: Any) -> Any:
        return -0.5 * (4.0 * ((y - design @ w) ** 2).sum() + (w * w).sum())

    def energy(x: Any, p: Any) -> Any:
        return 0.5 * (p * p).sum() - log_p(x)

    def step(x: Any, key: Any) -> Any:
        first, second = jax.random.split(key)
        momentum, slope = jax.random.normal(first, x.shape), jax.grad(log_p)

        def leap(_: Any, state: Any) -> Any:
            x = state[0] + 0.2 * state[1]
            return x, state[1] + 0.2 * slope(x)

        end, p = jax.lax.fori_loop(0, 8, leap, (x, momentum + 0.1 * slope(x)))
        gained = energy(x, momentum) - energy(end, p - 0.1 * slope(end))
        is_taken = jnp.log(jax.random.uniform(second)) < gained
        x = jnp.where(is_taken, end, x)
        return x, (x, is_taken)

    def chain(key: Any) -> Any:
        return jax.lax.scan(step, jnp.zeros(2), jax.random.split(key, 200))[1]

    points, moved = jax.vmap(chain)(jax.random.split(key, 64))
    return points.mean((0, 1)), moved.mean()


@row("model: HMC, 64 chains of 200 steps, 8 leaps each")
def hmc() -> Case:
    problem = example("hmc").regression()
    args = (np.array([0, 7], np.uint32), problem.design.astype("f"), problem.y.astype("f"))
    return Case(args, {"phix": hmc_phix, "jax": hmc_jax}, tolerance=1e-2)


# -- gaussian_process.py ---------------------------------------------------------------------------
def likelihood_phix(at: Any, x: Any, y: Any) -> Any:
    module = example("gaussian_process")
    return module.log_likelihood(module.Settings(*at), x, y)


def _likelihood(xp: Any, cholesky: Any, solve: Any) -> Any:
    def log_likelihood(at: Any, x: Any, y: Any) -> Any:
        size, length, noise = at
        apart = (x[:, None] - x[None, :]) * xp.exp(-length)
        full = xp.exp(2.0 * size) * xp.exp(-0.5 * apart * apart)
        lower = cholesky(full + (xp.exp(2.0 * noise) + 1e-10) * xp.eye(len(x)))
        white = solve(lower, y[:, None])
        log_det = 2.0 * xp.log(xp.diagonal(lower)).sum()
        return -0.5 * ((white * white).sum() + log_det + len(x) * np.log(2.0 * np.pi))

    return log_likelihood


def likelihood_jax(at: Any, x: Any, y: Any) -> Any:
    solve = importlib.import_module("jax.scipy.linalg").solve_triangular
    with_lower = lambda a, b: solve(a, b, lower=True)  # noqa: E731
    return _likelihood(jnp, jnp.linalg.cholesky, with_lower)(at, x, y)


def likelihood_torch(at: Any, x: Any, y: Any) -> Any:
    solve = lambda a, b: torch.linalg.solve_triangular(a, b, upper=False)  # noqa: E731
    return _likelihood(torch, torch.linalg.cholesky, solve)(at, x, y)


@row("model: Gaussian process, likelihood of 300 points: with gradient")
def gaussian_process() -> Case:
    x = np.linspace(0, 10, 300, dtype="f")
    at = tuple(np.array(v, np.float32) for v in (0.1, -0.2, -1.0))
    y = (np.sin(1.5 * x) + normal(300, scale=0.3)).astype("f")
    functions = {"phix": likelihood_phix, "jax": likelihood_jax, "torch": likelihood_torch}
    return Case((at, x, y), functions, mode="value_and_grad", tolerance=1e-2)


# -- graph_network.py ------------------------------------------------------------------------------
def graph_phix(p: Any, nodes: Any, start: Any, end: Any) -> Any:
    module = example("graph_network")
    rounds = tuple(
        module.Round(nn.Linear(*r["message"]), nn.Linear(*r["own"]), nn.Linear(r["heard"]))
        for r in p["rounds"]
    )
    net = module.GraphNetwork(rounds, nn.Linear(*p["out"]))
    return ops.mean(net(module.Graph(nodes, start, end)) ** 2)


def _graph(xp: Any, relu: Any, sums: Any) -> Any:
    def loss(p: Any, x: Any, start: Any, end: Any) -> Any:
        count = x.shape[0]
        for r in p["rounds"]:
            both = xp.concatenate([x[start], x[end]], 1)
            total = sums(relu(both @ r["message"][0] + r["message"][1]), end, count)
            degree = sums(xp.ones(len(end)), end, count)
            mean = total / xp.clip(degree, 1.0)[:, None]
            heard = xp.concatenate([total, mean], 1) @ r["heard"]
            x = relu(x @ r["own"][0] + r["own"][1] + heard)
        return ((x @ p["out"][0] + p["out"][1]) ** 2).mean()

    return loss


def graph_jax(*args: Any) -> Any:
    return _graph(jnp, jax.nn.relu, lambda x, at, n: jax.ops.segment_sum(x, at, n))(*args)


def graph_torch(*args: Any) -> Any:
    def sums(x: Any, at: Any, n: int) -> Any:
        return torch.zeros(n, *x.shape[1:]).index_add(0, at, x)

    return _graph(torch, F.relu, sums)(*args)


@row("model: graph network, 2000 nodes, 20000 edges: train step")
def graph_network() -> Case:
    size, rng = 32, np.random.default_rng(0)
    rounds = [
        {"message": dense(2 * a, size)[0], "own": dense(a, size)[0],
         "heard": normal(2 * size, size, scale=0.1)}
        for a in (1, size)
    ]  # fmt: skip
    start, end = rng.integers(0, 2000, (2, 20000))
    functions = {"phix": graph_phix, "jax": graph_jax, "torch": graph_torch}
    args = ({"rounds": rounds, "out": dense(size, 1)[0]}, normal(2000, 1), start, end)
    return Case(args, functions, mode="sgd", tolerance=1e-4)
