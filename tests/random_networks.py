"""Random networks, under stacks of transformations: compiled in several ways, eager, and in NumPy.

``python -m tests.random_networks 2000 SEED`` draws that many, from seeds SEED, SEED + 1, ..., and
prints each that goes wrong with the command that draws it again. Each runs in float64, compiled
with no rewrite at all: NumPy checks its loss and directional derivative there (and JAX everything,
for one seed in --jax, where it is installed). All else is compared with that: it runs eagerly in
its own dtype, and compiled in one or two ways: with rewrites left out, memory given away, dims
unknown, loops cut into pieces that run in several orders. What earlier calls returned must stay as
it was, and nothing may write into arguments.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

import phix
from phix.core import pytrees, rewrites
from tests.machine_code import unoptimised
from tests.networks import checking, pieces
from tests.networks.backends import Numpy, Phix, jax_backend
from tests.networks.draw import Draw, Model
from tests.networks.models import draw_model
from tests.networks.targets import Target, draw_target, leaves
from tests.networks.ways import (
    LOOPS,
    NO_REWRITES,
    Compiled,
    Way,
    arguments,
    cast,
    draw_ways,
    other_sizes,
    tensors,
)

os.environ.setdefault("PHIX_VERIFY", "1")  # loops are verified between all passes

DTYPES = {"float32": 5.0, "float64": 3.0, "float16": 0.8, "bfloat16": 0.8}
# words of models in whose eager runs something is compiled
COMPILED_WHEN_EAGER = ("scan", "fori", "while", "checkpoint", "jit", "rnn", "gru", "lstm")


class Mismatch(Exception):
    """Two runs of one program differ; ``way`` is how the wrong one was compiled."""

    way: Way | None = None


@dataclass
class Network:
    """A drawn program: the model, what is computed of it, and its data in float64."""

    seed: int
    draw: Draw
    model: Model
    target: Target
    dtype: str
    args: Any
    ways: list[Way]

    @cached_property
    def reference(self) -> Callable[[Any], list[Any]]:
        """The target compiled with no rewrite, for arguments in float64: one small program, where
        an eager run would compile one for each op."""
        compiled = Compiled(NO_REWRITES, self.target, self.model, self.args)
        return lambda args: leaves(compiled(args))

    def __str__(self) -> str:
        lines = [f"seed {self.seed}, {self.dtype}", *self.model.text]
        for name, entries in (("p", self.model.params), ("d", self.model.data)):
            shapes = {k: e.sized(self.model.sizes) for k, e in entries.items()}
            lines.append(f"{name}: " + ", ".join(f"{k} {list(s)}" for k, s in shapes.items()))
        return "\n".join(lines)


def draw_network(seed: int) -> Network:
    draw = Draw(seed)
    model = draw_model(draw)
    target = draw_target(draw)
    dtype = draw.weighted(
        {k: DTYPES[k] for k in ("float32", "float64")} if model.is_complex else DTYPES
    )
    if dtype in ("float16", "bfloat16") and not model.is_smooth and draw.chance(0.6):
        dtype = "float32"  # at kinks rounding to so few bits jumps
    args = arguments(model, np.random.default_rng([seed, 1]), model.sizes)
    args = cast(cast(args, dtype), "float64")  # values that the dtype has
    ways = draw_ways(draw, target, bool(model.sizes))
    ways = [replace(w, learnt=w.unknown and seed % 2 == 1) for w in ways]
    return Network(seed, draw, model, target, dtype, args, ways)


# -- references --------------------------------------------------------------------------------
def check_against_numpy(net: Network) -> bool:
    """The loss, and its derivative along the tangents; whether there was anything to compare."""
    model, (p, d, t) = net.model, net.args
    B = Numpy()

    def loss(s: float) -> float:
        with np.errstate(all="ignore"):
            return float(np.real(model.loss(B, {k: p[k] + s * t[k] for k in p}, d)))

    f = phix.value_and_grad(lambda p, d: model.loss(Phix, p, d))
    with NO_REWRITES.scope():
        value, g = phix.jit(f, disable=NO_REWRITES.off)(*tensors((p, d)))
    wanted = loss(0.0)
    found = float(np.asarray(value))
    if not np.isfinite(wanted):
        return False
    if not abs(found - wanted) <= 1e-6 * (1.0 + abs(wanted)):  # inner derivatives are differences
        raise Mismatch(f"loss in NumPy: {wanted!r}, not {found!r}")
    along = [np.real(np.conj(np.asarray(g[k])) * t[k]) for k in p]
    scale = 1.0 + sum(float(np.abs(a).sum()) for a in along)
    found = sum(float(a.sum()) for a in along)
    slopes = []
    for h in (1e-3, 2e-5):  # smaller steps cross fewer kinks, larger ones round less
        coarse, fine = ((loss(s) - loss(-s)) / (2 * s) for s in (h, h / 2))
        slopes.append((abs(fine - coarse), (4 * fine - coarse) / 3))
        if abs(found - slopes[-1][1]) <= slopes[-1][0] + 1e-8 * scale:
            return True
    off, slope = min(slopes)
    if off > 1e-5 * scale:
        return False
    if not abs(found - slope) <= 3.0 * off + 1e-7 * scale:
        raise Mismatch(f"derivative of the loss in NumPy: {slope!r}, not {found!r} +- {off:.1g}")
    return True


def check_against_jax(net: Network, found: list[Any]) -> bool:
    """All of the target, in JAX in float64."""
    B = jax_backend()
    if B is None:
        return False
    try:
        wanted = leaves(_in_jax(B, net))
    except ValueError as error:
        if "Reverse-mode differentiation does not work" not in str(error):
            raise
        return False  # JAX has no gradient of a while loop
    close = checking.expected(wanted, [], "float64")
    for e in close:
        e.error = 1e-8 * (1e-3 + float(np.max(np.abs(e.value), initial=0.0)))
    wrong = checking.difference(found, close, np.inf)
    if wrong:
        raise Mismatch(f"float64 without rewrites, beside JAX: {wrong}")
    return True


def _in_jax(B: Any, net: Network) -> Any:
    import jax

    args = pytrees.map(B.xp.asarray, net.args)
    return jax.tree.map(np.asarray, jax.jit(net.target.make(B))(*args))


# -- checks ------------------------------------------------------------------------------------
def check(net: Network, jax_too: bool, counts: Counter[str]) -> None:
    """Run a network in every way.

    Raises:
        Mismatch: two ways differ.
    """
    rng = np.random.default_rng([net.seed, 2])
    wide = net.reference(net.args)
    if net.seed % 2 == 0:
        counts["with NumPy"] += check_against_numpy(net)
    if jax_too:
        counts["with JAX"] += check_against_jax(net, wide)
    wanted = _expected(net, net.args, wide, rng)
    most = float(np.finfo(np.float32).max if net.dtype != "float16" else 6e4) / 4
    own = cast(net.args, net.dtype)
    _compare("eager", eager(net, own), wanted, most, lambda: _spread(net, net.args, rng))
    text = " ".join(net.model.text)
    is_compiled = any(k in text for k in COMPILED_WHEN_EAGER)
    if is_compiled and net.seed % 3 == 0 and net.dtype != "float64":  # so are eager loops
        counts["programs"] += 1
        found = Compiled(NO_REWRITES, net.target, net.model, own)(own)
        _compare(
            "jit, no rewrites", leaves(found), wanted, most, lambda: _spread(net, net.args, rng)
        )
    for way in net.ways:
        counts["programs"] += 1
        counts["with unknown dims"] += way.unknown
        counts["with learnt dims"] += way.learnt
        counts["with donation"] += bool(way.donated)
        counts["with a memory limit"] += way.limited
        try:
            _check_way(net, way, own, wanted, most, rng, counts)
        except Mismatch as error:
            error.way = way
            raise


def eager(net: Network, args: Any) -> list[Any]:
    """The target op by op; what LLVM's optimiser makes of programs is seen in compiled ones."""
    with unoptimised():
        return leaves(net.target.make(Phix)(*tensors(args)))


