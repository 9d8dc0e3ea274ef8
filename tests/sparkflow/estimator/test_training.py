"""`train_and_evaluate` in one process, exporters, specifications."""

import json
import os

import numpy as np
import pytest

import sparkflow as tf

X = np.float32([[0], [1], [2], [3]])
Y = 2 * X[:, 0] + 1
COLUMNS = [tf.feature_column.numeric_column("x")]


def batches(epochs=None):
    return tf.estimator.inputs.numpy_input_fn({"x": X}, Y, 4, num_epochs=epochs, shuffle=False)


def made(directory, steps=2):
    return tf.estimator.LinearRegressor(
        COLUMNS,
        model_dir=str(directory),
        optimizer=tf.train.GradientDescentOptimizer(0.01),
        config=tf.estimator.RunConfig(save_checkpoints_steps=steps),
    )


RECEIVE = tf.estimator.export.build_parsing_serving_input_receiver_fn(
    tf.feature_column.make_parse_example_spec(COLUMNS)
)


class Recorder(tf.estimator.Exporter):
    name = "recorder"

    def __init__(self):
        self.calls = []

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        self.calls.append((int(eval_result["global_step"]), is_the_final_export))
        return os.path.relpath(export_path, estimator.model_dir)


def test_each_checkpoint_is_evaluated_and_the_last_is_final(tmp_path):
    recorder = Recorder()
    result, exported = tf.estimator.train_and_evaluate(
        made(tmp_path),
        tf.estimator.TrainSpec(batches(), max_steps=5),
        tf.estimator.EvalSpec(batches(1), exporters=recorder, throttle_secs=0),
    )
    assert recorder.calls == [(2, False), (4, False), (5, True)]
    assert result["global_step"] == 5
    assert exported == ["export/recorder"]


def test_evaluations_are_throttled(tmp_path):
    recorder = Recorder()
    tf.estimator.train_and_evaluate(
        made(tmp_path),
        tf.estimator.TrainSpec(batches(), max_steps=9),
        tf.estimator.EvalSpec(batches(1), exporters=recorder, throttle_secs=600),
    )
    assert recorder.calls == [(2, False), (9, True)]


def exports(directory):
    return sorted(path.name for path in directory.iterdir())


def test_final_and_latest_exporters(tmp_path):
    final = tf.estimator.FinalExporter("final", RECEIVE)
    latest = tf.estimator.LatestExporter("latest", RECEIVE, exports_to_keep=2)
    _, (last, newest) = tf.estimator.train_and_evaluate(
        made(tmp_path),
        tf.estimator.TrainSpec(batches(), max_steps=8),
        tf.estimator.EvalSpec(batches(1), exporters=[final, latest], throttle_secs=0),
    )
    assert exports(tmp_path / "export" / "final") == [os.path.basename(last).decode()]
    kept = exports(tmp_path / "export" / "latest")
    assert len(kept) == 2
    assert kept[-1] == os.path.basename(newest).decode()


def test_the_best_exporter_compares_also_with_events_of_earlier_runs(tmp_path):
    estimator = made(tmp_path)
    estimator.train(batches(), steps=2)
    path = estimator.latest_checkpoint()

    def export(exporter, loss):
        given = (str(tmp_path / "best"), path, {"loss": loss}, False)
        return exporter.export(estimator, *given)

    exporter = tf.estimator.BestExporter(serving_input_receiver_fn=RECEIVE)
    assert export(exporter, 3.0) is not None
    assert export(exporter, 4.0) is None
    assert export(exporter, 2.0) is not None
    loss = estimator.evaluate(batches(1))["loss"]
    later = tf.estimator.BestExporter(
        serving_input_receiver_fn=RECEIVE, event_file_pattern="eval/*.tfevents.*"
    )
    assert export(later, loss + 1.0) is None
    assert export(later, loss - 1.0) is not None
    with pytest.raises(ValueError, match="cannot be empty or no loss is found"):
        later.export(estimator, str(tmp_path), path, {}, False)


