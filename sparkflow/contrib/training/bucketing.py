"""Batches of similar examples: `bucket` and `bucket_by_sequence_length`."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import sparkflow as tf


def bucket(
    tensors: Any,
    which_bucket: Any,
    batch_size: Any,
    num_buckets: int,
    num_threads: int = 1,
    capacity: int = 32,
    bucket_capacities: Sequence[int] | None = None,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    keep_input: Any = True,
    shared_name: str | None = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Batches of examples of the same bucket.

    Args:
        tensors: One example: a list or dictionary of tensors.
        which_bucket: Scalar int32: its bucket.
        batch_size: A number, or one per bucket.
        num_buckets: The number of buckets, at least 2.
        num_threads: Threads that fill the queues.
        capacity: The size of the queue of batches.
        bucket_capacities: The sizes of the queues of buckets; `capacity` when None.
        shapes: The shapes of the tensors, where they are not known.
        dynamic_pad: Make the examples of a batch equally long, with zeros.
        allow_smaller_final_batch: Give what is left at the end too.
        keep_input: Whether to keep the example.
        shared_name: Shares the queue of batches between sessions.
        name: The name scope.

    Returns:
        The bucket, and the batch in the structure of `tensors`.

    Raises:
        ValueError: Sizes that do not fit, less than two buckets, or shapes that are not known.
    """
    keys = sorted(tensors) if isinstance(tensors, Mapping) else None
    listed = [tensors[key] for key in keys] if keys is not None else list(tensors)
    sizes = list(batch_size) if isinstance(batch_size, list | tuple) else [batch_size] * num_buckets
    if len(sizes) != num_buckets:
        raise ValueError(
            f"If batch_size is a list it must have num_buckets elements, not {len(sizes)}"
        )
    if num_buckets < 2:
        raise ValueError("num_buckets must be >= 2")
    capacities = list(bucket_capacities or [capacity] * num_buckets)
    if len(capacities) != num_buckets:
        raise ValueError(
            f"The list bucket_capacities ({capacities}) must have exactly num_buckets "
            f"({num_buckets}) elements."
        )
    with tf.name_scope(name, "bucket", listed) as scope:
        listed = [tf.convert_to_tensor(each) for each in listed]
        dtypes = [each.dtype.base_dtype for each in listed]
        known = (
            [each.shape for each in listed]
            if shapes is None
            else [tf.TensorShape(each) for each in shapes]
        )
        if not dynamic_pad and not all(each.is_fully_defined() for each in known):
            raise ValueError(f"All shapes must be fully defined: {known}; or set dynamic_pad")
        queues = [_queue(size, dtypes, known, dynamic_pad, None) for size in capacities]
        batches = [tf.TensorShape([None]).concatenate(each) for each in known]
        top = tf.PaddingFIFOQueue(
            capacity=capacity,
            dtypes=[tf.int32, *dtypes],
            shapes=[tf.TensorShape([]), *batches],
            shared_name=shared_name,
            name="top_queue",
        )
        enqueue = _chosen(queues, which_bucket, listed, keep_input)
        tf.train.add_queue_runner(
            tf.train.QueueRunner(
                queues[0],
                [enqueue] * num_threads,
                close_op=tf.group(*[each.close() for each in queues]),
                cancel_op=tf.group(*[each.close(cancel_pending_enqueues=True) for each in queues]),
            )
        )
        moves = []
        for index, (queue, size) in enumerate(zip(queues, sizes, strict=True)):
            take = queue.dequeue_up_to if allow_smaller_final_batch else queue.dequeue_many
            taken = take(size, name=f"read_bucket_{index}")
            taken = list(taken) if isinstance(taken, list | tuple) else [taken]
            moves.append(top.enqueue([tf.constant(index), *taken], name=f"enqueue_{index}"))
        tf.train.add_queue_runner(
            tf.train.QueueRunner(
                top,
                moves,
                queue_closed_exception_types=(tf.errors.OutOfRangeError, tf.errors.CancelledError),
            )
        )
        full = tf.cast(top.size(), tf.float32) / float(capacity)
        tf.summary.scalar(f"bucket/{top.name}/fraction_of_{capacity}_full", full)
        which, *outputs = top.dequeue(name=scope)
        for tensor, shape in zip(outputs, batches, strict=True):
            tensor.set_shape(shape)
    if keys is not None:
        return which, dict(zip(keys, outputs, strict=True))
    return which, outputs


