"""A classifier of handwritten digits (scikit-learn's 8 x 8 images), trained with Adam."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import phix
from network import forward, initial_params
from optimiser import adam, adam_state
from phix import ops

BATCH = 64
NOISE = 0.15  # blurs the training images (pixels are 0 to 1), so that the test ones do better


class Result(NamedTuple):
    losses: np.ndarray  # one a step
    accuracy: float  # on the test images


def scores(params: Any, images: Any) -> Any:
    """One score a class, [batch, 10], of images [batch, 64]."""
    return forward(params, images, ops.gelu)


def cross_entropy(params: Any, images: Any, one_hot: Any) -> Any:
    """Mean of -log p(label) over the batch."""
    log_p = ops.log_softmax(scores(params, images))
    return -ops.sum(one_hot * log_p) / images.shape[0]


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Images and labels to train on, and others to test on: a fifth, alike in each class."""
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)
    split = train_test_split(images, labels, test_size=0.2, random_state=0, stratify=labels)
    train_images, test_images, train_labels, test_labels = split
    return train_images, train_labels, test_images, test_labels


def train(epochs: int = 60, hidden: int = 256, seed: int = 0) -> Result:
    """Train, with progress shown, and test."""
    rng = np.random.default_rng(seed)
    images, labels, test_images, test_labels = data()
    one_hot = np.eye(10, dtype=np.float32)[labels]
    batches = len(images) // BATCH
    state = adam_state(initial_params(rng, [64, hidden, hidden, 10], "float32"))
    step = adam(cross_entropy, epochs * batches, peak=2e-3, weight_decay=0.1)
    losses = []
    with tqdm(total=epochs * batches, desc="digits", unit="step", mininterval=0.5) as bar:
        for _ in range(epochs):
            order = rng.permutation(len(images))[: batches * BATCH]
            for rows in order.reshape(batches, BATCH):
                noise = NOISE * rng.standard_normal((BATCH, 64), dtype=np.float32)
                state, loss = step(state, images[rows] + noise, one_hot[rows])
                losses.append(loss.item())
                bar.update()
            bar.set_postfix(loss=f"{losses[-1]:.4f}", refresh=False)
    predicted = np.argmax(phix.jit(scores)(state.params, test_images).numpy(), axis=1)
    return Result(np.array(losses), float(np.mean(predicted == test_labels)))


if __name__ == "__main__":
    print(f"test accuracy {train().accuracy:.2%}")
