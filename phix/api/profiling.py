"""Where the time of a compiled function goes: a clock around each of its steps."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phix.api.arguments import function_name
from phix.api.jit import jit
from phix.api.jitted import Jitted
from phix.api.weak_arguments import lent
from phix.core import context, libraries
from phix.core.engines import engine
from phix.core.errors import ArgumentError
from phix.core.graph import Equation, Graph, all_places
from phix.core.places import CPU
from phix.core.records import dataclass, field

_SECONDS, _LEAST_RUNS, _MOST_RUNS = 0.3, 3, 300  # of measuring
_WARM_RUNS = 2
# Of Chrome's trace format: one thread for the whole, one for the steps.
_WHOLE, _STEPS = 0, 1


@dataclass(frozen=True)
class ProfiledStep:
    """One step of a program: a kernel, or what Python runs between kernels.

    Attributes:
        name: "kernel 3", numbered in the order of the program, or the name of what Python runs.
        ops: the ops in it, in order.
        lines: the user's lines that these come from.
        seconds: of all its runs together, in one run of the function.
        runs: how often it ran; more than once inside loops.
        share: of the time of all steps.
        flops, transcendentals, bytes_accessed: of all its runs, counted from its loops as
            ``cost_analysis`` counts them; None where that cannot be told.
    """

    name: str
    ops: tuple[str, ...]
    lines: tuple[str, ...]
    seconds: float
    runs: int
    share: float
    flops: float | None
    transcendentals: float | None
    bytes_accessed: float | None

    @property
    def gflops(self) -> float | None:
        """Operations a nanosecond, a transcendental function as one of them."""
        if self.flops is None or self.transcendentals is None:
            return None
        return _rate(self.flops + self.transcendentals, self.seconds)

    @property
    def gigabytes(self) -> float | None:
        """Bytes a nanosecond: traffic with memory where it is no cache that answers."""
        return _rate(self.bytes_accessed, self.seconds)


def _rate(count: float | None, seconds: float) -> float | None:
    return None if count is None or seconds <= 0 else count / seconds / 1e9


@dataclass(frozen=True)
class Profile:
    """What :func:`phix.debug.profile` finds; printed, a table with the dearest step first.

    Attributes:
        name: of the function.
        steps: :class:`ProfiledStep` in the order of the program.
        seconds: of the quickest run of the program as it always runs, without the clock in it.
        timed_seconds: of the run that the steps are from, the clock's own time taken off.
        measured: how many runs were timed; the steps are those of the quickest, which other work
            on the machine has disturbed least.
        notes: what is not seen, in words.
    """

    name: str
    steps: tuple[ProfiledStep, ...]
    seconds: float
    timed_seconds: float
    measured: int
    notes: tuple[str, ...]
    # of each run of a step: its number, and the seconds of its beginning and end
    events: tuple[tuple[int, float, float], ...] = field(repr=False)

    @property
    def between(self) -> float:
        """Seconds of the timed run that are in no step: memory, sizes, loops, the call itself."""
        return self.timed_seconds - sum(s.seconds for s in self.steps)

    def __str__(self) -> str:
        head = f"{self.name}: {_time(self.seconds)} a run; {len(self.steps)} steps"
        titles = ("share", "time", "runs", "GFLOP/s", "GB/s", "step", "ops", "lines")
        dearest = sorted(self.steps, key=lambda s: -s.seconds)
        rows = [titles, *map(_row, dearest)]
        rows.append((_percent(self.between / self.timed_seconds), _time(self.between), "", "", "",
                     "between steps", "", ""))  # fmt: skip
        widths = [max(len(r[k]) for r in rows) for k in range(len(titles))]
        lines = (
            "  ".join(
                t.rjust(w) if k < 5 else t.ljust(w) for k, (t, w) in enumerate(zip(r, widths))
            )
            for r in rows
        )
        notes = (f"note: {note}" for note in self.notes)
        return "\n".join([head, *(line.rstrip() for line in lines), *notes])

    def chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the run as a file that chrome://tracing and ui.perfetto.dev open.

        Args:
            path: of the file, JSON of Chrome's trace events.
        """
        start = min((e[1] for e in self.events), default=0.0)
        events = [
            _metadata("process_name", _WHOLE, f"phix: {self.name}"),
            _metadata("thread_name", _WHOLE, "program"),
            _metadata("thread_name", _STEPS, "steps"),
            _event(self.name, _WHOLE, 0.0, self.timed_seconds, {"seconds": self.seconds}),
        ]
        for number, begun, ended in self.events:
            step = self.steps[number]
            facts = {
                "step": step.name, "lines": list(step.lines), "ops": list(step.ops),
                "GFLOP/s": step.gflops, "GB/s": step.gigabytes,
            }  # fmt: skip
            name = f"{step.name}: {_short(step.ops, 4)}"
            events.append(_event(name, _STEPS, begun - start, ended - begun, facts))
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events, "displayTimeUnit": "ns"}, file)


def _row(step: ProfiledStep) -> tuple[str, ...]:
    rates = tuple("" if r is None else f"{r:.3g}" for r in (step.gflops, step.gigabytes))
    times = (_percent(step.share), _time(step.seconds), str(step.runs))
    return (*times, *rates, step.name, _short(step.ops, 6), _short(step.lines, 3))


