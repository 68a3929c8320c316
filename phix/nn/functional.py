"""Functions of neural networks, by Paddle's names and in Paddle's order of arguments.

They are pure: nothing is changed in place and there is no hidden state, so random functions take
a key and ``batch_norm`` gives its running statistics back. Ints and bools count as float32.
"""

from phix.nn.activation import elu as elu
from phix.nn.activation import gelu as gelu
from phix.nn.activation import hardsigmoid as hardsigmoid
from phix.nn.activation import hardswish as hardswish
from phix.nn.activation import hardtanh as hardtanh
from phix.nn.activation import leaky_relu as leaky_relu
from phix.nn.activation import log_sigmoid as log_sigmoid
from phix.nn.activation import log_softmax as log_softmax
from phix.nn.activation import relu as relu
from phix.nn.activation import relu6 as relu6
from phix.nn.activation import sigmoid as sigmoid
from phix.nn.activation import silu as silu
from phix.nn.activation import softmax as softmax
from phix.nn.activation import softplus as softplus
from phix.nn.activation import softsign as softsign
from phix.nn.activation import swiglu as swiglu
from phix.nn.activation import swish as swish
from phix.nn.attention import scaled_dot_product_attention as scaled_dot_product_attention
from phix.nn.layer import dropout as dropout
from phix.nn.layer import embedding as embedding
from phix.nn.layer import linear as linear
from phix.nn.layer import one_hot as one_hot
from phix.nn.loss import binary_cross_entropy as binary_cross_entropy
from phix.nn.loss import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from phix.nn.loss import cross_entropy as cross_entropy
from phix.nn.loss import kl_div as kl_div
from phix.nn.loss import l1_loss as l1_loss
from phix.nn.loss import mse_loss as mse_loss
from phix.nn.loss import nll_loss as nll_loss
from phix.nn.loss import smooth_l1_loss as smooth_l1_loss
from phix.nn.normalisation import batch_norm as batch_norm
from phix.nn.normalisation import group_norm as group_norm
from phix.nn.normalisation import instance_norm as instance_norm
from phix.nn.normalisation import layer_norm as layer_norm
from phix.nn.normalisation import normalize as normalize
from phix.nn.normalisation import rms_norm as rms_norm
from phix.nn.padding import pad as pad
from phix.nn.vision import avg_pool2d as avg_pool2d
from phix.nn.vision import conv2d as conv2d
from phix.nn.vision import max_pool2d as max_pool2d
