"""The mutants of ``python -m tests.mutants``: what is changed in a file, and what is left alone."""

from __future__ import annotations

import builtins

import pytest

from mutations import instrumented, mutations

FUNCTION = '''
LARGEST = 7

def f(x: "list[1]", rows: int) -> bool:
    """Text 1."""
    if x < 0 and rows == 4:
        raise ValueError(f"{x + 1} is less than 0")
    for row in range(rows, 2):
        g(row)
    return not any((x, 1))

@overload
def h(x: int = 3) -> int: ...

EQUAL = eq(LARGEST, 1)
'''
WANTED = {
    "x < 0 -> (x <= 0)",
    "x < 0 and rows == 4 -> (x < 0 or rows == 4)",
    "x < 0 and rows == 4 -> (rows == 4)",
    "x < 0 and rows == 4 -> (x < 0)",
    "x < 0 and rows == 4 -> (not (x < 0 and rows == 4))",
    "rows == 4 -> (rows != 4)",
    "0 -> (1)",
    "4 -> (5)",
    "range(rows, 2) -> (list(range(rows, 2))[:-1])",
    "range(rows, 2) -> (range(2, rows))",
    "2 -> (3)",
    "g(row) -> pass",
    "not any((x, 1)) -> (any((x, 1)))",
    "any((x, 1)) -> (all((x, 1)))",
    "(x, 1) -> ((1,))",
    "(x, 1) -> ((x,))",
    "1 -> (2)",
}


def test_what_is_changed() -> None:
    found = mutations("f.py", FUNCTION)
    assert {m.what for m in found} == WANTED
    for mutation in found:
        compile(mutation.source, "f.py", "exec")
        changed = zip(mutation.source.splitlines(), FUNCTION.splitlines())
        differing = [k for k, (new, old) in enumerate(changed, 1) if new != old]
        assert differing == [mutation.line]


def test_tests_are_found_by_the_blocks_they_enter(monkeypatch: pytest.MonkeyPatch) -> None:
    """The innermost block of a change is one that the instrumented file says is entered."""
    reached: set[str] = set()
    monkeypatch.setattr(builtins, "_reached", reached.add, raising=False)
    names: dict[str, object] = {"g": print, "eq": max, "overload": id}
    exec(instrumented("f.py", FUNCTION), names)
    assert not reached
    with pytest.raises(ValueError, match="0 is less than 0"):
        names["f"](-1, 4)  # type: ignore[operator]
    blocks = {m.what: f"f.py:{m.block}" for m in mutations("f.py", FUNCTION)}
    assert reached == {"f.py:5", "f.py:7"}
    assert blocks["x < 0 -> (x <= 0)"] == "f.py:5"
    assert blocks["g(row) -> pass"] == "f.py:9"
