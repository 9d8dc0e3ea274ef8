"""The scope that a metric is built in, and the collections it is listed in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sparkflow.eager.mode import executing_eagerly
from sparkflow.graph.scopes import add_to_collections, graph_of
from sparkflow.variables.variable_scope import variable_scope

Pair = tuple[Any, Any]


@contextmanager
def metric_scope(name: str | None, default: str, values: Sequence[Any]) -> Iterator[str]:
    """Opens the metric's scope of variables and names.

    Raises:
        RuntimeError: There is no graph, because operations run at once.
    """
    require_graph(default)
    graph = graph_of(values)
    with graph.as_default(), variable_scope(name, default):
        yield graph.get_name_scope()


def listed(
    value: Any, update: Any, metrics_collections: Any = None, updates_collections: Any = None
) -> Pair:
    """The pair, after each of the two went to the collections named."""
    if metrics_collections:
        add_to_collections(metrics_collections, value)
    if updates_collections:
        add_to_collections(updates_collections, update)
    return value, update


def require_graph(metric: str) -> None:
    """Passes where nodes are added to a graph.

    Raises:
        RuntimeError: Operations run at once.
    """
    if executing_eagerly():
        raise RuntimeError(f"tf.metrics.{metric} is not supported when eager execution is enabled.")
