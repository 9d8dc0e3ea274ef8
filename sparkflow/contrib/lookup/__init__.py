"""`tf.contrib.lookup`: the names of `tf.lookup`, and its older names."""

from typing import Any

import sparkflow as tf
from sparkflow.ops.state.vocabulary import (
    index_table_from_file,
    index_table_from_tensor,
    index_to_string_table_from_file,
    index_to_string_table_from_tensor,
)

__all__ = [
    "index_table_from_file",
    "index_table_from_tensor",
    "index_to_string",
    "index_to_string_table_from_file",
    "index_to_string_table_from_tensor",
    "string_to_index",
    "string_to_index_table_from_file",
    "string_to_index_table_from_tensor",
]
string_to_index_table_from_file = index_table_from_file
string_to_index_table_from_tensor = index_table_from_tensor


def __getattr__(name: str) -> Any:
    return getattr(tf.lookup, name)


def string_to_index(
    tensor: Any, mapping: Any, default_value: int = -1, name: str | None = None
) -> Any:
    """The positions of texts in `mapping` [words], `default_value` for unknown ones."""
    return index_table_from_tensor(mapping, default_value=default_value, name=name).lookup(tensor)


def index_to_string(
    tensor: Any, mapping: Any, default_value: str = "UNK", name: str | None = None
) -> Any:
    """The texts of `mapping` [words] at positions, `default_value` for unknown ones."""
    table = index_to_string_table_from_tensor(mapping, default_value, name)
    return table.lookup(tensor)
