"""Unicode in `tf.strings`: code points, encodings.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/strings/unicode.py`.
"""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor

__all__ = [
    "unicode_transcode",
]


def unicode_transcode(
    input: Any,
    input_encoding: str,
    output_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> Tensor:
    """Strings in another encoding.

    Args:
        input: Strings.
        input_encoding: What they are in, such as "UTF-8" or "latin1".
        output_encoding: "UTF-8", "UTF-16-BE" or "UTF-32-BE". One of `UTF-16-BE`, `UTF-32-BE`,
            `UTF-8`.
        errors: What to do where there is no character: "replace", "ignore" or "strict". One of
            `ignore`, `replace`, `strict`.
        replacement_char: The code point for "replace".
        replace_control_characters: Treat those below 32 so too.
        name: Name of the node.

    Returns:
        A string tensor of the shape of `input`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op(
        "UnicodeTranscode",
        input,
        input_encoding=input_encoding,
        output_encoding=output_encoding,
        errors=errors,
        replacement_char=replacement_char,
        replace_control_characters=replace_control_characters,
        name=name,
    )
    return result
