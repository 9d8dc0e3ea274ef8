"""The interface of hooks: `SessionRunHook` and the values passed to its methods."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from sparkflow._api import export
from sparkflow.graph.graph import Graph
from sparkflow_runtime.protos.config_pb2 import RunMetadata, RunOptions


@export("train.SessionRunArgs", "estimator.SessionRunArgs")
class SessionRunArgs(NamedTuple):
    """Fetches, feeds and options of a run, requested by the caller or a hook.

    Attributes:
        fetches: As for `Session.run`.
        feed_dict: Values by tensor, or None.
        options: Options of the run, or None.
    """

    fetches: Any
    feed_dict: Any = None
    options: RunOptions | None = None


@export("train.SessionRunValues", "estimator.SessionRunValues")
class SessionRunValues(NamedTuple):
    """The results of a run that a hook receives.

    Attributes:
        results: Values in the structure of the fetches the hook asked for, else None.
        options: The options the run had, all hooks' together.
        run_metadata: What was recorded.
    """

    results: Any
    options: RunOptions
    run_metadata: RunMetadata


@export("train.LoopLimits")
class LoopLimits(NamedTuple):
    """How long runs may follow each other as a step loop until a hook has to see one again.

    Attributes:
        steps: So many runs at most, the one that is about to begin among them.
        seconds: So many seconds at most; the step under way then is completed.
        bounds: By tensor that the hook fetches: the loop ends after a step in which it is not below
            its bound. NaN is below nothing.
    """

    steps: float = math.inf
    seconds: float = math.inf
    bounds: Mapping[Any, float] = MappingProxyType({})


NO_LIMITS: Final = LoopLimits()
EVERY_RUN: Final = LoopLimits(steps=1)
"""The limits of a hook that has to see every run."""


@export("train.SessionRunContext", "estimator.SessionRunContext")
class SessionRunContext:
    """The run that a hook is called for; also lets hooks end the loop.

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
        """The caller's request, without the additions of hooks."""
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


@export("train.SessionRunHook", "estimator.SessionRunHook")
class SessionRunHook:
    """Code around the runs of a monitored session. Override what is needed.

    The order is `begin`; `after_create_session`, also for each session made after a failure; for
    every run `before_run` and `after_run`; `end`, unless an exception ended the loop.

    Where a session runs step loops (`train.run_loop`, `Estimator.train`), a hook that overrides
    `before_run` or `after_run` has every step run by itself, unless it overrides `loop_limits` too:
    then one pair of calls is about all steps of a loop, and what `after_run` gets is of the last.
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
        """Called before each run; may return further fetches and feeds."""
        return None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Called after each run that did not fail."""

    def end(self, session: Any) -> None:
        """Called at the end of the loop; not after an exception other than OutOfRangeError."""

    def loop_limits(self) -> LoopLimits:
        """How long a loop may last that begins now; called between `before_run` and its first step.

        A hook that gives the same class another `before_run` or `after_run` gives it other limits,
        too: those of a base class do not count then.
        """
        return NO_LIMITS

    def after_loop(
        self, run_context: SessionRunContext, run_values: SessionRunValues, num_steps: int
    ) -> None:
        """Called instead of `after_run` after a loop of `num_steps`, with the last step's values.

        It calls `after_run`, which is enough for hooks that do not count runs.
        """
        self.after_run(run_context, run_values)


def limits_of(hook: Any) -> LoopLimits:
    """The hook's `loop_limits`, if they take its `before_run` and `after_run` into account."""
    calls = ("before_run", "after_run")
    if any(name in getattr(hook, "__dict__", ()) for name in calls):
        return EVERY_RUN
    for kind in type(hook).__mro__:
        if kind is SessionRunHook:
            return NO_LIMITS
        if "loop_limits" in vars(kind):
            limits: LoopLimits = hook.loop_limits()
            return limits
        if any(name in vars(kind) for name in calls):
            return EVERY_RUN
    return EVERY_RUN


def narrowest(limits: Iterable[LoopLimits]) -> LoopLimits:
    """The limits that satisfy all of the given ones."""
    found = list(limits)
    bounds: dict[Any, float] = {}
    for each in found:
        for tensor, bound in each.bounds.items():
            bounds[tensor] = min(bound, bounds.get(tensor, math.inf))
    return LoopLimits(
        min((each.steps for each in found), default=math.inf),
        min((each.seconds for each in found), default=math.inf),
        bounds,
    )
