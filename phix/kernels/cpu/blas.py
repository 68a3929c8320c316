"""Matrix products through the BLAS that SciPy brings."""

from __future__ import annotations

import ctypes
import importlib
import sys
from functools import cache
from importlib import machinery
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

_LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
_SCALARS = {"float32": "float", "float64": "double", "complex64": "[2 x float]",
            "complex128": "[2 x double]"}  # fmt: skip
_ONES = {"float32": "1.0", "float64": "1.0", "complex64": "[float 1.0, float 0.0]",
         "complex128": "[double 1.0, double 0.0]"}  # fmt: skip

# out = op(x) op(y), or that added to out; lx, ly and lo are the elements from row to row. The rows
# of a C-ordered matrix are the columns of a Fortran one: out.T = op(y).T op(x).T.
_GEMM = """
declare void @phix_{letter}gemm(ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr)
define internal void @gemm_{dtype}(i64 %tx, i64 %ty, i64 %add, i64 %m, i64 %n, i64 %k, i64 %lx, \
i64 %ly, i64 %lo, ptr %x, ptr %y, ptr %out) noinline nounwind {{
  %ta = alloca i8
  %tb = alloca i8
  %sizes = alloca [6 x i32]
  %alpha = alloca {scalar}
  %beta = alloca {scalar}
  %cx = icmp ne i64 %tx, 0
  %cy = icmp ne i64 %ty, 0
  %adds = icmp ne i64 %add, 0
  %fy = select i1 %cy, i8 84, i8 78
  %fx = select i1 %cx, i8 84, i8 78
  store i8 %fy, ptr %ta
  store i8 %fx, ptr %tb
  %ly1 = call i64 @llvm.smax.i64(i64 %ly, i64 1)
  %lx1 = call i64 @llvm.smax.i64(i64 %lx, i64 1)
  %lo1 = call i64 @llvm.smax.i64(i64 %lo, i64 1)
{stores}
  store {scalar} {one}, ptr %alpha
  %kept = select i1 %adds, {scalar} {one}, {scalar} zeroinitializer
  store {scalar} %kept, ptr %beta
  call void @phix_{letter}gemm(ptr %ta, ptr %tb, ptr %p0, ptr %p1, ptr %p2, ptr %alpha, ptr %y, \
ptr %p3, ptr %x, ptr %p4, ptr %beta, ptr %out, ptr %p5)
  ret void
}}"""


def _store_sizes() -> str:
    lines = []
    for k, name in enumerate(("%n", "%m", "%k", "%ly1", "%lx1", "%lo1")):
        lines.append(f"  %i{k} = trunc i64 {name} to i32")
        lines.append(f"  %p{k} = getelementptr inbounds i32, ptr %sizes, i64 {k}")
        lines.append(f"  store i32 %i{k}, ptr %p{k}")
    return "\n".join(lines)


def wrapper(name: str) -> tuple[str, str]:
    """The LLVM text of the routine ``gemm_<dtype>``, and the declaration it needs."""
    dtype = name.split("_", 1)[1]
    letter = _LETTERS[dtype]
    text = _GEMM.format(
        letter=letter, dtype=dtype, scalar=_SCALARS[dtype], one=_ONES[dtype], stores=_store_sizes()
    )
    return text, "declare i64 @llvm.smax.i64(i64, i64)"


def provide(name: str) -> None:
    """Make a routine known to compiled code, by its name there: ``phix_dgemm`` is BLAS's dgemm."""
    from phix.kernels.cpu import jit

    jit.add_symbol(name, _capsule_pointer(_cython_blas().__pyx_capi__[name.removeprefix("phix_")]))


@cache
def _cython_blas() -> Any:
    """The extension module ``scipy.linalg.cython_blas``, without the rest of scipy.linalg.

    That takes five times as long to import. The module is left where an import finds it.
    """
    import scipy

    name = "scipy.linalg.cython_blas"
    if name in sys.modules:
        return sys.modules[name]
    folder = str(Path(scipy.__file__).parent / "linalg")
    loaders = (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES)
    spec = machinery.FileFinder(folder, loaders).find_spec("cython_blas")
    if spec is None or spec.origin is None:
        return importlib.import_module(name)
    spec = spec_from_file_location(name, spec.origin)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _capsule_pointer(capsule: Any) -> int:
    """The address in a PyCapsule."""
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(pointer(capsule, name(capsule)))
