"""Cases of `single_ops.py` that select or move elements."""

from __future__ import annotations

import numpy as np
from single_ops_cases import (
    _bytes,
    _cube,
    _generator,
    _ids,
    _images,
    _normal,
    _op,
    _square,
    _wide,
)


def indexing() -> None:
    """Rows and elements by number, segments, masks."""
    rows = [_normal(10_000, 64), _ids(10_000, 4096)]
    _op(
        "gather rows, 4,096 of 10,000 x 64",
        rows,
        lambda tf, x, i: tf.gather(x, i),
        lambda torch, x, i: x[i],
        lambda jax, x, i: x[i],
    )
    _op(
        "gather columns, 512 x 512",
        [_square, _ids(512, 300)],
        lambda tf, x, i: tf.gather(x, i, axis=1),
        lambda torch, x, i: torch.index_select(x, 1, i),
        lambda jax, x, i: x[:, i],
        gradient=True,
    )
    places = np.stack([_ids(512, 4096), _ids(512, 4096)], 1)
    _op(
        "gather_nd elements, 4,096",
        [_square, places],
        lambda tf, x, i: tf.gather_nd(x, i),
        lambda torch, x, i: x[i[:, 0], i[:, 1]],
        lambda jax, x, i: x[i[:, 0], i[:, 1]],
        gradient=True,
    )
    _op(
        "gather_nd rows, 512",
        [_cube, np.stack([_ids(32, 512), _ids(64, 512)], 1)],
        lambda tf, x, i: tf.gather_nd(x, i),
        lambda torch, x, i: x[i[:, 0], i[:, 1]],
        lambda jax, x, i: x[i[:, 0], i[:, 1]],
    )
    _op(
        "batch_gather, 64 x 4,096",
        [_wide, _ids(4096, 64, 512)],
        lambda tf, x, i: tf.batch_gather(x, i),
        lambda torch, x, i: torch.gather(x, 1, i.long()),
        lambda jax, x, i: jax.numpy.take_along_axis(x, i, 1),
    )
    _op(
        "scatter_nd rows, 4,096 x 64",
        [_normal(4096, 64), _ids(10_000, 4096, 1)],
        lambda tf, x, i: tf.scatter_nd(i, x, [10_000, 64]),
        lambda torch, x, i: torch.zeros(10_000, 64).index_add_(0, i[:, 0], x),
        lambda jax, x, i: jax.numpy.zeros((10_000, 64)).at[i[:, 0]].add(x),
    )
    _op(
        "scatter_nd elements, 4,096",
        [_normal(4096), places],
        lambda tf, x, i: tf.scatter_nd(i, x, [512, 512]),
    )
    _op(
        "tensor_scatter_update rows",
        [_normal(10_000, 64), _ids(10_000, 1000, 1), _normal(1000, 64)],
        lambda tf, x, i, y: tf.tensor_scatter_update(x, i, y),
        is_random=True,  # which of two rows remains
    )
    ordered = np.sort(_ids(500, 4096))
    for name in ("sum", "mean", "max", "prod"):
        _op(
            f"segment_{name}, 4,096 x 64",
            [1 + 0.01 * _normal(4096, 64), ordered],
            lambda tf, x, i, n=name: getattr(tf, f"segment_{n}")(x, i),
        )
    for name in ("sum", "mean", "max", "prod"):
        _op(
            f"unsorted_segment_{name}, 4,096 x 64",
            [1 + 0.01 * _normal(4096, 64), _ids(500, 4096)],
            lambda tf, x, i, n=name: getattr(tf, f"unsorted_segment_{n}")(x, i, 500),
        )
    _op(
        "unsorted_segment_sum of numbers, 100,000",
        [_normal(100_000), _ids(1000, 100_000)],
        lambda tf, x, i: tf.unsorted_segment_sum(x, i, 1000),
        lambda torch, x, i: torch.zeros(1000).index_add_(0, i, x),
        lambda jax, x, i: jax.ops.segment_sum(x, i, 1000),
    )
    _op(
        "sparse_segment_sum, 4,096 x 64",
        [_normal(10_000, 64), _ids(10_000, 4096), ordered],
        lambda tf, x, i, j: tf.sparse_segment_sum(x, i, j),
        gradient=True,
    )
    _op(
        "one_hot, 4,096 of 100",
        [_ids(100, 4096)],
        lambda tf, i: tf.one_hot(i, 100),
        lambda torch, i: torch.nn.functional.one_hot(i.long(), 100).float(),
        lambda jax, i: jax.nn.one_hot(i, 100),
    )
    _op(
        "one_hot over axis 1, 64 x 128 of 50",
        [_ids(50, 64, 128)],
        lambda tf, i: tf.one_hot(i, 50, axis=1),
    )
    mask = _generator.random(10_000) < 0.5
    _op(
        "boolean_mask of rows, 10,000 x 64",
        [_normal(10_000, 64), mask],
        lambda tf, x, m: tf.boolean_mask(x, m),
        lambda torch, x, m: x[m],
    )
    _op(
        "boolean_mask of elements, 512 x 512",
        [_square, _square > 0],
        lambda tf, x, m: tf.boolean_mask(x, m),
        lambda torch, x, m: x[m],
    )
    _op(
        "where: indices, 512 x 512",
        [_square > 0],
        lambda tf, m: tf.where(m),
        lambda torch, m: torch.nonzero(m),
    )
    _op(
        "where: choice, 512 x 512",
        [_square, _square > 0],
        lambda tf, x, m: tf.where(m, x, -x),
        lambda torch, x, m: torch.where(m, x, -x),
        lambda jax, x, m: jax.numpy.where(m, x, -x),
    )
    _op(
        "sequence_mask, 512 x 512",
        [_ids(512, 512)],
        lambda tf, i: tf.sequence_mask(i, 512, tf.float32),
    )
    _op(
        "dynamic_partition, 4,096 x 64",
        [_normal(4096, 64), _ids(4, 4096)],
        lambda tf, x, i: list(tf.dynamic_partition(x, i, 4)),
    )
    order = _generator.permutation(4096).astype(np.int32)
    _op(
        "dynamic_stitch, 4,096 x 64",
        [_normal(2048, 64), order[:2048], order[2048:]],
        lambda tf, x, i, j: tf.dynamic_stitch([i, j], [x, -x]),
    )


