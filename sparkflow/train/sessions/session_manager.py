"""`SessionManager`: sessions whose model is ready, initialised or restored by the chief."""

from __future__ import annotations

import math
import time
from typing import Any, Final

import numpy as np

from sparkflow import logging
from sparkflow._api import export
from sparkflow.graph.graph import Graph
from sparkflow.graph.scopes import get_default_graph
from sparkflow.session.session import Session
from sparkflow.train.checkpoints.state_file import get_checkpoint_state
from sparkflow_runtime.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    UnavailableError,
)
from sparkflow_runtime.protos.config_pb2 import ConfigProto, RunOptions

_FIRST_PAUSE_S: Final = 0.25
"""Tasks mostly start together: the first looks at whether a model is ready come quickly."""


@export("train.SessionManager")
class SessionManager:
    """Creates sessions that are ready to train.

    The chief restores a checkpoint or runs the init op (`prepare_session`), others wait until it
    has (`wait_for_session`). A model is ready when `ready_op` gives no names of variables.

    Args:
        local_init_op: Run in each new session once the model is ready for it.
        ready_op: Gives the names of variables that have no value; None: always ready.
        ready_for_local_init_op: The same, asked before `local_init_op`; needs a `ready_op`.
        graph: The graph; the default graph when None.
        recovery_wait_secs: The most seconds between two looks at whether the model is ready.
        local_init_run_options: Options of the run of `local_init_op`.
        local_init_feed_dict: Values by tensor for it.

    Raises:
        ValueError: `ready_for_local_init_op` without `ready_op`.
    """

    def __init__(
        self,
        local_init_op: Any = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        graph: Graph | None = None,
        recovery_wait_secs: float = 30,
        local_init_run_options: RunOptions | None = None,
        local_init_feed_dict: Any = None,
    ) -> None:
        if ready_for_local_init_op is not None and ready_op is None:
            raise ValueError(
                "If you pass a ready_for_local_init_op you must also pass a ready_op , "
                f"ready_for_local_init_op [{ready_for_local_init_op}]"
            )
        self._local_init_op = local_init_op
        self._ready_op = ready_op
        self._ready_for_local_init_op = ready_for_local_init_op
        self._graph = graph or get_default_graph()
        self._recovery_wait_secs = recovery_wait_secs
        self._local_init_run_options = local_init_run_options
        self._local_init_feed_dict = local_init_feed_dict

    def prepare_session(
        self,
        master: str,
        init_op: Any = None,
        saver: Any = None,
        checkpoint_dir: Any = None,
        checkpoint_filename_with_path: Any = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        config: ConfigProto | None = None,
        init_feed_dict: Any = None,
        init_fn: Any = None,
    ) -> Session:
        """A session for the chief: restored from a checkpoint, else initialised.

        Args:
            master: The target of the session.
            init_op: Run when there is no checkpoint.
            saver: Restores; None: never restore.
            checkpoint_dir: Where the latest checkpoint is looked for.
            checkpoint_filename_with_path: One checkpoint to restore, instead.
            wait_for_checkpoint: Wait until there is one.
            max_wait_secs: The longest wait, in seconds.
            config: Of the session.
            init_feed_dict: Values by tensor for `init_op`.
            init_fn: Called with the session after `init_op`.

        Raises:
            RuntimeError: Nothing to initialise with, or the model is not ready after it.
            ValueError: Both a directory and a file are given.
        """
        session, restored = self._restore_checkpoint(
            master,
            saver,
            checkpoint_dir,
            checkpoint_filename_with_path,
            wait_for_checkpoint,
            max_wait_secs,
            config,
        )
        if not restored:
            if init_op is None and not init_fn and self._local_init_op is None:
                raise RuntimeError(
                    "Model is not initialized and no init_op or init_fn or local_init_op was given"
                )
            if init_op is not None:
                session.run(init_op, feed_dict=init_feed_dict)
            if init_fn:
                init_fn(session)
        for what, check in (
            ("model ready for local_init", self._try_run_local_init_op),
            ("model ready", self._model_ready),
        ):
            done, message = check(session)
            if not done:
                raise RuntimeError(
                    f"Init operations did not make {what}.  Init op: {_name(init_op)}, init fn: "
                    f"{init_fn}, local_init_op: {_name(self._local_init_op)}, error: {message}"
                )
        return session

    def recover_session(
        self,
        master: str,
        saver: Any = None,
        checkpoint_dir: Any = None,
        checkpoint_filename_with_path: Any = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        config: ConfigProto | None = None,
    ) -> tuple[Session, bool]:
        """A session, restored where there is a checkpoint; arguments as of `prepare_session`.

        Returns:
            The session, and whether a checkpoint made the model ready.
        """
        session, restored = self._restore_checkpoint(
            master,
            saver,
            checkpoint_dir,
            checkpoint_filename_with_path,
            wait_for_checkpoint,
            max_wait_secs,
            config,
        )
        local_done, local_message = self._try_run_local_init_op(session)
        if not restored:
            return session, False
        source = checkpoint_dir or checkpoint_filename_with_path
        if not local_done:
            logging.info(
                "Restoring model from %s did not make model ready for local init: %s",
                source,
                local_message,
            )
            return session, False
        ready, message = self._model_ready(session)
        if not ready:
            logging.info("Restoring model from %s did not make model ready: %s", source, message)
            return session, False
        logging.info("Restored model from %s", source)
        return session, True

    def wait_for_session(
        self,
        master: str,
        config: ConfigProto | None = None,
        max_wait_secs: float | None = float("inf"),
    ) -> Session:
        """A session once the chief has made the model ready; blocks until then.

        Args:
            master: The target of the session.
            config: Of the session.
            max_wait_secs: The longest wait, in seconds; None: for ever.

        Raises:
            DeadlineExceededError: The model is not ready in time.
        """
        wait_s = float("inf") if max_wait_secs is None else max_wait_secs
        deadline = time.monotonic() + wait_s
        pause_s = min(_FIRST_PAUSE_S, self._recovery_wait_secs)
        while True:
            session = self._open(master, config, deadline)
            message = None
            try:
                local_done, local_message = self._try_run_local_init_op(session)
                if local_done:
                    ready, message = self._model_ready(session)
                    if ready:
                        return session
            except BaseException:
                _safe_close(session)
                raise
            _safe_close(session)
            if deadline - time.monotonic() < pause_s:
                raise DeadlineExceededError(
                    None, None, f"Session was not ready after waiting {wait_s} secs."
                )
            logging.info(
                "Waiting for model to be ready.  Ready_for_local_init_op:  %s, ready: %s",
                local_message,
                message,
            )
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, self._recovery_wait_secs)

    def _open(self, master: str, config: ConfigProto | None, deadline: float) -> Session:
        """A session, once all tasks are up: they may start minutes after each other."""
        while True:
            try:
                left_s = max(deadline - time.monotonic(), _FIRST_PAUSE_S)
                return Session(
                    master,
                    graph=self._graph,
                    config=config,
                    create_timeout_s=None if left_s == math.inf else left_s,
                )
            except UnavailableError as error:
                if time.monotonic() + _FIRST_PAUSE_S > deadline:
                    raise
                logging.info("Still waiting for all tasks of the cluster: %s", error)
                time.sleep(_FIRST_PAUSE_S)

    def _restore_checkpoint(
        self,
        master: str,
        saver: Any,
        checkpoint_dir: Any,
        checkpoint_filename_with_path: Any,
        wait_for_checkpoint: bool,
        max_wait_secs: float,
        config: ConfigProto | None,
    ) -> tuple[Session, bool]:
        if checkpoint_dir and checkpoint_filename_with_path:
            raise ValueError(
                "Can not provide both checkpoint_dir and checkpoint_filename_with_path."
            )
        session = self._open(master, config, time.monotonic() + max_wait_secs)
        if not saver or not (checkpoint_dir or checkpoint_filename_with_path):
            return session, False
        if checkpoint_filename_with_path:
            saver.restore(session, checkpoint_filename_with_path)
            return session, True
        waited_s = 0.0
        state = get_checkpoint_state(checkpoint_dir)
        while not state or not state.model_checkpoint_path:
            if not wait_for_checkpoint or waited_s >= max_wait_secs:
                return session, False
            logging.info("Waiting for checkpoint to be available.")
            time.sleep(self._recovery_wait_secs)
            waited_s += self._recovery_wait_secs
            state = get_checkpoint_state(checkpoint_dir)
        saver.restore(session, state.model_checkpoint_path)
        saver.recover_last_checkpoints(state.all_model_checkpoint_paths)
        return session, True

    def _model_ready(self, session: Session) -> tuple[bool, str | None]:
        return model_is_ready(self._ready_op, session, "Model not ready")

    def _try_run_local_init_op(self, session: Session) -> tuple[bool, str | None]:
        if self._local_init_op is None:
            return True, None
        ready, message = model_is_ready(
            self._ready_for_local_init_op, session, "Model not ready for local init"
        )
        if not ready:
            return False, message
        logging.info("Running local_init_op.")
        session.run(
            self._local_init_op,
            feed_dict=self._local_init_feed_dict,
            options=self._local_init_run_options,
        )
        logging.info("Done running local_init_op.")
        return True, None


def model_is_ready(op: Any, session: Session, what: str) -> tuple[bool, str | None]:
    """Whether `op` returns no names, and if it does, a text that says why not.

    Args:
        op: Gives the names of variables without a value; None: always ready.
        session: The session to ask in.
        what: Begins the text.
    """
    if op is None:
        return True, None
    try:
        value = session.run(op)
    except FailedPreconditionError as error:
        if "uninitialized" not in str(error):
            logging.warning("%s : error [%s]", what, error)
            raise
        return False, str(error)
    if value is None or np.asarray(value).dtype == np.int32 or np.asarray(value).size == 0:
        return True, None
    names = [name.decode() if isinstance(name, bytes) else str(name) for name in np.ravel(value)]
    return False, f"Variables not initialized: {', '.join(names)}"


def _safe_close(session: Session) -> None:
    try:
        session.close()
    except Exception as error:
        # It is given up for another; that it does not close well changes nothing.
        logging.debug("A session that was not ready did not close: %s", error)


def _name(op: Any) -> str:
    return op.name if hasattr(op, "name") else str(op)
