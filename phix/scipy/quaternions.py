"""Unit quaternions [..., 4], the scalar last, as rotations; smooth at the identity too.

What divides by an angle there is a power series in its square near 0, and the other branch is
given numbers it has slopes at.
"""

from __future__ import annotations

import math
from typing import Any

from phix import ops
from phix.api.control_flow import fori_loop
from phix.api.custom import stop_gradient

_TERMS = 9
# sin(t / 2) / t and cos(t / 2) in powers of t^2, for t^2 up to 1/4; atan(t) / t up to 1/100
_SINE = [(-1) ** k / (2 * 4**k * math.factorial(2 * k + 1)) for k in range(_TERMS)]
_COSINE = [(-1) ** k / (4**k * math.factorial(2 * k)) for k in range(_TERMS)]
_ARC = [(-1) ** k / (2 * k + 1) for k in range(_TERMS)]
_STEPS = 10  # of Newton's method, which doubles the digits


def _powers(coefficients: list[float], x: Any) -> Any:
    total: Any = coefficients[-1]
    for c in coefficients[-2::-1]:
        total = total * x + c
    return total


def _square(v: Any) -> Any:
    return ops.sum(v * v, [-1], keepdim=True)


def normalised(q: Any) -> Any:
    """q of length 1; NaN for 0."""
    return q / ops.sqrt(_square(q))


def of_any_length(q: Any) -> Any:
    """q of length 1, where its square would overflow or vanish too: by its largest number, of
    which the result, and so any slope of it, does not depend."""
    return normalised(q / stop_gradient(ops.max(ops.abs(q), [-1], keepdim=True)))


def times(p: Any, q: Any) -> Any:
    """The product of quaternions, of length 1 again."""
    (a, b, c, d), (x, y, z, w) = ops.unbind(p, -1), ops.unbind(q, -1)
    parts = [
        d * x + a * w + b * z - c * y,
        d * y - a * z + b * w + c * x,
        d * z + a * y - b * x + c * w,
        d * w - a * x - b * y - c * z,
    ]
    return normalised(ops.stack(parts, -1))


def conjugate(q: Any) -> Any:
    """The inverse of a unit quaternion."""
    return ops.concat([-q[..., :3], q[..., 3:]], -1)


def canonical(q: Any) -> Any:
    """q or -q: that with its last number above 0, or if that is 0 the first that is not."""
    x, y, z, w = ops.unbind(q, -1)
    leading = ops.where(w != 0, w, ops.where(x != 0, x, ops.where(y != 0, y, z)))
    return ops.where(ops.unsqueeze(leading, [-1]) < 0, -q, q)


def of_vectors(v: Any) -> Any:
    """The rotation about v by its length."""
    square = _square(v)
    small = square < 0.25
    angle = ops.sqrt(ops.where(small, 1.0, square))
    near = ops.where(small, square, 0.0)
    sine = ops.where(small, _powers(_SINE, near), ops.sin(angle * 0.5) / angle)
    cosine = ops.where(small, _powers(_COSINE, near), ops.cos(angle * 0.5))
    return ops.concat([v * sine, cosine], -1)


def to_vectors(q: Any) -> Any:
    """The vector with :func:`of_vectors` of it q, of a length up to pi."""
    q = canonical(q)
    v, w = q[..., :3], q[..., 3:]
    square = _square(v)
    small = square < 0.01 * w * w
    by = ops.where(small, w, 1.0)
    near = 2.0 / by * _powers(_ARC, ops.where(small, square, 0.0) / (by * by))
    length = ops.sqrt(ops.where(small, 1.0, square))
    return v * ops.where(small, near, 2.0 * ops.atan2(length, w) / length)


def length_of(x: Any) -> Any:
    """The lengths of vectors along the last axis, with the slope 0 at 0."""
    square = ops.sum(x * x, [-1])
    none = square == 0
    return ops.where(none, 0.0, ops.sqrt(ops.where(none, 1.0, square)))


def angle_of(y: Any, x: Any) -> Any:
    """atan2(y, x), with the slope 0 where both are 0."""
    none = (y == 0) & (x == 0)
    return ops.atan2(ops.where(none, 0.0, y), ops.where(none, 1.0, x))


def to_matrices(q: Any) -> Any:
    """``[..., 3, 3]``."""
    x, y, z, w = ops.unbind(q, -1)
    rows = [
        [x * x - y * y - z * z + w * w, 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)],
        [2.0 * (x * y + z * w), y * y - x * x - z * z + w * w, 2.0 * (y * z - x * w)],
        [2.0 * (x * z - y * w), 2.0 * (y * z + x * w), z * z - x * x - y * y + w * w],
    ]
    return ops.stack([ops.stack(row, -1) for row in rows], -2)


def nearest_rotation(m: Any) -> Any:
    """The rotation next to matrices [..., 3, 3], U V^T of their singular vectors; NaN where the
    determinant is not above 0.

    By Newton's method for X = (X^T)^-1 (N. Higham, "Computing the polar decomposition with
    applications", 1986): unlike those of the singular vectors, its slopes have no quotient of
    differences that are 0 for a rotation.
    """
    return fori_loop(0, _STEPS, _nearer, m)


def _nearer(_: Any, m: Any) -> Any:
    a, b, c = ops.unbind(m, -2)
    beside = [ops.cross(b, c, -1), ops.cross(c, a, -1), ops.cross(a, b, -1)]
    volume = ops.sum(a * beside[0], [-1], keepdim=True)
    volume = ops.unsqueeze(ops.where(volume > 0, volume, float("nan")), [-1])
    inverse = ops.stack(beside, -2) / volume
    own, other = (ops.sum(x * x, [-2, -1], keepdim=True) for x in (m, inverse))
    scale = stop_gradient(ops.sqrt(ops.sqrt(other / own)))
    return 0.5 * (scale * m + inverse / scale)


def of_matrices(m: Any) -> Any:
    """The quaternions of rotations [..., 3, 3].

    Of the four ways to write q from m, each a multiple of q, that with the largest number to divide
    by (I. Bar-Itzhack, "New method for extracting the quaternion from a rotation matrix", 2000).
    """
    (a, b, c), (d, e, f), (g, h, i) = (ops.unbind(row, -1) for row in ops.unbind(m, -2))
    trace = a + e + i
    ways = [
        [1.0 - trace + 2.0 * a, b + d, c + g, h - f],
        [b + d, 1.0 - trace + 2.0 * e, f + h, c - g],
        [c + g, f + h, 1.0 - trace + 2.0 * i, d - b],
        [h - f, c - g, d - b, 1.0 + trace],
    ]
    way = ops.unsqueeze(ops.argmax(ops.stack([a, e, i, trace], -1), -1), [-1])
    found = ops.stack(ways[3], -1)
    for n, parts in enumerate(ways[:3]):
        found = ops.where(way == n, ops.stack(parts, -1), found)
    return normalised(found)
