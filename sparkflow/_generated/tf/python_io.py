"""`tf.python_io`: TFRecord files outside of graphs.

Made by `scripts/generate_api.py`.
"""

from sparkflow._api.loading import face

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        "sparkflow.io.tfrecord": "TFRecordCompressionType TFRecordOptions TFRecordWriter tf_record_iterator",
    },
)
