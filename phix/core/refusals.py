"""What a tracer answers where Python, NumPy or another library asks for its value."""

from __future__ import annotations

from typing import Protocol

from phix.core import dtypes as dt
from phix.core.errors import ConcretizationError, LeakedTracerError, PhixError
from phix.core.interpreter import Interpreter
from phix.core.meta import MetaTensor
from phix.core.source import at_user_line, user_source


class Traced(Protocol):
    """What is asked of a tracer here."""

    interpreter: Interpreter

    @property
    def meta(self) -> MetaTensor: ...


_COMPUTE = (
    "compute with phix.ops (ops.sin for math.sin), or call NumPy's functions on the tensor itself "
    "(np.sin(x), np.sum(x))"
)
_CALLBACK = "call another library through phix.pure_callback"


def no_value(tracer: Traced, asked: str) -> ConcretizationError:
    """Of a tracer without a value."""
    meta = tracer.meta
    return ConcretizationError(
        f"{asked} was asked{_at()} of a tensor that is being traced by "
        f"{tracer.interpreter.name} ({meta}), whose value is not known; {_way_out(meta, asked)}"
    )


# What has one size in place of an op whose result has as many elements as the data say.
_CHOSEN = (
    "keep the size and choose with phix.ops.where(mask, x, other), give the number of elements "
    "(phix.numpy.nonzero(mask, size=n), phix.numpy.unique(x, size=n), "
    "phix.ops.true_positions(mask, size))"
)
_OF_ONE_SIZE = {
    "bincount": "give the number of counts, phix.numpy.bincount(x, length=n)",
    "repeat_interleave_with_tensor_index": "give the number of elements that come out, "
    "phix.numpy.repeat(x, repeats, total_repeat_length=n)",
}


def no_one_size(op_name: str, tracer: Traced) -> ConcretizationError:
    """Of a batch, each lane of which would have a result of a size of its own."""
    return ConcretizationError(
        f"{op_name}{at_user_line()}: the size of the result depends on the data, so it would be "
        f"another in each lane of the batch ({tracer.meta} is mapped by {tracer.interpreter.name});"
        f" {_OF_ONE_SIZE.get(op_name, _CHOSEN)}, or map over the batch with phix.scan"
    )


def derivative_lost(tracer: Traced, asked: str) -> PhixError:
    """Of a tracer that has a value, and a derivative that the value alone has not."""
    if not tracer.interpreter.alive:
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


def leaked(tracer: Traced, where: str) -> LeakedTracerError:
    sources = tracer.interpreter.sources or {}
    source = getattr(tracer, "source", None) or sources.get(id(tracer))
    made = f", made at {source}" if source else ""
    return LeakedTracerError(
        f"a tracer of {tracer.interpreter.name} ({tracer.meta}{made}) reached {where}"
        f"{at_user_line()} after that transformation had ended; return the value from the "
        "transformed function instead of keeping it in a variable outside"
    )
