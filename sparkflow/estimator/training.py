"""`train_and_evaluate`: in one process, or as one task of a cluster that TF_CONFIG describes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from absl import logging

from sparkflow._api import export
from sparkflow.estimator.estimator import Estimator
from sparkflow.estimator.exporters import Exporter
from sparkflow.graph.collections import GraphKeys
from sparkflow.train.checkpoints.reading import load_checkpoint
from sparkflow.train.clusters.run_environment import (
    CHIEF,
    EVALUATOR,
    MASTER,
    PS,
    WORKER,
    is_single,
)
from sparkflow.train.clusters.server import Server
from sparkflow.train.hooks.checkpoint_hook import CheckpointSaverListener
from sparkflow.train.hooks.step_timer import SecondOrStepTimer
from sparkflow.train.session_run_hook import SessionRunHook

_POLL_S = 0.5
"""How often an evaluator that waits looks for a checkpoint."""


@export("estimator.TrainSpec")
class TrainSpec(
    NamedTuple(
        "TrainSpec",
        [("input_fn", Any), ("max_steps", Any), ("hooks", Any), ("saving_listeners", Any)],
    )
):
    """How to train.

    Args:
        input_fn: As for `Estimator.train`.
        max_steps: The global step to stop at; never, but for the end of the input, when None.
        hooks: As for `Estimator.train`.
        saving_listeners: As for `Estimator.train`.

    Raises:
        ValueError: The number is not above 0.
        TypeError: Something is no function or hook.
    """

    __slots__ = ()

    def __new__(
        cls,
        input_fn: Callable[..., Any],
        max_steps: int | None = None,
        hooks: Sequence[Any] | None = None,
        saving_listeners: Sequence[Any] | None = None,
    ) -> TrainSpec:
        """Checks everything; see the class."""
        _require_callable(input_fn)
        if max_steps is not None and max_steps <= 0:
            raise ValueError(f"Must specify max_steps > 0, given: {max_steps}")
        listeners = tuple(saving_listeners or ())
        return super().__new__(cls, input_fn, max_steps, _checked_hooks(hooks), listeners)


@export("estimator.EvalSpec")
class EvalSpec(
    NamedTuple(
        "EvalSpec",
        [
            ("input_fn", Any),
            ("steps", Any),
            ("name", Any),
            ("hooks", Any),
            ("exporters", Any),
            ("start_delay_secs", Any),
            ("throttle_secs", Any),
        ],
    )
):
    """How to evaluate.

    Args:
        input_fn: As for `Estimator.evaluate`.
        steps: How many batches; all when None.
        name: Tells several evaluations apart.
        hooks: As for `Estimator.evaluate`.
        exporters: What to export with afterwards.
        start_delay_secs: How long an evaluator of a cluster waits first, in seconds.
        throttle_secs: The least time between the starts of two evaluations, in seconds.

    Raises:
        ValueError: A number is out of range, or two exporters have one name.
        TypeError: Something is no function, hook or exporter.
    """

    __slots__ = ()

    def __new__(
        cls,
        input_fn: Callable[..., Any],
        steps: int | None = 100,
        name: str | None = None,
        hooks: Sequence[Any] | None = None,
        exporters: Any = None,
        start_delay_secs: float = 120,
        throttle_secs: float = 600,
    ) -> EvalSpec:
        """Checks everything; see the class."""
        _require_callable(input_fn)
        if steps is not None and steps <= 0:
            raise ValueError(f"Must specify steps > 0, given: {steps}")
        if name is not None and not isinstance(name, str):
            raise TypeError(f"`name` must be string, given: {name}")
        if start_delay_secs < 0:
            raise ValueError(f"Must specify start_delay_secs >= 0, given: {start_delay_secs}")
        if throttle_secs < 0:
            raise ValueError(f"Must specify throttle_secs >= 0, given: {throttle_secs}")
        return super().__new__(
            cls,
            input_fn,
            steps,
            name,
            _checked_hooks(hooks),
            _checked_exporters(exporters),
            start_delay_secs,
            throttle_secs,
        )


def _require_callable(input_fn: Any) -> None:
    if not callable(input_fn):
        raise TypeError(f"`input_fn` must be callable, given: {input_fn}")


def _checked_hooks(hooks: Iterable[Any] | None) -> tuple[Any, ...]:
    found = tuple(hooks or ())
    for hook in found:
        if not isinstance(hook, SessionRunHook):
            raise TypeError(f"All hooks must be `SessionRunHook` instances, given: {hook}")
    return found


def _checked_exporters(given: Any) -> tuple[Exporter, ...]:
    if given is None:
        return ()
    found = (given,) if isinstance(given, Exporter) else tuple(given)
    names = set()
    for exporter in found:
        if not isinstance(exporter, Exporter):
            raise TypeError(f"`exporters` must be an Exporter or several, given: {exporter}")
        if not exporter.name or exporter.name in names:
            raise ValueError(
                "`exporters` must have unique names, which cannot be `None` or empty. Given: "
                f"{[each.name for each in found]}"
            )
        names.add(exporter.name)
    return found


@export("estimator.train_and_evaluate")
def train_and_evaluate(
    estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec
) -> tuple[Any, list[Any]] | None:
    """Trains, evaluates checkpoints meanwhile, and exports.

    In one process, checkpoints are evaluated between two steps. In a cluster each process calls
    this with its own TF_CONFIG: a chief and workers train, a ps serves variables until it is
    ended, an evaluator, outside the cluster, evaluates new checkpoints until the last. A cluster of
    one task needs no server: a chief trains, a `master` evaluates and exports, too.

    Args:
        estimator: What is trained.
        train_spec: How.
        eval_spec: How to evaluate.

    Returns:
        In one process the last metrics and what the exporters returned; of an evaluator the same;
        None of other tasks.

    Raises:
        TypeError: Something is of another kind.
        ValueError: The task is none of these, or an evaluator is numbered other than 0.
    """
    if not isinstance(estimator, Estimator):
        raise TypeError(
            f"`estimator` must have type `tf.estimator.Estimator`, given {type(estimator)}"
        )
    if not isinstance(train_spec, TrainSpec):
        raise TypeError(f"`train_spec` must have type `tf.estimator.TrainSpec`, given {train_spec}")
    if not isinstance(eval_spec, EvalSpec):
        raise TypeError(f"`eval_spec` must have type `tf.estimator.EvalSpec`, given {eval_spec}")
    config = estimator.config
    evaluation = _Evaluation(estimator, eval_spec, train_spec.max_steps)
    if config.task_type == EVALUATOR:
        if config.task_id > 0:
            raise ValueError(
                "For distributed training, there can only be one `evaluator` task (with task id "
                f"0). Given task id {config.task_id}"
            )
        return evaluation.follow()
    if not config.cluster_spec:
        return _train_here(estimator, train_spec, evaluation)
    if config.task_type not in (CHIEF, MASTER, WORKER, PS):
        raise ValueError(
            f"Unknown task type {config.task_type!r}: expected 'chief', 'worker', 'ps' or "
            "'evaluator'"
        )
    if not (is_single(config.cluster_spec) and not config.master):
        server = _serve(config)
        if config.task_type == PS:
            server.join()
            return None
    if config.task_type == MASTER:
        return _train_here(estimator, train_spec, evaluation)
    estimator.train(
        train_spec.input_fn,
        hooks=train_spec.hooks,
        max_steps=train_spec.max_steps,
        saving_listeners=train_spec.saving_listeners if config.is_chief else None,
    )
    return None


def _serve(config: Any) -> Server:
    """The server of this task; sessions connect to it."""
    options = {"config": config.session_config, "protocol": config.protocol or "grpc"}
    return Server(config.cluster_spec, config.task_type, config.task_id, **options)


def _train_here(
    estimator: Estimator, train_spec: TrainSpec, evaluation: _Evaluation
) -> tuple[Any, list[Any]]:
    listener = _EvaluateSaved(evaluation, evaluation.spec.throttle_secs)
    estimator.train(
        train_spec.input_fn,
        hooks=train_spec.hooks,
        max_steps=train_spec.max_steps,
        saving_listeners=[*train_spec.saving_listeners, listener],
    )
    if evaluation.metrics is None:
        evaluation.run(final=True)
    return evaluation.metrics, evaluation.exported


class _Evaluation:
    """Evaluates an estimator's checkpoints, each once, and exports."""

    def __init__(self, estimator: Estimator, spec: EvalSpec, max_steps: int | None) -> None:
        self.spec = spec
        self.metrics: Any = None
        self.exported: list[Any] = []
        self._estimator = estimator
        self._max_steps = max_steps
        self._seen: str | None = None

    def run(self, final: bool = False) -> bool:
        """Evaluates the latest checkpoint; False where there is no new one."""
        path = self._estimator.latest_checkpoint()
        if not path or path == self._seen:
            return False
        self._seen = path
        self.metrics = self._estimator.evaluate(
            self.spec.input_fn,
            steps=self.spec.steps,
            name=self.spec.name,
            hooks=self.spec.hooks,
            checkpoint_path=path,
        )
        final = final or self._is_last(int(self.metrics[GraphKeys.GLOBAL_STEP]))
        self.exported = [
            exporter.export(
                self._estimator,
                os.path.join(self._estimator.model_dir, "export", exporter.name),
                path,
                self.metrics,
                final,
            )
            for exporter in self.spec.exporters
        ]
        return True

    def follow(self) -> tuple[Any, list[Any]]:
        """Evaluates new checkpoints until the one of the last step."""
        if self._max_steps is None:
            logging.info("max_steps is not set: the evaluator runs until it is ended")
        time.sleep(self.spec.start_delay_secs)
        while not self._finished():
            started = time.monotonic()
            new = self.run()
            if self._finished():
                break
            rest = started + self.spec.throttle_secs - time.monotonic()
            time.sleep(max(rest, 0.0) if new else _POLL_S)
        return self.metrics, self.exported

    def _finished(self) -> bool:
        if self._seen is None:
            return False
        return self._is_last(int(load_checkpoint(self._seen).get_tensor(GraphKeys.GLOBAL_STEP)))

    def _is_last(self, step: int) -> bool:
        return self._max_steps is not None and step >= self._max_steps


class _EvaluateSaved(CheckpointSaverListener):
    """Evaluates checkpoints as they are written, the first, of no step, not."""

    def __init__(self, evaluation: _Evaluation, throttle_secs: float) -> None:
        self._evaluation = evaluation
        self._timer = SecondOrStepTimer(every_secs=throttle_secs)
        self._is_first = True

    def begin(self) -> None:
        """Starts the time between two evaluations."""
        self._timer.reset()
        self._is_first = True

    def after_save(self, session: Any, global_step_value: int) -> bool | None:
        """Evaluates when enough time has passed."""
        if self._is_first:
            self._is_first = False
            return None
        if self._timer.should_trigger_for_step(global_step_value):
            self._evaluate(global_step_value)
        else:
            logging.info(
                "Skip the current checkpoint eval due to throttle secs (%s secs).",
                self._evaluation.spec.throttle_secs,
            )
        return None

    def end(self, session: Any, global_step_value: int) -> None:
        """Evaluates the last checkpoint, unless that was done."""
        if global_step_value != self._timer.last_triggered_step():
            self._evaluate(global_step_value, final=True)

    def _evaluate(self, step: int, final: bool = False) -> None:
        self._timer.update_last_triggered_step(step)
        self._evaluation.run(final)