def _expected(net: Network, args: Any, wide: list[Any], rng: Any) -> list[checking.Expected]:
    epsilon = checking.EPSILON[net.dtype]
    times = 1 if epsilon < 1e-6 else 3
    others = [net.reference(checking.moved(args, epsilon, rng)) for _ in range(times)]
    return checking.expected(wide, others, net.dtype)


def _spread(net: Network, args: Any, rng: Any) -> list[list[Any]]:
    """Eager runs in the network's own dtype on inputs moved by rounding: they round elsewhere."""
    epsilon = checking.EPSILON[net.dtype]
    return [eager(net, cast(checking.moved(args, epsilon, rng), net.dtype)) for _ in range(12)]


def _compare(
    what: str, found: list[Any], wanted: list[checking.Expected], most: float,
    spread: Callable[[], list[list[Any]]],
) -> None:  # fmt: skip
    """Raise Mismatch where results are further off than rounding may carry them; where they are
    little further, ``spread`` says what rounding does to them."""
    if checking.difference(found, wanted, most):
        wrong = checking.difference(found, checking.widened(wanted, spread()), most)
        if wrong:
            raise Mismatch(f"{what}: {wrong}")


def _check_way(
    net: Network, way: Way, own: Any, wanted: Any, most: float, rng: Any, counts: Counter[str]
) -> None:
    compiled = Compiled(way, net.target, net.model, own)
    before = [x.tobytes() for x in leaves(own)]
    try:
        first = compiled(own)
    except phix.errors.PhixError:
        if not way.unknown:
            raise
        counts["with unknown dims"] -= 1  # it needs a size while tracing
        return
    kept = [x.copy() for x in leaves(first)]
    _compare(str(way), kept, wanted, most, lambda: _spread(net, net.args, rng))
    if way.work:
        for order in pieces.ORDERS[1:]:
            again = leaves(compiled(own, order))
            if wrong := checking.same_bits(again, kept):
                raise Mismatch(f"{way}, pieces {order}, beside all at once: {wrong}")
    # other data, maybe of other sizes
    sizes = other_sizes(net.draw, net.model) if way.unknown else net.model.sizes
    args = cast(cast(arguments(net.model, rng, sizes), net.dtype), "float64")
    wide = net.reference(args)
    others = _expected(net, args, wide, rng) if way.unknown else checking.rescaled(wanted, wide)
    for turn in ("second", "third"):
        found = leaves(compiled(cast(args, net.dtype)))
        what = f"{way}, {turn} call, sizes {sizes}"
        _compare(what, found, others, most, lambda: _spread(net, args, rng))
    if wrong := checking.same_bits(leaves(first), kept):
        raise Mismatch(f"{way}: results of the first call changed by later ones: {wrong}")
    if before != [x.tobytes() for x in leaves(own)]:
        raise Mismatch(f"{way}: arguments were written to")


