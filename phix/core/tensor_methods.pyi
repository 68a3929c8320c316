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
    def astype(self, dtype: DTypeLike) -> Tensor:
        """The values converted to ``dtype``."""
    def to(self, place: PlaceLike) -> Tensor:
        """The tensor on ``place``; itself, if it is there."""
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
        accuracy for x far below 0."""
    def sigmoid_(self) -> Tensor:
        """:func:`sigmoid` in the memory of x, not to be used after it."""
    def logsigmoid(self) -> Tensor:
        """log(1 / (1 + exp(-x))), elementwise, without overflow."""
    def softplus(self, beta: FloatLike = 1.0, threshold: FloatLike = 20.0) -> Tensor:
        """log(1 + exp(beta * x)) / beta, elementwise, without overflow; x itself where beta * x is
        above the threshold."""
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
    def square(self) -> Tensor:
        """x * x, elementwise."""
    def square_(self) -> Tensor:
        """:func:`square` in the memory of x, not to be used after it."""
    def reciprocal(self) -> Tensor:
        """1 / x, elementwise."""
    def reciprocal_(self) -> Tensor:
        """:func:`reciprocal` in the memory of x, not to be used after it."""
    def clip(self, min: ScalarLike | None = None, max: ScalarLike | None = None) -> Tensor:
        """min(max(x, min), max), elementwise; a bound that is None bounds nothing. NaN stays NaN,
        with gradient 0; the gradient is 1 at a bound. Ints stay ints, within the ints between the
        bounds."""
    def clip_(self, min: ScalarLike | None = None, max: ScalarLike | None = None) -> Tensor:
        """:func:`clip` in the memory of x, not to be used after it."""
    def lerp(self, y: TensorLike, weight: TensorLike) -> Tensor:
        """x + weight * (y - x), elementwise: x where weight is 0, y where it is 1."""
    def lerp_(self, y: TensorLike, weight: TensorLike) -> Tensor:
        """:func:`lerp` in the memory of x, not to be used after it."""
    def heaviside(self, y: TensorLike) -> Tensor:
        """0 where x is below 0, y where it is 0, 1 above, elementwise; NaN at NaN. The slope in x
        is 0."""
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
    def tensordot(self, y: TensorLike, axes_x: IntArrayLike, axes_y: IntArrayLike) -> Tensor:
        """Sum of products over pairs of axes, axes_x[i] of x with axes_y[i] of y; the other axes of
        x, then those of y, are left."""
    def bmm(self, y: TensorLike) -> Tensor:
        """Matrix products of two batches, out[b] = x[b] @ y[b]."""
    def mv(self, vec: TensorLike) -> Tensor:
        """Product of a matrix and a vector."""
    def dot(self, y: TensorLike) -> Tensor:
        """Sum of products along the last axis, of two vectors or of the rows of two matrices."""
    def addmm(
        self,
        x: TensorLike,
        y: TensorLike,
        beta: FloatLike = 1.0,
        alpha: FloatLike = 1.0,
    ) -> Tensor:
        """beta * input + alpha * (x @ y) for matrices x and y; input broadcasts."""
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
        """beta * input + alpha * (x[b] @ y[b]) for batches of matrices x and y; input
        broadcasts."""
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
    def dim_value(self, dim: DimLike, largest: bool = False) -> Tensor:
        """x, one int64; from here on the unknown dim has its value. So sizes that depend on data
        get into shapes. Mapped over a batch it is the largest of them if that is asked for, else an
        error."""
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
    def gather(self, index: TensorLike, axis: ScalarLike = 0) -> Tensor:
        """The slices of x at index along axis: out[..., i, ...] = x[..., index[i], ...]. The axes
        of index, of any number, stand in place of axis. A negative index counts from the end. An
        index out of range raises TensorIndexError where the call runs at once; compiled programs
        take the nearest inside, or raise under phix.debug.check_indices()."""
    def gather_nd(self, index: TensorLike) -> Tensor:
        """out[i] = x[index[i, 0], index[i, 1], ...]: the last axis of index names the first axes of
        x. An index out of range raises TensorIndexError where the call runs at once; compiled
        programs take the nearest inside, or raise under phix.debug.check_indices()."""
    def scatter_nd_add(self, index: TensorLike, updates: TensorLike) -> Tensor:
        """x with updates[i] added to x[index[i, 0], index[i, 1], ...]; where an index comes again,
        all are added. An index out of range raises TensorIndexError where the call runs at once;
        compiled programs write to the nearest inside, or raise under phix.debug.check_indices()."""
    def scatter(self, index: TensorLike, updates: TensorLike, overwrite: bool = True) -> Tensor:
        """x with row index[i] replaced by updates[i]: by the last of them where an index comes
        again, or by their sum if not overwrite. An index out of range raises TensorIndexError where
        the call runs at once; compiled programs write to the nearest inside, or raise under
        phix.debug.check_indices()."""
    def scatter_(self, index: TensorLike, updates: TensorLike, overwrite: bool = True) -> Tensor:
        """:func:`scatter` in the memory of x, not to be used after it."""
    def take_along_axis(self, indices: TensorLike, axis: int) -> Tensor:
        """out[..., i, ...] = arr[..., indices[..., i, ...], ...] along axis; the other dims
        broadcast. An index out of range raises TensorIndexError where the call runs at once;
        compiled programs take the nearest inside, or raise under phix.debug.check_indices()."""
    def put_along_axis(
        self,
        indices: TensorLike,
        values: TensorLike,
        axis: int,
        reduce: str = 'assign',
        include_self: bool = True,
    ) -> Tensor:
        """arr with values[..., i, ...] put at [..., indices[..., i, ...], ...] along axis: in its
        place (assign), or combined with what is there (add, mul, amax, amin, mean), which is left
        out without include_self. An index out of range raises TensorIndexError where the call runs
        at once; compiled programs write to the nearest inside, or raise under
        phix.debug.check_indices()."""
    def put_along_axis_(
        self,
        indices: TensorLike,
        values: TensorLike,
        axis: int,
        reduce: str = 'assign',
        include_self: bool = True,
    ) -> Tensor:
        """:func:`put_along_axis` in the memory of arr, not to be used after it."""
    def index_put(
        self,
        indices: Sequence[TensorLike],
        value: TensorLike,
        accumulate: bool = False,
        axes: IntArrayLike | None = (),
    ) -> Tensor:
        """x[indices[0], indices[1], ...] = value, or += value if accumulate; the index tensors and
        the value broadcast. The indices are of the first axes of x, or of those in axes: then the
        axes of the value are theirs, broadcast together, followed by the other axes of x. An index
        out of range raises TensorIndexError where the call runs at once; compiled programs write to
        the nearest inside, or raise under phix.debug.check_indices()."""
    def index_put_(
        self,
        indices: Sequence[TensorLike],
        value: TensorLike,
        accumulate: bool = False,
        axes: IntArrayLike | None = (),
    ) -> Tensor:
        """:func:`index_put` in the memory of x, not to be used after it."""
    def index_select(self, index: TensorLike, axis: int = 0) -> Tensor:
        """The slices of x at a 1-d index along axis; gather. An index out of range raises
        TensorIndexError where the call runs at once; compiled programs take the nearest inside, or
        raise under phix.debug.check_indices()."""
    def index_sample(self, index: TensorLike) -> Tensor:
        """out[i, j] = x[i, index[i, j]]. An index out of range raises TensorIndexError where the
        call runs at once; compiled programs take the nearest inside, or raise under
        phix.debug.check_indices()."""
    def masked_fill(self, mask: TensorLike, value: TensorLike) -> Tensor:
        """x with value, of one element or broadcast, where the bool tensor mask is true."""
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
        size / out size - 0.5, at least 0, in align_mode 0. Sizes come from size_tensor (one int
        tensor an axis), else out_size (one tensor of them), else scale_tensor or scale (rounded
        down), else out_d, out_h and out_w; they count the spatial axes, which data_format says to
        be before or behind the channels. interp_method says nothing more than the op's name."""
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
        0.5, weighted by Keys' kernel; off the image its border goes on. Sizes as in
        :func:`linear_interp`."""
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
    def embedding(
        self,
        weight: TensorLike,
        padding_idx: DimLike = -1,
        sparse: bool = False,
    ) -> Tensor:
        """The rows of weight that the ints in x number, out[..., :] = weight[x[...], :].
        padding_idx, if not -1, is a row that is zero to the result and gets no gradient. A number
        outside the rows raises TensorIndexError where the call runs at once; compiled programs take
        the nearest inside, or raise under phix.debug.check_indices()."""
    def one_hot(self, num_classes: ScalarLike) -> Tensor:
        """float32 with a last axis of num_classes: 1 at the class that x numbers, else 0. A number
        that is no class raises TensorIndexError where the call runs at once; compiled programs give
        all 0 for it, or raise under phix.debug.check_indices()."""
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
        transpose: of x^T z = y. y is a vector [n], or matrices [..., n, k]; axes in front
        broadcast."""
    def inverse(self) -> Tensor:
        """The matrix with x @ out = out @ x = I, by LU factorisation with pivoting."""
    def det(self) -> Tensor:
        """The determinant: the sum over permutations p of sign(p) x[..., 0, p_0] ... x[..., n-1,
        p_(n-1)]. Written out up to n = 3, where all its derivatives exist, else from the LU
        factors; there its gradient det(x) inverse(x)^T is nan where x is singular."""
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
        """Binary cross entropy of sigmoid(x), -(pos_weight * label * log(sigmoid(x)) + (1 - label)
        * log(1 - sigmoid(x))), elementwise and without overflow; 0 where the label is ignore_index.
        normalize divides by the number of labels that are not."""
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
    def instance_norm(
        self,
        scale: TensorLike | None = None,
        bias: TensorLike | None = None,
        epsilon: FloatLike = 1e-05,
    ) -> Tensor:
        """(x - mean) / sqrt(variance + epsilon) * scale + bias, mean and variance taken over the
        positions of each channel of each image; x is [n, c, ...]."""
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
        """Hyperbolic tangent, (exp(x) - exp(-x)) / (exp(x) + exp(-x)), elementwise."""
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
        """Inverse sine in radians, in [-pi/2, pi/2], elementwise; NaN outside [-1, 1]."""
    def asin_(self) -> Tensor:
        """:func:`asin` in the memory of x, not to be used after it."""
    def acos(self) -> Tensor:
        """Inverse cosine in radians, in [0, pi], elementwise; NaN outside [-1, 1]."""
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
        """Inverse hyperbolic cosine, log(x + sqrt(x ** 2 - 1)), elementwise; NaN below 1."""
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
        """-1, 0 or 1 as x is below, at or above 0, elementwise; NaN at NaN. The derivative is 0."""
    def floor(self) -> Tensor:
        """The largest integer not above x, elementwise. The derivative is 0."""
    def floor_(self) -> Tensor:
        """:func:`floor` in the memory of x, not to be used after it."""
    def ceil(self) -> Tensor:
        """The smallest integer not below x, elementwise. The derivative is 0."""
    def ceil_(self) -> Tensor:
        """:func:`ceil` in the memory of x, not to be used after it."""
    def round(self, decimals: int = 0) -> Tensor:
        """x rounded to that many decimals, halves to even, elementwise. The derivative is 0."""
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
    def bitwise_left_shift(self, y: TensorLike) -> Tensor:
        """x * 2 ** y by shifting the bits of x, elementwise; signed ints keep their sign."""
    def bitwise_left_shift_(self, y: TensorLike) -> Tensor:
        """:func:`bitwise_left_shift` in the memory of x, not to be used after it."""
    def bitwise_right_shift(self, y: TensorLike) -> Tensor:
        """x // 2 ** y by shifting the bits of x, elementwise; signed ints keep their sign."""
    def bitwise_right_shift_(self, y: TensorLike) -> Tensor:
        """:func:`bitwise_right_shift` in the memory of x, not to be used after it."""
    def isnan(self) -> Tensor:
        """Whether x is NaN, elementwise; a bool tensor."""
    def isinf(self) -> Tensor:
        """Whether x is infinite, elementwise; a bool tensor."""
    def isfinite(self) -> Tensor:
        """Whether x is neither infinite nor NaN, elementwise; a bool tensor."""
    def where(self, x: TensorLike, y: TensorLike) -> Tensor:
        """x where the condition holds, else y, elementwise. No gradient crosses from the other
        side."""
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
    def real(self) -> Tensor:
        """Real part, elementwise."""
    def imag(self) -> Tensor:
        """Imaginary part, elementwise; 0 of a real number."""
    def conj(self) -> Tensor:
        """Complex conjugate, elementwise; a real tensor is its own."""
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
    def random_bits(self, shape: IntArrayLike, bit_width: int = 32) -> Tensor:
        """Random bits as uint32 or uint64: element i in C order is Threefry-2x32 with 20 rounds of
        the counter (i >> 32, i mod 2 ** 32) under the key, its first word, or both with the first
        one high."""
    def uniform(
        self,
        shape: IntArrayLike,
        dtype: DTypeLike,
        min: TensorLike,
        max: TensorLike,
        place: PlaceLike | None = None,
    ) -> Tensor:
        """Numbers uniform in [min, max), min + (max - min) * u with u of as many random bits as the
        mantissa holds; min and max are tensors that broadcast to shape, and differentiable."""
    def gaussian(
        self,
        shape: IntArrayLike,
        mean: TensorLike,
        std: TensorLike,
        dtype: DTypeLike = 'float32',
        place: PlaceLike | None = None,
    ) -> Tensor:
        """Normal numbers, mean + std * sqrt(2) * erfinv(u) with u uniform in (-1, 1); mean and std
        are tensors that broadcast to shape, and differentiable."""
    def truncated_gaussian_random(
        self,
        shape: IntArrayLike,
        mean: TensorLike,
        std: TensorLike,
        a: TensorLike,
        b: TensorLike,
        dtype: DTypeLike = 'float32',
        place: PlaceLike | None = None,
    ) -> Tensor:
        """Normal numbers of that mean and std, given that they lie in [a, b], by the inverse of the
        cumulative distribution."""
    def randint(
        self,
        low: DimLike,
        high: DimLike,
        shape: IntArrayLike,
        dtype: DTypeLike = 'int64',
        place: PlaceLike | None = None,
    ) -> Tensor:
        """Ints uniform in [low, high): 64 random bits modulo high - low, so that no value is
        likelier than another by more than (high - low) / 2 ** 64."""
    def bernoulli(self, x: TensorLike) -> Tensor:
        """1 with probability x, else 0: u < x for u uniform in [0, 1); shape and dtype of x."""
    def randperm(
        self,
        n: DimLike,
        dtype: DTypeLike = 'int64',
        place: PlaceLike | None = None,
    ) -> Tensor:
        """The numbers 0, ..., n - 1 in random order, each order equally likely."""
    def sum(
        self,
        axis: IntArrayLike | None = (),
        dtype: DTypeLike | None = None,
        keepdim: bool = False,
    ) -> Tensor:
        """Sum over the axes, over all of them if none is given; bools and ints add up in int64."""
    def prod(
        self,
        axis: IntArrayLike | None = (),
        keepdim: bool = False,
        reduce_all: bool = False,
    ) -> Tensor:
        """Product over the axes, over all of them if none is given or reduce_all; bools and ints
        multiply in int64. The gradient is right with zeros among the factors."""
    def max(self, axis: IntArrayLike | None = (), keepdim: bool = False) -> Tensor:
        """Largest element over the axes, over all of them if none is given; NaN if one is NaN. Ties
        share the gradient."""
    def min(self, axis: IntArrayLike | None = (), keepdim: bool = False) -> Tensor:
        """Smallest element over the axes, over all of them if none is given; NaN if one is NaN.
        Ties share the gradient."""
    def amax(self, axis: IntArrayLike | None = (), keepdim: bool = False) -> Tensor:
        """Largest element over the axes, as :func:`max`: ties share the gradient."""
    def amin(self, axis: IntArrayLike | None = (), keepdim: bool = False) -> Tensor:
        """Smallest element over the axes, as :func:`min`: ties share the gradient."""
    def any(self, axis: IntArrayLike | None = (), keepdim: bool = False) -> Tensor:
        """Whether some element over the axes, over all of them if none is given, is not 0: x != 0
        somewhere."""
    def all(self, axis: IntArrayLike | None = (), keepdim: bool = False) -> Tensor:
        """Whether every element over the axes, over all of them if none is given, is not 0: x != 0
        everywhere."""
    def argmax(
        self,
        axis: ScalarLike | None = None,
        keepdims: bool = False,
        flatten: bool = False,
        dtype: DTypeLike = 'int64',
    ) -> Tensor:
        """Index of the largest element along the axis, the first of equal ones, the first NaN if
        there is one; axis None or flatten: of all elements in order."""
    def argmin(
        self,
        axis: ScalarLike | None = None,
        keepdims: bool = False,
        flatten: bool = False,
        dtype: DTypeLike = 'int64',
    ) -> Tensor:
        """Index of the smallest element along the axis, the first of equal ones, the first NaN if
        there is one; axis None or flatten: of all elements in order."""
    def mean(self, axis: IntArrayLike | None = (), keepdim: bool = False) -> Tensor:
        """Mean over the axes, over all of them if none is given; 16-bit floats add up in
        float32."""
    def mean_all(self) -> Tensor:
        """Mean of all elements."""
    def var(
        self,
        axis: IntArrayLike | None = (),
        keepdim: bool = False,
        unbiased: bool = True,
        correction: FloatLike = 1.0,
    ) -> Tensor:
        """Variance over the axes, sum((x - mean) ** 2) / (n - correction) of n elements; not
        unbiased: correction 0. Of no more elements than the correction it is NaN or infinite."""
    def std(
        self,
        axis: IntArrayLike | None = (),
        keepdim: bool = False,
        unbiased: bool = True,
        correction: FloatLike = 1.0,
    ) -> Tensor:
        """Standard deviation over the axes, the square root of :func:`var`; its gradient is NaN
        where all elements are equal."""
    def logsumexp(
        self,
        axis: IntArrayLike | None = (0,),
        keepdim: bool = False,
        reduce_all: bool = False,
    ) -> Tensor:
        """log(sum(exp(x))) over the axes, over all of them if axis is empty or reduce_all, computed
        from x - max(x) so that nothing overflows; of -inf alone it is -inf, with gradient 0."""
    def reduce_as(self, target: TensorLike) -> Tensor:
        """x summed over the axes that broadcasting target to the shape of x adds or stretches."""
    def cumsum(
        self,
        axis: ScalarLike = -1,
        flatten: bool = False,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> Tensor:
        """Sums of the first elements along the axis, out_k = x_0 + ... + x_k; exclusive: without
        x_k; reverse: from the end; flatten: of all elements in order. Bools and ints add up in
        int64."""
    def cumsum_(
        self,
        axis: ScalarLike = -1,
        flatten: bool = False,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> Tensor:
        """:func:`cumsum` in the memory of x, not to be used after it."""
    def cumprod(self, dim: int, exclusive: bool = False, reverse: bool = False) -> Tensor:
        """Products of the first elements along dim, out_k = x_0 * ... * x_k; exclusive: without
        x_k; reverse: from the end. Bools and ints multiply in int64. The gradient is right with
        zeros."""
    def cumprod_(self, dim: int, exclusive: bool = False, reverse: bool = False) -> Tensor:
        """:func:`cumprod` in the memory of x, not to be used after it."""
    def linear_recurrence(self, x: TensorLike, axis: int = -1, reverse: bool = False) -> Tensor:
        """out_k = a_k * out_{k-1} + x_k along the axis, from out_0 = x_0 (a_0 is not used);
        reverse: from the end, out_k = a_k * out_{k+1} + x_k."""
    def cummax(self, axis: int = -1, dtype: DTypeLike = 'int64') -> tuple[Tensor, Tensor]:
        """Largest of the elements up to each along the axis, and where it stands, the last of equal
        ones."""
    def cummin(self, axis: int = -1, dtype: DTypeLike = 'int64') -> tuple[Tensor, Tensor]:
        """Smallest of the elements up to each along the axis, and where it stands, the last of
        equal ones."""
    def logcumsumexp(
        self,
        axis: int = -1,
        flatten: bool = False,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> Tensor:
        """log(exp(x_0) + ... + exp(x_k)) along the axis, computed so that nothing overflows;
        exclusive: without x_k, so -inf at first; reverse: from the end; flatten: of all elements in
        order."""
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
    def reshape(self, shape: IntArrayLike) -> Tensor:
        """The elements of x, in order, in another shape; one dim may be -1, and 0 copies the dim of
        x where the other dims fit then (where x is empty they need not: a 0 that cannot copy is a
        0)."""
    def reshape_(self, shape: IntArrayLike) -> Tensor:
        """:func:`reshape` in the memory of x, not to be used after it."""
    def expand(self, shape: IntArrayLike | None = ()) -> Tensor:
        """x broadcast to shape; -1 keeps the dim of x."""
    def transpose(self, perm: IntArrayLike) -> Tensor:
        """The axes of x in the order perm: out.shape[i] = x.shape[perm[i]]."""
    def transpose_(self, perm: IntArrayLike) -> Tensor:
        """:func:`transpose` in the memory of x, not to be used after it."""
    def split(self, sections: IntArrayLike, axis: ScalarLike = 0) -> tuple[Tensor, ...]:
        """x cut along axis into parts of the sizes in sections; one may be -1, which takes the
        rest."""
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
    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
        """The elements x[..., i, ..., i + offset, ...] of axis1 and axis2, on a last axis over
        i."""
    def squeeze(self, axis: IntArrayLike | None = ()) -> Tensor:
        """x without the axes in axis, each of one element; without axis, without every such
        axis."""
    def squeeze_(self, axis: IntArrayLike | None = ()) -> Tensor:
        """:func:`squeeze` in the memory of x, not to be used after it."""
    def unsqueeze(self, axis: IntArrayLike | None = ()) -> Tensor:
        """x with axes of one element, which stand at axis in the result."""
    def unsqueeze_(self, axis: IntArrayLike | None = ()) -> Tensor:
        """:func:`unsqueeze` in the memory of x, not to be used after it."""
    def flatten(self, start_axis: int = 1, stop_axis: int = 1) -> Tensor:
        """x with the axes from start_axis to stop_axis joined into one."""
    def flatten_(self, start_axis: int = 1, stop_axis: int = 1) -> Tensor:
        """:func:`flatten` in the memory of x, not to be used after it."""
    def unstack(self, axis: int = 0, num: int = 0) -> tuple[Tensor, ...]:
        """The num slices of x along axis, without that axis; num 0 stands for its size."""
    def unbind(self, axis: int = 0) -> tuple[Tensor, ...]:
        """The slices of input along axis, of a known size, without that axis."""
    def tile(self, repeat_times: IntArrayLike | None = ()) -> Tensor:
        """x repeated repeat_times[i] times along axis i, aligned at the last axis."""
    def expand_as(self, y: TensorLike, target_shape: IntArrayLike | None = ()) -> Tensor:
        """x broadcast to the shape of y, or to target_shape if that is given."""
    def numel(self) -> Tensor:
        """The number of elements of x, as an int64 tensor."""
    def argsort(
        self,
        axis: int = -1,
        descending: bool = False,
        stable: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """x sorted along axis, and the int64 indices that sort it; equal elements keep their
        order."""
    def sort(self, axis: int = -1, descending: bool = False) -> Tensor:
        """x sorted along axis, smallest first unless descending."""
    def topk(
        self,
        k: ScalarLike = 1,
        axis: int = -1,
        largest: bool = True,
        sorted: bool = True,
    ) -> tuple[Tensor, Tensor]:
        """The k largest (or smallest) elements along axis in order, and their int64 indices; of
        equal ones the first come first."""
    def stop_gradient(self) -> Tensor:
        """x, with a derivative of zero."""
    def checkpoint_name(self, name: str) -> Tensor:
        """x, under a name by which a policy of phix.checkpoint can say that it is to be kept."""
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
    def unfold(
        self,
        kernel_sizes: IntArrayLike,
        strides: IntArrayLike,
        paddings: IntArrayLike,
        dilations: IntArrayLike,
    ) -> Tensor:
        """The windows of images [n, c, h, w] as columns, [n, c * taps, windows]; off the images are
        zeros. paddings: (height, width) or (top, left, bottom, right)."""
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
