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
    hashing,
    numerals,
    objects,
    parts,
    splitting,
)
from sparkflow_runtime.codegen.strings.hashing import Hash

Array = np.ndarray[Any, Any]


class _Derived(bytes):
    """Bytes of another type, as numpy's: kernels leave them to Python."""


def _samples() -> Array:
    random = np.random.default_rng(7)
    fixed = [
        *(b"", b"a", b" \t", b"  a b  ", b",", b",,a,", b"a,b,,c", b"\0", b"a\0b", b"\xff\xfe"),
        *("é€𝄞".encode(), b"Mixed Case-42_[]`{}@", b"x" * 5000, _Derived(b" derived, Bytes ")),
    ]
    sizes = [*range(140), *random.integers(0, 400, 100)]
    words = [bytes(random.choice(list(b"aBc ,;\t"), size)) for size in sizes]
    found = [*fixed, *words, *(random.bytes(int(size)) for size in sizes)]
    result = np.empty(len(found), object)
    result[:] = found
    return result


SAMPLES = _samples()
KEY = (3, (1 << 64) - 5)


@pytest.fixture(params=[True, False], ids=["machine code", "python"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setattr(objects, "_bytes_are_as_known", lambda: False)


def _exactly(value: object) -> bytes:
    assert isinstance(value, bytes)
    return bytes(value)


def _refuse(_: Any) -> Any:
    raise AssertionError("Python was asked")


def _farm_buckets() -> Array:
    return hashing.hashed(Hash.FARM, SAMPLES)


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


@pytest.mark.parametrize("function", Hash)
def test_hashes_of_machine_code_and_numpy_agree(function: Hash) -> None:
    expected = [hashing.hash_of(function, each, KEY) for each in SAMPLES]
    assert hashing.hashed(function, SAMPLES, KEY).tolist() == expected


def test_hashes_are_those_of_the_references() -> None:
    # Farmhash's Fingerprint64 and SipHash-2-4 of the papers' test vectors.
    assert hashing.hash_of(Hash.FARM, b"") == 0x9AE16A3B2F90404F
    key = np.frombuffer(bytes(range(16)), "<u8").tolist()
    assert hashing.hash_of(Hash.SIP, bytes(range(15)), key) == 0xA129CA6149BE45E5


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("skips_empty", [True, False])
@pytest.mark.parametrize("empty_has_part", [True, False])
def test_split(skips_empty: bool, empty_has_part: bool) -> None:
    def split(data: bytes) -> list[bytes]:
        if not data and not empty_has_part:
            return []
        found = bytes(data).replace(b";", b",").split(b",")
        return [each for each in found if each] if skips_empty else found

    counts, found, places = splitting.split(
        SAMPLES, b",;", skips_empty=skips_empty, by_python=split
    )
    rows = [split(each) for each in SAMPLES]
    assert counts.tolist() == [len(row) for row in rows]
    assert found.tolist() == [each for row in rows for each in row]
    assert places.tolist() == [n for row in rows for n in range(len(row))]


@pytest.mark.usefixtures("_way")
def test_rows_end_at_another_length() -> None:
    strings = np.array([b"abcd", b"efgh", b"xyz", b"ijkl"], object)
    rows, count = parts.joined_rows(strings, 4)
    assert count == 2
    assert rows[:2].tobytes() == b"abcdefgh"


def _written(numbers: Array, decimals: int) -> list[bytes]:
    found = np.empty(numbers.size, object)

    def by_python(number: int) -> None:
        found[number] = b"%.*f" % (decimals, numbers[number])

    numerals.write_fixed(numbers, decimals, found, by_python)
    return found.tolist()


@pytest.mark.parametrize("decimals", range(numerals.MOST_DECIMALS + 1))
def test_fixed_decimals_are_those_of_printf(decimals: int) -> None:
    random = np.random.default_rng(decimals)
    numbers = np.concatenate(
        [
            random.normal(size=500) * 10.0 ** random.integers(-12, 20, 500),
            random.integers(-(10**6), 10**6, 500) / 2.0 ** random.integers(0, 12, 500),  # halves
            random.normal(size=200).astype(np.float32).astype(np.float64),
            [0.0, -0.0, 0.5, 1.5, 2.5, 5e-324, 2.0**-1074, 1e-310, 1e17, 1e18, -1e300, 2.0**63],
            [np.inf, -np.inf, np.nan, 0.9999999999, 9.9999999995, 999999999.9999999],
        ]
    )
    assert _written(numbers, decimals) == [b"%.*f" % (decimals, each) for each in numbers]


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_whole_numbers_as_text(dtype: Any) -> None:
    limits = np.iinfo(dtype)
    numbers = np.array([0, 1, 9, 10, 99, 12345, limits.max, limits.min, limits.max - 1], dtype)
    found = np.empty(numbers.size, object)
    numerals.write_integers(numbers, found, _refuse)
    assert found.tolist() == [b"%d" % each for each in numbers.tolist()]


_FLOATS = [
    *(b"0", b"-0", b"1", b"+1.5", b" 2.25 ", b"\t-3e2\n", b"1e-5", b".5", b"5.", b"1E+3"),
    *(b"123456789012345678", b"9007199254740993", b"0.1", b"3.14159265358979", b"1e22", b"1e-22"),
    *(b"1e23", b"1e400", b"-1e-400", b"nan", b"inf", b"0x1p3", b"00000000000000000000001"),
]
_NOT_NUMBERS = [
    b"",
    b" ",
    b".",
    b"-",
    b"1e",
    b"1e+",
    b"1.2.3",
    b"1 2",
    b"a",
    b"1a",
    b"1\x00",
    b"--1",
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_parsed_floats(dtype: Any) -> None:
    random = np.random.default_rng(3)
    digits = random.integers(1, 18, 999).tolist()
    numbers = random.normal(size=999) * 10.0 ** random.integers(-9, 9, 999)
    texts = [b"%.*g" % each for each in zip(digits, numbers, strict=True)]
    given = np.array([*_FLOATS, *texts], object)
    found = np.empty(given.size, dtype)
    asked = []

    def by_python(number: int) -> None:
        asked.append(number)
        text = given[number].strip()
        found[number] = float.fromhex(text.decode()) if b"x" in text else float(text)

    with np.errstate(over="ignore"):
        numerals.parse_floats(given, found, by_python)
        expected = np.array(
            [float.fromhex(x.decode()) if b"x" in x else float(x) for x in given], dtype
        )
    np.testing.assert_array_equal(found, expected)
    assert np.signbit(found).tolist() == np.signbit(expected).tolist()
    assert [given[number] for number in asked] == [b"nan", b"inf", b"0x1p3"]


@pytest.mark.parametrize("text", _NOT_NUMBERS)
def test_what_is_no_number_is_left_to_python(text: bytes) -> None:
    given = np.array([b"1", text, b"2"], object)
    for found in (np.zeros(3, np.float32), np.zeros(3, np.int64)):
        asked: list[int] = []
        if found.dtype.kind == "f":
            numerals.parse_floats(given, found, asked.append)
        else:
            numerals.parse_integers(given, found, (-(2**63), 2**63 - 1), asked.append)
        assert asked == [1]
        assert found.tolist() == [1, 0, 2]


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64])
def test_parsed_integers(dtype: Any) -> None:
    limits = np.iinfo(dtype)
    given = [limits.min, limits.max, 0, 7, 10**9, 123456789]
    texts = np.array([b" %d " % each for each in given] + [b"+5"], object)
    found = np.empty(len(texts), dtype)

    def by_python(number: int) -> None:
        found[number] = int(texts[number])

    numerals.parse_integers(texts, found, (int(limits.min), int(limits.max)), by_python)
    assert found.tolist() == [*given, 5]
    outside = np.array([b"%d" % (int(limits.max) + 1), b"%d" % (int(limits.min) - 1)], object)
    asked: list[int] = []
    numerals.parse_integers(
        outside, found[:2].copy(), (int(limits.min), int(limits.max)), asked.append
    )
    assert asked == [0, 1]


@pytest.mark.parametrize("text", [b"a", b"abc$", b"ab=c", b"a===", b"abcde", b"\xff\xff"])
def test_what_is_not_base_64_is_left_to_python(text: bytes) -> None:
    asked: list[bytes] = []

    def by_python(data: bytes) -> bytes:
        asked.append(data)
        return b""

    base64.decoded(np.array([b"YQ", text], object), by_python)
    assert asked == [text]


def test_texts_become_utf_8_and_others_are_left_to_python() -> None:
    values = np.array(["é", b"b", "", "\ud800", 3, None, np.str_("n"), _Derived(b"d")], object)
    asked: list[object] = []

    def by_python(value: object) -> bytes:
        asked.append(value)
        return b"?"

    found = encoding.encoded(values, by_python)
    assert found.tolist() == ["é".encode(), b"b", b"", *[b"?"] * 5]
    assert asked == values.tolist()[3:]
