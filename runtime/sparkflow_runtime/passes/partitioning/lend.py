"""Marks tensors that a receiver may read in place in the sender's memory.

A bundle usually holds a snapshot of its tensors. The value of a variable that another process on
the host can map need not be copied, if it does not change while the receiver reads. `lend` writes
the indices of such tensors into the attribute `lent` of a bundle's two nodes. This is only a
permission: if memory is not shared, or the tensor is not in it, the bundle is a snapshot.

Partition A holds a variable and sends a read of it to partition C. The tensor is lent if

1. all uses in C of it, and of whatever may share its memory, come in C's order before the first
bundle that C sends to A's task after it received the tensor; nothing may retain it; 2. every update
of the variable in A comes, in A's order, after a bundle from C that C sent after
    it received the tensor. An update before the tensor is sent, which can race with the receiver in
    a loop's next iteration, may also wait for any bundle from C in that iteration;
3.  no other partition of the step updates the variable.

*Why no update of the step is visible.* Partitions run their nodes sequentially, and a receive
returns after its send. Let U be an update of the variable in A. By 2 it comes after some receive in
A whose send in C comes after C received the tensor, so by 1 after all uses in C (rule 1 speaks of
the first of these sends, so it holds for all). If U comes before the tensor is sent, it can race
only with the uses of an earlier iteration: either such a receive of that iteration lies between, or
U has waited for a bundle that C sent in the later iteration, when C's earlier iteration was over.
By 3 there are no other updates in the step.

*Updates by other steps.* An op on A's task that waits for this step, such as a synchronous update
that takes gradients from an accumulator once this step has pushed its own, waits for a bundle from
C to that task, so by 1 for all uses. Others race with the reads, as they do in TensorFlow with
`use_locking=False`, and as they do with the copying of a snapshot.

Nothing is lent from or to a partition whose nodes do not run sequentially.

A compiler may reorder C's nodes, but must not move a use of a lent tensor past a bundle to the task
that lent it (`compiler.fusion.grow.find_variables` treats such a bundle as an update of it).
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from sparkflow_runtime import dtypes
from sparkflow_runtime.device.names import task_of
from sparkflow_runtime.ir.effects import mutates
from sparkflow_runtime.ir.function import Function, called
from sparkflow_runtime.ir.node import RECEIVE, RETVAL, SEND, Endpoint, Node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.passes.partitioning.partition import Partition

_NEVER: Final = 1 << 62

Name = tuple[str, str, str]
"""A variable: its task, container and name."""


def lend(partitions: Sequence[Partition]) -> list[Partition]:
    """Returns the partitions of a step with their bundles' `lent` attributes set."""
    sides = {part.device: _Side(part) for part in partitions}
    owner: dict[Name, _Side | None] = {}  # the partition that changes it; None: several or unknown
    for side in sides.values():
        for name in side.updates:
            owner[name] = None if name in owner else side
        owner.update(dict.fromkeys(side.hidden))
    lent: dict[str, list[int]] = {}
    for side in sides.values():
        for key, place in side.sent_at.items():
            receiver = sides[side.part.nodes[place].attrs["destination"]]
            slots = [
                slot
                for slot, name in _candidates(side, place, receiver)
                if owner.get(name, side) is side
            ]
            if slots and not (side.part.waits or receiver.part.waits):
                lent[key] = slots
    return [_marked(part, lent) for part in partitions] if lent else list(partitions)


def live_results(nodes: Sequence[Node], functions: Mapping[str, Function]) -> list[Node]:
    """Marks results of a partition `live` that may share the memory of variables.

    For results that leave the process at once: the sender reads them once, instead of a copy. A
    partition that changes variables returns copies.
    """
    if not nodes:
        return []
    side = _Side(Partition(nodes[0].device, list(nodes), functions))
    if side.updates or side.hidden:
        return list(nodes)
    return [
        replace(node, attrs={**node.attrs, "live": True})
        if node.op == RETVAL and node.inputs[0] in side.reads
        else node
        for node in nodes
    ]


def _marked(part: Partition, lent: Mapping[str, list[int]]) -> Partition:
    nodes = [
        replace(node, attrs={**node.attrs, "lent": lent[node.attrs["key"]]})
        if node.op in (SEND, RECEIVE) and node.attrs["key"] in lent
        else node
        for node in part.nodes
    ]
    return replace(part, nodes=nodes)


