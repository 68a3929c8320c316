"""The recipe of CONTRIBUTING.md, Adding an op, followed in a copy of the repository."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scratch_copy import ScratchCopy

VERSINE = """
- op: versine
  traits: [promote_float]
  dtypes: [float]
  doc: "1 - cos(x), elementwise, without cancellation near 0."
  test: {ref: 1 - np.cos(x), samples: [{x: "float[3, 4](0.5, 3)"}]}
"""
VERSINE_RULE = """

@rules.decompose("versine")
def versine(x: Any) -> Any:
    half = ops.sin(0.5 * x)
    return 2 * half * half
"""
GUDERMANNIAN = """
- op: gudermannian
  backward: gudermannian_grad
  dtypes: [float]
  inplace: (x -> out)
  doc: "2 atan(tanh(x / 2)), elementwise."
  test: {ref: 2 * np.arctan(np.tanh(x / 2)), samples: [{x: "float[3, 4](-3, 3)"}]}
- backward_op: gudermannian_grad
  forward: gudermannian (Tensor x) -> Tensor(out)
  args: (Tensor x, Tensor out_grad)
  output: Tensor(x_grad)
"""
GUDERMANNIAN_BODY = """

@body("gudermannian")
def gudermannian(x: Expr) -> Expr:
    return 2.0 * atan(tanh(0.5 * x))
"""
GUDERMANNIAN_SLOPE = '    "gudermannian": lambda x: 1 / ops.cosh(x),'

MIRROR = """
- op: mirror
  args: (Tensor x, int axis=0)
  infer_meta: {func: UnchangedInferMeta}
  backward: mirror_grad
  doc: "x with the order along axis reversed."
  test: {ref: "np.flip(x, axis)", samples: [{x: "float[3, 4]", axis: 1}, {x: "float[5]"}]}
- backward_op: mirror_grad
  forward: mirror (Tensor x, int axis) -> Tensor(out)
  args: (Tensor x, Tensor out_grad, int axis=0)
  output: Tensor(x_grad)
  no_need_buffer: x
"""
MIRROR_RULES = """

@rules.normalize("mirror")
def mirror_attrs(x: MetaTensor, axis: int) -> Any:
    return (ax.positive(axis, x.ndim),)


@rules.decompose("mirror_grad")
def mirror_grad(x: Any, out_grad: Any, axis: int) -> Any:
    return ops.mirror(out_grad, axis)


@rules.batch("mirror")
def mirror_batch(batched: Any, x: Any, axis: int) -> Any:
    return ops.mirror(x, axis + 1)
"""
MIRROR_LOWERING = """

@lowering("mirror", "move")
def mirror(b: Builder, x: Value, axis: int) -> Value:
    last = b.dim(x.dims[axis]) - 1
    return reindexed(b, x, lambda i: (*i[:axis], last - i[axis], *i[axis + 1 :]), x.dims)
"""
MIRROR_USES = """
import numpy as np
import phix
from phix import ops

x = np.arange(12.0).reshape(3, 4)
w = np.linspace(1, 2, 12).reshape(3, 4)
f = lambda x: ops.sum(ops.sin(ops.mirror(x, -1)) * w)
for g in (ops.mirror, phix.jit(ops.mirror), phix.vmap(lambda r: ops.mirror(r, 0))):
    flipped = g(x, 1) if g is ops.mirror else g(x)
    axis = 0 if flipped[0, 0].item() == 8.0 else 1
    np.testing.assert_array_equal(flipped, np.flip(x, axis))
wanted = np.cos(x) * w[:, ::-1]
for grad in (phix.grad(f), phix.jit(phix.grad(f))):
    np.testing.assert_allclose(grad(x), wanted, rtol=1e-12)
