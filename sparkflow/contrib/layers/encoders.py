"""Sequences of ids as vectors."""

from __future__ import annotations

from typing import Any

import sparkflow as tf
from sparkflow.contrib.framework.scoped_arguments import add_arg_scope
from sparkflow.contrib.framework.variables import model_variable
from sparkflow.embedding.sparse_lookup import safe_embedding_lookup_sparse

__all__ = [
    "bow_encoder",
    "embed_sequence",
    "embedding_lookup_unique",
    "safe_embedding_lookup_sparse",
]


@add_arg_scope
def bow_encoder(
    ids: Any,
    vocab_size: int,
    embed_dim: int,
    sparse_lookup: bool = True,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: Any = None,
) -> Any:
    """The mean of the embeddings of the ids of each row.

    Args:
        ids: [batch, length] ids, dense or sparse.
        vocab_size: The number of ids.
        embed_dim: The size of the embeddings.
        sparse_lookup: Look dense ids up as if they were sparse, without those that are 0.
        initializer: As for `tf.get_variable`.
        regularizer: As for `tf.get_variable`.
        trainable: Whether optimizers change the embeddings.
        scope: The variable scope; `bow_encoder` when None.
        reuse: Whether to use the variable that exists in `scope`.

    Raises:
        TypeError: Sparse ids with `sparse_lookup` false.
    """
    with tf.variable_scope(scope, "bow_encoder", [ids], reuse=reuse):
        embeddings = model_variable(
            "embeddings",
            shape=[vocab_size, embed_dim],
            initializer=initializer,
            regularizer=regularizer,
            trainable=trainable,
        )
        if sparse_lookup:
            if not isinstance(ids, tf.SparseTensor):
                ids = tf.convert_to_tensor(ids)
                indices = tf.where(tf.not_equal(ids, tf.zeros_like(ids)))
                shape = tf.cast(tf.shape(ids), tf.int64)
                ids = tf.SparseTensor(indices, tf.gather_nd(ids, indices), shape)
            return tf.nn.embedding_lookup_sparse([embeddings], ids, None, combiner="mean")
        if isinstance(ids, tf.SparseTensor):
            raise TypeError("ids are expected to be dense Tensor, got: SparseTensor")
        return tf.reduce_mean(tf.nn.embedding_lookup(embeddings, ids), axis=1)


@add_arg_scope
def embed_sequence(
    ids: Any,
    vocab_size: int | None = None,
    embed_dim: int | None = None,
    unique: bool = False,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: Any = None,
) -> Any:
    """The embedding of every id.

    Args:
        ids: [batch, length] ids.
        vocab_size: The number of ids.
        embed_dim: The size of the embeddings.
        unique: Look every id up once.
        initializer: As for `tf.get_variable`.
        regularizer: As for `tf.get_variable`.
        trainable: Whether optimizers change the embeddings.
        scope: The variable scope; `EmbedSequence` when None.
        reuse: Whether to use the variable that exists in `scope`.

    Returns:
        [batch, length, embed_dim].

    Raises:
        ValueError: A size is missing, and no variable is reused.
    """
    if not (reuse or (vocab_size and embed_dim)):
        raise ValueError(
            "Must specify vocab size and embedding dimension when not reusing. Got "
            f"vocab_size={vocab_size} and embed_dim={embed_dim}"
        )
    with tf.variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        shape = [vocab_size, embed_dim] if vocab_size and embed_dim else None
        embeddings = model_variable(
            "embeddings",
            shape=shape,
            initializer=initializer,
            regularizer=regularizer,
            trainable=trainable,
        )
        if unique:
            return embedding_lookup_unique(embeddings, ids)
        return tf.nn.embedding_lookup(embeddings, ids)


def embedding_lookup_unique(
    params: Any, ids: Any, partition_strategy: str = "mod", name: str | None = None
) -> Any:
    """As `tf.nn.embedding_lookup`, looking every id up once."""
    with tf.name_scope(name, "EmbeddingLookupUnique", [params, ids]):
        ids = tf.convert_to_tensor(ids)
        unique, positions = tf.unique(tf.reshape(ids, [-1]))
        found = tf.nn.embedding_lookup(params, unique, partition_strategy)
        flat = tf.gather(found, positions)
        outputs = tf.reshape(flat, tf.concat([tf.shape(ids), tf.shape(found)[1:]], 0))
        outputs.set_shape(ids.shape.concatenate(found.shape[1:]))
        return outputs
