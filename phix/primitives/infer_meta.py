"""InferMeta functions that entries of Paddle's tables name, besides those of the ops themselves.

Most infer what an op of phix does; those of backward ops give the metas of what they differentiate.
"""

from __future__ import annotations

from typing import Any

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.meta import MetaTensor
from phix.primitives import axes as ax

# The function -> the op whose calls have the same args and outputs, in this order.
_OF_OPS = {
    "AddmmInferMeta": "addmm", "Atan2InferMeta": "atan2", "BCELossInferMeta": "bce_loss",
    "BaddbmmInferMeta": "baddbmm", "BatchNormInferMeta": "batch_norm",
    "BitwiseShiftInferMeta": "bitwise_left_shift", "BmmInferMeta": "bmm",
    "BroadcastTensorsInferMeta": "broadcast_tensors", "CholeskySolveInferMeta": "cholesky_solve",
    "ComplexGradInferMeta": "complex_grad", "Conv2dTransposeInferMeta": "conv2d_transpose",
    "CrossEntropyWithSoftmaxInferMeta": "cross_entropy_with_softmax", "CumInferMeta": "cumsum",
    "DepthwiseConvInferMeta": "depthwise_conv2d", "DetInferMeta": "det", "DotInferMeta": "dot",
    "DropoutInferMeta": "dropout", "EinsumRawInferMeta": "einsum",
    "EmbeddingInferMeta": "embedding", "EyeInferMeta": "eye",
    "FFTC2RGradInferMeta": "fft_c2r_grad", "FlattenInferMeta": "flatten", "FlipInferMeta": "flip",
    "GatherNdGradInferMeta": "gather_nd_grad", "GroupNormInferMeta": "group_norm",
    "HuberLossInferMeta": "huber_loss", "InstanceNormInferMeta": "instance_norm",
    "InverseGradInferMeta": "inverse_grad", "InverseInferMeta": "inverse",
    "IsfiniteInferMeta": "isfinite", "KLDivInferMeta": "kldiv_loss", "KronInferMeta": "kron",
    "LUGradInferMeta": "lu_grad", "LUUnpackInferMeta": "lu_unpack",
    "LayerNormInferMeta": "layer_norm", "LerpInferMeta": "lerp", "LogLossInferMeta": "log_loss",
    "LogicalBinaryInferMeta": "logical_and", "LogicalNotInferMeta": "logical_not",
    "LogsumexpInferMeta": "logsumexp", "MatrixPowerInferMeta": "matrix_power",
    "MeanAllInferMeta": "mean_all", "MeshgridInferMeta": "meshgrid", "MvInferMeta": "mv",
    "NumelInferMeta": "numel", "OneHotInferMeta": "one_hot", "PNormInferMeta": "p_norm",
    "Pool2DInferMeta": "pool2d", "RmsNormInferMeta": "rms_norm", "RollInferMeta": "roll",
    "ScatterNdAddGradInferMeta": "scatter_nd_add_grad", "ShapeInferMeta": "shape",
    "SigmoidCrossEntropyWithLogitsInferMeta": "sigmoid_cross_entropy_with_logits",
    "SoftmaxInferMeta": "softmax", "SolveInferMeta": "solve",
    "SplitWithNumInferMeta": "split_with_num", "SquaredL2NormInferMeta": "squared_l2_norm",
    "SwiGLUInferMeta": "swiglu", "TileInferMeta": "tile",
    "TransposeGradInferMeta": "transpose_grad", "TrilIndicesInferMeta": "tril_indices",
    "TriuIndicesInferMeta": "triu_indices", "UnStackGradInferMeta": "unstack_grad",
    "UnbindInferMeta": "unbind", "UnsqueezeInferMeta": "unsqueeze",
}  # fmt: skip
# Those of windows and images.
_OF_IMAGES = {
    "AffineChannelInferMeta": "affine_channel", "AffineGridInferMeta": "affine_grid",
    "ChannelShuffleInferMeta": "channel_shuffle", "Conv3DInferMeta": "conv3d",
    "ConvTransposeInferMeta": "conv3d_transpose", "CorrelationInferMeta": "correlation",
    "DeformableConvInferMeta": "deformable_conv", "FoldInferMeta": "fold",
    "FrameInferMeta": "frame", "GridSampleBaseInferMeta": "grid_sample",
    "MaxOutInferMeta": "maxout", "OverlapAddInferMeta": "overlap_add",
    "PixelShuffleInferMeta": "pixel_shuffle", "PixelUnshuffleInferMeta": "pixel_unshuffle",
    "PoolInferMeta": "pool3d", "ShuffleChannelInferMeta": "shuffle_channel",
    "StftInferMeta": "stft", "TemporalShiftInferMeta": "temporal_shift",
    "UnfoldInferMeta": "unfold", "Unpool3dInferMeta": "unpool3d", "UnpoolInferMeta": "unpool",
}  # fmt: skip
for _name, _op in {**_OF_OPS, **_OF_IMAGES}.items():
    rules.infer_meta_of(_name, _op)


