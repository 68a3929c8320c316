"""Tracebacks show the user's frames and one line on how to see all; the rest is kept."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

import phix
from phix.core.tracebacks import NOTE

PACKAGE = str(Path(phix.__file__).parent) + os.sep

pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="tracebacks stay whole on Python 3.10"
)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """What users see where nothing is set; the other tests have all frames."""
    monkeypatch.delenv("PHIX_TRACEBACK", raising=False)


def _raised(call: Callable[[], object]) -> Exception:
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def _frames(trace: TracebackType | None) -> list[traceback.FrameSummary]:
    return list(traceback.extract_tb(trace))


def _own(error: BaseException) -> list[str]:
    """The names of the frames that are shown, of which none is phix's."""
    frames = _frames(error.__traceback__)
    assert not [f for f in frames if f.filename.startswith(PACKAGE)]
    return [f.name for f in frames]


# -- what users write -------------------------------------------------------------------------
def of_phix(x: Any) -> Any:
    return phix.ops.matmul(x, x.sum())


def of_the_user(x: Any) -> Any:
    return {}["gone"]


def of_another_error(x: Any) -> Any:
    try:
        of_the_user(x)
    except KeyError as error:
        raise ValueError("no such thing") from error


SQUARE = phix.ones([2, 2])
WAYS: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "jit": phix.jit,
    "grad": phix.grad,
    "value_and_grad": phix.value_and_grad,
    "vjp": lambda f: lambda x: phix.vjp(f, x),
    "jvp": lambda f: lambda x: phix.jvp(f, (x,), (x,)),
    "vmap": phix.vmap,
    "checkpoint": phix.checkpoint,
    "autocast": lambda f: phix.autocast(f, "bfloat16"),
    "jacrev": phix.jacrev,
    "jacfwd": phix.jacfwd,
    "hessian": phix.hessian,
    "hvp": lambda f: lambda x: phix.hvp(f, (x,), (x,)),
    "linearize": lambda f: lambda x: phix.linearize(f, x),
    "linear_transpose": lambda f: lambda x: phix.linear_transpose(f, x)(x),
    "derivative": lambda f: lambda x: phix.derivative(lambda t: f(t * x))(1.0),
    "make_graph": phix.make_graph,
    "eval_shape": lambda f: lambda x: phix.eval_shape(f, x),
    "lower": lambda f: lambda x: phix.jit(f).lower(x),
    "donating": lambda f: phix.jit(f, donate_argnums=0),
    "compare": phix.debug.compare,
    "custom_vjp": lambda f: phix.jit(phix.custom_vjp(f)),
    "cond": lambda f: lambda x: phix.cond(True, f, f, x),
    "map": lambda f: lambda x: phix.map(f, x),
    "scan": lambda f: lambda x: phix.scan(lambda c, row: (c, f(row)), 0.0, x),
    "while_loop": lambda f: lambda x: phix.while_loop(lambda c: True, f, x),
    "stack": lambda f: phix.jit(phix.grad(lambda x: phix.vmap(f)(x).sum())),
}
FAULTS = {
    of_phix: (phix.errors.ShapeError, "of_phix"),
    of_the_user: (KeyError, "of_the_user"),
    of_another_error: (ValueError, "of_another_error"),
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("way", WAYS)
def test_an_error_shows_the_users_frames_alone(way: str, fault: Callable[..., Any]) -> None:
    transformed = WAYS[way](fault)
    error = _raised(lambda: transformed(SQUARE))
    kind, last = FAULTS[fault]
    assert isinstance(error, kind)
    names = _own(error)
    assert names[:2] == ["_raised", "<lambda>"] and names[-1] == last
    assert error.__notes__ == [NOTE]
    whole = _frames(phix.debug.full_traceback(error))
    assert [f.name for f in whole if not f.filename.startswith(PACKAGE)][-1] == last
    assert len(whole) > len(names) and whole[0].name == "_raised"


def test_causes_stay_and_are_shortened() -> None:
    error = _raised(lambda: phix.jit(phix.grad(of_another_error))(SQUARE))
    cause = error.__cause__
    assert isinstance(cause, KeyError) and error.__context__ is cause
    assert _own(cause) == ["of_another_error", "of_the_user"]

    def handled() -> Any:
        try:
            return of_the_user(None)
        except KeyError:
            return phix.jit(of_phix)(SQUARE)

    error = _raised(handled)
    context = error.__context__
    while context is not None and context.__context__ is not None:
        context = context.__context__
    assert isinstance(context, KeyError) and error.__cause__ is None
    assert _own(context) == ["handled", "of_the_user"]
    # from the user's code, called by phix, calling phix
    error = _raised(lambda: phix.vmap(lambda x: _raised_from(phix.jit(of_phix), x))(SQUARE))
    assert isinstance(error.__cause__, phix.errors.ShapeError)
    assert _own(error)[-1] == "_raised_from" and _own(error.__cause__)[-1] == "of_phix"


def _raised_from(function: Callable[..., Any], x: Any) -> Any:
    try:
        return function(x)
    except phix.errors.ShapeError as error:
        raise ValueError("it does not fit") from error


def test_the_whole_traceback_has_what_the_error_passed_since() -> None:
    def further() -> Any:
        return phix.jit(of_the_user)(SQUARE)

    def furthest() -> Any:
        return further()

    error = _raised(furthest)
    shown = [f.name for f in _frames(error.__traceback__)]
    whole = [f.name for f in _frames(phix.debug.full_traceback(error))]
    assert shown == ["_raised", "furthest", "further", "of_the_user"]
    assert whole[:3] == shown[:3] and whole[-1] == shown[-1] and "trace" in whole
    last = phix.debug.full_traceback(error)
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    assert last is not None and last.tb_frame.f_code is of_the_user.__code__  # for a debugger


def test_an_error_that_is_raised_again_keeps_all_frames() -> None:
    kept: list[Exception] = []

    def keeping(x: Any) -> Any:
        kept.append(_raised(lambda: phix.nn.functional.relu(object())))  # type: ignore[arg-type]
        raise kept[0]

    first = _raised(lambda: phix.jit(of_the_user)(SQUARE))

    def again(x: Any) -> Any:
        raise first

    error = _raised(lambda: phix.vmap(again)(SQUARE))
    assert error is first and error.__notes__ == [NOTE]
    whole = [f.name for f in _frames(phix.debug.full_traceback(error))]
    assert whole[-1] == "of_the_user" and "again" in whole and "_trace" in whole
    assert _own(error)[-1] == "of_the_user"
    assert _raised(lambda: phix.jit(keeping)(SQUARE)) is kept[0]


def test_all_frames_are_shown_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHIX_TRACEBACK", "full")
    error = _raised(lambda: phix.jit(of_the_user)(SQUARE))
    assert "_trace" in [f.name for f in _frames(error.__traceback__)]
    assert not hasattr(error, "__notes__")
    assert phix.debug.full_traceback(error) is error.__traceback__


def test_errors_far_down_show_the_users_frames() -> None:
    """Graphs inside graphs go on in threads, whose frames are no user's either."""
    function: Callable[..., Any] = of_the_user
    for _ in range(40):
        function = phix.jit(function)
    assert _own(_raised(lambda: function(SQUARE)))[-1] == "of_the_user"


def test_frames_between_phix_and_the_user_go_with_phix() -> None:
    @contextlib.contextmanager
    def block() -> Iterator[None]:
        yield

    @block()
    def decorated(x: Any) -> Any:
        return of_the_user(x)

    names = _own(_raised(lambda: phix.jit(decorated)(SQUARE)))
    assert names[-2:] == ["decorated", "of_the_user"]
    assert "inner" in [f.name for f in _frames(_raised(lambda: decorated(1)).__traceback__)]


def test_an_error_of_a_run_shows_the_users_frames() -> None:
    def fails(x: Any) -> Any:
        raise OSError("no file")

    f = phix.jit(lambda x: phix.pure_callback(fails, phix.spec([2, 2]), x))
    for _ in range(5):  # traced, then found, then by a function of its own
        assert _own(_raised(lambda: f(SQUARE)))[:2] == ["_raised", "<lambda>"]


def test_pickles_go_without_the_frames() -> None:
    error = _raised(lambda: phix.jit(of_the_user)(SQUARE))
    other = pickle.loads(pickle.dumps(error))
    assert type(other) is KeyError and other.args == error.args
    assert phix.debug.full_traceback(other) is None is other.__traceback__
    with pytest.raises(phix.errors.ArgumentError, match="takes an exception, found str 'x'"):
        phix.debug.full_traceback("x")  # type: ignore[arg-type]


def test_what_is_no_error_is_left_alone() -> None:
    def stops(x: Any) -> Any:
        raise KeyboardInterrupt

    try:
        phix.jit(stops)(SQUARE)
    except KeyboardInterrupt as stop:
        assert "_trace" in [f.name for f in _frames(stop.__traceback__)]


PROGRAM = """
import phix

def row(x):
    return phix.ops.matmul(x, x.sum())

def loss(x):
    return phix.vmap(row)(x).sum()

phix.jit(phix.grad(loss))(phix.ones([2, 3, 3]))
"""


@pytest.mark.parametrize(("flag", "least", "most"), [("short", 1, 12), ("full", 60, 200)])
def test_lines_that_a_program_prints(flag: str, least: int, most: int, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    environment = {**os.environ, "PHIX_TRACEBACK": flag, "PYTHONPATH": str(Path(PACKAGE).parent)}
    run = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, env=environment
    )
    lines = run.stderr.splitlines()
    assert run.returncode == 1 and least <= len(lines) <= most, run.stderr
    places = [line.split(", ")[1:] for line in lines if line.startswith(f'  File "{file}"')]
    assert places == [["line 10", "in <module>"], ["line 8", "in loss"], ["line 5", "in row"]]
    if flag == "short":
        assert lines[-1] == NOTE and lines[-2].startswith("phix.core.errors.ShapeError: matmul(")
        assert len([line for line in lines if line.startswith("  File")]) == 3
