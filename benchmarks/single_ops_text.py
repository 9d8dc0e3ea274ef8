"""Cases of `single_ops.py` of strings and of sparse tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
from single_ops_cases import (
    _ids,
    _normal,
    _op,
    _words,
)


def strings() -> None:
    """Strings."""
    words = [_words(10_000)]
    _op(
        "string_to_hash_bucket_fast, 10,000",
        words,
        lambda tf, x: tf.string_to_hash_bucket_fast(x, 1000),
    )
    _op("string_split, 10,000", words, lambda tf, x: tf.string_split(x).values)
    _op("string_join, 10,000", words, lambda tf, x: tf.string_join([x, x], "-"))
    _op("substr, 10,000", words, lambda tf, x: tf.substr(x, 2, 3))
    _op("as_string, 10,000", [_ids(10**6, 10_000)], lambda tf, x: tf.as_string(x))
    _op("as_string of floats, 10,000", [_normal(10_000)], lambda tf, x: tf.as_string(x))
    _op(
        "string_to_number, 10,000",
        [np.array([b"%.5f" % v for v in _normal(10_000)], object)],
        lambda tf, x: tf.string_to_number(x),
    )
    _op("regex_replace, 10,000", words, lambda tf, x: tf.regex_replace(x, "o[rf]", "x"))
    _op("string_length, 10,000", words, lambda tf, x: tf.strings.length(x))
    _op("string equal, 10,000", words, lambda tf, x: tf.equal(x, tf.strings.strip(x)))
    _op(
        "decode_raw, 1,000 of 64 floats",
        [np.array([_normal(64).tobytes() for _ in range(1000)], object)],
        lambda tf, x: tf.decode_raw(x, tf.float32),
    )
    _op(
        "reduce_join, 100 x 100",
        [_words(10_000).reshape(100, 100)],
        lambda tf, x: tf.reduce_join(x, 1),
    )
    _op("encode_base64, 10,000", words, lambda tf, x: tf.encode_base64(x))
    _op("regex_full_match, 10,000", words, lambda tf, x: tf.strings.regex_full_match(x, "w.*d1.*"))
    _op("string_strip, 10,000", words, lambda tf, x: tf.strings.strip(x))
    _op("string_lower, 10,000", words, lambda tf, x: tf.strings.lower(x))
    _op("unique of words, 10,000", words, lambda tf, x: tf.unique(x)[1])


def sparse() -> None:
    """Sparse tensors."""
    places = np.unique(np.stack([_ids(1000, 10_000), _ids(500, 10_000)], 1), axis=0).astype(
        np.int64
    )
    values = _normal(len(places))

    def sparse(tf: Any, p: Any, v: Any) -> Any:
        return tf.SparseTensor(p, v, [1000, 500])

    given = [values, places]
    _op(
        "sparse_tensor_dense_matmul, 10,000 by 500 x 64",
        [*given, _normal(500, 64)],
        lambda tf, v, p, y: tf.sparse_tensor_dense_matmul(sparse(tf, p, v), y),
        gradient=True,
    )
    _op(
        "sparse_tensor_to_dense, 10,000",
        given,
        lambda tf, v, p: tf.sparse_tensor_to_dense(sparse(tf, p, v)),
    )
    _op(
        "sparse_reduce_sum, 10,000",
        given,
        lambda tf, v, p: tf.sparse_reduce_sum(sparse(tf, p, v), 1),
    )
    _op(
        "sparse_softmax, 10,000", given, lambda tf, v, p: tf.sparse_softmax(sparse(tf, p, v)).values
    )
    _op(
        "sparse_add, 10,000",
        given,
        lambda tf, v, p: tf.sparse_add(sparse(tf, p, v), sparse(tf, p, v)).values,
    )
    _op(
        "sparse_transpose, 10,000",
        given,
        lambda tf, v, p: tf.sparse_transpose(sparse(tf, p, v)).values,
    )
    _op(
        "sparse_slice, 10,000",
        given,
        lambda tf, v, p: tf.sparse_slice(sparse(tf, p, v), [100, 100], [500, 300]).values,
    )
    _op(
        "sparse_concat, 10,000",
        given,
        lambda tf, v, p: tf.sparse_concat(1, [sparse(tf, p, v), sparse(tf, p, v)]).values,
    )
    _op(
        "sparse_reshape, 10,000",
        given,
        lambda tf, v, p: tf.sparse_reshape(sparse(tf, p, v), [500, 1000]).indices,
    )
    _op(
        "sparse_reorder, 10,000",
        [values, places[::-1].copy()],
        lambda tf, v, p: tf.sparse_reorder(sparse(tf, p, v)).values,
    )
    _op(
        "sparse_fill_empty_rows, 10,000",
        given,
        lambda tf, v, p: tf.sparse_fill_empty_rows(sparse(tf, p, v), 0.0)[0].values,
    )
    ids = np.sort(_ids(1000, 5000)).astype(np.int64)
    columns = np.arange(5000) - np.searchsorted(ids, ids)
    _op(
        "embedding_lookup_sparse, 5,000 of 10,000 x 32",
        [_normal(10_000, 32), np.stack([ids, columns], 1), _ids(10_000, 5000, kind=np.int64)],
        lambda tf, t, p, i: tf.nn.embedding_lookup_sparse(
            t, tf.SparseTensor(p, i, [1000, 100]), None, combiner="mean"
        ),
    )
