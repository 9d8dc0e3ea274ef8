"""Converters that only the Params of these estimators need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparkflow.spark.params.converters import column, integer, number


def fraction(value: Any) -> float:
    """Accepts a number of at least 0 and below 1."""
    found = number(0.0, 1.0)(value)
    if found == 1.0:
        raise ValueError("must be below 1, got 1")
    return found


def positive(value: Any) -> float:
    """Accepts a finite number above 0."""
    found = number(0.0)(value)
    if found == 0.0:
        raise ValueError("must be above 0, got 0")
    return found


def share_left(value: Any) -> float:
    """Accepts a number above 0 and at most 1."""
    found = number(0.0, 1.0)(value)
    if found == 0.0:
        raise ValueError("must be above 0, got 0")
    return found


def pieces(value: Any) -> list[list[float]]:
    """Accepts one or more pairs of a fraction and a factor; the fractions must increase."""
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise TypeError(f"a list of pairs [fraction of training, factor] is needed, got {value!r}")
    found = []
    for each in value:
        if isinstance(each, str) or not isinstance(each, Sequence) or len(each) != 2:
            raise TypeError(f"a pair [fraction of training, factor] is needed, got {each!r}")
        found.append([fraction(each[0]), number(0.0)(each[1])])
    shares = [share for share, _ in found]
    if sorted(set(shares)) != shares or not shares[0]:
        raise ValueError(f"fractions of training must be above 0 and increasing, got {shares}")
    return found


def integers(minimum: int) -> Callable[[Any], list[int]]:
    """Returns a converter of lists of one or more integers of at least `minimum`."""

    def convert(value: Any) -> list[int]:
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise TypeError(f"a list of integers is needed, got {value!r}")
        found = [integer(minimum)(each) for each in value]
        if not found:
            raise ValueError("at least one integer is needed, got none")
        return found

    return convert


def class_count(value: Any) -> int:
    """Accepts 0 or an integer of at least 2."""
    found = integer(0)(value)
    if found == 1:
        raise ValueError("must be at least 2, or 0 to take it from the labels, got 1")
    return found


def thresholds(value: Any) -> list[float]:
    """Accepts one number per class, none negative and at most one of them 0; or an empty list."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError(f"a list of numbers, one per class, is needed, got {value!r}")
    found = [number(0.0)(each) for each in value]
    if found.count(0.0) > 1:
        raise ValueError(f"at most one threshold may be 0, got {value!r}")
    if len(found) == 1:
        raise ValueError(f"at least two thresholds are needed, one per class, got {value!r}")
    return found


def column_list(value: Any) -> list[str]:
    """Accepts a list of distinct column names, which may be empty."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError(f"a list of column names is needed, got {value!r}")
    found = [column(each) for each in value]
    if len(set(found)) < len(found):
        raise ValueError(f"a column is named twice in {value!r}")
    return found


def crosses(value: Any) -> list[list[str]]:
    """Accepts a list of lists of two or more columns."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError(f"a list of lists of columns is needed, got {value!r}")
    found = [column_list(each) for each in value]
    for each in found:
        if len(each) < 2:
            raise ValueError(f"a cross needs at least two columns, got {each!r}")
    return found


def integer_by_column(minimum: int) -> Callable[[Any], int | dict[str, int]]:
    """Returns a converter of one integer for all columns, or a dictionary of column to integer."""

    def convert(value: Any) -> int | dict[str, int]:
        if isinstance(value, Mapping):
            return {column(name): integer(minimum)(each) for name, each in value.items()}
        return integer(minimum)(value)

    return convert
