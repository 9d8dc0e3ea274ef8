"""`tf.profiler.profile` and `Profiler`: tables of where a graph's time and parameters are."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from sparkflow.client.timeline import Timeline
from sparkflow.graph.graph import Graph
from sparkflow.graph.scopes import get_default_graph
from sparkflow.profiler.options import ProfileOptionBuilder
from sparkflow.profiler.statistics import Statistics, node_statistics
from sparkflow.profiler.table import as_text
from sparkflow.profiler.views import by_op_type, by_scope
from sparkflow_runtime.protos.config_pb2 import RunMetadata


class Profiler:
    """Collects recorded steps of one graph and reports their costs.

    Args:
        graph: The graph; the default graph when None.
        op_log: Ignored; floating-point operations are counted from static shapes.
    """

    def __init__(self, graph: Graph | None = None, op_log: Any = None) -> None:
        self._graph = get_default_graph() if graph is None else graph
        self._steps: dict[int, RunMetadata] = {}

    def add_step(self, step: int, run_meta: RunMetadata) -> None:
        """Adds what a run with `trace_level=RunOptions.FULL_TRACE` recorded."""
        kept = RunMetadata()
        kept.CopyFrom(run_meta)
        self._steps[step] = kept

    def profile_operations(self, options: dict[str, Any]) -> Statistics:
        """The figures by op type; `children` are the types, `total_` figures run down the list."""
        return self._profile(options, by_type=True)

    def profile_name_scope(self, options: dict[str, Any]) -> Statistics:
        """The figures by name scope, as a tree."""
        return self._profile(options, by_type=False)

    def _profile(self, options: dict[str, Any], by_type: bool) -> Statistics:
        options = ProfileOptionBuilder(options).build()
        step = options["step"]
        if step >= 0 and step not in self._steps:
            raise ValueError(f"Step {step} was not added; there are {sorted(self._steps)}")
        chosen = {step: self._steps[step]} if step >= 0 else self._steps
        nodes = node_statistics(self._graph, list(chosen.values()), options["account_type_regexes"])
        root = (by_op_type if by_type else by_scope)(nodes, options)
        self._put_out(as_text(root, options, by_type), options["output"], chosen)
        return root

    def _put_out(self, text: str, output: str, steps: dict[int, RunMetadata]) -> None:
        kind, _, path = output.partition(":outfile=")
        if kind == "stdout":
            sys.stdout.write(text)
        elif kind == "file":
            Path(path).write_text(text)
        elif kind == "timeline":
            for step, run in steps.items():
                drawn = Timeline(run.step_stats).generate_chrome_trace_format(show_memory=True)
                Path(f"{path}_{step}").write_text(drawn)


def profile(
    graph: Graph | None = None,
    run_meta: RunMetadata | None = None,
    op_log: Any = None,
    cmd: str = "scope",
    options: dict[str, Any] | None = None,
) -> Statistics:
    """Prints a table of what a graph, and a recorded run of it, cost.

    Args:
        graph: The graph; the default graph when None.
        run_meta: What a run with `trace_level=RunOptions.FULL_TRACE` recorded, for times and bytes.
        op_log: Ignored.
        cmd: `scope` or `graph` for a tree of name scopes, `op` or `code` for op types.
        options: From `ProfileOptionBuilder`.

    Returns:
        The root of what is shown, e.g. with `total_parameters` and `total_float_ops`.

    Raises:
        ValueError: `cmd` is something else.
    """
    if cmd not in ("scope", "graph", "op", "code"):
        raise ValueError(f"cmd must be 'scope', 'graph', 'op' or 'code', got {cmd!r}")
    profiler = Profiler(graph)
    if run_meta is not None:
        profiler.add_step(0, run_meta)
    asked = ProfileOptionBuilder(options).build()
    if cmd in ("op", "code"):
        return profiler.profile_operations(asked)
    return profiler.profile_name_scope(asked)
