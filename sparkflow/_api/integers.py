"""Recognizes which of the values that users pass are integers."""

from __future__ import annotations

import operator
from typing import Any


def as_integer(value: Any) -> int | None:
    """A value as an integer: Python's, numpy's, an array of one; None if it is none.

    Truth values are none, for they are given by mistake, nor are floats that happen to be whole.
    """
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None