one = np.ones_like(x)
np.testing.assert_allclose(phix.jvp(f, (x,), (one,))[1], wanted.sum(), rtol=1e-12)
np.testing.assert_allclose(
    phix.jvp(phix.grad(f), (x,), (one,))[1], -np.sin(x) * w[:, ::-1], rtol=1e-12
)
_, (slope,) = phix.jet(f, (x,), ((one,),))
np.testing.assert_allclose(slope, wanted.sum(), rtol=1e-12)
unknown = phix.jit(f, input_spec=[phix.spec(["n", 4], "float64")])
np.testing.assert_allclose(unknown(x), f(x), rtol=1e-12)
"""
TALLY = """
from collections import Counter
from typing import Any

from phix.core import context
from phix.core.interpreter import Interpreter
from phix.core.op import Op


class Tally(Interpreter):
    name = "tally"

    def __init__(self, parent: Interpreter) -> None:
        super().__init__(parent)
        self.counts: Counter[str] = Counter()

    def process(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        self.counts[op.name] += 1
        with context.active(self.parent):
            return self.parent.process(op, inputs, attrs)


def tally(function: Any, *args: Any) -> Counter[str]:
    with context.active(Tally(context.base())) as looking:
        function(*args)
    return looking.counts
"""
PASS = """

def without_names(graph: Graph, around: Around) -> Graph:
    return Graph(graph.inputs, graph.constants, graph.equations, graph.outputs)


PIPELINES["cpu"] = (*PIPELINES["cpu"], GraphPass("a pass of mine", (without_names,)))
"""
ENGINE = """
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core.engines import Launcher, environment
from phix.core.graph import Graph
from phix.core.places import Device, Place
from phix.kernels.engine_base import EngineOfPrimitives, LoopEngine
from phix.kernels.loops.evaluator import evaluate
from phix.kernels.loops.text import program_text
from phix.kernels.plugins import register_backend
from phix.kernels.report.explanation import Explanation
from phix.kernels.schedule.pipeline import lowered


class Storage:
    def __init__(self, array: np.ndarray) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype


class Memory(Device):
    storage = Storage

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype, index: int) -> Storage:
        return Storage(np.empty(shape, dtype))

    def from_host(self, array: np.ndarray, index: int) -> Storage:
        return Storage(array.copy())

    def to_host(self, storage: Storage) -> np.ndarray:
        return storage.array.copy()


class WalkedProgram:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.loops, _ = lowered(graph, (True,) * len(graph.inputs))
        self.solutions = dm.solutions([v.meta.dims for v in graph.inputs])

    @property
    def sections(self) -> dict[str, str]:
        return {"loop ir": program_text(self.loops)}

    def prepare(self) -> None:
        pass

    def launcher(
        self, shapes: tuple[tuple[int, ...], ...], donated: tuple[int, ...] = ()
    ) -> Launcher:
        environment(self.graph, self.solutions, shapes)  # refuses shapes that do not fit

        def launch(*inputs: Storage) -> tuple[Storage, ...]:
            return tuple(map(Storage, evaluate(self.loops, [x.array for x in inputs])))

        return launch


class WalkedEngine(EngineOfPrimitives, LoopEngine):
    name = "walked"
    backends = ("WALKED",)
    flattens = False

    def program(
        self, graph: Graph, contiguous: tuple[bool, ...], place: Place | None
    ) -> WalkedProgram:
        return WalkedProgram(graph)

    def explain(self, graph: Graph, contiguous: tuple[bool, ...]) -> Explanation:
        return Explanation(graph, contiguous)

    def view(self, op_name: str, attrs: tuple[Any, ...]) -> Callable[..., Any] | None:
        return None


register_backend("walked", Memory(), engine=WalkedEngine())
"""
ENGINE_USES = """
import numpy as np
import phix
import phix.kernels.walked
from phix import ops

