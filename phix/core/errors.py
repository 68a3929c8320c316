"""The exceptions phix raises. Each also derives from the builtin that NumPy would have raised."""

from __future__ import annotations

from typing import Any


class PhixError(Exception):
    """Base of every error phix raises on purpose."""


class ShapeError(PhixError, ValueError):
    """Ranks or dims of the inputs do not fit the op."""


class DTypeError(PhixError, TypeError):
    """The dtype of an input is not one the op takes, or two dtypes do not promote."""


class AttributeValueError(PhixError, ValueError):
    """An attribute of an op (an axis, a padding, a mode string) is out of its range."""


class TensorIndexError(PhixError, IndexError):
    """An index does not fit the tensor it indexes."""


class ArgumentError(PhixError, TypeError):
    """A call's arguments do not fit the signature of the op or transformation."""


class UnknownDimError(PhixError, TypeError):
    """Python needed the value of a dim that is unknown while tracing."""


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


class RetraceError(PhixError, RuntimeError):
    """A jitted function was traced more often than ``phix.debug.assert_max_traces`` allows."""


class DifferentiationError(PhixError, TypeError):
    """A derivative was asked for that does not exist."""


class OpTableError(PhixError, ValueError):
    """An entry of an op table, or a rule for one, is wrong."""


class UnknownOpError(PhixError, LookupError):
    """No op of that name is in the op table."""


class GraphError(PhixError, ValueError):
    """A graph is ill-formed, or its text does not parse."""


class KernelNotFoundError(PhixError, LookupError):
    """No engine has a kernel for the op, place and dtype."""


class KernelRegistrationError(PhixError, ValueError):
    """A kernel or backend is registered twice, or in a way nothing could find it."""


class DeviceError(PhixError, RuntimeError):
    """A place is unknown, has no driver, or something failed on it."""


class OutOfMemoryError(DeviceError, MemoryError):
    """A place has no room, also after the memory kept for later was given back."""
