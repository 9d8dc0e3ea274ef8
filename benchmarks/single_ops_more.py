"""More of `single_ops_cases.py`: rows by number, moving of elements, products, strings, numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from single_ops_cases import (
    _bytes,
    _cube,
    _generator,
    _ids,
    _images,
    _long,
    _normal,
    _op,
    _spd,
    _square,
    _wide,
    _words,
)


def _indexing() -> None:
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
        is_random=True,  # which of two rows stays
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


def _moving() -> None:
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


def _products() -> None:
    for m, k, n in (
        (1, 1024, 1024),
        (1024, 1024, 1),
        (4096, 16, 16),
        (16, 4096, 16),
        (256, 256, 256),
        (2048, 64, 2048),
    ):
        _op(
            f"matmul, {m} x {k} x {n}",
            [_normal(m, k), _normal(k, n)],
            lambda tf, x, y: tf.matmul(x, y),
            lambda torch, x, y: x @ y,
            lambda jax, x, y: x @ y,
        )
    for batch, size in ((512, 16), (64, 64), (4096, 4)):
        _op(
            f"batch_matmul, {batch} of {size} x {size}",
            [_normal(batch, size, size), _normal(batch, size, size)],
            lambda tf, x, y: tf.matmul(x, y),
            lambda torch, x, y: x @ y,
            lambda jax, x, y: x @ y,
        )
    _op(
        "matmul int32, 128 cubed",
        [_ids(100, 128, 128), _ids(100, 128, 128)],
        lambda tf, x, y: tf.matmul(x, y),
        lambda torch, x, y: x @ y,
        lambda jax, x, y: x @ y,
    )
    _op(
        "matmul float64, 256 cubed",
        [_square[:256, :256].astype(np.float64)] * 2,
        lambda tf, x, y: tf.matmul(x, y),
        lambda torch, x, y: x @ y,
    )
    _op(
        "tensordot, 32 x 64 x 128 by 128 x 64",
        [_cube, _normal(128, 64)],
        lambda tf, x, y: tf.tensordot(x, y, 1),
        lambda torch, x, y: torch.tensordot(x, y, 1),
        lambda jax, x, y: jax.numpy.tensordot(x, y, 1),
    )
    for name, shape in (
        ("64 x 64", (64, 64)),
        ("256 of 8 x 8", (256, 8, 8)),
        ("256 x 256", (256, 256)),
        ("4,096 of 4 x 4", (4096, 4, 4)),
    ):
        given = [_spd(*shape)]
        _op(
            f"cholesky, {name}",
            given,
            lambda tf, x: tf.cholesky(x),
            lambda torch, x: torch.linalg.cholesky(x),
            lambda jax, x: jax.numpy.linalg.cholesky(x),
            gradient=len(shape) == 2,
        )
        _op(
            f"matrix_inverse, {name}",
            given,
            lambda tf, x: tf.matrix_inverse(x),
            lambda torch, x: torch.linalg.inv(x),
            lambda jax, x: jax.numpy.linalg.inv(x),
        )
        _op(
            f"matrix_determinant, {name}",
            given,
            lambda tf, x: tf.matrix_determinant(x),
            is_random=shape[-1] > 16,
        )  # out of range, or with errors of that size
        _op(
            f"matrix_solve, {name}",
            [*given, _normal(*shape)],
            lambda tf, x, y: tf.matrix_solve(x, y),
            lambda torch, x, y: torch.linalg.solve(x, y),
            lambda jax, x, y: jax.numpy.linalg.solve(x, y),
        )
        _op(
            f"matrix_triangular_solve, {name}",
            [np.tril(*given), _normal(*shape)],
            lambda tf, x, y: tf.matrix_triangular_solve(x, y),
            lambda torch, x, y: torch.linalg.solve_triangular(x, y, upper=False),
        )
        _op(
            f"cholesky_solve, {name}",
            [np.linalg.cholesky(*given), _normal(*shape)],
            lambda tf, x, y: tf.cholesky_solve(x, y),
            lambda torch, x, y: torch.cholesky_solve(y, x),
        )
    for name, shape in (("64 x 64", (64, 64)), ("256 of 8 x 8", (256, 8, 8))):
        _op(
            f"svd: values, {name}",
            [_normal(*shape)],
            lambda tf, x: tf.svd(x, compute_uv=False),
            lambda torch, x: torch.linalg.svdvals(x),
        )
        _op(
            f"self_adjoint_eigvals, {name}",
            [_spd(*shape)],
            lambda tf, x: tf.self_adjoint_eigvals(x),
            lambda torch, x: torch.linalg.eigvalsh(x),
        )
        _op(f"qr, {name}", [_normal(*shape)], lambda tf, x: tf.qr(x)[1] ** 2)
    for name, given in (("64 of 1,024", _normal(64, 1024)), ("16 of 1,000", _normal(16, 1000))):
        _op(
            f"fft, {name}",
            [given.astype(np.complex64)],
            lambda tf, x: tf.abs(tf.fft(x)),
            lambda torch, x: torch.fft.fft(x).abs(),
            lambda jax, x: abs(jax.numpy.fft.fft(x)),
        )
        _op(
            f"rfft, {name}",
            [given],
            lambda tf, x: tf.abs(
                tf.spectral.rfft(x) if hasattr(tf, "spectral") else tf.signal.rfft(x)
            ),
            lambda torch, x: torch.fft.rfft(x).abs(),
            lambda jax, x: abs(jax.numpy.fft.rfft(x)),
        )
    _op(
        "fft2d, 8 of 128 x 128",
        [_normal(8, 128, 128).astype(np.complex64)],
        lambda tf, x: tf.abs(tf.fft2d(x)),
        lambda torch, x: torch.fft.fft2(x).abs(),
        lambda jax, x: abs(jax.numpy.fft.fft2(x)),
    )


def _convolutions() -> None:
    def conv(text: str, x: Any, f: Any, **attrs: Any) -> None:
        _op(
            f"conv2d {text}",
            [f, x],
            lambda tf, f, x: tf.nn.conv2d(x, f, padding="SAME", **attrs),
            gradient=True,
        )

    conv("3 x 3, 16 to 32 channels", _images, _normal(3, 3, 16, 32), strides=[1, 1, 1, 1])
    conv("3 x 3, stride 2", _images, _normal(3, 3, 16, 32), strides=[1, 2, 2, 1])
    conv(
        "3 x 3, dilated by 2",
        _images,
        _normal(3, 3, 16, 32),
        strides=[1] * 4,
        dilations=[1, 2, 2, 1],
    )
    conv("1 x 1", _images, _normal(1, 1, 16, 64), strides=[1] * 4)
    conv(
        "7 x 7 of 3 channels, stride 2",
        np.ascontiguousarray(_images[..., :3]),
        _normal(7, 7, 3, 32),
        strides=[1, 2, 2, 1],
    )
    _op(
        "depthwise 3 x 3, 64 x 64 x 16",
        [_normal(3, 3, 16, 1), _images],
        lambda tf, f, x: tf.nn.depthwise_conv2d(x, f, [1, 1, 1, 1], "SAME"),
        gradient=True,
    )
    _op(
        "depthwise 3 x 3, stride 2, multiplier 2",
        [_normal(3, 3, 16, 2), _images],
        lambda tf, f, x: tf.nn.depthwise_conv2d(x, f, [1, 2, 2, 1], "SAME"),
        gradient=True,
    )
    _op(
        "separable_conv2d, 16 to 32",
        [_normal(3, 3, 16, 1), _images, _normal(1, 1, 16, 32)],
        lambda tf, f, x, p: tf.nn.separable_conv2d(x, f, p, [1, 1, 1, 1], "SAME"),
    )
    _op(
        "conv2d_transpose, stride 2, 16 to 8",
        [_normal(3, 3, 8, 16), _images],
        lambda tf, f, x: tf.nn.conv2d_transpose(x, f, [8, 128, 128, 8], [1, 2, 2, 1]),
        gradient=True,
    )
    _op(
        "conv1d 5, 64 x 256 x 32 to 64",
        [_normal(5, 32, 64), _normal(64, 256, 32)],
        lambda tf, f, x: tf.nn.conv1d(x, f, 1, "SAME"),
        gradient=True,
    )
    _op(
        "conv3d 3, 2 x 16 x 16 x 16 x 8 to 16",
        [_normal(3, 3, 3, 8, 16), _normal(2, 16, 16, 16, 8)],
        lambda tf, f, x: tf.nn.conv3d(x, f, [1] * 5, "SAME"),
        gradient=True,
    )
    for name in ("max", "avg"):
        for size, stride in ((2, 2), (3, 1), (3, 2)):
            _op(
                f"{name}_pool {size}, stride {stride}, 64 x 64 x 16",
                [_images],
                lambda tf, x, n=name, k=size, s=stride: getattr(tf.nn, f"{n}_pool")(
                    x, [1, k, k, 1], [1, s, s, 1], "SAME"
                ),
                gradient=True,
            )
        _op(
            f"{name}_pool3d 2, 2 x 16 x 16 x 16 x 8",
            [_normal(2, 16, 16, 16, 8)],
            lambda tf, x, n=name: getattr(tf.nn, f"{n}_pool3d")(
                x, [1, 2, 2, 2, 1], [1, 2, 2, 2, 1], "SAME"
            ),
            gradient=True,
        )
    _op(
        "max_pool_with_argmax 2",
        [_images],
        lambda tf, x: list(tf.nn.max_pool_with_argmax(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")),
    )
    _op(
        "dilation2d 3",
        [_images, _normal(3, 3, 16)],
        lambda tf, x, f: tf.nn.dilation2d(x, f, [1] * 4, [1] * 4, "SAME"),
    )
    _op(
        "bias_add, 8 x 64 x 64 x 16",
        [_images, _normal(16)],
        lambda tf, x, b: tf.nn.bias_add(x, b),
        lambda torch, x, b: x + b,
        lambda jax, x, b: x + b,
    )


def _elements() -> None:
    x = [_square]
    for name in (
        "exp",
        "tanh",
        "sigmoid",
        "erf",
        "sin",
        "cos",
        "log1p",
        "expm1",
        "sqrt",
        "rsqrt",
        "round",
        "sign",
        "lgamma",
        "digamma",
        "atan",
        "asinh",
        "tan",
        "floor",
    ):
        given = [np.abs(_square) + np.float32(0.1)]
        theirs = {"rsqrt": "rsqrt"}.get(name, name)
        _op(
            f"{name}, 512 x 512",
            given,
            lambda tf, x, n=name: getattr(tf, n)(x),
            lambda torch, x, n=theirs: getattr(torch, n)(x),
        )
    for name in ("elu", "selu", "softplus", "softsign", "relu6", "leaky_relu"):
        _op(
            f"{name}, 512 x 512",
            x,
            lambda tf, x, n=name: getattr(tf.nn, n)(x),
            None  # of another slope
            if name == "leaky_relu"
            else lambda torch, x, n=name: getattr(torch.nn.functional, n)(x),
            gradient=True,
        )
    for name in (
        "maximum",
        "floormod",
        "squared_difference",
        "atan2",
        "floordiv",
        "pow",
        "truediv",
    ):
        _op(
            f"{name}, 512 x 512",
            [np.abs(_square) + np.float32(0.5), np.abs(_normal(512, 512)) + 1],
            lambda tf, x, y, n=name: getattr(tf, n)(x, y),
        )
    numbers = [_ids(1000, 512, 512) + 1, _ids(50, 512, 512) + 1]
    for name in ("add", "floordiv", "floormod", "maximum"):
        _op(f"{name} int32, 512 x 512", numbers, lambda tf, x, y, n=name: getattr(tf, n)(x, y))
    _op("bitwise_and int32", numbers, lambda tf, x, y: tf.bitwise.bitwise_and(x, y))
    _op("left_shift int32", numbers, lambda tf, x, y: tf.bitwise.left_shift(x, y % 8))
    for source, target in (
        ("float32", "int32"),
        ("float32", "float64"),
        ("float32", "float16"),
        ("float32", "bfloat16"),
        ("float32", "bool"),
        ("float32", "uint8"),
        ("int32", "float32"),
        ("int64", "int32"),
        ("uint8", "float32"),
        ("bool", "float32"),
        ("float16", "float32"),
        ("int32", "int64"),
    ):
        given = np.abs(_square * 40).astype(source)
        if target == "bfloat16":
            _op(
                "cast float32 to bfloat16 and back",
                [given],
                lambda tf, x: tf.cast(tf.cast(x, tf.bfloat16), tf.float32),
            )
            continue
        _op(
            f"cast {source} to {target}, 512 x 512",
            [given],
            lambda tf, x, t=target: tf.cast(x, getattr(tf, t)),
            lambda torch, x, t=target: x.to(getattr(torch, t)),
        )
    _op(
        "clip_by_value",
        x,
        lambda tf, x: tf.clip_by_value(x, -1.0, 1.0),
        lambda torch, x: torch.clamp(x, -1, 1),
        gradient=True,
    )
    _op("clip_by_norm", x, lambda tf, x: tf.clip_by_norm(x, 1.0))
    _op("bitcast", x, lambda tf, x: tf.bitcast(x, tf.int32))
    _op(
        "add of a column and a row, 512 x 512",
        [_normal(512, 1), _normal(1, 512)],
        lambda tf, x, y: x + y,
        lambda torch, x, y: x + y,
        lambda jax, x, y: x + y,
        gradient=True,
    )
    _op(
        "complex product, 512 x 512",
        [(_square + 1j * _square.T).astype(np.complex64)] * 2,
        lambda tf, x, y: tf.abs(x * y),
        lambda torch, x, y: (x * y).abs(),
    )
    _op(
        "float16 a * b + c",
        [_square.astype(np.float16)] * 3,
        lambda tf, x, y, z: x * y + z,
        lambda torch, x, y, z: x * y + z,
    )
    _op(
        "float64 tanh(x) * y",
        [_square.astype(np.float64)] * 2,
        lambda tf, x, y: tf.tanh(x) * y,
        lambda torch, x, y: torch.tanh(x) * y,
    )
    _op("is_nan, is_finite", x, lambda tf, x: [tf.is_nan(x), tf.is_finite(x)])
    _op("logical_and, equal", x, lambda tf, x: tf.logical_and(x > 0, tf.equal(x, x)))
    _op("cross, 10,000 x 3", [_normal(10_000, 3)] * 2, lambda tf, x, y: tf.cross(x, y))
    _op("linspace and range", [_normal(1)], lambda tf, x: tf.linspace(0.0, 1.0, 100_000) + x)
    _op(
        "meshgrid, 512 x 512",
        [_normal(512), _normal(512)],
        lambda tf, x, y: list(tf.meshgrid(x, y)),
    )
    _op("add_n of 8, 512 x 512", x, lambda tf, x: tf.add_n([x, -x, x, x * 2, x, x, x, x]))
    _op("fake_quant", x, lambda tf, x: tf.fake_quant_with_min_max_args(x, -2, 2))
    for name, text in (
        ("random_normal", "random_normal"),
        ("random_uniform", "random_uniform"),
        ("truncated_normal", "truncated_normal"),
    ):
        _op(
            f"{text}, 262,144",
            [_normal(1)],
            lambda tf, x, n=name: getattr(tf, n)([512, 512]) + x,
            is_random=True,
        )
    _op(
        "random_shuffle, 10,000 x 16",
        [_normal(10_000, 16)],
        lambda tf, x: tf.random_shuffle(x),
        is_random=True,
    )
    _op(
        "multinomial, 64 of 1,000, 10 each",
        [_normal(64, 1000)],
        lambda tf, x: tf.multinomial(x, 10),
        is_random=True,
    )
    _op(
        "random_gamma, 10,000",
        [_normal(1)],
        lambda tf, x: tf.random_gamma([10_000], 2.0) + x,
        is_random=True,
    )
    _op(
        "dropout, 512 x 512",
        x,
        lambda tf, x: tf.nn.dropout(x, keep_prob=0.5),
        lambda torch, x: torch.dropout(x, 0.5, True),
        is_random=True,
    )


def _strings() -> None:
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


def _sparse() -> None:
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


def _losses() -> None:
    _op(
        "sparse softmax cross entropy, 256 x 1,000",
        [_normal(256, 1000), _ids(1000, 256)],
        lambda tf, x, y: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x),
        gradient=True,
    )
    _op(
        "softmax cross entropy, 4,096 x 10",
        [_normal(4096, 10), np.full((4096, 10), 0.1, "f4")],
        lambda tf, x, y: tf.nn.softmax_cross_entropy_with_logits_v2(labels=y, logits=x),
        gradient=True,
    )
    lengths = _ids(10, 16) + 5
    labels = _ids(19, 16, 10)
    _op(
        "ctc_loss, 50 x 16 x 20",
        [_normal(50, 16, 20), labels, lengths],
        lambda tf, x, y, n: tf.nn.ctc_loss(
            tf.contrib.layers.dense_to_sparse(y, -1)
            if hasattr(tf, "contrib")
            else tf.sparse.from_dense(y + 1),
            x,
            n * 0 + 50,
        ),
        is_random=True,
    )
    _op("l2_loss", [_long], lambda tf, x: tf.nn.l2_loss(x))
    _op(
        "nearest: pairwise distances, 256 x 256 x 32",
        [_normal(256, 1, 32), _normal(1, 256, 32)],
        lambda tf, x, y: tf.reduce_sum(tf.square(x - y), 2),
        gradient=True,
    )


def add() -> None:
    """Adds the cases."""
    for each in (
        _indexing,
        _moving,
        _products,
        _convolutions,
        _elements,
        _strings,
        _sparse,
        _losses,
    ):
        each()
