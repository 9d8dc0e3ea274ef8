"""Crops of images in machine code, nearest or bilinear, and their input gradient."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparkflow_runtime.codegen.machine import host, native, threads as pools
from sparkflow_runtime.codegen.machine.llvm_text import Code, Value, Vectors
from sparkflow_runtime.codegen.tiles.tile import PARALLEL_ELEMENTS
from sparkflow_runtime.once import latest

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Places:
    """The source rows (or columns) of crops: arrays of [crops, rows].

    Attributes:
        low: The row of the image below, int64.
        high: The one above; None if each has a single source row.
        share: The weight of the one above, float32; None likewise.
        inside: Whether the source is inside the image.
    """

    low: Array
    high: Array | None
    share: Array | None
    inside: Array

    def table(self, count: int) -> Array:
        """[crops, rows, 3] int64: low and high times `count`, and the bits of the share.

        -1 marks rows outside the image.
        """
        low = self.low * count
        high = low if self.high is None else self.high * count
        made = np.zeros((*low.shape, 3), np.int64)
        made[..., 0] = np.where(self.inside, low, -1)
        made[..., 1] = high
        if self.share is not None:
            made[..., 2] = self.share.astype(np.float32).view(np.int32)
        return made


def crop(
    images: Array, numbers: Array, rows: Places, columns: Places, outside: float
) -> Array | None:
    """Returns the crops [crops, rows, columns, channels] of images [batch, ...], float32.

    Args:
        images: [batch, height, width, channels] float32, contiguous.
        numbers: [crops] the image of each crop.
        rows: Source rows of all crops.
        columns: Source columns of all crops.
        outside: The value of pixels outside the image.

    Returns:
        None if there is no machine code.
    """
    crops, height = rows.low.shape
    out = np.empty((crops, height, columns.low.shape[1], images.shape[3]), np.float32)
    if not out.size or not images.size or not native.available():
        return None
    shares = out.size >= PARALLEL_ELEMENTS
    parts = min(pools.count(), crops * height) if shares else 1
    value = np.array([outside], np.float32)
    return out if _run(False, images, out, numbers, rows, columns, value, parts) else None


def spread(gradients: Array, numbers: Array, rows: Places, columns: Places, images: Array) -> bool:
    """Adds gradients of crops to float32 images; False, doing nothing, without machine code."""
    if not gradients.size or not images.size or not native.available():
        return False
    return _run(True, images, gradients, numbers, rows, columns, np.zeros(1, np.float32), 1)


def _run(
    is_gradient: bool,
    images: Array,
    crops: Array,
    numbers: Array,
    rows: Places,
    columns: Places,
    outside: Array,
    parts: int,
) -> bool:
    _, height, width, channels = images.shape
    starts = numbers.astype(np.int64) * (height * width * channels)
    tables = rows.table(width * channels), columns.table(channels)
    taps = 1 if rows.high is None else 4
    run = _bound(is_gradient, taps, images.size, crops.shape, parts)
    return run(images, starts, *tables, outside, crops)


@latest(256)
def _bound(
    is_gradient: bool, taps: int, image_size: int, crops: tuple[int, ...], parts: int
) -> Callable[..., bool]:
    count, height, width, channels = crops
    lanes = min(host.host().vector_bytes // 4, 1 << (channels - 1).bit_length())
    body = native.written_body(_text, (is_gradient, taps, channels, lanes), is_tidy=True)
    counts = [image_size, count, 3 * count * height, 3 * count * width, 1, math.prod(crops)]
    large = math.prod(crops) >= PARALLEL_ELEMENTS
    return body.bind((height, width), counts, count * height, parts, large)


def _text(is_gradient: bool, taps: int, channels: int, lanes: int) -> str:
    """Returns the module; its loop is over the rows of all crops."""
    code = Code()
    vectors = Vectors(code, "float", lanes)
    height, width = code.sizes(2)
    images, starts, rows, columns, outside, crops = code.arrays(6)
    empty = vectors.broadcast(outside, 0)
    with code.loop("%lo", "%hi") as unit:
        number = code.let(f"sdiv i64 {unit}, {height}")
        image = code.at("float", images, code.load("i64", code.at("i64", starts, number)))
        top, bottom, down = _place(code, rows, unit)
        line = code.multiply(unit, code.multiply(width, channels))
        with code.loop(0, width) as column:
            left, right, across = _place(
                code, columns, code.add(code.multiply(number, width), column)
            )
            target = code.at("float", crops, code.add(line, code.multiply(column, channels)))
            is_inside = code.both(code.compare("sge", top, 0), code.compare("sge", left, 0))
            with code.when(is_inside):
                places = [
                    code.at("float", image, code.add(row, side))
                    for row in (top, bottom)
                    for side in (left, right)
                ][:taps]
                weights = _weights(code, down, across) if taps > 1 else []
                factors = [vectors.splat(each) for each in weights]
                for at, mask in vectors.along(channels):
                    if is_gradient:
                        _give(vectors, target, places, factors, at, mask)
                    else:
                        _take(vectors, target, places, factors, at, mask)
            if not is_gradient:
                with code.unless(is_inside):
                    for at, mask in vectors.along(channels):
                        vectors.store(empty, target, at, mask)
    return code.module()


def _place(code: Code, table: str, number: Value) -> tuple[str, str, str]:
    at = code.at("i64", table, code.multiply(number, 3))
    low = code.load("i64", at)
    high = code.load("i64", code.at("i64", at, 1))
    share = code.load("float", code.at("i64", at, 2), 8)
    return low, high, share


def _weights(code: Code, down: str, across: str) -> list[str]:
    """Returns the weights of the four corners."""
    up, back = (code.let(f"fsub float 1.0, {each}") for each in (down, across))
    pairs = [(up, back), (up, across), (down, back), (down, across)]
    return [code.let(f"fmul float {a}, {b}") for a, b in pairs]


def _take(
    vectors: Vectors,
    target: str,
    places: Sequence[str],
    factors: Sequence[str],
    at: Value,
    mask: str | None,
) -> None:
    values = [vectors.load(place, at, mask) for place in places]
    total = values[0]
    if factors:
        total = vectors.multiply(values[0], factors[0])
        for value, factor in zip(values[1:], factors[1:], strict=True):
            total = vectors.multiply_add(value, factor, total)
    vectors.store(total, target, at, mask)


def _give(
    vectors: Vectors,
    target: str,
    places: Sequence[str],
    factors: Sequence[str],
    at: Value,
    mask: str | None,
) -> None:
    given = vectors.load(target, at, mask)
    for number, place in enumerate(places):
        before = vectors.load(place, at, mask)
        if factors:
            total = vectors.multiply_add(given, factors[number], before)
        else:
            total = vectors.add(given, before)
        vectors.store(total, place, at, mask)
