"""What a registered kernel is held to, on every kind of place: its form, its inputs, its faults."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernel_places
import phix
from kernel_places import Where
from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import kernel_registry, rules, unfilled
from phix.core.errors import KernelError, KernelRegistrationError
from phix.core.kernel_context import KernelContext

pytestmark = pytest.mark.unoptimised
X = np.array([0.5, -1.0, 2.0], "f")


@pytest.fixture(params=kernel_places.NAMES)
def where(request: pytest.FixtureRequest) -> Iterator[Where]:
    with kernel_places.there(request.param) as found:
        yield found


@contextmanager
def kernel(op: str, backend: str, function: Any, dtypes: Any = "all") -> Iterator[None]:
    """That kernel in place of those that the backend has for the op."""
    with phix.scoped_registries():
        if any(k.backend == backend for k in kernel_registry.KERNELS.get(op, ())):
            phix.kernels.unregister_kernel(op, backend)
        phix.kernels.register_kernel(op, backend, dtypes=dtypes)(function)
        yield


RUNS = {
    "eager": lambda f: f,
    "jit": lambda f: phix.jit(lambda x: f(x * 1.0) + 0.0),
    "unknown dims": lambda f: phix.jit(f, input_spec=[phix.spec(["n"])]),
    "vmap": phix.vmap,
    "grad": lambda f: phix.grad(lambda x: ops.sum(f(f(x)))),
}


@pytest.mark.parametrize("how", RUNS)
def test_a_kernel_that_raises_is_an_error_with_what_it_got(where: Where, how: str) -> None:
    broken = [True]

    def run(ctx: Any, x: Any, out: Any) -> None:
        if broken[0]:
            raise ZeroDivisionError("no such thing")
        np.sinh(x, out=out)

    with kernel("sinh", where.backend, where.opened(run)):
        f, x = RUNS[how](ops.sinh), where.tensor(X)
        for _ in range(2):
            with pytest.raises(KernelError, match=r"of 'sinh' for .* raised ZeroDivisionError: n"):
                f(x)
        broken[0] = False
        found = f(x)
    wide = X.astype("d")
    wanted = np.cosh(np.sinh(wide)) * np.cosh(wide) if how == "grad" else np.sinh(wide)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_the_message_names_the_kernel_its_arguments_and_the_line(where: Where) -> None:
    def run(ctx: Any, x: Any, out: Any) -> None:
        out[...] = np.zeros(7)

    with kernel("sinh", where.backend, where.opened(run)), pytest.raises(KernelError) as caught:
        phix.jit(lambda x: ops.sinh(x))(where.tensor(X))
    text = str(caught.value)
    for part in ("Where.opened", "could not broadcast", "x: float32[3], out: float32[3]"):
        assert part in text
    assert f"(at {__file__}" in text or "test_kernel_contract.py:" in text
    assert isinstance(caught.value.__cause__, ValueError)
    assert isinstance(caught.value, RuntimeError)


def test_what_a_kernel_returns_is_refused(where: Where) -> None:
    x, text = where.tensor(X), "it is to fill the outputs and to return nothing"
    with (
        kernel("cosh", where.backend, lambda ctx, x, out: x),
        pytest.raises(KernelError, match=text),
    ):
        ops.cosh(x)


@pytest.mark.parametrize("is_thorough", [True, False])
@pytest.mark.parametrize("how", ["eager", "jit", "vmap"])
def test_what_a_kernel_leaves_unfilled_is_an_error(
    how: str, is_thorough: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first and the last element of an array are looked at, and under PHIX_VERIFY all."""
    filled = [slice(0, 0)]

    def run(ctx: Any, x: Any, out: Any) -> None:
        out[filled[0]] = x[filled[0]]

    monkeypatch.setattr(unfilled, "_is_thorough", is_thorough)
    with kernel_places.there("cpu") as where, kernel("sinh", where.backend, run):
        f, x = RUNS[how](lambda x: ops.sinh(ops.reshape(x, [-1]))), X[None] if how == "vmap" else X
        for part, count in [(slice(0, 0), 3), (slice(1, None), 1), (slice(0, 2), 1)]:
            filled[0] = part
            place = "last" if part.stop == 2 else "first"
            text = f"{count} of 3 elements" if is_thorough else f"the {place} element"
            with pytest.raises(KernelError, match=f"left {text} .*it is to fill all of its out"):
                f(x)
        filled[0] = slice(None)
        np.testing.assert_array_equal(f(x), x)


