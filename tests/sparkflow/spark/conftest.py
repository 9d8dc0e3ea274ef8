"""The Spark session that the tests of `sparkflow.spark` share."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.listening import listening, open_sockets
from support.processes import left_after

CHILDREN = (b"sparkflow.spark.cluster.child", b"sparkflow.spark.programs.function_child")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on `local[4]`: four task slots in one JVM, on the loopback interface only."""
    with pytest.MonkeyPatch.context() as patch:
        # Otherwise executors would start the first `python3` on PATH.
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        folder = tmp_path_factory.mktemp("spark")
        session = (
            SparkSession.builder.master("local[4]")
            .appName("sparkflow tests")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.local.dir", str(folder / "local"))
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .config("spark.sql.shuffle.partitions", "4")
            .config("spark.sql.execution.arrow.pyspark.enabled", "true")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()


@pytest.fixture
def child_processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], list[int]]]:
    """Returns a function that lists this run's training processes; none may be left at the end.

    Other runs on this machine have processes, too: ours write below our temporary directory.
    """
    ours = str(tmp_path_factory.getbasetemp()).encode()

    def find() -> list[int]:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                command = (process / "cmdline").read_bytes()
                environment = (process / "environ").read_bytes()
            except OSError:  # it has ended, or belongs to somebody else
                continue
            if any(name in command for name in CHILDREN) and ours in environment:
                found.append(int(process.name))
        return found

    yield find
    assert left_after(find) == []


@pytest.fixture
def listening_ports() -> Callable[[list[int]], set[int]]:
    """Returns a function that finds the TCP ports on which given processes listen."""

    return lambda pids: {port for pid in pids for _, port in listening(pid)}


@pytest.fixture
def open_ports() -> Callable[[], set[int]]:
    """Returns a function that finds the TCP ports on which any process of this machine listens."""
    return lambda: {port for _, port in open_sockets().values()}
