"""Independent component analysis: weights, latent numbers and the noise of Student's distribution
are found together, by quasi-Newton steps on the likelihood of what was seen."""

import time

import numpy as np

import phix
from phix.scipy.optimize import minimize
from phix.scipy.stats import t


def predict(params):
    return params["latents"].T @ params["weights"].T


def log_likelihood(params, seen):
    return t.logpdf(predict(params), 2.4, seen, phix.ops.exp(params["log_noise"])).sum()


def fit(seen, components, rounds=100, seed=0):
    rng = np.random.default_rng(seed)
    count, width = seen.shape
    begin = {
        "weights": rng.normal(size=(width, components)),
        "latents": rng.normal(size=(components, count)),
        "log_noise": np.array(rng.normal()),
    }

    def loss(params):
        return -log_likelihood(params, seen) / count

    run = phix.jit(lambda p: minimize(loss, p, method="l-bfgs", options={"maxiter": rounds}))
    return run(begin)


def data(width=100, count=200, noise=1.0, seed=0):
    rng = np.random.default_rng(seed)
    weights = np.sin(np.linspace([0.0, 0.0], [4.0, 7.2], width))
    clean = rng.normal(size=(count, 2)) @ weights.T
    return clean, clean + noise * rng.normal(size=clean.shape)


if __name__ == "__main__":
    begin = time.perf_counter()
    clean, seen = data()
    found = fit(seen, 2)
    left = np.mean((predict(found.x).numpy() - clean) ** 2) / np.mean((seen - clean) ** 2)
    print(f"log likelihood {-found.fun.item():.3f}, of the noise {left:.1%} is left, "
          f"in {time.perf_counter() - begin:.2f} s")  # fmt: skip
