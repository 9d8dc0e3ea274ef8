"""Sends a model to the executors, once per application however often it transforms."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sparkflow.export import InferenceModel
from sparkflow.graph.nodes.reach import ALL


class Files(Protocol):
    """A broadcast variable, or its substitute on Connect."""

    @property
    def value(self) -> Mapping[str, bytes]: ...  # noqa: D102  as a broadcast variable has it


@dataclass(frozen=True, slots=True)
class ShippedModel:
    """A model's files, as seen by tasks.

    Attributes:
        key: The key under which Python workers cache the model.
        files: Read from the executor's disk when `value` is accessed, which only the first task of
            a Python worker does.
    """

    key: str
    files: Files

    def load(self) -> InferenceModel:
        """Loads the model in a task; allowed ops were checked when it was loaded or created."""
        return InferenceModel.from_files(self.files.value, ALL)


class Shipper:
    """Ships a model once per application; copies of the model share it.

    Args:
        model: The model.
    """

    def __init__(self, model: InferenceModel) -> None:
        self._model = model
        self._key = uuid.uuid4().hex
        self._shipped: tuple[Any, ShippedModel] | None = None

    def ship(self, session: Any) -> ShippedModel:
        """Returns the model on the executors of a session; blocks until Spark has received it."""
        if not hasattr(session, "_jsparkSession"):
            from sparkflow.spark.storage.artifacts import ship

            return ShippedModel(self._key, ship(session, self._model.to_files()))
        application = session.sparkContext.applicationId
        if self._shipped is None or self._shipped[0] != application:
            files = _broadcast(session.sparkContext, self._model.to_files())
            self._shipped = (application, ShippedModel(self._key, files))
        return self._shipped[1]


def _broadcast(context: Any, files: Mapping[str, bytes]) -> Files:
    """Returns a broadcast variable whose storage is freed when nothing uses it.

    Spark's cleaner frees its blocks everywhere when no model and no DataFrame refers to it, but the
    driver's file stays until the session ends. This function removes such files.
    """
    made: dict[str, Any] = context.__dict__.setdefault("_sparkflow_broadcasts", {})
    for path, variable in list(made.items()):
        if variable.get() is None and made.pop(path, None) is not None:
            with contextlib.suppress(FileNotFoundError):  # it was destroyed
                os.unlink(path)
    found = context.broadcast(files)
    made[found._path] = context._jvm.java.lang.ref.WeakReference(found._jbroadcast)
    shipped: Files = found
    return shipped
