"""The output columns of predictions, and their Arrow arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkflow.export import Output, Signature
from sparkflow_runtime.errors import InvalidArgumentError

_SCALARS = {"b": "boolean", "i": "bigint", "u": "bigint", "f": "double", "O": "string"}
_ELEMENTS = {"b": "boolean", "i": "bigint", "u": "bigint", "f": "float", "O": "string"}
_ARROW = {
    "boolean": pa.bool_(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "float": pa.float32(),
    "string": pa.string(),
}
VECTOR: Final = pa.struct(
    [
        pa.field("type", pa.int8(), nullable=False),
        pa.field("size", pa.int32()),
        pa.field("indices", pa.list_(pa.field("element", pa.int32(), nullable=False))),
        pa.field("values", pa.list_(pa.field("element", pa.float64(), nullable=False))),
    ]
)
"""The Arrow type of Spark ML's vectors, see `VectorUDT.sqlType`."""
_DENSE: Final = 1


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """One column that `transform` appends.

    Attributes:
        output: The name of the prediction.
        column: The name of the column.
        spark_type: The type that the Python worker returns, in Spark's DDL.
        is_vector: Whether the column is converted to a Spark ML vector.
        complement: How a prediction of one number per row is expanded to a vector of two, if it is:
            `probability` p to [1 - p, p], `rawPrediction` r to [-r, r]. For models from before
            2026-11-24; the graph of later ones returns both numbers.
    """

    output: str
    column: str
    spark_type: str
    is_vector: bool = False
    complement: str = ""


def output_columns(signature: Signature, columns: Mapping[str, str]) -> list[OutputColumn]:
    """Returns the output columns of a model.

    Args:
        signature: Of the model.
        columns: The output columns by prediction, for those of Spark ML: `prediction`,
            `probability`, `rawPrediction`. "" leaves a prediction out.

    Raises:
        ValueError: A prediction does not fit its column, or two have the same column.
    """
    every = [_output_column(output, columns) for output in signature.outputs]
    found = [each for each in every if each.column]
    names = [each.column for each in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"More than one prediction goes to the columns {', '.join(twice)}")
    return found


def _output_column(output: Output, columns: Mapping[str, str]) -> OutputColumn:
    kind = _kind(output)
    scalar = output.shape in ((), (1,))
    column = columns.get(output.name, output.name)
    if output.name in columns and kind == "O":
        raise ValueError(
            f"The prediction {output.name!r} is a string, but its column {column!r} holds numbers "
            "(give the prediction another name)"
        )
    if output.name == "prediction":
        if not scalar:
            raise ValueError(
                f"The prediction named 'prediction' must be one number per row, it has the shape "
                f"{output.shape} (name it 'rawPrediction' or 'probability', or take the argmax)"
            )
        return OutputColumn(output.name, column, "double")
    if output.name in columns:
        if len(output.shape) > 1:
            raise ValueError(
                f"The prediction named {output.name!r} becomes a vector, but it has the shape "
                f"{output.shape} per row"
            )
        complement = output.name if scalar else ""
        return OutputColumn(output.name, column, "array<double>", True, complement)
    if output.shape == ():
        return OutputColumn(output.name, column, _SCALARS[kind])
    depth = len(output.shape)
    return OutputColumn(output.name, column, "array<" * depth + _ELEMENTS[kind] + ">" * depth)


def _kind(output: Output) -> str:
    if output.dtype == "string":
        return "O"
    kind = str(np.dtype(output.dtype).kind) if output.dtype in np.sctypeDict else "none"
    if kind not in _SCALARS:
        raise ValueError(
            f"The prediction {output.name!r} is {output.dtype}; Spark columns can be made of real "
            "numbers, integers, truth values and texts"
        )
    return kind


def to_arrow(value: npt.NDArray[Any], column: OutputColumn) -> pa.Array:
    """Returns a batch of a prediction as the Arrow array of its column.

    Raises:
        InvalidArgumentError: A string is not UTF-8, or bigint cannot hold a number.
    """
    if column.complement:
        value = value.reshape(-1, 1).astype(np.float64)
        first = 1.0 - value if column.complement == "probability" else -value
        value = np.concatenate([first, value], axis=1)
    depth = column.spark_type.count("array<")
    element = _ARROW[column.spark_type.removeprefix("array<" * depth).rstrip(">")]
    flat = _flat(value.reshape(-1), element, column)
    shape = value.shape[: depth + 1]
    for level in range(depth, 0, -1):
        count = int(np.prod(shape[:level], dtype=np.int64))
        offsets = np.arange(count + 1, dtype=np.int32) * np.int32(shape[level])
        flat = pa.ListArray.from_arrays(pa.array(offsets), flat)
    return flat


def _flat(values: npt.NDArray[Any], element: Any, column: OutputColumn) -> pa.Array:
    if element != pa.string():
        if element == pa.int64() and values.dtype == np.uint64 and (values >> 63).any():
            raise InvalidArgumentError(
                message=f"The prediction {column.output!r} is {values.max()} in some row, and "
                "bigint holds numbers below 2**63: let model_fn return tf.bitcast(x, tf.int64), or "
                "tf.as_string(x)"
            )
        return pa.array(values, type=element, safe=False)
    texts = pa.array(values.tolist(), pa.binary())
    try:
        return texts.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise InvalidArgumentError(
            message=f"The prediction {column.output!r} has texts that are not UTF-8: {error}"
        ) from error


def to_vectors(values: pa.Array) -> pa.Array:
    """Converts lists of doubles to dense Spark ML vectors of the type `VECTOR`."""
    rows = len(values)
    lists = pa.ListArray.from_arrays(
        values.offsets, values.values, type=VECTOR.field("values").type
    )
    parts = [
        pa.array(np.full(rows, _DENSE, np.int8)),
        pa.nulls(rows, pa.int32()),
        pa.nulls(rows, VECTOR.field("indices").type),
        lists,
    ]
    return pa.StructArray.from_arrays(parts, fields=list(VECTOR))
