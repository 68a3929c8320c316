"""The checks every op of the table runs through. ``CHECKS`` maps a check's name to its function.

A check takes a Case and raises AssertionError (or whatever the op raises) where it does not hold.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis.extra.numpy import mutually_broadcastable_shapes

import phix
from harness.cases import Call, Case
from harness.samples import Sample
from phix.core import dtypes as dt
from phix.testing import derivatives as differences
from phix.testing import meanings
from phix.testing.comparison import about
from phix.testing.comparison import close as assert_close
from tests import machine_code

Check = Callable[[Case], None]
CHECKS: dict[str, Check] = {}


def check(function: Check) -> Check:
    CHECKS[function.__name__] = function
    return function


def dtypes_of(call: Call, results: Any) -> list[np.dtype]:
    return [a.dtype for a in call.arrays] + [r.dtype for r in results]


def assert_agrees(call: Call, found: Any, wanted: Any) -> None:
    meanings.agree(call.arrays, found, wanted, allowed(call))


def allowed(call: Call) -> meanings.Allowed:
    return lambda dtypes: call.case.tolerance(*dtypes)


# -- values and metas ----------------------------------------------------------------------
@check
def forward(case: Case) -> None:
    """Values against the reference, in every dtype the op claims."""
    for call in case.sweep():
        with about(call):
            found = call.fn(*call.arrays)
            if "ref" in case.test:
                assert_close(found, call.reference(), case.tolerance(*dtypes_of(call, found)))


@check
def meta(case: Case) -> None:
    """Run-time metas are the inferred ones."""
    for call in case.sweep():
        with about(call):
            meanings.check_metas(call.fn, call.arrays)


@check
def unknown_meta(case: Case) -> None:
    """The meta inferred with dims unknown covers the concrete one."""
    for call in case.calls():
        with about(call):
            meanings.check_covered(call.fn, call.arrays)


@check
def shapes(case: Case) -> None:
    """A pointwise op broadcasts any shapes as the reference does; Hypothesis draws them."""
    if "pointwise" not in case.op.traits or "ref" not in case.test:
        return
    sample = next(case.calls()).sample
    tensors = [t for _, t in sample.flat()]

    @hypothesis.given(
        mutually_broadcastable_shapes(num_shapes=len(tensors), min_side=0, max_side=4, max_dims=3)
    )
    def agree(drawn: Any) -> None:
        other = sample
        for at, (tensor, dims) in enumerate(zip(tensors, drawn.input_shapes)):
            other = other.replace_flat(at, tensor.with_dims(dims))
        call = case.call(other)
        found = call.fn(*call.arrays)
        assert_close(found, call.reference(), case.tolerance(*dtypes_of(call, found)))

    with about(case.op.name):
        agree()


# -- one meaning, whatever the interpreter -------------------------------------------------
@check
def jit(case: Case) -> None:
    """Compiled for known dims, the op gives what it gives eagerly.

    LLVM does all it can for what is compiled, where the test says no other; what it is compared
    with is the code of other checks: ``forward`` compared that with the reference.
    """
    for call in case.calls():
        with about(call):
            with machine_code.unoptimised():
                wanted = call.fn(*call.arrays)
            assert_agrees(call, phix.jit(call.fn)(*call.arrays), wanted)


def resized(case: Case) -> Iterator[tuple[Sample, Sample]]:
    """Samples and what becomes of them if one size is 0, 1 or greater by 2."""
    for sample in case.samples:
        for size in sample.sizes:
            for to in (0, 1, size + 2):
                if to != size:
                    yield sample, sample.resized(size, to)


@check
def jit_unknown(case: Case) -> None:
    """Compiled once for unknown dims, the op runs at many sizes, and fails where eager does.

    Where its parts stand for what it does eagerly at other sizes, what inference and the reference
    say of them is enough.
    """
    for call in case.calls():
        with about(f"{call} with unknown dims"):
            compiled = meanings.compiled_for_all_sizes(call.fn, call.arrays)
            assert_agrees(call, compiled(*call.arrays), call.fn(*call.arrays))
            for sample, other in resized(case):
                if sample is call.sample:
                    at = case.call(other)
                    with about(at):
                        if not (case.by_parts and _is_as_reference(at, compiled)):
                            meanings.check_as_eager(at.fn, compiled, at.arrays, allowed(at))


def _is_as_reference(call: Call, compiled: Any) -> bool:
    """Whether the program gives what the reference does, in the metas that inference says."""
    try:
        inferred = meanings.flat(phix.infer_meta(call.fn)(*meanings.metas(call.arrays)))
        found, wanted = compiled(*call.arrays), call.reference()
        assert_close(found, wanted, call.case.tolerance(*dtypes_of(call, found)))
    except Exception:
        return False  # the op refuses it, or there is no reference: eager calls know
    return [m.dtype for m in inferred] == [f.dtype for f in found]


@check
def decompose(case: Case) -> None:
    """The decomposed graph holds primitives alone and gives the same."""
    for call in case.calls():
        with about(call):
            meanings.check_decomposed(call.fn, call.arrays, allowed(call))


@check
def round_trip(case: Case) -> None:
    """The graph's text parses back to a graph with the same text and the same values.

    Where its parts stand for the rest, the decomposed graph's text alone is compared.
    """
    runs = (phix.make_graph, *(() if case.by_parts else (phix.decompose,)))
    for call in case.calls():
        with about(call):
            meanings.check_text(call.fn, call.arrays, allowed(call), runs)


@check
def strided(case: Case) -> None:
    """Inputs that are not contiguous give the same; by its parts, those of the last sample."""
    calls = list(case.calls())
    for call in calls[-1:] if case.by_parts else calls:
        with about(call):
            meanings.check_strided(call.fn, call.arrays, allowed(call))


@check
def reshaped(case: Case) -> None:
    """Inputs that the program itself reshapes give the same, where they lie in other dims."""
    for call in case.calls():
        with about(call):
            meanings.check_reshaped(call.fn, call.arrays, allowed(call))


# -- derivatives ---------------------------------------------------------------------------
@check
def backward(case: Case) -> None:
    """The pullback against central differences; the outputs' cotangents are random."""
    for call in case.double_calls():
        with about(call):
            differences.check_pullback(*differentiable(call), **settings(case))


