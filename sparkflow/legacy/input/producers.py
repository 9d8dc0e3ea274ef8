"""Queues of file names, numbers and slices that runners keep filled, epoch after epoch."""

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
    """`tensor`, which can be read `num_epochs` times; then OutOfRangeError.

    The count is a local variable, `epochs`: run `tf.local_variables_initializer()`.

    Args:
        tensor: Any tensor.
        num_epochs: How often; without limit when None.
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
    """A queue of the rows of a tensor, with a runner that fills it.

    Args:
        input_tensor: [rows, ...].
        element_shape: The shape of a row, where the tensor's static shape does not tell it.
        num_epochs: How often each row comes; without end when None.
        shuffle: Shuffle the rows anew in each epoch.
        seed: The seed of the shuffling.
        capacity: The most rows in the queue.
        shared_name: The name under which sessions share the queue.
        summary_name: The name of a scalar summary of how full it is; none when None.
        name: Name of the queue.
        cancel_op: What the runner's cancelling runs, instead of closing the queue.

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
    """A queue of strings, for instance of file names, with a runner that fills it.

    Args:
        string_tensor: [count] strings, at least one.
        num_epochs: As for `input_producer`; the following ones, too.
        shuffle: As there.
        seed: As there.
        capacity: As there.
        shared_name: As there.
        name: As there.
        cancel_op: As there.

    Raises:
        ValueError: There is no string; where only the run tells, InvalidArgumentError then.
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
    """A queue of the integers from 0 to `limit` - 1, with a runner that fills it.

    Args:
        limit: A scalar integer.
        num_epochs: As for `input_producer`; the following ones, too.
        shuffle: As there.
        seed: As there.
        capacity: As there.
        shared_name: As there.
        name: As there.
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
    """One row of each tensor, the same row of all of them; another one in each step.

    Args:
        tensor_list: Tensors with the same number of rows.
        num_epochs: As for `input_producer`; the following ones, too.
        shuffle: As there.
        seed: As there.
        capacity: As there.
        shared_name: As there.
        name: As there.

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
    """A local variable that keeps the file names that matched when it was initialised.

    Args:
        pattern: A file name with wildcards, or several.
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
