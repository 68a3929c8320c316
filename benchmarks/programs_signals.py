"""Programs on signals and images: filters, transforms, edges, deconvolution, state estimates.

Each function says where the program is known from; sizes are pixels a side, or samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.published import Library, program


def picture(n: int, seed: int = 0) -> np.ndarray:
    """Discs and noise, float32 in [0, 1]."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:n, :n] / n
    image = 0.2 + 0.1 * columns
    for a, b, r in rng.random((6, 3)):
        image = image + 0.15 * ((rows - a) ** 2 + (columns - b) ** 2 < 0.1 * r)
    return np.clip(image + rng.normal(0.0, 0.03, (n, n)), 0.0, 1.0).astype(np.float32)


def gaussian(radius: int, sigma: float) -> np.ndarray:
    weights = np.exp(-(np.arange(-radius, radius + 1) ** 2) / (2 * sigma**2))
    return (weights / weights.sum()).astype(np.float32)


def blurred(lib: Library, image: Any, weights: np.ndarray) -> Any:
    """Rows, then columns, edges repeated."""
    x = lib.np
    radius = len(weights) // 2
    wide = x.pad(image, radius, mode="edge")
    along = lib.fx.vmap(lambda row: x.convolve(row, x.asarray(weights), mode="valid"))
    return along(along(wide).T).T


@program("bilateral filter: gradient in the widths", 128, 19, 300)
def bilateral(lib: Library, n: int) -> Any:
    """Tomasi and Manduchi 1998: windows of 7 by 7, widths fitted to a clean picture."""
    x = lib.np

    def misfit(widths: Any, image: Any, clean: Any) -> Any:
        space, tone = widths
        wide = x.pad(image, 3, mode="reflect")
        total, weight = x.zeros_like(image), x.zeros_like(image)
        for i in range(7):
            for j in range(7):
                other = wide[i : i + n, j : j + n]
                distance = ((i - 3) ** 2 + (j - 3) ** 2) / (2.0 * space**2)
                w = x.exp(-distance - (other - image) ** 2 / (2.0 * tone**2))
                total, weight = total + w * other, weight + w
        return x.mean((total / weight - clean) ** 2)

    clean = picture(n)
    noisy = clean + np.random.default_rng(1).normal(0.0, 0.1, clean.shape).astype(np.float32)
    return lib.fx.value_and_grad(misfit), (np.array([2.0, 0.2], np.float32), noisy, clean)


@program("median filter: 5 by 5", 128, 23, 400)
def median_filter(lib: Library, n: int) -> Any:
    """Tukey 1977; scipy.ndimage.median_filter: the median of shifted pictures."""
    x = lib.np

    def run(image: Any) -> Any:
        wide = x.pad(image, 2, mode="reflect")
        parts = [wide[i : i + n, j : j + n] for i in range(5) for j in range(5)]
        return x.median(x.stack(parts), axis=0)

    return run, (picture(n),)


