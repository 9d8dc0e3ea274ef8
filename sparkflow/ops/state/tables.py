"""Lookup tables and their initializers."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from sparkflow._api import export
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import (
    add_to_collection,
    apply_op,
    convert_to_tensor,
    name_scope,
    output_of,
)
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.sparse_tensor import SparseTensor
from sparkflow_runtime.dtypes import DType, as_dtype, int64, string


@export("lookup.TextFileIndex")
class TextFileIndex:
    """Special column indices of `TextFileInitializer`."""

    WHOLE_LINE = -2
    LINE_NUMBER = -1


@export("lookup.KeyValueTensorInitializer")
class KeyValueTensorInitializer:
    """Fills a table with keys and values.

    Args:
        keys: [n] keys.
        values: [n] values.
        key_dtype: The keys' dtype; that of `keys` if None.
        value_dtype: The values' dtype; that of `values` if None.
        name: Name of the operation.
    """

    def __init__(
        self,
        keys: Any,
        values: Any,
        key_dtype: Any = None,
        value_dtype: Any = None,
        name: str | None = None,
    ) -> None:
        self._keys = convert_to_tensor(keys, _known(key_dtype), name="keys")
        self._values = convert_to_tensor(values, _known(value_dtype), name="values")
        self._name = name

    @property
    def key_dtype(self) -> DType:
        """The dtype of the keys."""
        return self._keys.dtype.base

    @property
    def value_dtype(self) -> DType:
        """The dtype of the values."""
        return self._values.dtype.base

    def initialize(self, table: Any) -> Operation:
        """Fills a table; the operation is one of the graph's table initializers.

        Raises:
            TypeError: The table has other dtypes.
        """
        _check_dtypes(table, self.key_dtype, self.value_dtype)
        with name_scope(self._name, "key_value_init", [self._keys]):
            operation: Operation = apply_op(
                "InitializeTableV2", table.resource_handle, self._keys, self._values
            )
        add_to_collection(GraphKeys.TABLE_INITIALIZERS, operation)
        return operation


@export("lookup.TextFileInitializer")
class TextFileInitializer:
    """Fills a table from the lines of a file.

    Args:
        filename: The file's path, on the table's host.
        key_dtype: int64 for line numbers, string for lines, either for columns.
        key_index: A column from 0, or a `TextFileIndex`.
        value_dtype: The same for the values.
        value_index: The same for the values.
        vocab_size: The number of lines to read; all if None.
        delimiter: The separator of columns.
        name: Name of the operation.
        value_index_offset: Added to values that are line numbers.

    Raises:
        ValueError: A line number is not int64, or a line is not a string.
    """

    def __init__(
        self,
        filename: Any,
        key_dtype: Any,
        key_index: int,
        value_dtype: Any,
        value_index: int,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str | None = None,
        value_index_offset: int = 0,
    ) -> None:
        self.key_dtype, self.value_dtype = as_dtype(key_dtype), as_dtype(value_dtype)
        for what, dtype, index in (
            ("key", self.key_dtype, key_index),
            ("value", self.value_dtype, value_index),
        ):
            if index < -2:
                raise ValueError(f"Invalid {what} index {index}.")
            if index == TextFileIndex.LINE_NUMBER and dtype is not int64:
                raise ValueError(
                    f"Signature mismatch. {what.title()}s must be dtype {int64}, got {dtype}."
                )
            whole_key = what == "key" and dtype.is_integer  # a file of numbers
            if index == TextFileIndex.WHOLE_LINE and dtype is not string and not whole_key:
                raise ValueError(
                    f"Signature mismatch. {what.title()}s must be dtype {string}, got {dtype}."
                )
        if vocab_size is not None and vocab_size <= 0:
            raise ValueError(f"Invalid vocab_size {vocab_size}.")
        self._filename = filename
        self._attrs: dict[str, Any] = {
            "key_index": key_index,
            "value_index": value_index,
            "vocab_size": -1 if vocab_size is None else vocab_size,
            "delimiter": delimiter,
            "offset": value_index_offset,
        }
        self._name = name

    def initialize(self, table: Any) -> Operation:
        """Fills a table; the operation is one of the graph's table initializers.

        Raises:
            TypeError: The table has other dtypes.
        """
        _check_dtypes(table, self.key_dtype, self.value_dtype)
        with name_scope(self._name, "text_file_init", [self._filename]):
            filename = convert_to_tensor(self._filename, string, name="asset_filepath")
            operation: Operation = apply_op(
                "InitializeTableFromTextFileV2", table.resource_handle, filename, **self._attrs
            )
        add_to_collection(GraphKeys.TABLE_INITIALIZERS, operation)
        add_to_collection(GraphKeys.ASSET_FILEPATHS, filename)
        return operation


@export("lookup.TextFileStringTableInitializer")
class TextFileStringTableInitializer(TextFileInitializer):
    """Maps line numbers to lines.

    Args:
        filename: The file.
        key_column_index: The column of the keys.
        value_column_index: The column of the values.
        vocab_size: The number of lines to read; all if None.
        delimiter: The separator of columns.
        name: Name of the operation.
    """

    def __init__(
        self,
        filename: Any,
        key_column_index: int = TextFileIndex.LINE_NUMBER,
        value_column_index: int = TextFileIndex.WHOLE_LINE,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str = "text_file_string_table_init",
    ) -> None:
        super().__init__(
            filename, int64, key_column_index, string, value_column_index, vocab_size, delimiter,
            name,
        )  # fmt: skip


@export("lookup.TextFileIdTableInitializer")
class TextFileIdTableInitializer(TextFileInitializer):
    """Maps lines to line numbers.

    Args:
        filename: The file.
        key_column_index: The column of the keys.
        value_column_index: The column of the values.
        vocab_size: The number of lines to read; all if None.
        delimiter: The separator of columns.
        name: Name of the operation.
        key_dtype: The keys' dtype.
    """

    def __init__(
        self,
        filename: Any,
        key_column_index: int = TextFileIndex.WHOLE_LINE,
        value_column_index: int = TextFileIndex.LINE_NUMBER,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str = "text_file_id_table_init",
        key_dtype: Any = string,
    ) -> None:
        super().__init__(
            filename, key_dtype, key_column_index, int64, value_column_index, vocab_size, delimiter,
            name,
        )  # fmt: skip


def _known(dtype: Any) -> DType | None:
    return None if dtype is None else as_dtype(dtype)


def _check_dtypes(table: Any, key_dtype: DType, value_dtype: DType) -> None:
    if (table.key_dtype, table.value_dtype) != (key_dtype, value_dtype):
        raise TypeError(
            f"Invalid key or value dtype: the table maps {table.key_dtype} to {table.value_dtype}, "
            f"the initializer {key_dtype} to {value_dtype}"
        )


def _exported(table: Any) -> tuple[Tensor, Tensor]:
    keys, values = apply_op(
        "LookupTableExportV2",
        table.resource_handle,
        Tkeys=table.key_dtype,
        Tvalues=table.value_dtype,
    )
    return keys, values


@export("lookup.LookupInterface")
class LookupInterface:
    """Base of the tables.

    Args:
        key_dtype: The keys' dtype.
        value_dtype: The values' dtype.
    """

    def __init__(self, key_dtype: Any, value_dtype: Any) -> None:
        self._key_dtype = as_dtype(key_dtype)
        self._value_dtype = as_dtype(value_dtype)

    @property
    def key_dtype(self) -> DType:
        """The dtype of the keys."""
        return self._key_dtype

    @property
    def value_dtype(self) -> DType:
        """The dtype of the values."""
        return self._value_dtype

    @property
    def name(self) -> str:
        """The name of the operation that creates the table, without its scopes."""
        raise NotImplementedError

    def _scope(self, name: str | None, what: str) -> AbstractContextManager[str]:
        """Returns the name scope of one of the table's operations."""
        return name_scope(name, f"{self.name}_{what}", [])

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """Looks up the values of keys."""
        raise NotImplementedError

    def _found(self, keys: Any, find: Any) -> Any:
        """Applies `find` to the keys, also to those of a SparseTensor.

        Raises:
            TypeError: The keys have another dtype.
        """
        values = keys.values if isinstance(keys, SparseTensor) else keys
        if hasattr(values, "dtype") and as_dtype(values.dtype).base is not self._key_dtype:
            raise TypeError(
                f"Signature mismatch. Keys must be dtype {self._key_dtype}, got {values.dtype}."
            )
        found = find(convert_to_tensor(values, self._key_dtype))
        if isinstance(keys, SparseTensor):
            return SparseTensor(keys.indices, found, keys.dense_shape)
        return found