@rules.infer_meta("TraceInferMeta")
def trace(x: MetaTensor, offset: int = 0, axis1: int = 0, axis2: int = 1) -> MetaTensor:
    """The dims that a sum of diagonals leaves."""
    if x.ndim < 2:
        raise ShapeError(f"{x} has no diagonal; it takes at least two axes")
    gone = [ax.positive(a, x.ndim, n) for a, n in ((axis1, "axis1"), (axis2, "axis2"))]
    if gone[0] == gone[1]:
        raise AttributeValueError(
            f"axis1 and axis2 are both axis {gone[0]}; a diagonal goes along two, write others"
        )
    return x.with_dims([d for i, d in enumerate(x.dims) if i not in gone])


# -- tensors without inputs --------------------------------------------------------------------
@rules.infer_meta("CreateLikeInferMeta")
def create_like(x: MetaTensor, dtype: Any = None, *rest: Any) -> MetaTensor:
    return x if dtype is None else x.with_dtype(dtype)


@rules.infer_meta("GaussianInferMeta")
def gaussian(
    shape: Any, mean: Any, std: Any, seed: Any, dtype: Any = None, *rest: Any
) -> MetaTensor:
    return MetaTensor(shape, dtype or dt.default_float())


@rules.infer_meta("TruncatedGaussianRandomInferMeta")
def truncated_gaussian(
    shape: Any, mean: Any, std: Any, seed: Any, a: Any, b: Any, dtype: Any = None, *rest: Any
) -> MetaTensor:
    return MetaTensor(shape, dtype or dt.default_float())


@rules.infer_meta("UniformRandomInferMeta")
def uniform(shape: Any, dtype: Any = None, *rest: Any) -> MetaTensor:
    return MetaTensor(shape, dtype or dt.default_float())


@rules.infer_meta("RandintInferMeta")
def randint(low: Any, high: Any, shape: Any, dtype: Any = None, *rest: Any) -> MetaTensor:
    return MetaTensor(shape, dtype or dt.DEFAULT_INT)


@rules.infer_meta("RandpermInferMeta")
def randperm(n: Any, dtype: Any = None, *rest: Any) -> MetaTensor:
    return MetaTensor((n,), dtype or dt.DEFAULT_INT)


@rules.infer_meta("ArangeTensorInferMeta")
def arange_of_tensors(start: MetaTensor, end: Any, step: Any, dtype: Any = None) -> MetaTensor:
    """Of as many elements as the values of the tensors say."""
    return MetaTensor((dm.symbol(),), start.dtype if dtype is None else dtype)


# -- gradients: the metas of what is differentiated --------------------------------------------
@rules.infer_meta("GeneralUnaryGradInferMeta")
@rules.infer_meta("GradSameWithXInferMeta")
@rules.infer_meta("UnchangedExceptLayoutInferMeta")
@rules.infer_meta("UnchangedMultiInferMeta")
def gradient_of_one(x: Any, *rest: Any) -> Any:
    return x


@rules.infer_meta("GeneralBinaryGradInferMeta")
@rules.infer_meta("SwiGLUGradInferMeta")
def gradients_of_two(x: Any, y: Any, *rest: Any) -> tuple[Any, ...]:
    return x, y


@rules.infer_meta("GeneralTernaryGradInferMeta")
@rules.infer_meta("LayerNormGradInferMeta")
@rules.infer_meta("RmsNormGradInferMeta")
def gradients_of_three(x: Any, y: Any, z: Any, *rest: Any) -> tuple[Any, ...]:
    return x, y, z


@rules.infer_meta("RealAndImagGradInferMeta")
def gradient_of_a_part(out_grad: MetaTensor) -> MetaTensor:
    return out_grad.with_dtype(dt.complex_dtype(out_grad.dtype))


@rules.infer_meta("IndexPutGradInferMeta")
def gradients_of_index_put(x: Any, indices: Any, value: Any, *rest: Any) -> tuple[Any, ...]:
    return x, value


@rules.infer_meta("InstanceNormGradInferMeta")
def gradients_of_instance_norm(x: Any, scale: Any, *rest: Any) -> tuple[Any, ...]:
    return x, scale, scale


@rules.infer_meta("CrossEntropyWithSoftmaxGradInferMeta")
def gradient_of_logits(label: Any, softmax: Any, *rest: Any) -> Any:
    return softmax
