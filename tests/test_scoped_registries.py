"""What is registered inside ``phix.scoped_registries()`` is gone after it; what was is there."""

from __future__ import annotations

import gc
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import phix_npu
import pytest

import phix
from phix import ops
from phix.core import disk_cache, engines, kernel_registry, patterns, places, rewrites, rules
from phix.core.fingerprint import fingerprint

pytestmark = pytest.mark.unoptimised

X = np.array([0.5, -1.0, 2.0], "f")
TABLE = """
- op: scoped_twice
  args: (Tensor x)
  output: Tensor(out)
  infer_meta: {func: ScopedInferMeta}
  inplace: (x -> out)
"""


def state() -> Any:
    """All that registries hold, as things to compare."""
    rules.check_table()  # all is imported
    phix_ops = sys.modules["phix.ops"]
    return (
        {n: [getattr(op, field.name) for field in fields(op)] for n, op in rules.OPS.items()},
        dict(rules.INFER_META), {k: dict(v) for k, v in rules._RULES.items()},
        set(rules.BUILT_IN), set(rules.EXTENDED), dict(rules._SIMPLIFICATIONS),
        dict(rewrites.known()), dict(patterns.known()), dict(kernel_registry.BACKENDS),
        {name: dict(k) for name, k in kernel_registry.KERNELS.items() if k},
        places.kinds(), engines.engine_kinds(), list(phix_ops.__all__),
        sorted(vars(phix_ops)), sorted(dir(phix.Tensor)),
    )  # fmt: skip


def register_all(folder: Path) -> None:
    """One of everything that can be registered."""
    (folder / "ops.yaml").write_text(TABLE)
    rules.infer_meta("ScopedInferMeta")(lambda x: x)
    phix.load_ops(folder / "ops.yaml")
    rules.decompose("scoped_twice")(lambda x: x + x)
    rules.jvp("floor")(lambda primals, tangents: (ops.floor(*primals), None))
    rules.simplify("scoped_rewrite", "nothing at all", "tanh")(lambda name, *args: None)

    @patterns.pattern("scoped_pattern", "an exponential of a logarithm", gives="exp")
    def pattern(x: Any) -> Any:
        return patterns.call.exp(patterns.call.log(x))

    kernel_registry.add_backend(kernel_registry.Backend("MINE", "cpu", "mine", "CPU"))
    phix.kernels.register_kernel("tanh", "MINE")(lambda ctx, x, out: np.copyto(out, 7.0))
    phix.kernels.register_kernel("sinh", "CPU")(lambda ctx, x, out: np.copyto(out, 7.0))
    phix_npu.ensure_registered()


def test_all_of_it_is_taken_back(tmp_path: Path) -> None:
    ops.tanh(X), phix.jit(ops.tanh)(X)
    before = state()
    for _ in range(2):
        with phix.scoped_registries():
            register_all(tmp_path)
            x = phix.to_tensor(X)
            assert ops.scoped_twice(x).tolist() == x.scoped_twice().tolist() == (2 * X).tolist()
            assert phix.jit(lambda x: ops.tanh(x) + ops.sinh(x))(x).tolist() == [14.0] * 3
            with phix.device("npu"):
                assert phix.jit(ops.scoped_twice)(x.to("npu")).tolist() == (2 * X).tolist()
            gc.collect()
        assert state() == before
        np.testing.assert_allclose(ops.tanh(X), np.tanh(X), rtol=1e-6)
        np.testing.assert_allclose(phix.jit(lambda x: ops.sinh(x) * 1.0)(X), np.sinh(X), rtol=1e-6)
        with pytest.raises(AttributeError):
            ops.scoped_twice


def test_also_where_the_block_fails(tmp_path: Path) -> None:
    before = state()
    with pytest.raises(ZeroDivisionError), phix.scoped_registries():
        register_all(tmp_path)
        raise ZeroDivisionError
    assert state() == before


def test_scopes_stand_inside_each_other(tmp_path: Path) -> None:
    def tanh(value: float) -> None:
        phix.kernels.register_kernel("tanh", "CPU")(lambda ctx, x, out: np.copyto(out, value))

    with phix.scoped_registries():
        tanh(1.0)
        with phix.scoped_registries():
            phix.kernels.unregister_kernel("tanh", "CPU")
            tanh(2.0)
            assert ops.tanh(X).tolist() == [2.0] * 3
        assert ops.tanh(X).tolist() == [1.0] * 3


def test_what_the_block_removes_is_there_again() -> None:
    phix_npu.ensure_registered()
    kept = phix.to_tensor(X, place="npu")
    with phix.scoped_registries():
        phix.kernels.unregister_backend("npu")
        with pytest.raises(phix.errors.DeviceError):
            ops.tanh(kept)
    np.testing.assert_allclose(ops.tanh(kept), np.tanh(X), rtol=1e-6)
    del kept
    gc.collect()
    phix.kernels.unregister_backend("npu")


def test_the_disk_cache_is_used_again(tmp_path: Path) -> None:
    """A rule of a user's for an op of the table ends the keeping of programs, while it is there."""
    graph = phix.make_graph(lambda x: ops.tanh(x) * 3.5)(phix.spec([3]))
    before = fingerprint(graph)
    assert before is not None and disk_cache.directory()
    with phix.scoped_registries():
        register_all(tmp_path)
        assert fingerprint(graph) is None
    assert fingerprint(graph) == before


def test_engines_first_used_inside_stay() -> None:
    """In a new process: the kernels that an engine brings when it is loaded are not lost."""
    import subprocess

    code = (
        "import phix, numpy as np\n"
        "with phix.scoped_registries():\n"
        "    assert phix.kernels.find('matmul', phix.kernels.KernelKey('BLAS', 'any', "
        "phix.float32)).key.backend == 'BLAS'\n"
        "assert phix.kernels.find('matmul', phix.kernels.KernelKey('BLAS', 'any', "
        "phix.float32)).key.backend == 'BLAS'\n"
        "assert (phix.ones([2, 2]) @ phix.ones([2, 2])).tolist() == [[2, 2], [2, 2]]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
