"""Functions for `Dataset.apply`, and functions of whole datasets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow.data import functions, structure
from sparkflow.data.dataset import Dataset, functions_of_state, known_batch, seeds
from sparkflow.data.registered import of_datasets
from sparkflow.graph.scopes import convert_to_tensor, get_default_graph
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import int64
from sparkflow_runtime.resources.datasets.dataset import INFINITE, UNKNOWN

INFINITE_CARDINALITY = INFINITE
UNKNOWN_CARDINALITY = UNKNOWN

Transformation = Callable[[Dataset], Dataset]


@of_datasets
def cardinality(dataset: Dataset) -> Tensor:
    """Returns the number of elements: a scalar int64, -1 if endless, -2 if unknown."""
    found: Tensor = get_default_graph().apply("DatasetCardinality", [dataset._variant_tensor], {})
    return found


@of_datasets
def get_single_element(dataset: Dataset) -> Any:
    """Returns the element of a dataset of one element.

    Raises:
        TypeError: `dataset` is not a dataset.
        InvalidArgumentError: At run time: there are no or several elements.
    """
    if not isinstance(dataset, Dataset):
        raise TypeError(
            f"Invalid `dataset`. Expected a `tf.data.Dataset` object but got {type(dataset)}."
        )
    attrs = structure.attrs(dataset._structure)
    op = get_default_graph().add_node("DatasetToSingleElement", [dataset._variant_tensor], attrs)
    return structure.of_flat(dataset._structure, op.outputs)


def enumerate_dataset(start: Any = 0) -> Transformation:
    """See `Dataset.enumerate`."""
    return lambda dataset: dataset.enumerate(start)


def unbatch() -> Transformation:
    """See `Dataset.unbatch`."""
    return lambda dataset: dataset.unbatch()


@of_datasets
def ignore_errors(log_warning: bool = False) -> Transformation:
    """Skips elements whose computation fails.

    Args:
        log_warning: Accepted for compatibility.
    """
    attrs = {"log_warning": log_warning}
    return lambda dataset: dataset._changed("IgnoreErrorsDataset", [], dataset._structure, attrs)


def prefetch_to_device(device: Any, buffer_size: Any = None) -> Transformation:
    """Returns the elements unchanged: steps copy their inputs to the device they run on."""
    return lambda dataset: dataset


def copy_to_device(target_device: Any, source_device: Any = "/cpu:0") -> Transformation:
    """Returns the elements unchanged: steps copy their inputs to the device they run on."""
    return lambda dataset: dataset


def shuffle_and_repeat(buffer_size: Any, count: Any = None, seed: Any = None) -> Transformation:
    """`shuffle`, then `repeat`.

    Args:
        buffer_size: See `Dataset.shuffle`.
        count: See `Dataset.repeat`.
        seed: See `Dataset.shuffle`.
    """

    def changed(dataset: Dataset) -> Dataset:
        inputs = [
            convert_to_tensor(buffer_size, int64, "buffer_size"),
            *seeds(seed),
            convert_to_tensor(-1 if count is None else count, int64, "count"),
        ]
        return dataset._changed("ShuffleAndRepeatDataset", inputs, dataset._structure)

    return changed


def parallel_interleave(
    map_func: Callable[..., Any],
    cycle_length: Any,
    block_length: Any = 1,
    sloppy: Any = False,
    buffer_output_elements: Any = None,
    prefetch_input_elements: Any = None,
) -> Transformation:
    """See `Dataset.interleave`; each open dataset is read by a separate thread.

    Args:
        map_func: Maps an element to a dataset.
        cycle_length: The number of datasets that are read at once.
        block_length: The number of elements taken from each in turn.
        sloppy: Accepted for compatibility: the order is always that of `interleave`.
        buffer_output_elements: Accepted for compatibility.
        prefetch_input_elements: Accepted for compatibility.
    """

    def changed(dataset: Dataset) -> Dataset:
        function, element = dataset._datasets_of(map_func, "Dataset.parallel_interleave()")
        inputs = [
            dataset._variant_tensor,
            function.captured,
            convert_to_tensor(cycle_length, int64),
            convert_to_tensor(block_length, int64),
            convert_to_tensor(bool(sloppy), dtypes.bool_),
            convert_to_tensor(buffer_output_elements or 0, int64),
            convert_to_tensor(prefetch_input_elements or 0, int64),
        ]
        return dataset._of_function("ParallelInterleaveDataset", inputs, function, element)

    return changed


def map_and_batch(
    map_func: Callable[..., Any],
    batch_size: Any,
    num_parallel_batches: Any = None,
    drop_remainder: Any = False,
    num_parallel_calls: Any = None,
) -> Transformation:
    """`map`, then `batch`.

    Args:
        map_func: See `Dataset.map`.
        batch_size: See `Dataset.batch`.
        num_parallel_batches: The number of batches whose calls run in parallel.
        drop_remainder: See `Dataset.batch`.
        num_parallel_calls: The number of calls that run in parallel.

    Raises:
        ValueError: Both numbers are given.
    """
    if num_parallel_batches is not None and num_parallel_calls is not None:
        raise ValueError(
            "`map_and_batch_with_legacy_function` allows only one of `num_parallel_batches` and "
            "`num_parallel_calls` to be set."
        )

    def changed(dataset: Dataset) -> Dataset:
        function = functions.build(map_func, dataset._structure, "Dataset.map_and_batch()")
        size = convert_to_tensor(batch_size, int64, "batch_size")
        drop = convert_to_tensor(drop_remainder, dtypes.bool_, "drop_remainder")
        element = structure.batched(function.result, known_batch(size, drop))
        calls: Any = convert_to_tensor(
            1 if num_parallel_calls is None else num_parallel_calls, int64, "num_parallel_calls"
        )
        inputs = [dataset._variant_tensor, function.captured, size, calls, drop]
        return dataset._of_function("MapAndBatchDataset", inputs, function, element)

    return changed


map_and_batch_with_legacy_function = map_and_batch


@of_datasets
def scan(initial_state: Any, scan_func: Callable[..., Any]) -> Transformation:
    """Applies a function to each element and a running state; returns a dataset of its outputs.

    Args:
        initial_state: A nested structure of tensors.
        scan_func: Maps a state and an element to a pair: the next state and the output.
    """

    def changed(dataset: Dataset) -> Dataset:
        state, flat = structure.of_values(initial_state)
        function, _ = functions_of_state(
            scan_func, state, dataset._structure, True, "tf.data.experimental.scan()"
        )
        element = function.result[1]
        attrs = {
            "f": function.name,
            "Tstate": [tensor.dtype.base for tensor in flat],
            "Targuments": function.captured_types,
            **structure.attrs(element),
        }
        inputs: list[Any] = [dataset._variant_tensor, flat, function.captured]
        op = functions.node("ScanDataset", inputs, attrs, [function])
        return Dataset(op.outputs[0], element)

    return changed


@of_datasets
def take_while(predicate: Callable[..., Any]) -> Transformation:
    """Returns the elements before the first for which a function returns False."""
    return lambda dataset: dataset._by_predicate(
        "TakeWhileDataset", predicate, "tf.data.experimental.take_while()"
    )


@of_datasets
def unique() -> Transformation:
    """Returns each distinct element once; elements are scalars of int32, int64 or string.

    Raises:
        TypeError: The elements have another type.
    """

    def changed(dataset: Dataset) -> Dataset:
        component = dataset._structure
        if not isinstance(component, structure.Component) or component.dtype not in (
            dtypes.int32,
            int64,
            dtypes.string,
        ):
            raise TypeError(
                "`tf.data.Dataset.unique` only supports inputs with a single tf.int32, tf.int64, "
                "or tf.string component."
            )

        def first_only(seen: Tensor, value: Tensor) -> Any:
            graph = get_default_graph()
            row = graph.apply("ExpandDims", [value, 0], {})
            same = graph.apply("Equal", [seen, row], {})
            known = graph.apply("Any", [same, [0]], {})
            both = graph.apply("ConcatV2", [[seen, row], 0], {})
            new = graph.apply("LogicalNot", [known], {})
            # Only the new part of both: everything, or all but the last.
            count = graph.apply("Size", [seen], {}) + graph.apply(
                "Cast", [new], {"DstT": dtypes.int32}
            )
            kept = graph.apply("Slice", [both, [0], graph.apply("ExpandDims", [count, 0], {})], {})
            kept.set_shape([None])
            return kept, (value, new)

        start = np.empty(0, component.dtype.as_numpy_dtype)
        marked = scan(convert_to_tensor(start, component.dtype), first_only)(dataset)
        return marked.filter(lambda _, new: new).map(lambda value, _: value)

    return changed
