"""Physics-informed networks: derivatives of the network inside its loss."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from tests.networks.draw import Draw

Function = Callable[..., Any]

ACTIVATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "tanh": lambda B, x: B.tanh(x),
    "sin": lambda B, x: B.sin(x),
    "gauss": lambda B, x: B.exp(-x * x),
    "silu": lambda B, x: x * B.sigmoid(x),
}
# of u and its derivatives by the first and the second coordinate, and the coordinates
RESIDUALS: dict[str, tuple[int, int, Function]] = {
    "first": (1, 0, lambda B, u, a, b, x: a[1] + u),
    "heat": (2, 1, lambda B, u, a, b, x: b[1] - 0.25 * a[2]),
    "burgers": (2, 1, lambda B, u, a, b, x: b[1] + u * a[1] - 0.125 * a[2]),
    "poisson": (2, 2, lambda B, u, a, b, x: a[2] + b[2] - B.sin(x[:, :1])),
    "oscillator": (2, 0, lambda B, u, a, b, x: a[2] + 0.5 * a[1] + B.sin(u)),
    "beam": (4, 0, lambda B, u, a, b, x: 0.0625 * a[4] + u),
    "third": (3, 0, lambda B, u, a, b, x: 0.125 * a[3] + u * a[1]),
}


def network_of_points(draw: Draw) -> None:
    """u(x): a residual at points inside, and boundary, initial or data terms."""
    model = draw.model
    width, depth = draw.choose((1, 2, 3, 5, 8, 9, 16, 17)), int(draw.rng.integers(1, 4))
    act = ACTIVATIONS[name := draw.choose(ACTIVATIONS)]
    inside, edge = draw.named("n", 33), draw.named("m", 9)
    model.sizes = {k: max(1, v) for k, v in model.sizes.items()}
    x, z = draw.datum("uniform", (inside, 2)), draw.datum("uniform", (edge, 2))
    target = draw.datum("normal", (edge, 1))
    widths = [2] + [width] * depth + [1]
    names = [(draw.param(i, o, scale=1.2 / i**0.5), draw.param(o)) for i, o in pairwise(widths)]
    kind = draw.weighted({k: 1.0 if r[0] < 3 else 0.3 for k, r in RESIDUALS.items()})
    first, second, residual = RESIDUALS[kind]
    way = draw.choose(["jet", "jvp", "reverse"])
    if way == "reverse" and max(first, second) > 2:
        way = "jet"
    edges = draw.choose(["value", "slope", "both", "none"])
    wrap = draw.weighted({"": 8, "checkpoint": 1, "jit": 1})
    c = draw.number()
    draw.say(f"u of [n, 2], {depth}x{width} {name}; {kind} by {way}, edges: {edges} {wrap}")

    def u(B: Any, p: Any, y: Any) -> Any:
        for i, (w, b) in enumerate(names):
            y = y @ p[w] + p[b]
            y = act(B, y) if i < depth else y
        return y

    def forward(B: Any, p: Any, d: Any) -> Any:
        net = getattr(B, wrap)(lambda p, y: u(B, p, y)) if wrap else lambda p, y: u(B, p, y)
        f = lambda y: net(p, y)  # noqa: E731
        a = B.column_derivatives(f, d[x], 0, first, way)
        b = B.column_derivatives(f, d[x], 1, second, way) if second else [a[0]]
        return residual(B, a[0], a, b, d[x])

    def loss(B: Any, p: Any, d: Any) -> Any:
        total = B.mean(forward(B, p, d) ** 2)
        f = lambda y: u(B, p, y)  # noqa: E731
        if edges in ("value", "both"):
            total = total + c * B.mean((f(d[z]) - d[target]) ** 2)
        if edges in ("slope", "both"):
            slope = B.column_derivatives(f, d[z], 0, 1, "jvp")[1]
            total = total + B.mean((slope - 0.5) ** 2)
        return total

    model.forward, model.loss = forward, loss
