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


def _transform(name: str, *attrs: str) -> None:
    """Lower an op by the function of its name, which takes these of its attributes."""

    @lowering(name, "whole")
    def rule(b: Builder, x: Value, *values: Any, task: Task) -> Value:
        given = dict(zip(attrs, values))
        return host(b, task, name, partial(_run, name, given), x, **given)[0]


def _run(name: str, attrs: dict[str, Any], x: np.ndarray, out: np.ndarray) -> None:
    FOURIER[name](np.fft, x, out, **attrs)


_transform("fft_c2c", "axes", "normalization", "forward")
_transform("fft_r2c", "axes", "normalization", "forward", "onesided")
_transform("fft_c2r", "axes", "normalization", "forward")
