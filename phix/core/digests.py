"""SHA-256 as Python itself has it: ``hashlib`` loads OpenSSL first, which takes as long as all the
rest of a first call of a program that is on disk."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

# From Python 3.12 on, and before. OpenSSL's is faster: it is taken where it is loaded already.
_MODULES = ("_sha2", "_sha256", "hashlib")


def _algorithm() -> Callable[..., Any]:
    for name in ("hashlib",) if "hashlib" in sys.modules else _MODULES:
        try:
            found: Callable[..., Any] = importlib.import_module(name).sha256
            return found
        except (ImportError, AttributeError):
            continue
    raise ImportError("this Python has no SHA-256")


sha256 = _algorithm()  # as ``hashlib.sha256``
_MUCH = 1 << 21  # bytes for which OpenSSL is worth its loading


def of_size(count: int) -> Callable[..., Any]:
    """The algorithm for so many bytes."""
    if count < _MUCH:
        return sha256
    import hashlib

    return hashlib.sha256
