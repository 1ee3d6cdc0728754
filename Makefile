# Two commands do all their own set-up: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# One worker more than there are cores; override with `make test WORKERS=1`.
WORKERS ?= auto
# Images of Python often forbid to keep bytecode; then each of the hundreds of programs that the tests
# start compiles all of its modules.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help venv demo test worlds soak vm upgrade lint fmt bench scoreboard docs dist release clean

help:  ## Show this list
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(STAMP)  ## Create .venv with the packages (editable) and their development tools

# Every distribution of the repository, editable.
PROJECTS := $(wildcard packages/*/pyproject.toml)
EDITABLE := $(PROJECTS:%/pyproject.toml=-e %)

$(STAMP): pyproject.toml $(PROJECTS) constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "numakube needs Python 3.11 or newer; set PYTHON=...")'
	@echo 'Setting up $(VENV): a minute or two, once.'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[dev]' $(EDITABLE)
	@# As pip would, on all cores, and our own modules as well; what is no Python 3 stays as it is.
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib src packages || true
	@touch $@

demo: venv  ## Show what numakube does
	@$(BIN)/numakube demo

test: venv lint  ## Run every check
	$(BIN)/pytest -n $(WORKERS) -q -rs

worlds: venv  ## Clusters drawn from all features, in virtual time: make worlds N=1000 SEED=7
	$(if $(ASSETS),KUBEBUILDER_ASSETS='$(ASSETS)') $(BIN)/python -m tests.worlds --count $(or $(N),200) --seed $(or $(SEED),1) $(if $(ASSETS),--real)

soak: venv  ## Minutes of faults, and of churn beside ten thousand pods that fit nowhere
	$(BIN)/pytest -q -m soak

vm: venv  ## The stack on a real kubelet: in a mount namespace and in a virtual machine
	$(BIN)/pytest -q -s -rs -m vm tests/vm

upgrade: venv  ## From an older release to this tree and back: make upgrade OLDER=FOLDER
	@test -n '$(OLDER)' || { echo 'OLDER names no folder with the files of an older release'; exit 2; }
	$(PYTHON) -m venv --clear .upgrade
	.upgrade/bin/python -m pip install --quiet --disable-pip-version-check --find-links '$(OLDER)' $(wildcard $(OLDER)/*.whl) 'numakube[all]'
	NUMAKUBE_OLDER='$(CURDIR)/.upgrade' NUMAKUBE_OLDER_DIST='$(abspath $(OLDER))' $(BIN)/pytest -q -rs -m upgrade tests/upgrade

lint: venv  ## Style, types and layers
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/mypy --num-workers 2
	$(BIN)/lint-imports --no-logo

fmt: venv  ## Format the code
	$(BIN)/ruff check --quiet --fix .
	$(BIN)/ruff format --quiet .

bench: venv  ## Measure; prints one JSON object a line
	@$(BIN)/python -m benchmarks

scoreboard: venv  ## Beside kube-scheduler and others in KUBEBUILDER_ASSETS: docs/results/scoreboard.md
	@$(BIN)/python -m benchmarks.scoreboard

docs: venv  ## Build the documentation as a site into site/; broken links are errors
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]' $(EDITABLE)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

dist: venv  ## Build a release into dist/: packages, chart, plug-in, manifests, checksums
	@rm -rf dist
	@$(BIN)/python -m release dist

release: venv  ## The same, and print the commands that sign and publish it; fails if it must not be
	@rm -rf dist
	@$(BIN)/python -m release dist --publish

clean:  ## Remove everything that make created
	rm -rf $(VENV) .vm .upgrade dist site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
