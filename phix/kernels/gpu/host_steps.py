"""Steps that need a library: what CuPy does on the device, in place of NumPy on the host.

A step that is not in the table runs on the host, on copies; the log says so once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.kernels.lowering.host_steps import FOURIER, SPECTRAL

log = logging.getLogger("phix.kernels")

OnDevice = Callable[..., None]


def _ordered(cp: Any, x: Any, axis: int, descending: bool) -> Any:
    """The stable order of ``x``; NaN counts as the largest."""
    if x.dtype == dt.bfloat16:  # what CuPy cannot sort, in a wider dtype of the same order
        x = _as_float32(cp, x)
    x = _with_one_nan(cp, x)
    if not descending:
        return cp.argsort(x, axis=axis, kind="stable")
    backward = cp.argsort(cp.flip(x, axis), axis=axis, kind="stable")
    return x.shape[axis] - 1 - cp.flip(backward, axis)


def _with_one_nan(cp: Any, x: Any) -> Any:
    """CuPy's order is one of bits: a NaN with a sign would come first."""
    return cp.where(cp.isnan(x), x.dtype.type(np.nan), x) if x.dtype.kind == "f" else x


def _as_float32(cp: Any, x: Any) -> Any:
    bits = cp.ascontiguousarray(x).view(cp.uint16).astype(cp.uint32) << 16
    return bits.view(cp.float32)


def _taken(cp: Any, x: Any, order: Any, axis: int) -> Any:
    if x.dtype == dt.bfloat16:
        bits = cp.ascontiguousarray(x).view(cp.uint16)
        return cp.take_along_axis(bits, order, axis).view(x.dtype)
    return cp.take_along_axis(x, order, axis)


def _argsort(cp: Any, attrs: Mapping[str, Any], x: Any, out: Any, indices: Any) -> None:
    if not x.ndim:
        out[...], indices[...] = x, 0
        return
    axis = attrs["axis"]
    order = _ordered(cp, x, axis, attrs["descending"])
    if out.shape != x.shape:  # the first of them alone
        order = cp.take(order, cp.arange(out.shape[axis]), axis)
    indices[...] = order
    out[...] = _taken(cp, x, order, axis)


def _sort(cp: Any, attrs: Mapping[str, Any], x: Any, out: Any) -> None:
    if not x.ndim:
        out[...] = x
        return
    axis, descending = attrs["axis"], attrs["descending"]
    if x.dtype == dt.bfloat16:
        out[...] = _taken(cp, x, _ordered(cp, x, axis, descending), axis)
    elif descending:  # equals, zeros of two signs, stay in their order
        out[...] = cp.flip(cp.sort(cp.flip(_with_one_nan(cp, x), axis), axis), axis)
    else:
        out[...] = cp.sort(_with_one_nan(cp, x), axis)


def _fourier(name: str) -> OnDevice:
    """cuFFT, by the functions of CuPy that have the names and arguments of NumPy's."""

    def step(cp: Any, attrs: Mapping[str, Any], x: Any, out: Any) -> None:
        if out.size:  # cuFFT takes no empty batch
            FOURIER[name](cp.fft, x, out, **attrs)

    return step


def _spectral(name: str) -> OnDevice:
    """cuSOLVER, by the functions of CuPy that have the names and arguments of NumPy's."""

    def step(cp: Any, attrs: Mapping[str, Any], x: Any, *out: Any) -> None:
        if x.size:
            SPECTRAL[name](cp, x, out, **attrs)
            return
        for factor in out:  # those with elements are whole bases, of nothing
            if factor.size:
                factor[...] = cp.eye(factor.shape[-1])

    return step


# What has no row runs on the host: CuPy's eig is young, and not in every version; it has no schur.
_STEPS: dict[str, OnDevice] = {
    "argsort": _argsort, "topk": _argsort, "sort": _sort, **{n: _fourier(n) for n in FOURIER},
    **{n: _spectral(n) for n in ("qr", "svd", "eigh")},
}  # fmt: skip


def find(name: str, cp: Any, attrs: Mapping[str, Any]) -> Callable[..., None] | None:
    """``step(*input arrays, *output arrays)`` on the device for a host step, or None."""
    step = _STEPS.get(name)
    if step is None:
        _say_once(name)
        return None
    return lambda *arrays: step(cp, attrs, *arrays)


@cache
def _say_once(name: str) -> None:
    log.info("%s has no kernel on the GPU: it runs on the host, on copies", name)
