"""What the functions of ``phix.nn`` do with their arguments before they reach an op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phix import ops
from phix.core import dtypes as dt
from phix.core.errors import AttributeValueError, DTypeError
from phix.core.tensor import TensorBase, to_tensor_shared

REDUCTIONS = ("none", "mean", "sum")


def as_tensor(value: Any) -> Any:
    return value if isinstance(value, TensorBase) else to_tensor_shared(value)


def as_float(value: Any, dtype: Any = None) -> Any:
    """``value`` as a tensor of that float dtype; bools and ints of the default one if none is."""
    x = as_tensor(value)
    dtype = dtype or dt.float_of(x.dtype)
    return x if x.dtype == dtype else ops.cast(x, dtype)


def as_numbers(value: Any, function: str, name: str) -> Any:
    """``value`` as an int tensor.

    Raises:
        DTypeError: it holds no ints.
    """
    x = as_tensor(value)
    if dt.kind(x.dtype) != "int":
        raise DTypeError(f"{function}: {name} holds class numbers, found {x.meta}; cast it to int64")
    return x


def pair(value: Any) -> list[Any]:
    """One number for height and width, or both of them."""
    return list(value) if isinstance(value, Sequence) else [value, value]


def window_paddings(padding: Any, data_format: str) -> tuple[list[Any], str]:
    """Paddle's spellings of a padding as the ops take them: numbers, and the algorithm's name.

    A str names the algorithm; one number, or two, are (height, width); four are (top, bottom, left,
    right); four pairs are those of each axis of the images, of which the spatial ones count.
    """
    if isinstance(padding, str):
        return [0, 0], padding.upper()
    numbers = pair(padding)
    if any(isinstance(p, Sequence) for p in numbers):
        spatial = slice(1, 3) if data_format == "NHWC" else slice(2, 4)
        others = [q for i, p in enumerate(numbers) if i not in range(4)[spatial] for q in p]
        if len(numbers) != 4 or any(others):
            raise AttributeValueError(
                f"padding {padding!r} must be four pairs, 0 for the batch and the channels"
            )
        numbers = [q for p in numbers[spatial] for q in p]
    return (numbers * 2 if len(numbers) == 1 else numbers), "EXPLICIT"


def check_reduction(function: str, reduction: str, known: Sequence[str] = REDUCTIONS) -> None:
    if reduction not in known:
        raise AttributeValueError(
            f"{function}: reduction must be one of {', '.join(known)}, found {reduction!r}"
        )


def reduced(loss: Any, reduction: str) -> Any:
    """The loss as it is, its mean, or its sum."""
    return {"none": lambda x: x, "mean": ops.mean, "sum": ops.sum}[reduction](loss)