def moving() -> None:
    """Transposes, joins, parts, padding."""
    for values, orders in (
        (_cube, ((1, 0, 2), (0, 2, 1), (2, 1, 0), (2, 0, 1), (1, 2, 0))),
        (_images, ((0, 3, 1, 2), (0, 2, 1, 3), (3, 2, 1, 0))),
    ):
        for axes in orders:
            _op(
                f"transpose {axes}, {' x '.join(map(str, values.shape))}",
                [values],
                lambda tf, x, a=axes: tf.transpose(x, a),
                lambda torch, x, a=axes: x.permute(a).contiguous(),
                lambda jax, x, a=axes: jax.numpy.transpose(x, a),
            )
    _op(
        "transpose uint8 (0, 3, 1, 2), 8 x 96 x 96 x 3",
        [_bytes(8, 96, 96, 3)],
        lambda tf, x: tf.transpose(x, (0, 3, 1, 2)),
        lambda torch, x: x.permute(0, 3, 1, 2).contiguous(),
    )
    for axis in range(3):
        _op(
            f"concat over axis {axis}, 2 of 32 x 64 x 128",
            [_cube, _cube * 2],
            lambda tf, x, y, a=axis: tf.concat([x, y], a),
            lambda torch, x, y, a=axis: torch.cat([x, y], a),
            lambda jax, x, y, a=axis: jax.numpy.concatenate([x, y], a),
        )
        _op(
            f"split over axis {axis}, 4 of 32 x 64 x 128",
            [_cube],
            lambda tf, x, a=axis: list(tf.split(x, 4, a)),
            lambda torch, x, a=axis: [
                each.contiguous() for each in torch.split(x, x.shape[a] // 4, a)
            ],
            lambda jax, x, a=axis: jax.numpy.split(x, 4, a),
        )
    _op(
        "stack of 8 over axis 1, 512 x 64",
        [_normal(512, 64)],
        lambda tf, x: tf.stack([x] * 8, 1),
        lambda torch, x: torch.stack([x] * 8, 1),
        lambda jax, x: jax.numpy.stack([x] * 8, 1),
    )
    _op(
        "unstack over axis 1, 64 x 16 x 256",
        [_normal(64, 16, 256)],
        lambda tf, x: tf.unstack(x, axis=1),
    )
    _op(
        "tile (4, 2), 128 x 256",
        [_normal(128, 256)],
        lambda tf, x: tf.tile(x, [4, 2]),
        lambda torch, x: x.repeat(4, 2),
        lambda jax, x: jax.numpy.tile(x, (4, 2)),
        gradient=True,
    )
    _op(
        "tile (1, 1, 64), 64 x 64 x 1",
        [_normal(64, 64, 1)],
        lambda tf, x: tf.tile(x, [1, 1, 64]),
        lambda torch, x: x.repeat(1, 1, 64),
        lambda jax, x: jax.numpy.tile(x, (1, 1, 64)),
        gradient=True,
    )
    pads = [[0, 0], [1, 1], [2, 2], [0, 0]]
    _op(
        "pad, 8 x 64 x 64 x 16",
        [_images],
        lambda tf, x: tf.pad(x, pads),
        lambda torch, x: torch.nn.functional.pad(x, (0, 0, 2, 2, 1, 1)),
        lambda jax, x: jax.numpy.pad(x, pads),
        gradient=True,
    )
    _op(
        "mirror pad, 8 x 64 x 64 x 16",
        [_images],
        lambda tf, x: tf.pad(x, pads, "REFLECT"),
        None,
        lambda jax, x: jax.numpy.pad(x, pads, "reflect"),
        gradient=True,
    )
    _op(
        "strided_slice [::2, 1::3], 512 x 512",
        [_square],
        lambda tf, x: x[::2, 1::3],
        lambda torch, x: x[::2, 1::3].contiguous(),
        lambda jax, x: x[::2, 1::3],
        gradient=True,
    )
    _op(
        "strided_slice [:, ::-1], 512 x 512",
        [_square],
        lambda tf, x: x[:, ::-1],
        lambda torch, x: torch.flip(x, (1,)),
        lambda jax, x: x[:, ::-1],
    )
    _op(
        "slice of the middle, 512 x 512",
        [_square],
        lambda tf, x: tf.slice(x, [100, 100], [300, 300]),
        lambda torch, x: x[100:400, 100:400].contiguous(),
        lambda jax, x: x[100:400, 100:400],
        gradient=True,
    )
    _op(
        "reverse over axis 0, 512 x 512",
        [_square],
        lambda tf, x: tf.reverse(x, [0]),
        lambda torch, x: torch.flip(x, (0,)),
    )
    _op(
        "reverse_sequence, 64 x 128 x 64",
        [_normal(64, 128, 64), _ids(128, 64)],
        lambda tf, x, i: tf.reverse_sequence(x, i, 1),
    )
    _op(
        "roll, 512 x 512",
        [_square],
        lambda tf, x: tf.roll(x, [3, 5], [0, 1]),
        lambda torch, x: torch.roll(x, (3, 5), (0, 1)),
        lambda jax, x: jax.numpy.roll(x, (3, 5), (0, 1)),
    )
    _op("space_to_depth, 8 x 64 x 64 x 16", [_images], lambda tf, x: tf.space_to_depth(x, 2))
    _op("depth_to_space, 8 x 64 x 64 x 16", [_images], lambda tf, x: tf.depth_to_space(x, 2))
    _op(
        "space_to_batch, 8 x 64 x 64 x 16",
        [_images],
        lambda tf, x: tf.space_to_batch_nd(x, [2, 2], [[0, 0], [0, 0]]),
    )
    _op(
        "broadcast_to, 64 x 1 x 128 to 64 x 32 x 128",
        [_normal(64, 1, 128)],
        lambda tf, x: tf.broadcast_to(x, [64, 32, 128]),
        lambda torch, x: x.expand(64, 32, 128).contiguous(),
        gradient=True,
    )
    _op(
        "matrix_band_part, 512 x 512",
        [_square],
        lambda tf, x: tf.matrix_band_part(x, 5, 5),
        lambda torch, x: torch.tril(torch.triu(x, -5), 5),
        lambda jax, x: jax.numpy.tril(jax.numpy.triu(x, -5), 5),
        gradient=True,
    )
    _op(
        "matrix_band_part: lower, 16 x 128 x 128",
        [_normal(16, 128, 128)],
        lambda tf, x: tf.matrix_band_part(x, -1, 0),
        lambda torch, x: torch.tril(x),
        lambda jax, x: jax.numpy.tril(x),
    )
    _op(
        "matrix_diag, 64 x 128",
        [_normal(64, 128)],
        lambda tf, x: tf.matrix_diag(x),
        lambda torch, x: torch.diag_embed(x),
    )
    _op(
        "matrix_diag_part, 64 x 128 x 128",
        [_normal(64, 128, 128)],
        lambda tf, x: tf.matrix_diag_part(x),
        gradient=True,
    )
    _op(
        "matrix_set_diag, 64 x 128 x 128",
        [_normal(64, 128, 128), _normal(64, 128)],
        lambda tf, x, y: tf.matrix_set_diag(x, y),
    )
