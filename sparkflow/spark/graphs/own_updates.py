"""What a train_op changes by itself, beside the optimizers that a replication strategy follows."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import sparkflow as tf
from sparkflow.graph.operation import Operation, ancestors
from sparkflow_runtime.ops import registry

_log = logging.getLogger(__name__)


def require_replicated(train_op: Any, updates: Sequence[Operation], sync_mode: str) -> None:
    """Checks that the workers' updates meet: those of optimizers do, others are each worker's own.

    It warns, once, of a trainable variable that something else changes in the same step.

    Args:
        train_op: What each step runs, an operation or a tensor.
        updates: The updates that optimizers made.
        sync_mode: One that is not asynchronous.

    Raises:
        ValueError: The step runs no update of an optimizer.
    """
    run = train_op if isinstance(train_op, Operation) else tf.convert_to_tensor(train_op).op
    step = ancestors([run])
    replicated = [op for op in updates if op in step or op.graph is not run.graph]
    if not replicated:
        raise ValueError(
            f"With syncMode={sync_mode!r} the train_op must come from an optimizer's "
            "minimize or apply_gradients; this one does not"
        )
    trainable = {
        variable._to_tensor(as_ref=True).op.outputs[0]: variable
        for variable in tf.trainable_variables()
    }
    for op in step - ancestors(replicated):
        kind = registry.find(op.type)
        variable = trainable.get(op.inputs[0]) if op.inputs else None
        if variable is not None and kind.stateful and not kind.only_reads:
            _log.warning(
                "%s: %s changes the trainable variable %s, but not by an optimizer's minimize or "
                "apply_gradients: with syncMode=%r, each worker does so by itself",
                op.source or "model_fn",
                op.name,
                variable.op.name,
                sync_mode,
            )
            return
