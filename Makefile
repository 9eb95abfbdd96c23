# Every check has one definition: here. Hooks and CI call make.
PYTHON ?= python

.PHONY: check quick format lint types contracts test quick-test lowest servers bench faults

check: lint types contracts test

# Tests that start no server, Java, terminal or process: while you work, before `check`.
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
	$(PYTHON) -m pytest -q -n 4 --dist loadgroup

quick-test:
	$(PYTHON) -m pytest -q -n 2 --dist loadgroup \
		-m 'not server and not cluster and not spark and not terminal and not slow'

# The lowest versions that pyproject.toml allows, in an environment that is removed afterwards.
lowest:
	folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && bin="$$folder/bin" && \
	$(PYTHON) -m venv "$$folder" && "$$bin/pip" install -q uv && \
	"$$bin/uv" pip install -q -p "$$bin/python" --resolution lowest-direct -e '.[dev]' && \
	$(MAKE) quick-test PYTHON="$$bin/python" && \
	"$$bin/python" .ci/first_frame.py run "$$bin/natstui" demo

# What natstui makes of older servers: SERVERS="2.11.11 2.12.8" for some of them, TESTS=… for some
# files.
servers:
	$(PYTHON) .ci/servers.py $(SERVERS) $(if $(TESTS),--tests $(TESTS))

bench:
	$(PYTHON) -m benchmarks

# A hundred things that break, on real servers and clusters: what natstui says of each. 40 minutes.
faults:
	$(PYTHON) -m tests.faults --spark
