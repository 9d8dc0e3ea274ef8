"""`tf.lookup`: tables from keys to values; more of them are in `tf.contrib.lookup`.

Made by `scripts/generate_api.py`.
"""

from sparkflow.ops.state.tables import (
    KeyValueTensorInitializer,
    LookupInterface,
    MutableHashTable,
    StaticHashTable as HashTable,
    StaticHashTable,
    TextFileIdTableInitializer,
    TextFileIndex,
    TextFileInitializer,
    TextFileStringTableInitializer,
)
from sparkflow.ops.state.vocabulary import (
    FastHashSpec,
    HasherSpec,
    IdTableWithHashBuckets,
    StaticVocabularyTable,
    StrongHashSpec,
    index_table_from_file,
    index_table_from_tensor,
    index_to_string_table_from_file,
    index_to_string_table_from_tensor,
)

__all__ = [
    "FastHashSpec",
    "HashTable",
    "HasherSpec",
    "IdTableWithHashBuckets",
    "KeyValueTensorInitializer",
    "LookupInterface",
    "MutableHashTable",
    "StaticHashTable",
    "StaticVocabularyTable",
    "StrongHashSpec",
    "TextFileIdTableInitializer",
    "TextFileIndex",
    "TextFileInitializer",
    "TextFileStringTableInitializer",
    "index_table_from_file",
    "index_table_from_tensor",
    "index_to_string_table_from_file",
    "index_to_string_table_from_tensor",
]
