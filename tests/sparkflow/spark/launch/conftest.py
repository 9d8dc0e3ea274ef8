"""A Spark Connect server from the pip package, and programs that are its clients."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from support import java
from support.tied import tied

_SPARK_HOME = java.spark_home()
_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
_START_S = 300.0  # 15 s on an idle machine

Serve = Callable[[Path, Mapping[str, str]], contextlib.AbstractContextManager[str]]
Run = Callable[..., dict[str, dict[str, Any]]]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def connect_server() -> Serve:
    """Returns a function of a folder and settings: a server, by default with `local[4]`."""
    if not list((_SPARK_HOME / "jars").glob("spark-connect_*.jar")):
        pytest.skip("This pyspark brings no Connect server")
    return _serve


@contextlib.contextmanager
def _serve(folder: Path, settings: Mapping[str, str]) -> Iterator[str]:
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
    conf |= settings
    master = conf.pop("spark.master", "local[4]")
    command = tied([str(_SPARK_HOME / "bin" / "spark-submit"), "--master", master])
    for name, value in conf.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--class", _SERVER, "spark-internal"]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(_SPARK_HOME)}
    # The folder distinguishes the training processes from others.
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


@pytest.fixture(scope="session")
def run_client() -> Run:
    """Returns a function of a program, its server and arguments: the output, by step."""
    return _run


def _run(
    program: Path, remote: str, folder: Path, *steps: str, timeout_s: float = 900
) -> dict[str, dict[str, Any]]:
    environment = {key: value for key, value in os.environ.items() if key != "SPARK_HOME"}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, str(program), remote, str(folder), *steps],
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode == 0, done.stdout + done.stderr
    return {line["step"]: line for line in lines}
