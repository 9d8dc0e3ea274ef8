"""Run by test_executors.py as a separate program, because a process has one SparkContext.

    python suspended_program.py FOLDER MODE SECONDS

A fit on `local-cluster[3,1,1024]`. After the first checkpoint the executor of worker 1 is
suspended, with its Python workers and its training process. Prints a JSON object.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from sparkflow.spark.cluster.process.process_title import ROLE
from sparkflow_runtime.testing.suspending import suspend
from support.fault_session import fault_session
from support.listening import tree
from support.outages import Outage, fit_through, numbered_rows
from support.processes import executors, left_after, training_processes

VICTIM = "worker 1"
GONE_S = 60.0


class Suspends(Outage):
    """Suspends the executor of worker 1.

    Args:
        folder: The program's folder.
        seconds: See `Outage`.
        stops: See `Outage`.
    """

    def __init__(self, folder: Path, seconds: float, stops: bool) -> None:
        super().__init__(seconds, stops)
        self._folder = folder
        self._suspended: list[int] = []
        self.victim = 0

    def begin(self) -> None:
        role = f"{ROLE}={VICTIM}".encode()
        self.victim, jvm = next(
            (pid, jvm)
            for pid, jvm in executors(self._folder).items()
            if role in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        )
        # From parent to child, so that none of them notices that another one is suspended.
        for pid in tree(jvm):
            suspend(pid)
            self._suspended.append(pid)

    def end(self) -> None:
        for pid in self._suspended:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def is_of_the_lost(self, update: Any) -> bool:
        return update.worker in (1, -1)  # steps of both workers have no number


def main() -> None:
    folder, mode, seconds = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    spark = fault_session(folder, "local-cluster[3,1,1024]")
    seen = Suspends(folder, seconds, stops=mode != "sync")
    found = fit_through(seen, numbered_rows(spark), mode, folder / f"checkpoints-{mode}")
    victim = Path(f"/proc/{seen.victim}")
    found["victim_left"] = len(left_after(lambda: [seen.victim] * victim.exists(), GONE_S))
    found["left"] = len(left_after(lambda: training_processes(folder), GONE_S))
    print(json.dumps(found), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
