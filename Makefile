# A machine needs Python 3.10 or newer and a JDK 17 or newer. All else is fetched once: Python packages
# into .venv, the jars of Kafka and Delta into the cache of streaming/jvm/jars.py.

PYTHON ?= python3

VENV       := .venv
BIN        := $(VENV)/bin
INSTALLED  := $(VENV)/.installed
WHEELHOUSE := .cache/wheelhouse
PIP        := $(BIN)/python -m pip --disable-pip-version-check --quiet
INSTALL    := $(BIN)/uv pip install --quiet --python $(BIN)/python
PYTEST     := $(BIN)/python -m pytest
# In the order of tests/conftest.py: real servers first, which have few tests in a file.
TWO_FILES  := -n 2 --dist loadfile --no-loadscope-reorder
# One worker has all tests with a JVM (tests/conftest.py).
TWO_HALVES := -n 2 --dist loadgroup --no-loadscope-reorder
LINT_LOG   := .cache/lint.log
COMPILE    := $(BIN)/uv pip compile --universal --python-version 3.10 --generate-hashes \
              --no-emit-index-url --custom-compile-command 'make lock' --quiet

# In the project: a copy of PySpark for each clone fills the cache of a user.
export UV_CACHE_DIR := $(CURDIR)/.cache/uv
# Docker images set it; without bytecode, each process compiles every module that it imports.
unexport PYTHONDONTWRITEBYTECODE

# streaming/jvm/java.py imports the standard library only, so it can speak before anything is installed.
define CHECK_JAVA
import sys
from streaming.jvm.java import JavaNotFound, find_java
try:
    find_java()
except JavaNotFound as error:
    sys.exit(f"Error: {error}")
endef
export CHECK_JAVA

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv demo reference docs docs-serve dist test test-long test-cluster test-all lint test-unit test-spark test-integration test-differential differential bench lock lock-jars clean check-python check-java

##@ Use

help: ## Show this help
	@awk -F ':.*## ' '/^##@ / { printf "\n%s\n", substr($$0, 5) } \
	    /^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(INSTALLED) ## Make .venv with everything in it; the second time nothing is done

demo: check-java venv ## A broker, live consumer groups, the tables beside the broker's own answers (DEMO_ARGS=...)
	@$(BIN)/coordinator-state demo --seconds 40 $(DEMO_ARGS)

clean: ## Remove what make made; checkpoints and tables stay
	rm -rf $(VENV) .cache dist site .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache

##@ Develop

lint: venv ## ruff, mypy and the import contract
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

reference: venv ## Write the generated pages of docs/, and the sources and views of dbt
	$(BIN)/python -m docsite

docs: venv ## Build the documentation site into site/; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-serve: venv ## Serve the documentation site, and build it again after each change
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

lock: venv ## Resolve requirements/*.lock again after a change of dependencies (LOCK_ARGS=--upgrade)
	$(COMPILE) pyproject.toml --extra streaming --extra lineage --group dev -o requirements/dev.lock $(LOCK_ARGS)
	$(COMPILE) pyproject.toml --extra streaming --extra lineage -c requirements/dev.lock -o requirements/streaming.lock $(LOCK_ARGS)
	$(COMPILE) pyproject.toml -c requirements/dev.lock -o requirements/core.lock $(LOCK_ARGS)
	$(COMPILE) --group installer -c requirements/dev.lock -o requirements/installer.lock $(LOCK_ARGS)
	$(COMPILE) --group deploy -c requirements/streaming.lock -o requirements/deploy.lock $(LOCK_ARGS)

lock-jars: check-java venv ## Fetch every jar anew and write its SHA-512 into the lock files of jars
	$(BIN)/python -m tests.support.brokers.jar_sets

##@ Test

test: check-java venv ## Lint beside the tests of every module, about 6 minutes (PYTEST_ARGS=...)
	@$(MAKE) --no-print-directory lint >$(LINT_LOG) 2>&1 & \
	$(PYTEST) $(TWO_HALVES) -m "not long" $(PYTEST_ARGS); tests=$$?; \
	wait $$! || { cat $(LINT_LOG); echo "Error: make lint fails"; exit 1; }; \
	exit $$tests

test-long: check-java venv ## Some unit tests on the oldest and newest Python, then the long tests (PYTEST_ARGS=...)
	@pythons=0; $(BIN)/python -m tests.every_python $(PYTEST_ARGS) || pythons=$$?; \
	$(PYTEST) $(TWO_FILES) -m "long and not cluster and not release" $(PYTEST_ARGS) && exit $$pythons

