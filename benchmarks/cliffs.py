"""``python -m benchmarks.cliffs [--family PART] [--most N] [--step K] [--jax] [--json FILE]``.

Where one more row, column or channel costs far more than its share. Each family of
``cliff_families`` runs at neighbouring sizes: all up to 70, then powers of two, their neighbours
and primes. Of every size it shows what a unit of work takes beside the size before, the time of
JAX over phix's, and the time over what the cost model foresees; and of every step larger than
STEP the kernels of the slower size, and the rewrite without which that size is faster.

A unit of work is what the cost model says the call must take on this machine, from its operations
and its traffic with memory, and two speeds that are measured first.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.__main__ import pin
from benchmarks.cliff_families import FAMILIES, Family, floats

STEP = 1.5  # between neighbours, for a unit of work
SLOWER = 0.8  # of JAX
MISSED = 3.0  # by the cost model
# Two sizes are neighbours if one is at most this much larger.
NEAR = 1.15
_SPAN, _REPEATS = 0.002, 9
_CALL = 1e-6  # what a call takes that has nothing to do, in seconds
_LEAST = 20e-6  # below this a step says little


@dataclass(frozen=True)
class Point:
    """One size of a family; times in seconds."""

    family: str
    n: int
    took: float
    foreseen: float
    peer: float | None = None


@dataclass(frozen=True)
class Speeds:
    """What this machine does: operations a second, and bytes a second."""

    operations: float
    bytes: float

    def foreseen(self, cost: Any) -> float:
        # a transcendental function is some 10 operations of its polynomial
        work = cost.flops + 10 * cost.transcendentals
        return _CALL + max(
            work / self.operations, (cost.bytes_read + cost.bytes_written) / self.bytes
        )


# -- sizes ----------------------------------------------------------------------------------------
def sizes(most: int, step: int = 1) -> list[int]:
    """All up to 70, every ``step``-th of them, then powers of two, their neighbours and primes."""
    found = set(range(1, min(most, 70) + 1, step))
    power = 64
    while power <= most:
        found |= {power - 1, power, power + 1, 3 * power // 2}
        found |= {_prime_from(power * 5 // 4), _prime_from(power * 7 // 4)}
        power *= 2
    return sorted(n for n in found if n <= most)


def _prime_from(n: int) -> int:
    while any(n % k == 0 for k in range(2, int(n**0.5) + 1)):
        n += 1
    return n


# -- measuring ------------------------------------------------------------------------------------
def lowest(call: Callable[[], Any]) -> float:
    """The least time of a call among some repeats: others use the machine as well."""
    call()
    count, found = 1, _time(call, 1)
    while found * count < _SPAN:
        count *= 2
        found = _time(call, count)
    return min(found, *(_time(call, count) for _ in range(_REPEATS)))


def _time(call: Callable[[], Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def speeds() -> Speeds:
    """By a product from the caches and a copy from memory, both phix's own."""
    import phix

    x, y = phix.to_tensor(floats(512, 512)), phix.to_tensor(floats(16 << 20))
    product, copy = phix.jit(lambda t: t @ t), phix.jit(lambda t: t * 2.0)
    return Speeds(2 * 512**3 / lowest(lambda: product(x)), 2 * y.nbytes / lowest(lambda: copy(y)))


class Phix:
    """A family compiled by phix, with rewrites left out."""

    def __init__(self, family: Family, n: int, without: tuple[str, ...] = ()) -> None:
        import phix
        import phix.numpy as pnp

        self.args = [phix.to_tensor(a) for a in family.arguments(n)]
        self.compiled = phix.jit(
            lambda *args: family.function(pnp, phix, *args), disable=without, dynamic=False
        )
        self.lowered = self.compiled.lower(*self.args)

    def call(self) -> Any:
        return self.compiled(*self.args)

    @property
    def text(self) -> str:
        return self.lowered.sections["loop ir"]

    def kernels(self) -> list[str]:
        return [line.strip() for line in self.text.splitlines() if line.startswith("  kernel")]


def by_jax(family: Family, n: int) -> Callable[[], Any]:
    import jax
    import jax.numpy as jnp

    args = [jnp.asarray(a) for a in family.arguments(n)]
    compiled = jax.jit(lambda *args: family.function(jnp, jax, *args))
    return lambda: jax.block_until_ready(compiled(*args))


def point(family: Family, n: int, machine: Speeds, is_beside_jax: bool) -> Point:
    """A size measured; beside JAX, whose result must be equal."""
    ours = Phix(family, n)
    peer = by_jax(family, n) if is_beside_jax else None
    if peer is not None:
        _check(family, n, np.asarray(ours.call()), np.asarray(peer()))
    foreseen = machine.foreseen(ours.lowered.cost_analysis())
    return Point(
        family.name, n, lowest(ours.call), foreseen, None if peer is None else lowest(peer)
    )


