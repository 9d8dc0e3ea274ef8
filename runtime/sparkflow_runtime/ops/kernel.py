"""What kernels are given: the device's array module, resources, and the running step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from sparkflow_runtime.resources.container import Resources


class StepContext(Protocol):
    """The running step, as kernels with `takes_step` see it."""

    @property
    def step_id(self) -> int:
        """The step's number, unique per master."""

    @property
    def iteration(self) -> int:
        """Which turn of the step loop this is, from 0."""

    @property
    def number(self) -> int:
        """The training step's number: where the loop began plus the turn."""

    def check_cancelled(self) -> None:
        """Raises the error that ended the step, if something did."""

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` once if the step is cancelled; the returned function takes it back."""

    def send(self, key: str, destination: str, values: tuple[Any, ...]) -> None:
        """Puts host arrays under a key of this step and iteration for a device; never blocks."""

    def receive(self, key: str, source: str) -> tuple[Any, ...]:
        """Waits for the tensors sent under `key` by the device `source`."""


@dataclass(frozen=True, slots=True)
class KernelContext:
    """Where a kernel is bound.

    Attributes:
        xp: numpy or cupy.
        device_type: `CPU` or `GPU`.
        device_name: The full device name, for messages.
        resources: What outlives a step on this task: variables, queues, batch sources.
        session: What outlives a step of one session only: random generators by node name.
    """

    xp: Any
    device_type: str
    device_name: str
    resources: Resources
    session: Resources
