"""Loading an estimator whose `model_fn` was not saved: files contain no code."""

from __future__ import annotations

from typing import Any, TypeVar

from pyspark.ml.util import DefaultParamsReader, MLReadable, MLReader

from sparkflow.spark.model.persistence import metadata_context
from sparkflow_runtime.errors import FailedPreconditionError

Trainer = TypeVar("Trainer", bound=MLReadable[Any])


def missing_model_fn(features: Any) -> Any:
    """Stands in for a model_fn that was not saved.

    Raises:
        FailedPreconditionError: Always; the message says what to do.
    """
    raise FailedPreconditionError(
        message="This SparkTrainer was loaded from files, which hold its parameters but not its "
        "model_fn: set trainer.model_fn before fit"
    )


class TrainerReader(MLReader[Trainer]):
    """Reads the parameters of a `SparkTrainer`.

    Args:
        trainer_class: The class that `load` was called on.
    """

    def __init__(self, trainer_class: type[Trainer]) -> None:
        super().__init__()
        self._class = trainer_class

    def load(self, path: str) -> Trainer:
        """Loads a trainer without its model_fn and callbacks."""
        name = f"{self._class.__module__}.{self._class.__name__}"
        metadata = DefaultParamsReader.loadMetadata(path, metadata_context(self.sparkSession), name)
        kind: Any = self._class
        trainer = kind(model_fn=missing_model_fn)
        trainer._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(trainer, metadata)
        return trainer  # type: ignore[no-any-return]  # it is of `_class`
