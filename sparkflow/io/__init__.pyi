"""What `tf.io` offers, by module that defines it. Made by `scripts/generate_api.py`."""

from sparkflow.io import gfile
from sparkflow._generated.ops.files.files import matching_files, read_file, write_file
from sparkflow._generated.ops.files.parsing import decode_json_example, parse_tensor
from sparkflow._generated.ops.image.codec import (
    decode_and_crop_jpeg,
    decode_bmp,
    decode_gif,
    decode_jpeg,
    decode_png,
    encode_jpeg,
    encode_png,
    extract_jpeg_shape,
)
from sparkflow._generated.ops.strings.strings import decode_base64, decode_compressed, encode_base64
from sparkflow.io.tfrecord import (
    TFRecordCompressionType,
    TFRecordOptions,
    TFRecordWriter,
    tf_record_iterator,
)
from sparkflow.legacy.input.producers import match_filenames_once
from sparkflow.ops.files.parsing import (
    decode_csv,
    parse_example,
    parse_sequence_example,
    parse_single_example,
    parse_single_sequence_example,
    serialize_tensor,
)
from sparkflow.ops.files.parsing_config import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    SparseFeature,
    VarLenFeature,
)
from sparkflow.ops.image.codec import decode_image, is_jpeg
from sparkflow.ops.sparse.sparse_layout import (
    deserialize_many_sparse,
    serialize_many_sparse,
    serialize_sparse,
)
from sparkflow.ops.strings.strings import decode_raw
from sparkflow.queues.queue_base import QueueBase
from sparkflow.queues.queues import PaddingFIFOQueue, PriorityQueue, RandomShuffleQueue
from sparkflow.train.graph_files import write_graph

__all__ = [
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "PaddingFIFOQueue",
    "PriorityQueue",
    "QueueBase",
    "RandomShuffleQueue",
    "SparseFeature",
    "TFRecordCompressionType",
    "TFRecordOptions",
    "TFRecordWriter",
    "VarLenFeature",
    "decode_and_crop_jpeg",
    "decode_base64",
    "decode_bmp",
    "decode_compressed",
    "decode_csv",
    "decode_gif",
    "decode_image",
    "decode_jpeg",
    "decode_json_example",
    "decode_png",
    "decode_raw",
    "deserialize_many_sparse",
    "encode_base64",
    "encode_jpeg",
    "encode_png",
    "extract_jpeg_shape",
    "gfile",
    "is_jpeg",
    "match_filenames_once",
    "matching_files",
    "parse_example",
    "parse_sequence_example",
    "parse_single_example",
    "parse_single_sequence_example",
    "parse_tensor",
    "read_file",
    "serialize_many_sparse",
    "serialize_sparse",
    "serialize_tensor",
    "tf_record_iterator",
    "write_file",
    "write_graph",
]
