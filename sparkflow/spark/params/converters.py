"""Converters of Params: each checks one value, and returns it or raises an error."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from sparkflow._api.integers import as_integer
from sparkflow._api.unknown_names import closest
from sparkflow.spark.endpoints import Ports

FeaturesCol: TypeAlias = str | list[str] | dict[str, str | list[str]]
"""A column, a list of scalar columns, or a dictionary from input name to either."""


def column(value: Any) -> str:
    """Accepts the name of a column."""
    if not isinstance(value, str):
        raise TypeError(f"the name of a column must be a string, got {value!r}")
    if not value:
        raise ValueError("the name of a column is empty")
    return value


def column_or_none(value: Any) -> str:
    """Accepts the name of a column, or "" for none."""
    return value if value == "" else column(value)


def columns(value: Any) -> FeaturesCol:
    """Accepts a column name, a list of them, or a dictionary from input name to either."""
    if isinstance(value, Mapping):
        if not value:
            raise ValueError("a dictionary of inputs needs at least one, got none")
        return {_input_name(name): _one_input(name, given) for name, given in value.items()}
    return _column_or_list(value)


def _input_name(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f"the name of an input must be a string that is not empty, got {value!r}")
    return value


def _one_input(name: str, given: Any) -> str | list[str]:
    try:
        return _column_or_list(given)
    except (TypeError, ValueError) as error:
        raise type(error)(f"input {name!r}: {error}") from None


def _column_or_list(value: Any) -> str | list[str]:
    if isinstance(value, list | tuple):
        names = [column(item) for item in value]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"a list of columns has one or more names, none twice, got {value!r}")
        return names
    return column(value)


def integer(minimum: int) -> Callable[[Any], int]:
    """Returns a converter of integers of at least `minimum`."""

    def convert(value: Any) -> int:
        number = as_integer(value)
        if number is None:
            raise TypeError(f"an integer is needed, got {value!r}")
        if number < minimum:
            raise ValueError(f"must be at least {minimum}, got {number}")
        return number

    return convert


def number(minimum: float, maximum: float = math.inf) -> Callable[[Any], float]:
    """Returns a converter of finite numbers from `minimum` to `maximum`."""

    def convert(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float | np.number):
            raise TypeError(f"a number is needed, got {value!r}")
        found = float(value)
        if not minimum <= found <= maximum or not math.isfinite(found):
            raise ValueError(f"must be between {minimum:g} and {maximum:g}, got {value!r}")
        return found

    return convert


def choice(*allowed: str) -> Callable[[Any], str]:
    """Returns a converter of one of several strings, ignoring case."""
    by_lower = {each.lower(): each for each in allowed}

    def convert(value: Any) -> str:
        found = by_lower.get(value.lower()) if isinstance(value, str) else None
        if found is None:
            close = closest(value, allowed) if isinstance(value, str) else []
            meant = f". Did you mean {' or '.join(map(repr, close))}?" if close else ""
            raise ValueError(f"must be one of {', '.join(allowed)}, got {value!r}{meant}")
        return found

    return convert


def resumption(value: Any) -> str:
    """`auto`, `always` or `never`; True and False stand for the first and the last."""
    if isinstance(value, bool):
        return "auto" if value else "never"
    return choice("auto", "always", "never")(value)


def in_process(value: Any) -> str:
    """`auto`, `always` or `never`; True and False stand for the last two."""
    if isinstance(value, bool):
        return "always" if value else "never"
    return choice("auto", "always", "never")(value)


def auto_or_boolean(value: Any) -> str | bool:
    """`auto`, True or False."""
    return value if isinstance(value, bool) else choice("auto")(value)


def seconds(value: Any) -> float:
    """Accepts a positive number of seconds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"a number of seconds is needed, got {value!r}")
    if not value > 0:
        raise ValueError(f"must be more than 0 seconds, got {value!r}")
    return float(value)


def seconds_or_zero(value: Any) -> float:
    """Accepts a number of seconds, or 0 for none."""
    return 0.0 if not isinstance(value, bool) and value == 0 else seconds(value)


def workers_pair(value: Sequence[Any]) -> tuple[int, int]:
    """Accepts the minimum and the maximum number of workers."""
    try:
        least, most = map(integer(1), value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"numWorkers={value!r}: a pair of numbers (min, max): {error}") from None
    if least > most:
        raise ValueError(f"numWorkers={value!r}: the minimum is larger than the maximum")
    return least, most


def ports(value: Any) -> str:
    """Accepts ports, and returns them as `Ports` formats them."""
    return str(Ports.of(value))


def class_weights(value: Any) -> str | dict[str, float]:
    """Accepts `balanced` or factors by label; labels become strings, as JSON requires."""
    if value == "balanced":
        return "balanced"
    if not isinstance(value, Mapping):
        raise TypeError(f"a dictionary of label to factor or 'balanced' is needed, got {value!r}")
    return {str(label): number(0.0)(factor) for label, factor in value.items()}


def shapes(value: Any) -> dict[str, list[int | None]]:
    """Accepts static shapes by name, [None] for lists of any length."""
    if not isinstance(value, Mapping):
        raise TypeError(f"a dictionary of name to shape is needed, got {value!r}")
    found: dict[str, list[int | None]] = {}
    for name, shape in value.items():
        if isinstance(shape, str) or not isinstance(shape, Sequence):
            raise TypeError(f"a shape is a list of integers, got {shape!r} for {name!r}")
        sizes = [None if size is None else integer(1)(size) for size in shape]
        if None in sizes and sizes != [None]:
            raise ValueError(f"only lists may have any length, written [None], got {shape!r}")
        found[text(name)] = sizes
    return found


def boolean(value: Any) -> bool:
    """Accepts True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"True or False is needed, got {value!r}")
    return value


def text(value: Any) -> str:
    """Accepts any string."""
    if not isinstance(value, str):
        raise TypeError(f"a string is needed, got {value!r}")
    return value


def json_dict(value: Any) -> dict[str, Any]:
    """Accepts a dictionary that JSON can represent."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise TypeError(f"a dictionary with strings as keys is needed, got {value!r}")
    try:
        json.dumps(dict(value))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"the values must be representable in JSON, so that the model can be saved: {error}"
        ) from None
    return dict(value)
