"""Numba beside phix: kernels of ops written in Numba, and functions of phix inside its code.

A kernel or a scalar function becomes part of the native programs that use it: no Python runs
between, in loops and under ``vmap`` neither. Numba is imported when one of these is first used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from phix.core.faces import face
from phix.core.given import FLAG, FUNCTION, list_of, named, one_of, takes

__all__ = ["kernel", "njit", "scalar", "source"]
__dir__ = face(__all__)

Function = TypeVar("Function", bound=Callable[..., Any])


_FLAGS = one_of("afn", "arcp", "contract", "fast", "ninf", "nnan", "nsz", "reassoc")
_OPTIONS = {
    "error_model": one_of("python", "numpy"),
    "fastmath": FLAG | list_of(_FLAGS, f"several, {_FLAGS.says}", set, frozenset),
}


@takes(**_OPTIONS)
def kernel(
    op_name: str,
    dtypes: Any = ("bool", "int", "float32", "float64", "complex"),
    layout: str = "any",
    *,
    error_model: str = "python",
    fastmath: bool | Iterable[str] = False,
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
        fastmath: of Numba: what may be done to floats, such as ``{"contract"}`` (one rounding for
            a product and a sum), or all of it: they are taken to be finite then.

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

    @named("kernel", of_ops=True)
    def decorator(function: Function) -> Function:
        from phix.kernels.numba.kernel import register

        register(op_name, dtypes, layout, function, **_options(error_model, fastmath))
        return function

    return decorator


@takes(**_OPTIONS)
def scalar(
    op_name: str,
    *,
    derive: bool = False,
    error_model: str = "numpy",
    fastmath: bool | Iterable[str] = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make the decorated function of numbers, in the Python that Numba compiles, a pointwise op.

    It runs elementwise, with broadcasting, in the loops of what is computed around it: no array is
    stored between. Parameters with a default are attributes, the others tensors. Ints become
    floats, and 16-bit floats are computed in float32; the result has the dtype of the inputs, or is
    bool where the function is annotated to return ``bool``. It may not raise exceptions.

    Args:
        op_name: the op: one of the table that has no body yet, or a new name, under which
            ``phix.ops`` has it then.
        derive: whether its derivative, to any order, is found by tracing the function with phix.
            That takes functions of ``math``, of NumPy and arithmetic, and no ``if`` on a number.
            Without, there is the derivative that ``phix.core.rules.decompose(op_name + "_grad")``
            registers for ops loaded with a backward entry, or none.
        error_model: of Numba: ``"numpy"`` gives inf or nan where a number is divided by zero.
        fastmath: as for :func:`kernel`.

    Returns:
        The op's function, on tensors.

    Raises:
        PhixError: the op has a body already.
        KernelRegistrationError: the op is not pointwise, or phix cannot trace what it shall derive.

    >>> import math
    >>> import phix
    >>> @phix.numba.scalar("damped_wave", derive=True)
    ... def damped_wave(t, rate=0.5):
    ...     return math.exp(-rate * t) * math.sin(t)
    >>> round(damped_wave(2.0).item(), 6), round(phix.grad(damped_wave)(0.0).item(), 6)
    (0.334512, 1.0)
    """

    @named("scalar", of_ops=True)
    def decorator(function: Callable[..., Any]) -> Callable[..., Any]:
        from phix.numba.scalars import define

        return define(op_name, function, derive, **_options(error_model, fastmath))

    return decorator


def _options(error_model: str, fastmath: bool | Iterable[str]) -> dict[str, Any]:
    """What Numba is told, so that it can be part of a key."""
    flags = tuple(sorted(fastmath)) if isinstance(fastmath, Iterable) else bool(fastmath)
    return {"error_model": error_model, "fastmath": flags}


@takes(function=FUNCTION)
def njit(function: Callable[..., Any], *specs: Any) -> Any:
    """A function of phix, compiled, that code under ``numba.njit`` may call: a gradient, a solver's
    right-hand side, a model.

    No Python runs in it, so ``nogil`` callers may call it side by side. In Numba, 0-d tensors are
    numbers; other arguments are arrays of the declared dtype and rank, made contiguous where they
    are not, or tuples of them; results are new arrays.

    Args:
        function: a pure function of tensors, or trees of tuples of them, to such.
        specs: for each argument its spec, as in ``phix.spec(["n", 3], "float64")``, or an array
            like it. For dims with a name, all sizes are compiled once.

    Returns:
        A compiled function of Numba's, which can be called from Python too. It is not kept on disk
        by Numba's ``cache=True``.

    Raises:
        ArgumentError: Python runs a part of it (a callback, a library's kernel), its data tell the
            size of a result, or its arguments or results are no arrays, numbers or tuples.

    In Numba's code, sizes that do not fit raise ``phix.errors.ShapeError``, memory that is not
    there ``OutOfMemoryError``.

    >>> import numba
    >>> import numpy as np
    >>> import phix
    >>> vector = phix.spec(["n"], "float64")
    >>> slope = phix.numba.njit(phix.grad(lambda x: phix.ops.sum((x - 3.0) ** 2)), vector)
    >>> @numba.njit
    ... def descend(x, steps):
    ...     for _ in range(steps):
    ...         x = x - 0.1 * slope(x)
    ...     return x
    >>> descend(np.zeros(2), 100).round(6)
    array([3., 3.])
    """
    from phix.numba.compiled import compiled

    return compiled(function, specs)


@takes(function=FUNCTION)
def source(function: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """A function as the text of a Python module that needs NumPy and Numba, and not phix.

    The module has one function for each kernel, and an entry by the name of ``function``. That
    takes arrays of the dtypes and dims of the arguments, in order, all leaves of nested ones;
    unknown dims are read from their shapes, and sizes that do not fit are a ValueError. It returns
    the results in new arrays: one, or a tuple of all leaves. Products of matrices take what
    ``numpy.dot`` takes in Numba, which is SciPy.

    Args:
        function: takes tensors; a jitted one does.
        *args, **kwargs: tensors, arrays or :func:`phix.spec` of them.

    Raises:
        KernelNotFoundError: Python or a library runs a part of it: ``pure_callback``, ``fft``; or
            the unknown sizes that it fits are told by more than comparisons of them.
        ArgumentError: it closes over an array of more than 64 elements.

    >>> import numpy as np
    >>> import phix
    >>> def damped(x):
    ...     return x / (1.0 + x * x)
    >>> text = phix.numba.source(damped, phix.spec(["n"], "float64"))
    >>> print(text[text.index("@njit") : text.index("def elements")].strip())
    @njit(error_model="numpy")
    def multiply_add_divide_kernel(x, o0, n):
        for i0 in range(n):
            v1 = x[i0]
            o0[i0] = v1 / (1.0 + v1 * v1)
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
        lowered = jitted.lower(*args, **kwargs)
    return text_of(lowered.traced_graph, lowered.graph, getattr(function, "__name__", "function"))
