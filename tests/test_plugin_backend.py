"""A device from a plug-in: places, copies, and the op table on the example in examples/."""

from __future__ import annotations

import dataclasses
import gc
import importlib.metadata
import logging
import pickle
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import phix_npu
import pytest

import phix
import proofs
from harness.cases import kind_of, table_cases
from harness.checks import CHECKS
from phix.core import places
from phix.core.errors import (
    DeviceError,
    DonatedTensorError,
    KernelNotFoundError,
    KernelRegistrationError,
)
from phix.kernels import KernelKey, plugins

pytestmark = pytest.mark.unoptimised

CASES = {case.op.name: case for case in table_cases() if "elsewhere" not in case.test}
# Beside its values, each op takes one of these.
SUBSET = ("jit", "backward", "vmap")


@pytest.fixture(autouse=True)
def npu() -> Iterator[None]:
    """The device, taken away again unless the whole run is on it."""
    with phix.scoped_registries():
        phix_npu.ensure_registered()
        yield
        gc.collect()


def on(*values: Any) -> Any:
    return phix.to_tensor(*values, place="npu")


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", proofs.thinned(CASES, lambda name: kind_of(CASES[name])))
def test_op_table(name: str, seed: int) -> None:
    """Values, and compiled values, gradients or batches, of every op, with primitives alone."""
    case = dataclasses.replace(CASES[name], seed=seed)
    with phix.device("npu"):
        for check in ("forward", SUBSET[zlib.crc32(name.encode()) % 3]):
            if check not in case.skip:
                CHECKS[check](case)


def test_donated_tensors_end_on_a_device_as_on_the_host():
    x = on([1.0, -2.0])
    y = phix.jit(lambda v: v * 2.0, donate_argnums=0)(x)
    z = phix.ops.relu_(y)
    assert z.tolist() == [2.0, 0.0] and z.place.kind == "npu"
    for dead in (x, y):
        assert dead.shape == (2,)
        with pytest.raises(DonatedTensorError, match="after it was donated"):
            dead.tolist()


# -- places ----------------------------------------------------------------------------------
def test_memory_is_not_readable_by_the_host():
    x = on([1.0, 2.0])
    with pytest.raises(TypeError, match="cannot read the memory"):
        np.asarray(x.data)
    assert np.asarray(x).tolist() == x.tolist() == [1.0, 2.0]


def test_results_follow_their_inputs():
    x = on([[1.0, 2.0], [3.0, 4.0]])
    assert str(x.place) == "npu:0"
    results = (
        x + 1.0, 2.0 * x, x @ x, x[0], phix.ops.softmax(x), x.astype("float64"),
        x + np.ones((2, 2), "f"), x[np.array([1, 0])], x.at[0].set(5.0),
    )  # fmt: skip
    assert {str(r.place) for r in results} == {"npu:0"}
    host = x.to("cpu")
    assert str(host.place) == "cpu" and host.to("cpu") is not None
    np.testing.assert_array_equal((x @ x).numpy(), host.numpy() @ host.numpy())


def test_transformations_stay_in_place():
    x = on([[1.0, 2.0], [3.0, 4.0]])

    def loss(w):
        return (phix.ops.log_softmax(w) * phix.arange(2.0)).sum()

    wanted = phix.grad(loss)(x.to("cpu"))
    for f in (phix.grad(loss), phix.jit(phix.grad(loss)), phix.grad(phix.jit(loss))):
        assert str(f(x).place) == "npu:0"
        np.testing.assert_allclose(f(x), wanted, rtol=1e-6)
    rows = phix.vmap(lambda r: r * r.sum())(x)
    np.testing.assert_allclose(rows, [[3.0, 6.0], [21.0, 28.0]])
    _, tangent = phix.jvp(loss, (x,), (phix.ones_like(x),))
    assert tangent.item() == pytest.approx(wanted.numpy().sum(), abs=1e-6)


def test_constants_of_decompositions_are_where_the_values_are():
    """Elsewhere than new data, in the backward pass and under vmap too."""
    x = on(np.arange(1.0, 13.0).reshape(3, 4)).to("float64")
    fill = dict(starts=[1], ends=[3], steps=[1], axes=[0], decrease_axes=[], none_axes=[],
                shape=[1], values=[1.5])  # fmt: skip
    for fn in (
        lambda v: phix.ops.set_value(v, **fill),
        lambda v: v * phix.ops.shape(v)[0],
    ):
        gradient = phix.grad(lambda v, fn=fn: phix.ops.sum(fn(v)))
        for call in (fn, gradient, phix.vmap(fn)):
            found = call(x)
            assert str(found.place) == "npu:0"
            np.testing.assert_allclose(found.numpy(), call(x.to("cpu")).numpy(), rtol=1e-12)

    drawn = phix.grad(lambda v: phix.ops.sum(phix.random.gamma(phix.random.key(0), v)))
    with phix.device("npu"):
        found = drawn(x)
    np.testing.assert_allclose(found.numpy(), drawn(x.to("cpu")).numpy(), rtol=1e-6)


