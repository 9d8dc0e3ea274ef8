"""Side effects of nodes: which ones change variables, and which ones passes may drop.

A node is pure if it only computes outputs from the values of its inputs. References and handles
denote variables and other resources; updates pass theirs on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from sparkflow_runtime import dtypes
from sparkflow_runtime.ir.graph import predecessors
from sparkflow_runtime.ir.node import ARG, Endpoint, Node
from sparkflow_runtime.ops import registry


def is_reference(nodes: Mapping[str, Node], endpoint: Endpoint) -> bool:
    """Whether a tensor is a reference to a variable."""
    producer = nodes[endpoint.node]
    signature = registry.lookup(producer.op).signature
    return signature.gives_references and (
        signature.output_dtypes(producer.attrs)[endpoint.slot].is_ref
    )


def reads_references(nodes: Mapping[str, Node], node: Node) -> bool:
    """Whether an input of a node is a reference to a variable."""
    return any(is_reference(nodes, endpoint) for endpoint in node.inputs)


def is_pure(nodes: Mapping[str, Node], node: Node) -> bool:
    """Whether the node only computes outputs from the values of its inputs.

    Reads of variables are not pure: they fail if the variable is uninitialised.
    """
    if not node.inputs:
        return False
    op = registry.lookup(node.op)
    if not op.signature.outputs or op.stateful or op.takes_step:
        return False
    return not reads_references(nodes, node)


def has_effects(node: Node) -> bool:
    """Whether the node's order relative to later nodes matters, not only to its readers.

    Variables and other handles only denote state that others change, and reads change nothing.
    """
    op = registry.lookup(node.op)
    if not op.stateful or op.only_reads or op.is_placeholder or node.op == ARG:
        return False
    if node.inputs or not op.signature.outputs:
        return True
    outputs = op.signature.output_dtypes(node.attrs)
    return not all(dtype.is_ref or dtype is dtypes.resource for dtype in outputs)


def mutates(node: Node) -> bool:
    """Whether the node changes a variable or another resource when it runs."""
    op = registry.lookup(node.op)
    if not op.stateful or op.only_reads:
        return False
    expected = op.signature.input_dtypes(node.attrs)
    return any(d.is_ref or d is dtypes.resource for d in expected)


def without_dead(
    nodes: Sequence[Node], once_read: Iterable[str], keep: Collection[str]
) -> list[Node]:
    """Returns the nodes without pure ones and constants that lost their last reader.

    Args:
        nodes: In a valid execution order.
        once_read: Names of the nodes that had readers or control successors before the pass, and of
            those that the pass created.
        keep: Names of nodes that stay, whether or not they are read.
    """
    by_name = {node.name: node for node in nodes}
    candidates = set(once_read).difference(keep)
    read: set[str] = set()
    kept: list[Node] = []
    for node in reversed(nodes):
        unread = node.name in candidates and node.name not in read
        if unread and (node.op == "Const" or is_pure(by_name, node)):
            continue
        read.update(predecessors(node))
        kept.append(node)
    kept.reverse()
    return kept


def find_handles(nodes: Iterable[Node]) -> dict[Endpoint, Endpoint]:
    """Returns the origin of each reference and handle: updates pass theirs on.

    Args:
        nodes: In a valid execution order.
    """
    owner: dict[Endpoint, Endpoint] = {}
    for node in nodes:
        signature = registry.lookup(node.op).signature
        if not (signature.gives_references or signature.gives_handles):
            continue
        given = next((owner[endpoint] for endpoint in node.inputs if endpoint in owner), None)
        for slot, dtype in enumerate(signature.output_dtypes(node.attrs)):
            if dtype.is_ref or dtype is dtypes.resource:
                here = Endpoint(node.name, slot)
                owner[here] = given or here
    return owner


def find_updates(
    nodes: Iterable[Node], owner: Mapping[Endpoint, Endpoint]
) -> dict[Endpoint, list[str]]:
    """Returns, per variable or other resource, the nodes that may change it.

    Args:
        nodes: Any nodes.
        owner: The result of `find_handles`.
    """
    updates: dict[Endpoint, list[str]] = {}
    for node in nodes:
        op = registry.lookup(node.op)
        if op.only_reads or owner.keys().isdisjoint(node.inputs):
            continue
        expected = op.signature.input_dtypes(node.attrs)
        for endpoint, dtype in zip(node.inputs, expected, strict=True):
            if endpoint in owner and (dtype.is_ref or dtype is dtypes.resource):
                updates.setdefault(owner[endpoint], []).append(node.name)
    return updates
