"""Numba beside phix: kernels of ops written in Numba, and functions of phix inside its code.

A kernel or a scalar function becomes part of the native programs that use it: no Python runs
between, in loops and under ``vmap`` neither. Numba is imported when one of these is first used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from phix.core.faces import face

__all__ = ["kernel"]
__dir__ = face(__all__)

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(
    op_name: str,
    dtypes: Any = ("bool", "int", "float32", "float64", "complex"),
    layout: str = "any",
    *,
    error_model: str = "python",
    fastmath: bool = False,
) -> Callable[[Function], Function]:
    """Register the decorated function, in the Python that Numba compiles, as a kernel of an op.

    The function takes the op's inputs as C-contiguous arrays that it may not write, then its
    attributes, then its outputs, which it fills: ``kernel(*inputs, *attrs, *outputs)``. An optional
    input that is not given is None, a list of tensors is a tuple. Sizes may be unknown: the
    function is compiled once for dtypes, ranks and attributes.

    Args:
        op_name: an op of the table, one's own by ``phix.load_ops`` among them.
        dtypes: what it is for: names and groups (``"int"``, ...), of all but 16-bit floats.
        layout: ``"NCHW"`` or ``"NHWC"`` where the kernel cares, else ``"any"``.
        error_model: of Numba: ``"python"`` raises where a number is divided by zero, ``"numpy"``
            does not.
        fastmath: of Numba: floats may be computed in another order, and are taken to be finite.

    An exception that the function raises ends the program as a :class:`phix.errors.KernelError`.

    Raises:
        UnknownOpError: the table has no such op.
        KernelRegistrationError: the function takes other arguments, or one of that key is there.

    >>> import phix
    >>> from pathlib import Path
    >>> entry = (
    ...     "- {op: running_max, args: (Tensor x), output: Tensor(out), "
    ...     "infer_meta: {func: UnchangedInferMeta}}"
    ... )
    >>> _ = Path("running.yaml").write_text(entry)
    >>> ops = phix.load_ops("running.yaml")
    >>> @phix.numba.kernel("running_max", dtypes=["float32", "float64"])
    ... def running_max(x, out):
    ...     most = x[0]
    ...     for i in range(x.size):
    ...         most = max(most, x[i])
    ...         out[i] = most
    >>> phix.jit(lambda x: ops.running_max(x) * 2.0)([1.0, 3.0, 2.0]).numpy()
    array([2., 6., 6.], dtype=float32)
    """

    def decorator(function: Function) -> Function:
        from phix.kernels.numba.kernel import register

        register(op_name, dtypes, layout, function, error_model=error_model, fastmath=fastmath)
        return function

    return decorator
