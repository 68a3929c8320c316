"""Losses of networks: one term or several, over outputs [n, k] of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.networks.draw import Dims, Draw, Model

Function = Callable[..., Any]


def term(draw: Draw, dims: Dims, empty: bool) -> tuple[str, Function]:
    """One term of ``(B, p, d, out)``; sums alone where there may be no element."""
    k = dims[-1]
    y, c = draw.datum("normal", dims), draw.number()
    smooth: dict[str, Function] = {
        "sum of squares": lambda B, p, d, x: B.sum((x - d[y]) ** 2) * 0.125,
        "sum of columns": lambda B, p, d, x: B.sum(B.sum(x * d[y], 0) ** 2) * 0.125,
        "sum of rows": lambda B, p, d, x: B.sum(B.tanh(B.sum(x, -1)) * c),
    }
    if not empty:
        smooth |= {
            "mse": lambda B, p, d, x: B.mean((x - d[y]) ** 2),
            "mse of columns": lambda B, p, d, x: B.mean((B.mean(x, 0) - c) ** 2),
            "log cosh": lambda B, p, d, x: B.mean(B.softplus(2.0 * (x - d[y])) - (x - d[y])),
            "log of softmax": lambda B, p, d, x: -B.mean(B.sum(B.log_softmax(x) * d[y], -1)),
            "logsumexp": lambda B, p, d, x: B.mean(B.logsumexp(c * x, -1)),
            "variance": lambda B, p, d, x: B.sum(B.var(x, 0)) + c * B.mean(x),
            "gram": lambda B, p, d, x: B.mean((B.transpose(x, [1, 0]) @ x) ** 2) * 0.0625,
            "similarity": lambda B, p, d, x: B.mean(B.log_softmax(x @ B.transpose(x, [1, 0]))),
            "norm": lambda B, p, d, x: B.mean(B.sqrt(0.25 + B.sum((x - d[y]) ** 2, -1))),
            "cosine": lambda B, p, d, x: B.mean(
                B.sum(x * d[y], -1) * B.rsqrt(0.25 + B.sum(x * x, -1))
            ),
        }
    kinked: dict[str, Function] = {
        "sum of absolutes": lambda B, p, d, x: B.sum(B.abs(x - d[y])) * 0.125,
        "hinge": lambda B, p, d, x: B.sum(B.relu(1.0 - x * d[y])) * 0.0625,
    }
    if not empty:
        kinked |= {
            "smooth l1": lambda B, p, d, x: B.smooth_l1(x, d[y]),
            "largest": lambda B, p, d, x: B.mean(B.max(x, -1)) + c * B.mean(x * d[y]),
            "spread": lambda B, p, d, x: B.mean(B.max(x, 0) - B.min(x, 0)),
        }
    labelled: dict[str, Function] = {}
    if not empty:
        label = draw.datum("label", dims[:-1], bound=k)
        labelled = {
            "cross entropy": lambda B, p, d, x: B.cross_entropy(x, d[label]),
            "own cross entropy": lambda B, p, d, x: -B.mean(B.pick(B.log_softmax(x), d[label])),
            "margin": lambda B, p, d, x: B.mean(B.logsumexp(x, -1) - B.pick(x, d[label])),
            "bce": lambda B, p, d, x: B.bce_logits(x, B.sigmoid(d[y])),
        }
    kind = draw.weighted({"smooth": 4, "kinked": 1.2, "labelled": 1.5})
    table = {"smooth": smooth, "kinked": kinked, "labelled": labelled or smooth}[kind]
    draw.model.is_smooth &= kind != "kinked"
    name = draw.choose(table)
    return name, table[name]


def of_params(draw: Draw) -> tuple[str, Function]:
    """A term of the parameters alone."""
    names = sorted(draw.model.params)
    some = names[: max(1, len(names) // 2)]
    c = draw.number(0.0, 0.3)
    table: dict[str, Function] = {
        "l2": lambda B, p, d, x: c * sum(B.sum(p[k] * p[k]) for k in names),
        "l1": lambda B, p, d, x: c * sum(B.sum(B.abs(p[k])) for k in some),
        "norm of some": lambda B, p, d, x: c * B.sqrt(0.25 + sum(B.sum(p[k] ** 2) for k in some)),
    }
    name = draw.choose(table)
    if name == "l1":
        draw.model.is_smooth = False
    return name, table[name]


def loss_of(draw: Draw, forward: Function, dims: Dims) -> None:
    """Give the model its outputs and a loss of one or several terms of them."""
    model: Model = draw.model
    empty = model.sizes.get("n") == 0
    count = int(draw.choose((1, 1, 1, 2, 2, 3)))
    terms = [(*term(draw, dims, empty), draw.number()) for _ in range(count)]
    if draw.chance(0.25):
        terms.append((*of_params(draw), 1.0))
    draw.say("loss: " + " + ".join(f"{c} * {name}" for name, _, c in terms))

    def loss(B: Any, p: Any, d: Any) -> Any:
        out = forward(B, p, d)
        total: Any = 0.0
        for _, f, c in terms:
            total = total + c * f(B, p, d, out)
        return total

    model.forward, model.loss = forward, loss
