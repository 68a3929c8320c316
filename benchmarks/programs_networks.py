"""Programs of networks: layers, losses and their derivatives of first and higher order.

Each function says where the program is known from; sizes are tokens, steps, points or nodes.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from benchmarks.published import Library, program

KEY = np.array([0, 7], np.uint32)


def draws(seed: int, *shape: int, scale: float = 1.0) -> np.ndarray:
    """Normal numbers in float32."""
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype("float32")


def dense(seed: int, *sizes: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights and biases of layers."""
    pairs = itertools.pairwise(sizes)
    return [
        (draws(seed + k, a, b, scale=a**-0.5), np.zeros(b, np.float32))
        for k, (a, b) in enumerate(pairs)
    ]


def one_hot(lib: Library, classes: Any, count: int) -> Any:
    """1 at the class, along a new last axis."""
    return (classes[..., None] == lib.np.arange(count)).astype("float32")


def through(layers: Any, h: Any, activation: Any) -> Any:
    """A network of dense layers; the last one is affine."""
    *inner, (last, shift) = layers
    for weight, bias in inner:
        h = activation(h @ weight + bias)
    return h @ last + shift


def stopped(lib: Library) -> Any:
    """The function that keeps derivatives from its argument."""
    return lib.fx.stop_gradient if lib.name == "phix" else lib.lax.stop_gradient


@program("rotary attention: grouped queries, with gradient", 128, 17, 512)
def rotary_attention(lib: Library, n: int) -> Any:
    """Su et al. 2021 and Ainslie et al. 2023: 8 heads of 32, 2 of keys, causal."""
    x = lib.np

    def rotated(h: Any) -> Any:
        at = x.arange(n, dtype="float32")[:, None] * 10000.0 ** (-np.arange(16, dtype="f") / 16.0)
        cos, sin = x.cos(at)[:, None, :], x.sin(at)[:, None, :]
        even, odd = h[..., ::2], h[..., 1::2]
        return x.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1).reshape(h.shape)

    def loss(weights: Any, h: Any) -> Any:
        queries = rotated((h @ weights["q"]).reshape(n, 8, 32)).reshape(n, 2, 4, 32)
        keys = rotated((h @ weights["k"]).reshape(n, 2, 32))
        values = (h @ weights["v"]).reshape(n, 2, 32)
        scores = x.einsum("ighd,jgd->ghij", queries, keys) / np.float32(np.sqrt(32.0))
        scores = x.where(x.tril(x.ones((n, n), dtype="bool")), scores, -1e9)
        heard = x.einsum("ghij,jgd->ighd", lib.nn.softmax(scores, axis=-1), values)
        return x.mean((heard.reshape(n, 256) @ weights["o"] - h) ** 2)

    sizes = {"q": (256, 256), "k": (256, 64), "v": (256, 64), "o": (256, 256)}
    weights = {name: draws(k, *s, scale=1 / 16) for k, (name, s) in enumerate(sizes.items())}
    return lib.fx.value_and_grad(loss), (weights, draws(9, n, 256))


@program("mamba: selective scan, with gradient", 64, 7, 256)
def mamba(lib: Library, n: int) -> Any:
    """Gu and Dao 2023, algorithm 2: n steps of 4 x 32 channels with 16 states each."""
    x = lib.np

    def loss(weights: Any, u: Any) -> Any:
        pace = lib.nn.softplus(u @ weights["pace"])
        into, out = u @ weights["into"], u @ weights["out"]
        rates = -x.exp(weights["rates"])

        def step(state: Any, inputs: Any) -> Any:
            u, pace, into, out = inputs
            keep = x.exp(pace[..., None] * rates)
            state = keep * state + (pace * u)[..., None] * into[:, None, :]
            return state, x.sum(state * out[:, None, :], axis=-1)

        start = x.zeros((4, 32, 16), dtype="float32")
        _, y = lib.lax.scan(step, start, (u, pace, into, out))
        return x.mean((y + weights["skip"] * u) ** 2)

    weights = {
        "pace": draws(0, 32, 32, scale=0.2),
        "into": draws(1, 32, 16, scale=0.2),
        "out": draws(2, 32, 16, scale=0.2),
        "rates": np.tile(np.log(np.arange(1, 17, dtype="float32")), (32, 1)),
        "skip": np.ones(32, np.float32),
    }
    return lib.fx.value_and_grad(loss), (weights, draws(3, n, 4, 32))


