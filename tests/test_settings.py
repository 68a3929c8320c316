"""Bounds that tests and tuning change: checked, told apart in keys, and over after their block."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path

import numpy as np
import pytest

import phix
from phix import ops
from phix.core import settings
from phix.kernels.cpu import stored

X = np.linspace(0.0, 1.0, 1000)


def test_settings_hold_inside_their_block_and_thread() -> None:
    elsewhere: list[settings.Settings] = []
    with phix.debug.settings(least_shared_work=1) as outer:
        assert settings.current() is outer and outer.least_shared_work == 1
        with phix.debug.settings(shared_run=2) as inner:
            assert (inner.least_shared_work, inner.shared_run) == (1, 2)
        assert settings.current() is outer
        thread = threading.Thread(target=lambda: elsewhere.append(settings.current()))
        thread.start()
        thread.join()
    assert elsewhere == [settings.DEFAULTS]
    assert settings.current() is settings.DEFAULTS


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(phix.errors.ArgumentError, match="there is no 'grain'; there are asked_"):
        phix.debug.settings(grain=1).__enter__()
    for wrong in (-1, "many", True, None):
        with pytest.raises(phix.errors.ArgumentError, match="tiny_bytes must be a number from 0"):
            phix.debug.settings(tiny_bytes=wrong).__enter__()
    assert settings.current() is settings.DEFAULTS


def test_each_setting_says_its_unit_and_what_it_is() -> None:
    text = str(settings.DEFAULTS).splitlines()
    for field, line in zip(dataclasses.fields(settings.Settings), text):
        assert field.metadata["unit"] and len(field.metadata["what"]) > 5
        assert line.startswith(f"{field.name} = {field.default} {field.metadata['unit']}: ")


def test_each_setting_is_read() -> None:
    sources = [p.read_text("utf-8") for p in Path(phix.__file__).parent.rglob("*.py")]
    for field in dataclasses.fields(settings.Settings):
        assert any(f".{field.name}" in source for source in sources), field.name


@pytest.mark.parametrize("field", dataclasses.fields(settings.Settings), ids=lambda f: f.name)
def test_what_decides_programs_is_in_their_keys(
    field: dataclasses.Field[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHIX_CACHE_DIR", str(tmp_path))
    graph = phix.make_graph(lambda x: ops.sum(ops.exp(x)))(phix.spec([9]))
    plain = stored.key(graph, (True,))
    assert plain is not None
    with phix.debug.settings(**{field.name: 7}):
        assert (stored.key(graph, (True,)) != plain) == field.metadata["key"]
    with phix.debug.settings(**{field.name: field.default}):
        assert stored.key(graph, (True,)) == plain


def test_a_program_keeps_what_it_was_made_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its text is made when it is first asked for, and its key with it: also behind the block."""
    monkeypatch.setenv("PHIX_CACHE_DIR", str(tmp_path))

    def total(x: phix.Tensor) -> phix.Tensor:
        return ops.sum(ops.exp(x) * 0.1)

    with phix.debug.settings(least_shared_work=1, shared_run=1):
        inside = phix.jit(total).lower(X)
        program = inside._traced.compiled.program((True,), *inside._places)
    few = program.sections["loop ir"]
    with phix.debug.settings(least_shared_work=1, shared_run=1):
        assert phix.jit(total).lower(X).as_text("loop ir") == few
    assert phix.jit(total).lower(X).as_text("loop ir") != few
    np.testing.assert_allclose(phix.jit(total)(X), np.sum(np.exp(X) * 0.1), rtol=1e-12)
