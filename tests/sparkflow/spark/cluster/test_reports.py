"""What a task's process reports about itself."""

import sys
import threading
from typing import Any

import numpy as np

from sparkflow.spark.cluster.reports import StepCounter, describe_state, format_stacks
from sparkflow.spark.cluster_layout import TaskName
from sparkflow_runtime.worker.loop import LoopUpdate
from sparkflow_runtime.worker.worker import Wait


def _update(steps: int, *values: float) -> LoopUpdate:
    return LoopUpdate(0, steps, tuple(np.full(steps, value) for value in values), 0.0, 1.0)


def test_steps_are_counted_and_told_at_a_bounded_rate() -> None:
    told: list[Any] = []
    counter = StepCounter(told.append)
    counter.add(_update(3, 0.5, 32))
    for _ in range(100):
        counter.add(_update(1, 0.25, 32))
    counter.add(_update(7))  # a different device
    assert counter.steps == 103
    assert told == [{"event": "steps", "steps": 3, "count": 3, "loss": 0.5}]


def test_stacks_name_threads_at_work() -> None:
    reached, go = threading.Event(), threading.Event()

    def work() -> None:
        reached.set()
        go.wait(20)

    thread = threading.Thread(target=work, name="loop-7")
    thread.start()
    reached.wait(20)
    text = format_stacks(sys._current_frames(), threading.enumerate())
    go.set()
    thread.join()
    assert "Thread loop-7:\n" in text
    assert "go.wait(20)" in text


def test_the_state_has_waits_and_steps() -> None:
    wait = Wait("0-w", "/job:ps/replica:0/task:0", step=3, seconds=1.5)
    state = describe_state(TaskName("worker", 1), [wait], steps=4)
    assert (state.job, state.task, state.steps) == ("worker", 1, 4)
    assert [(w.key, w.source, w.step, w.seconds) for w in state.waits] == [
        ("0-w", "/job:ps/replica:0/task:0", 3, 1.5)
    ]