x = np.arange(6.0).reshape(2, 3)
f = lambda x: ops.sum(ops.softmax(ops.matmul(x, ops.transpose(x, [1, 0]))) * ops.sort(x)[:, :2])
there = phix.to_tensor(x, place="walked")
for g in (f, phix.grad(f), phix.jit(phix.grad(f)), phix.vmap(lambda r: ops.cumsum(r) * 2.0)):
    found = g(there)
    assert found.place.kind == "walked"
    np.testing.assert_allclose(found, g(x), rtol=1e-12)
unknown = phix.jit(f, input_spec=[phix.spec(["n", 3], "float64")])
np.testing.assert_allclose(unknown(there), f(x), rtol=1e-12)
loop = lambda x: phix.while_loop(lambda c: ops.sum(c) > 1.0, lambda c: c * 0.5, x)
np.testing.assert_allclose(phix.jit(loop)(there), loop(x), rtol=1e-12)
lowered = phix.jit(f).lower(there)
assert "for i" in lowered.as_text("loop ir") and lowered.cost_analysis().flops > 0
"""

# The op NAME is the NumPy function VALUE, its derivatives FIRST and SECOND.
USES = """
import numpy as np
import phix
from phix import ops

points = np.linspace(0.3, 1.7, 5)
x = phix.to_tensor(points)
f, total = ops.NAME, lambda x: ops.sum(ops.NAME(x))
value, first, second = (lambda x: VALUE), (lambda x: FIRST), (lambda x: SECOND)

def agree(found, expected):
    np.testing.assert_allclose(np.asarray(found), expected(points), rtol=1e-12)

agree(f(x), value)
agree(x.NAME(), value)
agree(phix.jit(f)(x), value)
agree(phix.vmap(f)(x), value)
agree(phix.grad(total)(x), first)
agree(phix.jit(phix.grad(total))(x), first)
agree(phix.vmap(phix.grad(f))(x), first)
agree(phix.vmap(phix.grad(phix.grad(f)))(x), second)
agree(phix.jvp(f, (x,), (ops.full_like(x, 1.0),))[1], first)
out, (slope, curve) = phix.jet(f, (x,), ((ops.full_like(x, 1.0), ops.full_like(x, 0.0)),))
agree(out, value), agree(slope, first), agree(curve, second)
"""


def uses(name: str, value: str, first: str, second: str) -> str:
    code = USES.replace("VALUE", value).replace("FIRST", first).replace("SECOND", second)
    return code.replace("NAME", name)


@pytest.fixture
def copy(tmp_path: Path) -> ScratchCopy:
    return ScratchCopy(tmp_path)


def test_a_composite_is_two_files(copy: ScratchCopy) -> None:
    copy.append("yaml/arithmetic.yaml", VERSINE)
    copy.append("phix/primitives/arithmetic.py", VERSINE_RULE)
    copy.make("ops")
    copy.python(uses("versine", "1 - np.cos(x)", "np.sin(x)", "np.cos(x)"))
    assert len(copy.touched) == 2
    copy.make("fresh")


def test_a_pointwise_primitive_is_three_files(copy: ScratchCopy) -> None:
    """Its Taylor row names a function that phix.ops has not got when ``make ops`` runs."""
    copy.append("yaml/pointwise.yaml", GUDERMANNIAN)
    scalar = "phix/kernels/scalar/trigonometric.py"
    copy.append(scalar, GUDERMANNIAN_BODY)
    copy.insert(scalar, "from phix.core", "from phix.kernels.scalar.exponential import tanh")
    copy.insert("phix/primitives/pointwise.py", "SLOPES_AT_X", GUDERMANNIAN_SLOPE)
    copy.make("ops")
    copy.python(
        uses(
            "gudermannian",
            "2 * np.arctan(np.tanh(x / 2))",
            "1 / np.cosh(x)",
            "-np.tanh(x) / np.cosh(x)",
        )
    )
    assert len(copy.touched) == 3


def test_a_structural_primitive_is_three_files(copy: ScratchCopy) -> None:
    """Its kernel is one lowering, which every engine prints; a plug-in device owes nothing."""
    copy.append("yaml/shape.yaml", MIRROR)
    copy.append("phix/primitives/rearrangement.py", MIRROR_RULES)
    copy.append("phix/kernels/lowering/shape.py", MIRROR_LOWERING)
    copy.make("ops")
    copy.python(MIRROR_USES)
    assert len(copy.touched) == 3


def test_an_interpreter_is_one_file(copy: ScratchCopy) -> None:
    copy.write("phix/interpreters/tally.py", TALLY)
    copy.python("""
