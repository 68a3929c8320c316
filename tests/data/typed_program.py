"""A program as a user types it: mypy --strict must take it, and know each type that is asserted.

It runs, too: what is asserted to be a tensor is one.
"""

from typing import Any

import numpy as np
from typing_extensions import assert_type

import phix
import phix.nn.functional as F

Params = dict[str, phix.Tensor]


def loss(x: phix.Tensor) -> phix.Tensor:
    return (x * x).sum()


def model(params: Params, x: phix.Tensor) -> phix.Tensor:
    hidden = F.relu(F.linear(x, params["w"], params["b"]))
    return F.mse_loss(hidden, phix.zeros_like(hidden))


x: phix.Tensor = phix.to_tensor([[1.0, 2.0], [3.0, 4.0]])
params: Params = {"w": phix.ones([2, 3]), "b": phix.zeros([3])}

# -- tensors: methods and operators ----------------------------------------------------------------
assert_type(x.sum(axis=0), phix.Tensor)
assert_type(x.at[0].set(1.0), phix.Tensor)
assert_type(x.at[0].add(x[0]), phix.Tensor)
assert_type(x.T, phix.Tensor)
assert_type(x + 1, phix.Tensor)
assert_type(1 - x, phix.Tensor)
assert_type(-x, phix.Tensor)
assert_type(abs(x), phix.Tensor)
assert_type(x**2, phix.Tensor)
assert_type(x @ x.T, phix.Tensor)
assert_type(x > 0, phix.Tensor)
assert_type(x == x, phix.Tensor)
assert_type(~(x > 0), phix.Tensor)
assert_type(x[0], phix.Tensor)
assert_type(x[:, None], phix.Tensor)
assert_type(x.astype("float64"), phix.Tensor)
assert_type(x.to("cpu"), phix.Tensor)
assert_type(x.reshape([4]), phix.Tensor)
assert_type(x.exp().mean(), phix.Tensor)
assert_type(x.topk(1), tuple[phix.Tensor, phix.Tensor])
assert_type(list(x), list[phix.Tensor])
assert_type(float(x.sum()), float)
assert_type(x.ndim, int)

# -- functions that make tensors -------------------------------------------------------------------
key = phix.random.key(0)
assert_type(phix.random.normal(key, [3]), phix.Tensor)
assert_type(phix.arange(3), phix.Tensor)
assert_type(phix.eye(2), phix.Tensor)
assert_type(phix.ops.matmul(x, x), phix.Tensor)
assert_type(phix.linalg.inv(phix.eye(2)), phix.Tensor)
assert_type(phix.fft.fft(x), phix.Tensor)
assert_type(F.softmax(x), phix.Tensor)
assert_type(phix.spec([2, 3]), phix.MetaTensor)
mean, variance = phix.zeros([2]), phix.ones([2])
assert_type(F.batch_norm(x, mean, variance), phix.Tensor)
assert_type(
    F.batch_norm(x, mean, variance, training=True), tuple[phix.Tensor, phix.Tensor, phix.Tensor]
)

# -- transformations -------------------------------------------------------------------------------
assert_type(phix.grad(loss)(x), phix.Tensor)
assert_type(phix.grad(loss)(np.ones(3)), phix.Tensor)
assert_type(phix.grad(phix.ops.sum)(x), phix.Tensor)
assert_type(phix.grad(phix.grad(lambda t: t**3))(2.0), phix.Tensor)
assert_type(phix.grad(model)(params, x), Params)
assert_type(phix.grad(model, argnums=1)(params, x), phix.Tensor)
assert_type(phix.value_and_grad(loss)(x), tuple[phix.Tensor, phix.Tensor])
assert_type(phix.value_and_grad(model)(params, x), tuple[phix.Tensor, Params])
assert_type(phix.jit(loss)(x), phix.Tensor)
assert_type(phix.jit(phix.grad(loss))(x), phix.Tensor)
assert_type(phix.jit(phix.value_and_grad(model))(params, x), tuple[phix.Tensor, Params])
assert_type(phix.vmap(loss)(x), phix.Tensor)
assert_type(phix.jit(phix.vmap(phix.grad(loss)))(x), phix.Tensor)
assert_type(phix.jacrev(phix.ops.exp)(x), phix.Tensor)
assert_type(phix.hessian(loss)(x), phix.Tensor)
assert_type(phix.checkpoint(loss)(x), phix.Tensor)
assert_type(phix.autocast(loss)(x), phix.Tensor)
assert_type(phix.derivative(phix.ops.sin, 2)(1.0), phix.Tensor)
assert_type(phix.jvp(loss, (x,), (x,)), tuple[phix.Tensor, phix.Tensor])
assert_type(phix.linearize(loss, x)[0], phix.Tensor)
out, pullback = phix.vjp(phix.ops.sin, 0.0)
assert_type(out, phix.Tensor)
assert_type(pullback(1.0), tuple[phix.Tensor])
assert_type(phix.make_graph(loss)(x), phix.Graph)


