"""Ops that join processes, by Paddle's names, beside what NumPy makes of the whole data; see
tests/parallel_cases.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import phix
from phix import ops
from tests.parallel_cases import Case, D, Data, R, grad

COLUMNS = (None, D)


def complex_step(f: Callable[..., Any], *args: np.ndarray) -> list[np.ndarray]:
    """The gradient of a sum that NumPy makes, in each of the args."""
    found = []
    for number, arg in enumerate(args):
        slopes = np.zeros(np.shape(arg))
        for at in np.ndindex(slopes.shape):
            moved = np.array(arg, complex)
            moved[at] += 1e-30j
            slopes[at] = f(*args[:number], moved, *args[number + 1 :]).imag / 1e-30
        found.append(slopes)
    return found


def every_op(s: Any, b: Any, w: Any) -> Any:
    """A number of all ops that are differentiated; ``b`` is a part of n rows, ``w`` whole."""
    n = b.shape[0]
    x = s * b
    own = (
        (ops.c_scatter(x, 0, n - 1) ** 3).sum()
        + (ops.reduce_scatter(x, 0, n) ** 2).sum()
        + (ops.c_split(s * w, 0, n) ** 3).sum()
        + (ops.reduce(x, 0, n - 1) ** 2).sum()
    )
    alike = (
        (ops.partial_allgather(x, n, 0) ** 3).sum()
        + (ops.broadcast(x, 0, n - 1) ** 4).sum()
        + (ops.c_concat(x, 0, n, 0, True, True) ** 3).sum()
        + (ops.all_reduce(ops.barrier(x), 0, 4) ** 3).sum()
        + (ops.mp_allreduce_sum(x) * ops.all_reduce(x, 0, 3)).sum()
    )
    return ops.c_allreduce_sum(own, 0, True, True) + alike


def every_op_whole(s: Any, b: Any, w: Any) -> Any:
    n = round(len(b) ** 0.5)
    x = s * b.reshape(n, n, 2)
    total = x.sum(0)
    own = (x[-1] ** 3).sum() + (total**2).sum() + ((s * w) ** 3).sum()
    own += (total**2).sum() + (x[:-1] ** 2).sum()
    diagonal = x[np.arange(n), np.arange(n)]
    alike = (diagonal**3).sum() + (x[-1] ** 4).sum() + (x**3).sum() + ((total / n) ** 3).sum()
    return own + alike + (total * x.prod(0)).sum()


LABELS = np.array([1, 0, -100, 1])


def loss_of_parts(logits: Any, label: Any, weight: Any) -> Any:
    softmax, loss = ops.c_softmax_with_cross_entropy(logits, label)
    return (
        softmax,
        loss,
        grad(lambda x: (ops.c_softmax_with_cross_entropy(x, label)[1] * weight).sum())(logits),
    )


def loss_whole(logits: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, ...]:
    shares = np.exp(logits - logits.max(1, keepdims=True))
    softmax = shares / shares.sum(1, keepdims=True)
    counts = LABELS >= 0
    hot = (np.arange(logits.shape[1]) == LABELS[:, None]).astype(float)
    loss = np.where(counts, -np.log((softmax * hot).sum(1) + ~counts), 0)
    return softmax, loss[:, None], weight * counts[:, None] * (softmax - hot)


def communication_cases(data: Data) -> dict[str, Case]:
    """None of them on many parts, whose derivatives would take that many steps."""
    if data.n > 8:
        return {}
    n, x, s, parts, square, blocks = (
        data.n, data.x, data.s, data.parts, data.square, data.blocks
    )  # fmt: skip
    rng = np.random.default_rng(11)
    w, logits, weight = (
        rng.normal(size=(2, 2 * n)),
        30 * rng.normal(size=(4, 2 * n)),
        rng.normal(size=(4, 1)),
    )
    slopes = complex_step(lambda s, b: every_op_whole(s, b, w), s, square)
    args = (s, square, w)
    positive = parts > 0
    return {
        "all_reduce": Case(
            lambda x: [ops.all_reduce(x, 0, k) for k in range(5)]
            + [ops.all_reduce(x > 0, 0, k) for k in (5, 6)],
            (D,),
            R,
            (x,),
            [parts.sum(0), parts.max(0), parts.min(0), parts.prod(0), parts.mean(0),
             positive.any(0), positive.all(0)],
        ),
        "from and to one": Case(
            lambda x, b: (
                ops.reduce(x, 0, n - 1, 1), ops.broadcast(x, 0, n - 1), ops.c_scatter(b, root=0)
            ),
            (D, D),
            (D, R, D),
            (x, square),
            (np.concatenate([*parts[:-1], parts.max(0)]), parts[-1], blocks[0]),
        ),
        "parts along dims": Case(
            lambda x, b, w: (
                ops.c_concat(x, 0, n, 0, True, True), ops.c_split(w, 0, n),
                ops.partial_allgather(b, n, 0), ops.reduce_scatter(b),
            ),
            (D, D, R),
            (R, COLUMNS, R, D),
            (x, square, w),
            (np.concatenate(parts, 1), w, blocks[np.arange(n), np.arange(n)], blocks.sum(0)),
        ),
        "grads of communication": Case(
            lambda s, b, w: grad(every_op, argnums=(0, 1))(s, b, w),
            (R, D, R),
            (R, D),
            args,
            tuple(slopes),
        ),
        "communication in a scan": Case(
            lambda s, b, w: phix.jit(
                lambda s, b, w: phix.scan(
                    lambda c, _: (c + every_op(s, b, w), ops.barrier(c)), 0.0 * s, length=2
                )
            )(s, b, w),
            (R, D, R),
            R,
            args,
            (2 * every_op_whole(*args), np.array([0, every_op_whole(*args)])),
        ),
        "c_softmax_with_cross_entropy": Case(
            loss_of_parts,
            (COLUMNS, R, R),
            (COLUMNS, R, COLUMNS),
            (logits, LABELS, weight),
            loss_whole(logits, weight),
        ),
    }  # fmt: skip
