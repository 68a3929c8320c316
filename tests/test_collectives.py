"""What collectives between ranks become: bundles of small sums, and the steps of exchanges."""

from __future__ import annotations

import ctypes
import signal
import threading
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core import in_flight
from phix.core.errors import ArgumentError, CollectiveError, PhixError
from phix.core.fingerprint import fingerprint
from phix.core.rank_ports import PLACES
from phix.parallel.exchange import Group
from tests.mirrored import begun, called, deferred, mirrored

ORDER = "overlap_collectives"
pytestmark = pytest.mark.unoptimised


def on(mesh, f, in_specs="data", out_specs=None, **options):
    return phix.jit(phix.parallel.spmd(f, mesh, in_specs, out_specs), **options)


def steps(mesh, run, *args):
    """Results of a run, and the collectives that it does."""
    mesh.groups["data"].steps.clear()
    found = [np.asarray(v) for v in phix.tree.leaves(run(*args))]
    return found, list(mesh.groups["data"].steps)


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("ranks", [1, 2])
def test_sums_between_ranks_start_at_zero(ranks, jitted):
    """As those over lanes: of -0.0 alone they are 0.0, and so are the gradients that they make."""
    lanes = phix.parallel.mesh({"data": ranks}, virtual=True)
    zeros = np.full(4 * ranks, -0.0)

    def program(w, x):
        slope = lambda w: phix.psum((w * x).sum(), "data")  # noqa: E731
        return (
            phix.psum(x, "data"),
            phix.pmean(x, "data"),
            phix.psum(w, "data"),
            phix.grad(slope)(w),
        )

    for mesh, x in ((mirrored(data=ranks), zeros[:4]), (lanes, zeros)):
        run = phix.parallel.spmd(program, mesh, (None, "data"), None)
        for found in (phix.jit(run) if jitted else run)(np.full(4, -0.0), x):
            assert not found.numpy().any() and not np.signbit(found.numpy()).any(), mesh


# -- bundles -------------------------------------------------------------------------------------
def test_gradients_of_many_parameters_are_one_exchange(rng):
    mesh = mirrored(data=2)
    weights = [rng.normal(size=s) for s in ((3, 4), (4,), (4, 2), (2,))]
    x = rng.normal(size=(5, 3))

    def loss(weights, x):
        w1, b1, w2, b2 = weights
        y = ops.tanh(x @ w1 + b1) @ w2 + b2
        return phix.pmean(ops.mean(y**2), "data")

    step = lambda weights, x: phix.value_and_grad(loss)(weights, x)  # noqa: E731
    apart, several = steps(mesh, on(mesh, step, (None, "data"), disable="bundle_sums"), weights, x)
    together, one = steps(mesh, on(mesh, step, (None, "data")), weights, x)
    assert len(several) == 5 and one == [("sum", 1 + sum(w.size for w in weights))]
    for a, b in zip(apart, together):
        np.testing.assert_array_equal(a, b)


def test_sums_that_need_each_other_and_other_collectives_keep_their_order(rng):
    mesh = mirrored(data=2)
    seen: list[float] = []

    def program(x):
        a = phix.psum(x, "data")
        phix.debug.callback(lambda v: seen.append(float(v)), a.sum())
        b = phix.psum(a.sum() * x, "data")  # needs a
        c = phix.psum(x * x, "data")  # and this one needs nobody
        phix.debug.callback(lambda v: seen.append(float(v)), x.sum())
        d = phix.all_gather(c * x, "data")  # behind all sums before it
        e = phix.psum(ops.cast(x, "float32"), "data")  # of another dtype
        return b, c, d, e, phix.psum(3.0 * x, "data")

    x = rng.normal(size=4)
    found, done = steps(mesh, on(mesh, program), x)
    assert done == [("sum", 4), ("sum", 8), ("gather", 4), ("sum", 4), ("sum", 4)]
    expected = (4 * x.sum() * x, 2 * x * x, np.stack([2 * x**3] * 2), 2 * x, 6 * x)
    for one, other in zip(found, expected):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    np.testing.assert_allclose(seen, [2 * x.sum(), x.sum()])


