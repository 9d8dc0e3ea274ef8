"""The request of `run_loop`, its progress, and how one step loop is followed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sparkflow.graph.graph import Graph
from sparkflow.session.fetches import Fetches
from sparkflow.session.loops import LoopUpdate, StepLoop
from sparkflow.session.session import BaseSession
from sparkflow_runtime.errors import OpError
from sparkflow_runtime.master.running_loops import END_TIMEOUT_S
from sparkflow_runtime.worker.loop import LoopEnd, stacked

_LOOK_INTERVAL_S: Final = 0.1
"""How often it is asked whether to stop, and how late a deadline is noticed."""


class LoopRequest:
    """Steps to run, in one loop or several, and the progress so far. Used by one thread.

    Args:
        graph: The session's graph.
        train_op: What to run in every step.
        fetches: What to report of every step; nothing when None.
        feed_dict: Values by tensor, the same in every step.
        num_steps: How many steps; None for as many as there are.
        first_step: The number of the first step.
        listeners: Are given every update.
        stops: Say whether to stop.

    Attributes:
        fetches: What is fetched in every step.
        feed_dict: What is fed.
        tensors: The tensors among the fetches.
        done: The number of complete steps.
        last: What is reported of the last of them.

    Raises:
        TypeError, ValueError: Something cannot be fetched.
    """

    def __init__(
        self,
        graph: Graph,
        train_op: Any,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None,
        num_steps: int | None,
        *,
        first_step: int = 0,
        listeners: Sequence[Callable[[LoopUpdate], Any]] = (),
        stops: Sequence[Callable[[], bool]] = (),
    ) -> None:
        run = Fetches(graph, train_op)
        # Operations, so that no value of theirs is kept.
        ops = dict.fromkeys([*run.targets, *(tensor.op for tensor in run.tensors)])
        self.fetches: list[Any] = [*ops, *([] if fetches is None else [fetches])]
        flat = Fetches(graph, self.fetches)
        self.tensors = flat.tensors
        self.feed_dict = feed_dict
        self.done = 0
        self.last: Any = None
        self._fill = flat.fill
        self._reports = fetches is not None
        self._num_steps = num_steps
        self._first_step = first_step
        self._listeners = listeners
        self._stops = stops

    @property
    def next_step(self) -> int:
        """The number of the next step."""
        return self._first_step + self.done

    @property
    def left(self) -> float:
        """How many steps are left."""
        return math.inf if self._num_steps is None else self._num_steps - self.done

    def wants_stop(self) -> bool:
        """Whether somebody asks to stop."""
        return any(stop() for stop in self._stops)

    def start(self, session: BaseSession) -> StepLoop:
        """A loop of the steps that are left."""
        left = None if self._num_steps is None else self._num_steps - self.done
        return session._start_loop(self.fetches, self.feed_dict, left, self.next_step, {})

    def took(self, update: LoopUpdate) -> None:
        """Notes steps that are done, and tells those who listen."""
        self.done += update.num_steps
        self.last = update.last
        for listener in self._listeners:
            listener(update)

    def took_one(self, values: Sequence[Any]) -> None:
        """Notes one step that was run by itself, with the values of `tensors`."""
        columns = [stacked([value]) for value in values]
        self.took(LoopUpdate(self.next_step, 1, columns, self._fill).narrowed(self.reported))

    def reported(self, outputs: Sequence[Any]) -> Any:
        """What to report, of the values of `fetches`."""
        return outputs[-1] if self._reports else None

    def follow(
        self,
        loop: StepLoop,
        part: Callable[[Any], Sequence[Any]] = lambda outputs: outputs,
        seconds: float = math.inf,
        should_stop: Callable[[], bool] | None = None,
    ) -> tuple[LoopEnd, Any]:
        """Notes what a loop yields until it ends; ends it when it is time.

        Args:
            loop: A loop of steps that come next.
            part: Gives from what a step of the loop fetched what `fetches` asks for.
            seconds: How long the loop may last.
            should_stop: Is asked as `stops` are.

        Returns:
            How it ended, and what its last step fetched.

        Raises:
            OpError: What ended the loop.
            Exception: Of a listener; the loop has been stopped then.
        """
        deadline = time.monotonic() + seconds
        watches = bool(self._stops) or should_stop is not None or seconds < math.inf
        asked = False
        last = None
        try:
            for update in loop.poll(_LOOK_INTERVAL_S if watches else None):
                if update is not None:
                    last = update.last
                    self.took(update.narrowed(lambda outputs: self.reported(part(outputs))))
                if watches and not asked:
                    asked = (
                        self.wants_stop()
                        or time.monotonic() >= deadline
                        or (should_stop is not None and should_stop())
                    )
                    if asked:
                        loop.stop()
            return loop.end(), last
        except Exception:
            _finish(loop)
            raise
        finally:
            loop.give_up()  # after Ctrl-C, too


def _finish(loop: StepLoop) -> None:
    """Lets a loop complete the step it is in."""
    loop.stop()
    try:
        loop.wait(END_TIMEOUT_S)
    except (OpError, TimeoutError):
        return  # What it was stopped for says more.
