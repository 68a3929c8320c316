"""Programs over tables and graphs: dynamic programming, paths, links, tours.

Each function says where the program is known from; sizes are places of a table, or nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.published import Library, program


@program("annealing: a tour by reversals", 100, 7, 1000, tolerance=1e-4)
def annealing(lib: Library, n: int) -> Any:
    """Kirkpatrick, Gelatt and Vecchi 1983: n towns, 200 reversals (Lin's 2-opt), cooling."""
    x = lib.np

    def length(tour: Any, towns: Any) -> Any:
        path = towns[tour]
        return x.sum(x.sqrt(x.sum((path - x.roll(path, -1, axis=0)) ** 2, axis=1)))

    def run(towns: Any) -> Any:
        def step(carry: Any, key: Any) -> Any:
            tour, size, heat = carry
            first, second = lib.random.split(key)
            ends = x.sort((n * lib.random.uniform(first, (2,), "float32")).astype("int32"))
            at = x.arange(n, dtype="int32")
            inside = (at >= ends[0]) & (at <= ends[1])
            other = tour[x.where(inside, ends[0] + ends[1] - at, at)]
            after = length(other, towns)
            chance = x.exp(x.minimum((size - after) / heat, 0.0))
            accept = lib.random.uniform(second, (), "float32") < chance
            tour, size = x.where(accept, other, tour), x.where(accept, after, size)
            return (tour, size, 0.98 * heat), size

        tour = x.arange(n, dtype="int32")
        keys = lib.random.split(lib.random.key(0), 200)
        start = (tour, length(tour, towns), 0.0 * towns[0, 0] + 0.1)
        (tour, _, _), sizes = lib.lax.scan(step, start, keys)
        return sizes

    return run, (np.random.default_rng(0).random((n, 2)).astype(np.float32),)


@program("pagerank: links scattered until it stands", 1000, 11, 20000)
def pagerank(lib: Library, n: int) -> Any:
    """Page et al. 1999: n pages, eight links each, power iteration by scatter-add."""
    x = lib.np

    def run(sources: Any, targets: Any) -> Any:
        degree = x.zeros(n, dtype="float64").at[sources].add(1.0)
        share = x.where(degree > 0.0, 1.0 / x.maximum(degree, 1.0), 0.0)

        def step(state: Any) -> Any:
            rank, _, count = state
            given = x.zeros_like(rank).at[targets].add((rank * share)[sources])
            lost = x.sum(x.where(degree > 0.0, 0.0, rank))
            after = 0.85 * (given + lost / n) + 0.15 / n
            return after, x.sum(x.abs(after - rank)), count + 1

        start = (x.full(n, 1.0 / n, dtype="float64"), x.asarray(np.float64(1.0)), 0)
        going = lambda state: (state[1] > 1e-8) & (state[2] < 100)  # noqa: E731
        return lib.lax.while_loop(going, step, start)[0]

    rng = np.random.default_rng(0)
    return run, (rng.integers(0, n, 8 * n), (n * rng.random(8 * n) ** 2).astype(np.int64))


@program("edit distance: rows by associative minima", 200, 7, 1000)
def edit_distance(lib: Library, n: int) -> Any:
    """Wagner and Fischer 1974: words of n letters; a row is a running minimum (Hyyro 2004)."""
    x = lib.np

    def run(a: Any, b: Any) -> Any:
        at = x.arange(n + 1)

        def row(above: Any, letter: Any) -> Any:
            changed = x.minimum(above[:-1] + (b != letter), above[1:] + 1)
            free = x.concatenate([above[:1] + 1, changed])
            here = lib.lax.associative_scan(x.minimum, free - at) + at
            return here, None

        return lib.lax.scan(row, at, a)[0][-1]

    rng = np.random.default_rng(0)
    return run, (rng.integers(0, 4, n), rng.integers(0, 4, n))


@program("soft-dtw: gradient of aligned series", 60, 5, 200, tolerance=1e-4)
def soft_dtw(lib: Library, n: int) -> Any:
    """Cuturi and Blondel 2017: rows of a soft minimum, one cell after the other, and gradient."""
    x = lib.np

    def distance(a: Any, b: Any) -> Any:
        cost = (a[:, None] - b[None, :]) ** 2
        far = x.full_like(cost[0], 1e6)

        def soft_min(*values: Any) -> Any:
            return -0.1 * lib.special.logsumexp(-x.stack(values) / 0.1, axis=0)

        def row(carry: Any, costs: Any) -> Any:
            above, corner = carry

            def cell(left: Any, entry: Any) -> Any:
                c, up, diagonal = entry
                here = c + soft_min(left, up, diagonal)
                return here, here

            shifted = x.concatenate([corner[None], above[:-1]])
            _, here = lib.lax.scan(cell, 0.0 * corner + 1e6, (costs, above, shifted))
            return (here, 0.0 * corner + 1e6), None

        return lib.lax.scan(row, (far, 0.0 * a[0]), cost)[0][0][-1]

    at = np.linspace(0.0, 6.0, n)
    args = np.sin(at).astype(np.float32), np.cos(at).astype(np.float32)
    return lib.fx.value_and_grad(distance), args


@program("knapsack: items one by one, and which", 1000, 13, 10000)
def knapsack(lib: Library, n: int) -> Any:
    """Bellman 1957; Martello and Toth 1990, 2.6: 50 items, capacity n, the choice traced back."""
    x = lib.np

    def run(weights: Any, values: Any) -> Any:
        room = x.arange(n + 1)

        def add(best: Any, item: Any) -> Any:
            weight, value = item
            taken = x.where(room >= weight, best[x.maximum(room - weight, 0)] + value, -1)
            return x.maximum(best, taken), taken > best

        best, better = lib.lax.scan(add, x.zeros_like(room), (weights, values))

        def back(left: Any, item: Any) -> Any:
            weight, choices = item
            chosen = choices[left]
            return left - x.where(chosen, weight, 0), chosen

        return best[-1], lib.lax.scan(back, x.asarray(n), (weights, better), reverse=True)[1]

    rng = np.random.default_rng(0)
    return run, (rng.integers(1, 2 + n // 10, 50), rng.integers(1, 100, 50))


@program("viterbi: best paths by vmap", 32, 3, 128)
def viterbi(lib: Library, n: int) -> Any:
    """Viterbi 1967; Rabiner 1989, III.B: n states, 100 symbols, 8 sequences, paths traced back."""
    x = lib.np

    def decode(start: Any, moves: Any, emits: Any, symbols: Any) -> Any:
        def step(best: Any, symbol: Any) -> Any:
            ways = best[:, None] + moves
            return x.max(ways, axis=0) + emits[:, symbol], x.argmax(ways, axis=0)

        best, sources = lib.lax.scan(step, start + emits[:, symbols[0]], symbols[1:])

        def back(state: Any, source: Any) -> Any:
            return source[state], state

        last = x.argmax(best)
        first, path = lib.lax.scan(back, last, sources, reverse=True)
        return x.max(best), x.concatenate([first[None], path])

    rng = np.random.default_rng(0)
    draw = lambda *shape: np.log(rng.dirichlet(np.ones(shape[-1]), shape[:-1])).astype("f")  # noqa: E731
    args = draw(n), draw(n, n), draw(n, 12), rng.integers(0, 12, (8, 100))
    return lib.fx.vmap(decode, (None, None, None, 0)), args


@program("floyd-warshall: all shortest paths", 100, 7, 256)
def floyd_warshall(lib: Library, n: int) -> Any:
    """Floyd 1962, Warshall 1962: n places, one of them after the other as the way between."""
    x = lib.np

    def run(apart: Any) -> Any:
        def through(k: Any, d: Any) -> Any:
            return x.minimum(d, d[:, k][:, None] + d[k][None, :])

        return lib.lax.fori_loop(0, n, through, apart)

    rng = np.random.default_rng(0)
    apart = np.where(rng.random((n, n)) < 0.2, rng.random((n, n)), 1e3)
    return run, (np.where(np.eye(n, dtype=bool), 0.0, apart).astype(np.float32),)
