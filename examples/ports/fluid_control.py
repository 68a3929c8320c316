"""Smoke in a fluid: the flow at the start is found that carries it into a given picture.

J. Stam's steps, "Stable fluids", 1999, on a torus: what flows is carried along backwards, and the
part of the flow that would thin or press it is taken off, here by Fourier's transform.
"""

import time

import numpy as np

import phix
import phix.numpy as pn
from phix.scipy.optimize import minimize


def incompressible(flow):
    """The flow, [2, n, n], less the gradient that has its divergence."""
    n = flow.shape[1]
    waves = pn.fft.fft2(flow)
    k = pn.stack(pn.meshgrid(pn.fft.fftfreq(n), pn.fft.fftfreq(n), indexing="ij"))
    square = pn.where(pn.sum(k**2, 0) == 0, 1.0, pn.sum(k**2, 0))
    return pn.real(pn.fft.ifft2(waves - k * (pn.sum(k * waves, 0) / square)))


def carried(field, flow):
    """What stands at each point a step later: the field where it came from, between four points."""
    n = field.shape[0]
    grid = pn.stack(pn.meshgrid(pn.arange(n), pn.arange(n), indexing="ij"))
    x, y = grid - flow
    left, low = pn.floor(x), pn.floor(y)
    right, up = x - left, y - low
    i, j = left.astype("int64") % n, low.astype("int64") % n
    above, beside = (i + 1) % n, (j + 1) % n
    return ((1 - right) * ((1 - up) * field[i, j] + up * field[i, beside])
            + right * ((1 - up) * field[above, j] + up * field[above, beside]))  # fmt: skip


def simulate(flow, smoke, steps):
    def step(carry, _):
        flow, smoke = carry
        flow = incompressible(pn.stack([carried(flow[0], flow), carried(flow[1], flow)]))
        return (flow, carried(smoke, flow)), smoke

    (_, smoke), films = phix.scan(step, (incompressible(flow), smoke), length=steps)
    return smoke, films


def control(smoke, target, steps=20, rounds=25):
    def distance(flow):
        return pn.mean((target - simulate(flow, smoke, steps)[0]) ** 2)

    still = pn.zeros((2, *smoke.shape), smoke.dtype)
    return phix.jit(lambda x: minimize(distance, x, method="l-bfgs", options={"maxiter": rounds}))(
        still
    )


def pictures(n=24):
    """A blob at one side, and a ring."""
    x, y = np.meshgrid(*(np.linspace(-1, 1, n, endpoint=False),) * 2, indexing="ij")
    return np.exp(-8 * (x**2 + (y + 0.4) ** 2)), np.exp(-40 * (np.hypot(x, y) - 0.5) ** 2)


if __name__ == "__main__":
    begin = time.perf_counter()
    smoke, target = pictures()
    found = control(smoke, target)
    print(f"distance {np.mean((smoke - target) ** 2):.4f} -> {found.fun.item():.4f} "
          f"in {time.perf_counter() - begin:.2f} s")  # fmt: skip
