"""What is missing if an extra is not installed, and the text of the messages."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sparkflow.spark
from sparkflow.version import SPARKFLOW_VERSION
from support.tracked import tracked

ROOT = Path(__file__).parents[2]
EXTRAS = re.compile(r"^(\w+) = \[", re.MULTILINE)

WITHOUT = """
import sys
for name in {hidden}:
    sys.modules[name] = None
"""

TRAINS = """
import numpy as np
import sparkflow as tf
import sparkflow.export
import sparkflow.spark
x = tf.placeholder(tf.float32, [None, 2])
w = tf.get_variable("w", [2, 1], initializer=tf.zeros_initializer())
loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - 1.0))
step = tf.train.AdamOptimizer(0.1).minimize(loss)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    rows = np.ones([8, 2], np.float32)
    for _ in range(50):
        session.run(step, {x: rows})
    print(session.run(loss, {x: rows}) < 0.01)
"""


def run(code, hidden):
    program = WITHOUT.format(hidden=hidden) + code
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    "hidden", [("pyspark", "py4j", "pandas", "pyarrow"), ("llvmlite",), ("pyarrow", "llvmlite")]
)
def test_the_core_trains_without_them(hidden):
    done = run(TRAINS, hidden)
    assert done.stdout == "True\n"
    slower = "Graphs run without compiled kernels, several times slower"
    if "llvmlite" in hidden:
        assert done.stderr.startswith(f"llvmlite is not installed. {slower}: pip install")
        assert done.stderr.count("\n") == 1
    else:
        assert done.stderr == ""


@pytest.mark.parametrize(
    "call",
    [
        "tf.data.Dataset.from_parquet('x.parquet')",
        "tf.gfile.Exists('s3://bucket/x')",
    ],
)
def test_what_needs_pyarrow_names_the_extra(call):
    done = run(f"import sparkflow as tf; {call}", ("pyarrow",))
    assert "pip install 'sparkflow-ml[arrow]'" in done.stderr.splitlines()[-1]


def test_an_old_llvmlite_costs_speed_only():
    old = "import llvmlite.binding as llvm; llvm.llvm_version_info = (15, 0, 7)" + TRAINS
    done = run(old, ())
    assert done.stdout == "True\n"
    assert "is older than 0.45. Graphs run without compiled kernels" in done.stderr


TESTS_OF_THE_CORE = ["sparkflow/session", "sparkflow/export", "sparkflow_runtime/compiler"]


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_the_core_does_all_that_is_tested_without_llvmlite():
    chosen = [f"tests/{folder}" for folder in TESTS_OF_THE_CORE]
    marks = "not spark and not slow and not nightly and not gpu"
    # In one process: with xdist, its processes would have it.
    code = f"import pytest; sys.exit(pytest.main({['-q', '-p', 'no:xdist', '-m', marks, *chosen]}))"
    command = [sys.executable, "-c", WITHOUT.format(hidden=("llvmlite",)) + code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1700)
    assert done.returncode == 0, done.stdout[-4000:]


def test_what_needs_pyspark_names_the_extra():
    done = run("from sparkflow.spark import SparkTrainer", ("pyspark",))
    assert done.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: sparkflow.spark.SparkTrainer needs pyspark, which is not installed: "
        "pip install 'sparkflow-ml[spark]'"
    )


def test_one_function_says_which_extra_is_missing():
    """If not: raise `missing_package` of sparkflow_runtime/errors.py, or call `require_package`."""
    others = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for folder in ("sparkflow", "runtime")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") in ("ImportError", "ModuleNotFoundError")
        and "pip install" in ast.unparse(node)
    ]
    assert [each.partition(":")[0] for each in others] == ["runtime/sparkflow_runtime/errors.py"]


def test_what_needs_pandas_names_the_extra():
    module = "sparkflow.spark.control.history.training_history"
    code = f"from {module} import TrainingHistory as H; H().to_pandas()"
    done = run(code, ("pandas",))
    assert done.stderr.splitlines()[-1].endswith("pip install 'sparkflow-ml[spark]'")


def texts(*patterns):
    for name in tracked(*patterns):
        path = ROOT / name
        if path.is_file() and path != Path(__file__):
            yield name, path.read_text(errors="replace")


def test_every_text_names_our_distribution_and_an_extra_that_exists():
    section = (ROOT / "pyproject.toml").read_text().partition("[project.optional-dependencies]")[2]
    extras = set(EXTRAS.findall(section.partition("\n[")[0]))
    assert {"spark", "connect", "gpu12", "gpu13"} <= extras
    wrong = []
    for name, text in texts("*.py", "*.md", "*.sh", "*.ipynb", "*.toml", "docker/*", "scripts/*"):
        for found in re.finditer(r"pip3? install[^\n`#&|]*", text):
            words = re.sub(r"[\"'\\]", " ", found[0])
            if re.search(r" sparkflow(\[|\s|$)", words.split(";")[0]):
                wrong.append((name, found[0]))
        wrong += [
            (name, found[0])
            for found in re.finditer(r"sparkflow-ml\\?\[([\w,]+)\\?\]", text)
            if not set(found[1].split(",")) <= extras
        ]
    assert wrong == []


def test_our_version_is_told_beside_tensorflows():
    assert sparkflow.spark.__version__ == SPARKFLOW_VERSION
    assert sparkflow.__version__ == "1.15.0"
