"""Whole kernels in Numba: part of native programs, under every transformation."""

from __future__ import annotations

import functools
import math
import subprocess
import sys
import types
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import numba_ops
import phix
from loaded_ops import loading
from numba_ops import running_in_numpy
from phix import ops
from phix.core.errors import (
    ArgumentError,
    DifferentiationError,
    KernelError,
    KernelRegistrationError,
)
from phix.kernels.cpu.native_program import NativeProgram
from phix.kernels.loops import nodes as ir
from phix.kernels.numba.identity import digest
from toy_device import toy

RNG = np.random.default_rng(5)
X = RNG.standard_normal((3, 4))


@pytest.fixture(autouse=True, scope="module")
def kernels() -> Iterator[None]:
    with phix.scoped_registries():
        numba_ops.load()
        numba_ops.register()
        yield


def running(x: Any, **attrs: Any) -> Any:
    return ops.numba_running(x, **attrs)


def test_eager_compiled_and_fused_with_others() -> None:
    np.testing.assert_array_equal(running(X), running_in_numpy(X))
    np.testing.assert_array_equal(running(X[:, ::2], decay=0.5), running_in_numpy(X[:, ::2], 0.5))
    found = phix.jit(lambda x: running(2.0 * x, decay=0.5).sum() + 1.0)(X)
    np.testing.assert_allclose(found, running_in_numpy(2 * X, 0.5).sum() + 1, rtol=1e-14)
    assert running(X.astype("f")).dtype == np.float32
    np.testing.assert_allclose(running(X + 1j * X), running_in_numpy(X + 1j * X), rtol=1e-14)


def test_other_functions_of_numba_and_globals_count() -> None:
    found = running(X[0], start="outside").numpy()
    np.testing.assert_allclose(found, numba_ops.OUTSIDE + running_in_numpy(X[0]) - X[0, 0])


def test_optional_inputs_lists_and_several_outputs() -> None:
    others, mask = [X[:, 0] * 3, X[:, 1] - 2], X > 0
    low, high = phix.jit(lambda x, *o: ops.numba_extremes(x, None, list(o)))(X, *others)
    every = np.concatenate([X, np.stack(others, 1)], 1)
    np.testing.assert_array_equal(low, every.min(1))
    np.testing.assert_array_equal(high, every.max(1))
    low, _ = ops.numba_extremes(X, mask, others)
    own = np.where(mask, X, X[:, :1])
    np.testing.assert_array_equal(low, np.minimum(own.min(1), every[:, 4:].min(1)))
    ints = np.array([[3, 1], [2, 5]], np.int32)
    np.testing.assert_array_equal(ops.numba_extremes(ints, None, [ints[:, 1]])[1], [3, 5])


def test_derivatives_of_any_order_go_through_it() -> None:
    def loss(x: Any) -> Any:
        return (running(x * x, decay=0.5) ** 2).sum()

    slope = phix.jit(phix.grad(loss))(X)
    step = 1e-6
    for place in ((0, 0), (1, 2), (2, 3)):
        moved = np.zeros_like(X)
        moved[place] = step
        change = (loss(X + moved).item() - loss(X - moved).item()) / (2 * step)
        np.testing.assert_allclose(slope.numpy()[place], change, rtol=1e-6)
    second = phix.jit(lambda x: phix.jvp(phix.grad(loss), (x,), (x,))[1])(X)
    # loss is homogeneous of degree 4, its gradient of degree 3
    np.testing.assert_allclose(second, 3 * slope.numpy(), rtol=1e-12)


