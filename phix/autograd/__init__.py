"""autograd's names, so that a program written for it runs with its imports changed.

::

    import phix.autograd.numpy as np
    from phix.autograd import grad

What is not being differentiated is NumPy itself, in float64; what is, goes by phix's functions of
the same names. ``phix.autograd.scipy`` has ``special``, ``stats`` and ``linalg``,
``phix.autograd.misc`` ``flatten`` and ``optimizers``. Imported on first use.
"""

from phix.autograd.differential import (
    checkpoint,
    defvjp,
    deriv,
    elementwise_grad,
    grad,
    grad_and_aux,
    grad_named,
    hessian,
    hessian_tensor_product,
    hessian_vector_product,
    holomorphic_grad,
    jacobian,
    make_hvp,
    make_jvp,
    make_vjp,
    multigrad_dict,
    primitive,
    tensor_jacobian_product,
    value_and_grad,
    vector_jacobian_product,
)

__all__ = [
    "checkpoint", "defvjp", "deriv", "elementwise_grad", "grad", "grad_and_aux", "grad_named",
    "hessian", "hessian_tensor_product", "hessian_vector_product", "holomorphic_grad", "jacobian",
    "make_hvp", "make_jvp", "make_vjp", "multigrad_dict", "primitive", "tensor_jacobian_product",
    "value_and_grad", "vector_jacobian_product",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)
