"""Arrays told apart in machine code: whether each is of the dtype, shape and flags of one before.

In Python each question is an object made and compared, a microsecond an array; the objects
themselves are read here where NumPy put them (its ABI), some ten instructions an array.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from phix.core.arrays import LAYOUT
from phix.kernels.cpu import jit
from phix.kernels.cpu.array_objects import COUNT, DATA, DIMS, DTYPE, FLAGS, KIND, TYPE

# Of the table: the address of NumPy's class, then for each array the word of its dtype, its flags,
# how many dims it has, and those. What differs is answered with None, which an empty format builds.
_TEXT = f"""
@nothing = private constant [1 x i8] zeroinitializer
declare ptr @Py_BuildValue(ptr, ...)
declare void @Py_IncRef(ptr)

define ptr @ENTRY(ptr %self, ptr %args, i64 %nargs) {{
entry:
  %table.object = load ptr, ptr %args
  %table.at = getelementptr inbounds i8, ptr %table.object, i64 {DATA}
  %table = load ptr, ptr %table.at
  %class = load i64, ptr %table
  %first = getelementptr inbounds i64, ptr %table, i64 1
  br label %each
each:
  %n = phi i64 [1, %entry], [%following, %alike]
  %row = phi ptr [%first, %entry], [%rest, %alike]
  %is_done = icmp eq i64 %n, %nargs
  br i1 %is_done, label %yes, label %look
look:
  %place = getelementptr inbounds ptr, ptr %args, i64 %n
  %array = load ptr, ptr %place
  %class.at = getelementptr inbounds i8, ptr %array, i64 {TYPE}
  %own.class = load i64, ptr %class.at
  %is_array = icmp eq i64 %own.class, %class
  br i1 %is_array, label %head, label %no
head:
  %dtype.at = getelementptr inbounds i8, ptr %array, i64 {DTYPE}
  %dtype.object = load ptr, ptr %dtype.at
  %kind.at = getelementptr inbounds i8, ptr %dtype.object, i64 {KIND}
  %own.dtype = load i64, ptr %kind.at
  %dtype = load i64, ptr %row
  %same.dtype = icmp eq i64 %own.dtype, %dtype
  %flags.at = getelementptr inbounds i8, ptr %array, i64 {FLAGS}
  %own.flags = load i32, ptr %flags.at
  %own.kept = and i32 %own.flags, {LAYOUT}
  %wide = zext i32 %own.kept to i64
  %second = getelementptr inbounds i64, ptr %row, i64 1
  %flags = load i64, ptr %second
  %same.flags = icmp eq i64 %wide, %flags
  %count.at = getelementptr inbounds i8, ptr %array, i64 {COUNT}
  %own.count = load i32, ptr %count.at
  %own.dims = zext i32 %own.count to i64
  %third = getelementptr inbounds i64, ptr %row, i64 2
  %count = load i64, ptr %third
  %same.count = icmp eq i64 %own.dims, %count
  %both = and i1 %same.dtype, %same.flags
  %is_like = and i1 %both, %same.count
  br i1 %is_like, label %shape, label %no
shape:
  %dims = getelementptr inbounds i64, ptr %row, i64 3
  %dims.at = getelementptr inbounds i8, ptr %array, i64 {DIMS}
  %own = load ptr, ptr %dims.at
  br label %dim
dim:
  %d = phi i64 [0, %shape], [%more, %same]
  %is_last = icmp eq i64 %d, %count
  br i1 %is_last, label %alike, label %size
size:
  %own.size.at = getelementptr inbounds i64, ptr %own, i64 %d
  %own.size = load i64, ptr %own.size.at
  %size.at = getelementptr inbounds i64, ptr %dims, i64 %d
  %wanted = load i64, ptr %size.at
  %same.size = icmp eq i64 %own.size, %wanted
  br i1 %same.size, label %same, label %no
same:
  %more = add nuw nsw i64 %d, 1
  br label %dim
alike:
  %rest = getelementptr inbounds i64, ptr %dims, i64 %count
  %following = add nuw nsw i64 %n, 1
  br label %each
yes:
  call void @Py_IncRef(ptr %self)
  ret ptr %self
no:
  %none = call ptr (ptr, ...) @Py_BuildValue(ptr @nothing)
  ret ptr %none
}}
"""


@cache
def _look() -> Callable[..., Any]:
    return jit.compiled(_TEXT)


def look(like: Sequence[np.ndarray]) -> Callable[..., Any]:
    """See :func:`phix.core.arrays.look`."""
    rows = [(_word(a.dtype), a.flags.num & LAYOUT, a.ndim, *a.shape) for a in like]
    table = np.array([id(np.ndarray), *(n for row in rows for n in row)], np.int64)
    return partial(_look(), table)


def _word(dtype: np.dtype) -> int:
    """What tells a dtype from others; arrays that were pickled have objects of their own for it."""
    return ctypes.c_int64.from_address(id(dtype) + KIND).value