def test_batches_loops_branches_and_unknown_dims() -> None:
    batch = RNG.standard_normal((5, 4))
    want = np.stack([running_in_numpy(row, 0.5) for row in batch])
    for function in (phix.vmap(lambda x: running(x, decay=0.5)),
                     phix.jit(phix.vmap(lambda x: running(x, decay=0.5)))):  # fmt: skip
        np.testing.assert_allclose(function(batch), want, rtol=1e-15)
    total = X
    for _ in range(7):
        total = running_in_numpy(total * 0.5, 0.5)
    loop = phix.jit(lambda x: phix.fori_loop(0, 7, lambda _, c: running(c * 0.5, decay=0.5), x))
    np.testing.assert_allclose(loop(X), total, rtol=1e-14)
    branch = phix.jit(lambda p, x: phix.cond(p, running, lambda x: x, x))
    np.testing.assert_array_equal(branch(True, X), running_in_numpy(X))
    np.testing.assert_array_equal(branch(False, X), X)
    sized = phix.jit(lambda x: running(x) + 1.0, input_spec=[phix.spec(["n", 2], "float64")])
    for n in (0, 1, 7):
        x = RNG.standard_normal((n, 2))
        np.testing.assert_allclose(sized(x), running_in_numpy(x) + 1, rtol=1e-14)


def test_tensors_of_a_device_go_to_it_and_back() -> None:
    with toy("numbatoy", ["multiply"]) as device:
        x = phix.to_tensor(X).to("numbatoy")
        for function in (running, phix.jit(running)):
            found = function(x)
            assert found.place == x.place
            np.testing.assert_array_equal(found.to("cpu"), running_in_numpy(X))
        assert device.counts["out"] >= 2


def test_no_python_runs_between() -> None:
    graph = phix.make_graph(lambda x: phix.scan(lambda c, r: (running(c + r), r), x[0], x)[0])
    compiled = phix.passes.compiled.Compiled(graph(X))
    homes, main = phix.passes.compiled.homes_of([phix.to_tensor(X)])
    program = NativeProgram(list(compiled.stages_at(homes, main).values())[-1], (True,))
    assert program.stepwise is None
    every = [s for k in ir.walk_steps(program.loops.steps) if isinstance(k, ir.Kernel)
             for s in ir.walk(k.body)]  # fmt: skip
    assert any(isinstance(s, ir.LibraryCall) and "linked" in s.name for s in every)


def test_programs_with_code_of_numbas_keep_the_interpreter() -> None:
    """It may ask Python; also after a look for signals in a loop of unknown length."""
    halved = lambda c: running(c, decay=0.5)  # noqa: E731
    loop = phix.jit(lambda x: phix.while_loop(lambda c: ops.sum(c) > 0.1, halved, x))
    text = str(loop.lower(X).as_text("llvm"))
    assert "PyErr_CheckSignals" in text and "PyEval" not in text


def test_it_is_checked_as_other_programs_are() -> None:
    """The evaluator of loop IR runs the kernel as plain Python, before and after each pass."""
    report = phix.debug.compare(lambda x: (running(x, decay=0.5) * 2.0).sum())(X)
    assert "differ" not in str(report).lower() or "nothing differs" in str(report).lower()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (1, "the Numba kernel of 'numba_weird' raised ValueError: no such way, at "),
        (2, 'raised Refused: ("of one\'s own", 7), at '),
        (3, "raised ZeroDivisionError: division by zero"),
        (5, "raised IndexError: index is out of bounds"),  # tests run under PHIX_VERIFY
    ],
)
def test_exceptions_end_the_program(how: int, message: str) -> None:
    x = np.array([0.5, 1.0, 2.0])
    programs = [
        lambda x: ops.numba_weird(x, how),
        phix.jit(lambda x: ops.numba_weird(x + 0.0, how).sum()),
        phix.jit(phix.vmap(lambda r: ops.numba_weird(x * r, how))),
        phix.jit(lambda x: phix.fori_loop(0, 9, lambda _, c: ops.numba_weird(c, how), x)),
        phix.jit(lambda x: phix.while_loop(lambda c: True, lambda c: ops.numba_weird(c, how), x)),
    ]
    for program in programs:
        for _ in range(2):
            with pytest.raises(KernelError) as error:
                program(x)
            assert message in str(error.value)
            # Numba knows no line of some, but the function that they are in
            first = numba_ops.weird.__code__.co_firstlineno
            own = f"in the function at {numba_ops.__file__}:{first}" if how in (3, 5) else "at "
            assert f", {own}" in str(error.value) and "numba_ops.py:" in str(error.value)
            assert error.value.__cause__ is not None
    np.testing.assert_array_equal(ops.numba_weird(x, 4), 2 * x)  # the process goes on


