"""CuPy beside phix: kernels of ops for GPUs, written in CUDA C++ or in Python over CuPy's arrays.

Arrays of CuPy themselves go in and out of phix as they are: a tensor on a GPU is one, and jitted
functions take them in place. CuPy is imported when a GPU is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from phix.core.faces import face
from phix.core.given import FLAG, FUNCTION, NONE, named, takes

__all__ = ["kernel"]
__dir__ = face(__all__)

Function = TypeVar("Function", bound=Callable[..., Any])


@takes(launch=FUNCTION | NONE, recordable=FLAG | NONE)
def kernel(
    op_name: str,
    dtypes: Any = ("bool", "int", "float16", "float32", "float64", "complex"),
    layout: str = "any",
    *,
    launch: Callable[..., Any] | None = None,
    recordable: bool | None = None,
) -> Callable[[Function], Function]:
    """Register a kernel of an op for GPUs: decorate a function, or give it what CuPy made.

    It is called with the op's inputs, C-contiguous arrays of CuPy that it may not write, then its
    attributes, then its outputs, which it fills. An optional input that is not given is None, a
    list of tensors is a tuple. By what it is:

    - a Python function: ``function(*inputs, *attrs, *outputs)``;
    - a ``cupy.ElementwiseKernel`` or ``cupy.ReductionKernel``: the same; lists are spread out;
    - a ``cupy.RawKernel``: started with a thread for each element of the first output, in blocks of
      256, as ``kernel(*inputs, *attrs, *outputs, size)`` in CUDA C++: arrays are pointers (an input
      that is not given is null), attributes ``long long``, ``double``, ``bool`` or
      ``complex<double>``, and ``size`` is the number of these elements, a ``long long``.

    Args:
        op_name: an op of the table, one's own by ``phix.load_ops`` among them.
        dtypes: what it is for: names and groups (``"int"``, ...).
        layout: ``"NCHW"`` or ``"NHWC"`` where the kernel cares, else ``"any"``.
        launch: for a RawKernel, or another that is called as one: a function of the inputs,
            attributes and outputs that gives (grid, block, arguments), or these and the bytes of
            shared memory.
        recordable: whether it only starts work on the current stream, and allocates nothing:
            programs with it may become CUDA graphs. By default so of what CuPy made, and of no
            Python function.

    Raises:
        UnknownOpError: the table has no such op.
        KernelRegistrationError: the function takes other arguments, the kernel can not be given
            one of the op's attributes, or a kernel of that key is there.

    >>> import phix
    >>> from pathlib import Path
    >>> entry = (
    ...     "- {op: doubled, args: (Tensor x), output: Tensor(out), "
    ...     "infer_meta: {func: UnchangedInferMeta}}"
    ... )
    >>> _ = Path("doubled.yaml").write_text(entry)
    >>> ops = phix.load_ops("doubled.yaml")
    >>> @phix.cupy.kernel("doubled", dtypes=["float32"])
    ... def doubled(x, out):
    ...     out[...] = 2 * x
    >>> [str(k) for k in phix.kernels.keys("doubled", ["GPU"])]
    ['GPU, any, float32']
    """

    @named("kernel", of_ops=True)
    def decorator(function: Function) -> Function:
        from phix.kernels.gpu.cupy_kernels import register

        register(op_name, dtypes, layout, function, launch, recordable)
        return function

    return decorator
