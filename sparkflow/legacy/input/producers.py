"""Queues of file names, numbers and slices that queue runners fill, epoch by epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow import summary
from sparkflow._api import export
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.scopes import apply_op, control_dependencies, convert_to_tensor, name_scope
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.control import ordering as control
from sparkflow.ops.control.debugging import Assert
from sparkflow.ops.elementwise import comparison, elementwise
from sparkflow.ops.random import random
from sparkflow.ops.shape import arrays, constants
from sparkflow.queues.queues import FIFOQueue
from sparkflow.train.queue_runner import QueueRunner, add_queue_runner
from sparkflow.variables.variable import Variable
from sparkflow_runtime.dtypes import float32, int32, int64, string


@export("train.limit_epochs")
def limit_epochs(tensor: Any, num_epochs: int | None = None, name: str | None = None) -> Any:
    """Returns `tensor`, which can be read `num_epochs` times before OutOfRangeError.

    The count is a local variable, `epochs`: run `tf.local_variables_initializer()`.

    Args:
        tensor: Any tensor.
        num_epochs: The number of reads; None for no limit.
        name: Name of the scope.

    Raises:
        ValueError: `num_epochs` is not positive.
    """
    if num_epochs is None:
        return tensor
    if num_epochs <= 0:
        raise ValueError(f"num_epochs must be > 0 not {num_epochs}.")
    with name_scope(name, "limit_epochs", [tensor]) as scope:
        epochs = Variable(
            constants.constant(0, int64),
            name="epochs",
            trainable=False,
            collections=[GraphKeys.LOCAL_VARIABLES],
        )
        counter = epochs.count_up_to(num_epochs)
        with control_dependencies([counter]):
            return control.identity(tensor, name=scope)


@export("train.input_producer")
def input_producer(
    input_tensor: Any,
    element_shape: Any = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    summary_name: str | None = None,
    name: str | None = None,
    cancel_op: Any = None,
) -> FIFOQueue:
    """Returns a queue of the rows of a tensor, filled by a queue runner.

    Args:
        input_tensor: [rows, ...].
        element_shape: The shape of a row if the tensor's static shape is unknown.
        num_epochs: The number of times that each row is produced; None for no limit.
        shuffle: Whether to shuffle the rows in each epoch.
        seed: The seed of the shuffles.
        capacity: The maximum number of rows in the queue.
        shared_name: The name under which sessions share the queue.
        summary_name: The name of a scalar summary of the queue's fill level; None for no summary.
        name: Name of the queue.
        cancel_op: Run when the runner is cancelled, instead of closing the queue.

    Raises:
        ValueError: The shape of a row is not fully known.
    """
    with name_scope(name, "input_producer", [input_tensor]):
        rows = convert_to_tensor(input_tensor, name="input_tensor")
        row_shape = rows.shape[1:].merge_with(TensorShape(element_shape))
        if not row_shape.is_fully_defined():
            raise ValueError(
                "Either `input_tensor` must have a fully defined shape or `element_shape` must be "
                "specified"
            )
        if shuffle:
            rows = random.random_shuffle(rows, seed=seed)
        rows = limit_epochs(rows, num_epochs)
        queue = FIFOQueue(
            capacity,
            [rows.dtype.base],
            [row_shape],
            shared_name=shared_name,
            name=name or "fifo_queue",
        )
        enqueue = queue.enqueue_many([rows])
        add_queue_runner(QueueRunner(queue, [enqueue], cancel_op=cancel_op))
        if summary_name is not None:
            summary.scalar(summary_name, elementwise.cast(queue.size(), float32) * (1.0 / capacity))
        return queue


@export("train.string_input_producer")
def string_input_producer(
    string_tensor: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
    cancel_op: Any = None,
) -> FIFOQueue:
    """Returns a queue of strings, for instance file names, filled by a queue runner.

    Args:
        string_tensor: [count] strings, at least one.
        num_epochs: See `input_producer`.
        shuffle: See `input_producer`.
        seed: See `input_producer`.
        capacity: See `input_producer`.
        shared_name: See `input_producer`.
        name: See `input_producer`.
        cancel_op: See `input_producer`.

    Raises:
        ValueError: There are no strings; InvalidArgumentError if only known at run time.
    """
    empty = "string_input_producer requires a non-null input tensor"
    if not isinstance(string_tensor, Tensor | Variable) and not len(string_tensor):
        raise ValueError(empty)
    with name_scope(name, "input_producer", [string_tensor]) as scope:
        strings = convert_to_tensor(string_tensor, string)
        some = comparison.greater(arrays.size(strings), 0)
        with control_dependencies([Assert(some, [empty])]):
            strings = control.identity(strings)
        return input_producer(
            strings,
            [],
            num_epochs,
            shuffle,
            seed,
            capacity,
            shared_name,
            f"fraction_of_{capacity}_full",
            scope,
            cancel_op,
        )


@export("train.range_input_producer")
def range_input_producer(
    limit: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> FIFOQueue:
    """Returns a queue of the integers from 0 to `limit` - 1, filled by a queue runner.

    Args:
        limit: A scalar integer.
        num_epochs: See `input_producer`.
        shuffle: See `input_producer`.
        seed: See `input_producer`.
        capacity: See `input_producer`.
        shared_name: See `input_producer`.
        name: See `input_producer`.
    """
    with name_scope(name, "input_producer", [limit]) as scope:
        return input_producer(
            constants.range(limit),
            [],
            num_epochs,
            shuffle,
            seed,
            capacity,
            shared_name,
            f"fraction_of_{capacity}_full",
            scope,
        )


@export("train.slice_input_producer")
def slice_input_producer(
    tensor_list: Sequence[Any],
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> list[Tensor]:
    """Returns one row of each tensor, with the same index, and another row in each step.

    Args:
        tensor_list: Tensors with the same number of rows.
        num_epochs: See `input_producer`.
        shuffle: See `input_producer`.
        seed: See `input_producer`.
        capacity: See `input_producer`.
        shared_name: See `input_producer`.
        name: See `input_producer`.

    Raises:
        ValueError: There is no tensor.
    """
    with name_scope(name, "input_producer", list(tensor_list)):
        if not tensor_list:
            raise ValueError("Expected at least one tensor in slice_input_producer().")
        tensors = [convert_to_tensor(each) for each in tensor_list]
        count = arrays.gather(arrays.shape(tensors[0]), constants.constant(0, int32))
        queue = range_input_producer(count, num_epochs, shuffle, seed, capacity, shared_name)
        index = queue.dequeue()
        return [arrays.gather(tensor, index) for tensor in tensors]


@export("train.match_filenames_once", "io.match_filenames_once")
def match_filenames_once(pattern: Any, name: str | None = None) -> Variable:
    """Returns a local variable with the file names that match at its initialization.

    Args:
        pattern: One or several file names with wildcards.
        name: Name of the variable.
    """
    with name_scope(name, "matching_filenames", [pattern]) as scope:
        return Variable(
            apply_op("MatchingFiles", pattern),
            name=scope,
            trainable=False,
            validate_shape=False,
            collections=[GraphKeys.LOCAL_VARIABLES],
        )
