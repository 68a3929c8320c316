"""The ``test`` key of an entry of the op table: what it may say, and the arrays it stands for.

::

    test:
      ref: "np.sum(x, axis=axis)"
      samples:
        - {x: "float[3, 4]", axis: [1]}
        - {x: "int[2, 3](-5, 5)", axis: [0]}
      errors:
        - {x: "float[3]", axis: [2]}
      grad: [x]
      sweep: [x]
      tolerance: {float16: 1e-2, gradient: 1e-4}
      skip: {vmap: "the size of the result depends on the data"}

``ref``
    A Python expression over the op's arguments that gives an array, or a tuple of arrays with one
    entry an output (a list output has its entries in place). ``np`` is NumPy, ``sp`` is
    scipy.special, and every function of ``harness/references`` is at hand. Float inputs arrive
    as float64 and complex ones as complex128, holding the values the op saw, and so do the ints
    that an op's trait promote_float is about; other inputs arrive as they are. Attributes arrive as
    written, absent ones with their defaults. Absent (a random op): values are not compared.
``samples``
    Each maps argument names to values. A tensor is a text ``kind[dims]``, ``kind[dims](low, high)``
    or ``kind[dims] = value, value, ...``; a Tensor[] is a list of such texts; an optional tensor is
    null or left out; any other argument is the attribute itself. ``float[]`` is 0-d. The kinds
    float, complex (default range -2 to 2, for both parts), int (range required, ``high`` exclusive)
    and bool stand for every dtype of that kind that the op claims. A dtype's own name
    (``uint32[2](0, 9)``) stands for itself alone. Values are cycled to fill the tensor, row by row,
    and may be nan and inf; such a sample takes no part in the checks of derivatives. With
    ``+ number eye`` behind it that number is added on the diagonals of the matrices in the last two
    axes (as bools they are identities), which makes them regular.
``errors``
    Samples that must raise a PhixError whose text names the op.
``grad``
    The inputs to differentiate; default: all that are float or complex. ``[]``: none.
``sweep``
    The inputs that take on the dtypes the op claims; default: those that its promote trait names,
    else those of the widest kind in the first sample (bool, int, float, complex).
``tolerance``
    Relative and absolute error allowed, by dtype name, or ``gradient`` for finite differences.
``values``
    In place of ``ref``: the file that compares values, of which no array says all. Signs of vectors
    are free, and the order of eigenvalues.
``elsewhere``
    The file that tests the op, where samples cannot: ops with graphs in them. Stands alone.
``skip``
    Check name -> why it cannot hold. The check runs all the same, and fails if it passes.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.core.op import Op

_TENSOR = re.compile(r"(\w+)\[([\d,\s]*)\]\s*(?:\((.+)\)|=\s*(.+?))?\s*(?:\+\s*([\d.]+)\s*eye)?$")
# The kinds in order of width, with the dtype each has by default.
KINDS = {"bool": dt.bool_, "int": dt.int64, "float": dt.float32, "complex": dt.complex64}


@dataclasses.dataclass(frozen=True)
class TensorSample:
    """One tensor of a sample, before its dtype is chosen."""

    text: str
    kind: str
    dims: tuple[int, ...]
    low: float = -2.0
    high: float = 2.0
    values: tuple[complex, ...] = ()
    fixed: np.dtype | None = None
    eye: float = 0.0

    @property
    def is_finite(self) -> bool:
        return bool(np.all(np.isfinite(self.values)))

    def with_dims(self, dims: tuple[int, ...]) -> TensorSample:
        return dataclasses.replace(self, dims=dims)

    def __str__(self) -> str:
        return re.sub(r"\[.*?\]", str(list(self.dims)), self.text, count=1)

    def draw(self, rng: np.random.Generator, dtype: np.dtype | None = None) -> np.ndarray:
        """An array of ``dtype``, or of the kind's default dtype."""
        dtype = self.fixed or dtype or KINDS[self.kind]
        with np.errstate(all="ignore"):
            drawn = np.asarray(self._numbers(rng, dtype)).astype(dtype).reshape(self.dims)
        if not self.eye or len(self.dims) < 2:
            return drawn
        eye = np.eye(*self.dims[-2:], dtype=dtype)
        return (
            np.broadcast_to(eye, self.dims)
            if dtype == dt.bool_
            else drawn + np.asarray(self.eye, dtype) * eye
        )

    def _numbers(self, rng: np.random.Generator, dtype: np.dtype) -> np.ndarray:
        wanted = dt.kind(dtype)
        if self.values:
            filled = np.resize(np.array(self.values), self.dims)
            return filled if wanted == "complex" else filled.real
        if wanted == "bool":
            return rng.integers(0, 2, self.dims)
        if wanted == "int":
            return self._integers(rng, dtype)
        numbers = rng.uniform(self.low, self.high, self.dims)
        if self.kind == "int":
            numbers = np.floor(numbers)
        if wanted == "complex":
            return numbers + 1j * rng.uniform(self.low, self.high, self.dims)
        return numbers

    def _integers(self, rng: np.random.Generator, dtype: np.dtype) -> np.ndarray:
        limits = np.iinfo(dtype)
        low = max(int(np.ceil(self.low)), int(limits.min))
        last = int(self.high) - 1 if self.kind == "int" else int(np.floor(self.high))
        last = min(last, int(limits.max))
        if low > last:  # such as (-5, 0) as an unsigned int
            low, last = abs(last), abs(low)
        return rng.integers(low, last, self.dims, dtype=dtype, endpoint=True)


