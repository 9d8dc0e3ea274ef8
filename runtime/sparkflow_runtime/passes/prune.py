"""Keeps what fetches and targets need, and converts feeds and fetches to nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ir.graph import Graph, rewired
from sparkflow_runtime.ir.node import ARG, RETVAL, SOURCE_ATTR, Endpoint, Node
from sparkflow_runtime.ops import registry


def prune(
    graph: Graph,
    feeds: Sequence[Endpoint],
    fetches: Sequence[Endpoint],
    targets: Sequence[str],
) -> Graph:
    """Returns the subgraph that computes `fetches` and runs `targets` when `feeds` are given.

    A fed tensor is replaced by an `_Arg` node on its producer's device; each fetch gets a `_Retval`
    on its producer's device. Their `index` attributes number feeds and fetches in order. Nodes that
    wait for a fed placeholder wait for its `_Arg`; other fed nodes still run for the nodes that
    wait for them.

    Raises:
        InvalidArgumentError: A feed or fetch names an output that its node does not have.
        NotFoundError: It names no node.
    """
    args: list[Node] = []
    results: list[Node] = []
    replaced: dict[Endpoint, Endpoint] = {}
    stand_ins: dict[str, str] = {}
    for index, endpoint in enumerate(feeds):
        producer = graph[endpoint.node]
        dtype = _output_dtypes(producer, endpoint)[endpoint.slot].base
        name = _fresh(graph, f"_arg_{producer.name}_{endpoint.slot}")
        attrs = {"T": dtype, "index": index, "shape": None}
        args.append(Node(name, ARG, device=producer.device, attrs=attrs))
        replaced[endpoint] = Endpoint(name, 0)
        if registry.lookup(producer.op).is_placeholder:
            stand_ins[producer.name] = name
    for index, endpoint in enumerate(fetches):
        producer = graph[endpoint.node]
        dtype = _output_dtypes(producer, endpoint)[endpoint.slot].base
        source = replaced.get(endpoint, endpoint)
        name = _fresh(graph, f"_retval_{index}_{producer.name}_{endpoint.slot}")
        attrs = {"T": dtype, "index": index, "_class": [f"loc:@{source.node}"]}
        attrs[SOURCE_ATTR] = producer.source
        results.append(Node(name, RETVAL, (source,), (), "", attrs))
    roots = [endpoint.node for endpoint in fetches if endpoint not in replaced]
    roots += [name for name in targets if name not in stand_ins]
    kept = _needed(graph, roots, replaced, stand_ins)
    # An unused fed tensor still has its parameter: the caller passes it by position.
    inner = [_fed(node, replaced, stand_ins) for node in graph if node.name in kept]
    return Graph([*args, *inner, *results])


def _needed(
    graph: Graph,
    roots: Iterable[str],
    replaced: Mapping[Endpoint, Endpoint],
    stand_ins: Mapping[str, str],
) -> set[str]:
    """Returns the roots and their dependencies, with feeds in place of the fed tensors."""
    kept: set[str] = set()
    stack = list(roots)
    while stack:
        name = stack.pop()
        if name in kept:
            continue
        kept.add(name)
        node = graph[name]
        stack += [endpoint.node for endpoint in node.inputs if endpoint not in replaced]
        stack += [name for name in node.control_inputs if name not in stand_ins]
    return kept


def _fed(node: Node, replaced: Mapping[Endpoint, Endpoint], stand_ins: Mapping[str, str]) -> Node:
    node = rewired(node, replaced)
    if not stand_ins or stand_ins.keys().isdisjoint(node.control_inputs):
        return node
    control = tuple(dict.fromkeys(stand_ins.get(name, name) for name in node.control_inputs))
    return Node(node.name, node.op, node.inputs, control, node.device, node.attrs)


def _output_dtypes(node: Node, endpoint: Endpoint) -> Sequence[DType]:
    outputs = registry.lookup(node.op).signature.output_dtypes(node.attrs)
    if endpoint.slot >= len(outputs):
        raise InvalidArgumentError(
            message=f"{endpoint} does not exist: node {node.name!r} ({node.op}) "
            f"has {len(outputs)} outputs"
        )
    return outputs


def _fresh(graph: Graph, name: str) -> str:
    while name in graph:
        name += "_"
    return name
