"""The cache on disk: what is kept, what is found again, and by whom."""

from __future__ import annotations

import ast
import copy
import ctypes
import dataclasses
import os
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core import disk_cache, fingerprint, rewrites, rules
from phix.kernels.cpu import compiler, jit, stored
from phix.kernels.schedule import pipeline

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and no machine code in memory."""
    monkeypatch.setenv("PHIX_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("PHIX_CACHE", raising=False)
    monkeypatch.setattr(jit, "_loaded", weakref.WeakValueDictionary())
    return tmp_path


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The loop programs that were made since."""
    seen: list[Any] = []
    lower = pipeline.lower

    def counted(*args: Any, **options: Any) -> Any:
        seen.append(lower(*args, **options))
        return seen[-1]

    monkeypatch.setattr(pipeline, "lower", counted)
    return seen


def forget() -> None:
    """As if the process were new: machine code is on disk alone."""
    jit._loaded.clear()


def kept(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("*.phixcache")}


# -- files ---------------------------------------------------------------------------------------
def test_the_cache_gives_back_what_was_saved(folder: Path) -> None:
    disk_cache.save("key", b"machine code")
    assert disk_cache.load("key") == b"machine code"
    assert disk_cache.load("other") is None


def test_the_cache_can_be_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHIX_CACHE", "0")
    assert phix.jit(lambda x: x * 3)(2.0).item() == 6.0
    assert phix.cache_info().folder is None
    assert not disk_cache.has("key")
    phix.clear_cache()
    assert not list(folder.iterdir())


def test_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PHIX_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert disk_cache.directory() == str(tmp_path / ".cache" / "phix")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert disk_cache.directory() == str(tmp_path / "caches" / "phix")
    monkeypatch.setenv("PHIX_CACHE_DIR", str(tmp_path / "mine"))
    assert disk_cache.directory() == str(tmp_path / "mine")


def test_a_folder_that_cannot_be_written_is_no_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = folder / "file"
    blocked.write_text("")
    monkeypatch.setenv("PHIX_CACHE_DIR", str(blocked / "below"))
    assert phix.jit(lambda x: x * 4)(2.0).item() == 8.0


def test_a_folder_that_can_only_be_read_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise PermissionError

    disk_cache.save("key", b"machine code")
    monkeypatch.setattr(os, "utime", refuse)
    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    assert disk_cache.load("key") == b"machine code"
    disk_cache.save("other", b"more")
    assert disk_cache.load("other") is None


def test_the_least_recently_used_go_first(folder: Path) -> None:
    for age, key in enumerate("abcd"):
        disk_cache.save(key, bytes(1000))
        os.utime(folder / f"{key}.phixcache", (1000 - age, 1000 - age))
    disk_cache.trim(str(folder), 6000)
    assert kept(folder) == {"a", "b", "c", "d"}
    disk_cache.trim(str(folder), 3500)  # down to three quarters
    assert kept(folder) == {"a", "b"}


def test_what_cannot_be_deleted_does_not_count_as_gone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for age, key in enumerate("abcd"):
        disk_cache.save(key, bytes(1000))
        os.utime(folder / f"{key}.phixcache", (1000 - age, 1000 - age))
    unlink = os.unlink

    def refusing(path: str) -> None:
        if path.endswith("d.phixcache"):
            raise PermissionError
        unlink(path)

    monkeypatch.setattr(disk_cache.os, "unlink", refusing)
    assert disk_cache.trim(str(folder), 4000) == 4  # down to three quarters: two others go
    assert kept(folder) == {"a", "d"}


def test_the_bound_holds_while_entries_are_written(folder: Path) -> None:
    with phix.debug.settings(most_cache_bytes=20_000, writes_between_trims=4):
        for number in range(50):
            disk_cache.save(f"k{number}", bytes(1000))
        info = phix.cache_info()
    assert info.largest_bytes == 20_000
    assert 10_000 < info.bytes < 20_000 + 4 * 1100
    assert "k49" in kept(folder) and "k0" not in kept(folder)


def test_files_of_writers_that_died_go(folder: Path) -> None:
    for name, age in (("dead.phixcache-tmp", 10_000), ("alive.phixcache-tmp", 0)):
        (folder / name).write_bytes(b"phix-en")
        written = (folder / name).stat().st_mtime - age
        os.utime(folder / name, (written, written))
    disk_cache.trim(str(folder), 1000)
    assert [p.name for p in folder.iterdir()] == ["alive.phixcache-tmp"]


