"""How the replicas train: how many, in what portions, how their gradients meet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from sparkflow.spark.params.aliases import ParamAliases, Self
from sparkflow.spark.params.converters import choice, integer, json_dict, param

SYNC_MODES = ("async", "sync", "ssp", "allreduce")


class TrainingParams(ParamAliases):
    """How the replicas train."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "numWorkers": 1,
        "numPs": 1,
        "batchSize": 128,
        "epochs": 1,
        "maxSteps": 0,
        "syncMode": "async",
        "staleness": 3,
        "backupWorkers": 0,
        "gradientAccumulation": 1,
        # pyspark.ml's HasSeed takes hash(), which differs from process to process.
        "seed": 42,
        "modelParams": {},
    }

    numWorkers = param("numWorkers", "tasks that compute gradients, each on its rows", integer(1))
    numPs = param(
        "numPs",
        "tasks that hold the variables; 0 has the workers hold them beside their work",
        integer(0),
    )
    batchSize = param("batchSize", "rows per step of each worker", integer(1))
    epochs = param("epochs", "how often each row is trained on", integer(1))
    maxSteps = param(
        "maxSteps",
        "steps of all workers after which training ends before the epochs do; 0 for no limit",
        integer(0),
    )
    syncMode = param(
        "syncMode",
        "how gradients meet: 'async' (each worker applies its own), 'sync' (averaged over all "
        "workers at each step), 'ssp' (async, but no worker is more than staleness steps "
        "ahead), 'allreduce' (sync among the workers, without parameter servers)",
        choice(*SYNC_MODES),
    )
    staleness = param(
        "staleness",
        "with syncMode='ssp': how many steps a worker may be ahead of the slowest",
        integer(0),
    )
    backupWorkers = param(
        "backupWorkers",
        "with syncMode='sync': workers whose gradients a step does not wait for",
        integer(0),
    )
    gradientAccumulation = param(
        "gradientAccumulation",
        "batches whose gradients are added up before they are applied",
        integer(1),
    )
    seed = param(
        "seed",
        "decides the orders of the rows, splits, and the random ops that have no seed",
        integer(0),
    )
    modelParams = param("modelParams", "passed to model_fn as its params", json_dict)

    def getNumWorkers(self) -> int:
        """The number of workers."""
        return int(self.getOrDefault(self.numWorkers))

    def setNumWorkers(self: Self, value: int) -> Self:
        """Sets `numWorkers`."""
        return self._set(numWorkers=value)

    def getNumPs(self) -> int:
        """The number of tasks that only hold variables."""
        return int(self.getOrDefault(self.numPs))

    def setNumPs(self: Self, value: int) -> Self:
        """Sets `numPs`."""
        return self._set(numPs=value)

    def getBatchSize(self) -> int:
        """Rows per step of each worker."""
        return int(self.getOrDefault(self.batchSize))

    def setBatchSize(self: Self, value: int) -> Self:
        """Sets `batchSize`."""
        return self._set(batchSize=value)

    def getEpochs(self) -> int:
        """How often each row is trained on."""
        return int(self.getOrDefault(self.epochs))

    def setEpochs(self: Self, value: int) -> Self:
        """Sets `epochs`."""
        return self._set(epochs=value)

    def getMaxSteps(self) -> int:
        """The most steps, or 0."""
        return int(self.getOrDefault(self.maxSteps))

    def setMaxSteps(self: Self, value: int) -> Self:
        """Sets `maxSteps`."""
        return self._set(maxSteps=value)

    def getSyncMode(self) -> str:
        """`async`, `sync`, `ssp` or `allreduce`."""
        return str(self.getOrDefault(self.syncMode))

    def setSyncMode(self: Self, value: str) -> Self:
        """Sets `syncMode`."""
        return self._set(syncMode=value)

    def getStaleness(self) -> int:
        """Steps that a worker may be ahead."""
        return int(self.getOrDefault(self.staleness))

    def setStaleness(self: Self, value: int) -> Self:
        """Sets `staleness`."""
        return self._set(staleness=value)

    def getBackupWorkers(self) -> int:
        """Workers that a step does not wait for."""
        return int(self.getOrDefault(self.backupWorkers))

    def setBackupWorkers(self: Self, value: int) -> Self:
        """Sets `backupWorkers`."""
        return self._set(backupWorkers=value)

    def getGradientAccumulation(self) -> int:
        """Batches per update."""
        return int(self.getOrDefault(self.gradientAccumulation))

    def setGradientAccumulation(self: Self, value: int) -> Self:
        """Sets `gradientAccumulation`."""
        return self._set(gradientAccumulation=value)

    def getSeed(self) -> int:
        """The seed."""
        return int(self.getOrDefault(self.seed))

    def setSeed(self: Self, value: int) -> Self:
        """Sets `seed`."""
        return self._set(seed=value)

    def getModelParams(self) -> dict[str, Any]:
        """What `model_fn` gets as `params`."""
        value: dict[str, Any] = self.getOrDefault(self.modelParams)
        return value

    def setModelParams(self: Self, value: dict[str, Any]) -> Self:
        """Sets `modelParams`."""
        return self._set(modelParams=value)
