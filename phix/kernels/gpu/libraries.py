"""Shared libraries of CUDA, found where wheels or a toolkit put them."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from phix.core.errors import DeviceError

_CUDA = (13, 12)
# What a library opens by its name when it is used: that of its own folder must be there by then.
_COMPANIONS = {"nvrtc": "nvrtc-builtins"}
_INSTALL = 'pip install "phix[cuda12]" or "phix[cuda13]", or set CUDA_PATH to a CUDA toolkit'


def load(
    name: str,
    wheel_folder: str,
    purpose: str,
    majors: tuple[int, ...] = _CUDA,
    install: str = _INSTALL,
) -> Any:
    """The library ``name`` (``nvrtc``, ``cublas``), of one of the ``majors``, the first first.

    Raises:
        DeviceError: there is none; the message says what to install.
    """
    files = _file_names(name, majors)
    places = [folder / file for folder in _folders(wheel_folder) for file in files]
    for place in [*(p for p in places if p.is_file()), *map(Path, files)]:
        try:
            _load_companions(name, place)
            return ctypes.CDLL(str(place))
        except OSError:
            continue
    raise DeviceError(f"{purpose}, and its library was not found: {install}")


def _load_companions(name: str, place: Path) -> None:
    version = place.name.rpartition(".so.")[2]
    if name in _COMPANIONS and place.is_file():
        for beside in sorted(place.parent.glob(f"lib{_COMPANIONS[name]}.so.{version}*")):
            ctypes.CDLL(str(beside))


def _file_names(name: str, majors: tuple[int, ...]) -> list[str]:
    if sys.platform == "win32":
        return [f"{name}64_{major}{'0_0' if name == 'nvrtc' else ''}.dll" for major in majors]
    return [f"lib{name}.so.{major}" for major in majors]


def _folders(wheel_folder: str) -> Iterator[Path]:
    wheels = importlib.util.find_spec("nvidia")
    for root in wheels.submodule_search_locations or () if wheels else ():
        for folder in ("cu13", wheel_folder):
            yield Path(root) / folder / ("bin" if sys.platform == "win32" else "lib")
    if "CUDA_PATH" in os.environ:
        yield Path(os.environ["CUDA_PATH"]) / "lib64"
    yield Path("/usr/local/cuda/lib64")
