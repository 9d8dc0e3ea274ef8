#!/usr/bin/env bash
# Runs the linter, the formatter, the type checker and the layer checks; a failure does not stop the
# others.
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
