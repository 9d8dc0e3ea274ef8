"""Which parts of a partition may go on while another one waits.

An op that may wait (`Op.may_block`) holds up what depends on it. What does not is to go on: it may
be what the op waits for, or fail, which ends the step. So every node has a *class*: the ops that
may wait among those before it, and itself. A node that only computes something waits for the
classes of those that read it, so that it stays beside them, in one kernel with them.

Where of any two classes one contains the other, nodes run in the order of their classes, one after
the other: nothing is then behind an op that it does not depend on. Where not, every class is a
*strand* with a program of its own (`compiler.concurrent`). Tensors that come from another device
say which ops there they are behind, in the attribute `behind` of their `_RecvBundle`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from sparkflow_runtime.dtypes import resource
from sparkflow_runtime.ir.effects import find_handles, find_updates, is_pure
from sparkflow_runtime.ir.function import Function, called
from sparkflow_runtime.ir.graph import predecessors
from sparkflow_runtime.ir.node import ARG, RECEIVE, Endpoint, Node
from sparkflow_runtime.ops import registry

Classes = Mapping[str, frozenset[str]]
"""Per node the names of the ops that may wait and come before it."""


def may_block(functions: Mapping[str, Function]) -> Callable[[Node], bool]:
    """What tells whether a node may wait: itself, or in a function that it calls.

    Args:
        functions: What nodes may call.
    """
    if not functions:
        return lambda node: registry.lookup(node.op).may_block

    slow: dict[str, bool] = {}

    def is_slow(name: str) -> bool:
        function = functions.get(name)
        if name not in slow:
            slow[name] = False  # while it is looked at: it may call itself
            slow[name] = function is not None and any(map(tell, function.body))
        return slow[name]

    def tell(node: Node) -> bool:
        return registry.lookup(node.op).may_block or any(is_slow(name) for name in called(node))

    return tell


def find_classes(
    nodes: Sequence[Node],
    blocks: Callable[[Node], bool],
    before: Callable[[Node], Iterable[str]] = predecessors,
) -> Classes | None:
    """The class of every node; None where no op may wait.

    Args:
        nodes: In an order in which they can run.
        blocks: Whether a node may wait.
        before: The names of the nodes before one.
    """
    least = _least_classes(nodes, blocks, before)
    return None if least is None else _beside_readers(nodes, least)


def found_beside_readers(nodes: Sequence[Node], blocks: Callable[[Node], bool]) -> list[Node]:
    """What could be computed before anything waits, but is computed beside its readers.

    That is without what needs more than arguments, constants and variables.

    Args:
        nodes: In execution order.
        blocks: Whether a node may wait.
    """
    least = _least_classes(nodes, blocks, predecessors)
    if least is None:
        return []
    classes = _beside_readers(nodes, least)
    by_name = {node.name: node for node in nodes}
    found: dict[str, Node] = {}
    is_any = False
    for node in nodes:
        if least[node.name] or node.control_inputs:
            continue
        if is_repeated(node):
            found[node.name] = node
        elif _is_movable(by_name, node) and all(each.node in found for each in node.inputs):
            found[node.name] = node
            is_any |= bool(classes[node.name])
    return list(found.values()) if is_any else []


def _least_classes(
    nodes: Sequence[Node],
    blocks: Callable[[Node], bool],
    before: Callable[[Node], Iterable[str]],
) -> dict[str, frozenset[str]] | None:
    """The classes without regard to readers; None where no op may wait."""
    slow = {node.name for node in nodes if blocks(node)}
    if not slow and not any(node.attrs.get("behind") for node in nodes):
        return None
    least: dict[str, frozenset[str]] = {}
    nothing = frozenset[str]()
    for node in nodes:
        own = nothing.union(*(least.get(name, nothing) for name in before(node)))
        if node.name in slow:
            own |= {node.name}
        if node.op == RECEIVE:
            own |= frozenset(node.attrs.get("behind", ()))
        least[node.name] = own
    return least


def are_ordered(classes: Iterable[frozenset[str]]) -> bool:
    """Whether of any two classes one contains the other."""
    ascending = sorted(set(classes), key=len)
    return all(a < b for a, b in pairwise(ascending))


def in_order_of_classes(nodes: Sequence[Node], classes: Classes) -> list[Node]:
    """The nodes of a partition, those of smaller classes first; where these are not ordered, as is.

    What is received and what is drawn at random stays beside its readers: that it comes early
    helps nobody.

    Args:
        nodes: In execution order.
        classes: At least of these nodes.
    """
    if not are_ordered(classes[node.name] for node in nodes):
        return list(nodes)
    places = {node.name: len(classes[node.name]) for node in nodes}
    first: dict[str, int] = {}  # of those who read a node or wait for it
    for node in reversed(nodes):
        if node.op == RECEIVE or registry.lookup(node.op).draws:
            places[node.name] = max(places[node.name], first.get(node.name, 0))
        own = places[node.name]
        for name in predecessors(node):
            first[name] = min(own, first.get(name, own))
    return sorted(nodes, key=lambda node: places[node.name])


def _beside_readers(nodes: Sequence[Node], least: Classes) -> dict[str, frozenset[str]]:
    """The classes, those of nodes that only compute being what all classes of readers contain.

    They move behind ops of their own device only: while tensors of another one are waited for,
    there is no rehearsal (`resources.turns`).
    """
    by_name = {node.name: node for node in nodes}
    readers: dict[str, list[str]] = {}
    for node in nodes:
        for name in predecessors(node):
            readers.setdefault(name, []).append(node.name)
    updates = find_updates(nodes, find_handles(nodes))
    found = dict(least)
    for node in reversed(nodes):
        using = readers.get(node.name)
        if not using or not (is_repeated(node) or _is_movable(by_name, node)):
            continue
        own = found[using[0]].intersection(*(found[name] for name in using[1:]))
        others = (by_name.get(name) for name in own - least[node.name])
        if any(other is None or other.device != node.device for other in others):
            continue
        # A read stays before the updates of its variable.
        source = _read_from(node)
        if source is None or all(found[name] == own for name in updates.get(source, ())):
            found[node.name] = own
    return found


def is_repeated(node: Node) -> bool:
    """Whether the node only says where something is, or is constant: every strand may have it."""
    if node.inputs or node.control_inputs:
        return False
    if node.op in ("Const", ARG):
        return True
    outputs = registry.lookup(node.op).signature.output_dtypes(node.attrs)
    return bool(outputs) and all(dtype.is_ref or dtype is resource for dtype in outputs)


def _is_movable(nodes: Mapping[str, Node], node: Node) -> bool:
    return is_pure(nodes, node) or (
        _read_from(node) is not None and all(is_repeated(nodes[e.node]) for e in node.inputs)
    )


def _read_from(node: Node) -> Endpoint | None:
    """The reference or handle of which the node is the value."""
    return node.inputs[0] if registry.lookup(node.op).reads_variable else None
