"""Training and evaluating with monitored sessions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sparkflow as tf

_EVAL_STEP = "eval_step"


def get_or_create_eval_step() -> Any:
    """The counter of evaluation steps, a local variable.

    Raises:
        ValueError: There are several.
    """
    found = tf.get_collection(tf.GraphKeys.EVAL_STEP)
    if len(found) > 1:
        raise ValueError("Multiple tensors added to tf.GraphKeys.EVAL_STEP")
    if found:
        return found[0]
    return tf.get_local_variable(
        _EVAL_STEP,
        shape=[],
        dtype=tf.int64,
        initializer=tf.zeros_initializer(),
        collections=[tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.EVAL_STEP],
    )


class StopAfterNEvalsHook(tf.train.SessionRunHook):
    """Stops after a number of evaluation steps.

    Args:
        num_evals: The number; None for never.
        log_progress: Log each step.
    """

    def __init__(self, num_evals: int | None, log_progress: bool = True) -> None:
        self._count = num_evals
        self._log = log_progress
        self._step: Any = None

    def _set_evals_completed_tensor(self, updated_eval_step: Any) -> None:
        self._step = updated_eval_step

    def before_run(self, run_context: Any) -> Any:
        """Asks for the counter."""
        return tf.train.SessionRunArgs({"evals_completed": self._step})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Stops when there were enough."""
        done = run_values.results["evals_completed"]
        if self._log:
            tf.logging.info("Evaluation [%d/%s]", done, self._count or "?")
        if self._count is not None and done >= self._count:
            run_context.request_stop()


class SummaryAtEndHook(tf.train.SessionRunHook):
    """Writes a summary when the session ends.

    Args:
        log_dir: Where it goes, unless there is a writer.
        summary_writer: Where it goes.
        summary_op: Makes it; all of the graph's when None.
        feed_dict: Fed to it.
    """

    def __init__(
        self,
        log_dir: str | None = None,
        summary_writer: Any = None,
        summary_op: Any = None,
        feed_dict: Any = None,
    ) -> None:
        self._log_dir = log_dir
        self._writer = summary_writer
        self._op = summary_op
        self._feeds = feed_dict
        self._step: Any = None

    def begin(self) -> None:
        """Finds the summary and the step counter."""
        if self._op is None:
            self._op = tf.summary.merge_all()
        self._step = tf.train.get_or_create_global_step()

    def end(self, session: Any) -> None:
        """Writes the summary."""
        if self._op is None:
            return
        step = session.run(self._step)
        summary = session.run(self._op, self._feeds)
        if self._writer is not None:
            self._writer.add_summary(summary, step)
            self._writer.flush()
        elif self._log_dir:
            with tf.summary.FileWriter(self._log_dir) as writer:
                writer.add_summary(summary, step)


def evaluate_once(
    checkpoint_path: str,
    master: str = "",
    scaffold: Any = None,
    eval_ops: Any = None,
    feed_dict: Any = None,
    final_ops: Any = None,
    final_ops_feed_dict: Any = None,
    hooks: Sequence[Any] | None = None,
    config: Any = None,
) -> Any:
    """Restores a checkpoint and evaluates until a hook stops it.

    Args:
        checkpoint_path: The checkpoint.
        master: The server to run on.
        scaffold: Initializes the graph.
        eval_ops: What each step runs: a tensor, or a list or dictionary of them.
        feed_dict: Fed to it.
        final_ops: What runs last.
        final_ops_feed_dict: Fed to it.
        hooks: Session run hooks, such as `StopAfterNEvalsHook`.
        config: A `ConfigProto`.

    Returns:
        What `final_ops` gave, None where there are none.
    """
    step = get_or_create_eval_step()
    counted = tf.assign_add(step, 1, use_locking=True)
    hooks = list(hooks or ())
    for each in hooks:
        if isinstance(each, StopAfterNEvalsHook):
            each._set_evals_completed_tensor(counted)
    ran = [*tf.nest.flatten(eval_ops), counted] if eval_ops is not None else None
    creator = tf.train.ChiefSessionCreator(
        scaffold=scaffold,
        checkpoint_filename_with_path=checkpoint_path,
        master=master,
        config=config,
    )
    final = tf.train.FinalOpsHook(final_ops, final_ops_feed_dict)
    with tf.train.MonitoredSession(creator, hooks=[*hooks, final]) as session:
        while ran is not None and not session.should_stop():
            session.run(ran, feed_dict)
    return final.final_ops_values


