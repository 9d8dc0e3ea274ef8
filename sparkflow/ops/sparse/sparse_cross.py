"""`tf.sparse.cross`, `tf.sparse.cross_hashed`: combinations of the features of each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow._api import export
from sparkflow.graph.scopes import apply_op, convert_to_tensor
from sparkflow.graph.values.sparse_tensor import SparseTensor, SparseTensorValue, as_sparse
from sparkflow.ops.elementwise.elementwise import cast
from sparkflow_runtime.dtypes import int64, string

DEFAULT_HASH_KEY = 0xDECAFCAFFE


@export("sparse.cross")
def sparse_cross(inputs: Sequence[Any], name: str | None = None) -> SparseTensor:
    """Returns all combinations of one value per feature in each row, joined by `_X_`.

    Args:
        inputs: Matrices of integers or strings, `[rows, values]`, sparse or dense.
        name: Name of the node.

    Returns:
        Strings, `[rows, maximum number of combinations]`; sparse inputs come first.

    Raises:
        TypeError: An input is not a tensor, or the inputs are not a list.
    """
    return _crossed(inputs, False, 0, DEFAULT_HASH_KEY, name)


@export("sparse.cross_hashed")
def sparse_cross_hashed(
    inputs: Sequence[Any],
    num_buckets: int = 0,
    hash_key: int | None = None,
    name: str | None = None,
) -> SparseTensor:
    """Like `sparse_cross`, with each combination hashed.

    Args:
        inputs: As for `sparse_cross`.
        num_buckets: The number of hash buckets; 0 for all of int64.
        hash_key: The initial value of the hash; TensorFlow's if None.
        name: Name of the node.

    Returns:
        int64 in [0, num_buckets).

    Raises:
        TypeError: As for `sparse_cross`.
    """
    key = DEFAULT_HASH_KEY if hash_key is None else hash_key
    return _crossed(inputs, True, num_buckets, key, name)


def _crossed(
    inputs: Sequence[Any], hashed: bool, num_buckets: int, hash_key: int, name: str | None
) -> SparseTensor:
    if not isinstance(inputs, list | tuple):
        raise TypeError("Inputs must be a list")
    sparse = [as_sparse(each) for each in inputs if _is_sparse(each)]
    dense = [convert_to_tensor(each) for each in inputs if not _is_sparse(each)]
    values = [_text_or_int64(each.values) for each in sparse]
    dense = [_text_or_int64(each) for each in dense]
    only_texts = all(each.dtype.base is string for each in (*values, *dense))
    indices, found, shape = apply_op(
        "SparseCross",
        [each.indices for each in sparse],
        values,
        [each.dense_shape for each in sparse],
        dense,
        hashed_output=hashed,
        num_buckets=num_buckets,
        hash_key=hash_key,
        out_type=int64 if hashed else string,
        internal_type=string if only_texts or not hashed else int64,
        name=name,
    )
    return SparseTensor(indices, found, shape)


def _is_sparse(value: Any) -> bool:
    return isinstance(value, SparseTensor | SparseTensorValue)


def _text_or_int64(tensor: Any) -> Any:
    return tensor if tensor.dtype.base is string else cast(tensor, int64)
