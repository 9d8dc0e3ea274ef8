"""The columns that `transform` sends to the Python workers for each input of a model.

The kind and dtype of an input were decided when the model was trained; here the columns are only
found and checked. Values are sent unchanged if Arrow has their type: casts and copies of arrays are
slower in the JVM than in numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.types import DataType, StructField

from sparkflow.export import DENSE, RAGGED, Input, Signature
from sparkflow.spark.data.schema.frame import (
    Schema,
    as_numbers,
    is_scalar,
    is_text,
    is_time,
    is_vector,
    needs_more_than_cast,
    quoted,
    text_of,
    unnested,
)
from sparkflow.spark.data.schema.row_schema import ARRAY, SCALARS, VECTOR_PARTS, InputColumns

Given = str | Sequence[str] | Mapping[str, str | Sequence[str]]

_VECTOR_PARTS = ("values", "indices", "size")


def input_columns(
    dataset: DataFrame, signature: Signature, given: Given
) -> tuple[list[InputColumns], list[Column]]:
    """Returns how each input is encoded, and the columns to send, input by input.

    Args:
        dataset: The DataFrame to transform.
        signature: The signature of the model.
        given: `featuresCol`: a column, a list of columns, or a dictionary of these by input name.

    Raises:
        ValueError: A column does not exist, or `featuresCol` does not match the model's inputs.
        TypeError: A column's type does not fit its input.
    """
    schema = Schema.of(dataset)
    encoded: list[InputColumns] = []
    sent: list[Column] = []
    for each, names in zip(signature.inputs, _by_input(signature, given), strict=True):
        fields = [
            schema.find(name, "featuresCol")
            for name in ([names] if isinstance(names, str) else names)
        ]
        form = _form(each, fields, is_list=not isinstance(names, str))
        encoded.append(InputColumns(each, form, tuple(field.name for field in fields)))
        for field in fields:
            sent += _sent(form, field, each.dtype)
    return encoded, sent


def _by_input(signature: Signature, given: Given) -> list[str | Sequence[str]]:
    names = [each.name for each in signature.inputs]
    if not isinstance(given, Mapping):
        if signature.named:
            raise ValueError(
                f"The model has the inputs {text_of(names)}, so featuresCol must be a dictionary "
                f"of their columns; it is {given!r}"
            )
        return [given]
    if not signature.named:
        raise ValueError(
            "The model has one input without a name, so featuresCol must be a column or a list of "
            f"columns; it is {given!r}"
        )
    missing = [name for name in names if name not in given]
    unknown = [name for name in given if name not in names]
    if missing or unknown:
        raise ValueError(
            f"The model has the inputs {text_of(names)}, but featuresCol has "
            f"{text_of(list(given))}: "
            + "; ".join(
                [f"no column for {text_of(missing)}"] * bool(missing)
                + [f"{text_of(unknown)} unknown"] * bool(unknown)
            )
        )
    return [given[name] for name in names]


def _form(each: Input, fields: Sequence[StructField], *, is_list: bool) -> str:
    kinds = [field.dataType for field in fields]
    if is_list or _is_single(each, kinds[0]):
        wrong = [field for field in fields if not _is_single(each, field.dataType)]
        if wrong:
            raise _refusal(each, wrong[0])
        if each.kind != DENSE or len(fields) != _size(each):
            raise TypeError(
                f"The model takes {_described(each)}, but featuresCol names "
                f"{len(fields)} columns of single values for it: "
                f"{text_of([field.name for field in fields])}"
            )
        return SCALARS
    if is_vector(kinds[0]):
        if each.dtype == "string" or each.kind == RAGGED:
            raise _refusal(each, fields[0])
        return VECTOR_PARTS
    element, depth, _ = unnested(kinds[0])
    if not depth or not _is_single(each, element) or (depth > 1 and each.kind != DENSE):
        raise _refusal(each, fields[0])
    return ARRAY


def _is_single(each: Input, kind: DataType) -> bool:
    return is_text(kind) if each.dtype == "string" else is_scalar(kind)


def _sent(form: str, field: StructField, dtype: str) -> list[Column]:
    column = quoted(field.name)
    if form == VECTOR_PARTS:
        parts = F.unwrap_udt(column)
        return [parts.getField(name) for name in _VECTOR_PARTS]
    element, depth, _ = unnested(field.dataType)
    if not needs_more_than_cast(element):
        return [column]
    target = "bigint" if is_time(element) or dtype == "int64" else "double"
    return [_deep(column, depth, lambda each: as_numbers(each, element, target))]


def _deep(column: Column, depth: int, change: Callable[[Column], Column]) -> Column:
    """Applies a change to the elements of nested arrays."""
    if not depth:
        return change(column)
    return F.transform(column, lambda inner: _deep(inner, depth - 1, change))


def _refusal(each: Input, field: StructField) -> TypeError:
    return TypeError(
        f"The model takes {_described(each)}, but the column {field.name!r} is "
        f"{field.dataType.simpleString()}"
    )


def _described(each: Input) -> str:
    what = (
        "texts"
        if each.dtype == "string"
        else "whole numbers"
        if each.dtype == "int64"
        else ("numbers")
    )
    if each.kind == RAGGED:
        return f"lists of {what} for {each.name!r}"
    if each.kind == DENSE and _size(each) == 1:
        return f"single {what} for {each.name!r}"
    sizes = " x ".join(map(str, each.shape))
    form = "" if each.dtype == "string" else " (a vector, an array or a list of columns)"
    return f"{sizes} {what} per row for {each.name!r}{form}"


def _size(each: Input) -> int:
    size = 1
    for length in each.shape:
        size *= length
    return size
