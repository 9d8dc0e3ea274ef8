#!/usr/bin/env bash
# Installs the wheel into typical user environments, each defined by a constraint file in
# scripts/environments/, and checks it there: `pip check`, a step, a fit, an export and a prediction.
# Takes some minutes and 2 GB for each. Run nightly or before a release.
#
#     scripts/check_environments.sh                 all of them
#     scripts/check_environments.sh floors core     only these
#
# The environments .venv-environments/NAME are created from scratch; SPARKFLOW_ENVIRONMENTS names another
# folder. A file's comments specify the Python (python3.12 of PATH, of pyenv or downloaded by uv; else
# PYTHON or python3, with a warning), our extras and other packages to install, and pip's options.
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

said() { # said NAME KEY: the text of the comment `# KEY: ...` in an environment's file
    sed -n "s/^# $2: *//p" "$files/$1.txt"
}

python_for() { # python_for NAME: an interpreter of the version in an environment's file
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
    echo "WARNING: no Python $version here, and none to download; testing $1 with $("$each" -V)" >&2
    echo "$each"
}

fetch() { # fetch VERSION: the interpreter that uv downloads or has downloaded before
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
    # Not in the tree, since Spark's Python workers search the current folder for packages first.
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
    # With the first environment's pip, since the work tree's environment may not exist.
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
