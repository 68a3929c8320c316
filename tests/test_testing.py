"""phix.testing: what is right passes; what is wrong in one thing fails where that is looked at."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phix
from loaded_ops import loading
from phix import ops
from phix.core import rules
from phix.core.errors import ArgumentError
from phix.testing import (
    CheckFailed,
    check_batching,
    check_gradients,
    check_op,
    check_unknown_dims,
)
from phix.testing.comparison import close, ulp

pytestmark = pytest.mark.unoptimised

X = np.array([[0.5, -1.5, 2.0], [1.0, 0.25, -0.75]])
SHIFTED = """
- op: shifted
  args: (Tensor x, int by=1)
  output: Tensor(out)
  infer_meta: {func: ShiftedInferMeta}
  backward: shifted_grad
- backward_op: shifted_grad
  forward: shifted (Tensor x, int by) -> Tensor(out)
  args: (Tensor x, Tensor out_grad, int by=1)
  output: Tensor(x_grad)
  no_need_buffer: x
"""
MakeOp = Callable[..., Any]


@pytest.fixture
def shifted(tmp_path: Path) -> Iterator[MakeOp]:
    """Makes an op that leaves out the first ``by`` rows and doubles the rest; parts of it wrong."""

    def rows(x: Any, by: int) -> Any:
        return 2.0 * ops.slice(x, [0], [by], [x.meta.dims[0]])

    def meta(x: Any, by: int) -> Any:
        return x.with_dims((x.dims[0] - by, *x.dims[1:]))

    def back(x: Any, out_grad: Any, by: int) -> Any:
        width = [0] * (2 * x.ndim)
        width[0] = by
        return ops.pad(2.0 * out_grad, width, 0.0)

    def batch(batched: Any, x: Any, by: int) -> Any:
        return 2.0 * ops.slice(x, [1], [by], [x.meta.dims[1]])

    with loading(tmp_path) as load:

        def make(**wrong: Any) -> Any:
            mine = load(SHIFTED)
            rules.infer_meta("ShiftedInferMeta")(wrong.get("meta", meta))
            rules.decompose("shifted")(wrong.get("rows", rows))
            rules.decompose("shifted_grad")(wrong.get("back", back))
            rules.batch("shifted")(wrong.get("batch", batch))
            return mine.shifted

        yield make


def refused(check: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """What a check says that must fail."""
    with pytest.raises(CheckFailed) as failure:
        check(*args, **kwargs)
    return str(failure.value)


# -- an op that is right, and wrong in one thing ---------------------------------------------------
OTHERS = [(np.ones((n, 3)),) for n in (1, 4, 7)]
EVERY: dict[str, Callable[[Any], None]] = {
    "op": lambda op: check_op(op, X, reference=lambda x: 2 * x[1:], order=3),
    "gradients": lambda op: check_gradients(op, X, order=3),
    "batching": lambda op: check_batching(op, X),
    "unknown dims": lambda op: check_unknown_dims(op, X, others=OTHERS),
}


@pytest.mark.parametrize("name", EVERY)
def test_a_right_op_passes(name: str, shifted: MakeOp) -> None:
    EVERY[name](shifted())


def _gradient_at_the_wrong_rows(x: Any, out_grad: Any, by: int) -> Any:
    return ops.pad(2.0 * out_grad, [0, by, 0, 0], 0.0)


def _gradient_of_half_the_size(x: Any, out_grad: Any, by: int) -> Any:
    return ops.pad(out_grad, [by, 0, 0, 0], 0.0)


def _lanes_in_another_order(batched: Any, x: Any, by: int) -> Any:
    return 2.0 * ops.slice(ops.flip(x, [0]), [1], [by], [x.meta.dims[1]])


def _unknown_is_unchanged(x: Any, by: int) -> Any:
    """A slip that no call of known sizes shows."""
    size = x.dims[0]
    return x.with_dims((size - by if isinstance(size, int) else 5, *x.dims[1:]))


WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "gradient, rows": (
        "gradients", {"back": _gradient_at_the_wrong_rows},
        r"reverse mode, gradient of x, element \[0, 0\]: expected .* \(by central differences\), "
        r"found .*; [\d.e+]+ ulp of float64 apart, [\d.e+]+ allowed$",
    ),
    "gradient, values": (
        "gradients", {"back": _gradient_of_half_the_size}, r"gradient of x, element \[1, 0\]",
    ),
    "batching rule": (
        "batching", {"batch": _lanes_in_another_order},
        r"mapped over x: output 0, element \[0, 0, 0\]: expected 2 \(a loop over the rows\), "
        r"found .*; [\d.e+]+ ulp of float64 apart, [\d.e+]+ allowed; 6 of 9 elements differ$",
    ),
    "meta": (
        "unknown dims", {"meta": _unknown_is_unchanged},
        r"inferred for inputs .*: output 0 is float64\[5, 3\], which does not cover "
        r"float64\[1, 3\] \(run eagerly\)$",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_found_where_it_is_looked_for(name: str, shifted: MakeOp) -> None:
    check, wrong, message = WRONG[name]
    op = shifted(**wrong)
    with pytest.raises(CheckFailed) as failure:
        EVERY[check](op)
    text = str(failure.value)
    assert text.startswith(f"check_{check.replace(' ', '_')} of shifted(x: float64[2, 3]): ")
    assert re.search(message, text), text
    with pytest.raises(CheckFailed, match=r"^check_(op|gradients)"):
        EVERY["op"](op)
    for other in EVERY.keys() - {"op", check}:
        EVERY[other](op)


def test_wrong_values_name_the_first_element_and_its_distance() -> None:
    x = np.array([0.0, 1.0, 2.0], "f")
    text = refused(check_op, lambda x: ops.where(x > 1.5, x * 1.25, x), x, reference=lambda x: x)
    assert text.startswith("check_op, values, of <lambda>(x: float32[3]): output 0, element [2]: ")
    # half a unit of 2 is 2^21 times 2^-22, and 1.5e-5 is allowed
    assert "expected 2 (the reference), found 2.5; 2.1e+06 ulp of float32 apart, 62.9" in text
    assert text.endswith("allowed; 1 of 3 elements differ")


@pytest.mark.parametrize(
    "function, x, reference, text",
    [
        (lambda x: ops.cast(x, "float32"), X, lambda x: x, "is float32, expected float64"),
        (
            lambda x: ops.cast(x, "int64"),
            np.ones(2, "f"),
            lambda x: x,
            "is int64, expected float64",
        ),
        (lambda x: ops.argmax(x), X, lambda x: np.int32(2), "is int64, expected int32"),
        (lambda x: ops.cast(x > 0, "int64"), X, lambda x: x > 0, "is int64, expected bool"),
        (lambda x: ops.sum(x), X, lambda x: 2, "is float64, expected int64"),
        (lambda x: ops.real(x), np.array([1j]), lambda x: x, "is float64, expected complex128"),
        (lambda x: x * 1.0, np.array([2]), lambda x: 2.0 * x / 2.0, ""),  # of float32
        (lambda x: x * 2.0, np.ones(2, "f"), lambda x: 2.0 * x, ""),
        (lambda x: ops.sum(x), X, lambda x: float(x.sum()), ""),
    ],
)
def test_results_are_of_the_dtypes_of_the_reference(
    function: Any, x: Any, reference: Any, text: str
) -> None:
    others = [name for name in phix.testing.checks.CHECKS if name != "values"]
    if not text:
        check_op(function, x, reference=reference, skip=others)
        return
    found = refused(check_op, function, x, reference=reference, skip=others)
    assert f"{text} (the reference)" in found and found.startswith("check_op, values, of ")


# -- higher orders ---------------------------------------------------------------------------------
def _with_second_derivative(factor: float) -> Any:
    """x^3, whose slope is right and whose slope's own is ``factor`` times what it should be."""
    slope = phix.custom_vjp(lambda x: 3.0 * x * x)
    slope.defvjp(lambda x: (3.0 * x * x, x), lambda x, ct: (factor * 6.0 * x * ct,))
    cube = phix.custom_vjp(lambda x: x * x * x)
    cube.defvjp(lambda x: (x * x * x, x), lambda x, ct: (slope(x) * ct,))
    return cube


