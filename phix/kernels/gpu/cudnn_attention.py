"""Attention of 16-bit floats by cuDNN's fused kernels: kernels of the backend ``GPUDNN``.

They are registered where the package ``nvidia-cudnn-frontend`` is installed beside cuDNN, and come
before the engine's own then, for what ``fits`` says. Scores and sums are of float32. The gradient
takes the algorithm that gives the same bits on each run alone; results and their statistics it
computes again, unless the attention is in the same program (``shared_statistics``). What cuDNN
refuses, the engine does.

Of the package the compiled part is loaded alone: the rest of it imports PyTorch where that is
installed. It gets the library that :mod:`phix.kernels.gpu.cudnn` has loaded.
"""

from __future__ import annotations

import importlib.util
import logging
import re
import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib import metadata
from math import prod
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import settings
from phix.core.errors import DeviceError
from phix.core.kernel_context import KernelContext
from phix.core.kernel_registry import register_kernel
from phix.core.meta import MetaTensor
from phix.core.records import dataclass
from phix.kernels.gpu import cudnn, device, libraries, nvrtc

log = logging.getLogger("phix.kernels")

PACKAGE, MODULE = "nvidia-cudnn-frontend", "cudnn._compiled_module"
# Before these versions PyTorch must be there; from the second on its graphs are of another kind.
VERSIONS = ((1, 20), (1, 27))
DTYPES = (dt.float16, dt.bfloat16)
_TYPES = {dt.float16: "HALF", dt.bfloat16: "BFLOAT16", dt.float32: "FLOAT"}
# Columns of a head, and the numbers that they are multiples of.
_MOST_SIZE, _MULTIPLE = 128, 8
# What a plan may take of memory besides: the deterministic gradient has products of all queries
# and keys there, on some cards.
_MOST_WORKSPACE = 1 << 30
_MOST_LANES, _LARGEST = (1 << 16) - 1, 2**31 - 1
_LEAST_SCALE = 2.0**-100  # scores in order, and far from the ends of float32
# Up to this version cuDNN needs a mask of lengths for the gradient of other numbers of keys, which
# its front end keeps in memory of the host: a recording must not read that.
_MASKING_VERSION, _WHOLE_KEYS = 91500, 128

# What is in memory, by the number that cuDNN knows it by.
QUERY, KEY, VALUE, OUT, STATISTICS, OUT_GRAD, QUERY_GRAD, KEY_GRAD, VALUE_GRAD = range(1, 10)
FORWARD, WITH_STATISTICS, BACKWARD = "forward", "forward with statistics", "backward"


# -- the library ---------------------------------------------------------------------------------
def problem() -> str:
    """Why there is no front end; nothing if there is one."""
    try:
        version = metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        return f"{PACKAGE} is not installed"
    first, end = (".".join(map(str, v)) for v in VERSIONS)
    found = tuple(int(n) for n in re.findall(r"\d+", version)[:2])
    if VERSIONS[0] <= found < VERSIONS[1]:
        return ""
    return f"{PACKAGE} {version} is none of the versions from {first} to below {end}"


@cache
def frontend() -> Any:
    """The compiled module of the package.

    Raises:
        DeviceError: there is none, or it cannot be loaded.
    """
    found = sys.modules.get(MODULE)  # somebody has imported the package
    if found is None:
        found = _loaded()
    handle = cudnn.library()._handle
    found._set_dlhandle_cudnn(handle)
    return found


def _loaded() -> Any:
    if why := problem():
        raise DeviceError(f"attention by cuDNN: {why}")
    files = metadata.files(PACKAGE) or []
    name = MODULE.rpartition(".")[2]
    file = next((f for f in files if f.name.startswith(f"{name}.")), None)
    spec = file and importlib.util.spec_from_file_location(MODULE, str(file.locate()))
    if not spec or spec.loader is None:
        raise DeviceError(f"attention by cuDNN: {PACKAGE} has no {name}; install it again")
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError as error:
        raise DeviceError(f"attention by cuDNN: {MODULE} cannot be imported: {error}") from None
    sys.modules[MODULE] = module  # its types can be made once in a process
    return module


