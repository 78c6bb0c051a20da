# PYTHON=python3.12 chooses the interpreter of .venv; without it a fitting one is looked for.
.PHONY: quickstart test test-all lint clean
WORKERS ?= auto
export PYTHON

quickstart:
	@sh scripts/environment.sh requirements.txt
	@.venv/bin/python scripts/quickstart.py

# Tests of one file share their compilations, so a file stays with one worker. Most programs run once and are small:
# compiling them takes longer than running them, so here the compiler optimises nothing; in test-all it does.
test:
	@sh scripts/environment.sh requirements-dev.txt
	@XLA_FLAGS="$$XLA_FLAGS --xla_backend_optimization_level=0" .venv/bin/python -m pytest -q -n $(WORKERS) --dist loadfile -m "not slow"

test-all:
	@sh scripts/environment.sh requirements-dev.txt
	@.venv/bin/python -m pytest -q -n $(WORKERS) --dist loadfile

lint:
	@sh scripts/environment.sh requirements-dev.txt
	@.venv/bin/python -m ruff check .

clean:
	rm -rf .venv .cache .pytest_cache .ruff_cache .hypothesis
