"""Programs as long and as deeply nested as anybody likes: no stack overflows, and the work to
compile grows with the graph, not faster."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections import Counter
from itertools import pairwise
from types import FrameType
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core import dims as dm
from phix.core import settings, stack
from phix.kernels.loops.nodes import Buffer
from phix.kernels.schedule import workspace

# What Python allows, much below its own 1,000.
LIMIT = 450

ARRAYS = """
rng = np.random.default_rng(0)
vector, matrix = (rng.standard_normal(s).astype("float32") for s in (6, (6, 6)))
regular = matrix * 0.1 + np.eye(6, dtype="float32")
image, kernel = (rng.standard_normal((1, 1, n, n)).astype("float32") * 0.1 for n in (5, 3))
turned = np.arange(6)[::-1].copy()
"""

# One step of a chain for each family of ops, and what it starts from.
STEPS = {
    "pointwise": ("ops.tanh(x) * 1.5 + 0.1", "vector"),
    "matmul and relu": ("ops.relu(x @ regular)", "matrix"),
    "solve": ("ops.solve(regular, x)", "vector"),
    "sort": ("ops.sort(x, 0) * -1.0", "vector"),
    "convolution": ("ops.conv2d(x, kernel, (1, 1), (1, 1))", "image"),
    "reduction": ("x - ops.sum(x, axis=[0], keepdim=True) * 0.1", "vector"),
    "cumsum": ("ops.cumsum(x, 0) * 0.1", "vector"),
    "gather": ("ops.gather(x, turned, 0) * 1.1", "vector"),
    "scatter": ("ops.put_along_axis(x, turned, x * 0.5, 0, 'add')", "vector"),
    "views": ("ops.transpose(ops.reshape(x, [3, 12]), [1, 0]).reshape([6, 6]) + 1.0", "matrix"),
    "cond": ("phix.cond(ops.sum(x) > 0, lambda x: x * 0.9, lambda x: x - 1.0, x)", "vector"),
    "scan": ("phix.scan(lambda c, _: (c * 1.1, None), x, None, length=2)[0]", "vector"),
}


def run(code: str, limit: int = LIMIT) -> None:
    """Run code in a process of its own whose stack is low."""
    head = f"import sys\nimport numpy as np\nimport phix\nfrom phix import ops\n{ARRAYS}"
    # what is imported on first use takes a stack of its own
    warm = "phix.jit(phix.grad(lambda x: ops.sum(x)))(vector)\n"
    text = f"{head}{warm}sys.setrecursionlimit({limit})\n{textwrap.dedent(code)}"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-200:] + done.stderr[-2000:]


CHAIN = """
print("the chain of {family!r}")
def chain(x):
    for _ in range(120):
        x = {step}
    return x

phix.jit(phix.value_and_grad(lambda x: ops.sum(chain(x))), disable="roll_steps")({start})
"""
AT_ONCE = 4  # families in a process: starting one takes as long as a family does


@pytest.mark.parametrize("first", range(0, len(STEPS), AT_ONCE))
def test_long_chains_compile_on_a_low_stack(first):
    families = list(STEPS)[first : first + AT_ONCE]
    steps = [(name, *STEPS[name]) for name in families]
    run("".join(CHAIN.format(family=n, step=step, start=start) for n, step, start in steps))


def test_ten_thousand_ops_go_through_every_transformation():
    run("""
    def chain(x):
        for _ in range(5000):
            x = ops.sin(x) + 0.1
        return x

    total = lambda x: ops.sum(chain(x))
    graph = phix.make_graph(chain)(vector)
    assert len(graph.equations) == 10_000
    assert hash(phix.parse_graph(str(graph))) == hash(graph)
    graph(vector)
    phix.grad(total)(vector)
    phix.jvp(chain, (vector,), (vector,))
    phix.vmap(chain)(matrix)
    phix.jet(chain, (vector,), ([vector],))
    phix.decompose(chain)(vector)
    phix.make_graph(phix.grad(total))(vector)
    del graph
    """)


def test_what_waits_long_is_computed_from_its_start_and_comes_out_the_same():
    def network(x, w):
        for _ in range(12):
            x = ops.relu(x @ w) + ops.sort(x, 0)
        return ops.cumsum(x, 0)

    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((3, 4)), rng.standard_normal((4, 4)) * 0.3
    expected = phix.jit(network)(x, w).numpy()
    with phix.debug.settings(longest_wait=1):
        found = phix.jit(lambda x, w: network(x, w))(x, w).numpy()
    np.testing.assert_array_equal(found, expected)


# -- nested graphs -------------------------------------------------------------------------------
NESTED = """
def nested(depth):
    graph = phix.make_graph(ops.sin)(vector)
    for _ in range(depth):
        inner = graph
        graph = phix.make_graph(
            lambda x: phix.cond(ops.sum(x) > -1e9, lambda x: inner(x)[0] * 1.01, lambda x: x, x)
        )(vector)
    return graph
