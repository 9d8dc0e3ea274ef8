"""A graph of nodes by name, with the orders and neighbourhoods passes ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heappop, heappush

from sparkflow_runtime.errors import InvalidArgumentError, NotFoundError
from sparkflow_runtime.ir.node import Endpoint, Node


class Graph:
    """Nodes by name, in insertion order. Passes make new graphs instead of changing one."""

    __slots__ = ("nodes",)

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        self.nodes: dict[str, Node] = {node.name: node for node in nodes}

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes.values())

    def __contains__(self, name: str) -> bool:
        return name in self.nodes

    def __getitem__(self, name: str) -> Node:
        """The node of that name.

        Raises:
            NotFoundError: There is none.
        """
        try:
            return self.nodes[name]
        except KeyError:
            raise NotFoundError(message=f"There is no node {name!r} in the graph") from None

    def consumers(self) -> dict[str, list[Node]]:
        """For every node the nodes that read it or wait for it, each once, in graph order."""
        found: dict[str, list[Node]] = {name: [] for name in self.nodes}
        for node in self:
            for name in dict.fromkeys(predecessors(node)):
                found[name].append(node)
        return found

    def ancestors(self, roots: Iterable[str]) -> set[str]:
        """The roots and everything they depend on."""
        seen: set[str] = set()
        stack = list(roots)
        while stack:
            name = stack.pop()
            if name not in seen:
                seen.add(name)
                stack.extend(predecessors(self[name]))
        return seen

    def sorted(self, priority: Callable[[Node], int] | None = None) -> list[Node]:
        """A topological order: smallest priority first, then graph order, among nodes ready.

        Raises:
            InvalidArgumentError: The graph has a cycle; the text names nodes on it.
            NotFoundError: A node's input does not exist.
        """
        index = {name: i for i, name in enumerate(self.nodes)}
        waiting: dict[str, int] = {}
        users: dict[str, list[str]] = {name: [] for name in self.nodes}
        ready: list[tuple[int, int, str]] = []

        def rank(name: str) -> tuple[int, int, str]:
            return (priority(self.nodes[name]) if priority else 0, index[name], name)

        for node in self:
            needs = set(predecessors(node))
            waiting[node.name] = len(needs)
            for name in needs:
                if name not in users:
                    raise NotFoundError(
                        message=f"Node {node.name!r} reads {name!r}, which is not in the graph"
                    )
                users[name].append(node.name)
            if not needs:
                heappush(ready, rank(node.name))
        order: list[Node] = []
        while ready:
            name = heappop(ready)[2]
            order.append(self.nodes[name])
            for user in users[name]:
                waiting[user] -= 1
                if not waiting[user]:
                    heappush(ready, rank(user))
        if len(order) < len(self.nodes):
            stuck = [name for name, count in waiting.items() if count][:5]
            raise InvalidArgumentError(message=f"The graph has a cycle through {', '.join(stuck)}")
        return order


def predecessors(node: Node) -> Iterator[str]:
    """Names of the nodes that must run before this one; may repeat."""
    for endpoint in node.inputs:
        yield endpoint.node
    yield from node.control_inputs


def rewired(node: Node, replaced: Mapping[Endpoint, Endpoint]) -> Node:
    """The node with inputs exchanged as `replaced` says; the same object when none is."""
    if not any(endpoint in replaced for endpoint in node.inputs):
        return node
    inputs = tuple(replaced.get(endpoint, endpoint) for endpoint in node.inputs)
    return Node(node.name, node.op, inputs, node.control_inputs, node.device, node.attrs)
