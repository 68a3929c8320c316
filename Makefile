# Everything a developer runs. The environment is made on first use, in .venv; a stamp file per
# set of packages keeps later calls quick.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
WORKERS ?= 2
# Seconds of proofs: of `make prove`, and of `make test` beside all tests (.ci/run gives some)
PROVE_SECONDS ?= 1800
PROOFS ?= 0
# The first seed of what is proved, to prove it again: SEED=--prove-seed=N
SEED ?=
# More for `make bench`: BENCH=--readme writes the table of the README
BENCH   ?=

# Kernels under test are small: threads of BLAS would only fight the test workers.
# Processes that tests start find bytecode.
TEST_ENV := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

.DEFAULT_GOAL := help
.PHONY: help venv demo quick test prove check format lint types layers ops fresh bench test-gpu bench-gpu docs clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' Makefile | column -t -s '|'

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/demo.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[demo]"
	@touch $@

$(VENV)/dev.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	@touch $@

$(VENV)/bench.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[bench]"
	@touch $@

# CUDA 12 or 13: what the driver serves
CUDA ?= 12
$(VENV)/gpu.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[cuda$(CUDA)]"
	@touch $@

venv: $(VENV)/dev.stamp  ## make .venv with all that development needs

demo: $(VENV)/demo.stamp  ## derivatives, a trained classifier and a physics-informed beam
	$(BIN)/python examples/demo.py

quick: $(VENV)/dev.stamp  ## run a slice of every kind of test, in a minute or so
	$(TEST_ENV) $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --quick

test: $(VENV)/dev.stamp  ## run all tests
	$(TEST_ENV) $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup \
		--durations 20 --durations-min 5 --prove $(PROOFS) $(SEED)

prove: $(VENV)/dev.stamp  ## run slow proofs and property tests over a fresh seed for PROVE_SECONDS
	$(TEST_ENV) $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m prove --prove $(PROVE_SECONDS) $(SEED)

check: lint types fresh test  ## what CI runs: format, lint, types, generated code, layers, tests

format: $(VENV)/dev.stamp  ## rewrite the code in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(VENV)/dev.stamp  ## check format and lint rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/dev.stamp  ## check types
	$(BIN)/mypy

layers: $(VENV)/dev.stamp  ## check who imports whom
	$(BIN)/python -m pytest -q tests/test_layers.py

ops: $(VENV)/dev.stamp  ## write phix/ops.py anew from yaml/
	$(BIN)/python phix/table

fresh: $(VENV)/dev.stamp  ## check that phix/ops.py is what yaml/ gives
	$(BIN)/python phix/table --check

bench: $(VENV)/bench.stamp  ## run the benchmarks
	$(BIN)/python -m benchmarks --compile --json benchmarks.json $(BENCH) --plot benchmarks.png

test-gpu: $(VENV)/dev.stamp $(VENV)/gpu.stamp  ## run the op table and random programs on the GPU, against the CPU
	$(TEST_ENV) $(BIN)/python -m pytest -n0 -m gpu

bench-gpu: $(VENV)/gpu.stamp  ## run the benchmarks of the GPU, against JAX and PyTorch where they are installed
	$(BIN)/python -m benchmarks.gpu --json benchmarks-gpu.json

docs: $(VENV)/dev.stamp  ## run the examples of README and docs, write their output and docs/ops.md anew
	$(BIN)/python docs/refresh.py

clean:  ## remove the environment and all caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
