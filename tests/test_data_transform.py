"""``data_transform`` of an entry: inputs that kernels take as they are, or in their own dtype."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernel_places
import phix
from kernel_places import Where, array_of
from phix.core.errors import DTypeError, OpTableError

pytestmark = pytest.mark.unoptimised
TABLE = """
- op: rows_by
  args: (Tensor x, Tensor index)
  output: Tensor(out)
  infer_meta: {func: RowsByInferMeta}
  kernel: {func: rows_by, data_type: x}
  data_transform:
    skip_transform: index
- op: steps
  args: (Tensor start, Tensor step, int count, DataType dtype = DataType::FLOAT32)
  output: Tensor(out)
  infer_meta: {func: StepsInferMeta}
  kernel: {func: steps, data_type: dtype}
  data_transform:
    support_trans_dtype: start, step
"""
X, INDEX = np.arange(12, dtype="f").reshape(4, 3), np.array([3, 1], "int32")


@pytest.fixture(params=kernel_places.NAMES)
def where(request: pytest.FixtureRequest) -> Iterator[Where]:
    with phix.scoped_registries(), kernel_places.there(request.param) as found:
        yield found


@pytest.fixture
def own(where: Where, tmp_path: Path) -> Any:
    (tmp_path / "ops.yaml").write_text(TABLE)
    rule = phix.core.rules.infer_meta
    rule("RowsByInferMeta")(lambda x, i: x.with_dims((*i.dims, *x.dims[1:])))
    rule("StepsInferMeta")(lambda start, step, n, dtype: phix.MetaTensor((n,), dtype))
    return phix.load_ops(tmp_path / "ops.yaml")


def test_what_is_skipped_stays_where_it_is(where: Where, own: Any) -> None:
    """Indices on the host beside data on a device, and the other way round; no copy of either."""
    seen: list[Any] = []

    def rows_by(ctx: Any, x: Any, index: Any, out: Any) -> None:
        seen.append(type(index))
        array_of(out)[...] = array_of(x)[array_of(index)]

    phix.kernels.register_kernel("rows_by", where.backend, dtypes="float32")(rows_by)
    x = where.tensor(X)
    for make in (lambda f: f, phix.jit, lambda f: phix.jit(lambda *a: f(*a) * 1.0)):
        for index in (phix.to_tensor(INDEX, place="cpu"), where.tensor(INDEX)):
            seen.clear()
            found = make(own.rows_by)(x, index)
            assert found.place.kind == where.name and set(seen) == {type(index.data)}
            np.testing.assert_array_equal(found, X[INDEX])
    text = phix.jit(own.rows_by).lower(x, phix.to_tensor(INDEX, place="cpu"))
    assert "io_copy" not in text.as_text("choose kernels")


def test_inputs_are_cast_to_the_dtype_of_the_kernel(where: Where, own: Any) -> None:
    seen: list[Any] = []

    def steps(ctx: Any, start: Any, step: Any, count: int, dtype: Any, out: Any) -> None:
        seen.append((str(start.dtype), str(step.dtype), str(dtype)))
        array_of(out)[...] = array_of(start) + array_of(step) * np.arange(count)

    phix.kernels.register_kernel("steps", where.backend, dtypes=["float32", "float64"])(steps)
    start, step = where.tensor(np.array([2], "int32")), where.tensor(np.array([3], "int64"))
    for make in (lambda f: f, phix.jit):
        for dtype in ("float32", "float64"):
            seen.clear()
            found = make(lambda a, b, d=dtype: own.steps(a, b, 4, d))(start, step)
            assert found.tolist() == [2, 5, 8, 11] and found.dtype == dtype
            assert seen == [(dtype, dtype, dtype)]
        with pytest.raises(DTypeError, match=r"steps: step is cast to the float32 of its ke"):
            make(lambda a, b: own.steps(a, b, 4, "float32"))(start, step * 1j)


def test_names_are_checked(tmp_path: Path) -> None:
    file = tmp_path / "ops.yaml"
    for old, new, text in (
        (
            "skip_transform: index",
            "skip_transform: indices",
            r"ops.yaml:7: `data_transform` of 'ro",
        ),
        ("skip_transform: index", "skip_transforms: index", "unknown key 'skip_transforms'"),
        (
            "support_trans_dtype: start",
            "support_trans_dtype: stop",
            "names 'stop', but the entry",
        ),
    ):
        file.write_text(TABLE.replace(old, new))
        with pytest.raises(OpTableError, match=text):
            phix.load_ops(file)


def test_the_older_place_of_the_key(tmp_path: Path) -> None:
    file = tmp_path / "ops.yaml"
    file.write_text(
        "- op: older\n  args: (Tensor x)\n  output: Tensor(out)\n"
        "  infer_meta: {func: UnchangedInferMeta}\n"
        "  kernel: {func: older, data_transform: {skip_transform: [x]}}\n"
    )
    with phix.scoped_registries():
        phix.load_ops(file)
        assert phix.core.rules.OPS["older"].kernel["skip_transform"] == ("x",)


def test_metas_of_other_layouts_are_others() -> None:
    plain, nhwc = phix.MetaTensor((1, 2), "float32"), phix.MetaTensor((1, 2), "float32", "NHWC")
    assert plain != nhwc and len({plain, nhwc, phix.MetaTensor((1, 2), "float32")}) == 2
    assert nhwc == phix.MetaTensor((1, 2), "float32", "NHWC")
