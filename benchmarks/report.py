"""The table of the README: ``python -m benchmarks.report FILE [FILE ...]``.

The files are what ``python -m benchmarks --json FILE`` wrote; of a row that several hold, the last
counts, or with ``--lowest`` the lowest time of each contender in any of them. The section goes
between its two marks in README.md, or where there are none yet, before the section "Where things
are".
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import harness
from benchmarks.__main__ import load_rows
from benchmarks.harness import SIZED, Measurement

README = Path(__file__).resolve().parents[1] / "README.md"
BEGIN, END = "<!-- benchmarks: written by benchmarks/report.py -->", "<!-- end of benchmarks -->"
BEFORE = "## Where things are"
_SHOWN = ("jax", "torch", "numpy")


def read(files: Iterable[Path], every: bool = False) -> tuple[dict[str, Any], list[Measurement]]:
    """The machine of the last file, and the measurements; of a row the last, or ``every``."""
    rows: dict[str, list[Measurement]] = {}
    machine: dict[str, Any] = {}
    for file in files:
        content = json.loads(file.read_text(encoding="utf-8"))
        machine = content["machine"]
        found: dict[str, list[Measurement]] = {}
        for each in content["measurements"]:
            found.setdefault(each["row"], []).append(Measurement(**each))
        for row, some in found.items():
            rows[row] = [*rows.get(row, []), *some] if every else some
    return machine, [m for some in rows.values() for m in some]


def section(machine: Mapping[str, Any], measurements: list[Measurement], lowest: bool) -> str:
    """The section of the README."""
    rows = harness.by_row(measurements, lowest)
    against = {name: times for name, times in rows.items() if SIZED not in times}
    sized = {name: times for name, times in rows.items() if SIZED in times}
    means = harness.means(measurements, lowest)
    shown = [f"{means[p][0]:.2f} against {p} ({means[p][1]} rows)" for p in _SHOWN if p in means]
    lines = [
        BEGIN,
        "## How fast",
        "",
        f"{'Lowest' if lowest else 'Median'} times of one call, in turns on an otherwise idle "
        f"machine ({description(machine)}), and in brackets the ratio to phix's: above 1, phix is "
        "faster. Results are compared before anything is timed. `torch` is the better of eager and "
        "`torch.compile` where that was asked for. [docs/benchmarks.md](docs/benchmarks.md) says "
        "how to run it.",
        "",
        f"Geometric means of the ratios: {', '.join(shown)}.",
        "",
        "| row | phix | JAX | PyTorch | NumPy |",
        "|---|---|---|---|---|",
        *(_line(name, times) for name, times in against.items()),
    ]
    if sized:
        lines += [
            "",
            "Compiled once for dims it does not know, beside compiled for the size:",
            "",
            "| row | for any size | for one size | ratio |",
            "|---|---|---|---|",
            *(_sized(name, times) for name, times in sized.items()),
        ]
    return "\n".join([*lines, END])


def description(machine: Mapping[str, Any]) -> str:
    """The machine in words."""
    packages = ("python", "numpy", "llvmlite", "jax", "torch")
    versions = ", ".join(f"{p} {machine[p]}" for p in packages if p in machine)
    threads = machine.get("threads")
    each = "1 thread each" if threads == "1" else f"{threads} threads each"
    return f"{machine['processor']}, {machine['cpus']} cores, {each}; {versions}"


def _line(name: str, times: Mapping[str, float]) -> str:
    ratios = harness.ratios(times)
    cells = [harness.amount(name, times["phix"]) if "phix" in times else "-"]
    for peer in _SHOWN:
        ratio = f" ({ratios[peer]:.2g})" if peer in ratios else ""
        cells.append(f"{harness.amount(name, times[peer])}{ratio}" if peer in times else "")
    return f"| {name} | {' | '.join(cells)} |"


def _sized(name: str, times: Mapping[str, float]) -> str:
    unknown, known = times["phix"], times[SIZED]
    shown = [harness.amount(name, t) for t in (unknown, known)]
    return f"| {name.partition(': ')[2]} | {' | '.join(shown)} | {unknown / known:.2f} |"


def inserted(text: str, made: str) -> str:
    """``text`` with the section in its place."""
    old = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    if old.search(text):
        return old.sub(lambda _: made, text)
    if BEFORE not in text:
        raise ValueError(f"neither {BEGIN!r} nor {BEFORE!r} is in the text")
    return text.replace(BEFORE, f"{made}\n\n{BEFORE}", 1)


def write(files: Iterable[Path], readme: Path = README, lowest: bool = False) -> None:
    """Put the section of these files into ``readme``."""
    load_rows()
    text = readme.read_text(encoding="utf-8")
    readme.write_text(inserted(text, section(*read(files, every=lowest), lowest)), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.report", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--readme", type=Path, default=README)
    parser.add_argument("--lowest", action="store_true", help="the lowest times, not the medians")
    args = parser.parse_args()
    write(args.files, args.readme, args.lowest)


if __name__ == "__main__":
    main()
