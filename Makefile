# Every target uses the Python of the environment it is run in: make check PYTHON=.venv/bin/python
PYTHON ?= python3

.PHONY: check lint types test nightly schema

check: lint types test

lint:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .

types:
	$(PYTHON) -m mypy

test:
	$(PYTHON) -m pytest

nightly:
	$(PYTHON) -m pytest -m slow

schema:
	$(PYTHON) -m volta_pass.spec.schema > configs/launch_spec.schema.json