def load_helpers() -> None:
    """Load what cuDNN and its front end look for by name alone, from where wheels put it.

    Raises:
        DeviceError: one of them is not there.
    """
    nvrtc.library()
    libraries.load(
        "cudart", "cuda_runtime", "attention by cuDNN needs CUDA's runtime",
        install='pip install "phix[attention12]" or "phix[attention13]"',
    )  # fmt: skip


# -- plans ---------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Problem:
    """An attention of contiguous operands [*lanes, queries or keys, size], and what of it."""

    what: str
    dtype: np.dtype
    lanes: tuple[int, int]
    queries: int
    keys: int
    size: int
    scale: float
    causal: bool

    def dims(self, which: int) -> list[int]:
        """The four dims of what is in memory."""
        rows = self.keys if which in (KEY, VALUE, KEY_GRAD, VALUE_GRAD) else self.queries
        return [*self.lanes, rows, 1 if which == STATISTICS else self.size]


class Description:
    """A problem as a graph of cuDNN; ``how`` are arguments of the graph besides."""

    def __init__(self, module: Any, problem: Problem, **how: Any) -> None:
        self.module, self.problem, types = module, problem, module.data_type
        self.graph = module.pygraph(
            name="attention", io_data_type=self._type(problem.dtype),
            intermediate_data_type=types.FLOAT, compute_data_type=types.FLOAT, **how,
        )  # fmt: skip
        if problem.what == BACKWARD:
            self._backward()
        else:
            self._forward()

    def _type(self, dtype: np.dtype) -> Any:
        return getattr(self.module.data_type, _TYPES[dtype])

    def _layout(self, which: int) -> tuple[list[int], list[int], Any]:
        """Dims, distances of neighbours and type of what is in memory."""
        dims = self.problem.dims(which)
        strides = [prod(dims[axis + 1 :]) for axis in range(4)]
        dtype = dt.float32 if which == STATISTICS else self.problem.dtype
        return dims, strides, self._type(dtype)

    def _given(self, which: int) -> Any:
        dims, strides, kind = self._layout(which)
        return self.graph._make_tensor(dim=dims, stride=strides, data_type=kind, uid=which)

    def _made(self, tensor: Any, which: int) -> None:
        dims, strides, kind = self._layout(which)
        tensor.set_output(True).set_uid(which).set_dim(dims).set_stride(strides)
        tensor._set_data_type(kind)

    def _order(self) -> dict[str, Any]:
        """What each query sees: with ``causal`` the keys up to its own number, from the first."""
        if not self.problem.causal:
            return {}
        corner = self.module.diagonal_alignment.TOP_LEFT
        return {"diagonal_alignment": corner, "diagonal_band_right_bound": 0}

    def _forward(self) -> None:
        q, k, v = map(self._given, (QUERY, KEY, VALUE))
        has_statistics = self.problem.what == WITH_STATISTICS
        out, statistics = self.graph.sdpa(
            q=q, k=k, v=v, attn_scale=self.problem.scale, generate_stats=has_statistics,
            **self._order(),
        )  # fmt: skip
        self._made(out, OUT)
        if has_statistics:
            self._made(statistics, STATISTICS)

    def _backward(self) -> None:
        q, k, v, o, g, s = map(self._given, (QUERY, KEY, VALUE, OUT, OUT_GRAD, STATISTICS))
        grads = self.graph.sdpa_backward(
            q=q, k=k, v=v, o=o, dO=g, stats=s, attn_scale=self.problem.scale,
            use_deterministic_algorithm=True, **self._order(),
        )  # fmt: skip
        for grad, which in zip(grads, (QUERY_GRAD, KEY_GRAD, VALUE_GRAD), strict=True):
            self._made(grad, which)


class Plan(Description):
    """What cuDNN has made of a problem."""

    def __init__(self, handle: int, problem: Problem) -> None:
        super().__init__(frontend(), problem, handle=handle)
        graph = self.graph
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([self.module.heur_mode.A])
        graph.check_support()
        graph.build_plans()
        self.workspace = int(graph.get_workspace_size())
        if self.workspace > _MOST_WORKSPACE:
            raise DeviceError(f"it takes {self.workspace >> 20} MiB of memory besides")

    def run(self, ctx: KernelContext, handle: int, addresses: dict[int, int]) -> None:
        """Start the work on memory at these addresses."""
        work = 0
        if self.workspace:
            memory = ctx.alloc((self.workspace,), np.dtype(np.uint8))
            work = device.runtime(ctx.place.index).address(memory)
        if ctx.made is not None:
            ctx.made.append(self)  # a recording may read what it keeps on the host
        self.module.set_stream(handle=handle, stream=ctx.stream)
        self.graph._execute(addresses, work, handle)


