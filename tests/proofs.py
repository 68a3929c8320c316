"""Which tests run: a slice of every kind, all, or the slow proofs too, on a budget of time.

``--quick`` keeps a slice of each file's tests, the same for one ``--seed``, in an order that mixes
files; those that would begin after QUICK_SECONDS are skipped. Tests marked ``prove``
run under ``--prove SECONDS`` alone: property tests over fresh seeds, which divide that time, and
proofs too slow for every run, begun as long as it lasts. ``--prove-seed`` is the first seed, one
of the clock's if it is not given, and stands in the header of the run.
"""

from __future__ import annotations

import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import repeat
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet

QUICK_SHARE, QUICK_LEAST = 20, 2  # one test in so many, and at least so many of a file
QUICK_SECONDS = 75.0
PROVED = "proved"  # the property of a report that says what its test drew
SLOW_SHARE = 0.3  # of the time of --prove for slow proofs on each worker
_SPENT = pytest.StashKey[float]()
_START = pytest.StashKey[float]()


def add_options(group: pytest.OptionGroup) -> None:
    group.addoption("--quick", action="store_true", help="a slice of every kind of test")
    group.addoption("--slice", type=int, help="the number of the slice (that of --seed)")
    group.addoption(
        "--prove", type=float, default=0.0, metavar="SECONDS",
        help="run what is marked prove as well, for about so long in all (0: not at all)",
    )  # fmt: skip
    group.addoption("--prove-seed", type=int, help="first seed of what is proved (the clock's)")


def thinned(
    cases: Iterable[Any], kind: Callable[[Any], Any], each: int = 1, ids: Any = str
) -> list[Any]:
    """Cases for ``parametrize``: the first ``each`` of a kind for all runs, the others proofs."""
    counts: dict[Any, int] = defaultdict(int)
    made = []
    for case in cases:
        of = kind(case)
        counts[of] += 1
        marks = [pytest.mark.prove] if counts[of] > each else []
        made.append(pytest.param(case, id=ids(case), marks=marks))
    return made


def settle(config: pytest.Config) -> None:
    """Choose the seed, before workers are started that inherit it."""
    if config.option.prove_seed is None:
        config.option.prove_seed = int(time.time()) % 10**8 * 1000


def header(config: pytest.Config) -> list[str]:
    if not config.option.prove:
        return []
    return [f"prove: {config.option.prove:.0f} s, --prove-seed {config.option.prove_seed}"]


def choose(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests of this run in ``items``; slow proofs last, in an order of the seed's."""
    for item in items:
        if _is_left_out(item):
            item.add_marker("prove")
    named = any("::" in str(a) for a in config.args)
    if not config.option.prove and not named:
        _keep(config, items, [i for i in items if not i.get_closest_marker("prove")])
    if config.option.quick:
        number = config.option.seed if config.option.slice is None else config.option.slice
        _keep(config, items, _slice(items, number))
        items.sort(key=lambda i: _digest(number, i))
        return
    items.sort(key=lambda i: _digest(config.option.prove_seed, i) if _is_slow(i) else -1)


def _is_left_out(item: pytest.Item) -> bool:
    """Whether it is none of the one_in(n) combinations of parameters that all runs have.

    Those are the ones whose places in the lists of parameters have a sum that n divides, so that
    each value meets others.
    """
    mark = item.get_closest_marker("one_in")
    if not mark:
        return False
    return bool(sum(map(_place, repeat(item), item.iter_markers("parametrize"))) % mark.args[0])


def _place(item: pytest.Item, mark: pytest.Mark) -> int:
    """Where the parameter of an item stands in a list: ``callspec.indices`` counts otherwise in
    some releases of pytest."""
    names, values = mark.args[0], mark.args[1]
    is_one = isinstance(names, str) and "," not in names
    name = names if is_one else (names.split(",") if isinstance(names, str) else names)[0].strip()
    params = item.callspec.params  # type: ignore[attr-defined]
    for place, value in enumerate(values):
        given = value.values if isinstance(value, ParameterSet) else (value,) if is_one else value
        if given[0] is params[name]:
            return place
    raise AssertionError(f"{item.nodeid}: one_in needs a list of {name} that can be gone through")


def _is_slow(item: pytest.Item) -> bool:
    """Whether it is a proof that takes the time it takes."""
    return bool(item.get_closest_marker("prove")) and "seconds_of" not in getattr(
        item, "fixturenames", ()
    )


def _digest(seed: int, item: pytest.Item) -> int:
    return zlib.crc32(f"{seed} {item.nodeid}".encode())


def _slice(items: list[pytest.Item], seed: int) -> list[pytest.Item]:
    """Some tests of each file."""
    kinds: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        kinds[str(item.path)].append(item)
    kept: set[str] = set()
    for found in kinds.values():
        found = [i for i in found if not i.get_closest_marker("slow")]
        found.sort(key=lambda i: _digest(seed, i))
        kept.update(i.nodeid for i in found[: max(QUICK_LEAST, len(found) // QUICK_SHARE)])
    return [i for i in items if i.nodeid in kept]


def _keep(config: pytest.Config, items: list[pytest.Item], kept: list[pytest.Item]) -> None:
    chosen = set(map(id, kept))
    config.hook.pytest_deselected(items=[i for i in items if id(i) not in chosen])
    items[:] = kept


@contextmanager
def timed(item: pytest.Item) -> Iterator[None]:
    """Count the time of a slow proof."""
    start = time.monotonic()
    yield
    if _is_slow(item):
        spent = item.config.stash.get(_SPENT, 0.0)
        item.config.stash[_SPENT] = spent + time.monotonic() - start


def begin(item: pytest.Item) -> None:
    """Skip a test for which no time is left."""
    start = item.config.stash.setdefault(_START, time.monotonic())
    if item.config.option.quick and time.monotonic() - start > QUICK_SECONDS:
        pytest.skip(f"the {QUICK_SECONDS:.0f} s of --quick are over")
    most = SLOW_SHARE * item.config.option.prove
    if most and _is_slow(item) and item.config.stash.get(_SPENT, 0.0) > most:
        pytest.skip(f"{most:.0f} s of slow proofs are over: make prove PROVE_SECONDS=... for more")


def summary(reports: list[pytest.TestReport]) -> list[str]:
    """What was proved, a line each."""
    return [str(v) for r in reports for k, v in r.user_properties if k == PROVED]
