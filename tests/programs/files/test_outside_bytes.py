"""Files of others with bytes changed or cut: only errors that say what is wrong.

Checksums do not help here: images, sounds and TensorFlow's meta graphs have none, and entries of a
checkpoint may be wrong with correct ones. What is read may differ. Errors are an `OpError`; for
meta graphs, as in TensorFlow, also an `OSError` (not a message) or a `ValueError` (not a graph).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import sparkflow as tf
from sparkflow_runtime.checkpoint.bundle_reader import BundleReader
from sparkflow_runtime.checkpoint.sorted_table import TableReader, encode_table
from support.damage import damages

Reader = Callable[[bytes], Any]


def _fed(build: Callable[[Any], Any]) -> Reader:
    with tf.Graph().as_default():
        text = tf.placeholder(tf.string, ())
        run = tf.Session().make_callable(build(text), [text])
    return lambda data: run(np.array(data, object))


def wav(folder: Path) -> tuple[bytes, Reader]:
    with tf.Graph().as_default(), tf.Session() as session:
        made = session.run(tf.audio.encode_wav([[0.5], [-0.5], [0.25]], 8000))
    return made, _fed(tf.audio.decode_wav)


def gif(folder: Path) -> tuple[bytes, Reader]:
    stream = BytesIO()
    frames = [Image.new("L", (4, 3), shade) for shade in (0, 128)]
    frames[0].save(stream, "GIF", save_all=True, append_images=frames[1:])
    return stream.getvalue(), _fed(tf.image.decode_gif)


def image(folder: Path) -> tuple[bytes, Reader]:
    return gif(folder)[0], _fed(tf.image.decode_image)


def meta_graph(folder: Path) -> tuple[bytes, Reader]:
    with tf.Graph().as_default():
        tf.get_variable("v", initializer=[1.0, 2.0])
        message = tf.train.export_meta_graph()
    path = folder / "foreign.meta"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        with tf.Graph().as_default():
            tf.train.import_meta_graph(str(path))

    return message.SerializeToString(), read


def text_meta_graph(folder: Path) -> tuple[bytes, Reader]:
    made, read = meta_graph(folder)
    return str(tf.MetaGraphDef.FromString(made)).encode(), read


def bundle_entry(folder: Path) -> tuple[bytes, Reader]:
    return _entry_of(folder, b"v")


def bundle_header(folder: Path) -> tuple[bytes, Reader]:
    return _entry_of(folder, b"")


def _entry_of(folder: Path, key: bytes) -> tuple[bytes, Reader]:
    """Returns one entry of a checkpoint's index, rewritten with correct checksums."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("v", initializer=[1.0, 2.0, 3.0])
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, str(folder / "model"), write_meta_graph=False)
    index = folder / "model.index"
    entries = dict(TableReader(index))

    def read(data: bytes) -> None:
        index.write_bytes(encode_table({**entries, key: data}))
        reader = BundleReader(str(folder / "model"))
        for name in reader.names():
            assert reader.shape(name) is not None
            assert reader.dtype(name)
            reader.read(name)

    return entries[key], read


def _changes(good: bytes) -> Iterator[bytes]:
    """Yields single changes, all of them or a thousand, and some in several places at once."""
    choose = random.Random(0)
    single = list(damages(good))
    yield from choose.sample(single, min(len(single), 1000))
    for _ in range(200):
        changed = bytearray(good)
        for _ in range(choose.randint(2, 6)):
            changed[choose.randrange(len(changed))] = choose.randrange(256)
        yield bytes(changed)


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:invalid escape sequence:DeprecationWarning"
)  # of protobuf's text parser
@pytest.mark.parametrize(
    ("make", "also"),
    [
        (wav, ()),
        (gif, ()),
        (image, ()),
        (meta_graph, (ValueError, OSError)),
        (text_meta_graph, (ValueError, OSError)),
        (bundle_entry, ()),
        (bundle_header, ()),
    ],
)
def test_errors_have_types(
    make: Callable[[Path], tuple[bytes, Reader]], also: tuple[type[Exception], ...], tmp_path: Path
) -> None:
    good, read = make(tmp_path)
    read(good)
    wrong: list[str] = []
    refused: list[str] = []
    for changed in _changes(good):
        try:
            read(changed)
        except (tf.errors.OpError, *also) as error:
            refused.append(str(error))
        except Exception as error:
            wrong.append(f"{type(error).__name__}: {error} for {changed[:80]!r}")
    assert not wrong, (len(wrong), wrong[:5])
    assert len(refused) > 20
    assert all(refused)
