"""Ops that parse texts: images, sounds, numbers, rows, Examples, compressed data, patterns."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any

import numpy as np
from oracle import MOST_BYTES, Target
from PIL import Image

import sparkflow as tf


class _Fed:
    """Steps of a graph that is built at the first of them, fed with the bytes.

    Args:
        build: From the scalar text to what is fetched.
    """

    def __init__(self, build: Callable[[Any], Any]) -> None:
        self._build = build
        self._run: Callable[[bytes], Any] | None = None

    def __call__(self, data: bytes) -> None:
        if self._run is None:
            with tf.Graph().as_default():
                text = tf.placeholder(tf.string, ())
                fetched = self._build(text)
                self._run = tf.Session().make_callable(fetched, [text])
        self._run(np.array(data, object))


def _image(kind: str) -> bytes:
    stream = BytesIO()
    pixels = np.arange(4 * 3 * 3, dtype=np.uint8).reshape(4, 3, 3)
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


def _gif() -> bytes:
    stream = BytesIO()
    frames = [Image.new("L", (4, 3), shade) for shade in (0, 128)]
    frames[0].save(stream, "GIF", save_all=True, append_images=frames[1:])
    return stream.getvalue()


def _wav() -> bytes:
    with tf.Graph().as_default(), tf.Session() as session:
        made = tf.audio.encode_wav([[0.5], [-0.5], [0.25]], 8000)
        return bytes(session.run(made))


def _crop(text: Any) -> Any:
    return tf.image.decode_and_crop_jpeg(text, [1, 1, 2, 2])


def _single_example(text: Any) -> Any:
    return tf.parse_single_example(
        text,
        {
            "x": tf.FixedLenFeature([2], tf.float32, [0.0, 0.0]),
            "n": tf.VarLenFeature(tf.int64),
            "t": tf.FixedLenSequenceFeature([], tf.string, allow_missing=True),
        },
    )


def _sequence_example(text: Any) -> Any:
    return tf.io.parse_single_sequence_example(
        text,
        {"x": tf.FixedLenFeature([], tf.float32, 0.0)},
        {"n": tf.VarLenFeature(tf.int64), "t": tf.FixedLenSequenceFeature([], tf.string, True)},
    )


def _example() -> bytes:
    example = tf.train.Example()
    example.features.feature["x"].float_list.value.extend([1.0, 2.0])
    example.features.feature["n"].int64_list.value.append(3)
    example.features.feature["t"].bytes_list.value.append(b"a")
    return example.SerializeToString()


def _sequence() -> bytes:
    example = tf.train.SequenceExample()
    example.context.feature["x"].float_list.value.append(1.0)
    example.feature_lists.feature_list["n"].feature.add().int64_list.value.append(1)
    example.feature_lists.feature_list["t"].feature.add().bytes_list.value.append(b"a")
    return example.SerializeToString()


def _tensor() -> bytes:
    return tf.make_tensor_proto([[1.0, 2.0]]).SerializeToString()


def _csv(text: Any) -> Any:
    return tf.decode_csv(text, [[0.0], [""], [tf.constant(0, tf.int64)]])


def _integer(text: Any) -> Any:
    return tf.string_to_number(text, tf.int64)


def _summary_seed() -> bytes:
    summary = tf.Summary()
    summary.value.add(tag="a", simple_value=1.0)
    return summary.SerializeToString()


def _raw(text: Any) -> Any:
    return [tf.decode_raw(text, dtype) for dtype in (tf.int16, tf.uint8)]


def _unicode(text: Any) -> Any:
    decoded = tf.strings.unicode_decode_with_offsets(text, "UTF-8", errors="replace")
    return [*decoded, tf.strings.unicode_transcode(text, "UTF-16-BE", "UTF-8")]


def _pieces(text: Any) -> Any:
    return [
        tf.string_split([text], ",").values,
        tf.strings.length(text, "UTF8_CHAR"),
        tf.strings.lower(text, "utf-8"),
        tf.substr(text, 0, 2),
        tf.strings.strip(text),
        tf.string_to_hash_bucket_strong(text, 100, [1, 2]),
    ]


def _pattern(text: Any) -> Any:
    return tf.strings.regex_replace(tf.constant("abcabc"), text, r"[\0]")


def _rewrite(text: Any) -> Any:
    return tf.strings.regex_replace(tf.constant("abcabc"), "(b)", text)


def _expanded(kind: str) -> Callable[[Any], Any]:
    return lambda text: tf.decode_compressed(text, kind)


def _summary(text: Any) -> Any:
    return tf.raw_ops.MergeSummary(inputs=[text])


def _of(
    name: str,
    build: Callable[[Any], Any],
    *seeds: Callable[[], bytes] | bytes,
    most_bytes: int = MOST_BYTES,
) -> Target:
    def found() -> Sequence[bytes]:
        return [each if isinstance(each, bytes) else each() for each in seeds]

    return Target(name, _Fed(build), found, (), most_bytes)


_ROWS = b'1.5,"a ""b"" c",3'

_PIXELS = 2 << 30
"""Of 2**28 pixels, while they change their form."""
_EXPANDED = 2 << 30
"""1 GiB, in pieces and then as one."""

TARGETS = [
    _of("png", tf.image.decode_png, lambda: _image("PNG"), most_bytes=_PIXELS),
    _of("jpeg", tf.image.decode_jpeg, lambda: _image("JPEG"), most_bytes=_PIXELS),
    _of("jpeg_crop", _crop, lambda: _image("JPEG"), most_bytes=_PIXELS),
    _of("jpeg_shape", tf.image.extract_jpeg_shape, lambda: _image("JPEG")),
    _of("bmp", tf.image.decode_bmp, lambda: _image("BMP"), most_bytes=_PIXELS),
    _of("gif", tf.image.decode_gif, _gif, most_bytes=_PIXELS),
    _of(
        "image",
        tf.image.decode_image,
        lambda: _image("PNG"),
        _gif,
        lambda: _image("BMP"),
        most_bytes=_PIXELS,
    ),
    _of("wav", tf.audio.decode_wav, _wav),
    _of("example", _single_example, _example),
    _of("sequence_example", _sequence_example, _sequence),
    _of(
        "example_json",
        tf.io.decode_json_example,
        b'{"features": {"feature": {"x": {"floatList": {"value": [1.5]}}}}}',
    ),
    _of("serialized_tensor", lambda text: tf.parse_tensor(text, tf.float32), _tensor),
    _of("csv", _csv, _ROWS),
    _of("number", tf.string_to_number, b"1.5e3", b"-12", b"nan"),
    _of("integer", _integer, b"-12", b"007"),
    _of("raw", _raw, b"\1\2\3\4"),
    _of("base64", tf.decode_base64, b"YWJj"),
    _of(
        "gzip_op",
        lambda t: tf.decode_compressed(t, "GZIP"),
        gzip.compress(b"a" * 99),
        most_bytes=_EXPANDED,
    ),
    _of(
        "zlib_op",
        lambda t: tf.decode_compressed(t, "ZLIB"),
        zlib.compress(b"a" * 99),
        most_bytes=_EXPANDED,
    ),
    _of("unicode", _unicode, "aé€😀".encode(), b"\xff\xc3"),
    _of("texts", _pieces, b"a,b,,c", "É,ß".encode()),
    _of("pattern", _pattern, b"(a|b)+c?", b"[[:alpha:]]{1,3}"),
    _of("rewrite", _rewrite, rb"<\1>"),
    _of("summary", _summary, _summary_seed),
]
