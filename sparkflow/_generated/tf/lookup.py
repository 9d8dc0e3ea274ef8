"""`tf.lookup`: tables from keys to values; more of them are in `tf.contrib.lookup`.

Made by `scripts/generate_api.py`.
"""

from sparkflow._api.loading import face

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        "sparkflow.ops.state.tables": (
            "KeyValueTensorInitializer LookupInterface MutableHashTable "
            "StaticHashTable:HashTable StaticHashTable TextFileIdTableInitializer "
            "TextFileIndex TextFileInitializer TextFileStringTableInitializer"
        ),
        "sparkflow.ops.state.vocabulary": (
            "FastHashSpec HasherSpec IdTableWithHashBuckets StaticVocabularyTable "
            "StrongHashSpec index_table_from_file index_table_from_tensor "
            "index_to_string_table_from_file index_to_string_table_from_tensor"
        ),
    },
)
