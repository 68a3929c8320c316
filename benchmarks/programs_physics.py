"""Programs of physics, chemistry, graphics and robots: energies, circuits, bands, rays, arms.

Each function says where the program is known from; sizes are walkers, sites, pixels or places.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.published import Library, program

KEY = np.array([0, 7], np.uint32)


@program("helium: Monte Carlo steps and local energies", 256, 3, 2000)
def helium(lib: Library, n: int) -> Any:
    """Foulkes et al. 2001: Jastrow's wave function, 10 moves of n walkers, its Laplacian."""
    x = lib.np

    def log_psi(r: Any) -> Any:
        far = x.sqrt(x.sum(r * r, axis=-1))
        apart = x.sqrt(x.sum((r[0] - r[1]) ** 2))
        return -2.0 * x.sum(far) + 0.5 * apart / (1.0 + 0.35 * apart)

    def energy(r: Any) -> Any:
        slope = lib.fx.grad(log_psi)(r)
        second = lib.fx.hessian(log_psi)(r).reshape(6, 6)
        kinetic = -0.5 * (x.trace(second) + x.sum(slope**2))
        near = 1.0 / x.sqrt(x.sum(r * r, axis=-1))
        return kinetic - 2.0 * x.sum(near) + 1.0 / x.sqrt(x.sum((r[0] - r[1]) ** 2))

    def move(r: Any, key: Any) -> Any:
        step, chance = lib.random.split(key)
        new = r + 0.5 * lib.random.normal(step, r.shape, "float64")
        rise = 2.0 * (lib.fx.vmap(log_psi)(new) - lib.fx.vmap(log_psi)(r))
        taken = x.log(lib.random.uniform(chance, (n,), "float64")) < rise
        return x.where(taken[:, None, None], new, r), x.mean(taken)

    def run(key: Any, r: Any) -> Any:
        r, taken = lib.lax.scan(move, r, lib.random.split(key, 10))
        energies = lib.fx.vmap(energy)(r)
        return x.mean(energies), x.var(energies), x.mean(taken)

    return run, (KEY, np.random.default_rng(0).normal(size=(n, 2, 3)))


@program("lagrangian network: accelerations, with gradient", 100, 1, 500, tolerance=1e-3)
def lagrangian_network(lib: Library, n: int) -> Any:
    """Cranmer et al. 2020, the double pendulum: n states, 4-32-32-1, equation 6."""
    x = lib.np

    def lagrangian(layers: Any, q: Any, speed: Any) -> Any:
        h = x.concatenate([x.cos(q), x.sin(q), speed])
        for weight, bias in layers[:-1]:
            h = x.logaddexp(h @ weight + bias, 0.0)
        kinetic = 0.5 * x.sum(speed**2)
        return kinetic + (h @ layers[-1][0] + layers[-1][1])[0]

    def acceleration(layers: Any, q: Any, speed: Any) -> Any:
        f = lambda q, speed: lagrangian(layers, q, speed)  # noqa: E731
        mass = lib.fx.hessian(f, 1)(q, speed)
        across = lib.fx.jacfwd(lib.fx.grad(f, 1), 0)(q, speed)
        return x.linalg.solve(mass, lib.fx.grad(f, 0)(q, speed) - across @ speed)

    def loss(layers: Any, q: Any, speed: Any, wanted: Any) -> Any:
        found = lib.fx.vmap(lambda q, v: acceleration(layers, q, v))(q, speed)
        return x.mean((found - wanted) ** 2)

    rng = np.random.default_rng(0)
    layers = [
        (rng.normal(size=(a, b)) * 0.5 / np.sqrt(a), np.zeros(b))
        for a, b in ((6, 32), (32, 32), (32, 1))
    ]
    return lib.fx.value_and_grad(loss), (layers, *rng.normal(size=(3, n, 2)))


# Three Gaussians for each 1s orbital (STO-3G): exponents at scale 1, and their weights.
_EXPONENTS = np.array([0.109818, 0.405771, 2.227660])
_WEIGHTS = np.array([0.444635, 0.535328, 0.154329])


