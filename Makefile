# Each target sets up what it needs in .venv; a second run is quick.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml setup.py $(wildcard kernels/*)

.PHONY: demo test test-statistical campaign lint bench bench-smoke bench-compare bench-history bench-large reproduce docs sanitize dist clean

demo: $(VENV)/.installed-demo
	$(BIN)/fastquad demo

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest -m "not statistical"

# The paper's figures and the tables of success rates, on fixed seeds: minutes.
test-statistical: $(VENV)/.installed-test
	$(BIN)/python -m pytest -m statistical

# Hostile problems of every class: is a success ever wrong? Minutes; hours with COUNT=100000.
COUNT ?= 1000
campaign: $(VENV)/.installed-test
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.studies.campaign $(COUNT) --show
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.studies.campaign.faults $(SHARE) --show

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports

bench: $(VENV)/.installed-bench
	$(BIN)/python -m pytest benchmarks/kernels --benchmark-only --benchmark-autosave --benchmark-storage=file://.benchmarks
	$(BIN)/python benchmarks/tools/report.py --output .benchmarks/report.md

bench-smoke: $(VENV)/.installed-test
	$(BIN)/python -m pytest benchmarks/kernels --benchmark-only --smoke --patience 0 -q

# What got slower since a commit, in units of the same run's bandwidth; `make bench-compare BASE=HEAD~1 ARGS="-k pass"`.
bench-compare: $(VENV)/.installed-bench
	@test -n "$(BASE)" || { echo "say which commit to compare with: make bench-compare BASE=<commit>" >&2; exit 2; }
	$(BIN)/python benchmarks/tools/compare.py $(BASE) -- $(ARGS)

bench-history: $(VENV)/.installed-bench
	$(BIN)/python benchmarks/tools/history.py

# Tensors of 40 GB on disk, and of terabytes never stored; asks for the room first, and removes what it made. ARGS="--yes
# --folder DIR" answers, and puts it elsewhere.
bench-large: $(VENV)/.installed-bench
	$(BIN)/python benchmarks/studies/large_n.py $(ARGS)

# Every figure of the paper, into reproduction/ and from there into the documentation; may be stopped and started again.
reproduce: $(VENV)/.installed-demo
	$(BIN)/fastquad reproduce all
	$(BIN)/python docs/collect_figures.py reproduction

docs: $(VENV)/.installed-docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

sanitize: $(VENV)/.installed-test
	.ci/sanitize $(BIN)/python

dist: $(VENV)/.installed-dev
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

clean:
	rm -rf $(VENV) build dist *.egg-info .benchmarks docs/_build docs/generated docs/reference

# The editable install compiles the kernels, once for all targets. After it, the packages of an extra are all that is left:
# pip takes the fastquad that is installed, and adds what the extra names.
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check install

$(VENV)/.built: $(SOURCES)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade pip
	$(PIP) --editable . --config-settings editable_mode=compat
	touch $@

$(VENV)/.installed-%: $(VENV)/.built
	$(PIP) "fastquad[$*]"
	touch $@
