"""Each rule of the verifier finds a program that breaks it, and lets its neighbour pass."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import stages
from phix.core.errors import VerificationError
from phix.kernels.loops import nodes as ir
from phix.kernels.loops import slot_check, verifier
from phix.kernels.loops.calls import CallStep, StartCall, WaitCall
from phix.kernels.loops.nodes import Buffer, For, Kernel, LoopProgram, Store
from phix.kernels.loops.verifier import verify
from phix.kernels.scalar import language as sc
from phix.kernels.schedule import several_rows

I0, I1 = sc.var("i0"), sc.var("i1")
NUMBER = sc.const(1.0, dt.float32)


def size(n: int) -> sc.Expr:
    return sc.const(n, dt.int64)


def buffer(name: str, *dims: int, kind: str = "temp", dtype: np.dtype = dt.float32) -> Buffer:
    return Buffer(name, dtype, dims, kind)


def load(b: Buffer, at: sc.Expr) -> sc.Expr:
    return sc.Expr("load", (at,), ir.scalar_dtype(b.dtype), b)


def program(*statements: ir.Statement, **parts: Any) -> LoopProgram:
    """A program of one kernel that reads ``x0`` and writes ``o0``, each of four elements."""
    kernel = Kernel(list(statements), **parts)
    return LoopProgram([X], [], [OUT], [], [kernel], {})


X, OUT = buffer("x0", 4, kind="input"), buffer("o0", 4, kind="output")
TEMP = buffer("t0", 4)
A0 = sc.var("a0", dt.float32)


def copied(*more: ir.Statement, extent: sc.Expr | None = None, at: sc.Expr = I0) -> For:
    return For(I0, extent or size(4), [*more, Store(OUT, (at,), load(X, I0))])


def shared(body: list[ir.Statement], length: int) -> Callable[[], LoopProgram]:
    extent = size(length)
    loop = For(I0, ir.PIECE_END, body, "parallel", ir.PIECE_START)
    return lambda: program(loop, shared=ir.Shared(extent, extent, 1))


def slices(second: int) -> LoopProgram:
    base = buffer("o0", 2, 4, kind="output")
    rows = [Buffer(f"r{k}", dt.float32, (4,), "slice", False, base, size(k)) for k in (0, second)]
    rows[1].name = "r9"
    body = [Store(rows[0], (I0,), load(X, I0)), Store(rows[1], (I0,), load(X, I0))]
    return LoopProgram([X], [], [base], [], [Kernel([For(I0, size(4), body)])], {})


BROKEN: dict[str, tuple[str, Callable[[], LoopProgram]]] = {
    "a temp that nothing has written": (
        "buffers_have_values",
        lambda: program(For(I0, size(4), [Store(OUT, (I0,), load(TEMP, I0))])),
    ),
    "a result that nothing writes": (
        "buffers_have_values",
        lambda: program(For(I0, size(4), [Store(TEMP, (I0,), load(X, I0))])),
    ),
    "a total that nothing has started": (
        "buffers_have_values",
        lambda: program(For(I0, size(4), [Store(OUT, (I0,), load(OUT, I0) + load(X, I0))])),
    ),
    "an index outside its loop": (
        "scalars_have_values", lambda: program(copied(), Store(OUT, (I0,), NUMBER)),
    ),
    "a scalar outside its block": (
        "scalars_have_values",
        lambda: program(copied(ir.Declare(A0, NUMBER)), Store(OUT, (ir.ZERO,), A0)),
    ),
    "a piece where there is none": (
        "scalars_have_values", lambda: program(copied(extent=ir.PIECE_END)),
    ),
    "one element too many": (
        "loads_stay_inside", lambda: program(copied(extent=size(5), at=ir.ZERO)),
    ),
    "a store before the first": (
        "stores_stay_inside", lambda: program(copied(at=I0 - 1)),
    ),
    "an index from the data that nothing keeps inside": (
        "loads_stay_inside", lambda: indexed(lambda i: i),
    ),
    "an index from the data that is kept inside on one side": (
        "loads_stay_inside", lambda: indexed(lambda i: sc.binary("minimum", i, size(3))),
    ),
    "a sum of two dtypes": (
        "types_fit",
        lambda: program(
            For(I0, size(4), [
                Store(OUT, (I0,), sc.Expr("add", (load(X, I0), sc.const(1.0, dt.float64)),
                                          dt.float32))
            ])
        ),
    ),
    "a store of another dtype": (
        "stores_fit",
        lambda: program(For(I0, size(4), [Store(OUT, (I0,), sc.cast(load(X, I0), dt.float64))])),
    ),
    "two loops with one index": (
        "loops_fit", lambda: program(For(I0, size(2), [copied()])),
    ),
    "a slice and its like": ("memory_has_one_name", lambda: slices(0)),
    "threads that meet in a total": (
        "threads_stay_apart",
        shared([Store(OUT, (ir.ZERO,), load(X, I0))], 4),
    ),
    "threads that read what another writes": (
        "threads_stay_apart",
        shared([Store(OUT, (I0,), NUMBER),
                Store(TEMP, (I0,), load(OUT, sc.binary("maximum", I0 - 1, ir.ZERO)))], 4),
    ),
    "threads that read what the first writes": (
        "threads_stay_apart",
        shared([Store(OUT, (I0,), NUMBER), Store(TEMP, (I0,), load(OUT, ir.ZERO))], 4),
    ),
    "threads that read what the last writes": (
        "threads_stay_apart",
        shared([Store(OUT, (I0,), NUMBER), Store(TEMP, (I0,), load(OUT, size(3)))], 4),
    ),
}  # fmt: skip


def indexed(limited: Callable[[sc.Expr], sc.Expr]) -> LoopProgram:
    where = buffer("x1", 4, kind="input", dtype=dt.int64)
    element = load(X, limited(load(where, I0)))
    kernel = Kernel([For(I0, size(4), [Store(OUT, (I0,), element)])])
    return LoopProgram([X, where], [], [OUT], [], [kernel], {})


def flight(*between: str, native: bool = False) -> LoopProgram:
    """Something that begins, and steps behind it: ``wait`` is for its end. ``native``: no Python
    runs for it."""
    sent, received, other = buffer("t1", 4), buffer("t2", 4), buffer("t3", 4)

    def copy(to: Buffer, source: Buffer) -> Kernel:
        return Kernel([For(I0, size(4), [Store(to, (I0,), load(source, I0))])])

    parts = ("step", print, (sent,), (received,), ((4,),), {"begin": print})
    more = ("more", print, (X,), (other,), ((4,),))
    start = StartCall(*parts) if native else ir.StartStep(*parts)
    made: dict[str, ir.Step] = {
        "wait": (WaitCall if native else ir.WaitStep)(*parts, start=start),
        "read": copy(other, received), "other": copy(other, X), "write": copy(sent, X),
        "python": ir.HostStep(*more), "loop": ir.ForStep(I1, size(3), [copy(other, X)]),
        "python in a loop": ir.ForStep(I1, size(3), [ir.HostStep(*more)]),
        "step of the host": ir.HostStep(*more, {"begin": print}),
        "native step": CallStep(*more, {"begin": print}), "dim": ir.BindStep("n", other),
    }  # fmt: skip
    steps = [copy(sent, X), start, *(made[word] for word in between), copy(OUT, received)]
    return LoopProgram([X], [], [OUT], [sent, received, other], steps, {})


BROKEN_FLIGHTS: dict[str, tuple[str, ...]] = {
    "what is received and read too early": ("read", "wait"),
    "what is sent and written too early": ("write", "wait"),
    "what is never waited for": ("other",),
    "Python while something is under way": ("python", "wait"),
    "Python in a loop while something is under way": ("python in a loop", "wait"),
    "a dim whose value Python reads": ("other", "dim", "wait"),
}


@pytest.mark.parametrize("native", [False, True], ids=["host", "native"])
@pytest.mark.parametrize("name", BROKEN_FLIGHTS)
def test_what_disturbs_a_step_under_way_is_found(name: str, native: bool) -> None:
    with pytest.raises(VerificationError, match="breaks the rule 'flights_are_undisturbed'"):
        verify("a pass", flight(*BROKEN_FLIGHTS[name], native=native))
    verify("a pass", flight("other", "loop", "wait", "read", native=native))


@pytest.mark.parametrize("native", [False, True], ids=["host", "native"])
def test_steps_of_the_host_and_native_ones_are_not_under_way_together(native: bool) -> None:
    """What native code has begun is waited for by native code of the same entry."""
    alike, other = ("native step", "step of the host")[:: 1 if native else -1]
    verify("a pass", flight(alike, "wait", other, native=native))
    with pytest.raises(VerificationError, match="Python runs something while a step is under way"):
        verify("a pass", flight(other, "wait", native=native))


@pytest.mark.parametrize("name", BROKEN)
def test_what_breaks_a_rule_is_found(name: str) -> None:
    rule, make = BROKEN[name]
    with pytest.raises(VerificationError, match=rf"after 'a pass' .* the rule '{rule}'"):
        verify("a pass", make())


SOUND: dict[str, Callable[[], LoopProgram]] = {
    "a copy": lambda: program(copied()),
    "an index kept inside": lambda: indexed(
        lambda i: sc.binary("maximum", sc.binary("minimum", i, size(3)), ir.ZERO)
    ),
    "slices of two rows": lambda: slices(1),
    "threads with an element each": shared([Store(OUT, (I0,), load(X, I0))], 4),
    "a store where a condition holds": lambda: program(
        copied(),
        For(I1, size(9), [ir.If(sc.binary("lt", I1, size(4)), [Store(OUT, (I1,), NUMBER)])]),
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_what_keeps_the_rules_passes(name: str) -> None:
    verify("a pass", SOUND[name]())


def test_an_index_outside_a_buffer_of_unknown_size_is_found_at_its_sizes() -> None:
    n = dm.symbol("n")
    source = Buffer("x0", dt.float32, (n,), "input")
    target = Buffer("o0", dt.float32, (n - 1,), "output")
    loop = For(I0, sc.var("n"), [Store(target, (I0,), load(source, I0))])
    (symbol,) = dm.symbols(n)
    found = LoopProgram([source], [], [target], [], [Kernel([loop])], {"n": symbol})
    verify("lower", found)  # nothing is known of the sizes
    with pytest.raises(VerificationError, match=r"stores_stay_inside.*element 4 of 4"):
        verifier.verify_bounds(found, {symbol: 5})
    shorter = For(I0, sc.var("n") - size(1), loop.body)
    found.steps[:] = [Kernel([shorter])]
    verifier.verify_bounds(found, {symbol: 5})


def test_results_that_share_memory_are_found() -> None:
    broken = program(copied())
    broken.outputs = [OUT, OUT]
    with pytest.raises(VerificationError, match="two results live in o0"):
        verify("a pass", broken)
    taken = LoopProgram([X], [], [X], [], [Kernel([copied()])], {})
    with pytest.raises(VerificationError, match="was not donated"):
        verify("a pass", taken)


def step(reads: list[Buffer], writes: list[Buffer]) -> Kernel:
    value = sum((load(b, ir.ZERO) for b in reads), NUMBER)
    return Kernel([Store(b, (ir.ZERO,), value) for b in writes])


OTHER = Buffer("o1", OUT.dtype, OUT.dims, "output")
TEMP = buffer("t0", 4)


@pytest.mark.parametrize(
    ("steps", "fault"),
    [
        ([([X], [OUT]), ([X], [OTHER])], ""),
        ([([X], [OUT]), ([OUT], [OTHER])], "meet in o0"),
        ([([OUT], [OTHER]), ([X], [OUT])], "meet in o0"),
        ([([X], [OUT]), ([X], [OTHER]), ([X], [OUT])], "meet in o0"),
        ([([X], [TEMP]), ([X], [OTHER])], "writes a temp"),
        ([([X], [OTHER]), ([X], [TEMP])], "writes a temp"),
    ],
)
def test_kernels_that_run_at_once_are_apart(steps: list[Any], fault: str) -> None:
    made = [step(*one) for one in steps]
    for kernel in made[1:]:
        kernel.beside = size(1000)
    found = LoopProgram([X], [], [OUT, OTHER], [TEMP], [step([X], [OUT, OTHER, TEMP]), *made], {})
    if not fault:
        verify("a pass", found)
        return
    with pytest.raises(VerificationError, match=rf"'kernels_beside_are_apart': .*{fault}"):
        verify("a pass", found)
    made[-1].beside = None  # it waits for those before it
    if len(made) == 2:
        verify("a pass", found)


def test_temps_that_are_needed_at_once_do_not_share_memory() -> None:
    a, b = buffer("t0", 4), buffer("t1", 4)
    first, second = step([X], [a]), step([X], [b])
    use_a, use_b = step([a], [OUT]), step([b], [OUT])
    assert not list(slot_check.faults([first, use_a, second, use_b], [[a, b]]))
    assert list(slot_check.faults([first, second, use_a, use_b], [[a, b]]))
    assert not list(slot_check.faults([first, second, use_a, use_b], [[a], [b]]))
    assert list(slot_check.faults([first, step([a], [b])], [[a, b]]))
    again = ir.ForStep(sc.var("s0"), size(3), [use_a, second, use_b])
    assert list(slot_check.faults([first, again], [[a, b]]))  # a second round needs a again
    filled = ir.ForStep(sc.var("s0"), size(3), [second])  # where it runs, what follows does too
    assert not list(slot_check.faults([first, use_a, filled, use_b], [[a, b]]))
    either = ir.SwitchStep(buffer("t2", dtype=dt.int64), [[second], [use_a]])
    assert list(slot_check.faults([first, either, use_a], [[a, b]]))


def test_what_a_loop_fills_may_take_the_memory_of_what_is_done_with() -> None:
    """Whether the loop is known to run, or fills nothing where it does not."""
    a, b, count = buffer("t0", 4), buffer("t1", 4, 4), sc.var("n")
    row = Buffer("r0", dt.float32, (4,), "slice", base=b, index=sc.var("s0"))
    first, use_a, use_b = step([X], [a]), step([a], [OUT]), step([b], [OUT])
    for extent in (size(3), count):
        filling = ir.ForStep(row.index, extent, [step([X], [row])])
        assert not list(slot_check.faults([first, use_a, filling, use_b], [[a, b]]))
        assert list(slot_check.faults([first, filling, use_a, use_b], [[a, b]]))
    carried = ir.ForStep(row.index, count, [step([X], [b])])  # it may leave what was there before
    start = step([X], [b])
    assert list(slot_check.faults([start, first, use_a, carried, use_b], [[a, b]]))
    runs = ir.ForStep(row.index, size(1), [step([X], [b])])
    assert not list(slot_check.faults([start, first, use_a, runs, use_b], [[a, b]]))


def test_a_size_is_the_same_in_all_turns_of_a_loop() -> None:
    """In the first turn an inner loop was taken to fill its rows, and in the second not to run."""
    a, b, flag = buffer("t0", 4), buffer("t1", 4, 4), buffer("t2", dtype=dt.bool_)
    row = Buffer("r0", dt.float32, (4,), "slice", base=b, index=sc.var("s0"))
    first, use_a, use_b = step([X], [a]), step([a], [OUT]), step([b], [OUT])

    def turns(extent: sc.Expr) -> list[str]:
        filling = ir.ForStep(row.index, extent, [step([X], [row])])
        around = ir.WhileStep([step([X], [flag])], flag, [first, use_a, filling, use_b])
        return list(slot_check.faults([around], [[a, b]]))

    assert not turns(sc.var("n"))
    assert turns(load(buffer("t3", dtype=dt.int64), ir.ZERO))  # may run once, and then not


def test_loops_over_rows_made_by_a_product_are_compiled() -> None:
    """A scan's results may lie where what it goes over was made."""

    def f(y: Any, w: Any) -> Any:
        h = y @ w
        rows = h + ops.sin(h) ** 2
        start = ops.full([5, 8], 0.0, "float64")
        return ops.max(phix.scan(lambda c, r: (c + r, c * r), start, rows)[1], 0)

    y, w = np.ones((3, 5, 1)), np.ones((1, 8))
    r = 1.0 + np.sin(1.0) ** 2
    np.testing.assert_allclose(phix.jit(f)(y, w), np.full((5, 8), 2 * r * r), rtol=1e-14)
    both = [phix.spec(["n", 5, 1], "float64"), phix.spec([1, 8], "float64")]
    generic = phix.jit(f, input_spec=both)
    np.testing.assert_allclose(generic(y, w), np.full((5, 8), 2 * r * r), rtol=1e-14)