@program("s4d: convolution by FFT, with gradient", 1024, 31, 4096, tolerance=1e-4)
def s4d(lib: Library, n: int) -> Any:
    """Gu et al. 2022, "On the parameterization of diagonal state space models": 16 channels."""
    x = lib.np

    def loss(weights: Any, u: Any) -> Any:
        rates = -x.exp(weights["decay"]) + 1j * weights["turn"]
        steps = x.exp(weights["pace"])[:, None] * rates
        heights = (weights["real"] + 1j * weights["imag"]) * (x.exp(steps) - 1.0) / rates
        powers = x.exp(steps[:, :, None] * x.arange(n, dtype="float32"))
        kernel = 2.0 * x.real(x.einsum("cn,cnl->cl", heights, powers))
        mixed = x.fft.rfft(kernel, n=2 * n) * x.fft.rfft(u, n=2 * n)
        y = x.fft.irfft(mixed, n=2 * n)[..., :n]
        return x.mean(lib.nn.gelu(y + u * weights["skip"][:, None], approximate=True) ** 2)

    weights = {
        "decay": np.full((16, 16), np.log(0.5), np.float32),
        "turn": np.tile(np.pi * np.arange(16, dtype="float32"), (16, 1)),
        "pace": np.linspace(-6.9, -2.3, 16, dtype="float32"),
        "real": draws(0, 16, 16),
        "imag": draws(1, 16, 16),
        "skip": draws(2, 16),
    }
    return lib.fx.value_and_grad(loss), (weights, draws(3, 2, 16, n))


@program("graph attention: two layers, with gradient", 2708, 5, 10007)
def graph_attention(lib: Library, n: int) -> Any:
    """Velickovic et al. 2018, on a graph of Cora's size: 4 heads of 8, then 7 classes."""
    x = lib.np

    def layer(h: Any, weight: Any, to_source: Any, to_target: Any, source: Any, target: Any) -> Any:
        h = x.einsum("ni,iko->nko", h, weight)
        scores = x.sum(h * to_source, -1)[source] + x.sum(h * to_target, -1)[target]
        scores = lib.nn.leaky_relu(scores, 0.2)
        top = x.full((n, scores.shape[1]), -np.inf, dtype="float32").at[target].max(scores)
        shares = x.exp(scores - stopped(lib)(top)[target])
        total = x.zeros((n, scores.shape[1]), dtype="float32").at[target].add(shares)
        messages = (shares / total[target])[:, :, None] * h[source]
        return x.zeros(h.shape, dtype="float32").at[target].add(messages)

    def loss(weights: Any, h: Any, source: Any, target: Any, classes: Any) -> Any:
        h = lib.nn.elu(layer(h, *weights[0], source, target)).reshape(n, 32)
        h = x.mean(layer(h, *weights[1], source, target), axis=1)
        return -x.mean(lib.nn.log_softmax(h)[x.arange(n), classes])

    rng = np.random.default_rng(0)
    ends = rng.integers(0, n, (2, 4 * n))
    source, target = np.concatenate([ends, np.tile(np.arange(n), (2, 1))], axis=1)
    weights = [
        (draws(0, 32, 4, 8, scale=0.2), draws(1, 4, 8, scale=0.2), draws(2, 4, 8, scale=0.2)),
        (draws(3, 32, 1, 7, scale=0.2), draws(4, 1, 7, scale=0.2), draws(5, 1, 7, scale=0.2)),
    ]
    args = (weights, draws(6, n, 32), source, target, rng.integers(0, 7, n))
    return lib.fx.value_and_grad(loss), args


