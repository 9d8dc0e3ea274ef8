"""Conversions between text and bytes, and the kinds of numbers, of `tf.compat`."""

from __future__ import annotations

import datetime
import numbers
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

bytes_or_text_types = (bytes, str)
"""What counts as a string."""
integral_types = (numbers.Integral, np.integer)
"""What counts as an integer."""
real_types = (numbers.Real, np.integer, np.floating)
"""What counts as a real number."""
complex_types = (numbers.Complex, np.number)
"""What counts as a number."""


def as_bytes(bytes_or_text: Any, encoding: str = "utf-8") -> bytes:
    """Bytes as they are, text encoded.

    Raises:
        TypeError: It is neither.
    """
    if isinstance(bytes_or_text, bytearray):
        return bytes(bytes_or_text)
    if isinstance(bytes_or_text, str):
        return bytes_or_text.encode(encoding)
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


def as_text(bytes_or_text: Any, encoding: str = "utf-8") -> str:
    """Text as it is, bytes decoded.

    Raises:
        TypeError: It is neither.
    """
    if isinstance(bytes_or_text, str):
        return bytes_or_text
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text.decode(encoding)
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


as_str = as_text


def as_str_any(value: Any, encoding: str = "utf-8") -> str:
    """Text of anything: bytes decoded, other values as `str` writes them."""
    return as_text(value, encoding) if isinstance(value, bytes) else str(value)


def path_to_str(path: Any) -> Any:
    """The text of a `pathlib.Path` and the like; other values as they are."""
    return as_str_any(path.__fspath__()) if hasattr(path, "__fspath__") else path


def forward_compatible(year: int, month: int, day: int) -> bool:
    """Whether readers older than a date no longer matter: whether that date has passed."""
    return datetime.date.today() > datetime.date(year, month, day)


@contextmanager
def forward_compatibility_horizon(year: int, month: int, day: int) -> Iterator[None]:
    """Accepted: graphs are written in one way whatever the date."""
    datetime.date(year, month, day)
    yield
