"""References and handles of variables and other resources: what they stand for, who changes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sparkflow_runtime.dtypes import resource
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops import registry


def find_handles(nodes: Iterable[Node]) -> dict[Endpoint, Endpoint]:
    """Per reference and handle the one that it was passed on from: updates pass theirs on.

    Args:
        nodes: In an order in which they can run.
    """
    owner: dict[Endpoint, Endpoint] = {}
    for node in nodes:
        signature = registry.lookup(node.op).signature
        if not (signature.gives_references or signature.gives_handles):
            continue
        given = next((owner[endpoint] for endpoint in node.inputs if endpoint in owner), None)
        for slot, dtype in enumerate(signature.output_dtypes(node.attrs)):
            if dtype.is_ref or dtype is resource:
                here = Endpoint(node.name, slot)
                owner[here] = given or here
    return owner


def find_updates(
    nodes: Iterable[Node], owner: Mapping[Endpoint, Endpoint]
) -> dict[Endpoint, list[str]]:
    """Per variable, or other resource, the nodes that may change it.

    Args:
        nodes: Any nodes.
        owner: What `find_handles` found.
    """
    updates: dict[Endpoint, list[str]] = {}
    for node in nodes:
        op = registry.lookup(node.op)
        if op.only_reads or owner.keys().isdisjoint(node.inputs):
            continue
        expected = op.signature.input_dtypes(node.attrs)
        for endpoint, dtype in zip(node.inputs, expected, strict=True):
            if endpoint in owner and (dtype.is_ref or dtype is resource):
                updates.setdefault(owner[endpoint], []).append(node.name)
    return updates