def hydrogen_integrals(lib: Library, at: Any) -> Any:
    """Overlap, one-electron part and repulsions of 1s orbitals on protons at places on a line."""
    x, n = lib.np, at.shape[0]
    height = np.tile(_EXPONENTS * 1.24**2, n)
    weight = np.tile(_WEIGHTS, n) * (2.0 * height / np.pi) ** 0.75
    place = x.repeat(at, 3)

    def boys(t: Any) -> Any:
        safe = x.where(t < 1e-8, 1.0, t)
        far = 0.5 * x.sqrt(np.pi / safe) * lib.special.erf(x.sqrt(safe))
        return x.where(t < 1e-8, 1.0 - t / 3.0, far)

    total = height[:, None] + height
    mean = height[:, None] * height / total
    square = (place[:, None] - place) ** 2
    centre = (height[:, None] * place[:, None] + height * place) / total
    overlap = weight[:, None] * weight * (np.pi / total) ** 1.5 * x.exp(-mean * square)
    kinetic = mean * (3.0 - 2.0 * mean * square) * overlap
    pull = overlap * 2.0 * x.sqrt(total / np.pi)
    pulls = x.sum(pull[..., None] * boys(total[..., None] * (centre[..., None] - at) ** 2), -1)
    joint = total[:, :, None, None] + total
    gap = (centre[:, :, None, None] - centre) ** 2 * total[:, :, None, None] * total / joint
    pairs = overlap[:, :, None, None] * overlap
    repel = (
        pairs * 2.0 / np.sqrt(np.pi) * x.sqrt(total[:, :, None, None] * total / joint) * boys(gap)
    )
    whole = lambda a: a.reshape(n, 3, n, 3).sum(axis=(1, 3))  # noqa: E731
    repulsions = repel.reshape(n, 3, n, 3, n, 3, n, 3).sum(axis=(1, 3, 5, 7))
    return whole(overlap), whole(kinetic - pulls), repulsions


