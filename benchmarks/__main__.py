"""``python -m benchmarks [--row PART] [--quick] [--compile] [--json FILE] [--plot FILE]``.

``--json FILE --readme`` writes the table of the README as well. On a machine that others use,
``--lowest`` shows what disturbs least.
"""

from __future__ import annotations

import argparse
import importlib
import os
from pathlib import Path
from typing import Any

TOPICS = (
    "pointwise",
    "normalisation",
    "reductions",
    "networks",
    "models",
    "science",
    "loops",
    "linalg",
    "indexing",
    "calls",
    "unknown",
    "vocabulary",
    "sparse",
)
CONTENDERS = ("phix", "jax", "torch", "numpy")


def load_rows() -> None:
    for topic in TOPICS:
        importlib.import_module(f"benchmarks.rows_{topic}")


def pin(threads: int) -> None:
    """As many cores and threads for each library; before any of them is imported."""
    for name in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
        os.environ[f"{name}_NUM_THREADS"] = str(threads)
    os.environ["NPROC"] = str(threads)  # XLA's
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))[:threads]
        os.sched_setaffinity(0, cores)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description="Measure phix and its peers.")
    parser.add_argument("--row", metavar="PART", help="only rows whose names hold this")
    parser.add_argument("--quick", action="store_true", help="fewer repeats: 5, and 1 s a row")
    parser.add_argument("--repeats", type=int, help="of each contender of a row (31)")
    parser.add_argument("--compile", action="store_true", help="torch.compile takes part")
    parser.add_argument("--without", nargs="*", default=[], help="contenders to leave out")
    parser.add_argument("--threads", type=int, default=2, help="for each library (2)")
    parser.add_argument("--json", type=Path, help="write the numbers there as well")
    parser.add_argument(
        "--readme", action="store_true", help="write the README's table from --json"
    )
    parser.add_argument("--plot", type=Path, help="draw the ratios there, a PNG")
    parser.add_argument(
        "--lowest", action="store_true", help="show the lowest times, not the medians"
    )
    parser.add_argument("--list", action="store_true", help="name the rows and stop")
    return parser.parse_args()


def run(args: argparse.Namespace) -> int:
    from benchmarks import harness, peers, processes

    load_rows()
    names = tuple(c for c in CONTENDERS if c not in args.without)
    wanted = (args.row or "").lower()
    rows = [r for r in harness.ROWS.values() if wanted in r.name.lower()]
    others = [r for r in processes.PROCESS_ROWS if wanted in r.name.lower()]
    if args.list or not rows + others:
        print("\n".join(r.name for r in [*harness.ROWS.values(), *processes.PROCESS_ROWS]))
        return 0 if args.list else 2
    notes = [f"{n} is not installed" for n in names if not peers.is_installed(n)]
    libraries = peers.libraries(names, args.compile)
    if "torch" in libraries:
        peers.torch.set_num_threads(args.threads)
    repeats = args.repeats or (5 if args.quick else 31)
    budget = 1.0 if args.quick else 5.0
    found: list[harness.Measurement] = []
    wrong = 0
    for row in [*rows, *others]:
        try:
            more, said = _run_one(row, libraries, repeats, budget)
        except AssertionError as error:
            more, said, wrong = [], [f"{row.name}: WRONG: {error!s:.400}"], wrong + 1
        found += more
        notes += said
        print(".", end="", flush=True)
        if args.json:  # row by row: a run that is stopped leaves what it measured
            harness.write_json(args.json, found, notes=notes)
    print("\n" + ", ".join(f"{k} {v}" for k, v in harness.machine().items()))
    print(harness.table(found, args.lowest))
    print("\n".join(notes))
    if args.json and args.readme:
        from benchmarks import report

        report.write([args.json], lowest=args.lowest)
    if args.plot and peers.is_installed("matplotlib"):
        harness.write_plot(args.plot, found, args.lowest)
    elif args.plot:
        print("no plot: matplotlib is not installed")
    return 1 if wrong else 0


def _run_one(row: Any, libraries: dict[str, Any], repeats: int, budget: float) -> Any:
    from benchmarks import harness, processes

    if isinstance(row, processes.ProcessRow):
        few = min(repeats, 5 if budget > 1 else 3)
        return processes.run_process_row(row, tuple(libraries), few)
    return harness.run_row(row, libraries, repeats, budget)


def main() -> int:
    args = arguments()
    pin(args.threads)
    return run(args)


if __name__ == "__main__":
    raise SystemExit(main())
