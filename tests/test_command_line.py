"""``python -m phix``."""

from __future__ import annotations

import numpy as np

import phix
from phix.__main__ import main


def lines(capsys, *arguments: str) -> list[str]:
    assert main(arguments) == 0
    return capsys.readouterr().out.splitlines()


def test_info(capsys):
    printed = lines(capsys, "info")
    found = {line.split()[0]: line for line in printed}
    assert np.__version__ in found["numpy"]
    assert any(line.split()[:2] == ["place", "cpu:"] for line in printed)
    assert {"python", "phix", "threads", "cache"} <= set(found)


def test_table(capsys):
    rows = {line.split()[0]: line.split()[1:] for line in lines(capsys, "ops")}
    assert rows["softmax"] == ["composite"]
    assert rows["matmul"][0] == "primitive" and {"CPU", "BLAS"} <= set(rows["matmul"][1:])
    assert set(rows) == set(phix.core.rules.OPS)


def test_one_op(capsys):
    text = "\n".join(lines(capsys, "ops", "tanh"))
    assert text.startswith("tanh(Tensor x) -> Tensor(out)\nHyperbolic tangent")
    assert "backward    tanh_grad" in text and "yaml" in text and "float64" in text


def test_missing(capsys):
    assert lines(capsys, "ops", "--missing", "cpu") == ["nothing is missing"]
    assert "cpu: nothing is missing" in lines(capsys, "ops", "--missing")
    assert "tanh: float16 bfloat16 float32" in "\n".join(lines(capsys, "ops", "--missing", "BLAS"))


def test_mistakes(capsys):
    assert main(["ops", "tanhh"]) == 1
    assert "did you mean tanh" in capsys.readouterr().err
    assert main(["ops", "--missing", "tpu"]) == 1
    assert "no backend 'TPU'; there are CPU" in capsys.readouterr().err
