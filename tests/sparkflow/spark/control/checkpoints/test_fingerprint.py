"""A checkpoint distinguishes its own training from others."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.control.checkpoints.fingerprint import Fingerprint, RowsPrint
from sparkflow.spark.data.schema.row_format import Input, RowFormat
from sparkflow.spark.errors import OtherTrainingError
from sparkflow.spark.graphs.digest import GraphDigest
from sparkflow.spark.graphs.model_fn import ModelInputs
from sparkflow.spark.graphs.training_graph import build_training_graph

ROWS = RowFormat(
    (Input("features", "dense", "float32", (3,)),),
    Input("label", "dense", "float32", ()),
    None,
    False,
)
MODES = ["async", "sync", "ssp", "allreduce"]


def slower(rig: Any) -> Any:
    """The model of the rig with a different learning rate, on the same lines of code."""
    return rig.but(params={"optimizer": lambda: tf.train.MomentumOptimizer(0.005, 0.9)})


def wider(rig: Any) -> Any:
    """One more operation, and the same variables."""

    def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
        return rig.linear(tf.tanh(features), labels, mode, params)

    return rig.but(model_fn=model_fn)


OTHERS = {
    "learning rate": (slower, r"graph: constant .*learning_rate: 0\.05 -> 0\.005"),
    "graph": (wider, "graph: operations"),
    "batch size": (lambda rig: rig.but(batch_size=5), "batchSize: 4 -> 5"),
    "seed": (lambda rig: rig.but(seed=4), "seed: 3 -> 4"),
    "content": (lambda rig: rig.but(content="test:1"), "rows: their content has changed"),
    "rows": (lambda rig: rig.but(shares=(20, 19)), "number of rows: 40 -> 39"),
    "validation": (lambda rig: rig.but(validation=(3, 3)), "number of validation rows: 0 -> 6"),
}


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_another_training_is_refused_and_named(
    rig: Any, tmp_path: Path, mode: str, finished: bool
) -> None:
    rig = rig.but(sync_mode=mode, num_ps=0 if mode == "allreduce" else 1)
    control = {"checkpoint_dir": str(tmp_path)}
    rig.but(**{**control, "max_steps": 0 if finished else 6}).train()
    before = sorted(tmp_path.rglob("*"))
    for what, (change, words) in OTHERS.items():
        with pytest.raises(OtherTrainingError, match=words) as caught:
            change(rig.but(**control)).train()
        assert f"{'finished' if finished else 'unfinished'} training" in str(caught.value), what
        assert "resume='never'" in str(caught.value), what
        assert sorted(tmp_path.rglob("*")) == before, what
    # The original training may continue, or is complete.
    rig.but(**control).train()


def test_another_seed_is_no_other_content(rig: Any, tmp_path: Path) -> None:
    rig = rig.but(checkpoint_dir=str(tmp_path))
    rig.train()
    with pytest.raises(OtherTrainingError, match="seed: 3 -> 4") as caught:
        rig.but(seed=4, content="test:1").train()  # hashes are made with the seed
    assert "content" not in str(caught.value)
    with pytest.raises(OtherTrainingError, match=r"(?s)batchSize.*their content has changed"):
        rig.but(batch_size=5, content="test:1").train()


@pytest.mark.parametrize("what", ["learning rate", "content", "batch size"])
def test_always_goes_on_and_says_with_what(
    rig: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    change, words = OTHERS[what]
    control = {"checkpoint_dir": str(tmp_path), "resume": "always"}
    rig.but(**{**control, "max_steps": 6}).train()
    with caplog.at_level(logging.WARNING):
        result = change(rig.but(**control)).train()
    assert result.trained
    assert result.history.steps >= 8
    assert "training continues from step 6" in caplog.text
    assert re.search(words, caplog.text)


def test_a_finished_training_is_returned_and_said_to_be(
    rig: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Any] = []

    class Listens(rig.Recording):
        def on_resume(self, path: str, step: int, finished: bool) -> None:
            told.append((path, step, finished))

    rig = rig.but(checkpoint_dir=str(tmp_path), callbacks=(Listens(),))
    first = rig.train()
    assert first.history.resumed is None
    assert told == []
    with caplog.at_level(logging.WARNING):
        again = rig.train()
    path = f"{tmp_path}/checkpoint-000002-step-10"
    assert (
        f"checkpoint {path} is of a finished training with the same parameters, graph and rows: "
        "returned unchanged; resume='never' trains anew"
    ) in caplog.text
    assert told == [(path, 10, True)]
    assert again.history.resumed["finished"]
    assert again.history.resumed["text"] in caplog.text


def test_going_on_is_said_too(rig: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    control = {"checkpoint_dir": str(tmp_path)}
    rig.but(**{**control, "max_steps": 5}).train()
    with caplog.at_level(logging.WARNING):
        rest = rig.but(**control).train()
    assert "training continues from step 5 of checkpoint" in caplog.text
    assert not rest.history.resumed["finished"]


def test_fewer_epochs_than_are_done_are_another_training(rig: Any, tmp_path: Path) -> None:
    rig = rig.but(checkpoint_dir=str(tmp_path))
    rig.train()
    with pytest.raises(OtherTrainingError, match="10 steps are done -> 5 are asked for"):
        rig.but(epochs=1).train()


def test_other_tasks_may_go_on_but_not_be_given_anothers_model(rig: Any, tmp_path: Path) -> None:
    control = {"checkpoint_dir": str(tmp_path)}
    rig.but(**{**control, "max_steps": 5}).train()
    elsewhere = rig.but(**control, shares=(14, 13, 13), num_ps=2)
    with pytest.raises(OtherTrainingError, match="learning_rate"):
        slower(elsewhere).train()
    assert elsewhere.train().trained
    with pytest.raises(OtherTrainingError, match=r"(?s)numWorkers: 3 -> 2.*numPs: 2 -> 1"):
        rig.but(**control).train()


def test_checkpoints_without_a_fingerprint_are_taken_with_a_word(
    rig: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Old(type(rig)):  # type: ignore[misc]
        def plan(self) -> Any:
            return replace(super().plan(), fingerprint=None)

    control = {"checkpoint_dir": str(tmp_path)}
    Old().but(**control).train()
    with caplog.at_level(logging.WARNING):
        assert not rig.but(**control).train().trained
    assert "says nothing of its parameters, graph and rows" in caplog.text


def test_never_leaves_what_is_there_to_later_fits_too(rig: Any, tmp_path: Path) -> None:
    control = {"checkpoint_dir": str(tmp_path), "keep_checkpoint_max": 1}
    rig.but(**control).train()
    old = {each.name for each in tmp_path.iterdir()}
    rig.but(**{**control, "resume": "never", "max_steps": 3}, seed=9).train()
    rig.but(**control, seed=9).train()
    left = {each.name for each in tmp_path.iterdir()}
    assert old < left
    assert left - old == {"checkpoint-000005-step-10"}


def busy(features: Any, labels: Any, mode: str, params: Any) -> Any:
    """A model with everything whose name could change from call to call."""
    hidden = tf.layers.batch_normalization(tf.layers.dense(features, 4), training=mode == "train")
    hidden = tf.layers.dropout(hidden, training=mode == "train")
    hidden = tf.cond(tf.reduce_sum(hidden) > 0, lambda: hidden * 2.0, lambda: hidden)
    hidden = tf.while_loop(lambda i, h: i < 2, lambda i, h: (i + 1, h * 0.5), (0, hidden))[1]
    hidden = tf.map_fn(tf.tanh, hidden)
    hidden = tf.py_func(lambda x: x, [hidden], tf.float32)
    hidden.set_shape([None, 4])
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.constant([1, 2]), tf.constant([3.0, 4.0])), 0.0
    )
    prediction = tf.squeeze(tf.layers.dense(hidden, 1), 1) + table.lookup(tf.constant(1))
    prediction += tf.constant(np.linspace(0, 1, 100, dtype=np.float32))[3]
    loss = tf.losses.mean_squared_error(labels, prediction)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train_op = tf.train.AdamOptimizer(0.01).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def digest(rig: Any, **changes: Any) -> GraphDigest:
    plan = rig.but(**{"model_fn": busy, **changes}).plan()
    return GraphDigest.of(plan.graph.graph_def)


@pytest.mark.parametrize("mode", MODES)
def test_the_same_function_makes_the_same_graph(rig: Any, mode: str) -> None:
    first, second = (digest(rig, sync_mode=mode) for _ in range(2))
    assert first == second
    assert GraphDigest.from_json(first.to_json()) == first


def test_another_process_makes_the_same_graph(rig: Any) -> None:
    here = Path(__file__)
    program = (
        f"import sys, json; sys.path[:0] = [{str(here.parent)!r}, {str(here.parents[1])!r}]\n"
        "import conftest, test_fingerprint as t\n"
        "print(json.dumps(t.digest(conftest.Rig()).to_json()))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONHASHSEED": "7", "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert GraphDigest.from_json(json.loads(found.stdout)) == digest(rig)


def test_constants_of_a_spark_job_may_differ_in_the_last_bits() -> None:
    def of(values: Any) -> Fingerprint:
        with tf.Graph().as_default() as graph:
            tf.constant(values, tf.float32, name="mean")
        return Fingerprint({}, {}, GraphDigest.of(graph.to_message()), RowsPrint({}, 1, 0))

    values = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    near = values * np.float32(1 + 2e-7)
    far = values.copy()
    far[17] += 0.5
    swapped = values.copy()
    swapped[[3, 4]] = values[[4, 3]]
    assert of(values).changes(of(near), elsewhere=False) == []
    for other in (far, swapped):
        assert of(values).changes(of(other), elsewhere=False) == ["graph: constant mean"]


def test_another_version_may_call_its_operations_otherwise() -> None:
    rows = RowsPrint({}, 1, 0)
    first = Fingerprint({}, {}, GraphDigest({"dense": "1"}, {"rate": [0.1]}), rows, "0.1")
    second = Fingerprint({}, {}, GraphDigest({"dense": "2"}, {"rate": [0.1]}), rows, "0.2")
    assert first.changes(second, elsewhere=False) == []
    assert first.changes(replace(second, version="0.1"), elsewhere=False) == [
        "graph: operations in 'dense' differ"
    ]
    faster = replace(second, graph=GraphDigest({}, {"rate": [0.2]}))
    assert first.changes(faster, elsewhere=False) == ["graph: constant rate: 0.1 -> 0.2"]


def test_parameters_are_compared_by_name() -> None:
    digest = GraphDigest({}, {})
    rows = RowsPrint({"x": "dense float32 [3]"}, 10, 2, "final:1")
    first = Fingerprint({"a": 1, "modelParams": {"lr": 0.1}, "old": 1}, {}, digest, rows)
    other_rows = RowsPrint({"x": "dense float32 [4]"}, 10, 2, "held:2")
    second = Fingerprint({"a": 2, "modelParams": {"lr": 0.2}, "new": 2}, {}, digest, other_rows)
    assert Fingerprint.from_json(first.to_json()) == first
    assert first.changes(second, elsewhere=False) == [
        "a: 1 -> 2",
        "modelParams.lr: 0.1 -> 0.2",
        "input x: dense float32 [3] -> dense float32 [4]",
    ]


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize(("workers", "stages"), [(3, 1), (2, 2)])
def test_for_how_many_tasks_a_graph_was_built_is_no_other_training(
    rig: Any, workers: int, stages: int, finished: bool
) -> None:
    """Elastic workers and modelParallel do not affect what is learnt; placement is the same."""

    def built(workers: int, stages: int) -> Fingerprint:
        layout = ClusterLayout.of(1, workers, "async", stages)
        config = replace(rig.config, sync_mode="async", num_ps=1)
        inputs = ModelInputs(ROWS, {}, 3)
        graph = build_training_graph(deep, inputs, layout, config).graph_def
        shape = {"workers": workers, "stages": stages}
        rows = RowsPrint({}, 1, 0)
        return Fingerprint({}, {}, GraphDigest.of(graph), rows, shape=shape)

    first, second = built(2, 1), built(workers, stages)
    assert first.changes(second, elsewhere=not finished) == []
    assert Fingerprint.from_json(json.loads(json.dumps(first.to_json()))) == first
    unknown = replace(first, shape={})
    assert any("operations" in each for each in unknown.changes(second, elsewhere=not finished))


def deep(features: Any, labels: Any, mode: str) -> Any:
    """Two layers, for two stages."""
    predicted = tf.layers.dense(tf.layers.dense(features, 4), 1)[:, 0]
    loss = tf.reduce_mean(tf.square(predicted - labels))
    train_op = tf.train.AdamOptimizer(0.01).minimize(loss)
    return tf.estimator.EstimatorSpec(mode, predicted, loss, train_op)
