"""Reports of a task's process: its steps as they are made, its stacks on request."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

import numpy as np

from sparkflow.spark.cluster_layout import TaskName
from sparkflow_runtime.protos.rendezvous_pb2 import ReportStateRequest, WaitInfo
from sparkflow_runtime.worker.loop import LoopUpdate
from sparkflow_runtime.worker.worker import Wait

_STEPS_EVENT_S = 0.5
_MAX_STACKS = 1 << 16
# Threads that only wait for work do not explain a stall.
_IDLE = ("transport/threads.py", "job/attempts.py", "job/child.py", "channel/reactor.py")


class StepCounter:
    """Counts the steps of a task's loops and reports them twice a second. `_lock` guards all.

    Args:
        tell: Receives `{"event": "steps", ...}`.

    Attributes:
        steps: Complete steps so far.
    """

    def __init__(self, tell: Callable[[Mapping[str, Any]], None]) -> None:
        self._tell = tell
        self._lock = threading.Lock()
        self._told = 0
        self._due = 0.0
        self.steps = 0

    def add(self, update: LoopUpdate) -> None:
        """Adds a report of a loop, whose first result, if any, is the loss."""
        if not update.values:
            return  # the partition of a device beside; the steps are counted where the loss is
        with self._lock:
            self.steps += update.num_steps
            now = time.monotonic()
            if now < self._due:
                return
            self._due = now + _STEPS_EVENT_S
            count, self._told = self.steps - self._told, self.steps
            loss = float(np.mean(np.asarray(update.values[0], np.float64)))
            self._tell({"event": "steps", "steps": self.steps, "count": count, "loss": loss})


def describe_state(name: TaskName, waits: Sequence[Wait], steps: int) -> ReportStateRequest:
    """Returns the state of this process for the driver."""
    return ReportStateRequest(
        job=name.job,
        task=name.index,
        stacks=format_stacks(sys._current_frames(), threading.enumerate())[:_MAX_STACKS],
        waits=[
            WaitInfo(key=wait.key, source=wait.source, step=wait.step, seconds=wait.seconds)
            for wait in waits
        ],
        steps=steps,
    )


def format_stacks(frames: Mapping[int, FrameType], threads: Sequence[threading.Thread]) -> str:
    """Returns the stacks of all threads that are active in sparkflow."""
    names = {thread.ident: thread.name for thread in threads}
    texts = []
    for ident, frame in frames.items():
        stack = traceback.extract_stack(frame)
        ours = [each for each in stack if "sparkflow" in each.filename]
        if ident == threading.get_ident() or not ours or ours[-1].filename.endswith(_IDLE):
            continue
        lines = "".join(traceback.format_list(stack)).rstrip()
        texts.append(f"Thread {names.get(ident, ident)}:\n{lines}")
    return "\n".join(texts)
