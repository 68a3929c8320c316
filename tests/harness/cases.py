"""Cases: an op of the table with its samples, and calls: one sample as concrete arrays."""

from __future__ import annotations

import dataclasses
import functools
import warnings
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import phix
from harness import references
from harness.samples import KINDS, Sample, TensorSample, parse_sample
from phix.core import dtypes as dt
from phix.core.op import REQUIRED, Op
from phix.core.rules import get_op
from phix.table.codegen import python_name
from phix.table.loader import read_table
from phix.testing.comparison import tolerance_of

if TYPE_CHECKING:
    from phix.table.entries import Entry

# The dtypes that samples other than the first of their kind run in.
_MAIN = (dt.bool_, dt.int32, dt.float32, dt.float64, dt.complex64)
# Those that all of a composite's run in, where its parts stand for the others.
_OF_PARTS = frozenset({*_MAIN, dt.float16})


def _width(kind: str) -> int:
    return list(KINDS).index(kind)


def flatten(result: Any) -> tuple[Any, ...]:
    """The tensors of an op's result, lists opened, absent ones left out."""
    """The tensors of an op's result, lists opened, absent outputs left out."""
    if result is None:
        return ()
    if isinstance(result, (tuple, list)):
        return tuple(leaf for part in result for leaf in flatten(part))
    return (result,)


@dataclasses.dataclass(frozen=True, repr=False)
class Call:
    """One sample of an op with concrete arrays; ``fn(*arrays)`` performs it."""

    case: Case
    sample: Sample
    arrays: tuple[np.ndarray, ...]
    dtype: np.dtype | None = None

    def fn(self, *tensors: Any) -> tuple[Any, ...]:
        """The op on these tensors in place of ``arrays``; a flat tuple of its outputs."""
        return flatten(self.case.perform(self.structure(tensors), self.sample.attrs))

    def structure(self, tensors: tuple[Any, ...]) -> dict[str, Any]:
        """The flat tensors by argument name."""
        rest = iter(tensors)
        return {
            name: None if t is None else [next(rest) for _ in t] if isinstance(t, tuple)
            else next(rest)
            for name, t in self.sample.tensors.items()
        }  # fmt: skip

    def reference(self) -> tuple[np.ndarray, ...]:
        """What the entry's ``ref`` gives for the arrays, one array an output."""
        return self.case.reference(self.structure(self.arrays), self.sample.attrs)

    @property
    def names(self) -> list[str]:
        """The argument name of each array."""
        return [name for name, _ in self.sample.flat()]

    def at(self, positions: list[int]) -> tuple[Callable[..., tuple[Any, ...]], list[np.ndarray]]:
        """The call as a function of the arrays at ``positions`` alone, and those arrays."""

        def fn(*chosen: Any) -> tuple[Any, ...]:
            tensors = list(self.arrays)
            for position, tensor in zip(positions, chosen):
                tensors[position] = tensor
            return self.fn(*tensors)

        return fn, [self.arrays[p] for p in positions]

    def __str__(self) -> str:
        shapes = ", ".join(f"{a.dtype}{list(a.shape)}" for a in self.arrays)
        return f"{self.case.op.name}, {self.sample} as ({shapes})"

    __repr__ = __str__


