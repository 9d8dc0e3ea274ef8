"""Patterns by Arrow, for many strings, against one string at a time."""

from __future__ import annotations

import numpy as np
import pytest

from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.strings import string_pattern
from sparkflow_runtime.ops.strings.string_pattern import RegexFullMatch, RegexReplace

GENERATOR = np.random.default_rng(0)
PATTERNS = [
    *(b"o[rf]", b"", b"a*", b"(a)(b)?", b"^a", b"b$", b".", b"(?i)A", b"[^a]", b"a|", b"\xc3\xa9"),
    *(b"\\Ba", b"(?s).", b"x?", b"^", b"$", b"(?m)^a"),
]
REWRITES = [b"", b"x", b"<\\0>", b"\\1", b"\\2-\\1", b"\\\\", b"\\9", b"\\q", b"a\0b"]


def _texts() -> np.ndarray:
    alphabet = [*b"aaabbor \n\0", 0xC3, 0xA9, 0xFF, 0xE2]
    lengths = GENERATOR.integers(0, 12, 400)
    found = np.empty(len(lengths), object)
    found[:] = [bytes(GENERATOR.choice(alphabet, size).tolist()) for size in lengths]
    found[0] = "aéaé".encode()
    return found


TEXTS = _texts()


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("rewrite", REWRITES)
def test_many_strings_are_replaced_as_single_ones(pattern: bytes, rewrite: bytes) -> None:
    op, given = RegexReplace(), (np.array(pattern, object), np.array(rewrite, object))
    assert len(TEXTS) >= string_pattern._MANY
    many = op.compute(np, TEXTS, *given, replace_global=True)
    each = [op.compute(np, TEXTS[n : n + 1], *given, replace_global=True)[0] for n in range(400)]
    assert many.tolist() == each


@pytest.mark.parametrize("pattern", PATTERNS)
def test_many_strings_match_as_single_ones(pattern: bytes) -> None:
    op, given = RegexFullMatch(), np.array(pattern, object)
    many = op.compute(np, TEXTS.reshape(20, 20), given)
    each = [bool(op.compute(np, TEXTS[n : n + 1], given)[0]) for n in range(400)]
    assert many.shape == (20, 20)
    assert many.ravel().tolist() == each


def test_an_invalid_pattern_is_refused_for_many() -> None:
    with pytest.raises(InvalidArgumentError, match="Invalid pattern"):
        RegexFullMatch().compute(np, TEXTS, np.array(b"(", object))
