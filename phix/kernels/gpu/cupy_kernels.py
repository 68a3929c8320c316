"""Kernels of ops that users write with CuPy, in the form of the registry: ``phix.cupy.kernel``."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from phix.core import kernel_keys
from phix.core.errors import KernelRegistrationError
from phix.core.kernel_context import KernelContext
from phix.core.kernel_registry import register_kernel
from phix.core.op import NUMBERS, Op
from phix.core.rules import get_op

BACKEND = "GPU"
BLOCK = 256  # threads
# Attributes that are one number, which CUDA C++ takes as they are.
_PLAIN = NUMBERS | {"bool", "int", "int64_t", "size_t", "Scalar(int)", "Scalar(int64_t)"}

Run = Callable[..., None]


def register(
    op_name: str,
    dtypes: Any,
    layout: str,
    function: Callable[..., Any],
    launch: Callable[..., Any] | None,
    recordable: bool | None,
) -> None:
    """See ``phix.cupy.kernel``."""
    op = get_op(op_name)
    is_raw = _is_one(function, "RawKernel")
    is_made = _is_one(function, "ElementwiseKernel", "ReductionKernel")
    if launch is not None:
        _check_arguments(op, launch, "launch")
        run = _launched(function, launch)
    elif is_raw:
        _check_attributes(op)
        run = _launched(function, _an_element_a_thread(op))
    elif is_made:
        run = _spread(function)
    else:
        _check_arguments(op, function, "the function")
        run = _called(function)
    how = (is_made or is_raw) if recordable is None else recordable
    register_kernel(op_name, BACKEND, layout, dtypes, recordable=how)(run)


def _is_one(function: Any, *names: str) -> bool:
    """Whether it is of one of these classes of CuPy, which is there then."""
    cupy = sys.modules.get("cupy")
    classes = tuple(c for c in (getattr(cupy, n, None) for n in names) if c is not None)
    return isinstance(function, classes)


def _arguments(op: Op) -> list[str]:
    """The names of what kernels of the op get."""
    inputs, attrs = tuple(a.name for a in op.inputs), tuple(op.attr_names)
    taken = map(str, kernel_keys.kernel_arguments(op, inputs, attrs))
    return [*taken, *(o.name for o in op.outputs)]


def _check_arguments(op: Op, function: Callable[..., Any], what: str) -> None:
    names = _arguments(op)
    try:
        inspect.signature(function).bind(*names)
    except ValueError:  # made elsewhere, and says nothing of what it takes
        return
    except TypeError as error:
        raise KernelRegistrationError(
            f"the CuPy kernel of {op.name!r}: {what} is called with inputs, attributes and "
            f"outputs, as ({', '.join(names)}): {error}"
        ) from None


def _check_attributes(op: Op) -> None:
    """What no rule of ours says how to hand to CUDA C++."""
    taken = set(_arguments(op))
    odd = [a for a in op.attrs if a.name in taken and a.type not in _PLAIN]
    if odd:
        raise KernelRegistrationError(
            f"the CuPy kernel of {op.name!r}: its attribute {odd[0].name!r} is of type "
            f"{odd[0].type}, which a RawKernel is not given by itself; pass launch=, a function of "
            f"({', '.join(_arguments(op))}) that gives (grid, block, arguments)"
        )


# -- the forms -------------------------------------------------------------------------------------
def _called(function: Callable[..., Any]) -> Run:
    def run(ctx: KernelContext, *arguments: Any) -> None:
        function(*arguments)

    return run


def _spread(function: Callable[..., Any]) -> Run:
    def run(ctx: KernelContext, *arguments: Any) -> None:
        function(*_flat(arguments))

    return run


def _launched(function: Callable[..., Any], launch: Callable[..., Any]) -> Run:
    def run(ctx: KernelContext, *arguments: Any) -> None:
        grid, block, given, *shared = launch(*arguments)
        if all(grid):
            function(grid, block, tuple(given), **({"shared_mem": shared[0]} if shared else {}))

    return run


def _an_element_a_thread(op: Op) -> Callable[..., tuple[Any, ...]]:
    """How a RawKernel is started of which nothing else is said."""
    count = len(op.outputs)

    def launch(*arguments: Any) -> tuple[Any, ...]:
        first = next(_flat(arguments[-count:]))
        size = math.prod(first.shape)
        given = (*map(_argument, _flat(arguments)), np.int64(size))
        return (-(-size // BLOCK),), (BLOCK,), given

    return launch


def _flat(arguments: Sequence[Any]) -> Iterator[Any]:
    """The entries, lists of tensors spread out."""
    for entry in arguments:
        if isinstance(entry, tuple):
            yield from entry
        else:
            yield entry


def _argument(value: Any) -> Any:
    """An argument as CUDA C++ gets it."""
    if value is None:
        return np.uintp(0)
    for kind, as_kind in _AS:
        if isinstance(value, kind):
            return as_kind(value)
    return value


_AS: tuple[tuple[type, type], ...] = (
    (bool, np.bool_), (int, np.int64), (float, np.float64), (complex, np.complex128),
)  # fmt: skip
