"""`tf.strings`: joining, splitting and changing strings. Unicode is in `unicode`."""

from sparkflow._api.row import Row

ROWS = (
    Row(
        "StringJoin",
        "string_join strings.join",
        'inputs, separator: str = ""',
        "Elements joined with a separator.",
        arguments={
            "inputs": "A list of string tensors, each of the common shape or a scalar.",
            "separator": "Put between.",
        },
    ),
    Row(
        "Substr",
        "substr strings.substr",
        'input, pos, len, name=None, unit: str = "BYTE"',
        "Parts of strings, with broadcasting.",
        arguments={
            "input": "Strings.",
            "pos": "Where they start; below 0 from the end.",
            "len": "How much is taken at most.",
            "unit": "`BYTE` or `UTF8_CHAR`.",
        },
    ),
    Row(
        "AsString",
        "as_string strings.as_string",
        (
            "input, precision: int = -1, scientific: bool = False, shortest: bool = False, "
            'width: int = -1, fill: str = ""'
        ),
        "The texts of numbers.",
        arguments={
            "input": "Numbers or bools.",
            "precision": "Digits after the point, of floats.",
            "scientific": "With an exponent.",
            "shortest": "With or without one, whichever is shorter.",
            "width": "The least number of characters.",
            "fill": 'What is put before: "", " ", "0", "+" or "-" (behind).',
        },
    ),
    Row(
        "StringToHashBucketFast",
        "string_to_hash_bucket_fast strings.to_hash_bucket_fast",
        "input, num_buckets: int",
        "The bucket of each string by farmhash, int64 in [0, num_buckets).",
    ),
    Row(
        "StringToHashBucketStrong",
        "string_to_hash_bucket_strong strings.to_hash_bucket_strong",
        "input, num_buckets: int, key: Sequence[int]",
        "The bucket of each string by SipHash with a key of two integers.",
    ),
    Row(
        "Fingerprint",
        "fingerprint",
        'data, method="farmhash64"',
        "The farmhash of each row: [rows, 8] uint8.",
    ),
    Row(
        "StringLower",
        "strings.lower",
        'input, encoding: str = ""',
        'In lower case: letters of ASCII, or of Unicode where `encoding` is "utf-8".',
        function="string_lower",
    ),
    Row(
        "StringUpper",
        "strings.upper",
        'input, encoding: str = ""',
        'In upper case: letters of ASCII, or of Unicode where `encoding` is "utf-8".',
        function="string_upper",
    ),
    Row("StringStrip", "string_strip strings.strip", "input", "Without white space at both ends."),
    Row(
        "StringLength",
        "strings.length",
        'input, name=None, unit: str = "BYTE"',
        "How many bytes (`BYTE`) or characters (`UTF8_CHAR`) each string has, int32.",
        function="string_length",
    ),
    Row(
        "UnsortedSegmentJoin",
        "strings.unsorted_segment_join",
        'inputs, segment_ids, num_segments, separator: str = ""',
        "Strings of the same segment joined, in their order.",
    ),
    Row(
        "EncodeBase64",
        "encode_base64 io.encode_base64",
        "input, pad: bool = False",
        "Bytes in base 64 of the alphabet for URLs, with `=` at the end if `pad`.",
    ),
    Row(
        "DecodeBase64",
        "decode_base64 io.decode_base64",
        "input",
        "The bytes that `encode_base64` was given.",
    ),
    Row(
        "DecodeCompressed",
        "decode_compressed io.decode_compressed",
        'bytes, compression_type: str = ""',
        'Strings expanded: "", "ZLIB" or "GZIP".',
    ),
)
