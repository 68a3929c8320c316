"""A small LLaMA: rotary places, RMS norms, grouped heads, SwiGLU, and a cache to write with.

``python examples/llama.py [--plot]`` trains it (half a minute on a CPU) on rows whose second half
repeats the first, which is drawn anew each time: it learns to look up where it saw a letter before
and to go on from there. What it then writes letter by letter, by the cache, it copies.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import phix
from phix import nn, ops, optim
from plotting import picture


def rotated(x: Any, places: Any, base: float = 10000.0) -> Any:
    """x [n, length, heads, size] turned: pairs (i, i + size / 2) by places * base^(-2 i / size).

    The product of a query and a key depends on how far apart they are alone.
    """
    half = x.shape[-1] // 2
    speeds = base ** (ops.arange(0, half, 1, "float32") * (-1.0 / half))
    angles = ops.unsqueeze(ops.cast(places, "float32"), 1) * speeds
    cos, sin = (ops.cast(f(angles)[:, None, :], x.dtype) for f in (ops.cos, ops.sin))
    a, b = x[..., :half], x[..., half:]
    return ops.concat([a * cos - b * sin, b * cos + a * sin], -1)


@nn.module
class Attention:
    """Several heads of queries for each of keys and values, all without biases."""

    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    out: nn.Linear
    size: int = nn.static()  # of one head

    @staticmethod
    def create(key: Any, width: int, heads: int, groups: int) -> Attention:
        size, keys = width // heads, phix.random.split(key, 4)
        ends = [(width, heads * size), (width, groups * size), (width, groups * size)]
        layers = [nn.Linear.create(k, *end, bias=False) for k, end in zip(keys, ends)]
        return Attention(*layers, nn.Linear.create(keys[3], heads * size, width, bias=False), size)

    def __call__(self, x: Any, cache: nn.KVCache | None) -> tuple[Any, nn.KVCache | None]:
        n, length = x.shape[:2]
        begin = 0 if cache is None else cache.position
        places = begin + ops.arange(0, length, 1, "int32")
        q, k, v = (
            ops.reshape(layer(x), [n, length, -1, self.size])
            for layer in (self.query, self.key, self.value)
        )
        q, k, mask = rotated(q, places), rotated(k, places), None
        if cache is not None:
            k, v = cache.key.at[:, places].set(k), cache.value.at[:, places].set(v)
            mask = ops.arange(0, k.shape[1], 1, "int32") <= places[:, None]
            cache = nn.KVCache(k, v, begin + length)
        attend = nn.functional.scaled_dot_product_attention
        y = attend(q, k, v, mask, is_causal=mask is None)
        return self.out(ops.reshape(y, [n, length, -1])), cache


@nn.module
class Block:
    attention_norm: nn.RMSNorm
    attention: Attention
    norm: nn.RMSNorm
    gate: nn.Linear
    up: nn.Linear
    down: nn.Linear

    @staticmethod
    def create(key: Any, width: int, heads: int, groups: int, wide: int) -> Block:
        keys = phix.random.split(key, 4)
        sizes = [(width, wide), (width, wide), (wide, width)]
        layers = [nn.Linear.create(k, *size, bias=False) for k, size in zip(keys[1:], sizes)]
        attention = Attention.create(keys[0], width, heads, groups)
        return Block(nn.RMSNorm.create(width), attention, nn.RMSNorm.create(width), *layers)

    def __call__(self, x: Any, cache: nn.KVCache | None = None) -> tuple[Any, Any]:
        y, cache = self.attention(self.attention_norm(x), cache)
        x = x + y
        y = self.norm(x)
        return x + self.down(ops.swiglu(self.gate(y), self.up(y))), cache


@nn.module
class Llama:
    """Scores of the next letter [n, length, letters], of letters [n, length]."""

    letters: nn.Embedding
    blocks: tuple[Block, ...]
    norm: nn.RMSNorm
    scores: nn.Linear

    @staticmethod
    def create(
        key: Any, letters: int, width: int, heads: int, groups: int, wide: int, depth: int
    ) -> Llama:
        keys = phix.random.split(key, depth + 2)
        return Llama(
            nn.Embedding.create(keys[0], letters, width),
            tuple(Block.create(k, width, heads, groups, wide) for k in keys[2:]),
            nn.RMSNorm.create(width),
            nn.Linear.create(keys[1], width, letters, bias=False),
        )

    def caches(self, n: int, length: int) -> list[nn.KVCache]:
        """Empty ones for n rows of that length."""
        first = self.blocks[0].attention
        groups = first.key.weight.shape[1] // first.size
        empty = phix.zeros([n, length, groups, first.size])
        return [nn.KVCache(empty, empty, ops.full([], 0, "int32")) for _ in self.blocks]

    def __call__(self, text: Any, caches: Any = None) -> tuple[Any, list[Any]]:
        x, new = self.letters(text), []
        for block, cache in zip(self.blocks, caches or [None] * len(self.blocks)):
            x, cache = block(x, cache)
            new.append(cache)
        return self.scores(self.norm(x)), new


@phix.jit(static_argnames="count")
def write(model: Llama, start: Any, count: int) -> Any:
    """The ``count`` likeliest letters behind ``start`` [n, length], one by one."""
    n, length = start.shape
    scores, caches = model(start, model.caches(n, length + count))

    def step(carry: Any, _: Any) -> Any:
        letter, caches = carry
        scores, caches = model(letter[:, None], caches)
        return (ops.argmax(scores[:, -1], -1), caches), letter

    begin = (ops.argmax(scores[:, -1], -1), caches)
    return phix.scan(step, begin, None, length=count)[1].T


class Result(NamedTuple):
    losses: np.ndarray  # [steps, 2]: of the first halves, which are noise, and of the second
    copied: float  # the part of the second halves that it writes without a mistake


def losses(model: Llama, text: Any) -> Any:
    """The means of -log p(letter) over the first halves of the rows, and over the second."""
    each = nn.functional.cross_entropy(model(text[:, :-1])[0], text[:, 1:], reduction="none")
    half = text.shape[1] // 2
    return ops.stack([ops.mean(each[:, : half - 1]), ops.mean(each[:, half:])])


def train(
    steps: int = 600, half: int = 12, letters: int = 16, batch: int = 32, depth: int = 2
) -> Result:
    model = Llama.create(phix.random.key(0), letters, 48, 4, 2, 96, depth)
    optimizer = optim.adamw(optim.warmup_cosine_decay_schedule(0.0, 4e-3, steps // 10 + 1, steps))

    def drawn(key: Any) -> Any:
        first = phix.random.randint(key, 0, letters, [batch, half])
        return ops.concat([first, first], 1)

    def loss(model: Llama, text: Any) -> tuple[Any, Any]:
        both = losses(model, text)
        return ops.sum(both), both

    @phix.jit(donate_argnums=(0, 1))
    def step(model: Llama, state: Any, key: Any) -> Any:
        (_, both), grads = phix.value_and_grad(loss, has_aux=True)(model, drawn(key))
        updates, state = optimizer.update(grads, state, model)
        return optim.apply_updates(model, updates), state, both

    state, found = optimizer.init(model), []
    for key in phix.random.split(phix.random.key(1), steps):
        model, state, both = step(model, state, key)
        found.append(both.numpy())
    text = drawn(phix.random.key(2))
    written = write(model, text[:, : half + 1], count=half - 1).numpy()
    return Result(np.array(found), float((written == text.numpy()[:, half + 1 :]).mean()))


def draw(axes: Any, result: Result) -> None:
    axes.plot(result.losses[:, 0], label="first half (noise)", color="#b8c4d0")
    axes.plot(result.losses[:, 1], label="second half (repeats it)", color="#d1495b")
    axes.set(xlabel="step", ylabel="-log p", ylim=(0, None))
    axes.set_title(f"LLaMA: {result.copied:.0%} copied right")
    axes.legend()


if __name__ == "__main__":
    result = train()
    print(f"second halves: loss {result.losses[-1, 1]:.3f}, {result.copied:.1%} copied right")
    picture("llama", draw, result)
