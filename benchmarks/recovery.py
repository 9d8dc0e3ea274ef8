"""The downtime of training after a loss: a killed process, a killed executor.

    python benchmarks/recovery.py [--only F1 F2] [--record]

One parameter server and two workers train endlessly, with checkpoints every 200 steps. A process is
killed with SIGKILL at the first checkpoint; the time is from there to the next step that the driver
receives after a restart, in `async` mode to the next step of the killed worker. The pause is the
longest time without a step of any worker. Processes are killed on `local[4]`, an executor on
`local-cluster[2,2,1024]`, each in a separate program. The names are those of the rows of
docs/reliability.md.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import machine
from fit_start import model_fn
from report import Report, Table, add_options, time_text
from timing import measured

CASES = {
    "F1: a worker's process, async": ("local[4]", "worker 1", "async"),
    "F1: a worker's process, ssp": ("local[4]", "worker 1", "ssp"),
    "F2: a worker's process, sync": ("local[4]", "worker 1", "sync"),
    "F2: a worker's process, allreduce": ("local[4]", "worker 1", "allreduce"),
    "F3: a parameter server's process, sync": ("local[4]", "ps 0", "sync"),
    "F3: a parameter server's process, async": ("local[4]", "ps 0", "async"),
    "F5: an executor, sync": ("local-cluster[2,2,1024]", "executor", "sync"),
}
PACKAGES = ("pyspark", "pyarrow", "numpy", "grpcio")


def main() -> None:
    machine.clean_own_environment()
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, rounds=3)
    parser.add_argument("--only", nargs="+", default=[""], help="rows, such as F1; all if left out")
    parser.add_argument("--case", help="run one round of this case and print its figures")
    options = parser.parse_args()
    if options.case:
        print(json.dumps(_round(*CASES[options.case])), flush=True)
        return
    report = Report("recovery", PACKAGES, options)
    rows = []
    for name in filter(lambda name: name.startswith(tuple(options.only)), CASES):
        rounds = [_program(name) for _ in range(options.rounds)]
        away = measured([each["away_s"] for each in rounds])
        kept = min(each["resumed_at"] / max(each["committed"], 1) for each in rounds)
        pause = max(each["pause_s"] for each in rounds)
        rows.append([name, time_text(away), f"{pause:.2f} s", f"{kept:.2f}"])
    head = ["killed", "until the next step", "longest pause", "resumed at / last commit, least"]
    report.finish({f"Median of {options.rounds} rounds": Table(head, rows)})


def _program(name: str) -> Any:
    done = subprocess.run(
        [sys.executable, __file__, "--case", name], capture_output=True, text=True, check=True
    )
    return json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])


def _round(master: str, victim: str, sync_mode: str) -> dict[str, float]:
    from pyspark.sql import SparkSession, functions as F

    from sparkflow.spark import Callback, SparkTrainer

    figures: dict[str, float] = {"committed": 0.0, "pause_s": 0.0}
    # There the others continue, and only the killed one is missing.
    awaited = 1 if (victim, sync_mode) == ("worker 1", "async") else None

    class Kills(Callback):
        def __init__(self) -> None:
            self.killed = self.heard = 0.0

        def on_checkpoint(self, path: str) -> None:
            if not self.killed:
                figures["committed"] = float(int(Path(path).name.rpartition("-")[2] or 0))
                _kill(folder, victim)
                self.killed = self.heard = time.perf_counter()

        def on_train_begin(self, run: Any) -> None:
            self.run = run

        def on_steps(self, update: Any) -> None:
            if not self.killed or "away_s" in figures:
                return
            now = time.perf_counter()
            figures["pause_s"] = max(figures["pause_s"], now - self.heard)
            self.heard = now
            if self.run.history.restarts and awaited in (None, update.worker):
                figures["away_s"] = now - self.killed
                figures["resumed_at"] = float(update.first_step)
                self.run.stop("measured")

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_DIRS"] = str(folder / "local")
        os.environ["SPARK_WORKER_DIR"] = str(folder / "work")
        spark = (
            SparkSession.builder.master(master)
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("OFF")
        features = F.array(*(F.rand(seed=i) for i in range(28))).alias("features")
        rows = spark.range(20_000).select(features, (F.col("id") % 2).cast("int").alias("label"))
        SparkTrainer(
            model_fn=model_fn,
            numWorkers=2,
            epochs=1_000_000,
            numPs=0 if sync_mode == "allreduce" else 1,
            syncMode=sync_mode,
            checkpointDir=str(folder / "checkpoints"),
            checkpointSteps=200,
            progress=False,
            callbacks=[Kills()],
        ).fit(rows)
        spark.stop()
    return figures


def _kill(folder: Path, victim: str) -> None:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            environment = (process / "environ").read_bytes().split(b"\0")
        except OSError:  # it has exited in the meantime, or belongs to another user
            continue
        if b"sparkflow.spark.cluster.child" not in command:
            continue
        if not any(str(folder).encode() in each for each in environment):
            continue
        if victim == "executor" and b"SPARKFLOW_TASK=worker 1" in environment:
            os.kill(_executor(int(process.name)), signal.SIGKILL)
        elif f"SPARKFLOW_TASK={victim}".encode() in environment:
            os.kill(int(process.name), signal.SIGKILL)


def _executor(pid: int) -> int:
    while b"CoarseGrainedExecutorBackend" not in Path(f"/proc/{pid}/cmdline").read_bytes():
        stat = Path(f"/proc/{pid}/stat").read_text()
        pid = int(stat[stat.rindex(")") + 2 :].split()[1])
    return pid


if __name__ == "__main__":
    main()
