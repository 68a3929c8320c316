"""``python -m benchmarks [--repeats N] [--json FILE]``."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import calls
from benchmarks.harness import machine, table, write_json


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description="Measure phix.")
    parser.add_argument("--repeats", type=int, default=31, help="of each row (31)")
    parser.add_argument("--json", type=Path, help="write the numbers there as well")
    args = parser.parse_args()
    found = calls.run(args.repeats)
    print(", ".join(f"{k} {v}" for k, v in machine().items()))
    print(table(found))
    if args.json:
        write_json(args.json, found)


if __name__ == "__main__":
    main()
