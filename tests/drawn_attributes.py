"""Ops with all their attributes drawn, at small sizes: in every way that they are run.

``python -m tests.drawn_attributes --count 2000 --seed 0`` draws that many, from seeds 0, 1, ...,
and prints the seed, the op and the shapes of each that goes wrong. The rows of tests/drawn draw
attributes, ranks, axes from both ends, operands that broadcast and sizes from 0 to 4. Derivatives
are those of differences, compiled programs for known sizes and for unknown ones, at these and at
others, give what eager calls give, and so does ``vmap`` over each input. All in float64, and some
in complex128.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import phix
from phix import ops
from phix.core.errors import PhixError
from tests import draws
from tests.drawn import grids, indexing, networks, products, reductions, shapes  # noqa: F401
from tests.drawn.case import ROWS, Case, Draw, Run
from tests.machine_code import unoptimised

OPTIMISED = 12  # LLVM does all it can for one seed in so many
SECOND = 3  # one seed in so many has second derivatives checked
NAMES = sorted(ROWS)
_COMPLEX = """
    sum mean prod cumsum cumprod reduce_as linear_recurrence frobenius_norm p_norm softplus
    matmul addmm baddbmm bmm mv dot einsum tensordot kron linear multi_dot solve triangular_solve lu
    lu_solve det slogdet inverse expm matrix_power lstsq qr svd fold unfold frame overlap_add
    gather gather_nd scatter scatter_nd_add index_add index_put take_along_axis index_sample slice
    strided_slice slice_put set_value_with_tensor as_strided tensor_unfold masked_fill where
    masked_select segment_pool diagonal trace fill_diagonal_tensor diag diag_embed tril triu roll
    flip tile expand split concat stack pad repeat_interleave divide scale lerp logcumsumexp add
    elementwise_pow pow add_n logsumexp
