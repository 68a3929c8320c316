"""Meshes: functions on all parts of one, virtual ones in this process, and ranks of mpiexec."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import phix
from phix import ops
from phix.core.errors import ArgumentError, DifferentiationError, DTypeError, ShapeError
from tests import parallel_cases

pytestmark = pytest.mark.unoptimised

ROOT = Path(__file__).resolve().parent.parent
X = np.arange(1.0, 9.0)


def virtual(**axes):
    return phix.parallel.mesh(axes, virtual=True)


def on_data(f, in_specs="data", out_specs=None, n=4):
    return phix.parallel.spmd(f, virtual(data=n), in_specs, out_specs)


# -- one process ---------------------------------------------------------------------------------
def test_cases_on_a_virtual_mesh():
    on = virtual(data=4)
    for number, (name, case) in enumerate(parallel_cases.cases(4).items()):
        parallel_cases.check(name, case, on, jitted=number % 4 == 0)


def test_cases_on_a_virtual_mesh_of_two_axes():
    axes, cases = parallel_cases.two_axes()
    for name, case in cases.items():
        parallel_cases.check(name, case, virtual(**axes), jitted=False)


def test_cases_on_a_mesh_of_one():
    on = phix.parallel.mesh({"data": 1})
    for name, case in list(parallel_cases.cases(1).items())[:26:2]:
        parallel_cases.check(name, case, on, jitted=False)


def test_64_parts():
    on = virtual(data=64)
    cases = parallel_cases.cases(64)
    for name in ("scan", "grad of gather", "outside", "ppermute", "all_to_all", "psum_scatter"):
        parallel_cases.check(name, cases[name], on, jitted=name == "scan")


def test_lanes_of_vmap_have_the_same_results():
    """Of functions without derivatives inside; and of derivatives outside."""

    def f(w, x):
        shares = ops.tanh(w * x) / phix.psum(ops.exp(x), "data")
        moved = phix.ppermute(shares, "data", [(0, 1), (1, 0)])
        return phix.pmax(x, "data") * moved + phix.all_gather(shares, "data").sum()

    on_mesh = on_data(f, (None, "data"), "data")
    lanes = phix.vmap(f, in_axes=(None, 0), axis_name="data")
    both = [lambda w, x: on_mesh(w, x), lambda w, x: lanes(w, x.reshape((4, 2))).reshape((8,))]
    one, other = (run(1.5, phix.to_tensor(X)) for run in both)
    np.testing.assert_allclose(one, other, rtol=1e-12)
    one, other = (
        phix.grad(lambda w, x, run=run: (run(w, x) ** 2).sum(), argnums=(0, 1))(
            phix.to_tensor(1.5, "float64"), phix.to_tensor(X)
        )
        for run in both
    )
    for a, b in zip(one, other):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_loops_inside_derivatives_inside():
    """Derivatives with respect to a value that is the same on all parts, through loops."""

    def powers(run):
        return on_data(lambda w, x: phix.grad(lambda w: run(w, x))(w), (None, "data"))

    total = X.sum() / 10
    step = lambda w, x: lambda c: c * phix.psum((w * x).sum(), "data") / 10  # noqa: E731
    ways = {
        "while": lambda w, x: phix.while_loop(lambda c: c < 40.0, step(w, x), 1.0),
        "fori": lambda w, x: phix.fori_loop(0, 2, lambda i, c: step(w, x)(c), 1.0),
        "scan": lambda w, x: phix.scan(lambda c, _: (step(w, x)(c), None), 1.0, length=2)[0],
        # each step adds what differs, and what is summed comes behind the loop
        "late": lambda w, x: phix.psum(
            phix.scan(lambda c, v: (c + w**2 * v, None), 0.0, x)[0], "data") * total / 10,
    }  # fmt: skip
    w = phix.to_tensor(2.0, "float64")
    for name, run in ways.items():
        assert powers(run)(w, X).item() == pytest.approx(2 * 2.0 * total**2), name


def test_results_that_are_not_proved_to_be_alike():
    with pytest.raises(ArgumentError, match=r"result 0 is the same along 'data', and that is not"):
        on_data(lambda x: x.sum())(X)
    with pytest.raises(ArgumentError, match=r"result 1 is the same"):
        on_data(lambda x: (phix.psum(x, "data"), phix.axis_index("data")))(X)
    with pytest.raises(ArgumentError, match="not proved"):
        on_data(lambda x: phix.cond(x.sum() > 9, lambda: 1.0, lambda: 2.0))(X)
    two = phix.parallel.spmd(lambda x: phix.psum(x, "a"), virtual(a=2, b=2), (("a", "b"),), None)
    with pytest.raises(ArgumentError, match="same along 'b'"):
        two(X.reshape(2, 4))


@pytest.mark.parametrize("ways", [
    lambda f, w, v: phix.jvp(f, (w,), (v,))[1],
    lambda f, w, v: phix.linearize(f, w)[1](v),
    lambda f, w, v: phix.jet(f, (w,), ([v],))[1][0],
])  # fmt: skip
def test_directions_of_the_parts_own(ways):
    """At a value that is the same on all parts a gradient inside would be a sum over them."""

    def slope(x):
        return phix.grad(lambda w: phix.psum((w * x) ** 3, "data").sum())

    with pytest.raises(ArgumentError, match=r"differs along the axis 'data'.*phix\.pvary\(value"):
        on_data(lambda x: ways(slope(x), 2.0, x[0]))(X)
    found = on_data(
        lambda x: ways(slope(x), phix.pvary(2.0, "data"), x[0])[None], out_specs="data"
    )(X)
    pairs = X.reshape(4, 2)
    np.testing.assert_allclose(found.numpy(), [12 * (x**3).sum() * x[0] for x in pairs])


def test_collectives_that_not_all_parts_come_to():
    bad = lambda x: phix.cond(x.sum() > 3, lambda x: phix.psum(x, "data"), lambda x: x, x)  # noqa: E731
    with pytest.raises(ArgumentError, match="differs along the axis 'data', and a collective over"):
        on_data(bad, out_specs="data")(X)
    bad = lambda x: phix.while_loop(lambda c: c < 9, lambda c: c + phix.pmax(c, "data"), x.sum())  # noqa: E731
    with pytest.raises(ArgumentError, match="some parts would wait"):
        phix.jit(on_data(bad))(X)


def test_specs_that_do_not_fit():
    with pytest.raises(ArgumentError, match="'model' is no axis of <virtual mesh"):
        on_data(lambda x: x, "model")(X)
    with pytest.raises(ArgumentError, match="has an axis twice"):
        on_data(lambda x: x, (("data", "data"),))(X)
    with pytest.raises(ArgumentError, match="an entry an argument, found 2 for 1"):
        on_data(lambda x: x, ("data", None))(X)
    with pytest.raises(ShapeError, match="of 2 dims, and the tensor is"):
        on_data(lambda x: x, (("data", None),))(X)
    with pytest.raises(ShapeError, match="cannot be divided among 4 parts"):
        on_data(lambda x: x)(X[:3])
    with pytest.raises(ArgumentError, match="take another name"):
        on_data(lambda x: phix.vmap(lambda v: v, axis_name="data")(x))(X)
    with pytest.raises(ArgumentError, match="the axis 'data' is bound already"):
        on_data(lambda x: on_data(lambda x: x)(x))(X)
    tree = on_data(lambda t: {"a": t["a"].sum()[None]}, ({"a": "data", "b": None},), {"a": "data"})
    assert tree({"a": X, "b": 1.0})["a"].tolist() == [3.0, 7.0, 11.0, 15.0]


def test_meshes_that_are_not_there():
    was_there = "mpi4py" in sys.modules  # another test's doing
    for axes, text in (({"data": 3}, "and there are 1; start as many"), ({}, "axes is empty"),
                       ({"data": 0}, "an int from 1"), ({"a": -1, "b": -1}, "one axis alone"),
                       ({1: 1}, "named by a str")):  # fmt: skip
        with pytest.raises(ArgumentError, match=text):
            phix.parallel.mesh(axes)
    with pytest.raises(ArgumentError, match="no processes to count"):
        virtual(data=-1)
    assert phix.parallel.mesh({"a": -1, "b": 1}).axes == {"a": 1, "b": 1}
    assert was_there or "mpi4py" not in sys.modules or os.environ.get("PMI_SIZE")


# -- networks ------------------------------------------------------------------------------------
def scaled_stages(w, xs):
    """The mean square behind two stages that multiply, forward alone and with the gradients."""
    stage, loss = lambda w, x: w[0] * x, lambda head, x, y: ((x - y) ** 2).mean()
    run = lambda w, xs: phix.parallel.pipeline(stage, loss, w, None, xs, 0 * xs, "data")  # noqa: E731
    step = lambda w, xs: (run(w, xs), *phix.value_and_grad(run)(w, xs))  # noqa: E731
    return on_data(step, ("data", None), (None, None, "data"), n=2)(w, xs)


def test_a_pipeline_whose_loss_has_no_target_and_a_second_derivative():
    """Of (b a)^2 for the weights a and b of two stages: its slopes, and those of 4 a b^3 + ..."""
    stage, loss = lambda w, x: w[0] * x, lambda head, x, y: (x**2).mean()
    run = lambda w, xs: phix.parallel.pipeline(stage, loss, w, None, xs, xs, "data")  # noqa: E731
    square = lambda w, xs: (phix.grad(run)(w, xs) ** 2).sum()  # noqa: E731
    both = on_data(lambda w, xs: (phix.grad(run)(w, xs), phix.grad(square)(w, xs)),
                   ("data", None), "data", n=2)  # fmt: skip
    a, b = 2.0, 3.0
    one, two = both(np.array([a, b]), np.ones((3, 1)))
    np.testing.assert_allclose(one, [2 * a * b**2, 2 * a**2 * b], rtol=1e-12)
    # of 4 a^2 b^4 + 4 a^4 b^2
    np.testing.assert_allclose(
        two, [8 * a * b**4 + 16 * a**3 * b**2, 16 * a**2 * b**3 + 8 * a**4 * b], rtol=1e-12
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_pipeline_adds_halves_up_in_float32(dtype):
    """Sums of 300 ones stay at 256 in bfloat16, those of 300 times 400 are infinite in float16."""
    size = 1.0 if dtype == "bfloat16" else 20.0
    ones = ops.full([300, 1], size, dtype)
    forward, value, grad = scaled_stages(phix.ones([2], dtype), ones)
    assert forward.dtype == value.dtype == grad.dtype == ones.dtype
    assert forward.item() == value.item() == size**2
    assert grad.tolist() == [2 * size**2] * 2


def expert_results(x, shares, **options):
    """Of two experts that make rows of length ``w``: each token's, and the weights' gradients."""
    expert = lambda w, rows: w * rows / ops.sqrt(ops.sum(rows * rows, -1, keepdim=True))  # noqa: E731
    layer = lambda w, x, s: phix.parallel.experts(expert, w, x, s, "data", top=1, **options)  # noqa: E731

    def both(w, x, s):
        out, pull = phix.vjp(lambda w: layer(w, x, s), w)
        return out, pull(ops.full_like(out, 1))[0]

    return on_data(both, "data", "data", n=2)(np.array([2.0, 3.0]), x, shares)


def test_an_expert_without_a_derivative_at_zeros():
    """No empty place is a row of zeros, of an expert with some tokens or with none."""
    x = np.array([[3.0, 4], [1, 2], [5, 12], [8, 6]])
    share = np.array([0.7, 0.6, 0.2, 0.9])
    each = share * (x / np.hypot(*x.T)[:, None]).sum(1)
    shares = np.stack([share, [0, 0, 0.8, 0]], 1)
    other = 0.8 * x[2].sum() / 13
    found = expert_results(x, shares)[1]
    np.testing.assert_allclose(found, [each[[0, 1, 3]].sum(), other], rtol=1e-12)
    found = expert_results(x, np.stack([share, 0 * share], 1))[1]
    np.testing.assert_allclose(found, [each.sum(), 0], rtol=1e-12)


def test_a_token_beyond_the_capacity_is_zeros_beside_one_that_is_not_finite():
    x = np.array([[np.inf, 4], [1, 2], [3, 4], [8, 6]])
    out, _ = expert_results(x, np.array([[0.5, 0.1]] * 4), capacity=1)
    np.testing.assert_array_equal(out[1:], [[0, 0], [0.6, 0.8], [0, 0]])


def test_a_piece_of_a_ring_with_no_key_to_see():
    """Keys of -inf, one's own piece whole, count for nothing; and what does not fit is refused."""
    k = np.array([1.0, -np.inf, -np.inf, -np.inf, 2.0, 0.5]).reshape(1, 6, 1, 1)
    q, v = np.arange(1.0, 7).reshape(k.shape), np.arange(3.0, 9).reshape(k.shape)
    ring = lambda q, k, v: phix.parallel.ring_attention(q, k, v, "data")  # noqa: E731
    run = on_data(ring, ((None, "data"),) * 3, (None, "data"), n=3)
    scores = np.exp(q[0, :, 0] * k[0, :, 0, 0])
    expected = scores @ v[0, :, 0, 0] / scores.sum(1)
    np.testing.assert_allclose(run(q, k, v)[0, :, 0, 0], expected, rtol=1e-12)
    with pytest.raises(DTypeError, match=r"query must be floating, found int64\[1, 2, 1, 1\]"):
        run(np.int64(q), k, v)
    with pytest.raises(ShapeError, match="must be of one n"):
        run(q, np.concatenate([k, k]), np.concatenate([v, v]))
    with pytest.raises(ShapeError, match="the first two of one size"):
        run(q, np.concatenate([k, k], 3), v)


