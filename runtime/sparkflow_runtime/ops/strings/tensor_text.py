"""Tensors formatted as in TensorFlow's `Print`, `Assert` and `tf.print`."""

from __future__ import annotations

from typing import Any

import numpy as np

HostArray = np.ndarray[Any, Any]


def all_elements(array: HostArray, limit: int) -> str:
    """The first `limit` elements in brackets per row, `...` where there are more.

    >>> all_elements(np.array([[1, 2], [3, 4]]), 3)
    '[1 2][3...]...'
    """
    if not array.ndim:
        return _element(array[()], quoted=False) if limit > 0 else "..."
    left = [limit]

    def rows(part: HostArray, depth: int) -> str:
        text = ""
        if part.ndim == 1:
            for index, value in enumerate(part):
                if not left[0]:
                    return text + ("..." if depth else "")
                left[0] -= 1
                text += (" " if index else "") + _element(value, quoted=False)
            return text
        for each in part:
            if left[0]:
                text += f"[{rows(each, depth + 1)}]"
        return text

    return rows(array, 0) + ("..." if array.size > limit else "")


def edge_elements(array: HostArray, count: int) -> str:
    """Nested brackets with the first and last `count` entries of every axis; all where -1.

    >>> edge_elements(np.arange(9), 3)
    '[0 1 2 ... 6 7 8]'
    """

    def nested(part: Any, depth: int) -> str:
        if not np.ndim(part):  # of a vector of strings: bytes
            return _element(part[()] if isinstance(part, np.ndarray) else part, quoted=True)
        gap = "\n" * (part.ndim - 1) + " " * (depth + 1) if part.ndim > 1 else " "
        if count == -1 or len(part) <= 2 * count:
            entries = [nested(each, depth + 1) for each in part]
        else:
            ends = [*part[:count], *part[len(part) - count :]]
            entries = [nested(each, depth + 1) for each in ends]
            entries.insert(count, "...")
        return f"[{gap.join(entries)}]"

    if not array.ndim and array.dtype == object:
        return _element(array[()], quoted=True)
    return nested(array, 0)


def _element(value: Any, quoted: bool) -> str:
    if isinstance(value, bytes):
        chars = map(ord, value.decode("utf-8", "surrogateescape"))
        text = "".join(_ESCAPES.get(code) or _character(code) for code in chars)
        return f'"{text}"' if quoted else text
    if isinstance(value, np.bool_):
        return "1" if value else "0"
    if isinstance(value, np.complexfloating):
        return f"({_real(value.real)},{_real(value.imag)})"
    if value.dtype.kind in "iu":
        return str(value)
    return _real(value)


_ESCAPES = {10: "\\n", 13: "\\r", 9: "\\t", 34: '\\"', 39: "\\'", 92: "\\\\"}


def _character(code: int) -> str:
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no UTF-8
        return f"\\{code - 0xDC00:03o}"
    return chr(code) if 32 <= code < 127 or code > 127 else f"\\{code:03o}"


def _real(value: Any) -> str:
    """The number with as few digits as read back give it: 6 or 8 for float32, 15 or 17 else."""
    digits = (15, 17) if value.dtype == np.float64 else (6, 8)
    short = f"{float(value):.{digits[0]}g}"
    return short if value.dtype.type(short) == value else f"{float(value):.{digits[1]}g}"
