"""What a tracer answers where Python, NumPy or another library asks for its value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from phix.core import dtypes as dt
from phix.core.errors import ConcretizationError, PhixError

if TYPE_CHECKING:
    from phix.core.meta import MetaTensor
    from phix.core.tensor import Tracer

_COMPUTE = (
    "compute with phix.ops (ops.sin for math.sin), or call NumPy's functions on the tensor itself "
    "(np.sin(x), np.sum(x))"
)
_CALLBACK = "call another library through phix.pure_callback"


def no_value(tracer: Tracer, asked: str) -> ConcretizationError:
    """Of a tracer without a value."""
    meta = tracer.meta
    return ConcretizationError(
        f"{asked} was asked{_at()} of a tensor that is being traced by "
        f"{tracer.interpreter.name} ({meta}), whose value is not known; {_way_out(meta, asked)}"
    )


def derivative_lost(tracer: Tracer, asked: str) -> PhixError:
    """Of a tracer that has a value, and a derivative that the value alone has not."""
    if not tracer.interpreter.alive:
        from phix.core.dispatch import leaked

        return leaked(tracer, asked)
    return ConcretizationError(
        f"{asked} was asked{_at()} of a tensor that is being differentiated by "
        f"{tracer.interpreter.name} ({tracer.meta}), and would lose its derivative; "
        f"{_differentiable_way(asked)}; or take phix.stop_gradient(x) first, where a constant is "
        "meant"
    )


def _differentiable_way(asked: str) -> str:
    if asked == "a Python number":
        return _COMPUTE
    if asked == "a formatted number":
        return "print with phix.debug.print"
    if asked == "a truth value":
        return "compare it (x != 0), which has no derivative to lose"
    if asked == "a NumPy array":
        return f"{_COMPUTE}, put tensors together with ops.stack, {_CALLBACK}"
    return f"{_COMPUTE}, {_CALLBACK}"


def _at() -> str:
    from phix.core.source import user_source

    source = user_source()
    return f" at {source}" if source else ""


def _way_out(meta: MetaTensor, asked: str) -> str:
    """What to write where Python needs the value of a tensor of this meta."""
    if asked == "a truth value":
        if not meta.ndim:
            return (
                "write phix.cond(condition, f, g, x) in place of `if`, phix.while_loop in place "
                "of `while`, phix.ops.where(condition, a, b) to choose a value; or, if the "
                "condition is a setting, make its argument static (jit's static_argnames)"
            )
        return (
            "use phix.ops.where(condition, a, b) for a choice element by element, or "
            "phix.ops.all or any for one truth, and phix.cond in place of `if`"
        )
    if asked == "an index":
        return "index with the tensor itself (x[i]), or make the argument static"
    if asked == "a formatted number":
        return "print with phix.debug.print"
    if not meta.ndim and dt.kind(meta.dtype) == "int":
        return (
            "a size or count that Python uses belongs in a static argument (jit's "
            "static_argnums or static_argnames), or keep it a tensor: phix.fori_loop takes one"
        )
    return f"{_COMPUTE}, {_CALLBACK}, or make the argument static"
