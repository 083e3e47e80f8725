# Every target does its own set-up; a machine with Python 3.11+ and make is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What a user needs, and what development adds to it.
STAMP := $(VENV)/.installed
DEVELOP := $(VENV)/.developed
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PEER_VENV := .venv-diffprivlib
PEER := $(PEER_VENV)/.installed
SPEED_VENV := .venv-peers
SPEED := $(SPEED_VENV)/.installed
MBI_VENV := .venv-mbi
MBI := $(MBI_VENV)/.installed
COMPILE := $(BIN)/pip-compile --quiet --upgrade --strip-extras --no-header --no-annotate --no-emit-options \
  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host
# Tools in environments of their own, so that they decide nothing about the pins.
SBOM := build/venv-sbom/.installed
ADVISORIES := build/venv-vulnerabilities/.installed

.PHONY: help venv develop demo demo-serve test test-integration lint format bench rivals audit audit-quick mutate figures docs examples requirements dependencies sbom vulnerabilities wheel clean

help:  ## What can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

venv: $(STAMP)  ## A virtual environment with what a user needs, pinned

$(STAMP): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; name one: make PYTHON=python3.12 ..."; exit 1; }
	@echo "== Creating $(VENV) and installing what Recoup needs to run (1.1 GB, about a minute, once)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) -r requirements.txt
	@$(PIP) --no-deps -e .
	@touch $@

develop: $(DEVELOP)  ## The same with the lab, and with tools for tests and style

$(DEVELOP): $(STAMP) requirements-dev.txt lab/pyproject.toml
	@echo "== Adding the lab and the tools for development to $(VENV) (0.6 GB more, about a minute, once)"
	@$(PIP) -r requirements-dev.txt
	@$(PIP) --no-deps -e lab
	@touch $@

demo: $(STAMP)  ## A private clustering of generated data, with a table and a report to open
	@echo "== Running the demo (the first run compiles the kernels)"
	@$(BIN)/recoup demo

demo-serve: $(STAMP) requirements-serve.txt requirements-db.txt  ## A curator as a service on generated data, an analyst in another process, and her report
	@$(PIP) -r requirements-serve.txt -r requirements-db.txt
	@rm -rf results/served
	@$(BIN)/python examples/served_curator.py -o results/served

test: $(DEVELOP)  ## All tests
	@echo "== Running all tests (about ten minutes on two cores)"
	@$(BIN)/python -m pytest -n 2 --dist worksteal -q

test-integration: $(DEVELOP)  ## Tests on a real local Spark, a real PostgreSQL and in a real browser; installs PySpark, Playwright and, as root, Java, PostgreSQL, Chromium
	@tests/integration/prepare.sh $(BIN)/python
	@tests/integration/prepare_browser.sh $(BIN)/python
	@tests/integration/prepare_postgres.sh
	@echo "== Running the integration tests"
	@$(BIN)/python -m pytest -q tests/integration

lint: $(DEVELOP)  ## Style, types, and the wall between curator and analyst
	@echo "== ruff"; $(BIN)/ruff check . && $(BIN)/ruff format --check .
	@echo "== mypy"; $(BIN)/mypy
	@echo "== import-linter"; $(BIN)/lint-imports

format: $(DEVELOP)  ## Put the code into its format
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

bench: $(DEVELOP) $(PEER) $(SPEED)  ## Speed, as ratios within one run; writes docs/performance.md and docs/cluster.md again
	@echo "== recoup bench (half an hour on a quiet machine; recoup bench --quick takes a minute)"
	@$(BIN)/recoup bench all --diffprivlib $(PEER_VENV)/bin/python --peers $(SPEED_VENV)/bin/python -o docs
	@echo "== One step of the sampler against its plain twin"
	@$(BIN)/python -m recoup_lab.studies.metropolis_step
	@$(BIN)/python -m recoup_lab.studies.metropolis_step --prefetch
	@$(MAKE) --no-print-directory rivals

rivals: $(DEVELOP) $(PEER) $(MBI)  ## Others on the same tables; writes docs/comparison.md again, goes on where it was stopped. DATA=folder of the sets
	@echo "== recoup experiment rivals (many hours of one core; runs in build/rivals)"
	@$(BIN)/recoup experiment rivals --mbi $(MBI_VENV)/bin/python --diffprivlib $(PEER_VENV)/bin/python \
	  $(if $(DATA),--data $(DATA)) -o build/rivals --docs docs

