"""Calls of the public functions that are no ops, for ``spoiled_calls``: each works as it stands.

A row is ``name: (function, {argument: (value, kind)})``; the arguments before a ``*`` in the row's
names go by position. What a transformation gives is called, so that what it checks late counts.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

import phix
import phix.nn.functional as F
from phix import ops

Row = tuple[Callable[..., Any], dict[str, tuple[Any, str]]]

X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], np.float32)
TRIPLE = np.array([1.0, 2.0, 3.0], np.float32)
SQUARE = np.array([[4.0, 1.0], [1.0, 3.0]], np.float32)
VECTOR = np.array([1.0, 2.0, 3.0], np.float32)
LABELS = np.array([0, 2])
KEY = phix.random.key(0)
_TURNS = phix.scipy.spatial.transform.Rotation.identity(2)
TEXT = "graph(x: float32[2]) { a: float32[2] = abs(x) return a }"


def total(x: Any) -> Any:
    """A function with a gradient."""
    return ops.sum(x * x)


def _halved(matvec: Any, b: Any) -> Any:
    return b * 0.5


def double(x: Any) -> Any:
    return x * 2.0


def step(carry: Any, x: Any) -> Any:
    return carry + x, carry


def _set_default(dtype: Any) -> None:
    with phix.default_dtype("float32"):  # which is what it is again behind the block
        phix.set_default_dtype(dtype)


def _pinned(name: Any) -> Any:
    with phix.library(name):
        return phix.ops.tanh(X)


def _of(transformation: Callable[..., Any], *args: Any) -> Callable[..., Any]:
    """What a transformation gives for these settings, called on ``args``."""

    def made(**settings: Any) -> Any:
        return transformation(settings.pop("function"), **settings)(*args)

    return made


def _entered(make: Callable[..., Any]) -> Callable[..., Any]:
    def made(**settings: Any) -> None:
        with make(**settings):
            pass

    return made


def _lanes(collective: Callable[..., Any]) -> Callable[..., Any]:
    """A collective over two lanes."""

    def made(**settings: Any) -> Any:
        return phix.vmap(lambda x: collective(x, **settings), axis_name="i")(X[:, :2])

    return made


def _on_lanes(function: Callable[..., Any]) -> Callable[..., Any]:
    """What joins lanes, on two that have the same arguments."""

    def made(*args: Any, **settings: Any) -> Any:
        return phix.vmap(lambda _: function(*args, **settings), axis_name="i")(X[:2])

    return made


MESH = phix.parallel.mesh({"data": 2}, virtual=True)
HEADS = phix.ones([1, 2, 1, 2])
FUNCTION = (total, "function")
LAZY: dict[str, Row] = {
    name: (_of(getattr(phix, name), VECTOR),
           {"function": FUNCTION, "argnums": (0, "int[]"), "has_aux": (False, "bool")})
    for name in ("grad", "value_and_grad", "hessian", "jacfwd", "jacrev")
}  # fmt: skip
TRANSFORMATIONS: dict[str, Row] = {
    "vjp": (lambda function, x, has_aux: phix.vjp(function, x, has_aux=has_aux)[1](1.0),
            {"function": FUNCTION, "x": (VECTOR, "tree"), "has_aux": (False, "bool")}),
    "jvp": (phix.jvp, {"function": FUNCTION, "primals": ((VECTOR,), "tree"),
                       "tangents": ((VECTOR,), "tree"), "has_aux": (False, "bool")}),
    "hvp": (phix.hvp, {"function": FUNCTION, "primals": ((VECTOR,), "tree"),
                       "tangents": ((VECTOR,), "tree")}),
    "linearize": (lambda function, x, has_aux: phix.linearize(function, x, has_aux=has_aux)[1](x),
                  {"function": FUNCTION, "x": (VECTOR, "tree"), "has_aux": (False, "bool")}),
    "linear_transpose": (lambda function, x: phix.linear_transpose(function, x)(VECTOR),
                         {"function": (double, "function"), "x": (VECTOR, "tree")}),
    "jet": (phix.jet, {"function": FUNCTION, "primals": ((VECTOR,), "tree"),
                       "series": (([VECTOR, VECTOR],), "tree")}),
    "derivative": (_of(phix.derivative, 2.0), {"function": (double, "function"),
                                               "order": (2, "int")}),
    "vmap": (_of(phix.vmap, X),
             {"function": (double, "function"), "in_axes": (0, "int[]"), "out_axes": (0, "int[]"),
              "axis_size": (2, "int"), "axis_name": ("i", "str"), "chunk_size": (None, "int")}),
    "vmap in chunks": (lambda function, chunk_size: phix.vmap(function, chunk_size=chunk_size)(X),
                       {"function": (double, "function"), "chunk_size": (1, "int")}),
    "jit": (_of(phix.jit, VECTOR),
            {"function": (double, "function"), "static_argnums": ((), "int[]"),
             "static_argnames": ((), "str"), "input_spec": ([phix.spec([3])], "any"),
             "donate_argnums": ((), "int[]"), "disable": ((), "any")}),
    "library": (_pinned, {"name": ("phix", "str")}),
    "checkpoint": (lambda function, policy, static_argnums: phix.grad(
                       phix.checkpoint(function, policy=policy, static_argnums=static_argnums)
                   )(VECTOR),
                   {"function": FUNCTION, "policy": (None, "function"),
                    "static_argnums": ((), "int[]")}),
    "checkpoint_name": (phix.checkpoint_name, {"x": (X, "tree"), "name": ("a", "str")}),
    "autocast": (_of(phix.autocast, X), {"function": (double, "function"),
                                         "dtype": ("bfloat16", "DataType"), "allow": ((), "any"),
                                         "deny": ((), "any")}),
    "custom_vjp": (lambda function, nondiff_argnums: _with_vjp(function, nondiff_argnums),
                   {"function": FUNCTION, "nondiff_argnums": ((), "int[]")}),
    "custom_jvp": (lambda function, nondiff_argnums: _with_jvp(function, nondiff_argnums),
                   {"function": FUNCTION, "nondiff_argnums": ((), "int[]")}),
    "custom_linear_solve": (
        lambda matvec, b, solve, transpose_solve, symmetric, has_aux: phix.custom_linear_solve(
            matvec, b, solve, transpose_solve, symmetric, has_aux),
        {"matvec": (double, "function"), "b": (VECTOR, "tree"), "solve": (_halved, "function"),
         "transpose_solve": (None, "function"), "symmetric": (False, "bool"),
         "has_aux": (False, "bool")}),
    "custom_root": (
        lambda f, initial_guess, solve, tangent_solve, has_aux: phix.custom_root(
            f, initial_guess, solve, tangent_solve, has_aux),
        {"f": (double, "function"), "initial_guess": (VECTOR, "tree"),
         "solve": (_halved, "function"), "tangent_solve": (_halved, "function"),
         "has_aux": (False, "bool")}),
    "stop_gradient": (phix.stop_gradient, {"x": (X, "tree")}),
    "make_graph": (_of(phix.make_graph, VECTOR), {"function": FUNCTION}),
    "decompose": (_of(phix.decompose, VECTOR),
                  {"function": FUNCTION, "keep": ((), "any"), "to": (None, "any")}),
    "infer_meta": (_of(phix.infer_meta, VECTOR), {"function": FUNCTION}),
    "eval_shape": (lambda function, x: phix.eval_shape(function, x),
                   {"function": FUNCTION, "x": (VECTOR, "tree")}),
    "check_graph": (phix.check_graph, {"graph": (phix.parse_graph(TEXT), "Graph")}),
    "parse_graph": (phix.parse_graph, {"text": (TEXT, "never str"), "constants": ((), "any")}),
    "pure_callback": (lambda function, result_specs, x, vmap_method: phix.pure_callback(
                          function, result_specs, x, vmap_method=vmap_method),
                      {"function": (lambda x: np.sin(x), "function"),
                       "result_specs": (phix.spec([3]), "specs"),
                       "x": (VECTOR, "tree"), "vmap_method": (None, "str")}),
}  # fmt: skip


def _with_vjp(function: Any, nondiff_argnums: Any) -> Any:
    made = phix.custom_vjp(function, nondiff_argnums)
    made.defvjp(lambda x: (total(x), x), lambda x, ct: (2.0 * x * ct,))
    return phix.grad(made)(VECTOR)


def _with_jvp(function: Any, nondiff_argnums: Any) -> Any:
    made = phix.custom_jvp(function, nondiff_argnums)
    made.defjvp(
        lambda primals, tangents: (total(*primals), ops.sum(2.0 * primals[0] * tangents[0]))
    )
    return phix.grad(made)(VECTOR)


CONTROL: dict[str, Row] = {
    "cond": (lambda pred, true_fn, false_fn, x: phix.cond(pred, true_fn, false_fn, x),
             {"pred": (True, "Tensor"), "true_fn": (double, "function"),
              "false_fn": (double, "function"), "x": (X, "tree")}),
    "switch": (lambda index, branches, x: phix.switch(index, branches, x),
               {"index": (1, "Tensor"), "branches": ([double, double], "functions"),
                "x": (X, "tree")}),
    "select_n": (lambda which, case: phix.select_n(which, case, case),
                 {"which": (1, "Tensor"), "case": (X, "Tensor")}),
    "while_loop": (phix.while_loop,
                   {"cond_fun": (lambda v: v < 10.0, "function"), "body_fun": (double, "function"),
                    "init_val": (1.0, "tree")}),
    "fori_loop": (phix.fori_loop,
                  {"lower": (0, "int"), "upper": (3, "int"),
                   "body_fun": (lambda i, v: v * 2.0, "function"), "init_val": (1.0, "tree"),
                   "unroll": (1, "int")}),
    "scan": (phix.scan,
             {"f": (step, "function"), "init": (0.0, "tree"), "xs": (VECTOR, "tree"),
              "length": (3, "int"), "reverse": (False, "bool"), "unroll": (1, "int")}),
    "map": (phix.map, {"f": (double, "function"), "xs": (VECTOR, "tree"),
                       "batch_size": (2, "int")}),
    "associative_scan": (phix.associative_scan,
                         {"fn": (ops.add, "function"), "elems": (VECTOR, "tree"),
                          "reverse": (False, "bool"), "axis": (0, "int")}),
}  # fmt: skip
COLLECTIVES: dict[str, Row] = {
    **{name: (_lanes(getattr(phix, name)), {"axis_name": ("i", "any")})
       for name in ("psum", "pmean", "pmax", "pmin", "pvary")},
    "all_gather": (_lanes(phix.all_gather), {"axis_name": ("i", "str"), "axis": (0, "int"),
                                             "tiled": (False, "bool")}),
    "ragged_all_to_all": (_on_lanes(phix.ragged_all_to_all),
                          {"operand": (VECTOR, "Tensor"), "output": (VECTOR, "Tensor"),
                           **{name: (phix.ops.zeros([2], "int64"), "Tensor")
                              for name in ("input_offsets", "send_sizes", "output_offsets",
                                           "recv_sizes")},
                           "*": (None, ""), "axis_name": ("i", "str")}),
    "psum_scatter": (_lanes(phix.psum_scatter), {"axis_name": ("i", "str"),
                                                 "scatter_dimension": (0, "int"),
                                                 "tiled": (False, "bool")}),
    "all_to_all": (_lanes(phix.all_to_all),
                   {"axis_name": ("i", "str"), "split_axis": (0, "int"), "concat_axis": (0, "int"),
                    "tiled": (False, "bool")}),
    "ppermute": (_lanes(phix.ppermute), {"axis_name": ("i", "str"), "perm": ([(0, 1)], "any")}),
    "axis_index": (_lanes(lambda x, axis_name: x * phix.axis_index(axis_name)),
                   {"axis_name": ("i", "str")}),
    "axis_size": (_lanes(lambda x, axis_name: x * phix.axis_size(axis_name)),
                  {"axis_name": ("i", "str")}),
}  # fmt: skip
CREATION: dict[str, Row] = {
    "to_tensor": (phix.to_tensor, {"data": (X, "Tensor"), "dtype": ("float32", "DataType"),
                                   "place": ("cpu", "Place")}),
    "full": (phix.full, {"shape": ([2], "int[]"), "fill_value": (1.0, "Scalar"),
                         "dtype": ("float32", "DataType")}),
    **{name: (getattr(phix, name), {"shape": ([2], "int[]"), "dtype": ("float32", "DataType")})
       for name in ("zeros", "ones", "empty")},
    "full_like": (phix.full_like, {"x": (X, "Tensor"), "fill_value": (1.0, "Scalar"),
                                   "dtype": ("float32", "DataType")}),
    **{name: (getattr(phix, name), {"x": (X, "Tensor"), "dtype": ("float32", "DataType")})
       for name in ("zeros_like", "ones_like")},
    "arange": (phix.arange, {"start": (0, "Scalar"), "end": (3, "Scalar"), "step": (1, "Scalar"),
                             "dtype": ("int64", "DataType")}),
    "linspace": (phix.linspace, {"start": (0.0, "Tensor"), "stop": (1.0, "Tensor"),
                                 "num": (3, "int"), "dtype": ("float32", "DataType")}),
    "eye": (phix.eye, {"num_rows": (2, "int"), "num_columns": (3, "int"),
                       "dtype": ("float32", "DataType")}),
    "spec": (phix.spec, {"shape": ([2, "n"], "shape"), "dtype": ("float32", "DataType")}),
    "MetaTensor": (phix.MetaTensor, {"dims": ((2, 3), "any"), "dtype": ("float32", "DataType")}),
    "Tensor": (phix.Tensor, {"data": (X, "any")}),
    "Place": (phix.Place, {"kind": ("cpu", "any"), "index": (0, "any")}),
    "device": (_entered(phix.device), {"place": ("cpu", "Place")}),
    "default_dtype": (_entered(phix.default_dtype), {"dtype": ("float32", "DataType")}),
    "set_default_dtype": (_set_default, {"dtype": ("float32", "never DataType")}),
    "set_matmul_precision": (phix.set_matmul_precision, {"precision": ("highest", "str")}),
    "load_ops": (phix.load_ops, {"path": (__file__, "never str")}),
}  # fmt: skip
TREES: dict[str, Row] = {
    "tree.flatten": (phix.tree.flatten, {"tree": ([X], "any")}),
    "tree.leaves": (phix.tree.leaves, {"tree": ([X], "any")}),
    "tree.unflatten": (phix.tree.unflatten, {"treedef": (phix.tree.flatten([1])[1], "Graph"),
                                             "leaves": ([1], "any")}),
    "tree.map": (lambda function, tree, other: phix.tree.map(function, tree, other),
                 {"function": (lambda *x: x, "function"), "tree": ([1], "any"),
                  "other": ([2], "any")}),
    "tree.aligned": (phix.tree.aligned, {"tree": ([1], "any"), "like": ([1], "any"),
                                         "what": ("aligned", "any")}),
    "tree.broadcast_prefix": (phix.tree.broadcast_prefix,
                              {"prefix": ([1], "any"), "tree": ([1], "any"),
                               "what": ("broadcast_prefix", "any")}),
    "tree.paths": (phix.tree.paths, {"tree": ([X], "any")}),
    "tree.map_with_path": (phix.tree.map_with_path,
                           {"function": (lambda *x: x, "function"), "tree": ([1], "any")}),
    "tree.structure": (phix.tree.structure, {"tree": ([X], "any"), "is_leaf": (None, "any")}),
    "tree.leaves_with_path": (phix.tree.leaves_with_path, {"tree": ([X], "any")}),
    "tree.flatten_with_path": (phix.tree.flatten_with_path, {"tree": ([X], "any")}),
    "tree.all": (phix.tree.all, {"tree": ([1, 0], "any")}),
    "tree.reduce": (phix.tree.reduce, {"function": (lambda *x: x, "function"),
                                       "tree": ([X, X], "any"), "initializer": (X, "any")}),
    "tree.reduce_associative": (
        lambda operation, tree, identity: phix.tree.reduce_associative(
            operation, tree, identity=identity),
        {"operation": (lambda *x: x, "function"), "tree": ([X, X], "any"), "identity": (X, "any")}),
    "tree.broadcast": (phix.tree.broadcast, {"prefix": (1, "any"), "tree": ([1, 2], "any")}),
    "tree.transpose": (phix.tree.transpose, {"outer": (phix.tree.structure([1]), "Graph"),
                                             "inner": (phix.tree.structure((1,)), "Graph"),
                                             "tree": ([(1,)], "any")}),
    "tree.partition": (phix.tree.partition, {"tree": ([1], "any"), "chosen": ([True], "function")}),
    "tree.combine": (lambda first, second: phix.tree.combine(first, second),
                     {"first": ([1], "any"), "second": ([2], "any")}),
    "tree.register": (lambda flatten_fn, unflatten_fn: phix.tree.register(
                          type("Node", (), {}), flatten_fn, unflatten_fn),
                      {"flatten_fn": (double, "function"), "unflatten_fn": (double, "function")}),
    "tree.register_dataclass": (phix.tree.register_dataclass, {"cls": (None, "any")}),
}  # fmt: skip
_FOLDER = tempfile.TemporaryDirectory()  # gone with the process


def _inside(path: Any) -> Any:
    return os.path.join(_FOLDER.name, path) if isinstance(path, str) else path


phix.save(_inside("a"), [X])
phix.parallel.save(_inside("parts"), [X], MESH, None)
FILES: dict[str, Row] = {
    "parallel.save": (lambda path, tree, mesh, specs: phix.parallel.save(
                          _inside(path), tree, mesh, specs),
                      {"path": ("more", "any"), "tree": ([X], "any"), "mesh": (MESH, "any"),
                       "specs": (None, "any")}),
    "parallel.load": (lambda path, mesh, specs, classes: phix.parallel.load(
                          _inside(path), mesh, specs, None, classes),
                      {"path": ("parts", "any"), "mesh": (MESH, "any"), "specs": (None, "any"),
                       "classes": ((), "any")}),
    "save": (lambda path, tree: phix.save(_inside(path), tree),
             {"path": ("b", "any"), "tree": ([X], "any")}),
    "load": (lambda path, like, classes: phix.load(_inside(path), like, classes=classes),
             {"path": ("a", "any"), "like": ([X], "any"), "classes": ((), "any")}),
    "devices": (phix.devices, {"kind": ("cpu", "str")}),
    "load to a place": (lambda place: phix.load(_inside("a"), place=place),
                        {"place": ("cpu", "Place")}),
}  # fmt: skip
DEBUG: dict[str, Row] = {
    "debug.callback": (lambda function, x: phix.debug.callback(function, x),
                       {"function": (lambda x: None, "function"), "x": (X, "tree")}),
    "debug.print": (lambda text, x: phix.debug.print(text, x),
                    {"text": ("", "str"), "x": (X, "tree")}),
    "debug.patterns": (lambda function, x: phix.debug.patterns(function, x),
                       {"function": FUNCTION, "x": (X, "tree")}),
    "debug.draw": (lambda function, x, most: phix.debug.draw(function, x, most=most),
                   {"function": FUNCTION, "x": (X, "tree"), "most": (3, "int")}),
    "debug.profile": (lambda function, x: phix.debug.profile(function)(x),
                      {"function": FUNCTION, "x": (X, "tree")}),
    "debug.why_retraced": (phix.debug.why_retraced, {"function": (phix.jit(double), "Graph")}),
    "debug.assert_max_traces": (_entered(phix.debug.assert_max_traces),
                                {"function": (phix.jit(double), "Graph"), "most": (1, "int")}),
}  # fmt: skip
LINALG: dict[str, Row] = {
    "linalg.cholesky": (phix.linalg.cholesky, {"a": (SQUARE, "Tensor"), "upper": (False, "bool")}),
    "linalg.det": (phix.linalg.det, {"a": (SQUARE, "Tensor")}),
    "linalg.inv": (phix.linalg.inv, {"a": (SQUARE, "Tensor")}),
    "linalg.slogdet": (phix.linalg.slogdet, {"a": (SQUARE, "Tensor")}),
    "linalg.matrix_power": (phix.linalg.matrix_power, {"a": (SQUARE, "Tensor"), "n": (2, "int")}),
    "linalg.solve": (phix.linalg.solve, {"a": (SQUARE, "Tensor"), "b": (SQUARE, "Tensor")}),
    "linalg.solve_triangular": (phix.linalg.solve_triangular,
                                {"a": (SQUARE, "Tensor"), "b": (SQUARE, "Tensor"),
                                 "lower": (True, "bool"), "trans": ("N", "str"),
                                 "unit_diagonal": (False, "bool")}),
    "linalg.qr": (phix.linalg.qr, {"a": (SQUARE, "Tensor"), "mode": ("complete", "str")}),
    "linalg.svd": (phix.linalg.svd, {"a": (SQUARE, "Tensor"), "full_matrices": (False, "bool"),
                                     "compute_uv": (True, "bool")}),
    "linalg.svdvals": (phix.linalg.svdvals, {"a": (SQUARE, "Tensor")}),
    "linalg.eigh": (phix.linalg.eigh, {"a": (SQUARE, "Tensor"), "UPLO": ("L", "str")}),
    "linalg.eigvalsh": (phix.linalg.eigvalsh, {"a": (SQUARE, "Tensor"), "UPLO": ("L", "str")}),
    "linalg.eig": (phix.linalg.eig, {"a": (SQUARE, "Tensor")}),
    "linalg.eigvals": (phix.linalg.eigvals, {"a": (SQUARE, "Tensor")}),
    "linalg.expm": (phix.linalg.expm, {"A": (SQUARE, "Tensor")}),
    "linalg.sqrtm": (phix.linalg.sqrtm, {"A": (SQUARE, "Tensor")}),
    "linalg.pinv": (phix.linalg.pinv, {"a": (SQUARE, "Tensor"), "rcond": (0.1, "Tensor"),
                                       "hermitian": (False, "bool")}),
    "linalg.matrix_rank": (phix.linalg.matrix_rank,
                           {"A": (SQUARE, "Tensor"), "tol": (0.1, "Tensor"),
                            "hermitian": (False, "bool"), "rtol": (None, "any")}),
    "linalg.lstsq": (phix.linalg.lstsq, {"a": (SQUARE, "Tensor"), "b": (SQUARE, "Tensor"),
                                         "rcond": (None, "any")}),
    "linalg.cond": (phix.linalg.cond, {"x": (SQUARE, "Tensor"), "p": ("fro", "str")}),
    "linalg.norm": (phix.linalg.norm, {"x": (SQUARE, "Tensor"), "ord": ("nuc", "str"),
                                       "axis": ([0, 1], "int[]"), "keepdims": (False, "bool")}),
    "linalg.vector_norm": (phix.linalg.vector_norm,
                           {"x": (SQUARE, "Tensor"), "axis": ([0, 1], "int[]"),
                            "keepdims": (False, "bool"), "ord": (2, "any")}),
    "linalg.matrix_norm": (phix.linalg.matrix_norm,
                           {"x": (SQUARE, "Tensor"), "keepdims": (False, "bool"),
                            "ord": ("fro", "str")}),
    "linalg.multi_dot": (phix.linalg.multi_dot, {"arrays": ([SQUARE, SQUARE], "Tensor[]")}),
    "linalg.cross": (phix.linalg.cross, {"x1": (TRIPLE, "Tensor"), "x2": (TRIPLE, "Tensor"),
                                         "axis": (0, "int")}),
    "linalg.trace": (phix.linalg.trace, {"x": (SQUARE, "Tensor"), "offset": (0, "int")}),
    "linalg.outer": (phix.linalg.outer, {"x1": (VECTOR, "Tensor"), "x2": (VECTOR, "Tensor")}),
    "linalg.tensordot": (phix.linalg.tensordot, {"a": (SQUARE, "Tensor"), "b": (SQUARE, "Tensor"),
                                                 "axes": (1, "any")}),
}  # fmt: skip
_ONE = {"x": (VECTOR, "Tensor"), "n": (3, "int"), "axis": (-1, "int"), "norm": ("ortho", "str")}
_MANY = {"x": (X, "Tensor"), "s": ([2, 3], "int[]"), "axes": ([0, 1], "int[]"),
         "norm": ("ortho", "str")}  # fmt: skip
FFT: dict[str, Row] = {
    **{f"fft.{name}": (getattr(phix.fft, name), _ONE)
       for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")},
    **{f"fft.{name}": (getattr(phix.fft, name), _MANY)
       for name in ("fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2")},
    **{f"fft.{name}": (getattr(phix.fft, name), {"x": (X, "Tensor"), "axes": ([0], "int[]")})
       for name in ("fftshift", "ifftshift")},
    **{f"fft.{name}": (getattr(phix.fft, name),
                       {"n": (4, "int"), "d": (1.0, "any"), "dtype": (None, "DataType")})
       for name in ("fftfreq", "rfftfreq")},
}  # fmt: skip
_DRAWN = {"shape": ([2], "int[]"), "dtype": ("float32", "DataType")}
RANDOM: dict[str, Row] = {
    "random.key": (phix.random.key, {"seed": (0, "Tensor")}),
    "random.split": (phix.random.split, {"key": (KEY, "Tensor"), "num": (2, "int[]")}),
    "random.fold_in": (phix.random.fold_in, {"key": (KEY, "Tensor"), "data": (1, "Tensor")}),
    "random.bits": (phix.random.bits, {"key": (KEY, "Tensor"), "shape": ([2], "int[]"),
                                       "bit_width": (32, "int")}),
    "random.bernoulli": (phix.random.bernoulli, {"key": (KEY, "Tensor"), "p": (0.5, "Tensor"),
                                                 "shape": ([2], "int[]")}),
    "random.categorical": (phix.random.categorical,
                           {"key": (KEY, "Tensor"), "logits": (VECTOR, "Tensor"),
                            "axis": (-1, "int"), "shape": ((), "int[]")}),
    **{f"random.{name}": (getattr(phix.random, name), {"key": (KEY, "Tensor"), **_DRAWN})
       for name in ("exponential", "gumbel", "laplace", "logistic", "cauchy")},
    **{f"random.{name}": (getattr(phix.random, name),
                          {"key": (KEY, "Tensor"), argument: (VECTOR, "Tensor"),
                           "shape": ([2, 3], "int[]"), "dtype": ("float32", "DataType")})
       for name, argument in (("gamma", "a"), ("loggamma", "a"), ("dirichlet", "alpha"),
                              ("t", "df"), ("poisson", "lam"))},
    "random.pareto": (phix.random.pareto, {
        "key": (KEY, "Tensor"), "b": (VECTOR, "Tensor"), "shape": ([3], "int[]"),
        "dtype": ("float32", "DataType")}),
    "random.geometric": (phix.random.geometric, {
        "key": (KEY, "Tensor"), "p": (0.5, "Tensor"), "shape": ([3], "int[]"),
        "dtype": ("int64", "DataType")}),
    "random.orthogonal": (phix.random.orthogonal, {
        "key": (KEY, "Tensor"), "n": (2, "int"), "shape": ([3], "int[]"),
        "dtype": ("float32", "DataType"), "m": (3, "int")}),
    "random.multivariate_normal": (phix.random.multivariate_normal, {
        "key": (KEY, "Tensor"), "mean": ([1.0, 2.0], "Tensor"),
        "cov": (np.eye(2, dtype="f"), "Tensor"), "shape": ([3], "int[]"),
        "dtype": ("float32", "DataType"), "method": ("svd", "str")}),
    "random.beta": (phix.random.beta,
                    {"key": (KEY, "Tensor"), "a": (VECTOR, "Tensor"), "b": (VECTOR, "Tensor"),
                     "shape": ([3], "int[]"), "dtype": ("float32", "DataType")}),
    "random.binomial": (phix.random.binomial,
                        {"key": (KEY, "Tensor"), "n": (VECTOR, "Tensor"), "p": (0.5, "Tensor"),
                         "shape": ([3], "int[]"), "dtype": ("float32", "DataType")}),
    "random.multinomial": (lambda key, n, p, shape, dtype: phix.random.multinomial(
                               key, n, p, shape=shape, dtype=dtype),
                           {"key": (KEY, "Tensor"), "n": (5.0, "Tensor"),
                            "p": (VECTOR / 6, "Tensor"), "shape": ([3], "int[]"),
                            "dtype": ("float32", "DataType")}),
    "random.choice": (phix.random.choice,
                      {"key": (KEY, "Tensor"), "a": (VECTOR, "Tensor"), "shape": ([2], "int[]"),
                       "replace": (True, "bool"), "p": (VECTOR / 6, "Tensor"),
                       "axis": (0, "int")}),
    "random.normal": (phix.random.normal, {"key": (KEY, "Tensor"), **_DRAWN,
                                           "mean": (0.0, "Tensor"), "std": (1.0, "Tensor")}),
    "random.uniform": (phix.random.uniform, {"key": (KEY, "Tensor"), **_DRAWN,
                                             "min": (0.0, "Tensor"), "max": (1.0, "Tensor")}),
    "random.truncated_normal": (phix.random.truncated_normal,
                                {"key": (KEY, "Tensor"), "lower": (-1.0, "Tensor"),
                                 "upper": (1.0, "Tensor"), **_DRAWN}),
    "random.permutation": (phix.random.permutation, {"key": (KEY, "Tensor"), "x": (X, "Tensor"),
                                                     "axis": (0, "int"),
                                                     "independent": (False, "bool")}),
    "random.randint": (phix.random.randint,
                       {"key": (KEY, "Tensor"), "low": (0, "int"), "high": (5, "int"),
                        "shape": ([2], "int[]"), "dtype": ("int64", "DataType")}),
}  # fmt: skip
_IMAGES = np.ones((1, 2, 4, 4), np.float32)
_FILTER = np.ones((2, 2, 2, 2), np.float32)
NN: dict[str, Row] = {
    **{f"F.{name}": (getattr(F, name), {"x": (X, "Tensor")})
       for name in ("relu", "relu6", "sigmoid", "silu", "softsign", "tanh", "log_sigmoid",
                    "hardswish", "swish", "mish", "sparse_plus", "sparse_sigmoid", "log1mexp")},
    "F.celu": (F.celu, {"x": (X, "Tensor"), "alpha": (1.0, "float")}),
    "F.selu": (F.selu, {"x": (X, "Tensor"), "scale": (1.5, "float"), "alpha": (1.0, "float")}),
    "F.glu": (F.glu, {"x": (X, "Tensor"), "axis": (0, "int")}),
    "F.squareplus": (F.squareplus, {"x": (X, "Tensor"), "b": (4.0, "any")}),
    "F.logmeanexp": (F.logmeanexp, {"x": (X, "Tensor"), "axis": (-1, "any"),
                                    "where": (X > 1, "any"), "keepdims": (False, "bool")}),
    "F.standardize": (F.standardize, {"x": (X, "Tensor"), "axis": (-1, "any"), "mean": (0.5, "any"),
                                      "variance": (2.0, "any"), "epsilon": (1e-5, "float"),
                                      "where": (X > 1, "any")}),
    "F.softmax": (F.softmax, {"x": (X, "Tensor"), "axis": (-1, "int"),
                              "dtype": ("float32", "DataType")}),
    "F.log_softmax": (F.log_softmax, {"x": (X, "Tensor"), "axis": (-1, "int"),
                                      "dtype": ("float32", "DataType")}),
    "F.gelu": (F.gelu, {"x": (X, "Tensor"), "approximate": (False, "bool")}),
    "F.leaky_relu": (F.leaky_relu, {"x": (X, "Tensor"), "negative_slope": (0.1, "float")}),
    "F.elu": (F.elu, {"x": (X, "Tensor"), "alpha": (1.0, "float")}),
    "F.linear": (F.linear, {"x": (X, "Tensor"), "weight": (np.ones((3, 2), "f"), "Tensor"),
                            "bias": (np.ones(2, "f"), "any")}),
    "F.embedding": (
        F.embedding,
        {"x": (LABELS, "Tensor"), "weight": (np.ones((3, 2), "f"), "Tensor"),
         "padding_idx": (None, "int"), "sparse": (False, "bool")}),
    "F.one_hot": (F.one_hot, {"x": (LABELS, "Tensor"), "num_classes": (3, "int")}),
    "F.dropout": (F.dropout, {"x": (X, "Tensor"), "p": (0.5, "float"), "key": (KEY, "any")}),
    "F.cross_entropy": (F.cross_entropy,
                        {"input": (X, "Tensor"), "label": (LABELS, "Tensor"),
                         "weight": (np.ones(3, "f"), "any"), "ignore_index": (-100, "int"),
                         "reduction": ("mean", "str"), "soft_label": (False, "bool"),
                         "axis": (-1, "int"), "use_softmax": (True, "bool"),
                         "label_smoothing": (0.0, "float")}),
    "F.nll_loss": (F.nll_loss,
                   {"input": (X, "Tensor"), "label": (LABELS, "Tensor"),
                    "weight": (np.ones(3, "f"), "any"), "ignore_index": (-100, "int"),
                    "reduction": ("mean", "str")}),
    **{f"F.{name}": (getattr(F, name), {"input": (X, "Tensor"), "label": (X, "Tensor"),
                                        "reduction": ("mean", "str")})
       for name in ("l1_loss", "mse_loss", "smooth_l1_loss", "kl_div")},
    "F.binary_cross_entropy_with_logits": (
        F.binary_cross_entropy_with_logits,
        {"logit": (X, "Tensor"), "label": (X, "Tensor"), "reduction": ("mean", "str")}),
    **{f"nn.initializers.{name}": (
           lambda shape, dtype, make=make: make()(KEY, shape, dtype),
           {"shape": ([3, 4], "int[]"), "dtype": ("float32", "DataType")})
       for name, make in (("normal", phix.nn.initializers.normal),
                          ("he_normal", phix.nn.initializers.he_normal),
                          ("orthogonal", phix.nn.initializers.orthogonal),
                          ("zeros", lambda: phix.nn.initializers.zeros))},
    "nn.initializers.variance_scaling": (
        lambda **settings: phix.nn.initializers.variance_scaling(**settings)(KEY, [3, 4]),
        {"scale": (1.0, "float"), "mode": ("fan_in", "str"), "distribution": ("normal", "str"),
         "in_axis": (0, "int[]"), "out_axis": (1, "int[]")}),
    "F.layer_norm": (F.layer_norm, {"x": (X, "Tensor"), "normalized_shape": ([3], "int[]"),
                                    "epsilon": (1e-5, "float")}),
    "F.group_norm": (F.group_norm, {"x": (_IMAGES, "Tensor"), "num_groups": (2, "int"),
                                    "epsilon": (1e-5, "float")}),
    "F.conv2d": (F.conv2d, {"x": (_IMAGES, "Tensor"), "weight": (_FILTER, "Tensor"),
                            "stride": (1, "int[]"), "padding": (0, "any"), "dilation": (1, "int[]"),
                            "groups": (1, "int"), "data_format": ("NCHW", "str")}),
    "F.max_pool2d": (F.max_pool2d, {"x": (_IMAGES, "Tensor"), "kernel_size": (2, "int[]"),
                                    "stride": (2, "int[]"), "padding": (0, "any")}),
    "F.avg_pool2d": (F.avg_pool2d, {"x": (_IMAGES, "Tensor"), "kernel_size": (2, "int[]"),
                                    "stride": (2, "int[]"), "padding": (0, "any")}),
    "F.pad": (F.pad, {"x": (X, "Tensor"), "pad": ([1, 1, 0, 0], "int[]"),
                      "mode": ("constant", "str"), "value": (0.0, "Scalar")}),
}  # fmt: skip
METHODS: dict[str, Row] = {
    **{f"method {name}": (lambda x, name=name: getattr(phix.to_tensor(X), name)(x),
                          {"x": (X, "Tensor")})
       for name in ("__add__", "__rsub__", "__mul__", "__truediv__", "__rfloordiv__", "__mod__",
                    "__lt__", "__pow__", "__rpow__")},
    "method __matmul__": (lambda x: phix.to_tensor(X) @ x, {"x": (X.T, "Tensor")}),
    "method __getitem__": (lambda index: phix.to_tensor(X)[index], {"index": (0, "any")}),
    "method at.set": (lambda index, values: phix.to_tensor(X).at[index].set(values),
                      {"index": (0, "any"), "values": (VECTOR, "Tensor")}),
    "method astype": (lambda dtype: phix.to_tensor(X).astype(dtype),
                      {"dtype": ("float64", "never None")}),
    "method to": (lambda place: phix.to_tensor(X).to(place), {"place": ("cpu", "Place")}),
    "method slice": (lambda start, stop, step: phix.to_tensor(X)[start:stop:step],
                     {"start": (0, "any"), "stop": (1, "any"), "step": (1, "any")}),
}  # fmt: skip
_COO = phix.sparse.sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0], [2, 2])
_S = (_COO, "any")
_ON_VALUES = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "expm1", "isnan", "log1p", "relu",
    "relu6", "sin", "sinh", "sqrt", "square", "tan", "tanh", "coalesce", "to_dense",
    "to_sparse_coo", "to_sparse_csr", "softmax", "values", "indices",
)  # fmt: skip


_IMAGE = phix.sparse.sparse_coo_tensor([[0, 0], [0, 1], [0, 1]], [[1.0], [2.0]], [1, 2, 2, 1])
_WINDOW = {name: ([1, 1], "int[]") for name in ("dilations", "strides")}
_WINDOW = {"paddings": ([0, 0], "int[]"), **_WINDOW}
_CONV = {"x": (_IMAGE, "any"), "kernel": (np.ones((1, 1, 1, 1), "f"), "Tensor"), **_WINDOW,
         "groups": (1, "int"), "subm": (True, "bool"), "key": ("", "str")}  # fmt: skip
_NORM = {"x": (_IMAGE, "any"), **{name: (np.ones(1, "f"), "Tensor")
                                  for name in ("mean", "variance", "scale", "bias")},
         "is_test": (False, "bool"), "momentum": (0.9, "any"), "epsilon": (1e-5, "any"),
         "data_format": ("NHWC", "str"), "use_global_stats": (False, "bool"),
         "trainable_statistics": (False, "bool")}  # fmt: skip


class _Matrix:
    """What ``from_scipy`` asks of a matrix."""

    shape = (1, 2)
    row, col, data = np.array([0]), np.array([1]), VECTOR[:1]

    def tocoo(self) -> _Matrix:
        return self


_OF_ONE: dict[str, Row] = {
    f"sparse.{name}": (getattr(phix.sparse, name), {"x": _S}) for name in _ON_VALUES
}
SPARSE: dict[str, Row] = {
    **_OF_ONE,
    **{f"sparse.{name}": (getattr(phix.sparse, name), {"x": _S, "y": _S})
       for name in ("add", "subtract", "multiply", "divide")},
    "sparse.from_scipy": (phix.sparse.from_scipy, {"matrix": (_Matrix(), "any")}),
    "sparse.sparse_coo_tensor": (phix.sparse.sparse_coo_tensor,
                                 {"indices": ([[0, 1]], "Tensor"), "values": (VECTOR[:2], "Tensor"),
                                  "shape": ([4], "int[]"), "dtype": (None, "DataType")}),
    "sparse.sparse_csr_tensor": (phix.sparse.sparse_csr_tensor,
                                 {"crows": ([0, 1], "Tensor"), "cols": ([1], "Tensor"),
                                  "values": (VECTOR[:1], "Tensor"), "shape": ([1, 2], "int[]"),
                                  "dtype": (None, "DataType")}),
    "sparse.matmul": (phix.sparse.matmul, {"x": _S, "y": (SQUARE, "Tensor")}),
    "sparse.mv": (phix.sparse.mv, {"x": _S, "vec": (VECTOR[:2], "Tensor")}),
    "sparse.addmm": (phix.sparse.addmm, {"input": (SQUARE, "Tensor"), "x": _S,
                                         "y": (SQUARE, "Tensor"), "beta": (1.0, "any"),
                                         "alpha": (1.0, "any")}),
    "sparse.masked_matmul": (phix.sparse.masked_matmul,
                             {"x": (SQUARE, "Tensor"), "y": (SQUARE, "Tensor"), "mask": _S}),
    "sparse.mask_as": (phix.sparse.mask_as, {"x": (SQUARE, "Tensor"), "mask": _S}),
    "sparse.transpose": (phix.sparse.transpose, {"x": _S, "perm": ([1, 0], "int[]")}),
    "sparse.reshape": (phix.sparse.reshape, {"x": _S, "shape": ([4], "int[]")}),
    "sparse.slice": (phix.sparse.slice, {"x": _S, "axes": ([0], "int[]"), "starts": ([0], "int[]"),
                                         "ends": ([1], "int[]")}),
    "sparse.sum": (phix.sparse.sum, {"x": _S, "axis": (0, "int[]"), "dtype": (None, "DataType"),
                                     "keepdim": (False, "bool")}),
    "sparse.cast": (phix.sparse.cast, {"x": _S, "index_dtype": (None, "DataType"),
                                       "value_dtype": ("float64", "DataType")}),
    "sparse.leaky_relu": (phix.sparse.leaky_relu, {"x": _S, "alpha": (0.5, "any")}),
    "sparse.pow": (phix.sparse.pow, {"x": _S, "factor": (2.0, "any")}),
    "sparse.scale": (phix.sparse.scale, {"x": _S, "scale": (2.0, "any"), "bias": (0.0, "any"),
                                         "bias_after_scale": (True, "bool")}),
    "sparse.divide_scalar": (phix.sparse.divide_scalar, {"x": _S, "scalar": (2.0, "any")}),
    "sparse.full_like": (phix.sparse.full_like, {"x": _S, "value": (2.0, "any"),
                                                 "dtype": (None, "DataType")}),
    "sparse.to_scipy": (phix.sparse.to_scipy, {"x": _S}),
    "sparse.conv3d": (phix.sparse.conv3d, _CONV),
    "sparse.conv3d_implicit_gemm": (phix.sparse.conv3d_implicit_gemm, _CONV),
    "sparse.maxpool": (phix.sparse.maxpool, {
        "x": (_IMAGE, "any"), "kernel_sizes": ([1, 1], "int[]"), **_WINDOW}),
    "sparse.batch_norm_": (phix.sparse.batch_norm_, _NORM),
    "sparse.sync_batch_norm_": (phix.sparse.sync_batch_norm_, _NORM),
    "sparse.fused_attention": (phix.sparse.fused_attention, {
        **{name: (np.ones((1, 1, 2, 2), "f"), "Tensor") for name in ("query", "key", "value")},
        "sparse_mask": (phix.sparse.to_sparse_coo([[[1.0, 0.0], [1.0, 1.0]]]), "any"),
        "key_padding_mask": (None, "Tensor"), "attn_mask": (None, "Tensor")}),
    "sparse.SparseCooTensor.with_values": (_COO.with_values, {"values": (VECTOR[:2], "Tensor")}),
}  # fmt: skip
_TABLE_ROWS = phix.selected_rows.selected_rows([0, 2], SQUARE, 3)
_R = (_TABLE_ROWS, "any")
SELECTED_ROWS: dict[str, Row] = {
    "selected_rows.selected_rows": (phix.selected_rows.selected_rows,
                                    {"rows": ([0, 2], "Tensor"), "value": (SQUARE, "Tensor"),
                                     "height": (3, "int")}),
    "selected_rows.merge_selected_rows": (phix.selected_rows.merge_selected_rows, {"x": _R}),
    "selected_rows.get_tensor_from_selected_rows": (
        phix.selected_rows.get_tensor_from_selected_rows, {"x": _R}),
    "selected_rows.SelectedRows.with_value": (_TABLE_ROWS.with_value,
                                              {"value": (SQUARE, "Tensor")}),
}  # fmt: skip
_SEQUENCES = phix.lod.lod_tensor(X, [1, 1])
_L = (_SEQUENCES, "any")
_INTS = (phix.lod.lod_tensor(LABELS, [1, 1]), "any")
LOD: dict[str, Row] = {
    "lod.lod_tensor": (phix.lod.lod_tensor, {"values": (X, "Tensor"), "lengths": ([1, 1], "any")}),
    "lod.from_list": (phix.lod.from_list,
                      {"sequences": ([[1.0], [2.0]], "any"), "levels": (1, "int")}),
    "lod.to_list": (phix.lod.to_list, {"x": _L}),
    "lod.sequence_pad": (phix.lod.sequence_pad, {"x": _L, "pad_value": (0.0, "any"),
                                                 "maxlen": (2, "int")}),
    "lod.sequence_unpad": (phix.lod.sequence_unpad,
                           {"x": (X, "Tensor"), "length": ([2, 1], "Tensor")}),
    "lod.sequence_mask": (phix.lod.sequence_mask, {"x": ([2, 1], "Tensor"), "maxlen": (2, "any"),
                                                   "dtype": ("int64", "DataType")}),
    "lod.sequence_pool": (phix.lod.sequence_pool,
                          {"input": _L, "pool_type": ("sum", "any"), "is_test": (False, "bool"),
                           "pad_value": (0.0, "any")}),
    "lod.sequence_softmax": (phix.lod.sequence_softmax, {"input": _L}),
    "lod.sequence_conv": (phix.lod.sequence_conv,
                          {"input": _L, "filter": (np.ones((3, 1), "f"), "Tensor"),
                           "context_length": (1, "int"), "context_start": (0, "int"),
                           "padding_data": (np.ones((0, 3), "f"), "any")}),
    "lod.sequence_enumerate": (phix.lod.sequence_enumerate,
                               {"input": _INTS, "win_size": (2, "int"), "pad_value": (0, "int")}),
    "lod.sequence_reverse": (phix.lod.sequence_reverse, {"x": _L}),
    "lod.sequence_concat": (phix.lod.sequence_concat, {"input": ([_SEQUENCES], "any")}),
    "lod.sequence_slice": (phix.lod.sequence_slice,
                           {"input": _L, "offset": ([0, 0], "Tensor"),
                            "length": ([1, 0], "Tensor")}),
    "lod.sequence_erase": (phix.lod.sequence_erase, {"input": _INTS, "tokens": ([2], "int[]")}),
    "lod.sequence_expand": (phix.lod.sequence_expand,
                            {"x": (X, "Tensor"), "y": _L, "ref_level": (0, "int")}),
    "lod.sequence_expand_as": (phix.lod.sequence_expand_as, {"x": (X, "Tensor"), "y": _L}),
    "lod.im2sequence": (phix.lod.im2sequence,
                        {"input": (_IMAGES, "Tensor"), "filter_size": (2, "int[]"),
                         "stride": (1, "int[]"), "padding": (0, "int[]")}),
    "lod.LoDTensor.with_values": (_SEQUENCES.with_values, {"values": (X, "Tensor")}),
}  # fmt: skip
_NAMES = (phix.strings.to_string_tensor(["a", "b"]), "any")
STRINGS: dict[str, Row] = {
    "strings.to_string_tensor": (phix.strings.to_string_tensor, {"data": (["a"], "any")}),
    "strings.strings_empty": (phix.strings.strings_empty,
                              {"shape": ([2], "int[]"), "place": ("cpu", "Place")}),
    "strings.strings_empty_like": (phix.strings.strings_empty_like,
                                   {"x": _NAMES, "place": ("cpu", "Place")}),
    **{f"strings.{name}": (getattr(phix.strings, name),
                           {"x": _NAMES, "use_utf8_encoding": (True, "bool")})
       for name in ("strings_lower", "strings_upper")},
}  # fmt: skip
# What transformations of gradients are made with, and a tree of gradients; each is run for a step.
_SETTINGS: dict[str, dict[str, tuple[Any, str]]] = {
    "sgd": {"learning_rate": (0.1, "any"), "momentum": (0.9, "any"), "nesterov": (True, "bool")},
    "adamw": {"learning_rate": (0.1, "any"), "b1": (0.9, "any"), "eps": (1e-8, "any"),
              "weight_decay": (0.1, "any"), "mask": ({"w": True}, "any")},
    "lamb": {"learning_rate": (0.1, "any"), "b2": (0.9, "any")},
    "lion": {"learning_rate": (0.1, "any"), "mu_dtype": ("float32", "DataType")},
    "rmsprop": {"learning_rate": (0.1, "any"), "centered": (True, "bool")},
    "rprop": {"learning_rate": (0.1, "any"), "eta_plus": (1.2, "any")},
    "adafactor": {"learning_rate": (0.1, "any"), "factored": (True, "bool"),
                  "min_dim_size_to_factor": (2, "int")},
    "clip": {"max_delta": (1.0, "any")},
    "clip_by_global_norm": {"max_norm": (1.0, "any")},
    "adaptive_grad_clip": {"clipping": (1.0, "any"), "axis": (None, "any")},
    "apply_if_finite": {"inner": (phix.optim.sgd(0.1), "any"),
                        "max_consecutive_errors": (2, "int")},
    "masked": {"inner": (phix.optim.sgd(0.1), "any"), "mask": ({"w": True}, "any")},
    "multi_transform": {"transforms": ({"a": phix.optim.sgd(0.1)}, "any"),
                        "param_labels": ({"w": "a"}, "any")},
    "dynamic_loss_scaling": {"inner": (phix.optim.sgd(0.1), "any"), "init_scale": (2.0, "any")},
}  # fmt: skip


def _stepped(make: Callable[..., Any]) -> Callable[..., Any]:
    def made(grads: Any, **settings: Any) -> Any:
        tx, params = make(**settings), {"w": phix.to_tensor(X)}
        return tx.update(grads, tx.init(params), params)

    return made


_KERNEL = {"key": (KEY, "Tensor"), "in_channels": (2, "int"), "out_channels": (2, "int"),
           "kernel_size": (1, "int[]"), "groups": (1, "int")}  # fmt: skip
_SEGMENTS: dict[str, tuple[Any, str]] = {
    "fs": (1.0, "any"), "window": ("hann", "any"), "nperseg": (2, "any"), "noverlap": (1, "any"),
    "nfft": (3, "any"), "detrend": ("linear", "any"), "return_onesided": (True, "bool"),
    "scaling": ("density", "str"), "axis": (1, "int"),
}  # fmt: skip
TRAINING: dict[str, Row] = {
    **{f"optim.{name}": (_stepped(getattr(phix.optim, name)),
                         {**settings, "grads": ({"w": phix.to_tensor(X)}, "any")})
       for name, settings in _SETTINGS.items()},
    "optim.linear_schedule": (lambda init_value, end_value, transition_steps, count:
                              phix.optim.linear_schedule(init_value, end_value, transition_steps)(
                                  count),
                              {"init_value": (1.0, "any"), "end_value": (0.0, "any"),
                               "transition_steps": (4, "int"), "count": (1, "any")}),
    "optim.apply_updates": (phix.optim.apply_updates, {"params": ([X], "any"),
                                                       "updates": ([X], "any")}),
    "optim.global_norm": (phix.optim.global_norm, {"updates": ([X], "any")}),
    "nn.Linear.create": (phix.nn.Linear.create,
                         {"key": (KEY, "Tensor"), "in_features": (2, "int"),
                          "out_features": (3, "int"), "bias": (True, "bool"),
                          "dtype": ("float32", "DataType")}),
    "nn.Linear": (lambda x: phix.nn.Linear(phix.ones([3, 2]))(x), {"x": (X, "Tensor")}),
    "nn.Conv1d.create": (phix.nn.Conv1d.create, _KERNEL),
    "nn.LayerNorm.create": (phix.nn.LayerNorm.create, {"normalized_shape": (3, "int[]"),
                                                       "epsilon": (1e-5, "float")}),
    "nn.MultiHeadAttention.create": (phix.nn.MultiHeadAttention.create,
                                     {"key": (KEY, "Tensor"), "embed_dim": (4, "int"),
                                      "num_heads": (2, "int")}),
    "scipy.special.erf": (phix.scipy.special.erf, {"x": (X, "Tensor")}),
    "scipy.special.xlogy": (phix.scipy.special.xlogy, {"x": (X, "Tensor"), "y": (X, "Tensor")}),
    "scipy.special.gamma": (phix.scipy.special.gamma, {"x": (X, "Tensor")}),
    "scipy.special.comb": (phix.scipy.special.comb, {"N": (X, "Tensor"), "k": (X, "Tensor")}),
    "scipy.special.boxcox": (phix.scipy.special.boxcox, {"x": (X, "Tensor"),
                                                         "lmbda": (X, "Tensor")}),
    "scipy.special.bessel_jn": (phix.scipy.special.bessel_jn, {
        "z": (X, "Tensor"), "v": (2, "int"), "n_iter": (50, "int")}),
    "scipy.special.sph_harm_y": (phix.scipy.special.sph_harm_y, {
        "n": (2, "Tensor"), "m": (1, "Tensor"), "theta": (X, "Tensor"), "phi": (X, "Tensor")}),
    "scipy.special.wofz": (phix.scipy.special.wofz, {"z": (X, "Tensor")}),
    "scipy.special.fresnel": (phix.scipy.special.fresnel, {"x": (X, "Tensor")}),
    "scipy.stats.gaussian_kde": (phix.scipy.stats.gaussian_kde, {
        "dataset": (X, "Tensor"), "bw_method": ("scott", "any"), "weights": (None, "Tensor")}),
    "scipy.special.bernoulli": (phix.scipy.special.bernoulli, {"n": (3, "int")}),
    "scipy.special.multigammaln": (phix.scipy.special.multigammaln, {"a": (X, "Tensor"),
                                                                     "d": (2, "int")}),
    "scipy.special.logsumexp": (phix.scipy.special.logsumexp,
                                {"a": (X, "Tensor"), "axis": (1, "int"), "b": (X, "Tensor"),
                                 "keepdims": (False, "bool")}),
    "scipy.special.softmax": (phix.scipy.special.softmax, {"x": (X, "Tensor"),
                                                           "axis": (1, "int")}),
    "scipy.special.polygamma": (phix.scipy.special.polygamma, {"n": (1, "int"),
                                                               "x": (X, "Tensor")}),
    "scipy.stats.norm.logpdf": (phix.scipy.stats.norm.logpdf,
                                {"x": (X, "Tensor"), "loc": (X, "Tensor"),
                                 "scale": (X, "Tensor")}),
    "scipy.stats.rankdata": (phix.scipy.stats.rankdata, {"a": (X, "Tensor"),
                                                         "method": ("min", "str"), "*": (None, ""),
                                                         "axis": (1, "int")}),
    "scipy.stats.mode": (phix.scipy.stats.mode, {
        "a": (X, "Tensor"), "axis": (1, "int"), "nan_policy": ("omit", "str"),
        "keepdims": (False, "bool")}),
    "scipy.stats.sem": (phix.scipy.stats.sem, {
        "a": (X, "Tensor"), "axis": (1, "int"), "ddof": (1, "int"),
        "nan_policy": ("omit", "str")}),
    "scipy.sparse.linalg.cg": (
        lambda A, b, x0, tol, maxiter, M: phix.scipy.sparse.linalg.cg(
            A, b, x0, tol=tol, maxiter=maxiter, M=M),
        {"A": (double, "function"), "b": (VECTOR, "tree"), "x0": (None, "tree"),
         "tol": (1e-5, "float"), "maxiter": (3, "int"), "M": (None, "function")}),
    "scipy.linalg.solve": (phix.scipy.linalg.solve, {
        "a": (np.eye(3, dtype="f"), "Tensor"), "b": (VECTOR, "Tensor"), "lower": (False, "bool"),
        "assume_a": ("gen", "str")}),
    "scipy.linalg.hessenberg": (phix.scipy.linalg.hessenberg, {
        "a": (SQUARE, "Tensor"), "calc_q": (True, "bool")}),
    "scipy.linalg.eigh": (phix.scipy.linalg.eigh, {
        "a": (SQUARE, "Tensor"), "b": (None, "Tensor"), "lower": (True, "bool"),
        "eigvals_only": (True, "bool"), "subset_by_index": ((0, 1), "any"), "*": (None, ""),
        "type": (2, "int"), "subset_by_value": (None, "any")}),
    "scipy.linalg.lu": (phix.scipy.linalg.lu, {
        "a": (X, "Tensor"), "permute_l": (False, "bool"), "overwrite_a": (False, "bool"),
        "check_finite": (True, "bool"), "p_indices": (True, "bool")}),
    "scipy.linalg.schur": (phix.scipy.linalg.schur, {
        "a": (SQUARE, "Tensor"), "output": ("complex", "str")}),
    "scipy.linalg.rsf2csf": (phix.scipy.linalg.rsf2csf, {
        "T": (SQUARE, "Tensor"), "Z": (SQUARE, "Tensor")}),
    "scipy.linalg.funm": (phix.scipy.linalg.funm, {
        "A": (SQUARE, "Tensor"), "func": (phix.ops.exp, "function"), "disp": (False, "bool")}),
    "scipy.linalg.solve_sylvester": (phix.scipy.linalg.solve_sylvester, {
        "a": (SQUARE, "Tensor"), "b": (SQUARE, "Tensor"), "q": (SQUARE, "Tensor")}),
    "scipy.linalg.solve_continuous_lyapunov": (phix.scipy.linalg.solve_continuous_lyapunov, {
        "a": (SQUARE, "Tensor"), "q": (SQUARE, "Tensor")}),
    "scipy.linalg.solve_discrete_lyapunov": (phix.scipy.linalg.solve_discrete_lyapunov, {
        "a": (SQUARE, "Tensor"), "q": (SQUARE, "Tensor"), "method": ("direct", "str")}),
    "scipy.linalg.qr": (phix.scipy.linalg.qr, {
        "a": (X, "Tensor"), "mode": ("full", "str"), "pivoting": (True, "bool")}),
    "scipy.linalg.fiedler_companion": (phix.scipy.linalg.fiedler_companion,
                                       {"a": (TRIPLE, "Tensor")}),
    "scipy.linalg.toeplitz": (phix.scipy.linalg.toeplitz, {"c": (VECTOR, "Tensor"),
                                                           "r": (VECTOR, "Tensor")}),
    "scipy.linalg.pascal": (phix.scipy.linalg.pascal, {"n": (3, "int"), "kind": ("lower", "str")}),
    "scipy.ndimage.map_coordinates": (phix.scipy.ndimage.map_coordinates, {
        "input": (VECTOR, "Tensor"), "coordinates": ([VECTOR], "any"), "order": (1, "int"),
        "mode": ("nearest", "str"), "cval": (0.0, "any")}),
    "scipy.interpolate.RegularGridInterpolator": (phix.scipy.interpolate.RegularGridInterpolator, {
        "points": ([[0.0, 1.0]], "any"), "values": ([1.0, 2.0], "Tensor"),
        "method": ("linear", "str"), "bounds_error": (False, "bool"), "fill_value": (0.0, "any")}),
    "scipy.interpolate.RegularGridInterpolator.__call__": (
        phix.scipy.interpolate.RegularGridInterpolator([[0.0, 1.0]], [1.0, 2.0]),
        {"xi": ([[0.5]], "Tensor"), "method": ("nearest", "str")}),
    "scipy.integrate.trapezoid": (phix.scipy.integrate.trapezoid, {
        "y": (VECTOR, "Tensor"), "x": (VECTOR, "Tensor"), "dx": (1.0, "any"), "axis": (0, "int")}),
    "scipy.integrate.cumulative_trapezoid": (phix.scipy.integrate.cumulative_trapezoid, {
        "y": (VECTOR, "Tensor"), "x": (None, "Tensor"), "dx": (1.0, "any"), "axis": (0, "int"),
        "initial": (0, "any")}),
    "scipy.integrate.simpson": (phix.scipy.integrate.simpson, {
        "y": (VECTOR, "Tensor"), "x": (VECTOR, "Tensor"), "*": (None, ""), "dx": (1.0, "any"),
        "axis": (0, "int")}),
    "scipy.integrate.odeint": (phix.scipy.integrate.odeint, {
        "func": (lambda y, t: -y, "function"), "y0": (VECTOR, "Tensor"),
        "t": ([0.0, 0.5], "Tensor"), "args": ((), "any"), "*": (None, ""),
        "tfirst": (False, "bool"), "rtol": (1e-3, "any"), "atol": (1e-3, "any"),
        "h0": (0.1, "any"), "hmax": (0.5, "any"), "mxstep": (99, "int")}),
    "scipy.integrate.solve_ivp": (phix.scipy.integrate.solve_ivp, {
        "fun": (lambda t, y: -y, "function"), "t_span": ((0.0, 0.5), "any"),
        "y0": (VECTOR, "Tensor"), "method": ("RK23", "str"), "t_eval": ([0.5], "Tensor"),
        "dense_output": (False, "bool"), "events": (None, "any"), "vectorized": (False, "bool"),
        "args": ((), "any"), "*": (None, ""), "first_step": (0.1, "any"), "max_step": (0.5, "any"),
        "rtol": (1e-3, "any"), "atol": (1e-3, "any"), "jac": (None, "any")}),
    "scipy.cluster.vq.vq": (phix.scipy.cluster.vq.vq, {
        "obs": (X, "Tensor"), "code_book": (X, "Tensor"), "check_finite": (True, "bool")}),
    "scipy.spatial.transform.Rotation.from_quat": (
        phix.scipy.spatial.transform.Rotation.from_quat, {"quat": (np.eye(4), "Tensor")}),
    "scipy.spatial.transform.Rotation.from_matrix": (
        phix.scipy.spatial.transform.Rotation.from_matrix, {"matrix": (np.eye(3), "Tensor")}),
    "scipy.spatial.transform.Rotation.from_rotvec": (
        phix.scipy.spatial.transform.Rotation.from_rotvec,
        {"rotvec": ([0.0, 1.0, 0.0], "Tensor"), "degrees": (False, "bool")}),
    "scipy.spatial.transform.Rotation.from_euler": (
        phix.scipy.spatial.transform.Rotation.from_euler,
        {"seq": ("x", "str"), "angles": ([1.0], "Tensor"), "degrees": (False, "bool")}),
    "scipy.spatial.transform.Rotation.identity": (
        phix.scipy.spatial.transform.Rotation.identity,
        {"num": (2, "int"), "dtype": ("float32", "DataType")}),
    "scipy.spatial.transform.Rotation.random": (
        phix.scipy.spatial.transform.Rotation.random,
        {"random_key": (KEY, "Tensor"), "num": (2, "int")}),
    "scipy.spatial.transform.Rotation.concatenate": (
        phix.scipy.spatial.transform.Rotation.concatenate, {"rotations": ([_TURNS], "any")}),
    "scipy.spatial.transform.Rotation.apply": (
        _TURNS.apply, {"vectors": ([0.0, 1.0, 0.0], "Tensor"), "inverse": (False, "bool")}),
    "scipy.spatial.transform.Rotation.as_euler": (
        _TURNS.as_euler, {"seq": ("xyz", "str"), "degrees": (False, "bool")}),
    "scipy.spatial.transform.Rotation.mean": (
        _TURNS.mean, {"weights": ([1.0, 2.0], "Tensor")}),
    "scipy.spatial.transform.Slerp": (phix.scipy.spatial.transform.Slerp, {
        "times": ([0.0, 1.0], "Tensor"), "rotations": (_TURNS, "any")}),
    "scipy.optimize.minimize": (phix.scipy.optimize.minimize,
                                {"fun": FUNCTION, "x0": (VECTOR, "Tensor"), "*": (None, ""),
                                 "method": ("BFGS", "str"), "tol": (1e-3, "any"),
                                 "options": ({"maxiter": 2}, "any")}),
    **{f"scipy.signal.{name}": (getattr(phix.scipy.signal, name), {
        "in1": (VECTOR, "Tensor"), "in2": (VECTOR, "Tensor"), "mode": ("same", "str"),
        "method": ("direct", "str")}) for name in ("convolve", "correlate")},
    **{f"scipy.signal.{name}": (getattr(phix.scipy.signal, name), {
        "in1": (X, "Tensor"), "in2": (X, "Tensor"), "mode": ("same", "str"),
        "boundary": ("wrap", "str"), "fillvalue": (0.0, "any")})
       for name in ("convolve2d", "correlate2d")},
    "scipy.signal.fftconvolve": (phix.scipy.signal.fftconvolve, {
        "in1": (X, "Tensor"), "in2": (X, "Tensor"), "mode": ("same", "str"),
        "axes": (1, "int[]")}),
    "scipy.signal.detrend": (phix.scipy.signal.detrend, {
        "data": (X, "Tensor"), "axis": (1, "int"), "type": ("linear", "str"), "bp": (1, "any")}),
    "scipy.signal.get_window": (phix.scipy.signal.get_window, {
        "window": ("hann", "any"), "Nx": (4, "int"), "fftbins": (True, "bool")}),
    "scipy.signal.windows.hann": (phix.scipy.signal.windows.hann, {
        "M": (4, "int"), "sym": (True, "bool")}),
    **{f"scipy.signal.windows.{name}": (getattr(phix.scipy.signal.windows, name), {
        "M": (4, "int"), parameter: (0.5, "any"), "sym": (True, "bool")})
       for name, parameter in (("gaussian", "std"), ("kaiser", "beta"), ("tukey", "alpha"))},
    "scipy.signal.csd": (phix.scipy.signal.csd, {
        "x": (X, "Tensor"), "y": (X, "Tensor"), **_SEGMENTS, "average": ("mean", "str")}),
    "scipy.signal.welch": (phix.scipy.signal.welch, {
        "x": (X, "Tensor"), **_SEGMENTS, "average": ("mean", "str")}),
    "scipy.signal.stft": (phix.scipy.signal.stft, {
        "x": (X, "Tensor"), **{k: v for k, v in _SEGMENTS.items() if k != "scaling"},
        "boundary": ("zeros", "str"), "padded": (True, "bool")}),
    "scipy.signal.istft": (phix.scipy.signal.istft, {
        "Zxx": (X, "Tensor"), "fs": (1.0, "any"), "window": ("boxcar", "any"),
        "nperseg": (2, "any"), "noverlap": (1, "any"), "nfft": (2, "any"),
        "time_axis": (-1, "int"), "freq_axis": (-2, "int")}),
    **{f"scipy.fft.{name}": (getattr(phix.scipy.fft, name), {
        "x": (X, "Tensor"), "type": (2, "int"), "n": (2, "any"), "axis": (1, "int"),
        "norm": ("ortho", "str")}) for name in ("dct", "idct")},
    **{f"scipy.fft.{name}": (getattr(phix.scipy.fft, name), {
        "x": (X, "Tensor"), "type": (2, "int"), "s": ((2, 2), "any"), "axes": ((0, 1), "any"),
        "norm": ("ortho", "str")}) for name in ("dctn", "idctn")},
    "parallel.mesh": (phix.parallel.mesh, {"axes": ({"data": 2}, "any"), "comm": (None, "any"),
                                           "virtual": (True, "any"), "checks": (False, "bool")}),
    "parallel.spmd": (_of(phix.parallel.spmd, VECTOR),
                      {"function": (double, "function"), "mesh": (MESH, "any"),
                       "in_specs": (None, "any"), "out_specs": (None, "any")}),
    "parallel.map": (phix.parallel.map, {"f": (double, "function"), "xs": ([X], "any"),
                                         "executor": (None, "any")}),
    "parallel.shard": (_of(phix.parallel.shard, VECTOR),
                       {"function": (double, "function"), "mesh": (MESH, "any"),
                        "in_shardings": (None, "any"), "out_shardings": (None, "any")}),
    "parallel.even_specs": (phix.parallel.even_specs,
                            {"tree": (X, "tree"), "mesh": (MESH, "any"),
                             "axis_name": ("data", "str")}),
    "parallel.ring_attention": (_on_lanes(phix.parallel.ring_attention),
                                {"query": (HEADS, "Tensor"), "key": (HEADS, "Tensor"),
                                 "value": (HEADS, "Tensor"), "axis_name": ("i", "str"),
                                 "is_causal": (True, "bool"), "scale": (None, "any")}),
    "parallel.experts": (_on_lanes(phix.parallel.experts),
                         {"expert": (phix.ops.multiply, "function"), "weights": (VECTOR, "tree"),
                          "x": (phix.ones([2, 1]), "Tensor"),
                          "shares": (phix.ones([2, 6]), "Tensor"), "axis_name": ("i", "str"),
                          "*": (None, ""), "top": (1, "int"), "capacity": (None, "any")}),
    "parallel.global_scatter": (_on_lanes(phix.parallel.global_scatter),
                                {"x": (phix.ones([2, 1]), "Tensor"),
                                 "local_count": (phix.ops.ones([3], "int64"), "Tensor"),
                                 "axis_name": ("i", "str"), "*": (None, ""), "rows": (2, "int"),
                                "drops": (False, "bool")}),
    "parallel.global_gather": (_on_lanes(phix.parallel.global_gather),
                               {"x": (phix.ones([2, 1]), "Tensor"),
                                "local_count": (phix.ops.ones([3], "int64"), "Tensor"),
                                "axis_name": ("i", "str"), "*": (None, ""), "rows": (2, "int"),
                                "drops": (False, "bool")}),
    "parallel.pipeline": (_on_lanes(phix.parallel.pipeline),
                          {"stage": (phix.ops.multiply, "function"),
                           "loss": (lambda head, x, target: (head * x).sum(), "function"),
                           "weights": (X[0, 0], "tree"), "head": (X[0, 0], "tree"),
                           "xs": (VECTOR, "tree"), "targets": (VECTOR, "tree"),
                           "axis_name": ("i", "str")}),
    "parallel.local_parts": (phix.parallel.local_parts,
                             {"tree": (X, "tree"), "mesh": (MESH, "any"), "specs": (None, "any")}),
    "parallel.gather": (phix.parallel.gather, {"tree": (X, "tree"), "mesh": (MESH, "any"),
                                               "specs": (None, "any")}),
    "nn.parameter_count": (phix.nn.parameter_count, {"tree": ([X], "any")}),
}  # fmt: skip


def _scoped(function: Callable[..., Any]) -> Callable[..., Any]:
    """What it registers is taken back."""

    def called(**settings: Any) -> Any:
        with phix.scoped_registries():
            return function(**settings)

    return called


def _registers(decorator: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that registers what it decorates, called on ``function``."""
    return _scoped(lambda function, **settings: decorator(**settings)(function))


