"""Finds the parts of a partition that may continue while another one waits.

An op that may wait (`Op.may_block`) delays the nodes that depend on it. Others must continue: the
op may be waiting for them, or they may fail, which ends the step. So every node has a *class*: the
ops that may wait among its predecessors and itself. A pure node gets the class of its readers, so
that it stays next to them, in one kernel with them.

If, of any two classes, one contains the other, nodes run sequentially, ordered by class: then no
node is ordered after an op on which it does not depend. Otherwise every class is a *strand* with
its own program (`compiler.concurrent`). For tensors from another device, the attribute `behind` of
their `_RecvBundle` names the ops there that may wait before them.
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
"""Per node the names of the preceding ops that may wait."""


def may_block(functions: Mapping[str, Function]) -> Callable[[Node], bool]:
    """Returns a predicate of nodes: whether the node, or a function that it calls, may wait.

    Args:
        functions: The functions that nodes may call.
    """
    if not functions:
        return lambda node: registry.lookup(node.op).may_block

    slow: dict[str, bool] = {}

    def is_slow(name: str) -> bool:
        function = functions.get(name)
        if name not in slow:
            slow[name] = False  # during the analysis: it may call itself
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
    """Returns the class of every node; None if no op may wait.

    Args:
        nodes: In a valid execution order.
        blocks: Whether a node may wait.
        before: Returns the names of a node's predecessors.
    """
    least = _least_classes(nodes, blocks, before)
    return None if least is None else _beside_readers(nodes, least)


def found_beside_readers(nodes: Sequence[Node], blocks: Callable[[Node], bool]) -> list[Node]:
    """Returns nodes that could run before any wait, but are placed next to their readers.

    Excludes nodes that need more than arguments, constants and variables.

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
    """Returns the classes without regard to readers; None if no op may wait."""
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
    """Whether, of any two classes, one contains the other."""
    ascending = sorted(set(classes), key=len)
    return all(a < b for a, b in pairwise(ascending))


def in_order_of_classes(nodes: Sequence[Node], classes: Classes) -> list[Node]:
    """Sorts the nodes of a partition by class; unchanged if the classes are not ordered.

    Receives and random draws stay next to their readers: running them early has no benefit.

    Args:
        nodes: In execution order.
        classes: The classes of these nodes at least.
    """
    if not are_ordered(classes[node.name] for node in nodes):
        return list(nodes)
    places = {node.name: len(classes[node.name]) for node in nodes}
    first: dict[str, int] = {}  # of readers and control successors
    for node in reversed(nodes):
        if node.op == RECEIVE or registry.lookup(node.op).draws:
            places[node.name] = max(places[node.name], first.get(node.name, 0))
        own = places[node.name]
        for name in predecessors(node):
            first[name] = min(own, first.get(name, own))
    return sorted(nodes, key=lambda node: places[node.name])


def _beside_readers(nodes: Sequence[Node], least: Classes) -> dict[str, frozenset[str]]:
    """Returns the classes; for pure nodes the intersection of their readers' classes.

    They are moved only behind ops of their own device: a wait for tensors of another device tries
    nothing out in the meantime (`resources.turns.Rehearsal`).
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
        # A read must stay before the updates of its variable.
        source = _read_from(node)
        if source is None or all(found[name] == own for name in updates.get(source, ())):
            found[node.name] = own
    return found


def is_repeated(node: Node) -> bool:
    """Whether the node only locates something, or is constant: every strand may have it."""
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
    """Returns the reference or handle whose value the node reads."""
    return node.inputs[0] if registry.lookup(node.op).reads_variable else None
