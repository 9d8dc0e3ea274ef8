"""Runs a step according to RunOptions, and returns what it recorded as RunMetadata."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkflow_runtime.errors import OpError
from sparkflow_runtime.ir.function_def import export_program
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.graph_def import export_graph
from sparkflow_runtime.master.cost_graph import cost_graph
from sparkflow_runtime.master.executable import Executable
from sparkflow_runtime.protos.config_pb2 import RunMetadata, RunOptions
from sparkflow_runtime.protos.step_stats_pb2 import DeviceStepStats


def run_with_options(
    executable: Executable,
    args: Sequence[Any],
    options: RunOptions,
    metadata: RunMetadata,
    on_begin: Callable[[Callable[[OpError], None]], object] | None = None,
) -> list[Any]:
    """Runs one step.

    Args:
        executable: The executable to run.
        args: One host array per feed.
        options: `timeout_in_ms`, `trace_level`, `output_partition_graphs` and `output_pass_graphs`
            are used; the session's options determine which steps report their nodes' costs.
        metadata: Filled with what was recorded.
        on_begin: Called with a function that cancels the step.

    Returns:
        One host array or numpy scalar per fetch.

    Raises:
        DeadlineExceededError: The step exceeded its timeout.
        OpError: The first failure of any partition.
    """
    timeout_s = options.timeout_in_ms / 1000 if options.timeout_in_ms > 0 else None
    recorded: list[DeviceStepStats] = []
    traces = options.trace_level != RunOptions.NO_TRACE
    wants_costs = executable.wants_costs()
    record = recorded.append if traces or wants_costs else None
    values = executable.run(args, timeout_s=timeout_s, on_begin=on_begin, record=record)
    if traces:
        metadata.step_stats.dev_stats.extend(sorted(recorded, key=lambda stats: stats.device))
    if wants_costs:
        metadata.cost_graph.CopyFrom(cost_graph(executable.partitions, recorded))
    if options.output_partition_graphs:
        for part in executable.partitions:
            metadata.partition_graphs.append(export_program(part.nodes, part.functions))
    if options.output_pass_graphs:

        def show(name: str, graph: Graph) -> None:
            metadata.pass_graphs.add(name=name, graph=export_graph(graph))

        executable.show_passes(show)
    return values
