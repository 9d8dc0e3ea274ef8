"""Kernels of strings against Python's own functions: any bytes, any objects, without a leak."""

from __future__ import annotations

import base64 as standard
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.strings import (
    base64,
    encoding,
    objects,
    parts,
)
from support.string_samples import SAMPLES

Array = np.ndarray[Any, Any]


KEY = (3, (1 << 64) - 5)


def _exactly(value: object) -> bytes:
    assert isinstance(value, bytes)
    return bytes(value)


def _refuse(_: Any) -> Any:
    raise AssertionError("Python was asked")


_STARTS = np.random.default_rng(1).integers(-3, 4, SAMPLES.size)
_COUNTS = np.random.default_rng(2).integers(-1, 6, SAMPLES.size)


def _part(number: int) -> bytes | None:
    """The part as the op defines it; None where it refuses."""
    data, start, count = SAMPLES[number], int(_STARTS[number]), int(_COUNTS[number])
    if not -len(data) <= start <= len(data):
        return None
    first = start + len(data) if start < 0 else start
    return bytes(data[first : len(data) if count < 0 else first + count])


def _substrings() -> Array:
    found = np.empty(SAMPLES.size, object)

    def by_python(number: int) -> None:
        found[number] = _part(number)

    parts.substrings(SAMPLES, _STARTS, _COUNTS, by_python, found)
    return found


def _url(data: bytes) -> bytes:
    return standard.urlsafe_b64encode(data)


def _plain_url(data: bytes) -> bytes:
    return _url(data).rstrip(b"=")


CASES: dict[str, tuple[Callable[[], Array], Callable[[int], Any]]] = {
    "length": (
        lambda: parts.lengths(SAMPLES, in_characters=False),
        lambda n: len(SAMPLES[n]),
    ),
    "characters": (
        lambda: parts.lengths(SAMPLES, in_characters=True),
        lambda n: len(parts.char_starts(SAMPLES[n])),
    ),
    "equal": (
        lambda: parts.equal(SAMPLES, np.roll(SAMPLES, 1)),
        lambda n: SAMPLES[n] == SAMPLES[n - 1],
    ),
    "equal to copies": (
        lambda: parts.equal(SAMPLES, np.array([*map(bytes, SAMPLES.tolist()), None])[:-1]),
        lambda n: True,
    ),
    "stripped": (lambda: parts.stripped(SAMPLES), lambda n: SAMPLES[n].strip()),
    "upper": (
        lambda: parts.in_ascii_case(SAMPLES, is_upper=True),
        lambda n: SAMPLES[n].upper(),
    ),
    "lower": (
        lambda: parts.in_ascii_case(SAMPLES, is_upper=False),
        lambda n: SAMPLES[n].lower(),
    ),
    "substrings": (_substrings, _part),
    "base 64": (
        lambda: base64.encoded(SAMPLES, False, _plain_url),
        lambda n: _plain_url(SAMPLES[n]),
    ),
    "padded": (lambda: base64.encoded(SAMPLES, True, _url), lambda n: _url(SAMPLES[n])),
    "decoded": (
        lambda: base64.decoded(np.array([*map(_url, SAMPLES.tolist()), None])[:-1], _refuse),
        lambda n: SAMPLES[n],
    ),
    "decoded, not padded": (
        lambda: base64.decoded(np.array([*map(_plain_url, SAMPLES.tolist()), None])[:-1], _refuse),
        lambda n: SAMPLES[n],
    ),
    "encoded": (lambda: encoding.encoded(SAMPLES, _exactly), lambda n: SAMPLES[n]),
}


@pytest.mark.parametrize("name", CASES)
def test_kernel_against_python(name: str) -> None:
    function, expected = CASES[name]
    assert function().tolist() == [expected(number) for number in range(SAMPLES.size)]


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("decoded")])
def test_the_way_without_machine_code(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "_bytes_are_as_known", lambda: False)
    function, expected = CASES[name]
    assert function().tolist() == [expected(number) for number in range(SAMPLES.size)]


@pytest.mark.parametrize("name", CASES)
def test_references_are_kept_and_released(name: str) -> None:
    function, _ = CASES[name]
    function()
    sample, rounds = SAMPLES[40], 50
    before = sys.getrefcount(sample), sys.getrefcount(None), sys.getrefcount(SAMPLES[0])
    for _ in range(rounds):
        function()
    after = sys.getrefcount(sample), sys.getrefcount(None), sys.getrefcount(SAMPLES[0])
    assert all(abs(a - b) < rounds for a, b in zip(before, after, strict=True))
