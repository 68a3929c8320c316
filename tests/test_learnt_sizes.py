"""Sizes that nobody names: jit finds out which dims vary, and has one program for all of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core.errors import RetraceError, ShapeError

pytestmark = pytest.mark.unoptimised
RNG = np.random.default_rng(0)


def of(*dims: int) -> np.ndarray:
    return RNG.normal(size=dims)


def agrees(f: Any, function: Callable[..., Any], *args: np.ndarray) -> None:
    wanted = function(*map(phix.to_tensor, args))
    found = f(*args)
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-12, atol=1e-13)
    assert found.shape == wanted.shape


def network(x: Any, w: Any, b: Any) -> Any:
    hidden = ops.relu(ops.matmul(x, w) + b)
    centred = hidden - ops.mean(hidden, axis=0, keepdim=True)
    return ops.sum(ops.softmax(centred, axis=0) * hidden, axis=1)


def test_fifty_batch_sizes_take_three_traces() -> None:
    f, w, b = phix.jit(network), of(6, 5), of(5)
    for n in range(50, 0, -1):
        agrees(f, network, of(n, 6), w, b)
    assert f.trace_count == 3  # 50, all others, 1
    for n in (51, 1000, 17):
        agrees(f, network, of(n, 6), w, b)
    assert f.trace_count == 3


BOUNDS: dict[str, Callable[[Any], slice]] = {
    "last three": lambda n: slice(n - 3, None),
    "all but three": lambda n: slice(n - 3),
    "around the middle": lambda n: slice(n // 2 - 2, n // 2 + 2),
    "backwards": lambda n: slice(n - 3, None, -1),
    "backwards to": lambda n: slice(None, n - 5, -2),
    "from twice": lambda n: slice(6 - n, 2 * n - 4, 2),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_below_0_count_from_the_end(name: str) -> None:
    """As in NumPy, in one program for all sizes."""
    bound = BOUNDS[name]
    put = phix.jit(lambda x: x.at[bound(x.shape[0])].set(0.0))
    takes: dict[str, Any] = {
        "by itself": phix.jit(lambda x: x[bound(x.shape[0])]),
        "in a loop": phix.jit(
            lambda x: phix.fori_loop(0, 1, lambda i, c: c.at[bound(c.shape[0])].set(0.0), x)
        ),
        "lanes": phix.jit(phix.vmap(lambda x: x[bound(x.shape[0])])),
        "declared": phix.jit(
            lambda x: x[bound(x.shape[0])], input_spec=[phix.spec(["n"], "float64")]
        ),
        "size": phix.jit(
            lambda x: x[bound(x.shape[0])].shape[0] * ops.ones([1]),
            input_spec=[phix.spec(["n"], "float64")],
        ),
    }
    for n in (9, 8, 2, 7, 1, 4, 3, 0, 5, 6, 12, 30):
        x = np.arange(1.0, n + 1)
        wanted, changed = x[bound(n)], x.copy()
        changed[bound(n)] = 0.0
        assert takes["by itself"](x).tolist() == wanted.tolist(), n
        assert takes["declared"](x).tolist() == wanted.tolist(), n
        assert takes["size"](x).tolist() == [len(wanted)], n
        assert takes["lanes"](np.stack([x, x])).tolist() == [wanted.tolist()] * 2, n
        assert put(x).tolist() == takes["in a loop"](x).tolist() == changed.tolist(), n
    assert takes["by itself"].trace_count == 4  # 9, those of open size, 1, 0


OF_ANOTHER: dict[str, Callable[[Any], slice]] = {
    "the last": lambda k: slice(-k, None),
    "the last half": lambda k: slice(-(k // 2), None),
    "all but the last": lambda k: slice(None, -k),
    "backwards from": lambda k: slice(-k, None, -1),
    "backwards to": lambda k: slice(None, -k - 1, -2),
    "to before": lambda k: slice(2, 3 - k),
}


@pytest.mark.parametrize("name", OF_ANOTHER)
def test_as_many_from_the_end_as_another_has(name: str) -> None:
    bound = OF_ANOTHER[name]
    declared = [phix.spec(["n"], "float64"), phix.spec(["k"], "float64")]
    take = phix.jit(lambda x, y: x[bound(y.shape[0])], input_spec=declared)
    put = phix.jit(lambda x, y: x.at[bound(y.shape[0])].set(0.0), input_spec=declared)
    slope = phix.jit(phix.grad(lambda x, y: x[bound(y.shape[0])].sum()), input_spec=declared)
    for n, k in [(3, 2), (8, 3), (4, 5), (9, 4), (6, 1), (7, 7), (4, 0), (0, 2), (1, 3)]:
        x, y = np.arange(1.0, n + 1), np.ones(k)
        changed = x.copy()
        changed[bound(k)] = 0.0
        assert take(x, y).tolist() == x[bound(k)].tolist(), (n, k)
        assert put(x, y).tolist() == changed.tolist(), (n, k)
        assert slope(x, y).tolist() == (changed != x).tolist(), (n, k)


def test_an_op_takes_bounds_for_positions() -> None:
    """It is not run for sizes at which one would count from the end."""
    take = phix.jit(
        lambda x: ops.slice(x, [0], [x.shape[0] - 3], [100], [], []),
        input_spec=[phix.spec(["n"], "float64")],
    )
    assert [take(np.arange(float(n))).tolist() for n in (5, 3)] == [
        [2.0, 3.0, 4.0],
        [0.0, 1.0, 2.0],
    ]
    with pytest.raises(ShapeError, match="which counts from the end"):
        take(np.arange(2.0))


def test_sizes_0_and_1_stay_right() -> None:
    def scaled(x: Any, y: Any) -> Any:
        return x * y + ops.sum(x)

    f = phix.jit(scaled)
    for n, m in [(3, 3), (4, 4), (5, 1), (1, 6), (0, 0), (0, 1), (1, 1), (7, 7), (8, 1), (1, 9)]:
        agrees(f, scaled, of(n), of(m))
    count = f.trace_count
    for n, m in [(2, 2), (9, 1), (1, 3)]:
        agrees(f, scaled, of(n), of(m))
    assert f.trace_count == count


def test_dims_stay_equal_only_if_they_always_were() -> None:
    def product(x: Any, y: Any) -> Any:
        return ops.sum(x) * ops.cumsum(y)

    f = phix.jit(product)
    for n, m in [(3, 3), (4, 4), (5, 5)]:
        agrees(f, product, of(n), of(m))
    assert f.trace_count == 2
    for n, m in [(4, 6), (6, 4), (9, 9), (2, 7)]:
        agrees(f, product, of(n), of(m))
    assert f.trace_count == 3


@pytest.mark.parametrize(
    "derive",
    [
        phix.grad,
        lambda f: phix.grad(lambda x: ops.sum(phix.grad(f)(x) ** 2.0)),
        lambda f: lambda x: phix.jvp(f, [x], [x])[1],
        lambda f: lambda x: phix.vmap(phix.grad(f))(ops.stack([x, 2.0 * x])),
        phix.hessian,
    ],
)
def test_derivatives_of_open_sizes(derive: Any) -> None:
    def loss(x: Any) -> Any:
        return ops.sum(ops.tanh(ops.matmul(x, ops.transpose(x, [1, 0]))) ** 2.0) / x.shape[0]

    f = phix.jit(derive(loss))
    for n in (3, 2, 5, 1, 4):
        agrees(f, derive(loss), of(n, 2))
    assert f.trace_count <= 3 or "needs its value" in f.why_retraced()


def read_by_range(x: Any) -> Any:
    return sum((x[i] * float(i) for i in range(x.shape[0])), x[0])


def read_by_comparison(x: Any) -> Any:
    return x * 2.0 if x.shape[0] > 4 else x * 3.0


def read_by_equality(x: Any) -> Any:
    return x * 2.0 if x.shape[0] == 5 else x * 3.0


def read_by_shapes(x: Any) -> Any:
    return x * 2.0 if x.shape == (5, 3) else x * 3.0


def read_by_list(x: Any) -> Any:
    return ops.stack(list(x))


def read_by_text_of_a_number(x: Any) -> Any:
    return x * (2.0 if f"{1 / x.shape[0]}" == "0.2" else 1.0)


def read_by_digits_of_a_number(x: Any) -> Any:
    return x * (2.0 if f"{1 / x.shape[0]:.2f}" == "0.20" else 1.0)


def read_by_table_of_numbers(x: Any) -> Any:
    return x * {1.25: 2.0, 1.5: 4.0}.get(x.shape[0] / 4, 1.0)


def read_by_set_of_numbers(x: Any) -> Any:
    return x * (2.0 if x.shape[0] * 0.5 in {2.5, 3.0} else 1.0)


def read_by_class_of_a_number(x: Any) -> Any:
    return x * (2.0 if isinstance(x.shape[0] ** 0.5 + 1, float) else 1.0)


def read_by_class(x: Any) -> Any:
    return x * (2.0 if isinstance(x.shape[0], int) else 1.0)


def read_by_constants(x: Any) -> Any:
    return x + np.arange(x.shape[0] * 3).reshape(x.shape)


def read_by_table(x: Any) -> Any:
    return x * {5: 2.0, 6: 4.0}.get(x.shape[0], 1.0)


def read_by_set(x: Any) -> Any:
    return x * (2.0 if x.shape in {(5, 3), (6, 3)} else 1.0)


def read_by_text(x: Any) -> Any:
    return x * (2.0 if f"{x.shape[0]}" == "5" else 1.0)


def read_by_shape_text(x: Any) -> Any:
    return x * (2.0 if str(x.shape) == "(5, 3)" else 1.0)


READERS = [
    read_by_table, read_by_set, read_by_text, read_by_shape_text, read_by_class,
    read_by_range, read_by_comparison, read_by_equality, read_by_shapes, read_by_list,
    read_by_constants, read_by_text_of_a_number, read_by_digits_of_a_number,
    read_by_table_of_numbers, read_by_set_of_numbers, read_by_class_of_a_number,
]  # fmt: skip


@pytest.mark.parametrize("function", READERS, ids=lambda f: f.__name__)
def test_functions_that_read_a_size(function: Any) -> None:
    f = phix.jit(function)
    for n in (4, 5, 6, 3, 5, 1):
        agrees(f, function, of(n, 3))
    assert f.trace_count == 5
    assert "A dim that varies has a program for each of its sizes" in f.why_retraced(of(9, 3))


def test_why_retraced_says_what_needs_the_size_and_where() -> None:
    f = phix.jit(read_by_comparison)
    _ = f(of(4, 3)), f(of(5, 3))
    line = read_by_comparison.__code__.co_firstlineno + 1
    assert "a comparison needs its value" in f.why_retraced()
    assert f"{os.path.basename(__file__)}:{line}" in f.why_retraced()


def test_dims_of_two_arguments_are_not_compared_behind_the_users_back() -> None:
    def shape_dependent(x: Any, y: Any) -> Any:
        return ops.sum(x * y) if x.shape == y.shape else ops.sum(x) * ops.sum(y)

    f = phix.jit(shape_dependent)
    for n, m in [(2, 3), (4, 5), (7, 7), (6, 6), (9, 2)]:
        agrees(f, shape_dependent, of(n), of(m))


def test_a_size_that_is_read_leaves_the_others_open() -> None:
    def stepped(x: Any) -> Any:
        for i in range(x.shape[1]):
            x = x + ops.sum(x[:, i])
        return x

    f = phix.jit(stepped)
    for n, m in [(4, 2), (5, 3), (6, 3), (7, 3), (8, 2), (9, 2)]:
        agrees(f, stepped, of(n, m))
    assert f.trace_count == 3  # 4x2, any x3, any x2


def test_each_size_has_its_program_where_it_is_asked_for() -> None:
    f = phix.jit(network, dynamic=False)
    w, b = of(6, 5), of(5)
    for n in (2, 3, 4):
        agrees(f, network, of(n, 6), w, b)
    assert f.trace_count == 3
    assert "Declare the dims that vary unknown" in f.why_retraced()


def test_calls_that_fail_teach_nothing() -> None:
    def added(x: Any, y: Any) -> Any:
        return x + y

    f = phix.jit(added)
    for n in (3, 4):
        agrees(f, added, of(n), of(n))
    for n, m in ((5, 6), (6, 5)):
        with pytest.raises(ShapeError, match=rf"shapes \[{n}\] and \[{m}\] do not broadcast"):
            f(of(n), of(m))
    count = f.trace_count
    agrees(f, added, of(7), of(7))
    assert f.trace_count == count


def test_static_arguments_and_structures_have_patterns_of_their_own() -> None:
    def scaled(tree: Any, power: int) -> Any:
        return ops.sum(tree["x"] ** float(power), axis=0)

    f = phix.jit(scaled, static_argnums=1)
    for power in (1, 2):
        for n in (2, 3, 4, 5):
            x = of(n, 3)
            np.testing.assert_allclose(f({"x": x}, power).numpy(), (x**power).sum(0), rtol=1e-12)
    assert f.trace_count == 4


def test_donated_arguments() -> None:
    f = phix.jit(lambda x, y: x * 2.0 + y, donate_argnums=0)
    for n in (3, 4, 5, 6, 3):
        x, y = of(n), of(n)
        np.testing.assert_allclose(f(phix.to_tensor(x), y).numpy(), x * 2.0 + y, rtol=1e-13)
    assert f.trace_count == 2


def test_inside_transformations_each_size_is_known() -> None:
    f = phix.jit(lambda x: ops.sum(x**3.0))
    for n in (2, 3, 4):
        x = of(n)
        np.testing.assert_allclose(phix.grad(f)(phix.to_tensor(x)).numpy(), 3 * x * x, rtol=1e-12)
    assert f.trace_count == 3


def test_most_traces_hold() -> None:
    f = phix.jit(lambda x: x * 2.0)
    with phix.debug.assert_max_traces(f, 2):
        for n in (2, 3, 4, 5):
            f(of(n))
    with phix.debug.assert_max_traces(f, 0), pytest.raises(RetraceError):
        f(of(1))


SCRIPT = """
import numpy as np, phix

