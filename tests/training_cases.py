"""Networks on a mesh, beside NumPy: attention in a ring, experts, and stages of a pipeline.

Cases of tests/parallel_cases.py, whose meshes and processes run them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import phix
from phix import ops
from phix.parallel import experts, global_gather, global_scatter, pipeline, ring_attention
from tests.parallel_cases import Case

D, R = "data", None
HIDDEN = 3


# -- attention -------------------------------------------------------------------------------------
def attention(q: Any, k: Any, v: Any, ct: Any, is_causal: bool) -> tuple[Any, ...]:
    """The attention of [n, length, heads, size], and the cotangents of q, k and v."""
    each = q.shape[2] // k.shape[2]
    q, k, v, ct = (x.swapaxes(1, 2) for x in (q, k, v, ct))
    wide, deep = np.repeat(k, each, 1), np.repeat(v, each, 1)
    scores = q @ wide.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if is_causal:
        scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    to_weights = ct @ deep.swapaxes(-1, -2)
    lost = (weights * to_weights).sum(-1, keepdims=True)
    to_scores = weights * (to_weights - lost) / np.sqrt(q.shape[-1])
    shared = lambda x: x.reshape(*k.shape[:2], each, *x.shape[2:]).sum(2)  # noqa: E731
    found = (weights @ deep, to_scores @ wide, shared(to_scores.swapaxes(-1, -2) @ q),
             shared(weights.swapaxes(-1, -2) @ ct))  # fmt: skip
    return tuple(x.swapaxes(1, 2) for x in found)


def attention_cases(n: int) -> dict[str, Case]:
    rng = np.random.default_rng(3)
    q, ct = rng.normal(size=(2, 1, 3 * n, 2, 4))
    k, v = rng.normal(size=(2, 1, 3 * n, 1, 4))

    def both(is_causal: bool) -> Any:
        def run(q: Any, k: Any, v: Any, ct: Any) -> Any:
            attend = lambda *x: ring_attention(*x, D, is_causal=is_causal)  # noqa: E731
            out, pull = phix.vjp(attend, q, k, v)
            return (out, *pull(ct))

        return run

    piece = (R, D)
    return {
        f"attention, {'causal' if c else 'whole'}": Case(
            both(c), (piece,) * 4, piece, (q, k, v, ct), attention(q, k, v, ct, c)
        )
        for c in (True, False)
    }


# -- experts ---------------------------------------------------------------------------------------
def routed(w: Any, x: Any, shares: Any, ct: Any, n: int, room: int) -> tuple[Any, ...]:
    """The sum over the two experts of each token, and cotangents; a part sends an expert at most
    ``room`` tokens."""
    out, to_w, to_x, to_shares = (np.zeros_like(a) for a in (x, w, x, shares))
    order = np.argsort(-shares, 1)[:, :2]
    rows = len(x) // n
    for part in range(n):
        used = np.zeros(len(w), int)
        for choice in (0, 1):
            for t in range(part * rows, (part + 1) * rows):
                e = order[t, choice]
                used[e] += 1
                if used[e] > room:
                    continue
                out[t] += shares[t, e] * (x[t] @ w[e])
                to_w[e] += shares[t, e] * np.outer(x[t], ct[t])
                to_x[t] += shares[t, e] * w[e] @ ct[t]
                to_shares[t, e] = x[t] @ w[e] @ ct[t]
    return out, to_w, to_x, to_shares


def expert_cases(n: int) -> dict[str, Case]:
    rng = np.random.default_rng(4)
    w, x, ct = (rng.normal(size=s) for s in ((2 * n, 3, 3), (4 * n, 3), (4 * n, 3)))
    shares = rng.uniform(size=(4 * n, 2 * n))

    def run(w: Any, x: Any, shares: Any, ct: Any) -> Any:
        layer = lambda *a: experts(lambda w, rows: rows @ w, *a, D, capacity=1)  # noqa: E731
        out, pull = phix.vjp(layer, w, x, shares)
        return (out, *pull(ct))

    return {
        "experts": Case(run, (D,) * 4, D, (w, x, shares, ct), routed(w, x, shares, ct, n, 1)),
        "rows to experts": rows_to_experts(n, rng),
    }


def delivered(x: Any, counts: Any, n: int, rows: int) -> tuple[Any, Any]:
    """What arrives at each of n parts, of x [n, ...] and counts [n, parts, experts]: the rows, and
    their numbers among all that were sent; -1 where none came."""
    out, came_from = np.zeros((n, rows, *x.shape[2:])), np.full((n, rows), -1)
    for part in range(n):
        place = 0
        for e in range(counts.shape[2]):
            for sender in range(n):
                first = counts[sender].reshape(-1)[: part * counts.shape[2] + e].sum()
                for row in range(first, first + counts[sender, part, e]):
                    if place < rows and row < x.shape[1]:
                        out[part, place] = x[sender, row]
                        came_from[part, place] = sender * x.shape[1] + row
                    place += 1
    return out, came_from


def rows_to_experts(n: int, rng: np.random.Generator) -> Case:
    """Each expert takes its rows times its number; results come back, and cotangents."""
    local, rows = 5, 4 * n
    counts = np.zeros((n, n, 2), int)
    for part in range(n):
        np.add.at(counts[part].reshape(-1), rng.integers(0, 2 * n, local - part % 2), 1)
    x, ct = rng.normal(size=(2, n, local, 3))
    factor = rng.normal(size=(n, rows, 1))
    there, came_from = delivered(x, counts, n, rows)
    back, to_x = np.zeros((2, n * local, 3))
    for at, source in zip(np.ndindex(n, rows), came_from.reshape(-1)):
        if source >= 0:
            back[source] = factor[at] * there[at]
            to_x[source] = factor[at] * ct.reshape(-1, 3)[source]

    def run(x: Any, counts: Any, factor: Any, ct: Any) -> Any:
        def layer(x: Any) -> Any:
            there, number = global_scatter(x, counts, D, rows=rows, drops=True)
            return global_gather(factor * there, counts, D, rows=local, drops=True), there, number

        back, pull = phix.vjp(lambda x: layer(x)[0], x)
        return (back, *layer(x)[1:], *pull(ct))

    flat = [v.reshape(-1, *v.shape[2:]) for v in (x, factor, ct, there)]
    args = (flat[0], counts.reshape(-1), flat[1], flat[2])
    came = counts.swapaxes(0, 1).reshape(-1)
    return Case(run, (D,) * 4, D, args, (back, flat[3], came, to_x))


# -- stages ----------------------------------------------------------------------------------------
def stage(w: Any, x: Any) -> Any:
    return x + ops.tanh(x @ w[0])


def last(head: Any, x: Any, y: Any) -> Any:
    return ((x @ head - y) ** 2).mean()


def staged(w: Any, head: Any, xs: Any, ys: Any) -> Any:
    """The mean loss of all microbatches through all stages, and its gradients."""
    total, grads = 0.0, [np.zeros_like(a) for a in (w, head, xs, ys)]
    for number, (x, y) in enumerate(zip(xs, ys)):
        kept = [x]
        for u in w:
            kept.append(kept[-1] + np.tanh(kept[-1] @ u))
        off = kept[-1] @ head - y
        total += (off**2).mean()
        ct = 2 * off / off.size
        grads[3][number] = -ct
        grads[1] += kept[-1].T @ ct
        grads[3][number] = -ct
        ct = ct @ head.T
        for s in reversed(range(len(w))):
            bent = ct * (1 - (kept[s + 1] - kept[s]) ** 2)
            grads[0][s] += kept[s].T @ bent
            ct = ct + bent @ w[s].T
        grads[2][number] = ct
    return tuple(v / len(xs) for v in (total, *grads))


def pipeline_cases(n: int) -> dict[str, Case]:
    rng = np.random.default_rng(5)
    w, head = rng.normal(size=(n, HIDDEN, HIDDEN)) / 2, rng.normal(size=(HIDDEN, 2))
    xs, ys = rng.normal(size=(5, 2, HIDDEN)), rng.normal(size=(5, 2, 2))
    value, *grads = staged(w, head, xs, ys)

    def run(w: Any, head: Any, xs: Any, ys: Any) -> Any:
        loss = lambda *a: pipeline(stage, last, *a, D)  # noqa: E731
        value, grads = phix.value_and_grad(loss, argnums=(0, 1, 2, 3))(w, head, xs, ys)
        return (value, *grads)

    forward = lambda *a: pipeline(stage, last, *a, D)  # noqa: E731
    return {
        "stages": Case(run, (D, R, R, R), (R, D, R, R, R), (w, head, xs, ys), (value, *grads)),
        "stages forward": Case(forward, (D, R, R, R), R, (w, head, xs, ys), value),
    }


def training_cases(data: Any) -> dict[str, Case]:
    """By name, for a mesh of ``data.n`` parts."""
    made = (attention_cases, expert_cases, pipeline_cases)
    return {name: case for family in made for name, case in family(data.n).items()}
