"""What is shown while training runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from sparkflow.spark.params.aliases import ParamAliases, Self
from sparkflow.spark.params.converters import boolean, param, text


class ReportingParams(ParamAliases):
    """What is shown while training runs."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "progress": True,
        "logDir": "",
        "mlflow": False,
    }

    progress = param(
        "progress",
        "whether the driver shows how training goes: a bar in terminals, a table in notebooks",
        boolean,
    )
    logDir = param(
        "logDir",
        "a directory on the driver, or a URI that pyarrow can write, for TensorBoard; each fit "
        "gets a folder of its own there, written live; empty for none",
        text,
    )
    mlflow = param(
        "mlflow",
        "whether parameters, metrics and the model are logged to an MLflow run of the fit, a child "
        "of the active run if there is one",
        boolean,
    )

    def getProgress(self) -> bool:
        """Whether progress is shown."""
        return bool(self.getOrDefault(self.progress))

    def setProgress(self: Self, value: bool) -> Self:
        """Sets `progress`."""
        return self._set(progress=value)

    def getLogDir(self) -> str:
        """The directory for TensorBoard, or an empty text."""
        return str(self.getOrDefault(self.logDir))

    def setLogDir(self: Self, value: str) -> Self:
        """Sets `logDir`."""
        return self._set(logDir=value)

    def getMlflow(self) -> bool:
        """Whether MLflow is told."""
        return bool(self.getOrDefault(self.mlflow))

    def setMlflow(self: Self, value: bool) -> Self:
        """Sets `mlflow`."""
        return self._set(mlflow=value)
