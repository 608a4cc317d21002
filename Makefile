# Each target does what it needs by itself, from a fresh clone, with Python 3.11 or newer and a package index.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
CODE := src tests benchmarks docs/site docs/tour.ipynb

.PHONY: setup demo compiled test test-slow check bench docs clean

# Python compiles what a command imports; pip would compile all modules of all packages, for a minute.
setup: $(READY)

$(READY): pyproject.toml constraints.txt Makefile
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e '.[test,check,int8,parsing,languages,ctranslate2,hugging-face,onnx,sentencepiece,japanese,korean,documents,serve,docs]'
	touch $(READY)

demo: $(READY)
	$(BIN)/transduce demo --minutes 5.8

# The searches of CPUs, for this processor; each process of the tests would compile them.
compiled: $(READY)
	$(BIN)/python -m transduce.search

# Two processes of one thread each: the tests are many and small.
test: compiled
	OMP_NUM_THREADS=1 $(BIN)/pytest -m 'not slow' -n 2 --dist loadfile --no-loadscope-reorder

test-slow: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest -m slow

check: $(READY)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)
	$(BIN)/transduce bench train --preset tiny
	test -d runs/demo || $(MAKE) demo
	$(BIN)/transduce bench translate runs/demo

# The site: open build/site/index.html. The variable silences a notice of mkdocs-material about its successor.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

clean:
	rm -rf .venv build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