def test_what_experts_and_pipelines_refuse():
    x, share = np.ones((4, 2)), np.ones((4, 2))
    for bad in (lambda w, rows: (w, rows), lambda w, rows: rows[:1], lambda w, rows: w):
        run = lambda w, x, s, bad=bad: phix.parallel.experts(bad, w, x, s, "data", top=1)  # noqa: E731
        with pytest.raises(ShapeError, match="experts: an expert makes of rows"):
            on_data(run, "data", "data", n=2)(np.ones(2), x, share)
    loss = lambda head, x, y: ((x - y) ** 2).mean()  # noqa: E731
    flow = lambda w, x, head=None: phix.parallel.pipeline(  # noqa: E731
        lambda w, x: w[0] * x, loss, w, head, x, x, "data"
    )
    with pytest.raises(ArgumentError, match="pipeline: xs must be the same on all parts, and"):
        on_data(flow, ("data", "data"), n=2)(np.ones(2), x)
    with pytest.raises(ShapeError, match="has no microbatches"):
        on_data(flow, ("data", None), n=2)(np.ones(2), x[:0])
    with pytest.raises(DifferentiationError, match="pipeline: head has int64"):
        on_data(phix.grad(flow), ("data", None, None), "data", n=2)(np.ones(2), x, phix.arange(3))