import numpy as np
import phix
from phix.interpreters.tally import tally

f = lambda x: phix.ops.sum(phix.ops.sin(x) * x)
assert tally(f, np.ones(3)) == {"sin": 1, "multiply": 1, "sum": 1}
assert tally(phix.grad(f), np.ones(3))["cos"] == 1
assert tally(phix.vmap(f), np.ones((2, 3)))["sin"] == 1
""")
    assert len(copy.touched) == 1


def test_a_pass_over_graphs_is_a_function_and_a_row(copy: ScratchCopy) -> None:
    copy.append("phix/passes/pipeline.py", PASS)
    found = copy.python("""
import numpy as np
import phix

f = lambda x: phix.ops.sum(phix.ops.sin(x) * x)
print(phix.debug.passes(f, np.ones(3)))
assert abs(phix.jit(f)(np.ones(3)).item() - 3 * np.sin(1)) < 1e-12
""")
    assert "a pass of mine" in found and len(copy.touched) == 1


@pytest.mark.slow
def test_an_engine_is_one_folder_and_its_row(tmp_path: Path) -> None:
    copy = ScratchCopy(tmp_path, more=["tests", "docs", "examples", "README.md", "CONTRIBUTING.md"])
    copy.write("phix/kernels/walked/__init__.py", ENGINE)
    row = "| `phix/kernels/walked/` | an engine: evaluates the loop IR |"
    copy.insert("docs/architecture.md", "| `phix/kernels/cpu/`", row)
    copy.python(ENGINE_USES)
    names = "tanh softmax concat topk cond sum matmul gather cumsum where"
    some = " or ".join(f"{name}-" for name in names.split())
    pytest_of = (sys.executable, "-m", "pytest", "-q", "-n0")
    on_it = ("-p", "phix.kernels.walked", "--place", "walked", "tests/test_op_table.py")
    copy.step(*pytest_of, *on_it, "--quick", "-k", f"({some}) and not grad")
    others = ("tests/test_layers.py", "tests/test_architecture.py")
    of_rooms = "room or point_down or way_round"  # all that a new file may break
    copy.step(*pytest_of, *others, "-k", of_rooms)
    assert copy.touched == {"phix/kernels/walked/__init__.py", "docs/architecture.md"}


def test_rules_before_their_functions_say_what_to_run(copy: ScratchCopy) -> None:
    copy.append("yaml/pointwise.yaml", GUDERMANNIAN)
    copy.insert("phix/primitives/pointwise.py", "SLOPES_AT_X", GUDERMANNIAN_SLOPE)
    run = copy.run(sys.executable, "-c", "import phix; phix.ops.tanh(0.0)")
    assert run.stderr.splitlines()[-1] == (
        "phix.core.errors.OpTableError: phix.primitives.pointwise has a decomposition for "
        "'gudermannian_grad', which phix.ops does not have; add its entry to the op table and run "
        "`make ops`, or remove the rule"
    )


def test_functions_are_written_whatever_the_rest_says(copy: ScratchCopy) -> None:
    """A file that Python cannot read, after a merge say, is no hindrance, nor are the rules."""
    fresh = copy.text("phix/ops.py")
    copy.write("phix/ops.py", "<<<<<<< HEAD\n")
    copy.append("phix/array_functions/elementwise.py", "raise RuntimeError")
    copy.make("ops")
    assert copy.text("phix/ops.py") == fresh
