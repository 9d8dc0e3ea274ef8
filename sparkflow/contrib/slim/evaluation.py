"""Evaluating checkpoints: `slim.evaluation.evaluate_once` and `evaluation_loop`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sparkflow as tf
from sparkflow.contrib.framework.variables import get_variables_to_restore
from sparkflow.train.checkpoints.reading import checkpoints_iterator, wait_for_new_checkpoint

__all__ = [
    "checkpoints_iterator",
    "evaluate_once",
    "evaluation_loop",
    "wait_for_new_checkpoint",
]


def evaluate_once(
    master: str,
    checkpoint_path: str,
    logdir: str | None,
    num_evals: int = 1,
    initial_op: Any = None,
    initial_op_feed_dict: Any = None,
    eval_op: Any = None,
    eval_op_feed_dict: Any = None,
    final_op: Any = None,
    final_op_feed_dict: Any = None,
    summary_op: Any = None,
    summary_op_feed_dict: Any = None,
    variables_to_restore: Any = None,
    session_config: Any = None,
    hooks: Sequence[Any] | None = None,
) -> Any:
    """Restores a checkpoint, runs the evaluation and writes a summary.

    Args:
        master: The server to run on.
        checkpoint_path: The checkpoint.
        logdir: Where the summary goes; None for nowhere.
        num_evals: How often `eval_op` runs.
        initial_op: Runs first, after the local variables are initialized.
        initial_op_feed_dict: Fed to it.
        eval_op: Runs `num_evals` times.
        eval_op_feed_dict: Fed to it.
        final_op: Runs last.
        final_op_feed_dict: Fed to it.
        summary_op: Makes the summary; all of the graph's when None.
        summary_op_feed_dict: Fed to it.
        variables_to_restore: What the checkpoint gives; all saved variables when None.
        session_config: A `ConfigProto`.
        hooks: Session run hooks.

    Returns:
        What `final_op` gave, None where there is none.
    """
    step = tf.train.get_or_create_global_step()
    chosen = get_variables_to_restore() if variables_to_restore is None else variables_to_restore
    saver = tf.train.Saver(chosen)
    if summary_op is None:
        summary_op = tf.summary.merge_all()
    scaffold = tf.train.Scaffold(
        init_op=initial_op, init_feed_dict=initial_op_feed_dict, saver=saver
    )
    creator = tf.train.ChiefSessionCreator(
        scaffold=scaffold,
        checkpoint_filename_with_path=checkpoint_path,
        master=master,
        config=session_config,
    )
    result = None
    with tf.train.MonitoredSession(creator, hooks=list(hooks or ())) as session:
        if eval_op is not None:
            for _ in range(num_evals):
                session.run(eval_op, eval_op_feed_dict)
        if logdir is not None and summary_op is not None:
            summary, at = session.run([summary_op, step], summary_op_feed_dict)
            with tf.summary.FileWriter(logdir) as writer:
                writer.add_summary(summary, at)
        if final_op is not None:
            result = session.run(final_op, final_op_feed_dict)
    return result


def evaluation_loop(
    master: str,
    checkpoint_dir: str,
    logdir: str | None,
    num_evals: int = 1,
    initial_op: Any = None,
    initial_op_feed_dict: Mapping[Any, Any] | None = None,
    init_fn: Callable[[Any], Any] | None = None,
    eval_op: Any = None,
    eval_op_feed_dict: Any = None,
    final_op: Any = None,
    final_op_feed_dict: Any = None,
    summary_op: Any = None,
    summary_op_feed_dict: Any = None,
    variables_to_restore: Any = None,
    eval_interval_secs: float = 60,
    max_number_of_evaluations: int | None = None,
    session_config: Any = None,
    timeout: float | None = None,
    timeout_fn: Callable[[], bool] | None = None,
    hooks: Sequence[Any] | None = None,
) -> Any:
    """Evaluates each new checkpoint of a directory, see `evaluate_once`. Blocks.

    Args:
        master: The server to run on.
        checkpoint_dir: The directory to watch.
        logdir: Where summaries go.
        num_evals: See `evaluate_once`, as for the other arguments.
        initial_op: See there.
        initial_op_feed_dict: See there.
        init_fn: Accepted for TensorFlow's sake.
        eval_op: See there.
        eval_op_feed_dict: See there.
        final_op: See there.
        final_op_feed_dict: See there.
        summary_op: See there.
        summary_op_feed_dict: See there.
        variables_to_restore: See there.
        eval_interval_secs: The least time between two evaluations, in seconds.
        max_number_of_evaluations: Stop after this many, None for never.
        session_config: See there.
        timeout: How long to wait for a checkpoint, in seconds; for ever when None.
        timeout_fn: Called when the time is over; the loop ends when it returns true.
        hooks: See there.

    Returns:
        What the last `final_op` gave.
    """
    result = None
    paths = checkpoints_iterator(checkpoint_dir, eval_interval_secs, timeout, timeout_fn)
    for count, path in enumerate(paths, 1):
        result = evaluate_once(
            master,
            path,
            logdir,
            num_evals,
            initial_op,
            initial_op_feed_dict,
            eval_op,
            eval_op_feed_dict,
            final_op,
            final_op_feed_dict,
            summary_op,
            summary_op_feed_dict,
            variables_to_restore,
            session_config,
            hooks,
        )
        if max_number_of_evaluations is not None and count >= max_number_of_evaluations:
            break
    return result
