"""Splits a partition after the nodes through which data enter it.

Data from a dataset, a queue or another task have shapes that are known only in the step. The first
stage receives them; the second is everything else, for which these values are arguments like feeds,
so that it can be specialised for their shapes. Bundles of small variables that are sent first, such
as the local step of a synchronous worker, are sent by the first stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sparkflow_runtime import shapes
from sparkflow_runtime.compiler.known import Known, find_known
from sparkflow_runtime.dtypes import resource
from sparkflow_runtime.ir.effects import has_effects
from sparkflow_runtime.ir.function import called
from sparkflow_runtime.ir.node import ARG, NO_WORK, RECEIVE, RETVAL, SEND, Endpoint, Node
from sparkflow_runtime.ops import registry

MOST_COPIED_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Stages:
    """A partition in two parts.

    Attributes:
        entry: Receives the data: a function whose results are the values of `crossing`.
        rest: Everything else, with an argument for each of these after the feeds.
        crossing: The tensors that `entry` passes to `rest`.
    """

    entry: list[Node]
    rest: list[Node]
    crossing: list[Endpoint]


def split(nodes: Sequence[Node], num_args: int) -> Stages | None:
    """Returns the stages of a partition; None if no data enter it, or nothing uses them.

    Args:
        nodes: In execution order.
        num_args: The number of the step's feeds.
    """
    if not any(_may_be_source(node) for node in nodes):
        return None
    known = find_known(nodes, {})
    early: set[str] = set()
    sources: set[str] = set()
    kept: set[str] = set()
    reads: set[str] = set()
    only_early_so_far = True
    has_handed_on = False
    for node in nodes:
        if _is_repeated(node):
            if node.op != ARG and all(name in early for name in node.control_inputs):
                early.add(node.name)
            continue
        waits = (*(endpoint.node for endpoint in node.inputs), *node.control_inputs)
        ready = all(name in early for name in waits)
        is_source = _is_source(node, known)
        # Waiting before everything earlier is sent or enqueued could deadlock.
        in_time = only_early_so_far if node.op == RECEIVE else not has_handed_on
        if ready and in_time and (is_source or _makes_handle(node)):
            early.add(node.name)
            if is_source:
                sources.add(node.name)
            if node.attrs.get("behind"):  # it may wait long; their failure must not wait for it
                kept |= reads
        elif ready and only_early_so_far and _hands_on_what_is_there(node, known):
            early.add(node.name)
            (kept if node.op == SEND else reads).add(node.name)
        else:
            only_early_so_far = False
            has_handed_on |= _hands_on(node)
    if not sources or only_early_so_far:
        return None
    return _divide(nodes, known, early, sources | kept, num_args)


def _is_repeated(node: Node) -> bool:
    """Whether both stages may have the node: it is constant, or locates a variable."""
    if node.op == ARG or node.op in NO_WORK:
        return True
    op = registry.lookup(node.op)
    return op.is_variable and op.signature.gives_references


def _hands_on(node: Node) -> bool:
    """Whether others may wait for its effect or failure: it precedes nodes that wait."""
    op = registry.lookup(node.op)
    if node.op == SEND or op.hands_on(node):
        return True
    return has_effects(node) and not op.draws


def _hands_on_what_is_there(node: Node, known: Mapping[Endpoint, Known]) -> bool:
    """Whether it sends a bundle, or reads a small variable: the first stage copies what it reads.

    Otherwise bundles that arrive after one is sent could not be received in time.
    """
    reads = registry.lookup(node.op).reads_variable
    if not reads or not known[node.inputs[0]].dtype.is_ref:
        return node.op == SEND
    read = known[Endpoint(node.name, 0)]
    count = shapes.num_elements(read.shape)
    return count is not None and count * read.dtype.size <= MOST_COPIED_BYTES


def _may_be_source(node: Node) -> bool:
    op = registry.lookup(node.op)
    return (
        (op.stateful or op.takes_step)
        and node.op != ARG
        and bool(op.signature.outputs)
        and not any(called(node))
        and not any(dtype.is_ref for dtype in op.signature.input_dtypes(node.attrs))
    )


def _is_source(node: Node, known: Mapping[Endpoint, Known]) -> bool:
    """Whether the shapes of its outputs are, or may be, known only in a step."""
    if not _may_be_source(node):
        return False
    if node.op == RECEIVE:  # the first ones, even if their shapes are known
        return True
    count = len(registry.lookup(node.op).signature.output_dtypes(node.attrs))
    return any(
        not shapes.is_fully_defined(known[Endpoint(node.name, slot)].shape) for slot in range(count)
    )


def _makes_handle(node: Node) -> bool:
    """Whether it only locates something."""
    outputs = registry.lookup(node.op).signature.output_dtypes(node.attrs)
    return (
        not node.inputs
        and bool(outputs)
        and all(dtype.is_ref or dtype is resource for dtype in outputs)
    )


def _divide(
    nodes: Sequence[Node],
    known: Mapping[Endpoint, Known],
    early: set[str],
    kept: set[str],
    num_args: int,
) -> Stages:
    needed: set[str] = set(kept)
    entry: list[Node] = []
    for node in reversed(nodes):
        if node.name in needed:
            entry.append(node)
            needed.update(endpoint.node for endpoint in node.inputs)
    entry.reverse()
    again = {node.name for node in entry if _is_repeated(node)}
    moved = {node.name for node in entry} - again
    others = [node for node in nodes if node.name not in moved]
    crossing = list(
        dict.fromkeys(
            endpoint for node in others for endpoint in node.inputs if endpoint.node in moved
        )
    )
    by_name = {node.name: node for node in entry}
    arguments = {
        endpoint: _argument(by_name[endpoint.node], endpoint, known[endpoint], num_args + number)
        for number, endpoint in enumerate(crossing)
    }
    renamed = {endpoint: Endpoint(node.name, 0) for endpoint, node in arguments.items()}
    rest = [*arguments.values(), *(_reading(node, renamed) for node in others)]
    entry += [
        Node(
            f"_entry_{number}",
            RETVAL,
            (endpoint,),
            attrs={"T": known[endpoint].dtype, "index": number},
        )
        for number, endpoint in enumerate(crossing)
    ]
    return Stages(entry, rest, crossing)


def _argument(producer: Node, endpoint: Endpoint, known: Known, index: int) -> Node:
    attrs: dict[str, Any] = {"T": known.dtype, "index": index, "shape": known.shape}
    if endpoint.slot in producer.attrs.get("lent", ()):  # still so: see `fusion.grow`
        attrs |= {"lent": [0], "source": producer.attrs["source"]}
    return Node(f"_entered_{endpoint.node}_{endpoint.slot}", ARG, attrs=attrs)


def _reading(node: Node, renamed: Mapping[Endpoint, Endpoint]) -> Node:
    if not any(endpoint in renamed for endpoint in node.inputs):
        return node
    inputs = tuple(renamed.get(endpoint, endpoint) for endpoint in node.inputs)
    return Node(node.name, node.op, inputs, node.control_inputs, node.device, node.attrs)
