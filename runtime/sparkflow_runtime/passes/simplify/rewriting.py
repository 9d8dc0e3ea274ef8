"""A graph while it is rewritten: the queries and node constructors for rules.

A rule receives one node, whose inputs have already been rewritten, and returns its replacement:
another node of the same name, an existing tensor (one per output if there are several), or nothing.
Rules must not bypass control inputs: `source` returns no node, and `constant` no constant, that has
any. Nor does `source` return a node that reads a variable: reading its input instead would read it
later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.ir.effects import reads_references
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ir.types import Types
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import Op
from sparkflow_runtime.shapes import Shape


class Rewriting:
    """The nodes so far. Changed only by one sweep.

    Args:
        names: The nodes of the original graph, by name.
        types: What is known of its tensors; nodes keep their names and so their types.

    Attributes:
        nodes: The rewritten nodes, by name, in a valid execution order.
        references: Names of nodes with an output that is a reference to a variable.
    """

    def __init__(self, names: Mapping[str, Node], types: Types) -> None:
        self.nodes: dict[str, Node] = {}
        self.references: set[str] = set()
        self._names = names
        self._types = types
        self._readers: Counter[Endpoint] | None = None

    def source(self, endpoint: Endpoint, *ops: str) -> Node | None:
        """Returns the producer of a tensor, if it is one of these ops and may be bypassed."""
        node = self.nodes[endpoint.node]
        if node.op not in ops or node.control_inputs or self.reads_references(node):
            return None
        return node

    def source_where(self, endpoint: Endpoint, is_wanted: Callable[[Op], bool]) -> Node | None:
        """Returns the producer of a tensor, if its op is wanted and it may be bypassed."""
        node = self.nodes[endpoint.node]
        if node.control_inputs or not is_wanted(registry.lookup(node.op)):
            return None
        return None if self.reads_references(node) else node

    def reads_references(self, node: Node) -> bool:
        """Whether a node reads or changes a variable."""
        read = (endpoint.node for endpoint in node.inputs)
        return not self.references.isdisjoint(read) and reads_references(self.nodes, node)

    def constant(self, endpoint: Endpoint) -> np.ndarray[Any, Any] | None:
        """Returns the value of a tensor if it is a constant."""
        node = self.nodes[endpoint.node]
        return node.attrs["value"] if node.op == "Const" and not node.control_inputs else None

    def shape(self, endpoint: Endpoint) -> Shape:
        """Returns what is known of a tensor's shape."""
        node = self.nodes.get(endpoint.node)
        if node is not None and node.op == "Const":
            shape: Shape = node.attrs["value"].shape
            return shape
        found = self._types.get(endpoint)
        return None if found is None else found.shape

    def sizes(self, endpoint: Endpoint) -> tuple[int, ...] | None:
        """Returns the shape of a tensor if it is fully known."""
        shape = self.shape(endpoint)
        return None if shape is None or None in shape else shape  # type: ignore[return-value]

    def same_sizes(self, first: Endpoint, second: Endpoint) -> bool:
        """Whether two tensors are known to have the same shape."""
        shape = self.shape(first)
        return shape is not None and None not in shape and shape == self.shape(second)

    def is_read_once(self, endpoint: Endpoint) -> bool:
        """Whether exactly one node of the original graph reads a tensor."""
        if self._readers is None:
            self._readers = Counter(each for node in self._names.values() for each in node.inputs)
        return self._readers[endpoint] == 1

    def const(self, node: Node, label: str, value: np.ndarray[Any, Any]) -> Endpoint:
        """Creates a constant for a rewritten `node`, on its device."""
        dtype = dtypes.as_dtype(value.dtype)
        return self.node(node, label, "Const", (), value=value, dtype=dtype)

    def node(
        self, node: Node, label: str, op: str, inputs: tuple[Endpoint, ...], **attrs: Any
    ) -> Endpoint:
        """Creates a node for a rewritten `node`, on its device; returns its first output."""
        name = f"{node.name}/{label}"
        while name in self._names or name in self.nodes:
            name += "_"
        self.nodes[name] = Node(name, op, inputs, (), node.device, {**_private(node), **attrs})
        return Endpoint(name, 0)


def changed(node: Node, op: str, inputs: Sequence[Endpoint], **attrs: Any) -> Node:
    """Returns the node with another op, inputs and attributes; attributes with `_` stay."""
    return Node(
        node.name, op, tuple(inputs), node.control_inputs, node.device, {**_private(node), **attrs}
    )


def with_inputs(node: Node, *inputs: Endpoint) -> Node:
    """Returns the node with other inputs."""
    return Node(node.name, node.op, inputs, node.control_inputs, node.device, node.attrs)


def waiting_as(node: Node, other: Node) -> Node:
    """Returns the node with the control inputs of the one that it replaces added."""
    control = tuple(dict.fromkeys([*node.control_inputs, *other.control_inputs]))
    return Node(node.name, node.op, node.inputs, control, node.device, node.attrs)


def as_constant(node: Node, value: np.ndarray[Any, Any]) -> Node:
    """Returns a constant that replaces a node."""
    return changed(node, "Const", (), value=value, dtype=dtypes.as_dtype(value.dtype))


def _private(node: Node) -> dict[str, Any]:
    return {name: value for name, value in node.attrs.items() if name.startswith("_")}


Result = Node | Endpoint | list[Endpoint] | None
Rule = Callable[[Rewriting, Node], Result]
Rules = Mapping[str, Sequence[Rule]]
"""By op type."""
TraitRules = Sequence[tuple[Callable[[Op], bool], Rule]]
"""For every stateless op with a given property."""
