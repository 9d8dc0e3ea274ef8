"""Summaries against results of TensorFlow 2.21; more in the differential cases."""

import numpy as np
import pytest

import sparkflow_runtime.ops.files.summary  # noqa: F401 - registers the ops
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.events.histogram import LARGEST, bucket_limits, histogram
from sparkflow_runtime.protos.summary_pb2 import Summary, SummaryMetadata
from support.eager import EagerBuilder

TAG = np.array(b"t", object)


def text(value):
    return np.array(value, object)


def values_of(tensor):
    return Summary.FromString(tensor.value[()]).value


def test_buckets_are_tensorflows():
    limits = bucket_limits()
    assert len(limits) == 1551
    assert (limits == -limits[::-1]).all()
    assert limits[-1] == LARGEST
    assert limits[-2] == 9.9207756218597835e19


def test_histogram_joins_empty_buckets():
    found = histogram(np.array([0.0, 1, -2, 1e-13, 5, 5.5]))
    np.testing.assert_allclose(
        found.bucket_limit,
        [
            -2.1628190051144287,
            -1.9661990955585713,
            0,
            1e-12,
            0.917246389039776,
            1.0089710279437536,
            4.6361946174186253,
            5.0998140791604882,
            5.6097954870765374,
            LARGEST,
        ],
        rtol=1e-15,
    )
    assert list(found.bucket) == [0, 1, 0, 2, 0, 1, 0, 1, 1, 0]
    assert (found.min, found.max, found.num, found.sum) == (-2, 5.5, 6, 9.5 + 1e-13)


def test_histogram_of_nothing():
    (value,) = values_of(EagerBuilder().HistogramSummary(TAG, np.zeros(0, np.float32)))
    assert (value.histo.min, value.histo.max, value.histo.num) == (LARGEST, -LARGEST, 0)
    assert list(value.histo.bucket) == [0]


@pytest.mark.parametrize(
    ("op", "args", "attrs", "message"),
    [
        ("ScalarSummary", (TAG, np.ones(2)), {}, r"not the same shape: \[\] != \[2\] \(tag 't'\)"),
        ("ScalarSummary", (text([b"a"]), np.ones(2)), {}, r"not the same shape: \[1\] != \[2\]$"),
        ("HistogramSummary", (TAG, np.array([np.nan])), {}, "Nan in summary histogram for: t"),
        ("HistogramSummary", (TAG, np.array([np.inf])), {}, "Infinity in Histogram for: t"),
        ("HistogramSummary", (text([b"a"]), np.ones(2)), {}, "tag must be scalar"),
        ("ImageSummary", (TAG, np.ones((2, 2, 1))), {}, r"must be 4-D .* not \[2,2,1\]"),
        ("ImageSummary", (TAG, np.ones((1, 2, 2, 2))), {}, "with last dim 1, 3, or 4"),
        ("ImageSummary", (TAG, np.ones((1, 0, 2, 1))), {}, "must have non-zero dims"),
        (
            "ImageSummary",
            (TAG, np.ones((1, 2, 2, 3))),
            {"bad_color": np.array([1, 2], np.uint8)},
            "expected depth <= bad_color.size, got depth = 3, bad_color.size = 2",
        ),
        ("AudioSummary", (TAG, np.ones(2, np.float32)), {"sample_rate": 1.0}, "3-D or 2-D"),
        ("AudioSummary", (TAG, np.ones((1, 2), np.float32)), {"sample_rate": 0.0}, "must be > 0"),
        (
            "AudioSummaryV2",
            (TAG, np.ones((1, 2, 0), np.float32), np.float32(8)),
            {},
            "at least one channel",
        ),
        ("TensorSummaryV2", (TAG, np.ones(1), text(b"\xff")), {}, "is no SummaryMetadata"),
        ("MergeSummary", ([text(b"\xff")],), {}, "Could not parse one of the summary inputs"),
    ],
)
def test_what_cannot_be_written_down_is_refused(op, args, attrs, message):
    with pytest.raises(InvalidArgumentError, match=message):
        getattr(EagerBuilder(), op)(*args, **attrs)


def test_bad_pixels_get_the_bad_color():
    image = np.array([[[[np.nan], [1.0]]]], np.float32)
    g = EagerBuilder()
    with_grey = g.ImageSummary(TAG, image, bad_color=np.array([7], np.uint8), max_images=1)
    same = np.array([[[[7], [255]]]], np.uint8)
    assert with_grey.value[()] == g.ImageSummary(TAG, same, max_images=1).value[()]


def test_tensors_of_both_kinds():
    g = EagerBuilder()
    metadata = SummaryMetadata(display_name="d")
    (value,) = values_of(
        g.TensorSummaryV2(TAG, np.float32([1, 2]), text(metadata.SerializeToString()))
    )
    assert (value.tag, value.metadata) == ("t", metadata)
    assert value.tensor.tensor_content == np.float32([1, 2]).tobytes()
    (value,) = values_of(g.TensorSummary(text([b"x"])))
    assert list(value.tensor.string_val) == [b"x"]


def test_merged_audio_and_scalars():
    g = EagerBuilder()
    sound = g.AudioSummary(TAG, np.zeros((2, 3), np.float32), sample_rate=8000.0, max_outputs=2)
    again = g.AudioSummaryV2(TAG, np.zeros((2, 3), np.float32), np.float32(8000), max_outputs=2)
    assert sound.value[()] == again.value[()]
    merged = g.MergeSummary([sound, g.ScalarSummary(text([b"a", b"b"]), np.float32([1, 2]))])
    assert [value.tag for value in values_of(merged)] == ["t/audio/0", "t/audio/1", "a", "b"]
