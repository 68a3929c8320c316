"""LLVM text of vectors of unsigned ints, and a network that sorts those of some registers."""

from __future__ import annotations

from phix.kernels.cpu.tiles import Text, spread


class Keys(Text):
    """A function on vectors of keys."""

    def __init__(self, size: int, lanes: int) -> None:
        super().__init__(f"i{8 * size}", size)
        self.lanes, self.vector, self.mask = lanes, f"<{lanes} x {self.kind}>", f"<{lanes} x i1>"
        self.mangled = f"v{lanes}{self.kind}"
        self.none, self.every = "zeroinitializer", f"splat ({self.kind} -1)"

    def variable(self, kind: str, value: str | int) -> str:
        """Where a number is kept that changes."""
        self.count += 1
        name = f"%kept{self.count}"
        self.head.append(f"  {name} = alloca {kind}")
        self.put(f"store {kind} {value}, ptr {name}")
        return name

    def value(self, variable: str, kind: str = "i64") -> str:
        return self.let(f"load {kind}, ptr {variable}")

    def increased(self, variable: str, number: str) -> None:
        self.put(f"store i64 {self.op('add', self.value(variable), number)}, ptr {variable}")

    def is_below(self, vector: str, pivot: str) -> str:
        return self.let(f"icmp ult {self.vector} {vector}, {pivot}")

    def lanes_below(self, count: str) -> str:
        """The mask of so many lanes: of none where there are fewer, of all where there are more."""
        some = self.let(f"call i64 @llvm.smax.i64(i64 {count}, i64 0)")
        most = self.least(some, self.lanes)
        short = self.let(f"trunc i64 {most} to i32")
        numbers = ", ".join(f"i32 {lane}" for lane in range(self.lanes))
        kind = f"<{self.lanes} x i32>"
        return self.let(f"icmp ult {kind} <{numbers}>, {spread(self, 'i32', short, self.lanes)}")

    def masked(self, address: str, mask: str, other: str) -> str:
        """The keys at an address under a mask; in the other lanes those of ``other``."""
        name = f"@llvm.masked.load.{self.mangled}.p0"
        passed = f"ptr {address}, i32 {self.size}, {self.mask} {mask}, {self.vector} {other}"
        return self.let(f"call {self.vector} {name}({passed})")

    def put_masked(self, vector: str, address: str, mask: str) -> None:
        passed = f"{self.vector} {vector}, ptr {address}, i32 {self.size}, {self.mask} {mask}"
        self.put(f"call void @llvm.masked.store.{self.mangled}.p0({passed})")

    def shuffled(self, a: str, b: str, order: list[int]) -> str:
        """Lanes of two vectors: those of b come after those of a."""
        lanes = ", ".join(f"i32 {lane}" for lane in order)
        return self.let(
            f"shufflevector {self.vector} {a}, {self.vector} {b}, <{self.lanes} x i32> <{lanes}>"
        )

    def rotated(self, vector: str, by: int) -> str:
        order = [(lane + by) % self.lanes for lane in range(self.lanes)]
        return self.shuffled(vector, vector, order)

    def call(self, name: str, *arguments: str) -> None:
        self.put(f"call void @{name}({', '.join(arguments)})")


class Network:
    """Batcher's bitonic network: all keys of some registers, in order.

    Keys are compared whose numbers differ in one bit. Where these are in two registers, that is a
    minimum and a maximum; so a bit that lanes are told apart by changes places with one of the
    registers' before. Which bits these are at first does not matter. Of the runs that a step makes
    each second one is to fall: its keys are turned over, so that the others' order is theirs.
    """

    def __init__(self, t: Keys, registers: list[str]) -> None:
        self.t, self.registers = t, registers
        self.of_registers = len(registers).bit_length() - 1
        count = self.of_registers + t.lanes.bit_length() - 1
        # which bit of a key's number each bit of a register's number, then of a lane's, stands for
        self.bits = list(range(count))
        self.steps = [bit for top in range(count) for bit in range(top, -1, -1)]

    def sorted(self) -> list[str]:
        done = 0
        for top in range(len(self.bits)):
            self._turn(top + 1)
            for bit in range(top, -1, -1):
                done += 1
                self._compare(self._among_registers(bit, self.steps[done:]))
            self._turn(top + 1)
        self._put_in_order()
        return self.registers

    def _put_in_order(self) -> None:
        """Let the lanes of a register, and one register behind the other, be in order."""
        lanes = len(self.bits) - self.of_registers
        for place in range(self.of_registers):
            self._swap(place, self.bits.index(lanes + place))
        own = self.bits[self.of_registers :]
        order = [
            sum((lane >> bit & 1) << at for at, bit in enumerate(own))
            for lane in range(self.t.lanes)
        ]
        self.registers = [self.t.shuffled(v, v, order) for v in self.registers]

    def _turn(self, bit: int) -> None:
        """Turn over the keys whose numbers have a bit."""
        t, at = self.t, self.bits.index(bit) if bit in self.bits else None
        if at is None:
            return
        lane = at - self.of_registers
        mask = [lane < 0 or bool(k >> lane & 1) for k in range(t.lanes)]
        turned = f"<{', '.join(f'{t.kind} {-int(m)}' for m in mask)}>"
        for k, vector in enumerate(self.registers):
            if lane >= 0 or k >> at & 1:
                self.registers[k] = t.let(f"xor {t.vector} {vector}, {turned}")

    def _among_registers(self, bit: int, coming: list[int]) -> int:
        """Which bit of a register's number stands for a bit, in place of the last to be needed."""
        at = self.bits.index(bit)
        if at < self.of_registers:
            return at

        def needed(place: int) -> int:
            own = self.bits[place]
            return coming.index(own) if own in coming else len(coming)

        place = max(range(self.of_registers), key=needed)
        self._swap(place, at)
        return place

    def _swap(self, place: int, at: int) -> None:
        """Let two bits of registers and lanes change what they stand for."""
        bits, t = self.bits, self.t
        bits[place], bits[at] = bits[at], bits[place]
        if at < self.of_registers:
            self.registers = [
                self.registers[_swapped(k, place, at)] for k in range(len(self.registers))
            ]
            return
        apart = 1 << (at - self.of_registers)
        assert place < self.of_registers
        for k in range(len(self.registers)):
            if k >> place & 1:
                continue
            pair = self.registers[k], self.registers[k | 1 << place]
            for end, other in ((k, 0), (k | 1 << place, apart)):
                order = [
                    lane ^ other ^ (lane & apart) | (t.lanes if lane & apart else 0)
                    for lane in range(t.lanes)
                ]
                self.registers[end] = t.shuffled(*pair, order)

    def _compare(self, place: int) -> None:
        for k in range(len(self.registers)):
            if not k >> place & 1:
                pair = self.registers[k], self.registers[k | 1 << place]
                for end, fn in ((k, "umin"), (k | 1 << place, "umax")):
                    self.registers[end] = extreme(self.t, fn, *pair)


def _swapped(number: int, a: int, b: int) -> int:
    """A number with two of its bits in each other's place."""
    differ = (number >> a ^ number >> b) & 1
    return number ^ (differ << a | differ << b)


def extreme(t: Keys, fn: str, a: str, b: str) -> str:
    return t.let(f"call {t.vector} @llvm.{fn}.{t.mangled}({t.vector} {a}, {t.vector} {b})")
