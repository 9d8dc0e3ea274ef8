"""Sessions around a session: with hooks, with threads, recreated after a failure.

`MonitoredSession` stacks them: recoverable(coordinated(hooked(session))).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, Protocol

from sparkflow import logging
from sparkflow.session.session import BaseSession
from sparkflow.train.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
    limits_of,
    narrowest,
)
from sparkflow.train.sessions.late_runs import LateRuns
from sparkflow.train.sessions.loop_request import LoopRequest
from sparkflow_runtime.errors import AbortedError, UnavailableError
from sparkflow_runtime.protos.config_pb2 import RunMetadata, RunOptions

PREEMPTION_ERRORS: Final = (AbortedError, UnavailableError)
"""What a run raises when a task was lost: the session is made anew."""
_RETRY_WAIT_S: Final = 0.2


class SessionCreator(Protocol):
    """Creates sessions."""

    def create_session(self) -> Any:
        """A session that is ready."""


class StepContext:
    """The argument of the function of `run_step_fn`.

    Args:
        session: The session without hooks.
        run_with_hooks_fn: Runs with hooks.
    """

    def __init__(self, session: Any, run_with_hooks_fn: Callable[..., Any]) -> None:
        self._session = session
        self._run_with_hooks_fn = run_with_hooks_fn

    @property
    def session(self) -> Any:
        """The session without hooks."""
        return self._session

    def run_with_hooks(self, *args: Any, **kwargs: Any) -> Any:
        """Runs as `MonitoredSession.run`; at most once per step."""
        return self._run_with_hooks_fn(*args, **kwargs)

    def request_stop(self) -> None:
        """Ends the loop.

        Raises:
            StopIteration: Always; it leaves the step function.
        """
        raise StopIteration("step_fn has requested the iterations to stop.")


class WrappedSession:
    """A session that asks another one.

    Args:
        session: The other one.
    """

    def __init__(self, session: Any) -> None:
        self._session = session

    @property
    def graph(self) -> Any:
        """The graph."""
        return self._session.graph

    @property
    def sess_str(self) -> Any:
        """The target."""
        return self._session.sess_str

    def should_stop(self) -> bool:
        """Whether to stop: said by this session or one inside."""
        if self._check_stop():
            return True
        if isinstance(self._session, WrappedSession):
            return self._session.should_stop()
        return self._session is None

    def _check_stop(self) -> bool:
        return False

    def close(self) -> None:
        """Closes the session inside."""
        session, self._session = self._session, None
        if session is None:
            return
        try:
            session.close()
        except PREEMPTION_ERRORS as error:
            logging.error("An error occurred when attempting to close the session: %s", error)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Runs in the session inside."""
        return self._session.run(*args, **kwargs)

    def run_steps(
        self, request: LoopRequest, should_stop: Callable[[], bool] | None = None
    ) -> None:
        """Runs at least one of the steps asked for, in the session inside."""
        self._session.run_steps(request, should_stop)

    def run_step_fn(
        self,
        step_fn: Callable[[StepContext], Any],
        raw_session: Callable[[], Any],
        run_with_hooks: Callable[..., Any] | None,
    ) -> Any:
        """Calls a step function whose runs with hooks go through this session.

        Args:
            step_fn: The function.
            raw_session: Gives the session without hooks, another one when a task was lost.
            run_with_hooks: What runs with hooks; `run` when None.
        """
        return step_fn(StepContext(raw_session(), run_with_hooks or self.run))


