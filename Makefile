# make demo      install into .venv, run the quickstart, draw its picture, write its report
# make test      install and run the quick tests of every room
# make smoke     the tests near the files that differ from main (BASE=...), a minute at most
# make test-all  all tests that take less than minutes, with TorchRL, Stable-Baselines3 and Dask
# make check     formatting, lint, types, quick tests, documentation
# make guard     hold the speed against recorded ratios, in about a minute
# make golden    check all golden results; BASE=COMMIT also compares trainings with it
# make clean     remove what these made

PYTHON ?= python3
VENV := .venv
BASE ?= main
BIN := $(VENV)/bin
# one stamp for each set of extras: a second call installs nothing
STAMP = $(VENV)/.installed-
INPUTS := pyproject.toml constraints.txt
# many of the tests start simkit, which would compile its files each time
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all smoke check format lint types docs slow benchmarks guard fuzz golden clean

demo: $(STAMP)plot
	$(BIN)/simkit run quickstart --output runs/quickstart
	$(BIN)/simkit plot runs/quickstart --output runs/quickstart/plot.png
	$(BIN)/simkit report runs/quickstart --output runs/quickstart/report.html

test: $(STAMP)test
	$(BIN)/python -m pytest -m "not slow and not thorough" -n auto --dist loadgroup --hypothesis-profile=quick --durations=10 --durations-min=2

test-all: $(STAMP)test-all
	$(BIN)/python -m pytest -m "not slow" -n auto --dist loadgroup

smoke: $(STAMP)test
	$(BIN)/python tools/smoke.py $(BASE)

check: format lint types test docs

format: $(STAMP)dev
	$(BIN)/ruff format --check .

lint: $(STAMP)dev
	$(BIN)/ruff check .

types: $(STAMP)dev
	$(BIN)/python tools/type_tree.py
	$(BIN)/mypy build/types/simkit

docs: $(STAMP)dev
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

slow: $(STAMP)test-all
	$(BIN)/python -m pytest -n auto --dist loadgroup --hypothesis-profile=full

benchmarks: $(STAMP)test-all
	$(BIN)/python -m pytest tests/benchmarks --benchmark-only

guard: $(STAMP)test
	$(BIN)/python tests/benchmarks/guard.py

fuzz: $(STAMP)test
	$(BIN)/python tests/fuzz/campaign.py --simulations 1000 --combinations 1000 --scenarios 2000

golden: $(STAMP)test
	$(BIN)/python tests/golden/golden.py $(if $(filter file,$(origin BASE)),,--base $(BASE)) $(CASES)

$(STAMP)%: $(INPUTS) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[$*]" -c constraints.txt
	@touch $@

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

clean:
	rm -rf $(VENV) build dist docs/_build *.egg-info .pytest_cache .mypy_cache .ruff_cache