# -- several processes ---------------------------------------------------------------------------
def launcher() -> str:
    """mpiexec; where there is none, the test is skipped."""
    pytest.importorskip("mpi4py", reason="no mpi4py here: pip install phix[mpi]")
    beside = Path(sys.executable).parent
    mpiexec = shutil.which("mpiexec", path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}")
    if mpiexec is None:
        pytest.skip("no mpiexec here: pip install phix[mpi]")
    return mpiexec


def launched(
    ranks: int, what: str | list[str], seconds: float, module: str = "tests.parallel_cases"
) -> subprocess.CompletedProcess[str]:
    """A program of ``module``, or a script and its arguments, by mpiexec; all its processes end
    with the time."""
    program = ["-m", module, *what.split()] if isinstance(what, str) else what
    command = [launcher(), "-n", str(ranks), sys.executable, *program]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        out, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, _ = process.communicate()
        pytest.fail(f"{what} on {ranks} ranks was not done in {seconds} seconds:\n{out[-2000:]}")
    return subprocess.CompletedProcess(command, process.returncode, out)


@pytest.mark.parametrize("ranks", [pytest.param(2, marks=pytest.mark.prove), 4])
def test_cases_on_ranks(ranks):
    found = launched(ranks, "cases", 400)
    assert found.returncode == 0, found.stdout[-3000:]
    assert f"cases on {ranks} ranks are right" in found.stdout


