"""Datasets as ops: sources, and transformations that call no functions.

At run time, the handle is the `resources.dataset.Dataset` itself. Names, inputs and attributes are
TensorFlow's. Transformations that call functions are in `dataset_functions`, files are in
`dataset_files`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.inference import scalars
from sparkflow_runtime.ops.op import FILES, Array, Op, not_differentiable
from sparkflow_runtime.ops.registry import add, register
from sparkflow_runtime.ops.signature import bool_attr, int_attr, list_attr, string_attr
from sparkflow_runtime.resources.datasets import (
    dataset_cache,
    dataset_shuffle,
    dataset_sources,
    dataset_threads,
    dataset_transforms,
)
from sparkflow_runtime.resources.datasets.dataset import Dataset

OUTPUTS = {
    "output_types": list_attr("type", minimum=1),
    "output_shapes": list_attr("shape", minimum=1),
}
_METADATA = {"metadata": string_attr("")}


class DatasetOp(Op):
    """The base of ops that create datasets.

    They count as stateful, so that equal ones are not merged: each has its own cache or shuffle.
    """

    copyable = True
    outputs = "handle: variant"
    attrs = OUTPUTS
    stateful = True
    kernels: ClassVar = {"CPU": None}
    gradient = not_differentiable
    infer = scalars


def integer(value: Array, name: str) -> int:
    """Returns the value of an input that must be a scalar integer.

    Raises:
        InvalidArgumentError: It is not of rank 0.
    """
    if np.ndim(value):
        raise InvalidArgumentError(message=f"{name} must be a scalar")
    return int(value)


def kept(tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Tensors that a dataset keeps after the step: copies, as the caller may reuse arrays it fed.

    Constants and others that nobody can write to stay as they are.
    """
    return tuple(
        each.copy() if isinstance(each, np.ndarray) and each.flags.writeable else each
        for each in tensors
    )


@register
class TensorDataset(DatasetOp):
    """A dataset of one element."""

    inputs = "components: Toutput_types"
    attrs = {
        "Toutput_types": list_attr("type", minimum=1),
        "output_shapes": list_attr("shape", minimum=1),
        **_METADATA,
    }

    def compute(self, xp: Any, *components: Array) -> Dataset:
        """The components."""
        return dataset_sources.of_tensors(kept(components))


@register
class TensorSliceDataset(DatasetOp):
    """A dataset of the rows of tensors."""

    inputs = "components: Toutput_types"
    attrs = {
        "Toutput_types": list_attr("type", minimum=1),
        "output_shapes": list_attr("shape", minimum=1),
        "is_files": bool_attr(False),
        **_METADATA,
        "replicate_on_split": bool_attr(False),
    }

    def compute(self, xp: Any, *components: Array) -> Dataset:
        """Rows, as views."""
        return dataset_sources.of_slices(kept(components))


@register
class RangeDataset(DatasetOp):
    """A dataset of a range of numbers."""

    inputs = "start: int64, stop: int64, step: int64"
    attrs = {**OUTPUTS, **_METADATA, "replicate_on_split": bool_attr(False)}

    def compute(
        self, xp: Any, start: Array, stop: Array, step: Array, *, output_types: Sequence[DType]
    ) -> Dataset:
        """As Python's `range`."""
        kind = output_types[0].as_numpy_dtype
        return dataset_sources.of_range(
            integer(start, "start"), integer(stop, "stop"), integer(step, "step"), kind
        )


@register
class RandomDataset(DatasetOp):
    """An infinite dataset of random numbers."""

    inputs = "seed: int64, seed2: int64"
    attrs = {**OUTPUTS, **_METADATA}

    def compute(self, xp: Any, seed: Array, seed2: Array) -> Dataset:
        """Integers."""
        return dataset_sources.of_random(integer(seed, "seed"), integer(seed2, "seed2"))


@register
class BatchDataset(DatasetOp):
    """Batches, with a shorter one at the end."""

    inputs = "input_dataset: variant, batch_size: int64"
    attrs = {**OUTPUTS, **_METADATA}

    def compute(self, xp: Any, source: Dataset, size: Array) -> Dataset:
        """The batches."""
        return dataset_transforms.batched(source, integer(size, "batch_size"), False)


