"""Batches of elements that belong together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow.data import functions, nest, structure
from sparkflow.data.dataset import Dataset
from sparkflow.data.registered import of_datasets
from sparkflow.graph.scopes import convert_to_tensor, get_default_graph
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.dtypes import int64

Transformation = Callable[[Dataset], Dataset]


@of_datasets
def group_by_window(
    key_func: Callable[..., Any],
    reduce_func: Callable[[Tensor, Dataset], Dataset],
    window_size: Any = None,
    window_size_func: Callable[[Tensor], Any] | None = None,
) -> Transformation:
    """Groups elements by key and applies a function to each full group.

    Args:
        key_func: Maps an element to a scalar int64.
        reduce_func: Maps a key and the dataset of a group to a dataset.
        window_size: The number of elements per group; groups left at the end are smaller.
        window_size_func: Maps a key to its number of elements instead.

    Raises:
        ValueError: Not exactly one of `window_size` and `window_size_func` is given.
    """
    if (window_size is None) == (window_size_func is None):
        raise ValueError(
            "Either the `window_size` argument or the `window_size_func` argument must be "
            "specified."
        )

    def size_of(key: Tensor) -> Any:
        if window_size_func is not None:
            return convert_to_tensor(window_size_func(key), int64)
        return convert_to_tensor(window_size, int64)

    def changed(dataset: Dataset) -> Dataset:
        what = "tf.data.experimental.group_by_window()"
        element = dataset._structure
        key = structure.Component(int64, ())
        keys = functions.build(key_func, element, what)
        if keys.result != key:
            raise ValueError(
                "`key_func` must return a single tf.int64 scalar tensor, got "
                f"{structure.types(keys.result)} of shape {structure.static_shapes(keys.result)}."
            )
        sizes = functions.build(size_of, key, what)
        group = structure.Component(dtypes.variant, (), "dataset", element)
        reduced = functions.build(reduce_func, (key, group), what)
        made = reduced.result
        if not isinstance(made, structure.Component) or made.kind != "dataset":
            raise TypeError("`reduce_func` must return a `Dataset` object.")
        attrs = {
            "key_func": keys.name,
            "reduce_func": reduced.name,
            "window_size_func": sizes.name,
            "Tkey_func_other_arguments": keys.captured_types,
            "Treduce_func_other_arguments": reduced.captured_types,
            "Twindow_size_func_other_arguments": sizes.captured_types,
            **structure.attrs(made.inner),
        }
        inputs: list[Any] = [
            dataset._variant_tensor,
            keys.captured,
            reduced.captured,
            sizes.captured,
        ]
        op = functions.node("GroupByWindowDataset", inputs, attrs, [keys, reduced, sizes])
        return Dataset(op.outputs[0], made.inner)

    return changed


@of_datasets
def bucket_by_sequence_length(
    element_length_func: Callable[..., Any],
    bucket_boundaries: Sequence[int],
    bucket_batch_sizes: Sequence[int],
    padded_shapes: Any = None,
    padding_values: Any = None,
    pad_to_bucket_boundary: bool = False,
    no_padding: bool = False,
    drop_remainder: bool = False,
) -> Transformation:
    """Forms batches of elements of similar length.

    Args:
        element_length_func: Maps an element to its length, int32.
        bucket_boundaries: The boundaries between buckets, ascending.
        bucket_batch_sizes: The batch size of each bucket, one more than there are boundaries.
        padded_shapes: See `Dataset.padded_batch`.
        padding_values: See `Dataset.padded_batch`.
        pad_to_bucket_boundary: Whether to pad to one less than the bucket's end instead of to the
            longest. An element that is not shorter than the last boundary is then an
            InvalidArgumentError when it runs.
        no_padding: Whether to stack without padding.
        drop_remainder: See `Dataset.batch`.

    Raises:
        ValueError: The number of batch sizes is not one more than that of boundaries.
    """
    if len(bucket_batch_sizes) != len(bucket_boundaries) + 1:
        raise ValueError("len(bucket_batch_sizes) must equal len(bucket_boundaries) + 1")
    limits = np.array([*bucket_boundaries, np.iinfo(np.int32).max], np.int32)
    lowest = np.array([np.iinfo(np.int32).min, *bucket_boundaries], np.int32)
    batch_sizes = np.array(bucket_batch_sizes, np.int64)

    def bucket_of(*element: Any) -> Tensor:
        graph = get_default_graph()
        length = convert_to_tensor(element_length_func(*element), dtypes.int32)
        inside = graph.apply(
            "LogicalAnd",
            [
                graph.apply("LessEqual", [lowest, length], {}),
                graph.apply("Less", [length, limits], {}),
            ],
            {},
        )
        where = graph.apply(
            "ArgMax", [graph.apply("Cast", [inside], {"DstT": dtypes.int32}), 0], {}
        )
        return convert_to_tensor(where, int64)

    def within(bucket: Tensor) -> Tensor:
        graph = get_default_graph()
        fits = graph.apply("Less", [bucket, np.int64(len(bucket_boundaries))], {})
        text = (
            "When pad_to_bucket_boundary=True, elements must have length < "
            f"max(bucket_boundaries), which is {max(bucket_boundaries, default=None)}."
        )
        check = graph.add_node("Assert", [fits, [convert_to_tensor(text)]], {"summarize": 3})
        with graph.control_dependencies([check]):
            checked: Tensor = graph.apply("Identity", [bucket], {})
        return checked

    def size_of(bucket: Tensor) -> Tensor:
        found: Tensor = get_default_graph().apply("GatherV2", [batch_sizes, bucket, 0], {})
        return found

    def batch(bucket: Tensor, grouped: Dataset) -> Dataset:
        size = size_of(bucket)
        if no_padding:
            return grouped.batch(size, drop_remainder=drop_remainder)
        wanted = padded_shapes
        if pad_to_bucket_boundary:
            ends = np.array([*bucket_boundaries, 0], np.int64) - 1  # one more: there may be none
            end = get_default_graph().apply("GatherV2", [ends, within(bucket), 0], {})
            wanted = _filled(grouped._structure, padded_shapes, end)
        return grouped.padded_batch(size, wanted, padding_values, drop_remainder)

    return group_by_window(bucket_of, batch, window_size_func=size_of)


def _filled(element: Any, wanted: Any, size: Tensor) -> Any:
    """Returns the shapes with a tensor for each unknown dimension."""
    flat = nest.flatten(element)
    given = [c.shape for c in flat] if wanted is None else nest.flatten_up_to(element, wanted)
    tensors = []
    for each in given:
        known = structure.raw_shape(each)
        assert known is not None
        parts = [size if dim is None else convert_to_tensor(dim, int64) for dim in known]
        tensors.append(
            get_default_graph().apply("Pack", [parts], {})
            if parts
            else convert_to_tensor(np.zeros(0, np.int64))
        )
    return nest.pack_as(element, tensors)


@of_datasets
def dense_to_sparse_batch(batch_size: Any, row_shape: Any) -> Transformation:
    """Forms batches of elements of different sizes as sparse tensors.

    Args:
        batch_size: The number of elements per batch.
        row_shape: The shape of each row of a batch; None for dimensions of the largest element.
    """

    def changed(dataset: Dataset) -> Dataset:
        component = dataset._structure
        if not isinstance(component, structure.Component) or component.kind != "tensor":
            raise TypeError("`dense_to_sparse_batch` takes datasets of one dense tensor.")
        row = structure.raw_shape(row_shape)
        sizes = np.array([-1 if dim is None else dim for dim in row or ()], np.int64)
        parts = (
            structure.Component(int64, (None, len(sizes) + 1)),
            structure.Component(component.dtype, (None,)),
            structure.Component(int64, (len(sizes) + 1,)),
        )
        inputs = [
            convert_to_tensor(batch_size, int64, "batch_size"),
            convert_to_tensor(sizes, int64, "row_shape"),
        ]
        triple = dataset._changed("DenseToSparseBatchDataset", inputs, parts)
        return triple.map(_sparse_of(shapes.concatenate((None,), row)))

    return changed


def _sparse_of(shape: Any) -> Callable[..., Any]:
    from sparkflow.graph.values.sparse_tensor import SparseTensor

    def made(indices: Tensor, values: Tensor, dense_shape: Tensor) -> SparseTensor:
        sparse = SparseTensor(indices, values, dense_shape)
        sparse.set_shape(shape)
        return sparse

    return made