@dataclasses.dataclass(frozen=True, repr=False)
class Case:
    """An op of the table and its ``test`` key.

    ``by_parts``: it is made of ops that are checked themselves, and a check may leave to them what
    they answer for; the same check without it is a proof.
    """

    op: Op
    test: dict[str, Any]
    seed: int = 0
    by_parts: bool = False

    @functools.cached_property
    def samples(self) -> list[Sample]:
        return self._parse("samples")

    @functools.cached_property
    def errors(self) -> list[Sample]:
        return self._parse("errors")

    def _parse(self, key: str) -> list[Sample]:
        return [parse_sample(self.op, i, s) for i, s in enumerate(self.test.get(key, []))]

    @property
    def skip(self) -> dict[str, str]:
        return dict(self.test.get("skip", {}))

    def tolerance(self, *dtypes: np.dtype) -> tuple[float, float]:
        """Relative and absolute error allowed where these dtypes take part."""
        return tolerance_of(dtypes, self.test.get("tolerance", {}))

    # -- calls -----------------------------------------------------------------------------
    @functools.cached_property
    def swept(self) -> frozenset[str]:
        """The inputs that take on the dtypes the op claims."""
        if "sweep" in self.test:
            return frozenset(self.test["sweep"])
        names = [a.name for a in self.op.inputs]
        if self.op.promoted:
            return frozenset(self.op.promoted)
        if self.op.traits & {"promote", "promote_float"}:
            return frozenset(names)
        kinds = {name: t.kind for sample in self.samples[:1] for name, t in sample.flat()}
        widest = max(kinds.values(), key=_width, default="")
        return frozenset(name for name, kind in kinds.items() if kind == widest)

    def call(self, sample: Sample, dtype: np.dtype | None = None, draw: int = 0) -> Call:
        """The sample as arrays: swept inputs of ``dtype``, other floats as wide as it.

        ``draw`` numbers further arrays of the same sample.
        """
        key = [self.seed, zlib.crc32(self.op.name.encode()), sample.number, draw]
        rng = np.random.default_rng(key)
        arrays = [
            tensor.draw(rng, self._dtype_of(name, tensor, dtype)) for name, tensor in sample.flat()
        ]
        return Call(self, sample, tuple(arrays), dtype)

    def _dtype_of(self, name: str, tensor: TensorSample, dtype: np.dtype | None) -> np.dtype | None:
        if dtype is None or name in self.swept:
            return dtype
        wide = dt.real_dtype(dtype) == dt.float64
        return {"float": dt.float64, "complex": dt.complex128}.get(tensor.kind) if wide else None

    def calls(self) -> Iterator[Call]:
        """Every sample in its own default dtypes."""
        return (self.call(sample) for sample in self.samples)

    def double_calls(self) -> Iterator[Call]:
        """Every sample that derivatives are checked on, in float64 (or complex128).

        The first comes once more in complex128 at the end, if the op takes that.
        """
        for sample in self.samples:
            if sample.is_finite:
                kind = self._kind(sample)
                yield self.call(sample, {"float": dt.float64, "complex": dt.complex128}.get(kind))
        claimed = not self.op.dtypes or dt.complex128 in self.op.dtypes
        first = self.samples[0]
        if claimed and first.is_finite and self._kind(first) == "float":
            yield self.call(first, dt.complex128)

    def sweep(self) -> Iterator[Call]:
        """Every sample in every dtype the op claims that the sample stands for.

        The first sample of a kind runs in all dtypes of that kind, by its parts in the main ones
        and float16, further ones in the main ones;
        a kind that no sample has takes the numbers of the first sample.
        """
        claimed = self.op.dtypes or frozenset(dt.ALL)
        if "promote_float" in self.op.traits:
            claimed |= {dt.int32, dt.bool_}
        if self.by_parts and claimed & _OF_PARTS:
            claimed &= _OF_PARTS
        first: dict[str, Sample] = {}
        for sample in self.samples:
            kind = self._kind(sample)
            if kind is None:
                yield self.call(sample)
            elif kind not in first:
                first[kind] = sample
        for dtype in dt.ALL:
            if dtype in claimed and (sample := self._first(first, dt.kind(dtype))) is not None:
                yield self.call(sample, dtype)
        for sample in self.samples:
            kind = self._kind(sample)
            if kind is not None and first[kind] is not sample:
                fitting = (d for d in _MAIN if dt.kind(d) == kind and d in claimed)
                yield from (self.call(sample, dtype) for dtype in fitting)

    def _kind(self, sample: Sample) -> str | None:
        kinds = {t.kind for n, t in sample.flat() if n in self.swept and t.fixed is None}
        return max(kinds, key=_width) if kinds else None

    @staticmethod
    def _first(first: dict[str, Sample], kind: str) -> Sample | None:
        return first.get(kind, next(iter(first.values()), None))

    def differentiated(self, call: Call) -> list[int]:
        """The positions of the arrays that derivatives are taken of."""
        names = self.test.get("grad")
        return [
            i
            for i, (name, array) in enumerate(zip(call.names, call.arrays))
            if dt.is_differentiable(array.dtype) and (names is None or name in names)
        ]

    def __repr__(self) -> str:
        return f"<case {self.op.name}>"

    # -- performing ------------------------------------------------------------------------
    def perform(self, tensors: dict[str, Any], attrs: dict[str, Any]) -> Any:
        """The public function of the op, tensors positional as far as they stand first."""
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for arg in self.op.args:
            if arg.is_tensor and not named and len(positional) == self.op.args.index(arg):
                positional.append(tensors[arg.name])
            elif arg.is_tensor:
                named[python_name(arg.name)] = tensors[arg.name]
            elif arg.name in attrs:
                named[python_name(arg.name)] = attrs[arg.name]
        return getattr(phix.ops, python_name(self.op.name))(*positional, **named)

    def reference(self, tensors: dict[str, Any], attrs: dict[str, Any]) -> tuple[np.ndarray, ...]:
        """The entry's ``ref`` evaluated on arrays, one array an output."""
        floats = self.op.promoted or tensors if "promote_float" in self.op.traits else ()
        names: dict[str, Any] = dict(references.NAMES)
        names.update(
            (python_name(a.name), a.default) for a in self.op.attrs if a.default is not REQUIRED
        )
        names.update((python_name(name), value) for name, value in attrs.items())
        for name, value in tensors.items():
            widen = functools.partial(_widened, ints=name in floats)
            names[name] = [widen(v) for v in value] if isinstance(value, list) else widen(value)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            result = eval(self.test["ref"], names)
        return tuple(np.asarray(leaf) for leaf in flatten(result))


def _widened(array: np.ndarray | None, ints: bool) -> np.ndarray | None:
    if array is None:
        return None
    if dt.is_complex(array.dtype):
        return array.astype(np.complex128)
    if dt.is_float(array.dtype) or (ints and array.dtype.kind in "iub"):
        return array.astype(np.float64)
    return array


def kind_of(case: Case) -> str:
    """What else stands for an op: nothing for a primitive, composites for others of a family."""
    own = case.op.is_primitive or case.op.jet_rule is not None
    return case.op.name if own else f"composites: {case.op.family}"


@functools.cache
def table_entries() -> list[Entry]:
    """The table, read once for all files of tests that go through it."""
    return read_table()


def table_cases() -> list[Case]:
    """One case for every op of the table that has a ``test`` key."""
    entries = ((entry.name, entry.test) for entry in table_entries())
    return [Case(get_op(name), dict(test)) for name, test in entries if test]


def entries_without_test() -> list[str]:
    """Where the entries stand that have no ``test``, backward ops left out."""
    return [
        f"{entry.file}:{entry.line}: {entry.name}"
        for entry in table_entries()
        if not entry.test and not get_op(entry.name).forward
    ]
