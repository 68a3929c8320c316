"""Which tests have LLVM optimise their programs, and that no code is taken for other code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import phix
import phix.numpy as pn
from phix import ops
from phix.core import rewrites
from phix.interpreters.eager import EAGER
from phix.kernels.cpu import compiler, jit
from phix.kernels.cpu.level import has_masks, level
from phix.kernels.loops import verifier
from phix.kernels.schedule.pipeline import PIPELINES
from tests import machine_code
from tests.machine_code import unoptimised

ROOT = Path(__file__).parents[1]


def optimised(count: int, *args: int, is_marked: bool = True, **options: Any) -> set[int]:
    """The tests, of so many, that are optimised."""
    mark = SimpleNamespace(args=args)
    known = {"optimise": False, "prove": 0.0, "prove_seed": 5, "seed": 0, **options}

    def item(number: int) -> Any:
        return SimpleNamespace(
            nodeid=f"test_{number}", config=SimpleNamespace(option=SimpleNamespace(**known)),
            get_closest_marker=lambda name: mark if is_marked and name == "unoptimised" else None,
        )  # fmt: skip

    return {k for k in range(count) if machine_code.is_optimised(item(k))}


def test_one_marked_test_in_so_many_is_optimised_and_the_seed_chooses() -> None:
    chosen = optimised(4000)
    assert 15 < len(chosen) < 80 and chosen == optimised(4000)
    assert chosen != optimised(4000, seed=1) != optimised(4000, prove=9.0)
    assert chosen < optimised(4000, 4) and 800 < len(optimised(4000, 4)) < 1200
    assert optimised(9, is_marked=False) == optimised(9, optimise=True) == set(range(9))


def test_code_of_both_kinds_is_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bool] = []
    known = compiler.object_of

    def object_of(text: str, is_final: bool) -> bytes:
        made.extend([] if is_final else [True])
        return known(text, is_final)

    monkeypatch.setattr(compiler, "object_of", object_of)
    x = np.arange(5.0) + 0.125
    with unoptimised():
        first, key = ops.tanh(x * 1.0625).numpy(), jit._key("text")
        with unoptimised():
            assert jit._key("text") == key
        phix.jit(lambda x: ops.sinh(x * 1.0625))(x)
    assert not made and jit._key("text") != key
    np.testing.assert_allclose(ops.tanh(x * 1.0625), first, rtol=1e-15)
    phix.jit(lambda x: ops.sinh(x * 1.0625))(x)
    assert made


def test_plans_that_hold_no_more_are_forgotten_in_both_kinds() -> None:
    ops.cosh(np.ones(3))
    with unoptimised():
        ops.cosh(np.ones(3))
        EAGER.forgotten += 1
        EAGER.plans.clear()
    assert not EAGER.plans
    ops.cosh(np.ones(3))
    EAGER.forgotten += 1
    EAGER.plans.clear()
    with unoptimised():
        assert not EAGER.plans


def test_marked_tests_verify_at_the_ends_of_lists_of_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(verifier, "verify", lambda after, program: seen.append(after))

    def verified(scale: float, **how: Any) -> list[str]:
        seen.clear()
        with unoptimised(**how):
            phix.jit(lambda x: ops.tanh(x) * scale).lower(np.ones(3)).compile()
        return list(seen)

    ends = ["block_sums"]  # of a list for another engine
    every = [row.name for name in ("every engine", "cpu") for row in PIPELINES[name]]
    assert verified(1.4375) == ["lower", *every]
    assert verified(2.4375, each_pass=False) == [*ends, PIPELINES["cpu"][-1].name]
    names = [row.name for row in PIPELINES["cpu"]]
    without = names[names.index("share_loops") + 1 :]
    with rewrites.without(frozenset(without)):
        assert verified(3.4375, each_pass=False) == [*ends, "share_loops"]


@pytest.mark.parametrize("with_signs", [b"\xc4\xc1\xf9\x50\xc4", b"\xc4\xa1\x79\x50\xd0"])
def test_code_that_may_lose_masks_is_compiled_without_the_instructions_that_do(
    with_signs: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of vmovmskpd from xmm12, and of that which LLVM makes of xmm16, which it cannot name."""
    ways: list[tuple[bool, bool]] = []
    machines = []
    without = b"\xc5\xf9\x6e\xc4"

    def new_machine(features: str) -> str:
        machines.append(features)
        return features

    def emitted(text: str, machine: str) -> bytes:
        return with_signs if text == "signs" and "-avx512dq" not in machine else without

    monkeypatch.setattr(compiler, "_idle", defaultdict(list))
    monkeypatch.setattr(compiler, "_new_machine", new_machine)
    monkeypatch.setattr(compiler, "parsed", lambda text: text)
    monkeypatch.setattr(compiler, "_optimise", lambda *given: ways.append(given[-1]))
    monkeypatch.setattr(compiler, "_emitted", emitted)
    monkeypatch.setattr(compiler, "_is_sound", lambda module: module != "broken" or not ways[-1][0])
    monkeypatch.setattr(compiler, "has_masks", lambda: True)
    native = level().features
    assert compiler.object_of("text", False) == without and machines == [native]
    for is_final in (False, True):
        assert compiler.object_of("signs", is_final) == without
    assert machines == [native, native + ",-avx512dq,-avx512bw"]  # each is made once
    assert set(ways) == {(True, True)}
    ways.clear()
    compiler.object_of("broken", False)  # by the passes that make vectors of lines
    assert ways == [(True, True), (False, True)]


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
@pytest.mark.parametrize("size", [8, 67, 1000])
def test_bits_of_two_numbers_where_a_mask_holds(dtype: str, size: int) -> None:
    """LLVM 22 takes those of the first number from the second, in vpternlog under a mask."""
    draw = np.random.default_rng(5)
    x, y, z = draw.integers(0, 100, size=(3, size)).astype(dtype)
    low = np.asarray(15, dtype)

    def mixed(xp: Any, x: Any, y: Any, z: Any) -> tuple[Any, ...]:
        both = (x & low) | (y & ~low)
        return xp.where(z < 50, both, x), xp.where(z < 50, both, y), xp.where(z < 50, both, 0)

    for k, want in enumerate(mixed(np, x, y, z)):
        found = phix.jit(lambda *given, k=k: mixed(pn, *given)[k])(x, y, z)
        np.testing.assert_array_equal(found.numpy(), want)


