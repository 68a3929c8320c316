"""Where NumPy keeps what it knows of an array: bytes from its object's beginning (NumPy's ABI)."""

from __future__ import annotations

# PyObject ends with its type; PyArrayObject: data, nd (padded), dims, strides, base, descr, flags.
_HEAD = object.__basicsize__
TYPE = _HEAD - 8
DATA, COUNT, DIMS, STRIDES, DTYPE, FLAGS = (_HEAD + n for n in (0, 8, 16, 24, 40, 48))
# PyArray_Descr, behind the class of its values: in a word their kind, the byte order and a number.
KIND = _HEAD + 8
