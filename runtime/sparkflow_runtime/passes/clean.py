"""Runs the passes that reduce a graph, one after another until nothing changes."""

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
    are merged. Nodes that stay keep their names, so errors and traces still name the user's nodes;
    where two values are the same, the name that stays is that of the earlier one. The order of what
    has effects stays as it is.

    Args:
        graph: Fetches as `_Retval` nodes. `passes.late_reads` has been there: which reads are those
            of a whole step it tells by their lack of control inputs.
        keep: Names of nodes that must stay: those the step is asked to run.
        types: What is known of the tensors, from `infer_types`; not needed, but much more is found
            when shapes are known. It stays right for tensors that stay; new constants are not in
            it, and where a shape has become a constant `infer_types` may now find more.
    """
    values: dict[str, Any] = {"graph": graph, "targets": keep, "types": types}
    run_phases((CLEANING,), values)
    cleaned: Graph = values["graph"]
    return cleaned
