"""Batch normalisation and its gradient in machine code, channels last, for arrays of one shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.machine import host, native, scratch, threads as pools
from sparkflow_runtime.codegen.tiles import normalisation_ir as ir
from sparkflow_runtime.codegen.tiles.convolution_tasks import ELEMENTS
from sparkflow_runtime.codegen.tiles.normalisation_ir import Field, Form
from sparkflow_runtime.codegen.tiles.tile import PARALLEL_ELEMENTS

Array = np.ndarray[Any, Any]

CHUNK: Final = 128
"""Rows that are summed before they are added to other sums."""


@dataclass(frozen=True, slots=True)
class Kernels:
    """The kernels for images of one shape, [rows, channels] or [..., channels].

    Each returns False, without doing anything, if an array does not fit.

    Attributes:
        moments: x to mean and variance.
        normalise: x, mean, factor, offset to y: (x - mean) · factor + offset.
        products: dy, x, mean to Σ dy and Σ dy · (x - mean).
        slopes: dy, x, mean, slope, share, factor to dx: (dy - (x - mean) · slope - share) · factor.
    """

    moments: Callable[[Array, Array, Array], bool]
    normalise: Callable[..., bool]
    products: Callable[[Array, Array, Array, Array, Array], bool]
    slopes: Callable[..., bool]


def bind(dtype: np.dtype[Any], rows: int, channels: int) -> Kernels | None:
    """Returns the kernels.

    Args:
        dtype: float32 or float64.
        rows: Pixels of all images.
        channels: Channels per pixel.

    Returns:
        None if there are none.
    """
    if not native.available() or dtype.char not in ELEMENTS or not dtype.isnative:
        return None
    if rows < 1 or channels < 1:
        return None
    form = Form(ELEMENTS[dtype.char], host.host().vector_bytes // dtype.itemsize)
    numbers = {Field.ROWS: rows, Field.CHANNELS: channels, Field.CHUNK: CHUNK}
    sizes = [numbers[field] for field in Field]
    chunks = -(-rows // CHUNK)
    is_large = rows * channels >= PARALLEL_ELEMENTS
    threads = min(pools.count(), chunks) if is_large else 1
    whole, parts = rows * channels, chunks * channels

    def bound(write: Callable[[Form], str], *counts: int) -> Callable[..., bool]:
        body = native.written_body(write, (form,), is_tidy=True)
        return body.bind(sizes, counts, chunks, threads, is_large)

    take = bound(ir.moments_text, whole, parts, parts)
    together = native.written_body(ir.together_text, (form,), is_tidy=True).bind(
        sizes, [parts, parts, channels, channels], 1
    )
    multiply = bound(ir.products_text, whole, whole, channels, parts, parts)
    size_bytes = parts * dtype.itemsize

    def sums() -> tuple[Array, Array]:
        memory = scratch.take(2 * size_bytes)[: 2 * size_bytes].view(dtype)
        return memory[:parts], memory[parts:]

    def moments(x: Array, mean: Array, variance: Array) -> bool:
        totals, squares = sums()
        return take(x, totals, squares) and together(totals, squares, mean, variance)

    def products(dy: Array, x: Array, mean: Array, total: Array, product: Array) -> bool:
        totals, along = sums()
        if not multiply(dy, x, mean, totals, along):
            return False
        np.add.reduce(totals.reshape(chunks, channels), axis=0, out=total)
        np.add.reduce(along.reshape(chunks, channels), axis=0, out=product)
        return True

    vectors = [channels] * 4
    return Kernels(
        moments,
        bound(ir.normal_text, whole, *vectors[:3], whole),
        products,
        bound(ir.slopes_text, whole, whole, *vectors, whole),
    )
