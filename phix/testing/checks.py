"""The checks as users call them, of functions of trees of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from phix.api.arguments import argument_names, flat_tensors, function_name
from phix.api.weak_arguments import lent
from phix.core import dtypes as dt
from phix.core import pytrees
from phix.core.errors import ArgumentError
from phix.core.given import FUNCTION, NAMES, NONE, at_least, takes
from phix.core.records import dataclass
from phix.testing import derivatives, meanings
from phix.testing.comparison import about, close, require, same_dtypes, tolerance_of, widest

_ROWS = 3
_NUDGE = 1 / 16


@dataclass(frozen=True)
class Subject:
    """A function of flat tensors that gives a tuple of them, at a point."""

    name: str
    fn: meanings.Function
    arrays: list[np.ndarray]
    names: list[str]
    tree: pytrees.TreeDef

    def about(self, check: str) -> Any:
        """Failures inside say which check fails, and for what."""
        given = ", ".join(
            f"{n}: {a.dtype}[{', '.join(map(str, a.shape))}]"
            for n, a in zip(self.names, self.arrays)
        )
        return about(f"{check} of {self.name}({given})")

    def at(self, arrays: Sequence[np.ndarray]) -> Subject:
        """The same function at another point."""
        return Subject(self.name, self.fn, list(arrays), self.names, self.tree)


def _subject(function: Callable[..., Any], inputs: tuple[Any, ...], check: str) -> Subject:
    tensors, tree = flat_tensors(inputs, f"{check}: {function_name(function)}")
    arrays = [np.array(t.numpy()) for t in tensors]

    def fn(*flat: Any) -> tuple[Any, ...]:
        tensors = lent(flat, check)[0]  # arrays as they lie
        result = function(*pytrees.unflatten(tree, tensors))
        return tuple(flat_tensors(result, "the result")[0])

    name = function_name(function)
    return Subject(name, fn, arrays, argument_names(function, inputs, {}), tree)


def _allowed(tolerance: float | None) -> meanings.Allowed:
    return tolerance_of if tolerance is None else lambda dtypes: _all(dtypes, tolerance)


def _all(dtypes: Iterable[np.dtype], tolerance: float) -> tuple[float, float]:
    inexact = any(map(dt.is_differentiable, dtypes))
    return (tolerance, tolerance) if inexact else (0.0, 0.0)


# -- derivatives -----------------------------------------------------------------------------------
@takes(function=FUNCTION, order=at_least(1))
def check_gradients(
    function: Callable[..., Any],
    *inputs: Any,
    order: int = 1,
    tolerance: float = 1e-6,
    seed: int = 0,
) -> None:
    """The derivatives of a function against central differences, forward and reverse mode, and
    these against each other.

    They are taken in float64 and complex128, of every input that has derivatives. Choose a point
    with no kink, pole or branch cut within 1e-5 of it.

    Args:
        function: of arrays, or trees of them, to an array or a tree.
        *inputs: where: tensors, arrays, numbers, trees of these.
        order: up to which order: reverse and forward mode, then each over reverse mode.
        tolerance: relative to the derivatives and to the values that they are differences of.
        seed: of the random directions and cotangents.

    Raises:
        CheckFailed: one is wrong; the message names it, and says how far it is off.

    >>> import phix
    >>> x = phix.to_tensor([0.5, 2.0])
    >>> phix.testing.check_gradients(lambda x: x ** 3 * phix.ops.sin(x), x, order=3)
    >>> wrong = phix.custom_vjp(lambda x: x * x)
    >>> wrong.defvjp(lambda x: (x * x, x), lambda x, ct: (3.0 * x * ct,))
    >>> try:
    ...     phix.testing.check_gradients(wrong, 1.0)
    ... except phix.testing.CheckFailed as error:
    ...     print(str(error).partition(": expected")[0])
    check_gradients of <lambda>(x: float32[]): reverse mode, gradient of x, element []
    """
    subject = _subject(function, inputs, "check_gradients")
    with subject.about("check_gradients"):
        fn, point, names = _in_double(subject)
        require(point, "no input has derivatives: pass one of floats")
        rng = np.random.default_rng(seed)
        derivatives.check_pullback(fn, point, rng, tolerance, names)
        derivatives.check_tangent(fn, point, rng, tolerance)
        for n in range(2, order + 1):
            derivatives.check_higher(fn, point, rng, tolerance, n)


def _in_double(subject: Subject) -> tuple[meanings.Function, list[np.ndarray], list[str]]:
    """The function from the inputs to the outputs that have derivatives; those inputs, by name."""
    wide = [widest(a) if dt.is_differentiable(a.dtype) else a for a in subject.arrays]
    moving = [n for n, a in enumerate(wide) if dt.is_differentiable(a.dtype)]

    def fn(*chosen: Any) -> tuple[Any, ...]:
        tensors: list[Any] = list(wide)
        for n, tensor in zip(moving, chosen):
            tensors[n] = tensor
        return tuple(out for out in subject.fn(*tensors) if dt.is_differentiable(out.dtype))

    return fn, [wide[n] for n in moving], [subject.names[n] for n in moving]


# -- batching --------------------------------------------------------------------------------------
@takes(function=FUNCTION)
def check_batching(
    function: Callable[..., Any],
    *inputs: Any,
    rows: Sequence[tuple[Any, ...]] | None = None,
    tolerance: float | None = None,
    seed: int = 0,
) -> None:
    """``vmap`` of a function against a loop: over each input alone, and over all together.

    Args:
        function: of arrays, or trees of them, to an array or a tree.
        *inputs: of one call.
        rows: the inputs of further calls, of the same shapes and dtypes. By default three are
            made of the first: floats are moved by up to a sixteenth of themselves, other numbers
            change places.
        tolerance: by default that of the coarsest dtype that takes part.
        seed: of the rows that are made.

    Raises:
        CheckFailed: a lane is not what a call gives; the message says which inputs were mapped.

    >>> import phix
    >>> phix.testing.check_batching(phix.ops.matmul, phix.ones([2, 3]), phix.ones([3, 4]))
    """
    subject = _subject(function, inputs, "check_batching")
    with subject.about("check_batching"):
        _check_batching(subject, rows, _allowed(tolerance), np.random.default_rng(seed))


def _check_batching(subject: Subject, rows: Any, allowed: meanings.Allowed, rng: Any) -> None:
    __tracebackhide__ = True
    first = subject.arrays
    if rows is None:
        lanes = [first, *([_other(a, rng) for a in first] for _ in range(_ROWS - 1))]
    else:
        given = [[np.asarray(x) for x in flat_tensors(r, "rows")[0]] for r in rows]
        lanes = [first, *given]
    for number, lane in enumerate(lanes):
        require(
            meanings.metas(lane) == meanings.metas(first),
            f"rows[{number - 1}] is {meanings.metas(lane)}, the inputs are {meanings.metas(first)}",
        )
    for mapped in meanings.mapped_choices(len(first)):
        with about(f"mapped over {', '.join(subject.names[n] for n in sorted(mapped))}"):
            meanings.check_batched(subject.fn, lanes, mapped, allowed)


def _other(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Other numbers where a function that takes the first is likely to be defined too."""
    if dt.is_differentiable(array.dtype):
        moved = widest(array) * (1 + _NUDGE * rng.uniform(-1, 1, array.shape))
        return np.asarray(moved).astype(array.dtype)
    return rng.permutation(array.reshape(-1)).reshape(array.shape)


