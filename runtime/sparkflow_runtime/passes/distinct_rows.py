"""Requests rows of a table on another task once per distinct id, and pushes them once.

A lookup on a parameter server receives ids from a worker and returns rows; the gradient sends the
server a row for each id. Ids that are repeated in a batch would be sent, with their rows, once per
repetition. Here the worker deduplicates them first (`ops.row_travel`):

    distinct, positions = _DistinctRows(ids)            on the worker
    rows = gather(table, distinct)                      on the server, as before
    found = _ExpandRows(rows, positions, ids)           on the worker
    ...
    sums = _SumRows(values, positions, distinct)        on the worker
    sparse_apply_adagrad(var, accum, lr, sums, distinct)

This applies if the ids and the readers of the rows are on one CPU of a task other than the table's,
and rows have at least `LEAST_ROW_BYTES`. Receivers of gradients (`Op.sums_rows`, and `Unique` with
`UnsortedSegmentSum`) also add up rows of equal ids, so results are correct even if the worker does
not deduplicate because few ids are equal.

The rows of one worker are added up in order, as on the server, with bit-identical results. Only ops
that do not add them up before use (`ScatterAdd` and `ScatterSub`, also of rows times a scalar;
accumulators, which weight each row) round sums in another order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from sparkflow_runtime.device.names import DeviceSpec
from sparkflow_runtime.ir.effects import is_reference, without_dead
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ir.types import Types
from sparkflow_runtime.ops import registry

LEAST_ROW_BYTES: Final = 64
"""Shorter rows are cheaper to send than to deduplicate."""


def distinct_rows(graph: Graph, types: Types) -> Graph:
    """Returns the graph with ids deduplicated before sending; the same object if none are.

    Args:
        graph: Placed.
        types: What is known of its tensors, from before any pass.
    """
    work = _Work(graph, types)
    for node in graph:
        if registry.lookup(node.op).looks_up_rows:
            work.pull(node)
    for node in graph:
        for rows_at, ids_at in registry.lookup(node.op).row_gradients(node):
            work.push(node, rows_at, ids_at)
        if node.op == "Unique":
            work.push_sums(node)
    return work.result()


@dataclass(slots=True)
class _Work:
    """The state of the pass.

    Attributes:
        graph, types: As given.
        consumers: The consumers of the graph's nodes.
        added: New nodes by name.
        inputs: Replacements of inputs, by node and input index.
        told_apart: The distinct ids, by the ids.
    """

    graph: Graph
    types: Types
    consumers: dict[str, list[Node]] = field(init=False)
    added: dict[str, Node] = field(default_factory=dict)
    inputs: dict[tuple[str, int], Endpoint] = field(default_factory=dict)
    told_apart: dict[Endpoint, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.consumers = self.graph.consumers()

    def pull(self, node: Node) -> None:
        """Makes a lookup request distinct ids."""
        ids, rows = node.inputs[1], Endpoint(node.name, 0)
        if not self._takes_rows(node) or not self._travels(ids, node):
            return
        home = self.graph[ids.node].device
        readers = [each for each in self.consumers[node.name] if rows in each.inputs]
        if not readers or any(each.device != home for each in readers):
            return
        if not self._is_long(rows, self._rank(ids)):
            return
        distinct = self._distinct(ids)
        attrs = {
            "T": self._dtype(node, rows),
            "Tindices": self.added[distinct].attrs["Tindices"],
        }
        places = (rows, Endpoint(distinct, 1), ids)
        expanded = self._add(f"_expanded/{node.name}", "_ExpandRows", places, home, attrs)
        self.inputs[node.name, 1] = Endpoint(distinct, 0)
        for each in readers:
            for number, endpoint in enumerate(each.inputs):
                if endpoint == rows:
                    self.inputs[each.name, number] = expanded

    def push(self, node: Node, values_at: int, ids_at: int) -> None:
        """Makes a node receive the sums of rows with equal ids."""
        ids, (taker, number) = node.inputs[ids_at], self._before_scaling(node, values_at)
        values = taker.inputs[number]
        if self._worth_pushing(taker, values, ids):
            distinct = self._distinct(ids)
            self.inputs[taker.name, number] = self._sums(values, distinct)
            self.inputs[node.name, ids_at] = Endpoint(distinct, 0)

    def push_sums(self, unique: Node) -> None:
        """Does the same for sums computed on a server for ops that need each id once."""
        ids, places = unique.inputs[0], Endpoint(unique.name, 1)
        sums = [each for each in self.consumers[unique.name] if places in each.inputs]
        if not sums or not all(
            each.op == "UnsortedSegmentSum"
            and each.inputs[1] == places
            and places not in (each.inputs[0], each.inputs[2])
            and self._worth_pushing(each, each.inputs[0], ids)
            for each in sums
        ):
            return
        distinct = self._distinct(ids)
        self.inputs[unique.name, 0] = Endpoint(distinct, 0)
        for each in sums:
            self.inputs[each.name, 0] = self._sums(each.inputs[0], distinct)

    def result(self) -> Graph:
        """Returns the new graph."""
        if not self.added:
            return self.graph
        nodes = [*self.graph, *self.added.values()]
        once_read = {endpoint.node for node in self.graph for endpoint in node.inputs}
        changed = Graph(self._changed(node) for node in nodes).sorted()
        return Graph(without_dead(changed, once_read, ()))

    def _changed(self, node: Node) -> Node:
        inputs = tuple(
            self.inputs.get((node.name, number), endpoint)
            for number, endpoint in enumerate(node.inputs)
        )
        if inputs == node.inputs:
            return node
        return Node(node.name, node.op, inputs, node.control_inputs, node.device, node.attrs)

    # ------------------------------------------------------------------ analysis

    def _takes_rows(self, node: Node) -> bool:
        """Whether a lookup reads whole rows."""
        if node.attrs.get("batch_dims", 0):
            return False
        names = registry.lookup(node.op).signature.input_names(node.attrs)
        if "axis" not in names:
            return True
        axis = self.graph[node.inputs[names.index("axis")].node]
        return axis.op == "Const" and not axis.attrs["value"].any()

    def _travels(self, ids: Endpoint, taker: Node) -> bool:
        """Whether ids come from a CPU of another task, and may be equal."""
        producer = self.graph[ids.node]
        if producer.device == taker.device or (producer.op == "Unique" and not ids.slot):
            return False
        source, target = map(DeviceSpec.from_string, (producer.device, taker.device))
        return source.device_type == "CPU" and source.task_name != target.task_name

    def _worth_pushing(self, taker: Node, values: Endpoint, ids: Endpoint) -> bool:
        home = self.graph[ids.node].device
        return (
            self._travels(ids, taker)
            and self.graph[values.node].device == home
            and self._is_long(values, 1)
        )

    def _before_scaling(self, node: Node, number: int) -> tuple[Node, int]:
        """Returns the first reader of the rows and its input index: the node, or its scaling op."""
        values = node.inputs[number]
        scaled = self.graph[values.node]
        if scaled.op != "Mul" or scaled.device != node.device:
            return node, number
        if self.consumers[scaled.name] != [node]:
            return node, number
        numbers = [place for place, each in enumerate(scaled.inputs) if not self._is_scalar(each)]
        return (scaled, numbers[0]) if len(numbers) == 1 else (node, number)

    def _is_scalar(self, endpoint: Endpoint) -> bool:
        known = self.types.get(endpoint)
        return known is not None and known.shape == ()

    def _is_long(self, rows: Endpoint, rank: int | None) -> bool:
        """Whether rows, after `rank` leading dimensions, are large enough."""
        known = self.types.get(rows)
        if known is None or known.shape is None or rank is None:
            return True
        row = known.shape[rank:]
        if None in row:
            return True
        return math.prod(size or 0 for size in row) * known.dtype.size >= LEAST_ROW_BYTES

    def _rank(self, ids: Endpoint) -> int | None:
        known = self.types.get(ids)
        return None if known is None or known.shape is None else len(known.shape)

    @staticmethod
    def _dtype(node: Node, endpoint: Endpoint) -> object:
        outputs = registry.lookup(node.op).signature.output_dtypes(node.attrs)
        return outputs[endpoint.slot].base

    # ------------------------------------------------------------------ new nodes

    def _distinct(self, ids: Endpoint) -> str:
        """Returns the node that deduplicates these ids, whatever their shape."""
        source = self.graph[ids.node]
        while (given := _same_elements(source, ids)) is not None:
            before = self.graph[given.node]
            if before.device != source.device or is_reference(self.graph.nodes, given):
                break
            ids, source = given, before
        if ids not in self.told_apart:
            attrs = {"Tindices": self._dtype(source, ids)}
            name = f"_distinct/{ids.node}/{ids.slot}"
            made = self._add(name, "_DistinctRows", (ids,), source.device, attrs)
            self.told_apart[ids] = made.node
        return self.told_apart[ids]

    def _sums(self, values: Endpoint, distinct: str) -> Endpoint:
        producer = self.graph[values.node]
        attrs = {
            "T": self._dtype(producer, values),
            "Tindices": self.added[distinct].attrs["Tindices"],
        }
        places = (values, Endpoint(distinct, 1), Endpoint(distinct, 0))
        name = f"_sums/{values.node}/{values.slot}/{distinct}"
        return self._add(name, "_SumRows", places, producer.device, attrs)

    def _add(
        self,
        name: str,
        op: str,
        inputs: tuple[Endpoint, ...],
        device: str,
        attrs: Mapping[str, object],
    ) -> Endpoint:
        if name not in self.added:
            self.added[name] = Node(name, op, inputs, (), device, attrs)
        return Endpoint(name, 0)


def _same_elements(node: Node, endpoint: Endpoint) -> Endpoint | None:
    """Returns the input whose elements an output of the node has, in any shape."""
    op = registry.lookup(node.op)
    if node.control_inputs or not (op.passes_on or op.reshapes):
        return None
    return node.inputs[endpoint.slot if op.passes_on else 0]
