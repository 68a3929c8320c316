"""Programs that step a state through time: differential equations, particles, prices, chances.

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


@program("lennard-jones: velocity Verlet in a box", 64, 13, 216, tolerance=1e-4)
def lennard_jones(lib: Library, n: int) -> Any:
    """Frenkel and Smit, Understanding Molecular Simulation, ch. 4: 10 steps, forces by gradient."""
    x = lib.np
    side = int(np.ceil(n ** (1 / 3)))
    box = 1.2 * side

    def energy(q: Any) -> Any:
        apart = q[:, None, :] - q[None, :, :]
        apart = apart - box * x.round(apart / box)
        square = x.sum(apart * apart, axis=-1)
        other = ~x.eye(n, dtype=bool)
        near = other & (square < (box / 2) ** 2)
        sixth = 1.0 / x.where(near, square, 1.0) ** 3
        return 0.5 * x.sum(x.where(near, 4.0 * (sixth * sixth - sixth), 0.0))

    slope = lib.fx.grad(energy)

    def step(state: Any, _: Any) -> Any:
        q, p, force = state
        p = p + 0.001 * force
        q = (q + 0.002 * p) % box
        force = -slope(q)
        p = p + 0.001 * force
        return (q, p, force), (energy(q), 0.5 * x.sum(p * p))

    def run(q: Any, p: Any) -> Any:
        return lib.lax.scan(step, (q, p, -slope(q)), None, length=10)

    rng = np.random.default_rng(0)
    places = np.stack(np.unravel_index(np.arange(n), (side,) * 3), -1) + 0.5
    return run, (1.2 * places + rng.normal(0.0, 0.05, (n, 3)), rng.normal(size=(n, 3)))


@program("van der Pol: Dormand-Prince under vmap, sensitivities", 32, 1, 500, tolerance=1e-6)
def van_der_pol(lib: Library, n: int) -> Any:
    """Hairer, Norsett and Wanner 1993, II.4: adaptive steps until t = 1, derivatives in mu."""
    x = lib.np
    rows = [
        [1 / 5],
        [3 / 40, 9 / 40],
        [44 / 45, -56 / 15, 32 / 9],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
        [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
    ]
    errors = [71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40]

    def final(mu: Any, start: Any) -> Any:
        def slope(y: Any) -> Any:
            return x.stack([y[1], mu * (1.0 - y[0] ** 2) * y[1] - y[0]])

        def step(state: Any) -> Any:
            now, y, dt = state
            dt = x.minimum(dt, 1.0 - now)
            slopes, new = [slope(y)], y
            for row in rows:
                new = y + dt * sum(a * k for a, k in zip(row, slopes))
                slopes.append(slope(new))
            error = dt * sum(a * k for a, k in zip(errors, slopes))
            size = x.sqrt(x.mean((error / (1e-6 + 1e-6 * x.abs(y))) ** 2)) + 1e-12
            factor = x.clip(0.9 * size**-0.2, 0.2, 5.0)
            good = size <= 1.0
            return x.where(good, now + dt, now), x.where(good, new, y), dt * factor

        state = (0.0 * mu, start, 0.0 * mu + 0.05)
        return lib.lax.while_loop(lambda state: state[0] < 1.0, step, state)[1]

    rng = np.random.default_rng(0)
    args = rng.uniform(1.0, 5.0, n), rng.uniform(0.5, 2.0, (n, 2))
    return lib.fx.vmap(lib.fx.jacfwd(final)), args


@program("american put: binomial tree, delta and gamma", 500, 53, 2000, tolerance=1e-6)
def american_put(lib: Library, n: int) -> Any:
    """Cox, Ross and Rubinstein 1979: backwards through n steps, two derivatives in the price."""
    x = lib.np

    def value(price: Any, volatility: Any) -> Any:
        rate, dt = 0.05, 1.0 / n
        up = x.exp(volatility * dt**0.5)
        growth = np.exp(rate * dt)
        p = (growth - 1.0 / up) / (up - 1.0 / up)
        powers = 2.0 * x.arange(n + 1) - n

        def back(values: Any, step: Any) -> Any:
            values = (p * x.append(values[1:], 0.0) + (1.0 - p) * values) / growth
            prices = price * up ** (powers + step)
            return x.maximum(values, 100.0 - prices), None

        last = x.maximum(100.0 - price * up**powers, 0.0)
        return lib.lax.scan(back, last, 1.0 + x.arange(n))[0][0]

    def greeks(price: Any, volatility: Any) -> Any:
        delta = lib.fx.grad(value)
        gamma = lib.fx.jvp(lambda s: delta(s, volatility), (price,), (x.ones_like(price),))
        return value(price, volatility), gamma

    return greeks, (np.float64(97.3), np.float64(0.2))


@program("black-scholes: Crank-Nicolson, delta by gradient", 200, 29, 1000)
def crank_nicolson(lib: Library, n: int) -> Any:
    """Wilmott, Howison and Dewynne 1995, ch. 8: a call on n prices, 50 steps, Thomas' algorithm."""
    x = lib.np

    def thomas(low: Any, middle: Any, high: Any, right: Any) -> Any:
        def down(before: Any, row: Any) -> Any:
            a, b, c, d = row
            scale = 1.0 / (b - a * before[0])
            here = (c * scale, (d - a * before[1]) * scale)
            return here, here

        def up(after: Any, row: Any) -> Any:
            here = row[1] - row[0] * after
            return here, here

        zero = 0.0 * middle[0]
        _, swept = lib.lax.scan(down, (zero, zero), (low, middle, high, right))
        return lib.lax.scan(up, zero, swept, reverse=True)[1]

    def value(spot: Any, volatility: Any) -> Any:
        rate, steps = 0.03, 50
        dt, top = 1.0 / steps, 300.0
        prices = x.linspace(0.0, top, n + 1, dtype="float64")[1:]
        j = x.arange(1.0, n + 1.0, dtype="float64")
        a = 0.25 * dt * (volatility**2 * j**2 - rate * j)
        b = -0.5 * dt * (volatility**2 * j**2 + rate)
        c = 0.25 * dt * (volatility**2 * j**2 + rate * j)

        def step(v: Any, _: Any) -> Any:
            wide = x.concatenate([0.0 * v[:1], v, 2.0 * v[-1:] - v[-2:-1]])
            right = a * wide[:-2] + (1.0 + b) * v + c * wide[2:]
            return thomas(-a, 1.0 - b, -c, right), None

        v, _ = lib.lax.scan(step, x.maximum(prices - 100.0, 0.0), None, length=steps)
        return x.interp(spot, prices, v)

    return lib.fx.value_and_grad(value, argnums=(0, 1)), (np.float64(97.3), np.float64(0.2))


