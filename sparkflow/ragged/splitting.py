"""Strings in parts: split at separators, or into bytes."""

from __future__ import annotations

from typing import Any

from sparkflow._api import export
from sparkflow.graph.scopes import apply_op, convert_to_tensor, name_scope
from sparkflow.graph.values.sparse_tensor import SparseTensor
from sparkflow.ops.renamed_arguments import either
from sparkflow.ops.strings.strings import require_row
from sparkflow.ragged.tensor import RaggedTensor
from sparkflow_runtime.dtypes import string


@export("string_split")
def string_split(
    source: Any,
    sep: str | None = None,
    skip_empty: bool = True,
    delimiter: str | None = None,
    result_type: str = "SparseTensor",
    name: str | None = None,
) -> Any:
    """Strings split at any character of a delimiter.

    Args:
        source: [n] strings.
        sep: Each character of it separates; "" splits into bytes. A space when not given.
        skip_empty: Leave out parts without characters.
        delimiter: The older name of `sep`.
        result_type: `SparseTensor` or `RaggedTensor`.
        name: Name scope of the nodes.

    Returns:
        A sparse [n, most parts] matrix of strings, or ragged rows.

    Raises:
        ValueError: Another result type, or both names.
    """
    mark = either("sep", sep, "delimiter", delimiter)
    with name_scope(name, "StringSplit", [source]):
        values = convert_to_tensor(source, string)
        marks = convert_to_tensor(" " if mark is None else mark, string)
        sparse = SparseTensor(*apply_op("StringSplit", values, marks, skip_empty=skip_empty))
        return _rows(sparse, result_type)


@export("strings.split")
def string_split_v2(
    input: Any = None,
    sep: str | None = None,
    maxsplit: int = -1,
    result_type: str = "SparseTensor",
    source: Any = None,
    name: str | None = None,
) -> Any:
    """Strings split at a separator as Python's `split` does.

    Args:
        input: [n] strings, or one.
        sep: The separator; white space when None or "".
        maxsplit: How often at most; -1 for no limit.
        result_type: `SparseTensor` or `RaggedTensor`.
        source: The older name of `input`.
        name: Name scope of the nodes.

    Returns:
        A sparse [n, most parts] matrix of strings, or ragged rows.

    Raises:
        ValueError: Another result type.
    """
    given = either("input", input, "source", source)
    with name_scope(name, "StringSplit", [given]):
        values = convert_to_tensor(given, string)
        if values.shape.ndims == 0:
            values = convert_to_tensor([values])
        mark = convert_to_tensor("" if sep is None else sep, string)
        sparse = SparseTensor(*apply_op("StringSplitV2", values, mark, maxsplit=maxsplit))
        return _rows(sparse, result_type)


def _rows(sparse: SparseTensor, result_type: str) -> Any:
    """The parts as the result that is asked for."""
    if result_type == "SparseTensor":
        return sparse
    if result_type != "RaggedTensor":
        raise ValueError("result_type must be 'RaggedTensor' or 'SparseTensor'.")
    return RaggedTensor.from_sparse(sparse)


@export("strings.bytes_split")
def bytes_split(input: Any, name: str | None = None) -> Any:
    """The bytes of strings, as strings.

    Args:
        input: A string, or [n] strings.
        name: Name scope of the nodes.

    Returns:
        [bytes] of one string; ragged rows of several.

    Raises:
        ValueError: `input` has more dimensions.
    """
    with name_scope(name, "StringsByteSplit", [input]):
        value = convert_to_tensor(input, string)
        if require_row(value, "bytes_split"):
            parts = apply_op("StringSplit", value, "", skip_empty=False)
            return _rows(SparseTensor(*parts), "RaggedTensor")
        places = apply_op("Range", 0, apply_op("StringLength", value), 1)
        return apply_op("Substr", value, places, apply_op("OnesLike", places))
