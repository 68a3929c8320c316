"""phix: trace, transform and compile numeric Python, in the operators of Paddle's PHI library."""

import sys as _sys

from phix import checkpoint_policies as checkpoint_policies
from phix import debug as debug
from phix import ops as ops
from phix import primitives as _primitives  # noqa: F401 - registers the rules
from phix.api import check_graph as check_graph
from phix.api import decompose as decompose
from phix.api import eval_shape as eval_shape
from phix.api import grad as grad
from phix.api import infer_meta as infer_meta
from phix.api import jvp as jvp
from phix.api import make_graph as make_graph
from phix.api import parse_graph as parse_graph
from phix.api import value_and_grad as value_and_grad
from phix.api import vjp as vjp
from phix.callbacks import pure_callback as pure_callback
from phix.checkpointing import checkpoint as checkpoint
from phix.checkpointing import checkpoint_name as checkpoint_name
from phix.checkpointing import remat as remat
from phix.control_flow import associative_scan as associative_scan
from phix.control_flow import cond as cond
from phix.control_flow import fori_loop as fori_loop
from phix.control_flow import map as map
from phix.control_flow import scan as scan
from phix.control_flow import select_n as select_n
from phix.control_flow import switch as switch
from phix.control_flow import while_loop as while_loop
from phix.core import errors as errors
from phix.core import pytrees as tree  # noqa: F401
from phix.core.dispatch import bind as _bind
from phix.core.graph import Graph as Graph
from phix.core.meta import MetaTensor as MetaTensor
from phix.core.meta import spec as spec
from phix.core.places import Place as Place
from phix.core.rules import complete as _complete
from phix.core.table import load_ops as load_ops
from phix.core.tensor import Tensor as Tensor
from phix.core.tensor import install_methods as _install_methods
from phix.core.tensor import install_operators as _install_operators
from phix.core.tensor import to_tensor as to_tensor
from phix.custom import custom_jvp as custom_jvp
from phix.custom import custom_vjp as custom_vjp
from phix.custom import stop_gradient as stop_gradient
from phix.derivatives import hessian as hessian
from phix.derivatives import hvp as hvp
from phix.derivatives import jacfwd as jacfwd
from phix.derivatives import jacrev as jacrev
from phix.derivatives import linear_transpose as linear_transpose
from phix.derivatives import linearize as linearize
from phix.jitted import jit as jit
from phix.taylor import derivative as derivative
from phix.taylor import jet as jet
from phix.vectorized import all_gather as all_gather
from phix.vectorized import all_to_all as all_to_all
from phix.vectorized import axis_index as axis_index
from phix.vectorized import axis_size as axis_size
from phix.vectorized import pmax as pmax
from phix.vectorized import pmean as pmean
from phix.vectorized import pmin as pmin
from phix.vectorized import ppermute as ppermute
from phix.vectorized import psum as psum
from phix.vectorized import psum_scatter as psum_scatter
from phix.vectorized import vmap as vmap

_install_operators(_bind)
_install_methods(ops)
if _sys.argv[:1] == ["-m"] and "phix.ops" in _sys.orig_argv:
    # `python -m phix.ops` writes that file anew: it must run while rules wait for their entries.
    _sys.modules.pop("phix.ops")
else:
    _complete()
