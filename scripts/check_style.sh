#!/usr/bin/env bash
# Runs the linter, the formatter, the type checker and the layer checks; each runs even if one before
# it failed.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/set_up.sh
bin="${SPARKFLOW_VENV:-.venv}/bin"
failed=0
"$bin/ruff" check . || failed=1
"$bin/ruff" format --check . || failed=1
"$bin/mypy" || failed=1
"$bin/lint-imports" || failed=1
exit "$failed"
