# Every target uses the Python of the environment it is run in: make check PYTHON=.venv/bin/python
PYTHON ?= python3

.PHONY: check lint types test nightly tilelang browser compat compat-tests compat-triton compat-tilelang schema instructions modules

check: lint types test

lint:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .

types:
	$(PYTHON) -m mypy

test:
	$(PYTHON) -m pytest -n 2

nightly:
	$(PYTHON) -m pytest -n 2 -m slow

# needs chromium
browser:
	$(PYTHON) -m pytest -m browser

# TileLang kernels, in an environment of their own: needs nvcc, which TileLang runs (else: pip install nvidia-cuda-nvcc)
tilelang:
	rm -rf build/tilelang && $(PYTHON) -m venv build/tilelang
	build/tilelang/bin/pip install -q torch==2.13.0 tilelang==0.1.15 pytest pytest-timeout pytest-xdist -e .
	command -v nvcc >/dev/null || build/tilelang/bin/pip install -q nvidia-cuda-nvcc
	build/tilelang/bin/python -m pytest -n 2 tests/tilelang

# older compilers, each in a fresh environment: the hook's tests under the older Tritons; launches recorded under each
# version, compiled and compared under every newer one (a table at the end). TileLang needs nvcc, as in `make tilelang`.
# In pieces: make compat-triton VERSIONS="3.8.0 3.9.0"
COMPAT_TRITON ?= 3.7.1 3.8.0
VERSIONS ?=

compat: compat-tests compat-triton compat-tilelang

compat-tests:
	for version in $(COMPAT_TRITON); do \
	    rm -rf build/compat-$$version && $(PYTHON) -m venv build/compat-$$version && \
	    build/compat-$$version/bin/pip install -q '.[triton,dev]' triton==$$version && \
	    build/compat-$$version/bin/python -m pytest -n 2 tests/hooks tests/references || exit 1; \
	done

compat-triton:
	$(PYTHON) tests/baseline/version_matrix.py triton $(or $(VERSIONS),3.7.1 3.8.0 3.9.0)

compat-tilelang:
	$(PYTHON) tests/baseline/version_matrix.py tilelang $(or $(VERSIONS),0.1.14 0.1.15)

schema:
	$(PYTHON) -m volta_pass.spec.schema > configs/launch_spec.schema.json

instructions:
	$(PYTHON) -m ptx_engine.isa.instruction_page > docs/instructions.md

modules:
	$(PYTHON) docs/module_map.py > docs/modules.md
