"""Functions as printed Numba source: run by Python alone, or compiled by Numba."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba
import numpy as np
import pytest

from phix.core import dtypes as dt
from phix.core import libraries
from phix.core.graph import Graph
from phix.kernels.numba.printed.program import function_of, module_of
from tests.loop_passes import graph_of
from tests.machine_code import STORES


@contextmanager
def plain(is_plain: bool = True) -> Iterator[None]:
    """Functions made inside a with block are run by Python, as under NUMBA_DISABLE_JIT=1."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba.config, "DISABLE_JIT", is_plain)
        yield


def entry(graph: Graph, is_plain: bool = True) -> Callable[..., tuple[np.ndarray, ...]]:
    """The printed module of a graph as a function of arrays; it gives a tuple."""
    with plain(is_plain):
        function = function_of(module_of(graph, "program"))

    def run(*arrays: Any) -> tuple[np.ndarray, ...]:
        found = function(*arrays)
        return found if isinstance(found, tuple) else (found,)

    return run


def run(function: Callable[..., Any], *arrays: Any, is_plain: bool = True) -> Any:
    """What the loops of a function of tensors give, as a flat tuple of arrays."""
    return entry(graph_of(function, *arrays), is_plain)(*arrays)


@contextmanager
def in_place_of_llvm(is_plain: bool = True) -> Iterator[None]:
    """All that is compiled for the CPU inside a with block, eager calls too, is Numba source."""
    from phix.interpreters.eager import EAGER

    with pytest.MonkeyPatch.context() as patch, plain(is_plain):
        for name in STORES:
            patch.setattr(EAGER, name, {})
        with libraries.pinning("numba"):
            yield


def ulps(found: Any, wanted: Any) -> float:
    """How many numbers of its dtype lie between two arrays at most; any NaN is any other."""
    a, b = np.asarray(found), np.asarray(wanted)
    assert a.dtype == b.dtype and a.shape == b.shape, f"{a.dtype}{a.shape}, {b.dtype}{b.shape}"
    if dt.is_complex(a.dtype):  # a sign is taken from a NaN beside, whose own is anything
        is_beside = np.isnan(a.real) & np.isnan(b.real)
        imag = [np.where(is_beside, np.abs(v.imag), v.imag) for v in (a, b)]
        return max(ulps(a.real, b.real), ulps(*imag))
    if not dt.is_float(a.dtype):
        return 0 if np.array_equal(a, b) else np.inf
    is_nan = np.isnan(a.astype(np.float64)) & np.isnan(b.astype(np.float64))
    gaps = np.abs(_order(a) - _order(b))
    return float(np.max(np.where(is_nan, 0, gaps), initial=0))


def _order(x: np.ndarray) -> np.ndarray:
    """Floats as numbers in their order, one apart if they are neighbours, also -0.0 and 0.0."""
    bits = np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}").astype(object)
    top = 1 << (8 * x.dtype.itemsize - 1)
    return np.where(bits >= top, top - 1 - bits, bits).astype(object)
