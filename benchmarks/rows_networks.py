"""Steps of networks: whole graphs, forward and backward."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

import phix
from benchmarks.harness import Case, normal, row
from benchmarks.peers import F, jax, jet, jnp, torch
from phix import ops


def dense(*sizes: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights and biases of a fully connected network."""
    return [(normal(a, b, scale=a**-0.5), normal(b, scale=0.1)) for a, b in pairwise(sizes)]


# -- mlp -----------------------------------------------------------------------------------------
def mlp_phix(params: Any, x: Any) -> Any:
    for weight, bias in params[:-1]:
        x = ops.gelu(x @ weight + bias)
    return x @ params[-1][0] + params[-1][1]


def mlp_jax(params: Any, x: Any) -> Any:
    for weight, bias in params[:-1]:
        x = jax.nn.gelu(x @ weight + bias, approximate=False)
    return x @ params[-1][0] + params[-1][1]


def mlp_torch(params: Any, x: Any) -> Any:
    for weight, bias in params[:-1]:
        x = F.gelu(torch.addmm(bias, x, weight))
    return torch.addmm(params[-1][1], x, params[-1][0])


MLP = {
    "phix": lambda p, x, y: -ops.mean(ops.sum(ops.log_softmax(mlp_phix(p, x)) * y, -1)),
    "jax": lambda p, x, y: -jnp.mean(jnp.sum(jax.nn.log_softmax(mlp_jax(p, x)) * y, -1)),
    "torch": lambda p, x, y: F.cross_entropy(mlp_torch(p, x), y),
}
MLP_SIZES = {8: ((8, 16, 16, 4), 8.0), 32: ((784, 512, 512, 10), 1.3)} | {
    256: ((784, 1024, 1024, 10), 1.3)
}


def _mlp(batch: int, sizes: tuple[int, ...], wanted: float) -> None:
    @row(f"mlp {'-'.join(map(str, sizes))}, batch {batch}: train step", jax=wanted)
    def train_step() -> Case:
        labels = np.random.default_rng(0).integers(0, sizes[-1], batch)
        one_hot = np.eye(sizes[-1], dtype=np.float32)[labels]
        args = (dense(*sizes), normal(batch, sizes[0]), one_hot)
        return Case(args, MLP, mode="sgd", tolerance=1e-4)


for _batch, (_sizes, _wanted) in MLP_SIZES.items():
    _mlp(_batch, _sizes, _wanted)


# -- beam: four nested derivatives in the loss -----------------------------------------------------
def _beam(module: Any, xp: Any) -> Any:
    """phix and JAX: tangents of tangents; the rows of x do not meet, so one direction does."""

    def network(params: Any, x: Any) -> Any:
        for weight, bias in params[:-1]:
            x = xp.tanh(x @ weight + bias)
        return x @ params[-1][0] + params[-1][1]

    def along_ones(u: Any) -> Any:
        return lambda x: module.jvp(u, (x,), (xp.full(x.shape, 1.0, x.dtype),))[1]

    def loss(params: Any, x: Any) -> Any:
        u = lambda x: network(params, x)  # noqa: E731
        for _ in range(4):
            u = along_ones(u)
        return xp.mean((u(x) + 1.0) ** 2)

    return loss


def _beam_torch(params: Any, x: Any) -> Any:
    x = x.requires_grad_()
    u = x
    for weight, bias in params[:-1]:
        u = torch.tanh(torch.addmm(bias, u, weight))
    u = torch.addmm(params[-1][1], u, params[-1][0])
    for _ in range(4):
        (u,) = torch.autograd.grad(u.sum(), x, create_graph=True)
    return ((u + 1.0) ** 2).mean()


@row("beam 1-20-20-20-1, 1000 points: loss and gradient", jax=3)
def beam() -> Case:
    points = np.linspace(0, 1, 1000, dtype=np.float32)[:, None]
    functions = {"phix": _beam(phix, ops), "jax": _beam(jax, jnp), "torch": _beam_torch}
    args = (dense(1, 20, 20, 20, 1), points)
    return Case(args, functions, mode="value_and_grad", tolerance=1e-3)


