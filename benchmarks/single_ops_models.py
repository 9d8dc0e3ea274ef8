"""Ops of particular models, for `single_ops`: speech, detection, volumes, columns in buckets."""

from __future__ import annotations

import numpy as np
from single_ops_cases import _generator, _ids, _normal, _op


def models() -> None:
    """Adds the ops."""
    count, batch, labels = 60, 8, 10
    words = _ids(19, batch * labels)
    places = np.stack([np.repeat(np.arange(batch), labels), np.tile(np.arange(labels), batch)], 1)
    _op(
        "ctc_loss, 60 x 8, 20 classes, 10 labels",
        [_normal(count, batch, 20), places.astype(np.int64), words],
        lambda tf, x, p, v: tf.nn.ctc_loss(
            tf.SparseTensor(p, v, [batch, labels]), x, np.full(batch, count, np.int32)
        ),
        gradient=True,
    )
    corners = _generator.random((2000, 2), np.float32)
    boxes = np.concatenate([corners, corners + np.float32(0.5)], 1)
    _op(
        "non_max_suppression, 50 of 2,000",
        [boxes, _generator.random(2000, np.float32)],
        lambda tf, b, s: tf.image.non_max_suppression(b, s, 50, 0.5),
    )
    _op(
        "max_pool3d 2, 4 x 8 x 24 x 24 x 16",
        [_normal(4, 8, 24, 24, 16)],
        lambda tf, x: tf.nn.max_pool3d(x, [1, 2, 2, 2, 1], [1, 2, 2, 2, 1], "SAME"),
        gradient=True,
    )
    _op(
        "buckets of 100,000 between 10 boundaries",
        [_normal(100_000)],
        lambda tf, x: tf.raw_ops.Bucketize(input=x, boundaries=list(np.linspace(-2.0, 2.0, 10))),
    )