def _short(words: Sequence[str], most: int) -> str:
    text = ", ".join(words[:most])
    return text + (f", {len(words) - most} more" if len(words) > most else "")


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def _metadata(what: str, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": 0, "tid": thread, "args": {"name": name}}


def _event(name: str, thread: int, start: float, length: float, facts: Any) -> dict[str, Any]:
    at = {"ts": round(start * 1e6, 3), "dur": round(length * 1e6, 3)}  # in microseconds
    return {"ph": "X", "name": name, "pid": 0, "tid": thread, **at, "args": facts}


# -- measuring -----------------------------------------------------------------------------------
def profiled(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Profile:
    """The profile of a function for these arguments."""
    jitted = function if isinstance(function, Jitted) else jit(function)
    name = function_name(jitted.function)
    if not context.is_eager():
        raise ArgumentError("debug.profile: called inside a function that is being transformed")
    lowered = jitted.lower(*args, **kwargs)
    compiled, places = lowered._traced.compiled, lowered._places
    graph = lowered.graph
    tensors, _ = lent(jitted._split(args, kwargs)[0], name)
    arrays = [np.ascontiguousarray(x.data) if x.ndim else x.data for x in _on_host(graph, tensors)]
    with compiled.as_asked():
        timed = _engine_of(graph).timed(graph, (True,) * len(arrays))
    shapes = tuple(a.shape for a in arrays)
    plain = compiled.program((True,) * len(arrays), *places).launcher(shapes)
    launch, times = timed.launcher(shapes)
    steps = timed.steps(shapes)
    seconds, _, _ = _quickest(plain, arrays, np.zeros(1, np.int64), 1)
    whole, found, runs = _quickest(launch, arrays, times, 1 + 2 * (len(steps) + 1))
    return _profile(name, steps, seconds, runs, whole, found)


def _on_host(graph: Graph, tensors: Any) -> Any:
    if not all(isinstance(getattr(x, "data", None), np.ndarray) for x in tensors):
        places = ", ".join(sorted({str(x.place) for x in tensors}))
        raise _no_clock(f"arguments on {places}")
    return tensors


def _engine_of(graph: Graph) -> Any:
    places = {p.kind for p in all_places(graph)}
    found = engine(next(iter(places), CPU.kind))
    if len(places) > 1 or not hasattr(found, "timed"):
        raise _no_clock(f"a program on {', '.join(sorted(places))}")
    if libraries.pinned() == "numba":
        raise _no_clock("a program of the library numba")
    return found


def _no_clock(what: str) -> ArgumentError:
    return ArgumentError(
        f"debug.profile: found {what}, inside which phix has no clock; it times native programs of "
        "the CPU (phix.debug.profile(f)(x.cpu())); for GPUs there is Nsight Systems, which shows "
        "the kernels by the names of Lowered.fusion()"
    )


def _quickest(
    launch: Callable[..., Any], arrays: Sequence[np.ndarray], times: np.ndarray, head: int
) -> tuple[float, np.ndarray, int]:
    """Seconds of the quickest run, the times that it noted, and how many runs there were."""
    for _ in range(_WARM_RUNS):
        launch(*arrays)
    best, found, runs = float("inf"), times, 0
    begun = time.perf_counter()
    while runs < _MOST_RUNS and (runs < _LEAST_RUNS or time.perf_counter() - begun < _SECONDS):
        times[:head] = 0
        start = time.perf_counter_ns()
        launch(*arrays)
        seconds = (time.perf_counter_ns() - start) / 1e9
        runs += 1
        if seconds < best:
            best, found = seconds, times.copy()
    return best, found, runs


def _profile(
    name: str, steps: Any, seconds: float, measured: int, whole: float, times: np.ndarray
) -> Profile:
    count = len(steps)
    noted, spent = int(times[0]), times[1 : 1 + 2 * (count + 1)].reshape(-1, 2)
    clock = spent[count, 0] / max(1, spent[count, 1])  # of one reading, which each step has in it
    own = np.maximum(spent[:count, 0] - clock * spent[:count, 1], 0) / 1e9
    total = max(float(own.sum()), 1e-12)
    made = []
    for step, taken, runs in zip(steps, own.tolist(), spent[:count, 1].tolist()):
        ops = tuple(dict.fromkeys(e.op.name for e in step.equations))
        counts = (step.cost.flops, step.cost.transcendentals, step.cost.bytes_accessed)
        all_runs = [None if c is None else c * runs for c in counts]
        made.append(ProfiledStep(step.name, ops or ("copy",), _lines(step.equations), taken, runs,
                                 taken / total, *all_runs))  # fmt: skip
    events = times[1 + 2 * (count + 1) :].reshape(-1, 3)[:noted]
    kept = [(int(k), s / 1e9, e / 1e9) for k, s, e in events.tolist() if k < count]
    # each run of a step reads the clock twice, and the clock itself was timed
    taken_off = 2 * clock * (spent[:, 1].sum()) / 1e9
    timed_seconds = max(whole - float(taken_off), total)
    notes = _notes(noted - len(events), made, seconds, timed_seconds)
    return Profile(name, tuple(made), seconds, timed_seconds, measured, notes, tuple(kept))


def _lines(equations: Sequence[Equation]) -> tuple[str, ...]:
    sources = [e.source for e in equations if e.source is not None]
    return tuple(dict.fromkeys(f"{os.path.basename(s.file)}:{s.line}" for s in sources))


def _notes(
    left: int, steps: Sequence[ProfiledStep], seconds: float, timed: float
) -> tuple[str, ...]:
    notes = [
        "a kernel's time is that of the threads and library routines in it, too, which are not "
        "told apart; GB/s counts each buffer of a kernel once, whichever cache it is in"
    ]
    if timed > 1.1 * seconds and any(s.runs > 1 for s in steps):
        notes.append(
            f"with the clock in it a run took {timed / seconds:.2g} times as long: short steps in "
            "loops are faster than they seem here"
        )
    if left > 0:
        notes.append(f"{left} runs of steps are in the table, and not in the trace: too many")
    if any(s.flops is None for s in steps):
        notes.append(
            "rates are missing where a count depends on the data, and of kernels that finish what "
            "another one does: they are counted with that"
        )
    return tuple(notes)
