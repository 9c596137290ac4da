# Both commands make their own environment in .venv the first time and reuse it after that.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test clean

demo: $(READY)
	$(BIN)/xlda demo

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis dist demo

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@
