"""The key of a call: the dtype, layout and place by which its kernel is found."""

from __future__ import annotations

from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.core.conversion import tensor_place
from phix.core.errors import KernelNotFoundError
from phix.core.graph import Equation, flat
from phix.core.kernel_arguments import ANY, LAYOUTS
from phix.core.kernel_context import KernelContext as KernelContext
from phix.core.kernel_context import Unsized as Unsized
from phix.core.kernel_registry import Backend, KernelKey, add_backend
from phix.core.op import Op
from phix.core.places import Place


def key_dtype(op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...], out: Any) -> np.dtype:
    """The dtype that the op's kernels are chosen by.

    It follows ``kernel: {data_type: ...}`` of the entry: an argument, or several (``dtype > x``:
    the first that is given), or a dtype. Without it: that of the first tensor, else of the first
    output.
    """
    named = _choices(op, "data_type")
    given = dict(zip((a.name for a in op.inputs), inputs)) | dict(zip(op.attr_names, attrs))
    values = [given.get(n) for n in named] if named else list(inputs)
    constant = next((dt.BY_NAME[n.lower()] for n in named if n.lower() in dt.BY_NAME), None)
    for value in (*values, constant, out):
        first = value[0] if isinstance(value, tuple) and value else value
        if isinstance(first, np.dtype):
            return first
        if first is not None and hasattr(first, "dtype"):
            return first.dtype
        if first is not None and hasattr(first, "meta"):
            return first.meta.dtype
    raise KernelNotFoundError(f"{op.name}: no argument says which dtype its kernel is for")


def kernel_key(equation: Equation, backend: str) -> KernelKey:
    """What the kernel of an equation is looked up by."""
    op, out = equation.op, next(iter(flat(equation.outputs)), None)
    dtype = key_dtype(op, equation.inputs, equation.attrs, out)
    return KernelKey(backend, key_layout(op, equation.attrs), dtype)


def given_dtypes(equation: Equation) -> tuple[tuple[np.dtype, ...], ...]:
    """For each input of an equation, the dtypes of its tensors."""
    return tuple(
        tuple(dict.fromkeys(a.meta.dtype for a in flat((entry,)))) for entry in equation.inputs
    )


def key_layout(op: Op, attrs: tuple[Any, ...]) -> str:
    """The layout that the op's kernels are chosen by: its layout attribute, else any.

    ``kernel: {layout: ...}`` of the entry names the attribute; ``data_format`` is one by itself.
    """
    name = layout_attr(op)
    value = ANY if name is None else str(op.attr(name, attrs))
    return value if value in LAYOUTS else ANY


def layout_attr(op: Op) -> str | None:
    """The attribute that names the layout; see :func:`key_layout`."""
    names = (*_choices(op, "layout"), "data_format")
    return next((n for n in names if n in op.attr_names), None)


def key_place(op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Place | None:
    """The place that the entry's ``kernel: {backend: ...}`` names: the first that is given of the
    arguments there, a Place or the place of a tensor. None: the entry names none, or none is given.

    The other tensors of the call are brought to it.
    """
    named = place_args(op)
    if not named:
        return None
    given = dict(zip((a.name for a in op.inputs), inputs)) | dict(zip(op.attr_names, attrs))
    for value in (given.get(name) for name in named):
        first = value[0] if isinstance(value, tuple) and value else value
        if isinstance(first, Place):
            return first
        if first is not None:
            return tensor_place(first)
    return None


def place_args(op: Op) -> tuple[str, ...]:
    """The arguments, tensors or Places, that say where the op runs; see :func:`key_place`."""
    return _choices(op, "backend")


def kernel_arguments(op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> tuple[Any, ...]:
    """What the op's kernels take before the outputs: ``kernel: {param: ...}``, else all args."""
    args = op.merge(inputs, attrs)
    if "param" not in op.kernel:
        return args
    by_name = dict(zip((a.name for a in op.args), args))
    return tuple([by_name[name] for name in op.kernel["param"]])


def _choices(op: Op, key: str) -> tuple[str, ...]:
    """``dtype > x`` as names."""
    return tuple(part.strip() for part in str(op.kernel.get(key, "")).split(">") if part.strip())


for _name, _place, _library, _fallback, _about in (
    ("CPU", "cpu", "phix", None, "code of its engine, by LLVM"),
    ("BLAS", "cpu", "blas", "CPU", "the BLAS of SciPy"),
    ("NUMPY", "cpu", "numpy", "CPU", "NumPy"),
    ("SCIPY", "cpu", "scipy", "CPU", "SciPy"),
    ("NUMBA", "cpu", "numba", "CPU", "Numba"),
    ("GPU", "gpu", "phix", "CPU", "code of its engine, by NVRTC"),
    ("GPUDNN", "gpu", "cudnn", "GPU", "cuDNN"),
    ("GPUBLAS", "gpu", "cublas", "GPU", "cuBLAS"),
    ("GPUSOLVER", "gpu", "cusolver", "GPU", "cuSOLVER"),
    ("GPUFFT", "gpu", "cufft", "GPU", "cuFFT"),
):
    _own = _library == "phix"
    add_backend(Backend(_name, _place, _library, _fallback, _own, about=_about))