"""


def test_a_thousand_conds_inside_each_other_print_parse_and_decompose():
    run(f"""{NESTED}
    graph = nested(1000)
    again = phix.parse_graph(str(graph))
    assert again == graph and hash(again) == hash(graph)
    phix.decompose(graph)(phix.spec([6], "float32"))
    assert not graph.has_effects and not graph.axis_names
    """)


def test_conds_inside_each_other_compile_and_differentiate():
    run(f"""{NESTED}
    graph = nested(60)
    f = lambda x: graph(x)[0]
    expected = np.sin(vector) * 1.01**60
    np.testing.assert_allclose(phix.jit(f)(vector), expected, rtol=1e-4)
    slope = phix.grad(lambda x: ops.sum(f(x)))(vector)
    np.testing.assert_allclose(slope, np.cos(vector) * 1.01**60, rtol=1e-4)
    """)


def test_a_stack_of_its_own_is_the_same_thread_to_who_is_called():
    seen = []

    @stack.nests
    def down(level: int) -> int:
        with lock:
            seen.append((phix.core.context.current(), phix.core.rewrites.left_out()))
            return down(level - 1) + 1 if level else 0

    lock = stack.Lock()
    interpreter = phix.core.interpreter.Interpreter(phix.core.context.current())
    names = frozenset({"fuse"})
    with phix.core.context.transformation(interpreter), phix.core.rewrites.without(names):
        assert down(500) == 500
    assert set(seen) == {(interpreter, names)}


def test_errors_come_from_a_stack_of_their_own():
    @stack.nests
    def down(level: int) -> None:
        if not level:
            raise KeyError("at the bottom")
        down(level - 1)

    with pytest.raises(KeyError, match="at the bottom"):
        down(100)


# -- parts of long programs ----------------------------------------------------------------------
def programs() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((5, 4)), rng.standard_normal((4, 4)) * 0.4

    def layers(x, w):
        for _ in range(4):
            x = ops.softmax(x @ w, 1) + ops.sort(x, 1)
        return ops.sum(x), x

    def loops(x, w):
        for k in range(3):
            x = phix.fori_loop(0, k + 2, lambda i, c: c * 0.9 + i, x)
            x = phix.cond(ops.sum(x) > 0, lambda x: x @ w, lambda x: x - 1.0, x)
            x, rows = phix.scan(lambda c, r: (c + r, ops.sum(c)), x, ops.full([3, 5, 4], 0.5))
            x = x + ops.sum(rows)
        return phix.while_loop(lambda c: ops.sum(c) > 1.0, lambda c: c * 0.5, x), x

    return {"layers": (layers, (x, w)), "loops": (loops, (x, w))}


@pytest.mark.parametrize("name", programs())
@pytest.mark.parametrize("is_known", [True, False])
def test_parts_of_a_program_give_what_it_gives_whole(name, is_known):
    function, args = programs()[name]
    spec = None if is_known else [phix.spec(["n", 4], "float64"), phix.spec([4, 4], "float64")]
    if name == "loops" and not is_known:
        pytest.skip("the rows of the loop have a known size")
    apart = ["fuse", "join_loops"]
    expected = phix.jit(function, input_spec=spec, disable=apart)(*args)
    with phix.debug.settings(most_steps=1, steps_of_a_part=2, most_nested_loops=0):
        jitted = phix.jit(lambda *args: function(*args), input_spec=spec, disable=apart)
        for found, wanted in zip(jitted(*args), expected):
            np.testing.assert_array_equal(found.numpy(), wanted.numpy())
        assert "@part" in jitted.lower(*(spec or args)).as_text("llvm")


def test_equal_loops_are_one_function():
    def loops(x):
        for _ in range(40):
            x = phix.scan(lambda c, _: (c * 1.1, None), x, None, length=3)[0]
        return x

    text = phix.jit(loops).lower(np.ones(16, np.float32)).as_text("llvm")
    assert 40 > text.count("define internal void @part") >= 1
    bounds = settings.current()
    assert text.count("define internal void @part") <= 1 + -(-40 // bounds.steps_of_a_part)


# -- work ----------------------------------------------------------------------------------------
def work(function: Any, start: Any, disable: list[str]) -> int:
    """How many calls of phix's functions compiling takes."""
    counts: Counter[str] = Counter()

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and "/phix/" in frame.f_code.co_filename:
            counts[frame.f_code.co_name] += 1

    jitted = phix.jit(function, disable=["use_outputs", "reuse_temps", *disable])
    sys.setprofile(watch)
    try:
        jitted.lower(start).compile()
    finally:
        sys.setprofile(None)
    return counts.total()


