"""Angles of rotations about three axes in turn, and back."""

from __future__ import annotations

import itertools
import math
from typing import Any

from phix import ops
from phix.core.errors import ArgumentError, described
from phix.scipy.quaternions import angle_of, length_of, times

_AXES = "xyz"
_LOCKED = 1e-7  # below this two axes coincide


def axes_of(seq: Any, least: int) -> tuple[list[int], bool]:
    """The axes of a sequence, and whether they are those of the outer frame (lower case)."""
    is_one_case = isinstance(seq, str) and seq in (seq.lower(), seq.upper())
    if not is_one_case or not least <= len(seq) <= 3 or set(seq.lower()) - set(_AXES):
        count = "3" if least == 3 else "1 to 3"
        raise ArgumentError(
            f"seq must be {count} of the letters 'xyz', for axes that stand still, or of 'XYZ', "
            f"for axes that turn along, found {described(seq)}"
        )
    axes = [_AXES.index(letter) for letter in seq.lower()]
    if any(a == b for a, b in itertools.pairwise(axes)):
        raise ArgumentError(f"seq must not turn about the same axis twice in a row, found {seq!r}")
    return axes, seq == seq.lower()


def of_angles(angles: list[Any], axes: list[int], is_outer: bool) -> Any:
    """The product of the turns about each axis."""
    found: Any = None
    for angle, axis in zip(angles, axes):
        half = 0.5 * angle
        parts = [ops.zeros_like(half)] * 3 + [ops.cos(half)]
        parts[axis] = ops.sin(half)
        turn = ops.stack(parts, -1)
        if found is None:
            found = turn
        else:
            found = times(turn, found) if is_outer else times(found, turn)
    return found


def to_angles(q: Any, axes: list[int], is_outer: bool) -> Any:
    """The three angles, ``[..., 3]``.

    E. Bernardes and S. Viollet, "Quaternion to Euler angles conversion: A direct, general and
    computationally efficient method", 2022.
    """
    i, j, k = axes if is_outer else axes[::-1]
    is_symmetric = i == k
    k = 3 - i - j if is_symmetric else k
    sign = float((i - j) * (j - k) * (k - i) // 2)
    parts = ops.unbind(q, -1)
    w, x, y, z = parts[3], parts[i], parts[j], parts[k] * sign
    a, b, c, d = (w, x, y, z) if is_symmetric else (w - y, x + z, y + w, z - x)
    half_sum, half_difference = angle_of(b, a), angle_of(d, c)
    middle = 2.0 * angle_of(length_of(ops.stack([c, d], -1)), length_of(ops.stack([a, b], -1)))
    is_flat, is_turned = middle < _LOCKED, math.pi - middle < _LOCKED
    # where the first and the last axis coincide only one angle is known, and the last one is 0
    locked = ops.where(is_flat, half_sum, (-half_difference if is_outer else half_difference)) * 2.0
    is_locked = is_flat | is_turned
    one, other = half_sum - half_difference, half_sum + half_difference
    first, last = (one, other) if is_outer else (other, one)
    first, last = ops.where(is_locked, locked, first), ops.where(is_locked, 0.0, last)
    if not is_symmetric:
        first, last = (first, last * sign) if is_outer else (first * sign, last)
        middle = middle - 0.5 * math.pi
    return ops.stack([_within(v) for v in (first, middle, last)], -1)


def _within(angle: Any) -> Any:
    """From -pi to pi."""
    turn = 2.0 * math.pi
    return ops.where(
        angle < -math.pi, angle + turn, ops.where(angle > math.pi, angle - turn, angle)
    )
