#!/bin/sh
# Makes .venv from a requirements file, or brings it up to date; does nothing when it already fits.
#   sh scripts/environment.sh requirements.txt        PYTHON=/path/to/python chooses the interpreter
set -eu
requirements=$1
lowest="3.11" highest="3.13"

fail() { echo "error: $1" >&2; exit 2; }
version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true; }
fits() { case "$(version_of "$1")" in 3.11|3.12|3.13) return 0 ;; *) return 1 ;; esac; }

if [ -n "${PYTHON:-}" ]; then
    found=$(version_of "$PYTHON")
    [ -n "$found" ] || fail "PYTHON=$PYTHON does not run; give a Python $lowest to $highest, e.g. make quickstart PYTHON=python3.12"
    fits "$PYTHON" || fail "PYTHON=$PYTHON is Python $found; seqmodels runs on Python $lowest to $highest"
else
    # An environment that is there keeps its Python: a second `make` need not name it again.
    for candidate in .venv/bin/python python3 python3.12 python3.13 python3.11; do
        if fits "$candidate"; then PYTHON=$candidate; break; fi
    done
    [ -n "${PYTHON:-}" ] || fail "no Python $lowest to $highest found (python3 is ${found:-$(version_of python3)}); install one, or name it: make quickstart PYTHON=/path/to/python3.12"
fi

# The stamp says what the environment was made from: an edited requirements file or another Python makes it stale.
# What the tests need contains what a run needs, so their environment serves both.
wanted=$({ version_of "$PYTHON"; cat requirements.txt; } | cksum)
wanted_dev=$({ version_of "$PYTHON"; cat requirements.txt requirements-dev.txt; } | cksum)
stamp=.venv/made-from
have=$(cat "$stamp" 2>/dev/null || true)
[ "$have" = "$wanted_dev" ] && exit 0
files="-r requirements.txt"
if [ "$requirements" = requirements-dev.txt ]; then
    wanted=$wanted_dev files="$files -r requirements-dev.txt"
elif [ "$have" = "$wanted" ]; then exit 0; fi

# A half-made environment, or one of another Python, is made anew.
if [ -d .venv ] && [ "$(version_of .venv/bin/python)" != "$(version_of "$PYTHON")" ]; then rm -rf .venv; fi
if [ ! -x .venv/bin/pip ]; then
    "$PYTHON" -c 'import venv, ensurepip' 2>/dev/null ||
        fail "Python $(version_of "$PYTHON") ($PYTHON) cannot make virtual environments; install its venv package (Debian, Ubuntu: apt install python3-venv)"
    echo "making .venv with Python $(version_of "$PYTHON") ..."
    "$PYTHON" -m venv .venv || fail "$(pwd)/.venv could not be made; the line above says why"
fi
echo "installing $requirements into .venv (about a minute) ..."
rm -f "$stamp"
# shellcheck disable=SC2086 (the files are words of their own)
.venv/bin/python -m pip install --quiet --disable-pip-version-check $files ||
    fail "the packages of $requirements could not be installed into .venv; the lines above say why"
echo "$wanted" > "$stamp"
