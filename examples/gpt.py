"""A small GPT that learns a text letter by letter, and goes on writing it with a cache.

``python examples/gpt.py [FILE] [--plot]``: the text is that of the file, by default of the
project's CONTRIBUTING.md. It takes some tens of seconds on a CPU.
"""

from __future__ import annotations

import sys
import textwrap
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import phix
from phix import nn, ops, optim
from plotting import picture


@nn.module
class Block:
    """Attention and a network of two layers, each added to what goes in."""

    first_norm: nn.LayerNorm
    attention: nn.MultiHeadAttention
    second_norm: nn.LayerNorm
    wide: nn.Linear
    narrow: nn.Linear

    @staticmethod
    def create(key: Any, size: int, heads: int) -> Block:
        keys = phix.random.split(key, 3)
        return Block(
            nn.LayerNorm.create(size),
            nn.MultiHeadAttention.create(keys[0], size, heads),
            nn.LayerNorm.create(size),
            nn.Linear.create(keys[1], size, 4 * size),
            nn.Linear.create(keys[2], 4 * size, size),
        )

    def __call__(self, x: Any, cache: Any = None) -> Any:
        seen = self.first_norm(x)
        if cache is None:
            x = x + self.attention(seen, is_causal=True)
        else:
            y, cache = self.attention(seen, cache=cache)
            x = x + y
        x = x + self.narrow(ops.gelu(self.wide(self.second_norm(x))))
        return x if cache is None else (x, cache)


@nn.module
class GPT:
    """Scores of the next letter, [n, length, letters], of letters [n, length]."""

    letters: nn.Embedding
    places: nn.Embedding
    blocks: tuple[Block, ...]
    norm: nn.LayerNorm

    @staticmethod
    def create(key: Any, letters: int, length: int, size: int, heads: int, depth: int) -> GPT:
        keys = phix.random.split(key, depth + 2)
        tables = [
            phix.tree.map(lambda w: 0.02 * w, nn.Embedding.create(k, n, size))
            for k, n in ((keys[0], letters), (keys[1], length))
        ]
        blocks = tuple(Block.create(k, size, heads) for k in keys[2:])
        return GPT(tables[0], tables[1], blocks, nn.LayerNorm.create(size))

    def init_caches(self, n: int) -> Any:
        length = self.places.weight.shape[0]
        return [block.attention.init_cache(n, length) for block in self.blocks]

    def __call__(self, text: Any, caches: Any = None) -> Any:
        at = 0 if caches is None else caches[0].position
        x = self.letters(text) + self.places(at + ops.arange(0, text.shape[1], 1, "int32"))
        new = []
        for n, block in enumerate(self.blocks):
            if caches is None:
                x = block(x)
            else:
                x, cache = block(x, caches[n])
                new.append(cache)
        scores = self.letters.attend(self.norm(x))
        return scores if caches is None else (scores, new)


def loss(model: GPT, text: Any) -> Any:
    """The mean of -log p(letter) over all letters but the first of each row."""
    scores = ops.cast(model(text[:, :-1]), "float32")
    return ops.mean(nn.functional.cross_entropy(scores, text[:, 1:]))


class Result(NamedTuple):
    losses: np.ndarray  # one a step
    text: str  # what the model writes


def write(model: GPT, start: Any, count: int, key: Any, heat: float = 0.5) -> Any:
    """``count`` letters behind ``start`` [n, length], drawn one by one; one compiled loop."""

    @phix.jit
    def written(model: GPT, start: Any, key: Any) -> Any:
        scores, caches = model(start, model.init_caches(start.shape[0]))

        def step(carry: Any, key: Any) -> Any:
            scores, caches = carry
            letter = phix.random.categorical(key, scores / heat)
            scores, caches = model(letter[:, None], caches)
            return (scores[:, -1], caches), letter

        keys = phix.random.split(key, count)
        _, letters = phix.scan(step, (scores[:, -1], caches), keys)
        return letters.T

    return written(model, start, key)


def train(
    text: str, steps: int = 300, length: int = 64, size: int = 64, depth: int = 2, batch: int = 16
) -> Result:
    """Train on rows of a text, and write some more of it."""
    alphabet = sorted(set(text))
    numbers = np.array([alphabet.index(c) for c in text], np.int64)
    model = GPT.create(phix.random.key(0), len(alphabet), length, size, 4, depth)
    rate = optim.warmup_cosine_decay_schedule(0.0, 3e-3, steps // 10 + 1, steps + 1)
    optimizer = optim.chain(optim.clip_by_global_norm(1.0), optim.adamw(rate, weight_decay=0.01))

    @phix.jit(donate_argnums=(0, 1))
    def step(model: GPT, state: Any, rows: Any) -> Any:
        value, grads = phix.value_and_grad(loss)(model, rows)
        updates, state = optimizer.update(grads, state, model)
        return optim.apply_updates(model, updates), state, value

    rng, state, losses = np.random.default_rng(0), optimizer.init(model), []
    for _ in range(steps):
        starts = rng.integers(0, len(numbers) - length, batch)
        rows = np.stack([numbers[s : s + length] for s in starts])
        model, state, value = step(model, state, rows)
        losses.append(value.item())
    start = numbers[None, : length // 4]
    letters = write(model, start, length - length // 4, phix.random.key(1)).numpy()[0]
    return Result(np.array(losses), "".join(alphabet[n] for n in [*start[0], *letters]))


def draw(axes: Any, result: Result) -> None:
    axes.plot(result.losses, color="#d1495b", linewidth=1)
    axes.set(xlabel="step", title="Loss, nats a letter", ylim=(0, None))
    end = result.text[16:].replace("\n", " ")
    axes.text(1, 0.98, "\n".join(textwrap.wrap(end, 26)), transform=axes.transAxes, va="top",
              ha="right", family="monospace", fontsize=7)  # fmt: skip


def main(argv: list[str]) -> None:
    path = Path(argv[0]) if argv else Path(__file__).resolve().parents[1] / "CONTRIBUTING.md"
    begin = time.perf_counter()
    result = train(path.read_text("utf-8"))
    seconds = time.perf_counter() - begin
    print(f"loss {result.losses[0]:.2f} -> {result.losses[-20:].mean():.2f} in {seconds:.0f} s")
    print(result.text)
    picture("gpt", draw, result)


if __name__ == "__main__":
    main([a for a in sys.argv[1:] if a != "--plot"])