class RecoverableSession(WrappedSession):
    """Recreates its session when a task was lost, and runs again.

    Args:
        session_creator: Makes the session.
    """

    def __init__(self, session_creator: SessionCreator) -> None:
        self._session_creator = session_creator
        super().__init__(self._create_session())

    def _create_session(self) -> Any:
        while True:
            try:
                return self._session_creator.create_session()
            except PREEMPTION_ERRORS as error:
                logging.info(
                    "An error was raised while a session was being created. This may be due to a "
                    "preemption of a connected worker or parameter server. A new session will be "
                    "created. Error: %s",
                    error,
                )
                time.sleep(_RETRY_WAIT_S)

    def _check_stop(self) -> bool:
        try:
            return self._session is None or self._session._check_stop()
        except PREEMPTION_ERRORS as error:
            self._give_up("considering whether the session is complete", error)
            self._session = self._create_session()
            return False
        except Exception:
            # `run` raises it again, where callers expect it.
            logging.debug("should_stop failed", exc_info=True)
            return True

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Runs; in a new session as often as a task is lost."""
        return self._persistently(lambda session: session.run(*args, **kwargs))

    def run_steps(
        self, request: LoopRequest, should_stop: Callable[[], bool] | None = None
    ) -> None:
        """Runs steps; in a new session as often as a task is lost."""
        self._persistently(lambda session: session.run_steps(request, should_stop))

    def run_step_fn(
        self,
        step_fn: Callable[[StepContext], Any],
        raw_session: Callable[[], Any],
        run_with_hooks: Callable[..., Any] | None,
    ) -> Any:
        """Calls the step function; in a new session as often as a task is lost."""

        def call(session: Any) -> Any:
            return session.run_step_fn(step_fn, raw_session, run_with_hooks)

        return self._persistently(call)

    def _persistently(self, action: Callable[[Any], Any]) -> Any:
        while True:
            try:
                if self._session is None:
                    self._session = self._create_session()
                return action(self._session)
            except PREEMPTION_ERRORS as error:
                self._give_up("running the session", error)

    def _give_up(self, doing: str, error: Exception) -> None:
        logging.info(
            "An error was raised while %s. This may be due to a preemption in a connected worker "
            "or parameter server. The current session will be closed and a new session will be "
            "created. Error: %s",
            doing,
            error,
        )
        self.close()


class CoordinatedSession(WrappedSession):
    """Stops the threads of a coordinator when it is closed, and raises what they raised.

    A run may wait for what a thread has made that has failed, such as for the tokens of
    `SyncReplicasOptimizer`: then it is ended, when it has had as long as the threads have to stop.

    Args:
        session: The session inside.
        coord: The coordinator.
        stop_grace_period_secs: How long threads may take to stop, in seconds, and a run when one of
            them has failed.
        raw_session: The session without hooks, whose runs are ended, too; None for none.
    """

    def __init__(
        self,
        session: Any,
        coord: Any,
        stop_grace_period_secs: float = 120,
        raw_session: Any = None,
    ) -> None:
        super().__init__(session)
        self._coord = coord
        self._stop_grace_period_secs = stop_grace_period_secs
        self._late_runs = LateRuns(coord, stop_grace_period_secs, session.close)
        if isinstance(raw_session, BaseSession):
            raw_session._watch_runs(self._late_runs)

    def _check_stop(self) -> bool:
        # A thread's error is raised here, where the loop asks, rather than at the end only.
        self._coord.raise_requested_exception()
        return bool(self._coord.should_stop())

    def close(self) -> None:
        """Stops the threads, then closes the session.

        Raises:
            Exception: What a thread raised.
        """
        self._late_runs.stop()
        self._coord.request_stop()
        try:
            self._coord.join(
                stop_grace_period_secs=self._stop_grace_period_secs, ignore_live_threads=True
            )
        finally:
            try:
                super().close()
            except Exception as error:
                # `join` tells the cause; this is what follows from it.
                logging.debug("The session did not close: %s", error)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Runs; a thread's loss of a task counts as the cause of any error."""
        return self._attributed(lambda: self._session.run(*args, **kwargs))

    def run_steps(
        self, request: LoopRequest, should_stop: Callable[[], bool] | None = None
    ) -> None:
        """Runs steps until a thread asks to stop; errors are reported as by `run`."""
        self._attributed(lambda: self._session.run_steps(request, self._coord.should_stop))

    def run_step_fn(
        self,
        step_fn: Callable[[StepContext], Any],
        raw_session: Callable[[], Any],
        run_with_hooks: Callable[..., Any] | None,
    ) -> Any:
        """Calls a step function; errors are reported as by `run`."""
        context = StepContext(raw_session(), run_with_hooks or self.run)
        return self._told(lambda: step_fn(context))

    def _attributed(self, action: Callable[[], Any]) -> Any:
        run = self._late_runs.begin()
        try:
            return self._told(action)
        finally:
            self._late_runs.end(run)

    def _told(self, action: Callable[[], Any]) -> Any:
        """What an action gives, or raises by itself or because of a thread."""
        try:
            return action()
        except PREEMPTION_ERRORS:
            raise
        except Exception as error:
            self._late_runs.raise_cause()
            lost = self._loss_in_a_thread()
            if lost is not None:
                raise lost from error
            raise

    def _loss_in_a_thread(self) -> Exception | None:
        """The loss of a task that a thread reported, if one did."""
        try:
            self._coord.raise_requested_exception()
        except PREEMPTION_ERRORS as error:
            return error
        except Exception as error:
            # `close` raises it; what the run itself raised comes first.
            logging.debug("A thread failed too: %s", error)
        return None