_SOME = """
- op: numba_some
  args: (Tensor x, Tensor part)
  output: Tensor(out)
  infer_meta: {func: UnchangedInferMeta, param: [x]}
  kernel: {data_type: x}
"""


@pytest.mark.parametrize(
    ("dtype", "is_thorough"),
    [("float64", True), ("float64", False), ("complex64", True), ("bool", False), ("int8", False)],
)
def test_what_it_leaves_unfilled_is_an_error(
    dtype: str, is_thorough: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first or the last element, any one under PHIX_VERIFY, or all of ints of few bits."""
    monkeypatch.setenv("PHIX_VERIFY", str(int(is_thorough)))
    x, is_int = np.arange(9).astype(dtype), dtype == "int8"
    text = r"the Numba kernel of 'numba_some' left elements of out .* Its function is at .*py:\d"
    with loading(tmp_path) as load, phix.scoped_registries():
        op = load(_SOME).numba_some

        @phix.numba.kernel("numba_some", dtypes=[dtype])
        def some(x: Any, part: Any, out: Any) -> None:
            for i in range(part[0], part[1]):
                if i != part[2]:
                    out[i] = x[i]

        alone = phix.jit(op, input_spec=[phix.spec(["n"], dtype), phix.spec([3], "int64")])
        calls = [alone]
        if is_thorough and not is_int:
            calls.append(lambda x, p: phix.jit(phix.vmap(op, (0, None)))(np.stack([x] * 5), p)[4])
        for call in calls:
            for part, is_told in (
                ((0, 9, 9), False),
                ((0, 0, 0), True),
                ((1, 9, 9), not is_int),
                ((0, 8, 9), not is_int),
                ((0, 9, 4), is_thorough),
            ):
                if is_told:
                    with pytest.raises(KernelError, match=text):
                        call(x, np.array(part))
                else:
                    found = call(x, np.array(part)).numpy()
                    assert part != (0, 9, 9) or np.array_equal(found, x)
        assert alone(x[:0], np.array([0, 0, 0])).shape == (0,)


def test_memory_of_numbas_own_and_eight_threads() -> None:
    program = phix.jit(lambda x: ops.numba_weird(running(x), 4))
    rows = [RNG.standard_normal(n % 5 + 1) for n in range(64)]
    with ThreadPoolExecutor(8) as pool:
        for x, found in zip(rows, pool.map(program, rows)):
            np.testing.assert_allclose(found, 2 * running_in_numpy(x), rtol=1e-14)


_PROCESS = """
import sys
sys.path[:0] = ["tests", "."]
import numba_ops, numpy as np, phix
from phix import ops
numba_ops.load(); numba_ops.OUTSIDE = float(sys.argv[1]); numba_ops.register()
f = phix.jit(lambda x: ops.numba_weird(ops.numba_running(x * 2.0, start="outside"), 4))
before = phix.cache_info()
print(f(np.ones(3)).numpy().tolist(), "numba" in sys.modules, phix.cache_info() == before)
from phix.kernels.loops import linked
print(len(linked._FUNCTIONS))
"""


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    """Unless what the kernel uses is another: its globals are part of the key."""

    def run(outside: float) -> list[str]:
        environment = {"PHIX_CACHE_DIR": str(tmp_path), "PATH": "", "OMP_NUM_THREADS": "1"}
        root = Path(__file__).resolve().parents[1]
        made = subprocess.run([sys.executable, "-c", _PROCESS, str(outside)], env=environment,
                              cwd=root, capture_output=True, text=True)  # fmt: skip
        assert made.returncode == 0, made.stderr
        return made.stdout.splitlines()

    first, again, other = run(3.0), run(3.0), run(4.0)
    assert first[0].startswith("[6.0, 10.0, 14.0]") and again[0].startswith("[6.0, 10.0, 14.0]")
    assert int(first[1]) and not int(again[1]), "what the disk has is linked already"
    assert other[0].startswith("[8.0, 12.0, 16.0]") and int(other[1])


def test_what_cannot_be_registered() -> None:
    def three(x: Any, out: Any) -> None: ...

    def good(x: Any, how: int, out: Any) -> None:
        x[0] = 1.0

    with pytest.raises(phix.errors.UnknownOpError):
        phix.numba.kernel("numba_nothing")(good)
    with pytest.raises(KernelRegistrationError, match=r"takes \(x, out\).*as \(x, how, out\)"):
        phix.numba.kernel("numba_weird", dtypes="float32")(three)
    with pytest.raises(KernelRegistrationError, match="float16: Numba has no arithmetic in 16"):
        phix.numba.kernel("numba_weird", dtypes=["float16"])(good)
    with pytest.raises(KernelRegistrationError, match="has a kernel for"):
        phix.numba.kernel("numba_weird", dtypes=["float64"])(good)
    phix.numba.kernel("numba_weird", dtypes=["float32"])(good)
    with pytest.raises(KernelRegistrationError, match="it sets elements of an input"):
        ops.numba_weird(np.ones(3, "f"), 0)


def test_a_kernel_that_returns_something_is_refused_where_it_does() -> None:
    def returns(x: Any, how: int, out: Any) -> Any:
        if how == 3:
            return None
        return x + 1.0

    line = returns.__code__.co_firstlineno + 3
    with pytest.raises(
        KernelRegistrationError, match=rf"returns .*array.*{__file__}:{line}; a kernel fills"
    ):
        _numba_weird(returns)


def _numba_weird(function: Any, **options: Any) -> np.ndarray:
    """What an op gives whose kernel is this function, alone."""
    with phix.scoped_registries():
        phix.kernels.unregister_kernel("numba_weird", "NUMBA")
        phix.numba.kernel("numba_weird", dtypes=["float64"], **options)(function)
        return ops.numba_weird(np.array([0.0, 1.0]), 0).numpy()


def test_all_that_code_follows_from_is_in_its_digest() -> None:
    """Two kernels that differ in how helpers are decorated, or in which is called where."""

    def quotient(x: Any, how: int, out: Any) -> None:
        out[:] = x[1] / x[0]

    assert _numba_weird(numba.njit(error_model="numpy")(quotient))[0] == np.inf
    with pytest.raises(KernelError, match="ZeroDivisionError"):
        _numba_weird(numba.njit(error_model="python")(quotient))

    def sums(choice: Any, *others: Any) -> Any:
        two, three, last = *others, choice

        def kernel(x: Any, how: int, out: Any) -> None:
            for i in range(x.size):
                out[i] = two(x[i]) + three(x[i]) + 10.0 * last(x[i])

        return kernel

    helpers = numba.njit(lambda x: 2.0 * x), numba.njit(lambda x: 3.0 * x)
    assert _numba_weird(sums(helpers[0], *helpers))[1] == 25.0
    assert _numba_weird(sums(helpers[1], *helpers))[1] == 35.0

    def pointers(called: Any) -> Any:
        def kernel(x: Any, how: int, out: Any) -> None:
            out[:] = called(x[1])

        return kernel

    made = [numba.cfunc("float64(float64)")(f) for f in (lambda x: 2.0 * x, lambda x: 3.0 * x)]
    assert [_numba_weird(pointers(f))[1] for f in made] == [2.0, 3.0]


_LATER = """
import sys, tempfile, pathlib, numba, numpy as np, phix
meta = "infer_meta: {func: UnchangedInferMeta}"
entry = "- {op: later, args: (Tensor x), output: Tensor(out), " + meta + "}"
file = pathlib.Path(tempfile.mkdtemp(), "later.yaml")
file.write_text(entry)
phix.load_ops(file)
factor, table = 1.0, np.array([10.0])
@phix.numba.kernel("later", dtypes=["float64"])
def later(x, out):
    for i in range(x.size):
        out[i] = factor * helper(x[i]) + table[0]
@phix.numba.scalar("later_scalar")
def later_scalar(x):
    return factor * x + table[0]
factor, table[0] = float(sys.argv[1]), float(sys.argv[2])
more = float(sys.argv[3])
helper = numba.njit(lambda x: x + more)
print(*phix.jit(lambda x: (phix.ops.later(x), later_scalar(x)))(np.array([1.0])))
"""


def test_what_changes_between_registration_and_use_is_in_the_key(tmp_path: Path) -> None:
    """Numba takes globals when it compiles, and a helper may stand below the kernel."""
    for given in ((1, 10, 0), (2, 10, 0), (1, 20, 0), (1, 10, 5), (1, 10, 0)):
        environment = {"PHIX_CACHE_DIR": str(tmp_path), "PATH": "", "OMP_NUM_THREADS": "1"}
        root = Path(__file__).resolve().parents[1]
        command = [sys.executable, "-c", _LATER, *map(str, given)]
        made = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        factor, table, more = given
        expected = [factor * (1 + more) + table, factor + table]
        found = [float(t.split("[")[1].split("]")[0]) for t in made.stdout.split("Tensor")[1:]]
        assert found == expected, (given, made.stdout)


def test_what_is_taken_from_a_module_of_ones_own_counts() -> None:
    """In a program made later; what else the module has does not."""
    own = types.ModuleType("own")
    own.inner, own.K, own.other = types.ModuleType("inner"), 2.0, object()  # type: ignore
    own.inner.C = 10.0  # type: ignore[attr-defined]

    def kernel(x: Any, how: int, out: Any) -> None:
        for i in range(x.size):
            out[i] = x[i] * own.K + own.inner.C

    assert digest(kernel)[1]
    with phix.scoped_registries():
        phix.kernels.unregister_kernel("numba_weird", "NUMBA")
        phix.numba.kernel("numba_weird", dtypes=["float64"])(kernel)
        for k, c in ((2.0, 10.0), (3.0, 10.0), (3.0, 20.0)):
            own.K, own.inner.C = k, c  # type: ignore[attr-defined]
            found = phix.jit(lambda x: ops.numba_weird(x, 0))(np.array([1.0, 2.0]))
            np.testing.assert_array_equal(found, [k + c, 2 * k + c])


@numba.njit
def _factorial(n: int) -> int:
    return 1 if n <= 1 else n * _factorial(n - 1)


def _with_recursion(x: Any, how: int, out: Any) -> None:
    out[:] = x * _factorial(4)


def _with_print(x: Any, how: int, out: Any) -> None:
    print("x is", x[0])


def _with_objects(x: Any, how: int, out: Any) -> None:
    with numba.objmode(s="float64"):
        s = float(np.median(x))
    out[:] = x - s


@pytest.mark.filterwarnings("ignore::numba.core.errors.NumbaWarning")
@pytest.mark.parametrize(
    ("function", "text"),
    [
        (_with_recursion, "calls _factorial, which calls itself with arguments of other types"),
        (_with_print, "has a part that Python runs, print or objmode"),
        (_with_objects, "has a part that Python runs, print or objmode"),
    ],
)
def test_what_needs_more_than_its_own_code_is_refused(function: Any, text: str) -> None:
    """It would end the process, or stop at an Environment that is not there."""
    with pytest.raises(KernelRegistrationError, match=text):
        _numba_weird(function)


def test_a_function_that_calls_itself_with_the_types_it_is_called_with() -> None:
    def kernel(x: Any, how: int, out: Any) -> None:
        out[:] = x * _factorial(x.size + 2)

    np.testing.assert_array_equal(_numba_weird(kernel), [0.0, 24.0])


def test_batches_of_a_size_that_is_not_known_or_0() -> None:
    def each(x: Any) -> Any:
        return running(x, decay=0.5)

    sized = phix.jit(phix.vmap(each), input_spec=[phix.spec(["b", "n"], "float64")])
    for b, n in ((2, 3), (0, 3), (3, 0), (1, 1)):
        x = RNG.standard_normal((b, n))
        want = [running_in_numpy(row, 0.5) for row in x] if x.size else x
        np.testing.assert_allclose(sized(x), want, rtol=1e-14)
    for make in (lambda f: f, phix.jit):
        assert make(phix.vmap(each))(np.zeros((0, 4))).shape == (0, 4)
    slope = phix.jit(phix.grad(lambda x: (sized(x) * x).sum()))(X)
    one = [phix.grad(lambda r: (each(r) * r).sum())(row).numpy() for row in X]
    np.testing.assert_allclose(slope, np.stack(one), rtol=1e-13)
    low, high = phix.vmap(lambda x, o: ops.numba_extremes(x, None, [o, o]))(
        np.zeros((0, 3, 4)), np.zeros((0, 3))
    )
    assert low.shape == high.shape == (0, 3)


def test_what_is_no_function_of_numbas_is_refused_when_it_is_registered() -> None:
    for odd in (3, max, math.sin, functools.partial(_numba_weird, 1)):
        with pytest.raises(KernelRegistrationError, match="is a Python function, or one under"):
            phix.numba.kernel("numba_weird", dtypes=["int8"])(odd)  # type: ignore[type-var]
        with pytest.raises(KernelRegistrationError, match="is a Python function, or one under"):
            phix.numba.scalar("numba_odd")(odd)  # type: ignore[arg-type]
    for options in ({"error_model": "c"}, {"fastmath": ["fats"]}, {"fastmath": 3}):
        with pytest.raises(ArgumentError, match=r"kernel: (error_model|fastmath) must be "):
            phix.numba.kernel("numba_weird", **options)(lambda x, how, out: None)


def test_computed_values_in_exceptions_are_not_shown_as_numba_writes_them() -> None:
    def fails(x: Any, how: int, out: Any) -> None:
        raise ValueError("too large", x[0])

    with pytest.raises(KernelError, match=r"ValueError: \('too large', <a computed value>\), at"):
        _numba_weird(fails)


def test_exceptions_of_numbas_own_functions_name_the_users() -> None:
    def assigns(x: Any, how: int, out: Any) -> None:
        out[...] = np.ones(x.size + 2)

    where = f"{__file__}:{assigns.__code__.co_firstlineno}"
    with pytest.raises(KernelError, match=f"raised ValueError: .*, in the function at {where}"):
        _numba_weird(assigns)


def test_numba_that_compiles_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)
    with pytest.raises(KernelRegistrationError, match="compiles nothing under NUMBA_DISABLE_JIT"):
        _numba_weird(lambda x, how, out: None)


def test_forward_mode_of_a_backward_op_that_is_a_kernel_alone(tmp_path: Path) -> None:
    (tmp_path / "square.yaml").write_text(_SQUARE)

    with phix.scoped_registries():
        square = phix.load_ops(tmp_path / "square.yaml").numba_square

        @phix.numba.kernel("numba_square", dtypes=["float64"])
        def forward(x: Any, out: Any) -> None:
            out[...] = x * x

        @phix.numba.kernel("numba_square_grad", dtypes=["float64"])
        def backward(x: Any, out_grad: Any, x_grad: Any) -> None:
            x_grad[...] = 2.0 * x * out_grad

        np.testing.assert_allclose(phix.grad(lambda x: square(x).sum())(X), 2.0 * X)
        with pytest.raises(DifferentiationError, match=r"forward mode.*core\.rules\.decompose"):
            phix.jvp(square, (X,), (X,))


_SQUARE = """
- op: numba_square
  args: (Tensor x)
  output: Tensor(out)
  infer_meta: {func: UnchangedInferMeta}
  backward: numba_square_grad
- backward_op: numba_square_grad
  forward: numba_square (Tensor x) -> Tensor(out)
  args: (Tensor x, Tensor out_grad)
  output: Tensor(x_grad)
  infer_meta: {func: UnchangedInferMeta, param: [x]}
"""
