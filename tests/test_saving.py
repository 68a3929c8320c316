"""``phix.save`` and ``phix.load``: every leaf to the bit, every structure, nothing else."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import signal
import stat
import subprocess
import sys
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import safetensors.numpy as numpy_files

import phix
from phix.core import dtypes as dt
from phix.core.errors import (
    ArgumentError,
    DTypeError,
    FileError,
    FileFormatError,
    PhixError,
    ShapeError,
)


class Pair(NamedTuple):
    left: Any
    right: Any


@phix.tree.register_dataclass(meta_fields=("name", "rate", "activation"))
@dataclasses.dataclass
class Layer:
    weight: Any
    bias: Any
    name: Any
    rate: Any = 0.5
    activation: Any = None


class Box:
    def __init__(self, content: Any, label: str) -> None:
        self.content, self.label = content, label


phix.tree.register(Box, lambda b: ((b.content,), b.label), lambda label, c: Box(c[0], label))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tree.safetensors"


def again(file: Path, tree: Any, **settings: Any) -> Any:
    phix.save(file, tree)
    return phix.load(file, **settings)


def bits(x: Any) -> bytes:
    return np.asarray(x.numpy()).tobytes()


@pytest.mark.parametrize("dtype", sorted(dt.BY_NAME))
def test_every_dtype_keeps_its_bits(file: Path, dtype: str) -> None:
    rng = np.random.default_rng(0)
    shapes = [(), (0, 3), (2, 3), (1,)]
    kind = np.dtype(dt.BY_NAME[dtype])
    arrays = [rng.integers(0, 256, (*s, kind.itemsize), np.uint8) for s in shapes]
    if dtype == "bool":
        arrays = [a & 1 for a in arrays]
    tree = [phix.to_tensor(a.copy().view(kind).reshape(s)) for a, s in zip(arrays, shapes)]
    read = again(file, tree)
    assert [(x.dtype, x.shape, bits(x)) for x in read] == [
        (x.dtype, x.shape, bits(x)) for x in tree
    ]
    assert not [p for p in os.listdir(file.parent) if p.endswith(".tmp")]


def test_structure_and_plain_values_are_kept(file: Path) -> None:
    ordered = OrderedDict([("z", 1), ("a", 2)])
    tree = {
        "list": [1, 2.5, True, None, "text", "\ud800é", 2**80, -(2**60), 1e-320, -0.0, 1 - 2j],
        "tuple": ((), [], {}, (1,)),
        3: {None: 1, (1, "a"): 2, 1.5: 3, False: 4},
        "ordered": ordered,
        "special": [math.inf, -math.inf],
        "b": phix.ones([2]).T,
        "array": np.arange(6, dtype=">i4").reshape(2, 3).T,
        "scalar": np.float64(1.5),
    }
    read = again(file, tree)
    assert list(read) == list(tree) and type(read["ordered"]) is OrderedDict
    for name in ("list", "tuple", 3, "ordered", "special"):
        assert read[name] == tree[name]
        assert list(map(type, read[name])) == list(map(type, tree[name]))
    assert math.copysign(1, read["list"][9]) == -1
    assert math.isnan(again(file, math.nan)) and again(file, None) is None
    assert read["array"].tolist() == [[0, 3], [1, 4], [2, 5]] and read["array"].dtype == "int32"
    assert read["scalar"].dtype == "float64" and read["scalar"].shape == ()


def test_classes_are_found_by_registry_list_or_template(file: Path) -> None:
    tree = [Layer(phix.ones([2]), None, ("a", 1)), Box({"x": phix.zeros([1])}, "l")]
    layer, box = again(file, tree)
    assert isinstance(layer, Layer) and (layer.name, layer.rate) == (("a", 1), 0.5)
    assert isinstance(box, Box) and box.label == "l" and box.content["x"].tolist() == [0.0]
    pair = Pair(phix.ones([1]), {"n": 2})
    with pytest.raises(ArgumentError, match=r"Pair at the root.*no such class.*classes="):
        again(file, pair)
    assert phix.load(file, classes=[Pair]).right == {"n": 2}
    assert isinstance(phix.load(file, like=Pair(phix.spec([1]), {"n": 0})), Pair)


def test_states_of_optimizers_are_known_once_phix_optim_is(file: Path) -> None:
    params = {"w": phix.ones([2])}
    state = phix.optim.adam(1e-3).init(params)
    read = again(file, (params, state))
    assert type(read[1]) is type(state) and type(read[1][0]) is type(state[0])
    text = file.read_bytes().replace(b"optim.moments.", b"optim.unknown.")
    file.write_bytes(text)
    with pytest.raises(ArgumentError, match=r"import phix\.optim\.unknown .*or pass"):
        phix.load(file)


def test_static_parts_that_no_file_holds_come_from_like(file: Path) -> None:
    layer = Layer(phix.ones([2]), None, "a", activation=phix.ops.tanh)
    with pytest.raises(ArgumentError, match="function, say"):
        again(file, layer)
    read = phix.load(file, like=layer)
    assert read.activation is phix.ops.tanh and read.weight.tolist() == [1.0, 1.0]
    phix.save(file, Layer(phix.ones([2]), None, "a"))
    with pytest.raises(ArgumentError, match="made with"):
        phix.load(file, like=Layer(phix.ones([2]), None, "b"))


def test_no_class_is_imported_by_the_name_in_a_file(file: Path) -> None:
    text = json.dumps({"node": "os.system", "children": [["0", "true"]], "static": None})
    numpy_files.save_file({}, str(file), metadata={"phix.tree": text})
    with pytest.raises(ArgumentError, match=r"os\.system"):
        phix.load(file)


TREE = {"layer": [{"w": np.ones((2, 3), np.float32)}, 1.5], "none": None}
DIFFERENT: list[tuple[Any, type[Exception], str]] = [
    ({"layer": [{"w": phix.spec([2, 4])}, 1.5], "none": None}, ShapeError, r"'layer.0.w'.*\[2, 4"),
    ({"layer": [{"w": phix.spec([2])}, 1.5], "none": None}, ShapeError, r"layer\.0\.w"),
    ({"layer": [{"w": phix.spec([2, 3], "float64")}, 1.5], "none": None}, DTypeError, "layer.0.w"),
    ({"layer": [{"v": phix.spec([2, 3])}, 1.5], "none": None}, ArgumentError, r"layer\.0.*\[v\]"),
    ({"layer": ({"w": phix.spec([2, 3])}, 1.5), "none": None}, ArgumentError, "'layer'"),
    ({"layer": [{"w": phix.spec([2, 3])}], "none": None}, ArgumentError, r"alone \[1\]"),
    ({"layer": [{"w": phix.spec([2, 3])}, 1], "none": None}, ArgumentError, r"'layer\.1'"),
    ({"layer": [{"w": 2.0}, 1.5], "none": None}, ArgumentError, r"layer\.0\.w"),
    ({"layer": [{"w": phix.spec([2, 3])}, 1.5], "none": 1}, ArgumentError, "'none'"),
    ({"layer": [{"w": phix.spec([2, 3])}, 1.5]}, ArgumentError, r"alone \[none\]"),
    ([1], ArgumentError, "the root"),
]


def test_like_is_checked_by_path(file: Path) -> None:
    phix.save(file, TREE)
    read = phix.load(file, like={"layer": [{"w": phix.spec(["n", 3])}, 0.0], "none": None})
    assert read["layer"][1] == 1.5 and read["layer"][0]["w"].shape == (2, 3)
    for like, error, text in DIFFERENT:
        with pytest.raises(error, match=text):
            phix.load(file, like=like)


def test_what_was_saved_is_a_template_of_itself(file: Path) -> None:
    """Also where its arrays have bytes in the order of another machine."""
    tree = {"a": np.array([1.5, -2.0], ">f4"), "b": np.array(3, ">c16"), "c": phix.ones([1])}
    read = again(file, tree, like=tree)
    assert read["a"].dtype == "float32" and read["b"].dtype == "complex128"
    np.testing.assert_array_equal(read["a"], tree["a"])
    np.testing.assert_array_equal(read["b"], tree["b"])
    with pytest.raises(DTypeError, match="like has float64, the file float32"):
        phix.load(file, like={**tree, "a": np.zeros(2, ">f8")})


def test_a_file_too_deep_to_read_says_how_it_is_read(file: Path) -> None:
    tree: Any = 1
    for _ in range(400):
        tree = [tree]
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(5000)
        phix.save(file, tree)
        sys.setrecursionlimit(400)
        with pytest.raises(FileFormatError, match=r"sys\.setrecursionlimit\(4000\)"):
            phix.load(file)
        sys.setrecursionlimit(5000)
        assert phix.load(file, like=tree) == tree
    finally:
        sys.setrecursionlimit(limit)


def test_other_readers_find_tensors_by_path(file: Path) -> None:
    phix.save(file, {**TREE, "h": phix.ones([2], "bfloat16"), "c": np.ones(2, complex), "i": 3})
    read = numpy_files.load_file(file)
    assert {n: (str(a.dtype), a.shape) for n, a in read.items()} == {
        "layer.0.w": ("float32", (2, 3)), "h": ("bfloat16", (2,)), "c": ("float64", (2, 2)),
    }  # fmt: skip
    phix.save(file, {"a.b": phix.ones([1]), "a": {"b": phix.zeros([1])}, "__metadata__": 1.0})
    assert phix.load(file)["a"]["b"].tolist() == [0.0]
    assert set(numpy_files.load_file(file)) == {"a.b", "a.b#2"}


def test_files_of_other_makers_are_read(file: Path) -> None:
    import ml_dtypes

    arrays = {
        "layer.0.w": np.ones((2, 3), np.float32),
        "layer.0.h": np.ones((), ml_dtypes.bfloat16),
    }
    numpy_files.save_file(arrays, str(file), metadata={"format": "np"})
    read = phix.load(file)
    assert set(read) == set(arrays) and read["layer.0.h"].dtype == "bfloat16"
    like = {"layer": [{"w": phix.spec([2, 3]), "h": phix.spec([], "bfloat16")}], "step": 7}
    read = phix.load(file, like=like)
    assert read["layer"][0]["w"].shape == (2, 3) and read["step"] == 7
    with pytest.raises(ArgumentError, match=r"file alone \[layer\.0\.h\]"):
        phix.load(file, like={"layer": [{"w": phix.spec([2, 3])}]})
    with pytest.raises(ArgumentError, match=r"'layer\.0\.v'"):
        phix.load(file, like={"layer": [{"v": phix.spec([2, 3])}]})
    numpy_files.save_file({"a": np.ones(2, ml_dtypes.float8_e4m3fnuz)}, str(file))
    with pytest.raises(DTypeError, match=r"'a'.*which phix has not"):
        phix.load(file)


def test_torn_and_foreign_files_are_refused(file: Path) -> None:
    phix.save(file, TREE)
    whole = file.read_bytes()
    for cut in (0, 4, 40, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:cut])
        with pytest.raises(FileFormatError, match="torn"):
            phix.load(file)
    head = b'{"a":{"dtype":"F32","shape":[%s1],"data_offsets":[0,4]}}' % (b"1," * 70)
    file.write_bytes(len(head).to_bytes(8, "little") + head + bytes(4))
    with pytest.raises(FileFormatError, match="71"):  # axes; NumPy has 64
        phix.load(file)
    for text in ("{", "[]", '{"list": 3}', '{"tensor": "a"}', '{"what": 1}', '{"int": "z"}', "{}",
                 '{"dict": [[1]]}', '{"node": "tests"}', '{"float": "0x1p9999"}',
                 "[" * 100000):  # fmt: skip
        numpy_files.save_file({}, str(file), metadata={"phix.tree": text})
        with pytest.raises(FileFormatError):
            phix.load(file)


def test_bad_paths_and_leaves_are_refused(file: Path, tmp_path: Path) -> None:
    for path in (None, 3, b"a", "", "a\0b", "a\ud800"):
        with pytest.raises(ArgumentError, match=r"path|name"):
            phix.save(path, 1)
    with pytest.raises(FileError, match="No such file"):
        phix.load(file)
    with pytest.raises(FileError, match="No such file"):
        phix.save(tmp_path / "none" / "a", 1)
    for call in (lambda: phix.save(tmp_path, 1), lambda: phix.load(tmp_path)):
        with pytest.raises(FileError, match="folder") as caught:
            call()
        assert str(caught.value).count(str(tmp_path)) == 1
    endless: list[Any] = []
    endless.append(endless)
    for tree in (object(), {"a": {1, 2}}, [b"x"], {frozenset(): 1}, endless, phix.spec([2])):
        with pytest.raises(ArgumentError):
            phix.save(file, tree)
    with pytest.raises(PhixError):
        phix.jit(lambda x: phix.save(file, x))(phix.ones([2]))
    assert os.listdir(tmp_path) == []  # nothing was begun


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes have names on this system")
def test_what_is_no_file_is_neither_replaced_nor_waited_for(file: Path) -> None:
    os.mkfifo(file)
    with pytest.raises(FileError, match="pipe"):
        phix.save(file, {"a": phix.ones([2])})
    with pytest.raises(FileError, match="pipe"):
        phix.load(file)
    assert stat.S_ISFIFO(os.stat(file).st_mode) and os.listdir(file.parent) == [file.name]


def test_a_failed_save_leaves_the_old_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    phix.save(file, {"a": 1})

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match="No space"):
        phix.save(file, {"a": 2})
    assert phix.load(file) == {"a": 1} and os.listdir(file.parent) == [file.name]


def test_a_name_may_be_as_long_as_the_system_lets_it(tmp_path: Path) -> None:
    for name in ("n" * 255, "\u00e9" * 127):
        phix.save(tmp_path / name, 3)
        assert phix.load(tmp_path / name) == 3
    assert len(os.listdir(tmp_path)) == 2


def test_links_and_rights_stay(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "latest"
    phix.save(file, 1)
    file.chmod(0o640)
    link.symlink_to(file)
    phix.save(link, 2)
    assert link.is_symlink() and phix.load(file) == 2 and file.stat().st_mode & 0o777 == 0o640


def test_place_says_where_tensors_live(file: Path) -> None:
    assert again(file, [phix.ones([2])], place="cpu")[0].place == phix.Place("cpu")
    with pytest.raises(PhixError):
        phix.load(file, place="nowhere")


WRITER = """
import sys, numpy as np, phix
print("ready", flush=True)
n = 0
while True:
    n += 1
    phix.save(sys.argv[1], {"n": n, "a": [np.full(200_000, n, np.int32) for _ in range(5)]})
