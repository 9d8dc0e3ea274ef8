"""One competitor of `data_pipeline.py`, as a process: `data_competitor.py NAME THREADS`.

Both run the same program, written with TensorFlow 1's API. A call computes one batch.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import tempfile
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from competitor import Case, serve, skip

MODULES = {"sparkflow": "sparkflow", "TensorFlow": "tensorflow"}
ELEMENTS = 100_000
ROWS = 20_000
BATCH = 128


def framework_case(tf: Any, threads: int) -> Callable[[str], Case]:
    """The cases.

    Args:
        tf: The framework.
        threads: The size of its own thread pools, if it has any.
    """
    config = tf.ConfigProto(
        intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads
    )
    images = np.random.default_rng(0).random((ELEMENTS, 28, 28), np.float32)
    files = Files(tf)

    def make(name: str) -> Case:
        if name not in ("batch", "batch_map", "map_batch", "parallel"):
            return _of_files(tf, config, files, name)
        with tf.Graph().as_default() as graph:
            tf.set_random_seed(1)
            fed = tf.placeholder(tf.float32, images.shape)
            dataset = _pipeline(name, tf.data.Dataset.from_tensor_slices(fed))
            iterator = dataset.make_initializable_iterator()
            batch = iterator.get_next()
        running = tf.Session(graph=graph, config=config)
        running.run(iterator.initializer, {fed: images})
        step = running.make_callable(batch.op)
        return Case(step, running.run(batch).sum((1, 2)))

    return make


def _pipeline(name: str, dataset: Any) -> Any:
    def scaled(x: Any) -> Any:
        return x * 2.0 - 1.0

    if name == "batch":
        return dataset.repeat().batch(BATCH)
    if name == "batch_map":
        return dataset.shuffle(10_000, seed=2).repeat().batch(BATCH).map(scaled)
    mapped = dataset.shuffle(10_000, seed=2).repeat().map(scaled, 2 if name == "parallel" else None)
    return mapped.batch(BATCH).prefetch(1)


class Files:
    """Examples and lines in a temporary folder; written when they are first used.

    Args:
        tf: The framework that writes them.
    """

    def __init__(self, tf: Any) -> None:
        self._tf = tf
        self._folder = tempfile.TemporaryDirectory()
        self._random = np.random.default_rng(5)

    @cached_property
    def examples(self) -> str:
        """A file of examples: `x`, 28 floats; `y`, a number; `w`, one to five words."""
        train = self._tf.train
        path = str(Path(self._folder.name, "examples"))
        with self._tf.io.TFRecordWriter(path) as writer:
            for number in range(ROWS):
                values = self._random.normal(size=28).tolist()
                words = [b"w%d" % n for n in self._random.integers(0, 999, number % 5 + 1)]
                features = {
                    "x": train.Feature(float_list=train.FloatList(value=values)),
                    "y": train.Feature(int64_list=train.Int64List(value=[number])),
                    "w": train.Feature(bytes_list=train.BytesList(value=words)),
                }
                example = train.Example(features=train.Features(feature=features))
                writer.write(example.SerializeToString())
        return path

    @cached_property
    def lines(self) -> str:
        """A file of lines: ten numbers with five decimals, an integer, a word."""
        path = Path(self._folder.name, "lines")
        numbers = self._random.normal(size=(ROWS, 10))
        path.write_text(
            "".join(
                ",".join([*(f"{x:.5f}" for x in row), str(n % 100), f"name{n % 50}"]) + "\n"
                for n, row in enumerate(numbers)
            )
        )
        return str(path)


def _of_files(tf: Any, config: Any, files: Files, name: str) -> Case:
    with tf.Graph().as_default() as graph:
        iterator = _from_files(tf, files, name).make_initializable_iterator()
        batch = iterator.get_next()
        if name == "columns":
            batch = _columns(tf, batch)
        begin = [tf.global_variables_initializer(), tf.tables_initializer(), iterator.initializer]
    running = tf.Session(graph=graph, config=config)
    running.run(begin)
    first = batch
    if isinstance(batch, dict):
        first = batch["x"]
    elif isinstance(batch, list | tuple):
        first = batch[0]
    check = np.asarray(running.run(first), np.float64).reshape(BATCH, -1).sum(1)
    return Case(running.make_callable(first.op), check)


def _columns(tf: Any, fields: Any) -> Any:
    """A wide and a deep part of the fields of lines; `[batch, values]`."""
    names = [f"x{n}" for n in range(10)]
    features = dict(zip([*names, "number", "word"], fields, strict=True))
    column = tf.feature_column
    word = column.categorical_column_with_vocabulary_list("word", [f"name{n}" for n in range(40)])
    features["same_word"] = features["word"]
    hashed = column.categorical_column_with_hash_bucket("same_word", 100)
    number = column.categorical_column_with_identity("number", 100)
    level = column.bucketized_column(column.numeric_column("x0"), [-1.0, 0.0, 1.0])
    crossed = column.crossed_column([level, "word"], 1000)
    wide = tf.feature_column.linear_model(features, [word, hashed, number, level, crossed])
    dense = [column.numeric_column(name) for name in names]
    once = tf.ones_initializer()
    dense += [column.indicator_column(word), column.embedding_column(hashed, 8, initializer=once)]
    return tf.concat([wide, tf.feature_column.input_layer(features, dense)], 1)


def _from_files(tf: Any, files: Files, name: str) -> Any:
    fixed = {
        "x": tf.FixedLenFeature([28], tf.float32),
        "y": tf.FixedLenFeature([], tf.int64),
    }
    defaults = [*[[0.0]] * 10, [0], [""]]
    if name == "examples":
        features = {**fixed, "w": tf.VarLenFeature(tf.string)}
        records = tf.data.TFRecordDataset(files.examples).repeat().batch(BATCH)
        return records.map(lambda each: tf.parse_example(each, features))
    if name in ("single_examples", "single_words"):
        features = {**fixed, "w": tf.VarLenFeature(tf.string)} if name == "single_words" else fixed
        records = tf.data.TFRecordDataset(files.examples).repeat()
        return records.map(lambda each: tf.parse_single_example(each, features)).batch(BATCH)
    lines = tf.data.TextLineDataset(files.lines).repeat()
    if name in ("csv", "columns"):
        return lines.batch(BATCH).map(lambda each: tf.decode_csv(each, defaults))
    if name == "single_csv":
        return lines.map(lambda each: tf.decode_csv(each, defaults)).batch(BATCH)

    def hashed(line: Any) -> Any:
        return tf.string_to_hash_bucket_fast(tf.string_split([line], ",").values, 1000)

    return lines.map(hashed).padded_batch(BATCH, [None])


def main() -> None:
    name, threads = sys.argv[1], int(sys.argv[2])
    if importlib.util.find_spec(MODULES[name]) is None:
        skip(f"the package {MODULES[name]} is not installed")
        return
    framework = importlib.import_module(MODULES[name])
    if name == "TensorFlow":
        framework = framework.compat.v1
        framework.disable_v2_behavior()
    serve(framework_case(framework, threads))


if __name__ == "__main__":
    main()
