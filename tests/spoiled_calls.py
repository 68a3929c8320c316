"""Calls with one argument spoiled: each is answered, or refused with a typed error.

``PYTHONPATH=tests python -m tests.spoiled_calls [NAME ...]`` spoils every argument of every call in
every way, of the subjects whose names start so, and prints what is refused otherwise;
``--answers`` also prints what was answered.
"""

from __future__ import annotations

import dataclasses
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np

import phix
from phix.core.errors import PhixError
from phix.core.op import REQUIRED
from phix.table.codegen import python_name

SECONDS = 5  # after which a call hangs


@dataclasses.dataclass(frozen=True)
class Subject:
    """A call that works, to be spoiled an argument at a time."""

    name: str
    function: Callable[..., Any]
    args: dict[str, Any]  # by position or keyword: see ``positional``
    kinds: dict[str, str]  # what each argument is: see ``NEVER``
    positional: int = 0  # how many of the args go by position
    says: str = ""  # what a message must contain

    def call(self, args: dict[str, Any]) -> Any:
        values = list(args.values())
        names = list(args)[self.positional :]
        return self.function(*values[: self.positional], **{n: args[n] for n in names})


@dataclasses.dataclass(frozen=True)
class Finding:
    """A spoiled call that went wrong."""

    subject: str
    argument: str
    value: str
    what: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.argument} = {self.value}: {self.what}"


# -- values --------------------------------------------------------------------------------------
def cyclic_list() -> list[Any]:
    made: list[Any] = [1.0]
    made.append(made)
    return made


def cyclic_dict() -> dict[str, Any]:
    made: dict[str, Any] = {}
    made["a"] = made
    return made


class Unfriendly:
    """An object that raises in whatever it is asked."""

    def __repr__(self) -> str:
        return "Unfriendly()"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def __iter__(self) -> Any:
        raise RuntimeError("not to be iterated over")

    def __len__(self) -> int:
        raise RuntimeError("no length")

    def __bool__(self) -> bool:
        raise RuntimeError("no truth")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not to be compared")

    __hash__ = None  # type: ignore[assignment]


VALUES: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "str": lambda: "abc",
    "empty str": lambda: "",
    "bytes": lambda: b"ab",
    "object": object,
    "unfriendly": Unfriendly,
    "ragged": lambda: [[1, 2], [3]],
    "deep ragged": lambda: [[[1], [2, 3]], [[4], 5]],
    "cyclic list": cyclic_list,
    "cyclic dict": cyclic_dict,
    "dict": lambda: {"a": 1},
    "set": lambda: {1, 2},
    "lambda": lambda: lambda *args: 3,
    "class": lambda: dict,
    "generator": lambda: (i for i in range(3)),
    "list of str": lambda: ["a", "b"],
    "list of None": lambda: [None, None],
    "list of lists": lambda: [[], []],
    "empty list": list,
    "2**45": lambda: 2**45,
    "2**62": lambda: 2**62,
    "2**70": lambda: 2**70,
    "-2**70": lambda: -(2**70),
    "10**400": lambda: 10**400,
    "[2**70]": lambda: [2**70],
    "[2**62, 2**62]": lambda: [2**62, 2**62],
    "-5": lambda: -5,
    "[-5]": lambda: [-5],
    "-1": lambda: -1,
    "0": lambda: 0,
    "99": lambda: 99,
    "[0, 0]": lambda: [0, 0],
    "[0, 99]": lambda: [0, 99],
    "seven ints": lambda: [1] * 7,
    "70 ints": lambda: [1] * 70,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "[nan]": lambda: [float("nan")],
    "1.5": lambda: 1.5,
    "[1.5]": lambda: [1.5],
    "1j": lambda: 1j,
    "True": lambda: True,
    "Fraction": lambda: Fraction(1, 3),
    "float [2, 3, 5]": lambda: phix.ones([2, 3, 5]),
    "int [7]": lambda: phix.full([7], 1000),
    "bool []": lambda: phix.to_tensor(True),
    "complex [2]": lambda: phix.to_tensor([1j, 2.0]),
    "float [0]": lambda: phix.zeros([0]),
    "float []": lambda: phix.to_tensor(1.5),
    "bfloat16 [3]": lambda: phix.ones([3], "bfloat16"),
    "uint8 [2, 2]": lambda: phix.ones([2, 2], "uint8"),
    "object array": lambda: np.array([object(), None], dtype=object),
    "str array": lambda: np.array(["a", "b"]),
    "date array": lambda: np.array(["2020-01-01"], dtype="datetime64[D]"),
    "record array": lambda: np.zeros(2, dtype=[("a", "f4"), ("b", "i4")]),
    "masked array": lambda: np.ma.array([1.0, 2.0], mask=[True, False]),
    "longdouble": lambda: np.ones(2, np.longdouble),
    "spec": lambda: phix.spec([2, "n"]),
    "dtype": lambda: phix.float32,
    "slice": lambda: slice(0, 2),
    "Ellipsis": lambda: ...,
}

