"""`InMemoryEvaluatorHook`: evaluations of the variables of a training as they are, unsaved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkflow.estimator.estimator import Estimator
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.scopes import get_collection
from sparkflow.train.hooks.step_timer import SecondOrStepTimer
from sparkflow.train.session_run_hook import (
    LoopLimits,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)


class InMemoryEvaluatorHook(SessionRunHook):
    """Evaluates, in the process that trains, before the first step, now and then, and at the end.

    Unlike `train_and_evaluate` it needs no checkpoint: each evaluation has a graph of its own,
    whose variables get the values of the session that trains. Metrics are written where
    `estimator.evaluate` writes them.

    Args:
        estimator: The estimator that is trained.
        input_fn: As for `Estimator.evaluate`.
        steps: The number of batches; all when None.
        hooks: Called around each batch.
        name: Distinguishes several evaluations.
        every_n_iter: Steps between two evaluations.

    Raises:
        ValueError: The number is not above 0, or the estimator belongs to a cluster.
    """

    def __init__(
        self,
        estimator: Estimator,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Sequence[SessionRunHook] | None = None,
        name: str | None = None,
        every_n_iter: int = 100,
    ) -> None:
        if not every_n_iter > 0:
            raise ValueError(f"every_n_iter must be above 0. Got: {every_n_iter}")
        config = estimator.config
        if config.num_ps_replicas > 0 or config.num_worker_replicas > 1:
            raise ValueError(
                "InMemoryEvaluatorHook evaluates in the process that holds the variables; this "
                f"estimator has {config.num_ps_replicas} parameter servers and "
                f"{config.num_worker_replicas} workers. Use tf.estimator.train_and_evaluate."
            )
        self._estimator = estimator
        self._given = input_fn, steps, hooks, name
        self._every_n_iter = every_n_iter
        self._every = SecondOrStepTimer(every_steps=every_n_iter)

    def begin(self) -> None:
        """Finds the variables."""
        self._every.reset()
        self._done = 0
        found = get_collection(GraphKeys.GLOBAL_VARIABLES)
        self._variables = {each.op.name: each for each in found}

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Evaluates the first values."""
        if self._done == 0:
            self._evaluate(session)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Evaluates after so many steps."""
        self._done += 1
        if self._every.should_trigger_for_step(self._done):
            self._evaluate(run_context.session)

    def loop_limits(self) -> LoopLimits:
        """The runs until the next evaluation."""
        last = self._every.last_triggered_step() or 0
        return LoopLimits(max(1, last + self._every_n_iter - self._done))

    def after_loop(
        self, run_context: SessionRunContext, run_values: SessionRunValues, num_steps: int
    ) -> None:
        """Counts the runs before the last."""
        self._done += num_steps - 1
        self.after_run(run_context, run_values)

    def end(self, session: Any) -> None:
        """Evaluates the last values."""
        if self._every.last_triggered_step() != self._done:
            self._evaluate(session)

    def _evaluate(self, session: Any) -> None:
        self._every.update_last_triggered_step(self._done)
        values = session.run(self._variables)
        self._estimator._evaluate(*self._given, None, values)
