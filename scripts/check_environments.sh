#!/usr/bin/env bash
# Installs the wheel into environments as people have them, each given by a constraint file in
# scripts/environments/, and checks it there: `pip check`, a step, a fit, an export and a prediction.
# Takes some minutes and 2 GB for each: for the night, or before a release.
#
#     scripts/check_environments.sh                 all of them
#     scripts/check_environments.sh floors core     these
#
# The environments are .venv-environments/NAME and are made anew; SPARKFLOW_ENVIRONMENTS names another
# folder. A file's comments say which Python (python3.12 of PATH, one of pyenv or what uv downloads; else
# PYTHON or python3, with a warning), which extras of ours and what beside them is installed, and with
# which options of pip.
set -euo pipefail
cd "$(dirname "$0")/.."

files="$PWD/scripts/environments"
names=("$@")
if [ ${#names[@]} -eq 0 ]; then
    for file in "$files"/*.txt; do
        names+=("$(basename "$file" .txt)")
    done
fi
scripts/set_up.sh
. scripts/use_java.sh
unset SPARK_HOME PYTHONPATH PYSPARK_PYTHON
folder="${SPARKFLOW_ENVIRONMENTS:-.venv-environments}"
mkdir -p "$folder"
folder="$(cd "$folder" && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

said() { # said NAME KEY: what the comment `# KEY: ...` of an environment's file says
    sed -n "s/^# $2: *//p" "$files/$1.txt"
}

python_for() { # python_for NAME: an interpreter of the version that an environment's file says
    local version each
    version="$(said "$1" python)"
    for each in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
        if "$each" -c '' 2>/dev/null; then
            echo "$each"
            return
        fi
    done
    fetch "$version" && return
    each="${PYTHON:-python3}"
    echo "WARNING: no Python $version here, and none to fetch; $1 is tried with $("$each" -V)" >&2
    echo "$each"
}

fetch() { # fetch VERSION: the interpreter that uv downloads, or has downloaded before
    if [ ! -x "$work/uv/bin/uv" ]; then
        "${PYTHON:-python3}" -m venv "$work/uv" || return 1
        "$work/uv/bin/python" -m pip install --quiet --disable-pip-version-check uv >&2 || return 1
    fi
    local -x UV_PYTHON_INSTALL_DIR="$folder/pythons"
    "$work/uv/bin/uv" python install --quiet --no-bin "$1" >&2 || return 1
    "$work/uv/bin/uv" python find --quiet --managed-python "$1"
}

check() {
    local name="$1" python bin extras smoke=()
    python="$(python_for "$name")"
    extras="$(said "$name" extras)"
    "$python" -m venv --clear "$folder/$name" || return 1
    bin="$folder/$name/bin"
    [ -n "$wheel" ] || build "$bin" || return 1
    local beside options
    read -r -a beside <<<"$(said "$name" beside)"
    read -r -a options <<<"$(said "$name" pip)"
    "$bin/python" -m pip install --quiet --disable-pip-version-check "${options[@]}" \
        --constraint "$files/$name.txt" "$wheel${extras:+[$extras]}" "${beside[@]}" || return 1
    "$bin/python" -m pip check --disable-pip-version-check || return 1
    "$bin/python" -m pip list --disable-pip-version-check --format=freeze |
        grep -iE '^(numpy|protobuf|grpcio|pyarrow|pandas|pyspark|llvmlite|numba)==' | tr '\n' ' '
    "$bin/python" -V
    mkdir -p "$work/$name"
    [ -n "$extras" ] || smoke=(--core)
    # Not in the tree: Spark's Python workers look for packages in the current folder first.
    (cd "$work" && "$bin/python" -I "$files/smoke.py" "${smoke[@]}" "$work/$name") 2>"$work/$name.log" || {
        tail -n 40 "$work/$name.log" >&2
        return 1
    }
    if [ -z "$extras" ]; then
        "$bin/python" -I "$files/measure_core.py" "$work/$name/model"
    fi
}

wheel=""
build() {
    # With the first environment's pip; the work tree's own need not exist.
    "$1/python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$work" . >&2
    wheel="$(ls "$work"/sparkflow_ml-*.whl)"
}

failed=()
for name in "${names[@]}"; do
    printf '\n==== %s\n' "$name"
    if check "$name"; then
        continue
    elif [ "$(said "$name" may-fail)" = yes ]; then
        printf 'WARNING: %s fails\n' "$name"
    else
        failed+=("$name")
    fi
done
if [ ${#failed[@]} -gt 0 ]; then
    printf '\nFAILED in %s\n' "${failed[*]}"
    exit 1
fi
printf '\nPassed in %s\n' "${names[*]}"
