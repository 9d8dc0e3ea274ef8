"""`MonitoredSession`: a training loop's session, with hooks, threads and recovery."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

from sparkflow._api import export
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.scopes import get_collection, get_default_graph
from sparkflow.train.queue_runner import start_queue_runners
from sparkflow.train.session_run_hook import SessionRunHook
from sparkflow.train.sessions.coordinator import Coordinator
from sparkflow.train.sessions.loop_request import LoopRequest
from sparkflow.train.sessions.session_creators import ChiefSessionCreator
from sparkflow.train.sessions.wrapped_sessions import (
    CoordinatedSession,
    HookedSession,
    RecoverableSession,
    SessionCreator,
    StepContext as _StepContext,
)
from sparkflow_runtime.errors import OutOfRangeError
from sparkflow_runtime.protos.config_pb2 import ConfigProto, RunMetadata, RunOptions


class _MonitoredSession:
    """What `MonitoredSession` and `SingularMonitoredSession` share."""

    StepContext = _StepContext

    def __init__(
        self,
        session_creator: SessionCreator | None,
        hooks: Iterable[SessionRunHook] | None,
        should_recover: bool,
        stop_grace_period_secs: float = 120,
    ) -> None:
        self._graph = get_default_graph()
        self._graph_was_finalized = self._graph.finalized
        self._hooks = list(hooks or ())
        for hook in self._hooks:
            hook.begin()
        self._creator = _CoordinatedSessionCreator(
            session_creator or ChiefSessionCreator(), self._hooks, stop_grace_period_secs
        )
        self._session: Any = (
            RecoverableSession(self._creator) if should_recover else self._creator.create_session()
        )

    @property
    def graph(self) -> Any:
        """The graph, None when no session is open."""
        return None if self._creator.tf_sess is None else self._creator.tf_sess.graph

    def run(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        options: RunOptions | None = None,
        run_metadata: RunMetadata | None = None,
    ) -> Any:
        """Runs as `Session.run`, with hooks.

        Raises:
            RuntimeError: The session is closed, or a hook asked to stop.
            Else as `Session.run`, and what a thread raised.
        """
        return self._open().run(
            fetches, feed_dict=feed_dict, options=options, run_metadata=run_metadata
        )

    def _run_steps(self, request: LoopRequest) -> None:
        """Runs at least one of the steps asked for, with hooks, see `run_loop`."""
        self._open().run_steps(request)

    def run_step_fn(self, step_fn: Callable[..., Any]) -> Any:
        """Calls a function that may run several times, at most once of those with hooks.

        Args:
            step_fn: Takes `step_context`, whose `session` has no hooks and whose `run_with_hooks`
                runs with hooks.

        Returns:
            What the function returns.

        Raises:
            ValueError: The function takes other arguments.
            StopIteration: The function asked to stop.
        """
        names = tuple(inspect.signature(step_fn).parameters)
        if names not in (("step_context",), ("self", "step_context")):
            raise ValueError(
                "`step_fn` may either have one `step_context` argument, or `self` and "
                "`step_context` arguments if it's an instance method. "
                f"Got {list(names)} instead."
            )
        return self._open().run_step_fn(step_fn, self._tf_sess, run_with_hooks=None)

    def should_stop(self) -> bool:
        """Whether the loop should end."""
        return self._session is None or self._session.should_stop()

    def close(self) -> None:
        """Ends the session: hooks' `end`, the threads, the session itself.

        Raises:
            RuntimeError: It is closed already.
        """
        self._close_internal()

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if kind is not None and issubclass(kind, OutOfRangeError | StopIteration):
            kind = None
        self._close_internal(kind)
        # `__exit__` gives True to swallow the end of the data.
        return kind is None

    def _open(self) -> Any:
        if self._session is None:
            raise RuntimeError("Session is already closed.")
        return self._session

    def _is_closed(self) -> bool:
        return self._creator.tf_sess is None

    def _tf_sess(self) -> Any:
        """The session without hooks and threads."""
        return self._creator.tf_sess

    def _close_internal(self, kind: type[BaseException] | None = None) -> None:
        try:
            if kind is None:
                self._open()
                for hook in self._hooks:
                    hook.end(self._creator.tf_sess)
        finally:
            try:
                self._open().close()
            finally:
                self._session = None
                self._creator.tf_sess = None
                self._creator.coord = None
                if not self._graph_was_finalized:
                    self._graph.finalized = False


class _CoordinatedSessionCreator:
    """Makes sessions with their threads, and tells hooks of each."""

    def __init__(
        self,
        session_creator: SessionCreator,
        hooks: list[SessionRunHook],
        stop_grace_period_secs: float,
    ) -> None:
        self._session_creator = session_creator
        self._hooks = hooks
        self._stop_grace_period_secs = stop_grace_period_secs
        self.coord: Any = None
        self.tf_sess: Any = None

    def create_session(self) -> CoordinatedSession:
        """A session, its queue runners started."""
        self.tf_sess = self._session_creator.create_session()
        # Threads' OutOfRangeError ends the loop through the queues they close.
        self.coord = Coordinator(clean_stop_exception_types=())
        if get_collection(GraphKeys.QUEUE_RUNNERS):
            start_queue_runners(sess=self.tf_sess, coord=self.coord)
        for hook in self._hooks:
            hook.after_create_session(self.tf_sess, self.coord)
        hooked = HookedSession(self.tf_sess, self._hooks)
        return CoordinatedSession(hooked, self.coord, self._stop_grace_period_secs, self.tf_sess)


@export("train.MonitoredSession")
class MonitoredSession(_MonitoredSession):
    """A session for a training loop, recreated when a task is lost.

    On entry, hooks' `begin` is called, the scaffold is finalised, variables are initialised or
    restored, queue runners started. On exit hooks' `end` is called and threads are stopped.
    `OutOfRangeError` ends the `with` block quietly, other exceptions pass.

    Args:
        session_creator: Makes the session; a `ChiefSessionCreator` when None.
        hooks: Called around each run.
        stop_grace_period_secs: How long threads may take to stop, in seconds, and a run when one of
            them has failed.
    """

    def __init__(
        self,
        session_creator: SessionCreator | None = None,
        hooks: Iterable[SessionRunHook] | None = None,
        stop_grace_period_secs: float = 120,
    ) -> None:
        super().__init__(session_creator, hooks, True, stop_grace_period_secs)


@export("train.SingularMonitoredSession")
class SingularMonitoredSession(_MonitoredSession):
    """The same without recovery: when a task is lost, the error is raised.

    Args:
        hooks: Called around each run.
        scaffold: What to initialise and save with.
        master: The target of the session.
        config: Of the session.
        checkpoint_dir: Where to restore from.
        stop_grace_period_secs: How long threads may take to stop, in seconds, and a run when one of
            them has failed.
        checkpoint_filename_with_path: One checkpoint to restore, instead of `checkpoint_dir`.
    """

    def __init__(
        self,
        hooks: Iterable[SessionRunHook] | None = None,
        scaffold: Any = None,
        master: str = "",
        config: ConfigProto | None = None,
        checkpoint_dir: Any = None,
        stop_grace_period_secs: float = 120,
        checkpoint_filename_with_path: Any = None,
    ) -> None:
        creator = ChiefSessionCreator(
            scaffold=scaffold,
            master=master,
            config=config,
            checkpoint_dir=checkpoint_dir,
            checkpoint_filename_with_path=checkpoint_filename_with_path,
        )
        super().__init__(creator, hooks, False, stop_grace_period_secs)

    def raw_session(self) -> Any:
        """The session without hooks."""
        return self._tf_sess()
