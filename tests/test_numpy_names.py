"""``phix.numpy`` has NumPy's names and signatures, and those of the array API standard."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phix
import phix.numpy as pn
from phix.array_functions.by_name import FFT, LINALG, METHODS, NAMES, TABLE
from phix.core.errors import ArgumentError, AttributeValueError, UnknownNameError

DATA = Path(__file__).parent / "data"
MODULES = {"": (np, pn), "linalg.": (np.linalg, pn.linalg), "fft.": (np.fft, pn.fft)}
# What writes to arrays, reads files, holds objects, or is a class of NumPy's alone.
WITHOUT = {
    "character", "fill_diagonal", "flexible", "fromfile", "frompyfunc", "load", "object_", "place",
    "put", "put_along_axis", "save", "savez", "ufunc",
}  # fmt: skip
NUMPY_NAMES = [
    name
    for line in (DATA / "numpy_names.txt").read_text("utf-8").splitlines()
    for name in line.split()
    if not line.startswith("#")
]
STANDARD = [
    line for line in (DATA / "array_api_signatures.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
]  # fmt: skip
# Parameters that phix has beside NumPy's, and NumPy's that it has not.
_SIZED = {"size", "fill_value"}  # JAX's
MORE = {
    "take": {"fill_value"},  # of the mode "fill", which is JAX's
    "sort": {"descending"}, "argsort": {"descending"},
    "pad": {"constant_values", "end_values", "reflect_type", "stat_length"},
    "reshape": {"newshape"}, "ascontiguousarray": {"order", "device", "copy"},
    "asanyarray": set(), "fft.fftfreq": {"dtype"}, "fft.rfftfreq": {"dtype"},
    "matmul": {"where"}, "matvec": {"where"}, "vecmat": {"where"},
    "set_printoptions": {"args", "kwargs"}, "array2string": {"args", "kwargs"},
    "linalg.tensordot": {"a", "b"}, "fromstring": {"sep"}, "array": {"ndmax"}, "sum": set(),
    "unique": {"sorted", *_SIZED}, "bincount": {"length"}, "repeat": {"total_repeat_length"},
    **dict.fromkeys((
        "nonzero", "flatnonzero", "argwhere", "where", "compress", "extract", "unique_all",
        "unique_counts", "unique_inverse", "unique_values", "union1d", "intersect1d", "setdiff1d",
        "setxor1d",
    ), _SIZED),
}  # fmt: skip
_PRODUCT = {"axes", "axis", "keepdims"}
LESS: dict[str, set[str] | None] = {
    "clip": {"kwargs"}, "einsum": {"kwargs"}, "pad": {"kwargs"},
    "matmul": _PRODUCT, "matvec": _PRODUCT, "vecmat": _PRODUCT,
    "vecdot": {"axes", "keepdims", "casting", "order", "subok", "signature"},
    "linalg.tensordot": {"x1", "x2"}, "fromfunction": {"like"},
    "reshape": set(), "set_printoptions": None, "array2string": None,
}  # fmt: skip


def resolved(name: str, number: int) -> Any:
    module, _, own = name.rpartition(".")
    return getattr(MODULES[f"{module}." if module else ""][number], own)


def test_there_are_more_than_400_of_the_names_numpy_and_jax_have() -> None:
    there = [n for n in NUMPY_NAMES if n.split(".")[-1] in dir(MODULES[n.rpartition(".")[0] + "."
             if "." in n else ""][1])]  # fmt: skip
    assert set(NUMPY_NAMES) - set(there) == WITHOUT
    assert len(there) >= 400


def parameters(function: Any) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function).parameters)


def compared() -> list[str]:
    found = []
    for prefix, (theirs, ours) in MODULES.items():
        for name in ours.__all__:
            own = getattr(theirs, name, None)
            if callable(own) and not isinstance(own, type):
                try:
                    inspect.signature(own)
                except (TypeError, ValueError):
                    continue
                found.append(prefix + name)
    return found


NEWER_NUMPY = np.lib.NumpyVersion(np.__version__) >= "2.4.0"


@pytest.mark.skipif(not NEWER_NUMPY, reason="signatures of ufuncs came with NumPy 2.4")
def test_signatures_are_those_of_numpy() -> None:
    names = compared()
    assert len(names) > 350
    wrong = [f"{n}: {text}" for n in names for text in differences(n)]
    assert not wrong, "\n".join(wrong)


def differences(name: str) -> list[str]:
    theirs, ours = parameters(resolved(name, 0)), parameters(resolved(name, 1))
    less = LESS.get(name, set())
    if less is None:
        return []
    found = []
    if set(theirs) - set(ours) != less:
        found.append(f"lacks {set(theirs) - set(ours)}")
    if not set(ours) - set(theirs) <= MORE.get(name, set()):
        found.append(f"has {set(ours) - set(theirs)} besides")
    shared = [n for n in theirs if n in ours]
    if shared != [n for n in ours if n in theirs] and name not in ("matmul", "matvec", "vecmat"):
        found.append(f"has another order: {list(ours)}")
    for p in shared:
        a, b = theirs[p].default, ours[p].default
        said = a is not np._NoValue and a not in ((None, None),)
        if said and a is not inspect.Parameter.empty and a is not b and a != b:
            found.append(f"{p}: default {b!r}, not {a!r}")
    return found


@pytest.mark.parametrize("signature", STANDARD)
def test_calls_of_the_standard_bind(signature: str) -> None:
    """What may be given by position and by keyword in the standard can be given so here."""
    name, _, rest = signature.partition("(")
    scope: dict[str, Any] = {}
    exec(f"def f({rest}: pass", scope)
    standard, ours = parameters(scope["f"]), inspect.signature(resolved(name, 1))
    by_place = [p for p in standard.values() if p.kind in (p.POSITIONAL_ONLY,
                                                           p.POSITIONAL_OR_KEYWORD)]  # fmt: skip
    required = [p for p in by_place if p.default is p.empty]
    by_name = [p for p in standard.values() if p.kind == p.KEYWORD_ONLY]
    only = [p for p in by_place if p.kind == p.POSITIONAL_ONLY]
    named = [p for p in by_place if p.kind != p.POSITIONAL_ONLY]
    ours.bind(*range(len(required)))
    ours.bind(*range(len(by_place)), **{p.name: 0 for p in by_name})
    if len(only) + len([p for p in named if p.default is p.empty]) == len(required):
        ours.bind(*range(len(only)), **{p.name: 0 for p in (*named, *by_name)})
    for p in standard.values():
        own = ours.parameters.get(p.name)
        if own is not None and p.default is not p.empty and p.default is not None:
            assert own.default == p.default or (p.name, own.default) in (
                ("norm", None), ("correction", None), ("stable", None), ("dtype", float),
                ("axis", 0 if name.endswith("roll") else -1), ("M", None),
            ), (signature, own)  # fmt: skip


def test_one_implementation_answers_numpy_and_phix() -> None:
    for names, theirs, ours in ((NAMES, np, pn), (LINALG, np.linalg, pn.linalg),
                                (FFT, np.fft, pn.fft)):  # fmt: skip
        for name, function in names.items():
            if name in ours.__all__:
                assert inspect.unwrap(getattr(ours, name)) is inspect.unwrap(function)
            if hasattr(theirs, name):
                assert inspect.unwrap(TABLE[getattr(theirs, name)]) is inspect.unwrap(function)
    for ufunc, method in METHODS:
        assert callable(getattr(getattr(pn, ufunc), method))


def test_import_of_phix_leaves_it_for_later() -> None:
    code = "import sys, phix; assert 'phix.numpy' not in sys.modules; phix.numpy.ones(2)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("put", r"immutable.*x\.at\["), ("fill_diagonal", r"x\.at\["),
        ("load", "files are NumPy's"),
        ("object_", "tensors hold numbers"), ("cumsun", "did you mean cumsum"),
        ("random", "functions of a key"), ("busday_count", "call NumPy's on arrays"),
        ("no_such_thing_at_all", r"dir\(phix.numpy\)"), ("longdouble", "float64 is the widest"),
    ],
)  # fmt: skip
def test_other_names_say_the_way_out(name: str, text: str) -> None:
    with pytest.raises(UnknownNameError, match=text):
        getattr(pn, name)
    assert not hasattr(pn, name)


def test_what_is_not_offered_is_a_typed_error() -> None:
    x = pn.arange(3.0)
    with pytest.raises(ArgumentError, match=r"add.* takes no out=; use what the call returns"):
        pn.add(x, x, out=np.zeros(3))
    with pytest.raises(ArgumentError, match=r"sin.* takes no where=; choose with"):
        pn.sin(x, where=np.array([True, False, True]))
    with pytest.raises(ArgumentError, match=r"sum.*'str'"):
        pn.sum(x, axis="a")
    with pytest.raises(AttributeValueError, match=r"2024\.12"):
        x.__array_namespace__(api_version="1999.01")
    assert x.__array_namespace__(api_version="2023.12") is pn
    assert phix.jit(lambda v: v.__array_namespace__().sum(v))(x).item() == 3.0
