"""One function an op of the table in ``yaml/``.

Generated: edit the table, then write this file anew with ``make ops``.
"""

# fmt: off
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from phix.core.dispatch import bind, bind_in_place
from phix.core.faces import face
from phix.table.definition import definer

if TYPE_CHECKING:
    from phix.core.annotations import DTypeLike, FloatLike, IntArrayLike, PlaceLike, ScalarLike
    from phix.core.dims import DimLike
    from phix.core.graph import Graph
    from phix.core.tensor import Tensor, TensorLike

__all__ = [
    "abs", "abs_", "abs_grad",
    "accuracy", "accuracy_check", "acos", "acos_", "acos_grad", "acosh", "acosh_", "acosh_grad",
    "adadelta_", "adagrad_", "adam_", "adamax_", "adamw_", "add", "add_", "add_grad", "add_n",
    "add_position_encoding", "addmm", "addmm_",
    "affine_channel", "affine_channel_", "affine_grid",
    "all", "all_gather", "all_reduce", "all_reduce_", "all_to_all", "all_to_all_grad",
    "all_to_allv", "allclose",
    "amax", "amin",
    "angle", "any",
    "apply_per_channel_scale",
    "arange", "argmax", "argmin", "argsort", "argsort_grad",
    "as_complex", "as_real", "as_strided", "asgd_", "asin", "asin_", "asin_grad", "asinh", "asinh_",
    "asinh_grad", "assign", "assign_", "assign_out_", "assign_pos", "assign_value_",
    "atan", "atan2", "atan2_grad", "atan_", "atan_grad", "atanh", "atanh_", "atanh_grad",
    "attention", "attention_grad", "attention_lstm",
    "auc",
    "average_accumulates_", "avg_pool2d", "avg_pool2d_grad", "avg_pool3d", "avg_pool3d_grad",
    "axis_index",
    "baddbmm", "baddbmm_", "barrier", "batch_fc", "batch_norm", "batch_norm_grad", "batched_gemm",
    "bce_loss", "bce_loss_", "bce_loss_grad",
    "bernoulli", "bessel_ratio", "bessel_ratio_grad",
    "bicubic_interp", "bilinear", "bilinear_interp", "bincount", "binomial", "bipartite_match",
    "bitcast", "bitwise_and", "bitwise_and_", "bitwise_left_shift", "bitwise_left_shift_",
    "bitwise_not", "bitwise_not_", "bitwise_or", "bitwise_or_", "bitwise_right_shift",
    "bitwise_right_shift_", "bitwise_xor", "bitwise_xor_",
    "bmm",
    "box_clip", "box_coder",
    "branch", "broadcast", "broadcast_", "broadcast_tensors",
    "build_src_rank_and_local_expert_id",
    "c_allreduce_sum", "c_allreduce_sum_", "c_concat", "c_embedding", "c_identity", "c_identity_",
    "c_scatter", "c_softmax_with_cross_entropy", "c_split",
    "cal_aux_loss", "calc_reduced_attn_scores", "call", "cast", "cast_", "cast_grad",
    "ceil", "ceil_", "celu",
    "channel_shuffle", "check_finite_and_unscale_", "check_numerics", "checkpoint",
    "checkpoint_name", "checkpoint_name_grad", "cholesky", "cholesky_grad", "cholesky_solve",
    "chunk_eval",
    "class_center_sample", "clip", "clip_", "clip_by_norm", "clip_grad",
    "cofactors", "collect_fpn_proposals", "complex", "complex_grad", "concat", "concat_grad",
    "conj", "conj_grad", "conv2d", "conv2d_grad", "conv2d_transpose", "conv2d_transpose_bias",
    "conv3d", "conv3d_transpose", "copysign", "copysign_", "copysign_grad", "correlation", "cos",
    "cos_", "cos_grad", "cosh", "cosh_", "cosh_grad",
    "crf_decoding", "crop", "cross", "cross_entropy_with_softmax", "cross_entropy_with_softmax_",
    "cross_entropy_with_softmax_bwd_w_downcast", "cross_entropy_with_softmax_grad",
    "ctc_align",
    "cudnn_lstm", "cummax", "cummax_grad", "cummin", "cummin_grad", "cumprod", "cumprod_",
    "cumprod_grad", "cumsum", "cumsum_", "cumsum_grad", "custom_jvp_call", "custom_vjp_call",
    "debug_callback", "decayed_adagrad", "deformable_conv", "depend", "depthwise_conv2d",
    "depthwise_conv2d_bias", "depthwise_conv2d_transpose", "depthwise_conv3d_bias",
    "dequantize_abs_max", "dequantize_log", "det", "det_grad",
    "diag", "diag_embed", "diagonal", "diagonal_grad", "digamma", "digamma_", "digamma_grad",
    "dim_value", "dirichlet", "dist", "distribute_fpn_proposals", "div_scale", "divide", "divide_",
    "divide_grad",
    "dot",
    "dpsgd",
    "dropout", "dropout_grad",
    "edit_distance",
    "eig", "eig_grad", "eigh", "eigh_grad", "eigvals", "eigvals_grad", "eigvalsh", "einsum",
    "elementwise_pow", "elementwise_pow_grad", "elu", "elu_", "elu_grad",
    "embedding", "embedding_grad_add_to", "embedding_grad_add_to_", "embedding_grad_dense",
    "embedding_with_scaled_gradient", "embedding_with_scaled_gradient_grad", "empty", "empty_like",
    "equal", "equal_all",
    "erf", "erf_", "erf_grad", "erfc", "erfc_grad", "erfcx", "erfcx_grad", "erfinv", "erfinv_",
    "erfinv_grad",
    "exp", "exp_", "exp_grad", "expand", "expand_as", "expand_grad", "expand_modality_expert_id",
    "expect_call", "expect_sizes", "expect_sizes_grad", "expm", "expm1", "expm1_", "expm1_grad",
    "expm_grad", "exponential_",
    "eye",
    "fake_channel_wise_dequantize_max_abs", "fake_channel_wise_quantize_abs_max",
    "fake_channel_wise_quantize_dequantize_abs_max",
    "fake_channel_wise_quantize_dequantize_abs_max_grad", "fake_dequantize_max_abs",
    "fake_quantize_abs_max", "fake_quantize_dequantize_abs_max",
    "fake_quantize_dequantize_abs_max_grad", "fake_quantize_dequantize_moving_average_abs_max",
    "fake_quantize_dequantize_moving_average_abs_max_",
    "fake_quantize_dequantize_moving_average_abs_max_grad", "fake_quantize_moving_average_abs_max",
    "fake_quantize_moving_average_abs_max_", "fake_quantize_range_abs_max",
    "fake_quantize_range_abs_max_", "fast_ln", "fast_rms_norm",
    "fft_c2c", "fft_c2c_grad", "fft_c2r", "fft_c2r_grad", "fft_r2c", "fft_r2c_grad",
    "fill", "fill_", "fill_diagonal", "fill_diagonal_", "fill_diagonal_tensor",
    "fill_diagonal_tensor_",
    "flash_attn", "flash_attn_qkvpacked", "flash_attn_unpadded", "flash_attn_v3",
    "flash_attn_v3_varlen", "flash_attn_varlen_qkvpacked", "flashmask_attention",
    "flashmask_attention_v2", "flatten", "flatten_", "flip", "flip_grad", "floor", "floor_",
    "floor_divide", "floor_divide_",
    "fmax", "fmax_grad", "fmin", "fmin_grad",
    "fold", "fold_grad", "fori_loop",
    "frac", "frac_", "fractional_max_pool2d", "fractional_max_pool3d", "frame", "frame_grad",
    "frobenius_norm",
    "ftrl",
    "full", "full_", "full_batch_size_like", "full_int_array", "full_like", "full_with_tensor",
    "fused_adam_", "fused_batch_norm_act", "fused_bn_add_activation", "fused_gemm_epilogue",
    "fused_rms_norm_ext", "fused_rms_norm_quant", "fused_softmax_mask",
    "fused_softmax_mask_upper_triangle",
    "gamma_density", "gamma_density_grad", "gammaincc", "gammaincc_", "gammaln", "gammaln_",
    "gather", "gather_grad", "gather_nd", "gather_nd_grad", "gather_rows", "gather_tree",
    "gaussian", "gaussian_inplace", "gaussian_inplace_",
    "gcd", "gcd_",
    "gelu", "gelu_grad", "generate_proposals",
    "global_gather", "global_scatter",
    "graph_khop_sampler", "graph_sample_neighbors", "greater_equal", "greater_than", "grid_sample",
    "group_norm", "group_norm_grad", "gru", "gru_unit",
    "gumbel_softmax",
    "hardshrink", "hardsigmoid", "hardsigmoid_grad", "hardswish", "hardswish_grad", "hardtanh",
    "hardtanh_", "hardtanh_grad",
    "heaviside", "heaviside_grad",
    "hinge_loss", "histogram",
    "hsigmoid_loss",
    "huber_loss", "huber_loss_grad",
    "i0", "i0_", "i0e",
    "i1", "i1_", "i1e", "i1e_grad",
    "identity_loss", "identity_loss_",
    "im2sequence", "imag", "imag_grad",
    "increment", "increment_", "index_add", "index_add_", "index_put", "index_put_",
    "index_put_grad", "index_sample", "index_select", "index_select_strided", "instance_norm",
    "instance_norm_grad", "int_bincount", "interp_antialias", "inverse", "inverse_grad",
    "io_copy", "io_copy_grad", "io_copy_like", "io_copy_like_grad",
    "is_empty", "isclose", "isfinite", "isinf", "isnan",
    "kldiv_loss",
    "kron",
    "kthvalue",
    "l1_norm", "l1_norm_",
    "label_smooth", "lamb_", "layer_norm", "layer_norm_grad",
    "lcm", "lcm_",
    "leaky_relu", "leaky_relu_", "leaky_relu_grad", "lerp", "lerp_", "less_equal", "less_than",
    "lgamma", "lgamma_", "lgamma_grad",
    "limit_by_capacity", "linear", "linear_interp", "linear_recurrence", "linear_recurrence_grad",
    "linear_v2", "linspace",
    "llm_int8_linear",
    "log", "log1p", "log1p_", "log1p_grad", "log2", "log2_", "log2_grad", "log10", "log10_",
    "log10_grad", "log_", "log_grad", "log_loss", "log_ndtr", "log_ndtr_grad", "log_softmax",
    "log_softmax_grad", "logcumsumexp", "logcumsumexp_grad", "logical_and", "logical_and_",
    "logical_not", "logical_not_", "logical_or", "logical_or_", "logical_xor", "logical_xor_",
    "logit", "logit_", "logit_grad", "logsigmoid", "logsigmoid_grad", "logspace", "logsumexp",
    "logsumexp_grad", "lookup_table_dequant",
    "lp_pool2d",
    "lstm", "lstsq",
    "lu", "lu_grad", "lu_permutation", "lu_solve", "lu_solve_grad", "lu_unpack",
    "margin_cross_entropy", "masked_fill", "masked_fill_", "masked_multihead_attention_",
    "masked_select", "match_matrix_tensor", "matmul", "matmul_grad", "matrix_nms", "matrix_power",
    "matrix_rank", "matrix_rank_atol_rtol", "matrix_rank_tol", "max", "max_grad", "max_pool2d",
    "max_pool2d_grad", "max_pool2d_with_index", "max_pool3d", "max_pool3d_grad",
    "max_pool3d_with_index", "max_with_index", "maximum", "maximum_grad", "maxout",
    "mean", "mean_all", "mean_all_grad", "mean_grad", "median", "memory_efficient_attention",
    "merged_adam_", "merged_momentum_", "meshgrid",
    "min", "min_grad", "min_with_index", "minimum", "minimum_grad", "mish",
    "mode", "moe_combine", "moe_combine_auto", "moe_combine_no_weight", "moe_dispatch", "moe_ffn",
    "moe_gate_dispatch", "moe_gate_dispatch_auto", "moe_gate_dispatch_permute", "moe_permute",
    "moe_reduce", "moe_unpermute", "momentum_",
    "mp_allreduce_sum", "mp_allreduce_sum_",
    "mse_loss",
    "multi_dot", "multiclass_nms3", "multinomial", "multiplex", "multiply", "multiply_",
    "multiply_grad",
    "mv",
    "nadam_", "nanmedian", "nansum",
    "ndtr", "ndtr_grad",
    "nearest_interp", "nextafter", "nextafter_grad",
    "nll_loss",
    "nms",
    "nonzero", "norm", "normal_density", "normal_density_grad", "not_equal",
    "npu_identity",
    "number_count", "numel",
    "one_hot", "ones", "ones_like",
    "optimization_barrier",
    "overlap_add", "overlap_add_grad",
    "p_norm", "p_norm_grad",
    "pad", "pad3d", "pad_grad", "partial_allgather", "partial_allgather_", "partial_concat",
    "partial_sum",
    "pinv", "pinv_grad", "pixel_shuffle", "pixel_unshuffle",
    "poisson", "polygamma", "polygamma_", "polygamma_grad", "pool2d", "pool3d", "pow", "pow_",
    "pow_grad",
    "ppermute", "ppermute_grad",
    "prelu", "prior_box", "prod", "prod_grad", "prune_gate_by_capacity",
    "psroi_pool", "psroi_pool_double_grad", "psroi_pool_grad", "psum", "psum_scatter",
    "pure_callback", "put_along_axis", "put_along_axis_", "put_along_axis_grad",
    "pvary", "pvary_grad",
    "qr", "qr_grad",
    "radam_", "ragged_all_to_all", "randint", "random", "random_", "random_bits", "random_loggamma",
    "random_loggamma_grad", "random_routing", "random_routing_", "randperm", "range_v2",
    "rank_step", "rank_vary",
    "real", "real_grad", "reciprocal", "reciprocal_", "reciprocal_grad", "reduce", "reduce_",
    "reduce_as", "reduce_as_grad", "reduce_scatter", "reindex_graph", "relu", "relu6", "relu6_grad",
    "relu_", "relu_grad", "remainder", "remainder_", "remainder_grad", "renorm", "renorm_",
    "repeat_interleave", "repeat_interleave_with_tensor_index", "reshape", "reshape_",
    "reshape_grad", "restrict_nonzero", "reverse",
    "rint", "rint_",
    "rms_norm", "rms_norm_grad", "rmsprop_",
    "rnn",
    "roi_align", "roi_align_double_grad", "roi_align_grad", "roi_pool", "roll", "roll_grad",
    "round", "round_",
    "rprop_",
    "rrelu",
    "rsqrt", "rsqrt_", "rsqrt_grad",
    "scale", "scale_", "scale_grad", "scaled_bessel", "scaled_bessel_grad", "scan", "scatter",
    "scatter_", "scatter_nd_add", "scatter_nd_add_grad", "scatter_rows", "schur",
    "searchsorted", "segment_pool", "segment_sum_csr", "segment_sum_csr_grad", "select_n", "selu",
    "send_u_recv", "send_ue_recv", "send_uv", "sequence_conv", "sequence_mask", "sequence_pool",
    "set", "set_", "set_value", "set_value_", "set_value_with_tensor", "set_value_with_tensor_",
    "sgd_",
    "shape", "shape64", "shard_index", "share_data", "shuffle_batch", "shuffle_channel",
    "sigmoid", "sigmoid_", "sigmoid_cross_entropy_with_logits",
    "sigmoid_cross_entropy_with_logits_", "sigmoid_grad", "sign", "sign_grad", "silu", "silu_grad",
    "sin", "sin_", "sin_grad", "sinh", "sinh_", "sinh_grad",
    "slice", "slice_grad", "slice_put", "slice_put_grad", "slogdet", "slogdet_v2",
    "slogdet_v2_grad",
    "softmax", "softmax_", "softmax_grad", "softplus", "softplus_grad", "softshrink", "softsign",
    "softsign_grad", "solve", "solve_grad", "sort", "sort_grad",
    "sparse_attention", "sparse_product_columns", "sparse_product_counts", "sparse_product_terms",
    "sparse_product_terms_grad", "spectral_norm", "split", "split_grad", "split_with_num",
    "split_with_num_grad",
    "sqrt", "sqrt_", "sqrt_grad", "sqrtm", "sqrtm_grad", "square", "square_", "square_grad",
    "squared_l2_norm", "squared_l2_norm_grad", "squeeze", "squeeze_",
    "stack", "standard_gamma", "stanh", "std", "stft", "stop_gradient", "strided_slice",
    "strided_slice_grad",
    "subtract", "subtract_", "subtract_grad", "sum", "sum_grad",
    "svd", "svd_grad", "svdvals", "svdvals_grad",
    "swiglu", "swiglu_grad", "swish", "swish_grad",
    "sync_batch_norm_", "sync_calc_stream", "sync_calc_stream_", "sync_comm_stream",
    "take_along_axis", "take_along_axis_grad", "tan", "tan_", "tan_grad", "tanh", "tanh_",
    "tanh_grad", "tanh_shrink", "tanh_shrink_grad",
    "temporal_shift", "tensor_unfold", "tensor_unfold_grad", "tensordot",
    "thresholded_relu", "thresholded_relu_",
    "tile",
    "top_p_sampling", "topk", "topk_grad",
    "trace", "trans_layout", "transpose", "transpose_", "transpose_grad", "triangular_solve",
    "triangular_solve_grad", "tril", "tril_", "tril_grad", "tril_indices", "trilinear_interp",
    "triu", "triu_", "triu_grad", "triu_indices", "true_positions", "trunc", "trunc_",
    "trunc_divide", "trunc_divide_", "truncated_gaussian_random",
    "unbind", "unbind_grad", "undetermined", "undetermined_grad", "unfold", "unfold_grad",
    "uniform", "uniform_inplace", "uniform_inplace_", "uniform_random_batch_size_like", "unique",
    "unique_consecutive", "unpool", "unpool3d", "unsqueeze", "unsqueeze_", "unstack",
    "unstack_grad",
    "update_loss_scaling_",
    "var", "var_grad", "variance",
    "view_dtype", "view_shape", "view_slice", "viterbi_decode",
    "warpctc", "warprnnt",
    "weight_dequantize", "weight_only_linear", "weight_quantize", "weighted_sample_neighbors",
    "where", "where_", "where_grad", "while_loop",
    "yolo_box", "yolo_box_head", "yolo_loss",
    "zeros", "zeros_like",
]
__dir__ = face(__all__)


# -- yaml/activation.yaml --------------------------------------------------------------------------
define = definer("yaml/activation.yaml", family="activation")

_softmax = define(
    "softmax", "(Tensor x, int axis=-1)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="softmax_grad", traits=("promote_float", "full_precision"), dtypes=("float",),
    inplace=(("x", "out"),)
)
def softmax(x: TensorLike, axis: int = -1) -> Tensor:
    """exp(x) / sum(exp(x)) along the axis, computed from x - max(x) so that nothing overflows.

    Args:
        x: tensor, float.
        axis: int.
    """
    return bind(_softmax, (x,), (axis,))

def softmax_(x: TensorLike, axis: int = -1) -> Tensor:
    """:func:`softmax` in the memory of x, not to be used after it."""
    return bind_in_place(_softmax, (x,), (axis,))

_softmax_grad = define(
    "softmax_grad", "(Tensor out, Tensor out_grad, int axis)", "Tensor(x_grad)", forward="softmax"
)
def softmax_grad(out, out_grad, axis):
    """Backward of :func:`softmax`."""
    return bind(_softmax_grad, (out, out_grad), (axis,))

_log_softmax = define(
    "log_softmax", "(Tensor x, int axis=-1)", "Tensor(out)",
    infer_meta=("UnchangedInferMeta", None), backward="log_softmax_grad",
    traits=("promote_float", "full_precision"), dtypes=("float",)
)
def log_softmax(x: TensorLike, axis: int = -1) -> Tensor:
    """x - log(sum(exp(x))) along the axis, computed from x - max(x) so that nothing overflows.

    Args:
        x: tensor, float.
        axis: int.
    """
    return bind(_log_softmax, (x,), (axis,))

_log_softmax_grad = define(
    "log_softmax_grad", "(Tensor out, Tensor out_grad, int axis)", "Tensor(x_grad)",
    forward="log_softmax"
)
def log_softmax_grad(out, out_grad, axis):
    """Backward of :func:`log_softmax`."""
    return bind(_log_softmax_grad, (out, out_grad), (axis,))

_swiglu = define(
    "swiglu", "(Tensor x, Tensor y)", "Tensor(out)", backward="swiglu_grad",
    traits=("promote_float",), dtypes=("float",), optional=("y",)
)
def swiglu(x: TensorLike, y: TensorLike | None = None) -> Tensor:
    """silu(x) * y, elementwise; without y, the halves of x along the last axis are taken for x and
    y.

    Args:
        x: tensor, float.
        y: tensor, float, may be None.
    """
    return bind(_swiglu, (x, y), ())

_swiglu_grad = define(
    "swiglu_grad", "(Tensor x, Tensor y, Tensor out_grad)", "Tensor(x_grad), Tensor(y_grad)",
    optional=("y",), forward="swiglu"
)
def swiglu_grad(x, y, out_grad):
    """Backward of :func:`swiglu`."""
    return bind(_swiglu_grad, (x, y, out_grad), ())

_gelu = define(
    "gelu", "(Tensor x, bool approximate=false)", "Tensor(out)",
    infer_meta=("UnchangedInferMeta", None), backward="gelu_grad", jvp="pointwise",
    traits=("pointwise", "promote_float"), dtypes=("float",)
)
def gelu(x: TensorLike, approximate: bool = False) -> Tensor:
    """Gaussian error linear unit, x * ndtr(x) = x * (1 + erf(x / sqrt(2))) / 2, elementwise;
    approximate: x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))) / 2.

    Args:
        x: tensor, float.
        approximate: bool.
    """
    return bind(_gelu, (x,), (approximate,))

_gelu_grad = define(
    "gelu_grad", "(Tensor x, Tensor out_grad, bool approximate)", "Tensor(x_grad)", forward="gelu"
)
def gelu_grad(x, out_grad, approximate):
    """Backward of :func:`gelu`."""
    return bind(_gelu_grad, (x, out_grad), (approximate,))

_sigmoid = define(
    "sigmoid", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="sigmoid_grad", jvp="pointwise", traits=("pointwise", "promote_float"),
    dtypes=("float", "complex"), inplace=(("x", "out"),)
)
def sigmoid(x: TensorLike) -> Tensor:
    """Logistic function, 1 / (1 + exp(-x)), elementwise, without overflow and with full accuracy
    for x far below 0. The slope is taken from the result, out (1 - out): where that is rounded to 1
    it is 0. That of logsigmoid and softplus keeps its digits.

    Args:
        x: tensor, float or complex.
    """
    return bind(_sigmoid, (x,), ())

def sigmoid_(x: TensorLike) -> Tensor:
    """:func:`sigmoid` in the memory of x, not to be used after it."""
    return bind_in_place(_sigmoid, (x,), ())

_sigmoid_grad = define(
    "sigmoid_grad", "(Tensor out, Tensor out_grad)", "Tensor(x_grad)", forward="sigmoid"
)
def sigmoid_grad(out, out_grad):
    """Backward of :func:`sigmoid`."""
    return bind(_sigmoid_grad, (out, out_grad), ())

_logsigmoid = define(
    "logsigmoid", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="logsigmoid_grad", jvp="pointwise",
    traits=("pointwise", "promote_float", "full_precision"), dtypes=("float", "complex")
)
def logsigmoid(x: TensorLike) -> Tensor:
    """log(1 / (1 + exp(-x))), elementwise, without overflow; of complex numbers -softplus(-x).

    Args:
        x: tensor, float or complex.
    """
    return bind(_logsigmoid, (x,), ())

_logsigmoid_grad = define(
    "logsigmoid_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="logsigmoid"
)
def logsigmoid_grad(x, out_grad):
    """Backward of :func:`logsigmoid`."""
    return bind(_logsigmoid_grad, (x, out_grad), ())

_softplus = define(
    "softplus", "(Tensor x, float beta=1.0, float threshold=20.0f)", "Tensor(out)",
    infer_meta=("UnchangedInferMeta", None), backward="softplus_grad", jvp="pointwise",
    traits=("pointwise", "promote_float", "full_precision"), dtypes=("float", "complex")
)
def softplus(x: TensorLike, beta: FloatLike = 1.0, threshold: FloatLike = 20.0) -> Tensor:
    """log(1 + exp(beta * x)) / beta, elementwise, without overflow; x itself where beta * x, of a
    complex x its real part, is above the threshold.

    Args:
        x: tensor, float or complex.
        beta, threshold: float or one-element tensor.
    """
    return bind(_softplus, (x,), (beta, threshold))

_softplus_grad = define(
    "softplus_grad", "(Tensor x, Tensor out_grad, float beta, float threshold)", "Tensor(x_grad)",
    forward="softplus"
)
def softplus_grad(x, out_grad, beta, threshold):
    """Backward of :func:`softplus`."""
    return bind(_softplus_grad, (x, out_grad), (beta, threshold))

_silu = define(
    "silu", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="silu_grad", jvp="pointwise", traits=("pointwise", "promote_float"),
    dtypes=("float", "complex")
)
def silu(x: TensorLike) -> Tensor:
    """x * sigmoid(x), elementwise.

    Args:
        x: tensor, float or complex.
    """
    return bind(_silu, (x,), ())

_silu_grad = define(
    "silu_grad", "(Tensor x, Tensor out, Tensor out_grad)", "Tensor(x_grad)", forward="silu"
)
def silu_grad(x, out, out_grad):
    """Backward of :func:`silu`."""
    return bind(_silu_grad, (x, out, out_grad), ())

_swish = define(
    "swish", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="swish_grad", jvp="pointwise", traits=("pointwise", "promote_float"),
    dtypes=("float", "complex")
)
def swish(x: TensorLike) -> Tensor:
    """x * sigmoid(x), elementwise: :func:`silu` by its other name.

    Args:
        x: tensor, float or complex.
    """
    return bind(_swish, (x,), ())

_swish_grad = define("swish_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="swish")
def swish_grad(x, out_grad):
    """Backward of :func:`swish`."""
    return bind(_swish_grad, (x, out_grad), ())

_relu = define(
    "relu", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="relu_grad", jvp="pointwise", traits=("pointwise", "promote_float"), dtypes=("float",),
    inplace=(("x", "out"),)
)
def relu(x: TensorLike) -> Tensor:
    """max(x, 0), elementwise; the slope at 0 is 0.

    Args:
        x: tensor, float.
    """
    return bind(_relu, (x,), ())

def relu_(x: TensorLike) -> Tensor:
    """:func:`relu` in the memory of x, not to be used after it."""
    return bind_in_place(_relu, (x,), ())

_relu_grad = define("relu_grad", "(Tensor out, Tensor out_grad)", "Tensor(x_grad)", forward="relu")
def relu_grad(out, out_grad):
    """Backward of :func:`relu`."""
    return bind(_relu_grad, (out, out_grad), ())

_relu6 = define(
    "relu6", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="relu6_grad", jvp="pointwise", traits=("pointwise", "promote_float"), dtypes=("float",)
)
def relu6(x: TensorLike) -> Tensor:
    """min(max(x, 0), 6), elementwise; the slope at 0 and at 6 is 0.

    Args:
        x: tensor, float.
    """
    return bind(_relu6, (x,), ())

_relu6_grad = define(
    "relu6_grad", "(Tensor out, Tensor out_grad)", "Tensor(x_grad)", forward="relu6"
)
def relu6_grad(out, out_grad):
    """Backward of :func:`relu6`."""
    return bind(_relu6_grad, (out, out_grad), ())

_leaky_relu = define(
    "leaky_relu", "(Tensor x, float negative_slope=0.02f)", "Tensor(out)",
    infer_meta=("UnchangedInferMeta", None), backward="leaky_relu_grad", jvp="pointwise",
    traits=("pointwise", "promote_float"), dtypes=("float",), inplace=(("x", "out"),)
)
def leaky_relu(x: TensorLike, negative_slope: FloatLike = 0.02) -> Tensor:
    """x above 0, else negative_slope * x, elementwise; the slope at 0 is negative_slope.

    Args:
        x: tensor, float.
        negative_slope: float or one-element tensor.
    """
    return bind(_leaky_relu, (x,), (negative_slope,))

def leaky_relu_(x: TensorLike, negative_slope: FloatLike = 0.02) -> Tensor:
    """:func:`leaky_relu` in the memory of x, not to be used after it."""
    return bind_in_place(_leaky_relu, (x,), (negative_slope,))

_leaky_relu_grad = define(
    "leaky_relu_grad", "(Tensor x, Tensor out_grad, float negative_slope)", "Tensor(x_grad)",
    forward="leaky_relu"
)
def leaky_relu_grad(x, out_grad, negative_slope):
    """Backward of :func:`leaky_relu`."""
    return bind(_leaky_relu_grad, (x, out_grad), (negative_slope,))

_elu = define(
    "elu", "(Tensor x, float alpha=1.0f)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="elu_grad", jvp="pointwise", traits=("pointwise", "promote_float"), dtypes=("float",),
    inplace=(("x", "out"),)
)
def elu(x: TensorLike, alpha: FloatLike = 1.0) -> Tensor:
    """x above 0, else alpha * (exp(x) - 1), elementwise; the slope at 0 is alpha.

    Args:
        x: tensor, float.
        alpha: float or one-element tensor.
    """
    return bind(_elu, (x,), (alpha,))

def elu_(x: TensorLike, alpha: FloatLike = 1.0) -> Tensor:
    """:func:`elu` in the memory of x, not to be used after it."""
    return bind_in_place(_elu, (x,), (alpha,))

_elu_grad = define(
    "elu_grad", "(Tensor x, Tensor out_grad, float alpha)", "Tensor(x_grad)", forward="elu"
)
def elu_grad(x, out_grad, alpha):
    """Backward of :func:`elu`."""
    return bind(_elu_grad, (x, out_grad), (alpha,))

_softsign = define(
    "softsign", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="softsign_grad", jvp="pointwise", traits=("pointwise", "promote_float"),
    dtypes=("float", "complex")
)
def softsign(x: TensorLike) -> Tensor:
    """x / (1 + abs(x)), elementwise.

    Args:
        x: tensor, float or complex.
    """
    return bind(_softsign, (x,), ())

_softsign_grad = define(
    "softsign_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="softsign"
)
def softsign_grad(x, out_grad):
    """Backward of :func:`softsign`."""
    return bind(_softsign_grad, (x, out_grad), ())

_hardswish = define(
    "hardswish", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="hardswish_grad", jvp="pointwise", traits=("pointwise", "promote_float"),
    dtypes=("float",)
)
def hardswish(x: TensorLike) -> Tensor:
    """x * min(max(x + 3, 0), 6) / 6, elementwise; the slope is 0 at -3 and 1 at 3.

    Args:
        x: tensor, float.
    """
    return bind(_hardswish, (x,), ())

_hardswish_grad = define(
    "hardswish_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="hardswish"
)
def hardswish_grad(x, out_grad):
    """Backward of :func:`hardswish`."""
    return bind(_hardswish_grad, (x, out_grad), ())

_hardsigmoid = define(
    "hardsigmoid", "(Tensor x, float slope=0.2, float offset=0.5)", "Tensor(out)",
    infer_meta=("UnchangedInferMeta", None), backward="hardsigmoid_grad", jvp="pointwise",
    traits=("pointwise", "promote_float"), dtypes=("float",)
)
def hardsigmoid(x: TensorLike, slope: FloatLike = 0.2, offset: FloatLike = 0.5) -> Tensor:
    """min(max(slope * x + offset, 0), 1), elementwise; the slope is 0 at both bounds.

    Args:
        x: tensor, float.
        slope, offset: float or one-element tensor.
    """
    return bind(_hardsigmoid, (x,), (slope, offset))

_hardsigmoid_grad = define(
    "hardsigmoid_grad", "(Tensor out, Tensor out_grad, float slope, float offset)",
    "Tensor(x_grad)", forward="hardsigmoid"
)
def hardsigmoid_grad(out, out_grad, slope, offset):
    """Backward of :func:`hardsigmoid`."""
    return bind(_hardsigmoid_grad, (out, out_grad), (slope, offset))

_hardtanh = define(
    "hardtanh", "(Tensor x, float t_min=0, float t_max=24)", "Tensor(out)",
    infer_meta=("UnchangedInferMeta", None), backward="hardtanh_grad", jvp="pointwise",
    traits=("pointwise", "promote_float"), dtypes=("float",), inplace=(("x", "out"),)
)
def hardtanh(x: TensorLike, t_min: FloatLike = 0.0, t_max: FloatLike = 24.0) -> Tensor:
    """min(max(x, t_min), t_max), elementwise; the slope is 0 at both bounds.

    Args:
        x: tensor, float.
        t_min, t_max: float or one-element tensor.
    """
    return bind(_hardtanh, (x,), (t_min, t_max))

def hardtanh_(x: TensorLike, t_min: FloatLike = 0.0, t_max: FloatLike = 24.0) -> Tensor:
    """:func:`hardtanh` in the memory of x, not to be used after it."""
    return bind_in_place(_hardtanh, (x,), (t_min, t_max))

_hardtanh_grad = define(
    "hardtanh_grad", "(Tensor x, Tensor out_grad, float t_min, float t_max)", "Tensor(x_grad)",
    forward="hardtanh"
)
def hardtanh_grad(x, out_grad, t_min, t_max):
    """Backward of :func:`hardtanh`."""
    return bind(_hardtanh_grad, (x, out_grad), (t_min, t_max))


# -- yaml/adam.yaml --------------------------------------------------------------------------------
define = definer("yaml/adam.yaml", family="optimizers")

_adam_ = define(
    "adam_", "(Tensor param, Tensor grad, Tensor learning_rate, Tensor moment1, Tensor moment2, "
    "Tensor moment2_max, Tensor beta1_pow, Tensor beta2_pow, Tensor master_param, "
    "Tensor skip_update, Scalar beta1 = 0.9f, Scalar beta2 = 0.999f, Scalar epsilon = 1.0e-8f, "
    "bool lazy_mode = false, int64_t min_row_size_to_use_multithread = 1000, "
    "bool multi_precision = false, bool use_global_beta_pow = false, bool amsgrad = false)",
    "Tensor(param_out), Tensor(moment1_out), Tensor(moment2_out), Tensor(moment2_max_out), "
    "Tensor(beta1_pow_out), Tensor(beta2_pow_out), Tensor(master_param_out)",
    traits=("promote(param)", "full_precision"), dtypes=("float",),
    optional=("moment2_max", "master_param", "skip_update", "moment2_max_out", "master_param_out"),
    inplace=(("param", "param_out"), ("moment1", "moment1_out"), ("moment2", "moment2_out"),
    ("moment2_max", "moment2_max_out"), ("beta1_pow", "beta1_pow_out"),
    ("beta2_pow", "beta2_pow_out"), ("master_param", "master_param_out")), kernel={"func": (("adam",
    ("dense", "dense", "dense", "dense", "dense", "dense", "dense", "dense", "dense", "dense"),
    ("dense", "dense", "dense", "dense", "dense", "dense", "dense")),
    ("adam_dense_param_sparse_grad", ("dense", "selected_rows", "dense", "dense", "dense", "dense",
    "dense", "dense", "dense", "dense"),
    ("dense", "dense", "dense", "dense", "dense", "dense", "dense")))}
)
def adam_(
    param: TensorLike, grad: TensorLike, learning_rate: TensorLike, moment1: TensorLike,
    moment2: TensorLike, moment2_max: TensorLike | None, beta1_pow: TensorLike,
    beta2_pow: TensorLike, master_param: TensorLike | None = None,
    skip_update: TensorLike | None = None, beta1: ScalarLike = 0.9, beta2: ScalarLike = 0.999,
    epsilon: ScalarLike = 1e-08, lazy_mode: bool = False,
    min_row_size_to_use_multithread: DimLike = 1000, multi_precision: bool = False,
    use_global_beta_pow: bool = False, amsgrad: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor, Tensor, Tensor | None]:
    """param - r * m / (sqrt(v) + epsilon * c) with m = beta1 * moment1 + (1 - beta1) * grad and v =
    beta2 * moment2 + (1 - beta2) * grad ** 2, which are the new moments, c = sqrt(1 - beta2_pow)
    and r = learning_rate * c / (1 - beta1_pow). With amsgrad v is the largest so far, kept in
    moment2_max; the powers are multiplied by beta1 and beta2 unless use_global_beta_pow; where
    skip_update holds all stays. With lazy_mode, a grad that is SelectedRows changes its rows alone.
    min_row_size_to_use_multithread says nothing here.

    Args:
        param: tensor, float.
        grad, learning_rate, moment1, moment2: tensor.
        moment2_max: tensor, may be None.
        beta1_pow, beta2_pow: tensor.
        master_param, skip_update: tensor, may be None.
        beta1, beta2, epsilon: number or one-element tensor.
        lazy_mode: bool.
        min_row_size_to_use_multithread: int.
        multi_precision, use_global_beta_pow, amsgrad: bool.

    Returns:
        param_out, moment1_out, moment2_out, moment2_max_out, beta1_pow_out, beta2_pow_out,
        master_param_out.
    """
    return bind_in_place(
        _adam_, (param, grad, learning_rate, moment1, moment2, moment2_max, beta1_pow, beta2_pow,
        master_param, skip_update), (beta1, beta2, epsilon, lazy_mode,
        min_row_size_to_use_multithread, multi_precision, use_global_beta_pow, amsgrad)
    )

_adamw_ = define(
    "adamw_", "(Tensor param, Tensor grad, Tensor learning_rate, Tensor moment1, Tensor moment2, "
    "Tensor moment2_max, Tensor beta1_pow, Tensor beta2_pow, Tensor master_param, "
    "Tensor skip_update, Scalar beta1 = 0.9f, Scalar beta2 = 0.999f, Scalar epsilon = 1.0e-8f, "
    "float lr_ratio = 1.0f, float coeff = 0.01f, bool with_decay = false, bool lazy_mode = false, "
    "int64_t min_row_size_to_use_multithread = 1000, bool multi_precision = false, "
    "bool use_global_beta_pow = false, bool amsgrad = false)",
    "Tensor(param_out), Tensor(moment1_out), Tensor(moment2_out), Tensor(moment2_max_out), "
    "Tensor(beta1_pow_out), Tensor(beta2_pow_out), Tensor(master_param_out)",
    traits=("promote(param)", "full_precision"), dtypes=("float",),
    optional=("moment2_max", "master_param", "skip_update", "moment2_max_out", "master_param_out"),
    inplace=(("param", "param_out"), ("moment1", "moment1_out"), ("moment2", "moment2_out"),
    ("moment2_max", "moment2_max_out"), ("beta1_pow", "beta1_pow_out"),
    ("beta2_pow", "beta2_pow_out"), ("master_param", "master_param_out")),
    kernel={"func": (("adamw", ("dense", "dense", "dense", "dense", "dense", "dense", "dense",
    "dense", "dense", "dense"), ("dense", "dense", "dense", "dense", "dense", "dense", "dense")),
    ("adamw_dense_param_sparse_grad", ("dense", "selected_rows", "dense", "dense", "dense", "dense",
    "dense", "dense", "dense", "dense"),
    ("dense", "dense", "dense", "dense", "dense", "dense", "dense")))}
)
def adamw_(
    param: TensorLike, grad: TensorLike, learning_rate: TensorLike, moment1: TensorLike,
    moment2: TensorLike, moment2_max: TensorLike | None, beta1_pow: TensorLike,
    beta2_pow: TensorLike, master_param: TensorLike | None = None,
    skip_update: TensorLike | None = None, beta1: ScalarLike = 0.9, beta2: ScalarLike = 0.999,
    epsilon: ScalarLike = 1e-08, lr_ratio: FloatLike = 1.0, coeff: FloatLike = 0.01,
    with_decay: bool = False, lazy_mode: bool = False,
    min_row_size_to_use_multithread: DimLike = 1000, multi_precision: bool = False,
    use_global_beta_pow: bool = False, amsgrad: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor, Tensor, Tensor | None]:
    """A step of :func:`adam_` with the learning rate learning_rate * lr_ratio, from param * (1 -
    learning_rate * lr_ratio * coeff) if with_decay.

    Args:
        param: tensor, float.
        grad, learning_rate, moment1, moment2: tensor.
        moment2_max: tensor, may be None.
        beta1_pow, beta2_pow: tensor.
        master_param, skip_update: tensor, may be None.
        beta1, beta2, epsilon: number or one-element tensor.
        lr_ratio, coeff: float or one-element tensor.
        with_decay, lazy_mode: bool.
        min_row_size_to_use_multithread: int.
        multi_precision, use_global_beta_pow, amsgrad: bool.

    Returns:
        param_out, moment1_out, moment2_out, moment2_max_out, beta1_pow_out, beta2_pow_out,
        master_param_out.
    """
    return bind_in_place(
        _adamw_, (param, grad, learning_rate, moment1, moment2, moment2_max, beta1_pow, beta2_pow,
        master_param, skip_update), (beta1, beta2, epsilon, lr_ratio, coeff, with_decay, lazy_mode,
        min_row_size_to_use_multithread, multi_precision, use_global_beta_pow, amsgrad)
    )

_adamax_ = define(
    "adamax_", "(Tensor param, Tensor grad, Tensor learning_rate, Tensor moment, Tensor inf_norm, "
    "Tensor beta1_pow, Tensor master_param, float beta1 = 0.9f, float beta2 = 0.999f, "
    "float epsilon = 1.0e-8f, bool multi_precision = false)",
    "Tensor(param_out), Tensor(moment_out), Tensor(inf_norm_out), Tensor(master_param_out)",
    traits=("promote(param)", "full_precision"), dtypes=("float",),
    optional=("master_param", "master_param_out"), inplace=(("param", "param_out"),
    ("moment", "moment_out"), ("inf_norm", "inf_norm_out"), ("master_param", "master_param_out"))
)
def adamax_(
    param: TensorLike, grad: TensorLike, learning_rate: TensorLike, moment: TensorLike,
    inf_norm: TensorLike, beta1_pow: TensorLike, master_param: TensorLike | None = None,
    beta1: FloatLike = 0.9, beta2: FloatLike = 0.999, epsilon: FloatLike = 1e-08,
    multi_precision: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """param - learning_rate / (1 - beta1_pow) * moment_out / inf_norm_out with moment_out = beta1 *
    moment + (1 - beta1) * grad and inf_norm_out = max(abs(grad), beta2 * inf_norm + epsilon).
    beta1_pow is not updated.

    Args:
        param: tensor, float.
        grad, learning_rate, moment, inf_norm, beta1_pow: tensor.
        master_param: tensor, may be None.
        beta1, beta2, epsilon: float or one-element tensor.
        multi_precision: bool.

    Returns:
        param_out, moment_out, inf_norm_out, master_param_out.
    """
    return bind_in_place(
        _adamax_, (param, grad, learning_rate, moment, inf_norm, beta1_pow, master_param),
        (beta1, beta2, epsilon, multi_precision)
    )

_lamb_ = define(
    "lamb_", "(Tensor param, Tensor grad, Tensor learning_rate, Tensor moment1, Tensor moment2, "
    "Tensor beta1_pow, Tensor beta2_pow, Tensor master_param, Tensor skip_update, "
    "float weight_decay, float beta1=0.9, float beta2=0.999, float epsilon=1.0e-6f, "
    "bool always_adapt=false, bool multi_precision=false)",
    "Tensor(param_out), Tensor(moment1_out), Tensor(moment2_out), Tensor(beta1_pow_out), "
    "Tensor(beta2_pow_out), Tensor(master_param_outs)", traits=("promote(param)", "full_precision"),
    dtypes=("float",),
    optional=("master_param", "skip_update", "beta1_pow_out", "beta2_pow_out", "master_param_outs"),
    inplace=(("param", "param_out"), ("moment1", "moment1_out"), ("moment2", "moment2_out"),
    ("beta1_pow", "beta1_pow_out"), ("beta2_pow", "beta2_pow_out"),
    ("master_param", "master_param_outs")), kernel={"func": (("lamb", ("dense", "dense", "dense",
    "dense", "dense", "dense", "dense", "dense", "dense"),
    ("dense", "dense", "dense", "dense", "dense", "dense")), ("lamb_sr", ("dense", "selected_rows",
    "dense", "dense", "dense", "dense", "dense", "dense", "dense"),
    ("dense", "dense", "dense", "dense", "dense", "dense")))}
)
def lamb_(
    param: TensorLike, grad: TensorLike, learning_rate: TensorLike, moment1: TensorLike,
    moment2: TensorLike, beta1_pow: TensorLike, beta2_pow: TensorLike,
    master_param: TensorLike | None, skip_update: TensorLike | None, weight_decay: FloatLike,
    beta1: FloatLike = 0.9, beta2: FloatLike = 0.999, epsilon: FloatLike = 1e-06,
    always_adapt: bool = False, multi_precision: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """param - learning_rate * r * u with u = m / (sqrt(v) + epsilon) + weight_decay * param, m and
    v the corrected moments of :func:`adam_`, and r the norm of param by that of u where both are
    above 0; r is 1 without weight_decay unless always_adapt.

    Args:
        param: tensor, float.
        grad, learning_rate, moment1, moment2, beta1_pow, beta2_pow: tensor.
        master_param, skip_update: tensor, may be None.
        weight_decay, beta1, beta2, epsilon: float or one-element tensor.
        always_adapt, multi_precision: bool.

    Returns:
        param_out, moment1_out, moment2_out, beta1_pow_out, beta2_pow_out, master_param_outs.
    """
    return bind_in_place(
        _lamb_, (param, grad, learning_rate, moment1, moment2, beta1_pow, beta2_pow, master_param,
        skip_update), (weight_decay, beta1, beta2, epsilon, always_adapt, multi_precision)
    )

_nadam_ = define(
    "nadam_", "(Tensor param, Tensor grad, Tensor learning_rate, Tensor momentum_decay_pow, "
    "Tensor beta2_pow, Tensor mu_product, Tensor moment1, Tensor moment2, Tensor master_param, "
    "float beta1 = 0.9f, float beta2 = 0.999f, float epsilon = 1.0e-8f, "
    "float momentum_decay = 0.004f, bool multi_precision = false)",
    "Tensor(param_out), Tensor(momentum_decay_pow_out), Tensor(beta2_pow_out), "
    "Tensor(mu_product_out), Tensor(moment1_out), Tensor(moment2_out), Tensor(master_param_out)",
    traits=("promote(param)", "full_precision"), dtypes=("float",),
    optional=("master_param", "master_param_out"), inplace=(("param", "param_out"),
    ("momentum_decay_pow", "momentum_decay_pow_out"), ("beta2_pow", "beta2_pow_out"),
    ("mu_product", "mu_product_out"), ("moment1", "moment1_out"), ("moment2", "moment2_out"),
    ("master_param", "master_param_out"))
)
def nadam_(
    param: TensorLike, grad: TensorLike, learning_rate: TensorLike, momentum_decay_pow: TensorLike,
    beta2_pow: TensorLike, mu_product: TensorLike, moment1: TensorLike, moment2: TensorLike,
    master_param: TensorLike | None = None, beta1: FloatLike = 0.9, beta2: FloatLike = 0.999,
    epsilon: FloatLike = 1e-08, momentum_decay: FloatLike = 0.004, multi_precision: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """Adam with Nesterov's momentum: with d = 0.96 * momentum_decay_pow, mu and mu' the products of
    beta1 with 1 - d ** momentum_decay / 2 of this step and the next, and p = mu_product * mu, it
    goes along mu' * moment1_out / (1 - p * mu') + (1 - mu) * grad / (1 - p), divided by
    sqrt(moment2_out / (1 - beta2_pow_out)) + epsilon. The powers begin as 1.

    Args:
        param: tensor, float.
        grad, learning_rate, momentum_decay_pow, beta2_pow, mu_product, moment1, moment2: tensor.
        master_param: tensor, may be None.
        beta1, beta2, epsilon, momentum_decay: float or one-element tensor.
        multi_precision: bool.

    Returns:
        param_out, momentum_decay_pow_out, beta2_pow_out, mu_product_out, moment1_out, moment2_out,
        master_param_out.
    """
    return bind_in_place(
        _nadam_, (param, grad, learning_rate, momentum_decay_pow, beta2_pow, mu_product, moment1,
        moment2, master_param), (beta1, beta2, epsilon, momentum_decay, multi_precision)
    )

_radam_ = define(
    "radam_",
    "(Tensor param, Tensor grad, Tensor learning_rate, Tensor beta1_pow, Tensor beta2_pow, "
    "Tensor rho, Tensor moment1, Tensor moment2, Tensor master_param, float beta1 = 0.9f, "
    "float beta2 = 0.999f, float epsilon = 1.0e-8f, bool multi_precision = false)",
    "Tensor(param_out), Tensor(beta1_pow_out), Tensor(beta2_pow_out), Tensor(rho_out), "
    "Tensor(moment1_out), Tensor(moment2_out), Tensor(master_param_out)",
    traits=("promote(param)", "full_precision"), dtypes=("float",),
    optional=("master_param", "master_param_out"), inplace=(("param", "param_out"),
    ("beta1_pow", "beta1_pow_out"), ("beta2_pow", "beta2_pow_out"), ("rho", "rho_out"),
    ("moment1", "moment1_out"), ("moment2", "moment2_out"), ("master_param", "master_param_out"))
)
def radam_(
    param: TensorLike, grad: TensorLike, learning_rate: TensorLike, beta1_pow: TensorLike,
    beta2_pow: TensorLike, rho: TensorLike, moment1: TensorLike, moment2: TensorLike,
    master_param: TensorLike | None = None, beta1: FloatLike = 0.9, beta2: FloatLike = 0.999,
    epsilon: FloatLike = 1e-08, multi_precision: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """Rectified Adam: along moment1_out / (1 - beta1_pow_out), times sqrt(q * (1 - beta2_pow_out))
    / (sqrt(moment2_out) + epsilon) once t > 5, where q = (t - 4) * (t - 2) * s / ((s - 4) * (s - 2)
    * t), s = 2 / (1 - beta2) - 1, t = s - 2 * rho_out and rho_out = (rho * (beta2 - beta2_pow_out)
    + beta2_pow_out) / (1 - beta2_pow_out). The powers begin as 1, rho as 0.

    Args:
        param: tensor, float.
        grad, learning_rate, beta1_pow, beta2_pow, rho, moment1, moment2: tensor.
        master_param: tensor, may be None.
        beta1, beta2, epsilon: float or one-element tensor.
        multi_precision: bool.

    Returns:
        param_out, beta1_pow_out, beta2_pow_out, rho_out, moment1_out, moment2_out,
        master_param_out.
    """
    return bind_in_place(
        _radam_,
        (param, grad, learning_rate, beta1_pow, beta2_pow, rho, moment1, moment2, master_param),
        (beta1, beta2, epsilon, multi_precision)
    )

_merged_adam_ = define(
    "merged_adam_",
    "(Tensor[] param, Tensor[] grad, Tensor[] learning_rate, Tensor[] moment1, Tensor[] moment2, "
    "Tensor[] moment2_max, Tensor[] beta1_pow, Tensor[] beta2_pow, Tensor[] master_param, "
    "Scalar beta1 = 0.9f, Scalar beta2 = 0.999f, Scalar epsilon = 1.0e-8f, "
    "bool multi_precision = false, bool use_global_beta_pow = false, bool amsgrad = false)",
    "Tensor[](param_out){param.size()}, Tensor[](moment1_out){param.size()}, "
    "Tensor[](moment2_out){param.size()}, Tensor[](moment2_max_out){param.size()}, "
    "Tensor[](beta1_pow_out){param.size()}, Tensor[](beta2_pow_out){param.size()}, "
    "Tensor[](master_param_out){param.size()}", traits=("full_precision",), dtypes=("float",),
    optional=("moment2_max", "master_param", "moment2_max_out", "master_param_out"),
    inplace=(("param", "param_out"), ("moment1", "moment1_out"), ("moment2", "moment2_out"),
    ("moment2_max", "moment2_max_out"), ("beta1_pow", "beta1_pow_out"),
    ("beta2_pow", "beta2_pow_out"), ("master_param", "master_param_out"))
)
def merged_adam_(
    param: Sequence[TensorLike], grad: Sequence[TensorLike], learning_rate: Sequence[TensorLike],
    moment1: Sequence[TensorLike], moment2: Sequence[TensorLike],
    moment2_max: Sequence[TensorLike] | None, beta1_pow: Sequence[TensorLike],
    beta2_pow: Sequence[TensorLike], master_param: Sequence[TensorLike] | None = None,
    beta1: ScalarLike = 0.9, beta2: ScalarLike = 0.999, epsilon: ScalarLike = 1e-08,
    multi_precision: bool = False, use_global_beta_pow: bool = False, amsgrad: bool = False
) -> tuple[
    tuple[Tensor, ...],
    tuple[Tensor, ...],
    tuple[Tensor, ...],
    tuple[Tensor, ...] | None,
    tuple[Tensor, ...],
    tuple[Tensor, ...],
    tuple[Tensor, ...] | None,
]:
    """A step of :func:`adam_` for each param; learning_rate has an entry for each, or one for all.

    Args:
        param, grad, learning_rate, moment1, moment2: sequence of tensors, float.
        moment2_max: sequence of tensors, float, may be None.
        beta1_pow, beta2_pow: sequence of tensors, float.
        master_param: sequence of tensors, float, may be None.
        beta1, beta2, epsilon: number or one-element tensor.
        multi_precision, use_global_beta_pow, amsgrad: bool.

    Returns:
        param_out, moment1_out, moment2_out, moment2_max_out, beta1_pow_out, beta2_pow_out,
        master_param_out.
    """
    return bind_in_place(
        _merged_adam_, (param, grad, learning_rate, moment1, moment2, moment2_max, beta1_pow,
        beta2_pow, master_param),
        (beta1, beta2, epsilon, multi_precision, use_global_beta_pow, amsgrad)
    )

_merged_momentum_ = define(
    "merged_momentum_",
    "(Tensor[] param, Tensor[] grad, Tensor[] velocity, Tensor[] learning_rate, "
    "Tensor[] master_param, float mu, bool use_nesterov = false, "
    "str[] regularization_method = {}, float[] regularization_coeff = {}, "
    "bool multi_precision = false, float rescale_grad = 1.0f)",
    "Tensor[](param_out){param.size()}, Tensor[](velocity_out){param.size()}, "
    "Tensor[](master_param_out){param.size()}", traits=("full_precision",), dtypes=("float",),
    optional=("master_param", "master_param_out"), inplace=(("param", "param_out"),
    ("velocity", "velocity_out"), ("master_param", "master_param_out"))
)
def merged_momentum_(
    param: Sequence[TensorLike], grad: Sequence[TensorLike], velocity: Sequence[TensorLike],
    learning_rate: Sequence[TensorLike], master_param: Sequence[TensorLike] | None, mu: FloatLike,
    use_nesterov: bool = False, regularization_method: Sequence[str] | None = (),
    regularization_coeff: FloatLike | Sequence[FloatLike] | None = (),
    multi_precision: bool = False, rescale_grad: FloatLike = 1.0
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], tuple[Tensor, ...] | None]:
    """A step of :func:`momentum_` for each param; learning_rate has an entry for each, or one for
    all.

    Args:
        param, grad, velocity, learning_rate: sequence of tensors, float.
        master_param: sequence of tensors, float, may be None.
        mu: float or one-element tensor.
        use_nesterov: bool.
        regularization_method: sequence of strs, may be None.
        regularization_coeff: sequence of float or one-element tensors, may be None.
        multi_precision: bool.
        rescale_grad: float or one-element tensor.

    Returns:
        param_out, velocity_out, master_param_out.
    """
    return bind_in_place(
        _merged_momentum_, (param, grad, velocity, learning_rate, master_param), (mu, use_nesterov,
        regularization_method, regularization_coeff, multi_precision, rescale_grad)
    )

_fused_adam_ = define(
    "fused_adam_", "(Tensor[] params, Tensor[] grads, Tensor learning_rate, Tensor[] moments1, "
    "Tensor[] moments2, Tensor[] moments2_max, Tensor[] beta1_pows, Tensor[] beta2_pows, "
    "Tensor[] master_params, Tensor skip_update, Scalar beta1, Scalar beta2, Scalar epsilon, "
    "int chunk_size, float weight_decay, bool use_adamw, bool multi_precision, "
    "bool use_global_beta_pow, bool amsgrad = false)",
    "Tensor[](params_out){params.size()}, Tensor[](moments1_out){params.size()}, "
    "Tensor[](moments2_out){params.size()}, Tensor[](moments2_max_out){params.size()}, "
    "Tensor[](beta1_pows_out){params.size()}, Tensor[](beta2_pows_out){params.size()}, "
    "Tensor[](master_params_out){params.size()}", traits=("full_precision",), dtypes=("float",),
    optional=("moments2_max", "skip_update", "master_params", "moments2_max_out",
    "master_params_out"), inplace=(("params", "params_out"), ("moments1", "moments1_out"),
    ("moments2", "moments2_out"), ("moments2_max", "moments2_max_out"),
    ("beta1_pows", "beta1_pows_out"), ("beta2_pows", "beta2_pows_out"),
    ("master_params", "master_params_out"))
)
def fused_adam_(
    params: Sequence[TensorLike], grads: Sequence[TensorLike], learning_rate: TensorLike,
    moments1: Sequence[TensorLike], moments2: Sequence[TensorLike],
    moments2_max: Sequence[TensorLike] | None, beta1_pows: Sequence[TensorLike],
    beta2_pows: Sequence[TensorLike], master_params: Sequence[TensorLike] | None,
    skip_update: TensorLike | None, beta1: ScalarLike, beta2: ScalarLike, epsilon: ScalarLike,
    chunk_size: int, weight_decay: FloatLike, use_adamw: bool, multi_precision: bool,
    use_global_beta_pow: bool, amsgrad: bool = False
) -> tuple[
    tuple[Tensor, ...],
    tuple[Tensor, ...],
    tuple[Tensor, ...],
    tuple[Tensor, ...] | None,
    tuple[Tensor, ...],
    tuple[Tensor, ...],
    tuple[Tensor, ...] | None,
]:
    """A step of :func:`adam_` for each of params, or of :func:`adamw_` with coeff = weight_decay if
    use_adamw. chunk_size says nothing here.

    Args:
        params, grads: sequence of tensors, float.
        learning_rate: tensor, float.
        moments1, moments2: sequence of tensors, float.
        moments2_max: sequence of tensors, float, may be None.
        beta1_pows, beta2_pows: sequence of tensors, float.
        master_params: sequence of tensors, float, may be None.
        skip_update: tensor, float, may be None.
        beta1, beta2, epsilon: number or one-element tensor.
        chunk_size: int.
        weight_decay: float or one-element tensor.
        use_adamw, multi_precision, use_global_beta_pow, amsgrad: bool.

    Returns:
        params_out, moments1_out, moments2_out, moments2_max_out, beta1_pows_out, beta2_pows_out,
        master_params_out.
    """
    return bind_in_place(
        _fused_adam_, (params, grads, learning_rate, moments1, moments2, moments2_max, beta1_pows,
        beta2_pows, master_params, skip_update), (beta1, beta2, epsilon, chunk_size, weight_decay,
        use_adamw, multi_precision, use_global_beta_pow, amsgrad)
    )


# -- yaml/arithmetic.yaml --------------------------------------------------------------------------
define = definer("yaml/arithmetic.yaml", family="pointwise")

_square = define(
    "square", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="square_grad", jvp="pointwise", traits=("pointwise", "promote"),
    dtypes=("int", "float", "complex"), inplace=(("x", "out"),),
    kernel={"func": (("square", ("dense",), ("dense",)),
    ("square_sr", ("selected_rows",), ("selected_rows",)))}
)
def square(x: TensorLike) -> Tensor:
    """x * x, elementwise.

    Args:
        x: tensor, int, float or complex.
    """
    return bind(_square, (x,), ())

def square_(x: TensorLike) -> Tensor:
    """:func:`square` in the memory of x, not to be used after it."""
    return bind_in_place(_square, (x,), ())

_square_grad = define(
    "square_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="square"
)
def square_grad(x, out_grad):
    """Backward of :func:`square`."""
    return bind(_square_grad, (x, out_grad), ())

_reciprocal = define(
    "reciprocal", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="reciprocal_grad", jvp="pointwise", traits=("pointwise", "promote_float"),
    dtypes=("float", "complex"), inplace=(("x", "out"),)
)
def reciprocal(x: TensorLike) -> Tensor:
    """1 / x, elementwise.

    Args:
        x: tensor, float or complex.
    """
    return bind(_reciprocal, (x,), ())

def reciprocal_(x: TensorLike) -> Tensor:
    """:func:`reciprocal` in the memory of x, not to be used after it."""
    return bind_in_place(_reciprocal, (x,), ())

_reciprocal_grad = define(
    "reciprocal_grad", "(Tensor out, Tensor out_grad)", "Tensor(x_grad)", forward="reciprocal"
)
def reciprocal_grad(out, out_grad):
    """Backward of :func:`reciprocal`."""
    return bind(_reciprocal_grad, (out, out_grad), ())

_clip = define(
    "clip", "(Tensor x, Scalar(float) min=none, Scalar(float) max=none)", "Tensor(out)",
    infer_meta=("UnchangedInferMeta", None), backward="clip_grad", jvp="pointwise",
    traits=("pointwise", "promote"), dtypes=("int", "float"), inplace=(("x", "out"),),
    kernel={"func": (("clip", ("dense",), ("dense",)),
    ("clip_sr", ("selected_rows",), ("selected_rows",)))}
)
def clip(x: TensorLike, min: ScalarLike | None = None, max: ScalarLike | None = None) -> Tensor:
    """min(max(x, min), max), elementwise; a bound that is None bounds nothing. NaN stays NaN, with
    gradient 0; the gradient is 1 at a bound. Ints stay ints, within the ints between the bounds.

    Args:
        x: tensor, int or float.
        min, max: number or one-element tensor, may be None.
    """
    return bind(_clip, (x,), (min, max))

def clip_(x: TensorLike, min: ScalarLike | None = None, max: ScalarLike | None = None) -> Tensor:
    """:func:`clip` in the memory of x, not to be used after it."""
    return bind_in_place(_clip, (x,), (min, max))

_clip_grad = define(
    "clip_grad", "(Tensor x, Tensor out_grad, Scalar min = 0., Scalar max = 0.)", "Tensor(x_grad)",
    forward="clip"
)
def clip_grad(x, out_grad, min=0.0, max=0.0):
    """Backward of :func:`clip`."""
    return bind(_clip_grad, (x, out_grad), (min, max))

_lerp = define(
    "lerp", "(Tensor x, Tensor y, Tensor weight)", "Tensor(out)",
    traits=("pointwise", "promote_float"), dtypes=("float", "complex"), inplace=(("x", "out"),)
)
def lerp(x: TensorLike, y: TensorLike, weight: TensorLike) -> Tensor:
    """x + weight * (y - x), elementwise: x where weight is 0, y where it is 1.

    Args:
        x, y, weight: tensor, float or complex.
    """
    return bind(_lerp, (x, y, weight), ())

def lerp_(x: TensorLike, y: TensorLike, weight: TensorLike) -> Tensor:
    """:func:`lerp` in the memory of x, not to be used after it."""
    return bind_in_place(_lerp, (x, y, weight), ())

_heaviside = define(
    "heaviside", "(Tensor x, Tensor y)", "Tensor(out)", infer_meta=("ElementwiseInferMeta", None),
    backward="heaviside_grad", jvp="pointwise", traits=("pointwise", "promote"),
    dtypes=("int", "float")
)
def heaviside(x: TensorLike, y: TensorLike) -> Tensor:
    """0 where x is below 0, y where it is 0, 1 above, elementwise; NaN at NaN. The slope in x is 0.

    Args:
        x, y: tensor, int or float.
    """
    return bind(_heaviside, (x, y), ())

_heaviside_grad = define(
    "heaviside_grad", "(Tensor x, Tensor y, Tensor out_grad)", "Tensor(x_grad), Tensor(y_grad)",
    forward="heaviside"
)
def heaviside_grad(x, y, out_grad):
    """Backward of :func:`heaviside`."""
    return bind(_heaviside_grad, (x, y, out_grad), ())

_copysign = define(
    "copysign", "(Tensor x, Tensor y)", "Tensor(out)", infer_meta=("ElementwiseInferMeta", None),
    backward="copysign_grad", jvp="pointwise", traits=("pointwise", "promote_float"),
    dtypes=("float",), inplace=(("x", "out"),)
)
def copysign(x: TensorLike, y: TensorLike) -> Tensor:
    """abs(x) with the sign of y, also that of a zero or NaN, elementwise. The slope in x is 0 at 0.

    Args:
        x, y: tensor, float.
    """
    return bind(_copysign, (x, y), ())

def copysign_(x: TensorLike, y: TensorLike) -> Tensor:
    """:func:`copysign` in the memory of x, not to be used after it."""
    return bind_in_place(_copysign, (x, y), ())

_copysign_grad = define(
    "copysign_grad", "(Tensor x, Tensor y, Tensor out_grad)", "Tensor(x_grad), Tensor(y_grad)",
    forward="copysign"
)
def copysign_grad(x, y, out_grad):
    """Backward of :func:`copysign`."""
    return bind(_copysign_grad, (x, y, out_grad), ())

_nextafter = define(
    "nextafter", "(Tensor x, Tensor y)", "Tensor(out)", infer_meta=("ElementwiseInferMeta", None),
    backward="nextafter_grad", jvp="pointwise", traits=("pointwise", "promote_float"),
    dtypes=("float32", "float64")
)
def nextafter(x: TensorLike, y: TensorLike) -> Tensor:
    """The float next to x on the way to y, elementwise; y itself where they are equal. The slope in
    x is 1, that in y 0.

    Args:
        x, y: tensor, float32 or float64.
    """
    return bind(_nextafter, (x, y), ())

_nextafter_grad = define(
    "nextafter_grad", "(Tensor x, Tensor y, Tensor out_grad)", "Tensor(x_grad), Tensor(y_grad)",
    no_need_buffer=("x", "y"), forward="nextafter"
)
def nextafter_grad(x, y, out_grad):
    """Backward of :func:`nextafter`."""
    return bind(_nextafter_grad, (x, y, out_grad), ())

_angle = define(
    "angle", "(Tensor x)", "Tensor(out)", infer_meta=("RealAndImagInferMeta", None),
    traits=("pointwise", "promote_float"), dtypes=("float", "complex")
)
def angle(x: TensorLike) -> Tensor:
    """Angle of the complex number x in radians, in [-pi, pi], elementwise; pi below 0 for real
    numbers. The slope at 0 is 0.

    Args:
        x: tensor, float or complex.
    """
    return bind(_angle, (x,), ())

_rint = define(
    "rint", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    traits=("pointwise", "promote"), dtypes=("int", "float"), invoke="round(x, 0)",
    inplace=(("x", "out"),)
)
def rint(x: TensorLike) -> Tensor:
    """The integer nearest to x, halves to even, elementwise. The derivative is 0.

    Args:
        x: tensor, int or float.
    """
    return bind(_rint, (x,), ())

def rint_(x: TensorLike) -> Tensor:
    """:func:`rint` in the memory of x, not to be used after it."""
    return bind_in_place(_rint, (x,), ())

_trunc_divide = define(
    "trunc_divide", "(Tensor x, Tensor y)", "Tensor(out)",
    infer_meta=("ElementwiseInferMeta", None), traits=("pointwise", "promote"),
    dtypes=("int", "float"), inplace=(("x", "out"),)
)
def trunc_divide(x: TensorLike, y: TensorLike) -> Tensor:
    """x / y without its fraction, elementwise, as C's division; ints divided by 0 give 0. The
    derivative is 0.

    Args:
        x, y: tensor, int or float.
    """
    return bind(_trunc_divide, (x, y), ())

def trunc_divide_(x: TensorLike, y: TensorLike) -> Tensor:
    """:func:`trunc_divide` in the memory of x, not to be used after it."""
    return bind_in_place(_trunc_divide, (x, y), ())

_frac = define(
    "frac", "(Tensor x)", "Tensor(out)", traits=("promote",), dtypes=("int", "float"),
    inplace=(("x", "out"),)
)
def frac(x: TensorLike) -> Tensor:
    """The fraction x - trunc(x), elementwise, with the sign of x; 0 of an infinity. The derivative
    is 1.

    Args:
        x: tensor, int or float.
    """
    return bind(_frac, (x,), ())

def frac_(x: TensorLike) -> Tensor:
    """:func:`frac` in the memory of x, not to be used after it."""
    return bind_in_place(_frac, (x,), ())

_gcd = define(
    "gcd", "(Tensor x, Tensor y)", "Tensor(out)", infer_meta=("ElementwiseInferMeta", None),
    traits=("promote", "nondifferentiable"), dtypes=("int",), inplace=(("x", "out"),)
)
def gcd(x: TensorLike, y: TensorLike) -> Tensor:
    """The greatest common divisor, elementwise: 0 or more, and 0 of 0 and 0.

    Args:
        x, y: tensor, int.
    """
    return bind(_gcd, (x, y), ())

def gcd_(x: TensorLike, y: TensorLike) -> Tensor:
    """:func:`gcd` in the memory of x, not to be used after it."""
    return bind_in_place(_gcd, (x, y), ())

_lcm = define(
    "lcm", "(Tensor x, Tensor y)", "Tensor(out)", infer_meta=("ElementwiseInferMeta", None),
    traits=("promote", "nondifferentiable"), dtypes=("int",), inplace=(("x", "out"),)
)
def lcm(x: TensorLike, y: TensorLike) -> Tensor:
    """The least common multiple abs(x y) / gcd(x, y), elementwise; 0 where x or y is.

    Args:
        x, y: tensor, int.
    """
    return bind(_lcm, (x, y), ())

def lcm_(x: TensorLike, y: TensorLike) -> Tensor:
    """:func:`lcm` in the memory of x, not to be used after it."""
    return bind_in_place(_lcm, (x, y), ())

_div_scale = define(
    "div_scale", "(Tensor x, Scalar scale=1.0)", "Tensor(out)",
    traits=("pointwise", "promote_float"), dtypes=("float", "complex")
)
def div_scale(x: TensorLike, scale: ScalarLike = 1.0) -> Tensor:
    """x / scale, elementwise.

    Args:
        x: tensor, float or complex.
        scale: number or one-element tensor.
    """
    return bind(_div_scale, (x,), (scale,))


# -- yaml/arrangement.yaml -------------------------------------------------------------------------
define = definer("yaml/arrangement.yaml", family="arrangement")

_crop = define(
    "crop", "(Tensor x, IntArray shape={}, IntArray offsets={})", "Tensor(out)",
    infer_meta=("CropInferMeta", None)
)
def crop(
    x: TensorLike, shape: IntArrayLike | None = (), offsets: IntArrayLike | None = ()
) -> Tensor:
    """The box of x of that shape from offsets on, from 0 if none are given; a dim of -1 takes what
    is left.

    Args:
        x: tensor.
        shape, offsets: ints, a tensor of ints, or a list that mixes ints and 0-d tensors, may be
            None.
    """
    return bind(_crop, (x,), (shape, offsets))

_pad3d = define(
    "pad3d", '(Tensor x, IntArray paddings, str mode="constant", float pad_value=0.0, '
    'str data_format="NCDHW")', "Tensor(out)", infer_meta=("Pad3dInferMeta", None)
)
def pad3d(
    x: TensorLike, paddings: IntArrayLike, mode: str = "constant", pad_value: FloatLike = 0.0,
    data_format: str = "NCDHW"
) -> Tensor:
    """x with paddings [left, right, top, bottom, front, back] along width, height and depth; mode:
    constant (pad_value), reflect (the edge stands once), replicate (the edge) or circular. Negative
    paddings cut.

    Args:
        x: tensor.
        paddings: ints, a tensor of ints, or a list that mixes ints and 0-d tensors.
        mode: str.
        pad_value: float or one-element tensor.
        data_format: str.
    """
    return bind(_pad3d, (x,), (paddings, mode, pad_value, data_format))

_repeat_interleave = define(
    "repeat_interleave", "(Tensor x, int repeats, int axis)", "Tensor(out)",
    infer_meta=("RepeatInterleaveInferMeta", None)
)
def repeat_interleave(x: TensorLike, repeats: int, axis: int) -> Tensor:
    """Each slice of x along axis repeats times, one after the other.

    Args:
        x: tensor.
        repeats, axis: int.
    """
    return bind(_repeat_interleave, (x,), (repeats, axis))

_reverse = define(
    "reverse", "(Tensor x, IntArray axis)", "Tensor(out)", infer_meta=("ReverseInferMeta", None),
    view=(("x", "out"),)
)
def reverse(x: TensorLike, axis: IntArrayLike) -> Tensor:
    """x with the order along each of axis turned round; flip.

    Args:
        x: tensor.
        axis: ints, a tensor of ints, or a list that mixes ints and 0-d tensors.
    """
    return bind(_reverse, (x,), (axis,))

_shape64 = define(
    "shape64", "(Tensor input)", "Tensor(out)", traits=("nondifferentiable",), invoke="shape(input)"
)
def shape64(input: TensorLike) -> Tensor:
    """The dims of input as an int64 tensor; :func:`shape`.

    Args:
        input: tensor.
    """
    return bind(_shape64, (input,), ())

_add_n = define(
    "add_n", "(Tensor[] inputs)", "Tensor(out)", infer_meta=("AddNInferMeta", None),
    traits=("promote",), dtypes=("int", "float", "complex"),
    kernel={"func": (("add_n", ("dense",), ("dense",)),
    ("add_n_sr", ("selected_rows",), ("selected_rows",)))}
)
def add_n(inputs: Sequence[TensorLike]) -> Tensor:
    """The sum of tensors of one shape; 16-bit floats add up in float32.

    Args:
        inputs: sequence of tensors, int, float or complex.
    """
    return bind(_add_n, (inputs,), ())

_multiplex = define(
    "multiplex", "(Tensor[] inputs, Tensor index)", "Tensor(out)",
    infer_meta=("MultiplexInferMeta", None), traits=("promote(inputs)",)
)
def multiplex(inputs: Sequence[TensorLike], index: TensorLike) -> Tensor:
    """Row i of the input that index[i] numbers: out[i] = inputs[index[i]][i]. An index out of range
    raises TensorIndexError where the call runs at once; compiled programs take the nearest inside,
    or raise under phix.debug.check_indices().

    Args:
        inputs: sequence of tensors.
        index: tensor.
    """
    return bind(_multiplex, (inputs, index), ())

_partial_concat = define(
    "partial_concat", "(Tensor[] x, int start_index=0, int length=-1)", "Tensor(out)",
    infer_meta=("PartialConcatInferMeta", None), traits=("promote",)
)
def partial_concat(x: Sequence[TensorLike], start_index: int = 0, length: int = -1) -> Tensor:
    """The columns from start_index on of each matrix, length of them or all if it is -1, side by
    side.

    Args:
        x: sequence of tensors.
        start_index, length: int.
    """
    return bind(_partial_concat, (x,), (start_index, length))

_partial_sum = define(
    "partial_sum", "(Tensor[] x, int start_index=0, int length=-1)", "Tensor(out)",
    infer_meta=("PartialSumInferMeta", None), traits=("promote",),
    dtypes=("int", "float", "complex")
)
def partial_sum(x: Sequence[TensorLike], start_index: int = 0, length: int = -1) -> Tensor:
    """The sum of the columns from start_index on of each matrix, length of them or all if it is -1.

    Args:
        x: sequence of tensors, int, float or complex.
        start_index, length: int.
    """
    return bind(_partial_sum, (x,), (start_index, length))


# -- yaml/attention.yaml ---------------------------------------------------------------------------
define = definer("yaml/attention.yaml", family="attention")

_attention = define(
    "attention",
    "(Tensor query, Tensor key, Tensor value, Tensor mask, float scale=1.0f, bool causal=false)",
    "Tensor(out)", infer_meta=("AttentionInferMeta", None), backward="attention_grad",
    traits=("promote_float(query, key, value)", "low_precision"), dtypes=("float",),
    optional=("mask",)
)
def attention(
    query: TensorLike, key: TensorLike, value: TensorLike, mask: TensorLike | None = None,
    scale: FloatLike = 1.0, causal: bool = False
) -> Tensor:
    """softmax(query @ key.T * scale + mask) @ value over the last two axes, which are [queries,
    size], [keys, size] and [keys, size of value]; leading axes broadcast. mask broadcasts to the
    scores: numbers to add, or bools, True where a key is seen. With causal, query i sees the keys
    up to i alone. A query whose keys are all masked gives NaN. Weights are computed in float32 at
    least.

    Args:
        query, key, value: tensor, float.
        mask: tensor, may be None.
        scale: float or one-element tensor.
        causal: bool.
    """
    return bind(_attention, (query, key, value, mask), (scale, causal))

_attention_grad = define(
    "attention_grad",
    "(Tensor query, Tensor key, Tensor value, Tensor mask, Tensor out_grad, float scale, "
    "bool causal)", "Tensor(query_grad), Tensor(key_grad), Tensor(value_grad), Tensor(mask_grad)",
    traits=("whole", "low_precision"), optional=("mask",), forward="attention"
)
def attention_grad(query, key, value, mask, out_grad, scale, causal):
    """Backward of :func:`attention`."""
    return bind(_attention_grad, (query, key, value, mask, out_grad), (scale, causal))

_calc_reduced_attn_scores = define(
    "calc_reduced_attn_scores", "(Tensor q, Tensor k, Tensor softmax_lse)",
    "Tensor(reduced_scores)", traits=("promote_float(q, k)", "full_precision"), dtypes=("float",)
)
def calc_reduced_attn_scores(q: TensorLike, k: TensorLike, softmax_lse: TensorLike) -> Tensor:
    """The weights that each key gets from all queries together, [batch, heads, 1, keys]: the sums
    over the queries of exp(q @ k.T / sqrt(size) - softmax_lse), for q [batch, queries, heads,
    size], k [batch, keys, heads, size], of as many heads or a divisor, and the logarithms of the
    sums of the exponentials, [batch, heads, queries], or more of which the rest is not read. In
    float32 at least.

    Args:
        q, k: tensor, float.
        softmax_lse: tensor.
    """
    return bind(_calc_reduced_attn_scores, (q, k, softmax_lse), ())


# -- yaml/box_selection.yaml -----------------------------------------------------------------------
define = definer("yaml/box_selection.yaml", family="detection")

_nms = define(
    "nms", "(Tensor x, float threshold = 1.0f)", "Tensor(out)",
    traits=("nondifferentiable", "promote_float", "data_dependent"), dtypes=("float",)
)
def nms(x: TensorLike, threshold: FloatLike = 1.0) -> Tensor:
    """The numbers of the boxes x [boxes, 4] (left, top, right, bottom) that stay, in order: each
    that overlaps no one that stays before it by more than threshold, intersection / union.

    Args:
        x: tensor, float.
        threshold: float or one-element tensor.
    """
    return bind(_nms, (x,), (threshold,))

_multiclass_nms3 = define(
    "multiclass_nms3",
    "(Tensor bboxes, Tensor scores, Tensor rois_num, float score_threshold, int nms_top_k, "
    "int keep_top_k, float nms_threshold=0.3, bool normalized=true, float nms_eta=1.0, "
    "int background_label=0)", "Tensor(out), Tensor(index), Tensor(nms_rois_num)",
    traits=("promote_float(bboxes, scores)", "data_dependent"), dtypes=("float",),
    optional=("rois_num",)
)
def multiclass_nms3(
    bboxes: TensorLike, scores: TensorLike, rois_num: TensorLike | None, score_threshold: FloatLike,
    nms_top_k: int, keep_top_k: int, nms_threshold: FloatLike = 0.3, normalized: bool = True,
    nms_eta: FloatLike = 1.0, background_label: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """:func:`nms` of each class of each image but background_label: of boxes [images, boxes, 4]
    with scores [images, classes, boxes], the nms_top_k above score_threshold, by nms_threshold,
    which is times nms_eta after each box while above a half; the keep_top_k best of an image are
    the rows (class, score, box) of out, sorted by class. index is their number in all images,
    nms_rois_num how many each image has. With rois_num [images], boxes in a row [boxes, classes, 4]
    have scores [boxes, classes], and index counts these. -1 for either limit means all.

    Args:
        bboxes, scores: tensor, float.
        rois_num: tensor, may be None.
        score_threshold: float or one-element tensor.
        nms_top_k, keep_top_k: int.
        nms_threshold: float or one-element tensor.
        normalized: bool.
        nms_eta: float or one-element tensor.
        background_label: int.

    Returns:
        out, index, nms_rois_num.
    """
    return bind(
        _multiclass_nms3, (bboxes, scores, rois_num), (score_threshold, nms_top_k, keep_top_k,
        nms_threshold, normalized, nms_eta, background_label)
    )

_matrix_nms = define(
    "matrix_nms",
    "(Tensor bboxes, Tensor scores, float score_threshold, int nms_top_k, int keep_top_k, "
    "float post_threshold=0., bool use_gaussian = false, float gaussian_sigma = 2., "
    "int background_label = 0, bool normalized = true)",
    "Tensor(out), Tensor(index), Tensor(roisnum)", traits=("promote_float", "data_dependent"),
    dtypes=("float",)
)
def matrix_nms(
    bboxes: TensorLike, scores: TensorLike, score_threshold: FloatLike, nms_top_k: int,
    keep_top_k: int, post_threshold: FloatLike = 0.0, use_gaussian: bool = False,
    gaussian_sigma: FloatLike = 2.0, background_label: int = 0, normalized: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Of boxes [images, boxes, 4] with scores [images, classes, boxes], the nms_top_k above
    score_threshold of each class but background_label have their scores times min_j (1 - iou_ij) /
    (1 - most_j), over the better boxes j with their largest overlaps most_j with better ones, or
    exp(gaussian_sigma (most_j^2 - iou_ij^2)) with use_gaussian. Of those above post_threshold the
    keep_top_k best of each image are the rows (class, score, box) of out; index is their number in
    all images, roisnum how many each image has. -1 for either limit means all.

    Args:
        bboxes, scores: tensor, float.
        score_threshold: float or one-element tensor.
        nms_top_k, keep_top_k: int.
        post_threshold: float or one-element tensor.
        use_gaussian: bool.
        gaussian_sigma: float or one-element tensor.
        background_label: int.
        normalized: bool.

    Returns:
        out, index, roisnum.
    """
    return bind(
        _matrix_nms, (bboxes, scores), (score_threshold, nms_top_k, keep_top_k, post_threshold,
        use_gaussian, gaussian_sigma, background_label, normalized)
    )


# -- yaml/class_loss.yaml --------------------------------------------------------------------------
define = definer("yaml/class_loss.yaml", family="loss")

_margin_cross_entropy = define(
    "margin_cross_entropy",
    "(Tensor logits, Tensor label, bool return_softmax = false, int ring_id = 0, int rank = 0, "
    "int nranks = 1, float margin1 = 1.0f, float margin2 = 0.5f, float margin3 = 0.0f, "
    "float scale = 64.0f)", "Tensor(softmax), Tensor(loss)",
    traits=("promote_float(logits)", "full_precision"), dtypes=("float",)
)
def margin_cross_entropy(
    logits: TensorLike, label: TensorLike, return_softmax: bool = False, ring_id: int = 0,
    rank: int = 0, nranks: int = 1, margin1: FloatLike = 1.0, margin2: FloatLike = 0.5,
    margin3: FloatLike = 0.0, scale: FloatLike = 64.0
) -> tuple[Tensor, Tensor]:
    """Cross entropy of scale * logits [n, classes], cosines in [-1, 1], in which that of the label,
    cos(t), is first made cos(margin1 * t + margin2) - margin3; loss is [n, 1]. It runs in one
    process: nranks is 1, and ring_id and rank say nothing. A label that is no class raises
    TensorIndexError where the call runs at once; compiled programs take the nearest class, or raise
    under phix.debug.check_indices().

    Args:
        logits: tensor, float.
        label: tensor.
        return_softmax: bool.
        ring_id, rank, nranks: int.
        margin1, margin2, margin3, scale: float or one-element tensor.

    Returns:
        softmax, loss.
    """
    return bind(
        _margin_cross_entropy, (logits, label),
        (return_softmax, ring_id, rank, nranks, margin1, margin2, margin3, scale)
    )

_hsigmoid_loss = define(
    "hsigmoid_loss",
    "(Tensor x, Tensor label, Tensor w, Tensor bias, Tensor path, Tensor code, int num_classes, "
    "bool is_sparse)", "Tensor(out), Tensor(pre_out), Tensor(w_out)",
    infer_meta=("HSigmoidLossInferMeta", None),
    traits=("promote_float(x, w, bias)", "full_precision"), dtypes=("float",),
    optional=("bias", "path", "code")
)
def hsigmoid_loss(
    x: TensorLike, label: TensorLike, w: TensorLike, bias: TensorLike | None,
    path: TensorLike | None, code: TensorLike | None, num_classes: int, is_sparse: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Hierarchical sigmoid: for each node on the path of a label through a binary tree, softplus(z)
    - bit * z with z = dot(x, w[node]) + bias[node] brought into [-40, 40] (through which gradients
    pass), summed to out [n, 1]. The tree is the complete one of num_classes leaves, or path [n, l]
    has the nodes, ended by a negative one, and code [n, l] the bits. pre_out [n, l] is softplus(z),
    and log(2) behind the end of a path, which counts, as in Paddle. w_out is w; is_sparse says
    nothing.

    Args:
        x: tensor, float.
        label: tensor.
        w: tensor, float.
        bias: tensor, float, may be None.
        path, code: tensor, may be None.
        num_classes: int.
        is_sparse: bool.

    Returns:
        out, pre_out, w_out.
    """
    return bind(_hsigmoid_loss, (x, label, w, bias, path, code), (num_classes, is_sparse))

_class_center_sample = define(
    "class_center_sample",
    "(Tensor key, Tensor label, int num_classes, int num_samples, int ring_id = 0, int rank = 0, "
    "int nranks = 1, bool fix_seed = false, int seed = 0)",
    "Tensor(remapped_label), Tensor(sampled_local_class_center)",
    traits=("random", "nondifferentiable", "data_dependent", "promote(label)"),
    dtypes=("int32", "int64")
)
def class_center_sample(
    key: TensorLike, label: TensorLike, num_classes: int, num_samples: int, ring_id: int = 0,
    rank: int = 0, nranks: int = 1, fix_seed: bool = False, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """The classes that label names, sorted, and behind them others at random, each equally likely,
    up to num_samples in all; and for each of label its place among them. The key takes the place of
    fix_seed and seed; it runs in one process: nranks is 1, and ring_id and rank say nothing. A
    label that is no class raises where the call runs at once; compiled programs take the nearest.

    Args:
        key: tensor.
        label: tensor, int32 or int64.
        num_classes, num_samples, ring_id, rank, nranks: int.
        fix_seed: bool.
        seed: int.

    Returns:
        remapped_label, sampled_local_class_center.
    """
    return bind(
        _class_center_sample, (key, label),
        (num_classes, num_samples, ring_id, rank, nranks, fix_seed, seed)
    )


# -- yaml/communication.yaml -----------------------------------------------------------------------
define = definer("yaml/communication.yaml", family="communication")

_all_reduce = define(
    "all_reduce", "(Tensor x, int ring_id = 0, int reduce_type = 0)", "Tensor(out)",
    traits=("ring",), inplace=(("x", "out"),)
)
def all_reduce(x: TensorLike, ring_id: int = 0, reduce_type: int = 0) -> Tensor:
    """The x of all processes of the ring brought together, on each of them. reduce_type is 0 for
    the sum, 1 for the largest, 2 for the smallest, 3 for the product, 4 for the mean, and of bools
    5 for any, 6 for all.

    Args:
        x: tensor.
        ring_id, reduce_type: int.
    """
    return bind(_all_reduce, (x,), (ring_id, reduce_type))

def all_reduce_(x: TensorLike, ring_id: int = 0, reduce_type: int = 0) -> Tensor:
    """:func:`all_reduce` in the memory of x, not to be used after it."""
    return bind_in_place(_all_reduce, (x,), (ring_id, reduce_type))

_reduce = define(
    "reduce", "(Tensor x, int ring_id = 0, int root_id = 0, int reduce_type = 0)", "Tensor(out)",
    traits=("ring",), inplace=(("x", "out"),)
)
def reduce(x: TensorLike, ring_id: int = 0, root_id: int = 0, reduce_type: int = 0) -> Tensor:
    """What all_reduce gives, on the process root_id of the ring; the others have their x.

    Args:
        x: tensor.
        ring_id, root_id, reduce_type: int.
    """
    return bind(_reduce, (x,), (ring_id, root_id, reduce_type))

def reduce_(x: TensorLike, ring_id: int = 0, root_id: int = 0, reduce_type: int = 0) -> Tensor:
    """:func:`reduce` in the memory of x, not to be used after it."""
    return bind_in_place(_reduce, (x,), (ring_id, root_id, reduce_type))

_broadcast = define(
    "broadcast", "(Tensor x, int ring_id = 0, int root = 0)", "Tensor(out)", traits=("ring",),
    inplace=(("x", "out"),)
)
def broadcast(x: TensorLike, ring_id: int = 0, root: int = 0) -> Tensor:
    """The x of process root of the ring, on each of them.

    Args:
        x: tensor.
        ring_id, root: int.
    """
    return bind(_broadcast, (x,), (ring_id, root))

def broadcast_(x: TensorLike, ring_id: int = 0, root: int = 0) -> Tensor:
    """:func:`broadcast` in the memory of x, not to be used after it."""
    return bind_in_place(_broadcast, (x,), (ring_id, root))

_reduce_scatter = define(
    "reduce_scatter", "(Tensor x, int ring_id = 0, int nranks = 1)", "Tensor(out)", traits=("ring",)
)
def reduce_scatter(x: TensorLike, ring_id: int = 0, nranks: int = 1) -> Tensor:
    """Each process of the ring has its rows of the sum of all x: dim 0 is divided among them.
    nranks is their number, or 1 for whatever that is.

    Args:
        x: tensor.
        ring_id, nranks: int.
    """
    return bind(_reduce_scatter, (x,), (ring_id, nranks))

_barrier = define("barrier", "(Tensor x, int ring_id=0)", "Tensor(out)", traits=("ring",))
def barrier(x: TensorLike, ring_id: int = 0) -> Tensor:
    """x, once all processes of the ring have come here. In a compiled program nothing waits where
    out is not used.

    Args:
        x: tensor.
        ring_id: int.
    """
    return bind(_barrier, (x,), (ring_id,))

_c_allreduce_sum = define(
    "c_allreduce_sum", "(Tensor x, int ring_id, bool use_calc_stream, bool use_model_parallel)",
    "Tensor(out)", traits=("ring",), inplace=(("x", "out"),)
)
def c_allreduce_sum(
    x: TensorLike, ring_id: int, use_calc_stream: bool, use_model_parallel: bool
) -> Tensor:
    """The sum of the x of all processes of the ring, on each of them. There are no streams to
    choose from.

    Args:
        x: tensor.
        ring_id: int.
        use_calc_stream, use_model_parallel: bool.
    """
    return bind(_c_allreduce_sum, (x,), (ring_id, use_calc_stream, use_model_parallel))

def c_allreduce_sum_(
    x: TensorLike, ring_id: int, use_calc_stream: bool, use_model_parallel: bool
) -> Tensor:
    """:func:`c_allreduce_sum` in the memory of x, not to be used after it."""
    return bind_in_place(_c_allreduce_sum, (x,), (ring_id, use_calc_stream, use_model_parallel))

_mp_allreduce_sum = define(
    "mp_allreduce_sum", "(Tensor x, int ring_id = 0)", "Tensor(out)", traits=("ring",),
    inplace=(("x", "out"),)
)
def mp_allreduce_sum(x: TensorLike, ring_id: int = 0) -> Tensor:
    """The sum of the x of all processes of the ring, on each of them.

    Args:
        x: tensor.
        ring_id: int.
    """
    return bind(_mp_allreduce_sum, (x,), (ring_id,))

def mp_allreduce_sum_(x: TensorLike, ring_id: int = 0) -> Tensor:
    """:func:`mp_allreduce_sum` in the memory of x, not to be used after it."""
    return bind_in_place(_mp_allreduce_sum, (x,), (ring_id,))

_c_concat = define(
    "c_concat",
    "(Tensor x, int rank, int nranks, int ring_id, bool use_calc_stream, bool use_model_parallel)",
    "Tensor(out)", traits=("ring",)
)
def c_concat(
    x: TensorLike, rank: int, nranks: int, ring_id: int, use_calc_stream: bool,
    use_model_parallel: bool
) -> Tensor:
    """The x of all processes of the ring, joined along the last dim, on each of them. nranks is
    their number. Which one a process is, is known: rank is checked to be one of them, and says no
    more.

    Args:
        x: tensor.
        rank, nranks, ring_id: int.
        use_calc_stream, use_model_parallel: bool.
    """
    return bind(_c_concat, (x,), (rank, nranks, ring_id, use_calc_stream, use_model_parallel))

_c_split = define(
    "c_split",
    "(Tensor x, int rank = 0, int nranks = 1, int ring_id = 0, bool use_model_parallel = true)",
    "Tensor(out)", traits=("ring",)
)
def c_split(
    x: TensorLike, rank: int = 0, nranks: int = 1, ring_id: int = 0, use_model_parallel: bool = True
) -> Tensor:
    """Each process of the ring has its part of x along the last dim. nranks is their number, or 1
    for whatever that is. Which one a process is, is known: rank is checked to be one of them, and
    says no more.

    Args:
        x: tensor.
        rank, nranks, ring_id: int.
        use_model_parallel: bool.
    """
    return bind(_c_split, (x,), (rank, nranks, ring_id, use_model_parallel))

_c_scatter = define(
    "c_scatter",
    "(Tensor x, int ring_id = 0, int root = 0, int nranks = 0, bool use_calc_stream = false)",
    "Tensor(out)", traits=("ring",)
)
def c_scatter(
    x: TensorLike, ring_id: int = 0, root: int = 0, nranks: int = 0, use_calc_stream: bool = False
) -> Tensor:
    """Each process of the ring has its rows of the x of process root: dim 0 is divided among them.
    nranks is their number, or 0 for whatever that is.

    Args:
        x: tensor.
        ring_id, root, nranks: int.
        use_calc_stream: bool.
    """
    return bind(_c_scatter, (x,), (ring_id, root, nranks, use_calc_stream))

_partial_allgather = define(
    "partial_allgather", "(Tensor x, int nranks, int rank, int ring_id = 0)", "Tensor(out)",
    traits=("ring",), inplace=(("x", "out"),)
)
def partial_allgather(x: TensorLike, nranks: int, rank: int, ring_id: int = 0) -> Tensor:
    """A tensor like x, on each process of the ring: the elements of x in C order, divided evenly
    among the processes, come each from the process whose part they are. nranks is the number of
    processes. Which one a process is, is known: rank is checked to be one of them, and says no
    more.

    Args:
        x: tensor.
        nranks, rank, ring_id: int.
    """
    return bind(_partial_allgather, (x,), (nranks, rank, ring_id))

def partial_allgather_(x: TensorLike, nranks: int, rank: int, ring_id: int = 0) -> Tensor:
    """:func:`partial_allgather` in the memory of x, not to be used after it."""
    return bind_in_place(_partial_allgather, (x,), (nranks, rank, ring_id))

_c_softmax_with_cross_entropy = define(
    "c_softmax_with_cross_entropy",
    "(Tensor logits, Tensor label, int64_t ignore_index=-100, int ring_id=0, int rank=0, "
    "int nranks=0)", "Tensor(softmax), Tensor(loss)",
    traits=("ring", "full_precision", "promote_float(logits)"), dtypes=("float",)
)
def c_softmax_with_cross_entropy(
    logits: TensorLike, label: TensorLike, ignore_index: DimLike = -100, ring_id: int = 0,
    rank: int = 0, nranks: int = 0
) -> tuple[Tensor, Tensor]:
    """The softmax of logits whose last dim is divided among the processes of the ring, each its
    part, and the loss -log softmax[label], on each of them. label has the classes, [...] or [...,
    1], the same on all; loss is [..., 1], and 0 where a label is ignore_index, NaN where it is no
    class. nranks is the number of processes, or 0 for whatever that is. Which one a process is, is
    known: rank is checked to be one of them, and says no more.

    Args:
        logits: tensor, float.
        label: tensor.
        ignore_index, ring_id, rank, nranks: int.

    Returns:
        softmax, loss.
    """
    return bind(
        _c_softmax_with_cross_entropy, (logits, label), (ignore_index, ring_id, rank, nranks)
    )

_c_embedding = define(
    "c_embedding", "(Tensor weight, Tensor x, int64_t start_index=0, int64_t vocab_size=-1)",
    "Tensor(out)"
)
def c_embedding(
    weight: TensorLike, x: TensorLike, start_index: DimLike = 0, vocab_size: DimLike = -1
) -> Tensor:
    """weight[x - start_index]: the rows of a table of which weight has those from start_index on,
    and zeros for those that it has not; the sum over all processes is that of the whole table.
    start_index is a number, the same on all; on a mesh pass x minus what stands before a process's
    rows. vocab_size, the rows of the whole table, says no more.

    Args:
        weight, x: tensor.
        start_index, vocab_size: int.
    """
    return bind(_c_embedding, (weight, x), (start_index, vocab_size))

_sync_comm_stream = define(
    "sync_comm_stream", "(Tensor[] x, int ring_id = 0)", "Tensor[](out){x.size()}"
)
def sync_comm_stream(x: Sequence[TensorLike], ring_id: int = 0) -> tuple[Tensor, ...]:
    """The tensors themselves: what the processes exchange is there when the next op takes it.

    Args:
        x: sequence of tensors.
        ring_id: int.
    """
    return bind(_sync_comm_stream, (x,), (ring_id,))


# -- yaml/comparison.yaml --------------------------------------------------------------------------
define = definer("yaml/comparison.yaml", family="comparison")

_isclose = define(
    "isclose", "(Tensor x, Tensor y, Scalar(double) rtol=1e-5, Scalar(double) atol=1e-8, "
    "bool equal_nan=false)", "Tensor(out)", infer_meta=("ValueCompareInferMeta", None),
    traits=("promote", "nondifferentiable")
)
def isclose(
    x: TensorLike, y: TensorLike, rtol: ScalarLike = 1e-05, atol: ScalarLike = 1e-08,
    equal_nan: bool = False
) -> Tensor:
    """x == y, or both finite and abs(x - y) <= atol + rtol * abs(y), elementwise with broadcasting;
    equal_nan: two NaNs are close.

    Args:
        x, y: tensor.
        rtol, atol: number or one-element tensor.
        equal_nan: bool.
    """
    return bind(_isclose, (x, y), (rtol, atol, equal_nan))

_allclose = define(
    "allclose", "(Tensor x, Tensor y, Scalar(double) rtol=1e-5, Scalar(double) atol=1e-8, "
    "bool equal_nan=false)", "Tensor(out)", infer_meta=("AllValueCompareInferMeta", None),
    traits=("promote", "nondifferentiable")
)
def allclose(
    x: TensorLike, y: TensorLike, rtol: ScalarLike = 1e-05, atol: ScalarLike = 1e-08,
    equal_nan: bool = False
) -> Tensor:
    """Whether all of isclose(x, y, rtol, atol, equal_nan) is true, a 0-d bool.

    Args:
        x, y: tensor.
        rtol, atol: number or one-element tensor.
        equal_nan: bool.
    """
    return bind(_allclose, (x, y), (rtol, atol, equal_nan))

_accuracy_check = define(
    "accuracy_check",
    "(Tensor x, Tensor y, str fn_name, double rtol=1e-5, double atol=1e-8, bool equal_nan=false)",
    "Tensor(out)", infer_meta=("AccuracyCheckInferMeta", None),
    traits=("promote", "nondifferentiable")
)
def accuracy_check(
    x: TensorLike, y: TensorLike, fn_name: str, rtol: FloatLike = 1e-05, atol: FloatLike = 1e-08,
    equal_nan: bool = False
) -> Tensor:
    """isclose(x, y, rtol, atol, equal_nan) of two results of one shape; fn_name says what of.

    Args:
        x, y: tensor.
        fn_name: str.
        rtol, atol: float or one-element tensor.
        equal_nan: bool.
    """
    return bind(_accuracy_check, (x, y), (fn_name, rtol, atol, equal_nan))

_equal_all = define(
    "equal_all", "(Tensor x, Tensor y)", "Tensor(out)", infer_meta=("CompareAllInferMeta", None),
    traits=("promote", "nondifferentiable")
)
def equal_all(x: TensorLike, y: TensorLike) -> Tensor:
    """Whether x and y have one shape and equal elements, a 0-d bool.

    Args:
        x, y: tensor.
    """
    return bind(_equal_all, (x, y), ())

_is_empty = define(
    "is_empty", "(Tensor x)", "Tensor(out)", infer_meta=("IsEmptyInferMeta", None),
    traits=("nondifferentiable",)
)
def is_empty(x: TensorLike) -> Tensor:
    """Whether x has no elements, a 0-d bool.

    Args:
        x: tensor.
    """
    return bind(_is_empty, (x,), ())

_restrict_nonzero = define(
    "restrict_nonzero", "(Tensor condition, int64_t total_true_num)", "Tensor(out)",
    infer_meta=("RestrictNonZeroInferMeta", None), traits=("nondifferentiable",)
)
def restrict_nonzero(condition: TensorLike, total_true_num: DimLike) -> Tensor:
    """The int64 indices, [total_true_num, rank], of the elements that are not 0, in order.
    total_true_num must be how many there are: of more those behind are left out, and rows that
    fewer leave are 0.

    Args:
        condition: tensor.
        total_true_num: int.
    """
    return bind(_restrict_nonzero, (condition,), (total_true_num,))

_accuracy = define(
    "accuracy", "(Tensor x, Tensor indices, Tensor label)",
    "Tensor(accuracy), Tensor(correct), Tensor(total)", infer_meta=("AccuracyInferMeta", None),
    traits=("nondifferentiable",)
)
def accuracy(
    x: TensorLike, indices: TensorLike, label: TensorLike
) -> tuple[Tensor, Tensor, Tensor]:
    """The share of rows whose label is among their indices, the classes of the largest scores x, as
    float32; how many they are, and how many rows there are, as int32.

    Args:
        x, indices, label: tensor.

    Returns:
        accuracy, correct, total.
    """
    return bind(_accuracy, (x, indices, label), ())

_increment = define(
    "increment", "(Tensor x, float value=1.0)", "Tensor(out)",
    infer_meta=("IncrementInferMeta", None), traits=("promote",), dtypes=("int", "float"),
    inplace=(("x", "out"),)
)
def increment(x: TensorLike, value: FloatLike = 1.0) -> Tensor:
    """x, of one element, with value added in the dtype of x.

    Args:
        x: tensor, int or float.
        value: float or one-element tensor.
    """
    return bind(_increment, (x,), (value,))

def increment_(x: TensorLike, value: FloatLike = 1.0) -> Tensor:
    """:func:`increment` in the memory of x, not to be used after it."""
    return bind_in_place(_increment, (x,), (value,))


# -- yaml/contraction.yaml -------------------------------------------------------------------------
define = definer("yaml/contraction.yaml", family="contraction")

_matmul = define(
    "matmul", "(Tensor x, Tensor y, bool transpose_x=false, bool transpose_y=false)", "Tensor(out)",
    infer_meta=("MatmulInferMeta", None), backward="matmul_grad", jvp="bilinear",
    traits=("promote", "low_precision"), dtypes=("int", "float", "complex")
)
def matmul(
    x: TensorLike, y: TensorLike, transpose_x: bool = False, transpose_y: bool = False
) -> Tensor:
    """Matrix product over the last two axes, out[..., i, j] = sum_k x[..., i, k] * y[..., k, j],
    leading axes broadcast; a 1-d x is a row, a 1-d y a column, and that axis is dropped.

    Args:
        x, y: tensor, int, float or complex.
        transpose_x, transpose_y: bool.
    """
    return bind(_matmul, (x, y), (transpose_x, transpose_y))

_matmul_grad = define(
    "matmul_grad",
    "(Tensor x, Tensor y, Tensor out_grad, bool transpose_x=false, bool transpose_y=false)",
    "Tensor(x_grad), Tensor(y_grad)", forward="matmul"
)
def matmul_grad(x, y, out_grad, transpose_x=False, transpose_y=False):
    """Backward of :func:`matmul`."""
    return bind(_matmul_grad, (x, y, out_grad), (transpose_x, transpose_y))

_conv2d = define(
    "conv2d", "(Tensor input, Tensor filter, int[] strides={1, 1}, int[] paddings={0, 0}, "
    'str padding_algorithm="EXPLICIT", int[] dilations={1, 1}, int groups=1, '
    'str data_format="NCHW")', "Tensor(out)", infer_meta=("ConvInferMeta", None),
    backward="conv2d_grad", jvp="bilinear",
    traits=("promote", "low_precision", "layout(input, out)"), dtypes=("int", "float", "complex")
)
def conv2d(
    input: TensorLike, filter: TensorLike, strides: IntArrayLike = (1, 1),
    paddings: IntArrayLike = (0, 0), padding_algorithm: str = "EXPLICIT",
    dilations: IntArrayLike = (1, 1), groups: int = 1, data_format: str = "NCHW"
) -> Tensor:
    """Cross-correlation of images with filters [out, in / groups, height, width], out[n, o, y, x] =
    sum input[n, c, y * stride + i * dilation - padding, ...] * filter[o, c, i, j]. paddings:
    (height, width) or (top, bottom, left, right); SAME pads to ceil(size / stride), VALID not at
    all.

    Args:
        input, filter: tensor, int, float or complex.
        strides, paddings: sequence of ints.
        padding_algorithm: str.
        dilations: sequence of ints.
        groups: int.
        data_format: str.
    """
    return bind(
        _conv2d, (input, filter),
        (strides, paddings, padding_algorithm, dilations, groups, data_format)
    )

_conv2d_grad = define(
    "conv2d_grad", "(Tensor input, Tensor filter, Tensor out_grad, int[] strides, int[] paddings, "
    "str padding_algorithm, int[] dilations, int groups, str data_format)",
    "Tensor(input_grad), Tensor(filter_grad)",
    traits=("whole", "low_precision", "layout(input, out_grad, input_grad)"), forward="conv2d"
)
def conv2d_grad(
    input, filter, out_grad, strides, paddings, padding_algorithm, dilations, groups, data_format
):
    """Backward of :func:`conv2d`."""
    return bind(
        _conv2d_grad, (input, filter, out_grad),
        (strides, paddings, padding_algorithm, dilations, groups, data_format)
    )

_einsum = define(
    "einsum", "(Tensor[] x, str equation)", "Tensor(out)", infer_meta=("EinsumInferMeta", None),
    traits=("promote", "low_precision"), dtypes=("int", "float", "complex")
)
def einsum(x: Sequence[TensorLike], equation: str) -> Tensor:
    """Sum of products in Einstein's notation: axes with the same label are matched, those the
    result does not name are summed. Labels are letters, ... stands for further axes; without -> the
    result has the labels that occur once, in alphabetical order. Axes of size 1 broadcast.

    Args:
        x: sequence of tensors, int, float or complex.
        equation: str.
    """
    return bind(_einsum, (x,), (equation,))

_tensordot = define(
    "tensordot", "(Tensor x, Tensor y, int[] axes_x, int[] axes_y)", "Tensor(out)",
    traits=("promote", "low_precision"), dtypes=("int", "float", "complex")
)
def tensordot(x: TensorLike, y: TensorLike, axes_x: IntArrayLike, axes_y: IntArrayLike) -> Tensor:
    """Sum of products over pairs of axes, axes_x[i] of x with axes_y[i] of y; the other axes of x,
    then those of y, are left.

    Args:
        x, y: tensor, int, float or complex.
        axes_x, axes_y: sequence of ints.
    """
    return bind(_tensordot, (x, y), (axes_x, axes_y))

_bmm = define(
    "bmm", "(Tensor x, Tensor y)", "Tensor(out)", traits=("promote", "low_precision"),
    dtypes=("int", "float", "complex")
)
def bmm(x: TensorLike, y: TensorLike) -> Tensor:
    """Matrix products of two batches, out[b] = x[b] @ y[b].

    Args:
        x, y: tensor, int, float or complex.
    """
    return bind(_bmm, (x, y), ())

_mv = define(
    "mv", "(Tensor x, Tensor vec)", "Tensor(out)", traits=("promote", "low_precision"),
    dtypes=("int", "float", "complex")
)
def mv(x: TensorLike, vec: TensorLike) -> Tensor:
    """Product of a matrix and a vector.

    Args:
        x, vec: tensor, int, float or complex.
    """
    return bind(_mv, (x, vec), ())

_dot = define(
    "dot", "(Tensor x, Tensor y)", "Tensor(out)", traits=("promote", "low_precision"),
    dtypes=("int", "float", "complex")
)
def dot(x: TensorLike, y: TensorLike) -> Tensor:
    """Sum of products along the last axis, of two vectors or of the rows of two matrices.

    Args:
        x, y: tensor, int, float or complex.
    """
    return bind(_dot, (x, y), ())

_addmm = define(
    "addmm", "(Tensor input, Tensor x, Tensor y, float beta=1.0, float alpha=1.0)", "Tensor(out)",
    traits=("promote", "low_precision"), dtypes=("int", "float", "complex"),
    inplace=(("input", "out"),)
)
def addmm(
    input: TensorLike, x: TensorLike, y: TensorLike, beta: FloatLike = 1.0, alpha: FloatLike = 1.0
) -> Tensor:
    """beta * input + alpha * (x @ y) for matrices x and y; input broadcasts. With the number 0 for
    beta NaN and inf in input do not count.

    Args:
        input, x, y: tensor, int, float or complex.
        beta, alpha: float or one-element tensor.
    """
    return bind(_addmm, (input, x, y), (beta, alpha))

def addmm_(
    input: TensorLike, x: TensorLike, y: TensorLike, beta: FloatLike = 1.0, alpha: FloatLike = 1.0
) -> Tensor:
    """:func:`addmm` in the memory of input, not to be used after it."""
    return bind_in_place(_addmm, (input, x, y), (beta, alpha))

_baddbmm = define(
    "baddbmm", "(Tensor input, Tensor x, Tensor y, float beta=1.0, float alpha=1.0)", "Tensor(out)",
    traits=("promote", "low_precision"), dtypes=("int", "float", "complex"),
    inplace=(("input", "out"),)
)
def baddbmm(
    input: TensorLike, x: TensorLike, y: TensorLike, beta: FloatLike = 1.0, alpha: FloatLike = 1.0
) -> Tensor:
    """beta * input + alpha * (x[b] @ y[b]) for batches of matrices x and y; input broadcasts. With
    the number 0 for beta NaN and inf in input do not count.

    Args:
        input, x, y: tensor, int, float or complex.
        beta, alpha: float or one-element tensor.
    """
    return bind(_baddbmm, (input, x, y), (beta, alpha))

def baddbmm_(
    input: TensorLike, x: TensorLike, y: TensorLike, beta: FloatLike = 1.0, alpha: FloatLike = 1.0
) -> Tensor:
    """:func:`baddbmm` in the memory of input, not to be used after it."""
    return bind_in_place(_baddbmm, (input, x, y), (beta, alpha))

_kron = define(
    "kron", "(Tensor x, Tensor y)", "Tensor(out)", traits=("promote",),
    dtypes=("int", "float", "complex")
)
def kron(x: TensorLike, y: TensorLike) -> Tensor:
    """Kronecker product: each element of x replaced by its product with y.

    Args:
        x, y: tensor, int, float or complex.
    """
    return bind(_kron, (x, y), ())

_multi_dot = define(
    "multi_dot", "(Tensor[] x)", "Tensor(out)", traits=("promote", "low_precision"),
    dtypes=("int", "float", "complex")
)
def multi_dot(x: Sequence[TensorLike]) -> Tensor:
    """The matrix product of all of x, in the order of least work; the first and the last may be
    vectors, a row and a column, whose axis is dropped.

    Args:
        x: sequence of tensors, int, float or complex.
    """
    return bind(_multi_dot, (x,), ())

_bilinear = define(
    "bilinear", "(Tensor x, Tensor y, Tensor weight, Tensor bias)", "Tensor(out)",
    traits=("promote", "low_precision"), dtypes=("int", "float", "complex"), optional=("bias",)
)
def bilinear(
    x: TensorLike, y: TensorLike, weight: TensorLike, bias: TensorLike | None = None
) -> Tensor:
    """out[i, k] = sum x[i, m] weight[k, m, n] y[i, n] + bias[0, k], or + 0 without bias.

    Args:
        x, y, weight: tensor, int, float or complex.
        bias: tensor, int, float or complex, may be None.
    """
    return bind(_bilinear, (x, y, weight, bias), ())

_cross = define(
    "cross", "(Tensor x, Tensor y, int axis=9)", "Tensor(out)", traits=("promote",),
    dtypes=("int", "float", "complex")
)
def cross(x: TensorLike, y: TensorLike, axis: int = 9) -> Tensor:
    """The vector product along an axis of 3 elements, x_(i+1) y_(i+2) - x_(i+2) y_(i+1), indices
    modulo 3. axis 9 stands for the first of 3 elements.

    Args:
        x, y: tensor, int, float or complex.
        axis: int.
    """
    return bind(_cross, (x, y), (axis,))

_trace = define("trace", "(Tensor x, int offset=0, int axis1=0, int axis2=1)", "Tensor(out)")
def trace(x: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The sum of x[..., i, ..., i + offset, ...] of axis1 and axis2 over i, of the dtype of x.

    Args:
        x: tensor.
        offset, axis1, axis2: int.
    """
    return bind(_trace, (x,), (offset, axis1, axis2))


# -- yaml/control_flow.yaml ------------------------------------------------------------------------
define = definer("yaml/control_flow.yaml", family="control_flow")

_branch = define(
    "branch", "(Tensor index, Tensor[] operands, Graph[] branches)", "Tensor[](out)",
    infer_meta=("BranchInferMeta", None), traits=("invariant(operands)", "stores")
)
def branch(
    index: TensorLike, operands: Sequence[TensorLike], branches: Sequence[Graph]
) -> tuple[Tensor, ...]:
    """The outputs of branches[index] on the operands, index clamped to the branches there are; the
    others do not run. All branches give outputs of the same metas.

    Args:
        index: tensor.
        operands: sequence of tensors.
        branches: sequence of graphs.
    """
    return bind(_branch, (index, operands), (branches,))

_select_n = define(
    "select_n", "(Tensor which, Tensor[] cases)", "Tensor(out)",
    infer_meta=("SelectNInferMeta", None), traits=("promote(cases)",)
)
def select_n(which: TensorLike, cases: Sequence[TensorLike]) -> Tensor:
    """Element i is cases[which[i]][i]; which, ints clamped to the cases there are, or bools, is 0-d
    or of the cases' dims, which are the same for all.

    Args:
        which: tensor.
        cases: sequence of tensors.
    """
    return bind(_select_n, (which, cases), ())

_while_loop = define(
    "while_loop", "(Tensor[] carry, Tensor[] constants, Graph cond, Graph body)", "Tensor[](out)",
    infer_meta=("WhileInferMeta", None), traits=("invariant(constants)", "stores")
)
def while_loop(
    carry: Sequence[TensorLike], constants: Sequence[TensorLike], cond: Graph, body: Graph
) -> tuple[Tensor, ...]:
    """carry = body(carry, constants) for as long as cond(carry, constants), one bool, holds; the
    carry keeps its metas.

    Args:
        carry, constants: sequence of tensors.
        cond, body: graph.
    """
    return bind(_while_loop, (carry, constants), (cond, body))

_fori_loop = define(
    "fori_loop", "(Tensor lower, Tensor upper, Tensor[] carry, Tensor[] constants, Graph body, "
    "int64_t length=-1)", "Tensor[](out)", infer_meta=("ForiInferMeta", None)
)
def fori_loop(
    lower: TensorLike, upper: TensorLike, carry: Sequence[TensorLike],
    constants: Sequence[TensorLike], body: Graph, length: DimLike = -1
) -> tuple[Tensor, ...]:
    """carry = body(i, carry, constants) for i = lower .. upper - 1, an int64. length is upper -
    lower where that is known before it runs, which makes it a scan; else it is a while_loop.

    Args:
        lower, upper: tensor.
        carry, constants: sequence of tensors.
        body: graph.
        length: int.
    """
    return bind(_fori_loop, (lower, upper, carry, constants), (body, length))

_scan = define(
    "scan", "(Tensor[] carry, Tensor[] xs, Tensor[] constants, Graph body, int64_t length, "
    "bool reverse=false)", "Tensor[](final), Tensor[](ys)", infer_meta=("ScanInferMeta", None),
    traits=("invariant(constants)", "stores")
)
def scan(
    carry: Sequence[TensorLike], xs: Sequence[TensorLike], constants: Sequence[TensorLike],
    body: Graph, length: DimLike, reverse: bool = False
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """carry, ys[i] = body(carry, xs[i], constants) for i = 0 .. length - 1, or from the last to the
    first if reverse; the final carry, and the ys stacked on a leading axis.

    Args:
        carry, xs, constants: sequence of tensors.
        body: graph.
        length: int.
        reverse: bool.

    Returns:
        final, ys.
    """
    return bind(_scan, (carry, xs, constants), (body, length, reverse))

_dim_value = define(
    "dim_value", '(Tensor x, int64_t dim, bool largest=false, str refusal="")', "Tensor(out)",
    infer_meta=("UnchangedInferMeta", None),
    traits=("nondifferentiable", "side_effect", "binds_dim")
)
def dim_value(x: TensorLike, dim: DimLike, largest: bool = False, refusal: str = "") -> Tensor:
    """x, one int64; from here on the unknown dim has its value. So sizes that depend on data get
    into shapes. Mapped over a batch it is the largest of them if that is asked for, else an error.
    A negative x is 0 there, or an error that says the refusal, if there is one.

    Args:
        x: tensor.
        dim: int.
        largest: bool.
        refusal: str.
    """
    return bind(_dim_value, (x,), (dim, largest, refusal))


# -- yaml/convolution_forms.yaml -------------------------------------------------------------------
define = definer("yaml/convolution_forms.yaml", family="contraction")

_depthwise_conv2d = define(
    "depthwise_conv2d",
    "(Tensor input, Tensor filter, int[] strides={1, 1}, int[] paddings={0, 0}, "
    'str padding_algorithm="EXPLICIT", int groups=1, int[] dilations={1, 1}, '
    'str data_format="NCHW")', "Tensor(out)", traits=("promote", "low_precision"),
    dtypes=("int", "float", "complex")
)
def depthwise_conv2d(
    input: TensorLike, filter: TensorLike, strides: IntArrayLike = (1, 1),
    paddings: IntArrayLike = (0, 0), padding_algorithm: str = "EXPLICIT", groups: int = 1,
    dilations: IntArrayLike = (1, 1), data_format: str = "NCHW"
) -> Tensor:
    """Convolution of each channel by itself: :func:`conv2d` with a group for each channel.

    Args:
        input, filter: tensor, int, float or complex.
        strides, paddings: sequence of ints.
        padding_algorithm: str.
        groups: int.
        dilations: sequence of ints.
        data_format: str.
    """
    return bind(
        _depthwise_conv2d, (input, filter),
        (strides, paddings, padding_algorithm, groups, dilations, data_format)
    )

_conv2d_transpose = define(
    "conv2d_transpose", "(Tensor x, Tensor filter, int[] strides={1, 1}, int[] paddings={0, 0}, "
    'int[] output_padding={}, IntArray output_size={}, str padding_algorithm="EXPLICIT", '
    'int groups=1, int[] dilations={1, 1}, str data_format="NCHW")', "Tensor(out)",
    traits=("promote", "low_precision"), dtypes=("int", "float", "complex")
)
def conv2d_transpose(
    x: TensorLike, filter: TensorLike, strides: IntArrayLike = (1, 1),
    paddings: IntArrayLike = (0, 0), output_padding: IntArrayLike | None = (),
    output_size: IntArrayLike | None = (), padding_algorithm: str = "EXPLICIT", groups: int = 1,
    dilations: IntArrayLike = (1, 1), data_format: str = "NCHW"
) -> Tensor:
    """Transposed convolution with filters [in, out / groups, height, width]: the gradient of
    :func:`conv2d` with respect to its input. Sizes: (size - 1) * stride - paddings + (filter - 1) *
    dilation + 1 + output_padding, or output_size.

    Args:
        x, filter: tensor, int, float or complex.
        strides, paddings: sequence of ints.
        output_padding: sequence of ints, may be None.
        output_size: ints, a tensor of ints, or a list that mixes ints and 0-d tensors, may be None.
        padding_algorithm: str.
        groups: int.
        dilations: sequence of ints.
        data_format: str.
    """
    return bind(
        _conv2d_transpose, (x, filter), (strides, paddings, output_padding, output_size,
        padding_algorithm, groups, dilations, data_format)
    )

_conv2d_transpose_bias = define(
    "conv2d_transpose_bias",
    "(Tensor x, Tensor filter, Tensor bias, int[] strides={1, 1}, int[] paddings={0, 0}, "
    'int[] output_padding={}, IntArray output_size={}, str padding_algorithm="EXPLICIT", '
    'int groups=1, int[] dilations={1, 1}, str data_format="NCHW")', "Tensor(out)",
    traits=("promote", "low_precision"), dtypes=("int", "float", "complex")
)
def conv2d_transpose_bias(
    x: TensorLike, filter: TensorLike, bias: TensorLike, strides: IntArrayLike = (1, 1),
    paddings: IntArrayLike = (0, 0), output_padding: IntArrayLike | None = (),
    output_size: IntArrayLike | None = (), padding_algorithm: str = "EXPLICIT", groups: int = 1,
    dilations: IntArrayLike = (1, 1), data_format: str = "NCHW"
) -> Tensor:
    """:func:`conv2d_transpose` plus bias, one number a channel of the result.

    Args:
        x, filter, bias: tensor, int, float or complex.
        strides, paddings: sequence of ints.
        output_padding: sequence of ints, may be None.
        output_size: ints, a tensor of ints, or a list that mixes ints and 0-d tensors, may be None.
        padding_algorithm: str.
        groups: int.
        dilations: sequence of ints.
        data_format: str.
    """
    return bind(
        _conv2d_transpose_bias, (x, filter, bias), (strides, paddings, output_padding, output_size,
        padding_algorithm, groups, dilations, data_format)
    )

_depthwise_conv2d_transpose = define(
    "depthwise_conv2d_transpose",
    "(Tensor x, Tensor filter, int[] strides={1, 1}, int[] paddings={0, 0}, "
    'int[] output_padding={}, IntArray output_size={}, str padding_algorithm="EXPLICIT", '
    'int groups=1, int[] dilations={1, 1}, str data_format="NCHW")', "Tensor(out)",
    traits=("promote", "low_precision"), dtypes=("int", "float", "complex")
)
def depthwise_conv2d_transpose(
    x: TensorLike, filter: TensorLike, strides: IntArrayLike = (1, 1),
    paddings: IntArrayLike = (0, 0), output_padding: IntArrayLike | None = (),
    output_size: IntArrayLike | None = (), padding_algorithm: str = "EXPLICIT", groups: int = 1,
    dilations: IntArrayLike = (1, 1), data_format: str = "NCHW"
) -> Tensor:
    """:func:`conv2d_transpose` with a group for each channel.

    Args:
        x, filter: tensor, int, float or complex.
        strides, paddings: sequence of ints.
        output_padding: sequence of ints, may be None.
        output_size: ints, a tensor of ints, or a list that mixes ints and 0-d tensors, may be None.
        padding_algorithm: str.
        groups: int.
        dilations: sequence of ints.
        data_format: str.
    """
    return bind(
        _depthwise_conv2d_transpose, (x, filter), (strides, paddings, output_padding, output_size,
        padding_algorithm, groups, dilations, data_format)
    )

_depthwise_conv2d_bias = define(
    "depthwise_conv2d_bias",
    "(Tensor input, Tensor filter, Tensor bias, int[] strides={1, 1}, int[] paddings={0, 0}, "
    'str padding_algorithm="EXPLICIT", int groups=1, int[] dilations={1, 1}, '
    'str data_format="NCHW")', "Tensor(out)", traits=("promote", "low_precision"),
    dtypes=("int", "float", "complex")
)
def depthwise_conv2d_bias(
    input: TensorLike, filter: TensorLike, bias: TensorLike, strides: IntArrayLike = (1, 1),
    paddings: IntArrayLike = (0, 0), padding_algorithm: str = "EXPLICIT", groups: int = 1,
    dilations: IntArrayLike = (1, 1), data_format: str = "NCHW"
) -> Tensor:
    """:func:`depthwise_conv2d` plus bias, one number a channel of the result.

    Args:
        input, filter, bias: tensor, int, float or complex.
        strides, paddings: sequence of ints.
        padding_algorithm: str.
        groups: int.
        dilations: sequence of ints.
        data_format: str.
    """
    return bind(
        _depthwise_conv2d_bias, (input, filter, bias),
        (strides, paddings, padding_algorithm, groups, dilations, data_format)
    )

_conv3d = define(
    "conv3d", "(Tensor input, Tensor filter, int[] strides={1, 1, 1}, int[] paddings={0, 0, 0}, "
    'str padding_algorithm="EXPLICIT", int groups=1, int[] dilations={1, 1, 1}, '
    'str data_format="NCDHW")', "Tensor(out)", traits=("promote", "low_precision"),
    dtypes=("int", "float", "complex")
)
def conv3d(
    input: TensorLike, filter: TensorLike, strides: IntArrayLike = (1, 1, 1),
    paddings: IntArrayLike = (0, 0, 0), padding_algorithm: str = "EXPLICIT", groups: int = 1,
    dilations: IntArrayLike = (1, 1, 1), data_format: str = "NCDHW"
) -> Tensor:
    """Cross-correlation of volumes with filters [out, in / groups, depth, height, width]; paddings
    (depth, height, width) or (front, back, top, bottom, left, right). All else as :func:`conv2d`.

    Args:
        input, filter: tensor, int, float or complex.
        strides, paddings: sequence of ints.
        padding_algorithm: str.
        groups: int.
        dilations: sequence of ints.
        data_format: str.
    """
    return bind(
        _conv3d, (input, filter),
        (strides, paddings, padding_algorithm, groups, dilations, data_format)
    )

_conv3d_transpose = define(
    "conv3d_transpose",
    "(Tensor x, Tensor filter, int[] strides={1, 1, 1}, int[] paddings={0, 0, 0}, "
    'int[] output_padding={}, int[] output_size={}, str padding_algorithm="EXPLICIT", '
    'int groups=1, int[] dilations={1, 1, 1}, str data_format="NCHW")', "Tensor(out)",
    traits=("promote", "low_precision"), dtypes=("int", "float", "complex")
)
def conv3d_transpose(
    x: TensorLike, filter: TensorLike, strides: IntArrayLike = (1, 1, 1),
    paddings: IntArrayLike = (0, 0, 0), output_padding: IntArrayLike | None = (),
    output_size: IntArrayLike | None = (), padding_algorithm: str = "EXPLICIT", groups: int = 1,
    dilations: IntArrayLike = (1, 1, 1), data_format: str = "NCHW"
) -> Tensor:
    """Transposed convolution of volumes with filters [in, out / groups, depth, height, width]: as
    :func:`conv2d_transpose`. data_format NCHW stands for NCDHW.

    Args:
        x, filter: tensor, int, float or complex.
        strides, paddings: sequence of ints.
        output_padding, output_size: sequence of ints, may be None.
        padding_algorithm: str.
        groups: int.
        dilations: sequence of ints.
        data_format: str.
    """
    return bind(
        _conv3d_transpose, (x, filter), (strides, paddings, output_padding, output_size,
        padding_algorithm, groups, dilations, data_format)
    )

_depthwise_conv3d_bias = define(
    "depthwise_conv3d_bias",
    "(Tensor input, Tensor filter, Tensor bias, int[] strides={1, 1, 1}, int[] paddings={0, 0, "
    '0}, str padding_algorithm="EXPLICIT", int groups=1, int[] dilations={1, 1, 1}, '
    'str data_format="NCDHW")', "Tensor(out)", traits=("promote", "low_precision"),
    dtypes=("int", "float", "complex")
)
def depthwise_conv3d_bias(
    input: TensorLike, filter: TensorLike, bias: TensorLike, strides: IntArrayLike = (1, 1, 1),
    paddings: IntArrayLike = (0, 0, 0), padding_algorithm: str = "EXPLICIT", groups: int = 1,
    dilations: IntArrayLike = (1, 1, 1), data_format: str = "NCDHW"
) -> Tensor:
    """:func:`conv3d` with a group for each channel, plus bias, one number a channel of the result.

    Args:
        input, filter, bias: tensor, int, float or complex.
        strides, paddings: sequence of ints.
        padding_algorithm: str.
        groups: int.
        dilations: sequence of ints.
        data_format: str.
    """
    return bind(
        _depthwise_conv3d_bias, (input, filter, bias),
        (strides, paddings, padding_algorithm, groups, dilations, data_format)
    )


# -- yaml/creation.yaml ----------------------------------------------------------------------------
define = definer("yaml/creation.yaml", family="creation")

_full = define(
    "full", "(IntArray shape, Scalar(double) value, DataType dtype=DataType::FLOAT32, "
    "Place place=CPUPlace())", "Tensor(out)", infer_meta=("CreateInferMeta", ("shape", "dtype")),
    traits=("nondifferentiable",)
)
def full(
    shape: IntArrayLike, value: ScalarLike, dtype: DTypeLike = float, place: PlaceLike | None = None
) -> Tensor:
    """A tensor of that shape, every element equal to value.

    Args:
        shape: ints, a tensor of ints, or a list that mixes ints and 0-d tensors.
        value: number or one-element tensor.
        dtype: dtype.
        place: place; None is the default place.
    """
    return bind(_full, (), (shape, value, dtype, place))

_full_like = define(
    "full_like", "(Tensor x, Scalar value, DataType dtype=DataType::UNDEFINED, Place place={})",
    "Tensor(out)", traits=("nondifferentiable",)
)
def full_like(
    x: TensorLike, value: ScalarLike, dtype: DTypeLike | None = None, place: PlaceLike | None = None
) -> Tensor:
    """A tensor of the shape of x, and of its dtype if none is given, every element equal to value.

    Args:
        x: tensor.
        value: number or one-element tensor.
        dtype: dtype, may be None.
        place: place; None is the default place.
    """
    return bind(_full_like, (x,), (value, dtype, place))

_empty = define(
    "empty", "(IntArray shape, DataType dtype=DataType::FLOAT32, Place place=CPUPlace())",
    "Tensor(out)", infer_meta=("CreateInferMeta", ("shape", "dtype")), traits=("nondifferentiable",)
)
def empty(shape: IntArrayLike, dtype: DTypeLike = float, place: PlaceLike | None = None) -> Tensor:
    """A tensor of that shape, for where the values do not matter; they are 0.

    Args:
        shape: ints, a tensor of ints, or a list that mixes ints and 0-d tensors.
        dtype: dtype.
        place: place; None is the default place.
    """
    return bind(_empty, (), (shape, dtype, place))

_empty_like = define(
    "empty_like", "(Tensor x, DataType dtype=DataType::UNDEFINED, Place place={})", "Tensor(out)",
    traits=("nondifferentiable",)
)
def empty_like(
    x: TensorLike, dtype: DTypeLike | None = None, place: PlaceLike | None = None
) -> Tensor:
    """A tensor of the shape of x, for where the values do not matter; they are 0.

    Args:
        x: tensor.
        dtype: dtype, may be None.
        place: place; None is the default place.
    """
    return bind(_empty_like, (x,), (dtype, place))

_arange = define(
    "arange", "(Scalar start, Scalar end, Scalar step, DataType dtype, Place place={})",
    "Tensor(out)", infer_meta=("ArangeInferMeta", None), traits=("nondifferentiable",)
)
def arange(
    start: ScalarLike, end: ScalarLike, step: ScalarLike, dtype: DTypeLike,
    place: PlaceLike | None = None
) -> Tensor:
    """start, start + step, start + 2 * step, ... as long as they lie before end; dtype None is
    int64 for ints and the default float for floats.

    Args:
        start, end, step: number or one-element tensor.
        dtype: dtype.
        place: place; None is the default place.
    """
    return bind(_arange, (), (start, end, step, dtype, place))

_linspace = define(
    "linspace", "(Tensor start, Tensor stop, int64_t number, DataType dtype=DataType::UNDEFINED, "
    "Place place={})", "Tensor(out)", infer_meta=("LinspaceInferMeta", None),
    traits=("promote_float",), dtypes=("float", "complex")
)
def linspace(
    start: TensorLike, stop: TensorLike, number: DimLike, dtype: DTypeLike | None = None,
    place: PlaceLike | None = None
) -> Tensor:
    """number values evenly spaced from start to stop, both included and met exactly; the dtype of
    start and stop if none is given, and rounded down if it is an int dtype.

    Args:
        start, stop: tensor, float or complex.
        number: int.
        dtype: dtype, may be None.
        place: place; None is the default place.
    """
    return bind(_linspace, (start, stop), (number, dtype, place))

_eye = define(
    "eye", "(Scalar(int64_t) num_rows, Scalar(int64_t) num_columns=none, "
    "DataType dtype=DataType::FLOAT32, Place place={})", "Tensor(out)",
    traits=("nondifferentiable",)
)
def eye(
    num_rows: ScalarLike, num_columns: ScalarLike | None = None, dtype: DTypeLike = float,
    place: PlaceLike | None = None
) -> Tensor:
    """A matrix with 1 on the main diagonal and 0 elsewhere; num_columns None is num_rows.

    Args:
        num_rows: number or one-element tensor.
        num_columns: number or one-element tensor, may be None.
        dtype: dtype.
        place: place; None is the default place.
    """
    return bind(_eye, (), (num_rows, num_columns, dtype, place))

_tril = define(
    "tril", "(Tensor x, int diagonal=0)", "Tensor(out)", infer_meta=("TrilInferMeta", None),
    backward="tril_grad", jvp="linear", inplace=(("x", "out"),)
)
def tril(x: TensorLike, diagonal: int = 0) -> Tensor:
    """x with 0 above the diagonal: out[..., i, j] = x[..., i, j] where j - i <= diagonal.

    Args:
        x: tensor.
        diagonal: int.
    """
    return bind(_tril, (x,), (diagonal,))

def tril_(x: TensorLike, diagonal: int = 0) -> Tensor:
    """:func:`tril` in the memory of x, not to be used after it."""
    return bind_in_place(_tril, (x,), (diagonal,))

_tril_grad = define(
    "tril_grad", "(Tensor out_grad, int diagonal)", "Tensor(x_grad)",
    invoke="tril(out_grad, diagonal)", forward="tril"
)
def tril_grad(out_grad, diagonal):
    """Backward of :func:`tril`."""
    return bind(_tril_grad, (out_grad,), (diagonal,))

_triu = define(
    "triu", "(Tensor x, int diagonal=0)", "Tensor(out)", infer_meta=("TriuInferMeta", None),
    backward="triu_grad", jvp="linear", inplace=(("x", "out"),)
)
def triu(x: TensorLike, diagonal: int = 0) -> Tensor:
    """x with 0 below the diagonal: out[..., i, j] = x[..., i, j] where j - i >= diagonal.

    Args:
        x: tensor.
        diagonal: int.
    """
    return bind(_triu, (x,), (diagonal,))

def triu_(x: TensorLike, diagonal: int = 0) -> Tensor:
    """:func:`triu` in the memory of x, not to be used after it."""
    return bind_in_place(_triu, (x,), (diagonal,))

_triu_grad = define(
    "triu_grad", "(Tensor out_grad, int diagonal)", "Tensor(x_grad)",
    invoke="triu(out_grad, diagonal)", forward="triu"
)
def triu_grad(out_grad, diagonal):
    """Backward of :func:`triu`."""
    return bind(_triu_grad, (out_grad,), (diagonal,))

_tril_indices = define(
    "tril_indices",
    "(int rows, int cols, int offset=0, DataType dtype=DataType::INT64, Place place={})",
    "Tensor(out)", traits=("nondifferentiable",)
)
def tril_indices(
    rows: int, cols: int, offset: int = 0, dtype: DTypeLike = "int64",
    place: PlaceLike | None = None
) -> Tensor:
    """Rows and columns, [2, n], of the places of a rows x cols matrix where column - row <= offset.

    Args:
        rows, cols, offset: int.
        dtype: dtype.
        place: place; None is the default place.
    """
    return bind(_tril_indices, (), (rows, cols, offset, dtype, place))

_triu_indices = define(
    "triu_indices",
    "(int row, int col, int offset=0, DataType dtype=DataType::INT64, Place place={})",
    "Tensor(out)", traits=("nondifferentiable",)
)
def triu_indices(
    row: int, col: int, offset: int = 0, dtype: DTypeLike = "int64", place: PlaceLike | None = None
) -> Tensor:
    """Rows and columns, [2, n], of the places of a row x col matrix where column - row >= offset.

    Args:
        row, col, offset: int.
        dtype: dtype.
        place: place; None is the default place.
    """
    return bind(_triu_indices, (), (row, col, offset, dtype, place))

_ones = define(
    "ones", "(IntArray shape, DataType dtype=DataType::FLOAT32, Place place=CPUPlace())",
    "Tensor(out)", traits=("nondifferentiable",)
)
def ones(shape: IntArrayLike, dtype: DTypeLike = float, place: PlaceLike | None = None) -> Tensor:
    """A tensor of that shape, every element 1; dtype None is the default float.

    Args:
        shape: ints, a tensor of ints, or a list that mixes ints and 0-d tensors.
        dtype: dtype.
        place: place; None is the default place.
    """
    return bind(_ones, (), (shape, dtype, place))

_zeros = define(
    "zeros", "(IntArray shape, DataType dtype=DataType::FLOAT32, Place place=CPUPlace())",
    "Tensor(out)", traits=("nondifferentiable",)
)
def zeros(shape: IntArrayLike, dtype: DTypeLike = float, place: PlaceLike | None = None) -> Tensor:
    """A tensor of that shape, every element 0; dtype None is the default float.

    Args:
        shape: ints, a tensor of ints, or a list that mixes ints and 0-d tensors.
        dtype: dtype.
        place: place; None is the default place.
    """
    return bind(_zeros, (), (shape, dtype, place))

_ones_like = define(
    "ones_like", "(Tensor x, DataType dtype=DataType::UNDEFINED, Place place={})", "Tensor(out)",
    traits=("nondifferentiable",), invoke="full_like(x, 1, dtype, place)"
)
def ones_like(
    x: TensorLike, dtype: DTypeLike | None = None, place: PlaceLike | None = None
) -> Tensor:
    """A tensor of the shape of x, and of its dtype if none is given, every element 1.

    Args:
        x: tensor.
        dtype: dtype, may be None.
        place: place; None is the default place.
    """
    return bind(_ones_like, (x,), (dtype, place))

_zeros_like = define(
    "zeros_like", "(Tensor x, DataType dtype=DataType::UNDEFINED, Place place={})", "Tensor(out)",
    traits=("nondifferentiable",), invoke="full_like(x, 0, dtype, place)"
)
def zeros_like(
    x: TensorLike, dtype: DTypeLike | None = None, place: PlaceLike | None = None
) -> Tensor:
    """A tensor of the shape of x, and of its dtype if none is given, every element 0.

    Args:
        x: tensor.
        dtype: dtype, may be None.
        place: place; None is the default place.
    """
    return bind(_zeros_like, (x,), (dtype, place))

_logspace = define(
    "logspace",
    "(Tensor start, Tensor stop, int64_t num, Tensor base, DataType dtype, Place place={})",
    "Tensor(out)", infer_meta=("LogspaceInferMeta", None), traits=("promote_float",),
    dtypes=("float",)
)
def logspace(
    start: TensorLike, stop: TensorLike, num: DimLike, base: TensorLike, dtype: DTypeLike,
    place: PlaceLike | None = None
) -> Tensor:
    """base to num exponents evenly spaced from start to stop, both included; rounded down to an int
    dtype, and dtype None is that of start, stop and base.

    Args:
        start, stop: tensor, float.
        num: int.
        base: tensor, float.
        dtype: dtype.
        place: place; None is the default place.
    """
    return bind(_logspace, (start, stop, base), (num, dtype, place))

_range_v2 = define(
    "range_v2", "(Scalar start, Scalar end, Scalar step, DataType dtype, Place place={})",
    "Tensor(out)", traits=("nondifferentiable",), invoke="arange(start, end, step, dtype, place)"
)
def range_v2(
    start: ScalarLike, end: ScalarLike, step: ScalarLike, dtype: DTypeLike,
    place: PlaceLike | None = None
) -> Tensor:
    """:func:`arange`: start, start + step, ... as long as they lie before end.

    Args:
        start, end, step: number or one-element tensor.
        dtype: dtype.
        place: place; None is the default place.
    """
    return bind(_range_v2, (), (start, end, step, dtype, place))

_full_with_tensor = define(
    "full_with_tensor", "(Tensor value, IntArray shape, DataType dtype=DataType::FLOAT32)",
    "Tensor(out)", dtypes=("bool", "int", "float", "complex")
)
def full_with_tensor(value: TensorLike, shape: IntArrayLike, dtype: DTypeLike = float) -> Tensor:
    """A tensor of that shape, every element equal to the one element of value, in dtype.

    Args:
        value: tensor, bool, int, float or complex.
        shape: ints, a tensor of ints, or a list that mixes ints and 0-d tensors.
        dtype: dtype.
    """
    return bind(_full_with_tensor, (value,), (shape, dtype))

_full_int_array = define(
    "full_int_array", "(int64_t[] value, DataType dtype=DataType::FLOAT32, Place place=CPUPlace())",
    "Tensor(out)", traits=("nondifferentiable",)
)
def full_int_array(
    value: IntArrayLike, dtype: DTypeLike = float, place: PlaceLike | None = None
) -> Tensor:
    """The ints of value as a tensor of one axis, in dtype.

    Args:
        value: sequence of ints.
        dtype: dtype.
        place: place; None is the default place.
    """
    return bind(_full_int_array, (), (value, dtype, place))

_full_batch_size_like = define(
    "full_batch_size_like",
    "(Tensor input, int[] shape, DataType dtype, Scalar(double) value, int input_dim_idx, "
    "int output_dim_idx, Place place=CPUPlace())", "Tensor(out)", traits=("nondifferentiable",)
)
def full_batch_size_like(
    input: TensorLike, shape: IntArrayLike, dtype: DTypeLike, value: ScalarLike, input_dim_idx: int,
    output_dim_idx: int, place: PlaceLike | None = None
) -> Tensor:
    """A tensor of that shape, but for dim output_dim_idx, which is dim input_dim_idx of input;
    every element equal to value.

    Args:
        input: tensor.
        shape: sequence of ints.
        dtype: dtype.
        value: number or one-element tensor.
        input_dim_idx, output_dim_idx: int.
        place: place; None is the default place.
    """
    return bind(
        _full_batch_size_like, (input,), (shape, dtype, value, input_dim_idx, output_dim_idx, place)
    )


# -- yaml/decoding.yaml ----------------------------------------------------------------------------
define = definer("yaml/decoding.yaml", family="attention")

_masked_multihead_attention_ = define(
    "masked_multihead_attention_",
    "(Tensor x, Tensor cache_kv, Tensor bias, Tensor src_mask, Tensor cum_offsets, "
    "Tensor sequence_lengths, Tensor rotary_tensor, Tensor beam_cache_offset, "
    "Tensor qkv_out_scale, Tensor out_shift, Tensor out_smooth, int seq_len, int rotary_emb_dims, "
    'bool use_neox_rotary_style=false, str compute_dtype = "default", float out_scale=-1, '
    "int quant_round_type=1, float quant_max_bound=127.0, float quant_min_bound=-127.0)",
    "Tensor(out), Tensor(cache_kv_out), Tensor(beam_cache_offset_out)",
    traits=("promote_float(x, cache_kv)",), dtypes=("float",), optional=("bias", "src_mask",
    "cum_offsets", "sequence_lengths", "rotary_tensor", "beam_cache_offset", "qkv_out_scale",
    "out_shift", "out_smooth"), inplace=(("cache_kv", "cache_kv_out"),)
)
def masked_multihead_attention_(
    x: TensorLike, cache_kv: TensorLike, bias: TensorLike | None, src_mask: TensorLike | None,
    cum_offsets: TensorLike | None, sequence_lengths: TensorLike | None,
    rotary_tensor: TensorLike | None, beam_cache_offset: TensorLike | None,
    qkv_out_scale: TensorLike | None, out_shift: TensorLike | None, out_smooth: TensorLike | None,
    seq_len: int, rotary_emb_dims: int, use_neox_rotary_style: bool = False,
    compute_dtype: str = "default", out_scale: FloatLike = -1.0, quant_round_type: int = 1,
    quant_max_bound: FloatLike = 127.0, quant_min_bound: FloatLike = -127.0
) -> tuple[Tensor, Tensor, Tensor]:
    """x + bias [batch, (heads + 2 * heads of keys) * size] are the query, key and value of one new
    token a sequence. Key and value are put into cache_kv [2, batch, heads of keys, length, size] at
    sequence_lengths, or behind the last but one token of src_mask [batch, 1, 1, tokens]; the query
    sees all keys up to there, src_mask added to its scores. Rotations, beams and quantisation are
    not there: what is about them must be absent, and beam_cache_offset_out is empty.

    Args:
        x, cache_kv: tensor, float.
        bias, src_mask, cum_offsets, sequence_lengths, rotary_tensor, beam_cache_offset,
            qkv_out_scale, out_shift, out_smooth: tensor, may be None.
        seq_len, rotary_emb_dims: int.
        use_neox_rotary_style: bool.
        compute_dtype: str.
        out_scale: float or one-element tensor.
        quant_round_type: int.
        quant_max_bound, quant_min_bound: float or one-element tensor.

    Returns:
        out, cache_kv_out, beam_cache_offset_out.
    """
    return bind_in_place(
        _masked_multihead_attention_, (x, cache_kv, bias, src_mask, cum_offsets, sequence_lengths,
        rotary_tensor, beam_cache_offset, qkv_out_scale, out_shift, out_smooth), (seq_len,
        rotary_emb_dims, use_neox_rotary_style, compute_dtype, out_scale, quant_round_type,
        quant_max_bound, quant_min_bound)
    )


# -- yaml/detection.yaml ---------------------------------------------------------------------------
define = definer("yaml/detection.yaml", family="detection")

_box_coder = define(
    "box_coder", "(Tensor prior_box, Tensor prior_box_var, Tensor target_box, "
    'str code_type = "encode_center_size", bool box_normalized = true, int axis = 0, '
    "float[] variance = {})", "Tensor(output_box)", traits=("promote_float",), dtypes=("float",),
    optional=("prior_box_var",)
)
def box_coder(
    prior_box: TensorLike, prior_box_var: TensorLike | None, target_box: TensorLike,
    code_type: str = "encode_center_size", box_normalized: bool = True, axis: int = 0,
    variance: FloatLike | Sequence[FloatLike] | None = ()
) -> Tensor:
    """Boxes (left, top, right, bottom) against priors. encode_center_size: for each of target_box
    [n, 4] and each prior, (centre - centre of the prior) / its size and log(size / its size), over
    the variances, [n, priors, 4]. decode_center_size is the inverse for codes [n, priors, 4] (axis
    0; [priors, n, 4] for axis 1). Without box_normalized the last pixel belongs to a box.

    Args:
        prior_box: tensor, float.
        prior_box_var: tensor, float, may be None.
        target_box: tensor, float.
        code_type: str.
        box_normalized: bool.
        axis: int.
        variance: sequence of float or one-element tensors, may be None.
    """
    return bind(
        _box_coder, (prior_box, prior_box_var, target_box),
        (code_type, box_normalized, axis, variance)
    )

_box_clip = define(
    "box_clip", "(Tensor input, Tensor im_info)", "Tensor(output)", traits=("promote_float",),
    dtypes=("float",)
)
def box_clip(input: TensorLike, im_info: TensorLike) -> Tensor:
    """Boxes [boxes, 4] of one image, or [images, boxes, 4], moved into the image: x to 0 ..
    round(width / scale) - 1, y likewise; im_info [images, 3] has height, width and scale.

    Args:
        input, im_info: tensor, float.
    """
    return bind(_box_clip, (input, im_info), ())

_prior_box = define(
    "prior_box", "(Tensor input, Tensor image, float[] min_sizes, float[] max_sizes = {}, "
    "float[] aspect_ratios = {}, float[] variances = {}, bool flip=true, bool clip=true, "
    "float step_w=0.0, float step_h=0.0, float offset=0.5, bool min_max_aspect_ratios_order=false)",
    "Tensor(out), Tensor(var)", traits=("nondifferentiable", "promote_float"), dtypes=("float",)
)
def prior_box(
    input: TensorLike, image: TensorLike, min_sizes: FloatLike | Sequence[FloatLike],
    max_sizes: FloatLike | Sequence[FloatLike] | None = (),
    aspect_ratios: FloatLike | Sequence[FloatLike] | None = (),
    variances: FloatLike | Sequence[FloatLike] | None = (), flip: bool = True, clip: bool = True,
    step_w: FloatLike = 0.0, step_h: FloatLike = 0.0, offset: FloatLike = 0.5,
    min_max_aspect_ratios_order: bool = False
) -> tuple[Tensor, Tensor]:
    """Boxes around the centre of each cell of input [n, c, rows, columns], in parts of the image,
    and the four variances for each: [rows, columns, priors, 4]. The sides are min_size * sqrt(r)
    and min_size / sqrt(r) for 1, the aspect_ratios r and with flip 1 / r, then sqrt(min_size *
    max_size); min_max_aspect_ratios_order puts that second. Steps of 0 are those of the image.

    Args:
        input, image: tensor, float.
        min_sizes: sequence of float or one-element tensors.
        max_sizes, aspect_ratios, variances: sequence of float or one-element tensors, may be None.
        flip, clip: bool.
        step_w, step_h, offset: float or one-element tensor.
        min_max_aspect_ratios_order: bool.

    Returns:
        out, var.
    """
    return bind(
        _prior_box, (input, image), (min_sizes, max_sizes, aspect_ratios, variances, flip, clip,
        step_w, step_h, offset, min_max_aspect_ratios_order)
    )

_yolo_box = define(
    "yolo_box",
    "(Tensor x, Tensor img_size, int[] anchors={}, int class_num = 1, float conf_thresh = 0.01, "
    "int downsample_ratio = 32, bool clip_bbox = true, float scale_x_y=1.0, bool iou_aware=false, "
    "float iou_aware_factor=0.5)", "Tensor(boxes), Tensor(scores)", traits=("promote_float(x)",),
    dtypes=("float",)
)
def yolo_box(
    x: TensorLike, img_size: TensorLike, anchors: IntArrayLike | None = (), class_num: int = 1,
    conf_thresh: FloatLike = 0.01, downsample_ratio: int = 32, clip_bbox: bool = True,
    scale_x_y: FloatLike = 1.0, iou_aware: bool = False, iou_aware_factor: FloatLike = 0.5
) -> tuple[Tensor, Tensor]:
    """Boxes [images, anchors * rows * columns, 4] and scores [.., class_num] of predictions x
    [images, anchors * (5 + class_num), rows, columns]: centres (s sigmoid(t) - (s - 1) / 2 + cell)
    / cells of the image, s = scale_x_y, sides exp(t) * anchor / (downsample_ratio * cells) of it;
    confidence * sigmoid(class). Where the confidence is below conf_thresh all is 0. iou_aware: x
    has anchors overlaps in front, and the confidence is c ** (1 - f) * sigmoid(overlap) ** f.

    Args:
        x: tensor, float.
        img_size: tensor.
        anchors: sequence of ints, may be None.
        class_num: int.
        conf_thresh: float or one-element tensor.
        downsample_ratio: int.
        clip_bbox: bool.
        scale_x_y: float or one-element tensor.
        iou_aware: bool.
        iou_aware_factor: float or one-element tensor.

    Returns:
        boxes, scores.
    """
    return bind(
        _yolo_box, (x, img_size), (anchors, class_num, conf_thresh, downsample_ratio, clip_bbox,
        scale_x_y, iou_aware, iou_aware_factor)
    )

_yolo_box_head = define(
    "yolo_box_head", "(Tensor x, int[] anchors, int class_num)", "Tensor(out)",
    traits=("promote_float",), dtypes=("float",)
)
def yolo_box_head(x: TensorLike, anchors: IntArrayLike, class_num: int) -> Tensor:
    """Of predictions [images, anchors * (5 + class_num), rows, columns] the exponential of the
    third and fourth number of each anchor, the sigmoid of all others.

    Args:
        x: tensor, float.
        anchors: sequence of ints.
        class_num: int.
    """
    return bind(_yolo_box_head, (x,), (anchors, class_num))


# -- yaml/distributions.yaml -----------------------------------------------------------------------
define = definer("yaml/distributions.yaml", family="random")

_random_loggamma = define(
    "random_loggamma", "(Tensor key, Tensor x)", "Tensor(out)", backward="random_loggamma_grad",
    traits=("random", "promote_float(x)", "own_derivative"), dtypes=("float",)
)
def random_loggamma(key: TensorLike, x: TensorLike) -> Tensor:
    """Logarithms of gamma numbers of shape x and scale 1, which are finite for small x too. The
    derivative is that of the quantile: what lies below a number stays the same part.

    Args:
        key: tensor.
        x: tensor, float.
    """
    return bind(_random_loggamma, (key, x), ())

_random_loggamma_grad = define(
    "random_loggamma_grad", "(Tensor x, Tensor out, Tensor out_grad)", "Tensor(x_grad)",
    forward="random_loggamma"
)
def random_loggamma_grad(x, out, out_grad):
    """Backward of :func:`random_loggamma`."""
    return bind(_random_loggamma_grad, (x, out, out_grad), ())

_standard_gamma = define(
    "standard_gamma", "(Tensor key, Tensor x)", "Tensor(out)",
    traits=("random", "promote_float(x)"), dtypes=("float",)
)
def standard_gamma(key: TensorLike, x: TensorLike) -> Tensor:
    """Gamma numbers, of density t ** (x - 1) * exp(-t) / gamma(x). The derivative is that of the
    quantile: what lies below a number stays the same part.

    Args:
        key: tensor.
        x: tensor, float.
    """
    return bind(_standard_gamma, (key, x), ())

_dirichlet = define(
    "dirichlet", "(Tensor key, Tensor alpha)", "Tensor(out)",
    traits=("random", "promote_float(alpha)"), dtypes=("float",)
)
def dirichlet(key: TensorLike, alpha: TensorLike) -> Tensor:
    """Probabilities that add to 1 along the last axis, of density proportional to prod(p ** (alpha
    - 1)): gamma numbers over their sum, with their derivative.

    Args:
        key: tensor.
        alpha: tensor, float.
    """
    return bind(_dirichlet, (key, alpha), ())

_poisson = define(
    "poisson", "(Tensor key, Tensor x)", "Tensor(out)", traits=("random", "nondifferentiable")
)
def poisson(key: TensorLike, x: TensorLike) -> Tensor:
    """How many events there are where x are expected: k with probability x ** k * exp(-x) / k!, in
    the dtype of x; NaN for an x that is negative, NaN or infinite.

    Args:
        key, x: tensor.
    """
    return bind(_poisson, (key, x), ())

_binomial = define(
    "binomial", "(Tensor key, Tensor count, Tensor prob)", "Tensor(out)",
    traits=("random", "nondifferentiable")
)
def binomial(key: TensorLike, count: TensorLike, prob: TensorLike) -> Tensor:
    """How many of count trials succeed, each with probability prob: int64, in the shape that the
    two broadcast to. -1 where count is negative or not finite, or prob lies outside of [0, 1].

    Args:
        key, count, prob: tensor.
    """
    return bind(_binomial, (key, count, prob), ())

_multinomial = define(
    "multinomial", "(Tensor key, Tensor x, Scalar(int) num_samples = 1, bool replacement = false)",
    "Tensor(out)", traits=("random", "nondifferentiable", "promote_float(x)"), dtypes=("float",)
)
def multinomial(
    key: TensorLike, x: TensorLike, num_samples: ScalarLike = 1, replacement: bool = False
) -> Tensor:
    """num_samples indices along the last axis of x, a vector or a matrix of weights, each with
    probability proportional to its weight; without replacement they differ, and are those of an
    order in which the next is drawn from what is left.

    Args:
        key: tensor.
        x: tensor, float.
        num_samples: number or one-element tensor.
        replacement: bool.
    """
    return bind(_multinomial, (key, x), (num_samples, replacement))

_gumbel_softmax = define(
    "gumbel_softmax",
    "(Tensor key, Tensor x, float temperature = 1.0, bool hard = false, int axis = -1)",
    "Tensor(out)", traits=("random", "promote_float(x)"), dtypes=("float",)
)
def gumbel_softmax(
    key: TensorLike, x: TensorLike, temperature: FloatLike = 1.0, hard: bool = False, axis: int = -1
) -> Tensor:
    """softmax((x + g) / temperature) along the axis, g Gumbel numbers; hard gives 1 at its largest
    and 0 elsewhere, with the same derivative.

    Args:
        key: tensor.
        x: tensor, float.
        temperature: float or one-element tensor.
        hard: bool.
        axis: int.
    """
    return bind(_gumbel_softmax, (key, x), (temperature, hard, axis))


# -- yaml/expert_order.yaml ------------------------------------------------------------------------
define = definer("yaml/expert_order.yaml", family="experts")

_moe_dispatch = define(
    "moe_dispatch", "(Tensor X, Tensor gating_output, int moe_topk = 2, bool group_moe = false, "
    "bool topk_only_mode = false)",
    "Tensor(permute_input), Tensor(token_nums_per_expert), Tensor(permute_indices_per_token), "
    "Tensor(expert_scales_float), Tensor(top_k_indices)", traits=("promote_float(X)",),
    dtypes=("float",)
)
def moe_dispatch(
    X: TensorLike, gating_output: TensorLike, moe_topk: int = 2, group_moe: bool = False,
    topk_only_mode: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The rows X[t] of tokens once for each of the moe_topk experts with the largest softmax of
    gating_output[t] (the numbers themselves with topk_only_mode), sorted by expert.
    token_nums_per_expert are cumulative counts, permute_indices_per_token [k, tokens] the rows of
    each token, expert_scales_float [tokens, k, 1, 1] the softmaxes. group_moe: one expert of each
    of moe_topk groups, with a softmax each.

    Args:
        X: tensor, float.
        gating_output: tensor.
        moe_topk: int.
        group_moe, topk_only_mode: bool.

    Returns:
        permute_input, token_nums_per_expert, permute_indices_per_token, expert_scales_float,
        top_k_indices.
    """
    return bind(_moe_dispatch, (X, gating_output), (moe_topk, group_moe, topk_only_mode))

_moe_reduce = define(
    "moe_reduce", "(Tensor ffn_out, Tensor expert_scales_float, Tensor permute_indices_per_token, "
    "Tensor top_k_indices, Tensor ffn2_bias, bool norm_topk_prob = false, "
    "float routed_scaling_factor = 1.0)", "Tensor(output)", traits=("promote_float(ffn_out)",),
    dtypes=("float",), optional=("ffn2_bias",)
)
def moe_reduce(
    ffn_out: TensorLike, expert_scales_float: TensorLike, permute_indices_per_token: TensorLike,
    top_k_indices: TensorLike, ffn2_bias: TensorLike | None = None, norm_topk_prob: bool = False,
    routed_scaling_factor: FloatLike = 1.0
) -> Tensor:
    """For each token routed_scaling_factor * sum_k s[t, k] (ffn_out[permute_indices_per_token[k,
    t]] + ffn2_bias[top_k_indices[t, k]]), s the expert_scales_float, over their sum with
    norm_topk_prob: what experts make of the rows of :func:`moe_dispatch`.

    Args:
        ffn_out: tensor, float.
        expert_scales_float, permute_indices_per_token, top_k_indices: tensor.
        ffn2_bias: tensor, may be None.
        norm_topk_prob: bool.
        routed_scaling_factor: float or one-element tensor.
    """
    return bind(
        _moe_reduce,
        (ffn_out, expert_scales_float, permute_indices_per_token, top_k_indices, ffn2_bias),
        (norm_topk_prob, routed_scaling_factor)
    )

_assign_pos = define(
    "assign_pos", "(Tensor x, Tensor cum_count, Tensor eff_num_len)", "Tensor(out)",
    traits=("promote(x)", "nondifferentiable", "data_dependent"), dtypes=("int32", "int64")
)
def assign_pos(x: TensorLike, cum_count: TensorLike, eff_num_len: TensorLike) -> Tensor:
    """The flat places in x of the numbers of experts, sorted by expert, those of one expert in
    order: the places of e end in front of cum_count[e]. There are eff_num_len of them. What is no
    expert's number, such as -1, has no place; a place for which there is none is -1.

    Args:
        x: tensor, int32 or int64.
        cum_count, eff_num_len: tensor.
    """
    return bind(_assign_pos, (x, cum_count, eff_num_len), ())

_moe_ffn = define(
    "moe_ffn",
    "(Tensor permute_input, Tensor token_nums_per_expert, Tensor ffn1_weight, Tensor ffn2_weight, "
    "Tensor ffn1_bias, Tensor ffn1_scale, Tensor ffn2_scale, str quant_method)", "Tensor(ffn_out)",
    traits=("promote_float(permute_input, ffn1_weight, ffn2_weight, ffn1_bias)",),
    dtypes=("float",), optional=("ffn1_bias", "ffn1_scale", "ffn2_scale")
)
def moe_ffn(
    permute_input: TensorLike, token_nums_per_expert: TensorLike, ffn1_weight: TensorLike,
    ffn2_weight: TensorLike, ffn1_bias: TensorLike | None, ffn1_scale: TensorLike | None,
    ffn2_scale: TensorLike | None, quant_method: str
) -> Tensor:
    """(silu(g) v) ffn2_weight[e] of each row of permute_input [rows, size], with g and v the halves
    of row ffn1_weight[e] + ffn1_bias[e], for rows sorted by expert e: token_nums_per_expert
    [experts], cumulative counts, are the ends of the experts' rows, as :func:`moe_dispatch` gives
    them; rows behind the last are 0. quant_method is None, a str: scales must be absent. Every
    expert sees all rows, so the work is rows times experts.

    Args:
        permute_input: tensor, float.
        token_nums_per_expert: tensor.
        ffn1_weight, ffn2_weight: tensor, float.
        ffn1_bias: tensor, float, may be None.
        ffn1_scale, ffn2_scale: tensor, may be None.
        quant_method: str.
    """
    return bind(
        _moe_ffn, (permute_input, token_nums_per_expert, ffn1_weight, ffn2_weight, ffn1_bias,
        ffn1_scale, ffn2_scale), (quant_method,)
    )


# -- yaml/experts.yaml -----------------------------------------------------------------------------
define = definer("yaml/experts.yaml", family="experts")

_number_count = define(
    "number_count", "(Tensor numbers, int upper_range)", "Tensor(out)",
    traits=("nondifferentiable",)
)
def number_count(numbers: TensorLike, upper_range: int) -> Tensor:
    """How often 0, 1, ..., upper_range - 1 stand in numbers, as int64[upper_range]; other numbers
    do not count.

    Args:
        numbers: tensor.
        upper_range: int.
    """
    return bind(_number_count, (numbers,), (upper_range,))

_int_bincount = define(
    "int_bincount", "(Tensor x, int64_t low, int64_t high, int64_t dtype)", "Tensor(out)",
    traits=("nondifferentiable",)
)
def int_bincount(x: TensorLike, low: DimLike, high: DimLike, dtype: DimLike) -> Tensor:
    """How often low, low + 1, ..., high - 1 stand in x; other numbers do not count. dtype is PHI's
    number of that of the counts: 7 for int32, 9 for int64 (3 and 5 for int8 and int16).

    Args:
        x: tensor.
        low, high, dtype: int.
    """
    return bind(_int_bincount, (x,), (low, high, dtype))

_limit_by_capacity = define(
    "limit_by_capacity", "(Tensor expert_count, Tensor capacity, int n_worker)", "Tensor(out)",
    traits=("nondifferentiable",)
)
def limit_by_capacity(expert_count: TensorLike, capacity: TensorLike, n_worker: int) -> Tensor:
    """expert_count [n_worker * experts] cut so that the tokens of all workers for an expert are no
    more than its capacity; the first workers are served first.

    Args:
        expert_count, capacity: tensor.
        n_worker: int.
    """
    return bind(_limit_by_capacity, (expert_count, capacity), (n_worker,))

_prune_gate_by_capacity = define(
    "prune_gate_by_capacity",
    "(Tensor gate_idx, Tensor expert_count, int64_t n_expert=0, int64_t n_worker=0)",
    "Tensor(out_gate_idx)", traits=("nondifferentiable",)
)
def prune_gate_by_capacity(
    gate_idx: TensorLike, expert_count: TensorLike, n_expert: DimLike = 0, n_worker: DimLike = 0
) -> Tensor:
    """gate_idx, the expert of each token, with -1 for all but the first expert_count[e] tokens of
    each expert e; there are n_expert * n_worker of them.

    Args:
        gate_idx, expert_count: tensor.
        n_expert, n_worker: int.
    """
    return bind(_prune_gate_by_capacity, (gate_idx, expert_count), (n_expert, n_worker))

_random_routing = define(
    "random_routing", "(Tensor prob, Tensor topk_value, Tensor topk_idx)", "Tensor(out)",
    traits=("nondifferentiable", "promote_float(prob, topk_value)"), dtypes=("float",),
    inplace=(("topk_idx", "out"),)
)
def random_routing(prob: TensorLike, topk_value: TensorLike, topk_idx: TensorLike) -> Tensor:
    """topk_idx [tokens, 2], the experts of each token, with -1 for the second where twice its
    topk_value is below prob.

    Args:
        prob, topk_value: tensor, float.
        topk_idx: tensor.
    """
    return bind(_random_routing, (prob, topk_value, topk_idx), ())

def random_routing_(prob: TensorLike, topk_value: TensorLike, topk_idx: TensorLike) -> Tensor:
    """:func:`random_routing` in the memory of topk_idx, not to be used after it."""
    return bind_in_place(_random_routing, (prob, topk_value, topk_idx), ())

_batch_fc = define(
    "batch_fc", "(Tensor input, Tensor w, Tensor bias)", "Tensor(out)",
    traits=("promote_float", "low_precision"), dtypes=("float",)
)
def batch_fc(input: TensorLike, w: TensorLike, bias: TensorLike) -> Tensor:
    """input[s] @ w[s] + bias[s] for each slot s; input is [slots, rows, in], w [slots, in, out],
    bias [slots, out].

    Args:
        input, w, bias: tensor, float.
    """
    return bind(_batch_fc, (input, w, bias), ())

_moe_combine = define(
    "moe_combine", "(Tensor x, Tensor combine_weights, Tensor scatter_index)", "Tensor(y)",
    traits=("promote_float(x, combine_weights)",), dtypes=("float",)
)
def moe_combine(x: TensorLike, combine_weights: TensorLike, scatter_index: TensorLike) -> Tensor:
    """y[t] = sum_k combine_weights[t, k] x[scatter_index[t, k]]: what the k experts of each token
    give.

    Args:
        x, combine_weights: tensor, float.
        scatter_index: tensor.
    """
    return bind(_moe_combine, (x, combine_weights, scatter_index), ())

_moe_combine_auto = define(
    "moe_combine_auto", "(Tensor x, Tensor combine_weights, Tensor scatter_index)", "Tensor(y)",
    traits=("promote_float(x, combine_weights)",), dtypes=("float",),
    invoke="moe_combine(x, combine_weights, scatter_index)"
)
def moe_combine_auto(
    x: TensorLike, combine_weights: TensorLike, scatter_index: TensorLike
) -> Tensor:
    """:func:`moe_combine` by its other name.

    Args:
        x, combine_weights: tensor, float.
        scatter_index: tensor.
    """
    return bind(_moe_combine_auto, (x, combine_weights, scatter_index), ())

_moe_combine_no_weight = define(
    "moe_combine_no_weight",
    "(Tensor x, Tensor combine_weight, Tensor scatter_index, float epsilon = 1.0e-15)", "Tensor(y)",
    traits=("promote_float(x, combine_weight)",), dtypes=("float",)
)
def moe_combine_no_weight(
    x: TensorLike, combine_weight: TensorLike, scatter_index: TensorLike, epsilon: FloatLike = 1e-15
) -> Tensor:
    """y[t] = the sum of x[scatter_index[t, k]] over the k whose combine_weight[t, k] is above
    epsilon.

    Args:
        x, combine_weight: tensor, float.
        scatter_index: tensor.
        epsilon: float or one-element tensor.
    """
    return bind(_moe_combine_no_weight, (x, combine_weight, scatter_index), (epsilon,))

_moe_gate_dispatch = define(
    "moe_gate_dispatch",
    "(Tensor x, Tensor gate_logits, Tensor corr_bias, int64_t k, int64_t capacity, bool use_pad)",
    "Tensor(y), Tensor(combine_weights), Tensor(scatter_index), Tensor(expert_offset), "
    "Tensor(expert_id)", traits=("promote_float(x, gate_logits, corr_bias)",), dtypes=("float",),
    optional=("corr_bias",)
)
def moe_gate_dispatch(
    x: TensorLike, gate_logits: TensorLike, corr_bias: TensorLike | None, k: DimLike,
    capacity: DimLike, use_pad: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Each token x[t] goes to the k experts with the largest gate_logits[t] + corr_bias, as long as
    one has fewer than capacity: first choices before second ones, tokens in order. y [experts *
    capacity, size] has a token in row scatter_index[k, t], which combine_weights[t, k], the logits,
    go with; they and the index are 0 where there was no room. expert_offset is the cumulative count
    of choices of each expert, expert_id [tokens, k] the choices. use_pad must be True.

    Args:
        x, gate_logits: tensor, float.
        corr_bias: tensor, float, may be None.
        k, capacity: int.
        use_pad: bool.

    Returns:
        y, combine_weights, scatter_index, expert_offset, expert_id.
    """
    return bind(_moe_gate_dispatch, (x, gate_logits, corr_bias), (k, capacity, use_pad))

_moe_gate_dispatch_auto = define(
    "moe_gate_dispatch_auto",
    "(Tensor x, Tensor gate_logits, Tensor corr_bias, int64_t k, int64_t capacity, bool use_pad)",
    "Tensor(y), Tensor(combine_weights), Tensor(scatter_index), Tensor(expert_offset), "
    "Tensor(expert_id)", traits=("promote_float(x, gate_logits, corr_bias)",), dtypes=("float",),
    optional=("corr_bias",),
    invoke="moe_gate_dispatch(x, gate_logits, corr_bias, k, capacity, use_pad)"
)
def moe_gate_dispatch_auto(
    x: TensorLike, gate_logits: TensorLike, corr_bias: TensorLike | None, k: DimLike,
    capacity: DimLike, use_pad: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """:func:`moe_gate_dispatch` by its other name.

    Args:
        x, gate_logits: tensor, float.
        corr_bias: tensor, float, may be None.
        k, capacity: int.
        use_pad: bool.

    Returns:
        y, combine_weights, scatter_index, expert_offset, expert_id.
    """
    return bind(_moe_gate_dispatch_auto, (x, gate_logits, corr_bias), (k, capacity, use_pad))

_moe_gate_dispatch_permute = define(
    "moe_gate_dispatch_permute",
    "(Tensor x, Tensor gate_logits, Tensor corr_bias, int64_t k, int64_t capacity, "
    "int64_t world_size)",
    "Tensor(y), Tensor(combine_weights), Tensor(scatter_index), Tensor(expert_offset), "
    "Tensor(expert_id)", traits=("promote_float(x, gate_logits, corr_bias)",), dtypes=("float",),
    optional=("corr_bias",)
)
def moe_gate_dispatch_permute(
    x: TensorLike, gate_logits: TensorLike, corr_bias: TensorLike | None, k: DimLike,
    capacity: DimLike, world_size: DimLike
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """:func:`moe_gate_dispatch` with y in the order of what an exchange between world_size
    processes gives each of them, which hold experts / world_size experts: y[e, r] [capacity, size]
    has the tokens for expert e of process r, number r * experts / world_size + e of all.
    scatter_index counts rows as moe_gate_dispatch has them.

    Args:
        x, gate_logits: tensor, float.
        corr_bias: tensor, float, may be None.
        k, capacity, world_size: int.

    Returns:
        y, combine_weights, scatter_index, expert_offset, expert_id.
    """
    return bind(_moe_gate_dispatch_permute, (x, gate_logits, corr_bias), (k, capacity, world_size))

_cal_aux_loss = define(
    "cal_aux_loss",
    "(Tensor gate_prob, Tensor dispatch_mask, Tensor tokens_mask, Tensor dispatch_tokens_mask, "
    "int64_t num_experts, bool use_group, int64_t moe_k, float clip_min)",
    "Tensor(l_aux_loss), Tensor(seqlen_float), Tensor(ce)",
    traits=("promote_float(gate_prob)", "full_precision"), dtypes=("float",),
    optional=("tokens_mask", "dispatch_tokens_mask")
)
def cal_aux_loss(
    gate_prob: TensorLike, dispatch_mask: TensorLike, tokens_mask: TensorLike | None,
    dispatch_tokens_mask: TensorLike | None, num_experts: DimLike, use_group: bool, moe_k: DimLike,
    clip_min: FloatLike
) -> tuple[Tensor, Tensor, Tensor]:
    """num_experts * sum_e ce[e] * me[e], over moe_k with use_group: ce = dispatch_mask / n, me the
    sum of gate_prob [tokens, experts] over tokens / n. n, seqlen_float, is the sum of
    dispatch_tokens_mask, else that of tokens_mask, else tokens * experts / num_experts, and
    clip_min at least. With both masks of different lengths, the value is times the quotient of
    their sums. The gradient goes to gate_prob alone.

    Args:
        gate_prob: tensor, float.
        dispatch_mask: tensor.
        tokens_mask, dispatch_tokens_mask: tensor, may be None.
        num_experts: int.
        use_group: bool.
        moe_k: int.
        clip_min: float or one-element tensor.

    Returns:
        l_aux_loss, seqlen_float, ce.
    """
    return bind(
        _cal_aux_loss, (gate_prob, dispatch_mask, tokens_mask, dispatch_tokens_mask),
        (num_experts, use_group, moe_k, clip_min)
    )

_build_src_rank_and_local_expert_id = define(
    "build_src_rank_and_local_expert_id",
    "(Tensor expert_num_global_tensor, int64_t[] expert_num_global, int64_t num_local_experts)",
    "Tensor(src_rank), Tensor(local_expert_id)", traits=("nondifferentiable",)
)
def build_src_rank_and_local_expert_id(
    expert_num_global_tensor: TensorLike, expert_num_global: IntArrayLike,
    num_local_experts: DimLike
) -> tuple[Tensor, Tensor]:
    """For each of sum(expert_num_global) tokens, ordered by their expert e of all, e //
    num_local_experts and e % num_local_experts, as int32. The tensor holds the same counts as the
    list.

    Args:
        expert_num_global_tensor: tensor.
        expert_num_global: sequence of ints.
        num_local_experts: int.

    Returns:
        src_rank, local_expert_id.
    """
    return bind(
        _build_src_rank_and_local_expert_id, (expert_num_global_tensor,),
        (expert_num_global, num_local_experts)
    )

_expand_modality_expert_id = define(
    "expand_modality_expert_id",
    "(Tensor expert_id, int64_t num_expert_per_modality, int64_t group_size, "
    "int64_t modality_offset, bool is_group_expert)", "Tensor(expert_id_out)",
    traits=("nondifferentiable",)
)
def expand_modality_expert_id(
    expert_id: TensorLike, num_expert_per_modality: DimLike, group_size: DimLike,
    modality_offset: DimLike, is_group_expert: bool
) -> Tensor:
    """Numbers of the experts of one of two modalities among those of both: with is_group_expert
    choice k gets k * group_size added, then e becomes (e // n) * 2 n + e % n + modality_offset * n,
    n = num_expert_per_modality; 0 leaves that out.

    Args:
        expert_id: tensor.
        num_expert_per_modality, group_size, modality_offset: int.
        is_group_expert: bool.
    """
    return bind(
        _expand_modality_expert_id, (expert_id,),
        (num_expert_per_modality, group_size, modality_offset, is_group_expert)
    )

_moe_permute = define(
    "moe_permute",
    "(Tensor hidden_states, Tensor scale, Tensor expert_routemap_topk, Tensor expert_prob_topk, "
    "int num_experts, int[] tokens_per_expert, int padding_alignment, bool do_gather, "
    "bool using_ue8m0_scale = false, bool return_expert_indices = false, "
    "int override_buffer_size = -1)",
    "Tensor(hidden_states_unzipped), Tensor(zipped_expertwise_rowmap), "
    "Tensor(token_prob_unzipped), Tensor(scale_unzipped), Tensor(expert_indices)",
    traits=("promote_float(hidden_states)",), dtypes=("float",), optional=("scale",)
)
def moe_permute(
    hidden_states: TensorLike, scale: TensorLike | None, expert_routemap_topk: TensorLike,
    expert_prob_topk: TensorLike, num_experts: int, tokens_per_expert: IntArrayLike,
    padding_alignment: int, do_gather: bool, using_ue8m0_scale: bool = False,
    return_expert_indices: bool = False, override_buffer_size: int = -1
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """A row for each token of each expert, the experts side by side, padded with zeros to multiples
    of padding_alignment. expert_routemap_topk [tokens, k] are the experts of a token, -1 for none,
    expert_prob_topk what goes with them. zipped_expertwise_rowmap [tokens, experts] is the row of a
    token, -1 for none; an expert takes its first tokens_per_expert. Without do_gather, scale or
    return_expert_indices, what they ask for is empty; -1 stands for padding.

    Args:
        hidden_states: tensor, float.
        scale: tensor, may be None.
        expert_routemap_topk, expert_prob_topk: tensor.
        num_experts: int.
        tokens_per_expert: sequence of ints.
        padding_alignment: int.
        do_gather, using_ue8m0_scale, return_expert_indices: bool.
        override_buffer_size: int.

    Returns:
        hidden_states_unzipped, zipped_expertwise_rowmap, token_prob_unzipped, scale_unzipped,
        expert_indices.
    """
    return bind(
        _moe_permute, (hidden_states, scale, expert_routemap_topk, expert_prob_topk), (num_experts,
        tokens_per_expert, padding_alignment, do_gather, using_ue8m0_scale, return_expert_indices,
        override_buffer_size)
    )

_moe_unpermute = define(
    "moe_unpermute", "(Tensor hidden_states_unzipped, Tensor zipped_expertwise_rowmap, "
    "Tensor expert_routemap_topk, Tensor token_prob_unzipped, int total_zipped_tokens_num, "
    "int num_experts, bool use_mix_precision, bool using_weighted_combine = false)",
    "Tensor(hidden_states), Tensor(expert_prob_topk)",
    traits=("promote_float(hidden_states_unzipped)",), dtypes=("float",)
)
def moe_unpermute(
    hidden_states_unzipped: TensorLike, zipped_expertwise_rowmap: TensorLike,
    expert_routemap_topk: TensorLike, token_prob_unzipped: TensorLike, total_zipped_tokens_num: int,
    num_experts: int, use_mix_precision: bool, using_weighted_combine: bool = False
) -> tuple[Tensor, Tensor]:
    """What :func:`moe_permute` has put apart: the sum of the rows that zipped_expertwise_rowmap
    [tokens, experts] names for each token, times their token_prob_unzipped with
    using_weighted_combine, and for each choice its probability, 0 for none. use_mix_precision:
    16-bit floats are summed in float32.

    Args:
        hidden_states_unzipped: tensor, float.
        zipped_expertwise_rowmap, expert_routemap_topk, token_prob_unzipped: tensor.
        total_zipped_tokens_num, num_experts: int.
        use_mix_precision, using_weighted_combine: bool.

    Returns:
        hidden_states, expert_prob_topk.
    """
    return bind(
        _moe_unpermute, (hidden_states_unzipped, zipped_expertwise_rowmap, expert_routemap_topk,
        token_prob_unzipped),
        (total_zipped_tokens_num, num_experts, use_mix_precision, using_weighted_combine)
    )


# -- yaml/fft.yaml ---------------------------------------------------------------------------------
define = definer("yaml/fft.yaml", family="fft")

_fft_c2c = define(
    "fft_c2c", "(Tensor x, int64_t[] axes, str normalization, bool forward)", "Tensor(out)",
    infer_meta=("FFTC2CInferMeta", None), backward="fft_c2c_grad", jvp="linear",
    traits=("promote",), dtypes=("complex",)
)
def fft_c2c(x: TensorLike, axes: IntArrayLike, normalization: str, forward: bool) -> Tensor:
    """The sums out_k = sum_j x_j exp(-2 pi i j k / n) over each of the axes, n its size; with + in
    the exponent unless forward. normalization is "backward", "ortho" or "forward": where they are
    divided by their number.

    Args:
        x: tensor, complex.
        axes: sequence of ints.
        normalization: str.
        forward: bool.
    """
    return bind(_fft_c2c, (x,), (axes, normalization, forward))

_fft_c2c_grad = define(
    "fft_c2c_grad", "(Tensor out_grad, int64_t[] axes, str normalization, bool forward)",
    "Tensor(x_grad)", forward="fft_c2c"
)
def fft_c2c_grad(out_grad, axes, normalization, forward):
    """Backward of :func:`fft_c2c`."""
    return bind(_fft_c2c_grad, (out_grad,), (axes, normalization, forward))

_fft_r2c = define(
    "fft_r2c", "(Tensor x, int64_t[] axes, str normalization, bool forward, bool onesided)",
    "Tensor(out)", infer_meta=("FFTR2CInferMeta", None), backward="fft_r2c_grad", jvp="linear",
    traits=("promote_float", "full_precision"), dtypes=("float32", "float64")
)
def fft_r2c(
    x: TensorLike, axes: IntArrayLike, normalization: str, forward: bool, onesided: bool
) -> Tensor:
    """As :func:`fft_c2c`, of real x: out_k = sum_j x_j exp(-2 pi i j k / n) over each of the axes.
    onesided: along the last of them only k = 0, ..., n // 2; the others are conjugates of these.

    Args:
        x: tensor, float32 or float64.
        axes: sequence of ints.
        normalization: str.
        forward, onesided: bool.
    """
    return bind(_fft_r2c, (x,), (axes, normalization, forward, onesided))

_fft_r2c_grad = define(
    "fft_r2c_grad",
    "(Tensor x, Tensor out_grad, int64_t[] axes, str normalization, bool forward, bool onesided)",
    "Tensor(x_grad)", no_need_buffer=("x",), forward="fft_r2c"
)
def fft_r2c_grad(x, out_grad, axes, normalization, forward, onesided):
    """Backward of :func:`fft_r2c`."""
    return bind(_fft_r2c_grad, (x, out_grad), (axes, normalization, forward, onesided))

_fft_c2r = define(
    "fft_c2r",
    "(Tensor x, int64_t[] axes, str normalization, bool forward, int64_t last_dim_size=0)",
    "Tensor(out)", infer_meta=("FFTC2RInferMeta", None), backward="fft_c2r_grad", jvp="linear",
    traits=("promote",), dtypes=("complex",)
)
def fft_c2r(
    x: TensorLike, axes: IntArrayLike, normalization: str, forward: bool, last_dim_size: DimLike = 0
) -> Tensor:
    """As :func:`fft_c2c`, of what is its own conjugate when mirrored, so out is real: of the last
    of the axes x has the points k = 0, ..., n // 2 alone, where n is last_dim_size, or 2 (size - 1)
    if that is 0. The imaginary parts at k = 0 and n / 2 count for nothing.

    Args:
        x: tensor, complex.
        axes: sequence of ints.
        normalization: str.
        forward: bool.
        last_dim_size: int.
    """
    return bind(_fft_c2r, (x,), (axes, normalization, forward, last_dim_size))

_fft_c2r_grad = define(
    "fft_c2r_grad",
    "(Tensor out_grad, int64_t[] axes, str normalization, bool forward, int64_t last_dim_size)",
    "Tensor(x_grad)", forward="fft_c2r"
)
def fft_c2r_grad(out_grad, axes, normalization, forward, last_dim_size):
    """Backward of :func:`fft_c2r`."""
    return bind(_fft_c2r_grad, (out_grad,), (axes, normalization, forward, last_dim_size))


# -- yaml/filling.yaml -----------------------------------------------------------------------------
define = definer("yaml/filling.yaml", family="filling")

_assign = define(
    "assign", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    inplace=(("x", "out"),), kernel={"func": (("assign", ("dense",), ("dense",)),
    ("assign_sr", ("selected_rows",), ("selected_rows",)))}
)
def assign(x: TensorLike) -> Tensor:
    """x itself, whose value is never changed by another name of it.

    Args:
        x: tensor.
    """
    return bind(_assign, (x,), ())

def assign_(x: TensorLike) -> Tensor:
    """:func:`assign` in the memory of x, not to be used after it."""
    return bind_in_place(_assign, (x,), ())

_assign_out_ = define(
    "assign_out_", "(Tensor x, Tensor output)", "Tensor(out)", inplace=(("output", "out"),)
)
def assign_out_(x: TensorLike, output: TensorLike) -> Tensor:
    """x in place of output, which has its dims.

    Args:
        x, output: tensor.
    """
    return bind_in_place(_assign_out_, (x, output), ())

_assign_value_ = define(
    "assign_value_",
    "(Tensor output, int[] shape, DataType dtype, Scalar[] values, Place place={})", "Tensor(out)",
    inplace=(("output", "out"),)
)
def assign_value_(
    output: TensorLike, shape: IntArrayLike, dtype: DTypeLike,
    values: ScalarLike | Sequence[ScalarLike], place: PlaceLike | None = None
) -> Tensor:
    """The numbers of values in that shape and dtype, in place of output.

    Args:
        output: tensor.
        shape: sequence of ints.
        dtype: dtype.
        values: sequence of number or one-element tensors.
        place: place; None is the default place.
    """
    return bind_in_place(_assign_value_, (output,), (shape, dtype, values, place))

_full_ = define(
    "full_",
    "(Tensor output, IntArray shape, Scalar(double) value, DataType dtype=DataType::FLOAT32, "
    "Place place=CPUPlace())", "Tensor(out)", inplace=(("output", "out"),)
)
def full_(
    output: TensorLike, shape: IntArrayLike, value: ScalarLike, dtype: DTypeLike = float,
    place: PlaceLike | None = None
) -> Tensor:
    """A tensor of that shape, every element equal to value, in place of output.

    Args:
        output: tensor.
        shape: ints, a tensor of ints, or a list that mixes ints and 0-d tensors.
        value: number or one-element tensor.
        dtype: dtype.
        place: place; None is the default place.
    """
    return bind_in_place(_full_, (output,), (shape, value, dtype, place))

_fill = define(
    "fill", "(Tensor x, Scalar(double) value=0)", "Tensor(out)",
    infer_meta=("UnchangedInferMeta", None), inplace=(("x", "out"),)
)
def fill(x: TensorLike, value: ScalarLike = 0.0) -> Tensor:
    """A tensor like x with every element equal to value; the gradient of x is 0.

    Args:
        x: tensor.
        value: number or one-element tensor.
    """
    return bind(_fill, (x,), (value,))

def fill_(x: TensorLike, value: ScalarLike = 0.0) -> Tensor:
    """:func:`fill` in the memory of x, not to be used after it."""
    return bind_in_place(_fill, (x,), (value,))

_fill_diagonal = define(
    "fill_diagonal", "(Tensor x, float value=0, int offset=0, bool wrap=false)", "Tensor(out)",
    infer_meta=("FillDiagonalInferMeta", None), inplace=(("x", "out"),)
)
def fill_diagonal(
    x: TensorLike, value: FloatLike = 0.0, offset: int = 0, wrap: bool = False
) -> Tensor:
    """x with value at x[i, i + offset], or at x[i, ..., i, i + offset] of a tensor of more axes,
    which are equally long; wrap: of a tall matrix, from row n + 1 on again, as often as there are
    rows.

    Args:
        x: tensor.
        value: float or one-element tensor.
        offset: int.
        wrap: bool.
    """
    return bind(_fill_diagonal, (x,), (value, offset, wrap))

def fill_diagonal_(
    x: TensorLike, value: FloatLike = 0.0, offset: int = 0, wrap: bool = False
) -> Tensor:
    """:func:`fill_diagonal` in the memory of x, not to be used after it."""
    return bind_in_place(_fill_diagonal, (x,), (value, offset, wrap))

_fill_diagonal_tensor = define(
    "fill_diagonal_tensor", "(Tensor x, Tensor y, int64_t offset=0, int dim1=0, int dim2=1)",
    "Tensor(out)", infer_meta=("FillDiagonalTensorInferMeta", None), traits=("promote",),
    inplace=(("x", "out"),)
)
def fill_diagonal_tensor(
    x: TensorLike, y: TensorLike, offset: DimLike = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """x with y in place of diagonal(x, offset, dim1, dim2), whose dims it has.

    Args:
        x, y: tensor.
        offset, dim1, dim2: int.
    """
    return bind(_fill_diagonal_tensor, (x, y), (offset, dim1, dim2))

def fill_diagonal_tensor_(
    x: TensorLike, y: TensorLike, offset: DimLike = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """:func:`fill_diagonal_tensor` in the memory of x, not to be used after it."""
    return bind_in_place(_fill_diagonal_tensor, (x, y), (offset, dim1, dim2))

_diag = define(
    "diag", "(Tensor x, int offset=0, float padding_value=0.0)", "Tensor(out)",
    infer_meta=("DiagInferMeta", None)
)
def diag(x: TensorLike, offset: int = 0, padding_value: FloatLike = 0.0) -> Tensor:
    """Of a vector the square matrix with it on the diagonal column - row = offset and padding_value
    elsewhere; of a matrix its diagonal.

    Args:
        x: tensor.
        offset: int.
        padding_value: float or one-element tensor.
    """
    return bind(_diag, (x,), (offset, padding_value))

_diag_embed = define(
    "diag_embed", "(Tensor input, int offset=0, int dim1=-2, int dim2=-1)", "Tensor(out)",
    infer_meta=("DiagEmbedInferMeta", None)
)
def diag_embed(input: TensorLike, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Square matrices along the axes dim1 and dim2 of the result, 0 but on the diagonal that offset
    names, where the last axis of input stands.

    Args:
        input: tensor.
        offset, dim1, dim2: int.
    """
    return bind(_diag_embed, (input,), (offset, dim1, dim2))

_shard_index = define(
    "shard_index", "(Tensor input, int index_num, int nshards, int shard_id, int ignore_value=-1)",
    "Tensor(out)", infer_meta=("UnchangedInferMeta", None), traits=("nondifferentiable", "promote"),
    dtypes=("int32", "int64")
)
def shard_index(
    input: TensorLike, index_num: int, nshards: int, shard_id: int, ignore_value: int = -1
) -> Tensor:
    """Indices below index_num as indices into shard shard_id of nshards, each of ceil(index_num /
    nshards): input - shard_id * size where it is of that shard, else ignore_value.

    Args:
        input: tensor, int32 or int64.
        index_num, nshards, shard_id, ignore_value: int.
    """
    return bind(_shard_index, (input,), (index_num, nshards, shard_id, ignore_value))


# -- yaml/flash_attention.yaml ---------------------------------------------------------------------
define = definer("yaml/flash_attention.yaml", family="attention")

_flash_attn = define(
    "flash_attn", "(Tensor q, Tensor k, Tensor v, Tensor fixed_seed_offset, Tensor attn_mask, "
    "float dropout = 0.0, bool causal = false, bool return_softmax = false, bool is_test = false, "
    'str rng_name = "")', "Tensor(out), Tensor(softmax), Tensor(softmax_lse), Tensor(seed_offset)",
    traits=("promote_float(q, k, v)", "low_precision"), dtypes=("float",),
    optional=("fixed_seed_offset", "attn_mask")
)
def flash_attn(
    q: TensorLike, k: TensorLike, v: TensorLike, fixed_seed_offset: TensorLike | None = None,
    attn_mask: TensorLike | None = None, dropout: FloatLike = 0.0, causal: bool = False,
    return_softmax: bool = False, is_test: bool = False, rng_name: str = ""
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """softmax(q k^T / sqrt(size) + attn_mask) v for each head; q is [batch, queries, heads, size],
    k and v [batch, keys, heads, size], where each head of k may serve a group of heads of q.
    attn_mask broadcasts to [batch, heads, queries, keys]: numbers to add, or bools, True where a
    key is seen. causal: the last query sees all keys, each one before it a key less. A query that
    sees none gets zeros. softmax is empty unless asked for, and holds the weights before dropout;
    softmax_lse is the logsumexp of the scores, [batch, heads, queries]. fixed_seed_offset is the
    key (phix.random.key) that dropout needs, and seed_offset the key used.

    Args:
        q, k, v: tensor, float.
        fixed_seed_offset, attn_mask: tensor, may be None.
        dropout: float or one-element tensor.
        causal, return_softmax, is_test: bool.
        rng_name: str.

    Returns:
        out, softmax, softmax_lse, seed_offset.
    """
    return bind(
        _flash_attn, (q, k, v, fixed_seed_offset, attn_mask),
        (dropout, causal, return_softmax, is_test, rng_name)
    )

_flash_attn_qkvpacked = define(
    "flash_attn_qkvpacked",
    "(Tensor qkv, Tensor fixed_seed_offset, Tensor attn_mask, float dropout = 0.0, "
    'bool causal = false, bool return_softmax = false, bool is_test = false, str rng_name = "")',
    "Tensor(out), Tensor(softmax), Tensor(softmax_lse), Tensor(seed_offset)",
    traits=("promote_float(qkv)", "low_precision"), dtypes=("float",),
    optional=("fixed_seed_offset", "attn_mask")
)
def flash_attn_qkvpacked(
    qkv: TensorLike, fixed_seed_offset: TensorLike | None = None,
    attn_mask: TensorLike | None = None, dropout: FloatLike = 0.0, causal: bool = False,
    return_softmax: bool = False, is_test: bool = False, rng_name: str = ""
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """:func:`flash_attn` of one tensor, [batch, sequence, groups + 2, heads of keys, size]:
    queries, groups * heads of keys of them, then keys, then values.

    Args:
        qkv: tensor, float.
        fixed_seed_offset, attn_mask: tensor, may be None.
        dropout: float or one-element tensor.
        causal, return_softmax, is_test: bool.
        rng_name: str.

    Returns:
        out, softmax, softmax_lse, seed_offset.
    """
    return bind(
        _flash_attn_qkvpacked, (qkv, fixed_seed_offset, attn_mask),
        (dropout, causal, return_softmax, is_test, rng_name)
    )

_flash_attn_unpadded = define(
    "flash_attn_unpadded",
    "(Tensor q, Tensor k, Tensor v, Tensor cu_seqlens_q, Tensor cu_seqlens_k, "
    "Tensor fixed_seed_offset, Tensor attn_mask, int64_t max_seqlen_q, int64_t max_seqlen_k, "
    "float scale, float dropout = 0.0, bool causal = false, bool return_softmax = false, "
    'bool is_test = false, str rng_name = "")',
    "Tensor(out), Tensor(softmax), Tensor(softmax_lse), Tensor(seed_offset)",
    traits=("promote_float(q, k, v)", "low_precision"), dtypes=("float",),
    optional=("fixed_seed_offset", "attn_mask")
)
def flash_attn_unpadded(
    q: TensorLike, k: TensorLike, v: TensorLike, cu_seqlens_q: TensorLike, cu_seqlens_k: TensorLike,
    fixed_seed_offset: TensorLike | None, attn_mask: TensorLike | None, max_seqlen_q: DimLike,
    max_seqlen_k: DimLike, scale: FloatLike, dropout: FloatLike = 0.0, causal: bool = False,
    return_softmax: bool = False, is_test: bool = False, rng_name: str = ""
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """softmax(scale q k^T + attn_mask) v within each of several sequences, whose rows lie one
    behind the other: q is [rows, heads, size], and sequence s has the rows cu_seqlens_q[s] to
    cu_seqlens_q[s + 1] - 1. Rows behind the last sequence get zeros. attn_mask broadcasts to
    [sequences, heads, queries, keys]; softmax is [heads, rows, rows of keys], softmax_lse [heads,
    rows]. The longest lengths say nothing here; see :func:`flash_attn`.

    Args:
        q, k, v: tensor, float.
        cu_seqlens_q, cu_seqlens_k: tensor.
        fixed_seed_offset, attn_mask: tensor, may be None.
        max_seqlen_q, max_seqlen_k: int.
        scale, dropout: float or one-element tensor.
        causal, return_softmax, is_test: bool.
        rng_name: str.

    Returns:
        out, softmax, softmax_lse, seed_offset.
    """
    return bind(
        _flash_attn_unpadded, (q, k, v, cu_seqlens_q, cu_seqlens_k, fixed_seed_offset, attn_mask),
        (max_seqlen_q, max_seqlen_k, scale, dropout, causal, return_softmax, is_test, rng_name)
    )

_flash_attn_varlen_qkvpacked = define(
    "flash_attn_varlen_qkvpacked",
    "(Tensor qkv, Tensor cu_seqlens_q, Tensor cu_seqlens_k, Tensor fixed_seed_offset, "
    "Tensor attn_mask, int64_t max_seqlen_q, int64_t max_seqlen_k, float scale, "
    "float dropout = 0.0, bool causal = false, bool return_softmax = false, bool is_test = false, "
    'str rng_name = "", bool varlen_padded = true)',
    "Tensor(out), Tensor(softmax), Tensor(softmax_lse), Tensor(seed_offset)",
    traits=("promote_float(qkv)", "low_precision"), dtypes=("float",),
    optional=("fixed_seed_offset", "attn_mask")
)
def flash_attn_varlen_qkvpacked(
    qkv: TensorLike, cu_seqlens_q: TensorLike, cu_seqlens_k: TensorLike,
    fixed_seed_offset: TensorLike | None, attn_mask: TensorLike | None, max_seqlen_q: DimLike,
    max_seqlen_k: DimLike, scale: FloatLike, dropout: FloatLike = 0.0, causal: bool = False,
    return_softmax: bool = False, is_test: bool = False, rng_name: str = "",
    varlen_padded: bool = True
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """:func:`flash_attn_unpadded` of one tensor, [rows, groups + 2, heads of keys, size].
    varlen_padded: sequence s begins at row s * max_seqlen_q instead, and what is behind its
    cu_seqlens_q[s + 1] - cu_seqlens_q[s] rows is padding, which gets zeros.

    Args:
        qkv: tensor, float.
        cu_seqlens_q, cu_seqlens_k: tensor.
        fixed_seed_offset, attn_mask: tensor, may be None.
        max_seqlen_q, max_seqlen_k: int.
        scale, dropout: float or one-element tensor.
        causal, return_softmax, is_test: bool.
        rng_name: str.
        varlen_padded: bool.

    Returns:
        out, softmax, softmax_lse, seed_offset.
    """
    return bind(
        _flash_attn_varlen_qkvpacked,
        (qkv, cu_seqlens_q, cu_seqlens_k, fixed_seed_offset, attn_mask), (max_seqlen_q,
        max_seqlen_k, scale, dropout, causal, return_softmax, is_test, rng_name, varlen_padded)
    )


# -- yaml/fused.yaml -------------------------------------------------------------------------------
define = definer("yaml/fused.yaml", family="fused")

_fused_softmax_mask = define(
    "fused_softmax_mask", "(Tensor x, Tensor mask)", "Tensor(out)", traits=("promote_float",),
    dtypes=("float",)
)
def fused_softmax_mask(x: TensorLike, mask: TensorLike) -> Tensor:
    """softmax(x + mask) over the last axis of scores [batch, heads, queries, keys]; mask broadcasts
    to x.

    Args:
        x, mask: tensor, float.
    """
    return bind(_fused_softmax_mask, (x, mask), ())

_fused_softmax_mask_upper_triangle = define(
    "fused_softmax_mask_upper_triangle", "(Tensor X)", "Tensor(Out)", traits=("promote_float",),
    dtypes=("float",)
)
def fused_softmax_mask_upper_triangle(X: TensorLike) -> Tensor:
    """softmax over the last axis of scores [batch, heads, queries, keys] of which query i sees the
    keys up to i.

    Args:
        X: tensor, float.
    """
    return bind(_fused_softmax_mask_upper_triangle, (X,), ())

_fused_batch_norm_act = define(
    "fused_batch_norm_act",
    "(Tensor x, Tensor scale, Tensor bias, Tensor mean, Tensor variance, float momentum, "
    "float epsilon, str act_type)",
    "Tensor(out), Tensor(mean_out), Tensor(variance_out), Tensor(saved_mean), "
    "Tensor(saved_variance)", traits=("promote_float", "full_precision"), dtypes=("float",)
)
def fused_batch_norm_act(
    x: TensorLike, scale: TensorLike, bias: TensorLike, mean: TensorLike, variance: TensorLike,
    momentum: FloatLike, epsilon: FloatLike, act_type: str
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """relu of :func:`batch_norm` in training of x with channels last; act_type must be relu. PHI's
    last output, reserve_space, is scratch memory and left out.

    Args:
        x, scale, bias, mean, variance: tensor, float.
        momentum, epsilon: float or one-element tensor.
        act_type: str.

    Returns:
        out, mean_out, variance_out, saved_mean, saved_variance.
    """
    return bind(
        _fused_batch_norm_act, (x, scale, bias, mean, variance), (momentum, epsilon, act_type)
    )

_fused_bn_add_activation = define(
    "fused_bn_add_activation",
    "(Tensor x, Tensor z, Tensor scale, Tensor bias, Tensor mean, Tensor variance, "
    "float momentum, float epsilon, str act_type)",
    "Tensor(out), Tensor(mean_out), Tensor(variance_out), Tensor(saved_mean), "
    "Tensor(saved_variance)", traits=("promote_float", "full_precision"), dtypes=("float",)
)
def fused_bn_add_activation(
    x: TensorLike, z: TensorLike, scale: TensorLike, bias: TensorLike, mean: TensorLike,
    variance: TensorLike, momentum: FloatLike, epsilon: FloatLike, act_type: str
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """relu of the sum of z and :func:`batch_norm` in training of x with channels last; see
    :func:`fused_batch_norm_act`.

    Args:
        x, z, scale, bias, mean, variance: tensor, float.
        momentum, epsilon: float or one-element tensor.
        act_type: str.

    Returns:
        out, mean_out, variance_out, saved_mean, saved_variance.
    """
    return bind(
        _fused_bn_add_activation, (x, z, scale, bias, mean, variance), (momentum, epsilon, act_type)
    )

_fast_ln = define(
    "fast_ln", "(Tensor x, Tensor scale, Tensor bias, float epsilon)",
    "Tensor(y), Tensor(mean), Tensor(invvar)", traits=("promote_float", "full_precision"),
    dtypes=("float",)
)
def fast_ln(
    x: TensorLike, scale: TensorLike, bias: TensorLike, epsilon: FloatLike
) -> tuple[Tensor, Tensor, Tensor]:
    """:func:`layer_norm` over the last axis; mean and invvar, 1 / sqrt(variance + epsilon), are
    vectors, one number a row.

    Args:
        x, scale, bias: tensor, float.
        epsilon: float or one-element tensor.

    Returns:
        y, mean, invvar.
    """
    return bind(_fast_ln, (x, scale, bias), (epsilon,))

_fast_rms_norm = define(
    "fast_rms_norm", "(Tensor x, Tensor scale, float epsilon)", "Tensor(y), Tensor(invvar)",
    traits=("promote_float", "full_precision"), dtypes=("float",)
)
def fast_rms_norm(x: TensorLike, scale: TensorLike, epsilon: FloatLike) -> tuple[Tensor, Tensor]:
    """x * invvar * scale over the last axis, invvar = 1 / sqrt(mean(x ** 2) + epsilon), which is a
    vector, one number a row.

    Args:
        x, scale: tensor, float.
        epsilon: float or one-element tensor.

    Returns:
        y, invvar.
    """
    return bind(_fast_rms_norm, (x, scale), (epsilon,))

_fused_rms_norm_ext = define(
    "fused_rms_norm_ext", "(Tensor x, Tensor scale, float epsilon)", "Tensor(y), Tensor(invvar)",
    traits=("promote_float", "full_precision"), dtypes=("float",)
)
def fused_rms_norm_ext(
    x: TensorLike, scale: TensorLike, epsilon: FloatLike
) -> tuple[Tensor, Tensor]:
    """The same as :func:`fast_rms_norm`: x * invvar * scale with invvar = 1 / sqrt(mean(x ** 2) +
    epsilon).

    Args:
        x, scale: tensor, float.
        epsilon: float or one-element tensor.

    Returns:
        y, invvar.
    """
    return bind(_fused_rms_norm_ext, (x, scale), (epsilon,))

_fused_rms_norm_quant = define(
    "fused_rms_norm_quant",
    "(Tensor x, Tensor bias, Tensor residual, Tensor norm_weight, Tensor norm_bias, "
    "float epsilon, int begin_norm_axis, float quant_scale, int quant_round_type, "
    "float quant_max_bound, float quant_min_bound)", "Tensor(out), Tensor(residual_out)",
    traits=("promote_float", "full_precision"), dtypes=("float",),
    optional=("bias", "residual", "norm_weight", "norm_bias")
)
def fused_rms_norm_quant(
    x: TensorLike, bias: TensorLike | None, residual: TensorLike | None,
    norm_weight: TensorLike | None, norm_bias: TensorLike | None, epsilon: FloatLike,
    begin_norm_axis: int, quant_scale: FloatLike, quant_round_type: int, quant_max_bound: FloatLike,
    quant_min_bound: FloatLike
) -> tuple[Tensor, Tensor]:
    """:func:`rms_norm`, and with quant_scale above 0 its result y as int8: quant_max_bound *
    quant_scale * y rounded (quant_round_type 0: half to even, 1: half away from 0), within
    quant_min_bound and quant_max_bound.

    Args:
        x: tensor, float.
        bias, residual, norm_weight, norm_bias: tensor, float, may be None.
        epsilon: float or one-element tensor.
        begin_norm_axis: int.
        quant_scale: float or one-element tensor.
        quant_round_type: int.
        quant_max_bound, quant_min_bound: float or one-element tensor.

    Returns:
        out, residual_out.
    """
    return bind(
        _fused_rms_norm_quant, (x, bias, residual, norm_weight, norm_bias),
        (epsilon, begin_norm_axis, quant_scale, quant_round_type, quant_max_bound, quant_min_bound)
    )

_fused_gemm_epilogue = define(
    "fused_gemm_epilogue",
    "(Tensor x, Tensor y, Tensor bias, bool trans_x, bool trans_y, str activation)",
    "Tensor(out), Tensor(reserve_space)", traits=("promote_float", "low_precision"),
    dtypes=("float",)
)
def fused_gemm_epilogue(
    x: TensorLike, y: TensorLike, bias: TensorLike, trans_x: bool, trans_y: bool, activation: str
) -> tuple[Tensor, Tensor]:
    """activation(x @ y + bias), each factor transposed if asked for; activation is none, relu, or
    gelu with tanh. reserve_space is what the activation is taken of, and empty for none.

    Args:
        x, y, bias: tensor, float.
        trans_x, trans_y: bool.
        activation: str.

    Returns:
        out, reserve_space.
    """
    return bind(_fused_gemm_epilogue, (x, y, bias), (trans_x, trans_y, activation))

_batched_gemm = define(
    "batched_gemm",
    "(Tensor lhs, Tensor rhs, int64_t[] batch_sizes, bool trans_lhs, bool trans_rhs)",
    "Tensor(out)", traits=("promote_float", "low_precision"), dtypes=("float",)
)
def batched_gemm(
    lhs: TensorLike, rhs: TensorLike, batch_sizes: IntArrayLike, trans_lhs: bool, trans_rhs: bool
) -> Tensor:
    """The rows of lhs in groups of batch_sizes, group g times the matrix rhs[g] (its transpose with
    trans_rhs); with trans_lhs rhs has rows like lhs, and the result is [groups, ...], lhs_g^T @
    rhs_g.

    Args:
        lhs, rhs: tensor, float.
        batch_sizes: sequence of ints.
        trans_lhs, trans_rhs: bool.
    """
    return bind(_batched_gemm, (lhs, rhs), (batch_sizes, trans_lhs, trans_rhs))

_add_position_encoding = define(
    "add_position_encoding", "(Tensor x, float alpha = 1.0f, float beta = 1.0f)", "Tensor(out)",
    traits=("promote_float",), dtypes=("float",)
)
def add_position_encoding(x: TensorLike, alpha: FloatLike = 1.0, beta: FloatLike = 1.0) -> Tensor:
    """alpha x + beta w for x [batch, sequence, size]: in row j, w[k] = sin(j / 10000 ** (k / (size
    / 2 - 1))) in the first half and the cosine of the same in the second.

    Args:
        x: tensor, float.
        alpha, beta: float or one-element tensor.
    """
    return bind(_add_position_encoding, (x,), (alpha, beta))

_top_p_sampling = define(
    "top_p_sampling",
    "(Tensor x, Tensor ps, Tensor threshold, Tensor topp_seed, int seed=-1, int k=0, "
    'str mode="truncate")', "Tensor(out), Tensor(ids), Tensor(topk_scores), Tensor(topk_ids)",
    traits=("promote_float(x)", "random"), dtypes=("float",), optional=("threshold", "topp_seed")
)
def top_p_sampling(
    x: TensorLike, ps: TensorLike, threshold: TensorLike | None = None,
    topp_seed: TensorLike | None = None, seed: int = -1, k: int = 0, mode: str = "truncate"
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """For each row of scores x, one drawn in proportion to the scores from the largest that sum to
    the share ps of all; none below threshold but the largest. ids are the positions; topk_scores
    and topk_ids are the k largest. topp_seed is the key (phix.random.key); without it the seed,
    from 0 on, is one.

    Args:
        x: tensor, float.
        ps: tensor.
        threshold, topp_seed: tensor, may be None.
        seed, k: int.
        mode: str.

    Returns:
        out, ids, topk_scores, topk_ids.
    """
    return bind(_top_p_sampling, (x, ps, threshold, topp_seed), (seed, k, mode))

_sparse_attention = define(
    "sparse_attention",
    "(Tensor q, Tensor k, Tensor v, Tensor offset, Tensor columns, Tensor key_padding_mask, "
    "Tensor attn_mask)", "Tensor(out), Tensor(sparse_dot_sdd), Tensor(softmax)",
    traits=("promote_float(q, k, v)",), dtypes=("float",),
    optional=("key_padding_mask", "attn_mask")
)
def sparse_attention(
    q: TensorLike, k: TensorLike, v: TensorLike, offset: TensorLike, columns: TensorLike,
    key_padding_mask: TensorLike | None = None, attn_mask: TensorLike | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """softmax(q k^T / sqrt(size)) v for [batch, heads, sequence, size] where row i scores only the
    keys columns[offset[i]] to columns[offset[i + 1] - 1]; a key where key_padding_mask [batch,
    sequence] or attn_mask [sequence, sequence] is 0 is left out, and a row without keys gets zeros.
    sparse_dot_sdd and softmax are the scores and weights in the order of columns.

    Args:
        q, k, v: tensor, float.
        offset, columns: tensor.
        key_padding_mask, attn_mask: tensor, may be None.

    Returns:
        out, sparse_dot_sdd, softmax.
    """
    return bind(_sparse_attention, (q, k, v, offset, columns, key_padding_mask, attn_mask), ())


# -- yaml/graph_ops.yaml ---------------------------------------------------------------------------
define = definer("yaml/graph_ops.yaml", family="graph")

_send_u_recv = define(
    "send_u_recv", '(Tensor x, Tensor src_index, Tensor dst_index, str reduce_op = "SUM", '
    "IntArray out_size = {0})", "Tensor(out), Tensor(dst_count)", traits=("promote(x)",),
    dtypes=("int32", "int64", "float")
)
def send_u_recv(
    x: TensorLike, src_index: TensorLike, dst_index: TensorLike, reduce_op: str = "SUM",
    out_size: IntArrayLike = (0,)
) -> tuple[Tensor, Tensor]:
    """Row r of the result is the SUM, MEAN, MAX or MIN of the rows x[src_index[e]] of the edges e
    with dst_index[e] = r, 0 if there are none; dst_count[r] is their number. There are out_size
    rows, or as many as x has where it is 0. A number that is no row raises TensorIndexError where
    the call runs at once; compiled programs take the nearest.

    Args:
        x: tensor, int32, int64 or float.
        src_index, dst_index: tensor.
        reduce_op: str.
        out_size: ints, a tensor of ints, or a list that mixes ints and 0-d tensors.

    Returns:
        out, dst_count.
    """
    return bind(_send_u_recv, (x, src_index, dst_index), (reduce_op, out_size))

_send_ue_recv = define(
    "send_ue_recv",
    '(Tensor x, Tensor y, Tensor src_index, Tensor dst_index, str message_op="ADD", '
    'str reduce_op="SUM", IntArray out_size={0})', "Tensor(out), Tensor(dst_count)",
    traits=("promote(x, y)",), dtypes=("int32", "int64", "float")
)
def send_ue_recv(
    x: TensorLike, y: TensorLike, src_index: TensorLike, dst_index: TensorLike,
    message_op: str = "ADD", reduce_op: str = "SUM", out_size: IntArrayLike = (0,)
) -> tuple[Tensor, Tensor]:
    """As :func:`send_u_recv`, with x[src_index[e]] + y[e] (message_op ADD) or their product (MUL)
    for the edge e; the axes behind the first broadcast.

    Args:
        x, y: tensor, int32, int64 or float.
        src_index, dst_index: tensor.
        message_op, reduce_op: str.
        out_size: ints, a tensor of ints, or a list that mixes ints and 0-d tensors.

    Returns:
        out, dst_count.
    """
    return bind(_send_ue_recv, (x, y, src_index, dst_index), (message_op, reduce_op, out_size))

_send_uv = define(
    "send_uv", '(Tensor x, Tensor y, Tensor src_index, Tensor dst_index, str message_op = "ADD")',
    "Tensor(out)", traits=("promote(x, y)",), dtypes=("int32", "int64", "float")
)
def send_uv(
    x: TensorLike, y: TensorLike, src_index: TensorLike, dst_index: TensorLike,
    message_op: str = "ADD"
) -> Tensor:
    """For each edge e, x[src_index[e]] + y[dst_index[e]] (message_op ADD) or their product (MUL);
    the axes behind the first broadcast.

    Args:
        x, y: tensor, int32, int64 or float.
        src_index, dst_index: tensor.
        message_op: str.
    """
    return bind(_send_uv, (x, y, src_index, dst_index), (message_op,))

_segment_pool = define(
    "segment_pool", '(Tensor x, Tensor segment_ids, str pooltype="SUM")',
    "Tensor(out), Tensor(summed_ids)", traits=("promote(x)", "data_dependent"),
    dtypes=("int32", "int64", "float"), intermediate=("summed_ids",)
)
def segment_pool(x: TensorLike, segment_ids: TensorLike, pooltype: str = "SUM") -> Tensor:
    """Row s of the result is the SUM, MEAN, MAX or MIN of the rows of x whose segment_ids are s, 0
    if there are none; it has as many rows as the largest of segment_ids says, which need no order.
    A row with a negative number is in no segment.

    Args:
        x: tensor, int32, int64 or float.
        segment_ids: tensor.
        pooltype: str.
    """
    return bind(_segment_pool, (x, segment_ids), (pooltype,))[0]

_reindex_graph = define(
    "reindex_graph",
    "(Tensor x, Tensor neighbors, Tensor count, Tensor hashtable_value, Tensor hashtable_index)",
    "Tensor(reindex_src), Tensor(reindex_dst), Tensor(out_nodes)",
    traits=("promote(x, neighbors)", "nondifferentiable", "data_dependent"),
    dtypes=("int32", "int64"), optional=("hashtable_value", "hashtable_index")
)
def reindex_graph(
    x: TensorLike, neighbors: TensorLike, count: TensorLike,
    hashtable_value: TensorLike | None = None, hashtable_index: TensorLike | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The nodes x, then those of neighbors that are not in x, in the order in which they first
    come, get the numbers 0, 1, ...: out_nodes. reindex_src are the numbers of neighbors; the first
    count[0] of them are those of x[0] and so on, and reindex_dst has the number of that node for
    each. With count of several kinds of edges, x starts anew for each kind. The hashtables are not
    needed.

    Args:
        x, neighbors: tensor, int32 or int64.
        count: tensor.
        hashtable_value, hashtable_index: tensor, may be None.

    Returns:
        reindex_src, reindex_dst, out_nodes.
    """
    return bind(_reindex_graph, (x, neighbors, count, hashtable_value, hashtable_index), ())


# -- yaml/graph_sampling.yaml ----------------------------------------------------------------------
define = definer("yaml/graph_sampling.yaml", family="random")

_graph_sample_neighbors = define(
    "graph_sample_neighbors",
    "(Tensor key, Tensor row, Tensor colptr, Tensor x, Tensor eids, Tensor perm_buffer, "
    "int sample_size, bool return_eids, bool flag_perm_buffer)",
    "Tensor(out), Tensor(out_count), Tensor(out_eids)",
    traits=("random", "nondifferentiable", "data_dependent", "promote(row, colptr, x)"),
    dtypes=("int32", "int64"), optional=("eids", "perm_buffer", "out_eids")
)
def graph_sample_neighbors(
    key: TensorLike, row: TensorLike, colptr: TensorLike, x: TensorLike, eids: TensorLike | None,
    perm_buffer: TensorLike | None, sample_size: int, return_eids: bool, flag_perm_buffer: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """For each of the nodes x, of its neighbours row[colptr[x]], ..., row[colptr[x + 1] - 1],
    sample_size drawn without replacement, or all if there are no more or sample_size is -1, in
    their order; out_count, int32, says how many each has, and out_eids, with return_eids, are those
    of their edges. The buffer says nothing. A node that is none raises where the call runs at once;
    compiled programs take the nearest.

    Args:
        key: tensor.
        row, colptr, x: tensor, int32 or int64.
        eids, perm_buffer: tensor, may be None.
        sample_size: int.
        return_eids, flag_perm_buffer: bool.

    Returns:
        out, out_count, out_eids.
    """
    return bind(
        _graph_sample_neighbors, (key, row, colptr, x, eids, perm_buffer),
        (sample_size, return_eids, flag_perm_buffer)
    )

_weighted_sample_neighbors = define(
    "weighted_sample_neighbors",
    "(Tensor key, Tensor row, Tensor colptr, Tensor edge_weight, Tensor input_nodes, Tensor eids, "
    "int sample_size, bool return_eids)",
    "Tensor(out_neighbors), Tensor(out_count), Tensor(out_eids)",
    traits=("random", "nondifferentiable", "data_dependent", "promote(row, colptr, input_nodes)"),
    dtypes=("int32", "int64"), optional=("eids", "out_eids")
)
def weighted_sample_neighbors(
    key: TensorLike, row: TensorLike, colptr: TensorLike, edge_weight: TensorLike,
    input_nodes: TensorLike, eids: TensorLike | None, sample_size: int, return_eids: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """:func:`graph_sample_neighbors` with chances by weight: the neighbours of input_nodes with the
    largest log(u) / edge_weight, u uniform in (0, 1] for each edge.

    Args:
        key: tensor.
        row, colptr: tensor, int32 or int64.
        edge_weight: tensor.
        input_nodes: tensor, int32 or int64.
        eids: tensor, may be None.
        sample_size: int.
        return_eids: bool.

    Returns:
        out_neighbors, out_count, out_eids.
    """
    return bind(
        _weighted_sample_neighbors, (key, row, colptr, edge_weight, input_nodes, eids),
        (sample_size, return_eids)
    )

_graph_khop_sampler = define(
    "graph_khop_sampler",
    "(Tensor key, Tensor row, Tensor colptr, Tensor x, Tensor eids, int[] sample_sizes, "
    "bool return_eids)",
    "Tensor(out_src), Tensor(out_dst), Tensor(sample_index), Tensor(reindex_x), Tensor(out_eids)",
    traits=("random", "nondifferentiable", "data_dependent", "promote(row, colptr, x)"),
    dtypes=("int32", "int64"), optional=("eids", "out_eids")
)
def graph_khop_sampler(
    key: TensorLike, row: TensorLike, colptr: TensorLike, x: TensorLike, eids: TensorLike | None,
    sample_sizes: IntArrayLike, return_eids: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """:func:`graph_sample_neighbors` from x on, a step for each of sample_sizes, from the nodes
    that the step before it found for the first time, sorted. sample_index are all nodes; the edges
    found go from sample_index[out_src] to sample_index[out_dst], [edges, 1] each, out_eids are
    theirs, and x is sample_index[reindex_x].

    Args:
        key: tensor.
        row, colptr, x: tensor, int32 or int64.
        eids: tensor, may be None.
        sample_sizes: sequence of ints.
        return_eids: bool.

    Returns:
        out_src, out_dst, sample_index, reindex_x, out_eids.
    """
    return bind(_graph_khop_sampler, (key, row, colptr, x, eids), (sample_sizes, return_eids))


# -- yaml/grid_sampling.yaml -----------------------------------------------------------------------
define = definer("yaml/grid_sampling.yaml", family="grid_sampling")

_grid_sample = define(
    "grid_sample", '(Tensor x, Tensor grid, str mode="bilinear", str padding_mode="zeros", '
    "bool align_corners=true)", "Tensor(out)", traits=("promote_float",), dtypes=("float",)
)
def grid_sample(
    x: TensorLike, grid: TensorLike, mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: bool = True
) -> Tensor:
    """Images [n, c, h, w] at the places of grid [n, oh, ow, 2] (across, down), or volumes [n, c, d,
    h, w] at those of [n, od, oh, ow, 3]: -1 and 1 are the middles of the first and last element if
    align_corners, else their outer edges. bilinear between the elements around, or nearest, half to
    even. Off the image are zeros, its border, or its reflection.

    Args:
        x, grid: tensor, float.
        mode, padding_mode: str.
        align_corners: bool.
    """
    return bind(_grid_sample, (x, grid), (mode, padding_mode, align_corners))

_affine_grid = define(
    "affine_grid", "(Tensor input, IntArray output_shape={}, bool align_corners=true)",
    "Tensor(output)", traits=("promote_float",), dtypes=("float",)
)
def affine_grid(
    input: TensorLike, output_shape: IntArrayLike | None = (), align_corners: bool = True
) -> Tensor:
    """A grid for :func:`grid_sample`, input @ (x, y, 1) at each place of images of output_shape [n,
    c, h, w], or input @ (x, y, z, 1) of volumes; places run from -1 to 1, as align_corners says
    there.

    Args:
        input: tensor, float.
        output_shape: ints, a tensor of ints, or a list that mixes ints and 0-d tensors, may be
            None.
        align_corners: bool.
    """
    return bind(_affine_grid, (input,), (output_shape, align_corners))

_correlation = define(
    "correlation",
    "(Tensor input1, Tensor input2, int pad_size, int kernel_size, int max_displacement, "
    "int stride1, int stride2, int corr_type_multiply=1)", "Tensor(out)", traits=("promote_float",),
    dtypes=("float",)
)
def correlation(
    input1: TensorLike, input2: TensorLike, pad_size: int, kernel_size: int, max_displacement: int,
    stride1: int, stride2: int, corr_type_multiply: int = 1
) -> Tensor:
    """The mean product of patches of two images, padded with zeros, [n, (2 m + 1) ** 2, oh, ow]
    with m = max_displacement // stride2: of kernel_size around places stride1 apart in input1, and
    around those displaced by -m to m times stride2 in input2. corr_type_multiply says nothing here.

    Args:
        input1, input2: tensor, float.
        pad_size, kernel_size, max_displacement, stride1, stride2, corr_type_multiply: int.
    """
    return bind(
        _correlation, (input1, input2),
        (pad_size, kernel_size, max_displacement, stride1, stride2, corr_type_multiply)
    )

_deformable_conv = define(
    "deformable_conv",
    "(Tensor x, Tensor offset, Tensor filter, Tensor mask, int[] strides, int[] paddings, "
    "int[] dilations, int deformable_groups, int groups, int im2col_step)", "Tensor(out)",
    traits=("promote_float",), dtypes=("float",), optional=("mask",)
)
def deformable_conv(
    x: TensorLike, offset: TensorLike, filter: TensorLike, mask: TensorLike | None,
    strides: IntArrayLike, paddings: IntArrayLike, dilations: IntArrayLike, deformable_groups: int,
    groups: int, im2col_step: int
) -> Tensor:
    """Convolution whose taps read images [n, c, h, w] where offset [n, groups' * taps * 2, oh, ow]
    moves them (down, across), bilinear and 0 off the image, times mask [n, groups' * taps, oh, ow]
    if there is one; groups' are deformable_groups of the channels. im2col_step says nothing here.

    Args:
        x, offset, filter: tensor, float.
        mask: tensor, float, may be None.
        strides, paddings, dilations: sequence of ints.
        deformable_groups, groups, im2col_step: int.
    """
    return bind(
        _deformable_conv, (x, offset, filter, mask),
        (strides, paddings, dilations, deformable_groups, groups, im2col_step)
    )


# -- yaml/identity.yaml ----------------------------------------------------------------------------
define = definer("yaml/identity.yaml", family="identity")

_npu_identity = define("npu_identity", "(Tensor x, int format = -1)", "Tensor(out)")
def npu_identity(x: TensorLike, format: int = -1) -> Tensor:
    """x; there are no formats of storage to choose, so format says nothing here.

    Args:
        x: tensor.
        format: int.
    """
    return bind(_npu_identity, (x,), (format,))

_share_data = define("share_data", "(Tensor x)", "Tensor(out)")
def share_data(x: TensorLike) -> Tensor:
    """x, as a tensor of its own; tensors do not change, so that who shares memory is not seen.

    Args:
        x: tensor.
    """
    return bind(_share_data, (x,), ())

_sync_calc_stream = define("sync_calc_stream", "(Tensor x)", "Tensor(out)", inplace=(("x", "out"),))
def sync_calc_stream(x: TensorLike) -> Tensor:
    """x; results are waited for where they are read, so there is nothing to wait for.

    Args:
        x: tensor.
    """
    return bind(_sync_calc_stream, (x,), ())

def sync_calc_stream_(x: TensorLike) -> Tensor:
    """:func:`sync_calc_stream` in the memory of x, not to be used after it."""
    return bind_in_place(_sync_calc_stream, (x,), ())

_c_identity = define(
    "c_identity", "(Tensor x, int ring_id, bool use_calc_stream, bool use_model_parallel)",
    "Tensor(out)", inplace=(("x", "out"),)
)
def c_identity(
    x: TensorLike, ring_id: int, use_calc_stream: bool, use_model_parallel: bool
) -> Tensor:
    """x, as on each process of a ring; gradients are summed over the processes where x is the same
    on them anyway.

    Args:
        x: tensor.
        ring_id: int.
        use_calc_stream, use_model_parallel: bool.
    """
    return bind(_c_identity, (x,), (ring_id, use_calc_stream, use_model_parallel))

def c_identity_(
    x: TensorLike, ring_id: int, use_calc_stream: bool, use_model_parallel: bool
) -> Tensor:
    """:func:`c_identity` in the memory of x, not to be used after it."""
    return bind_in_place(_c_identity, (x,), (ring_id, use_calc_stream, use_model_parallel))

_depend = define("depend", "(Tensor x, Tensor[] dep)", "Tensor(out)")
def depend(x: TensorLike, dep: Sequence[TensorLike]) -> Tensor:
    """x, made once all of dep are there.

    Args:
        x: tensor.
        dep: sequence of tensors.
    """
    return bind(_depend, (x, dep), ())

_trans_layout = define("trans_layout", "(Tensor x, int[] perm)", "Tensor(out)")
def trans_layout(x: TensorLike, perm: IntArrayLike) -> Tensor:
    """x with its axes in the order perm; the same as :func:`transpose`.

    Args:
        x: tensor.
        perm: sequence of ints.
    """
    return bind(_trans_layout, (x,), (perm,))


# -- yaml/images.yaml ------------------------------------------------------------------------------
define = definer("yaml/images.yaml", family="images")

_pixel_shuffle = define(
    "pixel_shuffle", '(Tensor x, int upscale_factor=1, str data_format="NCHW")', "Tensor(out)"
)
def pixel_shuffle(x: TensorLike, upscale_factor: int = 1, data_format: str = "NCHW") -> Tensor:
    """Images upscale_factor r times as large of r * r times as many channels: out[c, h * r + i, w *
    r + j] = x[c * r * r + i * r + j, h, w].

    Args:
        x: tensor.
        upscale_factor: int.
        data_format: str.
    """
    return bind(_pixel_shuffle, (x,), (upscale_factor, data_format))

_pixel_unshuffle = define(
    "pixel_unshuffle", '(Tensor x, int downscale_factor=1, str data_format="NCHW")', "Tensor(out)"
)
def pixel_unshuffle(x: TensorLike, downscale_factor: int = 1, data_format: str = "NCHW") -> Tensor:
    """The inverse of :func:`pixel_shuffle`: out[c * r * r + i * r + j, h, w] = x[c, h * r + i, w *
    r + j] for the downscale_factor r.

    Args:
        x: tensor.
        downscale_factor: int.
        data_format: str.
    """
    return bind(_pixel_unshuffle, (x,), (downscale_factor, data_format))

_channel_shuffle = define(
    "channel_shuffle", '(Tensor x, int groups, str data_format="NCHW")', "Tensor(out)"
)
def channel_shuffle(x: TensorLike, groups: int, data_format: str = "NCHW") -> Tensor:
    """Images with the channels of all groups in turn: those of [groups, channels / groups]
    transposed.

    Args:
        x: tensor.
        groups: int.
        data_format: str.
    """
    return bind(_channel_shuffle, (x,), (groups, data_format))

_shuffle_channel = define("shuffle_channel", "(Tensor x, int group=1)", "Tensor(out)")
def shuffle_channel(x: TensorLike, group: int = 1) -> Tensor:
    """:func:`channel_shuffle` of images [n, c, h, w].

    Args:
        x: tensor.
        group: int.
    """
    return bind(_shuffle_channel, (x,), (group,))

_temporal_shift = define(
    "temporal_shift", '(Tensor x, int seg_num, float shift_ratio=0.25, str data_format="NCHW")',
    "Tensor(out)"
)
def temporal_shift(
    x: TensorLike, seg_num: int, shift_ratio: FloatLike = 0.25, data_format: str = "NCHW"
) -> Tensor:
    """Runs of seg_num images, of each of which the first channels * shift_ratio channels come from
    the image before, as many from the image behind, the rest from itself; zeros where there is
    none.

    Args:
        x: tensor.
        seg_num: int.
        shift_ratio: float or one-element tensor.
        data_format: str.
    """
    return bind(_temporal_shift, (x,), (seg_num, shift_ratio, data_format))

_affine_channel = define(
    "affine_channel", '(Tensor x, Tensor scale, Tensor bias, str data_layout="AnyLayout")',
    "Tensor(out)", traits=("promote_float",), dtypes=("float",), inplace=(("x", "out"),)
)
def affine_channel(
    x: TensorLike, scale: TensorLike, bias: TensorLike, data_layout: str = "AnyLayout"
) -> Tensor:
    """x * scale + bias with one number of each a channel: axis 1, or the last if data_layout is
    NHWC.

    Args:
        x, scale, bias: tensor, float.
        data_layout: str.
    """
    return bind(_affine_channel, (x, scale, bias), (data_layout,))

def affine_channel_(
    x: TensorLike, scale: TensorLike, bias: TensorLike, data_layout: str = "AnyLayout"
) -> Tensor:
    """:func:`affine_channel` in the memory of x, not to be used after it."""
    return bind_in_place(_affine_channel, (x, scale, bias), (data_layout,))


# -- yaml/indexing.yaml ----------------------------------------------------------------------------
define = definer("yaml/indexing.yaml", family="indexing")

_gather = define(
    "gather", "(Tensor x, Tensor index, Scalar(int) axis=0)", "Tensor(out)",
    infer_meta=("GatherInferMeta", None), backward="gather_grad", jvp="linear", traits=("stores",)
)
def gather(x: TensorLike, index: TensorLike, axis: ScalarLike = 0) -> Tensor:
    """The slices of x at index along axis: out[..., i, ...] = x[..., index[i], ...]. The axes of
    index, of any number, stand in place of axis. A negative index counts from the end. An index out
    of range raises TensorIndexError where the call runs at once; compiled programs take the nearest
    inside, or raise under phix.debug.check_indices().

    Args:
        x, index: tensor.
        axis: number or one-element tensor.
    """
    return bind(_gather, (x, index), (axis,))

_gather_grad = define(
    "gather_grad", "(Tensor x, Tensor index, Tensor out_grad, Scalar(int) axis=0)",
    "Tensor(x_grad)", no_need_buffer=("x",), forward="gather"
)
def gather_grad(x, index, out_grad, axis=0):
    """Backward of :func:`gather`."""
    return bind(_gather_grad, (x, index, out_grad), (axis,))

_gather_nd = define(
    "gather_nd", "(Tensor x, Tensor index)", "Tensor(out)", infer_meta=("GatherNdInferMeta", None),
    backward="gather_nd_grad", jvp="linear", traits=("stores",)
)
def gather_nd(x: TensorLike, index: TensorLike) -> Tensor:
    """out[i] = x[index[i, 0], index[i, 1], ...]: the last axis of index names the first axes of x.
    An index out of range raises TensorIndexError where the call runs at once; compiled programs
    take the nearest inside, or raise under phix.debug.check_indices().

    Args:
        x, index: tensor.
    """
    return bind(_gather_nd, (x, index), ())

_gather_nd_grad = define(
    "gather_nd_grad", "(Tensor x, Tensor index, Tensor out_grad)", "Tensor(x_grad)",
    no_need_buffer=("x",), forward="gather_nd"
)
def gather_nd_grad(x, index, out_grad):
    """Backward of :func:`gather_nd`."""
    return bind(_gather_nd_grad, (x, index, out_grad), ())

_scatter_nd_add = define(
    "scatter_nd_add", '(Tensor x, Tensor index, Tensor updates, str mode="raise")', "Tensor(out)",
    infer_meta=("ScatterNdAddInferMeta", None), backward="scatter_nd_add_grad", jvp="linear",
    traits=("promote(x, updates)",)
)
def scatter_nd_add(
    x: TensorLike, index: TensorLike, updates: TensorLike, mode: str = "raise"
) -> Tensor:
    """x with updates[i] added to x[index[i, 0], index[i, 1], ...]; where an index comes again, all
    are added. Where an index is out of range, nothing is written with mode drop, and at the nearest
    inside with clip; with raise calls that run at once raise TensorIndexError, and compiled
    programs write nothing, or raise under phix.debug.check_indices().

    Args:
        x, index, updates: tensor.
        mode: str.
    """
    return bind(_scatter_nd_add, (x, index, updates), (mode,))

_scatter_nd_add_grad = define(
    "scatter_nd_add_grad", '(Tensor index, Tensor updates, Tensor out_grad, str mode="raise")',
    "Tensor(x_grad), Tensor(updates_grad)", no_need_buffer=("updates",), forward="scatter_nd_add"
)
def scatter_nd_add_grad(index, updates, out_grad, mode="raise"):
    """Backward of :func:`scatter_nd_add`."""
    return bind(_scatter_nd_add_grad, (index, updates, out_grad), (mode,))

_scatter = define(
    "scatter", "(Tensor x, Tensor index, Tensor updates, bool overwrite=true)", "Tensor(out)",
    infer_meta=("ScatterInferMeta", None), traits=("promote(x, updates)",), inplace=(("x", "out"),)
)
def scatter(
    x: TensorLike, index: TensorLike, updates: TensorLike, overwrite: bool = True
) -> Tensor:
    """x with row index[i], of a vector or a column, replaced by updates[i]: by the last of them
    where an index comes again, or by their sum if not overwrite. An index out of range raises
    TensorIndexError where the call runs at once; compiled programs write nothing there, or raise
    under phix.debug.check_indices().

    Args:
        x, index, updates: tensor.
        overwrite: bool.
    """
    return bind(_scatter, (x, index, updates), (overwrite,))

def scatter_(
    x: TensorLike, index: TensorLike, updates: TensorLike, overwrite: bool = True
) -> Tensor:
    """:func:`scatter` in the memory of x, not to be used after it."""
    return bind_in_place(_scatter, (x, index, updates), (overwrite,))

_take_along_axis = define(
    "take_along_axis", "(Tensor arr, Tensor indices, int axis)", "Tensor(out)",
    infer_meta=("TakeAlongAxisInferMeta", None), backward="take_along_axis_grad", jvp="linear",
    traits=("stores",)
)
def take_along_axis(arr: TensorLike, indices: TensorLike, axis: int) -> Tensor:
    """out[..., i, ...] = arr[..., indices[..., i, ...], ...] along axis; the other dims broadcast.
    An index out of range raises TensorIndexError where the call runs at once; compiled programs
    take the nearest inside, or raise under phix.debug.check_indices().

    Args:
        arr, indices: tensor.
        axis: int.
    """
    return bind(_take_along_axis, (arr, indices), (axis,))

_take_along_axis_grad = define(
    "take_along_axis_grad", "(Tensor arr, Tensor indices, Tensor out_grad, int axis)",
    "Tensor(arr_grad)", no_need_buffer=("arr",), forward="take_along_axis"
)
def take_along_axis_grad(arr, indices, out_grad, axis):
    """Backward of :func:`take_along_axis`."""
    return bind(_take_along_axis_grad, (arr, indices, out_grad), (axis,))

_put_along_axis = define(
    "put_along_axis", '(Tensor arr, Tensor indices, Tensor values, int axis, str reduce="assign", '
    'bool include_self=true, str mode="raise")', "Tensor(out)",
    infer_meta=("PutAlongAxisInferMeta", None), backward="put_along_axis_grad",
    traits=("promote(arr, values)", "stores"), inplace=(("arr", "out"),)
)
def put_along_axis(
    arr: TensorLike, indices: TensorLike, values: TensorLike, axis: int, reduce: str = "assign",
    include_self: bool = True, mode: str = "raise"
) -> Tensor:
    """arr with values[..., i, ...] put at [..., indices[..., i, ...], ...] along axis, in as many
    first rows of the other axes as indices has: in its place (assign), or combined with what is
    there (add, mul, amax, amin, mean), which is left out without include_self. Where an index is
    out of range, nothing is written with mode drop, and at the nearest inside with clip; with raise
    calls that run at once raise TensorIndexError, and compiled programs write nothing, or raise
    under phix.debug.check_indices().

    Args:
        arr, indices, values: tensor.
        axis: int.
        reduce: str.
        include_self: bool.
        mode: str.
    """
    return bind(_put_along_axis, (arr, indices, values), (axis, reduce, include_self, mode))

def put_along_axis_(
    arr: TensorLike, indices: TensorLike, values: TensorLike, axis: int, reduce: str = "assign",
    include_self: bool = True, mode: str = "raise"
) -> Tensor:
    """:func:`put_along_axis` in the memory of arr, not to be used after it."""
    return bind_in_place(
        _put_along_axis, (arr, indices, values), (axis, reduce, include_self, mode)
    )

_put_along_axis_grad = define(
    "put_along_axis_grad",
    "(Tensor arr, Tensor indices, Tensor values, Tensor out, Tensor out_grad, int axis, "
    "str reduce, bool include_self, str mode)", "Tensor(arr_grad), Tensor(values_grad)",
    forward="put_along_axis"
)
def put_along_axis_grad(arr, indices, values, out, out_grad, axis, reduce, include_self, mode):
    """Backward of :func:`put_along_axis`."""
    return bind(
        _put_along_axis_grad, (arr, indices, values, out, out_grad),
        (axis, reduce, include_self, mode)
    )

_index_put = define(
    "index_put", "(Tensor x, Tensor[] indices, Tensor value, bool accumulate=false, int[] axes={}, "
    'str mode="raise")', "Tensor(out)", infer_meta=("IndexPutInferMeta", None),
    backward="index_put_grad", jvp="linear", traits=("promote(x, value)", "stores"),
    inplace=(("x", "out"),)
)
def index_put(
    x: TensorLike, indices: Sequence[TensorLike], value: TensorLike, accumulate: bool = False,
    axes: IntArrayLike | None = (), mode: str = "raise"
) -> Tensor:
    """x[indices[0], indices[1], ...] = value, or += value if accumulate; the index tensors and the
    value broadcast. The indices are of the first axes of x, or of those in axes: then the axes of
    the value are theirs, broadcast together, followed by the other axes of x. Where an index is out
    of range, nothing is written with mode drop, and at the nearest inside with clip; with raise
    calls that run at once raise TensorIndexError, and compiled programs write nothing, or raise
    under phix.debug.check_indices().

    Args:
        x: tensor.
        indices: sequence of tensors.
        value: tensor.
        accumulate: bool.
        axes: sequence of ints, may be None.
        mode: str.
    """
    return bind(_index_put, (x, indices, value), (accumulate, axes, mode))

def index_put_(
    x: TensorLike, indices: Sequence[TensorLike], value: TensorLike, accumulate: bool = False,
    axes: IntArrayLike | None = (), mode: str = "raise"
) -> Tensor:
    """:func:`index_put` in the memory of x, not to be used after it."""
    return bind_in_place(_index_put, (x, indices, value), (accumulate, axes, mode))

_index_put_grad = define(
    "index_put_grad",
    "(Tensor x, Tensor[] indices, Tensor value, Tensor out_grad, bool accumulate=false, "
    'int[] axes={}, str mode="raise")', "Tensor(x_grad), Tensor(value_grad)", no_need_buffer=("x",),
    forward="index_put"
)
def index_put_grad(x, indices, value, out_grad, accumulate=False, axes=(), mode="raise"):
    """Backward of :func:`index_put`."""
    return bind(_index_put_grad, (x, indices, value, out_grad), (accumulate, axes, mode))

_index_select = define(
    "index_select", "(Tensor x, Tensor index, int axis=0)", "Tensor(out)",
    infer_meta=("IndexSelectInferMeta", None), invoke="gather(x, index, axis)"
)
def index_select(x: TensorLike, index: TensorLike, axis: int = 0) -> Tensor:
    """The slices of x at a 1-d index along axis; gather. An index out of range raises
    TensorIndexError where the call runs at once; compiled programs take the nearest inside, or
    raise under phix.debug.check_indices().

    Args:
        x, index: tensor.
        axis: int.
    """
    return bind(_index_select, (x, index), (axis,))

_index_sample = define(
    "index_sample", "(Tensor x, Tensor index)", "Tensor(out)",
    infer_meta=("IndexSampleInferMeta", None)
)
def index_sample(x: TensorLike, index: TensorLike) -> Tensor:
    """out[i, j] = x[i, index[i, j]]. An index out of range raises TensorIndexError where the call
    runs at once; compiled programs take the nearest inside, or raise under
    phix.debug.check_indices().

    Args:
        x, index: tensor.
    """
    return bind(_index_sample, (x, index), ())

_masked_fill = define(
    "masked_fill", "(Tensor x, Tensor mask, Tensor value)", "Tensor(out)",
    infer_meta=("MaskedFillInferMeta", None), traits=("promote(x, value)",),
    invoke="where(mask, value, x)", inplace=(("x", "out"),)
)
def masked_fill(x: TensorLike, mask: TensorLike, value: TensorLike) -> Tensor:
    """x with value, of one element or broadcast, where the bool tensor mask is true.

    Args:
        x, mask, value: tensor.
    """
    return bind(_masked_fill, (x, mask, value), ())

def masked_fill_(x: TensorLike, mask: TensorLike, value: TensorLike) -> Tensor:
    """:func:`masked_fill` in the memory of x, not to be used after it."""
    return bind_in_place(_masked_fill, (x, mask, value), ())


# -- yaml/interpolation.yaml -----------------------------------------------------------------------
define = definer("yaml/interpolation.yaml", family="interpolation")

_linear_interp = define(
    "linear_interp", "(Tensor x, Tensor out_size, Tensor[] size_tensor, Tensor scale_tensor, "
    'str data_format="NCHW", int out_d=0, int out_h=0, int out_w=0, float[] scale={}, '
    'str interp_method="bilinear", bool align_corners=true, int align_mode=1)', "Tensor(output)",
    traits=("promote_float(x)",), dtypes=("float",),
    optional=("out_size", "size_tensor", "scale_tensor")
)
def linear_interp(
    x: TensorLike, out_size: TensorLike | None = None,
    size_tensor: Sequence[TensorLike] | None = None, scale_tensor: TensorLike | None = None,
    data_format: str = "NCHW", out_d: int = 0, out_h: int = 0, out_w: int = 0,
    scale: FloatLike | Sequence[FloatLike] | None = (), interp_method: str = "bilinear",
    align_corners: bool = True, align_mode: int = 1
) -> Tensor:
    """Signals [n, c, width] of another size, out[k] = x[i] * (1 - t) + x[i + 1] * t with i + t = k
    * (size - 1) / (out size - 1) if align_corners; else k * size / out size, or (k + 0.5) * size /
    out size - 0.5, at least 0, in align_mode 0; an out size of 1 is x[0], as in Paddle. Sizes come
    from size_tensor (one int tensor an axis), else out_size (one tensor of them), else scale_tensor
    or scale (rounded down), else out_d, out_h and out_w; they count the spatial axes, which
    data_format says to be before or behind the channels. interp_method says nothing more than the
    op's name.

    Args:
        x: tensor, float.
        out_size: tensor, may be None.
        size_tensor: sequence of tensors, may be None.
        scale_tensor: tensor, may be None.
        data_format: str.
        out_d, out_h, out_w: int.
        scale: sequence of float or one-element tensors, may be None.
        interp_method: str.
        align_corners: bool.
        align_mode: int.
    """
    return bind(
        _linear_interp, (x, out_size, size_tensor, scale_tensor),
        (data_format, out_d, out_h, out_w, scale, interp_method, align_corners, align_mode)
    )

_bilinear_interp = define(
    "bilinear_interp", "(Tensor x, Tensor out_size, Tensor[] size_tensor, Tensor scale_tensor, "
    'str data_format="NCHW", int out_d=0, int out_h=0, int out_w=0, float[] scale={}, '
    'str interp_method="bilinear", bool align_corners=true, int align_mode=1)', "Tensor(output)",
    traits=("promote_float(x)",), dtypes=("float",),
    optional=("out_size", "size_tensor", "scale_tensor")
)
def bilinear_interp(
    x: TensorLike, out_size: TensorLike | None = None,
    size_tensor: Sequence[TensorLike] | None = None, scale_tensor: TensorLike | None = None,
    data_format: str = "NCHW", out_d: int = 0, out_h: int = 0, out_w: int = 0,
    scale: FloatLike | Sequence[FloatLike] | None = (), interp_method: str = "bilinear",
    align_corners: bool = True, align_mode: int = 1
) -> Tensor:
    """Images [n, c, height, width] of another size: :func:`linear_interp` along each spatial axis.

    Args:
        x: tensor, float.
        out_size: tensor, may be None.
        size_tensor: sequence of tensors, may be None.
        scale_tensor: tensor, may be None.
        data_format: str.
        out_d, out_h, out_w: int.
        scale: sequence of float or one-element tensors, may be None.
        interp_method: str.
        align_corners: bool.
        align_mode: int.
    """
    return bind(
        _bilinear_interp, (x, out_size, size_tensor, scale_tensor),
        (data_format, out_d, out_h, out_w, scale, interp_method, align_corners, align_mode)
    )

_trilinear_interp = define(
    "trilinear_interp", "(Tensor x, Tensor out_size, Tensor[] size_tensor, Tensor scale_tensor, "
    'str data_format="NCHW", int out_d=0, int out_h=0, int out_w=0, float[] scale={}, '
    'str interp_method="bilinear", bool align_corners=true, int align_mode=1)', "Tensor(output)",
    traits=("promote_float(x)",), dtypes=("float",),
    optional=("out_size", "size_tensor", "scale_tensor")
)
def trilinear_interp(
    x: TensorLike, out_size: TensorLike | None = None,
    size_tensor: Sequence[TensorLike] | None = None, scale_tensor: TensorLike | None = None,
    data_format: str = "NCHW", out_d: int = 0, out_h: int = 0, out_w: int = 0,
    scale: FloatLike | Sequence[FloatLike] | None = (), interp_method: str = "bilinear",
    align_corners: bool = True, align_mode: int = 1
) -> Tensor:
    """Volumes [n, c, depth, height, width] of another size: :func:`linear_interp` along each
    spatial axis.

    Args:
        x: tensor, float.
        out_size: tensor, may be None.
        size_tensor: sequence of tensors, may be None.
        scale_tensor: tensor, may be None.
        data_format: str.
        out_d, out_h, out_w: int.
        scale: sequence of float or one-element tensors, may be None.
        interp_method: str.
        align_corners: bool.
        align_mode: int.
    """
    return bind(
        _trilinear_interp, (x, out_size, size_tensor, scale_tensor),
        (data_format, out_d, out_h, out_w, scale, interp_method, align_corners, align_mode)
    )

_nearest_interp = define(
    "nearest_interp", "(Tensor x, Tensor out_size, Tensor[] size_tensor, Tensor scale_tensor, "
    'str data_format="NCHW", int out_d=0, int out_h=0, int out_w=0, float[] scale={}, '
    'str interp_method="bilinear", bool align_corners=true, int align_mode=1)', "Tensor(output)",
    dtypes=("bool", "int", "float", "complex"), optional=("out_size", "size_tensor", "scale_tensor")
)
def nearest_interp(
    x: TensorLike, out_size: TensorLike | None = None,
    size_tensor: Sequence[TensorLike] | None = None, scale_tensor: TensorLike | None = None,
    data_format: str = "NCHW", out_d: int = 0, out_h: int = 0, out_w: int = 0,
    scale: FloatLike | Sequence[FloatLike] | None = (), interp_method: str = "bilinear",
    align_corners: bool = True, align_mode: int = 1
) -> Tensor:
    """Signals, images or volumes of another size, of the elements nearest: along each axis out[k] =
    x[floor(k * size / out size)], or x[floor(k * (size - 1) / (out size - 1) + 0.5)] if
    align_corners. Sizes as in :func:`linear_interp`.

    Args:
        x: tensor, bool, int, float or complex.
        out_size: tensor, bool, int, float or complex, may be None.
        size_tensor: sequence of tensors, bool, int, float or complex, may be None.
        scale_tensor: tensor, bool, int, float or complex, may be None.
        data_format: str.
        out_d, out_h, out_w: int.
        scale: sequence of float or one-element tensors, may be None.
        interp_method: str.
        align_corners: bool.
        align_mode: int.
    """
    return bind(
        _nearest_interp, (x, out_size, size_tensor, scale_tensor),
        (data_format, out_d, out_h, out_w, scale, interp_method, align_corners, align_mode)
    )

_bicubic_interp = define(
    "bicubic_interp", "(Tensor x, Tensor out_size, Tensor[] size_tensor, Tensor scale_tensor, "
    'str data_format="NCHW", int out_d=0, int out_h=0, int out_w=0, float[] scale={}, '
    'str interp_method="bilinear", bool align_corners=true, int align_mode=1)', "Tensor(output)",
    traits=("promote_float(x)",), dtypes=("float",),
    optional=("out_size", "size_tensor", "scale_tensor")
)
def bicubic_interp(
    x: TensorLike, out_size: TensorLike | None = None,
    size_tensor: Sequence[TensorLike] | None = None, scale_tensor: TensorLike | None = None,
    data_format: str = "NCHW", out_d: int = 0, out_h: int = 0, out_w: int = 0,
    scale: FloatLike | Sequence[FloatLike] | None = (), interp_method: str = "bilinear",
    align_corners: bool = True, align_mode: int = 1
) -> Tensor:
    """Images of another size by cubic convolution with a = -0.75: along each axis four elements
    around k * (size - 1) / (out size - 1) if align_corners, else (k + 0.5) * size / out size - 0.5
    (-0.5 where the out size is 1, as in Paddle), weighted by Keys' kernel; off the image its border
    goes on. Sizes as in :func:`linear_interp`.

    Args:
        x: tensor, float.
        out_size: tensor, may be None.
        size_tensor: sequence of tensors, may be None.
        scale_tensor: tensor, may be None.
        data_format: str.
        out_d, out_h, out_w: int.
        scale: sequence of float or one-element tensors, may be None.
        interp_method: str.
        align_corners: bool.
        align_mode: int.
    """
    return bind(
        _bicubic_interp, (x, out_size, size_tensor, scale_tensor),
        (data_format, out_d, out_h, out_w, scale, interp_method, align_corners, align_mode)
    )

_interp_antialias = define(
    "interp_antialias", "(Tensor x, Tensor out_size, Tensor[] size_tensor, Tensor scale_tensor, "
    'str data_format="NCHW", int out_d=0, int out_h=0, int out_w=0, double[] scale={}, '
    'str interp_method="bilinear", bool align_corners=true, int align_mode=1)', "Tensor(output)",
    traits=("promote_float(x)",), dtypes=("float",),
    optional=("out_size", "size_tensor", "scale_tensor")
)
def interp_antialias(
    x: TensorLike, out_size: TensorLike | None = None,
    size_tensor: Sequence[TensorLike] | None = None, scale_tensor: TensorLike | None = None,
    data_format: str = "NCHW", out_d: int = 0, out_h: int = 0, out_w: int = 0,
    scale: FloatLike | Sequence[FloatLike] | None = (), interp_method: str = "bilinear",
    align_corners: bool = True, align_mode: int = 1
) -> Tensor:
    """Images of another size, each element a weighted mean of those around it: the kernel (a
    triangle for bilinear, Keys' with a = -0.5 for bicubic) is made wider by size / out size where
    that is above 1, so that a smaller image leaves nothing out. Sizes as in :func:`linear_interp`.

    Args:
        x: tensor, float.
        out_size: tensor, may be None.
        size_tensor: sequence of tensors, may be None.
        scale_tensor: tensor, may be None.
        data_format: str.
        out_d, out_h, out_w: int.
        scale: sequence of float or one-element tensors, may be None.
        interp_method: str.
        align_corners: bool.
        align_mode: int.
    """
    return bind(
        _interp_antialias, (x, out_size, size_tensor, scale_tensor),
        (data_format, out_d, out_h, out_w, scale, interp_method, align_corners, align_mode)
    )


# -- yaml/layer.yaml -------------------------------------------------------------------------------
define = definer("yaml/layer.yaml", family="layer")

_linear = define(
    "linear", "(Tensor x, Tensor weight, Tensor bias)", "Tensor(out)",
    traits=("promote", "low_precision"), dtypes=("int", "float", "complex"), optional=("bias",)
)
def linear(x: TensorLike, weight: TensorLike, bias: TensorLike | None = None) -> Tensor:
    """x @ weight + bias, over the last axis of x; weight is [in, out], bias [out] or absent.

    Args:
        x, weight: tensor, int, float or complex.
        bias: tensor, int, float or complex, may be None.
    """
    return bind(_linear, (x, weight, bias), ())

_linear_v2 = define(
    "linear_v2", "(Tensor input, Tensor weight, Tensor bias, bool transpose_weight=false)",
    "Tensor(out)", traits=("promote", "low_precision"), dtypes=("int", "float", "complex")
)
def linear_v2(
    input: TensorLike, weight: TensorLike, bias: TensorLike, transpose_weight: bool = False
) -> Tensor:
    """input @ weight + bias, over the last axis of input; weight is [in, out], or [out, in] if
    transpose_weight.

    Args:
        input, weight, bias: tensor, int, float or complex.
        transpose_weight: bool.
    """
    return bind(_linear_v2, (input, weight, bias), (transpose_weight,))

_embedding = define(
    "embedding", "(Tensor x, Tensor weight, int64_t padding_idx=-1, bool sparse=false)",
    "Tensor(out)", traits=("promote(weight)",), dtypes=("float", "complex"),
    kernel={"func": (("embedding", ("dense", "dense"), ("dense",)),
    ("sparse_weight_embedding", ("dense", "selected_rows"), ("dense",)))}
)
def embedding(
    x: TensorLike, weight: TensorLike, padding_idx: DimLike = -1, sparse: bool = False
) -> Tensor:
    """The rows of weight that the ints in x number, out[..., :] = weight[x[...], :]. padding_idx,
    if not -1, is a row that is zero to the result and gets no gradient. A number outside the rows
    raises TensorIndexError where the call runs at once; compiled programs take the nearest inside,
    or raise under phix.debug.check_indices(). With sparse the gradient of weight is SelectedRows:
    see docs/tensor-kinds.md.

    Args:
        x: tensor.
        weight: tensor, float or complex.
        padding_idx: int.
        sparse: bool.
    """
    return bind(_embedding, (x, weight), (padding_idx, sparse))

_one_hot = define(
    "one_hot", "(Tensor x, Scalar(int) num_classes)", "Tensor(out)", traits=("nondifferentiable",)
)
def one_hot(x: TensorLike, num_classes: ScalarLike) -> Tensor:
    """float32, whatever the default float is, with a last axis of num_classes: 1 at the class that
    x numbers, else 0. A number that is no class raises TensorIndexError where the call runs at
    once; compiled programs give all 0 for it, or raise under phix.debug.check_indices().

    Args:
        x: tensor.
        num_classes: number or one-element tensor.
    """
    return bind(_one_hot, (x,), (num_classes,))

_dropout = define(
    "dropout", "(Tensor x, Tensor seed_tensor, Scalar(float) p=0.5, bool is_test=false, "
    'str mode="upscale_in_train", int seed=0, bool fix_seed=false)', "Tensor(out), Tensor(mask)",
    backward="dropout_grad", traits=("random", "promote_float(x)"), dtypes=("float",),
    optional=("seed_tensor",), intermediate=("mask",)
)
def dropout(
    x: TensorLike, seed_tensor: TensorLike | None = None, p: ScalarLike = 0.5,
    is_test: bool = False, mode: str = "upscale_in_train", seed: int = 0, fix_seed: bool = False
) -> Tensor:
    """x with each element 0 with probability p, and the others divided by 1 - p (upscale_in_train);
    in mode downscale_in_infer they stay, and with is_test all are multiplied by 1 - p. seed_tensor
    is the key (phix.random.key), needed unless is_test; seed and fix_seed say nothing here.

    Args:
        x: tensor, float.
        seed_tensor: tensor, may be None.
        p: number or one-element tensor.
        is_test: bool.
        mode: str.
        seed: int.
        fix_seed: bool.
    """
    return bind(_dropout, (x, seed_tensor), (p, is_test, mode, seed, fix_seed))[0]

_dropout_grad = define(
    "dropout_grad", "(Tensor mask, Tensor out_grad, Scalar(float) p, bool is_test, str mode)",
    "Tensor(x_grad)", forward="dropout"
)
def dropout_grad(mask, out_grad, p, is_test, mode):
    """Backward of :func:`dropout`."""
    return bind(_dropout_grad, (mask, out_grad), (p, is_test, mode))


# -- yaml/linalg.yaml ------------------------------------------------------------------------------
define = definer("yaml/linalg.yaml", family="linalg")

_cholesky = define(
    "cholesky", "(Tensor x, bool upper=false)", "Tensor(out)",
    infer_meta=("CholeskyInferMeta", None), backward="cholesky_grad",
    traits=("promote_float", "matrices"), dtypes=("float32", "float64", "complex")
)
def cholesky(x: TensorLike, upper: bool = False) -> Tensor:
    """The lower triangular L with positive diagonal and L L^H = x; upper: its conjugate transpose.
    Of x the Hermitian part (x + x^H) / 2 is taken; nan where that is not positive definite.

    Args:
        x: tensor, float32, float64 or complex.
        upper: bool.
    """
    return bind(_cholesky, (x,), (upper,))

_cholesky_grad = define(
    "cholesky_grad", "(Tensor out, Tensor out_grad, bool upper)", "Tensor(x_grad)",
    forward="cholesky"
)
def cholesky_grad(out, out_grad, upper):
    """Backward of :func:`cholesky`."""
    return bind(_cholesky_grad, (out, out_grad), (upper,))

_cholesky_solve = define(
    "cholesky_solve", "(Tensor x, Tensor y, bool upper=false)", "Tensor(out)",
    traits=("promote_float", "matrices"), dtypes=("float32", "float64", "complex")
)
def cholesky_solve(x: TensorLike, y: TensorLike, upper: bool = False) -> Tensor:
    """The solution z of A z = x, where y is a Cholesky factor of A: y y^H = A, or y^H y = A if
    upper.

    Args:
        x, y: tensor, float32, float64 or complex.
        upper: bool.
    """
    return bind(_cholesky_solve, (x, y), (upper,))

_triangular_solve = define(
    "triangular_solve",
    "(Tensor x, Tensor y, bool upper=true, bool transpose=false, bool unitriangular=false)",
    "Tensor(out)", infer_meta=("TriangularSolveInferMeta", None), backward="triangular_solve_grad",
    traits=("promote_float", "matrices"), dtypes=("float32", "float64", "complex")
)
def triangular_solve(
    x: TensorLike, y: TensorLike, upper: bool = True, transpose: bool = False,
    unitriangular: bool = False
) -> Tensor:
    """The solution z of A z = y, where A is the upper (or lower) triangle of x; transpose: of A^T z
    = y. unitriangular: the diagonal of A is 1, whatever x has there. Axes in front broadcast.

    Args:
        x, y: tensor, float32, float64 or complex.
        upper, transpose, unitriangular: bool.
    """
    return bind(_triangular_solve, (x, y), (upper, transpose, unitriangular))

_triangular_solve_grad = define(
    "triangular_solve_grad",
    "(Tensor x, Tensor y, Tensor out, Tensor out_grad, bool upper, bool transpose, "
    "bool unitriangular)", "Tensor(x_grad), Tensor(y_grad)", no_need_buffer=("y",),
    forward="triangular_solve"
)
def triangular_solve_grad(x, y, out, out_grad, upper, transpose, unitriangular):
    """Backward of :func:`triangular_solve`."""
    return bind(_triangular_solve_grad, (x, y, out, out_grad), (upper, transpose, unitriangular))

_lu = define(
    "lu", "(Tensor x, bool pivot=true)", "Tensor(out), Tensor(pivots), Tensor(infos)",
    infer_meta=("LUInferMeta", None), backward="lu_grad", traits=("promote_float", "matrices"),
    dtypes=("float32", "float64", "complex")
)
def lu(x: TensorLike, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """The factors of x = P L U in one matrix: U in its upper triangle, L below, whose diagonal is
    1. Row i was exchanged with row pivots[i] - 1, for i = 0, 1, ... (int32); infos is 0, or the
    number k of the first U[k-1, k-1] that is 0. Without pivot P = I.

    Args:
        x: tensor, float32, float64 or complex.
        pivot: bool.

    Returns:
        out, pivots, infos.
    """
    return bind(_lu, (x,), (pivot,))

_lu_grad = define(
    "lu_grad", "(Tensor x, Tensor out, Tensor pivots, Tensor out_grad, bool pivot)",
    "Tensor(x_grad)", no_need_buffer=("x",), forward="lu"
)
def lu_grad(x, out, pivots, out_grad, pivot):
    """Backward of :func:`lu`."""
    return bind(_lu_grad, (x, out, pivots, out_grad), (pivot,))

_lu_permutation = define(
    "lu_permutation", "(Tensor x, Tensor pivots)", "Tensor(out)",
    infer_meta=("LUPermutationInferMeta", None), traits=("nondifferentiable",)
)
def lu_permutation(x: TensorLike, pivots: TensorLike) -> Tensor:
    """The rows of the matrix that :func:`lu` factored, in the order its exchanges put them: int64,
    row i of L U is row out[i] of the matrix. Of x, the factors, only the shape is used.

    Args:
        x, pivots: tensor.
    """
    return bind(_lu_permutation, (x, pivots), ())

_lu_unpack = define(
    "lu_unpack", "(Tensor x, Tensor y, bool unpack_ludata=true, bool unpack_pivots=true)",
    "Tensor(pmat), Tensor(l), Tensor(u)", traits=("promote_float(x)",),
    dtypes=("float32", "float64", "complex")
)
def lu_unpack(
    x: TensorLike, y: TensorLike, unpack_ludata: bool = True, unpack_pivots: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """The matrices P, L and U with P L U = A, from the factors x and the pivots y that :func:`lu`
    gives for A. Not asked for, L and U, or P, are empty.

    Args:
        x: tensor, float32, float64 or complex.
        y: tensor.
        unpack_ludata, unpack_pivots: bool.

    Returns:
        pmat, l, u.
    """
    return bind(_lu_unpack, (x, y), (unpack_ludata, unpack_pivots))

_lu_solve = define(
    "lu_solve", '(Tensor b, Tensor lu, Tensor pivots, str trans="N")', "Tensor(out)",
    infer_meta=("LUSolveInferMeta", None), backward="lu_solve_grad",
    traits=("promote_float(b, lu)", "matrices"), dtypes=("float32", "float64", "complex")
)
def lu_solve(b: TensorLike, lu: TensorLike, pivots: TensorLike, trans: str = "N") -> Tensor:
    """The solution z of A z = b from the factors and pivots that :func:`lu` gives for A; trans T:
    of A^T z = b, C: of A^H z = b. Axes in front broadcast.

    Args:
        b, lu: tensor, float32, float64 or complex.
        pivots: tensor.
        trans: str.
    """
    return bind(_lu_solve, (b, lu, pivots), (trans,))

_lu_solve_grad = define(
    "lu_solve_grad", "(Tensor b, Tensor lu, Tensor pivots, Tensor out, Tensor out_grad, str trans)",
    "Tensor(b_grad), Tensor(lu_grad)", no_need_buffer=("b",), forward="lu_solve"
)
def lu_solve_grad(b, lu, pivots, out, out_grad, trans):
    """Backward of :func:`lu_solve`."""
    return bind(_lu_solve_grad, (b, lu, pivots, out, out_grad), (trans,))

_solve = define(
    "solve", "(Tensor x, Tensor y, bool transpose=false)", "Tensor(out)", backward="solve_grad",
    traits=("promote_float", "matrices"), dtypes=("float32", "float64", "complex")
)
def solve(x: TensorLike, y: TensorLike, transpose: bool = False) -> Tensor:
    """The solution z of the linear system x z = y, by LU factorisation with pivoting; transpose: of
    x^T z = y. y is a vector [n], or holds a vector for each matrix if its dims are those of x but
    for the last, as in Paddle; else matrices [..., n, k], and axes in front broadcast.

    Args:
        x, y: tensor, float32, float64 or complex.
        transpose: bool.
    """
    return bind(_solve, (x, y), (transpose,))

_solve_grad = define(
    "solve_grad", "(Tensor x, Tensor y, Tensor out, Tensor out_grad, bool transpose)",
    "Tensor(x_grad), Tensor(y_grad)", no_need_buffer=("y",), forward="solve"
)
def solve_grad(x, y, out, out_grad, transpose):
    """Backward of :func:`solve`."""
    return bind(_solve_grad, (x, y, out, out_grad), (transpose,))

_inverse = define(
    "inverse", "(Tensor x)", "Tensor(out)", backward="inverse_grad",
    traits=("promote_float", "matrices"), dtypes=("float32", "float64", "complex")
)
def inverse(x: TensorLike) -> Tensor:
    """The matrix with x @ out = out @ x = I, by LU factorisation with pivoting.

    Args:
        x: tensor, float32, float64 or complex.
    """
    return bind(_inverse, (x,), ())

_inverse_grad = define(
    "inverse_grad", "(Tensor out, Tensor out_grad)", "Tensor(x_grad)", forward="inverse"
)
def inverse_grad(out, out_grad):
    """Backward of :func:`inverse`."""
    return bind(_inverse_grad, (out, out_grad), ())

_det = define(
    "det", "(Tensor x)", "Tensor(out)", backward="det_grad", traits=("promote_float", "matrices"),
    dtypes=("float32", "float64", "complex")
)
def det(x: TensorLike) -> Tensor:
    """The determinant: the sum over permutations p of sign(p) x[..., 0, p_0] ... x[..., n-1,
    p_(n-1)]. Written out up to n = 3, else from the LU factors. Its gradient, the cofactors, is
    that of a singular matrix too, by its singular values, and so are derivatives of every order.

    Args:
        x: tensor, float32, float64 or complex.
    """
    return bind(_det, (x,), ())

_det_grad = define(
    "det_grad", "(Tensor x, Tensor out, Tensor out_grad)", "Tensor(x_grad)", forward="det"
)
def det_grad(x, out, out_grad):
    """Backward of :func:`det`."""
    return bind(_det_grad, (x, out, out_grad), ())

_cofactors = define(
    "cofactors", "(Tensor x, Tensor[] directions)", "Tensor(out)",
    traits=("promote_float", "matrices"), dtypes=("float32", "float64", "complex")
)
def cofactors(x: TensorLike, directions: Sequence[TensorLike]) -> Tensor:
    """The derivatives of det(x) by the elements of x, and of those the derivative along each of the
    directions: out_ij = the mixed derivative of det at x along directions[0], ..., directions[m-1]
    and the unit matrix e_ij. Along none they are the cofactors of x, det(x) inverse(x)^T where x is
    regular. Singular matrices have them too.

    Args:
        x: tensor, float32, float64 or complex.
        directions: sequence of tensors, float32, float64 or complex.
    """
    return bind(_cofactors, (x, directions), ())

_slogdet = define(
    "slogdet", "(Tensor x)", "Tensor(out)", traits=("promote_float", "matrices"),
    dtypes=("float32", "float64", "complex")
)
def slogdet(x: TensorLike) -> Tensor:
    """Sign (of a complex matrix: phase) and logarithm of the absolute value of the determinant, one
    behind the other: [2, ...]. Of a singular matrix 0 and -inf.

    Args:
        x: tensor, float32, float64 or complex.
    """
    return bind(_slogdet, (x,), ())

_slogdet_v2 = define(
    "slogdet_v2", "(Tensor x)", "Tensor(sign), Tensor(logdet)", backward="slogdet_v2_grad",
    traits=("promote_float", "matrices"), dtypes=("float32", "float64", "complex")
)
def slogdet_v2(x: TensorLike) -> tuple[Tensor, Tensor]:
    """Sign (of a complex matrix: phase) and logarithm of the absolute value of the determinant, as
    two tensors. Of a singular matrix 0 and -inf.

    Args:
        x: tensor, float32, float64 or complex.

    Returns:
        sign, logdet.
    """
    return bind(_slogdet_v2, (x,), ())

_slogdet_v2_grad = define(
    "slogdet_v2_grad", "(Tensor x, Tensor sign, Tensor sign_grad, Tensor logdet_grad)",
    "Tensor(x_grad)", forward="slogdet_v2"
)
def slogdet_v2_grad(x, sign, sign_grad, logdet_grad):
    """Backward of :func:`slogdet_v2`."""
    return bind(_slogdet_v2_grad, (x, sign, sign_grad, logdet_grad), ())

_matrix_power = define(
    "matrix_power", "(Tensor x, int n)", "Tensor(out)", traits=("promote_float", "matrices"),
    dtypes=("float32", "float64", "complex")
)
def matrix_power(x: TensorLike, n: int) -> Tensor:
    """The product of n times the matrix x, by repeated squaring; for n < 0 of its inverse, for n =
    0 the identity.

    Args:
        x: tensor, float32, float64 or complex.
        n: int.
    """
    return bind(_matrix_power, (x,), (n,))


# -- yaml/loss.yaml --------------------------------------------------------------------------------
define = definer("yaml/loss.yaml", family="loss")

_mse_loss = define(
    "mse_loss", '(Tensor input, Tensor label, str reduction="mean")', "Tensor(out)",
    traits=("promote_float", "full_precision"), dtypes=("float",)
)
def mse_loss(input: TensorLike, label: TensorLike, reduction: str = "mean") -> Tensor:
    """(input - label) ** 2, elementwise (reduction none), or its mean or sum.

    Args:
        input, label: tensor, float.
        reduction: str.
    """
    return bind(_mse_loss, (input, label), (reduction,))

_huber_loss = define(
    "huber_loss", "(Tensor input, Tensor label, float delta)", "Tensor(out), Tensor(residual)",
    backward="huber_loss_grad", traits=("promote_float", "full_precision"), dtypes=("float",),
    intermediate=("residual",)
)
def huber_loss(input: TensorLike, label: TensorLike, delta: FloatLike) -> Tensor:
    """r ** 2 / 2 where abs(r) is at most delta, else delta * (abs(r) - delta / 2), elementwise,
    with r = label - input.

    Args:
        input, label: tensor, float.
        delta: float or one-element tensor.
    """
    return bind(_huber_loss, (input, label), (delta,))[0]

_huber_loss_grad = define(
    "huber_loss_grad",
    "(Tensor input, Tensor label, Tensor residual, Tensor out_grad, Tensor residual_grad, "
    "float delta)", "Tensor(input_grad), Tensor(label_grad)", no_need_buffer=("input", "label"),
    forward="huber_loss"
)
def huber_loss_grad(input, label, residual, out_grad, residual_grad, delta):
    """Backward of :func:`huber_loss`."""
    return bind(_huber_loss_grad, (input, label, residual, out_grad, residual_grad), (delta,))

_bce_loss = define(
    "bce_loss", "(Tensor input, Tensor label)", "Tensor(out)", backward="bce_loss_grad",
    traits=("promote_float", "full_precision"), dtypes=("float",), inplace=(("input", "out"),)
)
def bce_loss(input: TensorLike, label: TensorLike) -> Tensor:
    """Binary cross entropy, -(label * log(input) + (1 - label) * log(1 - input)), elementwise,
    input being a probability; a logarithm below -100 counts as -100.

    Args:
        input, label: tensor, float.
    """
    return bind(_bce_loss, (input, label), ())

def bce_loss_(input: TensorLike, label: TensorLike) -> Tensor:
    """:func:`bce_loss` in the memory of input, not to be used after it."""
    return bind_in_place(_bce_loss, (input, label), ())

_bce_loss_grad = define(
    "bce_loss_grad", "(Tensor input, Tensor label, Tensor out_grad)",
    "Tensor(input_grad), Tensor(label_grad)", forward="bce_loss"
)
def bce_loss_grad(input, label, out_grad):
    """Backward of :func:`bce_loss`."""
    return bind(_bce_loss_grad, (input, label, out_grad), ())

_sigmoid_cross_entropy_with_logits = define(
    "sigmoid_cross_entropy_with_logits",
    "(Tensor x, Tensor label, Tensor pos_weight, bool normalize=false, int ignore_index=-100)",
    "Tensor(out)", traits=("promote_float", "full_precision"), dtypes=("float",),
    optional=("pos_weight",), inplace=(("x", "out"),)
)
def sigmoid_cross_entropy_with_logits(
    x: TensorLike, label: TensorLike, pos_weight: TensorLike | None = None, normalize: bool = False,
    ignore_index: int = -100
) -> Tensor:
    """Binary cross entropy of sigmoid(x), (1 - label) * x - pos_weight * log(sigmoid(x)),
    elementwise and without overflow; 0 where the label is ignore_index. A factor w of the positive
    part alone is the pos_weight 1 + (w - 1) * label. normalize divides by the number of labels that
    are not ignored.

    Args:
        x, label: tensor, float.
        pos_weight: tensor, float, may be None.
        normalize: bool.
        ignore_index: int.
    """
    return bind(
        _sigmoid_cross_entropy_with_logits, (x, label, pos_weight), (normalize, ignore_index)
    )

def sigmoid_cross_entropy_with_logits_(
    x: TensorLike, label: TensorLike, pos_weight: TensorLike | None = None, normalize: bool = False,
    ignore_index: int = -100
) -> Tensor:
    """:func:`sigmoid_cross_entropy_with_logits` in the memory of x, not to be used after it."""
    return bind_in_place(
        _sigmoid_cross_entropy_with_logits, (x, label, pos_weight), (normalize, ignore_index)
    )

_log_loss = define(
    "log_loss", "(Tensor input, Tensor label, float epsilon=1e-4)", "Tensor(out)",
    traits=("promote_float", "full_precision"), dtypes=("float",)
)
def log_loss(input: TensorLike, label: TensorLike, epsilon: FloatLike = 0.0001) -> Tensor:
    """-label * log(input + epsilon) - (1 - label) * log(1 - input + epsilon), elementwise, input
    being a probability.

    Args:
        input, label: tensor, float.
        epsilon: float or one-element tensor.
    """
    return bind(_log_loss, (input, label), (epsilon,))

_kldiv_loss = define(
    "kldiv_loss", '(Tensor x, Tensor label, str reduction = "mean", bool log_target = false)',
    "Tensor(out)", traits=("promote_float", "full_precision"), dtypes=("float",)
)
def kldiv_loss(
    x: TensorLike, label: TensorLike, reduction: str = "mean", log_target: bool = False
) -> Tensor:
    """Kullback-Leibler divergence of probabilities label from exp(x), label * (log(label) - x), 0
    where label is 0, elementwise (reduction none), or its mean, its sum, or the sum over the first
    dim (batchmean). With log_target, label holds logarithms: exp(label) * (label - x).

    Args:
        x, label: tensor, float.
        reduction: str.
        log_target: bool.
    """
    return bind(_kldiv_loss, (x, label), (reduction, log_target))

_cross_entropy_with_softmax = define(
    "cross_entropy_with_softmax",
    "(Tensor input, Tensor label, bool soft_label=false, bool use_softmax=true, "
    "bool numeric_stable_mode=true, int ignore_index=-100, int axis=-1)",
    "Tensor(softmax), Tensor(loss)", backward="cross_entropy_with_softmax_grad",
    traits=("promote_float(input)", "full_precision"), dtypes=("float",),
    inplace=(("input", "softmax"),)
)
def cross_entropy_with_softmax(
    input: TensorLike, label: TensorLike, soft_label: bool = False, use_softmax: bool = True,
    numeric_stable_mode: bool = True, ignore_index: int = -100, axis: int = -1
) -> tuple[Tensor, Tensor]:
    """softmax of input along the axis, and the loss -log(softmax) at the label, with a 1 for the
    axis. A label is the number of a class, its axis 1 or left out, and ignore_index gives loss 0; a
    soft label has a probability for each class, and the loss is -sum(label * log(softmax)). Without
    use_softmax the input is the softmax. It is always computed the numerically stable way. A label
    that is no class raises TensorIndexError where the call runs at once; compiled programs take the
    nearest class, or raise under phix.debug.check_indices().

    Args:
        input: tensor, float.
        label: tensor.
        soft_label, use_softmax, numeric_stable_mode: bool.
        ignore_index, axis: int.

    Returns:
        softmax, loss.
    """
    return bind(
        _cross_entropy_with_softmax, (input, label),
        (soft_label, use_softmax, numeric_stable_mode, ignore_index, axis)
    )

def cross_entropy_with_softmax_(
    input: TensorLike, label: TensorLike, soft_label: bool = False, use_softmax: bool = True,
    numeric_stable_mode: bool = True, ignore_index: int = -100, axis: int = -1
) -> tuple[Tensor, Tensor]:
    """:func:`cross_entropy_with_softmax` in the memory of input, not to be used after it."""
    return bind_in_place(
        _cross_entropy_with_softmax, (input, label),
        (soft_label, use_softmax, numeric_stable_mode, ignore_index, axis)
    )

_cross_entropy_with_softmax_grad = define(
    "cross_entropy_with_softmax_grad",
    "(Tensor label, Tensor softmax, Tensor softmax_grad, Tensor loss_grad, bool soft_label, "
    "bool use_softmax, bool numeric_stable_mode, int ignore_index, int axis)",
    "Tensor(input_grad), Tensor(label_grad)", optional=("softmax_grad", "loss_grad"),
    forward="cross_entropy_with_softmax"
)
def cross_entropy_with_softmax_grad(
    label, softmax, softmax_grad, loss_grad, soft_label, use_softmax, numeric_stable_mode,
    ignore_index, axis
):
    """Backward of :func:`cross_entropy_with_softmax`."""
    return bind(
        _cross_entropy_with_softmax_grad, (label, softmax, softmax_grad, loss_grad),
        (soft_label, use_softmax, numeric_stable_mode, ignore_index, axis)
    )

_hinge_loss = define(
    "hinge_loss", "(Tensor logits, Tensor labels)", "Tensor(loss)",
    traits=("promote_float", "full_precision"), dtypes=("float",)
)
def hinge_loss(logits: TensorLike, labels: TensorLike) -> Tensor:
    """max(0, 1 - (2 * labels - 1) * logits), elementwise, for labels 0 and 1; the slope at the kink
    is 0.

    Args:
        logits, labels: tensor, float.
    """
    return bind(_hinge_loss, (logits, labels), ())

_nll_loss = define(
    "nll_loss", "(Tensor input, Tensor label, Tensor weight, int64_t ignore_index = -100, "
    'str reduction = "mean")', "Tensor(out), Tensor(total_weight)",
    traits=("promote_float(input)", "full_precision"), dtypes=("float",), optional=("weight",)
)
def nll_loss(
    input: TensorLike, label: TensorLike, weight: TensorLike | None = None,
    ignore_index: DimLike = -100, reduction: str = "mean"
) -> tuple[Tensor, Tensor]:
    """-weight[label] * input[label] of logarithms of probabilities [n, classes, ...] and labels [n,
    ...]; 0 where the label is ignore_index. mean divides the sum by total_weight, the sum of the
    weights of all labels that count (0 / 0 is 0); with none the losses stay [n, ...], and
    total_weight is 0. A label that is no class raises TensorIndexError where the call runs at once;
    compiled programs take the nearest class, or raise under phix.debug.check_indices().

    Args:
        input: tensor, float.
        label: tensor.
        weight: tensor, may be None.
        ignore_index: int.
        reduction: str.

    Returns:
        out, total_weight.
    """
    return bind(_nll_loss, (input, label, weight), (ignore_index, reduction))

_label_smooth = define(
    "label_smooth", "(Tensor label, Tensor prior_dist, float epsilon = 0.0f)", "Tensor(out)",
    traits=("promote_float", "full_precision"), dtypes=("float",), optional=("prior_dist",)
)
def label_smooth(
    label: TensorLike, prior_dist: TensorLike | None = None, epsilon: FloatLike = 0.0
) -> Tensor:
    """(1 - epsilon) * label + epsilon * prior_dist, for labels [..., classes] and a distribution of
    the classes; without one each class has 1 / classes.

    Args:
        label: tensor, float.
        prior_dist: tensor, float, may be None.
        epsilon: float or one-element tensor.
    """
    return bind(_label_smooth, (label, prior_dist), (epsilon,))

_identity_loss = define(
    "identity_loss", "(Tensor x, int reduction = 1)", "Tensor(out)",
    traits=("promote_float", "full_precision"), dtypes=("float",), inplace=(("x", "out"),)
)
def identity_loss(x: TensorLike, reduction: int = 1) -> Tensor:
    """The sum of x (reduction 0), its mean (1), or x itself (2).

    Args:
        x: tensor, float.
        reduction: int.
    """
    return bind(_identity_loss, (x,), (reduction,))

def identity_loss_(x: TensorLike, reduction: int = 1) -> Tensor:
    """:func:`identity_loss` in the memory of x, not to be used after it."""
    return bind_in_place(_identity_loss, (x,), (reduction,))

_cross_entropy_with_softmax_bwd_w_downcast = define(
    "cross_entropy_with_softmax_bwd_w_downcast", "(Tensor label, Tensor softmax, Tensor loss_grad)",
    "Tensor(out)", traits=("promote_float(softmax)", "full_precision"), dtypes=("float",)
)
def cross_entropy_with_softmax_bwd_w_downcast(
    label: TensorLike, softmax: TensorLike, loss_grad: TensorLike
) -> Tensor:
    """(softmax - one_hot(label)) * loss_grad along the last axis, 0 where the label is -100,
    rounded once to bfloat16: the gradient that :func:`cross_entropy_with_softmax` sends to its
    input.

    Args:
        label: tensor.
        softmax: tensor, float.
        loss_grad: tensor.
    """
    return bind(_cross_entropy_with_softmax_bwd_w_downcast, (label, softmax, loss_grad), ())


# -- yaml/masked_attention.yaml --------------------------------------------------------------------
define = definer("yaml/masked_attention.yaml", family="attention")

_flashmask_attention = define(
    "flashmask_attention",
    "(Tensor q, Tensor k, Tensor v, Tensor startend_row_indices, Tensor fixed_seed_offset, "
    "float dropout = 0.0, bool causal = false, bool return_softmax = false, bool is_test = false, "
    'str rng_name = "")', "Tensor(out), Tensor(softmax), Tensor(softmax_lse), Tensor(seed_offset)",
    traits=("promote_float(q, k, v)", "low_precision"), dtypes=("float",),
    optional=("fixed_seed_offset",)
)
def flashmask_attention(
    q: TensorLike, k: TensorLike, v: TensorLike, startend_row_indices: TensorLike,
    fixed_seed_offset: TensorLike | None = None, dropout: FloatLike = 0.0, causal: bool = False,
    return_softmax: bool = False, is_test: bool = False, rng_name: str = ""
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """:func:`flash_attn` where each key names the queries that do not see it: startend_row_indices
    is [batch, heads, keys, bounds]. Causal, one bound (from this query on) or two (from the first
    to before the second); else two (from the first on, and before the second) or four (two such
    ranges). heads may be 1, or as many as k or q has.

    Args:
        q, k, v: tensor, float.
        startend_row_indices: tensor.
        fixed_seed_offset: tensor, may be None.
        dropout: float or one-element tensor.
        causal, return_softmax, is_test: bool.
        rng_name: str.

    Returns:
        out, softmax, softmax_lse, seed_offset.
    """
    return bind(
        _flashmask_attention, (q, k, v, startend_row_indices, fixed_seed_offset),
        (dropout, causal, return_softmax, is_test, rng_name)
    )

_flashmask_attention_v2 = define(
    "flashmask_attention_v2",
    "(Tensor q, Tensor k, Tensor v, Tensor startend_row_indices, Tensor block_mask, "
    "float softmax_scale, bool is_causal)", "Tensor(out), Tensor(softmax_lse)",
    traits=("promote_float(q, k, v)", "low_precision"), dtypes=("float",), optional=("block_mask",)
)
def flashmask_attention_v2(
    q: TensorLike, k: TensorLike, v: TensorLike, startend_row_indices: TensorLike,
    block_mask: TensorLike | None, softmax_scale: FloatLike, is_causal: bool
) -> tuple[Tensor, Tensor]:
    """:func:`flashmask_attention` with the scale of the scores given; block_mask must be absent.

    Args:
        q, k, v: tensor, float.
        startend_row_indices: tensor.
        block_mask: tensor, may be None.
        softmax_scale: float or one-element tensor.
        is_causal: bool.

    Returns:
        out, softmax_lse.
    """
    return bind(
        _flashmask_attention_v2, (q, k, v, startend_row_indices, block_mask),
        (softmax_scale, is_causal)
    )

_flash_attn_v3 = define(
    "flash_attn_v3",
    "(Tensor q, Tensor k, Tensor v, Tensor q_v_, Tensor q_descale_, Tensor k_descale_, "
    "Tensor v_descale_, float softmax_scale, bool is_causal, int window_size_left, "
    "int window_size_right, float softcap, int num_splits, bool manual_set_pack_gqa, "
    "bool pack_gqa_, int sm_margin)", "Tensor(out), Tensor(softmax_lse)",
    traits=("promote_float(q, k, v)", "low_precision"), dtypes=("float",),
    optional=("q_v_", "q_descale_", "k_descale_", "v_descale_")
)
def flash_attn_v3(
    q: TensorLike, k: TensorLike, v: TensorLike, q_v_: TensorLike | None,
    q_descale_: TensorLike | None, k_descale_: TensorLike | None, v_descale_: TensorLike | None,
    softmax_scale: FloatLike, is_causal: bool, window_size_left: int, window_size_right: int,
    softcap: FloatLike, num_splits: int, manual_set_pack_gqa: bool, pack_gqa_: bool, sm_margin: int
) -> tuple[Tensor, Tensor]:
    """:func:`flash_attn` with a window: with the last query at the last key, a query sees the keys
    from window_size_left before its own to window_size_right behind it (is_causal: to its own; -1:
    no bound). With softcap above 0, scores s become softcap * tanh(s / softcap). The other optional
    tensors must be absent; what is behind softcap tunes kernels that are not there, and says
    nothing.

    Args:
        q, k, v: tensor, float.
        q_v_, q_descale_, k_descale_, v_descale_: tensor, may be None.
        softmax_scale: float or one-element tensor.
        is_causal: bool.
        window_size_left, window_size_right: int.
        softcap: float or one-element tensor.
        num_splits: int.
        manual_set_pack_gqa, pack_gqa_: bool.
        sm_margin: int.

    Returns:
        out, softmax_lse.
    """
    return bind(
        _flash_attn_v3, (q, k, v, q_v_, q_descale_, k_descale_, v_descale_), (softmax_scale,
        is_causal, window_size_left, window_size_right, softcap, num_splits, manual_set_pack_gqa,
        pack_gqa_, sm_margin)
    )

_flash_attn_v3_varlen = define(
    "flash_attn_v3_varlen",
    "(Tensor q, Tensor k, Tensor v, Tensor cu_seqlens_q, Tensor cu_seqlens_k, Tensor seqused_q, "
    "Tensor seqused_k, Tensor qv, Tensor q_descale, Tensor k_descale, Tensor v_descale, "
    "Scalar max_seqlen_q, Scalar max_seqlen_k, float softmax_scale, bool causal, "
    "int window_size_left, int window_size_right, float softcap, int num_splits, "
    "bool manual_set_pack_gqa, bool pack_gqa, int sm_margin)", "Tensor(out), Tensor(softmax_lse)",
    traits=("promote_float(q, k, v)", "low_precision"), dtypes=("float",),
    optional=("seqused_q", "seqused_k", "qv", "q_descale", "k_descale", "v_descale")
)
def flash_attn_v3_varlen(
    q: TensorLike, k: TensorLike, v: TensorLike, cu_seqlens_q: TensorLike, cu_seqlens_k: TensorLike,
    seqused_q: TensorLike | None, seqused_k: TensorLike | None, qv: TensorLike | None,
    q_descale: TensorLike | None, k_descale: TensorLike | None, v_descale: TensorLike | None,
    max_seqlen_q: ScalarLike, max_seqlen_k: ScalarLike, softmax_scale: FloatLike, causal: bool,
    window_size_left: int, window_size_right: int, softcap: FloatLike, num_splits: int,
    manual_set_pack_gqa: bool, pack_gqa: bool, sm_margin: int
) -> tuple[Tensor, Tensor]:
    """:func:`flash_attn_v3` of packed sequences, as :func:`flash_attn_unpadded` takes them;
    seqused_q and seqused_k say how many rows of each sequence are in use, and the rest are padding.

    Args:
        q, k, v: tensor, float.
        cu_seqlens_q, cu_seqlens_k: tensor.
        seqused_q, seqused_k, qv, q_descale, k_descale, v_descale: tensor, may be None.
        max_seqlen_q, max_seqlen_k: number or one-element tensor.
        softmax_scale: float or one-element tensor.
        causal: bool.
        window_size_left, window_size_right: int.
        softcap: float or one-element tensor.
        num_splits: int.
        manual_set_pack_gqa, pack_gqa: bool.
        sm_margin: int.

    Returns:
        out, softmax_lse.
    """
    return bind(
        _flash_attn_v3_varlen, (q, k, v, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, qv,
        q_descale, k_descale, v_descale), (max_seqlen_q, max_seqlen_k, softmax_scale, causal,
        window_size_left, window_size_right, softcap, num_splits, manual_set_pack_gqa, pack_gqa,
        sm_margin)
    )

_memory_efficient_attention = define(
    "memory_efficient_attention",
    "(Tensor query, Tensor key, Tensor value, Tensor bias, Tensor cu_seqlens_q, "
    "Tensor cu_seqlens_k, Tensor causal_diagonal, Tensor seqlen_k, Scalar max_seqlen_q, "
    "Scalar max_seqlen_k, bool causal, double dropout_p, float scale, bool is_test)",
    "Tensor(output), Tensor(logsumexp), Tensor(seed_and_offset)",
    traits=("promote_float(query, key, value)", "low_precision"), dtypes=("float",),
    optional=("bias", "cu_seqlens_q", "cu_seqlens_k", "causal_diagonal", "seqlen_k")
)
def memory_efficient_attention(
    query: TensorLike, key: TensorLike, value: TensorLike, bias: TensorLike | None,
    cu_seqlens_q: TensorLike | None, cu_seqlens_k: TensorLike | None,
    causal_diagonal: TensorLike | None, seqlen_k: TensorLike | None, max_seqlen_q: ScalarLike,
    max_seqlen_k: ScalarLike, causal: bool, dropout_p: FloatLike, scale: FloatLike, is_test: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """softmax(scale query key^T + bias) value for each head of [batch, sequence, heads, size]; a
    scale below 0 stands for 1 / sqrt(size). causal: query i of a sequence sees its keys up to i, or
    to i + causal_diagonal of the sequence; seqlen_k says how many keys of each count. With
    cu_seqlens_q and cu_seqlens_k the one batch holds sequences one behind the other. No dropout,
    since there is no key to draw it of; seed_and_offset is zeros.

    Args:
        query, key, value: tensor, float.
        bias, cu_seqlens_q, cu_seqlens_k, causal_diagonal, seqlen_k: tensor, may be None.
        max_seqlen_q, max_seqlen_k: number or one-element tensor.
        causal: bool.
        dropout_p, scale: float or one-element tensor.
        is_test: bool.

    Returns:
        output, logsumexp, seed_and_offset.
    """
    return bind(
        _memory_efficient_attention,
        (query, key, value, bias, cu_seqlens_q, cu_seqlens_k, causal_diagonal, seqlen_k),
        (max_seqlen_q, max_seqlen_k, causal, dropout_p, scale, is_test)
    )


# -- yaml/matching.yaml ----------------------------------------------------------------------------
define = definer("yaml/matching.yaml", family="detection")

_bipartite_match = define(
    "bipartite_match",
    '(Tensor dist_mat, str match_type = "bipartite", float dist_threshold = 0.5)',
    "Tensor(col_to_row_match_indices), Tensor(col_to_row_match_dist)", traits=("promote_float",),
    dtypes=("float",)
)
def bipartite_match(
    dist_mat: TensorLike, match_type: str = "bipartite", dist_threshold: FloatLike = 0.5
) -> tuple[Tensor, Tensor]:
    """Pairs of a row and a column of dist_mat, the largest number first, each row and column once;
    numbers below 1e-6 match nothing. For each column the row, -1 for none, and the number there,
    else 0: [1, columns]. per_prediction: a column without a row then takes the one with the largest
    number, if that is dist_threshold at least.

    Args:
        dist_mat: tensor, float.
        match_type: str.
        dist_threshold: float or one-element tensor.

    Returns:
        col_to_row_match_indices, col_to_row_match_dist.
    """
    return bind(_bipartite_match, (dist_mat,), (match_type, dist_threshold))

_yolo_loss = define(
    "yolo_loss", "(Tensor x, Tensor gt_box, Tensor gt_label, Tensor gt_score, int[] anchors={}, "
    "int[] anchor_mask={}, int class_num =1 , float ignore_thresh=0.7, int downsample_ratio=32, "
    "bool use_label_smooth=true, float scale_x_y=1.0)",
    "Tensor(loss), Tensor(objectness_mask), Tensor(gt_match_mask)", traits=("promote_float(x)",),
    dtypes=("float",), optional=("gt_score",), intermediate=("objectness_mask", "gt_match_mask")
)
def yolo_loss(
    x: TensorLike, gt_box: TensorLike, gt_label: TensorLike, gt_score: TensorLike | None = None,
    anchors: IntArrayLike | None = (), anchor_mask: IntArrayLike | None = (), class_num: int = 1,
    ignore_thresh: FloatLike = 0.7, downsample_ratio: int = 32, use_label_smooth: bool = True,
    scale_x_y: FloatLike = 1.0
) -> Tensor:
    """The loss of each image of predictions x [images, anchors * (5 + class_num), rows, columns]
    (see :func:`yolo_box`), whose anchors anchor_mask numbers, for boxes gt_box [images, boxes, 4]
    of centre, width and height in parts of the image, labels and scores. A box goes to its cell and
    the anchor most like it: cross entropy of the place and distance of the logarithmic sides, times
    (2 - width * height) * score, and cross entropy of the classes (1 / class_num, 1/40 at most,
    smooths them) times score. The confidence is 1 there, and 0 elsewhere but where a prediction
    overlaps a box by more than ignore_thresh. The gradient goes to x alone.

    Args:
        x: tensor, float.
        gt_box, gt_label: tensor.
        gt_score: tensor, may be None.
        anchors, anchor_mask: sequence of ints, may be None.
        class_num: int.
        ignore_thresh: float or one-element tensor.
        downsample_ratio: int.
        use_label_smooth: bool.
        scale_x_y: float or one-element tensor.
    """
    return bind(
        _yolo_loss, (x, gt_box, gt_label, gt_score), (anchors, anchor_mask, class_num,
        ignore_thresh, downsample_ratio, use_label_smooth, scale_x_y)
    )[0]


# -- yaml/matrix_functions.yaml --------------------------------------------------------------------
define = definer("yaml/matrix_functions.yaml", family="linalg")

_matrix_rank = define(
    "matrix_rank", "(Tensor x, float tol, bool use_default_tol=true, bool hermitian=false)",
    "Tensor(out)", traits=("promote_float", "matrices", "nondifferentiable"),
    dtypes=("float32", "float64", "complex")
)
def matrix_rank(
    x: TensorLike, tol: FloatLike, use_default_tol: bool = True, hermitian: bool = False
) -> Tensor:
    """The number (int64) of singular values above tol, or if use_default_tol above eps max(m, n)
    times the largest. hermitian: of the sizes of the eigenvalues of the lower triangle.

    Args:
        x: tensor, float32, float64 or complex.
        tol: float or one-element tensor.
        use_default_tol, hermitian: bool.
    """
    return bind(_matrix_rank, (x,), (tol, use_default_tol, hermitian))

_matrix_rank_tol = define(
    "matrix_rank_tol",
    "(Tensor x, Tensor atol_tensor, bool use_default_tol=true, bool hermitian=false)",
    "Tensor(out)", traits=("promote_float(x)", "matrices", "nondifferentiable"),
    dtypes=("float32", "float64", "complex")
)
def matrix_rank_tol(
    x: TensorLike, atol_tensor: TensorLike, use_default_tol: bool = True, hermitian: bool = False
) -> Tensor:
    """The number (int64) of singular values above atol_tensor and, if use_default_tol, above eps
    max(m, n) times the largest. atol_tensor broadcasts with the axes in front. hermitian: as in
    :func:`matrix_rank`.

    Args:
        x: tensor, float32, float64 or complex.
        atol_tensor: tensor.
        use_default_tol, hermitian: bool.
    """
    return bind(_matrix_rank_tol, (x, atol_tensor), (use_default_tol, hermitian))

_matrix_rank_atol_rtol = define(
    "matrix_rank_atol_rtol", "(Tensor x, Tensor atol, Tensor rtol, bool hermitian=false)",
    "Tensor(out)", traits=("promote_float(x)", "matrices", "nondifferentiable"),
    dtypes=("float32", "float64", "complex"), optional=("rtol",)
)
def matrix_rank_atol_rtol(
    x: TensorLike, atol: TensorLike, rtol: TensorLike | None = None, hermitian: bool = False
) -> Tensor:
    """The number (int64) of singular values above both atol and rtol times the largest; without
    rtol it is eps max(m, n) where atol is 0, else 0. Both broadcast with the axes in front.
    hermitian: as in :func:`matrix_rank`.

    Args:
        x: tensor, float32, float64 or complex.
        atol: tensor.
        rtol: tensor, may be None.
        hermitian: bool.
    """
    return bind(_matrix_rank_atol_rtol, (x, atol, rtol), (hermitian,))

_pinv = define(
    "pinv", "(Tensor x, Tensor rtol, bool hermitian=false)", "Tensor(out)", backward="pinv_grad",
    traits=("promote_float(x)", "matrices"), dtypes=("float32", "float64", "complex")
)
def pinv(x: TensorLike, rtol: TensorLike, hermitian: bool = False) -> Tensor:
    """The Moore-Penrose pseudoinverse v diag(1 / s) u^H, where 1 / s is 0 for a singular value of
    at most rtol times the largest; hermitian: of the lower triangle of x, by eigenvalues.
    Derivatives are those at a rank that stays.

    Args:
        x: tensor, float32, float64 or complex.
        rtol: tensor.
        hermitian: bool.
    """
    return bind(_pinv, (x, rtol), (hermitian,))

_pinv_grad = define(
    "pinv_grad", "(Tensor x, Tensor out, Tensor out_grad, bool hermitian)", "Tensor(x_grad)",
    forward="pinv"
)
def pinv_grad(x, out, out_grad, hermitian):
    """Backward of :func:`pinv`."""
    return bind(_pinv_grad, (x, out, out_grad), (hermitian,))

_lstsq = define(
    "lstsq", '(Tensor x, Tensor y, Scalar rcond=0.0f, str driver="gels")',
    "Tensor(solution), Tensor(residuals), Tensor(rank), Tensor(singular_values)",
    traits=("promote_float", "matrices"), dtypes=("float32", "float64", "complex")
)
def lstsq(
    x: TensorLike, y: TensorLike, rcond: ScalarLike = 0.0, driver: str = "gels"
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The z of least sum(abs(x z - y) ** 2) over rows and, of several, the shortest; that least sum
    for each column of y where x [..., m, n] has m > n, else empty. Driver gels takes x to be of
    full rank, by :func:`qr`; gelsy, gelsd and gelss count singular values above rcond (if negative,
    eps) times the largest: rank, int32. What a driver does not find is empty: rank and singular
    values of gels, singular values of gelsy.

    Args:
        x, y: tensor, float32, float64 or complex.
        rcond: number or one-element tensor.
        driver: str.

    Returns:
        solution, residuals, rank, singular_values.
    """
    return bind(_lstsq, (x, y), (rcond, driver))

_expm = define(
    "expm", "(Tensor x)", "Tensor(out)", backward="expm_grad", traits=("promote_float", "matrices"),
    dtypes=("float32", "float64", "complex")
)
def expm(x: TensorLike) -> Tensor:
    """The exponential of a matrix, the sum of x^k / k!, by a Pade approximant of x / 2^s, squared s
    times.

    Args:
        x: tensor, float32, float64 or complex.
    """
    return bind(_expm, (x,), ())

_expm_grad = define("expm_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="expm")
def expm_grad(x, out_grad):
    """Backward of :func:`expm`."""
    return bind(_expm_grad, (x, out_grad), ())

_sqrtm = define(
    "sqrtm", "(Tensor x)", "Tensor(out)", backward="sqrtm_grad",
    traits=("promote_float", "matrices"), dtypes=("float32", "float64", "complex")
)
def sqrtm(x: TensorLike) -> Tensor:
    """The principal square root of a matrix, out @ out = x with eigenvalues to the right of the
    imaginary axis, by Denman and Beavers' iteration. nan where x is singular, or has an eigenvalue
    below 0.

    Args:
        x: tensor, float32, float64 or complex.
    """
    return bind(_sqrtm, (x,), ())

_sqrtm_grad = define("sqrtm_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="sqrtm")
def sqrtm_grad(x, out_grad):
    """Backward of :func:`sqrtm`."""
    return bind(_sqrtm_grad, (x, out_grad), ())


# -- yaml/measures.yaml ----------------------------------------------------------------------------
define = definer("yaml/measures.yaml", family="statistics")

_auc = define(
    "auc", "(Tensor x, Tensor label, Tensor stat_pos, Tensor stat_neg, Tensor ins_tag_weight, "
    'str curve = "ROC", int num_thresholds = (2 << 12) - 1, int slide_steps = 1)',
    "Tensor(auc), Tensor(stat_pos_out), Tensor(stat_neg_out)",
    traits=("promote_float(x)", "nondifferentiable"), dtypes=("float",),
    optional=("ins_tag_weight",)
)
def auc(
    x: TensorLike, label: TensorLike, stat_pos: TensorLike, stat_neg: TensorLike,
    ins_tag_weight: TensorLike | None = None, curve: str = "ROC", num_thresholds: int = 8191,
    slide_steps: int = 1
) -> tuple[Tensor, Tensor, Tensor]:
    """The area under the curve of true over false positives, float64[], by counts of labels above 0
    and equal to 0 in the bins trunc(x num_thresholds) of predictions x [rows, 1 or 2], the last
    column of which counts, clipped to [0, 1]. stat_pos and stat_neg, int64s, go on: [num_thresholds
    + 1] counts with slide_steps 0; else those of the last slide_steps calls, their sum, which the
    area is of, and the number of calls. A call whose first ins_tag_weight is 0 adds to no sum.

    Args:
        x: tensor, float.
        label, stat_pos, stat_neg: tensor.
        ins_tag_weight: tensor, may be None.
        curve: str.
        num_thresholds, slide_steps: int.

    Returns:
        auc, stat_pos_out, stat_neg_out.
    """
    return bind(
        _auc, (x, label, stat_pos, stat_neg, ins_tag_weight), (curve, num_thresholds, slide_steps)
    )

_check_numerics = define(
    "check_numerics",
    '(Tensor tensor, str op_type = "", str var_name = "", int check_nan_inf_level = 0, '
    'int stack_height_limit = -1, str output_dir = "")', "Tensor(stats), Tensor(values)",
    traits=("nondifferentiable", "promote_float"), dtypes=("float",)
)
def check_numerics(
    tensor: TensorLike, op_type: str = "", var_name: str = "", check_nan_inf_level: int = 0,
    stack_height_limit: int = -1, output_dir: str = ""
) -> tuple[Tensor, Tensor]:
    """stats, int64[3]: how many elements are NaN, infinite and 0; values, float32[3]: the largest
    and the least of those that are no NaN, and the mean of all. It prints and raises nothing, and
    the attributes say nothing: phix.debug has blocks that raise where a NaN arises.

    Args:
        tensor: tensor, float.
        op_type, var_name: str.
        check_nan_inf_level, stack_height_limit: int.
        output_dir: str.

    Returns:
        stats, values.
    """
    return bind(
        _check_numerics, (tensor,),
        (op_type, var_name, check_nan_inf_level, stack_height_limit, output_dir)
    )


# -- yaml/norm.yaml --------------------------------------------------------------------------------
define = definer("yaml/norm.yaml", family="norm")

_p_norm = define(
    "p_norm", "(Tensor x, float porder=2, int axis=-1, float epsilon=1.0e-12f, bool keepdim=false, "
    "bool asvector=false)", "Tensor(out)", backward="p_norm_grad",
    traits=("promote_float", "full_precision"), dtypes=("float",)
)
def p_norm(
    x: TensorLike, porder: FloatLike = 2.0, axis: int = -1, epsilon: FloatLike = 1e-12,
    keepdim: bool = False, asvector: bool = False
) -> Tensor:
    """sum(abs(x) ** porder) ** (1 / porder) along the axis, or of all elements if asvector; for inf
    and -inf the largest and smallest abs(x), for 0 the number of elements that are not 0. The
    gradient is 0 where x is 0; ties share it. epsilon is not needed.

    Args:
        x: tensor, float.
        porder: float or one-element tensor.
        axis: int.
        epsilon: float or one-element tensor.
        keepdim, asvector: bool.
    """
    return bind(_p_norm, (x,), (porder, axis, epsilon, keepdim, asvector))

_p_norm_grad = define(
    "p_norm_grad",
    "(Tensor x, Tensor out, Tensor out_grad, float porder, int axis, float epsilon, bool keepdim, "
    "bool asvector)", "Tensor(x_grad)", forward="p_norm"
)
def p_norm_grad(x, out, out_grad, porder, axis, epsilon, keepdim, asvector):
    """Backward of :func:`p_norm`."""
    return bind(_p_norm_grad, (x, out, out_grad), (porder, axis, epsilon, keepdim, asvector))

_squared_l2_norm = define(
    "squared_l2_norm", "(Tensor x)", "Tensor(out)", backward="squared_l2_norm_grad",
    traits=("promote_float", "full_precision"), dtypes=("float",)
)
def squared_l2_norm(x: TensorLike) -> Tensor:
    """sum(x ** 2) of all elements, a 0-d tensor.

    Args:
        x: tensor, float.
    """
    return bind(_squared_l2_norm, (x,), ())

_squared_l2_norm_grad = define(
    "squared_l2_norm_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)",
    forward="squared_l2_norm"
)
def squared_l2_norm_grad(x, out_grad):
    """Backward of :func:`squared_l2_norm`."""
    return bind(_squared_l2_norm_grad, (x, out_grad), ())

_norm = define(
    "norm", "(Tensor x, int axis, float epsilon, bool is_test)", "Tensor(out), Tensor(norm)",
    traits=("promote_float", "full_precision"), dtypes=("float",), intermediate=("norm",)
)
def norm(x: TensorLike, axis: int, epsilon: FloatLike, is_test: bool) -> Tensor:
    """x / sqrt(sum(x ** 2) + epsilon) along the axis, 0 where that root is. is_test changes
    nothing.

    Args:
        x: tensor, float.
        axis: int.
        epsilon: float or one-element tensor.
        is_test: bool.
    """
    return bind(_norm, (x,), (axis, epsilon, is_test))[0]

_dist = define(
    "dist", "(Tensor x, Tensor y, float p=2.0)", "Tensor(out)",
    traits=("promote_float", "full_precision"), dtypes=("float",)
)
def dist(x: TensorLike, y: TensorLike, p: FloatLike = 2.0) -> Tensor:
    """The p-norm of all elements of x - y, a 0-d tensor: see :func:`p_norm`. Inputs broadcast.

    Args:
        x, y: tensor, float.
        p: float or one-element tensor.
    """
    return bind(_dist, (x, y), (p,))

_renorm = define(
    "renorm", "(Tensor x, float p, int axis, float max_norm)", "Tensor(out)",
    traits=("promote_float", "full_precision"), dtypes=("float",), inplace=(("x", "out"),)
)
def renorm(x: TensorLike, p: FloatLike, axis: int, max_norm: FloatLike) -> Tensor:
    """x with each slice along the axis whose p-norm is above max_norm scaled to have that norm.

    Args:
        x: tensor, float.
        p: float or one-element tensor.
        axis: int.
        max_norm: float or one-element tensor.
    """
    return bind(_renorm, (x,), (p, axis, max_norm))

def renorm_(x: TensorLike, p: FloatLike, axis: int, max_norm: FloatLike) -> Tensor:
    """:func:`renorm` in the memory of x, not to be used after it."""
    return bind_in_place(_renorm, (x,), (p, axis, max_norm))

_spectral_norm = define(
    "spectral_norm",
    "(Tensor weight, Tensor u, Tensor v, int dim = 0, int power_iters = 1, float eps = 1e-12f)",
    "Tensor(out)", traits=("promote_float", "full_precision"), dtypes=("float",)
)
def spectral_norm(
    weight: TensorLike, u: TensorLike, v: TensorLike, dim: int = 0, power_iters: int = 1,
    eps: FloatLike = 1e-12
) -> Tensor:
    """weight / (u @ W @ v), the largest singular value: W [h, w] is weight with the axis dim first
    and the others as one, and u [h], v [w] are first led to its singular vectors by power_iters
    steps v = W^T u, u = W v, each over its length + eps. No gradient goes through u and v.

    Args:
        weight, u, v: tensor, float.
        dim, power_iters: int.
        eps: float or one-element tensor.
    """
    return bind(_spectral_norm, (weight, u, v), (dim, power_iters, eps))


# -- yaml/normalisation.yaml -----------------------------------------------------------------------
define = definer("yaml/normalisation.yaml", family="normalisation")

_layer_norm = define(
    "layer_norm",
    "(Tensor x, Tensor scale, Tensor bias, float epsilon = 1e-5, int begin_norm_axis = 1)",
    "Tensor(out), Tensor(mean), Tensor(variance)", backward="layer_norm_grad",
    traits=("promote_float", "full_precision"), dtypes=("float",), optional=("scale", "bias"),
    intermediate=("mean", "variance")
)
def layer_norm(
    x: TensorLike, scale: TensorLike | None = None, bias: TensorLike | None = None,
    epsilon: FloatLike = 1e-05, begin_norm_axis: int = 1
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, mean and variance taken over the axes
    of x from begin_norm_axis on; scale and bias have an element for each position on those axes.

    Args:
        x: tensor, float.
        scale, bias: tensor, float, may be None.
        epsilon: float or one-element tensor.
        begin_norm_axis: int.
    """
    return bind(_layer_norm, (x, scale, bias), (epsilon, begin_norm_axis))[0]

_layer_norm_grad = define(
    "layer_norm_grad",
    "(Tensor x, Tensor scale, Tensor bias, Tensor mean, Tensor variance, Tensor out_grad, "
    "Tensor mean_grad, Tensor variance_grad, float epsilon = 1e-5, int begin_norm_axis = 1)",
    "Tensor(x_grad), Tensor(scale_grad), Tensor(bias_grad)",
    optional=("scale", "bias", "mean_grad", "variance_grad"), no_need_buffer=("bias",),
    forward="layer_norm"
)
def layer_norm_grad(
    x, scale, bias, mean, variance, out_grad, mean_grad=None, variance_grad=None, epsilon=1e-05,
    begin_norm_axis=1
):
    """Backward of :func:`layer_norm`."""
    return bind(
        _layer_norm_grad, (x, scale, bias, mean, variance, out_grad, mean_grad, variance_grad),
        (epsilon, begin_norm_axis)
    )

_rms_norm = define(
    "rms_norm", "(Tensor x, Tensor bias, Tensor residual, Tensor norm_weight, Tensor norm_bias, "
    "float epsilon, int begin_norm_axis, float quant_scale=-1, int quant_round_type=0, "
    "float quant_max_bound=0, float quant_min_bound=0)",
    "Tensor(out), Tensor(residual_out), Tensor(inv_var)", backward="rms_norm_grad",
    traits=("promote_float", "full_precision"), dtypes=("float",),
    optional=("bias", "residual", "norm_weight", "norm_bias"), intermediate=("inv_var",)
)
def rms_norm(
    x: TensorLike, bias: TensorLike | None, residual: TensorLike | None,
    norm_weight: TensorLike | None, norm_bias: TensorLike | None, epsilon: FloatLike,
    begin_norm_axis: int, quant_scale: FloatLike = -1.0, quant_round_type: int = 0,
    quant_max_bound: FloatLike = 0.0, quant_min_bound: FloatLike = 0.0
) -> tuple[Tensor, Tensor]:
    """v / sqrt(mean(v ** 2) + epsilon) * norm_weight + norm_bias with v = x + bias + residual,
    which is the second result; the mean is over the axes from begin_norm_axis on. Nothing is
    quantised.

    Args:
        x: tensor, float.
        bias, residual, norm_weight, norm_bias: tensor, float, may be None.
        epsilon: float or one-element tensor.
        begin_norm_axis: int.
        quant_scale: float or one-element tensor.
        quant_round_type: int.
        quant_max_bound, quant_min_bound: float or one-element tensor.

    Returns:
        out, residual_out.
    """
    return bind(
        _rms_norm, (x, bias, residual, norm_weight, norm_bias),
        (epsilon, begin_norm_axis, quant_scale, quant_round_type, quant_max_bound, quant_min_bound)
    )[:2]

_rms_norm_grad = define(
    "rms_norm_grad",
    "(Tensor bias, Tensor residual, Tensor norm_weight, Tensor norm_bias, Tensor residual_out, "
    "Tensor inv_var, Tensor out_grad, Tensor residual_out_grad, Tensor inv_var_grad, "
    "float epsilon, int begin_norm_axis)",
    "Tensor(x_grad), Tensor(bias_grad), Tensor(residual_grad), Tensor(norm_weight_grad), "
    "Tensor(norm_bias_grad)",
    optional=("bias", "residual", "norm_weight", "norm_bias", "residual_out_grad", "inv_var_grad"),
    no_need_buffer=("bias", "residual", "norm_bias"), forward="rms_norm"
)
def rms_norm_grad(
    bias, residual, norm_weight, norm_bias, residual_out, inv_var, out_grad, residual_out_grad,
    inv_var_grad, epsilon, begin_norm_axis
):
    """Backward of :func:`rms_norm`."""
    return bind(
        _rms_norm_grad, (bias, residual, norm_weight, norm_bias, residual_out, inv_var, out_grad,
        residual_out_grad, inv_var_grad), (epsilon, begin_norm_axis)
    )

_batch_norm = define(
    "batch_norm",
    "(Tensor x, Tensor mean, Tensor variance, Tensor scale, Tensor bias, bool is_test=false, "
    'float momentum=0.9f, float epsilon=1e-5f, str data_format="NCHW", '
    "bool use_global_stats=false, bool trainable_statistics=false)",
    "Tensor(out), Tensor(mean_out), Tensor(variance_out), Tensor(saved_mean), "
    "Tensor(saved_variance)", backward="batch_norm_grad",
    traits=("promote_float", "full_precision"), dtypes=("float",), optional=("scale", "bias")
)
def batch_norm(
    x: TensorLike, mean: TensorLike, variance: TensorLike, scale: TensorLike | None = None,
    bias: TensorLike | None = None, is_test: bool = False, momentum: FloatLike = 0.9,
    epsilon: FloatLike = 1e-05, data_format: str = "NCHW", use_global_stats: bool = False,
    trainable_statistics: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """(x - m) / sqrt(v + epsilon) * scale + bias for each channel. In training m and v are the mean
    and the (biased) variance of x, and mean_out = momentum * mean + (1 - momentum) * m, the same
    for variance_out; else m and v are mean and variance. saved_mean is m, saved_variance is 1 /
    sqrt(v + epsilon). PHI's last output, reserve_space, is scratch memory and left out.

    Args:
        x, mean, variance: tensor, float.
        scale, bias: tensor, float, may be None.
        is_test: bool.
        momentum, epsilon: float or one-element tensor.
        data_format: str.
        use_global_stats, trainable_statistics: bool.

    Returns:
        out, mean_out, variance_out, saved_mean, saved_variance.
    """
    return bind(
        _batch_norm, (x, mean, variance, scale, bias),
        (is_test, momentum, epsilon, data_format, use_global_stats, trainable_statistics)
    )

_batch_norm_grad = define(
    "batch_norm_grad",
    "(Tensor x, Tensor scale, Tensor bias, Tensor saved_mean, Tensor saved_variance, "
    "Tensor out_grad, Tensor mean_out_grad, Tensor variance_out_grad, Tensor saved_mean_grad, "
    "Tensor saved_variance_grad, float momentum, float epsilon, str data_format, bool is_test, "
    "bool use_global_stats, bool trainable_statistics)",
    "Tensor(x_grad), Tensor(mean_grad), Tensor(variance_grad), Tensor(scale_grad), "
    "Tensor(bias_grad)", optional=("scale", "bias", "mean_out_grad", "variance_out_grad",
    "saved_mean_grad", "saved_variance_grad"), no_need_buffer=("bias",), forward="batch_norm"
)
def batch_norm_grad(
    x, scale, bias, saved_mean, saved_variance, out_grad, mean_out_grad, variance_out_grad,
    saved_mean_grad, saved_variance_grad, momentum, epsilon, data_format, is_test, use_global_stats,
    trainable_statistics
):
    """Backward of :func:`batch_norm`."""
    return bind(
        _batch_norm_grad, (x, scale, bias, saved_mean, saved_variance, out_grad, mean_out_grad,
        variance_out_grad, saved_mean_grad, saved_variance_grad),
        (momentum, epsilon, data_format, is_test, use_global_stats, trainable_statistics)
    )

_sync_batch_norm_ = define(
    "sync_batch_norm_",
    "(Tensor x, Tensor mean, Tensor variance, Tensor scale, Tensor bias, bool is_test, "
    "float momentum, float epsilon, str data_format, bool use_global_stats, "
    "bool trainable_statistics)",
    "Tensor(out), Tensor(mean_out), Tensor(variance_out), Tensor(saved_mean), "
    "Tensor(saved_variance)", traits=("promote_float", "full_precision"), dtypes=("float",),
    invoke="batch_norm(x, mean, variance, scale, bias, is_test, momentum, epsilon, data_format, "
    "use_global_stats, trainable_statistics)",
    inplace=(("mean", "mean_out"), ("variance", "variance_out"))
)
def sync_batch_norm_(
    x: TensorLike, mean: TensorLike, variance: TensorLike, scale: TensorLike, bias: TensorLike,
    is_test: bool, momentum: FloatLike, epsilon: FloatLike, data_format: str,
    use_global_stats: bool, trainable_statistics: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """:func:`batch_norm` over the batches of all processes, which in one process is that of its
    own. PHI's last output, reserve_space, is scratch memory and left out.

    Args:
        x, mean, variance, scale, bias: tensor, float.
        is_test: bool.
        momentum, epsilon: float or one-element tensor.
        data_format: str.
        use_global_stats, trainable_statistics: bool.

    Returns:
        out, mean_out, variance_out, saved_mean, saved_variance.
    """
    return bind_in_place(
        _sync_batch_norm_, (x, mean, variance, scale, bias),
        (is_test, momentum, epsilon, data_format, use_global_stats, trainable_statistics)
    )

_instance_norm = define(
    "instance_norm", "(Tensor x, Tensor scale, Tensor bias, float epsilon=1e-5)",
    "Tensor(y), Tensor(saved_mean), Tensor(saved_variance)", backward="instance_norm_grad",
    traits=("promote_float", "full_precision"), dtypes=("float",), optional=("scale", "bias"),
    intermediate=("saved_mean", "saved_variance")
)
def instance_norm(
    x: TensorLike, scale: TensorLike | None = None, bias: TensorLike | None = None,
    epsilon: FloatLike = 1e-05
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, mean and variance taken over the
    positions of each channel of each image; x is [n, c, ...], or [n, c] for images of one element.

    Args:
        x: tensor, float.
        scale, bias: tensor, float, may be None.
        epsilon: float or one-element tensor.
    """
    return bind(_instance_norm, (x, scale, bias), (epsilon,))[0]

_instance_norm_grad = define(
    "instance_norm_grad",
    "(Tensor x, Tensor scale, Tensor bias, Tensor saved_mean, Tensor saved_variance, "
    "Tensor y_grad, Tensor saved_mean_grad, Tensor saved_variance_grad, float epsilon=1e-5)",
    "Tensor(x_grad), Tensor(scale_grad), Tensor(bias_grad)",
    optional=("scale", "bias", "saved_mean_grad", "saved_variance_grad"), no_need_buffer=("bias",),
    forward="instance_norm"
)
def instance_norm_grad(
    x, scale, bias, saved_mean, saved_variance, y_grad, saved_mean_grad=None,
    saved_variance_grad=None, epsilon=1e-05
):
    """Backward of :func:`instance_norm`."""
    return bind(
        _instance_norm_grad,
        (x, scale, bias, saved_mean, saved_variance, y_grad, saved_mean_grad, saved_variance_grad),
        (epsilon,)
    )

_group_norm = define(
    "group_norm", "(Tensor x, Tensor scale, Tensor bias, float epsilon = 1e-5, int groups = -1, "
    'str data_format = "NCHW")', "Tensor(y), Tensor(mean), Tensor(variance)",
    backward="group_norm_grad", traits=("promote_float", "full_precision"), dtypes=("float",),
    optional=("scale", "bias"), intermediate=("mean", "variance")
)
def group_norm(
    x: TensorLike, scale: TensorLike | None = None, bias: TensorLike | None = None,
    epsilon: FloatLike = 1e-05, groups: int = -1, data_format: str = "NCHW"
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, mean and variance taken over the
    positions and channels of each group of each image.

    Args:
        x: tensor, float.
        scale, bias: tensor, float, may be None.
        epsilon: float or one-element tensor.
        groups: int.
        data_format: str.
    """
    return bind(_group_norm, (x, scale, bias), (epsilon, groups, data_format))[0]

_group_norm_grad = define(
    "group_norm_grad",
    "(Tensor x, Tensor scale, Tensor bias, Tensor mean, Tensor variance, Tensor y_grad, "
    "Tensor mean_grad, Tensor variance_grad, float epsilon, int groups, str data_format)",
    "Tensor(x_grad), Tensor(scale_grad), Tensor(bias_grad)",
    optional=("scale", "bias", "mean_grad", "variance_grad"), no_need_buffer=("bias",),
    forward="group_norm"
)
def group_norm_grad(
    x, scale, bias, mean, variance, y_grad, mean_grad, variance_grad, epsilon, groups, data_format
):
    """Backward of :func:`group_norm`."""
    return bind(
        _group_norm_grad, (x, scale, bias, mean, variance, y_grad, mean_grad, variance_grad),
        (epsilon, groups, data_format)
    )


# -- yaml/optimizers.yaml --------------------------------------------------------------------------
define = definer("yaml/optimizers.yaml", family="optimizers")

_sgd_ = define(
    "sgd_", "(Tensor param, Tensor learning_rate, Tensor grad, Tensor master_param, "
    "bool multi_precision=false)", "Tensor(param_out), Tensor(master_param_out)",
    traits=("promote(param)", "full_precision"), dtypes=("float",),
    optional=("master_param", "master_param_out"),
    inplace=(("param", "param_out"), ("master_param", "master_param_out")),
    kernel={"func": (("sgd", ("dense", "dense", "dense", "dense"), ("dense", "dense")),
    ("sgd_dense_param_sparse_grad", ("dense", "dense", "selected_rows", "dense"),
    ("dense", "dense")))}
)
def sgd_(
    param: TensorLike, learning_rate: TensorLike, grad: TensorLike,
    master_param: TensorLike | None = None, multi_precision: bool = False
) -> tuple[Tensor, Tensor | None]:
    """One step of gradient descent, param - learning_rate * grad. With multi_precision the weights
    are those of master_param, and param_out is their copy in the dtype of param.

    Args:
        param: tensor, float.
        learning_rate, grad: tensor.
        master_param: tensor, may be None.
        multi_precision: bool.

    Returns:
        param_out, master_param_out.
    """
    return bind_in_place(_sgd_, (param, learning_rate, grad, master_param), (multi_precision,))

_momentum_ = define(
    "momentum_",
    "(Tensor param, Tensor grad, Tensor velocity, Tensor learning_rate, Tensor master_param, "
    'float mu, bool use_nesterov = false, str regularization_method = "", '
    "float regularization_coeff = 0.0f, bool multi_precision = false, float rescale_grad = 1.0f)",
    "Tensor(param_out), Tensor(velocity_out), Tensor(master_param_out)",
    traits=("promote(param)", "full_precision"), dtypes=("float",),
    optional=("master_param", "master_param_out"), inplace=(("param", "param_out"),
    ("velocity", "velocity_out"), ("master_param", "master_param_out")),
    kernel={"func": (("momentum", ("dense", "dense", "dense", "dense", "dense"),
    ("dense", "dense", "dense")), ("momentum_dense_param_sparse_grad",
    ("dense", "selected_rows", "dense", "dense", "dense"), ("dense", "dense", "dense")))}
)
def momentum_(
    param: TensorLike, grad: TensorLike, velocity: TensorLike, learning_rate: TensorLike,
    master_param: TensorLike | None, mu: FloatLike, use_nesterov: bool = False,
    regularization_method: str = "", regularization_coeff: FloatLike = 0.0,
    multi_precision: bool = False, rescale_grad: FloatLike = 1.0
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Descent with momentum: velocity_out = mu * velocity + g, and param goes along it by
    -learning_rate, or along g + mu * velocity_out with use_nesterov. g is grad * rescale_grad, plus
    regularization_coeff * param if regularization_method is l2_decay.

    Args:
        param: tensor, float.
        grad, velocity, learning_rate: tensor.
        master_param: tensor, may be None.
        mu: float or one-element tensor.
        use_nesterov: bool.
        regularization_method: str.
        regularization_coeff: float or one-element tensor.
        multi_precision: bool.
        rescale_grad: float or one-element tensor.

    Returns:
        param_out, velocity_out, master_param_out.
    """
    return bind_in_place(
        _momentum_, (param, grad, velocity, learning_rate, master_param), (mu, use_nesterov,
        regularization_method, regularization_coeff, multi_precision, rescale_grad)
    )

_asgd_ = define(
    "asgd_", "(Tensor param, Tensor grad, Tensor learning_rate, Tensor d, Tensor y, Tensor n, "
    "Tensor master_param, bool multi_precision=false)",
    "Tensor(param_out), Tensor(d_out), Tensor(y_out), Tensor(master_param_out)",
    traits=("promote(param)", "full_precision"), dtypes=("float",),
    optional=("master_param", "master_param_out"), inplace=(("param", "param_out"), ("d", "d_out"),
    ("y", "y_out"), ("master_param", "master_param_out"))
)
def asgd_(
    param: TensorLike, grad: TensorLike, learning_rate: TensorLike, d: TensorLike, y: TensorLike,
    n: TensorLike, master_param: TensorLike | None = None, multi_precision: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Descent along the mean of the last n gradients: d is their sum, y the one that leaves it, so
    d_out = d - y + grad, y_out = grad and param_out = param - learning_rate / n * d_out.

    Args:
        param: tensor, float.
        grad, learning_rate, d, y, n: tensor.
        master_param: tensor, may be None.
        multi_precision: bool.

    Returns:
        param_out, d_out, y_out, master_param_out.
    """
    return bind_in_place(
        _asgd_, (param, grad, learning_rate, d, y, n, master_param), (multi_precision,)
    )

_rprop_ = define(
    "rprop_", "(Tensor param, Tensor grad, Tensor prev, Tensor learning_rate, Tensor master_param, "
    "Tensor learning_rate_range, Tensor etas, bool multi_precision=false)",
    "Tensor(param_out), Tensor(prev_out), Tensor(learning_rate_out), Tensor(master_param_out)",
    traits=("promote(param)", "full_precision"), dtypes=("float",),
    optional=("master_param", "master_param_out"), inplace=(("param", "param_out"),
    ("prev", "prev_out"), ("learning_rate", "learning_rate_out"),
    ("master_param", "master_param_out"))
)
def rprop_(
    param: TensorLike, grad: TensorLike, prev: TensorLike, learning_rate: TensorLike,
    master_param: TensorLike | None, learning_rate_range: TensorLike, etas: TensorLike,
    multi_precision: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Resilient propagation: each weight has a learning rate, which grows by etas[1] where grad has
    the sign of prev, shrinks by etas[0] where it has the other one (that grad counts as 0), stays
    within learning_rate_range, and is how far the weight goes against the sign of grad.

    Args:
        param: tensor, float.
        grad, prev, learning_rate: tensor.
        master_param: tensor, may be None.
        learning_rate_range, etas: tensor.
        multi_precision: bool.

    Returns:
        param_out, prev_out, learning_rate_out, master_param_out.
    """
    return bind_in_place(
        _rprop_, (param, grad, prev, learning_rate, master_param, learning_rate_range, etas),
        (multi_precision,)
    )

_adagrad_ = define(
    "adagrad_",
    "(Tensor param, Tensor grad, Tensor moment, Tensor learning_rate, Tensor master_param, "
    "float epsilon = 1.0e-6f, bool multi_precision = false)",
    "Tensor(param_out), Tensor(moment_out), Tensor(master_param_out)",
    traits=("promote(param)", "full_precision"), dtypes=("float",),
    optional=("master_param", "master_param_out"), inplace=(("param", "param_out"),
    ("moment", "moment_out"), ("master_param", "master_param_out")), kernel={"func": (("adagrad",
    ("dense", "dense", "dense", "dense", "dense"), ("dense", "dense", "dense")),
    ("adagrad_dense_param_sparse_grad", ("dense", "selected_rows", "dense", "dense", "dense"),
    ("dense", "dense", "dense")))}
)
def adagrad_(
    param: TensorLike, grad: TensorLike, moment: TensorLike, learning_rate: TensorLike,
    master_param: TensorLike | None = None, epsilon: FloatLike = 1e-06,
    multi_precision: bool = False
) -> tuple[Tensor, Tensor, Tensor | None]:
    """moment_out = moment + grad ** 2, and param_out = param - learning_rate * grad /
    (sqrt(moment_out) + epsilon).

    Args:
        param: tensor, float.
        grad, moment, learning_rate: tensor.
        master_param: tensor, may be None.
        epsilon: float or one-element tensor.
        multi_precision: bool.

    Returns:
        param_out, moment_out, master_param_out.
    """
    return bind_in_place(
        _adagrad_, (param, grad, moment, learning_rate, master_param), (epsilon, multi_precision)
    )

_decayed_adagrad = define(
    "decayed_adagrad",
    "(Tensor param, Tensor grad, Tensor moment, Tensor learning_rate, float decay = 0.95f, "
    "float epsilon = 1.0e-6f)", "Tensor(param_out), Tensor(moment_out)",
    traits=("promote(param)", "full_precision"), dtypes=("float",)
)
def decayed_adagrad(
    param: TensorLike, grad: TensorLike, moment: TensorLike, learning_rate: TensorLike,
    decay: FloatLike = 0.95, epsilon: FloatLike = 1e-06
) -> tuple[Tensor, Tensor]:
    """moment_out = decay * moment + (1 - decay) * grad ** 2, and param_out = param - learning_rate
    * grad / (sqrt(moment_out) + epsilon).

    Args:
        param: tensor, float.
        grad, moment, learning_rate: tensor.
        decay, epsilon: float or one-element tensor.

    Returns:
        param_out, moment_out.
    """
    return bind(_decayed_adagrad, (param, grad, moment, learning_rate), (decay, epsilon))

_adadelta_ = define(
    "adadelta_", "(Tensor param, Tensor grad, Tensor avg_squared_grad, Tensor avg_squared_update, "
    "Tensor learning_rate, Tensor master_param, float rho = 0.95f, float epsilon = 1.0e-6f, "
    "bool multi_precision = false)",
    "Tensor(param_out), Tensor(moment_out), Tensor(inf_norm_out), Tensor(master_param_out)",
    traits=("promote(param)", "full_precision"), dtypes=("float",),
    optional=("master_param", "master_param_out"), inplace=(("param", "param_out"),
    ("avg_squared_grad", "moment_out"), ("avg_squared_update", "inf_norm_out"),
    ("master_param", "master_param_out"))
)
def adadelta_(
    param: TensorLike, grad: TensorLike, avg_squared_grad: TensorLike,
    avg_squared_update: TensorLike, learning_rate: TensorLike,
    master_param: TensorLike | None = None, rho: FloatLike = 0.95, epsilon: FloatLike = 1e-06,
    multi_precision: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """param_out = param - learning_rate * u with u = sqrt((avg_squared_update + epsilon) /
    (moment_out + epsilon)) * grad; moment_out and inf_norm_out are rho * avg_squared_grad + (1 -
    rho) * grad ** 2 and rho * avg_squared_update + (1 - rho) * u ** 2.

    Args:
        param: tensor, float.
        grad, avg_squared_grad, avg_squared_update, learning_rate: tensor.
        master_param: tensor, may be None.
        rho, epsilon: float or one-element tensor.
        multi_precision: bool.

    Returns:
        param_out, moment_out, inf_norm_out, master_param_out.
    """
    return bind_in_place(
        _adadelta_,
        (param, grad, avg_squared_grad, avg_squared_update, learning_rate, master_param),
        (rho, epsilon, multi_precision)
    )

_rmsprop_ = define(
    "rmsprop_",
    "(Tensor param, Tensor mean_square, Tensor grad, Tensor moment, Tensor learning_rate, "
    "Tensor mean_grad, Tensor master_param, float epsilon = 1.0e-10f, float decay = 0.9f, "
    "float momentum = 0.0f, bool centered = false, bool multi_precision = false)",
    "Tensor(param_out), Tensor(moment_out), Tensor(mean_square_out), Tensor(mean_grad_out), "
    "Tensor(master_param_outs)", traits=("promote(param)", "full_precision"), dtypes=("float",),
    optional=("mean_grad", "master_param", "mean_grad_out", "master_param_outs"),
    inplace=(("param", "param_out"), ("moment", "moment_out"), ("mean_square", "mean_square_out"),
    ("mean_grad", "mean_grad_out"), ("master_param", "master_param_outs")),
    kernel={"func": (("rmsprop", ("dense", "dense", "dense", "dense", "dense", "dense", "dense"),
    ("dense", "dense", "dense", "dense", "dense")), ("rmsprop_dense_param_sparse_grad",
    ("dense", "dense", "selected_rows", "dense", "dense", "dense", "dense"),
    ("dense", "dense", "dense", "dense", "dense")))}
)
def rmsprop_(
    param: TensorLike, mean_square: TensorLike, grad: TensorLike, moment: TensorLike,
    learning_rate: TensorLike, mean_grad: TensorLike | None = None,
    master_param: TensorLike | None = None, epsilon: FloatLike = 1e-10, decay: FloatLike = 0.9,
    momentum: FloatLike = 0.0, centered: bool = False, multi_precision: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    """moment_out = momentum * moment + learning_rate * grad / sqrt(v + epsilon), and param_out =
    param - moment_out; v is mean_square_out, decay * mean_square + (1 - decay) * grad ** 2, less
    mean_grad_out ** 2 (the same of grad itself) if it is centered.

    Args:
        param: tensor, float.
        mean_square, grad, moment, learning_rate: tensor.
        mean_grad, master_param: tensor, may be None.
        epsilon, decay, momentum: float or one-element tensor.
        centered, multi_precision: bool.

    Returns:
        param_out, moment_out, mean_square_out, mean_grad_out, master_param_outs.
    """
    return bind_in_place(
        _rmsprop_, (param, mean_square, grad, moment, learning_rate, mean_grad, master_param),
        (epsilon, decay, momentum, centered, multi_precision)
    )

_ftrl = define(
    "ftrl", "(Tensor param, Tensor squared_accumulator, Tensor linear_accumulator, Tensor grad, "
    "Tensor learning_rate, float l1=0.0f, float l2=0.0f, float lr_power=-0.5f)",
    "Tensor(param_out), Tensor(squared_accum_out), Tensor(linear_accum_out)",
    traits=("promote(param)", "full_precision"), dtypes=("float",), kernel={"func": (("ftrl",
    ("dense", "dense", "dense", "dense", "dense"), ("dense", "dense", "dense")), ("ftrl_sr",
    ("dense", "dense", "dense", "selected_rows", "dense"), ("dense", "dense", "dense")))}
)
def ftrl(
    param: TensorLike, squared_accumulator: TensorLike, linear_accumulator: TensorLike,
    grad: TensorLike, learning_rate: TensorLike, l1: FloatLike = 0.0, l2: FloatLike = 0.0,
    lr_power: FloatLike = -0.5
) -> tuple[Tensor, Tensor, Tensor]:
    """Follow the regularized leader: with s the squared_accumulator, s' = s + grad ** 2, r the
    learning_rate and z = linear_accumulator + grad - (s' ** -lr_power - s ** -lr_power) / r *
    param, param_out is (l1 * sign(z) - z) / (s' ** -lr_power / r + 2 * l2) where abs(z) > l1, else
    0. Both l1 and l2 are taken 1e-10 larger.

    Args:
        param: tensor, float.
        squared_accumulator, linear_accumulator, grad, learning_rate: tensor.
        l1, l2, lr_power: float or one-element tensor.

    Returns:
        param_out, squared_accum_out, linear_accum_out.
    """
    return bind(
        _ftrl, (param, squared_accumulator, linear_accumulator, grad, learning_rate),
        (l1, l2, lr_power)
    )

_dpsgd = define(
    "dpsgd", "(Tensor key, Tensor param, Tensor grad, Tensor learning_rate, float clip = 10.0f, "
    "float batch_size = 16.0f, float sigma = 1.0f)", "Tensor(param_out)",
    traits=("random", "promote(param)", "full_precision"), dtypes=("float",)
)
def dpsgd(
    key: TensorLike, param: TensorLike, grad: TensorLike, learning_rate: TensorLike,
    clip: FloatLike = 10.0, batch_size: FloatLike = 16.0, sigma: FloatLike = 1.0
) -> Tensor:
    """Differentially private descent: param - learning_rate * (g + sigma * z / batch_size) with g
    the gradient, scaled down to the norm clip if it has a larger one, and z normal numbers, one an
    element. The first input is a key (phix.random.key) in place of Paddle's seed.

    Args:
        key: tensor.
        param: tensor, float.
        grad, learning_rate: tensor.
        clip, batch_size, sigma: float or one-element tensor.
    """
    return bind(_dpsgd, (key, param, grad, learning_rate), (clip, batch_size, sigma))

_average_accumulates_ = define(
    "average_accumulates_",
    "(Tensor param, Tensor in_sum_1, Tensor in_sum_2, Tensor in_sum_3, Tensor in_num_accumulates, "
    "Tensor in_old_num_accumulates, Tensor in_num_updates, float average_window = 0, "
    "int64_t max_average_window = INT64_MAX, int64_t min_average_window = 10000L)",
    "Tensor(out_sum_1), Tensor(out_sum_2), Tensor(out_sum_3), Tensor(out_num_accumulates), "
    "Tensor(out_old_num_accumulates), Tensor(out_num_updates)",
    traits=("promote(param)", "full_precision"), dtypes=("float",),
    inplace=(("in_sum_1", "out_sum_1"), ("in_sum_2", "out_sum_2"), ("in_sum_3", "out_sum_3"),
    ("in_num_accumulates", "out_num_accumulates"),
    ("in_old_num_accumulates", "out_old_num_accumulates"), ("in_num_updates", "out_num_updates"))
)
def average_accumulates_(
    param: TensorLike, in_sum_1: TensorLike, in_sum_2: TensorLike, in_sum_3: TensorLike,
    in_num_accumulates: TensorLike, in_old_num_accumulates: TensorLike, in_num_updates: TensorLike,
    average_window: FloatLike = 0.0, max_average_window: DimLike = 9223372036854775807,
    min_average_window: DimLike = 10000
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Adds param to the sums that averages of weights are made of: to sum_1, which every 16384
    updates is added to sum_2 and begins anew. Once min_average_window and the lesser of
    max_average_window and average_window * num_updates have been added, sum_3 becomes their sum,
    and both begin anew.

    Args:
        param: tensor, float.
        in_sum_1, in_sum_2, in_sum_3, in_num_accumulates, in_old_num_accumulates, in_num_updates:
            tensor.
        average_window: float or one-element tensor.
        max_average_window, min_average_window: int.

    Returns:
        out_sum_1, out_sum_2, out_sum_3, out_num_accumulates, out_old_num_accumulates,
        out_num_updates.
    """
    return bind_in_place(
        _average_accumulates_, (param, in_sum_1, in_sum_2, in_sum_3, in_num_accumulates,
        in_old_num_accumulates, in_num_updates),
        (average_window, max_average_window, min_average_window)
    )

_check_finite_and_unscale_ = define(
    "check_finite_and_unscale_", "(Tensor[] x, Tensor scale)",
    "Tensor[](out){x.size()}, Tensor(found_infinite)", traits=("full_precision",),
    dtypes=("float",), inplace=(("x", "out"),)
)
def check_finite_and_unscale_(
    x: Sequence[TensorLike], scale: TensorLike
) -> tuple[tuple[Tensor, ...], Tensor]:
    """Each tensor of x divided by scale, and one bool: whether any element of them is infinite or
    NaN.

    Args:
        x: sequence of tensors, float.
        scale: tensor, float.

    Returns:
        out, found_infinite.
    """
    return bind_in_place(_check_finite_and_unscale_, (x, scale), ())

_update_loss_scaling_ = define(
    "update_loss_scaling_",
    "(Tensor[] x, Tensor found_infinite, Tensor prev_loss_scaling, Tensor in_good_steps, "
    "Tensor in_bad_steps, int incr_every_n_steps, int decr_every_n_nan_or_inf, float incr_ratio, "
    "float decr_ratio, Scalar stop_update=false)",
    "Tensor[](out){x.size()}, Tensor(loss_scaling), Tensor(out_good_steps), Tensor(out_bad_steps)",
    traits=("full_precision",), dtypes=("float",), inplace=(("x", "out"),
    ("prev_loss_scaling", "loss_scaling"), ("in_good_steps", "out_good_steps"),
    ("in_bad_steps", "out_bad_steps"))
)
def update_loss_scaling_(
    x: Sequence[TensorLike], found_infinite: TensorLike, prev_loss_scaling: TensorLike,
    in_good_steps: TensorLike, in_bad_steps: TensorLike, incr_every_n_steps: int,
    decr_every_n_nan_or_inf: int, incr_ratio: FloatLike, decr_ratio: FloatLike,
    stop_update: ScalarLike = False
) -> tuple[tuple[Tensor, ...], Tensor, Tensor, Tensor]:
    """Where found_infinite holds, x becomes 0 and the step counts as bad, else as good, which ends
    a row of the others. After incr_every_n_steps good ones the scaling is multiplied by incr_ratio
    if it stays finite, after decr_every_n_nan_or_inf bad ones by decr_ratio, down to 1. With
    stop_update scaling and counts stay.

    Args:
        x: sequence of tensors, float.
        found_infinite, prev_loss_scaling, in_good_steps, in_bad_steps: tensor, float.
        incr_every_n_steps, decr_every_n_nan_or_inf: int.
        incr_ratio, decr_ratio: float or one-element tensor.
        stop_update: number or one-element tensor.

    Returns:
        out, loss_scaling, out_good_steps, out_bad_steps.
    """
    return bind_in_place(
        _update_loss_scaling_, (x, found_infinite, prev_loss_scaling, in_good_steps, in_bad_steps),
        (incr_every_n_steps, decr_every_n_nan_or_inf, incr_ratio, decr_ratio, stop_update)
    )


# -- yaml/placement.yaml ---------------------------------------------------------------------------
define = definer("yaml/placement.yaml", family="placement")

_io_copy = define(
    "io_copy", "(Tensor x, Place place)", "Tensor(out)", infer_meta=("UnchangedInferMeta", ("x",)),
    backward="io_copy_grad", jvp="linear", traits=("moves", "restates", "stores")
)
def io_copy(x: TensorLike, place: PlaceLike | None) -> Tensor:
    """The values of x on another device, out = x; x itself where it is there already.

    Args:
        x: tensor.
        place: place; None is the default place.
    """
    return bind(_io_copy, (x,), (place,))

_io_copy_grad = define(
    "io_copy_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="io_copy"
)
def io_copy_grad(x, out_grad):
    """Backward of :func:`io_copy`."""
    return bind(_io_copy_grad, (x, out_grad), ())

_io_copy_like = define(
    "io_copy_like", "(Tensor x, Tensor like)", "Tensor(out)",
    infer_meta=("UnchangedInferMeta", ("x",)), backward="io_copy_like_grad", jvp="linear",
    traits=("moves", "restates")
)
def io_copy_like(x: TensorLike, like: TensorLike) -> Tensor:
    """The values of x on the device where like lives, out = x; of like nothing else matters.

    Args:
        x, like: tensor.
    """
    return bind(_io_copy_like, (x, like), ())

_io_copy_like_grad = define(
    "io_copy_like_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="io_copy_like"
)
def io_copy_like_grad(x, out_grad):
    """Backward of :func:`io_copy_like`."""
    return bind(_io_copy_like_grad, (x, out_grad), ())


# -- yaml/pointwise.yaml ---------------------------------------------------------------------------
define = definer("yaml/pointwise.yaml", family="pointwise")

_add = define(
    "add", "(Tensor x, Tensor y)", "Tensor(out)", infer_meta=("ElementwiseInferMeta", None),
    backward="add_grad", jvp="linear", traits=("pointwise", "promote", "commutative"),
    dtypes=("int", "float", "complex"), inplace=(("x", "out"),),
    kernel={"func": (("add", ("dense", "dense"), ("dense",)),
    ("add_sr", ("selected_rows", "selected_rows"), ("selected_rows",)),
    ("add_sr_dense", ("selected_rows", "dense"), ("dense",)),
    ("add_dense_sr", ("dense", "selected_rows"), ("dense",)))}
)
def add(x: TensorLike, y: TensorLike) -> Tensor:
    """Sum, x + y, elementwise.

    Args:
        x, y: tensor, int, float or complex.
    """
    return bind(_add, (x, y), ())

def add_(x: TensorLike, y: TensorLike) -> Tensor:
    """:func:`add` in the memory of x, not to be used after it."""
    return bind_in_place(_add, (x, y), ())

_add_grad = define(
    "add_grad", "(Tensor x, Tensor y, Tensor out_grad)", "Tensor(x_grad), Tensor(y_grad)",
    no_need_buffer=("x", "y"), forward="add"
)
def add_grad(x, y, out_grad):
    """Backward of :func:`add`."""
    return bind(_add_grad, (x, y, out_grad), ())

_subtract = define(
    "subtract", "(Tensor x, Tensor y)", "Tensor(out)", infer_meta=("ElementwiseInferMeta", None),
    backward="subtract_grad", jvp="linear", traits=("pointwise", "promote"),
    dtypes=("int", "float", "complex"), inplace=(("x", "out"),),
    kernel={"func": (("subtract", ("dense", "dense"), ("dense",)),
    ("subtract_sr", ("selected_rows", "selected_rows"), ("selected_rows",)),
    ("subtract_sr_dense", ("selected_rows", "dense"), ("dense",)),
    ("subtract_dense_sr", ("dense", "selected_rows"), ("dense",)))}
)
def subtract(x: TensorLike, y: TensorLike) -> Tensor:
    """Difference, x - y, elementwise.

    Args:
        x, y: tensor, int, float or complex.
    """
    return bind(_subtract, (x, y), ())

def subtract_(x: TensorLike, y: TensorLike) -> Tensor:
    """:func:`subtract` in the memory of x, not to be used after it."""
    return bind_in_place(_subtract, (x, y), ())

_subtract_grad = define(
    "subtract_grad", "(Tensor x, Tensor y, Tensor out_grad)", "Tensor(x_grad), Tensor(y_grad)",
    no_need_buffer=("x", "y"), forward="subtract"
)
def subtract_grad(x, y, out_grad):
    """Backward of :func:`subtract`."""
    return bind(_subtract_grad, (x, y, out_grad), ())

_multiply = define(
    "multiply", "(Tensor x, Tensor y)", "Tensor(out)", infer_meta=("ElementwiseInferMeta", None),
    backward="multiply_grad", jvp="bilinear", traits=("pointwise", "promote", "commutative"),
    dtypes=("bool", "int", "float", "complex"), inplace=(("x", "out"),),
    kernel={"func": (("multiply", ("dense", "dense"), ("dense",)),
    ("multiply_sr", ("selected_rows", "dense"), ("selected_rows",)),
    ("multiply_dense_sr", ("dense", "selected_rows"), ("selected_rows",)))}
)
def multiply(x: TensorLike, y: TensorLike) -> Tensor:
    """Product, x * y, elementwise.

    Args:
        x, y: tensor, bool, int, float or complex.
    """
    return bind(_multiply, (x, y), ())

def multiply_(x: TensorLike, y: TensorLike) -> Tensor:
    """:func:`multiply` in the memory of x, not to be used after it."""
    return bind_in_place(_multiply, (x, y), ())

_multiply_grad = define(
    "multiply_grad", "(Tensor x, Tensor y, Tensor out_grad)", "Tensor(x_grad), Tensor(y_grad)",
    forward="multiply"
)
def multiply_grad(x, y, out_grad):
    """Backward of :func:`multiply`."""
    return bind(_multiply_grad, (x, y, out_grad), ())

_divide = define(
    "divide", "(Tensor x, Tensor y)", "Tensor(out)", infer_meta=("ElementwiseInferMeta", None),
    backward="divide_grad", jvp="pointwise", traits=("pointwise", "promote_float"),
    dtypes=("float", "complex"), inplace=(("x", "out"),),
    kernel={"func": (("divide", ("dense", "dense"), ("dense",)),
    ("divide_sr", ("selected_rows", "dense"), ("selected_rows",)))}
)
def divide(x: TensorLike, y: TensorLike) -> Tensor:
    """Quotient, x / y, elementwise; integers divide to the default float.

    Args:
        x, y: tensor, float or complex.
    """
    return bind(_divide, (x, y), ())

def divide_(x: TensorLike, y: TensorLike) -> Tensor:
    """:func:`divide` in the memory of x, not to be used after it."""
    return bind_in_place(_divide, (x, y), ())

_divide_grad = define(
    "divide_grad", "(Tensor x, Tensor y, Tensor out, Tensor out_grad)",
    "Tensor(x_grad), Tensor(y_grad)", no_need_buffer=("x",), forward="divide"
)
def divide_grad(x, y, out, out_grad):
    """Backward of :func:`divide`."""
    return bind(_divide_grad, (x, y, out, out_grad), ())

_exp = define(
    "exp", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="exp_grad", jvp="pointwise", traits=("pointwise", "promote_float", "full_precision"),
    dtypes=("float", "complex"), inplace=(("x", "out"),)
)
def exp(x: TensorLike) -> Tensor:
    """Exponential, e ** x, elementwise.

    Args:
        x: tensor, float or complex.
    """
    return bind(_exp, (x,), ())

def exp_(x: TensorLike) -> Tensor:
    """:func:`exp` in the memory of x, not to be used after it."""
    return bind_in_place(_exp, (x,), ())

_exp_grad = define("exp_grad", "(Tensor out, Tensor out_grad)", "Tensor(x_grad)", forward="exp")
def exp_grad(out, out_grad):
    """Backward of :func:`exp`."""
    return bind(_exp_grad, (out, out_grad), ())

_sin = define(
    "sin", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="sin_grad", jvp="pointwise", traits=("pointwise", "promote_float"),
    dtypes=("float", "complex"), inplace=(("x", "out"),)
)
def sin(x: TensorLike) -> Tensor:
    """Sine of x in radians, elementwise.

    Args:
        x: tensor, float or complex.
    """
    return bind(_sin, (x,), ())

def sin_(x: TensorLike) -> Tensor:
    """:func:`sin` in the memory of x, not to be used after it."""
    return bind_in_place(_sin, (x,), ())

_sin_grad = define("sin_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="sin")
def sin_grad(x, out_grad):
    """Backward of :func:`sin`."""
    return bind(_sin_grad, (x, out_grad), ())

_tanh = define(
    "tanh", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="tanh_grad", jvp="pointwise", traits=("pointwise", "promote_float"),
    dtypes=("float", "complex"), inplace=(("x", "out"),)
)
def tanh(x: TensorLike) -> Tensor:
    """Hyperbolic tangent, (exp(x) - exp(-x)) / (exp(x) + exp(-x)), elementwise. The slope is taken
    from the result, 1 - out^2: where that is rounded to 1 or -1 it is 0.

    Args:
        x: tensor, float or complex.
    """
    return bind(_tanh, (x,), ())

def tanh_(x: TensorLike) -> Tensor:
    """:func:`tanh` in the memory of x, not to be used after it."""
    return bind_in_place(_tanh, (x,), ())

_tanh_grad = define("tanh_grad", "(Tensor out, Tensor out_grad)", "Tensor(x_grad)", forward="tanh")
def tanh_grad(out, out_grad):
    """Backward of :func:`tanh`."""
    return bind(_tanh_grad, (out, out_grad), ())

_expm1 = define(
    "expm1", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="expm1_grad", jvp="pointwise", traits=("pointwise", "promote_float", "full_precision"),
    dtypes=("float", "complex"), inplace=(("x", "out"),)
)
def expm1(x: TensorLike) -> Tensor:
    """exp(x) - 1, accurate near 0, elementwise.

    Args:
        x: tensor, float or complex.
    """
    return bind(_expm1, (x,), ())

def expm1_(x: TensorLike) -> Tensor:
    """:func:`expm1` in the memory of x, not to be used after it."""
    return bind_in_place(_expm1, (x,), ())

_expm1_grad = define("expm1_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="expm1")
def expm1_grad(x, out_grad):
    """Backward of :func:`expm1`."""
    return bind(_expm1_grad, (x, out_grad), ())

_log = define(
    "log", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="log_grad", jvp="pointwise", traits=("pointwise", "promote_float", "full_precision"),
    dtypes=("float", "complex"), inplace=(("x", "out"),)
)
def log(x: TensorLike) -> Tensor:
    """Natural logarithm, elementwise; -inf at 0, NaN below.

    Args:
        x: tensor, float or complex.
    """
    return bind(_log, (x,), ())

def log_(x: TensorLike) -> Tensor:
    """:func:`log` in the memory of x, not to be used after it."""
    return bind_in_place(_log, (x,), ())

_log_grad = define("log_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="log")
def log_grad(x, out_grad):
    """Backward of :func:`log`."""
    return bind(_log_grad, (x, out_grad), ())

_log1p = define(
    "log1p", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="log1p_grad", jvp="pointwise", traits=("pointwise", "promote_float", "full_precision"),
    dtypes=("float", "complex"), inplace=(("x", "out"),)
)
def log1p(x: TensorLike) -> Tensor:
    """log(1 + x), accurate near 0, elementwise.

    Args:
        x: tensor, float or complex.
    """
    return bind(_log1p, (x,), ())

def log1p_(x: TensorLike) -> Tensor:
    """:func:`log1p` in the memory of x, not to be used after it."""
    return bind_in_place(_log1p, (x,), ())

_log1p_grad = define("log1p_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="log1p")
def log1p_grad(x, out_grad):
    """Backward of :func:`log1p`."""
    return bind(_log1p_grad, (x, out_grad), ())

_log2 = define(
    "log2", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="log2_grad", jvp="pointwise", traits=("pointwise", "promote_float", "full_precision"),
    dtypes=("float", "complex"), inplace=(("x", "out"),)
)
def log2(x: TensorLike) -> Tensor:
    """Logarithm to base 2, elementwise.

    Args:
        x: tensor, float or complex.
    """
    return bind(_log2, (x,), ())

def log2_(x: TensorLike) -> Tensor:
    """:func:`log2` in the memory of x, not to be used after it."""
    return bind_in_place(_log2, (x,), ())

_log2_grad = define("log2_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="log2")
def log2_grad(x, out_grad):
    """Backward of :func:`log2`."""
    return bind(_log2_grad, (x, out_grad), ())

_log10 = define(
    "log10", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="log10_grad", jvp="pointwise", traits=("pointwise", "promote_float", "full_precision"),
    dtypes=("float", "complex"), inplace=(("x", "out"),)
)
def log10(x: TensorLike) -> Tensor:
    """Logarithm to base 10, elementwise.

    Args:
        x: tensor, float or complex.
    """
    return bind(_log10, (x,), ())

def log10_(x: TensorLike) -> Tensor:
    """:func:`log10` in the memory of x, not to be used after it."""
    return bind_in_place(_log10, (x,), ())

_log10_grad = define("log10_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="log10")
def log10_grad(x, out_grad):
    """Backward of :func:`log10`."""
    return bind(_log10_grad, (x, out_grad), ())

_sqrt = define(
    "sqrt", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="sqrt_grad", jvp="pointwise", traits=("pointwise", "promote_float"),
    dtypes=("float", "complex"), inplace=(("x", "out"),),
    kernel={"func": (("sqrt", ("dense",), ("dense",)),
    ("sqrt_sr", ("selected_rows",), ("selected_rows",)))}
)
def sqrt(x: TensorLike) -> Tensor:
    """Square root, elementwise; NaN below 0.

    Args:
        x: tensor, float or complex.
    """
    return bind(_sqrt, (x,), ())

def sqrt_(x: TensorLike) -> Tensor:
    """:func:`sqrt` in the memory of x, not to be used after it."""
    return bind_in_place(_sqrt, (x,), ())

_sqrt_grad = define("sqrt_grad", "(Tensor out, Tensor out_grad)", "Tensor(x_grad)", forward="sqrt")
def sqrt_grad(out, out_grad):
    """Backward of :func:`sqrt`."""
    return bind(_sqrt_grad, (out, out_grad), ())

_rsqrt = define(
    "rsqrt", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="rsqrt_grad", jvp="pointwise", traits=("pointwise", "promote_float", "full_precision"),
    dtypes=("float", "complex"), inplace=(("x", "out"),)
)
def rsqrt(x: TensorLike) -> Tensor:
    """1 / sqrt(x), elementwise; inf at 0.

    Args:
        x: tensor, float or complex.
    """
    return bind(_rsqrt, (x,), ())

def rsqrt_(x: TensorLike) -> Tensor:
    """:func:`rsqrt` in the memory of x, not to be used after it."""
    return bind_in_place(_rsqrt, (x,), ())

_rsqrt_grad = define(
    "rsqrt_grad", "(Tensor out, Tensor out_grad)", "Tensor(x_grad)", forward="rsqrt"
)
def rsqrt_grad(out, out_grad):
    """Backward of :func:`rsqrt`."""
    return bind(_rsqrt_grad, (out, out_grad), ())

_cos = define(
    "cos", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="cos_grad", jvp="pointwise", traits=("pointwise", "promote_float"),
    dtypes=("float", "complex"), inplace=(("x", "out"),)
)
def cos(x: TensorLike) -> Tensor:
    """Cosine of x in radians, elementwise.

    Args:
        x: tensor, float or complex.
    """
    return bind(_cos, (x,), ())

def cos_(x: TensorLike) -> Tensor:
    """:func:`cos` in the memory of x, not to be used after it."""
    return bind_in_place(_cos, (x,), ())

_cos_grad = define("cos_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="cos")
def cos_grad(x, out_grad):
    """Backward of :func:`cos`."""
    return bind(_cos_grad, (x, out_grad), ())

_tan = define(
    "tan", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="tan_grad", jvp="pointwise", traits=("pointwise", "promote_float", "full_precision"),
    dtypes=("float", "complex"), inplace=(("x", "out"),)
)
def tan(x: TensorLike) -> Tensor:
    """Tangent of x in radians, elementwise.

    Args:
        x: tensor, float or complex.
    """
    return bind(_tan, (x,), ())

def tan_(x: TensorLike) -> Tensor:
    """:func:`tan` in the memory of x, not to be used after it."""
    return bind_in_place(_tan, (x,), ())

_tan_grad = define("tan_grad", "(Tensor out, Tensor out_grad)", "Tensor(x_grad)", forward="tan")
def tan_grad(out, out_grad):
    """Backward of :func:`tan`."""
    return bind(_tan_grad, (out, out_grad), ())

_asin = define(
    "asin", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="asin_grad", jvp="pointwise", traits=("pointwise", "promote_float", "full_precision"),
    dtypes=("float", "complex"), inplace=(("x", "out"),)
)
def asin(x: TensorLike) -> Tensor:
    """Inverse sine in radians, in [-pi/2, pi/2], elementwise; a real number outside [-1, 1] gives
    NaN.

    Args:
        x: tensor, float or complex.
    """
    return bind(_asin, (x,), ())

def asin_(x: TensorLike) -> Tensor:
    """:func:`asin` in the memory of x, not to be used after it."""
    return bind_in_place(_asin, (x,), ())

_asin_grad = define("asin_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="asin")
def asin_grad(x, out_grad):
    """Backward of :func:`asin`."""
    return bind(_asin_grad, (x, out_grad), ())

_acos = define(
    "acos", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="acos_grad", jvp="pointwise", traits=("pointwise", "promote_float", "full_precision"),
    dtypes=("float", "complex"), inplace=(("x", "out"),)
)
def acos(x: TensorLike) -> Tensor:
    """Inverse cosine in radians, in [0, pi], elementwise; a real number outside [-1, 1] gives NaN.

    Args:
        x: tensor, float or complex.
    """
    return bind(_acos, (x,), ())

def acos_(x: TensorLike) -> Tensor:
    """:func:`acos` in the memory of x, not to be used after it."""
    return bind_in_place(_acos, (x,), ())

_acos_grad = define("acos_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="acos")
def acos_grad(x, out_grad):
    """Backward of :func:`acos`."""
    return bind(_acos_grad, (x, out_grad), ())

_atan = define(
    "atan", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="atan_grad", jvp="pointwise", traits=("pointwise", "promote_float"),
    dtypes=("float", "complex"), inplace=(("x", "out"),)
)
def atan(x: TensorLike) -> Tensor:
    """Inverse tangent in radians, in [-pi/2, pi/2], elementwise.

    Args:
        x: tensor, float or complex.
    """
    return bind(_atan, (x,), ())

def atan_(x: TensorLike) -> Tensor:
    """:func:`atan` in the memory of x, not to be used after it."""
    return bind_in_place(_atan, (x,), ())

_atan_grad = define("atan_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="atan")
def atan_grad(x, out_grad):
    """Backward of :func:`atan`."""
    return bind(_atan_grad, (x, out_grad), ())

_sinh = define(
    "sinh", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="sinh_grad", jvp="pointwise", traits=("pointwise", "promote_float", "full_precision"),
    dtypes=("float", "complex"), inplace=(("x", "out"),)
)
def sinh(x: TensorLike) -> Tensor:
    """Hyperbolic sine, (exp(x) - exp(-x)) / 2, elementwise.

    Args:
        x: tensor, float or complex.
    """
    return bind(_sinh, (x,), ())

def sinh_(x: TensorLike) -> Tensor:
    """:func:`sinh` in the memory of x, not to be used after it."""
    return bind_in_place(_sinh, (x,), ())

_sinh_grad = define("sinh_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="sinh")
def sinh_grad(x, out_grad):
    """Backward of :func:`sinh`."""
    return bind(_sinh_grad, (x, out_grad), ())

_cosh = define(
    "cosh", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="cosh_grad", jvp="pointwise", traits=("pointwise", "promote_float", "full_precision"),
    dtypes=("float", "complex"), inplace=(("x", "out"),)
)
def cosh(x: TensorLike) -> Tensor:
    """Hyperbolic cosine, (exp(x) + exp(-x)) / 2, elementwise.

    Args:
        x: tensor, float or complex.
    """
    return bind(_cosh, (x,), ())

def cosh_(x: TensorLike) -> Tensor:
    """:func:`cosh` in the memory of x, not to be used after it."""
    return bind_in_place(_cosh, (x,), ())

_cosh_grad = define("cosh_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="cosh")
def cosh_grad(x, out_grad):
    """Backward of :func:`cosh`."""
    return bind(_cosh_grad, (x, out_grad), ())

_asinh = define(
    "asinh", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="asinh_grad", jvp="pointwise", traits=("pointwise", "promote_float", "full_precision"),
    dtypes=("float", "complex"), inplace=(("x", "out"),)
)
def asinh(x: TensorLike) -> Tensor:
    """Inverse hyperbolic sine, log(x + sqrt(x ** 2 + 1)), elementwise.

    Args:
        x: tensor, float or complex.
    """
    return bind(_asinh, (x,), ())

def asinh_(x: TensorLike) -> Tensor:
    """:func:`asinh` in the memory of x, not to be used after it."""
    return bind_in_place(_asinh, (x,), ())

_asinh_grad = define("asinh_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="asinh")
def asinh_grad(x, out_grad):
    """Backward of :func:`asinh`."""
    return bind(_asinh_grad, (x, out_grad), ())

_acosh = define(
    "acosh", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="acosh_grad", jvp="pointwise", traits=("pointwise", "promote_float", "full_precision"),
    dtypes=("float", "complex"), inplace=(("x", "out"),)
)
def acosh(x: TensorLike) -> Tensor:
    """Inverse hyperbolic cosine, log(x + sqrt(x ** 2 - 1)), elementwise; a real number below 1
    gives NaN.

    Args:
        x: tensor, float or complex.
    """
    return bind(_acosh, (x,), ())

def acosh_(x: TensorLike) -> Tensor:
    """:func:`acosh` in the memory of x, not to be used after it."""
    return bind_in_place(_acosh, (x,), ())

_acosh_grad = define("acosh_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="acosh")
def acosh_grad(x, out_grad):
    """Backward of :func:`acosh`."""
    return bind(_acosh_grad, (x, out_grad), ())

_atanh = define(
    "atanh", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="atanh_grad", jvp="pointwise", traits=("pointwise", "promote_float", "full_precision"),
    dtypes=("float", "complex"), inplace=(("x", "out"),)
)
def atanh(x: TensorLike) -> Tensor:
    """Inverse hyperbolic tangent, log((1 + x) / (1 - x)) / 2, elementwise.

    Args:
        x: tensor, float or complex.
    """
    return bind(_atanh, (x,), ())

def atanh_(x: TensorLike) -> Tensor:
    """:func:`atanh` in the memory of x, not to be used after it."""
    return bind_in_place(_atanh, (x,), ())

_atanh_grad = define("atanh_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="atanh")
def atanh_grad(x, out_grad):
    """Backward of :func:`atanh`."""
    return bind(_atanh_grad, (x, out_grad), ())

_erf = define(
    "erf", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="erf_grad", jvp="pointwise", traits=("pointwise", "promote_float"), dtypes=("float",),
    inplace=(("x", "out"),)
)
def erf(x: TensorLike) -> Tensor:
    """Error function, 2 / sqrt(pi) * the integral of exp(-t ** 2) from 0 to x, elementwise.

    Args:
        x: tensor, float.
    """
    return bind(_erf, (x,), ())

def erf_(x: TensorLike) -> Tensor:
    """:func:`erf` in the memory of x, not to be used after it."""
    return bind_in_place(_erf, (x,), ())

_erf_grad = define("erf_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="erf")
def erf_grad(x, out_grad):
    """Backward of :func:`erf`."""
    return bind(_erf_grad, (x, out_grad), ())

_erfc = define(
    "erfc", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="erfc_grad", jvp="pointwise", traits=("pointwise", "promote_float", "full_precision"),
    dtypes=("float",)
)
def erfc(x: TensorLike) -> Tensor:
    """1 - erf(x), elementwise, to the last digits where that cancels: 2 / sqrt(pi) * the integral
    of exp(-t ** 2) from x on.

    Args:
        x: tensor, float.
    """
    return bind(_erfc, (x,), ())

_erfc_grad = define("erfc_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="erfc")
def erfc_grad(x, out_grad):
    """Backward of :func:`erfc`."""
    return bind(_erfc_grad, (x, out_grad), ())

_erfcx = define(
    "erfcx", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="erfcx_grad", jvp="pointwise", traits=("pointwise", "promote_float", "full_precision"),
    dtypes=("float",)
)
def erfcx(x: TensorLike) -> Tensor:
    """exp(x ** 2) * erfc(x), elementwise, where the factors overflow and vanish too.

    Args:
        x: tensor, float.
    """
    return bind(_erfcx, (x,), ())

_erfcx_grad = define(
    "erfcx_grad", "(Tensor x, Tensor out, Tensor out_grad)", "Tensor(x_grad)", forward="erfcx"
)
def erfcx_grad(x, out, out_grad):
    """Backward of :func:`erfcx`."""
    return bind(_erfcx_grad, (x, out, out_grad), ())

_ndtr = define(
    "ndtr", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="ndtr_grad", jvp="pointwise", traits=("pointwise", "promote_float", "full_precision"),
    dtypes=("float",)
)
def ndtr(x: TensorLike) -> Tensor:
    """Probability that a standard normal variable is at most x, elementwise: erfc(-x / sqrt(2)) /
    2, without rounding x / sqrt(2).

    Args:
        x: tensor, float.
    """
    return bind(_ndtr, (x,), ())

_ndtr_grad = define("ndtr_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="ndtr")
def ndtr_grad(x, out_grad):
    """Backward of :func:`ndtr`."""
    return bind(_ndtr_grad, (x, out_grad), ())

_normal_density = define(
    "normal_density", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="normal_density_grad", jvp="pointwise",
    traits=("pointwise", "promote_float", "full_precision"), dtypes=("float",)
)
def normal_density(x: TensorLike) -> Tensor:
    """Density of a standard normal variable at x, elementwise: exp(-x ** 2 / 2) / sqrt(2 * pi),
    without rounding x ** 2; the slope of ndtr.

    Args:
        x: tensor, float.
    """
    return bind(_normal_density, (x,), ())

_normal_density_grad = define(
    "normal_density_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="normal_density"
)
def normal_density_grad(x, out_grad):
    """Backward of :func:`normal_density`."""
    return bind(_normal_density_grad, (x, out_grad), ())

_log_ndtr = define(
    "log_ndtr", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="log_ndtr_grad", jvp="pointwise", traits=("promote_float", "full_precision"),
    dtypes=("float",)
)
def log_ndtr(x: TensorLike) -> Tensor:
    """log(ndtr(x)), elementwise, where ndtr vanishes too.

    Args:
        x: tensor, float.
    """
    return bind(_log_ndtr, (x,), ())

_log_ndtr_grad = define(
    "log_ndtr_grad", "(Tensor x, Tensor out, Tensor out_grad)", "Tensor(x_grad)", forward="log_ndtr"
)
def log_ndtr_grad(x, out, out_grad):
    """Backward of :func:`log_ndtr`."""
    return bind(_log_ndtr_grad, (x, out, out_grad), ())

_erfinv = define(
    "erfinv", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="erfinv_grad", jvp="pointwise",
    traits=("pointwise", "promote_float", "full_precision"), dtypes=("float",),
    inplace=(("x", "out"),)
)
def erfinv(x: TensorLike) -> Tensor:
    """Inverse of erf, elementwise; NaN outside [-1, 1].

    Args:
        x: tensor, float.
    """
    return bind(_erfinv, (x,), ())

def erfinv_(x: TensorLike) -> Tensor:
    """:func:`erfinv` in the memory of x, not to be used after it."""
    return bind_in_place(_erfinv, (x,), ())

_erfinv_grad = define(
    "erfinv_grad", "(Tensor out, Tensor out_grad)", "Tensor(x_grad)", forward="erfinv"
)
def erfinv_grad(out, out_grad):
    """Backward of :func:`erfinv`."""
    return bind(_erfinv_grad, (out, out_grad), ())

_lgamma = define(
    "lgamma", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="lgamma_grad", jvp="pointwise",
    traits=("pointwise", "promote_float", "full_precision"), dtypes=("float",),
    inplace=(("x", "out"),)
)
def lgamma(x: TensorLike) -> Tensor:
    """Logarithm of the absolute value of the gamma function, elementwise.

    Args:
        x: tensor, float.
    """
    return bind(_lgamma, (x,), ())

def lgamma_(x: TensorLike) -> Tensor:
    """:func:`lgamma` in the memory of x, not to be used after it."""
    return bind_in_place(_lgamma, (x,), ())

_lgamma_grad = define(
    "lgamma_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="lgamma"
)
def lgamma_grad(x, out_grad):
    """Backward of :func:`lgamma`."""
    return bind(_lgamma_grad, (x, out_grad), ())

_digamma = define(
    "digamma", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="digamma_grad", jvp="pointwise",
    traits=("pointwise", "promote_float", "full_precision"), dtypes=("float",),
    inplace=(("x", "out"),)
)
def digamma(x: TensorLike) -> Tensor:
    """Derivative of lgamma, elementwise.

    Args:
        x: tensor, float.
    """
    return bind(_digamma, (x,), ())

def digamma_(x: TensorLike) -> Tensor:
    """:func:`digamma` in the memory of x, not to be used after it."""
    return bind_in_place(_digamma, (x,), ())

_digamma_grad = define(
    "digamma_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="digamma"
)
def digamma_grad(x, out_grad):
    """Backward of :func:`digamma`."""
    return bind(_digamma_grad, (x, out_grad), ())

_polygamma = define(
    "polygamma", "(Tensor x, int n)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="polygamma_grad", jvp="pointwise",
    traits=("pointwise", "promote_float", "full_precision"), dtypes=("float",),
    inplace=(("x", "out"),)
)
def polygamma(x: TensorLike, n: int) -> Tensor:
    """Derivative of order n of digamma, elementwise.

    Args:
        x: tensor, float.
        n: int.
    """
    return bind(_polygamma, (x,), (n,))

def polygamma_(x: TensorLike, n: int) -> Tensor:
    """:func:`polygamma` in the memory of x, not to be used after it."""
    return bind_in_place(_polygamma, (x,), (n,))

_polygamma_grad = define(
    "polygamma_grad", "(Tensor x, Tensor out_grad, int n)", "Tensor(x_grad)", forward="polygamma"
)
def polygamma_grad(x, out_grad, n):
    """Backward of :func:`polygamma`."""
    return bind(_polygamma_grad, (x, out_grad), (n,))

_abs = define(
    "abs", "(Tensor x)", "Tensor(out)", infer_meta=("RealAndImagInferMeta", None),
    backward="abs_grad", jvp="pointwise", traits=("pointwise", "promote"),
    dtypes=("int", "float", "complex"), inplace=(("x", "out"),)
)
def abs(x: TensorLike) -> Tensor:
    """Absolute value, elementwise; of a complex number its modulus, a real number.

    Args:
        x: tensor, int, float or complex.
    """
    return bind(_abs, (x,), ())

def abs_(x: TensorLike) -> Tensor:
    """:func:`abs` in the memory of x, not to be used after it."""
    return bind_in_place(_abs, (x,), ())

_abs_grad = define("abs_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="abs")
def abs_grad(x, out_grad):
    """Backward of :func:`abs`."""
    return bind(_abs_grad, (x, out_grad), ())

_sign = define(
    "sign", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="sign_grad", jvp="pointwise", traits=("pointwise", "promote"),
    dtypes=("int", "float", "complex")
)
def sign(x: TensorLike) -> Tensor:
    """-1, 0 or 1 as x is below, at or above 0, elementwise; NaN at NaN. The derivative is 0. Of a
    complex number x / abs(x), and 0 at 0: its direction, which has a derivative across x.

    Args:
        x: tensor, int, float or complex.
    """
    return bind(_sign, (x,), ())

_sign_grad = define("sign_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="sign")
def sign_grad(x, out_grad):
    """Backward of :func:`sign`."""
    return bind(_sign_grad, (x, out_grad), ())

_floor = define(
    "floor", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None), jvp="pointwise",
    traits=("pointwise", "promote", "nondifferentiable"), dtypes=("int", "float"),
    inplace=(("x", "out"),)
)
def floor(x: TensorLike) -> Tensor:
    """The largest integer not above x, elementwise. The derivative is 0.

    Args:
        x: tensor, int or float.
    """
    return bind(_floor, (x,), ())

def floor_(x: TensorLike) -> Tensor:
    """:func:`floor` in the memory of x, not to be used after it."""
    return bind_in_place(_floor, (x,), ())

_ceil = define(
    "ceil", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None), jvp="pointwise",
    traits=("pointwise", "promote", "nondifferentiable"), dtypes=("int", "float"),
    inplace=(("x", "out"),)
)
def ceil(x: TensorLike) -> Tensor:
    """The smallest integer not below x, elementwise. The derivative is 0.

    Args:
        x: tensor, int or float.
    """
    return bind(_ceil, (x,), ())

def ceil_(x: TensorLike) -> Tensor:
    """:func:`ceil` in the memory of x, not to be used after it."""
    return bind_in_place(_ceil, (x,), ())

_round = define(
    "round", "(Tensor x, int decimals=0)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    jvp="pointwise", traits=("pointwise", "promote", "nondifferentiable"), dtypes=("int", "float"),
    inplace=(("x", "out"),)
)
def round(x: TensorLike, decimals: int = 0) -> Tensor:
    """x rounded to that many decimals, halves to even, elementwise. The derivative is 0.

    Args:
        x: tensor, int or float.
        decimals: int.
    """
    return bind(_round, (x,), (decimals,))

def round_(x: TensorLike, decimals: int = 0) -> Tensor:
    """:func:`round` in the memory of x, not to be used after it."""
    return bind_in_place(_round, (x,), (decimals,))

_trunc = define(
    "trunc", "(Tensor input)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    jvp="pointwise", traits=("pointwise", "promote", "nondifferentiable"), dtypes=("int", "float"),
    inplace=(("input", "out"),)
)
def trunc(input: TensorLike) -> Tensor:
    """input without its fraction, elementwise. The derivative is 0.

    Args:
        input: tensor, int or float.
    """
    return bind(_trunc, (input,), ())

def trunc_(input: TensorLike) -> Tensor:
    """:func:`trunc` in the memory of input, not to be used after it."""
    return bind_in_place(_trunc, (input,), ())

_maximum = define(
    "maximum", "(Tensor x, Tensor y)", "Tensor(out)", infer_meta=("ElementwiseInferMeta", None),
    backward="maximum_grad", jvp="pointwise", traits=("pointwise", "promote", "commutative"),
    dtypes=("int", "float")
)
def maximum(x: TensorLike, y: TensorLike) -> Tensor:
    """The larger of x and y, elementwise; NaN if either is. At a tie each gets half the gradient.

    Args:
        x, y: tensor, int or float.
    """
    return bind(_maximum, (x, y), ())

_maximum_grad = define(
    "maximum_grad", "(Tensor x, Tensor y, Tensor out_grad)", "Tensor(x_grad), Tensor(y_grad)",
    forward="maximum"
)
def maximum_grad(x, y, out_grad):
    """Backward of :func:`maximum`."""
    return bind(_maximum_grad, (x, y, out_grad), ())

_minimum = define(
    "minimum", "(Tensor x, Tensor y)", "Tensor(out)", infer_meta=("ElementwiseInferMeta", None),
    backward="minimum_grad", jvp="pointwise", traits=("pointwise", "promote", "commutative"),
    dtypes=("int", "float")
)
def minimum(x: TensorLike, y: TensorLike) -> Tensor:
    """The smaller of x and y, elementwise; NaN if either is. At a tie each gets half the gradient.

    Args:
        x, y: tensor, int or float.
    """
    return bind(_minimum, (x, y), ())

_minimum_grad = define(
    "minimum_grad", "(Tensor x, Tensor y, Tensor out_grad)", "Tensor(x_grad), Tensor(y_grad)",
    forward="minimum"
)
def minimum_grad(x, y, out_grad):
    """Backward of :func:`minimum`."""
    return bind(_minimum_grad, (x, y, out_grad), ())

_fmax = define(
    "fmax", "(Tensor x, Tensor y)", "Tensor(out)", infer_meta=("ElementwiseInferMeta", None),
    backward="fmax_grad", jvp="pointwise", traits=("pointwise", "promote", "commutative"),
    dtypes=("int", "float")
)
def fmax(x: TensorLike, y: TensorLike) -> Tensor:
    """The larger of x and y, elementwise; the other one if one is NaN. At a tie x gets the
    gradient.

    Args:
        x, y: tensor, int or float.
    """
    return bind(_fmax, (x, y), ())

_fmax_grad = define(
    "fmax_grad", "(Tensor x, Tensor y, Tensor out_grad)", "Tensor(x_grad), Tensor(y_grad)",
    forward="fmax"
)
def fmax_grad(x, y, out_grad):
    """Backward of :func:`fmax`."""
    return bind(_fmax_grad, (x, y, out_grad), ())

_fmin = define(
    "fmin", "(Tensor x, Tensor y)", "Tensor(out)", infer_meta=("ElementwiseInferMeta", None),
    backward="fmin_grad", jvp="pointwise", traits=("pointwise", "promote", "commutative"),
    dtypes=("int", "float")
)
def fmin(x: TensorLike, y: TensorLike) -> Tensor:
    """The smaller of x and y, elementwise; the other one if one is NaN. At a tie x gets the
    gradient.

    Args:
        x, y: tensor, int or float.
    """
    return bind(_fmin, (x, y), ())

_fmin_grad = define(
    "fmin_grad", "(Tensor x, Tensor y, Tensor out_grad)", "Tensor(x_grad), Tensor(y_grad)",
    forward="fmin"
)
def fmin_grad(x, y, out_grad):
    """Backward of :func:`fmin`."""
    return bind(_fmin_grad, (x, y, out_grad), ())

_elementwise_pow = define(
    "elementwise_pow", "(Tensor x, Tensor y)", "Tensor(out)",
    infer_meta=("ElementwiseInferMeta", None), backward="elementwise_pow_grad", jvp="pointwise",
    traits=("pointwise", "promote", "full_precision"), dtypes=("int", "float", "complex")
)
def elementwise_pow(x: TensorLike, y: TensorLike) -> Tensor:
    """x to the power y, elementwise. At x <= 0 the derivative to y is NaN for x < 0 and 0 at 0.

    Args:
        x, y: tensor, int, float or complex.
    """
    return bind(_elementwise_pow, (x, y), ())

_elementwise_pow_grad = define(
    "elementwise_pow_grad", "(Tensor x, Tensor y, Tensor out_grad)",
    "Tensor(x_grad), Tensor(y_grad)", forward="elementwise_pow"
)
def elementwise_pow_grad(x, y, out_grad):
    """Backward of :func:`elementwise_pow`."""
    return bind(_elementwise_pow_grad, (x, y, out_grad), ())

_pow = define(
    "pow", "(Tensor x, Scalar y=1.0f)", "Tensor(out)", infer_meta=("PowInferMeta", None),
    backward="pow_grad", jvp="pointwise", traits=("pointwise", "promote", "full_precision"),
    dtypes=("int", "float", "complex"), inplace=(("x", "out"),)
)
def pow(x: TensorLike, y: ScalarLike = 1.0) -> Tensor:
    """x to the constant power y, elementwise; an int tensor to a float power is a float tensor.

    Args:
        x: tensor, int, float or complex.
        y: number or one-element tensor.
    """
    return bind(_pow, (x,), (y,))

def pow_(x: TensorLike, y: ScalarLike = 1.0) -> Tensor:
    """:func:`pow` in the memory of x, not to be used after it."""
    return bind_in_place(_pow, (x,), (y,))

_pow_grad = define(
    "pow_grad", "(Tensor x, Tensor out_grad, Scalar y)", "Tensor(x_grad)", forward="pow"
)
def pow_grad(x, out_grad, y):
    """Backward of :func:`pow`."""
    return bind(_pow_grad, (x, out_grad), (y,))

_atan2 = define(
    "atan2", "(Tensor x, Tensor y)", "Tensor(out)", infer_meta=("ElementwiseInferMeta", None),
    backward="atan2_grad", jvp="pointwise", traits=("pointwise", "promote_float"), dtypes=("float",)
)
def atan2(x: TensorLike, y: TensorLike) -> Tensor:
    """Angle of the point (y, x) in radians, in [-pi, pi]: atan(x / y) in the right quadrant.

    Args:
        x, y: tensor, float.
    """
    return bind(_atan2, (x, y), ())

_atan2_grad = define(
    "atan2_grad", "(Tensor x, Tensor y, Tensor out_grad)", "Tensor(x_grad), Tensor(y_grad)",
    forward="atan2"
)
def atan2_grad(x, y, out_grad):
    """Backward of :func:`atan2`."""
    return bind(_atan2_grad, (x, y, out_grad), ())

_remainder = define(
    "remainder", "(Tensor x, Tensor y)", "Tensor(out)", infer_meta=("ElementwiseInferMeta", None),
    backward="remainder_grad", jvp="pointwise", traits=("pointwise", "promote"),
    dtypes=("int", "float"), inplace=(("x", "out"),)
)
def remainder(x: TensorLike, y: TensorLike) -> Tensor:
    """x - y * floor(x / y), elementwise: the rest with the sign of y, as Python's %.

    Args:
        x, y: tensor, int or float.
    """
    return bind(_remainder, (x, y), ())

def remainder_(x: TensorLike, y: TensorLike) -> Tensor:
    """:func:`remainder` in the memory of x, not to be used after it."""
    return bind_in_place(_remainder, (x, y), ())

_remainder_grad = define(
    "remainder_grad", "(Tensor x, Tensor y, Tensor out_grad)", "Tensor(x_grad), Tensor(y_grad)",
    forward="remainder"
)
def remainder_grad(x, y, out_grad):
    """Backward of :func:`remainder`."""
    return bind(_remainder_grad, (x, y, out_grad), ())

_floor_divide = define(
    "floor_divide", "(Tensor x, Tensor y)", "Tensor(out)",
    infer_meta=("ElementwiseInferMeta", None), jvp="pointwise",
    traits=("pointwise", "promote", "nondifferentiable"), dtypes=("int", "float"),
    inplace=(("x", "out"),)
)
def floor_divide(x: TensorLike, y: TensorLike) -> Tensor:
    """floor(x / y), elementwise, as Python's //; ints divided by 0 give 0. The derivative is 0.

    Args:
        x, y: tensor, int or float.
    """
    return bind(_floor_divide, (x, y), ())

def floor_divide_(x: TensorLike, y: TensorLike) -> Tensor:
    """:func:`floor_divide` in the memory of x, not to be used after it."""
    return bind_in_place(_floor_divide, (x, y), ())

_equal = define(
    "equal", "(Tensor x, Tensor y)", "Tensor(out)", infer_meta=("CompareInferMeta", None),
    jvp="pointwise",
    traits=("pointwise", "promote", "commutative", "nondifferentiable", "compares"),
    dtypes=("bool", "int", "float", "complex")
)
def equal(x: TensorLike, y: TensorLike) -> Tensor:
    """Whether x == y, elementwise; a bool tensor.

    Args:
        x, y: tensor, bool, int, float or complex.
    """
    return bind(_equal, (x, y), ())

_not_equal = define(
    "not_equal", "(Tensor x, Tensor y)", "Tensor(out)", infer_meta=("CompareInferMeta", None),
    jvp="pointwise",
    traits=("pointwise", "promote", "commutative", "nondifferentiable", "compares"),
    dtypes=("bool", "int", "float", "complex")
)
def not_equal(x: TensorLike, y: TensorLike) -> Tensor:
    """Whether x != y, elementwise; a bool tensor.

    Args:
        x, y: tensor, bool, int, float or complex.
    """
    return bind(_not_equal, (x, y), ())

_less_than = define(
    "less_than", "(Tensor x, Tensor y)", "Tensor(out)", infer_meta=("CompareInferMeta", None),
    jvp="pointwise", traits=("pointwise", "promote", "nondifferentiable", "compares"),
    dtypes=("bool", "int", "float")
)
def less_than(x: TensorLike, y: TensorLike) -> Tensor:
    """Whether x < y, elementwise; a bool tensor.

    Args:
        x, y: tensor, bool, int or float.
    """
    return bind(_less_than, (x, y), ())

_less_equal = define(
    "less_equal", "(Tensor x, Tensor y)", "Tensor(out)", infer_meta=("CompareInferMeta", None),
    jvp="pointwise", traits=("pointwise", "promote", "nondifferentiable", "compares"),
    dtypes=("bool", "int", "float")
)
def less_equal(x: TensorLike, y: TensorLike) -> Tensor:
    """Whether x <= y, elementwise; a bool tensor.

    Args:
        x, y: tensor, bool, int or float.
    """
    return bind(_less_equal, (x, y), ())

_greater_than = define(
    "greater_than", "(Tensor x, Tensor y)", "Tensor(out)", infer_meta=("CompareInferMeta", None),
    jvp="pointwise", traits=("pointwise", "promote", "nondifferentiable", "compares"),
    dtypes=("bool", "int", "float")
)
def greater_than(x: TensorLike, y: TensorLike) -> Tensor:
    """Whether x > y, elementwise; a bool tensor.

    Args:
        x, y: tensor, bool, int or float.
    """
    return bind(_greater_than, (x, y), ())

_greater_equal = define(
    "greater_equal", "(Tensor x, Tensor y)", "Tensor(out)", infer_meta=("CompareInferMeta", None),
    jvp="pointwise", traits=("pointwise", "promote", "nondifferentiable", "compares"),
    dtypes=("bool", "int", "float")
)
def greater_equal(x: TensorLike, y: TensorLike) -> Tensor:
    """Whether x >= y, elementwise; a bool tensor.

    Args:
        x, y: tensor, bool, int or float.
    """
    return bind(_greater_equal, (x, y), ())

_logical_and = define(
    "logical_and", "(Tensor x, Tensor y)", "Tensor(out)", infer_meta=("CompareInferMeta", None),
    jvp="pointwise", traits=("pointwise", "promote", "commutative", "nondifferentiable"),
    dtypes=("bool", "int", "float", "complex"), inplace=(("x", "out"),)
)
def logical_and(x: TensorLike, y: TensorLike) -> Tensor:
    """x and y, elementwise, of truth values (nonzero is true); a bool tensor.

    Args:
        x, y: tensor, bool, int, float or complex.
    """
    return bind(_logical_and, (x, y), ())

def logical_and_(x: TensorLike, y: TensorLike) -> Tensor:
    """:func:`logical_and` in the memory of x, not to be used after it."""
    return bind_in_place(_logical_and, (x, y), ())

_logical_or = define(
    "logical_or", "(Tensor x, Tensor y)", "Tensor(out)", infer_meta=("CompareInferMeta", None),
    jvp="pointwise", traits=("pointwise", "promote", "commutative", "nondifferentiable"),
    dtypes=("bool", "int", "float", "complex"), inplace=(("x", "out"),)
)
def logical_or(x: TensorLike, y: TensorLike) -> Tensor:
    """x or y, elementwise, of truth values (nonzero is true); a bool tensor.

    Args:
        x, y: tensor, bool, int, float or complex.
    """
    return bind(_logical_or, (x, y), ())

def logical_or_(x: TensorLike, y: TensorLike) -> Tensor:
    """:func:`logical_or` in the memory of x, not to be used after it."""
    return bind_in_place(_logical_or, (x, y), ())

_logical_xor = define(
    "logical_xor", "(Tensor x, Tensor y)", "Tensor(out)", infer_meta=("CompareInferMeta", None),
    jvp="pointwise", traits=("pointwise", "promote", "commutative", "nondifferentiable"),
    dtypes=("bool", "int", "float", "complex"), inplace=(("x", "out"),)
)
def logical_xor(x: TensorLike, y: TensorLike) -> Tensor:
    """x xor y, elementwise, of truth values (nonzero is true); a bool tensor.

    Args:
        x, y: tensor, bool, int, float or complex.
    """
    return bind(_logical_xor, (x, y), ())

def logical_xor_(x: TensorLike, y: TensorLike) -> Tensor:
    """:func:`logical_xor` in the memory of x, not to be used after it."""
    return bind_in_place(_logical_xor, (x, y), ())

_logical_not = define(
    "logical_not", "(Tensor x)", "Tensor(out)", infer_meta=("ToBoolInferMeta", None),
    jvp="pointwise", traits=("pointwise", "promote", "nondifferentiable"),
    dtypes=("bool", "int", "float", "complex"), inplace=(("x", "out"),)
)
def logical_not(x: TensorLike) -> Tensor:
    """Whether x is zero (false), elementwise; a bool tensor.

    Args:
        x: tensor, bool, int, float or complex.
    """
    return bind(_logical_not, (x,), ())

def logical_not_(x: TensorLike) -> Tensor:
    """:func:`logical_not` in the memory of x, not to be used after it."""
    return bind_in_place(_logical_not, (x,), ())

_bitwise_and = define(
    "bitwise_and", "(Tensor x, Tensor y)", "Tensor(out)", infer_meta=("ElementwiseInferMeta", None),
    jvp="pointwise", traits=("pointwise", "promote", "commutative", "nondifferentiable"),
    dtypes=("bool", "int"), inplace=(("x", "out"),)
)
def bitwise_and(x: TensorLike, y: TensorLike) -> Tensor:
    """x & y, bit by bit, elementwise.

    Args:
        x, y: tensor, bool or int.
    """
    return bind(_bitwise_and, (x, y), ())

def bitwise_and_(x: TensorLike, y: TensorLike) -> Tensor:
    """:func:`bitwise_and` in the memory of x, not to be used after it."""
    return bind_in_place(_bitwise_and, (x, y), ())

_bitwise_or = define(
    "bitwise_or", "(Tensor x, Tensor y)", "Tensor(out)", infer_meta=("ElementwiseInferMeta", None),
    jvp="pointwise", traits=("pointwise", "promote", "commutative", "nondifferentiable"),
    dtypes=("bool", "int"), inplace=(("x", "out"),)
)
def bitwise_or(x: TensorLike, y: TensorLike) -> Tensor:
    """x | y, bit by bit, elementwise.

    Args:
        x, y: tensor, bool or int.
    """
    return bind(_bitwise_or, (x, y), ())

def bitwise_or_(x: TensorLike, y: TensorLike) -> Tensor:
    """:func:`bitwise_or` in the memory of x, not to be used after it."""
    return bind_in_place(_bitwise_or, (x, y), ())

_bitwise_xor = define(
    "bitwise_xor", "(Tensor x, Tensor y)", "Tensor(out)", infer_meta=("ElementwiseInferMeta", None),
    jvp="pointwise", traits=("pointwise", "promote", "commutative", "nondifferentiable"),
    dtypes=("bool", "int"), inplace=(("x", "out"),)
)
def bitwise_xor(x: TensorLike, y: TensorLike) -> Tensor:
    """x ^ y, bit by bit, elementwise.

    Args:
        x, y: tensor, bool or int.
    """
    return bind(_bitwise_xor, (x, y), ())

def bitwise_xor_(x: TensorLike, y: TensorLike) -> Tensor:
    """:func:`bitwise_xor` in the memory of x, not to be used after it."""
    return bind_in_place(_bitwise_xor, (x, y), ())

_bitwise_not = define(
    "bitwise_not", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    jvp="pointwise", traits=("pointwise", "promote", "nondifferentiable"), dtypes=("bool", "int"),
    inplace=(("x", "out"),)
)
def bitwise_not(x: TensorLike) -> Tensor:
    """Every bit of x flipped, elementwise; of a bool, its negation.

    Args:
        x: tensor, bool or int.
    """
    return bind(_bitwise_not, (x,), ())

def bitwise_not_(x: TensorLike) -> Tensor:
    """:func:`bitwise_not` in the memory of x, not to be used after it."""
    return bind_in_place(_bitwise_not, (x,), ())

_bitwise_left_shift = define(
    "bitwise_left_shift", "(Tensor x, Tensor y, bool is_arithmetic = true)", "Tensor(out)",
    infer_meta=("ElementwiseInferMeta", ("x", "y")), jvp="pointwise",
    traits=("pointwise", "promote", "nondifferentiable"), dtypes=("int",), inplace=(("x", "out"),)
)
def bitwise_left_shift(x: TensorLike, y: TensorLike, is_arithmetic: bool = True) -> Tensor:
    """x * 2 ** y by shifting the bits of x, elementwise; what is shifted out is lost, is_arithmetic
    or not.

    Args:
        x, y: tensor, int.
        is_arithmetic: bool.
    """
    return bind(_bitwise_left_shift, (x, y), (is_arithmetic,))

def bitwise_left_shift_(x: TensorLike, y: TensorLike, is_arithmetic: bool = True) -> Tensor:
    """:func:`bitwise_left_shift` in the memory of x, not to be used after it."""
    return bind_in_place(_bitwise_left_shift, (x, y), (is_arithmetic,))

_bitwise_right_shift = define(
    "bitwise_right_shift", "(Tensor x, Tensor y, bool is_arithmetic = true)", "Tensor(out)",
    infer_meta=("ElementwiseInferMeta", ("x", "y")), jvp="pointwise",
    traits=("pointwise", "promote", "nondifferentiable"), dtypes=("int",), inplace=(("x", "out"),)
)
def bitwise_right_shift(x: TensorLike, y: TensorLike, is_arithmetic: bool = True) -> Tensor:
    """x // 2 ** y by shifting the bits of x, elementwise; signed ints keep their sign, unless
    is_arithmetic is false: then zeros come in.

    Args:
        x, y: tensor, int.
        is_arithmetic: bool.
    """
    return bind(_bitwise_right_shift, (x, y), (is_arithmetic,))

def bitwise_right_shift_(x: TensorLike, y: TensorLike, is_arithmetic: bool = True) -> Tensor:
    """:func:`bitwise_right_shift` in the memory of x, not to be used after it."""
    return bind_in_place(_bitwise_right_shift, (x, y), (is_arithmetic,))

_isnan = define(
    "isnan", "(Tensor x)", "Tensor(out)", infer_meta=("ToBoolInferMeta", None), jvp="pointwise",
    traits=("pointwise", "promote", "nondifferentiable"),
    dtypes=("bool", "int", "float", "complex"), kernel={"func": (("isnan", ("dense",), ("dense",)),
    ("isnan_sr", ("selected_rows",), ("selected_rows",)))}
)
def isnan(x: TensorLike) -> Tensor:
    """Whether x is NaN, elementwise; a bool tensor.

    Args:
        x: tensor, bool, int, float or complex.
    """
    return bind(_isnan, (x,), ())

_isinf = define(
    "isinf", "(Tensor x)", "Tensor(out)", infer_meta=("ToBoolInferMeta", None), jvp="pointwise",
    traits=("pointwise", "promote", "nondifferentiable"),
    dtypes=("bool", "int", "float", "complex"), kernel={"func": (("isinf", ("dense",), ("dense",)),
    ("isinf_sr", ("selected_rows",), ("selected_rows",)))}
)
def isinf(x: TensorLike) -> Tensor:
    """Whether x is infinite, elementwise; a bool tensor.

    Args:
        x: tensor, bool, int, float or complex.
    """
    return bind(_isinf, (x,), ())

_isfinite = define(
    "isfinite", "(Tensor x)", "Tensor(out)", infer_meta=("ToBoolInferMeta", None), jvp="pointwise",
    traits=("pointwise", "promote", "nondifferentiable"), dtypes=("bool", "int", "float", "complex")
)
def isfinite(x: TensorLike) -> Tensor:
    """Whether x is neither infinite nor NaN, elementwise; a bool tensor.

    Args:
        x: tensor, bool, int, float or complex.
    """
    return bind(_isfinite, (x,), ())

_where = define(
    "where", "(Tensor condition, Tensor x, Tensor y)", "Tensor(out)",
    infer_meta=("WhereInferMeta", None), backward="where_grad", jvp="linear",
    traits=("pointwise", "promote(x, y)", "stores"), dtypes=("bool", "int", "float", "complex"),
    inplace=(("x", "out"),)
)
def where(condition: TensorLike, x: TensorLike, y: TensorLike) -> Tensor:
    """x where the condition holds, else y, elementwise. No gradient crosses from the other side.

    Args:
        condition: tensor.
        x, y: tensor, bool, int, float or complex.
    """
    return bind(_where, (condition, x, y), ())

def where_(condition: TensorLike, x: TensorLike, y: TensorLike) -> Tensor:
    """:func:`where` in the memory of x, not to be used after it."""
    return bind_in_place(_where, (condition, x, y), ())

_where_grad = define(
    "where_grad", "(Tensor condition, Tensor x, Tensor y, Tensor out_grad)",
    "Tensor(x_grad), Tensor(y_grad)", no_need_buffer=("x", "y"), forward="where"
)
def where_grad(condition, x, y, out_grad):
    """Backward of :func:`where`."""
    return bind(_where_grad, (condition, x, y, out_grad), ())

_cast = define(
    "cast", "(Tensor x, DataType dtype)", "Tensor(out)", infer_meta=("CastInferMeta", None),
    backward="cast_grad", jvp="linear", traits=("pointwise", "restates", "stores"),
    dtypes=("bool", "int", "float", "complex"), inplace=(("x", "out"),)
)
def cast(x: TensorLike, dtype: DTypeLike) -> Tensor:
    """The values of x converted to dtype, elementwise; to bool: x != 0.

    Args:
        x: tensor, bool, int, float or complex.
        dtype: dtype.
    """
    return bind(_cast, (x,), (dtype,))

def cast_(x: TensorLike, dtype: DTypeLike) -> Tensor:
    """:func:`cast` in the memory of x, not to be used after it."""
    return bind_in_place(_cast, (x,), (dtype,))

_cast_grad = define(
    "cast_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", no_need_buffer=("x",),
    forward="cast"
)
def cast_grad(x, out_grad):
    """Backward of :func:`cast`."""
    return bind(_cast_grad, (x, out_grad), ())

_scale = define(
    "scale", "(Tensor x, Scalar scale=1.0, Scalar bias=0.0, bool bias_after_scale=true)",
    "Tensor(out)", infer_meta=("UnchangedInferMeta", None), backward="scale_grad", jvp="pointwise",
    traits=("pointwise", "promote"), dtypes=("int", "float", "complex"), inplace=(("x", "out"),),
    kernel={"func": (("scale", ("dense",), ("dense",)),
    ("scale_sr", ("selected_rows",), ("selected_rows",)))}
)
def scale(
    x: TensorLike, scale: ScalarLike = 1.0, bias: ScalarLike = 0.0, bias_after_scale: bool = True
) -> Tensor:
    """scale * x + bias, or scale * (x + bias) if not bias_after_scale, elementwise; for ints both
    numbers lose their fraction first.

    Args:
        x: tensor, int, float or complex.
        scale, bias: number or one-element tensor.
        bias_after_scale: bool.
    """
    return bind(_scale, (x,), (scale, bias, bias_after_scale))

def scale_(
    x: TensorLike, scale: ScalarLike = 1.0, bias: ScalarLike = 0.0, bias_after_scale: bool = True
) -> Tensor:
    """:func:`scale` in the memory of x, not to be used after it."""
    return bind_in_place(_scale, (x,), (scale, bias, bias_after_scale))

_scale_grad = define(
    "scale_grad", "(Tensor out_grad, Scalar scale)", "Tensor(x_grad)", forward="scale"
)
def scale_grad(out_grad, scale):
    """Backward of :func:`scale`."""
    return bind(_scale_grad, (out_grad,), (scale,))

_real = define(
    "real", "(Tensor x)", "Tensor(out)", infer_meta=("RealAndImagInferMeta", None),
    backward="real_grad", jvp="linear", traits=("pointwise", "promote"), dtypes=("float", "complex")
)
def real(x: TensorLike) -> Tensor:
    """Real part, elementwise.

    Args:
        x: tensor, float or complex.
    """
    return bind(_real, (x,), ())

_real_grad = define(
    "real_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", no_need_buffer=("x",),
    forward="real"
)
def real_grad(x, out_grad):
    """Backward of :func:`real`."""
    return bind(_real_grad, (x, out_grad), ())

_imag = define(
    "imag", "(Tensor x)", "Tensor(out)", infer_meta=("RealAndImagInferMeta", None),
    backward="imag_grad", jvp="linear", traits=("pointwise", "promote"), dtypes=("float", "complex")
)
def imag(x: TensorLike) -> Tensor:
    """Imaginary part, elementwise; 0 of a real number.

    Args:
        x: tensor, float or complex.
    """
    return bind(_imag, (x,), ())

_imag_grad = define(
    "imag_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", no_need_buffer=("x",),
    forward="imag"
)
def imag_grad(x, out_grad):
    """Backward of :func:`imag`."""
    return bind(_imag_grad, (x, out_grad), ())

_conj = define(
    "conj", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="conj_grad", jvp="linear", traits=("pointwise", "promote"),
    dtypes=("int", "float", "complex")
)
def conj(x: TensorLike) -> Tensor:
    """Complex conjugate, elementwise; a real tensor is its own.

    Args:
        x: tensor, int, float or complex.
    """
    return bind(_conj, (x,), ())

_conj_grad = define("conj_grad", "(Tensor out_grad)", "Tensor(x_grad)", forward="conj")
def conj_grad(out_grad):
    """Backward of :func:`conj`."""
    return bind(_conj_grad, (out_grad,), ())

_complex = define(
    "complex", "(Tensor real, Tensor imag)", "Tensor(out)", infer_meta=("ComplexInferMeta", None),
    backward="complex_grad", jvp="linear", traits=("pointwise", "promote_float"),
    dtypes=("float32", "float64")
)
def complex(real: TensorLike, imag: TensorLike) -> Tensor:
    """real + 1j * imag, elementwise.

    Args:
        real, imag: tensor, float32 or float64.
    """
    return bind(_complex, (real, imag), ())

_complex_grad = define(
    "complex_grad", "(Tensor real, Tensor imag, Tensor out_grad)",
    "Tensor(real_grad), Tensor(imag_grad)", no_need_buffer=("real", "imag"), forward="complex"
)
def complex_grad(real, imag, out_grad):
    """Backward of :func:`complex`."""
    return bind(_complex_grad, (real, imag, out_grad), ())


# -- yaml/pooling.yaml -----------------------------------------------------------------------------
define = definer("yaml/pooling.yaml", family="pooling")

_max_pool2d = define(
    "max_pool2d",
    "(Tensor x, int[] kernel_size, int[] strides={}, int[] paddings={0, 0}, bool ceil_mode=false, "
    'str data_format="NCHW", str padding_algorithm="EXPLICIT")', "Tensor(out)",
    infer_meta=("PoolWindowsInferMeta", None), backward="max_pool2d_grad",
    traits=("promote_float",), dtypes=("float",)
)
def max_pool2d(
    x: TensorLike, kernel_size: IntArrayLike, strides: IntArrayLike | None = (),
    paddings: IntArrayLike = (0, 0), ceil_mode: bool = False, data_format: str = "NCHW",
    padding_algorithm: str = "EXPLICIT"
) -> Tensor:
    """The largest element of each window of images; padding never wins, and ties share the
    gradient. Without strides the windows lie side by side; ceil_mode keeps windows that begin
    before the image ends and reach out behind.

    Args:
        x: tensor, float.
        kernel_size: sequence of ints.
        strides: sequence of ints, may be None.
        paddings: sequence of ints.
        ceil_mode: bool.
        data_format, padding_algorithm: str.
    """
    return bind(
        _max_pool2d, (x,),
        (kernel_size, strides, paddings, ceil_mode, data_format, padding_algorithm)
    )

_max_pool2d_grad = define(
    "max_pool2d_grad",
    "(Tensor x, Tensor out, Tensor out_grad, int[] kernel_size, int[] strides, int[] paddings, "
    "bool ceil_mode, str data_format, str padding_algorithm)", "Tensor(x_grad)",
    forward="max_pool2d"
)
def max_pool2d_grad(
    x, out, out_grad, kernel_size, strides, paddings, ceil_mode, data_format, padding_algorithm
):
    """Backward of :func:`max_pool2d`."""
    return bind(
        _max_pool2d_grad, (x, out, out_grad),
        (kernel_size, strides, paddings, ceil_mode, data_format, padding_algorithm)
    )

_avg_pool2d = define(
    "avg_pool2d",
    "(Tensor x, int[] kernel_size, int[] strides={}, int[] paddings={0, 0}, bool ceil_mode=false, "
    'bool exclusive=true, str data_format="NCHW", str padding_algorithm="EXPLICIT")', "Tensor(out)",
    infer_meta=("PoolWindowsInferMeta", ("x", "kernel_size", "strides", "paddings", "ceil_mode",
    "data_format", "padding_algorithm")), backward="avg_pool2d_grad", jvp="linear",
    traits=("promote_float",), dtypes=("float",)
)
def avg_pool2d(
    x: TensorLike, kernel_size: IntArrayLike, strides: IntArrayLike | None = (),
    paddings: IntArrayLike = (0, 0), ceil_mode: bool = False, exclusive: bool = True,
    data_format: str = "NCHW", padding_algorithm: str = "EXPLICIT"
) -> Tensor:
    """The mean of each window of images; exclusive leaves the padding out of the count. Without
    strides the windows lie side by side; ceil_mode keeps windows that begin before the image ends
    and reach out behind.

    Args:
        x: tensor, float.
        kernel_size: sequence of ints.
        strides: sequence of ints, may be None.
        paddings: sequence of ints.
        ceil_mode, exclusive: bool.
        data_format, padding_algorithm: str.
    """
    return bind(
        _avg_pool2d, (x,),
        (kernel_size, strides, paddings, ceil_mode, exclusive, data_format, padding_algorithm)
    )

_avg_pool2d_grad = define(
    "avg_pool2d_grad",
    "(Tensor x, Tensor out_grad, int[] kernel_size, int[] strides, int[] paddings, "
    "bool ceil_mode, bool exclusive, str data_format, str padding_algorithm)", "Tensor(x_grad)",
    no_need_buffer=("x",), forward="avg_pool2d"
)
def avg_pool2d_grad(
    x, out_grad, kernel_size, strides, paddings, ceil_mode, exclusive, data_format,
    padding_algorithm
):
    """Backward of :func:`avg_pool2d`."""
    return bind(
        _avg_pool2d_grad, (x, out_grad),
        (kernel_size, strides, paddings, ceil_mode, exclusive, data_format, padding_algorithm)
    )

_max_pool3d = define(
    "max_pool3d", "(Tensor x, int[] kernel_size, int[] strides={}, int[] paddings={0, 0, 0}, "
    'bool ceil_mode=false, str data_format="NCDHW", str padding_algorithm="EXPLICIT")',
    "Tensor(out)", infer_meta=("PoolWindowsInferMeta", None), backward="max_pool3d_grad",
    traits=("promote_float",), dtypes=("float",)
)
def max_pool3d(
    x: TensorLike, kernel_size: IntArrayLike, strides: IntArrayLike | None = (),
    paddings: IntArrayLike = (0, 0, 0), ceil_mode: bool = False, data_format: str = "NCDHW",
    padding_algorithm: str = "EXPLICIT"
) -> Tensor:
    """The largest element of each window of volumes; padding never wins, and ties share the
    gradient. Without strides the windows lie side by side; ceil_mode keeps windows that begin
    before the image ends and reach out behind.

    Args:
        x: tensor, float.
        kernel_size: sequence of ints.
        strides: sequence of ints, may be None.
        paddings: sequence of ints.
        ceil_mode: bool.
        data_format, padding_algorithm: str.
    """
    return bind(
        _max_pool3d, (x,),
        (kernel_size, strides, paddings, ceil_mode, data_format, padding_algorithm)
    )

_max_pool3d_grad = define(
    "max_pool3d_grad",
    "(Tensor x, Tensor out, Tensor out_grad, int[] kernel_size, int[] strides, int[] paddings, "
    "bool ceil_mode, str data_format, str padding_algorithm)", "Tensor(x_grad)",
    forward="max_pool3d"
)
def max_pool3d_grad(
    x, out, out_grad, kernel_size, strides, paddings, ceil_mode, data_format, padding_algorithm
):
    """Backward of :func:`max_pool3d`."""
    return bind(
        _max_pool3d_grad, (x, out, out_grad),
        (kernel_size, strides, paddings, ceil_mode, data_format, padding_algorithm)
    )

_avg_pool3d = define(
    "avg_pool3d", "(Tensor x, int[] kernel_size, int[] strides={}, int[] paddings={0, 0, 0}, "
    'bool ceil_mode=false, bool exclusive=true, str data_format="NCDHW", '
    'str padding_algorithm="EXPLICIT")', "Tensor(out)", infer_meta=("PoolWindowsInferMeta", ("x",
    "kernel_size", "strides", "paddings", "ceil_mode", "data_format", "padding_algorithm")),
    backward="avg_pool3d_grad", jvp="linear", traits=("promote_float",), dtypes=("float",)
)
def avg_pool3d(
    x: TensorLike, kernel_size: IntArrayLike, strides: IntArrayLike | None = (),
    paddings: IntArrayLike = (0, 0, 0), ceil_mode: bool = False, exclusive: bool = True,
    data_format: str = "NCDHW", padding_algorithm: str = "EXPLICIT"
) -> Tensor:
    """The mean of each window of volumes; exclusive leaves the padding out of the count. Without
    strides the windows lie side by side; ceil_mode keeps windows that begin before the image ends
    and reach out behind.

    Args:
        x: tensor, float.
        kernel_size: sequence of ints.
        strides: sequence of ints, may be None.
        paddings: sequence of ints.
        ceil_mode, exclusive: bool.
        data_format, padding_algorithm: str.
    """
    return bind(
        _avg_pool3d, (x,),
        (kernel_size, strides, paddings, ceil_mode, exclusive, data_format, padding_algorithm)
    )

_avg_pool3d_grad = define(
    "avg_pool3d_grad",
    "(Tensor x, Tensor out_grad, int[] kernel_size, int[] strides, int[] paddings, "
    "bool ceil_mode, bool exclusive, str data_format, str padding_algorithm)", "Tensor(x_grad)",
    no_need_buffer=("x",), forward="avg_pool3d"
)
def avg_pool3d_grad(
    x, out_grad, kernel_size, strides, paddings, ceil_mode, exclusive, data_format,
    padding_algorithm
):
    """Backward of :func:`avg_pool3d`."""
    return bind(
        _avg_pool3d_grad, (x, out_grad),
        (kernel_size, strides, paddings, ceil_mode, exclusive, data_format, padding_algorithm)
    )


# -- yaml/pooling_forms.yaml -----------------------------------------------------------------------
define = definer("yaml/pooling_forms.yaml", family="pooling")

_pool2d = define(
    "pool2d", "(Tensor x, IntArray kernel_size, int[] strides, int[] paddings, bool ceil_mode, "
    "bool exclusive, str data_format, str pooling_type, bool global_pooling, bool adaptive, "
    "str padding_algorithm)", "Tensor(out)", traits=("promote_float(x)",), dtypes=("float",)
)
def pool2d(
    x: TensorLike, kernel_size: IntArrayLike, strides: IntArrayLike, paddings: IntArrayLike,
    ceil_mode: bool, exclusive: bool, data_format: str, pooling_type: str, global_pooling: bool,
    adaptive: bool, padding_algorithm: str
) -> Tensor:
    """:func:`max_pool2d` or :func:`avg_pool2d` by pooling_type (max, avg). global_pooling takes the
    whole image for one window; adaptive reads kernel_size as the number of windows, window i from
    floor(i * size / n) up to ceil((i + 1) * size / n).

    Args:
        x: tensor, float.
        kernel_size: ints, a tensor of ints, or a list that mixes ints and 0-d tensors.
        strides, paddings: sequence of ints.
        ceil_mode, exclusive: bool.
        data_format, pooling_type: str.
        global_pooling, adaptive: bool.
        padding_algorithm: str.
    """
    return bind(
        _pool2d, (x,), (kernel_size, strides, paddings, ceil_mode, exclusive, data_format,
        pooling_type, global_pooling, adaptive, padding_algorithm)
    )

_pool3d = define(
    "pool3d",
    "(Tensor x, int[] kernel_size, int[] strides, int[] paddings, bool ceil_mode, bool exclusive, "
    "str data_format, str pooling_type, bool global_pooling, bool adaptive, str padding_algorithm)",
    "Tensor(out)", traits=("promote_float(x)",), dtypes=("float",)
)
def pool3d(
    x: TensorLike, kernel_size: IntArrayLike, strides: IntArrayLike, paddings: IntArrayLike,
    ceil_mode: bool, exclusive: bool, data_format: str, pooling_type: str, global_pooling: bool,
    adaptive: bool, padding_algorithm: str
) -> Tensor:
    """:func:`max_pool3d` or :func:`avg_pool3d` by pooling_type (max, avg); all else as
    :func:`pool2d`.

    Args:
        x: tensor, float.
        kernel_size, strides, paddings: sequence of ints.
        ceil_mode, exclusive: bool.
        data_format, pooling_type: str.
        global_pooling, adaptive: bool.
        padding_algorithm: str.
    """
    return bind(
        _pool3d, (x,), (kernel_size, strides, paddings, ceil_mode, exclusive, data_format,
        pooling_type, global_pooling, adaptive, padding_algorithm)
    )

_lp_pool2d = define(
    "lp_pool2d", "(Tensor x, IntArray kernel_size, int[] strides={1, 1}, int[] paddings={0, 0}, "
    'bool ceil_mode=false, bool exclusive=true, str data_format="NCHW", str pooling_type="", '
    'bool global_pooling=false, bool adaptive=false, str padding_algorithm="EXPLICIT", '
    "float norm_type=0.0f)", "Tensor(out)", traits=("promote_float(x)",), dtypes=("float",)
)
def lp_pool2d(
    x: TensorLike, kernel_size: IntArrayLike, strides: IntArrayLike = (1, 1),
    paddings: IntArrayLike = (0, 0), ceil_mode: bool = False, exclusive: bool = True,
    data_format: str = "NCHW", pooling_type: str = "", global_pooling: bool = False,
    adaptive: bool = False, padding_algorithm: str = "EXPLICIT", norm_type: FloatLike = 0.0
) -> Tensor:
    """(sum of x ** norm_type) ** (1 / norm_type) of each window of images; where the sum is 0, it
    and its gradient are 0. Windows as in :func:`pool2d`; norm_type must be given. exclusive and
    pooling_type say nothing here.

    Args:
        x: tensor, float.
        kernel_size: ints, a tensor of ints, or a list that mixes ints and 0-d tensors.
        strides, paddings: sequence of ints.
        ceil_mode, exclusive: bool.
        data_format, pooling_type: str.
        global_pooling, adaptive: bool.
        padding_algorithm: str.
        norm_type: float or one-element tensor.
    """
    return bind(
        _lp_pool2d, (x,), (kernel_size, strides, paddings, ceil_mode, exclusive, data_format,
        pooling_type, global_pooling, adaptive, padding_algorithm, norm_type)
    )

_max_pool2d_with_index = define(
    "max_pool2d_with_index",
    "(Tensor x, int[] kernel_size, int[] strides={1, 1}, int[] paddings={0, 0}, "
    "bool global_pooling=false, bool adaptive=false, bool ceil_mode=false)",
    "Tensor(out), Tensor(mask)", traits=("promote_float(x)",), dtypes=("float",)
)
def max_pool2d_with_index(
    x: TensorLike, kernel_size: IntArrayLike, strides: IntArrayLike = (1, 1),
    paddings: IntArrayLike = (0, 0), global_pooling: bool = False, adaptive: bool = False,
    ceil_mode: bool = False
) -> tuple[Tensor, Tensor]:
    """The largest element of each window of images [n, c, ...], and its number on its image, in
    int32: of equal ones the first, which has all the gradient. global_pooling and adaptive as in
    :func:`pool2d`.

    Args:
        x: tensor, float.
        kernel_size, strides, paddings: sequence of ints.
        global_pooling, adaptive, ceil_mode: bool.

    Returns:
        out, mask.
    """
    return bind(
        _max_pool2d_with_index, (x,),
        (kernel_size, strides, paddings, global_pooling, adaptive, ceil_mode)
    )

_fractional_max_pool2d = define(
    "fractional_max_pool2d",
    "(Tensor x, int[] output_size, int[] kernel_size={0, 0}, float random_u=0.0, "
    "bool return_mask=true)", "Tensor(out), Tensor(mask)", traits=("promote_float(x)",),
    dtypes=("float",)
)
def fractional_max_pool2d(
    x: TensorLike, output_size: IntArrayLike, kernel_size: IntArrayLike = (0, 0),
    random_u: FloatLike = 0.0, return_mask: bool = True
) -> tuple[Tensor, Tensor]:
    """The largest elements of output_size windows of images [n, c, ...], and their numbers as in
    :func:`max_pool2d_with_index`. The windows, disjoint or of kernel_size, begin at floor((i + u) *
    a) - floor(u * a), a = size / n or (size - kernel) / (n - 1); u is random_u, between 0 and 1 (0,
    Paddle's for a number of its own, is refused), made smaller for disjoint windows. return_mask
    says nothing here.

    Args:
        x: tensor, float.
        output_size, kernel_size: sequence of ints.
        random_u: float or one-element tensor.
        return_mask: bool.

    Returns:
        out, mask.
    """
    return bind(_fractional_max_pool2d, (x,), (output_size, kernel_size, random_u, return_mask))

_max_pool3d_with_index = define(
    "max_pool3d_with_index",
    "(Tensor x, int[] kernel_size, int[] strides={1, 1, 1}, int[] paddings={0, 0, 0}, "
    "bool global_pooling=false, bool adaptive=false, bool ceil_mode=false)",
    "Tensor(out), Tensor(mask)", traits=("promote_float(x)",), dtypes=("float",)
)
def max_pool3d_with_index(
    x: TensorLike, kernel_size: IntArrayLike, strides: IntArrayLike = (1, 1, 1),
    paddings: IntArrayLike = (0, 0, 0), global_pooling: bool = False, adaptive: bool = False,
    ceil_mode: bool = False
) -> tuple[Tensor, Tensor]:
    """The largest element of each window of volumes [n, c, ...], and its number on its volume, in
    int32: of equal ones the first, which has all the gradient. global_pooling and adaptive as in
    :func:`pool3d`.

    Args:
        x: tensor, float.
        kernel_size, strides, paddings: sequence of ints.
        global_pooling, adaptive, ceil_mode: bool.

    Returns:
        out, mask.
    """
    return bind(
        _max_pool3d_with_index, (x,),
        (kernel_size, strides, paddings, global_pooling, adaptive, ceil_mode)
    )

_fractional_max_pool3d = define(
    "fractional_max_pool3d",
    "(Tensor x, int[] output_size, int[] kernel_size={0, 0, 0}, float random_u=0.0, "
    "bool return_mask=true)", "Tensor(out), Tensor(mask)", traits=("promote_float(x)",),
    dtypes=("float",)
)
def fractional_max_pool3d(
    x: TensorLike, output_size: IntArrayLike, kernel_size: IntArrayLike = (0, 0, 0),
    random_u: FloatLike = 0.0, return_mask: bool = True
) -> tuple[Tensor, Tensor]:
    """The largest elements of output_size windows of volumes [n, c, ...], and their numbers as in
    :func:`max_pool3d_with_index`. The windows, disjoint or of kernel_size, begin at floor((i + u) *
    a) - floor(u * a), a = size / n or (size - kernel) / (n - 1); u is random_u, between 0 and 1 (0,
    Paddle's for a number of its own, is refused), made smaller for disjoint windows. return_mask
    says nothing here.

    Args:
        x: tensor, float.
        output_size, kernel_size: sequence of ints.
        random_u: float or one-element tensor.
        return_mask: bool.

    Returns:
        out, mask.
    """
    return bind(_fractional_max_pool3d, (x,), (output_size, kernel_size, random_u, return_mask))

_unpool = define(
    "unpool",
    "(Tensor x, Tensor indices, int[] ksize, int[] strides, int[] padding, IntArray output_size, "
    "str data_format)", "Tensor(out)", traits=("promote_float(x)",), dtypes=("float",)
)
def unpool(
    x: TensorLike, indices: TensorLike, ksize: IntArrayLike, strides: IntArrayLike,
    padding: IntArrayLike, output_size: IntArrayLike, data_format: str
) -> Tensor:
    """Images of zeros with the elements of x [n, c, height, width] at the places that indices
    number, as :func:`max_pool2d_with_index` gives them; of output_size, or (size - 1) * stride - 2
    * padding + ksize where that is empty.

    Args:
        x: tensor, float.
        indices: tensor.
        ksize, strides, padding: sequence of ints.
        output_size: ints, a tensor of ints, or a list that mixes ints and 0-d tensors.
        data_format: str.
    """
    return bind(_unpool, (x, indices), (ksize, strides, padding, output_size, data_format))

_unpool3d = define(
    "unpool3d",
    "(Tensor x, Tensor indices, int[] ksize, int[] strides={1, 1, 1}, int[] paddings={0, 0, 0}, "
    'int[] output_size={0, 0, 0}, str data_format="NCDHW")', "Tensor(out)",
    traits=("promote_float(x)",), dtypes=("float",)
)
def unpool3d(
    x: TensorLike, indices: TensorLike, ksize: IntArrayLike, strides: IntArrayLike = (1, 1, 1),
    paddings: IntArrayLike = (0, 0, 0), output_size: IntArrayLike = (0, 0, 0),
    data_format: str = "NCDHW"
) -> Tensor:
    """:func:`unpool` of volumes; an output_size of zeros is as none.

    Args:
        x: tensor, float.
        indices: tensor.
        ksize, strides, paddings, output_size: sequence of ints.
        data_format: str.
    """
    return bind(_unpool3d, (x, indices), (ksize, strides, paddings, output_size, data_format))

_maxout = define(
    "maxout", "(Tensor x, int groups, int axis=1)", "Tensor(out)", traits=("promote_float(x)",),
    dtypes=("float",)
)
def maxout(x: TensorLike, groups: int, axis: int = 1) -> Tensor:
    """The largest of each groups neighbouring channels, out[c] = max of x[c * groups + i] along
    axis.

    Args:
        x: tensor, float.
        groups, axis: int.
    """
    return bind(_maxout, (x,), (groups, axis))


# -- yaml/proposals.yaml ---------------------------------------------------------------------------
define = definer("yaml/proposals.yaml", family="detection")

_generate_proposals = define(
    "generate_proposals",
    "(Tensor scores, Tensor bbox_deltas, Tensor im_shape, Tensor anchors, Tensor variances, "
    "int pre_nms_top_n, int post_nms_top_n, float nms_thresh, float min_size, float eta, "
    "bool pixel_offset=true)", "Tensor(rpn_rois), Tensor(rpn_roi_probs), Tensor(rpn_rois_num)",
    traits=("promote_float", "data_dependent"), dtypes=("float",)
)
def generate_proposals(
    scores: TensorLike, bbox_deltas: TensorLike, im_shape: TensorLike, anchors: TensorLike,
    variances: TensorLike, pre_nms_top_n: int, post_nms_top_n: int, nms_thresh: FloatLike,
    min_size: FloatLike, eta: FloatLike, pixel_offset: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Of each image the pre_nms_top_n best anchors by scores [images, anchors, height, width] are
    moved by bbox_deltas times variances, clipped to im_shape (height, width), and stay if their
    sides reach min_size and 1; :func:`nms` by nms_thresh, which shrinks by eta, leaves the
    post_nms_top_n best [boxes, 4], their scores, and how many each image has. An image that keeps
    none has a box of zeros.

    Args:
        scores, bbox_deltas, im_shape, anchors, variances: tensor, float.
        pre_nms_top_n, post_nms_top_n: int.
        nms_thresh, min_size, eta: float or one-element tensor.
        pixel_offset: bool.

    Returns:
        rpn_rois, rpn_roi_probs, rpn_rois_num.
    """
    return bind(
        _generate_proposals, (scores, bbox_deltas, im_shape, anchors, variances),
        (pre_nms_top_n, post_nms_top_n, nms_thresh, min_size, eta, pixel_offset)
    )

_collect_fpn_proposals = define(
    "collect_fpn_proposals",
    "(Tensor[] multi_level_rois, Tensor[] multi_level_scores, Tensor[] multi_level_rois_num, "
    "int post_nms_topn)", "Tensor(fpn_rois), Tensor(rois_num)",
    traits=("promote_float(multi_level_rois, multi_level_scores)",), dtypes=("float",),
    optional=("multi_level_rois_num",)
)
def collect_fpn_proposals(
    multi_level_rois: Sequence[TensorLike], multi_level_scores: Sequence[TensorLike],
    multi_level_rois_num: Sequence[TensorLike] | None, post_nms_topn: int
) -> tuple[Tensor, Tensor]:
    """Of the boxes [n, 4] of all levels the post_nms_topn with the largest scores [n] or [n, 1],
    sorted by image, then by score, and how many each image has. multi_level_rois_num [images] says
    for each level how many boxes in a row each image has; absent, all are of one.

    Args:
        multi_level_rois, multi_level_scores: sequence of tensors, float.
        multi_level_rois_num: sequence of tensors, may be None.
        post_nms_topn: int.

    Returns:
        fpn_rois, rois_num.
    """
    return bind(
        _collect_fpn_proposals, (multi_level_rois, multi_level_scores, multi_level_rois_num),
        (post_nms_topn,)
    )

_distribute_fpn_proposals = define(
    "distribute_fpn_proposals",
    "(Tensor fpn_rois, Tensor rois_num, int min_level, int max_level, int refer_level, "
    "int refer_scale, bool pixel_offset)", "Tensor[](multi_fpn_rois){max_level - min_level + 1}, "
    "Tensor[](multi_level_rois_num){max_level - min_level + 1}, Tensor(restore_index)",
    traits=("promote_float(fpn_rois)", "data_dependent"), dtypes=("float",), optional=("rois_num",)
)
def distribute_fpn_proposals(
    fpn_rois: TensorLike, rois_num: TensorLike | None, min_level: int, max_level: int,
    refer_level: int, refer_scale: int, pixel_offset: bool
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], Tensor]:
    """Boxes [n, 4] sorted by level, floor(refer_level + log2(sqrt(area) / refer_scale + 1e-6))
    within min_level and max_level: those of each level, how many of them each image has, and for
    each box its place in all levels behind each other, [n, 1]. rois_num [images] are the boxes in a
    row of each image; absent, all are of one. With pixel_offset the last pixel belongs to a box.

    Args:
        fpn_rois: tensor, float.
        rois_num: tensor, may be None.
        min_level, max_level, refer_level, refer_scale: int.
        pixel_offset: bool.

    Returns:
        multi_fpn_rois, multi_level_rois_num, restore_index.
    """
    return bind(
        _distribute_fpn_proposals, (fpn_rois, rois_num),
        (min_level, max_level, refer_level, refer_scale, pixel_offset)
    )


# -- yaml/quantisation.yaml ------------------------------------------------------------------------
define = definer("yaml/quantisation.yaml", family="quantisation")

_fake_quantize_abs_max = define(
    "fake_quantize_abs_max", "(Tensor x, int bit_length = 8, int round_type = 1)",
    "Tensor(out), Tensor(out_scale)", traits=("promote_float(x)", "full_precision"),
    dtypes=("float",)
)
def fake_quantize_abs_max(
    x: TensorLike, bit_length: int = 8, round_type: int = 1
) -> tuple[Tensor, Tensor]:
    """The ints, as floats, nearest to x * (2 ** (bit_length - 1) - 1) / s, where s = max(abs(x)) is
    out_scale [1]. Halves go to the even neighbour (round_type 0) or away from 0 (1).

    Args:
        x: tensor, float.
        bit_length, round_type: int.

    Returns:
        out, out_scale.
    """
    return bind(_fake_quantize_abs_max, (x,), (bit_length, round_type))

_fake_quantize_dequantize_abs_max = define(
    "fake_quantize_dequantize_abs_max", "(Tensor x, int bit_length = 8, int round_type = 1)",
    "Tensor(out), Tensor(out_scale)", backward="fake_quantize_dequantize_abs_max_grad",
    traits=("promote_float(x)", "full_precision", "own_derivative"), dtypes=("float",)
)
def fake_quantize_dequantize_abs_max(
    x: TensorLike, bit_length: int = 8, round_type: int = 1
) -> tuple[Tensor, Tensor]:
    """What :func:`fake_quantize_abs_max` gives, times out_scale / (2 ** (bit_length - 1) - 1): x as
    its ints hold it. The gradient passes as if nothing were rounded.

    Args:
        x: tensor, float.
        bit_length, round_type: int.

    Returns:
        out, out_scale.
    """
    return bind(_fake_quantize_dequantize_abs_max, (x,), (bit_length, round_type))

_fake_quantize_dequantize_abs_max_grad = define(
    "fake_quantize_dequantize_abs_max_grad",
    "(Tensor out_grad, int bit_length = 8, int round_type = 1)", "Tensor(x_grad)",
    forward="fake_quantize_dequantize_abs_max"
)
def fake_quantize_dequantize_abs_max_grad(out_grad, bit_length=8, round_type=1):
    """Backward of :func:`fake_quantize_dequantize_abs_max`."""
    return bind(_fake_quantize_dequantize_abs_max_grad, (out_grad,), (bit_length, round_type))

_fake_channel_wise_quantize_abs_max = define(
    "fake_channel_wise_quantize_abs_max",
    "(Tensor x, int bit_length = 8, int round_type = 1, int quant_axis = 0, bool is_test = false)",
    "Tensor(out), Tensor(out_scale)", traits=("promote_float(x)", "full_precision"),
    dtypes=("float",)
)
def fake_channel_wise_quantize_abs_max(
    x: TensorLike, bit_length: int = 8, round_type: int = 1, quant_axis: int = 0,
    is_test: bool = False
) -> tuple[Tensor, Tensor]:
    """:func:`fake_quantize_abs_max` with a scale for each position along quant_axis, 0 or 1, in
    out_scale [channels]. is_test says nothing: the scales are always those of x.

    Args:
        x: tensor, float.
        bit_length, round_type, quant_axis: int.
        is_test: bool.

    Returns:
        out, out_scale.
    """
    return bind(
        _fake_channel_wise_quantize_abs_max, (x,), (bit_length, round_type, quant_axis, is_test)
    )

_fake_channel_wise_quantize_dequantize_abs_max = define(
    "fake_channel_wise_quantize_dequantize_abs_max",
    "(Tensor x, int bit_length = 8, int round_type = 1, int quant_axis = 0)",
    "Tensor(out), Tensor(out_scale)", backward="fake_channel_wise_quantize_dequantize_abs_max_grad",
    traits=("promote_float(x)", "full_precision", "own_derivative"), dtypes=("float",)
)
def fake_channel_wise_quantize_dequantize_abs_max(
    x: TensorLike, bit_length: int = 8, round_type: int = 1, quant_axis: int = 0
) -> tuple[Tensor, Tensor]:
    """:func:`fake_quantize_dequantize_abs_max` with a scale for each position along quant_axis, 0
    or 1, in out_scale [channels]. The gradient passes as if nothing were rounded.

    Args:
        x: tensor, float.
        bit_length, round_type, quant_axis: int.

    Returns:
        out, out_scale.
    """
    return bind(
        _fake_channel_wise_quantize_dequantize_abs_max, (x,), (bit_length, round_type, quant_axis)
    )

_fake_channel_wise_quantize_dequantize_abs_max_grad = define(
    "fake_channel_wise_quantize_dequantize_abs_max_grad",
    "(Tensor out_grad, int bit_length = 8, int round_type = 1, int quant_axis = 0)",
    "Tensor(x_grad)", forward="fake_channel_wise_quantize_dequantize_abs_max"
)
def fake_channel_wise_quantize_dequantize_abs_max_grad(
    out_grad, bit_length=8, round_type=1, quant_axis=0
):
    """Backward of :func:`fake_channel_wise_quantize_dequantize_abs_max`."""
    return bind(
        _fake_channel_wise_quantize_dequantize_abs_max_grad, (out_grad,),
        (bit_length, round_type, quant_axis)
    )

_fake_quantize_moving_average_abs_max = define(
    "fake_quantize_moving_average_abs_max",
    "(Tensor x, Tensor in_scale, Tensor in_accum, Tensor in_state, float moving_rate = 0.9, "
    "int bit_length = 8, bool is_test = false, int round_type = 1)",
    "Tensor(out), Tensor(out_scale), Tensor(out_state), Tensor(out_accum)",
    traits=("promote_float(x)", "full_precision"), dtypes=("float",),
    optional=("in_accum", "in_state", "out_state", "out_accum"),
    inplace=(("in_scale", "out_scale"),)
)
def fake_quantize_moving_average_abs_max(
    x: TensorLike, in_scale: TensorLike, in_accum: TensorLike | None = None,
    in_state: TensorLike | None = None, moving_rate: FloatLike = 0.9, bit_length: int = 8,
    is_test: bool = False, round_type: int = 1
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """:func:`fake_quantize_abs_max` with a scale from many batches: out_accum / out_state with
    out_state = moving_rate * in_state + 1 and out_accum = moving_rate * in_accum + max(abs(x)); an
    in_state or in_accum left out counts as 1 and in_scale. In tests the scale is in_scale, and the
    states stay.

    Args:
        x: tensor, float.
        in_scale: tensor.
        in_accum, in_state: tensor, may be None.
        moving_rate: float or one-element tensor.
        bit_length: int.
        is_test: bool.
        round_type: int.

    Returns:
        out, out_scale, out_state, out_accum.
    """
    return bind(
        _fake_quantize_moving_average_abs_max, (x, in_scale, in_accum, in_state),
        (moving_rate, bit_length, is_test, round_type)
    )

def fake_quantize_moving_average_abs_max_(
    x: TensorLike, in_scale: TensorLike, in_accum: TensorLike | None = None,
    in_state: TensorLike | None = None, moving_rate: FloatLike = 0.9, bit_length: int = 8,
    is_test: bool = False, round_type: int = 1
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """:func:`fake_quantize_moving_average_abs_max` in the memory of in_scale, not to be used after
    it."""
    return bind_in_place(
        _fake_quantize_moving_average_abs_max, (x, in_scale, in_accum, in_state),
        (moving_rate, bit_length, is_test, round_type)
    )

_fake_quantize_dequantize_moving_average_abs_max = define(
    "fake_quantize_dequantize_moving_average_abs_max",
    "(Tensor x, Tensor in_scale, Tensor in_accum, Tensor in_state, float moving_rate = 0.9, "
    "int bit_length = 8, bool is_test = false, int round_type = 1)",
    "Tensor(out), Tensor(out_scale), Tensor(out_state), Tensor(out_accum)",
    backward="fake_quantize_dequantize_moving_average_abs_max_grad",
    traits=("promote_float(x)", "full_precision", "own_derivative"), dtypes=("float",),
    optional=("in_accum", "in_state", "out_state", "out_accum"),
    inplace=(("in_scale", "out_scale"),)
)
def fake_quantize_dequantize_moving_average_abs_max(
    x: TensorLike, in_scale: TensorLike, in_accum: TensorLike | None = None,
    in_state: TensorLike | None = None, moving_rate: FloatLike = 0.9, bit_length: int = 8,
    is_test: bool = False, round_type: int = 1
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """What :func:`fake_quantize_moving_average_abs_max` gives, times out_scale / (2 ** (bit_length
    - 1) - 1). The gradient passes to x as if nothing were rounded.

    Args:
        x: tensor, float.
        in_scale: tensor.
        in_accum, in_state: tensor, may be None.
        moving_rate: float or one-element tensor.
        bit_length: int.
        is_test: bool.
        round_type: int.

    Returns:
        out, out_scale, out_state, out_accum.
    """
    return bind(
        _fake_quantize_dequantize_moving_average_abs_max, (x, in_scale, in_accum, in_state),
        (moving_rate, bit_length, is_test, round_type)
    )

def fake_quantize_dequantize_moving_average_abs_max_(
    x: TensorLike, in_scale: TensorLike, in_accum: TensorLike | None = None,
    in_state: TensorLike | None = None, moving_rate: FloatLike = 0.9, bit_length: int = 8,
    is_test: bool = False, round_type: int = 1
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """:func:`fake_quantize_dequantize_moving_average_abs_max` in the memory of in_scale, not to be
    used after it."""
    return bind_in_place(
        _fake_quantize_dequantize_moving_average_abs_max, (x, in_scale, in_accum, in_state),
        (moving_rate, bit_length, is_test, round_type)
    )

_fake_quantize_dequantize_moving_average_abs_max_grad = define(
    "fake_quantize_dequantize_moving_average_abs_max_grad",
    "(Tensor out_grad, float moving_rate = 0.9, int bit_length = 8, bool is_test = false, "
    "int round_type = 1)", "Tensor(x_grad)",
    forward="fake_quantize_dequantize_moving_average_abs_max"
)
def fake_quantize_dequantize_moving_average_abs_max_grad(
    out_grad, moving_rate=0.9, bit_length=8, is_test=False, round_type=1
):
    """Backward of :func:`fake_quantize_dequantize_moving_average_abs_max`."""
    return bind(
        _fake_quantize_dequantize_moving_average_abs_max_grad, (out_grad,),
        (moving_rate, bit_length, is_test, round_type)
    )

_fake_quantize_range_abs_max = define(
    "fake_quantize_range_abs_max",
    "(Tensor x, Tensor in_scale, Tensor iter, int window_size = 10000, int bit_length = 8, "
    "bool is_test = false, int round_type = 1)",
    "Tensor(out), Tensor(out_scale), Tensor(out_scales)",
    traits=("promote_float(x)", "full_precision"), dtypes=("float",),
    optional=("iter", "out_scales"), inplace=(("in_scale", "out_scale"),)
)
def fake_quantize_range_abs_max(
    x: TensorLike, in_scale: TensorLike, iter: TensorLike | None = None, window_size: int = 10000,
    bit_length: int = 8, is_test: bool = False, round_type: int = 1
) -> tuple[Tensor, Tensor, Tensor | None]:
    """:func:`fake_quantize_abs_max` with the larger of max(abs(x)) and in_scale as the scale; in
    tests in_scale. out_scales [window_size] has max(abs(x)) at iter % window_size and 0 elsewhere:
    the window itself, which PHI keeps in its output from call to call, is the caller's to keep.

    Args:
        x: tensor, float.
        in_scale: tensor.
        iter: tensor, may be None.
        window_size, bit_length: int.
        is_test: bool.
        round_type: int.

    Returns:
        out, out_scale, out_scales.
    """
    return bind(
        _fake_quantize_range_abs_max, (x, in_scale, iter),
        (window_size, bit_length, is_test, round_type)
    )

def fake_quantize_range_abs_max_(
    x: TensorLike, in_scale: TensorLike, iter: TensorLike | None = None, window_size: int = 10000,
    bit_length: int = 8, is_test: bool = False, round_type: int = 1
) -> tuple[Tensor, Tensor, Tensor | None]:
    """:func:`fake_quantize_range_abs_max` in the memory of in_scale, not to be used after it."""
    return bind_in_place(
        _fake_quantize_range_abs_max, (x, in_scale, iter),
        (window_size, bit_length, is_test, round_type)
    )

_fake_dequantize_max_abs = define(
    "fake_dequantize_max_abs", "(Tensor x, Tensor scale, float max_range)", "Tensor(out)",
    traits=("promote_float(x)", "full_precision"), dtypes=("float",)
)
def fake_dequantize_max_abs(x: TensorLike, scale: TensorLike, max_range: FloatLike) -> Tensor:
    """x * scale / max_range, elementwise, for ints, as floats too, and a scale of one element.

    Args:
        x: tensor, float.
        scale: tensor.
        max_range: float or one-element tensor.
    """
    return bind(_fake_dequantize_max_abs, (x, scale), (max_range,))

_fake_channel_wise_dequantize_max_abs = define(
    "fake_channel_wise_dequantize_max_abs",
    "(Tensor x, Tensor[] scales, int[] quant_bits = {8}, int quant_axis = 0, "
    "int x_num_col_dims = 1)", "Tensor(out)", traits=("promote_float(x)", "full_precision"),
    dtypes=("float",)
)
def fake_channel_wise_dequantize_max_abs(
    x: TensorLike, scales: Sequence[TensorLike], quant_bits: IntArrayLike = (8,),
    quant_axis: int = 0, x_num_col_dims: int = 1
) -> Tensor:
    """x * scales[0] / (2 ** (quant_bits[0] - 1) - 1), the scales seen along quant_axis. With a
    second scale, of one element, they are seen along x_num_col_dims, and the result is times
    scales[1] / (2 ** (quant_bits[1] - 1) - 1) too.

    Args:
        x: tensor, float.
        scales: sequence of tensors.
        quant_bits: sequence of ints.
        quant_axis, x_num_col_dims: int.
    """
    return bind(
        _fake_channel_wise_dequantize_max_abs, (x, scales), (quant_bits, quant_axis, x_num_col_dims)
    )

_dequantize_abs_max = define(
    "dequantize_abs_max", "(Tensor x, Tensor scale, float max_range)", "Tensor(out)"
)
def dequantize_abs_max(x: TensorLike, scale: TensorLike, max_range: FloatLike) -> Tensor:
    """x * scale / max_range in the dtype of scale, elementwise; scale has one element.

    Args:
        x, scale: tensor.
        max_range: float or one-element tensor.
    """
    return bind(_dequantize_abs_max, (x, scale), (max_range,))

_dequantize_log = define("dequantize_log", "(Tensor x, Tensor dict)", "Tensor(out)")
def dequantize_log(x: TensorLike, dict: TensorLike) -> Tensor:
    """dict[x] where x is 0 or more, -dict[x + 128] below, elementwise; dict is [128].

    Args:
        x, dict: tensor.
    """
    return bind(_dequantize_log, (x, dict), ())

_apply_per_channel_scale = define(
    "apply_per_channel_scale", "(Tensor x, Tensor scales)", "Tensor(out)",
    traits=("promote_float",), dtypes=("float",)
)
def apply_per_channel_scale(x: TensorLike, scales: TensorLike) -> Tensor:
    """x * scales, for x [rows, channels] and scales [channels].

    Args:
        x, scales: tensor, float.
    """
    return bind(_apply_per_channel_scale, (x, scales), ())


# -- yaml/ragged.yaml ------------------------------------------------------------------------------
define = definer("yaml/ragged.yaml", family="ragged")

_all_to_allv = define(
    "all_to_allv", "(Tensor x, Tensor counts, str axis_name, int64_t rows)", "Tensor(out)",
    infer_meta=("AllToAllvInferMeta", ("x", "counts", "rows")), jvp="linear", traits=("collective",)
)
def all_to_allv(x: TensorLike, counts: TensorLike, axis_name: str, rows: DimLike) -> Tensor:
    """The first counts[0] rows of every lane's x in lane 0, the next counts[1] in lane 1, and so
    on: [rows, ...] of what comes, by the lane that it is from, with zeros behind. Counts are 0 or
    more, no lane sends more rows than it has, and rows is as many as come to any;
    phix.ragged_all_to_all looks at that.

    Args:
        x, counts: tensor.
        axis_name: str.
        rows: int.
    """
    return bind(_all_to_allv, (x, counts), (axis_name, rows))

_ragged_all_to_all = define(
    "ragged_all_to_all", "(Tensor operand, Tensor output, Tensor input_offsets, Tensor send_sizes, "
    "Tensor output_offsets, Tensor recv_sizes, str axis_name)", "Tensor(out)", traits=("ring",)
)
def ragged_all_to_all(
    operand: TensorLike, output: TensorLike, input_offsets: TensorLike, send_sizes: TensorLike,
    output_offsets: TensorLike, recv_sizes: TensorLike, axis_name: str
) -> Tensor:
    """phix.ragged_all_to_all: slices of operand, one to each part, at places of output there.

    Args:
        operand, output, input_offsets, send_sizes, output_offsets, recv_sizes: tensor.
        axis_name: str.
    """
    return bind(
        _ragged_all_to_all,
        (operand, output, input_offsets, send_sizes, output_offsets, recv_sizes), (axis_name,)
    )


# -- yaml/random.yaml ------------------------------------------------------------------------------
define = definer("yaml/random.yaml", family="random")

_random_bits = define(
    "random_bits", "(Tensor key, IntArray shape, int bit_width=32, Tensor first)", "Tensor(out)",
    infer_meta=("RandomBitsInferMeta", None), traits=("random", "nondifferentiable"),
    optional=("first",)
)
def random_bits(
    key: TensorLike, shape: IntArrayLike, bit_width: int = 32, first: TensorLike | None = None
) -> Tensor:
    """Random bits as uint32 or uint64: element i in C order is Threefry-2x32 with 20 rounds of the
    counter (n >> 32, n mod 2 ** 32) under the key, n = first + i: both words with the first one
    high, or one xor the other. first is an int64 for each key, 0 if absent.

    Args:
        key: tensor.
        shape: ints, a tensor of ints, or a list that mixes ints and 0-d tensors.
        bit_width: int.
        first: tensor, may be None.
    """
    return bind(_random_bits, (key, first), (shape, bit_width))

_uniform = define(
    "uniform",
    "(Tensor key, IntArray shape, DataType dtype, Tensor min, Tensor max, Place place={})",
    "Tensor(out)", traits=("random", "promote_float(min, max)"), dtypes=("float",)
)
def uniform(
    key: TensorLike, shape: IntArrayLike, dtype: DTypeLike, min: TensorLike, max: TensorLike,
    place: PlaceLike | None = None
) -> Tensor:
    """Numbers uniform in [min, max), min + (max - min) * u with u of as many random bits as the
    mantissa has places (52 for float64, 23 for float32, 10 for float16, 7 for bfloat16); min and
    max are tensors that broadcast to shape, and differentiable.

    Args:
        key: tensor.
        shape: ints, a tensor of ints, or a list that mixes ints and 0-d tensors.
        dtype: dtype.
        min, max: tensor, float.
        place: place; None is the default place.
    """
    return bind(_uniform, (key, min, max), (shape, dtype, place))

_gaussian = define(
    "gaussian",
    "(Tensor key, IntArray shape, Tensor mean, Tensor std, DataType dtype=DataType::FLOAT32, "
    "Place place={})", "Tensor(out)", traits=("random", "promote_float(mean, std)"),
    dtypes=("float",)
)
def gaussian(
    key: TensorLike, shape: IntArrayLike, mean: TensorLike, std: TensorLike,
    dtype: DTypeLike = float, place: PlaceLike | None = None
) -> Tensor:
    """Normal numbers, mean + std * sqrt(2) * erfinv(u) with u uniform in (-1, 1); mean and std are
    tensors that broadcast to shape, and differentiable.

    Args:
        key: tensor.
        shape: ints, a tensor of ints, or a list that mixes ints and 0-d tensors.
        mean, std: tensor, float.
        dtype: dtype.
        place: place; None is the default place.
    """
    return bind(_gaussian, (key, mean, std), (shape, dtype, place))

_truncated_gaussian_random = define(
    "truncated_gaussian_random",
    "(Tensor key, IntArray shape, Tensor mean, Tensor std, Tensor a, Tensor b, "
    "DataType dtype=DataType::FLOAT32, Place place={})", "Tensor(out)",
    traits=("random", "promote_float(mean, std, a, b)"), dtypes=("float",)
)
def truncated_gaussian_random(
    key: TensorLike, shape: IntArrayLike, mean: TensorLike, std: TensorLike, a: TensorLike,
    b: TensorLike, dtype: DTypeLike = float, place: PlaceLike | None = None
) -> Tensor:
    """Normal numbers of that mean and std, given that they lie in [a, b], by the inverse of the
    cumulative distribution; NaN where a is above b.

    Args:
        key: tensor.
        shape: ints, a tensor of ints, or a list that mixes ints and 0-d tensors.
        mean, std, a, b: tensor, float.
        dtype: dtype.
        place: place; None is the default place.
    """
    return bind(_truncated_gaussian_random, (key, mean, std, a, b), (shape, dtype, place))

_randint = define(
    "randint",
    "(Tensor key, int64_t low, int64_t high, IntArray shape, DataType dtype=DataType::INT64, "
    "Place place={})", "Tensor(out)", traits=("random", "nondifferentiable")
)
def randint(
    key: TensorLike, low: DimLike, high: DimLike, shape: IntArrayLike, dtype: DTypeLike = "int64",
    place: PlaceLike | None = None
) -> Tensor:
    """Ints uniform in [low, high), high - low = s values: w bits for each of two halves of the key,
    w those of the dtype but at least 32, as one number modulo s if s <= 2 ** (w / 2), so that no
    value is likelier than another by more than s / 2 ** (2 * w); else the lower w bits, by s / 2 **
    w.

    Args:
        key: tensor.
        low, high: int.
        shape: ints, a tensor of ints, or a list that mixes ints and 0-d tensors.
        dtype: dtype.
        place: place; None is the default place.
    """
    return bind(_randint, (key,), (low, high, shape, dtype, place))

_bernoulli = define(
    "bernoulli", "(Tensor key, Tensor x)", "Tensor(out)",
    traits=("random", "nondifferentiable", "promote(x)"), dtypes=("float",)
)
def bernoulli(key: TensorLike, x: TensorLike) -> Tensor:
    """1 with probability x, else 0: u < x for u uniform in [0, 1); shape and dtype of x.

    Args:
        key: tensor.
        x: tensor, float.
    """
    return bind(_bernoulli, (key, x), ())

_randperm = define(
    "randperm", "(Tensor key, int64_t n, DataType dtype=DataType::INT64, Place place={})",
    "Tensor(out)", traits=("random", "nondifferentiable")
)
def randperm(
    key: TensorLike, n: DimLike, dtype: DTypeLike = "int64", place: PlaceLike | None = None
) -> Tensor:
    """The numbers 0, ..., n - 1 in random order, each order equally likely.

    Args:
        key: tensor.
        n: int.
        dtype: dtype.
        place: place; None is the default place.
    """
    return bind(_randperm, (key,), (n, dtype, place))


# -- yaml/rectifier.yaml ---------------------------------------------------------------------------
define = definer("yaml/rectifier.yaml", family="activation")

_mish = define(
    "mish", "(Tensor x, float lambda)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    traits=("pointwise", "promote_float"), dtypes=("float",)
)
def mish(x: TensorLike, lambda_: FloatLike) -> Tensor:
    """x * tanh(log(1 + exp(x))), elementwise, without overflow; x * tanh(x) where x is above the
    threshold lambda.

    Args:
        x: tensor, float.
        lambda_: float or one-element tensor.
    """
    return bind(_mish, (x,), (lambda_,))

_selu = define(
    "selu", "(Tensor x, float scale=1.0507009873554804934193349852946, "
    "float alpha=1.6732632423543772848170429916717)", "Tensor(out)",
    infer_meta=("UnchangedInferMeta", None), traits=("pointwise", "promote_float"),
    dtypes=("float",)
)
def selu(
    x: TensorLike, scale: FloatLike = 1.0507009873554805, alpha: FloatLike = 1.6732632423543772
) -> Tensor:
    """scale * x above 0, else scale * alpha * (exp(x) - 1), elementwise; the slope at 0 is scale *
    alpha.

    Args:
        x: tensor, float.
        scale, alpha: float or one-element tensor.
    """
    return bind(_selu, (x,), (scale, alpha))

_celu = define(
    "celu", "(Tensor x, float alpha = 1.0)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    traits=("pointwise", "promote_float"), dtypes=("float",)
)
def celu(x: TensorLike, alpha: FloatLike = 1.0) -> Tensor:
    """x above 0, else alpha * (exp(x / alpha) - 1), elementwise; the slope at 0 is 1. alpha is not
    0.

    Args:
        x: tensor, float.
        alpha: float or one-element tensor.
    """
    return bind(_celu, (x,), (alpha,))

_prelu = define(
    "prelu", '(Tensor x, Tensor alpha, str data_format="NCHW", str mode="all")', "Tensor(out)",
    infer_meta=("PReluInferMeta", None), traits=("promote_float",), dtypes=("float",)
)
def prelu(x: TensorLike, alpha: TensorLike, data_format: str = "NCHW", mode: str = "all") -> Tensor:
    """x above 0, else alpha * x, elementwise. alpha has one number (mode all), one a channel (mode
    channel; the channels are axis 1, or the last one in NHWC), or one for each element of a sample
    (mode element: its shape is that of x with a 1 for the first dim, or without that dim).

    Args:
        x, alpha: tensor, float.
        data_format, mode: str.
    """
    return bind(_prelu, (x, alpha), (data_format, mode))

_softshrink = define(
    "softshrink", "(Tensor x, float threshold = 0.5)", "Tensor(out)",
    infer_meta=("UnchangedInferMeta", None), traits=("pointwise", "promote_float"),
    dtypes=("float",)
)
def softshrink(x: TensorLike, threshold: FloatLike = 0.5) -> Tensor:
    """x - threshold above the threshold, x + threshold below -threshold, 0 between, elementwise;
    NaN stays. The threshold is not negative.

    Args:
        x: tensor, float.
        threshold: float or one-element tensor.
    """
    return bind(_softshrink, (x,), (threshold,))

_hardshrink = define(
    "hardshrink", "(Tensor x, float threshold = 0.5)", "Tensor(out)",
    infer_meta=("UnchangedInferMeta", None), traits=("pointwise", "promote_float"),
    dtypes=("float",)
)
def hardshrink(x: TensorLike, threshold: FloatLike = 0.5) -> Tensor:
    """x where abs(x) is above the threshold, else 0, elementwise; NaN stays.

    Args:
        x: tensor, float.
        threshold: float or one-element tensor.
    """
    return bind(_hardshrink, (x,), (threshold,))

_tanh_shrink = define(
    "tanh_shrink", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="tanh_shrink_grad", jvp="pointwise", traits=("pointwise", "promote_float"),
    dtypes=("float", "complex")
)
def tanh_shrink(x: TensorLike) -> Tensor:
    """x - tanh(x), elementwise, to the last digits where the two cancel.

    Args:
        x: tensor, float or complex.
    """
    return bind(_tanh_shrink, (x,), ())

_tanh_shrink_grad = define(
    "tanh_shrink_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="tanh_shrink"
)
def tanh_shrink_grad(x, out_grad):
    """Backward of :func:`tanh_shrink`."""
    return bind(_tanh_shrink_grad, (x, out_grad), ())

_thresholded_relu = define(
    "thresholded_relu", "(Tensor x, float threshold = 1.0, float value = 0.0)", "Tensor(out)",
    infer_meta=("UnchangedInferMeta", None), traits=("pointwise", "promote_float"),
    dtypes=("float",), inplace=(("x", "out"),)
)
def thresholded_relu(x: TensorLike, threshold: FloatLike = 1.0, value: FloatLike = 0.0) -> Tensor:
    """x above the threshold, else value, elementwise; NaN stays. The slope at the threshold is 0.

    Args:
        x: tensor, float.
        threshold, value: float or one-element tensor.
    """
    return bind(_thresholded_relu, (x,), (threshold, value))

def thresholded_relu_(x: TensorLike, threshold: FloatLike = 1.0, value: FloatLike = 0.0) -> Tensor:
    """:func:`thresholded_relu` in the memory of x, not to be used after it."""
    return bind_in_place(_thresholded_relu, (x,), (threshold, value))

_stanh = define(
    "stanh", "(Tensor x, float scale_a=0.67f, float scale_b=1.7159f)", "Tensor(out)",
    infer_meta=("UnchangedInferMeta", None), traits=("pointwise", "promote_float"),
    dtypes=("float", "complex")
)
def stanh(x: TensorLike, scale_a: FloatLike = 0.67, scale_b: FloatLike = 1.7159) -> Tensor:
    """scale_b * tanh(scale_a * x), elementwise.

    Args:
        x: tensor, float or complex.
        scale_a, scale_b: float or one-element tensor.
    """
    return bind(_stanh, (x,), (scale_a, scale_b))


# -- yaml/recurrent.yaml ---------------------------------------------------------------------------
define = definer("yaml/recurrent.yaml", family="recurrent")

_rnn = define(
    "rnn", "(Tensor x, Tensor[] pre_state, Tensor[] weight_list, Tensor sequence_length, "
    "Tensor dropout_state_in, float dropout_prob=0.0, bool is_bidirec=false, int input_size=10, "
    'int hidden_size=100, int num_layers=1, str mode="RNN_TANH", int seed=0, bool is_test=false)',
    "Tensor(out), Tensor(dropout_state_out), Tensor[](state){pre_state.size()}, Tensor(reserve)",
    traits=("promote_float(x, pre_state, weight_list)",), dtypes=("float",),
    optional=("sequence_length",), intermediate=("reserve",)
)
def rnn(
    x: TensorLike, pre_state: Sequence[TensorLike], weight_list: Sequence[TensorLike],
    sequence_length: TensorLike | None, dropout_state_in: TensorLike, dropout_prob: FloatLike = 0.0,
    is_bidirec: bool = False, input_size: int = 10, hidden_size: int = 100, num_layers: int = 1,
    mode: str = "RNN_TANH", seed: int = 0, is_test: bool = False
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Layers of LSTM, GRU, RNN_TANH or RNN_RELU cells along the first axis of x, [time, batch,
    input_size]; states are [num_layers * directions, batch, hidden_size], h and for LSTM c.
    weight_list has w_ih [gates * hidden_size, in] and w_hh of each layer and direction, then all
    b_ih and b_hh; the gates are i, f, g, o (LSTM) or r, z, n (GRU). Behind its sequence_length a
    sequence gives 0 and its state stays. Between layers dropout_prob of the elements are 0 in
    training, drawn from the key dropout_state_in (any tensor where nothing is drawn);
    dropout_state_out is a fresh key then. reserve is empty and seed says nothing here.

    Args:
        x: tensor, float.
        pre_state, weight_list: sequence of tensors, float.
        sequence_length: tensor, may be None.
        dropout_state_in: tensor.
        dropout_prob: float or one-element tensor.
        is_bidirec: bool.
        input_size, hidden_size, num_layers: int.
        mode: str.
        seed: int.
        is_test: bool.

    Returns:
        out, dropout_state_out, state.
    """
    return bind(
        _rnn, (x, pre_state, weight_list, sequence_length, dropout_state_in),
        (dropout_prob, is_bidirec, input_size, hidden_size, num_layers, mode, seed, is_test)
    )[:3]

_cudnn_lstm = define(
    "cudnn_lstm", "(Tensor x, Tensor init_h, Tensor init_c, Tensor w, Tensor[] weight_list, "
    "Tensor sequence_length, float dropout_prob = 0.0, bool is_bidirec = false, "
    "int hidden_size = 100, int num_layers = 1, bool is_test = false, int seed = 0)",
    "Tensor(out), Tensor(last_h), Tensor(last_c), Tensor(reserve), Tensor(state_out)",
    traits=("promote_float(x, init_h, init_c, w, weight_list)",), dtypes=("float",),
    optional=("w", "weight_list", "sequence_length"), intermediate=("reserve",)
)
def cudnn_lstm(
    x: TensorLike, init_h: TensorLike, init_c: TensorLike, w: TensorLike | None = None,
    weight_list: Sequence[TensorLike] | None = None, sequence_length: TensorLike | None = None,
    dropout_prob: FloatLike = 0.0, is_bidirec: bool = False, hidden_size: int = 100,
    num_layers: int = 1, is_test: bool = False, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The layers of rnn in mode LSTM, their weights in weight_list, as rnn has them, or all of
    these one behind the other in w. Dropout between layers is drawn from the key of seed, which
    must not be 0 then; state_out is a key, and reserve is empty.

    Args:
        x, init_h, init_c: tensor, float.
        w: tensor, float, may be None.
        weight_list: sequence of tensors, float, may be None.
        sequence_length: tensor, may be None.
        dropout_prob: float or one-element tensor.
        is_bidirec: bool.
        hidden_size, num_layers: int.
        is_test: bool.
        seed: int.

    Returns:
        out, last_h, last_c, state_out.
    """
    outputs = bind(
        _cudnn_lstm, (x, init_h, init_c, w, weight_list, sequence_length),
        (dropout_prob, is_bidirec, hidden_size, num_layers, is_test, seed)
    )
    return outputs[0], outputs[1], outputs[2], outputs[4]

_lstm = define(
    "lstm",
    "(Tensor input, Tensor h0, Tensor c0, Tensor weight, Tensor bias, bool use_peepholes = true, "
    'bool is_reverse = false, bool is_test = false, str gate_activation = "sigmoid", '
    'str cell_activation = "tanh", str candidate_activation = "tanh")',
    "Tensor(hidden), Tensor(cell), Tensor(batch_gate), Tensor(batch_cell_pre_act)",
    traits=("promote_float",), dtypes=("float",), optional=("h0", "c0"),
    intermediate=("batch_gate", "batch_cell_pre_act")
)
def lstm(
    input: TensorLike, h0: TensorLike | None, c0: TensorLike | None, weight: TensorLike,
    bias: TensorLike, use_peepholes: bool = True, is_reverse: bool = False, is_test: bool = False,
    gate_activation: str = "sigmoid", cell_activation: str = "tanh",
    candidate_activation: str = "tanh"
) -> tuple[Tensor, Tensor]:
    """An LSTM along one sequence whose product with the input is made already, input [time, 4 *
    size] in the order candidate, i, f, o: c = f * c + i * g and h = o * act(c), with weight [size,
    4 * size] on h and bias [1, 4 * size], or [1, 7 * size] with peepholes: weights on c for i and
    f, and on the new c for o. hidden and cell are [time, size]; is_reverse goes from the end.

    Args:
        input: tensor, float.
        h0, c0: tensor, float, may be None.
        weight, bias: tensor, float.
        use_peepholes, is_reverse, is_test: bool.
        gate_activation, cell_activation, candidate_activation: str.

    Returns:
        hidden, cell.
    """
    return bind(
        _lstm, (input, h0, c0, weight, bias), (use_peepholes, is_reverse, is_test, gate_activation,
        cell_activation, candidate_activation)
    )[:2]

_gru = define(
    "gru", '(Tensor input, Tensor h0, Tensor weight, Tensor bias, str activation = "tanh", '
    'str gate_activation = "sigmoid", bool is_reverse = false, bool origin_mode = false, '
    "bool is_test=false)",
    "Tensor(batch_gate), Tensor(batch_reset_hidden_prev), Tensor(batch_hidden), Tensor(hidden)",
    traits=("promote_float",), dtypes=("float",), optional=("h0", "bias"),
    intermediate=("batch_gate", "batch_reset_hidden_prev", "batch_hidden")
)
def gru(
    input: TensorLike, h0: TensorLike | None, weight: TensorLike, bias: TensorLike | None = None,
    activation: str = "tanh", gate_activation: str = "sigmoid", is_reverse: bool = False,
    origin_mode: bool = False, is_test: bool = False
) -> Tensor:
    """A GRU along one sequence whose product with the input is made already, input [time, 3 * size]
    in the order u, r, candidate: c = act(x_c + (r * h) @ w_c) and h = (1 - u) * h + u * c, or u * h
    + (1 - u) * c in origin_mode. The memory of weight, [size, 3 * size], holds the matrix [size, 2
    * size] of the gates and then w_c [size, size].

    Args:
        input: tensor, float.
        h0: tensor, float, may be None.
        weight: tensor, float.
        bias: tensor, float, may be None.
        activation, gate_activation: str.
        is_reverse, origin_mode, is_test: bool.
    """
    return bind(
        _gru, (input, h0, weight, bias),
        (activation, gate_activation, is_reverse, origin_mode, is_test)
    )[3]

_gru_unit = define(
    "gru_unit",
    "(Tensor input, Tensor hidden_prev, Tensor weight, Tensor bias, int activation = 2, "
    "int gate_activation = 1, bool origin_mode = false)",
    "Tensor(gate), Tensor(reset_hidden_prev), Tensor(hidden)", traits=("promote_float",),
    dtypes=("float",), optional=("bias",), intermediate=("gate", "reset_hidden_prev")
)
def gru_unit(
    input: TensorLike, hidden_prev: TensorLike, weight: TensorLike, bias: TensorLike | None = None,
    activation: int = 2, gate_activation: int = 1, origin_mode: bool = False
) -> Tensor:
    """One step of gru for a batch of rows, input [batch, 3 * size] and hidden_prev [batch, size].
    Activations are numbers: 0 identity, 1 sigmoid, 2 tanh, 3 relu.

    Args:
        input, hidden_prev, weight: tensor, float.
        bias: tensor, float, may be None.
        activation, gate_activation: int.
        origin_mode: bool.
    """
    return bind(
        _gru_unit, (input, hidden_prev, weight, bias), (activation, gate_activation, origin_mode)
    )[2]

_attention_lstm = define(
    "attention_lstm",
    "(Tensor x, Tensor c0, Tensor h0, Tensor attention_weight, Tensor attention_bias, "
    "Tensor attention_scalar, Tensor attention_scalar_bias, Tensor lstm_weight, Tensor lstm_bias, "
    'str gate_activation = "sigmoid", str cell_activation = "tanh", '
    'str candidate_activation = "tanh")',
    "Tensor(hidden), Tensor(cell), Tensor(attentioned_x), Tensor(attention_fc_out), "
    "Tensor(lstm_x), Tensor(lstm_out)", traits=("promote_float",), dtypes=("float",),
    optional=("h0", "attention_bias", "attention_scalar", "attention_scalar_bias"),
    intermediate=("attentioned_x", "attention_fc_out", "lstm_x", "lstm_out")
)
def attention_lstm(
    x: TensorLike, c0: TensorLike, h0: TensorLike | None, attention_weight: TensorLike,
    attention_bias: TensorLike | None, attention_scalar: TensorLike | None,
    attention_scalar_bias: TensorLike | None, lstm_weight: TensorLike, lstm_bias: TensorLike,
    gate_activation: str = "sigmoid", cell_activation: str = "tanh",
    candidate_activation: str = "tanh"
) -> tuple[Tensor, Tensor]:
    """An LSTM along one sequence x [time, width] that sees at each step a mean of all rows of x,
    their weights softmax(relu(scalar * relu([x, c] @ attention_weight + bias) + scalar_bias)).
    lstm_weight [size + width, 4 * size] is for h and then for that mean, its gates f, i, o,
    candidate.

    Args:
        x, c0: tensor, float.
        h0: tensor, float, may be None.
        attention_weight: tensor, float.
        attention_bias, attention_scalar, attention_scalar_bias: tensor, float, may be None.
        lstm_weight, lstm_bias: tensor, float.
        gate_activation, cell_activation, candidate_activation: str.

    Returns:
        hidden, cell.
    """
    return bind(
        _attention_lstm, (x, c0, h0, attention_weight, attention_bias, attention_scalar,
        attention_scalar_bias, lstm_weight, lstm_bias),
        (gate_activation, cell_activation, candidate_activation)
    )[:2]


# -- yaml/reduction.yaml ---------------------------------------------------------------------------
define = definer("yaml/reduction.yaml", family="reduction")

_sum = define(
    "sum", "(Tensor x, IntArray axis={}, DataType dtype=DataType::UNDEFINED, bool keepdim=false)",
    "Tensor(out)", infer_meta=("SumInferMeta", None), backward="sum_grad", jvp="linear",
    traits=("reduces", "full_precision"), dtypes=("bool", "int", "float", "complex")
)
def sum(
    x: TensorLike, axis: IntArrayLike | None = (), dtype: DTypeLike | None = None,
    keepdim: bool = False
) -> Tensor:
    """Sum over the axes, over all of them if none is given; bools and ints add up in int64, uint64
    in itself.

    Args:
        x: tensor, bool, int, float or complex.
        axis: ints, a tensor of ints, or a list that mixes ints and 0-d tensors, may be None.
        dtype: dtype, may be None.
        keepdim: bool.
    """
    return bind(_sum, (x,), (axis, dtype, keepdim))

_sum_grad = define(
    "sum_grad", "(Tensor x, Tensor out_grad, IntArray axis={}, bool keepdim=false)",
    "Tensor(x_grad)", no_need_buffer=("x",), forward="sum"
)
def sum_grad(x, out_grad, axis=(), keepdim=False):
    """Backward of :func:`sum`."""
    return bind(_sum_grad, (x, out_grad), (axis, keepdim))

_prod = define(
    "prod", "(Tensor x, IntArray axis={}, bool keepdim=false, bool reduce_all=false)",
    "Tensor(out)", infer_meta=("ReduceIntArrayAxisInferMetaBase", None), backward="prod_grad",
    traits=("reduces", "promote", "full_precision"), dtypes=("bool", "int", "float", "complex")
)
def prod(
    x: TensorLike, axis: IntArrayLike | None = (), keepdim: bool = False, reduce_all: bool = False
) -> Tensor:
    """Product over the axes, over all of them if none is given or reduce_all; bools and ints
    multiply in int64, uint64 in itself. The gradient is right with zeros among the factors.

    Args:
        x: tensor, bool, int, float or complex.
        axis: ints, a tensor of ints, or a list that mixes ints and 0-d tensors, may be None.
        keepdim, reduce_all: bool.
    """
    return bind(_prod, (x,), (axis, keepdim, reduce_all))

_prod_grad = define(
    "prod_grad", "(Tensor x, Tensor out_grad, IntArray axis, bool keepdim, bool reduce_all)",
    "Tensor(x_grad)", forward="prod"
)
def prod_grad(x, out_grad, axis, keepdim, reduce_all):
    """Backward of :func:`prod`."""
    return bind(_prod_grad, (x, out_grad), (axis, keepdim, reduce_all))

_max = define(
    "max", "(Tensor x, IntArray axis={}, bool keepdim=false)", "Tensor(out)",
    infer_meta=("ReduceIntArrayAxisInferMeta", None), backward="max_grad",
    traits=("reduces", "promote"), dtypes=("bool", "int", "float")
)
def max(x: TensorLike, axis: IntArrayLike | None = (), keepdim: bool = False) -> Tensor:
    """Largest element over the axes, over all of them if none is given; NaN if one is NaN. Ties
    share the gradient.

    Args:
        x: tensor, bool, int or float.
        axis: ints, a tensor of ints, or a list that mixes ints and 0-d tensors, may be None.
        keepdim: bool.
    """
    return bind(_max, (x,), (axis, keepdim))

_max_grad = define(
    "max_grad", "(Tensor x, Tensor out, Tensor out_grad, IntArray axis={}, bool keepdim=false)",
    "Tensor(x_grad)", forward="max"
)
def max_grad(x, out, out_grad, axis=(), keepdim=False):
    """Backward of :func:`max`."""
    return bind(_max_grad, (x, out, out_grad), (axis, keepdim))

_min = define(
    "min", "(Tensor x, IntArray axis={}, bool keepdim=false)", "Tensor(out)",
    infer_meta=("ReduceIntArrayAxisInferMeta", None), backward="min_grad",
    traits=("reduces", "promote"), dtypes=("bool", "int", "float")
)
def min(x: TensorLike, axis: IntArrayLike | None = (), keepdim: bool = False) -> Tensor:
    """Smallest element over the axes, over all of them if none is given; NaN if one is NaN. Ties
    share the gradient.

    Args:
        x: tensor, bool, int or float.
        axis: ints, a tensor of ints, or a list that mixes ints and 0-d tensors, may be None.
        keepdim: bool.
    """
    return bind(_min, (x,), (axis, keepdim))

_min_grad = define(
    "min_grad", "(Tensor x, Tensor out, Tensor out_grad, IntArray axis={}, bool keepdim=false)",
    "Tensor(x_grad)", forward="min"
)
def min_grad(x, out, out_grad, axis=(), keepdim=False):
    """Backward of :func:`min`."""
    return bind(_min_grad, (x, out, out_grad), (axis, keepdim))

_amax = define(
    "amax", "(Tensor x, int64_t[] axis={}, bool keepdim=false)", "Tensor(out)",
    infer_meta=("ReduceIntArrayAxisInferMeta", None), traits=("promote",),
    dtypes=("bool", "int", "float"), invoke="max(x, axis, keepdim)"
)
def amax(x: TensorLike, axis: IntArrayLike | None = (), keepdim: bool = False) -> Tensor:
    """Largest element over the axes, as :func:`max`: ties share the gradient.

    Args:
        x: tensor, bool, int or float.
        axis: sequence of ints, may be None.
        keepdim: bool.
    """
    return bind(_amax, (x,), (axis, keepdim))

_amin = define(
    "amin", "(Tensor x, int64_t[] axis={}, bool keepdim=false)", "Tensor(out)",
    infer_meta=("ReduceIntArrayAxisInferMeta", None), traits=("promote",),
    dtypes=("bool", "int", "float"), invoke="min(x, axis, keepdim)"
)
def amin(x: TensorLike, axis: IntArrayLike | None = (), keepdim: bool = False) -> Tensor:
    """Smallest element over the axes, as :func:`min`: ties share the gradient.

    Args:
        x: tensor, bool, int or float.
        axis: sequence of ints, may be None.
        keepdim: bool.
    """
    return bind(_amin, (x,), (axis, keepdim))

_any = define(
    "any", "(Tensor x, int64_t[] axis={}, bool keepdim=false)", "Tensor(out)",
    infer_meta=("ReduceInferMeta", None), traits=("reduces", "nondifferentiable")
)
def any(x: TensorLike, axis: IntArrayLike | None = (), keepdim: bool = False) -> Tensor:
    """Whether some element over the axes, over all of them if none is given, is not 0: x != 0
    somewhere.

    Args:
        x: tensor.
        axis: sequence of ints, may be None.
        keepdim: bool.
    """
    return bind(_any, (x,), (axis, keepdim))

_all = define(
    "all", "(Tensor x, int64_t[] axis={}, bool keepdim=false)", "Tensor(out)",
    infer_meta=("ReduceInferMeta", None), traits=("reduces", "nondifferentiable")
)
def all(x: TensorLike, axis: IntArrayLike | None = (), keepdim: bool = False) -> Tensor:
    """Whether every element over the axes, over all of them if none is given, is not 0: x != 0
    everywhere.

    Args:
        x: tensor.
        axis: sequence of ints, may be None.
        keepdim: bool.
    """
    return bind(_all, (x,), (axis, keepdim))

_argmax = define(
    "argmax", "(Tensor x, Scalar(int64_t) axis=none, bool keepdims=false, bool flatten=false, "
    "DataType dtype=DataType::INT64)", "Tensor(out)", infer_meta=("ArgMinMaxInferMeta", None),
    traits=("nondifferentiable", "promote"), dtypes=("bool", "int", "float")
)
def argmax(
    x: TensorLike, axis: ScalarLike | None = None, keepdims: bool = False, flatten: bool = False,
    dtype: DTypeLike = "int64"
) -> Tensor:
    """Index of the largest element along the axis, the first of equal ones, the first NaN if there
    is one; axis None or flatten: of all elements in order.

    Args:
        x: tensor, bool, int or float.
        axis: number or one-element tensor, may be None.
        keepdims, flatten: bool.
        dtype: dtype.
    """
    return bind(_argmax, (x,), (axis, keepdims, flatten, dtype))

_argmin = define(
    "argmin", "(Tensor x, Scalar(int64_t) axis=none, bool keepdims=false, bool flatten=false, "
    "DataType dtype=DataType::INT64)", "Tensor(out)", infer_meta=("ArgMinMaxInferMeta", None),
    traits=("nondifferentiable", "promote"), dtypes=("bool", "int", "float")
)
def argmin(
    x: TensorLike, axis: ScalarLike | None = None, keepdims: bool = False, flatten: bool = False,
    dtype: DTypeLike = "int64"
) -> Tensor:
    """Index of the smallest element along the axis, the first of equal ones, the first NaN if there
    is one; axis None or flatten: of all elements in order.

    Args:
        x: tensor, bool, int or float.
        axis: number or one-element tensor, may be None.
        keepdims, flatten: bool.
        dtype: dtype.
    """
    return bind(_argmin, (x,), (axis, keepdims, flatten, dtype))

_mean = define(
    "mean", "(Tensor x, IntArray axis={}, bool keepdim=false)", "Tensor(out)", backward="mean_grad",
    jvp="linear", traits=("promote_float", "full_precision"), dtypes=("float", "complex")
)
def mean(x: TensorLike, axis: IntArrayLike | None = (), keepdim: bool = False) -> Tensor:
    """Mean over the axes, over all of them if none is given; 16-bit floats add up in float32.

    Args:
        x: tensor, float or complex.
        axis: ints, a tensor of ints, or a list that mixes ints and 0-d tensors, may be None.
        keepdim: bool.
    """
    return bind(_mean, (x,), (axis, keepdim))

_mean_grad = define(
    "mean_grad", "(Tensor x, Tensor out_grad, IntArray axis={}, bool keepdim=false)",
    "Tensor(x_grad)", no_need_buffer=("x",), forward="mean"
)
def mean_grad(x, out_grad, axis=(), keepdim=False):
    """Backward of :func:`mean`."""
    return bind(_mean_grad, (x, out_grad), (axis, keepdim))

_mean_all = define(
    "mean_all", "(Tensor x)", "Tensor(out)", backward="mean_all_grad", jvp="linear",
    traits=("promote_float", "full_precision"), dtypes=("float", "complex"), invoke="mean(x)"
)
def mean_all(x: TensorLike) -> Tensor:
    """Mean of all elements.

    Args:
        x: tensor, float or complex.
    """
    return bind(_mean_all, (x,), ())

_mean_all_grad = define(
    "mean_all_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", no_need_buffer=("x",),
    forward="mean_all"
)
def mean_all_grad(x, out_grad):
    """Backward of :func:`mean_all`."""
    return bind(_mean_all_grad, (x, out_grad), ())

_var = define(
    "var",
    "(Tensor x, int64_t[] axis={}, bool keepdim=false, bool unbiased=true, double correction=1)",
    "Tensor(out)", backward="var_grad", traits=("promote_float", "full_precision"),
    dtypes=("float", "complex")
)
def var(
    x: TensorLike, axis: IntArrayLike | None = (), keepdim: bool = False, unbiased: bool = True,
    correction: FloatLike = 1.0
) -> Tensor:
    """Variance over the axes, sum(abs(x - mean) ** 2) / (n - correction) of n elements; not
    unbiased: correction 0. Of no more elements than the correction it is NaN or infinite.

    Args:
        x: tensor, float or complex.
        axis: sequence of ints, may be None.
        keepdim, unbiased: bool.
        correction: float or one-element tensor.
    """
    return bind(_var, (x,), (axis, keepdim, unbiased, correction))

_var_grad = define(
    "var_grad",
    "(Tensor x, Tensor out_grad, int64_t[] axis, bool keepdim, bool unbiased, double correction)",
    "Tensor(x_grad)", forward="var"
)
def var_grad(x, out_grad, axis, keepdim, unbiased, correction):
    """Backward of :func:`var`."""
    return bind(_var_grad, (x, out_grad), (axis, keepdim, unbiased, correction))

_std = define(
    "std",
    "(Tensor x, int64_t[] axis={}, bool keepdim=false, bool unbiased=true, double correction=1)",
    "Tensor(out)", traits=("promote_float", "full_precision"), dtypes=("float", "complex")
)
def std(
    x: TensorLike, axis: IntArrayLike | None = (), keepdim: bool = False, unbiased: bool = True,
    correction: FloatLike = 1.0
) -> Tensor:
    """Standard deviation over the axes, the square root of :func:`var`; its gradient is NaN where
    all elements are equal.

    Args:
        x: tensor, float or complex.
        axis: sequence of ints, may be None.
        keepdim, unbiased: bool.
        correction: float or one-element tensor.
    """
    return bind(_std, (x,), (axis, keepdim, unbiased, correction))

_logsumexp = define(
    "logsumexp", "(Tensor x, int[] axis={0}, bool keepdim=false, bool reduce_all=false)",
    "Tensor(out)", backward="logsumexp_grad", traits=("reduces", "promote_float", "full_precision"),
    dtypes=("float",)
)
def logsumexp(
    x: TensorLike, axis: IntArrayLike | None = (0,), keepdim: bool = False, reduce_all: bool = False
) -> Tensor:
    """log(sum(exp(x))) over the axes, over all of them if axis is empty or reduce_all, computed
    from x - max(x) so that nothing overflows; of -inf alone it is -inf, with gradient 0.

    Args:
        x: tensor, float.
        axis: sequence of ints, may be None.
        keepdim, reduce_all: bool.
    """
    return bind(_logsumexp, (x,), (axis, keepdim, reduce_all))

_logsumexp_grad = define(
    "logsumexp_grad",
    "(Tensor x, Tensor out, Tensor out_grad, int[] axis, bool keepdim, bool reduce_all)",
    "Tensor(x_grad)", forward="logsumexp"
)
def logsumexp_grad(x, out, out_grad, axis, keepdim, reduce_all):
    """Backward of :func:`logsumexp`."""
    return bind(_logsumexp_grad, (x, out, out_grad), (axis, keepdim, reduce_all))

_reduce_as = define(
    "reduce_as", "(Tensor x, Tensor target)", "Tensor(out)", infer_meta=("ReduceAsInferMeta", None),
    backward="reduce_as_grad", traits=("promote(x)", "full_precision"),
    dtypes=("int", "float", "complex")
)
def reduce_as(x: TensorLike, target: TensorLike) -> Tensor:
    """x summed over the axes that broadcasting target to the shape of x adds or stretches.

    Args:
        x: tensor, int, float or complex.
        target: tensor.
    """
    return bind(_reduce_as, (x, target), ())

_reduce_as_grad = define(
    "reduce_as_grad", "(Tensor x, Tensor target, Tensor out_grad)", "Tensor(x_grad)",
    no_need_buffer=("x", "target"), forward="reduce_as"
)
def reduce_as_grad(x, target, out_grad):
    """Backward of :func:`reduce_as`."""
    return bind(_reduce_as_grad, (x, target, out_grad), ())

_cumsum = define(
    "cumsum",
    "(Tensor x, Scalar(int) axis=-1, bool flatten=false, bool exclusive=false, bool reverse=false)",
    "Tensor(out)", infer_meta=("CumScalarAxisInferMeta", None), backward="cumsum_grad",
    jvp="linear", traits=("full_precision",), dtypes=("bool", "int", "float", "complex"),
    inplace=(("x", "out"),)
)
def cumsum(
    x: TensorLike, axis: ScalarLike = -1, flatten: bool = False, exclusive: bool = False,
    reverse: bool = False
) -> Tensor:
    """Sums of the first elements along the axis, out_k = x_0 + ... + x_k; exclusive: without x_k;
    reverse: from the end; flatten: of all elements in order. Bools and ints add up in int64, uint64
    in itself.

    Args:
        x: tensor, bool, int, float or complex.
        axis: number or one-element tensor.
        flatten, exclusive, reverse: bool.
    """
    return bind(_cumsum, (x,), (axis, flatten, exclusive, reverse))

def cumsum_(
    x: TensorLike, axis: ScalarLike = -1, flatten: bool = False, exclusive: bool = False,
    reverse: bool = False
) -> Tensor:
    """:func:`cumsum` in the memory of x, not to be used after it."""
    return bind_in_place(_cumsum, (x,), (axis, flatten, exclusive, reverse))

_cumsum_grad = define(
    "cumsum_grad",
    "(Tensor x, Tensor out_grad, Scalar(int) axis, bool flatten, bool exclusive, bool reverse)",
    "Tensor(x_grad)", no_need_buffer=("x",), forward="cumsum"
)
def cumsum_grad(x, out_grad, axis, flatten, exclusive, reverse):
    """Backward of :func:`cumsum`."""
    return bind(_cumsum_grad, (x, out_grad), (axis, flatten, exclusive, reverse))

_cumprod = define(
    "cumprod", "(Tensor x, int dim, bool exclusive=false, bool reverse=false)", "Tensor(out)",
    infer_meta=("UnchangedInferMetaCheckAxis", None), backward="cumprod_grad",
    traits=("full_precision",), dtypes=("bool", "int", "float", "complex"), inplace=(("x", "out"),)
)
def cumprod(x: TensorLike, dim: int, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Products of the first elements along dim, out_k = x_0 * ... * x_k; exclusive: without x_k;
    reverse: from the end. Bools and ints multiply in int64, uint64 in itself. The gradient is right
    with zeros.

    Args:
        x: tensor, bool, int, float or complex.
        dim: int.
        exclusive, reverse: bool.
    """
    return bind(_cumprod, (x,), (dim, exclusive, reverse))

def cumprod_(x: TensorLike, dim: int, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """:func:`cumprod` in the memory of x, not to be used after it."""
    return bind_in_place(_cumprod, (x,), (dim, exclusive, reverse))

_cumprod_grad = define(
    "cumprod_grad", "(Tensor x, Tensor out_grad, int dim, bool exclusive, bool reverse)",
    "Tensor(x_grad)", forward="cumprod"
)
def cumprod_grad(x, out_grad, dim, exclusive, reverse):
    """Backward of :func:`cumprod`."""
    return bind(_cumprod_grad, (x, out_grad), (dim, exclusive, reverse))

_linear_recurrence = define(
    "linear_recurrence", "(Tensor a, Tensor x, int axis=-1, bool reverse=false)", "Tensor(out)",
    infer_meta=("LinearRecurrenceInferMeta", None), backward="linear_recurrence_grad",
    traits=("promote", "full_precision"), dtypes=("float", "complex")
)
def linear_recurrence(
    a: TensorLike, x: TensorLike, axis: int = -1, reverse: bool = False
) -> Tensor:
    """out_k = a_k * out_{k-1} + x_k along the axis, from out_0 = x_0 (a_0 is not used); reverse:
    from the end, out_k = a_k * out_{k+1} + x_k.

    Args:
        a, x: tensor, float or complex.
        axis: int.
        reverse: bool.
    """
    return bind(_linear_recurrence, (a, x), (axis, reverse))

_linear_recurrence_grad = define(
    "linear_recurrence_grad",
    "(Tensor a, Tensor x, Tensor out, Tensor out_grad, int axis, bool reverse)",
    "Tensor(a_grad), Tensor(x_grad)", no_need_buffer=("x",), forward="linear_recurrence"
)
def linear_recurrence_grad(a, x, out, out_grad, axis, reverse):
    """Backward of :func:`linear_recurrence`."""
    return bind(_linear_recurrence_grad, (a, x, out, out_grad), (axis, reverse))

_cummax = define(
    "cummax", "(Tensor x, int axis=-1, DataType dtype=DataType::INT64)",
    "Tensor(out), Tensor(indices)", infer_meta=("CumWithIndicesInferMeta", None),
    backward="cummax_grad", traits=("promote",), dtypes=("bool", "int", "float")
)
def cummax(x: TensorLike, axis: int = -1, dtype: DTypeLike = "int64") -> tuple[Tensor, Tensor]:
    """Largest of the elements up to each along the axis, and where it stands, the last of equal
    ones.

    Args:
        x: tensor, bool, int or float.
        axis: int.
        dtype: dtype.

    Returns:
        out, indices.
    """
    return bind(_cummax, (x,), (axis, dtype))

_cummax_grad = define(
    "cummax_grad", "(Tensor x, Tensor indices, Tensor out_grad, int axis, DataType dtype)",
    "Tensor(x_grad)", no_need_buffer=("x",), forward="cummax"
)
def cummax_grad(x, indices, out_grad, axis, dtype):
    """Backward of :func:`cummax`."""
    return bind(_cummax_grad, (x, indices, out_grad), (axis, dtype))

_cummin = define(
    "cummin", "(Tensor x, int axis=-1, DataType dtype=DataType::INT64)",
    "Tensor(out), Tensor(indices)", infer_meta=("CumWithIndicesInferMeta", None),
    backward="cummin_grad", traits=("promote",), dtypes=("bool", "int", "float")
)
def cummin(x: TensorLike, axis: int = -1, dtype: DTypeLike = "int64") -> tuple[Tensor, Tensor]:
    """Smallest of the elements up to each along the axis, and where it stands, the last of equal
    ones.

    Args:
        x: tensor, bool, int or float.
        axis: int.
        dtype: dtype.

    Returns:
        out, indices.
    """
    return bind(_cummin, (x,), (axis, dtype))

_cummin_grad = define(
    "cummin_grad", "(Tensor x, Tensor indices, Tensor out_grad, int axis, DataType dtype)",
    "Tensor(x_grad)", no_need_buffer=("x",), forward="cummin"
)
def cummin_grad(x, indices, out_grad, axis, dtype):
    """Backward of :func:`cummin`."""
    return bind(_cummin_grad, (x, indices, out_grad), (axis, dtype))

_logcumsumexp = define(
    "logcumsumexp",
    "(Tensor x, int axis=-1, bool flatten=false, bool exclusive=false, bool reverse=false)",
    "Tensor(out)", backward="logcumsumexp_grad", traits=("promote_float", "full_precision"),
    dtypes=("float",)
)
def logcumsumexp(
    x: TensorLike, axis: int = -1, flatten: bool = False, exclusive: bool = False,
    reverse: bool = False
) -> Tensor:
    """log(exp(x_0) + ... + exp(x_k)) along the axis, computed so that nothing overflows; exclusive:
    without x_k, so -inf at first; reverse: from the end; flatten: of all elements in order.

    Args:
        x: tensor, float.
        axis: int.
        flatten, exclusive, reverse: bool.
    """
    return bind(_logcumsumexp, (x,), (axis, flatten, exclusive, reverse))

_logcumsumexp_grad = define(
    "logcumsumexp_grad",
    "(Tensor x, Tensor out, Tensor out_grad, int axis, bool flatten, bool exclusive, bool reverse)",
    "Tensor(x_grad)", forward="logcumsumexp"
)
def logcumsumexp_grad(x, out, out_grad, axis, flatten, exclusive, reverse):
    """Backward of :func:`logcumsumexp`."""
    return bind(_logcumsumexp_grad, (x, out, out_grad), (axis, flatten, exclusive, reverse))


# -- yaml/regions.yaml -----------------------------------------------------------------------------
define = definer("yaml/regions.yaml", family="detection")

_roi_align = define(
    "roi_align",
    "(Tensor x, Tensor boxes, Tensor boxes_num, int pooled_height=1, int pooled_width=1, "
    "float spatial_scale=1.0, int sampling_ratio=-1, bool aligned=false)", "Tensor(out)",
    backward="roi_align_grad", traits=("promote_float(x, boxes)",), dtypes=("float",),
    optional=("boxes_num",)
)
def roi_align(
    x: TensorLike, boxes: TensorLike, boxes_num: TensorLike | None = None, pooled_height: int = 1,
    pooled_width: int = 1, spatial_scale: FloatLike = 1.0, sampling_ratio: int = -1,
    aligned: bool = False
) -> Tensor:
    """For each box (left, top, right, bottom) times spatial_scale, pooled_height * pooled_width
    bins, each the mean of sampling_ratio ** 2 points of the image, read by linear interpolation:
    [boxes, channels, pooled_height, pooled_width]. sampling_ratio up to 0: as many points as a bin
    is large. aligned moves boxes by half a pixel, else they are one pixel large at least. Points
    more than a pixel outside count as 0. boxes_num says how many boxes each image has. There is no
    gradient to boxes.

    Args:
        x, boxes: tensor, float.
        boxes_num: tensor, may be None.
        pooled_height, pooled_width: int.
        spatial_scale: float or one-element tensor.
        sampling_ratio: int.
        aligned: bool.
    """
    return bind(
        _roi_align, (x, boxes, boxes_num),
        (pooled_height, pooled_width, spatial_scale, sampling_ratio, aligned)
    )

_roi_align_grad = define(
    "roi_align_grad",
    "(Tensor x, Tensor boxes, Tensor boxes_num, Tensor out_grad, int pooled_height, "
    "int pooled_width, float spatial_scale, int sampling_ratio, bool aligned)", "Tensor(x_grad)",
    backward="roi_align_double_grad", optional=("boxes_num",), no_need_buffer=("x",),
    forward="roi_align"
)
def roi_align_grad(
    x, boxes, boxes_num, out_grad, pooled_height, pooled_width, spatial_scale, sampling_ratio,
    aligned
):
    """Backward of :func:`roi_align`."""
    return bind(
        _roi_align_grad, (x, boxes, boxes_num, out_grad),
        (pooled_height, pooled_width, spatial_scale, sampling_ratio, aligned)
    )

_roi_align_double_grad = define(
    "roi_align_double_grad",
    "(Tensor boxes, Tensor boxes_num, Tensor x_grad_grad, int pooled_height, int pooled_width, "
    "float spatial_scale, int sampling_ratio, bool aligned)", "Tensor(out_grad_grad)",
    optional=("boxes_num",), forward="roi_align_grad"
)
def roi_align_double_grad(
    boxes, boxes_num, x_grad_grad, pooled_height, pooled_width, spatial_scale, sampling_ratio,
    aligned
):
    """Backward of :func:`roi_align_grad`."""
    return bind(
        _roi_align_double_grad, (boxes, boxes_num, x_grad_grad),
        (pooled_height, pooled_width, spatial_scale, sampling_ratio, aligned)
    )

_roi_pool = define(
    "roi_pool",
    "(Tensor x, Tensor boxes, Tensor boxes_num, int pooled_height=1, int pooled_width=1, "
    "float spatial_scale=1.0)", "Tensor(out), Tensor(arg_max)", traits=("promote_float(x, boxes)",),
    dtypes=("float",), optional=("boxes_num",)
)
def roi_pool(
    x: TensorLike, boxes: TensorLike, boxes_num: TensorLike | None = None, pooled_height: int = 1,
    pooled_width: int = 1, spatial_scale: FloatLike = 1.0
) -> tuple[Tensor, Tensor]:
    """For each box, its corners times spatial_scale and rounded, pooled_height * pooled_width bins,
    each the largest element of the positions it touches; 0 if there are none. arg_max is where that
    is, row * width + column, or -1. The gradient goes to the first of equal ones; see
    :func:`roi_align`.

    Args:
        x, boxes: tensor, float.
        boxes_num: tensor, may be None.
        pooled_height, pooled_width: int.
        spatial_scale: float or one-element tensor.

    Returns:
        out, arg_max.
    """
    return bind(_roi_pool, (x, boxes, boxes_num), (pooled_height, pooled_width, spatial_scale))

_psroi_pool = define(
    "psroi_pool",
    "(Tensor x, Tensor boxes, Tensor boxes_num, int pooled_height=1, int pooled_width=1, "
    "int output_channels=1, float spatial_scale=1.0)", "Tensor(out)", backward="psroi_pool_grad",
    traits=("promote_float(x, boxes)",), dtypes=("float",), optional=("boxes_num",)
)
def psroi_pool(
    x: TensorLike, boxes: TensorLike, boxes_num: TensorLike | None = None, pooled_height: int = 1,
    pooled_width: int = 1, output_channels: int = 1, spatial_scale: FloatLike = 1.0
) -> Tensor:
    """For each box, pooled_height * pooled_width bins, each the mean of the positions it touches,
    in channels of its own: x has channel c * bins + b for output channel c and bin b. A bin without
    positions is 0. There is no gradient to boxes; see :func:`roi_align`.

    Args:
        x, boxes: tensor, float.
        boxes_num: tensor, may be None.
        pooled_height, pooled_width, output_channels: int.
        spatial_scale: float or one-element tensor.
    """
    return bind(
        _psroi_pool, (x, boxes, boxes_num),
        (pooled_height, pooled_width, output_channels, spatial_scale)
    )

_psroi_pool_grad = define(
    "psroi_pool_grad",
    "(Tensor x, Tensor boxes, Tensor boxes_num, Tensor out_grad, int pooled_height, "
    "int pooled_width, int output_channels, float spatial_scale)", "Tensor(x_grad)",
    backward="psroi_pool_double_grad", optional=("boxes_num",), no_need_buffer=("x",),
    forward="psroi_pool"
)
def psroi_pool_grad(
    x, boxes, boxes_num, out_grad, pooled_height, pooled_width, output_channels, spatial_scale
):
    """Backward of :func:`psroi_pool`."""
    return bind(
        _psroi_pool_grad, (x, boxes, boxes_num, out_grad),
        (pooled_height, pooled_width, output_channels, spatial_scale)
    )

_psroi_pool_double_grad = define(
    "psroi_pool_double_grad",
    "(Tensor boxes, Tensor boxes_num, Tensor x_grad_grad, int pooled_height, int pooled_width, "
    "int output_channels, float spatial_scale)", "Tensor(out_grad_grad)", optional=("boxes_num",),
    forward="psroi_pool_grad"
)
def psroi_pool_double_grad(
    boxes, boxes_num, x_grad_grad, pooled_height, pooled_width, output_channels, spatial_scale
):
    """Backward of :func:`psroi_pool_grad`."""
    return bind(
        _psroi_pool_double_grad, (boxes, boxes_num, x_grad_grad),
        (pooled_height, pooled_width, output_channels, spatial_scale)
    )


# -- yaml/routed.yaml ------------------------------------------------------------------------------
define = definer("yaml/routed.yaml", family="routed")

_scatter_rows = define(
    "scatter_rows", "(Tensor x, Tensor local_count, str axis_name, int64_t rows, bool drops=false)",
    "Tensor(out), Tensor(global_count)", traits=("ring",)
)
def scatter_rows(
    x: TensorLike, local_count: TensorLike, axis_name: str, rows: DimLike, drops: bool = False
) -> tuple[Tensor, Tensor]:
    """phix.parallel.global_scatter: the rows that all parts send to the experts of this one.

    Args:
        x, local_count: tensor.
        axis_name: str.
        rows: int.
        drops: bool.

    Returns:
        out, global_count.
    """
    return bind(_scatter_rows, (x, local_count), (axis_name, rows, drops))

_gather_rows = define(
    "gather_rows", "(Tensor x, Tensor local_count, str axis_name, int64_t rows, bool drops=false)",
    "Tensor(out)", traits=("ring",)
)
def gather_rows(
    x: TensorLike, local_count: TensorLike, axis_name: str, rows: DimLike, drops: bool = False
) -> Tensor:
    """phix.parallel.global_gather: the rows that scatter_rows has sent, back where they came from.

    Args:
        x, local_count: tensor.
        axis_name: str.
        rows: int.
        drops: bool.
    """
    return bind(_gather_rows, (x, local_count), (axis_name, rows, drops))

_global_scatter = define(
    "global_scatter", "(Tensor x, Tensor local_count, Tensor global_count, int ring_id = 0)",
    "Tensor(out)", traits=("ring",)
)
def global_scatter(
    x: TensorLike, local_count: TensorLike, global_count: TensorLike, ring_id: int = 0
) -> Tensor:
    """The rows that all processes of the ring send to the experts of this one, by expert, then by
    the process that they are from. local_count has how many of the rows of x go to each expert, the
    first ones to expert 0 of process 0; global_count, which all_to_all makes of it, how many come.
    out has as many rows as come to any of the processes, so that its shape is the same on all;
    behind what comes are zeros. phix.parallel.global_scatter takes the number.

    Args:
        x, local_count, global_count: tensor.
        ring_id: int.
    """
    return bind(_global_scatter, (x, local_count, global_count), (ring_id,))

_global_gather = define(
    "global_gather", "(Tensor x, Tensor local_count, Tensor global_count, int ring_id = 0)",
    "Tensor(out)", traits=("ring",)
)
def global_gather(
    x: TensorLike, local_count: TensorLike, global_count: TensorLike, ring_id: int = 0
) -> Tensor:
    """The rows that global_scatter has sent, back where they came from, in their order: as many as
    come back to any of the processes, and zeros behind those of this one.
    phix.parallel.global_gather takes their number.

    Args:
        x, local_count, global_count: tensor.
        ring_id: int.
    """
    return bind(_global_gather, (x, local_count, global_count), (ring_id,))


# -- yaml/run_time_sizes.yaml ----------------------------------------------------------------------
define = definer("yaml/run_time_sizes.yaml", family="run_time_sizes")

_true_positions = define(
    "true_positions", "(Tensor mask, int64_t size, int64_t fill=0, int lead=0)", "Tensor(out)",
    infer_meta=("TruePositionsInferMeta", None), traits=("nondifferentiable", "promote(mask)"),
    dtypes=("bool",)
)
def true_positions(mask: TensorLike, size: DimLike, fill: DimLike = 0, lead: int = 0) -> Tensor:
    """The flat positions, an int64 each, of the first `size` true elements of mask in order, and
    `fill` behind them where there are fewer. The first `lead` axes count masks, each of which has
    its own.

    Args:
        mask: tensor, bool.
        size, fill, lead: int.
    """
    return bind(_true_positions, (mask,), (size, fill, lead))

_nonzero = define(
    "nonzero", "(Tensor condition)", "Tensor(out)", infer_meta=("NonZeroInferMeta", None),
    traits=("nondifferentiable", "data_dependent")
)
def nonzero(condition: TensorLike) -> Tensor:
    """The indices of the elements that are not 0 in the order of memory, one row of int64s for
    each: out[k, a] is the index along axis a of the k-th of them.

    Args:
        condition: tensor.
    """
    return bind(_nonzero, (condition,), ())

_masked_select = define(
    "masked_select", "(Tensor x, Tensor mask)", "Tensor(out)",
    infer_meta=("MaskedSelectInferMeta", None), traits=("data_dependent",)
)
def masked_select(x: TensorLike, mask: TensorLike) -> Tensor:
    """The elements of x where the bool tensor mask is true, in order, as one axis; x and mask are
    broadcast to each other.

    Args:
        x, mask: tensor.
    """
    return bind(_masked_select, (x, mask), ())

_unique = define(
    "unique", "(Tensor x, bool return_index, bool return_inverse, bool return_counts, int[] axis, "
    "DataType dtype=DataType::INT64)",
    "Tensor(out), Tensor(indices), Tensor(inverse), Tensor(counts)",
    infer_meta=("UniqueInferMeta", None), traits=("promote", "data_dependent"),
    dtypes=("bool", "int", "float"), optional=("indices", "inverse", "counts")
)
def unique(
    x: TensorLike, return_index: bool, return_inverse: bool, return_counts: bool,
    axis: IntArrayLike, dtype: DTypeLike = "int64"
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """The different elements of x, or slices of it along the one axis named, sorted; and where
    asked for, in dtype: the index of the first of each in x, for each of x which of the different
    ones it is, and how often each comes. NaNs count as equal. The gradient of out goes to the first
    of each.

    Args:
        x: tensor, bool, int or float.
        return_index, return_inverse, return_counts: bool.
        axis: sequence of ints.
        dtype: dtype.

    Returns:
        out, indices, inverse, counts.
    """
    return bind(_unique, (x,), (return_index, return_inverse, return_counts, axis, dtype))

_unique_consecutive = define(
    "unique_consecutive",
    "(Tensor x, bool return_inverse=false, bool return_counts=false, int[] axis={}, "
    "DataType dtype=DataType::FLOAT32)", "Tensor(out), Tensor(index), Tensor(counts)",
    infer_meta=("UniqueConsecutiveInferMeta", None), traits=("promote", "data_dependent"),
    optional=("index", "counts")
)
def unique_consecutive(
    x: TensorLike, return_inverse: bool = False, return_counts: bool = False,
    axis: IntArrayLike | None = (), dtype: DTypeLike = float
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """x without the elements, or slices along the one axis named, that equal the one before; and
    where asked for, for each of x which of the result it is, and how many each stands for: int32s
    if dtype is that, else int64s. NaNs count as equal.

    Args:
        x: tensor.
        return_inverse, return_counts: bool.
        axis: sequence of ints, may be None.
        dtype: dtype.

    Returns:
        out, index, counts.
    """
    return bind(_unique_consecutive, (x,), (return_inverse, return_counts, axis, dtype))

_repeat_interleave_with_tensor_index = define(
    "repeat_interleave_with_tensor_index", "(Tensor x, Tensor repeats, int axis)", "Tensor(out)",
    infer_meta=("RepeatInterleaveWithTensorIndexInferMeta", None), traits=("data_dependent",)
)
def repeat_interleave_with_tensor_index(x: TensorLike, repeats: TensorLike, axis: int) -> Tensor:
    """The slices of x along axis, the k-th of them repeats[k] times in a row; one number of repeats
    is for all. Negative numbers raise.

    Args:
        x, repeats: tensor.
        axis: int.
    """
    return bind(_repeat_interleave_with_tensor_index, (x, repeats), (axis,))

_bincount = define(
    "bincount", "(Tensor x, Tensor weights, Scalar(int) minlength=0)", "Tensor(out)",
    infer_meta=("BincountInferMeta", None), traits=("promote(weights)", "data_dependent"),
    dtypes=("bool", "int", "float"), optional=("weights",)
)
def bincount(x: TensorLike, weights: TensorLike | None = None, minlength: ScalarLike = 0) -> Tensor:
    """How often each of 0, 1, ..., max(x) comes in the ints x, or the sum of the weights there: at
    least minlength entries, int64s or of the dtype of float weights. A negative int raises.

    Args:
        x: tensor.
        weights: tensor, bool, int or float, may be None.
        minlength: number or one-element tensor.
    """
    return bind(_bincount, (x, weights), (minlength,))


# -- yaml/sampling.yaml ----------------------------------------------------------------------------
define = definer("yaml/sampling.yaml", family="random")

_exponential_ = define(
    "exponential_", "(Tensor key, Tensor x, float lam)", "Tensor(out)",
    traits=("random", "nondifferentiable", "promote_float(x)"), dtypes=("float",),
    inplace=(("x", "out"),)
)
def exponential_(key: TensorLike, x: TensorLike, lam: FloatLike) -> Tensor:
    """Numbers of density lam * exp(-lam * t) in the shape and the dtype of x.

    Args:
        key: tensor.
        x: tensor, float.
        lam: float or one-element tensor.
    """
    return bind_in_place(_exponential_, (key, x), (lam,))

_gaussian_inplace = define(
    "gaussian_inplace", "(Tensor key, Tensor x, float mean=0, float std=1.0)", "Tensor(out)",
    traits=("random", "nondifferentiable", "promote_float(x)"), dtypes=("float",),
    inplace=(("x", "out"),)
)
def gaussian_inplace(
    key: TensorLike, x: TensorLike, mean: FloatLike = 0.0, std: FloatLike = 1.0
) -> Tensor:
    """Normal numbers in the shape and the dtype of x.

    Args:
        key: tensor.
        x: tensor, float.
        mean, std: float or one-element tensor.
    """
    return bind(_gaussian_inplace, (key, x), (mean, std))

def gaussian_inplace_(
    key: TensorLike, x: TensorLike, mean: FloatLike = 0.0, std: FloatLike = 1.0
) -> Tensor:
    """:func:`gaussian_inplace` in the memory of x, not to be used after it."""
    return bind_in_place(_gaussian_inplace, (key, x), (mean, std))

_uniform_inplace = define(
    "uniform_inplace",
    "(Tensor key, Tensor x, float min = -1.0, float max = 1.0, int diag_num = 0, "
    "int diag_step = 0, float diag_val = 1.0)", "Tensor(out)",
    traits=("random", "nondifferentiable", "promote_float(x)"), dtypes=("float",),
    inplace=(("x", "out"),)
)
def uniform_inplace(
    key: TensorLike, x: TensorLike, min: FloatLike = -1.0, max: FloatLike = 1.0, diag_num: int = 0,
    diag_step: int = 0, diag_val: FloatLike = 1.0
) -> Tensor:
    """Numbers uniform in [min, max) in the shape and the dtype of x, but for diag_val at the first
    diag_num of the places 0, diag_step + 1, 2 * (diag_step + 1), ... in C order.

    Args:
        key: tensor.
        x: tensor, float.
        min, max: float or one-element tensor.
        diag_num, diag_step: int.
        diag_val: float or one-element tensor.
    """
    return bind(_uniform_inplace, (key, x), (min, max, diag_num, diag_step, diag_val))

def uniform_inplace_(
    key: TensorLike, x: TensorLike, min: FloatLike = -1.0, max: FloatLike = 1.0, diag_num: int = 0,
    diag_step: int = 0, diag_val: FloatLike = 1.0
) -> Tensor:
    """:func:`uniform_inplace` in the memory of x, not to be used after it."""
    return bind_in_place(_uniform_inplace, (key, x), (min, max, diag_num, diag_step, diag_val))

_uniform_random_batch_size_like = define(
    "uniform_random_batch_size_like",
    "(Tensor key, Tensor input, int[] shape, int input_dim_idx = 0, int output_dim_idx = 0, "
    "float min=-1.0f, float max=1.0f, int diag_num=0, int diag_step=0, float diag_val=1.0f, "
    "DataType dtype=DataType::FLOAT32)", "Tensor(out)", traits=("random", "nondifferentiable")
)
def uniform_random_batch_size_like(
    key: TensorLike, input: TensorLike, shape: IntArrayLike, input_dim_idx: int = 0,
    output_dim_idx: int = 0, min: FloatLike = -1.0, max: FloatLike = 1.0, diag_num: int = 0,
    diag_step: int = 0, diag_val: FloatLike = 1.0, dtype: DTypeLike = float
) -> Tensor:
    """:func:`uniform_inplace` in a shape whose entry output_dim_idx is the size of input along
    input_dim_idx.

    Args:
        key, input: tensor.
        shape: sequence of ints.
        input_dim_idx, output_dim_idx: int.
        min, max: float or one-element tensor.
        diag_num, diag_step: int.
        diag_val: float or one-element tensor.
        dtype: dtype.
    """
    return bind(
        _uniform_random_batch_size_like, (key, input),
        (shape, input_dim_idx, output_dim_idx, min, max, diag_num, diag_step, diag_val, dtype)
    )

_rrelu = define(
    "rrelu", "(Tensor key, Tensor x, float lower=1.0f/8, float upper=1.0f/3, bool is_test=false)",
    "Tensor(out), Tensor(noise)", traits=("random", "promote_float(x)"), dtypes=("float",),
    optional=("key",)
)
def rrelu(
    key: TensorLike | None, x: TensorLike, lower: FloatLike = 0.125,
    upper: FloatLike = 0.3333333333333333, is_test: bool = False
) -> tuple[Tensor, Tensor]:
    """x where it is 0 or more, else x * noise: a slope uniform in [lower, upper) for each element,
    or their mean if is_test, which needs no key. noise is 1 where x stays.

    Args:
        key: tensor, may be None.
        x: tensor, float.
        lower, upper: float or one-element tensor.
        is_test: bool.

    Returns:
        out, noise.
    """
    return bind(_rrelu, (key, x), (lower, upper, is_test))

_shuffle_batch = define(
    "shuffle_batch", "(Tensor x, Tensor seed, int startup_seed=0)",
    "Tensor(out), Tensor(shuffle_idx), Tensor(seed_out)", traits=("random",)
)
def shuffle_batch(
    x: TensorLike, seed: TensorLike, startup_seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """The rows of x along its last axis in random order, which shuffle_idx holds: row i of out is
    row shuffle_idx[i] of x. seed is a key, uint32[2], and seed_out the next one; startup_seed says
    nothing here.

    Args:
        x, seed: tensor.
        startup_seed: int.

    Returns:
        out, shuffle_idx, seed_out.
    """
    return bind(_shuffle_batch, (x, seed), (startup_seed,))

_random = define(
    "random", "(Tensor key, Tensor x, int64_t from, int64_t to)", "Tensor(out)",
    traits=("random", "nondifferentiable"), inplace=(("x", "out"),)
)
def random(key: TensorLike, x: TensorLike, from_: DimLike, to: DimLike) -> Tensor:
    """Ints uniform in [from, to), as :func:`randint` draws them, in the shape and the dtype of x,
    which may be a float one.

    Args:
        key, x: tensor.
        from_, to: int.
    """
    return bind(_random, (key, x), (from_, to))

def random_(key: TensorLike, x: TensorLike, from_: DimLike, to: DimLike) -> Tensor:
    """:func:`random` in the memory of x, not to be used after it."""
    return bind_in_place(_random, (key, x), (from_, to))


# -- yaml/sequence.yaml ----------------------------------------------------------------------------
define = definer("yaml/sequence.yaml", family="sequence")

_warpctc = define(
    "warpctc",
    "(Tensor logits, Tensor label, Tensor logits_length, Tensor labels_length, int blank = 0, "
    "bool norm_by_times = false)", "Tensor(loss), Tensor(warpctcgrad)",
    traits=("promote_float(logits)", "full_precision"), dtypes=("float",),
    optional=("logits_length", "labels_length"), intermediate=("warpctcgrad",)
)
def warpctc(
    logits: TensorLike, label: TensorLike, logits_length: TensorLike | None = None,
    labels_length: TensorLike | None = None, blank: int = 0, norm_by_times: bool = False
) -> Tensor:
    """CTC: -log of the probability, by softmax(logits), logits [time, batch, classes], of all paths
    that give the label once repeats are merged and blanks dropped; loss is [batch, 1], inf with
    derivative 0 where there is none, NaN where a label is blank or no class, or a length is too
    large. label is [batch, most]; absent lengths are the whole axes. norm_by_times divides the
    derivative, not the loss, by the number of steps.

    Args:
        logits: tensor, float.
        label: tensor.
        logits_length, labels_length: tensor, may be None.
        blank: int.
        norm_by_times: bool.
    """
    return bind(_warpctc, (logits, label, logits_length, labels_length), (blank, norm_by_times))[0]

_warprnnt = define(
    "warprnnt",
    "(Tensor input, Tensor label, Tensor input_lengths, Tensor label_lengths, int blank = 0, "
    "float fastemit_lambda = 0.0)", "Tensor(loss), Tensor(warprnntgrad)",
    traits=("promote_float(input)", "full_precision"), dtypes=("float",),
    intermediate=("warprnntgrad",)
)
def warprnnt(
    input: TensorLike, label: TensorLike, input_lengths: TensorLike, label_lengths: TensorLike,
    blank: int = 0, fastemit_lambda: FloatLike = 0.0
) -> Tensor:
    """RNN-T: -log of the sum over all ways through the lattice of time and labels, input [batch,
    time, most + 1, classes] being log-probabilities (log_softmax of scores), label [batch, most]:
    blank goes on in time, a label to the next node, and blank leaves at the end. loss is [batch],
    NaN where a label is no class or a length is too large. fastemit_lambda makes derivatives
    through labels 1 + fastemit_lambda times as large, not the loss.

    Args:
        input: tensor, float.
        label, input_lengths, label_lengths: tensor.
        blank: int.
        fastemit_lambda: float or one-element tensor.
    """
    return bind(
        _warprnnt, (input, label, input_lengths, label_lengths), (blank, fastemit_lambda)
    )[0]

_ctc_align = define(
    "ctc_align", "(Tensor input, Tensor input_length, int blank = 0, bool merge_repeated = true, "
    "int padding_value = 0)", "Tensor(output), Tensor(output_length)",
    traits=("nondifferentiable",), dtypes=("int",), optional=("input_length", "output_length")
)
def ctc_align(
    input: TensorLike, input_length: TensorLike | None = None, blank: int = 0,
    merge_repeated: bool = True, padding_value: int = 0
) -> tuple[Tensor, Tensor | None]:
    """The label that each path of input [batch, time] stands for: repeats merged, blanks dropped,
    then padding_value; and its lengths, [batch, 1].

    Args:
        input: tensor, int.
        input_length: tensor, int, may be None.
        blank: int.
        merge_repeated: bool.
        padding_value: int.

    Returns:
        output, output_length.
    """
    return bind(_ctc_align, (input, input_length), (blank, merge_repeated, padding_value))

_edit_distance = define(
    "edit_distance",
    "(Tensor hyps, Tensor refs, Tensor hypslength, Tensor refslength, bool normalized = false)",
    "Tensor(sequencenum), Tensor(out)", traits=("nondifferentiable",),
    optional=("hypslength", "refslength")
)
def edit_distance(
    hyps: TensorLike, refs: TensorLike, hypslength: TensorLike | None = None,
    refslength: TensorLike | None = None, normalized: bool = False
) -> tuple[Tensor, Tensor]:
    """Levenshtein distance: how many insertions, deletions and substitutions make the row of hyps
    that of refs, float32 [batch, 1], divided by the length of refs if normalized; NaN where a
    length is too large. sequencenum is the batch, int64[1].

    Args:
        hyps, refs: tensor.
        hypslength, refslength: tensor, may be None.
        normalized: bool.

    Returns:
        sequencenum, out.
    """
    return bind(_edit_distance, (hyps, refs, hypslength, refslength), (normalized,))

_viterbi_decode = define(
    "viterbi_decode", "(Tensor potentials, Tensor transition_params, Tensor lengths, "
    "bool include_bos_eos_tag = true)", "Tensor(scores), Tensor(path)",
    traits=("promote_float(potentials, transition_params)",), dtypes=("float",)
)
def viterbi_decode(
    potentials: TensorLike, transition_params: TensorLike, lengths: TensorLike,
    include_bos_eos_tag: bool = True
) -> tuple[Tensor, Tensor]:
    """The tags [batch, time] whose sum of potentials [batch, time, tags] and of
    transition_params[from, to] is largest, and that sum, [batch]. With include_bos_eos_tag the last
    row of transition_params is added at the first step, the one before it at the last. Behind
    lengths the path is 0.

    Args:
        potentials, transition_params: tensor, float.
        lengths: tensor.
        include_bos_eos_tag: bool.

    Returns:
        scores, path.
    """
    return bind(_viterbi_decode, (potentials, transition_params, lengths), (include_bos_eos_tag,))

_crf_decoding = define(
    "crf_decoding", "(Tensor emission, Tensor transition, Tensor label, Tensor length)",
    "Tensor(viterbi_path)", traits=("nondifferentiable", "promote_float(emission, transition)"),
    dtypes=("float",), optional=("label", "length")
)
def crf_decoding(
    emission: TensorLike, transition: TensorLike, label: TensorLike | None = None,
    length: TensorLike | None = None
) -> Tensor:
    """The best tags of emission [batch, time, tags] of these lengths, int64[batch, time], 0 behind
    the end, or of one sequence [time, tags], as [time, 1]. transition holds what is added at the
    first step, at the last, and from tag to tag: [2 + tags, tags]. Given a label, 1 where it agrees
    with the best path.

    Args:
        emission, transition: tensor, float.
        label, length: tensor, may be None.
    """
    return bind(_crf_decoding, (emission, transition, label, length), ())

_gather_tree = define(
    "gather_tree", "(Tensor ids, Tensor parents)", "Tensor(out)", traits=("nondifferentiable",)
)
def gather_tree(ids: TensorLike, parents: TensorLike) -> Tensor:
    """The sequences of a beam search, [time, batch, beams]: from the last step back, each beam
    follows the parents, and takes the ids on its way. A parent that is no beam raises
    TensorIndexError where the call runs at once; compiled programs take the nearest.

    Args:
        ids, parents: tensor.
    """
    return bind(_gather_tree, (ids, parents), ())

_sequence_mask = define(
    "sequence_mask", "(Tensor x, Scalar(int) max_len, DataType out_dtype)", "Tensor(y)",
    traits=("nondifferentiable",), dtypes=("int",)
)
def sequence_mask(x: TensorLike, max_len: ScalarLike, out_dtype: DTypeLike) -> Tensor:
    """y[..., j] = 1 where j < x[...], else 0, for j below max_len, a number or a tensor: x.max()
    for the largest of x.

    Args:
        x: tensor, int.
        max_len: number or one-element tensor.
        out_dtype: dtype.
    """
    return bind(_sequence_mask, (x,), (max_len, out_dtype))

_match_matrix_tensor = define(
    "match_matrix_tensor", "(Tensor x, Tensor y, Tensor w, int dim_t = 1)",
    "Tensor(out), Tensor(tmp)", traits=("promote",), dtypes=("float",)
)
def match_matrix_tensor(
    x: TensorLike, y: TensorLike, w: TensorLike, dim_t: int = 1
) -> tuple[Tensor, Tensor]:
    """x[i] @ w[:, t] @ y[j] for each t of dim_t, row i of x [rows, width] and row j of y, in this
    order, as [dim_t * rows * columns, 1]; and tmp, x @ w as [rows, dim_t * width]. w is [width,
    dim_t, width].

    Args:
        x, y, w: tensor, float.
        dim_t: int.

    Returns:
        out, tmp.
    """
    return bind(_match_matrix_tensor, (x, y, w), (dim_t,))

_chunk_eval = define(
    "chunk_eval", "(Tensor inference, Tensor label, Tensor seq_length, int num_chunk_types, "
    'str chunk_scheme = "IOB", int[] excluded_chunk_types = {})',
    "Tensor(precision), Tensor(recall), Tensor(f1_score), Tensor(num_infer_chunks), "
    "Tensor(num_label_chunks), Tensor(num_correct_chunks)", traits=("nondifferentiable",),
    optional=("seq_length",)
)
def chunk_eval(
    inference: TensorLike, label: TensorLike, seq_length: TensorLike | None, num_chunk_types: int,
    chunk_scheme: str = "IOB", excluded_chunk_types: IntArrayLike | None = ()
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """How many chunks of label inference finds: precision, recall and their harmonic mean,
    float32[1], and the numbers of chunks, int64[1]. A tag is type * tags + position; the positions
    are begin, inside (IOB), inside, end (IOE), begin, inside, end, single (IOBES) or one alone
    (plain), and num_chunk_types * tags is outside. Tensors are [batch, time, 1] with seq_length,
    else one sequence. A tag beyond raises TensorIndexError where the call runs at once.

    Args:
        inference, label: tensor.
        seq_length: tensor, may be None.
        num_chunk_types: int.
        chunk_scheme: str.
        excluded_chunk_types: sequence of ints, may be None.

    Returns:
        precision, recall, f1_score, num_infer_chunks, num_label_chunks, num_correct_chunks.
    """
    return bind(
        _chunk_eval, (inference, label, seq_length),
        (num_chunk_types, chunk_scheme, excluded_chunk_types)
    )

_sequence_pool = define(
    "sequence_pool",
    '(Tensor x, bool is_test=false, str pooltype = "AVERAGE", float pad_value = 0.0)',
    "Tensor(out), Tensor(max_index)", traits=("promote_float",), dtypes=("float",),
    intermediate=("max_index",)
)
def sequence_pool(
    x: TensorLike, is_test: bool = False, pooltype: str = "AVERAGE", pad_value: FloatLike = 0.0
) -> Tensor:
    """One row of the rows of a sequence x [time, width]: their SUM, AVERAGE, sum over the root of
    their number (SQRT), the MAX of each column, the FIRST or the LAST; pad_value where there is no
    row.

    Args:
        x: tensor, float.
        is_test: bool.
        pooltype: str.
        pad_value: float or one-element tensor.
    """
    return bind(_sequence_pool, (x,), (is_test, pooltype, pad_value))[0]

_sequence_conv = define(
    "sequence_conv", "(Tensor x, Tensor padding_data, Tensor filter, int context_length, "
    "bool padding_trainable = false, int context_start = 0, int context_stride = 1)", "Tensor(out)",
    traits=("promote",), dtypes=("float",), optional=("padding_data",)
)
def sequence_conv(
    x: TensorLike, padding_data: TensorLike | None, filter: TensorLike, context_length: int,
    padding_trainable: bool = False, context_start: int = 0, context_stride: int = 1
) -> Tensor:
    """Rows t + context_start to t + context_start + context_length - 1 of a sequence x [time,
    width] side by side, times filter [context_length * width, out], for each t. Above and below x
    lie zeros, or with padding_trainable the rows of padding_data. context_stride is 1.

    Args:
        x: tensor, float.
        padding_data: tensor, float, may be None.
        filter: tensor, float.
        context_length: int.
        padding_trainable: bool.
        context_start, context_stride: int.
    """
    return bind(
        _sequence_conv, (x, padding_data, filter),
        (context_length, padding_trainable, context_start, context_stride)
    )

_im2sequence = define(
    "im2sequence",
    "(Tensor x, Tensor y, int[] kernels, int[] strides = {1, 1}, int[] paddings = {0, 0, 0, 0}, "
    "int[] out_stride = {1, 1})", "Tensor(out)", optional=("y",)
)
def im2sequence(
    x: TensorLike, y: TensorLike | None, kernels: IntArrayLike, strides: IntArrayLike = (1, 1),
    paddings: IntArrayLike = (0, 0, 0, 0), out_stride: IntArrayLike = (1, 1)
) -> Tensor:
    """The windows of images x [batch, channels, height, width] as rows, from left to right and
    down, image after image: [batch * windows, channels * window]. paddings are zeros above, left,
    below and right. y and out_stride are for images of different sizes, which are refused.

    Args:
        x: tensor.
        y: tensor, may be None.
        kernels, strides, paddings, out_stride: sequence of ints.
    """
    return bind(_im2sequence, (x, y), (kernels, strides, paddings, out_stride))


# -- yaml/shape.yaml -------------------------------------------------------------------------------
define = definer("yaml/shape.yaml", family="shape")

_reshape = define(
    "reshape", "(Tensor x, IntArray shape)", "Tensor(out)", infer_meta=("ReshapeInferMeta", None),
    backward="reshape_grad", jvp="linear", traits=("stores",), inplace=(("x", "out"),),
    view=(("x", "out"),)
)
def reshape(x: TensorLike, shape: IntArrayLike) -> Tensor:
    """The elements of x, in order, in another shape; one dim may be -1, and 0 copies the dim of x
    where the other dims fit then (where x is empty they need not: a 0 that cannot copy is a 0).

    Args:
        x: tensor.
        shape: ints, a tensor of ints, or a list that mixes ints and 0-d tensors.
    """
    return bind(_reshape, (x,), (shape,))

def reshape_(x: TensorLike, shape: IntArrayLike) -> Tensor:
    """:func:`reshape` in the memory of x, not to be used after it."""
    return bind_in_place(_reshape, (x,), (shape,))

_reshape_grad = define(
    "reshape_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", no_need_buffer=("x",),
    forward="reshape"
)
def reshape_grad(x, out_grad):
    """Backward of :func:`reshape`."""
    return bind(_reshape_grad, (x, out_grad), ())

_expand = define(
    "expand", "(Tensor x, IntArray shape={})", "Tensor(out)", infer_meta=("ExpandInferMeta", None),
    backward="expand_grad", jvp="linear", traits=("stores",)
)
def expand(x: TensorLike, shape: IntArrayLike | None = ()) -> Tensor:
    """x broadcast to shape; -1 keeps the dim of x.

    Args:
        x: tensor.
        shape: ints, a tensor of ints, or a list that mixes ints and 0-d tensors, may be None.
    """
    return bind(_expand, (x,), (shape,))

_expand_grad = define(
    "expand_grad", "(Tensor x, Tensor out_grad, IntArray shape)", "Tensor(x_grad)",
    no_need_buffer=("x",), forward="expand"
)
def expand_grad(x, out_grad, shape):
    """Backward of :func:`expand`."""
    return bind(_expand_grad, (x, out_grad), (shape,))

_transpose = define(
    "transpose", "(Tensor x, int[] perm)", "Tensor(out)", infer_meta=("TransposeInferMeta", None),
    backward="transpose_grad", jvp="linear", traits=("stores",), inplace=(("x", "out"),),
    view=(("x", "out"),)
)
def transpose(x: TensorLike, perm: IntArrayLike) -> Tensor:
    """The axes of x in the order perm: out.shape[i] = x.shape[perm[i]].

    Args:
        x: tensor.
        perm: sequence of ints.
    """
    return bind(_transpose, (x,), (perm,))

def transpose_(x: TensorLike, perm: IntArrayLike) -> Tensor:
    """:func:`transpose` in the memory of x, not to be used after it."""
    return bind_in_place(_transpose, (x,), (perm,))

_transpose_grad = define(
    "transpose_grad", "(Tensor out_grad, int[] perm)", "Tensor(x_grad)", forward="transpose"
)
def transpose_grad(out_grad, perm):
    """Backward of :func:`transpose`."""
    return bind(_transpose_grad, (out_grad,), (perm,))

_concat = define(
    "concat", "(Tensor[] x, Scalar(int) axis=0)", "Tensor(out)",
    infer_meta=("ConcatInferMeta", None), backward="concat_grad", jvp="linear",
    traits=("promote", "stores")
)
def concat(x: Sequence[TensorLike], axis: ScalarLike = 0) -> Tensor:
    """The tensors of x end to end along axis.

    Args:
        x: sequence of tensors.
        axis: number or one-element tensor.
    """
    return bind(_concat, (x,), (axis,))

_concat_grad = define(
    "concat_grad", "(Tensor[] x, Tensor out_grad, Scalar(int) axis=0)",
    "Tensor[](x_grad){x.size()}", no_need_buffer=("x",), forward="concat"
)
def concat_grad(x, out_grad, axis=0):
    """Backward of :func:`concat`."""
    return bind(_concat_grad, (x, out_grad), (axis,))

_split = define(
    "split", "(Tensor x, IntArray sections, Scalar(int) axis=0)", "Tensor[](out){sections.size()}",
    infer_meta=("SplitInferMeta", None), backward="split_grad", jvp="linear"
)
def split(x: TensorLike, sections: IntArrayLike, axis: ScalarLike = 0) -> tuple[Tensor, ...]:
    """x cut along axis into parts of the sizes in sections; one may be -1, which takes the rest.

    Args:
        x: tensor.
        sections: ints, a tensor of ints, or a list that mixes ints and 0-d tensors.
        axis: number or one-element tensor.
    """
    return bind(_split, (x,), (sections, axis))

_split_grad = define(
    "split_grad", "(Tensor[] out_grad, Scalar(int) axis=-1)", "Tensor(x_grad)", forward="split"
)
def split_grad(out_grad, axis=-1):
    """Backward of :func:`split`."""
    return bind(_split_grad, (out_grad,), (axis,))

_split_with_num = define(
    "split_with_num", "(Tensor x, int num, Scalar(int) axis=0)", "Tensor[](out){num}",
    backward="split_with_num_grad", jvp="linear"
)
def split_with_num(x: TensorLike, num: int, axis: ScalarLike = 0) -> tuple[Tensor, ...]:
    """x cut along axis into num equal parts.

    Args:
        x: tensor.
        num: int.
        axis: number or one-element tensor.
    """
    return bind(_split_with_num, (x,), (num, axis))

_split_with_num_grad = define(
    "split_with_num_grad", "(Tensor[] out_grad, Scalar(int) axis=-1)", "Tensor(x_grad)",
    forward="split_with_num"
)
def split_with_num_grad(out_grad, axis=-1):
    """Backward of :func:`split_with_num`."""
    return bind(_split_with_num_grad, (out_grad,), (axis,))

_slice = define(
    "slice",
    "(Tensor input, int64_t[] axes, IntArray starts, IntArray ends, int64_t[] infer_flags={}, "
    "int64_t[] decrease_axis={})", "Tensor(out)", infer_meta=("SliceRawInferMeta", None),
    backward="slice_grad", jvp="linear", traits=("stores",), view=(("input", "out"),)
)
def slice(
    input: TensorLike, axes: IntArrayLike, starts: IntArrayLike, ends: IntArrayLike,
    infer_flags: IntArrayLike | None = (), decrease_axis: IntArrayLike | None = ()
) -> Tensor:
    """The elements from starts[i] up to ends[i] along axes[i], clipped to the axis, negative bounds
    counted from its end; axes in decrease_axis, of which one element is left, are dropped.

    Args:
        input: tensor.
        axes: sequence of ints.
        starts, ends: ints, a tensor of ints, or a list that mixes ints and 0-d tensors.
        infer_flags, decrease_axis: sequence of ints, may be None.
    """
    return bind(_slice, (input,), (axes, starts, ends, infer_flags, decrease_axis))

_slice_grad = define(
    "slice_grad", "(Tensor input, Tensor out_grad, int64_t[] axes, IntArray starts, IntArray ends, "
    "int64_t[] infer_flags, int64_t[] decrease_axis)", "Tensor(input_grad)",
    no_need_buffer=("input",), forward="slice"
)
def slice_grad(input, out_grad, axes, starts, ends, infer_flags, decrease_axis):
    """Backward of :func:`slice`."""
    return bind(_slice_grad, (input, out_grad), (axes, starts, ends, infer_flags, decrease_axis))

_strided_slice = define(
    "strided_slice", "(Tensor x, int[] axes, IntArray starts, IntArray ends, IntArray strides)",
    "Tensor(out)", infer_meta=("StridedSliceInferMeta", None), backward="strided_slice_grad",
    jvp="linear", traits=("stores",), view=(("x", "out"),)
)
def strided_slice(
    x: TensorLike, axes: IntArrayLike, starts: IntArrayLike, ends: IntArrayLike,
    strides: IntArrayLike
) -> Tensor:
    """Every strides[i]-th element from starts[i] up to ends[i] along axes[i], bounds as in a Python
    slice; a negative stride walks backward.

    Args:
        x: tensor.
        axes: sequence of ints.
        starts, ends, strides: ints, a tensor of ints, or a list that mixes ints and 0-d tensors.
    """
    return bind(_strided_slice, (x,), (axes, starts, ends, strides))

_strided_slice_grad = define(
    "strided_slice_grad",
    "(Tensor x, Tensor out_grad, int[] axes, IntArray starts, IntArray ends, IntArray strides)",
    "Tensor(x_grad)", no_need_buffer=("x",), forward="strided_slice"
)
def strided_slice_grad(x, out_grad, axes, starts, ends, strides):
    """Backward of :func:`strided_slice`."""
    return bind(_strided_slice_grad, (x, out_grad), (axes, starts, ends, strides))

_slice_put = define(
    "slice_put", "(Tensor x, Tensor value, int64_t[] axes, IntArray starts, IntArray ends, "
    "IntArray strides={}, bool accumulate=false)", "Tensor(out)",
    infer_meta=("SlicePutInferMeta", None), backward="slice_put_grad", jvp="linear",
    traits=("promote(x, value)", "stores")
)
def slice_put(
    x: TensorLike, value: TensorLike, axes: IntArrayLike, starts: IntArrayLike, ends: IntArrayLike,
    strides: IntArrayLike | None = (), accumulate: bool = False
) -> Tensor:
    """x with value, which broadcasts, in place of the elements that strided_slice takes at these
    bounds, or added to them if accumulate; no strides: 1 for each axis.

    Args:
        x, value: tensor.
        axes: sequence of ints.
        starts, ends: ints, a tensor of ints, or a list that mixes ints and 0-d tensors.
        strides: ints, a tensor of ints, or a list that mixes ints and 0-d tensors, may be None.
        accumulate: bool.
    """
    return bind(_slice_put, (x, value), (axes, starts, ends, strides, accumulate))

_slice_put_grad = define(
    "slice_put_grad",
    "(Tensor x, Tensor value, Tensor out_grad, int64_t[] axes, IntArray starts, IntArray ends, "
    "IntArray strides, bool accumulate)", "Tensor(x_grad), Tensor(value_grad)",
    no_need_buffer=("x", "value"), forward="slice_put"
)
def slice_put_grad(x, value, out_grad, axes, starts, ends, strides, accumulate):
    """Backward of :func:`slice_put`."""
    return bind(_slice_put_grad, (x, value, out_grad), (axes, starts, ends, strides, accumulate))

_pad = define(
    "pad", "(Tensor x, int[] paddings, Scalar pad_value=0)", "Tensor(out)",
    infer_meta=("PadInferMeta", None), backward="pad_grad", traits=("stores",)
)
def pad(x: TensorLike, paddings: IntArrayLike, pad_value: ScalarLike = 0) -> Tensor:
    """x with pad_value added: paddings[2i] elements before and paddings[2i + 1] behind axis i;
    negative numbers cut.

    Args:
        x: tensor.
        paddings: sequence of ints.
        pad_value: number or one-element tensor.
    """
    return bind(_pad, (x,), (paddings, pad_value))

_pad_grad = define(
    "pad_grad", "(Tensor x, Tensor out_grad, int[] paddings, Scalar pad_value)", "Tensor(x_grad)",
    no_need_buffer=("x",), forward="pad"
)
def pad_grad(x, out_grad, paddings, pad_value):
    """Backward of :func:`pad`."""
    return bind(_pad_grad, (x, out_grad), (paddings, pad_value))

_flip = define(
    "flip", "(Tensor x, int[] axis)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="flip_grad", jvp="linear", traits=("stores",), view=(("x", "out"),)
)
def flip(x: TensorLike, axis: IntArrayLike) -> Tensor:
    """x with the order along each of axis turned round.

    Args:
        x: tensor.
        axis: sequence of ints.
    """
    return bind(_flip, (x,), (axis,))

_flip_grad = define(
    "flip_grad", "(Tensor out_grad, int[] axis)", "Tensor(x_grad)", invoke="flip(out_grad, axis)",
    forward="flip"
)
def flip_grad(out_grad, axis):
    """Backward of :func:`flip`."""
    return bind(_flip_grad, (out_grad,), (axis,))

_roll = define(
    "roll", "(Tensor x, IntArray shifts={}, int64_t[] axis={})", "Tensor(out)",
    infer_meta=("UnchangedInferMeta", None), backward="roll_grad", jvp="linear", traits=("stores",)
)
def roll(x: TensorLike, shifts: IntArrayLike | None = (), axis: IntArrayLike | None = ()) -> Tensor:
    """x moved by shifts[i] places along axis[i]; what leaves at one end comes in at the other.
    Without axis the elements are moved in C order.

    Args:
        x: tensor.
        shifts: ints, a tensor of ints, or a list that mixes ints and 0-d tensors, may be None.
        axis: sequence of ints, may be None.
    """
    return bind(_roll, (x,), (shifts, axis))

_roll_grad = define(
    "roll_grad", "(Tensor x, Tensor out_grad, IntArray shifts, int64_t[] axis)", "Tensor(x_grad)",
    no_need_buffer=("x",), forward="roll"
)
def roll_grad(x, out_grad, shifts, axis):
    """Backward of :func:`roll`."""
    return bind(_roll_grad, (x, out_grad), (shifts, axis))

_diagonal = define(
    "diagonal", "(Tensor x, int offset=0, int axis1=0, int axis2=1)", "Tensor(out)",
    infer_meta=("DiagonalInferMeta", None), backward="diagonal_grad", jvp="linear",
    traits=("stores",), view=(("x", "out"),)
)
def diagonal(x: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The elements x[..., i, ..., i + offset, ...] of axis1 and axis2, on a last axis over i.

    Args:
        x: tensor.
        offset, axis1, axis2: int.
    """
    return bind(_diagonal, (x,), (offset, axis1, axis2))

_diagonal_grad = define(
    "diagonal_grad", "(Tensor x, Tensor out_grad, int offset=0, int axis1=0, int axis2=1)",
    "Tensor(x_grad)", no_need_buffer=("x",), forward="diagonal"
)
def diagonal_grad(x, out_grad, offset=0, axis1=0, axis2=1):
    """Backward of :func:`diagonal`."""
    return bind(_diagonal_grad, (x, out_grad), (offset, axis1, axis2))

_squeeze = define(
    "squeeze", "(Tensor x, IntArray axis={})", "Tensor(out)", infer_meta=("SqueezeInferMeta", None),
    jvp="linear", inplace=(("x", "out"),), view=(("x", "out"),)
)
def squeeze(x: TensorLike, axis: IntArrayLike | None = ()) -> Tensor:
    """x without those axes in axis that have one element, or without every such axis. An axis of
    unknown size that is named must turn out to have one.

    Args:
        x: tensor.
        axis: ints, a tensor of ints, or a list that mixes ints and 0-d tensors, may be None.
    """
    return bind(_squeeze, (x,), (axis,))

def squeeze_(x: TensorLike, axis: IntArrayLike | None = ()) -> Tensor:
    """:func:`squeeze` in the memory of x, not to be used after it."""
    return bind_in_place(_squeeze, (x,), (axis,))

_unsqueeze = define(
    "unsqueeze", "(Tensor x, IntArray axis={})", "Tensor(out)", jvp="linear",
    inplace=(("x", "out"),), view=(("x", "out"),)
)
def unsqueeze(x: TensorLike, axis: IntArrayLike | None = ()) -> Tensor:
    """x with axes of one element put in one after the other, each at its place in axis among those
    that are there by then.

    Args:
        x: tensor.
        axis: ints, a tensor of ints, or a list that mixes ints and 0-d tensors, may be None.
    """
    return bind(_unsqueeze, (x,), (axis,))

def unsqueeze_(x: TensorLike, axis: IntArrayLike | None = ()) -> Tensor:
    """:func:`unsqueeze` in the memory of x, not to be used after it."""
    return bind_in_place(_unsqueeze, (x,), (axis,))

_flatten = define(
    "flatten", "(Tensor x, int start_axis=1, int stop_axis=1)", "Tensor(out)", jvp="linear",
    inplace=(("x", "out"),), view=(("x", "out"),)
)
def flatten(x: TensorLike, start_axis: int = 1, stop_axis: int = 1) -> Tensor:
    """x with the axes from start_axis to stop_axis joined into one.

    Args:
        x: tensor.
        start_axis, stop_axis: int.
    """
    return bind(_flatten, (x,), (start_axis, stop_axis))

def flatten_(x: TensorLike, start_axis: int = 1, stop_axis: int = 1) -> Tensor:
    """:func:`flatten` in the memory of x, not to be used after it."""
    return bind_in_place(_flatten, (x,), (start_axis, stop_axis))

_stack = define(
    "stack", "(Tensor[] x, int axis=0)", "Tensor(out)", infer_meta=("StackInferMeta", None),
    jvp="linear", traits=("promote",)
)
def stack(x: Sequence[TensorLike], axis: int = 0) -> Tensor:
    """The tensors of x, all of one shape, side by side along a new axis.

    Args:
        x: sequence of tensors.
        axis: int.
    """
    return bind(_stack, (x,), (axis,))

_unstack = define(
    "unstack", "(Tensor x, int axis=0, int num=0)", "Tensor[](out){num}",
    infer_meta=("UnStackInferMeta", None), backward="unstack_grad", jvp="linear"
)
def unstack(x: TensorLike, axis: int = 0, num: int = 0) -> tuple[Tensor, ...]:
    """The num slices of x along axis, without that axis; num 0 stands for its size.

    Args:
        x: tensor.
        axis, num: int.
    """
    return bind(_unstack, (x,), (axis, num))

_unstack_grad = define(
    "unstack_grad", "(Tensor[] out_grad, int axis)", "Tensor(x_grad)", forward="unstack"
)
def unstack_grad(out_grad, axis):
    """Backward of :func:`unstack`."""
    return bind(_unstack_grad, (out_grad,), (axis,))

_unbind = define(
    "unbind", "(Tensor input, int axis=0)",
    "Tensor[](out){axis<0 ? input.dims()[input.dims().size()+axis]:input.dims()[axis]}",
    backward="unbind_grad", jvp="linear"
)
def unbind(input: TensorLike, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices of input along axis, of a known size, without that axis.

    Args:
        input: tensor.
        axis: int.
    """
    return bind(_unbind, (input,), (axis,))

_unbind_grad = define(
    "unbind_grad", "(Tensor[] out_grad, int axis)", "Tensor(input_grad)", forward="unbind"
)
def unbind_grad(out_grad, axis):
    """Backward of :func:`unbind`."""
    return bind(_unbind_grad, (out_grad,), (axis,))

_tile = define("tile", "(Tensor x, IntArray repeat_times={})", "Tensor(out)", jvp="linear")
def tile(x: TensorLike, repeat_times: IntArrayLike | None = ()) -> Tensor:
    """x repeated repeat_times[i] times along axis i, aligned at the last axis.

    Args:
        x: tensor.
        repeat_times: ints, a tensor of ints, or a list that mixes ints and 0-d tensors, may be
            None.
    """
    return bind(_tile, (x,), (repeat_times,))

_expand_as = define(
    "expand_as", "(Tensor x, Tensor y, int[] target_shape={})", "Tensor(out)",
    infer_meta=("ExpandAsInferMeta", None), jvp="linear"
)
def expand_as(x: TensorLike, y: TensorLike, target_shape: IntArrayLike | None = ()) -> Tensor:
    """x broadcast to the shape of y, or to target_shape if that is given.

    Args:
        x, y: tensor.
        target_shape: sequence of ints, may be None.
    """
    return bind(_expand_as, (x, y), (target_shape,))

_broadcast_tensors = define(
    "broadcast_tensors", "(Tensor[] input)", "Tensor[](out){input.size()}", jvp="linear"
)
def broadcast_tensors(input: Sequence[TensorLike]) -> tuple[Tensor, ...]:
    """The tensors of input, each broadcast to the shape they have in common.

    Args:
        input: sequence of tensors.
    """
    return bind(_broadcast_tensors, (input,), ())

_meshgrid = define("meshgrid", "(Tensor[] inputs)", "Tensor[](out){inputs.size()}", jvp="linear")
def meshgrid(inputs: Sequence[TensorLike]) -> tuple[Tensor, ...]:
    """One tensor for each of inputs, all of shape [len(inputs[0]), len(inputs[1]), ...]; the i-th
    varies along axis i.

    Args:
        inputs: sequence of tensors.
    """
    return bind(_meshgrid, (inputs,), ())

_shape = define(
    "shape", "(Tensor input)", "Tensor(out)", traits=("nondifferentiable",),
    kernel={"func": (("shape", ("dense",), ("dense",)),
    ("shape_sr", ("selected_rows",), ("dense",)))}
)
def shape(input: TensorLike) -> Tensor:
    """The dims of input as an int64 tensor; unknown ones are filled in when the program runs.

    Args:
        input: tensor.
    """
    return bind(_shape, (input,), ())

_numel = define("numel", "(Tensor x)", "Tensor(size)", traits=("nondifferentiable",))
def numel(x: TensorLike) -> Tensor:
    """The number of elements of x, as an int64 tensor.

    Args:
        x: tensor.
    """
    return bind(_numel, (x,), ())


# -- yaml/sorting.yaml -----------------------------------------------------------------------------
define = definer("yaml/sorting.yaml", family="sorting")

_argsort = define(
    "argsort", "(Tensor x, int axis=-1, bool descending=false, bool stable=false)",
    "Tensor(out), Tensor(indices)", infer_meta=("ArgsortInferMeta", None), backward="argsort_grad",
    traits=("promote",), dtypes=("bool", "int", "float")
)
def argsort(
    x: TensorLike, axis: int = -1, descending: bool = False, stable: bool = False
) -> tuple[Tensor, Tensor]:
    """x sorted along axis, and the int64 indices that sort it; equal elements keep their order.

    Args:
        x: tensor, bool, int or float.
        axis: int.
        descending, stable: bool.

    Returns:
        out, indices.
    """
    return bind(_argsort, (x,), (axis, descending, stable))

_argsort_grad = define(
    "argsort_grad",
    "(Tensor indices, Tensor x, Tensor out_grad, int axis, bool descending, bool stable)",
    "Tensor(x_grad)", no_need_buffer=("x",), forward="argsort"
)
def argsort_grad(indices, x, out_grad, axis, descending, stable):
    """Backward of :func:`argsort`."""
    return bind(_argsort_grad, (indices, x, out_grad), (axis, descending, stable))

_sort = define(
    "sort", "(Tensor x, int axis=-1, bool descending=false)", "Tensor(out)",
    infer_meta=("SortInferMeta", None), backward="sort_grad", traits=("promote",),
    dtypes=("bool", "int", "float")
)
def sort(x: TensorLike, axis: int = -1, descending: bool = False) -> Tensor:
    """x sorted along axis, smallest first unless descending.

    Args:
        x: tensor, bool, int or float.
        axis: int.
        descending: bool.
    """
    return bind(_sort, (x,), (axis, descending))

_sort_grad = define(
    "sort_grad", "(Tensor x, Tensor out_grad, int axis, bool descending)", "Tensor(x_grad)",
    forward="sort"
)
def sort_grad(x, out_grad, axis, descending):
    """Backward of :func:`sort`."""
    return bind(_sort_grad, (x, out_grad), (axis, descending))

_topk = define(
    "topk", "(Tensor x, Scalar(int) k=1, int axis=-1, bool largest=true, bool sorted=true)",
    "Tensor(out), Tensor(indices)", infer_meta=("TopKInferMeta", None), backward="topk_grad",
    traits=("promote",), dtypes=("bool", "int", "float")
)
def topk(
    x: TensorLike, k: ScalarLike = 1, axis: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) elements along axis in order, and their int64 indices; of equal
    ones the first come first.

    Args:
        x: tensor, bool, int or float.
        k: number or one-element tensor.
        axis: int.
        largest, sorted: bool.

    Returns:
        out, indices.
    """
    return bind(_topk, (x,), (k, axis, largest, sorted))

_topk_grad = define(
    "topk_grad",
    "(Tensor x, Tensor indices, Tensor out_grad, Scalar(int) k, int axis, bool largest, "
    "bool sorted)", "Tensor(x_grad)", no_need_buffer=("x",), forward="topk"
)
def topk_grad(x, indices, out_grad, k, axis, largest, sorted):
    """Backward of :func:`topk`."""
    return bind(_topk_grad, (x, indices, out_grad), (k, axis, largest, sorted))


# -- yaml/sparse_products.yaml ---------------------------------------------------------------------
define = definer("yaml/sparse_products.yaml", family="sparse_products")

_segment_sum_csr = define(
    "segment_sum_csr", "(Tensor x, Tensor starts)", "Tensor(out)",
    infer_meta=("SegmentSumCsrInferMeta", None), backward="segment_sum_csr_grad", jvp="linear",
    dtypes=("bool", "int", "float", "complex")
)
def segment_sum_csr(x: TensorLike, starts: TensorLike) -> Tensor:
    """Row r of the result is the sum of the rows k of x with starts[r] <= k < starts[r + 1], 0
    where there are none; bools are joined by "or". starts ascend, as the crows of a CSR matrix do.

    Args:
        x, starts: tensor, bool, int, float or complex.
    """
    return bind(_segment_sum_csr, (x, starts), ())

_segment_sum_csr_grad = define(
    "segment_sum_csr_grad", "(Tensor x, Tensor starts, Tensor out_grad)", "Tensor(x_grad)",
    no_need_buffer=("x",), forward="segment_sum_csr"
)
def segment_sum_csr_grad(x, starts, out_grad):
    """Backward of :func:`segment_sum_csr`."""
    return bind(_segment_sum_csr_grad, (x, starts, out_grad), ())

_sparse_product_counts = define(
    "sparse_product_counts",
    "(Tensor x_starts, Tensor x_cols, Tensor y_starts, Tensor y_cols, int64_t columns)",
    "Tensor(out)", infer_meta=("SparseProductCountsInferMeta", None), traits=("nondifferentiable",)
)
def sparse_product_counts(
    x_starts: TensorLike, x_cols: TensorLike, y_starts: TensorLike, y_cols: TensorLike,
    columns: DimLike
) -> Tensor:
    """In how many different columns, of so many, each row of a product of two sparse matrices has
    terms: an int64 for each row.

    Args:
        x_starts, x_cols, y_starts, y_cols: tensor.
        columns: int.
    """
    return bind(_sparse_product_counts, (x_starts, x_cols, y_starts, y_cols), (columns,))

_sparse_product_columns = define(
    "sparse_product_columns",
    "(Tensor x_starts, Tensor x_cols, Tensor y_starts, Tensor y_cols, Tensor starts, "
    "int64_t columns, int64_t size)", "Tensor(out)",
    infer_meta=("SparseProductColumnsInferMeta", None), traits=("nondifferentiable",)
)
def sparse_product_columns(
    x_starts: TensorLike, x_cols: TensorLike, y_starts: TensorLike, y_cols: TensorLike,
    starts: TensorLike, columns: DimLike, size: DimLike
) -> Tensor:
    """The columns, of so many, in which the rows of a product of two sparse matrices have terms, in
    order: those of row r from starts[r] on, int64s, size in all. starts are the sums of
    sparse_product_counts.

    Args:
        x_starts, x_cols, y_starts, y_cols, starts: tensor.
        columns, size: int.
    """
    return bind(
        _sparse_product_columns, (x_starts, x_cols, y_starts, y_cols, starts), (columns, size)
    )

_sparse_product_terms = define(
    "sparse_product_terms",
    "(Tensor x, Tensor y, Tensor x_starts, Tensor x_cols, Tensor y_starts, Tensor y_cols, "
    'Tensor starts, Tensor cols, int64_t columns, str of="product")', "Tensor(out)",
    infer_meta=("SparseProductTermsInferMeta", None), backward="sparse_product_terms_grad",
    jvp="bilinear", traits=("promote(x, y)",), dtypes=("int", "float", "complex")
)
def sparse_product_terms(
    x: TensorLike, y: TensorLike, x_starts: TensorLike, x_cols: TensorLike, y_starts: TensorLike,
    y_cols: TensorLike, starts: TensorLike, cols: TensorLike, columns: DimLike, of: str = "product"
) -> Tensor:
    """Sums over the terms of a product of two sparse matrices, whose rows are at starts and cols. A
    term is a value k of the left matrix, one l of the row of the right that its column names, and
    the place m of the product in that row and column. of "product": out[m] = sum of x[k] * y[l];
    "left": out[k] = sum of x[l] * y[m]; "right": out[l] = sum of x[k] * y[m].

    Args:
        x, y: tensor, int, float or complex.
        x_starts, x_cols, y_starts, y_cols, starts, cols: tensor.
        columns: int.
        of: str.
    """
    return bind(
        _sparse_product_terms, (x, y, x_starts, x_cols, y_starts, y_cols, starts, cols),
        (columns, of)
    )

_sparse_product_terms_grad = define(
    "sparse_product_terms_grad",
    "(Tensor x, Tensor y, Tensor x_starts, Tensor x_cols, Tensor y_starts, Tensor y_cols, "
    "Tensor starts, Tensor cols, Tensor out_grad, int64_t columns, str of)",
    "Tensor(x_grad), Tensor(y_grad)", forward="sparse_product_terms"
)
def sparse_product_terms_grad(
    x, y, x_starts, x_cols, y_starts, y_cols, starts, cols, out_grad, columns, of
):
    """Backward of :func:`sparse_product_terms`."""
    return bind(
        _sparse_product_terms_grad,
        (x, y, x_starts, x_cols, y_starts, y_cols, starts, cols, out_grad), (columns, of)
    )


# -- yaml/special.yaml -----------------------------------------------------------------------------
define = definer("yaml/special.yaml", family="pointwise")

_gammaln = define(
    "gammaln", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    traits=("pointwise", "promote_float", "full_precision"), dtypes=("float",), invoke="lgamma(x)",
    inplace=(("x", "out"),)
)
def gammaln(x: TensorLike) -> Tensor:
    """Logarithm of the absolute value of the gamma function, elementwise: :func:`lgamma` by its
    other name.

    Args:
        x: tensor, float.
    """
    return bind(_gammaln, (x,), ())

def gammaln_(x: TensorLike) -> Tensor:
    """:func:`gammaln` in the memory of x, not to be used after it."""
    return bind_in_place(_gammaln, (x,), ())

_logit = define(
    "logit", "(Tensor x, float eps = 1e-6f)", "Tensor(out)",
    infer_meta=("UnchangedInferMeta", None), backward="logit_grad", jvp="pointwise",
    traits=("pointwise", "promote_float", "full_precision"), dtypes=("float",),
    inplace=(("x", "out"),)
)
def logit(x: TensorLike, eps: FloatLike = 1e-06) -> Tensor:
    """log(x / (1 - x)) of x, which is first brought into [eps, 1 - eps], elementwise; to the last
    digits near 0.5. With eps 0 it is NaN outside [0, 1]; outside [eps, 1 - eps] the slope is 0.

    Args:
        x: tensor, float.
        eps: float or one-element tensor.
    """
    return bind(_logit, (x,), (eps,))

def logit_(x: TensorLike, eps: FloatLike = 1e-06) -> Tensor:
    """:func:`logit` in the memory of x, not to be used after it."""
    return bind_in_place(_logit, (x,), (eps,))

_logit_grad = define(
    "logit_grad", "(Tensor x, Tensor out_grad, float eps)", "Tensor(x_grad)", forward="logit"
)
def logit_grad(x, out_grad, eps):
    """Backward of :func:`logit`."""
    return bind(_logit_grad, (x, out_grad), (eps,))

_i0 = define(
    "i0", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    traits=("pointwise", "promote_float", "full_precision"), dtypes=("float",),
    inplace=(("x", "out"),)
)
def i0(x: TensorLike) -> Tensor:
    """Modified Bessel function of the first kind of order 0, elementwise.

    Args:
        x: tensor, float.
    """
    return bind(_i0, (x,), ())

def i0_(x: TensorLike) -> Tensor:
    """:func:`i0` in the memory of x, not to be used after it."""
    return bind_in_place(_i0, (x,), ())

_i0e = define(
    "i0e", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    traits=("pointwise", "promote_float", "full_precision"), dtypes=("float",)
)
def i0e(x: TensorLike) -> Tensor:
    """exp(-abs(x)) * i0(x), elementwise, where the factors overflow and vanish too. The slope at 0
    is 0.

    Args:
        x: tensor, float.
    """
    return bind(_i0e, (x,), ())

_i1 = define(
    "i1", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    traits=("pointwise", "promote_float", "full_precision"), dtypes=("float",),
    inplace=(("x", "out"),)
)
def i1(x: TensorLike) -> Tensor:
    """Modified Bessel function of the first kind of order 1, elementwise.

    Args:
        x: tensor, float.
    """
    return bind(_i1, (x,), ())

def i1_(x: TensorLike) -> Tensor:
    """:func:`i1` in the memory of x, not to be used after it."""
    return bind_in_place(_i1, (x,), ())

_i1e = define(
    "i1e", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="i1e_grad", jvp="pointwise", traits=("pointwise", "promote_float", "full_precision"),
    dtypes=("float",)
)
def i1e(x: TensorLike) -> Tensor:
    """exp(-abs(x)) * i1(x), elementwise, where the factors overflow and vanish too.

    Args:
        x: tensor, float.
    """
    return bind(_i1e, (x,), ())

_i1e_grad = define("i1e_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="i1e")
def i1e_grad(x, out_grad):
    """Backward of :func:`i1e`."""
    return bind(_i1e_grad, (x, out_grad), ())

_bessel_ratio = define(
    "bessel_ratio", "(Tensor x, int n)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    backward="bessel_ratio_grad", jvp="pointwise",
    traits=("pointwise", "promote_float", "full_precision"), dtypes=("float",)
)
def bessel_ratio(x: TensorLike, n: int) -> Tensor:
    """Modified Bessel function of the first kind of order n over x ** n, elementwise; its slope is
    x times that of order n + 1.

    Args:
        x: tensor, float.
        n: int.
    """
    return bind(_bessel_ratio, (x,), (n,))

_bessel_ratio_grad = define(
    "bessel_ratio_grad", "(Tensor x, Tensor out_grad, int n)", "Tensor(x_grad)",
    forward="bessel_ratio"
)
def bessel_ratio_grad(x, out_grad, n):
    """Backward of :func:`bessel_ratio`."""
    return bind(_bessel_ratio_grad, (x, out_grad), (n,))

_scaled_bessel = define(
    "scaled_bessel", "(Tensor x, int m=0, int n=0)", "Tensor(out)",
    infer_meta=("UnchangedInferMeta", None), backward="scaled_bessel_grad", jvp="pointwise",
    traits=("pointwise", "promote_float", "full_precision"), dtypes=("float",)
)
def scaled_bessel(x: TensorLike, m: int = 0, n: int = 0) -> Tensor:
    """1 / pi times the integral of (1 - t) ** (m - 1 / 2) * (1 + t) ** (n - 1 / 2) * exp(-abs(x) *
    (1 - t)) over -1 < t < 1, elementwise: i0e for m = n = 0, and i1e over x for m = n = 1. Its
    slope is that of m + 1, with the sign of -x.

    Args:
        x: tensor, float.
        m, n: int.
    """
    return bind(_scaled_bessel, (x,), (m, n))

_scaled_bessel_grad = define(
    "scaled_bessel_grad", "(Tensor x, Tensor out_grad, int m, int n)", "Tensor(x_grad)",
    forward="scaled_bessel"
)
def scaled_bessel_grad(x, out_grad, m, n):
    """Backward of :func:`scaled_bessel`."""
    return bind(_scaled_bessel_grad, (x, out_grad), (m, n))

_gammaincc = define(
    "gammaincc", "(Tensor x, Tensor y)", "Tensor(out)", infer_meta=("ElementwiseInferMeta", None),
    traits=("promote_float", "full_precision"), dtypes=("float",), inplace=(("x", "out"),)
)
def gammaincc(x: TensorLike, y: TensorLike) -> Tensor:
    """Regularised upper incomplete gamma function, elementwise: 1 / gamma(x) times the integral of
    t ** (x - 1) * exp(-t) from y on, for x and y of 0 and more, NaN below. It is computed in
    float64, and right to 12 digits down to 1e-290. As in Paddle it has a derivative in y alone.

    Args:
        x, y: tensor, float.
    """
    return bind(_gammaincc, (x, y), ())

def gammaincc_(x: TensorLike, y: TensorLike) -> Tensor:
    """:func:`gammaincc` in the memory of x, not to be used after it."""
    return bind_in_place(_gammaincc, (x, y), ())

_gamma_density = define(
    "gamma_density", "(Tensor x, Tensor y)", "Tensor(out)",
    infer_meta=("ElementwiseInferMeta", None), backward="gamma_density_grad",
    traits=("promote_float", "full_precision"), dtypes=("float",)
)
def gamma_density(x: TensorLike, y: TensorLike) -> Tensor:
    """Density at y of a gamma variable of shape x, elementwise: y ** (x - 1) * exp(-y) / gamma(x),
    the slope of gammaincc in y with another sign.

    Args:
        x, y: tensor, float.
    """
    return bind(_gamma_density, (x, y), ())

_gamma_density_grad = define(
    "gamma_density_grad", "(Tensor x, Tensor y, Tensor out, Tensor out_grad)",
    "Tensor(x_grad), Tensor(y_grad)", forward="gamma_density"
)
def gamma_density_grad(x, y, out, out_grad):
    """Backward of :func:`gamma_density`."""
    return bind(_gamma_density_grad, (x, y, out, out_grad), ())


# -- yaml/spectral.yaml ----------------------------------------------------------------------------
define = definer("yaml/spectral.yaml", family="linalg")

_qr = define(
    "qr", '(Tensor x, str mode="reduced")', "Tensor(q), Tensor(r)",
    infer_meta=("QrInferMeta", None), backward="qr_grad", traits=("promote_float", "matrices"),
    dtypes=("float32", "float64", "complex")
)
def qr(x: TensorLike, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """The factors of x = q r, of [m, n]: q has orthonormal columns, min(m, n) of them or, where
    mode is "complete", m; r is upper triangular. mode "r": q is empty. Signs are LAPACK's.
    Derivatives take the first min(m, n) columns of x as independent.

    Args:
        x: tensor, float32, float64 or complex.
        mode: str.

    Returns:
        q, r.
    """
    return bind(_qr, (x,), (mode,))

_qr_grad = define(
    "qr_grad", "(Tensor x, Tensor q, Tensor r, Tensor q_grad, Tensor r_grad, str mode)",
    "Tensor(x_grad)", forward="qr"
)
def qr_grad(x, q, r, q_grad, r_grad, mode):
    """Backward of :func:`qr`."""
    return bind(_qr_grad, (x, q, r, q_grad, r_grad), (mode,))

_svd = define(
    "svd", "(Tensor x, bool full_matrices=false)", "Tensor(u), Tensor(s), Tensor(vh)",
    infer_meta=("SvdInferMeta", None), backward="svd_grad", traits=("promote_float", "matrices"),
    dtypes=("float32", "float64", "complex")
)
def svd(x: TensorLike, full_matrices: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """The singular values s, from the largest down, and the unitary factors of x = u diag(s) vh; of
    [m, n] u has min(m, n) columns and vh as many rows, with full_matrices all m and n.

    Args:
        x: tensor, float32, float64 or complex.
        full_matrices: bool.

    Returns:
        u, s, vh.
    """
    return bind(_svd, (x,), (full_matrices,))

_svd_grad = define(
    "svd_grad",
    "(Tensor x, Tensor u, Tensor vh, Tensor s, Tensor u_grad, Tensor vh_grad, Tensor s_grad, "
    "bool full_matrices)", "Tensor(x_grad)", no_need_buffer=("x",), forward="svd"
)
def svd_grad(x, u, vh, s, u_grad, vh_grad, s_grad, full_matrices):
    """Backward of :func:`svd`."""
    return bind(_svd_grad, (x, u, vh, s, u_grad, vh_grad, s_grad), (full_matrices,))

_svdvals = define(
    "svdvals", "(Tensor x)", "Tensor(s)", backward="svdvals_grad",
    traits=("promote_float", "matrices"), dtypes=("float32", "float64", "complex")
)
def svdvals(x: TensorLike) -> Tensor:
    """The singular values of x, the roots of the eigenvalues of x^H x, from the largest down.

    Args:
        x: tensor, float32, float64 or complex.
    """
    return bind(_svdvals, (x,), ())

_svdvals_grad = define(
    "svdvals_grad", "(Tensor x, Tensor s_grad)", "Tensor(x_grad)", forward="svdvals"
)
def svdvals_grad(x, s_grad):
    """Backward of :func:`svdvals`."""
    return bind(_svdvals_grad, (x, s_grad), ())

_eigh = define(
    "eigh", '(Tensor x, str UPLO="L")', "Tensor(out_w), Tensor(out_v)",
    infer_meta=("EighInferMeta", None), backward="eigh_grad", traits=("promote_float", "matrices"),
    dtypes=("float32", "float64", "complex")
)
def eigh(x: TensorLike, UPLO: str = "L") -> tuple[Tensor, Tensor]:
    """The eigenvalues w of a Hermitian matrix, real and ascending, and its unit eigenvectors, the
    columns of v: x = v diag(w) v^H. Of x the lower triangle is read, or for UPLO "U" the upper one;
    derivatives are those on Hermitian matrices: a gradient is Hermitian.

    Args:
        x: tensor, float32, float64 or complex.
        UPLO: str.

    Returns:
        out_w, out_v.
    """
    return bind(_eigh, (x,), (UPLO,))

_eigh_grad = define(
    "eigh_grad", "(Tensor out_w, Tensor out_v, Tensor out_w_grad, Tensor out_v_grad)",
    "Tensor(x_grad)", forward="eigh"
)
def eigh_grad(out_w, out_v, out_w_grad, out_v_grad):
    """Backward of :func:`eigh`."""
    return bind(_eigh_grad, (out_w, out_v, out_w_grad, out_v_grad), ())

_eigvalsh = define(
    "eigvalsh", '(Tensor x, str uplo="L", bool is_test=false)',
    "Tensor(eigenvalues), Tensor(eigenvectors)", traits=("promote_float", "matrices"),
    dtypes=("float32", "float64", "complex")
)
def eigvalsh(x: TensorLike, uplo: str = "L", is_test: bool = False) -> tuple[Tensor, Tensor]:
    """The eigenvalues of a Hermitian matrix, ascending, and its eigenvectors, which are empty if
    is_test: see :func:`eigh`.

    Args:
        x: tensor, float32, float64 or complex.
        uplo: str.
        is_test: bool.

    Returns:
        eigenvalues, eigenvectors.
    """
    return bind(_eigvalsh, (x,), (uplo, is_test))

_eig = define(
    "eig", "(Tensor x)", "Tensor(out_w), Tensor(out_v)", infer_meta=("EigInferMeta", None),
    backward="eig_grad", traits=("promote_float", "matrices"),
    dtypes=("float32", "float64", "complex")
)
def eig(x: TensorLike) -> tuple[Tensor, Tensor]:
    """The complex eigenvalues w, in no order, and unit eigenvectors, the columns of v, of a square
    matrix: x v = v diag(w).

    Args:
        x: tensor, float32, float64 or complex.

    Returns:
        out_w, out_v.
    """
    return bind(_eig, (x,), ())

_eig_grad = define(
    "eig_grad", "(Tensor x, Tensor out_w, Tensor out_v, Tensor out_w_grad, Tensor out_v_grad)",
    "Tensor(x_grad)", no_need_buffer=("x",), forward="eig"
)
def eig_grad(x, out_w, out_v, out_w_grad, out_v_grad):
    """Backward of :func:`eig`."""
    return bind(_eig_grad, (x, out_w, out_v, out_w_grad, out_v_grad), ())

_eigvals = define(
    "eigvals", "(Tensor x)", "Tensor(out)", backward="eigvals_grad",
    traits=("promote_float", "matrices"), dtypes=("float32", "float64", "complex")
)
def eigvals(x: TensorLike) -> Tensor:
    """The complex eigenvalues of a square matrix, in no order: the w with det(x - w I) = 0.

    Args:
        x: tensor, float32, float64 or complex.
    """
    return bind(_eigvals, (x,), ())

_eigvals_grad = define(
    "eigvals_grad", "(Tensor x, Tensor out_grad)", "Tensor(x_grad)", forward="eigvals"
)
def eigvals_grad(x, out_grad):
    """Backward of :func:`eigvals`."""
    return bind(_eigvals_grad, (x, out_grad), ())

_schur = define(
    "schur", "(Tensor x)", "Tensor(t), Tensor(z)", infer_meta=("SchurInferMeta", None),
    traits=("promote_float", "matrices"), dtypes=("float32", "float64", "complex")
)
def schur(x: TensorLike) -> tuple[Tensor, Tensor]:
    """The Schur factors of a square matrix, x = z t z^H with z unitary: t is upper triangular where
    x is complex, and has its eigenvalues on the diagonal; where x is real there are blocks of 2 by
    2 on it, one for each two complex eigenvalues, which are conjugate. The order of the eigenvalues
    and the signs of z are LAPACK's.

    Args:
        x: tensor, float32, float64 or complex.

    Returns:
        t, z.
    """
    return bind(_schur, (x,), ())

_undetermined = define(
    "undetermined", "(Tensor x, Tensor mask)", "Tensor(out)",
    infer_meta=("UnchangedInferMeta", ("x",)), backward="undetermined_grad", jvp="linear",
    traits=("own_derivative",), dtypes=("float32", "float64", "complex")
)
def undetermined(x: TensorLike, mask: TensorLike) -> Tensor:
    """Where mask is true and x, [..., n, n], is not 0 but for rounding, nan; else 0. It stands in
    derivatives of vectors for what nobody can know, and counts as a linear function of x.

    Args:
        x, mask: tensor, float32, float64 or complex.
    """
    return bind(_undetermined, (x, mask), ())

_undetermined_grad = define(
    "undetermined_grad", "(Tensor x, Tensor mask, Tensor out_grad)", "Tensor(x_grad)",
    no_need_buffer=("x",), forward="undetermined"
)
def undetermined_grad(x, mask, out_grad):
    """Backward of :func:`undetermined`."""
    return bind(_undetermined_grad, (x, mask, out_grad), ())


# -- yaml/statistics.yaml --------------------------------------------------------------------------
define = definer("yaml/statistics.yaml", family="statistics")

_median = define(
    "median", '(Tensor x, IntArray axis={}, bool keepdim=true, str mode="avg")',
    "Tensor(out), Tensor(medians)", infer_meta=("MedianInferMeta", None), traits=("promote_float",),
    dtypes=("float",)
)
def median(
    x: TensorLike, axis: IntArrayLike | None = (), keepdim: bool = True, mode: str = "avg"
) -> tuple[Tensor, Tensor]:
    """Median over the axes, over all of them if none is given, NaN if one element is; and its
    places in the elements folded, in order. Of an even number it is the mean of the two in the
    middle, or the lower one in mode "min". In mode "avg" the places stand on a last axis of two.

    Args:
        x: tensor, float.
        axis: ints, a tensor of ints, or a list that mixes ints and 0-d tensors, may be None.
        keepdim: bool.
        mode: str.

    Returns:
        out, medians.
    """
    return bind(_median, (x,), (axis, keepdim, mode))

_nanmedian = define(
    "nanmedian", '(Tensor x, IntArray axis={}, bool keepdim=true, str mode="avg")',
    "Tensor(out), Tensor(medians)", infer_meta=("NanmedianInferMeta", None),
    traits=("promote_float",), dtypes=("float",)
)
def nanmedian(
    x: TensorLike, axis: IntArrayLike | None = (), keepdim: bool = True, mode: str = "avg"
) -> tuple[Tensor, Tensor]:
    """:func:`median` of the elements that are not NaN; of none it is NaN, with places -1.

    Args:
        x: tensor, float.
        axis: ints, a tensor of ints, or a list that mixes ints and 0-d tensors, may be None.
        keepdim: bool.
        mode: str.

    Returns:
        out, medians.
    """
    return bind(_nanmedian, (x,), (axis, keepdim, mode))

_kthvalue = define(
    "kthvalue", "(Tensor x, int k=1, int axis=-1, bool keepdim=false)",
    "Tensor(out), Tensor(indices)", infer_meta=("KthvalueInferMeta", None), traits=("promote",),
    dtypes=("bool", "int", "float")
)
def kthvalue(
    x: TensorLike, k: int = 1, axis: int = -1, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """The k-th smallest element along axis, and its int64 index; of equal ones the first comes
    first.

    Args:
        x: tensor, bool, int or float.
        k, axis: int.
        keepdim: bool.

    Returns:
        out, indices.
    """
    return bind(_kthvalue, (x,), (k, axis, keepdim))

_mode = define(
    "mode", "(Tensor x, int axis=-1, bool keepdim=false)", "Tensor(out), Tensor(indices)",
    infer_meta=("ModeInferMeta", None), traits=("promote",), dtypes=("bool", "int", "float")
)
def mode(x: TensorLike, axis: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The element that is most often along axis, the smallest of several, and the int64 index of
    its last one.

    Args:
        x: tensor, bool, int or float.
        axis: int.
        keepdim: bool.

    Returns:
        out, indices.
    """
    return bind(_mode, (x,), (axis, keepdim))

_max_with_index = define(
    "max_with_index", "(Tensor x, Scalar(int64_t) dim, bool keepdim=false, bool flatten=false)",
    "Tensor(out), Tensor(indices)", infer_meta=("MinMaxWithIndexInferMeta", None),
    traits=("promote",), dtypes=("bool", "int", "float")
)
def max_with_index(
    x: TensorLike, dim: ScalarLike, keepdim: bool = False, flatten: bool = False
) -> tuple[Tensor, Tensor]:
    """The largest element along dim, or of all if flatten, and its int64 index, the first of equal
    ones, the first NaN if there is one.

    Args:
        x: tensor, bool, int or float.
        dim: number or one-element tensor.
        keepdim, flatten: bool.

    Returns:
        out, indices.
    """
    return bind(_max_with_index, (x,), (dim, keepdim, flatten))

_min_with_index = define(
    "min_with_index", "(Tensor x, Scalar(int64_t) dim, bool keepdim=false, bool flatten=false)",
    "Tensor(out), Tensor(indices)", infer_meta=("MinMaxWithIndexInferMeta", None),
    traits=("promote",), dtypes=("bool", "int", "float")
)
def min_with_index(
    x: TensorLike, dim: ScalarLike, keepdim: bool = False, flatten: bool = False
) -> tuple[Tensor, Tensor]:
    """The smallest element along dim, or of all if flatten, and its int64 index, the first of equal
    ones, the first NaN if there is one.

    Args:
        x: tensor, bool, int or float.
        dim: number or one-element tensor.
        keepdim, flatten: bool.

    Returns:
        out, indices.
    """
    return bind(_min_with_index, (x,), (dim, keepdim, flatten))

_searchsorted = define(
    "searchsorted",
    "(Tensor sorted_sequence, Tensor values, bool out_int32=false, bool right=false)",
    "Tensor(out)", infer_meta=("SearchsortedInferMeta", None),
    traits=("promote", "nondifferentiable"), dtypes=("int", "float")
)
def searchsorted(
    sorted_sequence: TensorLike, values: TensorLike, out_int32: bool = False, right: bool = False
) -> Tensor:
    """How many elements of a sorted row are less than each value, or not greater if right: where it
    belongs. The sequence has one axis, or the axes of values, whose rows belong to its rows.

    Args:
        sorted_sequence, values: tensor, int or float.
        out_int32, right: bool.
    """
    return bind(_searchsorted, (sorted_sequence, values), (out_int32, right))

_histogram = define(
    "histogram", "(Tensor input, Tensor weight, int64_t bins=100, float min=0.0, float max=0.0, "
    "bool density=false)", "Tensor(out)", infer_meta=("HistogramInferMeta", None),
    traits=("promote(input)",), dtypes=("int", "float"), optional=("weight",)
)
def histogram(
    input: TensorLike, weight: TensorLike | None = None, bins: DimLike = 100, min: FloatLike = 0.0,
    max: FloatLike = 0.0, density: bool = False
) -> Tensor:
    """How many elements of input lie in each of bins equal parts of [min, max], where both ends
    count; equal bounds stand for the smallest and largest element. With a weight for each element,
    or as a density, whose integral is 1, the result is float32, else int64.

    Args:
        input: tensor, int or float.
        weight: tensor, may be None.
        bins: int.
        min, max: float or one-element tensor.
        density: bool.
    """
    return bind(_histogram, (input, weight), (bins, min, max, density))

_nansum = define(
    "nansum",
    "(Tensor x, IntArray axis={}, DataType dtype=DataType::UNDEFINED, bool keepdim=false)",
    "Tensor(out)", infer_meta=("SumInferMeta", None), traits=("full_precision",),
    dtypes=("bool", "int", "float", "complex")
)
def nansum(
    x: TensorLike, axis: IntArrayLike | None = (), dtype: DTypeLike | None = None,
    keepdim: bool = False
) -> Tensor:
    """Sum over the axes, over all of them if none is given, where NaN counts as 0.

    Args:
        x: tensor, bool, int, float or complex.
        axis: ints, a tensor of ints, or a list that mixes ints and 0-d tensors, may be None.
        dtype: dtype, may be None.
        keepdim: bool.
    """
    return bind(_nansum, (x,), (axis, dtype, keepdim))

_variance = define(
    "variance", "(Tensor x, int64_t[] axis={}, bool keepdim=false)", "Tensor(out)",
    infer_meta=("VarianceInferMeta", None), traits=("promote_float", "full_precision"),
    dtypes=("float",)
)
def variance(x: TensorLike, axis: IntArrayLike | None = (), keepdim: bool = False) -> Tensor:
    """Mean of (x - mean) ** 2 over the axes, over all of them if none is given.

    Args:
        x: tensor, float.
        axis: sequence of ints, may be None.
        keepdim: bool.
    """
    return bind(_variance, (x,), (axis, keepdim))

_frobenius_norm = define(
    "frobenius_norm", "(Tensor x, IntArray axis, bool keep_dim, bool reduce_all)", "Tensor(out)",
    infer_meta=("FrobeniusNormInferMeta", None), traits=("promote_float", "full_precision"),
    dtypes=("float",)
)
def frobenius_norm(x: TensorLike, axis: IntArrayLike, keep_dim: bool, reduce_all: bool) -> Tensor:
    """sqrt(sum(x ** 2)) over the axes, over all of them if axis is empty or reduce_all; the
    gradient at 0 is 0.

    Args:
        x: tensor, float.
        axis: ints, a tensor of ints, or a list that mixes ints and 0-d tensors.
        keep_dim, reduce_all: bool.
    """
    return bind(_frobenius_norm, (x,), (axis, keep_dim, reduce_all))

_l1_norm = define(
    "l1_norm", "(Tensor x)", "Tensor(out)", traits=("promote_float", "full_precision"),
    dtypes=("float",), inplace=(("x", "out"),)
)
def l1_norm(x: TensorLike) -> Tensor:
    """sum(abs(x)) of all elements, a 0-d tensor.

    Args:
        x: tensor, float.
    """
    return bind(_l1_norm, (x,), ())

def l1_norm_(x: TensorLike) -> Tensor:
    """:func:`l1_norm` in the memory of x, not to be used after it."""
    return bind_in_place(_l1_norm, (x,), ())

_clip_by_norm = define(
    "clip_by_norm", "(Tensor x, float max_norm)", "Tensor(out)",
    infer_meta=("ClipByNormInferMeta", None), traits=("promote_float", "full_precision"),
    dtypes=("float",), kernel={"func": (("clip_by_norm", ("dense",), ("dense",)),
    ("clip_by_norm_sr", ("selected_rows",), ("selected_rows",)))}
)
def clip_by_norm(x: TensorLike, max_norm: FloatLike) -> Tensor:
    """x, made smaller by one factor where the square root of the sum of its squares is above
    max_norm.

    Args:
        x: tensor, float.
        max_norm: float or one-element tensor.
    """
    return bind(_clip_by_norm, (x,), (max_norm,))


# -- yaml/transformation.yaml ----------------------------------------------------------------------
define = definer("yaml/transformation.yaml", family="transformation")

_call = define(
    "call", "(Tensor[] operands, Graph graph)", "Tensor[](out)", infer_meta=("CallInferMeta", None),
    traits=("calls_graph",)
)
def call(operands: Sequence[TensorLike], graph: Graph) -> tuple[Tensor, ...]:
    """The outputs of the graph on the operands. Eagerly, and under grad, jvp and vmap, the graph
    runs as one compiled program; inside another graph it is written out.

    Args:
        operands: sequence of tensors.
        graph: graph.
    """
    return bind(_call, (operands,), (graph,))

_checkpoint = define(
    "checkpoint", "(Tensor[] operands, Graph graph, Object policy)", "Tensor[](out)",
    infer_meta=("CallInferMeta", ("operands", "graph")), traits=("calls_graph",)
)
def checkpoint(operands: Sequence[TensorLike], graph: Graph, policy: object) -> tuple[Tensor, ...]:
    """The outputs of the graph on the operands. Reverse mode keeps the operands, and the results of
    equations that policy(op, *metas, **attrs) answers True for, and computes all else again.

    Args:
        operands: sequence of tensors.
        graph: graph.
        policy: hashable Python object.
    """
    return bind(_checkpoint, (operands,), (graph, policy))

_custom_vjp_call = define(
    "custom_vjp_call", "(Tensor[] operands, Graph graph, Object rule)", "Tensor[](out)",
    infer_meta=("CallInferMeta", ("operands", "graph")), traits=("calls_graph", "own_derivative")
)
def custom_vjp_call(
    operands: Sequence[TensorLike], graph: Graph, rule: object
) -> tuple[Tensor, ...]:
    """The outputs of the graph on the operands, with a backward of the user's own.

    Args:
        operands: sequence of tensors.
        graph: graph.
        rule: hashable Python object.
    """
    return bind(_custom_vjp_call, (operands,), (graph, rule))

_custom_jvp_call = define(
    "custom_jvp_call", "(Tensor[] operands, Graph graph, Object rule)", "Tensor[](out)",
    infer_meta=("CallInferMeta", ("operands", "graph")), traits=("calls_graph", "own_derivative")
)
def custom_jvp_call(
    operands: Sequence[TensorLike], graph: Graph, rule: object
) -> tuple[Tensor, ...]:
    """The outputs of the graph on the operands, with a tangent of the user's own.

    Args:
        operands: sequence of tensors.
        graph: graph.
        rule: hashable Python object.
    """
    return bind(_custom_jvp_call, (operands,), (graph, rule))

_optimization_barrier = define(
    "optimization_barrier", "(Tensor[] x)", "Tensor[](out)", infer_meta=("SameListInferMeta", None),
    traits=("stores",)
)
def optimization_barrier(x: Sequence[TensorLike]) -> tuple[Tensor, ...]:
    """The tensors themselves. What is computed from them is never merged with what is computed from
    those that went in.

    Args:
        x: sequence of tensors.
    """
    return bind(_optimization_barrier, (x,), ())

_stop_gradient = define(
    "stop_gradient", "(Tensor x)", "Tensor(out)", infer_meta=("UnchangedInferMeta", None),
    traits=("nondifferentiable", "own_derivative")
)
def stop_gradient(x: TensorLike) -> Tensor:
    """x, with a derivative of zero.

    Args:
        x: tensor.
    """
    return bind(_stop_gradient, (x,), ())

_checkpoint_name = define(
    "checkpoint_name", "(Tensor x, str name)", "Tensor(out)",
    infer_meta=("UnchangedInferMeta", ("x",)), backward="checkpoint_name_grad", jvp="linear"
)
def checkpoint_name(x: TensorLike, name: str) -> Tensor:
    """x, under a name by which a policy of phix.checkpoint can say that it is to be kept.

    Args:
        x: tensor.
        name: str.
    """
    return bind(_checkpoint_name, (x,), (name,))

_checkpoint_name_grad = define(
    "checkpoint_name_grad", "(Tensor out_grad)", "Tensor(x_grad)", forward="checkpoint_name"
)
def checkpoint_name_grad(out_grad):
    """Backward of :func:`checkpoint_name`."""
    return bind(_checkpoint_name_grad, (out_grad,), ())

_expect_sizes = define(
    "expect_sizes", "(Tensor x, IntArray from_zero, str refusal)", "Tensor(out)",
    infer_meta=("ExpectSizesInferMeta", None), backward="expect_sizes_grad", jvp="linear"
)
def expect_sizes(x: TensorLike, from_zero: IntArrayLike, refusal: str) -> Tensor:
    """x, where none of the numbers from_zero, which are computed from unknown dims, is negative;
    else a ShapeError, the text of which is the refusal. It computes nothing.

    Args:
        x: tensor.
        from_zero: ints, a tensor of ints, or a list that mixes ints and 0-d tensors.
        refusal: str.
    """
    return bind(_expect_sizes, (x,), (from_zero, refusal))

_expect_sizes_grad = define(
    "expect_sizes_grad", "(Tensor out_grad, IntArray from_zero, str refusal)", "Tensor(x_grad)",
    infer_meta=("ExpectSizesInferMeta", None), forward="expect_sizes"
)
def expect_sizes_grad(out_grad, from_zero, refusal):
    """Backward of :func:`expect_sizes`."""
    return bind(_expect_sizes_grad, (out_grad,), (from_zero, refusal))

_expect_call = define(
    "expect_call", "(Graph call)", "Tensor(done)", infer_meta=("ExpectCallInferMeta", None),
    traits=("nondifferentiable", "asks")
)
def expect_call(call: Graph) -> Tensor:
    """0, where the call that the graph holds fits the sizes of its inputs; else the error of that
    call. It computes nothing: graphs hold it in place of calls whose results nobody uses.

    Args:
        call: graph.
    """
    return bind(_expect_call, (), (call,))

_all_gather = define(
    "all_gather", "(Tensor x, str axis_name, int64_t axis_size=-1, int axis=0)", "Tensor(out)",
    infer_meta=("AllGatherInferMeta", ("x", "axis_size", "axis")), jvp="linear",
    traits=("collective", "uniform")
)
def all_gather(x: TensorLike, axis_name: str, axis_size: DimLike = -1, axis: int = 0) -> Tensor:
    """The values of all lanes, stacked along axis; every lane has the same result.

    Args:
        x: tensor.
        axis_name: str.
        axis_size, axis: int.
    """
    return bind(_all_gather, (x,), (axis_name, axis_size, axis))

_psum_scatter = define(
    "psum_scatter", "(Tensor x, str axis_name, int64_t axis_size=-1, int axis=0)", "Tensor(out)",
    infer_meta=("PsumScatterInferMeta", ("x", "axis_size", "axis")), jvp="linear",
    traits=("collective",)
)
def psum_scatter(x: TensorLike, axis_name: str, axis_size: DimLike = -1, axis: int = 0) -> Tensor:
    """Lane i has the sum over all lanes of row i of x along axis, whose size is that of the lanes.

    Args:
        x: tensor.
        axis_name: str.
        axis_size, axis: int.
    """
    return bind(_psum_scatter, (x,), (axis_name, axis_size, axis))

_psum = define(
    "psum", "(Tensor x, str axis_name)", "Tensor(out)", infer_meta=("UnchangedInferMeta", ("x",)),
    jvp="linear", traits=("collective", "uniform")
)
def psum(x: TensorLike, axis_name: str) -> Tensor:
    """The sum of x over the lanes; every lane has the same result.

    Args:
        x: tensor.
        axis_name: str.
    """
    return bind(_psum, (x,), (axis_name,))

_ppermute = define(
    "ppermute", "(Tensor x, str axis_name, int[] sources, int[] targets)", "Tensor(out)",
    infer_meta=("UnchangedInferMeta", ("x",)), backward="ppermute_grad", jvp="linear",
    traits=("collective",)
)
def ppermute(x: TensorLike, axis_name: str, sources: IntArrayLike, targets: IntArrayLike) -> Tensor:
    """Lane targets[k] has the x of lane sources[k]; a lane that is no target has zeros.

    Args:
        x: tensor.
        axis_name: str.
        sources, targets: sequence of ints.
    """
    return bind(_ppermute, (x,), (axis_name, sources, targets))

_ppermute_grad = define(
    "ppermute_grad", "(Tensor out_grad, str axis_name, int[] sources, int[] targets)",
    "Tensor(x_grad)", invoke="ppermute(out_grad, axis_name, targets, sources)", forward="ppermute"
)
def ppermute_grad(out_grad, axis_name, sources, targets):
    """Backward of :func:`ppermute`."""
    return bind(_ppermute_grad, (out_grad,), (axis_name, sources, targets))

_all_to_all = define(
    "all_to_all", "(Tensor x, str axis_name, int split_axis, int concat_axis)", "Tensor(out)",
    infer_meta=("AllToAllInferMeta", ("x", "split_axis", "concat_axis")),
    backward="all_to_all_grad", jvp="linear", traits=("collective",)
)
def all_to_all(x: TensorLike, axis_name: str, split_axis: int, concat_axis: int) -> Tensor:
    """Lane i has row i along split_axis of every lane's x, stacked at concat_axis; split_axis,
    whose size is the number of lanes, goes.

    Args:
        x: tensor.
        axis_name: str.
        split_axis, concat_axis: int.
    """
    return bind(_all_to_all, (x,), (axis_name, split_axis, concat_axis))

_all_to_all_grad = define(
    "all_to_all_grad", "(Tensor out_grad, str axis_name, int split_axis, int concat_axis)",
    "Tensor(x_grad)", invoke="all_to_all(out_grad, axis_name, concat_axis, split_axis)",
    forward="all_to_all"
)
def all_to_all_grad(out_grad, axis_name, split_axis, concat_axis):
    """Backward of :func:`all_to_all`."""
    return bind(_all_to_all_grad, (out_grad,), (axis_name, split_axis, concat_axis))

_axis_index = define(
    "axis_index", "(str axis_name)", "Tensor(out)", infer_meta=("AxisIndexInferMeta", None),
    traits=("collective", "local", "nondifferentiable")
)
def axis_index(axis_name: str) -> Tensor:
    """The number of the lane, an int64.

    Args:
        axis_name: str.
    """
    return bind(_axis_index, (), (axis_name,))

_pvary = define(
    "pvary", "(Tensor x, str axis_name)", "Tensor(out)", infer_meta=("UnchangedInferMeta", ("x",)),
    backward="pvary_grad", jvp="linear", traits=("collective", "local")
)
def pvary(x: TensorLike, axis_name: str) -> Tensor:
    """x, a value of each lane's own from here on: derivatives with respect to it are not summed
    over the axis.

    Args:
        x: tensor.
        axis_name: str.
    """
    return bind(_pvary, (x,), (axis_name,))

_pvary_grad = define("pvary_grad", "(Tensor out_grad)", "Tensor(x_grad)", forward="pvary")
def pvary_grad(out_grad):
    """Backward of :func:`pvary`."""
    return bind(_pvary_grad, (out_grad,), ())

_rank_step = define(
    "rank_step", "(Tensor x, Tensor counts, Object group, str kind, IntArray detail)",
    "Tensor(out)", infer_meta=("RankStepInferMeta", None), jvp="linear", traits=("side_effect",),
    optional=("counts",)
)
def rank_step(
    x: TensorLike, counts: TensorLike | None, group: object, kind: str, detail: IntArrayLike
) -> Tensor:
    """What the ranks of the group give each other of their x: kind sum, gather, own, scatter, rows,
    exchange, permute, index or ragged; detail has the axes, or who sends to whom, or the rows of
    the result, where counts are the rows for each rank.

    Args:
        x: tensor.
        counts: tensor, may be None.
        group: hashable Python object.
        kind: str.
        detail: ints, a tensor of ints, or a list that mixes ints and 0-d tensors.
    """
    return bind(_rank_step, (x, counts), (group, kind, detail))

_rank_vary = define(
    "rank_vary", "(Tensor x, Object group)", "Tensor(out)",
    infer_meta=("UnchangedInferMeta", ("x",)), jvp="linear"
)
def rank_vary(x: TensorLike, group: object) -> Tensor:
    """x, the same on all ranks of the group, where each goes on with it by itself; cotangents of
    all ranks are summed.

    Args:
        x: tensor.
        group: hashable Python object.
    """
    return bind(_rank_vary, (x,), (group,))

_pure_callback = define(
    "pure_callback",
    "(Tensor[] operands, Object function, IntArray dims, int[] ranks, str[] dtypes, "
    'str vmap_method="")', "Tensor[](out)", infer_meta=("PureCallbackInferMeta", None)
)
def pure_callback(
    operands: Sequence[TensorLike], function: object, dims: IntArrayLike, ranks: IntArrayLike,
    dtypes: Sequence[str], vmap_method: str = ""
) -> tuple[Tensor, ...]:
    """The arrays that function([arrays], [shapes of the results]) gives. The dims of all results
    stand in one list, ranks says how many are whose.

    Args:
        operands: sequence of tensors.
        function: hashable Python object.
        dims: ints, a tensor of ints, or a list that mixes ints and 0-d tensors.
        ranks: sequence of ints.
        dtypes: sequence of strs.
        vmap_method: str.
    """
    return bind(_pure_callback, (operands,), (function, dims, ranks, dtypes, vmap_method))

_debug_callback = define(
    "debug_callback", "(Tensor[] operands, Object function)", "Tensor(done)",
    infer_meta=("DebugCallbackInferMeta", None), traits=("side_effect", "nondifferentiable")
)
def debug_callback(operands: Sequence[TensorLike], function: object) -> Tensor:
    """Calls function([arrays]) for its effect, in the order of the program; done is 0.

    Args:
        operands: sequence of tensors.
        function: hashable Python object.
    """
    return bind(_debug_callback, (operands,), (function,))


# -- yaml/views.yaml -------------------------------------------------------------------------------
define = definer("yaml/views.yaml", family="views")

_as_real = define(
    "as_real", "(Tensor x)", "Tensor(out)", infer_meta=("AsRealInferMeta", None),
    traits=("promote",), dtypes=("complex",)
)
def as_real(x: TensorLike) -> Tensor:
    """The real and imaginary parts of x, side by side on a new last axis of 2.

    Args:
        x: tensor, complex.
    """
    return bind(_as_real, (x,), ())

_as_complex = define(
    "as_complex", "(Tensor x)", "Tensor(out)", infer_meta=("AsComplexInferMeta", None),
    traits=("promote",), dtypes=("float32", "float64")
)
def as_complex(x: TensorLike) -> Tensor:
    """x[..., 0] + 1j * x[..., 1]: the last axis holds real and imaginary parts.

    Args:
        x: tensor, float32 or float64.
    """
    return bind(_as_complex, (x,), ())

_bitcast = define(
    "bitcast", "(Tensor x, DataType dtype)", "Tensor(out)", infer_meta=("BitcastInferMeta", None),
    traits=("pointwise", "nondifferentiable", "full_precision", "stores")
)
def bitcast(x: TensorLike, dtype: DTypeLike) -> Tensor:
    """The bits of each element read as another dtype of that width, 32 or 64 bits, or uint8 and a
    dtype of storage; view_dtype reads any as any.

    Args:
        x: tensor.
        dtype: dtype.
    """
    return bind(_bitcast, (x,), (dtype,))

_view_dtype = define(
    "view_dtype", "(Tensor input, DataType dtype)", "Tensor(out)",
    infer_meta=("ViewDtypeInferMeta", None), traits=("full_precision",)
)
def view_dtype(input: TensorLike, dtype: DTypeLike) -> Tensor:
    """The memory of input read as dtype: the last axis grows or shrinks by the quotient of the
    widths. A gradient passes between a complex dtype and that of its parts; through bits it is 0.

    Args:
        input: tensor.
        dtype: dtype.
    """
    return bind(_view_dtype, (input,), (dtype,))

_view_shape = define(
    "view_shape", "(Tensor input, int64_t[] dims={})", "Tensor(out)",
    infer_meta=("ViewShapeInferMeta", None), view=(("input", "out"),)
)
def view_shape(input: TensorLike, dims: IntArrayLike | None = ()) -> Tensor:
    """The elements of input, in order, in the shape dims, of which one may be -1; reshape.

    Args:
        input: tensor.
        dims: sequence of ints, may be None.
    """
    return bind(_view_shape, (input,), (dims,))

_view_slice = define(
    "view_slice", "(Tensor input, int64_t begin_idx, int64_t end_idx)", "Tensor(out)",
    infer_meta=("ViewSliceInferMeta", None), view=(("input", "out"),)
)
def view_slice(input: TensorLike, begin_idx: DimLike, end_idx: DimLike) -> Tensor:
    """The rows of input from begin_idx up to end_idx, both from 0.

    Args:
        input: tensor.
        begin_idx, end_idx: int.
    """
    return bind(_view_slice, (input,), (begin_idx, end_idx))

_as_strided = define(
    "as_strided", "(Tensor input, int64_t[] dims={}, int64_t[] stride={}, int64_t offset=0)",
    "Tensor(out)", infer_meta=("AsStridedInferMeta", None)
)
def as_strided(
    input: TensorLike, dims: IntArrayLike | None = (), stride: IntArrayLike | None = (),
    offset: DimLike = 0
) -> Tensor:
    """out[i, j, ...] is element offset + i * stride[0] + j * stride[1] + ... of input in C order.
    The strides count elements, offset counts bytes, as in Paddle. Gradients of overlaps add up.

    Args:
        input: tensor.
        dims, stride: sequence of ints, may be None.
        offset: int.
    """
    return bind(_as_strided, (input,), (dims, stride, offset))

_set = define(
    "set", "(Tensor x, Tensor source, int64_t[] dims={}, int64_t[] stride={}, int64_t offset=0)",
    "Tensor(out)", infer_meta=("SetInferMeta", None), inplace=(("x", "out"),)
)
def set(
    x: TensorLike, source: TensorLike, dims: IntArrayLike | None = (),
    stride: IntArrayLike | None = (), offset: DimLike = 0
) -> Tensor:
    """as_strided(source, dims, stride, offset) in place of x, which has its dtype.

    Args:
        x, source: tensor.
        dims, stride: sequence of ints, may be None.
        offset: int.
    """
    return bind(_set, (x, source), (dims, stride, offset))

def set_(
    x: TensorLike, source: TensorLike, dims: IntArrayLike | None = (),
    stride: IntArrayLike | None = (), offset: DimLike = 0
) -> Tensor:
    """:func:`set` in the memory of x, not to be used after it."""
    return bind_in_place(_set, (x, source), (dims, stride, offset))

_index_select_strided = define(
    "index_select_strided", "(Tensor x, int64_t index, int axis=0)", "Tensor(out)",
    infer_meta=("IndexSelectStridedInferMeta", None), view=(("x", "out"),)
)
def index_select_strided(x: TensorLike, index: DimLike, axis: int = 0) -> Tensor:
    """The slice of x at index along axis, without that axis.

    Args:
        x: tensor.
        index, axis: int.
    """
    return bind(_index_select_strided, (x,), (index, axis))


# -- yaml/weight_only.yaml -------------------------------------------------------------------------
define = definer("yaml/weight_only.yaml", family="quantisation")

_weight_quantize = define(
    "weight_quantize",
    '(Tensor x, str algo = "weight_only_int8", int arch = 80, int group_size = -1)',
    "Tensor(out), Tensor(scale)", traits=("promote_float(x)", "full_precision"), dtypes=("float",)
)
def weight_quantize(
    x: TensorLike, algo: str = "weight_only_int8", arch: int = 80, group_size: int = -1
) -> tuple[Tensor, Tensor]:
    """Weights [k, n] as int8 with a scale for each column, max(abs(column)) / 127, in scale [n];
    out is [n, k]. With group_size it is one for each column of each group of so many rows, in scale
    [k / group_size, n]. For weight_only_int4 the largest int is 7, and out is [n / 2, k], two
    columns a byte, the first one in the low bits. Algorithms are weight_only_int8, weight_only_int4
    and llm.int8, whose scale is float32. arch says nothing: rows and columns are in order, where
    PHI has the order of a graphics card.

    Args:
        x: tensor, float.
        algo: str.
        arch, group_size: int.

    Returns:
        out, scale.
    """
    return bind(_weight_quantize, (x,), (algo, arch, group_size))

_weight_dequantize = define(
    "weight_dequantize", '(Tensor x, Tensor scale, str algo = "weight_only_int8", '
    "DataType out_dtype = DataType::FLOAT16, int group_size = -1)", "Tensor(out)"
)
def weight_dequantize(
    x: TensorLike, scale: TensorLike, algo: str = "weight_only_int8",
    out_dtype: DTypeLike = "float16", group_size: int = -1
) -> Tensor:
    """The weights [k, n] that :func:`weight_quantize` made x and scale of, in out_dtype.

    Args:
        x, scale: tensor.
        algo: str.
        out_dtype: dtype.
        group_size: int.
    """
    return bind(_weight_dequantize, (x, scale), (algo, out_dtype, group_size))

_weight_only_linear = define(
    "weight_only_linear",
    "(Tensor x, Tensor weight, Tensor bias, Tensor weight_scale, str weight_dtype, int arch = 80, "
    "int group_size = -1)", "Tensor(out)", traits=("promote_float(x)", "full_precision"),
    dtypes=("float",), optional=("bias",)
)
def weight_only_linear(
    x: TensorLike, weight: TensorLike, bias: TensorLike | None, weight_scale: TensorLike,
    weight_dtype: str, arch: int = 80, group_size: int = -1
) -> Tensor:
    """x @ W + bias over the last axis of x, for the weights W [k, n] that :func:`weight_quantize`
    made weight and weight_scale of; weight_dtype is int8 or int4.

    Args:
        x: tensor, float.
        weight: tensor.
        bias: tensor, may be None.
        weight_scale: tensor.
        weight_dtype: str.
        arch, group_size: int.
    """
    return bind(
        _weight_only_linear, (x, weight, bias, weight_scale), (weight_dtype, arch, group_size)
    )

_llm_int8_linear = define(
    "llm_int8_linear",
    "(Tensor x, Tensor weight, Tensor bias, Tensor weight_scale, float threshold=6.0)",
    "Tensor(out)", traits=("promote_float(x)", "full_precision"), dtypes=("float",),
    optional=("bias",)
)
def llm_int8_linear(
    x: TensorLike, weight: TensorLike, bias: TensorLike | None, weight_scale: TensorLike,
    threshold: FloatLike = 6.0
) -> Tensor:
    """x @ W + bias over the last axis of x, for weights W [k, n] quantised by llm.int8: columns of
    x with an element of a size above the threshold as they are, the others with each row as int8.

    Args:
        x: tensor, float.
        weight: tensor.
        bias: tensor, may be None.
        weight_scale: tensor.
        threshold: float or one-element tensor.
    """
    return bind(_llm_int8_linear, (x, weight, bias, weight_scale), (threshold,))

_lookup_table_dequant = define(
    "lookup_table_dequant", "(Tensor w, Tensor ids, int64_t padding_idx = -1)", "Tensor(out)",
    traits=("nondifferentiable", "full_precision")
)
def lookup_table_dequant(w: TensorLike, ids: TensorLike, padding_idx: DimLike = -1) -> Tensor:
    """Rows of a table of bytes: row r of w [rows, 2 + n], of float32, is a least number a, a
    largest b, and n floats of four bytes q each; out is a + (b - a) q / 256 for the rows ids [...,
    1], [..., 4 n]. The rows of ids that are padding_idx are 0; -1 is for none. Without padding_idx
    an id that is no row raises where the call runs at once, and compiled programs take the nearest.

    Args:
        w, ids: tensor.
        padding_idx: int.
    """
    return bind(_lookup_table_dequant, (w, ids), (padding_idx,))


# -- yaml/windows.yaml -----------------------------------------------------------------------------
define = definer("yaml/windows.yaml", family="windows")

_unfold = define(
    "unfold", "(Tensor x, int[] kernel_sizes, int[] strides, int[] paddings, int[] dilations)",
    "Tensor(out)", backward="unfold_grad", jvp="linear"
)
def unfold(
    x: TensorLike, kernel_sizes: IntArrayLike, strides: IntArrayLike, paddings: IntArrayLike,
    dilations: IntArrayLike
) -> Tensor:
    """The windows of images [n, c, h, w] as columns, [n, c * taps, windows]; off the images are
    zeros. paddings: (height, width) or (top, left, bottom, right).

    Args:
        x: tensor.
        kernel_sizes, strides, paddings, dilations: sequence of ints.
    """
    return bind(_unfold, (x,), (kernel_sizes, strides, paddings, dilations))

_unfold_grad = define(
    "unfold_grad", "(Tensor x, Tensor out_grad, int[] kernel_sizes, int[] strides, int[] paddings, "
    "int[] dilations)", "Tensor(x_grad)", no_need_buffer=("x",), forward="unfold"
)
def unfold_grad(x, out_grad, kernel_sizes, strides, paddings, dilations):
    """Backward of :func:`unfold`."""
    return bind(_unfold_grad, (x, out_grad), (kernel_sizes, strides, paddings, dilations))

_fold = define(
    "fold", "(Tensor x, int[] output_sizes, int[] kernel_sizes, int[] strides, int[] paddings, "
    "int[] dilations)", "Tensor(out)", backward="fold_grad", jvp="linear"
)
def fold(
    x: TensorLike, output_sizes: IntArrayLike, kernel_sizes: IntArrayLike, strides: IntArrayLike,
    paddings: IntArrayLike, dilations: IntArrayLike
) -> Tensor:
    """Images [n, c, *output_sizes] of the columns that :func:`unfold` makes of such, [n, c * taps,
    windows]: what lies at one place is added up.

    Args:
        x: tensor.
        output_sizes, kernel_sizes, strides, paddings, dilations: sequence of ints.
    """
    return bind(_fold, (x,), (output_sizes, kernel_sizes, strides, paddings, dilations))

_fold_grad = define(
    "fold_grad",
    "(Tensor x, Tensor out_grad, int[] output_sizes, int[] kernel_sizes, int[] strides, "
    "int[] paddings, int[] dilations)", "Tensor(x_grad)", no_need_buffer=("x",), forward="fold"
)
def fold_grad(x, out_grad, output_sizes, kernel_sizes, strides, paddings, dilations):
    """Backward of :func:`fold`."""
    return bind(
        _fold_grad, (x, out_grad), (output_sizes, kernel_sizes, strides, paddings, dilations)
    )

_tensor_unfold = define(
    "tensor_unfold", "(Tensor input, int64_t axis, int64_t size, int64_t step)", "Tensor(out)",
    backward="tensor_unfold_grad", jvp="linear"
)
def tensor_unfold(input: TensorLike, axis: DimLike, size: DimLike, step: DimLike) -> Tensor:
    """Windows of size elements, step apart, along axis: out[..., i, ..., k] = input[..., i * step +
    k, ...].

    Args:
        input: tensor.
        axis, size, step: int.
    """
    return bind(_tensor_unfold, (input,), (axis, size, step))

_tensor_unfold_grad = define(
    "tensor_unfold_grad",
    "(Tensor input, Tensor out_grad, int64_t axis, int64_t size, int64_t step)",
    "Tensor(input_grad)", no_need_buffer=("input",), forward="tensor_unfold"
)
def tensor_unfold_grad(input, out_grad, axis, size, step):
    """Backward of :func:`tensor_unfold`."""
    return bind(_tensor_unfold_grad, (input, out_grad), (axis, size, step))

_frame = define(
    "frame", "(Tensor x, int frame_length, int hop_length, int axis=-1)", "Tensor(out)",
    backward="frame_grad", jvp="linear"
)
def frame(x: TensorLike, frame_length: int, hop_length: int, axis: int = -1) -> Tensor:
    """Frames of a signal, hop_length apart: of [..., n] as [..., frame_length, frames] (axis -1),
    of [n, ...] as [frames, frame_length, ...] (axis 0).

    Args:
        x: tensor.
        frame_length, hop_length, axis: int.
    """
    return bind(_frame, (x,), (frame_length, hop_length, axis))

_frame_grad = define(
    "frame_grad", "(Tensor x, Tensor out_grad, int frame_length, int hop_length, int axis)",
    "Tensor(x_grad)", no_need_buffer=("x",), forward="frame"
)
def frame_grad(x, out_grad, frame_length, hop_length, axis):
    """Backward of :func:`frame`."""
    return bind(_frame_grad, (x, out_grad), (frame_length, hop_length, axis))

_overlap_add = define(
    "overlap_add", "(Tensor x, int hop_length, int axis=-1)", "Tensor(out)",
    backward="overlap_add_grad", jvp="linear"
)
def overlap_add(x: TensorLike, hop_length: int, axis: int = -1) -> Tensor:
    """The signal whose frames, hop_length apart, are added up where they overlap: of [...,
    frame_length, frames] (axis -1) or [frames, frame_length, ...] (axis 0); the transpose of
    :func:`frame`.

    Args:
        x: tensor.
        hop_length, axis: int.
    """
    return bind(_overlap_add, (x,), (hop_length, axis))

_overlap_add_grad = define(
    "overlap_add_grad", "(Tensor x, Tensor out_grad, int hop_length, int axis)", "Tensor(x_grad)",
    no_need_buffer=("x",), forward="overlap_add"
)
def overlap_add_grad(x, out_grad, hop_length, axis):
    """Backward of :func:`overlap_add`."""
    return bind(_overlap_add_grad, (x, out_grad), (hop_length, axis))

_stft = define(
    "stft", "(Tensor x, Tensor window, int n_fft, int hop_length, bool normalized, bool onesided)",
    "Tensor(out)", traits=("promote_float",), dtypes=("float32", "float64")
)
def stft(
    x: TensorLike, window: TensorLike, n_fft: int, hop_length: int, normalized: bool, onesided: bool
) -> Tensor:
    """Fourier transforms of the frames of signals [..., n] times window, [..., frequencies,
    frames]: the n_fft // 2 + 1 from 0 on if onesided, else all n_fft; over sqrt(n_fft) if
    normalized.

    Args:
        x, window: tensor, float32 or float64.
        n_fft, hop_length: int.
        normalized, onesided: bool.
    """
    return bind(_stft, (x, window), (n_fft, hop_length, normalized, onesided))


# -- yaml/writing.yaml -----------------------------------------------------------------------------
define = definer("yaml/writing.yaml", family="writing")

_index_add = define(
    "index_add", "(Tensor x, Tensor index, Tensor add_value, int axis=0)", "Tensor(out)",
    infer_meta=("IndexAddInferMeta", None), traits=("promote(x, add_value)",),
    inplace=(("x", "out"),)
)
def index_add(x: TensorLike, index: TensorLike, add_value: TensorLike, axis: int = 0) -> Tensor:
    """x with slice i of add_value added to slice index[i] along axis; where an index comes again,
    all are added. An index out of range raises TensorIndexError where the call runs at once;
    compiled programs write nothing there, or raise under phix.debug.check_indices().

    Args:
        x, index, add_value: tensor.
        axis: int.
    """
    return bind(_index_add, (x, index, add_value), (axis,))

def index_add_(x: TensorLike, index: TensorLike, add_value: TensorLike, axis: int = 0) -> Tensor:
    """:func:`index_add` in the memory of x, not to be used after it."""
    return bind_in_place(_index_add, (x, index, add_value), (axis,))

_set_value = define(
    "set_value", "(Tensor x, IntArray starts, IntArray ends, IntArray steps, int64_t[] axes, "
    "int64_t[] decrease_axes, int64_t[] none_axes, int64_t[] shape, Scalar[] values)",
    "Tensor(out)", infer_meta=("SetValueWithScalarsInferMeta", None), inplace=(("x", "out"),)
)
def set_value(
    x: TensorLike, starts: IntArrayLike, ends: IntArrayLike, steps: IntArrayLike,
    axes: IntArrayLike, decrease_axes: IntArrayLike, none_axes: IntArrayLike, shape: IntArrayLike,
    values: ScalarLike | Sequence[ScalarLike]
) -> Tensor:
    """set_value_with_tensor of the numbers in values, which have that shape.

    Args:
        x: tensor.
        starts, ends, steps: ints, a tensor of ints, or a list that mixes ints and 0-d tensors.
        axes, decrease_axes, none_axes, shape: sequence of ints.
        values: sequence of number or one-element tensors.
    """
    return bind(
        _set_value, (x,), (starts, ends, steps, axes, decrease_axes, none_axes, shape, values)
    )

def set_value_(
    x: TensorLike, starts: IntArrayLike, ends: IntArrayLike, steps: IntArrayLike,
    axes: IntArrayLike, decrease_axes: IntArrayLike, none_axes: IntArrayLike, shape: IntArrayLike,
    values: ScalarLike | Sequence[ScalarLike]
) -> Tensor:
    """:func:`set_value` in the memory of x, not to be used after it."""
    return bind_in_place(
        _set_value, (x,), (starts, ends, steps, axes, decrease_axes, none_axes, shape, values)
    )

_set_value_with_tensor = define(
    "set_value_with_tensor",
    "(Tensor x, Tensor values, IntArray starts, IntArray ends, IntArray steps, int64_t[] axes, "
    "int64_t[] decrease_axes, int64_t[] none_axes)", "Tensor(out)",
    infer_meta=("SetValueInferMeta", None), traits=("promote(x, values)",), inplace=(("x", "out"),)
)
def set_value_with_tensor(
    x: TensorLike, values: TensorLike, starts: IntArrayLike, ends: IntArrayLike,
    steps: IntArrayLike, axes: IntArrayLike, decrease_axes: IntArrayLike, none_axes: IntArrayLike
) -> Tensor:
    """x with values, which broadcast, in place of x[starts:ends:steps] along axes; of the slice as
    the values see it the axes in decrease_axes are gone, and axes of 1 stand before those in
    none_axes.

    Args:
        x, values: tensor.
        starts, ends, steps: ints, a tensor of ints, or a list that mixes ints and 0-d tensors.
        axes, decrease_axes, none_axes: sequence of ints.
    """
    return bind(
        _set_value_with_tensor, (x, values), (starts, ends, steps, axes, decrease_axes, none_axes)
    )

def set_value_with_tensor_(
    x: TensorLike, values: TensorLike, starts: IntArrayLike, ends: IntArrayLike,
    steps: IntArrayLike, axes: IntArrayLike, decrease_axes: IntArrayLike, none_axes: IntArrayLike
) -> Tensor:
    """:func:`set_value_with_tensor` in the memory of x, not to be used after it."""
    return bind_in_place(
        _set_value_with_tensor, (x, values), (starts, ends, steps, axes, decrease_axes, none_axes)
    )

_embedding_with_scaled_gradient = define(
    "embedding_with_scaled_gradient", "(Tensor x, Tensor weight, int64_t padding_idx=-1)",
    "Tensor(out)", backward="embedding_with_scaled_gradient_grad",
    traits=("promote(weight)", "own_derivative"), dtypes=("float",),
    invoke="embedding(x, weight, padding_idx)"
)
def embedding_with_scaled_gradient(
    x: TensorLike, weight: TensorLike, padding_idx: DimLike = -1
) -> Tensor:
    """:func:`embedding`; but the gradient of a row is divided by how often x numbers it.

    Args:
        x: tensor.
        weight: tensor, float.
        padding_idx: int.
    """
    return bind(_embedding_with_scaled_gradient, (x, weight), (padding_idx,))

_embedding_with_scaled_gradient_grad = define(
    "embedding_with_scaled_gradient_grad",
    "(Tensor x, Tensor weight, Tensor out_grad, int64_t padding_idx=-1)", "Tensor(weight_grad)",
    no_need_buffer=("weight",), forward="embedding_with_scaled_gradient"
)
def embedding_with_scaled_gradient_grad(x, weight, out_grad, padding_idx=-1):
    """Backward of :func:`embedding_with_scaled_gradient`."""
    return bind(_embedding_with_scaled_gradient_grad, (x, weight, out_grad), (padding_idx,))

_embedding_grad_dense = define(
    "embedding_grad_dense",
    "(Tensor x, Tensor weight, Tensor out_grad, int64_t padding_idx=-1, bool sparse=false)",
    "Tensor(weight_grad)", infer_meta=("EmbeddingGradDenseInferMeta", None),
    traits=("promote(weight, out_grad)",), dtypes=("float", "complex")
)
def embedding_grad_dense(
    x: TensorLike, weight: TensorLike, out_grad: TensorLike, padding_idx: DimLike = -1,
    sparse: bool = False
) -> Tensor:
    """The gradient of embedding for weight: row k is the sum of out_grad[i, ...] where x[i, ...] is
    k and not padding_idx.

    Args:
        x: tensor.
        weight, out_grad: tensor, float or complex.
        padding_idx: int.
        sparse: bool.
    """
    return bind(_embedding_grad_dense, (x, weight, out_grad), (padding_idx, sparse))

_embedding_grad_add_to = define(
    "embedding_grad_add_to", "(Tensor token_indices, Tensor main_grad_, Tensor out_grad)",
    "Tensor(out)", infer_meta=("EmbeddingGradAddToInferMeta", None),
    inplace=(("main_grad_", "out"),)
)
def embedding_grad_add_to(
    token_indices: TensorLike, main_grad_: TensorLike, out_grad: TensorLike
) -> Tensor:
    """main_grad_ with out_grad[i, ...] added, in the dtype of main_grad_, to the row that
    token_indices[i, ...] numbers.

    Args:
        token_indices, main_grad_, out_grad: tensor.
    """
    return bind(_embedding_grad_add_to, (token_indices, main_grad_, out_grad), ())

def embedding_grad_add_to_(
    token_indices: TensorLike, main_grad_: TensorLike, out_grad: TensorLike
) -> Tensor:
    """:func:`embedding_grad_add_to` in the memory of main_grad_, not to be used after it."""
    return bind_in_place(_embedding_grad_add_to, (token_indices, main_grad_, out_grad), ())
