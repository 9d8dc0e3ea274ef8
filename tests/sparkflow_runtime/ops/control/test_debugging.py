"""`Assert`, `Print`, `PrintV2` and `StringFormat`: what they write and when they fail."""

import numpy as np
import pytest

import sparkflow_runtime.ops.all  # noqa: F401 - fills the registry
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.strings.tensor_text import all_elements, edge_elements
from support.eager import EagerBuilder


@pytest.fixture
def g():
    return EagerBuilder()


def text(value):
    result = np.empty((), object)
    result[()] = value
    return result


def test_assert_says_the_values(g):
    g.Assert(np.array(True), [np.array([1, 2])])
    with pytest.raises(InvalidArgumentError, match=r"^assertion failed: \[x is\] \[1 2 3\.\.\.\]"):
        g.Assert(np.array(False), [text(b"x is"), np.arange(1, 9)])
    with pytest.raises(InvalidArgumentError, match=r"\[1 2 3 4\]$"):
        g.Assert(np.array(False), [np.arange(1, 5)], summarize=-1)


def test_print_writes_the_first_times_only(g, capsys):
    result = g.Print(np.array([1.5, 2.0]), [np.array([1, 2]), text(b"a")], message="m: ")
    assert result.read().tolist() == [1.5, 2.0]
    assert capsys.readouterr().err == "m: [1 2][a]\n"
    g.Print(np.array(1), [np.array(1)], first_n=0)
    assert capsys.readouterr().err == ""


def test_print_passes_gradients(g):
    x = g.tensor(np.array([1.0, 2.0]))
    y = g.Print(x, [x])
    (dx,) = g.gradients([y], [x], [g.tensor(np.array([3.0, 4.0]))])
    assert dx.read().tolist() == [3.0, 4.0]


def test_print_v2_writes_to_streams_and_files(g, capsys, tmp_path):
    g.PrintV2(text(b"one"))
    g.PrintV2(text(b"two"), output_stream="stdout", end="!")
    captured = capsys.readouterr()
    assert (captured.err, captured.out) == ("one\n", "two!")
    file = tmp_path / "log"
    g.PrintV2(text(b"three"), output_stream=f"file://{file}")
    assert file.read_text() == "three\n"
    with pytest.raises(InvalidArgumentError, match="Unknown output stream: nowhere"):
        g.PrintV2(text(b"x"), output_stream="nowhere")


def test_string_format_fills_placeholders(g):
    filled = g.StringFormat([np.arange(9), text(b"b")], template="a ? ?!", placeholder="?")
    assert filled.read().item() == b'a [0 1 2 ... 6 7 8] "b"!'
    with pytest.raises(InvalidArgumentError, match="match: 1 vs"):
        g.StringFormat([], template="?", placeholder="?")


@pytest.mark.parametrize(
    ("array", "limit", "expected"),
    [
        (np.float32([0.1, 1e10, 1 / 3]), 9, "0.1 1e+10 0.33333334"),
        (np.array([1 / 3]), 9, "0.33333333333333331"),
        (np.array([True, False]), 9, "1 0"),
        (np.array(7), 3, "7"),
        (np.array([1 + 2j]), 3, "(1,2)"),
        (np.array([b"a\n"], object), 3, "a\\n"),
        (np.arange(8).reshape(2, 2, 2), 5, "[[0 1][2 3]][[4...]]..."),
        (np.array([np.nan, np.inf]), 3, "nan inf"),
    ],
)
def test_all_elements(array, limit, expected):
    assert all_elements(array, limit) == expected


@pytest.mark.parametrize(
    ("array", "count", "expected"),
    [
        (np.arange(4).reshape(2, 2), 3, "[[0 1]\n [2 3]]"),
        (np.arange(9).reshape(3, 3), 1, "[[0 ... 2]\n ...\n [6 ... 8]]"),
        (np.arange(9), -1, "[0 1 2 3 4 5 6 7 8]"),
        (np.array(2.5), 3, "2.5"),
    ],
)
def test_edge_elements(array, count, expected):
    assert edge_elements(array, count) == expected
