"""Choosing between training and inference by a flag that may be a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.graph.constant_value import constant_value
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import convert_to_tensor
from sparkflow.ops.control.cond import cond


def known_flag(flag: Any) -> bool | None:
    """The value of a flag where it is known while the graph is built, else None."""
    if isinstance(flag, Symbolic):
        value = constant_value(convert_to_tensor(flag))
        return None if value is None else bool(value)
    return bool(flag)


def smart_cond(flag: Any, when_true: Callable[[], Any], when_false: Callable[[], Any]) -> Any:
    """The result of one of two functions, chosen now if the flag is known, else in every step."""
    known = known_flag(flag)
    if known is None:
        return cond(flag, when_true, when_false)
    return when_true() if known else when_false()
