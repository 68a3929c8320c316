"""The methods that tensors have under names of Paddle's Tensor, where the op of that name takes
other arguments, another default, or gives more: PHI's ``logsumexp`` reduces axis 0 alone.

Names that ``numpy.ndarray`` has too are in :mod:`phix.array_functions.methods`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phix import ops
from phix.array_functions import arrangement, products
from phix.array_functions.method_arguments import line_of, several
from phix.array_functions.methods import ArrayMethods
from phix.array_functions.numpy_arguments import floating, tensor
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.axes import axes_of, axis_of
from phix.core.errors import ArgumentError, ShapeError, described
from phix.core.expectations import expect
from phix.core.tensor import Tensor

Shaped = Any  # a tensor, with whatever it has


class PaddleMethods:
    """Given to tensors, in their stub too; ``self`` is one."""

    # -- reductions ----------------------------------------------------------------------------
    def logsumexp(
        self: Shaped, axis: Any = None, keepdim: bool = False, *, keepdims: bool = False
    ) -> Tensor:  # fmt: skip
        """log(sum(exp(x))) along axes, of all elements where there is no axis."""
        axes = list(axes_of(axis, self.ndim))
        return ops.logsumexp(self, axes, bool(keepdim or keepdims), axis is None)

    def logcumsumexp(
        self: Shaped, axis: Any = None, dtype: Any = None, *, exclusive: bool = False,
        reverse: bool = False,
    ) -> Tensor:  # fmt: skip
        """Logarithms of running sums of exp(x), of the flattened tensor where there is no axis."""
        x, at = line_of(self if dtype is None else self.astype(dtype), axis)
        return ops.logcumsumexp(x, at, False, exclusive, reverse)

    def cummax(self: Shaped, axis: Any = None, dtype: Any = "int64") -> tuple[Tensor, Tensor]:
        """Running maxima, of the flattened tensor where there is no axis, and where they are."""
        return ops.cummax(*line_of(self, axis), dtype)

    def cummin(self: Shaped, axis: Any = None, dtype: Any = "int64") -> tuple[Tensor, Tensor]:
        """Running minima, of the flattened tensor where there is no axis, and where they are."""
        return ops.cummin(*line_of(self, axis), dtype)

    def median(
        self: Shaped, axis: Any = None, keepdim: bool = False, mode: str = "avg"
    ) -> Any:  # fmt: skip
        """The element in the middle, the mean of two for mode "avg"; for mode "min" the less of
        two and its index."""
        return _middle(ops.median, self, axis, keepdim, mode)

    def nanmedian(
        self: Shaped, axis: Any = None, keepdim: bool = False, mode: str = "avg"
    ) -> Any:  # fmt: skip
        """The median of the elements that are no NaN."""
        return _middle(ops.nanmedian, self, axis, keepdim, mode)

    def norm(
        self: Shaped, p: Any = None, axis: Any = None, keepdim: bool = False, *,
        keepdims: bool = False,
    ) -> Tensor:  # fmt: skip
        """The norm of all elements as one vector, or along an axis; of matrices along two.

        p is the order of a vector's norm, 2 where it is None; of matrices "fro" or "nuc".
        """
        from phix import linalg  # who asks for it alone needs it

        keep = bool(keepdim or keepdims)
        if (isinstance(p, str) and p != "fro") or (
            isinstance(axis, (tuple, list)) and len(axis) == 2
        ):
            if p not in (None, "fro", "nuc"):
                raise ArgumentError(
                    f"norm: of matrices p is 'fro' or 'nuc', found {p!r} for axis {axis}; "
                    "phix.linalg.matrix_norm has the norms of operators, and "
                    "phix.linalg.vector_norm takes two axes for one vector"
                )
            return linalg.norm(floating(self), p, axis, keep)
        order = 2 if p is None or p == "fro" else p
        return linalg.vector_norm(self, axis=axis, keepdims=keep, ord=order)

    def histogram(
        self: Shaped, bins: int = 100, min: float = 0.0, max: float = 0.0, weight: Any = None,
        density: bool = False,
    ) -> Tensor:  # fmt: skip
        """How many elements are in each of so many equal bins from ``min`` to ``max``."""
        return ops.histogram(self, weight, bins, min, max, density)

    # -- arrangement ---------------------------------------------------------------------------
    def split(self: Shaped, num_or_sections: Any, axis: Any = 0) -> tuple[Tensor, ...]:
        """So many equal parts along an axis, or parts of the sizes listed."""
        if isinstance(num_or_sections, (int, np.integer)):
            return ops.split_with_num(self, int(num_or_sections), axis)
        return ops.split(self, num_or_sections, axis)

    def expand(self: Shaped, *dims: Any, shape: Any = None) -> Tensor:
        """Repeated along axes of one element, and along new ones in front; -1 keeps a dim."""
        return ops.expand(self, several("expand", "shape", dims if shape is None else (shape,)))

    def tile(self: Shaped, *counts: Any, repeat_times: Any = None) -> Tensor:
        """The whole tensor so many times along each axis."""
        times = counts if repeat_times is None else (repeat_times,)
        return ops.tile(self, several("tile", "repeat_times", times))

    def repeat_interleave(self: Shaped, repeats: Any, axis: Any = None) -> Tensor:
        """Each element so many times in a row; of the flattened tensor where there is no axis."""
        return arrangement.repeat(self, repeats, axis)

    def unfold(self: Shaped, axis: int, size: int, step: int) -> Tensor:
        """Windows of ``size`` elements along an axis, each ``step`` after the last, along a new
        last axis. Patches of images are phix.ops.unfold."""
        return ops.tensor_unfold(self, axis, size, step)

    def transpose_(self: Shaped, *axes: Any, perm: Any = None) -> Tensor:
        """:meth:`transpose` in the memory of the tensor, not to be used after it."""
        order = axes if perm is None else (perm,)
        return ops.transpose_(self, several("transpose_", "axes", order))

    def reshape_(self: Shaped, *shape: Any) -> Tensor:
        """:meth:`reshape` in the memory of the tensor, not to be used after it."""
        return ops.reshape_(self, several("reshape_", "shape", shape))

    def flatten_(self: Shaped, start_axis: int = 0, stop_axis: int = -1) -> Tensor:
        """:meth:`flatten` in the memory of the tensor, not to be used after it."""
        return ops.flatten_(self, start_axis, stop_axis)

    def cumsum_(self: Shaped, axis: Any = None) -> Tensor:
        """:meth:`cumsum` in the memory of the tensor, not to be used after it."""
        return ops.cumsum_(self, 0 if axis is None else axis, axis is None)

    # -- parts ---------------------------------------------------------------------------------
    def unique(
        self: Shaped, return_index: bool = False, return_inverse: bool = False,
        return_counts: bool = False, axis: Any = None, dtype: Any = "int64",
    ) -> Any:  # fmt: skip
        """The elements that differ, sorted, and what else is asked for."""
        axes = [] if axis is None else [axis_of(axis, self.ndim)]
        return _asked(
            ops.unique(self, return_index, return_inverse, return_counts, axes, dtype)
        )  # fmt: skip

    def unique_consecutive(
        self: Shaped, return_inverse: bool = False, return_counts: bool = False, axis: Any = None,
        dtype: Any = "int64",
    ) -> Any:  # fmt: skip
        """The elements that differ from the one before, and what else is asked for."""
        axes = [] if axis is None else [axis_of(axis, self.ndim)]
        return _asked(ops.unique_consecutive(self, return_inverse, return_counts, axes, dtype))

    def topk(
        self: Shaped, k: Any, axis: Any = -1, largest: bool = True, sorted: bool = True
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """The k largest elements along an axis, and where they are."""
        return ops.topk(self, k, -1 if axis is None else axis, largest, sorted)

    def kthvalue(
        self: Shaped, k: int, axis: Any = -1, keepdim: bool = False
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """The kth least element along an axis, counted from 1, and where it is."""
        return ops.kthvalue(self, k, -1 if axis is None else axis, keepdim)

    def gather(self: Shaped, index: Any, axis: Any = 0) -> Tensor:
        """The slices at indices along an axis."""
        _check_order("gather", index, axis, "take_along_axis(index, axis)")
        return ops.gather(self, index, axis)

    def index_select(self: Shaped, index: Any, axis: Any = 0) -> Tensor:
        """The slices at indices along an axis."""
        _check_order("index_select", index, axis, "index_select(index, axis)")
        return ops.index_select(self, index, axis)

    def scatter(self: Shaped, index: Any, updates: Any, overwrite: bool = True) -> Tensor:
        """The tensor with the rows of ``updates`` at indices, or added there to zeros."""
        _check_rows("scatter", index, "x.put_along_axis(index, values, axis)")
        return ops.scatter(self, index, updates, overwrite)

    def scatter_(self: Shaped, index: Any, updates: Any, overwrite: bool = True) -> Tensor:
        """:meth:`scatter` in the memory of the tensor, not to be used after it."""
        _check_rows("scatter_", index, "x = x.put_along_axis(index, values, axis)")
        return ops.scatter_(self, index, updates, overwrite)

    def take_along_axis(
        self: Shaped, indices: Any, axis: int, broadcast: bool = True
    ) -> Tensor:  # fmt: skip
        """The elements at indices along an axis: of rows that are broadcast to each other, or,
        without ``broadcast``, of as many first rows as the indices have."""
        index, at = tensor(indices), axis_of(axis, self.ndim)
        x = self if broadcast else _first_rows(self, index, at)
        return ops.take_along_axis(x, index, at)

    def put_along_axis(
        self: Shaped, indices: Any, values: Any, axis: int, reduce: str = "assign",
        include_self: bool = True, broadcast: bool = True,
    ) -> Tensor:  # fmt: skip
        """The tensor with values put at indices along an axis, or combined with what is there:
        into every row, which indices of 1 stand for, or, without ``broadcast``, into as many first
        rows as the indices have, from as many of the values."""
        index, at = tensor(indices), axis_of(axis, self.ndim)
        if broadcast:
            if index.ndim == self.ndim:
                dims = [*self.shape]
                dims[at] = index.shape[at]
                index = ops.expand(index, dims)
            return ops.put_along_axis(self, index, values, at, reduce, include_self)
        values = tensor(values)
        values = _first_rows(values, index, None) if values.ndim == index.ndim else values
        rows = _first_rows(self, index, at)
        put = ops.put_along_axis(rows, index, values, at, reduce, include_self)
        return put if rows is self else self.at[tuple(slice(n) for n in put.shape)].set(put)

    def where(self: Shaped, x: Any, y: Any) -> Tensor:
        """The elements of ``x`` where this tensor of truths holds, else those of ``y``."""
        if self.dtype != dt.bool_ and getattr(x, "dtype", None) == dt.bool_:
            raise ArgumentError(
                f"where: x.where(a, b) chooses by x, which is {self.meta}; write "
                "phix.ops.where(condition, x, other)"
            )
        return ops.where(self, x, y)

    def index_add(
        self: Shaped, index: Any, axis: Any = 0, value: Any = None, *, add_value: Any = None
    ) -> Tensor:  # fmt: skip
        """The tensor with the slices of ``value`` added at indices along an axis."""
        given = add_value if value is None else value
        if not isinstance(axis, (int, np.integer)) or given is None:
            raise ArgumentError(
                f"index_add takes (index, axis, value), found axis {described(axis)} and value "
                f"{described(given)}; write x.index_add(index, 0, value)"
            )
        return ops.index_add(self, tensor(index), given, int(axis))

    # -- products ------------------------------------------------------------------------------
    def tensordot(self: Shaped, y: Any, axes: Any = 2) -> Tensor:
        """The sum of products over the last axes of this tensor and the first of the other, as
        many as ``axes`` says, or over the axes that it lists for each."""
        return products.tensordot(self, y, axes)

    def pinv(self: Shaped, rcond: Any = None, hermitian: bool = False) -> Tensor:
        """The pseudo-inverses of matrices: see phix.linalg.pinv."""
        from phix import linalg  # who asks for it alone needs it

        return linalg.pinv(self, rcond, hermitian)

    def matrix_rank(self: Shaped, tol: Any = None, hermitian: bool = False) -> Tensor:
        """How many singular values are larger than ``tol``: see phix.linalg.matrix_rank."""
        from phix import linalg  # who asks for it alone needs it

        return linalg.matrix_rank(self, tol, hermitian)

    # -- the tensor itself ---------------------------------------------------------------------
    def detach(self: Shaped) -> Tensor:
        """The values, without a derivative: phix.stop_gradient."""
        return ops.stop_gradient(self)

    def clone(self: Shaped) -> Tensor:
        """The same values in memory of their own, with the derivative."""
        return ops.assign(self)

    def cpu(self: Shaped) -> Tensor:
        """The tensor on the CPU."""
        found: Tensor = self.to("cpu")
        return found

    def dim(self: Shaped) -> int:
        """How many axes there are; also ``x.ndim``."""
        return int(self.ndim)

    def ndimension(self: Shaped) -> int:
        """How many axes there are; also ``x.ndim``."""
        return int(self.ndim)

    def element_size(self: Shaped) -> int:
        """The bytes of an element; also ``x.itemsize``."""
        return int(self.dtype.itemsize)


def _first_rows(x: Any, index: Any, axis: int | None) -> Any:
    """As much of ``x`` as the index has, along all axes but one; ``x`` itself if that is all."""
    if x.ndim != index.ndim:
        raise ShapeError(f"indices must have as many axes as {x.meta}, found {index.meta}")
    pairs = [(a, i) for k, (a, i) in enumerate(zip(x.shape, index.shape)) if k != axis]
    refusal = f"indices {index.meta} have more rows than {x.meta}; give it as many"
    x = expect(x, refusal, *(a - i for a, i in pairs))
    if all(dm.same(a, i) for a, i in pairs):
        return x
    own = (slice(None) if k == axis else slice(i) for k, i in enumerate(index.shape))
    return x[tuple(own)]


def _check_order(name: str, index: Any, axis: Any, way: str) -> None:
    """torch has the axis first, and one index would pass for an axis."""
    is_axis = isinstance(axis, (int, np.integer)) or getattr(axis, "ndim", 1) == 0
    if not is_axis:
        raise ArgumentError(
            f"{name} takes (index, axis), found {described(index)} for index and "
            f"{described(axis)} for axis; write x.{way}"
        )


def _check_rows(name: str, index: Any, way: str) -> None:
    """torch's scatter has the axis first."""
    if isinstance(index, (int, np.integer)):
        raise ArgumentError(
            f"{name} takes (index, updates), found {described(index)} for index; along an axis "
            f"write {way}"
        )


def _middle(find: Any, x: Any, axis: Any, keepdim: bool, mode: str) -> Any:
    out, place = find(x, [] if axis is None else list(axes_of(axis, x.ndim)), bool(keepdim), mode)
    return (out, place) if mode == "min" and isinstance(axis, int) else out


def _asked(outs: tuple[Any, ...]) -> Any:
    """What there is of several results; the one where there is no other."""
    found = tuple(o for o in outs if o is not None)
    return found if len(found) > 1 else found[0]


METHODS = (ArrayMethods, PaddleMethods)  # the first that has a name gives it
