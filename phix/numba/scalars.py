"""Pointwise ops made of scalar functions: their entries in the op table, and their derivatives."""

from __future__ import annotations

import contextlib
import inspect
import math
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from phix import ops
from phix.api.gradients import vjp
from phix.api.graphs import make_graph
from phix.core import rules
from phix.core.errors import KernelRegistrationError
from phix.core.meta import spec
from phix.core.rules import OPS
from phix.core.tensor import TensorBase
from phix.kernels.numba import scalar
from phix.kernels.numba.identity import checked
from phix.table.extension import load_ops

# What functions of Python's math are in phix, where their names differ or numbers are meant too.
_MATH = {
    "fabs": ops.abs, "pow": ops.elementwise_pow, "fmod": None, "gamma": lambda x: _gamma(x),
    **{name: getattr(np, name) for name in ("degrees", "exp2", "hypot", "radians")},
    "e": math.e, "pi": math.pi, "tau": math.tau, "inf": math.inf, "nan": math.nan,
}  # fmt: skip


def _gamma(x: Any) -> Any:
    """Its sign, below 0, changes at every whole number."""
    sign = ops.where(ops.logical_or(x > 0, ops.floor(x) % 2.0 == 0), 1.0, -1.0)
    return sign * ops.exp(ops.lgamma(x))


def define(
    op_name: str, function: Callable[..., Any], derive: bool, **options: Any
) -> Callable[..., Any]:
    """See :func:`phix.numba.scalar`."""
    plain = checked(f"the scalar function of {op_name!r}", function)
    tensors, attrs = _parameters(op_name, plain)
    if derive:
        _check_traceable(op_name, plain, len(tensors))
    if op_name not in OPS:
        gives_bools = plain.__annotations__.get("return") in (bool, "bool")
        _load(_entries(op_name, tensors, attrs, derive, gives_bools))
        body = scalar.register(op_name, function, gives_bools, **options)
        if derive:
            _register_derivative(op_name, plain, tensors, attrs, body)
    elif derive:
        raise KernelRegistrationError(
            f"{op_name!r} stands in the op table, and its entry says what its derivative is: leave "
            "out derive=True"
        )
    elif not OPS[op_name].is_pointwise:
        raise KernelRegistrationError(
            f"{op_name!r} is not pointwise, so no scalar function computes it; write a kernel with "
            "phix.numba.kernel"
        )
    else:
        scalar.register(op_name, function, **options)
    made: Callable[..., Any] = getattr(ops, op_name)
    return made


