"""Large results in the memory of results that nobody holds any more."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

import phix
from phix import ops
from phix.core import dtypes as dt
from phix.core import places
from phix.core.errors import OutOfMemoryError
from phix.kernels.cpu import results

pytestmark = pytest.mark.unoptimised

LARGE = (512, 512)
_Block = results._Block


@pytest.fixture(autouse=True)
def _no_blocks() -> Iterator[None]:
    results.release()
    yield
    results.release()


def address(array: np.ndarray) -> int:
    return int(array.ctypes.data)


def test_memory_of_a_dropped_result_is_used_again() -> None:
    first = results.empty(LARGE, dt.float32)
    where = address(first)
    del first
    assert address(results.empty(LARGE, dt.float32)) == where


@pytest.mark.parametrize("view", [lambda a: a, lambda a: a[3:, ::2], lambda a: memoryview(a)])
def test_memory_that_a_view_holds_is_left_alone(view: object) -> None:
    first = results.empty(LARGE, dt.float32)
    first[:] = 1.0
    held = view(first)  # type: ignore[operator]
    del first
    second = results.empty(LARGE, dt.float32)
    second[:] = 2.0
    assert np.asarray(held).min() == 1.0
    del held
    third = results.empty(LARGE, dt.float32)
    assert not np.shares_memory(second, third)


def test_results_of_a_program_keep_their_values_while_they_are_held() -> None:
    double = phix.jit(lambda x: x * 2.0)
    values = [np.full(LARGE, k, np.float32) for k in range(2 * results.MOST_BLOCKS)]
    made = [double(x) for x in values]
    for x, y in zip(values, made):
        np.testing.assert_array_equal(y, 2 * x)
    array = np.asarray(made[3])
    del made
    double(values[0])
    np.testing.assert_array_equal(array, 6.0)


def test_arrays_handed_to_others_hold_their_memory() -> None:
    double = phix.jit(lambda x: x * 2.0)
    shared = np.from_dlpack(double(np.full(LARGE, 3.0, np.float32)))
    double(np.full(LARGE, 5.0, np.float32))
    np.testing.assert_array_equal(shared, 6.0)


def test_a_block_serves_results_of_nearly_its_size() -> None:
    first = results.empty((1000, 1000), dt.float32)
    where = address(first)
    del first
    assert address(results.empty((900, 1000), dt.float32)) == where
    assert address(results.empty((300, 1000), dt.float32)) != where


def test_results_of_a_huge_page_and_more_start_at_one() -> None:
    """Off its beginning, where NumPy's arrays are."""
    for shape, page in (((1000, 500), 4096), ((1024, 512), 2 << 20), ((3, 1 << 20), 2 << 20)):
        for _ in range(2):
            assert address(results.empty(shape, dt.float32)) % page == 2048


