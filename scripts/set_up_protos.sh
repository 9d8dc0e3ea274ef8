#!/usr/bin/env bash
# Creates .venv-protos, the environment for scripts/generate_protos.py. It is separate because the pinned
# protobuf compiler needs an older protobuf than sparkflow's.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.venv-protos
python="${PYTHON:-python3}"

# Reads the versions from the script that requires them.
mapfile -t wanted < <("$python" -B - <<'PYTHON'
import sys

sys.path.insert(0, "scripts")
from generate_protos import COMPILER

print(*(f"{name}=={version}" for name, version in COMPILER.items()), sep="\n")
PYTHON
)
# grpcio-tools 1.68 imports pkg_resources, which newer versions of setuptools lack.
wanted+=('setuptools<81')

stamp="$venv/installed"
if [ "$(cat "$stamp" 2>/dev/null)" = "$(pwd) ${wanted[*]}" ]; then
    exit 0
fi
"$python" -m venv --clear "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check "${wanted[@]}" >&2
echo "$(pwd) ${wanted[*]}" >"$stamp"
