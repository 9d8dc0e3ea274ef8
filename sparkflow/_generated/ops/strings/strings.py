"""`tf.strings`: joining, splitting and changing strings. Unicode is in `unicode`.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/strings/strings.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor

__all__ = [
    "as_string",
    "decode_base64",
    "decode_compressed",
    "encode_base64",
    "fingerprint",
    "string_join",
    "string_length",
    "string_lower",
    "string_strip",
    "string_to_hash_bucket_fast",
    "string_to_hash_bucket_strong",
    "string_upper",
    "substr",
    "unsorted_segment_join",
]


def string_join(inputs: Any, separator: str = "", name: str | None = None) -> Tensor:
    """Elements joined with a separator.

    Args:
        inputs: A list of string tensors, each of the common shape or a scalar.
        separator: Put between.
        name: Name of the node.

    Returns:
        A string tensor.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("StringJoin", list(inputs), separator=separator, name=name)
    return result


def substr(input: Any, pos: Any, len: Any, name: str | None = None, unit: str = "BYTE") -> Tensor:
    """Parts of strings, with broadcasting.

    Args:
        input: Strings.
        pos: Where they start; below 0 from the end. int32 or int64.
        len: How much is taken at most. The dtype of `pos`.
        name: Name of the node.
        unit: `BYTE` or `UTF8_CHAR`.

    Returns:
        A string tensor.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("Substr", input, pos, len, unit=unit, name=name)
    return result


def as_string(
    input: Any,
    precision: int = -1,
    scientific: bool = False,
    shortest: bool = False,
    width: int = -1,
    fill: str = "",
    name: str | None = None,
) -> Tensor:
    """The texts of numbers.

    Args:
        input: Numbers or bools.
        precision: Digits after the point, of floats.
        scientific: With an exponent.
        shortest: With or without one, whichever is shorter.
        width: The least number of characters.
        fill: What is put before: "", " ", "0", "+" or "-" (behind).
        name: Name of the node.

    Returns:
        A string tensor of the shape of `input`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op(
        "AsString",
        input,
        precision=precision,
        scientific=scientific,
        shortest=shortest,
        width=width,
        fill=fill,
        name=name,
    )
    return result


def string_to_hash_bucket_fast(input: Any, num_buckets: int, name: str | None = None) -> Tensor:
    """The bucket of each string by farmhash, int64 in [0, num_buckets).

    Args:
        input: Tensor [...] of string.
        num_buckets: At least 1.
        name: Name of the node.

    Returns:
        An int64 tensor of the shape of `input`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("StringToHashBucketFast", input, num_buckets=num_buckets, name=name)
    return result


def string_to_hash_bucket_strong(
    input: Any, num_buckets: int, key: Sequence[int], name: str | None = None
) -> Tensor:
    """The bucket of each string by SipHash with a key of two integers.

    Args:
        input: Tensor [...] of string.
        num_buckets: At least 1.
        name: Name of the node.

    Returns:
        An int64 tensor of the shape of `input`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op(
        "StringToHashBucketStrong", input, num_buckets=num_buckets, key=list(key), name=name
    )
    return result


def fingerprint(data: Any, method: Any = "farmhash64", name: str | None = None) -> Tensor:
    """The farmhash of each row: [rows, 8] uint8.

    Args:
        data: Tensor of rank 1 or more of any type.
        method: Tensor [...] of string.
        name: Name of the node.

    Returns:
        An uint8 tensor.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("Fingerprint", data, method, name=name)
    return result


def string_lower(input: Any, encoding: str = "", name: str | None = None) -> Tensor:
    """In lower case: letters of ASCII, or of Unicode where `encoding` is "utf-8".

    Args:
        input: Tensor [...] of string.
        encoding: Empty for bytes, or `utf-8`.
        name: Name of the node.

    Returns:
        A string tensor of the shape of `input`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("StringLower", input, encoding=encoding, name=name)
    return result


def string_upper(input: Any, encoding: str = "", name: str | None = None) -> Tensor:
    """In upper case: letters of ASCII, or of Unicode where `encoding` is "utf-8".

    Args:
        input: Tensor [...] of string.
        encoding: Empty for bytes, or `utf-8`.
        name: Name of the node.

    Returns:
        A string tensor of the shape of `input`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("StringUpper", input, encoding=encoding, name=name)
    return result


def string_strip(input: Any, name: str | None = None) -> Tensor:
    """Without white space at both ends.

    Args:
        input: Tensor [...] of string.
        name: Name of the node.

    Returns:
        A string tensor of the shape of `input`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("StringStrip", input, name=name)
    return result


def string_length(input: Any, name: str | None = None, unit: str = "BYTE") -> Tensor:
    """How many bytes (`BYTE`) or characters (`UTF8_CHAR`) each string has, int32.

    Args:
        input: Tensor [...] of string.
        name: Name of the node.
        unit: One of `BYTE`, `UTF8_CHAR`.

    Returns:
        An int32 tensor of the shape of `input`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("StringLength", input, unit=unit, name=name)
    return result


def unsorted_segment_join(
    inputs: Any, segment_ids: Any, num_segments: Any, separator: str = "", name: str | None = None
) -> Tensor:
    """Strings of the same segment joined, in their order.

    Args:
        inputs: Tensor [...] of string.
        segment_ids: Tensor [...] of int32 or int64.
        num_segments: Tensor [...] of int32 or int64.
        separator: What is put between.
        name: Name of the node.

    Returns:
        A string tensor.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op(
        "UnsortedSegmentJoin", inputs, segment_ids, num_segments, separator=separator, name=name
    )
    return result


def encode_base64(input: Any, pad: bool = False, name: str | None = None) -> Tensor:
    """Bytes in base 64 of the alphabet for URLs, with `=` at the end if `pad`.

    Args:
        input: Tensor [...] of string.
        pad: Fill up with `=`.
        name: Name of the node.

    Returns:
        A string tensor of the shape of `input`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("EncodeBase64", input, pad=pad, name=name)
    return result


def decode_base64(input: Any, name: str | None = None) -> Tensor:
    """The bytes that `encode_base64` was given.

    Args:
        input: Tensor [...] of string.
        name: Name of the node.

    Returns:
        A string tensor of the shape of `input`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("DecodeBase64", input, name=name)
    return result


def decode_compressed(bytes: Any, compression_type: str = "", name: str | None = None) -> Tensor:
    """Strings expanded: "", "ZLIB" or "GZIP".

    Args:
        bytes: Tensor [...] of string.
        name: Name of the node.

    Returns:
        A string tensor of the shape of `bytes`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op(
        "DecodeCompressed", bytes, compression_type=compression_type, name=name
    )
    return result