def test_bundles_inside_loops_and_none_of_large_or_unknown_sizes(rng):
    mesh = mirrored(data=2)

    def step(c, row):
        return c + phix.psum(row, "data").sum() * phix.psum(row * row, "data").sum(), None

    x = rng.normal(size=(3, 4))
    found, done = steps(mesh, on(mesh, lambda x: phix.scan(step, 0.0, x)[0], "data"), x)
    assert done == [("sum", 8)] * 3
    np.testing.assert_allclose(found[0], 4 * (x.sum(1) * (x * x).sum(1)).sum())
    pair = lambda x: (phix.psum(x, "data"), phix.psum(x * x, "data"))  # noqa: E731
    large = np.ones(1 << 14)
    assert len(steps(mesh, on(mesh, pair), large)[1]) == 2
    unknown = on(mesh, pair, input_spec=[phix.spec(["n"], "float64")])
    assert len(steps(mesh, unknown, x[0])[1]) == 2
    assert len(steps(mesh, on(mesh, pair), x[0, :0])[1]) == 2


# -- what is done meanwhile ----------------------------------------------------------------------
def layers(rng, count=4):
    """A step of training, and its arguments."""

    def loss(ws, x, y):
        for w in ws[:-1]:
            x = ops.tanh(x @ w)
        return phix.pmean(((x @ ws[-1] - y) ** 2).mean(), "data")

    def step(ws, x, y):
        value, grads = phix.value_and_grad(loss)(ws, x, y)
        return [w - 0.1 * g for w, g in zip(ws, grads)], value

    draw = lambda *dims: rng.normal(size=dims)  # noqa: E731
    return step, [draw(6, 6) for _ in range(count)], draw(5, 6), draw(5, 6)


def between(text: str) -> list[int]:
    """Of each step that is begun, how many kernels run before it is waited for."""
    kernels, begun, found = 0, {}, []
    for line in text.splitlines():
        word, _, rest = line.strip().partition("rank_step")
        kernels += word.startswith("kernel ")
        if word == "begin ":
            begun[rest] = kernels
        elif word == "wait for ":
            found.append(kernels - begun.pop(rest))
    assert not begun
    return found


def test_what_does_not_need_a_sum_goes_ahead_of_the_wait_for_it(rng):
    """The gradient of a layer is under way while those of the layers before it are made."""
    step, *args = layers(rng)
    mesh = deferred(data=2)
    found, found_plain = [], []
    for disable, to in (("bundle_sums", found), (("bundle_sums", ORDER), found_plain)):
        run = on(mesh, step, (None, "data", "data"), disable=disable)
        to += phix.tree.leaves(run(*args))
        counts = between(run.lower(*args).as_text("loop ir"))
        events = mesh.groups["data"].events
        if disable == "bundle_sums":
            # the loss, and the weights' gradients, the last one's first
            assert len(counts) == 5 and sorted(counts)[::-1] == counts and counts[1] > 6
            assert events[:4] == ["begin sum"] * 4 and events.count("end sum") == len(counts)
        else:
            assert counts == [] and events == ["run sum"] * 5
        events.clear()
    for one, other in zip(found, found_plain):
        np.testing.assert_array_equal(one, other)


def test_weights_that_are_gathered_come_one_ahead(rng):
    """Those of one layer are under way while another works: never all of them at once."""
    mesh = deferred(data=2)
    weights = [rng.normal(size=(3, 6)) for _ in range(6)]

    def forward(weights, x):
        for w in weights:
            x = ops.tanh(x @ phix.all_gather(w, "data", axis=0, tiled=True))
        return x

    x = rng.normal(size=(4, 6))
    run = on(mesh, forward, ("data", None))
    expected = x
    for w in weights:
        expected = np.tanh(expected @ np.concatenate([w, w]))
    np.testing.assert_allclose(run(weights, x), expected, rtol=1e-12)
    under_way = np.cumsum([{"b": 1, "e": -1, "r": 0}[e[0]] for e in mesh.groups["data"].events])
    assert max(under_way) == 2 and len(mesh.groups["data"].events) == 1 + 2 * 5


