"""Rotations in three dimensions, as ``scipy.spatial.transform`` has them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from phix import ops, random
from phix.api.batching import vmap
from phix.api.custom import stop_gradient
from phix.api.implicit import custom_root
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import pytrees
from phix.core.annotations import DTypeLike
from phix.core.errors import ArgumentError, DTypeError, ShapeError, TensorIndexError, described
from phix.core.expectations import expect, expect_dims
from phix.core.faces import face
from phix.core.given import FLAG, NONE, Kind, at_least, named, wrong
from phix.core.tensor import Tensor, TensorLike
from phix.scipy import euler, quaternions
from phix.scipy.entropies import floats

__all__ = ["Rotation", "Slerp"]
__dir__ = face(__all__)

_DEGREE = math.pi / 180.0


def _check(name: str, value: Any, kind: Kind = FLAG) -> None:
    if not kind.holds(value):
        raise wrong("Rotation", name, kind, value)


def _rows(given: Any, what: str, *sizes: int) -> Any:
    """A tensor of floats whose last axes have these sizes."""
    (x,) = floats(given)
    refusal = f"{what} must be [..., {', '.join(map(str, sizes))}], found {x.meta}"
    return expect_dims(x, refusal, (*x.meta.dims[: max(x.ndim - len(sizes), 0)], *sizes))


class Rotation:
    """Rotations in three dimensions, ``[...]`` of them, held as unit quaternions ``[..., 4]``.

    Made by ``from_quat``, ``from_matrix``, ``from_rotvec``, ``from_euler``, ``from_mrp``,
    ``identity`` and ``random``. ``p * q`` turns by q, then by p; shapes broadcast. A tree of one
    tensor, which goes through ``jit``, ``vmap`` and ``grad`` as an argument and as a result.

    All is differentiable, to any order, at the identity too, where ``as_rotvec`` has the slopes of
    a smooth function; only ``magnitude``, a length, has the slope 0 there. At half turns
    ``as_rotvec`` jumps from v to -v, and ``magnitude`` turns back: the slopes of ``as_rotvec`` are
    those of the side it is on (that of ``as_quat(canonical=True)``), and that of ``magnitude`` is 0
    in the direction it turns back. Where ``as_euler`` can tell only one of two
    angles (gimbal lock), its slopes are those of the formula that gives that one.

    Args:
        quat: ``[..., 4]``, the scalar last, of any length but 0, which gives NaNs; ints become the
            default float.

    Raises:
        ShapeError: what is given has other axes than the function says.
        DTypeError: it holds complex numbers.
        ArgumentError: a setting is of another kind.

    >>> import phix
    >>> Rotation = phix.scipy.spatial.transform.Rotation
    >>> turn = Rotation.from_euler("z", 90.0, degrees=True)
    >>> turn.apply([1.0, 0.0, 2.0])[1:].round(decimals=4).tolist()
    [1.0, 2.0]
    >>> (turn * turn.inv()).as_rotvec().tolist()
    [0.0, 0.0, 0.0]
    >>> def first(v):
    ...     return Rotation.from_rotvec(v).as_matrix()[0, 1]
    >>> phix.grad(first)(phix.zeros([3])).tolist()
    [0.0, 0.0, -1.0]
    """

    quat: Any

    @named("Rotation")
    def __init__(self, quat: TensorLike) -> None:
        self.quat = quaternions.of_any_length(_rows(quat, "quat", 4))

    # -- from numbers -----------------------------------------------------------------------------
    @classmethod
    @named("Rotation.from_quat")
    def from_quat(cls, quat: TensorLike, *, scalar_first: bool = False) -> Rotation:
        """From quaternions ``[..., 4]`` of any length, (x, y, z, w), or (w, x, y, z)."""
        _check("scalar_first", scalar_first)
        q = _rows(quat, "quat", 4)
        return cls(ops.roll(q, -1, [-1]) if scalar_first else q)

    @classmethod
    @named("Rotation.from_matrix")
    def from_matrix(cls, matrix: TensorLike, *, assume_valid: bool = False) -> Rotation:
        """From matrices ``[..., 3, 3]``: of what is no rotation the one next to it.

        NaN where a determinant is not above 0. ``assume_valid`` takes them as they are.
        """
        _check("assume_valid", assume_valid)
        m = _rows(matrix, "matrix", 3, 3)
        m = m if assume_valid else quaternions.nearest_rotation(m)
        return _of_unit(quaternions.of_matrices(m))

    @classmethod
    @named("Rotation.from_rotvec")
    def from_rotvec(cls, rotvec: TensorLike, degrees: bool = False) -> Rotation:
        """About vectors ``[..., 3]``, by their lengths."""
        _check("degrees", degrees)
        v = _rows(rotvec, "rotvec", 3)
        return _of_unit(quaternions.of_vectors(v * _DEGREE if degrees else v))

    @classmethod
    @named("Rotation.from_euler")
    def from_euler(cls, seq: str, angles: TensorLike, degrees: bool = False) -> Rotation:
        """About axes in turn.

        Args:
            seq: one to three of "xyz", axes that stand still, or of "XYZ", axes that turn along;
                none twice in a row.
            angles: ``[..., len(seq)]``; for a single axis ``[...]`` of up to one axis, or that.
            degrees: whether they are degrees, not radians.
        """
        _check("degrees", degrees)
        axes, is_outer = euler.axes_of(seq, 1)
        (x,) = floats(angles)
        if len(axes) == 1 and x.ndim < 2:
            x = ops.unsqueeze(x, [-1])
        x = _rows(x, "angles", len(axes))
        parts = ops.unbind(x * _DEGREE if degrees else x, -1)
        return _of_unit(euler.of_angles(list(parts), axes, is_outer))

    @classmethod
    @named("Rotation.from_mrp")
    def from_mrp(cls, mrp: TensorLike) -> Rotation:
        """From modified Rodrigues parameters ``[..., 3]``, the axis times tan(angle / 4)."""
        p = _rows(mrp, "mrp", 3)
        square = ops.sum(p * p, [-1], keepdim=True)
        return _of_unit(ops.concat([2.0 * p, 1.0 - square], -1) / (1.0 + square))

    @classmethod
    @named("Rotation.identity")
    def identity(cls, num: int | None = None, dtype: DTypeLike = float) -> Rotation:
        """No rotation, or ``num`` of them, by default in the default float."""
        _check("num", num, at_least(0) | NONE)
        one = ops.concat([ops.zeros([3], dtype), ops.ones([1], dtype)], 0)
        if not dt.is_float(one.dtype):
            raise DTypeError(f"dtype must be a float, found {one.dtype}")
        return _of_unit(one if num is None else ops.expand(one, [num, 4]))

    @classmethod
    @named("Rotation.random")
    def random(cls, random_key: TensorLike, num: int | None = None) -> Rotation:
        """A rotation drawn by a key, or ``num`` of them: none is likelier than another."""
        _check("num", num, at_least(0) | NONE)
        return cls(random.normal(random_key, [4] if num is None else [num, 4]))

    @classmethod
    @named("Rotation.concatenate")
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """One behind the other; a single one is one more."""
        given = [rotations] if isinstance(rotations, Rotation) else rotations
        if not isinstance(given, (list, tuple)) or not given or not all(map(_is_rotation, given)):
            raise ArgumentError(f"rotations must be a list of some, found {described(rotations)}")
        parts = floats(*(r.quat for r in given))
        return _of_unit(ops.concat([ops.unsqueeze(q, [0]) if q.ndim == 1 else q for q in parts], 0))

    # -- as numbers -------------------------------------------------------------------------------
    @named("Rotation.as_quat")
    def as_quat(self, canonical: bool = False, *, scalar_first: bool = False) -> Tensor:
        """``[..., 4]``; ``canonical`` takes, of q and -q, that with a scalar from 0."""
        _check("canonical", canonical)
        _check("scalar_first", scalar_first)
        q = quaternions.canonical(self.quat) if canonical else self.quat
        return ops.roll(q, 1, [-1]) if scalar_first else q

    def as_matrix(self) -> Tensor:
        """``[..., 3, 3]``."""
        return quaternions.to_matrices(self.quat)

    @named("Rotation.as_rotvec")
    def as_rotvec(self, degrees: bool = False) -> Tensor:
        """``[..., 3]``, the axis times the angle, which is from 0 to pi."""
        _check("degrees", degrees)
        v = quaternions.to_vectors(self.quat)
        return v / _DEGREE if degrees else v

    @named("Rotation.as_euler")
    def as_euler(self, seq: str, degrees: bool = False) -> Tensor:
        """``[..., 3]``, angles about the three axes that ``seq`` names (see ``from_euler``).

        The first and last are from -pi to pi, the second from 0 to pi if the first axis is the last
        one too, else from -pi / 2 to pi / 2. Where only the sum or the difference of the first and
        the last has a meaning, the last one is 0.
        """
        _check("degrees", degrees)
        angles = euler.to_angles(self.quat, *euler.axes_of(seq, 3))
        return angles / _DEGREE if degrees else angles

    def as_mrp(self) -> Tensor:
        """``[..., 3]``, the axis times tan(angle / 4), which is up to 1."""
        q = ops.where(self.quat[..., 3:] < 0, -self.quat, self.quat)
        return q[..., :3] / (1.0 + q[..., 3:])

    def magnitude(self) -> Tensor:
        """The angles, ``[...]``, from 0 to pi."""
        scalar = ops.abs(self.quat[..., 3])
        return 2.0 * ops.atan2(quaternions.length_of(self.quat[..., :3]), scalar)

    # -- what is done with them -------------------------------------------------------------------
    @named("Rotation.apply")
    def apply(self, vectors: TensorLike, inverse: bool = False) -> Tensor:
        """Vectors ``[..., 3]`` turned; the axes before broadcast with those of the rotations."""
        _check("inverse", inverse)
        v, q = floats(_rows(vectors, "vectors", 3), self.quat)
        m = quaternions.to_matrices(quaternions.conjugate(q) if inverse else q)
        return ops.sum(m * ops.unsqueeze(v, [-2]), [-1])

    def inv(self) -> Rotation:
        """The rotations back."""
        return _of_unit(quaternions.conjugate(self.quat))

    def __mul__(self, other: Rotation) -> Rotation:
        if not isinstance(other, Rotation):
            return NotImplemented
        return _of_unit(quaternions.times(*floats(self.quat, other.quat)))

    @named("Rotation.mean")
    def mean(self, weights: TensorLike | None = None) -> Rotation:
        """The rotation next to all: with the least sum of squares of the distances of matrices.

        The eigenvector of the largest eigenvalue of the sum of q q^T (F. Markley and others,
        "Averaging quaternions", 2007). Its slopes are those of that equation; where two rotations
        are as near, there are none.

        Args:
            weights: ``[...]``, how much each counts, from 0; all alike if None.
        """
        own = self.quat.dtype
        rows = ops.cast(ops.reshape(self.quat, [-1, 4]), dt.promote(own, dt.float32))
        rows = expect(rows, "no rotations have no mean", rows.shape[0] - 1)
        weighted = rows if weights is None else _weighted(rows, weights)
        found = _leading(ops.matmul(ops.transpose(weighted, [1, 0]), rows))
        return _of_unit(ops.cast(found, own))

    @property
    def single(self) -> bool:
        """Whether this is one rotation, without axes."""
        return bool(self.quat.ndim == 1)

    @property
    def shape(self) -> tuple[Any, ...]:
        """How many rotations there are along each axis."""
        return tuple(self.quat.shape[:-1])

    def __len__(self) -> int:
        if self.single:
            raise ArgumentError("Rotation: a single rotation has no len()")
        return int(self.quat.shape[0])

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, indexer: Any) -> Rotation:
        if self.single:
            raise TensorIndexError("Rotation: a single rotation has no elements")
        index = indexer if isinstance(indexer, tuple) else (indexer,)
        return _of_unit(self.quat[(*index, slice(None))])

    def __iter__(self) -> Iterator[Rotation]:
        # By __getitem__ alone a loop would not run at all over a single rotation, and never end
        # over those whose number is not known.
        if self.single:
            raise ArgumentError("Rotation: a single rotation has no elements to go through")
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"Rotation.from_quat({self.quat!r})"


def _is_rotation(value: Any) -> bool:
    return isinstance(value, Rotation)


def _of_unit(quat: Any) -> Rotation:
    """The rotations of quaternions of length 1, or of what stands for them in a tree."""
    made = object.__new__(Rotation)
    made.quat = quat
    return made


pytrees.register(Rotation, lambda r: ((r.quat,), None, ("quat",)), lambda _, quat: _of_unit(*quat))


# -- means ----------------------------------------------------------------------------------------
def _weighted(rows: Any, weights: Any) -> Any:
    (shares,) = floats(weights)
    size = rows.meta.dims[0]
    refusal = f"weights must be [{dm.dim_text(size)}], one for each rotation, found {shares.meta}"
    shares = expect_dims(shares, refusal, (size,))
    if isinstance(shares, Tensor) and bool((np.asarray(shares) < 0).any()):
        raise ArgumentError("weights must be from 0, found some below; leave those rotations out")
    return rows * ops.cast(ops.unsqueeze(shares, [-1]), rows.dtype)


def _leading(k: Any) -> Any:
    """The unit eigenvector of the largest eigenvalue of a symmetric matrix."""

    def equation(q: Any) -> Any:
        image = ops.mv(k, q)
        return image - ops.dot(q, image) * q + (1.0 - ops.dot(q, q)) * q

    def solve(f: Any, guess: Any) -> Any:
        return ops.eigh(stop_gradient(k))[1][:, -1]

    def tangent_solve(g: Any, y: Any) -> Any:
        return ops.solve(vmap(g, out_axes=1)(ops.eye(4, dtype=y.dtype)), y)

    return custom_root(equation, ops.zeros([4], k.dtype), solve, tangent_solve)


# -- between rotations ----------------------------------------------------------------------------
class Slerp:
    """Rotations between those at given times, at a constant speed from each to the next.

    A tree of tensors, as :class:`Rotation` is.

    Args:
        times: ``[n]``, ascending, n from 2; of times that are not known yet no error can say that
            they are not.
        rotations: n of them.

    Calling it with times ``[...]`` gives as many rotations, NaNs for times before the first or
    after the last. The slope at one of the given times is that behind it.

    Raises:
        ShapeError: times are no vector of 2 or more, or rotations are not as many.
        ArgumentError: times that are known do not ascend, or rotations are none.

    >>> import phix
    >>> from phix.scipy.spatial.transform import Rotation, Slerp
    >>> turns = Rotation.from_euler("z", [0.0, 90.0], degrees=True)
    >>> between = Slerp([0.0, 1.0], turns)
    >>> round(between(0.5).as_euler("xyz", degrees=True)[2].item(), 3)
    45.0
    """

    times: Any
    rotations: Rotation
    rotvecs: Any

    @named("Slerp")
    def __init__(self, times: TensorLike, rotations: Rotation) -> None:
        if not isinstance(rotations, Rotation):
            raise ArgumentError(f"rotations must be a Rotation, found {described(rotations)}")
        points, quats = floats(times)[0], rotations.quat
        refusal = (
            "times must be [n], n from 2, and rotations n of them, found times "
            f"{points.meta} and rotations of shape {dm.shape_text(quats.meta.dims[:-1])}"
        )
        if quats.ndim != 2:
            raise ShapeError(refusal)
        points = expect_dims(points, refusal, quats.meta.dims[:1])
        points = expect(points, refusal, points.meta.dims[0] - 2)
        if isinstance(points, Tensor) and not (np.diff(np.asarray(points)) > 0).all():
            raise ArgumentError("times must ascend; sort them, and the rotations with them")
        self.times, self.rotations = points, rotations
        steps = quaternions.times(quaternions.conjugate(quats[:-1]), quats[1:])
        self.rotvecs = quaternions.to_vectors(steps)

    @classmethod
    def init(cls, times: TensorLike, rotations: Rotation) -> Slerp:
        """The same, as ``jax.scipy`` writes it."""
        return cls(times, rotations)

    @named("Slerp")
    def __call__(self, times: TensorLike) -> Rotation:
        """The rotations at times: see the class."""
        at, on = floats(times)[0], self.times
        dtype = dt.promote(at.dtype, on.dtype)
        at, on = ops.cast(at, dtype), ops.cast(on, dtype)
        is_out = (at < on[0]) | (at > on[-1])
        at = ops.where(is_out, on[0], at)
        last = ops.full((), on.shape[0] - 2, dt.int64)
        before = ops.minimum(ops.searchsorted(on, at, right=True) - 1, last)
        before = ops.unsqueeze(ops.maximum(before, 0), [-1])  # a NaN is behind all
        start, end = ops.gather_nd(on, before), ops.gather_nd(on, before + 1)
        share = ops.where(is_out, float("nan"), (at - start) / (end - start))
        share = ops.cast(ops.unsqueeze(share, [-1]), self.rotvecs.dtype)
        first = ops.gather_nd(self.rotations.quat, before)
        step = quaternions.of_vectors(ops.gather_nd(self.rotvecs, before) * share)
        return _of_unit(quaternions.times(first, step))

    def __repr__(self) -> str:
        return f"Slerp({self.times!r}, {self.rotations!r})"


def _slerp_of(_: Any, children: Any) -> Slerp:
    made = object.__new__(Slerp)
    made.times, made.rotations, made.rotvecs = children
    return made


pytrees.register(
    Slerp,
    lambda s: ((s.times, s.rotations, s.rotvecs), None, ("times", "rotations", "rotvecs")),
    _slerp_of,
)
