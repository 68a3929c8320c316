"""Families of networks: each draws a whole model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.networks import layers
from tests.networks.draw import Draw, Model
from tests.networks.loops import OF_LOOPS
from tests.networks.losses import loss_of
from tests.networks.physics import network_of_points

Function = Callable[..., Any]
Family = Callable[[Draw], None]


def perceptron(draw: Draw) -> None:
    """Layers over [n, k], as most networks have."""
    dims: Any = (draw.named("n"), draw.size(33))
    x = draw.datum("normal", dims)
    run, out = layers.chain(draw, dims, layers.OF_ROWS, int(draw.rng.integers(1, 5)))
    run, out = _with_head(draw, run, out)
    loss_of(draw, lambda B, p, d: run(B, p, d, d[x]), out)


def relu_network(draw: Draw) -> None:
    """The commonest one: dense layers with relu."""
    dims: Any = (draw.named("n"), draw.size(33))
    x = draw.datum("normal", dims)
    draw.model.is_smooth = False
    made = []
    for _ in range(int(draw.rng.integers(1, 4))):
        name, f, dims = layers.dense(draw, dims)
        draw.say(f"{name} relu")
        made.append(f)
    name, head, out = layers.dense(draw, dims, draw.small())
    draw.say(name)

    def run(B: Any, p: Any, d: Any) -> Any:
        h = d[x]
        for f in made:
            h = B.relu(f(B, p, d, h))
        return head(B, p, d, h)

    loss_of(draw, run, out)


def _with_head(draw: Draw, run: Function, dims: Any) -> tuple[Function, Any]:
    """A dense layer to few outputs, most of the time; always where there is no parameter yet."""
    if draw.model.params and draw.chance(0.4):
        return run, dims
    name, head, out = layers.dense(draw, dims, draw.small())
    draw.say(f"head: {name}")
    return lambda B, p, d, x: head(B, p, d, run(B, p, d, x)), out


def sequence(draw: Draw) -> None:
    """Tokens or vectors along a time, [n, t, k]."""
    n, t, k = draw.named("n", 17), draw.small(), draw.choose((1, 2, 3, 4, 7, 8, 9, 16))
    if draw.chance(0.6):
        rows = draw.size(33)
        ids, table = draw.datum("label", (n, t), bound=rows), draw.param(rows, k, scale=0.5)
        place = draw.param(t, k)
        draw.say(f"embedding {rows}x{k} of [n, {t}]")
        first: Function = lambda B, p, d: B.embedding(d[ids], p[table]) + p[place]  # noqa: E731
    else:
        x = draw.datum("normal", (n, t, k))
        first = lambda B, p, d: d[x]  # noqa: E731
    run, dims = layers.chain(draw, (n, t, k), layers.OF_SEQUENCES, int(draw.rng.integers(1, 4)))
    if len(dims) == 3:
        name, last, dims = layers.pooled_time(draw, dims)  # type: ignore[misc]
        draw.say(name)
        body = run
        run = lambda B, p, d, x: last(B, p, d, body(B, p, d, x))  # noqa: E731
    run, dims = _with_head(draw, run, dims)
    loss_of(draw, lambda B, p, d: run(B, p, d, first(B, p, d)), dims)


def image(draw: Draw) -> None:
    """Convolutions and pools over [n, c, h, w]."""
    dims: Any = (draw.named("n", 9), draw.choose((1, 2, 3, 4)), draw.choose((1, 3, 5, 6, 8, 9)),
                 draw.choose((1, 3, 4, 7, 8)))  # fmt: skip
    x = draw.datum("normal", dims)
    run, dims = layers.chain(draw, dims, layers.OF_IMAGES, int(draw.rng.integers(1, 4)))
    name, flat, dims = layers.flat_image(draw, dims)  # type: ignore[misc]
    draw.say(name)
    body = run
    run = lambda B, p, d, x: flat(B, p, d, body(B, p, d, x))  # noqa: E731
    run, dims = _with_head(draw, run, dims)
    loss_of(draw, lambda B, p, d: run(B, p, d, d[x]), dims)


def autoencoder(draw: Draw) -> None:
    """Weights used twice, once transposed; maybe noise in the middle (a VAE)."""
    n, k, m = draw.named("n"), draw.size(33), draw.size(17)
    x, w, b, c = draw.datum("normal", (n, k)), draw.param(k, m), draw.param(m), draw.param(k)
    name, f = layers.activation(draw)
    noisy = draw.chance(0.5)
    noise, v = draw.datum("normal", (n, m)), draw.param(k, m)
    draw.say(f"autoencoder {k}->{m} {name}{' with noise' if noisy else ''}")

    def run(B: Any, p: Any, d: Any) -> Any:
        h = f(B, d[x] @ p[w] + p[b])
        if noisy:
            h = h + d[noise] * B.exp(0.5 * B.tanh(d[x] @ p[v]))
        return h @ B.transpose(p[w], [1, 0]) + p[c]

    loss_of(draw, run, (n, k))


def factors(draw: Draw) -> None:
    """Rows of two tables, gathered, multiplied and put back: recommenders, graphs."""
    n, rows, k = draw.named("n"), draw.size(33), draw.size(17)
    i, j = (draw.datum("label", (n,), bound=rows) for _ in range(2))
    u, v, b = draw.param(rows, k, scale=0.5), draw.param(rows, k, scale=0.5), draw.param(rows)
    name, f = layers.activation(draw)
    is_graph = draw.chance(0.5)
    draw.say(f"{'graph' if is_graph else 'factors'} of {rows}x{k} {name}")

    def run(B: Any, p: Any, d: Any) -> Any:
        if is_graph:
            sent = f(B, B.take(p[u], d[i])) * (1.0 + B.take(p[b], d[j])[:, None])
            nodes = B.add_at(p[v], d[j], sent)
            return f(B, nodes) @ B.transpose(p[u], [1, 0])
        both = B.take(p[u], d[i]) * B.take(p[v], d[j])
        return f(B, both) + B.take(p[b], d[i])[:, None]

    loss_of(draw, run, (rows, rows) if is_graph else (n, k))


def of_complex(draw: Draw) -> None:
    """Layers over complex numbers; the loss is real."""
    model = draw.model
    model.is_complex = True
    n, k = draw.named("n", 33), draw.size(17)
    x = draw.datum("normal", (n, k))
    makers: dict[str, Function] = {
        "modulus gate": lambda B, h: h * B.sigmoid(B.real(h * B.conj(h))),
        "tanh": lambda B, h: B.tanh(0.25 * h),
        "exp": lambda B, h: B.exp(0.25 * h),
        "square": lambda B, h: 0.5 * h * h,
        "split": lambda B, h: B.tanh(B.real(h)) * h + 1j * B.imag(h),
        "conj": lambda B, h: B.conj(h) - 0.5 * h,
        "sums": lambda B, h: h + B.conj(B.sum(h, 0)) * 0.125,
        "prod": lambda B, h: h + B.prod(B.tanh(0.25 * h), -1, True),
    }
    steps: list[tuple[str, str, str]] = []
    for _ in range(int(draw.rng.integers(1, 4))):
        m = draw.size(17)
        steps.append((draw.param(k, m), draw.param(m), draw.choose(makers)))
        k = m
        draw.say(f"complex dense {m} {steps[-1][2]}")

    def run(B: Any, p: Any, d: Any) -> Any:
        h = d[x]
        for w, b, name in steps:
            h = makers[name](B, h @ p[w] + p[b])
        return h

    def loss(B: Any, p: Any, d: Any) -> Any:
        h = run(B, p, d)
        rows = B.sum(h, 0)
        return B.sum(B.real(h * B.conj(h))) * 0.125 + B.sum(B.real(rows * B.conj(rows))) * 0.0625

    model.forward, model.loss = run, loss


FAMILIES: dict[Family, float] = {
    perceptron: 4, relu_network: 1.5, sequence: 2, image: 1.5, autoencoder: 0.8, factors: 0.8,
    of_complex: 0.5, network_of_points: 1.2, **dict.fromkeys(OF_LOOPS, 0.9),
}  # fmt: skip


def draw_model(draw: Draw) -> Model:
    """A model of any family."""
    family = draw.weighted(FAMILIES)
    draw.say(family.__name__)
    family(draw)
    return draw.model
