"""Batches of examples through queues: `batch`, `shuffle_batch` and their relatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sparkflow import summary
from sparkflow._api import export
from sparkflow.graph.constant_value import constant_value
from sparkflow.graph.scopes import apply_op, convert_to_tensor, name_scope
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.sparse_tensor import SparseTensor
from sparkflow.ops.elementwise import comparison, elementwise
from sparkflow.ops.shape import arrays, constants
from sparkflow.queues.queue_base import QueueBase
from sparkflow.queues.queues import FIFOQueue, PaddingFIFOQueue, RandomShuffleQueue
from sparkflow.train.queue_runner import QueueRunner, add_queue_runner
from sparkflow_runtime.dtypes import DType, bool_, float32


@dataclass(frozen=True)
class _Kept:
    """How to restore a sparse tensor from the handle in the queue.

    Attributes:
        dtype: The dtype of its values.
        map_name: The name of the map that stores it.
        rank: The rank of the batch; None if unknown.
    """

    dtype: DType
    map_name: str
    rank: int | None


@dataclass(frozen=True)
class Batching:
    """The arguments that all functions of this family accept.

    Attributes:
        batch_size: The number of examples per batch.
        enqueue_many: Whether each input has several examples, along its first axis.
        shapes: The shapes of an example's components; None for those of the inputs.
        allow_smaller_final_batch: Whether to return the remaining examples when the data end.
        shared_name: The name under which sessions share the queue.
    """

    batch_size: Any
    enqueue_many: bool
    shapes: Any
    allow_smaller_final_batch: bool
    shared_name: str | None


def batches(
    examples: Sequence[Any],
    keep_input: Any,
    threads: int,
    options: Batching,
    scope: tuple[str | None, str],
    make_queue: Callable[..., QueueBase],
    fraction: Callable[[Tensor], tuple[str, Any]],
) -> Any:
    """Returns batches from one or several sources of examples.

    Args:
        examples: The components of each source: a list or dictionary of tensors.
        keep_input: Which examples to keep: one bool, or one per example with `enqueue_many`.
        threads: The number of threads per source.
        options: The other options.
        scope: The requested name, and the default if it is None.
        make_queue: Creates the queue from dtypes, shapes and shared name.
        fraction: Returns the name and value of a summary for the size of the queue.

    Raises:
        ValueError: There is nothing to batch, or a shape is not sufficiently known.
        TypeError: Sources differ in their dtypes.
    """
    sources = [_components(each) for each in examples]
    flat = [component for source in sources for component in source]
    with name_scope(scope[0], scope[1], [*flat, keep_input]) as path:
        keep = _keep(keep_input, options.enqueue_many)
        dense: list[list[Tensor]] = []
        kept: list[_Kept | None] = []
        for source in sources:
            tensors, infos = _dense(source, options.enqueue_many, path, kept)
            dense.append(tensors)
            kept = infos
        types = [[tensor.dtype.base for tensor in tensors] for tensors in dense]
        if any(each != types[0] for each in types[1:]):
            raise TypeError(f"Expected types of all inputs to be {types[0]}, got {types}")
        shapes = _shapes(dense, options.shapes, options.enqueue_many)
        queue = make_queue(types[0], shapes, options.shared_name)
        operations = []
        for tensors in dense:
            operations += [_enqueue(queue, tensors, options.enqueue_many, keep)] * threads
        add_queue_runner(QueueRunner(queue, operations))
        summary.scalar(*fraction(queue.size()))
        take = queue.dequeue_up_to if options.allow_smaller_final_batch else queue.dequeue_many
        taken = take(options.batch_size, name=path)
        outputs = list(taken) if isinstance(taken, list | tuple) else [taken]
        return _like(examples[0], [_sparse(t, k) for t, k in zip(outputs, kept, strict=True)])


def _components(example: Any) -> list[Any]:
    if isinstance(example, dict):
        found = [example[key] for key in sorted(example)]
    else:
        found = list(example) if isinstance(example, list | tuple) else [example]
    if not found:
        raise ValueError("Expected at least one tensor in batch().")
    return [each if isinstance(each, SparseTensor) else convert_to_tensor(each) for each in found]


def _like(example: Any, outputs: list[Any]) -> Any:
    if isinstance(example, dict):
        return dict(zip(sorted(example), outputs, strict=True))
    return outputs[0] if len(outputs) == 1 else outputs


def _keep(keep_input: Any, enqueue_many: bool) -> Tensor | None:
    """Returns which examples to keep; None for all."""
    keep = convert_to_tensor(keep_input, bool_)
    if keep.shape.ndims is None:
        raise ValueError("`keep_input` dimensions must be known at graph construction.")
    if not enqueue_many and keep.shape.ndims == 1:
        raise ValueError("`keep_input` cannot be a vector when `enqueue_many=False`.")
    if keep.shape.ndims > 1:
        raise ValueError("`keep_input` must be 0 or 1 dimensions.")
    known = constant_value(keep)
    return None if known is not None and known.all() else keep


def _dense(
    source: list[Any], enqueue_many: bool, path: str, known: list[_Kept | None]
) -> tuple[list[Tensor], list[_Kept | None]]:
    """Returns the components as tensors; sparse ones are replaced by handles of a map."""
    tensors: list[Tensor] = []
    kept: list[_Kept | None] = []
    for index, component in enumerate(source):
        if not isinstance(component, SparseTensor):
            tensors.append(component)
            kept.append(None)
            continue
        earlier = known[index] if index < len(known) else None
        name = earlier.map_name if earlier is not None else f"{path}sparse_{index}"
        op_type = "AddManySparseToTensorsMap" if enqueue_many else "AddSparseToTensorsMap"
        parts = (component.indices, component.values, component.dense_shape)
        tensors.append(apply_op(op_type, *parts, shared_name=name))
        rank = component.dense_shape.shape[0].value if component.dense_shape.shape.ndims else None
        if rank is not None and not enqueue_many:
            rank += 1
        if earlier is not None and earlier.rank != rank:
            rank = None
        kept.append(_Kept(component.dtype.base, name, rank))
    return tensors, kept


def _sparse(tensor: Tensor, kept: _Kept | None) -> Any:
    if kept is None:
        return tensor
    indices, values, dense_shape = apply_op(
        "TakeManySparseFromTensorsMap", tensor, dtype=kept.dtype, shared_name=kept.map_name
    )
    indices.set_shape([None, kept.rank])
    dense_shape.set_shape([kept.rank])
    return SparseTensor(indices, values, dense_shape)


def _shapes(dense: list[list[Tensor]], given: Any, enqueue_many: bool) -> Any:
    if given is not None:
        return given
    found = []
    for versions in zip(*dense, strict=True):
        shapes = [tensor.shape for tensor in versions]
        if enqueue_many:
            shapes = [shape.with_rank_at_least(1)[1:] for shape in shapes]
        for tensor, shape in zip(versions, shapes, strict=True):
            if shape.ndims is None:
                raise ValueError(f"Cannot infer Tensor's rank: {tensor}")
        ranks = {shape.ndims for shape in shapes}
        if len(ranks) > 1:
            raise ValueError(f"Inputs of one component differ in their ranks: {shapes}")
        columns = zip(*[shape.as_list() for shape in shapes], strict=True)
        found.append(TensorShape([s[0] if len(set(s)) == 1 else None for s in columns]))
    return found


def _enqueue(
    queue: QueueBase, tensors: list[Tensor], enqueue_many: bool, keep: Tensor | None
) -> Any:
    if keep is None:
        return queue.enqueue_many(tensors) if enqueue_many else queue.enqueue(tensors)
    # Examples that are not kept form an empty batch, so no conditional is needed.
    rows = tensors if enqueue_many else [arrays.expand_dims(tensor, 0) for tensor in tensors]
    if keep.shape.ndims == 0:
        count = arrays.gather(arrays.shape(rows[0]), [0])
        keep = constants.fill(count, keep)
    where = arrays.squeeze(comparison.where(keep), [1])
    return queue.enqueue_many([arrays.gather(tensor, where) for tensor in rows])


def _batch(
    tensors: Any,
    keep_input: Any,
    threads: int,
    capacity: int,
    dynamic_pad: bool,
    options: Batching,
    scope: tuple[str | None, str],
) -> Any:
    def make(types: Any, shapes: Any, shared_name: str | None) -> QueueBase:
        kind = PaddingFIFOQueue if dynamic_pad else FIFOQueue
        return kind(capacity, types, shapes, shared_name=shared_name)

    def fraction(size: Tensor) -> tuple[str, Any]:
        return f"fraction_of_{capacity}_full", elementwise.cast(size, float32) * (1.0 / capacity)

    return batches(tensors, keep_input, threads, options, scope, make, fraction)


def _shuffled(
    tensors: Any,
    keep_input: Any,
    threads: int,
    capacity: int,
    min_after_dequeue: int,
    seed: int | None,
    options: Batching,
    scope: tuple[str | None, str],
) -> Any:
    room = capacity - min_after_dequeue
    if room <= 0:  # no batch would ever be there
        raise ValueError(
            f"capacity {capacity} must be bigger than min_after_dequeue {min_after_dequeue}."
        )

    def make(types: Any, shapes: Any, shared_name: str | None) -> QueueBase:
        return RandomShuffleQueue(
            capacity, min_after_dequeue, types, shapes, seed=seed, shared_name=shared_name
        )

    def fraction(size: Tensor) -> tuple[str, Any]:
        over = elementwise.maximum(0, size - min_after_dequeue)
        share = elementwise.cast(over, float32) * (1.0 / room)
        return f"fraction_over_{min_after_dequeue}_of_{capacity}_full", share

    return batches(tensors, keep_input, threads, options, scope, make, fraction)


@export("train.batch")
def batch(
    tensors: Any,
    batch_size: Any,
    num_threads: int = 1,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Returns batches of examples in order of arrival, from a queue filled by a queue runner.

    Args:
        tensors: The components of one example, a list or dictionary of tensors or SparseTensors.
        batch_size: The number of examples per batch.
        num_threads: The number of threads that read examples; with several, the order may change.
        capacity: The maximum number of examples in the queue.
        enqueue_many: Whether `tensors` have several examples, along their first axis.
        shapes: The shapes of an example's components; None for those of `tensors`.
        dynamic_pad: Pad components of varying size with zeros.
        allow_smaller_final_batch: Whether to return the remaining examples when the data end.
        shared_name: The name under which sessions share the queue.
        name: Name of the scope.

    Returns:
        The structure of `tensors`, with an additional leading dimension (unless `enqueue_many`).

    Raises:
        ValueError: A shape is not sufficiently known.
    """
    options = Batching(batch_size, enqueue_many, shapes, allow_smaller_final_batch, shared_name)
    return _batch([tensors], True, num_threads, capacity, dynamic_pad, options, (name, "batch"))


