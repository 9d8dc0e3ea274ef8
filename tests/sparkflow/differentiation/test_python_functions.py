"""What Python functions of a graph receive: scalars as numbers and bytes, like TensorFlow's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf


@pytest.mark.parametrize("make", [tf.py_func, tf.numpy_function])
def test_scalars_are_keys_paths_and_texts(make: Callable[..., Any]) -> None:
    received: list[Any] = []

    def look(number: Any, text: Any, vector: Any, words: Any) -> Any:
        received[:] = number, text, vector, words
        return np.int64({3: 7}[number] + {b"key": 1}[text] + len(text.decode()))

    with tf.Graph().as_default(), tf.Session() as session:
        fed = tf.placeholder(tf.string, [])
        inputs = [tf.constant(3), fed, tf.constant([1.0]), tf.constant(["a"])]
        assert session.run(make(look, inputs, tf.int64), {fed: "key"}) == 11
    assert [type(each) for each in received] == [np.int32, bytes, np.ndarray, np.ndarray]


def test_in_datasets(tmp_path: Any) -> None:
    (tmp_path / "a.npy").write_bytes(b"12345")

    def size(path: bytes) -> Any:
        with open(path, "rb") as file:
            return np.int64(len(file.read()))

    def twice(name: bytes) -> list[str]:
        return [name.decode() * 2]

    with tf.Graph().as_default(), tf.Session() as session:
        paths = tf.data.Dataset.from_tensor_slices([str(tmp_path / "a.npy")])
        sizes = paths.map(lambda path: tf.py_func(size, [path], tf.int64))
        assert session.run(sizes.make_one_shot_iterator().get_next()) == 5
        words = tf.data.Dataset.from_generator(twice, tf.string, [], args=["x"])
        assert session.run(words.make_one_shot_iterator().get_next()) == b"xx"