def _parameters(op_name: str, function: Callable[..., Any]) -> tuple[list[str], dict[str, Any]]:
    """The tensors that a function takes, and its attributes with their defaults."""
    found = inspect.signature(function).parameters.values()
    tensors = [p.name for p in found if p.default is p.empty]
    attrs = {p.name: p.default for p in found if p.default is not p.empty}
    odd = [p.name for p in found if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    odd += [n for n, v in attrs.items() if type(v) not in _TYPES]
    if odd or not tensors:
        raise KernelRegistrationError(
            f"the scalar function of {op_name!r} takes numbers, then attributes with a default "
            f"that is a float, int, bool or str; found {inspect.signature(function)}"
        )
    return tensors, attrs


_TYPES = {float: "float", int: "int", bool: "bool", str: "str"}


def _entries(
    op_name: str, tensors: list[str], attrs: dict[str, Any], derive: bool, gives_bools: bool
) -> str:
    """The op's entry in the op table, with that of its backward op where there is one."""
    taken = ", ".join(f"Tensor {name}" for name in tensors)
    typed = [f"{_TYPES[type(v)]} {name}" for name, v in attrs.items()]
    given = ", ".join([taken, *(f"{t} = {_spelled(v)}" for t, v in zip(typed, attrs.values()))])
    infer = "CompareInferMeta" if gives_bools else "ElementwiseInferMeta"
    lines = [
        f"- op: {op_name}",
        f"  args: ({given})",
        "  output: Tensor(out)",
        f"  infer_meta: {{func: {infer}, param: [{', '.join(tensors)}]}}",
        "  traits: [pointwise, promote_float]",
        "  dtypes: [float]",
        '  doc: "A scalar function in Numba, elementwise."',
    ]
    if derive:
        grads = ", ".join(f"Tensor({name}_grad)" for name in tensors)
        lines += [
            f"  backward: {op_name}_grad",
            "  jvp: pointwise",
            f"- backward_op: {op_name}_grad",
            f"  forward: {op_name} ({given}) -> Tensor(out)",
            f"  args: ({', '.join([taken, 'Tensor out_grad', *typed])})",
            f"  output: {grads}",
        ]
    return "\n".join(lines) + "\n"


def _spelled(value: Any) -> str:
    """A default as the op table writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _load(entries: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "numba_scalar.yaml")
        file.write_text(entries, encoding="utf-8")
        load_ops(file)


# -- derivatives -------------------------------------------------------------------------------
def _in_phix(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, in which ``math`` is phix's: NumPy's functions take tensors as they are."""
    assert isinstance(function, types.FunctionType)
    space = {k: _thing_in_phix(v) for k, v in function.__globals__.items() if v is not function}
    cells = tuple(
        types.CellType(_thing_in_phix(c.cell_contents)) for c in function.__closure__ or ()
    )
    made = types.FunctionType(
        function.__code__, space, function.__name__, function.__defaults__, cells or None
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _thing_in_phix(value: Any) -> Any:
    """What a function of numbers uses: ``math``, one of its functions, or one of Numba's."""
    if value is math:
        return _Math()
    if getattr(value, "__module__", None) == "math" and callable(value):
        return getattr(_Math(), value.__name__)
    if isinstance(value, types.FunctionType) or not hasattr(value, "py_func"):
        return value
    return lambda *args, **kwargs: _in_phix(value.py_func)(*args, **kwargs)


class _Math:
    """``math`` of tensors."""

    def __getattr__(self, name: str) -> Any:
        found = _MATH.get(name, getattr(ops, name, None))
        if found is None:
            raise KernelRegistrationError(f"phix has no math.{name} to derive")
        return _numbers_apart(getattr(math, name), found) if callable(found) else found


def _numbers_apart(of_numbers: Any, of_tensors: Callable[..., Any]) -> Callable[..., Any]:
    """Of numbers alone ``math`` itself, for they have more digits than tensors made of them; what
    it refuses is NaN or infinite, as in the function that Numba compiles."""

    def call(*args: Any) -> Any:
        if not any(isinstance(a, TensorBase) for a in args):
            with contextlib.suppress(ArithmeticError, ValueError):
                return of_numbers(*args)
        return of_tensors(*args)

    return call


def _check_traceable(op_name: str, function: Callable[..., Any], count: int) -> None:
    try:
        make_graph(_in_phix(function))(*[spec([], "float64")] * count)
    except Exception as error:  # the user's function may raise any
        raise KernelRegistrationError(
            f"the derivative of {op_name!r} cannot be found by tracing: {error}. Write it of "
            "arithmetic and functions of math or NumPy (for an if, a comparison as a factor, or "
            "np.maximum), or leave out derive=True"
        ) from None


def _register_derivative(
    op_name: str, function: Callable[..., Any], tensors: list[str], attrs: dict[str, Any],
    body: scalar.ScalarBody,
) -> None:  # fmt: skip
    count = len(tensors)

    def rule(*arguments: Any) -> Any:
        xs, out_grad, values = arguments[:count], arguments[count], arguments[count + 1 :]
        traced, named = _in_phix(function), dict(zip(attrs, values))
        _, pull = vjp(lambda *numbers: traced(*numbers, **named), *xs)
        grads = pull(out_grad)
        return grads[0] if count == 1 else tuple(grads)

    rules.decompose(f"{op_name}_grad")(rule)
    rules.note_code(f"{op_name}_grad", lambda: body.digest)
