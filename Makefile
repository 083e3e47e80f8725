# Every target does its own set-up; a machine with Python 3.11+ and make is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PEER_VENV := .venv-diffprivlib
PEER := $(PEER_VENV)/.installed

.PHONY: help venv demo test test-integration lint format bench docs examples requirements clean

help:  ## What can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

venv: $(STAMP)  ## A virtual environment with pinned dependencies

$(STAMP): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; name one: make PYTHON=python3.12 ..."; exit 1; }
	@echo "== Creating $(VENV) and installing pinned dependencies (about a minute, once)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

demo: $(STAMP)  ## A private clustering of generated data, with a table and a report to open
	@echo "== Running the demo (the first run compiles the kernels)"
	@$(BIN)/recoup demo

test: $(STAMP)  ## All tests
	@echo "== Running the tests"
	@$(BIN)/python -m pytest -n 2 -q

test-integration: $(STAMP)  ## Tests on a real local Spark and in a real browser; installs PySpark, Playwright and, as root, Java, Chromium
	@tests/integration/prepare.sh $(BIN)/python
	@tests/integration/prepare_browser.sh $(BIN)/python
	@echo "== Running the integration tests"
	@$(BIN)/python -m pytest -q tests/integration

lint: $(STAMP)  ## Style, types, and the wall between curator and analyst
	@echo "== ruff"; $(BIN)/ruff check . && $(BIN)/ruff format --check .
	@echo "== mypy"; $(BIN)/mypy
	@echo "== import-linter"; $(BIN)/lint-imports

format: $(STAMP)  ## Put the code into its format
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

bench: $(STAMP) $(PEER)  ## Speed, as ratios within one run; writes docs/performance.md and docs/cluster.md again
	@echo "== recoup bench (half an hour on a quiet machine; recoup bench --quick takes a minute)"
	@$(BIN)/recoup bench all --diffprivlib $(PEER_VENV)/bin/python -o docs
	@echo "== One step of the sampler against its plain twin"
	@$(BIN)/python benchmarks/metropolis_step.py

$(PEER): benchmarks/requirements-diffprivlib.txt
	@echo "== Creating $(PEER_VENV): diffprivlib needs an older scikit-learn"
	@$(PYTHON) -m venv $(PEER_VENV)
	@$(PEER_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

docs: $(STAMP)  ## The documentation as web pages, in site/
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-docs.txt
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict && echo "== site/index.html"

examples: $(STAMP)  ## Three whole programs on generated data, with pictures, in results/
	@rm -rf results/customers results/check-ins results/handover
	@$(BIN)/python examples/customer_segments.py -o results/customers
	@$(BIN)/python examples/check_ins.py -o results/check-ins
	@$(BIN)/python examples/handover_curator.py -o results/handover
	@$(BIN)/python examples/handover_analyst.py results/handover/transcript.json -o results/handover

requirements: $(STAMP)  ## Compile the pinned requirements from pyproject.toml
	@for out in "dev requirements" "docs requirements-docs" "spark requirements-spark" "browser requirements-browser"; do set -- $$out; \
	  $(BIN)/pip-compile --quiet --upgrade --extra $$1 --strip-extras --no-header --no-annotate --no-emit-options \
	    --no-emit-index-url --no-emit-find-links --no-emit-trusted-host -o $$2.txt pyproject.toml; done

clean:  ## Remove what the other targets made
	rm -rf $(VENV) $(PEER_VENV) site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis recoup-demo recoup-bench
