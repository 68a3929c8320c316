"""Libraries that others add to a place, and the choice among them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernel_places
import phix
from kernel_places import Where, array_of
from phix import ops
from phix.__main__ import ops as listing
from phix.core import disk_cache
from phix.core.errors import ArgumentError, KernelRegistrationError

pytestmark = pytest.mark.unoptimised
X = np.array([0.5, -1.0, 2.0], "f")


@pytest.fixture(params=kernel_places.NAMES)
def where(request: pytest.FixtureRequest) -> Iterator[Where]:
    with phix.scoped_registries(), kernel_places.there(request.param) as found:
        yield found


def add(place: str, library: str, value: float, op: str = "tanh", **how: Any) -> str:
    """A library whose kernel of an op gives that value everywhere."""
    backend = phix.kernels.add_library(place, library, **how).name

    def kernel(ctx: Any, x: Any, out: Any) -> None:
        array_of(out)[...] = value

    phix.kernels.register_kernel(op, backend, dtypes="float32")(kernel)
    return backend


RUNS = {
    "eager": lambda f: f,
    "jit": lambda f: phix.jit(lambda x: f(x) * 1.0),
    "unknown dims": lambda f: phix.jit(f, input_spec=[phix.spec(["n"])]),
    "vmap": phix.vmap,
    "loop": lambda f: phix.jit(lambda x: phix.fori_loop(0, 2, lambda k, c: f(c), x)),
}


@pytest.mark.parametrize("how", RUNS)
def test_an_added_library_is_chosen_and_pins_choose(where: Where, how: str) -> None:
    names = [add(where.name, "first", 1.0, before=None), add(where.name, "second", 2.0)]
    assert names[0] == ("FIRST" if where.name == "cpu" else f"{where.backend}FIRST")
    own = where.name if where.name == "npu" else "phix"
    run, x = RUNS[how](ops.tanh), where.tensor(X)
    wanted = np.tanh(np.tanh(X)) if how == "loop" else np.tanh(X)
    pins = {"second": 2.0, "first": 1.0, own: wanted}
    np.testing.assert_allclose(run(x), np.full(3, 2.0))
    for _ in range(3):  # by keys: the second time around nothing is chosen any more
        for library, value in pins.items():
            with phix.library(library):
                found = run(x)
            np.testing.assert_allclose(found, np.broadcast_to(value, 3), rtol=1e-5)
            assert found.place.kind == where.name
        np.testing.assert_allclose(run(x), np.full(3, 2.0))


def test_the_library_of_one_function(where: Where) -> None:
    add(where.name, "first", 1.0)
    add(where.name, "second", 2.0)
    x = where.tensor(X)
    f = phix.jit(ops.tanh, library="first")
    for _ in range(4):
        assert f(x).tolist() == [1.0] * 3
        assert phix.jit(ops.tanh)(x).tolist() == [2.0] * 3
        with phix.library("second"):  # its own comes before the block's
            assert f(x).tolist() == [1.0] * 3
    assert "FIRST" in f.lower(x).as_text("choose kernels")
    donating = phix.jit(ops.tanh, donate_argnums=0)
    for library, value in (("first", 1.0), ("second", 2.0), ("first", 1.0)):
        with phix.library(library):
            assert donating(where.tensor(X) + 0.0).tolist() == [value] * 3


def test_gradients_take_the_library_too(where: Where) -> None:
    add(where.name, "first", 0.0, "exp")
    with phix.library("first"):
        for make in (lambda f: f, phix.jit):
            assert make(phix.grad(lambda x: ops.exp(x).sum()))(where.tensor(X)).tolist() == [0] * 3
    slope = phix.grad(lambda x: ops.exp(x).sum())
    with phix.library("npu" if where.name == "npu" else "phix"):
        np.testing.assert_allclose(slope(where.tensor(X)), np.exp(X), rtol=1e-5)


def test_what_a_library_lacks_runs_as_ever_and_is_logged(
    where: Where, caplog: pytest.LogCaptureFixture
) -> None:
    add(where.name, "first", 1.0)
    x = where.tensor(X)
    with caplog.at_level(logging.WARNING, "phix.kernels"), phix.library("first"):
        for _ in range(2):
            np.testing.assert_allclose(ops.cosh(x), np.cosh(X), rtol=1e-6)
        np.testing.assert_allclose(phix.jit(lambda x: ops.cosh(x) + ops.tanh(x))(x), np.cosh(X) + 1)
    said = [r.getMessage() for r in caplog.records if "no kernel of cosh" in r.getMessage()]
    own = where.backend
    assert said == [
        f"library first has no kernel of cosh for ({where.name}, any, float32); "
        f"({own}, any, float32) runs it"
    ]


def test_a_wider_dtype_of_a_pinned_library_comes_before_others(where: Where) -> None:
    add(where.name, "first", 1.0)
    half = where.tensor(X.astype("float16"))
    np.testing.assert_allclose(ops.tanh(half), np.tanh(X), rtol=1e-2)
    with phix.library("first"):
        found = phix.jit(ops.tanh)(half)
        assert found.dtype == np.float16 and found.tolist() == [1.0] * 3


def test_a_composite_that_a_library_has_whole(where: Where) -> None:
    add(where.name, "first", 1.0, "silu")
    x, wanted = where.tensor(X), X / (1 + np.exp(-X))
    for make in (lambda f: f, phix.jit):
        assert make(ops.silu)(x).tolist() == [1.0] * 3
        with phix.library("npu" if where.name == "npu" else "phix"):
            np.testing.assert_allclose(make(ops.silu)(x), wanted, rtol=1e-5)


@phix.device("cpu")
def test_the_order_of_libraries() -> None:
    with phix.scoped_registries():
        add("cpu", "low", 1.0, before="phix")
        add("cpu", "high", 2.0, before="low")
        assert ops.tanh(X).tolist() == [2.0] * 3
        assert (
            "runs on cpu: CPU for float16, bfloat16, float64, complex64, complex128; HIGH for"
            in "\n".join(listing("tanh", None))
        )
        phix.kernels.unregister_kernel("tanh", "HIGH")
        assert ops.tanh(X).tolist() == [1.0] * 3


def test_reasons_are_logged_and_listed(caplog: pytest.LogCaptureFixture) -> None:
    with phix.scoped_registries(), caplog.at_level(logging.INFO, "phix.kernels"):
        add("cpu", "low", 1.0, before="phix")
        add("cpu", "high", 2.0, before="low")
        ops.tanh(X)
        phix.kernels.register_kernel("while_loop", "LOW")(lambda ctx, *args: None)
        tanh, loop = "\n".join(listing("tanh", None)), "\n".join(listing("while_loop", None))
    before = "(LOW, any, float32), HIGH comes before it; with phix.library('low') it runs"
    assert f"not chosen: {before}" in tanh
    assert "complex128; HIGH for float32" in tanh
    assert "(LOW, any, bool), the engine of cpu runs the op itself" in loop
    said = caplog.text
    assert "(LOW, any, float32) is not chosen: (HIGH, any, float32) comes before it" in said


def test_states_are_listed() -> None:
    def states(kernel: Any) -> None:
        kernel.input("index").place = "cpu"
        kernel.input("index").dtype = "int64"

    with phix.scoped_registries():
        register = phix.kernels.register_kernel("gather", "NUMPY", dtypes="float32", states=states)
        register(lambda ctx, x, index, axis, out: None)
        text = "\n".join(listing("gather", None))
    assert "asks of (NUMPY, any, float32): index cpu, int64" in text


def test_threads_have_pins_of_their_own() -> None:
    with phix.scoped_registries():
        add("cpu", "first", 1.0)
        f, found = phix.jit(ops.tanh), []
        with phix.library("phix"):
            thread = threading.Thread(target=lambda: found.append([f(X), ops.tanh(X)]))
            thread.start()
            thread.join()
            np.testing.assert_allclose(f(X), np.tanh(X), rtol=1e-6)
        assert [x.tolist() for x in found[0]] == [[1.0] * 3] * 2


@phix.device("cpu")
def test_a_pin_is_part_of_the_key_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHIX_CACHE_DIR", str(tmp_path))  # other tests write into theirs meanwhile

    def entries() -> int:
        return phix.cache_info().entries

    assert disk_cache.directory()
    phix.jit(lambda x: ops.tanh(x) * 5.25)(X)
    before = entries()
    with phix.library("phix"):
        phix.jit(lambda x: ops.tanh(x) * 5.25)(X)
        pinned = entries()
        phix.jit(lambda x: ops.tanh(x) * 5.25)(X)
    assert pinned > before and entries() == pinned


def test_wrong_names() -> None:
    with pytest.raises(ArgumentError, match=r"phix.library: no library 'nope'; there are phix, bl"):
        phix.library("nope").__enter__()
    with pytest.raises(ArgumentError, match="jit: no library 'nope'"):
        phix.jit(ops.tanh, library="nope")
    with pytest.raises(ArgumentError, match="stands in a function that is being traced"):

        def inside(x: Any) -> Any:
            with phix.library("phix"):
                return ops.tanh(x)

        phix.jit(inside)(X)
    assert inside(phix.to_tensor(X)).shape == phix.grad(lambda x: inside(x).sum())(X).shape
    for place, library, how, text in (
        ("cpu", "numpy", {}, "'cpu' has it already"),
        ("tpu", "mine", {}, "the places are cpu, gpu"),
        ("cpu", "my lib", {}, "write a name such as 'mylib'"),
        ("cpu", "mine", {"before": "cudnn"}, "cpu has no library 'cudnn'; there are phix, blas"),
    ):
        with pytest.raises(KernelRegistrationError, match=text):
            phix.kernels.add_library(place, library, **how)
