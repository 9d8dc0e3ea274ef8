"""`SecondOrStepTimer`: when hooks that act now and then are due."""

from __future__ import annotations

import time
from typing import Any

from sparkflow._api import export
from sparkflow.train.session_run_hook import EVERY_RUN, NO_LIMITS, LoopLimits


@export("train.SecondOrStepTimer", "estimator.SecondOrStepTimer")
class SecondOrStepTimer:
    """Timer that is due at the first step and then every N steps or seconds.

    Args:
        every_secs: Seconds between two triggers.
        every_steps: Steps between two triggers. Exactly one of the two is given.

    Raises:
        ValueError: Both or none is given.
    """

    def __init__(self, every_secs: float | None = None, every_steps: int | None = None) -> None:
        if every_secs is None and every_steps is None:
            raise ValueError("Either every_secs or every_steps should be provided.")
        if every_secs is not None and every_steps is not None:
            raise ValueError("Can not provide both every_secs and every_steps.")
        self._every_secs = every_secs
        self._every_steps = every_steps
        self.reset()

    def reset(self) -> None:
        """Forgets the last trigger."""
        self._last_triggered_step: int | None = None
        self._last_triggered_time: float | None = None

    def should_trigger_for_step(self, step: int) -> bool:
        """Whether it is due at this step; never twice at one step."""
        if self._last_triggered_step is None or self._last_triggered_time is None:
            return True
        if self._last_triggered_step == step:
            return False
        if self._every_secs is not None:
            return time.time() >= self._last_triggered_time + self._every_secs
        assert self._every_steps is not None
        return step >= self._last_triggered_step + self._every_steps

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        """Notes a trigger.

        Returns:
            Seconds and steps since the one before; None and None at the first.
        """
        now = time.time()
        seconds = steps = None
        if self._last_triggered_step is not None and self._last_triggered_time is not None:
            seconds = now - self._last_triggered_time
            steps = step - self._last_triggered_step
        self._last_triggered_time = now
        self._last_triggered_step = step
        return seconds, steps

    def limits(self, counter: Any, seen: int | None, ahead: int = 1) -> LoopLimits:
        """How long a loop may last until `should_trigger_for_step(value + ahead)` may be true.

        Args:
            counter: The tensor whose values are the steps.
            seen: Its value in the last run, None before the first; it is expected to grow by one in
                each run. Where it grows faster, because there are other workers, the bound ends
                the loop.
            ahead: What is added to the values.
        """
        if seen is None or self._last_triggered_step is None or self._last_triggered_time is None:
            return EVERY_RUN
        if self._every_secs is not None:
            return LoopLimits(seconds=self._last_triggered_time + self._every_secs - time.time())
        assert self._every_steps is not None
        bound = self._last_triggered_step + self._every_steps - ahead
        return LoopLimits(steps=max(1, bound - seen), bounds={counter: bound})

    def last_triggered_step(self) -> int | None:
        """The step of the last trigger, None before the first."""
        return self._last_triggered_step


class NeverTriggerTimer(SecondOrStepTimer):
    """Never due."""

    def __init__(self) -> None:
        super().__init__(every_secs=float("inf"))

    def should_trigger_for_step(self, step: int) -> bool:
        """Never."""
        return False

    def limits(self, counter: Any, seen: int | None, ahead: int = 1) -> LoopLimits:
        """None."""
        return NO_LIMITS

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        """Nothing to note."""
        return None, None