def test_an_error_leaves_nothing_under_way(rng):
    """Ctrl-C while a sum is under way, and another is about to begin."""
    step, *args = layers(rng, 3)
    mesh = deferred(data=2)
    group: Any = mesh.groups["data"]
    group.most = 2
    with pytest.raises(KeyboardInterrupt):
        on(mesh, step, (None, "data", "data"), disable="bundle_sums")(*args)
    assert group.events == ["begin sum"] * 2 + ["end sum"] * 2


def test_a_thread_ends_what_it_has_begun():
    class Step(in_flight.Flight):
        ended = 0

        def finish(self):
            self.ended += 1

    own, other, told = Step(), Step(), []

    def beside():
        in_flight.begin(other)
        in_flight.finish_all()
        told.append((own.ended, other.ended))

    in_flight.begin(own)
    thread = threading.Thread(target=beside)
    thread.start()
    thread.join()
    in_flight.finish(own)
    assert told == [(0, 1)] and (own.ended, other.ended) == (1, 1)


UNUSED = {
    "top": lambda look, x: (look(x), x * 2.0)[1],
    "scan": lambda look, x: phix.scan(lambda c, _: (c * 0.5, look(c)), x, length=3)[0],
    "fori": lambda look, x: phix.fori_loop(0, 3, lambda _, c: (look(c), c * 0.5)[1], x),
    "while": lambda look, x: phix.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, (look(c[1]), c[1] * 0.5)[1]), (0, x))[1],
    "cond": lambda look, x: phix.cond(
        phix.psum(x.sum(), "data") > 0, lambda x: (look(x), x)[1], lambda x: x, x),
    "checkpoint": lambda look, x: phix.checkpoint(lambda x: (look(x), x * 2.0)[1])(x),
    "jit": lambda look, x: phix.jit(lambda x: (look(x), x * 2.0)[1])(x),
    "grad": lambda look, x: phix.grad(lambda x: (look(x), (x * x).sum())[1])(x),
}  # fmt: skip


@pytest.mark.parametrize("name", UNUSED)
def test_what_one_rank_does_not_use_is_sent_all_the_same(rng, name):
    """Other ranks may use theirs, and wait for this one."""
    x = rng.normal(size=5)
    sent = {}
    for used in (True, False):
        mesh = mirrored(data=2)

        def look(v, used=used):
            total = phix.psum(ops.sin(v), "data")
            if used:
                phix.debug.callback(lambda v: None, total)

        run = on(mesh, lambda x, look=look: UNUSED[name](look, x), "data", "data")
        sent[used] = steps(mesh, run, x)[1]
    assert len(sent[True]) > 0 and sent[True] == sent[False]


def test_ctrl_c_waits_for_the_end_of_a_step():
    # a process that was started in the background ignores the signal
    ours, reached = signal.default_int_handler, []
    before = signal.signal(signal.SIGINT, ours)
    try:
        with pytest.raises(KeyboardInterrupt), in_flight.Undisturbed():
            signal.raise_signal(signal.SIGINT)
            reached.append(True)
        assert reached and signal.getsignal(signal.SIGINT) is ours
    finally:
        signal.signal(signal.SIGINT, before)


def chain(rng, count):
    """A random chain of kernels and collectives, in loops as well."""
    plan = [(rng.integers(7), *rng.integers(0, 100, 2)) for _ in range(count)]

    def program(x):
        values = [x, x * 0.5]
        for what, one, other in plan:
            a, b = values[one % len(values)], values[other % len(values)]
            made = [
                lambda a, b: phix.psum(a, "data") / 2 + 0 * b,
                lambda a, b: phix.all_gather(a, "data").mean(0) - b,
                lambda a, b: phix.psum(a * b, "data"),
                lambda a, b: ops.tanh(a) @ b,
                lambda a, b: ops.tanh(a + b),
                lambda a, b: ops.cumsum(a, 0) * 0.1 + b,
                lambda a, b: phix.scan(
                    lambda c, _: (ops.tanh(phix.psum(c, "data")) + b @ b, None), a, length=2)[0],
            ]  # fmt: skip
            values.append(ops.tanh(made[what](a, b)))
        return values[-1], sum(values)

    return program