"""  # these have complex numbers for one seed in so many as EACH_COMPLEX
COMPLEX = frozenset(_COMPLEX.split())
EACH_COMPLEX = 4


@dataclass
class Outcome:
    """One draw: what it was, and what went wrong, if anything did."""

    seed: int
    name: str
    case: Case | None = None
    refusal: str = ""
    error: str = ""

    def report(self) -> str:
        given = self.case and [(str(x.dtype), x.shape) for x in map(np.asarray, self.case.inputs)]
        return f"seed {self.seed}, {self.name}: {given}, {_attributes(self.case)}\n{self.error}"


def _attributes(case: Case | None) -> dict[str, Any]:
    """What the function of a case has closed over."""
    found: dict[str, Any] = {}
    run = case and case.run
    if run and getattr(run, "__closure__", None):
        found = dict(zip(run.__code__.co_freevars, (c.cell_contents for c in run.__closure__)))
    return found


# -- what is compared ------------------------------------------------------------------------------
def is_smooth(x: Any) -> bool:
    return np.asarray(x).dtype.kind in "fc"


def with_slopes(case: Case) -> Run:
    """The results, and the gradient of a function of them all, none of whose slopes are alike."""
    moving = tuple(k for k, x in enumerate(case.inputs) if is_smooth(x))

    def total(*inputs: Any) -> Any:
        found = phix.tree.leaves(case.run(*inputs))
        parts = [p for x in found for p in _parts(x)]
        return sum((ops.sum(ops.sin(1.3 * p + 0.2)) for p in parts), ops.zeros([], "float64"))

    def both(*inputs: Any) -> Any:
        return case.run(*inputs), phix.grad(total, moving)(*inputs) if moving else ()

    return both


def _parts(x: Any) -> list[Any]:
    kind = np.dtype(str(x.dtype)).kind
    return [ops.real(x), ops.imag(x)] if kind == "c" else [x] if kind == "f" else []


def compare(what: str, found: Any, expected: Any, tolerance: float = 1e-9) -> None:
    pairs = zip(phix.tree.leaves(found), phix.tree.leaves(expected), strict=True)
    for k, (a, b) in enumerate(pairs):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape, f"{what}, output {k}: {a.shape}, expected {b.shape}"
        assert a.dtype == b.dtype, f"{what}, output {k}: {a.dtype}, expected {b.dtype}"
        np.testing.assert_allclose(a, b, tolerance, tolerance, err_msg=f"{what}, output {k}")


# -- checks ----------------------------------------------------------------------------------------
def check_values(case: Case, found: Any) -> None:
    if case.reference is not None and all(np.asarray(x).size for x in case.inputs):
        first = phix.tree.leaves(found)[0]
        expected = np.asarray(case.reference(*case.inputs))
        compare("the reference", first, expected.astype(np.asarray(first).dtype))


def check_derivatives(case: Case, found: Any, order: int) -> None:
    finite = all(np.all(np.isfinite(x)) for x in phix.tree.leaves(found))
    order = min(order, case.order)
    if order and finite and any(map(is_smooth, case.inputs)):
        phix.testing.check_gradients(case.run, *case.inputs, order=order, tolerance=3e-6)


def check_compiled(case: Case, eager: Any) -> None:
    compare("compiled", phix.jit(with_slopes(case))(*case.inputs), eager)


def check_unknown(case: Case, other: Case, eager: Any, draw: Draw) -> None:
    both, arrays = with_slopes(case), list(map(np.asarray, case.inputs))
    others = list(map(np.asarray, other.inputs))
    alike = [(x.ndim, x.dtype) for x in arrays] == [(x.ndim, x.dtype) for x in others]
    specs = _specs(draw, arrays, others if alike else arrays)
    if needs_sizes(both, specs):
        return
    compiled = phix.jit(both, input_spec=specs)
    compare(f"compiled for {specs}", compiled(*arrays), eager)
    if alike:
        shapes = [x.shape for x in others]
        try:
            expected = both(*map(phix.to_tensor, others))
        except PhixError:
            return
        compare(f"compiled for {specs}, at {shapes}", compiled(*others), expected)


def needs_sizes(run: Run, specs: list[Any]) -> bool:
    """Whether a program is refused before it runs, as one of :func:`ops.unbind` is."""
    try:
        phix.make_graph(run)(*specs)
    except PhixError:
        return True
    return False


def _specs(draw: Draw, arrays: list[np.ndarray], others: list[np.ndarray]) -> list[Any]:
    """All dims unknown; or those that are alike under one name, and some known."""
    named, known = draw.is_true(), draw.is_true()

    def dim(n: int, m: int) -> int | str:
        if not named:
            return -1
        return n if n == m and known and draw.is_true() else f"d{n}_{m}"

    return [
        phix.spec([dim(n, m) for n, m in zip(x.shape, y.shape)], str(x.dtype))
        for x, y in zip(arrays, others)
    ]


def check_lanes(case: Case, draw: Draw, compiled: bool) -> None:
    both, arrays = with_slopes(case), list(map(np.asarray, case.inputs))
    choices = [{k} for k in (range(len(arrays)) if case.lanes is None else case.lanes)]
    run = None
    for mapped in [*choices, set().union(*choices)] if len(choices) > 1 else choices:
        lanes = [[_turned(x, k) if n in mapped else x for n, x in enumerate(arrays)]
                 for k in range(2)]  # fmt: skip
        axes = tuple(draw.below(x.ndim + 1) if n in mapped else None
                     for n, x in enumerate(arrays))  # fmt: skip
        stacked = [x if axes[n] is None else np.stack([lane[n] for lane in lanes], axes[n])
                   for n, x in enumerate(arrays)]  # fmt: skip
        try:
            loop = [both(*map(phix.to_tensor, lane)) for lane in lanes]
        except PhixError:  # values that are no valid arguments in that order
            continue
        rows = phix.tree.map(lambda *r: np.stack([np.asarray(x) for x in r]), *loop)
        lanewise = phix.vmap(both, in_axes=axes)
        compare(f"vmap over {axes}", lanewise(*stacked), rows)
        run = lanewise, stacked
    if compiled and run:
        _check_compiled_lanes(*run)


def _check_compiled_lanes(lanewise: Run, stacked: list[np.ndarray]) -> None:
    """Of any size, and any number of lanes."""
    specs = [phix.spec([-1] * x.ndim, str(x.dtype)) for x in stacked]
    if not needs_sizes(lanewise, specs):
        found = phix.jit(lanewise, input_spec=specs)(*stacked)
        compare(f"vmap compiled for {specs}", found, lanewise(*stacked))


def _turned(x: np.ndarray, lane: int) -> np.ndarray:
    return x.reshape(-1)[::-1].reshape(x.shape) if lane else x


# -- draws -----------------------------------------------------------------------------------------
def run_draw(seed: int, names: list[str] = NAMES) -> Outcome:
    """A row of the table, drawn and run in all ways."""
    outcome = Outcome(seed, names[seed % len(names)])
    with (
        unoptimised(each_pass=False) if seed % OPTIMISED else nullcontext(),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        try:
            _run(outcome)
        except Exception:
            outcome.error = traceback.format_exc()
    return outcome


def _run(outcome: Outcome) -> None:
    make, seed = ROWS[outcome.name], outcome.seed
    is_complex = seed % EACH_COMPLEX == 1 and outcome.name in COMPLEX
    outcome.case = case = make(Draw(seed, 0, is_complex))
    other = make(Draw(seed, 1, is_complex))
    try:
        found = case.run(*map(phix.to_tensor, case.inputs))
    except PhixError as error:
        outcome.refusal = f"{type(error).__name__}: {error}"
        return
    check_values(case, found)
    check_derivatives(case, found, 2 if seed % SECOND == 0 else 1)
    eager = with_slopes(case)(*map(phix.to_tensor, case.inputs))
    check_compiled(case, eager)
    check_unknown(case, other, eager, Draw(seed, 3))
    check_lanes(case, Draw(seed, 2), seed % SECOND == 1)


def count(outcomes: list[Outcome]) -> str:
    refused = Counter(o.name for o in outcomes if o.refusal)
    return f"{refused.total()} refused {dict(refused.most_common())}"


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] in ROWS:
        run_draw = partial(run_draw, names=[sys.argv.pop(1)])
    sys.exit(draws.main(__doc__, "ops", run_draw, count))
