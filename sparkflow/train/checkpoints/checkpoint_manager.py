"""`tf.train.CheckpointManager`: keeps the newest checkpoints of a `tf.train.Checkpoint`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from absl import logging

from sparkflow._api import export
from sparkflow.graph.scopes import get_default_graph
from sparkflow.train.checkpoints import object_status, state_file
from sparkflow.train.checkpoints.object_checkpoint import Checkpoint


@export("train.CheckpointManager")
class CheckpointManager:
    """Saves into a directory, keeps the newest checkpoints there, and deletes older ones.

    A manager of a directory in which there are some takes those over. Not safe to use from several
    threads or processes at once.

    Args:
        checkpoint: What is saved.
        directory: Where; it is made where it is missing.
        max_to_keep: How many stay; None for all.
        keep_checkpoint_every_n_hours: One in so many hours stays for ever.
        checkpoint_name: How the files' names begin.
        step_counter: Where the number of the step is, for `checkpoint_interval`.
        checkpoint_interval: Save only so many steps after the last checkpoint.
        init_fn: Called by `restore_or_initialize` where there is nothing to restore.

    Raises:
        ValueError: `max_to_keep` is not positive, or an interval is given without a counter.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        directory: str | os.PathLike[str],
        max_to_keep: int | None,
        keep_checkpoint_every_n_hours: float | None = None,
        checkpoint_name: str = "ckpt",
        step_counter: Any = None,
        checkpoint_interval: int | None = None,
        init_fn: Callable[[], Any] | None = None,
    ) -> None:
        if max_to_keep is not None and max_to_keep <= 0:
            raise ValueError(
                f"Expected a positive integer or `None` for `max_to_keep`, got {max_to_keep}."
            )
        if checkpoint_interval is not None and step_counter is None:
            raise ValueError("`step_counter` should be passed if `checkpoint_interval` is set.")
        self._checkpoint = checkpoint
        self._directory = os.fspath(directory)
        self._max_to_keep = max_to_keep
        self._keep_s = (
            None
            if keep_checkpoint_every_n_hours is None
            else (keep_checkpoint_every_n_hours * 3600)
        )
        self._prefix = os.path.join(self._directory, checkpoint_name)
        self._step_counter = step_counter
        self._checkpoint_interval = checkpoint_interval
        self._init_fn = init_fn
        self._last_step: int | None = None
        self._latest: str | None = None
        self._written: dict[str, float] = {}
        self._last_preserved = time.time() - (self._keep_s or 0)
        self._take_over()

    def _take_over(self) -> None:
        """What the state file of the directory lists, and is there, is this manager's."""
        state = state_file.get_checkpoint_state(self._directory)
        if state is None:
            self._last_preserved = time.time()
            return
        self._latest = state.model_checkpoint_path
        times = list(state.all_model_checkpoint_timestamps)
        paths = list(state.all_model_checkpoint_paths)
        if len(times) != len(paths):
            times = [time.time()] * len(paths)
        self._last_preserved = state.last_preserved_timestamp or time.time()
        for path, written in zip(paths, times, strict=True):
            if state_file.checkpoint_exists(path):
                self._written[path] = written

    @property
    def directory(self) -> str:
        """Where the checkpoints are."""
        return self._directory

    @property
    def checkpoint(self) -> Checkpoint:
        """The object that is saved."""
        return self._checkpoint

    @property
    def checkpoint_interval(self) -> int | None:
        """How many steps lie between two checkpoints at least."""
        return self._checkpoint_interval

    @property
    def checkpoints(self) -> list[str]:
        """The paths of those that may be deleted one day, oldest first."""
        return list(self._written)

    @property
    def latest_checkpoint(self) -> str | None:
        """The path of the newest one, None where there is none."""
        return self._latest

    def save(
        self,
        checkpoint_number: Any = None,
        check_interval: bool = True,
        options: Any = None,
        session: Any = None,
    ) -> str | None:
        """Saves a checkpoint and deletes what is not to be kept.

        Args:
            checkpoint_number: The number in its name; how many were saved when None.
            check_interval: Whether `checkpoint_interval` counts.
            options: Accepted for TensorFlow's sake.
            session: Runs the nodes; the default session when None.

        Returns:
            Its path; None where the interval has not passed.
        """
        step = None if self._step_counter is None else self._value(self._step_counter, session)
        if check_interval and not self._is_due(step):
            return None
        number = self._checkpoint._counted(session)
        if checkpoint_number is not None:
            number = self._value(checkpoint_number, session)
        path = self._checkpoint.write(f"{self._prefix}-{number}", session)
        self._written.pop(path, None)
        self._written[path] = time.time()
        self._latest = path
        self._last_step = step
        # First the state, then the deletion: it never names what is not there.
        removed = self._to_remove()
        self._record()
        for each in removed:
            try:
                state_file.remove_checkpoint(each)
            except OSError as error:
                logging.warning("Ignoring: %s", error)
        return path

    def restore_or_initialize(self, session: Any = None) -> str | None:
        """Restores the newest checkpoint, or initializes.

        Args:
            session: Runs the nodes; the default session when None.

        Returns:
            The path restored, None where there was none.
        """
        if self._latest is not None:
            self._checkpoint.restore(self._latest).initialize_or_restore(session)
            if self._step_counter is not None:
                self._last_step = self._value(self._step_counter, session)
            return self._latest
        if self._init_fn is not None:
            self._init_fn()
        return None

    def sync(self) -> None:
        """Waits for what is being written: nothing, `save` returns when it is done."""

    def _is_due(self, step: int | None) -> bool:
        if self._checkpoint_interval is None or self._last_step is None or step is None:
            return True
        return step - self._last_step >= self._checkpoint_interval

    def _to_remove(self) -> list[str]:
        """Forgets the oldest until there are few enough; those that are to be deleted."""
        removed = []
        while self._max_to_keep is not None and len(self._written) > self._max_to_keep:
            path = next(iter(self._written))
            written = self._written.pop(path)
            if self._keep_s is not None and written - self._keep_s >= self._last_preserved:
                self._last_preserved = written
            else:
                removed.append(path)
        return removed

    def _record(self) -> None:
        assert self._latest is not None
        state_file.update_checkpoint_state(
            self._directory,
            self._latest,
            self.checkpoints,
            all_model_checkpoint_timestamps=list(self._written.values()),
            last_preserved_timestamp=self._last_preserved,
            save_relative_paths=True,
        )

    @staticmethod
    def _value(number: Any, session: Any) -> int:
        if hasattr(number, "__index__"):
            return int(number)
        if get_default_graph().is_eager:
            return int(number.read_value() if hasattr(number, "read_value") else number)
        return int(object_status.session_of(session).run(number))
