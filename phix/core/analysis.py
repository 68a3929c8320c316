"""What a program costs, before it runs: operations, bytes moved, bytes held."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from phix.core.dims import DimLike
from phix.core.graph import Source, Variable
from phix.core.places import Place
from phix.core.records import dataclass


@dataclass(frozen=True)
class CostAnalysis:
    """The work of one run. Counts are ints, or expressions of the sizes left unknown.

    Attributes:
        flops: additions, multiplications, divisions, roots, maxima, ... of floats; a complex
            product is its real ones, a matrix product 2 m n k. Work on ints is not counted.
        transcendentals: calls of exp, log, sin, erf, pow and their like.
        bytes_read, bytes_written: traffic with memory. Within one kernel a buffer is read at most
            once: what it reads again is in a cache.
        uncounted: what the counts leave out or estimate, in words.
        places: the same for each place, where there are several; a copy from one place to another
            reads on the one and writes on the other.
    """

    flops: DimLike
    transcendentals: DimLike
    bytes_read: DimLike
    bytes_written: DimLike
    uncounted: tuple[str, ...] = ()
    places: tuple[tuple[Place, CostAnalysis], ...] = ()

    @property
    def bytes_accessed(self) -> DimLike:
        """Read and written together."""
        return self.bytes_read + self.bytes_written

    def __str__(self) -> str:
        names = ("flops", "transcendentals", "bytes_read", "bytes_written")
        lines = [f"{name}: {getattr(self, name)}" for name in names]
        lines += [f"not counted: {text}" for text in self.uncounted]
        return "\n".join([*lines, *_by_place(self.places)])


def _by_place(analyses: Iterable[tuple[Place, object]]) -> Iterator[str]:
    for place, analysis in analyses:
        yield f"on {place}:"
        yield from (f"  {line}" for line in str(analysis).split("\n"))


@dataclass(frozen=True)
class HeldVariable:
    """A variable that has memory of its own in a program, of which ``step`` writes it first.

    No bytes are its own where it is an output. ``in_place``: it is written over what it is computed
    from. A step of -1 is not known.
    """

    variable: Variable
    size_in_bytes: int
    step: int
    in_place: bool = False


@dataclass(frozen=True)
class Holder:
    """A buffer that is held at the peak: its size, what it is, and the user's line it is from."""

    size_in_bytes: int
    name: str
    source: Source | None

    def __str__(self) -> str:
        return f"{self.size_in_bytes} bytes: {self.name}" + (
            f" ({self.source})" * bool(self.source)
        )


@dataclass(frozen=True)
class MemoryAnalysis:
    """The memory of one run, as it is planned, all arguments kept (see ``donate_argnums``).

    Attributes:
        argument_size_in_bytes, output_size_in_bytes: the arrays that go in, and those that come.
        constant_size_in_bytes: the tensors the function closes over.
        temp_size_in_bytes: the block that all temps share, those of one time side by side, and
            what a kernel keeps for itself, for one thread. What lives on the stack is not counted.
        peak_memory_in_bytes: all of these together.
        holders: the temps and outputs held at the step where the temps are largest, largest first.
        uncounted: what is known only while running, in words.
        places: the same for each place, where there are several. Temps are then also what one part
            of the program hands on to a later one.
    """

    argument_size_in_bytes: int
    output_size_in_bytes: int
    constant_size_in_bytes: int
    temp_size_in_bytes: int
    holders: tuple[Holder, ...] = ()
    uncounted: tuple[str, ...] = ()
    places: tuple[tuple[Place, MemoryAnalysis], ...] = ()

    @property
    def peak_memory_in_bytes(self) -> int:
        return (
            self.argument_size_in_bytes
            + self.output_size_in_bytes
            + self.constant_size_in_bytes
            + self.temp_size_in_bytes
        )

    @property
    def peak_source(self) -> Source | None:
        """The user's line whose values hold most of the peak."""
        lines: dict[Source, int] = {}
        for holder in self.holders:
            if holder.source is not None:
                at = Source(holder.source.file, holder.source.line, holder.source.function)
                lines[at] = lines.get(at, 0) + holder.size_in_bytes
        return max(lines, key=lambda line: lines[line], default=None)

    def __str__(self) -> str:
        names = ("argument", "output", "constant", "temp")
        lines = [
            f"{name}_size_in_bytes: {getattr(self, f'{name}_size_in_bytes')}" for name in names
        ]
        lines.append(f"peak_memory_in_bytes: {self.peak_memory_in_bytes}")
        lines.append(f"peak_source: {self.peak_source}")
        lines += [f"  {holder}" for holder in self.holders]
        lines += [f"not counted: {text}" for text in self.uncounted]
        return "\n".join([*lines, *_by_place(self.places)])
