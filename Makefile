# Every check has one definition: here. Hooks and CI call make.
PYTHON ?= python

.PHONY: check quick format lint types contracts test quick-test bench

check: lint types contracts test

# What neither a server nor Java is needed for: while you work, before `check`.
# Side by side: the types take one core only, for a while.
quick:
	$(MAKE) -j 4 lint types contracts quick-test

format:
	$(PYTHON) -m ruff format . .assets .ci
	$(PYTHON) -m ruff check --fix . .assets .ci

lint:
	$(PYTHON) -m ruff format --check . .assets .ci
	$(PYTHON) -m ruff check . .assets .ci

types:
	$(PYTHON) -m mypy

contracts:
	$(PYTHON) -c "from importlinter.cli import lint_imports_command; lint_imports_command()"

test:
	$(PYTHON) -m pytest -q -n 4 --dist loadscope

quick-test:
	$(PYTHON) -m pytest -q -n 2 --quick

bench:
	$(PYTHON) -m benchmarks
