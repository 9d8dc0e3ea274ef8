"""Creates the sessions inside monitored sessions, for the chief or a worker."""

from __future__ import annotations

from typing import Any

from sparkflow._api import export
from sparkflow.train.sessions.scaffold import Scaffold
from sparkflow.train.sessions.session_manager import SessionManager
from sparkflow_runtime.protos.config_pb2 import ConfigProto


@export("train.SessionCreator")
class SessionCreator:
    """Creates sessions. Override `create_session`."""

    def create_session(self) -> Any:
        """A session that is ready."""
        raise NotImplementedError(f"{type(self).__name__} must implement create_session")


@export("train.ChiefSessionCreator")
class ChiefSessionCreator(SessionCreator):
    """Creates the chief's session: restores a checkpoint or initializes the model.

    Args:
        scaffold: What to initialise and restore with.
        master: The target of the session.
        config: Of the session.
        checkpoint_dir: Where to restore from.
        checkpoint_filename_with_path: One checkpoint to restore, instead.
    """

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: ConfigProto | None = None,
        checkpoint_dir: Any = None,
        checkpoint_filename_with_path: Any = None,
    ) -> None:
        self._checkpoint_dir = checkpoint_dir
        self._checkpoint_filename_with_path = checkpoint_filename_with_path
        self._scaffold = scaffold or Scaffold()
        self._session_manager: SessionManager | None = None
        self._master = master
        self._config = config

    def create_session(self) -> Any:
        """Finalises the graph and makes the session."""
        scaffold = self._scaffold.finalize()
        if self._session_manager is None:
            self._session_manager = _manager(scaffold)
        return self._session_manager.prepare_session(
            self._master,
            saver=scaffold.saver,
            checkpoint_dir=self._checkpoint_dir,
            checkpoint_filename_with_path=self._checkpoint_filename_with_path,
            config=self._config,
            init_op=scaffold.init_op,
            init_feed_dict=scaffold.init_feed_dict,
            init_fn=scaffold.init_fn,
        )


@export("train.WorkerSessionCreator")
class WorkerSessionCreator(SessionCreator):
    """Creates a worker's session once the chief has made the model ready.

    Args:
        scaffold: How to see whether it is.
        master: The target of the session.
        config: Of the session.
        max_wait_secs: The longest wait, in seconds.
    """

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: ConfigProto | None = None,
        max_wait_secs: float = 30 * 60,
    ) -> None:
        self._scaffold = scaffold or Scaffold()
        self._session_manager: SessionManager | None = None
        self._master = master
        self._config = config
        self._max_wait_secs = max_wait_secs

    def create_session(self) -> Any:
        """Finalises the graph, waits, makes the session."""
        scaffold = self._scaffold.finalize()
        if self._session_manager is None:
            self._session_manager = _manager(scaffold)
        return self._session_manager.wait_for_session(
            self._master, config=self._config, max_wait_secs=self._max_wait_secs
        )


def _manager(scaffold: Scaffold) -> SessionManager:
    return SessionManager(
        local_init_op=scaffold.local_init_op,
        local_init_feed_dict=scaffold.local_init_feed_dict,
        ready_op=scaffold.ready_op,
        ready_for_local_init_op=scaffold.ready_for_local_init_op,
    )
