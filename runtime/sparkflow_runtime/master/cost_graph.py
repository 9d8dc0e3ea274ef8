"""The measured cost of a step's nodes, as `RunMetadata.cost_graph`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkflow_runtime.ir.node import RETVAL, SEND

if TYPE_CHECKING:
    from sparkflow_runtime.passes.partitioning.partition import Partition
    from sparkflow_runtime.protos.config_pb2 import GraphOptions
    from sparkflow_runtime.protos.cost_graph_pb2 import CostGraphDef
    from sparkflow_runtime.protos.step_stats_pb2 import DeviceStepStats, NodeExecStats


@dataclass(frozen=True, slots=True)
class CostModel:
    """Which steps report their nodes' costs, according to `GraphOptions`.

    Attributes:
        every: One of this many steps reports them; 0: none.
        after: The number of steps before the first one that may.
    """

    every: int = 0
    after: int = 0

    @classmethod
    def of(cls, options: GraphOptions) -> CostModel:
        """Returns the cost model of a session's options."""
        return cls(max(options.build_cost_model, 0), max(options.build_cost_model_after, 0))

    def wants(self, step: int) -> bool:
        """Whether a step reports costs, given its index, from 0, among those that are recorded."""
        return self.every > 0 and step >= self.after and (step - self.after + 1) % self.every == 0


def cost_graph(
    partitions: Sequence[Partition], recorded: Iterable[DeviceStepStats]
) -> CostGraphDef:
    """Returns the nodes that ran, with the time and the output bytes of each.

    A node that was fused into another one's kernel costs nothing itself.

    Args:
        partitions: The partitions that ran.
        recorded: The recordings of the partitions.
    """
    from sparkflow_runtime.protos.cost_graph_pb2 import CostGraphDef

    stats: dict[tuple[str, str], NodeExecStats] = {}
    for device in recorded:
        for each in device.node_stats:
            stats.setdefault((device.device, each.node_name), each)
    result = CostGraphDef()
    for part in partitions:
        ids = {node.name: len(result.node) + place for place, node in enumerate(part.nodes)}
        for node in part.nodes:
            made = result.node.add(
                name=node.name,
                device=part.device,
                id=ids[node.name],
                is_final=node.op in (RETVAL, SEND),
                control_input=[ids[each] for each in node.control_inputs if each in ids],
            )
            for endpoint in node.inputs:
                made.input_info.add(preceding_node=ids[endpoint.node], preceding_port=endpoint.slot)
            found = stats.get((part.device, node.name))
            if found is None:
                continue
            made.compute_cost = made.compute_time = found.op_end_rel_micros
            made.temporary_memory_size = found.memory_stats.temp_memory_size
            outputs = sorted(found.output, key=lambda output: output.slot)
            for output in outputs:
                described = output.tensor_description
                made.output_info.add(
                    size=described.allocation_description.requested_bytes,
                    alias_input_port=-1,
                    shape=described.shape,
                    dtype=described.dtype,
                )
    return result
