"""What the ``ref`` of an entry may use beside NumPy and scipy.special.

A file holds the references of a family: functions of NumPy arrays, written from the definition.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from typing import Any

import numpy as np
import scipy.special


def _functions() -> dict[str, Any]:
    files = (f"{__name__}.{file.name}" for file in pkgutil.iter_modules(__path__))
    return {
        name: function
        for file in files
        for name, function in vars(importlib.import_module(file)).items()
        if getattr(function, "__module__", "") == file
    }


NAMES: dict[str, Any] = {"np": np, "sp": scipy.special, "functools": functools, **_functions()}
