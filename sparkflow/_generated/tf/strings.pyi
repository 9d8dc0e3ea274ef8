"""`tf.strings`: operations on string tensors.

Made by `scripts/generate_api.py`.
"""

from sparkflow._generated.ops.strings.strings import (
    as_string,
    string_join as join,
    string_length as length,
    string_lower as lower,
    string_strip as strip,
    string_to_hash_bucket_fast as to_hash_bucket_fast,
    string_to_hash_bucket_strong as to_hash_bucket_strong,
    string_upper as upper,
    substr,
    unsorted_segment_join,
)
from sparkflow._generated.ops.strings.unicode import unicode_transcode
from sparkflow.ops.strings.strings import (
    ngrams,
    reduce_join,
    regex_full_match,
    regex_replace,
    string_format as format,
    string_to_hash_bucket as to_hash_bucket,
    string_to_number as to_number,
)
from sparkflow.ragged.splitting import bytes_split, string_split_v2 as split
from sparkflow.ragged.unicode import (
    unicode_decode,
    unicode_decode_with_offsets,
    unicode_encode,
    unicode_split,
    unicode_split_with_offsets,
)

__all__ = [
    "as_string",
    "bytes_split",
    "format",
    "join",
    "length",
    "lower",
    "ngrams",
    "reduce_join",
    "regex_full_match",
    "regex_replace",
    "split",
    "strip",
    "substr",
    "to_hash_bucket",
    "to_hash_bucket_fast",
    "to_hash_bucket_strong",
    "to_number",
    "unicode_decode",
    "unicode_decode_with_offsets",
    "unicode_encode",
    "unicode_split",
    "unicode_split_with_offsets",
    "unicode_transcode",
    "unsorted_segment_join",
    "upper",
]