@program("capsules: routing by agreement, with gradient", 8, 1, 32)
def capsules(lib: Library, n: int) -> Any:
    """Sabour, Frosst and Hinton 2017: n images, 288 capsules of 8 to 10 of 16, 3 rounds."""
    x = lib.np

    def squash(s: Any) -> Any:
        square = x.sum(s * s, axis=-1, keepdims=True)
        return square / (1.0 + square) * s / x.sqrt(square + 1e-8)

    def loss(weight: Any, capsules: Any, classes: Any) -> Any:
        votes = x.einsum("bid,ijde->bije", capsules, weight)
        logits = x.zeros((n, 288, 10), dtype="float32")
        for _ in range(3):
            v = squash(x.einsum("bij,bije->bje", lib.nn.softmax(logits, axis=2), votes))
            logits = logits + x.einsum("bije,bje->bij", votes, v)
        length = x.sqrt(x.sum(v * v, axis=-1) + 1e-8)
        wanted = one_hot(lib, classes, 10)
        near, far = lib.nn.relu(0.9 - length) ** 2, lib.nn.relu(length - 0.1) ** 2
        return x.mean(x.sum(wanted * near + 0.5 * (1.0 - wanted) * far, axis=1))

    classes = np.random.default_rng(0).integers(0, 10, n)
    return lib.fx.value_and_grad(loss), (draws(0, 288, 10, 8, 16, scale=0.1),
                                         draws(1, n, 288, 8, scale=0.3), classes)  # fmt: skip


@program("realnvp: likelihood of a flow, with gradient", 256, 3, 2000)
def realnvp(lib: Library, n: int) -> Any:
    """Dinh, Sohl-Dickstein and Bengio 2017, on points in a plane: 6 couplings of 2-32-32-2."""
    x = lib.np

    def loss(flow: Any, points: Any) -> Any:
        log_det = x.zeros(n, dtype="float32")
        for k, (scales, shifts) in enumerate(flow):
            kept, moved = points[:, k % 2 : k % 2 + 1], points[:, 1 - k % 2 : 2 - k % 2]
            scale = x.tanh(through(scales, kept, lib.nn.relu))
            moved = moved * x.exp(scale) + through(shifts, kept, lib.nn.relu)
            points = x.concatenate([kept, moved] if k % 2 == 0 else [moved, kept], axis=1)
            log_det = log_det + scale[:, 0]
        return x.mean(0.5 * x.sum(points * points, axis=1) - log_det) + np.log(2.0 * np.pi)

    flow = [(dense(10 * k, 1, 32, 32, 1), dense(10 * k + 5, 1, 32, 32, 1)) for k in range(6)]
    return lib.fx.value_and_grad(loss), (flow, draws(99, n, 2))


@program("sliced score matching: gradient", 128, 5, 1024)
def sliced_scores(lib: Library, n: int) -> Any:
    """Song et al. 2019, equation 8: the scores of n points in 10 dimensions, by a network."""
    x = lib.np

    def loss(layers: Any, points: Any, directions: Any) -> Any:
        def of_one(point: Any, v: Any) -> Any:
            score, slope = lib.fx.jvp(lambda p: through(layers, p, lib.nn.softplus), (point,), (v,))
            return v @ slope + 0.5 * (score @ v) ** 2

        return x.mean(lib.fx.vmap(of_one)(points, directions))

    return lib.fx.value_and_grad(loss), (dense(0, 10, 64, 64, 10), draws(1, n, 10), draws(2, n, 10))


