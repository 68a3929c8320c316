"""Tensors of strings: the four ops of PHI's family, and what refuses them."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import phix
from phix.core.errors import ArgumentError, AttributeValueError, ShapeError

strings = phix.strings


def test_case_changes_as_asked() -> None:
    x = strings.to_string_tensor([["AbZ[", "ÄÖñ"], ["ßİ", "ΣΑΣ"]])
    assert strings.strings_lower(x).tolist() == [["abz[", "ÄÖñ"], ["ßİ", "ΣΑΣ"]]
    assert strings.strings_upper(x).tolist() == [["ABZ[", "ÄÖñ"], ["ßİ", "ΣΑΣ"]]
    # one letter for one: no letter grows into two, and a sigma at the end is one as others are
    assert strings.strings_lower(x, True).tolist() == [["abz[", "äöñ"], ["ßİ", "σασ"]]
    assert strings.strings_upper(x, use_utf8_encoding=True).tolist() == [
        ["ABZ[", "ÄÖÑ"],
        ["ßİ", "ΣΑΣ"],
    ]


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (2, 3)])
def test_empty_strings(shape: tuple[int, ...]) -> None:
    x = strings.strings_empty(list(shape))
    assert x.shape == shape and x.tolist() == np.full(shape, "", object).tolist()
    assert strings.strings_empty_like(strings.strings_upper(x)) == x
    assert x.size == np.prod(shape) and x.ndim == len(shape)


def test_what_it_is_made_of() -> None:
    x = strings.to_string_tensor(np.array(["a", "bc"]))
    assert repr(x) == "StringTensor(['a', 'bc'], shape=[2], place=cpu)"
    assert x[1].tolist() == "bc" and len(x) == 2 and x[::-1].tolist() == ["bc", "a"]
    assert strings.to_string_tensor("ab").shape == () and strings.to_string_tensor(x) is x
    with pytest.raises(ValueError, match="read-only"):
        x.numpy()[0] = "c"
    copy = pickle.loads(pickle.dumps(x))
    assert copy == x and hash(copy) == hash(x) and x != x[::-1] and x != 3
    mine: Any = np.array(["a", "b"], object)
    kept = strings.to_string_tensor(mine)
    mine[0] = "changed"
    assert kept.tolist() == ["a", "b"]


def test_it_is_a_static_argument() -> None:
    f = phix.jit(lambda names, x: x * len(names[0].tolist()), static_argnums=0)
    first, second = (strings.to_string_tensor(s) for s in (["ab", "c"], ["abc", "c"]))
    assert f(first, 2.0).item() == 4.0 and f(second, 2.0).item() == 6.0
    assert f(strings.to_string_tensor(["ab", "c"]), 5.0).item() == 10.0 and f.trace_count == 2


def test_what_refuses_it() -> None:
    x: Any = strings.to_string_tensor(["a"])
    for wrong in (
        lambda: phix.jit(lambda s: s)(x),
        lambda: phix.grad(lambda s: s)(x),
        lambda: phix.vmap(lambda s: s)(x),
        lambda: phix.ops.add(x, 1.0),
        lambda: phix.to_tensor(x),
        lambda: np.asarray(x),
        lambda: bool(x),
        lambda: len(x[0]),
        lambda: strings.strings_lower(["a"]),
        lambda: strings.to_string_tensor(["a", 3]),
        lambda: strings.to_string_tensor(np.array(["a", None], object)),
        lambda: strings.strings_lower(x, "yes"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ArgumentError):
            wrong()
    with pytest.raises(ShapeError, match="one length at each level"):
        strings.to_string_tensor([["a"], ["b", "c"]])
    with pytest.raises(AttributeValueError, match="ints from 0"):
        strings.strings_empty([-1])
    with pytest.raises(AttributeValueError, match="the CPU alone"):
        strings.strings_empty([1], "gpu")
