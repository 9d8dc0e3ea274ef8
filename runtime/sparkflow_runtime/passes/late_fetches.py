"""Reads fetched variables after the updates of the same step.

The most common line of distributed TensorFlow 1 programs is

    _, step = session.run([train_op, global_step])

In TensorFlow the fetched tensor shares the variable's memory and is read when the step is over, so
it has the value after the update. So do plain reads of the variable (`v.value()`, `tf.identity(v)`,
`tf.reshape(v, [1])`), and the references that updates return. Here their values are read from the
variable again, after all of its updates.

Values computed from a read are unchanged: they use the value from before the updates
(`late_reads`). So is a read for which an update waits by a control edge:

    with tf.control_dependencies([old]):
        update = tf.assign_add(v, 1)

asks for the old value.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from sparkflow_runtime.dtypes import DType, resource
from sparkflow_runtime.ir.effects import find_handles, find_updates
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import CLASS_ATTR, RETVAL, Endpoint, Node
from sparkflow_runtime.ops import registry


@dataclass(frozen=True, slots=True)
class PlainRead:
    """A tensor that is exactly a variable's value.

    Attributes:
        reference: The reference or handle that is read.
        chain: The nodes from it to the tensor.
    """

    reference: Endpoint
    chain: Sequence[Node]


def plain_read(nodes: Mapping[str, Node], endpoint: Endpoint) -> PlainRead | None:
    """Returns how a tensor is read from a variable; None if it is not a variable's value.

    Args:
        nodes: The graph's nodes, by name.
        endpoint: The tensor.
    """
    chain: list[Node] = []
    made: DType | None = None  # the updated value of the tensor in question
    while True:
        node = nodes[endpoint.node]
        op = registry.lookup(node.op)
        dtype = op.signature.output_dtypes(node.attrs)[endpoint.slot]
        if dtype.is_ref or (dtype is resource and made not in (None, resource)):
            return PlainRead(endpoint, chain[::-1])
        if op.passes_on:
            endpoint = node.inputs[endpoint.slot]
        elif op.reads_variable or op.reshapes:
            endpoint = node.inputs[0]
        else:
            return None
        made = dtype
        chain.append(node)


def late_fetches(graph: Graph, keep: Collection[str] = ()) -> Graph:
    """Returns the graph with updated variables fetched after the updates; else the same object.

    Args:
        graph: The graph of a step, fetches as `_Retval` nodes; not the body of a function.
        keep: Names of nodes that must stay: the targets of the step.
    """
    reads: dict[str, PlainRead] = {}
    for node in graph:
        if node.op == RETVAL:
            read = plain_read(graph.nodes, node.inputs[0])
            if read is not None:
                reads[node.name] = read
    if not reads:
        return graph
    owner = find_handles(graph.sorted())
    updates = find_updates(graph, owner)
    awaited: dict[Endpoint, set[str]] = {}
    changed = dict(graph.nodes)
    late: list[PlainRead] = []
    for name, read in reads.items():
        variable = owner[read.reference]
        if variable not in updates:
            continue
        if variable not in awaited:
            before = graph.ancestors(updates[variable])
            awaited[variable] = {each for n in before for each in graph[n].control_inputs}
        if awaited[variable].isdisjoint(node.name for node in read.chain):
            late.append(read)
            for node in _served_late(graph[name], variable, read.chain, updates[variable]):
                changed[node.name] = node
    return _without_unread(Graph(changed.values()), late, keep) if late else graph


def _served_late(
    fetch: Node, variable: Endpoint, chain: Sequence[Node], updates: Sequence[str]
) -> list[Node]:
    """Returns the fetch, and the new nodes that read it, on the variable's device."""
    waits = tuple(dict.fromkeys([*updates, *(c for node in chain for c in node.control_inputs)]))
    beside = {CLASS_ATTR: [f"loc:@{variable.node}"]}
    made: list[Node] = []
    source = variable
    for node in chain:
        if registry.lookup(node.op).passes_on:
            continue
        source, inputs = (
            Endpoint(f"{fetch.name}/{node.name}", 0),
            (source, *node.inputs[1:]),
        )
        made.append(Node(source.node, node.op, inputs, waits, "", {**node.attrs, **beside}))
    attrs = {**fetch.attrs, **beside}
    return [*made, replace(fetch, inputs=(source,), control_inputs=waits, attrs=attrs)]


def _without_unread(graph: Graph, reads: Collection[PlainRead], keep: Collection[str]) -> Graph:
    """Returns the graph without reads that only those fetches used."""
    chains = {node.name for read in reads for node in read.chain}.difference(keep)
    unread: set[str] = set()
    consumers = graph.consumers()
    for node in reversed(graph.sorted()):
        if node.name in chains and all(each.name in unread for each in consumers[node.name]):
            unread.add(node.name)
    return Graph(node for node in graph if node.name not in unread) if unread else graph
