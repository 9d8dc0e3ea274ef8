#!/usr/bin/env bash
# Builds the wheel, checks its contents, and imports both packages from it instead of from the tree.
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
# PYTHONPATH precedes the editable install; the work folder keeps the tree off the path.
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
# Test support for users; that of our own tests is in tests/support.
shipped = {path.stem for path in (site / "sparkflow_runtime" / "testing").glob("*.py")}
wanted = {
    "__init__",
    "aliases",
    "clock",
    "faulty_link",
    "kill_at",
    "leaks",
    "local_cluster",
    "suspending",
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

# Zipped, as `--py-files` sends it.
"$bin/python" - "$work"/*.whl <<'PYTHON'
import sys

sys.path.insert(0, sys.argv[1])
import numpy as np

import sparkflow as tf
import sparkflow.math
import sparkflow.spark

x = tf.placeholder(tf.float32, [None, 2])
w = tf.get_variable("w", [2, 1])
loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - 1.0))
step = tf.train.AdamOptimizer(0.1).minimize(loss)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for _ in range(100):
        _, last = session.run([step, loss], {x: np.ones([8, 2], np.float32)})
if last > 0.01:
    sys.exit(f"trained from the zipped wheel, the loss is {last}")
for package in (tf, sys.modules["sparkflow_runtime"]):
    if not package.__file__.startswith(f"{sys.argv[1]}/"):
        sys.exit(f"{package.__name__} was imported from {package.__file__}, not from the wheel")
print("The zipped wheel trains.")
PYTHON
