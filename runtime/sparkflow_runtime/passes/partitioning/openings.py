"""Finds remote partitions that need not run until the caller's own has something for them.

A step is run by the partition of the master's own task, in the thread that wants the step, and by
those of other tasks, which the master calls. Most of the latter do one thing before they take a
bundle of the first: they send it variables. If those may be read where they are (`lend`), the
master's task can do that itself (`transport.channel.readings`), and the call may wait until the
bundle is made, and bring it along. So a plain step of training has one exchange with a parameter
server instead of two, and neither end asks for anything.

Nobody can tell the difference. A partition's nodes run one after the other: whatever changes
anything, may wait, or is sent to others, comes after that bundle anyway.
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
"""A call may bring so many, beside what is fed."""


@dataclass(frozen=True, slots=True)
class Opening:
    """How a step begins with a partition of another task, if it can do so in one message.

    Attributes:
        reads: The keys of bundles that the partition sends before it takes anything: variables,
            all of which may be read where they are.
        brings: The key of the bundle that it takes first.
        ends: The key of the bundle with which it ends, which may come with its results; "" where it
            ends with something else.
    """

    reads: tuple[str, ...]
    brings: str
    ends: str = ""


def find_opening(part: Partition, here: Partition) -> Opening | None:
    """The opening of a partition of another task; None where it must be called first.

    Args:
        part: It.
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
    """The key of the bundle for `here` with which a partition ends, a snapshot; "" for none.

    Only results may follow, and the reads that give them: nothing that takes its time. It has a
    tensor: by that the caller sees whether it came.
    """
    for node in reversed(part.nodes):
        if node.op == SEND and node.attrs["destination"] == here.device:
            is_seen = bool(node.inputs) and not node.attrs["lent"]
            return str(node.attrs["key"]) if is_seen else ""
        if node.op != RETVAL and not registry.lookup(node.op).reads_variable:
            return ""
    return ""


def _may_come_later(node: Node) -> bool:
    """Whether it does not matter when a node runs, as far as its inputs are the same then."""
    if node.op in (ARG, RETVAL):
        return True
    op = registry.lookup(node.op)
    return not (has_effects(node) or op.takes_step or op.may_block)


def _comes_first(brings: str, reads: Sequence[str], part: Partition, here: Partition) -> bool:
    """Whether the bundle is what `here` sends first, and takes nothing but `reads` before."""
    for node in here.nodes:
        if node.op == SEND and node.attrs["destination"] == part.device:
            return bool(node.attrs["key"] == brings)
        is_taken = node.op == RECEIVE and node.attrs["source"] == part.device
        if is_taken and node.attrs["key"] not in reads:
            return False
    return False
