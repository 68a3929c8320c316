"""What a kernel in Numba follows from: digests, and what the disk keeps under them."""

from __future__ import annotations

import operator
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba.extending import overload

from phix.kernels.numba import overloads
from phix.kernels.numba.identity import _has_instruction, digest

_HERE = """
import sys, tempfile, pathlib, numba, numpy as np, phix
from numba.extending import overload
file = pathlib.Path(tempfile.mkdtemp(), "here.yaml")
file.write_text("- {op: here, args: (Tensor x), output: Tensor(out), "
                "infer_meta: {func: UnchangedInferMeta}}")
phix.load_ops(file)
factor = float(sys.argv[1])
padding = [np.ones(150_000) for _ in range(int(factor))]
large, strided = np.arange(150_000.0), np.arange(20.0)[::2]
def helper(x): raise NotImplementedError
def twice(x): return lambda x: x * 2.0
def thrice(x): return lambda x: x * 3.0
overload(helper)(twice if factor == 2.0 else thrice)
@phix.numba.kernel("here", dtypes=["float64"])
def here(x, out):
    for i in range(x.size):
        out[i] = helper(x[i]) + large[i] + strided[i]
print(*phix.jit(lambda x: phix.ops.here(x))(np.arange(3.0)).numpy().tolist())
"""


def test_what_only_one_process_knows_is_not_kept_on_disk(tmp_path: Path) -> None:
    """The code of an overload, and arrays that Numba takes by their address."""
    for factor in (2.0, 3.0):
        environment = {"PHIX_CACHE_DIR": str(tmp_path), "PATH": "", "OMP_NUM_THREADS": "1"}
        root = Path(__file__).resolve().parents[1]
        made = subprocess.run([sys.executable, "-c", _HERE, str(factor)], env=environment,
                              cwd=root, capture_output=True, text=True)  # fmt: skip
        assert made.returncode == 0, made.stderr
        assert made.stdout.split() == [str((factor + 2.0 + 1.0) * k) for k in range(3)]


def test_digests_of_what_is_here_alone() -> None:
    """They do not last, and are the same as long as what they name is."""
    arrays = {
        "large": np.zeros(130_000),
        "strided": np.zeros(6)[::2],
        "reversed": np.zeros(3)[::-1],
    }
    for array in arrays.values():

        def kernel(x: Any, out: Any, array: Any = array) -> None:
            out[0] = array[0]

        first = digest(kernel)
        assert not first[1] and digest(kernel) == first
        kernel.__defaults__ = (array.copy()[::1],)
        assert digest(kernel)[0] != first[0]
    small = np.zeros((3, 4)).T  # in Fortran's order: a part of the code
    assert digest(lambda x, out: small[0])[1]


def _stub(x: Any) -> Any:
    raise NotImplementedError


def test_overloads_are_a_part_of_it_as_long_as_the_process_lives() -> None:
    """Those of functions and of methods; a plain function without one is nobody's."""

    def kernel(x: Any, out: Any) -> None:
        out[0] = _stub(x[0])

    def with_method(x: Any, out: Any) -> None:
        out[0] = x.phix_test_total()

    assert digest(kernel)[0] != digest(kernel)[0] and digest(with_method)[1]
    overload(_stub)(lambda x: lambda x: x * 2.0)
    first = digest(kernel)
    assert not first[1] and digest(kernel) == first
    overload(_stub)(lambda x: lambda x: x * 3.0)
    assert digest(kernel)[0] != first[0]
    numba.extending.overload_method(numba.types.Array, "phix_test_total")(
        lambda x: lambda x: x.sum()
    )
    assert not digest(with_method)[1]
    assert digest(lambda x, out: np.sum(x))[1]


def test_overloads_of_operators_are_a_part_of_it() -> None:
    """They stand in code by signs; of those that no kernel has, only kernels with them know."""

    def kernel(x: Any, y: Any) -> None:
        x[0] @= y

    def inside(x: Any, y: Any) -> Any:
        return lambda: x[0] @ y[0]

    def without(x: Any, y: Any) -> None:
        x[0] = y[0] * 2.0 + x[0] if x[0] < y[0] else -y[0]

    assert digest(kernel)[1] and digest(inside)[1]
    overload(operator.matmul)(lambda x, y: None)
    assert not digest(kernel)[1] and not digest(inside)[1] and digest(without)[1]
    before = digest(kernel)[0]
    overload(operator.imatmul)(lambda x, y: None)
    assert digest(kernel)[0] != before and digest(without)[1]


@pytest.mark.parametrize("name", [n for n in dir(operator) if n in overloads._INSTRUCTIONS])
def test_every_operator_is_found_where_its_sign_stands(name: str) -> None:
    signs = {
        "getitem": "x[y]", "setitem": "x[y] = 1", "delitem": "del x[y]", "not_": "not x",
        "truth": "1 if x else y", "neg": "-x", "pos": "+x", "invert": "~x", "inv": "~x",
        "contains": "x in y", "is_": "x is y", "is_not": "x is not y", "eq": "x == y",
        "ne": "x != y", "lt": "x < y", "le": "x <= y", "gt": "x > y", "ge": "x >= y",
    }  # fmt: skip
    plain = next((n for n in overloads._SIGNS if name in (n, f"i{n.strip('_')}")), None)
    is_own = plain is None or plain == name
    sign = signs[name] if plain is None else f"x {overloads._SIGNS[plain]}{'' if is_own else '='} y"
    pattern = overloads._INSTRUCTIONS[name]
    assert _has_instruction(compile(sign, "", "exec"), pattern), sign
    assert not _has_instruction(compile("x = f(y, z.w)", "", "exec"), pattern)
