"""A network of dense layers learns digits by momentum, in batches that a key draws."""

import time

import phix
from phix import nn, ops, optim


def loss(model, x, y):
    """The mean of -log p(y)."""
    return -ops.mean(ops.take_along_axis(ops.log_softmax(model(x)), y[:, None], 1))


def accuracy(model, x, y):
    return ops.mean(ops.argmax(model(x), 1) == y)


def train(x, y, widths=(64, 64, 10), steps=300, batch=64, rate=0.1, seed=0):
    keys = phix.random.split(phix.random.key(seed), len(widths))
    dense = [nn.Linear.create(*row) for row in zip(keys, (x.shape[1], *widths), widths)]
    layers = [part for layer in dense for part in (layer, ops.tanh)]
    model, optimizer = nn.Sequential.create(*layers[:-1]), optim.sgd(rate, momentum=0.9)

    def step(carry, key):
        model, state = carry
        rows = phix.random.randint(key, 0, x.shape[0], [batch])
        grads = phix.grad(loss)(model, x[rows], y[rows])
        updates, state = optimizer.update(grads, state, model)
        return (optim.apply_updates(model, updates), state), None

    run = phix.jit(lambda carry: phix.scan(step, carry, phix.random.split(keys[-1], steps))[0])
    return run((model, optimizer.init(model)))[0]


def data():
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return phix.to_tensor((x / 16).astype("float32")), phix.to_tensor(y)


if __name__ == "__main__":
    begin = time.perf_counter()
    x, y = data()
    model = train(x[:1500], y[:1500])
    print(f"right {accuracy(model, x[1500:], y[1500:]).item():.3f} of those it has not seen, "
          f"in {time.perf_counter() - begin:.2f} s")  # fmt: skip
