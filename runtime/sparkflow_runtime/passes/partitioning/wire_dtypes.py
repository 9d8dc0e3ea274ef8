"""Sends values of some variables, and their gradients, between tasks in fewer bits.

The attribute `WIRE_ATTR` of a variable names the dtype. Then

- reads of it (the value, rows, slices, in any order) are cast before they are sent to another task,
and cast back there, except for saving;
- so are tensors from another task that are applied to it: the inputs of its updates, and of the ops
on its task that compute them (`Op.tolerates_rounding`), back to the accumulators that combine the
replicas' gradients.

Nothing is cast within a task. The transports are not involved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from sparkflow_runtime import dtypes
from sparkflow_runtime.device.names import DeviceSpec
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ir.types import Types
from sparkflow_runtime.ops import registry

WIRE_ATTR: Final = "_wire_dtype"
"""On the node of a variable: the dtype in which it is sent."""
WIRE_DTYPES: Final = frozenset({dtypes.bfloat16, dtypes.float16})
"""The dtypes in which variables may be sent."""
GRADIENTS_OF: Final = "_gradients_of"
"""On a `GradientRoundsMeet`: the names of the variables, first those with dense gradients."""
NARROWED: Final = frozenset({dtypes.float32, dtypes.float64})
"""The dtypes of variables that may be sent in others."""


def wire_dtypes(graph: Graph, types: Types, whole: Graph) -> Graph:
    """Returns the graph with casts where such values cross tasks; the same object if none do.

    Args:
        graph: Placed.
        types: What is known of its tensors, from before any pass.
        whole: The session's graph: it shows which accumulators' means are applied to a variable in
            other steps, such as a chief's.
    """
    variables = {node.name: node.attrs[WIRE_ATTR] for node in whole if WIRE_ATTR in node.attrs}
    if not variables:
        return graph
    travelling: dict[Endpoint, DType] = {}
    accumulators: dict[str, DType] = {}
    for name, dtype in variables.items():
        owners = frozenset({name})
        if name in graph:
            travelling.update(dict.fromkeys(_read(graph, name), dtype))
        arriving = [*_updated(graph, owners, types), *_met(graph, name)]
        for endpoint in _applied(graph, arriving, types, crossing=True):
            travelling[endpoint] = dtype
        for endpoint in _applied(whole, _updated(whole, owners, types), types, crossing=False):
            taken = whole[endpoint.node]
            if registry.lookup(taken.op).gives_collected:
                accumulators[taken.inputs[0].node] = dtype
    for name, dtype in accumulators.items():
        pushes = [
            each
            for node in graph
            if registry.lookup(node.op).collects_gradients and node.inputs[0].node == name
            for each in _values(graph, node, types)
        ]
        for endpoint in _applied(graph, pushes, types, crossing=True):
            travelling[endpoint] = dtype
    return _cast(graph, travelling)


Edge = tuple[Endpoint, Node]
"""A tensor and its reader."""


def _task(node: Node) -> str:
    return DeviceSpec.from_string(node.device).task_name


def _dtype(graph: Graph, endpoint: Endpoint) -> DType:
    producer = graph[endpoint.node]
    return registry.lookup(producer.op).signature.output_dtypes(producer.attrs)[endpoint.slot]


def _read(graph: Graph, variable: str) -> Iterator[Endpoint]:
    """Returns the tensors on the variable's device that are its values, or parts of them."""
    consumers = graph.consumers()
    device = graph[variable].device
    stack = [Endpoint(variable, 0)]
    seen = set(stack)
    while stack:
        endpoint = stack.pop()
        yield endpoint
        for node in consumers[endpoint.node]:
            found = Endpoint(node.name, 0)
            gives = _gives_values(node) and endpoint in node.inputs and node.device == device
            if gives and found not in seen:
                seen.add(found)
                stack.append(found)


def _gives_values(node: Node) -> bool:
    """Whether the first output consists of elements of the first input, or of its referent."""
    op = registry.lookup(node.op)
    return op.reads_variable or op.reads_parts or op.passes_on or 0 in op.value_rule.moves