@export("lookup.StaticHashTable", "lookup.HashTable")
class StaticHashTable(LookupInterface):
    """A table that an initializer fills once.

    Args:
        initializer: Fills the table; `tf.tables_initializer` runs it.
        default_value: The value of missing keys.
        name: The name of the table's operation.
    """

    def __init__(self, initializer: Any, default_value: Any, name: str | None = None) -> None:
        super().__init__(initializer.key_dtype, initializer.value_dtype)
        self._default_value = convert_to_tensor(default_value, self._value_dtype)
        if self._default_value.shape.ndims:
            raise ValueError(
                f"default_value must be a scalar, got shape {self._default_value.shape}"
            )
        self._handle: Tensor = apply_op(
            "HashTableV2",
            key_dtype=self._key_dtype,
            value_dtype=self._value_dtype,
            name=name or "hash_table",
        )
        self._init: Operation = initializer.initialize(self)

    @property
    def resource_handle(self) -> Tensor:
        """The handle."""
        return self._handle

    table_ref = resource_handle

    @property
    def name(self) -> str:
        """The name of the operation that creates the table, without its scopes."""
        return self._handle.op.name.split("/")[-1]

    @property
    def initializer(self) -> Operation:
        """The operation that fills the table."""
        return self._init

    init = initializer

    @property
    def default_value(self) -> Tensor:
        """The value of missing keys."""
        return self._default_value

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """Looks up the values of keys: a tensor, or a SparseTensor for one.

        Raises:
            TypeError: The keys have another dtype.
        """

        def find(values: Tensor) -> Tensor:
            with self._scope(name, "Lookup"):
                return output_of("LookupTableFindV2", self._handle, values, self._default_value)

        return self._found(keys, find)

    def size(self, name: str | None = None) -> Tensor:
        """The number of rows, int64."""
        with self._scope(name, "Size"):
            return output_of("LookupTableSizeV2", self._handle)

    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """All keys and all values."""
        with self._scope(name, "Export"):
            return _exported(self)


