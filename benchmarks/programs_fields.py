"""Programs that step grids through time: automata, waves, flows, reactions.

Each function says where the program is known from; sizes are cells a side.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.published import Library, program


@program("ising: Metropolis on a checkerboard", 64, 7, 200)
def ising(lib: Library, n: int) -> Any:
    """Metropolis sampling of the two-dimensional Ising model, 10 sweeps of two colours."""
    x = lib.np

    def sweep(carry: Any, key: Any) -> Any:
        spins, beta = carry
        colour = (x.arange(n)[:, None] + x.arange(n)[None, :]) % 2
        for turn, part in enumerate(lib.random.split(key)):
            around = sum(x.roll(spins, s, a) for s in (1, -1) for a in (0, 1))
            accept = x.exp(-2.0 * beta * (spins * around).astype("float32"))
            drawn = lib.random.uniform(part, (n, n), "float32")
            spins = x.where((colour == turn) & (drawn < accept), -spins, spins)
        return (spins, beta), x.mean(spins.astype("float32"))

    def run(spins: Any, beta: Any) -> Any:
        keys = lib.random.split(lib.random.key(1), 10)
        (spins, _), magnetisation = lib.lax.scan(sweep, (spins, beta), keys)
        return spins, magnetisation

    spins = np.random.default_rng(0).choice([-1, 1], (n, n)).astype(np.int32)
    return run, (spins, np.float32(0.44))


@program("life: 50 generations on a torus", 128, 31, 500)
def life(lib: Library, n: int) -> Any:
    """Conway's game of life (Gardner 1970), neighbours counted by rolling the board."""
    x = lib.np

    def generation(_: Any, board: Any) -> Any:
        moves = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
        count = sum(x.roll(board, move, (0, 1)) for move in moves)
        return ((count == 3) | ((board == 1) & (count == 2))).astype(board.dtype)

    board = (np.random.default_rng(0).random((n, n)) < 0.3).astype(np.int32)
    return lambda b: lib.lax.fori_loop(0, 50, generation, b), (board,)


@program("rule 110: a table of three neighbours", 1000, 37, 10000)
def rule_110(lib: Library, n: int) -> Any:
    """Wolfram's elementary automaton 110 (Cook 2004), every generation kept, by a table."""
    x = lib.np

    def generation(cells: Any, _: Any) -> Any:
        table = x.asarray((110 >> np.arange(8)) & 1)
        cells = table[4 * x.roll(cells, 1) + 2 * cells + x.roll(cells, -1)]
        return cells, cells

    cells = np.random.default_rng(0).integers(0, 2, n)
    return lambda c: lib.lax.scan(generation, c, None, length=100)[1], (cells,)


@program("lattice Boltzmann: flow past a cylinder", 50, 11, 120, tolerance=1e-4)
def lattice_boltzmann(lib: Library, n: int) -> Any:
    """Mocz, Create Your Own Lattice Boltzmann Simulation: D2Q9, n by 4 n cells, 10 steps."""
    x = lib.np
    cx = np.array([0, 0, 1, 1, 1, 0, -1, -1, -1])
    cy = np.array([0, 1, 1, 0, -1, -1, -1, 0, 1])
    weights = np.array([4 / 9] + [1 / 9, 1 / 36] * 4).astype(np.float32)[
        [0, 1, 2, 1, 2, 1, 2, 1, 2]
    ]
    opposite = np.array([0, 5, 6, 7, 8, 1, 2, 3, 4])
    rows, columns = np.meshgrid(np.arange(n), np.arange(4 * n), indexing="ij")
    cylinder = (columns - n) ** 2 + (rows - n / 2) ** 2 < (n / 4) ** 2

    def step(_: Any, f: Any) -> Any:
        parts = zip(range(9), cx, cy)
        f = x.stack([x.roll(f[:, :, i], (int(b), int(a)), (0, 1)) for i, a, b in parts], -1)
        bounced = f[:, :, opposite]
        rho = x.sum(f, 2)
        ux, uy = (x.sum(f * c.astype(np.float32), 2) / rho for c in (cx, cy))
        wall = x.asarray(cylinder)
        ux, uy = x.where(wall, 0.0, ux), x.where(wall, 0.0, uy)
        along = ux[..., None] * cx.astype(np.float32) + uy[..., None] * cy.astype(np.float32)
        square = (ux**2 + uy**2)[..., None]
        rest = rho[..., None] * weights * (1 + 3 * along + 4.5 * along**2 - 1.5 * square)
        f = f + (rest - f) / 0.6
        return x.where(wall[..., None], bounced, f)

    f = np.ones((n, 4 * n, 9)) + 0.01 * np.random.default_rng(42).normal(size=(n, 4 * n, 9))
    f[:, :, 3] += 2.0 * (1.0 + 0.2 * np.cos(2 * np.pi * columns / (4 * n) * 4))
    f *= 100.0 / f.sum(2, keepdims=True)
    return lambda f: lib.lax.fori_loop(0, 10, step, f), (f.astype(np.float32),)


