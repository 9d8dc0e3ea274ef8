"""Strings for the tests of kernels: of many lengths, of any bytes, and one of another type."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class Derived(bytes):
    """Bytes of another type, as numpy's: kernels leave them to Python."""


def _made() -> Array:
    random = np.random.default_rng(7)
    fixed = [
        *(b"", b"a", b" \t", b"  a b  ", b",", b",,a,", b"a,b,,c", b"\0", b"a\0b", b"\xff\xfe"),
        *("é€𝄞".encode(), b"Mixed Case-42_[]`{}@", b"x" * 5000, Derived(b" derived, Bytes ")),
    ]
    sizes = [*range(140), *random.integers(0, 400, 100)]
    words = [bytes(random.choice(list(b"aBc ,;\t"), size)) for size in sizes]
    found = [*fixed, *words, *(random.bytes(int(size)) for size in sizes)]
    result = np.empty(len(found), object)
    result[:] = found
    return result


SAMPLES = _made()
