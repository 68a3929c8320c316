"""Modules that are compiled in several units, side by side."""

from __future__ import annotations

import re
import threading
import time
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.kernels.cpu import compiler, fourier, jit, product, tiles, units


def loss(x: Any, w: Any) -> Any:
    """Some layers, with kernels that share helpers: products, and rows of many kinds."""
    for k, activation in enumerate((ops.tanh, ops.sigmoid, ops.silu, ops.relu)):
        x = ops.softmax(activation(ops.matmul(x, w) * (k + 1.5)), -1) + ops.cumsum(x, 1)
        x = x - ops.logsumexp(ops.sort(x, 0), [1], True)
    return ops.sum(ops.matmul(x, w.T) ** 2.0)


def looped(x: Any, w: Any) -> Any:
    """Loops and branches, whose bodies become functions."""

    def body(carry: Any, row: Any) -> Any:
        carry = ops.tanh(ops.matmul(w, carry) + row)
        carry = phix.cond(ops.sum(carry) > 0.0, ops.sin, ops.cos, carry)
        return carry, ops.cumsum(carry, 0)

    carry, rows = phix.scan(body, x[0], x)
    return ops.sum(carry) + ops.sum(ops.logsumexp(rows, [1], False))


ARGS = (np.linspace(-1, 1, 9 * 24).reshape(9, 24), np.linspace(0.5, 1, 24 * 24).reshape(24, 24))
PROGRAMS = {
    "value": loss,
    "gradient": phix.grad(loss, (0, 1)),
    "loops": phix.value_and_grad(looped, (0, 1)),
    "lanes": phix.vmap(phix.grad(loss), (None, 0)),
}


def args_of(name: str) -> tuple[np.ndarray, ...]:
    return (ARGS[0], np.stack([ARGS[1], -ARGS[1]])) if name == "lanes" else ARGS


@pytest.fixture(params=PROGRAMS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def text(name: str) -> str:
    return str(phix.jit(PROGRAMS[name]).lower(*args_of(name)).as_text("llvm"))


def defined(text: str) -> list[str]:
    """The functions of a text, without those that may stand in several units."""
    found = re.findall(r"(?m)^define ([^@]*)@([\w.$-]+)\([^\n]*?\) (.*)\{$", text)
    marks = {f"{n}{mark} " for mark in (units.KERNEL, units.WRITTEN_OUT) for n in ("", "noinline ")}
    return [name for kind, name, rest in found if "internal" not in kind or rest in marks]


def test_each_function_is_in_one_unit_and_units_are_of_about_one_size(name: str, text: str) -> None:
    found = units.divided(text)
    assert len(found) > 1
    assert sorted(n for unit in found for n in defined(unit.text)) == sorted(defined(text))
    for unit in found:
        compiler.parsed(unit.text)  # all that it names is there
        assert unit.is_final == all(".direct." in own for own in defined(unit.text))
    assert any(unit.is_final for unit in found) == (name != "loops")  # whose product is short
    assert max(len(unit.text) for unit in found) < 0.8 * len(text)
    assert found == units.divided(text)


def test_libraries_are_in_two_units() -> None:
    for library in (
        product.text("product", "float32", tiles.tile("float32", *jit.vector_registers())),
        fourier.text("transform", "float64", *jit.vector_registers()),
    ):
        found = units.divided(library, is_final=True)
        assert len(found) == 2 and all(unit.is_final for unit in found)
        assert sorted(n for unit in found for n in defined(unit.text)) == sorted(defined(library))
        assert [unit.text.count("define void @") for unit in found] == [1, 0], "what is called"
        for unit in found:
            compiler.parsed(unit.text)
    assert units.divided("", is_final=True) == [units.Unit("", True)]


def test_units_together_are_the_module(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unjitted, each op is a program by itself; as one module it is what it always was."""
    made: list[int] = []
    known = compiler.objects_of

    def counted(text: str, is_final: bool) -> list[bytes]:
        found = known(text, is_final)
        made.append(len(found))
        return found

    monkeypatch.setenv("PHIX_CACHE", "0")
    monkeypatch.setattr(compiler, "objects_of", counted)
    several = phix.jit(PROGRAMS[name])(*args_of(name))
    assert max(made) > 1
    with monkeypatch.context() as patch:
        patch.setattr(units, "divided", lambda text, _: [units.Unit(text)])
        one = phix.jit(PROGRAMS[name])(*args_of(name))
    eager = PROGRAMS[name](*args_of(name))
    for a, b, c in zip(*map(phix.tree.leaves, (several, one, eager))):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(a, c, rtol=1e-9, atol=1e-12 * np.abs(c).max())


def test_small_modules_and_such_with_variables_stay_whole(text: str) -> None:
    small = str(phix.jit(ops.tanh).lower(ARGS[0]).as_text("llvm"))
    assert units.divided(small) == [units.Unit(small)]
    variable = f"@count = internal global i64 0\n{text}"
    assert units.divided(variable) == [units.Unit(variable)]
    assert len(units.divided(f"@five = private constant i64 5\n{text}")) > 1


def test_what_is_wrong_in_one_unit_is_said(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, *others = units.divided(text)
    wrong = others[-1].text.replace("define hidden void", "define hidden float", 1)
    monkeypatch.setattr(units, "divided", lambda text, _: [first, *others[:-1], units.Unit(wrong)])
    with pytest.raises(RuntimeError, match=r"LLVM does not understand its text: .*float"):
        compiler.objects_of(text, False)
    assert not compiler.Emission.under_way


def test_units_are_made_side_by_side(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All are under way before any is done."""
    known, barrier = compiler.object_of, threading.Barrier(len(units.divided(text)))

    def object_of(text: str, is_final: bool) -> bytes:
        barrier.wait(20)
        return known(text, is_final)

    monkeypatch.setattr(compiler, "object_of", object_of)
    found = compiler.objects_of(text, False)
    assert len(found) == barrier.parties


def test_units_are_made_one_by_one_where_no_thread_starts(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = compiler.objects_of(text, False)

    def refused(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    assert compiler.objects_of(text, False) == expected and not compiler.Emission.under_way


def test_many_threads_compile_to_the_same_code(text: str) -> None:
    """LLVM, called without llvmlite's lock, in contexts and for machines of their own."""
    whole = units.divided(text)
    expected = [compiler.object_of(unit.text, unit.is_final) for unit in whole]
    begun = [compiler.Emission(unit.text, unit.is_final) for _ in range(4) for unit in whole]
    while compiler.Emission.under_way:
        compiler.parsed(whole[0].text)  # and others use llvmlite as ever
        time.sleep(0.001)
    assert [each.result() for each in begun] == 4 * expected
