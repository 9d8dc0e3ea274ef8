"""A standalone cluster of Spark on this machine: a master and workers in separate processes."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from support import java
from support.tied import tied

WAIT_S = 120.0


_PORTS = ["--port", "0", "--webui-port", "0"]
_DEPLOY = "org.apache.spark.deploy"


@contextlib.contextmanager
def standalone(
    folder: Path,
    workers: int,
    cores: int,
    gpu_script: str = "",
    memory: str = "1g",
    host: str = "127.0.0.1",
) -> Iterator[str]:
    """Yields the master's URL, for the duration of the `with` block.

    Args:
        folder: The folder for logs and for the output of executors.
        workers: The number of simulated machines.
        cores: The task slots of each.
        gpu_script: Finds the only GPU, which the first machine appears to have; "" for none.
        memory: The memory of each for executors.
        host: The address of the master and the machines.
    """
    with contextlib.ExitStack() as stack:
        log, process = _start(folder, "master", f"{_DEPLOY}.master.Master", "--host", host, *_PORTS)
        stack.callback(_end, process)
        url = _found(log, r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            script = gpu_script if not number else ""
            stack.enter_context(machine(folder, number, url, cores, script, memory, host))
        yield url


@contextlib.contextmanager
def machine(
    folder: Path,
    number: int,
    master: str,
    cores: int,
    gpu_script: str = "",
    memory: str = "1g",
    host: str = "127.0.0.1",
    inside: Sequence[str] = (),
) -> Iterator[int]:
    """Adds a machine for the duration of the `with` block; yields its process group. See above.

    Args:
        inside: The command that runs it in another network, see `network.Cable.inside`.
    """
    place = ["--cores", str(cores), "--memory", memory, "--host", host, *_PORTS, master]
    gpu = "spark.worker.resource.gpu"
    found = f"-D{gpu}.amount=1 -D{gpu}.discoveryScript={gpu_script}"
    log, process = _start(
        folder,
        f"worker-{number}",
        f"{_DEPLOY}.worker.Worker",
        *place,
        options=found if gpu_script else "",
        inside=inside,
    )
    try:
        _found(log, "Successfully registered with (master)")
        yield process.pid
    finally:
        _end(process)


def _start(
    folder: Path, name: str, *arguments: str, options: str = "", inside: Sequence[str] = ()
) -> tuple[Path, subprocess.Popen[bytes]]:
    home = java.spark_home()
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_NO_DAEMONIZE": "1",
        # Its port would be a fixed one.
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        "SPARK_WORKER_OPTS": options,
    }
    log = folder / f"{name}.log"
    command = tied([*inside, str(home / "bin" / "spark-class"), *arguments])
    with log.open("wb") as out:
        # In its own process group: spark-class is a script with the JVM as its child.
        process = subprocess.Popen(
            command, env=environment, stdout=out, stderr=out, start_new_session=True
        )
    return log, process


def _found(log: Path, pattern: str) -> str:
    deadline = time.monotonic() + WAIT_S
    while True:
        text = log.read_text(errors="replace")
        found = re.search(pattern, text)
        if found is not None:
            return found.group(1)
        if time.monotonic() > deadline:
            raise TimeoutError(f"{log} does not contain {pattern!r}:\n{text[-2000:]}")
        time.sleep(0.1)


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
