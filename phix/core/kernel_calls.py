"""One call of a registered kernel: what it is given, and what becomes of its faults.

Every engine runs registered kernels through :func:`run`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from phix.core import places, unfilled
from phix.core.errors import KernelError, PhixError, described
from phix.core.graph import flat
from phix.core.kernel_context import KernelContext, Unsized
from phix.core.kernel_keys import kernel_arguments
from phix.core.kernel_registry import Kernel, argument_names
from phix.core.op import Op
from phix.core.source import Source, user_source


def run(
    kernel: Kernel, op: Op, ctx: KernelContext, inputs: tuple[Any, ...], attrs: tuple[Any, ...],
    outputs: tuple[Any, ...], source: Source | None = None,
) -> None:  # fmt: skip
    """Fill ``outputs``, storage or :class:`Unsized`, by the kernel. It cannot write to its inputs,
    where their device has memory that is read alone.

    Raises:
        KernelError: it raised or returned something, or left a size open or memory as it was.
    """
    run_args(kernel, op, ctx, kernel_arguments(op, inputs, attrs), outputs, source)


def run_args(
    kernel: Kernel, op: Op, ctx: KernelContext, args: tuple[Any, ...], outputs: tuple[Any, ...],
    source: Source | None = None,
) -> None:  # fmt: skip
    """As :func:`run`, for inputs and attributes in the order in which kernels take them."""
    given = list(args)
    for n in _tensor_places(op):
        x = given[n]
        given[n] = tuple(map(places.read_only, x)) if type(x) is tuple else _read_only(x)
    assert kernel.function is not None
    marks = unfilled.mark(flat(outputs))
    try:
        found = kernel.function(ctx, *given, *outputs)
    except PhixError:
        raise
    except Exception as error:
        what = f"raised {type(error).__name__}: {error}"
        if "read-only" in str(error):
            what += "; inputs are read alone: write to the outputs, or to ctx.alloc(shape, dtype)"
        raise _fault(what, kernel, op, (*args, *outputs), source) from error
    is_plain = found is None and _OPEN.isdisjoint(map(type, outputs))
    made: list[Any] = [] if is_plain else flat(outputs)
    if found is not None and not all(any(f is o for o in made) for f in flat((found,))):
        what = f"returned {described(found)}; it is to fill the outputs and to return nothing"
        raise _fault(what, kernel, op, (*args, *outputs), source)
    for out in made:
        if isinstance(out, Unsized) and (wrong := out.problem()):
            raise _fault(wrong, kernel, op, (*args, *outputs), source)
    if left := unfilled.problem(marks):
        what = f"{left}; it is to fill all of its outputs"
        raise _fault(what, kernel, op, (*args, *outputs), source)


_OPEN = frozenset({Unsized, tuple})  # outputs that a kernel may leave without data, or lists


@cache
def _tensor_places(op: Op) -> tuple[int, ...]:
    """Which of what the op's kernels take are its inputs."""
    tensors = {a.name for a in op.inputs}
    return tuple(n for n, name in enumerate(argument_names(op)) if name in tensors)


def _read_only(x: Any) -> Any:
    return None if x is None else places.read_only(x)


def _fault(
    what: str, kernel: Kernel, op: Op, args: tuple[Any, ...], source: Source | None
) -> KernelError:
    names = argument_names(op)
    shown = ", ".join(f"{name}: {_shown(arg)}" for name, arg in zip(names, args))
    line = source or user_source()
    at = f" (at {line})" if line else ""
    name = getattr(kernel.function, "__qualname__", type(kernel.function).__name__)
    where = f"{getattr(kernel.function, '__module__', '?')}.{name}"
    return KernelError(f"the kernel {where} of {op.name!r} for ({kernel.key}){at} {what}. {shown}")


def _shown(value: Any) -> str:
    if isinstance(value, tuple) and value and hasattr(value[0], "dtype"):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, Unsized):
        return f"{value.dtype}, {value.ndim} axes of unknown sizes"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{value.dtype}{list(value.shape)}"
    return described(value)
