"""The models of examples/: the example's own functions, beside the same models in JAX and torch."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Case, normal, row
from benchmarks.peers import F, jax, jnp, torch
from phix import nn, ops

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def example(name: str) -> Any:
    """A module of examples/, which import each other as scripts do."""
    if str(EXAMPLES) not in sys.path:
        sys.path.append(str(EXAMPLES))
    return importlib.import_module(name)


# -- the encoder of sentences.py -------------------------------------------------------------------
def encoder_jax(read: Any, numbers: Any) -> Any:
    def linear(x: Any, name: str) -> Any:
        return x @ read[f"{name}.weight"].T + read[f"{name}.bias"]

    def norm(x: Any, name: str) -> Any:
        x = x - x.mean(-1, keepdims=True)
        x = x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-12)
        return x * read[f"{name}.weight"] + read[f"{name}.bias"]

    def mixed(x: Any, name: str) -> Any:
        q, k, v = (
            linear(x, f"{name}.{part}").reshape(*x.shape[:2], 12, -1)
            for part in ("query", "key", "value")
        )
        mask = (numbers != 0)[:, None, None, :]
        return jax.nn.dot_product_attention(q, k, v, mask=mask).reshape(x.shape)

    def gelu(x: Any) -> Any:
        return jax.nn.gelu(x, approximate=False)

    x = _encoded(read, numbers, linear, norm, mixed, gelu)
    x = jnp.where((numbers != 0)[:, :, None], x, 0.0).sum(1)
    return x / jnp.sqrt((x * x).sum(-1, keepdims=True))


def encoder_torch(read: Any, numbers: Any) -> Any:
    def linear(x: Any, name: str) -> Any:
        return F.linear(x, read[f"{name}.weight"], read[f"{name}.bias"])

    def norm(x: Any, name: str) -> Any:
        return F.layer_norm(x, x.shape[-1:], read[f"{name}.weight"], read[f"{name}.bias"], 1e-12)

    def mixed(x: Any, name: str) -> Any:
        q, k, v = (
            linear(x, f"{name}.{part}").view(*x.shape[:2], 12, -1).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        mask = (numbers != 0)[:, None, None, :]
        return F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).reshape(x.shape)

    x = _encoded(read, numbers, linear, norm, mixed, F.gelu)
    return F.normalize(torch.where((numbers != 0)[:, :, None], x, 0.0).sum(1), dim=-1)


def _encoded(read: Any, numbers: Any, linear: Any, norm: Any, mixed: Any, gelu: Any) -> Any:
    """The last layer of MiniLM-L6, in ops that are given."""
    embed = "embeddings.{}_embeddings.weight".format
    x = read[embed("word")][numbers] + read[embed("position")][: numbers.shape[1]]
    x = norm(x + read[embed("token_type")][0], "embeddings.LayerNorm")
    for name in (f"encoder.layer.{n}" for n in range(6)):
        attended = linear(mixed(x, f"{name}.attention.self"), f"{name}.attention.output.dense")
        x = norm(x + attended, f"{name}.attention.output.LayerNorm")
        wide = gelu(linear(x, f"{name}.intermediate.dense"))
        x = norm(x + linear(wide, f"{name}.output.dense"), f"{name}.output.LayerNorm")
    return x


@row("model: MiniLM-L6, 8 sentences of 32 pieces")
def encoder() -> Case:
    module = example("sentences")
    shapes = module.shapes(words=1000, length=64).items()
    read = {name: normal(*shape, scale=0.05) for name, shape in shapes}
    numbers = np.random.default_rng(0).integers(1, 1000, (8, 32))
    for place, length in enumerate((32, 20, 9, 14, 28, 11, 17, 23)):
        numbers[place, length:] = 0
    functions = {
        "phix": lambda read, numbers: module.from_weights(read)(numbers),
        "jax": encoder_jax,
        "torch": encoder_torch,
    }
    return Case((read, numbers), functions, tolerance=1e-4)


# -- a block of llama.py: its gradient -------------------------------------------------------------
LLAMA = {"batch": 4, "length": 128, "width": 256, "heads": 8, "groups": 2, "wide": 512}


def block_phix(p: Any, x: Any, w: Any) -> Any:
    module, layer = example("llama"), nn.Linear
    attention = module.Attention(*(layer(m) for m in p["attention"]), x.shape[-1] // LLAMA["heads"])
    norms = [nn.RMSNorm(scale) for scale in p["norms"]]
    block = module.Block(norms[0], attention, norms[1], *(layer(m) for m in p["network"]))
    return ops.sum(block(x)[0] * w)


def _block(xp: Any, p: Any, x: Any, attend: Any, silu: Any) -> Any:
    """The block in JAX's NumPy or in torch."""

    def norm(x: Any, scale: Any) -> Any:
        return x / xp.sqrt((x * x).mean(-1)[..., None] + 1e-5) * scale

    def turned(x: Any) -> Any:
        half = x.shape[-1] // 2
        angles = xp.arange(x.shape[1])[:, None] * 10000.0 ** (-xp.arange(half) / half)
        cos, sin = xp.cos(angles)[:, None], xp.sin(angles)[:, None]
        a, b = x[..., :half], x[..., half:]
        return xp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    size, y = x.shape[-1] // LLAMA["heads"], norm(x, p["norms"][0])
    q, k, v = ((y @ m).reshape(*x.shape[:2], -1, size) for m in p["attention"][:3])
    x = x + attend(turned(q), turned(k), v).reshape(x.shape) @ p["attention"][3]
    y, (gate, up, down) = norm(x, p["norms"][1]), p["network"]
    return x + (silu(y @ gate) * (y @ up)) @ down


def block_jax(p: Any, x: Any, w: Any) -> Any:
    def attend(*heads: Any) -> Any:
        return jax.nn.dot_product_attention(*heads, is_causal=True)

    return (_block(jnp, p, x, attend, jax.nn.silu) * w).sum()


def block_torch(p: Any, x: Any, w: Any) -> Any:
    def attend(*heads: Any) -> Any:
        q, k, v = (h.transpose(1, 2) for h in heads)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return mixed.transpose(1, 2)

    return (_block(torch, p, x, attend, F.silu) * w).sum()


@row("model: LLaMA block, 4 x 128 x 256, 8 heads, 2 groups: with gradient")
def block() -> Case:
    width, wide, heads = LLAMA["width"], LLAMA["wide"], LLAMA["heads"]
    narrow = width * LLAMA["groups"] // heads

    def drawn(*sizes: tuple[int, int]) -> list[np.ndarray]:
        return [normal(*s, seed=n, scale=s[0] ** -0.5) for n, s in enumerate(sizes)]

    params = {
        "attention": drawn((width, width), (width, narrow), (width, narrow), (width, width)),
        "network": drawn((width, wide), (width, wide), (wide, width)),
        "norms": [np.ones(width, np.float32)] * 2,
    }
    shape = (LLAMA["batch"], LLAMA["length"], width)
    functions = {"phix": block_phix, "jax": block_jax, "torch": block_torch}
    args = (params, normal(*shape), normal(*shape, seed=1))
    return Case(args, functions, mode="value_and_grad", tolerance=1e-3)
