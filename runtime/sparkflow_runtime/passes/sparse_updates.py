"""Passes gradients of rows to updates unsummed: their kernels add up repeated rows.

TensorFlow's optimizers add them up first:

    rows, places = unique(indices)
    total = unsorted_segment_sum(values, places, shape(rows)[0])
    sparse_apply_adagrad(var, accum, lr, total, rows)

Our update kernels do that too (`Op.adds_up_rows`), with a single sort. So the update gets `values`
and `indices` if

- it is one of those ops, by reference or by handle, and `total` and `rows` are its gradient and
  indices;
- `total` has as many rows as `rows`, and no other reader: otherwise it is computed anyway;
- neither has control inputs;
- all of them are on one device: between devices, sums are the smaller message.

The kernel rejects the same indices and shapes as these ops. Both add rows up in order.
"""

from __future__ import annotations

from sparkflow_runtime.ir.effects import without_dead
from sparkflow_runtime.ir.graph import Graph, predecessors
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops import registry


def sparse_updates(graph: Graph) -> Graph:
    """Returns the graph with rows added up by the updates; the same object if there are none.

    Args:
        graph: Placed.
    """
    updates = [node for node in graph if registry.lookup(node.op).adds_up_rows]
    if not updates:
        return graph
    consumers = graph.consumers()
    changed: dict[str, Node] = {}
    for node in updates:
        ((rows_at, ids_at),) = registry.lookup(node.op).row_gradients(node)
        total, rows = graph[node.inputs[rows_at].node], node.inputs[ids_at]
        if not _adds_up(graph, node, total, rows) or consumers[total.name] != [node]:
            continue
        inputs = list(node.inputs)
        inputs[rows_at], inputs[ids_at] = total.inputs[0], graph[rows.node].inputs[0]
        changed[node.name] = Node(
            node.name, node.op, tuple(inputs), node.control_inputs, node.device, node.attrs
        )
    if not changed:
        return graph
    once_read = {name for node in graph for name in predecessors(node)}
    nodes = Graph(changed.get(node.name, node) for node in graph).sorted()
    return Graph(without_dead(nodes, once_read, ()))


def _adds_up(graph: Graph, update: Node, total: Node, rows: Endpoint) -> bool:
    """Whether `total` is the sum of rows with equal indices, and `rows` the distinct ones."""
    unique = graph[rows.node]
    if total.op != "UnsortedSegmentSum" or unique.op != "Unique" or rows.slot != 0:
        return False
    if total.inputs[1] != Endpoint(unique.name, 1) or not _counts(graph, total.inputs[2], rows):
        return False
    if total.control_inputs or unique.control_inputs:
        return False
    return total.device == unique.device == update.device


def _counts(graph: Graph, count: Endpoint, rows: Endpoint) -> bool:
    """Whether a tensor is the number of `rows`, a vector."""
    node = graph[count.node]
    if node.op == "Size":
        return node.inputs[0] == rows
    if node.op != "StridedSlice":
        return False
    shape = graph[node.inputs[0].node]
    if shape.op != "Shape" or shape.inputs[0] != rows:
        return False
    # A vector has one size, so whatever part of its shape is a scalar is that.
    return bool(node.attrs["shrink_axis_mask"] == 1 and not node.attrs["new_axis_mask"])