def _check(family: Family, n: int, ours: np.ndarray, theirs: np.ndarray) -> None:
    if np.issubdtype(ours.dtype, np.integer):
        np.testing.assert_array_equal(ours, theirs, err_msg=f"{family.name}, n = {n}")
        return
    size = float(np.abs(theirs).max(initial=0.0))
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3 * size, err_msg=family.name)


# -- steps ----------------------------------------------------------------------------------------
def steps(family: Family, points: list[Point]) -> Iterator[tuple[Point, Point, float]]:
    """Neighbours of which one takes STEP times as long for its work: faster, slower, by how much.
    Each is measured once more: others use the machine as well."""
    for before, after in itertools.pairwise(points):
        if after.n > max(before.n * NEAR, before.n + 1):
            continue
        if min(before.took, after.took) < _LEAST or _step(before, after) < STEP:
            continue
        before, after = (_again(family, p) for p in (before, after))
        if _step(before, after) >= STEP:
            slower, faster = (after, before) if _unit(after) > _unit(before) else (before, after)
            yield faster, slower, _step(before, after)


def _unit(p: Point) -> float:
    return p.took / p.foreseen


def _step(before: Point, after: Point) -> float:
    ratio = _unit(after) / _unit(before)
    return max(ratio, 1 / ratio)


def _again(family: Family, p: Point) -> Point:
    return replace(p, took=min(p.took, lowest(Phix(family, p.n).call)))


def at_fault(family: Family, n: int) -> list[tuple[str, float]]:
    """Rewrites that change the program of a size, and how much faster it is without each."""
    from phix.core import rewrites

    whole = Phix(family, n)
    took, found = lowest(whole.call), []
    for name in rewrites.known():
        part = Phix(family, n, (name,))
        if part.text != whole.text:
            gain = took / lowest(part.call)
            if gain > 1.2:
                found.append((name, gain))
    return sorted(found, key=lambda pair: -pair[1])


# -- showing --------------------------------------------------------------------------------------
def line(p: Point, before: Point | None) -> str:
    unit = "" if before is None else f"{_unit(p) / _unit(before):6.2f}"
    peer = "" if p.peer is None else f"{p.peer / p.took:6.2f}"
    model = _unit(p)
    marks = "".join(
        mark
        for mark, is_so in (
            (" slower than JAX", p.peer is not None and p.peer / p.took < SLOWER),
            (" not foreseen", p.took > _LEAST and not 1 / MISSED < model < MISSED),
        )
        if is_so
    )
    return f"{p.n:6d} {p.took * 1e6:10.1f} us {unit:>7} {peer:>7} {model:7.2f}{marks}"


def sweep(family: Family, wanted: list[int], machine: Speeds, is_beside_jax: bool) -> list[Point]:
    """The points of a family, printed as they come, and then its steps."""
    print(f"\n{family.name}\n     n       took    a unit  of JAX   model")
    points: list[Point] = []
    for n in wanted:
        points.append(point(family, n, machine, is_beside_jax))
        print(line(points[-1], points[-2] if len(points) > 1 else None), flush=True)
    for faster, slower, ratio in steps(family, points):
        print(f"  step: n = {slower.n} takes {ratio:.2f} times what n = {faster.n} does")
        print("\n".join(f"    {text}" for text in Phix(family, slower.n).kernels()))
        for name, gain in at_fault(family, slower.n):
            print(f"    {gain:.2f} times as fast without {name}")
    return points


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.cliffs", description="Find steps in time.")
    parser.add_argument("--family", default="", metavar="PART", help="families that hold this")
    parser.add_argument("--most", type=int, default=1 << 20, help="the largest size")
    parser.add_argument("--step", type=int, default=1, help="every K-th of the sizes up to 70")
    parser.add_argument("--jax", action="store_true", help="beside JAX")
    parser.add_argument("--threads", type=int, default=2, help="for each library (2)")
    parser.add_argument("--json", type=Path, help="write the points there as well")
    given = parser.parse_args()
    pin(given.threads)
    machine = speeds()
    print(f"{machine.operations / 1e9:.1f} GFLOP/s, {machine.bytes / 1e9:.1f} GB/s")
    points: list[Point] = []
    for name, family in FAMILIES.items():
        if given.family in name:
            wanted = sizes(min(given.most, family.most), given.step)
            points += sweep(family, wanted, machine, given.jax)
    if given.jax:
        _summary(points)
    if given.json:
        given.json.write_text(json.dumps([asdict(p) for p in points], indent=1) + "\n")


def _summary(points: list[Point]) -> None:
    ratios = np.array([p.peer / p.took for p in points if p.peer is not None])
    mean, slow = np.exp(np.log(ratios).mean()), int((ratios < SLOWER).sum())
    print(f"\n{len(ratios)} sizes: {mean:.2f} times JAX by geometric mean, {slow} below {SLOWER}")


if __name__ == "__main__":
    main()
