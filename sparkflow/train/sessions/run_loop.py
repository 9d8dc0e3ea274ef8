"""`run_loop`: many training steps with one call, run inside the runtime."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

from sparkflow._api import export
from sparkflow._api.integers import as_integer
from sparkflow.session.loops import LoopUpdate, StepLoop
from sparkflow.session.session import BaseSession
from sparkflow.train.sessions.coordinator import Coordinator
from sparkflow.train.sessions.loop_request import LoopRequest
from sparkflow.train.sessions.monitored_session import MonitoredSession, SingularMonitoredSession
from sparkflow_runtime.errors import OutOfRangeError

Stop = Callable[[], bool] | threading.Event | Coordinator


@export("train.LoopResult")
class LoopResult(NamedTuple):
    """How `run_loop` ended.

    Attributes:
        num_steps: The number of complete steps.
        values: In the structure of the fetches their values in the last step; None without a step.
        reason: `steps`: all are done; `data`: the data have ended; `stop`: somebody asked to stop,
            the caller's `stop` or a monitored session.
    """

    num_steps: int
    values: Any
    reason: Literal["steps", "data", "stop"]


@export("train.start_loop")
def start_loop(
    session: BaseSession,
    train_op: Any,
    num_steps: int | None = None,
    fetches: Any = None,
    *,
    feed_dict: Mapping[Any, Any] | None = None,
    first_step: int = 0,
) -> StepLoop:
    """Starts a step loop and returns at once, see `run_loop`.

    Several loops of a session may run at the same time, and `Session.run` beside them: they share
    variables and queues, as calls from several threads do.

    Args:
        session: A session without hooks.
        train_op: What to run in every step.
        num_steps: How many steps; until the data end when None.
        fetches: What to report of every step, as for `Session.run`; nothing when None.
        feed_dict: Values by tensor, the same in every step.
        first_step: The number of the first step.

    Returns:
        The loop: iterate over it, `wait` for it, `stop` or `cancel` it.

    Raises:
        TypeError: It is another kind of session.
        ValueError: The number of steps is negative.
        Else as `Session.run` before it runs.
    """
    if not isinstance(session, BaseSession):
        raise TypeError(
            f"start_loop needs a tf.Session or tf.InteractiveSession, got {type(session)}; "
            "run_loop takes monitored sessions, too"
        )
    _check_steps(num_steps)
    request = LoopRequest(
        session.graph, train_op, fetches, feed_dict, num_steps, first_step=first_step
    )
    return request.start(session).narrowed(request.reported)


@export("train.run_loop")
def run_loop(
    session: Any,
    train_op: Any,
    num_steps: int | None = None,
    fetches: Any = None,
    *,
    feed_dict: Mapping[Any, Any] | None = None,
    on_update: Callable[[LoopUpdate], Any] | Iterable[Callable[[LoopUpdate], Any]] = (),
    stop: Stop | None = None,
    first_step: int = 0,
) -> LoopResult:
    """Runs training steps inside the runtime until they are done or the data end. Blocks.

    It does what `session.run([train_op, fetches])` does in a loop of Python, bit for bit, but the
    partitions of the graph go from step to step without a word from the client: a step costs no
    call, over `grpc://` and on parameter servers no round trip. It ends after `num_steps` steps;
    with the data (no OutOfRangeError is raised); when `stop` says so; when a monitored session
    asks to stop. All partitions end at the same step.

    With a monitored session hooks see the runs they need to see: loops run between the steps at
    which the hooks of `tf.train` have something to do. Any other hook has each step run by itself,
    unless it says by `loop_limits` what it needs. A lost task is recovered from as in `run`.

    The timeout `operation_timeout_in_ms` of a session is for single steps, not for loops.

    Args:
        session: A `Session`, in process or at a `grpc://` target, or a monitored session.
        train_op: An operation, or several in lists: run in every step, not fetched.
        num_steps: How many steps; until the data end when None.
        fetches: What to report of every step, as for `Session.run`; on any devices.
        feed_dict: Values by tensor, the same in every step. What differs from step to step comes
            from a dataset or queue.
        on_update: One or several functions that are given a `LoopUpdate` about ten times a second,
            in this thread. A slow one does not hold up the steps: later updates are about more
            steps each. What it raises is raised here, after the step under way is complete.
        stop: Asked about ten times a second whether to stop: a function, an Event or a Coordinator.
            The step under way is completed.
        first_step: The number of the first step, for loops that go on from earlier ones.

    Raises:
        TypeError: An argument is of another kind.
        ValueError: The number of steps is negative.
        OpError: The first failure of any partition; it tells the step. Ctrl-C ends the loop, too.
        Else as `Session.run`.
    """
    _check_steps(num_steps)
    if not isinstance(session, BaseSession | MonitoredSession | SingularMonitoredSession):
        raise TypeError(f"run_loop needs a tf.Session or a monitored session, got {type(session)}")
    if session.graph is None:
        raise RuntimeError("Session is already closed.")
    request = LoopRequest(
        session.graph,
        train_op,
        fetches,
        feed_dict,
        num_steps,
        first_step=first_step,
        listeners=(on_update,) if callable(on_update) else tuple(on_update),
        stops=() if stop is None else (_asked(stop),),
    )
    run = _run_plain if isinstance(session, BaseSession) else _run_monitored
    data_ended = run(session, request)
    if request.left <= 0:
        reason: Literal["steps", "data", "stop"] = "steps"
    else:
        reason = "data" if data_ended else "stop"
    return LoopResult(request.done, request.last, reason)


def _run_plain(session: Any, request: LoopRequest) -> bool:
    """Runs it in one loop; whether the data have ended."""
    if request.left <= 0 or request.wants_stop():
        return False
    end, _ = request.follow(request.start(session))
    return bool(end.out_of_range)


def _run_monitored(session: Any, request: LoopRequest) -> bool:
    """Runs it in loops between what hooks need; whether the data have ended."""
    try:
        while request.left > 0 and not session.should_stop() and not request.wants_stop():
            session._run_steps(request)
    except OutOfRangeError:
        return True
    return False


def _check_steps(num_steps: Any) -> None:
    if num_steps is None:
        return
    number = as_integer(num_steps)
    if number is None:
        raise TypeError(f"num_steps must be a whole number or None, got {num_steps!r}")
    if number < 0:
        raise ValueError(f"num_steps must not be negative, got {number}; None has no limit")


def _asked(stop: Stop) -> Callable[[], bool]:
    if isinstance(stop, Coordinator):
        return stop.should_stop
    if isinstance(stop, threading.Event):
        return stop.is_set
    if callable(stop):
        return stop
    raise TypeError(f"stop must be a function, an Event or a Coordinator, got {stop!r}")
