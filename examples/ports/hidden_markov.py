"""A hidden Markov model by expectation and maximisation, where the expectations are gradients.

The slope of the log likelihood in the log of a probability is how often that is expected to be
used, so that the backward pass of the algorithm of Baum and Welch is reverse mode.
"""

import time

import numpy as np

import phix
from phix import ops
from phix.scipy.special import logsumexp


def log_likelihood(params, symbols):
    """log p(symbols), summed over all ways of states."""
    first, moves, shown = params

    def step(before, symbol):
        return logsumexp(ops.unsqueeze(before, [1]) + moves, 0) + shown[:, symbol], None

    last, _ = phix.scan(step, first + shown[:, symbols[0]], symbols[1:])
    return logsumexp(last)


def normalised(log_weights):
    return log_weights - logsumexp(log_weights, -1, keepdims=True)


def em_step(params, symbols):
    """The parameters in the parts of what is expected, and the log likelihood before."""
    value, expected = phix.value_and_grad(log_likelihood)(params, symbols)
    return tuple(normalised(ops.log(e)) for e in expected), value


def start(states, alphabet, seed=0):
    rng = np.random.default_rng(seed)
    shapes = [(states,), (states, states), (states, alphabet)]
    return tuple(normalised(rng.normal(size=shape)) for shape in shapes)


def fit(symbols, states=2, alphabet=3, steps=20):
    run = phix.jit(lambda p: phix.scan(lambda p, _: em_step(p, symbols), p, length=steps))
    return run(start(states, alphabet))


if __name__ == "__main__":
    begin = time.perf_counter()
    text = np.array([0, 1, 0, 1, 2, 2, 2, 0, 1, 0, 1, 0, 2, 2, 2, 2, 0, 1, 0, 1])
    (_, moves, _), values = fit(text)
    print("log likelihood", values.numpy()[[0, -1]].round(3), "moves",
          np.exp(moves.numpy()).round(3).tolist(),
          f"in {time.perf_counter() - begin:.2f} s")  # fmt: skip
