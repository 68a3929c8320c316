"""Programs that step a state through time: ordinary and partial differential equations, particles.

Each function says where the program is known from; sizes are points, bodies or steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.published import Library, program


@program("lorenz: ensemble by RK4", 64, 1, 1000, tolerance=1e-4)
def lorenz(lib: Library, n: int) -> Any:
    """Lorenz 1963: n trajectories of 200 steps, with the classical Runge-Kutta method."""
    x = lib.np

    def slope(state: Any) -> Any:
        a, b, c = state
        return x.stack([10.0 * (b - a), a * (28.0 - c) - b, a * b - 8.0 / 3.0 * c])

    def step(state: Any, _: Any) -> Any:
        dt = 0.01
        k1 = slope(state)
        k2 = slope(state + 0.5 * dt * k1)
        k3 = slope(state + 0.5 * dt * k2)
        k4 = slope(state + dt * k3)
        state = state + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        return state, state[2]

    start = np.random.default_rng(0).uniform(-1.0, 1.0, (3, n)) + np.array([[1.0], [1.0], [25.0]])
    return lambda s: lib.lax.scan(step, s, None, length=200), (start,)


@program("gravity: leapfrog and its gradient", 32, 7, 100)
def gravity(lib: Library, n: int) -> Any:
    """n bodies, softened: the energy after 20 leapfrog steps, with gradient in the positions."""
    x = lib.np

    def accelerations(q: Any, mass: Any) -> Any:
        apart = q[None, :, :] - q[:, None, :]
        near = x.sum(apart * apart, axis=-1) + 0.01
        return x.sum(mass[None, :, None] * apart * near[:, :, None] ** -1.5, axis=1)

    def final_energy(q: Any, p: Any, mass: Any) -> Any:
        def step(_: Any, state: Any) -> Any:
            q, p = state
            p = p + 0.005 * accelerations(q, mass)
            q = q + 0.01 * p
            return q, p + 0.005 * accelerations(q, mass)

        q, p = lib.lax.fori_loop(0, 20, step, (q, p))
        return 0.5 * x.sum(mass[:, None] * p * p) + x.sum(q * q)

    rng = np.random.default_rng(0)
    q, p, mass = rng.normal(size=(n, 3)), rng.normal(size=(n, 3)), rng.uniform(0.5, 1.0, n)
    return lib.fx.value_and_grad(final_energy), (q, p, mass)
