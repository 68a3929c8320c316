"""Loops over the same rows: carried arrays updated beside read-outs of them, simulations, and
bundles of reductions and products that fusion puts into one pass over memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.networks import layers
from tests.networks.draw import Draw

Function = Callable[..., Any]

# (B, x [n, m], w [m] or [n, m] or [n, 1]) -> [n, m]
MIXES: dict[str, Function] = {
    "add": lambda B, x, w: x + w,
    "multiply": lambda B, x, w: x * w,
    "tanh of product": lambda B, x, w: B.tanh(x * w),
    "tanh plus": lambda B, x, w: B.tanh(x) + w,
    "sin": lambda B, x, w: B.sin(x + w) * x,
    "divide": lambda B, x, w: x / (1.0 + w * w),
    "maximum": lambda B, x, w: B.maximum(x, w),
    "relu": lambda B, x, w: B.relu(x - w),
    "where": lambda B, x, w: B.where(x > w, x, 0.5 * w),
    "gauss": lambda B, x, w: B.exp(-x * x) + w,
    "less its mean": lambda B, x, w: x * w - B.mean(x, -1, True),
    "rolled": lambda B, x, w: B.roll(x, 1, 0) * w,
    "flipped": lambda B, x, w: x + w * B.flip(x, [0]),
    "shifted": lambda B, x, w: x + w * B.roll(x, -1, 1),
}
KINKED = ("maximum", "relu", "where")
# read-outs of [n, m]
READ_OUTS: dict[str, Function] = {
    "columns": lambda B, x: B.sum(x, 0),
    "rows": lambda B, x: B.sum(x, -1),
    "all": lambda B, x: B.sum(x),
    "mean of columns": lambda B, x: B.mean(x, 0),
    "largest of columns": lambda B, x: B.max(x, 0),
    "largest of rows": lambda B, x: B.max(x, -1),
    "squares": lambda B, x: B.sum(x * x, 0),
    "itself": lambda B, x: x,
    "sine": lambda B, x: B.sin(x),
    "running": lambda B, x: B.cumsum(x, 0),
    "first row": lambda B, x: x[:1],
    "transposed": lambda B, x: B.transpose(x, [1, 0]),
    "kept columns": lambda B, x: B.sum(x, 0, True),
    "product of columns": lambda B, x: B.prod(B.tanh(x), 0),
    "softmax": lambda B, x: B.softmax(x),
    "gram": lambda B, x: B.transpose(x, [1, 0]) @ x,
}
OF_KINKS = ("largest of columns", "largest of rows")


def _mix(draw: Draw) -> tuple[str, Function]:
    name = draw.choose(MIXES)
    draw.model.is_smooth &= name not in KINKED
    return name, MIXES[name]


def _read_out(draw: Draw) -> tuple[str, Function]:
    name = draw.choose(READ_OUTS)
    draw.model.is_smooth &= name not in OF_KINKS
    return name, READ_OUTS[name]


def _weights(draw: Draw, n: int, m: int) -> str:
    return draw.param(*draw.choose([(m,), (n, m), (n, 1), (1, m)]), scale=0.7)


def _loss_of_all(draw: Draw, forward: Function) -> None:
    """The sum of squares of all outputs, or of their sines."""
    soft = draw.chance(0.5)

    def loss(B: Any, p: Any, d: Any) -> Any:
        total: Any = 0.0
        for out in forward(B, p, d):
            total = total + B.sum(B.sin(out) if soft else out * out) * 0.125
        return total

    draw.model.forward, draw.model.loss = forward, loss


def bundle(draw: Draw) -> None:
    """Values of one shape made of each other, and reductions of them."""
    n, m = draw.size(33), draw.size(33)
    x, y = draw.datum("normal", (n, m)), draw.param(n, m, scale=1.0)
    steps = []
    for k in range(int(draw.rng.integers(1, 6))):
        at = int(draw.rng.integers(k + 2))
        other = int(draw.rng.integers(k + 2)) if draw.chance(0.3) else None
        steps.append((*_mix(draw), at, _weights(draw, n, m), other))
    reads = [(*_read_out(draw), int(draw.rng.integers(len(steps) + 2)))
             for _ in range(int(draw.rng.integers(1, 5)))]  # fmt: skip
    draw.say(f"[{n}, {m}]: " + "; ".join(f"v{at} {name} {w}" if o is None else f"v{at} {name} v{o}"
                                         for name, _, at, w, o in steps))  # fmt: skip
    draw.say("outputs: " + ", ".join(f"{name} of v{at}" for name, _, at in reads))

    def forward(B: Any, p: Any, d: Any) -> Any:
        values = [d[x], p[y]]
        for _, f, at, w, other in steps:
            values.append(f(B, values[at], p[w] if other is None else values[other]))
        return tuple(f(B, values[at]) for _, f, at in reads)

    _loss_of_all(draw, forward)


def carried(draw: Draw) -> None:
    """A scan, or a loop, that carries a matrix, a vector and a number, with read-outs of them."""
    n, m, count = draw.size(17), draw.size(17), draw.choose((0, 1, 1, 2, 3, 5))
    kind = draw.choose(["scan", "scan", "fori", "while"])
    count = max(1, count) if kind == "scan" else count
    start, w = draw.param(n, m, scale=1.0), _weights(draw, n, m)
    rows, vector = draw.datum("normal", (count, m)), draw.datum("normal", (m,))
    (name, f), (other, g) = _mix(draw), _mix(draw)
    (read, h), (out, k) = _read_out(draw), _read_out(draw)
    order = draw.choose(["before", "after"])
    update = draw.choose(["all", "row", "add to a row"])
    draw.say(
        f"{kind} of {count} over [{n}, {m}]: {name}, {other}, {update}; reads {read} {order}, {out}"
    )

    def advance(B: Any, p: Any, i: Any, c: Any, v: Any, row: Any) -> Any:
        if update == "all":
            new = f(B, c, p[w])
        elif update == "row":
            new = B.set_at(c, i % n, B.tanh(c[0] + v))
        else:
            new = B.add_at(c, i % n, B.sin(v))
        new = B.tanh(g(B, new, row))
        seen = c if order == "before" else new
        return new, B.tanh(v + B.sum(seen, 0)), h(B, seen)

    def forward(B: Any, p: Any, d: Any) -> Any:
        c, v = p[start], d[vector]
        if kind == "scan":

            def step(carry: Any, row: Any) -> Any:
                i, c, v = carry
                c, v, y = advance(B, p, i, c, v, row)
                return (i + 1, c, v), (y, k(B, c))

            (_, c, v), ys = B.scan(step, (B.index_zero(), c, v), d[rows])
            return (c, v, *ys)
        last = h(B, c)

        def turn(i: Any, state: Any) -> Any:
            c, v, last = state
            c, v, y = advance(B, p, i, c, v, d[vector])
            return c, v, B.sin(last + y)

        if kind == "fori":
            c, v, last = B.fori(0, count, turn, (c, v, last))
        else:
            state = (B.index_zero(), (c, v, last))
            more = lambda s: s[0] < count  # noqa: E731
            _, (c, v, last) = B.while_loop(more, lambda s: (s[0] + 1, turn(s[0], s[1])), state)
        return c, v, last, k(B, c)

    _loss_of_all(draw, forward)


def simulation(draw: Draw) -> None:
    """Steps of a differential equation, its states written into an array or stacked."""
    n, count = draw.choose((2, 3, 5, 8, 9, 16, 17, 33)), draw.choose((1, 2, 3, 5))
    kind = draw.choose(["heat", "wave", "particles", "rk4", "plane"])
    dims: Any = {"particles": (min(n, 9), 2), "plane": (min(n, 9), n)}.get(kind, (n,))
    start, c = draw.param(*dims, scale=1.0), draw.param(*dims[-1:], scale=0.2)
    loop = draw.choose(["scan", "fori", "fori with states"])
    act = draw.choose(["none", "tanh", "sin"])
    draw.say(f"{kind} of {list(dims)}, {count} steps by {loop}, {act}")
    if act != "none":
        g = layers.SMOOTH[act]

    def rate(B: Any, p: Any, u: Any) -> Any:
        if kind in ("heat", "wave"):
            change = B.roll(u, 1, 0) - 2.0 * u + B.roll(u, -1, 0)
        elif kind == "plane":
            padded = B.pad(u, [(1, 1), (1, 1)])
            change = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]
            change = change - 4.0 * u
        elif kind == "particles":
            apart = u[:, None] - u[None]
            change = -B.sum(apart / (0.5 + B.sum(apart * apart, -1, True)), 1)
        else:
            change = B.sin(B.roll(u, 1, 0)) - u * p[c]
        return change * 0.25 + p[c] * (B.tanh(u) if act == "none" else g(B, u))

    def step(B: Any, p: Any, u: Any, v: Any) -> Any:
        if kind == "wave":
            v = v + 0.5 * rate(B, p, u)
            return u + 0.5 * v, v
        if kind == "rk4":
            a = rate(B, p, u)
            b = rate(B, p, u + 0.25 * a)
            e = rate(B, p, u + 0.25 * b)
            f = rate(B, p, u + 0.5 * e)
            return u + (a + 2.0 * b + 2.0 * e + f) / 12.0, v
        return u + 0.5 * rate(B, p, u), v + u

    def forward(B: Any, p: Any, d: Any) -> Any:
        u, v = p[start], B.zeros(dims, p[start])
        if loop == "scan":

            def advance(carry: Any, _: Any) -> Any:
                u, v = step(B, p, *carry)
                return (u, v), B.sum(u) if kind == "heat" else u * u

            (u, v), ys = B.scan(advance, (u, v), None, count)
            return u, v, ys
        if loop == "fori":
            return B.fori(0, count, lambda i, s: step(B, p, *s), (u, v))
        states = B.zeros([count, *dims], u)

        def turn(i: Any, s: Any) -> Any:
            u, v, states = s
            new, v = step(B, p, u, v)
            return new, v, B.set_at(states, i, u)

        return B.fori(0, count, turn, (u, v, states))

    _loss_of_all(draw, forward)


OF_LOOPS = (bundle, carried, simulation)
