"""Looking into programs while they run, and finding what is wrong with them."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from phix import ops
from phix.api.arguments import flat_tensors, function_name
from phix.api.comparison import Comparison as Comparison
from phix.api.comparison import compare as compare
from phix.api.compilation import Compilation as Compilation
from phix.api.compilation import compilation
from phix.api.graphs import make_graph
from phix.api.jit import jit
from phix.api.jitted import Jitted
from phix.api.profiling import Profile as Profile
from phix.api.profiling import profiled
from phix.core import context, pytrees
from phix.core import rewrites as table
from phix.core.errors import ArgumentError
from phix.core.faces import face
from phix.core.given import FUNCTION, at_least, named, takes
from phix.core.graph import Graph
from phix.core.index_ranges import Checking
from phix.core.records import dataclass
from phix.core.rewrites import Rewrite
from phix.core.settings import Settings, changed, in_force
from phix.core.source import recording, recording_tracers
from phix.core.tensor import Tracer
from phix.core.tracebacks import full_traceback
from phix.interpreters.watch import Watch
from phix.passes.recognise import report
from phix.passes.simplify import simplify
from phix.pictures.graph_picture import Picture as Picture
from phix.pictures.graph_picture import picture

__all__ = [
    "assert_max_traces",
    "callback",
    "check_indices",
    "compare",
    "draw",
    "full_traceback",
    "leaks",
    "nans",
    "passes",
    "patterns",
    "print",
    "profile",
    "settings",
    "why_retraced",
]
__dir__ = face(__all__)


@dataclass(frozen=True)
class _Effect:
    """A user's function of trees of arrays as one of flat arrays."""

    function: Callable[..., Any]
    tree: Any

    @property
    def __name__(self) -> str:
        return function_name(self.function)

    def __call__(self, arrays: Sequence[Any]) -> None:
        args, kwargs = pytrees.unflatten(self.tree, arrays)
        self.function(*args, **kwargs)


@dataclass(frozen=True)
class _Printer:
    text: str

    @property
    def __name__(self) -> str:
        return "print"

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        builtins.print(self.text.format(*args, **kwargs), flush=True)


class _AnyValue:
    """Takes every place of a text that its value will take, so that no other is an error."""

    def __init__(self, value: Any = None) -> None:
        self._value = value

    def __format__(self, spec: str) -> str:
        if spec and getattr(self._value, "ndim", None):
            raise ArgumentError(
                f"debug.print: the format {spec!r} is for one number, found a tensor of shape "
                f"{list(self._value.shape)}; write {{}} without a format, and for fewer digits "
                "phix.numpy.round(x, decimals)"
            )
        return ""

    def __getattr__(self, name: str) -> _AnyValue:
        return _AnyValue()

    def __getitem__(self, key: Any) -> _AnyValue:
        is_part = isinstance(self._value, (list, tuple, dict))
        return _AnyValue(self._value[key] if is_part else None)


