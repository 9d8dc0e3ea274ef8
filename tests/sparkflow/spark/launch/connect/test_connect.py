"""Spark Connect, against a real server from the pip package.

The client is a program of its own, and so is the server.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

pytest.importorskip("grpc_status", reason="Spark Connect's client: pip install pyspark[connect]")

pytestmark = [pytest.mark.spark, pytest.mark.timeout(420)]

_PROGRAM = Path(__file__).with_name("connect_program.py")
_SPARK_HOME = Path(pyspark.__file__).parent
_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
_START_S = 120.0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("connect")


@pytest.fixture(scope="module")
def remote(folder: Path) -> Iterator[str]:
    """The address of a Connect server on `local[4]`, which this fixture starts and stops."""
    if not list((_SPARK_HOME / "jars").glob("spark-connect_*.jar")):
        pytest.skip("This pyspark brings no Connect server")
    port = _free_port()
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "false",
    }
    command = [str(_SPARK_HOME / "bin" / "spark-submit"), "--master", "local[4]"]
    for name, value in conf.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--class", _SERVER, "spark-internal"]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(_SPARK_HOME)}
    # The processes of a training are told apart from others' by their folder.
    environment["SPARK_LOCAL_DIRS"] = str(folder / "local")
    log = (folder / "server.log").open("w")
    server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + _START_S
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert server.poll() is None, (folder / "server.log").read_text()
            assert time.monotonic() < deadline, (folder / "server.log").read_text()
            time.sleep(0.2)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(60)
        log.close()


def _run(remote: str, folder: Path, *steps: str) -> dict[str, dict[str, Any]]:
    """What the program printed, by step."""
    environment = {key: value for key, value in os.environ.items() if key != "SPARK_HOME"}
    done = subprocess.run(
        [sys.executable, str(_PROGRAM), remote, str(folder), *steps],
        env=environment,
        capture_output=True,
        text=True,
        timeout=360,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode == 0, done.stdout + done.stderr
    return {line["step"]: line for line in lines}


@pytest.fixture(scope="module")
def found(remote: str, folder: Path) -> dict[str, dict[str, Any]]:
    return _run(remote, folder, "learns", "fails", "interrupted")


@pytest.fixture(scope="module")
def found_by_night(remote: str, folder: Path) -> dict[str, dict[str, Any]]:
    return _run(remote, folder, "resumes", "too_many", "records")


def test_a_model_is_trained_used_saved_and_read_again(found: dict[str, dict[str, Any]]) -> None:
    step = found["learns"]
    assert "failed" not in step, step["failed"]
    assert step["error"] < 0.05
    assert step["same"]
    assert step["epochs"] == 30
    assert step["loss"][1] < 0.01 * step["loss"][0]


@pytest.mark.nightly
def test_training_resumes_from_its_checkpoints(found_by_night: dict[str, dict[str, Any]]) -> None:
    assert found_by_night["resumes"].get("epochs") == 3, found_by_night["resumes"]


def test_the_first_failure_reaches_the_client(found: dict[str, dict[str, Any]]) -> None:
    step = found["fails"]
    assert step.get("type") == "InvalidArgumentError", step
    assert "worker" in step["text"]


@pytest.mark.nightly
def test_too_few_slots_are_said_at_once(found_by_night: dict[str, dict[str, Any]]) -> None:
    assert "21 task slots" in found_by_night["too_many"].get("text", ""), found_by_night["too_many"]


def test_an_interrupted_fit_leaves_no_process(found: dict[str, dict[str, Any]]) -> None:
    step = found["interrupted"]
    assert step.get("left") == 0, step


@pytest.mark.nightly
def test_the_tfrecord_source_works(found_by_night: dict[str, dict[str, Any]]) -> None:
    step = found_by_night["records"]
    assert step.get("schema") == "struct<label:float,x:array<float>>", step
    assert step["rows"] == 400
