"""Lines as columns against `csv.split_line`: any bytes, quotes, missing fields, wrong lines."""

from __future__ import annotations

import itertools
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.strings import objects
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.files.csv import DecodeCSV
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.resources.container import Resources

TYPES = [dtypes.float32, dtypes.string, dtypes.int32, dtypes.float64, dtypes.int64]
NUMBERS = [
    *(b"1", b"-2.5", b" 7 ", b"1e3", b"0.1", b"12345678901234567890", b"nan", b"-inf", b"0x10"),
    *(b"3.14159265358979312", b"2147483647", b"2147483648", b"1e400", b"", b"NA", b"+4", b"1_0"),
]
WORDS = [b"a", b"", b"NA", b'"a,b"', b'"say ""yes"""', b'""', b"x y", b"\xff\0", b"N"]


CONTEXT = KernelContext(np, "CPU", "/device:CPU:0", Resources(), Resources())


def _node(attrs: dict[str, Any]) -> Any:
    return SimpleNamespace(attrs=attrs)


def _line(random: np.random.Generator, wild: bool, delimiter: bytes) -> bytes:
    if wild:
        alphabet = [*b'1,2"\n\r aNA.e-;\t', delimiter[0]]
        return bytes(random.choice(alphabet, random.integers(0, 30)).tolist())
    whole = [b"%d" % n for n in random.integers(-100, 100, 4)]
    if random.random() < 0.3:
        whole += NUMBERS
    fields = [WORDS if dtype is dtypes.string else whole for dtype in TYPES]
    return delimiter.join(each[random.integers(0, len(each))] for each in fields)


def _outcome(lines: list[bytes], defaults: Any, **attrs: Any) -> Any:
    given = np.empty(len(lines), object)
    given[:] = lines
    chosen = attrs.get("select_cols", ())
    types = [TYPES[n] for n in chosen] if chosen else TYPES
    standing_in = [defaults[TYPES.index(dtype)] for dtype in types]
    settings: dict[str, Any] = {"field_delim": ",", "use_quote_delim": True, "na_value": ""}
    settings |= {"select_cols": (), "OUT_TYPE": types, **attrs}
    try:
        columns = DecodeCSV().bind(_node(settings), CONTEXT)(given, *standing_in)
    except InvalidArgumentError as error:
        return str(error)
    return [(each.dtype.str, each.shape, each.tolist()) for each in columns]


REQUIRED = [np.zeros(0, dtype.as_numpy_dtype) for dtype in TYPES]
GIVEN = [
    np.array([9.5], np.float32),
    np.array(b"none", object),
    np.array([5], np.int32),
    np.array(2.5),
    np.array([-7]),
]
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "tabs": {"field_delim": "\t"},
    "digits between": {"field_delim": "1"},
    "no quotes": {"use_quote_delim": False},
    "NA": {"na_value": "NA"},
    "some": {"select_cols": (1, 3)},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(6))
def test_against_python(way: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(seed)
    delimiter = WAYS[way].get("field_delim", ",").encode()
    for turn, defaults in itertools.product(range(30), (REQUIRED, GIVEN)):
        lines = [_line(random, turn % 3 == 2, delimiter) for _ in range(1 + turn % 4)]
        found = repr(_outcome(lines, defaults, **WAYS[way]))
        with monkeypatch.context() as patch:
            patch.setattr(objects, "_bytes_are_as_known", lambda: False)
            assert found == repr(_outcome(lines, defaults, **WAYS[way])), lines


def test_plain_lines_are_not_left_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError("left to Python")

    monkeypatch.setattr("sparkflow_runtime.ops.files.csv.split_line", refuse)
    found = _outcome([b'1.5,"a,b",-3,2.25e3,', b",,4,0.1,12"], GIVEN)
    assert [each[2] for each in found] == [
        [1.5, 9.5],
        [b"a,b", b"none"],
        [-3, 4],
        [2250, 0.1],
        [-7, 12],
    ]


def test_one_line_gives_scalars() -> None:
    settings = {"field_delim": ",", "use_quote_delim": True, "na_value": "", "select_cols": ()}
    kernel = DecodeCSV().bind(_node({**settings, "OUT_TYPE": TYPES}), CONTEXT)
    for line in (b"1.5,a,2,,4", np.array(b"1.5,a,2,,4", object)):
        columns = kernel(line, *GIVEN)
        assert [each.shape for each in columns] == [()] * 5
        assert [each.item() for each in columns] == [1.5, b"a", 2, 2.5, 4]


def test_defaults_do_not_leak() -> None:
    text = b"a text of its own, %d" % id(object())
    settings = {"field_delim": ",", "use_quote_delim": True, "na_value": "", "select_cols": ()}
    settings["_blank_lines"] = True
    kernel = DecodeCSV().bind(_node({**settings, "OUT_TYPE": [dtypes.string]}), CONTEXT)
    default, lines = np.array([text], object), np.array([b"", b"x", b""], object)
    before = sys.getrefcount(text)
    (column,) = kernel(lines, default)
    assert column.tolist() == [text, b"x", text]
    assert sys.getrefcount(text) == before + 2
    del column
    assert sys.getrefcount(text) == before
