"""NumPy's covariances and correlations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phix import ops
from phix.array_functions.numpy_arguments import floating, tensor, with_dtype
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.attrs import beneath, is_traced
from phix.core.errors import AttributeValueError, DTypeError, ShapeError
from phix.core.expectations import expect_dims, expect_none_of_one

Function = Callable[..., Any]


def _rows(name: str, m: Any, y: Any, rowvar: bool) -> Any:
    """The variables as rows."""
    x = floating(m)
    if x.ndim > 2:
        raise ShapeError(f"{name}: at most two axes, found {x.meta}")
    x = ops.reshape(x, (1, -1)) if x.ndim < 2 else x if rowvar else ops.transpose(x, [1, 0])
    if y is None:
        return x
    more = _rows(name, y, None, rowvar)
    dtype = dt.promote(x.dtype, more.dtype)
    return ops.concat([x.astype(dtype), more.astype(dtype)], 0)


def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None,
    fweights: Any = None, aweights: Any = None, *, dtype: Any = None,
) -> Any:  # fmt: skip
    """The covariances of the variables in the rows, or, with rowvar=False, in the columns."""
    x = with_dtype(_rows("cov", m, y, rowvar), dtype)
    if (wide := dt.accumulator_dtype(x.dtype)) != x.dtype:
        found = cov(x.astype(wide), None, True, bias, ddof, fweights, aweights)
        return found.astype(x.dtype)
    less = ddof if ddof is not None else 0 if bias else 1
    said = {"fweights": fweights, "aweights": aweights}
    weights = [_weights(n, w, x) for n, w in said.items() if w is not None]
    conj = ops.conj if dt.is_complex(x.dtype) else lambda v: v
    if not weights:
        away = x - ops.mean(x, [1], True)
        found = ops.matmul(away, conj(ops.transpose(away, [1, 0]))) / _freedom(x.shape[1] - less)
    else:
        w = weights[0] if len(weights) == 1 else weights[0] * weights[1]
        total = ops.sum(w)
        away = x - ops.sum(x * w, [1], None, True) / total
        norm = total - less
        if aweights is not None and less:
            norm = total - less * ops.sum(w * weights[-1]) / total
        norm = ops.maximum(norm, 0)
        found = ops.matmul(away * w, conj(ops.transpose(away, [1, 0]))) / norm
    if dm.is_one(rows := x.meta.dims[0]):
        return ops.reshape(found, ())
    refusal = f"covariances of 1 variable have no axes, found {x.meta}; say so of its size"
    return expect_none_of_one(found, refusal, rows)


def _weights(name: str, given: Any, x: Any) -> Any:
    """A weight of each column of x; known ones are not below 0, and counts are ints."""
    w = tensor(given)
    if name == "fweights" and dt.kind(w.dtype) != "int":
        raise DTypeError(f"cov: fweights are ints, found {w.meta}; write aweights for others")
    w = expect_dims(w, f"cov: {name} must be [{x.meta.dims[1]}], one of each observation, found "
                       f"{w.meta}", x.meta.dims[1:])  # fmt: skip
    if not is_traced(w) and bool((beneath(w).numpy() < 0).any()):
        raise AttributeValueError(f"cov: {name} are at least 0, found one below")
    return floating(w).astype(dt.real_dtype(x.dtype))


def _freedom(count: Any) -> Any:
    """At least 0, as NumPy has it: of fewer samples than ddof nothing is known, with no sign."""
    return max(count, 0) if isinstance(count, float) else dm.maximum(count, 0)


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    """The covariances divided by the standard deviations: from -1 to 1."""
    rows = with_dtype(_rows("corrcoef", x, y, rowvar), dtype)
    if (wide := dt.accumulator_dtype(rows.dtype)) != rows.dtype:
        return corrcoef(rows.astype(wide)).astype(rows.dtype)
    found = cov(rows)
    if not found.ndim:
        return found / found
    size = ops.sqrt(ops.real(ops.diagonal(found)))
    found = found / ops.unsqueeze(size, [1]) / size
    if dt.is_complex(found.dtype):
        parts = [ops.clip(part, -1.0, 1.0) for part in (ops.real(found), ops.imag(found))]
        return ops.complex(*parts)
    return ops.clip(found, -1.0, 1.0)


NAMES: dict[str, Function] = {"cov": cov, "corrcoef": corrcoef}