class HookedSession(WrappedSession):
    """Calls hooks around each run.

    Args:
        session: The session inside.
        hooks: In the order in which they are called.
    """

    def __init__(self, session: Any, hooks: Sequence[SessionRunHook]) -> None:
        super().__init__(session)
        self._hooks = hooks
        self._should_stop = False

    def _check_stop(self) -> bool:
        return self._should_stop

    def run(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        options: RunOptions | None = None,
        run_metadata: RunMetadata | None = None,
    ) -> Any:
        """Runs what the caller and the hooks ask for at once.

        Raises:
            RuntimeError: A hook asked to stop before.
            ValueError: Two of them feed one tensor.
        """
        context = self._new_context(fetches, feed_dict)
        merged = RunOptions()
        if options is not None:
            merged.CopyFrom(options)
        wanted, feeds = self._before_run(context, feed_dict, merged)
        recorded = RunMetadata() if run_metadata is None else run_metadata
        # A run without options takes the fast path of the session.
        plain = options is None and run_metadata is None and merged == RunOptions()
        outputs, extra = self._session.run(
            [fetches, [each for _, each in wanted]],
            feed_dict=feeds,
            options=None if plain else merged,
            run_metadata=None if plain else recorded,
        )
        self._after_run(context, wanted, extra, merged, recorded)
        return outputs

    def run_steps(
        self, request: LoopRequest, should_stop: Callable[[], bool] | None = None
    ) -> None:
        """Runs one step, or a loop of as many as the hooks need not see one by one.

        Args:
            request: What to run.
            should_stop: Whether to end the loop after the step under way.

        Raises:
            As `run`; OutOfRangeError when the data end, after the hooks have seen what was done.
        """
        context = self._new_context(request.fetches, request.feed_dict)
        merged, recorded = RunOptions(), RunMetadata()
        wanted, feeds = self._before_run(context, request.feed_dict, merged)
        limits = narrowest(map(limits_of, self._hooks))
        extras = [each for _, each in wanted]
        plain = merged == RunOptions()
        steps = min(limits.steps, request.left)
        if steps > 1 and limits.seconds > 0 and plain and isinstance(self._session, BaseSession):
            loop = self._session._start_loop(
                [request.fetches, extras],
                feeds,
                None if steps == math.inf else int(steps),
                request.next_step,
                limits.bounds,
            )
            end, last = request.follow(loop, itemgetter(0), limits.seconds, should_stop)
            if end.num_steps:
                self._after_run(context, wanted, last[1], merged, recorded, end.num_steps)
            if end.out_of_range:
                raise loop.data_error(end)
            return
        _, extra, values = self._session.run(
            [request.fetches, extras, request.tensors],
            feed_dict=feeds,
            options=None if plain else merged,
            run_metadata=None if plain else recorded,
        )
        self._after_run(context, wanted, extra, merged, recorded)
        request.took_one(values)

    def _new_context(self, fetches: Any, feed_dict: Mapping[Any, Any] | None) -> SessionRunContext:
        if self.should_stop():
            raise RuntimeError("Run called even after should_stop requested.")
        return SessionRunContext(SessionRunArgs(fetches, feed_dict), self._session)

    def _after_run(
        self,
        context: SessionRunContext,
        wanted: Sequence[tuple[SessionRunHook, Any]],
        extra: Sequence[Any],
        options: RunOptions,
        recorded: RunMetadata,
        num_steps: int = 1,
    ) -> None:
        results = {hook: value for (hook, _), value in zip(wanted, extra, strict=True)}
        for hook in self._hooks:
            values = SessionRunValues(results.get(hook), options, recorded)
            if num_steps == 1:
                hook.after_run(context, values)
            else:
                hook.after_loop(context, values, num_steps)
        self._should_stop = self._should_stop or context.stop_requested

    def _before_run(
        self, context: SessionRunContext, feed_dict: Mapping[Any, Any] | None, options: RunOptions
    ) -> tuple[list[tuple[SessionRunHook, Any]], Mapping[Any, Any] | None]:
        wanted = []
        hook_feeds: dict[Any, Any] = {}
        for hook in self._hooks:
            request = hook.before_run(context)
            if request is None:
                continue
            if request.fetches is not None:
                wanted.append((hook, request.fetches))
            if request.feed_dict:
                _require_apart(hook_feeds, request.feed_dict, "Same tensor is fed by two hooks.")
                hook_feeds.update(request.feed_dict)
            if request.options is not None:
                _merge_options(options, request.options)
        if not hook_feeds:
            return wanted, feed_dict
        if feed_dict:
            _require_apart(
                feed_dict, hook_feeds, "Same tensor is fed by a SessionRunHook and user."
            )
            hook_feeds.update(feed_dict)
        return wanted, hook_feeds


def _require_apart(feeds: Mapping[Any, Any], others: Mapping[Any, Any], message: str) -> None:
    both = set(feeds) & set(others)
    if both:
        raise RuntimeError(f"{message} Conflict(s): {sorted(map(str, both))}")


def _merge_options(options: RunOptions, incoming: RunOptions) -> None:
    """The higher of both trace levels and timeouts; whatever one of them asks for."""
    options.trace_level = max(options.trace_level, incoming.trace_level)
    options.timeout_in_ms = max(options.timeout_in_ms, incoming.timeout_in_ms)
    if incoming.inter_op_thread_pool > 0:
        options.inter_op_thread_pool = incoming.inter_op_thread_pool
    options.output_partition_graphs |= incoming.output_partition_graphs
    options.output_pass_graphs |= incoming.output_pass_graphs