# -- draws -------------------------------------------------------------------------------------
@dataclass
class Outcome:
    """One draw, and what went wrong, if anything did."""

    seed: int
    network: Network | None = None
    error: str = ""
    way: Way | None = None  # that went wrong
    counts: Counter[str] = field(default_factory=Counter)

    def report(self) -> str:
        lines = [str(self.network or f"seed {self.seed}"), self.error]
        if self.network and self.way:
            lines.append(f"right without {', or without '.join(self.blamed()) or 'no rewrite'}")
        return "\n".join([*lines, f"again: python -m tests.random_networks 1 {self.seed}"])

    def blamed(self) -> list[str]:
        """The rewrites of loops, and other settings, without which all is right."""
        assert self.way is not None
        others = {
            r: replace(self.way, off=(*self.way.off, r)) for r in LOOPS if r not in self.way.off
        }
        others |= {
            "donation": replace(self.way, donated=()),
            "unknown dims": replace(self.way, unknown=False),
            "memory limit": replace(self.way, limited=False),
            "sharing": replace(self.way, work=0),
            "LLVM's passes": replace(self.way, is_quick=True),
        }
        return [name for name, way in others.items() if way != self.way and self._is_right(way)]

    def _is_right(self, way: Way) -> bool:
        net = replace(draw_network(self.seed), ways=[way])
        try:
            check(net, False, Counter())
        except Exception:
            return False
        return True


