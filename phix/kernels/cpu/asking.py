"""What native code asks of Python in the middle of a run: whether the program's calls fit a size
that it has just computed, and for memory for results of such sizes.

A program that asks is passed three more objects: the function that is asked, a table of sizes that
are known to fit, so that nobody is asked about them again, and the list that results are put into.
"""

from __future__ import annotations

from phix.core.size_checks import Bound
from phix.kernels.cpu.known import DATA, Known
from phix.kernels.cpu.long_loops import RAISED_IN_PYTHON
from phix.kernels.cpu.questions import ROWS, UNKNOWN, Questions, checked
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import Buffer, LoopProgram

# The objects among the names of a function.
FUNCTION, TABLE, RESULTS = (("asked", what) for what in ("function", "table", "results"))
KEYS = (FUNCTION, TABLE, RESULTS)
_DECLARATIONS = (
    "declare ptr @PyObject_CallFunction(ptr, ptr, ...)",
    "declare void @Py_DecRef(ptr)",
)


class Asking:
    """How the steps of a program ask its questions."""

    def __init__(self, asked: Questions, program: LoopProgram) -> None:
        self.asked, self.starts = asked, asked.starts()
        self.numbers = {step: n for n, step in enumerate(checked(program.steps))}
        self.results: dict[Buffer, int] = {program.outputs[n]: n for n in asked.results}

    def whether_fits(self, text: Known, step: ir.BindStep) -> None:
        """Print that Python is asked whether a size fits, unless the table says so."""
        number = self.numbers[step]
        check, symbols = self.asked.checks[number]
        keys = [("dim", text.segment.symbol_names.get(s, "")) for s in symbols]
        sizes = [text.symbol(k[1]) if text.known(k) else str(UNKNOWN) for k in keys]
        text.fault()
        fits = text.let(f"icmp sge i64 {sizes[0]}, 0")
        is_bound_alone = isinstance(check, Bound) and check.check is None
        places = [] if is_bound_alone else self._row(text, self.starts[number], sizes)
        for place, size in zip(places, sizes):
            same = text.let(f"icmp eq i64 {text.let(f'load i64, ptr {place}')}, {size}")
            fits = text.let(f"and i1 {fits}, {same}")
        ask, go = text.labels("ask", "go")
        text.lines.append(f"  br i1 {fits}, label %{go}, label %{ask}")
        text.start(ask)
        _call(text, number, sizes)
        text.lines += [f"  store i64 {s}, ptr {place}" for place, s in zip(places, sizes)]
        text.lines.append(f"  br label %{go}")
        text.start(go)

    def _row(self, text: Known, start: int, sizes: list[str]) -> list[str]:
        """The addresses of the row of the table where these sizes stand, if anywhere."""
        mixed = sizes[0]
        for size in sizes[1:]:
            mixed = text.let(f"add i64 {text.let(f'mul i64 {mixed}, 31')}, {size}")
        row = text.let(f"and i64 {mixed}, {ROWS - 1}")
        first = text.let(f"mul i64 {row}, {len(sizes)}")
        table = text.known(TABLE)
        places = []
        for k in range(len(sizes)):
            at = text.let(f"add i64 {first}, {start + k}")
            places.append(text.let(f"getelementptr inbounds i64, ptr {table}, i64 {at}"))
        return places

    def for_results(self, text: Known) -> None:
        """Print that memory is made for the results whose sizes are known by now."""
        for buffer, number in self.results.items():
            if text.known((buffer, DATA)) or not text.has_dims(buffer):
                continue
            sizes = [text.value(text.segment.dim_expr(d)) for d in buffer.dims]
            array = _call(text, number + len(self.asked.checks), sizes)
            text.note_array(buffer, array)


def _call(text: Known, number: int, sizes: list[str]) -> str:
    """Call the function that is asked: what it gives is held by the list of results, if by any."""
    for declaration in _DECLARATIONS:
        text.declare(declaration)
    name, size = f"@asked.{len(sizes)}", len(sizes) + 3
    text.declare(f'{name} = private constant [{size} x i8] c"Oi{"L" * len(sizes)}\\00"')
    function, results = text.known(FUNCTION), text.known(RESULTS)
    given = "".join(f", i64 {s}" for s in sizes)
    found = text.let(
        "call ptr (ptr, ptr, ...) @PyObject_CallFunction"
        f"(ptr {function}, ptr {name}, ptr {results}, i32 {number}{given})"
    )
    text.leave_where(f"icmp eq ptr {found}, null", RAISED_IN_PYTHON)
    text.lines.append(f"  call void @Py_DecRef(ptr {found})")
    return found
