# Everything a person or CI runs. You need Python >= 3.11 and make: `make demo`, `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Keep temporary files and caches inside the clone.
export TMPDIR := $(CURDIR)/.cache/tmp
export PADDOCK_HOME := $(CURDIR)/.cache/paddock
export PIP_CACHE_DIR := $(CURDIR)/.cache/pip
export PIP_DISABLE_PIP_VERSION_CHECK := 1
$(shell mkdir -p $(TMPDIR))

.PHONY: demo test test-fast lint type format docs notebooks clean install

install: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Paddock needs Python 3.11 or newer: make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade -c constraints.txt pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e . --group dev
	@touch $@

demo: $(READY)
	@$(BIN)/python -m paddock train racing --name demo
	@$(BIN)/python -m paddock race demo --video

# Two workers share the cores: threads that wait for each other would cost a third of the time.
test test-fast: export OMP_NUM_THREADS := 1

test: $(READY)
	$(BIN)/python -m pytest $(TESTS)

test-fast: $(READY)
	$(BIN)/python -m pytest -m "not slow" $(TESTS)

lint: $(READY)
	$(BIN)/ruff check src tests benchmarks docs/site docs/tutorials
	$(BIN)/ruff format --check src tests benchmarks docs/site docs/tutorials
	$(BIN)/lint-imports

type: $(READY)
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix src tests benchmarks docs/site docs/tutorials
	$(BIN)/ruff format src tests benchmarks docs/site docs/tutorials

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

notebooks: $(READY)
	$(BIN)/python docs/site/execute.py

clean:
	rm -rf $(VENV) .cache build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
