"""Functions of neural networks, under Paddle's names and with its argument order.

``import phix.nn.functional as F``. All are pure: what draws random numbers takes a key, and what
Paddle updates in place is returned. Paddle's ``name``, ``out`` and ``inplace`` are left out.
"""

from phix.nn.activations import elu as elu
from phix.nn.activations import gelu as gelu
from phix.nn.activations import hardsigmoid as hardsigmoid
from phix.nn.activations import hardswish as hardswish
from phix.nn.activations import hardtanh as hardtanh
from phix.nn.activations import leaky_relu as leaky_relu
from phix.nn.activations import log_sigmoid as log_sigmoid
from phix.nn.activations import log_softmax as log_softmax
from phix.nn.activations import relu as relu
from phix.nn.activations import relu6 as relu6
from phix.nn.activations import sigmoid as sigmoid
from phix.nn.activations import silu as silu
from phix.nn.activations import softmax as softmax
from phix.nn.activations import softplus as softplus
from phix.nn.activations import softsign as softsign
from phix.nn.activations import swiglu as swiglu
from phix.nn.activations import swish as swish
from phix.nn.activations import tanh as tanh
from phix.nn.attention import scaled_dot_product_attention as scaled_dot_product_attention
from phix.nn.images import avg_pool2d as avg_pool2d
from phix.nn.images import conv2d as conv2d
from phix.nn.images import conv2d_transpose as conv2d_transpose
from phix.nn.images import max_pool2d as max_pool2d
from phix.nn.images import pad as pad
from phix.nn.layers import dropout as dropout
from phix.nn.layers import embedding as embedding
from phix.nn.layers import linear as linear
from phix.nn.layers import one_hot as one_hot
from phix.nn.losses import binary_cross_entropy as binary_cross_entropy
from phix.nn.losses import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from phix.nn.losses import cross_entropy as cross_entropy
from phix.nn.losses import kl_div as kl_div
from phix.nn.losses import l1_loss as l1_loss
from phix.nn.losses import log_loss as log_loss
from phix.nn.losses import mse_loss as mse_loss
from phix.nn.losses import nll_loss as nll_loss
from phix.nn.losses import smooth_l1_loss as smooth_l1_loss
from phix.nn.losses import softmax_with_cross_entropy as softmax_with_cross_entropy
from phix.nn.losses import square_error_cost as square_error_cost
from phix.nn.normalisations import batch_norm as batch_norm
from phix.nn.normalisations import group_norm as group_norm
from phix.nn.normalisations import instance_norm as instance_norm
from phix.nn.normalisations import layer_norm as layer_norm
from phix.nn.normalisations import normalize as normalize
from phix.nn.normalisations import rms_norm as rms_norm
