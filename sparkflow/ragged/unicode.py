"""Unicode in `tf.strings`: code points, encodings."""

from __future__ import annotations

from typing import Any

from sparkflow._api import export
from sparkflow.graph.scopes import apply_op, convert_to_tensor, name_scope, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.strings.strings import require_row
from sparkflow.ragged.tensor import RaggedTensor
from sparkflow_runtime.dtypes import int32, string

_REPLACEMENT = 65533


@export("strings.unicode_encode")
def unicode_encode(
    input: Any,
    output_encoding: str,
    errors: str = "replace",
    replacement_char: int = _REPLACEMENT,
    name: str | None = None,
) -> Tensor:
    """Code points as strings.

    Args:
        input: [..., n] int32.
        output_encoding: "UTF-8", "UTF-16-BE" or "UTF-32-BE".
        errors: What to do where there is no character: "replace", "ignore" or "strict".
        replacement_char: The code point for "replace".
        name: Name scope of the nodes.

    Returns:
        Strings of the shape without the last axis.

    Raises:
        ValueError: The rank is unknown or 0.
    """
    with name_scope(name, "UnicodeEncode", [input]):
        values = convert_to_tensor(input, int32)
        if not values.shape.ndims:
            raise ValueError("Rank of input_tensor must be statically known and above 0.")
        sizes = apply_op("Shape", values)
        length = apply_op("StridedSlice", sizes, [-1], [0], [1], end_mask=1, shrink_axis_mask=1)
        head = apply_op("StridedSlice", sizes, [0], [-1], [1], begin_mask=1)
        rows = apply_op("Prod", head, [0])
        splits = apply_op("Mul", apply_op("Range", 0, apply_op("AddV2", rows, 1), 1), length)
        texts = apply_op(
            "UnicodeEncode",
            apply_op("Reshape", values, [-1]),
            apply_op("Cast", splits, DstT="int64"),
            output_encoding=output_encoding,
            errors=errors,
            replacement_char=replacement_char,
        )
        return output_of("Reshape", texts, head)


@export("strings.unicode_decode")
def unicode_decode(
    input: Any,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = _REPLACEMENT,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> Any:
    """The code points of strings.

    Args:
        input: A string, or [n] strings.
        input_encoding: What they are in, such as "UTF-8".
        errors: What to do where there is no character: "replace", "ignore" or "strict".
        replacement_char: The code point for "replace".
        replace_control_characters: Treat those below 32 so too.
        name: Name scope of the nodes.

    Returns:
        [characters] int32 of one string; ragged rows of several.

    Raises:
        ValueError: `input` has more dimensions.
    """
    codes, _ = unicode_decode_with_offsets(
        input, input_encoding, errors, replacement_char, replace_control_characters, name
    )
    return codes


@export("strings.unicode_decode_with_offsets")
def unicode_decode_with_offsets(
    input: Any,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = _REPLACEMENT,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> tuple[Any, Any]:
    """The code points of strings, and the byte at which each starts; see `unicode_decode`.

    Returns:
        int32 and int64, of the rows of `unicode_decode`.
    """
    with name_scope(name, "UnicodeDecodeWithOffsets", [input]):
        value = convert_to_tensor(input, string)
        several = require_row(value, "unicode_decode")
        splits, codes, places = apply_op(
            "UnicodeDecodeWithOffsets",
            value if several else apply_op("Reshape", value, [1]),
            input_encoding=input_encoding,
            errors=errors,
            replacement_char=replacement_char,
            replace_control_characters=replace_control_characters,
        )
        if several:
            return RaggedTensor(codes, splits), RaggedTensor(places, splits)
        return codes, places


@export("strings.unicode_split")
def unicode_split(
    input: Any,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = _REPLACEMENT,
    name: str | None = None,
) -> Any:
    """The characters of strings, each as a string in UTF-8; see `unicode_decode`."""
    chars, _ = unicode_split_with_offsets(input, input_encoding, errors, replacement_char, name)
    return chars


@export("strings.unicode_split_with_offsets")
def unicode_split_with_offsets(
    input: Any,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = _REPLACEMENT,
    name: str | None = None,
) -> tuple[Any, Any]:
    """The characters of strings, and the byte at which each starts; see `unicode_decode`."""
    with name_scope(name, "UnicodeSplitWithOffsets", [input]):
        codes, places = unicode_decode_with_offsets(input, input_encoding, errors, replacement_char)
        flat = getattr(codes, "flat_values", codes)
        column = apply_op("ExpandDims", flat, 1)
        chars = unicode_encode(column, "UTF-8", errors, replacement_char)
        return (chars if flat is codes else codes.with_values(chars)), places
