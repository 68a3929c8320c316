"""Gradients of phix inside Numba's code: each loop beside the same loop in Python.

``python examples/inside_numba.py`` prints what each finds and how many times faster it is. A loop
of Python calls a compiled gradient for some microseconds a step; inside Numba a step is a call of
native code.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import scipy.integrate
from scipy import LowLevelCallable

import phix
from phix import ops

VECTOR, NUMBER = phix.spec(["n"], "float64"), phix.spec([], "float64")
Pair = tuple[Callable[[], Any], Callable[[], Any]]  # the loop inside Numba, and in Python


def rosenbrock(x: Any) -> Any:
    return ops.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def descent(steps: int = 20_000) -> Pair:
    """Gradient descent to the minimum of Rosenbrock's function, at (1, 1)."""
    start = np.array([0.5, 0.5])
    slope = phix.numba.njit(phix.grad(rosenbrock), VECTOR)
    compiled = phix.jit(phix.grad(rosenbrock))

    @numba.njit
    def inside(x: Any) -> Any:
        for _ in range(steps):
            x = x - 1e-3 * slope(x)
        return x

    def outside() -> Any:
        x = start
        for _ in range(steps):
            x = x - 1e-3 * compiled(x).numpy()
        return x

    return lambda: inside(start), outside


def newton(steps: int = 200) -> Pair:
    """Newton's method on the same function, by its gradient and Hessian."""
    start = np.full(6, 0.8)
    slope = phix.numba.njit(phix.grad(rosenbrock), VECTOR)
    curve = phix.numba.njit(phix.hessian(rosenbrock), VECTOR)
    compiled = phix.jit(lambda x: (phix.grad(rosenbrock)(x), phix.hessian(rosenbrock)(x)))

    @numba.njit
    def inside(x: Any) -> Any:
        for _ in range(steps):
            x = x - np.linalg.solve(curve(x), slope(x))
        return x

    def outside() -> Any:
        x = start
        for _ in range(steps):
            g, h = compiled(x)
            x = x - np.linalg.solve(h.numpy(), g.numpy())
        return x

    return lambda: inside(start), outside


def hamiltonian(draws: int = 2_000, leaps: int = 10) -> Pair:
    """Hamiltonian Monte Carlo: the mean of a normal distribution with correlated parts."""
    precision = np.linalg.inv(np.array([[1.0, 0.6], [0.6, 2.0]]))
    centre = np.array([1.0, -2.0])

    def energy(x: Any) -> Any:
        return 0.5 * ops.dot(x - centre, ops.matmul(precision, x - centre))

    both = phix.numba.njit(phix.value_and_grad(energy), VECTOR)
    compiled = phix.jit(phix.value_and_grad(energy))
    random = np.random.default_rng(0)
    kicks, luck = random.standard_normal((draws, 2)), np.log(random.random(draws))

    def sampler(both: Callable[[Any], Any]) -> Callable[[], Any]:
        def sample() -> Any:
            x, total = np.zeros(2), np.zeros(2)
            for k in range(draws):
                value, slope = both(x)
                p, y = kicks[k] - 0.1 * slope, x
                before = value + 0.5 * (kicks[k] ** 2).sum()
                for leap in range(leaps):
                    y = y + 0.2 * p
                    value, slope = both(y)
                    p = p - (0.2 if leap < leaps - 1 else 0.1) * slope
                if luck[k] < before - value - 0.5 * (p**2).sum():
                    x = y
                total += x
            return total / draws

        return sample

    def plain(x: Any) -> Any:
        value, slope = compiled(x)
        return value.item(), slope.numpy()

    return numba.njit(sampler(both)), sampler(plain)


def stiff_equation(steps: int = 500) -> Pair:
    """Robertson's reaction by implicit steps: Newton's method in each, with the Jacobian."""

    def rates(y: Any) -> Any:
        a, b, c = 0.04 * y[0], 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
        return ops.stack([b - a, a - b - c, c])

    three = phix.spec([3], "float64")
    right = phix.numba.njit(rates, three)
    jacobian = phix.numba.njit(phix.jacfwd(rates), three)
    compiled = phix.jit(lambda y: (rates(y), phix.jacfwd(rates)(y)))
    h = 0.08

    @numba.njit
    def inside() -> Any:
        y = np.array([1.0, 0.0, 0.0])
        for _ in range(steps):
            z = y
            for _ in range(4):
                z = z - np.linalg.solve(np.eye(3) - h * jacobian(z), z - y - h * right(z))
            y = z
        return y

    def outside() -> Any:
        y = np.array([1.0, 0.0, 0.0])
        for _ in range(steps):
            z = y
            for _ in range(4):
                f, j = compiled(z)
                z = z - np.linalg.solve(np.eye(3) - h * j.numpy(), z - y - h * f.numpy())
            y = z
        return y

    return inside, outside


def quadrature(times: int = 20) -> Pair:
    """The integral of a derivative, by SciPy, which calls a C function."""
    slope = phix.grad(lambda x: ops.exp(-x * x) * ops.sin(8.0 * x))
    native, compiled = phix.numba.njit(slope, NUMBER), phix.jit(slope)

    @numba.cfunc("float64(float64)")
    def integrand(x: float) -> Any:
        return native(x)

    def repeated(function: Any) -> Callable[[], Any]:
        return lambda: [scipy.integrate.quad(function, 0.0, 1.0)[0] for _ in range(times)][-1]

    return repeated(LowLevelCallable(integrand.ctypes)), repeated(
        lambda x: compiled(np.float64(x)).item()
    )


EXAMPLES = (descent, newton, hamiltonian, stiff_equation, quadrature)


def main() -> None:
    for example in EXAMPLES:
        inside, outside = example()
        inside()  # compiles
        seconds = []
        for way in (inside, outside):
            start = time.perf_counter()
            found = way()
            seconds.append(time.perf_counter() - start)
        shown = np.array2string(np.asarray(found), precision=4)
        print(f"{example.__name__:15} {shown:40} {seconds[1] / seconds[0]:6.1f} times faster")


if __name__ == "__main__":
    main()
