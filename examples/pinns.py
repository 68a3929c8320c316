"""Three partial differential equations solved by networks: Laplace's, Burgers', Navier and Stokes'.

``python examples/pinns.py [--plot]``, two minutes on a CPU. Each solution is written as ``u(x) =
known(x) + zero at the boundary(x) * network(x)``, so that what is asked for at the boundary holds
whatever the network says, and the loss is the mean square of the equation's residual alone. Adam
goes first, then L-BFGS of ``phix.scipy.optimize``, both as compiled loops. Derivatives along a
direction are coefficients of Taylor series (``phix.jet``): the flow in a cavity has fourth ones.

- laplace: u_xx + u_yy = 0 on the unit square, u = sin(pi x) at y = 1 and 0 at the other sides;
  u = sin(pi x) sinh(pi y) / sinh(pi).
- burgers: u_t + u u_x = nu u_xx, u = -sin(pi x) at t = 0 and 0 at x = -1, 1; beside the formula of
  Cole and Hopf, integrated by NumPy.
- cavity: a lid drags a fluid round, at a Reynolds number of 50. With the stream function p, its
  velocity (p_y, -p_x) and its vorticity w = -p_xx - p_yy: p_y w_x - p_x w_y = (w_xx + w_yy) / 50;
  beside finite differences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import phix
from phix import nn, ops, optim
from plotting import picture

NU, REYNOLDS = 0.05 / np.pi, 50.0


def network(key: Any, hidden: int) -> nn.Sequential:
    """Two numbers to one, by three layers."""
    keys = phix.random.split(key, 4)
    sizes = [(2, hidden), (hidden, hidden), (hidden, hidden), (hidden, 1)]
    layers = [nn.Linear.create(k, *size, dtype="float64") for k, size in zip(keys, sizes)]
    return nn.Sequential.create(
        layers[0], ops.tanh, layers[1], ops.tanh, layers[2], ops.tanh, layers[3]
    )


def along(u: Callable[..., Any], x: Any, direction: Any, order: int) -> list[Any]:
    """u and its derivatives up to an order along a direction, each [n], at points [n, 2]."""
    step = ops.expand(phix.to_tensor(direction, dtype=x.dtype), x.shape)
    value, more = phix.jet(u, (x,), ([step] + [None] * (order - 1),))
    return [value, *more]


# -- the equations: what is to be 0 at points [n, 2], of a function of them ------------------------
def laplace(u: Callable[..., Any], x: Any) -> Any:
    return along(u, x, (1.0, 0.0), 2)[2] + along(u, x, (0.0, 1.0), 2)[2]


def burgers(u: Callable[..., Any], tx: Any) -> Any:
    value, slope, curve = along(u, tx, (0.0, 1.0), 2)
    return along(u, tx, (1.0, 0.0), 1)[1] + value * slope - NU * curve


def cavity(p: Callable[..., Any], x: Any) -> Any:
    """Mixed derivatives come of those along the axes and along both diagonals."""
    _, p_x, _, p_xxx, p_xxxx = along(p, x, (1.0, 0.0), 4)
    _, p_y, _, p_yyy, p_yyyy = along(p, x, (0.0, 1.0), 4)
    *_, up3, up4 = along(p, x, (1.0, 1.0), 4)
    *_, down3, down4 = along(p, x, (1.0, -1.0), 4)
    w_x = -(p_xxx + (up3 + down3 - 2.0 * p_xxx) / 6.0)
    w_y = -(p_yyy + (up3 - down3 - 2.0 * p_yyy) / 6.0)
    spread = -((p_xxxx + p_yyyy) * (2.0 / 3.0) + (up4 + down4) / 6.0)
    return p_y * w_x - p_x * w_y - spread / REYNOLDS


class Problem(NamedTuple):
    """What is solved: residual, the part that is known, what is 0 at the boundary, the corners."""

    residual: Callable[..., Any]
    known: Callable[..., Any]
    bubble: Callable[..., Any]
    low: tuple[float, float]
    high: tuple[float, float]

    def solution(self, net: Any) -> Callable[..., Any]:
        """u [n] of points [n, 2]."""
        return lambda x: self.known(*x.T) + self.bubble(*x.T) * net(x)[:, 0]

    def loss(self, net: Any, points: Any) -> Any:
        return ops.mean(self.residual(self.solution(net), points) ** 2)


PROBLEMS = {
    "laplace": Problem(
        laplace,
        lambda x, y: y * ops.sin(np.pi * x),
        lambda x, y: x * (1.0 - x) * y * (1.0 - y),
        (0.0, 0.0),
        (1.0, 1.0),
    ),
    "burgers": Problem(
        burgers,
        lambda t, x: -ops.sin(np.pi * x),
        lambda t, x: t * (1.0 - x * x),
        (0.0, -1.0),
        (1.0, 1.0),
    ),
    # the lid moves at 16 x^2 (1 - x)^2, so that it is at rest where it meets the walls
    "cavity": Problem(
        cavity,
        lambda x, y: 16.0 * (x * (1.0 - x) * y) ** 2 * (y - 1.0),
        lambda x, y: 16.0 * (x * (1.0 - x) * y * (1.0 - y)) ** 2,
        (0.0, 0.0),
        (1.0, 1.0),
    ),
}


# -- solving ---------------------------------------------------------------------------------------
def solve(
    problem: Problem, adam: int = 500, lbfgs: int = 1000, hidden: int = 20, points: int = 600
) -> tuple[Any, np.ndarray]:
    """A trained network, and the losses after each step of Adam and at the end of L-BFGS."""
    first, second = phix.random.split(phix.random.key(0))
    net = network(first, hidden)
    spread = phix.random.uniform(second, [points, 2], "float64", 0.0, 1.0)
    x = spread * (np.array(problem.high) - problem.low) + np.array(problem.low)
    optimizer = optim.adam(5e-3)

    def step(carry: Any, _: Any) -> Any:
        net, state = carry
        value, grads = phix.value_and_grad(problem.loss)(net, x)
        updates, state = optimizer.update(grads, state, net)
        return (optim.apply_updates(net, updates), state), value

    (net, _), losses = phix.jit(lambda c: phix.scan(step, c, None, length=adam))(
        (net, optimizer.init(net))
    )
    options = {"maxiter": lbfgs, "gtol": 0.0, "ftol": 0.0, "maxcor": 20}
    found = phix.jit(
        lambda net: phix.scipy.optimize.minimize(
            lambda net: problem.loss(net, x), net, method="l-bfgs", options=options
        )
    )(net)
    return found.x, np.append(losses.numpy(), found.fun.item())


def grid(problem: Problem, n: int) -> np.ndarray:
    """Points [n, n, 2] between the corners, which are among them."""
    axes = [np.linspace(a, b, n) for a, b in zip(problem.low, problem.high)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1)


# -- what others say -------------------------------------------------------------------------------
def laplace_exact(x: np.ndarray) -> np.ndarray:
    return np.sin(np.pi * x[..., 0]) * np.sinh(np.pi * x[..., 1]) / np.sinh(np.pi)


def burgers_exact(tx: np.ndarray) -> np.ndarray:
    """A mean of -sin(pi y) by weights exp(-cos(pi y) / (2 pi nu)), y spread normally around x."""
    z, weights = np.polynomial.hermite.hermgauss(120)
    y = tx[..., 1:] - 2.0 * np.sqrt(NU * tx[..., :1]) * z
    powers = -np.cos(np.pi * y) / (2.0 * np.pi * NU)
    weights = weights * np.exp(powers - powers.max(-1, keepdims=True))
    return -(np.sin(np.pi * y) * weights).sum(-1) / weights.sum(-1)


def cavity_by_differences(n: int, rounds: int = 12) -> np.ndarray:
    """The stream function on [n, n] points: the vorticity's equation in p alone, on the walls as
    far inside as outside, each round with the velocity of the one before."""
    from scipy import sparse
    from scipy.sparse.linalg import spsolve

    h, x = 1.0 / (n - 1), np.linspace(0.0, 1.0, n)
    inside = (slice(1, -1), slice(1, -1))
    one, first, last = sparse.eye(n), sparse.eye(n, k=-1), sparse.eye(n, k=1)
    second = (first - 2.0 * one + last) / h**2
    slope = (last - first) / (2.0 * h)
    laplacian = sparse.kron(second, one) + sparse.kron(one, second)
    d_x, d_y = sparse.kron(slope, one), sparse.kron(one, slope)
    wall = np.ones((n, n))
    wall[inside] = 0.0
    # the vorticity at a wall, from p = 0 there and its slope (Thom): -2 (p of the neighbour) / h^2
    neighbours = sparse.lil_matrix((n * n, n * n))
    for i, j in np.argwhere(wall):
        a, b = np.clip([i, j], 1, n - 2)
        neighbours[i * n + j, a * n + b] = -2.0 / h**2
    lid = np.zeros((n, n))
    lid[:, -1] = -2.0 * 16.0 * (x * (1.0 - x)) ** 2 / h
    keep, edge = sparse.diags(1.0 - wall.ravel()), sparse.diags(wall.ravel())
    p = np.zeros(n * n)
    for _ in range(rounds):
        moved = sparse.diags(d_y @ p) @ d_x - sparse.diags(d_x @ p) @ d_y
        system = sparse.bmat(  # unknowns: p and w
            [
                [edge + keep @ laplacian, keep],
                [-neighbours, edge + keep @ (moved - laplacian / REYNOLDS)],
            ]
        )
        p = spsolve(system.tocsc(), np.concatenate([np.zeros(n * n), lid.ravel()]))[: n * n]
    return p.reshape(n, n)


def compared(name: str, n: int = 41, **how: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The losses, the network's values on a grid and those it is to have."""
    problem = PROBLEMS[name]
    net, losses = solve(problem, **how)
    x = grid(problem, n)
    found = problem.solution(net)(x.reshape(-1, 2)).numpy().reshape(n, n)
    exact = {"laplace": laplace_exact, "burgers": burgers_exact}
    return losses, found, exact[name](x) if name in exact else cavity_by_differences(n)


def draw(axes: Any, fields: dict[str, tuple[np.ndarray, float]]) -> None:
    for ax, (name, (field, error)) in zip(axes, fields.items()):
        problem = PROBLEMS[name]
        extent = (problem.low[0], problem.high[0], problem.low[1], problem.high[1])
        shown = {"origin": "lower", "extent": extent, "aspect": "auto"}
        ax.imshow(field.T, cmap="RdBu_r" if name == "burgers" else "viridis", **shown)
        ax.contour(field.T, 12, colors="white", linewidths=0.6, extent=extent)
        ax.set_title(f"{name}: error {error:.1e}")
        ax.set(xlabel="t" if name == "burgers" else "x", ylabel="x" if name == "burgers" else "y")


if __name__ == "__main__":
    fields = {}
    for name in PROBLEMS:
        losses, found, exact = compared(name)
        error = float(np.linalg.norm(found - exact) / np.linalg.norm(exact))
        fields[name] = found, error
        print(f"{name}: loss {losses[0]:.1e}, {losses[-2]:.1e} by Adam, {losses[-1]:.1e} by L-BFGS")
        print(f"  relative L2 error {error:.1e}")
    picture("pinns", draw, fields, columns=3)
