"""The master's passes: from a session's graph and a request to the workers' partitions."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sparkflow_runtime.dtypes import resource
from sparkflow_runtime.ir.function import Function, no_function
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint
from sparkflow_runtime.ir.phases import Phase, Repeated, Watch, graph_pass, run_phases
from sparkflow_runtime.ir.types import Types, infer_types
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import Op
from sparkflow_runtime.passes.clean import CLEANING, Observe, unobserved
from sparkflow_runtime.passes.functions import bodies, reachable, ready_functions
from sparkflow_runtime.passes.partitioning.bundles import Splitting
from sparkflow_runtime.passes.partitioning.partition import Partition, partition
from sparkflow_runtime.passes.place import Placement, place, require_devices
from sparkflow_runtime.passes.prune import prune

_CPU: Final = "/device:CPU:"
VERIFY_VARIABLE: Final = "SPARKFLOW_VERIFY"
"""The environment variable that enables the verification of graphs; empty or 0: off."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Request:
    """What a step is fed and returns; the key of a session's cache."""

    feeds: tuple[Endpoint, ...]
    fetches: tuple[Endpoint, ...]
    targets: tuple[str, ...]


def _functions(
    graph: Graph, raised: Mapping[str, Function], load: Callable[[str], Function]
) -> dict[str, Function]:
    """Returns the functions that the graph or its control flow calls, ready to compile."""
    return ready_functions(graph, lambda name: raised[name] if name in raised else load(name))


def _cut(
    graph: Graph,
    types: Types,
    is_split: Callable[[str, str], bool],
    functions: Mapping[str, Function],
) -> list[Partition]:
    """Returns the partitions, each with the functions that it calls."""
    parts = partition(graph, Splitting(types, is_split), functions)
    if functions:
        for part in parts:
            part.functions = reachable(part.nodes, functions.__getitem__)
    return parts


def _any_op(test: Callable[[Op], bool]) -> Callable[..., bool]:
    """Returns a condition of a pass: whether its input graph has an op of some kind."""

    def when(graph: Graph, *_: object) -> bool:
        types = {node.op for node in graph}
        return any(registry.contains(each) and test(registry.lookup(each)) for each in types)

    return when


def _has_convolutions_to_turn(graph: Graph, *_: object) -> bool:
    """Whether a CPU has a convolution of images with channels first."""
    for node in graph:
        if node.attrs.get("data_format") == "NCHW" and _CPU in node.device:
            images = registry.lookup(node.op).images
            if images is not None and images.is_convolution:
                return True
    return False


def _has_state(graph: Graph, *_: object) -> bool:
    """Whether some tensor is a reference or a handle."""
    for node in graph:
        signature = registry.lookup(node.op).signature
        if (signature.gives_references or signature.gives_handles) and any(
            dtype.is_ref or dtype is resource for dtype in signature.output_dtypes(node.attrs)
        ):
            return True
    return False


def _several_devices(graph: Graph, *_: object) -> bool:
    return len({node.device for node in graph}) > 1


# Passes that few graphs need are imported on demand.


def _raise_control_flow(graph: Graph) -> tuple[Graph, dict[str, Function]]:
    from sparkflow_runtime.passes.raising.raise_control_flow import raise_control_flow

    return raise_control_flow(graph)


def _drop_unread_variables(
    graph: Graph, made: Mapping[str, Function], load: Callable[[str], Function]
) -> tuple[Graph, Mapping[str, Function]]:
    from sparkflow_runtime.passes.unread_variables import drop_unread_variables

    return drop_unread_variables(graph, made, load)


def _late_reads(graph: Graph) -> Graph:
    from sparkflow_runtime.passes.late_reads import late_reads

    return late_reads(graph)


def _late_fetches(graph: Graph, targets: Sequence[str]) -> Graph:
    from sparkflow_runtime.passes.late_fetches import late_fetches

    return late_fetches(graph, targets)


def _channels_last(graph: Graph, types: Types, targets: Sequence[str]) -> Graph:
    from sparkflow_runtime.passes.layout import channels_last

    return channels_last(graph, types, targets)


def _sparse_updates(graph: Graph) -> Graph:
    from sparkflow_runtime.passes.sparse_updates import sparse_updates

    return sparse_updates(graph)


def _direct_lookups(graph: Graph) -> Graph:
    from sparkflow_runtime.passes.direct_lookups import direct_lookups

    return direct_lookups(graph)


def _moving_averages(graph: Graph, types: Types) -> Graph:
    from sparkflow_runtime.passes.moving_averages import moving_averages

    return moving_averages(graph, types)


def _distinct_rows(graph: Graph, types: Types) -> Graph:
    from sparkflow_runtime.passes.distinct_rows import distinct_rows

    return distinct_rows(graph, types)


def _wire_dtypes(graph: Graph, types: Types, whole: Graph) -> Graph:
    from sparkflow_runtime.passes.partitioning.wire_dtypes import wire_dtypes

    return wire_dtypes(graph, types, whole)