def test_a_wrong_second_derivative_is_found_from_order_2_on() -> None:
    x = np.array([0.5, -1.25])
    check_gradients(_with_second_derivative(1.0), x, order=4)
    wrong = _with_second_derivative(1.5)
    check_gradients(wrong, x, order=1)
    for order in (2, 3):
        assert "order 2: forward over reverse mode: expected" in refused(
            check_gradients, wrong, x, order=order
        )


def test_forward_mode_is_looked_at_by_itself() -> None:
    wrong = phix.custom_jvp(lambda x: ops.sin(x))
    wrong.defjvp(lambda primals, tangents: (ops.sin(*primals), 2.0 * tangents[0]))
    assert "mode" in refused(check_gradients, wrong, np.array([0.5]))


# -- what functions may be -------------------------------------------------------------------------
def test_trees_in_and_out() -> None:
    def layer(p: Any, x: Any) -> Any:
        return {"y": ops.tanh(x @ p["w"] + p["b"]), "largest": ops.argmax(x)}

    params = {"w": np.linspace(-1, 1, 6).reshape(3, 2), "b": np.array([0.1, 0.2])}

    def reference(p: Any, x: Any) -> Any:
        return {"y": np.tanh(x @ p["w"] + p["b"]), "largest": np.argmax(x)}

    check_op(layer, params, X, reference=reference)
    text = refused(check_op, layer, params, X, reference=lambda p, x: {"y": x, "largest": 0})
    assert "layer(p_0: float64[2], p_1: float64[3, 2], x: float64[2, 3])" in text


