"""A compiled graph on the CPU, and the launchers that run it.

Nothing that makes code is imported here: a program found in the disk cache needs none of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from phix.core import dims as dm
from phix.core import rewrites, settings, stack
from phix.core.engines import Launcher, environment
from phix.core.graph import Graph
from phix.core.tensor import Tensor, key_of
from phix.core.texts import Texts
from phix.kernels.cpu import stored
from phix.kernels.cpu.results import Allocator, allocator
from phix.kernels.cpu.stored import NativeCall

if TYPE_CHECKING:
    from phix.kernels.cpu.native_program import NativeProgram


class CpuProgram:
    """A graph compiled for the CPU: one native call, or several with Python steps between.

    ``graph`` is the graph as traced; ``lower`` gives it in primitives, and is called where the
    disk cache has no program, or where the program is to be shown.
    """

    def __init__(
        self,
        graph: Graph,
        contiguous: tuple[bool, ...],
        lower: Callable[[], Graph],
        donated: tuple[int, ...] = (),
    ) -> None:
        self.graph, self.contiguous, self.lower = graph, contiguous, lower
        self.donated = donated
        self.donating: dict[tuple[int, ...], CpuProgram] = {}  # the same, given inputs' memory
        self.left_out, self.settings = rewrites.left_out(), settings.current()
        self.sizes = dm.solutions([v.meta.dims for v in graph.inputs])

    @stack.lazy
    def call(self) -> NativeCall | None:
        """The one native call that runs everything; None where Python has steps to run.

        Made when it is first to run: where inputs are donated, the program that keeps them is not.
        """
        with rewrites.without(self.left_out), settings.in_force(self.settings):
            key = stored.key(self.graph, self.contiguous, self.donated)
            call = None if key is None else stored.recall(key, self.graph)
            if call is None:
                call = self.source.native_call()
                if key is not None and call is not None:
                    stored.keep(key, self.graph, call)
            return call

    @stack.lazy
    def source(self) -> NativeProgram:
        """What the machine code is made from."""
        from phix.kernels.cpu.native_program import NativeProgram

        with rewrites.without(self.left_out), settings.in_force(self.settings):
            return NativeProgram(self.lower(), self.contiguous, self.donated)

    @property
    def sections(self) -> Texts:
        """The loop IR and the LLVM text of the program, and Numba source that does the same."""
        return Texts(self.source.sections, {"numba": self._numba_source})

    def _numba_source(self) -> str:
        from phix.kernels.numba.printed.program import text_of  # who asks for it alone needs it

        with rewrites.without(self.left_out), settings.in_force(self.settings):
            return text_of(self.lower(), self.contiguous)

    def assembly(self) -> str:
        """The machine code as text."""
        return self.source.assembly()

    def prepare(self) -> None:
        """See :class:`phix.core.engines.Program`."""
        _ = self.call or self.source

    # -- launching -------------------------------------------------------------------------
    def launcher(
        self, shapes: tuple[tuple[int, ...], ...], donated: tuple[int, ...] = ()
    ) -> Launcher:
        """See :class:`phix.core.engines.Program`."""
        if donated:
            with rewrites.without(self.left_out), settings.in_force(self.settings):
                if donated not in self.donating:
                    parts = (self.graph, self.contiguous, self.lower, donated)
                    self.donating[donated] = CpuProgram(*parts)
                return self.donating[donated].launcher(shapes)
        env = environment(self.graph, self.sizes, shapes)
        call = self.call
        if env and "source" in vars(self):  # made here: what a disk had was verified when made
            self.source.verify_bounds(env)
        if call is None:
            launch = self.source.launcher(env)
            return _reshaped(launch, self.graph, env) if self.donated else launch
        if call.asked:
            return _asking(call, env)
        outputs = [_result(_sized(dims, env), dtype) for dims, dtype in call.outputs]
        if any(n is not None for n in call.reused):
            return _reusing(call.function, call.constants, outputs, call.reused)
        launch = _single(call.function, call.constants, outputs)
        launch.makes_all = True  # type: ignore[attr-defined]
        return launch


def _reshaped(launch: Launcher, graph: Graph, env: dict[dm.Symbol, int]) -> Launcher:
    """``launch``, its results in their own dims: a donated input has those it came with."""
    dims = [atom.meta.dims for atom in graph.outputs]

    def launch_reshaped(*inputs: Any) -> tuple[Any, ...]:
        made = []
        for out, of in zip(launch(*inputs), dims):
            shape = tuple(dm.substitute(d, env) for d in of)
            is_other = dm.is_known(*shape) and out.shape != shape
            made.append(out.reshape(shape) if is_other else out)
        return tuple(made)

    return launch_reshaped


Result = tuple[Allocator, tuple[int, ...], np.dtype]


def _sized(dims: dm.Shape, env: dict[dm.Symbol, Any]) -> tuple[int, ...]:
    return tuple(int(dm.substitute(d, env)) for d in dims)


def _result(shape: tuple[int, ...], dtype: np.dtype) -> Result:
    return allocator(shape, dtype), shape, dtype


def _single(
    native: Callable[..., Any], constants: tuple[Any, ...], outputs: list[Result]
) -> Launcher:
    """The launcher of a program that is one native call."""
    if len(outputs) == 1:
        ((empty, shape, dtype),) = outputs

        def launch_one(*inputs: Any) -> tuple[Any, ...]:
            out = empty(shape, dtype)
            native(*inputs, *constants, out)
            return (out,)

        key, new_tensor = key_of(dtype, shape, True), Tensor.__new__

        def launch_tensor(*inputs: Any) -> Tensor:
            out = empty(shape, dtype)
            native(*(inputs + constants + (out,)))
            made = new_tensor(Tensor)  # as tensor_of(out, key), whose frame would show
            made.data = out
            made.known_key = key
            made._meta = None
            return made

        launch_one.tensor = launch_tensor  # type: ignore[attr-defined]
        return launch_one

    if all(empty is np.empty for empty, _, _ in outputs):
        shapes, dtypes = [shape for _, shape, _ in outputs], [dtype for _, _, dtype in outputs]

        def launch_small(*inputs: Any) -> tuple[Any, ...]:
            made = tuple(map(np.empty, shapes, dtypes))
            native(*inputs, *constants, *made)
            return made

        return launch_small

    def launch(*inputs: Any) -> tuple[Any, ...]:
        made = tuple([empty(shape, dtype) for empty, shape, dtype in outputs])
        native(*inputs, *constants, *made)
        return made

    return launch


def _asking(call: NativeCall, env: dict[dm.Symbol, Any]) -> Launcher:
    """The launcher of a program that asks for memory for results, or whether sizes fit."""
    native, constants, asked = call.function, call.constants, call.asked
    before = [
        None if n in asked.results else _result(_sized(dims, env), dtype)
        for n, (dims, dtype) in enumerate(call.outputs)
    ]
    answer, table = asked.answers(env, [dtype for _, dtype in call.outputs]), asked.table()
    if not any(before):

        def launch_computed(*inputs: Any) -> tuple[Any, ...]:
            made: list[Any] = [None] * len(before)
            native(*inputs, *constants, answer, table, made)
            return tuple(made)

        return launch_computed

    def launch(*inputs: Any) -> tuple[Any, ...]:
        made = [r and r[0](r[1], r[2]) for r in before]
        known = [out for out in made if out is not None]
        native(*inputs, *constants, *known, answer, table, made)
        return tuple(made)

    return launch


def _reusing(
    native: Callable[..., Any],
    constants: tuple[Any, ...],
    outputs: list[Result],
    reused: tuple[int | None, ...],
) -> Launcher:
    """The launcher of a program that leaves some outputs in the memory of inputs."""

    def launch(*inputs: Any) -> tuple[Any, ...]:
        made = [
            empty(shape, dtype) if n is None else inputs[n].reshape(shape)
            for n, (empty, shape, dtype) in zip(reused, outputs)
        ]
        native(*inputs, *constants, *(o for n, o in zip(reused, made) if n is None))
        return tuple(made)

    return launch
