"""phix: trace, transform and compile numeric Python, in the operators of Paddle's PHI library."""

import importlib as _importlib

from phix import checkpoint_policies as checkpoint_policies
from phix import debug as debug
from phix import fft as fft
from phix import kernels as kernels
from phix import linalg as linalg
from phix import nn as nn
from phix import ops as ops
from phix import primitives as _primitives  # noqa: F401 - registers the rules
from phix import random as random
from phix.api.batching import all_gather as all_gather
from phix.api.batching import all_to_all as all_to_all
from phix.api.batching import axis_index as axis_index
from phix.api.batching import axis_size as axis_size
from phix.api.batching import pmax as pmax
from phix.api.batching import pmean as pmean
from phix.api.batching import pmin as pmin
from phix.api.batching import ppermute as ppermute
from phix.api.batching import psum as psum
from phix.api.batching import psum_scatter as psum_scatter
from phix.api.batching import vmap as vmap
from phix.api.callbacks import pure_callback as pure_callback
from phix.api.checkpointing import checkpoint as checkpoint
from phix.api.checkpointing import checkpoint_name as checkpoint_name
from phix.api.checkpointing import remat as remat
from phix.api.control_flow import associative_scan as associative_scan
from phix.api.control_flow import cond as cond
from phix.api.control_flow import fori_loop as fori_loop
from phix.api.control_flow import map as map
from phix.api.control_flow import scan as scan
from phix.api.control_flow import select_n as select_n
from phix.api.control_flow import switch as switch
from phix.api.control_flow import while_loop as while_loop
from phix.api.creation import arange as arange
from phix.api.creation import empty as empty
from phix.api.creation import eye as eye
from phix.api.creation import full as full
from phix.api.creation import full_like as full_like
from phix.api.creation import linspace as linspace
from phix.api.creation import ones as ones
from phix.api.creation import ones_like as ones_like
from phix.api.creation import zeros as zeros
from phix.api.creation import zeros_like as zeros_like
from phix.api.custom import custom_jvp as custom_jvp
from phix.api.custom import custom_vjp as custom_vjp
from phix.api.custom import stop_gradient as stop_gradient
from phix.api.gradients import grad as grad
from phix.api.gradients import jvp as jvp
from phix.api.gradients import value_and_grad as value_and_grad
from phix.api.gradients import vjp as vjp
from phix.api.graphs import check_graph as check_graph
from phix.api.graphs import decompose as decompose
from phix.api.graphs import eval_shape as eval_shape
from phix.api.graphs import infer_meta as infer_meta
from phix.api.graphs import make_graph as make_graph
from phix.api.graphs import parse_graph as parse_graph
from phix.api.jacobians import hessian as hessian
from phix.api.jacobians import hvp as hvp
from phix.api.jacobians import jacfwd as jacfwd
from phix.api.jacobians import jacrev as jacrev
from phix.api.jacobians import linear_transpose as linear_transpose
from phix.api.jacobians import linearize as linearize
from phix.api.jit import jit as jit
from phix.api.precision import autocast as autocast
from phix.api.taylor import derivative as derivative
from phix.api.taylor import jet as jet
from phix.core import errors as errors
from phix.core import pytrees as tree  # noqa: F401
from phix.core.conversion import to_tensor as to_tensor
from phix.core.disk_cache import cache_info as cache_info
from phix.core.disk_cache import clear_cache as clear_cache
from phix.core.dtypes import bfloat16 as bfloat16
from phix.core.dtypes import bool_ as bool_
from phix.core.dtypes import complex64 as complex64
from phix.core.dtypes import complex128 as complex128
from phix.core.dtypes import float16 as float16
from phix.core.dtypes import float32 as float32
from phix.core.dtypes import float64 as float64
from phix.core.dtypes import int8 as int8
from phix.core.dtypes import int16 as int16
from phix.core.dtypes import int32 as int32
from phix.core.dtypes import int64 as int64
from phix.core.dtypes import uint8 as uint8
from phix.core.dtypes import uint16 as uint16
from phix.core.dtypes import uint32 as uint32
from phix.core.dtypes import uint64 as uint64
from phix.core.graph import Graph as Graph
from phix.core.meta import MetaTensor as MetaTensor
from phix.core.meta import spec as spec
from phix.core.numpy_protocol import provide as _provide_numpy
from phix.core.operators import install_methods as _install_methods
from phix.core.places import Place as Place
from phix.core.places import device as device
from phix.core.precision import matmul_precision as matmul_precision
from phix.core.precision import set_matmul_precision as set_matmul_precision
from phix.core.rules import complete as _complete
from phix.core.tensor import Tensor as Tensor
from phix.kernels.plugins import register_backend as register_backend
from phix.table.extension import load_ops as load_ops

_provide_numpy(lambda: _importlib.import_module("phix.array_functions").TABLE)
_install_methods(ops)
_complete()
