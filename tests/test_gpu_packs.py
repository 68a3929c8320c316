"""Vector loads of the GPU engine in nests of loops: packs fill whole rows, or there are none."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import phix
from gpu_programs import check, needs_compiler, program
from phix import ops

RNG = np.random.default_rng(0)
pytestmark = [needs_compiler, pytest.mark.xdist_group("gpu packs"), pytest.mark.unoptimised]


def floats(*dims: int, dtype: Any = np.float32) -> np.ndarray:
    return RNG.standard_normal(dims).astype(dtype)


def widths(made: Any) -> set[int]:
    """Of the packs that the kernels use."""
    text = made.sections["cuda"].partition('extern "C"')[2]
    return {int(width) for width in re.findall(r"phix_pack<[a-z ]+, (\d+)>", text)}


@pytest.mark.parametrize(("columns", "width"), [(64, 4), (12, 4), (6, 2), (7, None)])
def test_a_row_beside_rows(columns: int, width: int | None) -> None:
    made = check(lambda x, b: ops.relu(x + b), floats(9, columns), floats(columns))
    assert widths(made) == ({width} if width else set())


@pytest.mark.parametrize("dtype", [np.float64, np.float16, phix.bfloat16, np.int8])
def test_of_every_dtype(dtype: Any) -> None:
    x, b = ((4 * floats(*dims)).astype(dtype) for dims in [(9, 48), (48,)])
    made = check(lambda x, b: x * b + x, x, b, tolerance=3e-2)
    assert widths(made) == {16 // np.dtype(dtype).itemsize}


CASES = {
    "from the second on": (lambda x, b: x[:, 1:] + b[1:], set()),
    "from the fifth on": (lambda x, b: x[:, 4:] + b[4:], {4}),
    "columns beside": (lambda x, b: x * x[:, :1] + b, {4}),
    "every second row": (lambda x, b: x[::2] * b, {4}),
    "backward": (lambda x, b: ops.flip(x, [1]) * b, set()),
    "three axes": (lambda x, b: x.reshape([2, 5, 16]) + x.reshape([2, 5, 16])[:, :1], {4}),
    "rows taken from a table": (lambda x, b: x[ops.cast(b[:6], "int64") % 10] * b, {4}),
    "two columns of each row": (lambda x, b: x[:, 4:6] * b[4:6], {2}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_packs_where_rows_begin_at_packs(name: str) -> None:
    function, wanted = CASES[name]
    made = check(function, floats(10, 16), floats(16))
    assert widths(made) == wanted


def test_arrays_off_sixteen_bytes_and_of_unknown_size() -> None:
    x = np.zeros(10 * 16 + 1, np.float32)[1:].reshape(10, 16)
    x[...] = floats(10, 16)
    assert x.ctypes.data % 16
    check(lambda x, b: ops.tanh(x + b), x, floats(16))
    f = lambda x, b: ops.tanh(x + b)  # noqa: E731
    assert widths(check(f, x, floats(16), specs=[phix.spec(["n", 16]), phix.spec([16])])) == {4}
    assert not widths(check(f, x, floats(16), specs=[phix.spec(["n", "m"]), phix.spec(["m"])]))


@pytest.mark.parametrize("seed", range(12))
def test_shapes_drawn_at_random(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first = int(rng.integers(0, 2))
    full = [int(rng.choice([1, 2, 3, 4, 6, 8, 12, 17, 32])) for _ in range(int(rng.integers(2, 5)))]
    arrays = [
        rng.standard_normal([n if rng.random() < 0.7 else 1 for n in full]).astype(dtype)
        for dtype in rng.choice(["float32", "float64", "float16"], 3)
    ]

    def f(x: Any, y: Any, z: Any) -> Any:
        whole = ops.zeros(full) + x * 0.5
        turned = ops.transpose(whole * y, [*range(len(full) - 2), len(full) - 1, len(full) - 2])
        part = (whole + z)[..., first:]
        return whole * y + z, turned, ops.sum(part * part, [0]), ops.exp(-part * part)

    check(f, *arrays, tolerance=2e-2)
    check(
        phix.grad(lambda *xs: ops.sum(ops.cast(f(*xs)[0], "float32") ** 2)), *arrays, tolerance=5e-2
    )


def test_few_packs_are_left_to_threads() -> None:
    launch = next(iter(program(phix.make_graph(lambda x, b: x + b)(
        phix.spec([64, 64]), phix.spec([64]))).launches.values()))  # fmt: skip
    grid, block = launch.size("thread", {})
    assert grid * block >= 64 * 64 // 4
