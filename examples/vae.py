"""A variational autoencoder: handwritten digits from two numbers each, and new ones drawn.

``python examples/vae.py [--plot]``, half a minute on a CPU; the images are scikit-learn's. The loss
is minus the evidence lower bound: what an image costs given the numbers it is remembered by, and
how far their distribution is from a standard normal one (D. Kingma and M. Welling, "Auto-encoding
variational Bayes", 2013). A draw is ``mean + deviation * noise``, so that derivatives go through.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import phix
from phix import nn, ops, optim
from plotting import picture


@nn.module
class VAE:
    wide: nn.Linear
    mean: nn.Linear
    log_deviation: nn.Linear
    back: nn.Linear
    pixels: nn.Linear

    @staticmethod
    def create(key: Any, pixels: int, hidden: int, size: int) -> VAE:
        ends = [(pixels, hidden), (hidden, size), (hidden, size), (size, hidden), (hidden, pixels)]
        return VAE(*(nn.Linear.create(k, *e) for k, e in zip(phix.random.split(key, 5), ends)))

    def encode(self, images: Any) -> tuple[Any, Any]:
        """Means and logarithms of deviations [n, size] of images [n, pixels]."""
        h = ops.tanh(self.wide(images))
        return self.mean(h), self.log_deviation(h)

    def decode(self, z: Any) -> Any:
        """Logits of the pixels [n, pixels]."""
        return self.pixels(ops.tanh(self.back(z)))


def divergence(mean: Any, log_deviation: Any) -> Any:
    """KL(N(mean, deviation^2) || N(0, 1)), summed over the last axis."""
    each = mean * mean + ops.exp(2.0 * log_deviation) - 1.0 - 2.0 * log_deviation
    return 0.5 * ops.sum(each, -1)


def loss(net: VAE, images: Any, noise: Any) -> Any:
    """Minus the bound, in nats an image; pixels from 0 to 1 are taken for probabilities.

    noise [n, size] is standard normal.
    """
    mean, log_deviation = net.encode(images)
    logits = net.decode(mean + ops.exp(log_deviation) * noise)
    cost = ops.sum(ops.softplus(logits) - images * logits, -1)
    return ops.mean(cost + divergence(mean, log_deviation))


class Result(NamedTuple):
    losses: np.ndarray
    places: np.ndarray  # [images, 2]: the means
    labels: np.ndarray
    drawn: np.ndarray  # [9, 9, 8, 8]: decoded from a grid of places


def train(epochs: int = 60, hidden: int = 128, batch: int = 64) -> Result:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images = phix.to_tensor((images / 16).astype("f"))
    net = VAE.create(phix.random.key(0), 64, hidden, 2)
    optimizer, count = optim.adam(2e-3), len(labels) // batch

    @phix.jit(donate_argnums=(0, 1))
    def epoch(net: VAE, state: Any, images: Any, key: Any) -> Any:
        """All images once, in an order of its own: one program."""
        first, second = phix.random.split(key)
        order = phix.random.permutation(first, images.shape[0])[: count * batch]

        def step(carry: Any, of_step: Any) -> Any:
            (net, state), (rows, key) = carry, of_step
            noise = phix.random.normal(key, [batch, 2])
            value, grads = phix.value_and_grad(loss)(net, images[rows], noise)
            updates, state = optimizer.update(grads, state, net)
            return (optim.apply_updates(net, updates), state), value

        rows = ops.reshape(order, [count, batch])
        each = (rows, phix.random.split(second, count))
        (net, state), values = phix.scan(step, (net, state), each)
        return net, state, ops.mean(values)

    state, losses = optimizer.init(net), []
    for key in phix.random.split(phix.random.key(1), epochs):
        net, state, value = epoch(net, state, images, key)
        losses.append(value.item())
    axis = np.linspace(-2, 2, 9, dtype="f")
    z = np.stack(np.meshgrid(axis, axis[::-1]), -1).reshape(-1, 2)
    drawn = ops.sigmoid(net.decode(phix.to_tensor(z))).numpy().reshape(9, 9, 8, 8)
    return Result(np.array(losses), net.encode(images)[0].numpy(), labels, drawn)


def draw(axes: Any, result: Result) -> None:
    axes[0].imshow(np.block([list(row) for row in result.drawn]), cmap="gray_r")
    axes[0].set_axis_off()
    axes[0].set_title("Drawn from a grid of two numbers")
    axes[1].scatter(*result.places.T, c=result.labels, cmap="tab10", s=3)
    axes[1].set_title("Where digits lie, by class")


if __name__ == "__main__":
    result = train()
    print(f"bound: -{result.losses[0]:.2f} -> -{result.losses[-1]:.2f} nats an image")
    picture("vae", draw, result, columns=2)