_NO_NUMBERS = (
    "str", "empty str", "bytes", "object", "unfriendly", "ragged", "deep ragged", "cyclic list",
    "cyclic dict", "dict", "set", "lambda", "class", "list of str", "object array", "str array",
    "date array", "record array", "slice", "Ellipsis", "dtype",
)  # fmt: skip
_NO_INT = (*_NO_NUMBERS, "1.5", "[1.5]", "nan", "inf", "[nan]", "1j", "2**70", "-2**70", "10**400",
           "[2**70]", "complex [2]", "float []", "Fraction")  # fmt: skip
# What an argument of a kind can never be: answering is a fault.
NEVER: dict[str, tuple[str, ...]] = {
    "Tensor": _NO_NUMBERS,
    "Tensor[]": tuple(v for v in _NO_NUMBERS if v != "ragged"),  # two vectors
    "int": _NO_INT,
    "int[]": _NO_INT,
    "float": (*_NO_NUMBERS, "1j", "float [2, 3, 5]", "[0, 0]", "complex [2]"),
    "float[]": (*_NO_NUMBERS, "1j", "complex [2]"),
    "bool": (*_NO_NUMBERS, "1.5", "nan", "inf", "[0, 0]", "1j", "float [2, 3, 5]"),
    "str": tuple(v for v in VALUES if v not in ("str", "empty str", "None")),
    "DataType": tuple(v for v in VALUES if v not in ("None", "dtype")),
    "Place": tuple(v for v in VALUES if v not in ("None",)),
    "Scalar": _NO_NUMBERS,
    "Graph": tuple(VALUES),
    "function": tuple(v for v in VALUES if v not in ("lambda", "class")),
    "functions": tuple(v for v in VALUES if v != "lambda"),
    "tree": (
        "str",
        "empty str",
        "bytes",
        "object",
        "unfriendly",
        "cyclic list",
        "cyclic dict",
        "lambda",
        "class",
        "object array",
        "str array",
        "date array",
        "record array",
        "slice",
        "Ellipsis",
    ),
    "shape": (
        *(v for v in _NO_NUMBERS[2:] if "str" not in v),
        "1.5",
        "[1.5]",
        "nan",
        "[nan]",
        "1j",
        "-5",
        "[-5]",
        "10**400",
    ),
    "specs": ("str", "bytes", "object", "unfriendly", "cyclic list", "lambda", "class"),
    "storage": tuple(v for v in VALUES if v not in ("masked array",)),
    "never str": tuple(VALUES),
    "never None": ("None",),
    "any": (),
}
_KIND_OF = {
    "int64_t": "int", "size_t": "int", "int64_t[]": "int[]", "IntArray": "int[]",
    "double": "float", "double[]": "float[]", "DataLayout": "str", "str[]": "str",
    "Graph[]": "Graph", "Object": "any", "Scalar[]": "Scalar",
}  # fmt: skip


def kind_of(type_name: str) -> str:
    """The kind of an argument of the op table."""
    if type_name.startswith("Scalar("):
        return "Scalar"
    return _KIND_OF.get(type_name, type_name)


# -- one call ------------------------------------------------------------------------------------
class Hangs(BaseException):
    pass


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Hangs is raised inside the with block when the time is up."""

    def stop(*_: Any) -> None:
        raise Hangs

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _finished(result: Any) -> None:
    for leaf in phix.tree.leaves(result):
        if isinstance(leaf, phix.Tensor):
            _ = leaf.shape, leaf.dtype


def fault(subject: Subject, argument: str, value: str) -> str | None:
    """What is wrong with how the spoiled call ends; None if nothing is."""
    kind = subject.kinds[argument]
    if kind.startswith("function") and value in ("lambda", "class"):
        return None  # functions, of which the errors are their own
    args = {**subject.args, argument: VALUES[value]()}
    try:
        with limited(SECONDS):
            _finished(subject.call(args))
    except Hangs:
        return f"no answer after {SECONDS} s"
    except PhixError as error:
        text = str(error)
        named = any(name in text for name in (subject.says, subject.name.rpartition(".")[2]))
        if not named and " (at " not in text:  # an op says where it was called
            return f"the message does not name {subject.says}: {text}"
        return f"a message of {len(text)} letters" if len(text) > 2000 else None
    except Exception as error:
        if kind == "tree" and not _is_from_phix(error):
            return None  # from a function of the subject's own, given what it cannot take
        return f"raw {type(error).__name__}: {str(error)[:300]}"
    is_no_axis = argument.startswith("axis") and value in ("99", "2**45") and kind == "int"
    if is_no_axis or value in NEVER[kind]:
        return "answered"
    return None


def _is_from_phix(error: Exception) -> bool:
    """Whether the error was raised, or let through, by code that phix calls on its own."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    own = trace is not None and os.path.basename(trace.tb_frame.f_code.co_filename)
    return own != "spoiled_subjects.py"


