"""Finds remote partitions that need not run before the caller's partition sends to them.

A step is run by the partition of the master's own task, in the calling thread, and by those of
other tasks, which the master calls. Most of the latter do one thing before they receive a bundle
from the first: they send it variables. If those may be read in place (`lend`), the master's task
can do that itself (`transport.channel.readings`), and the call can be delayed until the bundle
exists, and carry it. So a plain training step has one exchange with a parameter server instead of
two, without any requests for tensors.

The difference is not observable. A partition's nodes run sequentially: whatever changes state, may
wait, or is sent to others, comes after that bundle anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparkflow_runtime.device.names import task_of
from sparkflow_runtime.ir.effects import has_effects
from sparkflow_runtime.ir.node import ARG, RECEIVE, RETVAL, SEND, Node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.passes.partitioning.partition import Partition

MOST_TENSORS = 2048
"""Maximum number of tensors that a call carries in addition to feeds."""


@dataclass(frozen=True, slots=True)
class Opening:
    """How a step starts a partition of another task with one message.

    Attributes:
        reads: The keys of bundles that the partition sends before it receives anything: variables,
            all of which may be read in place.
        brings: The key of the bundle that it receives first.
        ends: The key of the bundle with which it ends, which may be sent with its results; "" if it
            ends with something else.
    """

    reads: tuple[str, ...]
    brings: str
    ends: str = ""


def find_opening(part: Partition, here: Partition) -> Opening | None:
    """Returns the opening of a partition of another task; None if it must be called first.

    Args:
        part: The partition.
        here: The partition that runs in the calling thread.
    """
    if part.waits or here.waits or task_of(part.device) == task_of(here.device):
        return None
    reads: list[str] = []
    for node in part.nodes:
        if node.op == RECEIVE:
            break
        if node.op == SEND:
            if node.attrs["destination"] != here.device or node.inputs == ():
                return None
            if list(node.attrs["lent"]) != list(range(len(node.inputs))):
                return None
            reads.append(node.attrs["key"])
        elif not _may_come_later(node):
            return None
    else:
        return None
    if node.attrs["source"] != here.device or len(node.attrs["T"]) > MOST_TENSORS:
        return None
    brings: str = node.attrs["key"]
    if not _comes_first(brings, reads, part, here):
        return None
    return Opening(tuple(reads), brings, _last_sent(part, here))


def _last_sent(part: Partition, here: Partition) -> str:
    """Returns the key of the snapshot for `here` with which a partition ends; "" for none.

    Only results and their reads may follow, nothing slow. It has a tensor, by which the caller sees
    whether it was sent.
    """
    for node in reversed(part.nodes):
        if node.op == SEND and node.attrs["destination"] == here.device:
            is_seen = bool(node.inputs) and not node.attrs["lent"]
            return str(node.attrs["key"]) if is_seen else ""
        if node.op != RETVAL and not registry.lookup(node.op).reads_variable:
            return ""
    return ""


def _may_come_later(node: Node) -> bool:
    """Whether a node's result depends only on its inputs, not on when it runs."""
    if node.op in (ARG, RETVAL):
        return True
    op = registry.lookup(node.op)
    return not (has_effects(node) or op.takes_step or op.may_block)


def _comes_first(brings: str, reads: Sequence[str], part: Partition, here: Partition) -> bool:
    """Whether `here` sends the bundle first, and receives only `reads` before that."""
    for node in here.nodes:
        if node.op == SEND and node.attrs["destination"] == part.device:
            return bool(node.attrs["key"] == brings)
        is_taken = node.op == RECEIVE and node.attrs["source"] == part.device
        if is_taken and node.attrs["key"] not in reads:
            return False
    return False
