"""The default float: the dtype of floats that are made without one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from phix.core import dtypes as dt
from phix.core.annotations import DTypeLike
from phix.core.context import Context, context, note_block, note_registration
from phix.core.errors import DTypeError, shown
from phix.core.libraries import PINS

_ALLOWED = (dt.float32, dt.float64, dt.float16, dt.bfloat16)


def get_default_dtype() -> np.dtype:
    """The dtype that floats have which are made without one: see :func:`set_default_dtype`.

    >>> import phix
    >>> phix.get_default_dtype()
    dtype('float32')
    """
    return context.default_float


def set_default_dtype(dtype: DTypeLike) -> None:
    """Say which dtype floats have that are made without one, from the next call on.

    It is that of Python's floats and lists of them; of ``zeros``, ``ones``, ``eye``, ``linspace``
    and the like, of what ``phix.random`` draws and of the parameters of ``phix.nn``, where no
    dtype is given; and of ints where floats are wanted, as in ``ints / 2`` and ``sqrt(ints)``.
    ``float`` as a dtype is it, too. Complex numbers are complex128 beside float64, else complex64.

    Tensors that have a dtype keep it, and a number beside them takes it on, as ever. What ops are
    made of goes by float32 as before, so nothing that is given tensors of floats gives others.
    Traced functions are traced again where the default is another.

    In all threads; inside a block of :func:`default_dtype` in this thread, until the block ends.

    Args:
        dtype: ``"float32"``, which it is at first, ``"float64"``, ``"float16"`` or ``"bfloat16"``.

    Raises:
        DTypeError: any other.

    >>> import phix
    >>> phix.set_default_dtype("float64")
    >>> phix.to_tensor([0.1]).dtype, phix.zeros([2]).dtype
    (dtype('float64'), dtype('float64'))
    >>> phix.set_default_dtype("float32")
    """
    wanted = _checked(dtype, "set_default_dtype")
    if "default_float" in vars(context):
        context.default_float = wanted
        note_block()
        return
    before, Context.default_float = Context.default_float, wanted
    if before == wanted:
        return
    note_registration()
    if before == dt.float32:  # from now on eager calls have to ask
        PINS.append("default float")
    elif wanted == dt.float32:
        PINS.pop()


@contextmanager
def default_dtype(dtype: DTypeLike) -> Iterator[np.dtype]:
    """Inside the with block, in this thread, floats that are made without a dtype have this one.

    What it means is said at :func:`set_default_dtype`. After the block, and after an exception, the
    default is what it was.

    Args:
        dtype: as for :func:`set_default_dtype`.

    Raises:
        DTypeError: any other.

    >>> import phix
    >>> with phix.default_dtype("float64"):
    ...     x = phix.linspace(0, 1, 3)
    >>> x.dtype, phix.ones([1]).dtype
    (dtype('float64'), dtype('float32'))
    """
    wanted, own = _checked(dtype, "default_dtype"), vars(context)
    before = own.get("default_float")
    context.default_float = wanted
    note_block()
    PINS.append("default float")
    try:
        yield wanted
    finally:
        PINS.pop()
        if before is None:
            own.pop("default_float")
        else:
            context.default_float = before
        note_block()


def _checked(dtype: DTypeLike, where: str) -> np.dtype:
    try:
        wanted = dt.as_dtype(dtype)
    except DTypeError as error:
        raise DTypeError(f"{where}: {error}") from None
    if wanted not in _ALLOWED:
        names = ", ".join(map(str, _ALLOWED))
        raise DTypeError(
            f"{where}: the default is a float dtype, one of {names}; found {shown(dtype)}"
        )
    return wanted