@dataclass(slots=True)
class _Side:
    """A partition, with the facts that the rules need.

    Attributes:
        part: The partition.
        task: Its task.
        reads: The tensors that share the memory of a variable.
        updates: Per variable the positions of nodes that change it, ascending.
        hidden: Variables used in functions, whose every call may change them.
        sends: Per task the positions of the bundles sent there, ascending.
        sent_at, received_at: Positions of bundles by key.
        received_from: Per device the positions and keys of bundles from there, ascending.
    """

    part: Partition
    task: str = ""
    reads: dict[Endpoint, Name] = field(default_factory=dict)
    updates: dict[Name, list[int]] = field(default_factory=dict)
    hidden: set[Name] = field(default_factory=set)
    sends: dict[str, list[int]] = field(default_factory=dict)
    sent_at: dict[str, int] = field(default_factory=dict)
    received_at: dict[str, int] = field(default_factory=dict)
    received_from: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    _used_until: dict[Endpoint, int] | None = None

    def __post_init__(self) -> None:
        self.task = task_of(self.part.device)
        handles: dict[Endpoint, Name] = {}
        for index, node in enumerate(self.part.nodes):
            if node.op == SEND:
                self.sent_at[node.attrs["key"]] = index
                self.sends.setdefault(task_of(node.attrs["destination"]), []).append(index)
            elif node.op == RECEIVE:
                self.received_at[node.attrs["key"]] = index
                bundle = (index, node.attrs["key"])
                self.received_from.setdefault(node.attrs["source"], []).append(bundle)
            elif registry.lookup(node.op).is_variable:
                handles[Endpoint(node.name, 0)] = self._variable(node)
            else:
                self._follow(index, node, handles)
        for function in self.part.functions.values():
            for node in function.body:
                if registry.lookup(node.op).is_variable:
                    self.hidden.add(self._variable(node))

    def _variable(self, node: Node) -> Name:
        shared = node.attrs["shared_name"] or node.name
        return self.task, node.attrs["container"], shared

    def _follow(self, index: int, node: Node, handles: dict[Endpoint, Name]) -> None:
        """Records a node's uses of variables, by reference, handle or value."""
        changes = mutates(node) or any(called(node))
        op = registry.lookup(node.op)
        outputs = op.signature.output_dtypes(node.attrs)
        viewed = op.shared(node, node.inputs) if op.is_view else ()
        for endpoint in node.inputs:
            name = handles.get(endpoint)
            if name is not None and changes:
                self.updates.setdefault(name, []).append(index)
            if name is None:
                name = self.reads.get(endpoint)
            if name is None:
                continue
            for slot, dtype in enumerate(outputs):
                if dtype.is_ref or dtype is dtypes.resource:
                    handles.setdefault(Endpoint(node.name, slot), name)
                elif endpoint in viewed:
                    self.reads.setdefault(Endpoint(node.name, slot), name)

    def used_until(self, endpoint: Endpoint) -> int:
        """Returns the position of the last use of a value that may share memory with a tensor.

        `_NEVER` if something retains it.
        """
        if self._used_until is None:
            self._used_until = _used_until(self.part.nodes)
        return self._used_until.get(endpoint, -1)


def _used_until(nodes: Sequence[Node]) -> dict[Endpoint, int]:
    until: dict[Endpoint, int] = {}
    views: dict[str, int] = {}  # per node, the maximum over its outputs
    for index in range(len(nodes) - 1, -1, -1):
        node = nodes[index]
        op = registry.lookup(node.op)
        shared = op.shared(node, node.inputs)
        for endpoint in node.inputs:
            last = index
            if node.op == RETVAL:
                pass  # what is fetched is a copy
            elif op.may_keep_inputs(node):
                last = _NEVER
            elif endpoint in shared:
                last = max(index, views.get(node.name, -1))
            until[endpoint] = max(until.get(endpoint, -1), last)
            views[endpoint.node] = max(views.get(endpoint.node, -1), last)
    return until


def _candidates(side: _Side, sent: int, receiver: _Side) -> Iterator[tuple[int, Name]]:
    """Returns index and variable of the tensors that rules 1 and 2 allow in a bundle of `side`."""
    send = side.part.nodes[sent]
    reads = [
        (slot, side.reads[each]) for slot, each in enumerate(send.inputs) if each in side.reads
    ]
    if not reads:
        return
    received = receiver.received_at[send.attrs["key"]]
    receive = receiver.part.nodes[received]
    sends = receiver.sends.get(side.task, [])
    after = bisect.bisect_right(sends, received)
    first_sent = sends[after] if after < len(sends) else _NEVER - 1
    replies = side.received_from.get(receiver.part.device, [])
    first_reply = replies[0][0] if replies else _NEVER
    later = (place for place, key in replies if receiver.sent_at[key] > received)
    first_later_reply = next(later, _NEVER)

    def is_guarded(updates: Sequence[int]) -> bool:
        follows = bisect.bisect_right(updates, sent)
        if follows < len(updates) and updates[follows] < first_later_reply:
            return False
        return not follows or first_later_reply < _NEVER or first_reply < updates[0]

    for slot, name in reads:
        used_until = receiver.used_until(Endpoint(receive.name, slot))
        if used_until <= first_sent and is_guarded(side.updates.get(name, [])):
            yield slot, name
