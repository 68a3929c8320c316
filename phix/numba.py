"""Numba beside phix: kernels of ops written in Numba, and functions of phix inside its code.

A kernel or a scalar function becomes part of the native programs that use it: no Python runs
between, in loops and under ``vmap`` neither. Numba is imported when one of these is first used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from phix.core.faces import face

__all__ = ["kernel", "source"]
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


def source(function: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """A function as the text of a Python module that needs NumPy and Numba, and not phix.

    The module has one function for each kernel, and an entry by the name of ``function``. That
    takes arrays of the dtypes and dims of the arguments, in order, all leaves of nested ones;
    unknown dims are read from their shapes. It returns the results in new arrays: one, or a tuple
    of all leaves. Products of matrices take what ``numpy.dot`` takes in Numba, which is SciPy.

    Args:
        function: takes tensors; a jitted one does.
        *args, **kwargs: tensors, arrays or :func:`phix.spec` of them.

    Raises:
        KernelNotFoundError: Python or a library runs a part of it: ``pure_callback``, ``fft``.
        ArgumentError: it closes over an array of more than 64 elements.

    >>> import phix
    >>> def damped(x):
    ...     return x / (1.0 + x * x)
    >>> text = phix.numba.source(damped, phix.spec(["n"], "float64"))
    >>> print(text[text.index("# a:"):text.index("def elements")])
    # a: float64[n] = multiply(x, x)  # <python>:2
    # b: float64[n] = add(a, 1.0)  # <python>:2
    # c: float64[n] = divide(x, b)  # <python>:2
    @njit(error_model="numpy")
    def multiply_add_divide_kernel(n, x, o0):
        for i0 in range(n):
            o0[i0] = x[i0] / (1.0 + x[i0] * x[i0])
    <BLANKLINE>
    <BLANKLINE>
    >>> space = {}
    >>> exec(text, space)
    >>> space["damped"](np.array([1.0, 2.0]))
    array([0.5, 0.4])
    """
    from phix.api.jit import jit
    from phix.core.places import device
    from phix.kernels.numba.printed.program import source as text_of

    jitted = function if hasattr(function, "lower") else jit(function)
    with device("cpu"):
        graph = jitted.lower(*args, **kwargs).graph
    return text_of(graph, getattr(function, "__name__", "function"))