class Handle:
    """A handle of the current device, and the plans made so far."""

    def __init__(self) -> None:
        load_helpers()
        self.pointer = frontend().create_handle()
        self.plans: OrderedDict[Problem, Plan | None] = OrderedDict()

    def plan(self, problem: Problem) -> Plan | None:
        """The plan of a problem, None where cuDNN refuses it; those used last are kept."""
        if problem not in self.plans:
            self.plans[problem] = self._asked(problem)
            if len(self.plans) > settings.current().most_cudnn_plans:
                self.plans.popitem(last=False)
        self.plans.move_to_end(problem)
        return self.plans[problem]

    def _asked(self, problem: Problem) -> Plan | None:
        try:
            return Plan(self.pointer, problem)
        except Exception as error:  # of its own class, RuntimeError, or what the binding raises
            _say_once(problem.what, f"{error}".strip().partition("\n")[0])
            return None


@cache
def _say_once(what: str, why: str) -> None:
    log.info("attention (%s) is a kernel of phix where cuDNN refuses it: %s", what, why)


_handles: dict[int, Handle | None] = {}  # by device; calls of one come one after the other


def handle(index: int) -> Handle | None:
    """That of a device, None where its library does not work."""
    if index not in _handles:
        try:
            _handles[index] = Handle()
        except Exception as error:  # as above
            _handles[index] = None
            log.warning("attention is a kernel of phix: cuDNN's front end fails (%s)", error)
    return _handles[index]


# -- which calls -----------------------------------------------------------------------------------
def _may_fit(metas: tuple[Any, ...], scale: float) -> bool:
    """Whether sizes that are known let cuDNN have operands [..., queries or keys, size], of which
    the first is the query."""
    query, *others = metas
    dims = query.dims
    sizes = [m.dims[-1] for m in metas]
    return (
        all(m.dtype == query.dtype for m in others)
        and all(len(m.dims) == len(dims) for m in others)
        and all(dm.same_shape(m.dims[:-2], dims[:-2]) for m in others)
        and all(isinstance(n, int) and n == sizes[0] for n in sizes)
        and 0 < sizes[0] <= _MOST_SIZE
        and sizes[0] % _MULTIPLE == 0
        and _LEAST_SCALE <= scale <= 1 / _LEAST_SCALE
    )


def _problem(what: str, shapes: Any, dtype: np.dtype, scale: float, causal: bool) -> Problem | None:
    """That of known shapes of query and key; None: they are too small, or too large."""
    (*lead, queries, size), (*_, keys, _) = shapes
    lanes = (prod(lead[:-1]), lead[-1] if lead else 1)
    largest = prod(lanes) * max(queries, keys) * size
    if not largest or min(queries, keys) < 1 or largest > _LARGEST or max(lanes) > _MOST_LANES:
        return None
    return Problem(what, dtype, lanes, queries, keys, size, float(scale), bool(causal))


def _are_planned(index: int, problem: Problem, parts: tuple[str, ...]) -> bool:
    found = handle(index)
    if found is None:
        return False
    is_masked = BACKWARD in parts and problem.keys % _WHOLE_KEYS > 0
    if is_masked and frontend().backend_version() <= _MASKING_VERSION:
        return False
    return all(found.plan(replace(problem, what=what)) is not None for what in parts)


def _fits(
    tensors: tuple[MetaTensor, ...], attrs: tuple[Any, ...], ctx: KernelContext | None,
    parts: tuple[str, ...],
) -> bool:  # fmt: skip
    scale, causal = attrs
    if not _may_fit(tensors, scale):
        return False
    if ctx is None:
        return True
    query, key, *_ = tensors
    problem = _problem(parts[0], (query.dims, key.dims), query.dtype, scale, causal)
    return problem is not None and _are_planned(ctx.place.index, problem, parts)