@pytest.mark.parametrize("seed", range(3))
def test_programs_with_steps_under_way_give_what_they_give_without(seed):
    """The mesh looks at the arrays."""
    rng = np.random.default_rng(seed)
    mesh, program, x = deferred(data=2), chain(rng, 24), rng.normal(size=(4, 4))
    run, plain = (on(mesh, program, "data", "data", disable=off) for off in ((), ORDER))
    program_on = lambda run: [np.asarray(v) for v in run(x)]  # noqa: E731
    for one, other in zip(program_on(run), program_on(plain)):
        np.testing.assert_array_equal(one, other)


# -- what native code begins ---------------------------------------------------------------------
def begun_events(mesh):
    """What a mesh was asked for since the last time, with nothing wrong and nothing under way."""
    group = mesh.groups["data"]
    events, group.events = group.events, []
    assert not group.wrong and not group.under_way and group.busy.tolist() == [0, 0]
    return events


@pytest.mark.parametrize("seed", range(4))
def test_programs_that_native_code_begins_steps_in(seed):
    """Of more steps than stand in one function, with sums by pieces where there are four ranks."""
    rng = np.random.default_rng(seed)
    size, rows = ((2, 4), (4, 40))[seed % 2]
    mesh, program = begun(data=size), chain(rng, 24 if seed < 2 else 70)
    x = rng.normal(size=(rows, rows)) / rows
    run, plain, host = (
        on(m, program, "data", "data", disable=off)
        for m, off in ((mesh, ()), (mesh, ORDER), (mirrored(data=size), ()))
    )
    found = [np.asarray(v) for v in run(x)]
    events = begun_events(mesh)
    under_way = np.cumsum([{"b": 1, "e": -1, "g": 0}[e[0]] for e in events])
    assert 1 < max(under_way) <= 8
    assert events.count("go on") == events.count("begin exchange")
    assert bool(events.count("go on")) == (size == 4)
    for other in (plain(x), host(x)):
        for one, two in zip(found, other):
            np.testing.assert_allclose(one, two, rtol=1e-12)
    assert max(np.cumsum([{"b": 1, "e": -1, "g": 0}[e[0]] for e in begun_events(mesh)])) == 1
    text = str(run.lower(x).as_text("loop ir"))
    assert "begin MPI_I" in text and "wait for MPI_I" in text and "host" not in text


def test_sums_by_pieces_go_on_in_the_order_in_which_they_began(rng):
    """Before a later step is waited for, and before any step that is not begun."""
    mesh = begun(data=4)

    def program(x):
        first, second = phix.psum(x, "data"), phix.psum(x * x, "data")
        third = phix.all_gather(x, "data")  # needed first
        return ops.tanh(third).sum(0), ops.tanh(second), ops.tanh(first)

    x = rng.normal(size=(40, 40))
    found = on(mesh, program, "data", "data", disable="bundle_sums")(x)
    for one, other in zip(found, (4 * np.tanh(x), np.tanh(4 * x * x), np.tanh(4 * x))):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    events = [e for e in begun_events(mesh) if not e.startswith("begin")]
    assert events == ["end exchange", "go on", "end exchange", "go on", "end gather"]