def with_aux(x: phix.Tensor) -> tuple[phix.Tensor, dict[str, phix.Tensor]]:
    return loss(x), {"x": x}


gradient, aux = phix.grad(with_aux, has_aux=True)(x)
assert_type(gradient, phix.Tensor)
assert_type(aux, dict[str, phix.Tensor])


@phix.jit
def step(params: Params, x: phix.Tensor) -> Params:
    gradients = phix.grad(model)(params, x)
    return {name: params[name] - 0.1 * gradients[name] for name in params}


assert_type(step(params, x), Params)


@phix.jit(static_argnames="power")
def powered(x: phix.Tensor, power: int) -> phix.Tensor:
    return x**power


assert_type(powered(x, power=2), phix.Tensor)


@phix.custom_vjp
def clipped(x: phix.Tensor) -> phix.Tensor:
    return x


def forward(x: phix.Tensor) -> tuple[phix.Tensor, None]:
    return x, None


def backward(_: Any, ct: phix.Tensor) -> tuple[phix.Tensor]:
    return (ct.clip(-1.0, 1.0),)


clipped.defvjp(forward, backward)
assert_type(clipped(x), phix.Tensor)

# -- control flow ----------------------------------------------------------------------------------


def body(i: phix.Tensor, total: phix.Tensor) -> phix.Tensor:
    return total + i


def running(total: phix.Tensor, row: phix.Tensor) -> tuple[phix.Tensor, phix.Tensor]:
    return total + row.sum(), row


assert_type(phix.fori_loop(0, 3, body, 0.0), phix.Tensor)
assert_type(phix.scan(running, 0.0, x), tuple[phix.Tensor, phix.Tensor])
assert_type(phix.cond(x.sum() > 0, loss, loss, x), phix.Tensor)
assert_type(phix.map(loss, x), phix.Tensor)
assert_type(phix.associative_scan(phix.ops.add, x), phix.Tensor)
assert_type(phix.stop_gradient(x), phix.Tensor)
assert_type(phix.__version__, str)

# -- lambdas: no types to go by, and no complaint either -------------------------------------------
phix.grad(lambda t: t**3)(2.0)
phix.jit(phix.grad(lambda t: t**3))(2.0)
phix.vmap(phix.grad(lambda t: t**3))(phix.ones([2]))
phix.jit(phix.grad(lambda m: phix.vmap(lambda row: row * 2)(m).sum()))(x)
phix.grad(lambda p: (p["w"] * 2).sum())(params)
phix.value_and_grad(lambda w, m: (w * m).sum(), argnums=(0, 1))(x, x)
phix.grad(lambda w, m: ((w * m).sum(), m), has_aux=True)(x, x)
phix.scan(lambda c, row: (c + row, c), 0.0, phix.ones([3]))
phix.fori_loop(0, 3, lambda i, c: c * i, phix.ones([2]))
phix.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, c[1]), (phix.zeros([]), phix.ones([])))
phix.hessian(lambda t: (t**2).sum())(x[0])
phix.jvp(lambda t: t**2, (x,), (x,))
phix.vjp(lambda t: t**2, x)
phix.cond(x.sum() > 0, lambda t: t, lambda t: -t, x)