@program("burgers: gradient in the initial state", 200, 17, 2000)
def burgers(lib: Library, n: int) -> Any:
    """Burgers' equation, conservative upwind (LeVeque 2002, ch. 11): 100 steps to a target."""
    x = lib.np
    dx = 2.0 * np.pi / n

    def misfit(u: Any, viscosity: Any, target: Any) -> Any:
        def step(u: Any, _: Any) -> Any:
            right, left = x.roll(u, -1), x.roll(u, 1)
            flux = 0.5 * x.where(u + right > 0.0, u, right) ** 2
            bend = (right - 2.0 * u + left) / dx**2
            return u + dt * (viscosity * bend - (flux - x.roll(flux, 1)) / dx), None

        dt = 0.2 * dx
        u, _ = lib.lax.scan(step, u, None, length=100)
        return x.mean((u - target) ** 2)

    at = np.arange(n) * dx
    args = np.sin(at) + 1.5, np.float64(0.3 * dx), np.cos(at)
    return lib.fx.value_and_grad(misfit, argnums=(0, 1)), args


@program("sod: shock tube until a time", 400, 23, 3000)
def sod(lib: Library, n: int) -> Any:
    """Sod 1978: Euler's equations, slopes by minmod and Rusanov's flux (Toro 2009, ch. 10, 14)."""
    x = lib.np
    gamma, dx = 1.4, 1.0 / n

    def primitive(u: Any) -> Any:
        rho, momentum, energy = u
        speed = momentum / rho
        return rho, speed, (gamma - 1.0) * (energy - 0.5 * rho * speed**2)

    def flux(u: Any) -> Any:
        rho, speed, pressure = primitive(u)
        return x.stack([rho * speed, rho * speed**2 + pressure, speed * (u[2] + pressure)])

    def fastest(u: Any) -> Any:
        rho, speed, pressure = primitive(u)
        return x.abs(speed) + x.sqrt(gamma * pressure / rho)

    def step(state: Any) -> Any:
        u, now = state
        dt = x.minimum(0.4 * dx / x.max(fastest(u)), 0.2 - now)
        wide = x.pad(u, ((0, 0), (2, 2)), mode="edge")
        ahead = x.diff(wide, axis=1)
        a, b = ahead[:, :-1], ahead[:, 1:]
        slope = x.where(a * b > 0.0, x.sign(a) * x.minimum(x.abs(a), x.abs(b)), 0.0)
        left, right = (wide[:, 1:-1] + 0.5 * slope)[:, :-1], (wide[:, 1:-1] - 0.5 * slope)[:, 1:]
        strength = x.maximum(fastest(left), fastest(right))
        through = 0.5 * (flux(left) + flux(right)) - 0.5 * strength * (right - left)
        return u - dt / dx * (through[:, 1:] - through[:, :-1]), now + dt

    def run(u: Any) -> Any:
        return lib.lax.while_loop(lambda state: state[1] < 0.02, step, (u, 0.0 * u[0, 0]))

    left = (np.arange(n) + 0.5) * dx < 0.5
    rho, pressure = np.where(left, 1.0, 0.125), np.where(left, 1.0, 0.1)
    return run, (np.stack([rho, 0.0 * rho, pressure / (gamma - 1.0)]),)


