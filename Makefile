# PYTHON=python3.12 chooses the interpreter of .venv; without it a fitting one is looked for.
.PHONY: quickstart test test-all lint clean
WORKERS ?= auto
export PYTHON

quickstart:
	@sh scripts/environment.sh requirements.txt
	@.venv/bin/python scripts/quickstart.py

# Tests of one file share their compilations, so a file stays with one worker; files go out in the order of
# tests/conftest.py. Most quick tests run small programs once: compiling them takes longer than running them, so for
# them the compiler optimises nothing and makes fusions in its older, quicker way; for the slow ones it does its best.
PYTEST = .venv/bin/python -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder
QUICK_COMPILER = --xla_backend_optimization_level=0 --xla_backend_extra_options=xla_cpu_disable_new_fusion_emitters

test:
	@sh scripts/environment.sh requirements-dev.txt
	@XLA_FLAGS="$$XLA_FLAGS $(QUICK_COMPILER)" $(PYTEST) -m "not slow"

test-all: test
	@$(PYTEST) -m slow

lint:
	@sh scripts/environment.sh requirements-dev.txt
	@.venv/bin/python -m ruff check .

clean:
	rm -rf .venv .cache .pytest_cache .ruff_cache .hypothesis
