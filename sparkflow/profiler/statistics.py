"""What is counted of a graph and its recorded runs, node by node, and sums over groups of nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from sparkflow.graph.collections import GraphKeys
from sparkflow.profiler.float_operations import float_operations
from sparkflow_runtime.ops import registry
from sparkflow_runtime.protos.config_pb2 import RunMetadata

_NUMBERS = (
    "exec_micros",
    "accelerator_exec_micros",
    "cpu_exec_micros",
    "requested_bytes",
    "parameters",
    "float_ops",
    "run_count",
    "definition_count",
)


@dataclass(slots=True)
class Statistics:
    """Figures of a node or of a group of them.

    Attributes:
        name: Of the node, scope or op type.
        exec_micros: How long it ran.
        accelerator_exec_micros: How long on GPUs.
        cpu_exec_micros: How long on CPUs.
        requested_bytes: Memory of its outputs.
        parameters: Elements of variables.
        float_ops: Floating-point operations.
        run_count: How often it ran.
        definition_count: How many nodes it is.
        devices: Where it ran, or is pinned to.
        op_types: Its op types.
        shape: Of a variable, "" else.
        total_exec_micros: `exec_micros` with all below, as the other `total_` figures.
        total_accelerator_exec_micros: See above.
        total_cpu_exec_micros: See above.
        total_requested_bytes: See above.
        total_parameters: See above.
        total_float_ops: See above.
        total_run_count: See above.
        total_definition_count: See above.
        children: What is below it, in the order shown.
    """

    name: str
    exec_micros: int = 0
    accelerator_exec_micros: int = 0
    cpu_exec_micros: int = 0
    requested_bytes: int = 0
    parameters: int = 0
    float_ops: int = 0
    run_count: int = 0
    definition_count: int = 0
    devices: list[str] = field(default_factory=list)
    op_types: list[str] = field(default_factory=list)
    shape: str = ""
    total_exec_micros: int = 0
    total_accelerator_exec_micros: int = 0
    total_cpu_exec_micros: int = 0
    total_requested_bytes: int = 0
    total_parameters: int = 0
    total_float_ops: int = 0
    total_run_count: int = 0
    total_definition_count: int = 0
    children: list[Statistics] = field(default_factory=list)

    @property
    def peak_bytes(self) -> int:
        """The same as `requested_bytes`."""
        return self.requested_bytes

    def add(self, other: Statistics) -> None:
        """Counts another node into this group."""
        for name in _NUMBERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for own, theirs in ((self.devices, other.devices), (self.op_types, other.op_types)):
            own.extend(each for each in theirs if each not in own)

    def set_totals(self, below: Iterable[Statistics]) -> None:
        """Sets the `total_` figures to its own plus the totals of `below`."""
        below = list(below)
        for name in _NUMBERS:
            total = getattr(self, name) + sum(getattr(each, f"total_{name}") for each in below)
            setattr(self, f"total_{name}", total)


def node_statistics(
    graph: Any, runs: Sequence[RunMetadata], types: Sequence[str]
) -> list[Statistics]:
    """The figures of every node that counts.

    Args:
        graph: The graph.
        runs: Recorded runs, over which times are averaged.
        types: Regular expressions; a node counts whose op type, device, or `_trainable_variables`
            for a trainable variable, one of them matches as a whole.
    """
    patterns = [re.compile(each) for each in types]
    trainable = {v.op.name for v in graph.get_collection(GraphKeys.TRAINABLE_VARIABLES)}
    recorded = _recorded(runs)
    found = []
    for op in graph.get_operations():
        kinds = [op.type, op.device, *(["_trainable_variables"] if op.name in trainable else [])]
        node = recorded.get(op.name, Statistics(op.name))
        if not any(p.fullmatch(kind) for p in patterns for kind in [*kinds, *node.devices]):
            continue
        node.definition_count = 1
        node.op_types = kinds[:1] + kinds[2:]
        if not node.devices and op.device:
            node.devices = [op.device]
        node.float_ops = float_operations(op)
        if registry.find(op.type).is_variable:
            _count_parameters(node, op)
        found.append(node)
    return found


def _count_parameters(node: Statistics, op: Any) -> None:
    sizes = op.attr("shape")
    if sizes is not None and None not in sizes:
        node.parameters = prod(sizes)
        node.shape = "x".join(map(str, sizes))


def _recorded(runs: Sequence[RunMetadata]) -> Mapping[str, Statistics]:
    found: dict[str, Statistics] = {}
    for run in runs:
        for device in run.step_stats.dev_stats:
            on_gpu = "/device:GPU" in device.device
            for stats in device.node_stats:
                node = found.setdefault(stats.node_name, Statistics(stats.node_name))
                micros = stats.op_end_rel_micros
                node.run_count += 1
                node.exec_micros += micros
                node.accelerator_exec_micros += micros if on_gpu else 0
                node.cpu_exec_micros += 0 if on_gpu else micros
                node.requested_bytes += sum(each.total_bytes for each in stats.memory)
                if device.device not in node.devices:
                    node.devices.append(device.device)
    for node in found.values():
        for name in ("exec_micros", "accelerator_exec_micros", "cpu_exec_micros"):
            setattr(node, name, getattr(node, name) // len(runs))
        node.requested_bytes //= len(runs)
    return found
