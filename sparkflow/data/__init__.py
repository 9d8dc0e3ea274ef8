"""`tf.data`: pipelines of training data that run inside the graph, on the task that needs them."""

from sparkflow._api.loading import answers
from sparkflow.data import experimental
from sparkflow.data.dataset import AUTOTUNE, Dataset
from sparkflow.data.experimental.transformations import INFINITE_CARDINALITY, UNKNOWN_CARDINALITY
from sparkflow.data.iterator import (
    Iterator,
    get_output_classes,
    get_output_shapes,
    get_output_types,
    make_initializable_iterator,
    make_one_shot_iterator,
)
from sparkflow.data.options import Options, ThreadingOptions
from sparkflow.data.readers import FixedLengthRecordDataset, TextLineDataset, TFRecordDataset

__getattr__ = answers("data")

__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "Dataset",
    "FixedLengthRecordDataset",
    "Iterator",
    "Options",
    "TFRecordDataset",
    "TextLineDataset",
    "ThreadingOptions",
    "experimental",
    "get_output_classes",
    "get_output_shapes",
    "get_output_types",
    "make_initializable_iterator",
    "make_one_shot_iterator",
]
