#!/usr/bin/env bash
# Runs the README's main job with no kernel compiled yet, and looks at what it has learned: with cold
# kernels and two asynchronous workers, races show here first. Takes one to two minutes.
#
#     scripts/check_main_job.sh [RESULT]     or only looks at the result of a run: flight_delays.json
set -euo pipefail
cd "$(dirname "$0")/.."

result="${1:-}"
if [ -z "$result" ]; then
    kernels="$(mktemp -d)"
    trap 'rm -rf "$kernels"' EXIT
    SPARKFLOW_KERNEL_CACHE="$kernels" scripts/run_example flight_delays
    result=examples/output/flight_delays.json
fi
"${SPARKFLOW_VENV:-.venv}/bin/python" -c '
import json, sys
auc = json.load(open(sys.argv[1]))["auc"]
sys.exit(None if auc > 0.79 else f"flight_delays reached an AUC of {auc}, not 0.80")
' "$result"
