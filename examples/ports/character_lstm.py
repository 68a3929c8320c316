"""An LSTM learns a text, letter by letter, and writes on."""

import time

import numpy as np

import phix
from phix import nn, ops, optim

TEXT = "the quick brown fox jumps over the lazy dog and the dog sleeps on. " * 4


def loss(model, codes):
    """The mean of -log p(next letter) over a batch of pieces of text."""
    layers, head = model
    hidden, _ = layers(ops.one_hot(codes[:, :-1], head.weight.shape[1]))
    chances = ops.log_softmax(head(hidden))
    return -ops.mean(ops.take_along_axis(chances, codes[:, 1:, None], 2))


def train(codes, letters, hidden=48, length=24, steps=200, rate=2e-2, seed=0):
    keys = phix.random.split(phix.random.key(seed), 3)
    model = (nn.LSTM.create(keys[0], letters, hidden), nn.Linear.create(keys[1], hidden, letters))
    optimizer = optim.chain(optim.clip_by_global_norm(1.0), optim.adam(rate))

    def step(carry, key):
        model, state = carry
        first = phix.random.randint(key, 0, len(codes) - length, [16, 1])
        value, grads = phix.value_and_grad(loss)(model, codes[first + phix.arange(length)])
        updates, state = optimizer.update(grads, state, model)
        return (optim.apply_updates(model, updates), state), value

    run = phix.jit(lambda c: phix.scan(step, c, phix.random.split(keys[2], steps)))
    (model, _), values = run((model, optimizer.init(model)))
    return model, values


def write(model, start, count):
    """The likeliest letters behind those of ``start``."""
    layers, head = model
    width = head.weight.shape[1]

    def step(carry, _):
        state, code = carry
        out, state = layers(ops.one_hot(code[None, None], width), state)
        code = ops.argmax(head(out)[0, 0])
        return (state, code), code

    _, state = layers(ops.one_hot(start[None, :-1], width))
    return phix.jit(lambda s, c: phix.scan(step, (s, c), length=count)[1])(state, start[-1])


if __name__ == "__main__":
    begin = time.perf_counter()
    alphabet = sorted(set(TEXT))
    codes = phix.to_tensor(np.array([alphabet.index(c) for c in TEXT]))
    model, values = train(codes, len(alphabet))
    text = "".join(alphabet[i] for i in write(model, codes[:10], 57).tolist())
    print(
        f"{TEXT[:10]}|{text}\nloss {values[-1].item():.3f} in {time.perf_counter() - begin:.2f} s"
    )
