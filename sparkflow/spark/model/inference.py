"""Running a model inside Spark's Python workers: Arrow arrays in, Arrow arrays out."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkflow.export import InferenceModel, Output, Predictor, Signature
from sparkflow_runtime.errors import InvalidArgumentError

_CACHED_MODELS = 4
_cache: OrderedDict[str, Predictor] = OrderedDict()
_cache_lock = threading.Lock()  # guards _cache

_SCALARS = {"b": "boolean", "i": "bigint", "u": "bigint", "f": "double"}
_ELEMENTS = {"b": "boolean", "i": "bigint", "u": "bigint", "f": "float"}
_ARROW = {
    "boolean": pa.bool_(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "float": pa.float32(),
}


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """One column that `transform` appends.

    Attributes:
        output: Name of the prediction.
        column: Name of the column.
        spark_type: What the Python worker returns, in Spark's DDL.
        is_vector: Whether the column is made a Spark ML vector of it.
        complement: How a prediction of one number per row becomes a vector of two, if it does:
            `probability` p gives [1 - p, p], `rawPrediction` r gives [-r, r].
    """

    output: str
    column: str
    spark_type: str
    is_vector: bool = False
    complement: str = ""


def output_columns(signature: Signature, columns: Mapping[str, str]) -> list[OutputColumn]:
    """The columns of a model.

    Args:
        signature: Of the model.
        columns: The column of each prediction that Spark ML has a column for: `prediction`,
            `probability`, `rawPrediction`.

    Raises:
        ValueError: A prediction does not fit its column, or two go to the same.
    """
    found = [_output_column(output, columns) for output in signature.outputs]
    names = [each.column for each in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"More than one prediction goes to the columns {', '.join(twice)}")
    return found


def _output_column(output: Output, columns: Mapping[str, str]) -> OutputColumn:
    kind = _kind(output)
    scalar = output.shape in ((), (1,))
    column = columns.get(output.name, output.name)
    if output.name == "prediction":
        if not scalar:
            raise ValueError(
                f"The prediction named 'prediction' must be one number per row, it has "
                f"{output.shape[0]} (name it 'rawPrediction' or 'probability', or take the argmax)"
            )
        return OutputColumn(output.name, column, "double")
    if output.name in columns:
        complement = output.name if scalar else ""
        return OutputColumn(output.name, column, "array<double>", True, complement)
    if output.shape == ():
        return OutputColumn(output.name, column, _SCALARS[kind])
    return OutputColumn(output.name, column, f"array<{_ELEMENTS[kind]}>")


def _kind(output: Output) -> str:
    kind = str(np.dtype(output.dtype).kind) if output.dtype in np.sctypeDict else "none"
    if kind not in _SCALARS:
        raise ValueError(
            f"The prediction {output.name!r} is {output.dtype}; Spark columns can be made of real "
            "numbers, integers and truth values"
        )
    return kind


def predict_batches(
    model_files: Mapping[str, bytes],
    columns: Sequence[OutputColumn],
    batch_size: int,
    batches: Iterable[pa.Array],
) -> Iterator[pa.Array]:
    """One struct array of predictions per array of features.

    Args:
        model_files: The model, as `InferenceModel.to_files` gives it.
        columns: The fields of the struct.
        batch_size: Rows per run of the graph.
        batches: list<float> arrays.

    Raises:
        InvalidArgumentError: Nulls, or features of another length than the model was trained on.
    """
    predictor = _load(model_files)
    for batch in batches:
        features = (
            _features(batch)
            if len(batch)
            else np.zeros((0, *predictor.signature.inputs[0].shape), np.float32)
        )
        parts: dict[str, list[npt.NDArray[Any]]] = {each.output: [] for each in columns}
        # At least once, so that outputs of no rows have their shape.
        for start in range(0, max(len(features), 1), batch_size):
            for name, value in predictor(features[start : start + batch_size]).items():
                if name in parts:
                    parts[name].append(value)
        arrays = [_to_arrow(np.concatenate(parts[each.output]), each) for each in columns]
        yield pa.StructArray.from_arrays(arrays, [each.output for each in columns])


def _features(batch: pa.Array) -> npt.NDArray[np.float32]:
    values = batch.flatten()
    if batch.null_count or values.null_count:
        raise InvalidArgumentError(
            message=f"Nulls in the features of {batch.null_count or values.null_count} of "
            f"{len(batch)} rows. Drop these rows or replace the nulls before transform"
        )
    lengths = np.diff(batch.offsets.to_numpy())
    if lengths.min() != lengths.max():
        raise InvalidArgumentError(
            message=f"The features of a batch have {lengths.min()} to {lengths.max()} elements; "
            "all rows need the same number"
        )
    flat: npt.NDArray[np.float32] = values.to_numpy(zero_copy_only=True)
    return flat.reshape(len(batch), -1)


def _to_arrow(value: npt.NDArray[Any], column: OutputColumn) -> pa.Array:
    if column.complement:
        value = value.reshape(-1, 1).astype(np.float64)
        first = 1.0 - value if column.complement == "probability" else -value
        value = np.concatenate([first, value], axis=1)
    if not column.spark_type.startswith("array<"):
        return pa.array(value.reshape(-1), type=_ARROW[column.spark_type], safe=False)
    element = _ARROW[column.spark_type[len("array<") : -1]]
    flat = pa.array(value.reshape(-1), type=element, safe=False)
    offsets = np.arange(len(value) + 1, dtype=np.int32) * value.shape[1]
    return pa.ListArray.from_arrays(pa.array(offsets), flat)


def _load(files: Mapping[str, bytes]) -> Predictor:
    """The predictor of these files, kept for the next task of this worker process."""
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(files[name])
    key = digest.hexdigest()
    with _cache_lock:
        predictor = _cache.get(key)
        if predictor is None:
            predictor = _cache[key] = InferenceModel.from_files(files).predictor()
            while len(_cache) > _CACHED_MODELS:
                _cache.popitem(last=False)[1].close()
        _cache.move_to_end(key)
        return predictor
