"""When training is judged, kept and ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from sparkflow.spark.params.aliases import ParamAliases, Self
from sparkflow.spark.params.converters import (
    boolean,
    choice,
    integer,
    number,
    param,
    resumption,
    seconds_or_zero,
    text,
)


class ControlParams(ParamAliases):
    """When training is judged, kept and ended."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "earlyStoppingPatience": 0,
        "earlyStoppingMetric": "loss",
        "earlyStoppingMode": "auto",
        "earlyStoppingMinDelta": 0.0,
        "validationSteps": 0,
        "checkpointDir": "",
        "checkpointSteps": 0,
        "checkpointSeconds": 0.0,
        "keepCheckpointMax": 3,
        "resume": "auto",
        "allowNonFinite": False,
    }

    earlyStoppingPatience = param(
        "earlyStoppingPatience",
        "evaluations without a better value after which training ends and the best values are "
        "restored; 0 for never",
        integer(0),
    )
    earlyStoppingMetric = param(
        "earlyStoppingMetric",
        "the metric that decides: 'loss' or a key of eval_metric_ops",
        text,
    )
    earlyStoppingMode = param(
        "earlyStoppingMode",
        "whether a lower ('min') or a higher ('max') value of that metric is better; 'auto' knows "
        "it of usual names ('auc', 'rmse', ...) and asks otherwise",
        choice("auto", "min", "max"),
    )
    earlyStoppingMinDelta = param(
        "earlyStoppingMinDelta", "how much better a value must be to count", number(0.0)
    )
    validationSteps = param(
        "validationSteps",
        "steps of all workers between evaluations; 0 for the end of each epoch",
        integer(0),
    )
    checkpointDir = param(
        "checkpointDir",
        "a directory on any file system that Spark or pyarrow can write (file:, hdfs:, s3a:, "
        "gs:); empty for none",
        text,
    )
    checkpointSteps = param(
        "checkpointSteps",
        "steps of all workers between checkpoints; 0 for the end of each epoch",
        integer(0),
    )
    checkpointSeconds = param(
        "checkpointSeconds", "seconds between checkpoints; 0 for none by time", seconds_or_zero
    )
    keepCheckpointMax = param(
        "keepCheckpointMax", "how many checkpoints are kept; 0 for all", integer(0)
    )
    resume = param(
        "resume",
        "whether training goes on from the last checkpoint in checkpointDir: 'auto' (if it is of "
        "the same training: parameters, graph and rows; an error otherwise), 'always' (if its "
        "variables fit), 'never'",
        resumption,
    )
    allowNonFinite = param(
        "allowNonFinite",
        "whether training goes on when the loss or a variable is NaN or infinite, instead of "
        "stopping with an error",
        boolean,
    )

    def getEarlyStoppingPatience(self) -> int:
        """Evaluations without improvement, or 0."""
        return int(self.getOrDefault(self.earlyStoppingPatience))

    def setEarlyStoppingPatience(self: Self, value: int) -> Self:
        """Sets `earlyStoppingPatience`."""
        return self._set(earlyStoppingPatience=value)

    def getEarlyStoppingMetric(self) -> str:
        """The metric that decides."""
        return str(self.getOrDefault(self.earlyStoppingMetric))

    def setEarlyStoppingMetric(self: Self, value: str) -> Self:
        """Sets `earlyStoppingMetric`."""
        return self._set(earlyStoppingMetric=value)

    def getEarlyStoppingMode(self) -> str:
        """`auto`, `min` or `max`."""
        return str(self.getOrDefault(self.earlyStoppingMode))

    def setEarlyStoppingMode(self: Self, value: str) -> Self:
        """Sets `earlyStoppingMode`."""
        return self._set(earlyStoppingMode=value)

    def getEarlyStoppingMinDelta(self) -> float:
        """How much better counts."""
        return float(self.getOrDefault(self.earlyStoppingMinDelta))

    def setEarlyStoppingMinDelta(self: Self, value: float) -> Self:
        """Sets `earlyStoppingMinDelta`."""
        return self._set(earlyStoppingMinDelta=value)

    def getValidationSteps(self) -> int:
        """Steps between evaluations, or 0."""
        return int(self.getOrDefault(self.validationSteps))

    def setValidationSteps(self: Self, value: int) -> Self:
        """Sets `validationSteps`."""
        return self._set(validationSteps=value)

    def getCheckpointDir(self) -> str:
        """The directory of checkpoints, or an empty text."""
        return str(self.getOrDefault(self.checkpointDir))

    def setCheckpointDir(self: Self, value: str) -> Self:
        """Sets `checkpointDir`."""
        return self._set(checkpointDir=value)

    def getCheckpointSteps(self) -> int:
        """Steps between checkpoints, or 0."""
        return int(self.getOrDefault(self.checkpointSteps))

    def setCheckpointSteps(self: Self, value: int) -> Self:
        """Sets `checkpointSteps`."""
        return self._set(checkpointSteps=value)

    def getCheckpointSeconds(self) -> float:
        """Seconds between checkpoints, or 0."""
        return float(self.getOrDefault(self.checkpointSeconds))

    def setCheckpointSeconds(self: Self, value: float) -> Self:
        """Sets `checkpointSeconds`."""
        return self._set(checkpointSeconds=value)

    def getKeepCheckpointMax(self) -> int:
        """Checkpoints that are kept, or 0."""
        return int(self.getOrDefault(self.keepCheckpointMax))

    def setKeepCheckpointMax(self: Self, value: int) -> Self:
        """Sets `keepCheckpointMax`."""
        return self._set(keepCheckpointMax=value)

    def getResume(self) -> str:
        """`auto`, `always` or `never`."""
        return str(self.getOrDefault(self.resume))

    def setResume(self: Self, value: str) -> Self:
        """Sets `resume`."""
        return self._set(resume=value)

    def getAllowNonFinite(self) -> bool:
        """Whether NaNs and infinities are let pass."""
        return bool(self.getOrDefault(self.allowNonFinite))

    def setAllowNonFinite(self: Self, value: bool) -> Self:
        """Sets `allowNonFinite`."""
        return self._set(allowNonFinite=value)
