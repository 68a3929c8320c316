"""A variational autoencoder of digits: the evidence's lower bound, by one sample an image."""

import time

from classifier import data

import phix
from phix import nn, ops, optim


def dense(key, *widths):
    keys = phix.random.split(key, len(widths))
    layers = [nn.Linear.create(*row) for row in zip(keys, widths, widths[1:])]
    parts = [part for layer in layers for part in (layer, ops.softplus)]
    return nn.Sequential.create(*parts[:-1])


def lower_bound(model, x, noise):
    """The mean over images of log p(x | z), less the divergence of q(z | x) from a normal one."""
    encode, decode = model
    mean, log_std = ops.split_with_num(encode(x), 2, -1)
    logits = decode(mean + ops.exp(log_std) * noise)
    likely = ops.sum(x * logits - ops.softplus(logits), [1])
    away = 0.5 * ops.sum(ops.exp(2 * log_std) + mean**2 - 1 - 2 * log_std, [1])
    return ops.mean(likely - away)


def train(x, latent=4, width=64, steps=400, batch=64, rate=3e-3, seed=0):
    keys = phix.random.split(phix.random.key(seed), 3)
    size = x.shape[1]
    model = (dense(keys[0], size, width, 2 * latent), dense(keys[1], latent, width, size))
    optimizer = optim.adam(rate)

    def step(carry, key):
        model, state = carry
        rows, drawn = phix.random.split(key)
        chosen = x[phix.random.randint(rows, 0, x.shape[0], [batch])]
        noise = phix.random.normal(drawn, [batch, latent])
        value, grads = phix.value_and_grad(lambda m: -lower_bound(m, chosen, noise))(model)
        updates, state = optimizer.update(grads, state, model)
        return (optim.apply_updates(model, updates), state), -value

    run = phix.jit(lambda c: phix.scan(step, c, phix.random.split(keys[2], steps)))
    (model, _), bounds = run((model, optimizer.init(model)))
    return model, bounds


if __name__ == "__main__":
    begin = time.perf_counter()
    model, bounds = train(data()[0])
    print(f"bound {bounds[0].item():.1f} -> {bounds[-20:].mean().item():.1f} "
          f"in {time.perf_counter() - begin:.2f} s")  # fmt: skip
