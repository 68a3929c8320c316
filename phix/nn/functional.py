"""Functions of neural networks, under Paddle's names and with its argument order.

``import phix.nn.functional as F``. All are pure: what draws random numbers takes a key, and what
Paddle updates in place is returned. Paddle's ``name``, ``out`` and ``inplace`` are left out.
"""

from phix.core.faces import face
from phix.nn.activations import (
    elu,
    gelu,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    log_sigmoid,
    log_softmax,
    relu,
    relu6,
    sigmoid,
    silu,
    softmax,
    softplus,
    softsign,
    swiglu,
    swish,
    tanh,
)
from phix.nn.attention import scaled_dot_product_attention
from phix.nn.images import avg_pool2d, conv2d, conv2d_transpose, max_pool2d, pad
from phix.nn.layers import dropout, embedding, linear, one_hot
from phix.nn.losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    kl_div,
    l1_loss,
    log_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
    softmax_with_cross_entropy,
    square_error_cost,
)
from phix.nn.normalisations import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    normalize,
    rms_norm,
)

__all__ = [
    "avg_pool2d",
    "batch_norm",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "conv2d",
    "conv2d_transpose",
    "cross_entropy",
    "dropout",
    "elu",
    "embedding",
    "gelu",
    "group_norm",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "instance_norm",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_loss",
    "log_sigmoid",
    "log_softmax",
    "max_pool2d",
    "mse_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "relu",
    "relu6",
    "rms_norm",
    "scaled_dot_product_attention",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "softmax",
    "softmax_with_cross_entropy",
    "softplus",
    "softsign",
    "square_error_cost",
    "swiglu",
    "swish",
    "tanh",
]
__dir__ = face(__all__)
