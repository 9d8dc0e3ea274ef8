"""`tf.python_io`: TFRecord files outside of graphs.

Made by `scripts/generate_api.py`.
"""

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
    "tf_record_iterator",
]