def test_ints_have_no_derivatives_and_change_places_in_other_rows() -> None:
    rows = np.array([2, 0, 1])
    check_op(lambda x, i: ops.gather(x, i), np.arange(6.0).reshape(3, 2), rows)
    check_op(lambda i: i * 2, rows, reference=lambda i: 2 * i)
    text = refused(check_op, lambda i: i * 2, rows, reference=lambda i: i + 2)
    assert text.endswith("element [1]: expected 2 (the reference), found 0; 2 of 3 elements differ")
    assert "no input has derivatives" in refused(check_gradients, lambda i: i, rows)


def test_complex_numbers() -> None:
    x = np.array([1 + 2j, -0.5j])
    check_op(lambda x: ops.exp(x), x, reference=np.exp)
    wrong = phix.custom_vjp(lambda x: x * x)
    wrong.defvjp(lambda x: (x * x, x), lambda x, ct: (2.0 * x * ct,))  # not its conjugate
    assert "gradient of x, element [0]" in refused(check_gradients, wrong, x)


def test_given_rows_are_run_and_must_fit() -> None:
    triangle = np.tril(np.ones((3, 3))) + np.eye(3)
    check_batching(lambda a: ops.cholesky(a, False), triangle @ triangle.T, rows=[(np.eye(3),)])
    text = refused(check_batching, lambda x: x, X, rows=[(X[:1],)])
    assert "rows[0] is" in text and "the inputs are" in text


def test_what_eager_calls_refuse_programs_must_refuse() -> None:
    check_unknown_dims(lambda x: x.reshape([2, -1]), X, others=[(np.ones((3, 3)),)])
    loud = lambda x: x if isinstance(x.shape[0], int) and x.shape[0] < 3 else x * 1.0  # noqa: E731
    check_unknown_dims(loud, X, others=[(np.ones((5, 3)),)])

    def picky(x: Any) -> Any:
        if isinstance(x.shape[0], int) and x.shape[0] > 2:
            raise phix.errors.ShapeError("too many rows")
        return x * 2.0

    text = refused(check_unknown_dims, picky, X, others=[(np.ones((3, 3)),)])
    assert "it runs; expected ShapeError, as run eagerly: too many rows" in text


# -- settings, and what it takes -------------------------------------------------------------------
def test_checks_can_be_left_out_by_name() -> None:
    wrong = phix.custom_vjp(lambda x: x * x)
    wrong.defvjp(lambda x: (x * x, x), lambda x, ct: (3.0 * x * ct,))
    assert refused(check_op, wrong, X).startswith("check_gradients of <lambda>(x: float64[2, 3]): ")
    check_op(wrong, X, skip=["gradients"])
    check_op(wrong, X, skip="gradients")
    with pytest.raises(ArgumentError, match="no check 'gradient'; there are 'values', 'metas'"):
        check_op(wrong, X, skip="gradient")
    with pytest.raises(ArgumentError, match="check_gradients: order must be an int from 1"):
        check_gradients(wrong, X, order=0)


def test_a_tolerance_is_kept_to() -> None:
    nearly = lambda x: x * (1 + 1e-7)  # noqa: E731
    check_op(nearly, X, reference=lambda x: x, tolerance=1e-6, skip="gradients")
    assert "allowed" in refused(check_op, nearly, X, reference=lambda x: x)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_units_in_the_last_place_are_numpy_s(dtype: str) -> None:
    kind = np.dtype(dtype)
    rng = np.random.default_rng(0)
    least, largest = np.finfo(kind).smallest_normal, np.finfo(kind).max
    values = [*rng.normal(size=50) * 10.0 ** rng.integers(-3, 4, 50), 1.0, 0.0, least, largest / 2]
    for value in np.asarray(values, kind):
        assert ulp(float(value), kind) == np.spacing(np.abs(value))
    assert ulp(1.0, np.dtype(phix.bfloat16)) == 2.0**-7


def test_nan_and_infinities_agree_with_themselves_alone() -> None:
    special = np.array([np.nan, np.inf, -np.inf])
    close([special], [special], (0.0, 0.0))
    for other in (np.array([0, np.inf, -np.inf]), np.array([np.nan, -np.inf, -np.inf])):
        with pytest.raises(CheckFailed, match=r"element \[[01]\]"):
            close([special], [other], (1.0, 1.0))


def test_nothing_of_it_is_imported_before_it_is_used() -> None:
    code = (
        "import sys, phix; assert 'testing' in dir(phix) and 'phix.testing' not in sys.modules; "
        "import numpy as np; phix.testing.check_op(phix.ops.tanh, np.ones(2), order=1); "
        "assert not {'pytest', 'hypothesis'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[1])
