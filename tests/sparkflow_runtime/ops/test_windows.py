"""Positions of windows: against a plain enumeration of their elements, and TensorFlow's errors."""

import itertools

import numpy as np
import pytest

from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.windows import (
    Layout,
    as_channels_last,
    channels_last,
    from_channels_last,
    in_format,
    offsets,
    pad_images,
    spatial,
    static_channels_last,
    window_view,
)


def layout(padding: str, stride: int = 1, dilation: int = 1, data_format: str = "NHWC") -> Layout:
    explicit = [0, 0, 2, 1, 0, 3, 0, 0]
    if data_format == "NCHW":
        explicit = [0, 0, 0, 0, 2, 1, 0, 3]
    return Layout.of(
        {
            "strides": in_format((1, stride, stride, 1), data_format),
            "dilations": in_format((1, dilation, dilation, 1), data_format),
            "padding": padding,
            "explicit_paddings": explicit if padding == "EXPLICIT" else [],
            "data_format": data_format,
        }
    )


@pytest.mark.parametrize("padding", ["SAME", "VALID", "EXPLICIT"])
@pytest.mark.parametrize(
    ("dim", "size", "stride", "dilation"),
    list(itertools.product([4, 7], [1, 3], [1, 2, 3], [1, 2])),
)
def test_windows_cover_the_padded_image(
    padding: str, dim: int, size: int, stride: int, dilation: int
) -> None:
    extent = (size - 1) * dilation + 1
    chosen = layout(padding, stride, dilation)
    if padding == "VALID" and extent > dim:
        with pytest.raises(InvalidArgumentError, match=r"caused by subtracting \d+ from \d+"):
            chosen.count(dim, 0, size)
        return
    window, _ = chosen.windows((dim, 9), (size, 1))
    padded = dim + window.before + window.after
    starts = [start for start in range(0, padded, stride) if start + extent <= padded]
    if padding == "SAME":
        assert window.count == -(-dim // stride)
        assert 0 <= window.after - window.before <= 1
        assert window.count <= len(starts)
        # One zero less would mean one window less.
        assert not window.after or (window.count - 1) * stride + extent == padded
    else:
        assert (window.before, window.after) == ((2, 1) if padding == "EXPLICIT" else (0, 0))
        assert window.count == len(starts)
    assert chosen.count(dim, 0, size) == window.count
    assert window.extent == extent
    for offset in range(size):
        places = range(padded)[window.taken(offset)]
        assert list(places) == [n * stride + offset * dilation for n in range(window.count)]


def test_where_only_a_bit_is_missing_there_is_no_window() -> None:
    chosen = layout("VALID", stride=3)
    assert chosen.windows((4, 4), (5, 5))[0].count == 0
    assert chosen.windows((4, 4), (6, 6))[0].count == 0
    with pytest.raises(InvalidArgumentError, match="output size would be negative: -1"):
        layout("VALID", stride=2).windows((2, 9), (6, 1))


@pytest.mark.parametrize(("dim", "size"), [(None, 3), (7, None), (None, None)])
def test_unknown_sizes(dim: int | None, size: int | None) -> None:
    known = 3 if dim is not None else None
    assert layout("SAME", 3).count(dim, 0, size) == known
    assert layout("VALID", 3).count(dim, 0, size) is None


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_the_format_only_changes_the_order(data_format: str) -> None:
    assert layout("EXPLICIT", 2, 3, data_format).explicit == ((2, 1), (0, 3))
    assert layout("SAME", 2, 3, data_format).strides == (2, 2)
    sizes = in_format((8, 5, 6, 3), data_format)
    assert sizes == ((8, 5, 6, 3) if data_format == "NHWC" else (8, 3, 5, 6))
    assert channels_last(sizes, data_format) == (8, 5, 6, 3)
    images = np.arange(720).reshape(sizes)
    seen = as_channels_last(images, data_format, "input")
    assert seen.shape == (8, 5, 6, 3)
    assert np.shares_memory(seen, images)
    back = from_channels_last(np, seen, data_format)
    np.testing.assert_array_equal(back, images)
    assert back.flags.c_contiguous
    assert static_channels_last(sizes, data_format) == (8, 5, 6, 3)
    assert static_channels_last(None, data_format) == (None,) * 4


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([1, 2, 2], r"strides must have 4 elements for NHWC, got \[1, 2, 2\]"),
        ([2, 1, 1, 1], "over the batch or channel dimension"),
        ([1, 1, 1, 2], "over the batch or channel dimension"),
        ([1, 0, 1, 1], r"strides must be positive, got \[1, 0, 1, 1\]"),
    ],
)
def test_strides_that_cannot_be(values: list[int], text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        spatial(values, "NHWC", "strides")


@pytest.mark.parametrize(
    ("padding", "given", "text"),
    [
        ("SAME", [0] * 8, "must be empty if padding is SAME"),
        ("EXPLICIT", [0] * 6, "must be 8 numbers"),
        ("EXPLICIT", [0, 0, -1, 0, 0, 0, 0, 0], "not negative"),
        ("EXPLICIT", [0, 1, 0, 0, 0, 0, 0, 0], "must be 0 for the batch"),
        ("EXPLICIT", [0, 0, 0, 0, 0, 0, 1, 0], "must be 0 for the batch"),
    ],
)
def test_paddings_that_cannot_be(padding: str, given: list[int], text: str) -> None:
    attrs = {"strides": [1] * 4, "padding": padding, "explicit_paddings": given}
    with pytest.raises(InvalidArgumentError, match=text):
        Layout.of(attrs)


def test_a_wrong_rank_is_named() -> None:
    with pytest.raises(InvalidArgumentError, match=r"input must be 4-dimensional, got shape \[2,3"):
        as_channels_last(np.zeros((2, 3, 4)), "NHWC", "input")


@pytest.mark.parametrize("padding", ["SAME", "VALID", "EXPLICIT"])
def test_views_and_offsets_see_the_same_elements(padding: str) -> None:
    images = np.random.RandomState(0).rand(2, 7, 6, 3)
    windows = layout(padding, 2, 2).windows((7, 6), (3, 2))
    padded = pad_images(np, images, windows, border=-1.0)
    assert (padded is images) is (padding == "VALID")
    seen = window_view(np, padded, windows)
    rows, columns = windows
    assert seen.shape == (2, rows.count, columns.count, 3, 2, 3)
    for place, index in offsets(windows):
        np.testing.assert_array_equal(padded[index], seen[:, :, :, place[0], place[1]])
    assert padded.sum() == pytest.approx(images.sum() - (padded.size - images.size))