def test_control_flow_runs_by_the_kernels_of_other_ops():
    x = on([1.0, 2.0])
    doubled = phix.jit(lambda n, v: phix.fori_loop(0, n, lambda i, c: c * 2.0, v))
    assert doubled(3, x).tolist() == [8.0, 16.0]
    final, sums = phix.scan(lambda c, r: (c + r, c * r), on(0.0), x)
    assert (final.item(), sums.tolist()) == (3.0, [0.0, 2.0])
    chosen = phix.cond(x.sum() > 2.0, lambda v: v + 1.0, lambda v: v - 1.0, x)
    assert chosen.tolist() == [2.0, 3.0]
    slope = phix.grad(lambda v: phix.scan(lambda c, r: (c * r, c), on(1.0), v)[0])(x)
    assert slope.tolist() == [2.0, 1.0]


def test_constants_in_a_graph_s_text_are_new_data() -> None:
    graph = phix.make_graph(lambda x: x + np.array([1.0, 2.0]))(phix.spec([2], "float64"))
    with phix.device("npu:0") as here:
        again = phix.parse_graph(str(graph))
        (found,) = again(phix.to_tensor(np.array([3.0, 4.0])))
    assert found.place == here
    assert found.tolist() == [4.0, 6.0]


def test_device_context():
    with phix.device("npu") as here:
        made = [
            phix.zeros([2]), phix.to_tensor([1.0]), phix.ops.sqrt(2.0),
            phix.jit(phix.ops.sqrt)(2.0), phix.jit(lambda: phix.arange(3))(),
            phix.random.normal(phix.random.key(0), [2]),
        ]  # fmt: skip
        assert {x.place for x in made} == {here}
        assert str(phix.to_tensor(1.0, place="cpu").place) == "cpu"
    assert str(phix.zeros([2]).place) == str(phix.jit(lambda: phix.arange(3))().place) == "cpu"


def test_copies_have_derivatives():
    def through(x):
        return (x.to("npu") ** 2).to("cpu").sum()

    slope = phix.grad(through)(phix.to_tensor([1.0, 3.0]))
    assert str(slope.place) == "cpu" and slope.tolist() == [2.0, 6.0]


def test_mixed_places_are_named():
    x, y = on([1.0]), phix.to_tensor([1.0])
    with pytest.raises(DeviceError, match=r"add: .* x on npu:0, y on cpu.*\.to\('npu:0'\)"):
        x + y
    with pytest.raises(DeviceError, match=r"x\[0\] on cpu, x\[1\] on npu:0"):
        phix.ops.concat([y, x])
    with pytest.raises(DeviceError, match=r"x is argument 0 \(a\) on cpu, y is argument 1 \(b\)"):
        phix.jit(lambda a, b: a * b)(y, x)
    with pytest.raises(DeviceError, match="closed over on npu:0"):
        phix.jit(lambda a: a * x)(y)


def test_unknown_places():
    with pytest.raises(DeviceError, match="no place 'tpu'; the places of this installation: cpu"):
        phix.zeros([1]).to("tpu")
    with pytest.raises(DeviceError, match="there are 1 of kind npu"):
        phix.zeros([1]).to("npu:1")
    with pytest.raises(DeviceError, match="write a kind and a number"):
        phix.to_tensor(1.0, place="npu:first")


def test_no_driver(monkeypatch):
    device = places.device_of("npu")
    monkeypatch.setattr(device, "count", lambda: 0)
    monkeypatch.setattr(device, "problem", lambda: "the card is not plugged in")
    places._found.clear()
    with pytest.raises(DeviceError, match="no place 'npu': the card is not plugged in"):
        phix.zeros([1]).to("npu")


def test_pickles_keep_their_place():
    x = pickle.loads(pickle.dumps(on([1.0, 2.0])))
    assert str(x.place) == "npu:0" and x.tolist() == [1.0, 2.0]


