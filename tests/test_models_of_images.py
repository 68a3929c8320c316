"""examples/resnet.py and vae.py, against NumPy and SciPy from the definitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import signal, special

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
pytestmark = pytest.mark.unoptimised


@pytest.fixture
def resnet(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(EXAMPLES)
    return __import__("resnet")


def convolved(x: np.ndarray, layer: Any, stride: int = 1) -> np.ndarray:
    """With zeros around, so that the size stays; then one pixel of each ``stride``."""
    weight = layer.weight.numpy().astype("d")
    out = np.array(
        [
            [sum(signal.correlate2d(c, f, "same") for c, f in zip(image, w)) for w in weight]
            for image in x
        ]
    )
    bias = 0.0 if layer.bias is None else layer.bias.numpy()[:, None, None]
    return (out + bias)[:, :, ::stride, ::stride]


def normed(x: np.ndarray) -> np.ndarray:
    over = {"axis": (0, 2, 3), "keepdims": True}
    return (x - x.mean(**over)) / np.sqrt(x.var(**over) + 1e-5)


def test_resnet_is_its_definition(resnet: Any) -> None:
    phix = resnet.phix
    net = resnet.ResNet.create(phix.random.key(0), (2, 2, 3))
    rng = np.random.default_rng(0)
    images, labels = rng.normal(size=(3, 1, 4, 4)).astype("f"), np.array([1, 9, 4])
    states = net.init_states()

    def both(net: Any) -> Any:
        gradients = [
            phix.value_and_grad(resnet.loss, has_aux=True)(net, states, images, labels, norm)
            for norm in (resnet.whole, resnet.written_out)
        ]
        return gradients, net(images, states, False)[0]

    (whole, written), inference = phix.jit(both)(net)
    (value, new), grads = whole
    for a, b in zip(phix.tree.leaves(grads), phix.tree.leaves(written[1])):
        np.testing.assert_allclose(a, b, atol=2e-5)

    seen: list[np.ndarray] = []

    def forward(norm: Any) -> Any:
        x = np.maximum(convolved(images, net.first), 0)
        for block, stride in zip(net.blocks, (1, 2)):
            first = convolved(x, block.convs[0], stride)
            second = convolved(np.maximum(norm(first), 0), block.convs[1])
            seen.extend([first, second])
            if len(block.convs) == 3:
                seen.append(convolved(x, block.convs[2], stride))
                x = norm(seen[-1])
            x = np.maximum(x + norm(second), 0)
        return x.mean((2, 3)) @ net.scores.weight.numpy() + net.scores.bias.numpy()

    log_p = special.log_softmax(forward(normed), -1)
    assert value.item() == pytest.approx(-log_p[range(3), labels].mean(), rel=1e-5)
    for state, x in zip([s for block in new for s in block], seen):
        np.testing.assert_allclose(state.mean, 0.1 * x.mean((0, 2, 3)), atol=1e-6)
        np.testing.assert_allclose(state.variance, 0.9 + 0.1 * x.var((0, 2, 3)), rtol=1e-5)
    np.testing.assert_allclose(inference, forward(lambda x: x / np.sqrt(1 + 1e-5)), atol=1e-5)


def test_images_are_moved_and_mirrored_each_by_its_key(resnet: Any) -> None:
    phix = resnet.phix
    images = 1 + np.arange(40 * 4.0, dtype="f").reshape(40, 1, 2, 2)
    moved = phix.jit(
        lambda key, x: resnet.augmented_batch(key, x, room=1, mirrored=0.5), dynamic=False
    )(phix.random.key(0), images)
    seen = set()
    for image, found in zip(images[:, 0], moved.numpy()[:, 0]):
        wide = np.pad(image, 1)
        ways = {(i, j, m): wide[i : i + 2, j : j + 2][:, :: 1 - 2 * m]
                for i in range(3) for j in range(3) for m in (0, 1)}  # fmt: skip
        seen.update(way := [w for w, x in ways.items() if (x == found).all()])
        assert way
    assert len(seen) > 12


def test_resnet_learns_and_says_what_memory_it_needs(resnet: Any) -> None:
    pytest.importorskip("sklearn")
    result = resnet.train(epochs=1, widths=(4, 8))
    assert len(result.losses) == 23 and result.losses[-8:].mean() < result.losses[:8].mean()
    needed = resnet.memory(batch=32, widths=(8, 8, 8))
    assert 0 < needed["whole"] < needed["written_out"]
