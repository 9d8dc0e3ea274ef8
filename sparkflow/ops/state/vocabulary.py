"""Tables between words and ids, with buckets for out-of-vocabulary words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sparkflow._api import export
from sparkflow._api.integers import as_integer
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import (
    apply_op,
    convert_to_tensor,
    get_collection,
    name_scope,
    output_of,
)
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.control.ordering import group, no_op
from sparkflow.ops.state.tables import (
    KeyValueTensorInitializer,
    LookupInterface,
    StaticHashTable,
    TextFileIdTableInitializer,
    TextFileIndex,
    TextFileStringTableInitializer,
)
from sparkflow_runtime.dtypes import as_dtype, int64, string


@export("lookup.HasherSpec")
@dataclass(frozen=True, slots=True)
class HasherSpec:
    """How out-of-vocabulary words are hashed: `fasthash`, or `stronghash` with a key."""

    hasher: str
    key: Any = None


FastHashSpec = HasherSpec("fasthash", None)


@export("lookup.StrongHashSpec")
def StrongHashSpec(key: Sequence[int]) -> HasherSpec:
    """SipHash with a key of two integers.

    Raises:
        ValueError: The key is invalid.
    """
    if len(key) != 2:
        raise ValueError(f"key must have size 2, received {key}")
    if any(as_integer(each) is None for each in key):
        raise TypeError(f"Invalid key {key}. Must be unsigned integer values.")
    return HasherSpec("stronghash", list(key))


@export("lookup.IdTableWithHashBuckets")
class IdTableWithHashBuckets(LookupInterface):
    """A table that hashes missing keys to ids above its own.

    Args:
        table: Maps keys to int64; None to hash every key.
        num_oov_buckets: The number of ids for missing keys.
        hasher_spec: The hash function.
        name: Name scope of lookups.
        key_dtype: The keys' dtype; the table's, else string.

    Raises:
        ValueError: There is neither a table nor a bucket.
        TypeError: The table's values are not int64.
    """

    def __init__(
        self,
        table: Any,
        num_oov_buckets: int,
        hasher_spec: HasherSpec = FastHashSpec,
        name: str | None = None,
        key_dtype: Any = None,
    ) -> None:
        kind = as_dtype(key_dtype or (string if table is None else table.key_dtype))
        super().__init__(kind, int64)
        if table is None and num_oov_buckets <= 0:
            raise ValueError("oov_buckets must be > 0 if no table is supplied.")
        if table is not None and table.value_dtype is not int64:
            raise TypeError(f"Invalid value_dtype {table.value_dtype}; the table must give int64")
        self._table = table
        self._buckets = num_oov_buckets
        self._spec = hasher_spec
        self._name = name or "string_to_index"

    @property
    def name(self) -> str:
        """The given name."""
        return self._name.rstrip("/").split("/")[-1]

    @property
    def resource_handle(self) -> Tensor | None:
        """The handle of the inner table; None without one."""
        return None if self._table is None else self._table.resource_handle

    @property
    def initializer(self) -> Operation:
        """The operation that fills the table."""
        return no_op() if self._table is None else self._table.initializer

    init = initializer

    def size(self, name: str | None = None) -> Tensor:
        """The number of rows and buckets, int64."""
        with self._scope(name, "Size"):
            if self._table is None:
                return convert_to_tensor(self._buckets, int64)
            return self._table.size() + self._buckets  # type: ignore[no-any-return]  # a tensor

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """Returns the id of each key.

        Raises:
            TypeError: The keys have another dtype.
        """
        with self._scope(name, "Lookup"):
            return self._found(keys, self._number)

    def _number(self, keys: Tensor) -> Tensor:
        found = None if self._table is None else self._table.lookup(keys)
        if not self._buckets:
            assert found is not None
            return found  # type: ignore[no-any-return]  # a tensor
        texts = keys if self._key_dtype is string else apply_op("AsString", keys)
        if self._spec.hasher == "fasthash":
            buckets = apply_op(
                "StringToHashBucketFast", texts, num_buckets=self._buckets, name="hash_bucket"
            )
        else:
            buckets = apply_op(
                "StringToHashBucketStrong", texts,
                num_buckets=self._buckets, key=self._spec.key, name="hash_bucket",
            )  # fmt: skip
        if found is None:
            return buckets  # type: ignore[no-any-return]  # a tensor
        behind = apply_op("AddV2", buckets, self._table.size())
        missing = apply_op("Equal", found, self._table.default_value)
        return output_of("Select", missing, behind, found)


@export("lookup.StaticVocabularyTable")
class StaticVocabularyTable(IdTableWithHashBuckets):
    """A vocabulary that hashes missing words to ids above its own.

    Args:
        initializer: Maps words to int64 ids from 0; None to hash every word.
        num_oov_buckets: The number of ids for missing words, at least 1.
        lookup_key_dtype: The keys' dtype; the initializer's, else string.
        name: Name scope of lookups.

    Raises:
        ValueError: There is no bucket.
    """

    def __init__(
        self,
        initializer: Any,
        num_oov_buckets: int,
        lookup_key_dtype: Any = None,
        name: str | None = None,
    ) -> None:
        if num_oov_buckets <= 0:
            raise ValueError("oov_buckets must be > 0.")
        table = None if initializer is None else StaticHashTable(initializer, -1)
        own = name or ("hash_bucket" if table is None else table.name)
        super().__init__(table, num_oov_buckets, name=own, key_dtype=lookup_key_dtype)


@export("lookup.index_table_from_tensor")
def index_table_from_tensor(
    vocabulary_list: Any = None,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: HasherSpec = FastHashSpec,
    dtype: Any = string,
    name: str | None = None,
    mapping: Any = None,
) -> Any:
    """Returns a table from words to their indices in a list.

    Args:
        vocabulary_list: The words.
        num_oov_buckets: The number of ids for missing words; 0 for `default_value`.
        default_value: The id of missing words.
        hasher_spec: The hash function.
        dtype: The words' dtype: string or an integer.
        name: Name scope.
        mapping: The older name of `vocabulary_list`.

    Raises:
        ValueError: There is no vocabulary, or a negative number of buckets.
        TypeError: The words are neither strings nor integers, or not of `dtype`.
    """
    words = vocabulary_list if mapping is None else mapping
    if words is None:
        raise ValueError("vocabulary_list must be specified.")
    if num_oov_buckets < 0:
        raise ValueError(f"num_oov_buckets must be greater or equal than 0, got {num_oov_buckets}.")
    kind = as_dtype(dtype)
    if kind is not string and not kind.is_integer:
        raise TypeError("Only integer and string keys are supported.")
    with name_scope(name, "string_to_index", []):
        keys = convert_to_tensor(words)
        if keys.dtype.is_integer != kind.is_integer:
            raise TypeError(
                f"Expected {'integer' if kind.is_integer else 'non-integer'}, got {keys.dtype}."
            )
        if keys.dtype.is_integer:
            keys = apply_op("Cast", keys, DstT=int64)
        count = apply_op("Size", keys, out_type=int64)
        numbers = apply_op("Range", convert_to_tensor(0, int64), count, convert_to_tensor(1, int64))
        table = StaticHashTable(
            KeyValueTensorInitializer(keys, numbers, name="table_init"), default_value
        )
        return _with_buckets(table, num_oov_buckets, hasher_spec, kind)


@export("lookup.index_table_from_file")
def index_table_from_file(
    vocabulary_file: Any = None,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    hasher_spec: HasherSpec = FastHashSpec,
    key_dtype: Any = string,
    name: str | None = None,
    key_column_index: int = TextFileIndex.WHOLE_LINE,
    value_column_index: int = TextFileIndex.LINE_NUMBER,
    delimiter: str = "\t",
) -> Any:
    """Returns a table from the words of a file to their line numbers, from 0.

    Args:
        vocabulary_file: The file's path, on the table's host.
        num_oov_buckets: The number of ids for missing words; 0 for `default_value`.
        vocab_size: The number of lines to read; all if None.
        default_value: The id of missing words.
        hasher_spec: The hash function.
        key_dtype: The words' dtype: string or an integer.
        name: Name scope.
        key_column_index: The column of the keys.
        value_column_index: The column of the values.
        delimiter: The separator of columns.

    Raises:
        ValueError: There is no file, or a number is out of range.
        TypeError: The words are neither strings nor integers.
    """
    _require_file(vocabulary_file, vocab_size)
    if num_oov_buckets < 0:
        raise ValueError(f"num_oov_buckets must be greater or equal than 0, got {num_oov_buckets}.")
    kind = as_dtype(key_dtype)
    if kind is not string and not kind.is_integer:
        raise TypeError("Only integer and string keys are supported.")
    with name_scope(name, "string_to_index", []):
        initializer = TextFileIdTableInitializer(
            vocabulary_file,
            key_column_index,
            value_column_index,
            vocab_size,
            delimiter,
            "table_init",
            int64 if kind.is_integer else kind,
        )
        table = StaticHashTable(initializer, default_value)
        return _with_buckets(table, num_oov_buckets, hasher_spec, kind)


def _with_buckets(table: Any, count: int, spec: HasherSpec, kind: Any) -> Any:
    if not count:
        return table
    return IdTableWithHashBuckets(table, count, spec, key_dtype=table.key_dtype)


def _require_file(path: Any, vocab_size: int | None) -> None:
    if path is None or (isinstance(path, str | bytes) and not path):
        raise ValueError("vocabulary_file must be specified and must not be empty.")
    if vocab_size is not None and vocab_size < 1:
        raise ValueError(f"vocab_size must be greater than 0, got {vocab_size}.")


@export("lookup.index_to_string_table_from_tensor")
def index_to_string_table_from_tensor(
    vocabulary_list: Any = None,
    default_value: str = "UNK",
    name: str | None = None,
    mapping: Any = None,
) -> StaticHashTable:
    """Returns a table from indices in a list (int64) to its words.

    Args:
        vocabulary_list: The words.
        default_value: The word for other ids.
        name: Name scope.
        mapping: The older name of `vocabulary_list`.

    Raises:
        ValueError: There is no vocabulary.
    """
    words = vocabulary_list if mapping is None else mapping
    if words is None:
        raise ValueError("vocabulary_list must be specified.")
    with name_scope(name, "index_to_string", []):
        values = convert_to_tensor(words, string)
        count = apply_op("Size", values, out_type=int64)
        numbers = apply_op("Range", convert_to_tensor(0, int64), count, convert_to_tensor(1, int64))
        return StaticHashTable(
            KeyValueTensorInitializer(numbers, values, name="table_init"), default_value
        )


@export("lookup.index_to_string_table_from_file")
def index_to_string_table_from_file(
    vocabulary_file: Any,
    vocab_size: int | None = None,
    default_value: str = "UNK",
    name: str | None = None,
    key_column_index: int = TextFileIndex.LINE_NUMBER,
    value_column_index: int = TextFileIndex.WHOLE_LINE,
    delimiter: str = "\t",
) -> StaticHashTable:
    """Returns a table from line numbers (int64, from 0) to the lines of a file.

    Args:
        vocabulary_file: The file's path, on the table's host.
        vocab_size: The number of lines to read; all if None.
        default_value: The word for other ids.
        name: Name scope.
        key_column_index: The column of the keys.
        value_column_index: The column of the values.
        delimiter: The separator of columns.

    Raises:
        ValueError: There is no file, or a number is out of range.
    """
    _require_file(vocabulary_file, vocab_size)
    with name_scope(name, "index_to_string", []):
        initializer = TextFileStringTableInitializer(
            vocabulary_file, key_column_index, value_column_index, vocab_size, delimiter,
            "table_init",
        )  # fmt: skip
        return StaticHashTable(initializer, default_value)


@export("tables_initializer", "initializers.tables_initializer", "initialize_all_tables")
def tables_initializer(name: str = "init_all_tables") -> Operation:
    """Returns an operation that fills all tables of the graph; a no-op if there are none."""
    initializers = get_collection(GraphKeys.TABLE_INITIALIZERS)
    if not initializers:
        return no_op(name=name)
    return group(*initializers, name=name)


initialize_all_tables = tables_initializer