$(MBI): lab/requirements-mbi.txt
	@echo "== Creating $(MBI_VENV): AIM and MST of opendp[mbi] need JAX (1.3 GB)"
	@$(PYTHON) -m venv $(MBI_VENV)
	@$(MBI_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

$(SPEED): lab/requirements-peers.txt
	@echo "== Creating $(SPEED_VENV): other libraries whose k-means is fast"
	@$(PYTHON) -m venv $(SPEED_VENV)
	@$(SPEED_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

$(PEER): lab/requirements-diffprivlib.txt
	@echo "== Creating $(PEER_VENV): diffprivlib needs an older scikit-learn"
	@$(PYTHON) -m venv $(PEER_VENV)
	@$(PEER_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

audit: $(DEVELOP)  ## Attacks on Recoup and bugs that they must catch; writes docs/evidence.md and docs/trust.md again
	@echo "== recoup audit (some ten minutes; recoup audit --quick takes two or three)"
	@$(BIN)/recoup audit --processes 2 -o docs
	@echo "== Planted bugs"
	@$(BIN)/python -m recoup_lab.audit.planted_bugs -o docs
	@echo "== Kills, races, full disks"
	@$(BIN)/python -m recoup_lab.audit.faults.run -o docs
	@echo "== A served curator: kills, races, spoilt requests (half an hour)"
	@$(BIN)/python -m recoup_lab.audit.served.run -o docs
	@echo "== Spoilt files"
	@$(BIN)/python -m recoup_lab.audit.fuzz.run -o docs
	@echo "== Supply chain"
	@$(BIN)/python -m recoup_lab.audit.supply.run check
	@$(MAKE) --no-print-directory sbom vulnerabilities wheel
	@echo "== Lines that a privacy proof rests on, and all attacks"
	@$(BIN)/python -m recoup_lab.audit.trusted -o docs
	@$(BIN)/python -m recoup_lab.audit.overview -o docs

audit-quick: $(DEVELOP)  ## The same with fewer tries and bugs: about seven minutes, writes nothing
	@$(BIN)/recoup audit --quick --processes 2
	@$(BIN)/python -m recoup_lab.audit.planted_bugs --planted quick
	@$(BIN)/python -m recoup_lab.audit.faults.run --quick
	@$(BIN)/python -m recoup_lab.audit.served.run --quick
	@$(BIN)/python -m recoup_lab.audit.fuzz.run --quick

mutate: $(DEVELOP)  ## Some 3,500 small changes to the source, each of which a test must notice; goes on where it was stopped
	@echo "== Mutants (half an hour to an hour on two cores; results in build/mutation)"
	@$(BIN)/python -m recoup_lab.audit.mutation.run -o docs

figures: $(DEVELOP)  ## Figures of the pages, from the runs in docs/data
	@$(BIN)/python -m recoup_lab.figures

docs: $(DEVELOP)  ## The documentation as web pages, in site/; fails where a figure is not that of its runs
	@$(BIN)/python -m recoup_lab.figures --check
	@$(PIP) -r requirements-docs.txt
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict && echo "== site/index.html"

examples: $(DEVELOP)  ## Four whole programs on generated data, with pictures, in results/
	@rm -rf results/customers results/hospital results/check-ins results/handover
	@$(BIN)/python examples/customer_segments.py -o results/customers
	@$(BIN)/python examples/hospital.py -o results/hospital
	@$(BIN)/python examples/check_ins.py -o results/check-ins
	@$(BIN)/python examples/handover_curator.py -o results/handover
	@$(BIN)/python examples/handover_analyst.py results/handover/transcript.json -o results/handover

requirements: $(DEVELOP)  ## Compile the pinned requirements from pyproject.toml
	@for extra in dev docs spark browser serve db; do $(COMPILE) --extra $$extra -o requirements-$$extra.txt pyproject.toml || exit 1; done
	@$(COMPILE) --constraint requirements-dev.txt -o requirements.txt pyproject.toml

dependencies: $(DEVELOP)  ## Licences and upkeep of all pinned packages; writes docs/dependencies.md again
	@for extra in docs spark browser serve db; do $(PIP) -r requirements-$$extra.txt || exit 1; done
	@$(BIN)/python -m recoup_lab.audit.supply.run table

sbom: $(DEVELOP) $(SBOM)  ## A bill of materials of what is needed to run, in dist/sbom.json
	@$(BIN)/python -m recoup_lab.audit.supply.run sbom --tool build/venv-sbom/bin/cyclonedx-py -o dist/sbom.json

vulnerabilities: $(DEVELOP) $(ADVISORIES)  ## Known vulnerabilities of all pinned packages; needs a network, and says so
	@$(BIN)/python -m recoup_lab.audit.supply.run vulnerabilities --tool build/venv-vulnerabilities/bin/pip-audit

build/venv-%/.installed: lab/requirements-%.txt
	@echo "== Creating build/venv-$*"
	@$(PYTHON) -m venv build/venv-$*
	@build/venv-$*/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

wheel: $(DEVELOP)  ## Packages in dist/, each installed in an empty environment; the demo run from the wheel
	@echo "== Building, installing and using the packages (one to two minutes)"
	@$(BIN)/python -m recoup_lab.audit.supply.packages -o dist

clean:  ## Remove what the other targets made
	rm -rf $(VENV) $(PEER_VENV) $(SPEED_VENV) $(MBI_VENV) site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis recoup-demo recoup-bench results
