"""Initial weights, under the names of ``jax.nn.initializers``: functions of a key and a shape.

An initializer is called as ``init(key, shape, dtype)``; what makes one takes the dtype, too, which
is then the default. Of ``shape``, one axis counts what comes in, one what goes out: of
``phix.nn.Linear`` the last two, as it is by default; of ``phix.nn.Conv2d``, whose weights are
[out, in, height, width], say ``in_axis=1, out_axis=0``. A layer takes its weights as they are::

    weight = phix.nn.initializers.he_normal()(phix.random.key(0), [3, 8])
    layer = phix.nn.Linear(weight, phix.ones([8]))
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

from phix import ops, random
from phix.core import dtypes as dt
from phix.core.annotations import DTypeLike, FloatLike, IntArrayLike
from phix.core.axes import axes_of
from phix.core.conversion import owned_tensor
from phix.core.errors import AttributeValueError, DTypeError, ShapeError
from phix.core.faces import face
from phix.core.given import INT, INTS, one_of, sizes, takes
from phix.core.tensor import Tensor, TensorLike

__all__ = [
    "constant", "delta_orthogonal", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform",
    "kaiming_normal", "kaiming_uniform", "lecun_normal", "lecun_uniform", "normal", "ones",
    "orthogonal", "truncated_normal", "uniform", "variance_scaling", "xavier_normal",
    "xavier_uniform", "zeros",
]  # fmt: skip
__dir__ = face(__all__)

Initializer = Callable[..., Tensor]
Draw = Callable[[Any, list[int], Any], Any]  # of a key, a shape and a dtype of floats


def _initializer(name: str, draw: Draw, default: DTypeLike) -> Initializer:
    """What is drawn, in a wide dtype first: 16 bits are too few to compute in."""

    def init(key: TensorLike, shape: IntArrayLike, dtype: DTypeLike = default) -> Tensor:
        wanted = dt.as_dtype(dtype)
        if not dt.is_float(wanted):
            raise DTypeError(f"{name}: weights are floats, found dtype {wanted}")
        found = draw(key, list(sizes(shape, f"{name}: shape")), dt.accumulator_dtype(wanted))
        return ops.cast(found, wanted)

    init.__name__, init.__qualname__ = name, f"{name}.init"
    init.__doc__ = "Weights of that shape and dtype, drawn from a key."
    return takes()(init)


# -- of one distribution -------------------------------------------------------------------------
@takes()
def constant(value: FloatLike | TensorLike, dtype: DTypeLike = float) -> Initializer:
    """Weights that are ``value``: a number, or a tensor that broadcasts to their shape.

    >>> import phix
    >>> phix.nn.initializers.constant(0.5)(phix.random.key(0), [2]).tolist()
    [0.5, 0.5]
    """
    return _initializer("constant", partial(_filled, value), dtype)


def _filled(value: Any, key: Any, shape: list[int], dtype: Any) -> Any:
    """A number with all digits that the dtype has, or a tensor in that dtype, in a shape."""
    if isinstance(value, (int, float)):
        return ops.expand(ops.full([], value, dtype), shape)
    values = owned_tensor(value)
    if dt.is_complex(values.dtype):
        raise DTypeError(f"constant: weights are floats, found {values.meta}; take its real part")
    return ops.expand(ops.cast(values, dtype), shape)


def zeros(key: TensorLike, shape: IntArrayLike, dtype: DTypeLike = float) -> Tensor:
    """Weights that are 0: itself an initializer, for which the key does not matter.

    >>> import phix
    >>> phix.nn.initializers.zeros(phix.random.key(0), [2]).tolist()
    [0.0, 0.0]
    """
    return _initializer("zeros", partial(_filled, 0.0), dtype)(key, shape)


def ones(key: TensorLike, shape: IntArrayLike, dtype: DTypeLike = float) -> Tensor:
    """Weights that are 1: itself an initializer, for which the key does not matter.

    >>> import phix
    >>> phix.nn.initializers.ones(phix.random.key(0), [2]).tolist()
    [1.0, 1.0]
    """
    return _initializer("ones", partial(_filled, 1.0), dtype)(key, shape)


@takes()
def uniform(scale: FloatLike = 0.01, dtype: DTypeLike = float) -> Initializer:
    """Weights uniform from 0 to ``scale``.

    >>> import phix
    >>> phix.nn.initializers.uniform(0.5)(phix.random.key(0), [100]).max().item() <= 0.5
    True
    """
    return _initializer(
        "uniform", lambda key, shape, dtype: random.uniform(key, shape, dtype, 0.0, scale), dtype
    )


@takes()
def normal(stddev: FloatLike = 0.01, dtype: DTypeLike = float) -> Initializer:
    """Normal weights of mean 0 and that standard deviation.

    >>> import phix
    >>> 0.4 < phix.nn.initializers.normal(0.5)(phix.random.key(0), [1000]).std().item() < 0.6
    True
    """
    return _initializer(
        "normal", lambda key, shape, dtype: random.normal(key, shape, dtype, 0.0, stddev), dtype
    )


@takes()
def truncated_normal(
    stddev: FloatLike = 0.01, dtype: DTypeLike = float, lower: FloatLike = -2.0,
    upper: FloatLike = 2.0,
) -> Initializer:  # fmt: skip
    """``stddev`` times standard normal numbers given that they lie between ``lower`` and ``upper``.

    >>> import phix
    >>> init = phix.nn.initializers.truncated_normal(0.5)
    >>> init(phix.random.key(0), [1000]).abs().max().item() <= 1.0
    True
    """
    return _initializer(
        "truncated_normal",
        lambda key, shape, dtype: stddev * random.truncated_normal(key, lower, upper, shape, dtype),
        dtype,
    )


# -- by how many numbers a sum has ---------------------------------------------------------------
# the standard deviation of a normal number between -2 and 2: 1 - 2 * 2 * density(2) / mass
_TRUNCATED = math.sqrt(1 - 4 * math.exp(-2) / math.sqrt(2 * math.pi) / math.erf(math.sqrt(2)))
_DRAWS: dict[str, Callable[[Any, list[int], Any, float], Any]] = {  # of a standard deviation, too
    "truncated_normal": lambda key, shape, dtype, std: (
        std / _TRUNCATED * random.truncated_normal(key, -2.0, 2.0, shape, dtype)
    ),
    "normal": lambda key, shape, dtype, std: random.normal(key, shape, dtype, 0.0, std),
    "uniform": lambda key, shape, dtype, std: random.uniform(
        key, shape, dtype, -math.sqrt(3) * std, math.sqrt(3) * std
    ),
}
_MODES: dict[str, Callable[[int, int], float]] = {
    "fan_in": lambda into, out: into,
    "fan_out": lambda into, out: out,
    "fan_avg": lambda into, out: (into + out) / 2,
    "fan_geo_avg": lambda into, out: math.sqrt(into * out),
}
Axes = int | Sequence[int]


@takes(mode=one_of(*_MODES), distribution=one_of(*_DRAWS), in_axis=INTS, out_axis=INTS,
       batch_axis=INTS)  # fmt: skip
def variance_scaling(
    scale: float,
    mode: Literal["fan_in", "fan_out", "fan_avg", "fan_geo_avg"],
    distribution: Literal["truncated_normal", "normal", "uniform"],
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: DTypeLike = float,
) -> Initializer:
    """Weights of mean 0 and variance scale / n.

    Args:
        scale: above 0.
        mode: what n is: "fan_in", how many numbers a sum of the layer has; "fan_out", how many
            sums a number comes into; "fan_avg" or "fan_geo_avg", the mean of both, or the
            geometric one.
        distribution: "truncated_normal" (at twice the standard deviation before it is cut),
            "normal" or "uniform".
        in_axis, out_axis: along which axes what comes in and what goes out are counted. All other
            axes belong to windows, and count for both.
        batch_axis: axes that count for none.
        dtype: a dtype of floats.

    Raises:
        AttributeValueError: scale is not above 0, or an axis is named twice or out of range.
        ShapeError: the shape has less than two axes, and the axes are not said.

    >>> import phix
    >>> init = phix.nn.initializers.variance_scaling(3.0, "fan_in", "uniform")
    >>> init(phix.random.key(0), [9, 50]).abs().max().item() <= 1.0
    True
    """
    if not 0 < scale <= sys.float_info.max:
        raise AttributeValueError(
            f"variance_scaling: scale is above 0 and finite, found {scale!r:.80}"
        )
    axes = (in_axis, out_axis, batch_axis)
    return _scaled("variance_scaling", scale, mode, distribution, axes, dtype)


def _scaled(
    name: str, scale: float, mode: str, distribution: str, axes: tuple[Axes, Axes, Axes], own: Any
) -> Initializer:  # fmt: skip
    def draw(key: Any, shape: list[int], dtype: Any) -> Any:
        into, out = _fans(shape, *axes)
        return _DRAWS[distribution](
            key, shape, dtype, math.sqrt(scale / max(_MODES[mode](into, out), 1))
        )

    return _initializer(name, draw, own)


def _fans(shape: list[int], in_axis: Axes, out_axis: Axes, batch_axis: Axes) -> tuple[int, int]:
    """How many numbers come into a sum, and into how many sums a number comes."""
    if len(shape) < 2 and (in_axis, out_axis) == (-2, -1):
        raise ShapeError(
            f"weights have an axis for what comes in and one for what goes out, found {shape}; say "
            "in_axis= and out_axis= of others, or draw from normal or uniform"
        )
    named = [axes_of(axis, len(shape)) for axis in (in_axis, out_axis, batch_axis)]
    if len(set(sum(named, ()))) < sum(map(len, named)):
        raise AttributeValueError(
            f"in_axis {in_axis}, out_axis {out_axis} and batch_axis {batch_axis} name an axis of "
            f"{shape} twice"
        )
    into, out, batch = (math.prod(shape[k] for k in axes) for axes in named)
    window = math.prod(shape) // max(into * out * batch, 1)
    return into * window, out * window


def _scaling(
    name: str, who: str, scale: float, mode: Any, distribution: Any, what: str
) -> Callable[..., Initializer]:  # fmt: skip
    def made(
        in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: DTypeLike = float
    ) -> Initializer:
        axes = (in_axis, out_axis, batch_axis)
        return _scaled(name, scale, mode, distribution, axes, dtype)

    made.__name__ = made.__qualname__ = name
    made.__doc__ = f"""{who} weights: {what}.

    It is ``variance_scaling({scale}, "{mode}", "{distribution}")``, with its arguments behind.

    >>> import phix
    >>> phix.nn.initializers.{name}()(phix.random.key(0), [3, 4]).shape
    (3, 4)
    """
    return takes(in_axis=INTS, out_axis=INTS, batch_axis=INTS)(made)


_UNIFORM, _NORMAL = (
    "uniform within sqrt({} / {}) of 0", "of variance {} / {}, normal, cut at two deviations"
)  # fmt: skip
_AVERAGE = "(fan_in + fan_out)"
glorot_uniform = _scaling("glorot_uniform", "Glorot's", 1.0, "fan_avg", "uniform",
                          _UNIFORM.format(6, _AVERAGE))  # fmt: skip
glorot_normal = _scaling("glorot_normal", "Glorot's", 1.0, "fan_avg", "truncated_normal",
                         _NORMAL.format(2, _AVERAGE))  # fmt: skip
he_uniform = _scaling("he_uniform", "He's", 2.0, "fan_in", "uniform", _UNIFORM.format(6, "fan_in"))
he_normal = _scaling("he_normal", "He's", 2.0, "fan_in", "truncated_normal",
                     _NORMAL.format(2, "fan_in"))  # fmt: skip
lecun_uniform = _scaling("lecun_uniform", "LeCun's", 1.0, "fan_in", "uniform",
                         _UNIFORM.format(3, "fan_in"))  # fmt: skip
lecun_normal = _scaling("lecun_normal", "LeCun's", 1.0, "fan_in", "truncated_normal",
                        _NORMAL.format(1, "fan_in"))  # fmt: skip
xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal


# -- orthogonal ----------------------------------------------------------------------------------
@takes(column_axis=INT)
def orthogonal(
    scale: FloatLike = 1.0, column_axis: int = -1, dtype: DTypeLike = float
) -> Initializer:
    """``scale`` times a matrix with orthonormal columns, or rows where it has more columns: see
    ``phix.random.orthogonal``.

    Args:
        scale: of all weights.
        column_axis: the axis of the columns; all others together are the rows.
        dtype: a dtype of floats.

    Raises:
        ShapeError: the shape has less than two axes.
        AttributeValueError: column_axis is out of range.

    >>> import phix
    >>> q = phix.nn.initializers.orthogonal(2.0)(phix.random.key(0), [5, 3])
    >>> (q.T @ q - 4.0 * phix.eye(3)).abs().max().item() < 1e-5
    True
    """

    def draw(key: Any, shape: list[int], dtype: Any) -> Any:
        if len(shape) < 2:
            raise ShapeError(f"orthogonal: a matrix has two axes or more, found {shape}")
        (at,) = axes_of(column_axis, len(shape))
        rest = [size for k, size in enumerate(shape) if k != at]
        if 0 in shape:
            return ops.full(shape, 0.0, dtype)
        q = random.orthogonal(key, math.prod(rest), (), dtype, shape[at])
        whole = ops.reshape(q * scale, [*rest, shape[at]])
        last = len(shape) - 1
        return ops.transpose(whole, [*range(at), last, *range(at, last)])

    return _initializer("orthogonal", draw, dtype)


@takes(column_axis=INT)
def delta_orthogonal(
    scale: FloatLike = 1.0, column_axis: int = -1, dtype: DTypeLike = float
) -> Initializer:
    """Windows of a convolution that are an orthogonal matrix in the middle, and 0 around it, so
    that a deep network keeps the size of what goes through.

    Weights are [..., in, out] with one, two or three axes of windows in front, as JAX has them;
    ``phix.nn.Conv2d`` wants them with the last axes first: ``weight.transpose(3, 2, 0, 1)``.

    Args:
        scale: of the matrix.
        column_axis: see :func:`orthogonal`, of the matrix.
        dtype: a dtype of floats.

    Raises:
        ShapeError: the shape has not three to five axes, or more comes in than goes out.

    >>> import phix
    >>> w = phix.nn.initializers.delta_orthogonal()(phix.random.key(0), [3, 3, 2, 4])
    >>> round((w[1, 1] ** 2).sum().item(), 4), round((w**2).sum().item(), 4)
    (2.0, 2.0)
    """

    def draw(key: Any, shape: list[int], dtype: Any) -> Any:
        if len(shape) not in (3, 4, 5) or shape[-2] > shape[-1]:
            raise ShapeError(
                "delta_orthogonal: weights are [..., in, out] with one to three axes in front, and "
                f"in is at most out; found {shape}"
            )
        matrix = orthogonal(scale, column_axis)(key, shape[-2:], dtype)
        middle = tuple((size - 1) // 2 for size in shape[:-2])
        whole = ops.full(shape, 0.0, dtype)
        return whole if 0 in shape else whole.at[middle].set(matrix)

    return _initializer("delta_orthogonal", draw, dtype)
