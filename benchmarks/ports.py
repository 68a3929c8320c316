"""``python -m benchmarks.ports [--write]``: the programs of ``examples/ports`` beside JAX.

One thread for each, in turns in one process, results compared before anything is timed; the
lowest of many times, which other work on the machine disturbs least. ``--write`` puts the table
into ``examples/README.md``.
"""

from __future__ import annotations

import argparse
import os
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks import harness

PAGE = Path(__file__).resolve().parents[1] / "examples" / "README.md"
BEGIN, END = "<!-- ports: written by benchmarks/ports.py -->", "<!-- end of ports -->"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.ports", description=__doc__)
    parser.add_argument("--row", default="", help="only ports whose names hold this")
    parser.add_argument("--repeats", type=int, default=41, help="of each contender of a row (41)")
    parser.add_argument("--write", action="store_true", help="write the table to the page")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    os.environ["JAX_ENABLE_X64"] = "1"  # before it is imported
    from benchmarks.__main__ import pin

    pin(1)
    from benchmarks import harness, peers, rows_ports

    rows = [r for n, r in harness.ROWS.items() if n.startswith(rows_ports.NAME) and args.row in n]
    libraries = peers.libraries(("phix", "jax"), compiled=False)
    found: list[harness.Measurement] = []
    for row in rows:
        more, notes = harness.run_row(row, libraries, args.repeats, budget=20.0)
        found += more
        print(*(f"{m.row} {m.contender} {m.lowest:.3g} s" for m in more), *notes, sep="\n")
    print(harness.table(found, lowest=True))
    if args.write:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(inserted(text, section(found)), encoding="utf-8")
    return 0


def section(measurements: list[harness.Measurement]) -> str:
    """The table, and what was measured how."""
    from benchmarks import harness, report, rows_ports

    mean, count = harness.means(measurements, lowest=True)["jax"]
    words = (
        "What each of them calls over and over, beside the same program for JAX "
        "([rows_ports.py](../benchmarks/rows_ports.py)): compiled, in turns in "
        "one process, after the results were compared; the lowest times of one call, in float64 "
        f"where the port is. {report.description(harness.machine())}. Above 1, phix is faster; the "
        f"geometric mean of {count} ratios is {mean:.2f}. `python -m benchmarks.ports --write` "
        "measures anew."
    )
    lines = [
        BEGIN,
        *textwrap.wrap(words, 125, break_long_words=False, break_on_hyphens=False),
        "",
        "| port | timed | phix | JAX | ratio |",
        "|---|---|---|---|---|",
    ]
    for name, times in harness.by_row(measurements, lowest=True).items():
        port = name.removeprefix(rows_ports.NAME)
        what = (harness.ROWS[name].build.__doc__ or "").strip()
        ours, theirs = (harness.amount(name, times[c]) for c in ("phix", "jax"))
        lines.append(
            f"| {port} | {what} | {ours} | {theirs} | {harness.ratios(times)['jax']:.2f} |"
        )
    return "\n".join([*lines, END])


def inserted(text: str, made: str) -> str:
    """``text`` with the section in its place."""
    old = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    assert old.search(text), f"{BEGIN!r} is not in the text"
    return old.sub(lambda _: made, text)


if __name__ == "__main__":
    raise SystemExit(main())