@program("heston: Monte Carlo with gradient", 1000, 7, 10000)
def heston(lib: Library, n: int) -> Any:
    """Heston 1993, full truncation (Lord et al. 2010): a call over n paths of 50 steps."""
    x = lib.np

    def price(model: Any) -> Any:
        start, kappa, theta, xi, rho = model
        dt = 1.0 / 50

        def step(state: Any, key: Any) -> Any:
            log_price, v = state
            first, second = lib.random.normal(key, (2, n), "float32")
            positive = x.maximum(v, 0.0)
            noise = x.sqrt(positive * dt + 1e-12)
            log_price = log_price - 0.5 * positive * dt + noise * first
            drawn = rho * first + x.sqrt(1.0 - rho**2) * second
            return (log_price, v + kappa * (theta - positive) * dt + xi * noise * drawn), None

        at = x.full((n,), 1.0, dtype="float32")
        keys = lib.random.split(lib.random.key(0), 50)
        (log_price, _), _ = lib.lax.scan(step, (at * np.float32(np.log(100.0)), at * start), keys)
        return x.mean(x.maximum(x.exp(log_price) - 100.0, 0.0))

    return lib.fx.value_and_grad(price), (np.array([0.04, 1.5, 0.04, 0.3, -0.7], np.float32),)


@program("hodgkin-huxley: gradient in conductances", 20, 1, 200, tolerance=1e-4)
def hodgkin_huxley(lib: Library, n: int) -> Any:
    """Hodgkin and Huxley 1952: n neurons under currents, 500 Euler steps, fitted to voltages."""
    x = lib.np

    def step(carry: Any, _: Any) -> Any:
        (v, m, h, k), (sodium, potassium, leak), current = carry
        dt = 0.02
        am = 0.1 * (v + 40.0) / (1.0 - x.exp(-(v + 40.0) / 10.0))
        bm = 4.0 * x.exp(-(v + 65.0) / 18.0)
        ah, bh = 0.07 * x.exp(-(v + 65.0) / 20.0), 1.0 / (1.0 + x.exp(-(v + 35.0) / 10.0))
        ak = 0.01 * (v + 55.0) / (1.0 - x.exp(-(v + 55.0) / 10.0))
        bk = 0.125 * x.exp(-(v + 65.0) / 80.0)
        flow = sodium * m**3 * h * (v - 50.0) + potassium * k**4 * (v + 77.0) + leak * (v + 54.4)
        m, h = m + dt * (am * (1 - m) - bm * m), h + dt * (ah * (1 - h) - bh * h)
        k = k + dt * (ak * (1 - k) - bk * k)
        return ((v + dt * (current - flow), m, h, k), carry[1], current), v

    def misfit(conductances: Any, current: Any, target: Any) -> Any:
        start = tuple(0.0 * current + s for s in (-65.0, 0.05, 0.6, 0.32))
        _, v = lib.lax.scan(step, (start, conductances, current), None, length=500)
        return x.mean((v - target) ** 2)

    current = np.linspace(5.0, 20.0, n)
    conductances = tuple(np.float64(g) for g in (120.0, 36.0, 0.3))
    return lib.fx.value_and_grad(misfit), (conductances, current, -60.0 + 0.0 * current)


