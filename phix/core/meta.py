"""What is known of a tensor without its data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from phix.core import dims as dm
from phix.core.dims import DimLike, Shape, Symbol
from phix.core.dtypes import as_dtype
from phix.core.errors import DTypeError, ShapeError, described, shown
from phix.core.given import is_int
from phix.core.records import dataclass

_NO_AXES: frozenset[str] = frozenset()


class MetaTensor:
    """Dims, dtype and layout of a tensor. A dim unknown at compile time is a ``Dim``.

    :func:`spec` makes one from ints and names.

    >>> import phix
    >>> phix.MetaTensor((3, 4), "float32")
    float32[3, 4]
    >>> phix.spec(["n", 4]).size
    4*n
    """

    __slots__ = ("dims", "dtype", "layout", "varying")
    # The axes of meshes along which the value may differ: see core.varying. Equal metas may differ
    # in it.
    varying: frozenset[str]

    def __init__(self, dims: Shape, dtype: Any, layout: str = "any") -> None:
        self.dims = dims if type(dims) is tuple else _listed(dims, "MetaTensor")
        try:
            self.dtype = as_dtype(dtype)
        except DTypeError as error:
            raise DTypeError(f"MetaTensor: {error}") from None
        self.layout = layout
        self.varying = _NO_AXES

    @property
    def shape(self) -> Shape:
        return self.dims

    @property
    def ndim(self) -> int:
        return len(self.dims)

    @property
    def size(self) -> DimLike:
        return dm.product(self.dims)

    @property
    def meta(self) -> MetaTensor:
        return self

    def is_static(self) -> bool:
        return dm.is_known(*self.dims)

    def with_dims(self, dims: Sequence[DimLike]) -> MetaTensor:
        made = MetaTensor(tuple(dims), self.dtype, self.layout)
        made.varying = self.varying
        return made

    def with_dtype(self, dtype: Any) -> MetaTensor:
        made = MetaTensor(self.dims, dtype, self.layout)
        made.varying = self.varying
        return made

    def with_varying(self, axes: frozenset[str]) -> MetaTensor:
        """The same, differing along those axes of meshes and no others."""
        if axes == self.varying:
            return self
        made = MetaTensor(self.dims, self.dtype, self.layout)
        made.varying = axes
        return made

    def substitute(self, env: Mapping[Symbol, DimLike]) -> MetaTensor:
        return self.with_dims([dm.substitute(d, env) for d in self.dims])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MetaTensor):
            return NotImplemented
        same = self.dtype == other.dtype and self.layout == other.layout
        return same and dm.same_shape(self.dims, other.dims)

    def __hash__(self) -> int:
        return hash((self.dtype, self.dims, self.layout))

    def __repr__(self) -> str:
        return f"{self.dtype}{dm.shape_text(self.dims)}"


def covers(general: MetaTensor, concrete: MetaTensor) -> bool:
    """Whether ``general`` is ``concrete`` with some dims left unknown."""
    return (
        general.dtype == concrete.dtype
        and general.ndim == concrete.ndim
        and all(dm.may_equal(g, c) for g, c in zip(general.dims, concrete.dims))
    )


@dataclass(frozen=True)
class MetaConfig:
    """How metas are being inferred: at run time every dim is known and every check is made."""

    is_runtime: bool = False


def spec(shape: Sequence[int | str | DimLike], dtype: Any = float) -> MetaTensor:
    """The meta of an argument that is not at hand, for ``make_graph``, ``jit`` and their kin.

    Args:
        shape: one entry a dim: an int; -1 or None for a size unknown at compile time; a string
            for an unknown size with a name. The same name is the same size wherever it stands.
        dtype: any dtype of phix; the default float if none is given.

    Raises:
        ShapeError: a dim below -1, or a name that is no identifier.

    >>> import phix
    >>> phix.spec(["n", 128], "float32")
    float32[n, 128]
    >>> phix.spec([-1, 3])
    float32[-1, 3]
    """
    try:
        return MetaTensor(tuple(map(_dim, _listed(shape, "spec"))), as_dtype(dtype))
    except DTypeError as error:
        raise DTypeError(f"spec: {error}") from None


def check_alike(
    first: Sequence[MetaTensor], outs: Sequence[MetaTensor], name: str, other: str
) -> None:
    """Raise unless two branches give results of the same metas.

    Raises:
        ShapeError: there are more of one, or dims differ.
        DTypeError: dtypes alone do.
    """
    fits = len(outs) == len(first) and all(
        a.ndim == b.ndim and all(map(dm.may_equal, a.dims, b.dims)) for a, b in zip(first, outs)
    )
    if not fits or any(a.dtype != b.dtype for a, b in zip(first, outs)):
        kind, change = (DTypeError, "cast") if fits else (ShapeError, "reshape")
        raise kind(
            f"the branches must give results of the same metas: {name} gives "
            f"{', '.join(map(str, first))}, {other} {', '.join(map(str, outs))}; {change} one of "
            "them"
        )


def _listed(shape: Any, where: str) -> tuple[Any, ...]:
    """The entries of a shape, which has them in an order."""
    try:
        if not isinstance(shape, (str, bytes, dict, set, frozenset)):
            return tuple(shape)
    except Exception:  # whatever the value answers
        pass
    raise ShapeError(f"{where}: a shape is a list or tuple of dims, found {described(shape)}")


def _dim(entry: Any) -> DimLike:
    """The dim that an entry of a spec's shape stands for."""
    if entry is None or (isinstance(entry, int) and entry == -1):
        return dm.symbol()
    if isinstance(entry, dm.Dim):
        return entry
    if isinstance(entry, str):
        if not entry.isidentifier():
            raise ShapeError(
                f"spec: {shown(entry)} is no name for a dim; write an identifier such as 'n', an "
                "int, or -1 for a size that is unknown"
            )
        return dm.symbol(entry)
    if not is_int(entry) or entry < 0:
        raise ShapeError(f"spec: {shown(entry)} is no size; write an int from 0, or -1 for unknown")
    return int(entry)
