#!/usr/bin/env bash
# Builds the wheel, checks what is in it, and imports both packages from it instead of from the tree.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/set_up.sh
bin="${SPARKFLOW_VENV:-.venv}/bin"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

"$bin/python" -m build --wheel --outdir "$work" . >"$work/build.log" 2>&1 || {
    cat "$work/build.log" >&2
    exit 1
}
"$bin/check-wheel-contents" "$work"/*.whl
"$bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
    --target "$work/site" "$work"/*.whl
# PYTHONPATH comes before the editable install; the work folder keeps the tree off the path.
bin="$(cd "$bin" && pwd)"
cd "$work"
PYTHONPATH="$work/site" "$bin/python" - "$work/site" <<'PYTHON'
import pathlib
import sys

import sparkflow
import sparkflow_runtime

site = pathlib.Path(sys.argv[1])
for package in (sparkflow, sparkflow_runtime):
    folder = pathlib.Path(package.__file__).parent
    if site not in folder.parents:
        sys.exit(f"{package.__name__} was imported from {folder}, not from the wheel")
    if not (folder / "py.typed").is_file():
        sys.exit(f"{package.__name__} lacks py.typed in the wheel")
# What users test with. What only our own tests need is in tests/support.
shipped = {path.stem for path in (site / "sparkflow_runtime" / "testing").glob("*.py")}
wanted = {
    "__init__",
    "aliases",
    "clock",
    "faulty_link",
    "kill_at",
    "leaks",
    "local_cluster",
    "task_process",
}
if shipped != wanted:
    sys.exit(
        f"sparkflow_runtime.testing in the wheel has {sorted(shipped - wanted)}, which users do not"
        f" need (move them to tests/support), and lacks {sorted(wanted - shipped)}"
    )
loaded = {"pyspark", "cupy", "pandas"} & set(sys.modules)
if loaded:
    sys.exit(f"importing sparkflow must not import {sorted(loaded)}")
print("The wheel imports.")
PYTHON
