# Every target works from a bare clone: it makes .venv, installs the package there and runs.
# A second run installs again only if a source file has changed.

# The first Python that is new enough; give another one as `make PYTHON=...`.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)

VENV := .venv
BIN := $(VENV)/bin
# V=1 shows what the compiler says.
PIP := $(BIN)/python -m pip --disable-pip-version-check $(if $(V),--verbose,--quiet)
# Building in the environment itself, into a folder that stays, makes the second build quick.
BUILD := --no-build-isolation --no-deps --config-settings=build-dir=build/{wheel_tag}
# Test files share the processors; one file stays in one process, for the sake of its fixtures.
SIDE_BY_SIDE := -n auto --dist loadfile --no-loadscope-reorder
FALLBACK := $(addprefix solvers/test_,conditional fallback kernels maximize memory_limit perturb) \
	$(addprefix bounds/test_,bethe bracket mean_field strips transfer) \
	$(addprefix sampling/test_,cftp chains marginals methods scan) structures/test_conditioned_models learning/test_features
# Rewriting the assertions of all files takes longer than collecting them: keep what was compiled.
test test-fallback: export PYTHONDONTWRITEBYTECODE :=
CPP = $(wildcard src/kernels/*.[ch]pp tests/kernels/*.[ch]pp)
# Folders too: they change when a file is removed.
SOURCES := pyproject.toml README.md LICENSE $(wildcard CMakeLists.txt) \
	$(shell find src \( -name __pycache__ -o -name '*.so' \) -prune -o -print)
# The requirements in the given tables of pyproject.toml, without those on the package itself.
REQUIREMENTS = $(BIN)/python -c 'import sys, tomllib; \
	t = tomllib.load(open("pyproject.toml", "rb")); p = t["project"]; \
	s = {"build": t["build-system"]["requires"], "core": p["dependencies"], **p["optional-dependencies"]}; \
	print(*(r for name in sys.argv[1:] for r in s[name] if not r.startswith("logsuper[")), sep="\n")'

.PHONY: help demo test test-torch test-kernels test-fallback test-no-compiler sanitize check format docs bench wheel install clean
.DEFAULT_GOAL := help

help:
	@echo 'make install           make .venv and install logsuper there'
	@echo 'make demo              learn from noisy silhouettes, clean others, report in demo/'
	@echo 'make test              run the tests, the solver part without compiled kernels too'
	@echo 'make test-torch        install PyTorch and test the layers over it'
	@echo 'make test-kernels      run the unit tests of the C++ code alone'
	@echo 'make check             style, types and the direction of imports'
	@echo 'make format            put the style right where that can be done by a tool'
	@echo 'make docs              build the documentation into build/docs; warnings are errors'
	@echo 'make bench             measure against other solvers'
	@echo 'make wheel             build a wheel, audit it, and test it in a clean environment without a compiler'
	@echo 'make test-no-compiler  install from source without a compiler and test that'
	@echo 'make sanitize          run the kernels under the sanitizers of the compiler'
	@echo 'make clean             remove what make has made'

demo: install
	$(BIN)/logsuper demo --out demo

test: install $(VENV)/test.stamp
	$(MAKE) --no-print-directory test-kernels
	$(BIN)/python -m pytest $(SIDE_BY_SIDE)
	$(MAKE) --no-print-directory test-fallback

# PyTorch is large: only this target installs it. Without it the tests of the layers are skipped.
test-torch: install $(VENV)/test.stamp $(VENV)/torch.stamp
	$(BIN)/python -m pytest tests/torch_layers --doctest-modules --pyargs logsuper.torch

# Unit tests of the C++ code, for both instruction sets.
test-kernels: COMPILER := $(if $(filter default,$(origin CXX)),c++,$(CXX))
test-kernels: $(VENV)/core.stamp
	@PATH="$(CURDIR)/$(BIN):$$PATH"; command -v cmake > /dev/null && command -v $(COMPILER) > /dev/null || \
		{ echo 'C++ tests skipped: no CMake or no C++ compiler ($(COMPILER)).'; exit 0; }; \
	cmake -S tests/kernels -B build/kernel-tests -DCMAKE_CXX_COMPILER=$(COMPILER) > /dev/null && \
	cmake --build build/kernel-tests --parallel 2 > build/kernel-tests/log || \
		{ cat build/kernel-tests/log; exit 1; }; \
	for tests in baseline avx2; do \
		[ ! -x build/kernel-tests/$$tests ] || build/kernel-tests/$$tests || exit 1; done

# Without kernels only what asks for them goes another way, and most of that runs beside the kernels
# above: these files reach every line of it. Windows on large images take NumPy long.
test-fallback: install $(VENV)/test.stamp
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) --no-kernels $(FALLBACK:%=tests/%.py) \
		--deselect tests/bounds/test_strips.py::test_posteriors_of_silhouettes_are_almost_exact \
		--deselect tests/bounds/test_strips.py::test_wider_windows_are_tighter_on_posteriors

sanitize: $(VENV)/core.stamp $(VENV)/test.stamp
	$(BIN)/python -m tests.sanitize

check: install $(VENV)/test.stamp $(VENV)/dev.stamp
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/clang-format --dry-run --Werror $(CPP)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/wish.yml
	$(BIN)/zizmor --offline --quiet .github

format: $(VENV)/dev.stamp
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/clang-format -i $(CPP)

# The API, the gallery and all formulas, without internet; then every internal link is followed.
docs: install $(VENV)/docs.stamp
	$(BIN)/python -m sphinx -q -b html -n -W --keep-going docs build/docs
	$(BIN)/python docs/check_links.py build/docs

bench: install $(VENV)/bench.stamp
	$(BIN)/python -m benchmarks

install: $(VENV)/install.stamp

# ---- how the environment comes about ----------------------------------------------------------

$(VENV)/bin/python:
	@[ -n '$(PYTHON)' ] || { echo 'logsuper needs Python 3.11 or newer, and none was found on the PATH.'; \
		echo 'Install one, or name it: make PYTHON=/path/to/python3.11'; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'logsuper needs Python 3.11 or newer; $(PYTHON) is' "$$($(PYTHON) --version 2>&1)."; exit 1; }
	@echo 'Making a virtual environment in $(VENV) ...'
	@$(PYTHON) -m venv --clear $(VENV) || { rm -rf $(VENV); exit 1; }

# The build tools, CMake and Ninja only where the system has none, and what the package needs at run time.
$(VENV)/core.stamp: pyproject.toml | $(VENV)/bin/python
	@echo 'Installing what logsuper stands on ...'
	@$(REQUIREMENTS) build core > $(VENV)/core.txt
	@$(PIP) install -r $(VENV)/core.txt
	@$(BIN)/python -c 'import scikit_build_core.build as b; print(*b.get_requires_for_build_wheel(), sep="\n")' \
		> $(VENV)/tools.txt
	@$(PIP) install -r $(VENV)/tools.txt
	@touch $@

$(VENV)/install.stamp: $(VENV)/core.stamp $(SOURCES)
	@echo 'Building and installing logsuper ...'
	@$(PIP) install $(BUILD) --force-reinstall .
	@$(BIN)/python -c 'import importlib.util as u, logsuper; \
		print("logsuper", logsuper.__version__, "with compiled kernels" if u.find_spec("logsuper._kernels") \
		else "WITHOUT compiled kernels: slower (touch pyproject.toml; make install V=1 shows why)")'
	@touch $@

$(VENV)/%.stamp: pyproject.toml | $(VENV)/core.stamp
	@echo 'Installing the tools of [$*] ...'
	@$(REQUIREMENTS) $* > $(VENV)/$*.txt
	@$(PIP) install -r $(VENV)/$*.txt
	@touch $@

# ---- clean environments -----------------------------------------------------------------------

# Nothing but the environment itself on the PATH, and compilers that fail should one be found all the same.
NO_COMPILER = env PATH="$(CURDIR)/$(1)/bin" CC=/bin/false CXX=/bin/false

# On Linux auditwheel names the oldest systems that the wheel runs on, and fails if there are none. Wheels that are
# published are built on older systems (.github/workflows/wheels.yml).
wheel: $(VENV)/core.stamp $(VENV)/wheel.stamp
	rm -rf dist build/wheel build/wheel-env
	$(PIP) wheel $(BUILD) --wheel-dir build/wheel .
	@$(BIN)/python -m zipfile -l build/wheel/*.whl | grep _kernels > /dev/null || \
		{ echo 'The wheel has no compiled kernels: see what the C++ compiler said.'; exit 1; }
	mkdir -p dist
	@if [ "$$(uname)" = Linux ]; then \
		PATH="$(CURDIR)/$(BIN):$$PATH" auditwheel repair --wheel-dir dist build/wheel/*.whl && \
		PATH="$(CURDIR)/$(BIN):$$PATH" auditwheel show dist/*.whl; \
	else cp build/wheel/*.whl dist; fi
	$(BIN)/python -m venv build/wheel-env
	$(call NO_COMPILER,build/wheel-env) python -m pip --disable-pip-version-check -q install "$$(echo dist/*.whl)[test]"
	$(call NO_COMPILER,build/wheel-env) python -c 'import logsuper._kernels'
	$(call NO_COMPILER,build/wheel-env) python -m pytest tests/solvers

test-no-compiler: $(VENV)/core.stamp
	rm -rf build/pure-env
	$(BIN)/python -m venv build/pure-env
	$(call NO_COMPILER,build/pure-env) python -m pip --disable-pip-version-check -q install '.[test]'
	$(call NO_COMPILER,build/pure-env) python -c 'import importlib.util as u; assert u.find_spec("logsuper._kernels") is None'
	$(call NO_COMPILER,build/pure-env) python -m pytest tests/solvers

clean:
	rm -rf $(VENV) build dist demo docs/api docs/gallery .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
