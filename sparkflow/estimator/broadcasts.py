"""A loss in which [N, 1] meets [N]: every row is compared with all others, without an error."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from sparkflow.graph.operation import Operation
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime.ops import registry

_log = logging.getLogger(__name__)


def warn_of_broadcasts(loss: Any, labels: Any) -> None:
    """Warns, once, of an operation below the loss that makes [N, N] of labels and something else.

    That is hardly ever meant, and training seems to work. Compared are static shapes: [?, 1] and
    [?], or [N, 1] and [N]; a bias [10] beside [?, 1] is no such case.

    Args:
        loss: What is minimized.
        labels: The tensor of labels; None where there are none.
    """
    if not isinstance(labels, Tensor):
        return
    for op in _operations_below(loss):
        if not registry.find(op.type).broadcasts or len(op.inputs) != 2:
            continue
        one, other = op.inputs
        if not _crosses(one, other):
            continue
        if labels.name in {each.name for side in (one, other) for each in _tensors_below(side)}:
            where = op.source or "model_fn"
            _log.warning(
                "%s: %s %s and %s %s make %s: each row meets all the others of its batch, so the "
                "loss is not that of the rows. Give both the same shape, with tf.squeeze(..., "
                "axis=1) of the one or tf.expand_dims(..., 1) of the other",
                where,
                one.name,
                one.shape,
                other.name,
                other.shape,
                op.outputs[0].shape,
            )
            return


def _operations_below(tensor: Tensor) -> Iterator[Operation]:
    """The operations that a tensor is computed from, each once."""
    return iter({each.op: None for each in _tensors_below(tensor)})


def _tensors_below(tensor: Tensor) -> Iterator[Tensor]:
    """The tensor and those that it is computed from, each once."""
    seen = set()
    stack = [tensor]
    while stack:
        each = stack.pop()
        if each.name not in seen:
            seen.add(each.name)
            yield each
            stack += each.op.inputs


def _crosses(one: Tensor, other: Tensor) -> bool:
    shapes = [each.shape.as_list() for each in (one, other) if each.shape.ndims is not None]
    if sorted(map(len, shapes)) != [1, 2]:
        return False
    line, column = sorted(shapes, key=len)
    return column[1] == 1 and column[0] == line[0] != 1
