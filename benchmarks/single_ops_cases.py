"""Single ops on data of usual sizes: their inputs, and their implementation in each library.

A case is computed from variables, so that no library folds it into a constant. `gradient` adds
another case for its gradient by the first input, with a random gradient of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Say = Callable[..., Any]
"""Maps the library and the inputs to the result: a tensor, or a list of them."""
_generator = np.random.default_rng(0)


@dataclass(frozen=True, slots=True)
class Op:
    """A case.

    Attributes:
        inputs: The inputs.
        tf: The code for TensorFlow 1 and sparkflow.
        torch: The code for PyTorch; None if it has no such op.
        jax: The code for JAX, which gets `jax` with `numpy` and `lax`.
        is_gradient: Whether the gradient by the first input is measured instead.
        is_random: Whether results are random and differ.
    """

    inputs: Sequence[Array]
    tf: Say
    torch: Say | None = None
    jax: Say | None = None
    is_gradient: bool = False
    is_random: bool = False


OPS: dict[str, Op] = {}


def _op(
    text: str,
    inputs: Sequence[Array],
    tf: Say,
    torch: Say | None = None,
    jax: Say | None = None,
    gradient: bool = False,
    is_random: bool = False,
) -> None:
    OPS[text] = Op(inputs, tf, torch, jax, False, is_random)
    if gradient:
        OPS[f"{text}, gradient"] = Op(inputs, tf, torch, jax, True)


def _normal(*shape: int) -> Array:
    return _generator.standard_normal(shape, np.float32)


def _ids(count: int, *shape: int, kind: Any = np.int32) -> Array:
    return _generator.integers(0, count, shape).astype(kind)


def _bytes(*shape: int) -> Array:
    return _ids(256, *shape, kind=np.uint8)


def _words(count: int) -> Array:
    return np.array([b"word %d of %d" % (n * 7919 % count, n) for n in range(count)], object)


def _spd(*shape: int) -> Array:
    a = _normal(*shape)
    eye = np.eye(shape[-1], dtype=np.float32)
    return (a @ np.swapaxes(a, -1, -2) / shape[-1] + eye).astype(np.float32)


_square = _normal(512, 512)
_wide = _normal(64, 4096)
_long = _normal(262_144)
_images = _normal(8, 64, 64, 16)
_photos = np.abs(_normal(8, 96, 96, 3)) % np.float32(1)
_cube = _normal(32, 64, 128)


def _nchw(torch: Any, x: Any) -> Any:
    return x.permute(0, 3, 1, 2)


def _resized(mode: str, size: int) -> Say:
    def say(torch: Any, x: Any) -> Any:
        made = torch.nn.functional.interpolate(_nchw(torch, x), (size, size), mode=mode)
        return made.permute(0, 2, 3, 1)

    return say


def _raw(tf: Any, name: str) -> Any:
    """Returns an op by its name, ignoring case."""
    (found,) = [each for each in dir(tf.raw_ops) if each.lower() == name.lower()]
    return getattr(tf.raw_ops, found)


def _resizing() -> None:
    # The other libraries use half-pixel centers, which are an attribute in TensorFlow 1.
    for size in (32, 128):
        for channels, given in ((16, _images), (3, _photos)):
            what = f"{given.shape[1]} to {size}, {channels} channels"
            for name in ("bilinear", "bicubic"):
                _op(
                    f"resize_{name}, {what}",
                    [given],
                    lambda tf, x, n=f"Resize{name}", s=size: _raw(tf, n)(
                        images=x, size=[s, s], half_pixel_centers=True
                    ),
                    _resized("bilinear", size) if name == "bilinear" else None,
                    gradient=True,
                )
            _op(
                f"resize_nearest, {what}",
                [given],
                lambda tf, x, s=size: tf.image.resize_nearest_neighbor(x, [s, s]),
                _resized("nearest", size),
                gradient=True,
            )
            _op(
                f"resize_area, {what}",
                [given],
                lambda tf, x, s=size: tf.image.resize_area(x, [s, s]),
            )
    boxes = _generator.uniform(0, 1, (64, 4)).astype(np.float32)
    boxes[:, 2:] = boxes[:, :2] * 0.5 + 0.5
    for method in ("bilinear", "nearest"):
        _op(
            f"crop_and_resize, 64 boxes of 14 x 14, {method}",
            [_images, boxes, _ids(8, 64)],
            lambda tf, x, b, i, m=method: tf.image.crop_and_resize(x, b, i, [14, 14], method=m),
            gradient=True,
        )


def _image_ops() -> None:
    photos = [_photos]
    _op("adjust_contrast", photos, lambda tf, x: tf.image.adjust_contrast(x, 1.5))
    _op("adjust_brightness", photos, lambda tf, x: tf.image.adjust_brightness(x, 0.2))
    _op("adjust_hue", photos, lambda tf, x: tf.image.adjust_hue(x, 0.1))
    _op("adjust_saturation", photos, lambda tf, x: tf.image.adjust_saturation(x, 1.3))
    _op("rgb_to_hsv", photos, lambda tf, x: tf.image.rgb_to_hsv(x))
    _op("hsv_to_rgb", photos, lambda tf, x: tf.image.hsv_to_rgb(x))
    _op("rgb_to_grayscale", photos, lambda tf, x: tf.image.rgb_to_grayscale(x))
    _op(
        "flip_left_right",
        photos,
        lambda tf, x: tf.image.flip_left_right(x),
        lambda torch, x: torch.flip(x, (2,)),
        lambda jax, x: x[:, :, ::-1],
    )
    _op("flip_up_down", photos, lambda tf, x: tf.image.flip_up_down(x))
    _op("rot90", photos, lambda tf, x: tf.image.rot90(x))
    _op("central_crop", photos, lambda tf, x: tf.image.central_crop(x, 0.5))
    _op(
        "pad_to_bounding_box", photos, lambda tf, x: tf.image.pad_to_bounding_box(x, 8, 8, 112, 112)
    )
    _op("per_image_standardization", photos, lambda tf, x: tf.image.per_image_standardization(x))
    _op(
        "extract_image_patches, 3 x 3",
        [_images],
        lambda tf, x: tf.extract_image_patches(x, [1, 3, 3, 1], [1, 1, 1, 1], [1, 1, 1, 1], "SAME"),
    )
    _op(
        "bytes to floats, 8 x 96 x 96 x 3",
        [_bytes(8, 96, 96, 3)],
        lambda tf, x: tf.cast(x, tf.float32) / 255.0,
        lambda torch, x: x.float() / 255.0,
        lambda jax, x: x.astype(np.float32) / 255.0,
    )


def _norms() -> None:
    for channels in (16, 64):
        given = _normal(4, 32, 32, channels)
        _op(
            f"lrn, {channels} channels",
            [given],
            lambda tf, x: tf.nn.lrn(x, 5, 1.0, 1e-2, 0.75),
            gradient=True,
        )
    for rows, columns in ((512, 512), (4096, 10), (64, 10_000)):
        given = _normal(rows, columns)
        _op(
            f"softmax, {rows} x {columns}",
            [given],
            lambda tf, x: tf.nn.softmax(x),
            lambda torch, x: torch.softmax(x, -1),
            lambda jax, x: jax.nn.softmax(x),
            gradient=True,
        )
        _op(
            f"log_softmax, {rows} x {columns}",
            [given],
            lambda tf, x: tf.nn.log_softmax(x),
            lambda torch, x: torch.log_softmax(x, -1),
            lambda jax, x: jax.nn.log_softmax(x),
            gradient=True,
        )
    _op(
        "softmax over the middle, 32 x 64 x 128",
        [_cube],
        lambda tf, x: tf.nn.softmax(x, 1),
        lambda torch, x: torch.softmax(x, 1),
        lambda jax, x: jax.nn.softmax(x, 1),
    )

    def layer_norm(tf: Any, x: Any) -> Any:
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        return (x - mean) * tf.rsqrt(variance + 1e-5)

    _op(
        "layer norm, 512 x 512",
        [_square],
        layer_norm,
        lambda torch, x: torch.nn.functional.layer_norm(x, (512,)),
        lambda jax, x: (
            (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
        ),
        gradient=True,
    )
    _op(
        "l2_normalize, 512 x 512",
        [_square],
        lambda tf, x: tf.nn.l2_normalize(x, 1),
        lambda torch, x: torch.nn.functional.normalize(x),
        gradient=True,
    )


def _sorting() -> None:
    for few, text, values in (
        (5, "512, 512 rows", _square),
        (10, "10,000, 64 rows", _normal(64, 10_000)),
        (1, "512, 512 rows", _square),
        (100, "262,144", _long),
    ):
        _op(
            f"top_k {few} of {text}",
            [values],
            lambda tf, x, k=few: list(tf.nn.top_k(x, k)),
            lambda torch, x, k=few: list(torch.topk(x, k)),
            lambda jax, x, k=few: list(jax.lax.top_k(x, k)),
            gradient=few == 5,
        )
    _op(
        "in_top_k 5 of 1,000, 256 rows",
        [_normal(256, 1000), _ids(1000, 256)],
        lambda tf, x, y: tf.nn.in_top_k(x, y, 5),
    )
    _op(
        "sort, 64 x 4,096",
        [_wide],
        lambda tf, x: tf.sort(x),
        lambda torch, x: torch.sort(x)[0],
        lambda jax, x: jax.numpy.sort(x),
    )
    _op(
        "argsort, 64 x 4,096",
        [_wide],
        lambda tf, x: tf.argsort(x),
        lambda torch, x: torch.argsort(x).int(),
        lambda jax, x: jax.numpy.argsort(x),
    )
    _op(
        "sort int32, 262,144",
        [_ids(2**30, 262_144)],
        lambda tf, x: tf.sort(x),
        lambda torch, x: torch.sort(x)[0],
        lambda jax, x: jax.numpy.sort(x),
    )
    _op("unique, 100,000 of 1,000", [_ids(1000, 100_000)], lambda tf, x: list(tf.unique(x)))
    _op(
        "unique_with_counts, 100,000 of 50,000",
        [_ids(50_000, 100_000)],
        lambda tf, x: list(tf.unique_with_counts(x)),
    )
    _op(
        "setdiff1d, 20,000",
        [np.arange(20_000, dtype=np.int32), _ids(20_000, 10_000)],
        lambda tf, x, y: list(tf.setdiff1d(x, y)),
    )
    _op(
        "invert_permutation",
        [_generator.permutation(100_000).astype(np.int32)],
        lambda tf, x: tf.invert_permutation(x),
    )
    _op(
        "searchsorted, 10,000 in 10,000",
        [np.sort(_normal(10_000)), _normal(10_000)],
        lambda tf, x, y: tf.searchsorted(x, y),
        lambda torch, x, y: torch.searchsorted(x, y).int(),
        lambda jax, x, y: jax.numpy.searchsorted(x, y),
    )
    _op(
        "bincount, 100,000",
        [_ids(1000, 100_000)],
        lambda tf, x: tf.bincount(x),
        lambda torch, x: torch.bincount(x).int(),
    )
    _op("histogram_fixed_width", [_long], lambda tf, x: tf.histogram_fixed_width(x, [-3.0, 3.0]))
    _op(
        "confusion_matrix",
        [_ids(10, 10_000), _ids(10, 10_000)],
        lambda tf, x, y: tf.confusion_matrix(x, y, 10),
    )


def _reductions() -> None:
    for axis, where in ((0, "first"), (1, "middle"), (2, "last"), ((0, 2), "outer"), (None, "all")):
        axes = list(axis) if isinstance(axis, tuple) else axis
        for name in ("sum", "mean", "max", "prod", "logsumexp"):
            if name in ("prod", "logsumexp") and where in ("outer", "all"):
                continue
            theirs = {"max": "amax"}.get(name, name)
            jax_name = "max" if name == "max" else name
            _op(
                f"reduce_{name} over {where}, 32 x 64 x 128",
                [_cube if name != "prod" else 1 + 0.01 * _cube],
                lambda tf, x, n=name, a=axes: getattr(tf, f"reduce_{n}")(x, a),
                lambda torch, x, n=theirs, a=axis: (
                    getattr(torch, n)(x) if a is None else getattr(torch, n)(x, a)
                ),
                None
                if name == "logsumexp"
                else lambda jax, x, n=jax_name, a=axis: getattr(jax.numpy, n)(x, a),
                gradient=where in ("middle", "last"),
            )
    truths = _cube > 0
    for name in ("any", "all"):
        _op(
            f"reduce_{name} over last, 32 x 64 x 128",
            [truths],
            lambda tf, x, n=name: getattr(tf, f"reduce_{n}")(x, -1),
            lambda torch, x, n=name: getattr(torch, n)(x, -1),
            lambda jax, x, n=name: getattr(jax.numpy, n)(x, -1),
        )
    _op(
        "count_nonzero, 32 x 64 x 128",
        [_cube],
        lambda tf, x: tf.count_nonzero(x, 1),
        lambda torch, x: torch.count_nonzero(x, 1),
    )
    for axis in range(3):
        _op(
            f"argmax over axis {axis}, 32 x 64 x 128",
            [_cube],
            lambda tf, x, a=axis: tf.argmax(x, a),
            lambda torch, x, a=axis: torch.argmax(x, a),
            lambda jax, x, a=axis: jax.numpy.argmax(x, a),
        )
        for name in ("cumsum", "cumprod"):
            _op(
                f"{name} over axis {axis}, 32 x 64 x 128",
                [_cube if name == "cumsum" else 1 + 0.01 * _cube],
                lambda tf, x, n=name, a=axis: getattr(tf, n)(x, a),
                lambda torch, x, n=name, a=axis: getattr(torch, n)(x, a),
                lambda jax, x, n=name, a=axis: getattr(jax.numpy, n)(x, a),
                gradient=axis == 2 and name == "cumsum",
            )
    _op("reverse cumsum, 64 x 4,096", [_wide], lambda tf, x: tf.cumsum(x, 1, reverse=True))
    _op(
        "moments, 8 x 64 x 64 x 16",
        [_images],
        lambda tf, x: list(tf.nn.moments(x, [0, 1, 2])),
    )
    _op(
        "reduce_sum int32 over last",
        [_ids(100, 32, 64, 128)],
        lambda tf, x: tf.reduce_sum(x, -1),
        lambda torch, x: x.sum(-1).int(),
        lambda jax, x: x.sum(-1),
    )
    _op(
        "reduce_max int64 over first",
        [_ids(100, 32, 64, 128, kind=np.int64)],
        lambda tf, x: tf.reduce_max(x, 0),
        lambda torch, x: x.amax(0),
    )


def all_ops() -> dict[str, Op]:
    """Returns the cases by their texts."""
    if not OPS:
        import single_ops_arrays as arrays
        import single_ops_maths as maths
        import single_ops_models as models
        import single_ops_text as text

        # The order matters: all draw their data from one generator.
        here = (_resizing, _image_ops, _norms, _sorting, _reductions)
        elsewhere = (arrays.indexing, arrays.moving, maths.products, maths.convolutions)
        rest = (maths.elements, text.strings, text.sparse, maths.losses, models.models)
        for add in (*here, *elsewhere, *rest):
            add()
    return OPS
