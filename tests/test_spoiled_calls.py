"""Public functions with one argument spoiled: a part of what ``spoiled_calls`` runs."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core.errors import (
    ArgumentError,
    AttributeValueError,
    DTypeError,
    KernelRegistrationError,
    NumberRangeError,
    OutOfMemoryError,
    PhixError,
    ShapeError,
    TensorIndexError,
    UnknownOpError,
)
from tests.spoiled_calls import VALUES, Subject, findings, op_subjects, other_subjects

pytestmark = pytest.mark.unoptimised

# Values that are refused before anything is compiled, mostly; each subject gets a few of them.
QUICK = ("None", "str", "bytes", "object", "unfriendly", "ragged", "cyclic list", "lambda",
         "list of str", "2**70", "10**400", "[2**70]", "99", "[0, 0]", "seven ints", "nan", "1.5",
         "1j", "object array", "record array")  # fmt: skip
SLOW = ("while_loop", "vmap in chunks")  # functions that a spoiled argument lets run on and on


def chosen(subject: Subject) -> list[str]:
    start = zlib.crc32(subject.name.encode())
    return [QUICK[(start + 7 * k) % len(QUICK)] for k in range(3)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "subject",
    [s for s in (*op_subjects(), *other_subjects()) if s.name not in SLOW],
    ids=lambda s: s.name,
)
@pytest.mark.filterwarnings("ignore")
def test_a_spoiled_argument_is_answered_or_refused_with_a_typed_error(subject: Subject) -> None:
    assert not [str(f) for f in findings(subject, chosen(subject))]


def test_every_public_function_is_spoiled() -> None:
    spoiled = {s.name for s in other_subjects()}
    public = {n for n in dir(phix) if not n.startswith("_") and callable(getattr(phix, n))}
    assert public - spoiled <= {
        "Graph", "bfloat16", "cache_info", "clear_cache", "get_default_dtype", "matmul_precision",
        "register_backend", "remat", "scoped_registries",
    } | {n for n in public if isinstance(getattr(phix, n), np.dtype)}  # fmt: skip


@pytest.mark.parametrize("face", ["cupy", "kernels", "numba", "testing"])
def test_every_function_of_what_takes_kernels_is_spoiled(face: str) -> None:
    spoiled = {s.name for s in other_subjects()}
    module = getattr(phix, face)
    public = (n for n in module.__all__ if callable(getattr(module, n)))
    assert not [
        n for n in public if not isinstance(getattr(module, n), type)
        and f"{face}.{n}" not in spoiled
    ]  # fmt: skip


X = phix.to_tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
COUNTS = phix.to_tensor([1, 2])
# What the issue lists, and what was found beside it: a call, its error, and a part of the message.
BAD: list[tuple[Any, type[PhixError], str]] = [
    (lambda: phix.scipy.stats.sem(X, axis=2), AttributeValueError, "sem.*axis 2.* 2 axes"),
    (lambda: phix.scipy.stats.mode(X, axis=2), AttributeValueError, "mode.*axis 2.* 2 axes"),
    (lambda: phix.scipy.special.logsumexp(X, 2, X), AttributeValueError, "axis 2.* 2 axes"),
    (lambda: phix.scipy.signal.windows.gaussian(3, 10**400), ArgumentError, "std.*finite number"),
    (lambda: phix.scipy.sparse.linalg.cg(np.zeros(2, [("a", "f4")]), X[0]), DTypeError, "cg"),
    (lambda: COUNTS + 2**70, NumberRangeError, "add.*out of the range of int64"),
    (lambda: X + 10**400, NumberRangeError, "add.*out of the range of float32"),
    (lambda: phix.to_tensor([-1], dtype="uint8"), NumberRangeError, "to_tensor.*0 to 255"),
    (lambda: phix.to_tensor([1, [2]]), ArgumentError, "rows of one length"),
    (lambda: ops.add(X, VALUES["cyclic list"]()), ArgumentError, "add: y.*hold itself"),
    (lambda: phix.grad(ops.sum)(VALUES["cyclic dict"]()), ArgumentError, "holds itself"),
    (lambda: ops.pad(X, [2**62] * 4, 0.0), ShapeError, "pad.*more bytes"),
    (lambda: phix.full([2], "a"), ArgumentError, "full: value.*found str 'a'"),
    (lambda: phix.full([2], -1, "uint8"), NumberRangeError, "full.*0 to 255"),
    (lambda: phix.full([1] * 70, 1.0), ShapeError, "70 axes"),
    (lambda: phix.full([2**45], 1.0), OutOfMemoryError, "full"),
    (lambda: ops.expand(X, [-5, 2, 3]), ShapeError, "expand.*negative"),
    (lambda: phix.scan(lambda c, _: (c, c), 0.0, None, length=-1), ArgumentError, "length"),
    (lambda: phix.arange(0, float("nan")), AttributeValueError, "finite"),
    (lambda: bool(X), ShapeError, "6 elements"),
    (lambda: phix.jit(lambda x: x, static_argnums=1.5), ArgumentError, "static_argnums"),
    (lambda: phix.checkpoint(lambda x: x, policy="foo"), ArgumentError, "policy"),
    (lambda: phix.cond(True, 1.0, 2.0), ArgumentError, "true_fn must be a function"),
    (lambda: phix.vmap(lambda x: x[0], out_axes=3)(X), ShapeError, "out_axes 3.*-1..0"),
    (lambda: phix.fori_loop(0, 2.5, lambda i, v: v, 1.0), DTypeError, "upper must be one int"),
    (lambda: phix.spec([1.5]), ShapeError, "spec: 1.5 is no size"),
    (lambda: X.astype(None), DTypeError, "None is not a dtype"),
    (lambda: phix.parse_graph(b"x"), ArgumentError, "parse_graph: text must be a str"),
    (lambda: phix.parse_graph(None), ArgumentError, "parse_graph: text must be a str"),
    (lambda: len(phix.to_tensor(1.0)), ArgumentError, "len"),
    (lambda: X.__setitem__(0, 1.0), ArgumentError, "immutable"),
    (lambda: X["a":], TensorIndexError, "slice"),
    (lambda: X[{}], TensorIndexError, "no index"),
    (lambda: X.at[0].set("a"), ArgumentError, "found str 'a'"),
    (lambda: [1, 2, 3][X], DTypeError, "one int"),
    (lambda: phix.Tensor(None).shape, ArgumentError, "phix.Tensor takes"),
    (lambda: ops.concat([X, X], 1.5), ArgumentError, "concat: axis"),
    (lambda: ops.polygamma(X, -1), AttributeValueError, "from 0 to 170"),
    (lambda: phix.numba.kernel(7), ArgumentError, "kernel: op_name must be a str, found int 7"),
    (lambda: phix.numba.kernel("tanh")(7), KernelRegistrationError, "is a Python function.*int 7"),
    (lambda: phix.numba.kernel("tanh", fastmath="fats"), ArgumentError, "one of 'afn'"),
    (lambda: phix.numba.njit(None), ArgumentError, "njit: function must be a function"),
    (lambda: phix.cupy.kernel("tanhh")(max), UnknownOpError, "kernel: no op 'tanhh'.*tanh"),
    (lambda: phix.kernels.add_library("cpu", 3), ArgumentError, "library must be a str.*int 3"),
    (lambda: phix.kernels.add_library("tpu", "a"), KernelRegistrationError, "the places are cpu"),
    (lambda: phix.kernels.register_kernel("tanh", "CPU", dtypes=3), DTypeError, "groups such as"),
    (lambda: phix.kernels.unregister_backend("cpu"), KernelRegistrationError, "there is none"),
    (lambda: phix.kernels.keys("tanhh"), UnknownOpError, "keys: no op 'tanhh'"),
    (lambda: phix.kernels.keys("tanh", ["CUP"]), KernelRegistrationError, "keys: no backend"),
    (lambda: phix.kernels.add_kind("rows", 3), ArgumentError, "cls must be a class, found int 3"),
    (lambda: phix.kernels.seed(-1), ArgumentError, "seed: number must be an int from 0"),
    (lambda: phix.testing.check_op(ops.tanh, X, skip=3), ArgumentError, "check_op: skip must be"),
    (lambda: ops.meshgrid([]), ArgumentError, "at least one"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BAD)))
def test_a_bad_call_is_refused(number: int) -> None:
    call, error, text = BAD[number]
    with pytest.raises(error, match=text):
        call()
