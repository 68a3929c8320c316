"""phix: trace, transform and compile numeric Python, in the operators of Paddle's PHI library.

Tensors and where they live: Tensor, to_tensor, zeros, ..., device. Transformations: grad, vjp, jvp,
vmap, jit, jet, ... Ops: ``phix.ops``, as functions, and most as methods of tensors, too. Dtypes,
which are NumPy's: bool_, int8 to int64, uint8 to uint64, float16, bfloat16, float32, float64,
complex64, complex128, and for storage float8_e4m3fn, float8_e5m2, int4; the strings of their names
do as well.
"""

import importlib as _importlib
import typing as _typing

from phix import checkpoint_policies, kernels, ops
from phix import primitives as _primitives  # noqa: F401 - says where the rules are
from phix.api.autocasting import autocast
from phix.api.batching import (
    all_gather,
    all_to_all,
    axis_index,
    axis_size,
    pmax,
    pmean,
    pmin,
    ppermute,
    psum,
    psum_scatter,
    pvary,
    ragged_all_to_all,
    vmap,
)
from phix.api.branches import cond, select_n, switch
from phix.api.callbacks import pure_callback
from phix.api.checkpointing import checkpoint, checkpoint_name, remat
from phix.api.control_flow import (
    associative_scan,
    fori_loop,
    map,
    scan,
    while_loop,
)
from phix.api.creation import (
    arange,
    empty,
    eye,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from phix.api.custom import custom_jvp, custom_vjp, stop_gradient
from phix.api.gradients import grad, jvp, value_and_grad, vjp
from phix.api.graphs import check_graph, decompose, eval_shape, infer_meta, make_graph, parse_graph
from phix.api.implicit import custom_linear_solve, custom_root
from phix.api.jacobians import hessian, hvp, jacfwd, jacrev, linear_transpose, linearize
from phix.api.jet import derivative, jet
from phix.api.jit import jit
from phix.core import canonical as _canonical  # noqa: F401 - gives graphs their identity
from phix.core import errors
from phix.core import evaluate as _evaluate  # noqa: F401 - makes graphs callable
from phix.core import pytrees as tree
from phix.core.conversion import to_tensor
from phix.core.default_floats import default_dtype, get_default_dtype, set_default_dtype
from phix.core.disk_cache import cache_info, clear_cache
from phix.core.dtypes import (
    bfloat16,
    bool_,
    complex64,
    complex128,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int4,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from phix.core.faces import face as _face
from phix.core.graph import Graph
from phix.core.hints import mark_absent as _mark_absent
from phix.core.hints import missing_name as _missing_name
from phix.core.libraries import library
from phix.core.meta import MetaTensor, spec
from phix.core.numpy_protocol import provide as _provide_numpy
from phix.core.operators import install_methods as _install_methods
from phix.core.operators import provide_methods as _provide_methods
from phix.core.places import Place, device
from phix.core.precision import matmul_precision, set_matmul_precision
from phix.core.registries import scoped_registries
from phix.core.rules import end_table as _end_table
from phix.core.tensor import Tensor
from phix.core.tensor import TensorBase as _TensorBase
from phix.kernels.plugins import register_backend
from phix.table.extension import load_ops

if _typing.TYPE_CHECKING:
    from phix import autograd as autograd
    from phix import cupy as cupy
    from phix import debug as debug
    from phix import fft as fft
    from phix import linalg as linalg
    from phix import lod as lod
    from phix import nn as nn
    from phix import numba as numba
    from phix import numpy as numpy
    from phix import optim as optim
    from phix import parallel as parallel
    from phix import random as random
    from phix import scipy as scipy
    from phix import selected_rows as selected_rows
    from phix import sparse as sparse
    from phix import strings as strings
    from phix import testing as testing
    from phix.api.devices import devices as devices
    from phix.files.saving import load as load
    from phix.files.saving import save as save

__version__ = "0.1.0"

__all__ = [
    "Graph",
    "MetaTensor",
    "Place",
    "Tensor",
    "all_gather",
    "all_to_all",
    "arange",
    "associative_scan",
    "autocast",
    "autograd",
    "axis_index",
    "axis_size",
    "bfloat16",
    "bool_",
    "cache_info",
    "check_graph",
    "checkpoint",
    "checkpoint_name",
    "checkpoint_policies",
    "clear_cache",
    "complex64",
    "complex128",
    "cond",
    "cupy",
    "custom_jvp",
    "custom_linear_solve",
    "custom_root",
    "custom_vjp",
    "debug",
    "decompose",
    "default_dtype",
    "derivative",
    "device",
    "devices",
    "empty",
    "errors",
    "eval_shape",
    "eye",
    "fft",
    "float8_e4m3fn",
    "float8_e5m2",
    "float16",
    "float32",
    "float64",
    "fori_loop",
    "full",
    "full_like",
    "get_default_dtype",
    "grad",
    "hessian",
    "hvp",
    "infer_meta",
    "int4",
    "int8",
    "int16",
    "int32",
    "int64",
    "jacfwd",
    "jacrev",
    "jet",
    "jit",
    "jvp",
    "kernels",
    "library",
    "linalg",
    "linear_transpose",
    "linearize",
    "linspace",
    "load",
    "load_ops",
    "lod",
    "make_graph",
    "map",
    "matmul_precision",
    "nn",
    "numba",
    "numpy",
    "ones",
    "ones_like",
    "ops",
    "optim",
    "parallel",
    "parse_graph",
    "pmax",
    "pmean",
    "pmin",
    "ppermute",
    "psum",
    "psum_scatter",
    "pure_callback",
    "pvary",
    "ragged_all_to_all",
    "random",
    "register_backend",
    "remat",
    "save",
    "scan",
    "scipy",
    "scoped_registries",
    "select_n",
    "selected_rows",
    "set_default_dtype",
    "set_matmul_precision",
    "sparse",
    "spec",
    "stop_gradient",
    "strings",
    "switch",
    "testing",
    "to_tensor",
    "tree",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
    "zeros",
    "zeros_like",
]
__dir__ = _face(__all__)


# Imported when they are first used: modules, and functions with the modules that have them.
_LATER = {
    "autograd": "", "cupy": "", "debug": "", "fft": "", "linalg": "", "lod": "", "nn": "",
    "numba": "", "numpy": "", "optim": "", "parallel": "", "random": "", "scipy": "",
    "selected_rows": "", "sparse": "", "strings": "", "testing": "",
    "devices": "phix.api.devices", "load": "phix.files.saving", "save": "phix.files.saving",
}  # fmt: skip

if not _typing.TYPE_CHECKING:  # which would take every name for one of these

    def __getattr__(name: str) -> object:
        """The faces and functions that are imported when they are first used."""
        if name.startswith("_"):
            raise AttributeError(f"module 'phix' has no attribute {name!r}")
        if name not in _LATER:
            raise _missing_name("phix", name)
        module = _LATER[name]
        if not module:
            return _importlib.import_module(f"phix.{name}")
        value = globals()[name] = getattr(_importlib.import_module(module), name)
        return value


_provide_numpy(
    lambda: _importlib.import_module("phix.array_functions.by_name").TABLE,
    lambda: _importlib.import_module("phix.numpy"),
)
_provide_methods(lambda: _importlib.import_module("phix.array_functions.paddle_methods").METHODS)
_install_methods(ops)
_end_table()
_mark_absent(_TensorBase)
