"""Which Python runs the code sent to Spark, and the error if it cannot."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkFiles

from sparkflow.spark import interpreter
from sparkflow.spark.errors import SparkTrainingError
from sparkflow.spark.interpreter import PACKAGES, use_this_python
from support import java


class FakeContext:
    """The parts of a SparkContext that `use_this_python` reads."""

    def __init__(
        self, master: str = "local[2]", hosts: tuple[str, ...] = (), **settings: str
    ) -> None:
        self.master = master
        self.pythonExec = "python3"
        self._python_includes: list[str] = []
        self._settings = {name.replace("_", "."): value for name, value in settings.items()}
        addresses = list(hosts)

        def iterator() -> Any:
            left = iter([*addresses, None])
            state = SimpleNamespace(next_one=next(left))

            def following() -> str:
                found = state.next_one
                state.next_one = next(left)
                return found

            return SimpleNamespace(hasNext=lambda: state.next_one is not None, next=following)

        keys = SimpleNamespace(iterator=iterator, size=lambda: len(addresses))
        status = SimpleNamespace(keySet=lambda: keys)
        self._jsc = SimpleNamespace(
            sc=lambda: SimpleNamespace(getExecutorMemoryStatus=lambda: status)
        )

    def getConf(self) -> Any:
        return SimpleNamespace(get=self._settings.get)


def session_on(context: FakeContext) -> Any:
    return SimpleNamespace(_jsparkSession=None, sparkContext=context)


def other_python(folder: Path, missing: list[str]) -> str:
    """An interpreter of a different environment, which lacks packages."""
    folder.mkdir()
    program = folder / "python3"
    program.write_text(f"#!/bin/sh\necho '{json.dumps(missing)}'\n")
    program.chmod(0o755)
    return str(program)


@pytest.fixture
def foreign_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A PATH whose python3 is not this process's, without PYSPARK_PYTHON; returns that python3."""
    program = other_python(tmp_path / "bin", list(PACKAGES))
    monkeypatch.setenv("PATH", f"{Path(program).parent}:{os.environ['PATH']}")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(tmp_path))
    return program


@pytest.mark.parametrize(
    "context",
    [
        FakeContext("local"),
        FakeContext("local[*]"),
        FakeContext("local-cluster[2,1,1024]"),
        FakeContext("spark://here:7077", ("10.0.0.1:4000", "10.0.0.1:4001")),
    ],
    ids=lambda context: context.master,
)
@pytest.mark.usefixtures("foreign_path")
def test_executors_on_this_machine_run_the_drivers_python(
    context: FakeContext, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, interpreter.__name__):
        use_this_python(session_on(context))
    assert context.pythonExec == sys.executable
    assert sys.executable in caplog.text


@pytest.mark.parametrize(
    "context",
    [
        FakeContext("yarn"),
        FakeContext("k8s://https://there"),
        FakeContext("spark://there:7077", ("10.0.0.1:4000", "10.0.0.2:4001")),
        FakeContext("spark://there:7077", ("10.0.0.1:4000",)),  # only the driver, so far
    ],
    ids=lambda context: context.master,
)
@pytest.mark.usefixtures("foreign_path")
def test_executors_elsewhere_keep_theirs(context: FakeContext) -> None:
    use_this_python(session_on(context))
    assert context.pythonExec == "python3"


@pytest.mark.usefixtures("foreign_path")
def test_a_connect_session_is_left_alone() -> None:
    use_this_python(SimpleNamespace())


def test_the_python_of_an_active_environment_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: "/nowhere")
    context = FakeContext()
    use_this_python(session_on(context))
    assert context.pythonExec == "python3"


@pytest.mark.parametrize("how", ["variable", "setting"])
def test_a_chosen_python_stays_and_is_checked(
    how: str, foreign_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = FakeContext(**({"spark_pyspark_python": foreign_path} if how == "setting" else {}))
    if how == "variable":
        monkeypatch.setenv("PYSPARK_PYTHON", foreign_path)
    context.pythonExec = foreign_path
    with pytest.raises(SparkTrainingError, match="does not find sparkflow, sparkflow_runtime") as e:
        use_this_python(session_on(context))
    assert foreign_path in str(e.value)
    assert "set PYSPARK_PYTHON to that before" in str(e.value)
    assert sys.executable in str(e.value)
    assert context.pythonExec == foreign_path


def test_a_python_that_does_not_start_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "none"))
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(tmp_path))
    context = FakeContext()
    context.pythonExec = str(tmp_path / "none")
    with pytest.raises(SparkTrainingError, match=r"none, which does not start\. .*PYSPARK_PYTHON"):
        use_this_python(session_on(context))


def test_a_session_asks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(
        interpreter, "packages_missing_in", lambda *given: asked.append(given) or []
    )
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: "/nowhere")
    context = FakeContext()
    for _ in range(3):
        use_this_python(session_on(context))
    assert len(asked) == 1


def test_what_is_shipped_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # not the clone's root, which has the packages
    make = [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")]
    subprocess.run(make, check=True)
    program = str(tmp_path / "env" / "bin" / "python")
    assert "sparkflow" in (interpreter.packages_missing_in(program) or [])
    (tmp_path / "shipped" / "sparkflow").mkdir(parents=True)
    found = interpreter.packages_missing_in(program, [str(tmp_path / "shipped")])
    assert found is not None
    assert "sparkflow" not in found
    assert "numpy" in found


def test_a_changed_sys_path_is_told_apart() -> None:
    text = interpreter.describe_missing(sys.executable, ["sparkflow"])
    assert "PYTHONPATH" in text
    assert "instead of changing sys.path" in text


_PROGRAM = """
import os
os.environ.pop("PYSPARK_PYTHON", None)
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)
import sparkflow as tf
from sparkflow.spark import SparkTrainer

def model_fn(features, labels, mode):
    prediction = tf.squeeze(tf.layers.dense(features, 1), axis=[1])
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"prediction": prediction})
    loss = tf.losses.mean_squared_error(labels, prediction)
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

df = spark.range(20).selectExpr("cast(id as double) / 20 as x", "cast(id as double) as y")
model = SparkTrainer(
    model_fn=model_fn, featuresCol=["x"], labelCol="y", numWorkers=1, numPs=0, progress=False
).fit(df)
print("rows", model.transform(df).count(), model.transform(df).first()["prediction"] is not None)
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.slow
def test_a_program_of_an_environment_that_is_not_active(
    tmp_path: Path, foreign_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", java.options())  # with Spark's own daemon
    program = tmp_path / "train.py"
    program.write_text(_PROGRAM)
    done = subprocess.run(
        [sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "rows 20 True" in done.stdout


def test_only_a_wheel_that_spark_has_sent_is_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(tmp_path))
    context = SimpleNamespace(_python_includes=[])
    for name in ("ours.whl", "lib"):
        interpreter._import_shipped_wheel(context, f"/elsewhere/{name}")
    assert context._python_includes == []
    (tmp_path / "ours.whl").touch()
    for _ in range(2):
        interpreter._import_shipped_wheel(context, "/elsewhere/ours.whl")
    assert context._python_includes == ["ours.whl"]
