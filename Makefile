# Development tasks. PYTHON is the interpreter of an environment with '.[test,examples]' installed.
PYTHON ?= $(if $(wildcard .venv/bin/python),.venv/bin/python,python3)
SOURCES = zql tests examples .ci

.PHONY: help check format test golden docs soak bench bench-large bench-planning bench-tpch sizes

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

check:  ## format, lint, types, import contracts, plans: before each commit
	$(PYTHON) -m ruff format --check $(SOURCES)
	$(PYTHON) -m ruff check $(SOURCES)
	$(PYTHON) -m mypy
	$(PYTHON) -c "from importlinter.cli import lint_imports_command as lint; lint(['--no-cache'])"
	$(PYTHON) -m pytest tests/plans tests/test_architecture.py tests/test_public_api.py

format:  ## format the code, mend what ruff can mend
	$(PYTHON) -m ruff format $(SOURCES)
	$(PYTHON) -m ruff check --fix $(SOURCES)

test:  ## everything
	$(PYTHON) -m pytest -n auto --dist worksteal

golden:  ## write the golden files and the outputs in the documentation anew
	UPDATE_GOLDEN=1 $(PYTHON) -m pytest tests/plans tests/errors tests/queries tests/docs

docs:  ## run the blocks of the documentation
	$(PYTHON) -m pytest tests/docs

soak:  ## a thousand random pipelines and the whole alphabet, 500 kills, a group of 5M rows (half an hour)
	ZQL_EXAMPLES=1000 $(PYTHON) -m pytest tests/same_answer
	ZQL_KILLS=500 $(PYTHON) -m pytest tests/faults/test_kills.py
	ZQL_GROUP_ROWS=5200000 $(PYTHON) -m pytest tests/execution/test_reduce.py -k bigger
	ZQL_WIDE_ROWS=400000 ZQL_SKEW_ROWS=20000000 $(PYTHON) -m pytest tests/execution/test_memory.py tests/execution/test_skew.py

sizes:  ## the ten longest files and functions
	$(PYTHON) .ci/sizes.py zql

bench:  ## ZQL beside its peers (docs/benchmarks.md); ARGS names some, and --runs
	$(PYTHON) tests/benchmarks/compare.py $(ARGS)

bench-large:  ## data larger than memory, and twice the data; ARGS names some
	$(PYTHON) tests/benchmarks/large.py $(ARGS)

bench-planning:  ## what parsing, planning and checking a script cost
	$(PYTHON) tests/benchmarks/planning.py $(ARGS)

bench-tpch:  ## the 22 queries of TPC-H at scale 1 beside DuckDB, one by one; ARGS: --runs
	$(PYTHON) tests/benchmarks/tpch.py $(ARGS)
