"""The source columns of each input, and what the schema determines about the input.

Nothing here starts a Spark job. `profile` finds in the rows what the schema leaves open: the
lengths of arrays and whether vectors stay sparse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql.types import DataType, StructField

from sparkflow.spark.data.schema.frame import (
    Schema,
    is_bytes,
    is_scalar,
    is_text,
    is_time,
    is_vector,
    is_whole,
    text_of,
    unnested,
)
from sparkflow.spark.data.schema.row_format import DENSE, RAGGED, ROW_NUMBER, SPARSE, VALIDATES
from sparkflow.spark.data.schema.row_schema import (
    ARRAY,
    FEATURES,
    LABEL,
    SCALARS,
    VECTOR,
    WEIGHT,
)

SCALAR: Final = "scalar"

Shape = tuple[int | None, ...]
ANY_LENGTH: Final[Shape] = (None,)
"""The shape in `inputShapes` for lists of any length."""


@dataclass(frozen=True, slots=True)
class Source:
    """The source of one input: its columns and their types.

    Attributes:
        name: The input's name.
        columns: One column, or the scalar columns of a list, in order.
        form: `scalar`, `scalars` (a list of columns), `vector` or `array`.
        dtype: `float32`, `int64` or `string`.
        kind: `dense`, `sparse`, `ragged`; empty if the rows decide between dense and sparse.
        shape: The shape of a row if the schema or `inputShapes` determines it; None if the rows do.
        depth: The nesting depth of arrays, at least 1.
        may_hold_nulls: Whether elements may be null.
        is_bytes: Whether strings are columns of bytes.
        types: The type of single values of each column.
        role: `features`, `label` or `weight`, for error texts.
    """

    name: str
    columns: tuple[str, ...]
    form: str
    dtype: str
    kind: str
    shape: tuple[int, ...] | None
    depth: int = 0
    may_hold_nulls: bool = False
    is_bytes: bool = False
    types: tuple[DataType, ...] = ()
    role: str = FEATURES

    def describe(self) -> str:
        """Returns the columns for error texts."""
        columns = self.columns[:3]
        more = f" and {len(self.columns) - 3} more" if len(self.columns) > 3 else ""
        return f"{self.role} column{'s' if more else ''} {text_of(columns)}{more}"


def feature_sources(
    schema: Schema,
    given: str | Sequence[str] | Mapping[str, str | Sequence[str]],
    input_shapes: Mapping[str, Sequence[int | None]] | None = None,
    vector_format: str = "auto",
) -> tuple[tuple[Source, ...], bool]:
    """Returns the sources of the features, and whether they are named.

    Args:
        schema: The DataFrame's columns.
        given: `featuresCol`: a column, a list of scalar columns, or a dictionary of these by input
            name.
        input_shapes: `inputShapes`: shapes by input, [None] for lists of any length.
        vector_format: `vectorFormat`: `dense`, `sparse` or `auto`.

    Raises:
        ValueError: A column does not exist or exists twice, a shape does not fit, or names clash.
        TypeError: A column's type cannot be converted to a tensor.
    """
    shapes = {name: tuple(shape) for name, shape in (input_shapes or {}).items()}
    if isinstance(given, Mapping):
        _require_names(list(given))
        sources = [
            _feature(schema, name, columns, shapes.pop(name, None), vector_format, named=True)
            for name, columns in given.items()
        ]
        known = list(given)
    else:
        aliases = [FEATURES, *([given] if isinstance(given, str) else [])]
        asked = [shapes.pop(name) for name in dict.fromkeys(aliases) if name in shapes]
        shape = asked[0] if asked else None
        sources = [_feature(schema, FEATURES, given, shape, vector_format, named=False)]
        known = [FEATURES]
    if shapes:
        raise ValueError(
            f"inputShapes has shapes for {text_of(sorted(shapes))}, but the inputs are "
            f"{text_of(known)}"
        )
    return tuple(sources), isinstance(given, Mapping)


def label_source(schema: Schema, column: str, taken: Sequence[str] = ()) -> Source:
    """Returns the source of the labels: int64 if the column holds integers, else float32.

    Args:
        schema: The DataFrame's columns.
        column: `labelCol`.
        taken: Names of other inputs.

    Raises:
        ValueError: The column does not exist or exists twice.
        TypeError: It does not hold numbers, or vectors or arrays of numbers.
    """
    field = schema.find(column, "labelCol")
    kind = field.dataType
    name = free_name(LABEL, taken)
    if is_vector(kind):
        return Source(name, (field.name,), VECTOR, "float32", DENSE, None, role=LABEL)
    element, depth, nullable = unnested(kind)
    if depth > 1 or not is_scalar(element):
        raise TypeError(
            f"The label column {field.name!r} is {kind.simpleString()}; it must hold numbers, or "
            "vectors or arrays of numbers (pyspark.ml's StringIndexer converts strings)"
        )
    dtype = "int64" if is_whole(element) else "float32"
    if depth:
        return Source(
            name,
            (field.name,),
            ARRAY,
            dtype,
            DENSE,
            None,
            1,
            nullable,
            types=(element,),
            role=LABEL,
        )
    return Source(name, (field.name,), SCALAR, dtype, DENSE, (), types=(kind,), role=LABEL)


def weight_source(schema: Schema, column: str, taken: Sequence[str] = ()) -> Source:
    """Returns the source of the row weights.

    Raises:
        ValueError: The column does not exist or exists twice.
        TypeError: It does not hold numbers.
    """
    field = schema.find(column, "weightCol")
    kind = field.dataType
    if not is_scalar(kind) or is_time(kind):
        raise TypeError(
            f"The weight column {field.name!r} is {kind.simpleString()}; it must hold numbers"
        )
    name = free_name(WEIGHT, taken)
    return Source(name, (field.name,), SCALAR, "float32", DENSE, (), types=(kind,), role=WEIGHT)


def _feature(
    schema: Schema,
    name: str,
    given: str | Sequence[str],
    shape: Shape | None,
    vector_format: str,
    *,
    named: bool,
) -> Source:
    if not isinstance(given, str):
        return _list_of_columns(schema, name, given, shape)
    field = schema.find(given, "featuresCol")
    if is_vector(field.dataType):
        return _vector(name, field, shape, vector_format)
    element, depth, nullable = unnested(field.dataType)
    if not is_scalar(element) and not is_text(element):
        raise TypeError(
            f"The features column {field.name!r} is {field.dataType.simpleString()}; it must hold "
            "vectors, numbers, dates, timestamps, strings, bytes, or arrays of these"
            f"{_advice(element)}"
        )
    if not depth:
        return _scalar(name, field, shape, named)
    dtype = _dtype(element) if named or is_text(element) or shape == ANY_LENGTH else "float32"
    source = Source(
        name,
        (field.name,),
        ARRAY,
        dtype,
        DENSE,
        None,
        depth,
        nullable or dtype == "string",
        is_bytes(element),
        (element,),
    )
    # Strings and named integers are lists for embeddings unless a shape says otherwise.
    if shape == ANY_LENGTH or (shape is None and depth == 1 and dtype != "float32"):
        if depth > 1:
            raise ValueError(
                f"inputShapes says [None] for {name!r}, but {field.name!r} holds arrays of arrays; "
                "lists of any length must have one dimension (use F.flatten)"
            )
        return replace(source, kind=RAGGED, shape=())
    return replace(source, shape=_fixed(name, shape))


def _scalar(name: str, field: StructField, shape: Shape | None, named: bool) -> Source:
    dtype = _dtype(field.dataType)
    default: tuple[int, ...] = ()
    if not named and dtype != "string":
        dtype, default = "float32", (1,)
    found = default if shape is None else _fixed(name, shape)
    if found not in ((), (1,)):
        raise ValueError(
            f"inputShapes says {list(found or ())} for {name!r}, but {field.name!r} holds single "
            "values"
        )
    kind = field.dataType
    return Source(
        name, (field.name,), SCALAR, dtype, DENSE, found, is_bytes=is_bytes(kind), types=(kind,)
    )


def _list_of_columns(
    schema: Schema, name: str, given: Sequence[str], shape: Shape | None
) -> Source:
    fields = [schema.find(each, "featuresCol") for each in given]
    texts = [field for field in fields if is_text(field.dataType)]
    numbers = [field for field in fields if is_scalar(field.dataType)]
    for field in fields:
        if field not in texts and field not in numbers:
            raise TypeError(
                f"featuresCol is a list of columns, so all must be numeric or all strings; "
                f"{field.name!r} is {field.dataType.simpleString()} (use a dictionary of named "
                "inputs, or pyspark.ml's VectorAssembler to join vectors)"
            )
    if texts and numbers:
        raise TypeError(
            f"featuresCol is a list of columns, so all must be numeric or all strings; "
            f"{texts[0].name!r} is a string and {numbers[0].name!r} is a number (use a dictionary "
            "of named inputs)"
        )
    columns = tuple(field.name for field in fields)
    found = (len(columns),) if shape is None else _fixed(name, shape) or ()
    if _elements(found) != len(columns):
        raise ValueError(
            f"inputShapes says {list(found)} for {name!r}, which has {_elements(found)} elements, "
            f"but it consists of {len(columns)} columns"
        )
    dtype = "string" if texts else "float32"
    with_bytes = any(is_bytes(field.dataType) for field in fields)
    types = tuple(field.dataType for field in fields)
    return Source(name, columns, SCALARS, dtype, DENSE, found, 1, True, with_bytes, types)


def _vector(name: str, field: StructField, shape: Shape | None, vector_format: str) -> Source:
    kinds = {"dense": DENSE, "sparse": SPARSE, "auto": ""}
    if shape is not None and vector_format == "sparse":
        raise ValueError(
            f"inputShapes says {list(shape)} for {name!r}, but vectorFormat is 'sparse'; only "
            "dense inputs can be given another shape"
        )
    kind = DENSE if shape is not None else kinds[vector_format]
    return Source(name, (field.name,), VECTOR, "float32", kind, _fixed(name, shape))


def _fixed(name: str, shape: Shape | None) -> tuple[int, ...] | None:
    if shape is None:
        return None
    sizes = tuple(size for size in shape if size is not None)
    if len(sizes) < len(shape):
        raise ValueError(
            f"inputShapes says {list(shape)} for {name!r}: only arrays of one dimension may have "
            "any length, written [None]"
        )
    return sizes


def _elements(shape: Sequence[int]) -> int:
    elements = 1
    for size in shape:
        elements *= size
    return elements


def _dtype(element: DataType) -> str:
    if is_text(element):
        return "string"
    return "int64" if is_whole(element) else "float32"


def _advice(element: DataType) -> str:
    advice = {
        "struct": " (select its fields as separate columns)",
        "map": " (convert it to arrays with F.map_keys and F.map_values)",
    }
    return advice.get(element.typeName(), "")


def _require_names(names: list[str]) -> None:
    reserved = {ROW_NUMBER, VALIDATES}
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in reserved or "`" in name:
            raise ValueError(
                f"featuresCol names an input {name!r}; this name is reserved, choose another one"
                if name.lower() in reserved
                else f"featuresCol names an input {name!r}; names must not contain backquotes"
            )
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise ValueError(
                f"featuresCol names inputs {other!r} and {name!r}, which differ in case only"
            )


def free_name(name: str, taken: Sequence[str]) -> str:
    """Returns the name, with underscores appended while it is taken."""
    lower = {each.lower() for each in taken}
    while name in lower:
        name += "_"
    return name