@check
def forward_mode(case: Case) -> None:
    """The tangent against central differences, and against the pullback by a dot product."""
    for call in case.double_calls():
        with about(call):
            differences.check_tangent(*differentiable(call), **settings(case))


@check
def second_order(case: Case) -> None:
    """Derivatives of the pullback, forward and reverse, against differences of the pullback."""
    _higher(case, 2)


@check
def third_order(case: Case) -> None:
    """As second_order, of the pullback of the pullback."""
    _higher(case, 3)


def _higher(case: Case, order: int) -> None:
    for call in itertools.islice(case.double_calls(), 1):
        with about(call):
            differences.check_higher(*differentiable(call), order=order, **settings(case))


DERIVATIVES = ("backward", "forward_mode", "second_order", "third_order")


def differentiable(call: Call) -> tuple[Callable[..., tuple[Any, ...]], list[np.ndarray]]:
    """The call from its differentiable inputs to its differentiable outputs."""
    fn, arrays = call.at(call.case.differentiated(call))

    def outputs(*tensors: Any) -> tuple[Any, ...]:
        return tuple(out for out in fn(*tensors) if dt.is_differentiable(out.dtype))

    return outputs, arrays


def settings(case: Case) -> dict[str, Any]:
    return {
        "rng": np.random.default_rng([case.seed, len(case.op.name)]),
        "tolerance": float(case.test.get("tolerance", {}).get("gradient", 1e-6)),
    }


# -- batching ------------------------------------------------------------------------------
BATCH = 3


@check
def vmap(case: Case) -> None:
    """Mapped over each input alone and over all together, against a loop.

    Where its parts stand for the rest, the first sample is mapped over each, others over all.
    """
    for sample in case.samples:
        draws = [case.call(sample, draw=d) for d in range(BATCH)]
        first = draws[0]
        rows = [draw.arrays for draw in draws]
        choices = meanings.mapped_choices(len(first.arrays))
        if case.by_parts and len(case.samples) > 1:
            choices = choices[:-1] if sample is case.samples[0] else choices[-1:]
        for mapped in choices:
            with about(f"{first}, mapped inputs {sorted(mapped)}"):
                if mapped:
                    meanings.check_batched(first.fn, rows, mapped, allowed(first))


# -- what does not fit ---------------------------------------------------------------------
@check
def empty(case: Case) -> None:
    """With a size of 0 the op gives what the reference gives; where that fails, it may too."""
    for sample in case.samples:
        for size in sample.sizes:
            call = case.call(sample.resized(size, 0))
            with about(call):
                try:
                    wanted = call.reference()
                except Exception:
                    _runs_or_explains(call)
                else:
                    try:
                        found = call.fn(*call.arrays)
                    except phix.errors.TensorValueError:
                        continue  # a sample's lengths and offsets are those of the size before
                    assert_close(found, wanted, case.tolerance(*dtypes_of(call, found)))


def _runs_or_explains(call: Call) -> None:
    """The call either runs, with the metas inferred, or raises a PhixError that names the op."""
    try:
        call.fn(*call.arrays)
    except phix.errors.PhixError as error:
        assert call.case.op.name in str(error), f"the message names no {call.case.op.name}: {error}"
    else:
        meanings.check_metas(call.fn, call.arrays)


@check
def wrong_rank(case: Case) -> None:
    """Each tensor with a rank of its own making: the call runs, or says why it does not.

    Pointwise ops take any rank, and ``shapes`` draws them.
    """
    if "pointwise" in case.op.traits and "ref" in case.test:
        return
    for sample in case.samples[:1]:
        for at, (_, tensor) in enumerate(sample.flat()):
            for dims in {(), tensor.dims[1:], (2, *tensor.dims)} - {tensor.dims}:
                call = case.call(sample.replace_flat(at, tensor.with_dims(dims)))
                with about(call):
                    _runs_or_explains(call)


@check
def wrong_dtype(case: Case) -> None:
    """An input of a dtype the op does not claim raises DTypeError, which names the op."""
    claimed = case.op.dtypes
    converts = case.op.traits & {"promote", "promote_float"}
    for dtype in (dt.complex64, dt.float32, dt.int32, dt.bool_):
        wider = any(dt.kind(d) != dt.kind(dtype) and dt.promote(d, dtype) == d for d in claimed)
        if not claimed or dtype in claimed or (converts and wider):
            continue
        call = case.call(case.samples[0], dtype)
        with about(call), pytest.raises(phix.errors.DTypeError, match=case.op.name):
            call.fn(*call.arrays)


@check
def errors(case: Case) -> None:
    """The samples under ``errors`` raise a PhixError that names the op."""
    for sample in case.errors:
        call = case.call(sample)
        with about(call), pytest.raises(phix.errors.PhixError, match=case.op.name):
            call.fn(*call.arrays)
