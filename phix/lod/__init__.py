"""Ragged tensors: sequences of different lengths in one tensor. The names are those of Paddle.

``LoDTensor`` has the rows of all sequences, and offsets for each level. It is a tree, so functions
of it can be given to ``jit`` and ``vmap``; lengths are data, so one program serves all of them.
Derivatives are taken for values: ``phix.grad(lambda v: f(x.with_values(v)))(x.values)``.
"""

from phix.core.faces import face
from phix.lod.sequences import (
    im2sequence,
    sequence_concat,
    sequence_conv,
    sequence_enumerate,
    sequence_erase,
    sequence_expand,
    sequence_expand_as,
    sequence_pool,
    sequence_reverse,
    sequence_slice,
    sequence_softmax,
)
from phix.lod.tensors import (
    LoDTensor,
    from_list,
    lod_tensor,
    sequence_mask,
    sequence_pad,
    sequence_unpad,
    to_list,
)

__all__ = [
    "LoDTensor", "from_list", "im2sequence", "lod_tensor", "sequence_concat", "sequence_conv",
    "sequence_enumerate", "sequence_erase", "sequence_expand", "sequence_expand_as",
    "sequence_mask", "sequence_pad", "sequence_pool", "sequence_reverse", "sequence_slice",
    "sequence_softmax", "sequence_unpad", "to_list",
]  # fmt: skip
__dir__ = face(__all__)
