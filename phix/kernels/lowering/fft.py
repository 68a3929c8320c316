"""Lowerings of Fourier transforms: a library computes them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.core.kernel_registry import provides
from phix.kernels.loops.builder import Builder, Value
from phix.kernels.lowering.host_steps import FOURIER, host
from phix.kernels.lowering.registry import Task, lowering

provides("fft_r2c", "SCIPY", (dt.float32, dt.float64))
for _name in ("fft_c2c", "fft_c2r"):
    provides(_name, "SCIPY", (dt.complex64, dt.complex128))


def _step(b: Builder, task: Task, name: str, x: Value, **attrs: Any) -> Value:
    return host(b, task, name, partial(_run, name, attrs), x, **attrs)[0]


def _run(name: str, attrs: dict[str, Any], x: np.ndarray, out: np.ndarray) -> None:
    FOURIER[name](np.fft, x, out, **attrs)


@lowering("fft_c2c", "whole")
def fft_c2c(
    b: Builder, x: Value, axes: Any, normalization: str, forward: bool, *, task: Task
) -> Value:
    return _step(b, task, "fft_c2c", x, axes=axes, normalization=normalization, forward=forward)


@lowering("fft_r2c", "whole")
def fft_r2c(
    b: Builder,
    x: Value,
    axes: Any,
    normalization: str,
    forward: bool,
    onesided: bool,
    *,
    task: Task,
) -> Value:
    attrs = dict(axes=axes, normalization=normalization, forward=forward, onesided=onesided)
    return _step(b, task, "fft_r2c", x, **attrs)


@lowering("fft_c2r", "whole")
def fft_c2r(
    b: Builder,
    x: Value,
    axes: Any,
    normalization: str,
    forward: bool,
    last_dim_size: Any,
    *,
    task: Task,
) -> Value:
    return _step(b, task, "fft_c2r", x, axes=axes, normalization=normalization, forward=forward)
