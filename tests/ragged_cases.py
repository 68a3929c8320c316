"""As many rows to each part as the data say, beside loops in NumPy; see tests/parallel_cases.py."""

from __future__ import annotations

from typing import Any

import numpy as np

import phix
from phix import ops
from phix.parallel import global_gather, global_scatter
from tests.parallel_cases import Case, D, Data
from tests.training_cases import delivered

LOCAL, EXPERTS = 6, 2


def drawn_counts(n: int, rng: np.random.Generator) -> np.ndarray:
    """Of LOCAL rows of each of n parts how many go to each expert, [n, n, EXPERTS]: all, or not."""
    counts = np.zeros((n, n * EXPERTS), np.int64)
    for part in range(n):
        np.add.at(counts[part], rng.integers(0, n * EXPERTS, LOCAL - part % 3), 1)
    return counts.reshape(n, n, EXPERTS)


def experts_case(n: int, named: bool, rng: np.random.Generator) -> Case:
    """Rows are multiplied by a number of the place that they come to, cubed, and go back; with
    slopes. ``named``: by the ops of Paddle's table, which find the number of rows themselves."""
    counts = drawn_counts(n, rng)
    came = counts.swapaxes(0, 1)
    rows = int(counts.sum((0, 2)).max())
    x = rng.normal(size=(n, LOCAL, 2))
    there, came_from = delivered(x, counts, n, rows)
    factor = rng.normal(size=(n, rows, 1))
    back, slopes = np.zeros((2, n * LOCAL, 2))
    for part in range(n):
        for row in range(rows):
            if (source := came_from[part, row]) >= 0:
                back[source] = (factor * there)[part, row] ** 3
                slopes[source] = 3 * factor[part, row] ** 3 * there[part, row] ** 2
    most_back = int(counts.sum((1, 2)).max()) if named else LOCAL
    back = back.reshape(n, LOCAL, 2)[:, :most_back].reshape(-1, 2)

    def layer(x: Any, counts: Any, came: Any, factor: Any) -> Any:
        if named:
            there = ops.global_scatter(x, counts, came)
            return ops.global_gather((factor * there) ** 3, counts, came), there
        there, _ = global_scatter(x, counts, D, rows=rows)
        return global_gather((factor * there) ** 3, counts, D, rows=LOCAL), there

    def run(x: Any, *others: Any) -> Any:
        return (*layer(x, *others), phix.grad(lambda x: layer(x, *others)[0].sum())(x))

    args = (x.reshape(-1, 2), counts.reshape(-1), came.reshape(-1), factor.reshape(-1, 1))
    return Case(run, (D,) * len(args), D, args, (back, there.reshape(-1, 2), slopes))


def drawn_slices(n: int, rng: np.random.Generator) -> Any:
    """Slices that each of n parts sends to each: where they begin, their sizes, where they lie."""
    sizes = rng.integers(0, 3, (n, n))
    begins, lands = np.zeros((2, n, n), np.int64)
    for part in range(n):
        for table, own in ((begins[part], sizes[part]), (lands[:, part], sizes[:, part])):
            at = 0
            for number in rng.permutation(n):  # in any order, with gaps
                at += rng.integers(0, 2)
                table[number], at = at, at + own[number]
    held = int(max((begins + sizes).max(), sizes.sum(1).max()))
    return begins, sizes, lands, held, int(max((lands + sizes).max(), 1))


def placed(x: Any, out: Any, begins: Any, sizes: Any, lands: Any) -> Any:
    """Of each part, [n, m, ...]."""
    found = np.array(out)
    for sender, receiver in np.ndindex(sizes.shape):
        count = sizes[sender, receiver]
        first, place = begins[sender, receiver], lands[sender, receiver]
        found[receiver, place : place + count] = x[sender, first : first + count]
    return found


def slices_case(n: int, rng: np.random.Generator) -> Case:
    """The sum of squares of what lies there, with slopes by both operands."""
    begins, sizes, lands, held, most = drawn_slices(n, rng)
    x, out = rng.normal(size=(n, held, 2)), rng.normal(size=(n, most, 2))
    found = placed(x, out, begins, sizes, lands)
    to_out = 2 * placed(np.zeros_like(x), out, begins, sizes, lands)
    to_x = np.zeros_like(x)
    for sender, receiver in np.ndindex(n, n):
        first, count = begins[sender, receiver], sizes[sender, receiver]
        to_x[sender, first : first + count] += 2 * x[sender, first : first + count]

    def run(x: Any, out: Any, *tables: Any) -> Any:
        send = lambda x, out: phix.ragged_all_to_all(x, out, *tables, axis_name=D)  # noqa: E731
        loss = lambda x, out: (send(x, out) ** 2).sum()  # noqa: E731
        return (send(x, out), *phix.grad(loss, argnums=(0, 1))(x, out))

    tables = [t.reshape(-1) for t in (begins, sizes, lands, sizes.T)]
    args = (x.reshape(-1, 2), out.reshape(-1, 2), *tables)
    return Case(
        run, (D,) * len(args), D, args, tuple(v.reshape(-1, 2) for v in (found, to_x, to_out))
    )


def batched_case(n: int, rng: np.random.Generator) -> Case:
    """A batch on each part, each element of it with counts of its own."""
    batch = 3
    counts = rng.integers(0, 3, (batch, n, n))
    held, rows = int(counts.sum(2).max()), int(counts.sum(1).max())
    x = rng.normal(size=(batch, n, held))
    ends = np.cumsum(counts, 2)
    begins, sizes, lands = ends - counts, counts, np.cumsum(counts, 1) - counts
    each = zip(x, begins, sizes, lands)
    found = np.stack([placed(v, np.zeros((n, rows)), *tables) for v, *tables in each], 1)

    def run(x: Any, counts: Any) -> Any:
        send = lambda x, c: ops.all_to_allv(x, c, D, rows)  # noqa: E731
        return phix.vmap(send)(x, counts)

    args = (x.swapaxes(0, 1).reshape(-1, held), counts.swapaxes(0, 1).reshape(-1, n))
    return Case(run, (D,) * len(args), D, args, found.reshape(-1, rows))


def ragged_cases(data: Data) -> dict[str, Case]:
    rng = np.random.default_rng(7)
    return {
        "all rows to experts": experts_case(data.n, False, rng),
        "rows to experts by Paddle's names": experts_case(data.n, True, rng),
        "slices with places": slices_case(data.n, rng),
        "a batch of slices": batched_case(data.n, rng),
    }
