#!/usr/bin/env bash
# Asks a resolver whether sparkflow-ml[spark] can be installed beside packages with pins of their own.
# Nothing of them is downloaded but metadata: a minute. For the night, or before a release.
set -euo pipefail
cd "$(dirname "$0")/.."

beside=(
    "tensorflow" "tensorflow==2.18.*" # the second holds protobuf below 6
    "torch<2.15" "mlflow" "ray[default]" "apache-airflow" "numba" "numba==0.60.*"
)
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check uv
uv() { "$work/venv/bin/uv" pip compile --quiet --python-version 3.11 "$work/wanted.in" -o "$work/found.txt"; }

failed=0
for each in "${beside[@]}"; do
    printf '%s\n%s\n' "sparkflow-ml[spark] @ file://$PWD" "$each" >"$work/wanted.in"
    rm -f "$work/found.txt" # its versions would be preferred
    if uv 2>"$work/log"; then
        printf 'beside %s: %s\n' "$each" \
            "$(grep -E '^(protobuf|grpcio|numpy|pyarrow|pandas|llvmlite)==' "$work/found.txt" | tr '\n' ' ')"
    else
        printf 'NOT beside %s:\n' "$each"
        cat "$work/log"
        failed=1
    fi
done
exit "$failed"
