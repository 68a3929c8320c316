"""LLVM text of arithmetic on vectors, for transforms: one transform a lane, or one point a lane."""

from __future__ import annotations

import struct
from collections.abc import Callable

from phix.kernels.cpu.tiles import Text, mangled, spread

Pair = tuple[str, str]  # the real and the imaginary parts of some complex numbers


class Lanes(Text):
    """A function on vectors of so many numbers. Complex ones are two: real and imaginary parts."""

    def __init__(self, kind: str, size: int, lanes: int) -> None:
        super().__init__(kind, size)
        self.lanes, self.vector = lanes, f"<{lanes} x {kind}>"

    # -- arithmetic --------------------------------------------------------------------------
    def add(self, a: str, b: str) -> str:
        return self.let(f"fadd {self.vector} {a}, {b}")

    def sub(self, a: str, b: str) -> str:
        return self.let(f"fsub {self.vector} {a}, {b}")

    def mul(self, a: str, b: str) -> str:
        return self.let(f"fmul {self.vector} {a}, {b}")

    def negated(self, a: str) -> str:
        return self.let(f"fneg {self.vector} {a}")

    def fma(self, a: str, b: str, c: str) -> str:
        """a b + c"""
        vector = self.vector
        name = f"@llvm.fmuladd.{mangled(self.kind, self.lanes)}"
        return self.let(f"call {vector} {name}({vector} {a}, {vector} {b}, {vector} {c})")

    def number(self, value: float) -> str:
        """A number in all lanes."""
        one = f"{self.kind} {hexadecimal(value, self.size)}"
        return f"<{', '.join([one] * self.lanes)}>"

    def everywhere(self, scalar: str) -> str:
        return spread(self, self.kind, scalar, self.lanes)

    def plus(self, a: Pair, b: Pair) -> Pair:
        return self.add(a[0], b[0]), self.add(a[1], b[1])

    def minus(self, a: Pair, b: Pair) -> Pair:
        return self.sub(a[0], b[0]), self.sub(a[1], b[1])

    def times(self, a: Pair, b: Pair) -> Pair:
        real = self.fma(a[0], b[0], self.negated(self.mul(a[1], b[1])))
        return real, self.fma(a[0], b[1], self.mul(a[1], b[0]))

    # -- memory ------------------------------------------------------------------------------
    def shuffled(self, a: str, b: str, order: list[int]) -> str:
        """Lanes of two vectors: those of b come after those of a."""
        mask = ", ".join(f"i32 {n}" for n in order)
        vector = self.vector
        return self.let(f"shufflevector {vector} {a}, {vector} {b}, <{len(order)} x i32> <{mask}>")

    def pair(self, base: str, number: str | int) -> Pair:
        """The complex numbers of that number in scratch memory, where each has 2 vectors."""
        at = self.at(base, self.op("mul nsw", number, 2 * self.lanes))
        return self.load(at, self.lanes), self.load(self.at(at, self.lanes), self.lanes)

    def put_pair(self, pair: Pair, base: str, number: str | int) -> None:
        at = self.at(base, self.op("mul nsw", number, 2 * self.lanes))
        self.store(pair[0], at, self.lanes)
        self.store(pair[1], self.at(at, self.lanes), self.lanes)

    def merged(self, pair: Pair) -> tuple[str, str]:
        """Real and imaginary parts in turns, as complex numbers lie in tensors."""
        half, lanes = self.lanes // 2, self.lanes
        orders = [
            [n for k in range(half * part, half * (part + 1)) for n in (k, lanes + k)]
            for part in range(2)
        ]
        return self.shuffled(*pair, orders[0]), self.shuffled(*pair, orders[1])

    def interleaved(self, pair: Pair, to: str) -> None:
        """Store complex numbers as they lie in tensors."""
        for part, vector in enumerate(self.merged(pair)):
            self.store(vector, self.at(to, part * self.lanes), self.lanes)

    def parted(self, low: str, high: str) -> Pair:
        """What ``merged`` has put together."""
        evens = list(range(0, 2 * self.lanes, 2))
        odds = [n + 1 for n in evens]
        return self.shuffled(low, high, evens), self.shuffled(low, high, odds)

    def separated(self, at: str) -> Pair:
        """Load complex numbers as they lie in tensors."""
        return self.parted(
            self.load(at, self.lanes), self.load(self.at(at, self.lanes), self.lanes)
        )

    def chosen(self, condition: str, a: Pair, b: Pair) -> Pair:
        vector = self.vector
        return tuple(
            self.let(f"select i1 {condition}, {vector} {x}, {vector} {y}") for x, y in zip(a, b)
        )  # type: ignore[return-value]

    def swapped(self, condition: str, a: Pair) -> Pair:
        """Real parts as imaginary ones and the other way round, where ``condition`` holds."""
        return self.chosen(condition, (a[1], a[0]), a)

    def is_not(self, condition: str) -> str:
        return self.let(f"xor i1 {condition}, true")

    def either(self, condition: str, yes: Callable[[], None], no: Callable[[], None]) -> None:
        with self.where(condition):
            yes()
        with self.where(self.is_not(condition)):
            no()

    def field(self, block: str, number: int, kind: str = "i64") -> str:
        """A word of a block of int64 and pointers."""
        return self.let(f"load {kind}, ptr {self.word(block, number)}")

    def word(self, block: str, number: str | int) -> str:
        return self.let(f"getelementptr inbounds i64, ptr {block}, i64 {number}")

    # -- words and variables -----------------------------------------------------------------
    def set_word(self, block: str, number: str | int, value: str | int, kind: str = "i64") -> None:
        self.put(f"store {kind} {value}, ptr {self.word(block, number)}")

    def variable(self, name: str, value: str | int, kind: str = "i64") -> None:
        """A variable of the function, whatever loop it is in; ``get`` and ``set`` know it."""
        self.head.append(f"  %{name} = alloca {kind}")
        self.set(name, value, kind)

    def set(self, name: str, value: str | int, kind: str = "i64") -> None:
        self.put(f"store {kind} {value}, ptr %{name}")

    def get(self, name: str, kind: str = "i64") -> str:
        return self.let(f"load {kind}, ptr %{name}")

    def hold(self, name: str, value: Pair) -> None:
        """A variable that has complex numbers; ``held`` and ``keep`` know it."""
        for part, one in zip("ri", value):
            self.variable(f"{name}.{part}", one, self.vector)

    def held(self, name: str) -> Pair:
        return self.get(f"{name}.r", self.vector), self.get(f"{name}.i", self.vector)

    def keep(self, name: str, value: Pair) -> None:
        for part, one in zip("ri", value):
            self.set(f"{name}.{part}", one, self.vector)

    def test(self, how: str, a: str | int, b: str | int) -> str:
        return self.let(f"icmp {how} i64 {a}, {b}")

    def both(self, a: str, b: str) -> str:
        return self.let(f"and i1 {a}, {b}")

    def select(self, condition: str, a: str | int, b: str | int, kind: str = "i64") -> str:
        return self.let(f"select i1 {condition}, {kind} {a}, {kind} {b}")

    def rounded_up(self, value: str | int, to: int) -> str:
        return self.op("and", self.op("add", value, to - 1), -to)

    def parts_of(self, value: str | int, size: int) -> str:
        """How many parts of so many, the last of which may be smaller, there are."""
        return self.op("sdiv", self.op("add", value, size - 1), size)

    def call(self, name: str, *arguments: str) -> None:
        self.put(f"call void @{name}({', '.join(arguments)})")


def hexadecimal(value: float, size: int) -> str:
    """A constant of LLVM: that nearest to a value among the floats of so many bytes."""
    rounded = value if size == 8 else struct.unpack("f", struct.pack("f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"


def intrinsics(kind: str, lanes: int) -> list[str]:
    """The declarations of what functions on vectors call."""
    vector, name = f"<{lanes} x {kind}>", mangled(kind, lanes)
    return [f"declare {vector} @llvm.fmuladd.{name}({vector}, {vector}, {vector})"]
