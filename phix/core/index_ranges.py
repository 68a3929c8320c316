"""Whether the ints of index tensors are in range: class numbers, rows, positions along an axis; and
whether other values are what an op can mean (``phix.core.value_ranges``).

Calls that run at once raise where one is not. Compiled programs read at the nearest index that is,
write nothing, and compute with other values as they are, unless they were traced inside
``phix.debug.check_indices()``: then each run looks at the values, and raises. What derivatives,
batching and replayed graphs do with values is not looked at: the call was, or a branch that is not
taken has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from phix.core import context
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.attrs import with_call
from phix.core.conversion import tensor_from_scalar
from phix.core.errors import PhixError, TensorIndexError
from phix.core.graph import map_entries
from phix.core.interpreter import Interpreter
from phix.core.later import call_op, infer
from phix.core.op import Op
from phix.core.records import dataclass
from phix.core.source import at_user_line
from phix.core.tensor import Tensor, TensorBase, Tracer
from phix.core.value_ranges import ValueRange

NO_END = 1 << 62  # the size where every int from 0 is in range


@dataclass(frozen=True)
class IndexRange(ValueRange):
    """What the ints of an index tensor may be.

    ``sizes`` are those of the axis it indexes, or of several axes, one for each entry of its last
    axis (as gather_nd takes them). ``what`` names them: "axis 1", "the classes".
    """

    what: str = "the axis"
    counts_back: bool = True  # from the end, if negative
    ignored: int | None = None  # a number that stands for none
    is_row: bool = False  # whether the last axis of the ints has one entry for each of the sizes
    error: ClassVar[type[PhixError]] = TensorIndexError

    @property
    def is_moot(self) -> bool:
        return any(map(dm.is_zero, self.sizes))  # there is nothing to name

    def wrong(self, array: np.ndarray) -> str | None:
        """What to say of an array that holds an int out of range."""
        if not array.size:
            return None
        if not self.is_row:
            return self._wrong_in(array, int(self.sizes[0]), self.what)
        texts = (
            self._wrong_in(array[..., k], int(size), f"axis {k}")
            for k, size in enumerate(self.sizes)
        )
        return next((text for text in texts if text is not None), None)

    def _wrong_in(self, array: np.ndarray, size: int, what: str) -> str | None:
        lowest = -size if self.counts_back else 0
        if int(array.max()) < size and int(array.min()) >= lowest:
            return None
        bad = (array >= size) | (array < lowest)
        if self.ignored is not None:
            bad &= array != self.ignored
            if not bad.any():
                return None
        found = int(array[bad].flat[0])
        if size >= NO_END:
            return f"{self.name} holds {found}, which is negative; write ints from 0"
        also = "" if self.ignored is None else f", or {self.ignored}, which counts for nothing"
        may_be = (
            f"write ints from {lowest} to {size - 1}{also}" if size else "there is none to name"
        )
        return f"{self.name} holds {found}, out of range for {what} of size {size}; {may_be}"


_MOST = np.iinfo(np.int64).max


def as_int64(index: Any) -> Any:
    """An index tensor as int64. What a uint64 has beyond it stays out of range, as the largest."""
    if index.dtype == dt.uint64:
        index = call_op("minimum", index, tensor_from_scalar(_MOST, dt.uint64))
    return index if index.dtype == dt.int64 else index.astype(dt.int64)


# -- whether compiled programs look ----------------------------------------------------------------
class Checking(Interpreter):
    """Runs ops in its parent. What is traced under it looks at its indices each time it runs."""

    name = "check_indices"
    watches = True

    def process(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        assert self.parent is not None
        with context.active(self.parent):
            return self.parent.process(op, inputs, attrs)


def is_checking() -> bool:
    """Whether what is traced now looks at its indices each time it runs."""
    return any(isinstance(i, Checking) for i in context.chain())


# -- calls -----------------------------------------------------------------------------------------
Path = tuple[int, Any]  # the number of an input, and in a list the number of its entry


def ranges_of(op: Op, metas: tuple[Any, ...], attrs: tuple[Any, ...]) -> list[tuple[Path, Any]]:
    """Where a call of the op takes indices, and what they may be."""
    assert op.index_rule is not None
    numbers = {arg.name: number for number, arg in enumerate(op.inputs)}
    found: list[tuple[Path, Any]] = []
    for entry in op.index_rule(*op.merge(metas, attrs)):
        name, _, rest = entry.name.partition("[")
        found.append(((numbers[name], int(rest[:-1]) if rest else None), entry))
    return found


def _at(entries: tuple[Any, ...], path: Path) -> Any:
    number, place = path
    return entries[number] if place is None else entries[number][place]


def check_call(op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> None:
    """Look at the indices of a call that a user makes, now or each time it runs.

    Raises:
        TensorIndexError: the values are known, the call runs at once, and one is out of range.
    """
    metas = map_entries(lambda x: x.meta, inputs)
    for path, entry in ranges_of(op, metas, attrs):
        if entry.is_moot:
            continue
        text = _looked(_at(inputs, path), entry, op.name)
        if text is not None:
            infer(op, metas, attrs)  # what is wrong with the metas comes first
            raise with_call(entry.error(text), op, metas)


def check(value: TensorBase, wanted: ValueRange, where: str) -> None:
    """As :func:`check_call`, for a tensor that the function ``where`` takes, which is no op."""
    text = None if context.is_inside() else _looked(value, wanted, where)
    if text is not None:
        raise wanted.error(f"{where}{at_user_line()}: {text}")


def _looked(value: TensorBase, wanted: ValueRange, where: str) -> str | None:
    """What is wrong with the values of a tensor; what is not known yet is looked at when it is."""
    if dt.kind(value.dtype) not in wanted.kinds:
        return None  # what infers the metas of the call says so
    if context.runs_at_once():
        array = _array_under(value, is_checking())
        is_known = array is not None and dm.is_known(*wanted.sizes)
        return wanted.wrong(array) if is_known else None  # type: ignore[arg-type]
    if is_checking():
        _check_when_run(value, wanted, where)
    return None


def _array_under(value: Any, fetches: bool) -> np.ndarray | None:
    """The array under tracers; None where the values are not known, or elsewhere and not fetched:
    that waits for all that is under way there."""
    while isinstance(value, Tracer):
        value = getattr(value, "value", None)
    if isinstance(value, Tensor) and (fetches or isinstance(value.data, np.ndarray)):
        return value.host
    return None


# -- each time a program runs ----------------------------------------------------------------------
@dataclass(frozen=True)
class IndexCheck:
    """What a program calls with an index tensor and the sizes that were unknown when traced."""

    wanted: ValueRange
    unknown: tuple[int, ...]  # which of the sizes come with each call
    where: str
    __name__ = "check_indices"

    def __call__(self, arrays: Sequence[np.ndarray]) -> None:
        array, *given = arrays
        sizes = list(self.wanted.sizes)
        for number, size in zip(self.unknown, given):
            sizes[number] = int(size)
        text = replace(self.wanted, sizes=tuple(sizes)).wrong(np.asarray(array))
        if text is not None:
            raise self.wanted.error(f"{self.where}: {text}")


def _check_when_run(value: Any, wanted: ValueRange, where: str) -> None:
    unknown = tuple(n for n, s in enumerate(wanted.sizes) if not isinstance(s, int))
    known = tuple(-1 if n in unknown else s for n, s in enumerate(wanted.sizes))
    call = IndexCheck(replace(wanted, sizes=known), unknown, f"{where}{at_user_line()}")
    while isinstance(value, Tracer) and isinstance(getattr(value, "value", None), TensorBase):
        inner: Any = value
        value = inner.value  # of all lanes at once
    given = [call_op("full", attrs=((), wanted.sizes[n], dt.int64, None)) for n in unknown]
    call_op("debug_callback", [value, *given], attrs=(call,))


# -- calls that come again -------------------------------------------------------------------------
def checked(
    op: Op, metas: tuple[Any, ...], attrs: tuple[Any, ...], run: Callable[..., Any]
) -> Callable[..., Any]:
    """``run`` of the arrays of a call on these metas, which looks at the indices among them."""
    starts = np.cumsum([0, *(len(m) if isinstance(m, tuple) else m is not None for m in metas)])
    looks = [
        (int(starts[number]) + (place or 0), entry)
        for (number, place), entry in ranges_of(op, metas, attrs)
        if not entry.is_moot
    ]
    if not looks:
        return run

    def looking(*arrays: Any) -> Any:
        if not context.is_inside():
            for number, entry in looks:
                array = arrays[number]
                text = entry.wrong(array) if isinstance(array, np.ndarray) else None
                if text is not None:
                    raise with_call(entry.error(text), op, metas)
        return run(*arrays)

    return looking
