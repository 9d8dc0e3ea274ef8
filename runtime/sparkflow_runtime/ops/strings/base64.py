"""Base 64 in the alphabet for URLs, and decompression."""

from __future__ import annotations

import binascii
import io
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.strings import base64
from sparkflow_runtime.errors import InvalidArgumentError, ResourceExhaustedError
from sparkflow_runtime.files.compression import expanding
from sparkflow_runtime.ops.op import Array
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, string_attr
from sparkflow_runtime.ops.strings.string_arrays import StringOp, flat_strings, mapped

MAX_EXPANDED_BYTES: Final = 1 << 30
"""What a tensor of compressed texts may become. One byte of deflate can become a thousand, so a
message of a megabyte could take all memory otherwise."""
_PIECE_BYTES: Final = 1 << 20
_WEB_SAFE = re.compile(rb"[A-Za-z0-9_-]*={0,2}")


@register
class EncodeBase64(StringOp):
    """Bytes as letters, digits, `-` and `_`."""

    elementwise = True
    inputs = "input: string"
    outputs = "output: string"
    attrs = {"pad": bool_attr(False)}

    def compute(self, xp: Any, data: Array, *, pad: bool) -> Array:
        """With `=` at the end if `pad`."""

        def by_python(each: bytes) -> bytes:
            return urlsafe_b64encode(each) if pad else urlsafe_b64encode(each).rstrip(b"=")

        return base64.encoded(flat_strings(data), pad, by_python).reshape(np.shape(data))


@register
class DecodeBase64(StringOp):
    """The bytes again; `=` at the end may be missing."""

    elementwise = True
    inputs = "input: string"
    outputs = "output: string"

    def compute(self, xp: Any, data: Array) -> Array:
        """Fails for other characters and impossible lengths."""
        return base64.decoded(flat_strings(data), _decoded).reshape(np.shape(data))


def _decoded(data: bytes) -> bytes:
    if not _WEB_SAFE.fullmatch(data):
        raise InvalidArgumentError(message="Invalid character found in base64.")
    try:
        plain = data.rstrip(b"=")
        return urlsafe_b64decode(plain + b"=" * (-len(plain) % 4))
    except binascii.Error as error:
        raise InvalidArgumentError(
            message="Base64 string length should not be 1 modulo 4."
        ) from error


@register
class DecodeCompressed(StringOp):
    """Expands strings compressed with gzip or zlib."""

    inputs = "bytes: string"
    outputs = "output: string"
    attrs = {"compression_type": string_attr("")}

    def compute(self, xp: Any, data: Array, *, compression_type: str) -> Array:
        """Fails for damaged data, unknown compressions, and more than `MAX_EXPANDED_BYTES`."""
        left = MAX_EXPANDED_BYTES

        def expanded(each: bytes) -> bytes:
            nonlocal left
            pieces = []
            with expanding(io.BytesIO(each), compression_type) as stream:
                while piece := stream.read(_PIECE_BYTES):
                    pieces.append(piece)
                    left -= len(piece)
                    if left < 0:
                        raise ResourceExhaustedError(
                            message=f"{len(each)} compressed bytes make more than the "
                            f"{MAX_EXPANDED_BYTES} that one step of decode_compressed may give"
                        )
            return b"".join(pieces)

        return mapped(expanded, data)
