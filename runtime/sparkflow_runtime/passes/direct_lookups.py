"""Combines rows of a table by segments without gathering them first.

`tf.nn.embedding_lookup_sparse` gathers each row once, and combines the gathered ones:

    distinct, places = unique(ids)
    rows = gather(table, distinct)
    combined = sparse_segment_sum(rows, places, segments)

The kernel reads single rows wherever they are (`Op.reads_rows`), so it gets the table and `ids`.
The gradient asks for the number of `rows`, which is that of `distinct`. This applies if

- all of these are on one device: otherwise the table would travel instead of its rows;
- nothing else needs the gathered rows;
- each update of the table's variable waits for the combined rows. An update that only waited for
  the gathered ones could change the table before it is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sparkflow_runtime.ir.effects import find_handles, find_updates, is_reference, without_dead
from sparkflow_runtime.ir.graph import Graph, descendants, predecessors
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops import registry

_FIRST: Final = {"begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask"}
"""The attributes of a slice that are 0 where it takes the size of the first dimension."""


def direct_lookups(graph: Graph) -> Graph:
    """Returns the graph with tables combined directly; the same object if none are.

    Args:
        graph: Placed.
    """
    work = _Work(graph)
    for node in graph:
        if registry.lookup(node.op).reads_rows:
            work.visit(node)
    return work.result()


@dataclass(frozen=True, slots=True)
class _Lookup:
    """What a node combines.

    Attributes:
        table: The table.
        ids: Its rows.
        distinct: The distinct ones.
        sizes: Nodes that take the number of gathered rows from their shape.
    """

    table: Endpoint
    ids: Endpoint
    distinct: Endpoint
    sizes: list[Node]


class _Work:
    """The state of the pass."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._consumers = graph.consumers()
        self._changed: dict[str, Node] = {}
        self._added: dict[str, Node] = {}
        self._owner: Mapping[Endpoint, Endpoint] | None = None
        self._updates: Mapping[Endpoint, list[str]] = {}

    def visit(self, node: Node) -> None:
        """Rewrites the node if it combines gathered rows."""
        found = self._lookup(node)
        if found is None:
            return
        index = self._graph[found.distinct.node].attrs["T"]
        self._changed[node.name] = Node(
            node.name,
            node.op,
            (found.table, found.ids, *node.inputs[2:]),
            node.control_inputs,
            node.device,
            {**node.attrs, _index_attr(node): index},
        )
        for size in found.sizes:
            shape = self._graph[size.inputs[0].node]
            name = f"{shape.name}/of_ids"
            attrs = {**shape.attrs, "T": index}
            self._added[name] = Node(name, "Shape", (found.distinct,), (), shape.device, attrs)
            inputs = (Endpoint(name, 0), *size.inputs[1:])
            self._changed[size.name] = Node(
                size.name, size.op, inputs, size.control_inputs, size.device, size.attrs
            )

    def result(self) -> Graph:
        """The new graph."""
        if not self._changed:
            return self._graph
        nodes = [self._changed.get(node.name, node) for node in self._graph]
        once_read = {name for node in self._graph for name in predecessors(node)}
        return Graph(without_dead(Graph([*nodes, *self._added.values()]).sorted(), once_read, ()))

    # ------------------------------------------------------------------ analysis

    def _lookup(self, node: Node) -> _Lookup | None:
        nodes, device = self._graph, node.device
        chain = [node]
        rows = nodes[node.inputs[0].node]
        while registry.lookup(rows.op).passes_on and len(rows.inputs) == 1:
            chain.append(rows)
            rows = nodes[rows.inputs[0].node]
        if not registry.lookup(rows.op).looks_up_rows or not self._takes_whole_rows(rows):
            return None
        table, distinct = rows.inputs[:2]
        unique = nodes[distinct.node]
        if unique.op != "Unique" or distinct.slot or node.inputs[1] != Endpoint(unique.name, 1):
            return None
        ids = unique.inputs[0]
        places = [*chain, rows, unique, nodes[table.node], nodes[ids.node]]
        if any(each.device != device for each in places):
            return None
        if any(each.control_inputs for each in (*chain[1:], rows, unique)):
            return None
        allowed = registry.lookup(node.op).attrs[_index_attr(node)].allowed
        if allowed is not None and unique.attrs["T"] not in allowed:
            return None
        sizes: list[Node] = []
        for each in (*chain[1:], rows):
            for reader in self._consumers[each.name]:
                if reader not in chain and not self._reads_number(reader, each, sizes):
                    return None
        if not self._is_read_before_updates(node, table):
            return None
        return _Lookup(table, ids, distinct, sizes)

    def _takes_whole_rows(self, node: Node) -> bool:
        """Whether a lookup reads a tensor, by its first dimension."""
        table = self._graph[node.inputs[0].node]
        if is_reference(self._graph.nodes, node.inputs[0]) or registry.lookup(table.op).is_variable:
            return False
        names = registry.lookup(node.op).signature.input_names(node.attrs)
        if node.attrs.get("batch_dims", 0) or names[0] != "params":
            return False
        return "axis" not in names or self._constant(node, names.index("axis")) == [0]

    def _reads_number(self, reader: Node, rows: Node, sizes: list[Node]) -> bool:
        """Whether a reader of gathered rows only asks for their number; collects who does."""
        if reader.op != "Shape" or reader.control_inputs or rows.name in reader.control_inputs:
            return False
        for size in self._consumers[reader.name]:
            if size.op != "StridedSlice" or reader.name in size.control_inputs:
                return False
            if [self._constant(size, number) for number in (1, 2, 3)] != [[0], [1], [1]]:
                return False
            if size.attrs["shrink_axis_mask"] != 1 or any(size.attrs[name] for name in _FIRST):
                return False
            sizes.append(size)
        return True

    def _constant(self, node: Node, number: int) -> list[int] | None:
        given = self._graph[node.inputs[number].node]
        if given.op != "Const":
            return None
        found: list[int] = given.attrs["value"].reshape(-1).tolist()
        return found

    def _is_read_before_updates(self, node: Node, table: Endpoint) -> bool:
        if self._owner is None:
            ordered = self._graph.sorted()
            self._owner = find_handles(ordered)
            self._updates = find_updates(ordered, self._owner)
        source = self._graph[table.node]
        while registry.lookup(source.op).passes_on and len(source.inputs) == 1:
            if source.inputs[0] in self._owner:
                break
            source = self._graph[source.inputs[0].node]
        updates = {
            name
            for endpoint in source.inputs
            if endpoint in self._owner
            for name in self._updates.get(self._owner[endpoint], ())
        }
        return not updates or updates <= descendants([node.name], self._consumers)


def _index_attr(node: Node) -> str:
    """The name of the attribute that is the type of the ids."""
    name = registry.lookup(node.op).signature.inputs[1].type_attr
    assert name is not None
    return name
