"""Saving and loading of models like Spark ML's: a directory with metadata and model files."""

from __future__ import annotations

import importlib
import json
import posixpath
import tempfile
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pyspark.ml.param import Params
from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter, MLReadable, MLReader, MLWriter

from sparkflow.export import InferenceModel
from sparkflow.export.model_files import MODEL_FILE, read_description
from sparkflow.graph.nodes.reach import ALL, Allowed
from sparkflow.spark.control.history.training_history import TrainingHistory
from sparkflow.spark.model.model_files import (
    download,
    local_folder,
    read_model_file,
    remove,
    upload,
)
from sparkflow_runtime.errors import (
    DataLossError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
)

_PACKAGE = "sparkflow."
ALLOWED_OPS = "spark.sparkflow.allowedOps"
"""The Spark setting for models that are loaded as stages of a pipeline."""
_METADATA = "spark_metadata"
"""The key of the description that holds Spark ML's metadata of parameters."""


Model = TypeVar("Model", bound=MLReadable[Any])


class ModelWriter(MLWriter):
    """Writes Spark ML's metadata and the files of the inference model.

    Args:
        model: The model whose Params are written.
        inference_model: The model whose files are written.
    """

    def __init__(self, model: Params, inference_model: InferenceModel) -> None:
        super().__init__()
        self._model = model
        self._inference_model = inference_model
        self._replaced: Collection[str] | None = None

    def _handleOverwrite(self, path: str) -> None:
        # An existing sparkflow model is kept until the new one is complete.
        self._replaced = _files_of(self.sparkSession, path)
        if self._replaced is None:
            remove(self.sparkSession, path)

    def saveImpl(self, path: str) -> None:
        """Writes to a path that does not exist, or overwrites a model if requested.

        The description is written last and also contains Spark's metadata; the separate copy is for
        Spark's pipeline readers.
        """
        session = self.sparkSession
        context = metadata_context(session)
        described = DefaultParamsWriter._get_metadata_to_save(self._model, context)
        given = self._inference_model
        model = replace(given, extra={**given.extra, _METADATA: json.loads(described)})
        metadata = posixpath.join(path, "metadata")
        if self._replaced is None:
            DefaultParamsWriter.saveMetadata(self._model, path, context)
            try:
                self._write(model, path, ())
            except Exception:
                remove(session, metadata)
                raise
            return
        self._write(model, path, self._replaced)
        remove(session, metadata)
        DefaultParamsWriter.saveMetadata(self._model, path, context)

    def _write(self, model: InferenceModel, path: str, taken: Collection[str]) -> None:
        local = local_folder(self.sparkSession, path)
        if local is not None:
            model.save(local)
            return
        with tempfile.TemporaryDirectory(prefix="sparkflow-model-") as folder:
            model.save(folder, taken)
            upload(self.sparkSession, Path(folder), path)


class ModelReader(MLReader[Model]):
    """Reads what `ModelWriter` wrote.

    Args:
        model_class: The class that `load` was called on; the saved one may be a subclass of it.
        allowed_ops: As for `InferenceModel.load`; None for the value of Spark's conf
            `spark.sparkflow.allowedOps`: comma-separated op types, or `all`.
    """

    def __init__(self, model_class: type[Model], allowed_ops: Allowed = None) -> None:
        super().__init__()
        self._class = model_class
        self._allowed_ops = allowed_ops

    def load(self, path: str) -> Model:
        """Loads the model.

        Raises:
            InvalidArgumentError: The directory holds something else, or a later version's model.
            NotFoundError, DataLossError: A file is missing or damaged.
            PermissionDeniedError: The graph has ops that must be allowed explicitly.
        """
        session = self.sparkSession
        allowed = self._allowed_ops if self._allowed_ops is not None else _allowed_by_conf(session)
        inference_model = _read(session, path, allowed)
        if inference_model is None:
            metadata = DefaultParamsReader.loadMetadata(path, metadata_context(session))
            self._saved_class(path, str(metadata["class"]))
            raise NotFoundError(message=f"{path} does not contain a model; it lacks {MODEL_FILE}")
        extra = dict(inference_model.extra)
        metadata = extra.pop(_METADATA, None)
        if metadata is None:  # before 2026-11-23, sparkflow wrote only Spark's copy
            metadata = DefaultParamsReader.loadMetadata(path, metadata_context(session))
        kind: Any = self._saved_class(path, str(metadata["class"]))
        inference_model = replace(inference_model, extra=extra)
        history = TrainingHistory.from_dict(inference_model.extra.get("history", {}))
        model = kind(inference_model, history)
        model._resetUid(metadata["uid"])
        # Parameters that a later version has added are unknown here and ignored.
        known = {param.name for param in model.params}
        for part in ("paramMap", "defaultParamMap"):
            metadata[part] = {k: v for k, v in metadata[part].items() if k in known}
        DefaultParamsReader.getAndSetParams(model, metadata)
        return model  # type: ignore[no-any-return]  # `kind` is a subclass of `_class`

    def _saved_class(self, path: str, name: str) -> type[Model]:
        """Returns the class that was saved; imports only sparkflow's classes and `_class`."""
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


def _allowed_by_conf(session: Any) -> Allowed:
    said = str(session.conf.get(ALLOWED_OPS, ""))
    return ALL if said == ALL else [each.strip() for each in said.split(",") if each.strip()]


def _read(session: Any, path: str, allowed: Allowed) -> InferenceModel | None:
    """Returns the model at a path, or None; if it is replaced meanwhile, the old or the new one."""
    local = local_folder(session, path)
    if local is not None:
        return InferenceModel.load(local, allowed) if (local / MODEL_FILE).exists() else None
    content = read_model_file(session, path)
    while content is not None:
        with tempfile.TemporaryDirectory(prefix="sparkflow-model-") as folder:
            (Path(folder) / MODEL_FILE).write_bytes(content)
            try:
                names = read_description(content, f"{path}/{MODEL_FILE}").names.values()
                download(session, path, names, Path(folder))
                return InferenceModel.load(folder, allowed)
            except (NotFoundError, DataLossError):
                before, content = content, read_model_file(session, path)
                if content == before:
                    raise
    return None


def _files_of(session: Any, path: str) -> Collection[str] | None:
    """Returns the file names of the model at a path; None if no readable model is there."""
    try:
        content = read_model_file(session, path)
        return None if content is None else list(read_description(content).names.values())
    except OpError:
        return None


def metadata_context(session: Any) -> Any:
    """Returns the argument of Spark's metadata functions: the context in 3.5, else the session."""
    return session.sparkContext if hasattr(session, "_jsparkSession") else session
