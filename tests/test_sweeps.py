"""phix.parallel.map: order, what is sent, and what goes wrong in a worker."""

from __future__ import annotations

import multiprocessing
import pickle
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import phix
from phix import ops
from phix.core.errors import ArgumentError, TaskError
from phix.parallel import sweeps

pytestmark = pytest.mark.unoptimised

XS = [np.arange(1.0, n + 1) for n in (3, 1, 3, 2, 3)]
TOTALS = [14.0, 1.0, 14.0, 5.0, 14.0]


@phix.jit
def squares(x):
    return (x * x).sum()


def fails_at_two(x):
    if len(x) == 2:
        raise ZeroDivisionError("two of them")
    return squares(x)


class Unsendable(Exception):
    def __init__(self, a, b):
        super().__init__(f"{a} and {b}")


def fails_unsendably(x):
    raise Unsendable(1, 2)


class Recorder:
    """Does tasks at once, from their pickles, as workers in other processes would."""

    def __init__(self):
        self.tasks = []

    def submit(self, task, *args):
        future = Future()
        self.tasks.append(args)
        future.set_result(pickle.loads(pickle.dumps(task))(*pickle.loads(pickle.dumps(args))))
        return future


def totals(found):
    return [v.item() for v in found]


def test_results_are_in_order_on_every_kind_of_executor():
    assert totals(phix.parallel.map(squares, XS)) == TOTALS
    assert phix.parallel.map(squares, [], Recorder()) == []
    with ThreadPoolExecutor(2) as pool:
        assert totals(phix.parallel.map(squares, iter(XS), pool)) == TOTALS
        alone = type("MapAlone", (), {"map": lambda self, f, xs: list(pool.map(f, xs))})()
        assert totals(phix.parallel.map(squares, XS, alone)) == TOTALS
    assert totals(phix.parallel.map(squares, XS, Recorder())) == TOTALS


def test_other_processes():
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        assert totals(phix.parallel.map(squares, XS, pool)) == TOTALS
        w = phix.to_tensor([2.0])
        assert totals(phix.parallel.map(lambda x: (w * x).sum(), XS, pool)) == [12, 2, 12, 6, 12]
        with pytest.raises(TaskError, match="map of fails_at_two: input 3: ZeroDivisionError: two"):
            phix.parallel.map(fails_at_two, XS, pool)


def test_clients_of_dask_and_ray_get_the_function_once():
    class Client(Recorder):
        scattered = 0

        def scatter(self, payload, broadcast):
            assert broadcast
            self.scattered += 1
            return payload

    class Ray:
        puts = 0

        def put(self, payload):
            self.puts += 1
            return payload

        def remote(self, task):
            return type("Remote", (), {"remote": staticmethod(task)})

        def get(self, refs):
            return refs

    client, ray = Client(), Ray()
    assert totals(phix.parallel.map(squares, XS, client)) == TOTALS and client.scattered == 1
    assert totals(phix.parallel.map(squares, XS, ray)) == TOTALS and ray.puts == 1


def test_workers_make_a_function_once_and_graphs_one_a_kind(monkeypatch):
    monkeypatch.setattr(sweeps, "_loaded", {})
    traces = []

    def closed(x):
        traces.append(x["a"].shape)
        return {"sum": ops.sum(x["a"]) * x["k"], "twice": 2 * x["a"]}

    inputs = [{"a": x, "k": np.float64(n)} for n, x in enumerate(XS)]
    found = phix.parallel.map(closed, inputs, Recorder())
    assert len(traces) == 3 and len(sweeps._loaded) == 1
    for n, (one, x) in enumerate(zip(found, XS)):
        assert one["sum"].item() == n * x.sum()
        np.testing.assert_array_equal(one["twice"], 2 * x)
    for k in range(12):
        phix.parallel.map(lambda x, k=k: k * x, XS[:1], Recorder())
    assert len(sweeps._loaded) == sweeps._MOST_LOADED


def test_results_are_those_of_the_function_called():
    """A number of Python has all its digits, and comes back as one, whatever executor there is."""
    w = phix.ones([1])
    calls = (lambda x: x * 3, lambda x: (x, w * x, "text") if x > 0 else None, lambda x: -x)
    inputs = [0.1, 1e300, 2**70, -0.0, 0.0, True, np.float64(0.1)]
    with ThreadPoolExecutor(1) as pool:
        for call in calls[:1]:
            assert phix.parallel.map(call, inputs, pool) == [call(x) for x in inputs]
    for x, found in zip(inputs[:6], phix.parallel.map(calls[0], inputs, Recorder())):
        assert repr(found) == repr(3 * x)
    for x, found in zip(inputs, phix.parallel.map(calls[2], inputs[:6], Recorder())):
        assert repr(found) == repr(-x)
    found = phix.parallel.map(calls[1], [0.5, -1.0], Recorder())
    assert found[1] is None and found[0][::2] == (0.5, "text") and found[0][1].tolist() == [0.5]
    with pytest.raises(TaskError, match="input 1: ZeroDivisionError"):
        phix.parallel.map(lambda x: w / (1 / x), [1.0, 0.0], Recorder())


def test_errors_of_tasks_say_which_input():
    for executor in (None, Recorder()):
        with pytest.raises(TaskError, match="input 3: ZeroDivisionError: two of them") as found:
            phix.parallel.map(fails_at_two, XS, executor)
        assert found.value.index == 3 and isinstance(found.value.__cause__, ZeroDivisionError)
        assert pickle.loads(pickle.dumps(found.value)).index == 3
    with pytest.raises(TaskError, match="input 0: Unsendable: 1 and 2") as found:
        phix.parallel.map(fails_unsendably, XS, Recorder())
    assert "fails_unsendably" in str(found.value.__cause__)


def test_functions_that_cannot_be_sent():
    with pytest.raises(ArgumentError, match=r"cannot be sent: no pickle holds it .* be traced"):
        phix.parallel.map(lambda x: float(x.sum()), XS, Recorder())
    with pytest.raises(ArgumentError, match="map: executor must be an executor"):
        phix.parallel.map(squares, XS, 3)
