"""Every op of the table through every check of ``harness/checks.py``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from harness.cases import Case, entries_without_test, table_cases
from harness.checks import CHECKS
from tests import machine_code

TABLE = {case.op.name: case for case in table_cases()}
CASES = {name: case for name, case in TABLE.items() if "elsewhere" not in case.test}
ELSEWHERE = {name: case.test["elsewhere"] for name, case in TABLE.items() if name not in CASES}
# Here an op's values are those of code as users have it: of one primitive in so many, by seed, and
# of composites in proofs.
OPTIMISED, PRIMITIVES = {"jit"}, 3

# What composites owe to the primitives that they are made of: each has one in so many of these
# always, and of its samples the first and the last, with what ``Case.by_parts`` leaves of a check.
OF_THEIR_PARTS = (
    "vmap", "jit", "jit_unknown", "strided", "round_trip", "decompose", "unknown_meta", "shapes",
    "empty", "reshaped",
)  # fmt: skip
TURNS = 4
# All samples always, with what it leaves.
VALUES = {"forward", "meta"}
# One composite in so many always, where its derivatives are those of its parts.
DERIVED = {"forward_mode": 2, "second_order": 2, "third_order": 4}
# ``test_all_of_a_composite`` leaves nothing of them to parts: it is a proof.
LEFT_TO_PARTS = (*OF_THEIR_PARTS, *sorted(VALUES), *DERIVED)


def parameters() -> Iterator[Any]:
    """One a (op, check); the checks of an op share a worker, and so its compiled kernels."""
    for number, case in enumerate(CASES.values()):
        for name in CHECKS:
            whole = case.op.is_primitive or case.skip.get(name) or name not in LEFT_TO_PARTS
            if not whole and is_left_to_proofs(case, name, number):
                continue
            marks = [pytest.mark.xdist_group(case.op.name), *skip_mark(case, name)]
            own = name in OPTIMISED and whole
            marks.append(pytest.mark.unoptimised(PRIMITIVES) if own else pytest.mark.unoptimised)
            chosen = case if whole else by_parts(case, name)
            yield pytest.param(chosen, name, id=f"{case.op.name}-{name}", marks=marks)


def is_left_to_proofs(case: Case, name: str, number: int) -> bool:
    """Whether the composite of that number goes through a check in proofs alone."""
    if name in OF_THEIR_PARTS:
        return bool((number + OF_THEIR_PARTS.index(name)) % TURNS)
    return bool(name in DERIVED and not case.op.backward and number % DERIVED[name])


def by_parts(case: Case, name: str) -> Case:
    """The case with what is left of it where the parts of a composite stand for the rest."""
    chosen = ends_of(case) if name in OF_THEIR_PARTS else case
    return dataclasses.replace(chosen, by_parts=name not in DERIVED)


def ends_of(case: Case) -> Case:
    """The case with its first sample and its last."""
    samples = case.test.get("samples", [])
    return dataclasses.replace(
        case, test={**case.test, "samples": [*samples[:1], *samples[1:][-1:]]}
    )


def skip_mark(case: Case, name: str) -> list[pytest.MarkDecorator]:
    """A check that the entry skips is expected to fail; where it passes, the skip is stale."""
    reason = case.skip.get(name)
    return [pytest.mark.xfail(reason=reason, strict=True)] if reason else []


@pytest.mark.parametrize(("case", "name"), list(parameters()))
def test_op(case: Case, name: str, seed: int) -> None:
    CHECKS[name](dataclasses.replace(case, seed=seed))


COMPOSITES = {name: case for name, case in CASES.items() if not case.op.is_primitive}


@pytest.mark.prove
@pytest.mark.parametrize("case", COMPOSITES.values(), ids=COMPOSITES.keys())
def test_all_of_a_composite(case: Case, seed: int) -> None:
    """All samples, dtypes and orders, in code as users have it where the check is about that."""
    for name in LEFT_TO_PARTS:
        if not case.skip.get(name):
            with nullcontext() if name in OPTIMISED else machine_code.unoptimised():
                CHECKS[name](dataclasses.replace(case, seed=seed))


def test_every_op_has_samples() -> None:
    assert not entries_without_test()


FILES = ELSEWHERE | {n: c.test["values"] for n, c in CASES.items() if "values" in c.test}


@pytest.mark.parametrize("name", FILES)
def test_file_that_tests_the_op_is_there(name: str) -> None:
    assert name in CASES or set(TABLE[name].test) == {"elsewhere"}
    assert name in (Path(__file__).parents[1] / FILES[name]).read_text()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_entry_is_well_formed(case: Case) -> None:
    assert case.samples, f"{case.op.where}: {case.op.name} has no samples"
    is_free = "random" in case.op.traits or "values" in case.test
    assert ("ref" in case.test) != is_free or "random" in case.op.traits, f"{case.op.where}: ref?"
    assert set(case.skip) <= set(CHECKS), f"{case.op.where}: no check {set(case.skip)}"
    assert all(case.skip.values()), f"{case.op.where}: a skip needs its reason"
    inputs = {a.name for a in case.op.inputs}
    assert {*case.test.get("grad", []), *case.test.get("sweep", [])} <= inputs
    assert case.errors is not None
