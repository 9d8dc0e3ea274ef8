"""The batch of a model with stages, divided into micro-batches."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

import sparkflow as tf
from sparkflow.spark.graphs.batch_tensors import BatchTensors, DrawnBatch
from sparkflow.spark.graphs.devices import WORKER_DEVICE
from sparkflow.spark.graphs.stages import divide, keep_variables, require_all_used, stage_of
from sparkflow.train.optimizers.strategy import Replication
from sparkflow.train.replication.micro_batches import MicroBatches

PER_STAGE: Final = 2
"""The default number of micro-batches per stage.

Filling and draining the pipeline then takes a ninth of the time, whatever the number of stages.
Matrix products of fewer rows would lose more than that.
"""

Examples = Callable[[], Sequence[Any]]
"""Returns arrays with an example of a part of a batch, input by input."""


class Pipeline:
    """The micro-batches of a batch, and the strategy that combines their gradients.

    Args:
        drawn: The batch.
        inner: The strategy that receives the gradients of whole batches.
        num_stages: The number of tasks that work in parallel.
        num_micro_batches: The number of parts of the batch.
        examples: Returns the value of each tensor of a part, to measure the time of layers if the
            model's function does not assign stages.
        shards: The parameter servers next to each stage.

    Attributes:
        first: The micro-batch that the model's function is called with.
        strategy: The strategy to be in scope during the call.
    """

    def __init__(
        self,
        drawn: DrawnBatch,
        inner: Replication,
        num_stages: int,
        num_micro_batches: int,
        examples: Examples | None = None,
        shards: Sequence[Sequence[int]] = (),
    ) -> None:
        with tf.device(WORKER_DEVICE), tf.name_scope("micro_batches"):
            batches, rows, sizes = _cut(drawn.batch, num_micro_batches)
        self.first = batches[0]
        self._num_stages = num_stages
        self._examples = examples
        self._shards = shards
        self.strategy = MicroBatches(
            inner,
            [_tensors(each) for each in batches],
            rows,
            stage_of,
            num_stages,
            self._place,
            sizes,
            [each.name for each in _dense(self.first)],
        )

    def check(self) -> None:
        """Checks that the model's function has used the strategy and all stages.

        Raises:
            ValueError: It has not.
        """
        if not self.strategy.is_used:
            raise ValueError(
                f"modelParallel={self._num_stages} needs the gradients of an optimizer's minimize "
                "or compute_gradients; model_fn computes its own"
            )
        require_all_used(self.strategy.graph, self._num_stages)

    def _place(self, operations: Sequence[Any]) -> None:
        if not any(stage_of(op) for op in operations):
            examples = self._examples
            batch = None if examples is None else lambda: self._example_batch(examples)
            divide(operations, self._num_stages, batch)
        if self._shards:
            keep_variables(operations, self._shards)

    def _example_batch(self, examples: Examples) -> dict[str, Any]:
        names = [tensor.name for tensor in _tensors(self.first)]
        return dict(zip(names, examples(), strict=True))


def _cut(batch: BatchTensors, count: int) -> tuple[list[BatchTensors], list[Any], list[Any]]:
    """Returns even parts of a batch, the rows of each, and the rows of its tensors.

    An empty part gets one row that does not count, because the mean of no rows would be NaN.
    """
    total = tf.shape(_some_dense(batch), out_type=tf.int64)[0]
    bounds = [tf.floordiv(total * number, count) for number in range(count + 1)]
    parts, rows, sizes = [], [], []
    for begin, end in itertools.pairwise(bounds):
        start = tf.minimum(begin, tf.maximum(total - 1, 0))
        size = tf.maximum(end - begin, tf.minimum(total, 1))
        features = batch.features
        parts.append(
            BatchTensors(
                {name: _part(each, start, size) for name, each in features.items()}
                if isinstance(features, dict)
                else _part(features, start, size),
                *(
                    None if each is None else _part(each, start, size)
                    for each in (batch.labels, batch.weights)
                ),
            )
        )
        rows.append(tf.cast(end - begin, tf.float32))
        sizes.append(tf.cast(size, tf.int32))
    return parts, rows, sizes


def _some_dense(batch: BatchTensors) -> Any:
    """Returns a tensor whose first dimension is the number of rows."""
    for each in _dense(batch):
        return each
    return next(iter(_features(batch))).dense_shape  # pragma: no cover  (labels are dense)


def _dense(batch: BatchTensors) -> list[Any]:
    given = (batch.labels, batch.weights, *_features(batch))
    return [each for each in given if each is not None and not isinstance(each, tf.SparseTensor)]


def _features(batch: BatchTensors) -> list[Any]:
    given = batch.features
    return list(given.values()) if isinstance(given, dict) else [given]


def _part(tensor: Any, start: Any, size: Any) -> Any:
    if isinstance(tensor, tf.SparseTensor):
        columns = tensor.dense_shape[1:]
        begin = tf.concat([[start], tf.zeros_like(columns)], 0)
        found = tf.sparse_slice(tensor, begin, tf.concat([[size], columns], 0))
        known = tensor.get_shape().as_list()[1:]
        shape = tf.stack([size, *(columns[i] if n is None else n for i, n in enumerate(known))])
        return tf.SparseTensor(
            tf.identity(found.indices), tf.identity(found.values), tf.cast(shape, tf.int64)
        )
    rest = tensor.shape.as_list()[1:]
    begin = tf.stack([start, *(0 for _ in rest)])
    part = tf.slice(tensor, begin, tf.stack([size, *(-1 for _ in rest)]))
    # Copies with other sizes must not use the size of the first part.
    return tf.placeholder_with_default(part, [None, *rest])


def _tensors(batch: BatchTensors) -> list[Any]:
    found: list[Any] = []
    for each in (*_features(batch), batch.labels, batch.weights):
        if isinstance(each, tf.SparseTensor):
            found += [each.indices, each.values, each.dense_shape]
        elif each is not None:
            found.append(each)
    return found