@register
class BatchDatasetV2(DatasetOp):
    """The batches."""

    inputs = "input_dataset: variant, batch_size: int64, drop_remainder: bool"
    attrs = {"parallel_copy": bool_attr(False), **OUTPUTS, **_METADATA}

    def compute(self, xp: Any, source: Dataset, size: Array, drop: Array) -> Dataset:
        """The batches."""
        return dataset_transforms.batched(source, integer(size, "batch_size"), bool(drop))


@register
class PaddedBatchDataset(DatasetOp):
    """Batches of elements that are padded to equal sizes."""

    inputs = (
        "input_dataset: variant, batch_size: int64, padded_shapes: N * int64, "
        "padding_values: Toutput_types"
    )
    attrs = {
        "Toutput_types": list_attr("type", minimum=1),
        "output_shapes": list_attr("shape", minimum=1),
        "N": int_attr(minimum=1),
        **_METADATA,
    }

    def compute(self, xp: Any, source: Dataset, size: Array, *rest: Array, N: int) -> Dataset:
        """The batches."""
        return dataset_transforms.padded_batched(
            source, integer(size, "batch_size"), False, rest[:N], rest[N:]
        )


@register
class PaddedBatchDatasetV2(DatasetOp):
    """The same, optionally dropping a short last batch."""

    inputs = f"{PaddedBatchDataset.inputs}, drop_remainder: bool"
    attrs = {
        "parallel_copy": bool_attr(False),
        **PaddedBatchDataset.attrs,
    }

    def compute(self, xp: Any, source: Dataset, size: Array, *rest: Array, N: int) -> Dataset:
        """The batches."""
        return dataset_transforms.padded_batched(
            source, integer(size, "batch_size"), bool(rest[-1]), rest[:N], rest[N:-1]
        )


@register
class DenseToSparseBatchDataset(DatasetOp):
    """Batches as sparse tensors."""

    inputs = "input_dataset: variant, batch_size: int64, row_shape: int64"

    def compute(self, xp: Any, source: Dataset, size: Array, row_shape: Array) -> Dataset:
        """(indices, values, shape)."""
        return dataset_transforms.sparse_batched(
            source, integer(size, "batch_size"), [int(each) for each in row_shape]
        )


@register
class RepeatDataset(DatasetOp):
    """All elements, repeated."""

    inputs = "input_dataset: variant, count: int64"
    attrs = {**OUTPUTS, **_METADATA}

    def compute(self, xp: Any, source: Dataset, count: Array) -> Dataset:
        """Repeated."""
        return dataset_transforms.repeated(source, integer(count, "count"))


@register
class TakeDataset(DatasetOp):
    """The first elements."""

    inputs = "input_dataset: variant, count: int64"
    attrs = {**OUTPUTS, **_METADATA}

    def compute(self, xp: Any, source: Dataset, count: Array) -> Dataset:
        """The first."""
        return dataset_transforms.taken(source, integer(count, "count"))


@register
class SkipDataset(DatasetOp):
    """All but the first elements."""

    inputs = "input_dataset: variant, count: int64"
    attrs = {**OUTPUTS, **_METADATA}

    def compute(self, xp: Any, source: Dataset, count: Array) -> Dataset:
        """The others."""
        return dataset_transforms.skipped(source, integer(count, "count"))


@register
class ShardDataset(DatasetOp):
    """Every n-th element."""

    inputs = "input_dataset: variant, num_shards: int64, index: int64"
    attrs = {"require_non_empty": bool_attr(False), **OUTPUTS, **_METADATA}

    def compute(self, xp: Any, source: Dataset, number: Array, index: Array) -> Dataset:
        """A shard."""
        return dataset_transforms.shard(
            source, integer(number, "num_shards"), integer(index, "index")
        )


@register
class PrefetchDataset(DatasetOp):
    """Elements that are computed ahead of time."""

    inputs = "input_dataset: variant, buffer_size: int64"
    attrs = {
        **OUTPUTS,
        "slack_period": int_attr(0),
        "legacy_autotune": bool_attr(True),
        "buffer_size_min": int_attr(0),
        **_METADATA,
    }

    def compute(self, xp: Any, source: Dataset, size: Array) -> Dataset:
        """The same elements."""
        count = integer(size, "buffer_size")
        if count < dataset_threads.AUTOTUNE:
            raise InvalidArgumentError(
                message="buffer_size must be >= 0 or set buffer_size to be -1 for auto-tuning"
            )
        return dataset_threads.prefetched(source, count)


