"""Cases of `single_ops.py` that compute: products, convolutions, elementwise functions, losses."""

from __future__ import annotations

from typing import Any

import numpy as np
from single_ops_cases import (
    _cube,
    _ids,
    _images,
    _long,
    _normal,
    _op,
    _spd,
    _square,
)


def products() -> None:
    """Products of matrices and of batches of matrices."""
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


def convolutions() -> None:
    """Convolutions of all kinds."""

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


def elements() -> None:
    """Elementwise functions, casts, random numbers."""
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
        "float16 matmul, 256 x 256 x 256",
        [_square[:256, :256].astype(np.float16)] * 2,
        lambda tf, x, y: tf.matmul(x, y),
        lambda torch, x, y: x @ y,
        lambda jax, x, y: x @ y,
    )
    _op(
        "float16 reduce_sum over first, 512 x 512",
        [_square.astype(np.float16)],
        lambda tf, x: tf.reduce_sum(x, 0),
        lambda torch, x: x.sum(0),
        lambda jax, x: x.sum(0),
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


def losses() -> None:
    """Losses and distances."""
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