def test_logic_under_a_mask_is_told_from_other_logic() -> None:
    """Of memory and of registers; without a mask, and with zeros where a mask does not hold."""
    for code in ("62f375092506e2", "62838d572564f508e4", "62f3554a25f3b8"):
        assert compiler.may_mix_operands(b"\x90" + bytes.fromhex(code)) is has_masks()
    for code in ("62f375082506e2", "62f375892506e2", "62f37508250fc2"):
        assert not compiler.may_mix_operands(bytes.fromhex(code))


@pytest.mark.skipif(not has_masks(), reason="the CPU has no masks")
@pytest.mark.parametrize("op", ["sin", "tan"])
def test_loops_with_signs_of_numbers_stay_vectors(op: str) -> None:
    """In what is left of the loop, number by number, LLVM takes a sign as if of a vector: all of
    the loop had been compiled number by number for that, and took twelve times as long."""
    text = phix.jit(getattr(ops, op)).lower(phix.spec([1 << 18])).as_text("llvm")
    on_64_bytes = rb"(?s)\x62..[\x40-\x5f\xc0-\xdf]"  # prefixes of instructions
    assert len(re.findall(on_64_bytes, compiler.object_of(text, False))) > 50


# Of its gradient LLVM 22 makes, for AVX2, a product that stands behind its use.
LEAPFROG = """
import numpy as np, phix
import phix.numpy as pn
def energy(q, p, w, b):
    return pn.sum(pn.tanh(pn.concatenate([q, p]) @ w) * b)
def loss(w, b, q, p):
    def step(carry, _):
        q, p = carry
        p = p - 0.05 * phix.grad(energy, 0)(q, p, w, b)
        q = q + 0.1 * phix.grad(energy, 1)(q, p, w, b)
        p = p - 0.05 * phix.grad(energy, 0)(q, p, w, b)
        return (q, p), None
    return pn.sum(phix.scan(step, (q, p), None, length=3)[0][0] ** 2)
draw = np.random.default_rng(0)
w, b, q, p = draw.normal(size=(4, 5)), draw.normal(size=5), draw.normal(size=2), draw.normal(size=2)
found = phix.jit(phix.grad(loss))(w, b, q, p).numpy()
for place in np.ndindex(4, 5):
    up, down = w.copy(), w.copy()
    up[place] += 1e-5
    down[place] -= 1e-5
    slope = (loss(up, b, q, p).item() - loss(down, b, q, p).item()) / 2e-5
    assert abs(found[place] - slope) < 1e-6 * (1 + abs(slope)), (place, found[place], slope)
"""


# Of sums of their gradients LLVM 22 makes vectors by a step that ends the process.
FACTORS = """
import numpy as np, phix
from phix import linalg, ops
for n in (6, 7):
    e = n * np.eye(n) + 0.1
    for f in (linalg.cholesky, lambda a: linalg.qr(a)[1]):
        total = lambda s: ops.sum(f(s * e))
        s = np.float64(1.3)
        slope = (total(s + 1e-5).item() - total(s - 1e-5).item()) / 2e-5
        assert abs(phix.jit(phix.grad(total))(s).item() - slope) < 1e-6 * abs(slope)
"""


@pytest.mark.parametrize("level", ["native", "x86-64-v3"])
@pytest.mark.parametrize("program", [LEAPFROG, FACTORS], ids=["leapfrog", "factors"])
def test_a_program_that_llvm_would_break_compiles(program: str, level: str) -> None:
    """In a process of its own, as LLVM ends the process."""
    environment = os.environ | {"PHIX_CPU": level, "PHIX_CACHE": "0", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program], text=True, capture_output=True, env=environment
    )
    if "asks for what this CPU has not" in done.stderr:
        pytest.skip(f"this CPU has not what {level} asks for")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("method", ["midpoint", "closest_observation", "linear"])
@pytest.mark.parametrize("rows", [(2, 5), (3,), (1,)])
def test_signs_of_a_few_indices_are_all_kept(method: str, rows: tuple[int, ...]) -> None:
    """LLVM 22 lost those of four lanes, one of which is a number beside them."""
    x = np.random.default_rng(5).normal(size=(*rows, 100))
    x[x > 1.0] = np.nan
    for count in (2, 3, 4, 5):
        q = np.linspace(0.1, 0.9, count)
        found = phix.jit(lambda x, q=q: phix.numpy.nanquantile(x, q, axis=-1, method=method))(x)
        np.testing.assert_allclose(found, np.nanquantile(x, q, axis=-1, method=method), rtol=1e-12)