def attention_fits(metas: Any, attrs: tuple[Any, ...], ctx: KernelContext | None) -> bool:
    """See ``register_kernel``."""
    query, key, value, mask = metas
    return mask is None and _fits((query, key, value), attrs, ctx, (FORWARD,))


def attention_grad_fits(metas: Any, attrs: tuple[Any, ...], ctx: KernelContext | None) -> bool:
    """See ``register_kernel``."""
    query, key, value, mask, out_grad = metas
    parts = (WITH_STATISTICS, BACKWARD)
    return mask is None and _fits((query, key, value, out_grad), attrs, ctx, parts)


# -- kernels ---------------------------------------------------------------------------------------
class AttentionCall:
    """One call of a kernel, on operands that fit."""

    def __init__(
        self, ctx: KernelContext, query: Any, key: Any, scale: float, causal: bool
    ) -> None:
        self.ctx, self.runtime = ctx, device.runtime(ctx.place.index)
        problem = _problem(FORWARD, (query.shape, key.shape), query.dtype, scale, causal)
        assert problem is not None
        self.problem = problem

    def run(self, what: str, arrays: dict[int, Any]) -> None:
        """One part of the work, on arrays by the numbers of what they are."""
        found = handle(self.ctx.place.index)
        plan = None if found is None else found.plan(replace(self.problem, what=what))
        if found is None or plan is None:
            raise DeviceError(
                f"cuDNN has no kernel for attention ({what}) of {self.problem}; leave it to phix: "
                'phix.kernels.unregister_kernel("attention", "GPUDNN"), and "attention_grad"'
            )
        addresses = {which: self.runtime.address(a) for which, a in arrays.items()}
        plan.run(self.ctx, found.pointer, addresses)

    def memory(self, which: int, dtype: np.dtype) -> Any:
        """Memory for a result that is not asked for, or not yet."""
        return self.ctx.alloc(tuple(self.problem.dims(which)), dtype)


def attention(
    ctx: KernelContext, query: Any, key: Any, value: Any, mask: None, scale: float, causal: bool,
    out: Any,
) -> None:  # fmt: skip
    """See the op; what is shared with the gradient are the statistics."""
    call = AttentionCall(ctx, query, key, scale, causal)
    arrays = {QUERY: query, KEY: key, VALUE: value, OUT: out}
    if ctx.shared:
        (arrays[STATISTICS],) = ctx.shared
    call.run(WITH_STATISTICS if ctx.shared else FORWARD, arrays)


def attention_grad(
    ctx: KernelContext, query: Any, key: Any, value: Any, mask: None, out_grad: Any, scale: float,
    causal: bool, *grads: Any,
) -> None:  # fmt: skip
    """See the op; a gradient that nothing reads is None, and computed with the others. Results and
    statistics are shared with the attention, or computed again."""
    call = AttentionCall(ctx, query, key, scale, causal)
    arrays = {QUERY: query, KEY: key, VALUE: value}
    if ctx.shared:
        arrays[OUT], arrays[STATISTICS] = ctx.shared
    else:
        arrays[OUT] = call.memory(OUT, query.dtype)
        arrays[STATISTICS] = call.memory(STATISTICS, dt.float32)
        call.run(WITH_STATISTICS, arrays)
    arrays[OUT_GRAD] = out_grad
    for which, grad in zip((QUERY_GRAD, KEY_GRAD, VALUE_GRAD), grads):
        arrays[which] = call.memory(which, query.dtype) if grad is None else grad
    call.run(BACKWARD, arrays)


KERNELS: dict[str, tuple[Callable[..., None], Callable[..., bool]]] = {
    "attention": (attention, attention_fits),
    "attention_grad": (attention_grad, attention_grad_fits),
}


def _without_cudnn() -> str:
    try:
        cudnn.library()
    except DeviceError as error:
        return f"no cuDNN ({error})"
    return ""


def register() -> bool:
    """Register the kernels if both packages are there, and say whether they are."""
    why = problem() or _without_cudnn()
    if why:
        log.info("attention is a kernel of phix: %s", why)
        return False
    for name, (function, fits) in KERNELS.items():
        how = register_kernel(
            name, "GPUDNN", dtypes=DTYPES, takes_unread=True, recordable=True, fits=fits
        )
        how(function)
    return True