@phix.jit
def f(x, y):
    return (x * y).sum() + x.sum()

def check(sizes):
    for n in sizes:
        x = np.arange(n, dtype=np.float64)
        assert f(x, x + 1.0).item() == (x * (x + 1.0)).sum() + x.sum()
    print(f.trace_count)

check({sizes})
"""


READ_BY_ONE = """
import numpy as np, phix

each = (lambda x: x * float(x.shape[0]), lambda x: x * 2.0)
readers = [phix.jit(lambda x, e=e: e(x)) for e in each]
for f in readers:
    for n in (4, 6, 5, 7):
        f(np.ones(n))
assert readers[0].trace_count == 4 and "a float needs" in readers[0].why_retraced()
assert "a float needs" not in readers[1].why_retraced()
print(readers[1].trace_count)
"""


def in_a_process(folder: Path, sizes: Sequence[int], text: str = SCRIPT) -> int:
    script = folder / "script.py"
    script.write_text(text.replace("{sizes}", repr(sizes)))
    here = str(Path(phix.__file__).parents[1])
    environment = {**os.environ, "PHIX_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": here}
    run = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, check=True
    )
    return int(run.stdout)


def test_what_one_function_reads_others_written_at_its_place_may_not(tmp_path: Path) -> None:
    assert in_a_process(tmp_path, [], READ_BY_ONE) <= 2


def test_other_processes_know_which_dims_vary(tmp_path: Path) -> None:
    assert in_a_process(tmp_path, [5]) == 1
    assert in_a_process(tmp_path, [5, 6]) == 2
    assert in_a_process(tmp_path, [9, 8, 7]) == 1
    (tmp_path / "cache").chmod(0o700)
    for file in (tmp_path / "cache").glob("sizes-*"):
        file.write_bytes(file.read_bytes()[:-3])  # damaged: it counts as missing
    assert in_a_process(tmp_path, [9, 8, 7]) == 2
