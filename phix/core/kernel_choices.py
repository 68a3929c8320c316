"""Which library runs an op where, and why others do not: for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.core import kernel_selection, places
from phix.core.engines import engine_kinds
from phix.core.errors import KernelNotFoundError, PhixError
from phix.core.kernel_arguments import ANY
from phix.core.kernel_registry import BACKENDS, KERNELS, Kernel, KernelKey, reason_unused
from phix.core.op import Op


def choices(op: Op) -> list[str]:
    """A line for each place, with the backends that calls go to and their dtypes, and one for each
    registered kernel that no call of its own dtype goes to, with the reason."""
    kinds = [k for k in engine_kinds() if places.device_of(k).count()]
    chosen = {kind: _chosen(op, kind) for kind in kinds}
    lines = [f"runs on {kind}: {_listed(found)}" for kind, found in chosen.items() if found]
    for key, kernel in KERNELS.get(op.name, {}).items():
        kind = BACKENDS[key.backend].place_kind
        why = _why_not(op, kernel, chosen.get(kind))
        if kernel.function is not None and why:
            lines.append(f"not chosen: ({key}), {why}")
    return lines


def _chosen(op: Op, kind: str) -> dict[np.dtype, KernelKey]:
    found: dict[np.dtype, KernelKey] = {}
    for dtype in dt.ALL:
        if op.dtypes and dtype not in op.dtypes:
            continue
        key = KernelKey("", ANY, dtype)
        try:
            if op.is_primitive:
                found[dtype] = kernel_selection.choose(op, key, kind).key
            elif kernel := kernel_selection.available(op, key, kind):
                found[dtype] = kernel.key
        except KernelNotFoundError:
            pass
        except PhixError as error:  # an engine that is not installed
            return {} if "engine" in str(error) else found
    return found


def _listed(found: dict[np.dtype, KernelKey]) -> str:
    by_backend: dict[str, list[str]] = {}
    for dtype, key in found.items():
        own = str(dtype) if key.dtype == dtype else f"{dtype} as {key.dtype}"
        by_backend.setdefault(key.backend, []).append(own)
    return "; ".join(f"{name} for {', '.join(dtypes)}" for name, dtypes in by_backend.items())


def _why_not(op: Op, kernel: Kernel, chosen: dict[np.dtype, KernelKey] | None) -> str:
    """Why no call of the kernel's dtype goes to it; nothing where calls do."""
    backend = BACKENDS[kernel.key.backend]
    if unused := reason_unused(op, backend):
        return unused
    if chosen is None:
        return f"no {backend.place_kind} is here"
    there = chosen.get(kernel.key.dtype)
    if there is None or there.backend == kernel.key.backend:
        return ""
    return f"{there.backend} comes before it; with phix.library({backend.library!r}) it runs"


def states(op: Op) -> Iterator[str]:
    """What kernels ask of single arguments."""
    for kernel in KERNELS.get(op.name, {}).values():
        named: list[Any] = [*zip(op.inputs, kernel.inputs), *zip(op.outputs, kernel.outputs)]
        for argument, asked in named:
            if asked is not None:
                parts = (asked.place, asked.dtype and str(asked.dtype), asked.layout)
                wanted = ", ".join(p for p in parts if p)
                yield f"asks of ({kernel.key}): {argument.name} {wanted}"
