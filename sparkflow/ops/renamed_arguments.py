"""TensorFlow's old and new names of one argument."""

from __future__ import annotations

from typing import Any


def either(new_name: str, new: Any, old_name: str, old: Any) -> Any:
    """The value given under one of two names, None when under neither.

    Raises:
        ValueError: Given under both.
    """
    if old is None:
        return new
    if new is not None:
        raise ValueError(f"Cannot specify both {old_name!r} and {new_name!r}.")
    return old
