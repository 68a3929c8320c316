"""Dims and places in memory as expressions of the scalar language."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.dims import DimLike, Shape
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr

ZERO = sc.const(0, dt.int64)
_BITS_OF_SIZE = 30  # that a size may well have


class DimExpressions:
    """What dims are at run time, by the names that their symbols have there."""

    def __init__(self, symbols: Sequence[dm.Symbol]) -> None:
        self.symbol_names = _name_symbols(symbols)
        self._made: dict[Any, Expr] = {}  # by the key of the dim: strides ask for the same again

    def bind(self, symbol: dm.Symbol) -> str:
        """The name of a dim that gets its value on the way."""
        if symbol not in self.symbol_names:
            taken = (*self.symbol_names, symbol)
            self.symbol_names = _name_symbols(taken)
        return self.symbol_names[symbol]

    def dim(self, dim: DimLike) -> Expr:
        """The run-time value of a dim."""
        if isinstance(dim, int):
            return sc.const(dim, dt.int64)
        made = self._made.get(dim.key)
        if made is None:
            made = self._made[dim.key] = self._sum(dim)
        return made

    def number(self, dim: dm.Dim, dtype: np.dtype) -> Expr:
        """The value as a number of that dtype; among floats also one that no int64 holds."""
        bits = max(len(m) * _BITS_OF_SIZE + abs(c).bit_length() for m, c in dim.terms)
        if dtype.kind != "f" or bits < 63:
            return sc.cast(self.dim(dim), dtype)
        return sc.cast(self._sum(dim, dt.float64), dtype)

    def _sum(self, dim: dm.Dim, dtype: np.dtype = dt.int64) -> Expr:
        total = sc.const(0, dtype)
        for monomial, coefficient in dim.terms:
            term = sc.const(coefficient, dtype)
            for atom in monomial:
                term = sc.cast(self._atom(atom), dtype) * term
            total = total + term
        return total

    def _atom(self, atom: dm.Atom) -> Expr:
        if isinstance(atom, dm.Symbol):
            return sc.var(self.symbol_names[atom])
        a, b = (self.dim(x) for x in atom.args)
        if atom.fn == "broadcast":
            return sc.select(sc.eq(a, 1), b, a)
        if atom.fn in ("max", "min"):
            return sc.select(a > b if atom.fn == "max" else a < b, a, b)
        quotient = sc.binary("quotient", a, b)
        rest = a - quotient * b
        # quotient rounds toward zero, dims toward minus infinity
        divisor = atom.args[1]
        is_positive = isinstance(divisor, int) and divisor > 0
        if is_positive and dm.is_never_negative(atom.args[0]):
            return quotient if atom.fn == "floordiv" else rest
        down = rest < 0 if is_positive else sc.ne(rest, 0) & ((rest ^ b) < 0)
        if atom.fn == "floordiv":
            return quotient - sc.cast(down, dt.int64)
        return sc.select(down, rest + b, rest)

    def strides(self, dims: Shape) -> tuple[Expr, ...]:
        """Elements from one index to the next, by axis, in C order."""
        strides: list[Expr] = []
        size: DimLike = 1
        for d in reversed(dims):
            strides.append(self.dim(size))
            size = d * size
        return tuple(reversed(strides))

    def linear(self, indices: tuple[Expr, ...], dims: Shape) -> Expr:
        """The linear index of ``indices`` in an array of ``dims``."""
        total: Expr = ZERO
        for index, stride in zip(indices, self.strides(dims)):
            total = total + index * stride
        return total

    def unravel(self, linear: Expr, dims: Shape) -> tuple[Expr, ...]:
        """The indices of a linear index (a division an axis: for values that are not flat)."""
        indices = []
        strides = self.strides(dims)
        for axis, stride in enumerate(strides):
            if dm.is_one(dims[axis]):
                indices.append(ZERO)
            elif axis == len(dims) - 1:
                indices.append(linear)
            else:
                quotient = sc.binary("quotient", linear, stride)
                indices.append(quotient)
                linear = linear - quotient * stride
        return tuple(indices)


def _name_symbols(symbols: Sequence[dm.Symbol]) -> dict[dm.Symbol, str]:
    names: dict[dm.Symbol, str] = {}
    for k, symbol in enumerate(symbols):
        name = symbol.name or f"d{k}"
        # i0, a0, s0 are indices and mutable scalars; two symbols never share a name
        if name in names.values() or (name[0] in "iatds" and name[1:].isdigit() and symbol.name):
            name = f"{name}_{k}"
        names[symbol] = name
    return names
