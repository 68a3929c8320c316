"""The benchmarks run, and check results before they time anything."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import bounds, harness, numba_peers, peers, processes, report, rows_gpu, rows_numba
from benchmarks.__main__ import load_rows
from benchmarks.harness import Case, Measurement, Row
from phix import ops
from phix.core import dims

load_rows()
LIBRARIES = peers.libraries(("phix", "numpy"), compiled=False)
ROOT = Path(__file__).resolve().parents[1]
SMALL = [name for name in harness.ROWS if name.startswith("call: ") or "batch 8:" in name]


@pytest.mark.parametrize("name", SMALL)
def test_a_row_is_checked_and_timed(name: str) -> None:
    found, notes = harness.run_row(harness.ROWS[name], LIBRARIES, repeats=1, budget=0.0)
    assert "phix" in {m.contender for m in found}
    assert not notes


@pytest.mark.parametrize("name", rows_gpu.ROWS)
def test_rows_of_the_gpu_are_functions_of_their_args(name: str, monkeypatch: Any) -> None:
    """As far as a CPU goes: with axes of at most 16 elements."""
    monkeypatch.setattr(rows_gpu, "_SQUARE", 16)
    small = lambda *shape, **options: harness.normal(*(min(d, 16) for d in shape), **options)  # noqa: E731
    monkeypatch.setattr(rows_gpu, "normal", small)
    case = rows_gpu.ROWS[name].build()
    found = LIBRARIES["phix"].bind(case.functions["phix"], case.mode, case.args)()
    assert all(np.isfinite(np.asarray(x, np.float32)).all() for x in peers.leaves(found))


def _numba_case(name: str, patch: Any) -> tuple[Case, list[np.ndarray]]:
    """A row of the library numba, and its inputs, with axes of at most 16 elements."""
    row = next(r for n, r in harness.ROWS.items() if n.startswith(name))
    build: Any = row.build
    small = lambda *shape, **options: harness.normal(*(min(d, 16) for d in shape), **options)  # noqa: E731
    if "normal" in build.__globals__:
        patch.setitem(build.__globals__, "normal", small)
    case: Case = build()
    cut = lambda x: x[(slice(16),) * np.ndim(x)] if np.ndim(x) else x  # noqa: E731
    case = replace(case, args=peers.tree_map(cut, case.args))
    bounded = lambda x: x % 16 if np.issubdtype(x.dtype, np.integer) else x  # noqa: E731
    case = replace(case, args=peers.tree_map(bounded, case.args))
    return case, peers.leaves(case.args)


BY_HAND = [name for name, loops in numba_peers.ALONE.items() if not isinstance(loops, str)]


@pytest.mark.parametrize("name", BY_HAND)
def test_loops_by_hand_give_what_rows_of_the_library_numba_do(name: str, monkeypatch: Any) -> None:
    """Run by Python, beside NumPy where the row has it."""
    case, inputs = _numba_case(name, monkeypatch)
    loops: Any = numba_peers.ALONE[name]
    peer = "numpy" if "numpy" in case.functions and case.mode == "call" else "phix"
    call = LIBRARIES[peer].bind(case.functions[peer], case.mode, case.args)
    before = [x.copy() for x in inputs]
    results = {"alone": peers.leaves(loops(*inputs)), peer: peers.leaves(call())}
    numbers = {word: [np.asarray(x) for x in found] for word, found in results.items()}
    harness.check_equal(name, numbers, max(case.tolerance, 1e-4))
    assert all(np.array_equal(x, b) for x, b in zip(inputs, before))


def test_the_table_of_the_library_numba() -> None:
    assert len(numba_peers.ALONE) == 20 and len(BY_HAND) == 19
    found = [
        ({"llvm": 1.0, "numba": 2.0}, {"llvm": 1e-3, "numba": 4e-3}),
        ({"llvm": 1.0, "numba": 3.0, "jax": 1.0}, {"llvm": 1e-3, "numba": 1e-3, "jax": 2e-3}),
    ]
    assert rows_numba.line("row", *found[0]).split()[1:4] == ["1.000", "4.00", "-"]
    words = rows_numba.means(found).split()
    assert words[4:] == ["2.00", "-", "2.00", "2.00", "5.00", "0.00", "1.00"]


@pytest.mark.parametrize("mode", ["call", "uncompiled", "vjp", "value_and_grad", "sgd"])
def test_modes_give_what_they_say(mode: str) -> None:
    library = LIBRARIES["phix"]
    cotangent, x = np.float32(2.0), np.float32(3.0)
    args = (cotangent, x) if mode == "vjp" else (x,)
    results = [a.item() for a in peers.leaves(library.bind(lambda x: x * x, mode, args)())]
    moved = 3.0 - 6.0 * peers.LEARNING_RATE
    wanted = {"vjp": [9.0, 12.0], "value_and_grad": [9.0, 6.0], "sgd": [9.0, moved]}
    assert results == pytest.approx(wanted.get(mode, [9.0]))


def _row(*functions: Any) -> Row:
    x = np.arange(3, dtype=np.float32)
    return Row("row", lambda: Case((x,), dict(zip(("phix", "numpy"), functions))))


def test_unequal_results_are_not_timed() -> None:
    unequal = _row(lambda x: ops.exp(x), lambda x: x)
    with pytest.raises(AssertionError, match="numpy is not phix"):
        harness.run_row(unequal, LIBRARIES, repeats=1, budget=0.0)
    with pytest.raises(AssertionError, match="b is not a"):
        harness.measure("row", {"a": lambda: 1.0, "b": lambda: 2.0}, repeats=1)


def test_a_missing_op_leaves_a_note() -> None:
    missing = _row(lambda x: ops.no_such_op(x), np.exp)  # type: ignore[attr-defined]
    found, notes = harness.run_row(missing, LIBRARIES, repeats=1, budget=0.0)
    assert [m.contender for m in found] == ["numpy"]
    assert len(notes) == 1 and "no_such_op" in notes[0]


def test_measurements_are_shown_and_written(tmp_path: Path) -> None:
    times = {"phix": 1e-3, "jax": 4e-3, "torch": 9e-3, "torch.compile": 1e-3}
    found = [Measurement("row", name, seconds, seconds / 2, 3) for name, seconds in times.items()]
    assert harness.ratios(harness.by_row(found, lowest=False)["row"]) == {"jax": 4.0, "torch": 1.0}
    text = harness.table(found)
    assert "1 ms" in text and "jax 4.00 (1 rows)" in text
    harness.write_json(tmp_path / "found.json", found)
    assert harness.read_json(tmp_path / "found.json") == found


def test_bounds_are_the_longest_of_three(monkeypatch: Any) -> None:
    """Of 8 x 8: a product has 1,024 operations, exp 64 functions; 256 bytes a matrix."""
    monkeypatch.setattr(bounds, "operations_a_second", lambda: 1e5)
    monkeypatch.setattr(bounds, "functions_a_second", lambda: 1e3)
    monkeypatch.setattr(bounds, "seconds_a_byte", lambda size: (1e-6, 5e-6))
    x = np.ones((8, 8), np.float32)
    of = lambda function, *args: bounds.bound(Case(args, {"phix": function}))  # noqa: E731
    assert of(lambda x, y: x @ y, x, x) == bounds.Bound(pytest.approx(1024e-5), "operations")
    assert of(ops.exp, x) == bounds.Bound(pytest.approx(64e-3), "functions")
    assert of(lambda x: x + 1.0, x) == bounds.Bound(pytest.approx(256e-6 + 1280e-6), "memory")
    assert bounds.bound(Case((x,), {"phix": ops.exp}, mode="uncompiled")) is None


def test_a_program_for_any_size_is_beside_one_for_the_size() -> None:
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    case = Case((x,), {"phix": lambda x: ops.softmax(x, -1)}, unknown=(("n", 3),))
    found, notes = harness.run_row(Row("row", lambda: case), LIBRARIES, repeats=1, budget=0.0)
    assert [m.contender for m in found] == ["phix", harness.SIZED] and not notes
    unknown = LIBRARIES["phix"].for_unknown(case.unknown)  # type: ignore[attr-defined]
    assert unknown.unknown == (("n", 3),)


@pytest.mark.parametrize("name", [n for n in harness.ROWS if n.startswith("unknown dims: ")])
def test_rows_of_unknown_dims_declare_their_args(name: str) -> None:
    case = harness.ROWS[name].build()
    specs = peers._specs(case.args, case.unknown)
    assert {s.name for m in peers.leaves(specs) for d in m.dims for s in dims.symbols(d)}
    for spec, array in zip(peers.leaves(specs), peers.leaves(case.args)):
        assert len(spec.dims) == array.ndim


def test_planned_memory_is_outputs_and_temps() -> None:
    name = next(n for n in harness.ROWS if "batch 8:" in n)
    sizes = [np.asarray(a).nbytes for a in peers.leaves(harness.ROWS[name].build().args[0])]
    assert processes.planned_bytes("phix", name) >= sum(sizes)  # the new parameters


MACHINE = {"processor": "a processor", "cpus": 2, "threads": "2", "python": "3.11", "torch": "2"}


def test_the_section_of_the_readme(tmp_path: Path) -> None:
    times = {"phix": 1e-3, "jax": 4e-3, "torch": 9e-4}
    found = [Measurement("softmax", name, t, t, 3) for name, t in times.items()]
    found += [Measurement("memory: mlp", "phix", 2.0**20, 2.0**20, 1)]
    found += [Measurement("unknown dims: gelu", n, t, t, 3)
              for n, t in (("phix", 1.1e-3), (harness.SIZED, 1e-3))]  # fmt: skip
    made = report.section(MACHINE, found, lowest=False)
    assert "| softmax | 1 ms | 4 ms (4) | 900 us (0.9) |  |" in made
    assert "| memory: mlp | 1.0 MiB |" in made and "| gelu | 1.1 ms | 1 ms | 1.10 |" in made
    assert "a processor, 2 cores, 2 threads each; python 3.11, torch 2" in made
    text = f"# a\n\n{report.BEFORE}\nrest\n"
    once = report.inserted(text, made)
    assert once.index(report.BEGIN) < once.index(report.END) < once.index(report.BEFORE)
    assert report.inserted(once, made) == once
    assert report.inserted(once, made.replace("900 us", "8 us")).count("8 us") == 1


def test_the_last_file_counts(tmp_path: Path) -> None:
    files = []
    for number in (1, 2):
        found = [Measurement("row", "phix", 1.0 * number, 1.0, 1)]
        found += [Measurement(f"only {number}", "phix", 1.0, 1.0, 1)]
        files.append(tmp_path / f"{number}.json")
        harness.write_json(files[-1], found)
    machine, merged = report.read(files)
    assert {(m.row, m.median) for m in merged} == {("row", 2.0), ("only 1", 1.0), ("only 2", 1.0)}
    assert machine["numpy"] == np.__version__
    _, every = report.read(files, every=True)
    assert sorted(m.median for m in every if m.row == "row") == [1.0, 2.0]
    assert harness.by_row(every, lowest=False)["row"]["phix"] == 1.0


def test_every_port_has_a_row_beside_jax_and_stands_in_the_table() -> None:
    from benchmarks import ports, rows_ports

    files = {p.stem for p in (ROOT / "examples" / "ports").glob("*.py")}
    rows = {n.removeprefix(rows_ports.NAME) for n in harness.ROWS if n.startswith(rows_ports.NAME)}
    assert rows == files
    table = ports.PAGE.read_text("utf-8").partition(ports.BEGIN)[2].partition(ports.END)[0]
    for name in rows:
        what = harness.ROWS[rows_ports.NAME + name].build.__doc__
        assert f"| {name} | {what} | " in table, "run `python -m benchmarks.ports --write`"


def test_the_table_of_ports_is_made_of_measurements() -> None:
    from benchmarks import ports, rows_ports

    name = f"{rows_ports.NAME}mixture"
    found = [Measurement(name, "phix", 3e-6, 2e-6, 5), Measurement(name, "jax", 9e-6, 3e-6, 5)]
    made = ports.section(found)
    what = "likelihood and gradient of 180 points, three components"
    assert f"| mixture | {what} | 2 us | 3 us | 1.50 |" in made
    page = f"before\n{ports.BEGIN} old {ports.END}\nafter"
    assert ports.inserted(page, made) == f"before\n{made}\nafter"


@pytest.mark.prove
@pytest.mark.skipif(not peers.is_installed("jax"), reason="jax is not installed")
def test_ports_give_what_the_same_programs_for_jax_do() -> None:
    command = [sys.executable, "-m", "benchmarks.ports", "--repeats", "1"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stderr
    assert "left out" not in run.stdout and "(19 rows)" in run.stdout
