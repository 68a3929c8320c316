"""The exceptions phix raises. Each also derives from the builtin that NumPy would have raised."""

from __future__ import annotations

import reprlib
from typing import Any

from phix.core.faces import face

__all__ = [
    "ArgumentError",
    "AttributeValueError",
    "CollectiveError",
    "ConcretizationError",
    "DTypeError",
    "DeviceError",
    "DifferentiationError",
    "DonatedTensorError",
    "FileError",
    "FileFormatError",
    "GatheredWarning",
    "GraphError",
    "KernelError",
    "KernelNotFoundError",
    "KernelRegistrationError",
    "LeakedTracerError",
    "MemoryLimitError",
    "NestingError",
    "NonFiniteError",
    "NumberRangeError",
    "OpTableError",
    "OutOfMemoryError",
    "PhixError",
    "RetraceError",
    "ShapeError",
    "TaskError",
    "TensorIndexError",
    "TensorValueError",
    "UnknownDimError",
    "UnknownNameError",
    "UnknownOpError",
    "UnrolledLoopWarning",
    "VerificationError",
]
__dir__ = face(__all__)


class PhixError(Exception):
    """Base of every error phix raises on purpose."""


class ShapeError(PhixError, ValueError):
    """Ranks or dims of the inputs do not fit the op."""


class DTypeError(PhixError, TypeError):
    """The dtype of an input is not one the op takes, or two dtypes do not promote."""


class AttributeValueError(PhixError, ValueError):
    """An attribute of an op (an axis, a padding, a mode string) is out of its range."""


class NumberRangeError(PhixError, OverflowError):
    """A number does not fit the dtype or the attribute that it is given for."""


class TensorIndexError(PhixError, IndexError):
    """An index does not fit the tensor it indexes."""


class TensorValueError(PhixError, ValueError):
    """A tensor holds a length, count, offset or number that the op cannot mean."""


class ArgumentError(PhixError, TypeError):
    """A call's arguments do not fit the signature of the op or transformation."""


class UnknownDimError(PhixError, TypeError):
    """Python needed the value of a dim that is unknown while tracing."""

    dim: Any = None  # the one, where there is one
    need: str = ""  # what needed it, and where


class ConcretizationError(PhixError, TypeError):
    """Python needed the value of a tensor that is being traced."""


class LeakedTracerError(PhixError, RuntimeError):
    """A tracer was used after the transformation that made it had ended."""


class DonatedTensorError(PhixError, RuntimeError):
    """A tensor was used after a call that it was donated to."""


class NonFiniteError(PhixError, ArithmeticError):
    """An op made a NaN or Inf out of finite inputs, inside ``phix.debug.nans()``.

    ``op`` and ``source`` say which and where in the user's code, ``passes`` the derivatives on the
    way from there to what was computed, ``order`` how many of them are backward passes.
    """

    op: str = ""
    source: Any = None
    passes: tuple[str, ...] = ()

    @property
    def order(self) -> int:
        return self.passes.count("backward")


class NestingError(PhixError, RecursionError):
    """Jitted functions are traced inside each other, and there is no end to it."""


class RetraceError(PhixError, RuntimeError):
    """A jitted function was traced more often than ``phix.debug.assert_max_traces`` allows."""


class MemoryLimitError(PhixError, MemoryError):
    """A program needs more memory than ``jit(f, memory_limit=...)`` gives it.

    ``limit`` is what was asked, ``smallest`` the least that was found, both in bytes.
    """

    limit = smallest = 0


class CollectiveError(PhixError, RuntimeError):
    """The ranks of a mesh were about to do different collectives, or one of them did not come."""


class TaskError(PhixError, RuntimeError):
    """A function that ``phix.parallel.map`` ran has raised; ``index`` is the number of the input,
    ``__cause__`` the error."""

    def __init__(self, message: str, index: int = -1) -> None:
        super().__init__(message)
        self.index = index

    def __reduce__(self) -> Any:
        return type(self), (self.args[0], self.index)


class DifferentiationError(PhixError, TypeError):
    """A derivative was asked for that does not exist."""


class OpTableError(PhixError, ValueError):
    """An entry of an op table, or a rule for one, is wrong."""


class UnknownNameError(PhixError, AttributeError):
    """A module or a tensor has no such name; the message says what to write instead."""


class UnknownOpError(PhixError, LookupError):
    """No op of that name is in the op table."""


class GraphError(PhixError, ValueError):
    """A graph is ill-formed, or its text does not parse."""


class GatheredWarning(UserWarning):
    """What no rule of sharding covers is made whole on every part of a mesh."""


class KernelError(PhixError, RuntimeError):
    """A registered kernel raised an exception while it ran, which is its ``__cause__``, or did not
    do what kernels do."""


class KernelNotFoundError(PhixError, LookupError):
    """No engine has a kernel for the op, place and dtype."""


class KernelRegistrationError(PhixError, ValueError):
    """A kernel or backend is registered twice, or in a way nothing could find it."""


class UnrolledLoopWarning(UserWarning):
    """A loop of Python has made very many equations of one line in a trace."""


class VerificationError(PhixError, AssertionError):
    """A pass has left a program that does not mean what it should: a fault of phix."""


class DeviceError(PhixError, RuntimeError):
    """A place is unknown, has no driver, or something failed on it."""


class FileError(PhixError, OSError):
    """A file cannot be read or written; ``__cause__`` is what the system said."""


class FileFormatError(PhixError, ValueError):
    """A file is torn, or is none of the format that it is read as."""


# What is said of native code that got no memory, which says no more than that.
NO_ROOM = (
    "out of memory for what is computed on the way; lower(...).memory_analysis() says what that is"
)


class OutOfMemoryError(DeviceError, MemoryError):
    """A place has no room, also after the memory kept for later was given back."""


# -- values in messages --------------------------------------------------------------------------
_SHORT = reprlib.Repr()
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = _SHORT.maxset = _SHORT.maxfrozenset = 6
_SHORT.maxlevel = 3
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 60
_MOST_BITS = 1000  # of an int that is written out: Python refuses to write very long ones


def shown(value: Any, most: int = 80) -> str:
    """A value as messages show it: of any size, cyclic, or with a ``repr`` that fails."""
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return f"{'-' if value < 0 else ''}2**{value.bit_length() - 1} or more"
    try:
        text = _SHORT.repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= most else f"{text[: most - 3]}..."


def described(value: Any) -> str:
    """The type of a value, and the value as :func:`shown` has it, unless that tells no more."""
    text, name = shown(value), type(value).__name__
    return name if value is None or text.startswith(f"<{name}") else f"{name} {text}"
