#!/usr/bin/env bash
# Runs the tests that cover most uses of Spark with several versions of pyspark, each in its own virtual
# environment. Takes a quarter of an hour per version. Run nightly or before a release.
#
#     scripts/check_spark_versions.sh               3.5, 4.0, 4.1 and the newest
#     scripts/check_spark_versions.sh 3.5 4.1       only these
#     scripts/check_spark_versions.sh 3.5 -- -k classifier    with arguments of pytest
#
# The environments are .venv-spark/<version>; SPARKFLOW_VERSION_VENVS names another folder. PYTHON names
# the interpreter (python3 if not set; Spark 3.5 runs with Python 3.8 to 3.12).
set -euo pipefail
cd "$(dirname "$0")/.."

versions=()
while [ $# -gt 0 ] && [ "$1" != "--" ]; do
    versions+=("$1")
    shift
done
[ "${1:-}" = "--" ] && shift
[ ${#versions[@]} -gt 0 ] || versions=(3.5 4.0 4.1 newest)

# A few tests that cover every interaction of rows, jobs and models with Spark.
chosen=(
    tests/sparkflow/spark/data/plan
    tests/sparkflow/spark/data/test_doors.py
    tests/sparkflow/spark/model
    tests/sparkflow/spark/data/tfrecord
    tests/sparkflow/spark/test_streaming.py
    tests/sparkflow/spark/test_trainer.py
    tests/sparkflow/spark/test_trainer_errors.py
)

scripts/set_up.sh
. scripts/use_java.sh
unset SPARK_HOME
venvs="${SPARKFLOW_VERSION_VENVS:-.venv-spark}"
failed=()
for version in "${versions[@]}"; do
    bin="$venvs/$version/bin"
    case "$version" in
        newest) wanted=("pyspark[connect]>=4.1") ;;
        # The same as the extra spark35 of pyproject.toml.
        3.*) wanted=("pyspark[connect]==$version.*" "numpy<2" "pyarrow<20" "setuptools") ;;
        *) wanted=("pyspark[connect]==$version.*") ;;
    esac
    [ -x "$bin/python" ] || "${PYTHON:-python3}" -m venv "$venvs/$version"
    "$bin/python" -m pip install --quiet --disable-pip-version-check \
        --editable ".[spark]" "${wanted[@]}" hypothesis pytest pytest-timeout cryptography
    printf '\n==== %s\n' "$("$bin/python" -c 'import numpy, pyarrow, pyspark, sys
print("pyspark", pyspark.__version__, "numpy", numpy.__version__, "pyarrow", pyarrow.__version__,
      "Python", sys.version.split()[0])')"
    # Ignores deprecations in old packages, which we cannot fix.
    "$bin/python" -m pytest -q -W default "${chosen[@]}" "$@" || failed+=("$version")
done
if [ ${#failed[@]} -gt 0 ]; then
    printf '\nFAILED with pyspark %s\n' "${failed[*]}"
    exit 1
fi
printf '\nPassed with pyspark %s\n' "${versions[*]}"