def _updated(graph: Graph, variables: frozenset[str], types: Types) -> list[Edge]:
    """Returns the tensors that are applied to these variables."""
    return [
        edge
        for node in graph
        if registry.lookup(node.op).applies_gradients
        and node.inputs
        and node.inputs[0].node in variables
        for edge in _values(graph, node, types)
    ]


def _met(graph: Graph, variable: str) -> Iterator[Edge]:
    """Returns the gradients of a variable where those of replicas are combined."""
    for node in graph:
        names = node.attrs.get(GRADIENTS_OF, ())
        places = registry.lookup(node.op).met_gradients(node) if names else ()
        for place, name in zip(places, names, strict=False):
            if name == variable:
                yield node.inputs[place], node


def _values(graph: Graph, node: Node, types: Types) -> Iterator[Edge]:
    """Returns the numeric inputs of a node that have, or may have, more than one element."""
    for endpoint in node.inputs:
        if _dtype(graph, endpoint) not in NARROWED:
            continue
        known = types.get(endpoint)
        if known is None or known.shape != ():
            yield endpoint, node


def _applied(
    graph: Graph, edges: Iterable[Edge], types: Types, crossing: bool
) -> Iterator[Endpoint]:
    """Returns these tensors, and those from which a task computes them.

    Args:
        graph: The nodes.
        edges: The tensors, with their readers.
        types: What is known of them.
        crossing: Whether to search one task only, and its inputs from others.
    """
    stack = list(edges)
    seen: set[str] = set()
    while stack:
        endpoint, reader = stack.pop()
        producer = graph[endpoint.node]
        away = crossing and _task(producer) != _task(reader)
        if away or not crossing:
            yield endpoint
        op = registry.lookup(producer.op)
        if away or not op.tolerates_rounding or producer.name in seen:
            continue
        seen.add(producer.name)
        signature = op.signature
        held = signature.input_dtypes(producer.attrs)
        for edge in _values(graph, producer, types):
            at = producer.inputs.index(edge[0])
            if not held[at].is_ref:
                stack.append(edge)
        stack.extend(  # additions to a slot arrive through its reference
            (each, producer)
            for each in producer.inputs
            if _dtype(graph, each).is_ref
            and registry.lookup(graph[each.node].op).tolerates_rounding
        )


def _cast(graph: Graph, travelling: Mapping[Endpoint, DType]) -> Graph:
    added: dict[str, Node] = {}
    changed: list[Node] = []
    for node in graph:
        inputs = list(node.inputs)
        op = registry.lookup(node.op)
        expected = op.signature.input_dtypes(node.attrs)
        for place, endpoint in enumerate(node.inputs):
            wire = travelling.get(endpoint)
            if wire is None or op.exact_inputs or expected[place].is_ref:
                continue
            producer = graph[endpoint.node]
            if producer.device == node.device or _task(producer) == _task(node):
                continue
            inputs[place] = _through(graph, added, endpoint, node, wire)
        if tuple(inputs) != node.inputs:
            node = Node(
                node.name, node.op, tuple(inputs), node.control_inputs, node.device, node.attrs
            )
        changed.append(node)
    return Graph(Graph([*changed, *added.values()]).sorted()) if added else graph


def _through(
    graph: Graph, added: dict[str, Node], endpoint: Endpoint, reader: Node, wire: DType
) -> Endpoint:
    """Returns the tensor as received on the reader's device."""
    producer = graph[endpoint.node]
    kind = _dtype(graph, endpoint)
    # A variable read on another device is read when its reader runs.
    after = reader.control_inputs if kind.is_ref else ()
    number = f"/{reader.name}" if after else ""
    sent = f"_wire/{endpoint.node}/{endpoint.slot}{number}"
    attrs = {"SrcT": kind.base, "DstT": wire, "Truncate": False}
    added.setdefault(sent, Node(sent, "Cast", (endpoint,), after, producer.device, attrs))
    arrived = sent + reader.device.replace(":", "_")
    back = {"SrcT": wire, "DstT": kind.base, "Truncate": False}
    made = Node(arrived, "Cast", (Endpoint(sent, 0),), (), reader.device, back)
    added.setdefault(arrived, made)
    return Endpoint(arrived, 0)