def parse_tensor(text: str) -> TensorSample:
    """``float[3, 4](-1, 1)`` as a TensorSample.

    Raises:
        ValueError: the text is not of that form.
    """
    match = _TENSOR.match(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no tensor; write kind[dims](low, high)")
    kind, dims, limits, values, eye = match.groups()
    fixed = None
    if kind not in KINDS:
        fixed = dt.as_dtype(kind)
        kind = dt.kind(fixed)
    sample = TensorSample(
        text,
        kind,
        tuple(int(d) for d in dims.split(",") if d.strip()),
        fixed=fixed,
        eye=float(eye or 0),
    )
    if limits is not None:
        low, high = (float(x) for x in limits.split(","))
        if not low < high:
            raise ValueError(f"{text!r}: low must be below high")
        return dataclasses.replace(sample, low=low, high=high)
    if values is not None:
        numbers = tuple(complex(v.strip()) for v in values.split(","))
        return dataclasses.replace(sample, values=numbers)
    if kind == "int":
        raise ValueError(f"{text!r}: ints need a range; write {text}(low, high)")
    return sample


@dataclasses.dataclass(frozen=True)
class Sample:
    """One call of an op: its tensors by name (a tuple for Tensor[]), and the attributes given."""

    number: int
    tensors: dict[str, TensorSample | tuple[TensorSample, ...] | None]
    attrs: dict[str, Any]

    def flat(self) -> Iterator[tuple[str, TensorSample]]:
        """Every tensor with the name of its argument, lists opened, absent ones left out."""
        for name, value in self.tensors.items():
            for tensor in value if isinstance(value, tuple) else (value,):
                if tensor is not None:
                    yield name, tensor

    def map(self, change: Callable[[TensorSample], TensorSample]) -> Sample:
        """The sample with ``change`` made to every tensor."""

        def entry(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(change(t) for t in value)
            return None if value is None else change(value)

        return dataclasses.replace(self, tensors={n: entry(v) for n, v in self.tensors.items()})

    def replace_flat(self, at: int, tensor: TensorSample) -> Sample:
        """The sample with the tensor at that place of ``flat()`` exchanged."""
        counter = iter(range(10**6))
        return self.map(lambda old: tensor if next(counter) == at else old)

    def resized(self, size: int, to: int) -> Sample:
        """The sample with every dim of that size changed, so that dims that meet still do."""
        return self.map(lambda t: t.with_dims(tuple(to if d == size else d for d in t.dims)))

    @property
    def sizes(self) -> list[int]:
        return sorted({d for _, t in self.flat() for d in t.dims})

    @property
    def is_finite(self) -> bool:
        return all(t.is_finite for _, t in self.flat())

    def __str__(self) -> str:
        """``sample 0: x=float[3, 4](0, 1), axis=[1]``, in the sizes it has now."""
        tensors = [f"{name}={tensor}" for name, tensor in self.flat()]
        attrs = [f"{name}={value!r}" for name, value in self.attrs.items()]
        return f"sample {self.number}: {', '.join([*tensors, *attrs])}"


def parse_sample(op: Op, number: int, values: dict[str, Any]) -> Sample:
    """A sample of ``op`` from the mapping in its entry.

    Raises:
        ValueError: a name that is no argument, a missing tensor, or a text that does not parse.
    """
    unknown = set(values) - {a.name for a in op.args}
    if unknown:
        raise ValueError(f"{op.where}: {op.name} has no argument {sorted(unknown)}")
    tensors: dict[str, Any] = {}
    for arg in op.inputs:
        value = values.get(arg.name)
        if value is None and not arg.optional:
            raise ValueError(f"{op.where}: sample {number} of {op.name} lacks {arg.name}")
        if arg.is_list and value is not None:
            tensors[arg.name] = tuple(parse_tensor(text) for text in value)
        else:
            tensors[arg.name] = None if value is None else parse_tensor(value)
    attrs = {a.name: plain(values[a.name]) for a in op.attrs if a.name in values}
    return Sample(number, tensors, attrs)


def plain(value: Any) -> Any:
    """Lists as plain Python lists, whatever class the reader made them."""
    return [plain(v) for v in value] if isinstance(value, list) else value