def test_small_and_huge_results_have_memory_of_their_own() -> None:
    assert results.allocator((10,), dt.float32) is np.empty
    assert results.allocator(LARGE, dt.float32) is results.empty
    assert results.allocator((results.MOST_BYTES // 8 + 1,), dt.float64) is not results.empty


def test_blocks_kept_are_bounded() -> None:
    held = [results.empty(LARGE, dt.float64) for _ in range(3 * results.MOST_BLOCKS)]
    assert len(results._blocks) <= results.MOST_BLOCKS
    assert len({address(a) for a in held}) == len(held)


def test_threads_never_share_a_block() -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(200):
            array = results.empty(LARGE, dt.float32)
            array[::64] = number
            if (array[::64] != number).any():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_large_result_can_be_donated() -> None:
    step = phix.jit(lambda x: x + 1.0, donate_argnums=0)
    x = step(phix.to_tensor(np.zeros(LARGE, np.float32)))
    for number in range(2 * results.MOST_BLOCKS):
        where = address(x.data)
        x = step(x)
        assert address(x.data) == where
        if number == 3:
            results.release()  # it is donated all the same
    np.testing.assert_array_equal(x, 2 * results.MOST_BLOCKS + 1.0)


def test_a_large_result_seen_by_others_is_not_overwritten() -> None:
    step = phix.jit(lambda x: x + 1.0, donate_argnums=0)
    x = step(phix.to_tensor(np.zeros(LARGE, np.float32)))
    array = np.asarray(x)
    assert address(step(x).data) != address(array)
    np.testing.assert_array_equal(array, 1.0)


@pytest.mark.parametrize("shape", [LARGE, (1 << 14, 1 << 14)], ids=["large", "huge"])
def test_where_memory_runs_out_blocks_are_given_back_first(monkeypatch, shape) -> None:
    held = results.empty(LARGE, dt.float32)
    blocks, wanted = [weakref.ref(b) for b in results._blocks], []

    def stingy(*args: object) -> np.ndarray:
        wanted.append(args)
        if results._blocks:
            raise MemoryError("the system has no more")
        return _Block((LARGE[0] * LARGE[1] * 8 + results._HUGE_PAGE,), np.uint8)

    monkeypatch.setattr(results, "_Block", stingy)  # what large results are views of
    monkeypatch.setattr(places.Host, "allocate", lambda self, *args: stingy(*args))  # huge ones
    results.allocator(shape, dt.float64)(shape, dt.float64)
    assert len(wanted) == 2 and blocks[0]() is not None, "a result is in it"
    del held
    assert blocks[0]() is None


def test_no_room_at_all_is_a_typed_error() -> None:
    huge = (1 << 30, 1 << 28)
    with pytest.raises(OutOfMemoryError, match=r"out of memory on cpu: asked for 2305843009213693"):
        results.allocator(huge, dt.float64)(huge, dt.float64)
    with pytest.raises(MemoryError, match="use smaller batches"):
        phix.jit(lambda x: ops.expand(x, huge) + 1.0)(np.float64(1.0))


# -- no room for what native code computes on its way --------------------------------------------
# A sort has memory of its own inside of its kernel, a large product some for its panels. Each
# program runs where it needs little, then with more and more room until it has enough.
_WITHOUT_ROOM = """
import contextlib, resource, sys
import numpy as np
import phix
from phix import ops

def in_loop(x):
    return phix.fori_loop(0, 3, lambda i, v: v + ops.sort(v * x, 0).sum(), x).sum()

PROGRAMS = {
    "kernel": lambda x: ops.sort(2.0 * x, 0).sum(),
    "kernel in a loop": in_loop,
    "product": lambda x: ops.matmul(x.reshape([2048, -1]), x.reshape([-1, 2048])).sum(),
    "parts": lambda x: in_loop(x) + ops.sort(x - 1.0, 0)[0] + ops.cumsum(x, 0)[-1],
}

def pages():
    return int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()

@contextlib.contextmanager
def with_room(size):
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages() + size, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)

name = sys.argv[1]
settings = dict(most_steps=1, steps_of_a_part=2, most_nested_loops=0) if name == "parts" else {}
with phix.debug.settings(**settings):
    f = phix.jit(PROGRAMS[name], input_spec=[phix.spec(["n"], "float32")])
    little, much = (ops.full([n], 1.0) for n in (4096, 1 << 25))
    found, sizes = f(little).item(), []
    for room in range(60, 1000, 20):
        with with_room(room << 20):
            try:
                f(much)
                break
            except phix.errors.OutOfMemoryError as error:
                assert "for what is computed on the way" in str(error), error
                sizes.append(pages())
    assert len(sizes) > 1 and max(sizes) - min(sizes) < 64 << 20, sizes
    assert f(little).item() == found
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are the system's")
@pytest.mark.parametrize("name", ["kernel", "kernel in a loop", "product", "parts"])
def test_native_code_that_finds_no_room_is_a_typed_error(name: str) -> None:
    env = {**os.environ, "MALLOC_ARENA_MAX": "1"}  # else each thread reserves 64 MiB for its own
    run = subprocess.run(
        [sys.executable, "-c", _WITHOUT_ROOM, name],
        capture_output=True, text=True, check=False, env=env,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
