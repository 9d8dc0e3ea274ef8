"""One segment: every worker's loop from start to end, and the events meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np

from sparkflow.spark.cluster.events import LoopEnded, StepsDone, TaskRegistered
from sparkflow.spark.cluster.watchdog import Watchdog
from sparkflow.spark.control.event_queue import EventQueue, Message, SegmentEnded, WorkerLost
from sparkflow.spark.control.plan import TrainingPlan
from sparkflow.spark.control.replicas import Replicas
from sparkflow.spark.control.schedule import Schedule
from sparkflow.spark.control.worker_recovery import WorkerRecovery
from sparkflow.spark.errors import SparkTrainingError
from sparkflow_runtime.master.loops.step_loop import Loop, stop_together

_LOOP_END_S: Final = 10.0


class Listener(Protocol):
    """Makes the decisions while loops run."""

    def handle(self, message: Message | None) -> None:
        """Handles an event; None if there was none for a while."""

    def wants_halt(self) -> bool:
        """Returns whether the segment must end early."""

    def misses(self, worker: int, count: int, rows: int) -> None:
        """Called with the steps, and their rows, that a lost worker made but did not report."""

    def halts(self) -> None:
        """Called once when the segment is ended early."""

    def poll_s(self) -> float:
        """Returns the maximum number of seconds until the next call of `wants_halt`."""


class Segments:
    """Runs segments one after another. Used by the thread that called `fit`.

    Args:
        plan: What is trained.
        events: The event queue.
        replicas: The sessions.
        watchdog: Detects a lack of progress.
        lost: Brings lost workers back.
        listener: Makes the decisions.
    """

    def __init__(
        self,
        plan: TrainingPlan,
        events: EventQueue,
        replicas: Replicas,
        watchdog: Watchdog,
        lost: WorkerRecovery,
        listener: Listener,
    ) -> None:
        self._plan = plan
        self._events = events
        self._replicas = replicas
        self._watchdog = watchdog
        self._lost = lost
        self._listener = listener
        self._loops: dict[int, Loop] = {}
        self._threads: list[threading.Thread] = []
        events.may_lose = lambda worker: worker in self._loops and lost.may_lose_one()

    def run(self, schedule: Schedule, steps: Sequence[int]) -> list[int]:
        """Runs the steps of all workers, or fewer if the listener ends the segment.

        Args:
            schedule: The positions of the workers.
            steps: The number of steps of each worker.

        Returns:
            The number of steps that each worker has made.

        Raises:
            SparkTrainingError: A worker's data ended early.
            Exception: The failure, or the listener's error.
        """
        leaves = self._plan.config.leaves
        with self._events.guard():
            if leaves:
                self._replicas.join([worker for worker, count in enumerate(steps) if count])
            self._loops = self._replicas.start_loops(steps, schedule.done)
        for worker, loop in self._loops.items():
            self._listen_to(worker, loop)
        made, told, rows = ([0] * len(steps) for _ in range(3))
        left, silent = set(self._loops), set(self._loops)
        halted = False
        self._watchdog.begin()
        while left:
            message = self._events.next(self._listener.poll_s())
            match message:
                case None:
                    self._lost.check(left)
                    if not all(worker in self._lost for worker in left):
                        self._watchdog.check_steps()
                case WorkerLost(worker):
                    silent.add(worker)
                    made[worker] = self._lose(message, schedule, told[worker])
                case TaskRegistered(task) if task.index in self._lost:
                    worker = task.index
                    self._watchdog.begin()  # possibly no worker has made a step meanwhile
                    number = schedule.done[worker] + made[worker]
                    # After an early end it makes the rest in the next segment, like the others.
                    count = 0 if halted else steps[worker] - made[worker]
                    match self._lost.bring_back(worker, count, number):
                        case WorkerLost() as again:
                            made[worker] = self._lose(again, schedule, made[worker])
                        case completed, None:
                            made[worker] += completed
                            left.discard(worker)
                            silent.discard(worker)
                        case completed, loop:
                            made[worker] += completed
                            self._loops[worker] = loop
                            self._listen_to(worker, loop)
                case SegmentEnded(worker) if worker in self._lost:
                    pass  # what it had made is known
                case SegmentEnded(worker, count, reason):
                    made[worker] += count
                    left.discard(worker)
                    silent.discard(worker)
                    if leaves:
                        with self._events.guard():
                            self._replicas.leave(worker)
                    if not halted and made[worker] < steps[worker]:
                        raise SparkTrainingError(
                            f"The data of worker task {worker} ended after {made[worker]} of "
                            f"{steps[worker]} steps: {reason}"
                        )
                case StepsDone(worker, losses, weights):
                    silent.discard(worker)
                    told[worker] += len(losses)
                    rows[worker] += int(weights.sum())
                    self._watchdog.saw_steps(worker)
            self._listener.handle(message)
            # A loop can be halted once it runs.
            if not halted and not silent and left and self._listener.wants_halt():
                halted = True
                self._listener.halts()
                self._halt()
        self._join_threads()
        self._loops = {}
        if self._lost.any:
            for worker, count in enumerate(made):
                untold, before = count - told[worker], schedule.done[worker]
                if untold > 0:
                    due = self._plan.rows_of(worker, before, before + count)
                    self._listener.misses(worker, untold, due - rows[worker])
        return made

    def _lose(self, lost: WorkerLost, schedule: Schedule, known: int) -> int:
        """Makes a lost worker return; returns its steps in this segment.

        Its loop is ended everywhere first, so that nothing more of it is applied.

        Args:
            lost: The worker, and why it was lost.
            schedule: The positions of the workers at the start of the segment.
            known: The minimum number of its steps, used if parameter servers do not know.
        """
        worker = lost.worker
        loop = self._loops.pop(worker, None)  # none if it was about to restart
        if loop is not None:
            loop.cancel("The worker was lost")
        for thread in self._threads:
            if thread.name == _name(worker):
                thread.join(_LOOP_END_S)
        applied = self._lost.made(worker)
        made = known if applied is None else applied - schedule.done[worker]
        self._lost.let_return(lost, schedule.position(worker, made))
        return made

    def end(self) -> None:
        """Ends all loops at once, even within a step."""
        for loop in self._loops.values():
            loop.cancel()
        self._join_threads()

    def _halt(self) -> None:
        if self._plan.config.in_step:
            stop_together(list(self._loops.values()))
        else:
            for loop in self._loops.values():
                loop.stop()

    def _listen_to(self, worker: int, loop: Loop) -> None:
        thread = threading.Thread(
            target=self._listen, args=(worker, loop), name=_name(worker), daemon=True
        )
        self._threads.append(thread)
        thread.start()

    def _listen(self, worker: int, loop: Loop) -> None:
        try:
            for update in loop.updates():
                losses, weights, waits = (np.asarray(v, np.float32).ravel() for v in update.values)
                self._events.put(StepsDone(worker, losses, weights, float(waits.sum())))
            end = loop.wait()
        except BaseException as error:
            self._events.put(LoopEnded(worker, error))
        else:
            self._events.put(SegmentEnded(worker, end.num_steps, end.out_of_range))

    def _join_threads(self) -> None:
        for thread in self._threads:
            thread.join(_LOOP_END_S)
        self._threads = []


def _name(worker: int) -> str:
    return f"loop-{worker}"
