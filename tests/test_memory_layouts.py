"""Layouts are open: images in blocks of channels, volumes, layouts of one's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernel_places
import phix
from kernel_places import Where, array_of
from phix import ops
from phix.core.errors import KernelRegistrationError

pytestmark = pytest.mark.unoptimised
RNG = np.random.default_rng(0)


@pytest.fixture(params=kernel_places.NAMES)
def where(request: pytest.FixtureRequest) -> Iterator[Where]:
    with phix.scoped_registries(), kernel_places.there(request.param) as found:
        if found.name == "npu":
            phix.kernels.unregister_kernel("conv2d", "NPU")
        yield found


def convolved(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """A plain convolution of images of channels first."""
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))
    return np.einsum("ncyxij,ocij->noyx", windows, w)


def blocked(x: np.ndarray) -> np.ndarray:
    n, c, h, w = x.shape
    return x.reshape(n, c // 16, 16, h, w).transpose(0, 1, 3, 4, 2)


def whole(x: np.ndarray) -> np.ndarray:
    n, c, h, w, b = x.shape
    return x.transpose(0, 1, 4, 2, 3).reshape(n, c * b, h, w)


def test_images_in_blocks_of_channels(where: Where) -> None:
    seen: list[Any] = []

    def conv2d(ctx: Any, x: Any, w: Any, *rest: Any) -> None:
        seen.append((tuple(x.shape), rest[-2]))
        array_of(rest[-1])[...] = blocked(convolved(whole(array_of(x)), array_of(w)))

    register = phix.kernels.register_kernel
    register("conv2d", where.backend, layout="NCHW16c", dtypes="float32")(conv2d)
    x, w = RNG.standard_normal((2, 32, 5, 4)).astype("f"), RNG.standard_normal((16, 32, 2, 2))
    v = RNG.standard_normal((16, 16, 2, 2)).astype("f")
    w = w.astype("f")
    wanted = np.maximum(convolved(np.maximum(convolved(x, w), 0), v), 0)

    def network(x: Any, data_format: str = "NCHW") -> Any:
        inner = ops.relu(ops.conv2d(x, where.tensor(w), data_format=data_format))
        return ops.relu(ops.conv2d(inner, where.tensor(v), data_format=data_format))

    sizes = phix.spec(["n", 32, "h", "w"])
    for make in (lambda f: f, phix.jit, lambda f: phix.jit(f, input_spec=[sizes])):
        np.testing.assert_allclose(make(network)(where.tensor(x)), wanted, rtol=1e-4, atol=1e-4)
    last = where.tensor(np.ascontiguousarray(np.moveaxis(x, 1, 3)))
    found = phix.jit(lambda x: network(x, "NHWC"))(last)
    np.testing.assert_allclose(found, np.moveaxis(wanted, 1, 3), rtol=1e-4, atol=1e-4)
    assert set(seen) == {((2, 2, 5, 4, 16), "NCHW16c"), ((2, 1, 4, 3, 16), "NCHW16c")}


def test_sizes_that_are_no_whole_blocks_go_to_another_kernel(where: Where) -> None:
    def conv2d(ctx: Any, *args: Any) -> None:
        raise AssertionError("was called")

    register = phix.kernels.register_kernel
    register("conv2d", where.backend, layout="NCHW16c", dtypes="float32")(conv2d)
    x, w = RNG.standard_normal((1, 3, 5, 4)).astype("f"), RNG.standard_normal((16, 3, 2, 2))
    wanted = convolved(x, w)
    for make in (lambda f: f, phix.jit):
        found = make(lambda x, w: ops.conv2d(x, w))(where.tensor(x), where.tensor(w.astype("f")))
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


TABLE = """
- op: half_volume
  args: (Tensor x, str data_format = "NCDHW")
  output: Tensor(out)
  infer_meta: {func: HalfVolumeInferMeta}
  traits: [layout(x, out)]
"""


@pytest.mark.parametrize("own", ["NDHWC", "NCDHW", "CNDHW"])
def test_volumes_and_layouts_of_one_s_own(where: Where, tmp_path: Path, own: str) -> None:
    """An op that leaves out every other plane, with a kernel for one layout."""
    seen: list[Any] = []

    def infer(x: Any, data_format: str) -> Any:
        axis = data_format.index("D")
        return x.with_dims([(d + 1) // 2 if i == axis else d for i, d in enumerate(x.dims)])

    def half(ctx: Any, x: Any, data_format: str, out: Any) -> None:
        seen.append((data_format, tuple(x.shape)))
        index = [slice(None)] * 5
        index[data_format.index("D")] = slice(None, None, 2)
        array_of(out)[...] = array_of(x)[tuple(index)]

    phix.core.rules.infer_meta("HalfVolumeInferMeta")(infer)
    (tmp_path / "ops.yaml").write_text(TABLE)
    half_volume = phix.load_ops(tmp_path / "ops.yaml").half_volume
    if own == "CNDHW":
        phix.kernels.add_layout(own)
    phix.kernels.register_kernel("half_volume", where.backend, own, "float32")(half)
    x = RNG.standard_normal((2, 3, 5, 4, 6)).astype("f")
    for make in (lambda f: f, phix.jit, lambda f: phix.jit(lambda x: f(x) * 1.0)):
        np.testing.assert_array_equal(make(half_volume)(where.tensor(x)), x[:, :, ::2])
        last = np.ascontiguousarray(np.moveaxis(x, 1, 4))
        found = make(lambda x: half_volume(x, "NDHWC"))(where.tensor(last))
        np.testing.assert_array_equal(found, last[:, ::2])
    sizes = dict(zip("NCDHW", x.shape))
    assert set(seen) == {(own, tuple(sizes[a] for a in own))}


def test_names_of_layouts() -> None:
    for name in ("NCHW", "NN", "nchw", "NCHW16d", "NCHW0c", "N"):
        with pytest.raises(KernelRegistrationError, match="write a letter an axis, as in 'CHWN'"):
            phix.kernels.add_layout(name)
    with phix.scoped_registries():
        phix.kernels.add_layout("NCHW8c")
        phix.kernels.register_kernel("conv2d", "NUMPY", "NCHW8c")(lambda *args: None)
    with pytest.raises(KernelRegistrationError, match="layout is one of any, NCHW, NHWC, NCDHW"):
        phix.kernels.register_kernel("conv2d", "NUMPY", "NCHW8c")(lambda *args: None)
