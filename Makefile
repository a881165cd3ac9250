# The commands a user and CI run. `make demo` and `make test` build the environment first.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed
# compiled modules are kept, also where the surroundings forbid it (as images for containers do): many tests start processes
export PYTHONDONTWRITEBYTECODE :=

.PHONY: install demo test test-quick test-failed test-lowest test-clusters chaos torture check format bench bench-search docs pictures optunahub clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("stsq needs Python 3.11 or newer; this is " + sys.version.split()[0] + ": make install PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

demo: $(STAMP)  ## measure the thresholds of both architectures on this machine
	$(BIN)/stsq run quickstart

QUICK := not (ray or jobs or browser or slow or clusters or chaos or torture)
WHOLE := not (clusters or chaos or torture)

test: $(STAMP)  ## the tests, in four processes, because many of them wait for processes of their own
	$(BIN)/python -m pytest -n 4 -m '$(WHOLE)'

test-quick: $(STAMP)  ## the tests that start no Ray, browser or other process and take no longer than a second
	$(BIN)/python -m pytest -n 3 -m '$(QUICK)'

test-failed: $(STAMP)  ## the tests that failed last time, once more
	$(BIN)/python -m pytest --last-failed --last-failed-no-failures none

test-lowest: $(STAMP)  ## test-quick with the lowest versions that pyproject.toml allows, then with the highest (two environments, gigabytes each)
	for set in lowest-direct highest; do \
	  $(BIN)/uv venv --quiet --clear --python $(PYTHON) build/$$set && \
	  $(BIN)/uv pip install --quiet --python build/$$set --resolution $$set --only-binary :all: --no-binary stsq -e '.[dev]' && \
	  build/$$set/bin/python -m pytest -n 2 -m '$(QUICK)' || exit 1; \
	done

test-clusters: $(STAMP)  ## clusters of several nodes that grow, lose nodes, fill up; Slurm's way of starting one (twenty minutes)
	$(BIN)/python -m pytest -m clusters tests/cluster

chaos: $(STAMP)  ## a sweep of 200 trials, ten times, while workers, nodes and the driver are killed, frozen or out of memory (half an hour)
	$(BIN)/python -m pytest -m chaos tests/cluster/chaos

torture: $(STAMP)  ## every file of a run directory damaged in every way, under every command (ten minutes on two cores)
	$(BIN)/python -m pytest -s -m torture tests/cluster/torture

check: $(STAMP)  ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)  ## ratios against the alternatives and a table of all gates (a quarter of an hour); add JAX with .venv/bin/pip install jax
	$(BIN)/python tests/benchmarks/all.py

docs: $(STAMP)  ## the documentation as a site in build/docs; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

pictures: $(STAMP)  ## draw the pictures of the documentation again, from the runs that are kept for it (some minutes)
	$(BIN)/python docs/images/draw.py

optunahub: $(STAMP)  ## the threshold sampler as a package for OptunaHub
	$(BIN)/python optunahub/build.py build/optunahub

bench-search: $(STAMP)  ## threshold searches on simulated cells
	$(BIN)/python tests/benchmarks/search.py

reference: $(STAMP)  ## the files that the sweep file's records are written into: its JSON Schema, its page of tables
	$(BIN)/stsq schema > sweeps/catalog/sweep.schema.json
	$(BIN)/stsq schema --markdown > docs/sweep_reference.md

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
