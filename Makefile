# Every target uses the Python of the environment it is run in: make check PYTHON=.venv/bin/python
PYTHON ?= python3

.PHONY: check lint types test nightly tilelang browser compat upgrades upgrades-tilelang schema instructions modules

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

# the oldest and the middle Triton that the hook supports, each in a fresh environment
COMPAT_TRITON ?= 3.7.1 3.8.0

compat:
	for version in $(COMPAT_TRITON); do \
	    rm -rf build/compat-$$version && $(PYTHON) -m venv build/compat-$$version && \
	    build/compat-$$version/bin/pip install -q '.[triton,dev]' triton==$$version && \
	    build/compat-$$version/bin/python -m pytest -n 2 tests/hooks tests/references || exit 1; \
	done

# every version records the demo's kernels, and every other one compiles and compares them
UPGRADES ?= 3.7.1 3.8.0 3.9.0
UPGRADES_TILELANG ?= 0.1.14 0.1.15
RECORDED_TILELANG ?= "matmul 32x32x32 s2" elementwise softmax

upgrades:
	for version in $(UPGRADES); do \
	    rm -rf build/upgrade-$$version build/recorded-$$version && $(PYTHON) -m venv build/upgrade-$$version && \
	    build/upgrade-$$version/bin/pip install -q '.[triton]' triton==$$version && \
	    build/upgrade-$$version/bin/volta-pass baseline record build/recorded-$$version --target cuda:80 -- python configs/demo/autotuned.py || exit 1; \
	done; \
	for old in $(UPGRADES); do for new in $(UPGRADES); do \
	    if [ $$old != $$new ]; then build/upgrade-$$new/bin/volta-pass baseline check build/recorded-$$old || exit 1; fi; \
	done; done

# the same for TileLang; needs nvcc, as `make tilelang` does
upgrades-tilelang:
	for version in $(UPGRADES_TILELANG); do \
	    rm -rf build/upgrade-tl-$$version build/recorded-tl-$$version && $(PYTHON) -m venv build/upgrade-tl-$$version && \
	    build/upgrade-tl-$$version/bin/pip install -q torch==2.13.0 tilelang==$$version . && \
	    (command -v nvcc >/dev/null || build/upgrade-tl-$$version/bin/pip install -q nvidia-cuda-nvcc) && \
	    build/upgrade-tl-$$version/bin/volta-pass baseline record build/recorded-tl-$$version --target cuda:80 -- \
	        python configs/suite/tilelang/suite.py $(RECORDED_TILELANG) || exit 1; \
	done; \
	for old in $(UPGRADES_TILELANG); do for new in $(UPGRADES_TILELANG); do \
	    if [ $$old != $$new ]; then build/upgrade-tl-$$new/bin/volta-pass baseline check build/recorded-tl-$$old || exit 1; fi; \
	done; done

schema:
	$(PYTHON) -m volta_pass.spec.schema > configs/launch_spec.schema.json

instructions:
	$(PYTHON) -m ptx_engine.isa.instruction_page > docs/instructions.md

modules:
	$(PYTHON) docs/module_map.py > docs/modules.md
