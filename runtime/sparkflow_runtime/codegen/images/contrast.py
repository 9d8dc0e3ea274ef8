"""Machine code that changes the contrast of images, one after the other while they are cached."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.machine import native, threads
from sparkflow_runtime.codegen.machine.entry import NOT_COUNTED
from sparkflow_runtime.codegen.machine.llvm_text import Code, Vectors
from sparkflow_runtime.once import latest, once

Array = np.ndarray[Any, Any]
_LANES: Final = 16
_SHARED_ELEMENTS: Final = 1 << 16
"""Fewer elements are processed by a single thread."""
_LONG_ELEMENTS: Final = 4096
"""Larger inputs are processed without holding the GIL."""


def contrasted(images: Array, factor: Array) -> Array | None:
    """Returns (x - mean) · factor + mean, with the mean of each channel of each image.

    Args:
        images: [..., height, width, channels] float32, not empty.
        factor: One float32.

    Returns:
        The images; None if there is no machine code for them.
    """
    if images.dtype != np.float32 or factor.dtype != np.float32 or not native.available():
        return None
    height, width, channels = images.shape[-3:]
    count = prod(images.shape[:-3])
    parts = min(threads.count(), count) if images.size >= _SHARED_ELEMENTS else 1
    found = np.empty(images.shape, np.float32)
    memory = np.empty((parts, width * channels), np.float32)
    run = _bound(count, height, width, channels, parts)
    return found if run(images, factor.reshape(1), memory, found) else None


@latest(64)
def _bound(count: int, height: int, width: int, channels: int, parts: int) -> Callable[..., bool]:
    total = count * height * width * channels
    sizes, counts = (height, width, channels), (total, 1, NOT_COUNTED, total)
    return _body().bind(sizes, counts, count, parts, total >= _LONG_ELEMENTS)


@once
def _body() -> native.Body:
    return native.written_body(text, ())


def text() -> str:
    """Returns the module; its loop is over images.

    Sizes: height, width and channels. Arrays: the images, the factor, memory for a line of pixels
    per part, the results.
    """
    code = Code()
    height, width, channels = code.sizes(3)
    images, factor, memory, found = code.arrays(4)
    size = code.multiply(width, channels)
    line = code.at("float", memory, code.multiply("%part", size))
    factor = code.load("float", factor, 4)
    one, many = (Vectors(code, "float", lanes) for lanes in (1, _LANES))
    pixels = code.let(f"sitofp i64 {code.multiply(height, width)} to float")
    whole = code.let(f"and i64 {size}, {-_LANES}")
    with code.loop("%lo", "%hi") as number:
        start = code.multiply(code.multiply(number, height), size)
        image, target = code.at("float", images, start), code.at("float", found, start)
        code.copy(line, image, code.multiply(size, 4))
        with code.loop(1, height) as row:
            here = code.at("float", image, code.multiply(row, size))
            for vectors, first, stop in ((many, 0, whole), (one, whole, size)):
                with code.loop(first, stop, vectors.lanes) as at:
                    total = vectors.add(vectors.load(line, at), vectors.load(here, at))
                    vectors.store(total, line, at)
        with code.loop(0, channels) as channel:
            place = code.at("float", line, channel)
            total = code.variable("float")
            code.set(total, code.load("float", place, 4), "float")
            with code.loop(1, width) as column:
                term = code.load(
                    "float", code.at("float", place, code.multiply(column, channels)), 4
                )
                code.set(total, code.let(f"fadd float {code.get(total, 'float')}, {term}"), "float")
            mean = code.let(f"fdiv float {code.get(total, 'float')}, {pixels}")
            with code.loop(0, width) as column:
                there = code.at("float", place, code.multiply(column, channels))
                code.store("float", mean, there, 4)
        with code.loop(0, height) as row:
            here, there = (
                code.at("float", each, code.multiply(row, size)) for each in (image, target)
            )
            for vectors, first, stop in ((many, 0, whole), (one, whole, size)):
                with code.loop(first, stop, vectors.lanes) as at:
                    mean = vectors.load(line, at)
                    made = code.let(f"fsub {vectors.kind} {vectors.load(here, at)}, {mean}")
                    made = vectors.add(vectors.multiply(made, vectors.splat(factor)), mean)
                    vectors.store(made, there, at)
    return code.module()
