"""`tf.io`: files and TFRecords outside of graphs."""

from sparkflow.io import gfile
from sparkflow.io.tfrecord import (
    TFRecordCompressionType,
    TFRecordOptions,
    TFRecordWriter,
    tf_record_iterator,
)

__all__ = [
    "TFRecordCompressionType",
    "TFRecordOptions",
    "TFRecordWriter",
    "gfile",
    "tf_record_iterator",
]