HashTable = StaticHashTable


@export("lookup.MutableHashTable")
class MutableHashTable(LookupInterface):
    """A mutable table.

    Args:
        key_dtype: The keys' dtype.
        value_dtype: The values' dtype.
        default_value: The value of missing keys; its shape is that of all values.
        shared_name: The name under which other sessions of the task share it.
        name: The name of the table's operation.
        checkpoint: Accepted but ignored; save the results of `export`.
    """

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        shared_name: str | None = None,
        name: str = "MutableHashTable",
        checkpoint: bool = True,
    ) -> None:
        super().__init__(key_dtype, value_dtype)
        self._default_value = convert_to_tensor(default_value, self._value_dtype)
        attrs: dict[str, Any] = {
            "shared_name": shared_name or "",
            "key_dtype": self._key_dtype,
            "value_dtype": self._value_dtype,
        }
        shape = self._default_value.shape
        if shape.ndims == 0:
            self._handle: Tensor = apply_op("MutableHashTableV2", name=name, **attrs)
        else:
            self._handle = apply_op(
                "MutableHashTableOfTensorsV2", value_shape=shape.as_list(), name=name, **attrs
            )

    @property
    def resource_handle(self) -> Tensor:
        """The handle."""
        return self._handle

    @property
    def name(self) -> str:
        """The name of the operation that creates the table, without its scopes."""
        return self._handle.op.name.split("/")[-1]

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """The values of keys.

        Raises:
            TypeError: The keys have another dtype.
        """

        def find(values: Tensor) -> Tensor:
            with self._scope(name, "lookup_table_find"):
                return output_of("LookupTableFindV2", self._handle, values, self._default_value)

        return self._found(keys, find)

    def insert(self, keys: Any, values: Any, name: str | None = None) -> Operation:
        """Inserts or replaces rows.

        Raises:
            TypeError: Keys or values have another dtype.
        """
        with self._scope(name, "lookup_table_insert"):
            return self._with_rows("LookupTableInsertV2", keys, values)

    def import_(self, keys: Any, values: Any, name: str | None = None) -> Operation:
        """Replaces all rows."""
        with self._scope(name, "lookup_table_restore"):
            return self._with_rows("LookupTableImportV2", keys, values)

    def remove(self, keys: Any, name: str | None = None) -> Operation:
        """Removes rows."""
        given = convert_to_tensor(keys, self._key_dtype)
        with self._scope(name, "lookup_table_remove"):
            operation: Operation = apply_op("LookupTableRemoveV2", self._handle, given)
        return operation

    def size(self, name: str | None = None) -> Tensor:
        """The number of rows, int64."""
        with self._scope(name, "Size"):
            return output_of("LookupTableSizeV2", self._handle)

    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """All keys and all values."""
        with self._scope(name, "lookup_table_export_values"):
            return _exported(self)

    def _with_rows(self, op_type: str, keys: Any, values: Any) -> Operation:
        given = convert_to_tensor(keys, self._key_dtype)
        rows = convert_to_tensor(values, self._value_dtype)
        operation: Operation = apply_op(op_type, self._handle, given, rows)
        return operation
