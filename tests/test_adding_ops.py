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


def test_rules_before_their_functions_say_what_to_run(copy: ScratchCopy) -> None:
    copy.append("yaml/pointwise.yaml", GUDERMANNIAN)
    copy.insert("phix/primitives/pointwise.py", "SLOPES_AT_X", GUDERMANNIAN_SLOPE)
    run = copy.run(sys.executable, "-c", "import phix")
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
