"""Untrained models, since inference needs no training, and a separate MLflow."""

import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.export import InferenceModel, Input, Output, Signature

WEIGHTS = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], np.float32)


def built(graph: tf.Graph, variables: dict[str, Any], signature: Signature) -> InferenceModel:
    history = {"loss": [2.0, 1.0], "rows": [10, 10], "rows_per_epoch": 10, "seconds": 0.5}
    extra = {"history": history, "versions": {"sparkflow": "0.1.0"}}
    return InferenceModel.build(graph.as_graph_def(), variables, signature, extra)


@pytest.fixture(scope="module")  # other modules reset all sessions of the process
def classifier() -> InferenceModel:
    """Three numbers to two classes, with a prediction of every type."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [None, 3], name="x")
        weights = tf.get_variable("dense/kernel", [3, 2])
        bias = tf.get_variable("dense/bias", [2])
        logits = tf.nn.bias_add(tf.matmul(x, weights), bias, name="logits")
        tf.nn.softmax(logits, name="softmax")
        found = tf.argmax(logits, 1, name="class")
        tf.gather(["no", "yes"], found, name="word")
        tf.reshape(tf.tile(x, [1, 2]), [-1, 2, 3], name="twice")
    outputs = (
        Output("prediction", "class:0", "int64", ()),
        Output("probability", "softmax:0", "float32", (2,)),
        Output("rawPrediction", "logits:0", "float32", (2,)),
        Output("word", "word:0", "string", ()),
        Output("twice", "twice:0", "float32", (2, 3)),
    )
    variables = {"dense/kernel": WEIGHTS, "dense/bias": np.array([0.0, 0.25], np.float32)}
    return built(graph, variables, Signature.of_features("x:0", 3, outputs))


@pytest.fixture(scope="module")  # other modules reset all sessions of the process
def mixed() -> InferenceModel:
    """Inputs of every kind, and a lookup table that must be initialized."""
    inputs = (
        Input("age", "dense", "float32", (), ("age:0",)),
        Input("id", "dense", "int64", (), ("id:0",)),
        Input("pixels", "dense", "float32", (2, 2), ("pixels:0",)),
        Input("title", "dense", "string", (), ("title:0",)),
        Input("bag", "sparse", "float32", (4,), ("bag/i:0", "bag/v:0", "bag/s:0")),
        Input("words", "ragged", "string", (), ("words/i:0", "words/v:0", "words/s:0")),
        Input("nums", "dense", "float32", (2,), ("nums:0",)),
    )
    graph = tf.Graph()
    with graph.as_default():
        age = tf.placeholder(tf.float32, [None], name="age")
        number = tf.placeholder(tf.int64, [None], name="id")
        pixels = tf.placeholder(tf.float32, [None, 2, 2], name="pixels")
        title = tf.placeholder(tf.string, [None], name="title")
        nums = tf.placeholder(tf.float32, [None, 2], name="nums")
        bag, words = (
            tf.SparseTensor(
                tf.placeholder(tf.int64, [None, 2], name=f"{name}/i"),
                tf.placeholder(dtype, [None], name=f"{name}/v"),
                tf.placeholder(tf.int64, [2], name=f"{name}/s"),
            )
            for name, dtype in (("bag", tf.float32), ("words", tf.string))
        )
        table = tf.contrib.lookup.index_table_from_tensor(["a", "b", "c"], num_oov_buckets=1)
        indices = tf.SparseTensor(words.indices, table.lookup(words.values), words.dense_shape)
        embedding = tf.get_variable("embedding", [4, 1])
        joined = tf.nn.embedding_lookup_sparse(embedding, indices, None, combiner="sum")
        tf.add_n(
            [
                age,
                tf.cast(number, tf.float32),
                tf.reduce_sum(pixels, [1, 2]),
                tf.reduce_sum(nums, 1),
                tf.sparse_reduce_sum(bag, 1),
            ],
            name="total",
        )
        tf.reshape(joined, [-1], name="embedded")
        tf.string_join([title, "!"], name="shout")
        initializers = tuple(
            each.name for each in tf.get_collection(tf.GraphKeys.TABLE_INITIALIZERS)
        )
    outputs = (
        Output("total", "total:0", "float32", ()),
        Output("embedded", "embedded:0", "float32", ()),
        Output("shout", "shout:0", "string", ()),
    )
    variables = {"embedding": np.array([[1.0], [10.0], [100.0], [1000.0]], np.float32)}
    return built(graph, variables, Signature(inputs, outputs, True, initializers))


@pytest.fixture(scope="session")
def mlflow_database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Path]]:
    """MLflow with a database, whose creation takes seconds."""
    folder = tmp_path_factory.mktemp("mlflow")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mlflow = pytest.importorskip("mlflow")
        pytest.importorskip("sqlalchemy")
        before = mlflow.get_tracking_uri()
        mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
        yield mlflow, folder
        mlflow.set_tracking_uri(before)


@pytest.fixture
def own_temporary_files(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Allows a test to leave temporary files: in a directory that pytest removes."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))


@pytest.fixture
def mlflow(
    mlflow_database: tuple[Any, Path], request: pytest.FixtureRequest, own_temporary_files: None
) -> Iterator[Any]:
    """MLflow with an experiment for this test; it leaves the files from which it loads models."""
    mlflow, folder = mlflow_database
    name = request.node.name
    location = (folder / name).as_uri()
    mlflow.set_experiment(experiment_id=mlflow.create_experiment(name, location))
    yield mlflow
    while mlflow.active_run() is not None:
        mlflow.end_run()