def _queue(capacity: int, dtypes: Any, shapes: Any, pad: bool, name: str | None) -> Any:
    kind = tf.PaddingFIFOQueue if pad else tf.FIFOQueue
    return kind(capacity=capacity, dtypes=dtypes, shapes=shapes, shared_name=name, name="bucket")


def _chosen(queues: Sequence[Any], which: Any, tensors: Sequence[Any], keep: Any) -> Any:
    """The operation that puts an example into its bucket's queue."""

    def into(queue: Any) -> Any:
        def enqueue() -> Any:
            with tf.control_dependencies([queue.enqueue(list(tensors))]):
                return tf.constant(True)

        return enqueue

    def put() -> Any:
        cases = [(tf.equal(which, index), into(each)) for index, each in enumerate(queues[:-1])]
        return tf.case(cases, default=into(queues[-1]), exclusive=False)

    if keep is True:
        return put().op
    return tf.cond(tf.convert_to_tensor(keep), put, lambda: tf.constant(False)).op


def bucket_by_sequence_length(
    input_length: Any,
    tensors: Any,
    batch_size: Any,
    bucket_boundaries: Sequence[int],
    num_threads: int = 1,
    capacity: int = 32,
    bucket_capacities: Sequence[int] | None = None,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    keep_input: Any = True,
    shared_name: str | None = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Batches of examples of similar length.

    Args:
        input_length: Scalar int32: the length of the example.
        tensors: See `bucket`, as for the other arguments.
        batch_size: See there.
        bucket_boundaries: Increasing lengths; bucket i has those from boundary i - 1 to below i.
        num_threads: See there.
        capacity: See there.
        bucket_capacities: See there.
        shapes: See there.
        dynamic_pad: See there.
        allow_smaller_final_batch: See there.
        keep_input: See there.
        shared_name: See there.
        name: See there.

    Returns:
        The lengths, and the batch.

    Raises:
        ValueError: No boundaries, or boundaries that do not increase.
        TypeError: Boundaries that are no integers.
    """
    boundaries: list[Any] = list(bucket_boundaries)
    if not boundaries:
        raise ValueError("bucket_boundaries must not be empty")
    for low, high in itertools.pairwise(boundaries):
        if not isinstance(low, int) or not isinstance(high, int):
            raise TypeError(f"bucket boundaries must be integers, but saw: {low} and {high}")
        if low >= high:
            raise ValueError(
                f"Buckets must contain sequential increasing lengths, but saw: {low} before {high}"
            )
    with tf.name_scope(name, "bucket_by_sequence_length"):
        length = tf.convert_to_tensor(input_length, tf.int32)
        which = tf.reduce_sum(tf.cast(length >= tf.constant(boundaries), tf.int32))
        keys = sorted(tensors) if isinstance(tensors, Mapping) else None
        listed = [tensors[key] for key in keys] if keys is not None else list(tensors)
        _, outputs = bucket(
            [length, *listed],
            which,
            batch_size,
            len(boundaries) + 1,
            num_threads,
            capacity,
            bucket_capacities,
            [tf.TensorShape([]), *shapes] if shapes is not None else None,
            dynamic_pad,
            allow_smaller_final_batch,
            keep_input,
            shared_name,
        )
    lengths, *rest = outputs
    return lengths, dict(zip(keys, rest, strict=True)) if keys is not None else rest
