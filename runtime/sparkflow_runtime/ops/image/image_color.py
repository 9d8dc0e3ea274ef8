"""Colours of images whose last dimension is red, green, blue or hue, saturation, value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.codegen.images.colors import Task, changed
from sparkflow_runtime.codegen.images.contrast import contrasted
from sparkflow_runtime.dtypes import FLOATING, float32
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.op import Array, Inference, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import type_attr
from sparkflow_runtime.ops.static import bracketed
from sparkflow_runtime.shapes import Shape

HostArray = np.ndarray[Any, Any]
_TYPE = {"T": type_attr(FLOATING, float32)}


def _check_colors(shape: Sequence[int | None]) -> None:
    if not shape or shape[-1] not in (3, None):
        raise InvalidArgumentError(
            message=f"input must have 3 channels but input only has {bracketed(shape)}"
        )


def _to_hsv(xp: Any, images: Array) -> Array:
    red, green, blue = (images[..., i] for i in range(3))
    value = images.max(axis=-1)
    span = value - images.min(axis=-1)
    positive = span > 0
    safe = xp.where(positive, span, 1)
    saturation = xp.where(value > 0, span / xp.where(value > 0, value, 1), 0)
    hue = xp.where(
        red == value,
        (green - blue) / safe,
        xp.where(green == value, (blue - red) / safe + 2, (red - green) / safe + 4),
    )
    hue = xp.where(positive, hue / 6, 0)
    hue = xp.where(hue < 0, hue + 1, hue)
    return xp.stack([hue, saturation, value], -1).astype(images.dtype, copy=False)


def _to_rgb(xp: Any, images: Array) -> Array:
    hue, saturation, value = (images[..., i] for i in range(3))
    six = hue * 6
    ramps = (xp.abs(six - 3) - 1, 2 - xp.abs(six - 2), 2 - xp.abs(six - 4))
    colors = [((1 - saturation) + saturation * xp.clip(r, 0, 1)) * value for r in ramps]
    return xp.stack(colors, -1).astype(images.dtype, copy=False)


class _Conversion(Op):
    inputs = "images: T"
    outputs = "output: T"
    attrs = _TYPE
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape of the images."""
        shape = node.shapes[0]
        if shape is not None:
            _check_colors(shape)
        return [shape]


@register
class RGBToHSV(_Conversion):
    """Hue in [0, 1), saturation and value of colours in [0, 1]."""

    def compute(self, xp: Any, images: Array) -> Array:
        """The other colours."""
        _check_colors(images.shape)
        made = changed(Task.TO_HSV, images) if xp is np else None
        return _to_hsv(xp, images) if made is None else made


@register
class HSVToRGB(_Conversion):
    """The inverse of `RGBToHSV`."""

    def compute(self, xp: Any, images: Array) -> Array:
        """The other colours."""
        _check_colors(images.shape)
        made = changed(Task.TO_RGB, images) if xp is np else None
        return _to_rgb(xp, images) if made is None else made


class _Adjustment(Op):
    outputs = "output: T"
    attrs = _TYPE

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape of the images."""
        shape = node.shapes[0]
        if shape is not None and len(shape) < 3:
            raise InvalidArgumentError(
                message=f"Shape must be at least rank 3 but is rank {len(shape)}"
            )
        return [shape]


def _contrasted(images: HostArray, factor: Array) -> HostArray:
    """The same on the host: loops are short over channels and long over rows of pixels."""
    quick = contrasted(images, factor)
    if quick is not None:
        return quick
    *_, height, width, channels = images.shape
    lines = images.reshape(-1, height, width * channels)
    sums = np.add.reduce(lines, 1).reshape(-1, width, channels)
    mean = np.add.reduce(sums, 1, keepdims=True) / np.float32(height * width)
    means = np.broadcast_to(mean, sums.shape).reshape(-1, 1, width * channels)
    made = lines - means
    made *= factor
    made += means
    return made.reshape(images.shape)


@register
class AdjustContrastv2(_Adjustment):
    """(x - mean) · factor + mean, with the mean of each channel of each image."""

    inputs = "images: T, contrast_factor: float32"

    def compute(self, xp: Any, images: Array, factor: Array) -> Array:
        """The adjusted images."""
        wide = images.astype(xp.float32, copy=False)
        if xp is np and images.size:
            return _contrasted(wide, factor).astype(images.dtype, copy=False)
        mean = wide.mean(axis=(-3, -2), keepdims=True) if images.size else 0
        return ((wide - mean) * factor + mean).astype(images.dtype, copy=False)


@register
class AdjustHue(_Adjustment):
    """Rotates hues by `delta`."""

    inputs = "images: T, delta: float32"

    def compute(self, xp: Any, images: Array, delta: Array) -> Array:
        """The adjusted images."""
        _check_colors(images.shape)
        wide = images.astype(xp.float32, copy=False)
        made = changed(Task.HUE, wide, float(delta)) if xp is np else None
        if made is not None:
            return made.astype(images.dtype, copy=False)
        hsv = _to_hsv(xp, wide)
        hsv[..., 0] = (hsv[..., 0] + delta) % np.float32(1)
        return _to_rgb(xp, hsv).astype(images.dtype, copy=False)


@register
class AdjustSaturation(_Adjustment):
    """Multiplies saturations by `scale`; results are at most 1."""

    inputs = "images: T, scale: float32"

    def compute(self, xp: Any, images: Array, scale: Array) -> Array:
        """The adjusted images."""
        _check_colors(images.shape)
        wide = images.astype(xp.float32, copy=False)
        made = changed(Task.SATURATION, wide, float(scale)) if xp is np else None
        if made is not None:
            return made.astype(images.dtype, copy=False)
        hsv = _to_hsv(xp, wide)
        hsv[..., 1] = xp.clip(hsv[..., 1] * scale, 0, 1)
        return _to_rgb(xp, hsv).astype(images.dtype, copy=False)