def _goes_wrong_again(net: Network) -> bool:
    """Whether other data goes wrong too: where rounding crossed a kink, it does not."""
    for turn in (1, 2):
        args = arguments(net.model, np.random.default_rng([net.seed, 100, turn]), net.model.sizes)
        try:
            check(replace(net, args=cast(cast(args, net.dtype), "float64")), False, Counter())
        except Mismatch:
            return True
    return False


def run_draw(
    seed: int, jax_too: bool = False, off: tuple[str, ...] = (), most_ways: int = 2
) -> Outcome:
    """The network of a seed, checked in every way; without the rewrites ``off``."""
    pieces.install()
    outcome = Outcome(seed)
    try:
        outcome.network = net = draw_network(seed)
        net.ways = [
            replace(w, off=tuple(dict.fromkeys((*w.off, *off)))) for w in net.ways[:most_ways]
        ]
        with rewrites.without(frozenset(off)):
            try:
                check(net, jax_too, outcome.counts)
            except Mismatch as error:
                if net.model.is_smooth or _goes_wrong_again(net):
                    raise
                outcome.counts["jumps at kinks"] += 1
                print(f"seed {seed}, with this data alone, at a kink: {error}", flush=True)
    except Mismatch as error:
        outcome.error, outcome.way = f"MISMATCH {error}", error.way
    except Exception:
        outcome.error = traceback.format_exc()
    return outcome


def main(argv: list[str] | None = None, run: Callable[..., Outcome] = run_draw) -> int:
    """The command line; the exit status is 1 where anything went wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("count", nargs="?", type=int, default=200, help="how many (200)")
    parser.add_argument("seed", nargs="?", type=int, help="the first seed (one of the clock's)")
    parser.add_argument("--off", default="", help="rewrites to leave out, by commas")
    parser.add_argument("--seconds", type=float, help="stop after that time")
    parser.add_argument("--jax", type=int, default=50, help="JAX for one seed in so many (50)")
    parser.add_argument("--show", action="store_true", help="print every network")
    options = parser.parse_args(argv)
    off = tuple(name for name in options.off.split(",") if name)
    first = int(time.time()) % 10**9 if options.seed is None else options.seed
    print(f"networks from seed {first}", flush=True)
    start = time.monotonic()
    wrong: list[int] = []
    counts: Counter[str] = Counter()
    for seed in range(first, first + options.count):
        outcome = run(seed, bool(options.jax) and seed % options.jax == 0, off)
        counts["networks"] += 1
        counts += outcome.counts
        if options.show and outcome.network:
            print(outcome.network, *outcome.network.ways, end="\n\n", sep="\n", flush=True)
        if outcome.error:
            wrong.append(seed)
            print(outcome.report(), end="\n\n", flush=True)
        if options.seconds and time.monotonic() - start > options.seconds:
            break
    told = ", ".join(f"{n} {what}" for what, n in counts.items())
    took = f"{time.monotonic() - start:.0f} s (CPU {time.process_time():.0f} s)"
    seeds = f": seeds {', '.join(map(str, wrong))}" if wrong else ""
    print(f"{told}, in {took}; {len(wrong)} mismatches{seeds}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
