"""LLVM text of what is done to single points before and after passes.

Points lie in scratch memory, where lanes are transforms, or in planes: real parts one after the
other and imaginary ones ``%pitch`` numbers behind, where lanes are points. Both have room for a
point more than a transform has, planes for a vector before and behind.
"""

from __future__ import annotations

from collections.abc import Callable

from phix.kernels.cpu.fourier_text import Lanes, Pair


class InScratch(Lanes):
    """Points in scratch memory."""

    name, along = "lanes", 1

    def point(self, base: str, k: str | int) -> Pair:
        return self.pair(base, k)

    def mirrored(self, base: str, k: str) -> Pair:
        """The point k; of several, those before it."""
        return self.pair(base, k)

    def put_point(self, pair: Pair, base: str, k: str | int) -> None:
        self.put_pair(pair, base, k)

    def tabled(self, table: str, pitch: str, k: str | int) -> Pair:
        """Number k of a table."""
        at = self.at(table, k)
        return self.everywhere(self.load(at)), self.everywhere(self.load(self.at(at, pitch)))


class InPlanes(Lanes):
    """Points in planes, as many at once as a vector has lanes."""

    name = "planes"

    @property
    def along(self) -> int:
        return self.lanes

    def point(self, base: str, k: str | int) -> Pair:
        at = self.at(base, k)
        return self.load(at, self.lanes), self.load(self.at(at, "%pitch"), self.lanes)

    def mirrored(self, base: str, k: str) -> Pair:
        found = self.point(base, self.op("sub", k, self.lanes - 1))
        order = list(range(self.lanes))[::-1]
        return self.shuffled(found[0], found[0], order), self.shuffled(found[1], found[1], order)

    def put_point(self, pair: Pair, base: str, k: str | int) -> None:
        at = self.at(base, k)
        self.store(pair[0], at, self.lanes)
        self.store(pair[1], self.at(at, "%pitch"), self.lanes)

    def tabled(self, table: str, pitch: str, k: str | int) -> Pair:
        at = self.at(table, k)
        return self.load(at, self.lanes), self.load(self.at(at, pitch), self.lanes)


def _multiplied(t: InScratch | InPlanes) -> str:
    """Points times a table, in place; zeros from ``count`` to ``end``. ``swap``: parts change."""
    with t.loop(0, "%count", t.along) as k:
        found = t.times(t.point("%x", k), t.tabled("%table", "%apart", k))
        t.put_point(t.swapped("%swap", found), "%x", k)
    if t.name == "lanes":
        zero = t.number(0.0)
        with t.loop("%count", "%end") as k:
            t.put_point((zero, zero), "%x", k)
    else:
        with t.loop("%count", "%end") as k:
            at = t.at("%x", k)
            t.store("0.0", at)
            t.store("0.0", t.at(at, "%pitch"))
    return t.function(
        f"@times_{t.name}(ptr %x, i64 %pitch, ptr %table, i64 %apart, i64 %count, i64 %end, "
        "i1 %swap) noinline"
    )


def _to_halves(t: InScratch | InPlanes) -> str:
    """From the transform of 2 n real numbers as n complex ones to its points 0, ..., n.

    The even ones and the odd ones have transforms that are sums of Z_k and conj(Z_(n-k)).
    """
    half, sign = t.number(0.5), t.everywhere("%sign")
    _copy_point(t, "%z", "0", "%points")
    with t.loop(0, t.op("add", "%points", 1), t.along) as k:
        z, other = t.point("%z", k), t.mirrored("%z", t.op("sub", "%points", k))
        even = t.add(z[0], other[0]), t.sub(z[1], other[1])
        odd = t.sub(z[0], other[0]), t.add(z[1], other[1])
        w = t.tabled("%table", "%apart", k)
        real = t.fma(odd[0], w[1], t.fma(odd[1], w[0], even[0]))
        imaginary = t.fma(odd[1], w[1], t.fma(t.negated(odd[0]), w[0], even[1]))
        t.put_point((t.mul(real, half), t.mul(t.mul(imaginary, half), sign)), "%x", k)
    return t.function(
        f"@to_halves_{t.name}(ptr %z, ptr %x, i64 %pitch, ptr %table, i64 %apart, i64 %points, "
        f"{t.kind} %sign) noinline"
    )


