"""Spark Connect with Python workers that may not open sockets or start processes.

A seccomp filter enforces it, in nightly tests also a network without interfaces, see
`support.locked_daemon`. The classic session of other tests trains the reference results.
"""

import contextlib
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

pytest.importorskip("grpc_status", reason="Spark Connect's client: pip install pyspark[connect]")

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(420),
    pytest.mark.skipif(
        sys.platform != "linux" or platform.machine() != "x86_64",
        reason="the seccomp filter has the numbers of x86-64 Linux",
    ),
]

_PROGRAM = Path(__file__).with_name("locked_program.py")
_TESTS = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("locked")


@pytest.fixture(scope="module")
def remote(folder: Path, connect_server: Any) -> Iterator[str]:
    with _served(folder, connect_server, "filter") as address:
        yield address


@contextlib.contextmanager
def _served(folder: Path, connect_server: Any, locked_by: str) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOCKED_BY", locked_by)
        path = os.pathsep.join([str(_TESTS), os.environ.get("PYTHONPATH", "")])
        patch.setenv("PYTHONPATH", path)
        settings = {"spark.python.daemon.module": "support.locked_daemon"}
        with connect_server(folder, settings) as address:
            yield address


@pytest.fixture(scope="module")
def found(remote: str, folder: Path, run_client: Any) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = run_client(
        _PROGRAM, remote, folder, "denied", "two", "trains"
    )
    return found


def test_processes_cannot_be_had_there(found: dict[str, dict[str, Any]]) -> None:
    step = found["denied"]
    assert step.get("type") == "SparkTrainingError", step
    assert "Operation not permitted" in step["text"]


def test_two_workers_are_refused_with_the_reason(found: dict[str, dict[str, Any]]) -> None:
    text = found["two"].get("text", "")
    assert "they may open no socket ([Errno 1] Operation not permitted)" in text, found["two"]
    assert "numWorkers=1" in text


def test_one_worker_learns_what_it_learns_elsewhere(
    found: dict[str, dict[str, Any]], spark: SparkSession
) -> None:
    _assert_as_elsewhere(found["trains"], spark, "Operation not permitted")


@pytest.mark.nightly
@pytest.mark.parametrize("locked_by", ["namespace", "namespace filter"])
def test_one_worker_learns_the_same_without_a_network(
    locked_by: str, tmp_path: Path, connect_server: Any, run_client: Any, spark: SparkSession
) -> None:
    leave = "from support.locked_daemon import leave_network; leave_network()"
    if subprocess.run([sys.executable, "-c", leave], check=False, cwd=_TESTS).returncode:
        pytest.skip("no network namespace can be made here")
    with _served(tmp_path, connect_server, locked_by) as address:
        found = run_client(_PROGRAM, address, tmp_path, "two", "trains", "elastic")
    assert "they may open no socket (" in found["two"].get("text", ""), found["two"]
    reason = "Operation not permitted" if "filter" in locked_by else "unreachable"
    _assert_as_elsewhere(found["trains"], spark, reason)
    # The steps of three workers, made by the only possible one.
    step = found["elastic"]
    assert "failed" not in step, step["failed"]
    ordinary = _program().trainer(numWorkers=3, inProcess=False, batchSize=11)
    three = ordinary.fit(_program().rows(spark)).inference_model.variables
    for name, value in three.items():
        np.testing.assert_allclose(step["variables"][name], value, rtol=1e-5, atol=1e-6)


def _program() -> Any:
    sys.path.insert(0, str(_PROGRAM.parent))
    try:
        import locked_program
    finally:
        sys.path.pop(0)
    return locked_program


def _assert_as_elsewhere(step: dict[str, Any], spark: SparkSession, reason: str) -> None:
    locked_program = _program()
    assert "failed" not in step, step["failed"]
    (said,) = step["said"]
    assert "training inside one Spark task" in said
    assert reason in said
    assert step["heard"] == ["end"]
    assert step["same"]
    ordinary = locked_program.trainer(inProcess=False).fit(locked_program.rows(spark))
    assert step["loss"] == ordinary.history.loss
    for name, value in ordinary.inference_model.variables.items():
        np.testing.assert_array_equal(
            np.asarray(step["variables"][name], np.float32), value, err_msg=name
        )


@pytest.mark.nightly
def test_validation_checkpoints_weights_and_large_models_work(
    remote: str, folder: Path, run_client: Any
) -> None:
    step = run_client(_PROGRAM, remote, folder, "everything")["everything"]
    assert "failed" not in step, step["failed"]
    assert step["first"] == 1
    assert step["resumed"] > 0
    assert step["stopped"].startswith("early stopping")
    assert step["best"]["metrics"].keys() == {"loss", "accuracy"}
    assert "validation" in step["heard"]
    assert "checkpoint" in step["heard"]
    assert step["megabytes"] > 4
    assert step["rows"] == 300


@pytest.mark.nightly
def test_an_interrupted_fit_ends(remote: str, folder: Path, run_client: Any) -> None:
    step = run_client(_PROGRAM, remote, folder, "interrupted")["interrupted"]
    assert step.get("ended"), step
