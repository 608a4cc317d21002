# Each target does what it needs by itself, from a fresh clone, with Python 3.11 or newer and a package index.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
CODE := src tests benchmarks stress docs/site docs/tour.ipynb
PIP := pip --quiet --disable-pip-version-check install --no-compile
CORE := $(addprefix tests/,model recipe runtime search text training translation)
EXTRAS := test,check,int8,figures,tensorboard,parsing,languages,ctranslate2,hugging-face,onnx,sentencepiece,japanese,korean,documents,serve,docs

.PHONY: setup demo compiled quick test test-slow check newest wheel bench docs clean

# Python compiles what a command imports; pip would compile all modules of all packages, for a minute.
setup: $(READY)

$(READY): pyproject.toml constraints.txt Makefile
	$(PYTHON) -m venv .venv
	$(BIN)/$(PIP) -c constraints.txt -e '.[$(EXTRAS)]'
	touch $(READY)

demo: $(READY)
	$(BIN)/transduce demo --minutes 5.8

# The searches of CPUs, for this processor; each process of the tests would compile them.
compiled: $(READY)
	$(BIN)/python -m transduce.search

# For the inner loop: tests of the core that neither train nor start a process, within a minute.
quick: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest $(CORE) -m quick -n 2 --quiet --ignore tests/model/test_baselines.py

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

# What somebody gets who installs today: the newest releases that the index has for PYTHON, without the pins.
newest:
	rm -rf .venv-newest
	$(PYTHON) -m venv .venv-newest
	.venv-newest/bin/$(PIP) --upgrade -e '.[$(EXTRAS)]'
	.venv-newest/bin/python -c "import sys, torch, numpy; print('Python', sys.version.split()[0], 'torch', torch.__version__, 'NumPy', numpy.__version__)"
	.venv-newest/bin/transduce demo --minutes 1 --out .venv-newest/demo
	OMP_NUM_THREADS=1 .venv-newest/bin/pytest $(CORE) -m quick -n 2 --quiet --ignore tests/model/test_baselines.py

# The wheel alone in an empty environment, away from the clone: no file and no package is missing.
wheel: $(READY)
	rm -rf .venv-wheel build/lib
	$(PYTHON) -m venv .venv-wheel
	$(BIN)/pip --quiet --disable-pip-version-check wheel --no-deps --wheel-dir .venv-wheel .
	.venv-wheel/bin/$(PIP) -c constraints.txt .venv-wheel/*.whl
	cd .venv-wheel && bin/transduce demo --minutes 0.2 --out demo && echo "The old man sees the dog." | bin/transduce translate demo

bench: $(READY)
	$(BIN)/transduce bench train --preset tiny
	test -d runs/demo || $(MAKE) demo
	$(BIN)/transduce bench translate runs/demo

# The site: open build/site/index.html. The variable silences a notice of mkdocs-material about its successor.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

clean:
	rm -rf .venv .venv-newest .venv-wheel build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
