"""A graph while it is rewritten: what rules may ask, and how they make nodes.

A rule looks at one node, whose inputs have been rewritten already, and says what stands for it:
another node of the same name, a tensor that is there already (one per output where there are
several), or nothing. What a rule looks through must not be waited with: `source` gives no node with
control inputs, `constant` no constant with any. Nor does `source` give a node that reads a
variable: who reads its input instead would read it later.
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
    """The nodes so far. Changed by one sweep only.

    Args:
        names: The nodes of the whole graph before it, by name.
        types: What is known of its tensors; nodes keep their names and so their types.

    Attributes:
        nodes: What has been rewritten, by name, in an order in which it can run.
        references: Names of those with an output that is a reference to a variable.
    """

    def __init__(self, names: Mapping[str, Node], types: Types) -> None:
        self.nodes: dict[str, Node] = {}
        self.references: set[str] = set()
        self._names = names
        self._types = types
        self._readers: Counter[Endpoint] | None = None

    def source(self, endpoint: Endpoint, *ops: str) -> Node | None:
        """The node that makes a tensor, if it is one of these ops and may be looked through."""
        node = self.nodes[endpoint.node]
        if node.op not in ops or node.control_inputs or self.reads_references(node):
            return None
        return node

    def source_where(self, endpoint: Endpoint, is_wanted: Callable[[Op], bool]) -> Node | None:
        """The node that makes a tensor, if its op is wanted and it may be looked through."""
        node = self.nodes[endpoint.node]
        if node.control_inputs or not is_wanted(registry.lookup(node.op)):
            return None
        return None if self.reads_references(node) else node

    def reads_references(self, node: Node) -> bool:
        """Whether a node reads a variable, or takes one to change it."""
        read = (endpoint.node for endpoint in node.inputs)
        return not self.references.isdisjoint(read) and reads_references(self.nodes, node)

    def constant(self, endpoint: Endpoint) -> np.ndarray[Any, Any] | None:
        """The value of a tensor where it is a constant."""
        node = self.nodes[endpoint.node]
        return node.attrs["value"] if node.op == "Const" and not node.control_inputs else None

    def shape(self, endpoint: Endpoint) -> Shape:
        """What is known of a tensor's shape."""
        node = self.nodes.get(endpoint.node)
        if node is not None and node.op == "Const":
            shape: Shape = node.attrs["value"].shape
            return shape
        found = self._types.get(endpoint)
        return None if found is None else found.shape

    def sizes(self, endpoint: Endpoint) -> tuple[int, ...] | None:
        """The shape of a tensor where all of it is known."""
        shape = self.shape(endpoint)
        return None if shape is None or None in shape else shape  # type: ignore[return-value]

    def same_sizes(self, first: Endpoint, second: Endpoint) -> bool:
        """Whether two tensors are known to have the same shape."""
        shape = self.shape(first)
        return shape is not None and None not in shape and shape == self.shape(second)

    def is_read_once(self, endpoint: Endpoint) -> bool:
        """Whether one node alone read a tensor, before anything was rewritten."""
        if self._readers is None:
            self._readers = Counter(each for node in self._names.values() for each in node.inputs)
        return self._readers[endpoint] == 1

    def const(self, node: Node, label: str, value: np.ndarray[Any, Any]) -> Endpoint:
        """A new constant for a rewritten `node` to read, beside it."""
        dtype = dtypes.as_dtype(value.dtype)
        return self.node(node, label, "Const", (), value=value, dtype=dtype)

    def node(
        self, node: Node, label: str, op: str, inputs: tuple[Endpoint, ...], **attrs: Any
    ) -> Endpoint:
        """The first output of a new node for a rewritten `node` to read, beside it."""
        name = f"{node.name}/{label}"
        while name in self._names or name in self.nodes:
            name += "_"
        self.nodes[name] = Node(name, op, inputs, (), node.device, {**_private(node), **attrs})
        return Endpoint(name, 0)


def changed(node: Node, op: str, inputs: Sequence[Endpoint], **attrs: Any) -> Node:
    """The node with another op, inputs and attributes; what begins with `_` stays."""
    return Node(
        node.name, op, tuple(inputs), node.control_inputs, node.device, {**_private(node), **attrs}
    )


def with_inputs(node: Node, *inputs: Endpoint) -> Node:
    """The node with other inputs."""
    return Node(node.name, node.op, inputs, node.control_inputs, node.device, node.attrs)


def waiting_as(node: Node, other: Node) -> Node:
    """The node, waiting also for what the other one waited for, in whose place it is."""
    control = tuple(dict.fromkeys([*node.control_inputs, *other.control_inputs]))
    return Node(node.name, node.op, node.inputs, control, node.device, node.attrs)


def as_constant(node: Node, value: np.ndarray[Any, Any]) -> Node:
    """The constant that stands for a node."""
    return changed(node, "Const", (), value=value, dtype=dtypes.as_dtype(value.dtype))


def _private(node: Node) -> dict[str, Any]:
    return {name: value for name, value in node.attrs.items() if name.startswith("_")}


Result = Node | Endpoint | list[Endpoint] | None
Rule = Callable[[Rewriting, Node], Result]
Rules = Mapping[str, Sequence[Rule]]
"""By op type."""
TraitRules = Sequence[tuple[Callable[[Op], bool], Rule]]
"""For every op without state of which something holds."""
