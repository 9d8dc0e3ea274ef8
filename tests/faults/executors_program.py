"""Run by test_executors.py as a separate program, because a process has one SparkContext.

    python executors_program.py FOLDER ROUNDS SEED

Fits on `local-cluster[3,1,1024]` while executors are killed: in each round one of the three at a
random moment after the job's start, and two of the three, at once, at a random later step.
Prints one JSON object per round, after one of an undisturbed fit.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from sparkflow.spark import Callback, SparkTrainer
from support.fault_session import fault_session
from support.processes import executor_processes, left_after, training_processes
from support.spark_models import linear

ROWS, BATCH, EPOCHS = 400, 20, 400
MOST_DELAY_S = 3.0


class KillsExecutors(Callback):
    """Kills one executor a while after the job began, and two at a later step.

    Args:
        folder: A folder in the environment of the executors.
        steps: The steps of the whole fit.
        draw: Draws moments and victims.
    """

    def __init__(self, folder: Path, steps: int, draw: random.Random) -> None:
        self._folder, self._draw = folder, draw
        self._second_at = steps * draw.uniform(0.2, 0.9)
        self._delay_s = draw.uniform(0.0, MOST_DELAY_S)
        self._killed_at = 0.0
        self._step = 0
        self.kills: list[dict[str, Any]] = []
        self.restarts: list[str] = []

    def begin(self) -> None:
        """Waits, in a thread, for training processes, and then for the moment."""
        threading.Thread(target=self._kill_first, daemon=True).start()

    def on_steps(self, update: Any) -> None:
        """Measures the duration of a loss, and causes the second one."""
        self._step = update.first_step + update.num_steps
        if self._killed_at and len(self.restarts) == len(self.kills):
            self.kills[-1]["back_s"] = round(time.monotonic() - self._killed_at, 2)
            self._killed_at = 0.0
        if len(self.kills) == 1 and not self._killed_at and self._step >= self._second_at:
            self._kill(2)

    def on_restart(self, reason: str) -> None:
        """Records the restart."""
        self.restarts.append(reason)

    def _kill_first(self) -> None:
        while not training_processes(self._folder):
            time.sleep(0.05)
        time.sleep(self._delay_s)
        self._kill(1)

    def _kill(self, count: int) -> None:
        victims = self._draw.sample(sorted(executor_processes(self._folder)), count)
        self.kills.append({"executors": count, "step": self._step})
        self._killed_at = time.monotonic()
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def main() -> None:
    folder, rounds, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    spark = fault_session(folder, "local-cluster[3,1,1024]")
    rows = [([float(i % 7), float(i % 3)], float(i % 7 - 2 * (i % 3))) for i in range(ROWS)]
    df = spark.createDataFrame(rows, "features array<double>, label double")

    def fit(**params: Any) -> Any:
        return SparkTrainer(
            model_fn=linear,
            numWorkers=2,
            numPs=1,
            batchSize=BATCH,
            epochs=EPOCHS,
            syncMode="sync",
            seed=5,
            progress=False,
            **params,
        ).fit(df)

    def variables(model: Any) -> dict[str, list[float]]:
        return {k: v.ravel().tolist() for k, v in model.inference_model.variables.items()}

    began = time.monotonic()
    calm = fit()
    steps = calm.history.steps
    print(json.dumps({"calm_s": time.monotonic() - began, "steps": steps}), flush=True)
    for number in range(rounds):
        kills = KillsExecutors(folder, steps, random.Random(f"{seed}-{number}"))
        kills.begin()
        directory = str(folder / f"checkpoints-{number}")
        model = fit(checkpointDir=directory, checkpointSteps=steps // 10, callbacks=[kills])
        found = {
            "kills": kills.kills,
            "told": kills.restarts,
            "restarts": [each["reason"] for each in model.history.restarts],
            "undone": [each["undone_steps"] for each in model.history.restarts],
            "steps": model.history.steps,
            "equal": variables(model) == variables(calm),
            "left": len(left_after(lambda: training_processes(folder))),
        }
        print(json.dumps(found), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