@program("KdV: solitons in Fourier space", 256, 101, 1024, tolerance=1e-6)
def solitons(lib: Library, n: int) -> Any:
    """Trefethen, Spectral Methods in MATLAB, program 27: RK4 with integrating factor, 50 steps."""
    x = lib.np
    k = np.fft.fftfreq(n, 1.0 / n) * (np.arange(n) != n / 2)
    dt = 0.4 / n**2
    half = np.exp(0.5j * dt * k**3)

    def step(_: Any, v: Any) -> Any:
        def slope(v: Any) -> Any:
            return -0.5j * dt * k * x.fft.fft(x.real(x.fft.ifft(v)) ** 2)

        a = slope(v)
        b = slope(half * (v + a / 2))
        c = slope(half * v + b / 2)
        d = slope(half**2 * v + half * c)
        return half**2 * v + (half**2 * a + 2 * half * (b + c) + d) / 6

    def run(u: Any) -> Any:
        return x.real(x.fft.ifft(lib.lax.fori_loop(0, 50, step, x.fft.fft(u))))

    at = 2 * np.pi / n * np.arange(-n // 2, n // 2)
    u = (
        3 * 25**2 / np.cosh(0.5 * 25 * (at + 2)) ** 2
        + 3 * 16**2 / np.cosh(0.5 * 16 * (at + 1)) ** 2
    )
    return run, (u,)


@program("gray-scott: gradient in feed and kill", 64, 19, 128)
def gray_scott(lib: Library, n: int) -> Any:
    """Pearson 1993, Complex Patterns in a Simple System: 20 steps on a torus, what is left."""
    x = lib.np

    def spread(u: Any) -> Any:
        return sum(x.roll(u, s, a) for s in (1, -1) for a in (0, 1)) - 4.0 * u

    def mass(rates: Any, u: Any, v: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            u, v = state
            reaction = u * v * v
            u = u + 0.16 * spread(u) - reaction + feed * (1.0 - u)
            v = v + 0.08 * spread(v) + reaction - (feed + kill) * v
            return (u, v), None

        feed, kill = rates
        (u, v), _ = lib.lax.scan(step, (u, v), None, length=20)
        return x.mean(v**2)

    rng = np.random.default_rng(0)
    u = 1.0 - 0.5 * (rng.random((n, n)) < 0.2)
    v = 0.25 * (rng.random((n, n)) < 0.3)
    rates = np.array([0.035, 0.065], np.float32)
    return lib.fx.value_and_grad(mass), (rates, u.astype(np.float32), v.astype(np.float32))


@program("maxwell: Yee's grid with a source", 100, 13, 400)
def maxwell(lib: Library, n: int) -> Any:
    """Taflove and Hagness 2005, ch. 3: transverse magnetic fields, 50 steps, conducting walls."""
    x = lib.np

    def step(fields: Any, now: Any) -> Any:
        ez, hx, hy = fields
        hx = hx.at[:, :].add(-0.5 * (ez[:, 1:] - ez[:, :-1]))
        hy = hy.at[:, :].add(0.5 * (ez[1:, :] - ez[:-1, :]))
        curl = (hy[1:, 1:-1] - hy[:-1, 1:-1]) - (hx[1:-1, 1:] - hx[1:-1, :-1])
        ez = ez.at[1:-1, 1:-1].add(0.5 * curl)
        ez = ez.at[n // 2, n // 3].add(x.exp(-(((now - 20.0) / 6.0) ** 2)))
        return (ez, hx, hy), ez[n // 4, n // 4]

    def run(ez: Any, hx: Any, hy: Any) -> Any:
        return lib.lax.scan(step, (ez, hx, hy), x.arange(50).astype("float32"))

    zeros = lambda *shape: np.zeros(shape, np.float32)  # noqa: E731
    return run, (zeros(n, n), zeros(n, n - 1), zeros(n - 1, n))
