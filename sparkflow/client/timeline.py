"""`Timeline`: the steps that FULL_TRACE recorded, as files that chrome://tracing opens."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sparkflow._api import export
from sparkflow.client.chrome_trace import ChromeTrace
from sparkflow_runtime.protos.step_stats_pb2 import NodeExecStats, StepStats

_LABEL = re.compile(r"(?P<name>.*?) = (?P<op>[^()]*)\((?P<inputs>.*)\)", re.DOTALL)


@export("python.client.timeline.AllocationMaximum")
class AllocationMaximum(NamedTuple):
    """The most memory that one allocator gave out at a time.

    Attributes:
        timestamp: When, in microseconds since the epoch.
        num_bytes: How much.
        tensors: The names of the tensors that lived then.
    """

    timestamp: int
    num_bytes: int
    tensors: set[str]


@export("python.client.timeline.StepStatsAnalysis")
class StepStatsAnalysis(NamedTuple):
    """The result of `Timeline.analyze_step_stats`.

    Attributes:
        chrome_trace: The events.
        allocator_maximums: By allocator.
    """

    chrome_trace: ChromeTrace
    allocator_maximums: dict[str, AllocationMaximum]


@dataclass(slots=True)
class _Run:
    """One node's run as it is drawn."""

    stats: NodeExecStats
    op: str
    inputs: list[str]
    pid: int
    lane: int
    readers: list[_Run] = field(default_factory=list)

    @property
    def start(self) -> int:
        return self.stats.all_start_micros

    @property
    def end(self) -> int:
        return self.start + self.stats.all_end_rel_micros


@export("python.client.timeline.Timeline")
class Timeline:
    """Draws recorded steps.

    Args:
        step_stats: `RunMetadata.step_stats` of a run with `trace_level=RunOptions.FULL_TRACE`.
        graph: Ignored; the recorded labels tell inputs.
    """

    def __init__(self, step_stats: StepStats, graph: Any = None) -> None:
        self._step_stats = step_stats

    def generate_chrome_trace_format(
        self, show_dataflow: bool = True, show_memory: bool = False, op_time: str = "schedule"
    ) -> str:
        """The text of a file for chrome://tracing.

        Args:
            show_dataflow: Whether arrows lead from nodes to those that read their outputs.
            show_memory: Whether to draw tensors' lives and the memory they take.
            op_time: `schedule` draws nodes from when they were ready, `all`, and other words, from
                when they began; the same here, as no node waits for a thread.
        """
        return self.analyze_step_stats(show_dataflow, show_memory, op_time).chrome_trace.to_json()

    def analyze_step_stats(
        self, show_dataflow: bool = True, show_memory: bool = True, op_time: str = "schedule"
    ) -> StepStatsAnalysis:
        """The events, and how much memory was in use at most; arguments as above."""
        trace = ChromeTrace()
        runs: dict[str, _Run] = {}
        pids = iter(range(1 << 30))
        every: list[_Run] = []
        for device in self._step_stats.dev_stats:
            pid = next(pids)
            trace.process(f"{device.device} Compute", pid)
            every += _draw(trace, device.node_stats, pid)
        for run in every:
            runs.setdefault(run.stats.node_name, run)
        for run in every:
            for name in dict.fromkeys(run.inputs):
                producer = runs.get(name)
                if producer is not None and producer is not run:
                    producer.readers.append(run)
        if show_dataflow:
            _draw_arrows(trace, every)
        maximums = {}
        for allocator, lives in _lives(every).items() if show_memory else ():
            pid = next(pids)
            trace.process(f"{allocator} Memory", pid)
            maximums[allocator] = _draw_memory(trace, allocator, lives, pid)
        return StepStatsAnalysis(trace, maximums)


def _draw(trace: ChromeTrace, node_stats: Any, pid: int) -> list[_Run]:
    """Nodes of one device; those that overlap in time get lanes of their own."""
    free: list[int] = []
    runs = []
    for stats in sorted(node_stats, key=lambda each: (each.all_start_micros, each.node_name)):
        op, inputs = _parsed(stats)
        start, duration = stats.all_start_micros, stats.all_end_rel_micros
        lane = next((i for i, until in enumerate(free) if until <= start), len(free))
        free[lane : lane + 1] = [start + duration]
        args = {"name": stats.node_name, "op": op}
        args.update((f"input{index}", name) for index, name in enumerate(inputs))
        if not inputs and not _LABEL.fullmatch(stats.timeline_label):
            args["label"] = stats.timeline_label
        trace.region(op, start, duration, pid, lane, args)
        runs.append(_Run(stats, op, inputs, pid, lane))
    return runs


def _parsed(stats: NodeExecStats) -> tuple[str, list[str]]:
    """The op type and the names of the input nodes, from a label `name = Op(a, b:1, ^c)`."""
    match = _LABEL.fullmatch(stats.timeline_label)
    if match is None:
        return stats.node_name, []
    texts = [text.strip() for text in match["inputs"].split(",")]
    return match["op"], [text.lstrip("^").partition(":")[0] for text in texts if text]


def _draw_arrows(trace: ChromeTrace, runs: list[_Run]) -> None:
    number = 0
    for run in runs:
        for reader in run.readers:
            trace.arrow(run.stats.node_name, number, (run.end, run.pid, run.lane), end=False)
            trace.arrow(
                run.stats.node_name, number, (reader.start, reader.pid, reader.lane), end=True
            )
            number += 1


def _lives(runs: list[_Run]) -> dict[str, list[tuple[int, int, int, str, int]]]:
    """By allocator: (begin, end, bytes, node, process) of every output that was recorded."""
    found: dict[str, list[tuple[int, int, int, str, int]]] = {}
    for run in runs:
        end = max([run.end, *(reader.end for reader in run.readers)])
        for output in run.stats.output:
            about = output.tensor_description.allocation_description
            if about.allocated_bytes:
                life = (run.start, end, about.allocated_bytes, run.stats.node_name, run.pid)
                found.setdefault(about.allocator_name, []).append(life)
    return found


def _draw_memory(
    trace: ChromeTrace, allocator: str, lives: list[tuple[int, int, int, str, int]], pid: int
) -> AllocationMaximum:
    changes: list[tuple[int, int, str]] = []
    for number, (begin, end, size, name, _) in enumerate(lives):
        trace.life(name, number, begin, pid, end=False)
        trace.life(name, number, begin, pid, end=False, tensor=name, num_bytes=size)
        trace.life(name, number, end, pid, end=True)
        changes += [(begin, size, name), (end, -size, name)]
    alive: dict[str, int] = {}
    total = 0
    most = AllocationMaximum(0, 0, set())
    for time, size, name in sorted(changes):
        total += size
        alive[name] = alive.get(name, 0) + (1 if size > 0 else -1)
        if total > most.num_bytes:
            most = AllocationMaximum(time, total, {each for each, n in alive.items() if n > 0})
        trace.counter(allocator, time, pid, {allocator: total})
    return most