@program("radiance field: rendering of rays, with gradient", 32, 1, 128)
def radiance_field(lib: Library, n: int) -> Any:
    """Mildenhall et al. 2020: n rays of 32 samples, encoded by 6 octaves, 4 layers of 64."""
    x = lib.np

    def encoded(p: Any) -> Any:
        angles = p[..., None] * 2.0 ** np.arange(6, dtype="float32")
        waves = x.concatenate([x.sin(angles), x.cos(angles)], axis=-1)
        return x.concatenate([p, waves.reshape(*p.shape[:-1], 36)], axis=-1)

    def loss(layers: Any, starts: Any, directions: Any, key: Any, colours: Any) -> Any:
        edges = x.linspace(2.0, 6.0, 33, dtype="float32")
        depth = edges[:-1] + lib.random.uniform(key, (n, 32), "float32") * 0.125
        points = starts[:, None, :] + depth[..., None] * directions[:, None, :]
        raw = through(layers, encoded(points), lib.nn.relu)
        gaps = x.concatenate([x.diff(depth, axis=1), x.full((n, 1), 1e10, dtype="float32")], axis=1)
        opaque = 1.0 - x.exp(-lib.nn.relu(raw[..., 3]) * gaps)
        clear = x.cumprod(1.0 - opaque + 1e-10, axis=1)
        clear = x.concatenate([x.ones((n, 1), dtype="float32"), clear[:, :-1]], axis=1)
        seen = x.sum((opaque * clear)[..., None] * lib.nn.sigmoid(raw[..., :3]), axis=1)
        return x.mean((seen - colours) ** 2)

    layers = dense(0, 39, 64, 64, 64, 4)
    colours = np.random.default_rng(0).uniform(size=(n, 3)).astype("float32")
    return lib.fx.value_and_grad(loss), (layers, draws(5, n, 3), draws(6, n, 3), KEY, colours)


