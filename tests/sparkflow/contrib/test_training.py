import numpy as np
import pytest

import sparkflow as tf
from sparkflow.contrib import learn, losses, metrics, slim, training
from sparkflow.contrib.tensorboard.plugins import projector

X = np.random.RandomState(0).rand(20, 5).astype(np.float32)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        yield graph


def run(*fetches):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(list(fetches))


def test_slim_trains_saves_and_evaluates(tmp_path):
    wanted = X.sum(1, keepdims=True)
    predicted = slim.fully_connected(X, 1, activation_fn=None)
    slim.losses.mean_squared_error(predicted, wanted)
    train = slim.learning.create_train_op(
        slim.losses.get_total_loss(), tf.train.GradientDescentOptimizer(0.1)
    )
    loss = slim.learning.train(train, str(tmp_path), number_of_steps=30, log_every_n_steps=0)
    with tf.Graph().as_default():
        error = tf.reduce_mean((slim.fully_connected(X, 1, activation_fn=None) - wanted) ** 2)
        path = tf.train.latest_checkpoint(str(tmp_path))
        assert path.endswith("model.ckpt-30")
        found = slim.evaluation.evaluate_once("", path, str(tmp_path / "eval"), final_op=error)
    assert found < loss * 1.01


def test_create_train_op_runs_updates_clips_and_checks_numbers():
    v = tf.get_variable("v", initializer=10.0)
    counter = tf.get_variable("counter", initializer=0.0, trainable=False)
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, counter.assign_add(1.0))
    optimizer = tf.train.GradientDescentOptimizer(1.0)
    train = training.create_train_op(
        v * 5.0, optimizer, transform_grads_fn=training.clip_gradient_norms_fn(2.0)
    )
    bad = slim.learning.create_train_op(tf.log(v - 100.0), optimizer)
    step = tf.train.get_global_step()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(train) == 50.0
        assert session.run([v, counter, step]) == [8.0, 1.0, 1]
        with pytest.raises(tf.errors.InvalidArgumentError, match="LossTensor is inf or nan"):
            session.run(bad)


def test_evaluate_once_stops_after_its_steps(tmp_path):
    v = tf.get_variable("v", initializer=3.0)
    tf.train.get_or_create_global_step()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, str(tmp_path / "model"))
    total = tf.get_local_variable("total", initializer=0.0)
    found = training.evaluate_once(
        path,
        eval_ops=total.assign_add(v),
        final_ops={"total": total},
        hooks=[training.StopAfterNEvalsHook(4)],
    )
    assert found == {"total": 12.0}


def test_hyperparameters():
    params = training.HParams(rate=0.1, layers=[2, 3], name="a", flag=True, count=5)
    params.parse("rate=1e-3,layers=[4,5,6],name=b c,flag=false")
    assert params.values() == {
        "rate": 1e-3,
        "layers": [4, 5, 6],
        "name": "b c",
        "flag": False,
        "count": 5,
    }
    assert params.parse("layers[1]=7").layers == [4, 7, 6]
    assert training.HParams(rate=1.0, count=1).parse_json('{"rate": 2, "count": 3}').rate == 2.0
    assert "rate" in params
    assert params.get("missing", 4) == 4
    for text, message in (
        ("count=1.5", "Could not parse hparam 'count'"),
        ("other=1", "Unknown hyperparameter type for other"),
        ("rate=1,rate=2", "Multiple assignments"),
        ("name=[a,b]", "Must not pass a list"),
    ):
        with pytest.raises(ValueError, match=message):
            params.parse(text)
    with pytest.raises(ValueError, match="Could not cast"):
        params.set_hparam("count", "7")


def test_examples_of_similar_length_are_batched_together():
    number = tf.cast(tf.train.range_input_producer(30, shuffle=False).dequeue(), tf.int32)
    size = number % 10 + 1
    lengths, [values] = training.bucket_by_sequence_length(
        size, [tf.fill([size], number)], 4, [4, 8], dynamic_pad=True
    )
    with tf.Session() as session, slim.queues.QueueRunners(session):
        for _ in range(4):
            sizes, batch = session.run([lengths, values])
            assert len({sum(s >= bound for bound in (4, 8)) for s in sizes}) == 1
            assert batch.shape == (4, max(sizes))
            for row, each in zip(batch, sizes, strict=True):
                assert row[0] % 10 + 1 == each
                assert (row[each:] == 0).all()


def test_losses_have_the_predictions_first_and_are_listed():
    predictions, labels = [[0.2], [0.9]], [[0.0], [1.0]]
    squared, weighted, hinge = run(
        losses.mean_squared_error(predictions, labels),
        losses.absolute_difference(predictions, labels, weights=[1.0, 0.0]),
        losses.hinge_loss(predictions, labels),
    )
    assert squared == pytest.approx((0.04 + 0.01) / 2)
    assert weighted == pytest.approx(0.2)
    np.testing.assert_allclose(hinge, [[1.2], [0.1]], rtol=1e-5)
    assert len(losses.get_losses()) == 2
    logits = tf.constant([[1.0, 3.0]])
    dense, sparse = run(
        losses.softmax_cross_entropy(logits, [[0, 1]]),
        losses.sparse_softmax_cross_entropy(logits, [1]),
    )
    assert dense == pytest.approx(np.log(1 + np.exp(-2)), rel=1e-5)
    assert sparse == pytest.approx(dense)


def test_metrics_have_the_predictions_first():
    value, update = metrics.streaming_mean_relative_error([3.0, 5.0], [1.0, 4.0], [2.0, 4.0])
    names = metrics.aggregate_metric_map({"error": (value, update)})
    assert names == ({"error": value}, {"error": update})
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        # |labels - predictions| / normalizer
        assert session.run(update) == pytest.approx((2 / 2 + 1 / 4) / 2)
        assert session.run(metrics.accuracy([1, 2], [1, 3])) == 0.5
    with pytest.raises(AttributeError, match="has no 'nothing'"):
        _ = metrics.nothing


def test_a_projector_configuration_is_written_as_text(tmp_path):
    config = projector.ProjectorConfig()
    embedding = config.embeddings.add()
    embedding.tensor_name = "table"
    embedding.metadata_path = 'with "quotes".tsv'
    projector.visualize_embeddings(str(tmp_path), config)
    assert (tmp_path / "projector_config.pbtxt").read_text() == (
        'embeddings {\n  tensor_name: "table"\n  metadata_path: "with \\"quotes\\".tsv"\n}\n'
    )


def test_texts_become_ids_of_one_length():
    processor = learn.preprocessing.VocabularyProcessor(3)
    ids = list(processor.fit_transform(["a b", "b c d e"]))
    assert [each.tolist() for each in ids] == [[1, 2, 0], [2, 3, 4]]
    assert [each.tolist() for each in processor.transform(["z a"])] == [[0, 1, 0]]
    assert list(processor.reverse([[1, 0]])) == ["a <UNK>"]


def test_staged_values_come_back_in_order():
    area = tf.contrib.staging.StagingArea([tf.int32, tf.float32], names=["a", "b"])
    x = tf.placeholder(tf.int32, [])
    put, get = area.put({"a": x, "b": 0.5}), area.get()
    with tf.Session() as session:
        for each in (1, 2):
            session.run(put, {x: each})
        assert session.run(get) == {"a": 1, "b": 0.5}
        assert session.run([get["a"], area.size()])[0] == 2


def test_what_is_not_here_is_told_with_what_to_use():
    with pytest.raises(AttributeError, match=r"cudnn_rnn.*LSTMBlockFusedCell"):
        _ = tf.contrib.cudnn_rnn