@program("gillespie: epidemics under vmap", 100, 1, 1000)
def gillespie(lib: Library, n: int) -> Any:
    """Gillespie 1977, the direct method: n epidemics (S, I, R) of 50, until nobody is ill."""
    x = lib.np

    def run(key: Any, infect: Any) -> Any:
        def event(state: Any) -> Any:
            key, (s, i, r), now = state
            key, first, second = lib.random.split(key, 3)
            rates = infect * s * i / 50.0, 1.0 * i
            total = rates[0] + rates[1]
            now = now - x.log1p(-lib.random.uniform(first, (), "float32")) / total
            ill = lib.random.uniform(second, (), "float32") * total < rates[0]
            after = s - ill, x.where(ill, i + 1, i - 1), r + ~ill
            return key, after, now

        start = tuple(x.asarray(np.int32(c)) for c in (48, 2, 0))
        begin = (key, start, 0.0 * infect)
        _, people, now = lib.lax.while_loop(lambda state: state[1][1] > 0, event, begin)
        return people, now

    def all_runs(infect: Any) -> Any:
        return lib.fx.vmap(run)(lib.random.split(lib.random.key(0), n), infect)

    return all_runs, (np.linspace(0.8, 2.0, n, dtype=np.float32),)


@program("two streams: particles in cells", 1000, 101, 20000, tolerance=1e-6)
def particles_in_cells(lib: Library, n: int) -> Any:
    """Mocz, Create Your Own Plasma PIC Simulation: 10 leapfrog steps, 64 cells, Poisson by FFT."""
    x = lib.np
    cells, length = 64, 50.0
    dx = length / cells

    def acceleration(place: Any) -> Any:
        low = x.floor(place / dx).astype("int32")
        share = place / dx - low
        low, high = low % cells, (low + 1) % cells
        density = x.zeros(cells, dtype="float64").at[low].add(1.0 - share).at[high].add(share)
        density = density * (cells / n)
        k = 2.0 * np.pi * np.fft.rfftfreq(cells, dx)
        k[0] = 1.0
        waves = x.fft.rfft(density - 1.0) * (-1.0 / k**2)
        field = -x.fft.irfft(1j * k * waves, cells)
        return -(field[low] * (1.0 - share) + field[high] * share)

    def step(state: Any, _: Any) -> Any:
        place, speed, push = state
        speed = speed + 0.05 * push
        place = (place + 0.1 * speed) % length
        push = acceleration(place)
        speed = speed + 0.05 * push
        return (place, speed, push), x.sum(speed**2)

    def run(place: Any, speed: Any) -> Any:
        return lib.lax.scan(step, (place, speed, acceleration(place)), None, length=10)

    rng = np.random.default_rng(42)
    place, speed = rng.random(n) * length, rng.normal(3.0, 1.0, n) * (1 - 2 * (np.arange(n) % 2))
    return run, (place, speed * (1.0 + 0.1 * np.sin(2 * np.pi * place / length)))


@program("double pendulum: motion out of a Lagrangian", 100, 1, 1000)
def double_pendulum(lib: Library, n: int) -> Any:
    """Cranmer et al. 2020, Lagrangian Neural Networks: n starts, 20 RK4 steps, by Hessians."""
    x = lib.np

    def lagrangian(q: Any, v: Any) -> Any:
        kinetic = v[0] ** 2 + 0.5 * v[1] ** 2 + v[0] * v[1] * x.cos(q[0] - q[1])
        return kinetic + 9.8 * (2.0 * x.cos(q[0]) + x.cos(q[1]))

    def slope(state: Any) -> Any:
        q, v = state[:2], state[2:]
        mass = lib.fx.hessian(lagrangian, 1)(q, v)
        mixed = lib.fx.jacfwd(lib.fx.grad(lagrangian, 1), 0)(q, v)
        force = lib.fx.grad(lagrangian, 0)(q, v) - mixed @ v
        return x.concatenate([v, x.linalg.solve(mass, force)])

    def run(state: Any) -> Any:
        def step(_: Any, s: Any) -> Any:
            k1 = slope(s)
            k2 = slope(s + 0.005 * k1)
            k3 = slope(s + 0.005 * k2)
            k4 = slope(s + 0.01 * k3)
            return s + 0.01 / 6.0 * (k1 + 2 * k2 + 2 * k3 + k4)

        return lib.lax.fori_loop(0, 20, step, state)

    return lib.fx.vmap(run), (np.random.default_rng(0).uniform(-1.5, 1.5, (n, 4)),)
