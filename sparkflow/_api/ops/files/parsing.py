"""`tf.parse_example` and its like: serialized messages as tensors, tensors as strings."""

from sparkflow._api.row import Row

ROWS = (
    Row(
        "ParseTensor",
        "parse_tensor io.parse_tensor",
        "serialized, out_type",
        "The tensor in a serialized TensorProto, of dtype `out_type`.",
    ),
    Row(
        "DecodeJSONExample",
        "decode_json_example io.decode_json_example",
        "json_examples",
        "Serialized `tf.train.Example` messages from their JSON form.",
    ),
)
