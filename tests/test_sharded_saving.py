"""phix.parallel.save and load: parts of tensors in a folder, and saves that never end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import namedtuple

import numpy as np
import pytest

import phix
from phix.core.errors import ArgumentError, FileError, FileFormatError, ShapeError
from phix.files import saving as files
from phix.parallel import load, mesh, save
from phix.parallel.exchange import Group
from phix.parallel.meshes import Mesh
from tests.test_parallel import ROOT, launcher

Pair = namedtuple("Pair", ["left", "right"])
ONE = mesh({"all": 1})


class Board(Group):
    """The ranks along an axis as threads, which gather what they have on a board."""

    def __init__(self, name, size, index, boards, key):
        super().__init__(name, size, index, None)
        self.row, self.barrier = boards.setdefault(key, ([None] * size, threading.Barrier(size)))

    def run(self, kind, detail, x, out):
        assert kind == "gather" and detail == (0,)
        self.row[self.index] = x
        self.barrier.wait(20)
        out[...] = np.stack(self.row)
        self.barrier.wait(20)


def meshes(**axes):
    """The mesh as each of its ranks has it."""
    boards = {}
    found = []
    for rank, place in enumerate(np.ndindex(*axes.values())):
        groups = {
            name: Board(name, size, place[k], boards, (name, *place[:k], *place[k + 1 :]))
            for k, (name, size) in enumerate(axes.items())
        }
        found.append(Mesh(axes, groups, rank))
    return found


def on_ranks(found, function):
    """What each rank's thread gives, or the error it raises."""
    outcomes = [None] * len(found)

    def run(k):
        try:
            outcomes[k] = function(found[k])
        except Exception as error:
            outcomes[k] = error

    threads = [threading.Thread(target=run, args=(k,)) for k in range(len(found))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def part(x, dims, on):
    """A rank's part, by NumPy."""
    for at, name in enumerate(dims):
        if name is not None:
            x = np.split(x, on.axes[name], at)[on.index[name]]
    return x


# -- round trips ---------------------------------------------------------------------------------
def test_one_process_writes_all_that_a_tree_may_hold(tmp_path):
    tree = {
        "layers": [(phix.ones([4, 2], "bfloat16"), None), Pair(np.arange(6) * 1j, "text")],
        "small": phix.ops.cast(phix.arange(4), "int4"),
        "step": 7, "rate": 0.1, "none": np.zeros((0, 3)),
    }  # fmt: skip
    on = mesh({"data": 2}, virtual=True)
    save(
        tmp_path / "s",
        tree,
        on,
        "data",
    )
    found = load(tmp_path / "s", ONE, None, classes=[Pair])
    assert found["step"] == 7 and found["rate"] == 0.1 and found["layers"][0][1] is None
    assert isinstance(found["layers"][1], Pair) and found["layers"][1].right == "text"
    for name in ("small", "none"):
        assert found[name].dtype == tree[name].dtype and found[name].shape == tuple(
            tree[name].shape
        )
    np.testing.assert_array_equal(found["layers"][1].left, np.arange(6) * 1j)
    assert found["layers"][0][0].dtype == phix.bfloat16


def test_another_mesh_reads_what_one_wrote(tmp_path, rng):
    whole = {
        "w": rng.normal(size=(8, 4)), "u": rng.normal(size=(4, 3)),
        "c": rng.normal(size=(4, 2)) + 1j, "b": rng.normal(size=5),
    }  # fmt: skip
    specs = {"w": ("data", "model"), "u": "model", "c": (None, "data"), "b": None}
    dims = {"w": ("data", "model"), "u": ("model",), "c": (None, "data"), "b": ()}
    made = meshes(data=2, model=2)
    ran = on_ranks(
        made,
        lambda on: save(tmp_path, {k: part(v, dims[k], on) for k, v in whole.items()}, on, specs),
    )
    assert ran == [None] * 4
    assert len(os.listdir(tmp_path)) == 5
    index = json.loads((tmp_path / "index.json").read_text())
    written = {k: len(v["parts"]) for k, v in index["tensors"].items()}
    assert written == {"w": 4, "u": 2, "c": 2, "b": 1}  # what several have, one of them writes
    for axes, other in (
        ({"data": 4}, {"w": ("data",), "u": ("data",), "c": (), "b": ()}),
        ({"x": 2, "y": 2}, {"w": ("y", "x"), "u": (), "c": ("x", "y"), "b": ()}),
        ({"model": 1}, {"w": ("model",), "u": (), "c": (), "b": ()}),
    ):
        for on in meshes(**axes):
            found = load(tmp_path, on, other)
            for name, x in whole.items():
                np.testing.assert_array_equal(found[name], part(x, other[name], on))
    virtual = load(tmp_path, mesh({"data": 2}, virtual=True), "data")
    np.testing.assert_array_equal(virtual["b"], whole["b"])


# -- what goes wrong -----------------------------------------------------------------------------
def test_a_rank_that_cannot_write_leaves_the_save_before(tmp_path, monkeypatch):
    made = meshes(data=2)
    tree = lambda version: {"w": np.full(3, version), "version": version}  # noqa: E731
    run = lambda version: on_ranks(made, lambda on: save(tmp_path, tree(version), on, "data"))  # noqa: E731
    with pytest.raises(ShapeError, match=r"the spec .* is of 1 dims, and the tensor is of"):
        save(tmp_path, [np.float32(1)], ONE, "all")
    assert run(1) == [None, None]
    write = files.write_tensors

    def failing(file, tensors, text=None):
        if file.endswith("-1.safetensors"):
            raise OSError(28, "No space left on device")
        write(file, tensors, text)

    monkeypatch.setattr(files, "write_tensors", failing)
    first, second = run(2)
    assert isinstance(first, FileError) and "rank 1 could not write" in str(first)
    assert isinstance(second, FileError) and "No space left on device" in str(second)
    assert load(tmp_path, ONE, None)["version"] == 1
    monkeypatch.undo()
    monkeypatch.setattr(os, "replace", lambda *names: 1 / 0)
    assert {type(e) for e in run(3)} <= {ZeroDivisionError, FileError}
    monkeypatch.undo()
    assert load(tmp_path, ONE, None)["version"] == 1
    assert run(4) == [None, None]
    assert load(tmp_path, ONE, None)["w"].tolist() == [4] * 6 and len(os.listdir(tmp_path)) == 3


OTHERS = {
    "a shape": (lambda r: {"w": np.ones((2 + r, 2))}, "data"),
    "a name": (lambda r: {"w": np.ones(2), **({"b": np.ones(2)} if r else {})}, "data"),
    "a dtype": (lambda r: {"w": np.ones(2, "float32" if r else "float64")}, "data"),
    "a spec": (lambda r: {"w": np.ones((2, 2))}, lambda r: (None, "data") if r else "data"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_ranks_with_other_tensors_save_nothing(tmp_path, name):
    tree, specs = OTHERS[name]
    made = meshes(data=2)
    same = {"w": np.arange(4.0)}
    assert on_ranks(made, lambda on: save(tmp_path, same, on, "data")) == [None, None]
    ran = on_ranks(
        made,
        lambda on: save(tmp_path, tree(on.rank), on, specs(on.rank) if callable(specs) else specs),
    )
    for error in ran:
        assert isinstance(error, ArgumentError) and "ranks 0 and 1" in str(error), error
    assert load(tmp_path, ONE, None)["w"].tolist() == [0, 1, 2, 3, 0, 1, 2, 3]


ALONE = {
    "a leaf": ({"w": object()}, "data", ArgumentError),
    "a spec": ({"w": np.ones(2)}, ("data", None), ShapeError),
    "an axis": ({"w": np.ones(2)}, "model", ArgumentError),
}


def test_what_one_rank_refuses_all_hear_of(tmp_path):
    made = meshes(data=2)
    plain = ({"w": np.ones(2)}, "data")
    for name, (*bad, kind) in ALONE.items():
        for rank in (0, 1):
            own = lambda on, rank=rank, bad=bad: bad if on.rank == rank else plain  # noqa: E731
            ran = on_ranks(made, lambda on, own=own: save(tmp_path, own(on)[0], on, own(on)[1]))
            assert isinstance(ran[rank], kind), (name, ran)
            assert isinstance(ran[1 - rank], FileError), (name, ran)
            assert f"rank {rank} could not write" in str(ran[1 - rank])
    assert os.listdir(tmp_path) == []


def test_ranks_with_folders_of_their_own_save_nothing(tmp_path):
    made = meshes(data=2)
    assert on_ranks(made, lambda on: save(tmp_path / "0", [np.zeros(2)], on, "data")) == [None] * 2
    ran = on_ranks(made, lambda on: save(tmp_path / f"{on.rank}", [np.ones(2)], on, "data"))
    assert all(isinstance(error, FileError) for error in ran), ran
    assert "the parts of ranks 1 are not there" in str(ran[0]) and "rank 0 could" in str(ran[1])
    assert load(tmp_path / "0", ONE, None)[0].tolist() == [0] * 4


def test_a_part_of_another_shape_is_refused(tmp_path):
    made = meshes(data=2)
    on_ranks(made, lambda on: save(tmp_path, {"w": np.ones((2, 2))}, on, "data"))
    second = json.loads((tmp_path / "index.json").read_text())["tensors"]["w"]["parts"][1]["file"]
    files.write_tensors(str(tmp_path / second), {"w": np.ones((3, 2))})
    with pytest.raises(FileFormatError, match=r"\[3, 2\], not \[2, 2\]"):
        load(tmp_path, ONE, None)


def test_folders_that_hold_no_save(tmp_path):
    with pytest.raises(FileError, match=r"holds no whole save: it has no index\.json"):
        load(tmp_path, ONE, None)
    with pytest.raises(ArgumentError, match="save: path must be"):
        save(3, {}, ONE, None)
    with pytest.raises(ArgumentError, match="save: found"):
        save(tmp_path, [object()], ONE, None)
    save(tmp_path, {"w": np.ones((4, 3))}, ONE, None)
    three = meshes(data=3)[1]
    with pytest.raises(
        ShapeError, match=r"'w' is of \[4, 3\], and 4 cannot be divided among the 3"
    ):
        load(tmp_path, three, "data")
    with pytest.raises(ShapeError, match="of 3 dims, and 'w' is of"):
        load(tmp_path, three, {"w": (None, None, "data")})
    assert load(tmp_path, three, {"w": (None, "data")})["w"].shape == (4, 1)
    index = tmp_path / "index.json"
    text = index.read_text()
    for damaged, error in (
        (text[:-9], FileFormatError), (text.replace('"format": 1', '"format": 2'), FileFormatError),
        (text.replace('"start": [0, 0]', '"start": [0, 9]'), None), ("[]", FileFormatError),
        (text.replace("[4, 3]", "[4, -3]"), FileFormatError),
        (text.replace("part-", "pert-"), FileError),
    ):  # fmt: skip
        index.write_text(damaged)
        with pytest.raises(error or FileFormatError):
            load(tmp_path, ONE, None)
    index.write_text(text)
    (name,) = (n for n in os.listdir(tmp_path) if n.startswith("part"))
    os.truncate(tmp_path / name, 90)
    with pytest.raises(FileFormatError, match="is torn"):
        load(tmp_path, ONE, None)


# -- kills ---------------------------------------------------------------------------------------
def killed(tmp_path, count, seed):
    command = [sys.executable, "-m", "tests.killed_saves", "forks", str(tmp_path / "s"), str(count)]
    ran = subprocess.run(
        [*command, str(seed)], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert f"{count} kills" in ran.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills need processes that fork")
def test_a_killed_save_leaves_a_whole_one(tmp_path, seed):
    killed(tmp_path, 40, seed)


@pytest.mark.parametrize("count", [1, pytest.param(50, marks=pytest.mark.prove)])
def test_killed_ranks_end_all_and_leave_a_whole_save(tmp_path, count, seed):
    command = [sys.executable, "-m", "tests.killed_saves", "launches", launcher()]
    ran = subprocess.run(
        [*command, str(tmp_path / "s"), str(count), str(seed)], cwd=ROOT, capture_output=True,
        text=True, timeout=1800, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-3000:]
    assert f"{count} kills" in ran.stdout
