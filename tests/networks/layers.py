"""Layers of networks: each is drawn for the dims it is given, and gives a function and its dims.

A layer maps ``(B, p, d, x)``, a backend, parameters, data and the value before, to the value
after. Dims are ints, or names of sizes that nobody looks at ("n", the batch).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.networks.draw import Dims, Draw

Function = Callable[..., Any]
Made = tuple[str, Function, Dims]
Maker = Callable[[Draw, Dims], "Made | None"]

SMOOTH: dict[str, Callable[[Any, Any], Any]] = {
    "tanh": lambda B, x: B.tanh(x),
    "sigmoid": lambda B, x: B.sigmoid(x),
    "silu": lambda B, x: B.silu(x),
    "gelu": lambda B, x: B.gelu(x),
    "tanh gelu": lambda B, x: 0.5 * x * (1.0 + B.tanh(0.8 * (x + 0.0447 * x * x * x))),
    "softplus": lambda B, x: B.softplus(x),
    "softsign": lambda B, x: B.softsign(x),
    "sin": lambda B, x: B.sin(x),
    "gauss": lambda B, x: B.exp(-x * x),
    "mish": lambda B, x: x * B.tanh(B.softplus(x)),
    "logsigmoid": lambda B, x: B.logsigmoid(x),
    "snake": lambda B, x: x + B.sin(x) ** 2,
    "sqrt": lambda B, x: B.sqrt(1.0 + x * x),
    "reciprocal": lambda B, x: 1.0 / (1.25 + x * x),
    "atan": lambda B, x: B.atan(x),
}
KINKED: dict[str, Callable[[Any, Any], Any]] = {
    "relu": lambda B, x: B.relu(x),
    "maximum with 0": lambda B, x: B.maximum(x, 0.0),
    "where": lambda B, x: B.where(x > 0.0, x, 0.125 * x),
    "relu6": lambda B, x: B.relu6(3.0 * x),
    "elu": lambda B, x: B.elu(x),
    "leaky_relu": lambda B, x: B.leaky_relu(x),
    "hardswish": lambda B, x: B.hardswish(x),
    "hardtanh": lambda B, x: B.hardtanh(x),
    "abs": lambda B, x: B.abs(x),
    "clip": lambda B, x: B.clip(x, -0.5, 1.25),
    "squared relu": lambda B, x: B.relu(x) * B.relu(x),
}


def activation(draw: Draw) -> tuple[str, Callable[[Any, Any], Any]]:
    if draw.chance(0.45):
        name = "relu" if draw.chance(0.5) else draw.choose(KINKED)
        draw.model.is_smooth = False
        return name, KINKED[name]
    name = draw.choose(SMOOTH)
    return name, SMOOTH[name]


# -- on the last axis --------------------------------------------------------------------------
def dense(draw: Draw, dims: Dims, width: int | None = None) -> Made:
    k, m = dims[-1], width or draw.size(33)
    w = draw.param(k, m)
    way = draw.choose(["@", "linear", "einsum", "no bias", "transposed"])
    if way == "no bias":
        return f"dense {k}->{m}, no bias", lambda B, p, d, x: x @ p[w], (*dims[:-1], m)
    b = draw.param(m)
    if way == "transposed":
        v = draw.param(m, k)
        return (
            f"dense {k}->{m}, transposed",
            lambda B, p, d, x: x @ B.transpose(p[v], [1, 0]) + p[b],
            (*dims[:-1], m),
        )
    ways: dict[str, Function] = {
        "@": lambda B, p, d, x: x @ p[w] + p[b],
        "linear": lambda B, p, d, x: B.linear(x, p[w], p[b]),
        "einsum": lambda B, p, d, x: B.einsum([x, p[w]], "...i,ij->...j") + p[b],
    }
    return f"dense {k}->{m} ({way})", ways[way], (*dims[:-1], m)


def dense_activated(draw: Draw, dims: Dims) -> Made:
    name, f, dims = dense(draw, dims)
    act, g = activation(draw)
    return f"{name} {act}", lambda B, p, d, x: g(B, f(B, p, d, x)), dims


def activated(draw: Draw, dims: Dims) -> Made:
    name, f = activation(draw)
    return name, lambda B, p, d, x: f(B, x), dims


def norm(draw: Draw, dims: Dims) -> Made:
    k = dims[-1]
    g, b = draw.param(k), draw.param(k)
    ways: dict[str, Function] = {
        "layer_norm": lambda B, p, d, x: B.layer_norm(x, 1.0 + p[g], p[b]),
        "rms_norm": lambda B, p, d, x: B.rms_norm(x, 1.0 + p[g]),
        "own layer_norm": lambda B, p, d, x: (x - B.mean(x, -1, True))
        * B.rsqrt(B.var(x, -1, True) + 0.01) * p[g] + p[b],
        "l2": lambda B, p, d, x: x / B.sqrt(0.1 + B.sum(x * x, -1, True)) * p[g],
        "softmax": lambda B, p, d, x: B.softmax(x) + p[b],
        "log_softmax": lambda B, p, d, x: B.log_softmax(x) * p[g],
        "max": lambda B, p, d, x: x - B.max(x, -1, True) + p[b],
    }  # fmt: skip
    name = draw.choose(ways)
    if name == "max":
        draw.model.is_smooth = False
    return name, ways[name], dims


def batch_norm(draw: Draw, dims: Dims) -> Made | None:
    """Over all axes but the channels: the second, or the last of two."""
    if len(dims) not in (2, 4) or draw.model.sizes.get("n") == 0:
        return None
    k = dims[1]
    g, b = draw.param(k), draw.param(k)
    if len(dims) == 2 and draw.chance(0.5):

        def own(B: Any, p: Any, d: Any, x: Any) -> Any:
            mean, var = B.mean(x, 0), B.var(x, 0)
            return (x - mean) / B.sqrt(var + 0.01) * (1.0 + p[g]) + p[b]

        return "own batch_norm", own, dims
    return "batch_norm", lambda B, p, d, x: B.batch_norm(x, 1.0 + p[g], p[b]), dims


def gate(draw: Draw, dims: Dims) -> Made:
    k = dims[-1]
    v, w, b = draw.param(k, k), draw.param(k, k), draw.param(k)
    name, f = activation(draw)
    ways: dict[str, Function] = {
        "glu": lambda B, p, d, x: f(B, x @ p[v] + p[b]) * B.sigmoid(x @ p[w]),
        "highway": lambda B, p, d, x: _mixed(B.sigmoid(x @ p[v] + p[b]), f(B, x @ p[w]), x),
        "swiglu": lambda B, p, d, x: B.silu(x @ p[v]) * (x @ p[w]) + p[b],
        "scale": lambda B, p, d, x: x * B.sigmoid(B.mean(x, 0, True) + p[b]),
        "choice": lambda B, p, d, x: B.where(x @ p[v] > p[b], f(B, x), x * 0.5),
    }
    way = draw.choose(ways)
    if way == "choice":
        draw.model.is_smooth = False
    if way == "scale" and draw.model.sizes.get("n") == 0:
        way = "glu"
    return f"{way} {name}", ways[way], dims


def _mixed(t: Any, a: Any, b: Any) -> Any:
    return t * a + (1.0 - t) * b


def residual(draw: Draw, dims: Dims) -> Made:
    name, f = activation(draw)
    k = dims[-1]
    m = draw.size(33)
    v, w, b = draw.param(k, m), draw.param(m, k), draw.param(m)
    return (
        f"residual {m} {name}",
        lambda B, p, d, x: x + f(B, x @ p[v] + p[b]) @ p[w],
        dims,
    )


def dropout(draw: Draw, dims: Dims) -> Made:
    if draw.chance(0.4) and not any(isinstance(s, str) for s in dims):
        seed = int(draw.rng.integers(1000))
        return (
            "dropout by a key",
            lambda B, p, d, x: x * B.bernoulli(seed, dims, x) / 0.75,
            dims,
        )
    mask = draw.datum("mask", dims)
    if draw.chance(0.5):
        return "dropout", lambda B, p, d, x: B.where(d[mask], x / 0.75, 0.0 * x), dims
    return "dropout", lambda B, p, d, x: x * B.to_float(d[mask], x) * 1.25, dims


def arrangement(draw: Draw, dims: Dims) -> Made:
    """Ops that move values within the last axis."""
    k = dims[-1]
    half = (k + 1) // 2
    order = [int(i) for i in draw.rng.permutation(k)]
    b = draw.param(k)
    ways: dict[str, tuple[Function, int]] = {
        "flip": (lambda B, p, d, x: B.flip(x, [-1]) + p[b] * x, k),
        "roll": (lambda B, p, d, x: x * p[b] + B.roll(x, 1, -1), k),
        "permuted": (lambda B, p, d, x: x[..., order] * p[b], k),
        "halves": (lambda B, p, d, x: x[..., :half] * B.tanh(x[..., k - half :]), half),
        "joined": (lambda B, p, d, x: B.concat([x, B.sin(x) * p[b]], -1), 2 * k),
        "every second": (lambda B, p, d, x: x[..., ::2], (k + 1) // 2),
        "cumsum": (lambda B, p, d, x: B.tanh(B.cumsum(x, -1)) * p[b], k),
        "reverse cumsum": (lambda B, p, d, x: B.tanh(B.cumsum(x, -1, True)) + p[b], k),
        "sorted": (lambda B, p, d, x: B.sort(x, -1) * p[b], k),
    }
    name = draw.choose(ways)
    if name == "sorted":
        draw.model.is_smooth = False
    f, width = ways[name]
    return name, f, (*dims[:-1], width)


def of_batch(draw: Draw, dims: Dims) -> Made | None:
    """Ops that mix the rows of a batch, or read it whole."""
    if draw.model.sizes.get("n") == 0:
        return None
    k = dims[-1]
    b = draw.param(k)
    ways: dict[str, Function] = {
        "less the mean": lambda B, p, d, x: x - B.mean(x, 0, True) * p[b],
        "running sum": lambda B, p, d, x: B.tanh(B.cumsum(x, 0)) + p[b],
        "reversed": lambda B, p, d, x: x + p[b] * B.flip(x, [0]),
        "rolled": lambda B, p, d, x: x + p[b] * B.roll(x, 1, 0),
        "all": lambda B, p, d, x: x * B.tanh(B.mean(x) + p[b]),
        "column sums": lambda B, p, d, x: x * B.tanh(B.sum(x, 0)) + p[b],
        "softmax of rows": lambda B, p, d, x: x * B.softmax(x, 0) + p[b],
        "largest of columns": lambda B, p, d, x: x - p[b] * B.max(x, 0, True),
    }
    name = draw.choose(ways)
    if name == "largest of columns":
        draw.model.is_smooth = False
    return f"{name} of the batch", ways[name], dims


# -- sequences: [n, t, k] ----------------------------------------------------------------------
def attention(draw: Draw, dims: Dims) -> Made | None:
    if len(dims) != 3:
        return None
    _, t, k = dims
    heads, size = draw.choose((1, 2, 3)), draw.choose((1, 2, 3, 4, 8))
    q, w, v = (draw.param(k, heads * size) for _ in range(3))
    o = draw.param(heads * size, k)
    causal, own, skip = draw.chance(0.5), draw.chance(0.4), draw.chance(0.5)

    def run(B: Any, p: Any, d: Any, x: Any) -> Any:
        queries, keys, values = (
            B.reshape(x @ p[name], [x.shape[0], t, heads, size]) for name in (q, w, v)
        )
        if own:
            scores = B.einsum([queries, keys], "nqhd,nkhd->nhqk") * (size**-0.5)
            out = B.einsum([B.softmax(scores), values], "nhqk,nkhd->nqhd")
        else:
            out = B.attention(queries, keys, values, causal)
        out = B.reshape(out, [x.shape[0], t, heads * size]) @ p[o]
        return x + out if skip else out

    kind = "own" if own else "causal" if causal else "full"
    return f"attention {heads}x{size} {kind}", run, dims


def recurrence(draw: Draw, dims: Dims) -> Made | None:
    """An RNN, GRU or LSTM along the time, by scan."""
    if len(dims) != 3 or dims[1] == 0:
        return None
    n, t, k = dims
    m = draw.size(17)
    u, v, b = draw.param(k, 4 * m), draw.param(m, 4 * m), draw.param(4 * m)
    kind, last = draw.choose(["rnn", "gru", "lstm"]), draw.chance(0.3)
    remat = draw.chance(0.2)

    def cell(B: Any, p: Any, carry: Any, row: Any) -> Any:
        h, c = carry
        z = row @ p[u] + h @ p[v] + p[b]
        i, f, g, o = (z[:, j * m : (j + 1) * m] for j in range(4))
        if kind == "rnn":
            h = B.tanh(i)
        elif kind == "gru":
            h = _mixed(B.sigmoid(i), B.tanh(f * B.sigmoid(g) + o), h)
        else:
            c = B.sigmoid(f) * c + B.sigmoid(i) * B.tanh(g)
            h = B.sigmoid(o) * B.tanh(c)
        return (h, c), h

    def run(B: Any, p: Any, d: Any, x: Any) -> Any:
        zero = B.zeros([x.shape[0], m], x)
        step = lambda carry, row: cell(B, p, carry, row)  # noqa: E731
        step = B.checkpoint(step) if remat else step
        (h, _), hs = B.scan(step, (zero, zero), B.transpose(x, [1, 0, 2]))
        return h if last else B.transpose(hs, [1, 0, 2])

    return f"{kind} {k}->{m}", run, (n, m) if last else (n, t, m)


def pooled_time(draw: Draw, dims: Dims) -> Made | None:
    if len(dims) != 3 or dims[1] == 0:
        return None
    n, t, k = dims
    ways: dict[str, tuple[Function, Dims]] = {
        "mean over time": (lambda B, p, d, x: B.mean(x, 1), (n, k)),
        "max over time": (lambda B, p, d, x: B.max(x, 1), (n, k)),
        "last step": (lambda B, p, d, x: x[:, -1], (n, k)),
        "flat": (lambda B, p, d, x: B.reshape(x, [x.shape[0], t * k]), (n, t * k)),
        "logsumexp over time": (lambda B, p, d, x: B.logsumexp(x, 1), (n, k)),
    }
    name = draw.choose(ways)
    if name == "max over time":
        draw.model.is_smooth = False
    return (name, *ways[name])


# -- images: [n, c, h, w] ----------------------------------------------------------------------
def convolution(draw: Draw, dims: Dims) -> Made | None:
    if len(dims) != 4:
        return None
    n, c, h, w = dims
    size = draw.choose([s for s in (1, 2, 3, 3, 3, 5) if s <= min(h, w)])
    stride = draw.choose((1, 1, 1, 2))
    padding = draw.choose((0, size // 2))
    depthwise = draw.chance(0.2)
    m = c if depthwise else draw.choose((1, 2, 3, 4, 7, 8, 9, 16))
    groups = c if depthwise else 1
    k, b = draw.param(m, c // groups, size, size, scale=1.0 / (size * c**0.5)), draw.param(m)
    sizes = tuple((s + 2 * padding - size) // stride + 1 for s in (h, w))
    name, f = activation(draw) if draw.chance(0.7) else ("", lambda B, x: x)
    return (
        f"conv {m}x{size}x{size} /{stride} +{padding} groups {groups} {name}",
        lambda B, p, d, x: f(B, B.conv2d(x, p[k], p[b], stride, padding, groups)),
        (n, m, *sizes),
    )


def transposed_convolution(draw: Draw, dims: Dims) -> Made | None:
    if len(dims) != 4 or max(dims[2:]) > 6:
        return None
    n, c, h, w = dims
    m, size, stride = draw.choose((1, 2, 3)), draw.choose((1, 2, 3)), draw.choose((1, 2))
    k = draw.param(c, m, size, size, scale=0.3)
    return (
        f"transposed conv {m}x{size}x{size} /{stride}",
        lambda B, p, d, x: B.conv2d_transpose(x, p[k], stride),
        (n, m, (h - 1) * stride + size, (w - 1) * stride + size),
    )


def pool(draw: Draw, dims: Dims) -> Made | None:
    if len(dims) != 4 or min(dims[2:]) < 2:
        return None
    n, c, h, w = dims
    size = draw.choose([s for s in (2, 2, 3) if s <= min(h, w)])
    stride = draw.choose((1, 2, size))
    kind = draw.choose(["max", "avg"])
    if kind == "max":
        draw.model.is_smooth = False
    sizes = tuple((s - size) // stride + 1 for s in (h, w))
    return (
        f"{kind} pool {size} /{stride}",
        lambda B, p, d, x: getattr(B, f"{kind}_pool")(x, size, stride),
        (n, c, *sizes),
    )


def image_norm(draw: Draw, dims: Dims) -> Made | None:
    if len(dims) != 4:
        return None
    c = dims[1]
    g, b = draw.param(c), draw.param(c)
    groups = draw.choose([k for k in (1, 2, 3, c) if c % k == 0])
    ways: dict[str, Function] = {
        "group_norm": lambda B, p, d, x: B.group_norm(x, 1.0 + p[g], p[b], groups),
        "instance_norm": lambda B, p, d, x: B.instance_norm(x, 1.0 + p[g], p[b]),
    }
    name = draw.choose(ways)
    return name, ways[name], dims


def flat_image(draw: Draw, dims: Dims) -> Made | None:
    if len(dims) != 4:
        return None
    n, c, h, w = dims
    if draw.chance(0.5):
        return "global mean", lambda B, p, d, x: B.mean(x, [2, 3]), (n, c)
    flat = c * h * w
    return "flat", lambda B, p, d, x: B.reshape(x, [x.shape[0], flat]), (n, flat)


OF_ROWS: dict[Maker, float] = {
    dense_activated: 4, dense: 1, activated: 1, norm: 2, batch_norm: 1, gate: 1.5, residual: 1.5,
    dropout: 1, arrangement: 1.5, of_batch: 1,
}  # fmt: skip
OF_SEQUENCES: dict[Maker, float] = {
    attention: 3, recurrence: 2, norm: 2, dense_activated: 1.5, residual: 1.5, dropout: 0.7,
    gate: 0.7, arrangement: 0.7,
}  # fmt: skip
OF_IMAGES: dict[Maker, float] = {
    convolution: 4, pool: 2, image_norm: 1, batch_norm: 1, transposed_convolution: 0.5,
    activated: 0.5, dropout: 0.4,
}  # fmt: skip


def chain(draw: Draw, dims: Dims, makers: dict[Maker, float], count: int) -> tuple[Function, Dims]:
    """That many layers, one after the other; some are checkpointed, some jitted inside."""
    made: list[tuple[Function, str]] = []
    while len(made) < count:
        layer = draw.weighted(makers)(draw, dims)
        if layer is None or any(s == 0 for s in layer[2][1:]):
            continue
        name, f, dims = layer
        wrap = draw.weighted({"": 8, "checkpoint": 0.8, "jit": 0.6})
        draw.say(f"{wrap} {name} -> {list(dims)}".strip())
        made.append((f, wrap))

    def run(B: Any, p: Any, d: Any, x: Any) -> Any:
        for f, wrap in made:
            call = lambda p, x, f=f: f(B, p, d, x)  # noqa: E731
            x = getattr(B, wrap)(call)(p, x) if wrap else call(p, x)
        return x

    return run, dims