def chain_of(family: str, count: int) -> tuple[Any, Any]:
    step, start = STEPS[family]
    names: dict[str, Any] = {"np": np, "phix": phix, "ops": ops}
    exec(ARRAYS, names)

    def chain(x):
        for _ in range(count):
            x = eval(step, names | {"x": x})
        return ops.sum(x)

    return phix.grad(chain), names[start]


# Passes are the same for all: two families always, the others where there is time.
ALSO = [pytest.param(f, marks=pytest.mark.prove) for f in ("reduction", "gather", "cumsum")]


@pytest.mark.parametrize("disable", [[], ["roll_steps"]], ids=["rolled up", "as it is"])
@pytest.mark.parametrize("family", ["pointwise", "matmul and relu", *ALSO])
def test_work_to_compile_grows_with_the_graph(family, disable):
    works = []
    for count in (40, 80, 120):
        function, start = chain_of(family, count)
        works.append(work(function, start, disable))
    first, second = (b - a for a, b in pairwise(works))
    assert second < 1.3 * first, works  # the same steps; five thirds would be quadratic


def test_slots_of_temps_are_found_without_looking_at_all():
    temps = [Buffer(f"t{k}", np.dtype("float32"), (k % 7 + 20,), "temp") for k in range(3000)]
    plan = workspace._Slots()
    ordered = sorted(temps, key=lambda t: -int(dm.product(t.dims)))
    looks = 0
    original = workspace._Slot.is_free

    def is_free(slot: Any, begin: int, end: int) -> bool:
        nonlocal looks
        looks += 1
        return original(slot, begin, end)

    workspace._Slot.is_free = is_free  # type: ignore[method-assign]
    try:
        for buffer in ordered:
            begin = int(buffer.name[1:])
            plan.place(buffer, begin, begin + 40)
    finally:
        workspace._Slot.is_free = original  # type: ignore[method-assign]
    assert looks < 300 * len(temps)
    assert sum(len(slot.buffers) for slot in plan.slots) == len(temps)
    for slot in plan.slots:
        for (_, end), (begin, _) in zip(slot.spans, slot.spans[1:]):
            assert end <= begin


def test_a_jitted_function_that_calls_itself_is_told_so():
    f = phix.jit(lambda x: f(x + 1.0))
    with pytest.raises(phix.errors.NestingError, match=r"traced inside \d+ other traces") as error:
        f(1.0)
    assert isinstance(error.value, RecursionError)
    assert phix.jit(lambda x: x * 2.0)(3.0).item() == 6.0  # the count is back where it was
