"""Tensors of other kinds: the kernel of an op is found by the kinds of its inputs, in its entry."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phix
from phix.core.errors import (
    ArgumentError,
    KernelError,
    KernelNotFoundError,
    KernelRegistrationError,
)

pytestmark = pytest.mark.unoptimised
TABLE = """
- op: added
  args: (Tensor x, Tensor y, float by = 1.0)
  output: Tensor(out)
  infer_meta: {func: ElementwiseInferMeta, param: [x, y]}
  kernel:
    func: added {dense, dense -> dense}, added_low {low, low -> low}, mixed {low, dense -> dense}
- op: stacked
  args: (Tensor[] parts)
  output: Tensor(out)
  kernel: {func: "stacked {dense -> dense}, stacked_low {low -> dense}"}
"""


class Low:
    """A matrix of low rank: the product of two factors."""

    def __init__(self, u: Any, v: Any) -> None:
        self.u, self.v = u, v


phix.tree.register(Low, lambda m: ((m.u, m.v), None), lambda _, parts: Low(*parts))
RNG = np.random.default_rng(0)
U, V, D = (RNG.standard_normal(s).astype("f") for s in ((4, 2), (2, 3), (4, 3)))


@pytest.fixture
def added(tmp_path: Path) -> Iterator[Any]:
    (tmp_path / "ops.yaml").write_text(TABLE)
    with phix.scoped_registries():
        own = phix.load_ops(tmp_path / "ops.yaml").added
        phix.core.rules.decompose("added")(lambda x, y, by: x + y * by)
        phix.kernels.add_kind("low", Low)

        @phix.kernels.kind_kernel("added_low")
        def added_low(x: Low, y: Low, by: float) -> Low:
            u = phix.ops.concat([x.u, y.u * by], 1)
            return Low(u, phix.ops.concat([x.v, y.v], 0))

        @phix.kernels.kind_kernel("mixed")
        def mixed(x: Low, y: Any, by: float) -> Any:
            return x.u @ x.v + y * by

        yield own


def test_the_kernel_follows_the_kinds(added: Any) -> None:
    low = Low(phix.to_tensor(U), phix.to_tensor(V))
    for make in (lambda f: f, phix.jit):
        found = make(lambda x, y: added(x, y, 2.0))(low, low)
        assert isinstance(found, Low) and found.u.shape == (4, 4)
        np.testing.assert_allclose(found.u @ found.v, 3 * U @ V, rtol=1e-4, atol=1e-5)
        dense = make(added)(low, phix.to_tensor(D))
        np.testing.assert_allclose(dense, U @ V + D, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(make(added)(phix.to_tensor(D), D), 2 * D, rtol=1e-6)


def test_gradients_batches_and_unknown_dims(added: Any) -> None:
    low = Low(phix.to_tensor(U), phix.to_tensor(V))
    slope = phix.jit(phix.grad(lambda m: added(m, D).sum()))(low)
    np.testing.assert_allclose(slope.u, np.broadcast_to(V.sum(1), U.shape), rtol=1e-5)
    several = Low(phix.to_tensor(np.stack([U, 2 * U])), phix.to_tensor(np.stack([V, V])))
    batch = phix.vmap(lambda m: added(m, D))(several)
    np.testing.assert_allclose(batch, [U @ V + D, 2 * U @ V + D], rtol=1e-4, atol=1e-5)
    spec = Low(phix.spec(["n", 2]), phix.spec([2, "m"]))  # type: ignore[arg-type]
    f = phix.jit(added, input_spec=[spec, phix.spec(["n", "m"])])
    np.testing.assert_allclose(f(low, D), U @ V + D, rtol=1e-4, atol=1e-5)


def test_wrong_kinds(added: Any) -> None:
    low = Low(phix.to_tensor(U), phix.to_tensor(V))
    with pytest.raises(
        ArgumentError, match=r"kinds \(dense, low\); its entry has .*mixed \{low, d"
    ):
        added(D, low)
    with pytest.raises(ArgumentError, match=r"relu: no kernel takes .* dense ones alone"):
        phix.ops.relu(low)  # type: ignore[arg-type]
    with pytest.raises(KernelRegistrationError, match="kernel 'mixed' is registered already"):
        phix.kernels.kind_kernel("mixed")(lambda x: x)
    for name, cls in (("low", dict), ("other", Low), ("dense", dict)):
        with pytest.raises(KernelRegistrationError, match=r"there are dense, .*low"):
            phix.kernels.add_kind(name, cls)


def test_lists_are_of_one_kind(added: Any) -> None:
    phix.kernels.kind_kernel("stacked_low")(lambda parts: sum(x.u @ x.v for x in parts))
    low = Low(phix.to_tensor(U), phix.to_tensor(V))
    for run in (phix.ops.stacked, phix.jit(phix.ops.stacked)):  # type: ignore[attr-defined]
        np.testing.assert_allclose(run([low, low]), 2 * U @ V, rtol=1e-5, atol=1e-6)
        with pytest.raises(ArgumentError, match=r"parts has tensors of the kinds \(low, dense\)"):
            run([low, phix.to_tensor(D)])


def test_kernels_that_are_not_there_or_give_another_kind(tmp_path: Path) -> None:
    (tmp_path / "ops.yaml").write_text(TABLE)
    low = Low(phix.to_tensor(U), phix.to_tensor(V))
    with phix.scoped_registries():
        own = phix.load_ops(tmp_path / "ops.yaml").added
        phix.kernels.add_kind("low", Low)
        with pytest.raises(KernelNotFoundError, match=r"@phix.kernels.kind_kernel\('added_low'\)"):
            own(low, low)
        phix.kernels.kind_kernel("added_low")(lambda x, y, by: x.u @ x.v)
        with pytest.raises(KernelError, match=r"of the kinds \(dense\); its entry says \(low\)"):
            own(low, low)
