"""Colour conversion in machine code: RGB to HSV, back, or both for an adjustment in between.

Each pixel is computed as in `ops.image.image_color` in numpy, with the same rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.machine import native, threads
from sparkflow_runtime.codegen.machine.llvm_text import Code
from sparkflow_runtime.once import latest, once

Array = np.ndarray[Any, Any]
_SHARED_PIXELS: Final = 1 << 14
"""Smaller inputs are processed by a single thread."""
_ELEMENTS: Final = {"f": ("float", "f32", 4), "d": ("double", "f64", 8)}


class Task(Enum):
    """The operation on each pixel.

    Attributes:
        HUE: Rotates its hue by a number.
        SATURATION: Multiplies its saturation by a number.
    """

    TO_HSV = "to hsv"
    TO_RGB = "to rgb"
    HUE = "hue"
    SATURATION = "saturation"


def changed(task: Task, pixels: Array, number: float = 0.0) -> Array | None:
    """Returns the converted pixels [..., 3]; None if there is no machine code.

    Args:
        task: The operation.
        pixels: float32 or float64, contiguous.
        number: The operand of tasks that have one.
    """
    if pixels.dtype.char not in _ELEMENTS or not pixels.dtype.isnative or not pixels.size:
        return None
    if not native.available():
        return None
    out = np.empty(pixels.shape, pixels.dtype)
    count = pixels.size // 3
    parts = min(threads.count(), count) if count >= _SHARED_PIXELS else 1
    run = _bound(task, pixels.dtype.char, count, parts)
    return out if run(pixels, np.array([number], pixels.dtype), out) else None


@latest(64)
def _bound(task: Task, kind: str, count: int, parts: int) -> Callable[..., bool]:
    counts = (3 * count, 1, 3 * count)
    return _body(task, kind).bind((), counts, count, parts, count >= _SHARED_PIXELS)


@once
def _body(task: Task, kind: str) -> native.Body:
    return native.written_body(_text, (task, kind))


def _text(task: Task, kind: str) -> str:
    return _Writer(*_ELEMENTS[kind]).text(task)


class _Writer:
    def __init__(self, kind: str, suffix: str, size_bytes: int) -> None:
        self._code = Code()
        self._kind, self._suffix, self._bytes = kind, suffix, size_bytes

    def text(self, task: Task) -> str:
        code, kind = self._code, self._kind
        source, numbers, target = code.arrays(3)
        number = code.load(kind, numbers, self._bytes)
        with code.loop("%lo", "%hi") as pixel:
            at = code.multiply(pixel, 3)
            values = [
                code.load(kind, code.at(kind, source, code.add(at, n)), self._bytes)
                for n in range(3)
            ]
            if task is not Task.TO_RGB:
                values = self._to_hsv(*values)
            if task is Task.HUE:
                moved = self._binary("fadd", values[0], number)
                values[0] = self._binary("fsub", moved, self._intrinsic("floor", moved))
            if task is Task.SATURATION:
                values[1] = self._clipped(self._binary("fmul", values[1], number))
            if task is not Task.TO_HSV:
                values = self._to_rgb(*values)
            for n, value in enumerate(values):
                code.store(kind, value, code.at(kind, target, code.add(at, n)), self._bytes)
        return code.module()

    def _to_hsv(self, red: str, green: str, blue: str) -> list[str]:
        value = self._intrinsic("maximum", self._intrinsic("maximum", red, green), blue)
        least = self._intrinsic("minimum", self._intrinsic("minimum", red, green), blue)
        span = self._binary("fsub", value, least)
        is_positive = self._compare("ogt", span, "0.0")
        has_value = self._compare("ogt", value, "0.0")
        share = self._binary("fdiv", span, self._select(has_value, value, "1.0"))
        saturation = self._select(has_value, share, "0.0")
        is_red, is_green = (self._compare("oeq", each, value) for each in (red, green))
        differences = [
            self._binary("fsub", a, b) for a, b in ((green, blue), (blue, red), (red, green))
        ]
        others = self._select(is_green, differences[1], differences[2])
        difference = self._select(is_red, differences[0], others)
        start = self._select(is_red, "0.0", self._select(is_green, "2.0", "4.0"))
        quotient = self._binary("fdiv", difference, self._select(is_positive, span, "1.0"))
        sixth = self._binary("fdiv", self._binary("fadd", quotient, start), "6.0")
        hue = self._select(is_positive, sixth, "0.0")
        is_negative = self._compare("olt", hue, "0.0")
        hue = self._select(is_negative, self._binary("fadd", hue, "1.0"), hue)
        return [hue, saturation, value]

    def _to_rgb(self, hue: str, saturation: str, value: str) -> list[str]:
        six = self._binary("fmul", hue, "6.0")
        from_three, from_two, from_four = (
            self._intrinsic("fabs", self._binary("fsub", six, each))
            for each in ("3.0", "2.0", "4.0")
        )
        ramps = [
            self._binary("fsub", from_three, "1.0"),
            self._binary("fsub", "2.0", from_two),
            self._binary("fsub", "2.0", from_four),
        ]
        rest = self._binary("fsub", "1.0", saturation)
        shares = [self._binary("fmul", saturation, self._clipped(each)) for each in ramps]
        return [self._binary("fmul", self._binary("fadd", rest, each), value) for each in shares]

    def _clipped(self, value: str) -> str:
        return self._intrinsic("minimum", self._intrinsic("maximum", value, "0.0"), "1.0")

    def _binary(self, function: str, a: str, b: str) -> str:
        return self._code.let(f"{function} {self._kind} {a}, {b}")

    def _compare(self, relation: str, a: str, b: str) -> str:
        return self._code.let(f"fcmp {relation} {self._kind} {a}, {b}")

    def _select(self, condition: str, a: str, b: str) -> str:
        return self._code.let(f"select i1 {condition}, {self._kind} {a}, {self._kind} {b}")

    def _intrinsic(self, name: str, *values: str) -> str:
        given = [(self._kind, each) for each in values]
        return self._code.call(self._kind, f"llvm.{name}.{self._suffix}", *given)
