"""Numbers as strings and strings as numbers, against Python's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.strings import numerals

Array = np.ndarray[Any, Any]


def _refuse(_: Any) -> Any:
    raise AssertionError("Python was asked")


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
