"""The example of docs/spark_model.md runs unchanged."""

import re
from pathlib import Path

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.export import InferenceModel, Input, Output, Signature

PAGE = Path(__file__).parents[3] / "docs" / "spark_model.md"


def _readers() -> InferenceModel:
    graph = tf.Graph()
    with graph.as_default():
        age = tf.placeholder(tf.float32, [None], name="age")
        words = tf.SparseTensor(
            tf.placeholder(tf.int64, [None, 2], name="i"),
            tf.placeholder(tf.string, [None], name="v"),
            tf.placeholder(tf.int64, [2], name="s"),
        )
        buckets = tf.string_to_hash_bucket_fast(words.values, 8)
        ids = tf.SparseTensor(words.indices, buckets, words.dense_shape)
        table = tf.get_variable("table", [8, 1])
        embedded = tf.nn.embedding_lookup_sparse(table, ids, None, combiner="mean")
        tf.sigmoid(tf.reshape(embedded, [-1]) + age / 100.0, name="probability")
    inputs = (
        Input("age", "dense", "float32", (), ("age:0",)),
        Input("words", "ragged", "string", (), ("i:0", "v:0", "s:0")),
    )
    outputs = (Output("probability", "probability:0", "float32", ()),)
    values = {"table": np.linspace(-1, 1, 8, dtype=np.float32).reshape(8, 1)}
    return InferenceModel.build(graph.as_graph_def(), values, Signature(inputs, outputs, True))


def test_the_example_without_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _readers().save(tmp_path / "models" / "readers")
    monkeypatch.chdir(tmp_path)
    section = PAGE.read_text(encoding="utf-8").partition("<!-- executed by ")[2]
    example, *_ = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(example, str(PAGE), "exec"), names)  # noqa: S102  our own page
    found = names["found"]
    assert isinstance(found, dict)
    assert found["probability"].shape == (2,)
    assert "Layers: 8 parameters" in capsys.readouterr().out