def evaluate_repeatedly(
    checkpoint_dir: str,
    master: str = "",
    scaffold: Any = None,
    eval_ops: Any = None,
    feed_dict: Any = None,
    final_ops: Any = None,
    final_ops_feed_dict: Any = None,
    eval_interval_secs: float = 60,
    hooks: Sequence[Any] | None = None,
    config: Any = None,
    max_number_of_evaluations: int | None = None,
    timeout: float | None = None,
    timeout_fn: Callable[[], bool] | None = None,
) -> Any:
    """Evaluates each new checkpoint of a directory, see `evaluate_once`. Blocks.

    Args:
        checkpoint_dir: The directory to watch.
        master: See `evaluate_once`, as for the other arguments.
        scaffold: See there.
        eval_ops: See there.
        feed_dict: See there.
        final_ops: See there.
        final_ops_feed_dict: See there.
        eval_interval_secs: The least time between two evaluations, in seconds.
        hooks: See there.
        config: See there.
        max_number_of_evaluations: Stop after this many, None for never.
        timeout: How long to wait for a checkpoint, in seconds; for ever when None.
        timeout_fn: Called when the time is over; the loop ends when it returns true.

    Returns:
        What the last `final_ops` gave.
    """
    result = None
    paths = tf.train.checkpoints_iterator(checkpoint_dir, eval_interval_secs, timeout, timeout_fn)
    for count, path in enumerate(paths, 1):
        result = evaluate_once(
            path,
            master,
            scaffold,
            eval_ops,
            feed_dict,
            final_ops,
            final_ops_feed_dict,
            hooks,
            config,
        )
        if max_number_of_evaluations is not None and count >= max_number_of_evaluations:
            break
    return result


def train(
    train_op: Any,
    logdir: str | None,
    master: str = "",
    is_chief: bool = True,
    scaffold: Any = None,
    hooks: Sequence[Any] | None = None,
    chief_only_hooks: Sequence[Any] | None = None,
    save_checkpoint_secs: float = 600,
    save_summaries_steps: int | None = 100,
    config: Any = None,
    max_wait_secs: float = 7200,
) -> Any:
    """Runs a training step until a hook stops it.

    Args:
        train_op: What `create_train_op` gave.
        logdir: Where checkpoints and summaries go; None for nowhere.
        master: The server to run on.
        is_chief: Whether this process initializes, saves and writes summaries.
        scaffold: Initializes the graph.
        hooks: Session run hooks.
        chief_only_hooks: Those of the chief.
        save_checkpoint_secs: How often checkpoints are written, in seconds.
        save_summaries_steps: How often summaries are, in steps.
        config: A `ConfigProto`.
        max_wait_secs: How long to wait for the chief, in seconds.

    Returns:
        What the last step gave, None where there was none.

    Raises:
        ValueError: Summaries or checkpoints are wanted and there is no `logdir`.
    """
    if logdir is None and is_chief and (save_summaries_steps or save_checkpoint_secs):
        raise ValueError(
            "logdir cannot be None when save_summaries_steps or save_checkpoint_secs are given"
        )
    with tf.train.MonitoredTrainingSession(
        master=master,
        is_chief=is_chief,
        checkpoint_dir=logdir,
        scaffold=scaffold,
        hooks=hooks,
        chief_only_hooks=chief_only_hooks,
        save_checkpoint_secs=save_checkpoint_secs,
        save_summaries_steps=save_summaries_steps,
        config=config,
        max_wait_secs=max_wait_secs,
    ) as session:
        result = None
        while not session.should_stop():
            result = session.run(train_op)
    return result


def rejection_sample(
    tensors: Sequence[Any],
    accept_prob_fn: Callable[[Sequence[Any]], Any],
    batch_size: int,
    queue_threads: int = 1,
    enqueue_many: bool = False,
    prebatch_capacity: int = 16,
    prebatch_threads: int = 1,
    runtime_checks: bool = False,
    name: str | None = None,
) -> list[Any]:
    """Batches of examples that are each kept with a probability of their own.

    Args:
        tensors: One example, or with `enqueue_many` several.
        accept_prob_fn: From an example to the probability that it is kept.
        batch_size: The size of the batches.
        queue_threads: Threads that fill the queue.
        enqueue_many: Whether the first dimension of `tensors` is that of examples.
        prebatch_capacity: The size of the queue that takes them apart.
        prebatch_threads: Threads that fill that one.
        runtime_checks: Fail in steps where a probability is not from 0 to 1.
        name: The name scope.
    """
    with tf.variable_scope(name, "rejection_sample", list(tensors)):
        listed = [tf.convert_to_tensor(each) for each in tensors]
        if enqueue_many:
            listed = tf.train.batch(
                listed, 1, prebatch_threads, prebatch_capacity, enqueue_many=True
            )
            listed = [tf.squeeze(each, [0]) for each in listed]
        probability = accept_prob_fn(listed)
        if runtime_checks:
            inside = tf.logical_and(probability >= 0, probability <= 1)
            with tf.control_dependencies([tf.Assert(inside, [probability])]):
                probability = tf.identity(probability)
        keep = tf.random_uniform([]) < probability
        batches = tf.train.maybe_batch(
            listed, keep, batch_size, num_threads=queue_threads, enqueue_many=False
        )
        return list(batches) if isinstance(batches, list | tuple) else [batches]
