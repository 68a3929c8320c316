"""Names that NumPy has and phix.numpy has not, with what to write instead."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import numpy as np

from phix.core.errors import UnknownNameError

_NUMBERS = "tensors hold numbers"
_WIDEST = "float64 is the widest float here"
_AT = "tensors are immutable: write y = x.at[{}].set(values)"
_FILES = "files are NumPy's: numpy.{0}(file, numpy.asarray(x)), or phix.to_tensor(numpy.load(file))"
_WAYS: dict[str, str] = {
    "copyto": _AT.format("..."),
    "fill_diagonal": _AT.format("i, i") + " with i = phix.numpy.arange(n)",
    "place": _AT.format("mask") + ", or phix.numpy.where(mask, values, x)",
    "put": _AT.format("indices") + " of the flattened array",
    "put_along_axis": "tensors are immutable: write phix.ops.put_along_axis(x, indices, values, "
    "axis), which returns the result",
    "putmask": _AT.format("mask") + ", or phix.numpy.where(mask, values, x)",
    **{n: _FILES.format(n) for n in ("save", "savez", "savez_compressed", "savetxt")},
    **{n: f"files are NumPy's: phix.to_tensor(numpy.{n}(file))"
       for n in ("load", "loadtxt", "genfromtxt", "fromfile", "memmap", "fromregex")},
    "random": "random numbers are functions of a key here: phix.random.normal(key, shape)",
    "matrix": "matrices are arrays of two axes: phix.numpy.array(rows), x @ y",
    "object_": "tensors hold numbers: keep objects in lists, or in a pytree (phix.tree)",
    "str_": _NUMBERS, "bytes_": _NUMBERS, "void": _NUMBERS,
    "character": _NUMBERS, "flexible": _NUMBERS,
    "datetime64": "tensors hold numbers: count time as an int64 from a date on",
    "timedelta64": "tensors hold numbers: count time as an int64",
    "longdouble": _WIDEST, "float128": _WIDEST,
    "clongdouble": "complex128 is the widest complex dtype here",
    "nditer": "loop with phix.scan, phix.fori_loop, or map with phix.vmap",
    "ndenumerate": "loop with phix.scan, or map with phix.vmap",
    "ndindex": "loop with phix.scan, or map with phix.vmap",
    "frompyfunc": "write phix.numpy.vectorize(function), which is compiled",
    "ma": "masked arrays are an array and a mask here: the where= of sum, mean, max, ...",
    "polynomial": "write phix.numpy.polyval, polyfit, polyadd, ...",
    "errstate": "nothing warns here; phix.debug.nans() finds where a NaN is made",
    "seterr": "nothing warns here; phix.debug.nans() finds where a NaN is made",
    "strings": _NUMBERS, "char": _NUMBERS, "rec": _NUMBERS,
    "require": "write phix.numpy.asarray(x)",
    "asfortranarray": "tensors are in C order: write phix.numpy.asarray(x)",
    "may_share_memory": "tensors are immutable, so that nobody sees who shares memory",
    "shares_memory": "tensors are immutable, so that nobody sees who shares memory",
    "msort": "write phix.numpy.sort(x, axis=0)", "in1d": "write phix.numpy.isin(x, values)",
    "row_stack": "write phix.numpy.vstack(arrays)", "product": "write phix.numpy.prod(x)",
    "cumproduct": "write phix.numpy.cumprod(x)", "alltrue": "write phix.numpy.all(x)",
    "sometrue": "write phix.numpy.any(x)", "trapz": "write phix.numpy.trapezoid(y)",
    "asscalar": "write x.item()", "float_": "write phix.numpy.float64 or float32",
    "infty": "write phix.numpy.inf", "Inf": "write phix.numpy.inf", "NaN": "write phix.numpy.nan",
}  # fmt: skip


def unknown(module: str, name: str, known: Sequence[str]) -> UnknownNameError:
    """The error that a name is answered with that a module does not have."""
    if name in _WAYS and module == "phix.numpy":
        return UnknownNameError(f"{module} has no {name}: {_WAYS[name]}")
    near = difflib.get_close_matches(name, known, n=3)
    if module == "phix.numpy" and hasattr(np, name):
        hint = f"call NumPy's on arrays, numpy.{name}(numpy.asarray(x)), outside jit and grad"
    elif near:
        hint = f"did you mean {', '.join(near)}?"
    else:
        hint = f"dir({module}) has all names"
    return UnknownNameError(f"{module} has no {name}; {hint}")
