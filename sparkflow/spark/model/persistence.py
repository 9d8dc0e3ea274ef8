"""Saving and loading models as Spark ML does: a directory with metadata and the model's files."""

from __future__ import annotations

import importlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter, MLReader, MLWriter

from sparkflow.export import InferenceModel
from sparkflow.export.inference_model import FILES
from sparkflow.spark.model.files import download, local_folder, upload
from sparkflow.spark.report.history import TrainingHistory
from sparkflow_runtime.errors import InvalidArgumentError

if TYPE_CHECKING:
    from sparkflow.spark.model.trainer_model import SparkTrainerModel

_PACKAGE = "sparkflow."


class ModelWriter(MLWriter):
    """Writes Spark ML's metadata and the files of the inference model.

    Args:
        model: What is written.
    """

    def __init__(self, model: SparkTrainerModel) -> None:
        super().__init__()
        self._model = model

    def _handleOverwrite(self, path: str) -> None:
        # Spark's own needs a JVM.
        if hasattr(self.sparkSession, "_jsparkSession"):
            super()._handleOverwrite(path)
        else:
            from sparkflow.spark.connect.files import remove_directory

            remove_directory(self.sparkSession, path)

    def saveImpl(self, path: str) -> None:
        """Writes to a path that does not exist; the description comes last."""
        session = self.sparkSession
        DefaultParamsWriter.saveMetadata(self._model, path, metadata_context(session))
        model = self._model.inference_model
        local = local_folder(session, path)
        if local is not None:
            model.save(local)
            return
        with tempfile.TemporaryDirectory(prefix="sparkflow-model-") as folder:
            model.save(folder)
            upload(session, Path(folder), path)


class ModelReader(MLReader[Any]):
    """Reads what `ModelWriter` wrote.

    Args:
        model_class: The class that `load` was called on; the saved one may be a subclass of it.
    """

    def __init__(self, model_class: type[SparkTrainerModel]) -> None:
        super().__init__()
        self._class = model_class

    def load(self, path: str) -> SparkTrainerModel:
        """The model, as it was saved.

        Raises:
            InvalidArgumentError: The directory holds something else, or a later version's model.
            NotFoundError, DataLossError: A file is missing or damaged.
        """
        session = self.sparkSession
        metadata = DefaultParamsReader.loadMetadata(path, metadata_context(session))
        kind = self._saved_class(path, str(metadata["class"]))
        inference_model = _read(session, path)
        history = TrainingHistory.from_dict(inference_model.extra.get("history", {}))
        model = kind(inference_model, history)
        model._resetUid(metadata["uid"])
        # Parameters that a later version has added, and this one does not know, mean nothing here.
        known = {param.name for param in model.params}
        for part in ("paramMap", "defaultParamMap"):
            metadata[part] = {k: v for k, v in metadata[part].items() if k in known}
        DefaultParamsReader.getAndSetParams(model, metadata)
        return model

    def _saved_class(self, path: str, name: str) -> type[SparkTrainerModel]:
        """The class that was saved; only classes of sparkflow and `_class` itself are imported."""
        if name == f"{self._class.__module__}.{self._class.__name__}":
            return self._class
        module, _, attribute = name.rpartition(".")
        found = None
        if name.startswith(_PACKAGE):
            found = getattr(importlib.import_module(module), attribute, None)
        if not isinstance(found, type) or not issubclass(found, self._class):
            raise InvalidArgumentError(
                message=f"{path} holds a {name}, not a {self._class.__name__}; load it with the "
                "class that saved it"
            )
        return found


def _read(session: Any, path: str) -> InferenceModel:
    local = local_folder(session, path)
    if local is not None:
        return InferenceModel.load(local)
    with tempfile.TemporaryDirectory(prefix="sparkflow-model-") as folder:
        download(session, path, FILES, Path(folder))
        return InferenceModel.load(folder)


def metadata_context(session: Any) -> Any:
    """What Spark's metadata functions take: 3.5 wants the context, which Connect has not."""
    return session.sparkContext if hasattr(session, "_jsparkSession") else session