@pytest.mark.parametrize("dtype", dt.ALL, ids=str)
@pytest.mark.parametrize("is_thorough", [True, False])
def test_marks_of_unfilled_memory_are_nothing_that_kernels_compute(
    dtype: np.dtype, is_thorough: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unfilled, "_is_thorough", is_thorough)
    for value in (0, 1, -1, np.nan, 255, -91, 165, 0xA5A5):
        out = np.empty((3, 4), dtype)
        marks = unfilled.mark([out, None, out[:, 0], np.empty(0, dtype)])
        assert len(marks) == 1 and unfilled.problem(marks).startswith("left ")
        with np.errstate(all="ignore"):
            out[...] = np.asarray(value).astype(dtype)
        assert not unfilled.problem(marks)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_ints_of_few_bits_that_nobody_fills_are_an_error(dtype: str) -> None:
    """No number says so; eight of them do. Less than eight are not looked at."""
    count = [0]

    def run(ctx: Any, x: Any, out: Any) -> None:
        out[: count[0]] = x[: count[0]]

    x = np.arange(9).astype(dtype)
    with kernel_places.there("cpu") as where, kernel("abs", where.backend, run):
        for f in (ops.abs, phix.jit(ops.abs), lambda x: phix.jit(phix.vmap(ops.abs))(x[None])[0]):
            count[0] = 0
            assert f(x[:7]).shape == (7,)
            with pytest.raises(KernelError, match="left the first and the last elements of an out"):
                f(x)
            count[0] = 9
            np.testing.assert_array_equal(f(x), x)


@pytest.mark.parametrize("how", ["eager", "jit", "unknown dims"])
def test_inputs_cannot_be_written_to(how: str) -> None:
    for name in ("cpu", "gpu"):
        with kernel_places.there(name) as where:

            def spoil(ctx: Any, x: Any, out: Any) -> None:
                out[...] = x
                x[...] = 0

            with kernel("sinh", where.backend, where.opened(spoil)):
                x = where.tensor(X)
                with pytest.raises(KernelError, match=r"read-only; inputs are read alone: write"):
                    RUNS[how](ops.sinh)(x)
                np.testing.assert_array_equal(x, X)


@phix.device("cpu")
def test_lists_of_inputs_cannot_be_written_to() -> None:
    def spoil(ctx: Any, xs: Any, axis: int, out: Any) -> None:
        xs[1][...] = 0

    with kernel("concat", "CPU", spoil), pytest.raises(KernelError, match="read alone"):
        ops.concat([X, X])


# -- what it runs with -----------------------------------------------------------------------
def test_memory_of_the_place_and_of_the_host(where: Where) -> None:
    kinds = []

    def run(ctx: Any, x: Any, out: Any) -> None:
        scratch, table = ctx.alloc(x.shape, "float64"), ctx.host_alloc((2, 2), "int32")
        kinds.append((type(scratch) is type(x), type(table), table.dtype, str(ctx.place)[:3]))
        here = kernel_places.array_of(scratch)
        here[...] = np.sinh(kernel_places.array_of(x))
        kernel_places.array_of(out)[...] = here

    with kernel("cosh", where.backend, run):
        np.testing.assert_allclose(ops.cosh(where.tensor(X)), np.sinh(X), rtol=1e-6)
    assert kinds == [(True, np.ndarray, np.dtype("int32"), where.name)]


