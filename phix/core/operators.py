"""Python's operators, indexing and conversions of tensors, and each op as a method.

Tensors stand below what calls ops; so these members are given to ``TensorBase`` here, all in one
way, when this module is imported.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.core import indexing, places
from phix.core.annotations import DTypeLike, PlaceLike
from phix.core.conversion import tensor_place
from phix.core.dims import DimLike
from phix.core.dispatch import bind
from phix.core.errors import DTypeError
from phix.core.hints import Absent, unknown_arguments
from phix.core.index_update import IndexUpdate
from phix.core.later import method_of
from phix.core.powers import check_powers
from phix.core.rules import OPS
from phix.core.tensor import Tensor, TensorBase, TensorLike

BINARY = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
}
COMPARE = {
    "lt": "less_than",
    "le": "less_equal",
    "gt": "greater_than",
    "ge": "greater_equal",
    "eq": "equal",
    "ne": "not_equal",
}
UNARY = {"invert": "bitwise_not", "abs": "abs"}
_ATTRS = {"lshift": (True,), "rshift": (True,)}  # is_arithmetic: signed ints keep their sign


def _operator(name: str, op_name: str, is_reflected: bool = False) -> Callable[..., Any]:
    """The method that calls an op, which is in the table by the time that it is called."""
    attrs = _ATTRS.get(name, ())

    def forward(self: Any, other: Any) -> Any:
        return bind(OPS[op_name], (self, other), attrs)

    def reflected(self: Any, other: Any) -> Any:
        return bind(OPS[op_name], (other, self), attrs)

    def unary(self: Any) -> Any:
        return bind(OPS[op_name], (self,), ())

    method = unary if name in UNARY else reflected if is_reflected else forward
    method.__name__ = f"__{'r' * is_reflected}{name}__"
    return method


def _call(name: str, *inputs: Any, attrs: tuple[Any, ...] = ()) -> Any:
    return bind(OPS[name], inputs, attrs)


def _names_dtype(value: Any) -> bool:
    """Whether what is given for a place is a dtype."""
    if isinstance(value, str):
        return value in dt.BY_NAME
    return isinstance(value, (np.dtype, type))


class _Members:
    """What is no single op on the operands as they are; ``self`` is a tensor."""

    ndim: int
    dtype: np.dtype
    size: DimLike

    @property
    def T(self) -> Tensor:
        """The tensor with its axes reversed."""
        return _call("transpose", self, attrs=(tuple(reversed(range(self.ndim))),))

    @property
    def at(self: Any) -> IndexUpdate:
        """Functional updates: ``x.at[index].set(y)``, also add, multiply, max, min."""
        return IndexUpdate(self)

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return int(self.dtype.itemsize)

    @property
    def nbytes(self) -> DimLike:
        """The bytes of all elements."""
        return self.size * self.itemsize

    def astype(
        self,
        dtype: DTypeLike,
        order: str = "K",
        casting: str = "unsafe",
        subok: bool = True,
        copy: bool = True,
    ) -> Tensor:
        """The values converted to ``dtype``; a complex number keeps its real part."""
        wanted = dt.as_dtype(dtype)
        if casting != "unsafe" and not np.can_cast(self.dtype, wanted, casting):  # type: ignore[arg-type]
            raise DTypeError(
                f"astype: {self.dtype} does not become {wanted} with casting={casting!r}; leave "
                "casting out"
            )
        return _call("cast", self, attrs=(wanted,))

    def to(
        self,
        place: PlaceLike | DTypeLike | Tensor | None = None,
        dtype: DTypeLike | None = None,
        blocking: bool | None = None,
        *,
        device: PlaceLike | None = None,
    ) -> Tensor:
        """The tensor on a place, or with a dtype, or both; itself, if it is so.

        Args:
            place: a place or its name; or a dtype, which is then what is changed; or a tensor,
                whose place and dtype it gets.
            dtype: what the values are converted to.
            blocking: Paddle's; the values are there when they are asked for, whatever it says.
            device: ``place`` by Paddle's name.

        Raises:
            DeviceError: no such device is here.
            DTypeError: a dtype phix does not have.

        >>> import phix
        >>> x = phix.zeros([2])
        >>> x.to("cpu").place, x.to("float64").dtype, x.to("cpu", phix.int8).dtype
        (Place(kind='cpu', index=0), dtype('float64'), dtype('int8'))
        """
        there: Any = place if device is None else device
        wanted = dtype
        if isinstance(there, TensorBase):
            wanted = there.dtype if dtype is None else dtype
            there = tensor_place(there)
        elif dtype is None and _names_dtype(there):
            there, wanted = None, there
        found: Any = self if wanted is None else self.astype(wanted)
        if there is None:
            return found
        return _call("io_copy", found, attrs=(places.as_place(there),))

    def __getitem__(self: Any, index: Any) -> Tensor:
        return indexing.get(self, index)

    def __neg__(self) -> Tensor:
        return _call("scale", self, attrs=(-1, 0, True))

    def __pos__(self: Any) -> Tensor:
        return self

    def __pow__(self, other: TensorLike) -> Tensor:
        if isinstance(other, (int, float)) and not isinstance(other, bool):
            if isinstance(other, int):
                check_powers(self, other)
            return _call("pow", self, attrs=(other,))
        check_powers(self, other)
        return _call("elementwise_pow", self, other)

    def __rpow__(self, other: TensorLike) -> Tensor:
        check_powers(other, self)
        return _call("elementwise_pow", other, self)

    def __matmul__(self, other: TensorLike) -> Tensor:
        return _call("matmul", self, other, attrs=(False, False))

    def __rmatmul__(self, other: TensorLike) -> Tensor:
        return _call("matmul", other, self, attrs=(False, False))

    def __divmod__(self: Any, other: TensorLike) -> tuple[Tensor, Tensor]:
        return self // other, self % other

    def __rdivmod__(self: Any, other: TensorLike) -> tuple[Tensor, Tensor]:
        return other // self, other % self

    def __round__(self, digits: int = 0) -> Tensor:
        return _call("round", self, attrs=(digits,))


# The methods with meanings of their own, NumPy's or Paddle's: members of the classes that
# ``provide_methods`` is given. They are imported when the first of them is asked for.
WRITTEN_METHODS: tuple[str, ...] = (
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "choose", "clip", "compress",
    "conj", "conjugate", "copy", "cumprod", "cumsum", "diagonal", "dot", "flat", "flatten", "imag",
    "max", "mT", "mean", "min", "nonzero", "partition", "prod", "ptp", "ravel", "real", "repeat",
    "reshape", "round", "searchsorted", "sort", "squeeze", "std", "sum", "swapaxes", "take",
    "tobytes", "trace", "transpose", "var", "view",
    "clone", "cpu", "cummax", "cummin", "cumsum_", "detach", "dim", "element_size", "expand",
    "flatten_", "gather", "histogram", "index_add", "index_select", "kthvalue", "logcumsumexp",
    "logsumexp", "matrix_rank", "median", "nanmedian", "ndimension", "norm", "pinv",
    "put_along_axis", "take_along_axis",
    "repeat_interleave", "reshape_", "scatter", "scatter_", "split", "tensordot", "tile", "topk",
    "transpose_", "unfold", "unique", "unique_consecutive", "where",
)  # fmt: skip


class _Later:
    """A method in whose place the one that is made comes, when it is first asked for."""

    __slots__ = ("make", "name")

    def __init__(self, name: str, make: Callable[[str], Any]) -> None:
        self.name, self.make = name, make

    def __get__(self, tensor: Any, owner: type) -> Any:
        member = self.make(self.name)
        made = member if isinstance(member, property) else _answering(member)
        setattr(TensorBase, self.name, made)
        return made.__get__(tensor, owner)


def provide_methods(load: Callable[[], Iterable[type]]) -> None:
    """Say where the classes are that the written methods are members of."""

    def written(name: str) -> Any:
        return next(vars(c)[name] for c in load() if name in vars(c))

    for name in WRITTEN_METHODS:
        setattr(TensorBase, name, _Later(name, written))


def _answering(function: Any) -> Any:
    """The function as a method that answers keywords it does not take.

    Python's own error names them alone, and functions of ops keep the signatures of the table.
    """
    code = function.__code__
    known = dict.fromkeys(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]).keys()

    @functools.wraps(function)
    def method(*args: Any, **kwargs: Any) -> Any:
        if kwargs and not kwargs.keys() <= known:
            raise unknown_arguments(
                f"x.{function.__name__}", list(known)[1:], kwargs.keys() - known
            )
        return function(*args, **kwargs)

    return method


def _install() -> None:
    members = [m for n, m in vars(_Members).items() if callable(m) or isinstance(m, property)]
    members += [_operator(python, op) for python, op in (BINARY | COMPARE | UNARY).items()]
    members += [_operator(python, op, is_reflected=True) for python, op in BINARY.items()]
    for member in members:
        is_named = not isinstance(member, property) and not member.__name__.startswith("__")
        method_of(TensorBase)(_answering(member) if is_named else member)


# First arguments that no method is called on: x.poisson() would take x for the key.
NO_SELF = ("key", "branch", "learning_rate")
# What tensors, which are immutable, do not do as NumPy's or Paddle's method of the name does it.
NO_METHODS = ("fill", "set_value")


def install_methods(ops_module: Any) -> None:
    """Make each op whose first argument is a tensor a method of that name, ``relu_`` too."""
    functions = vars(ops_module)
    for op_name, op in OPS.items():
        if not op.receiver or op.receiver in NO_SELF:
            continue
        for name in (op_name, f"{op_name}_") if op.inplace else (op_name,):
            is_there = name in functions  # the module would search for a name that is not
            if is_there and name not in NO_METHODS and not _has(name):
                setattr(TensorBase, name, _Later(name, functions.__getitem__))


def _has(name: str) -> bool:
    """Whether tensors have a member of that name, which is not asked for; absent ones do not
    count."""
    found = next((vars(c)[name] for c in TensorBase.__mro__ if name in vars(c)), None)
    return found is not None and not isinstance(found, Absent)


def remove_method(name: str, function: Any) -> None:
    """Take a method away again, if it is that function."""
    found = getattr(TensorBase, name, None)
    if function is not None and getattr(found, "__wrapped__", None) is function:
        delattr(TensorBase, name)


_install()