# -- memory ----------------------------------------------------------------------------------
def test_pool_is_emptied_before_memory_runs_out(monkeypatch):
    gc.collect()
    card = phix_npu.CARD
    card.pooled = 0
    monkeypatch.setattr(card, "capacity", card.used + 10_000)
    for _ in range(5):  # what is freed goes to the pool, until there is no room
        x = on(np.ones(1000, "f"))
        del x
    with pytest.raises(DeviceError, match=r"out of memory on npu:0: asked for 40000 bytes"):
        on(np.ones(10_000, "f"))


def test_graphs_let_memory_go_after_its_last_use(monkeypatch):
    f = phix.jit(lambda v: phix.ops.exp(phix.ops.tanh(phix.ops.sin(phix.ops.cos(v)))))
    x = on(np.ones(1000, "f"))
    f(x)
    gc.collect()
    card, peak, allocate = phix_npu.CARD, [0], phix_npu.CARD.allocate

    def watched(*args):
        made = allocate(*args)
        peak[0] = max(peak[0], card.used)
        return made

    before = card.used
    monkeypatch.setattr(card, "allocate", watched)
    out = f(x)
    assert peak[0] - before <= 2 * 4000 and card.used - before == 4000
    del out


# -- kernels ---------------------------------------------------------------------------------
def test_nothing_is_owed():
    assert not phix.kernels.missing("NPU")


def test_fallback_to_the_cpu_is_logged_once(caplog):
    key = KernelKey("NPU", "any", np.dtype("float32"))
    assert phix.kernels.find("tanh", key).key.backend == "NPU"
    phix.kernels.unregister_kernel("tanh", "NPU")
    phix.kernels.register_kernel(
        "tanh", "NPU", dtypes=["float16", "bfloat16", "float64", "complex"]
    )(phix_npu.KERNELS["tanh"])
    with caplog.at_level(logging.WARNING, "phix.kernels"):
        for _ in range(2):
            assert phix.kernels.find("tanh", key).key.backend == "CPU"
    assert [r.getMessage() for r in caplog.records] == [
        "tanh has no kernel for (NPU, any, float32); (CPU, any, float32) runs it; its inputs are "
        "copied from npu to cpu, its results back"
    ]
    assert phix.kernels.missing("NPU") == {"tanh": (np.dtype("float32"),)}
    x = on([0.0, 1.0])
    found = phix.jit(lambda v: phix.ops.tanh(v * 2.0) + 1.0)(x)
    assert str(found.place) == "npu:0"
    np.testing.assert_allclose(found, np.tanh([0.0, 2.0]) + 1.0, rtol=1e-6)


def test_errors_of_registration():
    with pytest.raises(
        KernelRegistrationError, match=r"'add' has a kernel for \(NPU, any, float32"
    ):
        phix.kernels.register_kernel("add", "NPU", dtypes="float32")(lambda ctx, *args: None)
    with pytest.raises(KernelRegistrationError, match="no backend 'TPU'; there are CPU"):
        phix.kernels.register_kernel("add", "TPU")(lambda ctx, *args: None)
    with pytest.raises(KernelRegistrationError, match="layout is one of any, NCHW, NHWC"):
        phix.kernels.register_kernel("add", "NPU", "NWHC")(lambda ctx, *args: None)
    with pytest.raises(KernelRegistrationError, match="'NPU' is registered already"):
        phix_npu.register()
    with pytest.raises(KernelNotFoundError, match="'softmax' is a composite"):
        phix.kernels.find("softmax", KernelKey("NPU", "any", np.dtype("float32")))


def test_kernels_of_engines_and_libraries_are_listed():
    keys = {str(k) for k in phix.kernels.keys("matmul")}
    assert {"CPU, any, float32", "BLAS, any, float32", "NPU, any, float32"} <= keys
    assert "BLAS, any, int32" not in keys
    assert phix.kernels.find("matmul", KernelKey("BLAS", "any", phix.int32)).key.backend == "CPU"


# -- installed packages -------------------------------------------------------------------------
def test_a_plugin_that_fails_is_reported_and_the_rest_works(monkeypatch):
    entries = [
        importlib.metadata.EntryPoint("broken", "phix_broken:register", plugins.GROUP),
        importlib.metadata.EntryPoint("npu", "phix_npu:ensure_registered", plugins.GROUP),
    ]
    phix.kernels.unregister_backend("npu")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: entries)
    monkeypatch.setattr(plugins, "_loaded", [])
    monkeypatch.setattr(places, "FAILURES", {})
    with pytest.warns(plugins.BackendWarning, match="'broken' of phix_broken:register failed"):
        assert phix.zeros([2]).to("npu").tolist() == [0.0, 0.0]
    with pytest.raises(DeviceError, match=r"broken .*failed to load: ModuleNotFoundError"):
        phix.zeros([1]).to("tpu")
