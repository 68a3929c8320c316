"""The methods and operators that every tensor has: ops whose first argument is a tensor.

Generated from ``phix/ops.py``, with it. For type checkers: see ``phix/table/stubs.py``.
"""

# fmt: off
from collections.abc import Sequence
from typing import Any

from phix.core.annotations import DTypeLike, FloatLike, IntArrayLike, PlaceLike, ScalarLike
from phix.core.dims import DimLike
from phix.core.graph import Graph
from phix.core.index_update import IndexUpdate
from phix.core.tensor import Tensor, TensorLike

class TensorMethods:
    def __add__(self, other: TensorLike) -> Tensor: ...
    def __radd__(self, other: TensorLike) -> Tensor: ...
    def __sub__(self, other: TensorLike) -> Tensor: ...
    def __rsub__(self, other: TensorLike) -> Tensor: ...
    def __mul__(self, other: TensorLike) -> Tensor: ...
    def __rmul__(self, other: TensorLike) -> Tensor: ...
    def __truediv__(self, other: TensorLike) -> Tensor: ...
    def __rtruediv__(self, other: TensorLike) -> Tensor: ...
    def __floordiv__(self, other: TensorLike) -> Tensor: ...
    def __rfloordiv__(self, other: TensorLike) -> Tensor: ...
    def __mod__(self, other: TensorLike) -> Tensor: ...
    def __rmod__(self, other: TensorLike) -> Tensor: ...
    def __and__(self, other: TensorLike) -> Tensor: ...
    def __rand__(self, other: TensorLike) -> Tensor: ...
    def __or__(self, other: TensorLike) -> Tensor: ...
    def __ror__(self, other: TensorLike) -> Tensor: ...
    def __xor__(self, other: TensorLike) -> Tensor: ...
    def __rxor__(self, other: TensorLike) -> Tensor: ...
    def __lshift__(self, other: TensorLike) -> Tensor: ...
    def __rlshift__(self, other: TensorLike) -> Tensor: ...
    def __rshift__(self, other: TensorLike) -> Tensor: ...
    def __rrshift__(self, other: TensorLike) -> Tensor: ...
    def __lt__(self, other: TensorLike) -> Tensor: ...
    def __le__(self, other: TensorLike) -> Tensor: ...
    def __gt__(self, other: TensorLike) -> Tensor: ...
    def __ge__(self, other: TensorLike) -> Tensor: ...
    def __eq__(self, other: TensorLike) -> Tensor: ...  # type: ignore[override]
    def __ne__(self, other: TensorLike) -> Tensor: ...  # type: ignore[override]
    def __invert__(self) -> Tensor: ...
    def __abs__(self) -> Tensor: ...
    @property
    def T(self) -> Tensor:
        """The tensor with its axes reversed."""
    @property
    def at(self) -> IndexUpdate:
        """Functional updates: ``x.at[index].set(y)``, also add, multiply, max, min."""
    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
    @property
    def nbytes(self) -> DimLike:
        """The bytes of all elements."""
    def astype(
        self,
        dtype: DTypeLike,
        order: str = 'K',
        casting: str = 'unsafe',
        subok: bool = True,
        copy: bool = True,
    ) -> Tensor:
        """The values converted to ``dtype``; a complex number keeps its real part."""
    def to(
        self,
        place: PlaceLike | DTypeLike | Tensor | None = None,
        dtype: DTypeLike | None = None,
        blocking: bool | None = None,
        *,
        device: PlaceLike | None = None,
    ) -> Tensor:
        """The tensor on a place, or with a dtype, or both; itself, if it is so."""
    def __getitem__(self, index: Any) -> Tensor: ...
    def __neg__(self) -> Tensor: ...
    def __pos__(self) -> Tensor: ...
    def __pow__(self, other: TensorLike) -> Tensor: ...
    def __rpow__(self, other: TensorLike) -> Tensor: ...
    def __matmul__(self, other: TensorLike) -> Tensor: ...
    def __rmatmul__(self, other: TensorLike) -> Tensor: ...
    def __divmod__(self, other: TensorLike) -> tuple[Tensor, Tensor]: ...
    def __rdivmod__(self, other: TensorLike) -> tuple[Tensor, Tensor]: ...
    def __round__(self, digits: int = 0) -> Tensor: ...
    def sum(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
        *,
        keepdim: bool = False,
    ) -> Tensor:
        """The sum along axes, of all elements where there is no axis; ints to 64 bits."""
    def prod(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
        *,
        keepdim: bool = False,
    ) -> Tensor:
        """The product along axes, of all elements where there is no axis; ints to 64 bits."""
    def mean(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        where: Any = None,
        *,
        keepdim: bool = False,
    ) -> Tensor:
        """The mean along axes, of all elements where there is no axis; of ints in float32."""
    def var(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: Any = 0,
        keepdims: bool = False,
        *,
        correction: Any = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
    ) -> Tensor:
        """The mean of squared distances from the mean, over n - ddof; ddof is 0, as in NumPy."""
    def std(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: Any = 0,
        keepdims: bool = False,
        *,
        correction: Any = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
    ) -> Tensor:
        """The root of the variance, over n - ddof; ddof is 0, as in NumPy."""
    def max(
        self,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
        *,
        keepdim: bool = False,
    ) -> Tensor:
        """The largest element along axes, of all where there is no axis; NaN where one is."""
    def min(
        self,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
        *,
        keepdim: bool = False,
    ) -> Tensor:
        """The least element along axes, of all where there is no axis; NaN where one is."""
    def ptp(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Tensor:
        """The largest element less the least, along axes."""
    def argmax(
        self,
        axis: Any = None,
        out: Any = None,
        *,
        keepdims: bool = False,
        keepdim: bool = False,
        dtype: Any = None,
    ) -> Tensor:
        """Where the largest element is: in the flattened tensor where there is no axis."""
    def argmin(
        self,
        axis: Any = None,
        out: Any = None,
        *,
        keepdims: bool = False,
        keepdim: bool = False,
        dtype: Any = None,
    ) -> Tensor:
        """Where the least element is: in the flattened tensor where there is no axis."""
    def all(
        self,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        *,
        where: Any = None,
        keepdim: bool = False,
    ) -> Tensor:
        """Whether all elements along axes are true."""
    def any(
        self,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        *,
        where: Any = None,
        keepdim: bool = False,
    ) -> Tensor:
        """Whether some element along axes is true."""
    def cumsum(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        *,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> Tensor:
        """Running sums along an axis, of the flattened tensor where there is none."""
    def cumprod(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        *,
        dim: Any = None,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> Tensor:
        """Running products along an axis, of the flattened tensor where there is none."""
    def reshape(self, *shape: Any, order: str = 'C', copy: Any = None) -> Tensor:
        """The elements in another shape: ``x.reshape(2, 3)`` or ``x.reshape((2, 3))``."""
    def flatten(self, order: Any = 'C', stop_axis: int = -1, *, start_axis: int = 0) -> Tensor:
        """The elements along one axis; ``x.flatten(1)`` leaves the first axis, as in Paddle."""
    def ravel(self, order: Any = 'C') -> Tensor:
        """The elements along one axis."""
    def transpose(self, *axes: Any, perm: Any = None) -> Tensor:
        """The axes in another order, ``x.transpose(1, 0)`` or ``x.transpose((1, 0))``; reversed
        without any."""
    def swapaxes(self, axis1: int, axis2: int) -> Tensor:
        """Two axes in each other's place."""
    def squeeze(self, axis: Any = None) -> Tensor:
        """Without the axes of one element, or without those named, which must have one."""
    def repeat(self, repeats: Any, axis: Any = None, *, total_repeat_length: Any = None) -> Tensor:
        """Each element so many times in a row; of the flattened tensor where there is no axis."""
    def sort(
        self,
        axis: Any = -1,
        kind: Any = None,
        order: Any = None,
        *,
        stable: Any = None,
        descending: bool = False,
    ) -> Tensor:
        """A sorted copy along an axis, of the flattened tensor for None. Not in place."""
    def argsort(
        self,
        axis: Any = -1,
        kind: Any = None,
        order: Any = None,
        *,
        stable: Any = None,
        descending: bool = False,
    ) -> Tensor:
        """The indices that sort along an axis; equal elements keep their order if stable."""
    def partition(self, kth: Any, axis: Any = -1, kind: Any = None, order: Any = None) -> Tensor:
        """A copy whose kth element is the one that sorting puts there, with none larger before it
        and none less behind; here all are sorted. Not in place."""
    def argpartition(self, kth: Any, axis: Any = -1, kind: Any = None, order: Any = None) -> Tensor:
        """The indices that partition, here those that sort."""
    def take(self, indices: Any, axis: Any = None, out: Any = None, mode: str = 'raise') -> Tensor:
        """The elements at indices along an axis, of the flattened tensor where there is none."""
    def choose(self, choices: Any, out: Any = None, mode: str = 'raise') -> Tensor:
        """Element by element, from the choice whose number this tensor has there."""
    def compress(
        self,
        condition: Any,
        axis: Any = None,
        out: Any = None,
        *,
        size: Any = None,
        fill_value: Any = 0,
    ) -> Tensor:
        """The slices along an axis for which the condition holds, ``size`` of them if that is
        given."""
    def nonzero(self, *, size: Any = None, fill_value: Any = None) -> tuple[Tensor, ...]:
        """Where elements are not zero: the indices along each axis, ``size`` of them if that is
        given."""
    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
        """The elements whose indices along two axes differ by ``offset``, along the last axis."""
    def trace(
        self,
        offset: int = 0,
        axis1: int = 0,
        axis2: int = 1,
        dtype: Any = None,
        out: Any = None,
    ) -> Tensor:
        """The sum along a diagonal."""
    def searchsorted(
        self,
        v: Any = None,
        side: str = 'left',
        sorter: Any = None,
        *,
        values: Any = None,
        right: bool | None = None,
        out_int32: bool = False,
    ) -> Tensor:
        """Where elements of ``v`` are to be put into this sorted tensor, so that it stays sorted;
        behind equal ones with side='right'."""
    def clip(self, min: Any = None, max: Any = None, out: Any = None) -> Tensor:
        """The elements, no less than ``min`` and no larger than ``max``."""
    def round(self, decimals: int = 0, out: Any = None) -> Tensor:
        """The elements rounded to so many decimals, halves to even."""
    def dot(self, b: Any = None, out: Any = None, *, y: Any = None) -> Tensor:
        """The product of two vectors, or of matrices as ``@``; over the last axis of this tensor
        and the last but one of the other; ``x * b`` where one is a number."""
    def conj(self) -> Tensor:
        """The complex conjugates; a tensor of real numbers as it is."""
    def conjugate(self) -> Tensor:
        """The complex conjugates; a tensor of real numbers as it is."""
    @property
    def real(self) -> Tensor:
        """The real parts."""
    @property
    def imag(self) -> Tensor:
        """The imaginary parts."""
    @property
    def flat(self) -> Tensor:
        """The elements along one axis, to index or to go through."""
    @property
    def mT(self) -> Tensor:
        """The tensor with its last two axes in each other's place."""
    def view(self, *dtype: Any) -> Tensor:
        """The same bits as numbers of another dtype; of ints, the elements in that shape."""
    def copy(self, order: str = 'C') -> Tensor:
        """The same values in memory of their own."""
    def tobytes(self, order: str = 'C') -> bytes:
        """The bytes of the elements, as they lie in memory."""
    def logsumexp(
        self,
        axis: Any = None,
        keepdim: bool = False,
        *,
        keepdims: bool = False,
    ) -> Tensor:
        """log(sum(exp(x))) along axes, of all elements where there is no axis."""
    def logcumsumexp(
        self,
        axis: Any = None,
        dtype: Any = None,
        *,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> Tensor:
        """Logarithms of running sums of exp(x), of the flattened tensor where there is no axis."""
    def cummax(self, axis: Any = None, dtype: Any = 'int64') -> tuple[Tensor, Tensor]:
        """Running maxima, of the flattened tensor where there is no axis, and where they are."""
    def cummin(self, axis: Any = None, dtype: Any = 'int64') -> tuple[Tensor, Tensor]:
        """Running minima, of the flattened tensor where there is no axis, and where they are."""
    def median(self, axis: Any = None, keepdim: bool = False, mode: str = 'avg') -> Any:
        """The element in the middle, the mean of two for mode 'avg'; for mode 'min' the less of two
        and its index."""
    def nanmedian(self, axis: Any = None, keepdim: bool = False, mode: str = 'avg') -> Any:
        """The median of the elements that are no NaN."""
    def norm(
        self,
        p: Any = None,
        axis: Any = None,
        keepdim: bool = False,
        *,
        keepdims: bool = False,
    ) -> Tensor:
        """The norm of all elements as one vector, or along an axis; of matrices along two."""
    def histogram(
        self,
        bins: int = 100,
        min: float = 0.0,
        max: float = 0.0,
        weight: Any = None,
        density: bool = False,
    ) -> Tensor:
        """How many elements are in each of so many equal bins from ``min`` to ``max``."""
    def split(self, num_or_sections: Any, axis: Any = 0) -> tuple[Tensor, ...]:
        """So many equal parts along an axis, or parts of the sizes listed."""
    def expand(self, *dims: Any, shape: Any = None) -> Tensor:
        """Repeated along axes of one element, and along new ones in front; -1 keeps a dim."""
    def tile(self, *counts: Any, repeat_times: Any = None) -> Tensor:
        """The whole tensor so many times along each axis."""
    def repeat_interleave(self, repeats: Any, axis: Any = None) -> Tensor:
        """Each element so many times in a row; of the flattened tensor where there is no axis."""
    def unfold(self, axis: int, size: int, step: int) -> Tensor:
        """Windows of ``size`` elements along an axis, each ``step`` after the last, along a new
        last axis. Patches of images are phix.ops.unfold."""
    def transpose_(self, *axes: Any, perm: Any = None) -> Tensor:
        """:meth:`transpose` in the memory of the tensor, not to be used after it."""
    def reshape_(self, *shape: Any) -> Tensor:
        """:meth:`reshape` in the memory of the tensor, not to be used after it."""
    def flatten_(self, start_axis: int = 0, stop_axis: int = -1) -> Tensor:
        """:meth:`flatten` in the memory of the tensor, not to be used after it."""
    def cumsum_(self, axis: Any = None) -> Tensor:
        """:meth:`cumsum` in the memory of the tensor, not to be used after it."""
    def unique(
        self,
        return_index: bool = False,
        return_inverse: bool = False,
        return_counts: bool = False,
        axis: Any = None,
        dtype: Any = 'int64',
    ) -> Any:
        """The elements that differ, sorted, and what else is asked for."""
    def unique_consecutive(
        self,
        return_inverse: bool = False,
        return_counts: bool = False,
        axis: Any = None,
        dtype: Any = 'int64',
    ) -> Any:
        """The elements that differ from the one before, and what else is asked for."""
    def topk(
        self,
        k: Any,
        axis: Any = -1,
        largest: bool = True,
        sorted: bool = True,
    ) -> tuple[Tensor, Tensor]:
        """The k largest elements along an axis, and where they are."""
    def kthvalue(self, k: int, axis: Any = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
        """The kth least element along an axis, counted from 1, and where it is."""
    def gather(self, index: Any, axis: Any = 0) -> Tensor:
        """The slices at indices along an axis."""
    def index_select(self, index: Any, axis: Any = 0) -> Tensor:
        """The slices at indices along an axis."""
    def scatter(self, index: Any, updates: Any, overwrite: bool = True) -> Tensor:
        """The tensor with the rows of ``updates`` at indices, or added there to zeros."""
    def scatter_(self, index: Any, updates: Any, overwrite: bool = True) -> Tensor:
        """:meth:`scatter` in the memory of the tensor, not to be used after it."""
    def take_along_axis(self, indices: Any, axis: int, broadcast: bool = True) -> Tensor:
        """The elements at indices along an axis: of rows that are broadcast to each other, or,
        without ``broadcast``, of as many first rows as the indices have."""
    def put_along_axis(
        self,
        indices: Any,
        values: Any,
        axis: int,
        reduce: str = 'assign',
        include_self: bool = True,
        broadcast: bool = True,
    ) -> Tensor:
        """The tensor with values put at indices along an axis, or combined with what is there: into
        every row, which indices of 1 stand for, or, without ``broadcast``, into as many first rows
        as the indices have, from as many of the values."""
    def where(self, x: Any, y: Any) -> Tensor:
        """The elements of ``x`` where this tensor of truths holds, else those of ``y``."""
    def index_add(
        self,
        index: Any,
        axis: Any = 0,
        value: Any = None,
        *,
        add_value: Any = None,
    ) -> Tensor:
        """The tensor with the slices of ``value`` added at indices along an axis."""
    def tensordot(self, y: Any, axes: Any = 2) -> Tensor:
        """The sum of products over the last axes of this tensor and the first of the other, as many
        as ``axes`` says, or over the axes that it lists for each."""
    def pinv(self, rcond: Any = None, hermitian: bool = False) -> Tensor:
        """The pseudo-inverses of matrices: see phix.linalg.pinv."""
    def matrix_rank(self, tol: Any = None, hermitian: bool = False) -> Tensor:
        """How many singular values are larger than ``tol``: see phix.linalg.matrix_rank."""
    def detach(self) -> Tensor:
        """The values, without a derivative: phix.stop_gradient."""
    def clone(self) -> Tensor:
        """The same values in memory of their own, with the derivative."""
    def cpu(self) -> Tensor:
        """The tensor on the CPU."""
    def dim(self) -> int:
        """How many axes there are; also ``x.ndim``."""
    def ndimension(self) -> int:
        """How many axes there are; also ``x.ndim``."""
    def element_size(self) -> int:
        """The bytes of an element; also ``x.itemsize``."""
    def softmax(self, axis: int = -1) -> Tensor:
        """exp(x) / sum(exp(x)) along the axis, computed from x - max(x) so that nothing
        overflows."""
    def softmax_(self, axis: int = -1) -> Tensor:
        """:func:`softmax` in the memory of x, not to be used after it."""
    def log_softmax(self, axis: int = -1) -> Tensor:
        """x - log(sum(exp(x))) along the axis, computed from x - max(x) so that nothing
        overflows."""
    def swiglu(self, y: TensorLike | None = None) -> Tensor:
        """silu(x) * y, elementwise; without y, the halves of x along the last axis are taken for x
        and y."""
    def gelu(self, approximate: bool = False) -> Tensor:
        """Gaussian error linear unit, x * ndtr(x) = x * (1 + erf(x / sqrt(2))) / 2, elementwise;
        approximate: x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))) / 2."""
    def sigmoid(self) -> Tensor:
        """Logistic function, 1 / (1 + exp(-x)), elementwise, without overflow and with full
        accuracy for x far below 0. The slope is taken from the result, out (1 - out): where that is
        rounded to 1 it is 0. That of logsigmoid and softplus keeps its digits."""
    def sigmoid_(self) -> Tensor:
        """:func:`sigmoid` in the memory of x, not to be used after it."""
    def logsigmoid(self) -> Tensor:
        """log(1 / (1 + exp(-x))), elementwise, without overflow; of complex numbers
        -softplus(-x)."""
    def softplus(self, beta: FloatLike = 1.0, threshold: FloatLike = 20.0) -> Tensor:
        """log(1 + exp(beta * x)) / beta, elementwise, without overflow; x itself where beta * x, of
        a complex x its real part, is above the threshold."""
    def silu(self) -> Tensor:
        """x * sigmoid(x), elementwise."""
    def swish(self) -> Tensor:
        """x * sigmoid(x), elementwise: :func:`silu` by its other name."""
    def relu(self) -> Tensor:
        """max(x, 0), elementwise; the slope at 0 is 0."""
    def relu_(self) -> Tensor:
        """:func:`relu` in the memory of x, not to be used after it."""
    def relu6(self) -> Tensor:
        """min(max(x, 0), 6), elementwise; the slope at 0 and at 6 is 0."""
    def leaky_relu(self, negative_slope: FloatLike = 0.02) -> Tensor:
        """x above 0, else negative_slope * x, elementwise; the slope at 0 is negative_slope."""
    def leaky_relu_(self, negative_slope: FloatLike = 0.02) -> Tensor:
        """:func:`leaky_relu` in the memory of x, not to be used after it."""
    def elu(self, alpha: FloatLike = 1.0) -> Tensor:
        """x above 0, else alpha * (exp(x) - 1), elementwise; the slope at 0 is alpha."""
    def elu_(self, alpha: FloatLike = 1.0) -> Tensor:
        """:func:`elu` in the memory of x, not to be used after it."""
    def softsign(self) -> Tensor:
        """x / (1 + abs(x)), elementwise."""
    def hardswish(self) -> Tensor:
        """x * min(max(x + 3, 0), 6) / 6, elementwise; the slope is 0 at -3 and 1 at 3."""
    def hardsigmoid(self, slope: FloatLike = 0.2, offset: FloatLike = 0.5) -> Tensor:
        """min(max(slope * x + offset, 0), 1), elementwise; the slope is 0 at both bounds."""
    def hardtanh(self, t_min: FloatLike = 0.0, t_max: FloatLike = 24.0) -> Tensor:
        """min(max(x, t_min), t_max), elementwise; the slope is 0 at both bounds."""
    def hardtanh_(self, t_min: FloatLike = 0.0, t_max: FloatLike = 24.0) -> Tensor:
        """:func:`hardtanh` in the memory of x, not to be used after it."""
    def adam_(
        self,
        grad: TensorLike,
        learning_rate: TensorLike,
        moment1: TensorLike,
        moment2: TensorLike,
        moment2_max: TensorLike | None,
        beta1_pow: TensorLike,
        beta2_pow: TensorLike,
        master_param: TensorLike | None = None,
        skip_update: TensorLike | None = None,
        beta1: ScalarLike = 0.9,
        beta2: ScalarLike = 0.999,
        epsilon: ScalarLike = 1e-08,
        lazy_mode: bool = False,
        min_row_size_to_use_multithread: DimLike = 1000,
        multi_precision: bool = False,
        use_global_beta_pow: bool = False,
        amsgrad: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor, Tensor, Tensor | None]:
        """param - r * m / (sqrt(v) + epsilon * c) with m = beta1 * moment1 + (1 - beta1) * grad and
        v = beta2 * moment2 + (1 - beta2) * grad ** 2, which are the new moments, c = sqrt(1 -
        beta2_pow) and r = learning_rate * c / (1 - beta1_pow). With amsgrad v is the largest so
        far, kept in moment2_max; the powers are multiplied by beta1 and beta2 unless
        use_global_beta_pow; where skip_update holds all stays. With lazy_mode, a grad that is
        SelectedRows changes its rows alone. min_row_size_to_use_multithread says nothing here."""
    def adamw_(
        self,
        grad: TensorLike,
        learning_rate: TensorLike,
        moment1: TensorLike,
        moment2: TensorLike,
        moment2_max: TensorLike | None,
        beta1_pow: TensorLike,
        beta2_pow: TensorLike,
        master_param: TensorLike | None = None,
        skip_update: TensorLike | None = None,
        beta1: ScalarLike = 0.9,
        beta2: ScalarLike = 0.999,
        epsilon: ScalarLike = 1e-08,
        lr_ratio: FloatLike = 1.0,
        coeff: FloatLike = 0.01,
        with_decay: bool = False,
        lazy_mode: bool = False,
        min_row_size_to_use_multithread: DimLike = 1000,
        multi_precision: bool = False,
        use_global_beta_pow: bool = False,
        amsgrad: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor, Tensor, Tensor | None]:
        """A step of :func:`adam_` with the learning rate learning_rate * lr_ratio, from param * (1
        - learning_rate * lr_ratio * coeff) if with_decay."""
    def adamax_(
        self,
        grad: TensorLike,
        learning_rate: TensorLike,
        moment: TensorLike,
        inf_norm: TensorLike,
        beta1_pow: TensorLike,
        master_param: TensorLike | None = None,
        beta1: FloatLike = 0.9,
        beta2: FloatLike = 0.999,
        epsilon: FloatLike = 1e-08,
        multi_precision: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """param - learning_rate / (1 - beta1_pow) * moment_out / inf_norm_out with moment_out =
        beta1 * moment + (1 - beta1) * grad and inf_norm_out = max(abs(grad), beta2 * inf_norm +
        epsilon). beta1_pow is not updated."""
    def lamb_(
        self,
        grad: TensorLike,
        learning_rate: TensorLike,
        moment1: TensorLike,
        moment2: TensorLike,
        beta1_pow: TensorLike,
        beta2_pow: TensorLike,
        master_param: TensorLike | None,
        skip_update: TensorLike | None,
        weight_decay: FloatLike,
        beta1: FloatLike = 0.9,
        beta2: FloatLike = 0.999,
        epsilon: FloatLike = 1e-06,
        always_adapt: bool = False,
        multi_precision: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None]:
        """param - learning_rate * r * u with u = m / (sqrt(v) + epsilon) + weight_decay * param, m
        and v the corrected moments of :func:`adam_`, and r the norm of param by that of u where
        both are above 0; r is 1 without weight_decay unless always_adapt."""
    def nadam_(
        self,
        grad: TensorLike,
        learning_rate: TensorLike,
        momentum_decay_pow: TensorLike,
        beta2_pow: TensorLike,
        mu_product: TensorLike,
        moment1: TensorLike,
        moment2: TensorLike,
        master_param: TensorLike | None = None,
        beta1: FloatLike = 0.9,
        beta2: FloatLike = 0.999,
        epsilon: FloatLike = 1e-08,
        momentum_decay: FloatLike = 0.004,
        multi_precision: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None]:
        """Adam with Nesterov's momentum: with d = 0.96 * momentum_decay_pow, mu and mu' the
        products of beta1 with 1 - d ** momentum_decay / 2 of this step and the next, and p =
        mu_product * mu, it goes along mu' * moment1_out / (1 - p * mu') + (1 - mu) * grad / (1 -
        p), divided by sqrt(moment2_out / (1 - beta2_pow_out)) + epsilon. The powers begin as 1."""
    def radam_(
        self,
        grad: TensorLike,
        learning_rate: TensorLike,
        beta1_pow: TensorLike,
        beta2_pow: TensorLike,
        rho: TensorLike,
        moment1: TensorLike,
        moment2: TensorLike,
        master_param: TensorLike | None = None,
        beta1: FloatLike = 0.9,
        beta2: FloatLike = 0.999,
        epsilon: FloatLike = 1e-08,
        multi_precision: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None]:
        """Rectified Adam: along moment1_out / (1 - beta1_pow_out), times sqrt(q * (1 -
        beta2_pow_out)) / (sqrt(moment2_out) + epsilon) once t > 5, where q = (t - 4) * (t - 2) * s
        / ((s - 4) * (s - 2) * t), s = 2 / (1 - beta2) - 1, t = s - 2 * rho_out and rho_out = (rho *
        (beta2 - beta2_pow_out) + beta2_pow_out) / (1 - beta2_pow_out). The powers begin as 1, rho
        as 0."""
    def square(self) -> Tensor:
        """x * x, elementwise."""
    def square_(self) -> Tensor:
        """:func:`square` in the memory of x, not to be used after it."""
    def reciprocal(self) -> Tensor:
        """1 / x, elementwise."""
    def reciprocal_(self) -> Tensor:
        """:func:`reciprocal` in the memory of x, not to be used after it."""
    def clip_(self, min: ScalarLike | None = None, max: ScalarLike | None = None) -> Tensor:
        """:func:`clip` in the memory of x, not to be used after it."""
    def lerp(self, y: TensorLike, weight: TensorLike) -> Tensor:
        """x + weight * (y - x), elementwise: x where weight is 0, y where it is 1."""
    def lerp_(self, y: TensorLike, weight: TensorLike) -> Tensor:
        """:func:`lerp` in the memory of x, not to be used after it."""
    def heaviside(self, y: TensorLike) -> Tensor:
        """0 where x is below 0, y where it is 0, 1 above, elementwise; NaN at NaN. The slope in x
        is 0."""
    def copysign(self, y: TensorLike) -> Tensor:
        """abs(x) with the sign of y, also that of a zero or NaN, elementwise. The slope in x is 0
        at 0."""
    def copysign_(self, y: TensorLike) -> Tensor:
        """:func:`copysign` in the memory of x, not to be used after it."""
    def nextafter(self, y: TensorLike) -> Tensor:
        """The float next to x on the way to y, elementwise; y itself where they are equal. The
        slope in x is 1, that in y 0."""
    def angle(self) -> Tensor:
        """Angle of the complex number x in radians, in [-pi, pi], elementwise; pi below 0 for real
        numbers. The slope at 0 is 0."""
    def rint(self) -> Tensor:
        """The integer nearest to x, halves to even, elementwise. The derivative is 0."""
    def rint_(self) -> Tensor:
        """:func:`rint` in the memory of x, not to be used after it."""
    def trunc_divide(self, y: TensorLike) -> Tensor:
        """x / y without its fraction, elementwise, as C's division; ints divided by 0 give 0. The
        derivative is 0."""
    def trunc_divide_(self, y: TensorLike) -> Tensor:
        """:func:`trunc_divide` in the memory of x, not to be used after it."""
    def frac(self) -> Tensor:
        """The fraction x - trunc(x), elementwise, with the sign of x; 0 of an infinity. The
        derivative is 1."""
    def frac_(self) -> Tensor:
        """:func:`frac` in the memory of x, not to be used after it."""
    def gcd(self, y: TensorLike) -> Tensor:
        """The greatest common divisor, elementwise: 0 or more, and 0 of 0 and 0."""
    def gcd_(self, y: TensorLike) -> Tensor:
        """:func:`gcd` in the memory of x, not to be used after it."""
    def lcm(self, y: TensorLike) -> Tensor:
        """The least common multiple abs(x y) / gcd(x, y), elementwise; 0 where x or y is."""
    def lcm_(self, y: TensorLike) -> Tensor:
        """:func:`lcm` in the memory of x, not to be used after it."""
    def div_scale(self, scale: ScalarLike = 1.0) -> Tensor:
        """x / scale, elementwise."""
    def crop(self, shape: IntArrayLike | None = (), offsets: IntArrayLike | None = ()) -> Tensor:
        """The box of x of that shape from offsets on, from 0 if none are given; a dim of -1 takes
        what is left."""
    def pad3d(
        self,
        paddings: IntArrayLike,
        mode: str = 'constant',
        pad_value: FloatLike = 0.0,
        data_format: str = 'NCDHW',
    ) -> Tensor:
        """x with paddings [left, right, top, bottom, front, back] along width, height and depth;
        mode: constant (pad_value), reflect (the edge stands once), replicate (the edge) or
        circular. Negative paddings cut."""
    def reverse(self, axis: IntArrayLike) -> Tensor:
        """x with the order along each of axis turned round; flip."""
    def shape64(self) -> Tensor:
        """The dims of input as an int64 tensor; :func:`shape`."""
    def attention(
        self,
        key: TensorLike,
        value: TensorLike,
        mask: TensorLike | None = None,
        scale: FloatLike = 1.0,
        causal: bool = False,
    ) -> Tensor:
        """softmax(query @ key.T * scale + mask) @ value over the last two axes, which are [queries,
        size], [keys, size] and [keys, size of value]; leading axes broadcast. mask broadcasts to
        the scores: numbers to add, or bools, True where a key is seen. With causal, query i sees
        the keys up to i alone. A query whose keys are all masked gives NaN. Weights are computed in
        float32 at least."""
    def calc_reduced_attn_scores(self, k: TensorLike, softmax_lse: TensorLike) -> Tensor:
        """The weights that each key gets from all queries together, [batch, heads, 1, keys]: the
        sums over the queries of exp(q @ k.T / sqrt(size) - softmax_lse), for q [batch, queries,
        heads, size], k [batch, keys, heads, size], of as many heads or a divisor, and the
        logarithms of the sums of the exponentials, [batch, heads, queries], or more of which the
        rest is not read. In float32 at least."""
    def nms(self, threshold: FloatLike = 1.0) -> Tensor:
        """The numbers of the boxes x [boxes, 4] (left, top, right, bottom) that stay, in order:
        each that overlaps no one that stays before it by more than threshold, intersection /
        union."""
    def multiclass_nms3(
        self,
        scores: TensorLike,
        rois_num: TensorLike | None,
        score_threshold: FloatLike,
        nms_top_k: int,
        keep_top_k: int,
        nms_threshold: FloatLike = 0.3,
        normalized: bool = True,
        nms_eta: FloatLike = 1.0,
        background_label: int = 0,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """:func:`nms` of each class of each image but background_label: of boxes [images, boxes, 4]
        with scores [images, classes, boxes], the nms_top_k above score_threshold, by nms_threshold,
        which is times nms_eta after each box while above a half; the keep_top_k best of an image
        are the rows (class, score, box) of out, sorted by class. index is their number in all
        images, nms_rois_num how many each image has. With rois_num [images], boxes in a row [boxes,
        classes, 4] have scores [boxes, classes], and index counts these. -1 for either limit means
        all."""
    def matrix_nms(
        self,
        scores: TensorLike,
        score_threshold: FloatLike,
        nms_top_k: int,
        keep_top_k: int,
        post_threshold: FloatLike = 0.0,
        use_gaussian: bool = False,
        gaussian_sigma: FloatLike = 2.0,
        background_label: int = 0,
        normalized: bool = True,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Of boxes [images, boxes, 4] with scores [images, classes, boxes], the nms_top_k above
        score_threshold of each class but background_label have their scores times min_j (1 -
        iou_ij) / (1 - most_j), over the better boxes j with their largest overlaps most_j with
        better ones, or exp(gaussian_sigma (most_j^2 - iou_ij^2)) with use_gaussian. Of those above
        post_threshold the keep_top_k best of each image are the rows (class, score, box) of out;
        index is their number in all images, roisnum how many each image has. -1 for either limit
        means all."""
    def margin_cross_entropy(
        self,
        label: TensorLike,
        return_softmax: bool = False,
        ring_id: int = 0,
        rank: int = 0,
        nranks: int = 1,
        margin1: FloatLike = 1.0,
        margin2: FloatLike = 0.5,
        margin3: FloatLike = 0.0,
        scale: FloatLike = 64.0,
    ) -> tuple[Tensor, Tensor]:
        """Cross entropy of scale * logits [n, classes], cosines in [-1, 1], in which that of the
        label, cos(t), is first made cos(margin1 * t + margin2) - margin3; loss is [n, 1]. It runs
        in one process: nranks is 1, and ring_id and rank say nothing. A label that is no class
        raises TensorIndexError where the call runs at once; compiled programs take the nearest
        class, or raise under phix.debug.check_indices()."""
    def hsigmoid_loss(
        self,
        label: TensorLike,
        w: TensorLike,
        bias: TensorLike | None,
        path: TensorLike | None,
        code: TensorLike | None,
        num_classes: int,
        is_sparse: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Hierarchical sigmoid: for each node on the path of a label through a binary tree,
        softplus(z) - bit * z with z = dot(x, w[node]) + bias[node] brought into [-40, 40] (through
        which gradients pass), summed to out [n, 1]. The tree is the complete one of num_classes
        leaves, or path [n, l] has the nodes, ended by a negative one, and code [n, l] the bits.
        pre_out [n, l] is softplus(z), and log(2) behind the end of a path, which counts, as in
        Paddle. w_out is w; is_sparse says nothing."""
    def all_reduce(self, ring_id: int = 0, reduce_type: int = 0) -> Tensor:
        """The x of all processes of the ring brought together, on each of them. reduce_type is 0
        for the sum, 1 for the largest, 2 for the smallest, 3 for the product, 4 for the mean, and
        of bools 5 for any, 6 for all."""
    def all_reduce_(self, ring_id: int = 0, reduce_type: int = 0) -> Tensor:
        """:func:`all_reduce` in the memory of x, not to be used after it."""
    def reduce(self, ring_id: int = 0, root_id: int = 0, reduce_type: int = 0) -> Tensor:
        """What all_reduce gives, on the process root_id of the ring; the others have their x."""
    def reduce_(self, ring_id: int = 0, root_id: int = 0, reduce_type: int = 0) -> Tensor:
        """:func:`reduce` in the memory of x, not to be used after it."""
    def broadcast(self, ring_id: int = 0, root: int = 0) -> Tensor:
        """The x of process root of the ring, on each of them."""
    def broadcast_(self, ring_id: int = 0, root: int = 0) -> Tensor:
        """:func:`broadcast` in the memory of x, not to be used after it."""
    def reduce_scatter(self, ring_id: int = 0, nranks: int = 1) -> Tensor:
        """Each process of the ring has its rows of the sum of all x: dim 0 is divided among them.
        nranks is their number, or 1 for whatever that is."""
    def barrier(self, ring_id: int = 0) -> Tensor:
        """x, once all processes of the ring have come here. In a compiled program nothing waits
        where out is not used."""
    def c_allreduce_sum(
        self,
        ring_id: int,
        use_calc_stream: bool,
        use_model_parallel: bool,
    ) -> Tensor:
        """The sum of the x of all processes of the ring, on each of them. There are no streams to
        choose from."""
    def c_allreduce_sum_(
        self,
        ring_id: int,
        use_calc_stream: bool,
        use_model_parallel: bool,
    ) -> Tensor:
        """:func:`c_allreduce_sum` in the memory of x, not to be used after it."""
    def mp_allreduce_sum(self, ring_id: int = 0) -> Tensor:
        """The sum of the x of all processes of the ring, on each of them."""
    def mp_allreduce_sum_(self, ring_id: int = 0) -> Tensor:
        """:func:`mp_allreduce_sum` in the memory of x, not to be used after it."""
    def c_concat(
        self,
        rank: int,
        nranks: int,
        ring_id: int,
        use_calc_stream: bool,
        use_model_parallel: bool,
    ) -> Tensor:
        """The x of all processes of the ring, joined along the last dim, on each of them. nranks is
        their number. Which one a process is, is known: rank is checked to be one of them, and says
        no more."""
    def c_split(
        self,
        rank: int = 0,
        nranks: int = 1,
        ring_id: int = 0,
        use_model_parallel: bool = True,
    ) -> Tensor:
        """Each process of the ring has its part of x along the last dim. nranks is their number, or
        1 for whatever that is. Which one a process is, is known: rank is checked to be one of them,
        and says no more."""
    def c_scatter(
        self,
        ring_id: int = 0,
        root: int = 0,
        nranks: int = 0,
        use_calc_stream: bool = False,
    ) -> Tensor:
        """Each process of the ring has its rows of the x of process root: dim 0 is divided among
        them. nranks is their number, or 0 for whatever that is."""
    def partial_allgather(self, nranks: int, rank: int, ring_id: int = 0) -> Tensor:
        """A tensor like x, on each process of the ring: the elements of x in C order, divided
        evenly among the processes, come each from the process whose part they are. nranks is the
        number of processes. Which one a process is, is known: rank is checked to be one of them,
        and says no more."""
    def partial_allgather_(self, nranks: int, rank: int, ring_id: int = 0) -> Tensor:
        """:func:`partial_allgather` in the memory of x, not to be used after it."""
    def c_softmax_with_cross_entropy(
        self,
        label: TensorLike,
        ignore_index: DimLike = -100,
        ring_id: int = 0,
        rank: int = 0,
        nranks: int = 0,
    ) -> tuple[Tensor, Tensor]:
        """The softmax of logits whose last dim is divided among the processes of the ring, each its
        part, and the loss -log softmax[label], on each of them. label has the classes, [...] or
        [..., 1], the same on all; loss is [..., 1], and 0 where a label is ignore_index, NaN where
        it is no class. nranks is the number of processes, or 0 for whatever that is. Which one a
        process is, is known: rank is checked to be one of them, and says no more."""
    def c_embedding(
        self,
        x: TensorLike,
        start_index: DimLike = 0,
        vocab_size: DimLike = -1,
    ) -> Tensor:
        """weight[x - start_index]: the rows of a table of which weight has those from start_index
        on, and zeros for those that it has not; the sum over all processes is that of the whole
        table. start_index is a number, the same on all; on a mesh pass x minus what stands before a
        process's rows. vocab_size, the rows of the whole table, says no more."""
    def isclose(
        self,
        y: TensorLike,
        rtol: ScalarLike = 1e-05,
        atol: ScalarLike = 1e-08,
        equal_nan: bool = False,
    ) -> Tensor:
        """x == y, or both finite and abs(x - y) <= atol + rtol * abs(y), elementwise with
        broadcasting; equal_nan: two NaNs are close."""
    def allclose(
        self,
        y: TensorLike,
        rtol: ScalarLike = 1e-05,
        atol: ScalarLike = 1e-08,
        equal_nan: bool = False,
    ) -> Tensor:
        """Whether all of isclose(x, y, rtol, atol, equal_nan) is true, a 0-d bool."""
    def accuracy_check(
        self,
        y: TensorLike,
        fn_name: str,
        rtol: FloatLike = 1e-05,
        atol: FloatLike = 1e-08,
        equal_nan: bool = False,
    ) -> Tensor:
        """isclose(x, y, rtol, atol, equal_nan) of two results of one shape; fn_name says what
        of."""
    def equal_all(self, y: TensorLike) -> Tensor:
        """Whether x and y have one shape and equal elements, a 0-d bool."""
    def is_empty(self) -> Tensor:
        """Whether x has no elements, a 0-d bool."""
    def restrict_nonzero(self, total_true_num: DimLike) -> Tensor:
        """The int64 indices, [total_true_num, rank], of the elements that are not 0, in order.
        total_true_num must be how many there are: of more those behind are left out, and rows that
        fewer leave are 0."""
    def accuracy(self, indices: TensorLike, label: TensorLike) -> tuple[Tensor, Tensor, Tensor]:
        """The share of rows whose label is among their indices, the classes of the largest scores
        x, as float32; how many they are, and how many rows there are, as int32."""
    def increment(self, value: FloatLike = 1.0) -> Tensor:
        """x, of one element, with value added in the dtype of x."""
    def increment_(self, value: FloatLike = 1.0) -> Tensor:
        """:func:`increment` in the memory of x, not to be used after it."""
    def matmul(self, y: TensorLike, transpose_x: bool = False, transpose_y: bool = False) -> Tensor:
        """Matrix product over the last two axes, out[..., i, j] = sum_k x[..., i, k] * y[..., k,
        j], leading axes broadcast; a 1-d x is a row, a 1-d y a column, and that axis is dropped."""
    def conv2d(
        self,
        filter: TensorLike,
        strides: IntArrayLike = (1, 1),
        paddings: IntArrayLike = (0, 0),
        padding_algorithm: str = 'EXPLICIT',
        dilations: IntArrayLike = (1, 1),
        groups: int = 1,
        data_format: str = 'NCHW',
    ) -> Tensor:
        """Cross-correlation of images with filters [out, in / groups, height, width], out[n, o, y,
        x] = sum input[n, c, y * stride + i * dilation - padding, ...] * filter[o, c, i, j].
        paddings: (height, width) or (top, bottom, left, right); SAME pads to ceil(size / stride),
        VALID not at all."""
    def bmm(self, y: TensorLike) -> Tensor:
        """Matrix products of two batches, out[b] = x[b] @ y[b]."""
    def mv(self, vec: TensorLike) -> Tensor:
        """Product of a matrix and a vector."""
    def addmm(
        self,
        x: TensorLike,
        y: TensorLike,
        beta: FloatLike = 1.0,
        alpha: FloatLike = 1.0,
    ) -> Tensor:
        """beta * input + alpha * (x @ y) for matrices x and y; input broadcasts. With the number 0
        for beta NaN and inf in input do not count."""
    def addmm_(
        self,
        x: TensorLike,
        y: TensorLike,
        beta: FloatLike = 1.0,
        alpha: FloatLike = 1.0,
    ) -> Tensor:
        """:func:`addmm` in the memory of input, not to be used after it."""
    def baddbmm(
        self,
        x: TensorLike,
        y: TensorLike,
        beta: FloatLike = 1.0,
        alpha: FloatLike = 1.0,
    ) -> Tensor:
        """beta * input + alpha * (x[b] @ y[b]) for batches of matrices x and y; input broadcasts.
        With the number 0 for beta NaN and inf in input do not count."""
    def baddbmm_(
        self,
        x: TensorLike,
        y: TensorLike,
        beta: FloatLike = 1.0,
        alpha: FloatLike = 1.0,
    ) -> Tensor:
        """:func:`baddbmm` in the memory of input, not to be used after it."""
    def kron(self, y: TensorLike) -> Tensor:
        """Kronecker product: each element of x replaced by its product with y."""
    def bilinear(self, y: TensorLike, weight: TensorLike, bias: TensorLike | None = None) -> Tensor:
        """out[i, k] = sum x[i, m] weight[k, m, n] y[i, n] + bias[0, k], or + 0 without bias."""
    def cross(self, y: TensorLike, axis: int = 9) -> Tensor:
        """The vector product along an axis of 3 elements, x_(i+1) y_(i+2) - x_(i+2) y_(i+1),
        indices modulo 3. axis 9 stands for the first of 3 elements."""
    def branch(
        self,
        operands: Sequence[TensorLike],
        branches: Sequence[Graph],
    ) -> tuple[Tensor, ...]:
        """The outputs of branches[index] on the operands, index clamped to the branches there are;
        the others do not run. All branches give outputs of the same metas."""
    def select_n(self, cases: Sequence[TensorLike]) -> Tensor:
        """Element i is cases[which[i]][i]; which, ints clamped to the cases there are, or bools, is
        0-d or of the cases' dims, which are the same for all."""
    def fori_loop(
        self,
        upper: TensorLike,
        carry: Sequence[TensorLike],
        constants: Sequence[TensorLike],
        body: Graph,
        length: DimLike = -1,
    ) -> tuple[Tensor, ...]:
        """carry = body(i, carry, constants) for i = lower .. upper - 1, an int64. length is upper -
        lower where that is known before it runs, which makes it a scan; else it is a while_loop."""
    def dim_value(self, dim: DimLike, largest: bool = False, refusal: str = '') -> Tensor:
        """x, one int64; from here on the unknown dim has its value. So sizes that depend on data
        get into shapes. Mapped over a batch it is the largest of them if that is asked for, else an
        error. A negative x is 0 there, or an error that says the refusal, if there is one."""
    def depthwise_conv2d(
        self,
        filter: TensorLike,
        strides: IntArrayLike = (1, 1),
        paddings: IntArrayLike = (0, 0),
        padding_algorithm: str = 'EXPLICIT',
        groups: int = 1,
        dilations: IntArrayLike = (1, 1),
        data_format: str = 'NCHW',
    ) -> Tensor:
        """Convolution of each channel by itself: :func:`conv2d` with a group for each channel."""
    def conv2d_transpose(
        self,
        filter: TensorLike,
        strides: IntArrayLike = (1, 1),
        paddings: IntArrayLike = (0, 0),
        output_padding: IntArrayLike | None = (),
        output_size: IntArrayLike | None = (),
        padding_algorithm: str = 'EXPLICIT',
        groups: int = 1,
        dilations: IntArrayLike = (1, 1),
        data_format: str = 'NCHW',
    ) -> Tensor:
        """Transposed convolution with filters [in, out / groups, height, width]: the gradient of
        :func:`conv2d` with respect to its input. Sizes: (size - 1) * stride - paddings + (filter -
        1) * dilation + 1 + output_padding, or output_size."""
    def conv2d_transpose_bias(
        self,
        filter: TensorLike,
        bias: TensorLike,
        strides: IntArrayLike = (1, 1),
        paddings: IntArrayLike = (0, 0),
        output_padding: IntArrayLike | None = (),
        output_size: IntArrayLike | None = (),
        padding_algorithm: str = 'EXPLICIT',
        groups: int = 1,
        dilations: IntArrayLike = (1, 1),
        data_format: str = 'NCHW',
    ) -> Tensor:
        """:func:`conv2d_transpose` plus bias, one number a channel of the result."""
    def depthwise_conv2d_transpose(
        self,
        filter: TensorLike,
        strides: IntArrayLike = (1, 1),
        paddings: IntArrayLike = (0, 0),
        output_padding: IntArrayLike | None = (),
        output_size: IntArrayLike | None = (),
        padding_algorithm: str = 'EXPLICIT',
        groups: int = 1,
        dilations: IntArrayLike = (1, 1),
        data_format: str = 'NCHW',
    ) -> Tensor:
        """:func:`conv2d_transpose` with a group for each channel."""
    def depthwise_conv2d_bias(
        self,
        filter: TensorLike,
        bias: TensorLike,
        strides: IntArrayLike = (1, 1),
        paddings: IntArrayLike = (0, 0),
        padding_algorithm: str = 'EXPLICIT',
        groups: int = 1,
        dilations: IntArrayLike = (1, 1),
        data_format: str = 'NCHW',
    ) -> Tensor:
        """:func:`depthwise_conv2d` plus bias, one number a channel of the result."""
    def conv3d(
        self,
        filter: TensorLike,
        strides: IntArrayLike = (1, 1, 1),
        paddings: IntArrayLike = (0, 0, 0),
        padding_algorithm: str = 'EXPLICIT',
        groups: int = 1,
        dilations: IntArrayLike = (1, 1, 1),
        data_format: str = 'NCDHW',
    ) -> Tensor:
        """Cross-correlation of volumes with filters [out, in / groups, depth, height, width];
        paddings (depth, height, width) or (front, back, top, bottom, left, right). All else as
        :func:`conv2d`."""
    def conv3d_transpose(
        self,
        filter: TensorLike,
        strides: IntArrayLike = (1, 1, 1),
        paddings: IntArrayLike = (0, 0, 0),
        output_padding: IntArrayLike | None = (),
        output_size: IntArrayLike | None = (),
        padding_algorithm: str = 'EXPLICIT',
        groups: int = 1,
        dilations: IntArrayLike = (1, 1, 1),
        data_format: str = 'NCHW',
    ) -> Tensor:
        """Transposed convolution of volumes with filters [in, out / groups, depth, height, width]:
        as :func:`conv2d_transpose`. data_format NCHW stands for NCDHW."""
    def depthwise_conv3d_bias(
        self,
        filter: TensorLike,
        bias: TensorLike,
        strides: IntArrayLike = (1, 1, 1),
        paddings: IntArrayLike = (0, 0, 0),
        padding_algorithm: str = 'EXPLICIT',
        groups: int = 1,
        dilations: IntArrayLike = (1, 1, 1),
        data_format: str = 'NCDHW',
    ) -> Tensor:
        """:func:`conv3d` with a group for each channel, plus bias, one number a channel of the
        result."""
    def full_like(
        self,
        value: ScalarLike,
        dtype: DTypeLike | None = None,
        place: PlaceLike | None = None,
    ) -> Tensor:
        """A tensor of the shape of x, and of its dtype if none is given, every element equal to
        value."""
    def empty_like(self, dtype: DTypeLike | None = None, place: PlaceLike | None = None) -> Tensor:
        """A tensor of the shape of x, for where the values do not matter; they are 0."""
    def linspace(
        self,
        stop: TensorLike,
        number: DimLike,
        dtype: DTypeLike | None = None,
        place: PlaceLike | None = None,
    ) -> Tensor:
        """number values evenly spaced from start to stop, both included and met exactly; the dtype
        of start and stop if none is given, and rounded down if it is an int dtype."""
    def tril(self, diagonal: int = 0) -> Tensor:
        """x with 0 above the diagonal: out[..., i, j] = x[..., i, j] where j - i <= diagonal."""
    def tril_(self, diagonal: int = 0) -> Tensor:
        """:func:`tril` in the memory of x, not to be used after it."""
    def triu(self, diagonal: int = 0) -> Tensor:
        """x with 0 below the diagonal: out[..., i, j] = x[..., i, j] where j - i >= diagonal."""
    def triu_(self, diagonal: int = 0) -> Tensor:
        """:func:`triu` in the memory of x, not to be used after it."""
    def ones_like(self, dtype: DTypeLike | None = None, place: PlaceLike | None = None) -> Tensor:
        """A tensor of the shape of x, and of its dtype if none is given, every element 1."""
    def zeros_like(self, dtype: DTypeLike | None = None, place: PlaceLike | None = None) -> Tensor:
        """A tensor of the shape of x, and of its dtype if none is given, every element 0."""
    def logspace(
        self,
        stop: TensorLike,
        num: DimLike,
        base: TensorLike,
        dtype: DTypeLike,
        place: PlaceLike | None = None,
    ) -> Tensor:
        """base to num exponents evenly spaced from start to stop, both included; rounded down to an
        int dtype, and dtype None is that of start, stop and base."""
    def full_with_tensor(self, shape: IntArrayLike, dtype: DTypeLike = float) -> Tensor:
        """A tensor of that shape, every element equal to the one element of value, in dtype."""
    def full_batch_size_like(
        self,
        shape: IntArrayLike,
        dtype: DTypeLike,
        value: ScalarLike,
        input_dim_idx: int,
        output_dim_idx: int,
        place: PlaceLike | None = None,
    ) -> Tensor:
        """A tensor of that shape, but for dim output_dim_idx, which is dim input_dim_idx of input;
        every element equal to value."""
    def masked_multihead_attention_(
        self,
        cache_kv: TensorLike,
        bias: TensorLike | None,
        src_mask: TensorLike | None,
        cum_offsets: TensorLike | None,
        sequence_lengths: TensorLike | None,
        rotary_tensor: TensorLike | None,
        beam_cache_offset: TensorLike | None,
        qkv_out_scale: TensorLike | None,
        out_shift: TensorLike | None,
        out_smooth: TensorLike | None,
        seq_len: int,
        rotary_emb_dims: int,
        use_neox_rotary_style: bool = False,
        compute_dtype: str = 'default',
        out_scale: FloatLike = -1.0,
        quant_round_type: int = 1,
        quant_max_bound: FloatLike = 127.0,
        quant_min_bound: FloatLike = -127.0,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """x + bias [batch, (heads + 2 * heads of keys) * size] are the query, key and value of one
        new token a sequence. Key and value are put into cache_kv [2, batch, heads of keys, length,
        size] at sequence_lengths, or behind the last but one token of src_mask [batch, 1, 1,
        tokens]; the query sees all keys up to there, src_mask added to its scores. Rotations, beams
        and quantisation are not there: what is about them must be absent, and beam_cache_offset_out
        is empty."""
    def box_coder(
        self,
        prior_box_var: TensorLike | None,
        target_box: TensorLike,
        code_type: str = 'encode_center_size',
        box_normalized: bool = True,
        axis: int = 0,
        variance: FloatLike | Sequence[FloatLike] | None = (),
    ) -> Tensor:
        """Boxes (left, top, right, bottom) against priors. encode_center_size: for each of
        target_box [n, 4] and each prior, (centre - centre of the prior) / its size and log(size /
        its size), over the variances, [n, priors, 4]. decode_center_size is the inverse for codes
        [n, priors, 4] (axis 0; [priors, n, 4] for axis 1). Without box_normalized the last pixel
        belongs to a box."""
    def box_clip(self, im_info: TensorLike) -> Tensor:
        """Boxes [boxes, 4] of one image, or [images, boxes, 4], moved into the image: x to 0 ..
        round(width / scale) - 1, y likewise; im_info [images, 3] has height, width and scale."""
    def prior_box(
        self,
        image: TensorLike,
        min_sizes: FloatLike | Sequence[FloatLike],
        max_sizes: FloatLike | Sequence[FloatLike] | None = (),
        aspect_ratios: FloatLike | Sequence[FloatLike] | None = (),
        variances: FloatLike | Sequence[FloatLike] | None = (),
        flip: bool = True,
        clip: bool = True,
        step_w: FloatLike = 0.0,
        step_h: FloatLike = 0.0,
        offset: FloatLike = 0.5,
        min_max_aspect_ratios_order: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """Boxes around the centre of each cell of input [n, c, rows, columns], in parts of the
        image, and the four variances for each: [rows, columns, priors, 4]. The sides are min_size *
        sqrt(r) and min_size / sqrt(r) for 1, the aspect_ratios r and with flip 1 / r, then
        sqrt(min_size * max_size); min_max_aspect_ratios_order puts that second. Steps of 0 are
        those of the image."""
    def yolo_box(
        self,
        img_size: TensorLike,
        anchors: IntArrayLike | None = (),
        class_num: int = 1,
        conf_thresh: FloatLike = 0.01,
        downsample_ratio: int = 32,
        clip_bbox: bool = True,
        scale_x_y: FloatLike = 1.0,
        iou_aware: bool = False,
        iou_aware_factor: FloatLike = 0.5,
    ) -> tuple[Tensor, Tensor]:
        """Boxes [images, anchors * rows * columns, 4] and scores [.., class_num] of predictions x
        [images, anchors * (5 + class_num), rows, columns]: centres (s sigmoid(t) - (s - 1) / 2 +
        cell) / cells of the image, s = scale_x_y, sides exp(t) * anchor / (downsample_ratio *
        cells) of it; confidence * sigmoid(class). Where the confidence is below conf_thresh all is
        0. iou_aware: x has anchors overlaps in front, and the confidence is c ** (1 - f) *
        sigmoid(overlap) ** f."""
    def yolo_box_head(self, anchors: IntArrayLike, class_num: int) -> Tensor:
        """Of predictions [images, anchors * (5 + class_num), rows, columns] the exponential of the
        third and fourth number of each anchor, the sigmoid of all others."""
    def moe_dispatch(
        self,
        gating_output: TensorLike,
        moe_topk: int = 2,
        group_moe: bool = False,
        topk_only_mode: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """The rows X[t] of tokens once for each of the moe_topk experts with the largest softmax of
        gating_output[t] (the numbers themselves with topk_only_mode), sorted by expert.
        token_nums_per_expert are cumulative counts, permute_indices_per_token [k, tokens] the rows
        of each token, expert_scales_float [tokens, k, 1, 1] the softmaxes. group_moe: one expert of
        each of moe_topk groups, with a softmax each."""
    def moe_reduce(
        self,
        expert_scales_float: TensorLike,
        permute_indices_per_token: TensorLike,
        top_k_indices: TensorLike,
        ffn2_bias: TensorLike | None = None,
        norm_topk_prob: bool = False,
        routed_scaling_factor: FloatLike = 1.0,
    ) -> Tensor:
        """For each token routed_scaling_factor * sum_k s[t, k]
        (ffn_out[permute_indices_per_token[k, t]] + ffn2_bias[top_k_indices[t, k]]), s the
        expert_scales_float, over their sum with norm_topk_prob: what experts make of the rows of
        :func:`moe_dispatch`."""
    def assign_pos(self, cum_count: TensorLike, eff_num_len: TensorLike) -> Tensor:
        """The flat places in x of the numbers of experts, sorted by expert, those of one expert in
        order: the places of e end in front of cum_count[e]. There are eff_num_len of them. What is
        no expert's number, such as -1, has no place; a place for which there is none is -1."""
    def moe_ffn(
        self,
        token_nums_per_expert: TensorLike,
        ffn1_weight: TensorLike,
        ffn2_weight: TensorLike,
        ffn1_bias: TensorLike | None,
        ffn1_scale: TensorLike | None,
        ffn2_scale: TensorLike | None,
        quant_method: str,
    ) -> Tensor:
        """(silu(g) v) ffn2_weight[e] of each row of permute_input [rows, size], with g and v the
        halves of row ffn1_weight[e] + ffn1_bias[e], for rows sorted by expert e:
        token_nums_per_expert [experts], cumulative counts, are the ends of the experts' rows, as
        :func:`moe_dispatch` gives them; rows behind the last are 0. quant_method is None, a str:
        scales must be absent. Every expert sees all rows, so the work is rows times experts."""
    def number_count(self, upper_range: int) -> Tensor:
        """How often 0, 1, ..., upper_range - 1 stand in numbers, as int64[upper_range]; other
        numbers do not count."""
    def int_bincount(self, low: DimLike, high: DimLike, dtype: DimLike) -> Tensor:
        """How often low, low + 1, ..., high - 1 stand in x; other numbers do not count. dtype is
        PHI's number of that of the counts: 7 for int32, 9 for int64 (3 and 5 for int8 and
        int16)."""
    def limit_by_capacity(self, capacity: TensorLike, n_worker: int) -> Tensor:
        """expert_count [n_worker * experts] cut so that the tokens of all workers for an expert are
        no more than its capacity; the first workers are served first."""
    def prune_gate_by_capacity(
        self,
        expert_count: TensorLike,
        n_expert: DimLike = 0,
        n_worker: DimLike = 0,
    ) -> Tensor:
        """gate_idx, the expert of each token, with -1 for all but the first expert_count[e] tokens
        of each expert e; there are n_expert * n_worker of them."""
    def random_routing(self, topk_value: TensorLike, topk_idx: TensorLike) -> Tensor:
        """topk_idx [tokens, 2], the experts of each token, with -1 for the second where twice its
        topk_value is below prob."""
    def random_routing_(self, topk_value: TensorLike, topk_idx: TensorLike) -> Tensor:
        """:func:`random_routing` in the memory of topk_idx, not to be used after it."""
    def batch_fc(self, w: TensorLike, bias: TensorLike) -> Tensor:
        """input[s] @ w[s] + bias[s] for each slot s; input is [slots, rows, in], w [slots, in,
        out], bias [slots, out]."""
    def moe_combine(self, combine_weights: TensorLike, scatter_index: TensorLike) -> Tensor:
        """y[t] = sum_k combine_weights[t, k] x[scatter_index[t, k]]: what the k experts of each
        token give."""
    def moe_combine_auto(self, combine_weights: TensorLike, scatter_index: TensorLike) -> Tensor:
        """:func:`moe_combine` by its other name."""
    def moe_combine_no_weight(
        self,
        combine_weight: TensorLike,
        scatter_index: TensorLike,
        epsilon: FloatLike = 1e-15,
    ) -> Tensor:
        """y[t] = the sum of x[scatter_index[t, k]] over the k whose combine_weight[t, k] is above
        epsilon."""
    def moe_gate_dispatch(
        self,
        gate_logits: TensorLike,
        corr_bias: TensorLike | None,
        k: DimLike,
        capacity: DimLike,
        use_pad: bool,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Each token x[t] goes to the k experts with the largest gate_logits[t] + corr_bias, as
        long as one has fewer than capacity: first choices before second ones, tokens in order. y
        [experts * capacity, size] has a token in row scatter_index[k, t], which combine_weights[t,
        k], the logits, go with; they and the index are 0 where there was no room. expert_offset is
        the cumulative count of choices of each expert, expert_id [tokens, k] the choices. use_pad
        must be True."""
    def moe_gate_dispatch_auto(
        self,
        gate_logits: TensorLike,
        corr_bias: TensorLike | None,
        k: DimLike,
        capacity: DimLike,
        use_pad: bool,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """:func:`moe_gate_dispatch` by its other name."""
    def moe_gate_dispatch_permute(
        self,
        gate_logits: TensorLike,
        corr_bias: TensorLike | None,
        k: DimLike,
        capacity: DimLike,
        world_size: DimLike,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """:func:`moe_gate_dispatch` with y in the order of what an exchange between world_size
        processes gives each of them, which hold experts / world_size experts: y[e, r] [capacity,
        size] has the tokens for expert e of process r, number r * experts / world_size + e of all.
        scatter_index counts rows as moe_gate_dispatch has them."""
    def cal_aux_loss(
        self,
        dispatch_mask: TensorLike,
        tokens_mask: TensorLike | None,
        dispatch_tokens_mask: TensorLike | None,
        num_experts: DimLike,
        use_group: bool,
        moe_k: DimLike,
        clip_min: FloatLike,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """num_experts * sum_e ce[e] * me[e], over moe_k with use_group: ce = dispatch_mask / n, me
        the sum of gate_prob [tokens, experts] over tokens / n. n, seqlen_float, is the sum of
        dispatch_tokens_mask, else that of tokens_mask, else tokens * experts / num_experts, and
        clip_min at least. With both masks of different lengths, the value is times the quotient of
        their sums. The gradient goes to gate_prob alone."""
    def build_src_rank_and_local_expert_id(
        self,
        expert_num_global: IntArrayLike,
        num_local_experts: DimLike,
    ) -> tuple[Tensor, Tensor]:
        """For each of sum(expert_num_global) tokens, ordered by their expert e of all, e //
        num_local_experts and e % num_local_experts, as int32. The tensor holds the same counts as
        the list."""
    def expand_modality_expert_id(
        self,
        num_expert_per_modality: DimLike,
        group_size: DimLike,
        modality_offset: DimLike,
        is_group_expert: bool,
    ) -> Tensor:
        """Numbers of the experts of one of two modalities among those of both: with is_group_expert
        choice k gets k * group_size added, then e becomes (e // n) * 2 n + e % n + modality_offset
        * n, n = num_expert_per_modality; 0 leaves that out."""
    def moe_permute(
        self,
        scale: TensorLike | None,
        expert_routemap_topk: TensorLike,
        expert_prob_topk: TensorLike,
        num_experts: int,
        tokens_per_expert: IntArrayLike,
        padding_alignment: int,
        do_gather: bool,
        using_ue8m0_scale: bool = False,
        return_expert_indices: bool = False,
        override_buffer_size: int = -1,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """A row for each token of each expert, the experts side by side, padded with zeros to
        multiples of padding_alignment. expert_routemap_topk [tokens, k] are the experts of a token,
        -1 for none, expert_prob_topk what goes with them. zipped_expertwise_rowmap [tokens,
        experts] is the row of a token, -1 for none; an expert takes its first tokens_per_expert.
        Without do_gather, scale or return_expert_indices, what they ask for is empty; -1 stands for
        padding."""
    def moe_unpermute(
        self,
        zipped_expertwise_rowmap: TensorLike,
        expert_routemap_topk: TensorLike,
        token_prob_unzipped: TensorLike,
        total_zipped_tokens_num: int,
        num_experts: int,
        use_mix_precision: bool,
        using_weighted_combine: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """What :func:`moe_permute` has put apart: the sum of the rows that zipped_expertwise_rowmap
        [tokens, experts] names for each token, times their token_prob_unzipped with
        using_weighted_combine, and for each choice its probability, 0 for none. use_mix_precision:
        16-bit floats are summed in float32."""
    def fft_c2c(self, axes: IntArrayLike, normalization: str, forward: bool) -> Tensor:
        """The sums out_k = sum_j x_j exp(-2 pi i j k / n) over each of the axes, n its size; with +
        in the exponent unless forward. normalization is 'backward', 'ortho' or 'forward': where
        they are divided by their number."""
    def fft_r2c(
        self,
        axes: IntArrayLike,
        normalization: str,
        forward: bool,
        onesided: bool,
    ) -> Tensor:
        """As :func:`fft_c2c`, of real x: out_k = sum_j x_j exp(-2 pi i j k / n) over each of the
        axes. onesided: along the last of them only k = 0, ..., n // 2; the others are conjugates of
        these."""
    def fft_c2r(
        self,
        axes: IntArrayLike,
        normalization: str,
        forward: bool,
        last_dim_size: DimLike = 0,
    ) -> Tensor:
        """As :func:`fft_c2c`, of what is its own conjugate when mirrored, so out is real: of the
        last of the axes x has the points k = 0, ..., n // 2 alone, where n is last_dim_size, or 2
        (size - 1) if that is 0. The imaginary parts at k = 0 and n / 2 count for nothing."""
    def assign(self) -> Tensor:
        """x itself, whose value is never changed by another name of it."""
    def assign_(self) -> Tensor:
        """:func:`assign` in the memory of x, not to be used after it."""
    def assign_out_(self, output: TensorLike) -> Tensor:
        """x in place of output, which has its dims."""
    def assign_value_(
        self,
        shape: IntArrayLike,
        dtype: DTypeLike,
        values: ScalarLike | Sequence[ScalarLike],
        place: PlaceLike | None = None,
    ) -> Tensor:
        """The numbers of values in that shape and dtype, in place of output."""
    def full_(
        self,
        shape: IntArrayLike,
        value: ScalarLike,
        dtype: DTypeLike = float,
        place: PlaceLike | None = None,
    ) -> Tensor:
        """A tensor of that shape, every element equal to value, in place of output."""
    def fill_(self, value: ScalarLike = 0.0) -> Tensor:
        """:func:`fill` in the memory of x, not to be used after it."""
    def fill_diagonal(self, value: FloatLike = 0.0, offset: int = 0, wrap: bool = False) -> Tensor:
        """x with value at x[i, i + offset], or at x[i, ..., i, i + offset] of a tensor of more
        axes, which are equally long; wrap: of a tall matrix, from row n + 1 on again, as often as
        there are rows."""
    def fill_diagonal_(self, value: FloatLike = 0.0, offset: int = 0, wrap: bool = False) -> Tensor:
        """:func:`fill_diagonal` in the memory of x, not to be used after it."""
    def fill_diagonal_tensor(
        self,
        y: TensorLike,
        offset: DimLike = 0,
        dim1: int = 0,
        dim2: int = 1,
    ) -> Tensor:
        """x with y in place of diagonal(x, offset, dim1, dim2), whose dims it has."""
    def fill_diagonal_tensor_(
        self,
        y: TensorLike,
        offset: DimLike = 0,
        dim1: int = 0,
        dim2: int = 1,
    ) -> Tensor:
        """:func:`fill_diagonal_tensor` in the memory of x, not to be used after it."""
    def diag(self, offset: int = 0, padding_value: FloatLike = 0.0) -> Tensor:
        """Of a vector the square matrix with it on the diagonal column - row = offset and
        padding_value elsewhere; of a matrix its diagonal."""
    def diag_embed(self, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
        """Square matrices along the axes dim1 and dim2 of the result, 0 but on the diagonal that
        offset names, where the last axis of input stands."""
    def shard_index(
        self,
        index_num: int,
        nshards: int,
        shard_id: int,
        ignore_value: int = -1,
    ) -> Tensor:
        """Indices below index_num as indices into shard shard_id of nshards, each of ceil(index_num
        / nshards): input - shard_id * size where it is of that shard, else ignore_value."""
    def flash_attn(
        self,
        k: TensorLike,
        v: TensorLike,
        fixed_seed_offset: TensorLike | None = None,
        attn_mask: TensorLike | None = None,
        dropout: FloatLike = 0.0,
        causal: bool = False,
        return_softmax: bool = False,
        is_test: bool = False,
        rng_name: str = '',
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """softmax(q k^T / sqrt(size) + attn_mask) v for each head; q is [batch, queries, heads,
        size], k and v [batch, keys, heads, size], where each head of k may serve a group of heads
        of q. attn_mask broadcasts to [batch, heads, queries, keys]: numbers to add, or bools, True
        where a key is seen. causal: the last query sees all keys, each one before it a key less. A
        query that sees none gets zeros. softmax is empty unless asked for, and holds the weights
        before dropout; softmax_lse is the logsumexp of the scores, [batch, heads, queries].
        fixed_seed_offset is the key (phix.random.key) that dropout needs, and seed_offset the key
        used."""
    def flash_attn_qkvpacked(
        self,
        fixed_seed_offset: TensorLike | None = None,
        attn_mask: TensorLike | None = None,
        dropout: FloatLike = 0.0,
        causal: bool = False,
        return_softmax: bool = False,
        is_test: bool = False,
        rng_name: str = '',
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """:func:`flash_attn` of one tensor, [batch, sequence, groups + 2, heads of keys, size]:
        queries, groups * heads of keys of them, then keys, then values."""
    def flash_attn_unpadded(
        self,
        k: TensorLike,
        v: TensorLike,
        cu_seqlens_q: TensorLike,
        cu_seqlens_k: TensorLike,
        fixed_seed_offset: TensorLike | None,
        attn_mask: TensorLike | None,
        max_seqlen_q: DimLike,
        max_seqlen_k: DimLike,
        scale: FloatLike,
        dropout: FloatLike = 0.0,
        causal: bool = False,
        return_softmax: bool = False,
        is_test: bool = False,
        rng_name: str = '',
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """softmax(scale q k^T + attn_mask) v within each of several sequences, whose rows lie one
        behind the other: q is [rows, heads, size], and sequence s has the rows cu_seqlens_q[s] to
        cu_seqlens_q[s + 1] - 1. Rows behind the last sequence get zeros. attn_mask broadcasts to
        [sequences, heads, queries, keys]; softmax is [heads, rows, rows of keys], softmax_lse
        [heads, rows]. The longest lengths say nothing here; see :func:`flash_attn`."""
    def flash_attn_varlen_qkvpacked(
        self,
        cu_seqlens_q: TensorLike,
        cu_seqlens_k: TensorLike,
        fixed_seed_offset: TensorLike | None,
        attn_mask: TensorLike | None,
        max_seqlen_q: DimLike,
        max_seqlen_k: DimLike,
        scale: FloatLike,
        dropout: FloatLike = 0.0,
        causal: bool = False,
        return_softmax: bool = False,
        is_test: bool = False,
        rng_name: str = '',
        varlen_padded: bool = True,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """:func:`flash_attn_unpadded` of one tensor, [rows, groups + 2, heads of keys, size].
        varlen_padded: sequence s begins at row s * max_seqlen_q instead, and what is behind its
        cu_seqlens_q[s + 1] - cu_seqlens_q[s] rows is padding, which gets zeros."""
    def fused_softmax_mask(self, mask: TensorLike) -> Tensor:
        """softmax(x + mask) over the last axis of scores [batch, heads, queries, keys]; mask
        broadcasts to x."""
    def fused_softmax_mask_upper_triangle(self) -> Tensor:
        """softmax over the last axis of scores [batch, heads, queries, keys] of which query i sees
        the keys up to i."""
    def fused_batch_norm_act(
        self,
        scale: TensorLike,
        bias: TensorLike,
        mean: TensorLike,
        variance: TensorLike,
        momentum: FloatLike,
        epsilon: FloatLike,
        act_type: str,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """relu of :func:`batch_norm` in training of x with channels last; act_type must be relu.
        PHI's last output, reserve_space, is scratch memory and left out."""
    def fused_bn_add_activation(
        self,
        z: TensorLike,
        scale: TensorLike,
        bias: TensorLike,
        mean: TensorLike,
        variance: TensorLike,
        momentum: FloatLike,
        epsilon: FloatLike,
        act_type: str,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """relu of the sum of z and :func:`batch_norm` in training of x with channels last; see
        :func:`fused_batch_norm_act`."""
    def fast_ln(
        self,
        scale: TensorLike,
        bias: TensorLike,
        epsilon: FloatLike,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """:func:`layer_norm` over the last axis; mean and invvar, 1 / sqrt(variance + epsilon), are
        vectors, one number a row."""
    def fast_rms_norm(self, scale: TensorLike, epsilon: FloatLike) -> tuple[Tensor, Tensor]:
        """x * invvar * scale over the last axis, invvar = 1 / sqrt(mean(x ** 2) + epsilon), which
        is a vector, one number a row."""
    def fused_rms_norm_ext(self, scale: TensorLike, epsilon: FloatLike) -> tuple[Tensor, Tensor]:
        """The same as :func:`fast_rms_norm`: x * invvar * scale with invvar = 1 / sqrt(mean(x ** 2)
        + epsilon)."""
    def fused_rms_norm_quant(
        self,
        bias: TensorLike | None,
        residual: TensorLike | None,
        norm_weight: TensorLike | None,
        norm_bias: TensorLike | None,
        epsilon: FloatLike,
        begin_norm_axis: int,
        quant_scale: FloatLike,
        quant_round_type: int,
        quant_max_bound: FloatLike,
        quant_min_bound: FloatLike,
    ) -> tuple[Tensor, Tensor]:
        """:func:`rms_norm`, and with quant_scale above 0 its result y as int8: quant_max_bound *
        quant_scale * y rounded (quant_round_type 0: half to even, 1: half away from 0), within
        quant_min_bound and quant_max_bound."""
    def fused_gemm_epilogue(
        self,
        y: TensorLike,
        bias: TensorLike,
        trans_x: bool,
        trans_y: bool,
        activation: str,
    ) -> tuple[Tensor, Tensor]:
        """activation(x @ y + bias), each factor transposed if asked for; activation is none, relu,
        or gelu with tanh. reserve_space is what the activation is taken of, and empty for none."""
    def batched_gemm(
        self,
        rhs: TensorLike,
        batch_sizes: IntArrayLike,
        trans_lhs: bool,
        trans_rhs: bool,
    ) -> Tensor:
        """The rows of lhs in groups of batch_sizes, group g times the matrix rhs[g] (its transpose
        with trans_rhs); with trans_lhs rhs has rows like lhs, and the result is [groups, ...],
        lhs_g^T @ rhs_g."""
    def add_position_encoding(self, alpha: FloatLike = 1.0, beta: FloatLike = 1.0) -> Tensor:
        """alpha x + beta w for x [batch, sequence, size]: in row j, w[k] = sin(j / 10000 ** (k /
        (size / 2 - 1))) in the first half and the cosine of the same in the second."""
    def top_p_sampling(
        self,
        ps: TensorLike,
        threshold: TensorLike | None = None,
        topp_seed: TensorLike | None = None,
        seed: int = -1,
        k: int = 0,
        mode: str = 'truncate',
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """For each row of scores x, one drawn in proportion to the scores from the largest that sum
        to the share ps of all; none below threshold but the largest. ids are the positions;
        topk_scores and topk_ids are the k largest. topp_seed is the key (phix.random.key); without
        it the seed, from 0 on, is one."""
    def sparse_attention(
        self,
        k: TensorLike,
        v: TensorLike,
        offset: TensorLike,
        columns: TensorLike,
        key_padding_mask: TensorLike | None = None,
        attn_mask: TensorLike | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """softmax(q k^T / sqrt(size)) v for [batch, heads, sequence, size] where row i scores only
        the keys columns[offset[i]] to columns[offset[i + 1] - 1]; a key where key_padding_mask
        [batch, sequence] or attn_mask [sequence, sequence] is 0 is left out, and a row without keys
        gets zeros. sparse_dot_sdd and softmax are the scores and weights in the order of
        columns."""
    def send_u_recv(
        self,
        src_index: TensorLike,
        dst_index: TensorLike,
        reduce_op: str = 'SUM',
        out_size: IntArrayLike = (0,),
    ) -> tuple[Tensor, Tensor]:
        """Row r of the result is the SUM, MEAN, MAX or MIN of the rows x[src_index[e]] of the edges
        e with dst_index[e] = r, 0 if there are none; dst_count[r] is their number. There are
        out_size rows, or as many as x has where it is 0. A number that is no row raises
        TensorIndexError where the call runs at once; compiled programs take the nearest."""
    def send_ue_recv(
        self,
        y: TensorLike,
        src_index: TensorLike,
        dst_index: TensorLike,
        message_op: str = 'ADD',
        reduce_op: str = 'SUM',
        out_size: IntArrayLike = (0,),
    ) -> tuple[Tensor, Tensor]:
        """As :func:`send_u_recv`, with x[src_index[e]] + y[e] (message_op ADD) or their product
        (MUL) for the edge e; the axes behind the first broadcast."""
    def send_uv(
        self,
        y: TensorLike,
        src_index: TensorLike,
        dst_index: TensorLike,
        message_op: str = 'ADD',
    ) -> Tensor:
        """For each edge e, x[src_index[e]] + y[dst_index[e]] (message_op ADD) or their product
        (MUL); the axes behind the first broadcast."""
    def segment_pool(self, segment_ids: TensorLike, pooltype: str = 'SUM') -> Tensor:
        """Row s of the result is the SUM, MEAN, MAX or MIN of the rows of x whose segment_ids are
        s, 0 if there are none; it has as many rows as the largest of segment_ids says, which need
        no order. A row with a negative number is in no segment."""
    def reindex_graph(
        self,
        neighbors: TensorLike,
        count: TensorLike,
        hashtable_value: TensorLike | None = None,
        hashtable_index: TensorLike | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The nodes x, then those of neighbors that are not in x, in the order in which they first
        come, get the numbers 0, 1, ...: out_nodes. reindex_src are the numbers of neighbors; the
        first count[0] of them are those of x[0] and so on, and reindex_dst has the number of that
        node for each. With count of several kinds of edges, x starts anew for each kind. The
        hashtables are not needed."""
    def grid_sample(
        self,
        grid: TensorLike,
        mode: str = 'bilinear',
        padding_mode: str = 'zeros',
        align_corners: bool = True,
    ) -> Tensor:
        """Images [n, c, h, w] at the places of grid [n, oh, ow, 2] (across, down), or volumes [n,
        c, d, h, w] at those of [n, od, oh, ow, 3]: -1 and 1 are the middles of the first and last
        element if align_corners, else their outer edges. bilinear between the elements around, or
        nearest, half to even. Off the image are zeros, its border, or its reflection."""
    def affine_grid(
        self,
        output_shape: IntArrayLike | None = (),
        align_corners: bool = True,
    ) -> Tensor:
        """A grid for :func:`grid_sample`, input @ (x, y, 1) at each place of images of output_shape
        [n, c, h, w], or input @ (x, y, z, 1) of volumes; places run from -1 to 1, as align_corners
        says there."""
    def correlation(
        self,
        input2: TensorLike,
        pad_size: int,
        kernel_size: int,
        max_displacement: int,
        stride1: int,
        stride2: int,
        corr_type_multiply: int = 1,
    ) -> Tensor:
        """The mean product of patches of two images, padded with zeros, [n, (2 m + 1) ** 2, oh, ow]
        with m = max_displacement // stride2: of kernel_size around places stride1 apart in input1,
        and around those displaced by -m to m times stride2 in input2. corr_type_multiply says
        nothing here."""
    def deformable_conv(
        self,
        offset: TensorLike,
        filter: TensorLike,
        mask: TensorLike | None,
        strides: IntArrayLike,
        paddings: IntArrayLike,
        dilations: IntArrayLike,
        deformable_groups: int,
        groups: int,
        im2col_step: int,
    ) -> Tensor:
        """Convolution whose taps read images [n, c, h, w] where offset [n, groups' * taps * 2, oh,
        ow] moves them (down, across), bilinear and 0 off the image, times mask [n, groups' * taps,
        oh, ow] if there is one; groups' are deformable_groups of the channels. im2col_step says
        nothing here."""
    def npu_identity(self, format: int = -1) -> Tensor:
        """x; there are no formats of storage to choose, so format says nothing here."""
    def share_data(self) -> Tensor:
        """x, as a tensor of its own; tensors do not change, so that who shares memory is not
        seen."""
    def sync_calc_stream(self) -> Tensor:
        """x; results are waited for where they are read, so there is nothing to wait for."""
    def sync_calc_stream_(self) -> Tensor:
        """:func:`sync_calc_stream` in the memory of x, not to be used after it."""
    def c_identity(self, ring_id: int, use_calc_stream: bool, use_model_parallel: bool) -> Tensor:
        """x, as on each process of a ring; gradients are summed over the processes where x is the
        same on them anyway."""
    def c_identity_(self, ring_id: int, use_calc_stream: bool, use_model_parallel: bool) -> Tensor:
        """:func:`c_identity` in the memory of x, not to be used after it."""
    def depend(self, dep: Sequence[TensorLike]) -> Tensor:
        """x, made once all of dep are there."""
    def trans_layout(self, perm: IntArrayLike) -> Tensor:
        """x with its axes in the order perm; the same as :func:`transpose`."""
    def pixel_shuffle(self, upscale_factor: int = 1, data_format: str = 'NCHW') -> Tensor:
        """Images upscale_factor r times as large of r * r times as many channels: out[c, h * r + i,
        w * r + j] = x[c * r * r + i * r + j, h, w]."""
    def pixel_unshuffle(self, downscale_factor: int = 1, data_format: str = 'NCHW') -> Tensor:
        """The inverse of :func:`pixel_shuffle`: out[c * r * r + i * r + j, h, w] = x[c, h * r + i,
        w * r + j] for the downscale_factor r."""
    def channel_shuffle(self, groups: int, data_format: str = 'NCHW') -> Tensor:
        """Images with the channels of all groups in turn: those of [groups, channels / groups]
        transposed."""
    def shuffle_channel(self, group: int = 1) -> Tensor:
        """:func:`channel_shuffle` of images [n, c, h, w]."""
    def temporal_shift(
        self,
        seg_num: int,
        shift_ratio: FloatLike = 0.25,
        data_format: str = 'NCHW',
    ) -> Tensor:
        """Runs of seg_num images, of each of which the first channels * shift_ratio channels come
        from the image before, as many from the image behind, the rest from itself; zeros where
        there is none."""
    def affine_channel(
        self,
        scale: TensorLike,
        bias: TensorLike,
        data_layout: str = 'AnyLayout',
    ) -> Tensor:
        """x * scale + bias with one number of each a channel: axis 1, or the last if data_layout is
        NHWC."""
    def affine_channel_(
        self,
        scale: TensorLike,
        bias: TensorLike,
        data_layout: str = 'AnyLayout',
    ) -> Tensor:
        """:func:`affine_channel` in the memory of x, not to be used after it."""
    def gather_nd(self, index: TensorLike) -> Tensor:
        """out[i] = x[index[i, 0], index[i, 1], ...]: the last axis of index names the first axes of
        x. An index out of range raises TensorIndexError where the call runs at once; compiled
        programs take the nearest inside, or raise under phix.debug.check_indices()."""
    def scatter_nd_add(self, index: TensorLike, updates: TensorLike, mode: str = 'raise') -> Tensor:
        """x with updates[i] added to x[index[i, 0], index[i, 1], ...]; where an index comes again,
        all are added. Where an index is out of range, nothing is written with mode drop, and at the
        nearest inside with clip; with raise calls that run at once raise TensorIndexError, and
        compiled programs write nothing, or raise under phix.debug.check_indices()."""
    def put_along_axis_(
        self,
        indices: TensorLike,
        values: TensorLike,
        axis: int,
        reduce: str = 'assign',
        include_self: bool = True,
        mode: str = 'raise',
    ) -> Tensor:
        """:func:`put_along_axis` in the memory of arr, not to be used after it."""
    def index_put(
        self,
        indices: Sequence[TensorLike],
        value: TensorLike,
        accumulate: bool = False,
        axes: IntArrayLike | None = (),
        mode: str = 'raise',
    ) -> Tensor:
        """x[indices[0], indices[1], ...] = value, or += value if accumulate; the index tensors and
        the value broadcast. The indices are of the first axes of x, or of those in axes: then the
        axes of the value are theirs, broadcast together, followed by the other axes of x. Where an
        index is out of range, nothing is written with mode drop, and at the nearest inside with
        clip; with raise calls that run at once raise TensorIndexError, and compiled programs write
        nothing, or raise under phix.debug.check_indices()."""
    def index_put_(
        self,
        indices: Sequence[TensorLike],
        value: TensorLike,
        accumulate: bool = False,
        axes: IntArrayLike | None = (),
        mode: str = 'raise',
    ) -> Tensor:
        """:func:`index_put` in the memory of x, not to be used after it."""
    def index_sample(self, index: TensorLike) -> Tensor:
        """out[i, j] = x[i, index[i, j]]. An index out of range raises TensorIndexError where the
        call runs at once; compiled programs take the nearest inside, or raise under
        phix.debug.check_indices()."""
    def masked_fill(self, mask: TensorLike, value: TensorLike) -> Tensor:
        """x with value, of one element or broadcast, where the bool tensor mask is true."""
    def masked_fill_(self, mask: TensorLike, value: TensorLike) -> Tensor:
        """:func:`masked_fill` in the memory of x, not to be used after it."""
    def linear_interp(
        self,
        out_size: TensorLike | None = None,
        size_tensor: Sequence[TensorLike] | None = None,
        scale_tensor: TensorLike | None = None,
        data_format: str = 'NCHW',
        out_d: int = 0,
        out_h: int = 0,
        out_w: int = 0,
        scale: FloatLike | Sequence[FloatLike] | None = (),
        interp_method: str = 'bilinear',
        align_corners: bool = True,
        align_mode: int = 1,
    ) -> Tensor:
        """Signals [n, c, width] of another size, out[k] = x[i] * (1 - t) + x[i + 1] * t with i + t
        = k * (size - 1) / (out size - 1) if align_corners; else k * size / out size, or (k + 0.5) *
        size / out size - 0.5, at least 0, in align_mode 0; an out size of 1 is x[0], as in Paddle.
        Sizes come from size_tensor (one int tensor an axis), else out_size (one tensor of them),
        else scale_tensor or scale (rounded down), else out_d, out_h and out_w; they count the
        spatial axes, which data_format says to be before or behind the channels. interp_method says
        nothing more than the op's name."""
    def bilinear_interp(
        self,
        out_size: TensorLike | None = None,
        size_tensor: Sequence[TensorLike] | None = None,
        scale_tensor: TensorLike | None = None,
        data_format: str = 'NCHW',
        out_d: int = 0,
        out_h: int = 0,
        out_w: int = 0,
        scale: FloatLike | Sequence[FloatLike] | None = (),
        interp_method: str = 'bilinear',
        align_corners: bool = True,
        align_mode: int = 1,
    ) -> Tensor:
        """Images [n, c, height, width] of another size: :func:`linear_interp` along each spatial
        axis."""
    def trilinear_interp(
        self,
        out_size: TensorLike | None = None,
        size_tensor: Sequence[TensorLike] | None = None,
        scale_tensor: TensorLike | None = None,
        data_format: str = 'NCHW',
        out_d: int = 0,
        out_h: int = 0,
        out_w: int = 0,
        scale: FloatLike | Sequence[FloatLike] | None = (),
        interp_method: str = 'bilinear',
        align_corners: bool = True,
        align_mode: int = 1,
    ) -> Tensor:
        """Volumes [n, c, depth, height, width] of another size: :func:`linear_interp` along each
        spatial axis."""
    def nearest_interp(
        self,
        out_size: TensorLike | None = None,
        size_tensor: Sequence[TensorLike] | None = None,
        scale_tensor: TensorLike | None = None,
        data_format: str = 'NCHW',
        out_d: int = 0,
        out_h: int = 0,
        out_w: int = 0,
        scale: FloatLike | Sequence[FloatLike] | None = (),
        interp_method: str = 'bilinear',
        align_corners: bool = True,
        align_mode: int = 1,
    ) -> Tensor:
        """Signals, images or volumes of another size, of the elements nearest: along each axis
        out[k] = x[floor(k * size / out size)], or x[floor(k * (size - 1) / (out size - 1) + 0.5)]
        if align_corners. Sizes as in :func:`linear_interp`."""
    def bicubic_interp(
        self,
        out_size: TensorLike | None = None,
        size_tensor: Sequence[TensorLike] | None = None,
        scale_tensor: TensorLike | None = None,
        data_format: str = 'NCHW',
        out_d: int = 0,
        out_h: int = 0,
        out_w: int = 0,
        scale: FloatLike | Sequence[FloatLike] | None = (),
        interp_method: str = 'bilinear',
        align_corners: bool = True,
        align_mode: int = 1,
    ) -> Tensor:
        """Images of another size by cubic convolution with a = -0.75: along each axis four elements
        around k * (size - 1) / (out size - 1) if align_corners, else (k + 0.5) * size / out size -
        0.5 (-0.5 where the out size is 1, as in Paddle), weighted by Keys' kernel; off the image
        its border goes on. Sizes as in :func:`linear_interp`."""
    def interp_antialias(
        self,
        out_size: TensorLike | None = None,
        size_tensor: Sequence[TensorLike] | None = None,
        scale_tensor: TensorLike | None = None,
        data_format: str = 'NCHW',
        out_d: int = 0,
        out_h: int = 0,
        out_w: int = 0,
        scale: FloatLike | Sequence[FloatLike] | None = (),
        interp_method: str = 'bilinear',
        align_corners: bool = True,
        align_mode: int = 1,
    ) -> Tensor:
        """Images of another size, each element a weighted mean of those around it: the kernel (a
        triangle for bilinear, Keys' with a = -0.5 for bicubic) is made wider by size / out size
        where that is above 1, so that a smaller image leaves nothing out. Sizes as in
        :func:`linear_interp`."""
    def linear(self, weight: TensorLike, bias: TensorLike | None = None) -> Tensor:
        """x @ weight + bias, over the last axis of x; weight is [in, out], bias [out] or absent."""
    def linear_v2(
        self,
        weight: TensorLike,
        bias: TensorLike,
        transpose_weight: bool = False,
    ) -> Tensor:
        """input @ weight + bias, over the last axis of input; weight is [in, out], or [out, in] if
        transpose_weight."""
    def embedding(
        self,
        weight: TensorLike,
        padding_idx: DimLike = -1,
        sparse: bool = False,
    ) -> Tensor:
        """The rows of weight that the ints in x number, out[..., :] = weight[x[...], :].
        padding_idx, if not -1, is a row that is zero to the result and gets no gradient. A number
        outside the rows raises TensorIndexError where the call runs at once; compiled programs take
        the nearest inside, or raise under phix.debug.check_indices(). With sparse the gradient of
        weight is SelectedRows: see docs/tensor-kinds.md."""
    def one_hot(self, num_classes: ScalarLike) -> Tensor:
        """float32, whatever the default float is, with a last axis of num_classes: 1 at the class
        that x numbers, else 0. A number that is no class raises TensorIndexError where the call
        runs at once; compiled programs give all 0 for it, or raise under
        phix.debug.check_indices()."""
    def dropout(
        self,
        seed_tensor: TensorLike | None = None,
        p: ScalarLike = 0.5,
        is_test: bool = False,
        mode: str = 'upscale_in_train',
        seed: int = 0,
        fix_seed: bool = False,
    ) -> Tensor:
        """x with each element 0 with probability p, and the others divided by 1 - p
        (upscale_in_train); in mode downscale_in_infer they stay, and with is_test all are
        multiplied by 1 - p. seed_tensor is the key (phix.random.key), needed unless is_test; seed
        and fix_seed say nothing here."""
    def cholesky(self, upper: bool = False) -> Tensor:
        """The lower triangular L with positive diagonal and L L^H = x; upper: its conjugate
        transpose. Of x the Hermitian part (x + x^H) / 2 is taken; nan where that is not positive
        definite."""
    def cholesky_solve(self, y: TensorLike, upper: bool = False) -> Tensor:
        """The solution z of A z = x, where y is a Cholesky factor of A: y y^H = A, or y^H y = A if
        upper."""
    def triangular_solve(
        self,
        y: TensorLike,
        upper: bool = True,
        transpose: bool = False,
        unitriangular: bool = False,
    ) -> Tensor:
        """The solution z of A z = y, where A is the upper (or lower) triangle of x; transpose: of
        A^T z = y. unitriangular: the diagonal of A is 1, whatever x has there. Axes in front
        broadcast."""
    def lu(self, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
        """The factors of x = P L U in one matrix: U in its upper triangle, L below, whose diagonal
        is 1. Row i was exchanged with row pivots[i] - 1, for i = 0, 1, ... (int32); infos is 0, or
        the number k of the first U[k-1, k-1] that is 0. Without pivot P = I."""
    def lu_permutation(self, pivots: TensorLike) -> Tensor:
        """The rows of the matrix that :func:`lu` factored, in the order its exchanges put them:
        int64, row i of L U is row out[i] of the matrix. Of x, the factors, only the shape is
        used."""
    def lu_unpack(
        self,
        y: TensorLike,
        unpack_ludata: bool = True,
        unpack_pivots: bool = True,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The matrices P, L and U with P L U = A, from the factors x and the pivots y that
        :func:`lu` gives for A. Not asked for, L and U, or P, are empty."""
    def lu_solve(self, lu: TensorLike, pivots: TensorLike, trans: str = 'N') -> Tensor:
        """The solution z of A z = b from the factors and pivots that :func:`lu` gives for A; trans
        T: of A^T z = b, C: of A^H z = b. Axes in front broadcast."""
    def solve(self, y: TensorLike, transpose: bool = False) -> Tensor:
        """The solution z of the linear system x z = y, by LU factorisation with pivoting;
        transpose: of x^T z = y. y is a vector [n], or holds a vector for each matrix if its dims
        are those of x but for the last, as in Paddle; else matrices [..., n, k], and axes in front
        broadcast."""
    def inverse(self) -> Tensor:
        """The matrix with x @ out = out @ x = I, by LU factorisation with pivoting."""
    def det(self) -> Tensor:
        """The determinant: the sum over permutations p of sign(p) x[..., 0, p_0] ... x[..., n-1,
        p_(n-1)]. Written out up to n = 3, else from the LU factors. Its gradient, the cofactors, is
        that of a singular matrix too, by its singular values, and so are derivatives of every
        order."""
    def cofactors(self, directions: Sequence[TensorLike]) -> Tensor:
        """The derivatives of det(x) by the elements of x, and of those the derivative along each of
        the directions: out_ij = the mixed derivative of det at x along directions[0], ...,
        directions[m-1] and the unit matrix e_ij. Along none they are the cofactors of x, det(x)
        inverse(x)^T where x is regular. Singular matrices have them too."""
    def slogdet(self) -> Tensor:
        """Sign (of a complex matrix: phase) and logarithm of the absolute value of the determinant,
        one behind the other: [2, ...]. Of a singular matrix 0 and -inf."""
    def slogdet_v2(self) -> tuple[Tensor, Tensor]:
        """Sign (of a complex matrix: phase) and logarithm of the absolute value of the determinant,
        as two tensors. Of a singular matrix 0 and -inf."""
    def matrix_power(self, n: int) -> Tensor:
        """The product of n times the matrix x, by repeated squaring; for n < 0 of its inverse, for
        n = 0 the identity."""
    def mse_loss(self, label: TensorLike, reduction: str = 'mean') -> Tensor:
        """(input - label) ** 2, elementwise (reduction none), or its mean or sum."""
    def huber_loss(self, label: TensorLike, delta: FloatLike) -> Tensor:
        """r ** 2 / 2 where abs(r) is at most delta, else delta * (abs(r) - delta / 2), elementwise,
        with r = label - input."""
    def bce_loss(self, label: TensorLike) -> Tensor:
        """Binary cross entropy, -(label * log(input) + (1 - label) * log(1 - input)), elementwise,
        input being a probability; a logarithm below -100 counts as -100."""
    def bce_loss_(self, label: TensorLike) -> Tensor:
        """:func:`bce_loss` in the memory of input, not to be used after it."""
    def sigmoid_cross_entropy_with_logits(
        self,
        label: TensorLike,
        pos_weight: TensorLike | None = None,
        normalize: bool = False,
        ignore_index: int = -100,
    ) -> Tensor:
        """Binary cross entropy of sigmoid(x), (1 - label) * x - pos_weight * log(sigmoid(x)),
        elementwise and without overflow; 0 where the label is ignore_index. A factor w of the
        positive part alone is the pos_weight 1 + (w - 1) * label. normalize divides by the number
        of labels that are not ignored."""
    def sigmoid_cross_entropy_with_logits_(
        self,
        label: TensorLike,
        pos_weight: TensorLike | None = None,
        normalize: bool = False,
        ignore_index: int = -100,
    ) -> Tensor:
        """:func:`sigmoid_cross_entropy_with_logits` in the memory of x, not to be used after it."""
    def log_loss(self, label: TensorLike, epsilon: FloatLike = 0.0001) -> Tensor:
        """-label * log(input + epsilon) - (1 - label) * log(1 - input + epsilon), elementwise,
        input being a probability."""
    def kldiv_loss(
        self,
        label: TensorLike,
        reduction: str = 'mean',
        log_target: bool = False,
    ) -> Tensor:
        """Kullback-Leibler divergence of probabilities label from exp(x), label * (log(label) - x),
        0 where label is 0, elementwise (reduction none), or its mean, its sum, or the sum over the
        first dim (batchmean). With log_target, label holds logarithms: exp(label) * (label - x)."""
    def cross_entropy_with_softmax(
        self,
        label: TensorLike,
        soft_label: bool = False,
        use_softmax: bool = True,
        numeric_stable_mode: bool = True,
        ignore_index: int = -100,
        axis: int = -1,
    ) -> tuple[Tensor, Tensor]:
        """softmax of input along the axis, and the loss -log(softmax) at the label, with a 1 for
        the axis. A label is the number of a class, its axis 1 or left out, and ignore_index gives
        loss 0; a soft label has a probability for each class, and the loss is -sum(label *
        log(softmax)). Without use_softmax the input is the softmax. It is always computed the
        numerically stable way. A label that is no class raises TensorIndexError where the call runs
        at once; compiled programs take the nearest class, or raise under
        phix.debug.check_indices()."""
    def cross_entropy_with_softmax_(
        self,
        label: TensorLike,
        soft_label: bool = False,
        use_softmax: bool = True,
        numeric_stable_mode: bool = True,
        ignore_index: int = -100,
        axis: int = -1,
    ) -> tuple[Tensor, Tensor]:
        """:func:`cross_entropy_with_softmax` in the memory of input, not to be used after it."""
    def hinge_loss(self, labels: TensorLike) -> Tensor:
        """max(0, 1 - (2 * labels - 1) * logits), elementwise, for labels 0 and 1; the slope at the
        kink is 0."""
    def nll_loss(
        self,
        label: TensorLike,
        weight: TensorLike | None = None,
        ignore_index: DimLike = -100,
        reduction: str = 'mean',
    ) -> tuple[Tensor, Tensor]:
        """-weight[label] * input[label] of logarithms of probabilities [n, classes, ...] and labels
        [n, ...]; 0 where the label is ignore_index. mean divides the sum by total_weight, the sum
        of the weights of all labels that count (0 / 0 is 0); with none the losses stay [n, ...],
        and total_weight is 0. A label that is no class raises TensorIndexError where the call runs
        at once; compiled programs take the nearest class, or raise under
        phix.debug.check_indices()."""
    def label_smooth(
        self,
        prior_dist: TensorLike | None = None,
        epsilon: FloatLike = 0.0,
    ) -> Tensor:
        """(1 - epsilon) * label + epsilon * prior_dist, for labels [..., classes] and a
        distribution of the classes; without one each class has 1 / classes."""
    def identity_loss(self, reduction: int = 1) -> Tensor:
        """The sum of x (reduction 0), its mean (1), or x itself (2)."""
    def identity_loss_(self, reduction: int = 1) -> Tensor:
        """:func:`identity_loss` in the memory of x, not to be used after it."""
    def cross_entropy_with_softmax_bwd_w_downcast(
        self,
        softmax: TensorLike,
        loss_grad: TensorLike,
    ) -> Tensor:
        """(softmax - one_hot(label)) * loss_grad along the last axis, 0 where the label is -100,
        rounded once to bfloat16: the gradient that :func:`cross_entropy_with_softmax` sends to its
        input."""
    def flashmask_attention(
        self,
        k: TensorLike,
        v: TensorLike,
        startend_row_indices: TensorLike,
        fixed_seed_offset: TensorLike | None = None,
        dropout: FloatLike = 0.0,
        causal: bool = False,
        return_softmax: bool = False,
        is_test: bool = False,
        rng_name: str = '',
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """:func:`flash_attn` where each key names the queries that do not see it:
        startend_row_indices is [batch, heads, keys, bounds]. Causal, one bound (from this query on)
        or two (from the first to before the second); else two (from the first on, and before the
        second) or four (two such ranges). heads may be 1, or as many as k or q has."""
    def flashmask_attention_v2(
        self,
        k: TensorLike,
        v: TensorLike,
        startend_row_indices: TensorLike,
        block_mask: TensorLike | None,
        softmax_scale: FloatLike,
        is_causal: bool,
    ) -> tuple[Tensor, Tensor]:
        """:func:`flashmask_attention` with the scale of the scores given; block_mask must be
        absent."""
    def flash_attn_v3(
        self,
        k: TensorLike,
        v: TensorLike,
        q_v_: TensorLike | None,
        q_descale_: TensorLike | None,
        k_descale_: TensorLike | None,
        v_descale_: TensorLike | None,
        softmax_scale: FloatLike,
        is_causal: bool,
        window_size_left: int,
        window_size_right: int,
        softcap: FloatLike,
        num_splits: int,
        manual_set_pack_gqa: bool,
        pack_gqa_: bool,
        sm_margin: int,
    ) -> tuple[Tensor, Tensor]:
        """:func:`flash_attn` with a window: with the last query at the last key, a query sees the
        keys from window_size_left before its own to window_size_right behind it (is_causal: to its
        own; -1: no bound). With softcap above 0, scores s become softcap * tanh(s / softcap). The
        other optional tensors must be absent; what is behind softcap tunes kernels that are not
        there, and says nothing."""
    def flash_attn_v3_varlen(
        self,
        k: TensorLike,
        v: TensorLike,
        cu_seqlens_q: TensorLike,
        cu_seqlens_k: TensorLike,
        seqused_q: TensorLike | None,
        seqused_k: TensorLike | None,
        qv: TensorLike | None,
        q_descale: TensorLike | None,
        k_descale: TensorLike | None,
        v_descale: TensorLike | None,
        max_seqlen_q: ScalarLike,
        max_seqlen_k: ScalarLike,
        softmax_scale: FloatLike,
        causal: bool,
        window_size_left: int,
        window_size_right: int,
        softcap: FloatLike,
        num_splits: int,
        manual_set_pack_gqa: bool,
        pack_gqa: bool,
        sm_margin: int,
    ) -> tuple[Tensor, Tensor]:
        """:func:`flash_attn_v3` of packed sequences, as :func:`flash_attn_unpadded` takes them;
        seqused_q and seqused_k say how many rows of each sequence are in use, and the rest are
        padding."""
    def memory_efficient_attention(
        self,
        key: TensorLike,
        value: TensorLike,
        bias: TensorLike | None,
        cu_seqlens_q: TensorLike | None,
        cu_seqlens_k: TensorLike | None,
        causal_diagonal: TensorLike | None,
        seqlen_k: TensorLike | None,
        max_seqlen_q: ScalarLike,
        max_seqlen_k: ScalarLike,
        causal: bool,
        dropout_p: FloatLike,
        scale: FloatLike,
        is_test: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """softmax(scale query key^T + bias) value for each head of [batch, sequence, heads, size];
        a scale below 0 stands for 1 / sqrt(size). causal: query i of a sequence sees its keys up to
        i, or to i + causal_diagonal of the sequence; seqlen_k says how many keys of each count.
        With cu_seqlens_q and cu_seqlens_k the one batch holds sequences one behind the other. No
        dropout, since there is no key to draw it of; seed_and_offset is zeros."""
    def bipartite_match(
        self,
        match_type: str = 'bipartite',
        dist_threshold: FloatLike = 0.5,
    ) -> tuple[Tensor, Tensor]:
        """Pairs of a row and a column of dist_mat, the largest number first, each row and column
        once; numbers below 1e-6 match nothing. For each column the row, -1 for none, and the number
        there, else 0: [1, columns]. per_prediction: a column without a row then takes the one with
        the largest number, if that is dist_threshold at least."""
    def yolo_loss(
        self,
        gt_box: TensorLike,
        gt_label: TensorLike,
        gt_score: TensorLike | None = None,
        anchors: IntArrayLike | None = (),
        anchor_mask: IntArrayLike | None = (),
        class_num: int = 1,
        ignore_thresh: FloatLike = 0.7,
        downsample_ratio: int = 32,
        use_label_smooth: bool = True,
        scale_x_y: FloatLike = 1.0,
    ) -> Tensor:
        """The loss of each image of predictions x [images, anchors * (5 + class_num), rows,
        columns] (see :func:`yolo_box`), whose anchors anchor_mask numbers, for boxes gt_box
        [images, boxes, 4] of centre, width and height in parts of the image, labels and scores. A
        box goes to its cell and the anchor most like it: cross entropy of the place and distance of
        the logarithmic sides, times (2 - width * height) * score, and cross entropy of the classes
        (1 / class_num, 1/40 at most, smooths them) times score. The confidence is 1 there, and 0
        elsewhere but where a prediction overlaps a box by more than ignore_thresh. The gradient
        goes to x alone."""
    def matrix_rank_tol(
        self,
        atol_tensor: TensorLike,
        use_default_tol: bool = True,
        hermitian: bool = False,
    ) -> Tensor:
        """The number (int64) of singular values above atol_tensor and, if use_default_tol, above
        eps max(m, n) times the largest. atol_tensor broadcasts with the axes in front. hermitian:
        as in :func:`matrix_rank`."""
    def matrix_rank_atol_rtol(
        self,
        atol: TensorLike,
        rtol: TensorLike | None = None,
        hermitian: bool = False,
    ) -> Tensor:
        """The number (int64) of singular values above both atol and rtol times the largest; without
        rtol it is eps max(m, n) where atol is 0, else 0. Both broadcast with the axes in front.
        hermitian: as in :func:`matrix_rank`."""
    def lstsq(
        self,
        y: TensorLike,
        rcond: ScalarLike = 0.0,
        driver: str = 'gels',
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The z of least sum(abs(x z - y) ** 2) over rows and, of several, the shortest; that least
        sum for each column of y where x [..., m, n] has m > n, else empty. Driver gels takes x to
        be of full rank, by :func:`qr`; gelsy, gelsd and gelss count singular values above rcond (if
        negative, eps) times the largest: rank, int32. What a driver does not find is empty: rank
        and singular values of gels, singular values of gelsy."""
    def expm(self) -> Tensor:
        """The exponential of a matrix, the sum of x^k / k!, by a Pade approximant of x / 2^s,
        squared s times."""
    def sqrtm(self) -> Tensor:
        """The principal square root of a matrix, out @ out = x with eigenvalues to the right of the
        imaginary axis, by Denman and Beavers' iteration. nan where x is singular, or has an
        eigenvalue below 0."""
    def auc(
        self,
        label: TensorLike,
        stat_pos: TensorLike,
        stat_neg: TensorLike,
        ins_tag_weight: TensorLike | None = None,
        curve: str = 'ROC',
        num_thresholds: int = 8191,
        slide_steps: int = 1,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The area under the curve of true over false positives, float64[], by counts of labels
        above 0 and equal to 0 in the bins trunc(x num_thresholds) of predictions x [rows, 1 or 2],
        the last column of which counts, clipped to [0, 1]. stat_pos and stat_neg, int64s, go on:
        [num_thresholds + 1] counts with slide_steps 0; else those of the last slide_steps calls,
        their sum, which the area is of, and the number of calls. A call whose first ins_tag_weight
        is 0 adds to no sum."""
    def check_numerics(
        self,
        op_type: str = '',
        var_name: str = '',
        check_nan_inf_level: int = 0,
        stack_height_limit: int = -1,
        output_dir: str = '',
    ) -> tuple[Tensor, Tensor]:
        """stats, int64[3]: how many elements are NaN, infinite and 0; values, float32[3]: the
        largest and the least of those that are no NaN, and the mean of all. It prints and raises
        nothing, and the attributes say nothing: phix.debug has blocks that raise where a NaN
        arises."""
    def p_norm(
        self,
        porder: FloatLike = 2.0,
        axis: int = -1,
        epsilon: FloatLike = 1e-12,
        keepdim: bool = False,
        asvector: bool = False,
    ) -> Tensor:
        """sum(abs(x) ** porder) ** (1 / porder) along the axis, or of all elements if asvector; for
        inf and -inf the largest and smallest abs(x), for 0 the number of elements that are not 0.
        The gradient is 0 where x is 0; ties share it. epsilon is not needed."""
    def squared_l2_norm(self) -> Tensor:
        """sum(x ** 2) of all elements, a 0-d tensor."""
    def dist(self, y: TensorLike, p: FloatLike = 2.0) -> Tensor:
        """The p-norm of all elements of x - y, a 0-d tensor: see :func:`p_norm`. Inputs
        broadcast."""
    def renorm(self, p: FloatLike, axis: int, max_norm: FloatLike) -> Tensor:
        """x with each slice along the axis whose p-norm is above max_norm scaled to have that
        norm."""
    def renorm_(self, p: FloatLike, axis: int, max_norm: FloatLike) -> Tensor:
        """:func:`renorm` in the memory of x, not to be used after it."""
    def spectral_norm(
        self,
        u: TensorLike,
        v: TensorLike,
        dim: int = 0,
        power_iters: int = 1,
        eps: FloatLike = 1e-12,
    ) -> Tensor:
        """weight / (u @ W @ v), the largest singular value: W [h, w] is weight with the axis dim
        first and the others as one, and u [h], v [w] are first led to its singular vectors by
        power_iters steps v = W^T u, u = W v, each over its length + eps. No gradient goes through u
        and v."""
    def layer_norm(
        self,
        scale: TensorLike | None = None,
        bias: TensorLike | None = None,
        epsilon: FloatLike = 1e-05,
        begin_norm_axis: int = 1,
    ) -> Tensor:
        """(x - mean) / sqrt(variance + epsilon) * scale + bias, mean and variance taken over the
        axes of x from begin_norm_axis on; scale and bias have an element for each position on those
        axes."""
    def rms_norm(
        self,
        bias: TensorLike | None,
        residual: TensorLike | None,
        norm_weight: TensorLike | None,
        norm_bias: TensorLike | None,
        epsilon: FloatLike,
        begin_norm_axis: int,
        quant_scale: FloatLike = -1.0,
        quant_round_type: int = 0,
        quant_max_bound: FloatLike = 0.0,
        quant_min_bound: FloatLike = 0.0,
    ) -> tuple[Tensor, Tensor]:
        """v / sqrt(mean(v ** 2) + epsilon) * norm_weight + norm_bias with v = x + bias + residual,
        which is the second result; the mean is over the axes from begin_norm_axis on. Nothing is
        quantised."""
    def batch_norm(
        self,
        mean: TensorLike,
        variance: TensorLike,
        scale: TensorLike | None = None,
        bias: TensorLike | None = None,
        is_test: bool = False,
        momentum: FloatLike = 0.9,
        epsilon: FloatLike = 1e-05,
        data_format: str = 'NCHW',
        use_global_stats: bool = False,
        trainable_statistics: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """(x - m) / sqrt(v + epsilon) * scale + bias for each channel. In training m and v are the
        mean and the (biased) variance of x, and mean_out = momentum * mean + (1 - momentum) * m,
        the same for variance_out; else m and v are mean and variance. saved_mean is m,
        saved_variance is 1 / sqrt(v + epsilon). PHI's last output, reserve_space, is scratch memory
        and left out."""
    def sync_batch_norm_(
        self,
        mean: TensorLike,
        variance: TensorLike,
        scale: TensorLike,
        bias: TensorLike,
        is_test: bool,
        momentum: FloatLike,
        epsilon: FloatLike,
        data_format: str,
        use_global_stats: bool,
        trainable_statistics: bool,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """:func:`batch_norm` over the batches of all processes, which in one process is that of its
        own. PHI's last output, reserve_space, is scratch memory and left out."""
    def instance_norm(
        self,
        scale: TensorLike | None = None,
        bias: TensorLike | None = None,
        epsilon: FloatLike = 1e-05,
    ) -> Tensor:
        """(x - mean) / sqrt(variance + epsilon) * scale + bias, mean and variance taken over the
        positions of each channel of each image; x is [n, c, ...], or [n, c] for images of one
        element."""
    def group_norm(
        self,
        scale: TensorLike | None = None,
        bias: TensorLike | None = None,
        epsilon: FloatLike = 1e-05,
        groups: int = -1,
        data_format: str = 'NCHW',
    ) -> Tensor:
        """(x - mean) / sqrt(variance + epsilon) * scale + bias, mean and variance taken over the
        positions and channels of each group of each image."""
    def sgd_(
        self,
        learning_rate: TensorLike,
        grad: TensorLike,
        master_param: TensorLike | None = None,
        multi_precision: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """One step of gradient descent, param - learning_rate * grad. With multi_precision the
        weights are those of master_param, and param_out is their copy in the dtype of param."""
    def momentum_(
        self,
        grad: TensorLike,
        velocity: TensorLike,
        learning_rate: TensorLike,
        master_param: TensorLike | None,
        mu: FloatLike,
        use_nesterov: bool = False,
        regularization_method: str = '',
        regularization_coeff: FloatLike = 0.0,
        multi_precision: bool = False,
        rescale_grad: FloatLike = 1.0,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Descent with momentum: velocity_out = mu * velocity + g, and param goes along it by
        -learning_rate, or along g + mu * velocity_out with use_nesterov. g is grad * rescale_grad,
        plus regularization_coeff * param if regularization_method is l2_decay."""
    def asgd_(
        self,
        grad: TensorLike,
        learning_rate: TensorLike,
        d: TensorLike,
        y: TensorLike,
        n: TensorLike,
        master_param: TensorLike | None = None,
        multi_precision: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Descent along the mean of the last n gradients: d is their sum, y the one that leaves it,
        so d_out = d - y + grad, y_out = grad and param_out = param - learning_rate / n * d_out."""
    def rprop_(
        self,
        grad: TensorLike,
        prev: TensorLike,
        learning_rate: TensorLike,
        master_param: TensorLike | None,
        learning_rate_range: TensorLike,
        etas: TensorLike,
        multi_precision: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Resilient propagation: each weight has a learning rate, which grows by etas[1] where grad
        has the sign of prev, shrinks by etas[0] where it has the other one (that grad counts as 0),
        stays within learning_rate_range, and is how far the weight goes against the sign of
        grad."""
    def adagrad_(
        self,
        grad: TensorLike,
        moment: TensorLike,
        learning_rate: TensorLike,
        master_param: TensorLike | None = None,
        epsilon: FloatLike = 1e-06,
        multi_precision: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """moment_out = moment + grad ** 2, and param_out = param - learning_rate * grad /
        (sqrt(moment_out) + epsilon)."""
    def decayed_adagrad(
        self,
        grad: TensorLike,
        moment: TensorLike,
        learning_rate: TensorLike,
        decay: FloatLike = 0.95,
        epsilon: FloatLike = 1e-06,
    ) -> tuple[Tensor, Tensor]:
        """moment_out = decay * moment + (1 - decay) * grad ** 2, and param_out = param -
        learning_rate * grad / (sqrt(moment_out) + epsilon)."""
    def adadelta_(
        self,
        grad: TensorLike,
        avg_squared_grad: TensorLike,
        avg_squared_update: TensorLike,
        learning_rate: TensorLike,
        master_param: TensorLike | None = None,
        rho: FloatLike = 0.95,
        epsilon: FloatLike = 1e-06,
        multi_precision: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """param_out = param - learning_rate * u with u = sqrt((avg_squared_update + epsilon) /
        (moment_out + epsilon)) * grad; moment_out and inf_norm_out are rho * avg_squared_grad + (1
        - rho) * grad ** 2 and rho * avg_squared_update + (1 - rho) * u ** 2."""
    def rmsprop_(
        self,
        mean_square: TensorLike,
        grad: TensorLike,
        moment: TensorLike,
        learning_rate: TensorLike,
        mean_grad: TensorLike | None = None,
        master_param: TensorLike | None = None,
        epsilon: FloatLike = 1e-10,
        decay: FloatLike = 0.9,
        momentum: FloatLike = 0.0,
        centered: bool = False,
        multi_precision: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
        """moment_out = momentum * moment + learning_rate * grad / sqrt(v + epsilon), and param_out
        = param - moment_out; v is mean_square_out, decay * mean_square + (1 - decay) * grad ** 2,
        less mean_grad_out ** 2 (the same of grad itself) if it is centered."""
    def ftrl(
        self,
        squared_accumulator: TensorLike,
        linear_accumulator: TensorLike,
        grad: TensorLike,
        learning_rate: TensorLike,
        l1: FloatLike = 0.0,
        l2: FloatLike = 0.0,
        lr_power: FloatLike = -0.5,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Follow the regularized leader: with s the squared_accumulator, s' = s + grad ** 2, r the
        learning_rate and z = linear_accumulator + grad - (s' ** -lr_power - s ** -lr_power) / r *
        param, param_out is (l1 * sign(z) - z) / (s' ** -lr_power / r + 2 * l2) where abs(z) > l1,
        else 0. Both l1 and l2 are taken 1e-10 larger."""
    def average_accumulates_(
        self,
        in_sum_1: TensorLike,
        in_sum_2: TensorLike,
        in_sum_3: TensorLike,
        in_num_accumulates: TensorLike,
        in_old_num_accumulates: TensorLike,
        in_num_updates: TensorLike,
        average_window: FloatLike = 0.0,
        max_average_window: DimLike = 9223372036854775807,
        min_average_window: DimLike = 10000,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Adds param to the sums that averages of weights are made of: to sum_1, which every 16384
        updates is added to sum_2 and begins anew. Once min_average_window and the lesser of
        max_average_window and average_window * num_updates have been added, sum_3 becomes their
        sum, and both begin anew."""
    def io_copy(self, place: PlaceLike | None) -> Tensor:
        """The values of x on another device, out = x; x itself where it is there already."""
    def io_copy_like(self, like: TensorLike) -> Tensor:
        """The values of x on the device where like lives, out = x; of like nothing else matters."""
    def add(self, y: TensorLike) -> Tensor:
        """Sum, x + y, elementwise."""
    def add_(self, y: TensorLike) -> Tensor:
        """:func:`add` in the memory of x, not to be used after it."""
    def subtract(self, y: TensorLike) -> Tensor:
        """Difference, x - y, elementwise."""
    def subtract_(self, y: TensorLike) -> Tensor:
        """:func:`subtract` in the memory of x, not to be used after it."""
    def multiply(self, y: TensorLike) -> Tensor:
        """Product, x * y, elementwise."""
    def multiply_(self, y: TensorLike) -> Tensor:
        """:func:`multiply` in the memory of x, not to be used after it."""
    def divide(self, y: TensorLike) -> Tensor:
        """Quotient, x / y, elementwise; integers divide to the default float."""
    def divide_(self, y: TensorLike) -> Tensor:
        """:func:`divide` in the memory of x, not to be used after it."""
    def exp(self) -> Tensor:
        """Exponential, e ** x, elementwise."""
    def exp_(self) -> Tensor:
        """:func:`exp` in the memory of x, not to be used after it."""
    def sin(self) -> Tensor:
        """Sine of x in radians, elementwise."""
    def sin_(self) -> Tensor:
        """:func:`sin` in the memory of x, not to be used after it."""
    def tanh(self) -> Tensor:
        """Hyperbolic tangent, (exp(x) - exp(-x)) / (exp(x) + exp(-x)), elementwise. The slope is
        taken from the result, 1 - out^2: where that is rounded to 1 or -1 it is 0."""
    def tanh_(self) -> Tensor:
        """:func:`tanh` in the memory of x, not to be used after it."""
    def expm1(self) -> Tensor:
        """exp(x) - 1, accurate near 0, elementwise."""
    def expm1_(self) -> Tensor:
        """:func:`expm1` in the memory of x, not to be used after it."""
    def log(self) -> Tensor:
        """Natural logarithm, elementwise; -inf at 0, NaN below."""
    def log_(self) -> Tensor:
        """:func:`log` in the memory of x, not to be used after it."""
    def log1p(self) -> Tensor:
        """log(1 + x), accurate near 0, elementwise."""
    def log1p_(self) -> Tensor:
        """:func:`log1p` in the memory of x, not to be used after it."""
    def log2(self) -> Tensor:
        """Logarithm to base 2, elementwise."""
    def log2_(self) -> Tensor:
        """:func:`log2` in the memory of x, not to be used after it."""
    def log10(self) -> Tensor:
        """Logarithm to base 10, elementwise."""
    def log10_(self) -> Tensor:
        """:func:`log10` in the memory of x, not to be used after it."""
    def sqrt(self) -> Tensor:
        """Square root, elementwise; NaN below 0."""
    def sqrt_(self) -> Tensor:
        """:func:`sqrt` in the memory of x, not to be used after it."""
    def rsqrt(self) -> Tensor:
        """1 / sqrt(x), elementwise; inf at 0."""
    def rsqrt_(self) -> Tensor:
        """:func:`rsqrt` in the memory of x, not to be used after it."""
    def cos(self) -> Tensor:
        """Cosine of x in radians, elementwise."""
    def cos_(self) -> Tensor:
        """:func:`cos` in the memory of x, not to be used after it."""
    def tan(self) -> Tensor:
        """Tangent of x in radians, elementwise."""
    def tan_(self) -> Tensor:
        """:func:`tan` in the memory of x, not to be used after it."""
    def asin(self) -> Tensor:
        """Inverse sine in radians, in [-pi/2, pi/2], elementwise; a real number outside [-1, 1]
        gives NaN."""
    def asin_(self) -> Tensor:
        """:func:`asin` in the memory of x, not to be used after it."""
    def acos(self) -> Tensor:
        """Inverse cosine in radians, in [0, pi], elementwise; a real number outside [-1, 1] gives
        NaN."""
    def acos_(self) -> Tensor:
        """:func:`acos` in the memory of x, not to be used after it."""
    def atan(self) -> Tensor:
        """Inverse tangent in radians, in [-pi/2, pi/2], elementwise."""
    def atan_(self) -> Tensor:
        """:func:`atan` in the memory of x, not to be used after it."""
    def sinh(self) -> Tensor:
        """Hyperbolic sine, (exp(x) - exp(-x)) / 2, elementwise."""
    def sinh_(self) -> Tensor:
        """:func:`sinh` in the memory of x, not to be used after it."""
    def cosh(self) -> Tensor:
        """Hyperbolic cosine, (exp(x) + exp(-x)) / 2, elementwise."""
    def cosh_(self) -> Tensor:
        """:func:`cosh` in the memory of x, not to be used after it."""
    def asinh(self) -> Tensor:
        """Inverse hyperbolic sine, log(x + sqrt(x ** 2 + 1)), elementwise."""
    def asinh_(self) -> Tensor:
        """:func:`asinh` in the memory of x, not to be used after it."""
    def acosh(self) -> Tensor:
        """Inverse hyperbolic cosine, log(x + sqrt(x ** 2 - 1)), elementwise; a real number below 1
        gives NaN."""
    def acosh_(self) -> Tensor:
        """:func:`acosh` in the memory of x, not to be used after it."""
    def atanh(self) -> Tensor:
        """Inverse hyperbolic tangent, log((1 + x) / (1 - x)) / 2, elementwise."""
    def atanh_(self) -> Tensor:
        """:func:`atanh` in the memory of x, not to be used after it."""
    def erf(self) -> Tensor:
        """Error function, 2 / sqrt(pi) * the integral of exp(-t ** 2) from 0 to x, elementwise."""
    def erf_(self) -> Tensor:
        """:func:`erf` in the memory of x, not to be used after it."""
    def erfc(self) -> Tensor:
        """1 - erf(x), elementwise, to the last digits where that cancels: 2 / sqrt(pi) * the
        integral of exp(-t ** 2) from x on."""
    def erfcx(self) -> Tensor:
        """exp(x ** 2) * erfc(x), elementwise, where the factors overflow and vanish too."""
    def ndtr(self) -> Tensor:
        """Probability that a standard normal variable is at most x, elementwise: erfc(-x / sqrt(2))
        / 2, without rounding x / sqrt(2)."""
    def normal_density(self) -> Tensor:
        """Density of a standard normal variable at x, elementwise: exp(-x ** 2 / 2) / sqrt(2 * pi),
        without rounding x ** 2; the slope of ndtr."""
    def log_ndtr(self) -> Tensor:
        """log(ndtr(x)), elementwise, where ndtr vanishes too."""
    def erfinv(self) -> Tensor:
        """Inverse of erf, elementwise; NaN outside [-1, 1]."""
    def erfinv_(self) -> Tensor:
        """:func:`erfinv` in the memory of x, not to be used after it."""
    def lgamma(self) -> Tensor:
        """Logarithm of the absolute value of the gamma function, elementwise."""
    def lgamma_(self) -> Tensor:
        """:func:`lgamma` in the memory of x, not to be used after it."""
    def digamma(self) -> Tensor:
        """Derivative of lgamma, elementwise."""
    def digamma_(self) -> Tensor:
        """:func:`digamma` in the memory of x, not to be used after it."""
    def polygamma(self, n: int) -> Tensor:
        """Derivative of order n of digamma, elementwise."""
    def polygamma_(self, n: int) -> Tensor:
        """:func:`polygamma` in the memory of x, not to be used after it."""
    def abs(self) -> Tensor:
        """Absolute value, elementwise; of a complex number its modulus, a real number."""
    def abs_(self) -> Tensor:
        """:func:`abs` in the memory of x, not to be used after it."""
    def sign(self) -> Tensor:
        """-1, 0 or 1 as x is below, at or above 0, elementwise; NaN at NaN. The derivative is 0. Of
        a complex number x / abs(x), and 0 at 0: its direction, which has a derivative across x."""
    def floor(self) -> Tensor:
        """The largest integer not above x, elementwise. The derivative is 0."""
    def floor_(self) -> Tensor:
        """:func:`floor` in the memory of x, not to be used after it."""
    def ceil(self) -> Tensor:
        """The smallest integer not below x, elementwise. The derivative is 0."""
    def ceil_(self) -> Tensor:
        """:func:`ceil` in the memory of x, not to be used after it."""
    def round_(self, decimals: int = 0) -> Tensor:
        """:func:`round` in the memory of x, not to be used after it."""
    def trunc(self) -> Tensor:
        """input without its fraction, elementwise. The derivative is 0."""
    def trunc_(self) -> Tensor:
        """:func:`trunc` in the memory of input, not to be used after it."""
    def maximum(self, y: TensorLike) -> Tensor:
        """The larger of x and y, elementwise; NaN if either is. At a tie each gets half the
        gradient."""
    def minimum(self, y: TensorLike) -> Tensor:
        """The smaller of x and y, elementwise; NaN if either is. At a tie each gets half the
        gradient."""
    def fmax(self, y: TensorLike) -> Tensor:
        """The larger of x and y, elementwise; the other one if one is NaN. At a tie x gets the
        gradient."""
    def fmin(self, y: TensorLike) -> Tensor:
        """The smaller of x and y, elementwise; the other one if one is NaN. At a tie x gets the
        gradient."""
    def elementwise_pow(self, y: TensorLike) -> Tensor:
        """x to the power y, elementwise. At x <= 0 the derivative to y is NaN for x < 0 and 0 at
        0."""
    def pow(self, y: ScalarLike = 1.0) -> Tensor:
        """x to the constant power y, elementwise; an int tensor to a float power is a float
        tensor."""
    def pow_(self, y: ScalarLike = 1.0) -> Tensor:
        """:func:`pow` in the memory of x, not to be used after it."""
    def atan2(self, y: TensorLike) -> Tensor:
        """Angle of the point (y, x) in radians, in [-pi, pi]: atan(x / y) in the right quadrant."""
    def remainder(self, y: TensorLike) -> Tensor:
        """x - y * floor(x / y), elementwise: the rest with the sign of y, as Python's %."""
    def remainder_(self, y: TensorLike) -> Tensor:
        """:func:`remainder` in the memory of x, not to be used after it."""
    def floor_divide(self, y: TensorLike) -> Tensor:
        """floor(x / y), elementwise, as Python's //; ints divided by 0 give 0. The derivative is
        0."""
    def floor_divide_(self, y: TensorLike) -> Tensor:
        """:func:`floor_divide` in the memory of x, not to be used after it."""
    def equal(self, y: TensorLike) -> Tensor:
        """Whether x == y, elementwise; a bool tensor."""
    def not_equal(self, y: TensorLike) -> Tensor:
        """Whether x != y, elementwise; a bool tensor."""
    def less_than(self, y: TensorLike) -> Tensor:
        """Whether x < y, elementwise; a bool tensor."""
    def less_equal(self, y: TensorLike) -> Tensor:
        """Whether x <= y, elementwise; a bool tensor."""
    def greater_than(self, y: TensorLike) -> Tensor:
        """Whether x > y, elementwise; a bool tensor."""
    def greater_equal(self, y: TensorLike) -> Tensor:
        """Whether x >= y, elementwise; a bool tensor."""
    def logical_and(self, y: TensorLike) -> Tensor:
        """x and y, elementwise, of truth values (nonzero is true); a bool tensor."""
    def logical_and_(self, y: TensorLike) -> Tensor:
        """:func:`logical_and` in the memory of x, not to be used after it."""
    def logical_or(self, y: TensorLike) -> Tensor:
        """x or y, elementwise, of truth values (nonzero is true); a bool tensor."""
    def logical_or_(self, y: TensorLike) -> Tensor:
        """:func:`logical_or` in the memory of x, not to be used after it."""
    def logical_xor(self, y: TensorLike) -> Tensor:
        """x xor y, elementwise, of truth values (nonzero is true); a bool tensor."""
    def logical_xor_(self, y: TensorLike) -> Tensor:
        """:func:`logical_xor` in the memory of x, not to be used after it."""
    def logical_not(self) -> Tensor:
        """Whether x is zero (false), elementwise; a bool tensor."""
    def logical_not_(self) -> Tensor:
        """:func:`logical_not` in the memory of x, not to be used after it."""
    def bitwise_and(self, y: TensorLike) -> Tensor:
        """x & y, bit by bit, elementwise."""
    def bitwise_and_(self, y: TensorLike) -> Tensor:
        """:func:`bitwise_and` in the memory of x, not to be used after it."""
    def bitwise_or(self, y: TensorLike) -> Tensor:
        """x | y, bit by bit, elementwise."""
    def bitwise_or_(self, y: TensorLike) -> Tensor:
        """:func:`bitwise_or` in the memory of x, not to be used after it."""
    def bitwise_xor(self, y: TensorLike) -> Tensor:
        """x ^ y, bit by bit, elementwise."""
    def bitwise_xor_(self, y: TensorLike) -> Tensor:
        """:func:`bitwise_xor` in the memory of x, not to be used after it."""
    def bitwise_not(self) -> Tensor:
        """Every bit of x flipped, elementwise; of a bool, its negation."""
    def bitwise_not_(self) -> Tensor:
        """:func:`bitwise_not` in the memory of x, not to be used after it."""
    def bitwise_left_shift(self, y: TensorLike, is_arithmetic: bool = True) -> Tensor:
        """x * 2 ** y by shifting the bits of x, elementwise; what is shifted out is lost,
        is_arithmetic or not."""
    def bitwise_left_shift_(self, y: TensorLike, is_arithmetic: bool = True) -> Tensor:
        """:func:`bitwise_left_shift` in the memory of x, not to be used after it."""
    def bitwise_right_shift(self, y: TensorLike, is_arithmetic: bool = True) -> Tensor:
        """x // 2 ** y by shifting the bits of x, elementwise; signed ints keep their sign, unless
        is_arithmetic is false: then zeros come in."""
    def bitwise_right_shift_(self, y: TensorLike, is_arithmetic: bool = True) -> Tensor:
        """:func:`bitwise_right_shift` in the memory of x, not to be used after it."""
    def isnan(self) -> Tensor:
        """Whether x is NaN, elementwise; a bool tensor."""
    def isinf(self) -> Tensor:
        """Whether x is infinite, elementwise; a bool tensor."""
    def isfinite(self) -> Tensor:
        """Whether x is neither infinite nor NaN, elementwise; a bool tensor."""
    def where_(self, x: TensorLike, y: TensorLike) -> Tensor:
        """:func:`where` in the memory of x, not to be used after it."""
    def cast(self, dtype: DTypeLike) -> Tensor:
        """The values of x converted to dtype, elementwise; to bool: x != 0."""
    def cast_(self, dtype: DTypeLike) -> Tensor:
        """:func:`cast` in the memory of x, not to be used after it."""
    def scale(
        self,
        scale: ScalarLike = 1.0,
        bias: ScalarLike = 0.0,
        bias_after_scale: bool = True,
    ) -> Tensor:
        """scale * x + bias, or scale * (x + bias) if not bias_after_scale, elementwise; for ints
        both numbers lose their fraction first."""
    def scale_(
        self,
        scale: ScalarLike = 1.0,
        bias: ScalarLike = 0.0,
        bias_after_scale: bool = True,
    ) -> Tensor:
        """:func:`scale` in the memory of x, not to be used after it."""
    def complex(self, imag: TensorLike) -> Tensor:
        """real + 1j * imag, elementwise."""
    def max_pool2d(
        self,
        kernel_size: IntArrayLike,
        strides: IntArrayLike | None = (),
        paddings: IntArrayLike = (0, 0),
        ceil_mode: bool = False,
        data_format: str = 'NCHW',
        padding_algorithm: str = 'EXPLICIT',
    ) -> Tensor:
        """The largest element of each window of images; padding never wins, and ties share the
        gradient. Without strides the windows lie side by side; ceil_mode keeps windows that begin
        before the image ends and reach out behind."""
    def avg_pool2d(
        self,
        kernel_size: IntArrayLike,
        strides: IntArrayLike | None = (),
        paddings: IntArrayLike = (0, 0),
        ceil_mode: bool = False,
        exclusive: bool = True,
        data_format: str = 'NCHW',
        padding_algorithm: str = 'EXPLICIT',
    ) -> Tensor:
        """The mean of each window of images; exclusive leaves the padding out of the count. Without
        strides the windows lie side by side; ceil_mode keeps windows that begin before the image
        ends and reach out behind."""
    def max_pool3d(
        self,
        kernel_size: IntArrayLike,
        strides: IntArrayLike | None = (),
        paddings: IntArrayLike = (0, 0, 0),
        ceil_mode: bool = False,
        data_format: str = 'NCDHW',
        padding_algorithm: str = 'EXPLICIT',
    ) -> Tensor:
        """The largest element of each window of volumes; padding never wins, and ties share the
        gradient. Without strides the windows lie side by side; ceil_mode keeps windows that begin
        before the image ends and reach out behind."""
    def avg_pool3d(
        self,
        kernel_size: IntArrayLike,
        strides: IntArrayLike | None = (),
        paddings: IntArrayLike = (0, 0, 0),
        ceil_mode: bool = False,
        exclusive: bool = True,
        data_format: str = 'NCDHW',
        padding_algorithm: str = 'EXPLICIT',
    ) -> Tensor:
        """The mean of each window of volumes; exclusive leaves the padding out of the count.
        Without strides the windows lie side by side; ceil_mode keeps windows that begin before the
        image ends and reach out behind."""
    def pool2d(
        self,
        kernel_size: IntArrayLike,
        strides: IntArrayLike,
        paddings: IntArrayLike,
        ceil_mode: bool,
        exclusive: bool,
        data_format: str,
        pooling_type: str,
        global_pooling: bool,
        adaptive: bool,
        padding_algorithm: str,
    ) -> Tensor:
        """:func:`max_pool2d` or :func:`avg_pool2d` by pooling_type (max, avg). global_pooling takes
        the whole image for one window; adaptive reads kernel_size as the number of windows, window
        i from floor(i * size / n) up to ceil((i + 1) * size / n)."""
    def pool3d(
        self,
        kernel_size: IntArrayLike,
        strides: IntArrayLike,
        paddings: IntArrayLike,
        ceil_mode: bool,
        exclusive: bool,
        data_format: str,
        pooling_type: str,
        global_pooling: bool,
        adaptive: bool,
        padding_algorithm: str,
    ) -> Tensor:
        """:func:`max_pool3d` or :func:`avg_pool3d` by pooling_type (max, avg); all else as
        :func:`pool2d`."""
    def lp_pool2d(
        self,
        kernel_size: IntArrayLike,
        strides: IntArrayLike = (1, 1),
        paddings: IntArrayLike = (0, 0),
        ceil_mode: bool = False,
        exclusive: bool = True,
        data_format: str = 'NCHW',
        pooling_type: str = '',
        global_pooling: bool = False,
        adaptive: bool = False,
        padding_algorithm: str = 'EXPLICIT',
        norm_type: FloatLike = 0.0,
    ) -> Tensor:
        """(sum of x ** norm_type) ** (1 / norm_type) of each window of images; where the sum is 0,
        it and its gradient are 0. Windows as in :func:`pool2d`; norm_type must be given. exclusive
        and pooling_type say nothing here."""
    def max_pool2d_with_index(
        self,
        kernel_size: IntArrayLike,
        strides: IntArrayLike = (1, 1),
        paddings: IntArrayLike = (0, 0),
        global_pooling: bool = False,
        adaptive: bool = False,
        ceil_mode: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """The largest element of each window of images [n, c, ...], and its number on its image, in
        int32: of equal ones the first, which has all the gradient. global_pooling and adaptive as
        in :func:`pool2d`."""
    def fractional_max_pool2d(
        self,
        output_size: IntArrayLike,
        kernel_size: IntArrayLike = (0, 0),
        random_u: FloatLike = 0.0,
        return_mask: bool = True,
    ) -> tuple[Tensor, Tensor]:
        """The largest elements of output_size windows of images [n, c, ...], and their numbers as
        in :func:`max_pool2d_with_index`. The windows, disjoint or of kernel_size, begin at floor((i
        + u) * a) - floor(u * a), a = size / n or (size - kernel) / (n - 1); u is random_u, between
        0 and 1 (0, Paddle's for a number of its own, is refused), made smaller for disjoint
        windows. return_mask says nothing here."""
    def max_pool3d_with_index(
        self,
        kernel_size: IntArrayLike,
        strides: IntArrayLike = (1, 1, 1),
        paddings: IntArrayLike = (0, 0, 0),
        global_pooling: bool = False,
        adaptive: bool = False,
        ceil_mode: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """The largest element of each window of volumes [n, c, ...], and its number on its volume,
        in int32: of equal ones the first, which has all the gradient. global_pooling and adaptive
        as in :func:`pool3d`."""
    def fractional_max_pool3d(
        self,
        output_size: IntArrayLike,
        kernel_size: IntArrayLike = (0, 0, 0),
        random_u: FloatLike = 0.0,
        return_mask: bool = True,
    ) -> tuple[Tensor, Tensor]:
        """The largest elements of output_size windows of volumes [n, c, ...], and their numbers as
        in :func:`max_pool3d_with_index`. The windows, disjoint or of kernel_size, begin at floor((i
        + u) * a) - floor(u * a), a = size / n or (size - kernel) / (n - 1); u is random_u, between
        0 and 1 (0, Paddle's for a number of its own, is refused), made smaller for disjoint
        windows. return_mask says nothing here."""
    def unpool(
        self,
        indices: TensorLike,
        ksize: IntArrayLike,
        strides: IntArrayLike,
        padding: IntArrayLike,
        output_size: IntArrayLike,
        data_format: str,
    ) -> Tensor:
        """Images of zeros with the elements of x [n, c, height, width] at the places that indices
        number, as :func:`max_pool2d_with_index` gives them; of output_size, or (size - 1) * stride
        - 2 * padding + ksize where that is empty."""
    def unpool3d(
        self,
        indices: TensorLike,
        ksize: IntArrayLike,
        strides: IntArrayLike = (1, 1, 1),
        paddings: IntArrayLike = (0, 0, 0),
        output_size: IntArrayLike = (0, 0, 0),
        data_format: str = 'NCDHW',
    ) -> Tensor:
        """:func:`unpool` of volumes; an output_size of zeros is as none."""
    def maxout(self, groups: int, axis: int = 1) -> Tensor:
        """The largest of each groups neighbouring channels, out[c] = max of x[c * groups + i] along
        axis."""
    def generate_proposals(
        self,
        bbox_deltas: TensorLike,
        im_shape: TensorLike,
        anchors: TensorLike,
        variances: TensorLike,
        pre_nms_top_n: int,
        post_nms_top_n: int,
        nms_thresh: FloatLike,
        min_size: FloatLike,
        eta: FloatLike,
        pixel_offset: bool = True,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Of each image the pre_nms_top_n best anchors by scores [images, anchors, height, width]
        are moved by bbox_deltas times variances, clipped to im_shape (height, width), and stay if
        their sides reach min_size and 1; :func:`nms` by nms_thresh, which shrinks by eta, leaves
        the post_nms_top_n best [boxes, 4], their scores, and how many each image has. An image that
        keeps none has a box of zeros."""
    def distribute_fpn_proposals(
        self,
        rois_num: TensorLike | None,
        min_level: int,
        max_level: int,
        refer_level: int,
        refer_scale: int,
        pixel_offset: bool,
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], Tensor]:
        """Boxes [n, 4] sorted by level, floor(refer_level + log2(sqrt(area) / refer_scale + 1e-6))
        within min_level and max_level: those of each level, how many of them each image has, and
        for each box its place in all levels behind each other, [n, 1]. rois_num [images] are the
        boxes in a row of each image; absent, all are of one. With pixel_offset the last pixel
        belongs to a box."""
    def fake_quantize_abs_max(
        self,
        bit_length: int = 8,
        round_type: int = 1,
    ) -> tuple[Tensor, Tensor]:
        """The ints, as floats, nearest to x * (2 ** (bit_length - 1) - 1) / s, where s =
        max(abs(x)) is out_scale [1]. Halves go to the even neighbour (round_type 0) or away from 0
        (1)."""
    def fake_quantize_dequantize_abs_max(
        self,
        bit_length: int = 8,
        round_type: int = 1,
    ) -> tuple[Tensor, Tensor]:
        """What :func:`fake_quantize_abs_max` gives, times out_scale / (2 ** (bit_length - 1) - 1):
        x as its ints hold it. The gradient passes as if nothing were rounded."""
    def fake_channel_wise_quantize_abs_max(
        self,
        bit_length: int = 8,
        round_type: int = 1,
        quant_axis: int = 0,
        is_test: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """:func:`fake_quantize_abs_max` with a scale for each position along quant_axis, 0 or 1, in
        out_scale [channels]. is_test says nothing: the scales are always those of x."""
    def fake_channel_wise_quantize_dequantize_abs_max(
        self,
        bit_length: int = 8,
        round_type: int = 1,
        quant_axis: int = 0,
    ) -> tuple[Tensor, Tensor]:
        """:func:`fake_quantize_dequantize_abs_max` with a scale for each position along quant_axis,
        0 or 1, in out_scale [channels]. The gradient passes as if nothing were rounded."""
    def fake_quantize_moving_average_abs_max(
        self,
        in_scale: TensorLike,
        in_accum: TensorLike | None = None,
        in_state: TensorLike | None = None,
        moving_rate: FloatLike = 0.9,
        bit_length: int = 8,
        is_test: bool = False,
        round_type: int = 1,
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """:func:`fake_quantize_abs_max` with a scale from many batches: out_accum / out_state with
        out_state = moving_rate * in_state + 1 and out_accum = moving_rate * in_accum + max(abs(x));
        an in_state or in_accum left out counts as 1 and in_scale. In tests the scale is in_scale,
        and the states stay."""
    def fake_quantize_moving_average_abs_max_(
        self,
        in_scale: TensorLike,
        in_accum: TensorLike | None = None,
        in_state: TensorLike | None = None,
        moving_rate: FloatLike = 0.9,
        bit_length: int = 8,
        is_test: bool = False,
        round_type: int = 1,
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """:func:`fake_quantize_moving_average_abs_max` in the memory of in_scale, not to be used
        after it."""
    def fake_quantize_dequantize_moving_average_abs_max(
        self,
        in_scale: TensorLike,
        in_accum: TensorLike | None = None,
        in_state: TensorLike | None = None,
        moving_rate: FloatLike = 0.9,
        bit_length: int = 8,
        is_test: bool = False,
        round_type: int = 1,
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """What :func:`fake_quantize_moving_average_abs_max` gives, times out_scale / (2 **
        (bit_length - 1) - 1). The gradient passes to x as if nothing were rounded."""
    def fake_quantize_dequantize_moving_average_abs_max_(
        self,
        in_scale: TensorLike,
        in_accum: TensorLike | None = None,
        in_state: TensorLike | None = None,
        moving_rate: FloatLike = 0.9,
        bit_length: int = 8,
        is_test: bool = False,
        round_type: int = 1,
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """:func:`fake_quantize_dequantize_moving_average_abs_max` in the memory of in_scale, not to
        be used after it."""
    def fake_quantize_range_abs_max(
        self,
        in_scale: TensorLike,
        iter: TensorLike | None = None,
        window_size: int = 10000,
        bit_length: int = 8,
        is_test: bool = False,
        round_type: int = 1,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """:func:`fake_quantize_abs_max` with the larger of max(abs(x)) and in_scale as the scale;
        in tests in_scale. out_scales [window_size] has max(abs(x)) at iter % window_size and 0
        elsewhere: the window itself, which PHI keeps in its output from call to call, is the
        caller's to keep."""
    def fake_quantize_range_abs_max_(
        self,
        in_scale: TensorLike,
        iter: TensorLike | None = None,
        window_size: int = 10000,
        bit_length: int = 8,
        is_test: bool = False,
        round_type: int = 1,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """:func:`fake_quantize_range_abs_max` in the memory of in_scale, not to be used after
        it."""
    def fake_dequantize_max_abs(self, scale: TensorLike, max_range: FloatLike) -> Tensor:
        """x * scale / max_range, elementwise, for ints, as floats too, and a scale of one
        element."""
    def fake_channel_wise_dequantize_max_abs(
        self,
        scales: Sequence[TensorLike],
        quant_bits: IntArrayLike = (8,),
        quant_axis: int = 0,
        x_num_col_dims: int = 1,
    ) -> Tensor:
        """x * scales[0] / (2 ** (quant_bits[0] - 1) - 1), the scales seen along quant_axis. With a
        second scale, of one element, they are seen along x_num_col_dims, and the result is times
        scales[1] / (2 ** (quant_bits[1] - 1) - 1) too."""
    def dequantize_abs_max(self, scale: TensorLike, max_range: FloatLike) -> Tensor:
        """x * scale / max_range in the dtype of scale, elementwise; scale has one element."""
    def dequantize_log(self, dict: TensorLike) -> Tensor:
        """dict[x] where x is 0 or more, -dict[x + 128] below, elementwise; dict is [128]."""
    def apply_per_channel_scale(self, scales: TensorLike) -> Tensor:
        """x * scales, for x [rows, channels] and scales [channels]."""
    def all_to_allv(self, counts: TensorLike, axis_name: str, rows: DimLike) -> Tensor:
        """The first counts[0] rows of every lane's x in lane 0, the next counts[1] in lane 1, and
        so on: [rows, ...] of what comes, by the lane that it is from, with zeros behind. Counts are
        0 or more, no lane sends more rows than it has, and rows is as many as come to any;
        phix.ragged_all_to_all looks at that."""
    def ragged_all_to_all(
        self,
        output: TensorLike,
        input_offsets: TensorLike,
        send_sizes: TensorLike,
        output_offsets: TensorLike,
        recv_sizes: TensorLike,
        axis_name: str,
    ) -> Tensor:
        """phix.ragged_all_to_all: slices of operand, one to each part, at places of output
        there."""
    def mish(self, lambda_: FloatLike) -> Tensor:
        """x * tanh(log(1 + exp(x))), elementwise, without overflow; x * tanh(x) where x is above
        the threshold lambda."""
    def selu(
        self,
        scale: FloatLike = 1.0507009873554805,
        alpha: FloatLike = 1.6732632423543772,
    ) -> Tensor:
        """scale * x above 0, else scale * alpha * (exp(x) - 1), elementwise; the slope at 0 is
        scale * alpha."""
    def celu(self, alpha: FloatLike = 1.0) -> Tensor:
        """x above 0, else alpha * (exp(x / alpha) - 1), elementwise; the slope at 0 is 1. alpha is
        not 0."""
    def prelu(self, alpha: TensorLike, data_format: str = 'NCHW', mode: str = 'all') -> Tensor:
        """x above 0, else alpha * x, elementwise. alpha has one number (mode all), one a channel
        (mode channel; the channels are axis 1, or the last one in NHWC), or one for each element of
        a sample (mode element: its shape is that of x with a 1 for the first dim, or without that
        dim)."""
    def softshrink(self, threshold: FloatLike = 0.5) -> Tensor:
        """x - threshold above the threshold, x + threshold below -threshold, 0 between,
        elementwise; NaN stays. The threshold is not negative."""
    def hardshrink(self, threshold: FloatLike = 0.5) -> Tensor:
        """x where abs(x) is above the threshold, else 0, elementwise; NaN stays."""
    def tanh_shrink(self) -> Tensor:
        """x - tanh(x), elementwise, to the last digits where the two cancel."""
    def thresholded_relu(self, threshold: FloatLike = 1.0, value: FloatLike = 0.0) -> Tensor:
        """x above the threshold, else value, elementwise; NaN stays. The slope at the threshold is
        0."""
    def thresholded_relu_(self, threshold: FloatLike = 1.0, value: FloatLike = 0.0) -> Tensor:
        """:func:`thresholded_relu` in the memory of x, not to be used after it."""
    def stanh(self, scale_a: FloatLike = 0.67, scale_b: FloatLike = 1.7159) -> Tensor:
        """scale_b * tanh(scale_a * x), elementwise."""
    def rnn(
        self,
        pre_state: Sequence[TensorLike],
        weight_list: Sequence[TensorLike],
        sequence_length: TensorLike | None,
        dropout_state_in: TensorLike,
        dropout_prob: FloatLike = 0.0,
        is_bidirec: bool = False,
        input_size: int = 10,
        hidden_size: int = 100,
        num_layers: int = 1,
        mode: str = 'RNN_TANH',
        seed: int = 0,
        is_test: bool = False,
    ) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        """Layers of LSTM, GRU, RNN_TANH or RNN_RELU cells along the first axis of x, [time, batch,
        input_size]; states are [num_layers * directions, batch, hidden_size], h and for LSTM c.
        weight_list has w_ih [gates * hidden_size, in] and w_hh of each layer and direction, then
        all b_ih and b_hh; the gates are i, f, g, o (LSTM) or r, z, n (GRU). Behind its
        sequence_length a sequence gives 0 and its state stays. Between layers dropout_prob of the
        elements are 0 in training, drawn from the key dropout_state_in (any tensor where nothing is
        drawn); dropout_state_out is a fresh key then. reserve is empty and seed says nothing
        here."""
    def cudnn_lstm(
        self,
        init_h: TensorLike,
        init_c: TensorLike,
        w: TensorLike | None = None,
        weight_list: Sequence[TensorLike] | None = None,
        sequence_length: TensorLike | None = None,
        dropout_prob: FloatLike = 0.0,
        is_bidirec: bool = False,
        hidden_size: int = 100,
        num_layers: int = 1,
        is_test: bool = False,
        seed: int = 0,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The layers of rnn in mode LSTM, their weights in weight_list, as rnn has them, or all of
        these one behind the other in w. Dropout between layers is drawn from the key of seed, which
        must not be 0 then; state_out is a key, and reserve is empty."""
    def lstm(
        self,
        h0: TensorLike | None,
        c0: TensorLike | None,
        weight: TensorLike,
        bias: TensorLike,
        use_peepholes: bool = True,
        is_reverse: bool = False,
        is_test: bool = False,
        gate_activation: str = 'sigmoid',
        cell_activation: str = 'tanh',
        candidate_activation: str = 'tanh',
    ) -> tuple[Tensor, Tensor]:
        """An LSTM along one sequence whose product with the input is made already, input [time, 4 *
        size] in the order candidate, i, f, o: c = f * c + i * g and h = o * act(c), with weight
        [size, 4 * size] on h and bias [1, 4 * size], or [1, 7 * size] with peepholes: weights on c
        for i and f, and on the new c for o. hidden and cell are [time, size]; is_reverse goes from
        the end."""
    def gru(
        self,
        h0: TensorLike | None,
        weight: TensorLike,
        bias: TensorLike | None = None,
        activation: str = 'tanh',
        gate_activation: str = 'sigmoid',
        is_reverse: bool = False,
        origin_mode: bool = False,
        is_test: bool = False,
    ) -> Tensor:
        """A GRU along one sequence whose product with the input is made already, input [time, 3 *
        size] in the order u, r, candidate: c = act(x_c + (r * h) @ w_c) and h = (1 - u) * h + u *
        c, or u * h + (1 - u) * c in origin_mode. The memory of weight, [size, 3 * size], holds the
        matrix [size, 2 * size] of the gates and then w_c [size, size]."""
    def gru_unit(
        self,
        hidden_prev: TensorLike,
        weight: TensorLike,
        bias: TensorLike | None = None,
        activation: int = 2,
        gate_activation: int = 1,
        origin_mode: bool = False,
    ) -> Tensor:
        """One step of gru for a batch of rows, input [batch, 3 * size] and hidden_prev [batch,
        size]. Activations are numbers: 0 identity, 1 sigmoid, 2 tanh, 3 relu."""
    def attention_lstm(
        self,
        c0: TensorLike,
        h0: TensorLike | None,
        attention_weight: TensorLike,
        attention_bias: TensorLike | None,
        attention_scalar: TensorLike | None,
        attention_scalar_bias: TensorLike | None,
        lstm_weight: TensorLike,
        lstm_bias: TensorLike,
        gate_activation: str = 'sigmoid',
        cell_activation: str = 'tanh',
        candidate_activation: str = 'tanh',
    ) -> tuple[Tensor, Tensor]:
        """An LSTM along one sequence x [time, width] that sees at each step a mean of all rows of
        x, their weights softmax(relu(scalar * relu([x, c] @ attention_weight + bias) +
        scalar_bias)). lstm_weight [size + width, 4 * size] is for h and then for that mean, its
        gates f, i, o, candidate."""
    def amax(self, axis: IntArrayLike | None = (), keepdim: bool = False) -> Tensor:
        """Largest element over the axes, as :func:`max`: ties share the gradient."""
    def amin(self, axis: IntArrayLike | None = (), keepdim: bool = False) -> Tensor:
        """Smallest element over the axes, as :func:`min`: ties share the gradient."""
    def mean_all(self) -> Tensor:
        """Mean of all elements."""
    def reduce_as(self, target: TensorLike) -> Tensor:
        """x summed over the axes that broadcasting target to the shape of x adds or stretches."""
    def cumprod_(self, dim: int, exclusive: bool = False, reverse: bool = False) -> Tensor:
        """:func:`cumprod` in the memory of x, not to be used after it."""
    def linear_recurrence(self, x: TensorLike, axis: int = -1, reverse: bool = False) -> Tensor:
        """out_k = a_k * out_{k-1} + x_k along the axis, from out_0 = x_0 (a_0 is not used);
        reverse: from the end, out_k = a_k * out_{k+1} + x_k."""
    def roi_align(
        self,
        boxes: TensorLike,
        boxes_num: TensorLike | None = None,
        pooled_height: int = 1,
        pooled_width: int = 1,
        spatial_scale: FloatLike = 1.0,
        sampling_ratio: int = -1,
        aligned: bool = False,
    ) -> Tensor:
        """For each box (left, top, right, bottom) times spatial_scale, pooled_height * pooled_width
        bins, each the mean of sampling_ratio ** 2 points of the image, read by linear
        interpolation: [boxes, channels, pooled_height, pooled_width]. sampling_ratio up to 0: as
        many points as a bin is large. aligned moves boxes by half a pixel, else they are one pixel
        large at least. Points more than a pixel outside count as 0. boxes_num says how many boxes
        each image has. There is no gradient to boxes."""
    def roi_pool(
        self,
        boxes: TensorLike,
        boxes_num: TensorLike | None = None,
        pooled_height: int = 1,
        pooled_width: int = 1,
        spatial_scale: FloatLike = 1.0,
    ) -> tuple[Tensor, Tensor]:
        """For each box, its corners times spatial_scale and rounded, pooled_height * pooled_width
        bins, each the largest element of the positions it touches; 0 if there are none. arg_max is
        where that is, row * width + column, or -1. The gradient goes to the first of equal ones;
        see :func:`roi_align`."""
    def psroi_pool(
        self,
        boxes: TensorLike,
        boxes_num: TensorLike | None = None,
        pooled_height: int = 1,
        pooled_width: int = 1,
        output_channels: int = 1,
        spatial_scale: FloatLike = 1.0,
    ) -> Tensor:
        """For each box, pooled_height * pooled_width bins, each the mean of the positions it
        touches, in channels of its own: x has channel c * bins + b for output channel c and bin b.
        A bin without positions is 0. There is no gradient to boxes; see :func:`roi_align`."""
    def scatter_rows(
        self,
        local_count: TensorLike,
        axis_name: str,
        rows: DimLike,
        drops: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """phix.parallel.global_scatter: the rows that all parts send to the experts of this one."""
    def gather_rows(
        self,
        local_count: TensorLike,
        axis_name: str,
        rows: DimLike,
        drops: bool = False,
    ) -> Tensor:
        """phix.parallel.global_gather: the rows that scatter_rows has sent, back where they came
        from."""
    def global_scatter(
        self,
        local_count: TensorLike,
        global_count: TensorLike,
        ring_id: int = 0,
    ) -> Tensor:
        """The rows that all processes of the ring send to the experts of this one, by expert, then
        by the process that they are from. local_count has how many of the rows of x go to each
        expert, the first ones to expert 0 of process 0; global_count, which all_to_all makes of it,
        how many come. out has as many rows as come to any of the processes, so that its shape is
        the same on all; behind what comes are zeros. phix.parallel.global_scatter takes the
        number."""
    def global_gather(
        self,
        local_count: TensorLike,
        global_count: TensorLike,
        ring_id: int = 0,
    ) -> Tensor:
        """The rows that global_scatter has sent, back where they came from, in their order: as many
        as come back to any of the processes, and zeros behind those of this one.
        phix.parallel.global_gather takes their number."""
    def true_positions(self, size: DimLike, fill: DimLike = 0, lead: int = 0) -> Tensor:
        """The flat positions, an int64 each, of the first `size` true elements of mask in order,
        and `fill` behind them where there are fewer. The first `lead` axes count masks, each of
        which has its own."""
    def masked_select(self, mask: TensorLike) -> Tensor:
        """The elements of x where the bool tensor mask is true, in order, as one axis; x and mask
        are broadcast to each other."""
    def repeat_interleave_with_tensor_index(self, repeats: TensorLike, axis: int) -> Tensor:
        """The slices of x along axis, the k-th of them repeats[k] times in a row; one number of
        repeats is for all. Negative numbers raise."""
    def bincount(self, weights: TensorLike | None = None, minlength: ScalarLike = 0) -> Tensor:
        """How often each of 0, 1, ..., max(x) comes in the ints x, or the sum of the weights there:
        at least minlength entries, int64s or of the dtype of float weights. A negative int
        raises."""
    def shuffle_batch(
        self,
        seed: TensorLike,
        startup_seed: int = 0,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The rows of x along its last axis in random order, which shuffle_idx holds: row i of out
        is row shuffle_idx[i] of x. seed is a key, uint32[2], and seed_out the next one;
        startup_seed says nothing here."""
    def warpctc(
        self,
        label: TensorLike,
        logits_length: TensorLike | None = None,
        labels_length: TensorLike | None = None,
        blank: int = 0,
        norm_by_times: bool = False,
    ) -> Tensor:
        """CTC: -log of the probability, by softmax(logits), logits [time, batch, classes], of all
        paths that give the label once repeats are merged and blanks dropped; loss is [batch, 1],
        inf with derivative 0 where there is none, NaN where a label is blank or no class, or a
        length is too large. label is [batch, most]; absent lengths are the whole axes.
        norm_by_times divides the derivative, not the loss, by the number of steps."""
    def warprnnt(
        self,
        label: TensorLike,
        input_lengths: TensorLike,
        label_lengths: TensorLike,
        blank: int = 0,
        fastemit_lambda: FloatLike = 0.0,
    ) -> Tensor:
        """RNN-T: -log of the sum over all ways through the lattice of time and labels, input
        [batch, time, most + 1, classes] being log-probabilities (log_softmax of scores), label
        [batch, most]: blank goes on in time, a label to the next node, and blank leaves at the end.
        loss is [batch], NaN where a label is no class or a length is too large. fastemit_lambda
        makes derivatives through labels 1 + fastemit_lambda times as large, not the loss."""
    def ctc_align(
        self,
        input_length: TensorLike | None = None,
        blank: int = 0,
        merge_repeated: bool = True,
        padding_value: int = 0,
    ) -> tuple[Tensor, Tensor | None]:
        """The label that each path of input [batch, time] stands for: repeats merged, blanks
        dropped, then padding_value; and its lengths, [batch, 1]."""
    def edit_distance(
        self,
        refs: TensorLike,
        hypslength: TensorLike | None = None,
        refslength: TensorLike | None = None,
        normalized: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """Levenshtein distance: how many insertions, deletions and substitutions make the row of
        hyps that of refs, float32 [batch, 1], divided by the length of refs if normalized; NaN
        where a length is too large. sequencenum is the batch, int64[1]."""
    def viterbi_decode(
        self,
        transition_params: TensorLike,
        lengths: TensorLike,
        include_bos_eos_tag: bool = True,
    ) -> tuple[Tensor, Tensor]:
        """The tags [batch, time] whose sum of potentials [batch, time, tags] and of
        transition_params[from, to] is largest, and that sum, [batch]. With include_bos_eos_tag the
        last row of transition_params is added at the first step, the one before it at the last.
        Behind lengths the path is 0."""
    def crf_decoding(
        self,
        transition: TensorLike,
        label: TensorLike | None = None,
        length: TensorLike | None = None,
    ) -> Tensor:
        """The best tags of emission [batch, time, tags] of these lengths, int64[batch, time], 0
        behind the end, or of one sequence [time, tags], as [time, 1]. transition holds what is
        added at the first step, at the last, and from tag to tag: [2 + tags, tags]. Given a label,
        1 where it agrees with the best path."""
    def gather_tree(self, parents: TensorLike) -> Tensor:
        """The sequences of a beam search, [time, batch, beams]: from the last step back, each beam
        follows the parents, and takes the ids on its way. A parent that is no beam raises
        TensorIndexError where the call runs at once; compiled programs take the nearest."""
    def sequence_mask(self, max_len: ScalarLike, out_dtype: DTypeLike) -> Tensor:
        """y[..., j] = 1 where j < x[...], else 0, for j below max_len, a number or a tensor:
        x.max() for the largest of x."""
    def match_matrix_tensor(
        self,
        y: TensorLike,
        w: TensorLike,
        dim_t: int = 1,
    ) -> tuple[Tensor, Tensor]:
        """x[i] @ w[:, t] @ y[j] for each t of dim_t, row i of x [rows, width] and row j of y, in
        this order, as [dim_t * rows * columns, 1]; and tmp, x @ w as [rows, dim_t * width]. w is
        [width, dim_t, width]."""
    def chunk_eval(
        self,
        label: TensorLike,
        seq_length: TensorLike | None,
        num_chunk_types: int,
        chunk_scheme: str = 'IOB',
        excluded_chunk_types: IntArrayLike | None = (),
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        """How many chunks of label inference finds: precision, recall and their harmonic mean,
        float32[1], and the numbers of chunks, int64[1]. A tag is type * tags + position; the
        positions are begin, inside (IOB), inside, end (IOE), begin, inside, end, single (IOBES) or
        one alone (plain), and num_chunk_types * tags is outside. Tensors are [batch, time, 1] with
        seq_length, else one sequence. A tag beyond raises TensorIndexError where the call runs at
        once."""
    def sequence_pool(
        self,
        is_test: bool = False,
        pooltype: str = 'AVERAGE',
        pad_value: FloatLike = 0.0,
    ) -> Tensor:
        """One row of the rows of a sequence x [time, width]: their SUM, AVERAGE, sum over the root
        of their number (SQRT), the MAX of each column, the FIRST or the LAST; pad_value where there
        is no row."""
    def sequence_conv(
        self,
        padding_data: TensorLike | None,
        filter: TensorLike,
        context_length: int,
        padding_trainable: bool = False,
        context_start: int = 0,
        context_stride: int = 1,
    ) -> Tensor:
        """Rows t + context_start to t + context_start + context_length - 1 of a sequence x [time,
        width] side by side, times filter [context_length * width, out], for each t. Above and below
        x lie zeros, or with padding_trainable the rows of padding_data. context_stride is 1."""
    def im2sequence(
        self,
        y: TensorLike | None,
        kernels: IntArrayLike,
        strides: IntArrayLike = (1, 1),
        paddings: IntArrayLike = (0, 0, 0, 0),
        out_stride: IntArrayLike = (1, 1),
    ) -> Tensor:
        """The windows of images x [batch, channels, height, width] as rows, from left to right and
        down, image after image: [batch * windows, channels * window]. paddings are zeros above,
        left, below and right. y and out_stride are for images of different sizes, which are
        refused."""
    def split_with_num(self, num: int, axis: ScalarLike = 0) -> tuple[Tensor, ...]:
        """x cut along axis into num equal parts."""
    def slice(
        self,
        axes: IntArrayLike,
        starts: IntArrayLike,
        ends: IntArrayLike,
        infer_flags: IntArrayLike | None = (),
        decrease_axis: IntArrayLike | None = (),
    ) -> Tensor:
        """The elements from starts[i] up to ends[i] along axes[i], clipped to the axis, negative
        bounds counted from its end; axes in decrease_axis, of which one element is left, are
        dropped."""
    def strided_slice(
        self,
        axes: IntArrayLike,
        starts: IntArrayLike,
        ends: IntArrayLike,
        strides: IntArrayLike,
    ) -> Tensor:
        """Every strides[i]-th element from starts[i] up to ends[i] along axes[i], bounds as in a
        Python slice; a negative stride walks backward."""
    def slice_put(
        self,
        value: TensorLike,
        axes: IntArrayLike,
        starts: IntArrayLike,
        ends: IntArrayLike,
        strides: IntArrayLike | None = (),
        accumulate: bool = False,
    ) -> Tensor:
        """x with value, which broadcasts, in place of the elements that strided_slice takes at
        these bounds, or added to them if accumulate; no strides: 1 for each axis."""
    def pad(self, paddings: IntArrayLike, pad_value: ScalarLike = 0) -> Tensor:
        """x with pad_value added: paddings[2i] elements before and paddings[2i + 1] behind axis i;
        negative numbers cut."""
    def flip(self, axis: IntArrayLike) -> Tensor:
        """x with the order along each of axis turned round."""
    def roll(self, shifts: IntArrayLike | None = (), axis: IntArrayLike | None = ()) -> Tensor:
        """x moved by shifts[i] places along axis[i]; what leaves at one end comes in at the other.
        Without axis the elements are moved in C order."""
    def squeeze_(self, axis: IntArrayLike | None = ()) -> Tensor:
        """:func:`squeeze` in the memory of x, not to be used after it."""
    def unsqueeze(self, axis: IntArrayLike | None = ()) -> Tensor:
        """x with axes of one element put in one after the other, each at its place in axis among
        those that are there by then."""
    def unsqueeze_(self, axis: IntArrayLike | None = ()) -> Tensor:
        """:func:`unsqueeze` in the memory of x, not to be used after it."""
    def unstack(self, axis: int = 0, num: int = 0) -> tuple[Tensor, ...]:
        """The num slices of x along axis, without that axis; num 0 stands for its size."""
    def unbind(self, axis: int = 0) -> tuple[Tensor, ...]:
        """The slices of input along axis, of a known size, without that axis."""
    def expand_as(self, y: TensorLike, target_shape: IntArrayLike | None = ()) -> Tensor:
        """x broadcast to the shape of y, or to target_shape if that is given."""
    def numel(self) -> Tensor:
        """The number of elements of x, as an int64 tensor."""
    def segment_sum_csr(self, starts: TensorLike) -> Tensor:
        """Row r of the result is the sum of the rows k of x with starts[r] <= k < starts[r + 1], 0
        where there are none; bools are joined by 'or'. starts ascend, as the crows of a CSR matrix
        do."""
    def sparse_product_counts(
        self,
        x_cols: TensorLike,
        y_starts: TensorLike,
        y_cols: TensorLike,
        columns: DimLike,
    ) -> Tensor:
        """In how many different columns, of so many, each row of a product of two sparse matrices
        has terms: an int64 for each row."""
    def sparse_product_columns(
        self,
        x_cols: TensorLike,
        y_starts: TensorLike,
        y_cols: TensorLike,
        starts: TensorLike,
        columns: DimLike,
        size: DimLike,
    ) -> Tensor:
        """The columns, of so many, in which the rows of a product of two sparse matrices have
        terms, in order: those of row r from starts[r] on, int64s, size in all. starts are the sums
        of sparse_product_counts."""
    def sparse_product_terms(
        self,
        y: TensorLike,
        x_starts: TensorLike,
        x_cols: TensorLike,
        y_starts: TensorLike,
        y_cols: TensorLike,
        starts: TensorLike,
        cols: TensorLike,
        columns: DimLike,
        of: str = 'product',
    ) -> Tensor:
        """Sums over the terms of a product of two sparse matrices, whose rows are at starts and
        cols. A term is a value k of the left matrix, one l of the row of the right that its column
        names, and the place m of the product in that row and column. of 'product': out[m] = sum of
        x[k] * y[l]; 'left': out[k] = sum of x[l] * y[m]; 'right': out[l] = sum of x[k] * y[m]."""
    def gammaln(self) -> Tensor:
        """Logarithm of the absolute value of the gamma function, elementwise: :func:`lgamma` by its
        other name."""
    def gammaln_(self) -> Tensor:
        """:func:`gammaln` in the memory of x, not to be used after it."""
    def logit(self, eps: FloatLike = 1e-06) -> Tensor:
        """log(x / (1 - x)) of x, which is first brought into [eps, 1 - eps], elementwise; to the
        last digits near 0.5. With eps 0 it is NaN outside [0, 1]; outside [eps, 1 - eps] the slope
        is 0."""
    def logit_(self, eps: FloatLike = 1e-06) -> Tensor:
        """:func:`logit` in the memory of x, not to be used after it."""
    def i0(self) -> Tensor:
        """Modified Bessel function of the first kind of order 0, elementwise."""
    def i0_(self) -> Tensor:
        """:func:`i0` in the memory of x, not to be used after it."""
    def i0e(self) -> Tensor:
        """exp(-abs(x)) * i0(x), elementwise, where the factors overflow and vanish too. The slope
        at 0 is 0."""
    def i1(self) -> Tensor:
        """Modified Bessel function of the first kind of order 1, elementwise."""
    def i1_(self) -> Tensor:
        """:func:`i1` in the memory of x, not to be used after it."""
    def i1e(self) -> Tensor:
        """exp(-abs(x)) * i1(x), elementwise, where the factors overflow and vanish too."""
    def bessel_ratio(self, n: int) -> Tensor:
        """Modified Bessel function of the first kind of order n over x ** n, elementwise; its slope
        is x times that of order n + 1."""
    def scaled_bessel(self, m: int = 0, n: int = 0) -> Tensor:
        """1 / pi times the integral of (1 - t) ** (m - 1 / 2) * (1 + t) ** (n - 1 / 2) *
        exp(-abs(x) * (1 - t)) over -1 < t < 1, elementwise: i0e for m = n = 0, and i1e over x for m
        = n = 1. Its slope is that of m + 1, with the sign of -x."""
    def gammaincc(self, y: TensorLike) -> Tensor:
        """Regularised upper incomplete gamma function, elementwise: 1 / gamma(x) times the integral
        of t ** (x - 1) * exp(-t) from y on, for x and y of 0 and more, NaN below. It is computed in
        float64, and right to 12 digits down to 1e-290. As in Paddle it has a derivative in y
        alone."""
    def gammaincc_(self, y: TensorLike) -> Tensor:
        """:func:`gammaincc` in the memory of x, not to be used after it."""
    def gamma_density(self, y: TensorLike) -> Tensor:
        """Density at y of a gamma variable of shape x, elementwise: y ** (x - 1) * exp(-y) /
        gamma(x), the slope of gammaincc in y with another sign."""
    def qr(self, mode: str = 'reduced') -> tuple[Tensor, Tensor]:
        """The factors of x = q r, of [m, n]: q has orthonormal columns, min(m, n) of them or, where
        mode is 'complete', m; r is upper triangular. mode 'r': q is empty. Signs are LAPACK's.
        Derivatives take the first min(m, n) columns of x as independent."""
    def svd(self, full_matrices: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """The singular values s, from the largest down, and the unitary factors of x = u diag(s)
        vh; of [m, n] u has min(m, n) columns and vh as many rows, with full_matrices all m and
        n."""
    def svdvals(self) -> Tensor:
        """The singular values of x, the roots of the eigenvalues of x^H x, from the largest
        down."""
    def eigh(self, UPLO: str = 'L') -> tuple[Tensor, Tensor]:
        """The eigenvalues w of a Hermitian matrix, real and ascending, and its unit eigenvectors,
        the columns of v: x = v diag(w) v^H. Of x the lower triangle is read, or for UPLO 'U' the
        upper one; derivatives are those on Hermitian matrices: a gradient is Hermitian."""
    def eigvalsh(self, uplo: str = 'L', is_test: bool = False) -> tuple[Tensor, Tensor]:
        """The eigenvalues of a Hermitian matrix, ascending, and its eigenvectors, which are empty
        if is_test: see :func:`eigh`."""
    def eig(self) -> tuple[Tensor, Tensor]:
        """The complex eigenvalues w, in no order, and unit eigenvectors, the columns of v, of a
        square matrix: x v = v diag(w)."""
    def eigvals(self) -> Tensor:
        """The complex eigenvalues of a square matrix, in no order: the w with det(x - w I) = 0."""
    def schur(self) -> tuple[Tensor, Tensor]:
        """The Schur factors of a square matrix, x = z t z^H with z unitary: t is upper triangular
        where x is complex, and has its eigenvalues on the diagonal; where x is real there are
        blocks of 2 by 2 on it, one for each two complex eigenvalues, which are conjugate. The order
        of the eigenvalues and the signs of z are LAPACK's."""
    def undetermined(self, mask: TensorLike) -> Tensor:
        """Where mask is true and x, [..., n, n], is not 0 but for rounding, nan; else 0. It stands
        in derivatives of vectors for what nobody can know, and counts as a linear function of x."""
    def mode(self, axis: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
        """The element that is most often along axis, the smallest of several, and the int64 index
        of its last one."""
    def max_with_index(
        self,
        dim: ScalarLike,
        keepdim: bool = False,
        flatten: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """The largest element along dim, or of all if flatten, and its int64 index, the first of
        equal ones, the first NaN if there is one."""
    def min_with_index(
        self,
        dim: ScalarLike,
        keepdim: bool = False,
        flatten: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """The smallest element along dim, or of all if flatten, and its int64 index, the first of
        equal ones, the first NaN if there is one."""
    def nansum(
        self,
        axis: IntArrayLike | None = (),
        dtype: DTypeLike | None = None,
        keepdim: bool = False,
    ) -> Tensor:
        """Sum over the axes, over all of them if none is given, where NaN counts as 0."""
    def variance(self, axis: IntArrayLike | None = (), keepdim: bool = False) -> Tensor:
        """Mean of (x - mean) ** 2 over the axes, over all of them if none is given."""
    def frobenius_norm(self, axis: IntArrayLike, keep_dim: bool, reduce_all: bool) -> Tensor:
        """sqrt(sum(x ** 2)) over the axes, over all of them if axis is empty or reduce_all; the
        gradient at 0 is 0."""
    def l1_norm(self) -> Tensor:
        """sum(abs(x)) of all elements, a 0-d tensor."""
    def l1_norm_(self) -> Tensor:
        """:func:`l1_norm` in the memory of x, not to be used after it."""
    def clip_by_norm(self, max_norm: FloatLike) -> Tensor:
        """x, made smaller by one factor where the square root of the sum of its squares is above
        max_norm."""
    def stop_gradient(self) -> Tensor:
        """x, with a derivative of zero."""
    def checkpoint_name(self, name: str) -> Tensor:
        """x, under a name by which a policy of phix.checkpoint can say that it is to be kept."""
    def expect_sizes(self, from_zero: IntArrayLike, refusal: str) -> Tensor:
        """x, where none of the numbers from_zero, which are computed from unknown dims, is
        negative; else a ShapeError, the text of which is the refusal. It computes nothing."""
    def all_gather(self, axis_name: str, axis_size: DimLike = -1, axis: int = 0) -> Tensor:
        """The values of all lanes, stacked along axis; every lane has the same result."""
    def psum_scatter(self, axis_name: str, axis_size: DimLike = -1, axis: int = 0) -> Tensor:
        """Lane i has the sum over all lanes of row i of x along axis, whose size is that of the
        lanes."""
    def psum(self, axis_name: str) -> Tensor:
        """The sum of x over the lanes; every lane has the same result."""
    def ppermute(self, axis_name: str, sources: IntArrayLike, targets: IntArrayLike) -> Tensor:
        """Lane targets[k] has the x of lane sources[k]; a lane that is no target has zeros."""
    def all_to_all(self, axis_name: str, split_axis: int, concat_axis: int) -> Tensor:
        """Lane i has row i along split_axis of every lane's x, stacked at concat_axis; split_axis,
        whose size is the number of lanes, goes."""
    def pvary(self, axis_name: str) -> Tensor:
        """x, a value of each lane's own from here on: derivatives with respect to it are not summed
        over the axis."""
    def rank_step(
        self,
        counts: TensorLike | None,
        group: object,
        kind: str,
        detail: IntArrayLike,
    ) -> Tensor:
        """What the ranks of the group give each other of their x: kind sum, gather, own, scatter,
        rows, exchange, permute, index or ragged; detail has the axes, or who sends to whom, or the
        rows of the result, where counts are the rows for each rank."""
    def rank_vary(self, group: object) -> Tensor:
        """x, the same on all ranks of the group, where each goes on with it by itself; cotangents
        of all ranks are summed."""
    def as_real(self) -> Tensor:
        """The real and imaginary parts of x, side by side on a new last axis of 2."""
    def as_complex(self) -> Tensor:
        """x[..., 0] + 1j * x[..., 1]: the last axis holds real and imaginary parts."""
    def bitcast(self, dtype: DTypeLike) -> Tensor:
        """The bits of each element read as another dtype of that width, 32 or 64 bits, or uint8 and
        a dtype of storage; view_dtype reads any as any."""
    def view_dtype(self, dtype: DTypeLike) -> Tensor:
        """The memory of input read as dtype: the last axis grows or shrinks by the quotient of the
        widths. A gradient passes between a complex dtype and that of its parts; through bits it is
        0."""
    def view_shape(self, dims: IntArrayLike | None = ()) -> Tensor:
        """The elements of input, in order, in the shape dims, of which one may be -1; reshape."""
    def view_slice(self, begin_idx: DimLike, end_idx: DimLike) -> Tensor:
        """The rows of input from begin_idx up to end_idx, both from 0."""
    def as_strided(
        self,
        dims: IntArrayLike | None = (),
        stride: IntArrayLike | None = (),
        offset: DimLike = 0,
    ) -> Tensor:
        """out[i, j, ...] is element offset + i * stride[0] + j * stride[1] + ... of input in C
        order. The strides count elements, offset counts bytes, as in Paddle. Gradients of overlaps
        add up."""
    def set(
        self,
        source: TensorLike,
        dims: IntArrayLike | None = (),
        stride: IntArrayLike | None = (),
        offset: DimLike = 0,
    ) -> Tensor:
        """as_strided(source, dims, stride, offset) in place of x, which has its dtype."""
    def set_(
        self,
        source: TensorLike,
        dims: IntArrayLike | None = (),
        stride: IntArrayLike | None = (),
        offset: DimLike = 0,
    ) -> Tensor:
        """:func:`set` in the memory of x, not to be used after it."""
    def index_select_strided(self, index: DimLike, axis: int = 0) -> Tensor:
        """The slice of x at index along axis, without that axis."""
    def weight_quantize(
        self,
        algo: str = 'weight_only_int8',
        arch: int = 80,
        group_size: int = -1,
    ) -> tuple[Tensor, Tensor]:
        """Weights [k, n] as int8 with a scale for each column, max(abs(column)) / 127, in scale
        [n]; out is [n, k]. With group_size it is one for each column of each group of so many rows,
        in scale [k / group_size, n]. For weight_only_int4 the largest int is 7, and out is [n / 2,
        k], two columns a byte, the first one in the low bits. Algorithms are weight_only_int8,
        weight_only_int4 and llm.int8, whose scale is float32. arch says nothing: rows and columns
        are in order, where PHI has the order of a graphics card."""
    def weight_dequantize(
        self,
        scale: TensorLike,
        algo: str = 'weight_only_int8',
        out_dtype: DTypeLike = 'float16',
        group_size: int = -1,
    ) -> Tensor:
        """The weights [k, n] that :func:`weight_quantize` made x and scale of, in out_dtype."""
    def weight_only_linear(
        self,
        weight: TensorLike,
        bias: TensorLike | None,
        weight_scale: TensorLike,
        weight_dtype: str,
        arch: int = 80,
        group_size: int = -1,
    ) -> Tensor:
        """x @ W + bias over the last axis of x, for the weights W [k, n] that
        :func:`weight_quantize` made weight and weight_scale of; weight_dtype is int8 or int4."""
    def llm_int8_linear(
        self,
        weight: TensorLike,
        bias: TensorLike | None,
        weight_scale: TensorLike,
        threshold: FloatLike = 6.0,
    ) -> Tensor:
        """x @ W + bias over the last axis of x, for weights W [k, n] quantised by llm.int8: columns
        of x with an element of a size above the threshold as they are, the others with each row as
        int8."""
    def lookup_table_dequant(self, ids: TensorLike, padding_idx: DimLike = -1) -> Tensor:
        """Rows of a table of bytes: row r of w [rows, 2 + n], of float32, is a least number a, a
        largest b, and n floats of four bytes q each; out is a + (b - a) q / 256 for the rows ids
        [..., 1], [..., 4 n]. The rows of ids that are padding_idx are 0; -1 is for none. Without
        padding_idx an id that is no row raises where the call runs at once, and compiled programs
        take the nearest."""
    def fold(
        self,
        output_sizes: IntArrayLike,
        kernel_sizes: IntArrayLike,
        strides: IntArrayLike,
        paddings: IntArrayLike,
        dilations: IntArrayLike,
    ) -> Tensor:
        """Images [n, c, *output_sizes] of the columns that :func:`unfold` makes of such, [n, c *
        taps, windows]: what lies at one place is added up."""
    def tensor_unfold(self, axis: DimLike, size: DimLike, step: DimLike) -> Tensor:
        """Windows of size elements, step apart, along axis: out[..., i, ..., k] = input[..., i *
        step + k, ...]."""
    def frame(self, frame_length: int, hop_length: int, axis: int = -1) -> Tensor:
        """Frames of a signal, hop_length apart: of [..., n] as [..., frame_length, frames] (axis
        -1), of [n, ...] as [frames, frame_length, ...] (axis 0)."""
    def overlap_add(self, hop_length: int, axis: int = -1) -> Tensor:
        """The signal whose frames, hop_length apart, are added up where they overlap: of [...,
        frame_length, frames] (axis -1) or [frames, frame_length, ...] (axis 0); the transpose of
        :func:`frame`."""
    def stft(
        self,
        window: TensorLike,
        n_fft: int,
        hop_length: int,
        normalized: bool,
        onesided: bool,
    ) -> Tensor:
        """Fourier transforms of the frames of signals [..., n] times window, [..., frequencies,
        frames]: the n_fft // 2 + 1 from 0 on if onesided, else all n_fft; over sqrt(n_fft) if
        normalized."""
    def index_add_(self, index: TensorLike, add_value: TensorLike, axis: int = 0) -> Tensor:
        """:func:`index_add` in the memory of x, not to be used after it."""
    def set_value_(
        self,
        starts: IntArrayLike,
        ends: IntArrayLike,
        steps: IntArrayLike,
        axes: IntArrayLike,
        decrease_axes: IntArrayLike,
        none_axes: IntArrayLike,
        shape: IntArrayLike,
        values: ScalarLike | Sequence[ScalarLike],
    ) -> Tensor:
        """:func:`set_value` in the memory of x, not to be used after it."""
    def set_value_with_tensor(
        self,
        values: TensorLike,
        starts: IntArrayLike,
        ends: IntArrayLike,
        steps: IntArrayLike,
        axes: IntArrayLike,
        decrease_axes: IntArrayLike,
        none_axes: IntArrayLike,
    ) -> Tensor:
        """x with values, which broadcast, in place of x[starts:ends:steps] along axes; of the slice
        as the values see it the axes in decrease_axes are gone, and axes of 1 stand before those in
        none_axes."""
    def set_value_with_tensor_(
        self,
        values: TensorLike,
        starts: IntArrayLike,
        ends: IntArrayLike,
        steps: IntArrayLike,
        axes: IntArrayLike,
        decrease_axes: IntArrayLike,
        none_axes: IntArrayLike,
    ) -> Tensor:
        """:func:`set_value_with_tensor` in the memory of x, not to be used after it."""
    def embedding_with_scaled_gradient(
        self,
        weight: TensorLike,
        padding_idx: DimLike = -1,
    ) -> Tensor:
        """:func:`embedding`; but the gradient of a row is divided by how often x numbers it."""
    def embedding_grad_dense(
        self,
        weight: TensorLike,
        out_grad: TensorLike,
        padding_idx: DimLike = -1,
        sparse: bool = False,
    ) -> Tensor:
        """The gradient of embedding for weight: row k is the sum of out_grad[i, ...] where x[i,
        ...] is k and not padding_idx."""
    def embedding_grad_add_to(self, main_grad_: TensorLike, out_grad: TensorLike) -> Tensor:
        """main_grad_ with out_grad[i, ...] added, in the dtype of main_grad_, to the row that
        token_indices[i, ...] numbers."""
    def embedding_grad_add_to_(self, main_grad_: TensorLike, out_grad: TensorLike) -> Tensor:
        """:func:`embedding_grad_add_to` in the memory of main_grad_, not to be used after it."""
