"""Arrays as text, which NumPy writes, in its settings."""

from __future__ import annotations

from typing import Any

import numpy as np

from phix.array_functions.numpy_arguments import tensor


def array_repr(
    arr: Any, max_line_width: Any = None, precision: Any = None, suppress_small: Any = None
) -> str:
    """The text of NumPy for the array."""
    return np.array_repr(tensor(arr).numpy(), max_line_width, precision, suppress_small)


def array_str(
    a: Any, max_line_width: Any = None, precision: Any = None, suppress_small: Any = None
) -> str:
    """The values as NumPy writes them."""
    return np.array_str(tensor(a).numpy(), max_line_width, precision, suppress_small)


def array2string(a: Any, *args: Any, **kwargs: Any) -> str:
    """The values as NumPy writes them with these settings."""
    return np.array2string(tensor(a).numpy(), *args, **kwargs)


def get_printoptions() -> dict[str, Any]:
    """NumPy's settings for text, which tensors have too."""
    return dict(np.get_printoptions())


def set_printoptions(*args: Any, **kwargs: Any) -> None:
    """Change NumPy's settings for text, which tensors have too."""
    np.set_printoptions(*args, **kwargs)


def printoptions(*args: Any, **kwargs: Any) -> Any:
    """NumPy's settings for text changed inside a with block."""
    return np.printoptions(*args, **kwargs)


PRINTING: dict[str, Any] = {
    f.__name__: f
    for f in (array2string, array_repr, array_str, get_printoptions, printoptions, set_printoptions)
}
