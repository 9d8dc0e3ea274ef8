#!/usr/bin/env bash
# Fails if the generated protobuf modules do not match proto/.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/set_up_protos.sh
.venv-protos/bin/python scripts/generate_protos.py --check
