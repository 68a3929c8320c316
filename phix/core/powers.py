"""Powers of ints that are no ints, refused where they are known."""

from __future__ import annotations

from typing import Any

import numpy as np

from phix.core.attrs import is_traced
from phix.core.conversion import holds_tensors
from phix.core.errors import AttributeValueError
from phix.core.tensor import TensorBase


def check_powers(x: Any, y: Any) -> None:
    """Refuse negative powers of ints where they are known. Compiled programs round them toward 0,
    as the op ``elementwise_pow`` does everywhere: 1 and -1 have some, and 0 are the others."""
    if isinstance(y, (list, tuple)) and not holds_tensors(y):
        y = np.asarray(y)
    if not (is_int(x) and is_int(y)):
        return
    if isinstance(y, TensorBase):
        has_negative = not is_traced(y) and (y.numpy() < 0).any()
    else:
        has_negative = np.less(y, 0).any()
    if has_negative:
        raise AttributeValueError(
            "ints have no negative powers that are ints; write the base or the power as floats, "
            "x.astype('float32') ** y"
        )


def is_int(x: Any) -> bool:
    if isinstance(x, (TensorBase, np.ndarray, np.generic)):
        return x.dtype.kind in "iu"
    return isinstance(x, int) and not isinstance(x, bool)
