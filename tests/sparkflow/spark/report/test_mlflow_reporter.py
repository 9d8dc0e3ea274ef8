"""Runs of MLflow, in a separate database."""

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.export import InferenceModel
from sparkflow.export.signature import Output, Signature
from sparkflow.spark.report.mlflow_reporter import MlflowReporter, require_mlflow
from tests.sparkflow.spark.report.runs import Clock, FakeRun, whole_run

# MLflow and its dependencies warn of each other's deprecated names.
pytestmark = pytest.mark.filterwarnings("ignore")


def _history(mlflow: Any, run_id: str, metric: str) -> list[tuple[int, float]]:
    found = mlflow.MlflowClient().get_metric_history(run_id, metric)
    return sorted((each.step, each.value) for each in found)


def _doubling() -> InferenceModel:
    """Returns twice its two features."""
    with tf.Graph().as_default() as graph:
        features = tf.placeholder(tf.float32, [None, 2], name="features")
        factor = tf.get_variable("factor", [], initializer=tf.ones_initializer())
        tf.multiply(features, factor, name="doubled")
    outputs = (Output("doubled", "doubled:0", "float32", (2,)),)
    signature = Signature.of_features("features:0", 2, outputs)
    return InferenceModel.build(graph.as_graph_def(), {"factor": np.float32(2.0)}, signature)


def test_a_fit_is_a_run_with_parameters_metrics_and_model(mlflow: Any) -> None:
    clock = Clock()
    reporter = MlflowReporter("SparkTrainer_1", clock=clock)
    whole_run(clock, reporter)
    reporter.log_model(_doubling())
    assert mlflow.active_run() is None
    run = mlflow.get_run(reporter.run_id)
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "SparkTrainer_1"
    assert run.data.params["modelParams"] == '{"units": [8, 4]}'
    losses = _history(mlflow, reporter.run_id, "loss")
    assert losses[0] == (0, 4.0)
    assert losses[-1] == (39, 2.0)
    assert _history(mlflow, reporter.run_id, "epoch_loss") == [(0, 4.0), (1, 2.0)]
    assert _history(mlflow, reporter.run_id, "val_accuracy") == [(20, 0.5), (40, 0.75)]
    assert run.data.metrics["training_rows_per_second"] == pytest.approx(12.0)

    loaded = mlflow.pyfunc.load_model(f"runs:/{reporter.run_id}/model")
    inputs = loaded.metadata.signature.inputs.to_dict()
    assert inputs[0]["tensor-spec"] == {"dtype": "float32", "shape": (-1, 2)}
    found = loaded.predict(np.float32([[1, 2], [3, 4]]))
    assert found["doubled"].tolist() == [[2, 4], [6, 8]]


def test_fits_are_children_of_the_active_run_in_all_threads(mlflow: Any) -> None:
    run_ids: list[str] = []

    def fit() -> None:
        clock = Clock()
        reporter = MlflowReporter("child", clock=clock)
        whole_run(clock, reporter)
        run_ids.append(reporter.run_id)

    with mlflow.start_run() as parent:
        fit()
        with ThreadPoolExecutor(2) as pool:  # as in CrossValidator
            for each in [pool.submit(fit) for _ in range(2)]:
                each.result()
        assert mlflow.active_run().info.run_id == parent.info.run_id
    assert len(set(run_ids)) == 3
    for run_id in run_ids:
        tags = mlflow.get_run(run_id).data.tags
        assert tags["mlflow.parentRunId"] == parent.info.run_id


def test_a_failed_fit_is_a_failed_run(mlflow: Any) -> None:
    clock = Clock()
    reporter = MlflowReporter("fit", clock=clock)
    run = FakeRun(clock, reporter)
    run.begin()
    run.step(1.0)
    reporter.on_restart("executor 1 lost")
    run.begin()
    reporter.on_close()
    found = mlflow.get_run(reporter.run_id)
    assert found.info.status == "FAILED"
    assert found.data.tags["sparkflow.restarts"] == "1"
    assert mlflow.active_run() is None


def test_a_fit_that_never_began_is_no_run(mlflow: Any) -> None:
    reporter = MlflowReporter("fit", clock=Clock())
    reporter.on_waiting("waiting for 2 of 2 tasks")
    reporter.on_close()
    assert mlflow.search_runs(output_format="list") == []


def test_mlflow_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ImportError, match=r"pip install 'sparkflow-ml\[mlflow\]'"):
        require_mlflow()