def _split_collectives(graph: Graph, types: Types, whole: Graph) -> Graph:
    from sparkflow_runtime.passes.collectives import split_collectives

    return split_collectives(graph, types, whole)


def _lend(partitions: Sequence[Partition]) -> list[Partition]:
    from sparkflow_runtime.passes.partitioning.lend import lend

    return lend(partitions)


GIVEN: Final = (
    *("whole", "feeds", "fetches", "targets", "placement", "load", "is_split"),
    "raised",
)
"""Names of the values before the first pass: the session's graph, the arguments of `optimise`, and
the functions raised from control flow, of which there are none yet."""
PASSES: Final[tuple[Phase | Repeated, ...]] = (
    Phase("prune", prune, ("whole", "feeds", "fetches", "targets"), ("graph",)),
    graph_pass(require_devices, "placement"),
    Phase(
        "raise_control_flow",
        _raise_control_flow,
        ("graph",),
        ("graph", "raised"),
        when=_any_op(lambda op: op.is_frame),
    ),
    Phase(
        "drop_unread_variables",
        _drop_unread_variables,
        ("graph", "raised", "load"),
        ("graph", "raised"),
        when=_any_op(lambda op: op.is_loop),
    ),
    Phase("infer_types", infer_types, ("graph",), ("types",)),
    graph_pass(_late_reads, when=_has_state),
    graph_pass(_late_fetches, "targets", when=_has_state),
    CLEANING,
    Phase("functions", _functions, ("graph", "raised", "load"), ("functions",)),
    Phase("bodies", bodies, ("graph", "functions"), ("bodies",)),
    graph_pass(place, "placement", "whole", "bodies"),
    graph_pass(_channels_last, "types", "targets", when=_has_convolutions_to_turn),
    graph_pass(_sparse_updates, when=_any_op(lambda op: op.adds_up_rows)),
    graph_pass(_direct_lookups, when=_any_op(lambda op: op.reads_rows)),
    graph_pass(_moving_averages, "types", when=_several_devices),
    graph_pass(_distinct_rows, "types", when=_several_devices),
    graph_pass(_wire_dtypes, "types", "whole", when=_several_devices),
    graph_pass(_split_collectives, "types", "whole", when=_any_op(lambda op: op.is_collective)),
    Phase("partition", _cut, ("graph", "types", "is_split", "functions"), ("partitions",)),
    Phase("lend", _lend, ("partitions",), ("partitions",), when=lambda parts: len(parts) > 1),
)


def optimise(
    graph: Graph,
    request: Request,
    placement: Placement,
    load: Callable[[str], Function] = no_function,
    observe: Observe = unobserved,
    is_split: Callable[[str, str], bool] = lambda source, destination: False,
) -> list[Partition]:
    """Runs the master's passes on a graph; returns the partitions for the workers.

    Args:
        graph: The session's graph.
        request: Feeds, fetches and targets.
        placement: Where nodes may go.
        load: Returns the functions that nodes call.
        observe: Called with the graph after every pass that changed it, except the partitioning at
            the end.
        is_split: Whether large gradients are sent early from one device to another.

    Raises:
        OpError: See the passes and `infer_types`.
        InternalError: A pass produced an invalid graph, if `verify_is_wanted`.
    """
    asked = request.feeds, request.fetches, request.targets
    raised: dict[str, Function] = {}
    given = (graph, *asked, placement, load, is_split, raised)
    values: dict[str, Any] = dict(zip(GIVEN, given, strict=True))
    run_phases(PASSES, values, _watching(observe, verify_is_wanted(os.environ)))
    partitions: list[Partition] = values["partitions"]
    return partitions


def verify_is_wanted(environ: Mapping[str, str]) -> bool:
    """Whether an environment enables the verification of graphs after every pass."""
    return environ.get(VERIFY_VARIABLE, "0") not in ("", "0")


def _watching(observe: Observe, verifies: bool) -> Watch:
    def watch(phase: Phase, values: Mapping[str, Any], changed: bool, seconds: float) -> None:
        _log.debug("%s took %.3f ms", phase.name, seconds * 1e3)
        if not changed:
            return
        if phase.gives[0] == "graph":
            observe(phase.name, values["graph"])
        if verifies:
            _verify(phase, values)

    return watch


def _verify(phase: Phase, values: Mapping[str, Any]) -> None:
    """Verifies the result of a phase."""
    from sparkflow_runtime.ir import verify

    if phase.gives[0] == "graph":
        is_placed = "bodies" in values
        verify.verify_graph(values["graph"], phase.name, values.get("types"), is_placed)
    elif phase.gives[0] == "functions":
        verify.verify_functions(values["graph"], values["functions"], phase.name)
    elif phase.gives[0] == "partitions":
        partitions: Sequence[Partition] = values["partitions"]
        verify.verify_partitions(partitions, phase.name, values["types"])
