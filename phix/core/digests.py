"""Digests as Python itself has them: ``hashlib`` loads OpenSSL first, which takes as long as a good
part of a first call of a program that is on disk."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any


def _algorithm(name: str, *modules: str) -> Callable[..., Any]:
    """An algorithm of the first of some modules that has it; OpenSSL's is taken where it is loaded
    already."""
    for module in ("hashlib",) if "hashlib" in sys.modules else (*modules, "hashlib"):
        try:
            found: Callable[..., Any] = getattr(importlib.import_module(module), name)
            return found
        except (ImportError, AttributeError):
            continue
    raise ImportError(f"this Python has no {name}")


sha256 = _algorithm("sha256", "_sha2", "_sha256")  # from Python 3.12 on, and before
blake2b = _algorithm("blake2b", "_blake2")  # three times as fast, for many bytes of ours
_MUCH = 1 << 21  # bytes for which OpenSSL is worth its loading


def of_size(count: int) -> Callable[..., Any]:
    """The algorithm for so many bytes."""
    if count < _MUCH:
        return sha256
    import hashlib

    return hashlib.sha256