# -- unknown dims ----------------------------------------------------------------------------------
@takes(function=FUNCTION)
def check_unknown_dims(
    function: Callable[..., Any],
    *inputs: Any,
    others: Sequence[tuple[Any, ...]] = (),
    tolerance: float | None = None,
) -> None:
    """What is inferred and compiled with dims unknown fits every call.

    The metas inferred with each dim unknown, and with all, must cover those of the results; and a
    program that is compiled once, for all sizes, must give what the function gives eagerly.

    Args:
        function: of arrays, or trees of them, to an array or a tree.
        *inputs: of one call.
        others: the inputs of further calls, of other sizes. What is refused eagerly with an error
            of phix must be refused by the program with an error of that kind.
        tolerance: by default that of the coarsest dtype that takes part.

    Raises:
        CheckFailed: one does not fit; the message says which dims were unknown, or which call.

    >>> import phix
    >>> sizes = [(phix.ones([n, 3]),) for n in (0, 1, 5)]
    >>> phix.testing.check_unknown_dims(phix.ops.softmax, phix.ones([2, 3]), others=sizes)
    """
    subject = _subject(function, inputs, "check_unknown_dims")
    with subject.about("check_unknown_dims"):
        _check_unknown(subject, others, _allowed(tolerance))


def _check_unknown(subject: Subject, others: Any, allowed: meanings.Allowed) -> None:
    __tracebackhide__ = True
    meanings.check_covered(subject.fn, subject.arrays)
    compiled = meanings.compiled_for_all_sizes(subject.fn, subject.arrays)
    points = [subject.arrays]
    points += [[np.asarray(x) for x in flat_tensors(o, "others")[0]] for o in others]
    for arrays in points:
        with about(f"compiled with dims unknown, called with {meanings.metas(arrays)}"):
            meanings.check_as_eager(subject.fn, compiled, arrays, allowed)


