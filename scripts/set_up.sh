#!/usr/bin/env bash
# Creates the virtual environment that the other scripts use: sparkflow from this tree (editable), with
# what its tests, tools and examples need. Does nothing if it is up to date with pyproject.toml.
#
# The environment is .venv; SPARKFLOW_VENV names another folder. PYTHON names the interpreter to create
# it with (python3 if not set).
set -euo pipefail
cd "$(dirname "$0")/.."

venv="${SPARKFLOW_VENV:-.venv}"
python="${PYTHON:-python3}"

# Two commands started at the same time must not install into the same environment.
if command -v flock >/dev/null; then
    mkdir -p "$(dirname "$venv")"
    exec 9>"$venv.lock"
    flock 9
fi

# The stamp includes the location: an editable install and a venv both contain absolute paths.
wanted="$(pwd) $(sha256sum pyproject.toml)"
stamp="$venv/sparkflow-installed"
if [ -x "$venv/bin/python" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
    exit 0
fi

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
    echo "sparkflow needs Python 3.10 or newer; '$python' is not." >&2
    echo "On Debian 12, install it as root with: apt-get install -y python3 python3-venv" >&2
    exit 1
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    echo "'$python' cannot create virtual environments." >&2
    echo "On Debian, install what is missing as root with: apt-get install -y python3-venv" >&2
    exit 1
fi

echo "Installing sparkflow and what it needs into $venv (once; some minutes, mostly Spark)" >&2
# A working environment is only updated, because developers add packages to theirs. One that was moved
# here or is incomplete is created from scratch: the commands in it would not start.
installed_for="$(cut -d ' ' -f 1 "$stamp" 2>/dev/null || pwd)"
if [ "$installed_for" != "$(pwd)" ] || ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    "$python" -m venv --clear "$venv"
fi
# Before 2026-11-24 the distribution was called sparkflow; both in one folder would be reported as a
# conflict.
if "$venv/bin/python" -m pip show --quiet sparkflow 2>/dev/null; then
    "$venv/bin/python" -m pip uninstall --quiet --yes sparkflow >&2
fi
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile \
    --editable '.[dev,examples]' >&2
# pip would compile the modules on one core. Some packages have files that are no Python of this version.
"$venv/bin/python" -m compileall -qq -j 0 "$venv/lib" || true
echo "$wanted" >"$stamp"