def test_a_pass_that_breaks_a_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def harm(program: LoopProgram, _: Any) -> None:
        loop = next(s for k in program.steps for s in k.body if isinstance(s, For))
        loop.extent = loop.extent + 1

    monkeypatch.setattr(several_rows, "several_rows", harm)
    x = np.ones(4, np.float32)
    assert stages.is_verifying()
    with pytest.raises(VerificationError, match="after 'several_rows'"):
        phix.jit(lambda x: ops.exp(x) * 1.25)(x)


def test_kernels_that_have_not_changed_are_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Kernel] = []
    monkeypatch.setattr(verifier, "_checked", {})
    monkeypatch.setattr(verifier, "_first_fault", lambda at, _: calls.append(at.kernel) or [])
    same = program(copied())
    verify("a pass", same)
    verify("the next", same)
    assert len(calls) == 1


def test_a_kernel_that_changed_in_any_part_is_looked_at_again() -> None:
    """What is compared has every field of each kind of statement."""
    for kind, names in verifier._PARTS.items():
        fields = {f.name for f in dataclasses.fields(kind)} - {"body"}
        assert set(names) == fields, kind
    kinds = {type(s) for make in BROKEN.values() for k in make[1]().steps for s in ir.walk(k.body)}
    assert kinds <= verifier._PARTS.keys()