def _mirror(t: InScratch | InPlanes) -> str:
    """The points behind n as the conjugates of those before, of 2 n."""
    every = t.op("mul", "%points", 2)
    with t.loop(t.op("add", "%points", 1), every, t.along) as k:
        found = t.mirrored("%x", t.op("sub", every, k))
        t.put_point((found[0], t.negated(found[1])), "%x", k)
    return t.function(f"@mirror_{t.name}(ptr %x, i64 %pitch, i64 %points) noinline")


def _numbers(t: InScratch | InPlanes, base: str, k: str) -> tuple[str, str, int]:
    """The addresses of the parts of one point, and how many numbers each has there."""
    if t.name == "lanes":
        at = t.at(base, t.op("mul", k, 2 * t.lanes))
        return at, t.at(at, t.lanes), t.lanes
    at = t.at(base, k)
    return at, t.at(at, "%pitch"), 0


def _copy_point(t: InScratch | InPlanes, base: str, k: str, to: str) -> None:
    *parts, lanes = _numbers(t, base, k)
    *ends, _ = _numbers(t, base, to)
    for source, end in zip(parts, ends):
        t.store(t.load(str(source), lanes), str(end), lanes)


def _make_real(t: InScratch | InPlanes, base: str, k: str) -> None:
    _, imaginary, lanes = _numbers(t, base, k)
    t.store("zeroinitializer" if lanes else "0.0", imaginary, lanes)


def _from_halves(t: InScratch | InPlanes) -> str:
    """From the points 0, ..., n of the transform of 2 n real numbers to what gives them, as n
    complex ones, when it is transformed back: parts swapped, so that it is transformed forward."""
    sign = t.everywhere("%sign")
    for k in ("0", "%points"):
        _make_real(t, "%x", k)
    with t.loop(0, "%points", t.along) as k:
        x, other = t.point("%x", k), t.mirrored("%x", t.op("sub", "%points", k))
        x, other = (x[0], t.mul(x[1], sign)), (other[0], t.mul(other[1], sign))
        even = t.add(x[0], other[0]), t.sub(x[1], other[1])
        odd = t.sub(x[0], other[0]), t.add(x[1], other[1])
        w = t.tabled("%table", "%apart", k)
        swapped = t.fma(odd[1], w[1], t.fma(odd[0], w[0], even[1]))
        real = t.fma(odd[0], w[1], t.fma(t.negated(odd[1]), w[0], even[0]))
        t.put_point((swapped, real), "%z", k)
    return t.function(
        f"@from_halves_{t.name}(ptr %x, ptr %z, i64 %pitch, ptr %table, i64 %apart, i64 %points, "
        f"{t.kind} %sign) noinline"
    )


def _from_few(t: InScratch | InPlanes) -> str:
    """From the points 0, ..., (n - 1) / 2 of the transform of an odd number n of real numbers to
    all of them, parts swapped; in scratch memory and of planes one point at a time."""
    _make_real(t, "%x", "0")
    sign = t.everywhere("%sign")
    behind = t.op("add", t.op("sdiv", "%points", 2), 1)
    with t.loop(0, behind) as k:
        real, imaginary = t.point("%x", k)
        imaginary = t.mul(imaginary, sign)
        t.put_point((imaginary, real), "%z", k)
        with t.where(t.let(f"icmp sgt i64 {k}, 0")):
            t.put_point((t.negated(imaginary), real), "%z", t.op("sub", "%points", k))
    return t.function(
        f"@from_few_{t.name}(ptr %x, ptr %z, i64 %pitch, i64 %points, {t.kind} %sign) noinline"
    )


def text(kind: str, size: int, lanes: int) -> list[str]:
    """These functions, for points in scratch memory and for those in planes."""
    makers: tuple[Callable[..., str], ...] = (_multiplied, _to_halves, _from_halves, _mirror)
    found = [make(side(kind, size, lanes)) for make in makers for side in (InScratch, InPlanes)]
    return [*found, _from_few(InScratch(kind, size, lanes)), _from_few(InPlanes(kind, size, 1))]