def _check_places(text: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Refuse a text with places that none of the values is for, before the program runs."""
    try:
        text.format(*map(_AnyValue, args), **{n: _AnyValue(v) for n, v in kwargs.items()})
    except ArgumentError:
        raise
    except (IndexError, KeyError, ValueError) as error:
        raise ArgumentError(
            f"debug.print: the text {text!r} does not fit its values, {len(args)} by place and "
            f"{list(kwargs)} by name ({type(error).__name__}: {error}); give a value for each "
            "{} and {name}, and write {{ and }} for braces"
        ) from None


@takes(function=FUNCTION)
def callback(function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Call ``function`` on the values of the arguments, each time a program gets there.

    It is called once a run in the order of the program, once a lane under vmap, and for the
    primal values alone under derivatives.

    Args:
        function: of trees of NumPy arrays; what it returns is dropped.
        *args, **kwargs: trees of tensors.

    >>> import phix
    >>> seen = []
    >>> @phix.jit
    ... def f(x):
    ...     phix.debug.callback(lambda v: seen.append(v.item()), x)
    ...     return 2.0 * x
    >>> f(1.0).item(), f(3.0).item(), seen
    (2.0, 6.0, [1.0, 3.0])
    """
    flat, tree = flat_tensors((args, kwargs), "debug.callback")
    effect = _Effect(function, tree)
    if context.is_eager() and not any(isinstance(x, Tracer) for x in flat):
        effect([x.numpy() for x in flat])
    else:
        ops.debug_callback(flat, effect)


@takes()
def print(text: str, *args: Any, **kwargs: Any) -> None:
    """Print the values of the arguments, each time a program gets there.

    Args:
        text: a format for ``str.format``: ``{}`` or ``{name}`` where a value goes.
        *args, **kwargs: tensors, or trees of them.

    Raises:
        ArgumentError: the text has a place for which there is no value, or a format of one number
            for a tensor with axes.

    >>> import phix
    >>> @phix.jit
    ... def f(x):
    ...     phix.debug.print("x is {} and its square {square}", x, square=x * x)
    ...     return x
    >>> _ = f(3.0)
    x is 3.0 and its square 9.0
    """
    _check_places(text, args, kwargs)
    callback(_Printer(text), *args, **kwargs)


@takes(function=FUNCTION)
def patterns(function: Callable[..., Any], *args: Any) -> str:
    """Where patterns are found in the graph of a function, or nearly, and why they are not.

    Args:
        function: of trees of tensors.
        *args: tensors, or specs of them.

    A backend with a kernel for what a pattern becomes, such as ``attention``, gets it in its place.

    >>> import phix
    >>> def f(q, k, v):
    ...     weights = phix.ops.softmax(q @ k.T / 2.0)
    ...     return weights @ v, phix.ops.max(weights)
    >>> phix.debug.patterns(f, *[phix.spec([5, 4])] * 3).partition(", in ")[0]
    'attention is not there: d of softmax is used elsewhere'
    """
    return "\n".join(report(simplify(make_graph(function)(*args))))


# -- faults ------------------------------------------------------------------------------------
@contextmanager
def nans() -> Iterator[None]:
    """Inside a with block, raise where an op makes a NaN or Inf out of finite inputs.

    The error names the op, the user's line and the pass, also inside jitted functions, loops and
    branches, and in derivatives of any order. A derivative of an op, and a compiled function, is
    judged by its results: what it masks itself is no fault. Everything runs more slowly.

    Raises:
        NonFiniteError: with ``op``, ``source``, ``passes`` and ``order``; the message says where
            choosing a safe input by a second ``where`` is the remedy.
        ArgumentError: opened inside a function that is being transformed.

    >>> import phix
    >>> f = phix.jit(lambda x: phix.ops.where(x > 0, phix.ops.sqrt(x), 0.0))
    >>> try:
    ...     with phix.debug.nans():
    ...         phix.grad(f)(0.0)
    ... except phix.errors.NonFiniteError as error:
    ...     found, message = (error.source.op, error.passes, error.order), str(error)
    >>> found, "choose twice" in message
    (('sqrt', ('backward',), 1), True)
    """
    base = context.current()
    if isinstance(base, Watch):
        yield
        return
    _refuse_inside("nans")
    watch = Watch(base)
    with context.active(watch), recording(watch.derivative):
        yield


def _refuse_inside(name: str) -> None:
    if not context.is_eager_or_watched():
        raise ArgumentError(
            f"debug.{name}: opened inside a function that is being transformed; open it around the "
            "call of the transformed function"
        )


@contextmanager
def check_indices() -> Iterator[None]:
    """Inside a with block, compiled programs raise where an index is out of range.

    Outside of it they read at the nearest index that exists, and write nothing where there is none;
    calls that run at once always raise.
    Inside, jitted functions, and the bodies of loops and branches, are traced anew with the checks
    in them: of ``x[i]``, gathers, scatters, ``embedding`` and class labels; and of lengths of
    sequences, counts of boxes, offsets of rows, weights of what is drawn. The error names the op
    and the user's line. A branch that a ``vmap`` computes though no lane takes it is checked too.

    Raises:
        TensorIndexError: from the call of the compiled function.
        TensorValueError: from there too, of values that are no indices.
        ArgumentError: opened inside a function that is being transformed.

    >>> import phix
    >>> row = phix.jit(lambda x, i: phix.ops.gather(x, i))
    >>> x, i = phix.to_tensor([1.0, 2.0, 3.0]), phix.to_tensor([0, 7])
    >>> row(x, i).tolist()
    [1.0, 3.0]
    >>> try:
    ...     with phix.debug.check_indices():
    ...         row(x, i)
    ... except phix.errors.TensorIndexError as error:
    ...     message = str(error)
    >>> "index holds 7, out of range for axis 0 of size 3" in message
    True
    """
    _refuse_inside("check_indices")
    with context.active(Checking(context.current())):
        yield


@contextmanager
def leaks() -> Iterator[None]:
    """Inside a with block, keep the line that each tracer of grad, jvp and vmap was made at.

    A LeakedTracerError then names it, as it always does for those of jit.

    >>> import phix
    >>> kept = []
    >>> def f(x):
    ...     kept.append(x * 2.0)
    ...     return x
    >>> with phix.debug.leaks():
    ...     _ = phix.grad(f)(1.0)
    >>> try:
    ...     kept[0] + 1.0
    ... except phix.errors.LeakedTracerError as error:
    ...     message = str(error)
    >>> "made at" in message
    True
    """
    with recording_tracers():
        yield


def why_retraced(function: Any, *args: Any, **kwargs: Any) -> str:
    """Which argument made the last new trace of a jitted function, and how it differed.

    Args:
        function: made by ``phix.jit``.
        *args, **kwargs: where given, why a call with them would be traced anew.

    >>> import phix
    >>> f = phix.jit(lambda x, scale: x * scale, static_argnames="scale")
    >>> _ = f(1.0, scale=2.0), f(1.0, scale=3.0)
    >>> "static argument scale is 3.0, was 2.0" in phix.debug.why_retraced(f)
    True
    """
    return _jitted(function, "why_retraced").why_retraced(*args, **kwargs)


@takes(most=at_least(0))
@contextmanager
def assert_max_traces(function: Any, most: int) -> Iterator[None]:
    """Inside a with block, let a jitted function be traced at most that many times.

    Args:
        function: made by ``phix.jit``.
        most: the number of new traces.

    Raises:
        RetraceError: from the call that would be traced once more; it says what set it apart.

    >>> import phix
    >>> f = phix.jit(lambda x: 2.0 * x)
    >>> with phix.debug.assert_max_traces(f, 1):
    ...     f(1.0).item(), f(2.0).item()
    (2.0, 4.0)
    """
    jitted = _jitted(function, "assert_max_traces")
    before = jitted.most_traces
    allowed = jitted.trace_count + most
    jitted.most_traces = allowed if before is None else min(before, allowed)
    try:
        yield
    finally:
        jitted.most_traces = before


def passes(
    function: Callable[..., Any] | None = None, *args: Any
) -> tuple[Rewrite, ...] | Compilation:
    """The stages that a function goes through when it is compiled, in order.

    Args:
        function: a function of tensors, jitted or not; it is compiled anew.
        *args: its arguments, or specs of them.

    Returns:
        The stages, which print as a table: what came out (a graph, loops, code), the name of the
        pass, the time that it took, and what it changed. Each has ``level, name, seconds, what``.
        Without a function: the rewrites that ``phix.jit(f, disable=names)`` leaves out, each with
        ``name, stage, what``. The stages of these are "graph", equations become fewer; "places",
        values move less between places and layouts; "fusion", equations become loops; "loops",
        loops become fewer.

    >>> import phix
    >>> next(p.what for p in phix.debug.passes() if p.name == "join_loops")
    'loops over the same elements become one pass over memory'
    >>> stages = phix.debug.passes(lambda x: phix.ops.mean(x * 2.0), phix.spec([8]))
    >>> [(s.name, s.what) for s in stages if s.level == "graph" and s.what]
    [('decompose', '2 -> 4 equations')]
    """
    if function is not None:
        return compilation(function, args)
    order = table.STAGES.index
    return tuple(sorted(table.known().values(), key=lambda r: (order(r.stage), r.name)))


@takes(function=FUNCTION, most=at_least(1))
def draw(
    function: Callable[..., Any], *args: Any, kernels: bool = True, most: int = 150, **kwargs: Any
) -> Picture:
    """A picture of the graph of a function: ops, the kernels that they are fused into, dims.

    Each box is an op with its attributes and the user's line, each frame a kernel: the values
    inside it have no buffer. Bodies of loops are frames with their own graph in them. Ops with a
    dashed edge need no kernel. The pointer over a box or a line shows all that is known of it.

    Args:
        function: a function of trees of tensors, jitted or not, or a graph.
        *args, **kwargs: its arguments, or specs of them; none for a graph.
        kernels: whether to draw the compiled graph; else the ops as they were traced.
        most: of a graph of more equations, each kernel is one box, and several where these are
            more than 60.

    Returns:
        A :class:`Picture`: notebooks show it, ``save(path)`` writes an SVG, ``show()`` opens it in
        a browser.

    >>> import phix
    >>> f = lambda x, w: phix.ops.tanh(x @ w).sum()
    >>> found = phix.debug.draw(f, phix.spec([8, 16]), phix.spec([16, 4]))
    >>> found
    <picture of <lambda>, 3 equations: .save('graph.svg') or .show()>
    >>> found.save("graph.svg")
    """
    name = "graph" if isinstance(function, Graph) else function_name(function)
    if isinstance(function, Graph) and not args:
        args = tuple(v.meta for v in function.inputs)
    if not kernels:
        made = function if isinstance(function, Graph) else make_graph(function)(*args, **kwargs)
        return picture(name, made, (), most)
    jitted = function if isinstance(function, Jitted) else jit(function)
    lowered = jitted.lower(*args, **kwargs)
    groups: list[Any] = getattr(lowered._explanation, "groups", list)()
    # what only fills a total with zeros is not where the sum is
    groups.sort(key=lambda group: getattr(group[0], "start", False))
    return picture(name, lowered.graph, [(title, held) for _, title, held in groups], most)


@takes(function=FUNCTION)
def profile(function: Callable[..., Any]) -> Callable[..., Profile]:
    """A function that gives the time of each step of a compiled function.

    The program is compiled anew with the clock read around each kernel, and run some times, for
    about half a second; shown is the quickest run. ``phix.debug.callback`` and ``print`` are called
    in each of them; donated arguments are kept.

    Args:
        function: a function of trees of tensors, jitted or not.

    Returns:
        A function of the same arguments that gives a :class:`Profile`: ``print`` it for a table of
        kernels with their ops, the user's lines, their share of the time, GFLOP/s and GB/s;
        ``steps`` has the same as numbers, and ``chrome_trace(path)`` writes a file for
        chrome://tracing and Perfetto.

    Raises:
        ArgumentError: the program does not run on the CPU.

    >>> import phix
    >>> f = lambda x, w: phix.ops.tanh(x @ w).sum()
    >>> found = phix.debug.profile(f)(phix.ones([64, 64]), phix.ones([64, 64]))
    >>> [step.ops for step in found.steps]
    [('matmul',), ('tanh', 'sum')]
    >>> found.steps[0].flops == 2 * 64**3, found.seconds > 0
    (True, True)
    >>> found.chrome_trace("trace.json")
    """

    @named("debug.profile")
    def profiled_call(*args: Any, **kwargs: Any) -> Profile:
        return profiled(function, args, kwargs)

    return profiled_call


@contextmanager
def settings(**values: Any) -> Iterator[Settings]:
    """Inside a with block, in this thread, some bounds by which phix decides are others.

    For tests, which make small programs go the ways of large ones, and for tuning. ``print`` of
    what the block gives shows all of them, ``help(type(settings))`` what they mean. A function
    keeps the programs that it has: jit it anew inside the block.

    Args:
        **values: new values by name.

    Raises:
        ArgumentError: no setting has that name, or a value is no number from 0.

    >>> import phix
    >>> with phix.debug.settings(least_shared_work=1) as found:
    ...     found.least_shared_work, found.shared_run
    (1, 64)
    """
    with in_force(changed(**values)) as found:
        yield found


def _jitted(function: Any, where: str) -> Jitted:
    if not isinstance(function, Jitted):
        raise ArgumentError(
            f"debug.{where} takes a function made by phix.jit, found {type(function).__name__}"
        )
    return function
