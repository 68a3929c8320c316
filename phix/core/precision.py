"""How exact products of float32 matrices are on devices that can trade accuracy for speed."""

from __future__ import annotations

from phix.core.errors import AttributeValueError
from phix.core.given import takes

PRECISIONS = ("highest", "high")
_current = "highest"


def matmul_precision() -> str:
    """The precision that :func:`set_matmul_precision` set.

    >>> import phix
    >>> phix.matmul_precision()
    'highest'
    """
    return _current


@takes()
def set_matmul_precision(precision: str) -> None:
    """Say how exact products of float32 matrices are to be, from the next call on.

    Args:
        precision: ``"highest"`` (the default): float32 throughout. ``"high"``: on NVIDIA GPUs the
            factors are rounded to TF32, 10 bits of mantissa, which is several times faster; sums
            stay float32. The CPU always computes in float32.

    Raises:
        AttributeValueError: any other name.

    >>> import phix
    >>> phix.set_matmul_precision("high")
    >>> phix.matmul_precision()
    'high'
    >>> phix.set_matmul_precision("highest")
    """
    global _current
    if precision not in PRECISIONS:
        raise AttributeValueError(
            f"no matmul precision {precision!r}; write one of {', '.join(map(repr, PRECISIONS))}"
        )
    _current = precision
