"""A graph of nodes by name, with the orders and neighbourhoods that passes need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush

from sparkflow_runtime.errors import InvalidArgumentError, NotFoundError
from sparkflow_runtime.ir.node import Endpoint, Node


class Graph:
    """Nodes by name, in insertion order. Passes create new graphs instead of changing one."""

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
        """Returns the node of that name.

        Raises:
            NotFoundError: There is none.
        """
        try:
            return self.nodes[name]
        except KeyError:
            raise NotFoundError(message=f"There is no node {name!r} in the graph") from None

    def consumers(self) -> dict[str, list[Node]]:
        """Returns, for every node, its distinct readers and control successors, in graph order."""
        found: dict[str, list[Node]] = {name: [] for name in self.nodes}
        for node in self:
            for name in dict.fromkeys(predecessors(node)):
                found[name].append(node)
        return found

    def ancestors(self, roots: Iterable[str]) -> set[str]:
        """Returns the roots and everything on which they depend."""
        seen: set[str] = set()
        stack = list(roots)
        while stack:
            name = stack.pop()
            if name not in seen:
                seen.add(name)
                node = self[name]
                stack += [endpoint.node for endpoint in node.inputs]
                stack += node.control_inputs
        return seen

    def sorted(self, priority: Callable[[Node], int] | None = None) -> list[Node]:
        """Returns a topological order: among ready nodes by priority, then graph order.

        Raises:
            InvalidArgumentError: The graph has a cycle; the message names nodes on it.
            NotFoundError: A node's input does not exist.
        """
        nodes = list(self.nodes.values())
        ranks = [0] * len(nodes) if priority is None else [priority(node) for node in nodes]
        if _is_sorted(nodes, ranks):
            return nodes
        return [nodes[place] for place in _kahn(nodes, ranks)]


def _is_sorted(nodes: Sequence[Node], ranks: Sequence[int]) -> bool:
    """Whether nodes are already in the order of `Graph.sorted`, as in most graphs."""
    seen: set[str] = set()
    rank = min(ranks, default=0)
    for node, own in zip(nodes, ranks, strict=True):
        if own < rank:
            return False
        rank = own
        for name, _ in node.inputs:
            if name not in seen:
                return False
        if not seen.issuperset(node.control_inputs):
            return False
        seen.add(node.name)
    return True


def _kahn(nodes: Sequence[Node], ranks: Sequence[int]) -> list[int]:
    """Returns the positions of the nodes in topological order, see `Graph.sorted`."""
    count = len(nodes)
    place = {node.name: index for index, node in enumerate(nodes)}
    waiting = [0] * count
    users: list[list[int]] = [[] for _ in nodes]
    # One number per node, so that the heap compares only integers.
    keys = [rank * count + index for index, rank in enumerate(ranks)]
    ready: list[int] = []
    for index, node in enumerate(nodes):
        needs = set(predecessors(node))
        waiting[index] = len(needs)
        for name in needs:
            if name not in place:
                raise NotFoundError(
                    message=f"Node {node.name!r}: Unknown input node {name!r}, not in the graph"
                )
            users[place[name]].append(index)
        if not needs:
            ready.append(keys[index])
    heapify(ready)
    order: list[int] = []
    while ready:
        index = heappop(ready) % count
        order.append(index)
        for user in users[index]:
            waiting[user] -= 1
            if not waiting[user]:
                heappush(ready, keys[user])
    if len(order) < count:
        stuck = [node.name for node, left in zip(nodes, waiting, strict=True) if left][:5]
        raise InvalidArgumentError(message=f"The graph has a cycle through {', '.join(stuck)}")
    return order


def predecessors(node: Node) -> Iterator[str]:
    """Returns the names of the nodes that must run before this one; may repeat."""
    for endpoint in node.inputs:
        yield endpoint.node
    yield from node.control_inputs


def descendants(names: Iterable[str], consumers: Mapping[str, Sequence[Node]]) -> set[str]:
    """Returns every node that runs after one of these.

    Args:
        names: Nodes.
        consumers: What `Graph.consumers` returns.
    """
    found: set[str] = set()
    stack = list(names)
    while stack:
        for node in consumers[stack.pop()]:
            if node.name not in found:
                found.add(node.name)
                stack.append(node.name)
    return found


def rewired(node: Node, replaced: Mapping[Endpoint, Endpoint]) -> Node:
    """Returns the node with inputs replaced by `replaced`; the same object if none is."""
    if not replaced or replaced.keys().isdisjoint(node.inputs):
        return node
    inputs = tuple(replaced.get(endpoint, endpoint) for endpoint in node.inputs)
    return Node(node.name, node.op, inputs, node.control_inputs, node.device, node.attrs)
