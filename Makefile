# Everything starts here: `make demo` and `make test` set up what they need on a machine with python3 (3.11+) and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/.cache/jax

.PHONY: demo test test-all check lint docs bench web wheel clean help

help:
	@echo "make demo      train a private next-word model on a built-in world (a minute or two)"
	@echo "make test      the fast tests: a few minutes on two cores"
	@echo "make test-all  all tests, also those marked slow and process (real processes, PostgreSQL, kills, examples)"
	@echo "make check     what CI runs: ruff, mypy, import-linter, the docs site and all tests"
	@echo "make docs      build the docs site into site/, with every link checked"
	@echo "make bench     speed of the engine, one JSON line a case"
	@echo "make web       build the pages of tacit board from web/ (needs Node)"
	@echo "make wheel     the package as a wheel and a source archive, in dist/"

demo: $(VENV)/.ready-web
	@$(BIN)/tacit train demo

# A test runs a program for less time than it takes to optimise it; `test-all` tests the programs that users run.
test: export XLA_FLAGS := $(XLA_FLAGS) --xla_backend_optimization_level=0
test: $(VENV)/.ready-dev
	@$(BIN)/python -m pytest -n 3 --dist worksteal -m "not slow and not process"

test-all: $(VENV)/.ready-dev
	@$(BIN)/python -m pytest -n 3 --dist worksteal

check: lint docs test-all

lint: $(VENV)/.ready-dev
	@$(BIN)/ruff check tacit tests benchmarks experiments examples docs/site verifier
	@$(BIN)/ruff format --check tacit tests benchmarks experiments examples docs/site
	@$(BIN)/mypy
	@$(BIN)/lint-imports

docs: $(VENV)/.ready-docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(VENV)/.ready
	@$(BIN)/python benchmarks/rounds.py

web: web/node_modules/.ready
	@cd web && npm run --silent build

web/node_modules/.ready: web/package-lock.json
	@command -v npm > /dev/null || { echo "make web needs Node 20 or newer (https://nodejs.org)."; exit 1; }
	@cd web && npm ci --silent
	@touch $@

wheel: $(VENV)/.ready-dev
	@$(BIN)/python -m hatchling build

$(VENV)/.ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Tacit needs Python 3.11 or newer."; exit 1; }
	@echo "Setting up $(VENV) (once)..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

$(VENV)/.ready-dev: $(VENV)/.ready requirements-dev.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.lock
	@touch $@

$(VENV)/.ready-web: $(VENV)/.ready requirements-web.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-web.lock
	@touch $@

$(VENV)/.ready-docs: $(VENV)/.ready requirements-docs.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-docs.lock
	@touch $@

clean:
	rm -rf $(VENV) .cache build dist site *.egg-info
