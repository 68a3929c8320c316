"""A stand-in, on the host, for the compiled module of ``nvidia-cudnn-frontend``: attention by
NumPy.

It has the names and arguments of the functions that are called, as versions 1.20 to 1.26 have them,
in the order in which they must come, and works on memory of the host.
"""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

from cuda_libraries import strided

_NUMPY = {"HALF": np.float16, "BFLOAT16": ml_dtypes.bfloat16, "FLOAT": np.float32}
_STEPS = ("validate", "build_operation_graph", "create_execution_plans", "check_support",
          "build_plans")  # fmt: skip


class NotSupported(Exception):
    """cudnnGraphNotSupportedError."""


class Tensor:
    def __init__(self, uid: int = -1) -> None:
        self.uid, self.dim, self.stride, self.kind = uid, [], [], ""
        self.is_output = False

    def set_output(self, value: bool) -> Tensor:
        self.is_output = value
        return self

    def set_uid(self, uid: int) -> Tensor:
        self.uid = uid
        return self

    def set_dim(self, dim: list[int]) -> Tensor:
        assert type(dim) is list
        self.dim = dim
        return self

    def set_stride(self, stride: list[int]) -> Tensor:
        assert type(stride) is list
        self.stride = stride
        return self

    def _set_data_type(self, kind: str) -> Tensor:
        self.kind = kind
        return self


class Graph:
    """``cudnn._compiled_module.pygraph``."""

    def __init__(
        self, frontend: Frontend, name: str, io_data_type: str, intermediate_data_type: str,
        compute_data_type: str, handle: int | None = None, sm_version: int | None = None,
    ) -> None:  # fmt: skip
        assert intermediate_data_type == compute_data_type == "FLOAT"
        assert type(name) is str and io_data_type in ("HALF", "BFLOAT16")
        self.frontend, self.handle, self.io = frontend, handle, io_data_type
        self.tensors: dict[str, Tensor] = {}
        self.done: list[str] = []
        self.what, self.scale, self.causal = "", 0.0, False

    def _make_tensor(self, dim: list[int], stride: list[int], data_type: str, uid: int) -> Tensor:
        tensor = Tensor(uid).set_dim(dim).set_stride(stride)
        assert len(dim) == len(stride) == 4 and data_type in _NUMPY
        return tensor._set_data_type(data_type)

    def _node(
        self, what: str, scale: float, alignment: str | None, left: None, right: int | None,
        **tensors: Tensor,
    ) -> None:  # fmt: skip
        assert not self.what and type(scale) is float
        assert (alignment, right) in ((None, None), ("TOP_LEFT", 0))
        self.what, self.scale, self.causal = what, scale, right is not None
        self.tensors = tensors

    def sdpa(
        self, *, q: Tensor, k: Tensor, v: Tensor, attn_scale: float, generate_stats: bool,
        diagonal_alignment: str | None = None, diagonal_band_right_bound: int | None = None,
    ) -> list[Tensor | None]:  # fmt: skip
        outputs = {"o": Tensor(), **({"stats": Tensor()} if generate_stats else {})}
        self._node("forward", attn_scale, diagonal_alignment, None, diagonal_band_right_bound,
                   q=q, k=k, v=v, **outputs)  # fmt: skip
        return [outputs["o"], outputs.get("stats")]

    def sdpa_backward(
        self, *, q: Tensor, k: Tensor, v: Tensor, o: Tensor, dO: Tensor, stats: Tensor,
        attn_scale: float, use_deterministic_algorithm: bool,
        diagonal_alignment: str | None = None, diagonal_band_right_bound: int | None = None,
    ) -> list[Tensor]:  # fmt: skip
        assert use_deterministic_algorithm is True, "the same on every run"
        outputs = {"dq": Tensor(), "dk": Tensor(), "dv": Tensor()}
        self._node("backward", attn_scale, diagonal_alignment, None, diagonal_band_right_bound,
                   q=q, k=k, v=v, o=o, do=dO, stats=stats, **outputs)  # fmt: skip
        return list(outputs.values())

    # -- steps, in order
    def _step(self, name: str) -> None:
        assert name == _STEPS[len(self.done)]
        self.done.append(name)
        if self.frontend.refuses.get(self.what) == name:
            raise NotSupported(f"{name} of {self.what}\nand more of it")

    def validate(self) -> None:
        self._step("validate")
        assert len({t.uid for t in self.tensors.values()}) == len(self.tensors)
        made = ("o", "stats") if self.what == "forward" else ("dq", "dk", "dv")
        for name, tensor in self.tensors.items():
            assert tensor.kind == ("FLOAT" if name == "stats" else self.io)
            assert tensor.is_output == (name in made)
            b, h, rows, size = self.tensors["k" if name in ("k", "v", "dk", "dv") else "q"].dim
            assert tensor.dim == [b, h, rows, 1 if name == "stats" else size]
            assert tensor.stride[-1] == 1 and size % 8 == 0

    def build_operation_graph(self) -> None:
        self._step("build_operation_graph")

    def create_execution_plans(self, modes: list[str]) -> None:
        assert modes == ["A"]
        self._step("create_execution_plans")

    def check_support(self) -> None:
        self._step("check_support")

    def build_plans(self) -> None:
        self._step("build_plans")
        self.frontend.calls.append(("planned", self.what))

    def get_workspace_size(self) -> int:
        return self.frontend.workspace

    # -- work
    def _execute(self, var_pack: dict[int, int], workspace: int, handle: int | None) -> None:
        assert tuple(self.done) == _STEPS and handle == self.handle == Frontend.HANDLE
        assert self.frontend.stream is not None
        assert bool(workspace) == bool(self.frontend.workspace)
        if workspace:
            ctypes.memset(workspace, 0xA5, self.frontend.workspace)
        given = {t.uid for t in self.tensors.values()}
        assert given <= set(var_pack) and all(type(a) is int and a for a in var_pack.values())
        self.frontend.calls.append((self.what, self.causal, sorted(self.tensors)))
        arrays = {
            name: strided(var_pack[t.uid], t.dim, t.stride, _NUMPY[t.kind])
            for name, t in self.tensors.items()
        }
        (_forward if self.what == "forward" else _backward)(arrays, self.scale, self.causal)


