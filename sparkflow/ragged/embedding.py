"""Lookups in embeddings by ragged ids."""

from __future__ import annotations

from typing import Any

from sparkflow.embedding import lookup as embedding, sparse_lookup as sparse_embedding
from sparkflow.ragged.registered import of_ragged
from sparkflow.ragged.tensor import RaggedTensor


@of_ragged
def embedding_lookup(params: Any, ids: Any, *args: Any, **kwargs: Any) -> RaggedTensor:
    """The rows of `params` of each id, in the rows of the ids."""
    found = embedding.embedding_lookup(params, ids.flat_values, *args, **kwargs)
    made: RaggedTensor = ids.with_flat_values(found)
    return made


@of_ragged
def embedding_lookup_sparse(
    params: Any, sp_ids: Any, sp_weights: Any = None, *args: Any, **kwargs: Any
) -> Any:
    """See `tf.nn.embedding_lookup_sparse`; weights have the rows of the ids."""
    return sparse_embedding.embedding_lookup_sparse(
        params, _sparse(sp_ids), _sparse(sp_weights), *args, **kwargs
    )


@of_ragged
def safe_embedding_lookup_sparse(
    embedding_weights: Any, sparse_ids: Any, sparse_weights: Any = None, *args: Any, **kwargs: Any
) -> Any:
    """See `tf.nn.safe_embedding_lookup_sparse`; weights have the rows of the ids."""
    return sparse_embedding.safe_embedding_lookup_sparse(
        embedding_weights, _sparse(sparse_ids), _sparse(sparse_weights), *args, **kwargs
    )


def _sparse(value: Any) -> Any:
    return value.to_sparse() if isinstance(value, RaggedTensor) else value
