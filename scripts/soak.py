"""Trains for hours while processes are killed and stopped, and reports leaks in the driver.

    python scripts/soak.py --minutes 480 [--report build/soak.md]

Fits run one after another on `local[4]`, in all modes, with checkpoints and event files. During
each, a random process of it is killed or stopped for some seconds, or Ctrl-C is pressed, at a
random time; three of ten fits are left undisturbed. Every fit must end as expected: with success,
or with KeyboardInterrupt after Ctrl-C, and nothing of it may be left after 5 s. Memory, descriptors
and threads of the driver are recorded after each fit, and evaluated after the first ten minutes (a
fifth of a shorter run).

The exit status is 1 if a fit ended otherwise, a process was left, descriptors or threads grew, or
memory grew by more than 1 % per hour and 8 MiB.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from sparkflow.spark import Callback, SparkTrainer
from sparkflow_runtime.testing.suspending import suspend

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from support.processes import training_processes
from support.spark_models import linear

ROOT = Path(__file__).resolve().parents[1]
END_S = 5.0
MODES = ("async", "ssp", "sync", "allreduce")
FAULTS = ("kill", "kill", "kill", "stop", "stop", "ctrl-c", "ctrl-c", "none", "none", "none")


@dataclass(frozen=True, slots=True)
class Sample:
    """The driver's resources after a fit: seconds since the start, bytes, descriptors, threads."""

    time_s: float
    resident_bytes: int
    descriptors: int
    threads: int


class Fault(Callback):
    """Injects a fault into a fit, some steps after its first.

    Args:
        kind: One of `FAULTS`.
        folder: A string in the environment of the fit's processes, which identifies them.
        draw: Draws the time and the process.
    """

    def __init__(self, kind: str, folder: str, draw: random.Random) -> None:
        self._kind = kind
        self._folder = folder
        self._draw = draw
        self._at = draw.randint(0, 60)
        self.done = False

    def on_steps(self, update: Any) -> None:
        """Injects the fault once."""
        if self.done or update.first_step + update.num_steps < self._at:
            return
        self.done = True
        processes = training_processes(self._folder)
        if self._kind == "ctrl-c":
            signal.raise_signal(signal.SIGINT)
        elif self._kind != "none" and processes:
            victim = self._draw.choice(processes)
            if self._kind == "kill":
                os.kill(victim, signal.SIGKILL)
            else:
                suspend(victim)
                waking = threading.Timer(self._draw.uniform(0.2, 12.0), wake, [victim])
                waking.daemon = True
                waking.start()


def wake(pid: int) -> None:
    """Continues a stopped process if it still exists."""
    if Path(f"/proc/{pid}").exists():
        os.kill(pid, signal.SIGCONT)


def one(df: DataFrame, folder: Path, draw: random.Random) -> tuple[str, str]:
    """Runs a fit with its fault; returns which it was and what went wrong, or ""."""
    mode, kind = draw.choice(MODES), draw.choice(FAULTS)
    fault = Fault(kind, str(folder), draw)
    run = folder / "run"
    trainer = SparkTrainer(
        model_fn=linear,
        numWorkers=2,
        numPs=0 if mode == "allreduce" else 1,
        syncMode=mode,
        epochs=20,
        batchSize=10,
        seed=1,
        progress=False,
        checkpointDir=str(run / "checkpoints"),
        checkpointSteps=25,
        logDir=str(run / "logs"),
        callbacks=[fault],
    )
    wrong = ""
    try:
        model = trainer.fit(df)
        if kind == "ctrl-c" and fault.done:
            wrong = "Ctrl-C was pressed, and the fit ended well"
        elif not np.isfinite(model.history.epoch_loss[-1]):
            wrong = "the loss is not finite"
    except KeyboardInterrupt:
        wrong = "" if kind == "ctrl-c" else "interrupted by nobody"
    except Exception as error:
        wrong = f"{type(error).__name__}: {str(error)[:300]}"
    deadline = time.monotonic() + END_S
    while (left := training_processes(str(folder))) and time.monotonic() < deadline:
        time.sleep(0.05)
    if left:
        wrong += f" {len(left)} processes are left after {END_S:g} s"
    shutil.rmtree(run, ignore_errors=True)
    return f"{mode}, {kind}", wrong


def sample(began: float) -> Sample:
    """Returns the driver's current resources."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Sample(
        time.monotonic() - began,
        pages * os.sysconf("SC_PAGE_SIZE"),
        len(os.listdir("/proc/self/fd")),
        threading.active_count(),
    )


def judged(samples: list[Sample]) -> tuple[list[str], str]:
    """Returns what grew although it should not, and the figures as a line."""
    first = [each for each in samples if each.time_s >= min(600.0, samples[-1].time_s / 5)]
    hours = np.array([each.time_s for each in first]) / 3600
    sizes = np.array([each.resident_bytes for each in first], float)
    slope = float(np.polyfit(hours, sizes, 1)[0]) if len(first) > 2 else 0.0
    grown = slope * float(hours[-1] - hours[0])
    percent = 100 * slope / sizes[0]
    line = (
        f"memory {sizes[0] / 2**20:.1f} -> {sizes[-1] / 2**20:.1f} MiB ({percent:+.2f} %/h), "
        f"descriptors {first[0].descriptors} -> {first[-1].descriptors}, "
        f"threads {first[0].threads} -> {first[-1].threads}"
    )
    wrong = []
    if percent > 1 and grown > 8 << 20:
        wrong.append("memory grew")
    wrong += [
        f"{name} grew"
        for name in ("descriptors", "threads")
        if min(getattr(each, name) for each in first[-5:])
        > max(getattr(each, name) for each in first[:5])
    ]
    return wrong, line


def main() -> int:
    """Trains until the time is up."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=480.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--report", type=Path, default=ROOT / "build" / "soak.md")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    wrongs: list[str] = []
    samples: list[Sample] = []
    with tempfile.TemporaryDirectory(prefix="sparkflow-soak-") as name:
        folder = Path(name)
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_DIRS"] = str(folder / "local")
        spark = (
            SparkSession.builder.master("local[4]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("OFF")
        x = np.random.default_rng(0).normal(size=(200, 2))
        rows = [(v.tolist(), float(v @ [1.0, -2.0])) for v in x]
        df = spark.createDataFrame(rows, "features array<double>, label double").cache()
        df.count()
        began = time.monotonic()
        while time.monotonic() - began < 60 * options.minutes:
            what, wrong = one(df, folder, draw)
            samples.append(sample(began))
            print(f"{len(samples)} {what}: {wrong or 'as it should'}", flush=True)
            if wrong:
                wrongs.append(f"fit {len(samples)} ({what}): {wrong}")
        spark.stop()
    grown, line = judged(samples)
    text = f"{len(samples)} fits in {samples[-1].time_s / 60:.1f} min, seed {options.seed}: {line}"
    options.report.parent.mkdir(parents=True, exist_ok=True)
    options.report.write_text("\n".join([f"# Soak\n\n{text}\n", *wrongs, *grown]) + "\n", "utf-8")
    print(text, *wrongs, *grown, sep="\n")
    return 1 if wrongs or grown else 0


if __name__ == "__main__":
    sys.exit(main())
