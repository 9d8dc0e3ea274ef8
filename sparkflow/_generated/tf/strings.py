"""`tf.strings`: operations on string tensors.

Made by `scripts/generate_api.py`.
"""

from sparkflow._api.loading import face

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        "sparkflow._generated.ops.strings.strings": (
            "as_string string_join:join string_length:length string_lower:lower "
            "string_strip:strip string_to_hash_bucket_fast:to_hash_bucket_fast "
            "string_to_hash_bucket_strong:to_hash_bucket_strong string_upper:upper substr "
            "unsorted_segment_join"
        ),
        "sparkflow._generated.ops.strings.unicode": "unicode_transcode",
        "sparkflow.ops.strings.strings": (
            "ngrams reduce_join regex_full_match regex_replace string_format:format "
            "string_to_hash_bucket:to_hash_bucket string_to_number:to_number"
        ),
        "sparkflow.ragged.splitting": "bytes_split string_split_v2:split",
        "sparkflow.ragged.unicode": (
            "unicode_decode unicode_decode_with_offsets unicode_encode unicode_split "
            "unicode_split_with_offsets"
        ),
    },
)