"""


def test_killed_in_the_middle_of_a_save_the_file_is_whole(file: Path) -> None:
    phix.save(file, {"n": 0, "a": []})
    for delay in (0.02, 0.05, 0.11):
        command = [sys.executable, "-c", WRITER, str(file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
        read = phix.load(file)
        assert all((a.numpy() == read["n"]).all() for a in read["a"])
    phix.save(file, {"n": 0})
    assert os.listdir(file.parent) == [file.name]


HELD = """
import os, sys, phix, safetensors.numpy
def write(tensors, name, metadata):
    open(os.path.join(os.path.dirname(name), ".tmp123456"), "w").close()
    open(name, "w").close()
    print("writing", flush=True)
    sys.stdin.read()
safetensors.numpy.save_file = write
phix.save(sys.argv[1], 1)
"""


def test_what_a_killed_save_began_the_next_one_removes(file: Path) -> None:
    """And not what another process is writing."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", HELD, str(file)], **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "writing\n"
        (begun,) = os.listdir(file.parent)
        assert begun.startswith(f".{file.name}.") and begun.endswith(".tmp")
        phix.save(file, 2)
        assert set(os.listdir(file.parent)) == {begun, file.name}
        process.send_signal(signal.SIGKILL)
    phix.save(file.with_name("another"), 3)
    assert begun in os.listdir(file.parent)
    phix.save(file, 4)
    assert set(os.listdir(file.parent)) == {"another", file.name} and phix.load(file) == 4
