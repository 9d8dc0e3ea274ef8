"""`tf.data.experimental`: further datasets, and functions for `Dataset.apply`."""

from sparkflow._api.loading import answers
from sparkflow.data.dataset import AUTOTUNE
from sparkflow.data.experimental.grouping import (
    bucket_by_sequence_length,
    dense_to_sparse_batch,
    group_by_window,
)
from sparkflow.data.experimental.mixing import (
    Counter,
    RandomDataset,
    choose_from_datasets,
    sample_from_datasets,
)
from sparkflow.data.experimental.optional import Optional, get_next_as_optional
from sparkflow.data.experimental.resampling import rejection_resample
from sparkflow.data.experimental.tables import (
    CsvDataset,
    make_batched_features_dataset,
    make_csv_dataset,
    parse_example_dataset,
)
from sparkflow.data.experimental.transformations import (
    INFINITE_CARDINALITY,
    UNKNOWN_CARDINALITY,
    cardinality,
    copy_to_device,
    enumerate_dataset,
    get_single_element,
    ignore_errors,
    map_and_batch,
    map_and_batch_with_legacy_function,
    parallel_interleave,
    prefetch_to_device,
    scan,
    shuffle_and_repeat,
    take_while,
    unbatch,
    unique,
)
from sparkflow.data.experimental.writing import TFRecordWriter
from sparkflow.data.options import (
    DistributeOptions,
    OptimizationOptions,
    StatsOptions,
    ThreadingOptions,
)

__getattr__ = answers("data.experimental")

__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "Counter",
    "CsvDataset",
    "DistributeOptions",
    "OptimizationOptions",
    "Optional",
    "RandomDataset",
    "StatsOptions",
    "TFRecordWriter",
    "ThreadingOptions",
    "bucket_by_sequence_length",
    "cardinality",
    "choose_from_datasets",
    "copy_to_device",
    "dense_to_sparse_batch",
    "enumerate_dataset",
    "get_next_as_optional",
    "get_single_element",
    "group_by_window",
    "ignore_errors",
    "make_batched_features_dataset",
    "make_csv_dataset",
    "map_and_batch",
    "map_and_batch_with_legacy_function",
    "parallel_interleave",
    "parse_example_dataset",
    "prefetch_to_device",
    "rejection_resample",
    "sample_from_datasets",
    "scan",
    "shuffle_and_repeat",
    "take_while",
    "unbatch",
    "unique",
]
