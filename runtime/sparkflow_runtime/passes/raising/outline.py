"""Moves nodes of a graph into functions, for the passes that raise control flow."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.ir.function import Function, called
from sparkflow_runtime.ir.graph import Graph, predecessors, rewired
from sparkflow_runtime.ir.node import ARG, RETVAL, Endpoint, Node
from sparkflow_runtime.ops import registry


class Outline:
    """The nodes and functions known so far. Changed only while a graph is raised.

    Args:
        graph: The graph being raised.
        prefix: The prefix of the names of new functions.

    Attributes:
        functions: The functions created, by name.
    """

    def __init__(self, graph: Graph, prefix: str = "_raised") -> None:
        self.functions: dict[str, Function] = {}
        self._prefix = prefix
        self._nodes: dict[str, Node] = dict(graph.nodes)

    def node(
        self,
        name: str,
        op: str,
        inputs: Sequence[Endpoint] = (),
        control: Iterable[str] = (),
        device: str = "",
        attrs: Mapping[str, Any] | None = None,
    ) -> Node:
        """Creates a node; its name is `name`, or a similar unused one."""
        while name in self._nodes:
            name += "_"
        made = Node(name, op, tuple(inputs), tuple(dict.fromkeys(control)), device, attrs or {})
        self._nodes[name] = made
        return made

    def __getitem__(self, name: str) -> Node:
        """Returns the original node of that name."""
        return self._nodes[name]

    def dtype(self, endpoint: Endpoint) -> DType:
        """Returns the dtype of a tensor."""
        node = self._nodes[endpoint.node]
        return registry.lookup(node.op).signature.output_dtypes(node.attrs)[endpoint.slot]

    def argument(self, endpoint: Endpoint, index: int, by_reference: bool) -> Node:
        """Creates an argument that represents a tensor outside."""
        base = self.dtype(endpoint).base
        attrs = {"T": base.ref if by_reference else base, "index": index, "shape": None}
        return self.node(f"_in/{endpoint.node}", ARG, attrs=attrs)

    def result(self, endpoint: Endpoint, index: int, dtype: DType) -> Node:
        """Creates a result."""
        attrs = {"T": dtype, "index": index}
        return self.node(f"_out/{endpoint.node}", RETVAL, (endpoint,), attrs=attrs)

    def add_function(self, label: str, nodes: Sequence[Node]) -> str:
        """Creates a function of nodes, whose last nodes all run; returns its name."""
        read = {name for node in nodes for name in predecessors(node)}
        targets = tuple(n.name for n in nodes if n.name not in read and n.op not in (ARG, RETVAL))
        name = f"{self._prefix}/{label}"
        while name in self.functions:
            name += "_"
        self.functions[name] = Function(name, Graph(nodes), targets)
        return name

    def is_stateful(self, names: Iterable[str]) -> bool:
        """Whether running one of these functions may have effects."""
        return any(self._has_effects(node) for name in names for node in self.functions[name].body)

    def _has_effects(self, node: Node) -> bool:
        if node.op in (ARG, RETVAL):
            return bool(node.attrs["T"].is_ref)
        own = [each for each in called(node) if each in self.functions]
        return registry.lookup(node.op).stateful or self.is_stateful(own)


def read_by_reference(nodes: Iterable[Node]) -> set[Endpoint]:
    """Returns the inputs that a node reads as a variable."""
    found: set[Endpoint] = set()
    for node in nodes:
        expected = registry.lookup(node.op).signature.input_dtypes(node.attrs)
        found.update(e for e, dtype in zip(node.inputs, expected, strict=True) if dtype.is_ref)
    return found


def with_local_control(nodes: Sequence[Node]) -> list[Node]:
    """Returns the nodes with control inputs only among themselves."""
    names = {node.name for node in nodes}
    return [
        replaced(node, control=[n for n in node.control_inputs if n in names]) for node in nodes
    ]


def replaced(
    node: Node, inputs: Mapping[Endpoint, Endpoint] | None = None, control: Iterable[str] = ()
) -> Node:
    """Returns the node with some inputs replaced and these control inputs."""
    made = rewired(node, inputs or {})
    return Node(
        made.name, made.op, made.inputs, tuple(dict.fromkeys(control)), made.device, made.attrs
    )


def common_device(nodes: Collection[Node]) -> str:
    """Returns the device that all nodes with a request share; "" if they differ."""
    asked = {node.device for node in nodes if node.device}
    return asked.pop() if len(asked) == 1 else ""
