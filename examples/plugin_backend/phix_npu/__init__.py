"""A device for phix, played by NumPy: memory that host code cannot read, and kernels for it."""

from __future__ import annotations

import phix
from phix_npu.hardware import CARD, Npu
from phix_npu.kernels import KERNELS

__all__ = ["CARD", "KERNELS", "ensure_registered", "register"]


def register() -> None:
    """Add the place ``npu`` to phix; the entry point ``phix.backends`` names this function."""
    phix.register_backend("npu", Npu(), KERNELS, library="NumPy as an accelerator")


def ensure_registered() -> None:
    """``register``, where the package is not installed and nobody has called it."""
    if "NPU" not in phix.kernels.BACKENDS:
        register()