class Frontend:
    """``refuses`` says of forward and backward in which step they are refused; ``calls`` are what
    was planned and run."""

    HANDLE = 44
    data_type = SimpleNamespace(**{name: name for name in _NUMPY})
    heur_mode = SimpleNamespace(A="A")
    diagonal_alignment = SimpleNamespace(TOP_LEFT="TOP_LEFT")

    def __init__(self) -> None:
        self.refuses: dict[str, str] = {}
        self.calls: list[tuple[Any, ...]] = []
        self.workspace, self.version = 256, 92400
        self.stream: Any = None

    def backend_version(self) -> int:
        return self.version

    def create_handle(self) -> int:
        return self.HANDLE

    def set_stream(self, handle: int, stream: int) -> None:
        assert handle == self.HANDLE
        self.stream = stream

    def pygraph(self, **arguments: Any) -> Graph:
        return Graph(self, **arguments)


def _scores(q: np.ndarray, k: np.ndarray, scale: float, causal: bool) -> np.ndarray:
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) * scale
    return np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf) if causal else scores


def _forward(arrays: dict[str, np.ndarray], scale: float, causal: bool) -> None:
    q, k, v = (arrays[n].astype(np.float64) for n in "qkv")
    scores = _scores(q, k, scale, causal)
    sums = np.log(np.exp(scores).sum(-1, keepdims=True))
    arrays["o"][...] = np.exp(scores - sums) @ v
    if "stats" in arrays:
        arrays["stats"][...] = sums


def _backward(arrays: dict[str, np.ndarray], scale: float, causal: bool) -> None:
    names = ("q", "k", "v", "o", "do", "stats")
    q, k, v, o, g, sums = (arrays[n].astype(np.float64) for n in names)
    weights = np.exp(_scores(q, k, scale, causal) - sums)
    to_scores = weights * (g @ v.swapaxes(-1, -2) - (g * o).sum(-1, keepdims=True)) * scale
    arrays["dq"][...] = to_scores @ k
    arrays["dk"][...] = to_scores.swapaxes(-1, -2) @ q
    arrays["dv"][...] = weights.swapaxes(-1, -2) @ g