# -- a folder with other things in it --------------------------------------------------------------
def test_nothing_is_deleted_but_what_the_cache_wrote(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = folder.parent / "outside"
    outside.write_bytes(b"phix-entry-3\n" + bytes(5000))
    (folder / "weights.bin").write_bytes(bytes(100_000))
    (folder / "notes.phixcache").write_bytes(b"the user's own")
    (folder / "old.phixcache-tmp").write_bytes(b"the user's own")
    (folder / "link.phixcache").symlink_to(outside)
    (folder / "folder.phixcache").mkdir()
    os.mkfifo(folder / "pipe.phixcache")
    os.utime(folder / "old.phixcache-tmp", (1000, 1000))
    there = set(folder.iterdir())
    for number in range(20):
        disk_cache.save(f"k{number}", bytes(1000))
    disk_cache.trim(str(folder), 5000)
    assert there < set(folder.iterdir()) and len(kept(folder)) < 15
    for name in ("link", "folder", "pipe", "notes"):
        assert disk_cache.load(name) is None
    phix.clear_cache()
    assert set(folder.iterdir()) == there and outside.exists()


def test_a_new_folder_is_for_its_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PHIX_CACHE_SHARED", raising=False)
    new, old = tmp_path / "a" / "new", tmp_path / "old"
    old.mkdir(mode=0o755)
    for folder, mode in ((new, 0o700), (old, 0o755)):
        monkeypatch.setenv("PHIX_CACHE_DIR", str(folder))
        disk_cache.save("key", b"machine code")
        assert folder.stat().st_mode & 0o777 == mode
        assert (folder / "key.phixcache").stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("PHIX_CACHE_SHARED", "1")
    disk_cache.save("other", b"machine code")
    assert (old / "other.phixcache").stat().st_mode & 0o777 == 0o644


def test_entries_of_others_count_only_where_the_folder_is_shared(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PHIX_CACHE_SHARED", raising=False)
    f = phix.jit(lambda x: x * 7 - 1)
    assert f(1.0).item() == 6.0
    before = {p: p.stat().st_mtime_ns for p in folder.glob("*.phixcache")}
    own = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: own + 1)
    assert all(disk_cache.load(p.stem) is None for p in before)
    phix.clear_cache()
    assert set(folder.glob("*.phixcache")) == set(before)
    monkeypatch.setenv("PHIX_CACHE_SHARED", "1")
    assert all(disk_cache.load(p.stem) is not None for p in before)


def test_an_entry_under_another_name_is_none(folder: Path, lowered: list[Any]) -> None:
    """Swapped, entries would run another program, or none: the linker ends the process."""
    f, g = phix.jit(lambda x: x * 8 + 1), phix.jit(lambda x: x * 9 + 1)
    assert (f(1.0).item(), g(1.0).item()) == (9.0, 10.0)
    paths = sorted(folder.glob("*.phixcache"))
    contents = [p.read_bytes() for p in paths]
    for path, content in zip(paths, contents[1:] + contents[:1]):
        path.write_bytes(content)
    assert all(disk_cache.load(p.stem) is None for p in paths)
    forget()
    for h in (f, g):
        h.cache_clear()
    made = len(lowered)
    assert (f(1.0).item(), g(1.0).item()) == (9.0, 10.0)
    assert len(lowered) == made + 2


GOOD = {"object": "0" * 64, "calls": [], "constants": [], "reused": [None]}
HEADS: list[Any] = [
    b"", b"{", b"\xff\xfe", b"null", b"[]", b"7", b"{}", b'"object"',
    *({k: v for k, v in GOOD.items() if k != left_out} for left_out in GOOD),
    *(GOOD | {"object": o} for o in (None, 7, "../../etc/passwd", "0" * 63, "z" * 64)),
    *(GOOD | {"calls": c} for c in (None, 7, [7], ["system"], ["phix_nothing"], "phix")),
    *(GOOD | {"constants": c} for c in (
        None, 7, [99], [["float32", [3], 12]], [["nonsense", [1], 4]], [[1, 2]], ["abc"],
        [["float32", [-5], 4]],
    )),
    *(GOOD | {"reused": r} for r in (None, 7, [], [99], ["a"], [None, None])),
]  # fmt: skip


@pytest.mark.parametrize("head", HEADS, ids=repr)
def test_malformed_heads_count_as_missing(
    folder: Path, head: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = phix.make_graph(lambda x: x * 3 + 5)(1.0)
    key = stored.key(graph, (True,))
    assert key is not None
    text = head if isinstance(head, bytes) else repr(head).encode()
    disk_cache.save(key, text + b"\n")
    disk_cache.save("0" * 64, b"no machine code")
    assert head == GOOD or stored.recall(key, graph) is None
    if isinstance(head, bytes):
        assert phix.jit(lambda x: x * 3 + 5)(1.0).item() == 8.0


def test_clearing_deletes_what_is_on_disk_and_nothing_in_memory(folder: Path) -> None:
    f = phix.jit(lambda x: ops.exp(x) - 1.0)
    assert f(0.0).item() == 0.0
    before = phix.cache_info()
    assert before.folder == folder
    assert before.entries >= 2 and before.bytes > 1000 and before.misses > 0
    unfinished = folder / "one.phixcache-tmp"
    unfinished.write_bytes(b"phix-entry-3\n")
    phix.clear_cache()
    assert phix.cache_info().entries == phix.cache_info().bytes == 0
    assert not unfinished.exists()
    assert f(0.0).item() == 0.0


# -- programs ------------------------------------------------------------------------------------
def _mlp(x: Any, w: Any, v: Any) -> Any:
    return ops.sum(ops.log_softmax(ops.gelu(x @ w) @ v)[:, 0])


def _loop(x: Any) -> Any:
    def body(carry: Any, row: Any) -> Any:
        carry = ops.tanh(carry + row)
        return carry, phix.cond(carry[0] > 0.5, lambda c: c * 2, lambda c: -c, carry)

    return phix.scan(body, ops.full([3], 0.0), x)


TABLE = np.linspace(0, 1, 60, dtype=np.float32).reshape(20, 3)
SMALL = np.array([0.5, -1.5, 2.0], np.float32)


def _closed_over(x: Any) -> Any:
    """A large constant, a small one, and one inside a loop's graph."""
    rows = phix.map(lambda row: row * phix.to_tensor(SMALL), x)
    return rows @ phix.to_tensor(TABLE).T + ops.sum(phix.to_tensor(SMALL))


A = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
W = np.random.default_rng(1).normal(size=(3, 5)).astype(np.float32)
V = np.random.default_rng(2).normal(size=(5, 2)).astype(np.float32)
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "gradient": (phix.value_and_grad(_mlp, (1, 2)), (A, W, V)),
    "loop": (_loop, (A,)),
    "constants": (_closed_over, (A,)),
    "inputs as outputs": (lambda x, y: (y, x, ops.full([2], 1.0), y), (A, W)),
    "random": (lambda x: phix.random.normal(phix.random.key(3), [4, 3]) + x, (A,)),
    "values that rules made": (
        lambda x: (ops.tril_indices(3, 3, 0, "int64"), ops.triu_indices(4, 2, 0, "int32"), -x),
        (A,),
    ),
    "narrow dtypes": (lambda x: ops.cast(ops.cast(x, "bfloat16") * 2, "float16") > 0.5, (A,)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_found_on_disk_does_the_same(folder: Path, lowered: list[Any], name: str) -> None:
    function, args = PROGRAMS[name]
    first = phix.tree.leaves(phix.jit(function)(*args))
    made = len(lowered)
    assert made >= 1
    forget()
    again = phix.tree.leaves(phix.jit(function)(*args))
    assert len(lowered) == made, "the program was lowered though it is on disk"
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)


def test_one_entry_serves_every_size(folder: Path, lowered: list[Any]) -> None:
    spec = [phix.spec(["n", 3]), phix.spec([3, "m"])]

    def run(n: int) -> np.ndarray:
        forget()
        f = phix.jit(lambda x, w: ops.concat([x @ w, x @ w], 0), input_spec=spec)
        return f(A[:n], W).numpy()

    for n in (4, 2, 1):
        np.testing.assert_allclose(run(n), np.tile(A[:n] @ W, (2, 1)), rtol=1e-5)
    assert len(lowered) == 1


def test_the_text_of_a_program_from_disk_is_made_when_asked_for(
    folder: Path, lowered: list[Any]
) -> None:
    def made() -> Any:  # on one line, which the text names
        return phix.jit(ops.tanh).lower(A)

    first = made()
    first.compile()
    text = str(first)
    forget()
    lowered.clear()
    second = made()
    run = second.compile()
    assert not lowered
    np.testing.assert_allclose(run(A), np.tanh(A), rtol=1e-6)
    assert str(second) == text and lowered


def test_programs_with_python_steps_are_made_anew(folder: Path, lowered: list[Any]) -> None:
    def double(x: np.ndarray) -> np.ndarray:
        return 2 * x

    for _ in range(2):
        f = phix.jit(lambda x: phix.pure_callback(double, phix.spec([4, 3]), x) + 1)
        np.testing.assert_array_equal(f(A), 2 * A + 1)
        forget()
    assert len(lowered) == 2


def test_eager_programs_are_found_too(folder: Path, lowered: list[Any]) -> None:
    from phix.interpreters.eager import EAGER

    results = []
    for _ in range(2):
        EAGER.plans.clear()
        EAGER.programs.clear()
        forget()
        results.append(ops.logsumexp(A, [1]).numpy())
    assert len(lowered) == 1
    np.testing.assert_array_equal(*results)


def test_an_entry_names_the_constants_of_its_graph_and_does_not_hold_them(folder: Path) -> None:
    held = phix.to_tensor(np.arange(5000.0))
    f, one = phix.jit(lambda x: x + held), np.float32(1.0)
    assert f(one).numpy()[-1] == 5000.0
    program = key_of(lambda x: x + held, one)
    assert program is not None
    entry = disk_cache.load(program)
    assert entry is not None and len(entry) < 1000 < held.nbytes
    assert ast.literal_eval(entry.partition(b"\n")[0].decode())["constants"] == [0]


@pytest.mark.parametrize("content", [b"", b"phix-entry-3\n", b"\0" * 500])
def test_damaged_entries_are_ignored_and_written_again(folder: Path, content: bytes) -> None:
    f = phix.jit(lambda x: x * 5 + 1)
    assert f(1.0).item() == 6.0
    good = {path: path.read_bytes() for path in folder.glob("*.phixcache")}
    assert len(good) == 2  # the program, and its machine code
    for path in good:
        path.write_bytes(content)
    forget()
    f.cache_clear()
    assert f(1.0).item() == 6.0
    assert {path: path.read_bytes() for path in folder.glob("*.phixcache")} == good


def test_an_entry_whose_machine_code_is_gone_is_made_anew(folder: Path, lowered: list[Any]) -> None:
    f = phix.jit(lambda x: x * 6)
    assert f(1.0).item() == 6.0
    for path in folder.glob("*.phixcache"):
        body = disk_cache.load(path.stem)
        if body is not None and body.startswith(b"{"):
            (
                folder
                / f"{ast.literal_eval(body.partition(bytes([10]))[0].decode())['object']}.phixcache"
            ).unlink()
    forget()
    f.cache_clear()
    assert f(1.0).item() == 6.0 and len(lowered) == 2


# -- what decides whether an entry is found --------------------------------------------------------
def key_of(function: Callable[..., Any], *args: Any) -> str | None:
    return stored.key(phix.make_graph(function)(*args), (True,) * len(args))


def test_another_source_of_phix_another_cpu_or_other_rewrites_miss(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = key_of(ops.tanh, A)
    assert own is not None and own == key_of(ops.tanh, A)
    with monkeypatch.context() as patched:
        patched.setattr(disk_cache, "source_digest", lambda: "another version")
        assert key_of(ops.tanh, A) not in (None, own)
    with monkeypatch.context() as patched:
        patched.setattr(jit, "identity", lambda: "another CPU")
        assert key_of(ops.tanh, A) not in (None, own)
    with rewrites.without(frozenset({"fuse"})):
        assert key_of(ops.tanh, A) not in (None, own)
    assert key_of(ops.tanh, A) == own


def _module_returning(number: int, width: int) -> str:
    made.append(number)
    return f"define i64 @number_{number}_{width}() {{\n  ret i64 {number}\n}}\n"


made: list[int] = []  # the numbers that a module was made for


def test_text_is_made_where_no_disk_has_its_code(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code is found by what its text follows from: phix's source, the maker, and its arguments."""

    def value(number: int, width: int = 1) -> int:
        text, name = partial(_module_returning, number, width), f"number_{number}_{width}"
        (address,) = jit.addresses(text, (name,))
        return ctypes.CFUNCTYPE(ctypes.c_int64)(address)()

    made.clear()
    assert [value(7), value(7), value(8), value(7, 2)] == [7, 7, 8, 7]
    assert made == [7, 8, 7]
    monkeypatch.setattr(disk_cache, "source_digest", lambda: "another version")
    assert value(7) == 7
    assert made == [7, 8, 7, 7]
    monkeypatch.setattr(disk_cache, "source_digest", lambda: None)  # the text itself decides
    assert [value(7), value(7)] == [7, 7]
    assert made == [7, 8, 7, 7, 7, 7, 7]


def test_code_begun_early_is_what_is_asked_for_later(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def value(text: Any, width: int) -> int:
        (address,) = jit.addresses(text, (f"number_5_{width}",))
        return ctypes.CFUNCTYPE(ctypes.c_int64)(address)()

    made.clear()
    text = partial(_module_returning, 5, 3)
    jit.begin(text)
    jit.begin(text)
    assert made == [5] and len(jit._begun) == 1
    assert value(text, 3) == 5
    assert made == [5] and not jit._begun and len(kept(folder)) == 1
    jit.begin(text)  # on disk already
    assert made == [5] and not jit._begun
    monkeypatch.setattr(compiler.Emission, "run", lambda self: None)  # it went wrong
    other = partial(_module_returning, 5, 4)
    jit.begin(other)
    assert value(other, 4) == 5
    assert made == [5, 5]


def test_source_newer_than_the_process_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    digest = disk_cache.source_digest.__wrapped__
    assert digest() == disk_cache.source_digest()
    monkeypatch.setattr(disk_cache, "_IMPORTED", 0)
    assert digest() is None
    monkeypatch.setattr(disk_cache, "_PACKAGE", "/nowhere")
    assert digest() is None


ROOMS = ("core", "interpreters", "kernels/lowering", "numba", "passes", "primitives", "table")


@pytest.mark.parametrize("room", ROOMS)
def test_every_file_that_makes_programs_is_in_the_digest(
    room: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_cache, "_PACKAGE", str(tmp_path))
    monkeypatch.setattr(disk_cache, "_IMPORTED", time.time_ns() + 10**15)
    (tmp_path / room).mkdir(parents=True)
    (tmp_path / "ops.py").write_text("")
    digest = disk_cache.source_digest.__wrapped__
    found = [digest()]
    for name, text in (("rules.py", ""), ("rules.py", "x = 1"), ("others.py", "")):
        (tmp_path / room / name).write_text(text)
        found.append(digest())
    (tmp_path / "ops.py").write_text("x = 1")
    found.append(digest())
    assert None not in found and len(set(found)) == len(found)


def test_graphs_that_differ_have_keys_that_differ() -> None:
    n, m = phix.spec(["n", 3]), phix.spec(["m", 3])
    graphs = {
        "add": phix.make_graph(lambda x: x + 1.0)(A),
        "add an int": phix.make_graph(lambda x: ops.add(ops.cast(x, "int32"), 1))(A),
        "add True": phix.make_graph(lambda x: ops.logical_or(x > 0, True))(A),
        "negative zero": phix.make_graph(lambda x: x + -0.0)(A),
        "zero": phix.make_graph(lambda x: x + 0.0)(A),
        "other dtype": phix.make_graph(lambda x: x + 1.0)(A.astype("d")),
        "other shape": phix.make_graph(lambda x: x + 1.0)(A[:2]),
        "unknown size": phix.make_graph(lambda x: x + 1.0)(n),
        "two unknown sizes": phix.make_graph(lambda x, y: (x + 1.0, y))(n, m),
        "one size twice": phix.make_graph(lambda x, y: (x + 1.0, y))(n, n),
        "axis": phix.make_graph(lambda x: ops.sum(x, [0]))(A),
        "other axis": phix.make_graph(lambda x: ops.sum(x, [1]))(A),
        "constant": phix.make_graph(lambda x: x + phix.to_tensor(SMALL))(A),
        "other constant": phix.make_graph(lambda x: x + phix.to_tensor(SMALL + 1))(A),
        "order": phix.make_graph(lambda x, y: x - y)(A, A),
        "other order": phix.make_graph(lambda x, y: y - x)(A, A),
        "cond": phix.make_graph(lambda x: phix.cond(x[0, 0] > 0, ops.exp, ops.tanh, x))(A),
        "other cond": phix.make_graph(lambda x: phix.cond(x[0, 0] > 0, ops.tanh, ops.exp, x))(A),
    }
    prints = {name: fingerprint.fingerprint(graph) for name, graph in graphs.items()}
    assert None not in prints.values()
    assert len(set(prints.values())) == len(prints)


def test_names_and_lines_do_not_count() -> None:
    def one(x: Any) -> Any:
        return ops.exp(x) + ops.exp(x)

    def other(argument: Any) -> Any:
        value = ops.exp(argument)
        again = ops.exp(argument)
        return value + again

    a, b = (phix.make_graph(f)(phix.spec([-1, 3])) for f in (one, other))
    assert fingerprint.fingerprint(a) == fingerprint.fingerprint(b) is not None


def test_what_depends_on_other_code_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = phix.make_graph(lambda x: phix.pure_callback(np.sin, phix.spec([4, 3]), x))(A)
    assert fingerprint.fingerprint(called) is None
    exp = phix.make_graph(ops.exp)(A)
    with monkeypatch.context() as patched:
        patched.setattr(rules, "BUILT_IN", rules.BUILT_IN - {"exp"})  # as an op of the user's is
        assert fingerprint.fingerprint(exp) is None
    with monkeypatch.context() as patched:
        patched.setattr(rules, "EXTENDED", {"tanh"})  # a rule of the user's for an op of phix
        assert fingerprint.fingerprint(exp) is None
    assert fingerprint.fingerprint(exp) is not None
    codes = [SimpleNamespace(is_lasting=is_lasting, digest="a") for is_lasting in (False, True)]
    for native, is_kept in ((None, False), (codes[0], False), (codes[1], True)):
        with monkeypatch.context() as patched:
            kernel = SimpleNamespace(native=native)
            patched.setattr(fingerprint, "chosen_function", lambda _, kernel=kernel: kernel)
            assert (fingerprint.fingerprint(exp) is not None) == is_kept
    (equation,) = exp.equations
    namesake = dataclasses.replace(equation, op=copy.copy(equation.op))  # loaded in its place
    other = dataclasses.replace(exp, equations=(namesake,))
    assert fingerprint.fingerprint(other) is None


# -- processes -----------------------------------------------------------------------------------
_SCRIPT = """
import sys
import numpy as np
import phix
from phix import ops

def loss(w, x):
    return ops.sum(ops.tanh(x @ w) ** 2)

w = np.linspace(-1, 1, 12, dtype="f").reshape(4, 3)
x = np.linspace(0, 2, 20, dtype="f").reshape(5, 4)
grad = phix.jit(phix.grad(loss))(w, x)
compilers = ("phix.kernels.lowering.lower", "llvmlite.binding")
others = ("scipy.linalg", "hashlib", "json", "fractions")
loaded = [m for m in (*compilers, *others) if m in sys.modules]
t = np.tanh(x @ w)
np.testing.assert_allclose(grad, x.T @ (2 * t * (1 - t * t)), rtol=1e-4)
info = phix.cache_info()
print(info.misses, *loaded)
"""


COMPILERS = ["phix.kernels.lowering.lower", "llvmlite.binding"]


def _process(folder: Path) -> subprocess.Popen[str]:
    environment = os.environ | {"PHIX_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT)}
    environment.pop("PHIX_CACHE", None)
    command = [sys.executable, "-c", _SCRIPT]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, env=environment)


def test_a_new_process_finds_programs_and_imports_no_compiler(tmp_path: Path) -> None:
    misses, *loaded = _process(tmp_path).communicate()[0].split()
    # OpenSSL may have made the digest of all sources, which is kept
    assert int(misses) > 0 and [name for name in loaded if name != "hashlib"] == COMPILERS
    assert _process(tmp_path).communicate()[0].split() == ["0"]


def test_processes_share_a_folder(tmp_path: Path) -> None:
    running = [_process(tmp_path) for _ in range(3)]
    assert [p.wait() for p in running] == [0, 0, 0]
    for process in running:
        process.communicate()
    assert not list(tmp_path.glob("*.phixcache-tmp"))
    assert _process(tmp_path).communicate()[0].split() == ["0"]
