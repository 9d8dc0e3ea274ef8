"""`MonitoredTrainingSession`: a monitored session with the usual hooks; `basic_train_loop`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from sparkflow._api import export
from sparkflow.train.hooks.checkpoint_hook import CheckpointSaverHook
from sparkflow.train.hooks.step_hooks import StepCounterHook
from sparkflow.train.hooks.summary_hook import SummarySaverHook
from sparkflow.train.session_run_hook import SessionRunHook
from sparkflow.train.sessions.monitored_session import MonitoredSession
from sparkflow.train.sessions.scaffold import Scaffold
from sparkflow.train.sessions.session_creators import ChiefSessionCreator, WorkerSessionCreator
from sparkflow_runtime.errors import AbortedError
from sparkflow_runtime.protos.config_pb2 import ConfigProto

USE_DEFAULT: Final = object()


@export("train.MonitoredTrainingSession")
def MonitoredTrainingSession(
    master: str = "",
    is_chief: bool = True,
    checkpoint_dir: Any = None,
    scaffold: Scaffold | None = None,
    hooks: Iterable[SessionRunHook] | None = None,
    chief_only_hooks: Iterable[SessionRunHook] | None = None,
    save_checkpoint_secs: Any = USE_DEFAULT,
    save_summaries_steps: Any = USE_DEFAULT,
    save_summaries_secs: Any = USE_DEFAULT,
    config: ConfigProto | None = None,
    stop_grace_period_secs: float = 120,
    log_step_count_steps: int | None = 100,
    max_wait_secs: float = 7200,
    save_checkpoint_steps: Any = USE_DEFAULT,
    summary_dir: Any = None,
) -> MonitoredSession:
    """A monitored session that saves checkpoints and summaries (the chief's) or waits for it.

    Args:
        master: The target of the session.
        is_chief: Whether this task initialises, saves and writes.
        checkpoint_dir: Where checkpoints are; None for none.
        scaffold: What to initialise and save with.
        hooks: Called around each run.
        chief_only_hooks: More of them for the chief.
        save_checkpoint_secs: Seconds between two checkpoints; 600 when nothing is said.
        save_summaries_steps: Steps between two summaries; 100 when nothing is said.
        save_summaries_secs: Seconds between two summaries.
        config: Of the session.
        stop_grace_period_secs: How long threads may take to stop, in seconds, and a run when one of
            them has failed.
        log_step_count_steps: Steps between two records of the rate; None for none.
        max_wait_secs: How long a worker waits for the chief, in seconds.
        save_checkpoint_steps: Steps between two checkpoints.
        summary_dir: Where summaries go; `checkpoint_dir` when None.
    """
    summaries = _timing(save_summaries_steps, save_summaries_secs, (100, None))
    checkpoints = _timing(save_checkpoint_steps, save_checkpoint_secs, (None, 600))
    scaffold = scaffold or Scaffold()
    if not is_chief:
        worker = WorkerSessionCreator(
            scaffold=scaffold, master=master, config=config, max_wait_secs=max_wait_secs
        )
        return MonitoredSession(worker, hooks, stop_grace_period_secs)
    all_hooks: list[SessionRunHook] = list(chief_only_hooks or ())
    summary_dir = summary_dir or checkpoint_dir
    if summary_dir:
        if log_step_count_steps:
            all_hooks.append(
                StepCounterHook(every_n_steps=log_step_count_steps, output_dir=summary_dir)
            )
        if any(summaries):
            steps, seconds = summaries
            all_hooks.append(
                SummarySaverHook(
                    scaffold=scaffold,
                    save_steps=steps or None,
                    save_secs=seconds or None,
                    output_dir=summary_dir,
                )
            )
    if checkpoint_dir and any(checkpoints):
        steps, seconds = checkpoints
        all_hooks.append(
            CheckpointSaverHook(
                checkpoint_dir,
                save_steps=steps or None,
                save_secs=seconds or None,
                scaffold=scaffold,
            )
        )
    all_hooks.extend(hooks or ())
    chief = ChiefSessionCreator(
        scaffold=scaffold, checkpoint_dir=checkpoint_dir, master=master, config=config
    )
    return MonitoredSession(chief, all_hooks, stop_grace_period_secs)


@export("train.basic_train_loop")
def basic_train_loop(
    supervisor: Any,
    train_step_fn: Callable[..., Any],
    args: Iterable[Any] | None = None,
    kwargs: dict[str, Any] | None = None,
    master: str = "",
) -> None:
    """Calls a function with a supervisor's session until the supervisor stops.

    Args:
        supervisor: Manages the session, which is made anew when a task is lost.
        train_step_fn: Called with the session, `args` and `kwargs`.
        args: More arguments.
        kwargs: More keyword arguments.
        master: The target of the session.
    """
    arguments = tuple(args or ())
    retry = True
    while retry:
        retry = False
        try:
            with supervisor.managed_session(master) as session:
                while not supervisor.should_stop():
                    train_step_fn(session, *arguments, **(kwargs or {}))
        except AbortedError:
            retry = True


def _timing(steps: Any, seconds: Any, default: tuple[Any, Any]) -> tuple[Any, Any]:
    """Steps and seconds, of which what is not given is None; the default if none is given."""
    if steps is USE_DEFAULT and seconds is USE_DEFAULT:
        return default
    return (
        None if steps is USE_DEFAULT else steps,
        None if seconds is USE_DEFAULT else seconds,
    )