def _taylor_phix(u: Any, x: Any) -> Any:
    return phix.jet(u, (x,), ([ops.full_like(x, 1.0), None, None, None],))[1][3]


def _taylor_jax(u: Any, x: Any) -> Any:
    zero = jnp.zeros_like(x)
    return jet.jet(u, (x,), ((jnp.ones_like(x), zero, zero, zero),))[1][3]


def _taylor_loss(fourth: Any, xp: Any) -> Any:
    """The loss of the beam with its fourth derivative by one pass of Taylor mode."""

    def network(params: Any, x: Any) -> Any:
        for weight, bias in params[:-1]:
            x = xp.tanh(x @ weight + bias)
        return x @ params[-1][0] + params[-1][1]

    def loss(params: Any, x: Any) -> Any:
        return xp.mean((fourth(lambda x: network(params, x), x) + 1.0) ** 2)

    return loss


@row("beam 1-20-20-20-1, 1000 points: by Taylor mode", jax=3)
def beam_by_taylor_mode() -> Case:
    points = np.linspace(0, 1, 1000, dtype=np.float32)[:, None]
    functions = {"phix": _taylor_loss(_taylor_phix, ops), "jax": _taylor_loss(_taylor_jax, jnp)}
    args = (dense(1, 20, 20, 20, 1), points)
    return Case(args, functions, mode="value_and_grad", tolerance=1e-3)


# -- gpt block -------------------------------------------------------------------------------------
BATCH, LENGTH, WIDTH, HEADS = 4, 128, 256, 4


