"""`CheckpointSaverHook`, which writes checkpoints during training, and its listeners."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from sparkflow import logging
from sparkflow._api import export
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.scopes import get_default_graph
from sparkflow.summary.writer import FileWriterCache
from sparkflow.train.graph_files import meta_graph_of, write_graph
from sparkflow.train.hooks.step_hooks import required_step
from sparkflow.train.hooks.step_timer import SecondOrStepTimer
from sparkflow.train.session_run_hook import (
    LoopLimits,
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from sparkflow_runtime.protos.event_pb2 import SessionLog


@export("train.CheckpointSaverListener", "estimator.CheckpointSaverListener")
class CheckpointSaverListener:
    """Code around each checkpoint that a `CheckpointSaverHook` saves. Override what is needed."""

    def begin(self) -> None:
        """Called once, before the session is made."""

    def before_save(self, session: Any, global_step_value: int) -> None:
        """Called before each checkpoint."""

    def after_save(self, session: Any, global_step_value: int) -> bool | None:
        """Called after each checkpoint; True asks to stop training."""
        return None

    def end(self, session: Any, global_step_value: int) -> None:
        """Called at the end, after the last checkpoint."""


@export("train.CheckpointSaverHook", "estimator.CheckpointSaverHook")
class CheckpointSaverHook(SessionRunHook):
    """Saves a checkpoint at the start, every N steps or seconds, and at the end.

    Args:
        checkpoint_dir: The directory.
        save_secs: Seconds between two checkpoints.
        save_steps: Steps between two checkpoints. Exactly one of the two is given.
        saver: The saver; that of the scaffold, or of the graph, when None.
        checkpoint_basename: What names of files start with.
        scaffold: Whose saver to use.
        listeners: Called around each checkpoint.

    Raises:
        ValueError: Both or none of the first two is given, or saver and scaffold are.
    """

    def __init__(
        self,
        checkpoint_dir: Any,
        save_secs: float | None = None,
        save_steps: int | None = None,
        saver: Any = None,
        checkpoint_basename: str = "model.ckpt",
        scaffold: Any = None,
        listeners: Sequence[CheckpointSaverListener] | None = None,
    ) -> None:
        logging.info("Create CheckpointSaverHook.")
        if saver is not None and scaffold is not None:
            raise ValueError("You cannot provide both saver and scaffold.")
        self._saver = saver
        self._checkpoint_dir = checkpoint_dir
        self._save_path = os.path.join(checkpoint_dir, checkpoint_basename)
        self._scaffold = scaffold
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)
        self._listeners = list(listeners or ())

    def begin(self) -> None:
        """Opens the writer and finds the step counter."""
        self._summary_writer = FileWriterCache.get(self._checkpoint_dir)
        self._global_step_tensor = required_step("CheckpointSaverHook")
        self._seen: int | None = None
        for listener in self._listeners:
            listener.begin()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Writes the graph and a first checkpoint."""
        step = int(session.run(self._global_step_tensor))
        graph = get_default_graph()
        write_graph(graph, self._checkpoint_dir, "graph.pbtxt")
        saver = self._get_saver()
        self._summary_writer.add_graph(graph)
        self._summary_writer.add_meta_graph(meta_graph_of(graph, saver))
        self._save(session, step)
        self._timer.update_last_triggered_step(step)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Asks for the step."""
        return SessionRunArgs(self._global_step_tensor)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Saves when a checkpoint is due."""
        self._seen = int(run_values.results)
        if not self._timer.should_trigger_for_step(int(run_values.results) + 1):
            return
        step = int(run_context.session.run(self._global_step_tensor))
        if self._timer.should_trigger_for_step(step):
            self._timer.update_last_triggered_step(step)
            if self._save(run_context.session, step):
                run_context.request_stop()

    def loop_limits(self) -> LoopLimits:
        """Until a checkpoint is due."""
        return self._timer.limits(self._global_step_tensor, self._seen)

    def end(self, session: Any) -> None:
        """Saves the last step, unless it is saved."""
        step = int(session.run(self._global_step_tensor))
        if step != self._timer.last_triggered_step():
            self._save(session, step)
        for listener in self._listeners:
            listener.end(session, step)

    def _save(self, session: Any, step: int) -> bool:
        """Saves; whether a listener asks to stop."""
        logging.info("Saving checkpoints for %d into %s.", step, self._save_path)
        for listener in self._listeners:
            listener.before_save(session, step)
        self._get_saver().save(session, self._save_path, global_step=step)
        self._summary_writer.add_session_log(
            SessionLog(status=SessionLog.CHECKPOINT, checkpoint_path=self._save_path), step
        )
        should_stop = False
        for listener in self._listeners:
            if listener.after_save(session, step):
                logging.info(
                    "A CheckpointSaverListener requested that training be stopped. listener: %s",
                    listener,
                )
                should_stop = True
        return should_stop

    def _get_saver(self) -> Any:
        if self._saver is not None:
            return self._saver
        if self._scaffold is not None:
            return self._scaffold.saver
        savers = get_default_graph().get_collection(GraphKeys.SAVERS)
        if len(savers) != 1:
            found = "More than one item" if savers else "No items"
            raise RuntimeError(
                f"{found} in collection {GraphKeys.SAVERS}. Please add a saver to the collection "
                "or provide a saver or scaffold."
            )
        self._saver = savers[0]
        return self._saver
