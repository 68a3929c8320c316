"""The functions that a printed module brings along: see ``helpers.py``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from phix.kernels.numba.printed.helpers import TEXTS

JIT = '@njit(error_model="numpy")'
# helper -> another that it calls, of int64 where it says so.
_NEEDS = {"rest": "quotient", "uint64": "int"}


class Prelude:
    """The functions that a module needs, in the order in which they are written."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.bodies: dict[Any, str] = {}

    def name(self, kind: str, dtype: np.dtype | None = None) -> str:
        """The name of a helper, whose text the module then has."""
        if kind in _NEEDS:
            self.name(_NEEDS[kind], np.dtype("int64") if kind == "uint64" else dtype)
        is_unsigned = dtype is not None and dtype.kind == "u" and kind == "quotient"
        text = TEXTS["unsigned_quotient" if is_unsigned else kind]
        for word, value in _words(dtype).items():
            text = re.sub(rf"(?<![A-Za-z0-9]){word}(?![A-Za-z])", value, text)
        (name,) = re.findall(r"^def ([a-z]\w*)", text, re.MULTILINE)
        self.texts[name] = f"{JIT}{text.rstrip()}" if text.startswith("\ndef") else text.strip()
        return name

    def add(self, body: Any, new: Callable[[str], str], write: Callable[[Any, str], str]) -> None:
        """Have the function of a body, which ``write`` makes under a ``new`` name."""
        if body not in self.bodies:
            name = self.bodies[body] = new(str(body))
            self.texts[name] = write(body, name)


def _words(dtype: np.dtype | None) -> dict[str, str]:
    """What stands in a text for the words in capitals."""
    if dtype is None:
        return {}
    found = {"T": str(dtype), "BITS": str(8 * dtype.itemsize)}
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        found |= {"MOST_FLOAT": f"{limits.max + 1}.0", "LEAST_FLOAT": f"{limits.min}.0"}
        found |= {"MOST": str(limits.max), "LEAST": str(limits.min)}
    return found