@program("canny: edges with hysteresis", 200, 31, 512)
def canny(lib: Library, n: int) -> Any:
    """Canny 1986, as in skimage.feature.canny: thin ridges, weak ones kept beside strong ones."""
    x = lib.np

    def shifted(image: Any, i: int, j: int) -> Any:
        return x.pad(image, 1)[1 + i : 1 + i + n, 1 + j : 1 + j + n]

    def run(image: Any) -> Any:
        smooth = blurred(lib, image, gaussian(4, 1.4))
        down = sum(w * (shifted(smooth, 1, j) - shifted(smooth, -1, j)) for j, w in SOBEL)
        right = sum(w * (shifted(smooth, i, 1) - shifted(smooth, i, -1)) for i, w in SOBEL)
        size = x.hypot(down, right)
        sector = x.round(x.arctan2(down, right) / (np.pi / 4)).astype("int32") % 4
        steps = ((0, 1), (1, 1), (1, 0), (1, -1))
        ahead = x.select([sector == k for k in range(4)], [shifted(size, *s) for s in steps])
        behind = [shifted(size, -i, -j) for i, j in steps]
        behind = x.select([sector == k for k in range(4)], behind)
        ridge = (size >= ahead) & (size >= behind)
        weak, strong = ridge & (size > 0.15), ridge & (size > 0.4)

        def grow(state: Any) -> Any:
            edges, _ = state
            near = [shifted(edges, i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
            more = weak & x.any(x.stack(near), axis=0)
            return more, x.any(more != edges)

        return lib.lax.while_loop(lambda s: s[1], grow, (strong, x.any(strong)))[0]

    return run, (picture(n),)


SOBEL = ((-1, 1.0), (0, 2.0), (1, 1.0))


@program("daubechies: soft thresholds of wavelets, gradient", 1024, 16, 65536)
def daubechies(lib: Library, n: int) -> Any:
    """Donoho and Johnstone 1994: db2 over three levels; the threshold of least error, by slope."""
    x = lib.np
    root = np.sqrt(3.0)
    low = np.array([1 + root, 3 + root, 3 - root, 1 - root]) / (4 * np.sqrt(2))
    high = low[::-1] * [1, -1, 1, -1]

    def analysis(signal: Any) -> Any:
        parts = [x.roll(signal, -k)[::2] for k in range(4)]
        return tuple(sum(float(w) * p for w, p in zip(f, parts)) for f in (low, high))

    def synthesis(a: Any, d: Any) -> Any:
        wide = [x.stack([s, x.zeros_like(s)], axis=1).reshape(-1) for s in (a, d)]
        moved = [
            sum(float(f[k]) * x.roll(s, k) for k in range(4)) for f, s in zip((low, high), wide)
        ]
        return moved[0] + moved[1]

    def error(threshold: Any, noisy: Any, clean: Any) -> Any:
        details, smooth = [], noisy
        for _ in range(3):
            smooth, detail = analysis(smooth)
            details.append(x.sign(detail) * x.maximum(x.abs(detail) - threshold, 0.0))
        for detail in details[::-1]:
            smooth = synthesis(smooth, detail)
        return x.mean((smooth - clean) ** 2)

    clean = np.sign(np.sin(12 * np.arange(n) / n)).astype(np.float32)
    noisy = clean + np.random.default_rng(0).normal(0.0, 0.3, n).astype(np.float32)
    return lib.fx.value_and_grad(error), (np.float32(0.5), noisy, clean)


@program(
    "richardson-lucy: deconvolution by FFT, gradient in the blur", 128, 17, 256, tolerance=1e-4
)
def richardson_lucy(lib: Library, n: int) -> Any:
    """Richardson 1972, Lucy 1974, as in skimage.restoration: 10 rounds, error by width of blur."""
    x = lib.np
    frequency = np.fft.fftfreq(n)[:, None] ** 2 + np.fft.rfftfreq(n)[None, :] ** 2

    def error(width: Any, seen: Any, clean: Any) -> Any:
        transfer = x.exp(-2.0 * np.pi**2 * width**2 * frequency)

        def blur(image: Any) -> Any:
            return x.fft.irfft2(x.fft.rfft2(image) * transfer, s=(n, n))

        def update(estimate: Any, _: Any) -> Any:
            return estimate * blur(seen / (blur(estimate) + 1e-6)), None

        estimate, _ = lib.lax.scan(update, 0.0 * seen + 0.5, None, length=10)
        return x.mean((estimate - clean) ** 2)

    clean = picture(n).astype(np.float64) + 0.05
    seen = np.fft.irfft2(np.fft.rfft2(clean) * np.exp(-2 * np.pi**2 * 4.0 * frequency), s=(n, n))
    return lib.fx.value_and_grad(error), (np.float64(1.5), seen, clean)


@program("distance transform: lower envelopes", 64, 11, 200)
def distance_transform(lib: Library, n: int) -> Any:
    """Felzenszwalb and Huttenlocher 2012: squared distances to a set, along rows then columns."""
    x = lib.np

    def along(values: Any) -> Any:
        at = x.arange(n).astype("float32")
        return x.min(values[None, :] + (at[:, None] - at[None, :]) ** 2, axis=1)

    def run(inside: Any) -> Any:
        rows = lib.fx.vmap(along)(x.where(inside, 0.0, 1e9).astype("float32"))
        return x.sqrt(lib.fx.vmap(along, in_axes=1, out_axes=1)(rows))

    return run, (picture(n) > 0.55,)


@program("radon: sinogram with adjoint", 64, 15, 128, tolerance=1e-4)
def radon(lib: Library, n: int) -> Any:
    """Radon 1917, as in skimage.transform: 60 angles, bilinear; least squares and its gradient."""
    x = lib.np
    grid = np.arange(n, dtype=np.float32) - (n - 1) / 2

    def at(image: Any, row: Any, column: Any) -> Any:
        low, left = x.floor(row), x.floor(column)
        total = 0.0
        for i in (0, 1):
            for j in (0, 1):
                a, b = (low + i).astype("int32"), (left + j).astype("int32")
                weight = (1 - x.abs(row - low - i)) * (1 - x.abs(column - left - j))
                inside = (a >= 0) & (a < n) & (b >= 0) & (b < n)
                value = image[x.clip(a, 0, n - 1), x.clip(b, 0, n - 1)]
                total = total + x.where(inside, weight * value, 0.0)
        return total

    def projection(image: Any, angle: Any) -> Any:
        u, v = x.asarray(grid)[:, None], x.asarray(grid)[None, :]
        row = u * x.cos(angle) - v * x.sin(angle) + (n - 1) / 2
        column = u * x.sin(angle) + v * x.cos(angle) + (n - 1) / 2
        return x.sum(at(image, row, column), axis=0)

    def misfit(image: Any, angles: Any, seen: Any) -> Any:
        sinogram = lib.fx.vmap(projection, (None, 0))(image, angles)
        return 0.5 * x.sum((sinogram - seen) ** 2)

    angles = np.linspace(0.0, np.pi, 60, endpoint=False, dtype=np.float32)
    seen = np.random.default_rng(0).random((60, n)).astype(np.float32) * n / 2
    return lib.fx.value_and_grad(misfit), (picture(n), angles, seen)


@program("mfcc: spectral loss with gradient", 8000, 700, 48000, tolerance=1e-4)
def mfcc(lib: Library, n: int) -> Any:
    """Davis and Mermelstein 1980: frames of 400, 40 mel bands, 13 coefficients; loss in a wave."""
    x = lib.np
    mel = np.linspace(0.0, 2595 * np.log10(1 + 8000 / 700), 42)
    edges = 700 * (10 ** (mel / 2595) - 1)
    bins = np.linspace(0.0, 8000.0, 257)
    up = (bins[:, None] - edges[None, :-2]) / (edges[1:-1] - edges[:-2])
    down = (edges[None, 2:] - bins[:, None]) / (edges[2:] - edges[1:-1])
    bank = np.maximum(0.0, np.minimum(up, down)).astype(np.float32)
    turns = np.cos(np.pi / 40 * (np.arange(40) + 0.5)[:, None] * np.arange(13)).astype(np.float32)
    places = np.arange(0, n - 399, 160)[:, None] + np.arange(400)

    def coefficients(wave: Any) -> Any:
        frames = wave[places] * np.hanning(400).astype(np.float32)
        power = x.abs(x.fft.rfft(frames, 512, axis=1)) ** 2
        return x.log(power @ bank + 1e-3) @ turns

    def loss(wave: Any, target: Any) -> Any:
        return x.mean((coefficients(wave) - coefficients(target)) ** 2)

    rng = np.random.default_rng(0)
    tone = np.sin(0.2 * np.arange(n)) + 0.1 * rng.normal(size=n)
    other = np.sin(0.3 * np.arange(n)) + 0.1 * rng.normal(size=n)
    return lib.fx.value_and_grad(loss), (tone.astype(np.float32), other.astype(np.float32))


@program("horn-schunck: optical flow", 100, 13, 256)
def horn_schunck(lib: Library, n: int) -> Any:
    """Horn and Schunck 1981: 30 rounds of means of neighbours, brightness kept."""
    x = lib.np

    def mean(u: Any) -> Any:
        wide = x.pad(u, 1, mode="edge")
        near = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
        far = wide[:-2, :-2] + wide[:-2, 2:] + wide[2:, :-2] + wide[2:, 2:]
        return near / 6.0 + far / 12.0

    def run(first: Any, second: Any) -> Any:
        down, right = x.gradient(0.5 * (first + second))
        change = second - first

        def update(_: Any, flow: Any) -> Any:
            u, v = mean(flow[0]), mean(flow[1])
            share = (right * u + down * v + change) / (0.01 + right**2 + down**2)
            return u - right * share, v - down * share

        return lib.lax.fori_loop(0, 30, update, (x.zeros_like(first), x.zeros_like(first)))

    first = picture(n)
    return run, (first, np.roll(first, 1, axis=1))


@program("ssim: gradient in a picture", 128, 13, 400, tolerance=1e-4)
def ssim(lib: Library, n: int) -> Any:
    """Wang et al. 2004: structural similarity in Gaussian windows of 11 by 11, and its gradient."""
    x = lib.np
    weights = gaussian(5, 1.5)

    def similarity(a: Any, b: Any) -> Any:
        mean_a, mean_b = blurred(lib, a, weights), blurred(lib, b, weights)
        var_a = blurred(lib, a * a, weights) - mean_a**2
        var_b = blurred(lib, b * b, weights) - mean_b**2
        cov = blurred(lib, a * b, weights) - mean_a * mean_b
        top = (2 * mean_a * mean_b + 1e-4) * (2 * cov + 9e-4)
        return x.mean(top / ((mean_a**2 + mean_b**2 + 1e-4) * (var_a + var_b + 9e-4)))

    return lib.fx.value_and_grad(similarity), (picture(n, 1), picture(n))


@program("kalman filter: likelihood with gradient", 200, 3, 1000, tolerance=1e-6)
def kalman(lib: Library, n: int) -> Any:
    """Kalman 1960; Durbin and Koopman 2012, ch. 7: a moving target seen n times, noise fitted."""
    x = lib.np
    motion = np.kron(np.array([[1.0, 0.1], [0.0, 1.0]]), np.eye(2))
    seen = np.kron(np.array([[1.0, 0.0]]), np.eye(2))
    push = np.kron(np.array([[1e-3 / 3, 5e-3], [5e-3, 0.1]]), np.eye(2))

    def likelihood(log_noise: Any, places: Any) -> Any:
        q, r = x.exp(log_noise[0]) * push, x.exp(log_noise[1]) * x.eye(2, dtype="float64")

        def step(state: Any, place: Any) -> Any:
            mean, cov = motion @ state[0], motion @ state[1] @ motion.T + q
            spread = seen @ cov @ seen.T + r
            gain = x.linalg.solve(spread, seen @ cov).T
            surprise = place - seen @ mean
            _, size = x.linalg.slogdet(spread)
            value = surprise @ x.linalg.solve(spread, surprise) + size
            return (mean + gain @ surprise, cov - gain @ spread @ gain.T), -0.5 * value

        start = (0.0 * motion[0] * log_noise[0], 10.0 * x.eye(4, dtype="float64"))
        return x.sum(lib.lax.scan(step, start, places)[1])

    rng = np.random.default_rng(0)
    places = np.cumsum(np.cumsum(0.02 * rng.normal(size=(n, 2)), 0), 0) + rng.normal(size=(n, 2))
    return lib.fx.value_and_grad(likelihood), (np.array([-1.0, 0.5]), places)


@program("biquads: gradient in coefficients", 2000, 31, 20000, tolerance=1e-4)
def biquads(lib: Library, n: int) -> Any:
    """Engel et al. 2020 (DDSP) and Nercessian 2020: four second-order sections, one by one."""
    x = lib.np

    def loss(sections: Any, wave: Any, target: Any) -> Any:
        def sample(states: Any, value: Any) -> Any:
            after = []
            for (b0, b1, b2, a1, a2), (s, t) in zip(sections, states):
                out = b0 * value + s
                after.append((b1 * value - a1 * out + t, b2 * value - a2 * out))
                value = out
            return after, value

        zero = 0.0 * wave[0]
        _, heard = lib.lax.scan(sample, [(zero, zero)] * 4, wave)
        return x.mean((heard - target) ** 2)

    rng = np.random.default_rng(0)
    sections = [[np.float64(c) for c in (0.5, 0.2, 0.1, -0.3 - 0.1 * k, 0.2)] for k in range(4)]
    return lib.fx.value_and_grad(loss), (sections, rng.normal(size=n), rng.normal(size=n))


@program("equalised histogram: counts and a table", 256, 33, 1000)
def equalised(lib: Library, n: int) -> Any:
    """Gonzalez and Woods, Digital Image Processing, 3.3: 256 levels, as skimage.exposure does."""
    x = lib.np

    def run(image: Any) -> Any:
        levels = x.round(image * 255.0).astype("int32")
        counts = x.zeros(256, dtype="int32").at[levels].add(1)
        share = x.cumsum(counts).astype("float32") / image.size
        return share[levels], counts

    return run, (picture(n),)
