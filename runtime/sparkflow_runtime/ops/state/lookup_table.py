"""Lookup tables as ops. The handle is, at run time, the `lookup_contents.LookupTable`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.files.system import open_file
from sparkflow_runtime.ops.inference import scalars, sizes
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import FILES, Array, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.registry import find, register
from sparkflow_runtime.ops.signature import (
    bool_attr,
    float_attr,
    int_attr,
    shape_attr,
    string_attr,
    type_attr,
)
from sparkflow_runtime.ops.state.lookup_contents import LookupTable, known_shape, require_types
from sparkflow_runtime.ops.strings.string_arrays import scalar_text, text_of
from sparkflow_runtime.ops.strings.string_number import parse_number
from sparkflow_runtime.shapes import Shape

WHOLE_LINE, LINE_NUMBER = -2, -1
"""Special column indices of `InitializeTableFromTextFileV2`."""

_NAMES = {
    "container": string_attr(""),
    "shared_name": string_attr(""),
    "use_node_name_sharing": bool_attr(False),
    "key_dtype": type_attr(),
    "value_dtype": type_attr(),
}


class _TableOp(Op):
    stateful = True
    kernels: ClassVar = {"CPU": None}
    gradient = not_differentiable


class _MakesTable(_TableOp):
    """A table: of the task if it has a shared_name, else of its node in its session."""

    outputs = "table_handle: resource"
    mutable: ClassVar[bool] = True
    infer = scalars

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Finds or creates the table; the kernel returns it.

        Raises:
            InvalidArgumentError: A table of this name has other dtypes.
        """
        attrs = node.attrs
        shared: str = attrs["shared_name"] or (node.name if attrs["use_node_name_sharing"] else "")
        scope = context.resources if shared else context.session
        name = shared or node.name
        shape = known_shape(attrs.get("value_shape", ()))

        def make() -> LookupTable:
            return LookupTable(name, attrs["key_dtype"], attrs["value_dtype"], shape, self.mutable)

        table = scope.get_or_create(attrs["container"], name, LookupTable, make)
        require_types(table, attrs["key_dtype"], attrs["value_dtype"])
        return lambda *_: table


def is_mutable_table(op_type: str) -> bool:
    """Whether nodes of a type are tables whose rows steps may change."""
    op = find(op_type)
    return isinstance(op, _MakesTable) and op.mutable


@register
class HashTableV2(_MakesTable):
    """A table that is filled once."""

    attrs = _NAMES
    mutable = False


@register
class MutableHashTableV2(_MakesTable):
    """A mutable table of scalars."""

    attrs = _NAMES


@register
class MutableHashTableOfTensorsV2(_MakesTable):
    """A mutable table of tensors of one shape."""

    attrs = {**_NAMES, "value_shape": shape_attr(())}


@register
class MutableDenseHashTableV2(_MakesTable):
    """A mutable table; the keys that mark empty slots have no meaning here."""

    inputs = "empty_key: key_dtype, deleted_key: key_dtype"
    attrs = {
        **_NAMES,
        "value_shape": shape_attr(()),
        "initial_num_buckets": int_attr(131072),
        "max_load_factor": float_attr(0.8),
    }


@register
class LookupTableFindV2(_TableOp):
    """Looks up the values of keys, with a default for missing ones."""

    inputs = "table_handle: resource, keys: Tin, default_value: Tout"
    outputs = "values: Tout"
    attrs = {"Tin": type_attr(), "Tout": type_attr()}

    def infer(self, node: Inference) -> list[Shape]:
        """The shape of the keys, then that of a value, if the default determines it."""
        return [shapes.concatenate(node.shapes[1], node.shapes[2])]

    def compute(
        self, xp: Any, table: LookupTable, keys: Array, default: Array, *, Tin: DType, Tout: DType
    ) -> Array:
        """Fails for a table of other dtypes, or an uninitialized one."""
        require_types(table, Tin, Tout)
        return table.find(keys, default)


class _Changes(_TableOp):
    pass


class _TakesRows(_Changes):
    inputs = "table_handle: resource, keys: Tin, values: Tout"
    attrs = {"Tin": type_attr(), "Tout": type_attr()}


@register
class LookupTableInsertV2(_TakesRows):
    """Inserts or replaces rows."""

    def compute(
        self, xp: Any, table: LookupTable, keys: Array, values: Array, *, Tin: DType, Tout: DType
    ) -> None:
        """Fails for an immutable table."""
        require_types(table, Tin, Tout)
        table.insert(keys, values)


@register
class LookupTableImportV2(_TakesRows):
    """Replaces all rows."""

    def compute(
        self, xp: Any, table: LookupTable, keys: Array, values: Array, *, Tin: DType, Tout: DType
    ) -> None:
        """Fails for a fixed table that has been filled with other rows."""
        require_types(table, Tin, Tout)
        table.replace(keys, values)


