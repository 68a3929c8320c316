"""Property tests over fresh seeds, for as long as ``--prove`` says; and which tests runs choose."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import drawn_attributes
import drawn_windows
import proofs
import random_bits
import random_graphs
import random_moves
import random_networks
import random_programs
import random_sizes
import random_states
import random_steps
import random_updates

# What is drawn, the share of the time it takes, and in how many tests, so that workers share it.
DRAWN: dict[str, tuple[Callable[[int], Any], float, int]] = {
    "networks": (random_networks.run_draw, 0.3, 4),
    "programs": (random_programs.run_draw, 0.1, 2),
    "graphs": (random_graphs.run_draw, 0.1, 2),
    "moves": (random_moves.run_draw, 0.1, 2),
    "steps": (random_steps.run_draw, 0.05, 1),
    "sizes": (random_sizes.run_draw, 0.1, 2),
    "updates": (random_updates.run_draw, 0.05, 1),
    "states": (random_states.run_draw, 0.05, 1),
    "bits": (random_bits.run_draw, 0.05, 1),
    "windows": (drawn_windows.run_draw, 0.05, 1),
    "attributes": (drawn_attributes.run_draw, 0.1, 2),
}
PARTS = [(what, part) for what, (_, _, count) in DRAWN.items() for part in range(count)]


@pytest.fixture
def seconds_of(request: pytest.FixtureRequest) -> Callable[[float], float]:
    """The time that a share of what ``--prove`` gives is."""
    return lambda share: share * (request.config.option.prove or 60.0)


@pytest.mark.prove
@pytest.mark.parametrize(("what", "part"), PARTS, ids=[f"{w}-{p}" for w, p in PARTS])
def test_random(
    what: str,
    part: int,
    seconds_of: Callable[[float], float],
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> None:
    draw, share, count = DRAWN[what]
    end = time.monotonic() + seconds_of(share) / count
    first = request.config.option.prove_seed + part * 1000
    seed, reports = first, []
    while time.monotonic() < end or seed == first:
        outcome = draw(seed)
        seed += 1
        if outcome.error:
            reports.append(outcome.report())
    record_property(
        proofs.PROVED, f"{seed - first} {what} from seed {first}: {len(reports)} mismatches"
    )
    assert not reports, "\n\n".join(reports)


# -- which tests run -----------------------------------------------------------------------------
def chosen(*marked: str, **options: Any) -> list[str]:
    """The names of the tests that run, of a hundred in each of two files; ``marked`` are proofs."""

    def item(name: str) -> Any:
        file, number = name.split("::")
        return SimpleNamespace(
            nodeid=name, path=file, fixturenames=["seconds_of"] if number == "0" else [],
            get_closest_marker=lambda mark: mark == "prove" and name in marked,
        )  # fmt: skip

    items = [item(f"{file}::{k}") for file in ("a.py", "b.py") for k in range(100)]
    settings = {"prove": 0.0, "prove_seed": 1, "quick": False, "seed": 0, "slice": None, **options}
    dropped: list[Any] = []
    config: Any = SimpleNamespace(
        args=["tests"], option=SimpleNamespace(**settings),
        hook=SimpleNamespace(pytest_deselected=lambda items: dropped.extend(items)),
    )  # fmt: skip
    proofs.choose(config, items)
    assert len(items) + len(dropped) == 200
    return [i.nodeid for i in items]


def test_proofs_run_where_they_are_asked_for() -> None:
    slow = ("a.py::7", "a.py::8", "a.py::9")
    assert len(chosen()) == 200
    assert not set(slow) & set(chosen(*slow)) and len(chosen(*slow)) == 197
    proved = chosen(*slow, "a.py::0", prove=60.0)
    assert len(proved) == 200 and set(proved[-3:]) == set(slow)  # after all others
    assert proved[0] == "a.py::0"  # a property test watches the time itself
    orders = {tuple(chosen(*slow, prove=60.0, prove_seed=k)[-3:]) for k in range(9)}
    assert len(orders) > 1


def test_a_slice_of_every_file_is_quick() -> None:
    quick = chosen("a.py::7", quick=True)
    assert quick == chosen("a.py::7", quick=True) != chosen("a.py::7", quick=True, seed=1)
    found = Counter(name.partition("::")[0] for name in quick)
    assert found == {"a.py": 99 // proofs.QUICK_SHARE, "b.py": 100 // proofs.QUICK_SHARE}
    assert "a.py::7" not in quick


def test_a_slice_may_have_a_number_of_its_own() -> None:
    assert chosen(quick=True, slice=1) == chosen(quick=True, seed=1)


_COMBINED = """
import pytest

@pytest.mark.filterwarnings("ignore")
@pytest.mark.one_in({share})
@pytest.mark.parametrize("c", "tuvw")
@pytest.mark.parametrize("a, of_a", [(n, -n) for n in (10, 20, 30, 40)])
@pytest.mark.parametrize(["b"], [("x",), pytest.param("y", id="why")])
def test(a, of_a, b, c): ...
"""


@pytest.mark.parametrize("share", [2, 4])
def test_one_combination_in_so_many_runs_always(share: int, tmp_path: Path) -> None:
    """Each value of each list of parameters is in one of them; as pytest itself collects them."""
    file = tmp_path / f"test_of_{share}.py"  # a module of its own
    file.write_text(_COMBINED.format(share=share))
    found: list[Any] = []
    plugin = SimpleNamespace(pytest_collection_modifyitems=lambda items: found.extend(items))
    options = ["-q", "--collect-only", "-p", "no:cacheprovider", "-W", "ignore", "--rootdir"]
    pytest.main([*options, str(tmp_path), str(file)], plugins=[plugin])
    always = [i.callspec.params for i in found if not proofs._is_left_out(i)]
    assert len(found) == 32 and len(always) == 32 / share
    for name, count in {"a": 4, "b": 2, "c": 4}.items():
        assert len({params[name] for params in always}) == count


def test_the_first_of_each_kind_runs_always() -> None:
    made = proofs.thinned(["a1", "a2", "b1", "a3", "b2"], lambda case: case[0], each=2)
    assert [p.values[0] for p in made if p.marks] == ["a3"]


def test_time_that_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(proofs.time, "monotonic", lambda: now[0])

    def item(is_proof: bool, **options: Any) -> Any:
        option = SimpleNamespace(**{"quick": False, "prove": 0.0, **options})
        return SimpleNamespace(
            config=SimpleNamespace(option=option, stash=stash),
            get_closest_marker=lambda mark: mark == "prove" and is_proof, fixturenames=[],
        )  # fmt: skip

    stash = pytest.Stash()
    proof = item(True, prove=100.0)
    with proofs.timed(proof):
        proofs.begin(proof)
        now[0] = 29.0
    proofs.begin(proof)
    with proofs.timed(proof):
        now[0] = 31.0
    proofs.begin(item(False, prove=100.0))
    with pytest.raises(pytest.skip.Exception, match="30 s of slow proofs are over"):
        proofs.begin(proof)
    stash = pytest.Stash()
    proofs.begin(item(False, quick=True))
    now[0] += proofs.QUICK_SECONDS + 1
    with pytest.raises(pytest.skip.Exception, match="75 s of --quick are over"):
        proofs.begin(item(False, quick=True))
