"""Regular expressions by RE2, as in TensorFlow: matching is linear in the text length.

This matters on a server, where patterns arrive in graphs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import re2

from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.once import latest
from sparkflow_runtime.ops.op import Array, Inference
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, string_attr
from sparkflow_runtime.ops.strings.string_arrays import (
    StringOp,
    flat_strings,
    mapped,
    scalar_text,
    text_of,
)
from sparkflow_runtime.resources.datasets.arrow_columns import numbers, text_column, texts
from sparkflow_runtime.shapes import Shape

_MANY = 32
"""From here on, Arrow's functions are used; they are loaded in a fifth of a second."""
_ESCAPE = re.compile(rb"\\(.|$)", re.DOTALL)


@latest(256)
def _compiled(pattern: bytes) -> Any:
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise InvalidArgumentError(
            message=f"Invalid pattern: {text_of(pattern)}, error: {_text(error)}"
        ) from error


def _text(error: Exception) -> str:
    detail = error.args[0] if error.args else ""
    return text_of(detail) if isinstance(detail, bytes) else str(detail)


def _pieces(rewrite: bytes, groups: int) -> list[bytes | int] | None:
    """Returns literals and group numbers; None for a rewrite that RE2 ignores."""
    pieces: list[bytes | int] = []
    last = 0
    for match in _ESCAPE.finditer(rewrite):
        pieces.append(rewrite[last : match.start()])
        last = match.end()
        if match[1].isdigit():
            if int(match[1]) > groups:
                return None
            pieces.append(int(match[1]))
        elif match[1] == b"\\":
            pieces.append(b"\\")
        else:
            return None
    pieces.append(rewrite[last:])
    return pieces


def _replaced(
    pattern: Any, pieces: Sequence[bytes | int] | None, data: bytes, everywhere: bool
) -> bytes:
    if pieces is None:
        return data
    out: list[bytes] = []
    at, last_end = 0, -1
    while at <= len(data):
        match = pattern.search(data, at)
        if match is None:
            break
        start, end = match.span()
        out.append(data[at:start])
        if start == end == last_end:  # no empty match directly after another one
            at = start + _size_of_character(data, start)
            out.append(data[start:at])
            continue
        out += [piece if isinstance(piece, bytes) else match[piece] or b"" for piece in pieces]
        at = last_end = end
        if not everywhere:
            break
    out.append(data[at:])
    return b"".join(out)


def _size_of_character(data: bytes, start: int) -> int:
    """The bytes of the UTF-8 character that begins there; 1 if none does."""
    lead = data[start] if start < len(data) else 0
    size = 4 if lead >= 0xF0 else 3 if lead >= 0xE0 else 2 if lead >= 0xC0 else 1
    try:
        data[start : start + size].decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return 1
    return size


class _Replaces(StringOp):
    outputs = "output: string"

    elementwise = True

    def replace(self, text: Array, pattern: bytes, rewrite: bytes, everywhere: bool) -> Array:
        """Replaces the matches in every string."""
        found = _compiled(pattern)
        pieces = _pieces(rewrite, found.groups)
        if pieces is not None and everywhere and (column := _column(text)) is not None:
            return _replaced_by_arrow(column, pattern, rewrite).reshape(np.shape(text))
        return mapped(lambda data: _replaced(found, pieces, data, everywhere), text)


@register
class RegexReplace(_Replaces):
    r"""Replaces matches; `\1` in the rewrite is the first group, `\0` the whole match."""

    inputs = "input: string, pattern: string, rewrite: string"
    attrs = {"replace_global": bool_attr(True)}

    def infer(self, node: Inference) -> list[Shape]:
        """The input's shape.

        Raises:
            InvalidArgumentError: Pattern or rewrite is not a scalar.
        """
        node.with_rank(1, 0, "Shape")
        node.with_rank(2, 0, "Shape")
        return [node.shapes[0]]

    def compute(
        self, xp: Any, text: Array, pattern: Array, rewrite: Array, *, replace_global: bool
    ) -> Array:
        """Fails for an invalid pattern."""
        return self.replace(
            text,
            scalar_text(pattern, "Pattern"),
            scalar_text(rewrite, "Rewrite"),
            replace_global,
        )


@register
class StaticRegexReplace(_Replaces):
    """`RegexReplace` with a pattern that is part of the graph."""

    inputs = "input: string"
    attrs = {
        "pattern": string_attr(),
        "rewrite": string_attr(),
        "replace_global": bool_attr(True),
    }

    def compute(
        self, xp: Any, text: Array, *, pattern: str, rewrite: str, replace_global: bool
    ) -> Array:
        """Fails for an invalid pattern."""
        return self.replace(text, pattern.encode(), rewrite.encode(), replace_global)


def _column(text: Array) -> Any:
    """Many strings as an Arrow column, whose functions use RE2, too; None for few."""
    return text_column(flat_strings(text)) if np.size(text) >= _MANY else None


def _replaced_by_arrow(column: Any, pattern: bytes, rewrite: bytes) -> Array:
    import pyarrow.compute as pc

    return texts(pc.replace_substring_regex(column, pattern, rewrite))


def _matches(pattern: bytes, text: Array) -> Array:
    found = _compiled(pattern)
    if (column := _column(text)) is not None:
        import pyarrow.compute as pc

        matched = pc.match_substring_regex(column, rb"\A(?:" + pattern + rb")\z")
        return numbers(matched).reshape(np.shape(text))
    return mapped(lambda data: found.fullmatch(data) is not None, text, np.bool_)


@register
class RegexFullMatch(StringOp):
    """Whether each whole string matches."""

    elementwise = True
    inputs = "input: string, pattern: string"
    outputs = "output: bool"

    def infer(self, node: Inference) -> list[Shape]:
        """The input's shape.

        Raises:
            InvalidArgumentError: The pattern is not a scalar.
        """
        node.with_rank(1, 0, "Shape")
        return [node.shapes[0]]

    def compute(self, xp: Any, text: Array, pattern: Array) -> Array:
        """Fails for an invalid pattern."""
        return _matches(scalar_text(pattern, "Pattern"), text)


@register
class StaticRegexFullMatch(StringOp):
    """`RegexFullMatch` with a pattern that is part of the graph."""

    elementwise = True
    inputs = "input: string"
    outputs = "output: bool"
    attrs = {"pattern": string_attr()}

    def compute(self, xp: Any, text: Array, *, pattern: str) -> Array:
        """Fails for an invalid pattern."""
        return _matches(pattern.encode(), text)
