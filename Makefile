# Everything a clone needs: `make demo` and `make test` set up .venv/ by themselves.

PYTHON ?= $(shell for python in python3.11 python3 python3.12 python3.13; do \
	if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$python; break; fi; done)
EXTRAS = test,fast,milp,gurobi,marabou,safetensors,ray,plot,zoo
WORKERS ?= 2
SECONDS ?= 3600

BIN = .venv/bin
READY = .venv/.ready
# WORKERS=2 runs the tests on two processes, 0 in this one; one thread each.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS)
KARENINA = $(BIN)/karenina
CARTPOLE = src/karenina/zoo/policies/cartpole
DEMO = build/demo

.PHONY: setup demo test test-slow lint fuzz fuzz-parsers bench reproduce clean
.DEFAULT_GOAL := test

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "karenina needs Python 3.11 or later: make PYTHON=/path/to/python" >&2; exit 1; }
	@echo "Setting up .venv (some minutes the first time) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $@

demo: $(READY)
	@echo "16 Cartpole policies that differ only in their training's seed. On platforms they were not trained on (two boxes"
	@echo "of states), how far can any two of them ever disagree, and which ones agree with the others?"
	@echo
	@rm -rf $(DEMO)
	@$(KARENINA) select $(CARTPOLE) --domain $(CARTPOLE)/domain.toml --distance c-distance --tolerance 0.01 \
		--iterations 7 --jobs 2 --no-cache --out $(DEMO) --report
	@echo
	@echo "What they had earned in simulation, which the selection did not know (in-distribution: where they were trained):"
	@$(KARENINA) zoo rewards cartpole --run $(DEMO)
	@echo
	@echo "All pairs with their witnesses are in $(DEMO)/selection.json; to look at, open in a browser:"
	@echo "$(abspath $(DEMO))/report.html"

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

test: lint
	$(PYTEST) -m "not slow"

test-slow: $(READY)
	$(PYTEST)

# Until stopped, or as told: make fuzz FUZZ="--seconds 600 --seed 1". What fails is kept in tests/regressions/.
fuzz: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python fuzz/engine.py $(FUZZ)

# Every parser in turn, for SECONDS of processor time in all; what is found is kept in build/fuzz-parsers/findings.
fuzz-parsers: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[fuzz]'
	OMP_NUM_THREADS=1 $(BIN)/python fuzz/parsers.py --seconds $(SECONDS)

bench: $(READY)
	$(BIN)/python benchmarks/versus.py
	$(BIN)/python benchmarks/table.py
	$(BIN)/python benchmarks/certify.py
	$(BIN)/python benchmarks/copies.py
	$(BIN)/python benchmarks/deep.py
	$(BIN)/python benchmarks/tanh.py
	$(BIN)/python benchmarks/laziness.py
	$(BIN)/python benchmarks/limit.py

# Measures every pair of every population anew; `karenina reproduce all --out docs/results` uses the stored ones.
reproduce: $(READY)
	$(KARENINA) reproduce all --anew --jobs $(WORKERS) --out docs/results --page docs/results.md

clean:
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
