"""Creators of variables: `variable_creator_scope`, and a variable's replica attributes."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sparkflow._api import export
from sparkflow.graph.graph import Graph
from sparkflow.graph.scopes import get_default_graph


@export("VariableSynchronization")
class VariableSynchronization(enum.Enum):
    """When the copies of a variable on several devices agree. Accepted; there is one copy here."""

    AUTO = 0
    NONE = 1
    ON_WRITE = 2
    ON_READ = 3


@export("VariableAggregation")
class VariableAggregation(enum.Enum):
    """How updates of the copies of a variable are joined. Accepted; there is one copy here."""

    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3


def checked_modes(
    synchronization: Any, aggregation: Any, name: str | None
) -> tuple[VariableSynchronization, VariableAggregation]:
    """Both as members; None stands for the default.

    Raises:
        ValueError: One is something else.
    """
    try:
        mode = VariableSynchronization(0 if synchronization is None else synchronization)
    except ValueError:
        raise ValueError(
            f"Invalid variable synchronization mode: {synchronization} for variable: {name}"
        ) from None
    try:
        return mode, VariableAggregation(0 if aggregation is None else aggregation)
    except ValueError:
        raise ValueError(
            f"Invalid variable aggregation mode: {aggregation} for variable: {name}"
        ) from None


Creator = Callable[..., Any]
_KEY = ("sparkflow", "variable creators")


@export("variable_creator_scope")
@contextmanager
def variable_creator_scope(variable_creator: Creator) -> Iterator[None]:
    """Lets a function create the variables of the default graph inside the block.

    Args:
        variable_creator: Called as `variable_creator(next_creator, **kwargs)` with the arguments of
            `tf.Variable`; makes the variable by `next_creator(**kwargs)` or otherwise.
    """
    stack = creators(get_default_graph())
    stack.append(variable_creator)
    try:
        yield
    finally:
        stack.remove(variable_creator)


def creators(graph: Graph) -> list[Creator]:
    """The creators of a graph, outermost first."""
    return graph.get_collection_ref(_KEY)
