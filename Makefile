# `make demo` and `make test` need Python >= 3.11 with venv, and nothing else: each sets up .venv by itself, without
# root. `make PYTHON=/path/to/python3 …` chooses the interpreter; `make clean` removes what was made.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
CORPUS := tests/corpus
EVIDENCE := docs/evidence
SIZE ?= full

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1

# The newest interpreter on PATH that is at least 3.11 and can make an environment with pip in it. Each candidate is
# run, because a name on PATH can be a wrapper with nothing behind it.
CANDIDATES := $(or $(PYTHON),python3.14 python3.13 python3.12 python3.11 python3)
FIND_PYTHON = for p in $(CANDIDATES); do \
	    "$$p" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && found=$$p && break; \
	done; \
	if [ -z "$${found:-}" ]; then \
	    for p in $(CANDIDATES); do \
	        if "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	            echo "make: $$p cannot make virtual environments (no venv or ensurepip)." >&2; \
	            echo "      On Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; \
	        fi; \
	    done; \
	    echo "make: no Python 3.11 or newer found (tried: $(CANDIDATES))." >&2; \
	    echo "      Install one, or name it: make PYTHON=/path/to/python3 $(MAKECMDGOALS)" >&2; exit 1; \
	fi

.PHONY: help
help:
	@echo 'make demo           scan recorded logs and show what is found'
	@echo 'make test           ruff, mypy --strict and all tests but the slow ones and those of the next line'
	@echo 'make test-system    a booted systemd, the service as shipped in it, real servers raced beside it (root)'
	@echo 'make accuracy       compare every recording with what its clients saw'
	@echo 'make live-accuracy  the same against a real server, driven into the race here, and with a daemon beside it'
	@echo 'make bench          speed and memory beside rg and grep (SIZE=small for a quick look)'
	@echo 'make man            manual pages and completions, made from the commands, in build/'
	@echo 'make deb            the Debian package, in dist/ (DEB_PYTHON=/usr/bin/python3: the distribution'"'"'s)'
	@echo 'make test-deb       installs it in a fresh minimal Debian, boots that, purges it (root, debootstrap)'
	@echo 'make newcomer       from that Debian with a llama-server to its first incident, each step timed'
	@echo 'make evidence       the long forms of all of these, written to $(EVIDENCE)/'
	@echo 'make clean          remove .venv, caches and build results'

$(VENV)/.made:
	@$(FIND_PYTHON); \
	echo "Setting up $(VENV) with $$("$$found" --version) ..."; \
	rm -rf $(VENV) && "$$found" -m venv $(VENV) && touch $@

$(VENV)/.installed: $(VENV)/.made pyproject.toml
	@$(PY) -m pip install -qq -e . && touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "Installing the test tools ..."
	@$(PY) -m pip install -qq -e '.[dev]' && touch $@

.PHONY: demo
demo: $(VENV)/.installed
	@$(BIN)/sleepwatch scan --table \
	    $(CORPUS)/b11368-default-gaveup/server.log \
	    $(CORPUS)/b11368-lv5-rescue/server.log.gz \
	    $(CORPUS)/x11549-crash-default/server.log \
	    $(CORPUS)/journal-two-units-short/journal.short

# What runs in real time has the machine to itself.
.PHONY: test
test: $(VENV)/.installed-dev
	$(BIN)/ruff check
	$(BIN)/mypy
	$(PY) -m pytest -q -n auto --maxprocesses 8 -m 'not live and not slow and not system'
	$(PY) -m pytest -q -m 'live and not slow and not system'

# Root, systemd-nspawn and dpkg; without them its tests are skipped, and counted.
.PHONY: test-system
test-system: $(VENV)/.installed-dev
	$(PY) -m pytest -v -m 'system and not slow'

.PHONY: accuracy
accuracy: $(VENV)/.installed
	@$(PY) tests/accuracy/recorded.py

.PHONY: live-accuracy
live-accuracy: $(VENV)/.installed-dev
	@$(PY) tests/accuracy/live.py
	@$(PY) tests/accuracy/followed.py

.PHONY: bench
bench: $(VENV)/.installed
	@$(PY) -m tests.bench.compare --size $(SIZE)

DEB_PYTHON ?= /usr/bin/python3
SUITE ?= bookworm

.PHONY: man
man: $(VENV)/.installed
	@$(PY) packaging/tools/generate.py build && ls build/man build/completions

.PHONY: deb
deb: $(VENV)/.installed
	@rm -f dist/sleepwatch_*.deb
	@$(PY) packaging/tools/deb.py --python $(DEB_PYTHON) --into dist

.PHONY: test-deb
test-deb: $(VENV)/.installed-dev deb
	@$(PY) -m tests.packaging.fresh_debian --suite $(SUITE) dist/sleepwatch_*.deb

.PHONY: newcomer
newcomer: $(VENV)/.installed-dev deb
	@$(PY) -m tests.packaging.newcomer --suite $(SUITE) dist/sleepwatch_*.deb

# Each file of evidence begins with what it was made of and on; then each command, and what it printed.
ON = $$(git rev-parse --short HEAD 2>/dev/null || echo release), $$(date -u +%F), $$(uname -srm), $$(getconf _NPROCESSORS_ONLN) cores
INTO = @mkdir -p $(EVIDENCE); into() { file=$(EVIDENCE)/$$1; shift; echo "$(ON)" > "$$file"; \
    for command; do echo "\$$ python $$command"; $(PY) $$command || return 1; done >> "$$file"; echo "$$file"; }; into

.PHONY: evidence
evidence: $(VENV)/.installed-dev
	$(INTO) accuracy.txt 'tests/accuracy/recorded.py'
	$(INTO) live-accuracy.txt 'tests/accuracy/live.py --races 120'
	$(INTO) wake.txt 'tests/wake/rescue.py' 'tests/wake/front.py'
	$(INTO) witnesses.txt 'tests/accuracy/followed.py' 'tests/accuracy/traffic.py' 'tests/bench/snapshot.py'
	$(INTO) bench.txt '-m tests.bench.compare'
	$(INTO) daemon.txt 'tests/bench/daemon.py'
	$(INTO) slow-tests.txt '-m pytest -q --no-header --durations=15 -m slow'

.PHONY: clean
clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