def test_what_native_code_has_begun_ends_with_an_error(rng):
    """MPI refuses to begin another step: what is under way is waited for, in loops too."""
    pytest.importorskip("mpi4py", reason="no mpi4py here: pip install phix[mpi]")
    step, *args = layers(rng, 3)
    mesh = begun(data=2)
    group: Any = mesh.groups["data"]
    run = on(mesh, step, (None, "data", "data"), disable="bundle_sums")
    whole = [np.asarray(v) for v in phix.tree.leaves(run(*args))]
    begins = begun_events(mesh).count("begin sum")

    def looped(ws, x, y):
        return phix.scan(lambda ws, _: step(ws, x, y), ws, length=3)

    in_loop = on(mesh, looped, (None, "data", "data"), disable="bundle_sums")
    for refused in (1, 2, begins, begins + 2):
        answers = iter([0] * (refused - 1) + [3] + [0] * 99)
        group.at_begin = lambda answers=answers: next(answers)
        which = run if refused <= begins else in_loop
        with pytest.raises(CollectiveError, match=f"^psum over 'data' at {__file__}:.*MPI refuses"):
            which(*args)
        events = begun_events(mesh)
        assert events.count("begin sum") == events.count("end sum") == refused - 1
    group.at_begin = lambda: 0
    for one, other in zip(whole, phix.tree.leaves(run(*args))):
        np.testing.assert_array_equal(one, other)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
def test_what_native_code_has_begun_ends_with_ctrl_c(rng):
    """It comes while a loop runs beside a sum. No function of Python can stand for the wait: the
    exception is raised already."""
    mesh = begun(data=2)
    group: Any = mesh.groups["data"]
    waited = ctypes.cast(ctypes.CDLL(None).time, ctypes.c_void_p).value  # writes one word
    group.port.table[PLACES["MPI_Wait"]] = waited

    def program(x):
        total = phix.psum(x, "data")
        turn = lambda _, c: ops.tanh(c @ x)  # noqa: E731
        return total, phix.fori_loop(0, 10**9, turn, ops.tanh(x))

    run, x = on(mesh, program, "data", "data", disable="bundle_sums"), rng.normal(size=(30, 30))
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    group.at_begin = lambda: int(signal.setitimer(signal.ITIMER_REAL, 0.1)[0])
    try:
        with pytest.raises(KeyboardInterrupt):
            run(x)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert group.events == ["begin sum"] and group.busy.tolist() == [0, 0]


# -- the steps -----------------------------------------------------------------------------------
class Room:
    """A communicator of ranks that come one after the other: the first round says what each sends,
    the second what each receives."""

    def __init__(self, size: int) -> None:
        self.size, self.rank, self.calls = size, 0, 0
        self.sent: list[list[np.ndarray]] = [[] for _ in range(size)]
        self.is_known = 0  # how many calls of all ranks are known

    def _next(self, x: np.ndarray) -> list[np.ndarray] | None:
        number, self.calls = self.calls, self.calls + 1
        mine = self.sent[self.rank]
        mine[number:] = [x.copy()]
        return [s[number] for s in self.sent] if number < self.is_known else None

    def Allgather(self, x: np.ndarray, out: np.ndarray) -> None:
        found = self._next(x)
        out[...] = 0
        if found is not None:
            out.reshape(-1)[...] = np.concatenate([f.reshape(-1) for f in found])

    def Alltoall(self, x: np.ndarray, out: np.ndarray) -> None:
        found = self._next(x)
        out[...] = 0
        if found is not None:
            out[...] = np.concatenate([f.reshape(self.size, -1)[self.rank] for f in found])

    def Allreduce(self, x: Any, out: np.ndarray) -> None:
        assert "IN_PLACE" in repr(x)
        found = self._next(out)
        if found is not None:
            out[...] = sum(found)


