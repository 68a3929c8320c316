"""Programs that look for the best: least squares, descents, proximal methods, searches.

Each function says where the program is known from; sizes are unknowns or points.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.published import Library, program


@program("levenberg-marquardt: decays fitted by vmap", 100, 1, 1000, tolerance=1e-6)
def levenberg_marquardt(lib: Library, n: int) -> Any:
    """Marquardt 1963; Madsen, Nielsen and Tingleff 2004: n fits of a decay to 30 points."""
    x = lib.np
    times = np.linspace(0.0, 3.0, 30)

    def fit(start: Any, data: Any) -> Any:
        def residual(p: Any) -> Any:
            return p[0] * x.exp(-p[1] * times) + p[2] - data

        def step(state: Any) -> Any:
            p, damping, _, count = state
            r, slope = residual(p), lib.fx.jacfwd(residual)(p)
            normal, right = slope.T @ slope, slope.T @ r
            move = x.linalg.solve(normal + damping * x.diag(x.diagonal(normal)), -right)
            better = x.sum(residual(p + move) ** 2) < x.sum(r**2)
            damping = x.where(better, damping / 3.0, damping * 2.0)
            return x.where(better, p + move, p), damping, x.max(x.abs(right)), count + 1

        def going(state: Any) -> Any:
            return (state[2] > 1e-6) & (state[3] < 50)

        state = (start, 0.0 * start[0] + 1e-2, 0.0 * start[0] + 1.0, 0)
        return lib.lax.while_loop(going, step, state)[0]

    rng = np.random.default_rng(0)
    truth = rng.uniform(0.5, 2.0, (n, 3))
    data = truth[:, :1] * np.exp(-truth[:, 1:2] * times) + truth[:, 2:]
    return lib.fx.vmap(fit), (np.ones((n, 3)), data + 0.01 * rng.normal(size=data.shape))


@program("L-BFGS: Rosenbrock's valley", 100, 2, 5000, tolerance=1e-5)
def lbfgs(lib: Library, n: int) -> Any:
    """Liu and Nocedal 1989: 30 steps of ten pairs (two loops), Armijo's halving."""
    x = lib.np
    memory = 10

    def valley(p: Any) -> Any:
        return x.sum(100.0 * (p[1:] - p[:-1] ** 2) ** 2 + (1.0 - p[:-1]) ** 2)

    slope = lib.fx.value_and_grad(valley)

    def direction(g: Any, s: Any, y: Any, rho: Any) -> Any:
        def back(q: Any, pair: Any) -> Any:
            a = pair[2] * (pair[0] @ q)
            return q - a * pair[1], a

        def forth(q: Any, pair: Any) -> Any:
            b = pair[2] * (pair[1] @ q)
            return q + (pair[3] - b) * pair[0], None

        q, a = lib.lax.scan(back, g, (s, y, rho), reverse=True)
        size = x.sum(y[-1] ** 2)
        q = q * x.where(size > 0.0, (s[-1] @ y[-1]) / x.where(size > 0.0, size, 1.0), 1e-3)
        return -lib.lax.scan(forth, q, (s, y, rho, a))[0]

    def step(_: Any, state: Any) -> Any:
        p, value, g, s, y, rho = state
        move = direction(g, s, y, rho)
        enough = 1e-4 * (g @ move)
        length = lib.lax.while_loop(
            lambda t: (valley(p + t * move) > value + t * enough) & (t > 1e-10),
            lambda t: 0.5 * t,
            0.0 * value + 1.0,
        )
        after = p + length * move
        value, new = slope(after)
        curve = (after - p) @ (new - g)
        scale = x.where(curve > 1e-12, 1.0 / x.where(curve > 1e-12, curve, 1.0), 0.0)
        s = x.concatenate([s[1:], (after - p)[None]])
        y = x.concatenate([y[1:], (new - g)[None]])
        return after, value, new, s, y, x.append(rho[1:], scale)

    def run(p: Any) -> Any:
        pairs = x.zeros((memory, n), dtype="float64")
        state = (p, *slope(p), pairs, pairs, x.zeros(memory, dtype="float64"))
        return lib.lax.fori_loop(0, 30, step, state)[1]

    return run, (np.tile([-1.2, 1.0], n)[:n],)


