#!/usr/bin/env bash
# Checks that sparkflow-ml[spark] can be installed together with packages that pin versions.
#
#     scripts/check_beside.sh                  runs a resolver; downloads only metadata: a minute
#     scripts/check_beside.sh --install        installs each of them and then ours, as users do, runs
#                                              `pip check` and imports both: minutes and GBs
#     scripts/check_beside.sh --install mlflow numba    only these
#
# Run nightly or before a release. SPARKFLOW_BESIDE names the folder of the environments (a temporary one
# if not set); each is removed after its check.
set -euo pipefail
cd "$(dirname "$0")/.."

check=resolve
[ "${1:-}" = --install ] && check=install && shift
beside=("$@")
[ ${#beside[@]} -gt 0 ] || beside=(
    "tensorflow" "tensorflow==2.18.*" # the second requires protobuf below 6
    "torch<2.15" "mlflow" "ray[default]" "apache-airflow" "numba" "numba==0.60.*"
)
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
export UV_CACHE_DIR="$work/cache" # 33 GB for all of them (2026-11-27)
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check uv
uv="$work/venv/bin/uv"
ours="sparkflow-ml[spark] @ file://$PWD"

resolve() { # resolve PACKAGE: whether compatible versions exist
    printf '%s\n%s\n' "$ours" "$1" >"$work/wanted.in"
    rm -f "$work/found.txt" # uv would prefer its versions
    "$uv" pip compile --quiet --python-version 3.11 "$work/wanted.in" -o "$work/found.txt"
}

install() { # install PACKAGE: whether its environment still works with ours
    local environment="${SPARKFLOW_BESIDE:-$work}/beside" module
    "$uv" venv --quiet --clear --python "${PYTHON:-python3}" "$environment" &&
        "$uv" pip install --quiet --python "$environment" "$1" &&
        "$uv" pip install --quiet --python "$environment" "$ours" &&
        "$work/venv/bin/python" -m pip --python "$environment/bin/python" check \
            --disable-pip-version-check &&
        "$uv" pip freeze --quiet --python "$environment" >"$work/found.txt" || return 1
    module="$(sed -E 's/[^a-z-].*//; s/^apache-//' <<<"$1")"
    # Imported in both orders, since both load protobuf, gRPC and BLAS.
    (cd "$work" && "$environment/bin/python" -c "import $module, sparkflow.spark, sparkflow.export" &&
        "$environment/bin/python" -c "import sparkflow.spark, sparkflow.export, $module")
    local status=$?
    rm -rf "$environment" "$UV_CACHE_DIR"
    return "$status"
}

failed=0
for each in "${beside[@]}"; do
    if "$check" "$each" >"$work/log" 2>&1; then
        printf 'beside %s: %s\n' "$each" \
            "$(grep -E '^(protobuf|grpcio|numpy|pyarrow|pandas|llvmlite)==' "$work/found.txt" | tr '\n' ' ')"
    else
        printf 'NOT beside %s:\n' "$each"
        tail -n 40 "$work/log"
        failed=1
    fi
done
exit "$failed"
