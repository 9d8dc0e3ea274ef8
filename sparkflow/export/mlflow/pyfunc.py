"""A model as MLflow calls it. Neither Spark nor pickled code is needed."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from sparkflow.export.inference_model import InferenceModel
from sparkflow.export.predictor import Predictor
from sparkflow.export.signature import DENSE, SPARSE, Input
from sparkflow.export.values import exact
from sparkflow.graph.nodes.reach import Allowed
from sparkflow_runtime.errors import InvalidArgumentError

ALLOWED_OPS = "allowed_ops"
"""The member of MLflow's `model_config` with the ops that may reach beyond their tensors."""


def load(path: str, model_config: Mapping[str, Any] | None = None) -> PyfuncModel:
    """The model in a folder.

    Args:
        path: The folder that `InferenceModel.save` wrote.
        model_config: `allowed_ops` as for `InferenceModel.load`.

    Raises:
        PermissionDeniedError: The graph has ops that would have to be allowed.
    """
    allowed: Allowed = (model_config or {}).get(ALLOWED_OPS)
    return PyfuncModel(InferenceModel.load(path, allowed).predictor())


class PyfuncModel:
    """The object that MLflow calls.

    Args:
        predictor: Of the model.
        batch_size: Rows per run of the graph.
    """

    def __init__(self, predictor: Predictor, batch_size: int = 4096) -> None:
        self._predictor = predictor
        self._batch_size = batch_size

    def predict(self, model_input: Any, params: Any = None) -> dict[str, Any]:
        """Predictions by name: an array per prediction, a row per row; texts as str.

        Args:
            model_input: As the model's signature says: an array [batch, n], a dictionary of arrays
                by input, or a pandas frame with a column per input (of one dense input also per
                number). Where MLflow does not check the signature, vectors of Spark ML and
                everything that `InferenceModel.predict` takes will do as well.
            params: Not used.

        Raises:
            InvalidArgumentError: The values do not fit the model.
        """
        signature = self._predictor.signature
        if signature.named:
            names = [each.name for each in signature.inputs]
            given = set(model_input.keys())  # a dictionary's or a frame's
            missing = [name for name in names if name not in given]
            if missing:
                raise InvalidArgumentError(
                    message=f"The model takes the columns {names}; {missing} are missing"
                )
            values: Any = {
                each.name: _rows(each, model_input[each.name]) for each in signature.inputs
            }
        else:
            values = _only(signature.inputs[0], model_input)
        found = self._predictor.predict(values, self._batch_size)
        return {name: _texts(value) for name, value in found.items()}


def _only(each: Input, given: Any) -> Any:
    """The value of a model's only input."""
    if not hasattr(given, "columns"):
        return _rows(each, given)
    if len(given.columns) == 1:
        column = given[given.columns[0]]
        if each.kind != DENSE or column.dtype == object or not len(column):
            return _rows(each, column)
    return given.to_numpy()


def _rows(each: Input, column: Any) -> Any:
    """A column as `InferenceModel.predict` takes it."""
    values = column.to_numpy() if hasattr(column, "to_numpy") else column
    if each.kind == SPARSE:
        return _sparse(each, values)
    if each.kind != DENSE:
        return [_list(row) for row in values]
    if not len(values):  # a frame without rows does not tell how long they would be
        return np.empty((0, *each.shape), object if each.dtype == "string" else each.dtype)
    is_objects = isinstance(values, np.ndarray) and values.dtype.kind == "O"
    if is_objects and each.dtype != "string":
        return np.stack([_dense(row) for row in values])
    if each.dtype == "string" and each.shape:
        return np.array([list(row) for row in values], object)
    return np.asarray(values, object) if each.dtype == "string" else np.asarray(values)


def _list(row: Any) -> Any:
    if isinstance(row, np.ndarray) and row.dtype.kind == "M":
        return list(row)  # `tolist` makes numbers of nanoseconds
    return row.tolist() if hasattr(row, "tolist") else row


def _dense(row: Any) -> Any:
    return row.toArray() if hasattr(row, "toArray") else np.asarray(row)


def _sparse(each: Input, values: Any) -> Any:
    """Rows of indices and values as one matrix."""
    if hasattr(values, "tocsr") or isinstance(values, tuple):
        return values
    if isinstance(values, np.ndarray) and values.dtype != object and len(values):
        return values
    try:
        parts = [_indices_and_values(row) for row in values]
    except ValueError as error:
        raise InvalidArgumentError(
            message=f"The indices of the input {each.name!r} must be int64: {error}"
        ) from error
    width = each.shape[0]
    for indices, held in parts:
        if len(indices) != len(held):
            raise InvalidArgumentError(
                message=f"A row of the input {each.name!r} has {len(indices)} indices and "
                f"{len(held)} values"
            )
        if len(indices) and not 0 <= indices.min() <= indices.max() < width:
            raise InvalidArgumentError(
                message=f"A row of the input {each.name!r} has indices from {indices.min()} to "
                f"{indices.max()}; there are {width}, from 0"
            )
    ends = np.cumsum([0, *(len(indices) for indices, _ in parts)])
    columns = np.concatenate([np.empty(0, np.int64), *(indices for indices, _ in parts)])
    data = np.concatenate([np.empty(0, each.dtype), *(held for _, held in parts)])
    matrix: Any = importlib.import_module("scipy.sparse").csr_matrix(
        (data, columns, ends), (len(parts), width)
    )
    matrix.sort_indices()
    return matrix


def _indices_and_values(row: Any) -> tuple[Any, Any]:
    if hasattr(row, "asDict"):  # pyspark's Row
        row = row.asDict()
    if isinstance(row, Mapping):
        indices, values = row["indices"], row["values"]
    elif hasattr(row, "indices"):  # Spark ML's SparseVector
        indices, values = row.indices, row.values
    else:
        dense = _dense(row)
        indices = np.flatnonzero(dense)
        values = dense[indices]
    return exact(indices, "int64"), np.asarray(values)


def _texts(value: Any) -> Any:
    if value.dtype != object:
        return value
    decoded = np.empty(value.size, object)
    decoded[:] = [each.decode() if isinstance(each, bytes) else each for each in value.reshape(-1)]
    return decoded.reshape(value.shape)