def findings(subject: Subject, values: Any = VALUES) -> Iterator[Finding]:
    """Everything that is wrong with how spoiled calls of the subject end."""
    for argument in subject.args:
        for value in values:
            what = fault(subject, argument, value)
            if what is not None:
                yield Finding(subject.name, argument, value, what)


# -- subjects ------------------------------------------------------------------------------------
def op_subjects() -> Iterator[Subject]:
    """Each op that has samples, in its first one, every attribute written out."""
    from harness.cases import table_cases

    for case in table_cases():
        if "elsewhere" in case.test:
            continue
        call = case.call(case.samples[0])
        given = call.structure(call.arrays)
        args: dict[str, Any] = {}
        for arg in case.op.args:
            if arg.is_tensor:
                args[arg.name] = given[arg.name]
            elif arg.name in call.sample.attrs:
                args[arg.name] = call.sample.attrs[arg.name]
            elif arg.default is not REQUIRED:
                args[arg.name] = arg.default
        kinds = {arg.name: kind_of(arg.type) for arg in case.op.args}
        function = getattr(phix.ops, python_name(case.op.name))
        args = {python_name(n): v for n, v in args.items()}
        kinds = {python_name(n): k for n, k in kinds.items()}
        yield Subject(f"ops.{case.op.name}", function, args, kinds, 0, case.op.name)


def other_subjects() -> Iterator[Subject]:
    """The functions that are no ops."""
    from tests.spoiled_subjects import ROWS

    for name, (function, args) in ROWS.items():
        values = {n: value for n, (value, _) in args.items()}
        kinds = {n: kind for n, (_, kind) in args.items()}
        yield Subject(
            name, function, values, kinds, 0, "" if name.startswith("method") else _word(name)
        )


def _word(name: str) -> str:
    """What the messages call a function."""
    if name.endswith(".create") or name.startswith("optim."):
        return ""  # the message names the setting, or the transformation that is part of a chain
    return _WORDS.get(name) or name.rpartition(".")[2].partition(" ")[0]


# What messages say in place of the name.
_WORDS = {
    "device": "place", "load_ops": "table", "tree.flatten": "tree", "tree.leaves": "tree",
    "tree.map": "tree", "tree.aligned": "tree", "tree.broadcast_prefix": "tree",
    "tree.paths": "tree", "tree.map_with_path": "tree", "tree.partition": "tree",
    **{f"tree.{n}": "tree" for n in ("all", "broadcast", "flatten_with_path", "leaves_with_path",
                                     "reduce", "reduce_associative", "structure", "transpose")},
    "tree.combine": "tree", "tree.register": "tree", "tree.register_dataclass": "dataclass",
    "kernels.find": "place", "kernels.register_backend": "name",
    "kernels.KernelFunction": "tanh", "load to a place": "place", "nn.Linear": "linear",
    "nn.parameter_count": "tree",
}  # fmt: skip


def subjects() -> Iterator[Subject]:
    yield from op_subjects()
    yield from other_subjects()


def main(arguments: list[str]) -> int:
    chosen = [s for s in subjects() if not arguments or s.name.startswith(tuple(arguments))]
    wrong = sum(_apart(subject) for subject in chosen)
    print(f"{len(chosen)} calls, {wrong} with findings")
    return int(wrong > 0)


def _apart(subject: Subject) -> bool:
    """Print the findings of a subject, from a process of its own, as it may crash."""
    print("#", subject.name, flush=True)
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        count = 0
        for argument in subject.args:
            for value in VALUES:
                at = f"{subject.name}: {argument} = {value}"
                print(f"{at}\r", end="", file=sys.stderr, flush=True)
                what = fault(subject, argument, value)
                if what is not None:
                    print(Finding(subject.name, argument, value, what), flush=True)
                    count += 1
        os._exit(int(count > 0))
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        print(f"{subject.name}: killed by signal {os.WTERMSIG(status)}", flush=True)
    return status != 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