@register
class LookupTableRemoveV2(_Changes):
    """Removes rows."""

    inputs = "table_handle: resource, keys: Tin"
    attrs = {"Tin": type_attr()}

    def compute(self, xp: Any, table: LookupTable, keys: Array, *, Tin: DType) -> None:
        """Fails for an immutable table."""
        require_types(table, Tin, None)
        table.remove(keys)


@register
class LookupTableSizeV2(_TableOp):
    """The number of rows."""

    inputs = "table_handle: resource"
    outputs = "size: int64"
    infer = scalars

    def compute(self, xp: Any, table: LookupTable) -> Array:
        """Fails for an uninitialized table."""
        return np.int64(len(table))


@register
class LookupTableExportV2(_TableOp):
    """All keys and values."""

    inputs = "table_handle: resource"
    outputs = "keys: Tkeys, values: Tvalues"
    attrs = {"Tkeys": type_attr(), "Tvalues": type_attr()}
    infer = sizes((None,), None)

    def compute(self, xp: Any, table: LookupTable, *, Tkeys: DType, Tvalues: DType) -> Any:
        """In insertion order."""
        require_types(table, Tkeys, Tvalues)
        return table.export()


@register
class InitializeTableV2(_Changes):
    """Fills a table with keys and values."""

    inputs = "table_handle: resource, keys: Tkey, values: Tval"
    attrs = {"Tkey": type_attr(), "Tval": type_attr()}

    def infer(self, node: Inference) -> list[Shape]:
        """No outputs.

        Raises:
            InvalidArgumentError: Keys and values are not vectors of one length.
        """
        shapes.merge(node.with_rank(1, 1, "Shape"), node.with_rank(2, 1, "Shape"))
        return []

    def compute(
        self, xp: Any, table: LookupTable, keys: Array, values: Array, *, Tkey: DType, Tval: DType
    ) -> None:
        """Fails if it was filled with something else."""
        require_types(table, Tkey, Tval)
        table.fill(keys, values)


@register
class InitializeTableFromTextFileV2(_Changes):
    """Fills a table from the lines of a file: from a column, the whole line, or its number."""

    inputs = "table_handle: resource, filename: string"
    reaches = frozenset({FILES})
    paths = ("filename",)
    attrs = {
        "key_index": int_attr(minimum=-2),
        "value_index": int_attr(minimum=-2),
        "vocab_size": int_attr(-1, minimum=-1),
        "delimiter": string_attr("\t"),
        "offset": int_attr(0),
    }

    def compute(
        self,
        xp: Any,
        table: LookupTable,
        filename: Array,
        *,
        key_index: int,
        value_index: int,
        vocab_size: int,
        delimiter: str,
        offset: int,
    ) -> None:
        """Fails for a file with too few lines or columns, or with an empty line."""
        path = scalar_text(filename, "filename")
        keys, values = [], []
        position = 0
        with open_file(path) as stream:
            for number, line in enumerate(stream):
                if number == vocab_size:
                    break
                text = line.removesuffix(b"\n").removesuffix(b"\r")
                position += len(line)
                if not text:
                    raise InvalidArgumentError(
                        message=f"Invalid content in {text_of(path)}: empty line found at position "
                        f"{position}; remove the line, {number + 1} of the file, or read fewer "
                        "lines with vocab_size"
                    )
                place = f"{text_of(path)}, line {number}"
                parts = text.split(delimiter.encode())
                keys.append(_cell(text, parts, number, key_index, table.key_dtype, place, 0))
                values.append(
                    _cell(text, parts, number, value_index, table.value_dtype, place, offset)
                )
        if vocab_size >= 0 and len(keys) < vocab_size:
            raise InvalidArgumentError(
                message=f"Invalid vocab_size in {text_of(path)}: expected {vocab_size} but got "
                f"{len(keys)}"
            )
        table.fill(_column(keys, table.key_dtype), _column(values, table.value_dtype))


def _cell(
    line: bytes,
    parts: list[bytes],
    number: int,
    index: int,
    dtype: DType,
    place: str,
    offset: int,
) -> Any:
    if index == LINE_NUMBER:
        return number + offset
    if index == WHOLE_LINE:
        text = line
    elif index < len(parts):
        text = parts[index]
    else:
        raise InvalidArgumentError(
            message=f"Invalid number of columns in {place}: expected {index + 1} got {len(parts)}"
        )
    if dtype is dtypes.string:
        return text
    value = parse_number(text, dtype)
    if value is None:
        raise InvalidArgumentError(
            message=f"Field {text_of(text)} in {place} is not a valid {dtype.name}."
        )
    return value


def _column(values: list[Any], dtype: DType) -> Array:
    column = np.empty(len(values), dtype.as_numpy_dtype)
    for index, value in enumerate(values):
        column[index] = value
    return column