def test_generators_start_again_from_a_seed() -> None:
    ctx, other = KernelContext(phix.Place("cpu")), KernelContext(phix.Place("gpu"))
    phix.kernels.seed(3)
    first, elsewhere = ctx.generator.random(4), other.generator.random(4)
    again = ctx.generator.random(4)
    assert len({*first, *again, *elsewhere}) == 12
    phix.kernels.seed(3)
    np.testing.assert_array_equal(ctx.generator.random(4), first)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(ctx.generator.random(4)))
    thread.start()
    thread.join()
    np.testing.assert_array_equal(found[0], first)
    np.testing.assert_array_equal(ctx.generator.random(4), again)


@pytest.fixture
def picked(tmp_path: Path) -> Iterator[Any]:
    """An op whose size its data tell."""
    table = tmp_path / "ops.yaml"
    table.write_text(
        "- op: picked\n  args: (Tensor x, Tensor mask)\n  output: Tensor(out)\n"
        "  infer_meta: {func: PickedInferMeta, param: [x]}\n  traits: [data_dependent]\n"
    )
    with phix.scoped_registries():
        rules.infer_meta("PickedInferMeta")(lambda x: phix.MetaTensor((dm.symbol(),), x.dtype))
        yield phix.load_ops(table).picked


def test_outputs_of_unknown_size(picked: Any) -> None:
    """A kernel finds their size; what it leaves open, or sets wrongly, is an error."""
    made: list[Any] = [None]

    def run(ctx: Any, x: Any, mask: Any, out: Any) -> None:
        out.data = made[0]

    with kernel_places.there("npu") as where, kernel("picked", "NPU", run):
        x, mask = where.tensor(X), where.tensor(X > 0)
        ctx = KernelContext(x.place)
        for wrong, text in [
            (None, "left an output of unknown size without data"),
            (ctx.alloc((1, 2), "float32"), r"set an output of unknown size to float32\[1, 2\]"),
            (ctx.alloc((2,), "int32"), r"to int32\[2\]; set float32 of 1 axes"),
        ]:
            made[0] = wrong
            with pytest.raises(KernelError, match=text):
                picked(x, mask)
        made[0] = where.tensor(X[X > 0]).data
        np.testing.assert_array_equal(picked(x, mask), X[X > 0])
        np.testing.assert_array_equal(phix.jit(lambda x, m: picked(x, m) + 1.0)(x, mask), [1.5, 3])


# -- registering -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    "function, text",
    [
        (
            lambda ctx, x: None,
            r"cannot be called with the 3 arguments .*write def sinh\(ctx, x, out",
        ),
        (lambda ctx, x, y, z, out: None, r"kernels of sinh\(Tensor x\) -> Tensor\(out\) get"),
        (np.sinh, "cannot be called"),
        (None, "found NoneType, no function"),
    ],
)
def test_the_number_of_arguments_is_checked(function: Any, text: str) -> None:
    before = len(kernel_registry.KERNELS.get("sinh", {}))
    with pytest.raises(KernelRegistrationError, match=text):
        phix.kernels.register_kernel("sinh", "CPU")(function)
    assert len(kernel_registry.KERNELS.get("sinh", {})) == before


def test_any_form_that_can_be_called_will_do() -> None:
    forms = [lambda *args: None, lambda ctx, x, out, more=1: None, lambda ctx, *rest: None]
    for form in forms:
        with phix.scoped_registries():
            phix.kernels.register_kernel("sinh", "CPU", dtypes="float64")(form)


def test_dtypes_that_the_op_never_has() -> None:
    def run(ctx: Any, x: Any, out: Any) -> None:
        pass

    for dtypes in ("int8", ["float32", "int8"], "bool", ["int"]):
        with pytest.raises(KernelRegistrationError, match="which it never has; its dtypes are fl"):
            phix.kernels.register_kernel("sinh", "CPU", dtypes=dtypes)(run)
    with kernel("sinh", "CPU", run, ["int", "float"]):
        own = {k.dtype for k in kernel_registry.KERNELS["sinh"] if k.backend == "CPU"}
    assert own == set(phix.core.dtypes.FLOAT)
