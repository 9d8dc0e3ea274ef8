#!/usr/bin/env bash
# Installs emulators of Google's and Azure's object stores for nightly tests into .venv-emulators:
# gcp-storage-emulator from PyPI and Azurite from npm (which needs Node.js). Tests that need them are
# skipped if they are missing; moto's S3 server is in the tests' own environment.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.venv-emulators
python="${PYTHON:-python3}"
gcs=gcp-storage-emulator==2026.7.19
azurite=azurite@3.35.0

if [ ! -e "$venv/gcs-$gcs" ]; then
    "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$gcs"
    touch "$venv/gcs-$gcs"
fi
if [ ! -e "$venv/azurite-$azurite" ]; then
    if command -v npm >/dev/null; then
        npm install --silent --no-fund --no-audit --ignore-scripts --prefix "$venv" "$azurite"
        touch "$venv/azurite-$azurite"
    else
        echo "npm is missing: without Azurite, tests of abfs: are skipped (Debian: apt-get install -y npm)" >&2
    fi
fi
