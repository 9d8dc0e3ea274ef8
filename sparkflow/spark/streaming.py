"""Training on a stream: each micro-batch continues where the previous one ended.

Pass `StreamingTrainer.foreachBatch` to `DataStreamWriter.foreachBatch`. The state (variables,
slots, global step, random streams) is kept in a directory, so that nothing is lost or repeated
after a failed batch or with a new driver:

    <checkpointDir>/batch-<id>/training   the checkpoints of the batch's training
    <checkpointDir>/batch-<id>/model      the model after it
    <checkpointDir>/stream.json           the last complete batch, written last

Spark delivers a failed batch again, with the same rows and the same id. Training then resumes from
the checkpoints that the batch has saved, unless rows, parameters or graph have changed meanwhile; a
complete batch is skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame

from sparkflow.spark.control.attempts.resuming import AUTO, NEVER
from sparkflow.spark.control.checkpoints.snapshot import Snapshot
from sparkflow.spark.control.checkpoints.store import CheckpointStore
from sparkflow.spark.errors import (
    NoRowsError,
    OtherTrainingError,
    SparkTrainingError,
    interrupts_kept,
)
from sparkflow.spark.storage.checkpoint_files import CheckpointFiles
from sparkflow.spark.storage.session_files import files_for
from sparkflow_runtime.checkpoint.sealed import open_json, seal_json
from sparkflow_runtime.errors import DataLossError

if TYPE_CHECKING:
    from sparkflow.spark.model.trainer_model import SparkTrainerModel
    from sparkflow.spark.trainer import BaseTrainer

_log = logging.getLogger(__name__)

_STATE_FILE: Final = "stream.json"
_VERSION: Final = 3
"""Version 1 had no checksum, version 2 no facts; all are read."""

OnBatch = Callable[["SparkTrainerModel", int], None]


@dataclass(frozen=True, slots=True)
class StreamState:
    """The content of `stream.json`.

    Attributes:
        batch_id: The last complete batch; -1 before the first.
        trained: The batches whose training and model are kept, oldest first. The next batch
            continues from the last one; a batch without rows is complete but not trained.
        rows: The number of rows trained on, each counted once.
        facts: What all batches keep of the first one, see `BaseTrainer.facts_to_json`; None if
            nothing.
    """

    batch_id: int = -1
    trained: tuple[int, ...] = ()
    rows: int = 0
    facts: Mapping[str, Any] | None = field(default=None, repr=False)

    def to_json(self) -> bytes:
        """Returns the text to write."""
        return seal_json(
            {
                "version": _VERSION,
                "batch_id": self.batch_id,
                "trained": self.trained,
                "rows": self.rows,
                "facts": self.facts,
            }
        )

    @classmethod
    def from_json(cls, data: bytes, path: str) -> StreamState:
        """Parses the text of `stream.json`.

        Raises:
            SparkTrainingError: The text is something else, or of a later version.
            DataLossError: The text is damaged.
        """
        found, sealed = open_json(data, path)
        try:
            version = int(found["version"])
            state = cls(
                int(found["batch_id"]),
                tuple(map(int, found["trained"])),
                int(found["rows"]),
                found.get("facts"),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise SparkTrainingError(f"{path} is not the state of a stream: {error!r}") from error
        if version > _VERSION:
            raise SparkTrainingError(
                f"{path} is of version {version}; this sparkflow reads up to {_VERSION}"
            )
        if version >= 2 and not sealed:
            raise DataLossError(message=f"{path} is damaged: it lacks its checksum")
        return state


class StreamingTrainer:
    """Trains on the micro-batches of a streaming query.

    Use one instance per query; Spark calls `foreachBatch` for one batch after another.

    Args:
        trainer: A `SparkTrainer`, or another estimator of sparkflow. Its `epochs` is the number of
            passes over each micro-batch. Its own `checkpointDir` must not be set.
        checkpointDir: The directory for the state, on any file system that pyarrow or Spark can
            write to. It must not be the query's `checkpointLocation`, which belongs to Spark.
        onBatch: Called with (model, batch id) after each batch with rows.
        keepModels: The number of batches whose models and states are kept.

    Raises:
        ValueError: `checkpointDir` is empty, or the trainer has one of its own, or `keepModels` is
            below 1.

    Examples:
        >>> streaming = StreamingTrainer(trainer, "/models/clicks")  # doctest: +SKIP
        >>> writer = stream.writeStream.foreachBatch(streaming.foreachBatch)  # doctest: +SKIP
        >>> query = writer.start()  # doctest: +SKIP
    """

    def __init__(
        self,
        trainer: BaseTrainer,
        checkpointDir: str,
        onBatch: OnBatch | None = None,
        keepModels: int = 3,
    ) -> None:
        if not checkpointDir:
            raise ValueError("checkpointDir is empty: a stream needs a directory for its state")
        if trainer.getCheckpointDir():
            raise ValueError(
                f"The trainer has checkpointDir={trainer.getCheckpointDir()!r}; give the directory "
                "to StreamingTrainer only"
            )
        if keepModels < 1:
            raise ValueError(f"keepModels={keepModels} must be 1 or more")
        self.trainer = trainer
        self.checkpoint_dir = checkpointDir.rstrip("/") or "/"
        self.keep_models = keepModels
        self._on_batch = onBatch
        self._model: tuple[int, SparkTrainerModel] | None = None

    def foreachBatch(self, df: DataFrame, batch_id: int) -> None:
        """Trains on a micro-batch, unless that was already done.

        Blocks until the new model is completely stored. A batch without rows to train on changes
        nothing.

        Args:
            df: The rows.
            batch_id: Spark's id of the batch.

        Raises:
            Exception: As the trainer's `fit` does; the state is then as before the batch.
        """
        files = files_for(df.sparkSession, self.checkpoint_dir)
        state = self._state(files)
        if batch_id <= state.batch_id:
            _log.info("batch %d was already trained on", batch_id)
            return
        try:
            model, facts = self._fit(df, batch_id, self._snapshot(files, state), state.facts)
        except NoRowsError as error:
            _log.warning("batch %d is not trained on: %s", batch_id, error)
            self._commit(files, replace(state, batch_id=batch_id))
            return
        model.write().overwrite().save(self._model_path(batch_id))
        trained = (*state.trained, batch_id)
        kept = trained[-self.keep_models :]
        rows = state.rows + model.history.rows_per_epoch
        self._commit(files, StreamState(batch_id, kept, rows, facts))
        self._model = (batch_id, model)
        for old in trained[: -self.keep_models]:
            files.remove_tree(self._batch_path(old))
        if self._on_batch is not None:
            self._on_batch(model, batch_id)

    def state(self, session: Any) -> StreamState:
        """The position up to which the stream has been trained on.

        Args:
            session: A Spark session.
        """
        return self._state(files_for(session, self.checkpoint_dir))

    def model(self, session: Any) -> SparkTrainerModel | None:
        """Loads the model after the last complete batch; returns None before the first.

        Args:
            session: A Spark session; it need not be the query's.
        """
        from sparkflow.spark.model.trainer_model import SparkTrainerModel

        state = self.state(session)
        if not state.trained:
            return None
        last = state.trained[-1]
        if self._model is None or self._model[0] != last:
            self._model = (last, SparkTrainerModel.load(self._model_path(last)))
        return self._model[1]

    def _fit(
        self,
        df: DataFrame,
        batch_id: int,
        start: Snapshot | None,
        kept: Mapping[str, Any] | None,
    ) -> tuple[SparkTrainerModel, Mapping[str, Any] | None]:
        """Returns the model and what the next batches keep."""
        trainer = self.trainer
        batch = trainer.copy(
            {
                trainer.checkpointDir: f"{self._batch_path(batch_id)}/training",
                trainer.keepCheckpointMax: 1,
                trainer.resume: AUTO,
                # Otherwise all batches of one size would be shuffled in the same order.
                trainer.seed: trainer.getSeed() + batch_id,
            }
        )
        batch.start_snapshot = start
        batch.continues = True
        if kept is not None:
            batch.start_facts = batch.facts_from_json(kept)
        model: SparkTrainerModel
        with interrupts_kept(), batch.training_data(df) as data:
            try:
                model = batch.fit_data(data)
            except OtherTrainingError as error:
                # Its earlier training is discarded: the stream continues from the state before
                # this batch.
                _log.warning("batch %d is retrained: %s", batch_id, error)
                model = batch.setResume(NEVER).fit_data(data)
            facts = batch.facts_to_json(data.facts) if kept is None else kept
        if kept is None and start is not None and facts is not None:
            _log.warning(
                "the stream's state is of an earlier version, without statistics: those of batch "
                "%d apply from now on",
                batch_id,
            )
        return model, facts

    def _snapshot(self, files: CheckpointFiles, state: StreamState) -> Snapshot | None:
        """Returns the checkpoint with which the next batch starts."""
        if not state.trained:
            return None
        directory = f"{self._batch_path(state.trained[-1])}/training"
        found = CheckpointStore(directory, 1, files).latest()
        if found is None:
            raise SparkTrainingError(
                f"{self.checkpoint_dir}/{_STATE_FILE} says that batch {state.trained[-1]} is "
                f"complete, but {directory} holds no checkpoint. Restore it, or begin with another "
                "checkpointDir"
            )
        return found.snapshot

    def _state(self, files: CheckpointFiles) -> StreamState:
        path = f"{self.checkpoint_dir}/{_STATE_FILE}"
        if _STATE_FILE not in files.list(self.checkpoint_dir):
            return StreamState()
        return StreamState.from_json(files.read(path), path)

    def _commit(self, files: CheckpointFiles, state: StreamState) -> None:
        files.make_dirs(self.checkpoint_dir)
        files.write_whole(f"{self.checkpoint_dir}/{_STATE_FILE}", state.to_json())

    def _batch_path(self, batch_id: int) -> str:
        return f"{self.checkpoint_dir}/batch-{batch_id:09d}"

    def _model_path(self, batch_id: int) -> str:
        return f"{self._batch_path(batch_id)}/model"