@program("switch: a mixture of experts, with gradient", 256, 13, 1024)
def switch_experts(lib: Library, n: int) -> Any:
    """Fedus, Zoph and Shazeer 2021, figure 15: 8 experts 64-128-64, places by cumulative sums."""
    x = lib.np
    capacity = max(1, n // 6)

    def loss(weights: Any, h: Any) -> Any:
        shares = lib.nn.softmax(h @ weights["route"], axis=-1)
        chosen = one_hot(lib, x.argmax(shares, axis=-1), 8)
        balance = 8.0 * x.sum(x.mean(chosen, axis=0) * x.mean(shares, axis=0))
        place = (x.cumsum(chosen, axis=0) - 1.0) * chosen
        chosen = chosen * (place < capacity)
        slots = one_hot(lib, x.sum(place, axis=1), capacity)
        sent = chosen[:, :, None] * slots[:, None, :]
        inputs = x.einsum("nec,nd->ecd", sent, h)
        inner = lib.nn.relu(x.einsum("ecd,edf->ecf", inputs, weights["up"]))
        outputs = x.einsum("ecf,efd->ecd", inner, weights["down"])
        gate = x.sum(shares * chosen, axis=1)
        y = h + gate[:, None] * x.einsum("nec,ecd->nd", sent, outputs)
        return x.mean(y * y) + 0.01 * balance

    weights = {
        "route": draws(0, 64, 8, scale=0.2),
        "up": draws(1, 8, 64, 128, scale=0.1),
        "down": draws(2, 8, 128, 64, scale=0.1),
    }
    return lib.fx.value_and_grad(loss), (weights, draws(3, n, 64))


@program("wavenet: dilated convolutions, with gradient", 512, 101, 2048)
def wavenet(lib: Library, n: int) -> Any:
    """Van den Oord et al. 2016: 8 gated layers of 24 channels, dilated by 1, 2, 4, ..., 128."""
    x = lib.np

    def delayed(h: Any, steps: int) -> Any:
        return x.pad(h, ((0, 0), (steps, 0), (0, 0)))[:, :n]

    def loss(weights: Any, classes: Any) -> Any:
        h, skips = weights["embed"][classes], 0.0
        for k, (now, before, out) in enumerate(weights["layers"]):
            both = h @ now + delayed(h, 2**k) @ before
            gated = x.tanh(both[..., :24]) * lib.nn.sigmoid(both[..., 24:])
            skips = skips + gated @ out[:, :24]
            h = h + gated @ out[:, 24:]
        logits = lib.nn.relu(skips) @ weights["out"]
        logs = lib.nn.log_softmax(logits[:, :-1], axis=-1)
        return -x.mean(x.take_along_axis(logs, classes[:, 1:, None], axis=-1))

    layers = [tuple(draws(3 * k + j, 24, 48, scale=0.2) for j in range(3)) for k in range(8)]
    weights = {"embed": draws(90, 64, 24), "layers": layers, "out": draws(91, 24, 64, scale=0.2)}
    classes = np.random.default_rng(0).integers(0, 64, (2, n))
    return lib.fx.value_and_grad(loss), (weights, classes)


@program("maml: a step of the outer loop", 25, 1, 100)
def maml(lib: Library, n: int) -> Any:
    """Finn, Abbeel and Levine 2017, waves: n tasks of 10 points, one inner step, 1-40-40-1."""
    x = lib.np

    def loss(layers: Any, a: Any, y: Any) -> Any:
        return x.mean((through(layers, a, lib.nn.relu) - y) ** 2)

    def after_a_step(layers: Any, a: Any, y: Any, later_a: Any, later_y: Any) -> Any:
        slopes = lib.fx.grad(loss)(layers, a, y)
        layers = lib.fx.tree.map(lambda p, g: p - 0.01 * g, layers, slopes)
        return loss(layers, later_a, later_y)

    def outer(layers: Any, *tasks: Any) -> Any:
        return x.mean(lib.fx.vmap(after_a_step, in_axes=(None, 0, 0, 0, 0))(layers, *tasks))

    def step(layers: Any, *tasks: Any) -> Any:
        value, slopes = lib.fx.value_and_grad(outer)(layers, *tasks)
        return value, lib.fx.tree.map(lambda p, g: p - 0.001 * g, layers, slopes)

    rng = np.random.default_rng(0)
    height, phase = rng.uniform(0.1, 5.0, (n, 1, 1)), rng.uniform(0.0, np.pi, (n, 1, 1))
    a, later = rng.uniform(-5.0, 5.0, (2, n, 10, 1))
    tasks = (a, height * np.sin(a + phase), later, height * np.sin(later + phase))
    return step, (dense(0, 1, 40, 40, 1), *(t.astype("float32") for t in tasks))


@program("lanczos: the spectrum of a loss", 500, 2, 4000, tolerance=1e-3)
def lanczos(lib: Library, n: int) -> Any:
    """Ghorbani, Krishnan and Xiao 2019: 10 Hessian-vector products of 20-32-5, orthogonalised."""
    x = lib.np
    count = 20 * 32 + 32 + 32 * 5 + 5

    def loss(flat: Any, points: Any, classes: Any) -> Any:
        w, b, v, c = x.split(flat, [640, 672, 832])
        h = x.tanh(points @ w.reshape(20, 32) + b) @ v.reshape(32, 5) + c
        return -x.mean(x.take_along_axis(lib.nn.log_softmax(h, axis=-1), classes, axis=1))

    def run(flat: Any, points: Any, classes: Any, start: Any) -> Any:
        def curved(v: Any) -> Any:
            return lib.fx.jvp(lambda f: lib.fx.grad(loss)(f, points, classes), (flat,), (v,))[1]

        def step(state: Any, k: Any) -> Any:
            basis, v = state
            basis = basis.at[k].set(v)
            w = curved(v)
            along = v @ w
            w = w - basis.T @ (basis @ w)
            w = w - basis.T @ (basis @ w)
            size = x.sqrt(w @ w)
            return (basis, w / size), (along, size)

        empty = x.zeros((10, count), dtype="float64")
        first = start / x.sqrt(start @ start)
        _, (along, beside) = lib.lax.scan(step, (empty, first), x.arange(10))
        return x.linalg.eigvalsh(x.diag(along) + x.diag(beside[:-1], 1) + x.diag(beside[:-1], -1))

    rng = np.random.default_rng(0)
    args = (rng.normal(size=count) * 0.3, rng.normal(size=(n, 20)), rng.integers(0, 5, (n, 1)))
    return run, (*args, rng.normal(size=count))


@program("transducer: loss of a sequence, with gradient", 50, 2, 200, tolerance=3e-4)
def transducer(lib: Library, n: int) -> Any:
    """Graves 2012, equations 16 to 18: 4 sequences of n frames, 12 labels of 28, by columns."""
    x = lib.np

    def loss(heard: Any, said: Any, labels: Any) -> Any:
        logs = lib.nn.log_softmax(heard[:, :, None, :] + said[:, None, :, :], axis=-1)
        blank = logs[..., 0]
        at = x.broadcast_to(labels[:, None, :, None], (4, n, 12, 1))
        emit = x.take_along_axis(logs[:, :, :-1], at, axis=-1)[..., 0]

        def row(before: Any, emit: Any) -> Any:
            def across(left: Any, inputs: Any) -> Any:
                below, emit = inputs
                now = x.logaddexp(below, left + emit)
                return now, now

            first = before[:, 0]
            rest = lib.lax.scan(across, first, (before[:, 1:].T, emit.T))[1].T
            return x.concatenate([first[:, None], rest], axis=1)

        first = x.zeros((4, 1), dtype="float32")
        start = x.concatenate([first, x.cumsum(emit[:, 0], axis=1)], axis=1)
        step = lambda alpha, inputs: (row(alpha + inputs[0], inputs[1]), None)  # noqa: E731
        inputs = (x.moveaxis(blank[:, :-1], 1, 0), x.moveaxis(emit[:, 1:], 1, 0))
        alpha = lib.lax.scan(step, start, inputs)[0]
        return -x.mean(alpha[:, -1] + blank[:, -1, -1])

    labels = np.random.default_rng(0).integers(1, 28, (4, 12))
    return lib.fx.value_and_grad(loss, argnums=(0, 1)), (draws(0, 4, n, 28), draws(1, 4, 13, 28),
                                                         labels)  # fmt: skip


@program("tangent kernel: of a network and points", 32, 3, 100, tolerance=1e-3)
def tangent_kernel(lib: Library, n: int) -> Any:
    """Jacot et al. 2018, as neural-tangents' empirical kernel: jacobians of 8-64-64-1."""
    x = lib.np

    def run(layers: Any, points: Any, targets: Any) -> Any:
        one = lambda layers, p: through(layers, p, x.tanh)[0]  # noqa: E731
        slopes = lib.fx.vmap(lib.fx.grad(one), in_axes=(None, 0))(layers, points)
        leaves = [s.reshape(n, -1) for s in lib.fx.tree.leaves(slopes)]
        kernel = sum(s @ s.T for s in leaves)
        return kernel, x.linalg.solve(kernel + 1e-2 * x.eye(n, dtype="float32"), targets)

    return run, (dense(0, 8, 64, 64, 1), draws(5, n, 8), draws(6, n))


@program("deep equilibrium: a fixed point, with gradient", 32, 1, 200, tolerance=1e-4)
def deep_equilibrium(lib: Library, n: int) -> Any:
    """Bai, Kolter and Koltun 2019: 30 steps to the fixed point, as many for the adjoint."""
    x = lib.np

    def cell(params: Any, h: Any, z: Any) -> Any:
        return x.tanh(z @ params["w"] + h @ params["u"] + params["b"])

    def settled(step: Any, start: Any) -> Any:
        return lib.lax.fori_loop(0, 30, lambda _, z: step(z), start)

    @lib.fx.custom_vjp
    def solve(params: Any, h: Any) -> Any:
        return settled(lambda z: cell(params, h, z), x.zeros((n, 64), dtype="float32"))

    def forward(params: Any, h: Any) -> Any:
        z = solve(params, h)
        return z, (params, h, z)

    def backward(saved: Any, slope: Any) -> Any:
        params, h, z = saved
        pull = lib.fx.vjp(lambda z: cell(params, h, z), z)[1]
        adjoint = settled(lambda a: slope + pull(a)[0], slope)
        return lib.fx.vjp(lambda params, h: cell(params, h, z), params, h)[1](adjoint)

    solve.defvjp(forward, backward)

    def loss(params: Any, h: Any, wanted: Any) -> Any:
        return x.mean((solve(params, h) @ params["out"] - wanted) ** 2)

    params = {
        "w": draws(0, 64, 64, scale=0.05),
        "u": draws(1, 20, 64, scale=0.2),
        "b": np.zeros(64, np.float32),
        "out": draws(2, 64, 3, scale=0.1),
    }
    return lib.fx.value_and_grad(loss), (params, draws(3, n, 20), draws(4, n, 3))
