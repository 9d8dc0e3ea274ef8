"""One segment: every worker's loop from its start to its end, and what is heard meanwhile."""

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
    """Who decides while loops run."""

    def handle(self, message: Message | None) -> None:
        """Takes what was heard; None if nothing was for a while."""

    def wants_halt(self) -> bool:
        """Whether the segment is to end before its time."""

    def misses(self, worker: int, count: int, rows: int) -> None:
        """Is told of steps with so many rows that a lost worker made and never told of."""

    def halts(self) -> None:
        """Is told once that the segment is being ended before its time."""

    def poll_s(self) -> float:
        """How long it may take until `wants_halt` is asked again."""


class Segments:
    """Runs segments, one after the other. Used by the thread that called `fit`.

    Args:
        plan: What is trained.
        events: Where everything is heard.
        replicas: The sessions.
        watchdog: Sees to it that steps are made.
        lost: Brings lost workers back.
        listener: Decides.
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
        """Has all workers make their steps, or fewer if the listener wants to halt.

        Args:
            schedule: Where the workers are.
            steps: Per worker how many steps.

        Returns:
            Per worker how many it has made.

        Raises:
            SparkTrainingError: A worker's data ended early.
            Exception: What failed, or what the listener raises.
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
                    self._watchdog.begin()  # nobody may have made a step meanwhile
                    number = schedule.done[worker] + made[worker]
                    # After a halt it makes the rest in the next segment, as the others do.
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
        """Has a lost worker return; the steps of this segment that it has made.

        Its loop is ended everywhere first, so that nothing of it is applied from then on.

        Args:
            lost: Which one, and why.
            schedule: Where the workers were when the segment began.
            known: How many it has made at least, for where parameter servers do not know.
        """
        worker = lost.worker
        loop = self._loops.pop(worker, None)  # none where it was about to begin again
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
        """Ends all loops in the middle of whatever they do."""
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