def summed(parts: list[np.ndarray]) -> tuple[list[np.ndarray], int]:
    """What each rank has of a sum, and how many calls of MPI it takes."""
    size = len(parts)
    room: Any = Room(size)
    outs = [np.full_like(p, 7) for p in parts]
    for known in range(5):
        room.is_known = known
        for rank, (part, out) in enumerate(zip(parts, outs)):
            room.rank, room.calls = rank, 0
            Group("data", size, rank, room).run("sum", (), part, out)
    return outs, room.calls


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("dtype", ["float32", "float16", "complex128", "int32"])
def test_sums_are_made_in_the_order_of_the_ranks(size, dtype, rng):
    pytest.importorskip("mpi4py", reason="no mpi4py here: pip install phix[mpi]")
    for count, calls in ((5, 1), (20001, 3 if 20001 % size else 2)):
        parts = [(90 * rng.normal(size=count)).astype(dtype) for _ in range(size)]
        total = parts[0].astype("float32" if dtype == "float16" else dtype)
        for part in parts[1:]:
            total = total + part
        outs, made = summed(parts)
        assert made == (1 if size == 2 and dtype != "float16" else calls)
        for out in outs:
            np.testing.assert_array_equal(out, total.astype(dtype))


# -- Paddle's names ------------------------------------------------------------------------------
def refused(match, f, *args, **axes):
    mesh = phix.parallel.mesh(axes or {"data": 2}, virtual=True)
    with pytest.raises(PhixError, match=match):
        phix.parallel.spmd(f, mesh, "data", "data")(*args)


def test_rings_that_are_not_there():
    with pytest.raises(
        ArgumentError, match=r"all_reduce.*ring_id 0 is an axis of a mesh, and there"
    ):
        ops.all_reduce(np.ones(2))
    x = np.ones((2, 3))
    refused(r"barrier.*ring_id is in \[0, 1\), since there are the axes data, found 1",
            lambda x: ops.barrier(x, 1), x)  # fmt: skip
    refused("nranks is the size of the axis 'data', 2, found 3", lambda x: ops.c_split(x, 0, 3), x)
    refused("nranks is the size", lambda x: ops.c_concat(x, 0, 1, 0, True, True), x)
    refused(r"rank is in \[0, 2\), found 2", lambda x: ops.partial_allgather(x, 2, 2), x)
    refused(r"root_id is in \[0, 2\), found -1", lambda x: ops.reduce(x, 0, -1), x)
    refused(r"root is in \[0, 2\), found 2", lambda x: ops.broadcast(x, root=2), x)
    lanes = phix.vmap(lambda x: ops.mp_allreduce_sum(x), axis_name="i")
    np.testing.assert_array_equal(lanes(x), np.full((2, 3), 2.0))


def test_calls_of_communication_that_do_not_fit():
    x = np.ones((2, 3))
    refused("dim 1 of float64.1, 3. is divided among the 2", lambda x: ops.c_split(x, 0, 2), x)
    refused("dim 0 of float64.1, 3. is divided", lambda x: ops.reduce_scatter(x), x)
    refused("dim 0 of float64.1, 3. is divided", lambda x: ops.c_scatter(x), x)
    refused("has a dim that is divided", lambda x: ops.c_split(x.sum()), x)
    refused("has a dim along which", lambda x: ops.c_concat(x.sum(), 0, 2, 0, True, True), x)
    refused("reduce_type is 0 .sum.", lambda x: ops.all_reduce(x, 0, 7), x)
    refused("bools are brought together by any", lambda x: ops.all_reduce(x > 0), x)
    refused("bools are brought together by any", lambda x: ops.all_reduce(x, 0, 6), x)
    refused(
        "the mean .reduce_type 4. is one of floats",
        lambda x: ops.all_reduce(x, 0, 4),
        x.astype(int),
    )
    entropy = ops.c_softmax_with_cross_entropy
    refused("label has classes, ints", lambda x: entropy(x, x)[1], x)
    refused("label has a class for each row", lambda x: entropy(x, np.arange(2))[1], x)


def test_labels_that_are_no_class_and_low_precision():
    mesh = phix.parallel.mesh({"data": 2}, virtual=True)
    label = np.array([0, 4, -1, 7])
    logits = np.arange(16.0).reshape(4, 4) % 5
    run = phix.parallel.spmd(
        lambda x: ops.c_softmax_with_cross_entropy(x, label, ignore_index=7),
        mesh, ((None, "data"),), ((None, "data"), None),
    )  # fmt: skip
    loss = np.asarray(run(logits)[1])[:, 0]
    shares = np.exp(logits[0]) / np.exp(logits[0]).sum()
    np.testing.assert_allclose(loss, [-np.log(shares[0]), np.nan, np.nan, 0])
    wide = np.full((4, 30000), 9.0, np.float16)
    softmax, loss = run(wide)
    assert softmax.dtype == loss.dtype == np.float16
    assert loss[0].item() == pytest.approx(np.log(30000), rel=1e-3)


