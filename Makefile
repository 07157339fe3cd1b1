# Two commands do everything on a machine with Python >= 3.11 and Node >= 20:
#   make demo   the main job end to end        make test   all tests
PYTHON ?= python3
PY := .venv/bin/python
# OpenMP threads that spin while they wait starve the other processes of a busy host.
export OMP_WAIT_POLICY ?= PASSIVE
export PATH := $(CURDIR)/node_modules/.bin:$(PATH)

.PHONY: help demo test setup lint fmt pytest forge analysis coverage gas snapshot deep bench detection peers clean

help:  ## List the commands.
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

demo: setup  ## Run the main job end to end: honest job paid, cheaters slashed.
	$(PY) scripts/demo.py

test: setup lint  ## Run every check and test. Compiling the contracts' tests takes one core as long as pytest the other.
	$(MAKE) -j2 forge pytest

setup: .venv/.installed node_modules/.installed  ## Install what the other commands need.

.venv/.installed: pyproject.toml constraints.txt scripts/setup_python.sh
	PYTHON=$(PYTHON) bash scripts/setup_python.sh
	@touch $@

node_modules/.installed: package.json package-lock.json
	@echo "setup: installing anvil, forge, solc, OpenZeppelin and forge-std from npm into node_modules/"
	npm ci --no-audit --no-fund
	@touch $@

lint: setup  ## ruff, mypy and forge fmt.
	$(PY) -m ruff check .
	$(PY) -m mypy
	forge fmt --check contracts

forge: setup  ## Solidity unit, fuzz and invariant tests.
	forge test

pytest: setup  ## Python unit, property, differential and end-to-end tests.
	$(PY) -m pytest -q

analysis: setup .venv-analysis/.installed  ## slither and halmos: fails on an unexplained finding or an unproved check.
	$(PY) scripts/analysis.py

.venv-analysis/.installed: requirements-analysis.txt scripts/setup_analysis.sh
	PYTHON=$(PYTHON) bash scripts/setup_analysis.sh
	@touch $@

coverage: setup  ## Coverage of contracts/src: fails below 95 % of lines or branches.
	$(PY) scripts/contract_coverage.py --min 95

# Fuzz tests and invariants have no one gas figure.
UNFUZZED := --no-match-test '^(testFuzz|invariant)_'

gas: setup  ## Compare the gas of every unit test with .gas-snapshot: fails if one changed.
	forge snapshot --check $(UNFUZZED)

snapshot: setup  ## Write .gas-snapshot anew, after a change of gas that is meant.
	forge snapshot $(UNFUZZED)

deep: setup  ## A million calls per invariant, into benchmarks/results/invariants.json. Takes long.
	$(PY) scripts/deep_invariants.py

bench: setup  ## Run every benchmark that needs no GPU, the detection study in its short form.
	for b in verification overhead gas fuzz "detection --quick"; do set -- $$b; $(PY) benchmarks/$$1.py $$2 || exit 1; done

detection: setup  ## The full detection study: hours. Writes its result and plots.
	$(PY) benchmarks/detection.py --json benchmarks/results/detection.json --plots docs/plots

# toploc compiles against the torch that is installed, so without pip's own copy of it (--no-build-isolation).
peers: setup  ## Install TOPLOC, which the detection study compares with. Compiles toploc: C++ compiler, some minutes.
	$(PY) -m pip install -q -c constraints.txt ninja setuptools wheel
	PATH="$(CURDIR)/.venv/bin:$$PATH" $(PY) -m pip install -q -c constraints.txt \
		--no-deps --no-binary toploc --no-build-isolation toploc
	$(PY) -c 'import torch, toploc; print("peers: toploc", toploc.__version__, "with torch", torch.__version__)'

fmt: setup  ## Format Python and Solidity.
	$(PY) -m ruff check --fix . && forge fmt contracts

clean:  ## Remove what make built here (not the model cache).
	rm -rf .venv .venv-analysis node_modules out cache .demo
