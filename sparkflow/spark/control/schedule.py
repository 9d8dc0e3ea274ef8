"""The schedule of a run: segments of steps between points at which something is due.

Pure: numbers in, numbers out. The driver knows how many steps an epoch has on each worker, so every
    segment is an exact number of steps per worker, from which data positions follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from sparkflow.spark.params.config import FitConfig


@dataclass(frozen=True, slots=True)
class Stops:
    """The points at which training must pause.

    Attributes:
        every: Numbers of steps, summed over workers; training pauses at each multiple of one.
        at_epochs: Whether to pause at the end of each epoch.
        max_steps: The maximum number of steps; 0 for no limit but the epochs.
    """

    every: tuple[int, ...] = ()
    at_epochs: bool = False
    max_steps: int = 0

    @classmethod
    def of(cls, config: FitConfig, needs_epochs: bool) -> Stops:
        """Returns the points of a fit.

        Args:
            config: The configuration of the fit.
            needs_epochs: Whether a callback requires that steps pause at the end of epochs.
        """
        periods = (
            config.validation_steps if config.validates else 0,
            config.checkpoint_steps if config.saves else 0,
        )
        at_epochs = (
            needs_epochs
            or config.validates_at_epochs
            or config.saves_at_epochs
            or config.is_elastic  # where the number of workers changes
        )
        return cls(tuple(each for each in periods if each), at_epochs, config.max_steps)


class Schedule:
    """The steps of a run, completed and remaining.

    A step is one of all workers if they step together (`in_step`), else one of any worker.

    Args:
        epoch_steps: The steps of an epoch of each worker; 0 for a worker without rows. Equal for
            all workers if they step together.
        epochs: The number of epochs.
        in_step: Whether all workers step together.
        stops: Where to pause.
        done: The steps of each worker in earlier runs; None for none.

    Attributes:
        done: The steps of each worker so far, over all epochs.
    """

    def __init__(
        self,
        epoch_steps: Sequence[int],
        epochs: int,
        in_step: bool,
        stops: Stops,
        done: Sequence[int] | None = None,
    ) -> None:
        assert any(epoch_steps), "no worker has rows"
        assert not in_step or len(set(epoch_steps)) == 1, epoch_steps
        self._epoch_steps = tuple(epoch_steps)
        self._epochs = epochs
        self._in_step = in_step
        self._stops = stops
        self.done = list(done) if done is not None else [0] * len(self._epoch_steps)

    @property
    def total(self) -> int:
        """The number of steps so far."""
        return self._count(self.done)

    @property
    def most(self) -> int:
        """The most steps that a worker makes in the whole training."""
        return min(max(self._epoch_steps) * self._epochs, self.end)

    @property
    def end(self) -> int:
        """`total` at the end of training."""
        all_steps = self._count(self._epoch_steps) * self._epochs
        limit = self._stops.max_steps
        return min(all_steps, limit) if limit else all_steps

    @property
    def epochs_done(self) -> int:
        """Epochs that all workers have completed."""
        pairs = zip(self.done, self._epoch_steps, strict=True)
        return min(done // steps for done, steps in pairs if steps)

    @property
    def at_epoch_end(self) -> bool:
        """Whether all workers have completed the same number of epochs, and no further step."""
        epochs = self.epochs_done
        pairs = zip(self.done, self._epoch_steps, strict=True)
        return all(done == epochs * steps for done, steps in pairs)

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to do."""
        return self.total >= self.end

    @property
    def positions(self) -> tuple[tuple[int, int], ...]:
        """The completed epochs of each worker, and its steps of the next one."""
        return tuple(self.position(worker, 0) for worker in range(len(self.done)))

    def position(self, worker: int, more: int) -> tuple[int, int]:
        """Returns the position of a worker after `more` steps; see `positions`."""
        steps = self._epoch_steps[worker]
        return divmod(self.done[worker] + more, steps) if steps else (0, 0)

    def next_segment(self) -> tuple[int, ...] | None:
        """Returns the steps of each worker until the next pause; None at the end of training."""
        left = self.end - self.total
        if left <= 0:
            return None
        for period in self._stops.every:
            left = min(left, period - self.total % period)
        if self._stops.at_epochs:
            left = min(left, self._count(self._left_of_epoch(self.done, self.epochs_done)))
        return self._shares(left)

    def advance(self, steps: Sequence[int]) -> None:
        """Adds steps that the workers have made."""
        self.done = [done + more for done, more in zip(self.done, steps, strict=True)]

    def _count(self, steps: Sequence[int]) -> int:
        return steps[0] if self._in_step else sum(steps)

    def _left_of_epoch(self, done: Sequence[int], epoch: int) -> list[int]:
        # A worker that was stopped early may be an epoch ahead of the slowest.
        return [
            max(0, (epoch + 1) * steps - made)
            for made, steps in zip(done, self._epoch_steps, strict=True)
        ]

    def _shares(self, count: int) -> tuple[int, ...]:
        """Distributes steps so that all workers end their epochs together."""
        if self._in_step:
            return (count,) * len(self.done)
        reached = list(self.done)
        epoch = self.epochs_done
        while count:
            left = self._left_of_epoch(reached, epoch)
            if sum(left) > count:
                left = _proportional(count, left)
            reached = [done + more for done, more in zip(reached, left, strict=True)]
            count -= sum(left)
            epoch += 1
        return tuple(after - done for after, done in zip(reached, self.done, strict=True))


def _proportional(count: int, of: Sequence[int]) -> list[int]:
    """Distributes `count` in proportion to `of`, whose sum is larger; never exceeds `of`."""
    total = sum(of)
    shares = [count * each // total for each in of]
    by_rest = sorted(range(len(of)), key=lambda index: (-(count * of[index] % total), index))
    for index in by_rest[: count - sum(shares)]:
        shares[index] += 1
    return shares


class Duty(Enum):
    """The actions that may be due."""

    VALIDATE = "validate"
    REPORT_EPOCH = "report an epoch"
    SAVE = "save"


@dataclass(frozen=True, slots=True)
class Pause:
    """The situation of a run between two segments.

    Attributes:
        step: The number of steps so far.
        at_epoch: Whether an epoch has ended since the last pause.
        is_last: Whether no segment follows.
        save_time_over: Whether a checkpoint is due by time.
        validates: Whether the run has validation rows.
        saves: Whether it writes checkpoints.
        validated_at: The step of the last validation; -1 for none.
        saved_at: The step of the last checkpoint; -1 for none.
    """

    step: int
    at_epoch: bool = False
    is_last: bool = False
    save_time_over: bool = False
    validates: bool = True
    saves: bool = True
    validated_at: int = -1
    saved_at: int = -1


def is_due(duty: Duty, config: FitConfig, pause: Pause) -> bool:
    """Returns whether an action is due; a step is validated once, and saved once."""
    if duty is Duty.REPORT_EPOCH:
        return pause.at_epoch
    if duty is Duty.VALIDATE:
        return (
            pause.validates
            and pause.validated_at != pause.step
            and (
                _is_multiple(pause.step, config.validation_steps)
                or (config.validates_at_epochs and pause.at_epoch)
                or pause.is_last
            )
        )
    return (
        pause.saves
        and pause.saved_at != pause.step
        and (
            _is_multiple(pause.step, config.checkpoint_steps)
            or (config.saves_at_epochs and pause.at_epoch)
            or pause.save_time_over
            or pause.is_last
        )
    )


def _is_multiple(step: int, period: int) -> bool:
    return period > 0 and step % period == 0