@program("conjugate gradients: a membrane under load, gradient", 64, 9, 200, tolerance=1e-6)
def conjugate_gradients(lib: Library, n: int) -> Any:
    """Hestenes and Stiefel 1952: 30 steps for a membrane of varying stiffness, and its adjoint."""
    x = lib.np

    def solve(apply: Any, right: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            u, r, p, size = state
            ap = apply(p)
            length = size / x.vdot(p, ap)
            u, r = u + length * p, r - length * ap
            after = x.vdot(r, r)
            return (u, r, r + after / size * p, after), after

        start = (0.0 * right, right, right, x.vdot(right, right))
        return lib.lax.scan(step, start, None, length=30)[0][0]

    def compliance(stiffness: Any, load: Any) -> Any:
        down = 0.5 * (stiffness[1:] + stiffness[:-1])
        right = 0.5 * (stiffness[:, 1:] + stiffness[:, :-1])

        def apply(u: Any) -> Any:
            a, b = x.pad(u, ((1, 1), (0, 0))), x.pad(u, ((0, 0), (1, 1)))
            a = x.pad(down, ((1, 1), (0, 0)), constant_values=1.0) * x.diff(a, axis=0)
            b = x.pad(right, ((0, 0), (1, 1)), constant_values=1.0) * x.diff(b, axis=1)
            return -x.diff(a, axis=0) - x.diff(b, axis=1)

        return x.vdot(load, solve(apply, load))

    rng = np.random.default_rng(0)
    args = rng.uniform(0.5, 1.5, (n, n)), rng.normal(size=(n, n))
    return lib.fx.value_and_grad(compliance), args


@program("ADMM: lasso", 200, 17, 500, tolerance=1e-5)
def admm(lib: Library, n: int) -> Any:
    """Boyd et al. 2011, 6.4: 2 n rows, n unknowns, one factorisation and 50 rounds."""
    x = lib.np

    def run(a: Any, b: Any) -> Any:
        inverse = x.linalg.inv(a.T @ a + x.eye(n, dtype="float64"))
        right = a.T @ b

        def step(_: Any, state: Any) -> Any:
            z, u = state
            p = inverse @ (right + z - u)
            wide = p + u
            z = x.sign(wide) * x.maximum(x.abs(wide) - 0.1, 0.0)
            return z, u + p - z

        return lib.lax.fori_loop(0, 50, step, (0.0 * right, 0.0 * right))[0]

    rng = np.random.default_rng(0)
    a = rng.normal(size=(2 * n, n)) / np.sqrt(2 * n)
    truth = rng.normal(size=n) * (rng.random(n) < 0.1)
    return run, (a, a @ truth + 0.01 * rng.normal(size=2 * n))


@program("FISTA: total variation, gradient in the weight", 64, 11, 256, tolerance=1e-4)
def fista(lib: Library, n: int) -> Any:
    """Beck and Teboulle 2009, dual of total variation: 20 steps, error of the weight unrolled."""
    x = lib.np

    def adjoint(p: Any, q: Any) -> Any:
        return x.diff(x.pad(p, ((1, 1), (0, 0))), axis=0) + x.diff(
            x.pad(q, ((0, 0), (1, 1))), axis=1
        )

    def error(weight: Any, noisy: Any, clean: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            (p, q), (r, s), t = state
            image = noisy + weight * adjoint(r, s)
            a = x.clip(r + x.diff(image, axis=0) / (8.0 * weight), -1.0, 1.0)
            b = x.clip(s + x.diff(image, axis=1) / (8.0 * weight), -1.0, 1.0)
            after = 0.5 * (1.0 + x.sqrt(1.0 + 4.0 * t * t))
            share = (t - 1.0) / after
            return ((a, b), (a + share * (a - p), b + share * (b - q)), after), None

        dual = (x.zeros_like(noisy[1:]), x.zeros_like(noisy[:, 1:]))
        start = (dual, dual, x.ones_like(weight))
        (p, q), _, _ = lib.lax.scan(step, start, None, length=20)[0]
        return x.mean((noisy + weight * adjoint(p, q) - clean) ** 2)

    rng = np.random.default_rng(0)
    clean = np.kron(rng.random((4, 4)), np.ones((n // 4 + 1, n // 4 + 1)))[:n, :n]
    noisy = clean + rng.normal(0.0, 0.1, (n, n))
    args = np.float32(0.1), noisy.astype(np.float32), clean.astype(np.float32)
    return lib.fx.value_and_grad(error), args


@program("sinkhorn: transport with gradient", 100, 7, 400, tolerance=1e-5)
def sinkhorn(lib: Library, n: int) -> Any:
    """Cuturi 2013, in logarithms (Peyre and Cuturi 2019, 4.4): 20 rounds, gradient in places."""
    x = lib.np

    def cost(a: Any, b: Any) -> Any:
        apart = x.sum((a[:, None, :] - b[None, :, :]) ** 2, axis=-1)
        even = -float(np.log(n))

        def step(state: Any, _: Any) -> Any:
            f, g = state
            f = -0.1 * lib.special.logsumexp((g[None, :] - apart) / 0.1 + even, axis=1)
            g = -0.1 * lib.special.logsumexp((f[:, None] - apart) / 0.1 + even, axis=0)
            return (f, g), None

        zeros = x.zeros_like(a[:, 0])
        (f, g), _ = lib.lax.scan(step, (zeros, zeros), None, length=20)
        return x.mean(f) + x.mean(g)

    rng = np.random.default_rng(0)
    a, b = rng.random((n, 2)), rng.normal(0.5, 0.2, (n, 2))
    return lib.fx.value_and_grad(cost), (a.astype(np.float32), b.astype(np.float32))


@program("nelder-mead: many starts by vmap", 64, 1, 500, tolerance=1e-6)
def nelder_mead(lib: Library, n: int) -> Any:
    """Nelder and Mead 1965 (Lagarias et al. 1998): n simplices in Himmelblau's function."""
    x = lib.np

    def himmelblau(p: Any) -> Any:
        return (p[0] ** 2 + p[1] - 11.0) ** 2 + (p[0] + p[1] ** 2 - 7.0) ** 2

    values = lib.fx.vmap(himmelblau)

    def step(state: Any) -> Any:
        corners, heights, count = state
        order = x.argsort(heights)
        corners, heights = corners[order], heights[order]
        centre, worst = x.mean(corners[:-1], axis=0), corners[-1]
        tries = centre + x.asarray([1.0, 2.0, 0.5, -0.5])[:, None] * (centre - worst)
        found = values(tries)
        reflected, expanded, outside, inside = found
        outer = reflected < heights[-1]
        choice = x.where(
            reflected < heights[0],
            x.where(expanded < reflected, 1, 0),
            x.where(reflected < heights[-2], 0, x.where(outer, 2, 3)),
        )
        shrink = (choice >= 2) & (
            x.where(outer, outside, inside) > x.minimum(reflected, heights[-1])
        )
        small = corners[0] + 0.5 * (corners - corners[0])
        corners = x.where(shrink, small, corners.at[-1].set(tries[choice]))
        heights = x.where(shrink, values(small), heights.at[-1].set(found[choice]))
        return corners, heights, count + 1

    def going(state: Any) -> Any:
        return (x.max(state[1]) - x.min(state[1]) > 1e-12) & (state[2] < 200)

    def run(start: Any) -> Any:
        corners = start + x.asarray(np.array([[0.0, 0.0], [0.5, 0.0], [0.0, 0.5]]))
        corners, heights, _ = lib.lax.while_loop(going, step, (corners, values(corners), 0))
        return corners[x.argmin(heights)]

    return lib.fx.vmap(run), (np.random.default_rng(0).uniform(-4.0, 4.0, (n, 2)),)


@program("k-means: Lloyd's rounds", 1000, 31, 20000, tolerance=1e-4)
def k_means(lib: Library, n: int) -> Any:
    """Lloyd 1982: n points in eight dimensions, ten centres, ten rounds."""
    x = lib.np

    def run(points: Any) -> Any:
        def nearest(centres: Any) -> Any:
            apart = x.sum((points[:, None, :] - centres[None, :, :]) ** 2, axis=-1)
            return x.argmin(apart, axis=1), x.sum(x.min(apart, axis=1))

        def step(centres: Any, _: Any) -> Any:
            label, inertia = nearest(centres)
            sums = x.zeros_like(centres).at[label].add(points)
            counts = x.zeros(10, dtype="float32").at[label].add(1.0)
            moved = sums / x.maximum(counts, 1.0)[:, None]
            return x.where(counts[:, None] > 0.0, moved, centres), inertia

        centres, inertias = lib.lax.scan(step, points[:10], None, length=10)
        return centres, inertias, nearest(centres)[0]

    rng = np.random.default_rng(0)
    points = 5.0 * rng.normal(size=(10, 8))[np.arange(n) % 10] + rng.normal(size=(n, 8))
    return run, (points.astype(np.float32),)


@program("alternating least squares: ratings", 100, 7, 400, tolerance=1e-5)
def alternating_least_squares(lib: Library, n: int) -> Any:
    """Koren, Bell and Volinsky 2009: n people, n films, ten factors, vmapped solves, 3 rounds."""
    x = lib.np

    def fitted(other: Any, ratings: Any, known: Any) -> Any:
        def one(rating: Any, weight: Any) -> Any:
            normal = (other * weight[:, None]).T @ other + 0.1 * x.eye(10, dtype="float64")
            return x.linalg.solve(normal, other.T @ (weight * rating))

        return lib.fx.vmap(one)(ratings, known)

    def run(films: Any, ratings: Any, known: Any) -> Any:
        def turn(_: Any, pair: Any) -> Any:
            people = fitted(pair[1], ratings, known)
            return people, fitted(people, ratings.T, known.T)

        people, films = lib.lax.fori_loop(0, 3, turn, (0.0 * films, films))
        return x.sum(known * (ratings - people @ films.T) ** 2)

    rng = np.random.default_rng(0)
    ratings = rng.normal(size=(n, 3)) @ rng.normal(size=(3, n))
    known = (rng.random((n, n)) < 0.3).astype(np.float64)
    return run, (rng.normal(size=(n, 10)), ratings, known)


@program("iLQR: swinging up a pendulum", 50, 3, 200, tolerance=1e-5)
def ilqr(lib: Library, n: int) -> Any:
    """Tassa, Erez and Todorov 2012: n controls, three rounds, Riccati's recursion, Hessians."""
    x = lib.np

    def motion(s: Any, u: Any) -> Any:
        return x.stack([s[0] + 0.05 * s[1], s[1] + 0.05 * (x.sin(s[0]) + u[0])])

    def cost(s: Any, u: Any) -> Any:
        return 0.05 * ((1.0 - x.cos(s[0])) + 0.1 * s[1] ** 2 + 0.01 * x.sum(u**2))

    def round_of(controls: Any, start: Any) -> Any:
        def forward(s: Any, u: Any) -> Any:
            return motion(s, u), s

        last, states = lib.lax.scan(forward, start, controls)
        fs, fu = lib.fx.vmap(lib.fx.jacfwd(motion, (0, 1)))(states, controls)
        gs, gu = lib.fx.vmap(lib.fx.grad(cost, (0, 1)))(states, controls)
        (hss, hsu), (_, huu) = lib.fx.vmap(lib.fx.hessian(cost, (0, 1)))(states, controls)

        def backward(ahead: Any, row: Any) -> Any:
            v, w = ahead
            fs, fu, gs, gu, hss, hsu, huu = row
            qs, qu = gs + fs.T @ v, gu + fu.T @ v
            qss, qsu = hss + fs.T @ w @ fs, hsu + fs.T @ w @ fu
            quu = huu + fu.T @ w @ fu + 1e-3 * x.eye(1, dtype="float64")
            open_loop, gain = -x.linalg.solve(quu, qu), -x.linalg.solve(quu, qsu.T)
            v = qs + gain.T @ quu @ open_loop + gain.T @ qu + qsu @ open_loop
            return (v, qss + qsu @ gain), (open_loop, gain)

        end = lambda s: 20.0 * ((1.0 - x.cos(s[0])) + s[1] ** 2)  # noqa: E731
        ahead = (lib.fx.grad(end)(last), 20.0 * x.eye(2, dtype="float64"))
        _, plan = lib.lax.scan(backward, ahead, (fs, fu, gs, gu, hss, hsu, huu), reverse=True)

        def rollout(s: Any, row: Any) -> Any:
            before, u, open_loop, gain = row
            u = u + 0.5 * open_loop + gain @ (s - before)
            return motion(s, u), (u, cost(s, u))

        _, (controls, costs) = lib.lax.scan(rollout, start, (states, controls, *plan))
        return controls, x.sum(costs)

    def run(controls: Any, start: Any) -> Any:
        def again(controls: Any, _: Any) -> Any:
            return round_of(controls, start)

        return lib.lax.scan(again, controls, None, length=3)

    return run, (0.1 * np.random.default_rng(0).normal(size=(n, 1)), np.array([3.0, 0.0]))


@program("differential evolution: Rastrigin's function", 50, 5, 500, tolerance=1e-4)
def differential_evolution(lib: Library, n: int) -> Any:
    """Storn and Price 1997, rand/1/bin: n members in ten dimensions, 50 generations."""
    x = lib.np

    def rastrigin(p: Any) -> Any:
        return x.sum(p**2 - 10.0 * x.cos(2 * np.pi * p) + 10.0, axis=-1)

    def generation(state: Any, key: Any) -> Any:
        members, heights = state
        first, second, third = lib.random.split(key, 3)
        a, b, c = (n * lib.random.uniform(first, (3, n), "float32")).astype("int32")
        mutant = members[a] + 0.7 * (members[b] - members[c])
        cross = lib.random.uniform(second, (n, 10), "float32") < 0.9
        forced = (10 * lib.random.uniform(third, (n,), "float32")).astype("int32")
        cross = cross.at[x.arange(n), forced].set(True)
        tried = x.where(cross, mutant, members)
        found = rastrigin(tried)
        better = found <= heights
        members = x.where(better[:, None], tried, members)
        heights = x.where(better, found, heights)
        return (members, heights), x.min(heights)

    def run(members: Any) -> Any:
        keys = lib.random.split(lib.random.key(0), 50)
        return lib.lax.scan(generation, (members, rastrigin(members)), keys)[1]

    members = np.random.default_rng(0).uniform(-5.12, 5.12, (n, 10))
    return run, (members.astype(np.float32),)


@program("power iteration: three singular triplets with gradient", 100, 3, 400, tolerance=1e-5)
def power_iteration(lib: Library, n: int) -> Any:
    """Miyato et al. 2018; Golub and Van Loan 2013, 8.2: deflated, 20 steps each, gradient."""
    x = lib.np

    def spectral(matrix: Any, starts: Any) -> Any:
        left, total = matrix, 0.0
        for start in starts:

            def step(v: Any, _: Any, left: Any = left) -> Any:
                u = left @ v
                v = left.T @ (u / x.linalg.norm(u))
                return v / x.linalg.norm(v), None

            v, _ = lib.lax.scan(step, start, None, length=20)
            u = left @ v
            total = total + x.linalg.norm(u)
            left = left - x.outer(u, v)
        return total

    rng = np.random.default_rng(0)
    args = rng.normal(size=(n, n)).astype("f"), tuple(rng.normal(size=(3, n)).astype("f"))
    return lib.fx.value_and_grad(spectral), args