def test_what_is_the_same_in_all_lanes_of_a_mesh_stays_so_behind_a_branch():
    """So may be a result of its own, beside one that differs."""

    def function(x):
        total = phix.psum(x, "data")
        is_small = ops.sum(total) < 9.0
        return phix.cond(is_small, lambda t, x: (t, x), lambda t, x: (2.0 * t, -x), total, x)

    mesh = phix.parallel.mesh({"data": 2}, virtual=True)
    run = phix.parallel.spmd(function, mesh, "data", (None, "data"))
    for x, sign in ((np.arange(4.0), 1), (np.arange(4.0) + 1, -1)):
        total, parts = run(x)
        np.testing.assert_array_equal(total, (x[:2] + x[2:]) * (1 if sign > 0 else 2))
        np.testing.assert_array_equal(parts, sign * x)


def test_rows_of_a_table_in_parts(rng):
    mesh = phix.parallel.mesh({"data": 2}, virtual=True)
    table, ids = rng.normal(size=(6, 2)), np.array([[0, 5], [3, 2]])

    def rows(table, ids):
        here = ids - phix.axis_index("data") * table.shape[0]
        return phix.psum(ops.c_embedding(table, here), "data")

    run = phix.parallel.spmd(rows, mesh, ("data", None), None)
    np.testing.assert_array_equal(run(table, ids), table[ids])
    slopes = phix.grad(lambda t: (run(t, ids) ** 2).sum())(table)
    expected = np.where(np.isin(np.arange(6), ids)[:, None], 2 * table, 0)
    np.testing.assert_allclose(slopes, expected)


# -- calls in native code ------------------------------------------------------------------------
def test_native_code_calls_and_leaves_where_the_answer_is_an_error(rng):
    """A stand-in for MPI: what it refuses is an error with the step and the line, and no more."""
    mesh = called(data=2)
    group = mesh.groups["data"]

    def program(x):
        a = phix.psum(x.sum(), "data")
        b = phix.psum(a * x, "data")
        own = lambda c: phix.pvary(ops.tanh(c), "data")  # noqa: E731
        return phix.scan(lambda c, _: (phix.psum(own(c), "data"), None), b, length=3)[0]

    run, x = on(mesh, program), rng.normal(size=5)
    wanted = 4 * x.sum() * x
    for _ in range(3):
        wanted = 2 * np.tanh(wanted)
    np.testing.assert_allclose(run(x), wanted, rtol=1e-12)
    assert group.calls == [1, 5, 5, 5, 5] and not group.steps
    text = run.lower(x).as_text("loop ir")
    assert text.count("call MPI_Allreduce(") == 3 and "host" not in text
    code = run.lower(x).as_text("llvm")
    assert not any(str(word) in code for word in group.port.table.tolist() if word > 1 << 16)
    assert fingerprint(run.lower(x).graph) is None
    assert run.lower(x).cost_analysis().uncounted == ("operations of steps between ranks",)
    for disable in ("native_collectives", ("native_collectives", "bundle_sums")):
        np.testing.assert_array_equal(on(mesh, program, disable=disable)(x), run(x))
    assert len(group.steps) == 10
    pytest.importorskip("mpi4py", reason="no mpi4py here: pip install phix[mpi]")
    group.answer = 3
    group.calls.clear()
    with pytest.raises(CollectiveError, match=rf"^psum over 'data' at {__file__}:\d+: MPI refuses"):
        run(x)
    assert group.calls == [1]  # nothing goes on
    group.answer = 0
    np.testing.assert_allclose(run(x), wanted, rtol=1e-12)