def _tanh(ctx: Any, x: Any, out: Any) -> None:
    out[...] = np.tanh(x)


def _of_arrays(x: Any, out: Any) -> None:
    out[...] = x


def _half(x: float) -> float:
    return x * 0.5


def _checked(name: str) -> Callable[..., Any]:
    """A check, which may hold or not."""

    def called(function: Any, x: Any, **settings: Any) -> None:
        with contextlib.suppress(phix.testing.CheckFailed):
            getattr(phix.testing, name)(function, x, **settings)

    return called


class _Toy(phix.kernels.Device):
    """A device for a moment."""


_NAMED = {"op_name": ("tanh", "never None"), "layout": ("any", "str"), "dtypes": ("float32", "any")}
_NUMBA = {"error_model": ("python", "str"), "fastmath": (False, "any")}
_CONTEXT = phix.kernels.KernelContext(phix.Place("cpu"))
_INPUT = {"function": FUNCTION, "x": (VECTOR, "tree")}
_TESTED = {"tolerance": (1e-3, "float"), "seed": (0, "int")}
KERNELS: dict[str, Row] = {
    "kernels.add_kind": (_scoped(phix.kernels.add_kind),
                         {"name": ("rows", "str"), "cls": (type("Rows", (), {}), "any"),
                          "functions": (None, "any")}),
    "kernels.add_layout": (_scoped(phix.kernels.add_layout), {"layout": ("CHWN", "str")}),
    "kernels.add_library": (_scoped(phix.kernels.add_library),
                            {"place": ("cpu", "Place"), "library": ("mylib", "str"),
                             "before": ("phix", "str"), "about": ("", "str")}),
    "kernels.find": (phix.kernels.find,
                     {"op": ("tanh", "str"), "place": ("cpu", "Place"),
                      "dtype": ("float32", "DataType"), "layout": ("any", "str"),
                      "library": ("phix", "str")}),
    "kernels.KernelFunction": (lambda ctx, x, out: phix.kernels.find("tanh", "cpu", "float32")(
                                   ctx, x, out),
                               {"ctx": (_CONTEXT, "any"), "x": (VECTOR, "any"),
                                "out": (VECTOR.copy(), "any")}),
    "kernels.KernelContext.alloc": (_CONTEXT.alloc,
                                    {"shape": ((2,), "int[]"), "dtype": ("float32", "DataType")}),
    "kernels.KernelContext.host_alloc": (_CONTEXT.host_alloc,
                                         {"shape": ((2,), "int[]"),
                                          "dtype": ("float32", "DataType")}),
    "kernels.keys": (phix.kernels.keys, {"op": ("tanh", "str"), "backends": (["CPU"], "any")}),
    "kernels.kind_kernel": (_registers(phix.kernels.kind_kernel),
                            {"function": (double, "function"), "name": ("twice_rows", "str")}),
    "kernels.missing": (phix.kernels.missing, {"backend": ("CPU", "str")}),
    "kernels.register_backend": (_scoped(phix.kernels.register_backend),
                                 {"name": ("toy", "str"), "device": (_Toy(), "storage"),
                                  "kernels_by_op": ({"tanh": _tanh}, "any"),
                                  "dtypes": ("float32", "any"), "engine": (None, "any"),
                                  "library": ("", "str")}),
    "kernels.unregister_backend": (_scoped(phix.kernels.unregister_backend),
                                   {"name": ("nothing", "str")}),
    "kernels.register_kernel": (_registers(phix.kernels.register_kernel),
                                {"function": (_tanh, "function"), **_NAMED,
                                 "backend": ("CPU", "str"), "takes_unread": (False, "bool"),
                                 "recordable": (False, "bool"), "fits": (None, "any")}),
    "kernels.unregister_kernel": (_scoped(phix.kernels.unregister_kernel),
                                  {"op_name": ("tanh", "str"), "backend": ("SCIPY", "str")}),
    "kernels.seed": (phix.kernels.seed, {"number": (0, "any")}),
    "cupy.kernel": (_registers(phix.cupy.kernel),
                    {"function": (_of_arrays, "function"), **_NAMED, "launch": (None, "any"),
                     "recordable": (None, "any")}),
    "numba.kernel": (_registers(phix.numba.kernel),
                     {"function": (_of_arrays, "function"), **_NAMED, **_NUMBA}),
    "numba.scalar": (_registers(phix.numba.scalar),
                     {"function": (_half, "function"), "op_name": ("halved", "str"),
                      "derive": (False, "bool"), **_NUMBA}),
    "numba.njit": (lambda function, x: phix.numba.njit(function, x),
                   {"function": FUNCTION, "x": (phix.spec([3]), "tree")}),
    "numba.source": (lambda function, x: phix.numba.source(function, x),
                     {"function": FUNCTION, "x": (phix.spec([3]), "tree")}),
    "testing.check_gradients": (_checked("check_gradients"),
                                {**_INPUT, **_TESTED}),
    "testing.check_batching": (_checked("check_batching"),
                               {**_INPUT, "rows": (None, "any"), **_TESTED}),
    "testing.check_unknown_dims": (_checked("check_unknown_dims"),
                                   {**_INPUT, "others": ((), "any"),
                                    "tolerance": (1e-3, "float")}),
    "testing.check_op": (_checked("check_op"),
                         {**_INPUT, "reference": (None, "any"), "skip": (["gradients"], "any"),
                          **_TESTED}),
}  # fmt: skip
ROWS: dict[str, Row] = {
    **LAZY, **TRANSFORMATIONS, **CONTROL, **COLLECTIVES, **CREATION, **TREES, **DEBUG, **LINALG,
    **FFT, **RANDOM, **NN, **SPARSE, **SELECTED_ROWS, **LOD, **STRINGS, **METHODS, **FILES,
    **TRAINING, **KERNELS,
}  # fmt: skip