test-cluster: check-java venv ## Faults of executors, tables in a catalog, a job of spark-submit (PYTEST_ARGS=...)
	$(PYTEST) -m "cluster and not release" $(PYTEST_ARGS)

test-all: check-java lint ## Every test, also those that CI leaves out, and all unit tests on every Python (two hours)
	$(PYTEST) $(TWO_FILES) -m "not cluster" $(PYTEST_ARGS)
	$(PYTEST) -m cluster $(PYTEST_ARGS)
	$(BIN)/python -m tests.every_python --all $(PYTEST_ARGS)

test-unit: venv ## Tests that need neither Spark nor a broker, and the doctests
	$(PYTEST) coordinator_state streaming tests/unit tests/property tests/bench -m "not integration and not spark" $(PYTEST_ARGS)

test-spark: check-java venv ## Tests that need a Spark session
	$(PYTEST) tests/spark tests/unit tests/property -m spark $(PYTEST_ARGS)

test-integration: check-java venv ## Tests against a broker they start themselves
	$(PYTEST) tests/integration tests/bench -m integration $(PYTEST_ARGS)

test-differential: check-java venv ## A few rounds of it, as tests
	$(PYTEST) tests/differential $(PYTEST_ARGS)

differential: check-java venv ## Random logs in front of a real broker (REPLAY=file, DIFFERENTIAL_ARGS=...)
	$(BIN)/python -m tests.differential $(if $(REPLAY),--replay $(REPLAY)) $(DIFFERENTIAL_ARGS)

bench: check-java venv ## Measure everything that has a target, for about 40 minutes (BENCH_ARGS=--quick: about five)
	$(BIN)/python -m bench.report $(BENCH_ARGS)

##@ Release

dist: venv ## Build the wheel, the sdist, the software bill of materials and SHA256SUMS into dist/
	@rm -rf dist
	@$(BIN)/python -m hatchling build --directory dist
	@# It warns that a lock file does not say which package needs which.
	@$(BIN)/python -W ignore -m cyclonedx_py requirements requirements/streaming.lock --pyproject pyproject.toml \
	    --output-reproducible --output-file dist/coordinator-state.cdx.json
	@cd dist && sha256sum -- * > SHA256SUMS

# What the pure core needs, kept as wheels: the test that installs our wheel alone needs no network.
# The copy of the lock file says what is there: a file that is merely newer fetches nothing.
$(WHEELHOUSE)/core.lock: requirements/core.lock | $(VENV)/pyvenv.cfg
	@cmp -s $< $@ || { \
	    echo "Fetching the packages of $< into $(WHEELHOUSE) ..." >&2 && rm -rf $(WHEELHOUSE) && \
	    $(PIP) wheel --require-hashes -r $< --wheel-dir $(WHEELHOUSE) && cp $< $@; }
	@touch $@

$(INSTALLED): pyproject.toml requirements/installer.lock requirements/dev.lock $(WHEELHOUSE)/core.lock
	@echo "Installing the packages of requirements/dev.lock into $(VENV) (Spark among them: a minute or two) ..." >&2
	@$(PIP) install --require-hashes -r requirements/installer.lock
	@$(INSTALL) --require-hashes --find-links $(WHEELHOUSE) -r requirements/dev.lock
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@echo "Preparing the first start: Spark's classes and the loops of the decoder (up to a minute) ..." >&2
	@# Side by side. Without them everything works, too, but the first start takes longer.
	@# The last one leaves the bytecode of the packages, which uv does not compile.
	@$(BIN)/python -m streaming.run.loop_compilation & \
	    $(BIN)/python -m streaming.run.class_training & \
	    $(BIN)/python -W ignore -c 'import streaming.local.demo.demo, streaming.source.coordinator_log'; wait
	@touch $@

$(VENV)/pyvenv.cfg: | check-python
	@$(PYTHON) -m venv $(VENV)

check-python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || { \
	    echo "Error: $(PYTHON) is not Python 3.10 or newer; name one that is: make PYTHON=python3.12 ..." >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "Error: $(PYTHON) cannot make virtual environments; on Debian: apt-get install python3-venv" >&2; exit 2; }

check-java: check-python
	@$(PYTHON) -c "$$CHECK_JAVA"
