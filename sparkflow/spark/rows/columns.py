"""Which columns hold features and labels, and how they are selected for training and inference.

Everything here looks at the schema only. What the rows hold is looked at by `profile`.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.ml.functions import vector_to_array
from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    IntegralType,
    NumericType,
    StructType,
)

FEATURES = "features"
"""The name of the selected features; the type is array<float>."""
LABEL = "label"
"""The name of the selected label; the type is bigint or float."""


@dataclass(frozen=True, slots=True)
class FeatureColumns:
    """The features of a DataFrame.

    Attributes:
        names: One vector or array column, or the scalar columns in the order of the features.
        kind: `vector`, `array` or `scalars`.
    """

    names: tuple[str, ...]
    kind: str

    def array(self) -> Column:
        """The features of a row as array<float>."""
        if self.kind == "vector":
            return vector_to_array(_quoted(self.names[0]), "float32")
        if self.kind == "array":
            return _quoted(self.names[0]).cast("array<float>")
        return F.array(*(_quoted(name).cast("float") for name in self.names))

    def describe(self) -> str:
        """The columns as error texts name them."""
        return ", ".join(map(repr, self.names))


@dataclass(frozen=True, slots=True)
class LabelColumn:
    """The labels of a DataFrame: int64 where the column holds integers, else float32."""

    name: str
    is_integer: bool

    def value(self) -> Column:
        """The label as bigint or float."""
        return _quoted(self.name).cast("bigint" if self.is_integer else "float")


def find_features(schema: StructType, given: str | list[str]) -> FeatureColumns:
    """The feature columns that `featuresCol` names.

    Raises:
        ValueError: A column does not exist.
        TypeError: A column holds something else than numbers.
    """
    if isinstance(given, list):
        for name in given:
            if not _is_scalar(_type_of(schema, name)):
                raise TypeError(
                    f"featuresCol is a list, so each of its columns must be numeric; "
                    f"{name!r} is {_type_of(schema, name).simpleString()}"
                )
        return FeatureColumns(tuple(given), "scalars")
    found = _type_of(schema, given)
    if found.typeName() == "vectorudt" or found.simpleString() == "vector":
        return FeatureColumns((given,), "vector")
    if isinstance(found, ArrayType) and _is_scalar(found.elementType):
        return FeatureColumns((given,), "array")
    if _is_scalar(found):
        return FeatureColumns((given,), "scalars")
    raise TypeError(
        f"The features column {given!r} is {found.simpleString()}; it must hold vectors, arrays of "
        "numbers or numbers"
    )


def find_label(schema: StructType, name: str) -> LabelColumn:
    """The label column.

    Raises:
        ValueError: It does not exist.
        TypeError: It holds something else than numbers.
    """
    found = _type_of(schema, name)
    if not _is_scalar(found):
        raise TypeError(
            f"The label column {name!r} is {found.simpleString()}; it must hold numbers "
            "(pyspark.ml's StringIndexer makes numbers of texts)"
        )
    whole = isinstance(found, IntegralType | BooleanType) or (
        isinstance(found, DecimalType) and found.scale == 0
    )
    return LabelColumn(name, whole)


def select_rows(df: DataFrame, features: FeatureColumns, label: LabelColumn) -> DataFrame:
    """Features and label only, cast before anything is moved."""
    return df.select(features.array().alias(FEATURES), label.value().alias(LABEL))


def _type_of(schema: StructType, name: str) -> DataType:
    for field in schema.fields:
        if field.name == name:
            return field.dataType
    raise ValueError(f"There is no column {name!r}; the DataFrame has {', '.join(schema.names)}")


def _is_scalar(kind: DataType) -> bool:
    return isinstance(kind, NumericType | BooleanType)


def _quoted(name: str) -> Column:
    # A dot in the name of a column would otherwise ask for a field of a struct.
    return F.col("`" + name.replace("`", "``") + "`")
