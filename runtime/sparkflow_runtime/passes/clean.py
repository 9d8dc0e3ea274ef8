"""Runs the passes that reduce a graph, repeatedly until nothing changes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from types import MappingProxyType
from typing import Any, Final

from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.phases import Repeated, graph_pass, run_phases
from sparkflow_runtime.ir.types import Types
from sparkflow_runtime.passes.control_edges import reduce_control_edges
from sparkflow_runtime.passes.fold import fold
from sparkflow_runtime.passes.merge import merge
from sparkflow_runtime.passes.simplify import simplify
from sparkflow_runtime.passes.unread import drop_unread

_NO_TYPES: Final[Types] = MappingProxyType({})

Observe = Callable[[str, Graph], None]
"""Called with the name of a pass and the graph after it."""


def unobserved(name: str, graph: Graph) -> None:
    """Observes nothing."""


CLEANING: Final = Repeated(
    (
        graph_pass(drop_unread, "targets"),
        graph_pass(simplify, "targets", "types"),
        graph_pass(fold, "targets"),
        graph_pass(merge, "targets"),
        graph_pass(reduce_control_edges, "targets"),
    ),
    most=3,
)


def clean(graph: Graph, keep: Collection[str] = (), types: Types = _NO_TYPES) -> Graph:
    """Returns a reduced graph with the same values; the same object if nothing can be reduced.

    Unread nodes are dropped, constants are folded, nodes without effect are removed, and equal ones
    are merged. Remaining nodes keep their names, so errors and traces still name the user's nodes;
    of two equal values, the name of the earlier one is kept. The order of effects is unchanged.

    Args:
        graph: Fetches as `_Retval` nodes. `passes.late_reads` has been applied: reads without
            control inputs are those of the whole step.
        keep: Names of nodes that must stay: the targets of the step.
        types: What `infer_types` knows of the tensors; optional, but known shapes allow much more.
            It stays valid for tensors that stay; it lacks new constants, and `infer_types` may find
            more after a shape has become a constant.
    """
    values: dict[str, Any] = {"graph": graph, "targets": keep, "types": types}
    run_phases((CLEANING,), values)
    cleaned: Graph = values["graph"]
    return cleaned