@register
class ConcatenateDataset(DatasetOp):
    """The concatenation of two datasets."""

    inputs = "input_dataset: variant, another_dataset: variant"
    attrs = {**OUTPUTS, **_METADATA}

    def compute(self, xp: Any, first: Dataset, second: Dataset) -> Dataset:
        """Both."""
        return dataset_transforms.concatenated(first, second)


@register
class ZipDataset(DatasetOp):
    """Tuples of elements of several datasets."""

    inputs = "input_datasets: N * variant"
    attrs = {**OUTPUTS, "N": int_attr(minimum=1), **_METADATA}

    def compute(self, xp: Any, *sources: Dataset) -> Dataset:
        """As many elements as the shortest dataset has."""
        return dataset_transforms.zipped(sources)


@register
class CacheDataset(DatasetOp):
    """Elements that are computed once."""

    inputs = "input_dataset: variant, filename: string"
    reaches = frozenset({FILES})
    paths = ("filename",)
    attrs = {**OUTPUTS, **_METADATA}

    def compute(self, xp: Any, source: Dataset, filename: Array) -> Dataset:
        """Kept in memory if the name is empty."""
        return cached(source, filename)


def cached(source: Dataset, filename: Array) -> Dataset:
    """Returns the elements cached in a file, or in memory if its name is empty."""
    prefix = np.asarray(filename, object).item()
    if not prefix:
        return dataset_cache.cached_in_memory(source)
    return dataset_cache.cached_in_file(source, prefix.decode())


@register
class CacheDatasetV2(CacheDataset):
    """The same; the cache belongs to the dataset, not to the handle."""

    inputs = f"{CacheDataset.inputs}, cache: resource"

    def compute(self, xp: Any, source: Dataset, filename: Array, _: Any = None) -> Dataset:
        """Kept in memory if the name is empty."""
        return cached(source, filename)


class _Nothing(DatasetOp):
    outputs = "handle: resource"
    attrs: ClassVar = {}

    def compute(self, xp: Any) -> None:
        """A dummy handle: the state that TensorFlow keeps in it is kept by datasets."""


class DummyMemoryCache(_Nothing):
    """A handle for `CacheDatasetV2`."""


class DummySeedGenerator(_Nothing):
    """A handle for `ShuffleDatasetV2` and `ShuffleDatasetV3`."""


@register
class ShuffleDataset(DatasetOp):
    """Elements in random order."""

    inputs = "input_dataset: variant, buffer_size: int64, seed: int64, seed2: int64"
    attrs = {"reshuffle_each_iteration": bool_attr(True), **OUTPUTS, **_METADATA}

    def compute(
        self,
        xp: Any,
        source: Dataset,
        size: Array,
        seed: Array,
        seed2: Array,
        *,
        reshuffle_each_iteration: bool,
    ) -> Dataset:
        """Shuffled."""
        seeds = dataset_shuffle.Seeds(int(seed), int(seed2), reshuffle_each_iteration)
        return dataset_shuffle.shuffled(source, _buffer(size), seeds)


def _buffer(size: Array) -> int:
    count = integer(size, "buffer_size")
    if count <= 0:
        raise InvalidArgumentError(
            message=f"buffer_size must be greater than zero or UNKNOWN_CARDINALITY, got {count}"
        )
    return count


@register
class ShuffleDatasetV2(DatasetOp):
    """Elements in random order, different in each iteration."""

    inputs = "input_dataset: variant, buffer_size: int64, seed_generator: resource"
    attrs = {**OUTPUTS, **_METADATA}

    def compute(self, xp: Any, source: Dataset, size: Array, _: Any) -> Dataset:
        """Shuffled."""
        seeds = dataset_shuffle.Seeds(0, 0, True)
        return dataset_shuffle.shuffled(source, _buffer(size), seeds)


