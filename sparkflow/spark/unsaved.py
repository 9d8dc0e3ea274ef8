"""Reading an estimator whose `model_fn` was not saved: files hold no code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.ml.util import DefaultParamsReader, MLReader

from sparkflow.spark.model.persistence import metadata_context
from sparkflow_runtime.errors import FailedPreconditionError

if TYPE_CHECKING:
    from sparkflow.spark.trainer import SparkTrainer


def missing_model_fn(features: Any) -> Any:
    """Stands in the place of a model_fn that was not saved.

    Raises:
        FailedPreconditionError: Always; the text says what to do.
    """
    raise FailedPreconditionError(
        message="This SparkTrainer was loaded from files, which hold its parameters but not its "
        "model_fn: set trainer.model_fn before fit"
    )


class TrainerReader(MLReader[Any]):
    """Reads the parameters of a `SparkTrainer`.

    Args:
        trainer_class: The class that `load` was called on.
    """

    def __init__(self, trainer_class: type[SparkTrainer]) -> None:
        super().__init__()
        self._class = trainer_class

    def load(self, path: str) -> SparkTrainer:
        """A trainer that has everything but its model_fn and callbacks."""
        name = f"{self._class.__module__}.{self._class.__name__}"
        metadata = DefaultParamsReader.loadMetadata(path, metadata_context(self.sparkSession), name)
        trainer = self._class(model_fn=missing_model_fn)
        trainer._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(trainer, metadata)
        return trainer
