"""Spark expressions that convert the columns of a DataFrame to those of a `RowFormat`.

There are two steps. Columns of `held` are profiled and cached: they have the final element types,
but vectors are still sparse or dense as in each row. `final` converts held columns to what leaves
Spark: scalars; array<float>, array<bigint> or array<string>; and struct<indices: array<int>,
values: array<float>> of sparse vectors.
"""

from __future__ import annotations

from typing import Final

from pyspark.ml.functions import vector_to_array
from pyspark.sql import Column, functions as F
from pyspark.sql.types import DataType

from sparkflow.spark.data.plan.sources import SCALAR, Source
from sparkflow.spark.data.schema.frame import as_numbers, needs_more_than_cast, quoted
from sparkflow.spark.data.schema.row_format import DENSE, SPARSE
from sparkflow.spark.data.schema.row_schema import ARRAY, SCALARS, VECTOR

THIN: Final = 20
"""Vectors become sparse if fewer than one element in this many is stored.

4 bytes per element are then more than six times as much as 12 bytes per stored element.
"""

SPARK_TYPES: Final = {"float32": "float", "int64": "bigint", "string": "string"}

# Fields of the held structs of vectors and of nested arrays.
SIZE, STORED, INDICES, VALUES, SHAPE = "size", "stored", "indices", "values", "shape"
_SPARSE_TYPE, _DENSE_TYPE = 0, 1


def held(source: Source) -> Column:
    """Returns the column of an input that is cached; null if the source column is."""
    first = quoted(source.columns[0])
    kind = element_type(source)
    if source.form == SCALAR:
        return as_numbers(first, source.types[0], kind)
    if source.form == SCALARS:
        columns = zip(source.columns, source.types, strict=True)
        return F.array(*(as_numbers(quoted(name), each, kind) for name, each in columns))
    if source.form == VECTOR:
        return _dense_vector(first) if source.kind == DENSE else _vector(first, source)
    if source.depth == 1:
        return _elements(first, source.types[0], kind)
    return _nested(first, source.depth, source.types[0], kind)


def element_type(source: Source) -> str:
    """Returns the type of single values, as Spark DDL."""
    return "binary" if source.is_bytes else SPARK_TYPES[source.dtype]


def is_struct(source: Source) -> bool:
    """Whether the held column is a struct with the elements in one of its fields."""
    return (source.form == VECTOR and source.kind != DENSE) or (
        source.form == ARRAY and source.depth > 1
    )


def values(source: Source, column: Column) -> Column:
    """Returns the elements of a held column: an array, or the scalar."""
    return column.getField(VALUES) if is_struct(source) else column


def measure(source: Source, column: Column) -> Column | None:
    """Returns the size, or shape of nested arrays, that all rows must share; null for nulls.

    None if there is nothing to compare: the schema determines it, or lists may have any length.
    """
    if source.form in (SCALAR, SCALARS) or source.kind not in (DENSE, SPARSE, ""):
        return None
    if source.form == VECTOR:
        return F.array_size(column) if source.kind == DENSE else column.getField(SIZE)
    return F.array_size(column) if source.depth == 1 else column.getField(SHAPE)


def final(source: Source, column: Column, kind: str, has_other_form: bool = True) -> Column:
    """Returns the column of an input that leaves Spark.

    Args:
        source: The source of the input.
        column: The held column.
        kind: `dense`, `sparse` or `ragged`.
        has_other_form: Whether some rows of a vector column are held in a form other than `kind`.
    """
    if source.form == SCALAR:
        return F.array(column) if source.shape == (1,) else column
    if source.form != VECTOR or source.kind == DENSE:
        return values(source, column)
    elements, indices = column.getField(VALUES), column.getField(INDICES)
    if kind == DENSE:
        if not has_other_form:
            return elements
        dense = _densified(column.getField(SIZE), indices, elements)
        return F.when(indices.isNull(), elements).otherwise(dense)
    sparse = F.struct(indices.alias(INDICES), elements.alias(VALUES))
    if has_other_form:
        sparse = F.when(indices.isNull(), _sparsified(elements)).otherwise(sparse)
    return F.when(column.isNotNull(), sparse)


def is_thin(column: Column) -> Column:
    """Whether the row of a held vector is in sparse form."""
    return column.getField(INDICES).isNotNull()


def _dense_vector(column: Column) -> Column:
    parts = F.unwrap_udt(column)
    # Dense rows are cast in place; vector_to_array creates an object for each first.
    return F.when(parts["type"] == _DENSE_TYPE, _floats(parts[VALUES])).when(
        parts["type"] == _SPARSE_TYPE, vector_to_array(column, "float32")
    )


def _vector(column: Column, source: Source) -> Column:
    parts = F.unwrap_udt(column)
    is_dense, is_sparse = parts["type"] == _DENSE_TYPE, parts["type"] == _SPARSE_TYPE
    stored = F.array_size(parts[VALUES])
    thin = is_sparse
    if source.kind != SPARSE:
        thin = thin & (stored * THIN < parts[SIZE])
    return F.when(
        column.isNotNull(),
        F.struct(
            F.when(is_sparse, parts[SIZE]).otherwise(stored).alias(SIZE),
            stored.alias(STORED),
            F.when(thin, parts[INDICES]).alias(INDICES),
            F.when(thin | is_dense, _floats(parts[VALUES]))
            .when(is_sparse, vector_to_array(column, "float32"))
            .alias(VALUES),
        ),
    )


def _elements(column: Column, given: DataType, kind: str) -> Column:
    if needs_more_than_cast(given):
        return F.transform(column, lambda element: as_numbers(element, given, kind))
    return column.cast(f"array<{kind}>")


def _nested(column: Column, depth: int, given: DataType, kind: str) -> Column:
    sizes = [F.array_size(column)]
    level = column
    for _ in range(depth - 1):
        inner = F.transform(level, F.array_size)
        shortest, longest = F.array_min(inner), F.array_max(inner)
        sizes.append(F.when(shortest == longest, longest).otherwise(F.lit(-1)))
        level = F.flatten(level)
    return F.when(
        column.isNotNull(),
        F.struct(F.array(*sizes).alias(SHAPE), _elements(level, given, kind).alias(VALUES)),
    )


def _densified(size: Column, indices: Column, elements: Column) -> Column:
    """Returns the elements with the zeros between them, one piece for each stored element."""
    zero = F.lit(0.0).cast("float")

    def piece(index: Column, place: Column) -> Column:
        before = F.coalesce(F.get(indices, place - 1), F.lit(-1))
        return F.concat(F.array_repeat(zero, index - before - 1), F.array(elements[place]))

    last = F.coalesce(F.get(indices, F.array_size(indices) - 1), F.lit(-1))
    rest = F.array_repeat(zero, size - last - 1)
    return F.flatten(F.concat(F.transform(indices, piece), F.array(rest)))


def _sparsified(elements: Column) -> Column:
    pairs = F.transform(
        elements, lambda element, place: F.struct(place.alias("i"), element.alias("x"))
    )
    stored = F.filter(pairs, lambda pair: pair["x"] != 0)
    return F.struct(
        F.transform(stored, lambda pair: pair["i"]).alias(INDICES),
        F.transform(stored, lambda pair: pair["x"]).alias(VALUES),
    )


def _floats(column: Column) -> Column:
    return column.cast("array<float>")
