"""The process that leads, as seen by its Spark task."""

import json
import os
import queue
from pathlib import Path
from typing import IO, Any

from sparkflow.spark.cluster.process.piped_process import PipedProcess, executed
from sparkflow.spark.launch.connect.connect_task import CHIEF

WAIT_S = 60


def test_it_is_heard_of_again_and_again_else_it_would_be_killed(tmp_path: Path) -> None:
    work = tmp_path / "work"
    os.mkfifo(work)  # it blocks there, since nobody writes
    heard: queue.Queue[Any] = queue.Queue()

    def read(stdout: IO[bytes]) -> None:
        for line in stdout:
            heard.put(json.loads(line)["event"])

    process = PipedProcess(
        CHIEF, executed("sparkflow.spark.launch.connect.chief", os.environ), read
    )
    try:
        process.write(json.dumps({"work": str(work)}).encode() + b"\n")
        assert [heard.get(timeout=WAIT_S) for _ in range(2)] == ["pulse", "pulse"]
    finally:
        process.kill()
        process.end()