def test_a_rank_that_fails_ends_all():
    found = launched(2, "failing", 200)
    ended = time.time()
    assert found.returncode
    assert "rank 1 of 2 ended with ValueError: the data of this rank are gone" in found.stdout
    where = r"(in|behind) its psum over 'data' at .*parallel_cases\.py:\d+"  # of a busy machine
    other = rf"rank 0 of 2 is ended, {where}, because rank 1 is gone"
    assert re.search(other, found.stdout), found.stdout[-3000:]
    failed = float(re.search(r"failing at ([\d.]+)", found.stdout)[1])
    assert ended - failed < 10


def test_a_rank_that_fails_between_the_halves_of_a_sum_ends_all():
    found = launched(2, "half", 200)
    ended = time.time()
    assert found.returncode
    line = r"psum over 'data' at .*begun_call_cases\.py:\d+"
    assert re.search(rf"rank 1 of 2 ended with CollectiveError: {line}: MPI refuses", found.stdout)
    other = rf"rank 0 of 2 is ended, (in|behind) its {line}, because rank 1 is gone"
    assert re.search(other, found.stdout), found.stdout[-3000:]
    assert ended - float(re.search(r"failing at ([\d.]+)", found.stdout)[1]) < 10


def test_a_rank_that_is_killed_while_requests_are_under_way():
    found = launched(2, "killed", 200)
    ended = time.time()
    assert found.returncode
    where = r"(in|behind) its psum over 'data' at .*begun_call_cases\.py:\d+"
    assert re.search(rf"rank 1 of 2 .* is gone.*{where}", found.stdout), found.stdout[-3000:]
    assert re.search(rf"rank 0 of 2 is ended, {where}, because rank 1 is gone", found.stdout)
    assert ended - float(re.search(r"killed at ([\d.]+)", found.stdout)[1]) < 10


