# The commands a user and CI run. `make demo` and `make test` build the environment first.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed

.PHONY: install demo test test-quick check format bench clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("stsq needs Python 3.11 or newer; this is " + sys.version.split()[0] + ": make install PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

demo: $(STAMP)  ## measure the thresholds of both architectures on this machine
	$(BIN)/stsq run quickstart

test: $(STAMP)  ## every test
	$(BIN)/python -m pytest

test-quick: $(STAMP)  ## the tests that start no Ray and no browser, two files at a time
	$(BIN)/python -m pytest -n 2 --dist loadfile -m 'not ray and not jobs and not browser'

check: $(STAMP)  ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)  ## ratios against the alternatives, in one run each; add JAX with .venv/bin/pip install jax
	$(BIN)/python tests/benchmarks/engine.py
	$(BIN)/python tests/benchmarks/gpu_engine.py
	$(BIN)/python tests/benchmarks/end_to_end.py --trials 64
	$(BIN)/python tests/benchmarks/end_to_end.py --trials 256
	$(BIN)/python tests/benchmarks/end_to_end.py --trials 64 --wandb
	$(BIN)/python tests/benchmarks/end_to_end.py --trials 256 --wandb
	$(BIN)/python tests/benchmarks/overhead.py
	$(BIN)/python tests/benchmarks/overhead.py --size small
	$(BIN)/python tests/benchmarks/scale.py
	$(BIN)/python tests/benchmarks/wandb_cost.py

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
