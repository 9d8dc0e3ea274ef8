"""What hooks are and what they are given: `SessionRunHook` and the values around it."""

from __future__ import annotations

from typing import Any, NamedTuple

from sparkflow.graph.graph import Graph
from sparkflow_runtime.protos.config_pb2 import RunMetadata, RunOptions


class SessionRunArgs(NamedTuple):
    """What a run is asked for, by the caller or by a hook.

    Attributes:
        fetches: As for `Session.run`.
        feed_dict: Values by tensor, or None.
        options: Options of the run, or None.
    """

    fetches: Any
    feed_dict: Any = None
    options: RunOptions | None = None


class SessionRunValues(NamedTuple):
    """What a hook gets of a run.

    Attributes:
        results: Values in the structure of the fetches the hook asked for, else None.
        options: The options the run had, all hooks' together.
        run_metadata: What was recorded.
    """

    results: Any
    options: RunOptions
    run_metadata: RunMetadata


class SessionRunContext:
    """What hooks know of the run they are called for, and how they end the loop.

    Args:
        original_args: What the caller asked for.
        session: The session, for runs of the hook's own.
    """

    def __init__(self, original_args: SessionRunArgs, session: Any) -> None:
        self._original_args = original_args
        self._session = session
        self._stop_requested = False

    @property
    def original_args(self) -> SessionRunArgs:
        """What the caller asked for, without what hooks add."""
        return self._original_args

    @property
    def session(self) -> Any:
        """The session of this run, without hooks."""
        return self._session

    @property
    def stop_requested(self) -> bool:
        """Whether some hook asked to stop."""
        return self._stop_requested

    def request_stop(self) -> None:
        """Makes the session's `should_stop` true after this run."""
        self._stop_requested = True

    @property
    def graph(self) -> Graph:
        """The session's graph."""
        graph: Graph = self._session.graph
        return graph


class SessionRunHook:
    """Code around the runs of a monitored session. Override what is needed.

    The order is `begin`; `after_create_session`, also for each session made after a failure; for
    every run `before_run` and `after_run`; `end`, unless an exception ended the loop.
    """

    def begin(self) -> None:
        """Called once before the session is made; the graph may still be changed."""

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Called when a session was made and the graph is final.

        Args:
            session: The new session.
            coord: The coordinator of the threads that feed it.
        """

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Called before each run; what it gives is fetched and fed as well."""
        return None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Called after each run that did not fail."""

    def end(self, session: Any) -> None:
        """Called at the end of the loop; not after an exception other than OutOfRangeError."""
