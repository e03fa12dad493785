# make demo    install into .venv, run the quickstart, draw its picture, write its report
# make test    install and run the tests, those marked slow left out
# make check   formatting, lint, types, tests, documentation
# make guard   hold the speed against recorded ratios, in about a minute
# make golden  check all golden results; BASE=COMMIT also compares trainings with that commit
# make clean   remove what these made

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# one stamp for each set of extras: a second call installs nothing
STAMP = $(VENV)/.installed-
INPUTS := pyproject.toml constraints.txt
# many of the tests start simkit, which would compile its files each time
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test check format lint types docs slow benchmarks guard fuzz golden clean

demo: $(STAMP)plot
	$(BIN)/simkit run quickstart --output runs/quickstart
	$(BIN)/simkit plot runs/quickstart --output runs/quickstart/plot.png
	$(BIN)/simkit report runs/quickstart --output runs/quickstart/report.html

test: $(STAMP)test
	$(BIN)/python -m pytest -m "not slow" -n auto

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

slow: $(STAMP)test
	$(BIN)/python -m pytest -n auto --hypothesis-profile=full

benchmarks: $(STAMP)test
	$(BIN)/python -m pytest tests/benchmarks --benchmark-only

guard: $(STAMP)test
	$(BIN)/python tests/benchmarks/guard.py

fuzz: $(STAMP)test
	$(BIN)/python tests/fuzz/campaign.py --simulations 1000 --combinations 1000 --scenarios 2000

golden: $(STAMP)test
	$(BIN)/python tests/golden/golden.py $(if $(BASE),--base $(BASE)) $(CASES)

$(STAMP)%: $(INPUTS) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[$*]" -c constraints.txt
	@touch $@

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

clean:
	rm -rf $(VENV) build dist docs/_build *.egg-info .pytest_cache .mypy_cache .ruff_cache
