"""What phix makes of a function: its second derivative, and the primitives of two activations."""

from __future__ import annotations

import numpy as np

import phix
from phix import ops


def f(x: phix.Tensor) -> phix.Tensor:
    """x sin(x), whose second derivative is 2 cos(x) - x sin(x)."""
    return x * ops.sin(x)


def second_derivative() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points, ``grad(grad(f))`` there, and the closed form."""
    x = np.linspace(-2.0, 2.0, 5)
    found = phix.vmap(phix.grad(phix.grad(f)))(x)
    return x, found.numpy(), 2 * np.cos(x) - x * np.sin(x)


def main() -> float:
    """Print graphs and values; the result is the largest error of the second derivative."""
    print("f(x) = x sin(x); the graph of grad(grad(f)):\n")
    print(phix.make_graph(phix.grad(phix.grad(f)))(phix.spec([], "float64")))
    x, found, exact = second_derivative()
    print("\n      x    grad(grad(f))(x)   2 cos(x) - x sin(x)")
    for row in zip(x, found, exact):
        print("{:7.2f}  {:18.15f}  {:20.15f}".format(*row))
    print("\ndecompose(gelu), in primitives alone:\n")
    print(phix.decompose(ops.gelu)(phix.spec(["n", 4])))
    print("\ndecompose(log_softmax), for any number of rows n:\n")
    print(phix.decompose(ops.log_softmax)(phix.spec(["n", 10])))
    return float(np.abs(found - exact).max())


if __name__ == "__main__":
    main()
