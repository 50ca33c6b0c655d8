# Two commands do all the set-up: `make run` and `make test`. Options go through ARGS: make run ARGS="--port 7000"
# Paths here are relative, so that a checkout whose path has spaces works.

PYTHON = .venv/bin/python
EXTERNAL = tests/external
LOCK = uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-emit-find-links --no-header --annotation-style line
ARGS =
# Files of tests go to the workers as these come free. Not sorted by their number of tests, which says nothing of their time.
WORKERS = -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: run test test-external lint format bench bench-memory bench-full soak screenshots lock clean help

run: ## start the server (without API_URL: with the built-in demo model)
	@sh scripts/environment.sh run
	@$(PYTHON) -m app.cli serve --home . $(ARGS)

# Each worker compiles all tests; what one of them or an earlier run has compiled is read, also where a shell forbids it.
test test-external: export PYTHONDONTWRITEBYTECODE =

test: ## run the test suite, on all cores (one after the other: ARGS="-n 0")
	@sh scripts/environment.sh test
	$(PYTHON) -m pytest -m "not external" $(WORKERS) $(ARGS)

test-external: $(EXTERNAL)/node_modules/.installed ## run the tests that need programs from outside (Node.js, curl)
	@sh scripts/environment.sh test
	@sh scripts/environment.sh peer
	$(PYTHON) -m pytest -m external $(ARGS)

lint: ## check format, style, types and layers
	@sh scripts/environment.sh test
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy
	.venv/bin/lint-imports

format: ## bring the code into its format
	@sh scripts/environment.sh test
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .

bench: ## compare the chat path with a bare pass-through (about a minute)
	@sh scripts/environment.sh test
	$(PYTHON) -m bench $(ARGS)

# Threads of a numerical library that wait for each other say nothing of a search that one thread does.
bench-memory bench-full: export OPENBLAS_NUM_THREADS = 1

bench-full: ## the same, longer and with more cases
	@sh scripts/environment.sh test
	$(PYTHON) -m bench --full $(ARGS)
	$(PYTHON) -m bench.sockets
	$(PYTHON) -m bench.node_calls
	$(PYTHON) -m bench.tool_groups
	$(PYTHON) -m bench.traces
	$(PYTHON) -m bench.mcp
	$(PYTHON) -m bench.mcp_scale
	$(PYTHON) -m pytest -n 0 -p bench.loop_steps tests/mcp/client/test_hostile.py
	$(PYTHON) -m bench.panel
	$(PYTHON) -m bench.memory
	$(PYTHON) -m bench.memory.scale
	$(PYTHON) -m bench.memory.declarations
	$(PYTHON) -m bench.memory.beside

bench-memory: ## how well memory finds what is asked for (public sets: VCP_BENCH_DATA=folder; the first run embeds for long)
	@sh scripts/environment.sh test
	$(PYTHON) -m bench.memory $(ARGS)

soak: $(EXTERNAL)/node_modules/.installed ## keep the server under load and watch memory, files and processes
	@sh scripts/environment.sh test
	$(PYTHON) -m bench.soak $(ARGS)
	$(PYTHON) -m bench.memory.kill_sync
	$(PYTHON) -m tests.external.panel_matrix

screenshots: $(EXTERNAL)/node_modules/.installed ## take the pictures of the panel in docs/images (needs Chromium)
	@sh scripts/environment.sh test
	$(PYTHON) -m tests.external.screenshots docs/images

lock: ## write requirements/*.lock anew from pyproject.toml; ARGS=--upgrade takes newer versions
	@uv --version >/dev/null 2>&1 || { echo "error: make lock needs uv on the PATH." >&2; exit 1; }
	$(LOCK) pyproject.toml --group build --output-file requirements/run.lock $(ARGS)
	$(LOCK) pyproject.toml --group dev --constraint requirements/run.lock --output-file requirements/test.lock $(ARGS)
	echo mcp==1.30.0 | $(LOCK) - --output-file requirements/peer.lock $(ARGS)
	@cd $(EXTERNAL) && npm install --package-lock-only --no-audit --no-fund

clean: ## remove the environment and everything that tools left behind
	rm -rf .venv $(EXTERNAL)/.peer build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis $(EXTERNAL)/node_modules
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

# The mark is made last: `npm ci` empties the folder first, so an interrupted one leaves none.
$(EXTERNAL)/node_modules/.installed: $(EXTERNAL)/package.json $(EXTERNAL)/package-lock.json
	@npm --version >/dev/null 2>&1 || { echo "error: make test-external needs Node.js 18 or newer with npm." >&2; exit 1; }
	cd $(EXTERNAL) && npm ci --no-audit --no-fund
	@$(EXTERNAL)/node_modules/.bin/node --version | grep -q '^v22' || { echo "error: npm did not bring Node.js 22." >&2; exit 1; }
	@: > $(EXTERNAL)/node_modules/.installed
