"""Training loops: `slim.learning.create_train_op` and `slim.learning.train`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sparkflow as tf
from sparkflow.contrib.training.train_op import (
    USE_GLOBAL_STEP,
    add_gradients_summaries,
    clip_gradient_norms,
    create_train_op as _create_train_op,
    multiply_gradients,
)

__all__ = [
    "add_gradients_summaries",
    "clip_gradient_norms",
    "create_train_op",
    "multiply_gradients",
    "train",
    "train_step",
]


def create_train_op(
    total_loss: Any,
    optimizer: Any,
    global_step: Any = USE_GLOBAL_STEP,
    update_ops: Sequence[Any] | None = None,
    variables_to_train: Sequence[Any] | None = None,
    clip_gradient_norm: float = 0,
    summarize_gradients: bool = False,
    gate_gradients: int = tf.train.Optimizer.GATE_OP,
    aggregation_method: Any = None,
    colocate_gradients_with_ops: bool = False,
    gradient_multipliers: Mapping[Any, Any] | None = None,
    check_numerics: bool = True,
) -> Any:
    """The loss, which when it is fetched has made one training step.

    Args:
        total_loss: A scalar.
        optimizer: An optimizer.
        global_step: The step counter; the graph's, made if need be, when not given; None for none.
        update_ops: Operations to run first; those of `UPDATE_OPS` when None.
        variables_to_train: What is trained; the trainable variables when None.
        clip_gradient_norm: The longest a gradient may be, 0 for any.
        summarize_gradients: Write summaries of gradients.
        gate_gradients: As for `Optimizer.compute_gradients`, as the next two.
        aggregation_method: See there.
        colocate_gradients_with_ops: See there.
        gradient_multipliers: Factors of gradients, by variable or by its name.
        check_numerics: Fail where the loss is infinite or not a number.

    Raises:
        ValueError: `variables_to_train` is empty.
    """

    def transform(gradients: Any) -> Any:
        if gradient_multipliers:
            gradients = multiply_gradients(gradients, gradient_multipliers)
        if clip_gradient_norm > 0:
            gradients = clip_gradient_norms(gradients, clip_gradient_norm)
        return gradients

    return _create_train_op(
        total_loss=total_loss,
        optimizer=optimizer,
        global_step=global_step,
        update_ops=update_ops,
        variables_to_train=variables_to_train,
        transform_grads_fn=transform,
        summarize_gradients=summarize_gradients,
        gate_gradients=gate_gradients,
        aggregation_method=aggregation_method,
        colocate_gradients_with_ops=colocate_gradients_with_ops,
        check_numerics=check_numerics,
    )


def train_step(
    sess: Any, train_op: Any, global_step: Any, train_step_kwargs: Mapping[str, Any]
) -> tuple[Any, bool]:
    """Runs one step; returns the loss and whether to stop.

    Args:
        sess: The session.
        train_op: What `create_train_op` gave.
        global_step: The step counter.
        train_step_kwargs: `should_stop` and `should_log`: booleans in the graph.
    """
    start = time.monotonic()
    loss, step = sess.run([train_op, global_step])
    if "should_log" in train_step_kwargs and sess.run(train_step_kwargs["should_log"]):
        seconds = time.monotonic() - start
        tf.logging.info("global step %d: loss = %.4f (%.3f sec/step)", step, loss, seconds)
    stop = "should_stop" in train_step_kwargs and bool(sess.run(train_step_kwargs["should_stop"]))
    return loss, stop


def train(
    train_op: Any,
    logdir: str | None,
    train_step_fn: Callable[..., tuple[Any, bool]] = train_step,
    train_step_kwargs: Any = USE_GLOBAL_STEP,
    log_every_n_steps: int = 1,
    graph: Any = None,
    master: str = "",
    is_chief: bool = True,
    global_step: Any = None,
    number_of_steps: int | None = None,
    init_op: Any = USE_GLOBAL_STEP,
    init_feed_dict: Any = None,
    local_init_op: Any = USE_GLOBAL_STEP,
    init_fn: Callable[[Any], Any] | None = None,
    ready_op: Any = USE_GLOBAL_STEP,
    summary_op: Any = USE_GLOBAL_STEP,
    save_summaries_secs: float = 600,
    summary_writer: Any = USE_GLOBAL_STEP,
    startup_delay_steps: int = 0,
    saver: Any = None,
    save_interval_secs: float = 600,
    sync_optimizer: Any = None,
    session_config: Any = None,
    session_wrapper: Callable[[Any], Any] | None = None,
    trace_every_n_steps: int | None = None,
    ignore_live_threads: bool = False,
) -> Any:
    """Trains until `number_of_steps`, from the newest checkpoint in `logdir` if there is one.

    Blocks until training has ended.

    Args:
        train_op: What `create_train_op` gave.
        logdir: Where checkpoints and summaries go; None for nowhere.
        train_step_fn: Makes one step, see `train_step`.
        train_step_kwargs: Passed to it; `should_stop` and `should_log` when not given.
        log_every_n_steps: How often to log the loss.
        graph: The graph of `train_op`; the default graph when None.
        master: The server to run on.
        is_chief: Whether this process initializes, saves and writes summaries.
        global_step: The step counter; the graph's when None.
        number_of_steps: Where to stop, None for never.
        init_op: Initializes the variables; made when not given.
        init_feed_dict: Fed to it.
        local_init_op: Initializes local variables and tables; made when not given.
        init_fn: A function of the session that is called after `init_op`.
        ready_op: Tells what is not initialized yet; made when not given.
        summary_op: Makes the summaries; all of the graph's when not given; None for none.
        save_summaries_secs: How often to write them.
        summary_writer: Where they go; made when not given.
        startup_delay_steps: Wait for this step before starting; for workers that are not chief.
        saver: Writes checkpoints; made when None.
        save_interval_secs: How often to write them.
        sync_optimizer: A `SyncReplicasOptimizer`, or a list of them.
        session_config: A `ConfigProto`.
        session_wrapper: Wraps the session.
        trace_every_n_steps: Accepted for TensorFlow's sake.
        ignore_live_threads: Do not wait for threads at the end.

    Returns:
        The last loss, None where no step was made.

    Raises:
        ValueError: `train_op` is None, or arguments that exclude each other.
    """
    if train_op is None:
        raise ValueError("train_op cannot be None.")
    if logdir is None and summary_op not in (None, USE_GLOBAL_STEP):
        raise ValueError("Cannot provide summary_op because logdir=None")
    if logdir is None and trace_every_n_steps is not None:
        raise ValueError("Cannot provide trace_every_n_steps because logdir=None")
    if sync_optimizer is not None and startup_delay_steps > 0:
        raise ValueError("startup_delay_steps must be zero when sync_optimizer is supplied.")
    if number_of_steps is not None and number_of_steps <= 0:
        raise ValueError("`number_of_steps` must be either None or a positive number.")
    graph = graph or tf.get_default_graph()
    with graph.as_default():
        if global_step is None:
            global_step = tf.train.get_or_create_global_step()
        saver = saver or tf.train.Saver()
        synchronous = (
            sync_optimizer
            if isinstance(sync_optimizer, list | tuple)
            else ([sync_optimizer] if sync_optimizer is not None else [])
        )
        if synchronous and local_init_op is USE_GLOBAL_STEP:
            prepared = [
                each.chief_init_op if is_chief else each.local_step_init_op for each in synchronous
            ]
            local_init_op = tf.group(
                tf.local_variables_initializer(), tf.tables_initializer(), *prepared
            )
        runners = [each.get_chief_queue_runner() for each in synchronous] if is_chief else []
        tokens = [each.get_init_tokens_op() for each in synchronous] if is_chief else []
        default = tf.train.Supervisor.USE_DEFAULT

        def given(value: Any) -> Any:
            return default if value is USE_GLOBAL_STEP else value

        if train_step_kwargs is USE_GLOBAL_STEP:
            train_step_kwargs = {}
            if number_of_steps:
                train_step_kwargs["should_stop"] = tf.greater_equal(global_step, number_of_steps)
            if log_every_n_steps > 0:
                train_step_kwargs["should_log"] = tf.equal(
                    tf.mod(global_step, log_every_n_steps), 0
                )
        supervisor = tf.train.Supervisor(
            graph=graph,
            is_chief=is_chief,
            logdir=logdir,
            init_op=given(init_op),
            init_feed_dict=init_feed_dict,
            local_init_op=given(local_init_op),
            ready_op=given(ready_op),
            summary_op=None if logdir is None else given(summary_op),
            summary_writer=None if logdir is None else given(summary_writer),
            global_step=global_step,
            saver=saver,
            save_summaries_secs=save_summaries_secs,
            save_model_secs=save_interval_secs,
            init_fn=init_fn,
        )
    loss = None
    with supervisor.managed_session(
        master, start_standard_services=False, config=session_config
    ) as session:
        if session_wrapper is not None:
            session = session_wrapper(session)
        if is_chief and logdir is not None:
            supervisor.start_standard_services(session)
        elif startup_delay_steps > 0:
            _wait_for_step(session, global_step, startup_delay_steps, supervisor)
        supervisor.start_queue_runners(session)
        if tokens:
            supervisor.start_queue_runners(session, runners)
            session.run(tokens)
        try:
            while not supervisor.should_stop():
                loss, stop = train_step_fn(session, train_op, global_step, train_step_kwargs)
                if stop:
                    tf.logging.info("Stopping Training.")
                    supervisor.request_stop()
                    break
        except tf.errors.OutOfRangeError:
            tf.logging.info("Caught OutOfRangeError. Stopping Training.")
        if logdir and supervisor.is_chief:
            tf.logging.info("Finished training! Saving model to disk.")
            path = os.path.join(logdir, "model.ckpt")
            supervisor.saver.save(session, path, global_step=global_step)
    return loss


def _wait_for_step(session: Any, global_step: Any, step: int, supervisor: Any) -> None:
    while session.run(global_step) < step and not supervisor.should_stop():
        supervisor.coord.wait_for_stop(1.0)  # seconds