@program("hartree-fock: a chain of hydrogen, with forces", 4, 2, 6, tolerance=1e-4)
def hartree_fock(lib: Library, n: int) -> Any:
    """Szabo and Ostlund 1989, chapter 3: 12 closed-shell cycles, and the gradient through them."""
    x = lib.np

    def energy(at: Any) -> Any:
        overlap, core, repulsions = hydrogen_integrals(lib, at)
        values, vectors = x.linalg.eigh(overlap)
        root = vectors / x.sqrt(values) @ vectors.T

        def field(density: Any) -> Any:
            near = x.einsum("kl,ijkl->ij", density, repulsions)
            return core + near - 0.5 * x.einsum("kl,ikjl->ij", density, repulsions)

        def cycle(_: int, density: Any) -> Any:
            _, vectors = x.linalg.eigh(root @ field(density) @ root)
            filled = root @ vectors[:, : n // 2]
            return 2.0 * filled @ filled.T

        density = lib.lax.fori_loop(0, 12, cycle, x.zeros((n, n), dtype="float64"))
        electrons = 0.5 * x.sum(density * (core + field(density)))
        apart = x.abs(at[:, None] - at) + x.eye(n)
        return electrons + 0.5 * x.sum((1.0 - x.eye(n)) / apart)

    places = np.cumsum(np.where(np.arange(n) % 2, 1.4, 1.9)) + 0.01 * np.arange(n) ** 2
    return lib.fx.value_and_grad(energy), (places,)


@program("qaoa: cut of a ring by a circuit, with gradient", 10, 3, 13)
def qaoa(lib: Library, n: int) -> Any:
    """Farhi, Goldstone and Gutmann 2014: n qubits, 4 layers, state vector by tensor products."""
    x = lib.np

    def loss(angles: Any, cut: Any) -> Any:
        state = x.full((2,) * n, 2.0 ** (-n / 2), dtype="complex128")
        for gamma, beta in zip(angles[0], angles[1]):
            state = state * x.exp(-1j * gamma * cut)
            cos, sin = x.cos(beta), -1j * x.sin(beta)
            gate = x.stack([x.stack([cos + 0j * sin, sin]), x.stack([sin, cos + 0j * sin])])
            for qubit in range(n):
                state = x.moveaxis(x.tensordot(gate, state, axes=(1, qubit)), 0, qubit)
        return -x.sum(x.abs(state) ** 2 * cut)

    bits = np.indices((2,) * n)
    cut = sum((bits[k] != bits[(k + 1) % n]).astype("float64") for k in range(n))
    angles = np.stack([np.linspace(0.2, 0.8, 4), np.linspace(0.7, 0.1, 4)])
    run = lambda angles, cut: lib.fx.value_and_grad(loss)(angles, cut)  # noqa: E731
    return run, (angles, cut)


@program("haldane: bands and Chern number", 16, 3, 40)
def haldane(lib: Library, n: int) -> Any:
    """Haldane 1988, by Fukui, Hatsugai and Suzuki 2005: n x n momenta of a ribbonless lattice."""
    x = lib.np

    def matrix(k: Any) -> Any:
        hop = 1.0 + x.exp(1j * k[0]) + x.exp(1j * k[1])
        turn = 0.2 * (x.sin(k[0]) - x.sin(k[1]) - x.sin(k[0] - k[1])) + 0j * k[0]
        return x.stack([x.stack([turn, hop]), x.stack([x.conj(hop), -turn])])

    def run(k: Any) -> Any:
        grid = x.stack(x.meshgrid(k, k, indexing="ij"), axis=-1).reshape(n * n, 2)
        values, vectors = x.linalg.eigh(lib.fx.vmap(matrix)(grid))
        low = vectors[:, :, 0].reshape(n, n, 2)

        def link(axis: int) -> Any:
            return x.sum(x.conj(low) * x.roll(low, -1, axis=axis), axis=-1)

        one, two = link(0), link(1)
        around = one * x.roll(two, -1, axis=0) * x.conj(x.roll(one, -1, axis=1)) * x.conj(two)
        return values, x.sum(x.angle(around)) / (2.0 * np.pi)

    return run, (np.arange(n) * 2.0 * np.pi / n + 0.01,)


@program("ray tracing: spheres with reflections", 64, 5, 160, tolerance=1e-3)
def ray_tracing(lib: Library, n: int) -> Any:
    """Whitted 1980, as in Shirley's "Ray Tracing in One Weekend": n x n pixels, 8 spheres."""
    x = lib.np

    def unit(v: Any) -> Any:
        return v / x.sqrt(x.sum(v * v, axis=-1, keepdims=True))

    def hit(start: Any, ray: Any, centres: Any, radii: Any) -> Any:
        away = start[:, None, :] - centres
        half = x.sum(away * ray[:, None, :], axis=-1)
        inside = half**2 - x.sum(away * away, axis=-1) + radii**2
        near = -half - x.sqrt(x.maximum(inside, 0.0))
        near = x.where((inside > 0.0) & (near > 1e-3), near, np.inf)
        return x.min(near, axis=1), x.argmin(near, axis=1)

    def run(pixels: Any, centres: Any, radii: Any, colours: Any, sun: Any) -> Any:
        def bounce(_: int, state: Any) -> Any:
            start, ray, light, weight = state
            far, which = hit(start, ray, centres, radii)
            found = x.isfinite(far)
            at = start + x.where(found, far, 0.0)[:, None] * ray
            normal = unit(at - centres[which])
            lit = x.isinf(hit(at, x.broadcast_to(sun, at.shape), centres, radii)[0])
            shade = x.maximum(normal @ sun, 0.0) * lit * 0.9 + 0.1
            sky = (0.5 + 0.5 * ray[:, 1:2]) * x.asarray([0.5, 0.7, 1.0], dtype="float64")
            own = x.where(found[:, None], colours[which] * shade[:, None], sky)
            light = light + weight[:, None] * own * x.where(found, 0.7, 1.0)[:, None]
            back = ray - 2.0 * x.sum(ray * normal, axis=1, keepdims=True) * normal
            start, ray = x.where(found[:, None], at, start), x.where(found[:, None], back, ray)
            return start, ray, light, weight * x.where(found, 0.3, 0.0)

        start = x.zeros((n * n, 3), dtype="float64")
        state = (start, unit(pixels), start, x.ones(n * n, dtype="float64"))
        return lib.lax.fori_loop(0, 4, bounce, state)[2].reshape(n, n, 3)

    rng = np.random.default_rng(0)
    across, down = np.meshgrid(np.linspace(-1.0, 1.0, n), np.linspace(1.0, -1.0, n))
    pixels = np.stack([across.ravel(), down.ravel(), -1.5 * np.ones(n * n)], axis=1)
    centres = np.concatenate([rng.uniform(-2.0, 2.0, (8, 2)), rng.uniform(-6, -3, (8, 1))], 1)
    sun = np.array([0.6, 0.64, 0.48])
    return run, (pixels, centres, rng.uniform(0.4, 1.0, 8), rng.uniform(0.2, 1.0, (8, 3)), sun)


# Of Franka Emika's arm: lengths, offsets and twists of its joints, after Denavit and Hartenberg.
_ARM = np.array(
    [[0.0, 0.333, 0.0], [0.0, 0.0, -1.0], [0.0, 0.316, 1.0], [0.0825, 0.0, 1.0],
     [-0.0825, 0.384, -1.0], [0.0, 0.0, 1.0], [0.088, 0.107, 1.0]]
)  # fmt: skip


@program("robot arm: inverse kinematics by damped least squares", 64, 1, 1000, tolerance=1e-4)
def robot_arm(lib: Library, n: int) -> Any:
    """Wampler 1986, on an arm of 7 joints: n places, 15 steps, Jacobians by transformation."""
    x = lib.np

    def hand(q: Any) -> Any:
        pose = x.eye(4, dtype="float64")
        for k, (length, offset, twist) in enumerate(_ARM):
            ca, sa = np.cos(twist * np.pi / 2.0), np.sin(twist * np.pi / 2.0)
            c, s = x.cos(q[k]), x.sin(q[k])
            rows = [
                [c, -s, 0.0, length],
                [s * ca, c * ca, -sa, -offset * sa],
                [s * sa, c * sa, ca, offset * ca],
                [0.0, 0.0, 0.0, 1.0],
            ]
            pose = pose @ x.asarray(rows)
        return pose[:3, 3]

    def reached(q: Any, place: Any) -> Any:
        def step(_: int, q: Any) -> Any:
            slope = lib.fx.jacfwd(hand)(q)
            square = slope @ slope.T + 1e-3 * x.eye(3, dtype="float64")
            return q + slope.T @ x.linalg.solve(square, place - hand(q))

        q = lib.lax.fori_loop(0, 15, step, q)
        return q, hand(q)

    rng = np.random.default_rng(0)
    places = rng.normal(size=(n, 3)) * 0.1 + np.array([0.4, 0.0, 0.4])
    start = np.array([0.0, -0.8, 0.0, -2.3, 0.0, 1.6, 0.8])
    return lib.fx.vmap(reached, in_axes=(None, 0)), (start, places)


@program("gauge field: hybrid Monte Carlo on a torus", 16, 3, 64)
def gauge_field(lib: Library, n: int) -> Any:
    """Duane et al. 1987: compact U(1), n x n plaquettes, 10 trajectories of 10 leaps."""
    x = lib.np

    def action(theta: Any) -> Any:
        along, up = theta
        around = along + x.roll(up, -1, axis=0) - x.roll(along, -1, axis=1) - up
        return -2.0 * x.sum(x.cos(around))

    def trajectory(theta: Any, key: Any) -> Any:
        keys = lib.random.split(key)
        p = lib.random.normal(keys[0], theta.shape, "float64")
        slope = lib.fx.grad(action)

        def leap(_: int, state: Any) -> Any:
            new, p = state
            new = new + 0.1 * p
            return new, p - 0.1 * slope(new)

        new, moved = lib.lax.fori_loop(0, 10, leap, (theta, p - 0.05 * slope(theta)))
        moved = moved + 0.05 * slope(new)
        rise = action(new) - action(theta) + 0.5 * x.sum(moved**2 - p**2)
        taken = x.log(lib.random.uniform(keys[1], (), "float64")) < -rise
        theta = x.where(taken, new, theta)
        return theta, (action(theta) / (2.0 * n * n), rise)

    run = lambda key, theta: lib.lax.scan(trajectory, theta, lib.random.split(key, 10))  # noqa: E731
    return run, (KEY, np.random.default_rng(0).uniform(-0.5, 0.5, (2, n, n)))


@program("ising: sweeps of a checkerboard", 64, 6, 256)
def ising(lib: Library, n: int) -> Any:
    """Metropolis et al. 1953, Onsager's lattice at the critical point: 20 sweeps of n x n spins."""
    x = lib.np

    def half(spins: Any, key: Any, mask: Any) -> Any:
        rows = x.roll(spins, 1, axis=0) + x.roll(spins, -1, axis=0)
        near = rows + x.roll(spins, 1, axis=1) + x.roll(spins, -1, axis=1)
        chance = x.exp(-2.0 * 0.4406868 * (spins * near).astype("float32"))
        flip = (lib.random.uniform(key, (n, n), "float32") < chance) & mask
        return x.where(flip, -spins, spins)

    def run(key: Any, spins: Any) -> Any:
        black = (x.arange(n)[:, None] + x.arange(n)) % 2 == 0

        def sweep(spins: Any, key: Any) -> Any:
            keys = lib.random.split(key)
            spins = half(half(spins, keys[0], black), keys[1], ~black)
            return spins, x.sum(spins)

        return lib.lax.scan(sweep, spins, lib.random.split(key, 20))

    return run, (KEY, np.random.default_rng(0).choice(np.array([-1, 1], np.int32), (n, n)))