def test_ranks_that_do_not_do_the_same():
    found = launched(2, "mismatches", 200)
    assert found.returncode == 0, found.stdout[-3000:]
    for text in (
        "order: the ranks are about to do different collectives: rank 0: psum of float64[2] over "
        "'data'; rank 1: all_gather of float64[2] over 'data' [0]; every rank must",
        "shape: the ranks are about to do different collectives: rank 0: psum of float64[1] over "
        "'data'; rank 1: psum of float64[2]",
        "rank 0: psum of float32[2] over 'data'; rank 1: psum of float64[2]",
        "in_specs says that arguments are the same along 'data', and they are not: rank 0: digest",
        "rank 1: the end of spmd of program",
    ):
        assert text in found.stdout, found.stdout


def test_processes_of_another_launcher_are_refused():
    """mpi4py's MPI finds each of them alone, so that sums would be those of one rank."""
    launcher()
    code = "import phix; phix.parallel.mesh({'data': 2})"
    alone = {k: v for k, v in os.environ.items() if not k.startswith(("PMI_", "OMPI_"))}
    env = {**alone, "OMPI_COMM_WORLD_SIZE": "2", "PYTHONPATH": str(ROOT)}
    found = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert re.search(
        r"ArgumentError: mesh: \{'data': 2\} is a mesh of 2 processes, .* the launcher says .*"
        r"mpi4py's MPI \([\w ]+\) finds 1; start them by the mpiexec of that MPI", found.stderr,
    ), found.stderr  # fmt: skip
