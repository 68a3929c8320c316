"""Convolutions of one to three axes, and their transposes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar, Union

import numpy as np

from phix import ops, random
from phix.core.annotations import DTypeLike
from phix.core.errors import ArgumentError, ShapeError, described
from phix.core.given import at_least, is_int, takes
from phix.core.tensor import Tensor, TensorLike
from phix.nn.activations import as_tensor
from phix.nn.images import biased
from phix.nn.modules.base import drawn, module, static

Size = Union[int, Sequence[int]]
Padding = Union[int, str, Sequence[int]]
T = TypeVar("T", bound="_Convolution")


def _sizes(where: str, value: Any, rank: int, least: int) -> tuple[int, ...]:
    sizes = (value,) * rank if is_int(value) else value
    ints = isinstance(sizes, (tuple, list)) and all(is_int(n) and n >= least for n in sizes)
    if not ints or len(sizes) != rank:
        raise ArgumentError(
            f"{where} must be an int from {least} or {rank} of them, found {described(value)}"
        )
    return tuple(int(n) for n in sizes)


class _Convolution:
    """What the convolutions have in common: the fields, and how they are made."""

    rank: ClassVar[int]
    transposed: ClassVar[bool]

    weight: Any
    bias: Any
    stride: tuple[int, ...]
    padding: tuple[int, ...] | str
    dilation: tuple[int, ...]
    groups: int

    @classmethod
    @takes(in_channels=at_least(1), out_channels=at_least(1), groups=at_least(1))
    def create(
        cls: type[T],
        key: TensorLike,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        dtype: DTypeLike = float,
    ) -> T:
        """A layer with weights uniform between -1 / sqrt(n) and its opposite, n numbers a sum.

        kernel_size, stride, padding and dilation are an int, or one for each axis; padding may be
        "SAME" or "VALID" too.
        """
        name = cls.__name__
        if in_channels % groups or out_channels % groups:
            raise ArgumentError(
                f"{name}: groups {groups} must divide in_channels {in_channels} and out_channels "
                f"{out_channels}"
            )
        sizes = _sizes(f"{name}: kernel_size", kernel_size, cls.rank, 1)
        given = padding.upper() if isinstance(padding, str) else padding
        if isinstance(given, str) and given not in ("SAME", "VALID"):
            raise ArgumentError(f'{name}: padding is "SAME", "VALID" or ints, found {padding!r}')
        if not isinstance(given, str):
            given = _sizes(f"{name}: padding", given, cls.rank, 0)
        channels = (out_channels, in_channels // groups)
        if cls.transposed:
            channels = (in_channels, out_channels // groups)
        # what PyTorch counts: of transposes the channels of the result
        fan_in = channels[1] * int(np.prod(sizes))
        first, second = random.split(key)
        return cls(
            drawn(first, [*channels, *sizes], fan_in, dtype),
            drawn(second, [out_channels], fan_in, dtype) if bias else None,
            _sizes(f"{name}: stride", stride, cls.rank, 1),
            given,
            _sizes(f"{name}: dilation", dilation, cls.rank, 1),
            groups,
        )  # type: ignore[call-arg]

    def __call__(self, x: TensorLike) -> Tensor:
        """[n, in, ...] -> [n, out, ...]."""
        tensor = as_tensor(x)
        if tensor.ndim != self.rank + 2:
            raise ShapeError(
                f"{type(self).__name__}: x has {self.rank + 2} axes, [n, channels, ...], found "
                f"{tensor.meta}"
            )
        return biased(type(self).__name__, _convolved(tensor, self), self.bias)


def _convolved(x: Any, layer: Any) -> Any:
    """The op of the rank; one axis is two, of which the first has size 1."""
    flat = layer.rank == 1
    weight = ops.unsqueeze(layer.weight, 2) if flat else layer.weight
    x = ops.unsqueeze(x, 2) if flat else x
    one, none = ((1,), (0,)) if flat else ((), ())
    algorithm = layer.padding if isinstance(layer.padding, str) else "EXPLICIT"
    paddings = (0,) * layer.rank if isinstance(layer.padding, str) else layer.padding
    stride, dilation = [*one, *layer.stride], [*one, *layer.dilation]
    paddings = [*none, *paddings]
    if layer.transposed:
        op = ops.conv3d_transpose if layer.rank == 3 else ops.conv2d_transpose
        out = op(x, weight, stride, paddings, [], [], algorithm, layer.groups, dilation)
    elif layer.rank == 3:
        out = ops.conv3d(x, weight, stride, paddings, algorithm, layer.groups, dilation)
    else:
        out = ops.conv2d(x, weight, stride, paddings, algorithm, dilation, layer.groups)
    return ops.squeeze(out, 2) if flat else out


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class _OnLines(_Convolution):
    rank: ClassVar[int] = 1

    weight: Any
    bias: Any = None
    stride: tuple[int, ...] = static(default=(1,))
    padding: tuple[int, ...] | str = static(default=(0,))
    dilation: tuple[int, ...] = static(default=(1,))
    groups: int = static(default=1)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class _OnImages(_Convolution):
    rank: ClassVar[int] = 2

    weight: Any
    bias: Any = None
    stride: tuple[int, ...] = static(default=(1, 1))
    padding: tuple[int, ...] | str = static(default=(0, 0))
    dilation: tuple[int, ...] = static(default=(1, 1))
    groups: int = static(default=1)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class _OnVolumes(_Convolution):
    rank: ClassVar[int] = 3

    weight: Any
    bias: Any = None
    stride: tuple[int, ...] = static(default=(1, 1, 1))
    padding: tuple[int, ...] | str = static(default=(0, 0, 0))
    dilation: tuple[int, ...] = static(default=(1, 1, 1))
    groups: int = static(default=1)


@module
class Conv1d(_OnLines):
    """The cross-correlation of [n, channels, length] with weight, [out, in / groups, size].

    >>> import phix
    >>> layer = phix.nn.Conv1d.create(phix.random.key(0), 3, 8, 5, padding=2)
    >>> layer(phix.ones([2, 3, 20])).shape
    (2, 8, 20)
    """

    transposed: ClassVar[bool] = False


@module
class Conv2d(_OnImages):
    """The cross-correlation of [n, channels, height, width] with weight, [out, in / groups, ...].

    >>> import phix
    >>> layer = phix.nn.Conv2d.create(phix.random.key(0), 3, 8, 3, stride=2)
    >>> layer(phix.ones([2, 3, 9, 9])).shape
    (2, 8, 4, 4)
    """

    transposed: ClassVar[bool] = False


@module
class Conv3d(_OnVolumes):
    """The cross-correlation of [n, channels, depth, height, width] with weight.

    >>> import phix
    >>> layer = phix.nn.Conv3d.create(phix.random.key(0), 1, 2, 2)
    >>> layer(phix.ones([1, 1, 3, 3, 3])).shape
    (1, 2, 2, 2, 2)
    """

    transposed: ClassVar[bool] = False


@module
class ConvTranspose1d(_OnLines):
    """The transpose of :class:`Conv1d`, with weight [in, out / groups, size].

    >>> import phix
    >>> layer = phix.nn.ConvTranspose1d.create(phix.random.key(0), 3, 8, 4, stride=2)
    >>> layer(phix.ones([2, 3, 5])).shape
    (2, 8, 12)
    """

    transposed: ClassVar[bool] = True


@module
class ConvTranspose2d(_OnImages):
    """The transpose of :class:`Conv2d`, with weight [in, out / groups, height, width].

    >>> import phix
    >>> layer = phix.nn.ConvTranspose2d.create(phix.random.key(0), 3, 8, 2, stride=2)
    >>> layer(phix.ones([2, 3, 5, 5])).shape
    (2, 8, 10, 10)
    """

    transposed: ClassVar[bool] = True


@module
class ConvTranspose3d(_OnVolumes):
    """The transpose of :class:`Conv3d`, with weight [in, out / groups, ...].

    >>> import phix
    >>> layer = phix.nn.ConvTranspose3d.create(phix.random.key(0), 1, 2, 2)
    >>> layer(phix.ones([1, 1, 2, 2, 2])).shape
    (1, 2, 3, 3, 3)
    """

    transposed: ClassVar[bool] = True
