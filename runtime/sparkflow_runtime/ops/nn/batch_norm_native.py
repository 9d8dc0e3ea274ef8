"""Batch normalisation on a CPU in machine code: two passes over the images, and two for gradients.

Images have channels last, and all arrays have one dtype. In all other cases numpy is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.codegen.tiles import normalisation_kernels
from sparkflow_runtime.codegen.tiles.normalisation_kernels import Kernels
from sparkflow_runtime.ops.kernels.by_shape import REMEMBERED
from sparkflow_runtime.ops.op import Array

Run = Callable[..., None]
Shown = Callable[[Sequence[Array], tuple[Array, Array]], tuple[Array, Array]]


def bind(rank: int, epsilon: float, shown: Shown | None, plain: Run) -> Run:
    """Returns the kernel of a normalisation, called with its inputs and its outputs.

    Args:
        rank: Dimensions of images.
        epsilon: Added to the variance.
        shown: Computes the mean and variance to return, from the inputs and the batch's moments;
            None in inference.
        plain: The same in numpy.
    """
    known = _Known(rank)

    def run(*arrays: Array) -> None:
        inputs, (y, mean_out, variance_out, *kept) = arrays[:5], arrays[5:10]
        x, scale, offset, mean, variance = inputs
        kernels = known.of(x, scale.size)
        if kernels is None or not y.flags.c_contiguous:
            plain(*arrays)
            return
        if shown is not None:
            moments = (kept[0], kept[1])
            if not kernels.moments(x, *moments):
                plain(*arrays)
                return
            mean_out[...], variance_out[...] = shown(inputs, moments)
            mean, variance = moments
        factor = scale / np.sqrt(variance + x.dtype.type(epsilon))
        if not kernels.normalise(x, mean, factor, offset, y):
            plain(*arrays)
        elif shown is None:
            for target, value in ((mean_out, mean), (variance_out, variance)):
                target[...] = value
            for target, value in zip(kept, (mean, variance), strict=True):
                target[...] = value

    return run


def bind_gradient(rank: int, epsilon: float, is_training: bool, plain: Run) -> Run:
    """The kernel of the gradient, called with dy, x, scale, mean, variance, more, dx and others.

    Args:
        rank: Dimensions of images.
        epsilon: Added to the variance.
        is_training: Whether the mean and variance are those of the batch.
        plain: The same in numpy.
    """
    known = _Known(rank)

    def run(*arrays: Array) -> None:
        dy, x, scale, mean, variance = arrays[:5]
        dx, dscale, doffset = arrays[-3:]
        kernels = known.of(x, scale.size)
        kind = x.dtype.type
        if kernels is None or not dx.flags.c_contiguous:
            plain(*arrays)
            return
        if not kernels.products(dy, x, mean, doffset, dscale):
            plain(*arrays)
            return
        inverse = 1 / np.sqrt(variance + kind(epsilon))
        np.multiply(dscale, inverse, out=dscale)
        factor = scale * inverse
        if not is_training:
            np.multiply(dy, factor, out=dx)
            return
        count = kind(x.size // scale.size)
        slope, share = dscale * inverse / count, doffset / count
        if not kernels.slopes(dy, x, mean, slope, share, factor, dx):
            plain(*arrays)

    return run


class _Known:
    """Kernels by the shape of images, for the latest shapes.

    Args:
        rank: Dimensions of images.
    """

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._kernels: dict[tuple[int, ...], Kernels | None] = {}

    def of(self, x: Any, channels: int) -> Kernels | None:
        """The kernels for images; None if there are none, or the number of channels differs."""
        if x.ndim != self._rank or x.shape[-1] != channels or not channels:
            return None
        try:
            return self._kernels[x.shape]
        except KeyError:
            rows = x.size // channels
            found = normalisation_kernels.bind(x.dtype, rows, channels)
            if len(self._kernels) >= REMEMBERED:
                self._kernels.clear()
            self._kernels[x.shape] = found
            return found
