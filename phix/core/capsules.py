"""Capsules of DLPack with another label: NumPy has no bfloat16 in DLPack, but ints of 16 bits."""

from __future__ import annotations

import ctypes
from typing import Any

_UNSIGNED, _BFLOAT = 1, 4  # DLPack's codes of dtypes


class _DLTensor(ctypes.Structure):
    """DLPack's DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Versioned(ctypes.Structure):
    """DLPack's DLManagedTensorVersioned; the one without versions begins with the tensor."""

    _fields_ = [
        ("version", ctypes.c_uint32 * 2),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    ]


_IN_CAPSULE = {b"dltensor": 0, b"dltensor_versioned": _Versioned.tensor.offset}


def _relabelled(capsule: Any, found: int, wanted: int) -> Any:
    """A capsule of DLPack with another code for its dtype of 16 bits.

    Raises:
        BufferError: it holds another dtype.
    """
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype = ctypes.c_void_p
    pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
    name = name_of(capsule)
    tensor = _DLTensor.from_address(pointer_of(capsule, name) + _IN_CAPSULE[name])
    if (tensor.code, tensor.bits, tensor.lanes) != (found, 16, 1):
        raise BufferError("the capsule holds another dtype")
    tensor.code = wanted
    return capsule


def as_bfloat16(capsule: Any) -> Any:
    """The capsule of unsigned ints, now one of bfloat16."""
    return _relabelled(capsule, _UNSIGNED, _BFLOAT)


def as_unsigned(capsule: Any) -> Any:
    """The capsule of bfloat16, now one of unsigned ints."""
    return _relabelled(capsule, _BFLOAT, _UNSIGNED)
