# All commands make their own environment in .venv the first time and reuse it after that.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: serve test test-page demo report dist clean

serve: $(READY)
	$(BIN)/xlda serve shop.xlda

demo: $(READY)
	$(BIN)/xlda demo

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist loadfile

# The page in a browser, from the wheel in an environment that has nothing else. `make test` takes the checkout.
test-page: $(READY)
	$(BIN)/python -m pip install --quiet --editable '.[browser]'
	rm -rf dist/page && mkdir -p dist/page
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist/page .
	$(PYTHON) -m venv dist/page/venv
	dist/page/venv/bin/python -m pip install --quiet "$$(echo dist/page/*.whl)[serve]"
	XLDA_WHEEL_BIN=$(CURDIR)/dist/page/venv/bin $(BIN)/pytest tests/page

# All benchmarks, and the report on them. PRESET=quick takes minutes, standard some four hours, full a day or more.
PRESET ?= standard
report: .venv/.ready-to-measure
	$(BIN)/python benchmarks/run.py --preset $(PRESET)

# The sdist, the wheel that is built from it, and the tests as they are in the sdist.
dist: $(READY)
	rm -rf dist
	$(BIN)/python -m pip install --quiet hatchling
	$(BIN)/hatchling build --target sdist
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist dist/*.tar.gz
	mkdir dist/unpacked && tar -xzf dist/*.tar.gz -C dist/unpacked --strip-components 1
	cd dist/unpacked && PYTHONPATH=$(CURDIR)/dist/unpacked/src $(CURDIR)/$(BIN)/pytest

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis dist demo report

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

.venv/.ready-to-measure: pyproject.toml
	test -d .venv || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[bench]' torch==2.13.0
	$(BIN)/python -m pip install --quiet --no-deps efficientnet_lite_pytorch==0.1.0
	touch $@
