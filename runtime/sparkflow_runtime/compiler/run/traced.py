"""Runs a partition and records every node's time and outputs, for FULL_TRACE.

The partition is compiled a second time, with a timing wrapper around each kernel. The program that
runs without a trace contains none of this.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Final

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.compiler.program import Program, compile_partition
from sparkflow_runtime.ir.function import Function
from sparkflow_runtime.ir.node import NO_WORK, RECEIVE, Node
from sparkflow_runtime.ops.kernel import KernelContext, StepContext
from sparkflow_runtime.ops.op import NodeView
from sparkflow_runtime.protos.step_stats_pb2 import DeviceStepStats, NodeExecStats
from sparkflow_runtime.tensor_proto import export_shape

_recording: ContextVar[tuple[TracedPartition, DeviceStepStats, _Clock] | None] = ContextVar(
    "recording", default=None
)
"""The recording; threads that continue a step share it, see `resources.turns`."""
TRANSFER: Final = "RecvTensor"
"""The name under which received tensors are listed, as in TensorFlow."""


class TracedPartition:
    """A partition that records its runs. Several threads may run it at once.

    Args:
        nodes: The partition in execution order.
        context: Device and resources the kernels are bound to.
        functions: The functions that nodes may call.
        program: The same partition without a trace. If it has a plan, that is recorded.
        synchronize: Waits for the device, so that a kernel's time is only its own.
        running: The context of a run: on a GPU its stream.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        context: KernelContext,
        functions: Mapping[str, Function],
        program: Program,
        synchronize: Callable[[], None],
        running: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        self._nodes = nodes
        self._context = context
        self._functions = functions
        self._usual = program
        self._synchronize = synchronize
        self._running = running
        self._lock = threading.Lock()
        self._program: Program | None = None

    def run(
        self, step: StepContext | None, args: Sequence[Any]
    ) -> tuple[tuple[Any, ...], DeviceStepStats]:
        """Runs every node once, like `Program.run`.

        Returns:
            The results and the recording.

        Raises:
            OpError: A kernel failed.
        """
        stats = DeviceStepStats(device=self._context.device_name)
        _name_thread(stats)
        clock = _Clock()
        outer = _recording.set((self, stats, clock))
        try:
            with self._running():
                planned = self._usual.run_observed(step, args, self._observe)
                if planned is not None:
                    stats.plan.peak_bytes = planned.block_bytes
                    results = planned.results
                else:
                    inner = _recording.set(None)  # constants are needed for compilation
                    general = self._general()
                    _recording.reset(inner)
                    for node in self._nodes:
                        if node.op in NO_WORK:
                            _add(stats, node, clock.now(), 0)
                    results = general.run(step, args)
        finally:
            _recording.reset(outer)
        self._count(stats)
        return results, stats

    def _general(self) -> Program:
        """Returns the partition node by node."""
        with self._lock:
            if self._program is None:
                context = replace(self._context, observe=self._observe)
                self._program = compile_partition(self._nodes, context, self._functions)
            return self._program

    def _count(self, stats: DeviceStepStats) -> None:
        """Records how often the partition has run so far, by kind."""
        counted = self._usual.statistics
        if counted is not None:
            stats.plan.planned_runs, stats.plan.general_runs = counted.planned, counted.general
            stats.plan.plans_made, stats.plan.plans_dropped = counted.plans, counted.dropped
            stats.plan.plans_failed = counted.failed

    def _observe(self, node: NodeView, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a kernel that records its runs if they belong to a run of this partition."""
        assert isinstance(node, Node)

        def observed(*inputs: Any) -> Any:
            recording = _recording.get()
            # A constant, during compilation; or a session that a function runs.
            if recording is None or recording[0] is not self:
                return kernel(*inputs)
            _, stats, clock = recording
            _name_thread(stats)
            start = clock.now()
            result = kernel(*inputs)
            self._synchronize()
            spent = clock.now() - start
            _add(stats, node, start, spent, result)
            if node.op == RECEIVE:
                _add_transfer(stats, node, start, spent, inputs[0])
            return result

        return observed


def _name_thread(stats: DeviceStepStats) -> None:
    thread = threading.get_native_id()
    if thread not in stats.thread_names:
        stats.thread_names[thread] = threading.current_thread().name


class _Clock:
    """Returns nanoseconds since the epoch, which never decrease."""

    def __init__(self) -> None:
        self._offset = time.time_ns() - time.perf_counter_ns()

    def now(self) -> int:
        return self._offset + time.perf_counter_ns()


def _add(stats: DeviceStepStats, node: Node, start: int, spent: int, result: Any = None) -> None:
    values = result if isinstance(result, tuple | list) else (result,)
    arrays = [(slot, each) for slot, each in enumerate(values) if hasattr(each, "nbytes")]
    size = sum(array.nbytes for _, array in arrays)
    entry = _entry(stats, node.name, start, spent)
    entry.timeline_label = node.definition
    device = stats.device.rpartition("/device:")[2]
    allocator = "cpu" if device.startswith("CPU") else f"GPU_{device.rpartition(':')[2]}_bfc"
    if arrays and node.op not in NO_WORK:
        entry.memory.add(allocator_name=allocator, total_bytes=size, peak_bytes=size)
    for slot, array in arrays:
        described = entry.output.add(slot=slot).tensor_description
        described.dtype = dtypes.as_dtype(array.dtype).number  # type: ignore[assignment]  # the enum's numbers are ints
        described.shape.CopyFrom(export_shape(np.shape(array)))
        allocation = described.allocation_description
        allocation.requested_bytes = allocation.allocated_bytes = array.nbytes
        allocation.allocator_name = allocator


def _add_transfer(
    stats: DeviceStepStats, node: Node, start: int, spent: int, step: StepContext
) -> None:
    """Lists tensors received from another device, and how, next to the receiving node."""
    taken = stats.node_stats[-1]
    size = sum(memory.total_bytes for memory in taken.memory)
    key, source = node.attrs["key"], node.attrs["source"]
    transfer = _entry(stats, TRANSFER, start, spent)
    transfer.timeline_label = (
        f"[{size}B] {key} from {source} to {stats.device} by {step.transport(key, source)}"
    )
    transfer.output.extend(taken.output)


def _entry(stats: DeviceStepStats, name: str, start: int, spent: int) -> NodeExecStats:
    # TensorFlow's readers treat a node without duration as not measured.
    micros = max(1, spent // 1000)
    return stats.node_stats.add(
        node_name=name,
        all_start_micros=start // 1000,
        op_end_rel_micros=micros,
        all_end_rel_micros=micros,
        scheduled_micros=start // 1000,
        thread_id=threading.get_native_id(),
        all_start_nanos=start,
        op_end_rel_nanos=spent,
        all_end_rel_nanos=spent,
        scheduled_nanos=start,
    )
