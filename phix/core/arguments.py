"""What the functions of ``phix.ops`` accept for attributes, as type annotations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Union

import numpy as np

from phix.core.dims import Dim, DimLike
from phix.core.places import Place
from phix.core.tensor import TensorBase

ScalarLike = Union[bool, int, float, complex, Dim, np.generic, TensorBase]
FloatLike = Union[float, np.generic, TensorBase]
IntArrayLike = Union[DimLike, TensorBase, np.ndarray, Sequence[Union[DimLike, TensorBase]]]
DTypeLike = Union[str, np.dtype, type]
PlaceLike = Union[str, Place]