def test_the_best_exporter_compares_a_result_with_others_only(tmp_path):
    def getting_worse(features, labels, mode):
        loss = tf.get_variable("w", initializer=1.0)
        step = tf.train.get_global_step()
        out = features["x"] * loss
        train_op = tf.group(tf.assign_add(loss, 1.0), tf.assign_add(step, 1))
        return tf.estimator.EstimatorSpec(mode, {"y": out}, loss + 0.0, train_op)

    def run(steps):
        config = tf.estimator.RunConfig(str(tmp_path), save_checkpoints_steps=2)
        exporter = tf.estimator.BestExporter(
            "best", RECEIVE, event_file_pattern="eval/*.tfevents.*"
        )
        _, (exported,) = tf.estimator.train_and_evaluate(
            tf.estimator.Estimator(getting_worse, config=config),
            tf.estimator.TrainSpec(batches(), max_steps=steps),
            tf.estimator.EvalSpec(batches(1), exporters=exporter, throttle_secs=0),
        )
        return exported

    assert run(2) is not None, "the first is the best"
    assert run(6) is None
    assert len(exports(tmp_path / "export" / "best")) == 1


def test_comparisons_are_called_by_name():
    def made(compare_fn):
        return tf.estimator.BestExporter("best", RECEIVE, compare_fn=compare_fn)

    made(lambda best_eval_result, current_eval_result: True)
    with pytest.raises(ValueError, match="must include best_eval_result argument"):
        made(lambda a, b: True)
    with pytest.raises(ValueError, match="has following not expected args: \\['more'\\]"):
        made(lambda best_eval_result, current_eval_result, more: True)


@pytest.mark.parametrize("job", ["chief", "master"])
def test_a_cluster_of_one_task_needs_no_server(job, tmp_path, monkeypatch):
    content = {"cluster": {job: ["127.0.0.1:1"]}, "task": {"type": job, "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(content))
    estimator = made(tmp_path)
    assert (estimator.config.master, estimator.config.is_chief) == ("", True)
    estimator.train(batches(), steps=1)
    found = tf.estimator.train_and_evaluate(
        estimator, tf.estimator.TrainSpec(batches(), max_steps=3), tf.estimator.EvalSpec(batches(1))
    )
    assert estimator.get_variable_value("global_step") == 3
    # As in TensorFlow, a master evaluates and a chief leaves that to the evaluator.
    assert (found is None) == (job == "chief")


def test_specifications_are_checked():
    with pytest.raises(TypeError, match="`input_fn` must be callable"):
        tf.estimator.TrainSpec("input")
    with pytest.raises(ValueError, match="max_steps > 0"):
        tf.estimator.TrainSpec(batches(), max_steps=0)
    with pytest.raises(ValueError, match="throttle_secs >= 0"):
        tf.estimator.EvalSpec(batches(), throttle_secs=-1)
    with pytest.raises(ValueError, match="steps > 0"):
        tf.estimator.EvalSpec(batches(), steps=0)
    with pytest.raises(TypeError, match="must be an Exporter"):
        tf.estimator.EvalSpec(batches(), exporters=["exporter"])
    with pytest.raises(ValueError, match="unique"):
        tf.estimator.EvalSpec(batches(), exporters=[Recorder(), Recorder()])
    nameless = Recorder()
    nameless.name = None
    with pytest.raises(ValueError, match="cannot be `None`"):
        tf.estimator.EvalSpec(batches(), exporters=nameless)
    with pytest.raises(ValueError, match="must be a positive number"):
        tf.estimator.LatestExporter("name", RECEIVE, exports_to_keep=0)
    spec = tf.estimator.EvalSpec(batches())
    assert (spec.steps, spec.start_delay_secs, spec.throttle_secs) == (100, 120, 600)
    with pytest.raises(TypeError, match="`estimator` must have type"):
        tf.estimator.train_and_evaluate(None, tf.estimator.TrainSpec(batches()), spec)
