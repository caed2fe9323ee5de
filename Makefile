# Everything a clone needs: `make demo` and `make test` set up .venv/ by themselves.

PYTHON ?= $(shell for python in python3.11 python3 python3.12 python3.13; do \
	if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$python; break; fi; done)
EXTRAS = test,fast,milp,gurobi,marabou,safetensors,ray,zoo
WORKERS ?= 2

BIN = .venv/bin
READY = .venv/.ready
# WORKERS=2 runs the tests on two processes, 0 in this one; one thread each.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS)
KARENINA = $(BIN)/karenina

.PHONY: setup demo test test-slow lint bench clean
.DEFAULT_GOAL := test

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "karenina needs Python 3.11 or later: make PYTHON=/path/to/python" >&2; exit 1; }
	@echo "Setting up .venv (some minutes the first time) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $@

demo: $(READY)
	@echo "1. The paper's toy network (Fig. 1): can its output reach 25 for non-negative inputs?"
	@$(KARENINA) verify examples/toy.onnx examples/toy.vnnlib
	@echo
	@echo "2. Two networks that learnt a * b on [-1, 1] x [-1, 1]: how far apart are they there?"
	@$(KARENINA) pdt examples/product_b.onnx examples/product_c.onnx --domain examples/seen.toml
	@echo
	@echo "3. The same two where they were not trained, one factor up to 3: how far apart at the most?"
	@$(KARENINA) pdt examples/product_b.onnx examples/product_c.onnx --domain examples/domain.toml
	@echo
	@echo "4. The answer of a MILP solver to question 3, as a check:"
	@$(KARENINA) pdt examples/product_b.onnx examples/product_c.onnx --domain examples/domain.toml --backend highs
	@echo
	@echo "5. Question 3 for another pair: of the three networks, product_b is the one that goes its own way."
	@$(KARENINA) pdt examples/product_a.onnx examples/product_c.onnx --domain examples/domain.toml

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

test: lint
	$(PYTEST) -m "not slow"

test-slow: $(READY)
	$(PYTEST)

bench: $(READY)
	$(BIN)/python benchmarks/versus.py
	$(BIN)/python benchmarks/deep.py

clean:
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