@export("train.maybe_batch")
def maybe_batch(
    tensors: Any,
    keep_input: Any,
    batch_size: Any,
    num_threads: int = 1,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Like `batch`, for the examples whose `keep_input` (one bool, or one per row) is true."""
    options = Batching(batch_size, enqueue_many, shapes, allow_smaller_final_batch, shared_name)
    scope = (name, "maybe_batch")
    return _batch([tensors], keep_input, num_threads, capacity, dynamic_pad, options, scope)


@export("train.batch_join")
def batch_join(
    tensors_list: Sequence[Any],
    batch_size: Any,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Like `batch`, for several sources of examples, each read by its own thread."""
    options = Batching(batch_size, enqueue_many, shapes, allow_smaller_final_batch, shared_name)
    scope = (name, "batch_join")
    return _batch(_joined(tensors_list), True, 1, capacity, dynamic_pad, options, scope)


@export("train.maybe_batch_join")
def maybe_batch_join(
    tensors_list: Sequence[Any],
    keep_input: Any,
    batch_size: Any,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Like `batch_join`, for the examples whose `keep_input` is true."""
    options = Batching(batch_size, enqueue_many, shapes, allow_smaller_final_batch, shared_name)
    scope = (name, "maybe_batch_join")
    return _batch(_joined(tensors_list), keep_input, 1, capacity, dynamic_pad, options, scope)


@export("train.shuffle_batch")
def shuffle_batch(
    tensors: Any,
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    num_threads: int = 1,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Returns batches of examples drawn at random from a queue, which a queue runner fills.

    Args:
        tensors: See `batch`.
        batch_size: See `batch`.
        capacity: See `batch`; above `min_after_dequeue`.
        min_after_dequeue: The number of examples that stay in the queue to be mixed with new ones.
        num_threads: See `batch`.
        seed: The seed of the random draws.
        enqueue_many: See `batch`.
        shapes: See `batch`.
        allow_smaller_final_batch: See `batch`.
        shared_name: See `batch`.
        name: See `batch`.

    Raises:
        ValueError: `capacity` is not above `min_after_dequeue`.
    """
    options = Batching(batch_size, enqueue_many, shapes, allow_smaller_final_batch, shared_name)
    scope = (name, "shuffle_batch")
    return _shuffled(
        [tensors], True, num_threads, capacity, min_after_dequeue, seed, options, scope
    )


@export("train.maybe_shuffle_batch")
def maybe_shuffle_batch(
    tensors: Any,
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    keep_input: Any,
    num_threads: int = 1,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Like `shuffle_batch`, for the examples whose `keep_input` is true."""
    options = Batching(batch_size, enqueue_many, shapes, allow_smaller_final_batch, shared_name)
    scope = (name, "maybe_shuffle_batch")
    return _shuffled(
        [tensors], keep_input, num_threads, capacity, min_after_dequeue, seed, options, scope
    )


@export("train.shuffle_batch_join")
def shuffle_batch_join(
    tensors_list: Sequence[Any],
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Like `shuffle_batch`, for several sources of examples, each read by its own thread."""
    options = Batching(batch_size, enqueue_many, shapes, allow_smaller_final_batch, shared_name)
    scope = (name, "shuffle_batch_join")
    sources = _joined(tensors_list)
    return _shuffled(sources, True, 1, capacity, min_after_dequeue, seed, options, scope)


@export("train.maybe_shuffle_batch_join")
def maybe_shuffle_batch_join(
    tensors_list: Sequence[Any],
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    keep_input: Any,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Like `shuffle_batch_join`, for the examples whose `keep_input` is true."""
    options = Batching(batch_size, enqueue_many, shapes, allow_smaller_final_batch, shared_name)
    scope = (name, "maybe_shuffle_batch_join")
    sources = _joined(tensors_list)
    return _shuffled(sources, keep_input, 1, capacity, min_after_dequeue, seed, options, scope)


def _joined(tensors_list: Sequence[Any]) -> list[Any]:
    """Returns the sources of a `join`: lists or dictionaries with the same structure.

    Raises:
        ValueError: There is none, or their structures differ.
    """
    sources = list(tensors_list)
    if not sources:
        raise ValueError("Expected at least one set of tensors in batch_join().")
    forms = {tuple(sorted(each)) if isinstance(each, dict) else len(each) for each in sources}
    if len(forms) > 1:
        raise ValueError(f"All inputs of a join must have the same components, got {forms}")
    return sources
