"""Unicode: code points of strings, strings of code points, other encodings.

Encodings have the names that Python's codecs and ICU share. Invalid input is replaced by the
replacement character, dropped, or an error.
"""

from __future__ import annotations

import codecs
import itertools
from typing import Any

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import INDEX, int64
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.op import Array, Inference
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, int_attr, string_attr, type_attr
from sparkflow_runtime.ops.strings.string_arrays import StringOp, array_of, mapped, strings_of
from sparkflow_runtime.shapes import Shape

_ERRORS = string_attr("replace", frozenset({"strict", "replace", "ignore"}))
_OUTPUTS = string_attr(allowed=frozenset({"UTF-8", "UTF-16-BE", "UTF-32-BE"}))
_REPLACEMENT = 0xFFFD
_DECODING = {
    "input_encoding": string_attr(),
    "errors": _ERRORS,
    "replacement_char": int_attr(_REPLACEMENT),
    "replace_control_characters": bool_attr(False),
}


def _codec(encoding: str) -> str:
    try:
        return codecs.lookup(encoding).name
    except LookupError as error:
        raise InvalidArgumentError(
            message=f"Could not create converter for input encoding: {encoding}"
        ) from error


def _code_points(
    data: bytes, encoding: str, errors: str, replacement: int, control: bool
) -> list[tuple[int, int]]:
    """Yields the characters of a string, each with its byte offset."""
    codec = _codec(encoding)
    found: list[tuple[int, int]] = []
    at = 0
    while at < len(data):
        try:
            text, bad, end = data[at:].decode(codec), at, len(data)
        except UnicodeDecodeError as error:
            text = data[at : at + error.start].decode(codec)
            bad, end = at + error.start, at + error.end
        for char in text:
            found.append((ord(char), at))
            at += len(char.encode(codec))
        if end > at:
            if errors == "strict":
                raise InvalidArgumentError(message="Invalid formatting on input string")
            if errors == "replace":
                found.append((replacement, bad))
            at = end
    if not control:
        return found
    if errors == "ignore":
        return [(code, place) for code, place in found if code >= 0x20]
    return [(replacement if code < 0x20 else code, place) for code, place in found]


def _encoded(codes: list[int], encoding: str, errors: str, replacement: int) -> bytes:
    chars = []
    for code in codes:
        if 0 <= code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF:
            chars.append(chr(code))
        elif errors == "strict":
            raise InvalidArgumentError(
                message="Code point is out of range for Unicode, or a noncharacter."
            )
        elif errors == "replace":
            chars.append(chr(replacement))
    return "".join(chars).encode(encoding)


@register
class UnicodeTranscode(StringOp):
    """Transcodes strings."""

    inputs = "input: string"
    outputs = "output: string"
    attrs = {
        "input_encoding": string_attr(),
        "output_encoding": _OUTPUTS,
        "errors": _ERRORS,
        "replacement_char": int_attr(_REPLACEMENT),
        "replace_control_characters": bool_attr(False),
    }

    def compute(
        self,
        xp: Any,
        text: Array,
        *,
        input_encoding: str,
        output_encoding: str,
        errors: str,
        replacement_char: int,
        replace_control_characters: bool,
    ) -> Array:
        """Fails for an unknown encoding."""
        _codec(input_encoding)

        def recoded(data: bytes) -> bytes:
            found = _code_points(
                data, input_encoding, errors, replacement_char, replace_control_characters
            )
            return _encoded([c for c, _ in found], output_encoding, errors, replacement_char)

        return mapped(recoded, text)


@register
class UnicodeEncode(StringOp):
    """Encodes rows of code points, given by their ends, as strings."""

    inputs = "input_values: int32, input_splits: Tsplits"
    outputs = "output: string"
    attrs = {
        "errors": _ERRORS,
        "output_encoding": _OUTPUTS,
        "replacement_char": int_attr(_REPLACEMENT),
        "Tsplits": type_attr(INDEX, default=int64),
    }

    def infer(self, node: Inference) -> list[Shape]:
        """One string per row."""
        node.with_rank(0, 1, "input_values")
        (ends,) = node.with_rank(1, 1, "input_splits")
        return [(None if ends is None else ends - 1,)]

    def compute(
        self,
        xp: Any,
        values: Array,
        splits: Array,
        *,
        errors: str,
        output_encoding: str,
        replacement_char: int,
    ) -> Array:
        """Fails for splits that do not end with the values."""
        codes, ends = np.asarray(values).tolist(), np.asarray(splits).tolist()
        if not ends or ends[0] != 0 or ends[-1] != len(codes) or sorted(ends) != ends:
            raise InvalidArgumentError(
                message=f"Invalid input_splits {ends} for {len(codes)} values"
            )
        rows = [codes[start:end] for start, end in itertools.pairwise(ends)]
        strings = [_encoded(row, output_encoding, errors, replacement_char) for row in rows]
        return array_of(strings, (len(rows),))


class _Decodes(StringOp):
    inputs = "input: string"
    attrs = {**_DECODING, "Tsplits": type_attr(INDEX, default=int64)}

    def decode(self, text: Array, ends_type: Any, *how: Any) -> tuple[Array, Array, Array]:
        """Ends of rows, code points, and their byte offsets."""
        _codec(how[0])
        rows = [_code_points(data, *how) for data in strings_of(text)]
        ends = np.cumsum([0, *map(len, rows)], dtype=ends_type.as_numpy_dtype)
        flat = [pair for row in rows for pair in row]
        return (
            ends,
            np.array([code for code, _ in flat], np.int32),
            np.array([place for _, place in flat], np.int64),
        )

    def infer(self, node: Inference) -> list[Shape]:
        """An unknown number of code points."""
        count = shapes.num_elements(node.shapes[0])
        size = None if count is None else count + 1
        return [(size,), *[(None,)] * (len(self.signature.outputs) - 1)]


@register
class UnicodeDecode(_Decodes):
    """Decodes strings to code points, with the ends of their rows."""

    outputs = "row_splits: Tsplits, char_values: int32"

    def compute(
        self,
        xp: Any,
        text: Array,
        *,
        input_encoding: str,
        errors: str,
        replacement_char: int,
        replace_control_characters: bool,
        Tsplits: Any,
    ) -> tuple[Array, Array]:
        """Fails for an unknown encoding."""
        how = (input_encoding, errors, replacement_char, replace_control_characters)
        return self.decode(text, Tsplits, *how)[:2]


@register
class UnicodeDecodeWithOffsets(_Decodes):
    """The same, with the byte offset of each code point."""

    outputs = "row_splits: Tsplits, char_values: int32, char_to_byte_starts: int64"

    def compute(
        self,
        xp: Any,
        text: Array,
        *,
        input_encoding: str,
        errors: str,
        replacement_char: int,
        replace_control_characters: bool,
        Tsplits: Any,
    ) -> tuple[Array, Array, Array]:
        """Fails for an unknown encoding."""
        how = (input_encoding, errors, replacement_char, replace_control_characters)
        return self.decode(text, Tsplits, *how)