def gpt_phix(p: Any, x: Any, w: Any) -> Any:
    def norm(x: Any, name: str) -> Any:
        return ops.layer_norm(x, *p[name], 1e-5, 2)

    def linear(x: Any, name: str) -> Any:
        return x @ p[name][0] + p[name][1]

    batch = x.shape[0]
    heads = ops.reshape(linear(norm(x, "norm1"), "qkv"), [batch, LENGTH, 3, HEADS, -1])
    q, k, v = (ops.transpose(heads[:, :, i], [0, 2, 1, 3]) for i in range(3))
    scores = ops.matmul(q * (WIDTH // HEADS) ** -0.5, k, False, True)
    places = ops.arange(0, LENGTH, 1, "int64")
    seen = ops.reshape(places, [LENGTH, 1]) >= places
    weights = ops.softmax(ops.where(seen, scores, float("-inf")), -1)
    mixed = ops.reshape(ops.transpose(weights @ v, [0, 2, 1, 3]), [batch, LENGTH, WIDTH])
    x = x + linear(mixed, "out")
    x = x + linear(ops.gelu(linear(norm(x, "norm2"), "up")), "down")
    return ops.sum(x * w)


def _gpt_jax(p: Any, x: Any, w: Any) -> Any:
    def norm(x: Any, name: str) -> Any:
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p[name][0] + p[name][1]

    def linear(x: Any, name: str) -> Any:
        return x @ p[name][0] + p[name][1]

    heads = linear(norm(x, "norm1"), "qkv").reshape(BATCH, LENGTH, 3, HEADS, -1)
    q, k, v = (heads[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
    scores = (q * (WIDTH // HEADS) ** -0.5) @ k.swapaxes(-1, -2)
    seen = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
    weights = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), axis=-1)
    mixed = (weights @ v).transpose(0, 2, 1, 3).reshape(BATCH, LENGTH, WIDTH)
    x = x + linear(mixed, "out")
    x = x + linear(jax.nn.gelu(linear(norm(x, "norm2"), "up"), approximate=False), "down")
    return (x * w).sum()


def _gpt_torch(p: Any, x: Any, w: Any) -> Any:
    def norm(x: Any, name: str) -> Any:
        return F.layer_norm(x, (WIDTH,), *p[name])

    def linear(x: Any, name: str) -> Any:
        return F.linear(x, p[name][0].T, p[name][1])

    heads = linear(norm(x, "norm1"), "qkv").view(BATCH, LENGTH, 3, HEADS, -1)
    q, k, v = (heads[:, :, i].transpose(1, 2) for i in range(3))
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + linear(mixed.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH), "out")
    x = x + linear(F.gelu(linear(norm(x, "norm2"), "up")), "down")
    return (x * w).sum()


def gpt_arguments() -> tuple[Any, Any, Any]:
    """Parameters, input and cotangent."""
    ones, zeros = np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32)
    sizes = {"qkv": (1, 3), "out": (1, 1), "up": (1, 4), "down": (4, 1)}
    params: dict[str, Any] = {n: dense(a * WIDTH, b * WIDTH)[0] for n, (a, b) in sizes.items()}
    params |= {"norm1": (ones, zeros), "norm2": (ones, zeros)}
    return params, normal(BATCH, LENGTH, WIDTH), normal(BATCH, LENGTH, WIDTH, seed=1)


@row("gpt block, 4 x 128 x 256, 4 heads: with gradient", jax=2, torch=1)
def gpt_block() -> Case:
    functions = {"phix": gpt_phix, "jax": _gpt_jax, "torch": _gpt_torch}
    return Case(gpt_arguments(), functions, mode="value_and_grad", tolerance=1e-3)


# -- resnet block ----------------------------------------------------------------------------------
IMAGES = (32, 64, 16, 16)


def _resnet_phix(p: Any, x: Any, w: Any) -> Any:
    zeros, ones = ops.full([IMAGES[1]], 0.0), ops.full([IMAGES[1]], 1.0)
    out = x
    for number, (kernel, scale, bias) in enumerate(p):
        out = ops.conv2d(out, kernel, (1, 1), (1, 1))
        out = ops.batch_norm(out, zeros, ones, scale, bias)[0]
        out = ops.relu(out if number == 0 else out + x)
    return ops.sum(out * w)


def _resnet_jax(p: Any, x: Any, w: Any) -> Any:
    out = x
    for number, (kernel, scale, bias) in enumerate(p):
        out = jax.lax.conv(out, kernel, (1, 1), "SAME")
        mean = out.mean((0, 2, 3), keepdims=True)
        inverse = jax.lax.rsqrt(out.var((0, 2, 3), keepdims=True) + 1e-5)
        out = (out - mean) * inverse * scale[:, None, None] + bias[:, None, None]
        out = jax.nn.relu(out if number == 0 else out + x)
    return (out * w).sum()


def _resnet_torch(p: Any, x: Any, w: Any) -> Any:
    out = x
    for number, (kernel, scale, bias) in enumerate(p):
        out = F.conv2d(out, kernel, padding=1)
        out = F.batch_norm(out, None, None, scale, bias, training=True)
        out = F.relu(out if number == 0 else out + x)
    return (out * w).sum()


@row("resnet block, 32 x 64 x 16 x 16: with gradient", jax=2, torch=0.9)
def resnet_block() -> Case:
    width = IMAGES[1]
    kernels = [normal(width, width, 3, 3, seed=n, scale=(9 * width) ** -0.5) for n in range(2)]
    ones, zeros = np.ones(width, np.float32), np.zeros(width, np.float32)
    args = ([(k, ones, zeros) for k in kernels], normal(*IMAGES), normal(*IMAGES, seed=1))
    functions = {"phix": _resnet_phix, "jax": _resnet_jax, "torch": _resnet_torch}
    # Among 1e6 inputs of relu some are within rounding of 0: on its other side, one term is gone
    # from the gradients of a filter.
    return Case(args, functions, mode="value_and_grad", tolerance=1e-2)
