"""Arithmetic of truncated power series, for the rules of jets.

A series is a list [x_0, x_1, ..., x_n] of a value and its Taylor coefficients, None for one that
is zero (``rules.jet``). All sums over products are ``convolution``s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from phix.core.transforms import transforms

Series = list[Any]


def is_constant(x: Sequence[Any]) -> bool:
    """Whether all coefficients behind the value are zero."""
    return all(c is None for c in x[1:])


def constant(value: Any, like: Sequence[Any]) -> Series:
    return [value, *(None for _ in like[1:])]


def plus(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b


def times(number: Any, a: Any) -> Any:
    """A Python number times a coefficient."""
    return None if a is None or number == 0 else a if number == 1 else a * number


def convolution(a: Series, b: Series, k: int, first: int, last: int) -> Any:
    """a_j b_(k-j) summed over j = first .. last."""
    total: Any = None
    for j in range(first, last + 1):
        if a[j] is not None and b[k - j] is not None:
            total = plus(total, a[j] * b[k - j])
    return total


def squared(a: Series, k: int, first: int = 0, factor: int = 1) -> Any:
    """``factor`` times the sum of a_j a_(k-j) over j = first .. k - first.

    Every product but the middle one comes twice.
    """
    total = times(2 * factor, convolution(a, a, k, first, (k - 1) // 2))
    half = a[k // 2]
    if k % 2 == 0 and k // 2 >= first and half is not None:
        total = plus(total, times(factor, half * half))
    return total


def product(a: Series, b: Series) -> Series:
    if a is b:
        return [squared(a, k) for k in range(len(a))]
    return [convolution(a, b, k, 0, k) for k in range(len(a))]


def quotient(a: Series, b: Series) -> Series:
    """z with z b = a: z_k = (a_k - sum of b_j z_(k-j), j = 1 .. k) / b_0."""
    z: Series = []
    for k in range(len(a)):
        known = convolution(b, z, k, 1, k)
        rest = plus(a[k], None if known is None else -known)
        z.append(None if rest is None else rest / b[0])
    return z


def rate(x: Series) -> Series:
    """The series of x', one order less."""
    return [times(k, c) for k, c in enumerate(x)][1:]


def integral(value: Any, slope: Series) -> Series:
    """The series of y with y' = slope that starts at ``value``."""
    return [value, *(over(c, k + 1) for k, c in enumerate(slope))]


def over(a: Any, number: int) -> Any:
    return a if a is None or number == 1 else a / number


def power(x: Series, value: Any, exponent: Any) -> Series:
    """x^a from x y' = a x' y: k x_0 y_k is the sum of ((a + 1) j - k) x_j y_(k-j), j = 1 .. k."""
    y: Series = [value]
    for k in range(1, len(x)):
        weighted = [times((exponent + 1) * j - k, x[j]) if j else None for j in range(k + 1)]
        y.append(_divided(over(convolution(weighted, y, k, 1, k), k), x[0]))
    return y


def _divided(a: Any, b: Any) -> Any:
    return None if a is None else a / b


def whole_power(x: Series, exponent: int) -> Series:
    """x^a for a = 1, 2, ... by squaring: no division, so x_0 may be 0."""
    result: Series | None = None
    while True:
        if exponent & 1:
            result = x if result is None else product(result, x)
        exponent >>= 1
        if not exponent:
            assert result is not None
            return result
        x = product(x, x)


def composed(x: Series, outer: Series) -> Series:
    """f(x) from the Taylor coefficients f^(i)(x_0) / i! of f, by Horner's rule in x - x_0."""
    order = len(x) - 1
    y: Series = [outer[order]]
    for i in reversed(range(order)):
        y = [outer[i], *(convolution(x, y, k, 1, k) for k in range(1, order - i + 1))]
    return y


def applied(function: Callable[..., Any], *inputs: Series) -> Series:
    """The series of ``function`` of tensors, which gives one tensor, by the rules of its ops."""
    return transforms().jet(lambda *xs: [function(*xs)], inputs)[0]


def each(function: Callable[[Any], Any], coefficients: Sequence[Any]) -> Series:
    """``function``, which is linear, of every coefficient."""
    return [None if c is None else function(c) for c in coefficients]
