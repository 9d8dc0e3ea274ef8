"""Callbacks with which tests disturb training."""

from collections.abc import Callable

from sparkflow.spark.control.callbacks import Callback, Update


class OnFirstSteps(Callback):
    """Does something when the first steps are known, and records restarts."""

    def __init__(self, act: Callable[[], None]) -> None:
        self.act: Callable[[], None] | None = act
        self.restarts: list[str] = []

    def on_steps(self, update: Update) -> None:
        act, self.act = self.act, None
        if act is not None:
            act()

    def on_restart(self, reason: str) -> None:
        self.restarts.append(reason)
