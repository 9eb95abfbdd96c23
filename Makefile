# Every check has one definition: here. Hooks and CI call make.
PYTHON ?= python
PYTEST_FLAGS ?=
PYTEST = $(PYTHON) -m pytest -q --dist loadgroup

.PHONY: check quick format lint types contracts collection test quick-test lowest servers faults long \
	soak fuzz stable coverage bench docs

# First what needs no server, side by side: the types take one core only, for a while.
check:
	$(MAKE) -j 4 lint types contracts collection
	$(MAKE) test

# Tests that start no server, Java, terminal or process: while you work, before `check`.
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
	$(PYTHON) -m mypy .assets/make_pictures.py

contracts:
	$(PYTHON) -c "from importlinter.cli import lint_imports_command; lint_imports_command()"

# Every worker reads all files of tests: here one compiles them first, on a core that is idle. What
# cannot be read is told by `test`.
collection:
	-@$(PYTEST) --collect-only --ignore=tests/fuzz >/dev/null

# More workers than a small machine has cores, since tests wait for half of their time.
test:
	$(PYTEST) -n 5 --ignore=tests/fuzz -m 'not long' $(PYTEST_FLAGS)

quick-test:
	$(PYTEST) -n 2 --ignore=tests/fuzz \
		-m 'not server and not cluster and not spark and not terminal and not slow and not long' $(TESTS)

# The lowest versions that pyproject.toml allows, in an environment that is removed afterwards:
# the quick tests, or those in TESTS="tests/tui …", with the EXTRAS that these need.
lowest: EXTRAS ?= dev
lowest:
	folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && bin="$$folder/bin" && \
	$(PYTHON) -m venv "$$folder" && "$$bin/pip" install -q uv && \
	"$$bin/uv" pip install -q -p "$$bin/python" --resolution lowest-direct -e '.[$(EXTRAS)]' && \
	$(MAKE) quick-test PYTHON="$$bin/python" && \
	"$$bin/python" .ci/first_frame.py run "$$bin/natstui" demo

# What natstui makes of older servers: SERVERS="2.11.11 2.12.8" for some of them, TESTS=… for some
# files.
servers:
	$(PYTHON) .ci/servers.py $(SERVERS) $(if $(TESTS),--tests $(TESTS))

# What is long, each with a budget of its own: see tests/README.md.
# Faults: a hundred things that break, on real servers and clusters, and what natstui says of each.
faults:
	$(PYTHON) -m tests.faults --spark

# Long: every fault of every node of a cluster under load, and the tests that are marked `long`.
long:
	$(PYTHON) -m tests.jetstream.cluster_matrix
	$(PYTEST) -n 2 -m long

soak:
	$(PYTHON) -m benchmarks.soak

fuzz:
	$(PYTEST) -n 2 tests/fuzz

stable:
	$(PYTHON) -m tests.stable

# Lines and branches of natstui that the tests reach, in every process that they start.
coverage:
	$(PYTHON) -m coverage erase
	$(PYTHON) -m coverage run -m pytest -q --dist loadgroup -n 4 --ignore=tests/fuzz -m 'not long'
	$(PYTHON) -m coverage combine -q
	$(PYTHON) -m coverage report --skip-covered --sort=cover

# The generated pages of docs/, and all of them as a site in docs/.site.
docs:
	$(PYTHON) .ci/docs.py
	$(PYTHON) -m zensical build --strict -f docs/zensical.toml

bench:
	$(PYTHON) -m benchmarks
