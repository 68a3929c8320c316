"""NVRTC, NVIDIA's compiler of CUDA C++ at run time: called by ctypes, needs no driver.

See :mod:`phix.kernels.gpu.libraries` for where it is looked for.
"""

from __future__ import annotations

import ctypes
import hashlib
from functools import cache
from typing import Any

from phix.core import disk_cache
from phix.core.errors import DeviceError
from phix.kernels.gpu import libraries


class CompileError(DeviceError):
    """NVRTC refused a source; the message has its log."""


@cache
def library() -> Any:
    """The loaded library.

    Raises:
        DeviceError: there is none.
    """
    return _declared(libraries.load("nvrtc", "cuda_nvrtc", "GPU kernels are compiled by NVRTC"))


def _declared(found: Any) -> Any:
    program, text = ctypes.c_void_p, ctypes.c_char_p
    found.nvrtcCreateProgram.argtypes = [
        ctypes.POINTER(program), text, text, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p
    ]  # fmt: skip
    found.nvrtcCompileProgram.argtypes = [program, ctypes.c_int, ctypes.POINTER(text)]
    found.nvrtcDestroyProgram.argtypes = [ctypes.POINTER(program)]
    for what in ("ProgramLog", "CUBIN", "PTX"):
        getattr(found, f"nvrtcGet{what}").argtypes = [program, ctypes.c_void_p]
        size = getattr(found, f"nvrtcGet{what}Size")
        size.argtypes = [program, ctypes.POINTER(ctypes.c_size_t)]
    found.nvrtcGetErrorString.restype = text
    return found


@cache
def version() -> tuple[int, int]:
    """Major and minor version of the library."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return major.value, minor.value


def _check(status: int) -> None:
    if status:
        raise CompileError(f"NVRTC: {library().nvrtcGetErrorString(status).decode()}")


def compiled(source: str, architecture: int) -> bytes:
    """The machine code (a cubin) of a source for compute capability ``architecture`` (90: 9.0).

    Kept on disk, keyed by the source, the architecture and the version of NVRTC.

    Raises:
        CompileError: the source does not compile.
        DeviceError: NVRTC is not there.
    """
    identity = f"nvrtc {version()} sm_{architecture} {_OPTIONS}\n"
    key = hashlib.sha256((identity + source).encode()).hexdigest()
    found = disk_cache.load(key)
    if found is None:
        found = _compile(source, architecture)
        disk_cache.save(key, found)
    return found


# Every operation rounds, as on the CPU; where a product goes into a sum, kernels write fma.
_OPTIONS = (b"--std=c++17", b"--fmad=false")


def _compile(source: str, architecture: int) -> bytes:
    nvrtc, program = library(), ctypes.c_void_p()
    _check(
        nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"phix.cu", 0, None, None)
    )
    options = [f"--gpu-architecture=sm_{architecture}".encode(), *_OPTIONS]
    try:
        array = (ctypes.c_char_p * len(options))(*options)
        status = nvrtc.nvrtcCompileProgram(program, len(options), array)
        if status:
            log = _read(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
            raise CompileError(f"NVRTC cannot compile a kernel for sm_{architecture}:\n{log}")
        return _read(program, "CUBIN")
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _read(program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(getattr(library(), f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    content = ctypes.create_string_buffer(size.value)
    _check(getattr(library(), f"nvrtcGet{what}")(program, content))
    return content.raw