@register
class ShuffleDatasetV3(ShuffleDataset):
    """The same; TensorFlow keeps the seeds in the handle's resource."""

    inputs = f"{ShuffleDataset.inputs}, seed_generator: resource"

    def compute(self, xp: Any, *inputs: Any, reshuffle_each_iteration: bool) -> Dataset:
        """Shuffled."""
        return super().compute(xp, *inputs[:-1], reshuffle_each_iteration=reshuffle_each_iteration)


@register
class ShuffleAndRepeatDataset(ShuffleDataset):
    """Elements in random order, repeated."""

    inputs = f"{ShuffleDataset.inputs}, count: int64"
    attrs = {**OUTPUTS, "reshuffle_each_iteration": bool_attr(True), **_METADATA}

    def compute(self, xp: Any, *inputs: Any, reshuffle_each_iteration: bool) -> Dataset:
        """Shuffled and repeated."""
        mixed = super().compute(xp, *inputs[:-1], reshuffle_each_iteration=reshuffle_each_iteration)
        return dataset_transforms.repeated(mixed, integer(inputs[-1], "count"))


@register
class WindowDataset(DatasetOp):
    """Windows of consecutive elements, as datasets."""

    inputs = (
        "input_dataset: variant, size: int64, shift: int64, stride: int64, drop_remainder: bool"
    )
    attrs = {**OUTPUTS, **_METADATA}

    def compute(
        self, xp: Any, source: Dataset, size: Array, shift: Array, stride: Array, drop: Array
    ) -> Dataset:
        """Windows."""
        return dataset_transforms.windowed(
            source,
            integer(size, "size"),
            integer(shift, "shift"),
            integer(stride, "stride"),
            bool(drop),
        )


@register
class UnbatchDataset(DatasetOp):
    """The rows of elements."""

    inputs = "input_dataset: variant"
    attrs = {**OUTPUTS, **_METADATA}

    def compute(self, xp: Any, source: Dataset) -> Dataset:
        """Rows."""
        return dataset_transforms.unbatched(source)


@register
class IgnoreErrorsDataset(DatasetOp):
    """The elements that can be computed without an error."""

    inputs = "input_dataset: variant"
    attrs = {**OUTPUTS, "log_warning": bool_attr(False)}

    def compute(self, xp: Any, source: Dataset) -> Dataset:
        """Those."""
        return dataset_transforms.without_errors(source)


@register
class DirectedInterleaveDataset(DatasetOp):
    """Elements of several datasets, in the order that another dataset gives."""

    inputs = "selector_input_dataset: variant, data_input_datasets: N * variant"
    attrs = {
        **OUTPUTS,
        "N": int_attr(minimum=1),
        "stop_on_empty_dataset": bool_attr(False),
    }

    def compute(
        self, xp: Any, selector: Dataset, *sources: Dataset, stop_on_empty_dataset: bool
    ) -> Dataset:
        """Chosen."""
        return dataset_transforms.chosen(selector, sources, stop_on_empty_dataset)


class _Same(DatasetOp):
    """An op that only gives hints to TensorFlow's runtime."""

    inputs = "input_dataset: variant"

    def compute(self, xp: Any, source: Dataset, *_: Array) -> Dataset:
        """The same dataset."""
        return source


class ModelDataset(_Same):
    """Asks TensorFlow to tune."""

    attrs = {
        "algorithm": int_attr(0),
        "cpu_budget": int_attr(0),
        "ram_budget": int_attr(0),
        **OUTPUTS,
    }


class OptionsDataset(_Same):
    """Carries `tf.data.Options`."""

    attrs = {"serialized_options": string_attr(), **OUTPUTS, **_METADATA}


class OptimizeDataset(_Same):
    """Asks TensorFlow to rewrite."""

    inputs = "input_dataset: variant, optimizations: string"
    attrs = {**OUTPUTS, "optimization_configs": list_attr("string", [])}


@register
class DatasetCardinality(DatasetOp):
    """The number of elements; -1 if infinite, -2 if unknown."""

    inputs = "input_dataset: variant"
    outputs = "cardinality: int64"
    attrs = {"cardinality_options": string_attr("")}

    def compute(self, xp: Any, source: Dataset) -> Array:
        """A number."""
        return np.int64(source.length)


for _op in (
    DummyMemoryCache,
    DummySeedGenerator,
    ModelDataset,
    OptionsDataset,
    OptimizeDataset,
):
    add(_op())