# -- all of them -----------------------------------------------------------------------------------
CHECKS = (
    "values", "metas", "compiled", "unknown dims", "decomposed", "text", "strided", "reshaped",
    "batching", "gradients",
)  # fmt: skip


@takes(function=FUNCTION, reference=FUNCTION | NONE, skip=NAMES, order=at_least(1))
def check_op(
    function: Callable[..., Any],
    *inputs: Any,
    reference: Callable[..., Any] | None = None,
    skip: Iterable[str] = (),
    order: int = 2,
    tolerance: float | None = None,
    seed: int = 0,
) -> None:
    """Everything that holds of an op of the table: the checks that the library's own pass.

    - values: against ``reference``, where there is one, and of its dtypes;
    - metas: what is inferred is what comes;
    - compiled, unknown dims: as programs, for these sizes and for any;
    - decomposed, text: as a graph of primitives, and parsed from the graph's text;
    - strided, reshaped: of inputs that are not contiguous, and of others that a program reshapes;
    - batching, gradients: see :func:`check_batching` and :func:`check_gradients`.

    Args:
        function: an op, or any function of arrays, or trees of them, to an array or a tree.
            Attributes are bound before: ``lambda x: my_ops.roll(x, 1)``.
        *inputs: of one call. Without floats among them, gradients are not checked.
        reference: the same in NumPy; floats come as float64, complex numbers as complex128. Its
            dtypes are looked at too: results must be of the same, or, where inputs came wider than
            they are or are no floats, floats where it gives floats. Of Python's numbers the kind
            counts alone.
        skip: names of checks to leave out.
        order: up to which order derivatives are checked.
        tolerance: by default that of the coarsest dtype that takes part.
        seed: of what is drawn.

    Raises:
        CheckFailed: a check does not hold; the message says which.
        ArgumentError: there is no check of a name in ``skip``.

    >>> import numpy as np
    >>> import phix
    >>> phix.testing.check_op(phix.ops.tanh, np.array([0.5, -2.0]), reference=np.tanh)
    """
    left_out = [skip] if isinstance(skip, str) else list(skip)
    unknown = [name for name in left_out if name not in CHECKS]
    if unknown:
        raise ArgumentError(f"check_op: skip: no check {unknown[0]!r}; there are {_names()}")
    subject = _subject(function, inputs, "check_op")
    every = _every(subject, reference, _allowed(tolerance), seed)
    for name, check in every.items():
        if name not in left_out:
            with subject.about(f"check_op, {name},"):
                check()
    if "gradients" not in left_out and any(dt.is_differentiable(a.dtype) for a in subject.arrays):
        check_gradients(function, *inputs, order=order, tolerance=tolerance or 1e-6, seed=seed)


def _every(
    subject: Subject, reference: Any, allowed: meanings.Allowed, seed: int
) -> dict[str, Callable[[], None]]:
    """The checks but that of gradients, by name."""
    fn, arrays = subject.fn, subject.arrays
    return {
        "values": partial(_check_values, subject, reference, allowed),
        "metas": lambda: meanings.check_metas(fn, arrays),
        "compiled": lambda: meanings.check_compiled(fn, arrays, allowed),
        "unknown dims": lambda: _check_unknown(subject, (), allowed),
        "decomposed": lambda: meanings.check_decomposed(fn, arrays, allowed),
        "text": lambda: meanings.check_text(fn, arrays, allowed),
        "strided": lambda: meanings.check_strided(fn, arrays, allowed),
        "reshaped": lambda: meanings.check_reshaped(fn, arrays, allowed),
        "batching": lambda: _check_batching(subject, None, allowed, np.random.default_rng(seed)),
    }


def _names() -> str:
    return ", ".join(map(repr, CHECKS))


def _check_values(subject: Subject, reference: Any, allowed: meanings.Allowed) -> None:
    __tracebackhide__ = True
    if reference is None:
        return
    wide = [widest(a) if dt.is_differentiable(a.dtype) else a for a in subject.arrays]
    found = subject.fn(*subject.arrays)
    with np.errstate(all="ignore"):
        wanted = meanings.flat(reference(*pytrees.unflatten(subject.tree, wide)))
    dtypes = [a.dtype for a in subject.arrays]
    floats = [d for d in dtypes if dt.is_differentiable(d)]
    is_wide = bool(floats) and all(w.dtype == a.dtype for w, a in zip(wide, subject.arrays))
    same_dtypes(found, wanted, is_wide)
    close(found, wanted, allowed(dtypes + [f.dtype for f in found]))
