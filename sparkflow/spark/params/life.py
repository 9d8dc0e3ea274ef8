"""Deadlines, restarts and logs of the job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from sparkflow.spark.params.aliases import ParamAliases, Self
from sparkflow.spark.params.converters import boolean, integer, param, seconds


class LifeParams(ParamAliases):
    """Deadlines, restarts and logs of the job."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "startTimeout": 120.0,
        "stallTimeout": 600.0,
        "maxRestarts": 3,
        "workerLogs": False,
    }

    startTimeout = param(
        "startTimeout",
        "seconds that Spark has for starting all tasks, and the tasks for receiving their rows "
        "without a sign of progress",
        seconds,
    )
    stallTimeout = param(
        "stallTimeout",
        "seconds without a step of any worker after which training is given up with a report of"
        " who waits for whom",
        seconds,
    )
    maxRestarts = param(
        "maxRestarts",
        "how often training is started again, from the last checkpoint if there is one, after "
        "the loss of a task or executor",
        integer(0),
    )
    workerLogs = param(
        "workerLogs",
        "whether what tasks write to stderr is shown on the driver, with the role of the task "
        "before each line",
        boolean,
    )

    def getStartTimeout(self) -> float:
        """Seconds for starting the tasks."""
        return float(self.getOrDefault(self.startTimeout))

    def setStartTimeout(self: Self, value: float) -> Self:
        """Sets `startTimeout`."""
        return self._set(startTimeout=value)

    def getStallTimeout(self) -> float:
        """Seconds without a step."""
        return float(self.getOrDefault(self.stallTimeout))

    def setStallTimeout(self: Self, value: float) -> Self:
        """Sets `stallTimeout`."""
        return self._set(stallTimeout=value)

    def getMaxRestarts(self) -> int:
        """How often training is started again."""
        return int(self.getOrDefault(self.maxRestarts))

    def setMaxRestarts(self: Self, value: int) -> Self:
        """Sets `maxRestarts`."""
        return self._set(maxRestarts=value)

    def getWorkerLogs(self) -> bool:
        """Whether the logs of tasks are shown."""
        return bool(self.getOrDefault(self.workerLogs))

    def setWorkerLogs(self: Self, value: bool) -> Self:
        """Sets `workerLogs`."""
        return self._set(workerLogs=value)
