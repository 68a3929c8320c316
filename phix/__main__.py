"""``python -m phix info`` and ``python -m phix ops``: what is installed, and what runs where."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from phix.core import disk_cache, kernel_choices, kernel_selection, places
from phix.core.errors import PhixError
from phix.core.op import Op
from phix.core.rules import OPS, get_op

_PACKAGES = ("numpy", "scipy", "llvmlite", "ml_dtypes", "optree", "cupy")
_RULES = ("backward", "decomposition", "jvp", "jvp_rule", "vjp_rule", "jet_rule", "batch_rule")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m phix", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("info", help="versions, devices, threads, the cache of compiled programs")
    table = commands.add_parser("ops", help="the op table: what is a primitive, what runs it")
    table.add_argument("name", nargs="?", help="an op, to see all that is known of it")
    owed_by = "the primitives it has no kernel for; without a name, those of each place there is"
    table.add_argument("--missing", metavar="BACKEND", nargs="?", const="", help=owed_by)
    given = parser.parse_args(arguments)
    try:
        print("\n".join(info() if given.command == "info" else ops(given.name, given.missing)))
    except PhixError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


# -- info ------------------------------------------------------------------------------------
def info() -> list[str]:
    """The lines of ``python -m phix info``."""
    lines = [f"phix        {_version('phix') or 'a source tree'}, {Path(__file__).parent}"]
    lines += [f"python      {platform.python_version()} on {platform.platform()}"]
    versions = ((name, _version(name)) for name in _PACKAGES)
    lines += [f"{name:11} {found}" for name, found in versions if found]
    for kind in places.kinds(search=True):
        lines += [f"place       {text}" for text in _devices(kind)]
    lines += [f"failed      {name}: {why}" for name, why in places.FAILURES.items()]
    threads = os.environ.get("PHIX_NUM_THREADS") or f"{os.cpu_count()} cores"
    lines.append(f"threads     {threads}")
    cache = disk_cache.cache_info()
    held = f"{cache.entries} programs, {cache.bytes / 1e6:.1f} MB"
    lines.append(f"cache       {cache.folder}: {held}" if cache.folder else "cache       off")
    return lines


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _devices(kind: str) -> list[str]:
    device = places.device_of(kind)
    count = device.count()
    if not count:
        return [f"{kind}: {device.problem()}"]
    return [f"{places.Place(kind, n)}: {device.describe(n)}" for n in range(count)]


# -- ops -------------------------------------------------------------------------------------
def ops(name: str | None, backend: str | None) -> list[str]:
    """The lines of ``python -m phix ops``."""
    places.kinds(search=True)
    if backend is not None:
        if backend:
            return owed(backend)
        return [f"{kind}: {line}" for kind in places.kinds(search=True) for line in owed(kind)]
    if name is not None:
        return one_op(get_op(name))
    return [f"{o.name:32} {_kind(o):10} {' '.join(_backends(o))}" for o in OPS.values()]


def owed(backend: str) -> list[str]:
    """The primitives that a backend has no kernel for, with the dtypes."""
    found = kernel_selection.missing(backend.upper())
    return [f"{n}: {' '.join(map(str, d))}" for n, d in found.items()] or ["nothing is missing"]


def _kind(op: Op) -> str:
    return "primitive" if op.is_primitive else "composite"


def _backends(op: Op) -> list[str]:
    return list(dict.fromkeys(k.backend for k in kernel_selection.keys(op)))


def summary(op: Op) -> str:
    """What the docstring of the op's function opens with, on one line."""
    from phix import ops
    from phix.table.codegen import python_name

    function = getattr(ops, python_name(op.name), None)
    return " ".join((getattr(function, "__doc__", None) or "").partition("\n\n")[0].split())


def one_op(op: Op) -> list[str]:
    """All that is known of an op."""
    lines = [op.signature(), summary(op), f"kind        {_kind(op)}, {op.where}"]
    lines.append(f"traits      {', '.join(sorted(op.traits)) or 'none'}")
    for slot in _RULES:
        rule = getattr(op, slot)
        if rule is not None:
            text = rule if isinstance(rule, str) else f"{rule.__module__}.{rule.__qualname__}"
            lines.append(f"{slot.removesuffix('_rule'):11} {text}")
    by_backend: dict[str, list[str]] = {}
    for key in kernel_selection.keys(op):
        by_backend.setdefault(key.backend, []).append(str(key.dtype))
    lines += [f"{b:11} {' '.join(dtypes)}" for b, dtypes in by_backend.items()]
    return [*lines, *kernel_choices.choices(op), *kernel_choices.states(op)]


if __name__ == "__main__":
    sys.exit(main())
