"""A residual network on images of digits: augmentation by keys, running statistics as a state.

``python examples/resnet.py [--plot]`` trains it (a minute; the images are from scikit-learn). It
shows three things: ``augmented`` is written for one image and a key, and ``vmap`` makes it one for
batches; the running statistics of batch norm are a tree that goes in and comes out; and ``memory``
says what a gradient needs where batch norm is one op whose backward pass is known, beside the same
formula written out, of which derivatives keep more on the way.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import phix
from phix import nn, ops, optim
from plotting import picture


# -- images ----------------------------------------------------------------------------------------
def augmented(key: Any, image: Any, room: int = 2, mirrored: float = 0.0) -> Any:
    """The image [channels, height, width] moved by up to ``room`` pixels, and zeros where it was
    not; mirrored with that probability (not for digits, which become others)."""
    first, second = phix.random.split(key)
    down, right = phix.random.randint(first, 0, 2 * room + 1, [2])
    _, height, width = image.shape
    wide = nn.functional.pad(image, [0, 0, room, room, room, room])
    moved = wide[:, down + phix.arange(height)][:, :, right + phix.arange(width)]
    is_mirrored = phix.random.uniform(second, []) < mirrored
    return ops.where(is_mirrored, ops.flip(moved, [-1]), moved)


def augmented_batch(key: Any, images: Any, **how: Any) -> Any:
    """Each image by a key of its own."""
    keys = phix.random.split(key, images.shape[0])
    return phix.vmap(lambda k, image: augmented(k, image, **how))(keys, images)


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Digits of 16 x 16 pixels, [n, 1, 16, 16], and labels: 1497 to train on, 300 to test on."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    large = images.reshape(-1, 1, 8, 8).repeat(2, 2).repeat(2, 3).astype("f") / 16
    order = np.random.default_rng(0).permutation(len(labels))
    test, rest = order[:300], order[300:]
    return large[rest], labels[rest], large[test], labels[test]


# -- the network -----------------------------------------------------------------------------------
@nn.module
class Block:
    """relu(x + f(x)), f two convolutions with norms; x has one too where sizes change."""

    convs: tuple[nn.Conv2d, ...]
    norms: tuple[nn.BatchNorm, ...]

    @staticmethod
    def create(key: Any, inputs: int, outputs: int, stride: int) -> Block:
        keys = phix.random.split(key, 3)
        convs = [
            nn.Conv2d.create(keys[0], inputs, outputs, 3, stride=stride, padding=1, bias=False),
            nn.Conv2d.create(keys[1], outputs, outputs, 3, padding=1, bias=False),
        ]
        if (inputs, stride) != (outputs, 1):
            convs.append(nn.Conv2d.create(keys[2], inputs, outputs, 1, stride=stride, bias=False))
        return Block(tuple(convs), tuple(nn.BatchNorm.create(outputs) for _ in convs))

    def __call__(self, x: Any, states: Any, training: bool, norm: Any) -> tuple[Any, Any]:
        new = list(states)
        y = x
        for n in range(2):
            y, new[n] = norm(self.norms[n], self.convs[n](y), states[n], training)
            y = ops.relu(y) if n == 0 else y
        if len(self.convs) == 3:
            x, new[2] = norm(self.norms[2], self.convs[2](x), states[2], training)
        return ops.relu(x + y), new


def whole(layer: nn.BatchNorm, x: Any, state: Any, training: bool) -> tuple[Any, Any]:
    """Batch norm as one op."""
    return layer(x, state, training)


def written_out(layer: nn.BatchNorm, x: Any, state: Any, training: bool) -> tuple[Any, Any]:
    """Batch norm from its formula; in training alone, and without new statistics."""
    mean = ops.mean(x, [0, 2, 3], keepdim=True)
    variance = ops.mean((x - mean) ** 2, [0, 2, 3], keepdim=True)
    y = (x - mean) / ops.sqrt(variance + layer.epsilon)
    return y * layer.weight[:, None, None] + layer.bias[:, None, None], state


@nn.module
class ResNet:
    """Scores [n, 10] of images [n, 1, height, width], and the new states of the norms."""

    first: nn.Conv2d
    blocks: tuple[Block, ...]
    scores: nn.Linear

    @staticmethod
    def create(key: Any, widths: tuple[int, ...] = (16, 16, 32, 64)) -> ResNet:
        keys = phix.random.split(key, len(widths) + 1)
        blocks = tuple(
            Block.create(k, a, b, 1 if a == b else 2)
            for k, a, b in zip(keys[2:], widths, widths[1:])
        )
        first = nn.Conv2d.create(keys[0], 1, widths[0], 3, padding=1)
        return ResNet(first, blocks, nn.Linear.create(keys[1], widths[-1], 10))

    def init_states(self) -> list[list[nn.BatchNormState]]:
        return [[norm.init_state() for norm in block.norms] for block in self.blocks]

    def __call__(self, x: Any, states: Any, training: bool, norm: Any = whole) -> tuple[Any, Any]:
        x, new = ops.relu(self.first(x)), []
        for block, state in zip(self.blocks, states):
            x, after = block(x, state, training, norm)
            new.append(after)
        return self.scores(ops.mean(x, [2, 3])), new


def loss(net: ResNet, states: Any, images: Any, labels: Any, norm: Any = whole) -> tuple[Any, Any]:
    scores, states = net(images, states, True, norm)
    return nn.functional.cross_entropy(scores, labels), states


# -- training --------------------------------------------------------------------------------------
class Result(NamedTuple):
    losses: np.ndarray  # one a step
    accuracy: float  # on the test images


def train(epochs: int = 8, batch: int = 64, widths: tuple[int, ...] = (16, 16, 32, 64)) -> Result:
    images, labels, test_images, test_labels = data()
    steps = epochs * (len(images) // batch)
    net = ResNet.create(phix.random.key(0), widths)
    optimizer = optim.adamw(optim.cosine_decay_schedule(3e-3, steps), weight_decay=1e-3)

    @phix.jit(donate_argnums=(0, 1, 2))
    def step(net: ResNet, moments: Any, states: Any, key: Any, images: Any, labels: Any) -> Any:
        gradient = phix.value_and_grad(loss, has_aux=True)
        (value, states), grads = gradient(net, states, augmented_batch(key, images), labels)
        updates, moments = optimizer.update(grads, moments, net)
        return optim.apply_updates(net, updates), moments, states, value

    moments, states, losses = optimizer.init(net), net.init_states(), []
    order = np.random.default_rng(1)
    for number, key in enumerate(phix.random.split(phix.random.key(1), steps)):
        if number % (len(images) // batch) == 0:
            rows = order.permutation(len(images))
        taken, rows = rows[:batch], rows[batch:]
        net, moments, states, value = step(net, moments, states, key, images[taken], labels[taken])
        losses.append(value.item())
    scores, _ = phix.jit(lambda net, states, x: net(x, states, False))(net, states, test_images)
    return Result(np.array(losses), float((scores.numpy().argmax(1) == test_labels).mean()))


def memory(batch: int = 128, widths: tuple[int, ...] = (32,) * 7) -> dict[str, int]:
    """The bytes that a gradient needs at its peak, arguments too, by how batch norm is written:
    ``jit(f).lower(...).memory_analysis()`` plans them, nothing is run."""
    net = ResNet.create(phix.random.key(0), widths)
    args = (net, net.init_states(), phix.spec([batch, 1, 16, 16]), phix.spec([batch], "int64"))
    found = {}
    for norm in (whole, written_out):
        gradient = phix.grad(lambda *a, norm=norm: loss(*a, norm)[0])
        planned = phix.jit(gradient).lower(*args).memory_analysis()
        found[norm.__name__] = planned.peak_memory_in_bytes
    return found


def draw(axes: Any, result: Result, needed: dict[str, int]) -> None:
    axes[0].semilogy(result.losses, color="#d1495b", linewidth=0.8)
    axes[0].set(xlabel="step", ylabel="cross entropy")
    axes[0].set_title(f"ResNet: {result.accuracy:.1%} of test images right")
    axes[1].bar(list(needed), [size / 2**20 for size in needed.values()], width=0.5)
    axes[1].set(ylabel="MiB", title="Memory of a gradient, by batch norm")


if __name__ == "__main__":
    needed = memory()
    for name, size in needed.items():
        print(f"a gradient with batch norm {name}: {size / 2**20:.1f} MiB")
    result = train()
    print(f"test accuracy {result.accuracy:.1%}")
    picture("resnet", draw, result, needed, columns=2)
